"""How well a posterior predicts rows that it has not seen."""

from __future__ import annotations

import numpy as np

from knotwise.evidence import Rows
from knotwise.posterior import FullPosterior, SparsePosterior

__all__ = ["held_out_density", "mean_gain"]


def held_out_density(posterior: FullPosterior | SparsePosterior, rows: Rows) -> np.ndarray:
    """Log predictive density of rows that were not fitted, [n]."""
    if not len(rows):
        return np.empty(0)
    model, latent = posterior.state.model, posterior.latent(rows.X)
    variance = latent.variance + model.nugget.variance
    if rows.noise_variance is not None:
        variance = variance + rows.noise_variance - model.likelihood.value("noise_variance")
    return model.likelihood.log_predictive_density(rows.y, latent.mean, variance, rows.sizes)


def mean_gain(one: np.ndarray, other: np.ndarray, weights: np.ndarray | None) -> tuple[float, float]:
    """Mean gain of one density over another, rows as often as they count, and its standard error; NaN without rows."""
    if not len(one):
        return np.nan, np.nan
    gains = one - other
    mean = float(np.average(gains, weights=weights))
    spread = float(np.average((gains - mean) ** 2, weights=weights))
    return mean, float(np.sqrt(spread / max(len(gains) - 1, 1)))
