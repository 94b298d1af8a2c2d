"""Two classes in a cross-validation: a model of the second one, which is a regressor of 0 and 1."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from knotwise.data.validation import refuse_missing_labels
from knotwise.errors import InvalidInputError
from knotwise.estimators.classifier import GPClassifier
from knotwise.estimators.regressor import GPRegressor

__all__ = ["as_regressor"]


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
