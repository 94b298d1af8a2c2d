"""Weibull lifetimes."""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy.special import gammaln

from knotwise.likelihoods.base import Derivatives, Expectations, ParameterDerivatives
from knotwise.likelihoods.log_gamma import log_gamma_quantile
from knotwise.likelihoods.multiplicative import SMALLEST, Multiplicative
from knotwise.likelihoods.response import by_blocks
from knotwise.likelihoods.special import exp_capped
from knotwise.numerics.parameters import Parameter


class Weibull(Multiplicative):
    r"""Lifetimes with scale e^f, whose hazard rises (shape above 1) or falls (below) with time.

    .. math:: \log p(y \mid f) = \log k + (k - 1) \log y - k f - (y e^{-f})^k, \qquad k = \mathrm{shape}

    The mean is e^f Gamma(1 + 1/k).

    Parameters
    ----------
    shape : float, optional
        k above. A number is where a fit starts, and `fixed` holds it; None takes it from the data.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise.likelihoods import Weibull
    >>> Weibull(shape=1.0).conditional_mean(np.log([10.0])).round(6).tolist()  # shape 1 is the exponential
    [10.0]
    """

    parameters = (Parameter("shape", role="noise", bounds=(0.05, 100.0), direction=-1),)

    width = np.inf
    jointly_concave = True

    def __init__(self, shape: float | None = None) -> None:
        self.shape = shape
        self.validate()

    def log_density(self, y, f, size=1.0):
        k = self.value("shape")
        t = k * self._log_ratio(y, f)
        return np.log(k) - np.log(y) + t - exp_capped(t)

    def derivatives(self, y, f, size=1.0):
        k = self.value("shape")
        t = k * self._log_ratio(y, f)
        z = exp_capped(t)
        return Derivatives(k * (z - 1), -(k**2) * z, k**3 * z)

    def parameter_derivatives(self, y, f, size=1.0):
        k = self.value("shape")
        t = k * self._log_ratio(y, f)
        z = exp_capped(t)
        return [ParameterDerivatives(1 + t - t * z, k * (z - 1 + t * z), -(k**2) * z * (2 + t))]

    def expectations(self, y, mean, variance, size=1.0):
        # closed: t is normal too
        k = self.value("shape")
        t = k * self._log_ratio(y, mean)
        z = exp_capped(t + 0.5 * k**2 * variance)
        return Expectations(np.log(k) - np.log(y) + t - z, k * (z - 1), -(k**2) * z)

    def expected_parameter_derivatives(self, y, mean, variance, size=1.0):
        # E t e^t = (E t + var t) E e^t
        k = self.value("shape")
        t, var_t = k * self._log_ratio(y, mean), k**2 * variance
        return np.array([1 + t - (t + var_t) * exp_capped(t + 0.5 * var_t)])

    def _log_error_moments(self):
        k = self.value("shape")
        return float(gammaln(1 + 1 / k)), float(gammaln(1 + 2 / k))

    def cdf(self, y, f, size=1.0):
        return -np.expm1(-exp_capped(self.value("shape") * self._log_ratio(y, f)))

    def predictive_quantile(self, p, mean, variance, size=1.0):
        # log y = f + log(G_1) / k
        k = self.value("shape")
        return exp_capped(mean + by_blocks(partial(log_gamma_quantile, p, 1.0), k * np.sqrt(variance)) / k)

    def sample(self, f, rng, size=1.0):
        error = rng.standard_exponential(np.shape(f)) ** (1 / self.value("shape"))
        return exp_capped(f) * np.maximum(error, SMALLEST)

    def start(self, variance):
        return self if self.shape is not None else type(self)(1.0)
