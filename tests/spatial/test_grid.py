"""Maps on grids, and totals over regions: what the model says at each centre, wherever it is shown."""

import geopandas as gpd
import numpy as np
import pandas as pd
import pytest
import shapely
import xarray as xr
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm

import knotwise
from knotwise import GPClassifier, GPRegressor, kernels
from knotwise.errors import InvalidInputError, NoTrainingDataError
from knotwise.likelihoods import Gaussian
from knotwise.posterior.base import Latent
from knotwise.prediction import Prediction
from knotwise.spatial import count_points, predict_grid, predict_total
from knotwise.spatial.grids import spread_of_mean

RNG = np.random.default_rng(8)
SMOOTH = kernels.SquaredExponential()
X = RNG.uniform(size=(70, 2))
F = np.sin(5 * X[:, 0]) + X[:, 1]
POINTS = RNG.uniform(size=(300, 2)) ** [1.7, 1.0]
ISLAND = shapely.Point(0.45, 0.5).buffer(0.4)


def slope(x, y):
    return x - y**2


@pytest.fixture(scope="module")
def heights():
    return GPRegressor(SMOOTH, knots=12, random_state=0).fit(X, F)


@pytest.fixture(scope="module")
def trees():
    """Counts with a covariate, a nugget and areas."""
    cells = count_points(POINTS, (0, 0, 1, 1), cell=0.1, covariates={"slope": slope})
    gp = GPRegressor(SMOOTH, likelihood="poisson", nugget=0.2, knots=10, random_state=0)
    return gp.fit(cells.X, cells.count, exposure=cells.area)


def rows_of(grid, **covariates):
    x, y = (part.ravel() for part in np.meshgrid(grid["x"], grid["y"]))
    return pd.DataFrame({"x": x, "y": y} | {name: source(x, y) for name, source in covariates.items()})


def flat(grid, name):
    return grid[name].to_numpy().ravel()


def test_a_grid_is_what_the_model_predicts_at_its_centres(heights):
    grid = predict_grid(heights, spacing=(0.1, 0.05), region=(0, 0, 1, 1), threshold=1.0, level=0.9)
    assert grid["mean"].shape == (20, 10)
    assert_allclose(grid["x"], np.arange(0.05, 1, 0.1))
    rows = rows_of(grid).to_numpy()
    latent = heights.predict_latent(rows)
    assert_array_equal(flat(grid, "mean"), heights.predict(rows))
    assert_allclose(flat(grid, "sd"), latent.std, rtol=1e-10)
    assert_array_equal(
        np.column_stack([flat(grid, "lower"), flat(grid, "upper")]), heights.predict_interval(rows, 0.9, "mean")
    )
    assert_array_equal(flat(grid, "exceedance"), heights.predict_exceedance(rows, 1.0))
    observed = predict_grid(heights, spacing=(0.1, 0.05), region=(0, 0, 1, 1), kind="observation")
    assert_array_equal(flat(observed, "sd"), heights.predict(rows, return_std=True)[1])
    assert_array_equal(flat(observed, "upper"), heights.predict_interval(rows)[:, 1])


def test_an_intensity_is_that_of_the_model_with_its_covariate(trees):
    grid = predict_grid(trees, spacing=0.1, region=(0, 0, 1, 1), covariates={"slope": slope})
    rows = rows_of(grid, slope=slope)
    assert_array_equal(flat(grid, "mean"), trees.predict(rows, exposure=1))
    f = trees.sample_latent(rows, 4000, random_state=0)
    sampled = np.exp(f + trees.nugget_ / 2)  # of the mean response, averaged over the nugget
    assert_allclose(flat(grid, "mean"), sampled.mean(0), rtol=0.05)
    assert_allclose(flat(grid, "sd"), sampled.std(0), rtol=0.1)


