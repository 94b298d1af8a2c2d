"""Estimators in files: what a saved model holds, and how it comes back. docs/files.md describes the format."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

import knotwise
from knotwise.errors import InvalidInputError, ModelFileError
from knotwise.estimators.fitted import Fit
from knotwise.estimators.scaling import Scaling
from knotwise.evidence import Evidence, Point
from knotwise.evidence.full_sites import FullState
from knotwise.knots.selection import Selection
from knotwise.persistence.archive import FORMAT_VERSION, Archive, read_archive, write_archive
from knotwise.persistence.labels import Labels
from knotwise.persistence.parts import read_arguments, write_arguments
from knotwise.persistence.records import RESULT, STATE, TABLE, TRACE, check_model
from knotwise.persistence.schema import (
    Array,
    Count,
    Fields,
    Flag,
    ListOf,
    Number,
    Optional,
    Reading,
    Record,
    Text,
    Whole,
    Writing,
    refuse,
)
from knotwise.posterior import FullPosterior, SparsePosterior

if TYPE_CHECKING:
    from knotwise.estimators.classifier import GPClassifier
    from knotwise.estimators.regressor import GPRegressor

__all__ = ["load", "save"]

FORMAT = "knotwise model"
#: settings of a run on one machine, which are no part of a model
LEFT_OUT = ("callback", "checkpoint")

FIT_1 = Fields(  # of version 1
    scaling=Record(
        Scaling,
        x_centre=Array(("D",)),
        x_scale=Array(("D",), positive=True),
        y_centre=Number(),
        y_scale=Number(positive=True),
    ),
    state=STATE,
    table=TABLE,
    n_rows=Count(),
    final=Fields(value=Number(finite=False), converged=Flag),
    selection=Fields(
        theta=Array(("P",)),
        result=RESULT,
        reason=Text,
        failed_restarts=Whole,
        trace=TRACE,
        knots_as_given=Optional(Array(("K", "D"))),
    ),
)
FIT = Fields(**FIT_1.specs, size_given=Optional(Flag))
INPUTS = Fields(n_features=Whole, names=Optional(ListOf(Text, dim="D")))


def save(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator to a file, at once or not at all."""
    check_is_fitted(estimator)
    out = Writing()
    manifest = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "knotwise": knotwise.__version__,
        "numpy": np.__version__,
        "model": _write_estimator(estimator, "", out),
    }
    write_archive(path, Archive(manifest, out.arrays))


def load(path: str | os.PathLike[str]) -> GPRegressor | GPClassifier:
    """Load a model that `save` has written; it predicts the same bits.

    The file is checked from end to end before anything is made of it, and it can name knotwise's own parts only: no
    code in it or behind it is run. `ModelFileError` says what is wrong with a file.

    The model has no training data: `evidence` raises `NoTrainingDataError`. `trace_` is without the rows that were
    tried for knots, and `callback` and `checkpoint` are None.
    """
    try:
        archive = read_archive(path)
        manifest, given = archive.manifest, Reading(archive.arrays, archive.version)
        if list(manifest) != ["format", "version", "knotwise", "numpy", "model"]:
            raise refuse("manifest", "an object with format, version, knotwise, numpy and model")
        if manifest["format"] != FORMAT or Whole.read(manifest["version"], "version", given) != archive.version:
            raise refuse("format", f"{FORMAT!r} of version {archive.version}, as its end says")
        for name in ("knotwise", "numpy"):
            Text.read(manifest[name], name, given)
        estimator = _read_estimator(manifest["model"], "", given, classes=tuple(_classes()))
        if given.arrays:
            raise refuse("arrays", f"free of arrays that belong to nothing: {', '.join(given.arrays)[:200]}")
    except (ModelFileError, RecursionError) as error:
        what = error if isinstance(error, ModelFileError) else refuse("model", "nested as models are, but far deeper")
        raise ModelFileError(f"Cannot load {os.fspath(path)!r}. {what}", path=os.fspath(path)) from None
    return estimator


# -- estimators -----------------------------------------------------------------------------------


