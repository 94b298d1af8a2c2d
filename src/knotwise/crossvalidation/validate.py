"""Cross-validation of a Gaussian process: rows predicted from the others, one by one or in blocks."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np

from knotwise.crossvalidation.folds import Fold, folds_from, places_of
from knotwise.crossvalidation.held import Given, with_knots_anew, with_knots_held
from knotwise.crossvalidation.result import CrossValidation
from knotwise.data.exposure import exposure_of, require
from knotwise.data.geometry import as_columns
from knotwise.data.observations import dispersion_names
from knotwise.data.validation import check_level, fit_inputs, generator_from, refuse_missing_labels
from knotwise.errors import FitWarning, InvalidInputError, KnotwiseError, unknown_option, warn
from knotwise.estimators.classifier import GPClassifier
from knotwise.estimators.options import likelihoods_from, nugget_from
from knotwise.estimators.regressor import GPRegressor
from knotwise.estimators.tested import without_extrapolation_warning
from knotwise.prediction import Prediction

PER_ROW = ("mean", "sd", "lower", "upper", "log_density", "pit")
WORDS = {
    (True, "anew"): "parameters and knots anew for each block",
    (True, "held"): "parameters anew for each block, knots held",
    (False, "anew"): "parameters held, knots anew for each block",
    (False, "held"): "parameters and knots held",
}


def cross_validate(
    gp: GPRegressor | GPClassifier,
    X: Any,
    y: Any,
    *,
    blocks: Any = None,
    coords: Any = None,
    refit: bool = True,
    knots: str | None = None,
    sample_weight: Any = None,
    exposure: Any = None,
    trials: Any = None,
    offset: Any = None,
    noise_variance: Any = None,
    level: float = 0.95,
    random_state: Any = 0,
) -> CrossValidation:
    """Predict rows from the others, one by one or block by block, and score the predictions.

    Rows near each other are alike, so that a row left out alone is predicted from its neighbours: this scores
    interpolation. Blocks of rows that lie together score what a map says where nobody measured. Blocks are a matter of
    the rows, not of the model: models of the same rows are compared on the same blocks.

    Parameters
    ----------
    gp : GPRegressor or GPClassifier
        With the settings of the fits. It must be fitted itself where parameters or knots are held, and is not changed.
        A classifier must have two classes; what is predicted is the probability of the second one.
    X, y : array or data frame [N, D], array [N]
        The data.
    blocks : None, int, array of labels [N], scikit-learn splitter, or CrossValidation, optional
        Which rows are left out together. None: each row by itself. A number: so many compact blocks, by k-means of the
        places of the rows. Labels: rows with the same label. A splitter such as `KFold(5)`, or a list of pairs (train,
        test) of row numbers, which must test each row once; it may leave out more rows than it tests. What an earlier
        call has returned: its blocks again, for another model of the same rows.
    coords : columns, array or data frame [N, d], GeoSeries or "lonlat", optional
        The places of which a number of blocks is made: columns of X by name or number, or places that need not be in X.
        They have one scale, so that a map keeps its distances. Columns or arrays of longitude and latitude are points
        on the sphere if they are called so, or by ("lonlat", columns or array). By default the geometry of X, or its
        columns that are called as coordinates (x and y, easting and northing, longitude and latitude); where there are
        none, all columns, each standardised.
    refit : bool, default True
        Whether the parameters (kernel, noise) are fitted anew without each block; False holds those of `gp`. Then
        Gaussian data need no more than one evaluation of all rows for all blocks, and it is exact: the same as fits to
        the other rows with these parameters. Other data search for their sites without each block. Each fit decides
        anew what the settings leave open, such as the kernel or with `likelihood="counts"` the law.
    knots : "anew" or "held", optional
        Whether knots are chosen anew without each block, or are those of `gp`. By default "anew" where parameters are
        fitted anew, else "held".
    sample_weight, exposure, trials, offset, noise_variance : float or array [N], optional
        Of the rows, as in `fit`; needed where parameters or knots are held, if the fit had them. A row is left out with
        all its weight, and weighs so in the scores. Weights that are relative in a fit are so here: with held
        parameters those of the other rows are divided by the mean of all.
    level : float, default 0.95
        Probability of the intervals, between 0 and 1.
    random_state : int or Generator, default 0
        For the `pit` of counts. Blocks do not depend on it.

    Returns
    -------
    CrossValidation
        Predictions of all rows, [N] each, `scores`, `scores_by_block()` and `to_frame()`; printed, a table of scores.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise import GPRegressor, cross_validate
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(150, 2))
    >>> y = np.sin(9 * X[:, 0]) * np.cos(7 * X[:, 1]) + 0.1 * rng.normal(size=150)
    >>> gp = GPRegressor(knots=20, random_state=0).fit(X, y)
    >>> by_row = cross_validate(gp, X, y, refit=False)
    >>> in_blocks = cross_validate(gp, X, y, blocks=8, refit=False)
    >>> bool(by_row.scores["rmse"] < in_blocks.scores["rmse"])
    True

    Two models of the same rows, one of which does not see the second column, on the blocks of the first:

    >>> less = GPRegressor(knots=20, random_state=0)
    >>> without = cross_validate(less, X[:, :1], y, blocks=in_blocks)
    >>> bool((without.blocks == in_blocks.blocks).all())
    True
    >>> bool(without.scores["nlpd"] > in_blocks.scores["nlpd"])
    True
    """
    classes = None
    if isinstance(gp, GPClassifier):
        gp, y, classes = as_regressor(gp, y)
    if not isinstance(gp, GPRegressor):
        raise InvalidInputError(
            f"`cross_validate` is for a GPRegressor or a GPClassifier, but got a {type(gp).__name__}. For a pipeline "
            "give its last step and transformed rows."
        )
    if not isinstance(refit, bool | np.bool_):
        raise InvalidInputError(f"`refit` is {refit!r}; it must be True or False.")
    if knots is None:
        knots = "anew" if refit else "held"
    if knots not in ("anew", "held"):
        raise unknown_option("`knots` of `cross_validate`", knots, ["anew", "held"])
    check_level(level)
    likelihood, *others = likelihoods_from(gp.likelihood)  # of several, each fit decides, and on its weights
    if others and not refit and hasattr(gp, "_fit"):
        likelihood = gp.likelihood_
    exposure = exposure_of(exposure, offset)
    given = Given.checked(X, y, likelihood, sample_weight, exposure, trials, noise_variance)
    weights = given.weights
    given = given.with_relative_weights(dispersion_names(likelihood, nugget_from(gp.nugget, likelihood)))
    if not refit or knots == "held":
        _require_fitted(gp, refit)
        known = {"exposure": exposure, "trials": trials, "noise_variance": noise_variance}
        require(gp, "cross_validate(gp, X, y", **known)
    if coords is not None and not isinstance(blocks, int | np.integer):
        raise InvalidInputError(
            "`coords` are the places of a number of blocks, such as blocks=10, but `blocks` says by itself which rows "
            "are left out together. Leave `coords` out."
        )
    if isinstance(blocks, CrossValidation):
        blocks = blocks.block if blocks.folds is None else blocks.folds
    folds = folds_from(blocks, lambda: places_of(X, coords), X, given.targets)
    rng = generator_from(random_state)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if refit:
            _read_inputs(gp, given)  # so that what is wrong in a row is told by its number here, not in a block
            found, gaussian = _refitted(gp, given, folds, knots, level, rng)
        else:
            predict = with_knots_held if knots == "held" else with_knots_anew
            each = [own._observed(given.X, predict(own, given, folds), **given.for_prediction) for own in gp._each]
            gaussian = gp.likelihood_.conjugate
            found = _judged(gp._mixed(each), given, level, rng)
    _warn_once(caught, len(folds))
    about: dict[str, Any] = {"level": level, "setting": WORDS[bool(refit), knots], "gaussian": gaussian}
    about |= {"weights": weights, "classes": classes}
    return CrossValidation(given.targets, **found, block=folds.labels, X=as_columns(X), folds=folds, **about)


def _refitted(
    gp: GPRegressor, given: Given, folds: Sequence[Fold], knots: str, level: float, rng: np.random.Generator
) -> tuple[dict[str, Any], bool]:
    """Predictions of each fold, [N] each by name, by a model that was fitted to the other rows; and whether all of them
    are Gaussian.
    """
    from sklearn.base import clone

    settings: dict[str, Any] = {"checkpoint": None} | (_held_knots(gp) if knots == "held" else {})
    found, gaussian = {name: np.empty(len(given)) for name in PER_ROW}, True
    for fold in folds:
        rest, test = given.take(fold.train(len(given))), given.take(fold.test)
        model = clone(gp).set_params(**settings)
        try:
            model.fit(rest.X, rest.targets, **rest.for_fit)
        except KnotwiseError as error:
            error.add_note(f"This was the fit without block {fold.label!r}.")
            raise
        gaussian &= model.likelihood_.conjugate
        with without_extrapolation_warning():
            prediction = model.predictive(test.X, **test.for_prediction)
        for name, values in _judged(prediction, test, level, rng).items():
            found[name][fold.test] = values
    return found, gaussian


def _judged(prediction: Prediction, given: Given, level: float, rng: np.random.Generator) -> dict[str, Any]:
    """Predictions of rows that the model has not seen, and where their observations lie in these: [n] each, by name."""
    y = given.targets
    lower, upper = prediction.interval(level).T
    found = (prediction.mean, prediction.std, lower, upper, prediction.log_density(y), prediction.pit(y, rng))
    return dict(zip(PER_ROW, found, strict=True))


def _held_knots(gp: GPRegressor) -> dict[str, Any]:
    """Settings with which a fit keeps the knots of another, and its kind of kernel and approximation."""
    kernel = gp.kernel_ if gp.kernel is None else gp.kernel
    if not gp.n_knots_:
        return {"kernel": kernel, "approximation": "full", "n_neighbors": 0, "average": False}
    how: dict[str, Any] = {"n_neighbors": gp.n_neighbors_, "average": False}
    if not gp.n_neighbors_:
        how["approximation"] = gp.approximation_
    return {"kernel": kernel, "knots": gp.knots_} | how


def _require_fitted(gp: GPRegressor, refit: bool) -> None:
    if not hasattr(gp, "_fit"):
        what = "knots" if refit else "parameters"
        raise InvalidInputError(
            f"The {what} of `gp` are to be held, but it is not fitted. Fit it first, `gp.fit(X, y)`, or write "
            "`refit=True, knots='anew'`."
        )


def _read_inputs(gp: GPRegressor, given: Given) -> None:
    """Read the inputs as a fit to all rows would."""
    from sklearn.base import clone

    fit_inputs(clone(gp), as_columns(given.X))


def _warn_once(caught: Sequence[warnings.WarningMessage], n_folds: int) -> None:
    """One warning for those of all fits; what is none of ours is passed on as it is."""
    ours = list(dict.fromkeys(str(each.message) for each in caught if issubclass(each.category, FitWarning)))
    for each in caught:
        if not issubclass(each.category, FitWarning):
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
    if ours:
        more = f" This is the first of {len(ours)} different warnings." if len(ours) > 1 else ""
        warn(f"In a cross-validation of {n_folds} blocks a fit said, of its own rows: {ours[0]}{more}")


def as_regressor(gp: GPClassifier, y: Any) -> tuple[GPRegressor, np.ndarray, tuple[Any, Any]]:
    """The model of a classifier, fitted if that is, the labels as 0 and 1, and the two classes."""
    refuse_missing_labels(y)
    labels = np.asarray(y)
    is_fitted = hasattr(gp, "models_")
    classes = gp.classes_ if is_fitted else np.unique(labels)
    if len(classes) != 2:
        raise InvalidInputError(
            f"`cross_validate` is for two classes, but here are {len(classes)}. For several use scikit-learn's "
            "`cross_val_score(gp, X, y, scoring='neg_log_loss')`."
        )
    unknown = np.flatnonzero(~np.isin(labels, classes))
    if len(unknown):
        raise InvalidInputError(
            f"y has {labels[unknown[0]].item()!r} in row {unknown[0]}, but the model was fitted to "
            f"{classes[0].item()!r} and {classes[1].item()!r}. Give labels of these."
        )
    if not is_fitted:
        model = gp._model(gp.random_state)
    else:
        model = copy(gp.models_[0]).set_params(random_state=gp.random_state)
    first, second = classes.tolist()
    return model, (labels == classes[1]).astype(float), (first, second)
