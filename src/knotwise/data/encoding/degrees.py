"""Which columns are longitude and latitude, and a warning where degrees are taken for plain numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from knotwise.data.encoding.cells import as_floats, kind_of, raw_columns
from knotwise.errors import InvalidInputError, warn

__all__ = ["place_columns", "warn_of_degrees"]

LON_NAMES, LAT_NAMES = ("lon", "longitude", "lng", "long"), ("lat", "latitude")
HIGH_LATITUDE = 45.0  # where a degree of longitude is 0.7 of one of latitude


def place_columns(coords: Any, features: tuple[str, ...] | None, n_columns: int, indices: Any) -> list[int]:
    """The columns of longitude and latitude; none where no coordinates are asked for."""
    if coords is None:
        return []
    kind, given = coords if isinstance(coords, list | tuple) and len(coords) == 2 else (coords, None)
    if kind != "lonlat":
        raise InvalidInputError(
            f"`coords` is {coords!r}; it must be None, 'lonlat', or ('lonlat', [longitude, latitude]) with the names "
            "or numbers of two columns."
        )
    if given is not None:
        found = indices(given, "`coords`")
        if len(found) == 2 and found[0] != found[1]:
            return found
        raise InvalidInputError(f"`coords` names {given!r}; it must name two columns, longitude and latitude.")
    found = _degrees_by_name(features)
    if len(found) == 2:
        return found
    if (n_columns == 2 and features is None) or (features is not None and features[:2] == ("x", "y")):
        return [0, 1]  # x and y of a frame of points come first
    raise InvalidInputError(
        "`coords='lonlat'` needs to know which columns are longitude and latitude: name them lon and lat, or write "
        "coords=('lonlat', [longitude, latitude]) with their names or numbers."
    )


def _degrees_by_name(features: tuple[str, ...] | None) -> list[int]:
    """The columns that are called longitude and latitude, in this order; others have no names of their own."""
    lowered = [] if features is None else [name.strip().lower() for name in features]
    called = [next((name for name in names if name in lowered), None) for names in (LON_NAMES, LAT_NAMES)]
    return [lowered.index(name) for name in called if name is not None]


def warn_of_degrees(X: Any) -> None:
    """Say so where columns are degrees far from the equator, where a degree of longitude is short."""
    if not hasattr(X, "columns") and not hasattr(X, "column_names"):
        return
    columns, names = raw_columns(X)
    found = [] if names is None else _degrees_by_name(tuple(names))
    if names is None or len(found) < 2 or any(kind_of(columns[i]) not in tuple("iuf") for i in found):
        return
    lon, lat = (as_floats(columns[i], names[i]) for i in found)
    lon, lat = lon[np.isfinite(lon)], lat[np.isfinite(lat)]
    if not len(lat) or not len(lon) or np.abs(lat).max() > 90 or lon.min() < -180 or lon.max() > 360:
        return
    typical = float(np.median(np.abs(lat)))
    if typical > HIGH_LATITUDE:
        lon_name, lat_name = (names[i] for i in found)
        warn(
            f"The columns {lon_name!r} and {lat_name!r} are taken for plain numbers, but look like degrees: at "
            f"latitude {typical:.0f} a degree of longitude is {np.cos(np.radians(typical)):.2f} of one of latitude, so "
            "distances are wrong. Use coords='lonlat' for distances on the sphere, or a map projection such as UTM."
        )
