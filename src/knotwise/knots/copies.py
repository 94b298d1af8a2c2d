"""Copies of rows: measurements that agree to the last digit say that there is no noise, and so do copies."""

from __future__ import annotations

import numpy as np

from knotwise.knots.problem import Problem

__all__ = ["describe_copies"]


def describe_copies(problem: Problem, theta: np.ndarray) -> str:
    """Words for the reason of a stop, where rows count more than once and the noise ended at its least; else nothing.

    The evidence of n rows, m times each, grows by n (m - 1) / 2 nats with each e-fold of less noise, whatever the
    inputs say. It is right if they were measured m times, and nonsense if they were copied; only the user knows.
    """
    rows = problem.summary
    if not rows.n_repeated:
        return ""
    table, towards_noise = problem.table, np.where(problem.free, problem.model.noise_directions, 0)
    for name, sign, at, (low, high) in zip(table.names, towards_noise, theta, table.theta_bounds, strict=True):
        if (sign > 0 and at <= low + 1e-6) or (sign < 0 and at >= high - 1e-6):
            return (
                f"; {name} is at its bound, and {rows.n_repeated} of {rows.n_rows} different rows count more than "
                "once, which says that there is no noise: drop them if they are copies"
            )
    return ""
