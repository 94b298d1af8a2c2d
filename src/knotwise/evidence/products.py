"""Products with the kernel matrix of all rows, block by block, and what conjugate gradients make of them.

No N x N matrix is kept: a product takes N^2 kernel values, in parallel over the blocks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from knotwise.evidence.blocks import Beside, Block
from knotwise.evidence.projection import Evaluation, ProjectedPass
from knotwise.kernels.base import Kernel
from knotwise.numerics.blocks import block_slices

__all__ = ["ROUNDING", "galerkin_quadratic", "kernel_product", "quadratic_form"]

COLUMNS = 1024  # of kernel values that are in memory at once
MAX_STEPS = 8
MAX_PAIRS = 2e9  # kernel values that all steps together may take, but for the first step
WORTH = 0.01  # of the quadratic form, in nats, below which another step brings too little
#: what rounding may do to a bound, relative to the sum of the squares in it
ROUNDING = 1e-14


def kernel_product(kernel: Kernel, A: np.ndarray, B: np.ndarray, x: np.ndarray) -> np.ndarray:
    """k(A, B) x, some columns at a time."""
    out = np.zeros(len(A))
    for s in block_slices(len(B), COLUMNS):
        out += kernel(A, B[s]) @ x[s]
    return out


def quadratic_form(at: Evaluation, x: np.ndarray) -> float:
    """x'K x for a vector with a number for each row, [N], the covariance of the mean's basis in K."""
    return float(x @ at.blocks.gather(ProductPass.of(at, x)))


def galerkin_quadratic(at: Evaluation, T: np.ndarray, a: np.ndarray, r: np.ndarray, p: np.ndarray) -> float:
    """A lower bound of r'(K + D)^-1 r with D = diag(1 / p), by conjugate gradients from 0 (C2b).

    The preconditioner is (Q + D)^-1, so the first direction is a, and T inverts the factor of B. Each step costs a
    product with K. The bound holds at every vector that the steps lead to, whatever rounding does to them.
    """
    n_steps = int(np.clip(MAX_PAIRS / len(r) ** 2, 1, MAX_STEPS))
    x, left, z, direction, best = np.zeros_like(r), r.copy(), a, a, 0.0
    slope, prior = float(left @ z), at.model.kernel.diag(at.blocks.take(slice(None)).X)
    for step in range(n_steps):
        image = at.blocks.gather(ProductPass.of(at, direction)) + direction / p
        bend = float(direction @ image)
        if not (bend > 0 and slope > 0):
            break
        x = x + (slope / bend) * direction
        left = left - (slope / bend) * image
        # 2 r'x - x'(K + D)x, in which products with K are exact to some digits of k(x, x) only
        found = float(r @ x + x @ left - ROUNDING * (x @ (prior * x) + np.abs(r) @ np.abs(x)))
        gained, best = found - best, max(found, best)
        if step and gained < 2 * WORTH:
            break
        if step + 1 < n_steps:
            z = _precondition(at, T, p, left)
            slope, before = float(left @ z), slope
            direction = z + (slope / before) * direction
    return best


def _precondition(at: Evaluation, T: np.ndarray, p: np.ndarray, x: np.ndarray) -> np.ndarray:
    """(Q + D)^-1 x = p x - p V'B^-1 V p x (S5)."""
    projected = T.T @ (T @ at.blocks.sum(ProjectPass(at.projector, p * x)))
    return p * (x - at.blocks.gather(SpreadPass(at.projector, projected)))


# -- passes ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ProductPass(ProjectedPass):
    """K x at the rows of a block, [n], for all rows X and a number x for each; K has the covariance of the basis."""

    X: np.ndarray
    basis: np.ndarray
    x: np.ndarray

    @staticmethod
    def of(at: Evaluation, x: np.ndarray) -> ProductPass:
        rows = at.blocks.take(slice(None))
        return ProductPass(at.projector, rows.X, x @ rows.basis, x)

    def __call__(self, block: Block, beside: Beside) -> np.ndarray:
        own = block.own
        return kernel_product(self.projector.model.kernel, own.X, self.X, self.x) + own.basis @ self.basis


@dataclass(frozen=True)
class ProjectPass(ProjectedPass):
    """The sum of V x over the rows, [K + p]."""

    x: np.ndarray

    def __call__(self, block: Block, beside: Beside) -> np.ndarray:
        return self.x[block.start : block.start + block.n] @ self.projector.project(block, beside).V


@dataclass(frozen=True)
class SpreadPass(ProjectedPass):
    """V'g at the rows of a block, [n]."""

    g: np.ndarray

    def __call__(self, block: Block, beside: Beside) -> np.ndarray:
        return self.projector.project(block, beside).V @ self.g
