"""Maps on grids, and totals over regions: what the model says at each centre, wherever it is shown."""

import geopandas as gpd
import numpy as np
import pandas as pd
import pytest
import shapely
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm

import knotwise
from knotwise import GPClassifier, GPRegressor, kernels
from knotwise.errors import InvalidInputError, NoTrainingDataError
from knotwise.spatial import count_points, predict_grid, predict_total

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
    assert_array_equal(flat(grid, "mean"), trees.predict(rows))
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
