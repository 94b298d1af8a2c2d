"""One class for each kind of column: from what a table holds to numbers, to the engine's columns, and back.

A *coded* column has one number for each row: a number itself, days of a date, the number of a level, degrees. The
*engine's* columns are what distances are taken of.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from knotwise.data.cells import MICROSECONDS_PER_DAY, as_dates, as_floats, is_category, label_of, missing_in, some_rows
from knotwise.errors import InvalidInputError, nearest, warn
from knotwise.numerics.columns import InputColumn

MISSING_LEVEL = "(missing)"
OTHER_LEVEL = "(another level)"
#: mean radius in kilometres
EARTH_RADIUS = 6371.0088
SHOWN_LEVELS = 3
LEVEL_UNITS = "distances of two levels"
#: periods of dates that have a word
DAYS = {"year": 365.2425, "week": 7.0, "day": 1.0}


@dataclass(frozen=True)
class Numbers:
    """A column of numbers.

    `fill` takes the place of what is missing, None refuses it; with `indicator` a further column is 1 there and 0
    elsewhere. Each of `periods` adds the place on a circle, which has its own length-scale in radii.
    """

    name: str
    source: int
    fill: float | None = None
    indicator: bool = False
    periods: tuple[float, ...] = ()

    reads_text = False

    @property
    def may_lack(self) -> bool:
        """Whether values may be missing."""
        return self.fill is not None

    @property
    def sources(self) -> tuple[int, ...]:
        return (self.source,)

    @property
    def is_plain(self) -> bool:
        """Whether the engine's column is the column itself."""
        return type(self) is Numbers and self.fill is None and not self.periods

    def columns(self) -> list[InputColumn]:
        """What the engine's columns are."""
        label = f"{self.name} (missing)"
        flag = [InputColumn(label, label, self.sources, "level", 1.0, units=LEVEL_UNITS)] if self.indicator else []
        number = InputColumn(self.name, self.name, self.sources, units=self._units, origin=self._origin)
        return [number, *flag, *self._circles()]

    _units = ""

    @property
    def _origin(self) -> float:
        return 0.0

    def _circles(self) -> list[InputColumn]:
        found = []
        for period in self.periods:
            label = f"{self.name} ({self.period_word(period)})"
            for function in ("cos", "sin"):
                name = f"{function} of {label}"
                found.append(InputColumn(name, label, self.sources, "sphere", 1.0, radius=1.0, units="radii"))
        return found

    def period_word(self, period: float) -> str:
        """What a period is called."""
        return f"period {period:g}"

    def read(self, columns: list[Any], *, quiet: bool = False) -> np.ndarray:
        """The coded column [n, 1]: NaN where a value is missing."""
        return self._refuse_missing(as_floats(columns[self.source], f"Column {self.name!r}"))[:, None]

    def _refuse_missing(self, numbers: np.ndarray) -> np.ndarray:
        if np.isinf(numbers).any():
            rows = np.flatnonzero(np.isinf(numbers))
            raise InvalidInputError(f"Column {self.name!r} is infinite in {some_rows(rows)}. Correct it.", rows=rows)
        if self.fill is None and np.isnan(numbers).any():
            raise missing_error(self.name, np.flatnonzero(np.isnan(numbers)))
        return numbers

    def expand(self, coded: np.ndarray) -> np.ndarray:
        """The engine's columns of the coded column [n, 1]."""
        gaps = np.isnan(coded)
        value = np.where(gaps, self.fill or 0.0, coded) if gaps.any() else coded
        angles = [2 * np.pi * value / period for period in self.periods]
        flags = [gaps.astype(float)] if self.indicator else []
        return np.hstack([value, *flags, *(f(angle) for angle in angles for f in (np.cos, np.sin))])

    def contract(self, expanded: np.ndarray) -> np.ndarray:
        """The coded column of the engine's columns; of a date the number decides, not the place on a circle."""
        if not self.indicator:
            return expanded[:, :1]
        return np.where(expanded[:, 1:2] > 0.5, np.nan, expanded[:, :1])

    def decode(self, coded: np.ndarray) -> list[list[Any]]:
        """The values that the table would have, a list for each of the user's columns."""
        return [[None if np.isnan(value) else value for value in coded[:, 0].tolist()]]


