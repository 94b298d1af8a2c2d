"""Is anything left in the residuals? Neighbouring rows that are off together show what a smooth fit has missed.

A sharp feature on a smooth trend is invisible to a few random rows, and a fit that starts smooth stays smooth. So the
residuals of neighbours are looked at before a fit ends, and where they agree, parameters are looked for on the rows
there, from short length-scales.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from knotwise.errors import KnotwiseError
from knotwise.evidence import Rows
from knotwise.evidence.scores import RowScores
from knotwise.knots.problem import Problem
from knotwise.knots.trace import KnotTrace
from knotwise.optimize.lbfgs import LBFGS

__all__ = ["look_again"]

NEIGHBOURS = (4, 16)  # of a row, itself included, whose residuals are added up
SURPRISING = 5.5  # standard deviations: with 5,000 rows chance gives it once in a thousand
LEAST_ROWS = 50
PATCH_ROWS = 300
SHORT = (0.3, 0.05)  # length-scales to start from, relative to the spread of the patch
GAIN = 5.0  # nats that other parameters must bring on the patch


def look_again(
    problem: Problem, pool: Rows, theta: np.ndarray, Z: np.ndarray, rng: np.random.Generator, trace: KnotTrace
) -> np.ndarray | None:
    """Other parameters for a fit whose residuals show structure; None where they do not, or nothing better is found.

    Costs one look at the rows through the knots and, where there is structure, two exact GPs on 300 rows.
    """
    lengthscales = problem.table.with_role("lengthscale") & problem.free
    if len(pool) < LEAST_ROWS or not lengthscales.any():
        return None
    fic = replace(problem.anew(), model=problem.model.with_power(1.0))
    scores = fic.guided.row_scores(fic.point(theta, Z), pool)
    surprise, centre = _most_surprising(scores)
    if surprise < SURPRISING:
        return None
    near = np.sort(np.argsort(((pool.X - pool.X[centre]) ** 2).sum(1), kind="stable")[:PATCH_ROWS])
    patch = pool[near] if problem.model.likelihood.discrete else pool[near].once
    exact = replace(
        problem.on_rows(patch),
        optimizer=LBFGS(max_iterations=60, value_tolerance=1e-6, gradient_tolerance=1e-2),
        full=True,
        n_restarts=0,
    )
    none, bounds = np.empty((0, pool.X.shape[1])), problem.table.theta_bounds
    spread = float(np.sqrt(patch.X.var(0).mean())) or 1.0
    best, value = None, exact.evaluate(exact.point(theta, none), gradient=False).value
    before = value
    for factor in SHORT:
        short = np.minimum(theta, np.log(factor * spread))
        start = np.clip(np.where(lengthscales, short, theta), bounds[:, 0], bounds[:, 1])
        try:
            stage = exact.optimize(start, none, rng)
        except KnotwiseError:
            continue
        if stage.value > value + (GAIN if best is None else 0.0):
            best, value = stage.theta, stage.value
    what = f"residuals of neighbours agree by {surprise:.1f} standard deviations"
    found = f"{value - before:.1f} nats more on {len(patch)} rows there, from short length-scales"
    note = f"{what}; {'nothing better there' if best is None else found}"
    trace.add("look again", 0, value, n_rows=patch.count, theta=best, note=note)
    return best


def _most_surprising(scores: RowScores) -> tuple[float, int]:
    """The largest sum of residuals over a row and its neighbours, in standard deviations, and that row.

    The largest residual of each group is left out, so that one outlier is no structure.
    """
    from scipy.spatial import KDTree

    z, X = scores.standardized, scores.rows.X
    tree = KDTree(X)
    best, centre = 0.0, 0
    for k in NEIGHBOURS:
        _, near = tree.query(X, k=min(k, len(X)))
        group = np.sort(z[near], axis=1)  # [n, k]
        total = group.sum(1)
        extreme = np.where(np.abs(group[:, 0]) > np.abs(group[:, -1]), group[:, 0], group[:, -1])
        surprise = np.abs(total - extreme) / np.sqrt(group.shape[1] - 1)
        row = int(np.argmax(surprise))
        if surprise[row] > best:
            best, centre = float(surprise[row]), row
    return best, centre
