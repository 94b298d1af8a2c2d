"""Frames of points as inputs: coordinates and other columns, the coordinate reference system, and what is refused."""

import os
import subprocess
import sys
from pathlib import Path

import geopandas as gpd
import numpy as np
import pandas as pd
import pytest
import shapely
from numpy.testing import assert_array_equal

import knotwise
from knotwise import GPClassifier, GPRegressor, kernels
from knotwise.errors import FitWarning, InvalidInputError

RNG = np.random.default_rng(6)
PLACES = RNG.uniform(0, 1000, size=(50, 2))
DEPTH = RNG.normal(size=50)
Y = np.sin(PLACES[:, 0] / 200) + DEPTH
SMOOTH = kernels.SquaredExponential()
TABLE = pd.DataFrame({"x": PLACES[:, 0], "y": PLACES[:, 1], "depth": DEPTH})


def frame(crs: object = "EPSG:27700", **columns):
    return gpd.GeoDataFrame(columns or {"depth": DEPTH}, geometry=gpd.points_from_xy(*PLACES.T), crs=crs)


def regressor():
    return GPRegressor(SMOOTH, knots=6, random_state=0)


@pytest.fixture(scope="module")
def fitted():
    return regressor().fit(frame(), Y)


def test_a_frame_of_points_is_its_coordinates_and_its_other_columns(fitted):
    plain = regressor().fit(TABLE, Y)
    assert [str(name) for name in fitted.feature_names_in_] == ["x", "y", "depth"]
    assert_array_equal(fitted.predict(frame()), plain.predict(TABLE))
    assert_array_equal(fitted.predict(TABLE), plain.predict(TABLE))
    two = frame(depth=DEPTH, other=gpd.points_from_xy(*PLACES.T))  # a second geometry is no column
    assert_array_equal(regressor().fit(two, Y).predict(two), plain.predict(TABLE))


def test_levels_dates_and_gaps_of_a_frame_of_points_are_those_of_a_table():
    days = pd.date_range("2026-01-01", periods=50)
    others = {"soil": pd.Categorical(np.where(DEPTH > 0, "clay", "sand")), "day": days, "wet": DEPTH > 1}
    gp = regressor().fit(frame(**others), Y)
    plain = regressor().fit(TABLE[["x", "y"]].assign(**others), Y)
    assert gp.encoding_.levels == {"soil": ("clay", "sand")}
    assert_array_equal(gp.predict(frame(**others)), plain.predict(TABLE[["x", "y"]].assign(**others)))
    codes = frame(zone=np.arange(50) % 3)
    assert regressor().set_params(categorical=["zone"]).fit(codes, Y).encoding_.levels == {"zone": ("0", "1", "2")}
    with pytest.raises(InvalidInputError, match="Column 'name'"):  # as text that names each row is in a table
        regressor().fit(frame(name=[f"well {i}" for i in range(50)]), Y)


def test_the_order_of_the_geometry_and_columns_that_repeat_it_do_not_matter(fitted):
    turned = frame(depth=DEPTH)[["geometry", "depth"]].rename_geometry("place")
    repeated = frame(depth=DEPTH, x=PLACES[:, 0], y=PLACES[:, 1])
    under_other_names = frame(depth=DEPTH, Easting=PLACES[:, 0], northing=PLACES[:, 1])
    for other in (turned, repeated, repeated.set_index("depth", drop=False), under_other_names):
        assert_array_equal(fitted.predict(other), fitted.predict(frame()))
    with pytest.raises(InvalidInputError, match="column 'x' differs from the x of the points"):
        regressor().fit(frame(x=DEPTH), Y)


def test_a_series_of_points_is_its_coordinates():
    gp = regressor().fit(frame().geometry, Y)
    assert_array_equal(gp.predict(frame().geometry), gp.predict(TABLE[["x", "y"]]))
    assert gp.crs_ == "EPSG:27700"


@pytest.mark.parametrize("given", [frame(), frame().geometry], ids=["frame", "series"])
def test_classifiers_take_frames_of_points(given):
    labels = np.where(Y > 0, "deep", "shallow")
    gp = GPClassifier(SMOOTH, knots=4, random_state=0, optimizer=None).fit(given, labels)
    columns = TABLE if len(gp.feature_names_in_) == 3 else TABLE[["x", "y"]]
    plain = GPClassifier(SMOOTH, knots=4, random_state=0, optimizer=None).fit(columns, labels)
    assert_array_equal(gp.predict_proba(given), plain.predict_proba(columns))
    assert_array_equal(gp.predict_interval(given), plain.predict_interval(columns))
    assert gp.crs_ == "EPSG:27700"
    with pytest.raises(InvalidInputError, match=r"X is in EPSG:4326.*fitted in EPSG:27700"):
        gp.predict(given.to_crs(4326))


