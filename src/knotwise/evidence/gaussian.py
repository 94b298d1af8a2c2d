"""Sites of Gaussian data: one pass, in closed form."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from knotwise.evidence.model import Model, Rows
from knotwise.evidence.projection import Projection, Projector
from knotwise.evidence.sites import Sites, damping, trace_term
from knotwise.numerics.linalg import cholesky, invert_lower, log_det, weighted_gram

__all__ = ["GaussianMode", "gaussian_mode", "is_conjugate"]

LOG_2PI = float(np.log(2 * np.pi))


@dataclass
class EvidenceSums:
    """Sums over rows that the value needs: they add."""

    gram: np.ndarray  # V' diag(w) V
    projected: np.ndarray  # V' (w r)
    quadratic: float  # sum w r^2
    log_precision: float  # sum log W - trace term

    def __iadd__(self, other: EvidenceSums) -> EvidenceSums:
        self.gram += other.gram
        self.projected += other.projected
        self.quadratic += other.quadratic
        self.log_precision += other.log_precision
        return self


@dataclass(frozen=True)
class GaussianMode:
    """Log evidence, V' diag(w) V, LB^-1 and gamma = V a; the sites are functions of the rows."""

    model: Model
    value: float
    gram: np.ndarray
    T: np.ndarray
    gamma: np.ndarray
    start: None = None
    converged: bool = True
    has_third: bool = False

    def sites(self, i: int, block: Rows, seen: Projection) -> Sites:
        W, r = precision(self.model, block), block.y - self.model.mean.offset
        h = damping(self.model, W, seen.c)
        w = W * h
        a = w * (r - seen.V @ self.gamma)  # (S6)
        return Sites(W, h, w, a, block.y - a / W, None)


def is_conjugate(model: Model) -> bool:
    """Whether the posterior of the latent values is Gaussian, so that no search for a mode is needed."""
    return model.likelihood.conjugate and not model.nugget.size


def precision(model: Model, block: Rows) -> np.ndarray | float:
    """Site precisions: one over the noise, known by row or one for all."""
    noise = model.likelihood.value("noise_variance") if block.noise_variance is None else block.noise_variance
    return 1.0 / noise


def gaussian_mode(projector: Projector) -> GaussianMode:
    """Find the posterior of Gaussian data through the knots. One pass over the rows."""
    model = projector.model

    def sums(i: int, block: Rows, seen: Projection) -> EvidenceSums:
        W, r = precision(model, block), block.y - model.mean.offset
        w = block.weigh(W * damping(model, W, seen.c))
        wr = w * r
        log_W = block.count * float(np.log(W)) if np.ndim(W) == 0 else block.total(np.log(W))
        return EvidenceSums(
            weighted_gram(seen.V, w), wr @ seen.V, float(wr @ r), log_W - trace_term(model, block, W, seen.c)
        )

    total = projector.sum(sums)
    B = total.gram.copy()
    B.flat[:: len(B) + 1] += 1.0
    LB = cholesky(B)  # (S5)
    T = invert_lower(LB)
    gamma = T.T @ (T @ total.projected)  # (S6)
    quadratic = total.quadratic - total.projected @ gamma
    n_rows = projector.rows.count
    value = 0.5 * float(total.log_precision - n_rows * LOG_2PI - log_det(LB) - quadratic)  # (S7)
    return GaussianMode(model, value, total.gram, T, gamma)
