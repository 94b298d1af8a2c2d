"""The heteroscedasticity test: do sizes of leave-one-out errors go with a column, the mean, or those of neighbours?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import gammainc, gammaincc, ndtri
from scipy.stats import rankdata

from knotwise.diagnosis.autocorrelation import NeighbourGraph
from knotwise.diagnosis.findings import Finding, without_data
from knotwise.evidence.model import Rows
from knotwise.posterior.residuals import NORMAL_95, Residuals

N_DRAWS, DRAWN_VALUES = (100, 400), 800_000  # draws of residuals from the model: least and most, and values in all
LEAST_ROWS = 40  # of fewer rows the outer fifths are a handful
NEIGHBOUR_ROWS, NEIGHBOUR_PLACES = 200, 50  # of fewer rows neighbours tell little, and of few places all are neighbours
LEAST_SKEWNESS = 1e-3  # below which a gamma distribution is a normal one, to four digits of its tails
FITTED_MEAN = "fitted mean"


@dataclass(frozen=True)
class HeteroscedasticityTest:
    """Whether errors are larger in some places than in others: `spread` of a `Diagnosis`, for Gaussian noise.

    Rows are predicted without themselves (in a model with neighbours, by the rows before them in a random order). The
    ranks of the sizes of their errors, over what the model expects, are correlated with each column and its distance
    from the middle, with the fitted mean and, from 200 rows at 50 places on, with the sizes of neighbours. If the model
    is right, they have nothing to do with any of them; heavy tails alone make no rank larger in some places.

    Attributes
    ----------
    along : str
        What sizes go with most: the name of a column, "fitted mean" or "neighbours".
    where : tuple of str
        In words, where errors are smallest and where they are largest along it.
    correlation : float
        Correlation of sizes (as normal scores of their ranks) with it, beyond that of the model.
    z : float
        The same, in standard deviations under the model.
    p : float
        The chance that one of the correlations is as large if the model is right: Bonferroni's bound over `n_tests`.
    ratio : float
        How much larger errors are in the fifth of the rows where they are largest than in the fifth where they are
        smallest (root mean squares, each over what the model expects).
    coverage : tuple of float
        Share of the rows in their 95 % intervals, in these two fifths: where errors are small, and where large.
    noise_share : float
        How much of the variance of a leave-one-out prediction is noise, in the median row; the rest is of the function.
    n_rows : int
        How many rows were compared.
    n_tests : int
        How many correlations were looked at.
    among_neighbours : bool
        Whether that with the sizes of neighbours was one of them.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise import GPRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(200, 1))
    >>> y = np.sin(6 * X[:, 0]) + X[:, 0] * rng.normal(size=200)
    >>> spread = GPRegressor(knots=6, random_state=0).fit(X, y).diagnose().spread
    >>> spread.along, spread.p < 0.01, spread.ratio > 2
    ('column 0', True, True)
    """

    along: str
    where: tuple[str, str]
    correlation: float
    z: float
    p: float
    ratio: float
    coverage: tuple[float, float]
    noise_share: float
    n_rows: int
    n_tests: int
    among_neighbours: bool


@dataclass(frozen=True)
class Errors:
    """Leave-one-out errors of some rows, over what the model expects.

    `residuals` and `found` are of all rows that have neighbours, `chosen` are the numbers of those that are compared.
    """

    residuals: Residuals
    found: NeighbourGraph
    chosen: np.ndarray

    @cached_property
    def variance(self) -> np.ndarray:
        """Variances of leave-one-out predictions: 1 / R_ii, and what predictions add to it."""
        added = np.broadcast_to(self.residuals.added, len(self.residuals.a))
        return 1.0 / self.residuals.variance[self.chosen] + added[self.chosen]

    def sizes(self, a: np.ndarray) -> np.ndarray:
        """Sizes of the errors a / R_ii over their standard deviations, for residuals a [n, draws]."""
        scale = 1.0 / (self.residuals.variance[self.chosen] * np.sqrt(self.variance))
        return np.abs(a[self.chosen]) * scale[:, None]

    def sums(self, x: np.ndarray) -> np.ndarray:
        """Sums of x [n, draws] over the neighbours that are compared, too."""
        whole = np.zeros((len(self.found.rows), x.shape[1]))
        whole[self.chosen] = x
        return self.found.sums(whole)[self.chosen]


@dataclass(frozen=True)
class Direction:
    """What sizes may go with: a name, where it is smallest and largest in words, and values [n] that sort the rows."""

    along: str
    where: tuple[str, str]
    values: np.ndarray


def heteroscedasticity_test(
    errors: Errors, X: np.ndarray, mean: np.ndarray, noise: np.ndarray | float, names: Sequence[str]
) -> HeteroscedasticityTest | None:
    """Correlate sizes of errors with all that they may go with; None where nothing varies.

    `X` [n, D], the fitted `mean` [n] and the variance of the `noise` are those of the rows that are compared. Even
    where the noise is the same everywhere, errors are correlated, and so their sizes agree: how much is found from
    draws of the residuals, N(0, R)  (O7). Takes O(n (K + D)) for each draw, or one factor of R for the exact GP.
    """
    n = len(X)
    ways = list(_directions(X, mean, names))
    u = errors.sizes(errors.residuals.a[:, None])
    if not ways or not u.any():
        return None
    draws = errors.residuals.draw(np.random.default_rng(0), int(np.clip(DRAWN_VALUES // n, *N_DRAWS)))
    s, drawn = _normal_scores(u), _normal_scores(errors.sizes(draws))
    B = np.column_stack([way.values - way.values.mean() for way in ways])
    B /= np.linalg.norm(B, axis=0)
    correlation, z = _excess(B.T @ s, B.T @ drawn)
    skewness = (
        (B**3).sum(0) * np.sqrt(n) * (s**3).sum()
    )  # of the sum over a random permutation, whose moments are products
    p = 2.0 * _tail(np.abs(z), np.sign(z) * skewness)
    degree = errors.sums(np.ones((n, 1)))
    if n >= NEIGHBOUR_ROWS and len(np.unique(X, axis=0)) >= NEIGHBOUR_PLACES:
        agreement, all_drawn = ((x * errors.sums(x)).sum(0) / (degree * x**2).sum(0) for x in (s, drawn))
        more, its_z = _excess(agreement[None], all_drawn[None])
        standard = (all_drawn - all_drawn.mean()) / all_drawn.std()
        near = errors.sums(u) / np.maximum(degree, 1.0)
        ways.append(Direction("neighbours", ("errors of neighbours are small", "they are large"), near[:, 0]))
        correlation, z = np.append(correlation, more), np.append(z, its_z)
        p = np.append(p, _tail(its_z, np.mean(standard**3, keepdims=True)))
    best = int(np.argmin(p))
    way, up = ways[best], bool(z[best] > 0)
    order = np.argsort(way.values if up else -way.values, kind="stable")
    calm, wild = u[order[: n // 5], 0], u[order[-(n // 5) :], 0]
    return HeteroscedasticityTest(
        way.along,
        way.where if up else way.where[::-1],
        float(correlation[best]),
        float(z[best]),
        float(min(1.0, len(p) * p[best])),
        float(np.sqrt(np.mean(wild**2) / max(np.mean(calm**2), np.finfo(float).tiny))),
        (float(np.mean(calm <= NORMAL_95)), float(np.mean(wild <= NORMAL_95))),
        float(np.median(noise / errors.variance)),
        n,
        len(p),
        ways[-1].along == "neighbours",
    )


def _directions(X: np.ndarray, mean: np.ndarray, names: Sequence[str]) -> Iterator[Direction]:
    """Each column that varies and, of more than two values, its distance from the middle, by ranks; the fitted mean."""
    for x, name in [*zip(X.T, names, strict=True), (mean, FITTED_MEAN)]:
        if np.ptp(x) == 0:
            continue
        rank = 2.0 * (rankdata(x) - 0.5) / len(x) - 1.0
        what = f"the {name}" if name == FITTED_MEAN else name
        if not np.any((x != x.min()) & (x != x.max())):  # as of a level of a category
            yield Direction(name, (f"{what} has its lower value", f"{what} has its upper value"), rank)
            continue
        yield Direction(name, (f"{what} is small", f"{what} is large"), rank)
        if name != FITTED_MEAN:
            yield Direction(name, (f"{what} is near its median", f"{what} is far from its median"), rank**2)


def _normal_scores(u: np.ndarray) -> np.ndarray:
    """Klotz's scores of the sizes u [n, draws]: squares of half-normal quantiles of their ranks, centred, of norm 1."""
    rank = rankdata(u, axis=0) if u.shape[1] == 1 else np.argsort(np.argsort(u, axis=0), axis=0) + 1.0
    s = ndtri(0.5 + 0.5 * rank / (len(u) + 1)) ** 2
    s -= s.mean(0)
    return s / np.maximum(np.linalg.norm(s, axis=0), np.finfo(float).tiny)


