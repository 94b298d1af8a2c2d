"""The interface of optimisers: maximise a function within bounds, and say how it went."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from knotwise.errors import InvalidInputError, KnotwiseError, unknown_option
from knotwise.numerics.part import short_repr

__all__ = ["Objective", "OptimizeResult", "Optimizer", "Trials", "projected_norm"]

#: maps parameters to (value, gradient)
Objective = Callable[[np.ndarray], tuple[float, np.ndarray]]


@dataclass(frozen=True)
class OptimizeResult:
    """How an optimisation ended.

    `parameters` are the best seen and `value` the objective there (higher is better); `gradient_norm` is the
    largest entry of the gradient after projection on the bounds; `history` has the objective of each
    evaluation, NaN for a failed one. An optimiser that learns the curvature leaves its last `steps` [m, P] and the
    `turns` of the gradient along them, so that `predicted_rise` can tell what another gradient there would bring.
    """

    value: float
    parameters: np.ndarray
    evaluations: int
    gradient_norm: float
    converged: bool
    reason: str
    history: np.ndarray = field(repr=False)
    steps: np.ndarray | None = field(default=None, repr=False)
    turns: np.ndarray | None = field(default=None, repr=False)

    def predicted_rise(self, gradient: np.ndarray, bounds: np.ndarray) -> float:
        """By how much an objective with this gradient [P] at the end, and the curvature of this one, would rise.

        Infinite where the curvature is not known.
        """
        if self.steps is None or self.turns is None or not len(self.steps):
            return np.inf
        from scipy.optimize import LbfgsInvHessProduct

        inside = np.clip(self.parameters + gradient, bounds[:, 0], bounds[:, 1]) != self.parameters
        held = np.where(inside, gradient, 0.0)
        return 0.5 * float(held @ LbfgsInvHessProduct(self.steps, self.turns).matvec(held))


class Optimizer(Protocol):
    """Anything that maximises."""

    def maximize(self, objective: Objective, start: np.ndarray, bounds: np.ndarray) -> OptimizeResult:
        """Maximise the objective from `start` [P] within `bounds` [P, 2]."""
        ...


class Trials:
    """Evaluates an objective safely: failed trials count as NaN, and the best trial is remembered."""

    def __init__(self, objective: Objective) -> None:
        self.objective = objective
        self.history: list[float] = []
        self.best_value = -np.inf
        self.best: tuple[np.ndarray, np.ndarray] | None = None

    def __call__(self, parameters: np.ndarray) -> tuple[float, np.ndarray] | None:
        """Value and gradient, or None where the objective cannot be computed or is not finite."""
        if len(self.history) == 1 and self.best is not None and np.array_equal(parameters, self.best[0]):
            return self.best_value, self.best[1]  # an optimiser asks again for the start that was just checked
        try:
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                value, gradient = self.objective(parameters)
        except (KnotwiseError, ArithmeticError):
            value, gradient = np.nan, np.empty(0)
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            self.history.append(np.nan)
            return None
        self.history.append(value)
        if value > self.best_value:
            self.best_value, self.best = value, (np.array(parameters), np.array(gradient))
        return value, gradient

    def result(self, bounds: np.ndarray, converged: bool, reason: str) -> OptimizeResult:
        """The result at the best trial."""
        if self.best is None:
            raise InvalidInputError(
                "The evidence is not finite at the start of the optimisation. Start from other parameters, "
                "or leave them None to take them from the data."
            )
        parameters, gradient = self.best
        return OptimizeResult(
            self.best_value,
            parameters,
            len(self.history),
            projected_norm(parameters, gradient, bounds),
            converged,
            reason,
            np.array(self.history),
        )


def projected_norm(parameters: np.ndarray, gradient: np.ndarray, bounds: np.ndarray) -> float:
    """Largest step that the gradient asks for and the bounds allow (0 at a constrained maximum)."""
    step = np.clip(parameters + gradient, bounds[:, 0], bounds[:, 1]) - parameters
    return float(np.abs(step).max(initial=0.0))


class OptimizerSettings:
    """Shows an optimiser's settings, and lets scikit-learn copy it."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return dict(vars(self))

    def set_params(self, **params: Any) -> OptimizerSettings:
        for name, value in params.items():
            if name not in vars(self):
                raise unknown_option(f"A setting of {type(self).__name__}", name, vars(self))
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={short_repr(v)}' for k, v in vars(self).items())})"
