"""Scores: the unexplained share of the variance, where it is large, and what one more knot would bring."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from knotwise.evidence.blocks import Block, BlockCache, Blocks, Sums, as_blocks
from knotwise.evidence.inference import SiteFit, inference_of
from knotwise.evidence.model import Jitter, Model, Rows
from knotwise.evidence.projection import Evaluation, ProjectedPass
from knotwise.evidence.residual import check_rows, residual_of
from knotwise.numerics.linalg import cholesky, identity_plus, invert_lower, log_det, times_lower_transposed

CANDIDATES_AT_ONCE = 512
NEARLY_EXACT = 0.18  # unexplained share of all rows: about 0.02 nats a row from the exact GP's posterior
WIDE = 0.45  # unexplained share of a row at which its latent sd is up to 35 % too wide


@dataclass(frozen=True)
class KnotScores:
    """The unexplained share of the variance over all rows, and the log evidence through the knots.

    Attributes
    ----------
    value : float
        The log evidence.
    share : float
        Mean of c / v, residual prior variance over latent posterior variance: at the right parameters the latent AUKL
        is about 0.58 share^2 for knots on rows, and less for moved ones.
    residual_information : float
        What the data could still say about the residual, in nats per row.
    wide_rows : float
        Share of the rows with c / v above 0.45, whose latent standard deviation is up to 35 % too wide.
    observation_share : float
        Mean of c over the variance of an observation: v, the nugget and 1 / W.
    signal : float
        Mean of W times the prior variance.
    rows : RowScores or None
        Scores of the rows that were asked for.

    Examples
    --------
    >>> from knotwise.evidence.scores import KnotScores
    >>> scores = KnotScores(-12.0, 0.05, 0.01, wide_rows=0.0, observation_share=0.01, signal=9.0)
    >>> scores.share < 0.18  # enough for automatic knots
    True
    """

    value: float
    share: float
    residual_information: float
    wide_rows: float
    observation_share: float
    signal: float
    rows: RowScores | None = None


@dataclass(frozen=True)
class RowScores:
    """Residual and unexplained variance of each row.

    Attributes
    ----------
    c : array [n]
        Residual prior variance, the diagonal of K - Q.
    v : array [n]
        Latent posterior variance.
    W : array [n]
        Precision of the site: 1 over the noise variance for Gaussian data.
    a : array [n]
        The residual (S6, L5), counted once.
    value : float
        The log evidence.
    nugget : float
        Variance of independent noise on the latent function.
    rows : Rows
        The rows themselves.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise.evidence.blocks import Rows
    >>> from knotwise.evidence.scores import RowScores
    >>> rows = Rows(np.zeros((2, 1)), np.zeros(2), None, np.empty((2, 0)))
    >>> RowScores(np.array([0.1, 0.3]), np.array([0.4, 0.4]), np.ones(2), np.zeros(2), -3.0, 0.0, rows).shares.tolist()
    [0.25, 0.7499999999999999]
    """

    c: np.ndarray
    v: np.ndarray
    W: np.ndarray
    a: np.ndarray
    value: float
    nugget: float
    rows: Rows

    @property
    def weights(self) -> np.ndarray | None:
        """Sample weights of the rows."""
        return self.rows.weights

    @property
    def shares(self) -> np.ndarray:
        """Unexplained share of each row, c / v."""
        return self.c / np.maximum(self.v, np.finfo(float).tiny)

    @property
    def share(self) -> float:
        """Unexplained share: mean of c / v."""
        return float(np.average(self.shares, weights=self.weights))

    @property
    def standardized(self) -> np.ndarray:
        """Residuals in standard deviations, if the model is right: a over the root of R_ii = w - w^2 q (FIC)."""
        w = self.W / (1.0 + self.W * (self.c + self.nugget))
        return self.a / np.sqrt(np.maximum(w - w * w * (self.v - self.c), np.finfo(float).tiny))

    @property
    def precision(self) -> np.ndarray:
        """What an observation says of f, the nugget among its noise."""
        return np.maximum(self.W / (1.0 + self.W * self.nugget), 0.0)

    @property
    def observation_share(self) -> float:
        """Mean of c over the variance of an observation: v, the nugget and 1 / W."""
        shares = self.precision * self.c / (1.0 + self.precision * self.v)
        return float(np.average(shares, weights=self.weights))

    @property
    def residual_information(self) -> float:
        """Nats per row that the data could still say about the residual."""
        return float(0.5 * np.average(self.precision * self.c, weights=self.weights))


def largest_widening(share: float) -> float:
    """By how much the latent standard deviation of a row with this share c / v is too wide at most: 0.35 at 0.45.

    Under VFE, v - c is the posterior variance for the prior covariance Q alone. Q is at most K, and a posterior
    variance grows with the prior, so the exact one is at least v - c: the factor is at most (1 - c / v)^(-1/2).
    """
    return float(1.0 / np.sqrt(1.0 - share) - 1.0)


@dataclass(frozen=True)
class RowScorePass(ProjectedPass):
    """c, v, W and a of each row of a block, [n, 4]."""

    fit: SiteFit

    def __call__(self, block: Block, cache: BlockCache) -> np.ndarray:
        seen = self.projector.project(block, cache)
        sites = self.fit.rule.sites(block, seen, cache)
        G = times_lower_transposed(seen.V[: block.n], self.fit.T)
        c = seen.c[: block.n]
        out = np.empty((block.n, 4))
        out[:, 0], out[:, 2], out[:, 3] = c, np.broadcast_to(sites.W, len(seen.c))[: block.n], sites.a
        out[:, 1] = c + np.einsum("nk,nk->n", G, G)
        return out


class SharePass(RowScorePass):
    """The unexplained share of each row, c / v, [n]."""

    def __call__(self, block: Block, cache: BlockCache) -> np.ndarray:
        c, v, _, _ = super().__call__(block, cache).T
        return c / np.maximum(v, np.finfo(float).tiny)


@dataclass
class ScoreSums(Sums):
    share: float
    information: float
    wide: float
    observation: float
    signal: float


class KnotScorePass(RowScorePass):
    """The same summed, rows times their sample weights."""

    def __call__(self, block: Block, cache: BlockCache) -> ScoreSums:  # type: ignore[override]
        model, own = self.projector.model, block.own
        c, v, W, _ = super().__call__(block, cache).T
        share = c / np.maximum(v, np.finfo(float).tiny)
        precision = np.maximum(W / (1.0 + W * model.nugget.variance), 0.0)
        return ScoreSums(
            own.total(share),
            0.5 * own.total(precision * c),
            own.total((share > WIDE).astype(float)),
            own.total(precision * c / (1.0 + precision * v)),  # c / (v + 1 / precision)
            own.total(W * model.kernel.diag(own.X)),
        )


def knot_scores(
    model: Model,
    rows: Rows | Blocks,
    Z: np.ndarray,
    *,
    jitter: Jitter,
    at_rows: Rows | None = None,
    widest: int | None = None,
) -> KnotScores:
    """Score the knots Z at the posterior through them, and some rows if asked for. Costs O(N K^2).

    Rows that are scored by themselves: `at_rows`, or as many as `widest` says of which most is left unexplained.
    """
    with Evaluation.of(model, as_blocks(rows), Z, jitter) as at:
        fit, blocks = inference_of(model).fit(at), at.blocks
        total, count = blocks.sum(KnotScorePass(at.projector, fit)), float(blocks.summary.count)
        if widest is not None:
            few = blocks.summary.n_rows <= widest
            at_rows = blocks.take(slice(None) if few else np.sort(blocks.top(SharePass(at.projector, fit), widest)))
        some = None if at_rows is None else _score_rows(at, fit, at_rows)
    return KnotScores(
        fit.value,
        total.share / count,
        total.information / count,
        total.wide / count,
        total.observation / count,
        total.signal / count,
        some,
    )


def row_scores(
    model: Model, rows: Rows | Blocks, Z: np.ndarray, *, jitter: Jitter, at_rows: Rows | None = None
) -> RowScores:
    """Score rows at the posterior through the knots Z: some of them, `at_rows`, or all. Costs O(N K^2)."""
    with Evaluation.of(model, as_blocks(rows), Z, jitter) as at:
        fit = inference_of(model).fit(at)
        return _score_rows(at, fit, at_rows)


def _score_rows(at: Evaluation, fit: SiteFit, at_rows: Rows | None) -> RowScores:
    where = at.blocks if at_rows is None else at.blocks.at_driver(at_rows)
    check_rows(at.model, where.summary.n_rows)
    c, v, W, a = np.ascontiguousarray(where.gather(RowScorePass(at.projector, fit)).T)
    rows = at.blocks.take(slice(None)) if at_rows is None else at_rows
    return RowScores(c, v, W, a, fit.value, at.model.nugget.variance, rows)


# -- one more knot --------------------------------------------------------------------------------


@dataclass
class DirectionSums(Sums):
    """Sums over rows for functions nu of the input, one per column."""

    projected: np.ndarray  # V' diag(w) nu, [K + p, M]
    weighted: np.ndarray  # sum w nu^2
    fit: np.ndarray  # sum a nu
    cost: np.ndarray  # sum c_bar nu^2


@dataclass(frozen=True)
class DirectionPass(ProjectedPass):
    """Look along the functions nu that candidates for a knot would add, [n, M]: the residual of their kernel
    function, scaled to unit variance. Costs O(n K M).
    """

    fit: SiteFit
    candidates: np.ndarray
    v_z: np.ndarray
    scale: np.ndarray

    def __call__(self, block: Block, cache: BlockCache) -> DirectionSums:
        projector, model = self.projector, self.projector.model
        seen = projector.project(block, cache)
        sites = self.fit.rule.sites(block, seen, cache)
        V, w, a = sites.V, sites.w, sites.a
        nu = model.kernel(block.own.X, self.candidates)
        nu -= V[:, : len(projector.Z)] @ self.v_z.T
        nu *= self.scale
        quad: np.ndarray | float = 0.0
        if model.power > 0:
            G = times_lower_transposed(V, self.fit.T)
            quad = np.einsum("nk,nk->n", G, G)
        D_bar = 0.5 * (a * a + w * w * quad - w)
        c_bar = residual_of(model).c_bar(model, sites, D_bar)
        w_nu = sites.weigh(w)[:, None] * nu
        return DirectionSums(
            V.T @ w_nu, np.einsum("nm,nm->m", w_nu, nu), sites.weigh(a) @ nu, sites.weigh(c_bar) @ (nu * nu)
        )


def rank_one_gains(
    model: Model, rows: Rows | Blocks, Z: np.ndarray, candidates: np.ndarray, *, jitter: Jitter
) -> np.ndarray:
    """Gain in log evidence of adding each candidate [M, D] as a knot, at fixed parameters, [M].

    Exact for Gaussian data at alpha = 0; elsewhere a screen that orders candidates well. O(N K M) for all of them,
    against O(N K^2 M) for M evaluations. A candidate that the knots determine already gains nothing.
    """

    def gains(candidates: np.ndarray, at: Evaluation, fit: SiteFit) -> np.ndarray:
        prior = model.kernel.diag(candidates) + jitter.relative * jitter.scale(model.kernel)
        v_z = times_lower_transposed(model.kernel(candidates, Z), at.projector.L_inverse)  # [M, K]
        left = prior - np.einsum("mk,mk->m", v_z, v_z)
        new = left > 1e-8 * prior
        scale = 1.0 / np.sqrt(np.where(new, left, np.inf))
        total = at.blocks.sum(DirectionPass(at.projector, fit, candidates, v_z, scale))
        G = fit.T @ total.projected
        p = np.maximum(total.weighted - np.einsum("km,km->m", G, G), 0.0)  # nu' R nu
        gain = 0.5 * total.fit**2 / (1 + p) - 0.5 * np.log1p(p) - total.cost
        return np.where(new, gain, 0.0)

    # some candidates at a time: a block's [n, M] arrays stay small
    parts = [candidates[i : i + CANDIDATES_AT_ONCE] for i in range(0, len(candidates), CANDIDATES_AT_ONCE)]
    with Evaluation.of(model, as_blocks(rows), Z, jitter) as at:
        fit = inference_of(model).fit(at)
        return np.concatenate([gains(part, at, fit) for part in parts]) if parts else np.empty(0)


def knot_sums(model: Model, rows: Rows | Blocks, Z: np.ndarray, *, jitter: Jitter) -> KnotSums:
    """Sums over the rows from which VFE can be had through any subset of the knots Z. Costs O(N K^2)."""
    vfe = model.with_power(0.0)
    inference = inference_of(vfe)
    with Evaluation.of(vfe, as_blocks(rows), Z, jitter) as at:
        fit = inference.fit(at)
    Kuu = model.kernel(Z, Z)
    Kuu.flat[:: len(Z) + 1] += jitter.relative * jitter.scale(model.kernel)
    return KnotSums(Kuu, fit.gram, fit.gamma + fit.gram @ fit.gamma, inference.several_passes)


@dataclass(frozen=True)
class KnotSums:
    """What VFE knows of the data through knots, with the sites of the observations held.

    Kuu [K, K] has its jitter; G = V diag(w) V' and g = V (h b) are sums over the rows (S4, S6), with the basis of the
    mean behind the knots. A subset of the knots sees the rows through M'V, where M has orthonormal columns, so its sums
    are M'G M and M'g: no row is needed. Exact for Gaussian data; for others the sites would move a little, which
    `sites_move` says.
    """

    Kuu: np.ndarray
    G: np.ndarray
    g: np.ndarray
    sites_move: bool = False

    @cached_property
    def L(self) -> np.ndarray:
        return cholesky(self.Kuu)

    @cached_property
    def L_inverse(self) -> np.ndarray:
        return invert_lower(self.L)

    @cached_property
    def _factor(self) -> tuple[np.ndarray, np.ndarray]:
        """Factor of B = I + G, and its inverse."""
        LB = cholesky(identity_plus(self.G))
        return LB, invert_lower(LB)

    @cached_property
    def value(self) -> float:
        """The log evidence, up to what does not depend on the knots (S7 at power 0)."""
        LB, T = self._factor
        explained = float(self.G.diagonal()[: len(self.Kuu)].sum())
        return 0.5 * (explained - log_det(LB) + float(((T @ self.g) ** 2).sum()))

    @cached_property
    def losses(self) -> np.ndarray:
        """Loss of log evidence from dropping each knot alone, [K]. O(K^3) for all of them."""
        K, T = len(self.Kuu), self._factor[1]
        # what knot k adds to the others is a unit vector u in the space of V: column k of L^-1, scaled
        U = np.zeros((len(self.G), K))
        U[:K] = self.L_inverse / np.sqrt(np.einsum("jk,jk->k", self.L_inverse, self.L_inverse))
        left = np.einsum("jk,jk->k", T @ U, T @ U)  # u'B^-1 u
        fit = (T.T @ (T @ self.g)) @ U
        return 0.5 * (np.log(left) + fit**2 / left + np.einsum("jk,jk->k", U, self.G @ U))

    def without(self, knots: np.ndarray) -> KnotSums:
        """The sums of the other knots. O(K^3)."""
        kept = np.setdiff1d(np.arange(len(self.Kuu)), knots)
        Kuu = self.Kuu[np.ix_(kept, kept)]
        n_basis = len(self.G) - len(self.Kuu)
        M = np.zeros((len(self.G), len(kept) + n_basis))
        M[: len(self.Kuu), : len(kept)] = (invert_lower(cholesky(Kuu)) @ self.L[kept]).T
        M[len(self.Kuu) :, len(kept) :] = np.eye(n_basis)
        return KnotSums(Kuu, M.T @ self.G @ M, M.T @ self.g, self.sites_move)