def test_the_spread_of_a_probability_is_its_integral():
    labels = np.where(F > 1, "present", "absent")
    gp = GPClassifier(SMOOTH, nugget=0.3, knots=8, random_state=0, optimizer=None).fit(X, labels)
    grid = predict_grid(gp, spacing=0.5, region=(0, 0, 1, 1))
    rows = rows_of(grid).to_numpy()
    assert_allclose(flat(grid, "mean"), gp.predict_proba(rows)[:, 1], rtol=1e-12)
    z = np.linspace(-9, 9, 2001)
    weights = norm.pdf(z) / norm.pdf(z).sum()
    for mean, sd, found in zip(*latent_of(gp, rows), flat(grid, "sd"), strict=True):
        p = weights @ (1 / (1 + np.exp(-(mean + sd * z + np.sqrt(0.3) * z[:, None]))))  # averaged over the nugget
        assert_allclose(found, np.sqrt(weights @ p**2 - (weights @ p) ** 2), rtol=1e-6)


def latent_of(gp, rows):
    latent = gp.predict_latent(rows)
    return latent.mean, latent.std


@pytest.mark.parametrize("chunk", [7, 10_000])
def test_chunks_change_no_value(trees, chunk):
    whole = predict_grid(trees, spacing=0.125, region=ISLAND, covariates={"slope": slope}, threshold=300)
    parts = predict_grid(trees, spacing=0.125, region=ISLAND, covariates={"slope": slope}, threshold=300, chunk=chunk)
    for name in whole.data_vars:
        assert_allclose(parts[name], whole[name], rtol=1e-12)


def test_masks_are_those_of_brute_force(heights):
    grid = predict_grid(heights, spacing=0.04, region=(-0.3, -0.3, 1.3, 1.3), max_distance=0.12)
    rows = rows_of(grid).to_numpy()
    distance = np.sqrt(((rows[:, None] - X) ** 2).sum(-1)).min(1)
    assert_array_equal(np.isfinite(flat(grid, "mean")), distance <= 0.12)
    given = predict_grid(heights, spacing=0.04, region=(-0.3, -0.3, 1.3, 1.3), max_distance=0.12, data=X[:5])
    distance = np.sqrt(((rows[:, None] - X[:5]) ** 2).sum(-1)).min(1)
    assert_array_equal(np.isfinite(flat(given, "mean")), distance <= 0.12)
    masked = predict_grid(heights, spacing=0.04, region=ISLAND, max_distance=0.12)
    rows = rows_of(masked).to_numpy()
    distance = np.sqrt(((rows[:, None] - X) ** 2).sum(-1)).min(1)
    inside = [ISLAND.contains(shapely.Point(*row)) for row in rows]
    assert_array_equal(np.isfinite(flat(masked, "sd")), inside & (distance <= 0.12))


def test_totals_on_a_grid_are_those_of_regions_in_the_same_cells(trees):
    grid = predict_grid(trees, spacing=0.05, region=(0, 0, 1, 1), covariates={"slope": slope})
    halves = {"west": (0, 0, 0.5, 1), "east": (0.5, 0, 1, 1)}
    totals = predict_total(trees, halves, cell=0.05, covariates={"slope": slope}, random_state=0)
    assert totals.group.tolist() == ["west", "east"]
    west = grid["mean"].where(grid["x"] < 0.5, drop=True)
    assert_allclose(totals.estimate, [west.sum() * 0.05**2, (grid["mean"].sum() - west.sum()) * 0.05**2], rtol=1e-10)
    direct = trees.predict_total(
        rows_of(grid, slope=slope), exposure=0.05**2, groups=np.where(rows_of(grid)["x"] < 0.5, 0, 1), random_state=0
    )
    # the centres differ in the last digit, which changes the order in which rows are drawn
    assert_allclose([totals.lower, totals.upper], [direct.lower, direct.upper], rtol=0.01)
    rates = predict_total(trees, halves, cell=0.05, covariates={"slope": slope}, statistic="mean", random_state=0)
    assert_allclose(rates.estimate, totals.estimate / 0.5, rtol=1e-10)


