"""The data of a fit in memory, in the user's units and the engine's: equal rows become one row with a weight.

Weights are relative where a dispersion is learned; equal rows are replicates or copies of one observation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from inspect import signature
from typing import Any

import numpy as np

from knotwise.data.exposure import NoiseRemarks, UsableNoise
from knotwise.data.scaled import LinkScale
from knotwise.data.scaling import Scaling
from knotwise.errors import warn
from knotwise.evidence import InMemory, Rows
from knotwise.evidence.sparse import check_full_size
from knotwise.likelihoods.base import Likelihood
from knotwise.means import Mean
from knotwise.noise import Nugget
from knotwise.numerics.blocks import Executor
from knotwise.numerics.columns import InputColumns
from knotwise.numerics.weighted import counted, mean_and_variance, weighted_quantile
from knotwise.warps import WARPS, Warp

#: replicates differ at their place at least so often, relative to targets of different places: copies of rows that
#: hardly share their places are not taken for replicates where some do
LEAST_MIXED = 0.5
#: rounding makes targets of one place equal at most so many times as often as neighbouring values, or as elsewhere. It
#: is 0.3 to 1.6 for steps up to 2 sd of the noise, and at least 2.9 for bootstrap samples of 40 places with 5 targets.
MOST_EQUAL = 2.0
#: as many different rows do not all occur a multiple of m times by chance: the whole data were copied m times
LEAST_COPIED = 10
#: means of the given weights between these are not worth a word
UNREMARKABLE = (1 / 3, 3.0)
#: how many times the variance that quartiles tell the variance of targets must be to be that of outliers
OUTLYING = 100.0


@dataclass(frozen=True)
class Observations:
    """Checked data in the user's units, [N] each but X [N, D]; None where the data say nothing.

    `weights` are the sample weights; `numbers` say which row of the user's data it is, or one of equal ones, and are
    None where the rows are the user's. `remarks` are what was to be said of a partition when it was checked, `columns`
    say what encoded columns are, and `counts` of how many rows each was merged, None where of one. `warps` are those of
    columns, by number: objects, or words for one that is made of the column.
    """

    X: np.ndarray
    y: np.ndarray
    noise: np.ndarray | None = None
    size: np.ndarray | None = None
    weights: np.ndarray | None = None
    numbers: np.ndarray | None = None
    remarks: tuple[str, ...] = ()
    columns: InputColumns | None = None
    counts: np.ndarray | None = None
    warps: Mapping[int, str | Warp] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.X)

    @property
    def at_hand(self) -> bool:
        """Whether the rows are in the memory of this process."""
        return True

    @property
    def n_columns(self) -> int:
        return self.X.shape[1]

    def take(self, numbers: np.ndarray, weights: np.ndarray | None) -> Observations:
        """Some of the rows, with other weights."""

        def part(values: np.ndarray | None) -> np.ndarray | None:
            return None if values is None else values[numbers]

        old = numbers if self.numbers is None else self.numbers[numbers]
        return replace(
            self,
            X=self.X[numbers],
            y=self.y[numbers],
            noise=part(self.noise),
            size=part(self.size),
            weights=weights,
            numbers=old,
        )

    def scaled(
        self, standardize: str | bool, likelihood: Likelihood, *, full: bool, dispersion: list[str]
    ) -> ScaledArrays:
        """The data in the engine's units, sorted and each row once (see `merged`), for a likelihood."""
        data = self.checked_for(likelihood).merged()
        data = data.weighted_in(data.unit(dispersion, tell=True))
        if full:
            check_full_size(len(data))
        weights = data.weights
        targets, typical = likelihood.scales_targets, None if data.noise is None else float(np.mean(data.noise))
        known: dict[str, Any] = {"targets": targets, "weights": weights, "columns": self.columns}
        scaling = Scaling.of(data.X, data.y, standardize, **known, noise=typical, warps=data.made_warps())
        X, y = scaling.inputs(data.X), scaling.targets(data.y)
        # a constant target has its mean square, or 1, for a variance
        variance = float(mean_and_variance(y, weights)[1]) or float(np.average(y**2, weights=weights)) or 1.0
        variance = without_outliers(variance, likelihood, y, weights)
        noise = None if data.noise is None else UsableNoise.of(data.noise, data.numbers, scaling.y_scale, variance)
        return ScaledArrays(scaling, X, y, variance, noise, data.size, weights, data.numbers)

    def made_warps(self) -> list[Warp | None]:
        """The warp of each column: as it was given, or made of the column; of merged data, so that no order matters."""
        made: list[Warp | None] = [None] * self.n_columns
        for i, given in self.warps.items():
            made[i] = WARPS[given](self.X[:, i], self.weights) if isinstance(given, str) else given
        return made

    def checked_for(self, likelihood: Likelihood) -> Observations:
        """The same data, with targets that the likelihood can have; others are refused by row and value."""
        return replace(self, y=likelihood.check_targets(self.y, 1.0 if self.size is None else self.size))

    def merged(self) -> Observations:
        """The same data sorted by value, with each row once: equal rows add their weights, rows of weight 0 are gone.

        A fit sees nothing else. So the order of the rows never matters, and a row of weight 2 and the row twice are
        the same fit to the bit, whatever is drawn at random. Costs O(N log N).
        """
        data = self._without_zeros()
        keys = [*data.X.T, data.y, *(key for key in (data.noise, data.size) if key is not None)]
        weights = np.ones(len(data)) if data.weights is None else data.weights
        order = sorted_order([*keys, weights])
        new = np.ones(len(order), bool)
        new[1:] = ~_equal_to_the_next(keys, order)
        weights = np.add.reduceat(weights[order], np.flatnonzero(new))
        merged = data.take(order[new], weights if (weights != 1.0).any() else None)
        counts = None if new.all() else np.diff(np.append(np.flatnonzero(new), len(order)))
        return replace(merged, counts=counts)

    def unit(self, dispersion: list[str], *, tell: bool = False) -> float:
        """The weight of one observation in merged data; 1 where no dispersion of these names is learned.

        A row of weight w says that w observations agree exactly. So m copies of n rows raise the log evidence by
        n (m - 1) / 2 nats for each e-fold of less noise, whatever the inputs say; weights with a mean of 1 do not.
        Known noise and likelihoods without a dispersion keep the weights as counts.
        """
        if not dispersion or self.noise is not None:
            return 1.0
        equal = self.equal_rows()
        if tell:
            equal.tell(dispersion)
        return equal.unit

    def weighted_in(self, unit: float) -> Observations:
        """The same data with weights in other units; None where all are 1."""
        if self.weights is None:
            return self if unit == 1.0 else replace(self, weights=np.full(len(self), 1.0 / unit))
        same = float(np.ptp(self.weights)) == 0.0 and abs(self.weights[0] - unit) <= 1e-12 * unit
        return replace(self, weights=None if same else self.weights / unit)

    def equal_rows(self) -> EqualRows:
        """How rows of equal inputs agree, in merged data. Costs O(N log N) where some are equal."""
        weight = float(len(self) if self.weights is None else self.weights.sum())
        if self.counts is None:
            return EqualRows.all_different(len(self), weight)
        keys = [*self.X.T, *(key for key in (self.noise, self.size) if key is not None)]
        order = sorted_order(keys)
        place = np.empty(len(self), int)
        place[order] = np.append(0, np.cumsum(~_equal_to_the_next(keys, order)))
        return EqualRows.of(weight, self.counts, place, self.y)

    def _without_zeros(self) -> Observations:
        if self.weights is None or (self.weights == 1.0).all():
            return replace(self, weights=None)
        kept = np.flatnonzero(self.weights)
        if len(kept) == len(self):
            return self
        return self.take(kept, self.weights[kept])._without_zeros()


