"""Over which models are predictions averaged? Of few rows, over all reasonable kernels, with equal weights.

Evidence and leave-one-out errors of few rows choose among kernels nearly at random, and overconfidently: weights by
evidence are one kernel, and what it does not know is in no interval. So all kernels that are not clearly worse predict
together, each with the same probability, and of very few rows each with two points of its hyperparameters, to both
sides of the optimum, for these are uncertain, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from knotwise.decisions import kernel
from knotwise.decisions.signal import n_identifiable
from knotwise.decisions.thresholds import AVERAGE
from knotwise.decisions.trials import Candidate, describe_kernel
from knotwise.errors import KnotwiseError
from knotwise.evidence import Evidence, Point
from knotwise.means import Linear
from knotwise.numerics.linalg import pivoted_order
from knotwise.selection.base import Decision
from knotwise.selection.problem import KernelMaker, Problem


@dataclass(frozen=True)
class Averaged:
    """A model whose predictions are averaged with others: its problem, where it stands, the evidence there with the
    state of which its posterior is made, and the probability of the model.
    """

    problem: Problem
    point: Point
    evidence: Evidence
    weight: float


def decide(make: KernelMaker, problem: Problem, rng: np.random.Generator) -> Decision[tuple[Averaged, ...]]:
    """The models beside that of a fit over which predictions are averaged; none where only one kernel is reasonable.

    `make` puts the problem together for a kernel, as it was before the choice. The models are exact GPs where the fit
    is one, and else through as many knots on rows as leave nothing that matters. The `weight` among the numbers is that
    of the fit itself; 0 where its kernel, which of fewest rows was not chosen, is not reasonable.
    """
    candidates = problem.rivals or _candidates_of_few(make, rng)
    if isinstance(problem.model.mean, Linear):  # a trend that was chosen goes on beyond the data, with every kernel
        candidates = [each for each in candidates if isinstance(each.problem.model.mean, Linear)]
    judged = [(tried, value) for tried, value in ((each, _value(each.problem, each.theta)) for each in candidates)]
    worth = np.array([value - AVERAGE.price * n_identifiable(tried.problem) for tried, value in judged])
    most = worth.max(initial=-np.inf)
    near = np.isfinite(worth) & (worth >= most - AVERAGE.nats)
    reasonable = [pair for pair, is_near in zip(judged, near, strict=True) if is_near]
    others = [(tried, value) for tried, value in reasonable if _kind(tried.problem) != _kind(problem)]
    share = 1.0 / max(len(reasonable), 1)
    members: list[Averaged] = []
    for tried, value in others:
        states = [_at(tried.problem, theta, full=problem.full) for theta in _points(tried, value, rng)]
        known = [state for state in states if state is not None]
        members += [Averaged(tried.problem, *state, share / len(known)) for state in known]
    weight = 1.0 - sum(member.weight for member in members)
    numbers = {"n_kernels": float(len(reasonable)), "n_tried": float(len(judged)), "weight": max(weight, 0.0)}
    if not members:
        return Decision((), "no other kernel is reasonable", numbers)
    why = (
        f"predictions are the average of {len(reasonable)} kernels with equal weights, of {len(judged)} those within "
        f"{AVERAGE.nats:g} nats of the likeliest: {', '.join(_name(tried.problem, problem) for tried, _ in reasonable)}"
    )
    return Decision(tuple(members), why, numbers)


def _candidates_of_few(make: KernelMaker, rng: np.random.Generator) -> Sequence[Candidate]:
    """The kernels of rows that are too few to choose one of them."""
    return kernel.decide(make, rng, AVERAGE.least_rows).choice.rivals


def _value(problem: Problem, theta: np.ndarray) -> float:
    """Log evidence of the exact GP of all rows; -inf where it cannot be computed."""
    exact = replace(problem.anew(), full=True)
    try:
        return exact.evaluate(exact.point(theta, _no_knots(problem)), gradient=False).value
    except KnotwiseError:
        return -np.inf


def _points(tried: Candidate, value: float, rng: np.random.Generator) -> list[np.ndarray]:
    """Hyperparameters of a kernel: the optimum, or of very few rows a random point about it and its reflection.

    The points are those of the normal distribution with the curvature at the optimum; where the evidence falls far more
    than this says, the point is left out.
    """
    problem, free = tried.problem, tried.problem.free
    if problem.summary.n_rows > AVERAGE.pair_rows or tried.information is None:
        return [tried.theta]
    z = rng.standard_normal(int(free.sum()))
    root = np.linalg.cholesky(np.linalg.inv(tried.information * problem.summary.count))
    step = np.zeros(len(free))
    step[free] = np.clip(root @ z, -AVERAGE.longest, AVERAGE.longest)
    both = [np.clip(tried.theta + side * step, *problem.table.theta_bounds.T) for side in (1.0, -1.0)]
    expected = value - 0.5 * float(z @ z)
    return [theta for theta in both if _value(problem, theta) > expected - AVERAGE.lost] or [tried.theta]


def _at(problem: Problem, theta: np.ndarray, *, full: bool) -> tuple[Point, Evidence] | None:
    """Where a model stands, and its evidence, by the exact GP or through knots; None where it cannot be computed.

    The knots are on rows, each where the others leave most, until what is left anywhere is little beside the noise.
    """
    try:
        if full:
            problem, Z = replace(problem.anew(), full=True), _no_knots(problem)
        else:
            problem, model, rows = problem.anew(), problem.model.with_theta(theta), problem.rows
            noise = float(np.min(model.noise_of(rows).variance(rows))) if model.likelihood.conjugate else 0.0
            K = model.kernel(rows.X, rows.X)
            least = max(AVERAGE.left * noise, AVERAGE.determined * float(K.diagonal().max()))
            Z = rows.X[pivoted_order(K, least)]
        point = problem.point(theta, Z)
        evidence = problem.evaluate(point, gradient=False)
    except KnotwiseError:
        return None
    return (point, evidence) if evidence.converged else None


def _no_knots(problem: Problem) -> np.ndarray:
    return np.empty((0, problem.summary.n_columns))


def _kind(problem: Problem) -> tuple[str, type]:
    """What tells two candidates apart: the kernel without its values, and whether there is a trend."""
    return describe_kernel(problem.model.kernel), type(problem.model.mean)


def _name(problem: Problem, fitted: Problem) -> str:
    """A kernel by its name, with the trend in which it differs from the kernel of the fit."""
    name, mean = _kind(problem)
    return name if mean is type(fitted.model.mean) else f"{name} with a trend"
