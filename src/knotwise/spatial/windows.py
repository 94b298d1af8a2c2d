"""Windows, regions and points as they are given: polygons with a coordinate reference system, and places."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from knotwise.data.geometry import as_columns, geometry_of, has_geometry, refuse_other_crs
from knotwise.data.validation import as_finite_numbers
from knotwise.errors import InvalidInputError, KnotwiseError, unknown_option
from knotwise.spatial.covariates import DIMENSIONS


@dataclass(frozen=True)
class Window:
    """A polygon, or several as one shape, and its coordinate reference system, if it is known."""

    shape: Any
    crs: str | None = None

    @property
    def bounds(self) -> tuple[float, float, float, float]:
        """West, south, east and north."""
        return self.shape.bounds


def window_of(given: Any, name: str = "window") -> Window:
    """A rectangle (west, south, east, north), a polygon, or the union of the polygons of a frame."""
    import shapely

    if has_geometry(given):
        shapes = np.asarray(geometry_of(given))
        _refuse_other_than_polygons(shapes, name)
        return Window(shapely.union_all(shapes), _crs(given))
    if isinstance(given, shapely.Geometry):
        _refuse_other_than_polygons(np.array([given], object), name)
        return Window(given)
    try:
        west, south, east, north = (float(side) for side in given)
    except (TypeError, ValueError):
        raise InvalidInputError(
            f"`{name}` is {given!r:.100}; it must be a rectangle (west, south, east, north), a polygon of shapely, or "
            "a GeoDataFrame or GeoSeries of polygons."
        ) from None
    if not (west < east and south < north and np.isfinite([west, south, east, north]).all()):
        raise InvalidInputError(
            f"`{name}` is {given!r:.100}; a rectangle is (west, south, east, north), with west < east and south < "
            "north."
        )
    return Window(shapely.box(west, south, east, north))


def _refuse_other_than_polygons(shapes: np.ndarray, name: str) -> None:
    import shapely

    if not len(shapes):
        raise InvalidInputError(f"`{name}` is a frame without rows. Give at least one polygon.")
    wrong = np.flatnonzero(~np.isin(shapely.get_type_id(shapes), (3, 6)))
    if len(wrong):
        what = "missing" if shapes[wrong[0]] is None else f"a {shapes[wrong[0]].geom_type}"
        raise InvalidInputError(f"`{name}` must be polygons, but a shape is {what} (row {wrong[0]}).", rows=wrong)
    broken = np.flatnonzero(~shapely.is_valid(shapes))
    if len(broken):
        reason = shapely.is_valid_reason(shapes[broken[0]])
        raise InvalidInputError(
            f"`{name}` has a polygon that is not valid (row {broken[0]}): {reason}. "
            "Repair it with `shapely.make_valid`, and look at the result.",
            rows=broken,
        )
    if not shapely.area(shapes).sum() > 0:
        raise InvalidInputError(f"`{name}` has no area.")


def regions_of(given: Any, by: str | None = None) -> tuple[list[Any], list[Window]]:
    """Labels and polygons of regions: rows of a frame, entries of a mapping or a list, or one shape ("all")."""
    import pandas as pd

    if has_geometry(given):
        if by is None:
            labels = list(given.index)
        elif by in getattr(given, "columns", ()):
            labels = list(given[by])
        else:
            raise unknown_option("`by`", by, map(str, getattr(given, "columns", ())))
        shapes = geometry_of(given)
        windows = [window_of(shapes.iloc[[i]], f"regions[{label!r}]") for i, label in enumerate(labels)]
    elif isinstance(given, Mapping):
        labels = list(given)
        windows = [window_of(shape, f"regions[{label!r}]") for label, shape in given.items()]
    elif isinstance(given, list) and not all(isinstance(side, int | float | np.number) for side in given):
        labels, windows = list(range(len(given))), [window_of(s, f"regions[{i}]") for i, s in enumerate(given)]
    else:
        labels, windows = ["all"], [window_of(given, "regions")]
    unnamed = np.flatnonzero([bool(pd.isna(label)) for label in labels])
    if len(unnamed):
        raise InvalidInputError(f"The region in row {unnamed[0]} has no label. Give it one, or drop it.")
    if not labels:
        raise InvalidInputError("`regions` is empty. Give at least one polygon.")
    twice = [label for label, number in Counter(labels).items() if number > 1]
    if twice:
        raise InvalidInputError(
            f"The label {twice[0]!r} stands for several regions. Dissolve them "
            "(`regions.dissolve(by=...)`), or name a column of distinct labels with `by`."
        )
    return labels, windows


def places_of(points: Any, name: str = "points") -> tuple[np.ndarray, str | None]:
    """Coordinates of points, [n, 2], and their coordinate reference system."""
    if has_geometry(points):
        return as_finite_numbers(as_columns(geometry_of(points), name=name), name), _crs(points)
    pairs = [pair for pair in DIMENSIONS if set(pair) <= set(getattr(points, "columns", ()))]
    if pairs:  # of a table its columns x and y, in this order
        points = points[list(pairs[0])]
    places = as_finite_numbers(points, name)
    if places.ndim != 2 or places.shape[1] != 2:
        raise InvalidInputError(
            f"`{name}` must have two columns, x and y, but has shape {places.shape}. Of a table these are the columns "
            "that are called x and y; a GeoDataFrame has points of its own."
        )
    return places, None


def _crs(frame: Any) -> str | None:
    crs = geometry_of(frame).crs
    return None if crs is None else crs.to_string()


def common_crs(crs: str | None, given: Any, what: str, whose: str) -> str | None:
    """The coordinate reference system of two things, one of which may not know it; two different ones are refused."""
    refuse_other_crs(crs, given, what, whose)
    return crs if crs is not None or not has_geometry(given) else _crs(given)


def refuse_degrees(crs: str | None, *, on_globe: bool = False) -> None:
    """Refuse longitudes and latitudes, of which there are no areas."""
    import pyproj

    if on_globe or (crs is not None and pyproj.CRS(crs).is_geographic):
        where = "" if crs is None else f" ({crs})"
        raise InvalidInputError(
            f"The map is in degrees{where}, and a square degree is not an area: it shrinks towards the poles. Project "
            "points and window first: `points.to_crs(points.estimate_utm_crs())`."
        )


def steps_of(given: Any, name: str) -> tuple[float, float]:
    """Width and height of cells, from one positive number or two."""
    try:
        width, height = (float(side) for side in (given if np.ndim(given) else (given, given)))
    except (TypeError, ValueError):
        width = height = np.nan
    if not (0 < width < np.inf and 0 < height < np.inf):
        raise InvalidInputError(
            f"`{name}` is {given!r}; it must be the side of a cell, or its width and height, in the units of the map."
        )
    return width, height


class MissingSpatialPackageError(KnotwiseError, ImportError):
    """geopandas, shapely or xarray is not installed."""


def require_spatial() -> None:
    """Import the packages, or say how to get them; called at the door of each public function."""
    try:
        import geopandas  # noqa: F401
        import shapely  # noqa: F401
        import xarray  # noqa: F401
    except ImportError as error:
        raise MissingSpatialPackageError(
            f"Point patterns and grids need geopandas, shapely and xarray, and {error.name} is not installed here. To "
            "have them: pip install 'knotwise[spatial]'"
        ) from error
