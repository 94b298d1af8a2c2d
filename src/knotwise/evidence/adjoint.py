"""The gradient of the log evidence: one adjoint for every inference, residual, kernel and mean.

The order is that of the derivations, from the sums back to the parameters: adjoints of what a block gives to the sums
(S9 to S12; L10 to L14 where sites move with the parameters; N3 with neighbours), the residual's pullback to v, c, r and
noise (S10, S14; N4, N5), and that of the kernel (S13, S15). A bar is an adjoint: V_bar = d log evidence / dV.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from knotwise.evidence.blocks import Block, BlockCache, Sums
from knotwise.evidence.inference.base import SiteFit
from knotwise.evidence.projection import Evaluation, ProjectedPass, Projection, Projector, next_serial
from knotwise.evidence.residual import RowAdjoints, Sites, residual_of
from knotwise.evidence.residual.base import independent_of
from knotwise.numerics.linalg import scratch, times_lower, times_lower_transposed


def sparse_gradient(at: Evaluation, fit: SiteFit) -> tuple[np.ndarray, np.ndarray]:
    """Pull the log evidence back to all parameters, [P], and all knots, [K, D].

    One pass over the rows, and one more where the sites move with the parameters.
    """
    model, projector, K = at.model, at.projector, len(at.projector.Z)
    gamma, T, L_inverse = fit.gamma, fit.T, projector.L_inverse
    B_inverse, serial = T.T @ T, next_serial()
    # where sites are functions of the mode, t solves (I + W P) t = f_bar, the system of a Newton step; all that the
    # other rows need of it is V t = B^-1 V (h f_bar). For Gaussian data log p has no third derivative and t = 0  (L11)
    delta = np.zeros_like(gamma)
    if fit.rule.moves:
        delta = T.T @ (T @ at.blocks.sum(MovedSitesPass(projector, fit, serial)))
    total = at.blocks.sum(GradientPass(projector, fit, delta, B_inverse, serial))
    # V_bar V' = gamma gamma' + (B - I) - (I - B^-1) - 2 V diag(e) V', from V a = gamma and V diag(w) V' = B - I: no
    # second pass is needed but for the last term, which is in the residual's gram. Only the knots' block enters: the
    # basis of the mean has no Kuu, and of B^-1 it is the block of the inverse, not the inverse of the block  (S12, S16,
    # L14)
    VV_bar = np.multiply.outer(gamma[:K], gamma[:K] + delta[:K])
    if fit.rule.moves:
        VV_bar += np.multiply.outer(delta[:K], gamma[:K])
    VV_bar += residual_of(model).knots_bar(fit.gram[:K, :K], total.gram)
    VV_bar += B_inverse[:K, :K]
    VV_bar.flat[:: K + 1] -= 1.0
    # nothing depends on which factor of Kuu is taken, so that dL = dKuu L^-T / 2 may be varied and no derivative of a
    # Cholesky factor is needed. Trap: this adjoint counts both triangles, so a pair of entries moves the value twice
    # (S13)
    Kuu_bar = -0.5 * (L_inverse.T @ VV_bar @ L_inverse)
    knots = at.pull_uu(Kuu_bar, with_X=True)
    kernel_bar = total.kernel + knots.theta
    # the jitter is relative to the kernel's diagonal, and moves with the parameters
    kernel_bar += at.jitter.scale_pullback(model.kernel, at.jitter.relative * float(Kuu_bar.trace()))
    assert knots.X is not None
    theta = model.in_order(kernel_bar, total.likelihood, total.nugget, total.mean)
    return theta, total.Z + knots.Z + knots.X


@dataclass
class GradientSums(Sums):
    """Sums over rows that the gradient needs."""

    kernel: np.ndarray
    Z: np.ndarray
    likelihood: np.ndarray
    nugget: float
    mean: float
    gram: np.ndarray | float


@dataclass(frozen=True)
class GradientPass(ProjectedPass):
    """What a block adds to the gradient; `delta` is V t, the movement of the latent function."""

    fit: SiteFit
    delta: np.ndarray
    B_inverse: np.ndarray
    serial: int

    def __call__(self, block: Block, cache: BlockCache) -> GradientSums:
        projector, fit, delta = self.projector, self.fit, self.delta
        model, residual, K = projector.model, residual_of(projector.model), len(projector.Z)
        seen = projector.project(block, cache)
        sites = fit.rule.sites(block, seen, cache)
        V, a, w, T, gamma = sites.V, sites.a, sites.w, fit.T, fit.gamma
        # V_bar = a (gamma + delta)' + t gamma' - w V B^-1, because V R = B^-1 V diag(w) for the inverse covariance R:
        # no [n, n] matrix is formed. It is one product of [-w V | a | t], or of [-w G | a] where sites stay, with these
        # rows; the term -2 c_bar V comes with the residual's pullback  (S11, L13)
        rows = [self.B_inverse, gamma + delta, gamma] if fit.rule.moves else [T, gamma]
        right = np.vstack(rows)[:, : K if residual.diagonal else len(T)]
        left = scratch("left", (len(V), len(right)))
        V_bar = scratch("V_bar", (len(V), right.shape[1]))
        left[:, len(T)] = sites.weigh(a)
        W_bar: np.ndarray | float = 0.0
        slope: np.ndarray | float = 0.0
        t: np.ndarray | float = 0.0
        if fit.rule.moves:
            quad = _quad(sites, fit, cache, self.serial)
            W_bar, third = _moved_precision(projector, sites, seen, quad)
            # f_bar = -third W_bar, since dW = -third df; and t = h f_bar - w V'delta by the Woodbury identity  (L11)
            V_delta = V @ delta
            moved = -sites.h * third * W_bar - w * V_delta
            left[:, -1], t = sites.weigh(moved), moved
            slope = sites.lam * t + V_delta
            np.multiply(V, -sites.weigh(w)[:, None], out=left[:, : len(T)])
            np.matmul(right.T, left.T, out=V_bar.T)  # (S11)
        else:  # V B^-1 = G LB^-1, and G = V LB^-T gives the diagonal on the way
            G = times_lower_transposed(V, T, out=left[:, : len(T)])
            quad = np.einsum("nk,nk->n", G, G)  # (S9)
            G *= -sites.weigh(w)[:, None]
            times_lower(left, right, out=V_bar)  # (S11)
        # (a^2 - R_ii) / 2 with R_ii = w - w^2 quad, and what the mode adds; of 1/w, not of the noise  (S9, S10, L12)
        D_bar = 0.5 * a * a + t * a + 0.5 * w * w * quad - 0.5 * w
        pulled = residual.pull(model, block, seen, sites, RowAdjoints(V_bar, D_bar, -(a + t)))
        Kfu_bar = times_lower(pulled.V_bar, projector.L_inverse, out=scratch("Kfu_bar", pulled.V_bar.shape))
        kernel = seen.pullback(Kfu_bar)  # (S13)
        return GradientSums(
            kernel.theta + model.kernel.diag_pullback(block.rows.X, pulled.c_bar) + pulled.theta_bar,
            kernel.Z,
            fit.rule.likelihood_bar(block, sites, pulled.noise_bar, W_bar, slope),
            float(pulled.noise_bar.sum()) if model.sizes[2] else 0.0,
            -float(pulled.r_bar.sum()),
            pulled.gram,
        )


@dataclass(frozen=True)
class MovedSitesPass(ProjectedPass):
    """V' (h sbar) of a block: the curvature's share in the movement of the latent function (L11)."""

    fit: SiteFit
    serial: int

    def __call__(self, block: Block, cache: BlockCache) -> np.ndarray:
        seen = self.projector.project(block, cache)
        sites = self.fit.rule.sites(block, seen, cache)
        quad = _quad(sites, self.fit, cache, self.serial)
        W_bar, third = _moved_precision(self.projector, sites, seen, quad)
        return sites.weigh(-sites.h * third * W_bar) @ sites.V


def _quad(sites: Sites, fit: SiteFit, cache: BlockCache, serial: int) -> np.ndarray:
    """The diagonal of V B^-1 V', which both passes need and the first leaves in the per-block cache, [n]  (S9)."""
    known, quad = cache.get("quad", (None, None))
    if known == serial:
        return quad
    G = times_lower_transposed(sites.V, fit.T)
    quad = np.einsum("nk,nk->n", G, G)
    cache["quad"] = (serial, quad)
    return quad


def _moved_precision(
    projector: Projector, sites: Sites, seen: Projection, quad: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The adjoint of the sites' precisions, and how they change with the latent values."""
    assert sites.third is not None  # sites that move are those of rows
    return independent_of(projector.model).precision_bar(projector.model, sites, seen.c, quad), sites.third
