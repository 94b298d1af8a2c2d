"""How far a kernel reaches: its summands, the columns that it sees, and the distance at which correlation is gone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from knotwise.kernels.base import Kernel
from knotwise.kernels.compose import OnColumns, Product, Sum
from knotwise.kernels.others import Constant, Periodic
from knotwise.kernels.stationary import Stationary

__all__ = ["HARDLY_CORRELATED", "Reach", "columns_seen", "has_sill", "name_of", "reach_along", "summands"]

#: the correlation at the practical range
HARDLY_CORRELATED = 0.05
#: distances between which a range is looked for, in units of the column
NEAREST, FARTHEST = 1e-12, 1e9


@dataclass(frozen=True)
class Reach:
    """The practical range along a column, in the units of the kernel's inputs, or in words why there is none.

    `log_bar` [P] is the gradient of its logarithm in theta.
    """

    distance: float
    log_bar: np.ndarray
    why_none: str = ""


def summands(kernel: Kernel) -> list[Kernel]:
    """The kernels whose sum this one is, in the order of theta; itself, where it is none."""
    if isinstance(kernel, Sum):
        return [*summands(kernel.k1), *summands(kernel.k2)]
    if isinstance(kernel, OnColumns):
        return [OnColumns(inner, kernel.columns) for inner in summands(kernel.kernel)]
    return [kernel]


def columns_seen(kernel: Kernel, n_columns: int) -> list[int]:
    """Numbers of the columns on which a bound kernel depends, in order."""
    return sorted({column for leaf, columns in _leaves(kernel, list(range(n_columns))) for column in columns})


def has_sill(kernel: Kernel) -> bool:
    """Whether the variance is the same everywhere and the covariance one of differences, as far as is known."""
    return all(isinstance(leaf, Stationary | Constant | Periodic) for leaf, _ in _leaves(kernel, []))


def name_of(kernel: Kernel) -> str:
    """A kernel by the names of its factors."""
    return " * ".join(type(leaf).__name__ for leaf, _ in _leaves(kernel, []))


def reach_along(kernel: Kernel, column: int, n_columns: int, unit: float = 1.0) -> Reach:
    r"""The distance d along a column at which the correlation of a stationary kernel has fallen to 0.05  (O4).

    .. math:: k(0, d e_j) = 0.05\, k(0, 0)

    `unit` is a distance in the column that is neither small nor large, such as its standard deviation.
    """
    from scipy.optimize import brentq

    nothing = np.zeros(kernel.size)
    leaves = [leaf for leaf, columns in _leaves(kernel, list(range(n_columns))) if column in columns]
    if any(isinstance(leaf, Periodic) for leaf in leaves):
        return Reach(np.inf, nothing, "repeats itself: correlation comes back with every period")
    origin, there = np.zeros((1, n_columns)), np.zeros((1, n_columns))
    sill = float(kernel.diag(origin)[0])

    def excess(log_distance: float) -> float:
        there[0, column] = np.exp(log_distance)
        return float(kernel(origin, there)[0, 0]) / sill - HARDLY_CORRELATED

    ends = np.log(NEAREST) + np.log(unit), np.log(FARTHEST) + np.log(unit)
    if not excess(ends[0]) > 0 > excess(ends[1]):
        return Reach(np.inf, nothing, "correlation falls so slowly that there is no range")
    there[0, column] = distance = float(np.exp(brentq(excess, *ends, xtol=1e-13, rtol=1e-15)))
    bar = kernel.value_and_pullback(origin, there)[1](np.ones((1, 1)))
    moved = bar.theta - HARDLY_CORRELATED * kernel.diag_pullback(origin, np.ones(1))
    return Reach(distance, -moved / (distance * bar.Z[0, column]))


def _leaves(kernel: Kernel, columns: list[int]) -> Iterator[tuple[Kernel, list[int]]]:
    """Elementary kernels, and the columns that each of them depends on."""
    if isinstance(kernel, Sum | Product):
        yield from _leaves(kernel.k1, columns)
        yield from _leaves(kernel.k2, columns)
    elif isinstance(kernel, OnColumns):
        inner = [columns[i] for i in kernel.indices()] if columns else []
        yield from _leaves(kernel.kernel, inner)
    else:
        yield kernel, [] if isinstance(kernel, Constant) else columns
