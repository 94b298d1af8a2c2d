"""Hyperparameters for automatic knots: the exact GP's, by FIC with many knots that sit on rows and never move."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from knotwise.decisions.enough import Rule
from knotwise.decisions.thresholds import ENOUGH, HYPERPARAMETERS, KERNEL
from knotwise.decisions.trials import Candidate
from knotwise.errors import KnotwiseError
from knotwise.evidence import Rows
from knotwise.evidence.inference import inference_of
from knotwise.evidence.scores import KnotScores
from knotwise.optimize.lbfgs import LBFGS
from knotwise.optimize.newton import KnownCurvature
from knotwise.selection.base import Decision, Stage
from knotwise.selection.curvature import information_of_more_rows
from knotwise.selection.places import Pivots
from knotwise.selection.problem import Problem
from knotwise.selection.starts import with_its_nugget
from knotwise.selection.trace import KnotTrace


def most_exact_rows(problem: Problem) -> int:
    """Up to how many rows the exact GP is taken where knots would be too many."""
    of_sites = inference_of(problem.model).several_passes
    return HYPERPARAMETERS.exact_rows_of_sites if of_sites else HYPERPARAMETERS.exact_rows


def exact_is_cheaper(problem: Problem, n_knots: int) -> bool:
    """Whether the exact GP of all rows takes no longer than one with so many knots."""
    n_rows = problem.summary.n_rows
    return n_rows <= most_exact_rows(problem) and n_knots > HYPERPARAMETERS.exact_share * n_rows


def decide(
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
) -> Decision[Candidate]:
    """Fit hyperparameters under FIC with at most `cap` knots on rows of the pool, while they ask for other knots.

    Where these would be so many that the exact GP is cheaper, the hyperparameters are fitted to that, of many rows to
    some first, if these can see what they are for. So they are where knots reach the cap, or where rounding ends them
    before they are enough, if the exact GP may be taken then: FIC with too few knots calls noise of single rows what it
    leaves, and says little of the exact GP. `above` is the value of an earlier fit to the same rows: theta has then
    seen them all, and a search that is still below it after a round is given up.
    """
    fic = replace(problem.anew(), model=problem.model.with_power(1.0), n_restarts=0)
    quick = for_stage(fic, HYPERPARAMETERS.round)
    W = first_precisions(fic, theta, pool)
    Z = np.empty((0, 0))
    sites_move = inference_of(fic.model).several_passes
    failed, last = 0, np.inf
    for round_ in range(HYPERPARAMETERS.rounds):
        first = len(Z) if round_ else rule.first_knots
        enough = partial(rule.find_parameters, last=round_ > 0)
        Z, scores, capped = grow(fic, pool, theta, W, enough, cap, first=first, quick=True)
        at_cap = exact_at_cap and (len(Z) >= cap or rule.are_too_few(scores))  # where rounding allows no more
        if problem.optimizer is not None and (at_cap or exact_is_cheaper(problem, len(Z))):
            exactly = _by_exact_gp(problem, Z, theta, rng, trace, above=above)
            if exactly is not None:
                return exactly
        stage = _with_curvature(replace(quick, n_restarts=0 if round_ else problem.n_restarts), theta, Z, rng)
        changed, last = abs(stage.value - last), stage.value
        failed += stage.failed_restarts
        if round_ == 0:
            stage = with_its_nugget(quick, stage, rng)
        scores = fic.by_surrogate.scores(fic.point(stage.theta, Z), pool)
        moved = float(np.abs(stage.theta - theta)[fic.free].max(initial=0.0))
        theta = stage.theta
        why = _record(
            trace, stage, fic, rule, scores, f"FIC, knots on rows, parameters moved by {moved:.2f} on the log scale"
        )
        # knots that explain enough at the new parameters need not be chosen again for them
        done = problem.optimizer is None or capped or (round_ > 0 and moved < HYPERPARAMETERS.still)
        done = done or rule.have_converged(scores, sites_move=sites_move)
        if done:
            break
        assert scores.rows is not None
        W = np.maximum(scores.rows.W, HYPERPARAMETERS.least_precision)
    if not stage.result.converged and quick.optimizer is not fic.optimizer:
        stage = replace(quick, optimizer=HYPERPARAMETERS.last_round).optimize(theta, Z, rng)
        scores = fic.by_surrogate.scores(fic.point(stage.theta, Z))
        more = f"FIC, the same knots, {stage.result.evaluations} more evaluations"
        why = _record(trace, stage, fic, rule, scores, more)
    ended = "moving" if not done and changed > HYPERPARAMETERS.flat else "converged"
    if capped and rule.are_too_few(scores):
        ended = "too few"
    found = Candidate(fic, stage, stage.value, knots=Z, ended=ended, failed_restarts=failed)
    return Decision(found, why, {"n_knots": len(Z), "share": rule.share_of(scores)})


def many_knots(problem: Problem, pool: Rows, theta: np.ndarray, rule: Rule, cap: int) -> tuple[np.ndarray, bool]:
    """At most `cap` knots on rows of the pool for given parameters, and whether more would be needed."""
    fic = replace(problem.anew(), model=problem.model.with_power(1.0))
    enough = partial(rule.find_parameters, last=False)
    W, first = first_precisions(fic, theta, pool), rule.first_knots
    Z, scores, capped = grow(fic, pool, theta, W, enough, cap, first=first, quick=True)
    return Z, capped and rule.are_too_few(scores)


def _by_exact_gp(
    problem: Problem,
    Z: np.ndarray,
    theta: np.ndarray,
    rng: np.random.Generator,
    trace: KnotTrace,
    *,
    above: float | None,
) -> Decision[Candidate] | None:
    """Hyperparameters of the exact GP, which has as many knots as there are rows; None where it cannot be computed."""
    exact = for_stage(replace(problem.anew(), full=True), HYPERPARAMETERS.exact)
    none = np.empty((0, problem.summary.n_columns))
    try:
        first = HYPERPARAMETERS.first_exact_rows  # of which each evaluation costs far less
        known = problem.found is not None and problem.found.numbers.get("fitted_rows") == problem.summary.n_rows
        if above is None and not known and problem.summary.n_rows > HYPERPARAMETERS.more_exact_rows * first:
            some = exact.take(exact.sample(first, rng))
            theta = exact.on_rows(some).optimize(theta, none, rng).theta
        stage = _with_curvature(exact, theta, none, rng) if above is None else _search_above(exact, theta, above, rng)
        stage = with_its_nugget(exact, stage, rng)
    except KnotwiseError:
        return None
    note = f"exact GP, since more than {len(Z)} knots would be needed"
    note = f"{note}; {stage.note}" if stage.note else note
    word = problem.inference.word
    value = exact.log_evidence(stage)
    trace.add("parameters", 0, value, n_rows=exact.summary.count, theta=stage.theta, note=note, inference=word)
    found = Candidate(exact, stage, value, knots=Z, ended="exact", failed_restarts=stage.failed_restarts)
    return Decision(found, note, {"n_knots": len(Z)})


def _with_curvature(problem: Problem, theta: np.ndarray, Z: np.ndarray, rng: np.random.Generator) -> Stage:
    """Hyperparameters from where the choice of the kernel ended: with the curvature that it has learned, a few
    evaluations are enough.
    """
    known, own = problem.curvature, (HYPERPARAMETERS.exact, HYPERPARAMETERS.round)
    if known is None or problem.n_restarts or problem.optimizer not in own or len(known) != problem.free.sum():
        return problem.optimize(theta, Z, rng)
    information = known * problem.summary.count
    steps = KnownCurvature(information, KERNEL.newton_steps, HYPERPARAMETERS.negligible, KERNEL.longest_step)
    stage = replace(problem, optimizer=steps).optimize(theta, Z, rng)
    return stage if stage.result.converged else problem.optimize(stage.theta, Z, rng)


def _search_above(exact: Problem, theta: np.ndarray, above: float, rng: np.random.Generator) -> Stage:
    """Parameters of the exact GP from another start; a search that is still below a known value is given up."""
    none = np.empty((0, exact.summary.n_columns))
    first = replace(exact, optimizer=HYPERPARAMETERS.round) if exact.optimizer is HYPERPARAMETERS.exact else exact
    stage = first.optimize(theta, none, rng)
    if stage.result.converged or stage.value < above:
        return stage
    return exact.optimize(stage.theta, none, rng)


def refine(problem: Problem, found: Candidate, rng: np.random.Generator, trace: KnotTrace) -> Candidate:
    """A few steps on all rows, from hyperparameters that a subset has found."""
    fic = replace(problem.anew(), model=problem.model.with_power(1.0), n_restarts=0)
    on_all_rows = for_stage(fic, HYPERPARAMETERS.all_rows)
    if fic.summary.n_rows > HYPERPARAMETERS.many_rows:
        stage = _through_some_rows(on_all_rows, found, rng)
    else:
        stage = on_all_rows.optimize(found.theta, found.knots, rng)
    note = f"parameters on all {fic.summary.count} rows, {stage.result.evaluations} evaluations"
    note = f"{note}; {stage.note}" if stage.note else note
    trace.add(
        "refine", len(found.knots), fic.log_evidence(stage), theta=stage.theta, note=note, inference=fic.inference.word
    )
    return replace(found, stage=stage)


def _through_some_rows(problem: Problem, found: Candidate, rng: np.random.Generator) -> Stage:
    """Parameters of very many rows: some tell them nearly, and the curvature, so that a few steps on all are enough."""
    some = problem.on_rows(problem.take(problem.sample(HYPERPARAMETERS.some_rows, rng)))
    stage = some.optimize(found.theta, found.knots, rng)
    if problem.optimizer is HYPERPARAMETERS.all_rows:
        try:
            information = information_of_more_rows(some, stage.point, problem.summary.count)
            steps = replace(problem, optimizer=KnownCurvature(information))
            stage = steps.optimize(stage.theta, found.knots, rng)
            if stage.result.converged:
                return stage
        except KnotwiseError:
            pass
    return problem.optimize(stage.theta, found.knots, rng)


def for_stage(problem: Problem, own: LBFGS) -> Problem:
    """The problem with a stage's own optimiser, unless the user wants another than L-BFGS as it comes, or none."""
    asked = problem.optimizer
    default = type(asked) is LBFGS and vars(asked) == vars(LBFGS())
    return replace(problem, optimizer=own) if default else problem


