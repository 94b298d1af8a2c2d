"""Knots that stay where they are; only the parameters are optimised."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from knotwise.knots.initial import Initial
from knotwise.knots.problem import Problem
from knotwise.knots.selection import Selection, Selector
from knotwise.knots.start import starting_theta, with_its_nugget

__all__ = ["Fixed", "select_exact"]


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


def select_exact(problem: Problem, rng: np.random.Generator) -> Selection:
    """Fit the exact GP, which has no knots to select."""
    stage = problem.optimize(starting_theta(problem, rng), np.empty((0, problem.summary.n_columns)), rng)
    stage = with_its_nugget(problem, stage, rng)
    reason = f"exact GP; {stage.result.reason}"
    return problem.selection(stage, reason)
