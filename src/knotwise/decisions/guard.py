"""The guard of every fit: it does not end as good as nothing, nor below a stage on its way, and call itself converged.

An optimiser that starts where the data are all but impossible (hardly any noise, parameters of another approximation)
may flee to an end without a function, of which no gradient leads back: every row alone, or everything noise. Such an
end has about the evidence of a model without inputs, so that is what every fit is compared with.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from knotwise.decisions import explanations, vanished
from knotwise.decisions.signal import least_gain
from knotwise.decisions.thresholds import GUARD
from knotwise.errors import KnotwiseError
from knotwise.selection.base import Decision, Selection
from knotwise.selection.problem import Problem, Run
from knotwise.selection.starts import starting_theta, without_inputs
from knotwise.selection.trace import Status

Select = Callable[[Problem, np.random.Generator], Selection]


def decide(
    problem: Problem, selection: Selection, select: Select | None, rng: np.random.Generator
) -> Decision[Selection]:
    """The selection; or a better one, where it is within chance of saying nothing about the targets.

    `select` makes a selection for a problem that starts elsewhere; None where an algorithm is to be run as it is, once.
    Where every start ends within chance of the model without inputs, the status is "no signal", and the reason has the
    numbers. Costs a fit of mean and noise to 5,000 rows where all is well.
    """
    if not _claims_to_have_converged(problem, selection):
        return Decision(selection, "there is no claim to be checked")
    selection = vanished.restarted(problem, _not_below_a_stage(problem, selection, rng), rng)
    if selection.others:
        selection = explanations.decide(problem, selection).choice
    chance, gain = least_gain(problem), _gain(problem, selection, rng)
    if gain > chance:
        return _accepted(selection, gain, chance)
    n_starts = 1
    for start in () if select is None else _other_starts(problem, rng):
        assert select is not None
        try:
            other = select(replace(problem, found=start, curvature=None), rng)
            other_gain = _gain(problem, other, rng)
        except KnotwiseError:
            continue
        n_starts += 1
        if other_gain > gain + GUARD.difference:
            selection, gain = other, other_gain
        if gain > chance:
            return _accepted(selection, gain, chance)
    why = f"no signal: {_in_words(gain, chance)}"
    why += f", the best of {n_starts} starts" if n_starts > 1 else ""
    selection.trace.stop_reason = reason = f"{why}; {selection.reason}"
    ended = replace(selection, reason=reason, status=Status.NO_SIGNAL)
    return Decision(ended, why, {"log_bayes_factor": gain, "threshold": chance})


def _accepted(selection: Selection, gain: float, threshold: float) -> Decision[Selection]:
    return Decision(selection, _in_words(gain, threshold), {"log_bayes_factor": gain, "threshold": threshold})


def _in_words(gain: float, threshold: float) -> str:
    return f"log Bayes factor {gain:.1f} against the model without inputs (above {threshold:.1f} is a signal)"


def _claims_to_have_converged(problem: Problem, selection: Selection) -> bool:
    """Whether there is a claim to be checked: kernel parameters were optimised, and the end is called a good one."""
    amplitudes = problem.table.with_role("amplitude")
    free = problem.free[: problem.model.sizes[0]].any() and amplitudes.any()
    claims = selection.status is None and selection.result.converged and selection.evidence.converged
    return problem.optimizer is not None and bool(free) and claims


def _not_below_a_stage(problem: Problem, selection: Selection, rng: np.random.Generator) -> Selection:
    """The exact GP at hyperparameters that are not less likely than those of a stage on the same rows.

    Stages through knots have other evidences, so theirs are computed anew: of the stage that seemed best, once.
    """
    if selection.jitter is not None:
        return selection
    exact, value = replace(problem, full=True), selection.evidence.value
    stages = [
        step
        for step in selection.trace
        if step.theta is not None
        and step.theta.shape == selection.theta.shape
        and step.n_rows in (None, problem.summary.count)
        and not step.facts.compares_with_null
        and step.evidence > value
        and not np.array_equal(step.theta, selection.theta)
    ]
    if not stages:
        return selection
    best = max(stages, key=lambda step: step.evidence)
    assert best.theta is not None
    try:
        stage = exact.optimize(best.theta, selection.Z, rng)
        again = exact.selection(stage, selection.reason, selection.trace, failed_restarts=selection.failed_restarts)
    except KnotwiseError:
        return selection
    if not again.evidence.value > value:
        return selection
    gain = again.evidence.value - value
    note = f"back to the hyperparameters of an earlier stage, from which the log evidence is {gain:.1f} higher"
    selection.trace.add("refit", 0, again.evidence.value, theta=again.theta, note=note)
    return again


def _gain(problem: Problem, selection: Selection, rng: np.random.Generator) -> float:
    """Log Bayes factor of a selection against the model without inputs; infinite where that cannot be computed.

    That model is seen by one knot, which carries a flat function as well as many, or as all rows.
    """
    value, count = selection.evidence.value, problem.summary.count
    numbers = problem.sample(GUARD.rows, rng)
    few = problem.on_rows(problem.take(numbers)) if len(numbers) < problem.summary.n_rows else problem
    theta = selection.theta
    if theta.shape != problem.table.theta.shape:  # of another kernel, whose parameters mean nothing here
        theta = problem.table.theta
    try:
        for rows in (few, problem):
            quiet = Run(rows.run.blocks.anew())  # nobody follows what is no stage of the fit
            flat = replace(rows, run=quiet, full=False, n_restarts=0, optimizer=GUARD.search)
            null = flat.log_evidence(without_inputs(flat, theta, rows.distinct(1), rng))
            per_row = value / count - null / rows.summary.count
            if rows is not problem and per_row > GUARD.clear:
                return count * per_row
            if rows is problem:
                break
    except KnotwiseError:
        return np.inf
    return value - null


def _other_starts(problem: Problem, rng: np.random.Generator) -> list[Decision[np.ndarray]]:
    """The scale of the data, and where the exact GP of some rows ends."""
    fresh = replace(problem, found=None, curvature=None)
    thetas = [problem.table.theta, starting_theta(fresh, rng, GUARD.restart_rows)]
    n_rows = min(GUARD.restart_rows, problem.summary.n_rows)
    return [Decision(theta, "another start", {"log_bayes_factor": 0.0, "n_rows": n_rows}) for theta in thetas]
