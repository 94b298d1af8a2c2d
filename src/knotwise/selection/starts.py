"""Where parameters start: an exact GP on a few random rows finds the region, cheaply.

With few knots the evidence has a degenerate optimum (everything is noise), so the start decides. An exact GP
on a subset has no such trap, and two starts of its own tell short from long length-scales. Rows of the subset are
drawn by weight and then count once each, where weights above 1 would tell it that there is little noise; counts and
labels without a dispersion keep them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import chain

import numpy as np

from knotwise.errors import KnotwiseError
from knotwise.evidence import Rows
from knotwise.optimize.lbfgs import LBFGS
from knotwise.selection.base import Stage
from knotwise.selection.optimizing import amplitudes_of_terms
from knotwise.selection.problem import Problem

SUBSET_ROWS = 150
MIN_ROWS = 10
LENGTHSCALE_FACTORS = (1.0, 0.25)
DOMINANT = 0.9  # share of the variance of a sum that one of its terms has in a start of its own
LARGE_ON_LINK = 10.0  # variance of a start on the scale of a link above which that of 1 is tried, too
NOISE_SHARES = 10.0  # times the noise of a start is what varies in all
SEARCH = LBFGS(max_iterations=60, value_tolerance=1e-6, gradient_tolerance=1e-2)  # a start needs no last digit

FEW_STEPS = LBFGS(max_iterations=15, value_tolerance=1e-6, gradient_tolerance=1e-2)  # that show which term leads where


def starting_theta(problem: Problem, rng: np.random.Generator, n_rows: int = SUBSET_ROWS) -> np.ndarray:
    """Starting values for the parameters, from `n_rows` rows; those that the user gave or holds stay as they are."""
    if problem.found is not None and n_rows <= SUBSET_ROWS:
        return problem.found.choice
    start = problem.table.theta
    open_ = ~problem.given & problem.free
    if problem.optimizer is None or not open_.any() or problem.summary.n_rows < MIN_ROWS:
        return start
    chosen = problem.sample(n_rows, rng, by_weight=True)
    subset = exact_on(problem, subset_rows(problem, chosen), SEARCH)
    lengthscales = problem.table.with_role("lengthscale")
    starts = [start + np.log(factor) * (open_ & lengthscales) for factor in LENGTHSCALE_FACTORS]
    narrow = open_ & problem.table.with_role("amplitude") & (start > np.log(LARGE_ON_LINK))
    if narrow.any() and not problem.model.likelihood.scales_targets:  # what looks wide may be a noise of heavy tails
        starts += [np.where(narrow, 0.0, theta) for theta in starts]
    ends = ends_of_starts(subset, starts if problem.found is None else [problem.found.choice], rng)
    of_terms = dominated(problem, start) if problem.found is None else []
    quick = replace(subset, optimizer=FEW_STEPS)
    best = max(chain(ends, ends_of_starts(quick, of_terms, rng)), key=lambda stage: stage.value, default=None)
    return start if best is None else np.where(open_, best.theta, start)


def dominated(problem: Problem, theta: np.ndarray) -> list[np.ndarray]:
    """For each term of a sum, a start from which it has most of the variance that all of them have."""
    terms = amplitudes_of_terms(problem) & ~problem.given
    n, low, high = int(terms.sum()), *problem.table.theta_bounds.T
    if n < 2:
        return []
    rest = np.where(terms, theta + np.log((1 - DOMINANT) * n / (n - 1)), theta)
    return [
        np.clip(rest + np.log(DOMINANT / (1 - DOMINANT) * (n - 1)) * (np.arange(len(theta)) == i), low, high)
        for i in np.flatnonzero(terms)
    ]


def exact_on(problem: Problem, rows: Rows, search: LBFGS | None) -> Problem:
    """The problem of few rows by the exact GP, with a short search of its own."""
    return replace(problem.on_rows(rows), optimizer=search, full=True, n_restarts=0)


def ends_of_starts(exact: Problem, starts: Iterable[np.ndarray], rng: np.random.Generator) -> Iterator[Stage]:
    """Where the exact GP ends from each start at which it can be computed."""
    for start in starts:
        with suppress(KnotwiseError):
            yield exact.optimize(start, np.empty((0, exact.summary.n_columns)), rng)


def with_its_nugget(problem: Problem, stage: Stage, rng: np.random.Generator) -> Stage:
    """The better of two fits where a nugget has vanished, which on the log scale cannot come back by itself."""
    nugget = problem.table.of_part("nugget") & problem.free
    if not nugget.any() or (stage.theta[nugget] > problem.table.theta[nugget] - np.log(10)).all():
        return stage
    other = problem.optimize(np.where(nugget, problem.table.theta, stage.theta), stage.Z, rng)
    return other if other.value > stage.value else stage


def without_inputs(problem: Problem, theta: np.ndarray, Z: np.ndarray, rng: np.random.Generator) -> Stage:
    """Fit what is left of a model whose function is flat: its mean and its noise, which then is all that varies."""
    table, p, louder = problem.table, problem.model.sizes[0], problem.model.noise_directions
    flat = np.where(table.with_role("amplitude"), table.theta_bounds[:, 0], theta)
    all_noise = table.theta + np.log(NOISE_SHARES) * louder
    noise = (louder != 0) & problem.free & (louder * all_noise > louder * theta)
    flat = np.clip(np.where(noise, all_noise, flat), *table.theta_bounds.T)
    kernel_held = table.fixed.copy()
    kernel_held[:p] = True
    null = replace(problem.anew(), table=replace(table.with_theta(flat), fixed=kernel_held))
    return null.optimize(flat, Z, rng)


def subset_rows(problem: Problem, chosen: np.ndarray) -> Rows:
    """Some rows, as an exact GP on them should see them."""
    rows, model = problem.take(chosen), problem.model
    has_dispersion = model.noise_directions.any() or model.nugget.size > 0
    return rows if model.likelihood.discrete and not has_dispersion else rows.once


def log_spread(problem: Problem) -> float:
    """Logarithm of the spread of the columns that vary, to which length-scales are compared."""
    variances = problem.varying_variances
    return 0.5 * float(np.log(variances.mean() if len(variances) else 1.0))


def spread_out(theta: np.ndarray, plain: Problem, wide: Problem) -> np.ndarray:
    """Parameters of one kernel as those of another, where it has a length-scale for each column."""
    p, q = plain.model.sizes[0], wide.model.sizes[0]
    start = wide.table.theta.copy()
    start[q:] = theta[p:]
    for role in ("amplitude", "lengthscale"):
        start[:q][wide.table.with_role(role)[:q]] = theta[:p][plain.table.with_role(role)[:p]]
    low, high = wide.table.theta_bounds.T
    return np.clip(start, low, high)
