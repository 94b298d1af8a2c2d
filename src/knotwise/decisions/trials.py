"""What a decision is tried on: rows of all scales to fit, and rows to predict near them, in gaps and beyond.

A trial without validation rows compares evidences only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from knotwise.decisions.thresholds import KERNEL
from knotwise.decisions.validation import Fold, Labels, draw_folds, farthest
from knotwise.evidence import Rows
from knotwise.kernels.base import Kernel
from knotwise.numerics.blocks import Executor, Serial
from knotwise.optimize.lbfgs import LBFGS
from knotwise.optimize.newton import KnownCurvature
from knotwise.posterior.base import Latent, Posterior
from knotwise.posterior.exact import ExactPosterior
from knotwise.selection.base import Stage
from knotwise.selection.optimizing import Objective
from knotwise.selection.places import NearnessPass
from knotwise.selection.problem import Problem
from knotwise.selection.starts import ends_of_starts, exact_on, subset_rows
from knotwise.selection.trace import KnotTrace

MOMENTS = ("mean", "variance")

N_CANDIDATES = 60  # variances that are compared, over six orders of magnitude

Result = TypeVar("Result")


@dataclass(frozen=True)
class Candidate:
    """Hyperparameters that were found for a problem, and what speaks for them.

    `value` is the log evidence of the rows that were fitted, `density` the log density of each validation row, and
    `share` the largest share of the prior variance of f that is left at one of them. `knots`
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
    information: np.ndarray | None = None
    share: float = np.nan

    @property
    def theta(self) -> np.ndarray:
        return self.stage.theta


