"""Columns by index or name, and points that vary in one or two of them while the others stay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from knotwise.errors import InvalidInputError
from knotwise.estimators.effects import levels_of
from knotwise.numerics.columns import column_index
from knotwise.plotting.style import shorten

if TYPE_CHECKING:
    from matplotlib.axis import Axis

LONGEST = 52  # letters of a title that names columns one by one


def refuse_levels(encoding: Any, columns: Sequence[int]) -> None:
    """Refuse to draw along a category, whose levels have no order."""
    for column in [] if encoding is None else columns:
        if levels_of(encoding, column):
            kind = encoding.kind_of(column)
            raise InvalidInputError(
                f"The column {kind.name!r} is a category, whose levels have no order. Draw along a column of numbers, "
                f"for one level: at={{{kind.name!r}: {kind.levels[0]!r}}}."
            )


def place_of(
    X: np.ndarray | None, at: Any, names: Sequence[str], free: Sequence[int], encoding: Any = None
) -> np.ndarray:
    """The point at which columns stay that do not vary: the medians of X, but for what `at` says.

    `at` is a mapping from columns to values, or one value for each column. Of a category it is the most frequent level,
    or the one that `at` names.
    """
    place = np.full(len(names), np.nan) if X is None else _typical(X, encoding)
    if isinstance(at, Mapping):
        for feature, value in at.items():
            column = column_index(feature, names, "A column of `at`")
            if encoding is None and isinstance(value, str):
                raise InvalidInputError(
                    f"`at` has {value!r} for {names[column]!r}, a column of numbers. Give a number."
                )
            place[column] = value if encoding is None else encoding.code(column, value)
    elif at is not None:
        given = np.asarray(at, float)
        if given.shape != place.shape:
            raise InvalidInputError(
                f"`at` must be a mapping from columns to values, or {len(names)} values, one for each column; "
                f"its shape is {given.shape}."
            )
        place = given.copy()
    missing = [names[i] for i in range(len(names)) if i not in free and not np.isfinite(place[i])]
    if missing:
        raise InvalidInputError(
            f"The column {missing[0]!r} needs a finite value to stay at: pass rows as X, to take its median, "
            f"or at={{{missing[0]!r}: value}}."
        )
    return place


def points_along(place: np.ndarray, values: Mapping[int, np.ndarray]) -> np.ndarray:
    """Rows at `place` in which the given columns take the given values, [n, D]."""
    n = len(next(iter(values.values())))
    points = np.tile(place, (n, 1))
    for column, along in values.items():
        points[:, column] = along
    return points


def _typical(X: np.ndarray, encoding: Any) -> np.ndarray:
    """Medians of columns of numbers, and the most frequent level of a category."""
    if encoding is None:
        return np.median(X, axis=0)
    place = np.nanmedian(X, axis=0)
    for column in range(X.shape[1]):
        if levels_of(encoding, column):
            place[column] = np.argmax(np.bincount(X[:, column].astype(int)))
    return place


def describe_others(
    place: np.ndarray, names: Sequence[str], free: Sequence[int], *, medians: bool, encoding: Any = None
) -> str:
    """Where the columns stay that do not vary, for a title; empty if all vary."""
    others = [i for i in range(len(names)) if i not in free]
    if not others:
        return ""
    shown = place if encoding is None else encoding.decode(place[None])[0]
    values = ", ".join(f"{shorten(names[i], 24)} = {_number(shown[i])}" for i in others)
    text = f"at {'median ' if medians else ''}{values}"
    if len(text) <= LONGEST or len(others) == 1:
        return text
    return f"the other {len(others)} columns at " + ("their medians" if medians else "given values")


def _number(value: Any) -> str:
    """Enough digits to tell places apart, also far from the origin; levels and dates as they are."""
    if not isinstance(value, float):
        return shorten(str(value).removesuffix(" 00:00:00"), 24)
    return f"{value:.4g}" if abs(value) < 1e4 else f"{value:.10g}"


MOST_ROUND = 7  # places for which matplotlib knows round ones of any range, at least 3


def write_dates(axis: Axis, encoding: Any, column: int, *, most: int = MOST_ROUND) -> None:
    """Write dates at round places of an axis that shows a column of dates, and leave any other as it is.

    Call it when the axis has its limits and its label: what all dates share, such as the year, is added to that.
    """
    origin = None if encoding is None else getattr(encoding.kind_of(column), "origin", None)
    if origin is None:
        return
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num, num2date

    first = float(date2num(np.datetime64(origin, "us")))
    low, high = (first + float(end) for end in axis.get_view_interval())
    locator = AutoDateLocator(minticks=3, maxticks=MOST_ROUND)
    places = np.array([place for place in locator.tick_values(num2date(low), num2date(high)) if low <= place <= high])
    places = places[:: -(-len(places) // most) or 1]
    formatter = ConciseDateFormatter(locator)
    axis.set_ticks(places - first, formatter.format_ticks(places))
    shared = formatter.get_offset()
    if shared:
        axis.set_label_text(f"{axis.get_label_text()} ({shared})")
