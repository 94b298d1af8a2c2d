"""Which rows are predicted together, and which rows they are predicted from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from knotwise.crossvalidation.places import Places
from knotwise.data.validation import check_count
from knotwise.errors import InvalidInputError

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
