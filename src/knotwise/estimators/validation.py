"""The public door: arrays and options are checked here, once, and the core trusts them."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from knotwise.errors import InvalidInputError
from knotwise.likelihoods.base import Likelihood

__all__ = [
    "check_count",
    "check_data",
    "check_inputs",
    "check_jobs",
    "check_noise_variance",
    "check_size",
    "check_weights",
    "generator_from",
    "refuse_non_finite",
    "refuse_text",
]

#: copies of one row beyond which rounding lifts the bound of a fit with automatic knots above the exact evidence
LARGEST_WEIGHT = 1e9
#: a row that counts less changes no digit of anything, and one over it is still a number
SMALLEST_WEIGHT = 1e-100


def check_inputs(estimator: Any, X: Any, *, reset: bool = False) -> np.ndarray:
    """Inputs as a finite float64 array; numbers stored as objects are converted, text is refused by column."""
    refuse_text(X)
    # one memory layout, so that a data frame and its array give the same bits
    X = validate_data(estimator, X, reset=reset, dtype=np.float64, order="C", ensure_all_finite=False)
    refuse_non_finite(X, "X")
    return X


def check_data(estimator: Any, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets as finite float64 arrays of one length."""
    refuse_text(X)
    if y is None:
        raise InvalidInputError("This estimator requires y to be passed, but the target y is None.")
    if getattr(np.asarray(y), "dtype", None) == np.float64:  # before scikit-learn, which does not name the row
        refuse_non_finite(np.asarray(y), "y")
    X, y = validate_data(estimator, X, y, dtype=np.float64, order="C", ensure_all_finite=False, y_numeric=True)
    y = np.asarray(y, np.float64)
    refuse_non_finite(X, "X")
    refuse_non_finite(y, "y")
    return X, y


def check_noise_variance(given: Any, n_rows: int) -> np.ndarray | None:
    """Known noise variances, one positive number per row."""
    if given is None:
        return None
    noise = np.asarray(given, float)
    if noise.shape != (n_rows,):
        raise InvalidInputError(
            f"`noise_variance` must have one value for each of the {n_rows} rows, but has shape {noise.shape}."
        )
    bad = np.flatnonzero(~(np.isfinite(noise) & (noise > 0)))
    if len(bad):
        raise InvalidInputError(
            f"`noise_variance` must be positive and finite, but is {noise[bad[0]]} in row {bad[0]}"
            f"{_and_more(len(bad))}. Drop these rows or give them a variance."
        )
    return noise


def check_size(likelihood: Likelihood, n_rows: int, **given: Any) -> np.ndarray | None:
    """The exposure or the number of trials of each row, as the likelihood has it; a number counts for all rows."""
    size = None
    for name, value in given.items():
        if value is None:
            continue
        if name != likelihood.size_name:
            raise InvalidInputError(
                f"`{name}` has no meaning for the likelihood {type(likelihood).__name__}. "
                + (f"It takes `{likelihood.size_name}`." if likelihood.size_name else "Leave it out.")
            )
        size = np.asarray(value, float)
        size = np.full(n_rows, float(size)) if size.ndim == 0 else size
        if size.shape != (n_rows,):
            raise InvalidInputError(f"`{name}` must have one value for each of the {n_rows} rows, not {size.shape}.")
        whole = name == "trials"
        bad = np.flatnonzero(~(np.isfinite(size) & (size > 0) & (not whole or size == np.floor(size))))
        if len(bad):
            raise InvalidInputError(
                f"`{name}` must be positive{' whole numbers' if whole else ' and finite'}, but is {size[bad[0]]:g} "
                f"in row {bad[0]}{_and_more(len(bad))}. Drop these rows or correct them.",
                rows=bad,
            )
    return size


def check_weights(given: Any, n_rows: int) -> np.ndarray | None:
    """How often each row counts: one number of at least 0 per row, not all of them 0; a number is for all rows."""
    if given is None:
        return None
    try:
        weights = np.asarray(given, float)
    except (TypeError, ValueError):
        raise InvalidInputError(f"`sample_weight` must be numbers, one for each row, but is {given!r:.100}.") from None
    weights = np.full(n_rows, float(weights)) if weights.ndim == 0 else weights
    if weights.shape != (n_rows,):
        raise InvalidInputError(
            f"`sample_weight` must have one value for each of the {n_rows} rows, but has shape {weights.shape}."
        )
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if len(bad):
        raise InvalidInputError(
            f"`sample_weight` must be finite and not negative, but is {weights[bad[0]]:g} in row {bad[0]}"
            f"{_and_more(len(bad))}. Drop these rows, or give them a weight of 0.",
            rows=bad,
        )
    bad = np.flatnonzero(weights > LARGEST_WEIGHT)
    if len(bad):
        raise InvalidInputError(
            f"`sample_weight` is {weights[bad[0]]:g} in row {bad[0]}{_and_more(len(bad))}, but a row can count at most "
            f"{LARGEST_WEIGHT:.0e} times: more copies that agree exactly would be known to more digits than the "
            "computer has. Weights say how often a row counts. If only their ratios matter, divide them by their mean; "
            "if they are precisions, give `noise_variance` instead.",
            rows=bad,
        )
    weights = np.where(weights < SMALLEST_WEIGHT, 0.0, weights)
    if not weights.any():
        raise InvalidInputError(
            f"`sample_weight` is zero in every row, or below {SMALLEST_WEIGHT:.0e}, so there is nothing to fit."
        )
    return weights


def check_count(value: Any, name: str, *, least: int) -> int:
    """A whole number of at least `least`."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer) or value < least:
        raise InvalidInputError(f"`{name}` is {value!r}; it must be a whole number of at least {least}.")
    return int(value)


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


def refuse_text(X: Any) -> None:
    """Refuse data frames with a column that holds something else than numbers, by name."""
    if not hasattr(X, "dtypes") or not hasattr(X, "columns"):
        return
    for name, dtype in zip(X.columns, X.dtypes, strict=True):
        kind = getattr(dtype, "kind", "O")
        if kind in "mM":
            raise InvalidInputError(
                f"Column {name!r} holds dates or times ({dtype}), which are not numbers. Convert it, say to days."
            )
        if kind not in "OSUT":
            continue
        for row, value in enumerate(X[name]):
            try:
                float(value)
            except (TypeError, ValueError):
                raise InvalidInputError(
                    f"Column {name!r} holds {value!r} in row {row}, which is not a number. "
                    "Drop the column, or encode it as numbers first (for example with OneHotEncoder)."
                ) from None


def refuse_non_finite(values: np.ndarray, name: str) -> None:
    """Refuse NaN and infinities, with the first row that has one."""
    # the sum is finite if every entry is (or overflows, which the exact test then clears)
    with np.errstate(all="ignore"):
        if np.isfinite(values.sum()):
            return
    bad = ~np.isfinite(values)
    rows = np.flatnonzero(bad if bad.ndim == 1 else bad.any(1))
    if not len(rows):
        return
    first = values[rows[0]] if values.ndim == 1 else values[rows[0]][bad[rows[0]]][0]
    kind = "NaN" if np.isnan(first) else "infinity"
    raise InvalidInputError(
        f"Input {name} contains {kind} in row {rows[0]}{_and_more(len(rows))}. Drop or impute these rows.",
        rows=rows,
    )


def _and_more(n_bad: int) -> str:
    return f" and {n_bad - 1} more row{'s' if n_bad > 2 else ''}" if n_bad > 1 else ""
