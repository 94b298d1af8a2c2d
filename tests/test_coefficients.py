"""Coefficients of a mean: against dense Bayesian linear models, their limits, and in any units."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist

import knotwise
from knotwise import GPRegressor
from knotwise.errors import InvalidInputError
from knotwise.kernels import SquaredExponential
from knotwise.likelihoods import Gaussian
from knotwise.means import Constant, Linear

N = 60
RNG = np.random.default_rng(11)
FRAME = pd.DataFrame(RNG.normal(size=(N, 2)) * [3.0, 0.5] + [40.0, -2.0], columns=["age", "dose"])
X = FRAME.to_numpy()
Y = 7 + 0.8 * X[:, 0] - 3 * X[:, 1] + np.sin(X[:, 0]) + 0.4 * RNG.normal(size=N)
VARIANCE, LENGTHSCALE, NOISE, JITTER = 1.3, 0.7, 0.2, 1e-10


def fit(mean, approximation="vfe", x=X, y=Y, unit=1.0, **options):
    """A model with every parameter given, through 15 knots on rows."""
    kernel = SquaredExponential(unit**2 * VARIANCE, LENGTHSCALE, column_scales="standard")
    settings = {"knots": np.asarray(x)[::4], "optimizer": None, "jitter": JITTER} | options
    return GPRegressor(kernel, Gaussian(unit**2 * NOISE), approximation, mean=mean, **settings).fit(x, y)


def covariance(approximation):
    """Of y without its mean: N x N, as the literature writes it."""
    S = (X - X.mean(0)) / X.std(0)
    Z = S[::4]

    def kernel(A, B):
        return VARIANCE * np.exp(-0.5 * cdist(A, B, "sqeuclidean") / LENGTHSCALE**2)

    K = kernel(S, S)
    if approximation == "full":
        return K + NOISE * np.eye(N)
    Q = kernel(S, Z) @ np.linalg.solve(kernel(Z, Z) + JITTER * VARIANCE * np.eye(len(Z)), kernel(Z, S))
    residual = np.diag(np.diag(K - Q)) if approximation == "fic" else 0.0
    return Q + residual + NOISE * np.eye(N)


def linear_model(H, C, prior_mean, prior_covariance):
    """Posterior of the coefficients of H in the user's units."""
    P = np.linalg.inv(prior_covariance)
    cov = np.linalg.inv(P + H.T @ np.linalg.solve(C, H))
    return cov @ (P @ prior_mean + H.T @ np.linalg.solve(C, Y)), cov


def trend_prior(columns, prior_sd):
    """Prior of intercept at 0 and slopes, from that of the height at the middle of the data."""
    sd = prior_sd * Y.std()
    A = np.zeros((1 + len(columns), 1 + len(columns)))
    A[0, 0] = sd
    for i, j in enumerate(columns, 1):
        A[i, i] = sd / X[:, j].std()
        A[0, i] = -A[i, i] * X[:, j].mean()
    return np.append(Y.mean(), np.zeros(len(columns))), A @ A.T


@pytest.mark.parametrize("prior_sd", [0.3, 10.0])
@pytest.mark.parametrize("approximation", ["vfe", "fic", "full"])
@pytest.mark.parametrize("columns", [[0, 1], [1]])
def test_a_trend_has_the_posterior_of_the_dense_linear_model(columns, approximation, prior_sd):
    found = fit(Linear(prior_sd, columns), approximation).coefficients_
    H = np.column_stack([np.ones(N), X[:, columns]])
    mean, cov = linear_model(H, covariance(approximation), *trend_prior(columns, prior_sd))
    assert_allclose(found.estimate, mean, rtol=1e-6)
    assert_allclose(found.covariance, cov, rtol=1e-5, atol=1e-8 * cov.diagonal().max())
    assert_allclose(found.standard_error, np.sqrt(cov.diagonal()), rtol=1e-5)


@pytest.mark.parametrize("approximation", ["vfe", "fic", "full"])
def test_a_level_has_the_posterior_of_the_dense_linear_model(approximation):
    found = fit("constant", approximation).coefficients_
    mean, cov = linear_model(np.ones((N, 1)), covariance(approximation), *trend_prior([], 10.0))
    assert found.names == ("intercept",)
    assert_allclose(found.estimate, mean, rtol=1e-8)
    assert_allclose(found.standard_error**2, cov[0], rtol=1e-7)


@pytest.mark.parametrize("approximation", ["vfe", "fic"])
def test_with_a_wide_prior_they_are_generalised_least_squares(approximation):
    found = fit(Linear(1e6), approximation).coefficients_
    H, C = np.column_stack([np.ones(N), X]), covariance(approximation)
    cov = np.linalg.inv(H.T @ np.linalg.solve(C, H))
    assert_allclose(found.estimate, cov @ H.T @ np.linalg.solve(C, Y), rtol=1e-5)
    assert_allclose(found.covariance, cov, rtol=1e-4)


