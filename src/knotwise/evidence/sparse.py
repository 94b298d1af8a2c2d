"""The sparse engine: log evidence (log marginal likelihood, or its bound) and gradient through knots.

The sites and the value come from passes over row blocks (one for Gaussian data, some for others), the gradient from one
or two more. Equations (S..) are those of docs/derivations/sparse-gaussian.md; arrays of a block have a row per datum,
so `V` in this package is the [n, K] transpose of the derivation's.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from knotwise.errors import TooLargeError
from knotwise.evidence.adjoint import sparse_gradient
from knotwise.evidence.blocks import KEEP_BYTES, Blocks, as_blocks
from knotwise.evidence.inference import inference_of
from knotwise.evidence.inference.base import PseudoData
from knotwise.evidence.model import Evidence, Jitter, Model, Rows
from knotwise.evidence.projection import Evaluation
from knotwise.numerics.blocks import Executor


@dataclass(frozen=True)
class SparseState:
    """All that prediction needs; no row of the data is in it.

    L_inverse inverts the factor of Kuu + jitter, T the factor of B, gamma = V a = B^-1 V (w r).
    `pseudo` are the observations that stand for the data where near rows predict and the data are not Gaussian.
    """

    model: Model
    Z: np.ndarray
    jitter: Jitter
    L_inverse: np.ndarray
    T: np.ndarray
    gamma: np.ndarray
    pseudo: PseudoData | None = field(default=None, kw_only=True)


def sparse_evidence(
    model: Model,
    rows: Rows | Blocks,
    Z: np.ndarray,
    *,
    jitter: Jitter,
    gradient: bool = True,
    start: np.ndarray | None = None,
    executor: Executor | None = None,
    block_size: int | None = None,
    keep_bytes: int = KEEP_BYTES,
) -> Evidence:
    """Compute the log evidence of the rows through the knots Z and, if asked, its gradient.

    For Gaussian data it costs 6 N K^2 flops with V kept and 7 N K^2 streaming (those of triangles counted once);
    memory O(block K + K^2), and up to `keep_bytes` more in the per-block caches. The gradient for all knots costs no
    more than for one. `start` is the gamma of a state through the same knots. Raises `NotPositiveDefiniteError` where
    Kuu + jitter has no Cholesky factor. `rows` may be blocks, which know how they are computed.
    """
    inference = inference_of(model)
    blocks = as_blocks(rows, executor, block_size, keep_bytes)
    with Evaluation.of(model, blocks, Z, jitter, keep=gradient or inference.several_passes) as at:
        fit = inference.fit(at, start)
        theta_bar, Z_bar = sparse_gradient(at, fit) if gradient else (None, None)
    state = SparseState(model, Z, jitter, at.projector.L_inverse, fit.T, fit.gamma, pseudo=fit.pseudo)
    return Evidence(fit.value, theta_bar, Z_bar, state, fit.converged, fit.why)


#: the exact GP keeps a handful of N x N matrices: 4 GB at this size
MAX_FULL_ROWS = 10_000


def full_evidence(model: Model, rows: Rows, *, gradient: bool = True, start: np.ndarray | None = None) -> Evidence:
    """Compute the log evidence of the exact GP and, if asked, its gradient in theta.

    For Gaussian data it is exact, log N(y; m, K + noise); for other data it is that of the model's inference. Costs
    some N^3 flops; memory: a few N x N matrices. `start` is the a of a state of the same rows.
    """
    check_full_size(len(rows))
    return inference_of(model).exact(model, rows, gradient=gradient, start=start)


def check_full_size(n_rows: int) -> None:
    """Refuse sizes whose N x N matrices would not fit an ordinary machine."""
    if n_rows > MAX_FULL_ROWS:
        raise TooLargeError(
            f"The exact GP needs several {n_rows:,} x {n_rows:,} matrices ({8e-9 * n_rows**2:.0f} GB each) and "
            f"stops at {MAX_FULL_ROWS:,} rows. Use `approximation='vfe'` or `'fic'` with knots, or fewer rows.",
            n_rows=n_rows,
            limit=MAX_FULL_ROWS,
        )
