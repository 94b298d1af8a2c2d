"""Columns of the inputs by number or by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from knotwise.errors import InvalidInputError, unknown_option

__all__ = ["as_list_of_columns", "column_indices"]


def as_list_of_columns(columns: Any) -> list[int | str]:
    """The columns that a user named: one of them, or several."""
    return [columns] if isinstance(columns, str) or np.ndim(columns) == 0 else list(columns)


def column_indices(columns: Any, names: Sequence[str] | None, n_columns: int, *, owner: str) -> list[int]:
    """Numbers of columns that a user gave by number or name, for data with these names; `owner` says whose they are."""
    known = list(names) if names is not None else []
    indices = []
    for column in as_list_of_columns(columns):
        if isinstance(column, str):
            if not known:
                raise InvalidInputError(
                    f"Column {column!r} is named, but the data have no column names. "
                    "Fit on a data frame or give the column's index."
                )
            if column not in known:
                raise unknown_option(f"A column of {owner}", column, known)
            indices.append(known.index(column))
        elif int(column) != column or not -n_columns <= column < n_columns:
            raise InvalidInputError(f"Column {column} of {owner} does not exist: the data have {n_columns}.")
        else:
            indices.append(int(column) % n_columns)
    return indices
