"""The `optimizer` option of an estimator: which optimisers have a name, and what to do where one stopped early."""

from __future__ import annotations

from typing import Any

from knotwise.errors import InvalidInputError, unknown_option
from knotwise.optimize.adadelta import Adadelta
from knotwise.optimize.base import Optimizer, OptimizeResult
from knotwise.optimize.lbfgs import LBFGS

__all__ = ["advice_for_early_stop", "optimizer_from"]


def optimizer_from(given: Any) -> Optimizer | None:
    """Turn the `optimizer` option of an estimator into an optimiser; None keeps every parameter."""
    if isinstance(given, type):
        raise InvalidInputError(f"`optimizer` is the class {given.__name__}; give an object, `{given.__name__}()`.")
    if given is None or hasattr(given, "maximize"):
        return given
    names = {"lbfgs": LBFGS, "adadelta": Adadelta}
    if not isinstance(given, str) or given not in names:
        raise unknown_option("`optimizer`", given, names)
    return names[given]()


def advice_for_early_stop(result: OptimizeResult, optimizer: Any) -> str:
    """What to do about an optimisation that did not converge: raise the limit that it reached, or start elsewhere."""
    if not result.reason.startswith("reached"):
        return "Try `n_restarts=2`, or start from other parameters."
    return (
        f"To go further, raise `{type(optimizer_from(optimizer)).__name__}(max_iterations=...)`, or try `n_restarts=2`."
    )
