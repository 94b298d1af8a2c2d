"""What near rows are predicted from: the data where they are Gaussian, else the sites that stand for them (N6)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from knotwise.decisions.thresholds import NEIGHBOURS
from knotwise.errors import KnotwiseError
from knotwise.evidence import Point, Rows
from knotwise.evidence.inference import HeldSites
from knotwise.evidence.inference.base import PseudoData
from knotwise.evidence.residual import Neighbours, vecchia_ordering
from knotwise.evidence.residual.correlation import GivenKnots
from knotwise.posterior.vecchia import VecchiaState
from knotwise.selection.problem import Problem


@dataclass(frozen=True)
class Observed:
    """Rows with observations of the function: y, and its noise. Of Gaussian data they are the rows as they came.

    Of other data they are sites at some parameters, which `state` holds together with the posterior of all rows, and
    `value` is the log evidence.
    """

    rows: Rows
    state: VecchiaState | None = None
    sites: PseudoData | None = None
    value: float = np.nan


def with_neighbours(problem: Problem, residual: Neighbours) -> Problem:
    """The problem where Vecchia neighbours predict the residual, by the inference of which all values are."""
    inference = problem.model.inference
    inference = inference and inference.with_neighbours()
    model = replace(problem.model, power=1.0, residual=residual, inference=inference)
    return replace(problem, model=model, n_restarts=0, surrogate=None)


def given_knots(problem: Problem, theta: np.ndarray, Z: np.ndarray) -> GivenKnots:
    """Residuals of rows given the knots, by which neighbours are chosen where one distance does not tell."""
    point = problem.point(theta, Z)
    assert point.jitter is not None
    return GivenKnots.of(problem.model.with_theta(theta), problem.rows, Z, point.jitter)


def observe(
    problem: Problem,
    rows: Rows,
    point: Point,
    n_neighbors: int,
    rng: np.random.Generator,
    start: PseudoData | None = None,
) -> Observed:
    """The observations of rows: the data, or their sites at a point; those of another point may be the start.

    Raises a `KnotwiseError` where the sites are not found.
    """
    if problem.model.likelihood.conjugate:
        return Observed(rows)
    model = problem.model.with_theta(point.theta)
    given = given_knots(problem.on_rows(rows), point.theta, point.Z)
    ordering = vecchia_ordering(model.kernel, rows, n_neighbors, rng, around=True, given=given)
    order = ordering.rows
    near = with_neighbours(problem.on_rows(rows[order]), ordering.residual)
    if near.model.inference is not None:
        inference = near.model.inference.with_tolerance(NEIGHBOURS.found, at_least=True)
        near = replace(near, model=replace(near.model, inference=inference))
    if start is not None:
        near.run.blocks.restore(np.column_stack([np.zeros(len(rows)), start.W, start.b])[order])
    evidence = near.evaluate(point, gradient=False)
    if not evidence.converged:
        raise KnotwiseError(f"No sites here: {evidence.why}.")
    found, back = evidence.state.pseudo, np.argsort(order)
    sites = PseudoData(*(each[back] for each in vars(found).values()))
    state = VecchiaState.of(evidence.state, rows[order])
    return Observed(as_observations(problem, rows, point.theta, sites), state, sites, evidence.value)


def as_observations(problem: Problem, rows: Rows, theta: np.ndarray, sites: PseudoData) -> Rows:
    """Rows whose targets and noise are those of their sites."""
    offset = problem.model.with_theta(theta).mean.offset
    return replace(rows, y=offset + sites.r, noise_variance=1.0 / sites.W, size=None)


def hold(problem: Problem) -> Problem:
    """The problem of rows with observations: for data that are not Gaussian, with sites that stay."""
    if problem.model.likelihood.conjugate:
        return problem
    return replace(problem, model=replace(problem.model, inference=HeldSites()))


def learn_likelihood(problem: Problem, rows: Rows, sites: PseudoData, theta: np.ndarray) -> np.ndarray:
    """theta with those parameters of the likelihood that make the rows likeliest under held marginals (N6)."""
    table = problem.table
    free = table.of_part("likelihood") & problem.free
    if not free.any():
        return theta
    own = free[table.of_part("likelihood")]

    def objective(vector: np.ndarray) -> tuple[float, np.ndarray]:
        at = theta.copy()
        at[free] = vector
        likelihood = problem.model.with_theta(at).likelihood
        given = rows.y, sites.mean, sites.variance, rows.sizes
        value = rows.total(likelihood.expectations(*given).log_density)
        bars = np.array([rows.total(bar) for bar in likelihood.expected_parameter_derivatives(*given)])
        prior, prior_bar = table.log_prior(at)
        return value + prior, bars[own] + prior_bar[free]

    best = NEIGHBOURS.likelihood.maximize(objective, theta[free], table.theta_bounds[free])
    moved = theta.copy()
    moved[free] = best.parameters
    return moved
