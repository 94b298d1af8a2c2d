"""The data of a fit in the engine's units, and what is asked of all rows together before a fit begins."""

from __future__ import annotations

from dataclasses import dataclass
from inspect import signature
from typing import Protocol

import numpy as np

from knotwise.data.exposure import NoiseRemarks, UsableNoise
from knotwise.data.scaling import Scaling
from knotwise.evidence import Blocks, InMemory, Rows
from knotwise.likelihoods.base import Likelihood
from knotwise.means import Mean
from knotwise.numerics.blocks import Executor
from knotwise.numerics.weighted import counted, mean_and_variance, weighted_quantile

__all__ = ["LinkScale", "ScaledArrays", "ScaledData", "TrainingData", "constant_start", "spread_of", "without_outliers"]

#: variance of what single observations say of a latent function, from which on its scale is not that of a link any more
WIDE = 16.0
#: how many times the variance that quartiles tell the variance of targets must be to be that of outliers
OUTLYING = 100.0


class TrainingData(Protocol):
    """Checked data in the user's units, wherever they are."""

    @property
    def n_columns(self) -> int: ...

    def scaled(
        self, standardize: str | bool, likelihood: Likelihood, *, full: bool, dispersion: list[str]
    ) -> ScaledData:
        """The data in the engine's units, each row once; `full` says that they are for the exact GP.

        `dispersion` names what is learned of noise, scale or shape: where there is any, weights are relative.
        """
        ...


class ScaledData(Protocol):
    """Data in the engine's units. Nothing here returns a value for each row, but through blocks.

    `variance` is that of the targets, or their mean square where they are constant; `spread` [D] the standard
    deviations of the columns; `target_range` the least and the largest target; `typical_noise` the mean of known noise
    variances, None without, and `noise_remarks` what is to be said of them; `numbers` which rows of the user's data the
    rows are, None where nobody knows or needs it.
    """

    @property
    def scaling(self) -> Scaling: ...

    @property
    def variance(self) -> float: ...

    @property
    def spread(self) -> np.ndarray: ...

    @property
    def target_range(self) -> tuple[float, float]: ...

    @property
    def typical_noise(self) -> float | None: ...

    @property
    def noise_remarks(self) -> NoiseRemarks: ...

    @property
    def numbers(self) -> np.ndarray | None: ...

    def level(self, likelihood: Likelihood) -> float:
        """The level of the latent function."""
        ...

    def on_link(self, likelihood: Likelihood) -> LinkScale:
        """What the observations say of a latent function on the scale of a link."""
        ...

    def differing(self) -> tuple[float, int | float, int | float]:
        """The median of the targets, how many there are, and how many differ from it, each as often as it counts."""
        ...

    def bind(self, mean: Mean, second_moment: float, level: float, *, on_link: bool) -> Mean:
        """The mean for these inputs; see `Mean.bind`."""
        ...

    def blocks(self, mean: Mean, executor: Executor, block_size: int | None) -> Blocks:
        """The rows, with the basis of the mean."""
        ...


@dataclass(frozen=True)
class LinkScale:
    """What single observations say of a latent function on the scale of a link.

    `variance` is that from which the function starts: 1, since a difference of 1 on a link is much, or where the
    observations go much farther, as a log mean from -40 to 40 does, theirs: no optimiser finds that from 1. `precision`
    is the largest with which one of them determines the function.
    """

    variance: float = 1.0
    precision: float = 0.0

    @staticmethod
    def of(likelihood: Likelihood, y: np.ndarray, size: np.ndarray | float, weights: np.ndarray | None) -> LinkScale:
        try:
            with np.errstate(all="ignore"):  # of a 0, which may be an atom
                f = np.broadcast_to(likelihood.latent_of_mean(y, size), np.shape(y))
        except NotImplementedError:  # one's own likelihood need not know it
            return LinkScale()
        known = np.isfinite(f)  # a count of 0 says nothing but "low"
        if known.sum() < 2:
            return LinkScale()
        own = np.broadcast_to(size, np.shape(y))[known]
        precision = float(np.max(likelihood.fisher(y[known], f[known], own)))
        variance = float(mean_and_variance(f[known], None if weights is None else weights[known])[1])
        return LinkScale(variance if variance > WIDE else 1.0, precision)


@dataclass(frozen=True)
class ScaledArrays:
    """Data in memory: inputs X [N, D] and targets y [N] in the engine's units, and what else is known of the rows."""

    scaling: Scaling
    X: np.ndarray
    y: np.ndarray
    variance: float
    noise: UsableNoise | None
    size: np.ndarray | None
    weights: np.ndarray | None
    numbers: np.ndarray | None

    @property
    def spread(self) -> np.ndarray:
        return spread_of(mean_and_variance(self.X, self.weights)[1])

    @property
    def target_range(self) -> tuple[float, float]:
        return float(self.y.min()), float(self.y.max())

    @property
    def typical_noise(self) -> float | None:
        return None if self.noise is None else float(np.average(self.noise.raised, weights=self.weights))

    @property
    def noise_remarks(self) -> NoiseRemarks:
        return NoiseRemarks() if self.noise is None else self.noise.remarks

    def level(self, likelihood: Likelihood) -> float:
        return constant_start(likelihood, self.y, 1.0 if self.size is None else self.size, self.weights)

    def on_link(self, likelihood: Likelihood) -> LinkScale:
        return LinkScale.of(likelihood, self.y, 1.0 if self.size is None else self.size, self.weights)

    def differing(self) -> tuple[float, int | float, int | float]:
        median = weighted_quantile(self.y, 0.5, self.weights)
        return median, counted(np.isfinite(self.y), self.weights), counted(self.y != median, self.weights)

    def bind(self, mean: Mean, second_moment: float, level: float, *, on_link: bool) -> Mean:
        return mean.bind(self.X, second_moment, level, self.weights, on_link=on_link)

    def blocks(self, mean: Mean, executor: Executor, block_size: int | None) -> InMemory:
        raised, given = (None, None) if self.noise is None else (self.noise.raised, self.noise.given)
        rows = Rows(self.X, self.y, raised, mean.basis(self.X), self.size, self.weights, given)
        return InMemory(rows, executor, block_size)


def spread_of(variance: np.ndarray) -> np.ndarray:
    """Standard deviation of each column; a constant one tells nothing and takes the mean of the others."""
    spread = np.sqrt(variance)
    varying = spread[spread > 0]
    return np.where(spread > 0, spread, varying.mean() if len(varying) else 1.0)


def constant_start(
    likelihood: Likelihood, y: np.ndarray, size: np.ndarray | float, weights: np.ndarray | None
) -> float:
    """The level of the latent function; from the rows once each where one's own likelihood knows no weights."""
    if weights is None or "weights" not in signature(likelihood.constant_start).parameters:
        return likelihood.constant_start(y, size)
    return likelihood.constant_start(y, size, weights)


def without_outliers(variance: float, likelihood: Likelihood, y: np.ndarray, weights: np.ndarray | None) -> float:
    """The variance of targets, or where a few of them make it and the likelihood allows for that, that of the others.

    Starts and bounds are relative to it: ten targets of 1e6 among others about 1 would leave no room for these.
    """
    if not likelihood.heavy_tailed:
        return variance
    low, high = (weighted_quantile(y, q, weights) for q in (0.25, 0.75))
    quartiles = ((high - low) / 1.349) ** 2  # 1.349 standard deviations of a normal variable
    return quartiles if 0 < quartiles < variance / OUTLYING else variance
