"""The exact GP for Gaussian data: baseline, oracle, and the model of small subsets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from knotwise.errors import TooLargeError
from knotwise.evidence.model import Evidence, Model, Rows
from knotwise.evidence.sparse import LOG_2PI, assemble_gradient
from knotwise.numerics.linalg import cholesky, inverse_from_factor, log_det

__all__ = ["MAX_FULL_ROWS", "FullState", "full_evidence"]

#: the exact GP keeps a handful of N x N matrices: 4 GB at this size
MAX_FULL_ROWS = 10_000


@dataclass(frozen=True)
class FullState:
    """What prediction needs: the rows, the factor L of their covariance with noise, a = (L L')^-1 (y - m)."""

    model: Model
    rows: Rows
    L: np.ndarray
    a: np.ndarray


def full_evidence(model: Model, rows: Rows, *, gradient: bool = True) -> Evidence:
    """Compute the exact log evidence log N(y; m, K + noise) and, if asked, its gradient in theta.

    Costs N^3 flops with the gradient and N^3/3 without; memory a few N x N matrices.
    """
    check_full_size(len(rows))
    K, pullback = model.kernel.value_and_pullback(rows.X, rows.X)
    noise = model.likelihood.value("noise_variance") if rows.noise_variance is None else rows.noise_variance
    K.flat[:: len(K) + 1] += noise
    if rows.basis.shape[1]:
        K += rows.basis @ rows.basis.T
    L = cholesky(K)
    r = rows.y - model.mean.offset
    inverse = inverse_from_factor(L) if gradient else None
    a = solve_factored(L, r)
    value = -0.5 * float(len(rows) * LOG_2PI + log_det(L) + r @ a)
    state = FullState(model, rows, L, a)
    if inverse is None:
        return Evidence(value, None, None, state)
    K_bar = np.multiply.outer(a, 0.5 * a)
    inverse *= 0.5
    K_bar -= inverse
    theta_bar = assemble_gradient(model, rows, pullback(K_bar).theta, float(K_bar.trace()), float(a.sum()))
    return Evidence(value, theta_bar, None, state)


def solve_factored(L: np.ndarray, r: np.ndarray) -> np.ndarray:
    """Solve (L L') a = r."""
    from scipy.linalg import lapack

    return lapack.dpotrs(L, r, lower=1)[0]


def check_full_size(n_rows: int) -> None:
    """Refuse sizes whose N x N matrices would not fit an ordinary machine."""
    if n_rows > MAX_FULL_ROWS:
        raise TooLargeError(
            f"The exact GP needs several {n_rows:,} x {n_rows:,} matrices ({8e-9 * n_rows**2:.0f} GB each) and "
            f"stops at {MAX_FULL_ROWS:,} rows. Use `approximation='vfe'` or `'fic'` with knots, or fewer rows.",
            n_rows=n_rows,
            limit=MAX_FULL_ROWS,
        )
