"""The protocol of residuals: from (v, c, r) of a block to what is summed, and the adjoints back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from knotwise.evidence.blocks import Block, Halo
    from knotwise.evidence.model import Model
    from knotwise.evidence.projection import Projection
    from knotwise.evidence.sites import Sites

__all__ = ["Pulled", "Residual", "RowAdjoints", "Summed"]


@dataclass(frozen=True)
class Summed:
    """What a block gives to the sums: V~ [n, K + p], r~ [n], w [n] for its own rows, and a number.

    The log evidence has sums of w V~ V~', w V~ r~, w r~^2, and half of `log_weight`, which is that of log w without
    what the approximation charges. `copies` [n] say how often each row counts, None once each.
    """

    V: np.ndarray
    r: np.ndarray
    w: np.ndarray
    log_weight: float
    copies: np.ndarray | None = None

    def weigh(self, terms: np.ndarray) -> np.ndarray:
        """Terms of the rows, each as often as its row counts."""
        return terms if self.copies is None else self.copies * terms


@dataclass(frozen=True)
class RowAdjoints:
    """What the log evidence gains per row: V_bar [n, K] of the knots' part of V~ (counted as often as the row counts),
    D_bar [n] of the variance 1/w, r_bar [n] of r~. The residual may work in V_bar's memory.

    Where it mixes rows (not `diagonal`), V_bar [n, K + p] is that of all of V~: how much it mixes depends on the basis.
    """

    V_bar: np.ndarray
    D_bar: np.ndarray
    r_bar: np.ndarray


@dataclass(frozen=True)
class Pulled:
    """The same for the block's rows and its halo: V_bar [n, K] and c_bar [n] of what the knots say of them, r_bar [n]
    of their r, noise_bar [n] of an independent variance of each, and theta_bar of kernel values between rows.

    `gram` is what `knots_bar` needs of the rows, added over the blocks.
    """

    V_bar: np.ndarray
    c_bar: np.ndarray
    r_bar: np.ndarray
    noise_bar: np.ndarray
    gram: np.ndarray | float = 0.0
    theta_bar: np.ndarray | float = 0.0


class Residual(Protocol):
    """What is done with what the knots leave: the prior of f at the rows, given the knots.

    W [n] are the precisions of the observations and r [n] their distances from the mean, of the block's rows and its
    halo. Where rows are independent given the knots (`diagonal`), other data than Gaussian find their sites row by row;
    such a residual is an `Independent`.
    """

    diagonal: bool

    @property
    def halo(self) -> Halo | None:
        """Which rows of other blocks a block needs; None for none."""
        ...

    def see(self, model: Model, block: Block, seen: Projection, W: np.ndarray | float, r: np.ndarray) -> Summed:
        """Turn (v, c, r) of a block into what is summed."""
        ...

    def pull(self, model: Model, block: Block, seen: Projection, sites: Sites, bars: RowAdjoints) -> Pulled:
        """Pull the adjoints of what was summed back to v, c, r and the noise of the block's rows and its halo."""
        ...

    def c_bar(self, model: Model, sites: Sites, D_bar: np.ndarray) -> np.ndarray:
        """The adjoint of the residual variance of each own row, counted once, given that of its 1/w."""
        ...

    def knots_bar(self, gram: np.ndarray, total: np.ndarray | float) -> np.ndarray | float:
        """What V_bar' V, over all rows, is more than V~_bar' V~, [K, K]; `gram` is V~' diag(w) V~, `total` the sum of
        the blocks' `gram`.
        """
        ...
