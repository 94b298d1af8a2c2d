"""The protocol of residuals: from (v, c, r) of a block to what is summed, and the adjoints back; and sites."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from knotwise.evidence.blocks import Block, Halo
    from knotwise.evidence.model import Model
    from knotwise.evidence.projection import Projection

__all__ = ["Pulled", "Residual", "RowAdjoints", "Sites", "Summed"]


@dataclass(frozen=True)
class Summed:
    """What a block gives to the sums: V~ [n, K + p], r~ [n] and w [n] for its own rows.

    The log evidence has sums of w V~ V~', w V~ r~ and w r~^2. `copies` [n] say how often each row counts, None once
    each.
    """

    V: np.ndarray
    r: np.ndarray
    w: np.ndarray
    copies: np.ndarray | None = None

    def weigh(self, terms: np.ndarray) -> np.ndarray:
        """Terms of the rows, each as often as its row counts."""
        return terms if self.copies is None else self.copies * terms


@dataclass(frozen=True)
class Sites:
    """Per row of a block, counted once: its V~, the precision W of the site, w = W h damped by the residual
    variance (S4), and a = (prior precision) (f - m).

    Where the sites were found by looking at latent values: h, the variance lam of the row's own part of f, the value f
    at which the site was taken, and the third derivative of log p there; or, where a site belongs to a Gaussian, f and
    `variance` are its mean and variance. `waived` is what sites that do not pay for residual variance take out of the
    adjoint of c (L12), and `paid` the precision with which they pay, None for that of the nugget alone (L9). Where the
    sites are observations: their distances r from the mean, of the block's rows and its halo, as the residual has seen
    them.
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
    variance: np.ndarray | None = None
    paid: np.ndarray | None = None

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
    """What is done with the residual (covariance K - Q): the prior of f at the rows, given the knots.

    W [n] are the precisions of the observations and r [n] their distances from the mean, of the block's rows and its
    halo. Where rows are independent given the knots (`diagonal`), other data than Gaussian find their sites row by row;
    such a residual is an `Independent`.
    """

    diagonal: bool

    @property
    def n_neighbors(self) -> int:
        """How many Vecchia neighbours each row has, from which new rows are predicted too; 0 for none."""
        ...

    @property
    def n_rows(self) -> int | None:
        """How many rows it is made for, because it names some by their numbers; None for any."""
        ...

    @property
    def halo(self) -> Halo | None:
        """Which rows of other blocks a block needs; None for none."""
        ...

    def block_width(self, n_columns: int) -> int:
        """The width of a pass (see `Pass`) where V has so many columns."""
        ...

    def kept_numbers(self, n_columns: int) -> int:
        """How many numbers per row it keeps with a projection whose V has so many columns."""
        ...

    def see(self, model: Model, block: Block, seen: Projection, W: np.ndarray | float, r: np.ndarray) -> Summed:
        """Turn (v, c, r) of a block into what is summed."""
        ...

    def log_weight(self, model: Model, block: Block, seen: Projection, W: np.ndarray | float, summed: Summed) -> float:
        """The sum of log w over the own rows, each as often as it counts, without the penalty of the approximation."""
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
