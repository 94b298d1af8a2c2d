"""What counts have in common: whole numbers, and for counts without a limit a log link and an exposure."""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy.special import ndtri

from knotwise.errors import warn
from knotwise.likelihoods.base import Likelihood, refuse_rows
from knotwise.likelihoods.log_gamma import average_over_log_gamma
from knotwise.likelihoods.response import by_blocks
from knotwise.likelihoods.roots import find_whole_root, normal_score
from knotwise.likelihoods.special import exp_capped, log_or_minus_inf

#: NumPy draws no counts beyond the integers of 64 bits
LARGEST_RATE = 1e18
#: counts from which on the probability of one has too few digits
MANY = 1e6
#: squared coefficient of variation of a rate up to which three moments say well where a quantile is
LITTLE_VARIATION = 0.5


def check_counts(y: np.ndarray, what: str) -> np.ndarray:
    """Refuse counts below 0 or infinite, and warn once of fractional ones."""
    y = np.asarray(y, float)
    refuse_rows(
        ~((y >= 0) & np.isfinite(y)),
        y,
        f"a {what}, 0 or more",
        "Remove the row or correct it; for measurements that can be negative use the Gaussian likelihood.",
    )
    rows = np.flatnonzero(y != np.floor(y))
    if len(rows):
        warn(
            f"{len(rows)} of {len(y)} targets are not whole numbers, the first is {y[rows[0]]:g} in row {rows[0]}; "
            f"the formula for a {what} is used as it is. If they are rates, give the counts as y and pass the "
            "divisor to `fit` (exposure or trials)."
        )
    return y


class Counts(Likelihood):
    r"""Counts with a log link and an exposure.

    .. math:: E(y \mid f) = \mu = \mathrm{exposure}\; e^f, \qquad Var(y \mid f) = \mu + \mathrm{dispersion}\; \mu^2
    """

    size_name = "exposure"
    log_link = True
    discrete = True
    starts_from_means = True

    def _overdispersion(self) -> float:
        """The dispersion in the variance above: 0 for Poisson counts."""
        return 0.0

    def conditional_mean(self, f, size=1.0):
        return size * exp_capped(f)

    def conditional_variance(self, f, size=1.0):
        return size * exp_capped(f) + self._overdispersion() * size**2 * exp_capped(2 * f)

    def latent_of_mean(self, mean, size=1.0):
        return log_or_minus_inf(mean) - np.log(size)

    def response_moments(self, mean, variance, size=1.0):
        excess = self._overdispersion() - np.expm1(-variance)
        Ey = size * exp_capped(mean + variance / 2)
        return Ey, Ey + size**2 * exp_capped(2 * (mean + variance)) * excess

    def predictive_quantile(self, p, mean, variance, size=1.0):
        return by_blocks(partial(self._quantile, p), mean + np.log(size), variance)

    def _quantile(self, p, log_rate, variance):
        dispersion, s = self._overdispersion(), np.sqrt(variance)

        def evaluate(k, rows):
            b = np.full(len(rows), 1 / dispersion) if dispersion else None
            P = average_over_log_gamma(k + 1, b, np.log1p(k) - log_rate[rows], s[rows])
            # d P(Y <= k) / d log rate = -(k + 1) P(Y = k + 1), so that the slope tells P(Y <= k + 1)
            following = np.where(k < MANY, np.clip(P.value + P.slope / (k + 1), 1e-30, 1 - 1e-16), np.nan)
            return *normal_score(P.value, P.slope, P.curvature, p)[:2], ndtri(following) - ndtri(p)

        start = self._rough_quantile(ndtri(p), log_rate, variance)
        return find_whole_root(evaluate, np.where(start < MANY, start - 1, start), np.inf)

    def _rough_quantile(self, z, log_rate, variance):
        """A start for the search of the quantile at the normal score z.

        By three moments (Cornish-Fisher) where the rate varies little, else as if counts were log-normal.
        """
        dispersion = self._overdispersion()
        spread = np.sqrt(variance + dispersion + 1 / (1 + exp_capped(log_rate)))
        far = exp_capped(np.minimum(log_rate + z * spread, 50.0))
        v = np.minimum(variance, LITTLE_VARIATION)
        mean, e = exp_capped(np.minimum(log_rate, 50.0) + v / 2), np.exp(v)
        second = e * (1 + dispersion) - 1  # central moments of the rate over its mean, squared and cubed
        third = e**3 * (1 + dispersion) * (1 + 2 * dispersion) - 3 * e * (1 + dispersion) + 2
        spread, skewness = mean * (1 + mean * second), 1 + mean * (3 * second + mean * third)
        near = mean + z * np.sqrt(spread) + (z**2 - 1) * mean * skewness / (6 * spread)
        return np.where(variance + dispersion < LITTLE_VARIATION, near, far)

    def support(self, size=1.0):
        return 0.0, np.inf

    def check_targets(self, y, size=1.0):
        return check_counts(y, "count")

    def constant_start(self, y, size=1.0, weights=None):
        counted = np.ones(np.shape(y)) if weights is None else weights
        # half a count where there is none: the intercept of no events at all is -inf
        return float(np.log(max(float(np.sum(counted * y)), 0.5) / np.sum(counted * size)))
