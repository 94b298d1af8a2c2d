"""Integrals of p(y | f)^power N(f; mean, variance): densities of new observations, and what EP needs of a row.

The integrand may be much narrower than N(f), far from its mean, and have sides of different width (a count of 0 or of
1000 under a wide prior). So each row has nodes where its integrand lives: between the points at which it has fallen by
e^-34 from its mode. Where it may have a second mode, at the f that the observation itself points to, the nodes cover
both and gather there. Rows are refined until two rules agree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from knotwise.likelihoods.rules import ANALYTIC_TOLERANCE, TOLERANCE, Spread, refine
from knotwise.likelihoods.special import LARGEST_EXPONENT
from knotwise.likelihoods.values import Tilted

if TYPE_CHECKING:
    from knotwise.likelihoods.base import Likelihood

NEGLIGIBLE = 34.0  # nats below the mode beyond which an integrand does not count
NORMAL_REACH = 8.5  # standard deviations of f that hold all but 1e-17 of it
NEWTON_STEPS = {True: 20, False: 100}  # for log-concave densities bisection serves the rest
FIRST_LIMIT = 8.0  # of Newton's steps, in standard deviations of f; it doubles in each step
FIRST_NODES = {True: 24, False: 48}  # for one mode, and for several
SMALLEST_SPREAD = 1e-12  # a standard deviation of f, relative to its mean, below which it is known
BLOCK_ROWS = 2048

LOG_2PI = float(np.log(2 * np.pi))


@dataclass(frozen=True)
class Integrand:
    """power log p(y | mean + x) - x^2 / (2 variance) for rows; x are offsets from the mean, which keep their digits."""

    likelihood: Likelihood
    y: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    size: np.ndarray
    power: float

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return self.with_normal(self.likelihood.log_density(self.y, self.mean + x, self.size), x)

    def with_normal(self, log_density: np.ndarray, x: np.ndarray) -> np.ndarray:
        """The integrand, given log p."""
        value = self.power * log_density
        value = value - 0.5 * x**2 / self.variance
        return np.where(np.isnan(value), -np.inf, value)

    def rows(self, rows: np.ndarray) -> Integrand:
        parts = {name: getattr(self, name)[rows] for name in ("y", "mean", "variance", "size")}
        return replace(self, **parts)

    def slope_and_curvature(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The derivative, and a positive curvature."""
        d = self.likelihood.derivatives(self.y, self.mean + x, self.size)
        curvature = -d.second
        if not self.likelihood.log_concave:
            curvature = np.maximum(curvature, self.likelihood.fisher(self.y, self.mean + x, self.size))
        return self.power * d.first - x / self.variance, self.power * np.maximum(curvature, 0.0) + 1.0 / self.variance


Evaluate = Callable[[np.ndarray, Integrand, np.ndarray], tuple[np.ndarray, Sequence[np.ndarray]]]


@dataclass(frozen=True)
class Place:
    """Where the integrand of each row lives: its mode and its nodes, as offsets from the mean, and its top."""

    mode: np.ndarray
    top: np.ndarray
    spread: Spread


@dataclass(frozen=True)
class Moments:
    """log Z; E f - mean, var f and averages [k, n] of other functions under the tilted law; the error."""

    log_integral: np.ndarray
    shift: np.ndarray
    variance: np.ndarray
    averages: np.ndarray
    error: float


def log_tilted_integral(likelihood: Likelihood, y, mean, variance, size, power: float = 1.0) -> np.ndarray:
    """log of the integral of p(y | f)^power N(f; mean, variance), one per row."""
    shape, integrands = _blocks(likelihood, y, mean, variance, size, power)
    parts = [_integrate(one, find_place(one), lambda x, one, rows: (one(x), [])).log_integral for one in integrands]
    result = np.concatenate([np.empty(0), *parts]).reshape(shape)
    known = _known_rows(mean, variance, shape)
    if known.any():
        y, mean, size = (np.broadcast_to(v, shape)[known] for v in (y, mean, size))
        result[known] = power * likelihood.log_density(y, mean, size)
    return result


