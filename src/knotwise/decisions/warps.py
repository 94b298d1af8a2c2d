"""Which columns are warped, and how? Skewed and long-tailed ones may be; exact GPs and rows left out decide.

A kernel has the same length-scale everywhere, so that a column with most of its values near one end, such as an age or
an income, asks for a logarithm or for normal scores. But a skewed column is no proof: where the function is smooth in
the column itself, a warp loses. So warps are tried on the same rows with the same kernel, all at once, and then column
by column. Each that stays must pay for itself, and all together also against rougher kernels without a warp, which
explain much of what a warp does; and they may not predict rows that were left out worse.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from knotwise.decisions.candidates import as_start, fit_candidate
from knotwise.decisions.thresholds import WARP
from knotwise.decisions.trials import Candidate, Trial
from knotwise.evidence import Rows
from knotwise.kernels.stationary import Matern12, Matern32, Matern52
from knotwise.numerics.weighted import mean_and_variance
from knotwise.selection.base import Decision
from knotwise.selection.problem import KernelMaker, Problem
from knotwise.selection.starts import spread_out, starting_theta
from knotwise.warps import Log, NormalScores, Warp

Warps = Mapping[int, Warp]
#: kernels that are tried beside the first one
ROUGHER = (Matern32, Matern12)


@dataclass(frozen=True)
class Column:
    """A column of numbers that may be warped: its name, and its values and sample weights in all rows, or in some.

    `centre` and `scale` lead from the engine's column, which has no warp, to the column: x = centre + scale * x_engine.
    """

    name: str
    values: np.ndarray
    weights: np.ndarray | None
    centre: float
    scale: float

    @cached_property
    def distinct(self) -> np.ndarray:
        return np.unique(self.values)

    def warps(self) -> list[Warp]:
        """The warps that are worth a trial, the first one first; none for most columns.

        Of a column with few distinct values these must be skewed themselves, not only how often each occurs: those of a
        lattice are not.
        """
        n_distinct = len(self.distinct)
        if n_distinct < WARP.least_distinct:
            return []
        skewness, kurtosis = _shape(self.values, self.weights)
        if abs(skewness) < WARP.skewness and kurtosis < WARP.kurtosis:
            return []
        few = n_distinct < WARP.many_distinct
        if few and abs(_shape(self.distinct, None)[0]) < WARP.skewness_of_distinct:
            return []
        logs: list[Warp] = []
        if skewness >= WARP.skewness:
            for warp in dict.fromkeys([Log.of(self.values, self.weights), Log.shifted(self.values, self.weights)]):
                left = _shape(warp(self.values), self.weights)[0]
                if not logs and abs(left) < WARP.left_skewed:
                    logs.append(warp)
        return logs if few else [*logs, NormalScores.of(self.values, self.weights)]

    def standardised(self, warp: Warp, x_engine: np.ndarray) -> np.ndarray:
        """The engine's column under a warp, from the engine's column without one."""
        mean, variance = mean_and_variance(warp(self.values), self.weights)
        return (warp(self.centre + self.scale * x_engine) - mean) / np.sqrt(variance or 1.0)


def decide(make: KernelMaker, columns: Mapping[int, Column], rng: np.random.Generator) -> Decision[Warps]:
    """The warp of each column that is to have one, by its number in the engine.

    `columns` are those that may be warped; `make` puts the problem without warps together for a kernel.
    """
    candidates = {i: found for i, column in columns.items() if (found := column.warps())}
    if not candidates:
        return Decision({}, "no column is skewed or has long tails")
    plain = make(Matern52())
    n_columns = len(plain.varying_variances)
    if plain.summary.n_rows < WARP.least_rows or n_columns > WARP.most_columns:
        return Decision({}, "rows are too few, or columns too many, to try warps")
    trial = Trial.draw(plain, WARP.rows, rng, plain.new_trace())
    start = starting_theta(plain.by_surrogate, rng)
    problem = make(Matern52(ard=True)) if n_columns > 1 else plain
    search = _Search(trial, make, problem, columns, spread_out(start, plain, problem) if n_columns > 1 else start)
    return search.decide(candidates)


@dataclass
class _Search:
    """Fits of one kernel to the rows of a trial, with different warps of the columns."""

    trial: Trial
    make: KernelMaker
    problem: Problem
    columns: Mapping[int, Column]
    start: np.ndarray

    def __post_init__(self) -> None:
        self.fits: dict[tuple[tuple[int, Warp], ...], Candidate | None] = {}

    def decide(self, candidates: Mapping[int, Sequence[Warp]]) -> Decision[Warps]:
        none = self.fit({})
        if none is None:
            return Decision({}, "nothing could be fitted")
        seen = {i: warps for i, warps in candidates.items() if self._matters(none, i)}
        first = {i: warps[0] for i, warps in seen.items()}
        last = {i: warps[-1] for i, warps in seen.items()}
        best = max(({}, first, last), key=self.value)
        for i in sorted(seen, key=lambda i: self._lengthscale(none, i))[: WARP.most_tried]:
            others = [{**best, i: warp} for warp in seen[i]] + [{j: w for j, w in best.items() if j != i}]
            best = max((best, *others), key=lambda warps: self.value(warps) - WARP.price * len(warps))
        best = {i: warp for i, warp in sorted(best.items()) if self._matters(self.fit(best) or none, i)}
        if not best:
            return Decision({}, f"no warp pays on {self.trial.fitted.count:g} rows", {"gain": 0.0})
        return self._confirmed(best)

    def _confirmed(self, warps: Warps) -> Decision[Warps]:
        """The warps, if they gain clearly, also over a fit without them that starts where theirs ended."""
        tried, plain = self.fit(warps), self.fit({})
        assert tried is not None and plain is not None
        again = fit_candidate(self.trial, self.problem, [tried.theta], WARP.search)
        if again is not None and again.value > plain.value:
            plain = again
        tried, plain = self._of_any_smoothness(warps, tried), self._of_any_smoothness({}, plain)
        gain, least = tried.value - plain.value, WARP.margin + WARP.price * len(warps)
        trial = self._trial({})
        one, other = self._trial(warps).judged(tried), trial.judged(plain)
        near, error = trial.gain(one, other, ("near",))
        mean, error_of_all = trial.gain(one, other)
        numbers = {
            "gain": gain,
            "threshold": least,
            "near_gain": near,
            "near_error": error,
            "n_rows": trial.fitted.count,
        }
        numbers |= {"density_gain": mean, "standard_error": error_of_all, "log_evidence": tried.value}
        worse = near < -WARP.sure * error or mean < -WARP.sure * error_of_all
        pays = gain > least and not worse and (gain > WARP.clear or near > WARP.sure * error)
        said = (
            f"{gain:.1f} nats on {trial.fitted.count:g} rows (above {least:.1f} pays), and {near:.3f} +- {error:.3f} "
            "in the log density of a row left out"
        )
        called = in_words(warps, self.columns)
        if not pays:
            return Decision({}, f"{called} would gain {said}: that is not enough", numbers)
        return Decision(warps, f"{called}: {said}", numbers)

    def _of_any_smoothness(self, warps: Warps, smooth: Candidate) -> Candidate:
        """The likeliest fit with these warps, also of rougher kernels, each from where the smoother one ended."""
        trial, best, last = self._trial(warps), smooth, smooth
        for kind in ROUGHER:
            problem = self.make(kind(ard=self._per_column))
            tried = fit_candidate(trial, problem, [as_start(problem, last.theta, kind)], WARP.search, last)
            if tried is not None:
                last = tried
                best = max(best, tried, key=lambda found: found.value)
        return best

    @property
    def _per_column(self) -> bool:
        return bool(getattr(self.problem.model.kernel, "ard", False))

    def value(self, warps: Warps) -> float:
        found = self.fit(warps)
        return -np.inf if found is None else found.value

    def fit(self, warps: Warps) -> Candidate | None:
        """The fit with these warps; it starts where the best one so far ended, and the first two at the beginning."""
        key = tuple(sorted(warps.items(), key=lambda each: each[0]))
        if key not in self.fits:
            ends = [found for found in self.fits.values() if found is not None]
            starts = [max(ends, key=lambda found: found.value).theta] if ends else []
            like = max(ends, key=lambda found: found.value) if len(ends) > 1 else None
            starts = starts if len(ends) > 1 else [self.start, *starts]
            self.fits[key] = fit_candidate(self._trial(warps), self.problem, starts, WARP.search, like)
        return self.fits[key]

    def _trial(self, warps: Warps) -> Trial:
        """The same rows with warped columns."""
        if not warps:
            return self.trial
        fitted, validation = (self._warped(rows, warps) for rows in (self.trial.fitted, self.trial.validation))
        return replace(self.trial, fitted=fitted, validation=validation)

    def _warped(self, rows: Rows, warps: Warps) -> Rows:
        X = rows.X.copy()
        for i, warp in warps.items():
            X[:, i] = self.columns[i].standardised(warp, X[:, i])
        return replace(rows, X=X, basis=self.problem.model.mean.basis(X))

    def _lengthscale(self, found: Candidate, column: int) -> float:
        """The length-scale of a column, in its standard deviations."""
        table = self.problem.table
        own = [k for k in np.flatnonzero(table.with_role("lengthscale")) if column in table.parameters[k].columns]
        return float(np.exp(found.theta[own]).min())

    def _matters(self, found: Candidate, column: int) -> bool:
        return self._lengthscale(found, column) < WARP.irrelevant


def in_words(warps: Warps, columns: Mapping[int, Column]) -> str:
    """The warped columns, as a sentence begins."""
    return ", ".join(warp.in_words(columns[i].name) for i, warp in warps.items())


def _shape(values: np.ndarray, weights: np.ndarray | None) -> tuple[float, float]:
    """Skewness and kurtosis, which is 3 of a normal variable; 0 of a column that does not vary."""
    mean, variance = mean_and_variance(values, weights)
    if not variance > 0:
        return 0.0, 0.0
    z = (values - mean) / np.sqrt(variance)
    squares = z**2
    return float(np.average(squares * z, weights=weights)), float(np.average(squares**2, weights=weights))
