"""Scores that say how much the knots leave unexplained, where, and what one more knot would bring."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from knotwise.evidence.adjoint import Mode
from knotwise.evidence.gaussian import GaussianMode, gaussian_mode, is_conjugate
from knotwise.evidence.laplace import LaplaceMode, laplace_mode
from knotwise.evidence.model import Jitter, Model, Rows
from knotwise.evidence.projection import KEEP_BYTES, Projection, Projector
from knotwise.evidence.sites import unpaid
from knotwise.evidence.subsets import KnotSums
from knotwise.numerics.blocks import Executor, Serial
from knotwise.numerics.linalg import times_lower_transposed
from knotwise.numerics.weighted import weighted_quantile

__all__ = ["RowScores", "knot_sums", "largest_widening", "rank_one_gains", "row_scores"]

CANDIDATES_AT_ONCE = 512


@dataclass(frozen=True)
class RowScores:
    """Per row: residual prior variance c, latent posterior variance v, and site precision W; and the evidence.

    `start` is the mode from which a neighbouring evaluation may start, `weights` how often each row counts.
    """

    c: np.ndarray
    v: np.ndarray
    W: np.ndarray
    value: float
    nugget: float
    start: np.ndarray | None
    weights: np.ndarray | None = None

    @property
    def share(self) -> float:
        """Unexplained share: mean of c / v.

        At the right parameters the latent AUKL is about 0.58 share^2 for knots on rows, and less for moved ones.
        """
        return float(np.average(self._shares, weights=self.weights))

    @property
    def largest_share(self) -> float:
        """The unexplained share that one row in a hundred exceeds."""
        return weighted_quantile(self._shares, 0.99, self.weights)

    @property
    def residual_information(self) -> float:
        """Nats per row that the data could still say about what the knots leave open."""
        precision = np.maximum(self.W / (1.0 + self.W * self.nugget), 0.0)
        return float(0.5 * np.average(precision * self.c, weights=self.weights))

    @property
    def _shares(self) -> np.ndarray:
        return self.c / np.maximum(self.v, np.finfo(float).tiny)


def largest_widening(share: float) -> float:
    """By how much the latent standard deviation of a row with this share c / v is too wide at most: 0.35 at 0.45.

    Under VFE, v - c is the posterior variance for the prior covariance Q alone. Q is at most K, and a posterior
    variance grows with the prior, so the exact one is at least v - c: the factor is at most (1 - c / v)^(-1/2).
    """
    return float(1.0 / np.sqrt(1.0 - share) - 1.0)


def row_scores(
    model: Model,
    rows: Rows,
    Z: np.ndarray,
    *,
    jitter: Jitter,
    executor: Executor | None = None,
    block_size: int | None = None,
    start: np.ndarray | None = None,
) -> RowScores:
    """Score every row at the posterior through the knots Z. Costs O(N K^2)."""
    projector = _projector(model, rows, Z, jitter, executor, block_size)
    mode = _mode(projector, start)
    c, v, W = np.empty(len(rows)), np.empty(len(rows)), np.empty(len(rows))

    def fill(i: int, block: Rows, seen: Projection) -> int:
        at = projector.slices[i]
        G = times_lower_transposed(seen.V, mode.T)
        c[at], W[at] = seen.c, mode.sites(i, block, seen).W
        v[at] = seen.c + np.einsum("nk,nk->n", G, G)
        return 0

    projector.sum(fill)
    return RowScores(c, v, W, mode.value, model.nugget.variance, mode.start, rows.weights)


@dataclass
class DirectionSums:
    """Sums over rows for functions nu of the input, one per column: they add."""

    projected: np.ndarray  # V' diag(w) nu, [K + p, M]
    weighted: np.ndarray  # sum w nu^2
    fit: np.ndarray  # sum a nu
    cost: np.ndarray  # sum c_bar nu^2

    def __iadd__(self, other: DirectionSums) -> DirectionSums:
        self.projected += other.projected
        self.weighted += other.weighted
        self.fit += other.fit
        self.cost += other.cost
        return self


@dataclass(frozen=True)
class Directions:
    """For each nu: p = nu' R nu, e = nu' a, and the sum of c_bar nu^2. R is the precision of the data."""

    p: np.ndarray
    e: np.ndarray
    cost: np.ndarray


def _along(projector: Projector, mode: Mode, direction: Callable[[Rows, Projection], np.ndarray]) -> Directions:
    """Look along the functions nu = direction(block, projection), [n, M]. Costs O(N K M)."""
    model = projector.model

    def sums(i: int, block: Rows, seen: Projection) -> DirectionSums:
        sites = mode.sites(i, block, seen)
        w, a = sites.w, sites.a
        nu = direction(block, seen)
        c_bar = unpaid(model, sites) - 0.5 * w
        if model.power > 0:
            G = times_lower_transposed(seen.V, mode.T)
            c_bar = c_bar + 0.5 * model.power * (a * a + w * w * np.einsum("nk,nk->n", G, G))
        w_nu = block.weigh(w)[:, None] * nu
        return DirectionSums(
            seen.V.T @ w_nu,
            np.einsum("nm,nm->m", w_nu, nu),
            block.weigh(a) @ nu,
            block.weigh(c_bar) @ (nu * nu),
        )

    total = projector.sum(sums)
    G = mode.T @ total.projected
    return Directions(np.maximum(total.weighted - np.einsum("km,km->m", G, G), 0.0), total.fit, total.cost)


def rank_one_gains(
    model: Model,
    rows: Rows,
    Z: np.ndarray,
    candidates: np.ndarray,
    *,
    jitter: Jitter,
    executor: Executor | None = None,
    block_size: int | None = None,
    start: np.ndarray | None = None,
) -> np.ndarray:
    """Gain in log evidence of adding each candidate [M, D] as a knot, at fixed parameters, [M].

    Exact for Gaussian data at alpha = 0; elsewhere a screen that orders candidates well. O(N K M) for all of them,
    against O(N K^2 M) for M evaluations. A candidate that the knots determine already gains nothing.
    """
    projector = _projector(model, rows, Z, jitter, executor, block_size)
    mode = _mode(projector, start)

    def gains(candidates: np.ndarray) -> np.ndarray:
        prior = model.kernel.diag(candidates) + jitter.relative * jitter.scale(model.kernel)
        v_z = times_lower_transposed(model.kernel(candidates, Z), projector.L_inverse)  # [M, K]
        left = prior - np.einsum("mk,mk->m", v_z, v_z)
        new = left > 1e-8 * prior
        scale = 1.0 / np.sqrt(np.where(new, left, np.inf))

        def direction(block: Rows, seen: Projection) -> np.ndarray:
            nu = model.kernel(block.X, candidates)
            nu -= seen.V[:, : len(Z)] @ v_z.T
            nu *= scale
            return nu

        along = _along(projector, mode, direction)
        gain = 0.5 * along.e**2 / (1 + along.p) - 0.5 * np.log1p(along.p) - along.cost
        return np.where(new, gain, 0.0)

    # some candidates at a time: a block's [n, M] arrays stay small
    parts = [candidates[i : i + CANDIDATES_AT_ONCE] for i in range(0, len(candidates), CANDIDATES_AT_ONCE)]
    return np.concatenate([gains(part) for part in parts]) if parts else np.empty(0)


def knot_sums(
    model: Model,
    rows: Rows,
    Z: np.ndarray,
    *,
    jitter: Jitter,
    executor: Executor | None = None,
    block_size: int | None = None,
    start: np.ndarray | None = None,
) -> KnotSums:
    """Sums over the rows from which VFE can be had through any subset of the knots Z. Costs O(N K^2)."""
    projector = _projector(model.with_power(0.0), rows, Z, jitter, executor, block_size)
    mode = _mode(projector, start)
    Kuu = model.kernel(Z, Z)
    Kuu.flat[:: len(Z) + 1] += jitter.relative * jitter.scale(model.kernel)
    return KnotSums(Kuu, mode.gram, mode.gamma + mode.gram @ mode.gamma)


def _mode(projector: Projector, start: np.ndarray | None) -> GaussianMode | LaplaceMode:
    return gaussian_mode(projector) if is_conjugate(projector.model) else laplace_mode(projector, start)


def _projector(
    model: Model, rows: Rows, Z: np.ndarray, jitter: Jitter, executor: Executor | None, block_size: int | None
) -> Projector:
    return Projector(
        model,
        rows,
        Z,
        jitter=jitter,
        executor=executor or Serial(),
        block_size=block_size,
        keep_bytes=KEEP_BYTES,
    )
