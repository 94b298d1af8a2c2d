"""Posterior through knots and neighbours: what the knots leave of a new row is kriged from near training rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from knotwise.evidence.model import Rows
from knotwise.evidence.residual.conditionals import NOISE_FLOOR, Conditionals, Joint, noise_of_rows, with_zeros
from knotwise.evidence.residual.neighbours import Neighbours
from knotwise.evidence.sparse import PseudoState, SparseState
from knotwise.numerics.blocks import block_slices, rows_per_block
from knotwise.numerics.linalg import times_lower_transposed
from knotwise.numerics.nearest import Nearest
from knotwise.posterior import KnotView, SparsePosterior

__all__ = ["NeighbourPosterior", "NeighbourState"]

#: new rows that are predicted together: their neighbours are seen through the knots once
ROWS_TOGETHER = 1024


@dataclass(frozen=True)
class NeighbourState(SparseState):
    """All that prediction needs: the state through the knots, and the training rows.

    X [N, D], r = y - m [N] and the noise variance [N] (of a row that counts k times, noise / k) are those of the rows,
    in any order; of data that are not Gaussian, r and noise are those of their sites (N6). The graph of the fit is not
    needed: the model has no residual.
    """

    X: np.ndarray
    r: np.ndarray
    noise: np.ndarray
    n_neighbors: int

    @staticmethod
    def of(state: SparseState, rows: Rows, n_neighbors: int | None = None) -> NeighbourState:
        """From the state of an evidence with neighbours, and its rows; with as many neighbours as there, or others."""
        model, residual = state.model, state.model.residual
        assert isinstance(residual, Neighbours)
        if isinstance(state, PseudoState):
            r, noise = state.pseudo.r, state.pseudo.noise
        else:
            given = model.likelihood.value("noise_variance") if rows.noise_variance is None else rows.noise_variance
            r, noise = rows.y - model.mean.offset, np.array(rows.per_copy(np.broadcast_to(given, len(rows))))
        return NeighbourState(
            replace(model, residual=None),
            state.Z,
            state.jitter,
            state.L_inverse,
            state.T,
            state.gamma,
            rows.X,
            r,
            noise,
            residual.n_neighbors if n_neighbors is None else n_neighbors,
        )


@dataclass(frozen=True)
class Sight:
    """New rows seen through the knots and their neighbours (N7).

    V [n, K + p] is v - A V_n, `near` [n] is A r_n and `residual` [n] the variance that is left. `X` [u + n, D] are the
    neighbours of all of them, each once, and then the rows; `noise` [u] is that of the neighbours.
    """

    V: np.ndarray
    near: np.ndarray
    residual: np.ndarray
    X: np.ndarray
    noise: np.ndarray
    conditionals: Conditionals


class NeighbourPosterior(SparsePosterior):
    """Posterior through knots and neighbours, which are the nearest of all training rows. Holds the data.

    A new row costs O(m (K^2 + m K + m^2)) and a search in a tree. A training row has itself for a neighbour: its own y
    is used.
    """

    state: NeighbourState

    def __init__(self, state: NeighbourState) -> None:
        self.state = state
        self.width = len(state.gamma)
        self.nearest = Nearest(state.model.kernel.coordinates(state.X))

    @property
    def start(self) -> np.ndarray:
        """Where another inference through the same knots may begin."""
        return self.state.gamma

    def through_knots(self, X: np.ndarray) -> KnotView:
        """What knots and neighbours say of f at the rows of X, in O(K) numbers for each row.

        Rows depend on each other through `spread`, and through what is left of near rows, whose variances are
        `residual`.
        """
        state = self.state
        views = []
        for rows in block_slices(len(X), ROWS_TOGETHER):
            seen = self._see(X[rows])
            mean = state.model.mean.offset + seen.V @ state.gamma + seen.near
            views.append((mean, times_lower_transposed(seen.V, state.T), seen.residual))
        if not views:
            return KnotView(np.empty(0), np.empty((0, self.width)), np.empty(0))
        mean, spread, residual = (np.concatenate(parts) for parts in zip(*views, strict=True))
        return KnotView(mean, spread, residual)

    def residual_variance(self, X: np.ndarray) -> np.ndarray:
        """Variance of what knots and neighbours leave open at the rows of X, [n]."""
        return self.through_knots(X).residual

    def residual_covariance(self, X: np.ndarray) -> np.ndarray:
        """Joint covariance of what knots and neighbours leave open at the rows of X, [n, n]  (N8).

        It is that of e - A z_n under the prior, where z_n are residuals with noise of each row's own neighbours: so it
        is positive semi-definite, its diagonal is the residual variance, and with all training rows as neighbours it
        is exact. With fewer, what a neighbour of one row says of another row is left out, unless it is the neighbour
        of both. Takes O((n + u)^2) values of the kernel for u different neighbours.
        """
        return self._left_open(self._see(X))

    def _marginals(self, X):
        view = self.through_knots(X)
        return view.mean, view.residual + np.einsum("nk,nk->n", view.spread, view.spread)  # (N7)

    def _joint(self, X):
        seen = self._see(X)
        g = times_lower_transposed(seen.V, self.state.T)
        return self._left_open(seen) + g @ g.T

    def _left_open(self, seen: Sight) -> np.ndarray:
        kernel, X, K = self.state.model.kernel, seen.X, len(self.state.Z)
        found, n, N = seen.conditionals, len(seen.V), len(seen.X)
        E = found.sparse(-found.a, N + 1)[:, :N].tocsc()  # [n, u + n]: each row minus its neighbours' weights
        by_row = E.tocsr()
        C = np.zeros((n, n))
        for some in block_slices(N, rows_per_block(N, N)):
            C += (E[:, some] @ (by_row @ kernel(X, X[some])).T).T
        V = seen.V[:, :K]
        C -= V @ V.T
        C += (E[:, : len(seen.noise)].multiply(seen.noise) @ E[:, : len(seen.noise)].T).toarray()
        return 0.5 * (C + C.T)

    def _see(self, X: np.ndarray) -> Sight:
        """Krige what the knots leave of new rows; see `Sight`."""
        state = self.state
        kernel = state.model.kernel
        near = self.nearest(kernel.coordinates(X), state.n_neighbors)  # [n, m]
        used, place = np.unique(near, return_inverse=True)
        members = np.column_stack([place.reshape(near.shape), len(used) + np.arange(len(X))]).astype(np.int32)
        points = np.vstack([state.X[used], X])
        v = times_lower_transposed(kernel(points, state.Z), state.L_inverse)
        c = np.maximum(kernel.diag(points) - np.einsum("nk,nk->n", v, v), 0.0)
        # a latent value has no noise; its floor is taken off again
        noise, _ = noise_of_rows(kernel, points, np.append(state.noise[used], np.zeros(len(X))))
        found = Conditionals.of(Joint(kernel, points, with_zeros(v), c, noise), members)
        floor = NOISE_FLOOR * kernel.diag(X)
        mixed = found.residuals(with_zeros(np.hstack([v, state.model.mean.basis(points)])))
        r = state.r[used][place.reshape(near.shape)]
        left = np.maximum(found.D - floor, 0.0)
        return Sight(mixed, np.einsum("nm,nm->n", found.A, r), left, points, noise[: len(used)], found)
