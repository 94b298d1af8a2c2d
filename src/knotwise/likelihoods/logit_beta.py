"""Quantiles of a beta variable whose mean has a logit-normal distribution, on the logit scale.

Only the smaller tail is integrated; the larger one is that of 1 - Y. A rough rule leads near the root, and one step on
an accurate rule, of third order by exact derivatives, ends there.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from knotwise.likelihoods.beta_nodes import Rule
from knotwise.likelihoods.beta_tail import lower_tail
from knotwise.likelihoods.roots import find_root, normal_score

__all__ = ["logit_beta_quantile"]

ROUGH = Rule(
    n_panel=12, n_u=10, n_mode=5, n_u_mode=8, negligible=1e-6, panel_length=12.0, longest=16.0, nearly_normal=12.0
)
ACCURATE = Rule(
    n_panel=17, n_u=24, n_mode=14, n_u_mode=15, negligible=1e-11, panel_length=7.0, longest=35.0, nearly_normal=60.0
)
#: for levels near 1/2: the integrals over u are longer
NEAR_HALF = replace(ACCURATE, n_u=44, n_mode=18, n_u_mode=44)
#: for small precisions, where P changes little between the shares 0 and 1, so that it must be more accurate
FLAT_ROUGH = replace(ROUGH, n_panel=16)
FLAT_ACCURATE = replace(ACCURATE, n_panel=24, negligible=1e-12)
#: steps that end the search on the rough and on the accurate rule, as in `find_root`: each leaves an error of its cube
ENOUGH = (300.0, 5.0)
LOW_LEVEL = 0.06
SMALL_PRECISION = 3.0
LOWEST, HIGHEST = -690.0, 40.0  # logits of the smallest and the largest share that a float can tell from 0 and 1
SMALLEST = 1e-300


def logit_beta_quantile(p: float, precision: float, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """The p-quantile of logit Y, where Y is beta with this precision and mean 1 / (1 + e^-f), f ~ N(mean, variance)."""
    s = np.maximum(np.sqrt(variance), SMALLEST)
    if p > 0.5:
        return -_lower_quantile(1 - p, precision, -mean, s, (-HIGHEST, -LOWEST))
    return _lower_quantile(p, precision, mean, s, (LOWEST, HIGHEST))


def _lower_quantile(
    p: float, precision: float, mean: np.ndarray, s: np.ndarray, ends: tuple[float, float]
) -> np.ndarray:
    low, high = (np.full(len(mean), end) for end in ends)
    x, scale = _start(p, precision, mean, s)
    x = np.clip(x, low + 1, high - 1)
    if precision < SMALL_PRECISION:
        rules = FLAT_ROUGH, FLAT_ACCURATE
    else:
        high = np.minimum(high, np.maximum(_bound(p, precision, mean, s), x))
        rules = ROUGH, (ACCURATE if p <= LOW_LEVEL else NEAR_HALF)
    for rule, share in zip(rules, ENOUGH, strict=True):
        x = find_root(partial(_evaluate, p, precision, mean, s, rule), x, low, high, share * scale)
    return x


def _start(p: float, precision: float, mean: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The quantile of the beta variable with the mean and variance of Y, or nearly so, and the spread of logit Y."""
    from scipy.special import betaincinv, expit, logit, ndtri

    z, weights = np.polynomial.hermite_e.hermegauss(12)
    mu = expit(mean + s * z[:, None])
    weights = weights / weights.sum()
    M, total = weights @ mu, weights @ (mu * (1 - mu))
    first = np.clip(M, 1e-12, 1 - 1e-12)
    # E Var(Y | f) + Var E(Y | f) = M (1 - M) / (1 + phi)
    share = np.clip(first * (1 - first) - total * precision / (1 + precision), 1e-15, None) / (first * (1 - first))
    phi = np.clip(1 / share - 1, 1e-3, 1e12)
    spread = np.sqrt(s**2 + 1 / (precision * expit(mean) * expit(-mean) + 0.2))
    with np.errstate(divide="ignore"):
        x = logit(betaincinv(phi * first, phi * (1 - first), p))
    normal = mean + ndtri(p) * spread
    return np.where(np.isfinite(x) & (np.abs(mean) < 20), x, normal), spread


def _bound(p: float, precision: float, mean: np.ndarray, s: np.ndarray) -> np.ndarray:
    """A logit above the p-quantile and below the larger tail, of which only rough values are known.

    Y grows with f. So with q = (1 + p) / 2, the q-quantile of Y at the q-quantile of f has a probability of at least
    q^2 >= p below it.
    """
    from scipy.special import betaincinv, expit, logit, ndtri

    q = 0.5 * (1 + p)
    f = mean + float(ndtri(q)) * s
    a, b = (np.maximum(precision * expit(side), SMALLEST) for side in (f, -f))
    with np.errstate(divide="ignore"):
        bound = np.clip(logit(betaincinv(a, b, q)), LOWEST, -LOWEST)
    return bound + 1e-6 * (1 + np.abs(bound))


def _evaluate(
    p: float,
    precision: float,
    mean: np.ndarray,
    s: np.ndarray,
    rule: Rule,
    x: np.ndarray,
    rows: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The normal score of P(logit Y <= x) and its derivatives in x, of some rows."""
    tail = lower_tail(p, precision, mean[rows], s[rows], rule, x)
    return normal_score(tail.value, tail.slope, tail.curvature, p)
