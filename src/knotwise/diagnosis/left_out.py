"""Training rows of a model with neighbours, predicted without themselves: are errors as large as they should be?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from knotwise.evidence.model import Rows
from knotwise.numerics.blocks import block_slices
from knotwise.numerics.linalg import times_lower_transposed
from knotwise.numerics.nearest import MISSING
from knotwise.posterior.vecchia import ROWS_TOGETHER, NeighbourPosterior, NeighbourState

__all__ = ["NORMAL_95", "LeftOut", "predict_left_out", "residuals_in_order", "rows_of"]

MAX_ROWS, LEAST_ROWS = 2000, 30
NORMAL_95 = 1.959964
MOST_LEVERAGE = 0.95  # of a row in what the knots say: knots on rows would say nothing without them


@dataclass(frozen=True)
class LeftOut:
    """How well training rows were predicted by their neighbours without themselves: `left_out` of a `Diagnosis`.

    Attributes
    ----------
    n_rows : int
        How many rows were predicted.
    size : float
        Root mean square of their errors over their standard deviations; 1 if the model is right.
    coverage : float
        Share of the rows in their 95 % intervals.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise import GPRegressor
    >>> X = np.linspace(0, 1, 60)[:, None]
    >>> y = np.sin(6 * X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=60)
    >>> gp = GPRegressor(knots=4, n_neighbors=5, random_state=0).fit(X, y)
    >>> left_out = gp.diagnose().left_out
    >>> left_out.n_rows, 0.8 < left_out.coverage <= 1
    (60, True)
    """

    n_rows: int
    size: float
    coverage: float


def rows_of(state: NeighbourState) -> Rows:
    """The rows that a state holds; each once, with the noise of its mean where it counts more often."""
    return Rows(state.X, state.r, state.noise, np.empty((len(state.X), 0)))


def predict_left_out(posterior: NeighbourPosterior) -> LeftOut | None:
    """Predict up to 2,000 training rows from their neighbours without themselves; None where rows are too few.

    What the row itself has told the knots is taken off: with e the error through knots that have seen the row, D its
    variance given the knots and q that of what the knots say, the standardised error is e / sqrt(D (1 - q / D)), by a
    downdate of rank one (N9). Takes O(n m (K^2 + m K + m^2)).
    """
    state = posterior.state
    n_rows = len(state.X)
    if n_rows < LEAST_ROWS:
        return None
    chosen = np.sort(np.random.default_rng(0).choice(n_rows, min(MAX_ROWS, n_rows), replace=False))
    seen = posterior.see(state.X[chosen], posterior.nearest_others(chosen))
    error = state.r[chosen] - seen.V @ state.gamma - seen.near
    variance = seen.residual + state.noise[chosen]
    spread = times_lower_transposed(seen.V, state.T)
    leverage = np.minimum(np.einsum("nk,nk->n", spread, spread) / variance, MOST_LEVERAGE)
    z = error / np.sqrt(variance * (1.0 - leverage))
    return LeftOut(len(chosen), float(np.sqrt(np.mean(z**2))), float(np.mean(np.abs(z) <= NORMAL_95)))


def residuals_in_order(posterior: NeighbourPosterior, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Residuals of training rows given earlier ones of a random order: a [n], w [n] and H [n, K + p].

    If the model is right, errors of rows given near rows that come earlier are independent but for what the knots have
    learned of all of them: the covariance of a is diag(w) - H H', as without neighbours (N1, N2).
    """
    state = posterior.state
    rank = np.random.default_rng(0).permutation(len(state.X))
    a, w, H = np.empty(len(chosen)), np.empty(len(chosen)), np.empty((len(chosen), len(state.gamma)))
    for some in block_slices(len(chosen), ROWS_TOGETHER):
        rows = chosen[some]
        seen = posterior.see(state.X[rows], _nearest_earlier(posterior, rows, rank))
        w[some] = 1.0 / (seen.residual + state.noise[rows])
        a[some] = w[some] * (state.r[rows] - seen.V @ state.gamma - seen.near)
        H[some] = w[some, None] * times_lower_transposed(seen.V, state.T)
    return a, w, H


def _nearest_earlier(posterior: NeighbourPosterior, rows: np.ndarray, rank: np.ndarray) -> np.ndarray:
    """Numbers of those of the nearest rows that come earlier by their rank, [n, m]; `MISSING` where they are fewer."""
    m = posterior.state.n_neighbors
    near = posterior.nearest(posterior.nearest.points[rows], 2 * m + 1)  # one is the row itself, and some come later
    earlier = rank[near] < rank[rows][:, None]
    first = np.argsort(~earlier, axis=1, kind="stable")[:, :m]
    return np.where(np.take_along_axis(earlier, first, 1), np.take_along_axis(near, first, 1), MISSING)
