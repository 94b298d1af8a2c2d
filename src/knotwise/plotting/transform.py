"""The probability integral transform: where each observation lies in its own predictive distribution."""

from __future__ import annotations

from typing import Any

import numpy as np

from knotwise.plotting.view import View, size_of

__all__ = ["probability_transform"]


def probability_transform(
    view: View,
    rows: np.ndarray,
    y: np.ndarray,
    *,
    exposure: Any = None,
    trials: Any = None,
    noise_variance: Any = None,
    rng: np.random.Generator,
) -> np.ndarray:
    """P(Y <= y) of each row, [n]; uniform if the model is right.

    Where Y takes whole numbers only, a uniform draw between P(Y < y) and P(Y <= y), which is uniform again.
    """
    from scipy.special import ndtr

    from knotwise.likelihoods.response import predictive_cdf

    size = size_of(view, len(rows), exposure, trials)
    likelihood = view.model.likelihood_
    y = likelihood.check_targets(y, 1.0 if size is None else size)
    if likelihood.conjugate:
        mean, sd = view.ask("predict", rows, return_std=True, noise_variance=noise_variance)
        return ndtr((y - mean) / sd)
    if noise_variance is not None:
        view.ask("predict", rows[:1], noise_variance=noise_variance)  # raises the error that says what it is for
    latent = view.ask("predict_latent", rows)
    variance = latent.variance + view.model.nugget_
    sizes = np.broadcast_to(1.0 if size is None else size, y.shape)
    above = predictive_cdf(likelihood, y, latent.mean, variance, sizes)
    if not likelihood.discrete:
        return above
    below = predictive_cdf(likelihood, y - 1, latent.mean, variance, sizes)
    return below + rng.random(len(y)) * (above - below)
