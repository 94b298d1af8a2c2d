"""Posterior through knots and neighbours: what the knots leave of a new row is kriged from near training rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from knotwise.evidence.model import Rows
from knotwise.evidence.residual.conditionals import NOISE_FLOOR, Conditionals, Joint, noise_of_rows, with_zeros
from knotwise.evidence.residual.neighbours import Neighbours
from knotwise.evidence.sparse import PseudoState, SparseState
from knotwise.noise import Inputs
from knotwise.numerics.blocks import block_slices, rows_per_block
from knotwise.numerics.linalg import times_lower_transposed
from knotwise.numerics.nearest import MISSING, Nearest
from knotwise.posterior.base import KnotView, SparsePosterior

__all__ = ["ROWS_TOGETHER", "NeighbourPosterior", "NeighbourState", "Shares"]

#: times as many neighbours as rows of the fit have are those of new rows, where nothing else is said
PREDICTING = 2
#: new rows that are predicted together: their neighbours, some ten times as many, are seen through the knots once
ROWS_TOGETHER = 256
#: training rows that tell what knots and neighbours explain
SHARED_ROWS = 2000


@dataclass(frozen=True)
class NeighbourState(SparseState):
    """All that prediction needs: the state through the knots, and the training rows.

    X [N, D], r = y - m [N] and the noise variance [N] (of a row that counts k times, noise / k) are those of the rows,
    in any order; of data that are not Gaussian, r and noise are those of their sites (N6). The graph of the fit is not
    needed: the model has no residual. `n_neighbors` is how many each row of the fit had, `n_predicting` how many a new
    row has: more, since many rows must be predicted to cost what one evaluation of the fit does.
    """

    X: np.ndarray
    r: np.ndarray
    noise: np.ndarray
    n_neighbors: int
    n_predicting: int

    @staticmethod
    def of(state: SparseState, rows: Rows, n_predicting: int | None = None) -> NeighbourState:
        """From the state of an evidence with neighbours, and its rows; new rows have so many neighbours, or as many as
        the residual says.
        """
        model, residual = state.model, state.model.residual
        assert isinstance(residual, Neighbours)
        if n_predicting is None:
            n_predicting = residual.n_predicting or PREDICTING * residual.n_neighbors
        if isinstance(state, PseudoState):
            r, noise = state.pseudo.r, state.pseudo.noise
        else:
            given = model.noise_of(rows).variance(rows)
            r, noise = rows.y - model.mean.offset, np.asarray(rows.per_copy(np.broadcast_to(given, len(rows))))
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
            residual.n_neighbors,
            min(n_predicting, len(rows)),
        )


@dataclass(frozen=True)
class Shares:
    """What knots (with the mean), neighbours and noise explain, as shares of the variance of the observations.

    For rows that their neighbours predict without them, y = knots + neighbours + rest, and a share is cov(part, y) /
    var(y): these sum to 1 with that of the rest, which has the noise and what is not known of f. A part that goes
    against y has a negative share.
    """

    knots: float
    neighbours: float
    noise: float


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
            seen = self.see(X[rows])
            mean = state.model.mean.offset + seen.V @ state.gamma + seen.near
            views.append((mean, times_lower_transposed(seen.V, state.T), seen.residual))
        if not views:
            return KnotView(np.empty(0), np.empty((0, self.width)), np.empty(0))
        mean, spread, residual = (np.concatenate(parts) for parts in zip(*views, strict=True))
        return KnotView(mean, spread, residual)

    def shares(self) -> Shares | None:
        """What knots, neighbours and noise explain of Gaussian data; from up to 2,000 training rows, each once.

        None where the data do not vary, or are not Gaussian.
        """
        state, inputs = self.state, Inputs(self.state.X)
        n = len(state.X)
        chosen = np.sort(np.random.default_rng(0).choice(n, min(SHARED_ROWS, n), replace=False))
        total = float(state.r[chosen].var())
        if not (total > 0 and state.model.likelihood.conjugate):
            return None
        knots, both = np.empty(len(chosen)), np.empty(len(chosen))
        for some in block_slices(len(chosen), ROWS_TOGETHER):
            rows = chosen[some]
            seen = self.see(state.X[rows], self.nearest_others(rows))
            knots[some] = self._features(state.X[rows])[1] @ state.gamma
            both[some] = seen.V @ state.gamma + seen.near
        y = state.r[chosen] - state.r[chosen].mean()
        by_knots, by_both = (float(np.mean(part * y)) / total for part in (knots, both))
        noise = float(np.mean(state.model.noise_of(inputs).variance(inputs)))
        return Shares(by_knots, by_both - by_knots, noise / total)

    def nearest_others(self, rows: np.ndarray) -> np.ndarray:
        """Numbers of the nearest other training rows of training rows with these numbers [n], [n, m]."""
        points, m = self.nearest.points, min(self.state.n_predicting, len(self.state.X) - 1)
        near = self.nearest(points[rows], m + 1)
        # the row itself goes last; where equal rows crowd it out, the farthest goes
        others = np.argsort(near == rows[:, None], axis=1, kind="stable")[:, :m]
        return np.take_along_axis(near, others, 1)

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
        return self._left_open(self.see(X))

    def _marginals(self, X):
        view = self.through_knots(X)
        return view.mean, view.residual + np.einsum("nk,nk->n", view.spread, view.spread)  # (N7)

    def _joint(self, X):
        seen = self.see(X)
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

    def see(self, X: np.ndarray, near: np.ndarray | None = None) -> Sight:
        """Krige what the knots leave of rows; see `Sight`.

        From the nearest training rows, or from those with the numbers `near` [n, m], of which some may be `MISSING`.
        """
        state = self.state
        kernel = state.model.kernel
        if near is None:
            near = self.nearest(kernel.coordinates(X), state.n_predicting)  # [n, m]
        missing = near == MISSING
        used, place = np.unique(near[~missing], return_inverse=True)
        members = np.full((len(X), near.shape[1] + 1), len(used) + len(X), np.int32)
        members[:, :-1][~missing] = place
        members[:, -1] = len(used) + np.arange(len(X))
        points = np.vstack([state.X[used], X])
        v = times_lower_transposed(kernel(points, state.Z), state.L_inverse)
        c = np.maximum(kernel.diag(points) - np.einsum("nk,nk->n", v, v), 0.0)
        # a latent value has no noise; its floor is taken off again
        noise, _ = noise_of_rows(kernel, points, np.append(state.noise[used], np.zeros(len(X))))
        found = Conditionals.of(Joint(kernel, points, with_zeros(v), c, noise), members)
        floor = NOISE_FLOOR * kernel.diag(X)
        mixed = found.residuals(with_zeros(np.hstack([v, state.model.mean.basis(points)])))
        r = np.where(missing, 0.0, state.r[near])
        left = np.maximum(found.D - floor, 0.0)
        return Sight(mixed, np.einsum("nm,nm->n", found.A, r), left, points, noise[: len(used)], found)
