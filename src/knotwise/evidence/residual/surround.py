"""Some rows with all that is near them: neighbourhoods are whole, so that few rows tell what all rows would."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from knotwise.evidence.model import Rows
from knotwise.evidence.residual.neighbours import Neighbours
from knotwise.kernels.base import Kernel
from knotwise.numerics.nearest import MISSING, Nearest, spatial_sort

__all__ = ["Surroundings", "surround"]

ROWS_TOGETHER = 4096  # of a block and its halo


@dataclass(frozen=True)
class Surroundings:
    """Numbers of the rows, those that were chosen first and then the others that are near them; and the residual.

    Blocks are made of the first `n_own` rows (`InMemory.n_own`), and the others are in their halos only. These are
    large where few rows of many are chosen, so that blocks of `block_size` rows are small.
    """

    rows: np.ndarray
    n_own: int
    residual: Neighbours

    @property
    def block_size(self) -> int:
        most = max(64, ROWS_TOGETHER * self.n_own // len(self.rows))
        n_pairs = -(-self.n_own // (2 * most))  # of blocks, which two threads share
        return max(1, -(-self.n_own // (2 * n_pairs)))


def surround(
    kernel: Kernel, rows: Rows, chosen: np.ndarray, n_neighbors: int, rng: np.random.Generator
) -> Surroundings:
    """Condition chosen rows on the nearest of all others: an order in which the chosen rows come last.

    The evidence is then the density of the chosen rows given the rows near them, with the neighbours that rows have
    among all, which a thin subset does not have.
    """
    points = kernel.coordinates(rows.X)
    chosen = chosen[spatial_sort(points[chosen])]
    rank = np.full(len(rows), -1, np.int32)  # all others come before the chosen ones
    rank[chosen] = rng.permutation(len(chosen))
    near = Nearest(points)(points[chosen], 2 * n_neighbors + 1)  # one is the row itself, and some come later
    earlier = rank[near] < rank[chosen][:, None]
    first = np.argsort(~earlier, axis=1, kind="stable")[:, :n_neighbors]  # the nearest that are earlier
    near, earlier = (np.take_along_axis(each, first, 1) for each in (near, earlier))
    others = np.setdiff1d(near[earlier], chosen)
    numbers = np.concatenate([chosen, others])
    place = np.full(len(rows), MISSING, np.int32)
    place[numbers] = np.arange(len(numbers))
    graph = np.where(earlier, place[near], np.int32(MISSING))
    return Surroundings(numbers, len(chosen), Neighbours(graph))
