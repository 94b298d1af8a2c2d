"""Knots and neighbours: where no number of knots is enough, what they leave is predicted from near rows.

Parameters are learned on *whole neighbourhoods*: some random rows, each given the rows nearest to it among all others.
A thin subset would see fewer neighbours than there will be, and take for smooth, or for noise, what near rows tell.
Length-scales decide who is near, so that neighbours are chosen anew for new parameters; the evidence of two graphs
cannot be compared, and validation rows say which parameters are the better ones, and whether neighbours pay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from knotwise.decisions.hyperparameters import for_stage
from knotwise.decisions.neighbour_sites import given_knots, with_neighbours
from knotwise.decisions.neighbour_trial import NearCandidate, NearTrial
from knotwise.decisions.thresholds import NEIGHBOURS
from knotwise.errors import KnotwiseError, NotPositiveDefiniteError
from knotwise.evidence.residual.ordering import vecchia_ordering
from knotwise.numerics.blocks import Serial
from knotwise.numerics.nearest import Nearest
from knotwise.posterior.vecchia import PREDICTING
from knotwise.selection.base import Decision, FittedAt, Selection
from knotwise.selection.optimizing import amplitudes_of_terms
from knotwise.selection.places import Pivots
from knotwise.selection.problem import Problem
from knotwise.selection.starts import log_spread
from knotwise.selection.trace import KnotTrace, Status


@dataclass
class Nearby:
    """Knots with neighbours for a problem: whether they are wanted, whether they pay, and the selection with them."""

    problem: Problem
    rng: np.random.Generator
    trace: KnotTrace
    tried: bool = False
    close: tuple[NearTrial, NearCandidate] | None = None  # what was tried, where only knots that are fitted can tell
    max_knots: int | None = None  # a user's limit

    def decide(
        self, theta: np.ndarray, Z: np.ndarray, *, too_few: bool, fitted: bool = False
    ) -> Decision[Selection | None]:
        """The selection with neighbours, where knots alone are too few or leave something that near rows share.

        None where neighbours are not wanted, or do not pay. What was tried is not tried again. Before the knots are
        `fitted`, None also where neighbours gain so little that knots may make up for it, or that other knots seem as
        good; then the fitted knots decide.
        """
        asked = self.problem.n_neighbors
        if self.close is not None:
            trial, fit = self.close
        elif not asked and (self.tried or not (too_few or _near_rows_agree(self.problem, theta, Z, self.rng))):
            return Decision(None, "neighbours are not wanted")
        else:
            self.tried = True
            found = self._learned(theta, asked)
            if found is None:
                return Decision(None, "nothing can be computed with neighbours")
            trial, learned = found
            if asked:
                why = "as was asked for"
                return Decision(select_with_neighbours(trial.on_more_rows(learned), self.rng, self.trace, why), why)
            fit = trial.predicted_by_more(learned)
        gain, error = self._gain(trial, fit, theta, Z, fitted=fitted)
        said = f"with neighbours the log density of other rows is {gain:+.3f} +- {error:.3f}"
        numbers = {"gain": gain, "standard_error": error}
        surely = NEIGHBOURS.sure * error
        if not fitted and not gain > max(NEIGHBOURS.clear, error if too_few else surely):
            self.close = trial, fit
            return Decision(None, self._note(fit, f"knots are fitted, too, before it is decided: {said}"), numbers)
        # fitted knots that are too few leave something open, unlike neighbours: they must surely predict better
        if fitted and not gain > max(NEIGHBOURS.pays, surely) * (-1.0 if too_few else 1.0):
            return Decision(None, self._note(fit, f"knots alone are taken: {said}"), numbers)
        fit = trial.predicted_by_more(trial.on_more_rows(fit))
        why = f"validation rows have a log density that is {gain:.2f} higher than through knots alone"
        if gain < NEIGHBOURS.pays:
            why = "validation rows are predicted as well as through knots alone, which are too few"
        return Decision(select_with_neighbours(fit, self.rng, self.trace, why), why, numbers)

    def _learned(self, theta: np.ndarray, asked: int | None) -> tuple[NearTrial, NearCandidate] | None:
        """Hyperparameters and knots beside neighbours: those with which the kernel was chosen, or learned anew."""
        problem, known = self.problem, self.problem.tried
        usual = NEIGHBOURS.neighbors if problem.model.likelihood.conjugate else NEIGHBOURS.site_neighbors
        if known is not None and (asked or usual) == known[1].n_neighbors:
            trial, fit = known
            trial = replace(trial, trace=self.trace)
            learned: NearCandidate | None = trial.converge(replace(fit, problem=problem))
        else:
            trial = NearTrial.near(problem, theta, self.rng, self.trace, most_knots=self.max_knots)
            learned = trial.learn([(problem, start) for start in starts_of(problem, theta)], asked or usual)
        if learned is None:
            return None
        return trial, learned if self.max_knots else trial.with_enough_knots(learned)

    def _note(self, fit: NearCandidate, words: str) -> str:
        self.trace.add("neighbors", len(fit.stage.Z), fit.value, n_rows=fit.neighbourhoods.summary.count, note=words)
        return words

    def _gain(
        self, trial: NearTrial, fit: NearCandidate, theta: np.ndarray, Z: np.ndarray, *, fitted: bool
    ) -> tuple[float, float]:
        """Mean log density of validation rows over that through knots alone, and its standard error.

        Knots alone are those that are given; before these are fitted, also many on rows with the parameters of the
        neighbours, which say what knots may come to.
        """
        rivals = [(self.problem, theta, Z)]
        if not fitted:
            problem = fit.problem
            pool = problem.take(problem.sample(NEIGHBOURS.pool_rows, self.rng))
            many = pool.X[Pivots(problem.model.with_theta(fit.theta).kernel, pool.X).extend(NEIGHBOURS.many_knots)]
            rivals.append((problem, fit.theta, many))
        gains = [
            trial.labels.gain(fit.density, alone)
            for alone in (trial.alone(*rival) for rival in rivals)
            if alone is not None
        ]
        return min(gains, default=(np.inf, 0.0))


def add_neighbours(
    select: Callable[[Problem, np.random.Generator], Selection], problem: Problem, rng: np.random.Generator
) -> Selection:
    """Neighbours for knots that a selector without any has chosen: these stay, hyperparameters are learned anew."""
    selection = select(problem, rng)
    if selection.problem is not None or not problem.n_neighbors:
        return selection
    trace, watched = selection.trace, problem.new_trace()
    trace.listener, trace.inference = watched.listener, watched.inference  # some selectors leave a trace of no steps
    trial = NearTrial.near(problem, selection.theta, rng, trace, selection.Z)
    fit = trial.learn([(problem, start) for start in starts_of(problem, selection.theta)], problem.n_neighbors)
    if fit is None:
        raise NotPositiveDefiniteError(
            f"Nothing can be computed with these {len(selection.Z)} knots and {problem.n_neighbors} neighbours of each "
            "row. Let `knots='auto'` choose the knots, or leave `n_neighbors` out."
        )
    near = select_with_neighbours(trial.on_more_rows(fit), rng, trace, "as was asked for")
    return replace(near, knots_as_given=selection.knots_as_given)


def select_with_neighbours(fit: NearCandidate, rng: np.random.Generator, trace: KnotTrace, why: str) -> Selection:
    """Knots and neighbours of all rows.

    Parameters are those that neighbourhoods have found; the evidence of all rows goes on from there only where it was
    seen to predict as well. In it, early rows of the order have far neighbours, and where a column is nearly a grid its
    parameters predict worse.
    """
    problem, stage = fit.problem, fit.stage
    kernel, around = problem.model.with_theta(fit.theta).kernel, fit.sites is not None
    given = given_knots(problem, fit.theta, stage.Z)
    ordering = vecchia_ordering(kernel, problem.rows, fit.n_neighbors, rng, around=around, given=given)
    n_predicting = max(fit.state.n_predicting, PREDICTING * ordering.residual.n_neighbors)  # of fewer rows, at most all
    residual = replace(ordering.residual, n_predicting=n_predicting)
    near = with_neighbours(problem.on_rows(problem.take(ordering.rows)), residual)
    if problem.optimizer is None or (fit.whole and fit.sites is None):
        stage = for_stage(near, NEIGHBOURS.round).optimize(fit.theta, stage.Z, rng)
    point = near.point(stage.theta, stage.Z)
    evidence = near.evaluate(point, gradient=False)
    result = replace(stage.result, value=evidence.value)
    if problem.optimizer is not None:
        result = replace(result, converged=True, reason="validation rows said when the hyperparameters had converged")
    n_neighbors = ordering.residual.n_neighbors  # fewer than were asked for where rows are few
    reason = f"{len(stage.Z)} knots and {n_neighbors} neighbours of each row, {why}"
    status, advice = None, ""
    if fit.ended == "moving":
        reason += "; parameters still moved with every choice of neighbours"
        status, advice = Status.HYPERPARAMETERS_NOT_CONVERGED, "Give a start in the kernel."
    trace.stop_reason = reason
    trace.add("final", len(point.Z), evidence.value, theta=point.theta, note="all rows")
    fitted = (
        None
        if fit.whole or fit.sites is not None
        else FittedAt(stage.point, 1.0, problem=fit.neighbourhoods.computed_by(Serial()))
    )
    return Selection(
        point,
        evidence,
        result,
        reason,
        stage.failed_restarts,
        trace,
        status=status,
        advice=advice,
        fitted=fitted,
        problem=near,
        order=ordering.rows,
    )


def _near_rows_agree(problem: Problem, theta: np.ndarray, Z: np.ndarray, rng: np.random.Generator) -> bool:
    """Whether residuals of rows and of the rows nearest to them agree: near rows know more than the knots say."""
    rows = problem.rows
    points = problem.model.with_theta(theta).kernel.coordinates(rows.X)
    chosen = problem.sample(NEIGHBOURS.tested_rows, rng)
    near = Nearest(points)(points[chosen], 2)
    nearest = np.where(near[:, 0] == chosen, near[:, 1], near[:, 0])
    fic = replace(problem.anew(), model=problem.model.with_power(1.0))
    try:
        point = fic.point(theta, Z)
        both = fic.row_scores(point, rows[np.concatenate([chosen, nearest])]).standardized
    except KnotwiseError:
        return False
    one, other = both[: len(chosen)], both[len(chosen) :]
    correlation = float(np.mean(one * other) / np.sqrt(np.mean(one**2) * np.mean(other**2)))
    return correlation > max(NEIGHBOURS.large, NEIGHBOURS.surprising / np.sqrt(len(chosen)))


# -- where hyperparameters start ------------------------------------------------------------------------


def _not_too_long(problem: Problem, theta: np.ndarray) -> list[np.ndarray]:
    """Parameters with length-scales of at most so many spreads of the columns, shortest first."""
    if problem.optimizer is None:
        return [theta]
    spread = log_spread(problem)
    movable = problem.table.with_role("lengthscale") & problem.free & ~problem.given
    low, high = problem.table.theta_bounds.T
    starts = [
        np.clip(np.where(movable, np.minimum(theta, np.log(f) + spread), theta), low, high) for f in NEIGHBOURS.longest
    ]
    return starts[:1] if np.array_equal(starts[0], starts[1]) else starts


def starts_of(problem: Problem, theta: np.ndarray) -> list[np.ndarray]:
    """Where hyperparameters are looked for: length-scales are not too long for a column to matter.

    Of few rows most columns seem not to. One more start is for sums, and for data that are not Gaussian, where an
    amplitude or the nugget has all but vanished: sites that were found without them ask for little more.
    """
    starts = _not_too_long(problem, theta)
    of_sum = amplitudes_of_terms(problem).any()
    if problem.optimizer is None or (problem.model.likelihood.conjugate and not of_sum):
        return starts
    table = problem.table
    movable = (table.with_role("amplitude") | table.of_part("nugget")) & problem.free & ~problem.given
    vanished = movable & (theta < table.theta + np.log(NEIGHBOURS.vanished))
    if vanished.any():
        starts.append(_not_too_long(problem, np.where(vanished, table.theta, theta))[0])
    return starts
