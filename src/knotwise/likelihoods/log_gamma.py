r"""Averages of a normal distribution function over the logarithm of a gamma variable, or of a ratio of two.

Given y, the distribution function of a count steps from 1 to 0 as f grows, like the tail of a log-gamma variable:

.. math:: P(Y \le y \mid f) = P(T \ge f), \qquad T = \log(G_a / G_b) - \log(a / b) + \mathrm{mode}

(a = y + 1; b is infinite for Poisson counts, 1 / dispersion for negative binomial ones, trials - y for binomial ones),
and a gamma or Weibull variable is one itself. So P(Y <= y) is the average of Phi((T - mean) / sd) over T, whose density
is elementary: no incomplete beta or gamma function is called but one, for the part of T where Phi is 1.
"""

from __future__ import annotations

import numpy as np
from scipy.special import betaincc, expit, gammaincc, gammaincinv, gammaln, ndtr, ndtri

from knotwise.likelihoods.roots import Probability, find_root, normal_score
from knotwise.likelihoods.special import factorial_excess

NODES, WEIGHTS = np.polynomial.legendre.leggauss(32)
NEGLIGIBLE = 34.0  # nats below the mode beyond which a density does not count
REACH = 8.3  # beyond it Phi is 0 or 1 to rounding
SMALLEST_SPREAD = 1e-7  # a normal sd of this share of the other's changes a quantile by the square of it
NARROW = 1e6  # from here on |U| is below 0.01
SQRT_2PI = float(np.sqrt(2 * np.pi))


def average_over_log_gamma(a: np.ndarray, b: np.ndarray | None, e: np.ndarray, s: np.ndarray) -> Probability:
    """Average Phi((U + e) / s), as a function of e, over U = log(G_a / G_b) - log(a / b), or log(G_a / a) for b None.

    A Gauss-Legendre rule on both sides of the mode of U, over the part of its reach in which Phi is neither 0 nor 1: on
    its length both factors are smooth, however different their widths. Exact to about 1e-11 (1e-9 for s above 3) if the
    larger of a and b is at least 1; 64 nodes for each row.
    """
    if b is None:
        return _average(a, None, e, s)
    # exchanging a and b turns U around; in terms of the smaller of the two nothing cancels
    turned = a > b
    small = _average(np.minimum(a, b), np.maximum(a, b), np.where(turned, -e, e), s)
    return Probability(
        np.where(turned, 1 - small.value, small.value), small.slope, np.where(turned, -small.curvature, small.curvature)
    )


def _average(a: np.ndarray, b: np.ndarray | None, e: np.ndarray, s: np.ndarray) -> Probability:
    """The same for a <= b."""
    share = None if b is None else a / (a + b)
    curvature = a if share is None else a * (1 - share)  # of -log density at the mode of U
    s = np.maximum(s, SMALLEST_SPREAD / np.sqrt(curvature))
    left, right = _reach(a, b, curvature)
    low, high = np.clip(-e - REACH * s, -left, right), np.clip(-e + REACH * s, -left, right)
    mode = np.clip(0.0, low + 0.12 * (high - low), high - 0.12 * (high - low))
    half = 0.5 * np.stack([mode - low, high - mode])  # [2, n]
    U = (np.stack([low, mode]) + half)[:, None] + half[:, None] * NODES[:, None]  # [2, nodes, n]
    x = (U + e) / s
    grown = np.expm1(U)
    if share is not None:
        grown = np.log1p(share * grown) / share
    grown -= U
    if share is None and (narrow := a > NARROW).any():
        u = U[..., narrow]  # e^u - 1 - u without the difference, of which a makes too much
        grown[..., narrow] = u**2 / 2 * (1 + u / 3 * (1 + u / 4 * (1 + u / 5 * (1 + u / 6 * (1 + u / 7)))))
    grown *= -a
    density = np.exp(grown, out=grown)  # over its value at the mode
    density *= half[:, None] * WEIGHTS[:, None]
    peak = curvature * np.exp(-_excess(a, b))
    value = peak * np.einsum("ijn,ijn->n", density, ndtr(x))
    density *= np.exp(-0.5 * x**2)
    slope = peak * density.sum((0, 1)) / (SQRT_2PI * s)
    curvature = -peak * np.einsum("ijn,ijn->n", density, x) / (SQRT_2PI * s**2)
    beyond = np.flatnonzero(high < right)  # there Phi is 1
    value[beyond] += _upper_tail(a[beyond], None if b is None else b[beyond], high[beyond])
    return Probability(value, slope, curvature)


