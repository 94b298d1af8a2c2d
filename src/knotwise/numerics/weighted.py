"""Sums over rows that count more or less than once; without weights, NumPy's own means, variances and quantiles."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


def mean_and_variance(values: np.ndarray, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance over the rows, by their sample weights."""
    if weights is None:
        return values.mean(0), values.var(0)
    mean = np.average(values, axis=0, weights=weights)
    return mean, np.average((values - mean) ** 2, axis=0, weights=weights)


def weighted_quantile(values: np.ndarray, q: float, weights: np.ndarray | None) -> float:
    """The quantile of values [n], by their sample weights: for whole ones, that of the repeated values."""
    if weights is None:
        return float(np.quantile(values, q))
    order = np.argsort(values, kind="stable")
    ends = np.cumsum(weights[order])
    place = max(ends[-1] - 1.0, 0.0) * q
    below = np.floor(place)
    at = np.minimum(np.searchsorted(ends, [below, below + 1.0], side="right"), len(values) - 1)
    low, high = values[order[at]]
    return float(low + (place - below) * (high - low))


def counted(rows: np.ndarray, weights: np.ndarray | None) -> int | float:
    """How many rows there are in a mask, by their sample weights; a fraction only where the weights add to one."""
    return int(rows.sum()) if weights is None else whole_if_near(float(weights[rows].sum()))


def whole_if_near(total: float) -> int | float:
    """A sum of weights without the rounding of a whole one: weights with a mean of 1 add up to the number of rows."""
    return round(total) if abs(total - round(total)) <= 1e-12 * total else total


@dataclass
class Moments:
    """Sum of sample weights, and mean and variance of their values, [D] each; those of other rows join them.

    Variances are about the own mean, so that no digits are lost far from the origin.
    """

    weight: float
    mean: np.ndarray
    variance: np.ndarray

    @staticmethod
    def of(values: np.ndarray, weights: np.ndarray | None) -> Moments:
        weight = float(len(values) if weights is None else weights.sum())
        return Moments(weight, *mean_and_variance(values, weights))

    def __iadd__(self, other: Moments) -> Moments:
        weight = self.weight + other.weight
        share = other.weight / weight
        apart = other.mean - self.mean
        self.mean = self.mean + share * apart
        within = (1.0 - share) * self.variance + share * other.variance
        self.variance = within + share * (1.0 - share) * apart**2
        self.weight = weight
        return self
