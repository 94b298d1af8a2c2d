"""Quantiles of a beta variable whose mean has a logit-normal distribution, on the logit scale.

The incomplete beta function costs more than all else, half a microsecond a call. So a rough rule leads near the root,
and one step on an accurate rule, of third order by exact derivatives, ends there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from knotwise.likelihoods.roots import find_root, normal_score

__all__ = ["logit_beta_quantile"]


@dataclass(frozen=True)
class Rule:
    """Gauss-Legendre nodes on each side of the step, and where it ends: in nats, and in standard deviations of f."""

    n_nodes: int
    negligible: float
    reach: float

    @cached_property
    def nodes_and_weights(self) -> tuple[np.ndarray, np.ndarray]:
        return np.polynomial.legendre.leggauss(self.n_nodes)


ROUGH = Rule(10, 12.0, 4.6)
#: accurate ones up to an sd of f: beyond it the long tails of a step count beside its steep middle
ACCURATE = {0.9: Rule(24, 26.0, 6.8), 2.0: Rule(36, 26.0, 6.8), np.inf: Rule(56, 26.0, 6.8)}
LOWEST, HIGHEST = -690.0, 40.0  # logits of the smallest and the largest share that a float can tell from 0 and 1
SMALLEST = 1e-300
SQRT_2PI = float(np.sqrt(2 * np.pi))


def logit_beta_quantile(p: float, precision: float, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """The p-quantile of logit Y, where Y is beta with this precision and mean 1 / (1 + e^-f), f ~ N(mean, variance)."""
    s = np.sqrt(variance)
    low, high = np.full(len(mean), LOWEST), np.full(len(mean), HIGHEST)
    x, scale = _start(p, precision, mean, s)
    x = find_root(partial(_evaluate, p, precision, mean, s, ROUGH), x, low, high, 50 * scale)
    above = -np.inf
    for most, rule in ACCURATE.items():
        rows = np.flatnonzero((s > above) & (s <= most))
        evaluate = partial(_evaluate, p, precision, mean[rows], s[rows], rule)
        x[rows] = find_root(evaluate, x[rows], low[rows], high[rows], 5 * scale[rows])
        above = most
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
    x = np.where(np.isfinite(x) & (np.abs(mean) < 20), x, normal)
    return np.clip(x, LOWEST + 1, HIGHEST - 1), spread


def _evaluate(
    p: float,
    precision: float,
    mean: np.ndarray,
    s: np.ndarray,
    rule: Rule,
    x: np.ndarray,
    rows: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The normal score of P(logit Y <= x) and its derivatives in x, of some rows.

    As a function of f, P(Y <= y | f) is 1 below its step and 0 above it; only the step is integrated.
    """
    from scipy.special import betainc, expit, gammaln, log_expit, ndtr

    mean, s = mean[rows], np.maximum(s[rows], SMALLEST)
    step = _step(precision, x, rule.negligible)
    left, centre, right = (np.clip((f - mean) / s, -rule.reach, rule.reach) for f in step)
    centre = np.clip(centre, left + 0.12 * (right - left), right - 0.12 * (right - left))
    half = 0.5 * np.stack([centre - left, right - centre])
    nodes, weights = rule.nodes_and_weights
    t = (np.stack([left, centre]) + half)[:, None] + half[:, None] * nodes[:, None]  # [2, nodes, n]
    normal = half[:, None] * weights[:, None] * np.exp(-0.5 * t**2) / SQRT_2PI
    mu = expit(mean + s * t)
    a, b = np.maximum(precision * mu, SMALLEST), np.maximum(precision * (1 - mu), SMALLEST)
    # a share near 1 has lost its digits, its distance from 1 has not
    y, low = expit(x), x < 0
    below = betainc(np.where(low, a, b), np.where(low, b, a), expit(-np.abs(x)))
    below = np.where(low, below, 1 - below)
    P = ndtr(left) * below[0, 0] + (normal * below).sum((0, 1)) + ndtr(-right) * below[-1, -1]
    log_density = a * log_expit(x) + b * log_expit(-x) + gammaln(precision) - gammaln(a) - gammaln(b)
    density = normal * np.exp(log_density)
    bend = (density * (a - precision * y)).sum((0, 1))
    return normal_score(P, density.sum((0, 1)), bend, p)


def _step(precision: float, x: np.ndarray, negligible: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where P(Y <= y | f) is 1, about 1/2, and 0, as values of f for y = 1 / (1 + e^-x).

    Where the precision is large it falls as e^(-precision KL), with the divergence of two shares; else, and far out, by
    a factor e or more per unit of f. A small shape a has its median at 2^(-1/a), far below its mean.
    """
    from scipy.special import expit, log_expit, logit

    log_y, log_z = log_expit(x), log_expit(-x)
    small = 0.7 / (0.7 + precision * np.maximum(-log_y, -log_z))
    centre = np.where(x < 0, np.maximum(x, logit(small)), np.minimum(x, -logit(small)))
    ends = []
    for sign in (-1.0, 1.0):
        shorter, longer = np.full(len(x), -17.0), np.zeros(len(x))  # as powers of two of the longest
        for _ in range(9):
            power = 0.5 * (shorter + longer)
            f = x + sign * negligible * np.exp2(power)
            mu = expit(f)
            divergence = mu * (log_expit(f) - log_y) + (1 - mu) * (log_expit(-f) - log_z)
            enough = precision * divergence >= negligible
            shorter, longer = np.where(enough, shorter, power), np.where(enough, power, longer)
        far = x + sign * negligible * np.exp2(longer)
        ends.append(np.where(longer < 0, far, centre + sign * negligible))
    return np.minimum(ends[0], centre), centre, np.maximum(ends[1], centre)
