"""Gaussian processes on knots (inducing points): how many, where, and with honest uncertainty.

Names are loaded when they are first used, so that importing the package is as light as importing NumPy.
"""

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING, Any

from knotwise.version import __version__

if TYPE_CHECKING:
    from knotwise import (
        datasets,
        errors,
        kernels,
        knots,
        likelihoods,
        means,
        metrics,
        optimize,
        plotting,
        priors,
        spatial,
        testing,
    )
    from knotwise.crossvalidation.validate import cross_validate
    from knotwise.estimators import GPClassifier, GPRegressor
    from knotwise.estimators.loading import load
    from knotwise.estimators.scoring import response_scorer
    from knotwise.prediction import Prediction

__all__ = [
    "GPClassifier",
    "GPRegressor",
    "Prediction",
    "__version__",
    "cross_validate",
    "datasets",
    "errors",
    "kernels",
    "knots",
    "likelihoods",
    "load",
    "means",
    "metrics",
    "optimize",
    "plotting",
    "priors",
    "response_scorer",
    "spatial",
    "testing",
]

_HOME = {
    "GPClassifier": "knotwise.estimators.classifier",
    "GPRegressor": "knotwise.estimators.regressor",
    "Prediction": "knotwise.prediction",
    "cross_validate": "knotwise.crossvalidation.validate",
    "load": "knotwise.estimators.loading",
    "response_scorer": "knotwise.estimators.scoring",
}

#: what a fit does, for those who ask for it; a library says nothing by itself
logging.getLogger("knotwise").addHandler(logging.NullHandler())


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    if name in __all__:
        return importlib.import_module(f"knotwise.{name}")
    raise AttributeError(f"module 'knotwise' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
