"""The nugget: independent latent noise in the prior of f at the data, not at the knots."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from knotwise.numerics.parameters import Parameter
from knotwise.numerics.part import Part

__all__ = ["NoNugget", "Nugget"]


class Nugget(Part):
    """Independent Gaussian noise of this variance on the latent function at every datum.

    It stays outside the power: inside the residual variance, every alpha < 1 would drive it to zero.
    """

    parameters: ClassVar[tuple[Parameter, ...]] = (Parameter("nugget", role="nugget", units="y^2"),)

    def __init__(self, nugget: float | None = None) -> None:
        self.nugget = nugget
        self.validate()

    @property
    def variance(self) -> float:
        return float(self.value("nugget"))

    def start(self, variance: float) -> Nugget:
        """Return the nugget with a value, for a latent function of this variance."""
        return Nugget(variance / 10 if self.nugget is None else self.nugget)

    def bounds(self, variance: float) -> np.ndarray:
        return variance * np.array([[1e-6, 1e2]])


class NoNugget(Nugget):
    """No independent latent noise, and no parameter for it."""

    parameters = ()

    def __init__(self) -> None:
        pass

    @property
    def variance(self) -> float:
        return 0.0

    def start(self, variance: float) -> NoNugget:
        return self

    def bounds(self, variance: float) -> np.ndarray:
        return np.empty((0, 2))
