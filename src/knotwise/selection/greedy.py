"""Baselines that choose rows without a look at the targets: greedy variance and k-means."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from knotwise.evidence import Rows
from knotwise.selection.base import Selection, Selector
from knotwise.selection.fixed import Fixed
from knotwise.selection.places import Pivots
from knotwise.selection.problem import Problem
from knotwise.selection.proposals import check_at_least, distinct_row_numbers
from knotwise.selection.starts import starting_theta
from knotwise.selection.trace import Action


@dataclass
class GreedyVariance(Selector):
    """Take the rows with the largest variance given those taken before (pivoted Cholesky), and hold them.

    Parameters
    ----------
    n_knots : int, default 50
        Number of knots; fewer where further rows are determined by those taken.
    weighted : bool, default False
        Weigh the variance by the precision of each row's observation.
    rounds : int, default 1
        Choose so many times, each time at the parameters optimised with the knots before.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise import GPRegressor
    >>> from knotwise.knots import GreedyVariance
    >>> X = np.linspace(0, 1, 24)[:, None]
    >>> gp = GPRegressor(knots=GreedyVariance(n_knots=5), random_state=0).fit(X, np.sin(6 * X[:, 0]))
    >>> bool(np.isin(gp.knots_.round(9), X.round(9)).all())  # each is a row
    True
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
        """Take knots among these rows, at fixed parameters.

        Costs O(n K^2) time for n rows and K knots.

        Parameters
        ----------
        problem : Problem
            Whose model it is.
        theta : array [P]
            Parameters in the engine's units.
        rows : Rows
            The rows to choose from.
        n_knots : int
            How many to choose.

        Returns
        -------
        array [K, D]
            The rows taken, first those of the largest variance.

        Examples
        --------
        >>> import numpy as np
        >>> from knotwise import GPRegressor
        >>> from knotwise.knots import GreedyVariance
        >>> class Choose:
        ...     def select(self, problem, rng):
        ...         theta = problem.table.theta
        ...         Z = GreedyVariance().choose(problem, theta, problem.rows, 4)
        ...         return problem.selection(problem.optimize(theta, Z, rng), "chosen at the start")
        >>> X = np.linspace(0, 1, 24)[:, None]
        >>> GPRegressor(knots=Choose(), random_state=0).fit(X, np.sin(6 * X[:, 0])).n_knots_
        4
        """
        kernel, X = problem.model.with_theta(theta).kernel, rows.X
        Z = X[Pivots(kernel, X).extend(n_knots)]
        if not self.weighted:
            return Z
        # precisions need the latent function, for which the knots without weights are good enough
        W = problem.row_scores(problem.point(theta, Z), rows).W
        return X[Pivots(kernel, X, W).extend(n_knots)]


@dataclass
class KMeans(Selector):
    """Hold the knots at the centres of k-means clusters of the inputs.

    Parameters
    ----------
    n_knots : int, default 50
        Number of knots; fewer where there are fewer distinct rows.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise import GPRegressor
    >>> from knotwise.knots import KMeans
    >>> X = np.linspace(0, 1, 24)[:, None]
    >>> GPRegressor(knots=KMeans(n_knots=5), random_state=0).fit(X, np.sin(6 * X[:, 0])).n_knots_
    5
    """

    n_knots: int = 50

    def __post_init__(self) -> None:
        check_at_least(self.n_knots, "n_knots", 1)

    def select(self, problem: Problem, rng: np.random.Generator) -> Selection:
        return Fixed("kmeans", self.n_knots).select(problem, rng)
