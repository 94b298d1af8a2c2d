"""Sites: the Gaussian factor that each observation gives its latent value."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from knotwise.evidence.model import Model, Rows

__all__ = ["Sites", "latent_of_data"]


@dataclass(frozen=True)
class Sites:
    """Per row of a block, counted once: its V~, the precision W of the site, w = W h damped by what the knots leave
    open (S4), and a = (prior precision) (f - m).

    Where the sites were found by looking at latent values: h, the variance lam of the row's own part of f, the value f
    at which the site was taken, and the third derivative of log p there. `waived` is what sites that do not pay for
    residual variance take out of the adjoint of c (L12). Where the sites are observations: their distances r from the
    mean, of the block's rows and its halo, as the residual has seen them.
    """

    V: np.ndarray
    W: np.ndarray | float
    w: np.ndarray
    a: np.ndarray
    copies: np.ndarray | None
    h: np.ndarray | float = 1.0
    lam: np.ndarray | float = 0.0
    f: np.ndarray | None = None
    third: np.ndarray | None = None
    waived: np.ndarray | float = 0.0
    r: np.ndarray | None = None

    def weigh(self, terms: np.ndarray) -> np.ndarray:
        """Terms of the rows, each as often as its row counts."""
        return terms if self.copies is None else self.copies * terms


def latent_of_data(model: Model, rows: Rows) -> np.ndarray:
    """The latent value at which each observation is its own mean, or the prior mean where that is infinite."""
    try:
        f = np.asarray(model.likelihood.latent_of_mean(rows.y, rows.sizes), float)
    except NotImplementedError:  # one's own likelihood need not know it
        f = np.array(np.nan)
    return np.where(np.isfinite(f), f, np.full(len(rows), model.mean.offset))