@dataclass(frozen=True)
class Trial:
    """Rows to fit, and rows to predict: `validation` near the fitted ones, and `folds` of the fitted rows themselves,
    which are predicted from those that stay. Without `validation`, but with folds or where `each_alone` asks for it,
    each row is predicted from all others.
    """

    fitted: Rows
    validation: Rows
    rng: np.random.Generator
    trace: KnotTrace
    folds: tuple[Fold, ...] = ()
    each_alone: bool = False

    @staticmethod
    def draw(problem: Problem, n_fit: int, rng: np.random.Generator, trace: KnotTrace) -> Trial:
        """Rows of all scales to fit: thin ones everywhere, and patches of adjacent rows; others to predict.

        Few Gaussian rows are all fitted. Of few others, or few for their columns, most are, and the rest is predicted:
        what is left out of a fit with many hyperparameters must not have told them.
        """
        n_rows, n_fit = problem.summary.n_rows, Trial.n_fitted(problem, n_fit)
        if n_fit == n_rows:
            rows = subset_rows(problem, np.arange(n_rows))
            return Trial(rows, rows[:0], rng, trace, _folds_of(problem, rows, rng))
        in_patches = _patches(problem, n_fit, rng)
        n_thin = n_fit - len(in_patches)
        chosen = rng.permutation(problem.sample(n_thin + KERNEL.validation_rows, rng, by_weight=True))
        fitted = np.union1d(chosen[:n_thin], in_patches)
        rows = subset_rows(problem, fitted)
        validation = problem.take(np.setdiff1d(chosen[n_thin:], fitted))
        return Trial(rows, validation, rng, trace, _folds_of(problem, rows, rng))

    @staticmethod
    def n_fitted(problem: Problem, n_fit: int) -> int:
        """How many rows are fitted, if it may be so many: all, or those that leave enough to predict."""
        n_rows, share = problem.summary.n_rows, KERNEL.fitted_share
        closed_form = problem.model.likelihood.conjugate and not problem.summary.is_weighted
        few_columns = KERNEL.rows_per_parameter * len(problem.varying_variances) <= n_rows
        if closed_form and few_columns and n_rows <= min(KERNEL.a_few_more * n_fit, KERNEL.finalist_rows[-1]):
            return n_rows
        return min(n_fit, int(share * n_rows)) if n_rows * (1 - share) >= KERNEL.least_validation_rows else n_rows

    @staticmethod
    def of_rows(rows: Rows, rng: np.random.Generator, trace: KnotTrace) -> Trial:
        """Rows to fit, and none to predict."""
        return Trial(rows, rows[:0], rng, trace)

    @staticmethod
    def among(problem: Problem, pool: Rows, numbers: np.ndarray, rng: np.random.Generator, trace: KnotTrace) -> Trial:
        """Some rows of a pool to fit, each once where their noise is learned, and none to predict."""
        rows = pool[np.sort(numbers)]
        return Trial.of_rows(rows if problem.model.likelihood.discrete else rows.once, rng, trace)

    def each(self, search: Callable[..., Result], items: Sequence[Any]) -> Iterator[Result]:
        """What a search finds for each item, `search(trial, item)`; searches do not depend on each other."""
        return map(search, [self] * len(items), items)

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

    @cached_property
    def labels(self) -> Labels:
        """What each validation row is: those near the others, then those of the folds."""
        near = self.fitted if not len(self.validation) and (self.folds or self.each_alone) else self.validation
        return Labels.of(len(near), self.folds, near.weights)

    def judged(self, tried: Candidate) -> Candidate:
        """The candidate with the log density of each validation row, at its hyperparameters."""
        if len(tried.density) or not len(self.labels):
            return tried
        posterior = self._posterior(tried)
        rows, groups = posterior.rows, [fold.removed for fold in self.folds]
        alone = [] if len(self.validation) else [np.array([i]) for i in range(len(rows))]
        left = self._left_out(posterior, alone + groups)
        densities, shares = [], []

        def judge(rows: Rows, at: Latent) -> None:
            densities.append(_density_at(posterior, rows, at))
            shares.append(posterior.share_left(rows.X, at.variance))

        if len(self.validation):
            judge(self.validation, posterior.latent(self.validation.X))
        # the rows that were left out are judged all at once: of a few at a time a density takes as long as of many
        which = alone + [fold.judged for fold in self.folds]
        here = [np.searchsorted(out, some) for out, some in zip(alone + groups, which, strict=True)]
        if which:
            moments = (np.concatenate([getattr(at, m)[i] for at, i in zip(left, here, strict=True)]) for m in MOMENTS)
            judge(rows[np.concatenate(which)], Latent(*moments))
        return replace(tried, density=np.concatenate(densities), share=float(np.concatenate(shares).max()))

    def densities_of(self, tried: Candidate, rows: Rows) -> np.ndarray:
        """Log predictive density of some rows at a candidate's hyperparameters, [n]."""
        return validation_density(self._posterior(tried), rows)

    def error_beyond(self, tried: Candidate) -> float:
        """Mean squared error of predicted observations past the half-spaces."""
        posterior = self._posterior(tried)
        rows = posterior.rows
        folds = [fold.removed for fold in self.folds if fold.kind == "beyond"]
        left = self._left_out(posterior, folds)
        errors = [rows.y[fold] - _mean_at(posterior, rows[fold], at) for fold, at in zip(folds, left, strict=True)]
        return float(np.mean(np.concatenate([*errors, np.zeros(0)]) ** 2)) if folds else 0.0

    def _posterior(self, tried: Candidate) -> ExactPosterior:
        exact = self.exact(tried.problem, None)
        if not exact.model.likelihood.conjugate:  # a fold is one search for sites, and Laplace's are the quickest
            exact = exact.by_surrogate
        return ExactPosterior(exact.evaluate(exact.point(tried.theta, self.no_knots), gradient=False).state)

    def _left_out(self, posterior: ExactPosterior, groups: Sequence[np.ndarray]) -> list[Latent]:
        if posterior.state.model.likelihood.conjugate:
            return posterior.leave_out(posterior.rows, groups, Serial(), self.rng)
        return posterior.leave_out_at_held_sites(groups)  # a search for sites in each fold would take long

    def gain(self, one: Candidate, other: Candidate, kinds: Sequence[str] | None = None) -> tuple[float, float]:
        """Mean gain in log density over the kinds of validation rows, and its standard error; NaN without rows."""
        return self.labels.gain(one.density, other.density, kinds)

    def reach(self, tried: Candidate) -> float:
        """How far from the rows that stay the judged ones are, in length-scales of a candidate."""
        return farthest(tried.problem.model.with_theta(tried.theta).kernel.coordinates(self.fitted.X), self.folds)

    def share_left(self, tried: Candidate) -> float:
        """The largest share of the prior variance of f that is left at a row that was judged; NaN without rows."""
        return self.judged(tried).share


