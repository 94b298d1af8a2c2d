"""Estimators into files: what a saved model holds. docs/files.md describes the format, `loading` reads it."""

from __future__ import annotations

import logging
import os
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from knotwise.data.encoding.encoding import EncodingRecord
from knotwise.data.scaling import Scaling
from knotwise.errors import InvalidInputError
from knotwise.estimators.averaging import latent_models
from knotwise.estimators.fitted import Member
from knotwise.estimators.noise import NoiseRecord
from knotwise.estimators.tested import Tested
from knotwise.numerics.standard_errors import ParameterErrors
from knotwise.persistence.archive import FORMAT_VERSION, Archive, write_archive
from knotwise.persistence.parts import Part, write_arguments
from knotwise.persistence.records import LABELS, RESULT, STATE, TABLE, TRACE
from knotwise.persistence.schema import (
    Array,
    Count,
    Fields,
    Flag,
    ListOf,
    Number,
    OneWord,
    Optional,
    Reading,
    Record,
    Text,
    Whole,
    Writing,
)
from knotwise.selection.trace import Status
from knotwise.version import __version__

LOG = logging.getLogger("knotwise")

FORMAT = "knotwise model"
#: settings of a run on one machine, which are no part of a model
LEFT_OUT = ("callback", "checkpoint")


class MemberRecord(Fields):
    """A model over which predictions are averaged; knots and parameters are its own, columns those of the fit."""

    def write(self, value: Member, at: str, out: Writing) -> dict[str, Any]:
        return super().write(vars(value) | {"state": value.posterior.state}, at, out)

    def read(self, data: Any, at: str, given: Reading) -> dict[str, Any]:
        sizes, given.sizes = given.sizes, {name: given.sizes[name] for name in ("features", "D")}
        try:
            found = super().read(data, at, given)
            return found | {"sizes": given.sizes}
        finally:
            given.sizes = sizes


FIT = Fields(
    scaling=Record(
        Scaling,
        x_centre=Array(("D",), squared=True),
        x_scale=Array(("D",), positive=True, squared=True),
        y_centre=Number(squared=True),
        y_scale=Number(positive=True, squared=True),
        warps=Optional(ListOf(Optional(Part("warp")), tuple, "D")),
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
        status=Optional(OneWord({str(status): status for status in Status})),
        advice=Text,
    ),
    size_given=Flag,
    errors=Optional(
        Record(ParameterErrors, covariance=Array(("P", "P"), finite=False), notes=ListOf(Text, tuple, "P"), remark=Text)
    ),
    noise_given=Flag,
    noise_remark=Text,
    tested=Optional(Record(Tested, **{name: Number(finite=False) for name in Tested.__dataclass_fields__})),
    members=ListOf(
        MemberRecord(state=STATE, table=TABLE, theta=Array(("P",)), value=Number(), weight=Number(positive=True)), tuple
    ),
    noise=Optional(
        Record(
            NoiseRecord,
            penalty=Number(),
            gain=Number(finite=False),
            low=Number(positive=True),
            high=Number(positive=True),
            near=Flag,
        )
    ),
)
INPUTS = Fields(
    n_features=Whole,
    names=Optional(ListOf(Text, dim="features")),
    encoding=Optional(EncodingRecord()),
    crs=Optional(Text),
    target=Optional(Text),
)


def save(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator to a file, at once or not at all, and log which training rows it holds."""
    check_is_fitted(estimator)
    out = Writing()
    manifest = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "knotwise": __version__,
        "numpy": np.__version__,
        "model": _write_estimator(estimator, "", out),
    }
    write_archive(path, Archive(manifest, out.arrays))
    fits = [model._fit for model in latent_models(estimator)]
    posteriors = [(fit, each.posterior) for fit in fits for each in (fit, *fit.members)]
    for text in dict.fromkeys(posterior.rows_in_words(fit.inputs_at_hand) for fit, posterior in posteriors):
        LOG.info("%s %s", os.fspath(path), text)


def _write_estimator(estimator: Any, at: str, out: Writing) -> dict[str, Any]:
    cls = type(estimator)
    if cls.__module__.partition(".")[0] != "knotwise":
        raise InvalidInputError(
            f"The estimator is of the class {cls.__module__}.{cls.__qualname__}, but model files are for GPRegressor "
            "and GPClassifier. Keep this model with pickle."
        )
    names = getattr(estimator, "feature_names_in_", None)
    inputs = {
        "n_features": estimator.n_features_in_,
        "names": None if names is None else list(names),
        "encoding": estimator._encoding,
        "crs": estimator.crs_,
        "target": estimator._target_name,
    }
    written = {
        "class": cls.__name__,
        "settings": write_arguments(estimator, f"{at}settings", out, leave_out=LEFT_OUT),
        "inputs": INPUTS.write(inputs, f"{at}inputs", out),
    }
    if cls.__name__ == "GPRegressor":
        fit = {name: getattr(estimator._fit, name) for name in FIT.specs if name != "state"}
        fit |= {"state": estimator._fit.posterior.state, "errors": _errors_of(estimator)}
        return written | {"fit": FIT.write(fit, f"{at}fit", out)}
    models = [_write_estimator(model, f"{at}models.{i}.", out) for i, model in enumerate(estimator.models_)]
    return written | {"classes": LABELS.write(estimator.classes_, f"{at}classes", out), "models": models}


def _errors_of(estimator: Any) -> ParameterErrors | None:
    """Standard errors for a file, which has no data to compute them of: the known ones, or such as are quick."""
    found = estimator.parameters_.errors
    if estimator._fit.rows_at_hand is not None:
        found.errors(None)
    return found.known
