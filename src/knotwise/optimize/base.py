"""The interface of optimisers: maximise a function within bounds, and say how it went."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from scipy.optimize import LbfgsInvHessProduct

from knotwise.errors import InvalidInputError, KnotwiseError, unknown_option
from knotwise.numerics.part import short_repr

#: maps parameters to (value, gradient)
Objective = Callable[[np.ndarray], tuple[float, np.ndarray]]


@dataclass(frozen=True)
class OptimizeResult:
    """How an optimisation ended.

    An optimiser that learns the curvature leaves its last `steps` and the `turns` of the gradient along them, so that
    `predicted_rise` can tell what another gradient there would bring.

    Attributes
    ----------
    value : float
        The largest objective that was seen.
    parameters : array [P]
        Where that was.
    evaluations : int
        How often the objective was computed.
    gradient_norm : float
        Largest entry of the gradient there, after projection on the bounds.
    converged : bool
        Whether a tolerance ended it, and not a limit.
    reason : str
        Why it ended, in words.
    history : array [evaluations]
        The objective of each evaluation, NaN for a failed one.
    steps : array [m, P] or None
        The last steps, if the optimiser learns curvature.
    turns : array [m, P] or None
        By how much the gradient turned along them, with the sign of a minimisation.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise.optimize import LBFGS
    >>> bounds = np.array([[-10.0, 10.0]])
    >>> result = LBFGS().maximize(lambda x: (-((x[0] - 2) ** 2), -2 * (x - 2)), np.zeros(1), bounds)
    >>> result.parameters.round(3).tolist(), result.converged
    ([2.0], True)
    >>> round(result.predicted_rise(np.array([0.2]), bounds), 3)  # 1/2 g^2 / curvature
    0.01
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
        """By how much an objective with another gradient at the end, and the curvature of this one, would rise.

        Parameters
        ----------
        gradient : array [P]
            The other gradient, at `parameters`.
        bounds : array [P, 2]
            Lower and upper bounds; what leads beyond them does not count.

        Returns
        -------
        float
            In the units of the objective; infinite where the curvature is not known.
        """
        if self.steps is None or self.turns is None or not len(self.steps):
            return np.inf
        inside = np.clip(self.parameters + gradient, bounds[:, 0], bounds[:, 1]) != self.parameters
        held = np.where(inside, gradient, 0.0)
        return 0.5 * float(held @ LbfgsInvHessProduct(self.steps, self.turns).matvec(held))

    @property
    def information(self) -> np.ndarray | None:
        """The negative Hessian at the end as far as it was learned, [P, P]; None where it was not.

        Returns
        -------
        array [P, P] or None
            Positive definite; 1 along directions in which no step was made.
        """
        if self.steps is None or self.turns is None or not len(self.steps):
            return None
        try:
            found = np.linalg.inv(LbfgsInvHessProduct(self.steps, self.turns).todense())
            found = 0.5 * (found + found.T)
            np.linalg.cholesky(found)
        except np.linalg.LinAlgError:  # of steps that are all but nothing
            return None
        return found


class Optimizer(Protocol):
    """Anything that maximises a function within bounds; the `optimizer` of an estimator may be an object of one's own.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise.optimize import LBFGS, Optimizer
    >>> optimizer: Optimizer = LBFGS()
    >>> bounds = np.array([[-10.0, 10.0]])
    >>> end = optimizer.maximize(lambda x: (-((x[0] - 2) ** 2), -2 * (x - 2)), np.zeros(1), bounds)
    >>> end.parameters.round(3).tolist()
    [2.0]
    """

    def maximize(self, objective: Objective, start: np.ndarray, bounds: np.ndarray) -> OptimizeResult:
        """Maximise an objective from a start within bounds.

        Parameters
        ----------
        objective : function
            From parameters [P] to the value, a number, and the gradient [P]. It may raise or be NaN where it has none.
        start : array [P]
            Where to begin.
        bounds : array [P, 2]
            Lower and upper bounds.

        Returns
        -------
        OptimizeResult
            The best that was seen, why it ended, and the curvature if the optimiser learns it.
        """


class Trials:
    """Evaluates an objective safely: failed trials count as NaN, and the best trial is remembered."""

    def __init__(self, objective: Objective) -> None:
        self.objective = objective
        self.history: list[float] = []
        self.failure = "it is not finite"
        self.best_value = -np.inf
        self.best: tuple[np.ndarray, np.ndarray] | None = None

    def __call__(self, parameters: np.ndarray) -> tuple[float, np.ndarray] | None:
        """Value and gradient, or None where the objective cannot be computed or is not finite."""
        if len(self.history) == 1 and self.best is not None and np.array_equal(parameters, self.best[0]):
            return self.best_value, self.best[1]  # an optimiser asks again for the start that was just checked
        try:
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                value, gradient = self.objective(parameters)
        except (KnotwiseError, ArithmeticError) as error:
            value, gradient = np.nan, np.empty(0)
            self.failure = str(error).rstrip(".") or self.failure
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
                f"The objective cannot be computed at the start of the optimisation: {self.failure}. "
                "Start from other parameters.",
                why=self.failure,
            )
        parameters, gradient = self.best
        norm, history = projected_norm(parameters, gradient, bounds), np.array(self.history)
        return OptimizeResult(self.best_value, parameters, len(history), norm, converged, reason, history)


def projected_norm(parameters: np.ndarray, gradient: np.ndarray, bounds: np.ndarray) -> float:
    """Largest step that the gradient asks for and the bounds allow (0 at a constrained maximum)."""
    step = np.clip(parameters + gradient, bounds[:, 0], bounds[:, 1]) - parameters
    return float(np.abs(step).max(initial=0.0))


class OptimizerSettings(Optimizer):
    """Shows an optimiser's settings, and lets scikit-learn copy it."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The settings by name, as scikit-learn asks for them.

        Parameters
        ----------
        deep : bool, default True
            For scikit-learn; settings have no settings of their own.

        Returns
        -------
        dict
            Arguments of the constructor with their values.

        Examples
        --------
        >>> from knotwise.optimize import LBFGS
        >>> LBFGS(memory=20).get_params()["memory"]
        20
        """
        return dict(vars(self))

    def set_params(self, **params: Any) -> OptimizerSettings:
        """Change settings by name, in place.

        Parameters
        ----------
        **params : dict
            Arguments of the constructor with their new values; an unknown name is an error.

        Returns
        -------
        OptimizerSettings
            The optimiser itself.

        Examples
        --------
        >>> from knotwise.optimize import LBFGS
        >>> LBFGS().set_params(memory=20).memory
        20
        """
        for name, value in params.items():
            if name not in vars(self):
                raise unknown_option(f"A setting of {type(self).__name__}", name, vars(self))
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={short_repr(v)}' for k, v in vars(self).items())})"
