"""Certificates: what the exact GP's log evidence is at least and at most, without an N x N matrix.

Any knots give valid bounds of the same exact GP, whichever knots a model has. Equations (C..) are those of
docs/derivations/certificates.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from knotwise.evidence.blocks import Block, BlockCache, Blocks, Sums
from knotwise.evidence.inference import Variational, inference_of
from knotwise.evidence.inference.base import SiteFit
from knotwise.evidence.inference.newton import far_off
from knotwise.evidence.model import Jitter, Model, Rows
from knotwise.evidence.projection import Evaluation, ProjectedPass, Projection
from knotwise.evidence.sparse import SparseState
from knotwise.kernels.base import Kernel
from knotwise.likelihoods.values import Expectations
from knotwise.numerics.blocks import block_slices
from knotwise.numerics.linalg import cholesky_of_identity_plus, log_det, times_lower_transposed, weighted_gram

#: rows up to which kernel values of all pairs are computed; beyond, those within blocks only
MAX_PRODUCT_ROWS = 30_000


@dataclass(frozen=True)
class EvidenceBounds:
    """Bounds in the engine's units, of the exact GP at the model's parameters.

    `lower` is at most the log evidence. `upper` is at least what the best Gaussian posterior of the exact GP reaches,
    which is the log evidence itself where log p is quadratic in f (as Gaussian data have it); None where no such bound
    is known. If the search for sites did not converge, `why` says so; the bounds hold all the same.
    """

    lower: float
    upper: float | None
    converged: bool = True
    why: str = ""


def variational_model(model: Model) -> Model:
    """The same model under VFE, in closed form or by variational inference: its value is a bound (S8, V3)."""
    inference = None if model.likelihood.conjugate else Variational()
    return replace(model, power=0.0, residual=None, inference=inference)


def evidence_bounds(
    model: Model,
    blocks: Blocks,
    Z: np.ndarray,
    *,
    jitter: Jitter,
    start: np.ndarray | None = None,
    max_product_rows: int = MAX_PRODUCT_ROWS,
) -> EvidenceBounds:
    """Bound the log evidence of the exact GP through the knots Z.

    Costs O(N K^2), and up to `max_product_rows` rows a few times N^2 kernel values; beyond, N times the rows of a
    block. `start` is the gamma of a state through the same knots.
    """
    vfe = variational_model(model)
    with Evaluation.of(vfe, blocks, Z, jitter) as at:
        fit = inference_of(vfe).fit(at, start)
        lower, upper = fit.value, None
        if vfe.likelihood.jointly_concave:
            with far_off():  # of far too few knots a tangent may be no number, and then there is no bound
                saved, upper = _from_tangents(at, fit, pairs=blocks.summary.n_rows <= max_product_rows)
            lower += saved if np.isfinite(saved) else 0.0
        return EvidenceBounds(lower, upper if _is_finite(upper) else None, fit.converged, fit.why)


def _from_tangents(at: Evaluation, fit: SiteFit, *, pairs: bool) -> tuple[float, float]:
    """What the lower bound gains over that of VFE, and the upper bound, from tangents of E log p (C1, C2 and C4)."""
    total = at.blocks.sum(TangentPass(at.projector, fit, not pairs))
    log_B = log_det(cholesky_of_identity_plus(total.gram))
    tangents = total.value + 0.5 * (total.own - total.log_own - log_B) + total.rounding
    rows = np.ascontiguousarray(at.blocks.gather(TangentRowsPass(at.projector, fit, False)).T) if pairs else None
    within_blocks = float(total.projected @ total.projected) + total.within**2  # at least a'K a            (C2a)
    if not at.model.likelihood.quadratic:
        reach = within_blocks if rows is None else quadratic_form(at, rows[0])
        return 0.0, tangents + 0.5 * reach  # (C4)
    if rows is not None:
        least = galerkin_quadratic(at, fit.T, *rows)
    else:
        least = total.fit**2 / max(within_blocks + total.spread, np.finfo(float).tiny)
    return 0.5 * total.saved - total.rounding, tangents + total.fit - 0.5 * (total.spread + least)  # (C1, C2)


def _is_finite(value: float | None) -> bool:
    return value is not None and bool(np.isfinite(value))


def posterior_bound(state: SparseState, blocks: Blocks) -> float:
    """The bound L(q) of the log evidence that a posterior through knots has, whatever it came from (C3).

    The exact GP's log evidence minus it is the divergence of this posterior from the exact one. The nugget is left at
    its prior.
    """
    # with far too few knots an expectation may be no number
    with far_off(), Evaluation.of(state.model, blocks, state.Z, state.jitter, keep=False) as at:
        expected = float(blocks.sum(PosteriorPass(at.projector, state.gamma, state.T)))
    T, gamma = state.T, state.gamma
    log_B = -2.0 * float(np.log(T.diagonal()).sum())
    divergence = 0.5 * (float((T * T).sum()) + float(gamma @ gamma) - len(gamma) + log_B)
    return expected - divergence


@dataclass(frozen=True)
class PosteriorPass(ProjectedPass):
    """The sum of E log p(y | f) under the posterior eta ~ N(gamma, B^-1), T inverting the factor of B."""

    gamma: np.ndarray
    T: np.ndarray

    def __call__(self, block: Block, cache: BlockCache) -> float:
        model, own = self.projector.model, block.own
        seen = self.projector.project(block, cache)
        V, c = seen.V[: block.n], seen.c[: block.n]
        variance = c + _explained_variance(V, self.T) + model.nugget.variance
        return own.total(_expectations(model, own, model.mean.offset + V @ self.gamma, variance).log_density)


@dataclass
class TangentSums(Sums):
    """Sums over rows of the tangents of E log p at the rows' posterior; a is the slope, times the sample weight."""

    value: float  # of the tangents at the prior mean and no variance
    gram: np.ndarray  # V' diag(w) V
    projected: np.ndarray  # V'a
    own: float  # nugget times squared slopes
    log_own: float  # log (1 + nugget W)
    saved: float  # w c - log (1 + w c): twice the distance of the two lower bounds
    fit: float  # r'a
    spread: float  # a'D a
    within: float  # roots of a'(K - Q)a within each block
    rounding: float  # what rounding may do to all of these


