"""Longitude and latitude on the sphere: chords by hand, rotations, poles, the date line, and knots that stay there."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import knotwise
from knotwise import GPRegressor
from knotwise.errors import FitWarning, InvalidInputError
from knotwise.kernels import Matern52, SquaredExponential
from knotwise.likelihoods import Gaussian
from knotwise.selection.optimizing import Objective
from knotwise.testing import assert_adjoint

N = 80
RADIUS = 6371.0088


def places(n=N, seed=0):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.uniform(-180, 180, n), np.degrees(np.arcsin(rng.uniform(-1, 1, n)))])
    u = unit(X)
    return X, np.sin(2 * u[:, 0]) + u[:, 1] * u[:, 2] + 0.05 * rng.normal(size=n)


def unit(X):
    lon, lat = np.radians(X).T
    return np.column_stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)])


def held(**options):
    settings = {"approximation": "full", "optimizer": None, "standardize": False, "mean": 0.0, "coords": "lonlat"}
    model = {"kernel": Matern52(1.0, 3000.0), "likelihood": Gaussian(0.01), "n_jobs": 1}
    return GPRegressor(**settings | model | options)


def test_distances_are_chords_in_kilometres():
    X, y = places()
    new = places(20, seed=1)[0]

    def kernel(A, B):  # by the haversine: a chord is twice the radius times the sine of half the angle
        (lon, lat), (lon_B, lat_B) = np.radians(A).T[:, :, None], np.radians(B).T[:, None, :]
        h = np.sin((lat - lat_B) / 2) ** 2 + np.cos(lat) * np.cos(lat_B) * np.sin((lon - lon_B) / 2) ** 2
        s = np.sqrt(5) * 2 * RADIUS * np.sqrt(h) / 3000.0
        return (1 + s + s**2 / 3) * np.exp(-s)

    expected = kernel(new, X) @ np.linalg.solve(kernel(X, X) + 0.01 * np.eye(N), y)
    gp = held().fit(X, y)
    assert_allclose(gp.predict(new), expected, rtol=1e-9, atol=1e-10)
    (line,) = [line for line in gp.parameters_.data_values() if line.units == "km"]
    assert line.column == "lon,lat"
    assert_allclose(line.value, 3000.0, rtol=1e-12)


@pytest.mark.parametrize("angle", [37.0, 180.0, -123.4])
def test_a_rotation_of_longitudes_changes_nothing(angle):
    X, y = places()
    new = places(20, seed=1)[0]

    def rotated(X):
        return np.column_stack([(X[:, 0] + angle + 180) % 360 - 180, X[:, 1]])

    gp, other = held().fit(X, y), held().fit(rotated(X), y)
    assert_allclose(other.predict(rotated(new)), gp.predict(new), rtol=1e-8, atol=1e-10)
    options = {"standardize": "columns", "mean": "constant", "kernel": SquaredExponential(), "optimizer": "lbfgs"}
    gp, other = (held(**options, random_state=0).fit(Z, y) for Z in (X, rotated(X)))
    assert_allclose(other.predict(rotated(new)), gp.predict(new), atol=1e-4)  # of an optimiser


def test_the_date_line_is_no_border_and_a_pole_is_one_place():
    X, y = places()
    gp = GPRegressor(knots=20, coords="lonlat", random_state=0, n_jobs=1).fit(X, y)
    west, east = gp.predict([[179.95, 10.0], [-179.95, 10.0]])
    assert abs(west - east) < 1e-3  # a chord of 11 km, of a function that varies over thousands
    assert_array_equal(
        gp.predict([[360.0, 5.0], [185.0, 5.0]]).round(12), gp.predict([[0.0, 5.0], [-175.0, 5.0]]).round(12)
    )
    poles = gp.predict([[lon, 90.0] for lon in (-180, -77, 0, 12, 180)])
    assert_allclose(poles, poles[0], rtol=1e-12)


def test_moved_knots_stay_on_the_sphere():
    X, y = places(150)
    gp = GPRegressor(SquaredExponential(), knots=12, coords="lonlat", random_state=0, n_jobs=1).fit(X, y)
    Z = gp._fit.selection.Z * gp._fit.scaling.x_scale / RADIUS
    assert_allclose(np.linalg.norm(Z, axis=1), 1.0, rtol=1e-12)
    start = gp._fit.problem.initial_knots("kmeans", 12, np.random.default_rng(0)) * gp._fit.scaling.x_scale / RADIUS
    assert_allclose(np.linalg.norm(start, axis=1), 1.0, rtol=1e-12)
    assert_allclose(unit(gp.knots_), Z, atol=1e-12)  # they are shown in degrees
    again = GPRegressor(SquaredExponential(), knots=gp.knots_, coords="lonlat", optimizer=None).fit(X, y)
    assert_allclose(again.knots_, gp.knots_, rtol=1e-12)


def test_the_gradient_on_the_sphere_is_the_derivative():
    X, y = places()
    gp = GPRegressor(
        SquaredExponential(1.0, 1.2, column_scales="standard"), knots=9, coords="lonlat", optimizer=None, random_state=0
    ).fit(X, y)
    objective = Objective(gp._fit.problem, gp._fit.selection.point, np.arange(9) % 2 == 0)
    rng = np.random.default_rng(0)
    vector = objective.vector + 0.05 * rng.normal(size=len(objective.vector))  # off the sphere, as an optimiser's are
    assert_adjoint(objective, at=vector, rng=rng, rtol=1e-6)
    radial = objective.point(vector).Z[::2] / np.linalg.norm(objective.point(vector).Z[::2], axis=1, keepdims=True)
    slope = objective(objective.vector)[1][-15:].reshape(5, 3)
    inward = objective.start.Z[::2] / np.linalg.norm(objective.start.Z[::2], axis=1, keepdims=True)
    assert_allclose((slope * inward).sum(1), 0.0, atol=1e-9 * np.abs(slope).max())
    assert radial.shape == (5, 3)


def test_other_columns_stand_beside_a_place(tmp_path):
    X, y = places()
    frame = pd.DataFrame({"height": np.linspace(0, 1, N), "Longitude": X[:, 0], "lat": X[:, 1]})
    gp = GPRegressor(SquaredExponential(ard=True), coords="lonlat", random_state=0, n_jobs=1).fit(frame, y)
    assert gp.parameters_.names[1:3] == ("lengthscale[height]", "lengthscale[Longitude,lat]")
    named = GPRegressor(
        SquaredExponential(ard=True), coords=("lonlat", ["Longitude", "lat"]), random_state=0, n_jobs=1
    ).fit(frame, y)
    assert_array_equal(named.predict(frame), gp.predict(frame))
    on = SquaredExponential(1.0, 1.0, column_scales="standard").on(["Longitude", "lat"])
    assert GPRegressor(on, coords="lonlat", optimizer=None).fit(frame, y).kernel_.indices() == [1, 2, 3]
    with pytest.raises(InvalidInputError, match="Name both"):
        GPRegressor(SquaredExponential().on("lat"), coords="lonlat").fit(frame, y)
    gp.save(tmp_path / "model.knotwise")
    assert_array_equal(knotwise.load(tmp_path / "model.knotwise").predict(frame), gp.predict(frame))


def test_degrees_far_from_the_equator_without_coords_get_a_warning_that_names_projection():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"lon": rng.uniform(5, 30, 40), "lat": rng.uniform(58, 70, 40)})
    y = np.sin(frame["lon"].to_numpy())
    options = {"kernel": SquaredExponential(), "optimizer": None}
    with pytest.warns(FitWarning, match=r"latitude 6\d a degree of longitude is 0\.4.*coords='lonlat'.*projection"):
        GPRegressor(**options).fit(frame, y)
    GPRegressor(**options, coords="lonlat").fit(frame, y)
    GPRegressor(**options).fit(frame.assign(lat=frame["lat"] - 60), y)  # near the equator


@pytest.mark.parametrize(
    ("row", "message"), [([0.0, 91.0], "'lat' is 91 in row 2.*-90 and 90"), ([-200.0, 3.0], "'lon' is -200 in row 2")]
)
def test_degrees_beyond_the_globe_are_refused(row, message):
    X, y = places()
    bad = X.copy()
    bad[2] = row
    with pytest.raises(InvalidInputError, match=message):
        held().fit(bad, y)
    with pytest.raises(InvalidInputError, match=message):
        held().fit(X, y).predict(bad)
