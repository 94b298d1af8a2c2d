"""The sparse evidence and its gradient as a statistician would write them down: NumPy, one block, no care for speed.

It is the yardstick of small problems, where the overhead of a library shows, and a second opinion on its numbers.
Formulas and symbols are those of docs/derivations/sparse-gaussian.md; arrays are [K, N] as there.
"""

from __future__ import annotations

import numpy as np


def bare_evidence(X, y, Z, *, variance, lengthscale, noise, mean, jitter, power):
    """Log evidence, its gradient in (log variance, log lengthscale, log noise, mean), and that in the knots [K, D]."""
    N, K = len(X), len(Z)

    def kernel(A, B):
        r2 = (A**2).sum(1)[:, None] + (B**2).sum(1) - 2 * A @ B.T
        return variance * np.exp(-0.5 * np.maximum(r2, 0) / lengthscale**2)

    def pull(A, B, kernel_AB, bar):  # gradients in log variance, log lengthscale, A and B
        H = -bar * kernel_AB / lengthscale**2
        A_bar = H.sum(1)[:, None] * A - H @ B
        B_bar = H.sum(0)[:, None] * B - H.T @ A
        return (bar * kernel_AB).sum(), -((A * A_bar).sum() + (B * B_bar).sum()), A_bar, B_bar

    Kuf, Kuu = kernel(Z, X), kernel(Z, Z)
    L = np.linalg.cholesky(Kuu + jitter * variance * np.eye(K))
    V = np.linalg.solve(L, Kuf)
    c = np.maximum(variance - (V**2).sum(0), 0)
    W = 1 / noise
    w = W / (1 + W * power * c)
    B = np.eye(K) + (V * w) @ V.T
    B_inverse = np.linalg.inv(B)
    r = y - mean
    gamma = B_inverse @ (V @ (w * r))
    a = w * (r - V.T @ gamma)
    penalty = (1 - power) / (2 * power) * np.log1p(power * W * c).sum() if power else 0.5 * (W * c).sum()
    log_det_B = 2 * np.log(np.diag(np.linalg.cholesky(B))).sum()
    quadratic = (w * r * r).sum() - gamma @ B @ gamma
    value = -0.5 * (N * np.log(2 * np.pi) - np.log(w).sum() + log_det_B + quadratic) - penalty

    BV = B_inverse @ V
    R_diag = w - w * w * (V * BV).sum(0)
    s = 0.5 * a * a - 0.5 * R_diag
    c_bar = power * s - (1 - power) / 2 * w
    V_bar = np.outer(gamma, a) - BV * w - 2 * V * c_bar
    L_inverse = np.linalg.inv(L)
    Kuf_bar = L_inverse.T @ V_bar
    Kuu_bar = -0.5 * L_inverse.T @ (V_bar @ V.T) @ L_inverse
    noise_bar = (s + (1 - power) / 2 * c * w / noise).sum()
    variance_uf, lengthscale_uf, Z_uf, _ = pull(Z, X, Kuf, Kuf_bar)
    variance_uu, lengthscale_uu, Z_left, Z_right = pull(Z, Z, Kuu, Kuu_bar)
    log_variance_bar = variance_uf + variance_uu + variance * c_bar.sum() + jitter * variance * np.trace(Kuu_bar)
    gradient = np.array([log_variance_bar, lengthscale_uf + lengthscale_uu, noise * noise_bar, a.sum()])
    return value, gradient, Z_uf + Z_left + Z_right
