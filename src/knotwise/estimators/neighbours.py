"""A test of too few knots: do residuals of neighbouring rows agree more than the model says?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from knotwise.evidence.scores import RowScores
from knotwise.evidence.sites import damping
from knotwise.knots.problem import Problem
from knotwise.numerics.linalg import times_lower_transposed
from knotwise.posterior import SparsePosterior

__all__ = ["NeighbourTest", "neighbour_test"]

N_NEIGHBOURS = 4
MAX_ANCHORS = 5000  # rows whose neighbours are looked up, so that the test stays cheap for any number of rows
LEAST_ROWS = 30


@dataclass(frozen=True)
class NeighbourTest:
    """How much residuals of neighbours agree beyond what the model expects.

    `correlation` is the excess correlation, `z` the same in standard deviations under the model, `p` the chance of
    a larger one if the knots and the kernel miss nothing.
    """

    correlation: float
    z: float
    p: float
    n_pairs: int


def neighbour_test(problem: Problem, posterior: SparsePosterior, scores: RowScores) -> NeighbourTest | None:
    """Compare the residuals of each row and its nearest neighbours; None where the rows are too few.

    The residuals are a = R (z - m), with z the sites' pseudo-observations and R the inverse of their covariance under
    the model (S6, L5): for Gaussian data the weighted residual, for counts the observed minus the expected. Under the
    model their covariance is R itself, so the sum of a_i a_j over pairs has mean tr(A R) / 2 and variance
    tr(A R A R) / 2, A the graph of neighbours. Costs O(n K^2) for n <= 25,000 rows. Distances are those of the
    standardised inputs.
    """
    from scipy.special import ndtr

    pairs = _neighbours(problem.rows.X)
    if pairs is None:
        return None
    rows, first, second = pairs
    a, w, H = _residuals(problem, posterior, scores, rows)
    A = _graph(first, second, len(rows))
    AH = A @ H
    mean = -np.einsum("pk,pk->", H[first], H[second])
    # tr(A R A R) with R = diag(w) - H H', term by term: no [n, n] matrix is formed
    variance = (w[first] * w[second]).sum() - w @ np.einsum("nk,nk->n", AH, AH) + 0.5 * ((H.T @ AH) ** 2).sum()
    spread = np.sqrt(np.maximum(w - np.einsum("nk,nk->n", H, H), 0.0))
    size = float((spread[first] * spread[second]).sum())
    if not (variance > 0 and size > 0):
        return None
    excess = float((a[first] * a[second]).sum() - mean)
    z = excess / float(np.sqrt(variance))
    return NeighbourTest(excess / size, z, float(ndtr(-z)), len(first))


def _neighbours(X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """The rows in pairs, and the pairs as positions among them; each pair once."""
    from scipy.spatial import KDTree

    if len(X) < LEAST_ROWS:
        return None
    anchors = np.arange(len(X))
    if len(X) > MAX_ANCHORS:
        anchors = np.random.default_rng(0).choice(len(X), MAX_ANCHORS, replace=False)
    _, near = KDTree(X).query(X[anchors], k=N_NEIGHBOURS + 1)
    pairs = np.column_stack([np.repeat(anchors, N_NEIGHBOURS + 1), near.ravel()])
    pairs = np.unique(np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1), axis=0)
    rows, positions = np.unique(pairs, return_inverse=True)
    first, second = positions.reshape(-1, 2).T
    return rows, first, second


def _residuals(
    problem: Problem, posterior: SparsePosterior, scores: RowScores, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The vector a of some rows, and their covariance diag(w) - H H'."""
    state = posterior.state
    _, V = posterior._features(problem.rows.X[rows])
    w = scores.W[rows] * damping(state.model, scores.W[rows], scores.c[rows])
    H = w[:, None] * times_lower_transposed(V, state.T)
    if scores.start is not None:  # a at the mode of non-Gaussian data
        return scores.start[rows], w, H
    return w * (problem.rows.y[rows] - state.model.mean.offset - V @ state.gamma), w, H


def _graph(first: np.ndarray, second: np.ndarray, n: int) -> Any:
    """The symmetric matrix that is 1 for neighbours."""
    from scipy.sparse import coo_array

    ones = np.ones(2 * len(first))
    return coo_array((ones, (np.r_[first, second], np.r_[second, first])), shape=(n, n)).tocsr()
