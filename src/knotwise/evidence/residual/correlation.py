"""Which residuals are most correlated, given the knots: Vecchia neighbours where one distance does not tell.

The sum of a function of some columns and one of others is strongly correlated for rows that are near each other in
either. Equations (N..) are those of docs/derivations/neighbours.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from knotwise.evidence.model import Jitter, Model, Rows
from knotwise.evidence.residual.conditionals import noise_of_rows
from knotwise.kernels.base import Kernel
from knotwise.numerics.blocks import block_slices
from knotwise.numerics.linalg import cholesky, invert_lower, times_lower_transposed
from knotwise.numerics.nearest import MISSING

#: candidates for each neighbour, over all distances
CANDIDATES = 6
#: of all coordinates, beside those of one summand: of rows that are equally far in it, the nearest are candidates. In a
#: graph, and where new rows move: the smaller, the more steeply predictions change between two sets of such rows
OTHERS, OTHERS_OF_NEW = 0.01, 0.1
#: rows whose candidates are seen through the knots together
ROWS_TOGETHER = 256


def metrics(kernel: Kernel, X: np.ndarray, others: float = OTHERS) -> list[np.ndarray]:
    """Points of the rows for each distance that may say who is a neighbour; one, unless summands see other columns."""
    points, parts = kernel.coordinates(X), kernel.coordinates_by_columns(X)
    return [points] + [np.hstack([part, others * points]) for part in parts.values()] if len(parts) > 1 else [points]


def n_candidates(n_neighbors: int, n_metrics: int) -> int:
    """How many of the nearest rows by each of so many distances are candidates."""
    return max(n_neighbors + 1, -(-CANDIDATES * n_neighbors // n_metrics))


def without_repeats(numbers: np.ndarray, worth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Candidates [n, C] and what each is worth, in the order of their numbers; `MISSING` and 0 for one named before.

    Of those that are named twice, the one that is worth most stays.
    """
    order = np.lexsort((-worth, numbers), axis=1)
    numbers, worth = np.take_along_axis(numbers, order, 1), np.take_along_axis(worth, order, 1)
    again = np.zeros(numbers.shape, bool)
    again[:, 1:] = numbers[:, 1:] == numbers[:, :-1]
    return np.where(again, MISSING, numbers), np.where(again, 0.0, worth)


@dataclass(frozen=True, eq=False)
class GivenKnots:
    """Residuals K - Q given the knots Z, of rows X [N, D] with this noise [N]."""

    kernel: Kernel
    Z: np.ndarray
    L_inverse: np.ndarray
    X: np.ndarray
    noise: np.ndarray

    @staticmethod
    def of(model: Model, rows: Rows, Z: np.ndarray, jitter: Jitter) -> GivenKnots:
        """Of the rows of a fit; data that are not Gaussian have no noise before their sites are found."""
        kernel, Kuu = model.kernel, model.kernel(Z, Z)
        Kuu.flat[:: len(Z) + 1] += jitter.relative * jitter.scale(kernel)
        noise = model.noise_of(rows).variance(rows) if model.likelihood.conjugate else 0.0
        noise = np.broadcast_to(np.asarray(rows.per_copy(noise), float), len(rows))
        return GivenKnots(kernel, Z, invert_lower(cholesky(Kuu)), rows.X, noise)

    def __getitem__(self, rows: np.ndarray) -> GivenKnots:
        return GivenKnots(self.kernel, self.Z, self.L_inverse, self.X[rows], self.noise[rows])

    def squared_covariances(self, X: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        """C_xj^2 / (c_jj + noise_j) for new rows X [n, D] and rows with the numbers j [n, C], 0 for `MISSING`  (N14).

        It is the variance of e_x that an observation of e_j alone takes away: c_xx times their squared correlation.
        """
        out = np.empty(candidates.shape)
        for some in block_slices(len(X), ROWS_TOGETHER):
            out[some] = self._squared_covariances(X[some], candidates[some])
        return out

    def _squared_covariances(self, X: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        missing, C = candidates == MISSING, candidates.shape[1]
        used, place = np.unique(np.where(missing, 0, candidates), return_inverse=True)
        place, near = place.reshape(candidates.shape), self.X[used]
        v, v_near = self._through_knots(X), self._through_knots(near)
        variance = np.maximum(self.kernel.diag(near) - np.einsum("nk,nk->n", v_near, v_near), 0.0)
        variance += noise_of_rows(self.kernel, near, self.noise[used])[0]
        covariance, _ = self.kernel.pairs(np.repeat(X, C, axis=0), near[place.ravel()])
        covariance = covariance.reshape(candidates.shape) - np.matmul(v_near[place], v[:, :, None])[:, :, 0]
        return np.where(missing, 0.0, covariance**2 / variance[place])

    def most_correlated(self, rows: np.ndarray, candidates: np.ndarray, n: int) -> np.ndarray:
        """The n candidates [n_rows, C] of each row that are most correlated with it, first the most, [n_rows, n]."""
        candidates, _ = without_repeats(candidates, np.ones(candidates.shape))
        worth = np.where(candidates == MISSING, -1.0, self.squared_covariances(self.X[rows], candidates))
        best = np.argsort(-worth, axis=1, kind="stable")[:, :n]
        return np.take_along_axis(candidates, best, 1).astype(np.int32)

    def _through_knots(self, X: np.ndarray) -> np.ndarray:
        return times_lower_transposed(self.kernel(X, self.Z), self.L_inverse)
