"""The exact GP: baseline, oracle, and the model of small subsets. Gaussian data exactly, others by Laplace."""

from __future__ import annotations

import numpy as np

from knotwise.errors import TooLargeError
from knotwise.evidence.adjoint import assemble_gradient
from knotwise.evidence.full_laplace import full_laplace_evidence
from knotwise.evidence.full_sites import FullState, RootPrecision, prior_covariance
from knotwise.evidence.gaussian import LOG_2PI, is_conjugate
from knotwise.evidence.model import Evidence, Model, Rows
from knotwise.numerics.linalg import cholesky, half_inverse_without, log_det, solve_factored

__all__ = ["MAX_FULL_ROWS", "check_full_size", "full_evidence"]

#: the exact GP keeps a handful of N x N matrices: 4 GB at this size
MAX_FULL_ROWS = 10_000


def full_evidence(model: Model, rows: Rows, *, gradient: bool = True, start: np.ndarray | None = None) -> Evidence:
    """Compute the log evidence of the exact GP and, if asked, its gradient in theta.

    For Gaussian data it is exact, log N(y; m, K + noise), and costs N^3 flops with the gradient and N^3/3 without;
    for other data it is the Laplace approximation. Memory: a few N x N matrices.
    """
    check_full_size(len(rows))
    if not is_conjugate(model):
        return full_laplace_evidence(model, rows, gradient=gradient, start=start)
    K, pullback = prior_covariance(model, rows)
    noise = model.likelihood.value("noise_variance") if rows.noise_variance is None else rows.noise_variance
    K.flat[:: len(K) + 1] += rows.per_copy(noise)
    L = cholesky(K, overwrite=True)
    r = rows.y - model.mean.offset
    a = solve_factored(L, r)
    value = -0.5 * float(len(rows) * LOG_2PI + log_det(L) + r @ a) + _within_copies(rows, noise)
    state = FullState(model, rows, a, RootPrecision(L, None))
    if not gradient:
        return Evidence(value, None, None, state)
    K_bar = half_inverse_without(L, a)  # with the other sign; the kernel is symmetric, so it need not be
    noise_bar = 0.0
    if rows.noise_variance is None:
        noise_bar = -float(np.sum(rows.per_copy(K_bar.diagonal()))) * float(noise) - 0.5 * (rows.count - len(rows))
    theta_bar = assemble_gradient(model, -pullback(K_bar).theta, np.array([noise_bar]), 0.0, float(a.sum()))
    return Evidence(value, theta_bar, None, state)


def _within_copies(rows: Rows, noise: np.ndarray | float) -> float:
    """What the copies of rows add to the log density of their means: equal values, so no differences  (S18)."""
    if rows.weights is None:
        return 0.0
    spare = rows.weights - 1.0
    return -0.5 * float((spare * (LOG_2PI + np.log(noise)) + np.log(rows.weights)).sum())


def check_full_size(n_rows: int) -> None:
    """Refuse sizes whose N x N matrices would not fit an ordinary machine."""
    if n_rows > MAX_FULL_ROWS:
        raise TooLargeError(
            f"The exact GP needs several {n_rows:,} x {n_rows:,} matrices ({8e-9 * n_rows**2:.0f} GB each) and "
            f"stops at {MAX_FULL_ROWS:,} rows. Use `approximation='vfe'` or `'fic'` with knots, or fewer rows.",
            n_rows=n_rows,
            limit=MAX_FULL_ROWS,
        )
