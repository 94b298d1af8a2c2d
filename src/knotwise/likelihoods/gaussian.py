"""Gaussian observations: y = f + noise."""

from __future__ import annotations

import numpy as np

from knotwise.errors import warn
from knotwise.likelihoods.base import Derivatives, Expectations, Likelihood, ParameterDerivatives, Tilted
from knotwise.numerics.parameters import Parameter

__all__ = [
    "NOISE_FLOOR",
    "NO_NOISE",
    "Gaussian",
    "normal_expectations",
    "normal_tilted",
    "normal_tilted_derivative",
]

#: smallest noise variance, relative to the variance of the data: sites need a finite precision
NOISE_FLOOR = 1e-8

#: a noise variance below this share of the variance of the data is none: beside a kernel's diagonal it has no digits
NO_NOISE = 1e-15

LOG_2PI = float(np.log(2 * np.pi))


class Gaussian(Likelihood):
    r"""Gaussian noise.

    .. math:: p(y \mid f) = N(y;\, f,\, \mathrm{noise\_variance})

    A noise variance of exactly 0 is allowed; a fit raises it to a floor relative to var(y), and says so.

    Parameters
    ----------
    noise_variance : float, optional
        Variance of the noise, in the units of y squared. A number is where a fit starts, and `fixed` holds it; None
        takes it from the data.

    Examples
    --------
    >>> from knotwise import GPRegressor
    >>> from knotwise.likelihoods import Gaussian
    >>> gp = GPRegressor(likelihood=Gaussian(noise_variance=0.04), fixed=["noise_variance"])  # a known error of 0.2
    """

    parameters = (Parameter("noise_variance", role="noise", units="y^2"),)
    scales_targets = True
    conjugate = True
    starts_from_means = True
    quadratic = True
    jointly_concave = True
    width = np.inf

    def __init__(self, noise_variance: float | None = None) -> None:
        self.noise_variance = noise_variance
        self.validate()

    def validate(self) -> None:
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

    def expectations(self, y, mean, variance, size=1.0):
        return normal_expectations(y - mean, self.value("noise_variance"), variance)

    def expected_parameter_derivatives(self, y, mean, variance, size=1.0):
        W = 1.0 / self.value("noise_variance")
        return np.array([0.5 * W * ((y - mean) ** 2 + variance) - 0.5])

    def tilted(self, y, mean, variance, size=1.0, power=1.0):
        return normal_tilted(y - mean, self.value("noise_variance"), variance, power)

    def tilted_parameter_derivatives(self, y, mean, variance, size=1.0, power=1.0):
        return normal_tilted_derivative(y - mean, self.value("noise_variance"), variance, power)

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
        if np.min(self.noise_variance) > NO_NOISE * variance:
            return self
        warn(
            f"A noise variance of {np.min(self.noise_variance):.1g} cannot be used: it was raised to the floor of "
            f"{NOISE_FLOOR:.0e} times the variance of y.",
        )
        return type(self)(NOISE_FLOOR * variance)

    def bounds(self, variance):
        return variance * np.array([[NOISE_FLOOR, 10.0]])


# For r = y - mean of f, or of logarithms: y has normal noise about f ~ N(mean, variance).


def normal_expectations(r, noise, variance) -> Expectations:
    """E log N(y; f, noise) and the expectations of its derivatives."""
    W = 1.0 / noise
    first = W * (r + 0.0 * variance)
    return Expectations(
        -0.5 * (LOG_2PI + np.log(noise) + W * (r**2 + variance)), first, np.broadcast_to(-W, np.shape(first)).copy()
    )


def normal_tilted(r, noise, variance, power) -> Tilted:
    """log of the integral of N(y; f, noise)^power N(f; mean, variance), and its derivatives in the mean.

    The power of a normal density is one of variance noise / power, times a constant.
    """
    total = noise / power + variance
    log_integral = -0.5 * (power * (LOG_2PI + np.log(noise)) + np.log(power * total / noise) + r**2 / total)
    return Tilted(log_integral, r / total, -1.0 / (total + 0.0 * r), variance_ratio=noise / power / (total + 0.0 * r))


def normal_tilted_derivative(r, noise, variance, power) -> np.ndarray:
    """E d log N(y; f, noise) / d log noise under the law proportional to N(y; f, noise)^power N(f), [1, n]."""
    share = noise / power / (noise / power + variance)  # of N(f) in the mean of that law
    return np.array([0.5 * ((share * r) ** 2 + share * variance) / noise - 0.5])
