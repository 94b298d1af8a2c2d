"""Knots that the others can do without, dropped in groups."""

from __future__ import annotations

import numpy as np

from knotwise.knots.problem import Problem
from knotwise.knots.trace import KnotTrace

__all__ = ["prune"]

SCREEN = 3.0  # a loss from the screen up to so many tolerances is worth an evaluation
SINGLES = 4  # cheapest knots that are tried one by one before all are kept


def prune(problem: Problem, theta: np.ndarray, Z: np.ndarray, tolerance: float, trace: KnotTrace) -> np.ndarray:
    """Drop knots whose removal costs less log evidence than the tolerance, at fixed parameters.

    The losses of all knots come from one pass over the rows, but they do not add up: of two knots that stand for each
    other both seem to be free. So a group of cheap knots goes only if an evaluation without them confirms it, and else
    the cheaper half of it is tried. It takes some two evaluations of the evidence for each halving of what there is to
    drop, instead of some for each knot.
    """
    dropped, value = 0, np.nan
    while len(Z) > 1:
        jitter = problem.choose_jitter(theta, Z)
        losses = problem.losses(theta, Z, jitter)
        cheap = np.argsort(losses, kind="stable")
        cheap = cheap[losses[cheap] < SCREEN * tolerance][: len(Z) - 1]
        if not len(cheap):
            break
        value = problem.evaluate(theta, Z, jitter, gradient=False).value
        for group in _groups(cheap):
            without = np.delete(Z, group, axis=0)
            left = problem.evaluate(theta, without, jitter, gradient=False).value
            if left > value - tolerance * len(group):
                break
        else:
            break
        Z, value, dropped = without, left, dropped + len(group)
    if dropped:
        note = f"{dropped} knots dropped at less than {tolerance:g} nats each"
        trace.add("prune", len(Z), value, n_rows=problem.rows.count, note=note)
    return Z


def _groups(cheap: np.ndarray) -> list[np.ndarray]:
    """Groups to try in turn: all, the cheaper half, a quarter and so on, then the cheapest one by one."""
    halves = [cheap[: len(cheap) >> k] for k in range(len(cheap).bit_length())]
    return [*halves, *(cheap[i : i + 1] for i in range(1, min(SINGLES, len(cheap))))]
