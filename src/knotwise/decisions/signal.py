"""Is there anything to learn, and with which hyperparameters? Exact GPs on a few rows find out, cheaply."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from knotwise.decisions.thresholds import SIGNAL
from knotwise.errors import KnotwiseError
from knotwise.selection.base import Decision
from knotwise.selection.places import NearnessPass
from knotwise.selection.problem import Problem
from knotwise.selection.starts import exact_on, starting_theta, subset_rows, without_inputs
from knotwise.selection.trace import KnotTrace


def decide(problem: Problem, rng: np.random.Generator, trace: KnotTrace) -> Decision[np.ndarray]:
    """Starting hyperparameters, and the log Bayes factor against no signal at which they were found.

    Random rows are tried, then neighbouring rows at short length-scales, then all rows through a few knots. A log Bayes
    factor counts as signal where chance would give it once in a hundred. At last, on all rows, a nat for each parameter
    is enough: to call such a doubtful signal noise costs more, in coverage above all, than a weak function where there
    is none.
    """
    least, found = threshold(problem), problem.found
    doubtful = least_gain(problem)
    theta = starting_theta(problem, rng)

    def record(fitted: np.ndarray, gain: float, where: str, n_rows: int, n_knots: int = 0) -> Decision[np.ndarray]:
        why = f"log Bayes factor {gain:.1f} against no signal on {where.format(n_rows)} (above {least:.1f} is a signal)"
        if n_knots and doubtful < gain <= least:
            why += "; doubtful, but worth its parameters"
        trace.add("signal", n_knots, gain, theta=fitted, n_rows=n_rows, note=why)
        at_least = doubtful if n_knots else least
        return Decision(fitted, why, {"log_bayes_factor": gain, "threshold": at_least, "n_knots": n_knots})

    decision = Decision(theta, "nothing could be fitted", {"log_bayes_factor": 0.0, "threshold": least, "n_knots": 0})
    tries: list[tuple[str, np.ndarray | None, np.ndarray, int]] = []
    if found is None:
        tries.append(("{} random rows", problem.sample(SIGNAL.rows, rng, by_weight=True), theta, 0))
    else:  # random rows were tried already
        gain, n_rows = found.numbers["log_bayes_factor"], int(found.numbers["n_rows"])
        decision = record(theta, gain, "{} random rows", n_rows)
        if is_found(decision):
            return decision
    tries.append(("{} neighbouring rows", _neighbouring_rows(problem, rng), _shorter(problem, theta), 0))
    tries.append((f"{{}} rows through {SIGNAL.knots} knots", None, _weaker(problem), SIGNAL.knots))
    for name, rows, start, n_knots in tries:
        try:
            fitted, gain = _gain(problem, rows, start, n_knots, rng)
        except KnotwiseError:
            continue
        decision = record(fitted, gain, name, problem.summary.n_rows if rows is None else len(rows), n_knots)
        if is_found(decision):
            return decision
    return decision


def is_found(decision: Decision[np.ndarray]) -> bool:
    """Whether the inputs say anything about the targets."""
    return decision.numbers["log_bayes_factor"] > decision.numbers["threshold"]


def is_weak(decision: Decision[np.ndarray]) -> bool:
    """Whether only all rows, through a few knots, show the signal."""
    return is_found(decision) and decision.numbers["n_knots"] > 0


def threshold(problem: Problem) -> float:
    """Log Bayes factor against a model without inputs that chance gives once in a hundred."""
    from scipy.special import chdtri

    return 0.5 * float(chdtri(max(n_identifiable(problem), 1), SIGNAL.chance))


def least_gain(problem: Problem) -> float:
    """Log Bayes factor of all rows against a model without inputs, from which on a function is worth its parameters."""
    return min(float(n_identifiable(problem)), threshold(problem))


def n_identifiable(problem: Problem) -> int:
    """Number of free parameters that the data identify: not the length-scale of a constant column."""
    identified, lengthscales = problem.free.copy(), problem.table.with_role("lengthscale")
    if problem.model.kernel.takes_column_scales:
        for i in np.flatnonzero(lengthscales):
            identified[i] &= problem.summary.varies[list(problem.table.parameters[i].columns)].any()
    return int(identified.sum())


def _gain(
    problem: Problem, rows: np.ndarray | None, start: np.ndarray, n_knots: int, rng: np.random.Generator
) -> tuple[np.ndarray, float]:
    """Fit some rows exactly, or all through a few knots, and compare with the model without inputs."""
    problem = replace(problem, model=problem.model.with_power(1.0))
    if rows is None:
        subset = replace(problem.anew(), optimizer=SIGNAL.search, full=False, n_restarts=0)
    else:
        subset = exact_on(problem, subset_rows(problem, rows), SIGNAL.search)
    Z = subset.initial_knots("kmeans", n_knots, rng) if n_knots else np.empty((0, problem.summary.n_columns))
    stage = subset.optimize(start, Z, rng)
    null = without_inputs(subset, stage.theta, Z, rng)
    # of the evidence: priors are for optimisers
    return stage.theta, subset.log_evidence(stage) - subset.log_evidence(null)


def _weaker(problem: Problem) -> np.ndarray:
    """The start from the data's scale, with a hundredth of the variance: what a weak signal looks like."""
    amplitudes = problem.table.with_role("amplitude")
    return problem.table.theta - np.log(SIGNAL.weaker) * (amplitudes & problem.free & ~problem.given)


def _shorter(problem: Problem, theta: np.ndarray) -> np.ndarray:
    lengthscales = problem.table.with_role("lengthscale")
    shorter = theta + np.log(SIGNAL.short) * (lengthscales & problem.free & ~problem.given)
    return np.clip(shorter, *problem.table.theta_bounds.T)


def _neighbouring_rows(problem: Problem, rng: np.random.Generator) -> np.ndarray:
    """The rows nearest to one of them: a dense patch, in which short length-scales can be seen."""
    n_rows = problem.summary.n_rows
    anchor = problem.take(np.array([rng.integers(n_rows)])).X[0]
    return np.sort(problem.run.blocks.top(NearnessPass(anchor), min(SIGNAL.rows, n_rows)))
