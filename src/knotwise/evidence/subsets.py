"""The evidence through any subset of the knots, from sums over rows that all of them have seen."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from knotwise.numerics.linalg import cholesky, invert_lower, log_det

__all__ = ["KnotSums"]


@dataclass(frozen=True)
class KnotSums:
    """What VFE knows of the data through knots, with the sites of the observations held.

    Kuu [K, K] has its jitter; G = V diag(w) V' and g = V (h b) are sums over the rows (S4, S6), with the basis of the
    mean behind the knots. A subset of the knots sees the rows through M'V, where M has orthonormal columns, so its sums
    are M'G M and M'g: no row is needed. Exact for Gaussian data; for others the sites would move a little, which
    `sites_move` says.
    """

    Kuu: np.ndarray
    G: np.ndarray
    g: np.ndarray
    sites_move: bool = False

    @cached_property
    def L(self) -> np.ndarray:
        return cholesky(self.Kuu)

    @cached_property
    def L_inverse(self) -> np.ndarray:
        return invert_lower(self.L)

    @cached_property
    def _factor(self) -> tuple[np.ndarray, np.ndarray]:
        """Factor of B = I + G, and its inverse."""
        B = self.G.copy()
        B.flat[:: len(B) + 1] += 1.0
        LB = cholesky(B)
        return LB, invert_lower(LB)

    @cached_property
    def value(self) -> float:
        """The log evidence, up to what does not depend on the knots (S7 at power 0)."""
        LB, T = self._factor
        explained = float(self.G.diagonal()[: len(self.Kuu)].sum())
        return 0.5 * (explained - log_det(LB) + float(((T @ self.g) ** 2).sum()))

    @cached_property
    def losses(self) -> np.ndarray:
        """Loss of log evidence from dropping each knot alone, [K]. O(K^3) for all of them."""
        K, T = len(self.Kuu), self._factor[1]
        # what knot k adds to the others is a unit vector u in the space of V: column k of L^-1, scaled
        U = np.zeros((len(self.G), K))
        U[:K] = self.L_inverse / np.sqrt(np.einsum("jk,jk->k", self.L_inverse, self.L_inverse))
        left = np.einsum("jk,jk->k", T @ U, T @ U)  # u'B^-1 u
        fit = (T.T @ (T @ self.g)) @ U
        return 0.5 * (np.log(left) + fit**2 / left + np.einsum("jk,jk->k", U, self.G @ U))

    def without(self, knots: np.ndarray) -> KnotSums:
        """The sums of the other knots. O(K^3)."""
        kept = np.setdiff1d(np.arange(len(self.Kuu)), knots)
        Kuu = self.Kuu[np.ix_(kept, kept)]
        n_basis = len(self.G) - len(self.Kuu)
        M = np.zeros((len(self.G), len(kept) + n_basis))
        M[: len(self.Kuu), : len(kept)] = (invert_lower(cholesky(Kuu)) @ self.L[kept]).T
        M[len(self.Kuu) :, len(kept) :] = np.eye(n_basis)
        return KnotSums(Kuu, M.T @ self.G @ M, M.T @ self.g, self.sites_move)
