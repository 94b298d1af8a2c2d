"""Exponential waiting times."""

from __future__ import annotations

import numpy as np

from knotwise.likelihoods.gamma import Gamma

__all__ = ["Exponential"]


class Exponential(Gamma):
    r"""Waiting times with a constant hazard: the gamma distribution with shape 1.

    .. math:: p(y \mid f) = e^{-f - y e^{-f}}

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise.likelihoods import Exponential
    >>> Exponential().cdf(np.array([1.0]), np.array([0.0])).round(3).tolist()
    [0.632]
    """

    parameters = ()

    def __init__(self) -> None:
        self.shape = 1.0

    def parameter_derivatives(self, y, f, size=1.0):
        return []

    def expected_parameter_derivatives(self, y, mean, variance, size=1.0):
        return np.empty((0, *np.broadcast_shapes(*map(np.shape, (y, mean, variance)))))

    def start(self, variance):
        return self
