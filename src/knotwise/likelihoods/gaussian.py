"""Gaussian observations: y = f + noise."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from knotwise.likelihoods.base import Likelihood

__all__ = ["NOISE_FLOOR", "Gaussian"]

#: smallest noise variance, relative to the variance of the data: sites need a finite precision
NOISE_FLOOR = 1e-8


class Gaussian(Likelihood):
    r"""Gaussian noise.

    .. math:: p(y \mid f) = N(y;\, f,\, \mathrm{noise\_variance})

    A noise variance of exactly 0 is allowed; a fit raises it to a floor relative to var(y), and says so.
    """

    transforms: ClassVar[dict[str, str]] = {"noise_variance": "log"}

    def __init__(self, noise_variance: float | None = None) -> None:
        self.noise_variance = noise_variance
        if noise_variance != 0:
            self.validate()

    def start(self, variance):
        return Gaussian(variance / 10 if self.noise_variance is None else self.noise_variance)

    def bounds(self, variance):
        return variance * np.array([[NOISE_FLOOR, 10.0]])

    def scaled(self, factor: float) -> Gaussian:
        """Return the likelihood of factor^(1/2) y."""
        return Gaussian(None if self.noise_variance is None else self.noise_variance * factor)
