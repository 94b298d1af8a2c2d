"""Single columns of a table as people give them: which values are missing, numbers, dates, levels."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any

import numpy as np

from knotwise.errors import InvalidInputError

__all__ = [
    "NamedRows",
    "and_more",
    "as_dates",
    "as_floats",
    "first_repeated",
    "is_basic_date",
    "is_category",
    "is_iso_date",
    "is_number",
    "is_text",
    "label_of",
    "missing_in",
    "plain",
    "raw_columns",
    "some_rows",
]

MICROSECONDS_PER_DAY = 86_400_000_000
SHOWN_ROWS = 5
#: 2024-01-31, 20240131 or 2024-W05-3, and after T or a space a time; Python alone takes 1610121512345 for 1610-12-15
ISO_DATE = re.compile(r"(\d{4}-\d\d-\d\d|\d{8}|\d{4}-?W\d\d(-?\d)?)([Tt ].+)?", re.ASCII)
#: years in which eight digits are a date rather than a code
FIRST_YEAR, LAST_YEAR = 1900, 2099
#: what to do with values that are numbers in another dress, by the name of their type
REMEDIES = {
    "Timedelta": "Convert durations to numbers (`column.dt.total_seconds()`)",
    "timedelta": "Convert durations to numbers (`duration.total_seconds()`)",
    "Period": "Convert periods to dates (`column.dt.to_timestamp()`)",
}


class NamedRows(np.ndarray):
    """Rows of any values whose columns have names, for those who have no data frames; some of the rows keep them."""

    column_names: Sequence[str]

    def __array_finalize__(self, source: Any) -> None:
        names = getattr(source, "column_names", ())
        if self.ndim == 2 and self.shape[1] == len(names):  # some of the rows, with all columns
            self.column_names = names

    @staticmethod
    def of(values: np.ndarray, names: Sequence[str]) -> NamedRows:
        rows = values.view(NamedRows)
        rows.column_names = list(names)
        return rows


def raw_columns(X: Any) -> tuple[list[Any], list[str] | None]:
    """The columns of a data frame, array or list of rows, as they are, and their names if they have names."""
    if hasattr(X, "columns") and hasattr(X, "dtypes"):
        names = list(X.columns)
        columns = [X.iloc[:, i] for i in range(len(names))] if hasattr(X, "iloc") else [X[name] for name in names]
        return columns, [str(name) for name in names]
    values = X if isinstance(X, np.ndarray) else np.array(X, object)
    if values.ndim != 2:
        raise InvalidInputError(
            f"X must be a table [n, D] of rows and columns, but has shape {values.shape}. Reshape your data: "
            "`X.reshape(-1, 1)` if it has a single column."
        )
    return list(np.asarray(values).T), list(X.column_names) if hasattr(X, "column_names") else None


def kind_of(column: Any) -> str:
    """The kind of a column's type as NumPy has it; "O" for what it does not know."""
    return getattr(getattr(column, "dtype", None), "kind", "O")


def is_category(column: Any) -> bool:
    """Whether a data frame says that a column is categorical."""
    return type(getattr(column, "dtype", None)).__name__ in ("CategoricalDtype", "Categorical", "Enum")


def missing_in(values: np.ndarray) -> np.ndarray:
    """Which values are missing, [n]: None, NaN, NaT or NA."""
    if values.dtype.kind in "biu":
        return np.zeros(len(values), bool)
    if values.dtype.kind == "f":
        return np.isnan(values)
    if values.dtype.kind == "M":
        return np.isnat(values)
    return np.fromiter((_is_missing(value) for value in values), bool, len(values))


def _is_missing(value: Any) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, np.datetime64):
        return bool(np.isnat(value))
    return isinstance(value, float | np.floating) and bool(np.isnan(value))


def first_repeated(names: Sequence[Any]) -> Any | None:
    """The first name that several columns have; None where all differ."""
    return next((name for name, count in Counter(names).items() if count > 1), None)


def is_text(value: Any) -> bool:
    """Whether a value is text, whatever it stands for."""
    return isinstance(value, str | bytes)


def plain(value: Any) -> Any:
    """A value of NumPy as Python has it, for words."""
    return value.item() if isinstance(value, np.generic) else value


def is_number(value: Any) -> bool:
    """Whether a value is a number, or text that is one."""
    if isinstance(value, date | np.datetime64 | np.timedelta64):
        return False
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def iso_date(text: str) -> datetime:
    """The date that a text is in ISO 8601; `ValueError` where it is none."""
    if ISO_DATE.fullmatch(text.strip()) is None:
        raise ValueError(f"{text!r} is no date")
    return datetime.fromisoformat(text.strip())


