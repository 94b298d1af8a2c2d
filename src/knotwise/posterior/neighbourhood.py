"""Who predicts a new row, and how much: nearest training rows, whose weights go to 0 before others take their places.

Equations (N..) are those of docs/derivations/neighbours.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from knotwise.evidence.model import Rows
from knotwise.evidence.residual.conditionals import noise_of_rows
from knotwise.evidence.residual.correlation import OTHERS_OF_NEW, GivenKnots, metrics, n_candidates, without_repeats
from knotwise.kernels.base import Kernel
from knotwise.numerics.nearest import MISSING, Nearest

#: of the number of neighbours that is asked for: so many have a weight, and so many of these a weight of 1
WEIGHTED, WHOLE = 1.2, 0.8
#: of a neighbour's variance: the noise that is added halfway between the last whole weight and none  (N12)
ADDED_NOISE = 0.1


@dataclass(frozen=True)
class Neighbourhoods:
    """Numbers of the neighbours of n new rows, [n, m], and the weights of these, from 0 to 1."""

    near: np.ndarray
    weights: np.ndarray


@dataclass(frozen=True, eq=False)
class Ranking:
    """Which training rows are nearest to others: by distance, or by the correlation of residuals given the knots (N14).

    `nearest` finds rows for each distance that may tell; correlations decide where there are several.
    """

    kernel: Kernel
    nearest: tuple[Nearest, ...]
    given: GivenKnots

    @staticmethod
    def of(given: GivenKnots) -> Ranking:
        return Ranking(given.kernel, tuple(map(Nearest, metrics(given.kernel, given.X, OTHERS_OF_NEW))), given)

    def __call__(self, X: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
        """The n nearest rows, [n_rows, min(n, N)], the nearest first, and how far they are: continuous in X."""
        n = min(n, len(self.given.X))
        if len(self.nearest) == 1 or n in (0, len(self.given.X)):
            return self._by_distance(self.nearest[0], self.kernel.coordinates(X), n)
        some = n_candidates(n, len(self.nearest))
        whole = -(-2 * some // 3)
        pieces = []
        for nearest, points in zip(self.nearest, metrics(self.kernel, X, OTHERS_OF_NEW), strict=True):
            near, farness = self._by_distance(nearest, points, some + 1)
            # a candidate comes without a jump, too
            pieces.append((near[:, :some], np.ones(near.shape) if near.shape[1] <= some else _weights(farness, whole)))
        candidates, counts = without_repeats(*(np.hstack(each) for each in zip(*pieces, strict=True)))
        worth = np.where(
            candidates == MISSING, -1.0, np.nan_to_num(counts * self.given.squared_covariances(X, candidates))
        )
        best = np.argsort(-worth, axis=1, kind="stable")[:, :n]
        return np.take_along_axis(candidates, best, 1), -np.take_along_axis(worth, best, 1)

    @staticmethod
    def _by_distance(nearest: Nearest, points: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
        near = nearest(points, n)
        with np.errstate(over="ignore", invalid="ignore"):  # places beyond all numbers
            return near, ((nearest.points[near] - points[:, None]) ** 2).sum(2)


@dataclass(frozen=True, eq=False)
class Places:
    """Training rows by which new rows are predicted: those with equal inputs are one, with the mean of their targets.

    The mean has the weights 1 / noise, and is all that they say of the function. So however many there are, they do not
    crowd out others.
    """

    rows: Rows
    ranking: Ranking

    @staticmethod
    def of(rows: Rows, ranking: Ranking) -> Places:
        """`rows` have y = r, a noise variance and no weights; `ranking` is of them."""
        first, number = _distinct(rows.X)
        if len(first) == len(rows):
            return Places(rows, ranking)
        assert rows.noise_variance is not None
        precision = 1.0 / noise_of_rows(ranking.kernel, rows.X, rows.noise_variance)[0]
        total = np.bincount(number, precision)
        merged = replace(rows[first], y=np.bincount(number, precision * rows.y) / total, noise_variance=1.0 / total)
        return Places(merged, Ranking.of(replace(ranking.given, X=merged.X, noise=1.0 / total)))

    def around(self, X: np.ndarray, n_neighbors: int) -> Neighbourhoods:
        """The neighbours of the rows of X: some more than `n_neighbors`, of which the farther ones count less  (N12).

        All, with a weight of 1, where no more than one would be left out.
        """
        m = int(np.ceil(WEIGHTED * n_neighbors))
        near, farness = self.ranking(X, m + 1 if m else 0)
        if m == 0 or near.shape[1] == len(self.rows):
            return Neighbourhoods(near, np.ones(near.shape))
        return Neighbourhoods(near[:, :-1], _weights(farness, max(1, int(WHOLE * n_neighbors))))


def _weights(farness: np.ndarray, n_whole: int) -> np.ndarray:
    """Weights [n, m] that go from 1 for the `n_whole` nearest to 0 where a row is as far as the first that is left out.

    `farness` [n, m + 1] is in order but for rounding. Where too many rows are equally far, all weights are 1.
    """
    last, limit = farness[:, [n_whole - 1]], farness[:, [-1]]
    share = np.zeros((len(farness), farness.shape[1] - 1))
    with np.errstate(over="ignore", invalid="ignore"):  # places beyond all numbers
        np.divide(farness[:, :-1] - last, limit - last, out=share, where=limit > last)
    share = np.clip(np.nan_to_num(share), 0.0, 1.0)
    return (1.0 - share) ** 2 / ((1.0 - share) ** 2 + ADDED_NOISE * share**2)


def _distinct(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The number of the first of each set of equal rows, [p], in order, and for each row which set it is in, [n]."""
    order = np.lexsort(X.T[::-1])
    new = np.ones(len(X), bool)
    new[1:] = (X[order[1:]] != X[order[:-1]]).any(1)
    first = order[new]  # lexsort is stable
    in_order = np.argsort(first)
    rank = np.empty(len(first), np.intp)
    rank[in_order] = np.arange(len(first))
    number = np.empty(len(X), np.intp)
    number[order] = rank[np.cumsum(new) - 1]
    return first[in_order], number
