"""Sites: the Gaussian precision that each observation gives its latent value, at the posterior mode."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from knotwise.evidence.model import Model, Rows

__all__ = ["Sites", "damping", "trace_term"]


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


def damping(model: Model, W: np.ndarray | float, c: np.ndarray) -> np.ndarray:
    """h = 1 / (1 + W lam), lam = alpha c + nugget."""
    return 1.0 / (1.0 + W * (model.power * c + model.nugget.variance))


def trace_term(model: Model, block: Rows, W: np.ndarray | float, c: np.ndarray) -> float:
    """Sum of what the residual variance costs: -log h, and twice the penalty of a power below one (S7)."""
    nugget, power = model.nugget.variance, model.power
    if nugget == 0.0:  # both are multiples of log1p(alpha W c); the limit alpha -> 0 is W c
        Wc = W * c
        return block.total(np.log1p(power * Wc) / power if power > 0 else Wc)
    Wn = W / (1.0 + W * nugget)
    cost = block.total(np.log1p(W * (power * c + nugget)))
    if power == 1.0:
        return cost
    return cost + (1.0 - power) * block.total(np.log1p(power * Wn * c) / power if power > 0 else Wn * c)
