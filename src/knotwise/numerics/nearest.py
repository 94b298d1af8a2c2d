"""Which rows are near which: nearest earlier rows of an order, nearest of all rows, and a spatial sort.

Rows are points [N, q] in which distances mean something, such as inputs in length-scale units. The same points give the
same answer, also where distances are equal; of equally near neighbours the one that comes first in the order is named
first.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.spatial import cKDTree

from knotwise.numerics.blocks import open_threads

#: what stands where a row has fewer earlier rows than neighbours were asked for
MISSING = -1
#: from so many directions on, a tree looks at nearly all points, and products of matrices are faster
MANY_DIRECTIONS = 14.0
#: at most, of which the directions are asked
SOME_POINTS = 20_000
#: distances computed at once
BATCH_NUMBERS = 4_000_000
#: so many first rows of an order have all their distances computed
FIRST_ROWS = 1024
#: a tree holds so many times the rows of the tree before it: 2 needs more neighbours, and took 1.3 times as long
GROWTH = 1.3
#: of each part of the sorted rows; parts are no longer split
LEAF_ROWS = 32


def nearest_earlier(points: np.ndarray, order: np.ndarray, n_neighbors: int) -> np.ndarray:
    """The nearest rows among those that come earlier in an order, the nearest first.

    Takes O(N log N) with a tree where the points vary in few directions, and O(N^2) products where they vary in many.

    `order` [N] are the rows of points [N, q] in their order. Returns numbers of rows, [N, n_neighbors] of int32;
    `MISSING` where fewer rows come earlier.
    """
    N, m = len(points), n_neighbors
    ordered = np.ascontiguousarray(points[order])
    found = np.full((N, m), MISSING, np.int32)  # places in the order
    start = 0
    while start < N and m:
        stop = min(max(int(GROWTH * start), FIRST_ROWS), N)
        if start == 0 or _directions(ordered[:stop]) > MANY_DIRECTIONS:
            _search_all(ordered, start, stop, found)
        else:
            _search_tree(ordered, start, stop, found)
        start = stop
    graph = np.full((N, m), MISSING, np.int32)
    graph[order] = np.where(found == MISSING, MISSING, order[found])
    return graph


def _search_tree(ordered: np.ndarray, start: int, stop: int, found: np.ndarray) -> None:
    """Ask a tree of the rows before `stop` for more neighbours than are needed, until enough of them are earlier."""
    m = found.shape[1]
    tree = cKDTree(ordered[:stop])
    # in a random order 1 / GROWTH of the near rows are earlier, or more; one is the row itself
    places, k = np.arange(start, stop), int(GROWTH * m) + 7
    while len(places):
        k = min(k, stop)
        distances, near = tree.query(ordered[places], k, workers=_workers(len(places)))
        earlier = near < places[:, None]
        enough = (earlier.sum(1) >= m) | (k == stop)
        distances = np.where(earlier, distances, np.inf)[enough]
        near = np.where(earlier, near, MISSING)[enough]
        found[places[enough]] = _nearest_of(distances, near, m)
        places, k = places[~enough], 2 * k


def _workers(n_places: int) -> int:
    """Threads that ask a tree: of few places one is quicker."""
    return open_threads() if n_places >= FIRST_ROWS else 1


def _search_all(ordered: np.ndarray, start: int, stop: int, found: np.ndarray) -> None:
    """Compute the distances from all earlier rows, some rows at a time."""
    m, step = found.shape[1], max(1, BATCH_NUMBERS // stop)
    for first in range(start, stop, step):
        last = min(first + step, stop)
        distances = squared_distances(ordered[first:last], ordered[:last])
        distances[np.arange(last) >= np.arange(first, last)[:, None]] = np.inf
        k = min(m, last)
        near = np.argpartition(distances, k - 1, axis=1)[:, :k]
        distances = np.take_along_axis(distances, near, 1)
        near = np.where(np.isfinite(distances), near, MISSING)
        found[first:last, :k] = _nearest_of(distances, near, k)


def _nearest_of(distances: np.ndarray, near: np.ndarray, m: int) -> np.ndarray:
    """The m nearest of each row's candidates, [n, m], the nearest first and of equally near ones the first."""
    by_place = np.argsort(near, axis=1, kind="stable")
    distances, near = np.take_along_axis(distances, by_place, 1), np.take_along_axis(near, by_place, 1)
    nearest = np.argsort(distances, axis=1, kind="stable")[:, :m]
    return np.take_along_axis(near, nearest, 1)


