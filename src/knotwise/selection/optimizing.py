"""What optimisers see of a problem, and the best of several starts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from knotwise.checkpoint.journal import are_alike
from knotwise.errors import InvalidInputError, KnotwiseError
from knotwise.evidence import Jitter, Model, Point
from knotwise.evidence.inference import inference_of
from knotwise.optimize.base import OptimizeResult
from knotwise.selection.base import Stage

if TYPE_CHECKING:
    from knotwise.selection.problem import Problem

AGREEMENT = 0.5  # nats between two inferences up to which they tell the same of parameters
SMALL_RISE = 0.1  # nats that the better of them may promise beyond the end of the other
NEARLY_AS_HIGH = 2.0  # nats below the best end of a sum, up to which another end is another explanation
RESTART_SPREAD = 1.5  # standard deviation of a restart's parameters about the start, on the log scale


@dataclass(frozen=True)
class Objective:
    """The log evidence plus the log prior of the parameters, seen from a point at which an optimisation starts.

    The *evidence* is what users and tests of signal see; priors of the parameters are for optimisers only. `move` is a
    mask of the knots that move; the jitter stays as it is.
    """

    problem: Problem
    start: Point
    move: np.ndarray
    at_start: tuple[float, np.ndarray] | None = None  # value and gradient, where they are known

    @property
    def vector(self) -> np.ndarray:
        """The start as a flat vector: free parameters, then knots that move."""
        return np.concatenate([self.start.theta[self.problem.free], self.start.Z[self.moving].ravel()])

    @property
    def moving(self) -> Any:
        """Which coordinates of the knots move: all of those knots, or of encoded columns those that can."""
        if not self.problem.places.levels or not self.move.any():
            return self.move
        return np.ix_(self.move, self.problem.places.moving(self.start.Z.shape[1]))

    @property
    def bounds(self) -> np.ndarray:
        """Lower and upper bounds of the vector, [n, 2]."""
        box = self.problem.box[self.problem.places.moving(len(self.problem.box))]
        knots = np.tile(box, (int(self.move.sum()), 1))
        return np.vstack([self.problem.table.theta_bounds[self.problem.free], knots])

    def point(self, vector: np.ndarray) -> Point:
        """Where a vector is."""
        theta, free = self.start.theta.copy(), self.problem.free
        theta[free] = vector[: int(free.sum())]
        Z = self._knots(vector)
        if self.move.any():
            Z[self.move] = self.problem.places.onto_spheres(Z[self.move])
        return Point(theta, Z, self.start.jitter)

    def _knots(self, vector: np.ndarray) -> np.ndarray:
        """The knots as the vector has them, which need not be on a sphere."""
        Z = self.start.Z.copy()
        if self.move.any():
            Z[self.moving] = vector[int(self.problem.free.sum()) :].reshape(int(self.move.sum()), -1)
        return Z

    def __call__(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and gradient; a point at which the inference does not arrive has none."""
        if self.at_start is not None and np.array_equal(vector, self.vector):
            return self.at_start
        point = self.point(vector)
        evidence = self.problem.evaluate(point)
        if not evidence.converged:
            raise KnotwiseError(f"No value here: {evidence.why}.")
        assert evidence.gradient is not None
        prior, prior_gradient = self.problem.table.log_prior(point.theta)
        value = evidence.value + prior
        gradient = (evidence.gradient + prior_gradient)[self.problem.free]
        if not self.move.any():
            return value, gradient
        assert evidence.knot_gradient is not None
        Z_bar = self.problem.places.pull(self._knots(vector), evidence.knot_gradient)
        return value, np.concatenate([gradient, Z_bar[self.moving].ravel()])

    def value(self, point: Point) -> float:
        """The objective at a point, without gradient."""
        return self.problem.evaluate(point, gradient=False).value + self.problem.table.log_prior(point.theta)[0]


