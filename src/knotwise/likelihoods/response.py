"""From the latent to the response: densities, moments, distribution functions and quantiles of a new observation.

The latent value is f ~ N(mean, variance). Densities are integrals of `tilted.py`. Moments and distribution functions
are sums of Gauss-Legendre rules on panels, finer around the f that the observation itself points to, which may be much
narrower than N(f).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from knotwise.likelihoods.roots import find_between, find_whole_root
from knotwise.numerics.blocks import Executor, Serial, block_slices

if TYPE_CHECKING:
    from knotwise.likelihoods.base import Likelihood, Sizes

N_PANELS = 24
PANEL_NODES, PANEL_WEIGHTS = np.polynomial.legendre.leggauss(10)
FINER = np.exp2(np.arange(-3.0, 7.0))  # widths of the panels on each side of a narrow place, in units of its width
NORMAL_REACH = 9.0  # standard deviations of f that hold all but 1e-18 of it
BLOCK_ROWS = 2048
SMALLEST = 1e-300


def by_blocks(function: Callable[..., Any], *per_row: Any, executor: Executor | None = None) -> Any:
    """Call a function of values per row on blocks of rows and join what it gives: one vector, or a tuple of them.

    Values are numbers, or arrays [n] or [n, L]. Blocks are the same for any number of threads. Memory beside the arrays
    is that of one block for each thread.
    """
    given = [np.atleast_1d(np.asarray(values, float)) for values in per_row]
    n_rows = max(map(len, given)) if all(map(len, given)) else 0
    arrays = [np.broadcast_to(values, (n_rows, *values.shape[1:])) for values in given]
    blocks = block_slices(n_rows, BLOCK_ROWS) or [slice(0, 0)]
    results = (executor or Serial()).map(lambda rows: function(*(values[rows] for values in arrays)), blocks)
    parts = list(results)
    if isinstance(parts[0], tuple):
        return tuple(np.concatenate(each) for each in zip(*parts, strict=True))
    return np.concatenate(parts)


def _narrow_cuts(
    likelihood: Likelihood, y: np.ndarray, mean: np.ndarray, variance: np.ndarray, size: np.ndarray
) -> np.ndarray:
    """Cuts that grow by doubling around the f whose mean response is y, [cuts, n]."""
    sd = np.sqrt(variance)
    low, high = mean - NORMAL_REACH * sd, mean + NORMAL_REACH * sd
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        centre = np.clip(np.nan_to_num(likelihood.latent_of_mean(y, size)), low, high)
        width = np.nan_to_num(1.0 / np.sqrt(np.maximum(likelihood.fisher(y, centre, size), 1.0 / variance)))
    steps = np.concatenate([-FINER[::-1], [0.0], FINER])[:, None]
    return np.clip(centre + width * steps, low, high)


def _panels(cuts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights, [nodes, n], of a Gauss-Legendre rule on each panel between sorted cuts, [cuts, n]."""
    half = 0.5 * np.diff(cuts, axis=0)
    middle = cuts[:-1] + half
    nodes = middle[:, None] + half[:, None] * PANEL_NODES[:, None]
    weights = half[:, None] * PANEL_WEIGHTS[:, None]
    return nodes.reshape(-1, cuts.shape[1]), weights.reshape(-1, cuts.shape[1])


