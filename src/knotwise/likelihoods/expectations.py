"""Expectations of a log density and its derivatives for f ~ N(mean, variance), with a known error.

The rule is the trapezoid rule in z = (f - mean) / sd. Where log p is analytic within `width` of the real axis, its
error is at most about exp(d^2/2 - 2 pi d / step) with d = width / sd, so the step of each row is known beforehand.
Where nothing is declared, or the width is much narrower than N(f), rows are refined until two rules agree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from knotwise.likelihoods.rules import (
    ANALYTIC_TOLERANCE,
    MOST_NODES,
    TOLERANCE,
    Refined,
    Spread,
    refine,
    relative_gap,
    row_chunks,
)
from knotwise.likelihoods.values import Expectations

if TYPE_CHECKING:
    from knotwise.likelihoods.base import Likelihood, Sizes

REACH = 8.0  # standard deviations of f that hold all but 1e-15 of it
FARTHER = (12.0, 18.0, 27.0)  # for what grows like e^f, whose integrand lies sd standard deviations off the mean
END_NATS = 27.0  # an integrand that has fallen less than that at the last node needs farther ones
NATS = 27.0  # the wanted logarithm of scale over error
BUCKETS = np.array([20, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, MOST_NODES])
NARROW = 0.7  # a width in standard deviations below which nodes gather at the singular point, where that is known
FIRST_NODES = 32
FEW_ENTRIES = 8192  # of a [nodes, rows] array, up to which its size costs less than one call more

Values = Callable[[np.ndarray, np.ndarray, np.ndarray], Sequence[np.ndarray]]


def expectations(
    likelihood: Likelihood, y: np.ndarray, mean: np.ndarray, variance: np.ndarray, size: Sizes
) -> Expectations:
    """E log p, E g and E g', one each per row."""

    def values(y: np.ndarray, f: np.ndarray, size: np.ndarray) -> Sequence[np.ndarray]:
        known = likelihood.known(y, f, size)
        return known.log_density, known.first, known.second

    (log_density, first, second), error = _average(likelihood, values, 3, y, mean, variance, size)
    return Expectations(log_density, first, second, error)


def expected_parameter_derivatives(
    likelihood: Likelihood, y: np.ndarray, mean: np.ndarray, variance: np.ndarray, size: Sizes
) -> np.ndarray:
    """E d log p / d theta, [Q, n]."""

    def values(y: np.ndarray, f: np.ndarray, size: np.ndarray) -> Sequence[np.ndarray]:
        return [d.log_density for d in likelihood.parameter_derivatives(y, f, size)]

    return _average(likelihood, values, likelihood.size, y, mean, variance, size)[0]


