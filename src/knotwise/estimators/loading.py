"""Estimators from files. A file is checked from end to end, and makes knotwise's own objects only."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np

from knotwise.errors import ModelFileError
from knotwise.estimators.classifier import GPClassifier
from knotwise.estimators.docstrings import documented
from knotwise.estimators.fitted import Fit, Member, posterior_of
from knotwise.estimators.regressor import GPRegressor
from knotwise.estimators.saving import FIT, FORMAT, INPUTS, LEFT_OUT
from knotwise.evidence import Evidence, Model, Point
from knotwise.numerics.parameters import ParameterTable
from knotwise.persistence.archive import FORMAT_VERSION, read_archive
from knotwise.persistence.parts import read_arguments
from knotwise.persistence.records import LABELS, check_model
from knotwise.persistence.schema import Reading, Text, Whole, refuse
from knotwise.posterior.base import Posterior
from knotwise.selection.base import Selection

CLASSES: dict[str, type] = {"GPRegressor": GPRegressor, "GPClassifier": GPClassifier}


@documented
def load(path: str | os.PathLike[str]) -> GPRegressor | GPClassifier:
    """Load a model that `save` has written; it predicts the same bits.

    The file is checked from end to end before anything is made of it, and it can name knotwise's own parts only: no
    code in it or behind it is run. The model has no training data: `evidence` raises `NoTrainingDataError`. `trace_` is
    without the rows that were tried for knots, and `callback` and `checkpoint` are None.

    Parameters
    ----------
    path : path
        A file that `GPRegressor.save`, `GPClassifier.save` or `knotwise fit` has written.

    Returns
    -------
    GPRegressor or GPClassifier
        The model, fitted.

    Raises
    ------
    ModelFileError
        Where the file is none of ours or damaged; it says what is wrong.

    Examples
    --------
    {saved_and_loaded}
    """
    try:
        archive = read_archive(path)
        manifest, given = archive.manifest, Reading(archive.arrays)
        if list(manifest) != ["format", "version", "knotwise", "numpy", "model"]:
            raise refuse("manifest", "an object with format, version, knotwise, numpy and model")
        if manifest["format"] != FORMAT or Whole.read(manifest["version"], "version", given) != FORMAT_VERSION:
            raise refuse("format", f"{FORMAT!r} of version {FORMAT_VERSION}, as its end says")
        for name in ("knotwise", "numpy"):
            Text.read(manifest[name], name, given)
        estimator = _read_estimator(manifest["model"], "", given, classes=tuple(CLASSES))
        if given.arrays:
            raise refuse("arrays", f"free of arrays that belong to nothing: {', '.join(given.arrays)[:200]}")
    except (ModelFileError, RecursionError) as error:
        what = error if isinstance(error, ModelFileError) else refuse("model", "nested as models are, but far deeper")
        raise ModelFileError(f"Cannot load {os.fspath(path)!r}. {what}", path=os.fspath(path)) from None
    return estimator


def _read_estimator(data: Any, at: str, given: Reading, *, classes: tuple[str, ...]) -> Any:
    name = data.get("class") if isinstance(data, dict) else None
    if name not in classes:
        raise refuse(f"{at}class", f"one of {', '.join(classes)}")
    regressor = name == "GPRegressor"
    if list(data) != ["class", "settings", "inputs", *(["fit"] if regressor else ["classes", "models"])]:
        raise refuse(f"{at}class", f"a {name} with all that belongs to it")
    given.sizes = {}
    estimator = read_arguments(CLASSES[name], data["settings"], f"{at}settings", given, leave_out=LEFT_OUT)
    inputs = INPUTS.read(data["inputs"], f"{at}inputs", given)
    estimator.n_features_in_ = inputs["n_features"]
    estimator.crs_, estimator._target_name = inputs["crs"], inputs["target"]
    if given.sizes.setdefault("features", inputs["n_features"]) != inputs["n_features"]:
        raise refuse(f"{at}inputs.names", "a list with one name for each column")
    estimator._encoding = inputs["encoding"]
    if estimator._encoding is not None and estimator._encoding.n_features != inputs["n_features"]:
        raise refuse(f"{at}inputs.encoding", "an encoding of all columns")
    given.sizes["D"] = inputs["n_features"] if estimator._encoding is None else len(estimator._encoding.columns)
    if inputs["names"] is not None:
        estimator.feature_names_in_ = np.array(inputs["names"], object)
    if regressor:
        fit, encoding = _read_fit(data["fit"], f"{at}fit", given), estimator.encoding_
        columns = None if encoding is None else encoding.columns
        estimator._fit = replace(fit, scaling=fit.scaling.of_columns(columns))
    else:
        estimator.classes_ = LABELS.read(data["classes"], f"{at}classes", given)
        estimator.models_ = _read_models(data["models"], f"{at}models", given, estimator)
    try:
        with np.errstate(all="ignore"):
            estimator._publish()
    except (ArithmeticError, ValueError) as error:  # numbers that no fit ends with
        raise refuse(f"{at}fit", f"a fit ({error})") from None
    return estimator


def _read_models(data: Any, at: str, given: Reading, classifier: Any) -> list[Any]:
    """The models of a classifier: one for two classes, else one for each."""
    n_classes = len(classifier.classes_)
    n_models = 1 if n_classes == 2 else n_classes
    if not isinstance(data, list) or len(data) != n_models:
        raise refuse(at, f"a list of {n_models} models")
    models = [_read_estimator(m, f"{at}.{i}.", given, classes=("GPRegressor",)) for i, m in enumerate(data)]
    if any(model.n_features_in_ != classifier.n_features_in_ for model in models):
        raise refuse(at, "a list of models of the same columns")
    return models


def _read_fit(data: Any, at: str, given: Reading) -> Fit:
    fit = FIT.read(data, at, given)
    state, table, selection = fit["state"], fit["table"], fit["selection"]
    table = check_model(state.model, table, selection["theta"], given.sizes, f"{at}.state")
    posterior = posterior_of(state)
    exact = posterior.is_exact
    Z = np.empty((0, given.sizes["D"])) if exact else state.Z
    point = Point(selection.pop("theta"), Z, None if exact else state.jitter)
    final = Evidence(fit["final"]["value"], None, None, None, fit["final"]["converged"])
    return Fit(
        Selection(point, final, **selection),
        fit["scaling"],
        posterior,
        table,
        fit["n_rows"],
        members=_read_members(fit["members"], model=state.model, at=f"{at}.members"),
        **_checked(fit, posterior, table, at),
    )


def _read_members(found: tuple[dict[str, Any], ...], *, model: Model, at: str) -> tuple[Member, ...]:
    """The models beside that of the fit over which predictions are averaged, of the same likelihood."""
    members = []
    for i, each in enumerate(found):
        sizes, own = each.pop("sizes"), each.pop("state")
        if type(own.model.likelihood) is not type(model.likelihood):
            raise refuse(f"{at}.{i}.state", f"of the likelihood {type(model.likelihood).__name__}, as the fit")
        table = check_model(own.model, each.pop("table"), each["theta"], sizes, f"{at}.{i}.state")
        members.append(Member(posterior_of(own), table, **each))
    if sum(member.weight for member in members) > 1.0 + 1e-9:
        raise refuse(at, "a list of models whose weights sum to at most one")
    return tuple(members)


def _checked(fit: dict[str, Any], posterior: Posterior, table: ParameterTable, at: str) -> dict[str, Any]:
    """What the file says of the fit beside its numbers; refused where these contradict it."""
    model, errors = fit["state"].model, fit["errors"]
    rows = posterior.rows if posterior.is_exact else None
    if errors is not None and (np.diagonal(errors.covariance) < 0).any():
        raise refuse(f"{at}.errors.covariance", "free of negative variances")
    if model.likelihood.size_name is None or rows is not None:
        known = model.likelihood.size_name is not None and rows is not None and rows.size is not None
        if fit["size_given"] is not known:
            raise refuse(f"{at}.size_given", "true where the fit had an exposure or trials, and false elsewhere")
    held = table.fixed[[owner == "likelihood" for owner in model.owners]].all()  # as known noise holds it
    may_be = model.likelihood.conjugate and held and (rows is None or rows.noise_variance is not None)
    if fit["noise_given"] and not may_be:
        raise refuse(f"{at}.noise_given", "true only where the noise of the rows was known")
    return {name: fit[name] for name in ("size_given", "noise_given", "noise_remark", "errors", "tested", "noise")}
