"""Residuals of fitted rows, and how they vary together if the model is right: through knots, or exact."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from knotwise.evidence.full_sites import FullState
from knotwise.evidence.model import Rows
from knotwise.evidence.residual.independent import damping
from knotwise.evidence.scores import RowScores
from knotwise.numerics.linalg import times_lower_transposed
from knotwise.posterior.base import SparsePosterior

__all__ = ["Residuals", "exact_residuals", "residuals_through_knots"]

#: x -> A x, for a symmetric matrix A of zeros and ones without ones on its diagonal, which need not be formed
Graph = Callable[[np.ndarray], np.ndarray]


class Residuals(Protocol):
    """Residuals a = R (z - m): z the sites' pseudo-observations, R the inverse of their covariance (S6, L5).

    For Gaussian data they are differences over the noise, for counts the observed minus the expected. A row that counts
    more than once has the sum over its copies. If the model is right, the covariance of a is R itself.
    """

    @property
    def a(self) -> np.ndarray:
        """The residual of each row, [n]."""
        ...

    @property
    def variance(self) -> np.ndarray:
        """diag(R)."""
        ...

    @property
    def added(self) -> np.ndarray | float:
        """What predictions add to the variance 1 / R_ii of a row that is left out: VFE has no c in R, and they do."""
        ...

    def moments(self, graph: Graph) -> tuple[float, float]:
        """Mean tr(A R) / 2 and variance tr(A R A R) / 2 of the sum of a_i a_j over the pairs of a graph."""
        ...

    def draw(self, rng: np.random.Generator, n_draws: int) -> np.ndarray:
        """Residuals as they are if the model is right, N(0, R), [n, draws]."""
        ...


@dataclass(frozen=True)
class LowRankResiduals:
    """R = diag(w) - H H', with H [n, K]."""

    a: np.ndarray
    w: np.ndarray
    H: np.ndarray
    added: np.ndarray | float = 0.0

    @property
    def variance(self) -> np.ndarray:
        return self.w - np.einsum("nk,nk->n", self.H, self.H)

    def moments(self, graph: Graph) -> tuple[float, float]:
        w, H = self.w, self.H
        AH = graph(H)
        mean = -0.5 * np.einsum("nk,nk->", H, AH)
        # tr(A R A R) term by term: no [n, n] matrix is formed
        variance = 0.5 * w @ graph(w) - w @ np.einsum("nk,nk->n", AH, AH) + 0.5 * ((H.T @ AH) ** 2).sum()
        return float(mean), float(variance)

    def draw(self, rng: np.random.Generator, n_draws: int) -> np.ndarray:
        # the root of I - GG' in (O7)
        root = np.sqrt(self.w)[:, None]
        G = self.H / root
        s, Q = np.linalg.eigh(G.T @ G)
        GQ = G @ Q
        x = rng.standard_normal((len(self.w), n_draws))
        c = 1.0 / (1.0 + np.sqrt(np.maximum(1.0 - s, 0.0)))
        return root * (x - GQ @ (c[:, None] * (GQ.T @ x)))


@dataclass(frozen=True)
class DenseResiduals:
    """R [n, n] as it is."""

    a: np.ndarray
    R: np.ndarray
    added: float = 0.0

    @property
    def variance(self) -> np.ndarray:
        return self.R.diagonal()

    def moments(self, graph: Graph) -> tuple[float, float]:
        AR = graph(self.R)
        return 0.5 * float(AR.trace()), 0.5 * float(np.einsum("ij,ji->", AR, AR))

    def draw(self, rng: np.random.Generator, n_draws: int) -> np.ndarray:
        x = rng.standard_normal((len(self.R), n_draws))
        try:
            return np.linalg.cholesky(self.R) @ x
        except np.linalg.LinAlgError:  # nearly exact data: negative eigenvalues are rounding
            values, vectors = np.linalg.eigh(self.R)
            return vectors @ (np.sqrt(np.maximum(values, 0.0))[:, None] * x)


def residuals_through_knots(
    posterior: SparsePosterior, rows: Rows, scores: RowScores, chosen: np.ndarray
) -> LowRankResiduals:
    """Residuals of the chosen rows under a model with knots. Costs O(n K^2)."""
    state, some = posterior.state, rows[chosen]
    _, V = posterior._features(some.X)
    lam = state.model.power * scores.c[chosen] + state.model.nugget.variance
    w = some.weigh(scores.W[chosen] * damping(scores.W[chosen], lam))
    H = w[:, None] * times_lower_transposed(V, state.T)
    return LowRankResiduals(some.weigh(scores.a[chosen]), w, H, (1.0 - state.model.power) * scores.c[chosen])


def exact_residuals(state: FullState, chosen: np.ndarray) -> DenseResiduals:
    """Residuals of the chosen rows under the exact GP, which has the sums over copies already. Costs O(n N^2)."""
    picks = np.zeros((len(chosen), len(state.a)))
    picks[np.arange(len(chosen)), chosen] = 1.0
    return DenseResiduals(state.a[chosen], state.precision.explained_jointly(picks))
