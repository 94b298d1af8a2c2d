"""Columns and values of a table as people give them: which are missing, numbers, dates, text, levels.

The one reader of cells, of data frames and of files, whose texts mean what `cell_text` says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np

from knotwise.data.cell_text import are_plain, is_basic_date, is_gap, iso_date, number_or_gap, to_float, with_point
from knotwise.errors import InvalidInputError

MICROSECONDS_PER_DAY = 86_400_000_000
SHOWN_ROWS = 5
#: types of which a value can differ from itself
HAVE_NAN = (float, complex, np.inexact, np.datetime64, np.timedelta64)
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
    return np.fromiter(map(is_missing, values), bool, len(values))


def is_missing(value: Any) -> bool:
    """Whether a value is missing: None, NaN of any kind, NaT or NA."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, Decimal):
        return value.is_nan()
    return isinstance(value, HAVE_NAN) and bool(value != value)  # noqa: PLR0124


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
        number_of(value)
    except (TypeError, ValueError):
        return False
    return True


def number_of(value: Any) -> float:
    """The number that a value is, text with it; `TypeError` or `ValueError` where it is none."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    return to_float(value) if isinstance(value, str) else float(value)


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
            numbers[row] = number_of(values[row])
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


def bad_rows(bad: np.ndarray) -> np.ndarray:
    """The rows that have a bad entry."""
    return np.flatnonzero(bad.reshape(len(bad), -1).any(1)) if bad.ndim else np.array([], int)


def where_bad(bad: np.ndarray, columns: Sequence[Any] | None = None) -> str:
    """The first bad entry by row and column, and how many more rows there are; nothing for a single number."""
    if bad.ndim == 0:
        return ""
    rows = bad_rows(bad)
    if bad.ndim == 1:
        return f" in row {rows[0]}{and_more(len(rows))}"
    column = int(np.flatnonzero(bad[rows[0]].ravel())[0])
    named = repr(columns[column]) if columns is not None and column < len(columns) else column
    return f" in row {rows[0]}, column {named}{',' if len(rows) > 1 else ''}{and_more(len(rows))}"


# -- files ----------------------------------------------------------------------------------------


class NotANumberError(ValueError):
    """A cell of a file that is neither a finite number nor missing; `index` is its row within the piece."""

    def __init__(self, index: int, value: str) -> None:
        super().__init__(value)
        self.index, self.value = index, value


def missing_texts(texts: Sequence[str]) -> np.ndarray:
    """Which cells of a file are gaps, [n]."""
    return np.fromiter(map(is_gap, texts), bool, len(texts))


def numbers_of(cells: Sequence[str], decimal: str = ".") -> np.ndarray:
    """The numbers of cells of a file, [n], NaN for gaps; `NotANumberError` tells the first that is no number."""
    texts = cells if decimal == "." else [with_point(text, decimal) for text in cells]
    try:
        numbers = np.fromiter(map(float if are_plain(texts) else to_float, texts), float, len(texts))
    except ValueError:  # rare, so the rows are looked at one by one only then
        numbers = np.empty(len(texts))
        for i, text in enumerate(texts):
            number = number_or_gap(text)
            if number is None:
                raise NotANumberError(i, cells[i].strip()) from None
            numbers[i] = number
    if np.isinf(numbers).any():
        index = int(np.argmax(np.isinf(numbers)))
        raise NotANumberError(index, cells[index].strip())
    return numbers
