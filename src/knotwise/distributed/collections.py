"""Dask collections as lists of lazy partitions; what is none is told apart without importing Dask."""

from __future__ import annotations

from typing import Any

import numpy as np

from knotwise.errors import InvalidInputError
from knotwise.numerics.blocks import is_dask


def is_frame(given: Any) -> bool:
    """Whether a Dask collection is a data frame."""
    # a series has columns, too, and a `Delayed` has every attribute that its type has not
    return is_dask(given) and hasattr(type(given), "columns") and given.ndim == 2


def is_array(given: Any) -> bool:
    """Whether a Dask collection is an array."""
    return is_dask(given) and hasattr(type(given), "rechunk")


class Partitions:
    """The row partitions of X, and of whatever has one value for each of its rows, cut at the same places.

    `sizes` are the numbers of rows of the partitions, None where Dask does not know them.
    """

    def __init__(self, X: Any) -> None:
        if not is_dask(X):
            raise InvalidInputError(
                f"X is a {type(X).__name__}, but something else that was given is a Dask collection. Give X as a Dask "
                "array or data frame too, or compute the other (`.compute()`)."
            )
        if not is_frame(X):
            if not is_array(X):
                raise InvalidInputError(
                    f"X must be a Dask array [n, D] or a data frame, but is a {type(X).__name__} of Dask. Of a series "
                    "make a frame (`X.to_frame()`), of delayed values a collection (`da.from_delayed(...)`)."
                )
            if X.ndim != 2 or np.isnan(X.shape[1]):
                raise InvalidInputError(
                    "X must be a Dask array [n, D] with a known number of columns, or a data frame, but has shape "
                    f"{X.shape}.{' Write `X[:, None]` for one column.' if X.ndim == 1 else ''}"
                )
            X = X.rechunk({1: -1})
        self.X = X
        self.lazy = _partitions(X)
        known = not is_frame(X) and not np.isnan(X.chunks[0]).any()
        self.sizes = tuple(map(int, X.chunks[0])) if known else None

    def __len__(self) -> int:
        return len(self.lazy)

    @property
    def columns(self) -> list[Any] | None:
        """The names of the columns of a data frame."""
        return list(self.X.columns) if is_frame(self.X) else None

    @property
    def n_columns(self) -> int:
        return len(self.X.columns) if is_frame(self.X) else int(self.X.shape[1])

    def along(self, given: Any, name: str) -> list[Any]:
        """What belongs to each partition of something with one value for each row; a number or None is for all."""
        if given is None or (not is_dask(given) and np.ndim(given) == 0):
            return [given] * len(self)
        given = only_column(given, name)
        if not is_dask(given):
            return self._cut(given, name)
        if is_array(given) and given.ndim != 1:
            advice = f" Write `{name}[:, 0]`." if given.shape[1:] == (1,) else ""
            raise InvalidInputError(f"`{name}` must be one value for each row, but has shape {given.shape}.{advice}")
        if self.sizes is not None and is_array(given) and not np.isnan(given.shape[0]):
            if given.shape[0] != sum(self.sizes):
                raise InvalidInputError(f"X has {sum(self.sizes)} rows, but `{name}` has {given.shape[0]}.")
            given = given.rechunk({0: self.sizes})
        parts = _partitions(given)
        if len(parts) != len(self):
            raise InvalidInputError(
                f"X has {len(self)} partitions, but `{name}` has {len(parts)}, and Dask does not know how many rows "
                "they have. Take both from the same collection, or let Dask count: `X.to_dask_array(lengths=True)` of "
                "a data frame, `X.compute_chunk_sizes()` of an array."
            )
        return parts

    def _cut(self, given: Any, name: str) -> list[Any]:
        if self.sizes is None:
            raise InvalidInputError(
                f"`{name}` is a {type(given).__name__} in memory, and Dask does not know how many rows the partitions "
                f"of X have. Give `{name}` as a Dask collection with the same partitions."
            )
        values = np.asarray(given)
        if len(values) != sum(self.sizes):
            raise InvalidInputError(f"X has {sum(self.sizes)} rows, but `{name}` has {len(values)}.")
        return np.split(values, np.cumsum(self.sizes)[:-1])


def only_column(given: Any, name: str) -> Any:
    """What is given for each row: of a data frame of one column, that column."""
    if not is_frame(given):
        return given
    if len(given.columns) != 1:
        raise InvalidInputError(f"`{name}` is a data frame of {len(given.columns)} columns: give one column.")
    return given[given.columns[0]]


def has_origin_of(X: Any, series: Any) -> bool:
    """Whether Dask makes a series of what it makes a data frame of, and so of the same partitions."""
    return not is_array(series) and _origins(series) <= _origins(X)


def _origins(frame: Any) -> set[str]:
    return {each._name for each in frame.expr.walk() if not each.dependencies()}


def _partitions(given: Any) -> list[Any]:
    if is_array(given):
        return list(np.ravel(given.to_delayed()))
    # Dask would join partitions of few columns, so that X and y of one data frame were cut at different places; as it
    # is, they share the tasks that read them
    return list(given.to_delayed(optimize_graph=False))
