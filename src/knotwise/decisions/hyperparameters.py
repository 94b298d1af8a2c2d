"""Parameters for automatic knots: those of the exact GP, by FIC with many knots that sit on rows and never move."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from knotwise.decisions.rule import FIRST_SHARE, Rule
from knotwise.errors import KnotwiseError
from knotwise.evidence import Rows
from knotwise.evidence.inference import inference_of
from knotwise.evidence.scores import KnotScores
from knotwise.optimize.lbfgs import LBFGS
from knotwise.optimize.newton import KnownCurvature
from knotwise.selection.base import Stage
from knotwise.selection.curvature import information_of_more_rows
from knotwise.selection.pivots import Pivots
from knotwise.selection.problem import Problem
from knotwise.selection.starts import with_its_nugget
from knotwise.selection.trace import KnotTrace

__all__ = [
    "EXACT_ROWS",
    "MANY_KNOTS",
    "Settled",
    "exact_is_cheaper",
    "first_precisions",
    "for_stage",
    "grow",
    "many_knots",
    "most_exact_rows",
    "refine",
    "settle",
]

GROWTH, QUICK_GROWTH = 1.25, 1.6  # of the number of knots between two looks at the share
SETTLED = 0.05  # change of log parameters below which they are settled
FLAT = 0.1  # nats between the last two rounds, up to which it does not matter that they still move
ROUNDS = 8  # of fitting parameters and choosing knots for them
MANY_KNOTS = 1 / 3  # of the rows: from here on the exact GP takes no longer
EXACT_ROWS, EXACT_ROWS_MOVING = 3000, 1000  # up to which it is taken then; fewer where it has to be searched for
ROUND = LBFGS(max_iterations=40, value_tolerance=1e-7, gradient_tolerance=1e-2)  # the next round goes on
LAST_ROUND = LBFGS(value_tolerance=1e-7, gradient_tolerance=1e-2)  # nothing comes after it
FIRST_EXACT_ROWS = 1000
SOME_ROWS, MANY_ROWS = 30_000, 150_000  # of more than so many rows, parameters see so many before they see all
EXACTLY = LBFGS(value_tolerance=1e-6, gradient_tolerance=1e-2)
ON_ALL_ROWS = LBFGS(max_iterations=40, value_tolerance=1e-7, gradient_tolerance=1.0)


@dataclass(frozen=True)
class Settled:
    """Parameters, the many knots that found them, and how their last optimisation ended.

    `exact` says that they are the exact GP's, `too_few` that the limit of the number of knots was reached before they
    were near those, `moving` that they still moved with every choice of knots.
    """

    stage: Stage
    Z: np.ndarray
    exact: bool = False
    too_few: bool = False
    moving: bool = False
    failed_restarts: int = 0

    @property
    def theta(self) -> np.ndarray:
        return self.stage.theta


def most_exact_rows(problem: Problem) -> int:
    """Up to how many rows the exact GP is taken where knots would be too many."""
    return EXACT_ROWS_MOVING if inference_of(problem.model).several_passes else EXACT_ROWS


def exact_is_cheaper(problem: Problem, n_knots: int) -> bool:
    """Whether the exact GP of all rows takes no longer than one with so many knots."""
    n_rows = problem.summary.n_rows
    return n_rows <= most_exact_rows(problem) and n_knots > MANY_KNOTS * n_rows


def settle(
    problem: Problem,
    pool: Rows,
    theta: np.ndarray,
    rng: np.random.Generator,
    trace: KnotTrace,
    *,
    cap: int,
    rule: Rule,
    exact_at_cap: bool = False,
    above: float | None = None,
) -> Settled:
    """Fit parameters under FIC with at most `cap` knots on rows of the pool; repeat while they ask for other knots.

    Where these would be so many that the exact GP is cheaper, the parameters are fitted to that, of many rows to some
    first, if these can see what the parameters are for. So they are where knots reach the cap, if the exact GP may be
    taken then: FIC with too few knots calls noise of single rows what it leaves, and is no guide to the exact GP.
    `above` is the value of an earlier fit to the same rows: theta has then seen them all, and a search that is still
    below it after a round is given up.
    """
    fic = replace(problem.anew(), model=problem.model.with_power(1.0), n_restarts=0)
    quick = for_stage(fic, ROUND)
    W = first_precisions(fic, theta, pool)
    Z = np.empty((0, 0))
    sites_move = inference_of(fic.model).several_passes
    failed, last = 0, np.inf
    for round_ in range(ROUNDS):
        first = len(Z) if round_ else rule.first_knots
        enough = partial(rule.find_parameters, last=round_ > 0)
        Z, scores, capped = grow(fic, pool, theta, W, enough, cap, first=first, quick=True)
        at_cap = exact_at_cap and len(Z) >= cap
        if problem.optimizer is not None and (at_cap or exact_is_cheaper(problem, len(Z))):
            exactly = _settle_exactly(problem, Z, theta, rng, trace, above=above)
            if exactly is not None:
                return exactly
        stage = replace(quick, n_restarts=0 if round_ else problem.n_restarts).optimize(theta, Z, rng)
        changed, last = abs(stage.value - last), stage.value
        failed += stage.failed_restarts
        if round_ == 0:
            stage = with_its_nugget(quick, stage, rng)
        scores = fic.guided.scores(fic.point(stage.theta, Z), pool)
        moved = float(np.abs(stage.theta - theta)[fic.free].max(initial=0.0))
        theta = stage.theta
        _record(
            trace, stage, fic, rule, scores, f"FIC, knots on rows, parameters moved by {moved:.2f} on the log scale"
        )
        # knots that explain enough at the new parameters need not be chosen again for them
        done = problem.optimizer is None or capped or (round_ > 0 and moved < SETTLED)
        done = done or rule.have_settled(scores, sites_move=sites_move)
        if done:
            break
        assert scores.rows is not None
        W = np.maximum(scores.rows.W, 1e-12)
    if not stage.result.converged and quick.optimizer is not fic.optimizer:
        stage = replace(quick, optimizer=LAST_ROUND).optimize(theta, Z, rng)
        scores = fic.guided.scores(fic.point(stage.theta, Z))
        _record(trace, stage, fic, rule, scores, f"FIC, the same knots, {stage.result.evaluations} more evaluations")
    return Settled(
        stage,
        Z,
        too_few=capped and rule.are_too_few(scores),
        moving=not done and changed > FLAT,
        failed_restarts=failed,
    )


def many_knots(problem: Problem, pool: Rows, theta: np.ndarray, rule: Rule, cap: int) -> tuple[np.ndarray, bool]:
    """At most `cap` knots on rows of the pool for given parameters, and whether more would be needed."""
    fic = replace(problem.anew(), model=problem.model.with_power(1.0))
    enough = partial(rule.find_parameters, last=False)
    W, first = first_precisions(fic, theta, pool), rule.first_knots
    Z, scores, capped = grow(fic, pool, theta, W, enough, cap, first=first, quick=True)
    return Z, capped and rule.are_too_few(scores)


def _settle_exactly(
    problem: Problem,
    Z: np.ndarray,
    theta: np.ndarray,
    rng: np.random.Generator,
    trace: KnotTrace,
    *,
    above: float | None,
) -> Settled | None:
    """Parameters of the exact GP, which has as many knots as there are rows; None where it cannot be computed."""
    exact = for_stage(replace(problem.anew(), full=True), EXACTLY)
    none = np.empty((0, problem.summary.n_columns))
    try:
        if above is None and problem.summary.n_rows > 1.5 * FIRST_EXACT_ROWS:  # of which each evaluation costs far less
            some = exact.take(exact.sample(FIRST_EXACT_ROWS, rng))
            theta = exact.on_rows(some).optimize(theta, none, rng).theta
        stage = exact.optimize(theta, none, rng) if above is None else _search_above(exact, theta, above, rng)
        stage = with_its_nugget(exact, stage, rng)
    except KnotwiseError:
        return None
    note = f"exact GP, since more than {len(Z)} knots would be needed"
    note = f"{note}; {stage.note}" if stage.note else note
    word = problem.inference.word
    value = exact.log_evidence(stage)
    trace.add("parameters", 0, value, n_rows=exact.summary.count, theta=stage.theta, note=note, inference=word)
    return Settled(stage, Z, exact=True, failed_restarts=stage.failed_restarts)


def _search_above(exact: Problem, theta: np.ndarray, above: float, rng: np.random.Generator) -> Stage:
    """Parameters of the exact GP from another start; a search that is still below a known value is given up."""
    none = np.empty((0, exact.summary.n_columns))
    first = replace(exact, optimizer=ROUND) if exact.optimizer is EXACTLY else exact
    stage = first.optimize(theta, none, rng)
    if stage.result.converged or stage.value < above:
        return stage
    return exact.optimize(stage.theta, none, rng)


def refine(problem: Problem, settled: Settled, rng: np.random.Generator, trace: KnotTrace) -> Settled:
    """A few steps on all rows, from parameters that a subset has found."""
    fic = replace(problem.anew(), model=problem.model.with_power(1.0), n_restarts=0)
    on_all_rows = for_stage(fic, ON_ALL_ROWS)
    if fic.summary.n_rows > MANY_ROWS:
        stage = _through_some_rows(on_all_rows, settled, rng)
    else:
        stage = on_all_rows.optimize(settled.theta, settled.Z, rng)
    note = f"parameters on all {fic.summary.count} rows, {stage.result.evaluations} evaluations"
    note = f"{note}; {stage.note}" if stage.note else note
    trace.add(
        "refine", len(settled.Z), fic.log_evidence(stage), theta=stage.theta, note=note, inference=fic.inference.word
    )
    return replace(settled, stage=stage)


def _through_some_rows(problem: Problem, settled: Settled, rng: np.random.Generator) -> Stage:
    """Parameters of very many rows: some tell them nearly, and the curvature, so that a few steps on all are enough."""
    some = problem.on_rows(problem.take(problem.sample(SOME_ROWS, rng)))
    stage = some.optimize(settled.theta, settled.Z, rng)
    if problem.optimizer is ON_ALL_ROWS:
        try:
            information = information_of_more_rows(some, stage.point, problem.summary.count)
            steps = replace(problem, optimizer=KnownCurvature(information))
            stage = steps.optimize(stage.theta, settled.Z, rng)
            if stage.result.converged:
                return stage
        except KnotwiseError:
            pass
    return problem.optimize(stage.theta, settled.Z, rng)


def for_stage(problem: Problem, own: LBFGS) -> Problem:
    """The problem with a stage's own optimiser, unless the user wants another than L-BFGS as it comes, or none."""
    asked = problem.optimizer
    default = type(asked) is LBFGS and vars(asked) == vars(LBFGS())
    return replace(problem, optimizer=own) if default else problem


