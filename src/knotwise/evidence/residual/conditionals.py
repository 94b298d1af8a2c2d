"""Gaussian values of rows given those of their neighbours: joint covariances, factors, weights and what is left.

Used by the evidence and by predictions. Everything is batched over rows; equations (N..) are those of
docs/derivations/neighbours.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np
from scipy.sparse import csr_array

from knotwise.errors import NotPositiveDefiniteError
from knotwise.kernels.base import Kernel
from knotwise.numerics.nearest import MISSING

#: the noise of a row counts as at least this share of the prior variance: without noise, equal rows have no factor
NOISE_FLOOR = 1e-10
#: of what is gathered for some rows at a time, so that it stays in a core's second-level cache
CHUNK_BYTES = 800_000


def noise_of_rows(kernel: Kernel, X: np.ndarray, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The noise of each row, [n], at least its floor, and where the floor was higher."""
    floor = NOISE_FLOOR * kernel.diag(X)
    return np.maximum(noise, floor), noise < floor


def with_zeros(V: np.ndarray, r: np.ndarray | None = None) -> np.ndarray:
    """The columns of V, and r behind them if it is given, with a row of zeros for missing neighbours; row-major."""
    n, K = V.shape
    out = np.empty((n + 1, K + (r is not None)))
    out[:n, :K] = V
    if r is not None:
        out[:n, K] = r
    out[n] = 0.0
    return out


@dataclass(frozen=True)
class Members:
    """Rows of a block with their neighbours, as numbers in the block and its halo: `local` [n, m + 1] has the
    neighbours and then the row itself. Missing neighbours have the number behind the last; `halo` are the rows outside.
    """

    local: np.ndarray
    halo: np.ndarray

    @staticmethod
    def of(graph: np.ndarray, start: int, n: int) -> Members:
        numbers = graph[start : start + n]
        own = (numbers >= start) & (numbers < start + n)
        missing = numbers == MISSING
        halo, place = np.unique(numbers[~(own | missing)], return_inverse=True)
        local = np.empty((n, graph.shape[1] + 1), np.int32)
        near = local[:, :-1]
        near[own] = numbers[own] - start
        near[missing] = n + len(halo)
        near[~(own | missing)] = n + place
        local[:, -1] = np.arange(n)
        return Members(local, halo)


@dataclass(frozen=True)
class Joint:
    """Residual covariances K - Q of some rows, with their noise: k(x, x') - v'v'.

    V [n + 1, K], row-major, and X [n, D] are those of the rows, V with zeros behind; c [n] and `noise` [n] are their
    variances.
    """

    kernel: Kernel
    X: np.ndarray
    V: np.ndarray
    c: np.ndarray
    noise: np.ndarray

    @cached_property
    def variance(self) -> np.ndarray:
        """Those of the rows, [n + 1]; a missing neighbour has a variance of its own."""
        return np.append(self.c + self.noise, 1.0)

    def of(self, members: np.ndarray) -> np.ndarray:
        """Covariances [n, M, M]; a missing neighbour is independent of all others."""
        n, M = members.shape
        if M == 1:
            return self.variance.take(members)[:, :, None]
        V = self.V.take(members, axis=0)  # [n, M, K]
        S = np.matmul(V, V.transpose(0, 2, 1))
        # few operations on all entries, not many on some: between two of them another thread has Python's lock
        np.subtract(self.pairs(members).take(_numbers_of_pairs(M), axis=1).reshape(S.shape), S, out=S)
        S.reshape(n, M * M)[:, :: M + 1] = self.variance.take(members)
        return S

    def pairs(self, members: np.ndarray) -> np.ndarray:
        """k(x, x') of all pairs of members, [n, M (M - 1)/2]: of the second with the first, of the third ..."""
        first, second = _below(members.shape[1])
        k = self.kernel.pairs(*_all_pairs(self.X, members))[0].reshape(len(members), len(first))
        missing = members == len(self.X)
        if missing.any():
            k[missing[:, first] | missing[:, second]] = 0.0
        return k


