"""Normal noise, or heavy tails? Where errors look like those of a t law, the data are fitted with Student-t noise, too.

That fit, by a scale mixture of normals, is taken where its bound pays for the degrees of freedom, and rows are likelier
under it, each given the others (M7). With Vecchia neighbours there is no bound, and the rows alone decide.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from knotwise.decisions.noise import gaussian_density, residual_neighbours
from knotwise.decisions.thresholds import HEAVY_TAILS
from knotwise.errors import KnotwiseError
from knotwise.evidence import full_evidence, sparse_evidence
from knotwise.likelihoods import Gaussian
from knotwise.selection.base import Decision, Selection
from knotwise.selection.problem import Problem
from knotwise.selection.varying_noise import posterior_of


@dataclass(frozen=True)
class Fitted:
    """A fit, and by how much its log densities are to be raised to be those of the user's units of y."""

    problem: Problem
    selection: Selection
    log_scale: float

    @property
    def value(self) -> float:
        """The log evidence, or its bound, in the user's units."""
        return self.selection.evidence.value - self.problem.summary.count * self.log_scale

    def densities(self) -> tuple[np.ndarray, np.ndarray]:
        """Log density of each row given the others, and sample weights, [n] each, in an order that fits share."""
        rows = self.problem.rows
        each = left_out_densities(self.problem, self.selection) - self.log_scale
        order = np.lexsort([rows.y, *rows.X.T])
        weights = np.ones(len(rows)) if rows.weights is None else rows.weights
        return each[order], weights[order]


def decide(normal: Fitted, heavy: Fitted) -> Decision[bool]:
    """Whether a fit with Student-t noise is to be taken instead of that with constant normal noise."""
    near = max(residual_neighbours(fit.problem) for fit in (normal, heavy)) > 0
    if not heavy.selection.evidence.converged:
        return Decision(False, "")
    gain = heavy.value - normal.value
    try:
        (t, weights), (constant, others) = heavy.densities(), normal.densities()
    except KnotwiseError:
        return Decision(False, "")
    if len(t) == len(constant):
        mean, error = _mean_and_error(t - constant, weights)
    else:  # rows that one law counts once, and the other each by itself
        (one, its), (other, own) = _mean_and_error(t, weights), _mean_and_error(constant, others)
        mean, error = one - other, float(np.hypot(its, own))
    df = heavy.problem.model.with_theta(heavy.selection.theta).likelihood.value("df")
    numbers = {"gain": gain, "density_gain": mean, "standard_error": error, "df": float(df)}
    by_rows = f"{mean:+.3f} +- {error:.3f} in the log density of a row given the others"
    said = by_rows if near else f"{gain:.1f} nats, and {by_rows}"
    pays = near or gain > HEAVY_TAILS.margin
    sure = HEAVY_TAILS.near_sure if near else HEAVY_TAILS.sure
    if pays and mean > sure * error:
        return Decision(True, said, numbers)
    return Decision(False, f"noise with heavy tails gains {said}: not enough", numbers)


def left_out_densities(problem: Problem, selection: Selection) -> np.ndarray:
    """Log density of each row given the others, [n], of Gaussian data or of a scale mixture at held precisions (M7)."""
    problem = replace(problem.anew(), full=selection.jitter is None)
    rows, found = problem.rows, problem.evaluate(selection.point, gradient=False)
    model = problem.model.with_theta(selection.theta)
    if model.likelihood.conjugate:
        return gaussian_density(posterior_of(found, rows).in_sample(rows))
    last = found.state.last if problem.full else problem.run.blocks.last()
    if last is None:
        raise KnotwiseError("The search has left no sites.")
    W = np.maximum(last[:, 1], HEAVY_TAILS.least_precision / model.kernel.diag(rows.X))
    # given the precisions, f is that of Gaussian data with known noise  (M3)
    held = replace(rows, y=model.mean.offset + last[:, 2] / W, noise_variance=1.0 / W, given_noise=None)
    gaussian = replace(model, likelihood=Gaussian(1.0), inference=None)
    if problem.full:
        evidence = full_evidence(gaussian, held, gradient=False)
    else:
        assert selection.jitter is not None
        blocks = problem.run.blocks.at_driver(held)
        evidence = sparse_evidence(gaussian, blocks, selection.Z, jitter=selection.jitter, gradient=False)
    seen = posterior_of(evidence, held).in_sample(held)
    error = seen.left_error + rows.y - held.y
    return model.likelihood.log_predictive_density(error, np.zeros(len(rows)), seen.left_variance)


def _mean_and_error(each: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """Mean of a row, by sample weights, and its standard error."""
    mean = float(np.average(each, weights=weights))
    return mean, float(np.sqrt(np.sum((weights * (each - mean)) ** 2)) / weights.sum())
