"""Is there anything to learn, and with which parameters? Exact GPs on a few rows find out, cheaply."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from knotwise.errors import KnotwiseError
from knotwise.optimize.lbfgs import LBFGS
from knotwise.selection.places import NearnessPass
from knotwise.selection.problem import Problem
from knotwise.selection.starts import starting_theta, subset_rows, without_inputs
from knotwise.selection.trace import KnotTrace

__all__ = ["Signal", "find_signal", "least_gain", "n_told", "threshold"]

REFINE_ROWS = 300
WEAK_KNOTS = 30
SHORT = 0.1  # length-scales of the second look, relative to the start


@dataclass(frozen=True)
class Signal:
    """Whether the inputs say anything about the targets, starting parameters, and the finding in words."""

    found: bool
    theta: np.ndarray
    note: str
    weak: bool = False


def find_signal(problem: Problem, rng: np.random.Generator, trace: KnotTrace) -> Signal:
    """Look for signal on random rows, then on neighbouring rows at short length-scales, then through a few knots.

    A gain in log evidence over the model without inputs counts as signal where chance would give it once in a hundred.
    In the last look, at all rows, a nat for each parameter is enough: to call such a doubtful signal noise costs more,
    in coverage above all, than a weak function where there is none.
    """
    chance, found = threshold(problem), problem.found
    doubtful = least_gain(problem)
    theta = starting_theta(problem, rng)

    def record(fitted: np.ndarray, gain: float, where: str, n_rows: int, n_knots: int = 0) -> str:
        note = f"{gain:.1f} nats of evidence on {where.format(n_rows)}, where chance gives {chance:.1f}"
        if n_knots and doubtful < gain <= chance:
            note += "; doubtful, but worth its parameters"
        trace.add("signal", n_knots, gain, theta=fitted, n_rows=n_rows, note=note)
        return note

    best, note = theta, "nothing could be fitted"
    if found is not None:  # random rows were looked at already
        note = record(theta, found.gain, "{} random rows", found.n_rows)
        if found.gain > chance:
            return Signal(True, theta, note)
    looks: list[tuple[str, np.ndarray | None, np.ndarray, int]] = []
    if found is None:
        looks.append(("{} random rows", _random_rows(problem, rng), theta, 0))
    looks.append(("{} neighbouring rows", _neighbouring_rows(problem, rng), _shorter(problem, theta), 0))
    looks.append(("{} rows through 30 knots", None, _weaker(problem), WEAK_KNOTS))
    for name, rows, start, n_knots in looks:
        try:
            fitted, gain = _gain(problem, rows, start, n_knots, rng)
        except KnotwiseError:
            continue
        note = record(fitted, gain, name, problem.summary.n_rows if rows is None else len(rows), n_knots)
        if gain > (doubtful if n_knots else chance):
            return Signal(True, fitted, note, weak=n_knots > 0)
        best = fitted
    return Signal(False, best, note)


def threshold(problem: Problem) -> float:
    """Nats of evidence above a model without inputs that chance gives once in a hundred."""
    from scipy.special import chdtri

    return 0.5 * float(chdtri(max(n_told(problem), 1), 0.01))


def least_gain(problem: Problem) -> float:
    """Nats of evidence above a model without inputs, of all rows, from which on a function is worth its parameters."""
    return min(float(n_told(problem)), threshold(problem))


def n_told(problem: Problem) -> int:
    """How many free parameters the data can tell something of: not the length-scale of a constant column."""
    told, lengthscales = problem.free.copy(), problem.table.with_role("lengthscale")
    if problem.model.kernel.takes_column_scales:
        for i in np.flatnonzero(lengthscales):
            told[i] &= problem.summary.varies[list(problem.table.parameters[i].columns)].any()
    return int(told.sum())


def _gain(
    problem: Problem, rows: np.ndarray | None, start: np.ndarray, n_knots: int, rng: np.random.Generator
) -> tuple[np.ndarray, float]:
    """Fit some rows exactly, or all through a few knots, and compare with the model without inputs."""
    subset = replace(
        problem.anew() if rows is None else problem.on_rows(subset_rows(problem, rows)),
        model=problem.model.with_power(1.0),
        optimizer=LBFGS(max_iterations=40, value_tolerance=1e-6, gradient_tolerance=1e-2),
        full=n_knots == 0,
        n_restarts=0,
    )
    Z = subset.initial_knots("kmeans", n_knots, rng) if n_knots else np.empty((0, problem.summary.n_columns))
    stage = subset.optimize(start, Z, rng)
    null = without_inputs(subset, stage.theta, Z, rng)
    # of the evidence: priors are for optimisers
    return stage.theta, subset.log_evidence(stage) - subset.log_evidence(null)


def _weaker(problem: Problem) -> np.ndarray:
    """The start from the data's scale, with a hundredth of the variance: what a weak signal looks like."""
    amplitudes = problem.table.with_role("amplitude")
    return problem.table.theta - np.log(100.0) * (amplitudes & problem.free & ~problem.given)


def _shorter(problem: Problem, theta: np.ndarray) -> np.ndarray:
    lengthscales = problem.table.with_role("lengthscale")
    bounds = problem.table.theta_bounds
    return np.clip(theta + np.log(SHORT) * (lengthscales & problem.free & ~problem.given), bounds[:, 0], bounds[:, 1])


def _random_rows(problem: Problem, rng: np.random.Generator) -> np.ndarray:
    return problem.sample(REFINE_ROWS, rng, by_weight=True)


def _neighbouring_rows(problem: Problem, rng: np.random.Generator) -> np.ndarray:
    """The rows nearest to one of them: a dense patch, in which short length-scales can be seen."""
    n_rows = problem.summary.n_rows
    anchor = problem.take(np.array([rng.integers(n_rows)])).X[0]
    return np.sort(problem.run.blocks.top(NearnessPass(anchor), min(REFINE_ROWS, n_rows)))
