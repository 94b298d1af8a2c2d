"""Knots and neighbours: where no number of knots is enough, what they leave is predicted from near rows.

Parameters are learned on *whole neighbourhoods*: some random rows, each given the rows nearest to it among all others.
A thin subset would see fewer neighbours than there will be, and take for smooth, or for noise, what near rows tell.
Length-scales decide who is near, so that neighbours are chosen anew for new parameters; the evidence of two graphs
cannot be compared, and rows that were held out say which parameters are the better ones, and whether neighbours pay.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from knotwise.errors import KnotwiseError, NotPositiveDefiniteError
from knotwise.evidence import InMemory, Rows
from knotwise.evidence.residual.arrange import arrange
from knotwise.evidence.residual.surround import surround
from knotwise.kernels.describe import describe_kernel
from knotwise.kernels.stationary import Matern32, Matern52
from knotwise.knots.automatic.settle import for_stage
from knotwise.knots.held_out import held_out_density, mean_gain
from knotwise.knots.pivots import Pivots
from knotwise.knots.problem import Problem
from knotwise.knots.selection import FittedAt, Selection, Stage
from knotwise.knots.start import spread_out
from knotwise.knots.status import Status
from knotwise.knots.trace import KnotTrace
from knotwise.numerics.blocks import Serial
from knotwise.numerics.nearest import Nearest
from knotwise.optimize.lbfgs import LBFGS
from knotwise.posterior import SparsePosterior
from knotwise.posterior_neighbours import NeighbourPosterior, NeighbourState

__all__ = ["NearFit", "Nearby", "add_neighbours"]

N_KNOTS = 100  # with neighbours their number matters little
POOL_ROWS = 2000  # among which knots are placed
N_NEIGHBORS, MORE_NEIGHBORS = 15, 30
CHOSEN_ROWS, MORE_CHOSEN_ROWS = 3000, 9000  # whose density, given their neighbours, tells the parameters, and at last
HELD_OUT_ROWS, HELD_OUT_SHARE = 1000, 0.15
JUDGES = 30  # rows held out; what fewer say of parameters that move is chance
LONGEST = (1.0, 4.0)  # length-scales of two starts at most, in spreads of the columns: none is taken for irrelevant yet
ROUNDS = 3  # of choosing neighbours and fitting parameters to them
BETTER, MUCH_BETTER = 0.003, 0.01  # nats per row held out that another round, and that more neighbours must bring
PAYS = 0.01  # nats per row held out that neighbours must bring
ROUND = LBFGS(max_iterations=25, value_tolerance=1e-5, gradient_tolerance=1e-1)
MANY_KNOTS = 300  # on rows, against which neighbours are compared
TESTED_ROWS = 2000  # whose residuals are compared with those of their nearest rows
SURPRISING, LARGE = 5.0, 0.05  # correlation of residuals, in standard errors and as it is, that asks for neighbours


@dataclass(frozen=True)
class NearFit:
    """Parameters and knots that neighbourhoods have found, and the log density of each row that was held out.

    `moving` says that a further choice of neighbours would have changed the parameters for the better, `whole` that all
    rows that were not held out told them.
    """

    problem: Problem
    stage: Stage
    n_neighbors: int
    density: np.ndarray
    neighbourhoods: Problem
    moving: bool = False
    whole: bool = False

    @property
    def theta(self) -> np.ndarray:
        return self.stage.theta

    @property
    def mean_density(self) -> float:
        """Of the rows held out; 0 where there are none, so that all parameters are as good."""
        return float(self.density.mean()) if len(self.density) else 0.0


@dataclass(frozen=True)
class NearTrial:
    """Rows that are held out, and the others: all that predict them, and those that tell the parameters."""

    held_out: Rows
    others: Rows
    chosen: np.ndarray
    rng: np.random.Generator
    trace: KnotTrace
    knots: np.ndarray | None = None  # that are given
    most_knots: int = N_KNOTS  # that are placed

    @staticmethod
    def draw(
        problem: Problem, rng: np.random.Generator, trace: KnotTrace, knots: np.ndarray | None = None
    ) -> NearTrial:
        n_rows = problem.summary.n_rows
        out = problem.sample(min(HELD_OUT_ROWS, int(HELD_OUT_SHARE * n_rows)), rng)
        others = problem.take(np.setdiff1d(np.arange(n_rows), out))
        chosen = rng.choice(len(others), min(MORE_CHOSEN_ROWS, len(others)), replace=False)
        return NearTrial(problem.take(out), others, chosen, rng, trace, knots)

    @property
    def first_chosen(self) -> np.ndarray:
        """At most half of the rows: of more, neighbours would be other chosen rows, of which few come earlier."""
        return self.chosen[: min(CHOSEN_ROWS, (len(self.others) + 1) // 2)]

    def learn(self, starts: Iterable[tuple[Problem, np.ndarray]], n_neighbors: int) -> NearFit | None:
        """The parameters with which the rows held out are predicted best, of some kernels and starts of each.

        A first round chooses between them; further ones choose neighbours anew, as long as that helps. None where
        nothing can be computed.
        """
        best = _best(self._round(*start, n_neighbors, self.first_chosen) for start in starts)
        for _ in range(ROUNDS):
            if best is None or best.problem.optimizer is None:
                return best
            new = self._round(best.problem, best.theta, n_neighbors, self.first_chosen)
            if new is None or new.mean_density < best.mean_density + BETTER:
                break
            moving = len(self.held_out) >= JUDGES and new.mean_density > best.mean_density + MUCH_BETTER
            best = replace(new, moving=moving)
        else:
            return best
        return replace(best, moving=False)

    def on_more_rows(self, fit: NearFit) -> NearFit:
        """The same with parameters that more rows tell, unless these predict the rows held out clearly worse."""
        if fit.problem.optimizer is None:
            return fit
        more = self._round(fit.problem, fit.theta, fit.n_neighbors, self.chosen)
        if more is None:
            return fit
        loss, error = mean_gain(fit.density, more.density, self.held_out.weights)
        return fit if loss > max(BETTER, 2 * error) else replace(more, moving=fit.moving)

    def with_more_neighbours(self, fit: NearFit) -> NearFit:
        """The same with more neighbours, where they help much."""
        held = replace(fit.problem, optimizer=None)
        more = self._round(held, fit.theta, MORE_NEIGHBORS, self.first_chosen)
        if more is None or more.mean_density < fit.mean_density + MUCH_BETTER:
            return fit
        return replace(fit, n_neighbors=MORE_NEIGHBORS, density=more.density)

    def alone(self, problem: Problem, theta: np.ndarray, Z: np.ndarray) -> np.ndarray | None:
        """The log density of the rows held out, by the others through knots alone; None where it cannot be had."""
        knots = replace(problem.on_rows(self.others), model=problem.model.with_power(1.0))
        try:
            state = knots.evaluate(knots.point(theta, Z), gradient=False).state
        except KnotwiseError:
            return None
        return held_out_density(SparsePosterior(state), self.held_out)

    def _round(self, problem: Problem, theta: np.ndarray, n_neighbors: int, chosen: np.ndarray) -> NearFit | None:
        try:
            return self._fit(problem, theta, n_neighbors, chosen)
        except KnotwiseError:
            return None

    def _fit(self, problem: Problem, theta: np.ndarray, n_neighbors: int, chosen: np.ndarray) -> NearFit:
        kernel, rows = problem.model.with_theta(theta).kernel, self.others
        Z = _knots(problem, rows, theta, self.rng, self.most_knots) if self.knots is None else self.knots
        near = surround(kernel, rows, chosen, n_neighbors, self.rng)
        blocks = problem.run.blocks.at_driver(rows[near.rows])
        assert isinstance(blocks, InMemory)
        some = replace(
            problem,
            model=replace(problem.model, power=1.0, residual=near.residual),
            run=replace(problem.run, blocks=replace(blocks, n_own=near.n_own)),
            n_restarts=0,
            guide=None,
        )
        stage = for_stage(some, ROUND).optimize(theta, Z, self.rng)
        evidence = some.evaluate(stage.point, gradient=False)
        posterior = NeighbourPosterior(NeighbourState.of(evidence.state, rows))
        whole = len(chosen) == len(rows)
        fit = NearFit(problem, stage, n_neighbors, held_out_density(posterior, self.held_out), some, whole=whole)
        note = f"{describe_kernel(kernel)}, {n_neighbors} neighbours of each of {near.n_own} rows"
        note += f"; log density of {len(self.held_out)} others {fit.mean_density:.3f}"
        self.trace.add("neighbors", len(Z), some.log_evidence(stage), n_rows=some.summary.count, note=note)
        return fit


def _best(fits: Iterable[NearFit | None]) -> NearFit | None:
    return max((fit for fit in fits if fit is not None), key=lambda fit: fit.mean_density, default=None)


def _knots(problem: Problem, rows: Rows, theta: np.ndarray, rng: np.random.Generator, most: int) -> np.ndarray:
    """Knots on rows, each where those before it explain least."""
    pool = rows.X[np.sort(rng.choice(len(rows), min(POOL_ROWS, len(rows)), replace=False))]
    return pool[Pivots(problem.model.with_theta(theta).kernel, pool).extend(min(most, len(pool)))]


@dataclass
class Nearby:
    """Knots with neighbours for a problem: whether they are wanted, whether they pay, and the selection with them."""

    problem: Problem
    rng: np.random.Generator
    trace: KnotTrace
    tried: bool = False
    max_knots: int | None = None  # a user's limit

    def select(self, theta: np.ndarray, Z: np.ndarray, *, too_few: bool) -> Selection | None:
        """The selection with neighbours, where knots alone are too few or leave something that near rows share.

        None where neighbours are not wanted, or do not pay. What was tried is not tried again.
        """
        asked = self.problem.n_neighbors
        if not asked and (self.tried or not (too_few or _near_rows_agree(self.problem, theta, Z, self.rng))):
            return None
        self.tried = True
        trial = NearTrial.draw(self.problem, self.rng, self.trace)
        trial = replace(trial, most_knots=min(N_KNOTS, self.max_knots or N_KNOTS))
        fit = trial.learn(_starts(self.problem, theta), asked or N_NEIGHBORS)
        if fit is None:
            return None
        if asked:
            return select_with_neighbours(trial.on_more_rows(fit), self.rng, self.trace, "as was asked for")
        gain = self._gain(trial, fit, theta, Z)
        if not gain > PAYS:
            return None
        fit = trial.with_more_neighbours(trial.on_more_rows(fit))
        why = f"rows held out have a log density that is {gain:.2f} higher than through knots alone"
        return select_with_neighbours(fit, self.rng, self.trace, why)

    def _gain(self, trial: NearTrial, fit: NearFit, theta: np.ndarray, Z: np.ndarray) -> float:
        """Log density of a row held out over that through knots alone; 0 where chance could have made it.

        Knots alone are those that are given, and many on rows with the parameters of the neighbours.
        """
        problem = fit.problem
        pool = problem.take(problem.sample(POOL_ROWS, self.rng))
        many = pool.X[Pivots(problem.model.with_theta(fit.theta).kernel, pool.X).extend(MANY_KNOTS)]
        rivals = [(problem, fit.theta, many), (self.problem, theta, Z)]
        gains = [
            mean_gain(fit.density, alone, trial.held_out.weights)
            for alone in (trial.alone(*rival) for rival in rivals)
            if alone is not None
        ]
        mean, error = min(gains, default=(np.inf, 0.0))
        return mean if mean > 2 * error else 0.0


def _starts(problem: Problem, theta: np.ndarray) -> Iterable[tuple[Problem, np.ndarray]]:
    """Where parameters are looked for: with the kernel and, where it is to be chosen, with rough ones per column.

    Length-scales start not too long for a column to matter: of few rows most columns seem not to.
    """
    yield from ((problem, start) for start in _not_too_long(problem, theta))
    if problem.with_kernel is None or problem.optimizer is None:
        return
    own = describe_kernel(problem.model.kernel)
    for kind in (Matern32, Matern52):
        other = replace(
            problem.with_kernel(kind(ard=bool(problem.summary.varies.sum() > 1))),
            run=problem.run,
            found=problem.found,
            earlier=problem.earlier,
            with_kernel=problem.with_kernel,
        )
        if describe_kernel(other.model.kernel) != own:
            yield other, _not_too_long(other, spread_out(theta, problem, other))[0]


def _not_too_long(problem: Problem, theta: np.ndarray) -> list[np.ndarray]:
    """Parameters with length-scales of at most so many spreads of the columns, shortest first."""
    if problem.optimizer is None:
        return [theta]
    varies = problem.summary.varies
    spread = 0.5 * np.log(problem.summary.variance[varies].mean() if varies.any() else 1.0)
    movable = problem.table.with_role("lengthscale") & problem.free & ~problem.given
    low, high = problem.table.theta_bounds.T
    starts = [np.clip(np.where(movable, np.minimum(theta, np.log(f) + spread), theta), low, high) for f in LONGEST]
    return starts[:1] if np.array_equal(starts[0], starts[1]) else starts


def add_neighbours(problem: Problem, selection: Selection, rng: np.random.Generator) -> Selection:
    """Neighbours for knots that another selector has chosen: these stay, and the parameters are learned anew."""
    assert problem.n_neighbors
    trace, watched = selection.trace, problem.new_trace()
    trace.listener, trace.inference = watched.listener, watched.inference  # some selectors leave a trace of no steps
    trial = NearTrial.draw(problem, rng, trace, selection.Z)
    fit = trial.learn([(problem, start) for start in _not_too_long(problem, selection.theta)], problem.n_neighbors)
    if fit is None:
        raise NotPositiveDefiniteError(
            f"Nothing can be computed with these {len(selection.Z)} knots and {problem.n_neighbors} neighbours of each "
            "row. Let `knots='auto'` choose the knots, or leave `n_neighbors` out."
        )
    near = select_with_neighbours(trial.on_more_rows(fit), rng, trace, "as was asked for")
    return replace(near, knots_as_given=selection.knots_as_given)


def select_with_neighbours(fit: NearFit, rng: np.random.Generator, trace: KnotTrace, why: str) -> Selection:
    """Knots and neighbours of all rows.

    Parameters are those that neighbourhoods have found; the evidence of all rows goes on from there only where it was
    seen to predict as well. In it, early rows of the order have far neighbours, and where a column is nearly a grid its
    parameters predict worse.
    """
    problem, stage = fit.problem, fit.stage
    arrangement = arrange(problem.model.with_theta(fit.theta).kernel, problem.rows, fit.n_neighbors, rng)
    near = replace(
        problem.on_rows(problem.take(arrangement.rows)),
        model=replace(problem.model, power=1.0, residual=arrangement.residual),
        n_restarts=0,
        guide=None,
    )
    if fit.whole or problem.optimizer is None:
        stage = for_stage(near, ROUND).optimize(fit.theta, stage.Z, rng)
    point = near.point(stage.theta, stage.Z)
    evidence = near.evaluate(point, gradient=False)
    result = replace(
        stage.result, value=evidence.value, converged=True
    )  # rows held out say when parameters are settled
    n_neighbors = arrangement.residual.n_neighbors  # fewer than were asked for where rows are few
    reason = f"{len(stage.Z)} knots and {n_neighbors} neighbours of each row, {why}"
    status, advice = None, ""
    if fit.moving:
        reason += "; parameters still moved with every choice of neighbours"
        status, advice = Status.NOT_SETTLED, "Give a start in the kernel."
    trace.stop_reason = reason
    trace.add("final", len(point.Z), evidence.value, theta=point.theta, note="all rows")
    fitted = None if fit.whole else FittedAt(stage.point, 1.0, problem=fit.neighbourhoods.computed_by(Serial()))
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
        order=arrangement.rows,
    )


def _near_rows_agree(problem: Problem, theta: np.ndarray, Z: np.ndarray, rng: np.random.Generator) -> bool:
    """Whether residuals of rows and of the rows nearest to them agree: near rows know more than the knots say."""
    rows = problem.rows
    points = problem.model.with_theta(theta).kernel.coordinates(rows.X)
    chosen = problem.sample(TESTED_ROWS, rng)
    near = Nearest(points)(points[chosen], 2)
    nearest = np.where(near[:, 0] == chosen, near[:, 1], near[:, 0])
    fic = replace(problem.anew(), model=problem.model.with_power(1.0))
    try:
        point = fic.point(theta, Z)
        one, other = (fic.row_scores(point, rows[each]).standardized for each in (chosen, nearest))
    except KnotwiseError:
        return False
    correlation = float(np.mean(one * other) / np.sqrt(np.mean(one**2) * np.mean(other**2)))
    return correlation > max(LARGE, SURPRISING / np.sqrt(len(chosen)))
