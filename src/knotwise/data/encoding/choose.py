"""Which kind each column of a table is, from the table and the options of an estimator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import date
from typing import Any

import numpy as np

from knotwise.data import cells
from knotwise.data.cell_text import is_basic_date, is_guessed_date, is_iso_date, is_numeral, meant_as_number
from knotwise.data.encoding.encoding import Encoding, Kind, source_names
from knotwise.data.encoding.kinds import DAYS, MISSING_LEVEL, Category, Dates, LonLat, Numbers, labels_in
from knotwise.errors import InvalidInputError, unknown_option, warn
from knotwise.numerics.columns import as_list_of_columns, column_indices

MISSING_WORDS = ("error", "mean", "indicator")
#: levels beyond which a column of text is taken for something else than a category, and beyond which nothing goes
MANY_LEVELS, MOST_LEVELS = 100, 1000
FEW_LEVELS = 10  # that may be as many as half of the rows
LON_NAMES, LAT_NAMES = ("lon", "longitude", "lng", "long"), ("lat", "latitude")
HIGH_LATITUDE = 45.0  # where a degree of longitude is 0.7 of one of latitude


def choose_encoding(options: Any, X: Any, weights: np.ndarray | None = None) -> Encoding | None:
    """The encoding of a table that is to be fitted; None where all columns are plain numbers.

    `options` is an estimator with `categorical`, `missing`, `coords` and `periods`. Rows of weight 0 do not count.
    """
    _check_words(options)
    asked = options.coords is not None or options.periods or options.missing != "error"
    if options.coords is None:
        warn_of_degrees(X)
    if not asked and isinstance(options.categorical, str) and _all_numbers(X):
        return None
    columns, names = cells.raw_columns(X)
    if not len(columns) or not len(columns[0]):
        return None  # for which there are words elsewhere
    features = None if names is None else tuple(names)
    chooser = _Chooser(options, columns, features, weights)
    encoding = Encoding(tuple(chooser.kinds()), len(columns), features)
    _refuse_names_of_parts(encoding)
    return None if all(kind.is_plain for kind in encoding.kinds) else encoding


class _Chooser:
    """The columns of a table, and what the options say of each."""

    def __init__(
        self, options: Any, columns: list[Any], features: tuple[str, ...] | None, weights: np.ndarray | None
    ) -> None:
        self.missing, self.columns, self.has_names = options.missing, columns, features is not None
        self.names = source_names(features, len(columns))
        self.weights = np.ones(len(columns[0])) if weights is None else weights
        self.counted = np.flatnonzero(self.weights)

        def indices(given: Any, owner: str) -> list[int]:
            return column_indices(given, features, len(columns), owner=owner)

        named = [] if isinstance(options.categorical, str) else options.categorical
        self.categorical = set(indices(named, "`categorical`"))
        self.places = place_columns(options.coords, features, len(columns), indices)
        self.periods = _periods(options.periods, indices)
        twice = [self.names[i] for i in self.places if i in self.categorical or i in self.periods]
        if twice:
            raise InvalidInputError(
                f"The column {twice[0]!r} is a coordinate by `coords`, so that neither `categorical` nor `periods` can "
                "name it. Leave one of them out."
            )

    def kinds(self) -> list[Kind]:
        """The kind of each column, in the order of the columns."""
        found: list[Kind] = []
        for i in range(len(self.columns)):
            if i in self.places:
                if i == min(self.places):
                    lon, lat = self.places
                    names = (self.names[lon], self.names[lat]) if self.has_names else ("lon", "lat")
                    found.append(LonLat(names, (lon, lat)))
                continue
            kind = self._kind(i)
            if i in self.periods and isinstance(kind, Category):
                raise InvalidInputError(f"`periods` names {self.names[i]!r}, but its values are levels of a category.")
            found.append(kind)
        return found

    def _kind(self, i: int) -> Kind:
        column = self.columns[i]
        if i in self.categorical or cells.is_category(column):
            return self._category(i, named=True)
        kind = cells.kind_of(column)
        if kind in "biuf":
            return self._numbers(i)
        if kind == "M":
            return self._dates(i)
        values = np.asarray(column, object)[self.counted]
        values = values[~cells.missing_in(values)]
        words = _what_values_are(values)
        if words == "numbers":
            _refuse_numerals(column, self.names[i])
            return self._numbers(i)
        if words == "dates":
            return self._dates(i)
        _refuse_other_dates(values, self.names[i])
        return self._category(i, named=False)

    def _numbers(self, i: int) -> Numbers:
        return Numbers(self.names[i], i, *self._fill(i), self._periods_of(i, {}))

    def _dates(self, i: int) -> Dates:
        micro, has_zone = cells.as_dates(self.columns[i], f"Column {self.names[i]!r}")
        present = micro[self.counted][np.isfinite(micro[self.counted])]
        origin = int(present.min()) if len(present) else 0
        fill, indicator = self._fill(i, (micro - origin) / cells.MICROSECONDS_PER_DAY)
        return Dates(self.names[i], i, fill, indicator, self._periods_of(i, DAYS), origin, has_zone)

    def _fill(self, i: int, values: np.ndarray | None = None) -> tuple[float | None, bool]:
        """What stands for a missing value, and whether a column says that it does."""
        if self.missing == "error":
            return None, False
        if values is None:
            values = cells.as_floats(self.columns[i], f"Column {self.names[i]!r}")
        present = self.counted[~np.isnan(values[self.counted])]
        if not len(present):
            raise InvalidInputError(f"Column {self.names[i]!r} has no value in any row. Leave it out.")
        fill = float(np.average(values[present], weights=self.weights[present]))
        return fill, self.missing == "indicator" and len(present) < len(self.counted)

    def _periods_of(self, i: int, words: Mapping[str, float]) -> tuple[float, ...]:
        found = []
        for period in self.periods.get(i, ()):
            if isinstance(period, str) and period not in words:
                raise unknown_option(
                    f"The period of {self.names[i]!r}, which is a word for dates only,", period, words or ["a number"]
                )
            length = words[period] if isinstance(period, str) else period
            number = isinstance(length, int | float | np.number) and not isinstance(length, bool)
            if not number or not 0 < float(length) < np.inf:
                raise InvalidInputError(
                    f"`periods` has {period!r} for {self.names[i]!r}; it must be a positive number in the units of the "
                    "column (days for dates), or for dates 'year', 'week' or 'day'."
                )
            found.append(float(length))
        return tuple(found)

    def _category(self, i: int, *, named: bool) -> Category:
        name, labels = self.names[i], labels_in(self.columns[i])
        counts = Counter(labels[row] for row in self.counted.tolist())
        n_missing = counts.pop(None, 0)
        levels = sorted(label for label in counts if label is not None)
        many = len(levels) > MOST_LEVELS if named else too_many_levels(len(levels), len(self.counted))
        if many and not named:
            _refuse_numbers_in_text(labels, self.counted, name)
        if many:
            advice = (
                f"at most {MOST_LEVELS} are possible: join some of them, or leave the column out."
                if named
                else "that is no category but a name or number of each row, or text. Leave the column out, or name it "
                "in `categorical` if it is one."
            )
            raise InvalidInputError(
                f"Column {name!r} has {len(levels)} different values in {len(self.counted)} rows, such as "
                f"{', '.join(map(repr, levels[:3]))}: {advice}"
            )
        if not levels:
            raise InvalidInputError(f"Column {name!r} has no value in any row. Leave it out.")
        gap = [MISSING_LEVEL] if n_missing and MISSING_LEVEL not in levels else []
        return Category(name, i, (*levels, *gap), self.missing != "error" or None in labels)


def too_many_levels(n_levels: int, n_rows: int) -> bool:
    """Whether different values of a column that nobody has named are too many for the levels of a category."""
    return n_levels > MANY_LEVELS or n_levels > max(FEW_LEVELS, n_rows / 2)


def _check_words(options: Any) -> None:
    if not isinstance(options.missing, str) or options.missing not in MISSING_WORDS:
        raise unknown_option("`missing`", options.missing, MISSING_WORDS)
    if isinstance(options.categorical, str) and options.categorical != "auto":
        raise InvalidInputError(
            f"`categorical` is {options.categorical!r}; it must be 'auto' or a list of columns, such as "
            f"[{options.categorical!r}]."
        )
    if options.periods is not None and not isinstance(options.periods, Mapping):
        raise InvalidInputError(
            f"`periods` is {options.periods!r}; it must be a dict from columns to a period or a list of them, such as "
            "{'when': 'year'}."
        )


def _all_numbers(X: Any) -> bool:
    """Whether the types of the columns say that all are numbers, without a look at the values."""
    if hasattr(X, "columns") and hasattr(X, "dtypes"):
        return all(getattr(dtype, "kind", "O") in tuple("biufcm") for dtype in X.dtypes)
    return not _is_table_of_objects(X)


def _is_table_of_objects(X: Any) -> bool:
    """Whether X is an array or a list of rows whose values must be looked at one by one."""
    if isinstance(X, np.ndarray):
        return X.dtype.kind in "OUSM" and X.ndim == 2
    if not isinstance(X, list | tuple) or not len(X) or not isinstance(X[0], list | tuple):
        return False
    return all(isinstance(row, list | tuple) and len(row) == len(X[0]) for row in X) and any(
        isinstance(value, str | bytes | date | np.datetime64) for row in X for value in row
    )


def _what_values_are(values: np.ndarray) -> str:
    """What the values of a column of objects are: "numbers", "dates" or "levels".

    Text is levels, also where it looks like numbers: '101' may be a code. It is dates where most of it is 2024-01-31 or
    the like, or all of it 20240131. Some text among numbers or dates is an error rather than a level, so most must be
    text. What is neither (a list, a duration) counts as a number here, and is refused as one.
    """
    found = values.tolist()
    n_text = sum(map(cells.is_text, found))
    n_dates = sum(isinstance(value, date | np.datetime64) or is_iso_date(value) for value in found)
    if n_dates > len(found) / 2 or (n_text and all(map(is_basic_date, found))):
        return "dates"
    return "levels" if n_text > len(found) / 2 else "numbers"


def _refuse_numerals(column: Any, name: str) -> None:
    """Refuse text that looks like a number among numbers: it may be one, or a code."""
    for row, value in enumerate(np.asarray(column, object).tolist()):
        if cells.is_text(value) and cells.is_number(value):
            raise InvalidInputError(
                f"Column {name!r} holds the text {cells.plain(value)!r:.100} in row {row}, among numbers. Convert the "
                "column (`pandas.to_numeric(column)`), or name it in `categorical` if its values are levels.",
                rows=np.array([row]),
            )


def _refuse_numbers_in_text(labels: list[str | None], rows: np.ndarray, name: str) -> None:
    """Refuse text that is mostly numbers, and too many of them for levels, with the first value that is none."""
    texts = {row: label for row in rows.tolist() if (label := labels[row]) is not None}
    if sum(meant_as_number(text, ",") for text in texts.values()) <= len(texts) / 2:
        return
    bad = next((row for row, text in texts.items() if not is_numeral(text)), None)
    slip = "" if bad is None else f" holds {texts[bad]!r:.100} in row {bad}, which is not a number, and"
    comma = bad is not None and is_numeral(texts[bad].replace(",", "."))
    first = "Correct it, and convert the column first" if slip and not comma else "Convert the column first"
    column = "column.str.replace(',', '.')" if comma else "column"
    raise InvalidInputError(
        f"Column {name!r}{slip} is text that looks like numbers, with {len(set(texts.values()))} different values in "
        f"{len(rows)} rows. Text stays text. {first} (`pandas.to_numeric({column})`), or name it in `categorical` if "
        "its values are levels.",
        rows=np.array([] if bad is None else [bad], int),
    )


def _refuse_names_of_parts(encoding: Encoding) -> None:
    """Refuse a column that is called as what is made of another, "when (year)": one name is one thing."""
    for kind in encoding.kinds:
        for column in kind.columns():
            if column.label != kind.name and column.label in (encoding.features or ()):
                raise InvalidInputError(
                    f"X has a column {column.label!r}, and what is made of the column {kind.name!r} is called so, too. "
                    "Rename one of them."
                )


def _refuse_other_dates(values: np.ndarray, name: str) -> None:
    """Refuse text that is mostly dates in a form whose day, month or year is a guess: they would become levels."""
    found = [value for value in values.tolist() if is_guessed_date(value)]
    if len(found) > len(values) / 2:
        raise InvalidInputError(
            f"Column {name!r} holds {found[0]!r:.40}, which looks like a date whose day or month is a guess. Write "
            "dates as 2024-01-31, convert them (for example with pandas.to_datetime), or name the column in "
            "`categorical` if its values are levels."
        )


def _periods(given: Any, indices: Any) -> dict[int, list[Any]]:
    return {indices(column, "`periods`")[0]: as_list_of_columns(period) for column, period in (given or {}).items()}


def place_columns(coords: Any, features: tuple[str, ...] | None, n_columns: int, indices: Any) -> list[int]:
    """The columns of longitude and latitude; none where no coordinates are asked for."""
    if coords is None:
        return []
    kind, given = coords if isinstance(coords, list | tuple) and len(coords) == 2 else (coords, None)
    if kind != "lonlat":
        raise InvalidInputError(
            f"`coords` is {coords!r}; it must be None, 'lonlat', or ('lonlat', [longitude, latitude]) with the names "
            "or numbers of two columns."
        )
    if given is not None:
        found = indices(given, "`coords`")
        if len(found) == 2 and found[0] != found[1]:
            return found
        raise InvalidInputError(f"`coords` names {given!r}; it must name two columns, longitude and latitude.")
    found = _degrees_by_name(features)
    if len(found) == 2:
        return found
    if (n_columns == 2 and features is None) or (features is not None and features[:2] == ("x", "y")):
        return [0, 1]  # x and y of a frame of points come first
    raise InvalidInputError(
        "`coords='lonlat'` needs to know which columns are longitude and latitude: name them lon and lat, or write "
        "coords=('lonlat', [longitude, latitude]) with their names or numbers."
    )


def _degrees_by_name(features: tuple[str, ...] | None) -> list[int]:
    """The columns that are called longitude and latitude, in this order; others have no names of their own."""
    lowered = [] if features is None else [name.strip().lower() for name in features]
    called = [next((name for name in names if name in lowered), None) for names in (LON_NAMES, LAT_NAMES)]
    return [lowered.index(name) for name in called if name is not None]


def warn_of_degrees(X: Any) -> None:
    """Say so where columns are degrees far from the equator, where a degree of longitude is short."""
    if not hasattr(X, "columns") and not hasattr(X, "column_names"):
        return
    columns, names = cells.raw_columns(X)
    found = [] if names is None else _degrees_by_name(tuple(names))
    if names is None or len(found) < 2 or any(cells.kind_of(columns[i]) not in tuple("iuf") for i in found):
        return
    lon, lat = (cells.as_floats(columns[i], names[i]) for i in found)
    lon, lat = lon[np.isfinite(lon)], lat[np.isfinite(lat)]
    if not len(lat) or not len(lon) or np.abs(lat).max() > 90 or lon.min() < -180 or lon.max() > 360:
        return
    typical = float(np.median(np.abs(lat)))
    if typical > HIGH_LATITUDE:
        lon_name, lat_name = (names[i] for i in found)
        warn(
            f"The columns {lon_name!r} and {lat_name!r} are taken for plain numbers, but look like degrees: at "
            f"latitude {typical:.0f} a degree of longitude is {np.cos(np.radians(typical)):.2f} of one of latitude, so "
            "distances are wrong. Use coords='lonlat' for distances on the sphere, or a map projection such as UTM."
        )
