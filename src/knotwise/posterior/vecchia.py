"""Posterior with Vecchia neighbours (NNGP): the residual of a new row is kriged from near training rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from knotwise.evidence.model import Rows
from knotwise.evidence.residual import vecchia_ordering
from knotwise.evidence.residual.conditionals import NOISE_FLOOR, Conditionals, Joint, noise_of_rows, with_zeros
from knotwise.evidence.residual.correlation import GivenKnots
from knotwise.evidence.residual.neighbours import neighbours_of
from knotwise.evidence.scores import RowScores
from knotwise.evidence.sparse import SparseState
from knotwise.noise import Inputs
from knotwise.numerics.blocks import Executor, block_slices, rows_per_block
from knotwise.numerics.linalg import times_lower_transposed
from knotwise.numerics.nearest import MISSING
from knotwise.posterior.base import KnotView, Shares, noise_of_means, one_per_row
from knotwise.posterior.in_sample import InSample
from knotwise.posterior.knots import KnotPosterior
from knotwise.posterior.neighbourhood import Neighbourhoods, Places, Ranking
from knotwise.posterior.residuals import NORMAL_95, LeaveOneOut, LowRankResiduals

#: times as many neighbours as rows of the fit have are those of new rows, where nothing else is said
PREDICTING = 2
#: new rows that are predicted together: their neighbours, some ten times as many, are seen through the knots once
ROWS_TOGETHER = 256
#: training rows that tell what knots and neighbours explain
SHARED_ROWS = 2000
#: rows that are predicted without themselves, and fewer than which say nothing
MAX_ROWS, LEAST_ROWS = 2000, 30
MOST_LEVERAGE = 0.95  # of a row in what the knots say: knots on rows would say nothing without them


@dataclass(frozen=True)
class VecchiaState(SparseState):
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
    def of(state: SparseState, rows: Rows, n_predicting: int | None = None) -> VecchiaState:
        """From the state of an evidence with neighbours, and its rows; new rows have so many neighbours, or as many as
        the residual says.
        """
        model, residual = state.model, neighbours_of(state.model)
        if n_predicting is None:
            n_predicting = residual.n_predicting or PREDICTING * residual.n_neighbors
        if state.pseudo is not None:
            r, noise = state.pseudo.r, state.pseudo.noise
        else:
            r, noise = rows.y - model.mean.offset, noise_of_means(model, rows)
        through_knots = replace(model, residual=None), state.Z, state.jitter, state.L_inverse, state.T, state.gamma
        return VecchiaState(*through_knots, rows.X, r, noise, residual.n_neighbors, min(n_predicting, len(rows)))


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


class VecchiaPosterior(KnotPosterior):
    """Posterior through knots and neighbours, which are the nearest of all training rows. Holds the data.

    A new row costs O(m (K^2 + m K + m^2)) and a search in a tree. A training row has itself for a neighbour: its own y
    is used.
    """

    state: VecchiaState

    rows: Rows

    def __init__(self, state: VecchiaState) -> None:
        super().__init__(state)
        self.approximation, self.n_neighbors = "neighbors", state.n_neighbors
        self.size_in_words += f" and {self.n_neighbors} neighbours of each row"
        self.rows = Rows(state.X, state.r, state.noise, np.empty((len(state.X), 0)))
        self.ranking = Ranking.of(GivenKnots(state.model.kernel, state.Z, state.L_inverse, state.X, state.noise))
        self.places = Places.of(self.rows, self.ranking)

    def rows_in_words(self, inputs: np.ndarray | None) -> str:
        n_rows = len(self.state.X)
        return f"holds the {n_rows:,} training rows, inputs and targets, since near rows predict residuals."

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

    def leave_one_out(self) -> LeaveOneOut | None:
        """Predict up to 2,000 training rows from their neighbours without themselves; None where rows are too few, or
        are labels, whose sites say nothing of their size.

        What the knots know from the row itself is taken off: with e the error through knots that have seen the row, D
        its variance given the knots and q that of what the knots say, the standardised error is e / sqrt(D (1 - q /
        D)), by a downdate of rank one (N9). Takes O(n m (K^2 + m K + m^2)).
        """
        state = self.state
        n_rows = len(state.X)
        if n_rows < LEAST_ROWS or state.model.likelihood.binary:
            return None
        chosen = np.sort(np.random.default_rng(0).choice(n_rows, min(MAX_ROWS, n_rows), replace=False))
        seen = self.see(state.X[chosen], self.nearest_others(chosen))
        error = state.r[chosen] - seen.V @ state.gamma - seen.near
        variance = seen.residual + state.noise[chosen]
        spread = times_lower_transposed(seen.V, state.T)
        leverage = np.minimum(np.einsum("nk,nk->n", spread, spread) / variance, MOST_LEVERAGE)
        z = error / np.sqrt(variance * (1.0 - leverage))
        return LeaveOneOut(len(chosen), float(np.sqrt(np.mean(z**2))), float(np.mean(np.abs(z) <= NORMAL_95)))

    def in_sample(self, rows: Rows) -> InSample:
        """The training rows with and without what they say themselves. Takes O(n m (K^2 + m K + m^2)).

        From their neighbours without them, and what the knots know of them is taken off, as in `leave_one_out`.
        """
        state, n = self.state, len(rows)
        error, variance = np.empty(n), np.empty(n)
        for some in block_slices(n, ROWS_TOGETHER):
            seen = self.see(rows.X[some], self.nearest_others(np.arange(some.start, some.stop)))
            spread = times_lower_transposed(seen.V, state.T)
            known = np.einsum("nk,nk->n", spread, spread)
            left = 1.0 - np.minimum(known / (seen.residual + state.noise[some]), MOST_LEVERAGE)
            error[some] = (state.r[some] - seen.V @ state.gamma - seen.near) / left
            variance[some] = seen.residual + known / left
        return InSample.of_left_out(rows, one_per_row(state.model, rows), error, variance)

    def residuals(self, chosen: np.ndarray, scores: RowScores | None = None) -> LowRankResiduals:
        """Residuals of training rows given earlier ones of a random order.

        If the model is right, errors of rows given near rows that come earlier are independent but for what the knots
        have learned of all of them: the covariance of a is diag(w) - H H', as without neighbours (N1, N2).
        """
        state = self.state
        rank = np.random.default_rng(0).permutation(len(state.X))
        a, w, H = np.empty(len(chosen)), np.empty(len(chosen)), np.empty((len(chosen), self.width))
        for some in block_slices(len(chosen), ROWS_TOGETHER):
            rows = chosen[some]
            seen = self.see(state.X[rows], self._nearest_earlier(rows, rank))
            w[some] = 1.0 / (seen.residual + state.noise[rows])
            a[some] = w[some] * (state.r[rows] - seen.V @ state.gamma - seen.near)
            H[some] = w[some, None] * times_lower_transposed(seen.V, state.T)
        return LowRankResiduals(a, w, H)

    def refit(self, rows: Rows, executor: Executor, rng: np.random.Generator) -> VecchiaPosterior:
        """The posterior of other rows through the same knots, with neighbours among them."""
        model = self.state.model
        around, given = not model.likelihood.conjugate, GivenKnots.of(model, rows, self.state.Z, self.state.jitter)
        ordering = vecchia_ordering(model.kernel, rows, self.n_neighbors, rng, around=around, given=given)
        model, rows = replace(model, residual=ordering.residual), rows[ordering.rows]
        state = self._refitted(model, rows, executor)
        return VecchiaPosterior(VecchiaState.of(state, rows, self.state.n_predicting))

    def _nearest_earlier(self, rows: np.ndarray, rank: np.ndarray) -> np.ndarray:
        """Numbers of those of the nearest rows that come earlier by their rank, [n, m]; `MISSING` for too few."""
        m = self.n_neighbors
        near, _ = self.ranking(self.state.X[rows], 2 * m + 1)  # one is the row itself, and some come later
        earlier = rank[near] < rank[rows][:, None]
        first = np.argsort(~earlier, axis=1, kind="stable")[:, :m]
        return np.where(np.take_along_axis(earlier, first, 1), np.take_along_axis(near, first, 1), MISSING)

    def nearest_others(self, rows: np.ndarray) -> np.ndarray:
        """Numbers of the nearest other training rows of training rows with these numbers [n], [n, m]."""
        m = min(self.state.n_predicting, len(self.state.X) - 1)
        near, _ = self.ranking(self.state.X[rows], m + 1)
        # the row itself goes last; where equal rows crowd it out, the farthest goes
        others = np.argsort(near == rows[:, None], axis=1, kind="stable")[:, :m]
        return np.take_along_axis(near, others, 1)

    def residual_variance(self, X: np.ndarray) -> np.ndarray:
        """Residual variance, given knots and neighbours, at the rows of X, [n]."""
        return self.through_knots(X).residual

    def residual_covariance(self, X: np.ndarray) -> np.ndarray:
        """Joint residual covariance, given knots and neighbours, of the rows of X, [n, n]  (N8).

        It is that of e - A z_n under the prior, where z_n are residuals with noise of each row's own neighbours: so it
        is positive semi-definite, its diagonal is the residual variance, and with all training rows as neighbours it
        is exact. With fewer, what a neighbour of one row says of another row is left out, unless it is the neighbour
        of both. Takes O((n + u)^2) values of the kernel for u different neighbours.
        """
        return self._left_open(self.see(X))

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
        """Krige the residuals of rows; see `Sight`.

        From the nearest places, of which the farther ones count less (N13), so that what is seen is continuous in X; or
        from training rows with the numbers `near` [n, m], of which some may be `MISSING`.
        """
        state = self.state
        kernel = state.model.kernel
        if near is None:
            found, rows = self.places.around(X, state.n_predicting), self.places.rows
        else:
            found, rows = Neighbourhoods(near, np.ones(near.shape)), self.rows
        assert rows.noise_variance is not None
        missing = found.near == MISSING
        used, place = np.unique(found.near[~missing], return_inverse=True)
        members = np.full((len(X), missing.shape[1] + 1), len(used) + len(X), np.int32)
        members[:, :-1][~missing] = place
        members[:, -1] = len(used) + np.arange(len(X))
        points = np.vstack([rows.X[used], X])
        v = times_lower_transposed(kernel(points, state.Z), state.L_inverse)
        c = np.maximum(kernel.diag(points) - np.einsum("nk,nk->n", v, v), 0.0)
        # a latent value has no noise; its floor is taken off again
        noise, _ = noise_of_rows(kernel, points, np.append(rows.noise_variance[used], np.zeros(len(X))))
        given = Conditionals.weighted(Joint(kernel, points, with_zeros(v), c, noise), members, found.weights)
        floor = NOISE_FLOOR * kernel.diag(X)
        mixed = given.residuals(with_zeros(np.hstack([v, state.model.mean.basis(points)])))
        r = np.where(missing, 0.0, rows.y[found.near])
        left = np.maximum(given.D - floor, 0.0)
        return Sight(mixed, np.einsum("nm,nm->n", given.A, r), left, points, noise[: len(used)], given)
