"""Pivoted Cholesky over rows: each next knot is the row that the knots so far explain least."""

from __future__ import annotations

import numpy as np

from knotwise.kernels.base import Kernel
from knotwise.numerics.linalg import cholesky, invert_lower

__all__ = ["Pivots"]

#: conditional variance, relative to the prior's, below which a row brings nothing new
SMALLEST_SHARE = 1e-9


class Pivots:
    """Rows of X in the order of largest weighted conditional variance, extended on demand.

    Holds V and c of the rows given the knots so far: one more knot costs O(N K) time.
    """

    def __init__(self, kernel: Kernel, X: np.ndarray, weights: np.ndarray | float = 1.0, Z: np.ndarray | None = None):
        self.kernel, self.X, self.weights = kernel, X, weights
        self.prior = kernel.diag(X)
        self.c = self.prior.copy()
        self.V = np.empty((len(X), 64), order="F")
        self.width = 0
        self.rows: list[int] = []
        if Z is not None and len(Z):
            Kuu = kernel(Z, Z)
            Kuu.flat[:: len(Z) + 1] += 1e-10 * Kuu.diagonal().mean()
            self._append(kernel(X, Z) @ invert_lower(cholesky(Kuu)).T)

    def extend(self, n: int) -> np.ndarray:
        """Choose rows until there are n of them, or none is left that brings anything; return all chosen."""
        while len(self.rows) < n:
            row = int(np.argmax(self.weights * self.c))
            left = self.c[row]
            worth = left * (self.weights if np.ndim(self.weights) == 0 else self.weights[row])  # type: ignore[index]
            if not (left > SMALLEST_SHARE * self.prior[row] and worth > 0):
                break
            column = self.kernel(self.X, self.X[row : row + 1])[:, 0]
            column -= self.V[:, : self.width] @ self.V[row, : self.width]
            column /= np.sqrt(left)
            self._append(column[:, None])
            self.c[row] = 0.0
            self.rows.append(row)
        return np.array(self.rows, int)

    def _append(self, columns: np.ndarray) -> None:
        need = self.width + columns.shape[1]
        if need > self.V.shape[1]:
            grown = np.empty((len(self.X), max(need, 2 * self.V.shape[1])), order="F")
            grown[:, : self.width] = self.V[:, : self.width]
            self.V = grown
        self.V[:, self.width : need] = columns
        self.width = need
        self.c = np.maximum(self.c - np.einsum("nk,nk->n", columns, columns), 0.0)
