r"""The lower tail of logit Y, where Y is a beta variable whose mean has a logit-normal distribution.

Where f is known, logit Y has the elementary density

.. math:: h(u \mid f) = \frac{\Gamma(\phi)}{\Gamma(a) \Gamma(b)}\, e^{a \log \sigma(u) + b \log \sigma(-u)}, \qquad
    a = \phi \sigma(f), \quad b = \phi \sigma(-f)

with the logistic function sigma. So P(logit Y <= x) is the integral of h(u | f) N(f) over u <= x and all f, and no
incomplete beta function is called. As a function of f, h has about the variance 1 / (phi sigma(f) sigma(-f)). Where
that is not much less than the variance of N(f), nodes of f serve for all u; where it is, they move with u.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from knotwise.likelihoods.beta_nodes import MovingNodes, Rule, SharedNodes

__all__ = ["Tail", "lower_tail"]

LOGISTIC = 0.5  # nodes of f for each unit of f, in units of those for each standard deviation
MOST_NODES = 100_000  # nodes of f times rows that are in memory together
SMALLEST = 1e-300
SQRT_2PI = float(np.sqrt(2 * np.pi))


@dataclass(frozen=True)
class Tail:
    """P(logit Y <= x) and its first two derivatives in x, [n] each."""

    value: np.ndarray
    slope: np.ndarray
    curvature: np.ndarray


@dataclass(frozen=True)
class Reach:
    """The f that count for one x of each row, in standard deviations from their mean, and the number of panels."""

    left: np.ndarray
    right: np.ndarray
    length: np.ndarray
    n_panels: np.ndarray

    def __getitem__(self, rows: np.ndarray) -> Reach:
        return Reach(self.left[rows], self.right[rows], self.length[rows], self.n_panels[rows])


def lower_tail(p: float, precision: float, mean: np.ndarray, s: np.ndarray, rule: Rule, x: np.ndarray) -> Tail:
    """P(logit Y <= x), of about p, for f ~ N(mean, s^2)."""
    from scipy.special import expit

    reach = _reach(p, precision, mean, s, rule, x)
    moving = (reach.length > rule.longest) & (precision * expit(x) * expit(-x) > rule.nearly_normal)
    parts = np.empty((3, len(x)))
    rows = np.flatnonzero(~moving)
    if len(rows):
        parts[:, rows] = _with_shared_nodes(precision, mean[rows], s[rows], rule, x[rows], reach[rows])
    rows = np.flatnonzero(moving)
    if len(rows):
        parts[:, rows] = _with_moving_nodes(p, precision, mean[rows], s[rows], rule, x[rows])
    return Tail(*parts)


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
    from scipy.special import ndtri

    reach = -float(ndtri(p * rule.negligible))
    left = np.full(len(s), -reach)
    right = np.clip((_end_of_step(precision, x, rule.nats) - mean) / s, left, reach)
    length = _length(precision, mean, s, left, right)
    return Reach(left, right, length, np.ceil(length / rule.panel_length).clip(1))


def _end_of_step(precision: float, x: np.ndarray, nats: float) -> np.ndarray:
    """The f beyond which P(logit Y <= x | f) is negligible: it is below e^(-precision KL) of the two shares."""
    from scipy.special import expit, log_expit

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
    from scipy.special import expit, gammaln

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