def test_where_the_function_is_flat_a_log_rate_has_the_error_of_its_fisher_information():
    counts = np.random.default_rng(0).poisson(2.0, N)
    kernel = SquaredExponential(1e-9, 1.0, column_scales="standard")
    options = {"knots": X[::6], "mean": Constant(prior_sd=1e3), "optimizer": None, "inference": "laplace"}
    gp = GPRegressor(kernel, "poisson", "fic", **options).fit(X, counts)
    assert_allclose(gp.coefficients_.estimate, np.log(counts.mean()), rtol=1e-5)
    assert_allclose(gp.coefficients_.standard_error, 1 / np.sqrt(counts.sum()), rtol=1e-5)


@pytest.mark.parametrize("approximation", ["vfe", "full"])
def test_far_from_all_rows_the_function_is_the_mean_and_its_prior(approximation):
    gp = fit("constant", approximation)
    far = gp.predict_latent(X.mean(0, keepdims=True) + 1e4)
    assert_allclose(gp.coefficients_.estimate, far.mean, rtol=1e-10)
    assert_allclose(gp.coefficients_.standard_error**2 + VARIANCE, far.variance, rtol=1e-8)
    trend = fit("linear", approximation)
    origin = trend.predict_latent([[0.0, 0.0]])  # 13 standard deviations away
    assert_allclose(trend.coefficients_.estimate[0], origin.mean[0], rtol=1e-8)
    assert_allclose(trend.coefficients_.standard_error[0] ** 2 + VARIANCE, origin.variance[0], rtol=1e-7)


@pytest.mark.parametrize("approximation", ["vfe", "full"])
@pytest.mark.parametrize("mean", ["constant", "linear", Linear(columns=[1])], ids=str)
def test_other_units_of_columns_and_targets_change_the_numbers_by_their_factors(mean, approximation):
    base = fit(mean, approximation).coefficients_
    unit, factors, shift = 8.0, np.array([0.01, 1e3]), np.array([-500.0, 7.0])
    moved = fit(mean, approximation, X * factors + shift, unit * Y + 100.0, unit).coefficients_
    columns = {1: [], 2: [1], 3: [0, 1]}[len(base)]
    # beta_0 + x' beta with x = (x' - shift) / factors
    A = np.diag(np.append(1.0, 1 / factors[columns]))
    A[0, 1:] = -(shift / factors)[columns]
    assert_allclose(moved.estimate, unit * A @ base.estimate + np.eye(len(base))[0] * 100.0, rtol=1e-6)
    assert_allclose(moved.covariance, unit**2 * A @ base.covariance @ A.T, rtol=1e-4)


def test_a_row_of_weight_2_is_the_row_twice():
    twice = fit("linear", x=np.vstack([X, X[:9]]), y=np.append(Y, Y[:9]), knots=X[::4]).coefficients_
    weights = np.ones(N)
    weights[:9] = 2.0
    settings = {"knots": X[::4], "optimizer": None, "jitter": JITTER, "mean": "linear"}
    gp = GPRegressor(
        SquaredExponential(VARIANCE, LENGTHSCALE, column_scales="standard"), Gaussian(NOISE), "vfe", **settings
    )
    weighted = gp.fit(X, Y, sample_weight=weights).coefficients_
    assert_allclose(weighted.estimate, twice.estimate, rtol=1e-8)
    assert_allclose(weighted.covariance, twice.covariance, rtol=1e-7)


@pytest.mark.parametrize("mean", ["zero", 3.5, Constant(prior_sd=None)], ids=str)
def test_a_mean_without_uncertainty_has_one_row_without_a_standard_error(mean):
    gp = GPRegressor(mean=mean, knots=8, random_state=0).fit(X, Y)
    assert gp.coefficients_.names == ("intercept",)
    assert_allclose(gp.coefficients_.estimate, gp.parameters_["mean"], rtol=1e-10, atol=1e-12)
    assert np.isnan(gp.coefficients_.standard_error).all() and np.isnan(gp.coefficients_.interval()).all()
    assert repr(gp.coefficients_) not in gp.summary()


def test_names_are_those_of_the_columns():
    assert fit("linear", x=FRAME).coefficients_.names == ("intercept", "age", "dose")
    assert fit(Linear(columns=["dose"]), x=FRAME).coefficients_.names == ("intercept", "dose")
    assert fit("linear").coefficients_.names == ("intercept", "column 0", "column 1")


def test_intervals_have_the_probability_of_their_level():
    table = fit("linear").coefficients_
    low, high = table.interval(0.6826894921370859).T
    assert_allclose(high - low, 2 * table.standard_error, rtol=1e-12)
    assert_allclose((high + low) / 2, table.estimate, rtol=1e-12)
    with pytest.raises(InvalidInputError, match="`level` is 95"):
        table.interval(95)