def _reach(a: np.ndarray, b: np.ndarray | None, curvature: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distances from the mode, to the left and right, at which the density has become negligible, or a little more.

    Upper bounds, each from a lower bound of the fall of the log density: curvature t^2 / (2 + t) on both sides; the
    asymptotes, of slope a on the left and b on the right; and a t less than half of curvature (e^t - 1) on the right.
    """
    q = NEGLIGIBLE / curvature
    both = 0.5 * (q + np.sqrt(q * q + 8 * q))
    right = both
    share = 0.0 if b is None else a / (a + b)
    for _ in range(2):
        closer = np.log1p((NEGLIGIBLE + a * right) / (0.69 * curvature))
        right = np.where(share * np.expm1(np.minimum(closer, 700.0)) <= 1, np.minimum(right, closer), right)
    if b is None:
        return np.minimum(both, NEGLIGIBLE / a + 1), right
    left = np.minimum(both, (NEGLIGIBLE - (a + b) * np.log1p(-share)) / a)
    return left, np.minimum(right, (NEGLIGIBLE - (a + b) * np.log(share)) / b)


def _excess(a: np.ndarray, b: np.ndarray | None) -> np.ndarray:
    """What the density at the mode has beside the curvature, as minus a logarithm."""
    if b is None:
        return factorial_excess(a)
    return factorial_excess(a) + factorial_excess(b) - factorial_excess(a + b)


def _upper_tail(a: np.ndarray, b: np.ndarray | None, u: np.ndarray) -> np.ndarray:
    """P(U > u)."""
    if b is None:
        return gammaincc(a, a * np.exp(u))
    return betaincc(a, b, expit(np.log(a / b) + u))  # a share that is not near 1, where it would lose its digits


def log_gamma_quantile(p: float, a: float, s: np.ndarray) -> np.ndarray:
    """The p-quantile of log(G_a / a) + s Z with a standard normal Z, one for each s."""

    def evaluate(x: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        above = average_over_log_gamma(np.full(len(rows), a), None, -x, s[rows])  # P(sum > x)
        return normal_score(1 - above.value, above.slope, -above.curvature, p)

    low, high = (ndtri(q) * s + _log_gamma_quantile(q, a) for q in (p / 2, (1 + p) / 2))
    median = _log_gamma_quantile(0.5, a)
    start = median + np.sign(p - 0.5) * np.hypot(ndtri(p) * s, _log_gamma_quantile(p, a) - median)
    return find_root(evaluate, start, low, high, 0.1 * (high - low))


def _log_gamma_quantile(p: float, a: float) -> float:
    """The p-quantile of log(G_a / a), also where that of G_a is below the smallest number."""
    quantile = gammaincinv(a, p)
    return float(np.log(quantile) if quantile > 1e-290 else (np.log(p) + gammaln(a + 1)) / a) - float(np.log(a))


def log_gamma_rule(a: float, n_nodes: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of averages of smooth functions of log(G_a / a): panels of `n_nodes`, longer to the left."""
    one = np.array([a])
    left, right = (float(side[0]) for side in _reach(one, None, one))
    cuts = [right, 0.0]
    length = 3.0 * min(1.0, 1.2 / np.sqrt(a))
    while cuts[-1] > -left:
        cuts.append(max(cuts[-1] - length, -left))
        length *= 1.35
    ends = np.array(cuts[::-1])
    nodes, weights = np.polynomial.legendre.leggauss(n_nodes)
    half = 0.5 * np.diff(ends)[:, None]
    U = (ends[:-1, None] + half + half * nodes).ravel()
    density = np.exp(-a * (np.expm1(U) - U)) * (half * weights).ravel()
    return U, density / density.sum()