def _classes() -> dict[str, type]:
    from knotwise.estimators.classifier import GPClassifier
    from knotwise.estimators.regressor import GPRegressor

    return {"GPRegressor": GPRegressor, "GPClassifier": GPClassifier}


def _write_estimator(estimator: Any, at: str, out: Writing) -> dict[str, Any]:
    cls = type(estimator)
    if cls not in _classes().values():
        raise InvalidInputError(
            f"The estimator is of the class {cls.__module__}.{cls.__qualname__}, but model files are for "
            f"{' and '.join(_classes())}. Keep this model with pickle."
        )
    names = getattr(estimator, "feature_names_in_", None)
    inputs = {"n_features": estimator.n_features_in_, "names": None if names is None else list(names)}
    written = {
        "class": cls.__name__,
        "settings": write_arguments(estimator, f"{at}settings", out, leave_out=LEFT_OUT),
        "inputs": INPUTS.write(inputs, f"{at}inputs", out),
    }
    if cls.__name__ == "GPRegressor":
        return written | {"fit": _write_fit(estimator._fit, f"{at}fit", out)}
    models = [_write_estimator(model, f"{at}models.{i}.", out) for i, model in enumerate(estimator.models_)]
    return written | {"classes": Labels().write(estimator.classes_, f"{at}classes", out), "models": models}


def _read_estimator(data: Any, at: str, given: Reading, *, classes: tuple[str, ...]) -> Any:
    name = data.get("class") if isinstance(data, dict) else None
    if name not in classes:
        raise refuse(f"{at}class", f"one of {', '.join(classes)}")
    regressor = name == "GPRegressor"
    if list(data) != ["class", "settings", "inputs", *(["fit"] if regressor else ["classes", "models"])]:
        raise refuse(f"{at}class", f"a {name} with all that belongs to it")
    given.sizes = {}
    estimator = read_arguments(_classes()[name], data["settings"], f"{at}settings", given, leave_out=LEFT_OUT)
    inputs = INPUTS.read(data["inputs"], f"{at}inputs", given)
    estimator.n_features_in_ = inputs["n_features"]
    if given.sizes.setdefault("D", inputs["n_features"]) != inputs["n_features"]:
        raise refuse(f"{at}inputs.names", "a list with one name for each column")
    if inputs["names"] is not None:
        estimator.feature_names_in_ = np.array(inputs["names"], object)
    if regressor:
        estimator._fit = _read_fit(data["fit"], f"{at}fit", given)
    else:
        estimator.classes_ = Labels().read(data["classes"], f"{at}classes", given)
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


# -- the fit --------------------------------------------------------------------------------------


def _write_fit(fit: Fit, at: str, out: Writing) -> dict[str, Any]:
    written = {name: getattr(fit, name) for name in FIT.specs if name != "state"}
    return FIT.write(written | {"state": fit.posterior.state}, at, out)


def _read_fit(data: Any, at: str, given: Reading) -> Fit:
    fit = (FIT_1 if given.version == 1 else FIT).read(data, at, given)
    state, table, selection = fit["state"], fit["table"], fit["selection"]
    table = check_model(state.model, table, selection["theta"], given.sizes, f"{at}.state")
    full = isinstance(state, FullState)
    Z = np.empty((0, given.sizes["D"])) if full else state.Z
    point = Point(selection.pop("theta"), Z, None if full else state.jitter)
    final = Evidence(fit["final"]["value"], None, None, None, fit["final"]["converged"])
    return Fit(
        Selection(point, final, **selection),
        fit["scaling"],
        FullPosterior(state) if full else SparsePosterior(state),
        table,
        fit["n_rows"],
        size_given=_size_given(fit, at),
    )


def _size_given(fit: dict[str, Any], at: str) -> bool | None:
    """Whether the fit had an exposure or trials: by the file's own word, by the rows that it holds, or not known."""
    state = fit["state"]
    known: bool | None = None
    if state.model.likelihood.size_name is None:
        known = False
    elif isinstance(state, FullState):
        known = state.rows.size is not None
    told = fit.get("size_given", known)
    if known is not None and told is not known:
        raise refuse(f"{at}.size_given", "true where the fit had an exposure or trials, and false elsewhere")
    return told
