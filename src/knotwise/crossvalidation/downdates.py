"""Gaussian data at held parameters: what remains of a posterior when some rows are taken away, in closed form."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from knotwise.errors import NotPositiveDefiniteError
from knotwise.evidence import InMemory, Jitter, Model, Rows, full_evidence, sparse_evidence
from knotwise.evidence.inference.conjugate import EvidencePass
from knotwise.evidence.projection import Evaluation
from knotwise.evidence.sparse import SparseState
from knotwise.numerics.blocks import Executor, rows_per_block
from knotwise.numerics.linalg import cholesky, cholesky_of_identity_plus, invert_lower, solve_factored
from knotwise.posterior.base import KnotView, Latent, SparsePosterior

__all__ = ["exact_left_out", "sparse_left_out"]

#: share of a row's variance that must be left when its own say is taken off; below it too few digits remain
LEAST_LEFT = 1e-6
#: numbers of the K x K sums that are held at a time
MOST_NUMBERS = 2**26


def exact_left_out(model: Model, rows: Rows, left_out: Sequence[np.ndarray]) -> list[Latent]:
    """Marginals of f at each group of rows, given all others: of the exact GP, in N^3 flops for all groups  (O1)."""
    state = full_evidence(model, rows, gradient=False).state
    R, noise = state.precision.matrix(), _noise(model, rows)
    found = []
    for group in left_out:
        L = cholesky(R[np.ix_(group, group)])
        error = solve_factored(L, state.a[group])
        half = invert_lower(L)
        variance = np.einsum("ij,ij->j", half, half) - noise[group]
        least = np.finfo(float).eps * model.kernel.diag(rows.X[group])  # a difference, which rounding may take below 0
        found.append(Latent(rows.y[group] - error, np.maximum(variance, least)))
    return found


def sparse_left_out(
    model: Model, rows: Rows, Z: np.ndarray, jitter: Jitter, left_out: Sequence[np.ndarray], executor: Executor
) -> list[Latent]:
    """Marginals of f at each group of rows, given all others, through knots that stay.

    One evaluation of all rows, and for a group of n rows O(n K^2 + n^3): the rows are taken off the posterior (O2).
    A group of more rows than knots, or one that alone tells the posterior somewhere, takes K x K sums of the other
    groups (O3).
    """
    state = sparse_evidence(model, rows, Z, jitter=jitter, gradient=False, executor=executor).state
    found: dict[int, Latent] = {}
    for group, view in _views(SparsePosterior(state), rows.X, left_out):
        latent = _taken_off(view, rows[left_out[group]], model)
        if latent is not None:
            found[group] = latent
    large = [number for number in range(len(left_out)) if number not in found]
    for some in _chunks(large, left_out, len(state.gamma)):
        latents = _by_sums(state, rows, [left_out[number] for number in some], executor)
        found |= dict(zip(some, latents, strict=True))
    return [found[number] for number in range(len(left_out))]


def _views(posterior: SparsePosterior, X: np.ndarray, groups: Sequence[np.ndarray]) -> Iterator[tuple[int, KnotView]]:
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
    D = _noise(model, rows) + np.asarray(rows.per_copy(model.power * view.residual))
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


@dataclass(frozen=True)
class KnotTotals:
    """V'WV and V'Wr of some rows."""

    gram: np.ndarray
    projected: np.ndarray


def _by_sums(state: SparseState, rows: Rows, groups: Sequence[np.ndarray], executor: Executor) -> list[Latent]:
    """Groups given the sums of all other rows.

    The sums of the others are added, not those of the group subtracted from the total: where a group alone tells the
    posterior, a difference would have no digits.
    """
    others = np.ones(len(rows), bool)
    others[np.concatenate(groups)] = False
    parts = [*groups, *([np.flatnonzero(others)] if others.any() else [])]
    totals = [_totals(state, rows[part], executor) for part in parts]
    found = []
    for number, group in enumerate(groups):
        rest = [total for other, total in enumerate(totals) if other != number]
        T = invert_lower(cholesky_of_identity_plus(np.sum([total.gram for total in rest], axis=0)))
        gamma = T.T @ (T @ np.sum([total.projected for total in rest], axis=0))
        found.append(SparsePosterior(replace(state, T=T, gamma=gamma)).latent(rows.X[group], executor))
    return found


def _totals(state: SparseState, rows: Rows, executor: Executor) -> KnotTotals:
    with Evaluation.of(state.model, InMemory(rows, executor), state.Z, state.jitter, keep=False) as at:
        total = at.blocks.sum(EvidencePass(at.projector))
    return KnotTotals(total.gram, total.projected)


def _noise(model: Model, rows: Rows) -> np.ndarray:
    """Noise variance of each row, of one that counts more than once that of the mean of its copies, [N]."""
    noise = model.noise_of(rows).variance(rows)
    return np.asarray(rows.per_copy(np.broadcast_to(noise, len(rows))))
