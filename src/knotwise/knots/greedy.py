"""Baselines that choose rows without a look at the targets: greedy variance and k-means."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from knotwise.evidence import Rows
from knotwise.knots.actions import Action
from knotwise.knots.fixed import Fixed
from knotwise.knots.pivots import Pivots
from knotwise.knots.problem import Problem
from knotwise.knots.proposals import check_at_least, distinct_row_numbers
from knotwise.knots.selection import Selection
from knotwise.knots.start import starting_theta

__all__ = ["GreedyVariance", "KMeans"]


@dataclass
class GreedyVariance:
    """Take the rows with the largest variance given those taken before (pivoted Cholesky), and hold them.

    Parameters
    ----------
    n_knots : int
        Number of knots; fewer where further rows are determined by those taken.
    weighted : bool
        Weigh the variance by the precision of each row's observation.
    rounds : int
        Choose so many times, each time at the parameters optimised with the knots before.
    """

    n_knots: int = 50
    weighted: bool = False
    rounds: int = 1

    def __post_init__(self) -> None:
        check_at_least(self.n_knots, "n_knots", 1)
        check_at_least(self.rounds, "rounds", 1)

    def select(self, problem: Problem, rng: np.random.Generator) -> Selection:
        trace = problem.new_trace()
        n_knots = problem.sensible_number(self.n_knots)
        rows = problem.take(distinct_row_numbers(problem, rng))
        theta, failed = starting_theta(problem, rng), 0
        for _ in range(self.rounds):
            Z = self.choose(problem, theta, rows, n_knots)
            stage = problem.optimize(theta, Z, rng)
            theta, failed = stage.theta, failed + stage.failed_restarts
            trace.add(Action.CHOOSE, len(Z), problem.log_evidence(stage), theta=theta, note=stage.result.reason)
        few = "" if len(Z) == min(n_knots, len(rows)) else f", {self.n_knots} asked for: others add no variance"
        trace.stop_reason = f"{len(Z)} knots on rows of the largest conditional variance{few}; {stage.result.reason}"
        return problem.selection(stage, trace.stop_reason, trace, failed_restarts=failed)

    def choose(self, problem: Problem, theta: np.ndarray, rows: Rows, n_knots: int) -> np.ndarray:
        """Knots [K, D] among these rows, at fixed parameters. O(n K^2) for n rows."""
        kernel, X = problem.model.with_theta(theta).kernel, rows.X
        Z = X[Pivots(kernel, X).extend(n_knots)]
        if not self.weighted:
            return Z
        # precisions need the latent function, for which the knots without weights are good enough
        W = problem.row_scores(problem.point(theta, Z), rows).W
        return X[Pivots(kernel, X, W).extend(n_knots)]


@dataclass
class KMeans:
    """Hold the knots at the centres of k-means clusters of the inputs.

    Parameters
    ----------
    n_knots : int
        Number of knots; fewer where there are fewer distinct rows.
    """

    n_knots: int = 50

    def __post_init__(self) -> None:
        check_at_least(self.n_knots, "n_knots", 1)

    def select(self, problem: Problem, rng: np.random.Generator) -> Selection:
        return Fixed("kmeans", self.n_knots).select(problem, rng)