def test_the_total_of_an_island_with_a_lake_and_a_sliver_is_the_integral_of_the_intensity(trees):
    lake, sliver = shapely.Point(0.4, 0.5).buffer(0.15), shapely.Polygon([(0.9, 0.05), (0.98, 0.02), (0.95, 0.3)])
    region = (ISLAND - lake) | sliver
    total = predict_total(trees, region, cell=0.02, covariates={"slope": slope}, random_state=0)
    x, y = np.random.default_rng(0).uniform(size=(2, 20_000))
    rows = pd.DataFrame({"x": x, "y": y, "slope": slope(x, y)})
    thrown = trees.predict(rows, exposure=1) * shapely.contains_xy(region, x, y)
    assert abs(total.estimate[0] - thrown.mean()) < 4 * thrown.std() / len(x) ** 0.5


def test_labels_of_regions_are_the_index_a_column_or_all(heights):
    frame = gpd.GeoDataFrame({"name": ["b", "a"]}, geometry=[ISLAND, shapely.box(0, 0, 1, 1)], index=[7, 3])
    areas = [ISLAND.area, 1.0]
    assert predict_total(heights, frame, cell=0.2).group.tolist() == [7, 3]
    named = predict_total(heights, frame, cell=0.2, by="name")
    assert named.group.tolist() == ["b", "a"]
    mean = predict_total(heights, frame, cell=0.2, statistic="mean")
    assert_allclose(named.estimate, mean.estimate * areas, rtol=1e-10)  # of a height: its integral over the region
    assert predict_total(heights, ISLAND, cell=0.2).group.tolist() == ["all"]
    with pytest.raises(InvalidInputError, match=r"`by` is 'nmae'.*Did you mean 'name'"):
        predict_total(heights, frame, cell=0.2, by="nmae")
    with pytest.raises(InvalidInputError, match=r"label 'b' stands for several regions.*dissolve"):
        predict_total(heights, frame.assign(name="b"), cell=0.2, by="name")


def test_the_grid_has_the_crs_of_the_fit_and_other_ones_are_refused():
    frame = gpd.GeoDataFrame(geometry=gpd.points_from_xy(*(1000 * X).T), crs=27700)
    gp = GPRegressor(SMOOTH, knots=5, random_state=0).fit(frame, F)
    region = gpd.GeoSeries([shapely.box(0, 0, 1000, 1000)], crs=27700)
    grid = predict_grid(gp, spacing=250, region=region)
    assert grid.attrs["crs"] == "EPSG:27700" and "OSGB" in grid["spatial_ref"].attrs["crs_wkt"]
    assert_array_equal(
        predict_grid(gp, spacing=250)["mean"].shape, np.ceil((1000 * X).max(0) - (1000 * X).min(0))[::-1] // 250 + 1
    )
    with pytest.raises(InvalidInputError, match=r"region is in EPSG:4326.*fitted in EPSG:27700.*region.to_crs"):
        predict_grid(gp, spacing=250, region=region.to_crs(4326))
    with pytest.raises(InvalidInputError, match=r"regions is in EPSG:4326.*fitted in EPSG:27700"):
        predict_total(gp, region.to_crs(4326), cell=250)


def test_a_model_from_a_file_maps_a_region_and_says_what_it_does_not_know(heights, tmp_path):
    heights.save(tmp_path / "model.knotwise")
    loaded = knotwise.load(tmp_path / "model.knotwise")
    region = (0, 0, 1, 1)
    assert_array_equal(
        predict_grid(loaded, spacing=0.2, region=region)["mean"],
        predict_grid(heights, spacing=0.2, region=region)["mean"],
    )
    for options in ({}, {"region": region, "max_distance": 0.1}):
        with pytest.raises(NoTrainingDataError, match="Give `region`, and `data` with `max_distance`"):
            predict_grid(loaded, spacing=0.2, **options)


