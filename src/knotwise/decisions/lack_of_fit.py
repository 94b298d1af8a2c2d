"""Lack-of-fit check: neighbouring rows that are off together show what a smooth fit has missed.

A sharp feature on a smooth trend is invisible to a few random rows, and a fit that starts smooth stays smooth. So the
residuals of neighbours are checked before a fit ends, and where they agree, hyperparameters are looked for on the rows
there, from short length-scales.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from knotwise.decisions.thresholds import LACK_OF_FIT
from knotwise.decisions.trials import Candidate, Trial
from knotwise.evidence import Rows
from knotwise.evidence.scores import RowScores
from knotwise.selection.base import Decision
from knotwise.selection.problem import Problem
from knotwise.selection.trace import KnotTrace


def decide(
    problem: Problem, pool: Rows, fitted: Candidate, rng: np.random.Generator, trace: KnotTrace
) -> Decision[np.ndarray | None]:
    """Other hyperparameters for a fit whose residuals show lack of fit; None where they do not, or none are better.

    Rows around the most surprising place identify short length-scales. Whether shorter ones serve the others, too, is
    asked of those rows together with as many random ones, from both starts. Costs one pass over the rows through the
    knots and, where there is lack of fit, four exact GPs on 300 to 600 rows.
    """
    theta = fitted.theta
    lengthscales = problem.table.with_role("lengthscale") & problem.free
    if len(pool) < LACK_OF_FIT.least_rows or not lengthscales.any():
        return Decision(None, "nothing can be checked")
    fic = replace(problem.anew(), model=problem.model.with_power(1.0))
    surprise, centre = _most_surprising(fic.by_surrogate.row_scores(fic.point(theta, fitted.knots), pool))
    why = f"residuals of neighbours agree by {surprise:.1f} standard deviations"
    numbers = {"standard_deviations": surprise}
    if surprise < LACK_OF_FIT.surprising:
        return Decision(None, why, numbers)
    near = np.argsort(((pool.X - pool.X[centre]) ** 2).sum(1), kind="stable")[: LACK_OF_FIT.patch_rows]
    patch = Trial.among(problem, pool, near, rng, trace)
    exact = patch.exact(problem, LACK_OF_FIT.search)
    spread = float(np.sqrt(patch.fitted.X.var(0).mean())) or 1.0
    low, high = problem.table.theta_bounds.T
    starts = [
        np.clip(np.where(lengthscales, np.minimum(theta, np.log(f * spread)), theta), low, high)
        for f in LACK_OF_FIT.short
    ]
    short = patch.best(exact, starts)
    if short is None or short.value < patch.value(exact, theta) + LACK_OF_FIT.gain:
        why += "; nothing better there"
        trace.add("lack of fit", 0, np.nan, n_rows=patch.fitted.count, note=why)
        return Decision(None, why, numbers)
    others = rng.permutation(np.setdiff1d(np.arange(len(pool)), near))[: LACK_OF_FIT.patch_rows]
    both = Trial.among(problem, pool, np.concatenate([near, others]), rng, trace)
    best = both.best(both.exact(problem, LACK_OF_FIT.search), [theta, short.theta])
    shorter = 1.0 if best is None else float(np.exp(np.max((theta - best.theta)[lengthscales])))
    why += f"; length-scales {shorter:.1f} times as short serve {len(both.fitted)} rows there and elsewhere better"
    trace.add("lack of fit", 0, np.nan if best is None else best.value, n_rows=both.fitted.count, note=why)
    is_better = best is not None and shorter > LACK_OF_FIT.shorter
    return Decision(best.theta if best is not None and is_better else None, why, numbers | {"shorter": shorter})


def _most_surprising(scores: RowScores) -> tuple[float, int]:
    """The largest sum of residuals over a row and its neighbours, in standard deviations, and that row.

    The largest residual of each group is left out, so that one outlier is no lack of fit.
    """
    from scipy.spatial import KDTree

    z, X = scores.standardized, scores.rows.X
    tree = KDTree(X)
    best, centre = 0.0, 0
    for k in LACK_OF_FIT.groups:
        _, near = tree.query(X, k=min(k, len(X)))
        group = np.sort(z[near], axis=1)  # [n, k]
        total = group.sum(1)
        extreme = np.where(np.abs(group[:, 0]) > np.abs(group[:, -1]), group[:, 0], group[:, -1])
        surprise = np.abs(total - extreme) / np.sqrt(group.shape[1] - 1)
        row = int(np.argmax(surprise))
        if surprise[row] > best:
            best, centre = float(surprise[row]), row
    return best, centre
