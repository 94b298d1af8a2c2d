"""Does a column really not matter? A length-scale that few rows have made long does not come back by itself.

The evidence has an end for nearly every choice of columns that matter, and much noise, or few rows at the start, may
lead to one without a column that does: where its length-scale is long, the gradient along it is next to nothing. So
where hyperparameters have converged with such inactive inputs, these are reactivated: the hyperparameters are looked
for once more, from shorter length-scales of them.
"""

from __future__ import annotations

import numpy as np

from knotwise.decisions.thresholds import INACTIVE_INPUTS
from knotwise.decisions.trials import Candidate, Trial
from knotwise.evidence import Rows
from knotwise.selection.base import Decision
from knotwise.selection.problem import Problem
from knotwise.selection.starts import log_spread
from knotwise.selection.trace import KnotTrace


def decide(
    problem: Problem, pool: Rows, fitted: Candidate, rng: np.random.Generator, trace: KnotTrace
) -> Decision[np.ndarray | None]:
    """Hyperparameters from which to search again, with shorter length-scales of inactive inputs; None without any.

    None also where 1,000 rows tell that those do not matter: of more rows, the exact GP is first asked on some.
    """
    start = _reactivated(problem, fitted.theta)
    if start is None:
        return Decision(None, "every column matters")
    why, first = "some columns seem not to matter", INACTIVE_INPUTS.rows
    if fitted.ended != "exact" or problem.summary.n_rows <= INACTIVE_INPUTS.more * first:
        why += "; once more, from shorter length-scales"
        trace.add("reactivate", len(fitted.knots), problem.log_evidence(fitted.stage), note=why)
        return Decision(start, why)
    some = Trial.among(problem, pool, rng.permutation(len(pool))[:first], rng, trace)
    exact = some.exact(problem, INACTIVE_INPUTS.search)
    best = some.best(exact, [start])
    gain = -np.inf if best is None else best.value - some.value(exact, fitted.theta)
    matter = gain > INACTIVE_INPUTS.gain
    why += f"; {some.fitted.count} rows say that they {'do' if matter else 'do not'}"
    trace.add("reactivate", 0, np.nan if best is None else best.value, n_rows=some.fitted.count, note=why)
    return Decision(best.theta if best is not None and matter else None, why, {"gain": gain})


def _reactivated(problem: Problem, theta: np.ndarray) -> np.ndarray | None:
    """Hyperparameters with every input active; None if they are.

    Each of m columns gets a length-scale of 2 sqrt(m) spreads: together they part rows as one column would.
    """
    movable = problem.table.with_role("lengthscale") & problem.free & ~problem.given
    spread, limit = log_spread(problem), np.log(INACTIVE_INPUTS.inactive)
    inactive = movable & (theta > limit + spread)
    if not inactive.any() or movable.sum() < 2:
        return None
    shorter = min(np.log(INACTIVE_INPUTS.active) + 0.5 * np.log(inactive.sum()), limit) + spread
    return np.clip(np.where(inactive, shorter, theta), *problem.table.theta_bounds.T)
