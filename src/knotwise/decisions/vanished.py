"""Has a term of a sum been lost? What has become next to nothing does not come back by itself.

Optimisers see the logarithm of a variance, along which the evidence is flat once the variance is next to nothing,
whatever the data say of the term: v d/dv goes to zero with v. So where the hyperparameters of a sum have converged with
such a term, its score is asked, d log evidence / dv, at several length-scales of the term: of a variance at zero the
length-scale has no gradient either. A term that is the same at all rows, by a long length-scale, is as good as none,
and so is one that no rows share, by a short one: it is noise. Where a score promises something, hyperparameters are
looked for once more from there.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from knotwise.decisions.thresholds import VANISHED
from knotwise.decisions.trials import Candidate
from knotwise.errors import KnotwiseError
from knotwise.evidence import Rows
from knotwise.kernels.ranges import terms_of_entries
from knotwise.selection.base import Decision, Selection, Stage
from knotwise.selection.optimizing import amplitudes_of_terms
from knotwise.selection.problem import Problem
from knotwise.selection.trace import Action, KnotTrace


def decide(
    problem: Problem, pool: Rows, fitted: Candidate, rng: np.random.Generator, trace: KnotTrace
) -> Decision[np.ndarray | None]:
    """Hyperparameters from which to search again, with a variance for terms that have lost theirs; None without any.

    None also where no score promises anything. Costs two evaluations with gradient for each of five length-scales.
    """
    theta, Z, problem = fitted.theta, fitted.stage.Z, fitted.problem
    gone, alone = vanished(problem, pool, theta)
    if not gone.any():
        return Decision(None, "no term of a sum has vanished")
    quick = replace(problem.by_surrogate.anew(), n_restarts=0)
    without = _without(problem, theta, gone, alone)
    most, now = usual(problem), np.minimum(theta, usual(problem))
    own = start = gain = np.zeros(0)
    for factor in (None, *VANISHED.lengthscales):
        at = without if factor is None else _with_lengthscales(problem, without, gone, factor)
        line = scores_along(quick, at, Z, gone)
        promised, variance = promise(*line, most)
        if factor is None:  # the term as it is, with its own variance
            own = promise(*line, now)[0] + VANISHED.gain
            start, gain = without, own
        better = gone & (promised > gain)
        gain = np.where(better, promised, gain)
        start = np.where(_of_same_term(problem, better), at, start)
        start = np.where(better, variance, start)
    rises = gain > own
    start = np.where(_of_same_term(problem, rises), start, _without(problem, theta, rises, alone))
    why = f"little is left of {_listed(problem, gone)}"
    numbers = {"n_vanished": float(gone.sum()), "promised": float((gain - own).max())}
    if rises.any():
        why += f"; the evidence rises with {_listed(problem, rises)}, so hyperparameters are looked for from there"
    else:
        why += "; the evidence does not rise with more of it"
    trace.add("terms", len(Z), np.nan, theta=theta, note=why)
    return Decision(_within(problem, start) if rises.any() else None, why, numbers)


def vanished(problem: Problem, pool: Rows, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Amplitudes of the terms of which near rows share next to nothing that far ones do not, relative to what they do
    at the scale of the data; and how much each term adds to every row by itself, as noise does, [P] each.
    """
    terms = amplitudes_of_terms(problem)
    if problem.optimizer is None or not terms.any():
        return np.zeros(len(theta), bool), np.zeros(len(theta))
    X = pool.X[:: -(-len(pool) // VANISHED.rows)]
    now, alone = shared_variances(problem, X, theta)
    before, _ = shared_variances(problem, X, usual(problem))
    return terms & (now < VANISHED.share * np.maximum(before, now.sum() / terms.sum())), alone


def usual(problem: Problem) -> np.ndarray:
    """Hyperparameters at the scale of the data; a term to which a user gave a variance may have that of another."""
    terms, theta = amplitudes_of_terms(problem), problem.table.theta
    powers = np.array([parameter.y_power for parameter in problem.table.parameters])
    for i in np.flatnonzero(terms & problem.given):
        theta[i] = theta[terms & (powers == powers[i])].max()
    return theta


def shared_variances(problem: Problem, X: np.ndarray, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of the variance of each term, how much near rows share and far rows do not, and how much no rows share, [P] each.

    A term is what is left of the kernel without the others of its sum.
    """
    terms = amplitudes_of_terms(problem)
    powers = np.array([parameter.y_power for parameter in problem.table.parameters])
    shared, alone = np.zeros((2, len(theta)))
    for i in np.flatnonzero(terms):
        others = terms & (powers == powers[i])
        others[i] = False
        kernel = problem.model.with_theta(np.where(others, np.log(np.finfo(float).tiny), theta)).kernel
        K, k = kernel(X, X), kernel.diag(X)
        np.fill_diagonal(K, -np.inf)
        nearest = np.minimum(K.max(1), k)
        shared[i], alone[i] = nearest.mean() - K[~np.eye(len(K), dtype=bool)].mean(), (k - nearest).mean()
    return shared, alone


def scores_along(
    problem: Problem, theta: np.ndarray, Z: np.ndarray, terms: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The score of some terms at next to nothing, and how much it falls with their variance, [P] each."""
    scale = np.exp(usual(problem))
    none, some = (scores(problem, theta, Z, terms, share) for share in (VANISHED.nothing, VANISHED.some))
    return none, np.maximum(none - some, 0.0) / ((VANISHED.some - VANISHED.nothing) * scale)


def promise(score: np.ndarray, fall: np.ndarray, most: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What a score promises, in nats, and the log variance up to `most` that promises most, [P] each.

    Of the line s - c v of the score that is s^2 / (2 c), at s / c.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = np.minimum(np.where(score > 0, score / fall, 0.0), np.exp(most))
        return np.where(score > 0, score * variance - 0.5 * fall * variance**2, 0.0), np.log(variance)


def scores(problem: Problem, theta: np.ndarray, Z: np.ndarray, terms: np.ndarray, share: float) -> np.ndarray:
    """d log evidence / d variance of some terms that have so small a share of their usual variance, [P]."""
    at = _within(problem, np.where(terms, usual(problem) + np.log(share), theta))
    try:
        gradient = problem.evaluate(problem.point(at, Z)).gradient
    except KnotwiseError:
        return np.zeros(len(theta))
    assert gradient is not None
    return np.where(terms, gradient * np.exp(-at), 0.0)


def restarted(problem: Problem, selection: Selection, rng: np.random.Generator) -> Selection:
    """A selection whose hyperparameters are looked for once more, where a term of its sum was lost; the knots stay.

    One whose hyperparameters were fitted elsewhere, or with neighbours, has been asked before.
    """
    asked = any(step.action is Action.TERMS for step in selection.trace)
    if asked or selection.problem is not None or selection.fitted is not None:
        return selection
    if not amplitudes_of_terms(problem).any():
        return selection
    problem = replace(problem, full=selection.jitter is None, n_restarts=0)
    pool = problem.take(problem.sample(VANISHED.rows, np.random.default_rng(0)))
    fitted = Candidate(problem, Stage(selection.point, selection.result))
    try:
        start = decide(problem, pool, fitted, rng, selection.trace).choice
        if start is None:
            return selection
        stage, failed = problem.optimize(start, selection.Z, rng), selection.failed_restarts
        again = problem.selection(stage, selection.reason, selection.trace, failed_restarts=failed)
    except KnotwiseError:
        return selection
    gain = again.evidence.value - selection.evidence.value
    if not gain > 0:
        return replace(selection, others=(*selection.others, stage))
    note = f"the log evidence is {gain:.1f} higher with these terms"
    selection.trace.add("refit", len(again.Z), again.evidence.value, theta=again.theta, note=note)
    others = (*selection.others, fitted.stage)
    return replace(selection, point=again.point, evidence=again.evidence, result=again.result, others=others)


def _without(problem: Problem, theta: np.ndarray, terms: np.ndarray, alone: np.ndarray) -> np.ndarray:
    """Hyperparameters with next to nothing of some terms, whose variance of single rows is noise where that is one."""
    noise = (problem.model.noise_directions > 0) & problem.free & problem.model.likelihood.conjugate
    louder = np.logaddexp(theta, np.log(alone[terms].sum() + np.finfo(float).tiny))
    little = usual(problem) + np.log(VANISHED.nothing)
    return _within(problem, np.where(terms, little, np.where(noise, louder, theta)))


def _with_lengthscales(problem: Problem, theta: np.ndarray, gone: np.ndarray, factor: float) -> np.ndarray:
    """Hyperparameters with what else belongs to some terms at the data's scale, their length-scales shorter."""
    table = problem.table
    shift = np.where(table.with_role("lengthscale"), np.log(factor), 0.0)
    own = _of_same_term(problem, gone) & problem.free & ~problem.given & ~table.with_role("amplitude")
    return _within(problem, np.where(own, table.theta + shift, theta))


def _of_same_term(problem: Problem, amplitudes: np.ndarray) -> np.ndarray:
    """Which entries of theta belong to the terms of these amplitudes."""
    p, numbers = problem.model.sizes[0], terms_of_entries(problem.model.kernel)
    same = np.zeros(len(amplitudes), bool)
    same[:p] = np.isin(numbers, numbers[amplitudes[:p]])
    return same


def _within(problem: Problem, theta: np.ndarray) -> np.ndarray:
    return np.clip(theta, *problem.table.theta_bounds.T)


def _listed(problem: Problem, chosen: np.ndarray) -> str:
    return ", ".join(problem.table.names[i] for i in np.flatnonzero(chosen))
