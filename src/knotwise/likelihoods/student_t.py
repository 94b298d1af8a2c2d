"""Student's t: noise with outliers."""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from knotwise.likelihoods.base import Derivatives, Likelihood, ParameterDerivatives
from knotwise.likelihoods.log_gamma import log_gamma_rule
from knotwise.likelihoods.response import by_blocks
from knotwise.likelihoods.roots import find_root, normal_score
from knotwise.likelihoods.special import digamma_defect, factorial_excess
from knotwise.likelihoods.values import Expectations
from knotwise.noise import NOISE_FLOOR
from knotwise.numerics.parameters import Parameter
from knotwise.numerics.weighted import weighted_quantile

ROUGH_NODES, NODES = 8, 20  # for each panel of the logarithm of a gamma variable


class StudentT(Likelihood):
    r"""Noise with outliers: y = f + scale times a Student t variable.

    .. math:: p(y \mid f) = \frac{\Gamma((\nu + 1)/2)}{\Gamma(\nu/2) \sqrt{\nu \pi}\, s}
        \left(1 + \frac{(y - f)^2}{\nu s^2}\right)^{-(\nu + 1)/2}, \qquad s = \mathrm{scale}, \quad \nu = \mathrm{df}

    The mean is f for df > 1 (for less there is none, and f is the median); the variance is infinite for df <= 2. Not
    log-concave in f.

    Parameters
    ----------
    scale : float, optional
        s above, in the units of y. A number is where a fit starts, and `fixed` holds it; None takes it from the data.
    df : float, optional
        Degrees of freedom: the smaller, the more outliers. A number is where a fit starts, and `fixed` holds it; None
        takes it from the data.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise.likelihoods import StudentT
    >>> StudentT(scale=1.0, df=4.0).conditional_variance(np.array([0.0])).tolist()
    [2.0]
    """

    parameters = (Parameter("scale", role="noise", units="y"), Parameter("df", role="shape", bounds=(1.0, 200.0)))
    log_concave = False
    heavy_tailed = True
    scale_mixture = True
    scales_targets = True

    def __init__(self, scale: float | None = None, df: float | None = None) -> None:
        self.scale = scale
        self.df = df
        self.validate()

    @property
    def width(self):
        return self.value("scale") * np.sqrt(self.value("df"))

    def singular_point(self, y, size=1.0):
        return y

    def log_density(self, y, f, size=1.0):
        s, nu = self.value("scale"), self.value("df")
        x = nu / 2
        # log Gamma(x + 1/2) - log Gamma(x) without the difference of large numbers
        gammas = factorial_excess(x + 0.5) - factorial_excess(x) + (x - 1) * np.log1p(0.5 / x) + 0.5 * np.log(x + 0.5)
        constant = gammas - 0.5 - 0.5 * np.log(nu * np.pi) - np.log(s)
        return constant - (nu + 1) / 2 * np.log1p(((y - f) / s) ** 2 / nu)

    def derivatives(self, y, f, size=1.0):
        s, nu, r, A = self._residuals(y, f)
        return Derivatives(
            (nu + 1) * r / A / s, (nu + 1) * (r**2 - nu) / A**2 / s**2, 2 * (nu + 1) * r * (r**2 - 3 * nu) / A**3 / s**3
        )

    def fisher(self, y, f, size=1.0):
        s, nu, r, _ = self._residuals(y, f)
        return np.full_like(r, (nu + 1) / ((nu + 3) * s**2))

    def step_curvature(self, y, f, size=1.0):
        # of the parabola below log p that touches it at f: far from y the Fisher information takes endless small steps
        s, nu, _, A = self._residuals(y, f)
        return (nu + 1) / A / s**2

    def parameter_derivatives(self, y, f, size=1.0):
        s, nu, r, A = self._residuals(y, f)
        x, share = nu / 2, r**2 / A
        digammas = 0.5 * (nu * np.log1p(1 / nu) - 1) + digamma_defect(x) - digamma_defect(x + 0.5) * x / (x + 0.5)
        in_scale = ParameterDerivatives(
            (nu + 1) * share - 1, -2 * nu * (nu + 1) * r / A**2 / s, 2 * nu * (nu + 1) * (A - 4 * r**2) / A**3 / s**2
        )
        in_df = ParameterDerivatives(
            digammas - x * (np.log1p(r**2 / nu) - share) + 0.5 * share,
            nu * r * (r**2 - 1) / A**2 / s,
            -nu * ((3 * r**2 - 1) * A - 4 * r**2 * (r**2 - 1)) / A**3 / s**2,
        )
        return [in_scale, in_df]

    def _residuals(self, y, f):
        """The scale s, nu, r = (y - f) / s and A = nu + r^2."""
        s, nu = self.value("scale"), self.value("df")
        r = np.asarray(y - f, float) / s
        return s, nu, r, nu + r**2

    def mixture_bound(self, y, mean, variance):
        s, nu, r, A = self._expected_residuals(y, mean, variance)
        precision = (nu + 1) / A / s**2  # of the normal component that is expected  (M3)
        return Expectations(self.log_density(s * r, 0.0), precision * (y - mean), -precision)

    def mixture_bound_derivatives(self, y, mean, variance):
        s, _, r, _ = self._expected_residuals(y, mean, variance)
        return np.array([d.log_density for d in self.parameter_derivatives(s * r, 0.0)])  # (M5)

    def _expected_residuals(self, y, mean, variance):
        """The scale s, nu, r with r^2 = E (y - f)^2 / s^2, and A = nu + r^2."""
        s, nu, r, _ = self._residuals(np.hypot(y - mean, np.sqrt(np.maximum(variance, 0.0))), 0.0)
        return s, nu, r, nu + r**2

    def conditional_mean(self, f, size=1.0):
        return np.asarray(f, float)

    def conditional_variance(self, f, size=1.0):
        s, nu = self.value("scale"), self.value("df")
        return np.full_like(np.asarray(f, float), s**2 * nu / (nu - 2) if nu > 2 else np.inf)

    def latent_of_mean(self, mean, size=1.0):
        return np.asarray(mean, float)

    def response_moments(self, mean, variance, size=1.0):
        return mean, variance + self.conditional_variance(mean)

    def cdf(self, y, f, size=1.0):
        return stdtr(self.value("df"), (y - f) / self.value("scale"))

    def predictive_quantile(self, p, mean, variance, size=1.0):
        return mean + by_blocks(partial(self._error_quantile, p), variance)

    def _error_quantile(self, p, variance):
        """The p-quantile of a t error plus a normal one of this variance, [n].

        A t variable is a normal one over the root of a gamma variable e^U, so the sum has the distribution function
        E Phi(x / (variance + scale^2 e^-U)^(1/2)), in which nothing is narrow. A rough rule leads near the root.
        """
        s, nu, sd = self.value("scale"), self.value("df"), np.sqrt(variance)
        low, high = (ndtri(q) * sd + stdtrit(nu, q) * s for q in (p / 2, (1 + p) / 2))  # one or both are beyond
        x = np.sign(p - 0.5) * np.hypot(ndtri(p) * sd, stdtrit(nu, p) * s)
        for n_nodes, share in ((ROUGH_NODES, 10.0), (NODES, 1.0)):
            evaluate = partial(_error_score, p, *log_gamma_rule(nu / 2, n_nodes), s, variance)
            x = find_root(evaluate, x, low, high, share * (high - low))
        return x

    def sample(self, f, rng, size=1.0):
        return f + self.value("scale") * rng.standard_t(self.value("df"), np.shape(f))

    def constant_start(self, y, size=1.0, weights=None):
        return weighted_quantile(y, 0.5, weights)

    def start(self, variance):
        scale = float(np.sqrt(variance / 10)) if self.scale is None else self.scale
        return type(self)(scale, 4.0 if self.df is None else self.df)

    def bounds(self, variance):
        return np.array([[np.sqrt(NOISE_FLOOR * variance), np.sqrt(10 * variance)], self.parameters[1].bounds])


def _error_score(p, U, weights, scale, variance, x, rows):
    """The normal score of the distribution function of an error at x, given by nodes of U, and its derivatives."""
    precision = 1 / np.sqrt(variance[rows] + scale**2 * np.exp(-U)[:, None])  # [nodes, n]
    z = x * precision
    slopes = np.exp(-0.5 * z**2)
    slopes *= weights[:, None] / np.sqrt(2 * np.pi) * precision
    curvature = -np.einsum("jn,jn,jn->n", slopes, z, precision)
    return normal_score(weights @ ndtr(z), slopes.sum(0), curvature, p)
