"""The gradient of the log evidence: one adjoint for every likelihood, power, kernel and mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from knotwise.evidence.model import Jitter, Model, Rows
from knotwise.evidence.projection import Projection, Projector
from knotwise.evidence.sites import Sites, paying, unpaid
from knotwise.numerics.linalg import times_lower, times_lower_transposed, weighted_gram
from knotwise.numerics.scratch import scratch

__all__ = ["Gradient", "Mode", "likelihood_gradient", "sparse_gradient"]


class Mode(Protocol):
    """The posterior mode, as the adjoint needs it."""

    @property
    def gram(self) -> np.ndarray: ...

    @property
    def T(self) -> np.ndarray: ...

    @property
    def gamma(self) -> np.ndarray: ...

    @property
    def has_third(self) -> bool: ...

    def sites(self, i: int, block: Rows, seen: Projection) -> Sites: ...


@dataclass(frozen=True)
class Gradient:
    """Gradient in theta [P] and in the knots [K, D]."""

    theta: np.ndarray
    Z: np.ndarray


@dataclass
class GradientSums:
    """Sums over rows that the gradient needs: they add."""

    kernel: np.ndarray
    Z: np.ndarray
    likelihood: np.ndarray
    nugget: float
    mean: float
    gram: np.ndarray | float  # V' diag(e) V

    def __iadd__(self, other: GradientSums) -> GradientSums:
        self.kernel += other.kernel
        self.Z += other.Z
        self.likelihood += other.likelihood
        self.nugget += other.nugget
        self.mean += other.mean
        self.gram += other.gram
        return self


def sparse_gradient(projector: Projector, mode: Mode, jitter: Jitter) -> Gradient:
    """Pull the log evidence back to all parameters and all knots.

    One pass over the rows, and one more where the third derivative makes the curvature move with the mode.
    """
    model, K = projector.model, len(projector.Z)
    gamma, T, L_inverse = mode.gamma, mode.T, projector.L_inverse
    delta = np.zeros_like(gamma)  # V t
    if mode.has_third:
        moved = projector.sum(lambda i, block, seen: _moved_curvature(mode, model, i, block, seen))
        delta = T.T @ (T @ moved)
    # [-w G | a | t] times these rows is a (gamma + delta)' + t gamma' - w V B^-1: rank-one terms ride along
    tail = [gamma + delta, gamma] if mode.has_third else [gamma]
    right = np.vstack([T, *tail])[:, :K]

    def sums(i: int, block: Rows, seen: Projection) -> GradientSums:
        sites = mode.sites(i, block, seen)
        V, c, a, w, power = seen.V, seen.c, sites.a, sites.w, model.power
        left = scratch("left", (len(V), len(right)))
        G = times_lower_transposed(V, T, out=left[:, : len(T)])  # LB^-1 V
        quad = np.einsum("nk,nk->n", G, G)  # (S9)
        W_bar = _precision_adjoint(model, sites, c, quad)
        G *= -block.weigh(w)[:, None]
        left[:, len(T)] = block.weigh(a)
        t: np.ndarray | float = 0.0
        slope = 0.0  # of the mode in the first derivative of log p
        if mode.has_third:
            assert sites.third is not None
            V_delta = V @ delta
            moved = -sites.h * sites.third * W_bar - w * V_delta
            left[:, -1], t = block.weigh(moved), moved
            slope = (power * c + model.nugget.variance) * t + V_delta
        reach = 0.5 * a * a + t * a + 0.5 * w * w * quad
        e = power * reach + unpaid(model, sites)  # (S10): not negative for Gaussian data, one symmetric product
        c_bar = block.weigh(e - 0.5 * w)
        Vk = V[:, :K]
        V_bar = times_lower(left, right, out=scratch("V_bar", (len(V), K)))  # [n, K]  (S11)
        V_bar -= np.multiply(Vk, (2.0 * c_bar)[:, None], out=scratch("scaled", Vk.shape))
        kernel = seen.pullback(times_lower(V_bar, L_inverse, out=scratch("Kfu_bar", (len(V), K))))  # (S13)
        return GradientSums(
            kernel.theta + model.kernel.diag_pullback(block.X, c_bar),
            kernel.Z,
            likelihood_gradient(model, block, sites.f, W_bar, slope),
            _nugget_gradient(model, block, sites, reach, c),
            block.total(a + t),
            weighted_gram(Vk, block.weigh(e)) if np.any(e) else 0.0,
        )

    total = projector.sum(sums)
    VV_bar = np.multiply.outer(gamma[:K], gamma[:K] + delta[:K])  # V_bar V', the knots' part  (S12)
    if mode.has_third:
        VV_bar += np.multiply.outer(delta[:K], gamma[:K])
    VV_bar += mode.gram[:K, :K]
    VV_bar += T[:, :K].T @ T[:, :K]
    VV_bar.flat[:: K + 1] -= 1.0
    VV_bar -= 2.0 * total.gram
    Kuu_bar = -0.5 * (L_inverse.T @ VV_bar @ L_inverse)  # (S13)
    knots = projector.pull_uu(Kuu_bar, with_X=True)
    kernel_bar = total.kernel + knots.theta
    kernel_bar += jitter.scale_pullback(model.kernel, jitter.relative * float(Kuu_bar.trace()))
    assert knots.X is not None
    return Gradient(
        assemble_gradient(model, kernel_bar, total.likelihood, total.nugget, total.mean), total.Z + knots.Z + knots.X
    )


def assemble_gradient(
    model: Model, kernel_bar: np.ndarray, likelihood_bar: np.ndarray, nugget_bar: float, mean_bar: float
) -> np.ndarray:
    """Put the gradients of the parts in the order of theta; the nugget's goes to the log scale."""
    nugget = [nugget_bar * model.nugget.variance] * model.nugget.size
    return np.concatenate([kernel_bar, likelihood_bar, nugget, [mean_bar] * model.mean.size])


