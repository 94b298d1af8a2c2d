"""From a point pattern to counts in cells, for a model of counts, and from a model to totals over regions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from knotwise.data.exposure import is_needed
from knotwise.errors import InvalidInputError, warn
from knotwise.spatial.covariates import covariates_at, refuse_gaps
from knotwise.spatial.models import check_model, inputs_at, levels_of, sphere_of
from knotwise.spatial.windows import (
    common_crs,
    cut,
    places_of,
    refuse_degrees,
    regions_of,
    require_spatial,
    steps_of,
    window_of,
)

if TYPE_CHECKING:
    from knotwise.estimators.totals import Totals


#: columns of the tables of cells
OWN_COLUMNS = {"x", "y", "count", "area", "intensity", "geometry"}


@dataclass(frozen=True, eq=False)
class Cells:
    """A window in cells, and how many points are in each; what `count_points` returns.

    Fit with `gp.fit(cells.X, cells.count, exposure=cells.area)`.

    Attributes
    ----------
    X : GeoDataFrame [n, 3 + covariates]
        A point in each cell (the centroid of its part of the window, if that lies in it), with the columns `x`, `y` and
        the covariates there; an estimator takes it as it is.
    count : array [n]
        Points in each cell.
    area : array [n]
        Area of each cell in the window, in the square of the map's unit: the exposure of its count.
    shapes : array [n] of polygons
        The cells, clipped at the window's border.
    cell : tuple of float
        Width and height of a whole cell.
    crs : str or None
        Coordinate reference system of points and window.
    n_outside : int
        Points outside the window, which were not counted.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise.spatial import count_points
    >>> cells = count_points(np.random.default_rng(0).uniform(size=(50, 2)), (0, 0, 1, 1), cell=0.5)
    >>> int(cells.count.sum()), cells.area.tolist()
    (50, [0.25, 0.25, 0.25, 0.25])
    >>> [str(name) for name in cells.to_frame().columns]
    ['x', 'y', 'count', 'area', 'intensity', 'geometry']
    """

    X: Any = field(repr=False)
    count: np.ndarray = field(repr=False)
    area: np.ndarray = field(repr=False)
    shapes: np.ndarray = field(repr=False)
    cell: tuple[float, float]
    crs: str | None
    n_outside: int

    def __len__(self) -> int:
        return len(self.count)

    def __repr__(self) -> str:
        return (
            f"<{len(self):,} cells of {self.cell[0]:g} x {self.cell[1]:g} with {self.count.sum():,.0f} points in an "
            f"area of {self.area.sum():g}, crs={self.crs}>"
        )

    def to_frame(self) -> Any:
        """The cells as a GeoDataFrame of polygons with x, y, covariates, count, area and intensity, count over area.

        Returns
        -------
        GeoDataFrame [n, 6 + covariates]
            One row for each cell, with its polygon.
        """
        import geopandas

        table = self.X.drop(columns="geometry").assign(
            count=self.count, area=self.area, intensity=self.count / self.area
        )
        return geopandas.GeoDataFrame(table, geometry=self.shapes, crs=self.crs)


def count_points(points: Any, window: Any, *, cell: Any, covariates: Any = None) -> Cells:
    """Count a point pattern in the cells of a window, with their areas and covariates.

    Cells begin at the south-west corner of the window's bounding box and are clipped at its border, so that their areas
    add up to its area. A point on an edge that two cells share belongs to the right or the upper one, a point on the
    window's border to the window. Points outside are not counted, and a warning says how many they are.

    Parameters
    ----------
    points : array [n, 2], GeoDataFrame or GeoSeries of points, or a table with the columns x and y
        x and y, in the units of the map.
    window : (west, south, east, north), polygon, GeoDataFrame or GeoSeries of polygons
        Where points were looked for: that there is none somewhere in it is an observation.
    cell : float or (width, height)
        Side of a cell, in the units of the map; `choose_cell` says how fine it should be.
    covariates : dict or xarray.Dataset, optional
        By name, a function of arrays x and y that returns one value for each place; a grid (x, y, values) with values
        [len(y), len(x)]; or an `xarray.DataArray` with the dimensions x and y. Grids of numbers are interpolated
        linearly at the point of each cell; of text, levels of a category, the nearest is taken.

    Returns
    -------
    Cells
        `X`, `count` and `area` for a fit, `shapes` and `to_frame()` for a map.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise import GPRegressor
    >>> from knotwise.spatial import count_points
    >>> points = np.random.default_rng(0).uniform(size=(200, 2)) ** [2, 1]
    >>> cells = count_points(points, (0, 0, 1, 1), cell=0.2, covariates={"slope": lambda x, y: x + y})
    >>> len(cells), int(cells.count.sum()), round(float(cells.area.sum()), 9)
    (25, 200, 1.0)
    >>> gp = GPRegressor(likelihood="poisson", knots=5, random_state=0)
    >>> gp = gp.fit(cells.X, cells.count, exposure=cells.area)
    >>> [str(name) for name in gp.feature_names_in_]
    ['x', 'y', 'slope']
    """
    require_spatial()
    import geopandas
    import shapely

    frame = window_of(window)
    places, crs = places_of(points)
    crs = common_crs(crs, window, "window", "the points are in")
    refuse_degrees(crs)
    if not len(places):
        raise InvalidInputError("`points` has no rows: there is nothing to count.")
    pieces = cut(frame, steps_of(cell, "cell"))
    inside = shapely.intersects_xy(frame.shape, *places.T)
    n_outside = int((~inside).sum())
    if n_outside == len(places):
        raise InvalidInputError(
            f"All {len(places)} points are outside the window, whose bounds are "
            f"({', '.join(f'{side:g}' for side in frame.bounds)}); the first point is ({places[0, 0]:g}, "
            f"{places[0, 1]:g}). Are both in the same coordinates?"
        )
    if n_outside:
        warn(f"{n_outside} of {len(places)} points are outside the window and were not counted.")
    count = np.bincount(pieces.piece_of(places[inside]), minlength=len(pieces.area)).astype(float)
    known = refuse_gaps(covariates_at(covariates, pieces.x, pieces.y), pieces.x, pieces.y)
    taken = sorted(OWN_COLUMNS & set(known))
    if taken:
        raise InvalidInputError(f"A covariate is called {taken[0]!r}, as a column of the cells is. Rename it.")
    columns = {"x": pieces.x, "y": pieces.y} | known
    X = geopandas.GeoDataFrame(columns, geometry=geopandas.points_from_xy(pieces.x, pieces.y), crs=crs)
    return Cells(X, count, pieces.area, pieces.shapes, steps_of(cell, "cell"), crs, n_outside)


def predict_total(
    gp: Any,
    regions: Any,
    *,
    cell: Any,
    covariates: Any = None,
    by: str | None = None,
    statistic: str = "sum",
    **options: Any,
) -> Totals:
    """How many points are in each region, with intervals: the integral of the intensity over a polygon.

    Each region is cut into cells, clipped at its border, and the cells are added up jointly by the model's own
    `predict_total`, so that the interval knows that errors of neighbouring cells go together.

    Parameters
    ----------
    gp : fitted GPRegressor or GPClassifier
        Of counts with areas as exposure, as `count_points` makes them. Of other data the integral of the mean response
        over the region is predicted: the mean times the area.
    regions : GeoDataFrame, GeoSeries, dict or list of polygons, polygon or (west, south, east, north)
        Labels are the index of a frame, its column `by`, the keys of a dict, or the places in a list; of a single shape
        "all". Regions may overlap, and need not be made of the cells of the fit.
    cell : float or (width, height)
        Side of the cells of which the integral is made, in the units of the map; that of the fit, or finer.
    covariates : dict or xarray.Dataset, optional
        As for `count_points`, by the names of the fit; or one value for all places.
    by : str, optional
        The column of `regions` with their labels.
    statistic : "sum" or "mean", default "sum"
        The number in each region, or the number per unit of area.
    **options : dict
        `kind`, `level`, `n_samples` and `random_state` of the model's `predict_total`. `kind="mean"`, the default, is
        the expected number given the intensity; `kind="observation"` a number that would be counted.

    Returns
    -------
    Totals
        `estimate`, `lower`, `upper` and `sd` for each `group`, in the order of the regions; `to_frame()` is a table.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise import GPRegressor
    >>> from knotwise.spatial import count_points, predict_total
    >>> points = np.random.default_rng(0).uniform(size=(200, 2)) ** [2, 1]
    >>> cells = count_points(points, (0, 0, 1, 1), cell=0.2)
    >>> gp = GPRegressor(likelihood="poisson", knots=5, random_state=0)
    >>> gp = gp.fit(cells.X, cells.count, exposure=cells.area)
    >>> halves = {"west": (0, 0, 0.5, 1), "east": (0.5, 0, 1, 1)}
    >>> totals = predict_total(gp, halves, cell=0.1, random_state=0)
    >>> totals.group.tolist(), bool(totals.lower[0] < (points[:, 0] < 0.5).sum() < totals.upper[0])
    (['west', 'east'], True)
    """
    require_spatial()
    check_model(gp)
    import pandas as pd

    crs = common_crs(gp.crs_, regions, "regions", "the model was fitted in")
    refuse_degrees(crs, on_globe=sphere_of(gp) is not None)
    labels, windows = regions_of(regions, by)
    steps = steps_of(cell, "cell")
    pieces = [cut(window, steps) for window in windows]
    x, y, area = (np.concatenate([getattr(each, name) for each in pieces]) for name in ("x", "y", "area"))
    codes = np.repeat(np.arange(len(labels)), [len(each.area) for each in pieces])
    groups = pd.Categorical.from_codes(codes, categories=labels)
    known = refuse_gaps(covariates_at(covariates, x, y, levels_of(gp)), x, y)
    return gp.predict_total(
        inputs_at(gp, x, y, known), groups=groups, statistic=statistic, **_areas(gp, area, statistic), **options
    )


def _areas(gp: Any, area: np.ndarray, statistic: str) -> dict[str, np.ndarray]:
    """Areas as the exposure of counts; as weights of averages, and of what has no exposure."""
    likelihood = getattr(gp, "likelihood_", None)  # a classifier has none
    if likelihood is None or likelihood.size_name != "exposure":
        return {"weights": area}
    if not is_needed(gp, exposure=None):
        raise InvalidInputError(
            "The model was fitted without `exposure`, so that its intensity is per row, not per unit of area, and has "
            "no integral over a region. Fit with the areas of the cells: "
            "`gp.fit(cells.X, cells.count, exposure=cells.area)`."
        )
    return {"weights": area} if statistic == "mean" else {"exposure": area}
