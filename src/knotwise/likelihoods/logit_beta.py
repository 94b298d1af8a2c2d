r"""Quantiles of a beta variable whose mean has a logit-normal distribution, on the logit scale.

No incomplete beta function is called. Where f is known, logit Y has the elementary density

.. math:: h(u \mid f) = \frac{\Gamma(\phi)}{\Gamma(a) \Gamma(b)}\, e^{a \log \sigma(u) + b \log \sigma(-u)}, \qquad
    a = \phi \sigma(f), \quad b = \phi \sigma(-f)

with the logistic function sigma; so P(logit Y <= x) is an integral over the half plane u <= x of h(u | f) N(f). Only
the smaller tail is integrated, the larger one is that of 1 - Y. A rough rule leads near the root, and a step of third
order by exact derivatives on an accurate rule ends there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from knotwise.likelihoods.roots import find_root, normal_score
from knotwise.likelihoods.special import factorial_excess

__all__ = ["logit_beta_quantile"]


@dataclass(frozen=True)
class Rule:
    """Numbers of nodes: of a panel of f, of u, and of f around its mode; and what does not count, as a share of P."""

    n_panel: int
    n_tail: int
    n_mode: int
    negligible: float
    n_moving_tail: int = 18

    @cached_property
    def nats(self):
        return -np.log(self.negligible)

    @cached_property
    def panel(self) -> tuple[np.ndarray, np.ndarray]:
        return np.polynomial.legendre.leggauss(self.n_panel)

    @cached_property
    def tail(self) -> tuple[np.ndarray, np.ndarray]:
        return _crowded(self.n_tail)

    @cached_property
    def moving_tail(self) -> tuple[np.ndarray, np.ndarray]:
        return _crowded(self.n_moving_tail)

    @cached_property
    def mode(self) -> tuple[np.ndarray, np.ndarray]:
        """Gauss-Hermite nodes, and logarithms of weights for an integrand that holds the normal density itself."""
        t, weights = np.polynomial.hermite_e.hermegauss(self.n_mode)
        return t, np.log(weights) + 0.5 * t**2


def _crowded(n):
    """Nodes in (0, 1) that crowd at 0, where the tail is steepest, and their weights."""
    q, weights = np.polynomial.legendre.leggauss(n)
    q = 0.5 * (1 + q)
    return q**2, q * weights


ROUGH = Rule(8, 10, 5, 1e-6, 8)
ACCURATE = Rule(17, 26, 12, 1e-11, 18)
#: for precisions below 1, where y changes much with P
FLAT_ROUGH, FLAT_ACCURATE = Rule(10, 10, 5, 1e-6), Rule(24, 20, 11, 1e-12)
import os
LOGISTIC = 0.5
PANEL = 7.0  # length of a panel of f, in standard deviations of the narrower of N(f) and h
MOST_PANELS = int(os.environ.get('MP','3'))  # beyond it nodes of f move with u
LEAST_MODE = float(os.environ.get('LM','60'))  # phi mu (1 - mu) from which on h is nearly normal in f
SERIES = 0.3  # the series of a lower tail is used up to this size of its terms' ratio, for shares up to 0.03
SERIES_TERMS = 14
LOWEST, HIGHEST = -690.0, 40.0  # logits of the smallest and the largest share that a float can tell from 0 and 1
SMALLEST = 1e-300
MOST_NODES = int(os.environ.get('MN','100000'))  # nodes of f times rows in memory
LOG_2PI = float(np.log(2 * np.pi))


def logit_beta_quantile(p: float, precision: float, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """The p-quantile of logit Y, where Y is beta with this precision and mean 1 / (1 + e^-f), f ~ N(mean, variance)."""
    if p > 0.5:
        return -_lower_quantile(1 - p, precision, -mean, variance, (-HIGHEST, -LOWEST))
    return _lower_quantile(p, precision, mean, variance, (LOWEST, HIGHEST))


def _lower_quantile(
    p: float, precision: float, mean: np.ndarray, variance: np.ndarray, ends: tuple[float, float]
) -> np.ndarray:
    s = np.maximum(np.sqrt(variance), SMALLEST)
    low, high = (np.full(len(mean), end) for end in ends)
    x, scale = _start(p, precision, mean, s)
    x = np.clip(x, low + 1, high - 1)
    rules = (ROUGH, ACCURATE) if precision >= 1 else (FLAT_ROUGH, FLAT_ACCURATE)
    for rule, share in zip(rules, (50.0, 2.0), strict=True):
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
    from scipy.special import expit, ndtri

    mean, s = mean[rows], s[rows]
    moving = (_panels(p, precision, mean, s, rule, x)[2] > MOST_PANELS) & (precision * expit(x) * expit(-x) > LEAST_MODE)
    results = np.empty((3, len(x)))  # P, slope, bend
    for chosen, below in ((~moving, _below_shared), (moving, _below_moving)):
        if not chosen.any():
            continue
        results[:, chosen] = below(p, precision, mean[chosen], s[chosen], rule, x[chosen])
    return normal_score(*results, p)


def _panels(p, precision, mean, s, rule, x):
    from scipy.special import ndtri

    reach = -float(ndtri(p * rule.negligible))
    left, right = mean - reach * s, mean + reach * s
    right = np.clip(_step_end(precision, x, rule.nats), left, right)
    return left, right, np.ceil(_length(precision, s, left, right) / PANEL).clip(1)


def _below_shared(p, precision, mean, s, rule, x):
    left, right, n_panels = _panels(p, precision, mean, s, rule, x)
    results = np.empty((3, len(x)))
    for rows in _chunks(n_panels, rule.n_panel):
        nodes = SharedNodes(precision, mean[rows], s[rows], left[rows], right[rows], int(n_panels[rows[0]]), rule)
        results[:, rows] = nodes.below(x[rows], rule.nats)
    return results


def _below_moving(p, precision, mean, s, rule, x):
    nodes = MovingNodes(precision, mean, s, rule)
    start = x - nodes.length(x)
    lowest = -np.arccosh(max(0.5 * precision / LEAST_MODE - 1, 1.0))  # there phi mu (1 - mu) is the least
    deep = start < lowest
    start[deep] = lowest
    P, slope, bend = nodes.between(start, x)
    P[deep] += _below_shared(p, precision, mean[deep], s[deep], rule, start[deep])[0]
    return P, slope, bend


def _chunks(n_panels: np.ndarray, n_nodes: int) -> Iterator[np.ndarray]:
    """Rows that have the same number of panels, as many as fit into memory."""
    for count in np.unique(n_panels):
        rows = np.flatnonzero(n_panels == count)
        most = max(1, int(MOST_NODES / (max(count, 1) * n_nodes)))
        yield from (rows[first : first + most] for first in range(0, len(rows), most))


def _step_end(precision: float, x: np.ndarray, nats: float) -> np.ndarray:
    """The f beyond which P(logit Y <= x | f) is negligible: below e^-(precision KL), and where f is far, e^-(f - x)."""
    from scipy.special import expit, log_expit

    log_y, log_z = log_expit(x), log_expit(-x)
    shorter, longer = np.full(len(x), -17.0), np.zeros(len(x))  # as powers of two of the longest
    for _ in range(9):
        power = 0.5 * (shorter + longer)
        f = x + 2 * nats * np.exp2(power)
        mu = expit(f)
        divergence = mu * (log_expit(f) - log_y) + (1 - mu) * (log_expit(-f) - log_z)
        enough = precision * divergence >= nats
        shorter, longer = np.where(enough, shorter, power), np.where(enough, power, longer)
    return np.where(longer < 0, x + 2 * nats * np.exp2(longer), np.inf)


def _length(precision: float, s: np.ndarray, left: np.ndarray, f: np.ndarray) -> np.ndarray:
    """The integral of 1/s + (precision mu (1 - mu))^(1/2) from left to f."""
    angle = np.arctan(np.tanh(0.25 * f)) - np.arctan(np.tanh(0.25 * left))
    return (f - left) * (1 / s + LOGISTIC) + 2 * np.sqrt(precision) * angle


@dataclass(frozen=True)
class SharedNodes:
    """Nodes of f that do not depend on u: panels of equal length in units of the narrower of N(f) and h."""

    precision: float
    mean: np.ndarray
    s: np.ndarray
    left: np.ndarray
    right: np.ndarray
    n_panels: int
    rule: Rule

    @cached_property
    def _nodes(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """t, f and weights"""
        phi = self.precision
        total = _length(phi, self.s, self.left, self.right)
        share = np.arange(1, self.n_panels)[:, None] / self.n_panels
        low, high = (np.broadcast_to(end, (self.n_panels - 1, len(total))) for end in (self.left, self.right))
        for _ in range(7):
            middle = 0.5 * (low + high)
            beyond = _length(phi, self.s, self.left, middle) > share * total
            low, high = np.where(beyond, low, middle), np.where(beyond, middle, high)
        cuts = (np.vstack([self.left[None], low, self.right[None]]) - self.mean) / self.s
        half = 0.5 * np.diff(cuts, axis=0)
        nodes, weights = self.rule.panel
        t = ((cuts[:-1] + half)[:, None] + half[:, None] * nodes[:, None]).reshape(-1, len(total))
        weight = (half[:, None] * weights[:, None]).reshape(t.shape)
        return t, self.mean + self.s * t, weight * np.exp(-0.5 * t**2) / np.sqrt(2 * np.pi)

    @cached_property
    def constants(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """a, b, the logarithm of N(f) Gamma(phi) / (Gamma(a) Gamma(b)) with the weight, and log a; [nodes, n]."""
        from scipy.special import expit, gammaln, log_expit

        phi = self.precision
        t, f, weights = self._nodes
        a, b = np.maximum(phi * expit(f), SMALLEST), np.maximum(phi * expit(-f), SMALLEST)
        constant = gammaln(phi) - gammaln(a) - gammaln(b) + np.log(weights)
        return a, b, constant, np.log(phi) + log_expit(f)

    @cached_property
    def mass(self):
        return self._nodes[2].sum(0)

    def below(self, x: np.ndarray, nats: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """P(logit Y <= x) and its first two derivatives, [n] each."""
        from scipy.special import expit

        a, b, *_ = self.constants
        terms = np.exp(self._log_terms(x))
        slope, bend = terms.sum(0), ((a - self.precision * expit(x)) * terms).sum(0)
        edge = np.log(min(0.03, SERIES / self.precision))
        from_above = x > -edge  # there P is 1 less a short series
        start = np.where(from_above, x, np.minimum(x, edge))
        start = self._where_negligible(start, x, nats)
        P = np.zeros(len(x))
        open_ = np.flatnonzero(start < x)
        if len(open_):
            P[open_] = self._between(start[open_], x[open_], open_)
        lower = start <= edge
        P[lower] += self._series(start[lower], lower, True)
        P[from_above] = self.mass[from_above] - self._series(x[from_above], from_above, False)
        return P, slope, bend

    def _between(self, start, x, rows):
        from scipy.special import log_expit
        a, b, constant, _ = self.constants
        whole = len(rows) == a.shape[1]
        a = a if whole else a[:, rows]
        at_x = self._log_terms(x, rows)
        P = np.zeros(len(x))
        for share, weight in zip(*self.rule.tail, strict=True):
            u = x - share * (x - start)
            terms = a * (u - x)
            terms += at_x
            terms += self.precision * (log_expit(-u) - log_expit(-x))
            np.exp(terms, out=terms)
            P += weight * terms.sum(0)
        return P * (x - start)

    def _log_terms(self, u: np.ndarray, rows=slice(None), step=1) -> np.ndarray:
        from scipy.special import log_expit

        a, b, constant, _ = (v[::step, rows] for v in self.constants)
        terms = a * log_expit(u)
        terms += b * log_expit(-u)
        terms += constant
        return terms

    def _where_negligible(self, start, x, nats):
        """The highest u from start to x below which the density is negligible, nearly; start if there is none."""
        target = self._log_terms(x, step=3).max(0) - nats
        low, high = start, x
        for _ in range(6):
            middle = 0.5 * (low + high)
            enough = self._log_terms(middle, step=3).max(0) < target
            low, high = np.where(enough, middle, low), np.where(enough, high, middle)
        return low

    def _series(self, x, rows, lower):
        from scipy.special import expit

        phi = self.precision
        a, b, constant, log_a = (v[:, rows] for v in self.constants)
        first = a if lower else b
        y = expit(x if lower else -x)
        total = np.ones_like(a)
        term = np.ones_like(a)
        for k in range(SERIES_TERMS):
            term *= (phi + k) * y / (first + 1 + k)
            total += term
        from scipy.special import log_expit
        log_first = log_a if lower else np.log(np.maximum(b, SMALLEST))
        return (np.exp(constant + a * log_expit(x) + b * log_expit(-x) - log_first) * total).sum(0)



def _stirling(x):
    """Terms of Stirling's series beyond 1/2 log(2 pi x)."""
    u = 1 / x
    return u * (1 / 12 - u**2 * (1 / 360 - u**2 / 1260))


