"""Cholesky factors with recorded jitter, and matrix products that keep the cores busy.

A block of rows is an array [n, K] in column-major order, the memory of the derivations' [K, n] matrix. Its products
run a fifth faster than those of row-major blocks, and a product of rows with weights goes along the memory. Arrays in
another order give the same results, but take longer. Products with triangular matrices use explicit inverses: on
blocks of a few hundred knots a matrix product runs four times faster than a triangular solve, and NumPy's releases the
interpreter lock while SciPy's does not.
"""

from __future__ import annotations

import math
import threading

import numpy as np
from scipy.linalg import blas, lapack

from knotwise.errors import NotPositiveDefiniteError

FIRST_JITTER = 1e-10
LARGEST_JITTER = 1e-4

# Below this width one product over the whole triangle is faster than several over its column blocks.
TRIANGLE_BLOCK = 64


def cholesky(A: np.ndarray, *, overwrite: bool = False) -> np.ndarray:
    """Factorise a symmetric matrix as L L' with L lower triangular; `overwrite` may use A's memory for L.

    Costs K^3/3. Raises `NotPositiveDefiniteError` (with the failing row as `pivot`).
    """
    # of the matrix and its transpose one is a Fortran array, which LAPACK takes without rearranging
    A = A if A.flags.f_contiguous else A.T
    L, info = lapack.dpotrf(A, lower=1, clean=1, overwrite_a=overwrite)
    if info != 0 or not np.isfinite(L.trace()):
        raise NotPositiveDefiniteError(
            f"A covariance matrix of size {len(A)} is not positive definite (pivot {info}). "
            "Two of its points nearly coincide, or a parameter is extreme; allow a larger `jitter`.",
            pivot=info,
        )
    return L


def smallest_jitter(A: np.ndarray, scale: float) -> float:
    """Find the smallest relative jitter, in powers of ten, for which A + jitter scale I factorises."""
    jitter = FIRST_JITTER
    while jitter <= LARGEST_JITTER * 1.01:
        try:
            cholesky(A + jitter * scale * np.eye(len(A)))
        except NotPositiveDefiniteError:
            jitter *= 10
        else:
            return jitter
    raise NotPositiveDefiniteError(
        f"`Kuu` of {len(A)} knots is not positive definite, even with relative jitter {LARGEST_JITTER:.0e}. "
        "Remove knots that nearly coincide, or shorten the length-scale.",
        jitter=LARGEST_JITTER,
    )


def identity_plus(gram: np.ndarray) -> np.ndarray:
    """I + gram, a new array."""
    B = gram.copy()
    B.flat[:: len(B) + 1] += 1.0
    return B


def cholesky_of_identity_plus(gram: np.ndarray) -> np.ndarray:
    """Lower factor of I + gram for a gram that is not negative.

    Such a matrix always has a factor; where rounding leaves none (weights of 1e8 on a mean with a wide prior), what
    rounding may have taken from the diagonal is given back.
    """
    B = identity_plus(gram)
    try:
        return cholesky(B)
    except NotPositiveDefiniteError:
        B.flat[:: len(B) + 1] += len(B) * np.finfo(float).eps * float(gram.diagonal().max())
        return cholesky(B)


def invert_lower(L: np.ndarray) -> np.ndarray:
    """Invert a lower triangular matrix.

    dtrtri leaves a small *left* residual X L - I. Then X b has the error bound of a triangular solve; called on the
    transpose it would leave a small right residual, which does not give that.
    """
    inverse, _ = lapack.dtrtri(L, lower=1)
    return np.ascontiguousarray(inverse)


def half_inverse_without(L: np.ndarray, a: np.ndarray) -> np.ndarray:
    """Compute the lower triangle of (L L')^-1 - a a' with half its diagonal, zeros above.

    Against a symmetric matrix it sums to half of what the whole matrix does, and it need not be mirrored.
    """
    inverse, _ = lapack.dpotri(L, lower=1)  # the other triangle of L is 0, and stays so
    inverse = blas.dsyr(-1.0, a, lower=1, a=inverse, overwrite_a=1)
    inverse.flat[:: len(L) + 1] *= 0.5
    return inverse


def solve_factored(L: np.ndarray, r: np.ndarray) -> np.ndarray:
    """Solve (L L') a = r."""
    return lapack.dpotrs(L, r, lower=1)[0]


def log_det(L: np.ndarray) -> float:
    """Compute log |L L'|."""
    return 2.0 * float(np.log(L.diagonal()).sum())


def times_lower_transposed(V: np.ndarray, T: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """Compute V T' for lower triangular T: the rows of V mapped by T.

    Column blocks skip the zeros of T: 1.3 n K^2 flops at K = 200 instead of 2 n K^2.
    """
    K = len(T)
    if K < 2 * TRIANGLE_BLOCK:
        return np.matmul(T, V.T, out=None if out is None else out.T).T
    out = np.empty((len(V), K), order="F") if out is None else out
    for start in range(0, K, TRIANGLE_BLOCK):
        stop = min(start + TRIANGLE_BLOCK, K)
        np.matmul(T[start:stop, :stop], V[:, :stop].T, out=out[:, start:stop].T)
    return out


def times_lower(V: np.ndarray, T: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """Compute V T for lower triangular T, or lower trapezoidal T with further rows below the triangle."""
    K = T.shape[1]
    if K < 2 * TRIANGLE_BLOCK:
        return np.matmul(T.T, V.T, out=None if out is None else out.T).T
    out = np.empty((len(V), K), order="F") if out is None else out
    for start in range(0, K, TRIANGLE_BLOCK):
        stop = min(start + TRIANGLE_BLOCK, K)
        np.matmul(T[start:, start:stop].T, V[:, start:].T, out=out[:, start:stop].T)
    return out


def pivoted_order(A: np.ndarray, tolerance: float) -> np.ndarray:
    """Order rows by pivoted Cholesky: each next one has the largest variance given those before it.

    Rows whose conditional variance is below the tolerance are left out. Costs at most K^3/3.
    """
    _, pivots, rank, _ = lapack.dpstrf(A, tol=tolerance, lower=1)
    return pivots[:rank] - 1  # LAPACK counts from one


def weighted_gram(V: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Compute V' diag(weights) V for weights of any sign, by symmetric products of half the cost."""
    root = np.sqrt(np.abs(weights))
    scaled = np.multiply(V, root[:, None], out=scratch("scaled", V.shape))
    gram = scaled.T @ scaled  # NumPy recognises A' A and calls dsyrk
    negative = weights < 0
    if negative.any():  # those of few rows, as a rule
        minus = scaled[negative]
        gram -= 2.0 * (minus.T @ minus)
    return gram


_own = threading.local()


def scratch(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """An uninitialised array in column-major order, the same memory at each call with this name in this thread.

    It is for block-sized arrays that never leave the function that fills them. A fresh array of a megabyte is handed to
    the system and fetched again, page by page, at every use; at a few hundred knots that costs a fifth of the time of
    an evaluation.
    """
    size = math.prod(shape)
    memory = _own.__dict__.get(name)
    if memory is None or memory.size < size:
        memory = _own.__dict__[name] = np.empty(size)
    return memory[:size].reshape(shape, order="F")
