"""A partition of Dask collections as checked observations, and what is known of it before a fit begins.

What is wrong is said with partition and row; facts of several partitions add up.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets

from knotwise.data import validation
from knotwise.data.exposure import check_noise_variance, check_size
from knotwise.data.observations import EqualRows, Observations
from knotwise.errors import InvalidInputError
from knotwise.likelihoods.base import Likelihood
from knotwise.numerics.weighted import Moments, counted, whole_if_near

IN_MEMORY = (
    "or fit some rows in memory (`X.partitions[0].compute()`): such a model predicts Dask collections with the same "
    "columns."
)
LEVELS_AS_NUMBERS = "Make columns of 0 and 1 of its levels (`dd.get_dummies(X.categorize())`)"
SOME_ROWS = 100_000  # of all partitions together, whose targets come to the driver where means are not enough
MOST_VALUES = 1000  # different targets that are counted one by one
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
            targets = (
                validation.as_numbers(y, "y") if self.label is None else (labels_of(y) == self.label).astype(float)
            )
            if targets.shape != (n,):
                raise InvalidInputError(f"X has {n} rows, but y has shape {targets.shape}.")
            validation.refuse_non_finite(targets, "y")
            name = self.likelihood.size_name
            data = Observations(
                inputs,
                targets,
                check_noise_variance(noise, n),
                None if name is None else check_size(self.likelihood, n, **{name: size}),
                validation.check_row_weights(weights, n),
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
        validation.refuse_masked_and_dates(X, "X")
        validation.refuse_text(X, f"Correct it; {LEVELS_AS_NUMBERS[0].lower()}{LEVELS_AS_NUMBERS[1:]}, {IN_MEMORY}")
        values = np.ascontiguousarray(validation.as_numbers(X, "X"))
        if values.shape[1:] != (self.n_columns,):
            raise InvalidInputError(f"X must have {self.n_columns} columns, but has shape {values.shape}.")
        validation.refuse_non_finite(values, "X", self.columns, "Drop these rows (`frame.dropna()`), or impute them.")
        return values


def labels_of(y: Any) -> np.ndarray:
    validation.refuse_masked_and_dates(y, "y")
    validation.refuse_missing_labels(y)
    labels = np.asarray(y)
    if labels.dtype.kind in "fc":
        validation.refuse_non_finite(labels, "y")
    return labels


def labels_in_partition(number: int, X: Any, y: Any, weights: Any, size: Any, noise: Any) -> np.ndarray:
    """The different labels of a partition, in rows of positive weight."""
    with in_partition(number):
        labels = labels_of(y)
        if labels.ndim != 1 or len(labels) != len(X):
            raise InvalidInputError(f"X has {len(X)} rows, but y has shape {labels.shape}.")
        check_classification_targets(labels)
        counts = validation.check_row_weights(weights, len(labels))
        return np.unique(labels if counts is None else labels[counts > 0])


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


@dataclass
class Facts:
    """Sums over the rows of a partition in the user's units.

    `equal` says how equal rows agree; `count` is the weight of all rows; `means` are those of y and of the size, and
    their weight; `some` are y, size and weights of rows that stand for all; `values` different targets and their
    weights, of which 1,000 are enough; `remarks` what the user must be told of the partition. Weights are those that
    were given, until `weighted_in` has other units for them.
    """

    n_rows: int
    equal: EqualRows
    count: float
    is_weighted: bool
    X: Moments
    x_low: np.ndarray
    x_high: np.ndarray
    y: Moments
    y_low: float
    y_high: float
    noise: Moments | None
    noise_low: float
    means: tuple[float, float, float]
    some: tuple[np.ndarray, np.ndarray, np.ndarray]
    values: tuple[np.ndarray, np.ndarray]
    remarks: tuple[str, ...]

    @staticmethod
    def total(parts: Sequence[Facts]) -> Facts:
        """Facts of all rows, added in the order of the partitions; without `means` and `some`, which do not add up."""
        total = copy(parts[0])
        total.X, total.y, total.noise = copy(total.X), copy(total.y), copy(total.noise)
        total.equal = copy(total.equal)
        for part in parts[1:]:
            total += part
        total.X = _exact_where_constant(total.X, total.x_low, total.x_high)
        total.y = _exact_where_constant(total.y, total.y_low, total.y_high)
        return total

    def weighted_in(self, unit: float) -> Facts:
        """The same with weights in other units."""
        values, weights = self.values
        is_weighted = self.is_weighted or unit != 1.0
        return replace(
            self, count=whole_if_near(self.count / unit), is_weighted=is_weighted, values=(values, weights / unit)
        )

    def __iadd__(self, other: Facts) -> Facts:
        for name in ("n_rows", "equal", "count", "X", "y"):
            value = getattr(self, name)
            value += getattr(other, name)
            setattr(self, name, value)
        self.is_weighted |= other.is_weighted
        if self.noise is not None and other.noise is not None:
            self.noise += other.noise
        self.x_low, self.x_high = np.minimum(self.x_low, other.x_low), np.maximum(self.x_high, other.x_high)
        self.y_low, self.y_high = min(self.y_low, other.y_low), max(self.y_high, other.y_high)
        self.noise_low = min(self.noise_low, other.noise_low)
        both = (np.concatenate(pair) for pair in zip(self.values, other.values, strict=True))
        self.values = _counted_values(*both)
        return self


def facts_of(data: Observations, n_partitions: int) -> Facts | None:
    """Look at a partition; None where no row counts."""
    n, weights = len(data), data.weights
    if not n:
        return None
    counts = np.ones(n) if weights is None else weights
    size = np.ones(n) if data.size is None else data.size
    step = max(n * n_partitions // SOME_ROWS, 1)
    some = slice(None, None, step)
    with np.errstate(over="ignore", invalid="ignore"):  # refused in words when all is known
        X, y = Moments.of(data.X, weights), Moments.of(data.y, weights)
    return Facts(
        n,
        data.equal_rows(),
        counted(np.ones(n, bool), weights),
        weights is not None,
        X,
        data.X.min(0),
        data.X.max(0),
        y,
        float(data.y.min()),
        float(data.y.max()),
        None if data.noise is None else Moments.of(data.noise, weights),
        np.inf if data.noise is None else float(data.noise.min()),
        (float(y.mean), float(np.average(size, weights=weights)), y.weight),
        (data.y[some], size[some], counts[some]),
        _counted_values(data.y, counts),
        data.remarks,
    )


def _exact_where_constant(moments: Moments, low: Any, high: Any) -> Moments:
    """The same without the rounding of a mean of equal values."""
    constant = np.equal(low, high)
    mean, variance = np.where(constant, low, moments.mean), np.where(constant, 0.0, moments.variance)
    return Moments(moments.weight, mean, variance)


def _counted_values(y: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Different values, rising, and how often each counts; of very many, the first."""
    values, which = np.unique(y, return_inverse=True)
    return values[:MOST_VALUES], np.bincount(which, weights)[:MOST_VALUES]
