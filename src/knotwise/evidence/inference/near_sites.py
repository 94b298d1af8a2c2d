"""Sites with Vecchia neighbours: each is an observation r = b / W with the known noise 1 / W (N6).

With sites held, all is that of Gaussian data with neighbours (N1, N2). The marginal of a row, under which its site is
looked at, is its prediction from its nearest rows, itself among them (N7). Covariances within neighbourhoods do not
depend on the sites: they are computed once for a search. Rows, and these covariances, are held at the driver.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from knotwise.errors import KnotwiseError
from knotwise.evidence.blocks import Block, BlockCache, InMemory, Sums, a_of
from knotwise.evidence.inference.base import PseudoData, SiteFit
from knotwise.evidence.inference.laplace import Laplace
from knotwise.evidence.inference.sites import (
    ExpectedCurvature,
    Marginals,
    RowSites,
    SiteLook,
    SitePassSums,
    SiteTarget,
    first_sites,
)
from knotwise.evidence.model import Model, Rows
from knotwise.evidence.projection import Evaluation, Projection
from knotwise.evidence.residual import Sites
from knotwise.evidence.residual.conditionals import NOISE_FLOOR, Conditionals, Joint, with_zeros
from knotwise.evidence.residual.neighbours import neighbours_of
from knotwise.evidence.residual.ordering import nearest_with_itself
from knotwise.numerics.blocks import Executor, Serial, block_slices
from knotwise.numerics.linalg import (
    cholesky_of_identity_plus,
    invert_lower,
    log_det,
    times_lower_transposed,
    weighted_gram,
)
from knotwise.numerics.nearest import MISSING

LOG_2PI = float(np.log(2 * np.pi))
#: a site's precision times the prior variance is at least that: below 0, as where p is not log-concave, nothing would
#: be an observation
LEAST_PRECISION = 1e-6
#: rows that are computed together
ROWS_TOGETHER = 1024
#: covariances of neighbourhoods take at most so many bytes while a search lasts; of more rows they are computed again
KEEP_BYTES = 768 * 2**20


@dataclass(frozen=True)
class NearCurvature(ExpectedCurvature):
    """Variational sites under marginals that are not those of one joint posterior: the objective is no bound (N6)."""

    is_bound = False

    def look(self, model: Model, rows: Rows, at: Marginals) -> SiteLook:
        mu = at.s + model.mean.offset
        seen = self.expected(model, rows, mu, at.tau)
        # the objective is log Z + sum E log p - E log site, where E log site is that of the normalised site N(b/W,
        # 1/W): its log Z is that of the same normalised sites, so that constants cancel
        log_site = 0.5 * (np.log(at.W) - LOG_2PI - (at.b - at.W * at.s) ** 2 / at.W - at.W * at.tau)  # expected
        W = np.maximum(-seen.second, least_precision(model, rows))
        return SiteLook(W, W * at.s + seen.first, seen.log_density - log_site, mu, at.tau, seen.error)


def least_precision(model: Model, rows: Rows) -> np.ndarray:
    return LEAST_PRECISION / model.kernel.diag(rows.X)


class Neighbourhoods:
    """Rows with other rows each, the row itself last: their residual covariances K - Q, kept if few."""

    def __init__(self, joint: Joint, members: np.ndarray, *, keep: bool) -> None:
        self.joint, self.members = joint, members
        self.kept: dict[int, np.ndarray] | None = {} if keep else None

    def given(self, rows: slice, noise: np.ndarray) -> Conditionals:
        """Some rows given their neighbours, where the members [n, M] have this noise [n, M]."""
        members = self.members[rows]
        S = None if self.kept is None else self.kept.get(rows.start)
        if S is None:
            S = np.concatenate([self.joint.of(members[some]) for some in block_slices(len(members), 128)])
            if self.kept is not None:
                self.kept[rows.start] = S
        each = np.arange(members.shape[1])

        def covariance(some: slice) -> np.ndarray:
            with_noise = S[some].copy()
            with_noise[:, each, each] += noise[some]
            return with_noise

        return Conditionals.factored(members, covariance)


class NearSites:
    """All rows with their sites, and their posterior through knots and neighbours.

    A look at N rows with m neighbours and K knots costs O(N (m^3 + m K + K^2)), the first one O(N m^2 K) more.
    """

    def __init__(self, at: Evaluation, target: SiteTarget, x: Callable[[NearSites], np.ndarray]) -> None:
        self.target = target
        model, residual, rows = at.model, neighbours_of(at.model), at.blocks.take(slice(None))
        self.at, self.model, self.rows = at, model, rows
        self.power_one = model.with_power(1.0)
        kernel, N, K = model.kernel, len(rows), len(at.projector.Z)
        V = times_lower_transposed(kernel(rows.X, at.projector.Z), at.projector.L_inverse)
        prior = kernel.diag(rows.X)
        self.c = np.maximum(prior - np.einsum("nk,nk->n", V, V), 0.0)
        self.floor = NOISE_FLOOR * prior
        self.V = with_zeros(np.hstack([V, rows.basis]), np.zeros(N))  # the last column is for r
        own = np.arange(N, dtype=np.int32)
        earlier = np.column_stack([np.where(residual.graph == MISSING, N, residual.graph), own]).astype(np.int32)
        around = residual.around
        if around is None:
            around = nearest_with_itself(kernel.coordinates(rows.X), residual.n_neighbors + 1)
        near = np.column_stack([around, own])
        joint = Joint(kernel, rows.X, np.ascontiguousarray(self.V[:, :K]), self.c, np.zeros(N))
        keep = 8 * N * (earlier.shape[1] ** 2 + near.shape[1] ** 2) <= KEEP_BYTES
        self.earlier = Neighbourhoods(joint, earlier, keep=keep)
        self.near = Neighbourhoods(joint, near, keep=keep)
        self.executor: Executor = at.blocks.executor if isinstance(at.blocks, InMemory) else Serial()
        self.least = least_precision(model, rows)
        self.sites = RowSites(x(self))
        self._factor()

    @staticmethod
    def from_last(at: Evaluation, target: SiteTarget) -> NearSites | None:
        """Begin with the sites of the last search; None where it has left none."""
        last = at.blocks.last()
        if last is None or last.ndim == 1 or not np.isfinite(last).all():
            return None
        return NearSites(at, target, lambda _: np.ascontiguousarray(last[:, 1:].T))

    @staticmethod
    def from_mode(at: Evaluation, target: SiteTarget) -> NearSites:
        """Begin at the mode through the knots alone, or where there is none, at the prior mean."""
        return NearSites(at, target, NearSites._mode_through_knots)

    def _mode_through_knots(self) -> np.ndarray:
        model, rows, projector = self.model, self.rows, self.at.projector
        first = self.target.first(model, rows)
        if first is not None:
            return first
        alone = replace(model, residual=None, power=1.0, inference=None)
        blocks = self.at.blocks.anew()
        s = np.zeros(len(rows))
        try:
            with Evaluation.of(alone, blocks, projector.Z, self.at.jitter) as knots:
                fit = Laplace().fit(knots)
            a = a_of(blocks.last())
            if fit.converged and a is not None:
                s = (self.c + model.nugget.variance) * a + self.V[:-1, :-1] @ fit.gamma  # (L5)
        except KnotwiseError:
            pass
        return first_sites(model, rows, s)

    @property
    def kl_penalty(self) -> float:
        return -self.log_normalizer

    def look(self) -> SitePassSums:
        parts = list(self.executor.map(self._predict, block_slices(len(self.rows), ROWS_TOGETHER)))
        z, q = (np.concatenate(part) for part in zip(*parts, strict=True))
        return self.sites.look(self.target, self.power_one, self.rows, z, q, 0.0)

    def step(self, shares: np.ndarray | None, size: float) -> int:
        self.sites.step(shares, size, positive=self.target.has_positive_precisions(self.model))
        self._factor()
        return 0

    def ended(self, value: float, converged: bool, why: str) -> SiteFit:
        """What the engine gets when the search has ended; the next search starts from these sites."""
        seen, (W, b) = self.sites.seen, self.sites.x
        assert seen is not None
        if converged:
            self.at.blocks.restore(self.sites.last)
        pseudo = PseudoData(self.V[:-1, -1].copy(), self.noise, W, b, seen.mean, seen.variance)
        rule = PseudoSites(self.power_one, self.gamma, pseudo, self.target)
        return SiteFit(value, self.gram, self.T, self.gamma, rule, converged, why, pseudo)

    def _factor(self) -> None:
        """The posterior of the knots, and log Z, given the sites (N1, N2)."""
        x, rows = self.sites.x, self.rows
        np.maximum(x[0], self.least, out=x[0])
        W, b = x
        # site e^(b s - W s^2/2) is the observation b / W with noise 1 / W, which is why W stays above its floor  (N6)
        one_copy = 1.0 / W + self.model.nugget.variance  # the nugget is each copy's own
        self.noise = np.asarray(rows.per_copy(one_copy))
        self.V[:-1, -1] = b / W
        self.floored = np.append(np.maximum(self.noise, self.floor), 0.0)
        # from here on all is that of Gaussian data: gamma = B^-1 V~'(w r~), and log Z by the determinant lemma; the
        # term of sample weights is that of replicates with one latent value (S18), with the noise of one replicate
        parts = self.executor.map(self._sum, block_slices(len(rows), ROWS_TOGETHER))
        total = next(parts)
        for part in parts:
            total += part
        LB = cholesky_of_identity_plus(total.gram)
        self.T, self.gram = invert_lower(LB), total.gram
        self.gamma = self.T.T @ (self.T @ total.projected)
        quadratic = total.quadratic - total.projected @ self.gamma
        value = -total.log_variance - rows.count * LOG_2PI - log_det(LB) - quadratic
        if rows.weights is not None:  # (S18)
            value -= float((np.log(rows.weights) + (rows.weights - 1.0) * np.log(one_copy)).sum())
        self.log_normalizer = 0.5 * float(value)

    def _sum(self, some: slice) -> NearSums:
        """Sums of some rows given their *earlier* neighbours: with all of the nearest it would be no density (N1)."""
        found = self.earlier.given(some, self.floored[self.earlier.members[some]])
        mixed, w = found.residuals(self.V), 1.0 / found.D
        V, r = np.asfortranarray(mixed[:, :-1]), mixed[:, -1]
        wr = w * r
        return NearSums(weighted_gram(V, w), wr @ V, float(wr @ r), float(np.log(found.D).sum()))

    def _predict(self, some: slice) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of what kernel and mean say of some rows, given all sites (N7)."""
        members = self.near.members[some]
        noise = self.floored[members]
        # the row stands twice among the members: as an observation with its noise, and last as the latent value, which
        # has none. Trap: without a floor there the joint covariance has no factor where the observation has hardly any
        # noise; D has the floor in it, and it is taken off again below
        noise[:, -1] = self.floor[some]
        found = self.near.given(some, noise)
        V = found.residuals(self.V)[:, :-1]
        g = times_lower_transposed(V, self.T)
        # mean v~'gamma + A'r_n, variance D + v~'B^-1 v~: kriging of the residual given eta ~ N(gamma, B^-1)  (N7)
        z = V @ self.gamma + np.einsum("nm,nm->n", found.A, self.V[members[:, :-1], -1])
        return z, np.maximum(found.D - self.floor[some], 0.0) + np.einsum("nk,nk->n", g, g)


