"""Nodes for the density of logit Y given f, and for its average over f; `logit_beta` chooses between them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import expit, log_expit

SERIES = 0.6  # largest ratio of terms in the series of a tail
LARGEST_SHARE = 0.03  # and the largest y, or 1 - y, for which it is used
SERIES_TERMS = 14


@dataclass(frozen=True)
class Rule:
    """How many nodes an integral has: for each panel of f and for u; for f around a mode and for u there.

    What is `negligible`, as a share of P, is left out. Lengths of f are in standard deviations of the narrower of N(f)
    and h: of a `panel`, and the `longest` reach for which panels are used and not modes. From `nearly_normal` on,
    phi sigma(f) sigma(-f) makes h normal enough in f for nodes around a mode.
    """

    n_panel: int
    n_u: int
    n_mode: int
    n_u_mode: int
    negligible: float
    panel_length: float
    longest: float
    nearly_normal: float

    @property
    def nats(self) -> float:
        return -float(np.log(self.negligible))

    @cached_property
    def panel(self) -> tuple[np.ndarray, np.ndarray]:
        return np.polynomial.legendre.leggauss(self.n_panel)

    @cached_property
    def u(self) -> tuple[np.ndarray, np.ndarray]:
        return _crowded(self.n_u)

    @cached_property
    def u_mode(self) -> tuple[np.ndarray, np.ndarray]:
        return _crowded(self.n_u_mode)

    @cached_property
    def mode(self) -> tuple[np.ndarray, np.ndarray]:
        """Gauss-Hermite nodes, and logarithms of the weights of an integrand that is nearly exp(-t^2 / 2)."""
        t, weights = np.polynomial.hermite_e.hermegauss(self.n_mode)
        return t, np.log(weights) + 0.5 * t**2


def _crowded(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes in (0, 1) that crowd at 0, where a tail is steepest, and their weights."""
    q, weights = np.polynomial.legendre.leggauss(n)
    q = 0.5 * (1 + q)
    return q**2, q * weights


@dataclass(frozen=True)
class SharedNodes:
    """Nodes of f that serve for all u, [nodes, n]: a and b there, and logarithms of N(f) and of what h has beside u."""

    precision: float
    a: np.ndarray
    b: np.ndarray
    log_normal: np.ndarray  # with the weight of the node
    constant: np.ndarray

    def __getitem__(self, rows: np.ndarray) -> SharedNodes:
        parts = (part[:, rows] for part in (self.a, self.b, self.log_normal, self.constant))
        return SharedNodes(self.precision, *parts)

    def log_density(self, u: np.ndarray) -> np.ndarray:
        terms = self.a * log_expit(u)
        terms += self.b * log_expit(-u)
        terms += self.constant
        return terms

    def below(self, x: np.ndarray, rule: Rule) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """P(logit Y <= x), its slope and bend, [n] each.

        A series of the share y, or of 1 - y, where that is small; else an integral over u from where the density is
        negligible, or from where the series serves.
        """
        at_x = self.log_density(x)
        density = np.exp(at_x)
        slope = density.sum(0)
        curvature = np.einsum("jn,jn->n", density, self.a) - self.precision * expit(x) * slope
        edge = float(np.log(min(LARGEST_SHARE, SERIES / self.precision)))
        P = np.zeros(len(x))
        start = np.minimum(x, edge)
        rows = np.flatnonzero((x > edge) & (x <= -edge))
        if len(rows):
            some = self if len(rows) == len(x) else self[rows]
            start[rows] = some._where_negligible(start[rows], x[rows], at_x[:, rows], rule.nats)
            P[rows] = some._between(start[rows], x[rows], at_x[:, rows], rule)
        rows = np.flatnonzero((start <= edge) & (x <= -edge))
        if len(rows):
            some = self[rows]
            P[rows] += some._series(start[rows], some.a, expit(start[rows]))
        rows = np.flatnonzero(x > -edge)
        if len(rows):
            some = self[rows]
            P[rows] = np.exp(some.log_normal).sum(0) - some._series(x[rows], some.b, expit(-x[rows]))
        return P, slope, curvature

    def _where_negligible(self, start: np.ndarray, x: np.ndarray, at_x: np.ndarray, nats: float) -> np.ndarray:
        """A u between start and x below which the density is negligible, not much too low; start if there is none."""
        a, at_x, log_z = self.a[::5], at_x[::5], log_expit(-x)
        least = at_x.max(0) - nats
        shorter, longer = np.full(len(x), -20.0), np.zeros(len(x))  # as powers of two of the longest
        for _ in range(6):
            power = 0.5 * (shorter + longer)
            u = x - (x - start) * np.exp2(power)
            enough = (a * (u - x) + at_x).max(0) + self.precision * (log_expit(-u) - log_z) < least
            shorter, longer = np.where(enough, shorter, power), np.where(enough, power, longer)
        return np.where(longer < 0, x - (x - start) * np.exp2(longer), start)

    def _between(self, start: np.ndarray, x: np.ndarray, at_x: np.ndarray, rule: Rule) -> np.ndarray:
        """P(start < logit Y <= x)."""
        log_z = log_expit(-x)
        P, terms = np.zeros(len(x)), np.empty_like(at_x)
        for share, weight in zip(*rule.u, strict=True):
            u = x - share * (x - start)
            # a log y + b log z = a logit y + phi log z
            np.multiply(self.a, u - x, out=terms)
            terms += at_x
            terms += self.precision * (log_expit(-u) - log_z)
            P += weight * np.exp(terms, out=terms).sum(0)
        return P * (x - start)

    def _series(self, x: np.ndarray, a: np.ndarray, y: np.ndarray) -> np.ndarray:
        """P(logit Y <= x) with the shape a of a small share y: h / a (1 + y phi / (a + 1) (1 + ...)), averaged."""
        total, term = np.ones_like(a), np.ones_like(a)
        for k in range(SERIES_TERMS):
            term *= (self.precision + k) * y / (a + (1 + k))
            total += term
        return np.einsum("jn,jn->n", np.exp(self.log_density(x)), total / a)


