"""Validation rows, and the others: hyperparameters for knots and neighbours, learned on whole neighbourhoods.

Gaussian data are observations of the function, and stay. Other data have sites, which are found anew for new
parameters: then parameters and sites are found in turns (N6), and of these, too, validation rows say which is best.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from knotwise.decisions.hyperparameters import for_stage
from knotwise.decisions.neighbour_sites import (
    Observed,
    as_observations,
    hold,
    learn_likelihood,
    observe,
    with_neighbours,
)
from knotwise.decisions.thresholds import NEIGHBOURS
from knotwise.decisions.trials import Candidate, Trial, describe_kernel, missing_noise, validation_density
from knotwise.errors import KnotwiseError
from knotwise.evidence import InMemory, Point, Rows
from knotwise.evidence.inference.base import PseudoData
from knotwise.evidence.residual.ordering import neighbourhood_batch
from knotwise.numerics.nearest import Nearest
from knotwise.posterior.knots import KnotPosterior
from knotwise.posterior.vecchia import VecchiaPosterior, VecchiaState
from knotwise.selection.places import Pivots
from knotwise.selection.problem import Problem
from knotwise.selection.trace import KnotTrace


@dataclass(frozen=True, kw_only=True)
class NearCandidate(Candidate):
    """Hyperparameters and knots that neighbourhoods have found, and the log density of each validation row.

    `whole` says that all fitted rows identified them; `state` predicted the validation rows. Where the data are no
    observations of the function, `sites` are those of all fitted rows, whose log evidence is `value`; else `value` is
    that of the chosen rows.
    """

    n_neighbors: int
    state: VecchiaState
    neighbourhoods: Problem
    whole: bool = False
    sites: PseudoData | None = None

    @property
    def mean_density(self) -> float:
        """Of those validation rows that judge hyperparameters; 0 without any, so that all are as good."""
        return float(self.density[::2].mean()) if len(self.density) else 0.0


@dataclass(frozen=True, kw_only=True)
class NearTrial(Trial):
    """Validation rows, the others, by which they are predicted, and those of the others that tell hyperparameters."""

    chosen: np.ndarray
    knots: np.ndarray | None = None  # that are given
    most_knots: int = NEIGHBOURS.knots  # that are placed

    @staticmethod
    def near(
        problem: Problem,
        theta: np.ndarray,
        rng: np.random.Generator,
        trace: KnotTrace,
        knots: np.ndarray | None = None,
        *,
        most_knots: int | None = None,
    ) -> NearTrial:
        """Validation rows and chosen rows at random, of all rows or of patches of them."""
        numbers = _patches(problem, theta, rng)
        n_out = min(NEIGHBOURS.validation_rows, int(NEIGHBOURS.validation_share * len(numbers)))
        out = np.sort(rng.choice(numbers, n_out, replace=False))
        others = problem.take(np.setdiff1d(numbers, out))
        chosen = rng.choice(len(others), min(NEIGHBOURS.more_chosen_rows, len(others)), replace=False)
        most = min(NEIGHBOURS.knots, most_knots or NEIGHBOURS.knots)
        return NearTrial(others, problem.take(out), rng, trace, chosen=chosen, knots=knots, most_knots=most)

    @property
    def first_chosen(self) -> np.ndarray:
        """At most half of the rows: of more, neighbours would be other chosen rows, of which few come earlier."""
        return self.chosen[: min(NEIGHBOURS.chosen_rows, (len(self.fitted) + 1) // 2)]

    def learn(self, starts: Iterable[tuple[Problem, np.ndarray]], n_neighbors: int) -> NearCandidate | None:
        """The hyperparameters with which validation rows are predicted best, of some kernels and starts of each.

        A first round chooses between them; further ones choose neighbours anew, as long as that helps. None where
        nothing can be computed.
        """
        best = _best(self._round(*start, n_neighbors, self.first_chosen) for start in starts)
        for _ in range(NEIGHBOURS.rounds):
            if best is None or best.problem.optimizer is None:
                return best
            new = self._round(best.problem, best.theta, n_neighbors, self.first_chosen, best.sites)
            if new is None or new.mean_density < best.mean_density + NEIGHBOURS.better:
                break
            moving = (
                len(self.validation) >= NEIGHBOURS.judges
                and new.mean_density > best.mean_density + NEIGHBOURS.much_better
            )
            best = replace(new, ended="moving" if moving else "converged")
        else:
            return best
        return replace(best, ended="converged")

    def on_more_rows(self, fit: NearCandidate) -> NearCandidate:
        """The same with hyperparameters that more rows tell, unless these predict validation rows clearly worse."""
        if fit.problem.optimizer is None:
            return fit
        more = self._round(fit.problem, fit.theta, fit.n_neighbors, self.chosen, fit.sites)
        if more is None:
            return fit
        loss, error = self.gain(fit.density, more.density)
        return fit if loss > max(NEIGHBOURS.better, NEIGHBOURS.sure * error) else replace(more, ended=fit.ended)

    def predicted_by_more(self, fit: NearCandidate) -> NearCandidate:
        """The same with more neighbours of new rows, where they help much."""
        more = replace(fit.state, n_predicting=min(NEIGHBOURS.more_predicting * fit.n_neighbors, len(self.fitted)))
        density = self._density(more)
        gain, _ = self.gain(density, fit.density)
        return replace(fit, state=more, density=density) if gain > NEIGHBOURS.much_better else fit

    def gain(self, one: np.ndarray, other: np.ndarray, which: slice = slice(None, None, 2)) -> tuple[float, float]:
        """The same, of the validation rows that judge hyperparameters, or of others."""
        return super().gain(one, other, which)

    def alone(self, problem: Problem, theta: np.ndarray, Z: np.ndarray) -> np.ndarray | None:
        """The log density of validation rows, by the others through knots alone; None where it cannot be had."""
        knots = replace(problem.on_rows(self.fitted), model=problem.model.with_power(1.0))
        try:
            state = knots.evaluate(knots.point(theta, Z), gradient=False).state
        except KnotwiseError:
            return None
        return validation_density(KnotPosterior(state), self.validation)

    def _round(
        self, problem: Problem, theta: np.ndarray, n_neighbors: int, chosen: np.ndarray, sites: PseudoData | None = None
    ) -> NearCandidate | None:
        """Parameters for knots and neighbours that are chosen at theta; None where nothing can be computed."""
        Z = _knots(problem, self.fitted, theta, self.rng, self.most_knots) if self.knots is None else self.knots
        try:
            at = problem.point(theta, Z)
            seen = observe(problem, self.fitted, at, n_neighbors, self.rng, sites)
            learn = self._fit if seen.sites is None else self._take_turns
            fit = learn(problem, at, n_neighbors, chosen, seen)
        except KnotwiseError:
            return None
        kernel = describe_kernel(problem.model.with_theta(theta).kernel)
        note = f"{kernel}, {n_neighbors} neighbours of each of {len(chosen)} rows"
        note += f"; log density of {len(fit.density[::2])} others {fit.mean_density:.3f}"
        n_rows = fit.neighbourhoods.summary.count if fit.sites is None else self.fitted.count
        self.trace.add("neighbors", len(Z), fit.value, n_rows=n_rows, note=note)
        return fit

    def _fit(self, problem: Problem, at: Point, n_neighbors: int, chosen: np.ndarray, seen: Observed) -> NearCandidate:
        """Fit parameters to neighbourhoods of chosen rows, whose observations stay as they are seen."""
        kernel = problem.model.with_theta(at.theta).kernel
        near = neighbourhood_batch(kernel, self.fitted, chosen, n_neighbors, self.rng)
        blocks = problem.run.blocks.at_driver(seen.rows[near.rows])
        assert isinstance(blocks, InMemory)
        run = replace(problem.run, blocks=replace(blocks, n_own=near.n_own, block_size=near.block_size))
        some = hold(with_neighbours(replace(problem, run=run), near.residual))
        stage = for_stage(some, NEIGHBOURS.round if seen.sites is None else NEIGHBOURS.turn).optimize(
            at.theta, at.Z, self.rng
        )
        whole = len(chosen) == len(self.fitted)
        if seen.sites is None:
            state = VecchiaState.of(some.evaluate(stage.point, gradient=False).state, self.fitted)
            fit = NearCandidate(
                problem,
                stage,
                density=self._density(state),
                n_neighbors=n_neighbors,
                state=state,
                neighbourhoods=some,
                whole=whole,
            )
            return replace(self._with_more_noise(fit), value=some.log_evidence(stage))
        again = seen
        if problem.optimizer is not None:
            moved = learn_likelihood(problem, self.fitted, seen.sites, stage.theta)
            stage = replace(stage, point=problem.point(moved, at.Z))
            again = observe(problem, self.fitted, stage.point, n_neighbors, self.rng, seen.sites)
        assert again.state is not None
        return NearCandidate(
            problem,
            stage,
            again.value,
            self._density(again.state),
            n_neighbors=n_neighbors,
            state=again.state,
            neighbourhoods=some,
            whole=whole,
            sites=again.sites,
        )

    def _with_more_noise(self, fit: NearCandidate) -> NearCandidate:
        """The same with as much noise as the rows that judge parameters ask for, where they are clearly likelier then.

        Some rows that nearly repeat others with other targets say how large the noise is. The few rows that tell the
        parameters may miss them.
        """
        table = fit.problem.table
        noise = table.with_role("noise") & table.of_part("likelihood") & fit.problem.free
        judges = self.validation[np.arange(0, len(self.validation), 2)]
        if fit.problem.optimizer is None or noise.sum() != 1 or len(judges) < NEIGHBOURS.judges:
            return fit
        extra = missing_noise(VecchiaPosterior(fit.state), judges)
        theta = np.where(noise, np.log(np.exp(fit.theta) + extra), fit.theta)
        theta = np.clip(theta, *table.theta_bounds.T)
        point = fit.neighbourhoods.point(theta, fit.stage.Z)
        state = VecchiaState.of(fit.neighbourhoods.evaluate(point, gradient=False).state, self.fitted)
        more = replace(fit, stage=replace(fit.stage, point=point), state=state, density=self._density(state))
        return more if more.mean_density > fit.mean_density + NEIGHBOURS.better else fit

    def _take_turns(
        self, problem: Problem, at: Point, n_neighbors: int, chosen: np.ndarray, seen: Observed
    ) -> NearCandidate:
        """Fit hyperparameters to held sites, find these anew, and so on; the best turn wins, or the start."""
        best = self._fit(replace(problem, optimizer=None), at, n_neighbors, chosen, seen)
        best = replace(best, problem=problem)
        if problem.optimizer is None:
            return best
        n_worse = 0
        for _ in range(NEIGHBOURS.turns):
            try:
                new = self._fit(problem, at, n_neighbors, chosen, seen)
                assert new.sites is not None
                seen = replace(seen, rows=as_observations(problem, self.fitted, new.theta, new.sites), sites=new.sites)
            except KnotwiseError:
                break
            still = np.abs(new.theta - at.theta)[problem.free].max(initial=0.0) < NEIGHBOURS.still
            n_worse = n_worse + 1 if new.mean_density < best.mean_density else 0
            at, best = replace(at, theta=new.theta), best if n_worse else new
            if (
                still
                or n_worse == NEIGHBOURS.worse_turns
                or new.mean_density < best.mean_density - NEIGHBOURS.much_better
            ):
                break
        return best

    def _density(self, state: VecchiaState) -> np.ndarray:
        return validation_density(VecchiaPosterior(state), self.validation)


def _best(fits: Iterable[NearCandidate | None]) -> NearCandidate | None:
    return max((fit for fit in fits if fit is not None), key=lambda fit: fit.mean_density, default=None)


def _patches(problem: Problem, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Numbers of the rows on which parameters are learned: all, or where sites of so many rows would take long, some
    rows with all that are near them.
    """
    n_rows = problem.summary.n_rows
    if problem.model.likelihood.conjugate or n_rows <= NEIGHBOURS.most_sites:
        return np.arange(n_rows)
    points = problem.model.with_theta(theta).kernel.coordinates(problem.rows.X)
    centres = rng.choice(n_rows, NEIGHBOURS.patches, replace=False)
    return np.unique(Nearest(points)(points[centres], NEIGHBOURS.most_sites // NEIGHBOURS.patches))


def _knots(problem: Problem, rows: Rows, theta: np.ndarray, rng: np.random.Generator, most: int) -> np.ndarray:
    """Knots on rows, each where those before it explain least."""
    pool = rows.X[np.sort(rng.choice(len(rows), min(NEIGHBOURS.pool_rows, len(rows)), replace=False))]
    return pool[Pivots(problem.model.with_theta(theta).kernel, pool).extend(min(most, len(pool)))]