def _record(trace: KnotTrace, stage: Stage, problem: Problem, rule: Rule, scores: KnotScores, note: str) -> None:
    trace.add(
        "parameters",
        len(stage.Z),
        problem.log_evidence(stage),
        n_rows=problem.summary.count,
        share=rule.share_of(scores),
        residual_information=scores.residual_information,
        theta=stage.theta,
        note=f"{note}; {stage.note}" if stage.note else note,
        inference=problem.inference.word,
    )


def grow(
    problem: Problem,
    pool: Rows,
    theta: np.ndarray,
    W: np.ndarray,
    enough: Callable[[KnotScores], bool],
    cap: int,
    *,
    first: int = 10,
    quick: bool = False,
) -> tuple[np.ndarray, KnotScores, bool]:
    """Knots on rows of the pool, with precisions W, by pivoted Cholesky on W c, until all rows say that they are enough
    or the cap is reached; the last of what is returned says that it was.

    `quick` takes larger steps while most is unexplained, where a few knots too many do no harm.
    """
    pivots = Pivots(problem.model.with_theta(theta).kernel, pool.X, W)
    n = min(first, cap)
    while True:
        rows = pivots.extend(n)
        Z = pool.X[rows]
        scores = problem.guided.scores(problem.point(theta, Z))
        if enough(scores) or len(rows) < n:
            return Z, scores, False
        if n >= cap:
            return Z, scores, cap < problem.summary.n_rows  # a knot on every row: what is left is the jitter
        growth = QUICK_GROWTH if quick and scores.share > FIRST_SHARE else GROWTH
        n = min(max(int(n * growth), n + 1), cap)


def first_precisions(problem: Problem, theta: np.ndarray, rows: Rows) -> np.ndarray:
    """Site precisions of some rows before any posterior is known: those at the prior mean."""
    model = problem.model.with_theta(theta)
    f = np.full(len(rows), model.mean.offset)
    return np.maximum(model.likelihood_of(rows).fisher(rows.y, f, rows.sizes), 1e-12)
