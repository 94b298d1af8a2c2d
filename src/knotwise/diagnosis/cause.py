"""Residual autocorrelation has a cause: knots that are too few, or what the exact GP would miss as well."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from knotwise.decisions.thresholds import LACK_OF_FIT
from knotwise.decisions.trials import Trial
from knotwise.diagnosis.neighbours import Neighbours, neighbour_test
from knotwise.errors import KnotwiseError
from knotwise.evidence.model import Rows
from knotwise.evidence.scores import RowScores
from knotwise.posterior.exact import ExactPosterior
from knotwise.posterior.residuals import Residuals
from knotwise.selection.problem import Problem
from knotwise.selection.trace import KnotTrace

__all__ = ["ExactTrial", "try_exact"]

GONE = 0.5  # share of the excess correlation through knots; the exact GP has less where knots are the cause


@dataclass(frozen=True)
class ExactTrial:
    """Excess correlations of neighbouring residuals on the same few rows: through the knots, and of the exact GP."""

    n_rows: int
    through_knots: float
    exact: float

    @property
    def knots_are_the_cause(self) -> bool:
        """Whether the exact GP explains most of what residuals through the knots have in common."""
        return self.exact < GONE * self.through_knots


def try_exact(
    fit: Any, scores: RowScores, residuals: Residuals, found: Neighbours, *, relearn: bool
) -> ExactTrial | None:
    """Compare a fit through knots with the exact GP on the 300 rows around the place where residuals agree most.

    The exact GP has as many random rows beside these, and the hyperparameters of the fit. With few knots these may have
    been learned wrongly: with `relearn`, where it explains no more, it learns its own, from the fitted ones and from
    those at the start of the fit with short length-scales. None where the exact GP cannot be computed. Costs one
    evaluation of it on 600 rows, or a few dozen.
    """
    rows, theta, rng = scores.rows, fit.selection.theta, np.random.default_rng(0)
    near = _patch(rows, residuals, found)
    others = rng.permutation(np.setdiff1d(np.arange(len(rows)), near))[: LACK_OF_FIT.patch_rows]
    both = rows[np.concatenate([near, others])]
    few = Trial.of_rows(both, rng, KnotTrace())
    problem = few.exact(fit.training, LACK_OF_FIT.search)
    graph = Neighbours.find(rows.X[near], LACK_OF_FIT.patch_rows, together=found.together)
    if graph is None:
        return None
    weights = None if rows.weights is None else rows.weights[near]
    through = neighbour_test(fit.posterior.residuals(near[graph.rows], scores), graph, weights)

    def trial(theta: np.ndarray) -> ExactTrial | None:
        try:
            state = problem.evaluate(problem.point(theta, few.no_knots), gradient=False).state
        except KnotwiseError:
            return None
        exact = neighbour_test(ExactPosterior(state).residuals(graph.rows), graph, weights)
        if exact is None or through is None:
            return None
        return ExactTrial(len(near), through.correlation, exact.correlation)

    held = trial(theta)
    if not relearn or (held is not None and held.knots_are_the_cause):
        return held
    learned = few.best(problem, [theta, *_short_starts(problem)])
    return held if learned is None else trial(learned.theta) or held


def _patch(rows: Rows, residuals: Residuals, found: Neighbours) -> np.ndarray:
    """The rows around the one whose residual agrees most with those near it, in their order."""
    z = residuals.a / np.sqrt(np.maximum(residuals.variance, np.finfo(float).tiny))
    agreement = z * found.sums(z)
    centre = found.rows[np.argmax(found.sums(agreement) + agreement)]
    distance = ((rows.X - rows.X[centre]) ** 2).sum(1)
    return np.sort(np.argsort(distance, kind="stable")[: LACK_OF_FIT.patch_rows])


def _short_starts(problem: Problem) -> list[np.ndarray]:
    """The hyperparameters with which the fit began, and length-scales that are short beside the rows.

    Where a fit has missed its function, it has taken it for noise: from a vanishing amplitude no length-scale helps.
    """
    table = problem.table
    lengthscales = table.with_role("lengthscale") & problem.free
    spread = float(np.sqrt(problem.rows.X.var(0).mean())) or 1.0
    shorter = (
        np.where(lengthscales, np.minimum(table.theta, np.log(f * spread)), table.theta) for f in LACK_OF_FIT.short
    )
    return [np.clip(start, *table.theta_bounds.T) for start in shorter]
