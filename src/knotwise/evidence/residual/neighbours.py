"""Rows whose residuals are kriged from those of near earlier rows: what the knots leave, given m neighbours.

Equations (N..) are those of docs/derivations/neighbours.md. Costs O(N (m^2 K + m^3)) beside what the knots cost.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array

from knotwise.errors import NotPositiveDefiniteError
from knotwise.evidence.residual.base import Pulled, RowAdjoints, Sites, Summed

if TYPE_CHECKING:
    from knotwise.evidence.blocks import Block, Halo
    from knotwise.evidence.model import Model
    from knotwise.evidence.projection import Projection
    from knotwise.kernels.base import Kernel

__all__ = ["MISSING", "NOISE_FLOOR", "Conditionals", "Joint", "Neighbours", "noise_of_rows"]

#: what stands in the graph where a row has fewer earlier rows than others have neighbours
MISSING = -1
#: the noise of a row counts as at least this share of the prior variance: without noise, equal rows have no factor
NOISE_FLOOR = 1e-10
#: own rows whose neighbours are gathered together, so that they stay in cache
CHUNK = 64
#: blocks of `rows_per_block(BLOCK_WIDTH, N)` rows: in 8 columns a block of 1,000 rows has a halo of twice its size, one
#: of 7,000 a halo of two thirds of it
BLOCK_WIDTH = 24


@dataclass(frozen=True, eq=False)
class Neighbours:
    """What the knots leave of a row, with its noise, is kriged from its neighbours (N1).

    `graph` [N, m] has the numbers of each row's neighbours, all of them earlier in one order of all rows, and `MISSING`
    where there are fewer. The order of the rows in blocks is another; see `arrange`. The power of the model does not
    matter: nothing is left to be charged. A row that counts k times is one row with noise / k (S18).
    """

    graph: np.ndarray
    _local: dict[tuple[int, int], Members] = field(default_factory=dict, init=False, repr=False)
    diagonal = False

    def __getstate__(self) -> dict[str, Any]:
        return {"graph": self.graph, "_local": {}}  # what follows from the graph is found again

    @property
    def n_neighbors(self) -> int:
        return self.graph.shape[1]

    @property
    def halo(self) -> Halo:
        return self.outside

    def outside(self, numbers: np.ndarray) -> np.ndarray:
        """Numbers of the neighbours of a block's rows that are not in the block."""
        return self._members(int(numbers[0]), len(numbers)).halo if len(numbers) else numbers

    def block_width(self, n_columns: int) -> int:
        return BLOCK_WIDTH

    def kept_numbers(self, n_columns: int) -> int:
        M = self.n_neighbors + 1
        return n_columns + M * (M + 2)  # V~, the factor, and A with the neighbours' numbers

    def see(self, model: Model, block: Block, seen: Projection, W: np.ndarray | float, r: np.ndarray) -> Summed:
        found = seen.kept.get("conditionals")
        if found is None:
            found = seen.kept["conditionals"] = self._condition(model, block, seen, W)
        mixed = found.residuals(with_zeros(seen.V, r))  # [n, K + p + 1]
        return Summed(np.asfortranarray(mixed[:, :-1]), mixed[:, -1].copy(), 1.0 / found.D)

    def log_weight(self, model: Model, block: Block, seen: Projection, W: np.ndarray | float, summed: Summed) -> float:
        copies = block.own.weights
        total = float(np.log(summed.w).sum())
        if copies is not None:  # as for the exact GP, whose copies have one latent value               (S18)
            total -= float((np.log(copies) - (copies - 1.0) * np.log(_own(W, block))).sum())
        return total

    def pull(self, model: Model, block: Block, seen: Projection, sites: Sites, bars: RowAdjoints) -> Pulled:
        assert sites.r is not None
        found: Conditionals = seen.kept["conditionals"]
        N, K = len(block.rows), seen.V.shape[1] - block.rows.basis.shape[1]
        V = with_zeros(seen.V, sites.r)
        q = found.solve(-found.products(V, np.column_stack([bars.V_bar, bars.r_bar])))  # S^-1 A_bar    (N4)
        a = found.a
        t = -bars.D_bar[:, None] * a
        t[:, :-1] += q
        Mixing, T = found.sparse(-a, N + 1), found.sparse(t, N + 1)
        V_own, V_bar_own = np.ascontiguousarray(sites.V[:, :K]), np.ascontiguousarray(bars.V_bar[:, :K])
        TV = T @ V[:, :K]
        # the adjoint of the covariances is -(a t' + t a')/2 for each row, and a' V of its neighbours is -V~     (N5)
        V_bar = Mixing.T @ (V_bar_own - TV)
        V_bar -= T.T @ V_own
        cross = V_own.T @ TV
        c_bar = np.bincount(found.members.ravel(), (-a * t).ravel(), N + 1)[:N]
        noise_bar, c_bar = self._noise_bar(model, block, sites.W, c_bar)
        theta_bar = found.pull_pairs(model.kernel, block.rows.X, t)
        r_bar = (Mixing.T @ bars.r_bar)[:N]
        return Pulled(np.asfortranarray(V_bar[:N]), c_bar, r_bar, noise_bar, -(cross + cross.T), theta_bar)

    def c_bar(self, model: Model, sites: Sites, D_bar: np.ndarray) -> np.ndarray:
        return D_bar

    def knots_bar(self, gram: np.ndarray, total: np.ndarray | float) -> np.ndarray | float:
        return total

    def _condition(self, model: Model, block: Block, seen: Projection, W: np.ndarray | float) -> Conditionals:
        rows, K = block.rows, seen.V.shape[1] - block.rows.basis.shape[1]
        members = self._members(block.start, block.n).local
        noise, _ = noise_of_rows(model.kernel, rows.X, rows.per_copy(1.0 / np.broadcast_to(W, len(rows))))
        joint = Joint(model.kernel, rows.X, with_zeros(seen.V[:, :K]), seen.c, noise)
        return Conditionals.of(joint, members)

    def _noise_bar(
        self, model: Model, block: Block, W: np.ndarray | float, S_bar: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The adjoints of one copy's noise and of the kernel's diagonal, from that of the covariances' diagonal."""
        rows, copies = block.rows, block.rows.weights
        noise = rows.per_copy(1.0 / np.broadcast_to(W, len(rows)))
        _, floored = noise_of_rows(model.kernel, rows.X, noise)
        noise_bar = rows.per_copy(np.where(floored, 0.0, S_bar))
        if copies is not None:
            noise_bar[: block.n] -= 0.5 * (copies[: block.n] - 1.0) * _own(W, block)
        return noise_bar, np.where(floored, (1.0 + NOISE_FLOOR) * S_bar, S_bar)

    def _members(self, start: int, n: int) -> Members:
        found = self._local.get((start, n))
        if found is None:
            found = self._local[start, n] = Members.of(self.graph, start, n)
        return found


def _own(W: np.ndarray | float, block: Block) -> np.ndarray | float:
    return W[: block.n] if isinstance(W, np.ndarray) and W.ndim else W


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
    """Covariances of what the knots leave of some rows, with their noise: k(x, x') - v'v'.

    V [n + 1, K] and X [n, D] are those of the rows, V with zeros behind; c [n] and `noise` [n] their variances.
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
        """The lower triangles of [n, M, M] covariances; a missing neighbour is independent of all others."""
        V = self.V.take(members, axis=0)  # [n, M, K]
        S = np.matmul(V, V.transpose(0, 2, 1))
        np.negative(S, out=S)
        first, second, k = self.pairs(members)
        S[:, first, second] += k
        each = np.arange(members.shape[1])
        S[:, each, each] = self.variance[members]
        return S

    def pairs(self, members: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """k(x, x') of all pairs of members, [n, M (M - 1)/2], and which they are."""
        first, second = np.tril_indices(members.shape[1], -1)
        X = _take(self.X, members)
        k = self.kernel.pairs(*_all_pairs(X, first, second))[0].reshape(len(members), len(first))
        missing = members == len(self.X)
        if missing.any():
            k[missing[:, first] | missing[:, second]] = 0.0
        return first, second, k


def _take(X: np.ndarray, members: np.ndarray) -> np.ndarray:
    return X.take(members, axis=0, mode="clip")  # whatever stands for a missing neighbour


def _all_pairs(X: np.ndarray, first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    D = X.shape[2]
    return X[:, first].reshape(-1, D), X[:, second].reshape(-1, D)


@dataclass(frozen=True)
class Conditionals:
    """What the knots leave of n rows, given their neighbours (N1).

    `members` [n, m + 1] are the neighbours and then the row, L [n, m + 1, m + 1] the factors of their covariances; so
    A [n, m] are the weights of the neighbours and D [n] the variance that is left.
    """

    members: np.ndarray
    L: np.ndarray
    A: np.ndarray
    D: np.ndarray

    @staticmethod
    def of(joint: Joint, members: np.ndarray) -> Conditionals:
        n, M = members.shape
        L = np.empty((n, M, M))
        try:
            for some in _chunks(n):
                L[some] = np.linalg.cholesky(joint.of(members[some]))
        except np.linalg.LinAlgError:
            raise NotPositiveDefiniteError(
                f"The residual covariance of some rows and their {M - 1} neighbours is not positive definite. "
                "Knots nearly coincide, or a parameter is extreme; allow a larger `jitter`, or more noise."
            ) from None
        # the last row of the factor is L^-1 c, so that one triangular solve gives A = S^-1 c
        return Conditionals(members, L, _solve_transposed(L, L[:, -1, :-1]), L[:, -1, -1] ** 2)

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
        for some in _chunks(len(U)):
            near = V.take(self.members[some, :-1], axis=0)
            out[some] = np.matmul(near, U[some, :, None])[:, :, 0]
        return out

    def solve(self, b: np.ndarray) -> np.ndarray:
        """S^-1 b for each row, [n, m]."""
        return _solve_transposed(self.L, _solve(self.L, b))

    def pull_pairs(self, kernel: Kernel, X: np.ndarray, t: np.ndarray) -> np.ndarray:
        """The gradient in the kernel's theta of values between members, whose adjoint is -(a t' + t a')/2."""
        first, second = np.tril_indices(self.members.shape[1], -1)
        a, theta_bar = self.a, np.zeros(kernel.size)
        for some in _chunks(len(a)):
            pull = kernel.pairs(*_all_pairs(_take(X, self.members[some]), first, second))[1]
            a_some, t_some = a[some], t[some]
            k_bar = a_some[:, first] * t_some[:, second]
            k_bar += t_some[:, first] * a_some[:, second]
            theta_bar -= pull(k_bar.ravel())
        return theta_bar


def _chunks(n: int) -> list[slice]:
    return [slice(start, start + CHUNK) for start in range(0, n, CHUNK)]


def _solve(L: np.ndarray, b: np.ndarray) -> np.ndarray:
    """L^-1 b for each of n lower triangles, by substitution in all of them at once; of L the first rows are used."""
    x = np.empty(b.shape)
    for j in range(b.shape[1]):
        x[:, j] = (b[:, j] - np.einsum("nk,nk->n", L[:, j, :j], x[:, :j])) / L[:, j, j]
    return x


def _solve_transposed(L: np.ndarray, b: np.ndarray) -> np.ndarray:
    """L^-T b for each of n lower triangles."""
    x, m = np.empty(b.shape), b.shape[1]
    for j in reversed(range(m)):
        x[:, j] = (b[:, j] - np.einsum("nk,nk->n", L[:, j + 1 : m, j], x[:, j + 1 :])) / L[:, j, j]
    return x
