"""Gaussian observations whose noise varies with the inputs: its log variance is a Gaussian process, too."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import logsumexp, ndtr, ndtri

from knotwise.likelihoods.gaussian import LOG_2PI, Gaussian
from knotwise.likelihoods.roots import find_between
from knotwise.noise import ConstantNoise, Noise, NoisyRows

#: of Gauss-Hermite quadrature over the log noise variance: 1e-9 of a density where its sd is 1
NODES, NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(32)
LOG_NODE_WEIGHTS = np.log(NODE_WEIGHTS / NODE_WEIGHTS.sum())
#: beyond which an exponential is no number any more
LARGEST_LOG = 600.0
#: how far the noise of a row may be from the level, on the log scale: sites need finite precisions
REACH = 14.0


@dataclass(frozen=True, eq=False)
class NoisePattern:
    """How the log noise variance varies: the posterior of a Gaussian process h through a few knots  (H3).

    It is about the level of the noise, and has the log variance `offset` where it knows nothing. Arrays are those of a
    posterior through knots Z [K, D]: `L_inverse` [K, K], `T` [K, K] and `gamma` [K]. Inputs are taken from the units of
    the rows by `centre` and `scale` [D]; None where they have these units.
    """

    kernel: Any
    offset: float
    Z: np.ndarray
    L_inverse: np.ndarray
    T: np.ndarray
    gamma: np.ndarray
    centre: np.ndarray | None = None
    scale: np.ndarray | None = None

    def marginals(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of h at the rows of X, [n] each. Costs O(n K^2)."""
        if self.centre is not None:
            X = (X - self.centre) / self.scale
        v = self.kernel(X, self.Z) @ self.L_inverse.T
        spread = v @ self.T.T
        residual = np.maximum(self.kernel.diag(X) - np.einsum("nk,nk->n", v, v), 0.0)
        return self.offset + v @ self.gamma, residual + np.einsum("nk,nk->n", spread, spread)

    def in_units(self, centre: np.ndarray, scale: np.ndarray) -> NoisePattern:
        """The same for inputs in other units: x of them is centre + scale times x of these."""
        own_centre = np.zeros_like(centre) if self.centre is None else self.centre
        own_scale = np.ones_like(scale) if self.scale is None else self.scale
        return replace(self, centre=centre + scale * own_centre, scale=scale * own_scale)


class PatternedNoise(Noise):
    """A noise variance that is a level times what a pattern says of each row; the level is that of the likelihood.

    The variance of a row is exp(m - v / 2) times the level, for h ~ N(m, v): with it the function f is known as well as
    with all variances that h may have  (H1).
    """

    parameters = Gaussian.parameters

    def __init__(self, noise_variance: float | None = None, pattern: NoisePattern | None = None) -> None:
        self.noise_variance, self.pattern = noise_variance, pattern

    def variance(self, rows: NoisyRows) -> np.ndarray | float:
        level = float(self.value("noise_variance"))
        if self.pattern is None:
            return level
        mean, variance = self.pattern.marginals(rows.X)
        return level * np.exp(np.clip(mean - 0.5 * variance, -REACH, REACH))

    def pullback(self, rows: NoisyRows, variance_bar: np.ndarray) -> np.ndarray:
        return np.array([np.sum(variance_bar * self.variance(rows))])  # theta is the logarithm of the level

    def start(self, variance: float) -> PatternedNoise:
        return PatternedNoise(ConstantNoise(self.noise_variance).start(variance).noise_variance, self.pattern)

    def bounds(self, variance: float) -> np.ndarray:
        return ConstantNoise().bounds(variance)


