"""Semivariances: of residuals from the trend, of a fitted model, and of data that were simulated from it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.spatial.distance import pdist

from knotwise.errors import InvalidInputError
from knotwise.kernels.base import Kernel
from knotwise.kernels.ranges import columns_seen, name_of, reach_along, summands
from knotwise.noise import NOISE_FLOOR
from knotwise.numerics.linalg import cholesky
from knotwise.numerics.tabular import make_frame

#: ratio of the ranges along two columns from which distances are measured in ranges
UNLIKE = 3.0
#: directions over which a model's semivariance is averaged
N_DIRECTIONS = 200


@dataclass(frozen=True)
class Separation:
    """How far two rows are apart: the Euclidean distance in the `columns` [q] that the kernel sees, over their `unit`.

    Units are 1, those of the data, or the practical range along each column where these differ much.
    """

    columns: list[int]
    unit: np.ndarray
    in_ranges: bool

    @staticmethod
    def of(kernel: Kernel, x_scale: np.ndarray) -> Separation:
        """The distance for a kernel of the engine's columns, whose scales are `x_scale` [D]."""
        n_columns = len(x_scale)
        parts = summands(kernel)
        for part in parts:
            if not part.stationary:
                raise InvalidInputError(
                    f"The kernel has a part, {name_of(part)}, that is not stationary: its semivariance depends on the "
                    "place, so that there is no semivariogram. `gp.diagnose()` tests the residuals of any model."
                )
        columns = columns_seen(kernel, n_columns)
        if not columns:
            raise InvalidInputError("The kernel sees no column, so that there is no distance for a semivariogram.")
        ranges = []
        for column in columns:
            reaches = [reach_along(part, column, n_columns).distance for part in parts]
            finite = [reach for reach in reaches if np.isfinite(reach)]
            ranges.append(x_scale[column] * (min(finite) if finite else 1.0))
        in_ranges = max(ranges) > UNLIKE * min(ranges)
        return Separation(columns, np.array(ranges) if in_ranges else np.ones(len(columns)), in_ranges)

    def points(self, X: np.ndarray) -> np.ndarray:
        """Rows of the data as points [n, q] whose distances are those of the semivariogram."""
        return X[:, self.columns] / self.unit


@dataclass(frozen=True)
class EmpiricalVariogram:
    """Semivariances in bins of distance, [B] each; bins without a pair are left out.

    `distance` is the mean of the pairs of a bin and `n_pairs` their number. `lower` and `upper` hold 95 % of the values
    of data that were simulated from the model, at the same rows and from which the trend was taken off in the same way;
    they are of each bin by itself.
    """

    distance: np.ndarray
    semivariance: np.ndarray
    n_pairs: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    separation: Separation
    directions: np.ndarray

    def to_frame(self) -> Any:
        """The bins as a pandas DataFrame: `distance`, `semivariance`, `n_pairs`, `lower` and `upper`."""
        return make_frame({n: getattr(self, n) for n in ("distance", "semivariance", "n_pairs", "lower", "upper")})


@dataclass(frozen=True)
class Pairs:
    """Pairs of rows, `first` and `second` [n], and the bin of each."""

    first: np.ndarray
    second: np.ndarray
    bin: np.ndarray
    n_bins: int
    robust: bool

    def average(self, values: np.ndarray) -> np.ndarray:
        """Means of the values of pairs, by bins [B]; NaN in empty ones."""
        with np.errstate(invalid="ignore"):
            return np.bincount(self.bin, values, self.n_bins) / self.counts

    @cached_property
    def counts(self) -> np.ndarray:
        """How many pairs each bin has, [B]."""
        return np.bincount(self.bin, minlength=self.n_bins)

    def semivariance(self, residual: np.ndarray) -> np.ndarray:
        """By bins [B]: Matheron's mean of squares, or the robust one of Cressie and Hawkins  (O6)."""
        difference = np.abs(residual[self.first] - residual[self.second])
        if not self.robust:
            return 0.5 * self.average(difference**2)
        with np.errstate(divide="ignore"):
            return 0.5 * self.average(np.sqrt(difference)) ** 4 / (0.457 + 0.494 / self.counts)