def test_the_frame_and_the_text_show_the_same_numbers():
    gp = fit("linear", x=FRAME)
    table, frame = gp.coefficients_, gp.coefficients_.to_frame(0.9)
    assert list(frame) == ["coefficient", "estimate", "standard_error", "lower", "upper"]
    assert frame.coefficient.tolist() == list(table.names)
    assert_array_equal(frame[["lower", "upper"]], table.interval(0.9))
    shown = [line.split() for line in repr(table).splitlines()[1:]]
    assert [line[0] for line in shown] == list(table.names)
    numbers = np.column_stack([table.estimate, table.standard_error, table.interval()])
    assert_allclose([[float(v) for v in line[1:]] for line in shown], numbers, rtol=1e-3)
    assert repr(table) in gp.summary()


@pytest.mark.parametrize("approximation", ["vfe", "full"])
@pytest.mark.parametrize("mean", ["constant", "linear", Linear(2.0, ["dose"])], ids=str)
def test_a_file_keeps_every_bit_of_them(mean, approximation, tmp_path):
    gp = fit(mean, approximation, x=FRAME)
    gp.save(tmp_path / "m.knotwise")
    loaded = knotwise.load(tmp_path / "m.knotwise").coefficients_
    assert loaded.names == gp.coefficients_.names
    assert_array_equal(loaded.estimate, gp.coefficients_.estimate)
    assert_array_equal(loaded.covariance, gp.coefficients_.covariance)


# -- categories -------------------------------------------------------------------------------------------

CITY = RNG.choice(["Oslo", "Rome", "Bonn"], N)
LEVELS = ("Bonn", "Oslo", "Rome")
MIXED = FRAME.assign(city=CITY)


def fit_levels(frame=MIXED, prior_sd=2.0, columns=("dose", "city"), **options):
    """An exact GP about slopes and effects of levels, with every parameter given."""
    kernel = SquaredExponential(VARIANCE, LENGTHSCALE, column_scales="standard").on(["age", "dose"])
    settings = {"optimizer": None, "approximation": "full", "mean": Linear(prior_sd, list(columns))} | options
    return GPRegressor(kernel, Gaussian(NOISE), **settings).fit(frame, Y)


@pytest.mark.parametrize("prior_sd", [0.3, 10.0])
def test_levels_have_the_contrasts_of_the_dense_linear_model(prior_sd):
    """The model has a coefficient of each level, of which treatment contrasts are differences."""
    D = (CITY[:, None] == LEVELS).astype(float)
    sd, columns = prior_sd * Y.std(), np.column_stack([X[:, 1], D])
    spread, centre = columns.std(0), columns.mean(0)
    H = np.column_stack([np.ones(N), columns - centre])
    prior = np.diag(np.append(sd, sd / spread) ** 2)
    mean, cov = linear_model(H, covariance("full"), np.append(Y.mean(), np.zeros(4)), prior)
    A = np.array(
        [
            np.append(1.0, np.array([0.0, 1.0, 0.0, 0.0]) - centre),  # the height at a dose of 0 in Bonn
            [0.0, 1.0, 0.0, 0.0, 0.0],
            [0.0, 0.0, -1.0, 1.0, 0.0],
            [0.0, 0.0, -1.0, 0.0, 1.0],
        ]
    )
    found = fit_levels(prior_sd=prior_sd).coefficients_
    assert found.names == ("intercept", "dose", "city: Oslo - Bonn", "city: Rome - Bonn")
    assert found.categories == {"city": LEVELS}
    assert_allclose(found.estimate, A @ mean, rtol=1e-6)
    assert_allclose(found.covariance, A @ cov @ A.T, rtol=1e-5, atol=1e-8)
    for first, second, weights in (("Rome", "Oslo", [0, 0, 0, -1, 1]), ("Bonn", "Rome", [0, 0, 1, 0, -1])):
        contrast = found.contrast(first, second)
        assert contrast.name == f"city: {first} - {second}"
        assert_allclose(contrast.estimate, np.dot(weights, mean), rtol=1e-6)
        assert_allclose(contrast.standard_error**2, np.dot(weights, cov) @ weights, rtol=1e-5)
        low, high = contrast.interval(0.6826894921370859)
        assert_allclose([high - low, high + low], [2 * contrast.standard_error, 2 * contrast.estimate], rtol=1e-12)


