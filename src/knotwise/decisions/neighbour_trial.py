"""Validation rows, and the others: hyperparameters for knots and neighbours, learned on whole neighbourhoods.

Gaussian data are observations of the function, and stay. Other data have sites, which are found anew for new
parameters: then parameters and sites are found in turns (N6), and of these, too, validation rows say which is best.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from knotwise.decisions.hyperparameters import for_stage
from knotwise.decisions.neighbour_sites import (
    Observed,
    as_observations,
    given_knots,
    hold,
    learn_likelihood,
    observe,
    with_neighbours,
)
from knotwise.decisions.thresholds import HYPERPARAMETERS, NEIGHBOURS
from knotwise.decisions.trials import (
    Candidate,
    Result,
    Trial,
    describe_kernel,
    known_curvature,
    missing_noise,
    validation_density,
)
from knotwise.decisions.validation import Labels, describe, draw_folds, spare_others
from knotwise.errors import KnotwiseError
from knotwise.evidence import InMemory, Point, Rows
from knotwise.evidence.inference.base import PseudoData
from knotwise.evidence.residual.ordering import NeighbourhoodBatch, neighbourhood_batch
from knotwise.numerics.blocks import Executor
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


@dataclass(frozen=True, kw_only=True)
class NearTrial(Trial):
    """Validation rows, the others, by which they are predicted, and those of the others that tell hyperparameters."""

    chosen: np.ndarray
    validation_labels: Labels
    executor: Executor  # that runs blocks of rows, and searches side by side
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
        most_rows: int | None = None,
    ) -> NearTrial:
        """Rows that tell hyperparameters, at random; and validation rows near the others, in gaps and beyond.

        Of all rows, of `most_rows` random ones, or of patches of them where their sites are searched for again and
        again.
        """
        numbers = _patches(problem, theta, rng)
        if most_rows is not None and len(numbers) > most_rows:
            numbers = np.sort(rng.choice(numbers, most_rows, replace=False))
        rows, kernel = problem.take(numbers), problem.model.with_theta(theta).kernel
        asked = None if problem.asked is None else kernel.coordinates(problem.asked)
        folds, stays = spare_others(draw_folds(kernel.coordinates(rows.X), rng, asked), len(rows), rng)
        n_near = min(NEIGHBOURS.validation_rows, int(NEIGHBOURS.validation_share * len(rows)))
        near = np.sort(rng.choice(np.flatnonzero(stays), min(n_near, int(stays.sum()) // 2), replace=False))
        stays[near] = False
        others = rows[np.flatnonzero(stays)]
        judged = np.concatenate([near, *(fold.judged for fold in folds)]).astype(int)
        chosen = rng.choice(len(others), min(NEIGHBOURS.more_chosen_rows, len(others)), replace=False)
        most = min(NEIGHBOURS.knots, most_knots or NEIGHBOURS.knots)
        of_near = None if rows.weights is None else rows.weights[near]
        return NearTrial(
            others,
            rows[judged],
            rng,
            trace,
            chosen=chosen,
            executor=_executor(problem),
            knots=knots,
            most_knots=most,
            validation_labels=Labels.of(len(near), folds, of_near),
        )

    @property
    def labels(self) -> Labels:
        return self.validation_labels

    @property
    def first_chosen(self) -> np.ndarray:
        """At most half of the rows: of more, neighbours would be other chosen rows, of which few come earlier."""
        return self.chosen[: min(NEIGHBOURS.chosen_rows, (len(self.fitted) + 1) // 2)]

    @property
    def all_scales(self) -> np.ndarray:
        """Numbers of all fitted rows, or of many of very many, in a random order."""
        return np.random.default_rng(0).permutation(len(self.fitted))[: HYPERPARAMETERS.some_rows]

    def score(self, fit: NearCandidate) -> float:
        """Mean over the kinds of validation rows of their mean log density; 0 without any, so that all are as good."""
        means = self.labels.means(fit.density)
        return float(np.mean(list(means.values()))) if means else 0.0

    def reach(self, tried: Candidate) -> float:
        kernel = tried.problem.model.with_theta(tried.theta).kernel
        points, judged = kernel.coordinates(self.fitted.X), kernel.coordinates(self.validation.X)
        if not len(judged):
            return np.nan
        nearest = points[Nearest(points)(judged, 1)[:, 0]]
        return float(np.sqrt(((judged - nearest) ** 2).sum(1)).max())

    def share_left(self, tried: Candidate) -> float:
        if not len(self.validation) or not isinstance(tried, NearCandidate):
            return np.nan
        posterior, X = VecchiaPosterior(tried.state), self.validation.X
        return float(posterior.share_left(X, posterior.latent(X, self.executor).variance).max())

    def judged(self, tried: Candidate) -> Candidate:
        return tried

    def each(self, search: Callable[..., Result], items: Sequence[Any]) -> Iterator[Result]:
        """The same side by side, each with random numbers and a trace of its own: results do not depend on threads."""
        seeds = self.rng.integers(np.iinfo(np.int64).max, size=len(items))
        trials = [replace(self, rng=np.random.default_rng(seed), trace=self.trace.apart()) for seed in seeds]
        for trial, found in zip(trials, self.executor.apart(search, trials, items), strict=True):
            self.trace.join(trial.trace)
            yield found

    def learn(self, starts: Iterable[tuple[Problem, np.ndarray]], n_neighbors: int) -> NearCandidate | None:
        """The hyperparameters with which validation rows are predicted best, of several starts; None where nothing can
        be computed.
        """
        fits = (self.round(*start, n_neighbors, self.first_chosen) for start in starts)
        best = max((fit for fit in fits if fit is not None), key=self.score, default=None)
        return None if best is None else self.converge(best)

    def converge(self, best: NearCandidate) -> NearCandidate:
        """The same with knots and neighbours that are chosen anew, as long as that helps."""
        for _ in range(NEIGHBOURS.rounds):
            if best.problem.optimizer is None:
                return best
            new = self.round(best.problem, best.theta, best.n_neighbors, self.first_chosen, best.sites, like=best)
            if new is None or self.score(new) < self.score(best) + NEIGHBOURS.better:
                break
            moving = (
                len(self.validation) >= NEIGHBOURS.judges
                and self.score(new) > self.score(best) + NEIGHBOURS.much_better
            )
            best = replace(new, ended="moving" if moving else "converged")
        else:
            return best
        return replace(best, ended="converged")

    def with_enough_knots(self, fit: NearCandidate) -> NearCandidate:
        """More knots, for as long as validation rows are predicted better: in gaps they carry what neighbours cannot.

        Hyperparameters stay. Knots that a user gave stay, too.
        """
        if self.knots is not None or not len(self.labels):
            return fit
        for n_knots in (NEIGHBOURS.usual_knots, *NEIGHBOURS.numbers_of_knots):
            try:
                new = self._through(fit, n_knots)
            except KnotwiseError:
                break
            gain = self.score(new) - self.score(fit)
            note = (
                f"{len(new.stage.Z)} knots beside neighbours change the log density of validation rows by {gain:+.3f}"
            )
            self.trace.add("neighbors", len(new.stage.Z), new.value, n_rows=fit.neighbourhoods.summary.count, note=note)
            if gain < (-NEIGHBOURS.better if n_knots == NEIGHBOURS.usual_knots else NEIGHBOURS.more_knots_pay):
                break
            fit = new
        return fit

    def _through(self, fit: NearCandidate, n_knots: int) -> NearCandidate:
        """The same hyperparameters with at least so many knots."""
        Z = _knots(fit.problem, self.fitted, fit.theta, self.rng, n_knots)
        if len(Z) <= len(fit.stage.Z):
            return fit
        point = fit.problem.point(fit.theta, Z)
        stage = replace(fit.stage, point=point)
        if fit.sites is not None:
            seen = observe(fit.problem, self.fitted, point, fit.n_neighbors, self.rng, fit.sites)
            assert seen.state is not None
            density = self._density(seen.state)
            return replace(fit, stage=stage, value=seen.value, state=seen.state, density=density, sites=seen.sites)
        evidence = fit.neighbourhoods.evaluate(point, gradient=False)
        state = VecchiaState.of(evidence.state, self.fitted)
        return replace(fit, stage=stage, value=evidence.value, state=state, density=self._density(state))

    def on_more_rows(self, fit: NearCandidate) -> NearCandidate:
        """The same with hyperparameters that more rows tell, unless these predict validation rows worse."""
        if fit.problem.optimizer is None:
            return fit
        more = self.round(fit.problem, fit.theta, fit.n_neighbors, self.chosen, fit.sites, like=fit)
        if more is None:
            return fit
        if self.knots is None:
            with suppress(KnotwiseError):
                more = self._through(more, len(fit.stage.Z))
        loss, error = self.gain(fit, more)
        return fit if loss > max(NEIGHBOURS.better, error) else replace(more, ended=fit.ended)

    def predicted_by_more(self, fit: NearCandidate) -> NearCandidate:
        """The same with more neighbours of new rows, where these are predicted better, as in gaps."""
        more = replace(fit.state, n_predicting=min(NEIGHBOURS.more_predicting * fit.n_neighbors, len(self.fitted)))
        better = replace(fit, state=more, density=self._density(more))
        gain, _ = self.gain(better, fit)
        return better if gain > NEIGHBOURS.predicting_pays else fit

    def alone(self, problem: Problem, theta: np.ndarray, Z: np.ndarray) -> np.ndarray | None:
        """The log density of validation rows, by the others through knots alone; None where it cannot be had.

        Each knot is moved to the nearest of these others: where rows were taken away, no knot would be.
        """
        knots = replace(problem.on_rows(self.fitted), model=problem.model.with_power(1.0))
        kernel, X = problem.model.with_theta(theta).kernel, self.fitted.X
        try:
            nearest = Nearest(kernel.coordinates(X))(kernel.coordinates(Z), 1)[:, 0]
            state = knots.evaluate(knots.point(theta, X[np.unique(nearest)]), gradient=False).state
        except KnotwiseError:
            return None
        return validation_density(KnotPosterior(state), self.validation, self.executor)

    def round(
        self,
        problem: Problem,
        theta: np.ndarray,
        n_neighbors: int,
        chosen: np.ndarray,
        sites: PseudoData | None = None,
        batch: NeighbourhoodBatch | None = None,
        like: Candidate | None = None,
    ) -> NearCandidate | None:
        """Hyperparameters for knots and neighbours that are chosen at theta; None where nothing can be computed.

        `batch` are rows whose neighbours were chosen elsewhere, so that evidences of several kernels compare: those
        that the fitted rows tell, with no noise added for validation rows. `like` has the curvature of a similar fit.
        """
        Z = _knots(problem, self.fitted, theta, self.rng, self.most_knots) if self.knots is None else self.knots
        try:
            at = problem.point(theta, Z)
            seen = observe(problem, self.fitted, at, n_neighbors, self.rng, sites)
            if seen.sites is None:
                found = batch or self.batch(problem, theta, n_neighbors, chosen, Z)
                fit = self._fit(problem, at, n_neighbors, found, seen, like)
                if batch is None:
                    fit = replace(self._with_more_noise(fit), value=fit.value)
            else:
                fit = self._take_turns(problem, at, n_neighbors, chosen, seen)
        except KnotwiseError:
            return None
        kernel = describe_kernel(problem.model.with_theta(theta).kernel)
        note = f"{kernel}, {n_neighbors} neighbours of each of {len(chosen)} rows"
        if len(fit.density):
            note += f"; {describe(self.labels.means(fit.density))}"
        n_rows = fit.neighbourhoods.summary.count if fit.sites is None else self.fitted.count
        self.trace.add("neighbors", len(Z), fit.value, n_rows=n_rows, note=note)
        return fit

    def batch(
        self,
        problem: Problem,
        theta: np.ndarray,
        n_neighbors: int,
        chosen: np.ndarray | None = None,
        Z: np.ndarray | None = None,
    ) -> NeighbourhoodBatch:
        """Rows of all scales with their neighbours, in the coordinates of a kernel, or by correlation given knots."""
        kernel = problem.model.with_theta(theta).kernel
        chosen = self.first_chosen if chosen is None else chosen
        n_thin = int(NEIGHBOURS.thin_share * len(chosen))
        given = None if Z is None else given_knots(problem.on_rows(self.fitted), theta, Z)
        return neighbourhood_batch(kernel, self.fitted, chosen, n_neighbors, self.rng, n_thin=n_thin, given=given)

    def value_given(self, fit: NearCandidate, batch: NeighbourhoodBatch) -> float:
        """The log density of rows of all scales at the hyperparameters of a fit, with other neighbours."""
        some = self._on_batch(fit.problem, batch, Observed(self.fitted))
        return some.evaluate(some.point(fit.theta, fit.stage.Z), gradient=False).value

    def _on_batch(self, problem: Problem, batch: NeighbourhoodBatch, seen: Observed) -> Problem:
        blocks = problem.on_rows(seen.rows[batch.rows]).run.blocks
        assert isinstance(blocks, InMemory)
        run = replace(problem.run, blocks=replace(blocks, n_own=batch.n_own, block_size=batch.block_size))
        return hold(with_neighbours(replace(problem, run=run), batch.residual))

    def _fit(
        self,
        problem: Problem,
        at: Point,
        n_neighbors: int,
        batch: NeighbourhoodBatch,
        seen: Observed,
        like: Candidate | None = None,
    ) -> NearCandidate:
        """Fit parameters to rows of all scales with their neighbours, whose observations stay as they are seen."""
        some = self._on_batch(problem, batch, seen)
        own = for_stage(some, NEIGHBOURS.round if seen.sites is None else NEIGHBOURS.turn)
        known = None if own.optimizer is problem.optimizer else known_curvature(some, like)
        stage = replace(own, optimizer=known or own.optimizer).optimize(at.theta, at.Z, self.rng)
        if known and not stage.result.converged:
            stage = own.optimize(stage.theta, at.Z, self.rng)
        learned = stage.result.information
        whole = batch.n_own == len(self.fitted)
        if seen.sites is None:
            state = VecchiaState.of(some.evaluate(stage.point, gradient=False).state, self.fitted)
            return NearCandidate(
                problem,
                stage,
                some.log_evidence(stage),
                self._density(state),
                information=None if learned is None else learned / some.summary.count,
                n_neighbors=n_neighbors,
                state=state,
                neighbourhoods=some,
                whole=whole,
            )
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
        judges = self.validation[np.flatnonzero(self.labels.kind == "near")]
        if fit.problem.optimizer is None or noise.sum() != 1 or len(judges) < NEIGHBOURS.judges:
            return fit
        extra = missing_noise(VecchiaPosterior(fit.state), judges, self.executor)
        theta = np.where(noise, np.log(np.exp(fit.theta) + extra), fit.theta)
        theta = np.clip(theta, *table.theta_bounds.T)
        point = fit.neighbourhoods.point(theta, fit.stage.Z)
        state = VecchiaState.of(fit.neighbourhoods.evaluate(point, gradient=False).state, self.fitted)
        density = self._density(state)
        more = replace(fit, stage=replace(fit.stage, point=point), state=state, density=density)
        return more if self.gain(more, fit, ("near",))[0] > NEIGHBOURS.better else fit

    def _take_turns(
        self, problem: Problem, at: Point, n_neighbors: int, chosen: np.ndarray, seen: Observed
    ) -> NearCandidate:
        """Fit hyperparameters to held sites, find these anew, and so on; the best turn wins, or the start."""
        batch = self.batch(problem, at.theta, n_neighbors, chosen, at.Z)
        best = self._fit(replace(problem, optimizer=None), at, n_neighbors, batch, seen)
        best = replace(best, problem=problem)
        if problem.optimizer is None:
            return best
        n_worse = 0
        for _ in range(NEIGHBOURS.turns):
            try:
                batch = self.batch(problem, at.theta, n_neighbors, chosen, at.Z)
                new = self._fit(problem, at, n_neighbors, batch, seen)
                assert new.sites is not None
                seen = replace(seen, rows=as_observations(problem, self.fitted, new.theta, new.sites), sites=new.sites)
            except KnotwiseError:
                break
            still = np.abs(new.theta - at.theta)[problem.free].max(initial=0.0) < NEIGHBOURS.still
            n_worse = n_worse + 1 if self.score(new) < self.score(best) else 0
            at, best = replace(at, theta=new.theta), best if n_worse else new
            if (
                still
                or n_worse == NEIGHBOURS.worse_turns
                or self.score(new) < self.score(best) - NEIGHBOURS.much_better
            ):
                break
        return best

    def _density(self, state: VecchiaState) -> np.ndarray:
        return validation_density(VecchiaPosterior(state), self.validation, self.executor)


def _executor(problem: Problem) -> Executor:
    """What runs the blocks of rows in memory."""
    assert isinstance(problem.run.blocks, InMemory)
    return problem.run.blocks.executor


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