@dataclass
class NearSums(Sums):
    """Sums over rows that log Z needs: V~' diag(w) V~, V~' (w r~), w r~^2 and log D."""

    gram: np.ndarray
    projected: np.ndarray
    quadratic: float
    log_variance: float


@dataclass(frozen=True)
class PseudoSites:
    """The sites as observations, held: what the gradient is of (N6). The likelihood is seen under the marginals."""

    model: Model
    gamma: np.ndarray
    pseudo: PseudoData
    target: SiteTarget
    moves = False

    def sites(self, block: Block, seen: Projection, cache: BlockCache) -> Sites:
        residual, own = neighbours_of(self.model), np.arange(block.start, block.start + block.n)
        numbers = np.concatenate([own, residual.outside(own)])
        r, W = self.pseudo.r[numbers], 1.0 / (1.0 / self.pseudo.W[numbers] + self.model.nugget.variance)
        summed = residual.see(self.model, block, seen, W, r)
        return Sites(summed.V, W, summed.w, summed.w * (summed.r - summed.V @ self.gamma), summed.copies, r=r)

    def likelihood_bar(self, block, sites, noise_bar, W_bar, slope):
        own = slice(block.start, block.start + block.n)
        return self.target.likelihood_bar(self.model, block.own, self.pseudo.mean[own], self.pseudo.variance[own])