def test_columns_that_are_missing_or_misspelt_are_named(trees, heights):
    with pytest.raises(InvalidInputError, match="`covariates` has no 'slope'"):
        predict_grid(trees, spacing=0.2, region=(0, 0, 1, 1))
    with pytest.raises(InvalidInputError, match=r"has no 'slope'\. Did you mean 'slopes'"):
        predict_grid(trees, spacing=0.2, region=(0, 0, 1, 1), covariates={"slopes": slope})
    with pytest.raises(InvalidInputError, match="it has no covariate 'depth'"):
        predict_grid(trees, spacing=0.2, region=(0, 0, 1, 1), covariates={"slope": slope, "depth": slope})
    with pytest.raises(InvalidInputError, match=r"has 2 columns.*`covariates` has 1"):
        predict_grid(heights, spacing=0.2, region=(0, 0, 1, 1), covariates={"slope": slope})
    swapped = GPRegressor(SMOOTH, knots=5, random_state=0)
    swapped.fit(pd.DataFrame({"slope": slope(*X.T), "y": X[:, 1], "x": X[:, 0]}), F)
    grid = predict_grid(swapped, spacing=0.5, region=(0, 0, 1, 1), covariates={"slope": slope})
    assert_array_equal(flat(grid, "mean"), swapped.predict(rows_of(grid, slope=slope)[["slope", "y", "x"]]))


def test_what_has_no_meaning_is_refused(trees, heights):
    counts = GPRegressor(SMOOTH, likelihood="poisson", knots=5, random_state=0, optimizer=None).fit(X, np.round(F + 2))
    with pytest.raises(InvalidInputError, match=r"fitted without `exposure`.*exposure=cells.area"):
        predict_total(counts, ISLAND, cell=0.2)
    with pytest.raises(InvalidInputError, match=r"Write `predict_grid\(gp, kind='observation', exposure=...\)`"):
        predict_grid(trees, spacing=0.2, region=ISLAND, kind="observation", covariates={"slope": slope})
    several = GPClassifier(SMOOTH, knots=4, random_state=0, optimizer=None).fit(X, np.digitize(F, [0, 1]))
    with pytest.raises(InvalidInputError, match="second of two classes"):
        predict_grid(several, spacing=0.2)
    with pytest.raises(InvalidInputError, match="`max_distance` is measured"):
        predict_grid(heights, spacing=0.2, data=X)
    with pytest.raises(InvalidInputError, match=r"No centre of the grid.s 16 cells lies in the region and within 0\.1"):
        predict_grid(heights, spacing=0.25, region=(5, 5, 6, 6), max_distance=0.1)
    line = GPRegressor(SMOOTH, knots=3, optimizer=None).fit(X[:, :1], F)
    with pytest.raises(InvalidInputError, match="needs two columns"):
        predict_grid(line, spacing=0.25, region=(0, 0, 1, 1))
    with pytest.raises(InvalidInputError, match="`kind` is 'latent'"):
        predict_grid(heights, spacing=0.2, kind="latent")


# -- covariates of a map --------------------------------------------------------------------------


def test_cells_where_a_covariate_has_no_value_are_gaps_of_the_map(trees):
    side = np.arange(0.05, 1, 0.1)
    raster = xr.DataArray(slope(*np.meshgrid(side, side)), coords={"y": side, "x": side}, dims=("y", "x"))
    raster = raster.where(raster["x"] < 0.7).isel(y=slice(None, None, -1))  # the sea, and rows from north to south
    grid = predict_grid(trees, spacing=0.1, region=(0, 0, 1, 1), covariates=xr.Dataset({"slope": raster, "crs": 0}))
    full = predict_grid(trees, spacing=0.1, region=(0, 0, 1, 1), covariates={"slope": slope})
    assert_array_equal(np.isfinite(grid["mean"]).any("y"), grid["x"] < 0.7)
    assert_allclose(grid["mean"].sel(x=slice(0, 0.7)), full["mean"].sel(x=slice(0, 0.7)), rtol=1e-12)
    with pytest.raises(InvalidInputError, match=r"no value anywhere on the map, such as at \(10.05, 0.05\)\. Are they"):
        predict_grid(trees, spacing=0.1, region=(10, 0, 11, 1), covariates={"slope": raster})
    with pytest.raises(InvalidInputError, match=r"'slope' has no value"):
        predict_total(trees, (0, 0, 1, 1), cell=0.1, covariates={"slope": raster})


