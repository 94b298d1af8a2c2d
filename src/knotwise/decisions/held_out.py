"""How well a posterior predicts rows that it has not seen."""

from __future__ import annotations

import numpy as np

from knotwise.evidence import Rows
from knotwise.posterior.base import Posterior

__all__ = ["held_out_density", "mean_gain", "missing_noise", "predicted_mean"]

N_CANDIDATES = 60


def held_out_density(posterior: Posterior, rows: Rows) -> np.ndarray:
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
    """Mean gain of one density over another, rows as often as they count, and its standard error; NaN without rows."""
    if not len(one):
        return np.nan, np.nan
    gains = one - other
    mean = float(np.average(gains, weights=weights))
    spread = float(np.average((gains - mean) ** 2, weights=weights))
    return mean, float(np.sqrt(spread / max(len(gains) - 1, 1)))