def _average(likelihood: Likelihood, values: Values, k: int, y, mean, variance, size) -> tuple[np.ndarray, float]:
    """Expectations [k, n] of k functions of f, and the error that is not known to be small."""
    shape = np.broadcast_shapes(*(np.shape(v) for v in (y, mean, variance, size)))
    y, mean, variance, size = (_vector(v, shape) for v in (y, mean, variance, size))
    sd = np.sqrt(np.maximum(variance, 0.0))
    result = np.empty((k, len(y)))
    if not k or not len(y):
        return result.reshape(k, *shape), 0.0
    gaps = np.zeros(len(y))
    with np.errstate(all="ignore"):  # nodes may lie far out
        known, pole = likelihood.width, likelihood.singular_point(y, size)
        if known is None or np.isinf(known):
            spread, tolerance = _wide_spread(values, y, mean, sd, size), TOLERANCE
            refined = _refined(values, spread, y, mean, sd, size, tolerance)
            result, gaps = refined.values, refined.gap
        else:
            d = np.full(len(y), np.inf)
            np.divide(known, sd, out=d, where=sd > 0)
            offset = np.zeros(len(y)) if pole is None else pole - mean
            off = np.abs(offset) / np.where(sd > 0, sd, 1.0)
            gather = (d < NARROW) & (off < REACH) & (pole is not None)
            n_nodes = _nodes_needed(d, off)
            most = n_nodes.max(initial=0, where=~gather)
            if most * len(y) <= FEW_ENTRIES:  # one rule for all costs less than several for some
                n_nodes[:] = most
            for bucket in np.unique(n_nodes[~gather]):
                rows = np.flatnonzero((n_nodes == bucket) & ~gather)
                result[:, rows] = _fixed(values, int(bucket), y, mean, sd, size, rows)
                if bucket == MOST_NODES:
                    coarse = _fixed(values, MOST_NODES // 2, y, mean, sd, size, rows)
                    gaps[rows] = relative_gap(result[:, rows], coarse)
            if gather.any():
                y, mean, sd, size = (v[gather] for v in (y, mean, sd, size))
                edge = REACH * sd
                spread = Spread.between(-edge, edge, offset[gather], known)
                refined = _refined(values, spread, y, mean, sd, size, ANALYTIC_TOLERANCE)
                result[:, gather] = refined.values
                gaps[gather] = np.where(refined.gap > ANALYTIC_TOLERANCE, refined.gap, 0.0)
    return result.reshape(k, *shape), float(gaps.max())


def _vector(values: np.ndarray | float, shape: tuple[int, ...]) -> np.ndarray:
    """One number for each entry of the shape, in a vector."""
    values = np.asarray(values, float)
    return (values if values.shape == shape else np.broadcast_to(values, shape)).ravel()


def _nodes_needed(d: np.ndarray, off: np.ndarray) -> np.ndarray:
    """The size of the rule of each row, for a width d and a singular point `off` from the mean, in sd.

    The residue at a singular point is as small as the normal density above it, e^(d^2/2 - off^2/2).
    """
    nats = np.maximum(NATS - 0.5 * off**2, 0.0)
    reach = np.sqrt(2 * NATS)  # with poles farther off the normal density itself asks for the step
    d = np.minimum(d, reach)
    step = np.minimum(2 * np.pi * d / (nats + 0.5 * d**2), 2 * np.pi / reach)
    return BUCKETS[np.minimum(np.searchsorted(BUCKETS, 2 * REACH / step), len(BUCKETS) - 1)]


@cache
def _rule(n_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of the trapezoid rule for a standard normal variable."""
    z = np.linspace(-REACH, REACH, n_nodes)
    weights = np.exp(-0.5 * z**2)
    return z, weights / weights.sum()


def _fixed(values: Values, n_nodes: int, y, mean, sd, size, rows: np.ndarray) -> np.ndarray:
    """Averages by one rule, [k, rows]."""
    z, weights = _rule(n_nodes)
    parts = []
    for part in row_chunks(rows, n_nodes):
        f = z[:, None] * sd[part]
        f += mean[part]
        parts.append(np.array([weights @ v for v in values(y[part], f, size[part])]))
    return np.concatenate(parts, axis=1)


def _refined(values: Values, spread: Spread, y, mean, sd, size, tolerance: float) -> Refined:
    """Averages by rules with ever more nodes, until two agree."""

    def sums(t: np.ndarray, rows: np.ndarray) -> list[np.ndarray]:
        x, weights = spread.nodes(t, rows)
        z = x / np.where(sd[rows] > 0, sd[rows], 1.0)
        weights = weights * np.exp(-0.5 * z**2)
        averaged = (np.broadcast_to(v, x.shape) for v in values(y[rows], mean[rows] + x, size[rows]))
        return [weights.sum(0), *(np.einsum("jn,jn->n", weights, v) for v in averaged)]

    def finish(S: np.ndarray, n: int, rows: np.ndarray) -> np.ndarray:
        return S[1:] / S[0]

    return refine(sums, finish, len(y), first=FIRST_NODES, tolerance=tolerance)


def _wide_spread(values: Values, y, mean, sd, size) -> Spread:
    """Equal steps, as far out as the integrand counts: beyond REACH only for what grows exponentially."""
    low, high = np.full(len(y), -REACH), np.full(len(y), REACH)
    scale = [np.maximum(1.0, np.abs(v)) for v in values(y, mean, size)]
    ends = (low, -1.0), (high, 1.0)
    for end, sign in ends:
        for before, reach in zip((REACH, *FARTHER[:-1]), FARTHER, strict=True):
            here = values(y, mean + sign * before * sd, size)
            counts = np.max([np.abs(v) / s for v, s in zip(here, scale, strict=True)], axis=0)
            end[(np.log(counts) - 0.5 * before**2 > -END_NATS) & (np.abs(end) == before)] = sign * reach
    # a known f: equal weights at one point
    return Spread.between(np.where(sd > 0, sd, 1e-300) * low, np.where(sd > 0, sd, 1e-300) * high)
