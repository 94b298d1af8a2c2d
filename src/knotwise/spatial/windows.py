"""Windows, regions and points as they are given, and windows cut into cells: clipped, with exact areas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from knotwise.data.geometry import as_columns, geometry_of, has_geometry, refuse_other_crs
from knotwise.data.validation import as_finite_numbers
from knotwise.errors import InvalidInputError, KnotwiseError, TooLargeError, unknown_option
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


MOST_CELLS = 2_000_000
#: share of a whole cell below which a clipped one is rounding
CRUMB = 1e-12


@dataclass(frozen=True)
class Pieces:
    """The parts of a grid's cells that lie in a window, [n] each; `x` and `y` are a point in each, its centroid if that
    lies in it. `across` and `up` are the edges of the grid, `number` [up, across] which piece a cell is, -1 for none.
    """

    shapes: np.ndarray
    area: np.ndarray
    x: np.ndarray
    y: np.ndarray
    across: np.ndarray
    up: np.ndarray
    number: np.ndarray

    def piece_of(self, places: np.ndarray) -> np.ndarray:
        """Which piece each place in the window is in, [n]; on an edge that two share, the right or the upper one."""
        column, row = (
            np.clip(np.searchsorted(edges, at, side="right") - 1, 0, len(edges) - 2)
            for edges, at in zip((self.across, self.up), places.T, strict=True)
        )
        piece = self.number[row, column]
        lost = np.flatnonzero(piece < 0)  # on the window's border, where it touches a cell that has no area in it
        if len(lost):
            import shapely

            piece[lost] = shapely.STRtree(self.shapes).nearest(shapely.points(places[lost]))
        return piece


def edges_along(low: float, high: float, step: float) -> np.ndarray:
    """Edges of cells of one width from `low` up to at least `high`, but for rounding."""
    n_cells = max(1, int(np.ceil((high - low) / step - 1e-9)))
    edges = low + step * np.arange(n_cells + 1)
    edges[-1] = max(edges[-1], high)
    return edges


def cut(window: Window, cell: tuple[float, float]) -> Pieces:
    """Cut a window into cells of this width and height, from its south-west corner on."""
    import shapely

    west, south, east, north = window.bounds
    n_cells = np.ceil((east - west) / cell[0]) * np.ceil((north - south) / cell[1])
    if n_cells > MOST_CELLS:
        raise TooLargeError(
            f"Cells of {cell[0]:g} x {cell[1]:g} would be {n_cells:,.0f}, more than {MOST_CELLS:,}. Take larger ones; "
            "`knotwise.spatial.choose_cell` says how fine they should be."
        )
    across, up = edges_along(west, east, cell[0]), edges_along(south, north, cell[1])
    left, bottom = (grid.ravel() for grid in np.meshgrid(across[:-1], up[:-1]))
    right, top = (grid.ravel() for grid in np.meshgrid(across[1:], up[1:]))
    shapes = shapely.box(left, bottom, right, top)
    area = (right - left) * (top - bottom)
    shapely.prepare(window.shape)
    clipped = np.flatnonzero(~shapely.covers(window.shape, shapes))
    shapes[clipped] = _polygons_of(shapely.intersection(shapes[clipped], window.shape))
    area[clipped] = shapely.area(shapes[clipped])
    kept = np.flatnonzero(area > CRUMB * cell[0] * cell[1])
    number = np.full(len(shapes), -1)
    number[kept] = np.arange(len(kept))
    shapes = shapes[kept]
    x, y = shapely.get_coordinates(_inner_points(shapes)).T
    return Pieces(shapes, area[kept], x, y, across, up, number.reshape(len(up) - 1, len(across) - 1))


def _polygons_of(shapes: np.ndarray) -> np.ndarray:
    """Shapes without the points and lines in which two polygons may touch."""
    import shapely

    mixed = np.flatnonzero(shapely.get_type_id(shapes) == 7)
    for i in mixed:
        parts = shapely.get_parts(shapes[i])
        shapes[i] = shapely.union_all(parts[shapely.get_dimensions(parts) == 2])
    return shapes


def _inner_points(shapes: np.ndarray) -> Any:
    """The centroid of each shape, or another of its points where that lies outside."""
    import shapely

    points = shapely.centroid(shapes)
    outside = ~shapely.contains_xy(shapes, shapely.get_x(points), shapely.get_y(points))
    points[outside] = shapely.point_on_surface(shapes[outside])
    return points
