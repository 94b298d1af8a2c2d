"""Few knots for given parameters: placed on rows, moved by VFE, and added to until they are enough."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from knotwise.decisions.hyperparameters import MANY_ROWS, Settled, first_precisions, grow
from knotwise.decisions.rule import Rule
from knotwise.errors import KnotwiseError
from knotwise.evidence import Rows
from knotwise.evidence.scores import KnotScores
from knotwise.optimize.lbfgs import LBFGS
from knotwise.selection.pivots import Pivots
from knotwise.selection.problem import Problem
from knotwise.selection.trace import KnotTrace

__all__ = ["ENDS", "Moved", "are_needed_at_most", "place"]

ROUNDS = 8  # of moving knots and adding some
WIDEST_ROWS = 5000  # rows among which further knots are looked for
MOVING_ROWS = 100_000  # that move knots, where there are very many
MOVING_SAVES = 1.7  # times the share at which as many knots on rows do what moved ones do

#: why no more knots were added, where the share is not small, in words
ENDS = {
    "rounding": ", but no row brings more than rounding",
    "rounds": f"; knots were added {ROUNDS} times, and further ones would lower it",
}


@dataclass(frozen=True)
class Moved:
    """Knots that were moved and added to, the share that they leave, and why no more were added.

    `ended` is "enough" (the share is small), "limit" (of the number of knots), "rounding" (nothing is left to explain
    but rounding) or "rounds" (of adding knots).
    """

    Z: np.ndarray
    share: float
    ended: str


def place(
    problem: Problem,
    pool: Rows,
    settled: Settled,
    rule: Rule,
    trace: KnotTrace,
    *,
    first: np.ndarray | None = None,
    iterations: int = 12,
) -> Moved:
    """Few knots, moved; or the many, where few contradict the data so much that nothing can be computed.

    `first` are knots that fewer rows have moved. Of very many rows, some move them further, and they stay there if they
    are enough for all.
    """
    theta = settled.theta
    try:
        if first is not None and problem.summary.n_rows > MANY_ROWS:
            numbers = problem.sample(MOVING_ROWS, np.random.default_rng(0))
            some = problem.on_rows(problem.take(numbers))
            first = _move(some, theta, first, rule, trace, iterations).Z
            enough = _enough_for_all(problem, theta, first, rule, trace)
            if enough is not None:
                return enough
        Z = _first_knots(problem, pool, theta, rule, trace) if first is None else first
        return _move(problem, theta, Z, rule, trace, iterations)
    except KnotwiseError:
        if first is not None:
            raise
        return _move(problem.anew(), theta, settled.Z, rule, trace, iterations)


def _first_knots(problem: Problem, pool: Rows, theta: np.ndarray, rule: Rule, trace: KnotTrace) -> np.ndarray:
    """Knots on rows, few; for an observation as many as it needs, and not more than the function does."""
    W = first_precisions(problem, theta, pool)
    Z, scores, _ = grow(problem, pool, theta, W, rule.are_a_start, rule.cap)
    trace.add(
        "start",
        len(Z),
        scores.value,
        n_rows=problem.summary.count,
        share=rule.share_of(scores),
        note="knots on rows, few",
        inference=problem.guided.inference.word,
    )
    return Z


def _enough_for_all(problem: Problem, theta: np.ndarray, Z: np.ndarray, rule: Rule, trace: KnotTrace) -> Moved | None:
    """The knots as they are, if they leave little; else None."""
    scores = problem.scores(problem.point(theta, Z))
    if not rule.are_enough(scores):
        return None
    share = rule.share_of(scores)
    trace.add(
        "move",
        len(Z),
        scores.value,
        share=share,
        residual_information=scores.residual_information,
        note="knots that some rows have moved are enough for all",
        inference=problem.inference.word,
    )
    return Moved(Z, share, "enough")


def _move(problem: Problem, theta: np.ndarray, Z: np.ndarray, rule: Rule, trace: KnotTrace, iterations: int) -> Moved:
    """Move the knots by VFE at fixed parameters; add some where much is unexplained; until little is."""
    vfe = replace(
        problem,
        table=replace(problem.table.with_theta(theta), fixed=np.ones(len(theta), bool)),
        optimizer=LBFGS(max_iterations=iterations, value_tolerance=1e-9, gradient_tolerance=1e-3),
    )
    rng = np.random.default_rng(0)  # not used: nothing is restarted
    for _ in range(ROUNDS):
        stage = vfe.optimize(theta, Z, rng, move=np.ones(len(Z), bool))
        Z = stage.Z
        scores = vfe.guided.scores(vfe.point(theta, Z), widest=WIDEST_ROWS)
        if vfe.guide is not None and rule.are_enough(scores):  # the last word is the model's own
            scores = vfe.scores(vfe.point(theta, Z), widest=WIDEST_ROWS)
        share = rule.share_of(scores)
        trace.add(
            "move",
            len(Z),
            vfe.log_evidence(stage),
            n_rows=vfe.summary.count,
            share=share,
            residual_information=scores.residual_information,
            note=f"VFE at fixed parameters, {stage.result.evaluations} evaluations",
            inference=vfe.inference.word,
        )
        if rule.are_enough(scores):
            return Moved(Z, share, "enough")
        wanted = len(Z) + max(2, int((0.25 if share > 2 * rule.share else 0.12) * len(Z)))
        places = vfe.distinct(wanted)
        if len(places) < wanted and len(places) <= rule.cap:  # a knot at every place leaves nothing open
            scores = vfe.scores(vfe.point(theta, places))
            share = rule.share_of(scores)
            trace.add(
                "every place",
                len(places),
                scores.value,
                n_rows=vfe.summary.count,
                share=share,
                inference=vfe.inference.word,
            )
            return Moved(places, share, "rounding")
        if len(Z) >= rule.cap:
            return Moved(Z, share, "limit")
        new = _more_knots(vfe, theta, Z, scores, min(wanted, rule.cap) - len(Z))
        if not len(new):  # the rows are determined by the knots: what is left is rounding
            return Moved(Z, share, "rounding")
        Z = np.vstack([Z, new])
    return Moved(Z, share, "rounds")


def _more_knots(problem: Problem, theta: np.ndarray, Z: np.ndarray, scores: KnotScores, n_new: int) -> np.ndarray:
    """Further knots on rows of which the knots leave most unexplained; each that is chosen counts for the next."""
    assert scores.rows is not None
    X = scores.rows.rows.X
    pivots = Pivots(problem.model.with_theta(theta).kernel, X, 1.0 / scores.rows.v, Z)
    return X[pivots.extend(n_new)]


def are_needed_at_most(problem: Problem, settled: Settled, rule: Rule, n_knots: int) -> bool:
    """Whether so many knots would be enough, if they were moved, as far as knots on rows tell.

    Not where nothing can be computed through them.
    """
    if n_knots < 1:
        return False
    theta, rows = settled.theta, problem.rows
    W = first_precisions(problem, theta, rows)
    Z = rows.X[Pivots(problem.model.with_theta(theta).kernel, rows.X, W).extend(n_knots)]
    try:
        scores = problem.guided.scores(problem.point(theta, Z))
    except KnotwiseError:
        return False
    return rule.share_of(scores) < MOVING_SAVES * rule.share
