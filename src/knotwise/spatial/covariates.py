"""Covariates at places: from functions of x and y, from grids, from xarray, or one value for all places."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import date
from typing import Any

import numpy as np

from knotwise.data.cells import and_more
from knotwise.data.validation import as_numbers
from knotwise.errors import InvalidInputError

#: what the dimensions of a grid, and the coordinates of a table, may be called
DIMENSIONS = (("x", "y"), ("lon", "lat"), ("longitude", "latitude"), ("easting", "northing"))


def covariates_at(covariates: Any, x: np.ndarray, y: np.ndarray, levels: Collection[str] = ()) -> dict[str, np.ndarray]:
    """The value of each covariate at each place, [n] by name; NaN or None where a grid or a function has none.

    Those named in `levels` are categories: of a grid the nearest value is taken, and none between two.
    """
    if covariates is None:
        return {}
    if hasattr(covariates, "data_vars"):  # where a variable without dimensions describes the map
        covariates = {name: source for name, source in covariates.data_vars.items() if source.ndim}
    if not isinstance(covariates, Mapping):
        raise InvalidInputError(
            f"`covariates` is a {type(covariates).__name__}; it must be a dict of functions, grids or "
            "xarray.DataArrays by name, or an xarray.Dataset."
        )
    return {str(name): _values(str(name), source, x, y, str(name) in levels) for name, source in covariates.items()}


def refuse_gaps(known: dict[str, np.ndarray], x: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
    """The same covariates, if each has a value at every place."""
    for name, values in known.items():
        bad = np.flatnonzero(gaps_in(values))
        if len(bad):
            raise InvalidInputError(
                f"The covariate {name!r} has no value at ({x[bad[0]]:g}, {y[bad[0]]:g}){_more_places(len(bad))}. Give "
                "a grid that covers the window, or a smaller window.",
                places=np.column_stack([x[bad], y[bad]]),
            )
    return known


def gaps_in(values: np.ndarray) -> np.ndarray:
    """Where there is no value, [n]."""
    import pandas as pd

    return pd.isna(values) if values.dtype == object else ~np.isfinite(values)


def _values(name: str, source: Any, x: np.ndarray, y: np.ndarray, is_level: bool) -> np.ndarray:
    if callable(source) and not hasattr(source, "dims"):
        return _of_function(name, source, x, y)
    is_value = isinstance(source, bool | int | float | np.number | np.datetime64 | date)
    if is_value or (is_level and isinstance(source, str)):
        return np.full(len(x), source, None if isinstance(source, int | float | np.number) else object)
    grid = _as_grid(name, source)
    return _interpolated(grid, x, y, nearest=is_level or grid.dtype.kind not in "iuf")


def _of_function(name: str, function: Callable[..., Any], x: np.ndarray, y: np.ndarray) -> np.ndarray:
    given = function(x, y)
    try:
        values = as_numbers(given, f"covariates[{name!r}]")
    except InvalidInputError:  # levels or dates, which the model reads as those of a table
        values = np.asarray(given, object)
    values = np.full(len(x), values[()], values.dtype) if values.ndim == 0 else values
    if values.shape != x.shape:
        raise InvalidInputError(
            f"The covariate {name!r} is called with arrays of {len(x)} values x and y, and must return one value for "
            f"each, but returned shape {values.shape}."
        )
    return values


def _as_grid(name: str, source: Any) -> Any:
    """An xarray.DataArray with the dimensions y and x, or lat and lon, each of whose coordinates stands there once."""
    import xarray

    if isinstance(source, tuple) and len(source) == 3:
        x, y, values = (np.asarray(part) for part in source)
        if x.ndim != 1 or y.ndim != 1 or values.shape != (len(y), len(x)):
            raise InvalidInputError(
                f"The grid of the covariate {name!r} must be (x, y, values) with values [len(y), len(x)], but has "
                f"shapes {x.shape}, {y.shape} and {values.shape}."
            )
        source = xarray.DataArray(values, coords={"y": y, "x": x}, dims=("y", "x"))
    if not isinstance(source, xarray.DataArray):
        raise InvalidInputError(
            f"The covariate {name!r} is a {type(source).__name__}; it must be a function of x and y, a grid (x, y, "
            "values), an xarray.DataArray or one value for all places."
        )
    grid = source.squeeze(drop=True)
    for across, up in DIMENSIONS:
        if set(grid.dims) == {across, up} and across in grid.coords and up in grid.coords:
            break
    else:
        raise InvalidInputError(
            f"The covariate {name!r} has the dimensions {', '.join(map(str, source.dims))}; it must have x and y, with "
            "their coordinates. Rename them (`.rename(...)`) and choose one time or band (`.isel(...)`)."
        )
    for side in (across, up):
        centres = as_numbers(grid[side], f"{side} of the covariate {name!r}")
        if not np.isfinite(centres).all() or len(np.unique(centres)) < len(centres):
            raise InvalidInputError(
                f"The grid of the covariate {name!r} has a value of {side} that is missing, or stands there twice. "
                f"For the latter, `.drop_duplicates({side!r})`."
            )
    turn = 360.0 if across.startswith("lon") else None
    return grid.rename({across: "x", up: "y"}).assign_attrs(turn=turn)


def _interpolated(grid: Any, x: np.ndarray, y: np.ndarray, *, nearest: bool) -> np.ndarray:
    """Linear between the grid's centres; in its outermost half cells, and beside its gaps, the nearest value.

    With `nearest` it is the nearest value everywhere. Longitudes may be one turn away from those of the grid.
    """
    import xarray

    at = {}
    for side, places in (("x", x), ("y", y)):
        centres = np.sort(np.asarray(grid[side], float))
        half = np.diff(centres).max() / 2 if len(centres) > 1 else np.inf
        if side == "x" and grid.attrs["turn"]:
            turned = places + grid.attrs["turn"] * np.array([[0], [-1], [1]])
            beyond = np.abs(turned - np.clip(turned, centres[0], centres[-1]))
            places = np.take_along_axis(turned, beyond.argmin(0)[None], 0)[0]
        inside = np.clip(places, centres[0], centres[-1])
        # a hair beyond half a cell is rounding, not another place
        at[side] = xarray.DataArray(
            np.where(np.abs(places - inside) <= half * (1 + 1e-9), inside, np.nan), dims="place"
        )
    known = np.asarray(np.isfinite(at["x"]) & np.isfinite(at["y"]))
    values = np.full(len(x), np.nan, float if grid.dtype.kind in "iufb" else object)
    if known.any() and not nearest and all(grid.sizes[side] > 1 for side in ("x", "y")):
        where = {side: places[known] for side, places in at.items()}
        values[known] = np.asarray(grid.astype(float).interp(where), float)
    gaps = known & gaps_in(values)
    where = {side: places[gaps] for side, places in at.items()}
    values[gaps] = np.asarray(grid.sortby(["x", "y"]).sel(where, method="nearest"), values.dtype)
    return values


def _more_places(n_bad: int) -> str:
    return and_more(n_bad).replace("row", "place")
