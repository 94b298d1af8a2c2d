"""Data must be numbers: masked values, dates, text, NaN and infinities are refused with row and column."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, time, timedelta
from typing import Any

import numpy as np

from knotwise.data.encoding.cells import first_repeated, is_text, missing_in, plain
from knotwise.distributed.collections import is_dask
from knotwise.errors import InvalidInputError

__all__ = [
    "and_more",
    "as_finite_numbers",
    "as_numbers",
    "column_names",
    "refuse_masked",
    "refuse_masked_and_dates",
    "refuse_missing_labels",
    "refuse_non_finite",
    "refuse_repeated_names",
    "refuse_text",
]

DATES = (date, time, timedelta, np.datetime64, np.timedelta64)  # those of pandas, and its NaT, are among them


def as_numbers(given: Any, name: str) -> np.ndarray:
    """A float64 array of any shape; missing values of every kind are NaN in it, and what is no number is refused."""
    if is_dask(given):
        raise InvalidInputError(
            f"{_what(name)} is a Dask collection, but X is not. Give X as one too, or compute the other (`.compute()`)."
        )
    refuse_masked_and_dates(given, name)
    if getattr(getattr(given, "dtype", None), "kind", "") == "c":
        raise InvalidInputError(f"Complex data not supported: {_what(name)} has the type {given.dtype}.")
    try:
        return np.asarray(given, float)
    except (TypeError, ValueError):
        values = np.asarray(given, object)
    numbers = np.full(values.shape, np.nan)
    for place, value in np.ndenumerate(values):
        if type(value).__name__ == "NAType":  # of pandas
            continue
        try:
            numbers[place] = float(value)
        except (TypeError, ValueError):
            where = f" in row {place[0]}" if place else ""
            raise InvalidInputError(
                f"{_what(name)} must be numbers, one for each row, but is {value!r:.100}{where}.",
                rows=np.array(place[:1], int),
            ) from None
    return numbers


def as_finite_numbers(given: Any, name: str) -> np.ndarray:
    """A float64 array of any shape without missing values."""
    values = as_numbers(given, name)
    refuse_non_finite(values, name)
    return values


def refuse_masked(given: Any, name: str) -> None:
    """Refuse masked values, which an array without masks would take for data."""
    if isinstance(given, np.ma.MaskedArray) and np.ma.is_masked(given):
        masked = np.ma.getmaskarray(given)
        raise _masked(f"{_what(name)} is masked{_where(masked)}", _bad_rows(masked))


def refuse_masked_and_dates(given: Any, name: str) -> None:
    """Refuse masked values, which an array without masks would take for data, and dates, whose units are hidden."""
    refuse_masked(given, name)
    if hasattr(given, "columns") and hasattr(given, "dtypes"):
        for column, dtype in zip(given.columns, given.dtypes, strict=True):
            if getattr(dtype, "kind", "O") in "mM":
                raise _dates(f"Column {column!r}", dtype)
        return
    if isinstance(given, list | tuple):
        for row, part in enumerate(given):
            if isinstance(part, np.ma.MaskedArray) and np.ma.is_masked(part):
                raise _masked(f"{_what(name)} is masked in row {row}", np.array([row]))
        try:
            given = np.asarray(given)
        except ValueError:  # rows of different lengths, for which there are other words
            return
    kind = getattr(getattr(given, "dtype", None), "kind", "")
    if kind in ("m", "M"):
        raise _dates(_what(name), given.dtype)
    if kind == "O":
        for place, value in np.ndenumerate(np.asarray(given, object)):
            if isinstance(value, DATES):
                raise _dates(_what(name), f"{value!s} in row {place[0]}" if place else value)


def refuse_text(
    X: Any,
    advice: str = "Correct it or drop the column; if its values are levels, name it in `categorical`.",
    *,
    numerals: bool = False,
) -> None:
    """Refuse a column that holds something else than numbers, by name or number.

    Text that looks like a number is none in a fit; `numerals` lets it pass where the fit has seen numbers.
    """
    for name, column in _columns_of_objects(X):
        for row, value in enumerate(column):
            if isinstance(value, DATES):
                raise _dates(f"Column {name!r}", f"{value!s} in row {row}")
            try:
                float(value)
            except (TypeError, ValueError):
                what = "which is not a number"
            else:
                if numerals or not is_text(value):
                    continue
                what = "which is text and may be a code (`pandas.to_numeric(column)` makes numbers of it)"
            raise InvalidInputError(
                f"Column {name!r} holds {plain(value)!r:.100} in row {row}, {what}. {advice}", rows=np.array([row])
            )


def _columns_of_objects(X: Any) -> list[tuple[Any, Any]]:
    """The columns of a data frame whose type says nothing of their values, or those of an array that has text."""
    if hasattr(X, "dtypes") and hasattr(X, "columns"):
        of_columns = zip(X.columns, X.dtypes, strict=True)
        return [(name, X[name]) for name, dtype in of_columns if getattr(dtype, "kind", "O") in "OSUT"]
    try:
        values = np.asarray(X)
    except ValueError:  # rows of different lengths, for which there are other words
        return []
    if values.ndim != 2 or values.dtype.kind not in "OSU" or not any(map(is_text, values.flat)):
        return []
    return list(enumerate(values.T))


def refuse_repeated_names(X: Any) -> None:
    """Refuse a data frame in which two columns have one name: nobody knows which of them is meant."""
    names = column_names(X)
    repeated = None if names is None else first_repeated(names)
    if repeated is not None:
        where = [str(i) for i, name in enumerate(names or ()) if name == repeated]
        raise InvalidInputError(
            f"X has {len(where)} columns of one name, {repeated!r} (columns {', '.join(where)}, counted from 0). "
            "Rename or drop all but one."
        )


def refuse_missing_labels(y: Any) -> None:
    """Refuse labels of classes of which some are missing, with the first row; numbers are looked at elsewhere."""
    labels = np.asarray(y)
    missing = missing_in(labels) if labels.ndim == 1 and labels.dtype.kind == "O" else np.zeros(1, bool)
    if missing.any():
        raise InvalidInputError(
            f"Input y contains no label{_where(missing)}. Drop these rows, or give them one.", rows=_bad_rows(missing)
        )


def refuse_non_finite(
    values: np.ndarray, name: str, columns: Sequence[Any] | None = None, advice: str | None = None
) -> None:
    """Refuse NaN and infinities, with the first row that has one and its column, by name where there are names."""
    # the sum is finite if every entry is (or overflows, which the exact test then clears)
    with np.errstate(all="ignore"):
        if np.isfinite(values.sum()):
            return
    bad = ~np.isfinite(values)
    if not bad.any():
        return
    kind = "NaN" if np.isnan(values[bad][0]) else "infinity"
    if advice is None:
        fill = ", or fit with `missing='mean'`" if name == "X" and kind == "NaN" else ""
        advice = f"Drop or impute these rows{fill}."
    raise InvalidInputError(
        f"{_what(name)} contains {kind}{_where(bad, columns)}. {advice}",
        rows=_bad_rows(bad),
    )


def column_names(X: Any) -> list[Any] | None:
    """The names of the columns of a data frame; None for an array."""
    return list(X.columns) if hasattr(X, "columns") else None


def and_more(n_bad: int) -> str:
    """How many rows are bad beside the one that is named."""
    return f" and {n_bad - 1} more row{'s' if n_bad > 2 else ''}" if n_bad > 1 else ""


def _what(name: str) -> str:
    return f"Input {name}" if name in ("X", "y") else f"`{name}`"


def _masked(what: str, rows: np.ndarray) -> InvalidInputError:
    return InvalidInputError(
        f"{what}. A masked value is missing: drop these rows, or fill them with numbers (`.filled(...)`).", rows=rows
    )


def _dates(what: str, found: Any) -> InvalidInputError:
    return InvalidInputError(
        f"{what} holds dates or times ({found}), which are not numbers. Convert them, say to days since the first."
    )


def _bad_rows(bad: np.ndarray) -> np.ndarray:
    return np.flatnonzero(bad.reshape(len(bad), -1).any(1)) if bad.ndim else np.array([], int)


def _where(bad: np.ndarray, columns: Sequence[Any] | None = None) -> str:
    """The first bad entry by row and column, and how many more rows there are; nothing for a single number."""
    if bad.ndim == 0:
        return ""
    rows = _bad_rows(bad)
    if bad.ndim == 1:
        return f" in row {rows[0]}{and_more(len(rows))}"
    column = int(np.flatnonzero(bad[rows[0]].ravel())[0])
    named = repr(columns[column]) if columns is not None and column < len(columns) else column
    return f" in row {rows[0]}, column {named}{',' if len(rows) > 1 else ''}{and_more(len(rows))}"
