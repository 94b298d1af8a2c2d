"""Are there enough knots for gaps of the rows, and beyond them? Validation rows say.

Knots are placed until they explain nearly all at the rows. What is predicted in a gap asks for more of what the rows
around it say, and a smooth function, of which few knots explain all at the rows, shows it most.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from knotwise.decisions.neighbour_trial import NearTrial
from knotwise.decisions.thresholds import HYPERPARAMETERS, NEIGHBOURS, PLACEMENT
from knotwise.selection.base import Decision
from knotwise.selection.places import Pivots
from knotwise.selection.problem import Problem
from knotwise.selection.trace import KnotTrace


def decide(
    problem: Problem, theta: np.ndarray, Z: np.ndarray, most: int, rng: np.random.Generator, trace: KnotTrace
) -> Decision[np.ndarray]:
    """The knots, with others on rows where twice as many predict validation rows better, as long as they do.

    The knots that are compared lie on rows that are not taken away, so that none is in a gap.
    """
    if problem.tried is not None:
        trial = replace(problem.tried[0], trace=trace)
    else:
        trial = NearTrial.near(problem, theta, rng, trace, most_rows=HYPERPARAMETERS.some_rows)
    trial = replace(trial, fitted=trial.fitted[np.sort(trial.all_scales)])
    kernel = problem.model.with_theta(theta).kernel
    pool = trial.fitted.X[np.sort(rng.permutation(len(trial.fitted))[: NEIGHBOURS.pool_rows])]
    order = pool[Pivots(kernel, pool).extend(min(most, len(pool)))]
    n_knots, gains = len(Z), 0.0
    before = trial.alone(problem, theta, order[:n_knots])
    while before is not None and n_knots < len(order):
        more = min(PLACEMENT.in_gaps * n_knots, len(order))
        density = trial.alone(problem, theta, order[:more])
        gain = np.nan if density is None else trial.labels.gain(density, before)[0]
        if not gain > NEIGHBOURS.more_knots_pay:
            break
        n_knots, before, gains = more, density, gains + gain
    if n_knots == len(Z):
        return Decision(Z, "more knots do not predict validation rows better", {"n_knots": n_knots})
    rows = problem.take(problem.sample(NEIGHBOURS.pool_rows, rng)).X
    new = rows[Pivots(kernel, rows, Z=Z).extend(n_knots - len(Z))]
    why = f"with {len(Z) + len(new)} knots validation rows have a log density that is {gains:.2f} higher"
    Z = np.vstack([Z, new])
    value = problem.evaluate(problem.point(theta, Z), gradient=False).value
    trace.add("gaps", len(Z), value, theta=theta, note=why)
    return Decision(Z, why, {"n_knots": len(Z), "gain": gains})
