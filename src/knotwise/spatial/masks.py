"""Which places of a grid are shown: those in a region, and those near the data."""

from __future__ import annotations

import numpy as np

from knotwise.data.encoding.kinds import LonLat
from knotwise.errors import InvalidInputError
from knotwise.spatial.windows import Window

__all__ = ["inside", "within"]


def inside(window: Window, places: np.ndarray) -> np.ndarray:
    """Which places lie in a window or on its border, [n]."""
    import shapely

    shapely.prepare(window.shape)
    return shapely.intersects_xy(window.shape, *places.T)


def within(distance: float, data: np.ndarray, places: np.ndarray, sphere: LonLat | None = None) -> np.ndarray:
    """Which places have a datum at most this far away, [n]; on a `sphere` by chords, in kilometres."""
    from scipy.spatial import KDTree

    if not (isinstance(distance, int | float | np.number) and 0 < distance < np.inf):
        raise InvalidInputError(f"`max_distance` is {distance!r}; it must be a positive distance on the map.")
    if not len(data):
        raise InvalidInputError("`data` has no rows, so that nothing is near them.")
    if sphere is not None:
        data, places = sphere.expand(data), sphere.expand(places)
    nearest = KDTree(data).query(places, distance_upper_bound=np.nextafter(distance, np.inf))[0]
    return nearest <= distance
