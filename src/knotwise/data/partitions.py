"""The data of a fit as partitions of Dask collections: checked, looked at and scaled where they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from knotwise.checkpoint.digest import digest
from knotwise.data.exposure import NoiseRemarks, remarks_of, size_given, usable_noise
from knotwise.data.observations import Observations, ScaledArrays, constant_start, spread_of, without_outliers
from knotwise.data.reading import IN_MEMORY, LEVELS_AS_NUMBERS, Facts, Reading, facts_of, labels_in_partition
from knotwise.data.scaled import LinkScale
from knotwise.data.scaling import Scaling
from knotwise.data.validation import refuse_repeated_names
from knotwise.distributed.blocks import DaskBlocks, LazyRows
from knotwise.distributed.collections import Partitions, is_frame
from knotwise.distributed.held import Part
from knotwise.distributed.places import Place, place_for
from knotwise.errors import InvalidInputError, warn
from knotwise.evidence import Rows
from knotwise.evidence.blocks import RowSummary
from knotwise.evidence.sparse import check_full_size
from knotwise.likelihoods.base import Likelihood
from knotwise.means import Mean
from knotwise.noise import NO_NOISE, NOISE_FLOOR
from knotwise.numerics.blocks import Executor, Serial
from knotwise.numerics.weighted import counted, weighted_quantile

#: options that encode columns, with their defaults and what can be done instead
INSTEAD = {
    "categorical": ("auto", LEVELS_AS_NUMBERS),
    "missing": ("error", "Fill the gaps first (`X.fillna(X.mean())`)"),
    "coords": (None, "Project the places to a plane first, in kilometres"),
    "periods": (None, "Add cosine and sine of the column as columns"),
}
COUNT_DAYS = "Count days since a first date (`(X[...] - first).dt.days`)"
ROWS_AT_DRIVER = 5000  # up to which the rows come to the driver, and the fit is that of data in memory
NOTHING = "There is no row in any partition, or none with a positive weight: there is nothing to fit."


def read_collections(
    estimator: Any,
    likelihood: Likelihood,
    X: Any,
    y: Any,
    *,
    sample_weight: Any = None,
    exposure: Any = None,
    trials: Any = None,
    noise_variance: Any = None,
    label: Any = None,
) -> PartitionedObservations:
    """The data of a fit, which nobody has looked at yet; where `label` is not None, targets say which y are this one.

    All have the partitions of X. What one value for each row can be known without reading is checked here.
    """
    refuse_neighbours(estimator.n_neighbors)
    refuse_encoding(estimator, X)
    if y is None:
        raise InvalidInputError("This estimator requires y to be passed, but the target y is None.")
    if noise_variance is not None and not likelihood.conjugate:
        raise InvalidInputError(
            f"`noise_variance` is for Gaussian data, but the likelihood is {type(likelihood).__name__}."
        )
    size_name, size = size_given(likelihood, exposure=exposure, trials=trials)
    parts = Partitions(X)
    check_columns(estimator, parts, reset=True)
    per_row = (
        parts.along(y, "y"),
        parts.along(sample_weight, "sample_weight"),
        parts.along(size, size_name),
        parts.along(noise_variance, "noise_variance"),
    )
    reading = Reading(likelihood, parts.n_columns, parts.columns, label)
    return PartitionedObservations(list(zip(parts.lazy, *per_row, strict=True)), reading, place_for(Serial()))


def check_columns(estimator: Any, parts: Partitions, *, reset: bool = False) -> None:
    """Check the number and the names of the columns against those of the fit, or keep them for later."""
    refuse_repeated_names(parts.X)
    row: Any = np.zeros((1, parts.n_columns))
    if is_frame(parts.X):
        import pandas as pd

        row = pd.DataFrame(row, columns=parts.columns)
    validate_data(estimator, row, reset=reset, ensure_min_samples=1)


def refuse_encoding(estimator: Any, X: Any) -> None:
    """Levels, means and dates would have to be looked for in all partitions: Dask collections are plain numbers."""
    estimator._encoding = None
    for name, (default, instead) in INSTEAD.items():
        given = getattr(estimator, name)
        if not (given is None or isinstance(given, str)) or given != default:
            raise InvalidInputError(
                f"`{name}={given!r}` needs the rows in one place, and X is a Dask collection. {instead}, {IN_MEMORY}"
            )
    if estimator.warp not in (None, "auto", {}):
        raise InvalidInputError(
            f"`warp={estimator.warp!r}` needs the rows in one place, and X is a Dask collection. Warp the column "
            f"itself (`X.assign(age=np.log(X.age))`), {IN_MEMORY}"
        )
    for column, dtype in X._meta.dtypes.items() if is_frame(X) else ():
        is_category = str(dtype) == "category"
        if is_category or getattr(dtype, "kind", "O") in "mM":
            what, instead = (
                ("levels of a category", LEVELS_AS_NUMBERS) if is_category else (f"dates ({dtype})", COUNT_DAYS)
            )
            raise InvalidInputError(
                f"Column {column!r} holds {what}, and a fit to a Dask collection takes numbers. {instead}, {IN_MEMORY}"
            )


def refuse_neighbours(n_neighbors: Any) -> None:
    """Neighbours of a row can be in any partition; "auto" does without them."""
    if not isinstance(n_neighbors, str) and n_neighbors != 0:
        raise InvalidInputError(
            f"`n_neighbors={n_neighbors!r}` needs the rows in one place: the nearest rows of a row can be in any "
            "partition of a Dask collection. Leave it at 'auto', which does without neighbours here, or fit some rows "
            "in memory (`X.compute()`)."
        )


@dataclass(frozen=True)
class PartitionedObservations:
    """Data in partitions: a tuple of lazy pieces for each (X, y, weights, size, noise), and how they are read.

    Each partition is sorted by value, and its equal rows become one with a weight; those of different partitions do
    not. Up to 5,000 rows, and for the exact GP, all of them come to the driver.
    """

    pieces: Sequence[tuple[Any, ...]]
    reading: Reading
    place: Place

    @property
    def at_hand(self) -> bool:
        return False

    @property
    def n_columns(self) -> int:
        return self.reading.n_columns

    def scaled(
        self, standardize: str | bool, likelihood: Likelihood, *, full: bool, dispersion: list[str]
    ) -> ScaledArrays | ScaledPartitions:
        facts = self._map(facts_of, len(self.pieces))
        known = [each for each in facts if each is not None]
        if not known:
            raise InvalidInputError(NOTHING)
        n_rows = sum(each.n_rows for each in known)
        if full:
            check_full_size(n_rows)
        if full or n_rows <= ROWS_AT_DRIVER:
            whole = replace(self, reading=replace(self.reading, merge=False))
            joined = _joined(whole._map(None))
            return joined.scaled(standardize, likelihood, full=full, dispersion=dispersion)
        _tell(facts)
        total, unit = Facts.total(known), 1.0
        if dispersion and total.noise is None:
            total.equal.tell(dispersion)
            unit = total.equal.unit
        scaling = _scaling(total, standardize, likelihood)
        return ScaledPartitions(self, facts, total.weighted_in(unit), scaling, likelihood, unit)

    def labels(self) -> np.ndarray:
        """The different labels y of rows of positive weight, in sorted order."""
        from dask import delayed

        task = delayed(labels_in_partition, pure=False)
        found = self.place.compute([task(i, *own) for i, own in enumerate(self.pieces)])
        known = [(number, labels) for number, labels in enumerate(found) if len(labels)]
        if not known:
            raise InvalidInputError(NOTHING)
        _refuse_text_beside_numbers(known)
        return np.unique(np.concatenate([labels for _, labels in known]))

    def digests(self) -> list[str]:
        from dask import delayed

        task = delayed(_digest_of_pieces, pure=False)
        return self.place.compute([task(*own) for own in self.pieces])

    def _map(self, function: Any, *arguments: Any) -> list[Any]:
        """What a function returns for each partition, once it is read."""
        from dask import delayed

        task = delayed(ReadAndCall(self.reading, function), pure=False)
        return self.place.compute([task(i, *own, *arguments) for i, own in enumerate(self.pieces)])


@dataclass(frozen=True)
class ReadAndCall:
    """A task: read a partition, and call a function with its observations; None for these themselves."""

    reading: Reading
    function: Any

    def __call__(self, number: int, X: Any, y: Any, weights: Any, size: Any, noise: Any, *arguments: Any) -> Any:
        data = self.reading(number, X, y, weights, size, noise)
        return data if self.function is None else self.function(data, *arguments)


@dataclass(frozen=True)
class ScaledPartitions:
    """Partitions in the engine's units, known by what was summed over them in the user's; see `ScaledData`.

    `facts` are those of each partition, None for one without rows; `unit` is the weight of one observation, which
    `total` has for its unit, and the facts of partitions have not.
    """

    data: PartitionedObservations
    facts: Sequence[Facts | None]
    total: Facts
    scaling: Scaling
    likelihood: Likelihood
    unit: float = 1.0
    numbers: None = field(default=None, init=False)

    @cached_property
    def variance(self) -> float:
        mean, variance = (
            float(self.scaling.targets(self.total.y.mean)),
            float(self.total.y.variance / self.scaling.y_scale**2),
        )
        y, _, weights = self._some
        return without_outliers(variance or mean**2 or 1.0, self.likelihood, self.scaling.targets(y), weights)

    @property
    def spread(self) -> np.ndarray:
        return spread_of(self.total.X.variance / self.scaling.x_scale**2)

    @property
    def target_range(self) -> tuple[float, float]:
        low, high = self.scaling.targets(np.array([self.total.y_low, self.total.y_high]))
        return float(low), float(high)

    @property
    def floor(self) -> float:
        """The least known noise variance in the engine's units; see `usable_noise`."""
        return NOISE_FLOOR * self.variance

    @property
    def typical_noise(self) -> float | None:
        if self.total.noise is None:
            return None
        return max(float(self.total.noise.mean) / self.scaling.y_scale**2, self.floor)

    @property
    def noise_remarks(self) -> NoiseRemarks:
        lowest, variance = self.total.noise_low, self.variance * self.scaling.y_scale**2
        if lowest >= NOISE_FLOOR * variance:
            return NoiseRemarks()
        number = next(i for i, each in enumerate(self.facts) if each and each.noise_low == lowest)
        where = f"{lowest:.1g} in partition {number}"
        return remarks_of(where, where if lowest < NO_NOISE * variance else "", variance, self.total.n_rows)

    @property
    def _some(self) -> tuple[np.ndarray, ...]:
        """Targets in the user's units, sizes and weights of rows that stand for all."""
        known = [each.some for each in self.facts if each is not None]
        return tuple(np.concatenate(v) for v in zip(*known, strict=True))

    def level(self, likelihood: Likelihood) -> float:
        known = [each for each in self.facts if each is not None]
        if likelihood.starts_from_means:
            y, size, weights = (np.array(v) for v in zip(*(each.means for each in known), strict=True))
        else:
            y, size, weights = self._some
        return constant_start(likelihood, self.scaling.targets(y), size, weights)

    def on_link(self, likelihood: Likelihood) -> LinkScale:
        y, size, weights = self._some
        return LinkScale.of(likelihood, self.scaling.targets(y), size, weights)

    def differing(self) -> tuple[float, int | float, int | float]:
        values, weights = self.total.values
        median = weighted_quantile(values, 0.5, weights)
        return median, counted(np.isfinite(values), weights), counted(values != median, weights)

    def bind(self, mean: Mean, second_moment: float, level: float, *, on_link: bool) -> Mean:
        """The mean for two rows that stand for all: their columns have the same means and variances."""
        centre = self.scaling.inputs(self.total.X.mean)
        spread = np.sqrt(self.total.X.variance) / self.scaling.x_scale
        return mean.bind(np.vstack([centre - spread, centre + spread]), second_moment, level, on_link=on_link)

    def blocks(self, mean: Mean, executor: Executor, block_size: int | None) -> DaskBlocks:
        from dask import delayed

        is_raised = bool(self.noise_remarks.through_knots)
        scale = ScaleRows(self.scaling, mean, self.variance, is_raised, self.total.is_weighted, self.unit)
        kept = [i for i, each in enumerate(self.facts) if each is not None]
        sizes = [each.n_rows for each in self.facts if each is not None]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        make, sign = (
            delayed(ReadAndCall(self.data.reading, function), pure=False) for function in (scale, DigestOf(scale))
        )
        pieces = [(i, *self.data.pieces[i], number, int(starts[number])) for number, i in enumerate(kept)]
        parts, digests = ([task(*piece) for piece in pieces] for task in (make, sign))
        lazy = LazyRows(parts, digests, kept, starts, self._summary(), block_size)
        return DaskBlocks(lazy, executor)

    def _summary(self) -> RowSummary:
        total, scaling = self.total, self.scaling
        return RowSummary(
            total.n_rows,
            total.count,
            scaling.inputs(total.x_low),
            scaling.inputs(total.x_high),
            scaling.inputs(total.X.mean),
            total.X.variance / scaling.x_scale**2,
            total.is_weighted,
        )


