"""Uneven noise: whether it can be tested for, the heteroscedasticity test, and what a diagnosis says of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from knotwise.diagnosis.findings import Finding, without_data
from knotwise.diagnosis.neighbours import Neighbours
from knotwise.diagnosis.spread import LEAST_ROWS, Errors, SpreadTest, spread_test
from knotwise.evidence.model import Rows
from knotwise.posterior.residuals import Residuals

__all__ = ["compare_sizes", "describe_spread"]

ALARM = 0.005  # p-value over all that sizes of errors may go with
VISIBLE, LARGE = 1.3, 2.0  # ratio of errors in outer fifths of the rows: worth a word, and a problem
ROWS_PER_KNOT = 10  # from which on a knot knows little of a single row
ALIKE = 0.8  # share of the rows that must count equally often, and of which sizes are compared
DISTINCT, COARSE = 0.5, 0.5  # share of different targets, and steps of fewer in standard deviations of an error
MOSTLY_NOISE = 0.5  # share of the noise in the variance of a leave-one-out prediction


def compare_sizes(
    estimator: Any, rows: Rows | None, found: tuple[Residuals, Neighbours] | None
) -> tuple[SpreadTest | None, str]:
    """The heteroscedasticity test of the rows of a fit; or None, and why it could not be done."""
    fit = estimator._fit
    likelihood = fit.model.likelihood
    if not likelihood.quadratic:
        return None, f"the test is for Gaussian noise of y or log y, and not for {type(likelihood).__name__}"
    if rows is None:
        return None, ""
    if found is None or len(found[1].rows) < LEAST_ROWS:
        return None, f"{len(rows)} different rows are too few (from {LEAST_ROWS} on sizes of errors are compared)"
    if fit.n_neighbors and len(rows) < ROWS_PER_KNOT * fit.posterior.n_knots:
        return None, (
            f"{fit.posterior.n_knots} knots are many among {len(rows)} rows, and with neighbours what they "
            "know of a single row cannot be taken off"
        )
    residuals, neighbours = found
    if not (np.isfinite(residuals.a).all() and np.isfinite(residuals.variance).all()):
        return None, "residuals are no numbers"
    counts = _counts(fit, rows)[neighbours.rows]
    chosen = np.flatnonzero((counts == _most_frequent(counts)) & (residuals.variance > 0))
    if len(chosen) < max(LEAST_ROWS, ALIKE * len(counts)):
        return None, "rows count differently often (weights or equal rows), and the error of several is that of a mean"
    errors, some = Errors(residuals, neighbours, chosen), rows[neighbours.rows[chosen]]
    coarse = _why_coarse(some.y, errors, likelihood)
    if coarse:
        return None, coarse
    noise = fit.model.noise_of(some).variance(some) if likelihood.conjugate else _noise(likelihood)
    names = [str(name) for name in estimator._column_names] or [f"column {i}" for i in range(some.X.shape[1])]
    test = spread_test(errors, some.X, fit.posterior.latent(some.X).mean, noise, names)
    return test, "" if test is not None else "inputs or errors do not vary"


def describe_spread(estimator: Any, test: SpreadTest | None, why_not: str, rows: Rows | None, near: Finding) -> Finding:
    """Whether errors are larger in some places than in others, or why that was not tested.

    `near` is what was found in the residuals of neighbours: structure that is missed comes first.
    """
    if test is None:
        untested = Finding("spread", "unknown", f"not tested for uneven noise: {why_not}")
        return untested if why_not else without_data(["spread"])
    tested = (
        f"heteroscedasticity test of {test.n_rows:,} rows: p = {test.p:.2g} (sizes of leave-one-out errors beside each "
        f"column, the fitted mean{' and neighbours' if test.among_neighbours else ''})"
    )
    if test.p >= ALARM:
        return Finding("spread", "ok", f"no sign of uneven noise: {tested}")
    (calm, wild), (small, large) = test.coverage, test.where
    ratio = f"{test.ratio:.1f} times as large where {large} as where {small}"
    of_function = test.noise_share <= MOSTLY_NOISE
    if test.ratio <= (LARGE if of_function else VISIBLE):
        return Finding("spread", "ok", f"no uneven noise that matters, errors are {ratio}: {tested}")
    text = (
        f"{ratio} (outer fifths of the rows), and {wild:.0%} of the rows lie in their 95% intervals there and "
        f"{calm:.0%} here; {tested}"
    )
    if of_function:
        return Finding("spread", "note", f"errors of the function are {text}", _advice(estimator, test, rows, near))
    text = f"errors are larger in some places than in others: {text}"
    level = "problem" if test.ratio > LARGE else "note"
    return Finding("spread", level, text, _advice(estimator, test, rows, near))


def _advice(estimator: Any, test: SpreadTest, rows: Rows | None, near: Finding) -> str:
    if near.level == "problem":
        return "What the model misses may be the reason: see to the neighbours first."
    if rows is not None and rows.noise_variance is not None and np.ptp(rows.noise_variance) > 0:
        return "The variances of the noise that were given do not fit everywhere."
    if test.noise_share <= MOSTLY_NOISE:
        return (
            f"Noise is only {test.noise_share:.0%} of the variance of these errors: the function is rougher there, "
            "which one kernel does not know. Trust intervals on average, or try a transform of the columns."
        )
    advice = "One variance of the noise serves all places: trust intervals on average, and not in single places."
    if estimator._fit.model.likelihood.conjugate:
        advice += (
            " If the noise of each row is known, give it: `fit(X, y, noise_variance=...)`; if errors grow with y, and "
            "y is positive, try `likelihood='lognormal'`."
        )
    return advice


def _counts(fit: Any, rows: Rows) -> np.ndarray:
    """How often each row counts, up to a factor."""
    if fit.n_neighbors:
        training = fit.rows_at_hand
        if training is None or len(training) != len(rows):  # from a file: rows that count k times have noise / k
            return 1.0 / fit.posterior.rows.noise_variance
        rows = training
    return np.ones(len(rows)) if rows.weights is None else rows.weights


def _most_frequent(values: np.ndarray) -> float:
    found, times = np.unique(values, return_counts=True)
    return float(found[np.argmax(times)])


def _why_coarse(y: np.ndarray, errors: Errors, likelihood: Any) -> str:
    """Why targets are too coarse, so that sizes of errors follow the mean; "" where they are not."""
    values = np.unique(y)
    if len(values) >= DISTINCT * len(y):
        return ""
    z = values if likelihood.conjugate else np.log(values)
    step = float(np.median(np.diff(z))) if len(z) > 1 else np.inf
    if step <= COARSE * float(np.sqrt(np.median(errors.variance))):
        return ""
    return f"targets have only {len(values)} different values, and sizes of errors go with these"


def _noise(likelihood: Any) -> float:
    """The variance of the noise, in the units of the latent function."""
    return float(next(likelihood.value(p.name) for p in likelihood.parameters if p.role == "noise"))
