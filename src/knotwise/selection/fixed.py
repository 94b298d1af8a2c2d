"""A given number of knots: held where they are, or optimised together with the parameters; and the exact GP."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from knotwise.errors import KnotwiseError
from knotwise.selection.base import Selection, Selector
from knotwise.selection.initial import Initial
from knotwise.selection.problem import Problem
from knotwise.selection.starts import starting_theta, with_its_nugget

NEGLIGIBLE_LOSS = 0.01  # nats of evidence below which redundant knots are dropped


@dataclass
class Fixed(Selector):
    """Hold the knots, and optimise the parameters.

    Parameters
    ----------
    initial : array [K, D], name or function, default "kmeans"
        The knots, or how to place them: "grid", "random", "kmeans", "kmeans-per-class". An array is in the units
        of the inputs, and is used exactly as given.
    n_knots : int, default 50
        Number of knots, where `initial` is not an array.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise import GPRegressor
    >>> from knotwise.knots import Fixed
    >>> X = np.linspace(0, 1, 24)[:, None]
    >>> gp = GPRegressor(knots=Fixed("grid", n_knots=5)).fit(X, np.sin(6 * X[:, 0]))
    >>> gp.knots_.ravel().round(2).tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """

    initial: Initial = "kmeans"
    n_knots: int = 50

    def select(self, problem: Problem, rng: np.random.Generator) -> Selection:
        n_knots = problem.sensible_number(self.n_knots) if isinstance(self.initial, str) else self.n_knots
        Z = problem.initial_knots(self.initial, n_knots, rng)
        stage = problem.optimize(starting_theta(problem, rng), Z, rng)
        reason = f"{len(Z)} knots held where they were placed; {stage.result.reason}"
        given = None if isinstance(self.initial, str) or callable(self.initial) else np.array(self.initial, float)
        return problem.selection(stage, reason, knots_as_given=given)


@dataclass
class Simultaneous(Selector):
    """Optimise a given number of knots together with the parameters (the paper's "simultaneous").

    Parameters
    ----------
    n_knots : int, default 50
        Number of knots. Fewer are used, with a warning, where there are fewer distinct rows or where so many would
        cost more than the exact GP; and fewer where some end up so close to others that they serve no function.
    initial : name, array [K, D] or function, default "kmeans"
        Where the knots start: "kmeans", "grid", "random", "kmeans-per-class", or an array in the units of the inputs.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise import GPRegressor
    >>> from knotwise.knots import Simultaneous
    >>> X = np.linspace(0, 1, 24)[:, None]
    >>> gp = GPRegressor(knots=Simultaneous(n_knots=5, initial="grid"), random_state=0).fit(X, np.sin(6 * X[:, 0]))
    >>> gp.n_knots_
    5
    """

    n_knots: int = 50
    initial: Initial = "kmeans"

    def select(self, problem: Problem, rng: np.random.Generator) -> Selection:
        named = isinstance(self.initial, str)
        n_knots = problem.sensible_number(self.n_knots) if named else self.n_knots
        Z = problem.initial_knots(self.initial, n_knots, rng)
        # so many knots leave nothing to gain from moving them
        move = None if n_knots < self.n_knots else np.ones(len(Z), bool)
        stage = problem.optimize(starting_theta(problem, rng), Z, rng, move=move)
        how = "held where they were placed" if move is None else "optimised together with the parameters"
        notes = [f"{len(Z)} knots {how}; {stage.result.reason}"]
        if named and len(Z) < self.n_knots:
            cut = "and cut to {}" if n_knots < self.n_knots else "{} could be placed"  # on a grid
            notes.append(f"{self.n_knots} knots were asked for, {cut.format(len(Z))}")
        drop = problem.redundant(stage.theta, stage.Z)
        if drop.any() and not drop.all():
            kept = problem.point(stage.theta, stage.Z[~drop])
            value = problem.evaluate(kept, gradient=False).value + problem.table.log_prior(kept.theta)[0]
            if value > stage.value - NEGLIGIBLE_LOSS:
                notes.append(f"{drop.sum()} knots that the others determine were dropped")
                stage = replace(stage, point=kept, result=replace(stage.result, value=value))
        return problem.selection(stage, "; ".join(notes))


def select_exact(problem: Problem, rng: np.random.Generator) -> Selection:
    """Fit the exact GP, which has no knots to select."""
    stage = problem.optimize(starting_theta(problem, rng), np.empty((0, problem.summary.n_columns)), rng)
    stage = with_its_nugget(problem, stage, rng)
    reason = f"exact GP; {stage.result.reason}"
    return problem.selection(stage, reason)


def with_noise_as_given(problem: Problem, selection: Selection, rng: np.random.Generator) -> Selection | None:
    """The exact GP with known noise as it was given, below the floor with which a selection has found it.

    Parameters go on from those at the floor, so that the search begins where the matrix of the rows has a factor, if it
    has any there: with next to no noise it may have one only at parameters by which rows tell nothing of each other.
    None where it has none.
    """
    if problem.rows.given_noise is None:  # all that is below the floor is 0, which takes the floor in any case
        return selection
    blocks = problem.run.blocks.as_given()
    exact = replace(problem, full=True, n_restarts=0, run=replace(problem.run, blocks=blocks))
    trace = selection.trace
    try:
        stage = exact.optimize(selection.theta, selection.Z, rng)
        found = exact.selection(stage, selection.reason, trace, failed_restarts=selection.failed_restarts)
    except KnotwiseError:
        return None
    value, theta = found.evidence.value, stage.theta
    trace.add("parameters", 0, value, theta=theta, note="exact GP, with known noise as it was given")
    return replace(selection, point=found.point, evidence=found.evidence, result=found.result, problem=exact)
