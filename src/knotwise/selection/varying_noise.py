"""Noise that varies with the inputs: its log variance is a Gaussian process g, found in turn with the function f.

Given q(g), f is the usual problem with a noise variance for each row; given q(f), g has the gamma likelihood of shape
1/2 and squared errors for data (H1). Both are problems of the engine, and each step raises one bound (H2).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from knotwise.evidence import Evidence
from knotwise.evidence.full_sites import FullState
from knotwise.evidence.model import Rows
from knotwise.evidence.residual import residual_of
from knotwise.likelihoods.varying import NoisePattern, VaryingGaussian, gaussian_of_log_noise
from knotwise.posterior.base import Posterior
from knotwise.posterior.exact import ExactPosterior
from knotwise.posterior.in_sample import InSample
from knotwise.posterior.knots import KnotPosterior
from knotwise.posterior.vecchia import VecchiaPosterior, VecchiaState
from knotwise.selection.base import Stage
from knotwise.selection.places import Pivots
from knotwise.selection.problem import Problem

#: of a squared error that is 0 in all digits, relative to the mean: a gamma likelihood has no place for it
LEAST_SQUARE = 1e-12
#: share of a row's log noise variance in its own say, beyond which it is not taken off
MOST_OWN = 0.9
#: rows among which knots of g are looked for
POOL_ROWS = 2000


@dataclass(frozen=True)
class Searches:
    """How long is looked for what: knots of g, rows that tell its hyperparameters, and turns."""

    n_knots: int
    rows: int
    turns: int


@dataclass(frozen=True)
class NoiseFit:
    """q(g) of some rows: mean and variance of the log noise variance there, [n] each, and what it costs, KL_g (H2)."""

    problem: Problem
    stage: Stage
    pattern: NoisePattern
    mean: np.ndarray
    variance: np.ndarray
    penalty: float

    @property
    def elbo(self) -> float:
        """The bound of the gamma problem, on the rows that identify its hyperparameters."""
        return self.problem.log_evidence(self.stage)

    def without_own(self, squares: np.ndarray, weights: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of g without what each row says of it itself: its site is taken off  (H4)."""
        ratio = weights * 0.5 * squares * np.exp(0.5 * self.variance - self.mean)
        variance = self.variance / (1.0 - np.minimum(ratio * self.variance, MOST_OWN))
        return self.mean - variance * (ratio - 0.5 * weights), variance


@dataclass(frozen=True)
class VaryingFit:
    """One turn: the problem of f with the noise of q(g), where it ended, and the bound of both (H2)."""

    problem: Problem
    stage: Stage
    evidence: Evidence
    noise: NoiseFit
    seen: InSample
    bound: float

    def densities(self, rows: Rows) -> np.ndarray:
        """Log density of each training row given the others, [n]."""
        mean, variance = self.noise.without_own(self.seen.squares, 1.0 if rows.weights is None else rows.weights)
        law = gaussian_of_log_noise(mean, variance)
        return law.log_predictive_density(self.seen.left_error, np.zeros(len(rows)), self.seen.left_variance)


def posterior_of(evidence: Evidence, rows: Rows) -> Posterior:
    """The posterior of f of an evidence of these rows."""
    state = evidence.state
    if type(state) is FullState:
        return ExactPosterior(state)
    if residual_of(state.model).n_neighbors:
        return VecchiaPosterior(VecchiaState.of(state, rows))
    return KnotPosterior(state)


