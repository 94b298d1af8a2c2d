"""Vecchia neighbours (NNGP): residuals (covariance K - Q) that are kriged from those of m near earlier rows.

Equations (N..) are those of docs/derivations/neighbours.md. Costs O(N (m^2 K + m^3)) beside what the knots cost.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from knotwise.evidence.residual.base import Pulled, RowAdjoints, Sites, Summed
from knotwise.evidence.residual.conditionals import NOISE_FLOOR, Conditionals, Joint, Members, noise_of_rows, with_zeros

if TYPE_CHECKING:
    from knotwise.evidence.blocks import Block, Halo
    from knotwise.evidence.model import Model
    from knotwise.evidence.projection import Projection

#: blocks of `rows_per_block(BLOCK_WIDTH, N)` rows: in 8 columns a block of 1,000 rows has a halo of twice its size, one
#: of 7,000 a halo of half of it
BLOCK_WIDTH = 24


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The residual of a row, with its noise, is kriged from those of its neighbours (N1).

    `graph` [N, m] has the numbers of each row's neighbours, all of them earlier in one order of all rows, and `MISSING`
    where there are fewer. The order of the rows in blocks is another; see `vecchia_ordering`. The power of the model
    does not matter: no residual variance is left to be penalised. A row of weight k has noise / k (S18).

    `around` [N, m + 1] are the nearest of all rows, itself among them, from which the marginal of a row is predicted
    where its site is searched for (N6); None where they are to be found for the parameters of each evaluation.
    `n_predicting` is how many neighbours predictions take; None for twice as many, which cost less there than here.
    """

    graph: np.ndarray
    around: np.ndarray | None = None
    n_predicting: int | None = None
    _local: dict[tuple[int, int], Members] = field(default_factory=dict, init=False, repr=False)
    diagonal = False

    def __getstate__(self) -> dict[str, Any]:
        # what follows from the graph is found again
        return {"graph": self.graph, "around": self.around, "n_predicting": self.n_predicting, "_local": {}}

    @property
    def n_rows(self) -> int:
        return len(self.graph)

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
        return M * (M + 3) // 2 + 4  # the factor, A, D, and what they were found for

    def see(self, model: Model, block: Block, seen: Projection, W: np.ndarray | float, r: np.ndarray) -> Summed:
        V = with_zeros(seen.V, r)
        found = self._conditionals(model, block, seen, W, V)
        mixed = found.residuals(V)  # [n, K + p + 1]                                                    (N1)
        return Summed(np.asfortranarray(mixed[:, :-1]), mixed[:, -1].copy(), 1.0 / found.D)

    def _conditionals(
        self, model: Model, block: Block, seen: Projection, W: np.ndarray | float, V: np.ndarray
    ) -> Conditionals:
        """Those of the block, kept for as long as the precisions of its rows are the same."""
        before = seen.kept.get("given")
        if before is None or not np.array_equal(before, W):
            noise, _ = self._noise(model, block, W)
            K = seen.V.shape[1] - block.rows.basis.shape[1]
            joint = Joint(model.kernel, block.rows.X, np.ascontiguousarray(V[:, :K]), seen.c, noise)
            found = Conditionals.of(joint, self._members(block.start, block.n).local)
            seen.kept.update(given=W, conditionals=found)
        return seen.kept["conditionals"]

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

    def _noise(self, model: Model, block: Block, W: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
        """The noise of each row's mean of copies, and where its floor is higher."""
        rows = block.rows
        return noise_of_rows(model.kernel, rows.X, np.asarray(rows.per_copy(1.0 / np.broadcast_to(W, len(rows)))))

    def _noise_bar(
        self, model: Model, block: Block, W: np.ndarray | float, S_bar: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The adjoints of one copy's noise and of the kernel's diagonal, from that of the covariances' diagonal."""
        rows, copies = block.rows, block.rows.weights
        _, floored = self._noise(model, block, W)
        noise_bar = np.asarray(rows.per_copy(np.where(floored, 0.0, S_bar)))
        if copies is not None:
            noise_bar[: block.n] -= 0.5 * (copies[: block.n] - 1.0) * _own(W, block)
        return noise_bar, np.where(floored, (1.0 + NOISE_FLOOR) * S_bar, S_bar)

    def _members(self, start: int, n: int) -> Members:
        found = self._local.get((start, n))
        if found is None:
            found = self._local[start, n] = Members.of(self.graph, start, n)
        return found


def neighbours_of(model: Model) -> Neighbours:
    """The Vecchia neighbours of a model that has them."""
    assert isinstance(model.residual, Neighbours)
    return model.residual


def _own(W: np.ndarray | float, block: Block) -> np.ndarray | float:
    return W[: block.n] if isinstance(W, np.ndarray) and W.ndim else W
