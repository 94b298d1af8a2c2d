"""What a fit was told of each row (exposure, trials, known noise), calls about new observations must tell again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from knotwise.data.numbers import and_more, as_finite_numbers
from knotwise.distributed.collections import is_dask
from knotwise.errors import InvalidInputError, warn

__all__ = ["assume_nothing_known", "exposure_of", "is_missing", "missing_name", "per_unit", "require"]

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


def missing_name(model: Any) -> str | None:
    """What an observation of a fitted model may need beside its inputs: a name among `WORDS`, or None."""
    check_is_fitted(model)
    return "noise_variance" if model.likelihood_.conjugate else model.likelihood_.size_name


def is_missing(model: Any, **given: Any) -> bool | None:
    """Whether the fit had what this call, which may take the names that are given, lacks; None where a file does not
    tell.
    """
    name = missing_name(model)
    if name not in given or any(value is not None for value in given.values()):
        return False  # another one than the model's is refused where it is checked
    return model._fit.noise_given if name == "noise_variance" else model._fit.size_given


def require(model: Any, call: str, **given: Any) -> dict[str, Any]:
    """What is given for a call about observations, by name; refused where the fit had it and the call has not.

    `call` is the call without its closing bracket, such as "gp.score(X, y"; `given` has all names among `WORDS` that
    it takes. A model from an old file, which does not tell, gets a size of 1 or the fitted noise, and the user a
    warning.
    """
    missing = is_missing(model, **given)
    if missing is False:
        return given
    name = str(missing_name(model))
    why, what, instead = WORDS[name]
    if call == "gp.predict(X":  # the one that scikit-learn makes by itself
        instead = BY_SCIKIT_LEARN.format(name=name)
    if missing:
        raise InvalidInputError(
            f"This model was fitted with `{name}`: {why}. Write `{call}, {name}=...)` with {what}.{instead}",
            missing=name,
        )
    value, taken, otherwise = 1.0, "1 is taken for each row", f"; `{name}=1` says that it had not"
    if name == "noise_variance":
        value, taken, otherwise = model.likelihood_.value(name), "the noise variance in `parameters_` is taken", ""
    warn(
        f"This model comes from a file of an older format, which does not tell whether the fit had `{name}`: {taken}. "
        f"Write `{call}, {name}=...)` if it had{otherwise}."
    )
    return given | {name: value}


def per_unit(model: Any, **given: Any) -> dict[str, Any]:
    """What is given for a call about rates: 1 where the fit had an exposure or trials and the call has none."""
    sizes = {name: given.get(name) for name in ("exposure", "trials")}
    return given if is_missing(model, **sizes) is False else given | {str(missing_name(model)): 1.0}


def assume_nothing_known(model: Any) -> None:
    """Take it from now on that the fit had no exposure, trials or known noise, where a file does not tell."""
    model._fit = replace(model._fit, size_given=bool(model._fit.size_given), noise_given=bool(model._fit.noise_given))
