"""The public door: arrays and options are checked here, once, and the core trusts them.

Data must be numbers: masked values, dates, text, NaN and infinities are refused with row and column.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from datetime import date, time, timedelta
from typing import Any

import numpy as np
from sklearn.utils.validation import _num_samples, check_array, check_X_y, validate_data

from knotwise.data import cells
from knotwise.data.encoding.choose import choose_encoding
from knotwise.data.encoding.encoding import CodedRows, EncodedRows
from knotwise.data.geometry import as_columns
from knotwise.errors import FitWarning, InvalidInputError
from knotwise.numerics.blocks import is_dask

#: copies of one row beyond which rounding lifts the bound of a fit with automatic knots above the exact evidence
LARGEST_WEIGHT = 1e8
#: a row that counts less changes no digit of anything, and one over it is still a number
SMALLEST_WEIGHT = 1e-100
DATES = (date, time, timedelta, np.datetime64, np.timedelta64)  # those of pandas, and its NaT, are among them


def check_inputs(estimator: Any, X: Any) -> np.ndarray:
    """Inputs of a fitted estimator as a finite float64 array [n, E]: numbers, or encoded as the fit encoded them."""
    if isinstance(X, EncodedRows):
        return X
    if isinstance(X, CodedRows):
        return estimator._encoding.expand(X)
    if is_dask(X):
        raise InvalidInputError(
            "X is a Dask collection, but this needs all its rows in one place. Give rows that fit in memory "
            "(`X.compute()`)."
        )
    X = X if isinstance(X, np.ndarray) else as_columns(X, estimator.crs_)
    if estimator._encoding is not None:
        return estimator._encoding.expand(check_coded(estimator, X))
    refuse_repeated_names(X)
    refuse_masked_and_dates(X, "X")
    refuse_text(X, numerals=True)
    # one memory layout, so that a data frame and its array give the same bits
    checked = validate_data(estimator, X, reset=False, dtype=np.float64, order="C", ensure_all_finite=False)
    refuse_non_finite(checked, "X", column_names(X))
    return checked


def check_places(estimator: Any, predict_at: Any) -> np.ndarray | None:
    """Where predictions are wanted, as inputs of a fit whose columns were read [M, E]; None where nobody has said it.

    What is wrong is said of `predict_at`. Levels that are new there are told when they are predicted.
    """
    if predict_at is None:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FitWarning)
            return np.asarray(check_inputs(estimator, predict_at))
    except (ValueError, TypeError) as error:
        raise InvalidInputError(
            f"`predict_at` has the places where predictions are wanted, with the same columns as X in the fit. As X: "
            f"{error}",
            places=getattr(error, "rows", None),
        ) from None


def check_coded(estimator: Any, X: Any) -> np.ndarray:
    """Inputs as one number for each row and column [n, D]: for encoded columns days, numbers of levels, degrees."""
    if isinstance(X, CodedRows):
        return X
    if estimator._encoding is None:
        return check_inputs(estimator, X)
    refuse_masked(X, "X")
    X = _as_table(as_columns(X, estimator.crs_))
    refuse_repeated_names(X)
    validate_data(estimator, X, reset=False, skip_check_array=True)
    return check_array(estimator._encoding.read(X), ensure_all_finite=False).view(CodedRows)


def check_data(estimator: Any, X: Any, y: Any, weights: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """Inputs [n, E] and targets [n] of a fit as finite float64 arrays; sets the encoding, from rows that count."""
    X = as_columns(X)
    if y is None:
        raise InvalidInputError("This estimator requires y to be passed, but the target y is None.")
    y = as_numbers(y, "y")
    refuse_non_finite(y, "y")  # before scikit-learn, which does not name the row
    X = fit_inputs(estimator, X, weights)
    return check_X_y(X, y, dtype=np.float64, order="C", ensure_all_finite=False, y_numeric=True, estimator=estimator)


def fit_inputs(estimator: Any, X: Any, weights: Any = None) -> np.ndarray:
    """Inputs of a fit as a finite float64 array [n, E]; sets the encoding, `n_features_in_` and the names."""
    refuse_repeated_names(X)
    refuse_masked(X, "X")
    counts = None if weights is None else check_weights(weights, _num_samples(X))
    estimator.__dict__.pop("_row_names", None)
    if hasattr(X, "column_names"):
        estimator._row_names = list(X.column_names)
    estimator._encoding = choose_encoding(estimator, X, counts)
    if estimator._encoding is None:
        refuse_masked_and_dates(X, "X")
        refuse_text(X)
        checked = validate_data(estimator, X, dtype=np.float64, order="C", ensure_all_finite=False)
        refuse_non_finite(checked, "X", column_names(X))
        return checked
    X = _as_table(X)
    validate_data(estimator, X, skip_check_array=True)
    return np.asarray(estimator._encoding(X, quiet=True))


def _as_table(X: Any) -> Any:
    """A data frame as it is, and rows as an array of their values: text beside numbers does not make these text."""
    if hasattr(X, "columns"):
        return X
    return check_array(X if hasattr(X, "dtype") else np.array(X, object), dtype=None, ensure_all_finite=False)


def check_weights(given: Any, n_rows: int) -> np.ndarray | None:
    """Sample weights: one number of at least 0 per row, not all of them 0; a number is for all rows."""
    weights = check_row_weights(given, n_rows)
    if weights is not None and not weights.any():
        raise InvalidInputError(
            f"`sample_weight` is zero in every row, or below {SMALLEST_WEIGHT:.0e}, so there is nothing to fit."
        )
    return weights


def check_row_weights(given: Any, n_rows: int) -> np.ndarray | None:
    """Sample weights of some rows, which may all be 0."""
    if given is None:
        return None
    weights = one_per_row(given, "sample_weight", n_rows)
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if len(bad):
        raise InvalidInputError(
            f"`sample_weight` must be finite and not negative, but is {weights[bad[0]]:g} in row {bad[0]}"
            f"{cells.and_more(len(bad))}. Drop these rows, or give them a weight of 0.",
            rows=bad,
        )
    bad = np.flatnonzero(weights > LARGEST_WEIGHT)
    if len(bad):
        raise InvalidInputError(
            f"`sample_weight` is {weights[bad[0]]:g} in row {bad[0]}{cells.and_more(len(bad))}, but a row can count at "
            f"most {LARGEST_WEIGHT:.0e} times: more copies that agree exactly would be known to more digits than the "
            "computer has. If only their ratios matter, divide them by their mean, `w / w.mean()`; "
            "if they are precisions, give `noise_variance` instead.",
            rows=bad,
        )
    return np.where(weights < SMALLEST_WEIGHT, 0.0, weights)


def check_count(value: Any, name: str, *, least: int) -> int:
    """A whole number of at least `least`."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer) or value < least:
        raise InvalidInputError(f"`{name}` is {value!r}; it must be a whole number of at least {least}.")
    return int(value)


