"""Range, sill and nugget against closed forms, and semivariances of data against their definition."""

from itertools import pairwise
from math import exp, sqrt

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from knotwise import GPRegressor, load
from knotwise.diagnosis.semivariance import Pairs, empirical_variogram, fitted_semivariance
from knotwise.errors import InvalidInputError
from knotwise.kernels import (
    Constant,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    RationalQuadratic,
    SquaredExponential,
)
from knotwise.kernels.ranges import columns_seen, reach_along, summands
from knotwise.likelihoods import Gaussian
from knotwise.means import Linear as Trend

RNG = np.random.default_rng(3)
FRAME = pd.DataFrame(RNG.uniform(0, 1, size=(80, 3)) * [100, 50, 8], columns=["east", "north", "day"])
Y = np.sin(FRAME["east"] / 9) + np.cos(FRAME["north"] / 9) + 0.3 * RNG.normal(size=80)


def fit(kernel, **options):
    settings = {"approximation": "full", "n_jobs": 1, "random_state": 0} | options
    return GPRegressor(kernel, **settings).fit(FRAME, Y)


def lines(gp, quantity):
    return [line for line in gp.parameters_.variogram() if line.quantity == quantity]


# -- ranges -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "correlation"),
    [
        (SquaredExponential(2.0), lambda r: exp(-(r**2) / 2)),
        (Matern12(2.0), lambda r: exp(-r)),
        (Matern32(2.0), lambda r: (1 + sqrt(3) * r) * exp(-sqrt(3) * r)),
        (Matern52(2.0), lambda r: (1 + sqrt(5) * r + 5 * r**2 / 3) * exp(-sqrt(5) * r)),
        (RationalQuadratic(2.0, None, 0.5), lambda r: (1 + r**2) ** -0.5),
    ],
    ids=lambda value: type(value).__name__,
)
def test_at_the_practical_range_the_correlation_is_a_twentieth(kernel, correlation):
    for lengthscale in (1e-3, 1.0, 40.0):
        found = reach_along(kernel.with_values(lengthscale=lengthscale), 0, 2)
        assert_allclose(correlation(found.distance / lengthscale), 0.05, rtol=1e-11)


@pytest.mark.parametrize(
    "kernel",
    [
        Matern32(0.7, [0.5, 2.0]),
        RationalQuadratic(0.7, 0.8, 1.7),
        SquaredExponential(0.7, 0.4) * Matern12(1.0, [0.9, 3.0]),
    ],
    ids=["ard", "shape", "product"],
)
def test_the_gradient_of_a_log_range_is_its_derivative(kernel):
    theta, h = kernel.theta, 1e-5
    for column in (0, 1):
        found = reach_along(kernel, column, 2)
        for i in range(len(theta)):
            step = h * np.eye(len(theta))[i]
            up, down = (np.log(reach_along(kernel.with_theta(theta + s), column, 2).distance) for s in (step, -step))
            assert_allclose(found.log_bar[i], (up - down) / (2 * h), atol=1e-8)


def test_summands_have_the_parameters_of_a_sum_in_their_order():
    kernel = (Matern32(1.0, 2.0) + Constant(3.0)).on([1, 2]) + SquaredExponential(4.0, 5.0) * Periodic(1.0, 1.0, 6.0)
    parts = summands(kernel)
    assert_array_equal(np.concatenate([part.theta for part in parts]), kernel.theta)
    assert [columns_seen(part, 4) for part in parts] == [[1, 2], [], [0, 1, 2, 3]]
    X = RNG.normal(size=(5, 4))
    assert_allclose(sum(part(X) for part in parts), kernel(X), rtol=1e-14)


# -- the table ----------------------------------------------------------------------------------------


def test_nugget_and_sill_are_noise_and_variance_with_their_intervals():
    gp = fit(Matern32().on(["east", "north"]), standardize="common")
    frame = gp.parameters_.to_frame().set_index("parameter")
    (nugget,), (partial,), (sill,), (reach,) = (lines(gp, q) for q in ("nugget", "partial sill", "sill", "range"))
    for line, name in ((nugget, "noise_variance"), (partial, "kernel__variance")):
        row = frame.loc[name]
        expected = row[["data_value", "data_standard_error", "data_lower_95", "data_upper_95"]].to_numpy(float)
        assert_allclose([line.estimate, line.standard_error, line.lower_95, line.upper_95], expected, rtol=1e-12)
    # var(a + b) for a = e^s, b = e^t, by the covariance of (s, t)
    cov = gp.parameters_.standard_errors().covariance[np.ix_([0, 2], [0, 2])]
    both = np.array([partial.estimate, nugget.estimate])
    assert_allclose(sill.standard_error, np.sqrt(both @ cov @ both), rtol=1e-12)
    assert_allclose(sill.estimate, both.sum(), rtol=1e-14)
    factor = reach_along(Matern32(1.0, 1.0), 0, 1).distance
    assert_allclose(reach.estimate, factor * frame.loc["kernel__lengthscale", "data_value"], rtol=1e-6)
    assert_allclose(reach.upper_95, factor * frame.loc["kernel__lengthscale", "data_upper_95"], rtol=1e-6)
    assert reach.column == "east, north"


