"""Dask collections as lists of lazy partitions; what is none is told apart without importing Dask."""

from __future__ import annotations

from typing import Any

import numpy as np

from knotwise.errors import InvalidInputError

__all__ = ["Partitions", "is_dask", "is_frame"]


def is_dask(given: Any) -> bool:
    """Whether something is an array, a data frame or a series of Dask."""
    kind = type(given)
    return kind.__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(given, "to_delayed")


def is_frame(given: Any) -> bool:
    """Whether a Dask collection is a data frame."""
    return is_dask(given) and hasattr(given, "columns") and given.ndim == 2  # a series has columns, too


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
            if getattr(X, "ndim", 0) != 2 or np.isnan(X.shape[1]):
                raise InvalidInputError(
                    f"X must be a Dask array [n, D] with a known number of columns, or a data frame, but has shape "
                    f"{getattr(X, 'shape', 'unknown')}."
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
        if is_frame(given):
            if len(given.columns) != 1:
                raise InvalidInputError(f"`{name}` is a data frame of {len(given.columns)} columns: give one column.")
            given = given[given.columns[0]]
        if not is_dask(given):
            return self._cut(given, name)
        if self.sizes is not None and hasattr(given, "rechunk") and not np.isnan(given.shape[0]):
            if given.shape[0] != sum(self.sizes):
                raise InvalidInputError(f"X has {sum(self.sizes)} rows, but `{name}` has {given.shape[0]}.")
            given = given.rechunk({0: self.sizes})
        parts = _partitions(given)
        if len(parts) != len(self):
            raise InvalidInputError(
                f"X has {len(self)} partitions, but `{name}` has {len(parts)}, and Dask does not know how many rows "
                "they have. Take both from the same collection, or let Dask count (`X.compute_chunk_sizes()`)."
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


def _partitions(given: Any) -> list[Any]:
    if hasattr(given, "rechunk"):
        return list(np.ravel(given.to_delayed()))
    # Dask would join partitions of few columns, so that X and y of one data frame were cut at different places; as it
    # is, they share the tasks that read them
    return list(given.to_delayed(optimize_graph=False))
