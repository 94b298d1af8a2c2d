"""Gaussian data: the sites are the observations, and the posterior is exact given the prior. One pass."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from knotwise.evidence.blocks import Block, BlockCache, Sums
from knotwise.evidence.full_sites import FullState, RootPrecision, prior_covariance
from knotwise.evidence.inference.base import Inference, SiteFit
from knotwise.evidence.model import Evidence, Model, Rows
from knotwise.evidence.projection import Evaluation, ProjectedPass, Projection
from knotwise.evidence.residual import Sites, residual_of
from knotwise.numerics.linalg import (
    cholesky,
    cholesky_of_identity_plus,
    half_inverse_without,
    invert_lower,
    log_det,
    solve_factored,
    weighted_gram,
)

LOG_2PI = float(np.log(2 * np.pi))


@dataclass(frozen=True)
class Conjugate(Inference):
    """Gaussian data without a nugget: sites in closed form."""

    name = "Conjugate inference"
    word = "conjugate"
    value_name = "log evidence"
    is_bound = True
    several_passes = False

    def refuses(self, model: Model) -> str:
        if not model.likelihood.conjugate:
            return "it is for Gaussian data; use 'laplace'."
        return "a nugget cannot be told from Gaussian noise." if model.sizes[2] else ""

    def fit(self, at: Evaluation, start: np.ndarray | None = None) -> SiteFit:
        total = at.blocks.sum(EvidencePass(at.projector))
        LB = cholesky_of_identity_plus(total.gram)  # (S5)
        T = invert_lower(LB)
        gamma = T.T @ (T @ total.projected)  # (S6)
        quadratic = total.quadratic - total.projected @ gamma
        n_rows = at.blocks.summary.count
        value = 0.5 * float(total.log_weight - n_rows * LOG_2PI - log_det(LB) - quadratic)  # (S7)
        return SiteFit(value, total.gram, T, gamma, ObservedSites(at.model, gamma))

    def exact(self, model: Model, rows: Rows, *, gradient: bool, start: np.ndarray | None = None) -> Evidence:
        """log N(y; m, K + noise). Costs N^3 flops with the gradient and N^3/3 without."""
        K, pullback = prior_covariance(model, rows)
        noise = _noise(model, rows)
        K.flat[:: len(K) + 1] += rows.per_copy(noise)
        L = cholesky(K, overwrite=True)
        r = rows.y - model.mean.offset
        a = solve_factored(L, r)
        value = -0.5 * float(len(rows) * LOG_2PI + log_det(L) + r @ a) + _within_copies(rows, noise)
        state = FullState(model, rows, a, RootPrecision(L, None))
        if not gradient:
            return Evidence(value, None, None, state)
        K_bar = half_inverse_without(L, a)  # with the other sign; the kernel is symmetric, so it need not be
        noise_bar = -np.asarray(rows.per_copy(K_bar.diagonal()))
        if rows.weights is not None:
            noise_bar = noise_bar - 0.5 * (rows.weights - 1.0) / noise  # of `_within_copies`                (S18)
        likelihood_bar = model.noise_bar(rows, noise_bar)
        theta_bar = model.in_order(-pullback(K_bar).theta, likelihood_bar, 0.0, float(a.sum()))
        return Evidence(value, theta_bar, None, state)


@dataclass
class EvidenceSums(Sums):
    """Sums over rows that the value needs."""

    gram: np.ndarray  # V' diag(w) V
    projected: np.ndarray  # V' (w r)
    quadratic: float  # sum w r^2
    log_weight: float  # sum log w, without the penalty of the approximation


class EvidencePass(ProjectedPass):
    """The sums of one block; see `Summed`."""

    def __call__(self, block: Block, cache: BlockCache) -> EvidenceSums:
        model = self.projector.model
        seen = self.projector.project(block, cache)
        W, r = 1.0 / _noise(model, block.rows), block.rows.y - model.mean.offset
        residual = residual_of(model)
        summed = residual.see(model, block, seen, W, r)
        w = summed.weigh(summed.w)
        wr = w * summed.r
        log_weight = residual.log_weight(model, block, seen, W, summed)
        return EvidenceSums(weighted_gram(summed.V, w), wr @ summed.V, float(wr @ summed.r), log_weight)


@dataclass(frozen=True)
class ObservedSites:
    """The observations as sites: W is one over the noise."""

    model: Model
    gamma: np.ndarray
    moves = False

    def sites(self, block: Block, seen: Projection, cache: BlockCache) -> Sites:
        model = self.model
        W, r = 1.0 / _noise(model, block.rows), block.rows.y - model.mean.offset
        summed = residual_of(model).see(model, block, seen, W, r)
        a = summed.w * (summed.r - summed.V @ self.gamma)  # (S6)
        return Sites(summed.V, W, summed.w, a, summed.copies, r=r)

    def likelihood_bar(self, block, sites, noise_bar, W_bar, slope):
        return self.model.noise_bar(block.rows, noise_bar)


def _noise(model: Model, rows: Rows) -> np.ndarray | float:
    """Noise variance of each row, or one for all; that of held sites has the nugget, Gaussian data have none."""
    return model.noise_of(rows).variance(rows) + model.nugget.variance


def _within_copies(rows: Rows, noise: np.ndarray | float) -> float:
    """What the copies of rows add to the log density of their means: equal values, so no differences  (S18)."""
    if rows.weights is None:
        return 0.0
    spare = rows.weights - 1.0
    return -0.5 * float((spare * (LOG_2PI + np.log(noise)) + np.log(rows.weights)).sum())


@dataclass(frozen=True)
class HeldSites(Inference):
    """The targets of the rows are those of their sites, m + b / W, and their known noise variances 1 / W (N6).

    The value is log Z(sites). Kernel, nugget and mean are learned from it as from Gaussian data; it does not depend on
    the likelihood, whose parameters have the gradient 0.
    """

    name = "Inference with held sites"
    word = "variational"
    value_name = "log density of the sites"
    several_passes = False

    def refuses(self, model: Model) -> str:
        return ""

    def fit(self, at: Evaluation, start: np.ndarray | None = None) -> SiteFit:
        return Conjugate().fit(at, start)

    def exact(self, model: Model, rows: Rows, *, gradient: bool, start: np.ndarray | None = None) -> Evidence:
        raise NotImplementedError("Sites are held where rows are seen through knots.")