def alternate(
    problem: Problem, stage: Stage, gammas: list[Problem], searches: Searches, rng: np.random.Generator
) -> Iterator[VaryingFit]:
    """Turns of the alternation, from a fit of constant noise on.

    `gammas` are problems of g under several kernels, without targets: the likeliest is taken in the first turn. Costs
    for each turn a search for the hyperparameters of g on some rows, a few evaluations of f, and a pass over the rows.
    """
    rows, noise = problem.rows, None
    seen = posterior_of(problem.evaluate(stage.point, gradient=False), rows).in_sample(rows)
    for _ in range(searches.turns):
        noise = fit_noise(gammas, rows, seen.squares, searches, rng, noise)
        varying, theta = with_noise(problem, noise, stage.theta, rows.weights)
        stage = varying.optimize(theta, stage.Z, rng)
        # the level has moved with f, and the mean of g with it, so that KL_g is what it was
        moved = float((stage.theta - theta)[problem.table.of_part("likelihood")][0])
        noise = replace(noise, mean=noise.mean + moved)
        evidence = varying.evaluate(stage.point, gradient=False)
        seen = posterior_of(evidence, rows).in_sample(rows)
        bound = evidence.value - 0.25 * rows.total(noise.variance) - noise.penalty
        yield VaryingFit(varying, stage, evidence, noise, seen, bound)


def fit_noise(
    gammas: list[Problem],
    rows: Rows,
    squares: np.ndarray,
    searches: Searches,
    rng: np.random.Generator,
    before: NoiseFit | None = None,
) -> NoiseFit:
    """q(g) of rows with expected squared errors [n], from where the turn before has ended."""
    unit = float(np.average(squares, weights=rows.weights))
    targets = np.maximum(squares / unit, LEAST_SQUARE)
    data = replace(rows, y=targets, noise_variance=None, given_noise=None)
    if before is not None:
        gammas = [before.problem]
    few = np.arange(len(rows))
    if len(rows) > searches.rows:
        few = np.sort(rng.choice(len(rows), searches.rows, replace=False))
    fits = []
    for gamma in gammas:
        some = gamma.on_rows(data[few])
        theta = some.table.theta if before is None else before.stage.theta
        Z = _knots(some, theta, searches.n_knots, rng)
        fits.append((some, some.optimize(theta, Z, rng)))
    some, stage = max(fits, key=lambda fit: fit[0].log_evidence(fit[1]) - fit[0].free.sum())
    whole = some if len(few) == len(rows) else some.on_rows(data)
    evidence = whole.evaluate(stage.point, gradient=False)
    state = evidence.state
    latent = KnotPosterior(state).latent(rows.X)
    model = state.model
    explained = model.likelihood.expectations(targets, latent.mean, latent.variance).log_density
    penalty = rows.total(explained) - evidence.value
    pattern = NoisePattern(model.kernel, model.mean.offset, state.Z, state.L_inverse, state.T, state.gamma)
    mean = latent.mean + np.log(unit)
    pattern = replace(pattern, offset=pattern.offset + float(np.log(unit)))
    return NoiseFit(some, stage, pattern, mean, latent.variance, penalty)


def with_noise(
    problem: Problem, noise: NoiseFit, theta: np.ndarray, weights: np.ndarray | None
) -> tuple[Problem, np.ndarray]:
    """The problem of f with the noise of q(g), and hyperparameters to start from.

    The level of the noise, a parameter of f, is that of the rows on average, and the pattern is about it; a level that
    is held stays.
    """
    levels = problem.table.of_part("likelihood")  # one
    theta = theta.copy()
    if (levels & problem.free).any():
        low, high = problem.table.theta_bounds[levels][0]
        theta[levels] = np.clip(np.average(noise.mean, weights=weights), low, high)
    level = float(theta[levels][0])
    pattern = replace(noise.pattern, offset=noise.pattern.offset - level)
    likelihood = VaryingGaussian(float(np.exp(level))).with_pattern(pattern)
    model = replace(problem.model, likelihood=likelihood)
    return replace(problem.anew(), model=model), theta


def _knots(problem: Problem, theta: np.ndarray, n_knots: int, rng: np.random.Generator) -> np.ndarray:
    """Rows that tell most of g under its kernel, which see the columns that it varies along."""
    X = problem.take(problem.sample(POOL_ROWS, rng)).X
    return X[Pivots(problem.model.with_theta(theta).kernel, X).extend(n_knots)]