def response_moments(
    likelihood: Likelihood, mean: np.ndarray, variance: np.ndarray, size: Sizes
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of y, by integration of the conditional ones over f."""
    return by_blocks(partial(_moments_block, likelihood), mean, variance, size)


def _moments_block(
    likelihood: Likelihood, mean: np.ndarray, variance: np.ndarray, size: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    nodes, weights = _normal_grid(mean, variance)
    m = likelihood.conditional_mean(nodes, _like(size, nodes))
    v = likelihood.conditional_variance(nodes, _like(size, nodes))
    first = weights @ m
    return first, weights @ v + weights @ (m - first) ** 2


def predictive_cdf(
    likelihood: Likelihood, y: np.ndarray, mean: np.ndarray, variance: np.ndarray, size: Sizes
) -> np.ndarray:
    """P(Y <= y), one per row: the average of the conditional distribution function over f.

    Panels are finer where it steps from 1 to 0 (near the f whose mean is y), which may be narrower than N(f).
    """
    return by_blocks(partial(_cdf_block, likelihood), y, mean, variance, size)


def _cdf_block(
    likelihood: Likelihood, y: np.ndarray, mean: np.ndarray, variance: np.ndarray, size: np.ndarray
) -> np.ndarray:
    # a known f is one that is nearly known: nodes must be told apart
    sd = np.maximum(np.sqrt(variance), 3e-8 * np.maximum(np.abs(mean), 1.0))
    wide = mean + sd * np.linspace(-NORMAL_REACH, NORMAL_REACH, N_PANELS + 1)[:, None]
    cuts = np.vstack([wide, _narrow_cuts(likelihood, y, mean, sd**2, size)])
    nodes, weights = _panels(np.sort(cuts, axis=0))
    density = weights * np.exp(-0.5 * ((nodes - mean) / sd) ** 2)
    density /= density.sum(0)  # which also takes away the rounding of nodes that are close together
    values = likelihood.cdf(_like(y, nodes), nodes, _like(size, nodes))
    return np.clip((density * values).sum(0), 0.0, 1.0)


def predictive_quantile(
    likelihood: Likelihood, p: float, mean: np.ndarray, variance: np.ndarray, size: Sizes
) -> np.ndarray:
    """The smallest y with P(Y <= y) >= p, one per row, for any likelihood that has a `cdf`."""
    return by_blocks(partial(_quantile_block, likelihood, p), mean, variance, size)


def _quantile_block(
    likelihood: Likelihood, p: float, mean: np.ndarray, variance: np.ndarray, size: np.ndarray
) -> np.ndarray:
    def score(y: np.ndarray, rows: np.ndarray) -> np.ndarray:
        P = _cdf_block(likelihood, y, mean[rows], variance[rows], size[rows])
        return ndtri(np.clip(P, 1e-15, 1 - 1e-15)) - ndtri(p)

    lowest, highest = (np.broadcast_to(np.asarray(end, float), mean.shape) for end in likelihood.support(size))
    bounded = bool(np.isfinite(lowest).all())
    if likelihood.discrete and bounded:
        start = np.asarray(likelihood.conditional_mean(mean + ndtri(p) * np.sqrt(variance), size), float)

        def evaluate(k: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, None, None]:
            return score(lowest[rows] + k, rows), None, None

        return lowest + find_whole_root(evaluate, start - lowest, highest - lowest)
    low, centre, high = _bracket(likelihood, score, mean, variance, size)
    if likelihood.discrete:
        return find_between(score, np.floor(low) - 1, np.ceil(high), whole=True)
    # on a scale on which all units are alike: logarithms above a lowest value, else long steps far from the centre
    scale = np.maximum(np.sqrt(variance), 1e-8 * np.maximum(np.abs(centre), 1.0))

    def y_of(v: np.ndarray, rows: np.ndarray) -> np.ndarray:
        y = lowest[rows] + np.exp(v) if bounded else centre[rows] + scale[rows] * np.sinh(v)
        return np.minimum(y, high[rows])

    if bounded:
        ends = [np.log(np.maximum(end - lowest, SMALLEST)) for end in (low, high)]
    else:
        ends = [np.arcsinh((end - centre) / scale) for end in (low, high)]
    everywhere = np.arange(len(mean))
    y = y_of(find_between(lambda v, rows: score(y_of(v, rows), rows), *ends), everywhere)
    for atom in likelihood.atoms:  # where P(Y <= y) jumps over p a search ends beside the atom
        at, below = (np.full(mean.shape, value) for value in (atom, np.nextafter(atom, -np.inf)))
        y = np.where((score(at, everywhere) >= 0) & (score(below, everywhere) < 0), atom, y)
    return y


def _bracket(
    likelihood: Likelihood, score: Any, mean: np.ndarray, variance: np.ndarray, size: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A y below the quantile, the mean at the mean f, and a y above the quantile, within the support."""
    rows, sd = np.arange(len(mean)), np.sqrt(variance)
    lowest, highest = likelihood.support(size)
    with np.errstate(over="ignore"):
        low, centre, high = (
            np.asarray(likelihood.conditional_mean(mean + z * sd, size), float)
            for z in (-NORMAL_REACH, 0.0, NORMAL_REACH)
        )
    reach = np.maximum(high - low, 1.0)
    low, high = np.maximum(low - reach, lowest), np.minimum(high + reach, highest)
    for _ in range(60):
        open_high = (score(high, rows) < 0) & (high < highest)
        open_low = (score(low, rows) >= 0) & (low > lowest)
        if not (open_high.any() or open_low.any()):
            break
        reach = 2 * reach
        high = np.where(open_high, np.minimum(high + reach, highest), high)
        low = np.where(open_low, np.maximum(low - reach, lowest), low)
    return low, centre, high


def _normal_grid(mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Nodes [nodes, n] and weights [nodes] that integrate smooth functions against N(mean, variance)."""
    z, weights = _panels(np.linspace(-NORMAL_REACH, NORMAL_REACH, N_PANELS + 1)[:, None])
    weights = weights[:, 0] * np.exp(-0.5 * z[:, 0] ** 2)
    return mean + np.sqrt(variance) * z, weights / weights.sum()


def _like(row_values: np.ndarray, f: np.ndarray) -> np.ndarray:
    """Values per row, in the shape of f ([n] or [nodes, n])."""
    return np.broadcast_to(row_values, f.shape)
