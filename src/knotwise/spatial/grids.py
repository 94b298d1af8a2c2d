"""Maps of a fitted model on a grid, as an xarray.Dataset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial import KDTree

from knotwise.data.encoding.kinds import LonLat
from knotwise.data.exposure import exposure_of, require
from knotwise.data.geometry import refuse_other_crs
from knotwise.data.validation import check_count
from knotwise.errors import InvalidInputError, TooLargeError, unknown_option
from knotwise.estimators.total_law import Response
from knotwise.likelihoods.response import response_moments
from knotwise.prediction import Component, Prediction, mixed_moments
from knotwise.spatial.covariates import covariates_at, gaps_in
from knotwise.spatial.models import check_model, inputs_at, levels_of, sphere_of, training_places
from knotwise.spatial.windows import Window, places_of, require_spatial, steps_of, window_of

MOST_CELLS = 100_000_000


def predict_grid(
    gp: Any,
    *,
    spacing: Any,
    region: Any = None,
    covariates: Any = None,
    kind: str = "mean",
    level: float = 0.95,
    threshold: float | None = None,
    exposure: float | None = None,
    trials: float | None = None,
    noise_variance: float | None = None,
    offset: float | None = None,
    max_distance: float | None = None,
    data: Any = None,
    chunk: int = 100_000,
) -> Any:
    """Map a fitted model: mean, standard deviation, interval and exceedance at the centres of a grid.

    Where cells are farther from the data than the model was tested, a warning says how many: write
    `fit(..., predict_at=grid)` with the centres of the cells, and the kernel is judged by rows as far from the others.

    Parameters
    ----------
    gp : fitted GPRegressor, or GPClassifier of two classes
        Its coordinates are longitude and latitude with `coords="lonlat"`, else the columns x and y (or lon and lat,
        longitude and latitude, easting and northing), or else the first two. Of a classifier the probability of the
        second class is mapped.
    spacing : float or (width, height)
        Side of the grid's cells, in the units of the map; degrees with `coords="lonlat"`.
    region : (west, south, east, north), polygon, GeoDataFrame or GeoSeries of polygons, optional
        Cells whose centre lies outside are NaN. By default the bounding box of the training rows. With
        `coords="lonlat"` a rectangle whose west is greater than its east, such as (170, -50, -160, -30), goes across
        the date line; its longitudes go on beyond 180.
    covariates : dict or xarray.Dataset, optional
        The model's other columns, as for `count_points`, or one value for all places: a number, a date or the level of
        a category. Cells where one has no value are NaN.
    kind : "mean" or "observation", default "mean"
        The mean response (a rate, for counts with an exposure), or a new observation. `mean` is the same for both.
    level : float, default 0.95
        Probability of the central interval.
    threshold : float, optional
        Adds `exceedance`, the probability that the mean response exceeds it.
    exposure, trials : float, optional
        Of a cell: counts are per unit of exposure without it. Observations need it if the fit had it.
    noise_variance : float, optional
        Known noise variance of new observations of Gaussian data. Observations need it if the fit had it.
    offset : float, optional
        The logarithm of the exposure, instead of it.
    max_distance : float, optional
        Cells whose centre is farther than this from all of `data` are NaN, in the units of the map; in kilometres with
        `coords="lonlat"`.
    data : array [n, 2], GeoDataFrame or GeoSeries of points, optional
        From where distance is measured; by default the training rows, which a model from a file may not have.
    chunk : int, default 100000
        Cells that are predicted at once, which bounds the memory. The values depend on it by rounding only.

    Returns
    -------
    xarray.Dataset
        `mean`, `sd`, `lower` and `upper`, and `exceedance` with a threshold, each [y, x], at the centres of the cells;
        `spatial_ref` holds the coordinate reference system of the fit, as rioxarray reads it.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise import GPRegressor
    >>> from knotwise.spatial import predict_grid
    >>> X = np.random.default_rng(0).uniform(size=(80, 2))
    >>> gp = GPRegressor(knots=10, random_state=0).fit(X, np.sin(5 * X[:, 0]) + X[:, 1])
    >>> grid = predict_grid(gp, spacing=0.1, region=(0, 0, 1, 1), threshold=1.0)
    >>> sorted(grid.data_vars), dict(grid.sizes)
    (['exceedance', 'lower', 'mean', 'sd', 'upper'], {'y': 10, 'x': 10})
    >>> bool(np.isclose(grid["mean"].sel(x=0.55, y=0.25, method="nearest"), gp.predict([[0.55, 0.25]])[0]))
    True

    A map that is wanted far from the data: the kernel is judged by rows that are as far from the others.

    >>> cells = np.stack(np.meshgrid(np.arange(0.05, 1.2, 0.1), np.arange(0.05, 1, 0.1)), -1).reshape(-1, 2)
    >>> gp = GPRegressor(random_state=0).fit(X, np.sin(5 * X[:, 0]) + X[:, 1], predict_at=cells)
    >>> grid = predict_grid(gp, spacing=0.1, region=(0, 0, 1.2, 1))
    >>> bool(grid["sd"].max() > 5 * grid["sd"].min())
    True
    """
    require_spatial()
    check_model(gp)
    if kind not in ("mean", "observation"):
        raise unknown_option("`kind`", kind, ["mean", "observation"])
    chunk = check_count(chunk, "chunk", least=1)
    crs = getattr(gp, "crs_", None)
    refuse_other_crs(crs, region, "region")
    refuse_other_crs(crs, data, "data")
    sizes = {"exposure": exposure_of(exposure, offset), "trials": trials, "noise_variance": noise_variance}
    surface = Surface.of(gp, kind, level, threshold, sizes)
    sphere = sphere_of(gp)
    frame = _box_around(training_places(gp), sphere) if region is None else _frame_of(region, sphere)
    x, y = (
        low + step * (np.arange(max(1, int(np.ceil((high - low) / step - 1e-9)))) + 0.5)
        for low, high, step in zip(frame.bounds[:2], frame.bounds[2:], steps_of(spacing, "spacing"), strict=True)
    )
    if len(x) * len(y) > MOST_CELLS:
        raise TooLargeError(
            f"The grid would have {len(x) * len(y):,} cells, more than {MOST_CELLS:,}. Widen `spacing`."
        )
    places = np.stack(np.meshgrid(x, y), -1).reshape(-1, 2)
    shown = inside(frame, places)
    if max_distance is not None:
        near = training_places(gp) if data is None else places_of(data, "data")[0]
        shown[shown] = within(max_distance, near, places[shown], sphere)
    elif data is not None:
        raise InvalidInputError("`data` are the places from which `max_distance` is measured: give it, too.")
    if not shown.any():
        raise InvalidInputError(
            f"No centre of the grid's {len(places):,} cells lies in the region"
            + (". Take a smaller `spacing`." if max_distance is None else f" and within {max_distance:g} of the data.")
        )
    values = {name: np.full(len(places), np.nan) for name in surface.names}
    for name, found in _in_chunks(surface, gp, places[shown], covariates, chunk).items():
        values[name][shown] = found
    return _dataset(values, x, y, crs or frame.crs, surface)


def _in_chunks(surface: Surface, gp: Any, places: np.ndarray, covariates: Any, chunk: int) -> dict[str, np.ndarray]:
    """The variables at places, [n] each, a chunk of them at a time; NaN where a covariate has no value."""
    values = {name: np.full(len(places), np.nan) for name in surface.names}
    for first in range(0, len(places), chunk):
        x, y = places[first : first + chunk].T
        known = covariates_at(covariates, x, y, levels_of(gp))
        gaps = np.any([np.zeros(len(x), bool), *map(gaps_in, known.values())], axis=0)
        whole = np.flatnonzero(~gaps)
        if len(whole):
            rows = inputs_at(gp, x[whole], y[whole], {name: found[whole] for name, found in known.items()})
            for name, found in surface.at(rows).items():
                values[name][first + whole] = found
    if np.isnan(values["mean"]).all():
        raise InvalidInputError(
            f"`covariates` have no value anywhere on the map, such as at ({places[0, 0]:g}, {places[0, 1]:g}). Are "
            "they in the same coordinates?"
        )
    return values


def _frame_of(region: Any, sphere: LonLat | None) -> Window:
    """A region as it is given; on the globe a rectangle may go across the date line, from west to a smaller east."""
    if sphere is not None and np.shape(region) == (4,) and region[2] < region[0]:
        region = (region[0], region[1], region[2] + 360, region[3])
    return window_of(region, "region")


def _box_around(places: np.ndarray, sphere: LonLat | None) -> Window:
    """The bounding box of the training rows; on the globe across the date line, where that is the shorter way."""
    import shapely

    if sphere is not None and np.ptp(places[:, 0]) > 180:
        turned = np.column_stack([places[:, 0] % 360, places[:, 1]])
        places = turned if np.ptp(turned[:, 0]) < 180 else places
    low, high = places.min(0), places.max(0)
    if not (low < high).all():
        raise InvalidInputError("The training rows lie on a line, which has no area. Give a `region`.")
    return Window(shapely.box(*low, *high))


def _dataset(values: dict[str, np.ndarray], x: np.ndarray, y: np.ndarray, crs: str | None, surface: Surface) -> Any:
    import xarray

    grid = xarray.Dataset(
        {name: (("y", "x"), found.reshape(len(y), len(x))) for name, found in values.items()},
        coords={"x": x, "y": y},
        attrs=surface.facts | ({} if crs is None else {"crs": crs}),
    )
    if crs is None:
        return grid
    import pyproj

    # as climate and forecast conventions have it, and rioxarray reads it
    return grid.assign_coords(spatial_ref=((), 0, pyproj.CRS(crs).to_cf()))


def inside(window: Window, places: np.ndarray) -> np.ndarray:
    """Which places lie in a window or on its border, [n]."""
    import shapely

    shapely.prepare(window.shape)
    return shapely.intersects_xy(window.shape, *places.T)


def within(distance: float, data: np.ndarray, places: np.ndarray, sphere: LonLat | None = None) -> np.ndarray:
    """Which places have a datum at most this far away, [n]; on a `sphere` by chords, in kilometres."""
    if not (isinstance(distance, int | float | np.number) and 0 < distance < np.inf):
        raise InvalidInputError(f"`max_distance` is {distance!r}; it must be a positive distance on the map.")
    if not len(data):
        raise InvalidInputError("`data` has no rows, so that nothing is near them.")
    if sphere is not None:
        data, places = sphere.expand(data), sphere.expand(places)
    nearest = KDTree(data).query(places, distance_upper_bound=np.nextafter(distance, np.inf))[0]
    return nearest <= distance


@dataclass(frozen=True)
class Surface:
    """What is asked of a model at the places of a grid."""

    model: Any
    kind: str
    level: float
    threshold: float | None
    sizes: dict[str, float]

    @staticmethod
    def of(gp: Any, kind: str, level: float, threshold: float | None, sizes: dict[str, Any]) -> Surface:
        """Check what is asked; of a classifier it is the model of its second class."""
        wide = [name for name, size in sizes.items() if np.ndim(size)]
        if wide:
            raise InvalidInputError(f"`{wide[0]}` has shape {np.shape(sizes[wide[0]])}; a map has one for all cells.")
        model = gp
        if hasattr(gp, "classes_"):
            if len(gp.models_) > 1 or kind == "observation":
                raise InvalidInputError(
                    "A map is of the probability of the second of two classes, with `kind='mean'`. For one of several "
                    "classes put `gp.predict_proba(X)` on a grid, or fit this class against the rest."
                )
            model = gp.models_[0]
        if kind == "observation":
            sizes = require(model, "predict_grid(gp, kind='observation'", **sizes)
        return Surface(model, kind, level, threshold, {name: size for name, size in sizes.items() if size is not None})

    @property
    def names(self) -> list[str]:
        return ["mean", "sd", "lower", "upper", *([] if self.threshold is None else ["exceedance"])]

    @property
    def facts(self) -> dict[str, Any]:
        """What the numbers are, for the attributes of a dataset."""
        of = {"mean": "the mean response", "observation": "a new observation"}[self.kind]
        facts = {"description": f"Posterior of {of}.", "level": self.level} | self.sizes
        return facts | ({} if self.threshold is None else {"threshold": self.threshold})

    def at(self, X: Any) -> dict[str, np.ndarray]:
        """The variables at rows, [n] each."""
        prediction = self.model._prediction(X, **self.sizes)
        lower, upper = prediction.interval(self.level, self.kind).T
        sd = prediction.std if self.kind == "observation" else spread_of_mean(prediction)
        found = {"mean": prediction.mean, "sd": sd, "lower": lower, "upper": upper}
        if self.threshold is not None:
            found["exceedance"] = prediction.exceedance(self.threshold)
        return found


def spread_of_mean(prediction: Prediction) -> np.ndarray:
    """Posterior standard deviation of the mean response, [n]; of a mixture that of all its components."""
    each = [_moments_of_mean(part, prediction.size) for part in prediction.components]
    return np.sqrt(mixed_moments(prediction.weights, each)[1])


def _moments_of_mean(part: Component, size: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
    """Posterior mean and variance of the mean response under one component, [n] each."""
    latent, response = part.latent, MeanResponse(part.likelihood, float(part.nugget), "mean")
    if part.likelihood.log_link:  # the mean response is log-normal
        mean = response.mean(latent.mean + latent.variance / 2, np.asarray(size))
        return mean, mean**2 * np.expm1(latent.variance)
    return response_moments(response, latent.mean, latent.variance, size)  # type: ignore[arg-type]


class MeanResponse(Response):
    """The mean response as if it were observed, without noise: its moments are those of an observation."""

    def conditional_mean(self, f: np.ndarray, size: np.ndarray) -> np.ndarray:
        return self.mean(f, size)

    def conditional_variance(self, f: np.ndarray, size: np.ndarray) -> np.ndarray:
        return np.zeros(np.shape(f))
