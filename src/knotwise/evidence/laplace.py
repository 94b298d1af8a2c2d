"""Sites by Newton's method: the Laplace approximation through knots. One pass over the rows per iteration."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import eigh

from knotwise.errors import NotPositiveDefiniteError
from knotwise.evidence.model import Model, Rows
from knotwise.evidence.newton import search_mode
from knotwise.evidence.projection import Projection, Projector
from knotwise.evidence.sites import Sites, damping, latent_of_data, trace_term
from knotwise.numerics.linalg import cholesky, invert_lower, log_det, weighted_gram

__all__ = ["LaplaceMode", "laplace_mode"]


@dataclass
class NewtonSums:
    """Sums over rows of one iteration: they add."""

    gram: np.ndarray  # V' diag(w) V
    projected: np.ndarray  # V' (h b)
    log_density: float
    prior: float  # sum lam a^2
    decrement: float
    trace: float

    def __iadd__(self, other: NewtonSums) -> NewtonSums:
        self.gram += other.gram
        self.projected += other.projected
        self.log_density += other.log_density
        self.prior += other.prior
        self.decrement += other.decrement
        self.trace += other.trace
        return self


@dataclass
class RowState:
    """Per row counted once, at one point of the search: a, f, residual gradient, h b, w, W and third derivative."""

    a: np.ndarray
    f: np.ndarray
    slack: np.ndarray  # d log p / df - a, zero at the mode
    hb: np.ndarray
    w: np.ndarray
    W: np.ndarray
    third: np.ndarray


@dataclass(frozen=True)
class LaplaceMode:
    """Log evidence, V' diag(w) V, LB^-1, gamma = V a, and the rows' state at the mode."""

    model: Model
    value: float
    gram: np.ndarray
    T: np.ndarray
    gamma: np.ndarray
    rows: list[RowState] = field(repr=False)
    start: np.ndarray
    converged: bool
    has_third: bool = True

    def sites(self, i: int, block: Rows, seen: Projection) -> Sites:
        row = self.rows[i]
        h = damping(self.model, row.W, seen.c)
        return Sites(row.W, h, row.w, row.a, row.f, row.third)


class SparseSearch:
    """The search for the mode through knots: psi and the Newton system by one pass over the row blocks."""

    def __init__(self, projector: Projector, start: np.ndarray | None) -> None:
        self.projector, self.model = projector, projector.model
        self.log_concave = self.model.likelihood.log_concave
        n_blocks = len(projector.blocks)
        self.now: list[RowState | None] = [None] * n_blocks
        self.tried: list[RowState | None] = [None] * n_blocks
        self.start = start
        width = len(projector.Z) + projector.rows.basis.shape[1]
        self.gamma = np.zeros(width) if start is None else projector.sum(self._project_start)
        self.target = self.gamma
        self.sums: NewtonSums | None = None
        self.converged = False

    @property
    def accepted(self) -> bool:
        return self.sums is not None

    def _project_start(self, i: int, block: Rows, seen: Projection) -> np.ndarray:
        assert self.start is not None
        return block.weigh(self.start[self.projector.slices[i]]) @ seen.V  # V a of a warm start

    def evaluate(self, step: float, *, true_curvature: bool) -> tuple[float, float]:
        self.gamma_tried = self.gamma + step * (self.target - self.gamma)
        total = self.projector.sum(lambda i, block, seen: self._pass(i, block, seen, step, true_curvature))
        self.sums_tried = total
        psi = total.log_density - 0.5 * (total.prior + self.gamma_tried @ self.gamma_tried)
        return float(psi), total.decrement

    def accept(self) -> None:
        self.now, self.tried = self.tried, [None] * len(self.tried)
        self.gamma = self.target = self.gamma_tried
        self.sums = self.sums_tried

    def aim(self) -> None:
        assert self.sums is not None
        self.factor()
        self.target = self.T.T @ (self.T @ self.sums.projected)

    def aim_off_saddle(self) -> bool:
        # in eta, with the best xi for it, psi bends as -B                                              (L7)
        try:
            self.factor()
        except NotPositiveDefiniteError:
            B = self._B()
            self.target = self.gamma  # some rows may bend by themselves, and know where to go
            if np.isfinite(B).all():
                self.target = self.gamma + eigh(B, subset_by_index=[0, 0])[1][:, 0]
            return True
        return False

    def factor(self) -> None:
        """Factorise B at the current point."""
        self.LB = cholesky(self._B())
        self.T = invert_lower(self.LB)

    def _B(self) -> np.ndarray:
        assert self.sums is not None
        B = self.sums.gram.copy()
        B.flat[:: len(B) + 1] += 1.0
        return B

    def _pass(self, i: int, block: Rows, seen: Projection, step: float, true_curvature: bool) -> NewtonSums:
        model, likelihood = self.model, self.model.likelihood
        V, c, m = seen.V, seen.c, self.model.mean.offset
        lam = model.power * c + model.nugget.variance
        old = self.now[i]
        if old is None:
            a = np.zeros(len(block)) if self.start is None else self.start[self.projector.slices[i]]
        elif step == 0.0:
            a = old.a
        else:
            a = old.a + step * (old.hb - old.w * (V @ self.target) - old.a)
        latent = lam * a + V @ self.gamma_tried
        f = m + latent
        d = likelihood.derivatives(block.y, f, block.sizes)
        W = -d.second if true_curvature else likelihood.step_curvature(block.y, f, block.sizes)
        h = damping(model, W, c)
        w = W * h
        hb = h * (W * latent + d.first)
        gram = weighted_gram(V, block.weigh(w))
        if true_curvature and not likelihood.log_concave:
            bent = ~((h > 0) & (h < np.inf))
            if bent.any():  # psi bends upwards in the own part xi of these rows: no mode, and a way off   (L7)
                w, hb = np.where(bent, 0.0, w), np.where(bent, a + 1.0 / np.sqrt(lam), hb)
                gram[:] = np.nan
        self.tried[i] = RowState(a, f, d.first - a, hb, w, W, d.third)
        return NewtonSums(
            gram,
            block.weigh(hb) @ V,
            block.total(likelihood.log_density(block.y, f, block.sizes)),
            float(block.weigh(lam * a) @ a),
            0.0 if old is None or step == 0.0 else float(block.weigh(old.slack) @ (f - old.f)) / step,
            trace_term(model, block, W, c),
        )


def _start_from_data(projector: Projector) -> np.ndarray:
    """The vector a of a Gaussian posterior whose sites are those of the likelihood where it is largest, [N]."""
    model = projector.model

    def sites(block: Rows, seen: Projection) -> tuple[np.ndarray, np.ndarray]:
        f = latent_of_data(model, block)
        W = np.maximum(model.likelihood.fisher(block.y, f, block.sizes), 0.0)
        h = damping(model, W, seen.c)
        return W * h, h * (W * (f - model.mean.offset) + model.likelihood.derivatives(block.y, f, block.sizes).first)

    def gram(i: int, block: Rows, seen: Projection) -> np.ndarray:
        w, hb = sites(block, seen)
        return np.column_stack([weighted_gram(seen.V, block.weigh(w)), block.weigh(hb) @ seen.V])

    total = projector.sum(gram)
    T = invert_lower(cholesky(total[:, :-1] + np.eye(len(total))))
    gamma = T.T @ (T @ total[:, -1])
    a = np.empty(len(projector.rows))

    def fill(i: int, block: Rows, seen: Projection) -> int:
        w, hb = sites(block, seen)
        a[projector.slices[i]] = hb - w * (seen.V @ gamma)
        return 0

    projector.sum(fill)
    return a


def laplace_mode(projector: Projector, start: np.ndarray | None) -> LaplaceMode:
    """Find the mode of non-Gaussian data through the knots, and the Laplace approximation of the log evidence.

    `start` is the vector a of a neighbouring evaluation; where it leads nowhere the search starts at the mean.
    """
    search, converged = search_mode(
        lambda first: SparseSearch(projector, first), start, lambda: _start_from_data(projector)
    )
    assert search.sums is not None
    search.factor()
    psi = search.sums.log_density - 0.5 * (search.sums.prior + search.gamma @ search.gamma)
    value = psi - 0.5 * (log_det(search.LB) + search.sums.trace)
    rows = [row for row in search.now if row is not None]
    return LaplaceMode(
        projector.model,
        float(value),
        search.sums.gram,
        search.T,
        search.gamma,
        rows,
        np.concatenate([row.a for row in rows]),
        converged,
    )
