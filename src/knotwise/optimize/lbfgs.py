"""L-BFGS-B: quasi-Newton with bounds, the default."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import minimize

from knotwise.optimize.base import Objective, OptimizeResult, OptimizerSettings, Trials

EVALUATIONS_PER_ITERATION = 3
#: gradient, relative to the value, that rounding leaves where a line search fails. Without noise the log evidence of 30
#: rows is known to 1e-5 only, and which BLAS computes it decides where a search ends. Curvature grows with the rows as
#: the value does, so such a gradient promises less than a millionth of it
ROUNDING = 1e-3


class LBFGS(OptimizerSettings):
    """SciPy's L-BFGS-B, with trials that may fail.

    A failed trial (no Cholesky factor, NaN) is reported to the line search as "no better than where we are, and
    flat": its interpolation then shortens the step to between a third and a half, and goes on.

    Parameters
    ----------
    max_iterations : int, default 1000
        Limit of iterations, and a third of the limit of evaluations; reaching either is not convergence.
    value_tolerance : float, default 1e-08
        Stop when an iteration gains less than this share of the objective.
    gradient_tolerance : float, default 0.0001
        Stop when the projected gradient's largest entry is below this.
    memory : int, default 50
        Number of steps from which curvature is learned.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise import GPRegressor
    >>> from knotwise.optimize import LBFGS
    >>> X = np.linspace(0, 1, 24)[:, None]
    >>> y = np.sin(6 * X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=24)
    >>> gp = GPRegressor(knots=5, optimizer=LBFGS(gradient_tolerance=1e-3), random_state=0).fit(X, y)
    >>> gp.converged_
    True
    """

    def __init__(
        self,
        max_iterations: int = 1000,
        value_tolerance: float = 1e-8,
        gradient_tolerance: float = 1e-4,
        memory: int = 50,
    ) -> None:
        self.max_iterations = max_iterations
        self.value_tolerance = value_tolerance
        self.gradient_tolerance = gradient_tolerance
        self.memory = memory

    @property
    def max_evaluations(self) -> int:
        """Limit of evaluations: a line search that needs more than three for each iteration leads nowhere."""
        return EVALUATIONS_PER_ITERATION * self.max_iterations

    def maximize(self, objective: Objective, start: np.ndarray, bounds: np.ndarray) -> OptimizeResult:
        trials = Trials(objective)
        start = np.clip(start, bounds[:, 0], bounds[:, 1])
        first = trials(start)
        if first is None or (bounds[:, 0] == bounds[:, 1]).all():
            return trials.result(bounds, True, "nothing to optimise")
        iterate = first[0]

        def accept(intermediate_result: Any) -> None:
            nonlocal iterate
            iterate = -float(intermediate_result.fun)

        def negated(parameters: np.ndarray) -> tuple[float, np.ndarray]:
            trial = trials(parameters)
            if trial is None:
                return -iterate + abs(iterate) * 1e-12 + 1e-300, np.zeros_like(parameters)
            value, gradient = trial
            return -value, -gradient

        end = minimize(
            negated,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            callback=accept,
            options={
                "maxiter": self.max_iterations,
                "maxfun": self.max_evaluations,
                "ftol": self.value_tolerance,
                "gtol": self.gradient_tolerance,
                "maxcor": self.memory,
            },
        )
        result = trials.result(bounds, bool(end.success), self._reason(end))
        result = replace(result, steps=end.hess_inv.sk, turns=end.hess_inv.yk)
        if not end.success and end.status == 2 and result.gradient_norm < ROUNDING * max(1.0, abs(result.value)):
            # the line search found nothing better because nothing better can be told from rounding
            return replace(result, converged=True, reason="no progress beyond rounding")
        return result

    def _reason(self, end: Any) -> str:
        """Why SciPy stopped, in words."""
        if end.status == 1 and end.nit < self.max_iterations:
            return (
                f"reached the limit of {self.max_evaluations} evaluations, {EVALUATIONS_PER_ITERATION} for each of "
                f"`max_iterations`, in iteration {end.nit + 1}"
            )
        if end.status == 1:
            return f"reached the limit of {self.max_iterations} iterations"
        if end.status == 2:
            return "no better point along the last direction"
        by_gradient = "gradient" in str(end.message).lower()
        return f"the {'gradient' if by_gradient else 'gain of an iteration'} fell below its tolerance"
