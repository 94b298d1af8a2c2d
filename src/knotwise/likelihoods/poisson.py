"""Poisson counts."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaincc

from knotwise.likelihoods.base import Derivatives, Expectations
from knotwise.likelihoods.counts import LARGEST_RATE, Counts
from knotwise.likelihoods.negative_binomial import NegativeBinomial
from knotwise.likelihoods.special import deviance_excess, exp_capped, factorial_excess


class Poisson(Counts):
    r"""Counts of independent events.

    .. math:: p(y \mid f) = \mu^y e^{-\mu} / y!, \qquad \mu = \mathrm{exposure}\; e^f

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise.likelihoods import Poisson
    >>> Poisson().conditional_mean(np.log([3.0]), 2.0).round(6).tolist()  # a rate of 3, an exposure of 2
    [6.0]
    """

    width = np.inf
    jointly_concave = True

    def with_dispersion(self, dispersion):
        return NegativeBinomial(dispersion)

    def log_density(self, y, f, size=1.0):
        # with d = log(mu / y):  y log mu - mu - log y! = -y (e^d - 1 - d) - (log y! - y log y + y),
        # whose terms are of the size of the result, while y log mu and log y! are not
        y = np.asarray(y, float)
        counted = y > 0
        d = f + np.log(size) - np.log(np.where(counted, y, 1.0))
        return -np.where(counted, y * deviance_excess(d), size * exp_capped(f)) - factorial_excess(y)

    def derivatives(self, y, f, size=1.0):
        rate = size * exp_capped(f)
        return Derivatives(y - rate, -rate, -rate)

    def expectations(self, y, mean, variance, size=1.0):
        # closed, with E e^f = e^(mean + variance/2)
        f = mean + 0.5 * variance
        rate = size * exp_capped(f)
        return Expectations(self.log_density(y, f, size) - 0.5 * variance * y, y - rate, -rate)

    def cdf(self, y, f, size=1.0):
        k = np.floor(y)
        return np.where(k < 0, 0.0, gammaincc(np.maximum(k, 0.0) + 1, size * exp_capped(f)))

    def sample(self, f, rng, size=1.0):
        return rng.poisson(np.minimum(size * exp_capped(f), LARGEST_RATE)).astype(float)
