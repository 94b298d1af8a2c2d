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
    kernel = SquaredExponential(unit**2 * VARIANCE, LENGTHSCALE)
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
    assert found.names == ("level",)
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
    kernel = SquaredExponential(1e-9, 1.0)
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
    gp = GPRegressor(SquaredExponential(VARIANCE, LENGTHSCALE), Gaussian(NOISE), "vfe", **settings)
    weighted = gp.fit(X, Y, sample_weight=weights).coefficients_
    assert_allclose(weighted.estimate, twice.estimate, rtol=1e-8)
    assert_allclose(weighted.covariance, twice.covariance, rtol=1e-7)


@pytest.mark.parametrize("mean", ["zero", 3.5, Constant(prior_sd=None)], ids=str)
def test_a_mean_without_uncertainty_has_one_row_without_a_standard_error(mean):
    gp = GPRegressor(mean=mean, knots=8, random_state=0).fit(X, Y)
    assert gp.coefficients_.names == ("level",)
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
