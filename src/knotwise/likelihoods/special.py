"""Functions that the likelihoods share: none overflows, and none cancels for large counts or shapes."""

from __future__ import annotations

import numpy as np

__all__ = ["deviance_excess", "digamma_defect", "exp_capped", "factorial_excess", "log_or_minus_inf"]

#: exp stops growing here, so that its product with counts, squares of shapes and the like stays finite
LARGEST_EXPONENT = 600.0

#: from here on the asymptotic series below are exact to rounding
LARGE = 15.0


def exp_capped(x):
    """exp(x), constant beyond x = 600: a trial step too far gives a huge number, not inf and then NaN."""
    return np.exp(np.minimum(x, LARGEST_EXPONENT))


def log_or_minus_inf(x):
    """log(x), and -inf for x <= 0, without a warning."""
    x = np.asarray(x, float)
    return np.log(x, out=np.full(x.shape, -np.inf), where=x > 0)


def deviance_excess(d):
    """exp(d) - 1 - d, never negative: half a unit deviance in terms of a log ratio d."""
    d = np.asarray(d, float)
    small = np.abs(d) < 0.1
    s = np.where(small, d, 0.0)
    series = np.ones_like(s)
    for k in range(9, 2, -1):  # e^d - 1 - d = d^2/2 (1 + d/3 (1 + d/4 (...)))
        series = 1 + s / k * series
    return np.where(small, s**2 / 2 * series, exp_capped(d) - 1 - d)


def factorial_excess(x):
    """log Gamma(x + 1) - (x log x - x) for x >= 0: what Stirling's leading terms leave; about 1/2 log(2 pi x)."""
    from scipy.special import gammaln, xlogy

    x = np.asarray(x, float)
    s, u = np.minimum(x, LARGE), 1 / np.maximum(x, LARGE)
    tail = u * (1 / 12 - u**2 * (1 / 360 - u**2 * (1 / 1260 - u**2 * (1 / 1680 - u**2 / 1188))))
    return np.where(x < LARGE, gammaln(s + 1) - xlogy(s, s) + s, 0.5 * np.log(2 * np.pi / u) + tail)


def digamma_defect(x):
    """x (log x - digamma(x)) for x >= 0: 1 at 0, 1/2 + 1/(12 x) for large x."""
    from scipy.special import digamma, xlogy

    x = np.asarray(x, float)
    s, u = np.minimum(x, LARGE), 1 / np.maximum(x, LARGE)
    tail = u * (1 / 12 - u**2 * (1 / 120 - u**2 * (1 / 252 - u**2 * (1 / 240 - u**2 / 132))))
    return np.where(x < LARGE, 1 + xlogy(s, s) - s * digamma(1 + s), 0.5 + tail)
