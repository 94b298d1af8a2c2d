"""Rows with sites: their marginals given the knots, how far their sites are from where they should be, and steps.

A site is a Gaussian factor exp(b s - W s^2 / 2) in s = f - m of one row. What follows from sites is the engine's (S4 to
S6); where they should be is the matter of an inference. Nothing here knows whether rows are seen through knots.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from knotwise.evidence.blocks import Sums
from knotwise.evidence.model import Model, Rows
from knotwise.evidence.residual.base import damping
from knotwise.likelihoods.values import Expectations

SMALLEST_VARIANCE = 1e-300  # one can divide by it
HISTORY = 4  # steps that Anderson acceleration combines
MAX_SITE_PASSES = 200  # looks of rows by themselves
SITES_CONVERGED = 1e-18  # squared residual of each of them at which they end
LARGEST_FALL = 0.25  # of a precision in one step, where it cannot be negative
LARGEST_RISE = 10.0  # of a precision in one step, relative to that of the row's posterior


@dataclass(frozen=True)
class Marginals:
    """Rows given their sites and what the knots say of them, [n] each.

    z = v'gamma and q = v'B^-1 v are the mean and the variance of what the knots say; lam is the variance of a row's own
    part of f, rho that of the part that is left at its prior (V1); f ~ N(mu, tau) in the posterior (V2).
    """

    W: np.ndarray
    b: np.ndarray
    z: np.ndarray
    q: np.ndarray
    c: np.ndarray | float
    lam: np.ndarray | float
    rho: np.ndarray | float
    h: np.ndarray
    w: np.ndarray
    a: np.ndarray
    s: np.ndarray
    tau: np.ndarray

    @staticmethod
    def of(
        model: Model, W: np.ndarray, b: np.ndarray, z: np.ndarray, q: np.ndarray, c: np.ndarray | float
    ) -> Marginals:
        """Marginals of rows with sites (W, b); s = mu - m."""
        lam, rho = model.power * c + model.nugget.variance, (1.0 - model.power) * c
        h = damping(W, lam)
        w = W * h
        a = h * b - w * z
        return Marginals(W, b, z, q, c, lam, rho, h, w, a, z + lam * a, lam * h + h * h * (q + rho))


@dataclass(frozen=True)
class SiteLook:
    """Where the sites of some rows should be, (W, b), and what each row adds to the objective, [n] each.

    The objective is the sum of `value` over the rows minus (|gamma|^2 + log |B|) / 2. `mean` and `variance` are those
    of the Gaussian under which the likelihood was looked at, `error` is that of its quadrature.
    """

    W: np.ndarray
    b: np.ndarray
    value: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    error: float = 0.0


class SiteTarget(Protocol):
    """Where sites should be: what tells one inference from another. Frozen, and can be pickled."""

    #: whether the objective is a bound, which a step must not lower
    is_bound: bool

    def look(self, model: Model, rows: Rows, at: Marginals) -> SiteLook:
        """Look at the rows' likelihood under their marginals."""

    def likelihood_bar(self, model: Model, rows: Rows, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """Gradient in the likelihood's own parameters at the end of a search, [Q]."""

    def has_positive_precisions(self, model: Model) -> bool:
        """Whether no site can have a negative precision where it should be."""

    def first(self, model: Model, rows: Rows) -> np.ndarray | None:
        """Sites (W, b) from which a search without a warm start begins, [2, n]; None for those at the mode."""


@dataclass
class SitePassSums(Sums):
    """Sums over rows at their current sites.

    `value` is the rows' share of the objective, `distance` the squared length of the residual, `normal` [m, m] and
    `slope` [m] the normal equations of Anderson acceleration; `error` is the worst of the quadrature, and `n_lost`
    counts blocks whose sites were lost.
    """

    value: float
    distance: float
    normal: np.ndarray
    slope: np.ndarray
    error: float
    n_lost: int = 0

    def __iadd__(self, other: SitePassSums) -> SitePassSums:
        error = max(self.error, other.error)
        super().__iadd__(other)
        self.error = error
        return self


@dataclass
class RowSites:
    """The sites of some rows during a search, and the last steps of it: x = (W, b), [2, n].

    A search alternates between a look at the residual r, the way from x to where the sites should be, and a step. The
    last steps that were accepted are combined (Anderson acceleration) so that the residual is least in the Fisher
    metric (V6a).
    """

    x: np.ndarray
    r: np.ndarray | None = None
    accepted: np.ndarray | None = None
    accepted_r: np.ndarray | None = None
    accepted_tau: np.ndarray | None = None
    steps: list[np.ndarray] = field(default_factory=list)  # differences of x
    turns: list[np.ndarray] = field(default_factory=list)  # differences of r
    marginals: Marginals | None = None
    seen: SiteLook | None = None

    def look(
        self, target: SiteTarget, model: Model, rows: Rows, z: np.ndarray, q: np.ndarray, c: np.ndarray | float
    ) -> SitePassSums:
        """Find the residual at the current sites, and how the last steps would change it."""
        W, b = self.x
        self.marginals = at = Marginals.of(model, W, b, z, q, c)
        self.seen = seen = target.look(model, rows, at)
        self.r = np.stack([seen.W - W, seen.b - b])
        turns = self.turns[-HISTORY + 1 :]
        if self.accepted_r is not None:
            turns = [*turns, self.r - self.accepted_r]
        products = _products(rows, at, np.stack([*turns, self.r]))
        m = len(turns)
        normal, slope = np.zeros((HISTORY, HISTORY)), np.zeros(HISTORY)
        normal[:m, :m], slope[:m] = products[:m, :m], products[m, :m]
        # where 1 + W lam < 0 a row has no posterior, though the knots may have one: w is positive again
        distance = float(products[m, m]) if (at.h > 0).all() else np.nan
        return SitePassSums(rows.total(seen.value), distance, normal, slope, seen.error)

    def step(self, shares: np.ndarray | None, size: float, *, positive: bool) -> None:
        """Accept the current sites and go on from them by Anderson acceleration; or, without `shares`, go back to the
        sites that were accepted last, forget the steps, and go a part of the way.
        """
        if shares is not None and self.r is not None:
            if self.accepted is not None and self.accepted_r is not None:
                self.steps = [*self.steps[-HISTORY + 1 :], self.x - self.accepted]
                self.turns = [*self.turns[-HISTORY + 1 :], self.r - self.accepted_r]
            assert self.marginals is not None
            self.accepted, self.accepted_r, self.accepted_tau = self.x, self.r, self.marginals.tau
        elif shares is None:
            self.steps, self.turns = [], []
        if self.accepted is None or self.accepted_r is None:
            return  # lost, and found anew: the sites are where they start
        x = self.accepted + size * self.accepted_r
        if shares is not None:
            for share, step, turn in zip(shares, self.steps, self.turns, strict=False):
                if share:
                    x -= share * (step + size * turn)
        if positive:
            x = self._within_reach(x)
        self.x, self.r = x, None

    def _within_reach(self, x: np.ndarray) -> np.ndarray:
        """New sites that are not too far from those accepted: where the posterior of a row is wide, the curvature that
        is expected under it can be e^50 times what it is once the row has it.
        """
        assert self.accepted is not None and self.accepted_tau is not None
        W = self.accepted[0]
        rise, most = x[0] - W, LARGEST_RISE * (W + 1.0 / np.maximum(self.accepted_tau, SMALLEST_VARIANCE))
        # b goes as far as W: with one of them alone the row's mean would be somewhere else
        if (rise > most).any():
            x = self.accepted + (x - self.accepted) * np.minimum(1.0, most / np.maximum(rise, most))
        fall, most = -rise, (1.0 - LARGEST_FALL) * W
        if (fall > most).any():
            shorter = most / np.maximum(np.maximum(fall, most), SMALLEST_VARIANCE)
            x = self.accepted + (x - self.accepted) * np.where(fall > most, shorter, 1.0)
            np.maximum(x[0], LARGEST_FALL * W, out=x[0])
        return x

    @property
    def last(self) -> np.ndarray:
        """What a later search can start from, [n, 3]: a, W and b."""
        a = np.zeros(self.x.shape[1]) if self.marginals is None else self.marginals.a
        return np.column_stack([a, *self.x])


def _products(rows: Rows, at: Marginals, changes: np.ndarray) -> np.ndarray:
    """Inner products [m, m] of changes of sites [m, 2, n] in the diagonal Fisher metric, free of units (V6a)."""
    W, b = changes[:, 0], changes[:, 1]
    root = np.sqrt(rows.weigh(at.tau))
    scaled = np.concatenate([root * (b - at.s * W), np.sqrt(0.5 * at.tau) * root * W], axis=1)
    return scaled @ scaled.T


def first_sites(model: Model, rows: Rows, s: np.ndarray, *, positive: bool = True) -> np.ndarray:
    """Sites (W, b) of the likelihood at f = m + s, [2, n]: its curvature there, or where asked a positive one (L4)."""
    f = model.mean.offset + s
    d = model.likelihood.derivatives(rows.y, f, rows.sizes)
    W = np.maximum(model.likelihood.fisher(rows.y, f, rows.sizes), 0.0) if positive else -d.second
    return np.stack([W, W * s + d.first])


def converged_sites(
    target: SiteTarget, model: Model, rows: Rows, z: np.ndarray, q: np.ndarray, c: np.ndarray | float
) -> RowSites:
    """Sites of rows where they should be, given what the knots say of them: each row by itself.

    Where a row has no part of its own, one look tells; else each row steps until it stays, and halves its steps where
    they lead away.
    """
    sites = RowSites(first_sites(model, rows, z))
    best, way = sites.x, np.zeros_like(sites.x)
    size, smallest = np.ones(len(z)), np.full(len(z), np.inf)
    for _ in range(MAX_SITE_PASSES):
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            sites.look(target, model, rows, z, q, c)
            at, r = sites.marginals, sites.r
            assert at is not None and r is not None
            distance = at.tau * (r[1] - at.s * r[0]) ** 2 + 0.5 * (at.tau * r[0]) ** 2
        better = (distance <= smallest) & (at.h > 0)
        best, way = np.where(better, sites.x, best), np.where(better, r, way)
        smallest, size = np.where(better, distance, smallest), np.where(better, np.minimum(1.0, 2.0 * size), 0.5 * size)
        if (smallest <= SITES_CONVERGED).all():
            break
        sites.x = best + size * way
    if not better.all():
        sites.x = best
        sites.look(target, model, rows, z, q, c)
    return sites


@dataclass(frozen=True)
class ExpectedCurvature:
    """Sites with the expected curvature of log p under the row's own posterior, W = -E g' and a = E g (V4)."""

    is_bound = True

    def expected(self, model: Model, rows: Rows, mean: np.ndarray, variance: np.ndarray) -> Expectations:
        """What is expected of log p of each row under its marginal."""
        return model.likelihood.expectations(rows.y, mean, variance, rows.sizes)

    def expected_derivatives(self, model: Model, rows: Rows, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """The same of its derivatives in the likelihood's parameters, [Q, n]."""
        return model.likelihood.expected_parameter_derivatives(rows.y, mean, variance, rows.sizes)

    def look(self, model: Model, rows: Rows, at: Marginals) -> SiteLook:
        mu = at.s + model.mean.offset
        seen = self.expected(model, rows, mu, at.tau)
        value = seen.log_density + 0.5 * (  # (V3)
            np.log(at.h) - at.lam * at.a * at.a + at.W * at.h * at.h * at.q + at.lam * at.w * (1.0 - at.w * at.rho)
        )
        W = -seen.second
        return SiteLook(W, W * at.s + seen.first, value, mu, at.tau, seen.error)

    def likelihood_bar(self, model: Model, rows: Rows, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        return np.array([rows.total(bar) for bar in self.expected_derivatives(model, rows, mean, variance)])  # (V7)

    def has_positive_precisions(self, model: Model) -> bool:
        return model.likelihood.log_concave

    def first(self, model: Model, rows: Rows) -> np.ndarray | None:
        return None
