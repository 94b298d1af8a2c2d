"""Vecchia (NNGP) ordering: which rows are whose neighbours, the order of rows in blocks, and neighbourhood batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from knotwise.evidence.model import Rows
from knotwise.evidence.residual.correlation import GivenKnots, metrics, n_candidates
from knotwise.evidence.residual.neighbours import BLOCK_WIDTH, Neighbours
from knotwise.kernels.base import Kernel
from knotwise.numerics.blocks import rows_per_block
from knotwise.numerics.nearest import MISSING, Nearest, nearest_earlier, random_order, spatial_sort

#: an order of conditioning: (points [N, q], rng) -> the rows in their order, [N]
Order = Callable[[np.ndarray, np.random.Generator], np.ndarray]


@dataclass(frozen=True)
class VecchiaOrdering:
    """In which order rows are to lie in blocks, `rows` [N], and the residual for rows in that order."""

    rows: np.ndarray
    residual: Neighbours


def vecchia_ordering(
    kernel: Kernel,
    rows: Rows,
    n_neighbors: int,
    rng: np.random.Generator,
    *,
    order: Order = random_order,
    around: bool = False,
    given: GivenKnots | None = None,
) -> VecchiaOrdering:
    """Give each row its nearest earlier rows, in the kernel's coordinates, and lay near rows side by side.

    Neighbours follow the kernel's length-scales. Choose them anew between runs of an optimiser, never inside one: the
    evidence is smooth in the parameters for one graph only. The answer does not depend on the order of the input, which
    is sorted by value first: the same rows in another order, with an equal `rng`, have the same ordering.

    The kernel has values and is bound to the columns; `rng` draws the order of conditioning, or `order` is another one.
    Equal rows should be one row with a weight. 0 neighbours are FIC, N - 1 the exact GP. With `around` the nearest of
    all rows are found, too: data that are not Gaussian need them for an evidence that is smooth in the parameters.
    Where summands of the kernel see other columns each, the most correlated of the rows that are near by any of them
    are neighbours, if `given` has the residuals of these rows (N14).

    >>> import numpy as np
    >>> from dataclasses import replace
    >>> from knotwise.evidence import Jitter, Model, Rows, sparse_evidence
    >>> from knotwise.kernels import Matern32
    >>> from knotwise.likelihoods import Gaussian
    >>> from knotwise.means import Zero
    >>> X = np.random.default_rng(0).uniform(size=(300, 2))
    >>> rows = Rows(X, np.sin(20 * X[:, 0]), None, np.empty((300, 0)))
    >>> model = Model(Matern32(1.0, [0.1, 0.3]), Gaussian(0.01), Zero())
    >>> ordering = vecchia_ordering(model.kernel, rows, 10, np.random.default_rng(0))
    >>> arranged, near = rows[ordering.rows], replace(model, residual=ordering.residual)
    >>> knots = X[:20]
    >>> with_neighbours = sparse_evidence(near, arranged, knots, jitter=Jitter(1e-8, X[:1]))
    >>> alone = sparse_evidence(model, rows, knots, jitter=Jitter(1e-8, X[:1]))
    >>> bool(with_neighbours.value > alone.value + 100)
    True
    """
    columns = [*rows.X.T, rows.y, *(c for c in (rows.noise_variance, rows.weights) if c is not None)]
    by_value = np.lexsort(columns[::-1])
    points = kernel.coordinates(rows.X[by_value])
    in_blocks = spatial_sort(points, rows_per_block(BLOCK_WIDTH, len(rows)))
    points = np.ascontiguousarray(points[in_blocks])
    ranks, m = order(points, rng), min(n_neighbors, len(rows) - 1)
    distances = [points] if given is None else metrics(kernel, rows.X[by_value][in_blocks])
    if given is None or len(distances) == 1 or not m:
        graph = nearest_earlier(points, ranks, m)
    else:
        some = n_candidates(m, len(distances))
        candidates = np.hstack([nearest_earlier(each, ranks, some) for each in distances])
        graph = given[by_value[in_blocks]].most_correlated(np.arange(len(rows)), candidates, m)
    near = nearest_with_itself(points, graph.shape[1] + 1) if around else None
    return VecchiaOrdering(by_value[in_blocks], Neighbours(graph, near))


def nearest_with_itself(points: np.ndarray, n: int) -> np.ndarray:
    """The nearest rows of each row, itself among them, [N, min(n, N)]; of many equal ones it could be left out."""
    near = Nearest(points)(points, n)
    own = np.arange(len(points), dtype=np.int32)
    lost = ~(near == own[:, None]).any(1)
    near[lost, -1] = own[lost]
    return near


ROWS_TOGETHER = 4096  # of a block and its halo


@dataclass(frozen=True)
class NeighbourhoodBatch:
    """Numbers of the rows, those that were chosen first and then the others that are near them; and the residual.

    Blocks are made of the first `n_own` rows (`InMemory.n_own`), and the others are in their halos only. These are
    large where few rows of many are chosen, so that blocks of `block_size` rows are small.
    """

    rows: np.ndarray
    n_own: int
    residual: Neighbours

    @property
    def block_size(self) -> int:
        most = max(64, ROWS_TOGETHER * self.n_own // max(len(self.rows), 1))
        n_pairs = max(1, -(-self.n_own // (2 * most)))  # of blocks, which two threads share
        return max(1, -(-self.n_own // (2 * n_pairs)))


def neighbourhood_batch(
    kernel: Kernel,
    rows: Rows,
    chosen: np.ndarray,
    n_neighbors: int,
    rng: np.random.Generator,
    *,
    n_thin: int = 0,
    given: GivenKnots | None = None,
) -> NeighbourhoodBatch:
    """Rows of all scales, in an order: thin ones, then all that were not chosen, then the other chosen ones  (N11).

    The first `n_thin` of the chosen rows are conditioned on the nearest of those before them: the row of rank i has its
    neighbours at a distance of i^(-1/d), so that they show the function at every scale from the domain's on. The others
    are conditioned on the nearest of all earlier rows, with the neighbours that rows have among all. The rows that were
    not chosen are given, and of them nothing is asked. Where all are chosen, it is the joint density of all rows. What
    `given` is for, `vecchia_ordering` says.
    """
    points = kernel.coordinates(rows.X)
    distances = [points] if given is None else metrics(kernel, rows.X)
    thin, fine = chosen[:n_thin], chosen[n_thin:]
    few = n_neighbors if len(distances) == 1 else min(n_candidates(n_neighbors, len(distances)), len(rows) - 1)
    if len(chosen) == len(rows):
        near = np.hstack([nearest_earlier(each, chosen, few)[chosen] for each in distances])
    else:
        rank = np.zeros(len(rows), np.int32)  # that of rows which were not chosen: before the fine, after the thin ones
        rank[thin] = -1
        rank[fine] = 1 + rng.permutation(len(fine))
        near = np.hstack([_with_thin(each, thin, fine, rank, few) for each in distances])
    if given is not None and len(distances) > 1:
        near = given.most_correlated(chosen, near, n_neighbors)
    in_blocks = spatial_sort(points[chosen])
    chosen, near = chosen[in_blocks], near[in_blocks]
    others = np.setdiff1d(near[near != MISSING], chosen)
    numbers = np.concatenate([chosen, others])
    place = np.full(len(rows), MISSING, np.int32)
    place[numbers] = np.arange(len(numbers))
    graph = np.where(near == MISSING, np.int32(MISSING), place[near])
    return NeighbourhoodBatch(numbers, len(chosen), Neighbours(graph))


def _with_thin(points: np.ndarray, thin: np.ndarray, fine: np.ndarray, rank: np.ndarray, n: int) -> np.ndarray:
    """The nearest earlier rows of the thin rows among these, and of the fine ones among all, by their rank."""
    found = Nearest(points)(points[fine], 2 * n + 1)  # one is the row itself, and some come later
    earlier = rank[found] < rank[fine][:, None]
    first = np.argsort(~earlier, axis=1, kind="stable")[:, :n]  # the nearest that are earlier
    of_fine = np.where(np.take_along_axis(earlier, first, 1), np.take_along_axis(found, first, 1), np.int32(MISSING))
    among_thin = nearest_earlier(points[thin], np.arange(len(thin)), of_fine.shape[1])
    of_thin = np.where(among_thin == MISSING, np.int32(MISSING), thin[among_thin])
    return np.concatenate([of_thin, of_fine]).astype(np.int32)