def through_surrogate(
    problem: Problem, theta: np.ndarray, Z: np.ndarray, rng: np.random.Generator, move: np.ndarray | None
) -> Stage:
    """The best of the starts where a surrogate objective, by a quicker inference, looks first.

    Its end is kept where only knots move, where the two inferences agree on the evidence, or where the gradient of the
    problem's own promises next to nothing; elsewhere the problem's own inference goes on, from the better of that point
    and the start.
    """
    assert problem.surrogate is not None
    quick = None
    try:
        quick = best_of_starts(problem.by_surrogate, theta, Z, rng, move)
        objective = Objective(problem, quick.point, np.zeros(len(Z), bool) if move is None or problem.full else move)
        value, gradient = objective(objective.vector)
    except KnotwiseError:
        return _by_itself(problem, quick, theta, Z, rng, move)
    low, high = problem.table.theta_bounds[problem.free].T
    inside = ((quick.theta[problem.free] > low) & (quick.theta[problem.free] < high)).all()
    # at a bound the curvature is that of the way there, and tells nothing
    rise = quick.result.predicted_rise(gradient, objective.bounds) if inside else np.inf
    apart = abs(quick.value - value)
    surrogate, own = problem.surrogate.name.removeprefix("The "), problem.inference.value_name
    if not problem.free.any() or apart <= AGREEMENT or rise <= SMALL_RISE:
        note = f"parameters by the {surrogate}, {apart:.2f} nats from the {own}" if problem.free.any() else ""
        return replace(quick, result=replace(quick.result, value=value), note=note)
    start, Z_start = (quick.theta, quick.Z) if value > _value_or_none(problem, theta, Z) else (theta, Z)
    stage = best_of_starts(replace(problem, n_restarts=0), start, Z_start, rng, move)
    note = f"parameters by the {own}, from which the {surrogate} is {apart:.1f} nats apart"
    return replace(stage, failed_restarts=quick.failed_restarts, note=note)


def _by_itself(
    problem: Problem,
    quick: Stage | None,
    theta: np.ndarray,
    Z: np.ndarray,
    rng: np.random.Generator,
    move: np.ndarray | None,
) -> Stage:
    """The best of the starts without the surrogate, or where none has a value, the end of the surrogate."""
    try:
        return best_of_starts(problem, theta, Z, rng, move)
    except KnotwiseError as error:
        if quick is None or problem.surrogate is None:
            raise
        surrogate, own = problem.surrogate.name.removeprefix("The "), problem.inference.name
        return replace(quick, note=f"parameters by the {surrogate}; {own} has no value there: {error}")


def _value_or_none(problem: Problem, theta: np.ndarray, Z: np.ndarray) -> float:
    """The objective at a start, -inf where there is none."""
    try:
        point = problem.point(theta, Z)
        return Objective(problem, point, np.zeros(len(Z), bool)).value(point)
    except KnotwiseError:
        return -np.inf


def best_of_starts(
    problem: Problem, theta: np.ndarray, Z: np.ndarray, rng: np.random.Generator, move: np.ndarray | None
) -> Stage:
    """The best of the problem's starts; one whose evidence cannot be computed is skipped and counted."""
    if problem.optimizer is None:
        return _climb(problem, theta, Z, move)
    climb = _climb if problem.run.journal is None else _climb_or_reload
    bounds, errors, best = problem.table.theta_bounds, [], None
    ends: list[Stage] = []
    centre = np.where(_of_sums(problem), problem.table.theta, theta)
    for restart in range(1 + problem.n_restarts):
        shift = RESTART_SPREAD * rng.standard_normal(len(theta)) if restart else 0.0
        around = centre if restart else theta
        start = np.where(problem.free, np.clip(around + shift, bounds[:, 0], bounds[:, 1]), theta)
        try:
            stage = climb(problem, start, Z, move)
        except KnotwiseError as error:
            errors.append(error)
            continue
        ends.append(stage)
        if best is None or stage.value > best.value:
            best = stage
    if best is None:
        raise _with_advice(problem, errors[0])
    best = _unless_flat(problem, theta, best, Z, move)
    near = [end for end in ends if end is not best and end.value > best.value - NEARLY_AS_HIGH]
    others = tuple(near) if amplitudes_of_terms(problem).any() else ()
    return replace(best, failed_restarts=len(errors), others=others)


def amplitudes_of_terms(problem: Problem) -> np.ndarray:
    """Which entries of theta are free amplitudes of the terms of a sum: several of the same units in the kernel."""
    table = problem.table
    amplitudes = table.with_role("amplitude") & problem.free & (np.arange(len(table)) < problem.model.sizes[0])
    powers = np.array([parameter.y_power for parameter in table.parameters])
    return amplitudes & np.array([np.sum(amplitudes & (powers == power)) > 1 for power in powers], bool)


def _of_sums(problem: Problem) -> np.ndarray:
    """Which entries of theta restarts spread about the scale of the data: those of a kernel that is a sum.

    A term that has vanished stays vanished a few standard deviations from there, and so does its length-scale.
    """
    of_kernel = np.arange(len(problem.table)) < problem.model.sizes[0]
    return of_kernel & amplitudes_of_terms(problem).any()


def _with_advice(problem: Problem, error: KnotwiseError) -> KnotwiseError:
    """The error of a start at which there is no evidence, with what to do about it that was not done already."""
    why = getattr(error, "why", "")
    if not why:
        return error
    given = [name for name, given in zip(problem.table.names, problem.given & problem.free, strict=True) if given]
    advice = describe_other_inference(problem.model)
    if given:
        advice = f"Give other values for {', '.join(given)}, or leave them None to take them from the data."
    return InvalidInputError(f"There is no evidence at the start of the optimisation: {why}. {advice}", why=why)