def test_the_crs_is_remembered_also_in_files_and_another_one_is_refused(fitted, tmp_path):
    fitted.save(tmp_path / "model.knotwise")
    loaded = knotwise.load(tmp_path / "model.knotwise")
    for gp in (fitted, loaded):
        assert gp.crs_ == "EPSG:27700"
        assert_array_equal(gp.predict(frame()), fitted.predict(frame()))
        with pytest.raises(
            InvalidInputError, match=r"X is in EPSG:3857, but the model was fitted in EPSG:27700.*to_crs"
        ):
            gp.predict(frame().to_crs(3857))
        with pytest.raises(InvalidInputError, match=r"X has no coordinate reference system.*X.set_crs\('EPSG:27700'\)"):
            gp.predict(frame(crs=None))
    other = regressor().fit(frame(), Y).fit(TABLE, Y)
    assert other.crs_ is None


def test_a_crs_without_a_number_is_remembered_in_full(tmp_path):
    own = "+proj=laea +lat_0=52 +lon_0=10 +x_0=100 +y_0=200 +ellps=GRS80 +units=m"
    gp = regressor().fit(frame(crs=own), Y)
    gp.save(tmp_path / "model.knotwise")
    loaded = knotwise.load(tmp_path / "model.knotwise")
    assert_array_equal(loaded.predict(frame(crs=own)), gp.predict(frame(crs=own)))
    with pytest.raises(InvalidInputError, match="to_crs"):
        loaded.predict(frame(crs=own.replace("+x_0=100", "+x_0=101")))


def test_degrees_are_warned_of():
    degrees = gpd.GeoDataFrame(geometry=gpd.points_from_xy(*(PLACES / 100).T), crs=4326)
    with pytest.warns(FitWarning, match=r"in degrees \(EPSG:4326\).*coords='lonlat'.*to_crs\(X.estimate_utm_crs\(\)\)"):
        regressor().fit(degrees, Y)


def test_degrees_of_a_frame_are_places_on_the_globe_where_that_is_asked_for():
    degrees = gpd.GeoDataFrame(geometry=gpd.points_from_xy(*(PLACES / 100).T), crs=4326)
    table = pd.DataFrame(PLACES / 100, columns=["lon", "lat"])
    of_frame, of_table = (regressor().set_params(coords="lonlat").fit(X, Y) for X in (degrees, table))
    assert of_frame.crs_ == "EPSG:4326"
    assert_array_equal(of_frame.predict(degrees), of_table.predict(table))


def test_columns_that_repeat_longitude_and_latitude_are_no_further_inputs():
    table = pd.DataFrame(PLACES / 100, columns=["lon", "lat"])
    degrees = gpd.GeoDataFrame(table, geometry=gpd.points_from_xy(table.lon, table.lat), crs=4326)
    gp = regressor().set_params(coords="lonlat").fit(degrees, Y)
    assert [str(name) for name in gp.feature_names_in_] == ["x", "y"]
    assert_array_equal(gp.predict(degrees), regressor().set_params(coords="lonlat").fit(table, Y).predict(table))
    assert_array_equal(gp.predict(degrees.set_crs("OGC:CRS84", allow_override=True)), gp.predict(degrees))
    with pytest.raises(InvalidInputError, match=r"in a projection \(EPSG:3035\)\. Leave it out, or write `X.to_crs"):
        regressor().set_params(coords="lonlat").fit(degrees.to_crs(3035), Y)


def other_shape(shape, row=3):
    shapes = list(gpd.points_from_xy(*PLACES.T))
    shapes[row] = shape
    return gpd.GeoDataFrame(geometry=shapes)


MISTAKES = {
    "polygon": (other_shape(shapely.box(0, 0, 1, 1)), r"must be points.*is a Polygon in row 3.*representative_point"),
    "missing": (other_shape(None), r"is missing in row 3"),
    "empty": (other_shape(shapely.Point()), r"NaN in row 3, column 'x'"),
    "height": (other_shape(shapely.Point(1, 2, 3)), r"row 3 has a height.*force_2d"),
    "no geometry": (gpd.GeoDataFrame({"depth": DEPTH}), r"no active geometry.*set_geometry"),
}


@pytest.mark.parametrize(("given", "words"), MISTAKES.values(), ids=MISTAKES)
def test_what_is_no_point_is_refused_in_words(given, words):
    for estimator in (regressor(), GPClassifier(knots=3)):
        with pytest.raises(InvalidInputError, match=words):
            estimator.fit(given, Y > 0)


def test_geopandas_is_not_imported_for_data_that_are_none_of_its_own():
    program = (
        "import sys, numpy as np, knotwise.spatial; from knotwise import GPRegressor; "
        "X = np.random.default_rng(0).normal(size=(20, 2)); gp = GPRegressor(knots=2, optimizer=None).fit(X, X[:, 0]); "
        "gp.predict(X); "
        "print([name for name in ('geopandas', 'shapely', 'xarray') if name in sys.modules])"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(knotwise.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_what_to_install_is_said(monkeypatch):
    from knotwise.spatial import count_points

    monkeypatch.setitem(sys.modules, "shapely", None)
    with pytest.raises(ImportError, match=r"shapely is not installed here.*pip install 'knotwise\[spatial\]'"):
        count_points(PLACES, (0, 0, 1000, 1000), cell=100)