@dataclass(frozen=True)
class ScaledArrays:
    """Data in memory: inputs X [N, D] and targets y [N] in the engine's units, and what else is known of the rows."""

    scaling: Scaling
    X: np.ndarray
    y: np.ndarray
    variance: float
    noise: UsableNoise | None
    size: np.ndarray | None
    weights: np.ndarray | None
    numbers: np.ndarray | None

    @property
    def spread(self) -> np.ndarray:
        return spread_of(mean_and_variance(self.X, self.weights)[1])

    @property
    def target_range(self) -> tuple[float, float]:
        return float(self.y.min()), float(self.y.max())

    @property
    def typical_noise(self) -> float | None:
        return None if self.noise is None else float(np.average(self.noise.raised, weights=self.weights))

    @property
    def noise_remarks(self) -> NoiseRemarks:
        return NoiseRemarks() if self.noise is None else self.noise.remarks

    def level(self, likelihood: Likelihood) -> float:
        return constant_start(likelihood, self.y, 1.0 if self.size is None else self.size, self.weights)

    def on_link(self, likelihood: Likelihood) -> LinkScale:
        return LinkScale.of(likelihood, self.y, 1.0 if self.size is None else self.size, self.weights)

    def differing(self) -> tuple[float, int | float, int | float]:
        median = weighted_quantile(self.y, 0.5, self.weights)
        return median, counted(np.isfinite(self.y), self.weights), counted(self.y != median, self.weights)

    def bind(self, mean: Mean, second_moment: float, level: float, *, on_link: bool) -> Mean:
        return mean.bind(self.X, second_moment, level, self.weights, on_link=on_link)

    def blocks(self, mean: Mean, executor: Executor, block_size: int | None) -> InMemory:
        raised, given = (None, None) if self.noise is None else (self.noise.raised, self.noise.given)
        rows = Rows(self.X, self.y, raised, mean.basis(self.X), self.size, self.weights, given)
        return InMemory(rows, executor, block_size)