@dataclass(frozen=True)
class MovingNodes:
    """Nodes of f around the mode of h(u | f) N(f), for each u: h is narrow and nearly normal in f."""

    precision: float
    mean: np.ndarray
    s: np.ndarray
    rule: Rule

    def length(self, x):
        """How far below x the density is negligible: as of a normal one, whose sd grows a little."""
        from scipy.special import expit

        sd = np.sqrt(self.s**2 + 1 / (self.precision * expit(x) * expit(-x)))
        z = np.maximum(self.mean - x, 0.0) / sd
        return 1.15 * sd * (np.sqrt(z**2 + 2 * self.rule.nats) - z)

    def between(self, start, x):
        slope, bend = self._density(x, bend=True)
        P = np.zeros(len(x))
        for share, weight in zip(*self.rule.moving_tail, strict=True):
            P += weight * self._density(x - share * (x - start))
        return P * (x - start), slope, bend

    def _density(self, u, bend=False):
        from scipy.special import expit

        phi, w = self.precision, 1 / self.s**2
        v = phi * expit(u) * expit(-u)
        f = u + w * (self.mean - u) / (w + v)
        for _ in range(2):
            mu, nu = expit(f), expit(-f)
            v = phi * mu * nu
            slope = (self.mean - f) * w + v * (u - f) + 0.5 * (nu - mu)
            curvature = w + v * (1 - (nu - mu) * (u - f)) + mu * nu
            f = f + np.clip(slope / np.maximum(curvature, 0.2*(w+v)), -1, 1)
        width = 1 / np.sqrt(np.maximum(curvature, 0.2*(w+v)))
        t, log_weights = self.rule.mode
        f = f + width * t[:, None]
        mu, nu = expit(f), expit(-f)
        d = u - f
        fit = -phi * (np.log1p(nu * np.expm1(-d)) + nu * d)
        fit += log_weights[:, None] - 0.5 * ((f - self.mean) / self.s) ** 2 - _stirling(phi * mu) - _stirling(phi * nu)
        terms = np.sqrt(phi * mu * nu) * np.exp(fit + _stirling(phi)) / (2 * np.pi)
        density = width / self.s * terms.sum(0)
        if not bend:
            return density
        return density, width / self.s * (terms * phi * (mu - expit(u))).sum(0)