def tilted(likelihood: Likelihood, y, mean, variance, size, power: float) -> Tilted:
    """log Z and its first two derivatives in the mean, one each per row (E1)."""
    shape, integrands = _blocks(likelihood, y, mean, variance, size, power)
    parts = [_tilted_block(one) for one in integrands]
    log_integral, first, second, ratio = (
        np.concatenate([np.empty(0), *(getattr(part, name) for part in parts)]).reshape(shape)
        for name in ("log_integral", "first", "second", "variance_ratio")
    )
    error = max((part.error for part in parts), default=0.0)
    known = _known_rows(mean, variance, shape)
    if known.any():
        y, mean, size = (np.broadcast_to(v, shape)[known] for v in (y, mean, size))
        at = likelihood.known(y, mean, size)
        log_integral[known], first[known], second[known] = (power * v for v in (at.log_density, at.first, at.second))
        ratio[known] = 1.0
    return Tilted(log_integral, first, second, error, ratio)


def tilted_parameter_derivatives(likelihood: Likelihood, y, mean, variance, size, power: float) -> np.ndarray:
    """E d log p / d theta under the tilted law, [Q, n]."""
    shape, integrands = _blocks(likelihood, y, mean, variance, size, power)
    k = likelihood.size
    if not k:
        return np.empty((0, *shape))

    def evaluate(x: np.ndarray, one: Integrand, rows: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
        listed = likelihood.parameter_derivatives(one.y, one.mean + x, one.size)
        return one(x), [d.log_density for d in listed]

    parts = [_integrate(one, find_place(one), evaluate).averages for one in integrands]
    result = np.concatenate([np.empty((k, 0)), *parts], axis=1).reshape(k, *shape)
    known = _known_rows(mean, variance, shape)
    if known.any():
        y, mean, size = (np.broadcast_to(v, shape)[known] for v in (y, mean, size))
        result[:, known] = [d.log_density for d in likelihood.parameter_derivatives(y, mean, size)]
    return result


def _blocks(likelihood, y, mean, variance, size, power) -> tuple[tuple[int, ...], list[Integrand]]:
    """The common shape of the arguments, and the integrands of blocks of rows; variances above 0."""
    y, mean, variance, size = np.broadcast_arrays(*(np.asarray(v, float) for v in (y, mean, variance, size)))
    variance = np.where(_known_rows(mean, variance, y.shape), 1.0, variance)  # whose results are not used
    flat = [v.ravel() for v in (y, mean, variance, size)]
    starts = range(0, len(flat[0]), BLOCK_ROWS)
    blocks = [tuple(v[i : i + BLOCK_ROWS] for v in flat) for i in starts]
    return y.shape, [Integrand(likelihood, y, m, v, s, power) for y, m, v, s in blocks]


def _known_rows(mean, variance, shape: tuple[int, ...]) -> np.ndarray:
    """Rows in which f is known, to what rounding leaves of it: nodes could not be told apart."""
    return np.broadcast_to(variance <= (SMALLEST_SPREAD * np.maximum(np.abs(mean), 1.0)) ** 2, shape)


def _tilted_block(integrand: Integrand) -> Tilted:
    """One block of `tilted`.

    d1 = power E g, d2 = power E g' + power^2 var g. Where the data say more of f than N(f), these are small differences
    of large numbers, and d1 = (E f - mean) / variance, d2 = (var f - variance) / variance^2 are not.
    """
    likelihood, power, variance = integrand.likelihood, integrand.power, integrand.variance
    place = find_place(integrand)
    g_mode = likelihood.derivatives(integrand.y, integrand.mean + place.mode, integrand.size).first

    def evaluate(x: np.ndarray, one: Integrand, rows: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
        known = likelihood.known(one.y, one.mean + x, one.size)
        off = known.first - g_mode[rows]
        return one.with_normal(known.log_density, x), [off, off**2, known.second]

    moments = _integrate(integrand, place, evaluate, orders=(1, 2, 2))
    off, square, curvature = moments.averages
    first, second = power * (g_mode + off), power * curvature + power**2 * (square - off**2)
    strong = power**2 * square * variance > 1
    first = np.where(strong, moments.shift / variance, first)
    ratio = moments.variance / variance
    second = np.where(strong, (ratio - 1) / variance, second)
    return Tilted(moments.log_integral, first, second, moments.error, np.where(strong, ratio, 1 + variance * second))


def _integrate(integrand: Integrand, place: Place, evaluate: Evaluate, orders: Sequence[int] = ()) -> Moments:
    """Integrate over f; `evaluate(x, integrand of rows, rows)` gives the integrand and the functions to average.

    `orders` are those of the functions as derivatives in f: two rules agree on them in units of the tilted law's width,
    where that is small. The slope of a count of 1e17 is rounded to 1e3, which is nothing over a width of 1e-9.
    """
    mode, top, variance = place.mode, place.top, integrand.variance

    def sums(t: np.ndarray, rows: np.ndarray) -> list[np.ndarray]:
        one = integrand.rows(rows)
        x, weights = place.spread.nodes(t, rows)
        log_values, averaged = evaluate(x, one, rows)
        weights = weights * np.exp(np.minimum(log_values - top[rows], LARGEST_EXPONENT))
        x_off = x - mode[rows]
        both = weights * x_off
        return [
            weights.sum(0),
            both.sum(0),
            np.einsum("jn,jn->n", both, x_off),
            *(np.einsum("jn,jn->n", weights, np.broadcast_to(v, x.shape)) for v in averaged),
        ]

    def finish(S: np.ndarray, n: int, rows: np.ndarray) -> np.ndarray:
        averages = S[1:] / S[0]
        log_integral = np.log(S[0] / n) + top[rows] - 0.5 * (np.log(variance[rows]) + LOG_2PI)
        spread = averages[1] - averages[0] ** 2
        shift = mode[rows] + averages[0]
        width = np.sqrt(np.minimum(spread, 1.0))
        scaled = [v * width**order for v, order in zip(averages[2:], orders or [0] * len(averages), strict=False)]
        return np.array([log_integral, shift / np.sqrt(spread), np.log(spread), shift, spread, *scaled])

    analytic = integrand.likelihood.width is not None
    tolerance = ANALYTIC_TOLERANCE if analytic else TOLERANCE
    first = FIRST_NODES[integrand.likelihood.log_concave]
    with np.errstate(all="ignore"):  # nodes may lie far out
        refined = refine(sums, finish, len(mode), first=first, tolerance=tolerance)
    error = float(np.max(refined.gap, initial=0.0))
    log_integral, _, _, shift, spread, *scaled = refined.values
    width = np.sqrt(np.minimum(spread, 1.0))
    averages = [v / width**order for v, order in zip(scaled, orders or [0] * len(scaled), strict=True)]
    done = analytic and error <= tolerance
    return Moments(log_integral, shift, spread, np.array(averages), 0.0 if done else error)


def find_place(integrand: Integrand) -> Place:
    """The mode of each row, and nodes between the points at which the integrand does not count any more."""
    with np.errstate(all="ignore"):
        mode, curvature = _find_mode(integrand)
        top = integrand(mode)
        low, high = (_edge(integrand, mode, top, sign / np.sqrt(curvature)) for sign in (-1.0, 1.0))
        if integrand.likelihood.log_concave:
            return Place(mode, top, Spread.between(low, high))
        # there may be a second mode, where the observation alone would put f
        reach = NORMAL_REACH * np.sqrt(integrand.variance)
        low, high = np.minimum(low, -reach), np.maximum(high, reach)
        centre = _latent_of_observation(integrand)
        seen = integrand(centre) > top - NEGLIGIBLE
        centre = np.where(seen, centre, np.clip(centre, low, high))
        W = integrand.power * integrand.likelihood.fisher(integrand.y, integrand.mean + centre, integrand.size)
        width = 1.0 / np.sqrt(np.maximum(np.nan_to_num(W), 1.0 / integrand.variance))
        top = np.maximum(top, integrand(centre))
        left, right = (_edge(integrand, centre, top, sign * width) for sign in (-1.0, 1.0))
        low, high = np.where(seen, np.minimum(low, left), low), np.where(seen, np.maximum(high, right), high)
        return Place(mode, top, Spread.between(low, high, centre, width))


def _latent_of_observation(integrand: Integrand) -> np.ndarray:
    """The f whose mean response is y, as an offset from the mean of N(f); 0 where the likelihood does not say it."""
    try:
        f = integrand.likelihood.latent_of_mean(integrand.y, integrand.size)
    except NotImplementedError:
        return np.zeros_like(integrand.mean)
    return np.nan_to_num(f - integrand.mean)


def _find_mode(integrand: Integrand) -> tuple[np.ndarray, np.ndarray]:
    """The mode of each row by damped Newton steps, to a tenth of the integrand's width, and the curvature there."""
    sd = np.sqrt(integrand.variance)
    result = np.zeros_like(sd)
    rows, one, x = np.arange(len(sd)), integrand, np.zeros_like(sd)
    value = one(x)
    for i in range(NEWTON_STEPS[integrand.likelihood.log_concave]):
        slope, curvature = one.slope_and_curvature(x)
        limit = FIRST_LIMIT * 2.0**i * sd[rows]
        # of the whole step: a far tail is flat, and a step that was cut there is short in its units
        still = ~(np.abs(slope) <= 0.1 * np.sqrt(curvature))
        step = np.clip(slope / curvature, -limit, limit)
        step = np.where(np.isfinite(step), step, -np.sign(x) * sd[rows])
        new = one(x + step)
        for _ in range(60):
            worse = ~(new >= value - 1e-12 * np.abs(value))
            if not worse.any():
                break
            step[worse] /= 2
            new[worse] = one.rows(worse)((x + step)[worse])
        x, value = x + step, new
        result[rows] = x
        rows, one, x, value = rows[still], one.rows(still), x[still], value[still]
        if not len(rows):
            break
    if len(rows) and integrand.likelihood.log_concave:
        result[rows] = _bisect(one, sd[rows])
    curvature = integrand.slope_and_curvature(result)[1]
    return result, np.where(np.isfinite(curvature), curvature, 1.0 / integrand.variance)


def _bisect(integrand: Integrand, sd: np.ndarray) -> np.ndarray:
    """The mode where Newton's steps are too short: down from a far e^f they have length 1. For one mode only."""
    near = np.zeros_like(sd)
    sign = np.sign(integrand.slope_and_curvature(near)[0])
    far = sign * sd
    for _ in range(1000):
        before = sign * integrand.slope_and_curvature(far)[0] > 0
        if not before.any():
            break
        far = np.where(before, 2 * far, far)
    for _ in range(60):
        middle = 0.5 * (near + far)
        before = sign * integrand.slope_and_curvature(middle)[0] > 0
        near, far = np.where(before, middle, near), np.where(before, far, middle)
    return 0.5 * (near + far)


def _edge(integrand: Integrand, mode: np.ndarray, top: np.ndarray, width: np.ndarray) -> np.ndarray:
    """A point on one side of the mode at which the integrand does not count any more."""
    distance = 4.0 * width
    rows, one = np.arange(len(mode)), integrand
    for _ in range(100):
        fallen = top[rows] - one(mode[rows] + distance[rows])
        still = fallen < NEGLIGIBLE
        if not still.any():
            break
        rows, one, fallen = rows[still], one.rows(still), fallen[still]
        # as far as a parabola asks, and a bit
        distance[rows] *= np.clip(1.05 * np.sqrt(NEGLIGIBLE / np.maximum(fallen, 1e-3)), 1.1, 2.0)
    return mode + distance
