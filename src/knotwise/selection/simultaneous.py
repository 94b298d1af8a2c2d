"""All knots and all parameters optimised together, for a given number of knots."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from knotwise.selection.base import Selection, Selector
from knotwise.selection.initial import Initial
from knotwise.selection.problem import Problem
from knotwise.selection.starts import starting_theta

__all__ = ["Simultaneous"]

NEGLIGIBLE_LOSS = 0.01  # nats of evidence below which redundant knots are dropped


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
