"""Counting points in cells: areas are exact, every point counts once, and covariates are where they should be."""

import geopandas as gpd
import numpy as np
import pandas as pd
import pytest
import shapely
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from knotwise import GPRegressor
from knotwise.errors import FitWarning, InvalidInputError, TooLargeError
from knotwise.spatial import count_points
from knotwise.spatial.windows import Window, cut

RNG = np.random.default_rng(3)
LAKE = shapely.Polygon([(0.4, 0.4), (0.6, 0.45), (0.5, 0.62)])
COAST = shapely.Polygon([(0, 0.1), (0.6, 0), (1, 0.35), (0.8, 1), (0.55, 0.5), (0.2, 0.9)]) - LAKE
WINDOWS = {
    "rectangle": shapely.box(0, 0, 1, 0.7),
    "polygon": COAST,
    "two-islands": shapely.MultiPolygon([shapely.box(0, 0, 0.3, 0.3), shapely.Point(0.8, 0.8).buffer(0.15)]),
}


def points_in(shape, n=400, rng=RNG):
    west, south, east, north = shape.bounds
    places = rng.uniform((west, south), (east, north), size=(4 * n, 2))
    return places[shapely.contains_xy(shape, *places.T)][:n]


@pytest.mark.parametrize("cell", [0.07, (0.11, 0.05), 0.5, 3.0])
@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_areas_are_shapelys_and_add_up_to_that_of_the_window(window, cell):
    cells = count_points(points_in(window), window, cell=cell)
    assert_allclose(cells.area.sum(), window.area, rtol=1e-10)
    width, height = cells.cell
    west, south, *_ = window.bounds
    for shape, area, x, y in zip(cells.shapes, cells.area, cells.X["x"], cells.X["y"], strict=True):
        assert shape.contains(shapely.Point(x, y))
        column, row = np.floor((x - west) / width), np.floor((y - south) / height)
        left, bottom = west + column * width, south + row * height
        whole = shapely.box(left, bottom, left + width, bottom + height)
        assert_allclose(area, (whole & window).area, rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_every_point_counts_once_in_a_cell_that_holds_it(window):
    points = points_in(window)
    cells = count_points(points, window, cell=0.1)
    assert cells.count.sum() == len(points)
    held = np.array([shapely.contains_xy(shape, *points.T).sum() for shape in cells.shapes])
    assert_array_equal(cells.count, held)


def test_points_on_shared_edges_and_on_the_border_count_once():
    side = np.linspace(0, 1, 11)
    lattice = np.stack(np.meshgrid(side, side), -1).reshape(-1, 2)  # corners of all cells
    cells = count_points(lattice, (0, 0, 1, 1), cell=0.1)
    assert len(cells) == 100 and cells.count.sum() == 121
    assert cells.count.max() == 4  # the last row and column have no cell beyond their edge
    touching = shapely.Polygon([(0, 0), (2, 0), (2, 1), (1, 1), (0, 2)])  # its corner (1, 1) touches a cell outside
    cells = count_points([[1.0, 1.0], [0.2, 0.2]], touching, cell=1.0)
    assert cells.count.sum() == 2


@settings(max_examples=10)
@given(st.floats(0.013, 2.0), st.floats(-1e6, 1e6), st.floats(1e-3, 1e3))
def test_cells_of_any_size_anywhere_keep_area_and_points(cell, offset, scale):
    window = shapely.affinity.translate(shapely.affinity.scale(COAST, scale, scale, origin=(0, 0)), offset, -offset)
    points = np.array([shape.coords[0] for shape in (window.representative_point(), window.centroid)])
    pieces = cut(Window(window), (cell * scale, cell * scale))
    # coordinates far from the origin have so many digits
    assert_allclose(pieces.area.sum(), window.area, rtol=max(1e-10, 1e-14 * abs(offset) / scale))
    kept = points[shapely.intersects_xy(window, *points.T)]
    assert (pieces.piece_of(kept) >= 0).all()


def test_a_rectangle_is_the_polygon_of_the_same_rectangle():
    points = points_in(shapely.box(0, 0, 1, 0.7))
    one = count_points(points, (0, 0, 1, 0.7), cell=0.13)
    for window in (
        shapely.box(0, 0, 1, 0.7),
        gpd.GeoSeries([shapely.box(0, 0, 0.4, 0.7), shapely.box(0.4, 0, 1, 0.7)]),
    ):
        other = count_points(points, window, cell=0.13)
        assert_array_equal(one.count, other.count)
        assert_allclose(one.area, other.area, rtol=1e-12)
        assert_allclose(one.X[["x", "y"]], other.X[["x", "y"]], rtol=1e-12)


def test_frames_of_points_and_windows_count_as_arrays_do_and_keep_their_crs():
    points = points_in(COAST)
    frame = gpd.GeoDataFrame(
        {"height": 1.0}, geometry=gpd.points_from_xy(*points.T), crs=3035, index=range(len(points))
    )
    plain = count_points(points, COAST, cell=0.1)
    known = count_points(frame, gpd.GeoDataFrame(geometry=[COAST], crs=3035), cell=0.1)
    assert_array_equal(plain.count, known.count)
    assert plain.crs is None and known.crs == "EPSG:3035"
    cells = known.to_frame()
    assert cells.crs == "EPSG:3035" and known.X.crs == "EPSG:3035"
    assert_allclose(cells.geometry.area, cells["area"], rtol=1e-12)
    assert_allclose(cells["intensity"] @ cells["area"], len(points))
    with pytest.raises(InvalidInputError, match=r"window is in EPSG:4326, but the points are in EPSG:3035.*to_crs"):
        count_points(frame, gpd.GeoSeries([COAST], crs=4326), cell=0.1)


def test_points_outside_are_left_out_with_their_number():
    points = np.vstack([points_in(COAST, 50), [[5, 5], [0.5, 0.5]]])  # the last is in the lake
    with pytest.warns(FitWarning, match="2 of 52 points are outside the window and were not counted"):
        cells = count_points(points, COAST, cell=0.2)
    assert cells.n_outside == 2 and cells.count.sum() == 50
    with pytest.raises(InvalidInputError, match=r"All 2 points are outside the window.*same coordinates"):
        count_points([[5, 5], [6, 6]], COAST, cell=0.2)


# -- covariates -----------------------------------------------------------------------------------


def hill(x, y):
    return np.exp(-((x - 0.4) ** 2 + (y - 0.3) ** 2) / 0.1)


def gridded(function, step, low=0.0, high=1.0):
    side = np.arange(low + step / 2, high, step)
    return xr.DataArray(function(*np.meshgrid(side, side)), coords={"y": side, "x": side}, dims=("y", "x"))


def test_a_linear_covariate_comes_exactly_from_every_kind_of_source():
    def plane(x, y):
        return 2 * x - 3 * y + 1

    grid = gridded(plane, 0.02)
    turned = grid.isel(y=slice(None, None, -1)).transpose("x", "y").rename({"x": "lon", "y": "lat"})
    sources = {
        "function": plane,
        "tuple": (grid["x"].to_numpy(), grid["y"].to_numpy(), grid.to_numpy()),
        "xarray": grid,
        "turned": turned,
        "band": grid.expand_dims("band"),
    }
    cells = count_points([[0.5, 0.5]], (0.05, 0.05, 0.95, 0.95), cell=0.1, covariates=sources)
    for name in sources:
        assert_allclose(cells.X[name], plane(cells.X["x"], cells.X["y"]), rtol=1e-12, atol=1e-14, err_msg=name)


def test_a_curved_covariate_from_a_grid_is_that_of_its_function_to_interpolation():
    dataset = xr.Dataset({"hill": gridded(hill, 0.01)})
    cells = count_points(points_in(COAST), COAST, cell=0.1, covariates=dataset)
    # linear interpolation is off by at most step^2 / 8 times the second derivatives, 2 * 20 here; border by one step
    assert_allclose(cells.X["hill"], hill(cells.X["x"], cells.X["y"]), atol=0.01**2 / 8 * 40)


def test_the_outermost_half_cells_and_the_sides_of_gaps_have_the_nearest_value():
    grid = xr.DataArray([[1.0, 2.0], [3.0, np.nan]], coords={"y": [0.5, 1.5], "x": [0.5, 1.5]}, dims=("y", "x"))
    cells = count_points([[0.1, 0.1]], (0, 0, 1, 1), cell=1 / 3, covariates={"z": grid})
    assert cells.X["z"].iloc[0] == 1.0  # beyond the centres of the grid, in its first cell
    with pytest.raises(
        InvalidInputError, match=r"covariate 'z' has no value at \(1.16667, 1.16667\) and 8 more places"
    ):
        count_points([[0.1, 0.1]], (0, 0, 2, 2), cell=1 / 3, covariates={"z": grid})
    with pytest.raises(InvalidInputError, match=r"no value at \(2.5, 0.5\) and 1 more place\."):
        count_points([[0.1, 0.1]], (0, 0, 3, 2), cell=1.0, covariates={"z": grid.fillna(0.0).isel(x=[0, 1])})


def test_levels_come_from_functions_and_grids_as_they_are_and_a_fit_takes_them():
    side = np.array([0.25, 0.75])
    soils = xr.DataArray([["clay", "sand"], ["sand", "sand"]], coords={"y": side, "x": side}, dims=("y", "x"))
    wet = soils == "clay"
    sources = {"soil": soils, "side": lambda x, y: np.where(x < 0.5, "west", "east"), "wet": wet}
    cells = count_points(points_in(shapely.box(0, 0, 1, 1)), (0, 0, 1, 1), cell=0.25, covariates=sources)
    south_west = (cells.X["x"] < 0.5) & (cells.X["y"] < 0.5)
    assert_array_equal(cells.X["soil"], np.where(south_west, "clay", "sand"))
    assert_array_equal(cells.X["side"], np.where(cells.X["x"] < 0.5, "west", "east"))
    assert_array_equal(cells.X["wet"], south_west)
    gp = GPRegressor(likelihood="poisson", knots=4, optimizer=None, random_state=0)
    gp.fit(cells.X, cells.count, exposure=cells.area)
    assert gp.encoding_.levels == {"soil": ("clay", "sand"), "side": ("east", "west")}


def test_a_table_has_its_points_in_the_columns_x_and_y():
    points = points_in(COAST)
    table = pd.DataFrame({"species": "oak", "y": points[:, 1], "x": points[:, 0]})
    cells, same = (count_points(given, COAST, cell=0.1) for given in (points, table))
    assert_array_equal(cells.count, same.count)
    assert repr(same) == f"<{len(same)} cells of 0.1 x 0.1 with 400 points in an area of {COAST.area:g}, crs=None>"


MISTAKES = {
    "a window of three numbers": ({"window": (0, 1, 2)}, "a rectangle \\(west, south, east, north\\)"),
    "a window inside out": ({"window": (1, 0, 0, 1)}, "west < east"),
    "a line for a window": ({"window": shapely.LineString([(0, 0), (1, 1)])}, "must be polygons.*LineString"),
    "a bow tie": ({"window": shapely.Polygon([(0, 0), (1, 1), (1, 0), (0, 1)])}, "not valid.*Self-inter.*make_valid"),
    "degrees": ({"window": gpd.GeoSeries([COAST], crs=4326)}, "square degree is not an area.*estimate_utm_crs"),
    "no cells": ({"cell": 0.0}, "side of a cell"),
    "an empty point": (
        {"points": gpd.GeoSeries([shapely.Point(0.3, 0.3), shapely.Point()])},
        "`points` contains NaN in row 1",
    ),
    "three columns": ({"points": np.ones((3, 3))}, "must have two columns"),
    "no points": ({"points": np.ones((0, 2))}, "no rows"),
    "a list of covariates": ({"covariates": [hill]}, "a dict of functions"),
    "text": ({"covariates": {"z": "elevation.tif"}}, "covariate 'z' is a str"),
    "a wrong shape": (
        {"covariates": {"z": lambda x, y: np.ones(3)}},
        "one value for each, but returned shape \\(3,\\)",
    ),
    "a place twice": (
        {"covariates": {"z": ([0.0, 0.5, 0.5], [0.0, 1.0], np.ones((2, 3)))}},
        "a value of x that is missing, or stands there twice",
    ),
    "a name that is taken": ({"covariates": {"area": hill}}, "called 'area', as a column of the cells"),
    "no geometry": ({"window": gpd.GeoDataFrame({"name": ["a"]})}, "no active geometry.*set_geometry"),
    "areas for points": ({"points": gpd.GeoSeries([COAST])}, "geometry of points must be points, but is a Polygon"),
    "times": ({"covariates": {"z": xr.DataArray(np.ones((2, 3)), dims=("t", "x"))}}, "dimensions t, x; it must have"),
}


@pytest.mark.parametrize(("change", "words"), MISTAKES.values(), ids=[name.replace(" ", "-") for name in MISTAKES])
def test_mistakes_are_said_in_words(change, words):
    given = {"points": points_in(COAST, 20), "window": COAST, "cell": 0.2} | change
    with pytest.raises(InvalidInputError, match=words):
        count_points(given["points"], given["window"], cell=given["cell"], covariates=given.get("covariates"))


def test_absurdly_many_cells_are_refused():
    with pytest.raises(TooLargeError, match=r"would be 100,000,000.*choose_cell"):
        count_points([[0.5, 0.5]], (0, 0, 1, 1), cell=1e-4)