def _all_pairs(X: np.ndarray, members: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows of all pairs of members, below the diagonal row by row; any row stands for a missing one."""
    first, second = _below(members.shape[1])
    rows = (X.take(members[:, one], axis=0, mode="clip") for one in (first, second))
    one, other = (some.reshape(-1, X.shape[1]) for some in rows)
    return one, other


@cache
def _below(M: int) -> tuple[np.ndarray, np.ndarray]:
    return np.tril_indices(M, -1)


@cache
def _numbers_of_pairs(M: int) -> np.ndarray:
    """Which of the pairs below the diagonal each entry of [M, M] is, [M M]; any on the diagonal."""
    numbers = np.zeros((M, M), np.intp)
    numbers[_below(M)] = np.arange(M * (M - 1) // 2)
    return np.maximum(numbers, numbers.T).ravel()


@cache
def _lower_triangle(M: int) -> np.ndarray:
    """Numbers of the entries of [M, M] on and below the diagonal, row by row."""
    first, second = np.tril_indices(M)
    return first * M + second


@dataclass(frozen=True)
class Conditionals:
    """The residuals of n rows, given those of their neighbours (N1).

    `members` [n, m + 1] are the neighbours and then the row, L [n, (m + 1)(m + 2)/2] the factors of their covariances,
    rows of a triangle one after the other; so A [n, m] are the weights of the neighbours and D [n] the variance that is
    left.
    """

    members: np.ndarray
    L: np.ndarray
    A: np.ndarray
    D: np.ndarray

    @staticmethod
    def of(joint: Joint, members: np.ndarray) -> Conditionals:
        return Conditionals.factored(members, lambda some: joint.of(members[some]), joint.V.shape[1])

    @staticmethod
    def weighted(joint: Joint, members: np.ndarray, weights: np.ndarray) -> Conditionals:
        """The same where a neighbour counts for a weight w in [0, 1], [n, m]: as if it were seen with more noise (N13).

        The noise that is added, its variance times (1 - w) / w, is infinite for a weight of 0. So a neighbour's
        covariances are multiplied by sqrt(w) instead, and its variance stays. D is the variance of e_x - A z_n with the
        noise that there is.
        """
        if (weights == 1.0).all():
            return Conditionals.of(joint, members)
        scale = np.sqrt(np.column_stack([weights, np.ones(len(members))]))
        each = np.arange(members.shape[1])

        def covariance(some: slice) -> np.ndarray:
            S = joint.of(members[some])
            S *= scale[some, :, None]
            S *= scale[some, None, :]
            S[:, each, each] = joint.variance[members[some]]
            return S

        found = Conditionals.factored(members, covariance, joint.V.shape[1])
        added = found.A**2 * joint.variance[members[:, :-1]] * (1.0 - weights)  # A^2 times the noise that is added
        return replace(found, A=scale[:, :-1] * found.A, D=found.D - added.sum(1))

    @staticmethod
    def factored(members: np.ndarray, covariance: Callable[[slice], np.ndarray], n_knots: int = 0) -> Conditionals:
        """From the covariances of the members, asked for some rows at a time, which are seen through so many knots."""
        n, M = members.shape
        triangle = _lower_triangle(M)
        L = np.empty((n, len(triangle)))
        try:
            for some in _chunks(n, M * (2 * M + n_knots)):
                factors = np.linalg.cholesky(covariance(some)).reshape(-1, M * M)
                factors.take(triangle, axis=1, out=L[some], mode="clip")  # "raise" would copy
        except np.linalg.LinAlgError:
            raise NotPositiveDefiniteError(
                f"The residual covariance of some rows and their {M - 1} neighbours is not positive definite. "
                "Knots nearly coincide, or a parameter is extreme; allow a larger `jitter`, or more noise."
            ) from None
        # the last row of the factor is L^-1 c, so that one triangular solve gives A = S^-1 c
        return Conditionals(members, L, _solve_transposed(L, L[:, -M:-1]), L[:, -1] ** 2)

    @property
    def a(self) -> np.ndarray:
        """The weights of the neighbours, and -1 for the row itself, [n, m + 1]."""
        return np.column_stack([self.A, np.full(len(self.A), -1.0)])

    def sparse(self, values: np.ndarray, n_rows: int) -> csr_array:
        """Values [n, m + 1] for the members as a sparse matrix [n, n_rows], the last column for missing ones."""
        n, M = self.members.shape
        starts = np.arange(0, n * M + 1, M, dtype=np.int32)
        return csr_array((values.ravel(), self.members.ravel(), starts), shape=(n, n_rows))

    def residuals(self, V: np.ndarray) -> np.ndarray:
        """The rows of V [N + 1, ...] without what their neighbours say: v - A V_n, [n, ...]."""
        return self.sparse(-self.a, len(V)) @ V

    def products(self, V: np.ndarray, U: np.ndarray) -> np.ndarray:
        """The products of the neighbours' rows of V [N + 1, K] with a row u of U [n, K] each, [n, m]."""
        out = np.empty(self.A.shape)
        for some in _chunks(len(U), self.members.shape[1] * V.shape[1]):
            near = V.take(self.members[some, :-1], axis=0)
            out[some] = np.matmul(near, U[some, :, None])[:, :, 0]
        return out

    def solve(self, b: np.ndarray) -> np.ndarray:
        """S^-1 b for each row, [n, m]."""
        return _solve_transposed(self.L, _solve(self.L, b))

    def pull_pairs(self, kernel: Kernel, X: np.ndarray, t: np.ndarray) -> np.ndarray:
        """The gradient in the kernel's theta of values between members, whose adjoint is -(a t' + t a')/2."""
        first, second = _below(self.members.shape[1])
        a, theta_bar = self.a, np.zeros(kernel.size)
        for some in _chunks(len(a), 4 * len(first)):
            pull = kernel.pairs(*_all_pairs(X, self.members[some]))[1]
            a_some, t_some = a[some], t[some]
            k_bar = a_some[:, first] * t_some[:, second]
            k_bar += t_some[:, first] * a_some[:, second]
            theta_bar -= pull(k_bar.ravel())
        return theta_bar


def _chunks(n: int, size: int) -> list[slice]:
    """Some of n rows at a time, each with an array of so many numbers."""
    step = max(1, CHUNK_BYTES // (8 * max(size, 1)))
    return [slice(start, start + step) for start in range(0, n, step)]


def _solve(L: np.ndarray, b: np.ndarray) -> np.ndarray:
    """L^-1 b for each of n lower triangles, by substitution in all of them at once; of L the first rows are used."""
    x = np.empty(b.shape)
    for j in range(b.shape[1]):
        row = L[:, j * (j + 1) // 2 :]
        x[:, j] = (b[:, j] - np.einsum("nk,nk->n", row[:, :j], x[:, :j])) / row[:, j]
    return x


def _solve_transposed(L: np.ndarray, b: np.ndarray) -> np.ndarray:
    """L^-T b for each of n lower triangles."""
    x = b.copy()
    for j in reversed(range(b.shape[1])):
        row = L[:, j * (j + 1) // 2 :]
        x[:, j] /= row[:, j]
        x[:, :j] -= row[:, :j] * x[:, j : j + 1]
    return x
