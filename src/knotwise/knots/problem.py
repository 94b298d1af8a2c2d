"""What a selector of knots works on: evaluate the evidence, and optimise parameters and chosen knots."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol, TypeVar

import numpy as np

from knotwise.checkpoint.journal import Journal, are_alike
from knotwise.errors import KnotwiseError, warn
from knotwise.evidence import Evidence, Jitter, Model, Rows, full_evidence, sparse_evidence
from knotwise.evidence.scores import RowScores, knot_sums, rank_one_gains, row_scores
from knotwise.evidence.subsets import KnotSums
from knotwise.knots.initial import Initial, checked_knots, count_distinct, initial_knots
from knotwise.knots.trace import KnotStep, KnotTrace
from knotwise.numerics.blocks import Executor
from knotwise.numerics.linalg import pivoted_order
from knotwise.numerics.parameters import ParameterTable
from knotwise.numerics.weighted import mean_and_variance
from knotwise.optimize.base import Optimizer, OptimizeResult

__all__ = ["Problem", "Selection", "Selector", "Stage", "Watch"]

BOX_MARGIN = 0.1  # knots stay inside the data's box plus this share of its range on each side
REDUNDANT_SHARE = 1e-8  # conditional variance, relative to the prior's, below which a knot serves no function
MANY_KNOTS = 1000  # that are never too many
RESTART_SPREAD = 1.5  # standard deviation of a restart's parameters about the start, on the log scale

Result = TypeVar("Result")


@dataclass(frozen=True)
class Stage:
    """One optimisation: where it ended, and how."""

    theta: np.ndarray
    Z: np.ndarray
    jitter: Jitter | None
    result: OptimizeResult
    failed_restarts: int = 0


@dataclass(frozen=True)
class Selection:
    """What a selector decided: parameters, knots, jitter, and the reason in words."""

    theta: np.ndarray
    Z: np.ndarray
    jitter: Jitter | None
    result: OptimizeResult
    reason: str
    failed_restarts: int = 0
    trace: KnotTrace = field(default_factory=KnotTrace)
    knots_as_given: np.ndarray | None = None  # the user's own array, in the user's units
    evidence: Evidence | None = field(default=None, repr=False)  # at these parameters and knots, where it is known


class Watch(Protocol):
    """Somebody who follows a fit."""

    def tick(self, n_knots: int, value: float, n_rows: int | float) -> None:
        """The evidence was evaluated, with so many knots, on so many rows."""
        ...

    def step(self, step: KnotStep) -> None:
        """A step of the selection was recorded."""
        ...


class Selector(Protocol):
    """Anything that chooses knots for a problem."""

    def select(self, problem: Problem, rng: np.random.Generator) -> Selection: ...


@dataclass(frozen=True)
class Problem:
    """Data, model, bounds and optimiser of one fit, in the units of the engine.

    `given` marks the parameters to which the user gave a value; the others may start elsewhere. `memory` holds the
    last mode of the latent function, from which the search for the next one starts. A `journal` keeps finished steps
    for a fit that is interrupted, and a `watch` follows the fit.
    """

    model: Model
    rows: Rows
    table: ParameterTable
    optimizer: Optimizer | None
    executor: Executor
    given: np.ndarray
    jitter: float | None = None
    block_size: int | None = None
    n_restarts: int = 0
    full: bool = False
    scale_inputs: Callable[[np.ndarray], np.ndarray] = np.array
    memory: dict[str, np.ndarray] = field(default_factory=dict, repr=False)
    journal: Journal | None = field(default=None, repr=False)
    watch: Watch | None = field(default=None, repr=False)

    @property
    def free(self) -> np.ndarray:
        """Which entries of theta are optimised."""
        return ~self.table.fixed

    @cached_property
    def box(self) -> np.ndarray:
        """Bounds of the knots, [D, 2]: the data's box and a margin."""
        low, high = self.rows.X.min(0), self.rows.X.max(0)
        margin = BOX_MARGIN * (high - low)
        return np.column_stack([low - margin, high + margin])

    def choose_jitter(self, theta: np.ndarray, Z: np.ndarray) -> Jitter:
        """The jitter for one optimiser run: smallest that works at its start, then constant."""
        return Jitter.choose(self.model.with_theta(theta).kernel, Z, self.typical_points, self.jitter)

    @cached_property
    def typical_points(self) -> np.ndarray:
        """Two points that stand for the inputs' size, whatever their order."""
        centre, variance = mean_and_variance(self.rows.X, self.rows.weights)
        spread = np.sqrt(variance)
        return np.vstack([centre - spread, centre + spread])

    def evaluate(self, theta: np.ndarray, Z: np.ndarray, jitter: Jitter | None, *, gradient: bool = True) -> Evidence:
        """Evidence of the data at theta, exact or through the knots Z."""
        model = self.model.with_theta(theta)
        if self.full or jitter is None:
            evidence = full_evidence(model, self.rows, gradient=gradient, start=self.memory.get("start"))
        else:
            evidence = sparse_evidence(
                model,
                self.rows,
                Z,
                gradient=gradient,
                **self._way(jitter),
            )
        if evidence.start is not None and evidence.converged:
            self.memory["start"] = evidence.start
        if self.watch is not None:
            self.watch.tick(len(Z), evidence.value, self.rows.count)
        return evidence

    def _way(self, jitter: Jitter) -> dict[str, Any]:
        """How every computation of this problem is done."""
        return {
            "jitter": jitter,
            "executor": self.executor,
            "block_size": self.block_size,
            "start": self.memory.get("start"),
        }

    def scores(self, theta: np.ndarray, Z: np.ndarray, jitter: Jitter) -> RowScores:
        """Row by row, what the knots leave unexplained."""
        scores = row_scores(
            self.model.with_theta(theta),
            self.rows,
            Z,
            **self._way(jitter),
        )
        if scores.start is not None:
            self.memory["start"] = scores.start
        return scores

    def gains(self, theta: np.ndarray, Z: np.ndarray, candidates: np.ndarray, jitter: Jitter) -> np.ndarray:
        """Approximate gain in log evidence of each candidate as one more knot, at fixed parameters."""
        return rank_one_gains(
            self.model.with_theta(theta),
            self.rows,
            Z,
            candidates,
            **self._way(jitter),
        )

    def knot_sums(self, theta: np.ndarray, Z: np.ndarray, jitter: Jitter) -> KnotSums:
        """What tells the evidence of any subset of the knots under VFE, at fixed parameters."""
        return knot_sums(self.model.with_theta(theta), self.rows, Z, **self._way(jitter))

    def optimize(
        self, theta: np.ndarray, Z: np.ndarray, rng: np.random.Generator, *, move: np.ndarray | None = None
    ) -> Stage:
        """Optimise the free parameters together with the knots `move` (a mask; None holds all of them).

        With restarts, the best of several starts; a start whose evidence cannot be computed is skipped and counted.
        """
        if self.optimizer is None:
            return self._optimize_once(theta, Z, move)
        bounds, errors, best = self.table.theta_bounds, [], None
        for restart in range(1 + self.n_restarts):
            shift = RESTART_SPREAD * rng.standard_normal(len(theta)) if restart else 0.0
            start = np.where(self.free, np.clip(theta + shift, bounds[:, 0], bounds[:, 1]), theta)
            try:
                stage = self._optimize_from(start, Z, move)
            except KnotwiseError as error:
                errors.append(error)
                continue
            if best is None or stage.result.value > best.result.value:
                best = stage
        if best is None:
            raise errors[0]
        return replace(best, failed_restarts=len(errors))

    def _optimize_from(self, start: np.ndarray, Z: np.ndarray, move: np.ndarray | None) -> Stage:
        return self.recall(
            ("stage", start, Z, move),
            lambda: self._optimize_once(self._with_enough_noise(start, Z), Z, move),
            (Stage, Jitter, OptimizeResult),
            fits=lambda stage: (
                are_alike(stage.theta, start)
                and are_alike(stage.Z, Z)
                and stage.result.parameters.ndim == stage.result.history.ndim == 1
                and (stage.jitter is None if self.full else _is_like_jitter(stage.jitter, self.typical_points))
            ),
        )

    def recall(
        self,
        inputs: tuple[Any, ...],
        compute: Callable[[], Result],
        types: tuple[type, ...],
        rng: np.random.Generator | None = None,
        *,
        fits: Callable[[Result], bool],
    ) -> Result:
        """Compute a step, or take its result from the journal, where it is kept from before an interruption.

        `inputs` are all that the step depends on beside the problem and the generator, and begin with its name; `types`
        are the dataclasses of which its result is made, its own first; `fits` says whether its arrays have the shapes
        of this step.
        """
        if self.journal is None:
            return compute()
        own = (self.rows, self.table, self.model.power, self.full, self.optimizer, self.jitter, self.block_size)

        def fit_all(result: Result, memory: dict[str, np.ndarray]) -> bool:
            mode = memory.get("start")
            return fits(result) and set(memory) <= {"start"} and (mode is None or are_alike(mode, self.rows.y))

        return self.journal.recall((*inputs, *own), compute, types=types, memory=self.memory, rng=rng, fits=fit_all)

    def new_trace(self) -> KnotTrace:
        """An empty record of a selection, whose steps the watch is told."""
        return KnotTrace(None if self.watch is None else self.watch.step)

    def _with_enough_noise(self, theta: np.ndarray, Z: np.ndarray) -> np.ndarray:
        """Start with more noise, ten times as much and again, for as long as that raises the evidence.

        Smooth data have almost no noise in an exact GP. Few knots leave more open than that, and an optimiser that
        starts at the exact noise would flee to a model in which everything is noise.
        """
        louder = np.log(10.0) * self.model.noise_directions
        louder[~self.free | self.given] = 0.0
        if self.full or not louder.any():
            return theta

        def value(at: np.ndarray) -> float:
            try:
                return self.evaluate(at, Z, self.choose_jitter(at, Z), gradient=False).value
            except KnotwiseError:
                return -np.inf

        low, high = self.table.theta_bounds.T
        best = value(theta)
        for _ in range(12):
            trial = np.clip(theta + louder, low, high)
            new = value(trial)
            if not new > best:
                break
            theta, best = trial, new
        return theta

    def _optimize_once(self, theta: np.ndarray, Z: np.ndarray, move: np.ndarray | None) -> Stage:
        jitter = None if self.full else self.choose_jitter(theta, Z)
        free, n_free = self.free, int(self.free.sum())
        move = np.zeros(len(Z), bool) if move is None or self.full else move
        theta, Z = theta.copy(), Z.copy()

        def unpack(vector: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            theta_new, Z_new = theta.copy(), Z.copy()
            theta_new[free] = vector[:n_free]
            Z_new[move] = vector[n_free:].reshape(-1, Z.shape[1])
            return theta_new, Z_new

        def objective(vector: np.ndarray) -> tuple[float, np.ndarray]:
            evidence = self.evaluate(*unpack(vector), jitter)
            if not evidence.converged:
                raise KnotwiseError("Newton's method did not reach the mode.")
            assert evidence.gradient is not None
            if not move.any():
                return evidence.value, evidence.gradient[free]
            assert evidence.knot_gradient is not None
            return evidence.value, np.concatenate([evidence.gradient[free], evidence.knot_gradient[move].ravel()])

        start = np.concatenate([theta[free], Z[move].ravel()])
        bounds = np.vstack([self.table.theta_bounds[free], np.tile(self.box, (int(move.sum()), 1))])
        if self.optimizer is None:
            value = self.evaluate(theta, Z, jitter, gradient=False).value
            none = OptimizeResult(value, start, 1, np.nan, True, "parameters kept as given", np.array([value]))
            return Stage(theta, Z, jitter, none)
        result = self.optimizer.maximize(objective, start, bounds)
        return Stage(*unpack(result.parameters), jitter, result)

    def sensible_number(self, n_knots: int) -> int:
        """A number of knots that was asked for, or fewer with a warning: as many as there are different rows, and no
        more than a third of many rows, from where on knots cost more than the exact GP.
        """
        most = max(MANY_KNOTS, len(self.rows) // 3)
        places = count_distinct(self.rows.X, min(n_knots, most))
        if places < n_knots:
            why = "the number of different rows" if places < most else "more would cost more than the exact GP"
            warn(
                f"{n_knots:,} knots were asked for, and cut to {places:,}: {why}. They stay where they are placed. "
                "Ask for fewer, let `knots='auto'` choose, or use approximation='full'."
            )
        return places

    def initial_knots(self, how: Initial, n_knots: int, rng: np.random.Generator) -> np.ndarray:
        """Initial knots in the units of the engine; an array is given in the user's."""
        if not isinstance(how, str) and not callable(how):
            how = self.scale_inputs(checked_knots(how, self.rows.X.shape[1]))
        return initial_knots(how, self.rows.X, self.rows.y, n_knots, rng)

    def redundant(self, theta: np.ndarray, Z: np.ndarray) -> np.ndarray:
        """Mask of knots that the others determine to within a share of 1e-8 of the prior variance.

        It is a rule of minimum separation that each kernel sets for itself: the squared pivots of a pivoted
        Cholesky factor of Kuu are the variances of each knot's value given those before it.
        """
        Kuu = self.model.with_theta(theta).kernel(Z, Z)
        kept = pivoted_order(Kuu, REDUNDANT_SHARE * float(Kuu.diagonal().max()))
        drop = np.ones(len(Z), bool)
        drop[kept] = False
        return drop


def _is_like_jitter(kept: Jitter | None, points: np.ndarray) -> bool:
    return kept is not None and are_alike(kept.points, points) and 0 <= kept.relative < np.inf
