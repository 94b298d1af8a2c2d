"""Data seen through knots: V and c of each block of rows, kept in the per-block cache or computed again."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np

from knotwise.evidence.blocks import Block, BlockCache, Blocks, Halo
from knotwise.evidence.model import Jitter, Model
from knotwise.evidence.residual import check_rows, residual_of
from knotwise.kernels.base import Pullback
from knotwise.numerics.linalg import cholesky, invert_lower, times_lower_transposed

_serials = count()


def next_serial() -> int:
    """A number that no other object of this process has: entries of the per-block cache are known by it."""
    return next(_serials)


@dataclass(frozen=True)
class Projection:
    """One block seen through the knots: V [n, K + p], residual variance c [n], the kernel's pullback.

    `kept` is what the residual has found and needs again, by name.
    """

    V: np.ndarray
    c: np.ndarray
    pullback: Pullback
    kept: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Projector:
    """Sees blocks of rows through the knots Z; L_inverse inverts the factor of Kuu with its jitter.

    With `keep` a projection stays in the per-block cache for later passes; otherwise each pass computes it again, but
    for what the residual has found, if `keep_residual` allows it.
    """

    model: Model
    Z: np.ndarray
    L_inverse: np.ndarray
    n_basis: int
    keep: bool
    serial: int
    keep_residual: bool = False

    @property
    def width(self) -> int:
        return len(self.Z) + self.n_basis

    def project(self, block: Block, cache: BlockCache) -> Projection:
        """See a block and its halo through the knots. Costs O(n K^2) when it is not kept."""
        serial, done = cache.get("projection", (None, None))
        if serial == self.serial:
            return done
        serial, found = cache.get("residual", (None, {}))
        rows, kernel, K = block.rows, self.model.kernel, len(self.Z)
        Kfu, pullback = kernel.value_and_pullback(rows.X, self.Z)
        V = np.empty((len(rows), self.width), order="F")
        Vk = times_lower_transposed(Kfu, self.L_inverse, out=V[:, :K])  # [n, K]  (S2)
        V[:, K:] = rows.basis  # (S16): c stays the kernel's
        c = kernel.diag(rows.X)
        c -= np.einsum("nk,nk->n", Vk, Vk)  # [n]  (S3)
        np.maximum(c, 0.0, out=c)  # rounding can push c below 0 when a knot sits on a datum
        done = Projection(V, c, pullback, found if serial == self.serial else {})
        if self.keep:
            cache["projection"] = (self.serial, done)
        elif self.keep_residual:
            cache["residual"] = (self.serial, done.kept)
        return done


@dataclass(frozen=True)
class Evaluation:
    """One evaluation at the driver: the rows, the knots through which they are seen, and the pullback of Kuu.

    It is a context: when it is left, what the passes have kept for each other is dropped.
    """

    blocks: Blocks
    projector: Projector
    jitter: Jitter
    pull_uu: Pullback

    @property
    def model(self) -> Model:
        return self.projector.model

    def __enter__(self) -> Evaluation:
        return self

    def __exit__(self, *exception: object) -> None:
        self.blocks.end_evaluation()

    @staticmethod
    def of(model: Model, blocks: Blocks, Z: np.ndarray, jitter: Jitter, *, keep: bool = True) -> Evaluation:
        """Factorise Kuu; raises `NotPositiveDefiniteError` where Kuu + jitter has no Cholesky factor.

        Projections are kept if the caller wants it, and while V and the arrays of kernel and residual fit in
        `keep_bytes`; what the residual has found is kept if that alone fits.
        """
        check_rows(model, blocks.summary.n_rows)
        value, pull_uu = model.kernel.value_and_pullback(Z, Z)
        Kuu = value.copy()
        Kuu.flat[:: len(Z) + 1] += jitter.relative * jitter.scale(model.kernel)
        L_inverse = invert_lower(cholesky(Kuu))  # (S1)
        n_basis = model.mean.basis(Z[:1]).shape[1]
        width = len(Z) + n_basis
        seen, left = width * (1 + 2 * model.kernel.n_leaves), residual_of(model).kept_numbers(width)
        keep_all, keep_left = (
            keep and 8 * blocks.summary.n_rows * numbers <= blocks.keep_bytes for numbers in (seen + left, left)
        )
        projector = Projector(model, Z, L_inverse, n_basis, keep_all, next_serial(), keep_left)
        return Evaluation(blocks, projector, jitter, pull_uu)


@dataclass(frozen=True)
class ProjectedPass:
    """A pass that sees each block through the knots; subclasses say what they sum."""

    projector: Projector

    @property
    def width(self) -> int:
        return residual_of(self.projector.model).block_width(self.projector.width)

    @property
    def halo(self) -> Halo | None:
        return residual_of(self.projector.model).halo
