"""Bernoulli data: 0 or 1."""

from __future__ import annotations

import numpy as np
from scipy.special import erfcx, expit, log_expit, log_ndtr, logit, ndtr, ndtri

from knotwise.errors import unknown_option
from knotwise.likelihoods.base import Derivatives, Expectations, Likelihood, Tilted, refuse_rows
from knotwise.likelihoods.log_gamma import average_over_log_gamma
from knotwise.likelihoods.response import by_blocks

#: below this z the probit's derivatives come from a continued fraction
PROBIT_TAIL = -4.0

#: how far from the real axis the zeros of Phi stay; the nearest are at 1.916 +- 2.816 i
PROBIT_WIDTH = 2.816


class Bernoulli(Likelihood):
    r"""Presence or absence.

    .. math:: p(y = 1 \mid f) = 1 / (1 + e^{-f}) \quad\text{(logit)}, \qquad \Phi(f) \quad\text{(probit)}

    Parameters
    ----------
    link : "logit" or "probit", default "logit"
        From the latent function to the probability of 1.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise.likelihoods import Bernoulli
    >>> Bernoulli("probit").conditional_mean(np.array([0.0, 1.645])).round(3).tolist()
    [0.5, 0.95]
    """

    discrete = True
    binary = True
    starts_from_means = True

    def __init__(self, link: str = "logit") -> None:
        self.link = link
        self.validate()

    def validate(self) -> None:
        if self.link not in ("logit", "probit"):
            raise unknown_option("`link` of Bernoulli", self.link, ("logit", "probit"))

    @property
    def width(self):
        return np.pi if self.link == "logit" else PROBIT_WIDTH

    def singular_point(self, y, size=1.0):
        return np.zeros_like(y) if self.link == "logit" else None

    def log_density(self, y, f, size=1.0):
        z = (2 * y - 1) * f
        return log_expit(z) if self.link == "logit" else log_ndtr(z)

    def derivatives(self, y, f, size=1.0):
        sign = 2 * y - 1
        if self.link == "probit":
            first, second, third = _probit_derivatives(sign * f)
            return Derivatives(sign * first, second, sign * third)
        p, q = expit(f), expit(-f)
        first = y * q - (1 - y) * p  # y - p, without its cancellation
        second = np.broadcast_to(-p * q, first.shape)
        return Derivatives(first, second, second * (q - p))

    def known(self, y, f, size=1.0):
        # one exponential and one logarithm for all three
        if self.link == "probit":
            return super().known(y, f, size)
        sign = 2 * np.asarray(y, float) - 1
        z = sign * f
        e = np.exp(-np.abs(z))
        share = 1 / (1 + e)
        second = e * share
        q = np.where(z > 0, second, share)  # the probability of the other outcome
        second *= -share
        log_density = np.log1p(e, out=e)
        np.subtract(np.minimum(z, 0.0), log_density, out=log_density)
        return Expectations(log_density, sign * q, second)

    def tilted(self, y, mean, variance, size=1.0, power=1.0):
        # closed for the probit with power 1
        if self.link == "logit" or power != 1:
            return super().tilted(y, mean, variance, size, power)
        sign, sd = 2 * y - 1, np.sqrt(1 + variance)
        z = sign * mean / sd
        first, second, _ = _probit_derivatives(z)
        return Tilted(self.log_density(1.0, z), sign * first / sd, second / sd**2)

    def conditional_mean(self, f, size=1.0):
        return expit(f) if self.link == "logit" else ndtr(f)

    def conditional_variance(self, f, size=1.0):
        return self.conditional_mean(f) * self.conditional_mean(-f)  # 1 - p(f) = p(-f)

    def latent_of_mean(self, mean, size=1.0):
        p = np.clip(mean, 0.0, 1.0)
        return logit(p) if self.link == "logit" else ndtri(p)

    def response_moments(self, mean, variance, size=1.0):
        # closed for the probit only
        if self.link == "logit":
            return super().response_moments(mean, variance, size)
        z = mean / np.sqrt(1 + variance)
        return self.conditional_mean(z), self.conditional_variance(z)

    def log_predictive_density(self, y, mean, variance, size=1.0):
        # closed for the probit only
        if self.link == "logit":
            return super().log_predictive_density(y, mean, variance, size)
        return self.log_density(y, mean / np.sqrt(1 + variance))

    def predictive_quantile(self, p, mean, variance, size=1.0):
        if self.link == "probit":
            none = self.conditional_mean(-np.asarray(mean) / np.sqrt(1 + variance))
        else:
            none = by_blocks(_average_share, -np.asarray(mean), variance)
        return np.where(none >= p, 0.0, 1.0)

    def cdf(self, y, f, size=1.0):
        return np.where(y < 0, 0.0, np.where(y < 1, self.conditional_mean(-np.asarray(f)), 1.0))

    def sample(self, f, rng, size=1.0):
        return (rng.random(np.shape(f)) < self.conditional_mean(f)).astype(float)

    def support(self, size=1.0):
        return 0.0, 1.0

    def check_targets(self, y, size=1.0):
        y = np.asarray(y, float)
        refuse_rows(
            (y != 0) & (y != 1), y, "0 or 1", "Use GPClassifier for other labels, Binomial for shares of trials."
        )
        return y

    def constant_start(self, y, size=1.0, weights=None):
        counted = np.ones(np.shape(y)) if weights is None else weights
        n, ones = float(np.sum(counted)), float(np.sum(counted * y))
        smooth = 0.5 if ones in (0, n) else 0.0  # else the intercept is infinite
        return float(self.latent_of_mean((ones + smooth) / (n + 2 * smooth)))


def _average_share(mean, variance):
    """E 1 / (1 + e^-f): a logistic variable, the logarithm of a ratio of two exponential ones, is below f."""
    one = np.ones(len(mean))
    return average_over_log_gamma(one, one, mean, np.sqrt(variance)).value


def _probit_derivatives(z):
    """Derivatives of log Phi(z), with full relative accuracy in the tail, where r and -z cancel."""
    z = np.asarray(z, float)
    r = np.sqrt(2 / np.pi) / erfcx(-z / np.sqrt(2))  # phi(z) / Phi(z)
    second, third = np.array(-r * (z + r)), np.array(r * ((z + 2 * r) * (z + r) - 1))
    tail = z < PROBIT_TAIL
    if np.any(tail):
        # with x = -z, r = x + t1 and t_k = k / (x + t_(k+1)): the products below have no cancellation
        x = -z[tail]
        t = [0.0, 0.0, 0.0, np.zeros_like(x)]
        for k in range(60, 0, -1):
            t = [k / (x + t[0]), *t[:3]]
        t1, t2, t3 = t[:3]
        second[tail] = -(x + t1) * t1
        third[tail] = (x + t1) * t1**2 * t2 * (t3 - t2)
    return r, second, third