def likelihood_gradient(
    model: Model, block: Rows, f: np.ndarray, W_bar: np.ndarray, slope: np.ndarray | float
) -> np.ndarray:
    """Gradient in the likelihood's own parameters: directly, through the precision, and through the mode."""
    if block.noise_variance is not None:
        return np.zeros(model.likelihood.size)
    derivatives = model.likelihood.parameter_derivatives(block.y, f, block.sizes)
    return np.array([block.total(d.log_density - W_bar * d.second + slope * d.first) for d in derivatives])


def _precision_adjoint(model: Model, sites: Sites, c: np.ndarray, quad: np.ndarray) -> np.ndarray:
    """W_bar: what the log evidence gains per unit of site precision, at a fixed mode."""
    h, nugget, power = sites.h, model.nugget.variance, model.power
    W_bar = -0.5 * ((power * c + nugget) * h + h * h * quad)
    if power < 1:
        W_bar -= 0.5 * (1.0 - power) * c * h / (1.0 + sites.W * nugget) * (sites.W > 0)
    return W_bar


def _nugget_gradient(model: Model, block: Rows, sites: Sites, reach: np.ndarray, c: np.ndarray) -> float:
    if not model.nugget.size:
        return 0.0
    paid = c * sites.w * paying(model, sites.W)
    return block.total(reach - 0.5 * sites.w + 0.5 * (1.0 - model.power) * paid)


def _moved_curvature(mode: Mode, model: Model, i: int, block: Rows, seen: Projection) -> np.ndarray:
    """V' (h sbar) of one block: the curvature's share in the movement of the mode."""
    sites = mode.sites(i, block, seen)
    G = times_lower_transposed(seen.V, mode.T)
    W_bar = _precision_adjoint(model, sites, seen.c, np.einsum("nk,nk->n", G, G))
    assert sites.third is not None
    return block.weigh(-sites.h * sites.third * W_bar) @ seen.V
