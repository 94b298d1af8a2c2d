"""What is known of one partition of the data before a fit begins; facts of several partitions add up."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from knotwise.data.observations import Observations
from knotwise.data.replicates import EqualRows
from knotwise.numerics.weighted import Moments, counted, whole_if_near

__all__ = ["Facts", "facts_of"]

SOME_ROWS = 100_000  # of all partitions together, whose targets come to the driver where means are not enough
MOST_VALUES = 1000  # different targets that are counted one by one


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
