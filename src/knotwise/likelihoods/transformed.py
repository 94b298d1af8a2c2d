"""Gaussian data of which a transform is modelled: T(y) = f + noise, and everything is said of y."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from knotwise.errors import InvalidInputError
from knotwise.likelihoods.base import Likelihood
from knotwise.likelihoods.roots import find_between
from knotwise.noise import Noise, NoisyRows
from knotwise.numerics.part import Part
from knotwise.transforms import Transform


class Transformed(Likelihood):
    r"""A target of which a transform has Gaussian noise.

    .. math:: p(y \mid f) = N(T(y);\, f,\, \mathrm{noise\_variance}) \; T'(y)

    A fit takes z = T(y) for ordinary Gaussian data, so that kernels, knots and inference are those of Gaussian data,
    and adds log T'(y) to the log evidence. (Y1)

    Parameters
    ----------
    gaussian : Gaussian
        The noise of z, in the units of z.
    transform : Transform
        T, from `knotwise.transforms`.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise.likelihoods import Gaussian, Transformed
    >>> from knotwise.transforms import Log
    >>> observed = Transformed(Gaussian(noise_variance=1.0), Log())
    >>> observed.conditional_mean(np.array([0.0])).round(3).tolist()  # of y = exp(f + noise); its median is 1
    [1.649]
    """

    transform: Transform
    quadratic = True
    jointly_concave = True
    width = np.inf

    def __init__(self, gaussian: Likelihood, transform: Transform) -> None:
        if getattr(gaussian, "conjugate", None) is False:
            raise InvalidInputError(
                f"`transform` is for Gaussian data, but the likelihood is {type(gaussian).__name__}, which says by "
                "itself how targets are spread. Leave one of the two out."
            )
        if not (hasattr(gaussian, "conjugate") and hasattr(transform, "log_slope")):
            raise InvalidInputError(
                f"`Transformed({gaussian!r}, {transform!r})` is not possible: give a `Gaussian` and a transform of "
                "`knotwise.transforms`, such as `Transformed(Gaussian(), Log())`."
            )
        self.gaussian = gaussian
        self.transform = transform

    def children(self) -> dict[str, Part]:
        return {"gaussian": self.gaussian}

    def value(self, name: str):
        return self.gaussian.value(name)  # which has the only parameter

    @property
    def noise(self) -> Noise:
        """The noise of T(y), as a part."""
        return self.gaussian.noise

    @property
    def modelled(self) -> Likelihood:
        return self.gaussian

    @property
    def uses_inputs(self) -> bool:
        return self.gaussian.uses_inputs

    def at(self, rows: NoisyRows) -> Transformed:
        return Transformed(self.gaussian.at(rows), self.transform) if self.uses_inputs else self

    # -- of z, and its Jacobian ------------------------------------------------------------------

    def log_density(self, y, f, size=1.0):
        return self._with_slope(self.gaussian.log_density(self.transform(y), f), y)

    def derivatives(self, y, f, size=1.0):
        return self.gaussian.derivatives(self.transform(y), f)

    def parameter_derivatives(self, y, f, size=1.0):
        return self.gaussian.parameter_derivatives(self.transform(y), f)

    def expectations(self, y, mean, variance, size=1.0):
        of_z = self.gaussian.expectations(self.transform(y), mean, variance)
        return replace(of_z, log_density=of_z.log_density + self.transform.log_slope(y))

    def expected_parameter_derivatives(self, y, mean, variance, size=1.0):
        return self.gaussian.expected_parameter_derivatives(self.transform(y), mean, variance)

    def tilted(self, y, mean, variance, size=1.0, power=1.0):
        of_z = self.gaussian.tilted(self.transform(y), mean, variance, power=power)
        return replace(of_z, log_integral=of_z.log_integral + power * self.transform.log_slope(y))

    def tilted_parameter_derivatives(self, y, mean, variance, size=1.0, power=1.0):
        return self.gaussian.tilted_parameter_derivatives(self.transform(y), mean, variance, power=power)

    def _with_slope(self, log_density, y):
        """The log density of y, of that of z; -inf where y cannot be."""
        slope = self.transform.log_slope(y)
        with np.errstate(invalid="ignore"):
            return np.where(np.isneginf(slope), -np.inf, log_density + slope)

    # -- the response ----------------------------------------------------------------------------

    def conditional_mean(self, f, size=1.0):
        return self.response_moments(np.asarray(f, float), 0.0)[0]

    def conditional_variance(self, f, size=1.0):
        return self.response_moments(np.asarray(f, float), 0.0)[1]

    def latent_of_mean(self, mean, size=1.0):
        mean = np.asarray(mean, float)
        with np.errstate(divide="ignore", invalid="ignore"):
            z = np.asarray(self.transform(mean), float)
        noise = self.gaussian.value("noise_variance")
        noise, flat = np.broadcast_to(noise, z.shape).ravel(), mean.ravel()
        known = np.isfinite(z.ravel()) & (flat > self.transform.lowest)
        found = np.full(flat.shape, -np.inf)
        found[known] = self._solved(z.ravel()[known], flat[known], noise[known])
        return found.reshape(z.shape)

    def _solved(self, z: np.ndarray, mean: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """The f at which E(y | f) is a mean that is within the support, by search around the f at which y is, z."""

        def excess(f: np.ndarray, rows: np.ndarray) -> np.ndarray:
            return self.transform.moments(f, noise[rows])[0] - mean[rows]

        step, everywhere = np.maximum(np.sqrt(noise), 1e-9 * np.maximum(np.abs(z), 1.0)), np.arange(len(z))
        low, high = z - step, z + step
        for _ in range(60):
            above, below = excess(low, everywhere) > 0, excess(high, everywhere) < 0
            if not (above.any() or below.any()):
                break
            low, high = np.where(above, low - step, low), np.where(below, high + step, high)
            step = 2 * step
        return find_between(excess, low, high)

    def cdf(self, y, f, size=1.0):
        return self.predictive_cdf(y, f, 0.0)

    def sample(self, f, rng, size=1.0):
        return self.transform.inverse(self.gaussian.sample(f, rng))

    def support(self, size=1.0):
        return self.transform.lowest, np.inf

    # -- a new observation: z ~ N(mean, variance + noise) -------------------------------------------

    def response_moments(self, mean, variance, size=1.0):
        """Mean and variance of a new y for f ~ N(mean, variance). (Y3)"""
        return self.transform.moments(mean, variance + self.gaussian.value("noise_variance"))

    def log_predictive_density(self, y, mean, variance, size=1.0):
        with np.errstate(invalid="ignore"):
            return self._with_slope(self.gaussian.log_predictive_density(self.transform(y), mean, variance), y)

    def predictive_cdf(self, y, mean, variance, size=1.0):
        return self.gaussian.predictive_cdf(self.transform(y), mean, variance)

    def predictive_quantile(self, p, mean, variance, size=1.0):
        return self.transform.inverse(self.gaussian.predictive_quantile(p, mean, variance))

    def predictive_covariance(self, mean, covariance):
        # with z_i = m_i + s_i u and Hermite coefficients a_ik of y_i in u it is the sum over k of a_ik a_jk times the
        # k-th power of the correlation of z_i and z_j  (Y4)
        total = np.diagonal(covariance) + self.gaussian.value("noise_variance")
        root = np.sqrt(total)
        correlation = covariance / np.outer(root, root)
        np.fill_diagonal(correlation, 1.0)
        found = np.zeros_like(correlation)
        for a in self.transform.hermite_coefficients(mean, root)[:0:-1]:  # Horner's rule in the correlation
            found = (found + np.outer(a, a)) * correlation
        np.fill_diagonal(found, self.transform.moments(mean, total)[1])
        return found

    # -- life in a model -------------------------------------------------------------------------

    def check_targets(self, y, size=1.0):
        """The targets as floats: a fit refuses those without a transform itself; a new one cannot be, with -inf."""
        return np.asarray(y, float)

    def constant_start(self, y, size=1.0, weights=None):
        return float(np.average(self.transform(y), weights=weights))

    def start(self, variance):
        return Transformed(self.gaussian.start(0.25), self.transform)  # var(y) says nothing of var(T(y))

    def bounds(self, variance):
        return np.array([[1e-12, 1e12]])
