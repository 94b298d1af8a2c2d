"""Is anything left in the residuals? Neighbouring rows that are off together show what a smooth fit has missed.

A sharp feature on a smooth trend is invisible to a few random rows, and a fit that starts smooth stays smooth. So the
residuals of neighbours are looked at before a fit ends, and where they agree, parameters are looked for on the rows
there, from short length-scales.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from knotwise.errors import KnotwiseError
from knotwise.evidence import Rows
from knotwise.evidence.scores import RowScores
from knotwise.optimize.lbfgs import LBFGS
from knotwise.selection.base import Stage
from knotwise.selection.optimizing import Objective
from knotwise.selection.problem import Problem
from knotwise.selection.trace import KnotTrace

__all__ = ["FewRows", "look_again"]

NEIGHBOURS = (4, 16)  # of a row, itself included, whose residuals are added up
SURPRISING = 5.5  # standard deviations: with 5,000 rows chance gives it once in a thousand
LEAST_ROWS = 50
PATCH_ROWS = 300
SHORT = (0.3, 0.05)  # length-scales to start from, relative to the spread of the patch
GAIN = 5.0  # nats that other parameters must bring there
SHORTER = 2.0  # times as short as before: a fit that starts there may end elsewhere
SEARCH = LBFGS(max_iterations=60, value_tolerance=1e-6, gradient_tolerance=1e-2)


def look_again(
    problem: Problem, pool: Rows, theta: np.ndarray, Z: np.ndarray, rng: np.random.Generator, trace: KnotTrace
) -> np.ndarray | None:
    """Other parameters for a fit whose residuals show structure; None where they do not, or nothing better is found.

    Rows around the most surprising place tell short length-scales. Whether shorter ones serve the others, too, is asked
    of those rows together with as many random ones, from both starts. Costs one look at the rows through the knots and,
    where there is structure, four exact GPs on 300 to 600 rows.
    """
    lengthscales = problem.table.with_role("lengthscale") & problem.free
    if len(pool) < LEAST_ROWS or not lengthscales.any():
        return None
    fic = replace(problem.anew(), model=problem.model.with_power(1.0))
    scores = fic.guided.row_scores(fic.point(theta, Z), pool)
    surprise, centre = _most_surprising(scores)
    if surprise < SURPRISING:
        return None
    near = np.argsort(((pool.X - pool.X[centre]) ** 2).sum(1), kind="stable")[:PATCH_ROWS]
    patch = FewRows.of(problem, pool, near, rng)
    spread = float(np.sqrt(patch.rows.X.var(0).mean())) or 1.0
    low, high = problem.table.theta_bounds.T
    starts = [np.clip(np.where(lengthscales, np.minimum(theta, np.log(f * spread)), theta), low, high) for f in SHORT]
    short = patch.fit(starts)
    what = f"residuals of neighbours agree by {surprise:.1f} standard deviations"
    if short is None or short.value < patch.value(theta) + GAIN:
        trace.add("look again", 0, np.nan, n_rows=patch.rows.count, note=f"{what}; nothing better there")
        return None
    others = rng.permutation(np.setdiff1d(np.arange(len(pool)), near))[:PATCH_ROWS]
    both = FewRows.of(problem, pool, np.concatenate([near, others]), rng)
    best = both.fit([theta, short.theta])
    shorter = 1.0 if best is None else float(np.exp(np.max((theta - best.theta)[lengthscales])))
    note = f"{what}; length-scales {shorter:.1f} times as short serve {len(both.rows)} rows there and elsewhere better"
    trace.add("look again", 0, np.nan if best is None else best.value, n_rows=both.rows.count, note=note)
    return best.theta if best is not None and shorter > SHORTER else None


@dataclass(frozen=True)
class FewRows:
    """An exact GP on few rows."""

    problem: Problem
    rows: Rows
    rng: np.random.Generator

    @staticmethod
    def of(problem: Problem, pool: Rows, numbers: np.ndarray, rng: np.random.Generator) -> FewRows:
        rows = pool[np.sort(numbers)]
        rows = rows if problem.model.likelihood.discrete else rows.once
        return FewRows(replace(problem.on_rows(rows), optimizer=SEARCH, full=True, n_restarts=0), rows, rng)

    @property
    def no_knots(self) -> np.ndarray:
        return np.empty((0, self.rows.X.shape[1]))

    def value(self, theta: np.ndarray) -> float:
        """The objective at given parameters."""
        at = self.problem.point(theta, self.no_knots)
        return Objective(self.problem, at, np.zeros(0, bool)).value(at)

    def fit(self, starts: Sequence[np.ndarray]) -> Stage | None:
        """The best end of several starts; None where none can be computed."""
        best: Stage | None = None
        for start in starts:
            try:
                stage = self.problem.optimize(start, self.no_knots, self.rng)
            except KnotwiseError:
                continue
            best = stage if best is None or stage.value > best.value else best
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
