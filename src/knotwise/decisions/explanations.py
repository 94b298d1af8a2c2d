"""Do several explanations fit the data as well? Ends of a sum that are as likely, and that predict otherwise.

Two columns that go together can each carry a function of both; which one is chosen decides what is predicted where they
part. So ends of other starts that are at most two nats below the best are compared with it: by what the exact GP of
some rows predicts there, and where the columns of these rows are put together anew.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from knotwise.decisions.thresholds import EXPLANATIONS
from knotwise.decisions.vanished import shared_variances
from knotwise.errors import KnotwiseError
from knotwise.evidence import Rows
from knotwise.posterior.exact import ExactPosterior
from knotwise.selection.base import Decision, Selection, Stage
from knotwise.selection.optimizing import NEARLY_AS_HIGH, amplitudes_of_terms
from knotwise.selection.problem import Problem
from knotwise.selection.starts import exact_on
from knotwise.selection.trace import Status


def decide(problem: Problem, selection: Selection) -> Decision[Selection]:
    """The selection; with a status of its own where another end of its sum is as likely and predicts otherwise.

    Costs an evaluation for each end, and an exact GP of 300 rows for each that is as likely.
    """
    if not amplitudes_of_terms(problem).any():
        return Decision(selection, "there is one explanation")
    by_exact_gp = selection.jitter is None or (selection.fitted is not None and selection.fitted.full)
    problem = replace(problem.anew(), full=by_exact_gp)
    rng = np.random.default_rng(0)
    rows = problem.take(problem.sample(EXPLANATIONS.rows, rng))
    value = _value(problem, Stage(selection.point, selection.result))
    best: tuple[float, Stage] | None = None
    for end in selection.others:
        below = value - _value(problem, end)
        apart = below < NEARLY_AS_HIGH and _differ(problem, rows, selection.theta, end.theta, rng)
        if apart and (best is None or below < best[0]):
            best = below, end
    if best is None:
        return Decision(selection, "other starts end at the same explanation, or are less likely")
    below, other = best
    why = f"another explanation has a log evidence {below:.1f} lower, with {_in_words(problem, rows, selection, other)}"
    selection.trace.add("terms", len(other.Z), value - below, theta=other.theta, note=why)
    selection.trace.stop_reason = reason = f"{why}; {selection.reason}"
    advice = "Both can be used. Hold a parameter, give `priors`, or get data where these explanations part."
    ended = replace(selection, status=Status.SEVERAL_EXPLANATIONS, reason=reason, advice=advice)
    return Decision(ended, why, {"below": below}, advice)


def _value(problem: Problem, end: Stage) -> float:
    try:
        return problem.evaluate(problem.point(end.theta, end.Z), gradient=False).value
    except KnotwiseError:
        return -np.inf


def _differ(problem: Problem, rows: Rows, one: np.ndarray, other: np.ndarray, rng: np.random.Generator) -> bool:
    """Whether predictions differ noticeably at the rows, or where columns of them are put together anew."""
    X, of_kernel = rows.X, problem.model.kernel.groups
    groups = np.arange(X.shape[1]) if of_kernel is None else np.array(of_kernel)
    anew = X.copy()
    for group in np.unique(groups):
        columns = np.flatnonzero(groups == group)
        anew[:, columns] = X[rng.permutation(len(X))][:, columns]
    exact = exact_on(problem.by_surrogate, rows, None)
    none = np.empty((0, X.shape[1]))
    try:
        states = [exact.anew().evaluate(exact.point(theta, none), gradient=False).state for theta in (one, other)]
        at = [[ExactPosterior(state).latent(where) for where in (X, anew)] for state in states]
    except KnotwiseError:
        return False
    return any(
        np.mean((a.mean - b.mean) ** 2) > EXPLANATIONS.noticeable**2 * np.mean(a.variance)
        for a, b in zip(*at, strict=True)
    )


def _in_words(problem: Problem, rows: Rows, selection: Selection, other: Stage) -> str:
    """The share of the variance that each term has in another end, and here."""
    variances = [np.add(*shared_variances(problem, rows.X, theta)) for theta in (other.theta, selection.theta)]
    shares = [each / each.sum() for each in variances]
    return ", ".join(
        f"{problem.table.names[i]} {shares[0][i]:.0%} of the variance of the sum instead of {shares[1][i]:.0%}"
        for i in np.flatnonzero(amplitudes_of_terms(problem))
    )
