"""Log-normal responses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import ndtr, ndtri

from knotwise.likelihoods.base import Derivatives, Expectations, ParameterDerivatives
from knotwise.likelihoods.gaussian import normal_expectations, normal_tilted, normal_tilted_derivative
from knotwise.likelihoods.multiplicative import Multiplicative
from knotwise.likelihoods.special import exp_capped
from knotwise.numerics.parameters import Parameter


class LogNormal(Multiplicative):
    r"""A positive response whose logarithm has Gaussian noise; its median is e^f.

    .. math:: p(y \mid f) = N(\log y;\, f,\, \mathrm{variance}) / y

    Parameters
    ----------
    variance : float, optional
        Variance of the noise of log y. A number is where a fit starts, and `fixed` holds it; None takes it from the
        data.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise.likelihoods import LogNormal
    >>> LogNormal(variance=1.0).conditional_mean(np.array([0.0])).round(3).tolist()  # the median is 1
    [1.649]
    """

    parameters = (Parameter("variance", role="noise", bounds=(1e-8, 1e2)),)

    width = np.inf
    quadratic = True
    jointly_concave = True
    starts_from_means = False  # but from the mean of log y

    def __init__(self, variance: float | None = None) -> None:
        self.variance = variance
        self.validate()

    def log_density(self, y, f, size=1.0):
        return self.log_predictive_density(y, f, 0.0)

    def derivatives(self, y, f, size=1.0):
        W = 1 / self.value("variance")
        d = self._log_ratio(y, f)
        return Derivatives(W * d, np.full_like(d, -W), np.zeros_like(d))

    def parameter_derivatives(self, y, f, size=1.0):
        W = 1 / self.value("variance")
        d = self._log_ratio(y, f)
        return [ParameterDerivatives(0.5 * W * d**2 - 0.5, -W * d, np.full_like(d, W))]

    def expectations(self, y, mean, variance, size=1.0):
        of_log = normal_expectations(self._log_ratio(y, mean), self.value("variance"), variance)
        return Expectations(of_log.log_density - np.log(y), of_log.first, of_log.second)

    def expected_parameter_derivatives(self, y, mean, variance, size=1.0):
        W = 1 / self.value("variance")
        return np.array([0.5 * W * (self._log_ratio(y, mean) ** 2 + variance) - 0.5])

    def tilted(self, y, mean, variance, size=1.0, power=1.0):
        of_log = normal_tilted(self._log_ratio(y, mean), self.value("variance"), variance, power)
        return replace(of_log, log_integral=of_log.log_integral - power * np.log(y))

    def tilted_parameter_derivatives(self, y, mean, variance, size=1.0, power=1.0):
        return normal_tilted_derivative(self._log_ratio(y, mean), self.value("variance"), variance, power)

    def _log_error_moments(self):
        s2 = self.value("variance")
        return s2 / 2, 2 * s2

    def cdf(self, y, f, size=1.0):
        return ndtr(self._log_ratio(y, f) / np.sqrt(self.value("variance")))

    def sample(self, f, rng, size=1.0):
        return exp_capped(f + np.sqrt(self.value("variance")) * rng.standard_normal(np.shape(f)))

    def log_predictive_density(self, y, mean, variance, size=1.0):
        total = self.value("variance") + variance
        return -0.5 * (np.log(2 * np.pi * total) + self._log_ratio(y, mean) ** 2 / total) - np.log(y)

    def predictive_quantile(self, p, mean, variance, size=1.0):
        return exp_capped(mean + ndtri(p) * np.sqrt(self.value("variance") + variance))

    def constant_start(self, y, size=1.0, weights=None):
        return float(np.average(np.log(y), weights=weights))

    def start(self, variance):
        return self if self.variance is not None else type(self)(0.25)  # var(y) says nothing of var(log y)
