"""The scalar problem of each row: its own part of the latent value, given what the knots say.

With x = m + v'gamma and the variance lam of the row's own part, the mode of the row is where

    a = d log p(y | f) / df,    f = x + lam a,

the maximum over a of log p(y | x + lam a) - lam a^2 / 2 (L5). So nothing of a row need be known between two passes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from knotwise.evidence.model import Rows
from knotwise.likelihoods.base import Derivatives, Likelihood

FEW_ITERATIONS, MAX_ITERATIONS = 6, 200
#: last step in f, relative to 1 + |f|, with which a search for the mode goes on, and with which it ends
CLOSE_ENOUGH, CLOSE = 1e-4, 1e-10
#: steps in f up to which Newton's is as good as Halley's, and beyond which none is made at once
SHORT, LONG = 0.03, 2.0
#: |f| beyond which nothing is small any more
FAR = 1e3


@dataclass(frozen=True)
class RowModes:
    """Per row: a, the latent value f, and the derivatives of log p there.

    `last_step` is the largest step in f that was made after the derivatives were taken: a and f are exact to its third
    power, the second derivative to its square, the third to itself.
    """

    a: np.ndarray
    f: np.ndarray
    derivatives: Derivatives
    last_step: float = 0.0


def modes_without_own_part(likelihood: Likelihood, rows: Rows, x: np.ndarray) -> RowModes:
    """The modes where lam is 0: the knots say all there is to say of f."""
    d = likelihood.derivatives(rows.y, x, rows.sizes)
    return RowModes(d.first, x, d)


def find_row_modes(
    likelihood: Likelihood,
    rows: Rows,
    x: np.ndarray,
    lam: np.ndarray,
    start: np.ndarray | None,
    latent_of_data: Callable[[], np.ndarray],
    close: float = CLOSE,
) -> RowModes:
    """Solve the scalar problems of some rows, all at once.

    `start` is an a from which a log-concave likelihood, which has one maximum, gets there sooner. Others may have two,
    so they look from the side of the knots and from the side of the data, and take the better. A row whose mode is
    beyond reach is NaN. `close` is the size of the last step, relative to 1 + |f|.
    """
    problem = RowProblem(likelihood, rows, x, lam, close)
    if likelihood.log_concave:
        found = problem.solve_concave(np.zeros(len(x)) if start is None else start)
        if start is None or found.last_step <= close or not np.isnan(found.a).any():
            return found
        return problem.solve_concave(np.zeros(len(x)))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        from_data = np.where(lam > 0, (latent_of_data() - x) / lam, 0.0)
    problem = replace(problem, close=CLOSE)
    near, far = problem.climb(np.zeros(len(x))), problem.climb(np.where(np.isfinite(from_data), from_data, 0.0))
    better = problem.objective(far.a) > problem.objective(near.a)
    if not better.any():
        return near
    return _choose(better, far, near)


@dataclass(frozen=True)
class RowProblem:
    """The scalar problems of some rows."""

    likelihood: Likelihood
    rows: Rows
    x: np.ndarray
    lam: np.ndarray
    close: float

    def derivatives(self, a: np.ndarray) -> Derivatives:
        return self.likelihood.derivatives(self.rows.y, self.x + self.lam * a, self.rows.sizes)

    def objective(self, a: np.ndarray) -> np.ndarray:
        """What is to be maximised, row by row."""
        density = self.likelihood.log_density(self.rows.y, self.x + self.lam * a, self.rows.sizes)
        return density - 0.5 * self.lam * a * a

    def solve_concave(self, a: np.ndarray) -> RowModes:
        """Halley's method for all rows, as long as it goes well; the few that are left then, by themselves."""
        for _ in range(FEW_ITERATIONS):
            d = self.derivatives(a)
            curvature = 1.0 - self.lam * d.second
            step = (d.first - a) / curvature
            moved = self.lam * step
            size = float(np.abs(moved).max())
            if size <= self.close:
                return self._end(a, step, curvature, d, size)
            if not math.isfinite(size):
                return self._newton(np.where(np.isfinite(a), a, 0.0))
            if size > SHORT:
                step /= 1.0 - np.clip(self._turn(moved, curvature, d), -0.5, 0.5)
            if size > LONG:
                step *= np.minimum(1.0, LONG / np.maximum(np.abs(moved), LONG))
            a = a + step
        d = self.derivatives(a)
        curvature = 1.0 - self.lam * d.second
        step = (d.first - a) / curvature
        left, found = np.flatnonzero(~self._close(step, a)), self._end(a, step, curvature, d)
        if not len(left):
            return found
        some = RowProblem(self.likelihood, self.rows[left], self.x[left], self.lam[left], self.close)
        return _replaced(found, left, some._newton(a[left]))

    def _newton(self, a: np.ndarray) -> RowModes:
        """Newton's method between brackets, in which d log p / df - a falls; NaN for rows whose mode is beyond reach.

        Where it creeps its steps grow, and where it swings to and fro it takes the middle.
        """
        low, high = np.full(len(a), -np.inf), np.full(len(a), np.inf)
        last, growth = np.zeros(len(a)), np.ones(len(a))
        for _ in range(MAX_ITERATIONS):
            d = self.derivatives(a)
            gradient_residual = d.first - a
            curvature = 1.0 - self.lam * d.second
            step = gradient_residual / curvature
            done = self._close(step, a)
            if done.all():
                break
            low, high = np.where(gradient_residual > 0, a, low), np.where(gradient_residual < 0, a, high)
            slow = np.abs(step) > 0.5 * np.abs(last)
            growth = np.where(slow & (step * last > 0), 2.0 * growth, 1.0)  # down an exponential, for example
            new = a + growth * step
            inside = (new > low) & (new < high) & ~(slow & (step * last < 0))
            if not inside.all():
                middle = np.where(np.isfinite(low) & np.isfinite(high), 0.5 * (low + high), 0.5 * a)
                new = np.where(inside, new, middle)
            a, last = np.where(done, a, new), step
        return self._end(np.where(done, a, np.nan), step, curvature, d)

    def climb(self, a: np.ndarray) -> RowModes:
        """Climb to a maximum; where the objective bends upwards by a positive curvature, and never down."""
        reached, size = self.objective(a), np.ones(len(a))
        for _ in range(MAX_ITERATIONS):
            d = self.derivatives(a)
            curvature = 1.0 - self.lam * d.second
            if not (curvature > 0).all():
                f = self.x + self.lam * a
                soft = 1.0 + self.lam * self.likelihood.step_curvature(self.rows.y, f, self.rows.sizes)
                curvature = np.where(curvature > 0, curvature, soft)
            step = (d.first - a) / curvature
            if self._close(step, a).all():
                break
            new = a + size * step
            value = self.objective(new)
            worse = ~(value >= reached - 1e-13 * np.abs(reached))
            a, reached = np.where(worse, a, new), np.where(worse, reached, value)
            size = np.where(worse, 0.5 * size, 1.0)
        return self._end(a, np.where(self._close(step, a), step, 0.0), curvature, d)

    def _close(self, step: np.ndarray, a: np.ndarray) -> np.ndarray:
        """Where a step changes f by next to nothing; a may still change, where lam is small."""
        f = np.abs(self.x + self.lam * a)
        return np.abs(self.lam * step) <= self.close * (1.0 + np.minimum(f, FAR))

    def _turn(self, moved: np.ndarray, curvature: np.ndarray, d: Derivatives) -> np.ndarray:
        """How much the slope changes along half of Newton's step, which moves f by `moved`.

        Newton's step over 1 less this is Halley's: what it leaves is of the third order.
        """
        return 0.5 * self.lam * d.third * moved / curvature

    def _end(
        self, a: np.ndarray, step: np.ndarray, curvature: np.ndarray, d: Derivatives, size: float | None = None
    ) -> RowModes:
        """One more step, so small that its third power is nothing: the curvature follows it by its slope."""
        moved = self.lam * step
        last_step = float(np.abs(moved).max()) if size is None else size
        if not last_step <= CLOSE:
            step = step / (1.0 - self._turn(moved, curvature, d))
            moved = self.lam * step
        a = a + step
        second = d.second + d.third * moved
        return RowModes(a, self.x + self.lam * a, Derivatives(d.first, second, d.third), last_step)


def _replaced(found: RowModes, left: np.ndarray, new: RowModes) -> RowModes:
    """The modes with those of some rows, by their numbers, from a search of their own."""

    def put(all_rows: np.ndarray, some: np.ndarray) -> np.ndarray:
        all_rows = all_rows.copy()
        all_rows[left] = some
        return all_rows

    d, e = found.derivatives, new.derivatives
    derivatives = Derivatives(put(d.first, e.first), put(d.second, e.second), put(d.third, e.third))
    return RowModes(put(found.a, new.a), put(found.f, new.f), derivatives, np.inf)


def _choose(first: np.ndarray, one: RowModes, other: RowModes) -> RowModes:
    d, e = one.derivatives, other.derivatives
    derivatives = Derivatives(
        np.where(first, d.first, e.first), np.where(first, d.second, e.second), np.where(first, d.third, e.third)
    )
    last_step = max(one.last_step, other.last_step)
    return RowModes(np.where(first, one.a, other.a), np.where(first, one.f, other.f), derivatives, last_step)
