"""The sparse engine: log evidence and gradient through knots, for every power alpha (FIC 1, VFE 0).

The posterior mode and the value come from passes over row blocks (one for Gaussian data, one per Newton
iteration otherwise), the gradient from one or two more. Equations (S..) are those of
docs/derivations/sparse-gaussian.md; arrays of a block have a row per datum, so `V` in this package is the [n, K]
transpose of the derivation's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from knotwise.evidence.adjoint import sparse_gradient
from knotwise.evidence.gaussian import GaussianMode, gaussian_mode, is_conjugate
from knotwise.evidence.laplace import LaplaceMode, laplace_mode
from knotwise.evidence.model import Evidence, Jitter, Model, Rows
from knotwise.evidence.projection import KEEP_BYTES, Projector
from knotwise.numerics.blocks import Executor, Serial

__all__ = ["SparseState", "sparse_evidence"]


@dataclass(frozen=True)
class SparseState:
    """All that prediction needs; no row of the data is in it.

    L_inverse inverts the factor of Kuu + jitter, T the factor of B, gamma = V a = B^-1 V (w r).
    """

    model: Model
    Z: np.ndarray
    jitter: Jitter
    L_inverse: np.ndarray
    T: np.ndarray
    gamma: np.ndarray


def sparse_evidence(
    model: Model,
    rows: Rows,
    Z: np.ndarray,
    *,
    jitter: Jitter,
    gradient: bool = True,
    executor: Executor | None = None,
    block_size: int | None = None,
    keep_bytes: int = KEEP_BYTES,
    start: np.ndarray | None = None,
) -> Evidence:
    """Compute the log evidence of the rows through the knots Z and, if asked, its gradient.

    For Gaussian data it costs 6 N K^2 flops with V kept and 7 N K^2 streaming (those of triangles counted once);
    memory O(block K + K^2 + N), and up to `keep_bytes` more. The gradient for all knots costs no more than for
    one. `start` is the `start` of a neighbouring evaluation. Raises `NotPositiveDefiniteError` where Kuu + jitter
    has no Cholesky factor.
    """
    projector = Projector(
        model,
        rows,
        Z,
        jitter=jitter,
        executor=executor or Serial(),
        block_size=block_size,
        keep_bytes=keep_bytes,
    )
    exact = is_conjugate(model)
    projector.keep &= gradient or not exact  # a single pass keeps nothing
    mode: GaussianMode | LaplaceMode = gaussian_mode(projector) if exact else laplace_mode(projector, start)
    state = SparseState(model, Z, jitter, projector.L_inverse, mode.T, mode.gamma)
    if not gradient:
        return Evidence(mode.value, None, None, state, mode.start, mode.converged)
    bar = sparse_gradient(projector, mode, jitter)
    return Evidence(mode.value, bar.theta, bar.Z, state, mode.start, mode.converged)