def empirical_variogram(
    gp: Any,
    X: np.ndarray,
    y: np.ndarray,
    *,
    noise_variance: np.ndarray | None,
    n_bins: int,
    max_distance: float | None,
    robust: bool,
    n_simulations: int,
    max_rows: int,
    rng: np.random.Generator,
) -> EmpiricalVariogram:
    """Semivariances of what a fitted trend leaves of y, and of data simulated from the fit.

    Of more than `max_rows` rows a random sample is taken: it costs a Cholesky factor of these, and time in proportion
    to their pairs for each simulation.
    """
    if len(X) > max_rows:
        chosen = np.sort(rng.choice(len(X), max_rows, replace=False))
        X, y, noise_variance = X[chosen], y[chosen], None if noise_variance is None else noise_variance[chosen]
    scaling, kernel, mean = gp._fit.scaling, gp._fit.model.kernel, gp.mean_
    separation = Separation.of(kernel, scaling.x_scale)
    points = separation.points(scaling.warped(X))
    pairs, distances = _binned(points, n_bins, max_distance, robust)
    noise = gp.likelihood_.value("noise_variance") if noise_variance is None else noise_variance
    S = scaling.inputs(X)
    K = scaling.y_scale**2 * kernel(S, S)
    noise = np.maximum(noise, NOISE_FLOOR * K.diagonal())  # known noise may be 0, and then there is no factor
    L = cholesky(K + np.diag(noise))
    detrend = _Detrending.of(L, mean.basis(scaling.warped(X)))
    filled = pairs.counts > 0
    lower, upper = np.full((2, filled.sum()), np.nan)
    if n_simulations:
        draws = (detrend(L @ rng.standard_normal(len(X))) for _ in range(n_simulations))
        simulated = np.array([pairs.semivariance(residual)[filled] for residual in draws])
        lower, upper = np.quantile(simulated, [0.025, 0.975], axis=0)
    some = rng.choice(len(pairs.first), min(N_DIRECTIONS, len(pairs.first)), replace=False)
    steps = points[pairs.first[some]] - points[pairs.second[some]]
    lengths = np.linalg.norm(steps, axis=1)
    return EmpiricalVariogram(
        pairs.average(distances)[filled],
        pairs.semivariance(detrend(y - mean.offset))[filled],
        pairs.counts[filled],
        lower,
        upper,
        separation,
        steps[lengths > 0] / lengths[lengths > 0, None],
    )


def fitted_semivariance(gp: Any, found: EmpiricalVariogram, distances: np.ndarray) -> np.ndarray:
    """Semivariance of the fitted model at distances [m] above 0, averaged over the directions of pairs of rows."""
    kernel, separation, scaling = gp._fit.model.kernel, found.separation, gp._fit.scaling
    x_scale = scaling.x_scale
    steps = np.zeros((len(distances) * len(found.directions), len(x_scale)))
    moves = distances[:, None, None] * found.directions * separation.unit  # [m, directions, q]
    steps[:, separation.columns] = moves.reshape(len(steps), -1) / x_scale[separation.columns]
    origin = np.zeros_like(steps)
    k = kernel.pairs(origin, steps)[0].reshape(len(distances), -1).mean(1)
    return gp.likelihood_.value("noise_variance") + scaling.y_scale**2 * (kernel.diag(origin[:1])[0] - k)


def _binned(points: np.ndarray, n_bins: int, max_distance: float | None, robust: bool) -> tuple[Pairs, np.ndarray]:
    """Pairs of rows up to a distance, half of the largest one by default, in bins of equal width; and distances."""
    distances = pdist(points)
    largest = float(distances.max(initial=0.0))
    if not largest > 0:
        raise InvalidInputError("All rows are at one place, so that there is no distance for a semivariogram.")
    reach = largest / 2 if max_distance is None else float(max_distance)
    if not (np.isfinite(reach) and (distances <= reach).any()):
        raise InvalidInputError(
            f"`max_distance` is {max_distance!r}, but the nearest two rows are {distances.min():.4g} apart and the "
            f"farthest {largest:.4g}. Give a distance between these."
        )
    first, second = np.triu_indices(len(points), 1)
    near = distances <= reach
    bins = np.minimum((distances[near] / reach * n_bins).astype(int), n_bins - 1)
    return Pairs(first[near], second[near], bins, n_bins, robust), distances[near]


@dataclass(frozen=True)
class _Detrending:
    """Takes off a trend with unknown coefficients, basis B [n, p] with prior N(0, I), by generalised least squares."""

    whiten: np.ndarray
    basis: np.ndarray
    smoother: np.ndarray

    @staticmethod
    def of(L: np.ndarray, basis: np.ndarray) -> _Detrending:
        W = solve_triangular(L, basis, lower=True)
        return _Detrending(L, basis, np.linalg.solve(np.eye(W.shape[1]) + W.T @ W, W.T))

    def __call__(self, z: np.ndarray) -> np.ndarray:
        return z - self.basis @ (self.smoother @ solve_triangular(self.whiten, z, lower=True))