def _record(trace: KnotTrace, stage: Stage, problem: Problem, rule: Rule, scores: KnotScores, note: str) -> str:
    note = f"{note}; {stage.note}" if stage.note else note
    trace.add(
        "parameters",
        len(stage.Z),
        problem.log_evidence(stage),
        n_rows=problem.summary.count,
        share=rule.share_of(scores),
        residual_information=scores.residual_information,
        theta=stage.theta,
        note=note,
        inference=problem.inference.word,
    )
    return note


def grow(
    problem: Problem,
    pool: Rows,
    theta: np.ndarray,
    W: np.ndarray,
    enough: Callable[[KnotScores], bool],
    cap: int,
    *,
    first: int = HYPERPARAMETERS.first_knots,
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
        scores = problem.by_surrogate.scores(problem.point(theta, Z))
        if enough(scores) or len(rows) < n:
            return Z, scores, False
        if n >= cap:
            return Z, scores, cap < problem.summary.n_rows  # a knot on every row: what is left is the jitter
        far = quick and scores.share > ENOUGH.start_share
        growth = HYPERPARAMETERS.quick_growth if far else HYPERPARAMETERS.growth
        n = min(max(int(n * growth), n + 1), cap)


def first_precisions(problem: Problem, theta: np.ndarray, rows: Rows) -> np.ndarray:
    """Site precisions of some rows before any posterior is known: those at the prior mean."""
    model = problem.model.with_theta(theta)
    f = np.full(len(rows), model.mean.offset)
    return np.maximum(model.likelihood_of(rows).fisher(rows.y, f, rows.sizes), HYPERPARAMETERS.least_precision)
