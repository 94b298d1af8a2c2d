"""The protocol of residuals: from (v, c, r) of a block to what is summed, and the adjoints back; sites.

`Independent` is the default: rows that are independent given the knots, with a power: 1 is FIC, 0 is VFE.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from knotwise.errors import InvalidInputError
from knotwise.numerics.linalg import scratch, weighted_gram

if TYPE_CHECKING:
    from knotwise.evidence.blocks import Block, Halo
    from knotwise.evidence.model import Model, Rows
    from knotwise.evidence.projection import Projection


@dataclass(frozen=True)
class Summed:
    """What a block gives to the sums: V~ [n, K + p], r~ [n] and w [n] for its own rows.

    The log evidence has sums of w V~ V~', w V~ r~ and w r~^2. `copies` [n] are sample weights, or None.
    """

    V: np.ndarray
    r: np.ndarray
    w: np.ndarray
    copies: np.ndarray | None = None

    def weigh(self, terms: np.ndarray) -> np.ndarray:
        """Terms of the rows, times their sample weights."""
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
        """Terms of the rows, times their sample weights."""
        return terms if self.copies is None else self.copies * terms


@dataclass(frozen=True)
class RowAdjoints:
    """What the log evidence gains per row: V_bar [n, K] of the knots' part of V~ (times the sample weight),
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

    @property
    def n_rows(self) -> int | None:
        """How many rows it is made for, because it names some by their numbers; None for any."""

    @property
    def halo(self) -> Halo | None:
        """Which rows of other blocks a block needs; None for none."""

    def block_width(self, n_columns: int) -> int:
        """The width of a pass (see `Pass`) where V has so many columns."""

    def kept_numbers(self, n_columns: int) -> int:
        """How many numbers per row it keeps with a projection whose V has so many columns."""

    def see(self, model: Model, block: Block, seen: Projection, W: np.ndarray | float, r: np.ndarray) -> Summed:
        """Turn (v, c, r) of a block into what is summed."""

    def log_weight(self, model: Model, block: Block, seen: Projection, W: np.ndarray | float, summed: Summed) -> float:
        """The sum of log w over the own rows, times their sample weights, without the penalty of the approximation."""

    def pull(self, model: Model, block: Block, seen: Projection, sites: Sites, bars: RowAdjoints) -> Pulled:
        """Pull the adjoints of what was summed back to v, c, r and the noise of the block's rows and its halo."""

    def c_bar(self, model: Model, sites: Sites, D_bar: np.ndarray) -> np.ndarray:
        """The adjoint of the residual variance of each own row, counted once, given that of its 1/w."""

    def knots_bar(self, gram: np.ndarray, total: np.ndarray | float) -> np.ndarray | float:
        """What V_bar' V, over all rows, is more than V~_bar' V~, [K, K]; `gram` is V~' diag(w) V~, `total` the sum of
        the blocks' `gram`.
        """


