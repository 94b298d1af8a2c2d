"""A window cut into cells: clipped at its border, with exact areas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from knotwise.errors import TooLargeError
from knotwise.spatial.windows import Window

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
