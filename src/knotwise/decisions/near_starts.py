"""Where parameters with neighbours are looked for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from knotwise.kernels.describe import describe_kernel
from knotwise.kernels.stationary import Matern32, Matern52
from knotwise.selection.problem import Problem
from knotwise.selection.starts import log_spread, spread_out

__all__ = ["near_starts", "starts_of_kernel"]

LONGEST = (1.0, 8.0)  # length-scales of two starts at most, in spreads of the columns: none is taken for irrelevant yet
VANISHED = 0.1  # of where it begins, below which an amplitude or a nugget would need many turns to come back


def near_starts(problem: Problem, theta: np.ndarray) -> Iterable[tuple[Problem, np.ndarray]]:
    """Where parameters are looked for: with the kernel and, where it is to be chosen, with rough ones per column.

    Length-scales start not too long for a column to matter: of few rows most columns seem not to.
    """
    yield from ((problem, start) for start in starts_of_kernel(problem, theta))
    if problem.with_kernel is None or problem.optimizer is None:
        return
    own = describe_kernel(problem.model.kernel)
    for kind in (Matern32, Matern52):
        other = replace(
            problem.with_kernel(kind(ard=len(problem.varying_variances) > 1)),
            run=problem.run,
            found=problem.found,
            earlier=problem.earlier,
            with_kernel=problem.with_kernel,
        )
        if describe_kernel(other.model.kernel) != own:
            yield other, _not_too_long(other, spread_out(theta, problem, other))[0]


def _not_too_long(problem: Problem, theta: np.ndarray) -> list[np.ndarray]:
    """Parameters with length-scales of at most so many spreads of the columns, shortest first."""
    if problem.optimizer is None:
        return [theta]
    spread = log_spread(problem)
    movable = problem.table.with_role("lengthscale") & problem.free & ~problem.given
    low, high = problem.table.theta_bounds.T
    starts = [np.clip(np.where(movable, np.minimum(theta, np.log(f) + spread), theta), low, high) for f in LONGEST]
    return starts[:1] if np.array_equal(starts[0], starts[1]) else starts


def starts_of_kernel(problem: Problem, theta: np.ndarray) -> list[np.ndarray]:
    """Those of the problem's own kernel.

    One more is for data that are not Gaussian, where the amplitude or the nugget has all but vanished: sites that were
    found without them ask for little more.
    """
    starts = _not_too_long(problem, theta)
    if problem.optimizer is None or problem.model.likelihood.conjugate:
        return starts
    table = problem.table
    movable = (table.with_role("amplitude") | table.of_part("nugget")) & problem.free & ~problem.given
    vanished = movable & (theta < table.theta + np.log(VANISHED))
    if vanished.any():
        starts.append(_not_too_long(problem, np.where(vanished, table.theta, theta))[0])
    return starts
