"""Does the noise of Gaussian data vary with the inputs? A test of a few milliseconds first, and fits where it says so.

The test asks whether sizes of errors of rows, each predicted from the others, go with a column, its distance from the
middle, the fitted mean or the sizes of neighbours. Where they do, the log noise variance gets a Gaussian process of its
own, and is taken where the bound of both (H2) is above the log evidence of constant noise, and rows are likelier under
it, each given the others. The bound has paid for what it does not know: it is far below the evidence of few rows. With
Vecchia neighbours there is no bound, and the rows alone decide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import rankdata

from knotwise.decisions import error_tails
from knotwise.decisions.thresholds import VARYING_NOISE
from knotwise.errors import KnotwiseError
from knotwise.evidence.model import Rows
from knotwise.kernels.base import Kernel
from knotwise.kernels.stationary import Matern52
from knotwise.likelihoods.gaussian import gaussian_of_rows
from knotwise.numerics.nearest import Nearest
from knotwise.posterior.in_sample import InSample
from knotwise.selection.base import Decision, Selection, Stage
from knotwise.selection.problem import Problem
from knotwise.selection.varying_noise import Searches, VaryingFit, alternate, posterior_of


@dataclass(frozen=True)
class Sizes:
    """Whether sizes of errors go with anything: the smallest p-value, times the number of tests, and of each column."""

    p: float
    of_column: np.ndarray
    n_rows: int


def decide(
    problem: Problem,
    selection: Selection,
    of_log_noise: Callable[[Kernel], Problem],
    rng: np.random.Generator,
    *,
    asked: bool,
) -> Decision[VaryingFit | None]:
    """The noise as a function of the inputs, or None where one number serves; `asked` leaves no choice.

    `problem` is that of the fit, which has ended at `selection`; `of_log_noise` makes the problem of the log noise
    variance under a kernel.
    """
    search = VARYING_NOISE.function_search
    f = replace(problem.anew(), full=selection.jitter is None, optimizer=search, n_restarts=0)
    f = replace(f, run=replace(f.run, journal=None))  # nothing of this takes long, or is kept
    n_rows, near = f.summary.n_rows, residual_neighbours(f) > 0
    if not asked and (n_rows < VARYING_NOISE.least_rows or (f.full and n_rows > VARYING_NOISE.exact_rows)):
        return Decision(None, "")
    levels = f.table.of_part("likelihood")
    if not asked and (selection.theta < f.table.theta_bounds[:, 0] + np.log(VARYING_NOISE.above_floor))[levels].any():
        return Decision(None, "")  # the data have next to no noise: errors are those of rounding, or of the function
    try:
        rows = f.rows
        start = f.evaluate(selection.point, gradient=False)
        seen = posterior_of(start, rows).in_sample(rows)
        sizes, tails = test(seen, rows, rng), dict(error_tails.decide(seen, rows).numbers)
        few = n_rows <= VARYING_NOISE.few_rows
        if not asked and sizes.p > (VARYING_NOISE.chance_of_few if few else VARYING_NOISE.chance):
            return Decision(None, "", {"p": sizes.p} | tails)
        stage = Stage(selection.point, selection.result)
        gammas = [of_log_noise(kernel) for kernel in _kernels(f, sizes)]
        n_knots = min(VARYING_NOISE.knots, max(n_rows // VARYING_NOISE.rows_per_knot, 2))
        searches = Searches(n_knots, VARYING_NOISE.rows, VARYING_NOISE.turns)
        least = -np.inf if asked or near else start.value
        best = _best_turn(alternate(f, stage, gammas, searches, rng), least, near=near)
    except KnotwiseError:
        if asked:
            raise
        return Decision(None, "")
    constant = gaussian_density(seen)
    gain = best.bound - start.value
    each = best.densities(rows) - constant
    mean, error = _mean_and_error(each, rows)
    numbers = {"p": sizes.p, "gain": gain, "density_gain": mean, "standard_error": error} | tails
    by_rows = f"{mean:+.3f} +- {error:.3f} in the log density of a row given the others"
    said = by_rows if near else f"{gain:.1f} nats, and {by_rows}"
    pays = near or gain > VARYING_NOISE.margin
    if asked or (pays and mean > VARYING_NOISE.sure * error):
        return Decision(best, said, numbers)
    return Decision(None, f"noise that varies gains {said}: not enough", numbers)


def residual_neighbours(problem: Problem) -> int:
    """How many Vecchia neighbours each row of a problem has."""
    residual = problem.model.residual
    return 0 if residual is None else residual.n_neighbors


def _best_turn(turns: Iterable[VaryingFit], least: float, *, near: bool) -> VaryingFit:
    """The last turn that raises the bound, or the first where that is below the `least`; with neighbours, where there
    is no bound, the last one.
    """
    best = None
    for turn in turns:
        gained = np.inf if best is None else turn.bound - best.bound
        if best is None or gained > 0 or near:
            best = turn
        if (gained < VARYING_NOISE.gain and not near) or best.bound < least:
            break
    assert best is not None
    return best


def gaussian_density(seen: InSample) -> np.ndarray:
    """Log density of each row given the others, [n], with the noise that it has."""
    return gaussian_of_rows(seen.noise).log_predictive_density(seen.left_error, 0.0, seen.left_variance)


def _mean_and_error(each: np.ndarray, rows: Rows) -> tuple[float, float]:
    """Mean gain of a row, by sample weights, and its standard error."""
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights
    mean = float(np.average(each, weights=weights))
    return mean, float(np.sqrt(np.sum((weights * (each - mean)) ** 2)) / weights.sum())


# -- the test ---------------------------------------------------------------------------------------------


def test(seen: InSample, rows: Rows, rng: np.random.Generator) -> Sizes:
    """Correlate normal scores of the sizes of errors with all that they may go with. Costs O(n (log n + D))."""
    X, mean = rows.X, rows.y - seen.left_error
    z = np.abs(seen.standardized)
    n, n_columns = X.shape
    s = ndtri(0.5 + 0.5 * rankdata(z) / (n + 1)) ** 2  # Klotz's scores: squares of half-normal quantiles
    s = (s - s.mean()) / s.std() if np.ptp(s) > 0 else np.zeros(n)
    found, column_of = [], []
    for j, x in enumerate([*X.T, mean]):
        if np.ptp(x) == 0:
            continue
        rank = 2.0 * (rankdata(x) - 0.5) / n - 1.0
        each = [rank] if j == n_columns or len(np.unique(x)) <= 2 else [rank, rank**2]
        for way in each:
            way = way - way.mean()
            found.append(float(way @ s / np.sqrt(way @ way)))
            column_of.append(j)
    p = list(2.0 * ndtr(-np.abs(found)))
    of_column = np.ones(n_columns)
    for j, value in zip(column_of, p, strict=True):
        if j < n_columns:
            of_column[j] = min(of_column[j], value)
    if n >= VARYING_NOISE.neighbour_rows:
        p.append(_agreement(X, s, rng))
    return Sizes(float(min(1.0, len(p) * min(p, default=1.0))), of_column, n)


def _agreement(X: np.ndarray, s: np.ndarray, rng: np.random.Generator) -> float:
    """The chance that sizes of errors of near rows agree as much as they do: of equal rows only one is asked."""
    places, first = np.unique(X, axis=0, return_index=True)
    if len(places) > VARYING_NOISE.test_rows:
        chosen = np.sort(rng.choice(len(places), VARYING_NOISE.test_rows, replace=False))
        places, first = places[chosen], first[chosen]
    if len(places) < VARYING_NOISE.neighbour_rows:
        return 1.0
    values = s[first]
    near = Nearest(places)(places, VARYING_NOISE.near + 1)
    pairs = np.column_stack([np.repeat(np.arange(len(places)), near.shape[1]), near.ravel()])
    pairs = np.unique(np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1), axis=0)
    products = values[pairs[:, 0]] * values[pairs[:, 1]]
    return float(ndtr(-products.sum() / np.sqrt(len(pairs))))


def _kernels(problem: Problem, sizes: Sizes) -> Sequence[Kernel]:
    """Kernels of the log noise: one length-scale for all columns, or one for each of those that it may vary along."""
    varies = np.flatnonzero(problem.summary.varies)
    if len(varies) <= 1:
        return [Matern52()]
    if len(varies) <= VARYING_NOISE.columns:
        return [Matern52(), Matern52(ard=True)]
    seen = np.sort(np.argsort(sizes.of_column, kind="stable")[: VARYING_NOISE.seen])
    return [Matern52(), Matern52(ard=True).on([int(j) for j in seen])]
