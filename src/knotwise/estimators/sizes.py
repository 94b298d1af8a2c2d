"""A model fitted with `exposure` or `trials` asks for them again wherever an observation is meant, not a rate."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import FrameType
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from knotwise.distributed.collections import is_dask
from knotwise.errors import PASSED_THROUGH, InvalidInputError, warn
from knotwise.estimators.numbers import and_more, as_finite_numbers

__all__ = ["assume_no_size", "exposure_of", "refuse_rates_for_targets", "require_size", "size_is_missing"]

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
#: what an observation is, by the name of its size, and what 1 means for it
WORDS = {
    "exposure": ("a count without one has no meaning here", "the exposure of each new row (1 for counts per unit)"),
    "trials": ("successes without them have no meaning here", "the trials of each new row (1 for a single trial)"),
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


def size_is_missing(model: Any, exposure: Any = None, trials: Any = None) -> bool | None:
    """Whether the fit had an exposure or trials and this call has none; None where a file does not tell."""
    check_is_fitted(model)
    if model.likelihood_.size_name is None or exposure is not None or trials is not None:
        return False
    return model._fit.size_given


def require_size(model: Any, call: str, exposure: Any, trials: Any) -> tuple[Any, Any]:
    """The exposure and trials of a call about observations; refused where the fit had them and the call has not.

    `call` is the call without its closing bracket, such as "gp.score(X, y". A model from an old file, which does not
    tell, gets a size of 1 and the user a warning.
    """
    missing = size_is_missing(model, exposure, trials)
    if missing is False:
        return exposure, trials
    name = model.likelihood_.size_name
    why, what = WORDS[name]
    if missing:
        raise InvalidInputError(
            f"This model was fitted with `{name}`: {why}. Write `{call}, {name}=...)` with {what}.", missing=name
        )
    warn(
        f"This model comes from a file of an older format, which does not tell whether the fit had `{name}`: 1 is "
        f"taken for each row. Write `{call}, {name}=...)` if it had; `{name}=1` says that it had not."
    )
    return (1.0, trials) if name == "exposure" else (exposure, 1.0)


def assume_no_size(model: Any) -> None:
    """Take it from now on that the fit had neither exposure nor trials, where a file does not tell."""
    model._fit = replace(model._fit, size_given=False)


def refuse_rates_for_targets(model: Any, exposure: Any, trials: Any) -> None:
    """Refuse `predict(X)` to code that would compare the rates with counts; one's own calls get the rates."""
    missing = size_is_missing(model, exposure, trials)
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
