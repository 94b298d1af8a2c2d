"""Gaussian observations: y = f + noise."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr, ndtri

from knotwise.errors import InvalidInputError
from knotwise.likelihoods.base import Derivatives, Expectations, Likelihood, ParameterDerivatives, Tilted
from knotwise.noise import ConstantNoise, Noise, NoisyRows
from knotwise.numerics.part import Part

LOG_2PI = float(np.log(2 * np.pi))


class Gaussian(Likelihood):
    r"""Gaussian noise.

    .. math:: p(y \mid f) = N(y;\, f,\, \mathrm{noise\_variance})

    A noise variance of exactly 0 is allowed; a fit raises it to a floor relative to var(y), and says so.

    Parameters
    ----------
    noise_variance : float or Noise, optional
        Variance of the noise, in the units of y squared. A number is where a fit starts, and `fixed` holds it; None
        takes it from the data. A `Noise` is a variance for each row, such as a function of the inputs.

    Examples
    --------
    >>> from knotwise import GPRegressor
    >>> from knotwise.likelihoods import Gaussian
    >>> gp = GPRegressor(likelihood=Gaussian(noise_variance=0.04), fixed=["noise_variance"])  # a known error of 0.2
    """

    parameters = ConstantNoise.parameters
    scales_targets = True
    conjugate = True
    starts_from_means = True
    quadratic = True
    jointly_concave = True
    width = np.inf

    def __init__(self, noise_variance: float | Noise | None = None) -> None:
        self.noise_variance = noise_variance
        self.validate()

    @property
    def noise(self) -> Noise:
        """The noise as a part: the one given, or one number for all rows."""
        if not self.parameters:
            return self.noise_variance
        noise = object.__new__(ConstantNoise)  # of a value that has been checked
        noise.__dict__["noise_variance"] = self.noise_variance
        object.__setattr__(noise, "_known", None)
        return noise

    @property
    def uses_inputs(self) -> bool:
        return bool(self.children())

    def at(self, rows: NoisyRows) -> Gaussian:
        return gaussian_of_rows(self.noise.variance(rows)) if self.uses_inputs else self

    def children(self) -> dict[str, Part]:
        return {"noise_variance": self.noise_variance} if isinstance(self.noise_variance, Noise) else {}

    def value(self, name: str):
        if isinstance(self.noise_variance, float):  # read in every pass
            return self.noise_variance
        if self.parameters:
            return super().value(name)
        raise InvalidInputError(
            f"The noise variance is not one number but {self.noise_variance}: ask for its values at some rows, "
            "`noise.variance(rows)`, or for the likelihood of these rows, `likelihood.at(rows)`."
        )

    def validate(self) -> None:
        if self.children():  # a noise that is a part has parameters of its own
            self.parameters = ()  # type: ignore[assignment,misc]
            return
        self.__dict__.pop("parameters", None)
        if np.shape(self.noise_variance) or self.noise_variance != 0:  # type: ignore[arg-type]
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
        return ndtr((y - f) / np.sqrt(self.value("noise_variance")))

    def sample(self, f, rng, size=1.0):
        return f + np.sqrt(self.value("noise_variance")) * rng.standard_normal(np.shape(f))

    def response_moments(self, mean, variance, size=1.0):
        return mean, variance + self.value("noise_variance")

    def log_predictive_density(self, y, mean, variance, size=1.0):
        total = variance + self.value("noise_variance")
        return -0.5 * (LOG_2PI + np.log(total) + (y - mean) ** 2 / total)

    def predictive_cdf(self, y, mean, variance, size=1.0):
        return ndtr((y - mean) / np.sqrt(variance + self.value("noise_variance")))

    def predictive_quantile(self, p, mean, variance, size=1.0):
        return mean + ndtri(p) * np.sqrt(variance + self.value("noise_variance"))

    def predictive_covariance(self, mean, covariance):
        total = covariance.copy()
        total.flat[:: len(total) + 1] += self.conditional_variance(mean)
        return total

    def start(self, variance):
        started = self.noise.start(variance)
        return type(self)(started if self.children() else started.value("noise_variance"))

    def bounds(self, variance):
        return self.noise.bounds(variance)


def gaussian_of_rows(variance: np.ndarray | float) -> Gaussian:
    """Gaussian observations of rows whose noise variances [n] are known, for their densities and predictions."""
    new = Gaussian()
    new.noise_variance = variance  # type: ignore[assignment]
    return new


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
