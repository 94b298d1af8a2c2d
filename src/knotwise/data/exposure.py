"""Exposure, trials and known noise: what a fit was given of each row, calls about new observations must give again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from knotwise.data.cells import and_more
from knotwise.data.validation import as_finite_numbers, one_per_row
from knotwise.errors import InvalidInputError
from knotwise.evidence.sparse import MAX_FULL_ROWS
from knotwise.likelihoods.base import Likelihood
from knotwise.noise import NO_NOISE, NOISE_FLOOR
from knotwise.numerics.blocks import is_dask

#: an offset beyond which its exponential overflows, or is 0
LARGEST_OFFSET = 700.0
#: by its name, what an observation is without it, what to give, and what can be had without it
WORDS = {
    "exposure": ("a count without one has no meaning here", "the exposure of each new row (1 for counts per unit)", ""),
    "trials": ("successes without them have no meaning here", "the trials of each new row (1 for a single trial)", ""),
    "noise_variance": (
        "the noise of another observation is not known",
        "the noise variance of each new row, a number or an array (0 for an observation without noise)",
        " The function alone needs none: `gp.predict_latent(X)`, or `kind='mean'` where there is a `kind`.",
    ),
}

#: what to do where scikit-learn calls `predict(X)` and has no place for more
BY_SCIKIT_LEARN = (
    " scikit-learn's scorers and `cross_val_predict` hand nothing to `predict`. For a score write "
    "`gp.set_score_request({name}=True)` with the default `scoring`, or `scoring=knotwise.response_scorer(metric)`; "
    "for predictions write the loop over folds. docs/likelihoods.md has examples."
)


def exposure_of(exposure: Any, offset: Any) -> Any:
    """The exposure of a call, where it may be given by its logarithm; both are refused.

    Dask collections stay lazy: that their exposure is no positive number is found when a partition is read.
    """
    if offset is None:
        return exposure
    if exposure is not None:
        raise InvalidInputError(
            "`exposure` and `offset` were both given, but `offset` is the logarithm of the exposure. Give one of them."
        )
    if is_dask(offset):
        return np.exp(offset)
    offset = as_finite_numbers(offset, "offset")
    bad = np.flatnonzero(np.abs(offset) > LARGEST_OFFSET)
    if len(bad):
        raise InvalidInputError(
            f"`offset` is {offset.flat[bad[0]]:g}{f' in row {bad[0]}' if offset.ndim else ''}{and_more(len(bad))}, but "
            f"it is the logarithm of the exposure, whose exponential is no positive number beyond {LARGEST_OFFSET:g}. "
            "Give an exposure as `exposure`.",
            rows=bad,
        )
    return np.exp(offset)


def check_noise_variance(given: Any, n_rows: int) -> np.ndarray | None:
    """Known noise variances, [n], of at least 0; a number is for all rows."""
    if given is None:
        return None
    noise = one_per_row(given, "noise_variance", n_rows)
    bad = np.flatnonzero(~(np.isfinite(noise) & (noise >= 0)))
    if len(bad):
        raise InvalidInputError(
            f"`noise_variance` must be finite and not negative, but is {noise[bad[0]]} in row {bad[0]}"
            f"{and_more(len(bad))}. Drop these rows or give them a variance.",
            rows=bad,
        )
    return noise


def check_known_noise(likelihood: Likelihood, given: Any, n_rows: int) -> np.ndarray | None:
    """The same, refused for data that are not Gaussian, or of which a transform is modelled."""
    if given is not None and likelihood.transform is not None:
        raise InvalidInputError(
            f"`noise_variance` is in the units of y, but {likelihood.transform.of('y')} is modelled, whose noise is "
            "another. Take `transform=None`, or fit the transformed target itself with the noise variance that it has."
        )
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
    size = one_per_row(value, name, n_rows)
    whole = name == "trials"
    bad = np.flatnonzero(~(np.isfinite(size) & (size > 0) & (not whole or size == np.floor(size))))
    if len(bad):
        raise InvalidInputError(
            f"`{name}` must be positive{' whole numbers' if whole else ' and finite'}, but is {size[bad[0]]:g} "
            f"in row {bad[0]}{and_more(len(bad))}. Drop these rows or correct them.",
            rows=bad,
        )
    return size


def missing_name(model: Any) -> str | None:
    """What an observation of a fitted model may need beside its inputs: a name among `WORDS`, or None."""
    check_is_fitted(model)
    return "noise_variance" if model.likelihood_.conjugate else model.likelihood_.size_name


def is_needed(model: Any, **given: Any) -> bool:
    """Whether the fit had an exposure, trials or known noise that this call, which takes these names, lacks."""
    name = missing_name(model)
    if name not in given or any(value is not None for value in given.values()):
        return False  # another one than the model's is refused where it is checked
    return model._fit.noise_given if name == "noise_variance" else model._fit.size_given


def require(model: Any, call: str, **given: Any) -> dict[str, Any]:
    """What is given for a call about observations, by name; refused where the fit had it and the call has not.

    `call` is the call without its closing bracket, such as "gp.score(X, y"; `given` has all names among `WORDS` that
    it takes.
    """
    if is_needed(model, **given):
        name = str(missing_name(model))
        why, what, instead = WORDS[name]
        if call == "gp.predict(X":  # the one that scikit-learn makes by itself
            instead = BY_SCIKIT_LEARN.format(name=name)
        raise InvalidInputError(
            f"This model was fitted with `{name}`: {why}. Write `{call}, {name}=...)` with {what}.{instead}",
            missing=name,
        )
    return given


@dataclass(frozen=True)
class NoiseRemarks:
    """What is to be said of known noise that is too small, once it is known how a fit ends; empty where it is not.

    `through_knots` is for a fit with knots, `exact` for the exact GP with noise as it was given, and `singular` for an
    exact GP whose matrix has no factor with that. By then nobody remembers the rows in the user's units.
    """

    through_knots: str = ""
    exact: str = ""
    singular: str = ""


@dataclass(frozen=True)
class UsableNoise:
    """Known noise variances in the engine's units, [N].

    `raised` is not below the floor of a learned noise, for fits through knots; `given` is the noise as it was given,
    for the exact GP and for certificates, and None where it is the same.
    """

    raised: np.ndarray
    given: np.ndarray | None
    remarks: NoiseRemarks

    @staticmethod
    def of(noise: np.ndarray, numbers: np.ndarray | None, y_scale: float, variance: float) -> UsableNoise:
        """Noise in the user's units, [N], of the user's rows with these numbers (None: all, in their order).

        `variance` is that of the targets in the engine's units.
        """
        natural = variance * y_scale**2
        raised, given = usable_noise(noise / y_scale**2, variance)
        too_small, none = (_rows_below(noise, numbers, share * natural) for share in (NOISE_FLOOR, NO_NOISE))
        remarks = remarks_of(too_small, none, natural, len(noise))
        return UsableNoise(raised, None if (given == raised).all() else given, remarks)


def usable_noise(noise: np.ndarray, variance: float) -> tuple[np.ndarray, np.ndarray]:
    """Known noise for fits through knots, and as given, in the units of the variance of the targets; [N] each.

    Even a knot on the row leaves a residual variance c of the size of the jitter, and VFE pays c / (2 noise) for it:
    1e-10 / 2e-14 = 5,000 nats for one row that is known to 1e-14. The exact GP has no jitter; there, and in
    certificates, only a row without any noise takes the floor, since equal rows without noise have no inverse.
    """
    floor = NOISE_FLOOR * variance
    return np.maximum(noise, floor), np.where(noise < NO_NOISE * variance, floor, noise)


def remarks_of(too_small: str, none: str, variance: float, n_rows: int) -> NoiseRemarks:
    """Words for rows whose known noise is too small for knots, and for those that have none; "" where there are none.

    `variance` is that of the targets in the user's units.
    """
    if not too_small:
        return NoiseRemarks()
    known = "The known noise variance is"
    raised = f"it was raised to the floor of {NOISE_FLOOR * variance:.1g}, {NOISE_FLOOR:.0e} times the variance of y."
    of_raised = "The log evidence and the posterior are those of the raised noise"
    exactly = " For rows that are known exactly use `approximation='full'`." if n_rows <= MAX_FULL_ROWS else ""
    return NoiseRemarks(
        f"{known} {too_small}, too small for a fit through knots: {raised} {of_raised}; `certify()` bounds the log "
        f"evidence of the noise as given.{exactly}",
        f"{known} {none}, and equal rows without noise have no inverse: {raised}" if none else "",
        f"{known} {too_small}, too small for the exact GP of these rows, whose matrix has no factor with it: {raised} "
        f"{of_raised}.",
    )


def _rows_below(noise: np.ndarray, numbers: np.ndarray | None, floor: float) -> str:
    """The first of the user's rows whose noise is below a floor, and how many more there are; "" without any."""
    low = np.flatnonzero(noise < floor)
    if not len(low):
        return ""
    own = low if numbers is None else numbers[low]
    first = low[np.argmin(own)]  # rows that were merged are not in the user's order
    more = f" and in {len(low) - 1} more row{'s' if len(low) > 2 else ''}" if len(low) > 1 else ""
    return f"{noise[first]:.1g} in row {own.min()}{more}"
