"""What the conformance checks share: claims that say whose they are, gradients, and the parameters of a part."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any, NoReturn

import numpy as np

from knotwise.numerics.part import Part


def fail(owner: object, what: str) -> NoReturn:
    """Say which clause is broken, and by whom."""
    raise AssertionError(f"{owner!r}: {what}.")


def same(owner: object, claim: str, actual: object, expected: object, *, rtol: float = 1e-12, atol: Any = 0.0) -> None:
    """Assert a claim that two arrays are equal."""
    a, b = np.asarray(actual, float), np.asarray(expected, float)
    if a.shape != b.shape:
        fail(owner, f"{claim}: shapes {a.shape} and {b.shape}")
    with np.errstate(invalid="ignore"):
        wrong = ~np.isclose(a, b, rtol=rtol, atol=atol)
    if wrong.any():
        fail(owner, f"{claim}: {a[wrong][0]:.10g} and {b[wrong][0]:.10g} in {wrong.sum()} of {wrong.size} entries")


def check_parameters(part: Part, roles: Sequence[str]) -> None:
    """Theta, constructor arguments and pickling describe a part completely.

    Each parameter is declared once, is an argument of the constructor, and has a role that such a part can have.
    """
    arguments, names = signature(type(part)).parameters, [p.name for p in part.parameters]
    for p in part.parameters:
        if names.count(p.name) > 1:
            fail(part, f"`parameters` has `{p.name}` twice")
        if p.name not in arguments:
            fail(part, f"`{p.name}` is in `parameters`, but is no argument of the constructor: {', '.join(arguments)}")
        if p.role not in roles:
            fail(part, f"`{p.name}` has the role {p.role!r}, but can only have {', '.join(map(repr, roles))}")
    theta = part.theta
    if not (theta.shape == (part.size,) and len(part.names) == part.size and np.isfinite(theta).all()):
        fail(part, f"theta {theta} must be finite, with the {part.size} entries of `names` {part.names}")
    moved = theta + np.linspace(0.1, 0.2, len(theta))
    same(part, "`with_theta(theta)` has this theta", part.with_theta(moved).theta, moved)
    same(part, "`with_theta` leaves the part itself alone", part.theta, theta, rtol=0)
    for copied, how in [
        (copy.deepcopy(part).set_params(**part.get_params()), "set_params(**get_params())"),
        (type(part)(**part.get_params(deep=False)), "the constructor with get_params(deep=False)"),
        (pickle.loads(pickle.dumps(part)), "pickling"),
    ]:
        if type(copied) is not type(part) or copied.names != part.names:
            fail(part, f"{how} gives {copied!r}")
        same(part, f"{how} keeps theta", copied.theta, theta, rtol=0)


EPS = float(np.finfo(float).eps)
STEP = EPS ** (1 / 3)  # balances the truncation and the rounding of a central difference


def assert_adjoint(
    value_and_gradient: Callable[[np.ndarray], tuple[float, np.ndarray]],
    at: np.ndarray,
    rng: np.random.Generator,
    rtol: float = 1e-6,
    n_directions: int = 3,
) -> None:
    """Assert that a gradient is the derivative of its value, by central differences in random directions.

    A direction moves each coordinate by up to STEP max(1, |coordinate|). The error allowed is `rtol` of the size that
    the product of the gradient with such a direction typically has, and what the rounding of the value explains.

    Parameters
    ----------
    value_and_gradient : function
        From an array of the shape of `at` to a number and an array of that shape.
    at : array
        Where the gradient is tested.
    rng : Generator
        For the directions.
    rtol : float, default 1e-06
        Relative error allowed.
    n_directions : int, default 3
        How many directions are tried.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise.testing import assert_adjoint
    >>> assert_adjoint(lambda x: (float(x @ x), 2 * x), np.array([1.0, 2.0]), np.random.default_rng(0))
    """
    at = np.asarray(at, float)
    value, gradient = value_and_gradient(at)
    gradient = np.asarray(gradient, float)
    if gradient.shape != at.shape:
        raise AssertionError(f"The gradient has shape {gradient.shape}, but the point has shape {at.shape}.")
    if not (np.isfinite(value) and np.isfinite(gradient).all()):
        raise AssertionError(f"The value {value} or an entry of the gradient is not finite: {gradient}.")
    if at.size == 0:
        return
    for i in range(n_directions):
        direction = rng.standard_normal(at.shape)
        direction *= np.maximum(1.0, np.abs(at)) / np.abs(direction).max()
        above = value_and_gradient(at + STEP * direction)[0]
        below = value_and_gradient(at - STEP * direction)[0]
        numerical = (above - below) / (2 * STEP)
        analytic = float(np.vdot(gradient, direction))
        typical = float(np.linalg.norm(gradient * direction))  # the product itself may cancel to nearly 0
        allowed = rtol * typical + 20 * EPS * max(abs(above), abs(below)) / STEP
        if not abs(numerical - analytic) <= allowed:  # a NaN fails
            raise AssertionError(
                f"The gradient is not the derivative of the value. In direction {i} of {n_directions} differences "
                f"give {numerical:.10g}, but the gradient gives {analytic:.10g}: they differ by "
                f"{abs(numerical - analytic):.1e}, and {allowed:.1e} is allowed."
            )
