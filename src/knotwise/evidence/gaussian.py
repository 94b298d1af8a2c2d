"""Sites of Gaussian data: the precision that each observation gives its latent value."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from knotwise.evidence.model import Model, Rows

__all__ = ["Sites", "gaussian_sites"]


@dataclass(frozen=True)
class Sites:
    """Per row: precision W, damped precision w = W / (1 + alpha W c), residual r = y - m, and the trace term.

    `trace` is log1p(alpha W c) / alpha, in the limit alpha -> 0 simply W c: half its sum is what the
    residual variance c costs, in log |diag| and in the penalty together (S7).
    """

    W: np.ndarray | float
    w: np.ndarray
    r: np.ndarray
    trace: np.ndarray


def gaussian_sites(model: Model, block: Rows, c: np.ndarray) -> Sites:
    """Turn Gaussian observations into sites, given the residual prior variance c of their rows."""
    noise = model.likelihood.noise_variance if block.noise_variance is None else block.noise_variance
    W = 1.0 / noise  # type: ignore[operator]
    Wc = W * c
    power = model.power
    if power > 0:
        damping = 1.0 + power * Wc
        w, trace = W / damping, np.log1p(power * Wc) / power
    else:
        w, trace = np.broadcast_to(W, c.shape), Wc
    return Sites(W, w, block.y - model.mean.offset, trace)
