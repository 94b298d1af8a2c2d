"""The search for sites that depend on the posterior which they make: a fixed point, with Anderson acceleration.

The same search serves every inference that says where sites should be (`SiteTarget`), through knots and for the exact
GP. Each step is the natural-gradient step to where the sites should be (V4), accelerated by the last four (Anderson,
V6a). Where the objective is a bound, a point that lowers it is refused, and a shorter plain step is made instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Protocol, TypeVar

import numpy as np

from knotwise.errors import KnotwiseError, NotPositiveDefiniteError
from knotwise.evidence.inference.base import Inference, SiteFit
from knotwise.evidence.inference.newton import far_off
from knotwise.evidence.inference.sites import HISTORY, SitePassSums, SiteTarget
from knotwise.evidence.inference.sites_exact import ExactSites
from knotwise.evidence.inference.sites_sparse import SparseSites
from knotwise.evidence.model import Evidence, Model, Rows
from knotwise.evidence.projection import Evaluation

MAX_PASSES = 60
SHORTEST = 2.0**-12  # step, as a share of the whole one, below which nothing is gained any more
GROWTH = 4.0  # of the residual in one step, beyond which a step is refused where there is no bound to tell
CLOSE = 1e-5  # squared residual at which sites count as found where rounding lets no step succeed
NEAR = 1e-3  # squared residual, in nats, up to which a bound that could be a bit tighter serves, and that is said
LARGEST_ERROR = 1e-6  # of expectations, relative, above which it is said
WRONG = 1e-2  # of expectations, relative, above which sites that do not move any more are those of something else
ROUNDING = 1e-11  # of the objective, by which it may fall
ROUNDED = 1e-7  # the same, where the sites do not move any more


class SiteSpace(Protocol):
    """Rows with sites, and the posterior which these make."""

    target: SiteTarget

    @property
    def kl_penalty(self) -> float:
        """(|gamma|^2 + log |B|) / 2, which is taken from what the rows add to the objective."""

    def look(self) -> SitePassSums:
        """Look at the rows at their current sites, under the posterior of these."""

    def step(self, shares: np.ndarray | None, size: float) -> int:
        """Step (see `RowSites.step`), and find the posterior of the new sites; the number of blocks that were lost.

        Raises `NotPositiveDefiniteError` where there is none.
        """


@dataclass(frozen=True)
class SearchEnd:
    """How a search ended: the objective, how many looks at the rows it took, and if it did not converge, why."""

    value: float
    n_passes: int
    converged: bool
    why: str = ""


def search_sites(space: SiteSpace, tolerance: float, max_passes: int = MAX_PASSES) -> SearchEnd:
    """Move the sites until the squared length of their residual is below the tolerance.

    What rows have lost is found again: such a step counts for nothing, and the search goes on from there.
    """
    size, best, smallest, n_passes, n_lost, remark = 1.0, -np.inf, np.inf, 0, 0, ""
    shares: np.ndarray | None
    while n_passes < max_passes and size > SHORTEST:
        with far_off():
            seen = space.look()
            value = seen.value - space.kl_penalty
        n_passes, remark = n_passes + 1, _remark(seen)
        if n_lost or seen.n_lost:  # the posterior is not that of these sites
            best, smallest, shares = -np.inf, np.inf, np.zeros(HISTORY)
        elif _is_better(value, seen.distance, best, smallest, tolerance, is_bound=space.target.is_bound):
            best, smallest, shares, size = value, min(seen.distance, smallest), _shares(seen), min(1.0, 2.0 * size)
            if seen.distance <= tolerance:
                return SearchEnd(value, n_passes, seen.error <= WRONG, remark)
        else:
            shares, size = None, 0.5 * size
        n_lost, size = _step(space, shares, size)
    distance = np.inf
    if np.isfinite(best):  # sites, posterior and value are those of the last point that was kept
        with far_off():
            space.step(None, 0.0)
            distance = space.look().distance
    if smallest <= CLOSE:
        return SearchEnd(best, n_passes, True, remark)
    if space.target.is_bound and distance <= NEAR:
        near = f"the sites of the observations still moved a little: the bound is about {distance:.0e} nats short"
        return SearchEnd(best, n_passes, True, f"{near}; {remark}" if remark else near)
    why = f"the sites of the observations were still moving after {n_passes} looks at the data"
    if remark:
        why += f"; {remark}"
    # from where the residual is infinite the search has come nowhere, and its bound is none
    return SearchEnd(best if np.isfinite(smallest) else -np.inf, n_passes, False, why)


def _is_better(
    value: float, distance: float, best: float, smallest: float, tolerance: float, *, is_bound: bool
) -> bool:
    """Whether sites are to be kept: by the bound, or where there is none, by how far they are from the target."""
    if not np.isfinite(value) or np.isnan(distance):
        return False
    if not is_bound:
        return np.isfinite(distance) and distance <= GROWTH * smallest
    if distance <= tolerance:  # nothing is left to be gained, whatever rounding says of a bound of many nats
        return value >= best - ROUNDED * abs(best)
    # however far: e^f expected under a wide posterior may be e^500, whose square is infinite
    return best == -np.inf or value >= best - ROUNDING * abs(best)


def _step(space: SiteSpace, shares: np.ndarray | None, size: float) -> tuple[int, float]:
    """Step as far as there is a posterior; the number of blocks that were lost, and the size of the step."""
    while size > SHORTEST:
        try:
            with far_off():
                return space.step(shares, size), size
        except NotPositiveDefiniteError:
            shares, size = None, 0.5 * size
    return 0, size


def _shares(seen: SitePassSums) -> np.ndarray:
    """How much of each of the last steps to take back, so that the residual is least; [HISTORY]."""
    length = seen.normal.diagonal()
    used = np.flatnonzero((length > 0) & np.isfinite(length))
    shares = np.zeros(HISTORY)
    if len(used) and np.isfinite(seen.distance):
        normal = seen.normal[np.ix_(used, used)]
        scale = 1.0 / np.sqrt(normal.diagonal())  # steps of one length, so that one tolerance fits
        solution = np.linalg.lstsq(scale[:, None] * normal * scale, scale * seen.slope[used], rcond=1e-10)[0]
        shares[used] = scale * solution
    return shares


def _remark(seen: SitePassSums) -> str:
    if seen.error <= LARGEST_ERROR:
        return ""
    return f"expectations of the likelihood are exact to {seen.error:.0e} only, with the largest number of nodes"


Space = TypeVar("Space", bound=SiteSpace)


@dataclass(frozen=True)
class SiteInference(Inference):
    """An inference that searches for its sites; subclasses say where they should be.

    The search ends where the squared length of the residual of all sites, in the Fisher metric, is below `tolerance`:
    the value is wrong by about as much, the gradient by its root. It gives up after `max_passes` looks at the data.
    """

    tolerance: float = 1e-8
    max_passes: int = MAX_PASSES

    name: ClassVar[str]
    word: ClassVar[str]
    target: ClassVar[SiteTarget]
    several_passes: ClassVar[bool] = True

    def with_tolerance(self, tolerance: float, *, at_least: bool = False) -> SiteInference:
        return replace(self, tolerance=max(tolerance, self.tolerance) if at_least else tolerance)

    def fit(self, at: Evaluation, start: np.ndarray | None = None) -> SiteFit:
        """Search from the sites of the warm start in the per-block caches, or from the mode of the posterior."""
        space, end = self._search(partial(SparseSites.from_last, at, self.target), self._cold(at, start))
        return space.ended(end.value, end.converged, end.why)

    def _cold(self, at: Evaluation, start: np.ndarray | None) -> Callable[[], SparseSites]:
        """How a search begins without a warm start."""
        return partial(SparseSites.from_mode, at, self.target, start)

    def exact(self, model: Model, rows: Rows, *, gradient: bool, start: np.ndarray | None = None) -> Evidence:
        """The same for the exact GP; `start` has what the last search left, [N, 3], or the a of a mode, [N]."""
        begin = partial(ExactSites.begin, model, rows, self.target)
        space, end = self._search(partial(begin, start), partial(begin, None))
        return space.ended(end.value, end.converged, end.why, gradient=gradient)

    def _search(self, *begins: Callable[[], Space | None]) -> tuple[Space, SearchEnd]:
        """Search from the first start and, where that leads nowhere, from the next."""
        found: tuple[Space, SearchEnd] | None = None
        failure: KnotwiseError | None = None
        for begin in begins:
            try:
                space = begin()
                if space is None:
                    continue
                found = space, search_sites(space, self.tolerance, self.max_passes)
            except KnotwiseError as error:  # from sites that make no posterior, or lead to some
                failure = error
                continue
            if found[1].converged:
                break
        if found is None:
            raise failure or KnotwiseError("The search for sites has no start.")
        return found
