"""Gaussian observations: y = f + noise."""

from __future__ import annotations

import numpy as np

from knotwise.errors import warn
from knotwise.likelihoods.base import Derivatives, Likelihood, ParameterDerivatives
from knotwise.numerics.parameters import Parameter

__all__ = ["NOISE_FLOOR", "Gaussian"]

#: smallest noise variance, relative to the variance of the data: sites need a finite precision
NOISE_FLOOR = 1e-8

LOG_2PI = float(np.log(2 * np.pi))


class Gaussian(Likelihood):
    r"""Gaussian noise.

    .. math:: p(y \mid f) = N(y;\, f,\, \mathrm{noise\_variance})

    A noise variance of exactly 0 is allowed; a fit raises it to a floor relative to var(y), and says so.
    """

    parameters = (Parameter("noise_variance", role="noise", units="y^2"),)
    scales_targets = True
    conjugate = True

    def __init__(self, noise_variance: float | None = None) -> None:
        self.noise_variance = noise_variance
        self.validate()

    def validate(self):
        if self.noise_variance is None or np.ndim(self.noise_variance) or self.noise_variance != 0:
            super().validate()

    def log_density(self, y, f, size=1.0):
        noise = self.value("noise_variance")
        return -0.5 * (LOG_2PI + np.log(noise) + (y - f) ** 2 / noise)

    def derivatives(self, y, f, size=1.0):
        W = 1.0 / self.value("noise_variance")
        r = y - f
        return Derivatives(W * r, np.full_like(r, -W), np.zeros_like(r))

    def parameter_derivatives(self, y, f, size=1.0):
        W = 1.0 / self.value("noise_variance")
        r = y - f
        return [ParameterDerivatives(0.5 * W * r**2 - 0.5, -W * r, np.full_like(r, W))]

    def conditional_mean(self, f, size=1.0):
        return f

    def conditional_variance(self, f, size=1.0):
        return np.full_like(f, self.value("noise_variance"))

    def latent_of_mean(self, mean, size=1.0):
        return np.asarray(mean, float)

    def cdf(self, y, f, size=1.0):
        from scipy.special import ndtr

        return ndtr((y - f) / np.sqrt(self.value("noise_variance")))

    def sample(self, f, rng, size=1.0):
        return f + np.sqrt(self.value("noise_variance")) * rng.standard_normal(np.shape(f))

    def response_moments(self, mean, variance, size=1.0):
        return mean, variance + self.value("noise_variance")

    def log_predictive_density(self, y, mean, variance, size=1.0):
        total = variance + self.value("noise_variance")
        return -0.5 * (LOG_2PI + np.log(total) + (y - mean) ** 2 / total)

    def predictive_quantile(self, p, mean, variance, size=1.0):
        from scipy.special import ndtri

        return mean + ndtri(p) * np.sqrt(variance + self.value("noise_variance"))

    def start(self, variance):
        if self.noise_variance is None:
            return type(self)(variance / 10)
        if np.min(self.noise_variance) > 1e-15 * variance:
            return self
        warn(
            f"A noise variance of {np.min(self.noise_variance):.1g} cannot be used: it was raised to the floor of "
            f"{NOISE_FLOOR:.0e} times the variance of y.",
        )
        return type(self)(NOISE_FLOOR * variance)

    def bounds(self, variance):
        return variance * np.array([[NOISE_FLOOR, 10.0]])
