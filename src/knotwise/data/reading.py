"""A partition of Dask collections as checked observations: what is wrong is said with partition and row."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

import numpy as np

from knotwise.data.numbers import (
    as_numbers,
    refuse_masked_and_dates,
    refuse_missing_labels,
    refuse_non_finite,
    refuse_text,
)
from knotwise.data.observations import Observations
from knotwise.data.validation import check_noise_variance, check_row_weights, check_size
from knotwise.errors import InvalidInputError
from knotwise.likelihoods.base import Likelihood

__all__ = ["IN_MEMORY", "LEVELS_AS_NUMBERS", "Reading", "in_partition", "labels_of"]

IN_MEMORY = (
    "or fit some rows in memory (`X.partitions[0].compute()`): such a model predicts Dask collections with the same "
    "columns."
)
LEVELS_AS_NUMBERS = "Make columns of 0 and 1 of its levels (`dd.get_dummies(X.categorize())`)"
_lock = Lock()


@dataclass(frozen=True)
class Reading:
    """How the pieces of a partition become observations for a likelihood.

    `columns` are the names of the columns of data frames. Where `label` is not None, y are labels, and the targets are
    1 where they are this one and 0 elsewhere. `merge` says whether rows are sorted and equal ones merged, or stay as
    they are.
    """

    likelihood: Likelihood
    n_columns: int
    columns: list[Any] | None = None
    label: Any = None
    merge: bool = True

    def __call__(self, number: int, X: Any, y: Any, weights: Any, size: Any, noise: Any) -> Observations:
        """Check a partition; merged, it has no rows of weight 0."""
        with in_partition(number):
            inputs = self.inputs(X)
            n = len(inputs)
            targets = as_numbers(y, "y") if self.label is None else (labels_of(y) == self.label).astype(float)
            if targets.shape != (n,):
                raise InvalidInputError(f"X has {n} rows, but y has shape {targets.shape}.")
            refuse_non_finite(targets, "y")
            name = self.likelihood.size_name
            data = Observations(
                inputs,
                targets,
                check_noise_variance(noise, n),
                None if name is None else check_size(self.likelihood, n, **{name: size}),
                check_row_weights(weights, n),
            )
            with _caught_warnings() as remarks:
                data = data.checked_for(self.likelihood)
            if self.merge:
                counts = n > 0 and (data.weights is None or data.weights.any())
                data = data.merged() if counts else data.take(np.empty(0, int), None)
        return replace(data, remarks=tuple(str(each.message) for each in remarks))

    def inputs(self, X: Any) -> np.ndarray:
        """The inputs of a partition, a finite float64 array [n, D]."""
        if self.columns is not None and list(X.columns) != self.columns:
            raise InvalidInputError(
                f"The columns are {list(X.columns)}, but Dask says that those of all partitions are {self.columns}. "
                "Select them by name where the partitions are made."
            )
        refuse_masked_and_dates(X, "X")
        refuse_text(X, f"Correct it; {LEVELS_AS_NUMBERS[0].lower()}{LEVELS_AS_NUMBERS[1:]}, {IN_MEMORY}")
        values = np.ascontiguousarray(as_numbers(X, "X"))
        if values.shape[1:] != (self.n_columns,):
            raise InvalidInputError(f"X must have {self.n_columns} columns, but has shape {values.shape}.")
        refuse_non_finite(values, "X", self.columns, "Drop these rows (`frame.dropna()`), or impute them.")
        return values


def labels_of(y: Any) -> np.ndarray:
    """Labels of classes as an array."""
    refuse_masked_and_dates(y, "y")
    refuse_missing_labels(y)
    labels = np.asarray(y)
    if labels.dtype.kind in "fc":
        refuse_non_finite(labels, "y")
    return labels


@contextmanager
def _caught_warnings() -> Iterator[list[warnings.WarningMessage]]:
    """Catch warnings, which a worker could tell nobody. Filters belong to the process, so one thread at a time."""
    with _lock, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught


@contextmanager
def in_partition(number: int) -> Iterator[None]:
    """Say in which partition something is wrong; its rows are counted from 0 in each partition."""
    try:
        yield
    except InvalidInputError as error:
        raise InvalidInputError(f"Partition {number}: {error}", **error.__dict__ | {"partition": number}) from None