def describe_other_inference(model: Model) -> str:
    """What to write where the inference of a model did not converge."""
    other = "variational" if inference_of(model).word == "laplace" else "laplace"
    nugget = "" if model.nugget.size else ", or `nugget='fit'`"
    return f"Try `inference='{other}'`{nugget}."


def _unless_flat(problem: Problem, theta: np.ndarray, stage: Stage, Z: np.ndarray, move: np.ndarray | None) -> Stage:
    """The better of two fits where one has ended at a flat function, on which no other parameter has an effect.

    With parameters of an exact GP few knots may be less likely than no function at all, since the mean is integrated
    out in both. A first step from there can lead to the flat function at once, of which no gradient leads back. From
    the scale of the data, knots see more.
    """
    open_ = problem.free & ~problem.given
    amplitudes = problem.table.with_role("amplitude") & open_
    floor = problem.table.theta_bounds[:, 0]
    fell = (stage.theta <= floor) & (theta > floor)
    again = np.where(open_, problem.table.theta, theta)
    if not amplitudes.any() or not fell[amplitudes].all() or np.array_equal(again, theta):
        return stage
    try:
        climb = _climb if problem.run.journal is None else _climb_or_reload
        other = climb(problem, again, Z, move)
    except KnotwiseError:
        return stage
    return other if other.value > stage.value else stage


def _climb(problem: Problem, theta: np.ndarray, Z: np.ndarray, move: np.ndarray | None) -> Stage:
    """Optimise from one start; without an optimiser, evaluate there."""
    start = problem.point(theta.copy(), Z.copy())
    objective = Objective(problem, start, np.zeros(len(Z), bool) if move is None or problem.full else move)
    if problem.optimizer is None:
        value = objective.value(start)
        kept = OptimizeResult(value, objective.vector, 1, np.nan, True, "parameters kept as given", np.array([value]))
        return Stage(start, kept)
    objective = _with_enough_noise(objective)
    result = problem.optimizer.maximize(objective, objective.vector, objective.bounds)
    return Stage(objective.point(result.parameters), result)


def _climb_or_reload(problem: Problem, start: np.ndarray, Z: np.ndarray, move: np.ndarray | None) -> Stage:
    """The same, or what a checkpoint has kept of it."""

    def fits(stage: Stage) -> bool:
        return (
            are_alike(stage.theta, start)
            and are_alike(stage.Z, Z)
            and stage.result.parameters.ndim == stage.result.history.ndim == 1
            and (stage.jitter is None if problem.full else _is_like_jitter(stage.jitter, problem.typical_points))
        )

    return problem.memoize(
        ("stage", type(problem.optimizer).__name__, start, Z, move),
        lambda: _climb(problem, start, Z, move),
        (Stage, Point, Jitter, OptimizeResult),
        fits=fits,
    )


def _with_enough_noise(objective: Objective) -> Objective:
    """Start with more noise, ten times as much and again, for as long as that raises the objective.

    Smooth data have almost no noise in an exact GP of few rows. Few knots, or more rows, leave more open than that, and
    an optimiser that starts at such a noise would flee to a model in which everything is noise, or every row alone.
    The exact GP starts with no more noise than the scale of the data gives it: it explains all that is no noise, if
    its length-scales come there. What was computed at the start is handed on to the optimiser.
    """
    problem, theta = objective.problem, objective.start.theta
    louder = np.log(10.0) * problem.model.noise_directions
    louder[~problem.free | problem.given] = 0.0
    low, high = problem.table.theta_bounds.T
    if problem.full:
        usual = problem.table.theta
        low = np.where(louder < 0, np.minimum(usual, theta), low)
        high = np.where(louder > 0, np.maximum(usual, theta), high)
    best = None
    for _ in range(12):
        trial = np.clip(theta + louder, low, high)
        if np.array_equal(trial, theta):
            break
        if best is None:
            objective = _known_at_start(objective)
            best = -np.inf if objective.at_start is None else objective.at_start[0]
        at = replace(objective.start, theta=trial)  # the jitter is a matter of the kernel, whose parameters stay
        try:
            new = objective.value(at)
        except KnotwiseError:
            break
        if not new > best:
            break
        objective, theta, best = replace(objective, start=at, at_start=None), trial, new
    return objective


def _known_at_start(objective: Objective) -> Objective:
    """The same, with what can be computed at its start; an optimiser says itself why nothing can."""
    try:
        value, gradient = objective(objective.vector)
    except (KnotwiseError, ArithmeticError):
        return objective
    return replace(objective, at_start=(value, gradient)) if np.isfinite(value) else objective


def _is_like_jitter(kept: Jitter | None, points: np.ndarray) -> bool:
    return kept is not None and are_alike(kept.points, points) and 0 <= kept.relative < np.inf
