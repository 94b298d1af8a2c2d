"""Sites: the Gaussian precision that each observation gives its latent value, at the posterior mode."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from knotwise.evidence.model import Model, Rows

__all__ = ["Sites", "damping", "latent_of_data", "paying", "trace_term", "unpaid"]


@dataclass(frozen=True)
class Sites:
    """Per row of a block, counted once: W the precision of the site, h and w = W h damped by what the knots leave
    open (S4), a = (prior precision) (f - m), f the mode, and the third derivative of log p there (None where it is 0).
    """

    W: np.ndarray | float
    h: np.ndarray
    w: np.ndarray
    a: np.ndarray
    f: np.ndarray
    third: np.ndarray | None


def latent_of_data(model: Model, block: Rows) -> np.ndarray:
    """The latent value at which each observation is its own mean, or the prior mean where that is infinite."""
    try:
        f = np.asarray(model.likelihood.latent_of_mean(block.y, block.sizes), float)
    except NotImplementedError:  # one's own likelihood need not know it
        f = np.array(np.nan)
    return np.where(np.isfinite(f), f, np.full(len(block), model.mean.offset))


def damping(model: Model, W: np.ndarray | float, c: np.ndarray) -> np.ndarray:
    """h = 1 / (1 + W lam), lam = alpha c + nugget."""
    return 1.0 / (1.0 + W * (model.power * c + model.nugget.variance))


def trace_term(model: Model, block: Rows, W: np.ndarray | float, c: np.ndarray) -> float:
    """Sum of what the residual variance costs: -log h, and twice the penalty of a power below one (S7, L9)."""
    power = model.power
    cost = block.total(np.log1p(W * (power * c + model.nugget.variance)))
    if power == 1.0:
        return cost
    paid = paying(model, W) * c
    return cost + (1.0 - power) * block.total(np.log1p(power * paid) / power if power > 0 else paid)


def paying(model: Model, W: np.ndarray | float) -> np.ndarray | float:
    """Precision with which a site pays for residual variance: its own without the nugget, and none below 0 (L9)."""
    return np.maximum(W / (1.0 + W * model.nugget.variance), 0.0)


def unpaid(model: Model, sites: Sites) -> np.ndarray | float:
    """What the sites that do not pay would add to the adjoint of c, if they did (L12)."""
    if model.power == 1.0 or model.likelihood.log_concave:
        return 0.0
    return 0.5 * (1.0 - model.power) * np.minimum(sites.w, 0.0)
