"""Rows held out, and the others: parameters for knots and neighbours, learned on whole neighbourhoods.

Gaussian data are observations of the function, and stay. Other data have sites, which are found anew for new
parameters: then parameters and sites are found in turns (N6), and of these, too, rows held out say which is best.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from knotwise.decisions.held_out import held_out_density, mean_gain, missing_noise
from knotwise.decisions.hyperparameters import for_stage
from knotwise.decisions.observed import (
    Observed,
    as_observations,
    hold,
    learn_likelihood,
    observe,
    with_neighbours,
)
from knotwise.errors import KnotwiseError
from knotwise.evidence import InMemory, Rows
from knotwise.evidence.inference.base import PseudoData
from knotwise.evidence.residual.surround import surround
from knotwise.kernels.base import Kernel
from knotwise.kernels.describe import describe_kernel
from knotwise.numerics.nearest import Nearest
from knotwise.optimize.lbfgs import LBFGS
from knotwise.posterior.knots import KnotPosterior
from knotwise.posterior.vecchia import VecchiaPosterior, VecchiaState
from knotwise.selection.base import Stage
from knotwise.selection.pivots import Pivots
from knotwise.selection.problem import Problem
from knotwise.selection.trace import KnotTrace

__all__ = ["POOL_ROWS", "ROUND", "NearFit", "NearTrial"]

N_KNOTS = 100  # with neighbours their number matters little
POOL_ROWS = 2000  # among which knots are placed
MORE_PREDICTING = 4  # times as many neighbours predict new rows, where that helps much
CHOSEN_ROWS, MORE_CHOSEN_ROWS = 3000, 9000  # whose density, given their neighbours, tells the parameters, and at last
HELD_OUT_ROWS, HELD_OUT_SHARE = 4000, 0.15  # every second of them judges parameters, the others the end
JUDGES = 30  # rows held out; what fewer say of parameters that move is chance
ROUNDS = 6  # of choosing neighbours and fitting parameters to them
TURNS = 4  # of fitting parameters to sites that are held, and finding these anew, in each round
STILL = 0.02  # change of log parameters in a turn below which no other is made
MOST_SITES = 20_000  # rows for which sites are found again and again; of more rows, patches tell the parameters
PATCHES = 20
BETTER, MUCH_BETTER = 0.003, 0.01  # nats per row held out that another round, and that more neighbours must bring
ROUND = LBFGS(max_iterations=25, value_tolerance=1e-5, gradient_tolerance=1e-1)
TURN = LBFGS(max_iterations=12, value_tolerance=1e-5, gradient_tolerance=1e-1)


@dataclass(frozen=True)
class NearFit:
    """Parameters and knots that neighbourhoods have found, and the log density of each row that was held out.

    `moving` says that a further choice of neighbours would have changed the parameters for the better, `whole` that all
    rows that were not held out told them; `state` predicted those that were. `value` is the log evidence of the rows
    that told them. Where the data are no observations of the function, `sites` are those of all rows that were not held
    out, whose log evidence is `value`.
    """

    problem: Problem
    stage: Stage
    n_neighbors: int
    density: np.ndarray
    state: VecchiaState
    neighbourhoods: Problem
    moving: bool = False
    whole: bool = False
    sites: PseudoData | None = None
    value: float = np.nan

    @property
    def theta(self) -> np.ndarray:
        return self.stage.theta

    @property
    def mean_density(self) -> float:
        """Of those rows held out that judge parameters; 0 where there are none, so that all parameters are as good."""
        return float(self.density[::2].mean()) if len(self.density) else 0.0


@dataclass(frozen=True)
class Attempt:
    """What one round begins with: parameters and knots, the rows that tell the parameters, and how many neighbours."""

    problem: Problem
    theta: np.ndarray
    Z: np.ndarray
    n_neighbors: int
    chosen: np.ndarray

    @property
    def kernel(self) -> Kernel:
        return self.problem.model.with_theta(self.theta).kernel


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
        problem: Problem,
        theta: np.ndarray,
        rng: np.random.Generator,
        trace: KnotTrace,
        knots: np.ndarray | None = None,
        *,
        most_knots: int | None = None,
    ) -> NearTrial:
        numbers = _patches(problem, theta, rng)
        n_out = min(HELD_OUT_ROWS, int(HELD_OUT_SHARE * len(numbers)))
        out = np.sort(rng.choice(numbers, n_out, replace=False))
        others = problem.take(np.setdiff1d(numbers, out))
        chosen = rng.choice(len(others), min(MORE_CHOSEN_ROWS, len(others)), replace=False)
        return NearTrial(problem.take(out), others, chosen, rng, trace, knots, min(N_KNOTS, most_knots or N_KNOTS))

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
            new = self._round(best.problem, best.theta, n_neighbors, self.first_chosen, best.sites)
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
        more = self._round(fit.problem, fit.theta, fit.n_neighbors, self.chosen, fit.sites)
        if more is None:
            return fit
        loss, error = self.gain(fit.density, more.density)
        return fit if loss > max(BETTER, 2 * error) else replace(more, moving=fit.moving)

    def predicted_by_more(self, fit: NearFit) -> NearFit:
        """The same with more neighbours of new rows, where they help much."""
        more = replace(fit.state, n_predicting=min(MORE_PREDICTING * fit.n_neighbors, len(self.others)))
        density = self._density(more)
        gain, _ = self.gain(density, fit.density)
        return replace(fit, state=more, density=density) if gain > MUCH_BETTER else fit

    def gain(self, one: np.ndarray, other: np.ndarray, which: slice = slice(None, None, 2)) -> tuple[float, float]:
        """Mean gain in log density and its standard error, of the rows held out that judge parameters, or of others."""
        weights = self.held_out.weights
        return mean_gain(one[which], other[which], None if weights is None else weights[which])

    def alone(self, problem: Problem, theta: np.ndarray, Z: np.ndarray) -> np.ndarray | None:
        """The log density of the rows held out, by the others through knots alone; None where it cannot be had."""
        knots = replace(problem.on_rows(self.others), model=problem.model.with_power(1.0))
        try:
            state = knots.evaluate(knots.point(theta, Z), gradient=False).state
        except KnotwiseError:
            return None
        return held_out_density(KnotPosterior(state), self.held_out)

    def _round(
        self,
        problem: Problem,
        theta: np.ndarray,
        n_neighbors: int,
        chosen: np.ndarray,
        sites: PseudoData | None = None,
    ) -> NearFit | None:
        """Parameters for knots and neighbours that are chosen at theta; None where nothing can be computed."""
        Z = _knots(problem, self.others, theta, self.rng, self.most_knots) if self.knots is None else self.knots
        attempt = Attempt(problem, theta, Z, n_neighbors, chosen)
        try:
            seen = observe(problem, self.others, problem.point(theta, Z), n_neighbors, self.rng, sites)
            fit = self._fit(attempt, seen) if seen.sites is None else self._take_turns(attempt, seen)
        except KnotwiseError:
            return None
        note = f"{describe_kernel(attempt.kernel)}, {n_neighbors} neighbours of each of {len(chosen)} rows"
        note += f"; log density of {len(fit.density[::2])} others {fit.mean_density:.3f}"
        n_rows = fit.neighbourhoods.summary.count if fit.sites is None else self.others.count
        self.trace.add("neighbors", len(Z), fit.value, n_rows=n_rows, note=note)
        return fit

    def _fit(self, start: Attempt, seen: Observed) -> NearFit:
        """Fit parameters to neighbourhoods of chosen rows, whose observations stay as they are seen."""
        problem, n_neighbors = start.problem, start.n_neighbors
        near = surround(start.kernel, self.others, start.chosen, n_neighbors, self.rng)
        blocks = problem.run.blocks.at_driver(seen.rows[near.rows])
        assert isinstance(blocks, InMemory)
        run = replace(problem.run, blocks=replace(blocks, n_own=near.n_own, block_size=near.block_size))
        some = hold(with_neighbours(replace(problem, run=run), near.residual))
        stage = for_stage(some, ROUND if seen.sites is None else TURN).optimize(start.theta, start.Z, self.rng)
        whole = len(start.chosen) == len(self.others)
        if seen.sites is None:
            state = VecchiaState.of(some.evaluate(stage.point, gradient=False).state, self.others)
            fit = NearFit(problem, stage, n_neighbors, self._density(state), state, some, whole=whole)
            return replace(self._with_more_noise(fit), value=some.log_evidence(stage))
        again = seen
        if problem.optimizer is not None:
            moved = learn_likelihood(problem, self.others, seen.sites, stage.theta)
            stage = replace(stage, point=problem.point(moved, start.Z))
            again = observe(problem, self.others, stage.point, n_neighbors, self.rng, seen.sites)
        assert again.state is not None
        fit = NearFit(problem, stage, n_neighbors, self._density(again.state), again.state, some, whole=whole)
        return replace(fit, sites=again.sites, value=again.value)

    def _with_more_noise(self, fit: NearFit) -> NearFit:
        """The same with as much noise as the rows that judge parameters ask for, where they are clearly likelier then.

        Some rows that nearly repeat others with other targets say how large the noise is. The few rows that tell the
        parameters may miss them.
        """
        table = fit.problem.table
        noise = table.with_role("noise") & table.of_part("likelihood") & fit.problem.free
        judges = self.held_out[np.arange(0, len(self.held_out), 2)]
        if fit.problem.optimizer is None or noise.sum() != 1 or len(judges) < JUDGES:
            return fit
        extra = missing_noise(VecchiaPosterior(fit.state), judges)
        theta = np.where(noise, np.log(np.exp(fit.theta) + extra), fit.theta)
        theta = np.clip(theta, *table.theta_bounds.T)
        point = fit.neighbourhoods.point(theta, fit.stage.Z)
        state = VecchiaState.of(fit.neighbourhoods.evaluate(point, gradient=False).state, self.others)
        more = replace(fit, stage=replace(fit.stage, point=point), state=state, density=self._density(state))
        return more if more.mean_density > fit.mean_density + BETTER else fit

    def _take_turns(self, start: Attempt, seen: Observed) -> NearFit:
        """Fit parameters to sites that are held, find these anew, and so on; the best turn wins, or the start."""
        problem = start.problem
        best = self._fit(replace(start, problem=replace(problem, optimizer=None)), seen)
        best = replace(best, problem=problem)
        if problem.optimizer is None:
            return best
        n_worse = 0
        for _ in range(TURNS):
            try:
                new = self._fit(start, seen)
                assert new.sites is not None
                seen = replace(seen, rows=as_observations(problem, self.others, new.theta, new.sites), sites=new.sites)
            except KnotwiseError:
                break
            still = np.abs(new.theta - start.theta)[problem.free].max(initial=0.0) < STILL
            n_worse = n_worse + 1 if new.mean_density < best.mean_density else 0
            start, best = replace(start, theta=new.theta), best if n_worse else new
            if still or n_worse == 2 or new.mean_density < best.mean_density - MUCH_BETTER:
                break
        return best

    def _density(self, state: VecchiaState) -> np.ndarray:
        return held_out_density(VecchiaPosterior(state), self.held_out)


def _best(fits: Iterable[NearFit | None]) -> NearFit | None:
    return max((fit for fit in fits if fit is not None), key=lambda fit: fit.mean_density, default=None)


def _patches(problem: Problem, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Numbers of the rows on which parameters are learned: all, or where sites of so many rows would take long, some
    rows with all that are near them.
    """
    n_rows = problem.summary.n_rows
    if problem.model.likelihood.conjugate or n_rows <= MOST_SITES:
        return np.arange(n_rows)
    points = problem.model.with_theta(theta).kernel.coordinates(problem.rows.X)
    centres = rng.choice(n_rows, PATCHES, replace=False)
    return np.unique(Nearest(points)(points[centres], MOST_SITES // PATCHES))


def _knots(problem: Problem, rows: Rows, theta: np.ndarray, rng: np.random.Generator, most: int) -> np.ndarray:
    """Knots on rows, each where those before it explain least."""
    pool = rows.X[np.sort(rng.choice(len(rows), min(POOL_ROWS, len(rows)), replace=False))]
    return pool[Pivots(problem.model.with_theta(theta).kernel, pool).extend(min(most, len(pool)))]
