"""Predictions for Dask collections: lazy, with the partitions of the inputs."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from knotwise.data.partitions import check_columns
from knotwise.data.reading import in_partition
from knotwise.data.validation import as_finite_numbers, check_row_weights
from knotwise.distributed.collections import Partitions, has_origin_of, is_frame, only_column
from knotwise.distributed.places import place_for
from knotwise.errors import InvalidInputError
from knotwise.estimators.averaging import latent_models
from knotwise.estimators.tested import Warned
from knotwise.evidence.blocks import Sums
from knotwise.numerics.blocks import Serial, is_dask
from knotwise.numerics.weighted import Moments
from knotwise.posterior.base import Latent


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
    work = _Work.of(estimator, predict, X, per_row or {})
    if is_frame(X):
        found = work.frame(predict.of_no_rows(X._meta))
        return found if n_results == 1 else tuple(found[k].rename(method) for k in range(n_results))
    tasks = work.tasks()
    if n_results == 1:
        return _array(tasks, work.parts, predict)
    return tuple(_array([each[k] for each in tasks], work.parts, predict) for k in range(n_results))


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
            return self.of_no_rows(X)
        found: Any = getattr(model, self.method)(X, **per_row, **self.options)
        if isinstance(found, Latent):
            found = (found.mean, found.variance)
        return self._like(X, found)

    def of_no_rows(self, X: Any) -> Any:
        """What is returned for a partition X without rows."""
        nothing = np.empty(0 if self.columns is None else (0, len(self.columns)), self.dtype)
        return self._like(X, nothing if self.n_results == 1 else (nothing,) * self.n_results)

    def _like(self, X: Any, found: Any) -> Any:
        """Arrays, or for a data frame what has its index: several results are its columns 0, 1, ..."""
        if not hasattr(X, "index"):
            return found
        import pandas as pd

        if self.n_results > 1:
            return pd.DataFrame(dict(enumerate(found)), index=X.index)
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
    found = place_for(Serial()).compute(_Work.of(estimator, function, X, per_row).tasks())
    parts = [part for part in found if part is not None]
    if not parts:
        raise InvalidInputError("X has no rows.")
    total = parts[0]
    for part in parts[1:]:
        total += part
    return total


@dataclass(frozen=True)
class _Work:
    """A function of a model, of each partition of X and of what lies along its rows."""

    model: Any
    task: PartitionTask
    parts: Partitions
    given: dict[str, Any]

    @staticmethod
    def of(estimator: Any, function: Any, X: Any, per_row: dict[str, Any]) -> _Work:
        from dask import delayed

        check_is_fitted(estimator)
        parts = Partitions(X)
        check_columns(estimator, parts)
        if "y" in per_row and per_row["y"] is None:
            raise InvalidInputError("The target y is None: give one value for each row of X.")
        given = {name: value for name, value in per_row.items() if value is not None}
        model = without_training_data(estimator)
        if parts.columns is None:  # has been said once
            for each in (model, *latent_models(model)):
                each.__dict__.pop("feature_names_in_", None)
        lazy_model = delayed(model, pure=False, traverse=False)
        return _Work(lazy_model, PartitionTask(function, tuple(given)), parts, given)

    def tasks(self) -> list[Any]:
        """What the function returns for each partition, lazily."""
        from dask import delayed

        call = delayed(self.task, pure=False)
        along = [self.parts.along(value, name) for name, value in self.given.items()]
        own = zip(*along, strict=True) if along else [()] * len(self.parts)
        of_parts = enumerate(zip(self.parts.lazy, own, strict=True))
        return [call(X, self.model, *values, number=i) for i, (X, values) in of_parts]

    def frame(self, meta: Any) -> Any:
        """The same as a data frame or series; Dask knows that its rows are those of X where all comes from one frame.

        Dask would look for rows by their index otherwise, which may name several: what is predicted could not become
        a column of X.
        """
        import dask.dataframe as dd

        X, values = self.parts.X, [only_column(value, name) for name, value in self.given.items()]
        if all(not is_dask(value) or has_origin_of(X, value) for value in values):
            return X.map_partitions(self.task, self.model, *values, meta=meta, align_dataframes=False)
        return dd.from_delayed(self.tasks(), meta=meta, divisions=X.divisions, verify_meta=False)


@dataclass(frozen=True)
class PartitionTask:
    """Call a function with a model and a partition; what is wrong with a row is said with the partition."""

    function: Any
    names: tuple[str, ...]

    def __call__(self, X: Any, model: Any, *values: Any, number: int = 0, partition_info: Any = None) -> Any:
        with in_partition(partition_info["number"] if partition_info else number):
            return self.function(model, X, **dict(zip(self.names, values, strict=True)))


def without_training_data(estimator: Any) -> Any:
    """A copy for tasks: it predicts on one thread, and does not know its training data."""
    model = copy(estimator)
    if hasattr(model, "classes_"):
        model.models_ = [without_training_data(each) for each in model.models_]
    else:
        model._fit = replace(model._fit, training=None, row_numbers=None)
        model.__dict__.pop("parameters_", None)
        model._warned = Warned(yet=True)  # a warning of a worker reaches nobody
    model.n_jobs = 1
    model.callback = None
    return model


def _array(found: list[Any], parts: Partitions, predict: PredictPartition) -> Any:
    import dask.array as da

    sizes = parts.sizes or (np.nan,) * len(parts)
    more = () if predict.columns is None else (len(predict.columns),)
    of_sizes = zip(found, sizes, strict=True)
    return da.concatenate([da.from_delayed(each, (n, *more), predict.dtype) for each, n in of_sizes])
