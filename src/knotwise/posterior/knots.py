"""Posterior through knots (inducing points), which holds no training row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from knotwise.errors import NotPositiveDefiniteError, warn
from knotwise.evidence.blocks import InMemory
from knotwise.evidence.inference.conjugate import EvidencePass
from knotwise.evidence.model import Model, Rows
from knotwise.evidence.projection import Evaluation
from knotwise.evidence.residual.base import damping
from knotwise.evidence.scores import RowScores
from knotwise.evidence.sparse import SparseState, sparse_evidence
from knotwise.numerics.blocks import Executor, block_slices, rows_per_block
from knotwise.numerics.linalg import (
    cholesky,
    cholesky_of_identity_plus,
    invert_lower,
    solve_factored,
    times_lower_transposed,
)
from knotwise.posterior.base import KnotView, Latent, Posterior, noise_of_means, one_per_row
from knotwise.posterior.in_sample import InSample
from knotwise.posterior.residuals import LowRankResiduals

#: approximations through knots that have a name, and their power
POWERS = {"fic": 1.0, "vfe": 0.0}
#: share of a row's variance that must be left when its own say is taken off; below it too few digits remain
LEAST_LEFT = 1e-6
#: numbers of the K x K sums that are held at a time
MOST_NUMBERS = 2**26


class KnotPosterior(Posterior):
    """Posterior through knots. Holds no row of the data; costs O(K^2) per new row."""

    state: SparseState
    is_exact = False

    def __init__(self, state: SparseState) -> None:
        self.state, self.start = state, state.gamma
        self.n_knots, self.width = len(state.Z), len(state.gamma)
        power = state.model.power
        self.approximation = next((word for word, known in POWERS.items() if known == power), power)
        self.size_in_words = f"{self.n_knots} knots"

    @property
    def condition(self) -> float:  # type: ignore[override]
        """Condition number of Kuu with its jitter, as it was factorised."""
        singular = np.linalg.svd(self.state.L_inverse, compute_uv=False)
        return float((singular[0] / singular[-1]) ** 2)

    def rows_in_words(self, inputs: np.ndarray | None) -> str:
        """That it holds no training rows, but how many knots lie on some."""
        known = set() if inputs is None else set(map(bytes, np.ascontiguousarray(inputs + 0.0)))  # + 0.0: no -0
        on_rows = sum(knot in known for knot in map(bytes, np.ascontiguousarray(self.state.Z + 0.0)))
        but = f", but {on_rows} of its {self.n_knots} knots lie on the inputs of training rows" if on_rows else ""
        varies = ", and the knots of its noise are such inputs" if self.state.model.likelihood.uses_inputs else ""
        return f"holds no training rows{but}{varies}."

    def coefficients(self) -> tuple[np.ndarray, np.ndarray]:
        T = self.state.T[:, self.n_knots :]
        return self.state.gamma[self.n_knots :], T.T @ T  # B^-1 = T'T

    def through_knots(self, X: np.ndarray) -> KnotView:
        """f at the rows of X through the knots, jointly, in O(K) numbers for each row."""
        state = self.state
        v, v_all = self._features(X)
        # B^-1 = T'T, so v'eta with eta ~ N(gamma, B^-1) is v'gamma + (T v)'z with z ~ N(0, I)
        g = times_lower_transposed(v_all, state.T)
        residual = state.model.kernel.diag(X) - np.einsum("nk,nk->n", v, v)
        return KnotView(state.model.mean.offset + v_all @ state.gamma, g, np.maximum(residual, 0.0))

    def residual_variance(self, X: np.ndarray) -> np.ndarray:
        """Residual variance at the rows of X, [n]."""
        blocks = block_slices(len(X), rows_per_block(self.width, len(X)))
        return np.concatenate([self.through_knots(X[rows]).residual for rows in blocks])

    def residual_covariance(self, X: np.ndarray) -> np.ndarray:
        """Joint residual covariance K - Q of the rows of X, [n, n]."""
        v, _ = self._features(X)
        return self.state.model.kernel(X, X) - v @ v.T

    def residuals(self, chosen: np.ndarray, scores: RowScores | None = None) -> LowRankResiduals:
        """Residuals of training rows, of all of which it needs the scores. Costs O(n K^2)."""
        assert scores is not None
        state, some = self.state, scores.rows[chosen]
        _, V = self._features(some.X)
        lam = state.model.power * scores.c[chosen] + state.model.nugget.variance
        w = some.weigh(scores.W[chosen] * damping(scores.W[chosen], lam))
        H = w[:, None] * times_lower_transposed(V, state.T)
        return LowRankResiduals(some.weigh(scores.a[chosen]), w, H, (1.0 - state.model.power) * scores.c[chosen])

    def in_sample(self, rows: Rows) -> InSample:
        """The training rows with and without what they say themselves. Costs O(n K^2)."""
        noise, power = one_per_row(self.state.model, rows), self.state.model.power
        n = len(rows)
        error, spread, residual = np.empty(n), np.empty(n), np.empty(n)
        for some in block_slices(n, rows_per_block(self.width, n)):
            view = self.through_knots(rows.X[some])
            error[some], residual[some] = rows.y[some] - view.mean, view.residual
            spread[some] = np.einsum("nk,nk->n", view.spread, view.spread)
        return InSample.of_whole(rows, noise, error, spread, residual, power)

    def refit(self, rows: Rows, executor: Executor, rng: np.random.Generator) -> Posterior:
        """The posterior of other rows through the same knots."""
        return KnotPosterior(self._refitted(self.state.model, rows, executor))

    def leave_out(self, rows, groups, executor, rng, names=None) -> list[Latent]:
        """Marginals of f at each group of rows, given all others, through knots that stay.

        Of Gaussian data it takes one evaluation of all rows, and for a group of n rows O(n K^2 + n^3): the rows are
        taken off the posterior (O2). A group of more rows than knots, or one that alone says anything somewhere, takes
        K x K sums of the other groups (O3).
        """
        model = self.state.model
        if self.n_neighbors or not model.likelihood.conjugate:
            return super().leave_out(rows, groups, executor, rng, names)
        whole = KnotPosterior(self._refitted(model, rows, executor))
        found: dict[int, Latent] = {}
        for group, view in _views(whole, rows.X, groups):
            latent = _taken_off(view, rows[groups[group]], model)
            if latent is not None:
                found[group] = latent
        large = [number for number in range(len(groups)) if number not in found]
        for some in _chunks(large, groups, whole.width):
            latents = _by_sums(whole.state, rows, [groups[number] for number in some], executor)
            found |= dict(zip(some, latents, strict=True))
        return [found[number] for number in range(len(groups))]

    def _refitted(self, model: Model, rows: Rows, executor: Executor) -> SparseState:
        state = self.state
        evidence = sparse_evidence(model, rows, state.Z, jitter=state.jitter, gradient=False, executor=executor)
        if not evidence.converged:
            warn(f"The posterior of {len(rows):,} rows did not converge: {evidence.why}.")
        return evidence.state

    def _features(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """v = L^-1 k(Z, x) for each row [n, K], and with the rows of the mean's basis [n, K + p]."""
        state = self.state
        v = times_lower_transposed(state.model.kernel(X, state.Z), state.L_inverse)
        basis = state.model.mean.basis(X)
        return v, np.hstack([v, basis]) if basis.shape[1] else v

    def _marginals(self, X):
        view = self.through_knots(X)
        # sums of squares, so never negative                                                   (S17, N7)
        return view.mean, view.residual + np.einsum("nk,nk->n", view.spread, view.spread)

    def _joint(self, X):
        v, v_all = self._features(X)
        g = times_lower_transposed(v_all, self.state.T)
        return self.state.model.kernel(X, X) - v @ v.T + g @ g.T


