"""Sites by the Laplace approximation: the curvature of log p at the mode of the posterior.

Through knots the search has K numbers for a state, gamma: given it, each row solves a scalar problem of its own, and
one pass gives psi, its gradient V'a - gamma and its curvature B (L5).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import eigh

from knotwise.errors import NotPositiveDefiniteError
from knotwise.evidence.blocks import WARM_START, Block, BlockCache, Sums, a_of
from knotwise.evidence.inference.base import Inference, SiteFit
from knotwise.evidence.inference.laplace_exact import exact_laplace, latent_of_data, mode_likelihood_bar
from knotwise.evidence.inference.newton import far_off, search_mode
from knotwise.evidence.inference.row_modes import CLOSE, CLOSE_ENOUGH, find_row_modes, modes_without_own_part
from knotwise.evidence.model import Evidence, Model, Rows
from knotwise.evidence.projection import Evaluation, ProjectedPass, Projection, Projector, next_serial
from knotwise.evidence.residual import Sites, residual_of
from knotwise.evidence.residual.base import damping, independent_of
from knotwise.numerics.linalg import cholesky, identity_plus, invert_lower, log_det, weighted_gram

NO_V = np.empty((0, 0))


@dataclass(frozen=True)
class Laplace(Inference):
    """The Laplace approximation: a Gaussian at the mode of the latent function, with the curvature there."""

    name = "The Laplace approximation"
    word = "laplace"
    value_name = "log evidence by Laplace's approximation"
    several_passes = True

    def refuses(self, model: Model) -> str:
        if residual_of(model).diagonal:
            return ""
        return "it needs rows that are independent given the knots; leave `residual` at None."

    def fit(self, at: Evaluation, start: np.ndarray | None = None) -> SiteFit:
        """Search for the mode from `start`, from the warm start in the per-block caches, or from the mean."""
        first = _gamma_of_last(at) if start is None else start
        zero = np.zeros(at.projector.width)
        starts = [lambda: zero, lambda: _gamma_of_data(at)]
        search, converged = search_mode(
            lambda gamma: SparseSearch(at, gamma), starts if first is None else [lambda: first, *starts]
        )
        assert search.sums is not None
        search.factor()
        psi = search.sums.log_density - 0.5 * (search.sums.prior + search.gamma @ search.gamma)
        value = float(psi - 0.5 * (log_det(search.LB) + search.sums.cost))
        rule = ModeSites(at.projector, search.gamma, search.serial)
        why = "" if converged else "the search for the mode of the latent function did not converge"
        return SiteFit(value, search.sums.gram, search.T, search.gamma, rule, converged, why)

    def exact(self, model: Model, rows: Rows, *, gradient: bool, start: np.ndarray | None = None) -> Evidence:
        return exact_laplace(model, rows, gradient=gradient, start=start)


class SparseSearch:
    """The search for the mode through knots: psi and the Newton system of gamma by one pass over the rows."""

    def __init__(self, at: Evaluation, gamma: np.ndarray) -> None:
        self.at, self.gamma, self.target = at, gamma, gamma
        self.log_concave = at.model.likelihood.log_concave
        self.sums: ModeSums | None = None
        self.serial = -1
        self.converged = False

    @property
    def accepted(self) -> bool:
        return self.sums is not None

    def evaluate(self, step: float, *, true_curvature: bool) -> tuple[float, float]:
        way = self.target - self.gamma
        self.tried = gamma = self.gamma + step * way
        self.tried_serial = next_serial()
        total = self.at.blocks.sum(ModePass(self.at.projector, gamma, true_curvature, self.tried_serial))
        self.tried_sums = total
        psi = total.log_density - 0.5 * (total.prior + gamma @ gamma)
        decrement = 0.0 if self.sums is None else float((self.sums.projected - self.gamma) @ way)
        return float(psi), decrement

    def accept(self) -> None:
        self.gamma = self.target = self.tried
        self.sums, self.serial = self.tried_sums, self.tried_serial

    def aim(self) -> None:
        assert self.sums is not None
        self.factor()
        # written in the gradient: V' (h b) would cancel for large counts                              (L5)
        self.target = self.gamma + self.T.T @ (self.T @ (self.sums.projected - self.gamma))

    def aim_off_saddle(self) -> bool:
        try:
            self.factor()
        except NotPositiveDefiniteError:
            assert self.sums is not None
            self.target, B = self.gamma, identity_plus(self.sums.gram)
            if np.isfinite(B).all():
                self.target = self.gamma + eigh(B, subset_by_index=[0, 0])[1][:, 0]  # (L7)
            return True
        return False

    def factor(self) -> None:
        """Factorise B at the current point."""
        assert self.sums is not None
        self.LB = cholesky(identity_plus(self.sums.gram))
        self.T = invert_lower(self.LB)


@dataclass
class ModeSums(Sums):
    """Sums over rows at one gamma."""

    gram: np.ndarray  # V' diag(w) V
    projected: np.ndarray  # V' a
    log_density: float
    prior: float  # sum lam a^2
    cost: float  # of the residual variance


@dataclass(frozen=True)
class ModePass(ProjectedPass):
    """What one Newton step needs of a block, given gamma; its sites and its a stay in the cache."""

    gamma: np.ndarray
    true_curvature: bool
    serial: int

    def __call__(self, block: Block, cache: BlockCache) -> ModeSums:
        model, rows = self.projector.model, block.rows
        seen = self.projector.project(block, cache)
        with far_off():
            sites, last_step = _sites_at(
                model, rows, seen, self.gamma, cache, true_curvature=self.true_curvature, close=CLOSE_ENOUGH
            )
            _keep(sites, cache, self.serial if last_step <= CLOSE else None, with_V=self.projector.keep)
            assert sites.f is not None
            return ModeSums(
                weighted_gram(seen.V, rows.weigh(sites.w)),
                rows.weigh(sites.a) @ seen.V,
                rows.total(model.likelihood.log_density(rows.y, sites.f, rows.sizes)),
                float(rows.weigh(sites.lam * sites.a) @ sites.a),
                independent_of(model).cost(model, rows, sites.W, seen.c),
            )


def _sites_at(
    model: Model,
    rows: Rows,
    seen: Projection,
    gamma: np.ndarray,
    cache: BlockCache,
    *,
    true_curvature: bool,
    close: float,
) -> tuple[Sites, float]:
    """The sites of some rows where each is at its own mode, given gamma; and how large the last step there was."""
    likelihood, residual = model.likelihood, independent_of(model)
    lam = residual.own_variance(model, seen.c)
    x = seen.V @ gamma
    x += model.mean.offset
    if lam.any():
        guess = _first_guess(x, cache)
        found = find_row_modes(likelihood, rows, x, lam, guess, lambda: latent_of_data(model, rows), close)
    else:
        found = modes_without_own_part(likelihood, rows, x)
    d = found.derivatives
    W = -d.second if true_curvature else likelihood.step_curvature(rows.y, found.f, rows.sizes)
    positive = np.maximum(W, 0.0)
    cache[WARM_START] = np.column_stack([found.a, positive, positive * (found.f - model.mean.offset) + found.a])  # (L4)
    h = damping(W, lam)
    w = W * h
    waived = 0.0 if model.power == 1.0 or likelihood.log_concave else 0.5 * (1.0 - model.power) * np.minimum(w, 0.0)
    return Sites(seen.V, W, w, found.a, rows.weights, h, lam, found.f, d.third, waived), found.last_step


def _keep(sites: Sites, cache: BlockCache, serial: int | None, *, with_V: bool) -> None:
    """Put sites into the per-block cache; with their V [n, K] only where the projection is kept, whose it is."""
    cache["sites"] = (serial, sites if with_V else replace(sites, V=NO_V))


def _first_guess(x: np.ndarray, cache: BlockCache) -> np.ndarray | None:
    """A warm start of a from the per-block cache: the last one, moved along with what the knots say."""
    _, last = cache.get("sites", (None, None))
    if last is None:
        return a_of(cache.get(WARM_START))
    return last.a - last.w * (x - (last.f - last.lam * last.a))


@dataclass(frozen=True)
class ModeSites:
    """Sites at the mode: those of the per-block cache, if they are exact, or found again."""

    projector: Projector
    gamma: np.ndarray
    serial: int
    moves = True

    def sites(self, block: Block, seen: Projection, cache: BlockCache) -> Sites:
        serial, sites = cache.get("sites", (None, None))
        if serial == self.serial:
            return sites if sites.V is seen.V else replace(sites, V=seen.V)
        model = self.projector.model
        with far_off():  # on the way to the modes of the rows
            sites, _ = _sites_at(model, block.rows, seen, self.gamma, cache, true_curvature=True, close=CLOSE)
        _keep(sites, cache, self.serial, with_V=self.projector.keep)
        return sites

    def likelihood_bar(self, block, sites, noise_bar, W_bar, slope):
        return mode_likelihood_bar(self.projector.model, block.rows, sites.f, W_bar, slope)


# -- where a search starts ----------------------------------------------------------------------------


@dataclass
class LastSums(Sums):
    """The equations of gamma for the sites that the last search left, and how many blocks have lost them."""

    equations: np.ndarray  # [K, K + 1]
    n_lost: int


class LastPass(ProjectedPass):
    """The equations of gamma for the sites of a per-block cache.

    They keep the function of the last search where parameters change. Its gamma, or V' a, would become another one: the
    more rows, the farther off.
    """

    def __call__(self, block: Block, cache: BlockCache) -> LastSums:
        last = cache.get(WARM_START)
        if last is None or last.ndim == 1 or not np.isfinite(last).all():
            return LastSums(np.zeros((self.width, self.width + 1)), 1)
        _, W, b = last.T
        return LastSums(_equations(self.projector.model, block.rows, self.projector.project(block, cache), W, b), 0)


class DataPass(ProjectedPass):
    """The equations of gamma for the sites of the likelihood where it is largest, [K, K + 1]."""

    def __call__(self, block: Block, cache: BlockCache) -> np.ndarray:
        model, rows = self.projector.model, block.rows
        f = latent_of_data(model, rows)
        W = np.maximum(model.likelihood.fisher(rows.y, f, rows.sizes), 0.0)
        b = W * (f - model.mean.offset) + model.likelihood.derivatives(rows.y, f, rows.sizes).first
        return _equations(model, rows, self.projector.project(block, cache), W, b)


def _equations(model: Model, rows: Rows, seen: Projection, W: np.ndarray, b: np.ndarray) -> np.ndarray:
    """V' diag(w) V and V' (h b) of Gaussian sites, [K, K + 1]."""
    h = damping(W, independent_of(model).own_variance(model, seen.c))
    return np.column_stack([weighted_gram(seen.V, rows.weigh(W * h)), rows.weigh(h * b) @ seen.V])


def _gamma_of_last(at: Evaluation) -> np.ndarray | None:
    """That of the last sites; None where a block has lost them, or where they are too far off."""
    with far_off():
        total = at.blocks.sum(LastPass(at.projector))
    try:
        return None if total.n_lost else _solve_for_gamma(total.equations)
    except NotPositiveDefiniteError:
        return None


def _gamma_of_data(at: Evaluation) -> np.ndarray:
    """The gamma of a Gaussian posterior with these sites."""
    return _solve_for_gamma(at.blocks.sum(DataPass(at.projector)))


def _solve_for_gamma(equations: np.ndarray) -> np.ndarray:
    """The mean of gamma under Gaussian sites: (I + V' diag(w) V)^-1 V' (h b)."""
    T = invert_lower(cholesky(equations[:, :-1] + np.eye(len(equations))))
    return T.T @ (T @ equations[:, -1])
