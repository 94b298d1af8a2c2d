"""The failure cases once more with the default, automatic knots, which take their own way through the data."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from knotwise import GPClassifier, GPRegressor
from knotwise.errors import FitWarning, InvalidInputError
from knotwise.kernels import Matern12, SquaredExponential
from knotwise.knots import Auto
from knotwise.likelihoods import Gaussian
from knotwise.means import Constant

N = 90


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(7)
    X = rng.uniform(size=(N, 2))
    y = np.sin(5 * X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=N)
    return X, y, rng.uniform(size=(50, 2))


def fit(X, y, **options):
    return GPRegressor(**{"random_state": 0, **options}).fit(X, y)


def predictions(X, y, X_new, **options):
    return np.array(fit(X, y, **options).predict(X_new, return_std=True))


@pytest.mark.failure(1)
@pytest.mark.parametrize("seed", range(4))
def test_five_points_are_fitted_with_ten_restarts(seed):
    X, y = np.split(np.random.default_rng(seed).normal(size=(5, 3)), [2], axis=1)
    gp = fit(X, y[:, 0], n_restarts=10)
    assert np.isfinite(gp.log_evidence_) and np.isfinite(gp.predict(X, return_std=True)).all()
    assert 0 <= gp.n_failed_restarts_ <= 10


@pytest.mark.failure(2)
def test_knots_on_a_line_with_a_long_lengthscale_are_as_many_as_it_can_tell_apart():
    x = np.linspace(0, 1, 300)[:, None]
    y = np.sin(2 * x[:, 0]) + 0.1 * np.random.default_rng(1).normal(size=300)
    gp = fit(
        x,
        y,
        kernel=SquaredExponential(lengthscale=5.0, column_scales="standard"),
        fixed=["lengthscale"],
        knots=Auto(max_knots=100),
    )
    assert gp.n_knots_ < 20 and gp.jitter_ <= 1e-4
    assert np.isfinite(gp.predict(x, return_std=True)).all()


@pytest.mark.failure(3)
def test_duplicate_rows_have_no_more_knots_than_places():
    rng = np.random.default_rng(3)
    groups = rng.integers(10, size=1000)
    X = rng.uniform(size=(10, 2))[groups]
    y = np.sin(3 * X[:, 0]) + 0.3 * rng.normal(size=1000)
    gp = fit(X, y)
    assert gp.n_knots_ <= 10
    means = np.array([y[groups == g].mean() for g in range(10)])
    assert_allclose(gp.predict(X), means[groups], atol=0.15)


@pytest.mark.failure(4)
def test_zero_noise_becomes_a_floor_with_exactly_one_warning_that_names_it():
    x = np.linspace(0, 1, 40)[:, None]
    y = 7 * np.sin(6 * x[:, 0])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gp = fit(x, y, likelihood=Gaussian(0.0), fixed=["noise_variance"])
    assert len([w for w in caught if "floor" in str(w.message)]) == 1
    assert {w.category for w in caught} == {FitWarning}
    assert_allclose(gp.likelihood_.noise_variance, 1e-8 * y.var(), rtol=1e-4)
    assert_allclose(gp.predict(x), y, atol=0.05)


@pytest.mark.failure(5)
@pytest.mark.parametrize("constant", [0.0, 1e6 + 0.1])
def test_a_constant_column_changes_no_prediction(constant, data):
    X, y, X_new = data
    wide, wide_new = (np.insert(A, 1, constant, axis=1) for A in (X, X_new))
    # the widened data meet other random starts, so parameters agree to the optimiser's tolerance only
    assert_allclose(predictions(wide, y, wide_new), predictions(X, y, X_new), atol=0.02 * y.std())


@pytest.mark.failure(5)
def test_a_column_beside_a_constant_one_has_the_kernel_that_it_has_alone(data):
    X, y, _ = data
    alone, beside = X[:, :1], np.insert(X[:, :1], 1, 3.0, axis=1)
    one, other = fit(alone, y), fit(beside, y)
    assert type(one.kernel_) is type(other.kernel_) and np.ndim(other.kernel_.lengthscale) == 0
    assert_allclose(other.predict(beside), one.predict(alone), atol=0.02 * y.std())


@pytest.mark.failure(6)
@pytest.mark.parametrize("n_rows", [1, 2, 7, 50])
def test_a_constant_target_is_predicted_with_a_small_std(n_rows):
    rng = np.random.default_rng(6)
    with pytest.warns(FitWarning, match="nothing of the noise"):
        gp = fit(rng.uniform(size=(n_rows, 2)), np.full(n_rows, 3.0))
    mean, std = gp.predict(rng.uniform(size=(20, 2)), return_std=True)
    assert_allclose(mean, 3.0, rtol=1e-9)
    # one row says nothing of the noise, and the level is not known better than the row
    assert (std > 0).all() and (std < (1.5 if n_rows == 1 else 1e-2)).all()


@pytest.mark.failure(8)
def test_a_limit_above_the_distinct_rows_is_no_number_of_knots(data):
    X, y, _ = data
    gp = fit(np.repeat(X[:5], 8, axis=0), np.repeat(y[:5], 8) + np.tile([0.1, -0.1], 20), knots=Auto(max_knots=30))
    assert gp.n_knots_ == len(gp.knots_) <= 5


@pytest.mark.failure(8)
@pytest.mark.parametrize("n_places", [5, 15, 25])
@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_there_are_never_more_knots_than_places(n_places, noise):
    rng = np.random.default_rng(8)
    X = np.arange(n_places)[rng.integers(n_places, size=200)][:, None]
    y = np.sin(X[:, 0] / 2) + noise * rng.normal(size=200)
    gp = fit(X, y, kernel=Matern12())
    assert gp.n_knots_ <= n_places
    assert gp.converged_ and "limit" not in gp.stop_reason_
    assert_allclose(gp.predict(X), np.sin(X[:, 0] / 2), atol=0.05)


@pytest.mark.failure(9)
@pytest.mark.parametrize("seed", range(2))
def test_knots_stay_inside_the_data_range_and_a_margin(seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(80, 2)) * [1e3, 1e-3] + [5e3, -1.0]
    s = (X - X.mean(0)) / X.std(0)
    gp = fit(X, s[:, 0] ** 2 * s[:, 1] + 0.3 * rng.normal(size=80))
    margin = 0.1 * np.ptp(X, axis=0) * (1 + 1e-9)
    assert (gp.knots_ >= X.min(0) - margin).all() and (gp.knots_ <= X.max(0) + margin).all()


@pytest.mark.failure(10)
def test_counts_up_to_ten_million_are_followed(data):
    X, _, _ = data
    rate = 1e7 * np.exp(np.sin(5 * X[:, 0]) - 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        gp = fit(X, np.random.default_rng(1).poisson(rate).astype(float), likelihood="poisson")
    mean, std = gp.predict(X, return_std=True)
    assert np.isfinite(gp.log_evidence_) and np.isfinite(std).all()
    assert_allclose(np.log(mean), np.log(rate), atol=0.2)


@pytest.mark.failure(12)
@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
def test_all_zeros_give_a_small_finite_rate_and_one_warning(likelihood, data):
    with pytest.warns(FitWarning, match="little information") as caught:
        gp = fit(data[0], np.zeros(N), likelihood=likelihood)
    assert len(caught) == 1
    assert ((gp.predict(data[2]) > 0) & (gp.predict(data[2]) < 0.1)).all()
    assert np.abs(gp.predict_latent(data[2]).mean).max() < 50


@pytest.mark.failure(13)
def test_widely_separated_classes_stay_inside_0_and_1():
    rng = np.random.default_rng(13)
    X = np.vstack([rng.normal(size=(40, 2)) - 50, rng.normal(size=(40, 2)) + 50])
    y = np.repeat([0, 1], 40)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        gp = GPClassifier(random_state=0).fit(X, y)
    proba = gp.predict_proba(X)
    assert ((proba > 0) & (proba < 1)).all() and gp.score(X, y) == 1.0


@pytest.mark.failure(14)
@pytest.mark.parametrize("start", [{"lengthscale": 1e-300}, {"lengthscale": 1e300}, {"variance": 1e-300}], ids=str)
@pytest.mark.filterwarnings("ignore::knotwise.errors.FitWarning")
def test_an_extreme_start_gives_a_finite_fit(start, data):
    X, y, X_new = data
    gp = fit(X, y, kernel=SquaredExponential(**start, column_scales="standard"))
    assert np.isfinite(gp.predict(X_new, return_std=True)).all() and np.isfinite(gp.parameters_.values).all()


@pytest.mark.failure(15)
@pytest.mark.parametrize("approximation", ["vfe", "fic"])
def test_columns_times_powers_of_two_give_the_same_bits(approximation, data):
    X, y, X_new = data
    units = 2.0 ** np.array([20, -30])
    expected = predictions(X, y, X_new, approximation=approximation)
    assert_array_equal(predictions(X * units, y, X_new * units, approximation=approximation), expected)


@pytest.mark.failure(15)
def test_columns_of_any_units_give_the_predictions_of_scaled_data(data):
    X, y, X_new = data
    units = np.array([1e6, 1e-3])
    assert_allclose(predictions(X * units, y, X_new * units), predictions(X, y, X_new), atol=1e-4 * y.std())


@pytest.mark.failure(16)
def test_inputs_far_from_the_origin_equal_the_centred_fit(data):
    X, y, X_new = (np.round(A * 2**20) / 2**20 for A in data)  # so that adding 1e8 is exact
    assert_allclose(predictions(X + 1e8, y, X_new + 1e8), predictions(X, y, X_new), atol=1e-4 * y.std())


@pytest.mark.failure(17)
def test_targets_in_other_units_scale_predictions(data):
    X, y, X_new = data
    expected = predictions(X, y, X_new)
    assert_array_equal(predictions(X, y * 2.0**20, X_new), 2.0**20 * expected)
    assert_allclose(predictions(X, y * 1e-6, X_new) * 1e6, expected, atol=1e-4 * y.std())


@pytest.mark.failure(18)
@pytest.mark.failure(19)
@pytest.mark.parametrize("noise", [0.0, 1e-3])
@pytest.mark.filterwarnings("ignore::knotwise.errors.FitWarning")
def test_variances_are_never_negative_and_agree_with_the_covariance(noise):
    x = np.linspace(0, 1, 200)[:, None]
    gp = fit(x, np.sin(9 * x[:, 0]) + noise * np.random.default_rng(18).normal(size=200))
    places = np.vstack([x, gp.knots_, gp.knots_ + 1e-9])
    std, cov = gp.predict(places, return_std=True)[1], gp.predict(places, return_cov=True)[1]
    assert (gp.predict_latent(places).variance >= 0).all() and (std > 0).all()
    assert_allclose(np.sqrt(cov.diagonal()), std, rtol=1e-8)


@pytest.mark.failure(20)
@pytest.mark.parametrize("dtype", [np.float32, np.int64, object])
def test_numbers_of_every_type_equal_the_same_values_as_float64(dtype):
    rng = np.random.default_rng(20)
    X = rng.integers(0, 12, size=(80, 2))
    y = np.round(5 * np.sin(X[:, 0] / 3)) + X[:, 1] + rng.integers(0, 3, size=80)
    expected = predictions(X.astype(float), y.astype(float), X[:9].astype(float))
    assert_array_equal(predictions(X.astype(dtype), y.astype(dtype), X[:9].astype(dtype)), expected)


@pytest.mark.failure(23)
def test_the_same_seed_gives_the_same_bits_on_one_and_two_threads(data):
    X, y, X_new = data
    fits = [fit(X, y, n_jobs=n_jobs, block_size=20) for n_jobs in (1, 1, 2)]
    first = np.concatenate([fits[0].knots_.ravel(), *fits[0].predict(X_new, return_std=True)])
    for gp in fits[1:]:
        assert_array_equal(np.concatenate([gp.knots_.ravel(), *gp.predict(X_new, return_std=True)]), first)


@pytest.mark.failure(28)
def test_predictions_in_batches_equal_those_in_one_go(data):
    X, y, _ = data
    gp = fit(X, y)
    X_new = np.random.default_rng(28).uniform(X.min(), X.max(), size=(17_000, 2))
    whole = np.array(gp.predict(X_new, return_std=True))
    parts = [gp.predict(part, return_std=True) for part in np.split(X_new, [1, 6000, 6001])]
    assert_allclose(np.hstack(parts), whole, rtol=1e-12, atol=1e-12)


@pytest.mark.failure(33)
@pytest.mark.parametrize("estimator", [GPRegressor(), GPClassifier()], ids=["regressor", "classifier"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_value_that_is_not_finite_is_refused_with_its_row(value, estimator, data):
    X = data[0].copy()
    X[41, 1] = value
    with pytest.raises(InvalidInputError, match="row 41") as caught:
        estimator.fit(X, (data[1] > 0).astype(float))
    assert_array_equal(caught.value.rows, [41])


# -- little signal ----------------------------------------------------------------------------------


def test_a_limit_on_the_knots_holds_without_a_signal_too(data):
    gp = fit(data[0], np.random.default_rng(3).normal(size=N), knots=Auto(max_knots=3))
    assert "no signal" in gp.stop_reason_ and gp.n_knots_ == 3


@pytest.mark.filterwarnings("ignore:200 of 200 targets are not whole")
def test_a_doubtful_signal_is_kept_where_it_is_worth_its_parameters():
    """Counts with less noise than Poisson's: the evidence for the signal could be chance, but costs little to keep."""
    rng = np.random.default_rng(42)
    X = rng.normal(size=(200, 10))
    y = 5 + X[:, 0] + 0.2 * rng.normal(size=200)
    # a mean that is one more parameter asks for more evidence
    gp = fit(X, y, kernel=SquaredExponential(), likelihood="poisson", mean=Constant(prior_sd=None))
    assert any("doubtful" in step.note for step in gp.trace_) and gp.status_ == "converged" and gp.n_knots_ <= 30
    assert gp.score(X, y) > 0.5
