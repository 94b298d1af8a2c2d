"""Few knots for given hyperparameters: placed on rows, moved by VFE, and added to until they are enough."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from knotwise.decisions.enough import Rule
from knotwise.decisions.hyperparameters import first_precisions, grow
from knotwise.decisions.thresholds import HYPERPARAMETERS, PLACEMENT
from knotwise.decisions.trials import Candidate
from knotwise.errors import KnotwiseError
from knotwise.evidence import Rows
from knotwise.evidence.scores import KnotScores
from knotwise.optimize.lbfgs import LBFGS
from knotwise.selection.base import Decision, Stage
from knotwise.selection.places import Pivots
from knotwise.selection.problem import Problem
from knotwise.selection.trace import KnotTrace

#: why no more knots are added
ENDS = {
    "enough": "the knots leave little unexplained",
    "limit": "the limit of the number of knots was reached",
    "rounding": "no row brings more than rounding",
    "rounds": f"knots were added {PLACEMENT.rounds} times, and further ones would lower the share",
}


def decide(
    problem: Problem,
    theta: np.ndarray,
    Z: np.ndarray,
    rule: Rule,
    trace: KnotTrace,
    iterations: int = PLACEMENT.iterations,
) -> Decision[Candidate]:
    """Move the knots by VFE at fixed hyperparameters; add some where much is unexplained; until little is.

    `ended` of the choice is a word of `ENDS`; the share is among the numbers.
    """
    vfe = replace(
        problem,
        table=replace(problem.table.with_theta(theta), fixed=np.ones(len(theta), bool)),
        optimizer=LBFGS(iterations, PLACEMENT.value_tolerance, PLACEMENT.gradient_tolerance),
    )
    rng = np.random.default_rng(0)  # not used: nothing is restarted
    for _ in range(PLACEMENT.rounds):
        stage = vfe.optimize(theta, Z, rng, move=np.ones(len(Z), bool))
        Z = stage.Z
        scores = vfe.by_surrogate.scores(vfe.point(theta, Z), widest=PLACEMENT.widest_rows)
        if vfe.surrogate is not None and rule.are_enough(scores):  # the last word is the model's own
            scores = vfe.scores(vfe.point(theta, Z), widest=PLACEMENT.widest_rows)
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
            return _placed(vfe, stage, Z, "enough", share)
        growth = PLACEMENT.many_more if share > PLACEMENT.far * rule.share else PLACEMENT.more
        wanted = len(Z) + max(PLACEMENT.least_new, int(growth * len(Z)))
        places = vfe.distinct(wanted)
        if len(places) < wanted and len(places) <= rule.cap:  # a knot at every place leaves nothing open
            scores = vfe.scores(vfe.point(theta, places))
            share, count = rule.share_of(scores), vfe.summary.count
            word = vfe.inference.word
            trace.add("every place", len(places), scores.value, n_rows=count, share=share, inference=word)
            return _placed(vfe, stage, places, "rounding", share)
        if len(Z) >= rule.cap:
            return _placed(vfe, stage, Z, "limit", share)
        new = _more_knots(vfe, theta, Z, scores, min(wanted, rule.cap) - len(Z))
        if not len(new):  # the rows are determined by the knots: what is left is rounding
            return _placed(vfe, stage, Z, "rounding", share)
        Z = np.vstack([Z, new])
    return _placed(vfe, stage, Z, "rounds", share)


def _placed(problem: Problem, stage: Stage, Z: np.ndarray, ended: str, share: float) -> Decision[Candidate]:
    return Decision(Candidate(problem, stage, stage.value, knots=Z, ended=ended), ENDS[ended], {"share": share})


def on_all_rows(
    problem: Problem, theta: np.ndarray, Z: np.ndarray, rule: Rule, trace: KnotTrace
) -> Decision[Candidate]:
    """Knots that fewer rows have moved, moved further.

    Of very many rows, some move them, and they stay there if they are enough for all.
    """
    if problem.summary.n_rows > HYPERPARAMETERS.many_rows:
        some = problem.on_rows(problem.take(problem.sample(PLACEMENT.moving_rows, np.random.default_rng(0))))
        moved = decide(some, theta, Z, rule, trace, PLACEMENT.more_iterations).choice
        Z = moved.knots
        scores = problem.scores(problem.point(theta, Z))
        if rule.are_enough(scores):
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
            return _placed(problem, moved.stage, Z, "enough", share)
    return decide(problem, theta, Z, rule, trace, PLACEMENT.more_iterations)


def first_knots(problem: Problem, pool: Rows, theta: np.ndarray, rule: Rule, trace: KnotTrace) -> np.ndarray:
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
        inference=problem.by_surrogate.inference.word,
    )
    return Z


def _more_knots(problem: Problem, theta: np.ndarray, Z: np.ndarray, scores: KnotScores, n_new: int) -> np.ndarray:
    """Further knots on rows of which the knots leave most unexplained; each that is chosen counts for the next."""
    assert scores.rows is not None
    X = scores.rows.rows.X
    pivots = Pivots(problem.model.with_theta(theta).kernel, X, 1.0 / scores.rows.v, Z)
    return X[pivots.extend(n_new)]


def are_needed_at_most(problem: Problem, theta: np.ndarray, rule: Rule, n_knots: int) -> bool:
    """Whether so many knots would be enough, if they were moved, as far as knots on rows tell.

    Not where nothing can be computed through them.
    """
    if n_knots < 1:
        return False
    rows = problem.rows
    W = first_precisions(problem, theta, rows)
    Z = rows.X[Pivots(problem.model.with_theta(theta).kernel, rows.X, W).extend(n_knots)]
    try:
        scores = problem.by_surrogate.scores(problem.point(theta, Z))
    except KnotwiseError:
        return False
    return rule.share_of(scores) < PLACEMENT.moving_saves * rule.share