@dataclass(frozen=True)
class Dates(Numbers):
    """A column of dates, as days since the first one of the fit; with time zones, in UTC."""

    origin: int = 0  # microseconds since 1970
    has_zone: bool = False

    reads_text = True
    _units = "days"

    @property
    def _origin(self):
        return self.origin / MICROSECONDS_PER_DAY

    def day_of(self, days: float) -> str:
        """The date so many days after the first one, without the time where it is midnight."""
        moment = np.datetime64(self.origin + round(days * MICROSECONDS_PER_DAY), "us")
        day = moment.astype("M8[D]")
        return str(day) if moment == day else str(moment.astype("M8[s]")).replace("T", " ")

    def period_word(self, period):
        return next((word for word, days in DAYS.items() if days == period), f"{period:g} days")

    def read(self, columns, *, quiet=False):
        what = f"Column {self.name!r}"
        micro, has_zone = as_dates(columns[self.source], what)
        if has_zone != self.has_zone and np.isfinite(micro).any():
            words = ("has time zones, but the fit had dates without", "has no time zones, but the fit had dates with")
            raise InvalidInputError(f"{what} {words[not has_zone]}. Convert one of them.")
        return self._refuse_missing((micro - self.origin) / MICROSECONDS_PER_DAY)[:, None]

    def decode(self, coded):
        micro = self.origin + np.round(coded[:, 0] * MICROSECONDS_PER_DAY)
        dates = [None if np.isnan(m) else np.datetime64(int(m), "us").item() for m in micro]
        if self.has_zone:
            from datetime import UTC

            dates = [None if d is None else d.replace(tzinfo=UTC) for d in dates]
        return [dates]


@dataclass(frozen=True)
class Category:
    """A column of levels: two different ones are at the distance 1, so that all are exchangeable.

    Each level has a column, and all levels that the fit did not see have one more, at the distance 1 from all others:
    an unseen level is a new draw. `allow_missing` takes a missing value for a level of its own: where the fit had some,
    or was told to fill gaps.
    """

    name: str
    source: int
    levels: tuple[str, ...]
    allow_missing: bool = False

    is_plain = False
    reads_text = True

    @property
    def may_lack(self) -> bool:
        return self.allow_missing

    @property
    def sources(self) -> tuple[int, ...]:
        return (self.source,)

    def columns(self) -> list[InputColumn]:
        return [
            InputColumn(
                f"{self.name}[{level}]", self.name, self.sources, "level", 2**0.5, units=LEVEL_UNITS, level=level
            )
            for level in (*self.levels, OTHER_LEVEL)
        ]

    def read(self, columns: list[Any], *, quiet: bool = False) -> np.ndarray:
        """The numbers of the levels, [n, 1]; that after the last stands for all levels that are new."""
        labels = labels_in(columns[self.source])
        missing = np.flatnonzero([label is None for label in labels])
        if len(missing) and not self.allow_missing:
            raise missing_error(self.name, missing)
        code_of = {level: code for code, level in enumerate(self.levels)}
        other = len(self.levels)
        named = [MISSING_LEVEL if label is None else label for label in labels]
        codes = np.array([code_of.get(label, other) for label in named], float)
        if not quiet and (codes == other).any():
            self._warn_of_new(named, np.flatnonzero(codes == other))
        return codes[:, None]

    def _warn_of_new(self, labels: list[str], rows: np.ndarray) -> None:
        """Warn in the same words at every call; which levels are new is said beside it."""
        new = list(dict.fromkeys(labels[row] for row in rows))
        more = f" and {len(new) - SHOWN_LEVELS} more" if len(new) > SHOWN_LEVELS else ""
        shown = ", ".join(map(repr, new[:SHOWN_LEVELS])) + more
        which = f"the level {shown}" if len(new) == 1 else f"{len(new)} levels ({shown})"
        meant = "".join(f" Did you mean {near!r}?" for near in [nearest(new[0], self.levels)] if near is not None)
        known = "of which nothing is known but how much levels differ."
        warn(
            f"Column {self.name!r} has levels that the fit did not see. They are predicted as one new level, {known} "
            "The log 'knotwise' names them, at the level INFO.",
            rows,
            f"Column {self.name!r} has {which} in {some_rows(rows)}, which the fit did not see.{meant} "
            f"{'It is predicted as a' if len(new) == 1 else 'They are predicted as one'} new level, {known}",
        )

    def expand(self, coded: np.ndarray) -> np.ndarray:
        """The columns of the levels, [n, L + 1]: 1 for that of the row, and 0."""
        return (coded == np.arange(len(self.levels) + 1)).astype(float)

    def contract(self, expanded: np.ndarray) -> np.ndarray:
        return np.argmax(expanded, axis=1).astype(float)[:, None]

    def decode(self, coded: np.ndarray) -> list[list[Any]]:
        names = [None if level == MISSING_LEVEL else level for level in (*self.levels, OTHER_LEVEL)]
        return [[names[int(code)] for code in coded[:, 0]]]