def is_iso_date(value: Any) -> bool:
    """Whether a value is text such as 2024-01-31 or 2024-01-31T12:00."""
    if not isinstance(value, str) or "-" not in value:
        return False
    try:
        iso_date(value)
    except ValueError:
        return False
    return True


def is_basic_date(value: Any) -> bool:
    """Whether a value is text of eight digits that are a date of our time, such as 20240131."""
    if not isinstance(value, str) or len(value.strip()) != 8:
        return False
    try:
        return FIRST_YEAR <= iso_date(value).year <= LAST_YEAR and value.strip().isdecimal()
    except ValueError:
        return False


def label_of(value: Any) -> str:
    """The name of a level: text as it is, and one name for 1, 1.0 and "1"."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if (
        isinstance(value, int | float | np.integer | np.floating)
        and float(value).is_integer()
        and abs(float(value)) < 2**53
    ):
        return str(int(value))
    return str(value)


def as_floats(column: Any, what: str) -> np.ndarray:
    """A column of numbers, [n], NaN where they are missing; `what` names it in errors."""
    if kind_of(column) in "biuf" and not is_category(column):
        if hasattr(column, "to_numpy") and type(column.dtype).__module__.startswith("pandas"):
            return column.to_numpy(dtype=float, na_value=np.nan)
        return np.asarray(column, float)
    values = np.asarray(column, object)
    missing = missing_in(values)
    numbers = np.full(len(values), np.nan)
    for row in np.flatnonzero(~missing):
        try:
            numbers[row] = float(values[row])
        except (TypeError, ValueError):
            remedy = REMEDIES.get(type(values[row]).__name__, "Correct it")
            raise InvalidInputError(
                f"{what} holds {values[row]!r:.100} in row {row}, which is not a number. {remedy}, or name the "
                "column in `categorical` and fit again if its values are levels.",
                rows=np.array([row]),
            ) from None
    return numbers


def as_dates(column: Any, what: str) -> tuple[np.ndarray, bool]:
    """A column of dates as microseconds since 1970 in UTC, [n], NaN where they are missing; and whether they have time
    zones. A number is refused: whether it counts days or seconds, and since when, would be a guess.
    """
    values = np.asarray(column)
    if values.dtype.kind == "M":
        micro = values.astype("M8[us]")
        aware = getattr(getattr(column, "dtype", None), "tz", None) is not None
        return np.where(np.isnat(micro), np.nan, micro.astype(np.int64).astype(float)), aware
    values = np.asarray(column, object)
    found, n_aware = np.full(len(values), np.nan), 0
    present = np.flatnonzero(~missing_in(values))
    for row in present:
        value = values[row]
        try:
            value = iso_date(value) if isinstance(value, str) else value
            if not isinstance(value, date | np.datetime64):
                raise TypeError
            if isinstance(value, datetime) and value.tzinfo is not None:
                value, n_aware = value.astimezone(UTC).replace(tzinfo=None), n_aware + 1
            found[row] = np.datetime64(value, "us").astype(np.int64)
        except (TypeError, ValueError):
            raise _no_date(values[row], int(row), what) from None
    if 0 < n_aware < len(present):
        raise InvalidInputError(f"{what} has dates with a time zone and dates without. Give all of them one.")
    return found, n_aware > 0


def _no_date(value: Any, row: int, what: str) -> InvalidInputError:
    """The error for a value among dates that is none, with what to write."""
    remedy = "convert them (for example with pandas.to_datetime)"
    if is_basic_date(label_of(value)):
        remedy = "convert numbers of eight digits (`pandas.to_datetime(column.astype(str))`)"
    elif is_number(value):
        remedy = "convert numbers by what they count (`pandas.to_datetime(column, unit='s')`)"
    return InvalidInputError(
        f"{what} holds {plain(value)!r:.100} in row {row}, which is not a date. Write dates as 2024-01-31, {remedy}, "
        "or name the column in `categorical` and fit again if its values are levels.",
        rows=np.array([row]),
    )


def some_rows(rows: np.ndarray) -> str:
    """The first of some rows, in words."""
    shown = ", ".join(map(str, rows[:SHOWN_ROWS]))
    more = f" and {len(rows) - SHOWN_ROWS} more" if len(rows) > SHOWN_ROWS else ""
    return f"row{'s' if len(rows) > 1 else ''} {shown}{more}"


def and_more(n_bad: int) -> str:
    """How many rows are bad beside the one that is named."""
    return f" and {n_bad - 1} more row{'s' if n_bad > 2 else ''}" if n_bad > 1 else ""
