"""The probability integral transform: where each observation lies in its own predictive distribution."""

from __future__ import annotations

from typing import Any

import numpy as np

from knotwise.data.exposure import check_size
from knotwise.likelihoods.response import predictive_cdf

__all__ = ["probability_transform"]


def probability_transform(
    model: Any,
    X: Any,
    y: np.ndarray,
    *,
    exposure: Any = None,
    trials: Any = None,
    noise_variance: Any = None,
    rng: np.random.Generator,
) -> np.ndarray:
    """P(Y <= y) of each row under a fitted regressor, [n]; uniform if the model is right.

    Where Y takes whole numbers only, and at atoms, a uniform draw between P(Y < y) and P(Y <= y), which is uniform
    again.
    """
    from scipy.special import ndtr

    likelihood = model.likelihood_
    size = check_size(likelihood, len(y), exposure=exposure, trials=trials)
    y = likelihood.check_targets(y, 1.0 if size is None else size)
    if likelihood.conjugate:
        mean, sd = model.predict(X, return_std=True, noise_variance=noise_variance)
        return ndtr((y - mean) / sd)
    if noise_variance is not None:
        model.predict(X, noise_variance=noise_variance)  # raises the error that says what it is for
    latent = model.predict_latent(X)
    variance = latent.variance + model.nugget_
    sizes = np.broadcast_to(1.0 if size is None else size, y.shape)
    above = predictive_cdf(likelihood, y, latent.mean, variance, sizes)
    if not likelihood.discrete and not np.isin(y, likelihood.atoms).any():
        return above
    before = y - 1 if likelihood.discrete else np.where(np.isin(y, likelihood.atoms), np.nextafter(y, -np.inf), y)
    below = predictive_cdf(likelihood, before, latent.mean, variance, sizes)
    return below + rng.random(len(y)) * (above - below)
