"""The residual autocorrelation test (Moran): whether residuals of near rows agree more than the model says, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.spatial import KDTree
from scipy.special import ndtr

from knotwise.decisions.thresholds import LACK_OF_FIT
from knotwise.decisions.trials import Trial
from knotwise.errors import KnotwiseError
from knotwise.evidence.model import Rows
from knotwise.evidence.scores import RowScores
from knotwise.posterior.base import Posterior
from knotwise.posterior.exact import ExactPosterior
from knotwise.posterior.residuals import Residuals
from knotwise.selection.problem import Problem
from knotwise.selection.trace import KnotTrace

N_NEIGHBOURS = 4
LEAST_ROWS = 30
MAX_PLACES, MAX_PLACES_EXACT = 5000, 1000  # whose neighbours are looked up: the test is cheap for any number of rows


@dataclass(frozen=True)
class AutocorrelationTest:
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


def residuals_and_graph(
    posterior: Posterior, rows: Rows, scores: RowScores | None = None
) -> tuple[Residuals, NeighbourGraph] | None:
    """Residuals of rows, and who is near whom among them; None where the rows are too few.

    Distances are those of the standardised inputs. Costs O(n K^2) for n <= 25,000 rows, with knots, whose `scores` it
    needs; O(n m (K^2 + m^2)) with m neighbours, where each residual is that of a row given earlier rows of a random
    order; O(n N^2) for n <= 5,000 rows of the exact GP.
    """
    # whether rows at one place are copies, and so one row, depends on their values where these are counts or labels
    together = not posterior.state.model.likelihood.discrete
    found = NeighbourGraph.find(rows.X, MAX_PLACES_EXACT if posterior.is_exact else MAX_PLACES, together=together)
    return None if found is None else (posterior.residuals(found.rows, scores), found)


def autocorrelation_test(
    residuals: Residuals, found: NeighbourGraph, weights: np.ndarray | None
) -> AutocorrelationTest | None:
    """Compare the residuals of each row and its nearest neighbours; None where none varies.

    The sum of products of residuals over pairs is compared with its mean and variance under the model: `Residuals`.
    """
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
    return AutocorrelationTest(excess / size, z, float(ndtr(-z)), round(over_pairs(counts)))


@dataclass(frozen=True)
class NeighbourGraph:
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
    def find(X: np.ndarray, max_places: int, *, together: bool) -> NeighbourGraph | None:
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
        return NeighbourGraph(rows, at_place, near, together)


def _places(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The place of each row, a number from 0, and the first row of each place; equal rows are at one place."""
    order = np.lexsort(X.T)
    new = np.concatenate([[True], (X[order[1:]] != X[order[:-1]]).any(1)])
    place = np.empty(len(X), int)
    place[order] = np.cumsum(new) - 1
    return place, order[new]


def _nearest(places: np.ndarray, anchors: np.ndarray) -> np.ndarray:
    """Each anchor with its nearest other places, [pairs, 2]; each pair once."""
    k = min(N_NEIGHBOURS + 1, len(places))  # the nearest is the place itself
    _, near = KDTree(places).query(places[anchors], k=np.arange(1, k + 1))
    pairs = np.column_stack([np.repeat(anchors, k), near.ravel()])
    return np.unique(np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1), axis=0)


def _indicator(place: np.ndarray, n_places: int) -> Any:
    """The matrix that is 1 where a row is at a place."""
    n = len(place)
    return csr_array((np.ones(n), place, np.arange(n + 1)), shape=(n, n_places))


def _graph(pairs: np.ndarray, n: int) -> Any:
    """The symmetric matrix that is 1 for pairs."""
    first, second = pairs.T
    ones = np.ones(2 * len(first))
    return coo_array((ones, (np.r_[first, second], np.r_[second, first])), shape=(n, n)).tocsr()


GONE = 0.5  # share of the excess correlation through knots; the exact GP has less where knots are the cause


@dataclass(frozen=True)
class ExactTrial:
    """Excess correlations of neighbouring residuals on the same few rows: through the knots, and of the exact GP."""

    n_rows: int
    through_knots: float
    exact: float

    @property
    def knots_are_the_cause(self) -> bool:
        """Whether the exact GP explains most of what residuals through the knots have in common."""
        return self.exact < GONE * self.through_knots


def try_exact(
    fit: Any, scores: RowScores, residuals: Residuals, found: NeighbourGraph, *, relearn: bool
) -> ExactTrial | None:
    """Compare a fit through knots with the exact GP on the 300 rows around the place where residuals agree most.

    The exact GP has as many random rows beside these, and the hyperparameters of the fit. With few knots these may have
    been learned wrongly: with `relearn`, where it explains no more, it learns its own, from the fitted ones and from
    those at the start of the fit with short length-scales. None where the exact GP cannot be computed. Costs one
    evaluation of it on 600 rows, or a few dozen.
    """
    rows, theta, rng = scores.rows, fit.selection.theta, np.random.default_rng(0)
    near = _patch(rows, residuals, found)
    others = rng.permutation(np.setdiff1d(np.arange(len(rows)), near))[: LACK_OF_FIT.patch_rows]
    both = rows[np.concatenate([near, others])]
    few = Trial.of_rows(both, rng, KnotTrace())
    problem = few.exact(fit.training, LACK_OF_FIT.search)
    graph = NeighbourGraph.find(rows.X[near], LACK_OF_FIT.patch_rows, together=found.together)
    if graph is None:
        return None
    weights = None if rows.weights is None else rows.weights[near]
    through = autocorrelation_test(fit.posterior.residuals(near[graph.rows], scores), graph, weights)

    def trial(theta: np.ndarray) -> ExactTrial | None:
        try:
            state = problem.evaluate(problem.point(theta, few.no_knots), gradient=False).state
        except KnotwiseError:
            return None
        exact = autocorrelation_test(ExactPosterior(state).residuals(graph.rows), graph, weights)
        if exact is None or through is None:
            return None
        return ExactTrial(len(near), through.correlation, exact.correlation)

    held = trial(theta)
    if not relearn or (held is not None and held.knots_are_the_cause):
        return held
    learned = few.best(problem, [theta, *_short_starts(problem)])
    return held if learned is None else trial(learned.theta) or held


def _patch(rows: Rows, residuals: Residuals, found: NeighbourGraph) -> np.ndarray:
    """The rows around the one whose residual agrees most with those near it, in their order."""
    z = residuals.a / np.sqrt(np.maximum(residuals.variance, np.finfo(float).tiny))
    agreement = z * found.sums(z)
    centre = found.rows[np.argmax(found.sums(agreement) + agreement)]
    distance = ((rows.X - rows.X[centre]) ** 2).sum(1)
    return np.sort(np.argsort(distance, kind="stable")[: LACK_OF_FIT.patch_rows])


def _short_starts(problem: Problem) -> list[np.ndarray]:
    """The hyperparameters with which the fit began, and length-scales that are short among the rows.

    Where a fit has missed its function, it has taken it for noise: from a vanishing amplitude no length-scale helps.
    """
    table = problem.table
    lengthscales = table.with_role("lengthscale") & problem.free
    spread = float(np.sqrt(problem.rows.X.var(0).mean())) or 1.0
    shorter = (
        np.where(lengthscales, np.minimum(table.theta, np.log(f * spread)), table.theta) for f in LACK_OF_FIT.short
    )
    return [np.clip(start, *table.theta_bounds.T) for start in shorter]
