"""Gradients of the parts of a model in the order of theta."""

from __future__ import annotations

import numpy as np

from knotwise.evidence.model import Model, Rows

__all__ = ["assemble_gradient", "mode_likelihood_bar"]


def assemble_gradient(
    model: Model, kernel_bar: np.ndarray, likelihood_bar: np.ndarray, nugget_bar: float, mean_bar: float
) -> np.ndarray:
    """Put the gradients of the parts in the order of theta; the nugget's goes to the log scale."""
    nugget = [nugget_bar * model.nugget.variance] * model.nugget.size
    return np.concatenate([kernel_bar, likelihood_bar, nugget, [mean_bar] * model.mean.size])


def mode_likelihood_bar(
    model: Model, rows: Rows, f: np.ndarray, W_bar: np.ndarray | float, slope: np.ndarray | float
) -> np.ndarray:
    """Gradient in the likelihood's parameters at a mode: directly, through the precision, and as the mode moves."""
    if rows.noise_variance is not None:
        return np.zeros(model.likelihood.size)
    derivatives = model.likelihood.parameter_derivatives(rows.y, f, rows.sizes)
    return np.array([rows.total(d.log_density - W_bar * d.second + slope * d.first) for d in derivatives])
