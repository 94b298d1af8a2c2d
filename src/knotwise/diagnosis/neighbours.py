"""A test of what a model misses: do residuals of neighbouring rows agree more than the model says?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from knotwise.evidence.model import Rows
from knotwise.evidence.scores import RowScores
from knotwise.posterior.base import Posterior
from knotwise.posterior.residuals import Residuals

__all__ = ["NeighbourTest", "Neighbours", "neighbour_test", "residuals_of_neighbours"]

N_NEIGHBOURS = 4
LEAST_ROWS = 30
MAX_PLACES, MAX_PLACES_EXACT = 5000, 1000  # whose neighbours are looked up: the test is cheap for any number of rows


@dataclass(frozen=True)
class NeighbourTest:
    """How much residuals of neighbours agree beyond what the model expects: `neighbours` of a `Diagnosis`.

    A row that counts more than once has the sum of the residuals of its copies, and its pairs count as often (once in a
    model with neighbours). Where residuals are larger than the model says, the correlation is relative to their own
    size.

    Attributes
    ----------
    correlation : float
        The correlation of residuals beyond that of the model.
    z : float
        The same, in standard deviations under the model.
    p : float
        The chance of a larger one if the knots and the kernel miss nothing.
    n_pairs : int
        How many pairs of neighbours were compared.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise import GPRegressor
    >>> X = np.linspace(0, 1, 60)[:, None]
    >>> y = np.sin(6 * X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=60)
    >>> test = GPRegressor(knots=6, random_state=0).fit(X, y).diagnose().neighbours
    >>> test.n_pairs > 0, 0 < test.p < 1
    (True, True)
    """

    correlation: float
    z: float
    p: float
    n_pairs: int


def residuals_of_neighbours(
    posterior: Posterior, rows: Rows, scores: RowScores | None = None
) -> tuple[Residuals, Neighbours] | None:
    """Residuals of rows, and who is near whom among them; None where the rows are too few.

    Distances are those of the standardised inputs. Costs O(n K^2) for n <= 25,000 rows, with knots, whose `scores` it
    needs; O(n m (K^2 + m^2)) with m neighbours, where each residual is that of a row given earlier rows of a random
    order; O(n N^2) for n <= 5,000 rows of the exact GP.
    """
    # whether rows at one place are copies, and so one row, depends on their values where these are counts or labels
    together = not posterior.state.model.likelihood.discrete
    found = Neighbours.find(rows.X, MAX_PLACES_EXACT if posterior.is_exact else MAX_PLACES, together=together)
    return None if found is None else (posterior.residuals(found.rows, scores), found)


def neighbour_test(residuals: Residuals, found: Neighbours, weights: np.ndarray | None) -> NeighbourTest | None:
    """Compare the residuals of each row and its nearest neighbours; None where none varies.

    The sum of products of residuals over pairs is compared with its mean and variance under the model: `Residuals`.
    """
    from scipy.special import ndtr

    counts = np.ones(len(found.rows)) if weights is None else weights[found.rows]

    def over_pairs(x: np.ndarray) -> float:
        return 0.5 * float(x @ found.sums(x))

    mean, variance = residuals.moments(found.sums)
    expected = over_pairs(np.sqrt(np.maximum(residuals.variance, 0.0)))
    if not (variance > 0 and expected > 0):
        return None
    excess = over_pairs(residuals.a) - mean
    z = excess / float(np.sqrt(variance))
    size = max(expected, over_pairs(np.abs(residuals.a)))
    return NeighbourTest(excess / size, z, float(ndtr(-z)), round(over_pairs(counts)))


@dataclass(frozen=True)
class Neighbours:
    """Which rows are neighbours: those of neighbouring places and, if `together`, the others at their own place.

    `rows` are the numbers of the rows that have neighbours, `place` [n, P] is 1 where a row is at a place, `near`
    [P, P] 1 for neighbouring places; both are sparse. Copies of a row are one row here, and so not neighbours: they
    agree, whatever the model.
    """

    rows: np.ndarray
    place: Any
    near: Any
    together: bool

    def sums(self, x: np.ndarray) -> np.ndarray:
        """The sum of x, [n] or [n, ...], over the neighbours of each row: A x, A the graph of neighbours."""
        at_place = self.place.T @ x
        if not self.together:
            return self.place @ (self.near @ at_place)
        return self.place @ (self.near @ at_place + at_place) - x

    @staticmethod
    def find(X: np.ndarray, max_places: int, *, together: bool) -> Neighbours | None:
        """The nearest neighbours of each place, or of so many drawn at random; None where rows are too few."""
        if len(X) < LEAST_ROWS:
            return None
        rng = np.random.default_rng(0)
        place, first = _places(X)
        anchors = np.arange(len(first))
        if len(first) > max_places:
            anchors = rng.choice(len(first), max_places, replace=False)
        pairs = _nearest(X[first], anchors)
        used = np.unique(np.concatenate([anchors, pairs.ravel()]))
        number = np.full(len(first), -1)  # of a place among those that are used
        number[used] = np.arange(len(used))
        rows = np.flatnonzero(number[place] >= 0)
        most = (N_NEIGHBOURS + 1) * max_places
        if len(rows) > most:  # many rows at some places
            rows = np.sort(rng.choice(rows, most, replace=False))
        at_place, near = _indicator(number[place[rows]], len(used)), _graph(number[pairs], len(used))
        return Neighbours(rows, at_place, near, together)


def _places(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The place of each row, a number from 0, and the first row of each place; equal rows are at one place."""
    order = np.lexsort(X.T)
    new = np.concatenate([[True], (X[order[1:]] != X[order[:-1]]).any(1)])
    place = np.empty(len(X), int)
    place[order] = np.cumsum(new) - 1
    return place, order[new]


def _nearest(places: np.ndarray, anchors: np.ndarray) -> np.ndarray:
    """Each anchor with its nearest other places, [pairs, 2]; each pair once."""
    from scipy.spatial import KDTree

    k = min(N_NEIGHBOURS + 1, len(places))  # the nearest is the place itself
    _, near = KDTree(places).query(places[anchors], k=np.arange(1, k + 1))
    pairs = np.column_stack([np.repeat(anchors, k), near.ravel()])
    return np.unique(np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1), axis=0)


def _indicator(place: np.ndarray, n_places: int) -> Any:
    """The matrix that is 1 where a row is at a place."""
    from scipy.sparse import csr_array

    n = len(place)
    return csr_array((np.ones(n), place, np.arange(n + 1)), shape=(n, n_places))


def _graph(pairs: np.ndarray, n: int) -> Any:
    """The symmetric matrix that is 1 for pairs."""
    from scipy.sparse import coo_array

    first, second = pairs.T
    ones = np.ones(2 * len(first))
    return coo_array((ones, (np.r_[first, second], np.r_[second, first])), shape=(n, n)).tocsr()
