"""Negative binomial counts: Poisson counts whose rate varies."""

from __future__ import annotations

import numpy as np
from scipy.special import betainc, betaincc, expit

from knotwise.likelihoods.base import Derivatives, ParameterDerivatives
from knotwise.likelihoods.counts import LARGEST_RATE, Counts
from knotwise.likelihoods.special import deviance_excess, digamma_defect, exp_capped, factorial_excess
from knotwise.numerics.parameters import Parameter


class NegativeBinomial(Counts):
    r"""Counts that vary more than Poisson counts do.

    .. math:: p(y \mid f) = \frac{\Gamma(y + r)}{\Gamma(r)\, y!}\, (1 - q)^r q^y, \qquad
        q = \frac{\mu}{r + \mu}, \quad \mu = \mathrm{exposure}\; e^f, \quad r = 1 / \mathrm{dispersion}

    The variance is mu + dispersion mu^2; dispersion 0 would be Poisson.

    Parameters
    ----------
    dispersion : float, optional
        How much more counts vary than Poisson counts, as above. A number is where a fit starts, and `fixed` holds it;
        None takes it from the data.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise.likelihoods import NegativeBinomial
    >>> NegativeBinomial(dispersion=0.5).conditional_variance(np.log([10.0])).round(6).tolist()
    [60.0]
    """

    parameters = (Parameter("dispersion", role="noise", bounds=(1e-6, 1e3)),)

    def __init__(self, dispersion: float | None = None) -> None:
        self.dispersion = dispersion
        self.validate()

    @property
    def width(self):
        return np.pi

    def singular_point(self, y, size=1.0):
        return -np.log(self.value("dispersion")) - np.log(size)  # r + mu = 0 at log r + i pi

    def _overdispersion(self):
        return self.value("dispersion")

    def _log_ratio(self, y, f, size):
        """log((r + y) / (r + mu)), accurate also where it is small."""
        r = 1 / self.value("dispersion")
        t = (size * exp_capped(f) - y) / (r + y)
        near = np.abs(t) < 0.5
        far = np.log(r + y) - np.logaddexp(np.log(r), f + np.log(size))
        return np.where(near, -np.log1p(np.where(near, t, 0.0)), far)

    def log_density(self, y, f, size=1.0):
        # a binomial density of r in r + y, times r / (r + y), in terms of the size of the result; see Poisson
        y = np.asarray(y, float)
        r = 1 / self.value("dispersion")
        counted = y > 0
        d = self._log_ratio(y, f, size)
        e = d + f + np.log(size) - np.log(np.where(counted, y, 1.0))  # log((r + y) mu / (y (r + mu)))
        some = -r * deviance_excess(d) - y * deviance_excess(np.where(counted, e, 0.0))
        none = -r * np.log1p(size * exp_capped(f) / r)
        constant = factorial_excess(r + y) - factorial_excess(r) - factorial_excess(y) - np.log1p(y / r)
        return np.where(counted, some + constant, none)

    def derivatives(self, y, f, size=1.0):
        r = 1 / self.value("dispersion")
        p, q = self._probabilities(f, size)
        second = -(y + r) * p * q
        return Derivatives(y * p - r * q, second, second * (p - q))

    def parameter_derivatives(self, y, f, size=1.0):
        r = 1 / self.value("dispersion")
        p, q = self._probabilities(f, size)
        first, second = y * p - r * q, -(y + r) * p * q
        # digamma(x) = log x - digamma_defect(x) / x, and the logarithms join in the excess
        digammas = digamma_defect(r + y) * r / (r + y) - digamma_defect(r)
        log_density = r * deviance_excess(self._log_ratio(y, f, size)) + digammas
        return [ParameterDerivatives(log_density, -q * first, -p * q * first - q * second)]

    def _probabilities(self, f, size):
        logit = f + np.log(size) + np.log(self.value("dispersion"))
        return expit(-logit), expit(logit)

    def cdf(self, y, f, size=1.0):
        r = 1 / self.value("dispersion")
        p, q, k = np.broadcast_arrays(*self._probabilities(f, size), np.floor(y))
        a, small = np.maximum(k, 0.0) + 1, p < q
        P = np.empty(k.shape)
        # by the smaller of the two shares: the other is rounded to 1 where what it leaves still counts
        betainc(r, a, p, where=small, out=P)
        betaincc(a, r, q, where=~small, out=P)
        return np.where(k < 0, 0.0, P)

    def sample(self, f, rng, size=1.0):
        mu = size * exp_capped(f)
        r = 1 / self.value("dispersion")
        rate = mu * (rng.standard_gamma(r, np.shape(mu)) / r)
        return rng.poisson(np.minimum(rate, LARGEST_RATE)).astype(float)

    def start(self, variance):
        return self if self.dispersion is not None else type(self)(0.3)