# -- groups of rows are left out ------------------------------------------------------------------


def _views(posterior: KnotPosterior, X: np.ndarray, groups: Sequence[np.ndarray]) -> Iterator[tuple[int, KnotView]]:
    """The rows of groups of no more rows than knots, seen through the knots; several groups at a time."""
    small = [number for number, group in enumerate(groups) if len(group) <= posterior.width]
    most = rows_per_block(posterior.width, sum(len(groups[number]) for number in small))
    while small:
        ends = np.cumsum([len(groups[number]) for number in small])
        n_taken = max(int(np.searchsorted(ends, most, side="right")), 1)
        taken, small = small[:n_taken], small[n_taken:]
        view = posterior.through_knots(X[np.concatenate([groups[number] for number in taken])])
        start = 0
        for number, end in zip(taken, ends.tolist(), strict=False):
            yield number, KnotView(view.mean[start:end], view.spread[start:end], view.residual[start:end])
            start = end


def _taken_off(view: KnotView, rows: Rows, model: Model) -> Latent | None:
    """A group without its own say; None where nearly all that is known there is its own say  (O2)."""
    D = noise_of_means(model, rows) + np.asarray(rows.per_copy(model.power * view.residual))
    H = view.spread @ view.spread.T  # [n, n]
    try:
        L = cholesky(np.diag(D) - H)
    except NotPositiveDefiniteError:
        return None
    if (np.diagonal(L) ** 2 < LEAST_LEFT * D).any():
        return None
    error = D * solve_factored(L, rows.y - view.mean)
    return Latent(rows.y - error, view.residual + D * np.diagonal(solve_factored(L, H)))


def _chunks(numbers: list[int], groups: Sequence[np.ndarray], width: int) -> Iterator[list[int]]:
    """Groups whose sums are held together: one at a time where groups overlap, as with rows left out around them."""
    every = np.concatenate([groups[number] for number in numbers]) if numbers else np.empty(0)
    size = max(MOST_NUMBERS // width**2, 1) if len(np.unique(every)) == len(every) else 1
    for start in range(0, len(numbers), size):
        yield numbers[start : start + size]


def _by_sums(state: SparseState, rows: Rows, groups: Sequence[np.ndarray], executor: Executor) -> list[Latent]:
    """Groups given the sums of all other rows.

    The sums of the others are added, not those of the group subtracted from the total: where a group alone says
    anything, a difference would have no digits.
    """
    others = np.ones(len(rows), bool)
    others[np.concatenate(groups)] = False
    parts = [*groups, *([np.flatnonzero(others)] if others.any() else [])]
    totals = [_totals(state, rows[part], executor) for part in parts]
    found = []
    for number, group in enumerate(groups):
        rest = [total for other, total in enumerate(totals) if other != number]
        T = invert_lower(cholesky_of_identity_plus(np.sum([gram for gram, _ in rest], axis=0)))
        gamma = T.T @ (T @ np.sum([projected for _, projected in rest], axis=0))
        found.append(KnotPosterior(replace(state, T=T, gamma=gamma)).latent(rows.X[group], executor))
    return found


def _totals(state: SparseState, rows: Rows, executor: Executor) -> tuple[np.ndarray, np.ndarray]:
    """V'WV and V'Wr of some rows."""
    with Evaluation.of(state.model, InMemory(rows, executor), state.Z, state.jitter, keep=False) as at:
        total = at.blocks.sum(EvidencePass(at.projector))
    return total.gram, total.projected
