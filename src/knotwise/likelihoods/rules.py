"""Trapezoid rules for integrals over f, for many rows at a time.

On a smooth function that vanishes at both ends the trapezoid rule converges exponentially, and its nodes nest: halving
the step adds the middles and keeps the sums. So rows are refined one by one until two rules agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

MOST_NODES = 4096
TOLERANCE = 1e-8  # for two rules; the finer one is much closer if the integrand is smooth
ANALYTIC_TOLERANCE = 1e-7  # the same where the integrand is known to be: half the step about squares the error
CHUNK = 32_768  # entries of a [nodes, rows] array, so that some of them stay in a core's cache


@dataclass(frozen=True)
class Spread:
    """How the nodes of each row lie: f = origin + centre + width sinh(u), with equal steps in u from `low` to `high`.

    Where `width` is infinite they lie at equal steps in f, from origin + low to origin + high. A narrow width puts most
    of them around the centre and still reaches far: half of the nodes lie beyond the root of width times reach.
    """

    low: np.ndarray
    high: np.ndarray
    centre: np.ndarray
    width: np.ndarray

    @classmethod
    def between(cls, low: np.ndarray, high: np.ndarray, centre: np.ndarray | None = None, width=np.inf) -> Spread:
        """Nodes between these offsets from the origin, [n] each."""
        if centre is None:
            return cls(low, high, np.zeros_like(low), np.full_like(low, np.inf))
        width = np.broadcast_to(np.asarray(width, float), low.shape)
        return cls(np.arcsinh((low - centre) / width), np.arcsinh((high - centre) / width), centre, width)

    def nodes(self, t: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Offsets from the origin, [nodes, rows], at shares t of the way, and their derivatives in t."""
        low, width = self.low[rows], self.width[rows]
        length = self.high[rows] - low
        u = low + length * t[:, None]
        if np.isinf(width).all():
            return u, np.broadcast_to(length, u.shape)
        grown = np.exp(u)
        shrunk = 1 / grown
        return self.centre[rows] + 0.5 * width * (grown - shrunk), 0.5 * length * width * (grown + shrunk)


@dataclass(frozen=True)
class Refined:
    """Quantities [k, n] of the last rule, and how far it differed from the one before, relative to max(1, |value|)."""

    values: np.ndarray
    gap: np.ndarray


def refine(
    sums: Callable[[np.ndarray, np.ndarray], Sequence[np.ndarray]],
    finish: Callable[[np.ndarray, int, np.ndarray], np.ndarray],
    n_rows: int,
    *,
    first: int,
    tolerance: float,
) -> Refined:
    """Halve the step of each row until two rules agree, or MOST_NODES are reached.

    `sums(t, rows)` gives sums over nodes at shares t of the way, one array [rows] each; `finish(sums, n, rows)` makes
    the quantities [k, rows] of them, for a rule of n steps.
    """
    n, rows = first, np.arange(n_rows)
    S = _summed(sums, np.arange(n + 1) / n, rows)
    value = finish(S, n, rows)
    result, gaps = value.copy(), np.full(n_rows, np.inf)
    while len(rows) and 2 * n <= MOST_NODES:
        S = S + _summed(sums, (np.arange(n) + 0.5) / n, rows)
        n *= 2
        new = finish(S, n, rows)
        gap = relative_gap(new, value)
        result[:, rows], gaps[rows] = new, gap
        still = gap > tolerance
        rows, S, value = rows[still], S[:, still], new[:, still]
    return Refined(result, gaps)


def relative_gap(new: np.ndarray, old: np.ndarray) -> np.ndarray:
    """The largest difference of each row, relative to max(1, |value|), of quantities [k, n]."""
    with np.errstate(invalid="ignore"):
        gap = np.abs(new - old) / np.maximum(1.0, np.abs(new))
    gap = np.where(new == old, 0.0, gap)  # also of infinite ones
    return np.max(np.where(np.isnan(gap), np.inf, gap), axis=0, initial=0.0)


def row_chunks(rows: np.ndarray, n_nodes: int) -> Iterator[np.ndarray]:
    """Parts of the rows whose [nodes, rows] arrays are small."""
    step = max(CHUNK // n_nodes, 1)
    for start in range(0, len(rows), step):
        yield rows[start : start + step]


def _summed(sums: Callable, t: np.ndarray, rows: np.ndarray) -> np.ndarray:
    return np.concatenate([np.array(sums(t, part)) for part in row_chunks(rows, len(t))], axis=1)
