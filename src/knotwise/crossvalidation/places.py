"""Where rows lie, as points of which compact blocks are made: a matter of the rows, never of a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np

from knotwise.data.cell_text import is_iso_date
from knotwise.data.cells import as_dates, as_floats, is_category, kind_of, missing_in, raw_columns, some_rows
from knotwise.data.encoding.kinds import LonLat, labels_in
from knotwise.data.geometry import as_columns, geometry_of, has_geometry
from knotwise.errors import InvalidInputError
from knotwise.numerics.columns import are_degrees, column_indices, named_pair

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
