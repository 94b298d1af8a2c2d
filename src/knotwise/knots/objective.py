"""What optimisers see: one number and its gradient as a function of the free parameters and the knots that move."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from knotwise.errors import KnotwiseError
from knotwise.evidence import Point

if TYPE_CHECKING:
    from knotwise.knots.problem import Problem

__all__ = ["Objective"]


@dataclass(frozen=True)
class Objective:
    """The log evidence plus the log prior of the parameters, seen from a point at which an optimisation starts.

    The *evidence* is what users and tests of signal see; priors of the parameters are for optimisers only. `move` is a
    mask of the knots that move; the jitter stays as it is.
    """

    problem: Problem
    start: Point
    move: np.ndarray

    @property
    def vector(self) -> np.ndarray:
        """The start as a flat vector: free parameters, then knots that move."""
        return np.concatenate([self.start.theta[self.problem.free], self.start.Z[self.move].ravel()])

    @property
    def bounds(self) -> np.ndarray:
        """Lower and upper bounds of the vector, [n, 2]."""
        knots = np.tile(self.problem.box, (int(self.move.sum()), 1))
        return np.vstack([self.problem.table.theta_bounds[self.problem.free], knots])

    def point(self, vector: np.ndarray) -> Point:
        """Where a vector is."""
        theta, Z, free = self.start.theta.copy(), self.start.Z.copy(), self.problem.free
        n_free = int(free.sum())
        theta[free] = vector[:n_free]
        Z[self.move] = vector[n_free:].reshape(-1, Z.shape[1])
        return Point(theta, Z, self.start.jitter)

    def __call__(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and gradient; a point at which the inference does not arrive has none."""
        point = self.point(vector)
        evidence = self.problem.evaluate(point)
        if not evidence.converged:
            raise KnotwiseError(f"No value here: {evidence.why}.")
        assert evidence.gradient is not None
        prior, prior_gradient = self.problem.table.log_prior(point.theta)
        value = evidence.value + prior
        gradient = (evidence.gradient + prior_gradient)[self.problem.free]
        if not self.move.any():
            return value, gradient
        assert evidence.knot_gradient is not None
        return value, np.concatenate([gradient, evidence.knot_gradient[self.move].ravel()])

    def value(self, point: Point) -> float:
        """The objective at a point, without gradient."""
        return self.problem.evaluate(point, gradient=False).value + self.problem.table.log_prior(point.theta)[0]