def check_level(level: Any) -> None:
    """Refuse what is no probability of an interval."""
    if not isinstance(level, int | float | np.number) or not 0 < level < 1:
        raise InvalidInputError(f"`level` is {level!r}; it must be one number between 0 and 1, for example 0.95.")


def check_jobs(n_jobs: Any) -> int | None:
    """A number of threads: None or -1 for all cores, or at least 1."""
    return None if n_jobs is None or n_jobs == -1 else check_count(n_jobs, "n_jobs", least=1)


def generator_from(random_state: Any) -> np.random.Generator:
    """Turn scikit-learn's random_state (None, int, RandomState) or a Generator into a Generator."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31 - 1))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise InvalidInputError(
            f"`random_state` is {random_state!r}; it must be None, a whole number of at least 0, or a generator."
        ) from None


def as_numbers(given: Any, name: str) -> np.ndarray:
    """A float64 array of any shape; missing values of every kind are NaN in it, and what is no number is refused."""
    if is_dask(given):
        raise InvalidInputError(
            f"{_what(name)} is a Dask collection, but X is not. Give X as one too, or compute the other (`.compute()`)."
        )
    refuse_masked_and_dates(given, name)
    kind = getattr(getattr(given, "dtype", None), "kind", "O")
    if kind == "c":
        raise InvalidInputError(f"Complex data not supported: {_what(name)} has the type {given.dtype}.")
    if kind in "biuf" or not _holds_text(given):
        try:
            return np.asarray(given, float)
        except (TypeError, ValueError):
            pass  # some value is missing in a way of its own, or is no number
    values = np.asarray(given, object)
    numbers = np.full(values.shape, np.nan)
    for place, value in np.ndenumerate(values):
        if cells.is_missing(value):
            continue
        try:
            numbers[place] = cells.number_of(value)
        except (TypeError, ValueError):
            where = f" in row {place[0]}" if place else ""
            raise InvalidInputError(
                f"{_what(name)} must be numbers, one for each row, but is {value!r:.100}{where}.",
                rows=np.array(place[:1], int),
            ) from None
    return numbers


def _holds_text(given: Any) -> bool:
    """Whether text is among the values, of which NumPy would read more than we do."""
    try:
        values = np.asarray(given)
    except ValueError:  # rows of different lengths, for which there are other words
        return False
    return values.dtype.kind in "SU" or (values.dtype.kind == "O" and any(map(cells.is_text, values.flat)))


def as_finite_numbers(given: Any, name: str) -> np.ndarray:
    """A float64 array of any shape without missing values."""
    values = as_numbers(given, name)
    refuse_non_finite(values, name)
    return values


def one_per_row(given: Any, name: str, n_rows: int) -> np.ndarray:
    """A number for each row, [n], NaN where it is missing; one number is for all rows."""
    values = as_numbers(given, name)
    if values.ndim == 0:
        return np.full(n_rows, float(values))
    if values.shape != (n_rows,):
        raise InvalidInputError(
            f"`{name}` must have one value for each of the {n_rows} rows, but has shape {values.shape}."
        )
    return values


def refuse_masked(given: Any, name: str) -> None:
    """Refuse masked values, which an array without masks would take for data."""
    if isinstance(given, np.ma.MaskedArray) and np.ma.is_masked(given):
        masked = np.ma.getmaskarray(given)
        raise _masked(f"{_what(name)} is masked{cells.where_bad(masked)}", cells.bad_rows(masked))


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
            what = "which is not a number"
            if cells.is_number(value):
                if numerals or not cells.is_text(value):
                    continue
                what = "which is text and may be a code (`pandas.to_numeric(column)` makes numbers of it)"
            raise InvalidInputError(
                f"Column {name!r} holds {cells.plain(value)!r:.100} in row {row}, {what}. {advice}",
                rows=np.array([row]),
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
    if values.ndim != 2 or values.dtype.kind not in "OSU" or not any(map(cells.is_text, values.flat)):
        return []
    return list(enumerate(values.T))


def refuse_repeated_names(X: Any) -> None:
    """Refuse a data frame in which two columns have one name: nobody knows which of them is meant."""
    names = column_names(X)
    repeated = None if names is None else cells.first_repeated(names)
    if repeated is not None:
        where = [str(i) for i, name in enumerate(names or ()) if name == repeated]
        raise InvalidInputError(
            f"X has {len(where)} columns of one name, {repeated!r} (columns {', '.join(where)}, counted from 0). "
            "Rename or drop all but one."
        )


def refuse_missing_labels(y: Any) -> None:
    """Refuse labels of classes of which some are missing, with the first row; numbers are looked at elsewhere."""
    labels = np.asarray(y)
    missing = cells.missing_in(labels) if labels.ndim == 1 and labels.dtype.kind == "O" else np.zeros(1, bool)
    if missing.any():
        raise InvalidInputError(
            f"Input y contains no label{cells.where_bad(missing)}. Drop these rows, or give them one.",
            rows=cells.bad_rows(missing),
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
        f"{_what(name)} contains {kind}{cells.where_bad(bad, columns)}. {advice}", rows=cells.bad_rows(bad)
    )


def column_names(X: Any) -> list[Any] | None:
    """The names of the columns of a data frame; None for an array."""
    return list(X.columns) if hasattr(X, "columns") else None


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


def series_name(y: Any) -> str | None:
    """The name that a Series has for its column; None of anything else."""
    name = getattr(y, "name", None)
    return None if name is None else str(name)
