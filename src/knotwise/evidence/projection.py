"""Data seen through knots: V and c of each block of rows, kept in memory or computed again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from knotwise.evidence.model import Jitter, Model, Rows
from knotwise.kernels.base import Pullback
from knotwise.numerics.blocks import Executor, block_slices, rows_per_block, sum_in_order
from knotwise.numerics.linalg import cholesky, invert_lower, times_lower_transposed

__all__ = ["KEEP_BYTES", "Projection", "Projector"]

#: V and what its pullback needs are kept in memory up to this size, and recomputed block by block above it
KEEP_BYTES = 256 * 2**20

Sums = TypeVar("Sums")


@dataclass(frozen=True)
class Projection:
    """One block seen through the knots: V [n, K + p], residual variance c [n], the kernel's pullback."""

    V: np.ndarray
    c: np.ndarray
    pullback: Pullback


class Projector:
    """Maps functions over the blocks of the data, each with its projection, and adds their results in order.

    While V and the kernel's arrays fit in `keep_bytes` they are computed once and kept for later passes;
    otherwise every pass computes them again. Nothing else differs.
    """

    def __init__(
        self,
        model: Model,
        rows: Rows,
        Z: np.ndarray,
        *,
        jitter: Jitter,
        executor: Executor,
        block_size: int | None,
        keep_bytes: int,
    ) -> None:
        K, p = len(Z), rows.basis.shape[1]
        self.model, self.rows, self.Z, self.executor = model, rows, Z, executor
        self.slices = block_slices(len(rows), block_size or rows_per_block(K + p, len(rows)))
        self.blocks = [rows] if len(self.slices) == 1 else [rows[s] for s in self.slices]
        arrays = 1 + 2 * model.kernel.n_leaves
        self.keep = 8 * len(rows) * (K + p) * arrays <= keep_bytes
        self.kept: dict[int, Projection] = {}
        value, self.pull_uu = model.kernel.value_and_pullback(Z, Z)
        Kuu = value.copy()
        Kuu.flat[:: K + 1] += jitter.relative * jitter.scale(model.kernel)
        self.L_inverse = invert_lower(cholesky(Kuu))  # (S1)

    def sum(self, function: Callable[[int, Rows, Projection], Sums]) -> Sums:
        """Add function(i, block, projection) over the blocks i, in block order."""
        return sum_in_order(
            self.executor.map(lambda i: function(i, self.blocks[i], self._project(i)), range(len(self.blocks)))
        )

    def _project(self, i: int) -> Projection:
        """See one block of rows through the knots. Costs O(n K^2) when it is not kept."""
        if i in self.kept:
            return self.kept[i]
        block, kernel = self.blocks[i], self.model.kernel
        Kfu, pullback = kernel.value_and_pullback(block.X, self.Z)
        K = len(self.Z)
        V = np.empty((len(block), K + block.basis.shape[1]), order="F")
        Vk = times_lower_transposed(Kfu, self.L_inverse, out=V[:, :K])  # [n, K]  (S2)
        V[:, K:] = block.basis  # (S16): c stays the kernel's
        c = kernel.diag(block.X)
        c -= np.einsum("nk,nk->n", Vk, Vk)  # [n]  (S3)
        np.maximum(c, 0.0, out=c)  # rounding can push c below 0 when a knot sits on a datum
        done = Projection(V, c, pullback)
        if self.keep:
            self.kept[i] = done
        return done
