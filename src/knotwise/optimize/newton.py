"""Newton's method with a curvature that is known beforehand, for objectives of which each evaluation is dear."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from knotwise.optimize.base import Objective, OptimizeResult, OptimizerSettings, Trials

LEAST_RISE = 1e-4  # of what the gradient promises along a step that is taken
HALVINGS = 8


class KnownCurvature(OptimizerSettings):
    """Newton steps within bounds, with a curvature that each step corrects by the turn of the gradient (BFGS).

    With the right curvature it takes a few evaluations, where L-BFGS needs about a dozen to learn it.

    `information` [P, P] is the negative Hessian of the objective, or what is near it, positive definite. It stops when
    a step promises to raise the objective by less than `tolerance`; reaching `max_iterations` is not convergence. No
    parameter moves by more than `longest` in a step.
    """

    def __init__(
        self, information: np.ndarray, max_iterations: int = 20, tolerance: float = 0.05, longest: float = np.inf
    ) -> None:
        self.information = information
        self.max_iterations = max_iterations
        self.tolerance = tolerance
        self.longest = longest

    def maximize(self, objective: Objective, start: np.ndarray, bounds: np.ndarray) -> OptimizeResult:
        trials = Trials(objective)
        low, high = bounds.T
        x = np.clip(start, low, high)
        here = trials(x)
        if here is None:
            return trials.result(bounds, True, "nothing to optimise")
        A = np.array(self.information, float)

        def result(converged: bool, reason: str) -> OptimizeResult:
            try:
                L = np.linalg.cholesky(A)
            except np.linalg.LinAlgError:
                return trials.result(bounds, converged, reason)
            # conjugate steps, from which BFGS learns just this curvature
            return replace(trials.result(bounds, converged, reason), steps=np.linalg.inv(L), turns=L.T)

        for _ in range(self.max_iterations):
            value, gradient = here
            moves = np.clip(x + gradient, low, high) != x  # what pushes against its bound stays there
            step = np.zeros_like(x)
            step[moves] = np.linalg.solve(A[np.ix_(moves, moves)], gradient[moves])
            if 0.5 * gradient @ step < self.tolerance:
                return result(True, "a step would raise the objective by less than its tolerance")
            step *= min(1.0, self.longest / np.abs(step).max())
            for _ in range(HALVINGS):
                new = np.clip(x + step, low, high)
                there = trials(new)
                if there is not None and there[0] >= value + LEAST_RISE * gradient @ (new - x):
                    break
                step /= 2
            else:
                return result(False, "no better point along the last direction")
            A = _corrected(A, new - x, gradient - there[1])
            x, here = new, there
        return result(False, f"reached the limit of {self.max_iterations} iterations")


def _corrected(A: np.ndarray, step: np.ndarray, turn: np.ndarray) -> np.ndarray:
    """The curvature that agrees with what a step has shown, nearest to A and positive definite; A where none is."""
    As = A @ step
    curvature, expected = float(step @ turn), float(step @ As)
    if curvature <= 1e-3 * expected:
        return A
    return A + np.outer(turn, turn) / curvature - np.outer(As, As) / expected