def test_each_column_of_another_scale_has_its_range_in_its_units():
    gp = fit(SquaredExponential().on(["east", "north"]))
    east, north = lines(gp, "range")
    spread = FRAME[["east", "north"]].std(ddof=0)
    assert (east.column, east.units, north.column) == ("east", "east", "north")
    assert_allclose(east.estimate / north.estimate, spread["east"] / spread["north"], rtol=1e-9)


def test_other_units_of_the_data_change_the_numbers_by_their_factors():
    one = fit(Matern32(ard=True)).parameters_.variogram().to_frame()
    gp = GPRegressor(Matern32(ard=True), approximation="full", random_state=0).fit(FRAME * [1000, 1, 4], 8 * Y)
    other = gp.parameters_.variogram().to_frame()
    factors = np.where(one["quantity"] == "range", one["column"].map({"east": 1000, "north": 1, "day": 4}), 64)
    shaky = one["note"] != ""
    for name in ("estimate", "lower_95", "upper_95"):
        assert_allclose((other[name] / one[name])[~shaky], factors[~shaky], rtol=2e-2)


def test_a_sum_has_a_line_for_each_part_and_says_what_has_no_range():
    kernel = (
        Matern12(1.0, 0.5, column_scales="standard").on(["east", "north"])
        + Periodic(0.5, 1.0, 3.0).on("day")
        + Constant(2.0)
    )
    gp = fit(kernel, optimizer=None, likelihood=Gaussian(0.25))
    found = gp.parameters_.variogram()
    assert [line.quantity for line in found] == ["nugget", *["partial sill"] * 3, "sill", *["range"] * 3]
    assert_allclose([line.estimate for line in found][:3], [0.25, 1.0, 0.5])
    assert_allclose(lines(gp, "sill")[0].estimate, 0.25 + 1.0 + 0.5)
    assert "a level" in found[3].note and "every period" in found[7].note
    assert (found[5].part, found[5].column, found[6].column) == ("Matern12", "east", "north")


def test_a_part_that_is_not_stationary_has_no_sill():
    gp = fit(
        Matern12(1.0, 0.5, column_scales="standard") + Linear(0.3, column_scales="standard").on("day"), optimizer=None
    )
    assert "no limit" in lines(gp, "partial sill")[1].note and "no limit" in lines(gp, "sill")[0].note
    assert np.isnan(lines(gp, "sill")[0].estimate)


def test_what_is_held_is_known_and_what_is_at_a_bound_has_no_interval():
    gp = fit(Matern32(0.8).on(["east", "north"]), fixed=["kernel__variance"])
    assert lines(gp, "partial sill")[0].note == "fixed"
    (sill,), (nugget,) = lines(gp, "sill"), lines(gp, "nugget")
    assert_allclose(sill.standard_error, nugget.standard_error, rtol=1e-12)
    bound = {"kernel__lengthscale": (0.001, 0.01)}
    gp = fit(Matern32(None, 0.005, column_scales="standard").on(["east", "north"]), bounds=bound, standardize="common")
    (reach,) = lines(gp, "range")
    assert reach.note == "kernel__lengthscale at its upper bound" and np.isnan(reach.upper_95)


def test_counts_have_the_latent_nugget_and_no_units_of_y(tmp_path):
    counts = RNG.poisson(3, 80)
    options = {"knots": 6, "inference": "laplace", "random_state": 0, "n_jobs": 1}
    gp = GPRegressor(Matern32().on(["east", "north"]), "poisson", nugget=0.2, **options).fit(FRAME, counts)
    (nugget,), (sill,) = lines(gp, "nugget"), lines(gp, "sill")
    assert nugget.estimate == 0.2 and nugget.note == "fixed" and sill.units == ""
    gp.save(tmp_path / "counts.gp")
    again = load(tmp_path / "counts.gp").parameters_.variogram()
    assert_allclose([line.estimate for line in again], [line.estimate for line in gp.parameters_.variogram()])
    assert [line.note for line in again] == [line.note for line in gp.parameters_.variogram()]  # the file has them


def test_a_summary_has_it_when_asked():
    gp = fit(Matern32())
    assert "partial sill" in gp.summary(variogram=True) and "partial sill" not in gp.summary()


def test_a_table_that_is_not_of_a_fit_says_so():
    table = fit(Matern32()).parameters_
    with pytest.raises(InvalidInputError, match="fitted model"):
        table.with_theta(table.theta).variogram()


# -- semivariances of data ----------------------------------------------------------------------------


def empirical(gp, **options):
    X, rng = FRAME.to_numpy(), np.random.default_rng(0)
    settings = {"noise_variance": None, "n_bins": 6, "max_distance": None, "robust": False, "n_simulations": 0}
    return empirical_variogram(gp, X, Y.to_numpy(), **settings | {"max_rows": 500, "rng": rng} | options)


