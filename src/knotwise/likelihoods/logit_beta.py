"""Quantiles of a beta variable whose mean has a logit-normal distribution, on the logit scale.

Only the smaller tail is integrated; the larger one is that of 1 - Y. A rough rule leads near the root, and one step on
an accurate rule, of third order by exact derivatives, ends there. Both ends of an interval take 20 to 40 microseconds a
row; the quadrature of `response`, which any likelihood can have, takes 3,000 to 7,500, and the acceptance benchmark
`benchmarks/bars/response.py` allows 150.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.special import betaincinv, expit, gammaln, log_expit, logit, ndtri

from knotwise.likelihoods.beta_nodes import MovingNodes, Rule, SharedNodes
from knotwise.likelihoods.roots import Probability, find_root, normal_score

LOGISTIC = 0.5  # nodes of f for each unit of f, in units of those for each standard deviation
MOST_NODES = 100_000  # nodes of f times rows that are in memory together
SMALLEST = 1e-300
SQRT_2PI = float(np.sqrt(2 * np.pi))


@dataclass(frozen=True)
class Reach:
    """The f that count for one x of each row, in standard deviations from their mean, and the number of panels."""

    left: np.ndarray
    right: np.ndarray
    length: np.ndarray
    n_panels: np.ndarray

    def __getitem__(self, rows: np.ndarray) -> Reach:
        return Reach(self.left[rows], self.right[rows], self.length[rows], self.n_panels[rows])


def lower_tail(p: float, precision: float, mean: np.ndarray, s: np.ndarray, rule: Rule, x: np.ndarray) -> Probability:
    """P(logit Y <= x), of about p, for f ~ N(mean, s^2), as a function of x."""
    reach = _reach(p, precision, mean, s, rule, x)
    moving = (reach.length > rule.longest) & (precision * expit(x) * expit(-x) > rule.nearly_normal)
    parts = np.empty((3, len(x)))
    rows = np.flatnonzero(~moving)
    if len(rows):
        parts[:, rows] = _with_shared_nodes(precision, mean[rows], s[rows], rule, x[rows], reach[rows])
    rows = np.flatnonzero(moving)
    if len(rows):
        parts[:, rows] = _with_moving_nodes(p, precision, mean[rows], s[rows], rule, x[rows])
    return Probability(*parts)


def _with_shared_nodes(
    precision: float, mean: np.ndarray, s: np.ndarray, rule: Rule, x: np.ndarray, reach: Reach
) -> np.ndarray:
    parts = np.empty((3, len(x)))
    for rows in _rows_alike(reach.n_panels, rule.n_panel):
        nodes = place_nodes(precision, mean[rows], s[rows], rule, reach[rows])
        parts[:, rows] = nodes.below(x[rows], rule)
    return parts


def _with_moving_nodes(
    p: float, precision: float, mean: np.ndarray, s: np.ndarray, rule: Rule, x: np.ndarray
) -> np.ndarray:
    nodes = MovingNodes(precision, mean, s, rule)
    start = x - nodes.length(x)
    # below this u the density is not nearly normal in f
    lowest = -np.arccosh(max(0.5 * precision / rule.nearly_normal - 1, 1.0))
    deep = np.flatnonzero(start < lowest)
    start[deep] = lowest
    parts = np.stack([nodes.between(start, x), *nodes.density_and_slope(x)])
    if len(deep):
        mean, s, start = mean[deep], s[deep], start[deep]
        reach = _reach(p, precision, mean, s, rule, start)
        parts[0, deep] += _with_shared_nodes(precision, mean, s, rule, start, reach)[0]
    return parts


def _rows_alike(n_panels: np.ndarray, n_nodes: int) -> Iterator[np.ndarray]:
    """Rows that have the same number of panels, as many as fit into memory."""
    for count in np.unique(n_panels):
        rows = np.flatnonzero(n_panels == count)
        most = max(1, int(MOST_NODES / (count * n_nodes)))
        yield from (rows[first : first + most] for first in range(0, len(rows), most))


def _reach(p: float, precision: float, mean: np.ndarray, s: np.ndarray, rule: Rule, x: np.ndarray) -> Reach:
    reach = -float(ndtri(p * rule.negligible))
    left = np.full(len(s), -reach)
    right = np.clip((_end_of_step(precision, x, rule.nats) - mean) / s, left, reach)
    length = _length(precision, mean, s, left, right)
    return Reach(left, right, length, np.ceil(length / rule.panel_length).clip(1))


def _end_of_step(precision: float, x: np.ndarray, nats: float) -> np.ndarray:
    """The f beyond which P(logit Y <= x | f) is negligible: it is below e^(-precision KL) of the two shares."""
    log_y, log_z = log_expit(x), log_expit(-x)
    shorter, longer = np.full(len(x), -17.0), np.zeros(len(x))  # as powers of two of the longest
    for _ in range(8):
        power = 0.5 * (shorter + longer)
        f = x + 2 * nats * np.exp2(power)
        mu = expit(f)
        divergence = mu * (log_expit(f) - log_y) + (1 - mu) * (log_expit(-f) - log_z)
        enough = precision * divergence >= nats
        shorter, longer = np.where(enough, shorter, power), np.where(enough, power, longer)
    return np.where(longer < 0, x + 2 * nats * np.exp2(longer), np.inf)


def _length(precision: float, mean: np.ndarray, s: np.ndarray, left: np.ndarray, t: np.ndarray) -> np.ndarray:
    """The integral of 1 + s (precision sigma(f) sigma(-f))^(1/2) + s times a constant, from left to t."""
    angle = np.arctan(np.tanh(0.25 * (mean + s * t))) - np.arctan(np.tanh(0.25 * (mean + s * left)))
    return (t - left) * (1 + LOGISTIC * s) + 2 * np.sqrt(precision) * angle


def place_nodes(precision: float, mean: np.ndarray, s: np.ndarray, rule: Rule, reach: Reach) -> SharedNodes:
    """Gauss-Legendre nodes of f on panels of nearly equal length in units of the narrower of N(f) and h."""
    n_panels = int(reach.n_panels[0])
    share = np.arange(1, n_panels)[:, None] / n_panels
    low, high = (np.broadcast_to(end, (n_panels - 1, len(s))) for end in (reach.left, reach.right))
    for _ in range(6 + 2 * max(0, n_panels.bit_length() - 3)):  # many panels may be short ones of a long reach
        middle = 0.5 * (low + high)
        beyond = _length(precision, mean, s, reach.left, middle) > share * reach.length
        low, high = np.where(beyond, low, middle), np.where(beyond, middle, high)
    cuts = np.vstack([reach.left, low, reach.right])
    half = 0.5 * np.diff(cuts, axis=0)
    nodes, weights = rule.panel
    t = ((cuts[:-1] + half)[:, None] + half[:, None] * nodes[:, None]).reshape(-1, len(s))
    log_half = np.log(np.maximum(half, SMALLEST) / SQRT_2PI)
    log_normal = (log_half[:, None] + np.log(weights)[:, None]).reshape(t.shape)
    log_normal -= 0.5 * t**2
    f = mean + s * t
    a, b = (np.maximum(precision * expit(side), SMALLEST) for side in (f, -f))
    return SharedNodes(precision, a, b, log_normal, log_normal + gammaln(precision) - gammaln(a) - gammaln(b))


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
    q = 0.5 * (1 + p)
    f = mean + float(ndtri(q)) * s
    a, b = (np.maximum(precision * expit(side), SMALLEST) for side in (f, -f))
    with np.errstate(divide="ignore"):
        bound = np.clip(logit(betaincinv(a, b, q)), LOWEST, -LOWEST)
    return bound + 1e-6 * (1 + np.abs(bound))


def _evaluate(
    p: float, precision: float, mean: np.ndarray, s: np.ndarray, rule: Rule, x: np.ndarray, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The normal score of P(logit Y <= x) and its derivatives in x, of some rows."""
    tail = lower_tail(p, precision, mean[rows], s[rows], rule, x)
    return normal_score(tail.value, tail.slope, tail.curvature, p)