def _excess(found: np.ndarray, drawn: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What was found [m, 1], less its mean over draws [m, draws], and that in their standard deviations: [m] each."""
    excess = found.reshape(-1) - drawn.mean(1)
    return excess, excess / np.maximum(drawn.std(1, ddof=1), np.finfo(float).tiny)


def _tail(z: np.ndarray, skewness: np.ndarray) -> np.ndarray:
    """P(Z > z) of a standardised gamma distribution (Pearson's type III), which is normal without skewness."""
    g = np.where(np.abs(skewness) < LEAST_SKEWNESS, LEAST_SKEWNESS, skewness)
    shape = 4.0 / g**2
    x = np.maximum(shape + 2.0 * z / g, 0.0)
    return np.where(g > 0, gammaincc(shape, x), gammainc(shape, x))


ALARM = 0.005  # p-value over all that sizes of errors may go with
VISIBLE, LARGE = 1.3, 2.0  # ratio of errors in outer fifths of the rows: worth a word, and a problem
ROWS_PER_KNOT = 10  # from which on a knot knows little of a single row
ALIKE = 0.8  # share of the rows that must count equally often, and of which sizes are compared
DISTINCT, COARSE = 0.5, 0.5  # share of different targets, and steps of fewer in standard deviations of an error
MOSTLY_NOISE = 0.5  # share of the noise in the variance of a leave-one-out prediction


def compare_sizes(
    estimator: Any, rows: Rows | None, found: tuple[Residuals, NeighbourGraph] | None
) -> tuple[HeteroscedasticityTest | None, str]:
    """The heteroscedasticity test of the rows of a fit; or None, and why it could not be done."""
    fit = estimator._fit
    likelihood = fit.model.likelihood
    if not likelihood.quadratic:
        return None, f"the test is for Gaussian noise of y or log y, and not for {type(likelihood).__name__}"
    if rows is None:
        return None, ""
    if found is None or len(found[1].rows) < LEAST_ROWS:
        return None, f"{len(rows)} different rows are too few (from {LEAST_ROWS} on sizes of errors are compared)"
    if fit.n_neighbors and len(rows) < ROWS_PER_KNOT * fit.posterior.n_knots:
        return None, (
            f"{fit.posterior.n_knots} knots are many among {len(rows)} rows, and with neighbours what they "
            "know of a single row cannot be taken off"
        )
    residuals, neighbours = found
    if not (np.isfinite(residuals.a).all() and np.isfinite(residuals.variance).all()):
        return None, "residuals are no numbers"
    counts = _counts(fit, rows)[neighbours.rows]
    chosen = np.flatnonzero((counts == _most_frequent(counts)) & (residuals.variance > 0))
    if len(chosen) < max(LEAST_ROWS, ALIKE * len(counts)):
        return None, "rows count differently often (weights or equal rows), and the error of several is that of a mean"
    errors, some = Errors(residuals, neighbours, chosen), rows[neighbours.rows[chosen]]
    coarse = _why_coarse(some.y, errors, likelihood)
    if coarse:
        return None, coarse
    noise = fit.model.noise_of(some).variance(some) if likelihood.conjugate else _noise(likelihood)
    names = [str(name) for name in estimator._column_names] or [f"column {i}" for i in range(some.X.shape[1])]
    test = heteroscedasticity_test(errors, some.X, fit.posterior.latent(some.X).mean, noise, names)
    return test, "" if test is not None else "inputs or errors do not vary"


def describe_spread(
    estimator: Any, test: HeteroscedasticityTest | None, why_not: str, rows: Rows | None, near: Finding
) -> Finding:
    """Whether errors are larger in some places than in others, or why that was not tested.

    `near` is what was found in the residuals of neighbours: structure that is missed comes first.
    """
    if test is None:
        untested = Finding("spread", "unknown", f"not tested for uneven noise: {why_not}")
        return untested if why_not else without_data(["spread"])
    tested = (
        f"heteroscedasticity test of {test.n_rows:,} rows: p = {test.p:.2g} (sizes of leave-one-out errors beside each "
        f"column, the fitted mean{' and neighbours' if test.among_neighbours else ''})"
    )
    if test.p >= ALARM:
        return Finding("spread", "ok", f"no sign of uneven noise: {tested}")
    (calm, wild), (small, large) = test.coverage, test.where
    ratio = f"{test.ratio:.1f} times as large where {large} as where {small}"
    of_function = test.noise_share <= MOSTLY_NOISE
    if test.ratio <= (LARGE if of_function else VISIBLE):
        return Finding("spread", "ok", f"no uneven noise that matters, errors are {ratio}: {tested}")
    text = (
        f"{ratio} (outer fifths of the rows), and {wild:.0%} of the rows lie in their 95% intervals there and "
        f"{calm:.0%} here; {tested}"
    )
    if of_function:
        return Finding("spread", "note", f"errors of the function are {text}", _advice(estimator, test, rows, near))
    text = f"errors are larger in some places than in others: {text}"
    level = "problem" if test.ratio > LARGE else "note"
    return Finding("spread", level, text, _advice(estimator, test, rows, near))


def _advice(estimator: Any, test: HeteroscedasticityTest, rows: Rows | None, near: Finding) -> str:
    if near.level == "problem":
        return "What the model misses may be the reason: see to the neighbours first."
    if rows is not None and rows.noise_variance is not None and np.ptp(rows.noise_variance) > 0:
        return "The variances of the noise that were given do not fit everywhere."
    if test.noise_share <= MOSTLY_NOISE:
        return (
            f"Noise is only {test.noise_share:.0%} of the variance of these errors: the function is rougher there, "
            "which one kernel does not know. Trust intervals on average, or try a transform of the columns."
        )
    if estimator._fit.noise is not None:
        return (
            "The noise varies in this fit, but not as errors do: trust intervals on average, and not in single places."
        )
    advice = "One variance of the noise serves all places: trust intervals on average, and not in single places."
    if estimator._fit.model.likelihood.conjugate:
        advice += (
            " Write `noise='varying'`, which learns how the noise depends on the inputs. If that of each row is known, "
            "give it: `fit(X, y, noise_variance=...)`; if errors grow with y, and y is positive, try "
            "`likelihood='lognormal'`."
        )
    return advice


def _counts(fit: Any, rows: Rows) -> np.ndarray:
    """Sample weight of each row, up to a factor."""
    if fit.n_neighbors:
        training = fit.rows_at_hand
        if training is None or len(training) != len(rows):  # from a file: rows that count k times have noise / k
            return 1.0 / fit.posterior.rows.noise_variance
        rows = training
    return np.ones(len(rows)) if rows.weights is None else rows.weights


def _most_frequent(values: np.ndarray) -> float:
    found, times = np.unique(values, return_counts=True)
    return float(found[np.argmax(times)])


def _why_coarse(y: np.ndarray, errors: Errors, likelihood: Any) -> str:
    """Why targets are too coarse, so that sizes of errors follow the mean; "" where they are not."""
    values = np.unique(y)
    if len(values) >= DISTINCT * len(y):
        return ""
    z = values if likelihood.conjugate else np.log(values)
    step = float(np.median(np.diff(z))) if len(z) > 1 else np.inf
    if step <= COARSE * float(np.sqrt(np.median(errors.variance))):
        return ""
    return f"targets have only {len(values)} different values, and sizes of errors go with these"


def _noise(likelihood: Any) -> float:
    """The variance of the noise, in the units of the latent function."""
    return float(next(likelihood.value(p.name) for p in likelihood.parameters if p.role == "noise"))
