"""Sites through knots: what the blocks of rows do in a search for them, and the posterior at the driver."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from knotwise.errors import KnotwiseError
from knotwise.evidence.blocks import WARM_START, Block, BlockCache, Sums
from knotwise.evidence.inference.base import SiteFit, SiteRule
from knotwise.evidence.inference.laplace import Laplace
from knotwise.evidence.inference.sites import RowSites, SitePassSums, SiteTarget, converged_sites, first_sites
from knotwise.evidence.model import Model
from knotwise.evidence.projection import Evaluation, ProjectedPass, Projection, Projector, next_serial
from knotwise.evidence.residual import Sites
from knotwise.evidence.residual.base import damping
from knotwise.numerics.linalg import (
    cholesky,
    identity_plus,
    invert_lower,
    log_det,
    times_lower_transposed,
    weighted_gram,
)


class SparseSites:
    """Rows seen through knots with their sites, which are in the per-block caches; gamma and B's factor are here."""

    def __init__(self, at: Evaluation, target: SiteTarget, serial: int, sums: SiteSums) -> None:
        self.at, self.target, self.serial = at, target, serial
        self._factor(sums)

    @staticmethod
    def from_last(at: Evaluation, target: SiteTarget) -> SparseSites | None:
        """Begin with the sites of the last search; None where a block does not have them."""
        serial = next_serial()
        sums = at.blocks.sum(StartPass(at.projector, serial))
        return None if sums.n_lost else SparseSites(at, target, serial, sums)

    @staticmethod
    def from_data(at: Evaluation, target: SiteTarget) -> SparseSites:
        """Begin with the first sites that the target itself knows."""
        serial = next_serial()
        return SparseSites(at, target, serial, at.blocks.sum(DataStartPass(at.projector, serial, target)))

    @staticmethod
    def from_mode(at: Evaluation, target: SiteTarget, start: np.ndarray | None) -> SparseSites:
        """Begin with the sites of the Laplace approximation, or where it does not arrive, at the prior mean."""
        rule: SiteRule | None
        try:
            fit = Laplace().fit(at, start)
            rule, gamma = fit.rule if fit.converged else None, fit.gamma
        except KnotwiseError:
            rule = None
        if rule is None:
            gamma = np.zeros(at.projector.width)
        serial = next_serial()
        return SparseSites(at, target, serial, at.blocks.sum(ModeStartPass(at.projector, serial, gamma, rule)))

    @property
    def kl_penalty(self) -> float:
        return 0.5 * float(self.gamma @ self.gamma + log_det(self.LB))

    def look(self) -> SitePassSums:
        return self.at.blocks.sum(LookPass(self.at.projector, self.serial, self.gamma, self.T, self.target))

    def step(self, shares: np.ndarray | None, size: float) -> int:
        positive = self.target.has_positive_precisions(self.at.model)
        sums = self.at.blocks.sum(StepPass(self.at.projector, self.serial, self.gamma, shares, size, positive))
        self._factor(sums)
        return sums.n_lost

    def ended(self, value: float, converged: bool, why: str) -> SiteFit:
        """What the engine gets when the search has ended."""
        rule = FoundSites(self.at.projector, self.serial, self.gamma, self.T, self.target)
        return SiteFit(value, self.gram, self.T, self.gamma, rule, converged, why)

    def _factor(self, sums: SiteSums) -> None:
        LB = cholesky(identity_plus(sums.gram))
        self.LB, self.T, self.gram = LB, invert_lower(LB), sums.gram
        self.gamma = self.T.T @ (self.T @ sums.projected)


@dataclass
class SiteSums(Sums):
    """Sums over rows with sites, and how many blocks have lost theirs."""

    gram: np.ndarray  # V' diag(w) V
    projected: np.ndarray  # V' (h b)
    n_lost: int


@dataclass(frozen=True)
class SitesPass(ProjectedPass):
    """A pass over rows with sites, which are in the per-block cache and are known by the serial of their search."""

    serial: int

    def sites(self, cache: BlockCache) -> RowSites | None:
        serial, sites = cache.get("moving", (None, None))
        return sites if serial == self.serial else None

    def begin(self, cache: BlockCache, x: np.ndarray) -> RowSites:
        """Put sites x = (W, b), [2, n], into the per-block cache."""
        sites = RowSites(x)
        cache["moving"] = (self.serial, sites)
        return sites

    def found_anew(self, block: Block, seen: Projection, cache: BlockCache, gamma: np.ndarray) -> RowSites:
        """Sites for a block that has lost them: those of the likelihood at what the knots say."""
        model = self.projector.model
        return self.begin(cache, first_sites(model, block.rows, seen.V @ gamma))

    def sum_sites(self, block: Block, seen: Projection, x: np.ndarray, n_lost: int) -> SiteSums:
        model, rows, (W, b) = self.projector.model, block.rows, x
        h = damping(W, model.power * seen.c + model.nugget.variance)
        return SiteSums(weighted_gram(seen.V, rows.weigh(W * h)), rows.weigh(h * b) @ seen.V, n_lost)