def squared_distances(points: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Squared distances [n, N] by one product; the centre is taken off, or they would cancel far from the origin."""
    centre = others.mean(0)
    points, others = points - centre, others - centre
    D = points @ (-2.0 * others.T)
    D += np.einsum("nq,nq->n", points, points)[:, None]
    D += np.einsum("nq,nq->n", others, others)
    return D


def _directions(points: np.ndarray) -> float:
    """In how many directions points vary, (sum of variances)^2 / (sum of their squares): q if in all alike.

    Some points tell.
    """
    variances = points[:: -(-len(points) // SOME_POINTS)].var(0)
    total = float(variances.sum())
    return total**2 / float((variances**2).sum()) if total > 0 else 1.0


@dataclass(frozen=True, eq=False)
class Nearest:
    """Finds the nearest of all points [N, q], for rows that need not be among them; pickled without its tree."""

    points: np.ndarray

    def __getstate__(self) -> dict[str, np.ndarray]:
        return {"points": self.points}

    @cached_property
    def _tree(self) -> cKDTree | None:
        return None if _directions(self.points) > MANY_DIRECTIONS else cKDTree(self.points)

    def __call__(self, places: np.ndarray, n_neighbors: int) -> np.ndarray:
        """Numbers of the points nearest to each place, [n, min(n_neighbors, N)], the nearest first."""
        k = min(n_neighbors, len(self.points))
        if k == 0:
            return np.empty((len(places), 0), np.int32)
        if self._tree is not None:
            # a place that overflows is as far as numbers go
            workers = _workers(len(places))
            distances, near = self._tree.query(np.nan_to_num(places), np.arange(1, k + 1), workers=workers)
            near = np.minimum(near, len(self.points) - 1)  # a distance that overflows has a number beyond all rows
            return _nearest_of(distances, near, k).astype(np.int32)
        found = np.empty((len(places), k), np.int32)
        step = max(1, BATCH_NUMBERS // len(self.points))
        for start in range(0, len(places), step):
            some = slice(start, start + step)
            distances = squared_distances(places[some], self.points)
            near = np.argpartition(distances, k - 1, axis=1)[:, :k]
            found[some] = _nearest_of(np.take_along_axis(distances, near, 1), near, k)
        return found


def random_order(points: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The rows in a random order, [N]: early rows lie everywhere, so that late ones have near and far neighbours."""
    return rng.permutation(len(points))


def spatial_sort(points: np.ndarray, block_size: int = 1) -> np.ndarray:
    """The rows, [N], so that rows near each other in space are near each other in the order.

    Halves at the median of the coordinate with the widest range, again and again, down to `LEAF_ROWS` rows. A run of
    rows then has few neighbours outside. Blocks of so many rows are no runs across such a cut, but boxes: parts of
    more rows are cut between blocks.
    """
    waiting, leaves = [np.arange(len(points))], []
    while waiting:
        rows = waiting.pop()
        if len(rows) <= LEAF_ROWS:
            leaves.append(rows)
            continue
        here = points[rows]
        column, half = np.argmax(np.ptp(here, axis=0)), len(rows) // 2
        if len(rows) > block_size:
            half = max(round(half / block_size), 1) * block_size
        rows = rows[np.argsort(here[:, column], kind="stable")]
        waiting += [rows[half:], rows[:half]]
    return np.concatenate(leaves) if leaves else np.arange(0)
