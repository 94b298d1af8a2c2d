"""Frames of points at the public door: their coordinates and other columns, and the coordinate reference system.

geopandas is never imported here: what is one of its frames is told by its type.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from knotwise.data.cells import and_more
from knotwise.errors import InvalidInputError, warn

#: names of columns that are left out of a frame of points where they repeat its x or y
REPEATED = {"x": ("x", "lon", "longitude", "lng", "long", "easting"), "y": ("y", "lat", "latitude", "northing")}


def has_geometry(given: Any) -> bool:
    """Whether something is a GeoDataFrame or a GeoSeries."""
    return any(
        kind.__module__.partition(".")[0] == "geopandas" and kind.__name__ in ("GeoDataFrame", "GeoSeries")
        for kind in type(given).__mro__
    )


def crs_of(X: Any, coords: Any = None) -> str | None:
    """The coordinate reference system of a frame of points, in words such as "EPSG:27700"; None where it has none.

    Degrees that are not told to be places on the globe, by `coords`, are warned of: a degree of longitude is shorter
    than one of latitude, but for the equator.
    """
    crs = geometry_of(X).crs if has_geometry(X) else None
    if crs is None:
        return None
    if coords == "lonlat" and not crs.is_geographic:
        raise InvalidInputError(
            f"coords='lonlat' takes longitude and latitude, but the points are in a projection ({crs.to_string()}). "
            "Leave it out, or write `X.to_crs(4326)`; columns beside the points are named: coords=('lonlat', [...])."
        )
    if crs.is_geographic and coords is None:
        warn(
            f"The points are in degrees ({crs.to_string()}), so that distances mean different things in different "
            "directions. Use coords='lonlat', or project them first: `X = X.to_crs(X.estimate_utm_crs())`."
        )
    return crs.to_string()


def refuse_other_crs(known: str | None, given: Any, what: str, whose: str = "the model was fitted in") -> None:
    """Refuse a frame in another coordinate reference system than the known one, or in an unknown one."""
    if known is None or not has_geometry(given):
        return
    crs = geometry_of(given).crs
    if crs is not None and crs.equals(known, ignore_axis_order=True):  # of frames x comes first, whatever it says
        return
    found = "has no coordinate reference system" if crs is None else f"is in {crs.to_string()}"
    advice = f".set_crs({known!r})` if it is that" if crs is None else f".to_crs({known!r})`"
    raise InvalidInputError(f"{what} {found}, but {whose} {known}. Write `{what}{advice}.", crs=crs)


def as_columns(X: Any, crs: str | None = None, name: str = "X") -> Any:
    """The columns x and y of a frame of points, then its other columns; anything else is returned as it is.

    Further geometries are left out, and so are columns that are called as coordinates and repeat them. A frame in
    another coordinate reference system than `crs` is refused.
    """
    if not has_geometry(X):
        return X
    import pandas as pd

    refuse_other_crs(crs, X, name)
    points = geometry_of(X)
    _refuse_other_shapes(points, name)
    places = {"y": np.asarray(points.y), "x": np.asarray(points.x)}
    others = []
    for i, column in enumerate(getattr(X, "columns", ())):
        side = next((side for side, names in REPEATED.items() if str(column).lower() in names), None)
        if side is not None and _repeats(X.iloc[:, i], places[side]):
            continue
        if column in places:
            raise InvalidInputError(
                f"The column {column!r} differs from the {column} of the points, which has the same name. Rename it "
                "if it is a covariate, or drop it."
            )
        if X.dtypes.iloc[i].name != "geometry":
            others.append(i)
    table = pd.DataFrame(X.iloc[:, others] if others else None, index=X.index).copy()
    for side, values in places.items():
        table.insert(0, side, values)
    return table


def _repeats(column: Any, values: np.ndarray) -> bool:
    import pandas as pd

    return np.array_equal(np.asarray(pd.to_numeric(column, errors="coerce"), float), values, equal_nan=True)


def geometry_of(frame: Any) -> Any:
    """The active geometry of a frame, a GeoSeries."""
    try:
        return frame.geometry
    except AttributeError:
        raise InvalidInputError(
            "The GeoDataFrame has no active geometry, so that nobody knows where its rows are. Name the column with "
            "it: `.set_geometry('...')`."
        ) from None


def _refuse_other_shapes(points: Any, name: str) -> None:
    kinds = np.asarray(points.geom_type, object)
    other = np.flatnonzero(kinds != "Point")
    if len(other):
        kind = kinds[other[0]]
        found = f"is a {kind}" if isinstance(kind, str) else "is missing"
        raise InvalidInputError(
            f"The geometry of {name} must be points, but {found} in row {other[0]}{and_more(len(other))}. For areas "
            f"take a point of each, `{name}.set_geometry({name}.representative_point())`; drop rows without one.",
            rows=other,
        )
    high = np.flatnonzero(np.asarray(points.has_z))
    if len(high):
        raise InvalidInputError(
            f"The point in row {high[0]}{and_more(len(high))} has a height, z. Put it in a column if it is to count, "
            f"and leave the geometry flat: `{name}.set_geometry({name}.force_2d())`.",
            rows=high,
        )
