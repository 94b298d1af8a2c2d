"""Which rows are predicted together and from which others, and where rows lie, of which compact blocks are made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from typing import Any

import numpy as np

from knotwise.data.cell_text import is_iso_date
from knotwise.data.cells import as_dates, as_floats, is_category, kind_of, missing_in, raw_columns, some_rows
from knotwise.data.encoding.kinds import LonLat, labels_in
from knotwise.data.geometry import as_columns, geometry_of, has_geometry
from knotwise.data.validation import check_count
from knotwise.errors import InvalidInputError
from knotwise.numerics.columns import are_degrees, column_indices, named_pair

SEED = 0  # of compact blocks, the same for every model


@dataclass(frozen=True)
class Fold:
    """Rows that are predicted together, `test`, from all rows but those `left_out`; by their numbers, in order.

    Most folds leave out what they test. A splitter may leave out more, such as the rows near to those that it tests.
    """

    label: Any
    test: np.ndarray
    left_out: np.ndarray

    def train(self, n_rows: int) -> np.ndarray:
        """Numbers of the rows that predict."""
        kept = np.ones(n_rows, bool)
        kept[self.left_out] = False
        return np.flatnonzero(kept)


@dataclass(frozen=True)
class Folds(Sequence[Fold]):
    """The folds of a cross-validation, which test each row once.

    `made_of` are the coordinates of which compact blocks were made, in words; empty for blocks that were given.
    """

    each: tuple[Fold, ...]
    made_of: str = ""

    def __len__(self) -> int:
        return len(self.each)

    def __getitem__(self, index: Any) -> Any:
        return self.each[index]

    @cached_property
    def labels(self) -> np.ndarray:
        """The label of the fold that tests each row, [N]."""
        labels = np.empty(sum(len(fold.test) for fold in self), np.asarray([fold.label for fold in self]).dtype)
        for fold in self:
            labels[fold.test] = fold.label
        return labels


def folds_from(blocks: Any, places: Callable[[], Places], X: Any, y: np.ndarray) -> Folds:
    """The folds that `blocks` asks for; `places` says where the rows lie, for a number of compact blocks."""
    n_rows = len(y)
    if n_rows < 2:
        raise InvalidInputError(f"Cross-validation needs at least 2 rows, but X has {n_rows}.")
    if blocks is None:
        return Folds(tuple(Fold(row, np.array([row]), np.array([row])) for row in range(n_rows)))
    if isinstance(blocks, str):
        raise InvalidInputError(
            f"`blocks` is {blocks!r}; give the labels themselves, one for each row, such as table[{blocks!r}]."
        )
    if isinstance(blocks, Folds):
        if len(blocks.labels) != n_rows:
            raise InvalidInputError(
                f"`blocks` are those of a cross-validation of {len(blocks.labels)} rows, but X has {n_rows}. Blocks "
                "can be handed on to the same rows only."
            )
        return blocks
    if hasattr(blocks, "split") and not hasattr(blocks, "__array__"):
        return _of_pairs(blocks.split(X, y), n_rows)
    if not isinstance(blocks, Iterable):
        n_blocks, found = check_count(blocks, "blocks", least=2), places()
        return replace(_of_labels(_compact_blocks(found.points, n_blocks), n_rows), made_of=found.made_of)
    if not hasattr(blocks, "__array__"):
        blocks = list(blocks)
        if blocks and all(isinstance(each, Sequence) and len(each) == 2 and np.ndim(each[0]) == 1 for each in blocks):
            return _of_pairs(blocks, n_rows)
    return _of_labels(blocks, n_rows)


def _compact_blocks(points: np.ndarray, n_blocks: int) -> np.ndarray:
    """The block of each row: those of k-means, numbered from 0 in the order of their first coordinates.

    They are a function of the set of points alone: the seed is a constant, rows are taken in the order of their
    coordinates, and one thread adds them up.
    """
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    n_places = len(np.unique(points, axis=0))
    if n_blocks > n_places:
        raise InvalidInputError(
            f"`blocks` is {n_blocks}, but the rows are at {n_places} different places only. Ask for fewer blocks, or "
            "leave `blocks` out to leave out one row at a time."
        )
    order, labels = np.lexsort(points.T[::-1]), np.empty(len(points), int)
    with threadpool_limits(1):
        found = KMeans(n_blocks, n_init=10, random_state=SEED).fit_predict(points[order])
    first = np.unique(found, return_index=True)[1]
    labels[order] = first.argsort().argsort()[found]
    return labels


def _of_labels(labels: Any, n_rows: int) -> Folds:
    """One fold for each label, in the order of the labels."""
    labels = np.asarray(labels)
    if labels.shape != (n_rows,):
        raise InvalidInputError(
            f"`blocks` must have one label for each of the {n_rows} rows, but has shape {labels.shape}. A whole number "
            "asks for so many blocks, and None leaves out one row at a time."
        )
    missing = [row for row, label in enumerate(labels.tolist()) if str(label) in ("nan", "None", "NaT", "<NA>")]
    if missing:
        raise InvalidInputError(f"`blocks` has no label in row {missing[0]}. Give every row a label, or leave it out.")
    names, codes = np.unique(labels, return_inverse=True)
    if len(names) < 2:
        raise InvalidInputError(
            f"All rows have the label {names.tolist()[0]!r} in `blocks`: without this block no row is left to predict "
            "it from. Give at least 2 blocks."
        )
    tests = [np.flatnonzero(codes == code) for code in range(len(names))]
    return Folds(tuple(Fold(name, test, test) for name, test in zip(names.tolist(), tests, strict=True)))


def _of_pairs(pairs: Iterable[Any], n_rows: int) -> Folds:
    """Folds of a scikit-learn splitter, or of pairs (train, test) of row numbers."""
    folds, tested = [], np.zeros(n_rows, int)
    for number, (train, test) in enumerate(pairs):
        kept = np.zeros(n_rows, bool)
        kept[np.asarray(train, int)] = True
        test = np.unique(np.asarray(test, int))
        if not kept.any() or kept[test].any():
            what = "has no row to learn from" if not kept.any() else "tests rows that it has learned from"
            raise InvalidInputError(f"Split {number} of `blocks` {what}.")
        tested[test] += 1
        folds.append(Fold(number, test, np.flatnonzero(~kept)))
    for wrong, words in ((tested == 0, "no test set"), (tested > 1, "several test sets")):
        if wrong.any():
            raise InvalidInputError(
                f"Row {int(np.argmax(wrong))}{f' and {wrong.sum() - 1} more' if wrong.sum() > 1 else ''} of the "
                f"{n_rows} rows are in {words} of `blocks`; each row must be predicted once, as by KFold, GroupKFold "
                "or an array of labels."
            )
    return Folds(tuple(folds))


SPHERE = LonLat(("longitude", "latitude"), (0, 1))
DEGREES = ((-180, 360), (-90, 90))  # of longitude and latitude


@dataclass(frozen=True)
class Places:
    """The rows as points [N, q], between which distances count; `made_of` says of what, in words."""

    points: np.ndarray
    made_of: str


def places_of(X: Any, coords: Any = None) -> Places:
    """Where the rows of X lie, of what `cross_validate` takes as `coords`.

    Places have one scale for all coordinates, so that a map keeps its distances; longitude and latitude are points on
    the sphere. Where nobody knows a place, all columns are taken, each standardised by itself.
    """
    if coords is not None:
        return _given(X, coords)
    if has_geometry(X):
        return _of_geometry(X)
    columns, names = raw_columns(X)
    pair = None if names is None else named_pair(names)
    if names is not None and pair is not None:
        numbers = [_numbers(columns[i]) for i in pair]
        if all(values is not None for values in numbers):
            return _of_numbers(numbers, [names[i] for i in pair])
    return Places(np.hstack([_standardized(column) for column in columns]), "all columns")


def _given(X: Any, coords: Any) -> Places:
    """The places that a user gave: columns of X, or a table of their own."""
    n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
    on_sphere = False
    if isinstance(coords, list | tuple) and len(coords) == 2 and isinstance(coords[0], str) and coords[0] == "lonlat":
        on_sphere, coords = True, coords[1]
    elif isinstance(coords, str) and coords == "lonlat":
        return _of_degrees_in(X)
    if has_geometry(coords):
        _require_length(coords, n_rows)
        return _of_geometry(coords)
    if np.ndim(coords) == 1 and kind_of(coords) in "fM":  # places along one line, such as dates
        coords = coords.to_frame() if hasattr(coords, "to_frame") else np.asarray(coords)[:, None]
    if np.ndim(coords) == 2:
        _require_length(coords, n_rows)
        columns, names = raw_columns(coords)
        chosen = list(range(len(columns)))
    else:
        columns, names = raw_columns(as_columns(X))
        chosen = column_indices(coords, names, len(columns), owner="`coords`")
    if not chosen or len(set(chosen)) < len(chosen):
        raise InvalidInputError(
            f"`coords` is {coords!r:.80}; it must be different columns of X, such as ['x', 'y'] or [0, 1], or an array "
            "of places [N, d]."
        )
    called = [names[i] if names is not None else f"column {i}" for i in chosen]
    numbers = [_numbers(columns[i]) for i in chosen]
    for name, values in zip(called, numbers, strict=True):
        if values is None:
            raise InvalidInputError(f"`coords` names {name!r}, whose values are no numbers, so that it is no place.")
    return _of_numbers(numbers, called, on_sphere=on_sphere)


def _of_degrees_in(X: Any) -> Places:
    """Places on the sphere, of the columns of X that are called longitude and latitude, or of its only two."""
    columns, names = raw_columns(as_columns(X))
    pair = None if names is None else named_pair(names)
    if pair is None and len(columns) != 2:
        raise InvalidInputError(
            "`coords='lonlat'` needs to know which columns are longitude and latitude: write coords=('lonlat', "
            "[longitude, latitude]) with their names or numbers."
        )
    return _given(X, ("lonlat", list(pair or (0, 1))))


def _of_geometry(frame: Any) -> Places:
    """The points of a geopandas frame; those in degrees are on the sphere."""
    columns, _ = raw_columns(as_columns(frame, name="coords"))
    crs = geometry_of(frame).crs
    numbers = [_numbers(column) for column in columns[:2]]
    return _of_numbers(numbers, ["geometry"], on_sphere=crs is not None and crs.is_geographic)


def _of_numbers(numbers: Sequence[Any], names: Sequence[str], *, on_sphere: bool | None = None) -> Places:
    """Places of columns of numbers, on one scale; on the sphere where the names say that they are degrees."""
    at = np.column_stack(numbers)
    lacking = np.flatnonzero(~np.isfinite(at).all(1))
    if len(lacking):
        raise InvalidInputError(
            f"The coordinates of blocks ({', '.join(names)}) are not finite in {some_rows(lacking)}. Correct them, "
            "name other columns with `coords`, or give labels as `blocks`.",
            rows=lacking,
        )
    inside = at.shape[1] == 2 and all(
        low <= at[:, i].min() and at[:, i].max() <= high for i, (low, high) in enumerate(DEGREES)
    )
    if on_sphere and not inside:
        raise InvalidInputError(
            f"`coords` are longitude and latitude ({', '.join(names)}), but some are no degrees. Longitude comes "
            "first; coordinates of a map projection are given as they are, without 'lonlat'."
        )
    if on_sphere or (inside and are_degrees(names)):
        at = SPHERE.expand(at)
    low, high = at.min(0), at.max(0)
    reach = float((high - low).max()) or 1.0
    return Places((at - 0.5 * (low + high)) / reach, ", ".join(names))


def _require_length(coords: Any, n_rows: int) -> None:
    if len(coords) != n_rows:
        raise InvalidInputError(f"`coords` has {len(coords)} places, but X has {n_rows} rows. Give one for each.")


# -- columns ------------------------------------------------------------------------------------------


def _numbers(column: Any) -> np.ndarray | None:
    """A column of numbers, or of dates as microseconds, [N], NaN where one is missing; None for anything else."""
    if is_category(column):
        return None
    if kind_of(column) in "biuf":
        return as_floats(column, "A column")
    values = np.asarray(column, object)
    present = values[~missing_in(values)].tolist()
    try:
        if all(isinstance(value, date | np.datetime64) or is_iso_date(value) for value in present):
            return as_dates(column, "A column")[0]
        return None if any(isinstance(value, str) for value in present) else as_floats(column, "A column")
    except InvalidInputError:  # of which the model says what is wrong
        return None


def _standardized(column: Any) -> np.ndarray:
    """A column as coordinates [N, k]: numbers over their standard deviation, levels one by one as 0 and 1."""
    values = _numbers(column)
    if values is None:
        labels = np.array([label or "" for label in labels_in(column)], object)
        return (labels[:, None] == np.array(sorted(set(labels)), object)).astype(float)
    known = np.isfinite(values)
    if not known.any():
        return np.zeros((len(values), 1))
    ordered = np.sort(values[known])  # so that the order of the rows does not change a digit
    return np.where(known, (values - ordered.mean()) / (ordered.std() or 1.0), 0.0)[:, None]