def spread_of(variance: np.ndarray) -> np.ndarray:
    """Standard deviation of each column; a constant one tells nothing and takes the mean of the others."""
    spread = np.sqrt(variance)
    varying = spread[spread > 0]
    return np.where(spread > 0, spread, varying.mean() if len(varying) else 1.0)


def constant_start(
    likelihood: Likelihood, y: np.ndarray, size: np.ndarray | float, weights: np.ndarray | None
) -> float:
    """The level of the latent function; from the rows once each where one's own likelihood knows no weights."""
    if weights is None or "weights" not in signature(likelihood.constant_start).parameters:
        return likelihood.constant_start(y, size)
    return likelihood.constant_start(y, size, weights)


def without_outliers(variance: float, likelihood: Likelihood, y: np.ndarray, weights: np.ndarray | None) -> float:
    """The variance of targets, or where a few of them make it and the likelihood allows for that, that of the others.

    Starts and bounds are relative to it: ten targets of 1e6 among others about 1 would leave no room for these.
    """
    if not likelihood.heavy_tailed:
        return variance
    low, high = (weighted_quantile(y, q, weights) for q in (0.25, 0.75))
    quartiles = ((high - low) / 1.349) ** 2  # 1.349 standard deviations of a normal variable
    return quartiles if 0 < quartiles < variance / OUTLYING else variance


def sorted_order(keys: Sequence[np.ndarray]) -> np.ndarray:
    """The order of rows by the first key [N], then the second and so on: that of `np.lexsort(keys[::-1])`.

    Later keys are looked at only where the first ones tie: one sort of the rows in most data.
    """
    order = np.argsort(keys[0], kind="stable")
    ties = _equal_to_the_next(keys[:1], order)
    tied = np.flatnonzero(np.append(ties, False) | np.append(False, ties))
    if len(tied) and len(keys) > 1:
        rows = order[tied]  # sorted by the first key, so each group of ties keeps its places
        order[tied] = rows[np.lexsort([key[rows] for key in reversed(keys)])]
    return order


def _equal_to_the_next(keys: Sequence[np.ndarray], order: np.ndarray) -> np.ndarray:
    """Whether each row in order has the same keys as the one after it, [N - 1]."""
    equal = np.ones(len(order) - 1, bool)
    for key in keys:
        equal &= key[order[1:]] == key[order[:-1]]
    return equal


def dispersion_names(likelihood: Likelihood, nugget: Nugget) -> list[str]:
    """Names of the noise, scale, shape, dispersion or nugget of a model: what copies of observations would hide."""
    parameters = [*likelihood.flat_parameters(), *nugget.flat_parameters()]
    return [p.name for p in parameters if p.role in ("noise", "shape", "nugget")]