@dataclass(frozen=True)
class ScaleRows:
    """The rows of a partition in the engine's units, with weights in units of one observation.

    `variance` is that of the targets. Where known noise of some rows `is_raised`, all have it as it was given, too.
    """

    scaling: Scaling
    mean: Mean
    variance: float
    is_raised: bool
    is_weighted: bool
    unit: float

    def __call__(self, data: Observations, number: int, start: int) -> Part:
        X, weights = self.scaling.inputs(data.X), data.weighted_in(self.unit).weights
        noise = given = None
        if data.noise is not None:
            noise, given = usable_noise(data.noise / self.scaling.y_scale**2, self.variance)
        if self.is_weighted and weights is None:
            weights = np.ones(len(X))
        rows = Rows(X, self.scaling.targets(data.y), noise, self.mean.basis(X), data.size, weights)
        return Part(number, start, replace(rows, given_noise=given) if self.is_raised else rows)


@dataclass(frozen=True)
class DigestOf:
    """What the rows of a partition are known by."""

    scale: ScaleRows

    def __call__(self, data: Observations, number: int, start: int) -> str:
        return digest(self.scale(data, number, start).rows)


def _scaling(total: Facts, standardize: str | bool, likelihood: Likelihood) -> Scaling:
    """Centre and scale of all rows, as `Scaling.of` has them of two rows with the same means and variances."""
    X, y = ([of.mean - np.sqrt(of.variance), of.mean + np.sqrt(of.variance)] for of in (total.X, total.y))
    if not np.isfinite([*X, *y][0]).all() or not np.isfinite(total.X.variance).all():
        raise InvalidInputError("The variance of a column of X or of y is no number. Use other units.")
    noise = None if total.noise is None else float(total.noise.mean)
    return Scaling.of(np.array(X), np.array(y), standardize, targets=likelihood.scales_targets, noise=noise)


