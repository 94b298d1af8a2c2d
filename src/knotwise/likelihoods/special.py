"""Functions that the likelihoods share: none overflows, and none cancels for large counts or shapes."""

from __future__ import annotations

from functools import cache
from math import factorial

import numpy as np
from scipy.special import digamma, gammaln, xlogy

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


#: e^d - 1 - d = d^2 times the polynomial with these coefficients, the last first, to rounding for |d| < 0.1
DEVIANCE_SERIES = tuple(1.0 / factorial(k) for k in range(9, 1, -1))


def deviance_excess(d):
    """exp(d) - 1 - d, never negative: half a unit deviance in terms of a log ratio d."""
    d = np.asarray(d, float)
    small = np.abs(d) < 0.1
    excess = np.asarray(exp_capped(d) - 1 - d)
    s = d[small]
    if len(s):
        series = np.full(s.shape, DEVIANCE_SERIES[0])
        for coefficient in DEVIANCE_SERIES[1:]:
            series *= s
            series += coefficient
        excess[small] = s * s * series
    return excess


def factorial_excess(x):
    """log Gamma(x + 1) - (x log x - x) for x >= 0: what Stirling's leading terms leave; about 1/2 log(2 pi x)."""
    x = np.asarray(x, float)
    small = x < LARGE
    if small.all():
        whole = x.astype(int)
        return _factorial_excess_of_whole()[whole] if (whole == x).all() else _small_factorial_excess(x)
    u = 1 / np.maximum(x, LARGE)
    tail = u * (1 / 12 - u**2 * (1 / 360 - u**2 * (1 / 1260 - u**2 * (1 / 1680 - u**2 / 1188))))
    large = 0.5 * np.log(2 * np.pi / u) + tail
    return np.where(small, _small_factorial_excess(np.minimum(x, LARGE)), large) if small.any() else large


@cache
def _factorial_excess_of_whole():
    """The values at 0, 1, .., 14: counts are the same small numbers in every pass."""
    return _small_factorial_excess(np.arange(LARGE))


def _small_factorial_excess(x):
    return gammaln(x + 1) - xlogy(x, x) + x


def digamma_defect(x):
    """x (log x - digamma(x)) for x >= 0: 1 at 0, 1/2 + 1/(12 x) for large x."""
    x = np.asarray(x, float)
    s, u = np.minimum(x, LARGE), 1 / np.maximum(x, LARGE)
    tail = u * (1 / 12 - u**2 * (1 / 120 - u**2 * (1 / 252 - u**2 * (1 / 240 - u**2 / 132))))
    return np.where(x < LARGE, 1 + xlogy(s, s) - s * digamma(1 + s), 0.5 + tail)
