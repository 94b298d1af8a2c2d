"""A kernel in a few words, and how far it reaches: its summands, the columns that it sees, and its practical range."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from knotwise.kernels.base import Kernel
from knotwise.kernels.compose import Pair, Sum

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
    if kernel.restricted_to is not None:
        return [inner.on(kernel.restricted_to) for inner in summands(kernel.unrestricted)]
    return [kernel]


def terms_of_entries(kernel: Kernel) -> np.ndarray:
    """Number of the term of a sum to which each entry of theta belongs, [P]; a sum inside of a product has its own."""
    if kernel.restricted_to is not None:
        return terms_of_entries(kernel.unrestricted)
    if isinstance(kernel, Pair):
        first, second = terms_of_entries(kernel.k1), terms_of_entries(kernel.k2)
        if isinstance(kernel, Sum) or first.any() or second.any():
            return np.concatenate([first, second + first.max(initial=-1) + 1])
    return np.zeros(kernel.size, int)


def columns_seen(kernel: Kernel, n_columns: int) -> list[int]:
    """Numbers of the columns on which a bound kernel depends, in order."""
    return sorted({column for leaf, columns in _leaves(kernel, n_columns) for column in columns if leaf.sees_inputs})


def name_of(kernel: Kernel) -> str:
    """A kernel by the names of its factors."""
    inner = kernel.children().values()
    return " * ".join(name_of(part) for part in inner) if inner else type(kernel).__name__  # type: ignore[arg-type]


def reach_along(kernel: Kernel, column: int, n_columns: int, unit: float = 1.0) -> Reach:
    r"""The distance d along a column at which the correlation of a stationary kernel has fallen to 0.05  (O4).

    .. math:: k(0, d e_j) = 0.05\, k(0, 0)

    `unit` is a distance in the column that is neither small nor large, such as its standard deviation.
    """
    nothing = np.zeros(kernel.size)
    if any(leaf.periodic and column in columns for leaf, columns in _leaves(kernel, n_columns)):
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


def _leaves(kernel: Kernel, n_columns: int) -> list[tuple[Kernel, list[int]]]:
    """Elementary kernels, and the columns that each of them is given."""
    found: list[tuple[Kernel, list[int]]] = []

    def keep(leaf: Kernel, columns: list[int]) -> Kernel:
        found.append((leaf, columns))
        return leaf

    kernel.map_leaves(keep, range(n_columns))
    return found
