"""Newton's method for the posterior mode, with a line search and honest flags."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import numpy as np

from knotwise.errors import KnotwiseError, NotPositiveDefiniteError

MAX_ITERATIONS = 200
MAX_HALVINGS = 30
#: squared Newton decrement after which one exact step has reached the mode to rounding, in the gradient too
QUADRATIC = 1e-11
#: decrement below which a linearly convergent step changes nothing any more
LINEAR = 1e-14
#: decrement below which the true curvature is tried, where it may be negative
CLOSE = 0.1
#: saddles that one search may leave
MAX_SADDLES = 20


class ModeSearch(Protocol):
    """One posterior whose mode is wanted. `psi` is log p(y | f) + log p(f), up to a constant."""

    log_concave: bool
    converged: bool

    @property
    def accepted(self) -> bool:
        """Whether any point was found at which psi is finite."""

    def evaluate(self, step: float, *, true_curvature: bool) -> tuple[float, float]:
        """Go `step` of the way to the target; return psi there and the decrement of the whole step."""

    def accept(self) -> None:
        """Make the point of the last evaluation the current one."""

    def aim(self) -> None:
        """Set the target of the next step from the curvature at the current point."""

    def aim_off_saddle(self) -> bool:
        """Where the current point is no maximum, set the target along a direction in which psi bends upwards."""


Search = TypeVar("Search", bound="ModeSearch")


def search_mode(
    begin: Callable[[np.ndarray], Search], starts: Sequence[Callable[[], np.ndarray]]
) -> tuple[Search, bool]:
    """Search for the mode from the first start and, where that leads nowhere, from the next.

    A steep likelihood can have a curvature at the prior mean that leaves no digits for anything else.
    """
    found = None
    failure = KnotwiseError("The density of the data is not finite at the prior mean: start from another `mean`.")
    for start in starts:
        try:
            with far_off():
                search = begin(start())
            reached = find_mode(search)
        except KnotwiseError as error:
            failure = error
            continue
        found = search if search.accepted else found
        if reached:
            break
    if found is None:
        raise failure
    return found, found.converged


def far_off() -> np.errstate:
    """Around trials, which may be far off: their psi tells, and no warning is needed."""
    return np.errstate(over="ignore", invalid="ignore", divide="ignore")


def find_mode(search: ModeSearch) -> bool:
    """Climb to the mode; return whether it was reached. psi never falls by more than rounding.

    Where the likelihood is not log-concave, steps take a positive curvature until they are close, then the true one;
    the point where the search ends is always left with the true curvature. Steps of positive curvature may end at a
    saddle, which the search leaves along a direction that rises.
    """
    with far_off():
        search.converged = _climb(search)
        if not search.log_concave and search.accepted:
            _leave_saddles(search)
        return search.converged


def _leave_saddles(search: ModeSearch) -> None:
    """Climb on from each saddle, along a direction in which psi bends upwards."""
    for _ in range(MAX_SADDLES):
        if not search.aim_off_saddle():
            return
        psi, _ = search.evaluate(0.0, true_curvature=False)
        steps = (2.0**-halvings for halvings in range(MAX_HALVINGS))
        if not any(search.evaluate(step, true_curvature=False)[0] > psi + 1e-12 * abs(psi) for step in steps):
            break
        search.accept()
        search.converged = _climb(search)
    raise KnotwiseError("The search for the mode of the latent function ended at a saddle of the posterior.")


def _climb(search: ModeSearch) -> bool:
    true = search.log_concave
    psi, _ = search.evaluate(0.0, true_curvature=true)
    if not np.isfinite(psi):
        return False
    search.accept()
    for _ in range(MAX_ITERATIONS):
        try:
            search.aim()
        except NotPositiveDefiniteError:
            if not true or search.log_concave:
                raise
            true = False
            search.evaluate(0.0, true_curvature=False)
            search.accept()
            search.aim()
        stepped_true, step = true, 1.0
        new, decrement = search.evaluate(step, true_curvature=true)
        while not new >= psi - 1e-12 * abs(psi) and step > 2.0**-MAX_HALVINGS:
            step /= 2
            new, decrement = search.evaluate(step, true_curvature=true)
        if not new >= psi - 1e-12 * abs(psi):
            return False
        search.accept()
        psi = new
        if step == 1.0 and abs(decrement) <= (QUADRATIC if stepped_true else LINEAR):
            if not true:
                search.evaluate(0.0, true_curvature=True)
                search.accept()
            return True
        if not true and step == 1.0 and abs(decrement) < CLOSE:
            true = True
            search.evaluate(0.0, true_curvature=True)
            search.accept()
        elif true and not search.log_concave and step < 1.0:
            true = False
            search.evaluate(0.0, true_curvature=False)
            search.accept()
    if not true:
        search.evaluate(0.0, true_curvature=True)
        search.accept()
    return False