@dataclass(frozen=True)
class LonLat:
    """Longitude and latitude in degrees, as the place on the sphere in kilometres: distances are chords."""

    names: tuple[str, str]
    sources: tuple[int, int]

    is_plain = False
    reads_text = False
    may_lack = False

    @property
    def name(self) -> str:
        return ",".join(self.names)

    def columns(self) -> list[InputColumn]:
        return [
            InputColumn(f"{axis} of {self.name}", self.name, self.sources, "sphere", radius=EARTH_RADIUS, units="km")
            for axis in "xyz"
        ]

    def read(self, columns: list[Any], *, quiet: bool = False) -> np.ndarray:
        """Longitude and latitude, [n, 2]."""
        degrees = []
        for name, source, low, high in zip(self.names, self.sources, (-180, -90), (360, 90), strict=True):
            values = as_floats(columns[source], f"Column {name!r}")
            if np.isnan(values).any():
                raise missing_error(name, np.flatnonzero(np.isnan(values)), place=True)
            beyond = np.flatnonzero((values < low) | (values > high))
            if len(beyond):
                raise InvalidInputError(
                    f"Column {name!r} is {values[beyond[0]]:g} in {some_rows(beyond)}, but must lie between {low} and "
                    f"{high} degrees. Longitude comes first in `coords`; projected coordinates need no `coords`.",
                    rows=beyond,
                )
            degrees.append(values)
        return np.column_stack(degrees)

    def expand(self, coded: np.ndarray) -> np.ndarray:
        """The place in kilometres, [n, 3]."""
        lon, lat = np.radians(coded).T
        place = [np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)]
        return EARTH_RADIUS * np.column_stack(place)

    def contract(self, expanded: np.ndarray) -> np.ndarray:
        x, y, z = expanded.T
        return np.degrees(np.column_stack([np.arctan2(y, x), np.arctan2(z, np.hypot(x, y))]))

    def decode(self, coded: np.ndarray) -> list[list[Any]]:
        return [coded[:, 0].tolist(), coded[:, 1].tolist()]


def labels_in(column: Any) -> list[str | None]:
    """The levels of a column by name, None where one is missing."""
    if is_category(column) and hasattr(column, "cat"):
        names = [label_of(level) for level in column.cat.categories]
        return [names[code] if code >= 0 else None for code in column.cat.codes.to_numpy().tolist()]
    values = np.asarray(column, object)
    missing, known = missing_in(values), {}
    labels: list[str | None] = []
    for value, gap in zip(values.tolist(), missing.tolist(), strict=True):
        if gap:
            labels.append(None)
            continue
        key = (type(value), value)
        if key not in known:
            known[key] = label_of(value)
        labels.append(known[key])
    return labels


def missing_error(name: str, rows: np.ndarray, *, place: bool = False) -> InvalidInputError:
    """The error for values that must not be missing, with column and rows."""
    remedy = "Drop these rows" if place else "Drop these rows, or fit with `missing='mean'` or `missing='indicator'`"
    return InvalidInputError(f"Column {name!r} contains NaN or no value in {some_rows(rows)}. {remedy}.", rows=rows)
