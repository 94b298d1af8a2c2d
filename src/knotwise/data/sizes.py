"""What a fit was told of each row (exposure, trials, known noise), calls about new observations must tell again."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import FrameType
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from knotwise.data.numbers import and_more, as_finite_numbers
from knotwise.distributed.collections import is_dask
from knotwise.errors import PASSED_THROUGH, InvalidInputError, warn

__all__ = ["assume_nothing_known", "exposure_of", "is_missing", "missing_name", "refuse_rates_for_targets", "require"]

#: code that compares `predict(X)` with targets, or hands it on for that: module and function, None for all of a module
COMPARING_CODE = {
    ("sklearn.metrics._scorer", None),
    ("sklearn.metrics._plot.regression", None),
    ("sklearn.model_selection._validation", None),
    ("sklearn.base", "score"),  # of estimators around ours, such as TransformedTargetRegressor
    ("sklearn.ensemble._bagging", "_set_oob_score"),
    ("sklearn.ensemble._gb", "fit"),
    ("sklearn.ensemble._stacking", "fit"),
    ("sklearn.ensemble._weight_boosting", "fit"),
    ("sklearn.linear_model._ransac", "fit"),
    ("knotwise.estimators.scoring", None),
}
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


def assume_nothing_known(model: Any) -> None:
    """Take it from now on that the fit had no exposure, trials or known noise, where a file does not tell."""
    model._fit = replace(model._fit, size_given=bool(model._fit.size_given), noise_given=bool(model._fit.noise_given))


def refuse_rates_for_targets(model: Any, exposure: Any, trials: Any) -> None:
    """Refuse `predict(X)` to code that would compare the rates with counts; one's own calls get the rates."""
    missing = is_missing(model, exposure=exposure, trials=trials)
    if missing is False or not is_compared_with_targets():
        return
    name = model.likelihood_.size_name
    if missing:
        raise InvalidInputError(
            f"This model was fitted with `{name}`, but `predict(X)` was asked for without it, to compare rates with "
            f"observations. For a score, route it: `gp.set_score_request({name}=True)` with the default `scoring`, or "
            f"`scoring=knotwise.response_scorer(metric)`. `cross_val_predict` hands nothing to `predict`: write the "
            f"loop over folds, with `gp.predict(X, {name}=...)`. docs/likelihoods.md has examples.",
            missing=name,
        )
    warn(
        f"This model comes from a file of an older format, which does not tell whether the fit had `{name}`. "
        "scikit-learn compares its predictions with observations as if it had not."
    )


def is_compared_with_targets() -> bool:
    """Whether scikit-learn's scoring or cross-validation, or our own scorer, has asked for this prediction.

    Looks at the callers, from the nearest up to the first that is not of scikit-learn, joblib or knotwise: a pipeline
    in a scorer is found, and the user's own `gp.predict(X)` or `pipeline.predict(X)` is not, wherever it stands.
    Partial dependence and the like ask for predictions, not for a comparison. What another process or thread predicts
    for a caller here cannot be seen; scikit-learn's cross-validation scores where it predicts.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__"))
        if module.partition(".")[0] not in PASSED_THROUGH:
            return False
        if {(module, None), (module, frame.f_code.co_name)} & COMPARING_CODE:
            return True
        frame = frame.f_back
    return False