@dataclass
class EqualRows:
    """How rows of equal inputs agree, in numbers of rows and of pairs of rows; those of several partitions add up.

    A place is what rows have beside their target: inputs and exposure. `weight` is that of all rows, of which
    `n_distinct` differ in place or target. All other numbers are of the `n_single` rows that are left where the whole
    data occur several times: `repeats` are the rows of each place but one, `mixed` those of them whose place has
    different targets. Of the pairs of rows `here`, at one place, `equal_here` have the same target and `next_here`
    neighbouring ones among all that occur; of those `elsewhere`, at different places, `equal_elsewhere`.
    """

    n_rows: int
    n_distinct: int
    weight: float
    n_single: int
    repeats: float = 0.0
    mixed: float = 0.0
    here: float = 0.0
    equal_here: float = 0.0
    next_here: float = 0.0
    elsewhere: float = 0.0
    equal_elsewhere: float = 0.0

    @staticmethod
    def of(weight: float, counts: np.ndarray, place: np.ndarray, y: np.ndarray) -> EqualRows:
        """Count in distinct rows, [n] each: how often each occurs, the number of its place, its target."""
        n_rows = int(counts.sum())
        counts = counts // (np.gcd.reduce(counts) if len(counts) >= LEAST_COPIED else 1)
        values = np.unique(y, return_inverse=True)[1]
        order = np.lexsort([values, place])
        place, values, n = place[order], values[order], counts[order].astype(float)
        at_place, of_value, n_targets = np.bincount(place, n), np.bincount(values, n), np.bincount(place)
        following = (place[1:] == place[:-1]) & (values[1:] == values[:-1] + 1)
        squares = float(n @ n)
        return EqualRows(
            n_rows,
            len(y),
            weight,
            int(n.sum()),
            repeats=float((at_place - 1).sum()),
            mixed=float((at_place - 1)[n_targets > 1].sum()),
            here=float((at_place * (at_place - 1)).sum()) / 2,
            equal_here=(squares - float(n.sum())) / 2,
            next_here=float((n[1:] * n[:-1])[following].sum()),
            elsewhere=(float(n.sum()) ** 2 - float(at_place @ at_place)) / 2,
            equal_elsewhere=(float(of_value @ of_value) - squares) / 2,
        )

    @staticmethod
    def all_different(n_rows: int, weight: float) -> EqualRows:
        """Rows of which no two are equal, or nobody asks whether they are."""
        return EqualRows(n_rows, n_rows, weight, n_rows)

    def __iadd__(self, other: EqualRows) -> EqualRows:
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))
        return self

    @property
    def are_replicates(self) -> bool:
        """Whether equal rows are observations that agree by rounding, and not copies of one observation.

        Rounding makes targets of one place equal now and then, as it does at different places, and neighbouring ones
        are about as frequent. Copies are equal at places that have no other target, or more often than rounding does.
        """
        by_chance = self.equal_elsewhere / self.elsewhere if self.elsewhere else 0.0
        if self.mixed == 0 or self.mixed < LEAST_MIXED * (1 - by_chance) * self.repeats:
            return False
        return self.equal_here <= MOST_EQUAL * (self.next_here + by_chance * self.here)

    @property
    def mean_weight(self) -> float:
        """The mean of the weights that were given, 1 without."""
        return self.weight / self.n_rows

    @property
    def unit(self) -> float:
        """The weight of one observation: the mean of all rows, of which copies are one.

        Rows of weight w and rows that occur w times have the same merged weights and, as copies, the same unit: they
        are the same fit. Replicates count each.
        """
        return self.weight / (self.n_single if self.are_replicates else self.n_distinct)

    def tell(self, names: list[str]) -> None:
        """Warn of weights whose mean is far from 1, with what to write instead."""
        low, high = UNREMARKABLE
        if low <= self.mean_weight <= high:
            return
        means = "; for means of n measurements of variance s2, give `noise_variance=s2 / n`"
        warn(
            f"`sample_weight` has a mean of {self.mean_weight:.3g}. In a model with {' and '.join(names)} weights are "
            "relative, so these were divided by their mean; `sample_weight=w / w.mean()` says the same without this "
            "warning. If they are numbers of observations that rounding made equal, repeat the rows, "
            f"`np.repeat(X, w, axis=0)`{means if names == ['noise_variance'] else ''}."
        )
