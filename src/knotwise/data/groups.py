"""Rows that are added up by group: labels and weights are checked, and rows sorted so that their order is no matter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from knotwise.data.cells import and_more, is_missing
from knotwise.data.observations import sorted_order
from knotwise.data.validation import one_per_row, refuse_non_finite
from knotwise.errors import InvalidInputError
from knotwise.numerics.blocks import Executor, block_slices

#: distinct inputs whose samples are drawn together; it decides which random numbers they get, so it is always the same
PLACES_PER_BLOCK = 128
#: blocks whose sums wait for each other, so that memory does not grow with the rows
BLOCKS_AT_ONCE = 16


@dataclass(frozen=True)
class Groups:
    """The labels that there are, [G], and for each row which of them it has, [n]."""

    labels: np.ndarray
    codes: np.ndarray


def check_groups(given: Any, n_rows: int) -> Groups:
    """Labels of any one kind, one for each row; None is one group of all rows. Categories keep their order."""
    if given is None:
        return Groups(np.array(["all"]), np.zeros(n_rows, np.intp))
    categorical = getattr(given, "cat", given)  # of a column of pandas, or what pandas makes of categories
    if hasattr(categorical, "categories") and hasattr(categorical, "codes"):
        codes = np.asarray(categorical.codes, np.intp)
        _check_labels(codes < 0, codes, n_rows)
        present, codes = np.unique(codes, return_inverse=True)
        return Groups(np.asarray(categorical.categories)[present], codes)
    masked = np.ma.getmaskarray(given) if isinstance(given, np.ma.MaskedArray) else False
    # a list as objects: NumPy would make the string "nan" of a missing label among strings
    values = np.asarray(given, object if isinstance(given, list | tuple) else None)
    if values.dtype.kind not in "OfcmM":
        _check_labels(np.zeros(values.shape, bool) | masked, values, n_rows)
    else:
        missing = np.array([is_missing(value) for value in values.ravel().tolist()], bool)
        _check_labels(missing.reshape(values.shape) | masked, values, n_rows)
    try:
        labels, codes = np.unique(values, return_inverse=True)
    except TypeError:
        kinds = sorted({type(value).__name__ for value in values.tolist()})
        raise InvalidInputError(
            f"`groups` has labels of several kinds ({', '.join(kinds)}), which have no order. Make all of them strings."
        ) from None
    return Groups(np.asarray(labels.tolist()) if isinstance(given, list | tuple) else labels, codes)


def _check_labels(missing: np.ndarray, values: np.ndarray, n_rows: int) -> None:
    if values.shape != (n_rows,):
        raise InvalidInputError(
            f"`groups` must have one label for each of the {n_rows} rows, but has shape {values.shape}."
        )
    bad = np.flatnonzero(missing)
    if len(bad):
        raise InvalidInputError(
            f"`groups` has no label in row {bad[0]}{and_more(len(bad))}. Drop these rows, or give them a label.",
            rows=bad,
        )


def check_total_weights(given: Any, groups: Groups, statistic: str) -> np.ndarray:
    """How much each row counts in its total, [n]; those of averages have a positive sum in each group."""
    n_rows = len(groups.codes)
    if given is None:
        return np.ones(n_rows)
    weights = one_per_row(given, "weights", n_rows)
    refuse_non_finite(weights, "weights")
    if statistic == "mean":
        bad = np.flatnonzero(weights < 0)
        if len(bad):
            raise InvalidInputError(
                f"`weights` of an average must not be negative, but is {weights[bad[0]]:g} in row {bad[0]}"
                f"{and_more(len(bad))}. For differences of rows use `statistic='sum'`.",
                rows=bad,
            )
        empty = np.flatnonzero(np.bincount(groups.codes, weights, len(groups.labels)) == 0)
        if len(empty):
            raise InvalidInputError(
                f"All `weights` are zero in the group {groups.labels.tolist()[empty[0]]!r}, which so has no average. "
                "Drop its rows, or give one of them a weight."
            )
    return weights


@dataclass(frozen=True)
class GroupedRows:
    """Rows sorted by group, then by input, so that equal inputs of a group are one *place*, at which f is one number.

    `order` [n] are the rows in this order, in which `weights` and `size` [n] are. `places` [p, D] are the inputs in the
    engine's units; the rows of place j begin at `first_row[j]`, the places of group g at `first_place[g]`.
    """

    order: np.ndarray
    weights: np.ndarray
    size: np.ndarray
    places: np.ndarray
    first_row: np.ndarray
    first_place: np.ndarray

    @staticmethod
    def of(X: np.ndarray, groups: Groups, weights: np.ndarray, size: np.ndarray | float) -> GroupedRows:
        """Sort rows by all that is known of them, so that the order in which they come cannot matter."""
        size = np.broadcast_to(np.asarray(size, float), (len(X),))
        order = sorted_order([groups.codes, *X.T, size, weights])
        X, codes = X[order], groups.codes[order]
        new_group = np.append(True, codes[1:] != codes[:-1])
        new_place = new_group | np.append(True, (X[1:] != X[:-1]).any(1))
        first_row = np.flatnonzero(new_place)
        return GroupedRows(
            order,
            weights[order],
            size[order],
            X[first_row],
            np.append(first_row, len(X)),
            np.append(np.flatnonzero(new_group[first_row]), len(first_row)),
        )

    @property
    def n_groups(self) -> int:
        return len(self.first_place) - 1

    @property
    def group_rows(self) -> np.ndarray:
        """Where the rows of each group begin, and the end, [G + 1]."""
        return self.first_row[self.first_place]

    def sum_by_place(self, per_row: np.ndarray) -> np.ndarray:
        """Sums of sorted values [n] over the rows of each place, [p]."""
        return np.add.reduceat(per_row, self.first_row[:-1])

    def sum_by_group(self, per_row: np.ndarray) -> np.ndarray:
        """Sums of sorted values [n] over the rows of each group, [G]."""
        return np.add.reduceat(per_row, self.group_rows[:-1])

    def sums_of_blocks(
        self, work: Callable[[slice], np.ndarray], executor: Executor
    ) -> Iterator[tuple[slice, np.ndarray]]:
        """Sum what `work` gives for blocks of places, [places, m], and yield finished groups with their sums, [g, m].

        Blocks are added in their order, so that any number of threads gives the same bits; one that has ended a group
        is forgotten, so that memory does not grow with groups or rows.
        """
        group_of = np.repeat(np.arange(self.n_groups), np.diff(self.first_place))  # [p]
        blocks = block_slices(len(self.places), PLACES_PER_BLOCK)

        def sums(block: slice) -> tuple[int, np.ndarray]:
            codes = group_of[block]
            starts = np.flatnonzero(np.append(True, codes[1:] != codes[:-1]))
            return int(codes[0]), np.add.reduceat(work(block), starts, axis=0)

        first, open_sum = 0, np.zeros((1, 1))  # the group that may go on, and what it has so far
        for batch in block_slices(len(blocks), BLOCKS_AT_ONCE):
            for group, new in executor.map(sums, blocks[batch]):
                if group == first:
                    new[0] += open_sum[0]
                else:
                    yield slice(first, first + 1), open_sum
                last = group + len(new) - 1
                if last > group:
                    yield slice(group, last), new[:-1]
                first, open_sum = last, new[-1:].copy()
        yield slice(first, first + 1), open_sum
