"""Covariates at places: from functions of x and y, from grids, or from xarray."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from knotwise.errors import InvalidInputError, nearest
from knotwise.estimators.numbers import and_more, as_numbers

__all__ = ["covariates_at", "inputs_at"]

#: what the dimensions of a grid may be called
DIMENSIONS = (("x", "y"), ("lon", "lat"), ("longitude", "latitude"), ("easting", "northing"))


def covariates_at(covariates: Any, x: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
    """The value of each covariate at each place, [n] by name."""
    if covariates is None:
        return {}
    named = dict(covariates.data_vars) if hasattr(covariates, "data_vars") else covariates
    if not isinstance(named, Mapping):
        raise InvalidInputError(
            f"`covariates` is a {type(covariates).__name__}; it must be a dict of functions, grids or "
            "xarray.DataArrays by name, or an xarray.Dataset."
        )
    return {str(name): _values(str(name), source, x, y) for name, source in named.items()}


def _values(name: str, source: Any, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if callable(source) and not hasattr(source, "dims"):
        values = _of_function(name, source, x, y)
    else:
        values = _interpolated(name, _as_grid(name, source), x, y)
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise InvalidInputError(
            f"The covariate {name!r} has no value at ({x[bad[0]]:g}, {y[bad[0]]:g}){_more_places(len(bad))}. Give a "
            "grid that covers the window, or a smaller window.",
            places=np.column_stack([x[bad], y[bad]]),
        )
    return values


def _of_function(name: str, function: Callable[..., Any], x: np.ndarray, y: np.ndarray) -> np.ndarray:
    values = as_numbers(function(x, y), f"covariates[{name!r}]")
    values = np.full(len(x), float(values)) if values.ndim == 0 else values
    if values.shape != x.shape:
        raise InvalidInputError(
            f"The covariate {name!r} is called with arrays of {len(x)} values x and y, and must return one value for "
            f"each, but returned shape {values.shape}."
        )
    return values


def _as_grid(name: str, source: Any) -> Any:
    """An xarray.DataArray with the dimensions y and x."""
    import xarray

    if isinstance(source, tuple) and len(source) == 3:
        x, y, values = (as_numbers(part, f"covariates[{name!r}]") for part in source)
        if x.ndim != 1 or y.ndim != 1 or values.shape != (len(y), len(x)):
            raise InvalidInputError(
                f"The grid of the covariate {name!r} must be (x, y, values) with values [len(y), len(x)], but has "
                f"shapes {x.shape}, {y.shape} and {values.shape}."
            )
        return xarray.DataArray(values, coords={"y": y, "x": x}, dims=("y", "x"))
    if not isinstance(source, xarray.DataArray):
        raise InvalidInputError(
            f"The covariate {name!r} is a {type(source).__name__}; it must be a function of x and y, a grid (x, y, "
            "values) or an xarray.DataArray."
        )
    grid = source.squeeze(drop=True)
    for across, up in DIMENSIONS:
        if set(grid.dims) == {across, up} and across in grid.coords and up in grid.coords:
            return grid.rename({across: "x", up: "y"}) if across != "x" else grid
    raise InvalidInputError(
        f"The covariate {name!r} has the dimensions {', '.join(map(str, source.dims))}; it must have x and y, with "
        "their coordinates. Rename them (`.rename(...)`) and choose one time or band (`.isel(...)`)."
    )


def _interpolated(name: str, grid: Any, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Linear between the grid's centres; in its outermost half cells, and beside its gaps, the nearest value."""
    import xarray

    at = {}
    for side, places in (("x", x), ("y", y)):
        centres = np.sort(np.asarray(grid[side], float))
        half = np.diff(centres).max() / 2 if len(centres) > 1 else np.inf
        inside = np.clip(places, centres[0], centres[-1])
        # a hair beyond half a cell is rounding, not another place
        at[side] = xarray.DataArray(
            np.where(np.abs(places - inside) <= half * (1 + 1e-9), inside, np.nan), dims="place"
        )
    known = np.isfinite(at["x"]) & np.isfinite(at["y"])
    values = np.full(len(x), np.nan)
    where = {side: places[known] for side, places in at.items()}
    if all(grid.sizes[side] > 1 for side in ("x", "y")):
        values[known] = np.asarray(grid.astype(float).interp(where), float)
    gaps = np.asarray(known) & ~np.isfinite(values)
    where = {side: places[gaps] for side, places in at.items()}
    values[gaps] = np.asarray(grid.sortby(["x", "y"]).sel(where, method="nearest"), float)
    return values


def inputs_at(gp: Any, x: np.ndarray, y: np.ndarray, covariates: Any) -> Any:
    """Rows at places for a fitted model: its columns x and y, or else the first two, and covariates for the others."""
    import pandas as pd

    if gp.n_features_in_ < 2:
        raise InvalidInputError("A map needs two columns, x and y, and the model has one.")
    known = covariates_at(covariates, x, y)
    names = getattr(gp, "feature_names_in_", None)
    if names is None:
        if 2 + len(known) != gp.n_features_in_:
            raise InvalidInputError(
                f"The model has {gp.n_features_in_} columns: x, y and {gp.n_features_in_ - 2} more, in this order, but "
                f"`covariates` has {len(known)}. Fit to a data frame, so that columns have names, or give as many."
            )
        return np.column_stack([x, y, *known.values()])
    across, up = coordinate_columns(names)
    columns = known | {across: x, up: y}
    missing, needless = [n for n in names if n not in columns], [n for n in known if n not in names]
    if missing or needless:
        wrong = (missing or needless)[0]
        near = nearest(wrong, needless if missing else names)
        raise InvalidInputError(
            f"The model has the columns {', '.join(map(repr, names))}, of which {across!r} and {up!r} are the "
            f"coordinates; "
            + (f"`covariates` has no {wrong!r}." if missing else f"it has no covariate {wrong!r}.")
            + (f" Did you mean {near!r}?" if near else "")
        )
    return pd.DataFrame({name: columns[name] for name in names})


def coordinate_columns(names: Any) -> tuple[str, str]:
    """The columns with the coordinates: x and y by name, or else the first two."""
    across, up = ("x", "y") if {"x", "y"} <= set(names) else (names[0], names[1])
    return across, up


def _more_places(n_bad: int) -> str:
    return and_more(n_bad).replace("row", "place")