@dataclass(frozen=True)
class Tangents:
    """Of the rows of a block: slope g and curvature W of E log p at N(s + m, tau), and w = W / (1 + nugget W)."""

    seen: Projection
    s: np.ndarray
    tau: np.ndarray
    expected: Expectations

    @property
    def W(self) -> np.ndarray:
        return -self.expected.second

    @property
    def r(self) -> np.ndarray:
        """Where log p, a quadratic in f, has its maximum, seen from the mean."""
        return self.s + self.expected.first / self.W


@dataclass(frozen=True)
class TangentPass(ProjectedPass):
    """The sums of one block; `pairs_within` with kernel values between its rows."""

    fit: SiteFit
    pairs_within: bool

    def __call__(self, block: Block, cache: BlockCache) -> TangentSums:
        model, own = self.projector.model, block.own
        at, nugget = self.tangents(block, cache), model.nugget.variance
        V, g, W = at.seen.V, at.expected.first, at.W
        log_own = np.log1p(nugget * W)
        w, a = W / (1.0 + nugget * W), own.weigh(g)
        p = own.weigh(w)
        value = own.total(at.expected.log_density - g * at.s + 0.5 * W * at.tau)
        quadratic = model.likelihood.quadratic
        pc = p * at.seen.c
        prior = model.kernel.diag(own.X)
        sizes = (p + a * a) * prior + own.weigh(np.abs(at.expected.log_density))
        if quadratic:
            sizes += p * at.r**2
        return TangentSums(
            value,
            weighted_gram(V, p),
            a @ V,
            nugget * own.total(g * g),
            own.total(log_own),
            float((pc - np.log1p(pc)).sum()) if quadratic else 0.0,
            float(a @ at.r) if quadratic else 0.0,
            float((a * a / p).sum()) if quadratic else 0.0,
            self._within(own.X, V, a, prior) if self.pairs_within else 0.0,
            ROUNDING * float(sizes.sum()),
        )

    def tangents(self, block: Block, cache: BlockCache) -> Tangents:
        model, own = self.projector.model, block.own
        seen = self.projector.project(block, cache)
        sites = self.fit.rule.sites(block, seen, cache)
        if sites.f is None or sites.variance is None:
            s, tau = seen.V @ self.fit.gamma, seen.c + _explained_variance(seen.V, self.fit.T)
        else:
            s, tau = sites.f - model.mean.offset, sites.variance
        return Tangents(seen, s, tau, _expectations(model, own, model.mean.offset + s, tau))

    def _within(self, X: np.ndarray, V: np.ndarray, a: np.ndarray, prior: np.ndarray) -> float:
        kernel, aV = self.projector.model.kernel, a @ V[:, : len(self.projector.Z)]
        left = max(float(a @ kernel_product(kernel, X, X, a) - aV @ aV), 0.0)
        return float(np.sqrt(left + ROUNDING * (a @ (prior * a))))


class TangentRowsPass(TangentPass):
    """Of each row: slope a, place r and precision p of its observation, with its sample weight, [n, 3]."""

    def __call__(self, block: Block, cache: BlockCache) -> np.ndarray:  # type: ignore[override]
        own, nugget = block.own, self.projector.model.nugget.variance
        at = self.tangents(block, cache)
        r = at.r if self.projector.model.likelihood.quadratic else np.zeros(block.n)
        return np.column_stack([own.weigh(at.expected.first), r, own.weigh(at.W / (1.0 + nugget * at.W))])


