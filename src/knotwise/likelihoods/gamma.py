"""Gamma responses: positive, with a constant coefficient of variation."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import numpy as np
from scipy.special import gammainc

from knotwise.likelihoods.base import Derivatives, Expectations, Likelihood, ParameterDerivatives
from knotwise.likelihoods.log_gamma import log_gamma_quantile
from knotwise.likelihoods.multiplicative import SMALLEST, Multiplicative
from knotwise.likelihoods.response import by_blocks
from knotwise.likelihoods.special import deviance_excess, digamma_defect, exp_capped, factorial_excess
from knotwise.numerics.parameters import Parameter


class Gamma(Multiplicative):
    r"""A gamma distribution with mean e^f.

    .. math:: p(y \mid f) = \frac{k^k y^{k - 1}}{\Gamma(k)}\, e^{-k f - k y e^{-f}}, \qquad k = \mathrm{shape}

    The standard deviation is the mean divided by the square root of the shape.

    Parameters
    ----------
    shape : float, optional
        k above: the larger, the less y varies about its mean. A number is where a fit starts, and `fixed` holds it;
        None takes it from the data.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise.likelihoods import Gamma
    >>> Gamma(shape=4.0).conditional_variance(np.log([10.0])).round(6).tolist()
    [25.0]
    """

    parameters: ClassVar[tuple[Parameter, ...]] = (Parameter("shape", role="noise", bounds=(1e-2, 1e5), direction=-1),)

    width = np.inf
    jointly_concave = True

    def __init__(self, shape: float | None = None) -> None:
        self.shape = shape
        self.validate()

    def log_density(self, y, f, size=1.0):
        # k log k - log Gamma(k) - k f + k log y - k y e^-f, in terms that stay small for a large shape
        k = self.value("shape")
        return np.log(k) - factorial_excess(k) - np.log(y) - k * deviance_excess(self._log_ratio(y, f))

    def derivatives(self, y, f, size=1.0):
        k = self.value("shape")
        z = k * exp_capped(self._log_ratio(y, f))
        return Derivatives(z - k, -z, z)

    def parameter_derivatives(self, y, f, size=1.0):
        k = self.value("shape")
        d = self._log_ratio(y, f)
        z = k * exp_capped(d)
        return [ParameterDerivatives(digamma_defect(k) - k * deviance_excess(d), z - k, -z)]

    def expectations(self, y, mean, variance, size=1.0):
        k = self.value("shape")
        z = k * exp_capped(self._log_ratio(y, mean) + 0.5 * variance)
        excess = self._expected_excess(y, mean, variance)
        return Expectations(np.log(k) - factorial_excess(k) - np.log(y) - k * excess, z - k, -z)

    def expected_parameter_derivatives(self, y, mean, variance, size=1.0):
        k = self.value("shape")
        return np.array([digamma_defect(k) - k * self._expected_excess(y, mean, variance)])

    def _expected_excess(self, y, mean, variance):
        """E (e^d - 1 - d) for d = log y - f."""
        return deviance_excess(self._log_ratio(y, mean) + 0.5 * variance) + 0.5 * variance

    def _log_error_moments(self):
        return 0.0, float(np.log1p(1 / self.value("shape")))

    def cdf(self, y, f, size=1.0):
        k = self.value("shape")
        return gammainc(k, k * exp_capped(self._log_ratio(y, f)))

    def predictive_quantile(self, p, mean, variance, size=1.0):
        # log y = f + log(G_k / k)
        return exp_capped(mean + by_blocks(partial(log_gamma_quantile, p, self.value("shape")), np.sqrt(variance)))

    def sample(self, f, rng, size=1.0):
        k = self.value("shape")
        return exp_capped(f) * np.maximum(rng.standard_gamma(k, np.shape(f)) / k, SMALLEST)

    def start(self, variance) -> Likelihood:
        return self if self.shape is not None else type(self)(2.0)


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
