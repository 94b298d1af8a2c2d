"""Copies of rows: measurements that agree to the last digit say that there is no noise, and so do copies."""

from __future__ import annotations

import numpy as np

from knotwise.knots.problem import Problem

__all__ = ["said_of_copies"]


def said_of_copies(problem: Problem, theta: np.ndarray) -> str:
    """What a fit has to say where rows count more than once and its noise ended at the least that is allowed.

    The evidence of n rows, m times each, grows by n (m - 1) / 2 nats with each e-fold of less noise, whatever the
    inputs say. It is right if they were measured m times, and nonsense if they were copied; only the user knows.
    """
    weights = problem.rows.weights
    if weights is None or not (weights > 1).any():
        return ""
    noise = problem.model.likelihood.noise  # +1 where more of a parameter is more noise, -1 where it is less
    for name, at, (low, high), held in zip(
        problem.table.names, theta, problem.table.theta_bounds, problem.table.fixed, strict=True
    ):
        way = 0 if held else noise.get(name, 0)
        if (way > 0 and at <= low + 1e-6) or (way < 0 and at >= high - 1e-6):
            return (
                f"; {name} is at its bound, and {(weights > 1).sum()} of {len(weights)} different rows count more than "
                "once, which says that there is no noise: drop them if they are copies"
            )
    return ""
