"""What is asked of all rows together before a fit begins, of arrays in memory or of partitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from knotwise.data.exposure import NoiseRemarks
from knotwise.data.scaling import Scaling
from knotwise.evidence import Blocks
from knotwise.likelihoods.base import Likelihood
from knotwise.means import Mean
from knotwise.numerics.blocks import Executor
from knotwise.numerics.weighted import mean_and_variance

#: variance of what single observations say of a latent function, from which on its scale is not that of a link any more
WIDE = 16.0


class TrainingData(Protocol):
    """Checked data in the user's units, wherever they are."""

    @property
    def at_hand(self) -> bool:
        """Whether the rows are in the memory of this process."""

    @property
    def n_columns(self) -> int: ...

    def scaled(
        self, standardize: str | bool, likelihood: Likelihood, *, full: bool, dispersion: list[str]
    ) -> ScaledData:
        """The data in the engine's units, each row once; `full` says that they are for the exact GP.

        `dispersion` names what is learned of noise, scale or shape: where there is any, weights are relative.
        """


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

    def on_link(self, likelihood: Likelihood) -> LinkScale:
        """What the observations say of a latent function on the scale of a link."""

    def differing(self) -> tuple[float, int | float, int | float]:
        """The median of the targets, how many there are, and how many differ from it, by their sample weights."""

    def bind(self, mean: Mean, second_moment: float, level: float, *, on_link: bool) -> Mean:
        """The mean for these inputs; see `Mean.bind`."""

    def blocks(self, mean: Mean, executor: Executor, block_size: int | None) -> Blocks:
        """The rows, with the basis of the mean."""


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
