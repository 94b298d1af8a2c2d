"""What a decision is tried on: rows to fit, rows to predict, and how far these lie from the others.

Validation rows are drawn among the fitted ones ("near") or lie beyond them ("beyond"); a trial without any compares
evidences only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from knotwise.decisions.thresholds import KERNEL
from knotwise.evidence import Rows
from knotwise.kernels.base import Kernel
from knotwise.optimize.lbfgs import LBFGS
from knotwise.posterior.base import Posterior
from knotwise.selection.base import Stage
from knotwise.selection.optimizing import Objective
from knotwise.selection.problem import Problem
from knotwise.selection.starts import ends_of_starts, exact_on, subset_rows
from knotwise.selection.trace import KnotTrace

N_CANDIDATES = 60  # variances that are compared, over six orders of magnitude


@dataclass(frozen=True)
class Candidate:
    """Hyperparameters that were found for a problem, and what speaks for them.

    `value` is the log evidence of the rows that were fitted, `density` the log density of each validation row. `knots`
    are those through which they were found, on rows; of the exact GP those that it would have taken. `ended` is
    "converged", "exact" (they are the exact GP's), "too few" (the limit of the number of knots was reached before they
    were near those) or "moving" (they still moved with every choice of knots or neighbours); of `placement` a word of
    its `ENDS`.
    """

    problem: Problem
    stage: Stage
    value: float = np.nan
    density: np.ndarray = field(default_factory=lambda: np.empty(0))
    knots: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    ended: str = "converged"
    failed_restarts: int = 0

    @property
    def theta(self) -> np.ndarray:
        return self.stage.theta


@dataclass(frozen=True)
class Trial:
    """Rows to fit, and rows to predict at a distance: "near" the fitted ones, or "beyond" them."""

    fitted: Rows
    validation: Rows
    rng: np.random.Generator
    trace: KnotTrace
    distance: str = "near"

    @staticmethod
    def draw(problem: Problem, n_fit: int, rng: np.random.Generator, trace: KnotTrace) -> Trial:
        """Random rows of both kinds; of few rows most are fitted."""
        n_rows, share = problem.summary.n_rows, KERNEL.fitted_share
        n_fit = min(n_fit, int(share * n_rows)) if n_rows * (1 - share) >= KERNEL.least_validation_rows else n_rows
        chosen = rng.permutation(problem.sample(n_fit + KERNEL.validation_rows, rng, by_weight=True))
        fitted, validation = (np.sort(part) for part in (chosen[:n_fit], chosen[n_fit:]))
        return Trial(subset_rows(problem, fitted), problem.take(validation), rng, trace)

    @staticmethod
    def of_rows(rows: Rows, rng: np.random.Generator, trace: KnotTrace) -> Trial:
        """Rows to fit, and none to predict."""
        return Trial(rows, rows[:0], rng, trace)

    @staticmethod
    def among(problem: Problem, pool: Rows, numbers: np.ndarray, rng: np.random.Generator, trace: KnotTrace) -> Trial:
        """Some rows of a pool to fit, each once where their noise is learned, and none to predict."""
        rows = pool[np.sort(numbers)]
        return Trial.of_rows(rows if problem.model.likelihood.discrete else rows.once, rng, trace)

    def beyond(self, n: int, share: float) -> Iterator[Trial]:
        """The fitted rows, parted n times: a share of them past a half-space, which is predicted from the others."""
        rng = np.random.default_rng(0)  # the same half-spaces for every candidate
        for _ in range(n):
            along = self.fitted.X @ rng.standard_normal(self.fitted.X.shape[1])
            past = along > np.quantile(along, 1 - share)
            yield replace(
                self,
                fitted=self.fitted[np.flatnonzero(~past)],
                validation=self.fitted[np.flatnonzero(past)],
                distance="beyond",
            )

    # -- the exact GP of the fitted rows -------------------------------------------------------------

    @property
    def no_knots(self) -> np.ndarray:
        return np.empty((0, self.fitted.X.shape[1]))

    def exact(self, problem: Problem, search: LBFGS | None) -> Problem:
        """The problem of the fitted rows by the exact GP, with a short search of its own."""
        return exact_on(problem, self.fitted, search)

    def ends(self, exact: Problem, starts: Sequence[np.ndarray]) -> Iterator[Stage]:
        """Where a search ends from each start at which something can be computed."""
        return ends_of_starts(exact, starts, self.rng)

    def best(self, exact: Problem, starts: Sequence[np.ndarray]) -> Stage | None:
        """The best end of several starts; None where none can be computed."""
        return max(self.ends(exact, starts), key=lambda stage: stage.value, default=None)

    def value(self, exact: Problem, theta: np.ndarray) -> float:
        """The objective at given hyperparameters."""
        at = exact.point(theta, self.no_knots)
        return Objective(exact, at, np.zeros(0, bool)).value(at)

    # -- validation rows --------------------------------------------------------------------------------

    def gain(self, one: np.ndarray, other: np.ndarray, which: slice = slice(None)) -> tuple[float, float]:
        """Mean gain in log density of validation rows, or of some of them, and its standard error; NaN without rows."""
        weights = self.validation.weights
        return mean_gain(one[which], other[which], None if weights is None else weights[which])


def validation_density(posterior: Posterior, rows: Rows) -> np.ndarray:
    """Log predictive density of rows that were not fitted, [n]."""
    if not len(rows):
        return np.empty(0)
    mean, variance = _latent(posterior, rows)
    likelihood = posterior.state.model.likelihood_of(rows)
    return likelihood.log_predictive_density(rows.y, mean, variance, rows.sizes)


def predicted_mean(posterior: Posterior, rows: Rows) -> np.ndarray:
    """Predictive mean of the observations of rows that were not fitted, [n]."""
    mean, variance = _latent(posterior, rows)
    return posterior.state.model.likelihood_of(rows).response_moments(mean, variance, rows.sizes)[0]


def missing_noise(posterior: Posterior, rows: Rows) -> float:
    """The variance with which Gaussian rows that were not fitted are likeliest, if it is added to their predictions.

    A few rows with large errors that a small noise cannot explain ask for it.
    """
    mean, variance = _latent(posterior, rows)
    variance = variance + posterior.state.model.noise_of(rows).variance(rows)
    squares = (rows.y - mean) ** 2
    candidates = np.append(0.0, np.geomspace(1e-6, 1.0, N_CANDIDATES) * squares.max())
    total = variance[:, None] + candidates  # [n, candidates]
    return float(candidates[np.argmin((np.log(total) + squares[:, None] / total).sum(0))])


def _latent(posterior: Posterior, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of what is observed with the noise of the rows, [n]."""
    latent = posterior.latent(rows.X)
    return latent.mean, latent.variance + posterior.state.model.nugget.variance


def mean_gain(one: np.ndarray, other: np.ndarray, weights: np.ndarray | None) -> tuple[float, float]:
    """Mean gain of one density over another, rows by their sample weights, and its standard error; NaN without rows."""
    if not len(one):
        return np.nan, np.nan
    gains = one - other
    mean = float(np.average(gains, weights=weights))
    spread = float(np.average((gains - mean) ** 2, weights=weights))
    return mean, float(np.sqrt(spread / max(len(gains) - 1, 1)))


def describe_kernel(kernel: Kernel) -> str:
    """A kernel's name, whether it has a length-scale per column, and how many columns it sees, if not all."""
    if kernel.restricted_to is not None:
        n_columns = len(kernel.restricted_to)
        return f"{describe_kernel(kernel.unrestricted)} on {n_columns} column{'s' if n_columns > 1 else ''}"
    per_column = any(p.role == "lengthscale" and np.ndim(kernel.value(p.name)) for p in kernel.parameters)
    return f"{type(kernel).__name__}({'ard=True' if per_column else ''})"
