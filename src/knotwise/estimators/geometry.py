"""Frames of points at the public door: their coordinates and numeric columns, and the coordinate reference system.

geopandas is never imported here: what is one of its frames is told by its type.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from knotwise.errors import InvalidInputError, warn
from knotwise.estimators.numbers import and_more

__all__ = ["as_columns", "crs_of", "has_geometry", "refuse_other_crs"]


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
    crs = _geometry(X).crs if has_geometry(X) else None
    if crs is None:
        return None
    if crs.is_geographic and coords is None:
        warn(
            f"The points are in degrees ({crs.to_string()}), so that distances mean different things in different "
            "directions. Use coords='lonlat', or project them first: `X = X.to_crs(X.estimate_utm_crs())`."
        )
    return crs.to_string()


def refuse_other_crs(known: str | None, given: Any, what: str, whose: str = "the model was fitted in") -> None:
    """Refuse a frame in another coordinate reference system than the known one, or in an unknown one."""
    if known is None or not has_geometry(given) or _geometry(given).crs == known:
        return
    crs = _geometry(given).crs
    found = "has no coordinate reference system" if crs is None else f"is in {crs.to_string()}"
    advice = f".set_crs({known!r})` if it is that" if crs is None else f".to_crs({known!r})`"
    raise InvalidInputError(f"{what} {found}, but {whose} {known}. Write `{what}{advice}.", crs=crs)


def as_columns(X: Any, crs: str | None = None) -> Any:
    """The columns x and y of a frame of points, then its numeric columns; anything else is returned as it is.

    Columns that are no numbers are left out, and so are columns `x` and `y` that repeat the coordinates. A frame in
    another coordinate reference system than `crs` is refused.
    """
    if not has_geometry(X):
        return X
    import pandas as pd

    refuse_other_crs(crs, X, "X")
    points = _geometry(X)
    _refuse_other_shapes(points)
    columns = {"x": np.asarray(points.x), "y": np.asarray(points.y)}
    if hasattr(X, "columns"):
        for name, dtype in zip(X.columns, X.dtypes, strict=True):
            if getattr(dtype, "kind", "O") not in "biuf":
                continue
            if name in columns and not np.array_equal(columns[name], np.asarray(X[name], float)):
                raise InvalidInputError(
                    f"The column {name!r} differs from the {name} of the points, which has the same name. Rename it "
                    "if it is a covariate, or drop it."
                )
            columns.setdefault(name, X[name].to_numpy())
    return pd.DataFrame(columns, index=X.index)


def _geometry(frame: Any) -> Any:
    try:
        return frame.geometry
    except AttributeError:
        raise InvalidInputError(
            "The GeoDataFrame has no active geometry, so that nobody knows where its rows are. Name the column of "
            "points: `X.set_geometry('...')`."
        ) from None


def _refuse_other_shapes(points: Any) -> None:
    kinds = np.asarray(points.geom_type, object)
    other = np.flatnonzero(kinds != "Point")
    if len(other):
        kind = kinds[other[0]]
        found = f"is a {kind}" if isinstance(kind, str) else "is missing"
        raise InvalidInputError(
            f"X must be points, but the geometry {found} in row {other[0]}{and_more(len(other))}. For areas take a "
            "point of each, `X.set_geometry(X.representative_point())`; drop rows without one.",
            rows=other,
        )
    high = np.flatnonzero(np.asarray(points.has_z))
    if len(high):
        raise InvalidInputError(
            f"The point in row {high[0]}{and_more(len(high))} has a height, z. Put it in a column if it is to count, "
            "and leave the geometry flat: `X.set_geometry(X.force_2d())`.",
            rows=high,
        )