def _tell(facts: Sequence[Facts | None]) -> None:
    """Warn of what was remarked in partitions: of the first, and in how many others there is something."""
    remarked = [(i, each.remarks[0]) for i, each in enumerate(facts) if each is not None and each.remarks]
    if remarked:
        (number, remark), n_more = remarked[0], len(remarked) - 1
        more = f" There is the like in {n_more} more partition{'s' if n_more > 1 else ''}." if n_more else ""
        warn(f"Partition {number}: {remark}{more}")


def _refuse_text_beside_numbers(known: Sequence[tuple[int, np.ndarray]]) -> None:
    """Refuse labels of different partitions that are not of one kind: joined, 1 would be "1", which is no label."""
    first, label = known[0][0], known[0][1].tolist()[0]
    for number, labels in known[1:]:
        other = labels.tolist()[0]
        if isinstance(other, str) != isinstance(label, str):
            raise InvalidInputError(
                f"Labels y are text in some partitions and numbers in others: {label!r} in partition {first}, "
                f"{other!r} in partition {number}. Make them all of one kind (`y.astype(str)`)."
            )


def _digest_of_pieces(X: Any, y: Any, weights: Any, size: Any, noise: Any) -> str:
    return digest(np.asarray(X), np.asarray(y), weights if np.ndim(weights) == 0 else np.asarray(weights))


def _joined(parts: Sequence[Observations]) -> Observations:
    """The observations of all partitions; weights of 1 where a partition has none."""
    weighted = any(part.weights is not None for part in parts)
    if weighted:
        parts = [part if part.weights is not None else replace(part, weights=np.ones(len(part))) for part in parts]
    columns = ([getattr(part, name) for part in parts] for name in ("X", "y", "noise", "size", "weights"))
    return Observations(*(None if values[0] is None else np.concatenate(values) for values in columns))  # type: ignore[arg-type]
