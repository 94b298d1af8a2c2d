"""Does a column really not matter? A length-scale that few rows have made long does not come back by itself.

The evidence has an end for nearly every choice of columns that matter, and much noise, or few rows at the start, may
lead to one without a column that does: where its length-scale is long, the gradient along it is next to nothing. So
where parameters are settled with such columns, they are looked for once more from shorter length-scales of these.
"""

from __future__ import annotations

import numpy as np

from knotwise.decisions.hyperparameters import FIRST_EXACT_ROWS, Settled
from knotwise.decisions.lack_of_fit import FewRows
from knotwise.evidence import Rows
from knotwise.selection.problem import Problem
from knotwise.selection.starts import log_spread
from knotwise.selection.trace import KnotTrace

__all__ = ["WAKING_GAIN", "wake"]

ASLEEP, AWAKE = 10.0, 2.0  # length-scales in spreads of the columns: too long to matter, and where one may matter
WAKING_GAIN = 3.0  # nats that shorter length-scales must bring: a column that matters is one more to be wrong about


def wake(
    problem: Problem, pool: Rows, settled: Settled, rng: np.random.Generator, trace: KnotTrace
) -> np.ndarray | None:
    """Parameters from which to look again, with shorter length-scales where they are too long for a column to matter.

    None where every column matters, or where 1,000 rows tell that those others do not: of more rows than that, the
    exact GP is first asked on some.
    """
    start = _awake(problem, settled.theta)
    if start is None:
        return None
    what = "some columns seem not to matter"
    if not settled.exact or problem.summary.n_rows <= 1.5 * FIRST_EXACT_ROWS:
        value = problem.log_evidence(settled.stage)
        trace.add("wake", len(settled.Z), value, note=f"{what}; once more, from shorter length-scales")
        return start
    some = FewRows.of(problem, pool, rng.permutation(len(pool))[:FIRST_EXACT_ROWS], rng)
    best = some.fit([start])
    matter = best is not None and best.value > some.value(settled.theta) + WAKING_GAIN
    note = f"{what}; {some.rows.count} rows say that they {'do' if matter else 'do not'}"
    trace.add("wake", 0, np.nan if best is None else best.value, n_rows=some.rows.count, note=note)
    return best.theta if best is not None and matter else None


def _awake(problem: Problem, theta: np.ndarray) -> np.ndarray | None:
    """Parameters with every column awake; None if they are.

    Each of m columns gets a length-scale of 2 sqrt(m) spreads: together they part rows as one column would.
    """
    movable = problem.table.with_role("lengthscale") & problem.free & ~problem.given
    spread = log_spread(problem)
    asleep = movable & (theta > np.log(ASLEEP) + spread)
    if not asleep.any() or movable.sum() < 2:
        return None
    shorter = min(np.log(AWAKE) + 0.5 * np.log(asleep.sum()), np.log(ASLEEP)) + spread
    low, high = problem.table.theta_bounds.T
    return np.clip(np.where(asleep, shorter, theta), low, high)