def _patches(problem: Problem, n_fit: int, rng: np.random.Generator) -> np.ndarray:
    """Numbers of adjacent rows, where the rows that can be fitted are thin among all."""
    n_rows = problem.summary.n_rows
    if n_rows < KERNEL.thin * n_fit or problem.summary.is_weighted:
        return np.empty(0, int)
    size = int(KERNEL.patch_share * n_fit) // KERNEL.patches
    anchors = problem.take(np.sort(rng.choice(n_rows, KERNEL.patches, replace=False))).X
    return np.unique([problem.run.blocks.top(NearnessPass(anchor), size) for anchor in anchors])


def _folds_of(problem: Problem, rows: Rows, rng: np.random.Generator) -> tuple[Fold, ...]:
    kernel = problem.model.kernel
    asked = None if problem.asked is None else kernel.coordinates(problem.asked)
    return tuple(draw_folds(kernel.coordinates(rows.X), rng, asked))


def known_curvature(problem: Problem, like: Candidate | None) -> KnownCurvature | None:
    """A search that begins with the curvature of a similar candidate; None where that is not known."""
    if like is None or like.information is None or len(like.information) != problem.free.sum():
        return None
    information = like.information * problem.summary.count
    return KnownCurvature(information, KERNEL.newton_steps, KERNEL.flat, KERNEL.longest_step)


def validation_density(posterior: Posterior, rows: Rows, executor: Executor | None = None) -> np.ndarray:
    """Log predictive density of rows that were not fitted, [n]."""
    if not len(rows):
        return np.empty(0)
    return _density_at(posterior, rows, posterior.latent(rows.X, executor))


def _density_at(posterior: Posterior, rows: Rows, latent: Latent) -> np.ndarray:
    """Log predictive density of rows with these marginals of f, [n]."""
    model = posterior.state.model
    variance = latent.variance + model.nugget.variance
    return model.likelihood_of(rows).log_predictive_density(rows.y, latent.mean, variance, rows.sizes)


def _mean_at(posterior: Posterior, rows: Rows, latent: Latent) -> np.ndarray:
    """Predictive mean of the observations of rows with these marginals of f, [n]."""
    model = posterior.state.model
    variance = latent.variance + model.nugget.variance
    return model.likelihood_of(rows).response_moments(latent.mean, variance, rows.sizes)[0]


def missing_noise(posterior: Posterior, rows: Rows, executor: Executor | None = None) -> float:
    """The variance with which Gaussian rows that were not fitted are likeliest, if it is added to their predictions.

    A few rows with large errors that a small noise cannot explain ask for it.
    """
    latent, model = posterior.latent(rows.X, executor), posterior.state.model
    variance = latent.variance + model.nugget.variance + model.noise_of(rows).variance(rows)
    squares = (rows.y - latent.mean) ** 2
    candidates = np.append(0.0, np.geomspace(1e-6, 1.0, N_CANDIDATES) * squares.max())
    total = variance[:, None] + candidates  # [n, candidates]
    return float(candidates[np.argmin((np.log(total) + squares[:, None] / total).sum(0))])


def describe_kernel(kernel: Kernel) -> str:
    """A kernel's name, whether it has a length-scale per column, and how many columns it sees, if not all."""
    if kernel.restricted_to is not None:
        n_columns = len(kernel.restricted_to)
        return f"{describe_kernel(kernel.unrestricted)} on {n_columns} column{'s' if n_columns > 1 else ''}"
    per_column = any(p.role == "lengthscale" and np.ndim(kernel.value(p.name)) for p in kernel.parameters)
    return f"{type(kernel).__name__}({'ard=True' if per_column else ''})"