def test_levels_and_dates_of_a_map_are_those_of_a_table():
    table = pd.DataFrame(X, columns=["easting", "northing"])
    table = table.assign(soil=np.where(F > 1, "clay", "sand"), day=pd.date_range("2026-01-01", periods=len(X)))
    gp = GPRegressor(SMOOTH, knots=8, random_state=0, optimizer=None).fit(table, F)
    side = np.array([0.25, 0.75])
    map_of_soils = xr.DataArray([["clay", "sand"], ["sand", "sand"]], coords={"y": side, "x": side}, dims=("y", "x"))
    when = pd.Timestamp("2026-02-01")
    grid = predict_grid(gp, spacing=0.25, region=(0, 0, 1, 1), covariates={"soil": map_of_soils, "day": when})
    rows = rows_of(grid).set_axis(["easting", "northing"], axis=1)
    soil = np.where((rows["easting"] < 0.5) & (rows["northing"] < 0.5), "clay", "sand")
    assert_array_equal(flat(grid, "mean"), gp.predict(rows.assign(soil=soil, day=when)))
    one = predict_grid(gp, spacing=0.25, region=(0, 0, 1, 1), covariates={"soil": "clay", "day": when})
    assert_array_equal(flat(one, "mean"), gp.predict(rows.assign(soil="clay", day=when)))
    assert predict_grid(gp, spacing=0.5, covariates={"soil": "clay", "day": when})["x"][0] == X[:, 0].min() + 0.25
    codes = GPRegressor(SMOOTH, knots=4, categorical=["zone"], random_state=0, optimizer=None)
    codes.fit(pd.DataFrame(X, columns=["x", "y"]).assign(zone=1 + (F > 1)), F)
    zones = xr.DataArray([[1, 2], [2, 2]], coords={"y": side, "x": side}, dims=("y", "x"))
    grid = predict_grid(codes, spacing=0.25, region=(0, 0, 1, 1), covariates={"zone": zones})  # none between 1 and 2
    assert_array_equal(flat(grid, "mean"), codes.predict(rows_of(grid).assign(zone=1 + (soil == "sand"))))


def test_an_offset_is_the_logarithm_of_the_exposure_of_a_cell(trees):
    options = {"spacing": 0.25, "region": (0, 0, 1, 1), "covariates": {"slope": slope}, "kind": "observation"}
    xr.testing.assert_identical(
        predict_grid(trees, offset=np.log(0.25), **options),
        predict_grid(trees, exposure=np.exp(np.log(0.25)), **options),
    )
    with pytest.raises(InvalidInputError, match="both given"):
        predict_grid(trees, offset=0.0, exposure=1.0, **options)
    with pytest.raises(InvalidInputError, match="`exposure` has shape"):
        predict_grid(trees, exposure=np.ones(16), **options)


# -- the globe ------------------------------------------------------------------------------------


def globe(west, order=("lon", "lat")):
    """A model of 60 places, from this longitude on for 20 degrees; the function knows the longitude from there."""
    places = np.random.default_rng(5).uniform((0, 50), (20, 70), size=(60, 2))
    lon = (west + places[:, 0] + 180) % 360 - 180
    table = pd.DataFrame({"lon": lon, "lat": places[:, 1], "height": places[:, 0]})[list(order)]
    gp = GPRegressor(SMOOTH, coords="lonlat", approximation="full", optimizer=None)
    return gp.fit(table, np.sin(places[:, 0] / 4) + places[:, 1] / 20), table


@pytest.mark.parametrize("west", [-10.0, 170.0])
def test_a_map_of_the_globe_goes_across_the_date_line_and_masks_by_kilometres(west):
    gp, table = globe(west)
    around = predict_grid(gp, spacing=1.0)
    assert west <= around["x"].min() < west + 2 and around["x"].max() > west + 18 and around["y"].min() > 50
    region = (west, 45, (west + 30 + 180) % 360 - 180, 75)
    grid = predict_grid(gp, spacing=1.0, region=region, max_distance=150, chunk=100)
    rows = rows_of(grid).set_axis(["lon", "lat"], axis=1)
    lon, lat = np.radians(rows.to_numpy()).T[:, :, None]
    lon_of_data, lat_of_data = np.radians(table.to_numpy()).T[:, None]
    half = np.sin((lat - lat_of_data) / 2) ** 2
    half = half + np.cos(lat) * np.cos(lat_of_data) * np.sin((lon - lon_of_data) / 2) ** 2
    near = (2 * 6371.0088 * np.sqrt(half)).min(1) <= 150
    assert_array_equal(np.isfinite(flat(grid, "mean")), near)
    assert_allclose(flat(grid, "mean")[near], gp.predict(rows)[near], rtol=1e-12)