def _explained_variance(V: np.ndarray, T: np.ndarray) -> np.ndarray:
    G = times_lower_transposed(V, T)
    return np.einsum("nk,nk->n", G, G)


def _expectations(model: Model, rows: Rows, mean: np.ndarray, variance: np.ndarray) -> Expectations:
    """E log p and its derivatives, with the noise of each row."""
    return model.likelihood_of(rows).expectations(rows.y, mean, variance, rows.sizes)


COLUMNS = 1024  # of kernel values that are in memory at once
MAX_STEPS = 8
MAX_PAIRS = 2e9  # kernel values that all steps together may take, but for the first step
WORTH = 0.01  # of the quadratic form, in nats, below which another step brings too little
#: what rounding may do to a bound, relative to the sum of the squares in it
ROUNDING = 1e-14


def kernel_product(kernel: Kernel, A: np.ndarray, B: np.ndarray, x: np.ndarray) -> np.ndarray:
    """k(A, B) x, some columns at a time."""
    out = np.zeros(len(A))
    for s in block_slices(len(B), COLUMNS):
        out += kernel(A, B[s]) @ x[s]
    return out


def quadratic_form(at: Evaluation, x: np.ndarray) -> float:
    """x'K x for a vector with a number for each row, [N], the covariance of the mean's basis in K."""
    return float(x @ at.blocks.gather(ProductPass.of(at, x)))


def galerkin_quadratic(at: Evaluation, T: np.ndarray, a: np.ndarray, r: np.ndarray, p: np.ndarray) -> float:
    """A lower bound of r'(K + D)^-1 r with D = diag(1 / p), by conjugate gradients from 0 (C2b).

    The preconditioner is (Q + D)^-1, so the first direction is a, and T inverts the factor of B. Each step costs a
    product with K. The bound holds at every vector that the steps lead to, whatever rounding does to them.
    """
    n_steps = int(np.clip(MAX_PAIRS / len(r) ** 2, 1, MAX_STEPS))
    x, left, z, direction, best = np.zeros_like(r), r.copy(), a, a, 0.0
    slope, prior = float(left @ z), at.model.kernel.diag(at.blocks.take(slice(None)).X)
    for step in range(n_steps):
        image = at.blocks.gather(ProductPass.of(at, direction)) + direction / p
        curvature = float(direction @ image)
        if not (curvature > 0 and slope > 0):
            break
        x = x + (slope / curvature) * direction
        left = left - (slope / curvature) * image
        # 2 r'x - x'(K + D)x, in which products with K are exact to some digits of k(x, x) only
        found = float(r @ x + x @ left - ROUNDING * (x @ (prior * x) + np.abs(r) @ np.abs(x)))
        gained, best = found - best, max(found, best)
        if step and gained < 2 * WORTH:
            break
        if step + 1 < n_steps:
            z = _precondition(at, T, p, left)
            slope, before = float(left @ z), slope
            direction = z + (slope / before) * direction
    return best


def _precondition(at: Evaluation, T: np.ndarray, p: np.ndarray, x: np.ndarray) -> np.ndarray:
    """(Q + D)^-1 x = p x - p V'B^-1 V p x (S5)."""
    projected = T.T @ (T @ at.blocks.sum(ProjectPass(at.projector, p * x)))
    return p * (x - at.blocks.gather(SpreadPass(at.projector, projected)))


@dataclass(frozen=True)
class ProductPass(ProjectedPass):
    """K x at the rows of a block, [n], for all rows X and a number x for each; K has the covariance of the basis."""

    X: np.ndarray
    basis: np.ndarray
    x: np.ndarray

    @staticmethod
    def of(at: Evaluation, x: np.ndarray) -> ProductPass:
        rows = at.blocks.take(slice(None))
        return ProductPass(at.projector, rows.X, x @ rows.basis, x)

    def __call__(self, block: Block, cache: BlockCache) -> np.ndarray:
        own = block.own
        return kernel_product(self.projector.model.kernel, own.X, self.X, self.x) + own.basis @ self.basis


@dataclass(frozen=True)
class ProjectPass(ProjectedPass):
    """The sum of V x over the rows, [K + p]."""

    x: np.ndarray

    def __call__(self, block: Block, cache: BlockCache) -> np.ndarray:
        return self.x[block.start : block.start + block.n] @ self.projector.project(block, cache).V


@dataclass(frozen=True)
class SpreadPass(ProjectedPass):
    """V'g at the rows of a block, [n]."""

    g: np.ndarray

    def __call__(self, block: Block, cache: BlockCache) -> np.ndarray:
        return self.projector.project(block, cache).V @ self.g