def test_with_a_wide_prior_contrasts_are_generalised_least_squares_with_a_reference_level():
    found = fit_levels(prior_sd=1e3, approximation="vfe", knots=MIXED.iloc[::4], jitter=JITTER).coefficients_
    H = np.column_stack([np.ones(N), X[:, 1], CITY == "Oslo", CITY == "Rome"])
    C = covariance("vfe")
    cov = np.linalg.inv(H.T @ np.linalg.solve(C, H))
    assert_allclose(found.estimate, cov @ H.T @ np.linalg.solve(C, Y), rtol=1e-4)
    assert_allclose(found.covariance, cov, rtol=1e-4, atol=1e-6)


def test_a_log_rate_ratio_has_the_error_of_its_fisher_information():
    counts = np.random.default_rng(0).poisson(np.where(CITY == "Rome", 6.0, 2.0))
    settings = {"optimizer": None, "inference": "laplace", "approximation": "full", "mean": Linear(1e3, ["city"])}
    gp = GPRegressor(SquaredExponential(1e-9, 1.0).on("age"), "poisson", **settings).fit(MIXED, counts)
    total, n = ({city: f(counts[city == CITY]) for city in LEVELS} for f in (np.sum, len))
    found = gp.coefficients_.contrast("Rome", "Oslo")
    expected = np.log(total["Rome"] / n["Rome"]) - np.log(total["Oslo"] / n["Oslo"])
    assert_allclose(found.estimate, expected, rtol=1e-4)
    assert_allclose(found.standard_error, np.sqrt(1 / total["Rome"] + 1 / total["Oslo"]), rtol=1e-4)
    assert_allclose(gp.coefficients_.estimate[0], np.log(total["Bonn"] / n["Bonn"]), rtol=1e-4)
    assert_allclose(gp.coefficients_.standard_error[0], 1 / np.sqrt(total["Bonn"]), rtol=1e-4)


def test_a_contrast_does_not_depend_on_the_reference():
    """Other names give another reference level, which is the first in the alphabet."""
    renamed = MIXED.assign(city=MIXED["city"].map({"Bonn": "z", "Oslo": "b", "Rome": "a"}))
    one, two = (fit_levels(frame).coefficients_ for frame in (MIXED, renamed))
    assert two.names[2:] == ("city: b - a", "city: z - a")
    for first, second in (("Rome", "Bonn"), ("Oslo", "Rome"), ("Bonn", "Bonn")):
        to = {"Bonn": "z", "Oslo": "b", "Rome": "a"}
        ours, theirs = one.contrast(first, second), two.contrast(to[first], to[second])
        assert_allclose(theirs.estimate, ours.estimate, rtol=1e-8, atol=1e-12)
        assert_allclose(theirs.standard_error, ours.standard_error, rtol=1e-8, atol=1e-12)


def test_a_row_of_a_level_is_the_difference_of_predictions_far_from_all_rows():
    gp = fit_levels(columns=["city"])
    far = pd.DataFrame({"age": 1e5, "dose": -1e5, "city": LEVELS})
    latent = gp.predict_latent(far)
    assert_allclose(gp.coefficients_.estimate, np.append(latent.mean[0], latent.mean[1:] - latent.mean[0]), rtol=1e-6)
    assert_allclose(gp.coefficients_.standard_error[0] ** 2 + VARIANCE, latent.variance[0], rtol=1e-6)


def test_a_contrast_of_levels_that_are_not_there_is_refused():
    again = MIXED.assign(zone=np.where(np.arange(N) % 3, "Oslo", "Rome"), floor=np.arange(N) % 2)
    both = fit_levels(again, columns=["city", "zone", "floor"], categorical=["city", "zone", "floor"]).coefficients_
    assert both.contrast("Oslo", "Bonn").name == "city: Oslo - Bonn"
    assert both.contrast(1, 0).name == "floor: 1 - 0"
    assert_allclose(both.contrast("Rome", "Oslo", column="zone").estimate, both.estimate[3], rtol=1e-12)
    for levels, column, message in (
        (("Rome", "Oslo"), None, r"'city' and 'zone'.*column='city'"),
        (("Rome", "Olso"), None, r"Did you mean 'Oslo'"),
        (("Bonn", "Rome"), "zone", r"The level is 'Bonn'"),
        (("Bonn", "Rome"), "town", r"`column` is 'town'"),
        (("Bonn", "1"), None, r"of different columns"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            both.contrast(*levels, column=column)
    with pytest.raises(InvalidInputError, match=r"no effects of levels.*Linear\(columns="):
        fit("linear", x=FRAME).coefficients_.contrast("Rome", "Oslo")


def test_a_file_keeps_the_contrasts(tmp_path):
    gp = fit_levels()
    gp.save(tmp_path / "m.knotwise")
    loaded = knotwise.load(tmp_path / "m.knotwise").coefficients_
    assert loaded.contrast("Rome", "Oslo") == gp.coefficients_.contrast("Rome", "Oslo")
    assert "city: Rome - Oslo: " in str(loaded.contrast("Rome", "Oslo"))
