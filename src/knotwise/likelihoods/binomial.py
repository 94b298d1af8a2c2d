"""Binomial data: successes among trials."""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy.special import betainc, expit, log_expit, logit, ndtri

from knotwise.likelihoods.base import Derivatives, Likelihood, refuse_rows
from knotwise.likelihoods.counts import check_counts
from knotwise.likelihoods.log_gamma import average_over_log_gamma
from knotwise.likelihoods.response import by_blocks
from knotwise.likelihoods.roots import find_whole_root, normal_score
from knotwise.likelihoods.special import deviance_excess, factorial_excess


class Binomial(Likelihood):
    r"""The number of successes among `trials`, which `fit` and `predict` take (1 where not given).

    .. math:: p(y \mid f) = \binom{n}{y} s^y (1 - s)^{n - y}, \qquad s = 1 / (1 + e^{-f}), \quad n = \mathrm{trials}

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise.likelihoods import Binomial
    >>> Binomial().conditional_mean(np.array([0.0]), 20).tolist()  # of 20 trials
    [10.0]
    """

    size_name = "trials"
    discrete = True
    starts_from_means = True

    width = np.pi

    def singular_point(self, y, size=1.0):
        return np.zeros_like(y)

    def log_density(self, y, f, size=1.0):
        y, f = np.asarray(y, float), np.asarray(f, float)
        excess = factorial_excess(size) - factorial_excess(y) - factorial_excess(size - y)
        return excess - _deviance(y, size, log_expit(f)) - _deviance(size - y, size, log_expit(-f))

    def derivatives(self, y, f, size=1.0):
        s, c = _probabilities(f)
        second = -size * s * c
        return Derivatives(y * c - (size - y) * s, second, second * (c - s))

    def conditional_mean(self, f, size=1.0):
        return size * _probabilities(f)[0]

    def conditional_variance(self, f, size=1.0):
        s, c = _probabilities(f)
        return size * s * c

    def latent_of_mean(self, mean, size=1.0):
        return logit(np.clip(np.asarray(mean, float) / size, 0.0, 1.0))

    def cdf(self, y, f, size=1.0):
        k = np.floor(y)
        inner = (k >= 0) & (k < size)
        k = np.where(inner, k, 0.0)
        return np.where(inner, betainc(np.where(inner, size - k, 1.0), k + 1, _probabilities(f)[1]), np.asarray(y) >= 0)

    def predictive_quantile(self, p, mean, variance, size=1.0):
        return by_blocks(partial(self._quantile, p), mean, variance, size)

    def _quantile(self, p, mean, variance, size):
        share, s = _probabilities(mean)[0], np.sqrt(variance)
        spread = np.sqrt(variance + 1 / (size * share * (1 - share) + 0.5))
        start = size * _probabilities(mean + ndtri(p) * spread)[0] - 0.5

        def evaluate(k, rows):
            a, b = k + 1, size[rows] - k
            P = average_over_log_gamma(a, b, np.log(a / b) - mean[rows], s[rows])
            return *normal_score(P.value, P.slope * (1 + a / b), P.curvature, p)[:2], None

        return find_whole_root(evaluate, start, size)

    def sample(self, f, rng, size=1.0):
        s = _probabilities(f)[0]
        return rng.binomial(np.asarray(size).astype(int), s).astype(float)

    def support(self, size=1.0):
        return 0.0, size

    def check_targets(self, y, size=1.0):
        y = check_counts(y, "number of successes")
        trials = np.broadcast_to(size, y.shape)
        over = y > trials
        most = f"at most the number of trials, which is {trials[over][0]:g} there" if over.any() else ""
        refuse_rows(over, y, most, "Pass the number of trials of each row to `fit` as `trials`.")
        return y

    def constant_start(self, y, size=1.0, weights=None):
        counted = np.ones(np.shape(y)) if weights is None else weights
        trials, successes = float(np.sum(counted * size)), float(np.sum(counted * y))
        smooth = 0.5 if successes in (0, trials) else 0.0  # else the intercept is infinite
        return float(np.log((successes + smooth) / (trials - successes + smooth)))


def _probabilities(f):
    f = np.asarray(f, float)
    return expit(f), expit(-f)


def _deviance(y, size, log_probability):
    """y (e^d - 1 - d) with d = log(size probability / y); summed over both outcomes, e^d - 1 drops out."""
    some = y > 0
    d = log_probability + np.log(np.where(some, size, 1.0)) - np.log(np.where(some, y, 1.0))
    return np.where(some, y * deviance_excess(d), size * np.exp(log_probability))
