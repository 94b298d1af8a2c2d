"""The public door: arrays and options are checked here, once, and the core trusts them."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import _num_samples, check_array, check_X_y, validate_data

from knotwise.data.encoding.choose import choose_encoding
from knotwise.data.encoding.encoding import CodedRows, EncodedRows
from knotwise.data.geometry import as_columns
from knotwise.data.numbers import (
    and_more,
    as_numbers,
    column_names,
    refuse_masked,
    refuse_masked_and_dates,
    refuse_non_finite,
    refuse_repeated_names,
    refuse_text,
)
from knotwise.distributed.collections import is_dask
from knotwise.errors import InvalidInputError
from knotwise.likelihoods.base import Likelihood

__all__ = [
    "check_coded",
    "check_count",
    "check_data",
    "check_inputs",
    "check_jobs",
    "check_known_noise",
    "check_level",
    "check_noise_variance",
    "check_row_weights",
    "check_size",
    "check_weights",
    "fit_inputs",
    "generator_from",
    "size_given",
]

#: copies of one row beyond which rounding lifts the bound of a fit with automatic knots above the exact evidence
LARGEST_WEIGHT = 1e8
#: a row that counts less changes no digit of anything, and one over it is still a number
SMALLEST_WEIGHT = 1e-100


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
    X = as_columns(X, estimator.crs_)
    if estimator._encoding is not None:
        return estimator._encoding.expand(check_coded(estimator, X))
    refuse_repeated_names(X)
    refuse_masked_and_dates(X, "X")
    refuse_text(X, numerals=True)
    # one memory layout, so that a data frame and its array give the same bits
    checked = validate_data(estimator, X, reset=False, dtype=np.float64, order="C", ensure_all_finite=False)
    refuse_non_finite(checked, "X", column_names(X))
    return checked


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


def check_noise_variance(given: Any, n_rows: int) -> np.ndarray | None:
    """Known noise variances, [n], of at least 0; a number is for all rows."""
    if given is None:
        return None
    noise = as_numbers(given, "noise_variance")
    noise = np.full(n_rows, float(noise)) if noise.ndim == 0 else noise
    if noise.shape != (n_rows,):
        raise InvalidInputError(
            f"`noise_variance` must have one value for each of the {n_rows} rows, but has shape {noise.shape}."
        )
    bad = np.flatnonzero(~(np.isfinite(noise) & (noise >= 0)))
    if len(bad):
        raise InvalidInputError(
            f"`noise_variance` must be finite and not negative, but is {noise[bad[0]]} in row {bad[0]}"
            f"{and_more(len(bad))}. Drop these rows or give them a variance.",
            rows=bad,
        )
    return noise


def check_known_noise(likelihood: Likelihood, given: Any, n_rows: int) -> np.ndarray | None:
    """The same, refused for data that are not Gaussian."""
    if given is not None and not likelihood.conjugate:
        raise InvalidInputError(
            f"`noise_variance` is for Gaussian data, but the likelihood is {type(likelihood).__name__}."
        )
    return check_noise_variance(given, n_rows)


def size_given(likelihood: Likelihood, **given: Any) -> tuple[str, Any]:
    """The exposure or trials, and its name; refused where the likelihood has none of this name."""
    size_name, size = "exposure", None
    for name, value in given.items():
        if value is None:
            continue
        if name != likelihood.size_name:
            also = ", nor has `offset`, its logarithm" if name == "exposure" else ""
            raise InvalidInputError(
                f"`{name}` has no meaning for the likelihood {type(likelihood).__name__}{also}. "
                + (f"It takes `{likelihood.size_name}`." if likelihood.size_name else "Leave it out.")
            )
        size_name, size = name, value
    return size_name, size


def check_size(likelihood: Likelihood, n_rows: int, **given: Any) -> np.ndarray | None:
    """The exposure or the number of trials of each row, as the likelihood has it; a number counts for all rows."""
    name, value = size_given(likelihood, **given)
    if value is None:
        return None
    size = as_numbers(value, name)
    size = np.full(n_rows, float(size)) if size.ndim == 0 else size
    if size.shape != (n_rows,):
        raise InvalidInputError(f"`{name}` must have one value for each of the {n_rows} rows, not {size.shape}.")
    whole = name == "trials"
    bad = np.flatnonzero(~(np.isfinite(size) & (size > 0) & (not whole or size == np.floor(size))))
    if len(bad):
        raise InvalidInputError(
            f"`{name}` must be positive{' whole numbers' if whole else ' and finite'}, but is {size[bad[0]]:g} "
            f"in row {bad[0]}{and_more(len(bad))}. Drop these rows or correct them.",
            rows=bad,
        )
    return size


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
    weights = as_numbers(given, "sample_weight")
    weights = np.full(n_rows, float(weights)) if weights.ndim == 0 else weights
    if weights.shape != (n_rows,):
        raise InvalidInputError(
            f"`sample_weight` must have one value for each of the {n_rows} rows, but has shape {weights.shape}."
        )
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if len(bad):
        raise InvalidInputError(
            f"`sample_weight` must be finite and not negative, but is {weights[bad[0]]:g} in row {bad[0]}"
            f"{and_more(len(bad))}. Drop these rows, or give them a weight of 0.",
            rows=bad,
        )
    bad = np.flatnonzero(weights > LARGEST_WEIGHT)
    if len(bad):
        raise InvalidInputError(
            f"`sample_weight` is {weights[bad[0]]:g} in row {bad[0]}{and_more(len(bad))}, but a row can count at most "
            f"{LARGEST_WEIGHT:.0e} times: more copies that agree exactly would be known to more digits than the "
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