class VaryingGaussian(Gaussian):
    r"""Gaussian noise whose variance is a function of the inputs, as `noise="varying"` learns it.

    .. math:: p(y \mid f, h) = N(y;\, f,\, \mathrm{noise\_variance}\; e^{h(x)})

    A fit makes it, with the posterior of h; without a fit h is 0, and the noise the same everywhere.

    Parameters
    ----------
    noise_variance : float, optional
        The level: geometric mean of the noise variances of the rows of the fit, in the units of y squared.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise import GPRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(200, 1))
    >>> y = np.sin(6 * X[:, 0]) + np.exp(3 * X[:, 0] - 3) * rng.normal(size=200)
    >>> gp = GPRegressor(noise="varying", random_state=0).fit(X, y)
    >>> gp.likelihood_.varies, bool(gp.predict_noise([[0.9]]).sd > 3 * gp.predict_noise([[0.1]]).sd)
    (True, True)
    """

    pattern: NoisePattern | None = None

    @property
    def varies(self) -> bool:
        """Whether a fit has said how the noise varies."""
        return self.pattern is not None

    @property
    def noise(self) -> Noise:
        return PatternedNoise(self.value("noise_variance"), self.pattern)

    @property
    def uses_inputs(self) -> bool:
        return self.varies

    def with_pattern(self, pattern: NoisePattern | None) -> VaryingGaussian:
        """The same with what is known of how the noise varies.

        Parameters
        ----------
        pattern : NoisePattern or None
            The posterior of h, for inputs in the units of the model.

        Returns
        -------
        VaryingGaussian
            A new one.

        Examples
        --------
        >>> from knotwise.likelihoods import VaryingGaussian
        >>> VaryingGaussian(0.1).with_pattern(None).varies
        False
        """
        new = type(self)(self.noise_variance)
        new.pattern = pattern
        return new

    def in_units(self, centre, scale):
        return self if self.pattern is None else self.with_pattern(self.pattern.in_units(centre, scale))

    def log_noise(self, rows):
        level = np.log(self.value("noise_variance"))
        if self.pattern is None:
            return np.full(len(rows.X), level), np.zeros(len(rows.X))
        mean, variance = self.pattern.marginals(rows.X)
        return level + mean, variance

    def at(self, rows: NoisyRows) -> Gaussian:
        return gaussian_of_log_noise(*self.log_noise(rows)) if self.varies else self

    def start(self, variance):
        level = Gaussian(self.noise_variance).start(variance).noise_variance
        new = type(self)(level)
        new.pattern = self.pattern
        return new


class UncertainGaussian(Gaussian):
    """Gaussian observations of rows whose log noise variances are known as normal variables: averages over these.

    Made by `gaussian_of_log_noise`. `log_mean` and `log_variance` have a value for each row; `value("noise_variance")`
    is the expected noise variance.
    """

    log_mean: np.ndarray
    log_variance: np.ndarray

    def response_moments(self, mean, variance, size=1.0):
        return mean, variance + self.value("noise_variance")

    def log_density(self, y, f, size=1.0):
        return self.log_predictive_density(y, f, np.zeros_like(f))

    def cdf(self, y, f, size=1.0):
        return self.predictive_cdf(y, f, np.zeros_like(f))

    def sample(self, f, rng, size=1.0):
        f = np.asarray(f, float)
        log_noise = self.log_mean + np.sqrt(self.log_variance) * rng.standard_normal(f.shape)
        return f + np.exp(0.5 * np.clip(log_noise, -LARGEST_LOG, LARGEST_LOG)) * rng.standard_normal(f.shape)

    def _totals(self, variance: np.ndarray) -> np.ndarray:
        """Variances of an observation at the nodes of the log noise variance, [nodes, n]."""
        logs = self.log_mean + np.sqrt(self.log_variance) * NODES[:, None]
        return variance + np.exp(np.clip(logs, -LARGEST_LOG, LARGEST_LOG))

    def log_predictive_density(self, y, mean, variance, size=1.0):
        total = self._totals(variance)
        each = -0.5 * (LOG_2PI + np.log(total) + (y - mean) ** 2 / total)
        return logsumexp(each + LOG_NODE_WEIGHTS[:, None], axis=0)

    def predictive_cdf(self, y, mean, variance, size=1.0):
        return np.exp(LOG_NODE_WEIGHTS) @ ndtr((y - mean) / np.sqrt(self._totals(variance)))

    def predictive_quantile(self, p, mean, variance, size=1.0):
        scale = np.sqrt(self._totals(variance))
        if p == 0.5:
            return np.array(mean, float)
        # the law is symmetric about the mean, and its quantiles lie between those of the least and the most noise
        z, weights = abs(ndtri(p)), np.exp(LOG_NODE_WEIGHTS)
        upper = max(p, 1.0 - p)

        def excess(t: np.ndarray, rows: np.ndarray) -> np.ndarray:
            return weights @ ndtr(t / scale[:, rows]) - upper

        t = find_between(excess, z * scale.min(0), z * scale.max(0) * (1.0 + 1e-12))
        return mean + np.sign(p - 0.5) * t


def gaussian_of_log_noise(mean: np.ndarray, variance: np.ndarray) -> UncertainGaussian:
    """Gaussian observations of rows whose log noise variance is N(mean, variance), [n] each."""
    new = UncertainGaussian()
    new.log_mean, new.log_variance = mean, variance
    expected = np.exp(np.clip(mean + 0.5 * variance, -LARGEST_LOG, LARGEST_LOG))
    new.noise_variance = expected  # type: ignore[assignment]
    return new
