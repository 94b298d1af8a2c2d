"""Totals over regions: a region is cut into cells, whose expected counts are added up jointly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from knotwise.data.exposure import is_needed
from knotwise.errors import InvalidInputError
from knotwise.spatial.covariates import covariates_at, refuse_gaps
from knotwise.spatial.models import check_model, inputs_at, levels_of, sphere_of
from knotwise.spatial.windows import common_crs, cut, refuse_degrees, regions_of, require_spatial, steps_of

if TYPE_CHECKING:
    from knotwise.estimators.totals import Totals


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
