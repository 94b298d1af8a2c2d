"""Initial knots: uniform grid, random rows, k-means, k-means per class, or the user's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from knotwise.errors import InvalidInputError, unknown_option

#: a name of INITIALISERS, an array of knots, or a function of (X, y, n_knots, rng)
Initial = str | np.ndarray | Callable[..., np.ndarray]

#: k-means on more rows than this sees a random subset: its centres would hardly move
MAX_CLUSTER_ROWS = 20_000


def initial_knots(how: Initial, X: np.ndarray, y: np.ndarray, n_knots: int, rng: np.random.Generator) -> np.ndarray:
    """Choose initial knots, at most so many.

    There are fewer where there are fewer distinct rows, and on a grid that does not divide evenly.

    Parameters
    ----------
    how : "grid", "random", "kmeans", "kmeans-per-class", array [K, D] or function
        A name; an array of knots, which is used as it is; or a function of (X, y, n_knots, rng), which sees inputs and
        targets in the engine's units (standardised ones by default).
    X : array [n, D]
        Inputs to choose from.
    y : array [n]
        Targets, for knots within each class.
    n_knots : int
        How many at most.
    rng : Generator
        Where randomness comes from.

    Returns
    -------
    array [K, D]
        The knots, with K at most `n_knots`.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise.knots import initial_knots
    >>> X = np.linspace(0, 1, 24)[:, None]
    >>> initial_knots("grid", X, np.zeros(24), 3, np.random.default_rng(0)).ravel().tolist()
    [0.0, 0.5, 1.0]
    """
    if isinstance(how, str):
        if how not in INITIALISERS:
            raise unknown_option("`initial`", how, INITIALISERS)
        return INITIALISERS[how](X, y, n_knots, rng)
    return checked_knots(how(X, y, n_knots, rng) if callable(how) else how, X.shape[1])


def checked_knots(given: Any, n_columns: int, name: str = "Initial knots") -> np.ndarray:
    """Knots as a finite array [K, n_columns]."""
    Z = np.array(given, float)
    if Z.ndim != 2 or Z.shape[1] != n_columns or len(Z) == 0:
        raise InvalidInputError(
            f"{name} must be an array of shape [K, {n_columns}] (one column per feature), but the shape is {Z.shape}."
        )
    bad = np.flatnonzero(~np.isfinite(Z).all(1))
    if len(bad):
        raise InvalidInputError(
            f"{name} must be a finite array of shape [K, {n_columns}], but row {bad[0]} has NaN or infinity."
        )
    return Z


def distinct_rows(X: np.ndarray, rng: np.random.Generator, at_most: int = MAX_CLUSTER_ROWS) -> np.ndarray:
    """Distinct rows of X in a fixed order, from a random subset where X is long."""
    if len(X) > at_most:
        X = X[np.sort(rng.choice(len(X), at_most, replace=False))]
    return np.unique(X, axis=0)


def grid(X: np.ndarray, y: np.ndarray, n_knots: int, rng: np.random.Generator) -> np.ndarray:
    """Lay the finest even grid over the data's box that has at most n_knots points."""
    low, high = X.min(0), X.max(0)
    counts = np.ones(X.shape[1], int)
    moving = high > low
    while moving.any():
        # refine the column whose cells are widest, in units of the column's range
        column = int(np.argmin(np.where(moving, counts, np.iinfo(int).max)))
        if counts.prod() // counts[column] * (counts[column] + 1) > n_knots:
            moving[column] = False
        else:
            counts[column] += 1
    axes = [
        np.linspace(a, b, n) if n > 1 else np.array([(a + b) / 2]) for a, b, n in zip(low, high, counts, strict=True)
    ]
    return np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)


def random_rows(X: np.ndarray, y: np.ndarray, n_knots: int, rng: np.random.Generator) -> np.ndarray:
    """Draw distinct rows at random."""
    rows = distinct_rows(X, rng)
    return rows[np.sort(rng.choice(len(rows), min(n_knots, len(rows)), replace=False))]


def kmeans(X: np.ndarray, y: np.ndarray, n_knots: int, rng: np.random.Generator) -> np.ndarray:
    """Take the centres of k-means clusters, started by k-means++."""
    rows = distinct_rows(X, rng)
    if len(rows) <= n_knots:
        return rows
    centres = _spread_rows(rows, n_knots, rng)
    for _ in range(20):
        nearest = _nearest(rows, centres)
        counts = np.bincount(nearest, minlength=n_knots)
        sums = np.stack([np.bincount(nearest, rows[:, d], minlength=n_knots) for d in range(rows.shape[1])], axis=1)
        moved = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], centres)
        if np.array_equal(moved, centres):
            break
        centres = moved
    return centres


def kmeans_per_class(X: np.ndarray, y: np.ndarray, n_knots: int, rng: np.random.Generator) -> np.ndarray:
    """Share the knots among the values of y, evenly, and run k-means within each."""
    classes = np.unique(y)
    if len(classes) > max(20, n_knots):
        raise InvalidInputError(
            f"`initial='kmeans-per-class'` needs classes, but y has {len(classes)} distinct values. Use 'kmeans'."
        )
    shares = np.full(len(classes), n_knots // len(classes))
    shares[: n_knots % len(classes)] += 1
    parts = [
        kmeans(X[y == label], y[y == label], int(share), rng)
        for label, share in zip(classes, shares, strict=True)
        if share
    ]
    return np.unique(np.vstack(parts), axis=0)


INITIALISERS: dict[str, Callable[..., Any]] = {
    "grid": grid,
    "random": random_rows,
    "kmeans": kmeans,
    "kmeans-per-class": kmeans_per_class,
}


def _spread_rows(rows: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Draw rows one by one with probability proportional to the squared distance to those drawn."""
    chosen = [int(rng.integers(len(rows)))]
    distance = ((rows - rows[chosen[0]]) ** 2).sum(1)
    for _ in range(n - 1):
        edges = np.cumsum(distance)
        chosen.append(min(int(np.searchsorted(edges, rng.random() * edges[-1], side="right")), len(rows) - 1))
        distance = np.minimum(distance, ((rows - rows[chosen[-1]]) ** 2).sum(1))
    return rows[chosen]


def _nearest(rows: np.ndarray, centres: np.ndarray) -> np.ndarray:
    origin = rows.mean(0)  # far from it, the products would cancel
    rows, centres = rows - origin, centres - origin
    # |x|^2 is the same for every centre, so it does not decide
    return np.argmin((centres**2).sum(1) - 2 * rows @ centres.T, axis=1)