@dataclass(frozen=True)
class MovingNodes:
    """Nodes of f around the mode of h(u | f) N(f) for each u: h is narrow, and nearly normal in f."""

    precision: float
    mean: np.ndarray
    s: np.ndarray
    rule: Rule

    def length(self, x: np.ndarray) -> np.ndarray:
        """How far below x the density is negligible: as of a normal one, whose sd grows a little."""
        sd = np.sqrt(self.s**2 + 1 / (self.precision * expit(x) * expit(-x)))
        z = np.maximum(self.mean - x, 0.0) / sd
        return 1.15 * sd * (np.sqrt(z**2 + 2 * self.rule.nats) - z)

    def between(self, start: np.ndarray, x: np.ndarray) -> np.ndarray:
        """P(start < logit Y <= x)."""
        P = np.zeros(len(x))
        for share, weight in zip(*self.rule.u_mode, strict=True):
            P += weight * self._terms(x - share * (x - start))[0].sum(0)
        return P * (x - start)

    def density_and_slope(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        terms, mu = self._terms(u)
        return terms.sum(0), self.precision * np.einsum("jn,jn->n", terms, mu - expit(u))

    def _terms(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Terms of the density at u, and sigma(f), [nodes, n]."""
        phi = self.precision
        centre, width = self._mode(u)
        t, log_weights = self.rule.mode
        f = centre + width * t[:, None]
        mu, nu, d = expit(f), expit(-f), u - f
        fit = np.log1p(nu * np.expm1(-d))  # log(sigma(f) / sigma(u)), without the difference
        fit += nu * d
        fit *= -phi
        fit += log_weights[:, None] + _stirling(phi)
        fit -= 0.5 * ((f - self.mean) / self.s) ** 2 + _stirling(phi * mu) + _stirling(phi * nu)
        return np.sqrt(phi * mu * nu) * np.exp(fit, out=fit) * (width / (2 * np.pi * self.s)), mu

    def _mode(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The mode of h(u | f) N(f) in f, by Newton's steps, and the sd of the normal density that fits there."""
        phi, w = self.precision, 1 / self.s**2
        f = u + w * (self.mean - u) / (w + phi * expit(u) * expit(-u))
        for _ in range(2):
            mu, nu = expit(f), expit(-f)
            v = phi * mu * nu
            slope = (self.mean - f) * w + v * (u - f) + 0.5 * (nu - mu)
            curvature = np.maximum(w + v * (1 - (nu - mu) * (u - f)) + mu * nu, 0.2 * (w + v))
            f = f + np.clip(slope / curvature, -1.0, 1.0)
        return f, 1 / np.sqrt(curvature)


def _stirling(x: np.ndarray | float) -> np.ndarray | float:
    """log Gamma(x + 1) - (x log x - x) - log(2 pi x) / 2, for x that are not small."""
    u = 1 / x
    return u * (1 / 12 - u**2 * (1 / 360 - u**2 / 1260))
