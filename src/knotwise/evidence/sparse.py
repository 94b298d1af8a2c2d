"""The sparse engine: log evidence and gradient through knots, for every power alpha (FIC 1, VFE 0).

Two passes over row blocks. The first sums what B and the value need, the second what the gradient needs.
V is kept between them while it fits the memory budget and is computed again otherwise; everything else
is the same code. Equations (S..) are those of docs/derivations/sparse-gaussian.md; arrays of a block are
row-major, so `V` below is the [n, K] transpose of the derivation's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from knotwise.evidence.gaussian import gaussian_sites
from knotwise.evidence.model import Evidence, Jitter, Model, Rows
from knotwise.kernels.base import Pullback
from knotwise.numerics.blocks import Executor, Serial, block_slices, rows_per_block, sum_in_order
from knotwise.numerics.linalg import (
    cholesky,
    invert_lower,
    log_det,
    times_lower,
    times_lower_transposed,
    weighted_gram,
)

__all__ = ["KEEP_BYTES", "SparseState", "sparse_evidence"]

#: V and what its pullback needs are kept in memory up to this size, and recomputed block by block above it
KEEP_BYTES = 256 * 2**20

LOG_2PI = float(np.log(2 * np.pi))


@dataclass(frozen=True)
class SparseState:
    """All that prediction needs; no row of the data is in it.

    L_inverse inverts the factor of Kuu + jitter, T the factor of B, gamma = V a = B^-1 V (w r).
    """

    model: Model
    Z: np.ndarray
    jitter: Jitter
    L_inverse: np.ndarray
    T: np.ndarray
    gamma: np.ndarray


@dataclass(frozen=True)
class Projection:
    """One block seen through the knots: V [n, K + p], residual variance c [n], the kernel's pullback."""

    V: np.ndarray
    c: np.ndarray
    pullback: Pullback


@dataclass
class EvidenceSums:
    """First-pass sums over rows: they add."""

    gram: np.ndarray  # V' diag(w) V
    projected: np.ndarray  # V' (w r)
    quadratic: float  # sum w r^2
    log_precision: float  # sum log W - sum trace

    def __iadd__(self, other: EvidenceSums) -> EvidenceSums:
        self.gram += other.gram
        self.projected += other.projected
        self.quadratic += other.quadratic
        self.log_precision += other.log_precision
        return self


@dataclass
class GradientSums:
    """Second-pass sums over rows: they add."""

    kernel: np.ndarray
    Z: np.ndarray
    noise: float
    mean: float
    gram: np.ndarray | float  # V' diag(e) V

    def __iadd__(self, other: GradientSums) -> GradientSums:
        self.kernel += other.kernel
        self.Z += other.Z
        self.noise += other.noise
        self.mean += other.mean
        self.gram += other.gram
        return self


def sparse_evidence(
    model: Model,
    rows: Rows,
    Z: np.ndarray,
    *,
    jitter: Jitter,
    gradient: bool = True,
    executor: Executor | None = None,
    block_size: int | None = None,
    keep_bytes: int = KEEP_BYTES,
) -> Evidence:
    """Compute the log evidence of the rows through the knots Z and, if asked, its gradient.

    Costs about 8 N K^2 flops with V kept and 10 N K^2 streaming; memory O(block K + K^2 + N), and up to
    `keep_bytes` more. The gradient for all knots costs no more than for one. Raises
    `NotPositiveDefiniteError` where Kuu + jitter has no Cholesky factor.
    """
    executor = executor or Serial()
    K, p = len(Z), rows.basis.shape[1]
    slices = block_slices(len(rows), block_size or rows_per_block(K + p))
    blocks = [rows] if len(slices) == 1 else [rows[s] for s in slices]
    arrays_kept = 1 + 2 * model.kernel.n_leaves
    keep = gradient and 8 * len(rows) * (K + p) * arrays_kept <= keep_bytes
    kept: dict[int, Projection] = {}

    Kuu, pull_uu = model.kernel.value_and_pullback(Z, Z)
    Kuu.flat[:: K + 1] += jitter.relative * jitter.scale(model.kernel)
    L_inverse = invert_lower(cholesky(Kuu))  # (S1)

    def projection(i: int) -> Projection:
        if i in kept:
            return kept.pop(i)
        done = project(model, blocks[i], Z, L_inverse)
        if keep:
            kept[i] = done
        return done

    first = sum_in_order(executor.map(lambda i: sum_for_evidence(model, blocks[i], projection(i)), range(len(blocks))))
    B = first.gram.copy()
    B.flat[:: K + p + 1] += 1.0
    LB = cholesky(B)  # (S5)
    T = invert_lower(LB)
    gamma = T.T @ (T @ first.projected)  # (S6)
    quadratic = first.quadratic - first.projected @ gamma
    value = 0.5 * float(first.log_precision - len(rows) * LOG_2PI - log_det(LB) - quadratic)  # (S7)
    state = SparseState(model, Z, jitter, L_inverse, T, gamma)
    if not gradient:
        return Evidence(value, None, None, state)

    keep = False  # the second pass uses up what the first has kept
    second = sum_in_order(executor.map(lambda i: sum_for_gradient(state, blocks[i], projection(i)), range(len(blocks))))
    VV_bar = np.multiply.outer(gamma[:K], gamma[:K])  # V_bar V', of which only the knots' part is needed  (S12)
    VV_bar += first.gram[:K, :K]
    VV_bar += T[:, :K].T @ T[:, :K]
    VV_bar.flat[:: K + 1] -= 1.0
    VV_bar -= 2.0 * second.gram
    Kuu_bar = -0.5 * (L_inverse.T @ VV_bar @ L_inverse)  # (S13)
    knots = pull_uu(Kuu_bar, with_X=True)
    kernel_bar = second.kernel + knots.theta
    kernel_bar += jitter.scale_pullback(model.kernel, jitter.relative * float(Kuu_bar.trace()))
    return Evidence(
        value,
        assemble_gradient(model, rows, kernel_bar, second.noise, second.mean),
        second.Z + knots.Z + knots.X,
        state,
    )


