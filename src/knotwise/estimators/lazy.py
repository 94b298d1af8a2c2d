"""Predictions for Dask collections: lazy, with the partitions of the inputs."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from knotwise.distributed.collections import Partitions, is_frame
from knotwise.distributed.places import place_for
from knotwise.errors import InvalidInputError
from knotwise.estimators.collections import check_columns
from knotwise.estimators.numbers import as_finite_numbers
from knotwise.estimators.reading import in_partition
from knotwise.estimators.validation import check_row_weights
from knotwise.evidence.blocks import Sums
from knotwise.numerics.blocks import Serial
from knotwise.numerics.weighted import Moments
from knotwise.posterior import Latent

__all__ = ["lazy_accuracy", "lazy_latent", "lazy_r2", "predict_lazily"]


def predict_lazily(
    estimator: Any,
    method: str,
    X: Any,
    *,
    columns: Sequence[Any] | None = None,
    n_results: int = 1,
    dtype: Any = float,
    per_row: dict[str, Any] | None = None,
    **options: Any,
) -> Any:
    """What a method predicts for the rows of X, lazily: a Dask array, or a series or data frame with the index of X.

    `columns` are the names of the columns of the result, None where it is one number per row. `n_results` is how many
    arrays the method returns, `per_row` what it takes for each row beside X. Dask knows the sizes of the partitions of
    the result where it knows those of X.
    """
    predict = PredictPartition(method, options, columns, n_results, dtype)
    parts, found = _tasks(estimator, predict, X, per_row or {})
    if n_results == 1:
        return _collection(found, parts, predict)
    return tuple(_collection([each[k] for each in found], parts, predict) for k in range(n_results))


@dataclass(frozen=True)
class PredictPartition:
    """Call a method of a model with a partition."""

    method: str
    options: dict[str, Any]
    columns: Sequence[Any] | None
    n_results: int
    dtype: Any

    def __call__(self, model: Any, X: Any, **per_row: Any) -> Any:
        if not len(X):
            nothing = self.of_no_rows(X)
            return nothing if self.n_results == 1 else (nothing,) * self.n_results
        found: Any = getattr(model, self.method)(X, **per_row, **self.options)
        if self.n_results == 1:
            return self._like(X, found)
        if isinstance(found, Latent):
            found = (found.mean, found.variance)
        return tuple(self._like(X, each) for each in found)

    def of_no_rows(self, X: Any) -> Any:
        """What is returned for a partition X without rows."""
        return self._like(X, np.empty(0 if self.columns is None else (0, len(self.columns)), self.dtype))

    def _like(self, X: Any, found: np.ndarray) -> Any:
        """An array, or what has the index of a data frame."""
        if not hasattr(X, "index"):
            return found
        import pandas as pd

        if self.columns is None:
            return pd.Series(found, index=X.index, name=self.method)
        return pd.DataFrame(found, index=X.index, columns=list(self.columns))


def lazy_latent(estimator: Any, X: Any) -> Latent:
    """Mean and variance of the latent function, lazily."""
    return Latent(*predict_lazily(estimator, "predict_latent", X, n_results=2))


def lazy_r2(estimator: Any, X: Any, **per_row: Any) -> float:
    """R^2 of the predicted means over all partitions, computed."""
    total = _computed(estimator, _squares, X, per_row)
    variance = float(total.targets.variance)
    if not variance:
        return float(not total.residual)
    return 1.0 - total.residual / (total.targets.weight * variance)


def lazy_accuracy(estimator: Any, X: Any, **per_row: Any) -> float:
    """Share of the labels that are predicted rightly over all partitions, computed."""
    right, all_ = _computed(estimator, _right_labels, X, per_row)
    return float(right / all_)


@dataclass
class Squares(Sums):
    """Moments of the targets of some rows, and the sum of their squared residuals."""

    targets: Moments
    residual: float


def _squares(model: Any, X: Any, y: Any, sample_weight: Any = None, **sizes: Any) -> Squares | None:
    if not len(X):
        return None
    y, weights = as_finite_numbers(y, "y"), check_row_weights(sample_weight, len(X))
    residual = (y - model.predict(X, **sizes)) ** 2
    return Squares(Moments.of(y, weights), float(residual.sum() if weights is None else weights @ residual))


def _right_labels(model: Any, X: Any, y: Any, sample_weight: Any = None) -> np.ndarray | None:
    if not len(X):
        return None
    weights = check_row_weights(sample_weight, len(X))
    right = model.predict(X) == np.asarray(y)
    return np.array([right.sum(), len(right)], float) if weights is None else np.array([weights @ right, weights.sum()])


def _computed(estimator: Any, function: Any, X: Any, per_row: dict[str, Any]) -> Any:
    """The sum of what a function returns for each partition, in their order."""
    _, found = _tasks(estimator, function, X, per_row)
    parts = [part for part in place_for(Serial()).compute(found) if part is not None]
    if not parts:
        raise InvalidInputError("X has no rows.")
    total = parts[0]
    for part in parts[1:]:
        total += part
    return total


def _tasks(estimator: Any, function: Any, X: Any, per_row: dict[str, Any]) -> tuple[Partitions, list[Any]]:
    """The partitions of X, and for each the lazy value of a function of a model, the partition and what lies along."""
    from dask import delayed

    check_is_fitted(estimator)
    parts = Partitions(X)
    check_columns(estimator, parts)
    given = {name: parts.along(value, name) for name, value in per_row.items() if value is not None}
    model = delayed(without_training_data(estimator), pure=False, traverse=False)
    call = delayed(PartitionTask(function, tuple(given)), pure=False)
    own = zip(*given.values(), strict=True) if given else [()] * len(parts)
    return parts, [call(model, i, X, *values) for i, (X, values) in enumerate(zip(parts.lazy, own, strict=True))]


@dataclass(frozen=True)
class PartitionTask:
    """Call a function with a model and a partition; what is wrong with a row is said with the partition."""

    function: Any
    names: tuple[str, ...]

    def __call__(self, model: Any, number: int, X: Any, *values: Any) -> Any:
        with in_partition(number):
            return self.function(model, X, **dict(zip(self.names, values, strict=True)))


def without_training_data(estimator: Any) -> Any:
    """A copy for tasks: it predicts on one thread, and does not know its training data."""
    model = copy(estimator)
    if hasattr(model, "models_"):
        model.models_ = [without_training_data(each) for each in model.models_]
    else:
        model._fit = replace(model._fit, training=None, row_numbers=None)
        model.__dict__.pop("parameters_", None)
    model.n_jobs = 1
    model.callback = None
    return model


def _collection(found: list[Any], parts: Partitions, predict: PredictPartition) -> Any:
    """Lazy partitions as one collection."""
    if is_frame(parts.X):
        import dask.dataframe as dd

        return dd.from_delayed(found, meta=predict.of_no_rows(parts.X._meta), verify_meta=False)
    import dask.array as da

    sizes = parts.sizes or (np.nan,) * len(parts)
    more = () if predict.columns is None else (len(predict.columns),)
    of_sizes = zip(found, sizes, strict=True)
    return da.concatenate([da.from_delayed(each, (n, *more), predict.dtype) for each, n in of_sizes])