def test_the_date_line_changes_no_map():
    here, there = (predict_grid(globe(west)[0], spacing=2.0) for west in (-10.0, 170.0))
    assert_allclose(here["x"], there["x"] - 180, rtol=1e-12)
    for name in here.data_vars:
        assert_allclose(here[name], there[name], rtol=1e-6, err_msg=name)


def test_longitude_and_latitude_of_a_map_are_found_in_any_order():
    gp, table = globe(-10.0, order=("height", "lat", "lon"))
    grid = predict_grid(gp, spacing=5.0, region=(-10, 50, 10, 70), covariates={"height": 3.0})
    rows = rows_of(grid).set_axis(["lon", "lat"], axis=1).assign(height=3.0)
    assert_array_equal(flat(grid, "mean"), gp.predict(rows[list(table.columns)]))
    turned = xr.DataArray(np.arange(0.0, 360), coords={"lon": np.arange(0.0, 360)}, dims="lon")
    turned = turned.expand_dims(lat=[40.0, 60.0, 80.0])  # a grid of longitudes 0 to 360, and a map of -10 to 10
    grid = predict_grid(gp, spacing=0.4, region=(-10, 59, 10, 60), covariates={"height": turned})
    rows = rows_of(grid).set_axis(["lon", "lat"], axis=1)
    height = np.where((rows["lon"] > -1) & (rows["lon"] < -0.5), 359, rows["lon"] % 360)
    height = np.where((rows["lon"] >= -0.5) & (rows["lon"] < 0), 0, height)  # beside the seam the nearest
    assert_allclose(flat(grid, "mean"), gp.predict(rows.assign(height=height)[list(table.columns)]), rtol=1e-12)


def test_degrees_have_no_totals(heights):
    with pytest.raises(InvalidInputError, match="square degree is not an area"):
        predict_total(globe(-10.0)[0], (-10, 50, 10, 70), cell=1.0)
    with pytest.raises(InvalidInputError, match=r"in degrees \(EPSG:4326\)"):  # the model does not know its map
        predict_total(heights, gpd.GeoSeries([ISLAND], crs=4326), cell=0.2)


def test_what_is_no_model_and_regions_without_a_label_are_refused(heights):
    from sklearn.linear_model import LinearRegression
    from sklearn.pipeline import make_pipeline

    for other in (LinearRegression(), make_pipeline(GPRegressor())):
        with pytest.raises(InvalidInputError, match=r"GPRegressor or GPClassifier, not of a .*pipeline\[-1\]"):
            predict_grid(other, spacing=0.2)
    halves = [shapely.box(0, 0, 0.5, 1), shapely.box(0.5, 0, 1, 1)]
    assert predict_total(heights, halves, cell=0.25).group.tolist() == [0, 1]
    named = gpd.GeoDataFrame({"name": ["a", None]}, geometry=halves)
    with pytest.raises(InvalidInputError, match="region in row 1 has no label"):
        predict_total(heights, named, by="name", cell=0.25)


def test_the_spread_of_the_mean_of_a_mixture_is_that_of_f_for_gaussian_data():
    rng = np.random.default_rng(5)
    mean, variance = rng.normal(size=(3, 5)), rng.uniform(0.1, 1, (3, 5))
    each = [Prediction.of(Gaussian(0.3), Latent(*one)) for one in zip(mean, variance, strict=True)]
    mixed = Prediction.mixture(each, [1, 2, 3])
    share = np.array([1, 2, 3]) / 6
    expected = share @ (variance + mean**2) - (share @ mean) ** 2
    assert_allclose(spread_of_mean(mixed) ** 2, expected, rtol=1e-12)