class StartPass(SitesPass):
    """Take up the sites of the last search; a block without them is lost."""

    def __call__(self, block: Block, cache: BlockCache) -> SiteSums:
        last = cache.get(WARM_START)
        if last is None or last.ndim == 1 or not np.isfinite(last).all():
            return SiteSums(np.zeros((self.width, self.width)), np.zeros(self.width), 1)
        x = np.ascontiguousarray(last[:, 1:].T)
        self.begin(cache, x)
        return self.sum_sites(block, self.projector.project(block, cache), x, 0)


@dataclass(frozen=True)
class DataStartPass(SitesPass):
    """Take the first sites that the target knows."""

    target: SiteTarget

    def __call__(self, block: Block, cache: BlockCache) -> SiteSums:
        x = self.target.first(self.projector.model, block.rows)
        assert x is not None
        self.begin(cache, x)
        return self.sum_sites(block, self.projector.project(block, cache), x, 0)


@dataclass(frozen=True)
class ModeStartPass(SitesPass):
    """Take the sites of the Laplace approximation at its mode, or those of the likelihood at what the knots say."""

    gamma: np.ndarray
    rule: SiteRule | None

    def __call__(self, block: Block, cache: BlockCache) -> SiteSums:
        model, seen = self.projector.model, self.projector.project(block, cache)
        if self.rule is None:
            x = first_sites(model, block.rows, seen.V @ self.gamma)
        else:
            mode = self.rule.sites(block, seen, cache)
            assert mode.f is not None
            x = np.stack([mode.W, mode.W * (mode.f - model.mean.offset) + mode.a])  # (L4)
        self.begin(cache, x)
        return self.sum_sites(block, seen, x, 0)


@dataclass(frozen=True)
class LookPass(SitesPass):
    """How far the sites are from where they should be under the posterior (gamma, T)."""

    gamma: np.ndarray
    T: np.ndarray
    target: SiteTarget

    def __call__(self, block: Block, cache: BlockCache) -> SitePassSums:
        seen, sites = self.projector.project(block, cache), self.sites(cache)
        n_lost = int(sites is None)
        if sites is None:
            sites = self.found_anew(block, seen, cache, self.gamma)
        z, q = knots_say(seen, self.gamma, self.T)
        sums = sites.look(self.target, self.projector.model, block.rows, z, q, seen.c)
        sums.n_lost = n_lost
        cache[WARM_START] = sites.last
        return sums


@dataclass(frozen=True)
class StepPass(SitesPass):
    """Step, and sum the new sites."""

    gamma: np.ndarray
    shares: np.ndarray | None
    size: float
    positive: bool

    def __call__(self, block: Block, cache: BlockCache) -> SiteSums:
        seen, sites = self.projector.project(block, cache), self.sites(cache)
        n_lost = int(sites is None)
        if sites is None:
            sites = self.found_anew(block, seen, cache, self.gamma)
        else:
            sites.step(self.shares, self.size, positive=self.positive)
            cache["moving"] = (self.serial, sites)
        return self.sum_sites(block, seen, sites.x, n_lost)


@dataclass(frozen=True)
class FoundSites:
    """Sites where a search ended: those of the per-block cache, or found again from the posterior (gamma, T)."""

    projector: Projector
    serial: int
    gamma: np.ndarray
    T: np.ndarray
    target: SiteTarget
    moves = False  # the objective is stationary in the sites

    def sites(self, block: Block, seen: Projection, cache: BlockCache) -> Sites:
        serial, found = cache.get("moving", (None, None))
        if serial != self.serial or found.seen is None:
            z, q = knots_say(seen, self.gamma, self.T)
            found = converged_sites(self.target, self._model, block.rows, z, q, seen.c)
            cache["moving"] = (self.serial, found)
        at, look = found.marginals, found.seen
        return Sites(
            seen.V, at.W, at.w, at.a, block.rows.weights, at.h, at.lam, look.mean, variance=look.variance, paid=at.w
        )

    def likelihood_bar(self, block, sites, noise_bar, W_bar, slope):
        return self.target.likelihood_bar(self._model, block.rows, sites.f, sites.variance)

    @property
    def _model(self) -> Model:
        return self.projector.model


def knots_say(seen: Projection, gamma: np.ndarray, T: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of what the knots say of each row, v'gamma and v'B^-1 v."""
    G = times_lower_transposed(seen.V, T)
    return seen.V @ gamma, np.einsum("nk,nk->n", G, G)