@pytest.mark.parametrize("robust", [False, True])
def test_semivariances_are_those_of_the_definition(robust):
    gp = fit(Matern32().on(["east", "north"]), standardize="common")
    found = empirical(gp, robust=robust, max_distance=40.0)
    places, edges = FRAME[["east", "north"]].to_numpy(), np.linspace(0, 40, 7)
    by_bin = [[] for _ in edges[1:]]
    for i in range(80):
        for j in range(i):
            distance = np.linalg.norm(places[i] - places[j])
            for number, (low, high) in enumerate(pairwise(edges)):
                if low <= distance < high:
                    by_bin[number].append((distance, abs(Y[i] - Y[j])))
    for number, pairs in enumerate(by_bin):
        distance, difference = np.array(pairs).T
        expected = np.mean(difference**2) / 2
        if robust:
            expected = np.mean(np.sqrt(difference)) ** 4 / (0.457 + 0.494 / len(pairs)) / 2
        assert found.n_pairs[number] == len(pairs)
        assert_allclose(found.distance[number], distance.mean(), rtol=1e-12)
        assert_allclose(found.semivariance[number], expected, rtol=1e-10)


def test_the_fitted_curve_is_the_formula_of_an_isotropic_kernel():
    gp = fit(Matern12().on(["east", "north"]), standardize="common")
    h = np.array([0.5, 5.0, 60.0])
    nugget, sill, _, reach = (line.estimate for line in gp.parameters_.variogram())
    expected = nugget + sill * (1 - 0.05 ** (h / reach))
    assert_allclose(fitted_semivariance(gp, empirical(gp), h), expected, rtol=1e-9)


def test_the_trend_is_taken_off_by_generalised_least_squares():
    """The residuals of which semivariances are taken are y minus the trend of `coefficients_`."""
    gp = fit(Matern32().on(["east", "north"]), mean=Trend(columns=["day"]), standardize="common")
    slope = gp.coefficients_.estimate[1]
    found = empirical(gp)
    residual = (Y - slope * FRAME["day"]).to_numpy()
    flat = fit(Matern32().on(["east", "north"]), standardize="common")
    X = FRAME.to_numpy()
    given = {"noise_variance": None, "n_bins": 6, "max_distance": None, "robust": False, "n_simulations": 0}
    again = empirical_variogram(flat, X, residual, **given, max_rows=500, rng=np.random.default_rng(0))
    assert_allclose(found.semivariance, again.semivariance, rtol=1e-6)


def test_the_band_holds_data_that_the_model_has_made_and_not_others():
    """The share of bins of new data from the model inside the band of 99 others, over 20 data sets."""
    rng = np.random.default_rng(8)
    X = pd.DataFrame(rng.uniform(0, 100, size=(90, 2)), columns=["east", "north"])
    kernel = Matern32(1.0, 0.4 * np.sqrt(X.var(ddof=0).mean()))
    gp = GPRegressor(kernel, Gaussian(0.2), "full", mean=0.0, optimizer=None, standardize="common")
    L = np.linalg.cholesky(kernel(X.to_numpy()) + 0.2 * np.eye(90))
    held = []
    for _ in range(20):
        y = L @ rng.standard_normal(90)
        gp.fit(X, y)
        given = {"noise_variance": None, "n_bins": 8, "max_distance": None, "robust": False, "n_simulations": 99}
        found = empirical_variogram(gp, X.to_numpy(), y, **given, max_rows=500, rng=rng)
        held.append((found.lower <= found.semivariance) & (found.semivariance <= found.upper))
    assert 0.88 < np.mean(held) < 1.0
    noise = empirical_variogram(gp, X.to_numpy(), 3 * rng.standard_normal(90), **given, max_rows=500, rng=rng)
    assert (noise.semivariance > noise.upper).mean() > 0.8


def test_ranges_that_differ_much_make_distances_in_ranges():
    gp = GPRegressor(
        Matern12(1.0, [0.5, 0.5, 0.5], column_scales="standard"), Gaussian(0.1), "full", optimizer=None
    ).fit(FRAME * [1, 1, 1e4], Y)
    separation = empirical_variogram(
        gp, (FRAME * [1, 1, 1e4]).to_numpy(), Y.to_numpy(),
        noise_variance=None, n_bins=5, max_distance=None, robust=False, n_simulations=0, max_rows=500,
        rng=np.random.default_rng(0),
    ).separation  # fmt: skip
    assert separation.in_ranges
    assert_allclose(separation.unit, [line.estimate for line in gp.parameters_.variogram() if line.quantity == "range"])


def test_an_empty_bin_has_no_mean_and_no_warning():
    pairs = Pairs(np.array([0]), np.array([1]), np.array([2]), 4, False)
    found = pairs.semivariance(np.array([1.0, 4.0]))
    assert_array_equal(np.isnan(found), [True, True, False, True])
    assert found[2] == 4.5