def assemble_gradient(
    model: Model, rows: Rows, kernel_bar: np.ndarray, noise_bar: float, mean_bar: float
) -> np.ndarray:
    """Put the gradients of the parts in the order of theta; noise goes to the log scale."""
    known = rows.noise_variance is not None
    likelihood_bar = [0.0 if known else noise_bar * model.likelihood.value("noise_variance")]
    return np.concatenate([kernel_bar, likelihood_bar, [mean_bar] * model.mean.size])


def project(model: Model, block: Rows, Z: np.ndarray, L_inverse: np.ndarray) -> Projection:
    """See one block of rows through the knots. Costs O(n K^2)."""
    Kfu, pullback = model.kernel.value_and_pullback(block.X, Z)
    V = times_lower_transposed(Kfu, L_inverse)  # [n, K]  (S2)
    c = model.kernel.diag(block.X)
    c -= np.einsum("nk,nk->n", V, V)  # [n]  (S3)
    np.maximum(c, 0.0, out=c)  # rounding can push c below 0 when a knot sits on a datum
    if block.basis.shape[1]:
        V = np.hstack([V, block.basis])  # (S16): c stays the kernel's
    return Projection(V, c, pullback)


def sum_for_evidence(model: Model, block: Rows, seen: Projection) -> EvidenceSums:
    """Sum over one block of rows everything the value needs. O(n K^2) time; the result is O(K^2)."""
    sites = gaussian_sites(model, block, seen.c)
    wr = sites.w * sites.r
    log_W = len(block) * np.log(sites.W) if np.ndim(sites.W) == 0 else np.log(sites.W).sum()
    return EvidenceSums(
        weighted_gram(seen.V, sites.w),
        wr @ seen.V,
        wr @ sites.r,
        log_W - sites.trace.sum(),
    )


def sum_for_gradient(state: SparseState, block: Rows, seen: Projection) -> GradientSums:
    """Sum over one block of rows everything the gradient needs. O(n K^2) time; the result is O(K^2)."""
    model, T, gamma, K = state.model, state.T, state.gamma, len(state.Z)
    V, power = seen.V, state.model.power
    sites = gaussian_sites(model, block, seen.c)
    w = sites.w
    a = w * (sites.r - V @ gamma)  # (S6)

    # [-w G | a] times [T; gamma'] is a gamma' - w V B^-1: the rank-one term rides along
    left = np.empty((len(V), V.shape[1] + 1))
    G = times_lower_transposed(V, T, out=left[:, :-1])  # LB^-1 V
    quad = np.einsum("nk,nk->n", G, G)  # (S9)
    G *= -w[:, None]
    left[:, -1] = a
    right = np.vstack([T, gamma])[:, :K]
    e = (0.5 * power) * (a * a + w * w * quad)  # (S10): not negative, so a symmetric product serves
    c_bar = e - 0.5 * w
    Vk = V[:, :K]
    V_bar = times_lower(left, right)  # [n, K]  (S11)
    V_bar -= (2.0 * c_bar)[:, None] * Vk
    Kfu_bar = times_lower(V_bar, state.L_inverse)  # (S13)
    kernel = seen.pullback(Kfu_bar)
    s = 0.5 * (a * a - w + w * w * quad)
    noise = s + (0.5 * (1.0 - power)) * seen.c * w * sites.W
    return GradientSums(
        kernel.theta + model.kernel.diag_pullback(block.X, c_bar),
        kernel.Z,
        float(noise.sum()),
        float(a.sum()),
        weighted_gram(Vk, e) if power > 0 else 0.0,
    )
