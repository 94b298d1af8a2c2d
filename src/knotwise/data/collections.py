"""Dask collections at the public door: they become partitions that are read where they are."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from knotwise.data.numbers import refuse_repeated_names
from knotwise.data.partitions import PartitionedObservations
from knotwise.data.reading import IN_MEMORY, LEVELS_AS_NUMBERS, Reading
from knotwise.data.validation import size_given
from knotwise.distributed.collections import Partitions, is_frame
from knotwise.distributed.places import place_for
from knotwise.errors import InvalidInputError
from knotwise.likelihoods.base import Likelihood
from knotwise.numerics.blocks import Serial

__all__ = ["check_columns", "read_collections", "refuse_neighbours"]

#: options that encode columns, with their defaults and what can be done instead
INSTEAD = {
    "categorical": ("auto", LEVELS_AS_NUMBERS),
    "missing": ("error", "Fill the gaps first (`X.fillna(X.mean())`)"),
    "coords": (None, "Project the places to a plane first, in kilometres"),
    "periods": (None, "Add cosine and sine of the column as columns"),
}
DAYS = "Count days since a first date (`(X[...] - first).dt.days`)"


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
    for column, dtype in X._meta.dtypes.items() if is_frame(X) else ():
        is_category = str(dtype) == "category"
        if is_category or getattr(dtype, "kind", "O") in "mM":
            what, instead = ("levels of a category", LEVELS_AS_NUMBERS) if is_category else (f"dates ({dtype})", DAYS)
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