class Independent:
    """Residuals of rows are independent: a share alpha of the variance c stays in the model, and the rest is a penalty
    of the log evidence (S3, S4, S7). The power alpha is the model's.
    """

    diagonal = True
    n_neighbors = 0
    n_rows = None
    halo = None

    def block_width(self, n_columns: int) -> int:
        return n_columns

    def kept_numbers(self, n_columns: int) -> int:
        return 0

    def see(self, model: Model, block: Block, seen: Projection, W: np.ndarray | float, r: np.ndarray) -> Summed:
        return Summed(seen.V, r, W * damping(W, self.own_variance(model, seen.c)), block.own.weights)

    def log_weight(self, model: Model, block: Block, seen: Projection, W: np.ndarray | float, summed: Summed) -> float:
        own = block.own
        log_W = own.count * float(np.log(W)) if np.ndim(W) == 0 else own.total(np.log(W))
        return log_W - self.cost(model, own, W, seen.c)

    def pull(self, model: Model, block: Block, seen: Projection, sites: Sites, bars: RowAdjoints) -> Pulled:
        own, w, c, power = block.own, sites.w, seen.c, model.power
        e = self._reach(model, sites, bars.D_bar)
        c_bar = own.weigh(e - 0.5 * w)
        V_bar, Vk = bars.V_bar, seen.V[:, : bars.V_bar.shape[1]]
        V_bar -= np.multiply(Vk, (2.0 * c_bar)[:, None], out=scratch("scaled", Vk.shape))
        noise_bar = bars.D_bar
        if power < 1:
            paid = paying(model, sites.W) if sites.paid is None else sites.paid
            noise_bar = noise_bar + 0.5 * (1.0 - power) * c * w * paid
        gram = weighted_gram(Vk, own.weigh(e)) if np.any(e) else 0.0
        return Pulled(V_bar, c_bar, own.weigh(bars.r_bar), own.weigh(noise_bar), gram)

    def c_bar(self, model: Model, sites: Sites, D_bar: np.ndarray) -> np.ndarray:
        return self._reach(model, sites, D_bar) - 0.5 * sites.w

    def _reach(self, model: Model, sites: Sites, D_bar: np.ndarray) -> np.ndarray:
        """e of (S10), which is not negative for Gaussian data."""
        return model.power * (D_bar + 0.5 * sites.w) + sites.waived

    def knots_bar(self, gram: np.ndarray, total: np.ndarray | float) -> np.ndarray:
        return gram - 2.0 * total  # -2 V' diag(c_bar) V                                                 (S12)

    # -- what other data than Gaussian need -----------------------------------------------------------

    def own_variance(self, model: Model, c: np.ndarray) -> np.ndarray:
        """lam = alpha c + nugget: the variance of a row's own part of f."""
        return model.power * c + model.nugget.variance

    def cost(self, model: Model, rows: Rows, W: np.ndarray | float, c: np.ndarray) -> float:
        """Sum of what the residual variance costs: -log h, and twice the penalty of a power below one (S7, L9)."""
        power = model.power
        cost = rows.total(np.log1p(W * self.own_variance(model, c)))
        if power == 1.0:
            return cost
        paid = paying(model, W) * c
        return cost + (1.0 - power) * rows.total(np.log1p(power * paid) / power if power > 0 else paid)

    def precision_bar(self, model: Model, sites: Sites, c: np.ndarray, quad: np.ndarray) -> np.ndarray:
        """W_bar: what the log evidence gains per unit of site precision, at a fixed mode (L10)."""
        h = sites.h
        W_bar = -0.5 * (sites.lam * h + h * h * quad)
        if model.power < 1:
            paid = h / (1.0 + sites.W * model.nugget.variance) * (sites.W > 0)
            W_bar -= 0.5 * (1.0 - model.power) * c * paid
        return W_bar


def damping(W: np.ndarray | float, lam: np.ndarray | float) -> np.ndarray:
    """h = 1 / (1 + W lam): how much of a site's precision its own part of f leaves to the knots (S4)."""
    return np.asarray(1.0 / (1.0 + W * lam))


def paying(model: Model, W: np.ndarray | float) -> np.ndarray | float:
    """Precision with which a site pays for residual variance: its own without the nugget, and none below 0 (L9)."""
    return np.maximum(W / (1.0 + W * model.nugget.variance), 0.0)


_INDEPENDENT = Independent()


def residual_of(model: Model) -> Residual:
    """The residual of a model: the one that it names, or independent rows with the model's power."""
    return _INDEPENDENT if model.residual is None else model.residual


def independent_of(model: Model) -> Independent:
    """The residual of a model whose rows are independent given the knots; inferences refuse others."""
    residual = residual_of(model)
    assert isinstance(residual, Independent)
    return residual


def check_rows(model: Model, n_rows: int) -> None:
    """Raise an error where a model's residual names rows by their numbers, and these are other rows."""
    expected = residual_of(model).n_rows
    if expected is not None and expected != n_rows:
        raise InvalidInputError(
            f"The neighbours in this model are those of {expected:,} rows, but there are {n_rows:,} rows here. "
            "Arrange these rows anew, or leave the residual out: `replace(model, residual=None)`."
        )
