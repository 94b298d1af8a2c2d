"""What a likelihood is: the density of y given the latent f, and the response scale."""

from __future__ import annotations

import numpy as np

from knotwise.numerics.parameters import Part

__all__ = ["Likelihood"]


class Likelihood(Part):
    """The distribution of an observation given the latent function at its input."""

    def start(self, variance: float) -> Likelihood:
        """Return the likelihood with every parameter that is None set from the variance of the data."""
        raise NotImplementedError(f"{type(self).__name__} must define `start`.")

    def bounds(self, variance: float) -> np.ndarray:
        """Lower and upper bounds of the natural values in the order of theta, [P, 2]."""
        raise NotImplementedError(f"{type(self).__name__} must define `bounds`.")
