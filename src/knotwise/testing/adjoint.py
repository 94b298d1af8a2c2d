"""A gradient against differences of its value."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

__all__ = ["assert_adjoint"]

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
