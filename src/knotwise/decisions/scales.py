"""Which kernel, of many rows: rows of all scales, given their Vecchia neighbours, say.

Thin rows everywhere, then others, each conditioned on earlier ones: their joint density sees every scale from the
domain's on. With few neighbours it prefers rough kernels, so that kernels are compared with twice as many.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from knotwise.decisions.candidates import (
    SMOOTHER_FIRST,
    Structure,
    as_start,
    best_of,
    fresh,
    how_smooth,
    or_with_trend,
    price,
)
from knotwise.decisions.neighbour_trial import NearCandidate, NearTrial
from knotwise.decisions.neighbours import starts_of
from knotwise.decisions.thresholds import HYPERPARAMETERS, KERNEL, NEIGHBOURS
from knotwise.decisions.trials import Candidate, Trial
from knotwise.errors import KnotwiseError
from knotwise.evidence.residual.ordering import NeighbourhoodBatch
from knotwise.selection.problem import KernelMaker, Problem

#: fits a kernel to rows of all scales of a trial: (near, problem, starts, like) -> the best fit
Fit = Callable[..., "NearCandidate | None"]


def decide_on_all_scales(
    make: KernelMaker, trial: Trial, structures: Sequence[Structure], best: Candidate
) -> tuple[Trial, Candidate, list[Candidate | None]]:
    """The choice by the density of rows of all scales, given their Vecchia neighbours, of many rows.

    Kernels of one structure have the same neighbours. With few of these the density prefers rough kernels, so that
    those which are close are compared with twice as many.
    """
    few = trial, best
    near = NearTrial.near(best.problem, best.theta, trial.rng, trial.trace, most_rows=HYPERPARAMETERS.many_rows)
    stand = [(structure, how_smooth(trial, structure)) for structure in structures]
    asked = [(structure, stands) for structure, stands in stand if not _is_hopeless(stands, best)]
    found = near.each(_first, [stands for _, stands in asked])
    first = [(structure, one) for (structure, _), one in zip(asked, found, strict=True) if one is not None]
    most = max((one.value for _, one in first), default=-np.inf)
    close = [each for each in first if each[1].value >= most - KERNEL.clear_margin * KERNEL.margin]
    fitted: list[Structure] = []
    of: dict[int, Fit] = {}
    for some, fit in near.each(_around, close):
        if some:
            fitted.append(some)
            of |= {id(each.problem): fit for each in some}
    if not fitted:
        return trial, best, []
    found_best = best_of(near, fitted)
    own = next(each for each in fitted if any(tried.problem is found_best.problem for tried in each))
    again = of[id(found_best.problem)]
    best, with_trend = or_with_trend(make, near, own, found_best, again, few=few)
    best, n_scales = _or_two_scales(make, near, best, again)
    return near, best, [*with_trend, *[None] * n_scales]


def _first(near: NearTrial, stands: Candidate) -> NearCandidate | None:
    """The kernel that stands for its structure, with neighbours."""
    start = starts_of(stands.problem, stands.theta)[0]
    return near.round(stands.problem, start, NEIGHBOURS.neighbors, near.first_chosen)


def _around(near: NearTrial, chosen: tuple[Structure, NearCandidate]) -> tuple[list[NearCandidate], Fit]:
    """Kernels of a structure fitted anew: the one that was found, then to both sides of it, for as long as rougher or
    smoother ones are not far behind. Each starts where the one before it ended. Also how they were fitted.
    """
    structure, found = chosen
    batches = [near.batch(found.problem, found.theta, n * NEIGHBOURS.neighbors) for n in (1, 2)]
    fit = partial(_with_neighbours, batches=batches)
    middle = next(i for i, tried in enumerate(structure) if tried.problem is found.problem)
    ends = {middle: fit(near, found.problem, [found.theta], like=found)}
    for step in (1, -1):
        before = ends[middle] or found
        for i in range(middle + step, len(structure) if step > 0 else -1, step):
            problem, kind = structure[i].problem, SMOOTHER_FIRST[max(i, i - step)]
            start = as_start(problem, before.theta, kind, smoother=step < 0)
            here = ends[i] = fit(near, problem, [start], like=before)
            most = max((each.value for each in ends.values() if each is not None), default=-np.inf)
            if here is None or here.value < most - KERNEL.far_behind:
                break
            before = here
    return [each for _, each in sorted(ends.items()) if each is not None], fit


def _with_neighbours(
    near: NearTrial,
    problem: Problem,
    starts: list[np.ndarray],
    like: Candidate | None = None,
    *,
    batches: Sequence[NeighbourhoodBatch],
) -> NearCandidate | None:
    """A kernel with hyperparameters that rows of all scales tell, and their density with twice as many neighbours."""
    found = near.round(problem, starts[0], NEIGHBOURS.neighbors, near.first_chosen, batch=batches[0], like=like)
    try:
        return None if found is None else replace(found, value=near.value_given(found, batches[1]))
    except KnotwiseError:
        return None


def _or_two_scales(
    make: KernelMaker,
    near: NearTrial,
    best: Candidate,
    fit: Fit,
) -> tuple[Candidate, int]:
    """The best kernel, or the sum of two of its kind, with a long and a short length-scale and amplitudes of their own.

    Of the rows that tell the hyperparameters two scales explain more nearly always, and may predict worse in gaps where
    the truth has one: so the evidence of all rows must pay for them, and validation rows be predicted no worse; or
    these are surely predicted better, and the evidence agrees.
    """
    kernel = best.problem.model.kernel
    if kernel.restricted_to is not None:
        return best, 0
    maker = make.with_trend() if best.problem.model.mean is not make(fresh(kernel)).model.mean else make
    assert maker is not None
    problem = maker(fresh(kernel) + fresh(kernel))
    p, apart = best.problem.model.sizes[0], np.log(KERNEL.scales_apart)
    lengthscales = best.problem.table.with_role("lengthscale")[:p]
    amplitudes = best.problem.table.with_role("amplitude")[:p]
    starts = []
    for shorter, longer in (
        (apart, apart),
        (0.0, 2.0 * apart),
    ):  # about the one length-scale, or the longer one far off
        halves = [best.theta[:p] + by * lengthscales - np.log(2.0) * amplitudes for by in (-shorter, longer)]
        starts.append(np.clip(np.concatenate([*halves, best.theta[p:]]), *problem.table.theta_bounds.T))

    def search(near: NearTrial, start: np.ndarray) -> NearCandidate | None:
        found = fit(near, problem, [start])
        if found is not None and not found.stage.result.converged:
            found = fit(near, problem, [found.theta], like=found) or found
        return found

    both: NearCandidate | None = None
    for found in near.each(search, starts):
        if found is not None and (both is None or found.value > both.value):
            both = found
        if both is not None and both.value > best.value + price(both, best):
            break
    if not (isinstance(both, NearCandidate) and isinstance(best, NearCandidate)):
        return best, 1
    first, second = (theta[lengthscales].mean() for theta in (both.theta[:p], both.theta[p : 2 * p]))
    if not abs(first - second) > np.log(KERNEL.two_scales):
        return best, 1
    lead, changed = _lead_on_all_rows(near, both, best)
    (gain, error), (near_gain, near_error) = near.gain(both, best), near.gain(both, best, ("near",))
    pays = lead - changed > price(both, best) or (lead > 0.0 and gain > KERNEL.clear * error)
    # where all rows are clear, validation rows, which lie in a few gaps and edges, must not be sure of the contrary
    contrary = not (gain > -KERNEL.clear * error and near_gain > -KERNEL.clear * near_error)
    return (both if pays and not contrary else best), 1


def _lead_on_all_rows(near: NearTrial, larger: NearCandidate, smaller: NearCandidate) -> tuple[float, float]:
    """Nats by which a kernel is likelier on all rows, at hyperparameters that some of them told, and how many of these
    twice as many neighbours have changed: as many may change again.

    Most of the rows have not told the hyperparameters, so that chance gains nothing there.
    """

    def lead(n_neighbors: int) -> float:
        batch = near.batch(smaller.problem, smaller.theta, n_neighbors, near.all_scales)
        return near.value_given(larger, batch) - near.value_given(smaller, batch)

    try:  # one batch after the other: two of them are the most memory of a fit
        first, second = (lead(n * NEIGHBOURS.neighbors) for n in (1, 2))
    except KnotwiseError:
        return -np.inf, 0.0
    return second, abs(second - first)


def _is_hopeless(tried: Candidate, best: Candidate) -> bool:
    """Whether a structure is so far behind on few rows that it is not asked again."""
    return tried.value < best.value - KERNEL.clear_margin * price(best, tried)
