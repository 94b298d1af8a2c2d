"""What goes wrong with sparse GPs elsewhere, case by case, and input that cannot be used."""

import threading
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist
from scipy.stats import multivariate_normal
from sklearn.exceptions import NotFittedError

import knotwise.evidence.full
from knotwise import GPRegressor
from knotwise.errors import (
    FitWarning,
    InvalidInputError,
    KnotwiseError,
    NotPositiveDefiniteError,
    TooLargeError,
    UnknownOptionError,
)
from knotwise.kernels import Linear, Matern12, SquaredExponential
from knotwise.knots import Fixed, Simultaneous
from knotwise.likelihoods import Gaussian
from knotwise.numerics.blocks import executor_for
from knotwise.optimize import LBFGS

N = 97
APPROXIMATIONS = ["vfe", "fic", "full"]


@pytest.fixture(scope="module")
def data():
    """Rows with a smooth signal of two columns and noise of a tenth of its size, and new rows."""
    rng = np.random.default_rng(5)
    X = rng.uniform(size=(N, 2))
    y = np.sin(5 * X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=N)
    return X, y, rng.uniform(size=(50, 2))


def regressor(**options):
    return GPRegressor(**{"knots": 15, "random_state": 0, **options})


def fit(X, y, **options):
    return regressor(**options).fit(X, y)


def predictions(X, y, X_new, **options):
    """Mean and standard deviation of new observations, one array [2, n]."""
    return np.array(fit(X, y, **options).predict(X_new, return_std=True))


def squared_exponential(A, B, variance, lengthscale):
    return variance * np.exp(-0.5 * cdist(A, B, "sqeuclidean") / lengthscale**2)


def fitted(gp):
    """Variance, length-scale, noise variance and mean of a fitted default model."""
    return (gp.parameters_[name] for name in ("variance", "lengthscale", "noise_variance", "mean"))


def noise_only_evidence(y):
    """Largest log evidence of a model that takes everything for noise about a constant."""
    return -0.5 * len(y) * (np.log(2 * np.pi * y.var()) + 1)


# -- positive definiteness, and how many knots there can be ---------------------------------------


@pytest.mark.failure(1)
@pytest.mark.parametrize("approximation", APPROXIMATIONS)
@pytest.mark.parametrize("seed", range(4))
def test_five_points_are_fitted_with_ten_restarts(seed, approximation):
    """Case 1: not positive definite on 5 points with restarts."""
    X, y = np.split(np.random.default_rng(seed).normal(size=(5, 3)), [2], axis=1)
    gp = fit(X, y[:, 0], n_restarts=10, approximation=approximation, random_state=seed)
    assert isinstance(gp.n_failed_restarts_, int) and 0 <= gp.n_failed_restarts_ <= 10
    assert gp.log_evidence_ >= noise_only_evidence(y) - 1e-2
    assert np.isfinite(gp.predict(X, return_std=True)).all()


class FailsAt:
    """An optimiser whose starts with these numbers cannot be computed."""

    def __init__(self, *starts):
        self.starts = starts
        self.calls = 0

    def maximize(self, objective, start, bounds):
        self.calls += 1
        if self.calls - 1 in self.starts:
            raise NotPositiveDefiniteError("no factor")
        return LBFGS().maximize(objective, start, bounds)


@pytest.mark.failure(1)
@pytest.mark.parametrize("failing", [(1,), (2, 3), (0,), (0, 2)])
def test_a_start_that_fails_is_skipped_and_counted_while_another_succeeds(failing, data):
    """Case 1: no finished part of the work is lost."""
    X, y, _ = data
    gp = fit(X, y, optimizer=FailsAt(*failing), n_restarts=3)
    assert gp.n_failed_restarts_ == len(failing)
    assert gp.log_evidence_ > noise_only_evidence(y)


@pytest.mark.failure(2)
@pytest.mark.parametrize("lengthscale", [None, 5.0])
def test_a_hundred_knots_on_a_line_are_thinned_without_loss(lengthscale):
    """Case 2: not positive definite with many knots and a long length-scale."""
    rng = np.random.default_rng(1)
    x = np.linspace(0, 1, 300)
    y = np.sin(2 * x) + 0.1 * rng.normal(size=300)
    held = () if lengthscale is None else ("lengthscale",)
    gp = fit(x[:, None], y, knots=100, kernel=SquaredExponential(lengthscale=lengthscale), fixed=held)
    assert gp.n_knots_ < 100 and len(gp.knots_) == gp.n_knots_
    assert gp.jitter_ <= 1e-4
    assert "dropped" in gp.stop_reason_
    # the exact evidence bounds that of any knots, so it bounds what dropping some has lost
    s = ((x - x.mean()) / x.std())[:, None]
    variance, length, noise, mean = fitted(gp)
    cov = squared_exponential(s, s, variance, length) + noise * np.eye(300)
    exact = multivariate_normal(np.full(300, mean), cov).logpdf(y)
    assert exact - 0.01 < gp.log_evidence_ < exact + 1e-6
    assert np.isfinite(gp.predict(x[:, None], return_std=True)).all()


@pytest.mark.failure(2)
def test_a_hundred_given_knots_on_a_line_are_all_kept_with_recorded_jitter():
    """Case 2: an array of knots is used as given, whatever its condition."""
    x = np.linspace(0, 1, 300)[:, None]
    y = np.sin(2 * x[:, 0]) + 0.1 * np.random.default_rng(1).normal(size=300)
    gp = fit(x, y, knots=np.linspace(0, 1, 100)[:, None], kernel=SquaredExponential(lengthscale=5.0))
    assert gp.n_knots_ == 100
    assert 0 < gp.jitter_ <= 1e-4
    assert np.isfinite(gp.log_evidence_) and np.isfinite(gp.predict(x, return_std=True)).all()


def replicated_log_evidence(groups, y, X_distinct, noise, cov, mean):
    """Log density of replicated rows from the counts, means and sums of squares within the groups."""
    n = np.bincount(groups)
    centre = np.bincount(groups, y) / n
    within = np.bincount(groups, (y - centre[groups]) ** 2)
    between = multivariate_normal(np.full(len(n), mean), cov + np.diag(noise / n)).logpdf(centre)
    return between - 0.5 * ((n - 1) * np.log(2 * np.pi * noise) + np.log(n) + within / noise).sum()


@pytest.mark.failure(3)
@pytest.mark.parametrize("approximation", APPROXIMATIONS)
def test_duplicate_rows_have_the_evidence_of_replicated_data(approximation):
    """Case 3: 1000 rows of which 10 are distinct."""
    rng = np.random.default_rng(3)
    distinct = rng.uniform(size=(10, 2))
    groups = np.r_[np.arange(10), rng.integers(10, size=990)]
    y = np.sin(3 * distinct[:, 0])[groups] + 0.3 * rng.normal(size=1000)
    X = distinct[groups]
    gp = fit(X, y, knots=50, approximation=approximation)
    assert gp.n_knots_ <= 10
    s = (distinct - X.mean(0)) / X.std(0)
    variance, length, noise, mean = fitted(gp)
    expected = replicated_log_evidence(groups, y, s, noise, squared_exponential(s, s, variance, length), mean)
    # a relative jitter of 1e-10 costs half of 1000 rows times 1e-10 times the signal-to-noise ratio
    assert_allclose(gp.log_evidence_, expected, rtol=1e-7)


@pytest.mark.failure(8)
@pytest.mark.parametrize("n_rows", [1, 3, 5])
def test_knots_are_reduced_to_the_distinct_rows_and_the_fit_says_so(n_rows):
    """Case 8: more knots than distinct rows."""
    rng = np.random.default_rng(8)
    X = np.repeat(rng.uniform(size=(n_rows, 2)), 2, axis=0)
    gp = fit(X, rng.normal(size=2 * n_rows), knots=10)
    assert gp.n_knots_ == len(gp.knots_) <= n_rows
    assert "10 knots were asked for" in gp.stop_reason_


@pytest.mark.failure(8)
def test_an_array_of_more_knots_than_rows_is_used_as_given():
    """Case 8: only counts are reduced."""
    rng = np.random.default_rng(8)
    gp = fit(rng.uniform(size=(5, 1)), rng.normal(size=5), knots=np.linspace(0, 1, 10)[:, None])
    assert gp.n_knots_ == 10


@pytest.mark.failure(9)
@pytest.mark.parametrize("approximation", ["vfe", "fic", 0.5])
@pytest.mark.parametrize("seed", range(3))
def test_free_knots_stay_inside_the_data_range_and_a_margin(seed, approximation):
    """Case 9: knots wander outside the data."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(60, 2)) * [1e3, 1e-3] + [5e3, -1.0]
    s = (X - X.mean(0)) / X.std(0)
    y = s[:, 0] ** 2 * s[:, 1] + 0.3 * rng.normal(size=60)  # steep at the edges, which pulls knots outwards
    gp = fit(X, y, knots=6, approximation=approximation, optimizer=LBFGS(max_iterations=3000))
    margin = 0.1 * np.ptp(X, axis=0) * (1 + 1e-9)
    assert (gp.knots_ >= X.min(0) - margin).all() and (gp.knots_ <= X.max(0) + margin).all()


# -- noise, constants -----------------------------------------------------------------------------


@pytest.mark.failure(4)
@pytest.mark.parametrize("options", [{"fixed": ["noise_variance"]}, {}, {"optimizer": None}, {"approximation": "full"}])
def test_zero_noise_becomes_a_floor_with_exactly_one_warning_that_names_it(options):
    """Case 4: zero noise asked for."""
    x = np.linspace(0, 1, 30)[:, None]
    y = 7 * np.sin(6 * x[:, 0])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gp = fit(x, y, likelihood=Gaussian(0.0), **options)
    named = [str(w.message) for w in caught if "floor" in str(w.message)]
    assert len(named) == 1 and "noise" in named[0] and "1e-08" in named[0]
    assert {w.category for w in caught} == {FitWarning}
    if options != {}:
        assert_allclose(gp.likelihood_.noise_variance, 1e-8 * y.var(), rtol=1e-4)
    assert np.isfinite(gp.predict(x, return_std=True)).all()


@pytest.mark.failure(5)
@pytest.mark.parametrize("constant", [0.0, 1.0, 0.1, -1 / 3, 1e6 + 0.1, 1e-9])
@pytest.mark.parametrize("place", [0, 2])
def test_a_constant_column_changes_no_prediction(constant, place, data):
    """Case 5: constant input column."""
    X, y, X_new = data

    def widened(A):
        return np.insert(A, place, constant, axis=1)

    expected = predictions(X, y, X_new)
    assert_allclose(predictions(widened(X), y, widened(X_new)), expected, rtol=0, atol=1e-4 * y.std())


@pytest.mark.failure(5)
def test_the_lengthscale_of_a_constant_column_is_bounded(data):
    """Case 5: length-scale bounded."""
    X, y, _ = data
    table = fit(np.insert(X, 2, 0.1, axis=1), y, kernel=SquaredExponential(ard=True)).parameters_
    assert (table.lower <= table.values).all() and (table.values <= table.upper).all()
    assert np.isfinite(table.theta_bounds).all()
    assert 1e-3 <= table["lengthscale"][2] <= 1e3


@pytest.mark.failure(6)
@pytest.mark.parametrize("value", [3.0, 0.1, 0.0, -7e5])
@pytest.mark.parametrize("n_rows", [1, 2, 7, 50])
@pytest.mark.parametrize("approximation", ["vfe", "full"])
def test_a_constant_target_is_predicted_with_a_small_std(approximation, n_rows, value):
    """Case 6: constant target, one row."""
    rng = np.random.default_rng(6)
    gp = fit(rng.uniform(size=(n_rows, 2)), np.full(n_rows, value), approximation=approximation)
    mean, std = gp.predict(rng.uniform(size=(20, 2)), return_std=True)
    assert_allclose(mean, value, rtol=1e-12, atol=1e-12)
    assert (std > 0).all() and (std < 1e-2).all()


@pytest.mark.failure(6)
def test_one_row_is_predicted_at_its_own_place():
    """Case 6: n = 1."""
    mean, std = fit([[0.3, 1e6]], [3.0]).predict([[0.3, 1e6], [9.0, 0.0]], return_std=True)
    assert_allclose(mean[0], 3.0, rtol=1e-12)
    assert np.isfinite(std).all()


# -- extreme starts ---------------------------------------------------------------------------------

EXTREME_STARTS = {
    "lengthscale 1e-300": {"lengthscale": 1e-300},
    "lengthscale 1e300": {"lengthscale": 1e300},
    "variance 1e-300": {"variance": 1e-300},
    "one lengthscale of two": {"lengthscale": [1e-300, 1.0]},
}


@pytest.mark.failure(14)
@pytest.mark.parametrize("kernel", [SquaredExponential, Matern12])
@pytest.mark.parametrize("approximation", APPROXIMATIONS)
@pytest.mark.parametrize("start", EXTREME_STARTS.values(), ids=EXTREME_STARTS.keys())
@pytest.mark.filterwarnings("ignore::knotwise.errors.FitWarning")
def test_an_extreme_start_gives_a_finite_fit(start, approximation, kernel, data):
    """Case 14: length-scale underflows."""
    X, y, X_new = data
    gp = fit(X, y, kernel=kernel(**start), approximation=approximation)
    assert np.isfinite(gp.predict(X_new, return_std=True)).all()
    assert np.isfinite(gp.parameters_.values).all()
    assert gp.log_evidence_ >= noise_only_evidence(y) - 1e-2


@pytest.mark.failure(14)
@pytest.mark.parametrize("start", EXTREME_STARTS.values(), ids=EXTREME_STARTS.keys())
def test_an_extreme_start_is_not_silently_the_end(start, data):
    """Case 14: where the gradient vanishes, an optimiser stops at once; that is not convergence without a word."""
    X, y, _ = data
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gp = fit(X, y, kernel=SquaredExponential(**start))
    reference = fit(X, y).log_evidence_
    assert gp.log_evidence_ > reference - 1 or any(issubclass(w.category, FitWarning) for w in caught)


@pytest.mark.failure(14)
def test_a_trial_that_fails_never_counts_as_convergence():
    """Case 14: a NaN trial halves the step.

    The bell's slope grows on the way, so the line search reaches far ahead, where there is no value.
    """

    def bell(x):
        value = np.exp(-((x[0] - 2.5) ** 2)) if x[0] < 3 else np.nan
        return value, -2 * (x - 2.5) * value

    result = LBFGS().maximize(bell, np.zeros(1), np.array([[-50.0, 50.0]]))
    assert_allclose(result.parameters, 2.5, atol=1e-3)
    assert result.converged and result.gradient_norm < 1e-3


@pytest.mark.failure(14)
def test_a_fit_from_a_huge_variance_converges_only_where_the_gradient_vanishes(data):
    """Case 14: the same, in a fit."""
    X, y, _ = data
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gp = fit(X, y, kernel=SquaredExponential(variance=1e300), approximation="full")
    result = gp.optimize_result_
    assert {w.category for w in caught} <= {FitWarning}
    assert not result.converged or result.gradient_norm < 1e-4 * max(1.0, abs(result.value))


@pytest.mark.failure(14)
def test_threads_handle_overflow_as_their_caller_asked():
    """Case 14: a trial that overflows is silent on one thread, so it is on two."""
    with np.errstate(over="ignore"), executor_for(2) as executor:
        assert list(executor.map(lambda i: np.full(3, 1e308) * 10.0, range(4)))[3][0] == np.inf


# -- an optimiser that does not arrive ----------------------------------------------------------------


class Misled(LBFGS):
    """An optimiser that is told the gradient with the wrong sign, so that no step finds a better point."""

    def maximize(self, objective, start, bounds):
        def wrong(parameters):
            value, gradient = objective(parameters)
            return value, -gradient

        return super().maximize(wrong, start, bounds)


@pytest.mark.failure(31)
@pytest.mark.parametrize("approximation", APPROXIMATIONS)
@pytest.mark.parametrize(
    ("optimizer", "reason"),
    [(Misled(), "no better point"), (LBFGS(max_iterations=1), "limit of 1 iterations")],
    ids=["abnormal end", "too few iterations"],
)
def test_an_optimiser_that_does_not_arrive_is_said_once_with_its_gradient_and_bounds(
    optimizer, reason, approximation, data
):
    """Case 31: optimiser ends abnormally."""
    X, y, X_new = data
    bounds = {"noise_variance": (1.0, 2.0)}  # far above the noise of these data
    with pytest.warns(FitWarning, match=reason) as caught:
        gp = fit(X, y, optimizer=optimizer, approximation=approximation, bounds=bounds)
    assert len(caught) == 1
    message = str(caught[0].message)
    assert f"gradient norm {gp.optimize_result_.gradient_norm:.1e}" in message
    assert "at a bound: noise_variance" in message and "n_restarts" in message
    assert gp.converged_ is False
    assert np.isfinite(gp.predict(X_new, return_std=True)).all()


@pytest.mark.failure(31)
@pytest.mark.parametrize("options", [{}, {"approximation": "full"}, {"knots": "auto"}], ids=str)
def test_flat_evidence_ends_at_once_and_is_a_maximum(options, data):
    """Case 31: flat evidence: without a signal, the length-scale changes nothing."""
    X, y, X_new = data
    kernel = SquaredExponential(variance=1e-12)
    gp = fit(X, y, kernel=kernel, fixed=["variance", "noise_variance", "mean"], **options)
    assert gp.converged_ and gp.optimize_result_.evaluations < 20
    assert_allclose(gp.predict(X_new), y.mean(), rtol=1e-6)
    assert gp.optimize_result_.gradient_norm < 1e-4


# -- units ------------------------------------------------------------------------------------------

UNIT_MODELS = {
    "default": {},
    "fic": {"approximation": "fic"},
    "full": {"approximation": "full"},
    "ard": {"kernel": SquaredExponential(ard=True)},
    "linear mean": {"mean": "linear"},
    "sum": {"kernel": SquaredExponential() + Linear()},
    "power": {"approximation": 0.5},
}


@pytest.mark.failure(15)
@pytest.mark.parametrize("options", UNIT_MODELS.values(), ids=UNIT_MODELS.keys())
@pytest.mark.filterwarnings("ignore::knotwise.errors.FitWarning")
def test_columns_times_powers_of_two_give_the_same_bits(options, data):
    """Case 15: unscaled inputs."""
    X, y, X_new = data
    units = 2.0 ** np.array([20, -30])
    assert_array_equal(predictions(X * units, y, X_new * units, **options), predictions(X, y, X_new, **options))


@pytest.mark.failure(15)
@pytest.mark.parametrize("units", [(1e6, 1e-3), (3.0, 7.0), (1e-200, 1e200)])
def test_columns_of_any_units_give_the_predictions_of_scaled_data(units, data):
    """Case 15: columns at 1e6 and 1e-3."""
    X, y, X_new = data
    s, s_new = (X - X.mean(0)) / X.std(0), (X_new - X.mean(0)) / X.std(0)
    expected = predictions(s, y, s_new)
    assert_allclose(predictions(X * units, y, X_new * units), expected, rtol=0, atol=1e-4 * y.std())


@pytest.mark.failure(16)
@pytest.mark.parametrize("standardize", ["columns", "common", False])
@pytest.mark.parametrize("mean", ["constant", "linear"])
def test_inputs_far_from_the_origin_equal_the_centred_fit(mean, standardize, data):
    """Case 16: X in [1e8, 1e8 + 1]."""
    X, y, X_new = (np.round(A * 2**20) / 2**20 for A in data)  # so that adding 1e8 is exact
    options = {"mean": mean, "standardize": standardize}
    expected = predictions(X, y, X_new, **options)
    assert_allclose(predictions(X + 1e8, y, X_new + 1e8, **options), expected, rtol=0, atol=1e-4 * y.std())


@pytest.mark.failure(17)
@pytest.mark.parametrize("unit", [2.0**20, 2.0**-40, 2.0**300])
@pytest.mark.parametrize("options", UNIT_MODELS.values(), ids=UNIT_MODELS.keys())
@pytest.mark.filterwarnings("ignore::knotwise.errors.FitWarning")
def test_targets_times_powers_of_two_scale_predictions_to_the_bit(options, unit, data):
    """Case 17: units of y."""
    X, y, X_new = data
    assert_array_equal(predictions(X, y * unit, X_new, **options), unit * predictions(X, y, X_new, **options))


@pytest.mark.failure(17)
@pytest.mark.parametrize("unit", [1e-6, 1e6, 3.0])
def test_targets_of_any_units_scale_predictions(unit, data):
    """Case 17: y * 1e-6."""
    X, y, X_new = data
    assert_allclose(predictions(X, y * unit, X_new) / unit, predictions(X, y, X_new), rtol=0, atol=1e-4 * y.std())


@pytest.mark.failure(17)
def test_targets_of_the_largest_units_are_predicted_or_refused_with_the_reason(data):
    """Case 17: y at 1e300, whose variance is beyond the largest float."""
    X, y, X_new = data
    try:
        scaled = predictions(X, y * 1e300, X_new) / 1e300
    except KnotwiseError as error:
        assert "y" in str(error)
    else:
        assert_allclose(scaled, predictions(X, y, X_new), rtol=0, atol=1e-4 * y.std())


# -- variances and covariances --------------------------------------------------------------------


@pytest.mark.failure(18)
@pytest.mark.parametrize("noise", [0.0, 1e-6, 1e-3])
@pytest.mark.parametrize(
    "options", [{"knots": 20}, {"knots": 20, "approximation": "fic"}, {"approximation": "full"}], ids=str
)
@pytest.mark.filterwarnings("ignore::knotwise.errors.FitWarning")
def test_predictive_variances_are_never_negative_on_dense_data_with_tiny_noise(options, noise):
    """Case 18: negative predictive variance."""
    x = np.linspace(0, 1, 300)[:, None]
    y = np.sin(9 * x[:, 0]) + noise * np.random.default_rng(18).normal(size=300)
    gp = fit(x, y, **options)
    places = np.vstack([x, gp.knots_, gp.knots_ + 1e-9])
    floor = gp.likelihood_.noise_variance
    assert (gp.predict_latent(places).variance >= 0).all()
    assert (gp.predict(places, return_std=True)[1] ** 2 >= floor * (1 - 1e-12)).all()
    assert (gp.predict(places, return_cov=True)[1].diagonal() >= floor * (1 - 1e-12)).all()


@pytest.mark.failure(19)
@pytest.mark.parametrize(
    "options",
    [{}, {"approximation": "fic"}, {"approximation": "full"}, {"mean": "linear"}, {"kernel": Linear()}],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::knotwise.errors.FitWarning")
def test_std_and_covariance_agree_on_nearly_linear_data(options):
    """Case 19: std and covariance disagree."""
    rng = np.random.default_rng(19)
    X = rng.uniform(size=(60, 2))
    gp = fit(X, 3 * X[:, 0] - 2 * X[:, 1] + 1e-3 * rng.normal(size=60), **options)
    X_new = rng.uniform(size=(80, 2))
    mean, std = gp.predict(X_new, return_std=True)
    mean_again, cov = gp.predict(X_new, return_cov=True)
    assert_array_equal(mean, mean_again)
    assert_allclose(np.sqrt(cov.diagonal()), std, rtol=1e-8)
    assert_allclose(cov, cov.T, rtol=0, atol=1e-5 * cov.diagonal().max())
    assert np.linalg.eigvalsh(cov).min() > 0
    assert_allclose(mean, 3 * X_new[:, 0] - 2 * X_new[:, 1], atol=0.01)


@pytest.mark.failure(32)
@pytest.mark.parametrize("approximation", ["vfe", "fic", 0.5])
def test_a_knot_on_every_row_is_the_exact_gp(approximation):
    """Case 32: sparse model overconfident against the full GP; K = N."""
    rng = np.random.default_rng(32)
    X, X_new = rng.uniform(size=(40, 2)), rng.uniform(-0.2, 1.2, size=(60, 2))
    y = np.sin(6 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=40)
    options = {"kernel": Matern12(1.0, 0.8), "likelihood": Gaussian(0.01), "optimizer": None, "mean": 0.3}
    sparse = fit(X, y, knots=X, approximation=approximation, **options)
    exact = fit(X, y, approximation="full", **options)
    assert_allclose(sparse.log_evidence_, exact.log_evidence_, rtol=1e-6)
    a, b = sparse.predict_latent(X_new), exact.predict_latent(X_new)
    assert_allclose(a.mean, b.mean, atol=1e-6 * y.std())
    assert_allclose(a.variance, b.variance, rtol=1e-6)


@pytest.mark.failure(32)
@pytest.mark.parametrize("approximation", ["vfe", "fic"])
@pytest.mark.parametrize("knots", [3, 8, "auto"])
@pytest.mark.filterwarnings("ignore::knotwise.errors.FitWarning")
def test_intervals_through_few_knots_hold_as_many_observations_as_they_say(knots, approximation):
    """Case 32: K small: what the knots cannot follow becomes uncertainty."""
    rng = np.random.default_rng(32)
    x, x_new = rng.uniform(size=(300, 1)), rng.uniform(size=(2000, 1))
    truth = lambda x: np.sin(25 * x[:, 0])  # noqa: E731
    gp = fit(x, truth(x) + 0.2 * rng.normal(size=300), knots=knots, approximation=approximation)
    low, high = gp.predict_interval(x_new, level=0.9).T
    y_new = truth(x_new) + 0.2 * rng.normal(size=2000)
    assert np.mean((low < y_new) & (y_new < high)) > 0.86  # wider than needed is not overconfident


# -- types of numbers -------------------------------------------------------------------------------


@pytest.mark.failure(20)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.int8, np.uint8, object])
def test_numbers_of_every_type_equal_the_same_values_as_float64(dtype):
    """Case 20: float32, int input."""
    rng = np.random.default_rng(20)
    X = rng.integers(0, 12, size=(120, 2))
    y = 20 + np.round(5 * np.sin(X[:, 0] / 3)) + X[:, 1] + rng.integers(0, 3, size=120)
    typed = predictions(X.astype(dtype), y.astype(dtype), X[:9].astype(dtype))
    assert typed.dtype == np.float64
    assert_array_equal(typed, predictions(X.astype(float), y.astype(float), X[:9].astype(float)))


@pytest.mark.failure(20)
def test_booleans_equal_zeros_and_ones():
    """Case 20: bool input."""
    X = np.random.default_rng(20).integers(0, 2, size=(60, 3)).astype(bool)
    X, y = X[:, :2], X[:, 0] & X[:, 2]
    assert_array_equal(predictions(X, y, X[:9]), predictions(X.astype(float), y.astype(float), X[:9].astype(float)))


@pytest.mark.failure(22)
@pytest.mark.parametrize("more", [-1, 1])
def test_series_and_frames_of_other_lengths_are_refused_whatever_their_index(more, data):
    """Case 22: length mismatch is an error."""
    pd = pytest.importorskip("pandas")
    X, y, _ = data
    frame = pd.DataFrame(X, columns=["a", "b"])
    other = pd.Series(np.resize(y, N + more), index=np.arange(N + more) + 5)
    with pytest.raises(ValueError, match=rf"inconsistent.*\[{N}, {N + more}\]"):
        fit(frame, other)
    with pytest.raises(InvalidInputError, match=f"each of the {N} rows"):
        regressor().fit(frame, pd.Series(y), noise_variance=other)


@pytest.mark.failure(22)
def test_a_frame_of_knots_is_an_array_of_knots(data):
    """Case 22: data frames have a method `select`, but they are no selectors."""
    pd = pytest.importorskip("pandas")
    X, y, X_new = data
    knots = pd.DataFrame(X[:9], index=np.arange(9) + 5)
    expected = predictions(X, y, X_new, knots=X[:9])  # up to rounding: a frame has its columns one after another
    assert_allclose(predictions(X, y, X_new, knots=knots), expected, rtol=1e-9, atol=1e-9)


# -- determinism --------------------------------------------------------------------------------------


class Watched(SquaredExponential):
    """A kernel that remembers on which threads blocks of rows were evaluated."""

    threads: set = set()

    def value_and_pullback(self, X, Z):
        self.threads.add(threading.get_ident())
        return super().value_and_pullback(X, Z)


@pytest.mark.failure(23)
@pytest.mark.parametrize(
    ("n_rows", "block_size", "knots"),
    [(300, 40, 8), (20_000, 1000, Fixed("random", 12))],
    ids=["small, knots moved", "20,000 rows, knots held"],
)
@pytest.mark.filterwarnings("ignore::knotwise.errors.FitWarning")
def test_the_same_seed_gives_the_same_bits_on_one_and_two_threads(n_rows, block_size, knots):
    """Case 23: same seed, different result."""
    rng = np.random.default_rng(23)
    X = rng.uniform(size=(n_rows, 2))
    y = np.sin(6 * X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=n_rows)
    results, threads = [], []
    for n_jobs in (1, 1, 2):
        Watched.threads = set()
        gp = fit(X, y, kernel=Watched(), knots=knots, n_jobs=n_jobs, block_size=block_size)
        threads.append(len(Watched.threads))
        state = [gp.log_evidence_, *gp.parameters_.values, *gp.knots_.ravel()]
        results.append(np.concatenate([state, *gp.predict(X[:500], return_std=True)]))
    assert threads == [1, 1, 3], "with two jobs, blocks run on two threads beside the caller's"
    assert_array_equal(results[0], results[1])
    assert_array_equal(results[0], results[2])


@pytest.mark.failure(24)
@pytest.mark.parametrize("approximation", ["vfe", "fic", 0.5])
@pytest.mark.parametrize(
    "options",
    [{"kernel": SquaredExponential()}, {"kernel": SquaredExponential() + Linear()}, {"mean": "linear"}],
    ids=["squared exponential", "sum", "linear mean"],
)
def test_block_size_and_row_order_change_the_evidence_by_rounding_only(options, approximation):
    """Case 24: other block size or row order."""
    rng = np.random.default_rng(24)
    X = rng.uniform(size=(700, 2))
    y = np.sin(6 * X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=700)
    options = {"optimizer": None, "knots": X[:20], "approximation": approximation, **options}
    expected = fit(X, y, **options)
    X_new = rng.uniform(size=(30, 2))
    for block_size in (1, 7, 100, 699, 5000):
        other = fit(X, y, block_size=block_size, **options)
        assert_allclose(other.log_evidence_, expected.log_evidence_, rtol=1e-10)
        assert_allclose(other.predict(X_new), expected.predict(X_new), rtol=1e-8, atol=1e-8)
    for order in (np.arange(700)[::-1], rng.permutation(700), np.argsort(X[:, 0])):
        other = fit(X[order], y[order], **options)
        assert_allclose(other.log_evidence_, expected.log_evidence_, rtol=1e-10)
        assert_allclose(other.predict(X_new), expected.predict(X_new), rtol=1e-8, atol=1e-8)


@pytest.mark.failure(28)
@pytest.mark.parametrize("approximation", ["vfe", "full"])
def test_predictions_in_batches_equal_those_in_one_go(approximation, data):
    """Case 28: batched predict differs from one shot."""
    X, y, _ = data
    gp = fit(X, y, approximation=approximation)
    X_new = np.random.default_rng(28).uniform(-1, 2, size=(17_000, 2))
    mean, std = gp.predict(X_new, return_std=True)
    for edges in ([1], [8500], [10, 6000, 6001, 12_345]):
        parts = [gp.predict(part, return_std=True) for part in np.split(X_new, edges)]
        assert_allclose(np.concatenate([p[0] for p in parts]), mean, rtol=1e-12, atol=1e-12)
        assert_allclose(np.concatenate([p[1] for p in parts]), std, rtol=1e-12)
    one_by_one = [gp.predict(row[None])[0] for row in X_new[:50]]
    assert_allclose(one_by_one, mean[:50], rtol=1e-12, atol=1e-12)


# -- data that cannot be used -----------------------------------------------------------------------


def put(values, row, value, column=None):
    values = np.array(values)
    values[row if column is None else (row, column)] = value
    return values


@pytest.mark.failure(33)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", ["X", "y"])
def test_a_value_that_is_not_finite_is_refused_with_its_row(place, value, data):
    """Case 33: NaN or infinity in X or y."""
    X, y, _ = data
    X, y = (put(X, 41, value, column=1), y) if place == "X" else (X, put(y, 41, value))
    kind = "NaN" if np.isnan(value) else "infinity"
    with pytest.raises(ValueError, match=f"{place} contains {kind}.*row 41"):
        fit(X, y)


@pytest.mark.failure(33)
def test_infinities_of_both_signs_are_refused_with_their_rows(data):
    """Case 33: their sum is NaN, and that is no excuse."""
    X, y, _ = data
    with pytest.raises(InvalidInputError, match="infinity in row 3 and 1 more") as caught:
        fit(put(put(X, 9, -np.inf, column=0), 3, np.inf, column=0), y)
    assert_array_equal(caught.value.rows, [3, 9])


@pytest.mark.failure(33)
def test_a_value_that_is_not_finite_is_refused_at_prediction(data):
    """Case 33: at predict."""
    X, y, _ = data
    with pytest.raises(InvalidInputError, match="NaN in row 7"):
        fit(X, y).predict(put(X, 7, np.nan, column=0))


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.ones(5), np.ones(5), "2D array"),
        (np.ones((2, 5, 1)), np.ones(5), "dim 3"),
        (np.ones((5, 1)), np.ones((5, 2)), "1d array"),
        (np.ones((5, 1)), np.ones(4), r"inconsistent.*\[5, 4\]"),
        (np.ones((0, 2)), np.ones(0), "0 sample"),
        (np.ones((5, 0)), np.ones(5), "0 feature"),
        (np.ones((5, 1)), None, "y"),
        (np.ones((5, 1), complex), np.ones(5), "[Cc]omplex"),
    ],
)
def test_data_of_the_wrong_shape_are_refused(X, y, message):
    with pytest.raises(ValueError, match=message):
        fit(X, y)


@pytest.mark.failure(21)
@pytest.mark.parametrize("values", [["red"] * N, ["1", "2", "x"] + ["4"] * (N - 3)])
def test_a_text_column_of_a_data_frame_is_named(values, data):
    """Case 21: strings."""
    pd = pytest.importorskip("pandas")
    X, y, _ = data
    frame = pd.DataFrame({"lstat": X[:, 0], "colour": values, "rm": X[:, 1]})
    for column in (frame["colour"], frame["colour"].astype("category")):
        with pytest.raises(InvalidInputError, match=r"'colour'.*not a number"):
            fit(frame.assign(colour=column), y)


@pytest.mark.failure(21)
def test_a_date_column_of_a_data_frame_is_named(data):
    """Case 21: dates are no numbers either."""
    pd = pytest.importorskip("pandas")
    X, y, _ = data
    frame = pd.DataFrame({"lstat": X[:, 0], "day": pd.date_range("2020-01-01", periods=N)})
    with pytest.raises(InvalidInputError, match="'day'"):
        fit(frame, y)


@pytest.mark.failure(21)
def test_numbers_stored_as_objects_or_text_are_converted(data):
    """Case 21: numbers as objects."""
    pd = pytest.importorskip("pandas")
    X, y, X_new = data
    frame = pd.DataFrame({"a": X[:, 0].astype(object), "b": [repr(float(v)) for v in X[:, 1]]})
    new = pd.DataFrame(X_new, columns=["a", "b"])
    assert_array_equal(predictions(frame, y, new), predictions(X, y, X_new))


@pytest.mark.parametrize(
    ("noise", "message"),
    [
        (put(np.ones(N), 12, 0.0), "positive.*0.0 in row 12"),
        (put(np.ones(N), 12, -1.0), "positive.*row 12"),
        (put(np.ones(N), 12, np.nan), "finite.*row 12"),
        (put(np.ones(N), [12, 15], np.inf), "finite.*row 12 and 1 more"),
        (np.ones(N - 1), f"one value for each of the {N} rows"),
        (np.ones((N, 1)), f"one value for each of the {N} rows"),
        (0.1, f"one value for each of the {N} rows"),
    ],
)
def test_noise_per_row_must_be_positive_and_of_the_right_length(noise, message, data):
    X, y, _ = data
    with pytest.raises(InvalidInputError, match=message):
        regressor().fit(X, y, noise_variance=noise)
    with pytest.raises(InvalidInputError, match=message):
        fit(X, y).predict(X, return_std=True, noise_variance=noise)


# -- options that cannot be used --------------------------------------------------------------------


@pytest.mark.failure(35)
@pytest.mark.parametrize(
    ("option", "given", "nearest"),
    [
        ("approximation", "fitc", "fic"),
        ("approximation", "FIC", "fic"),
        ("likelihood", "gausian", "gaussian"),
        ("mean", "constnat", "constant"),
        ("optimizer", "lbgfs", "lbfgs"),
        ("standardize", "column", "columns"),
        ("knots", Simultaneous(5, "kmean"), "kmeans"),
        ("fixed", ["lengthscales"], "lengthscale"),
        ("fixed", "noise", "noise_variance"),
        ("bounds", {"lengthscal": (1, 2)}, "lengthscale"),
    ],
)
def test_an_unknown_option_is_an_error_that_names_the_nearest(option, given, nearest, data):
    """Case 35: misspelt option."""
    X, y, _ = data
    with pytest.raises(UnknownOptionError, match=f"Did you mean '{nearest}'"):
        fit(X, y, **{option: given})


@pytest.mark.parametrize("kind", ["observations", "obs"])
def test_an_unknown_kind_of_interval_names_the_nearest(kind, data):
    X, y, _ = data
    with pytest.raises(UnknownOptionError, match="Did you mean 'observation'"):
        fit(X, y).predict_interval(X, kind=kind)


@pytest.mark.parametrize(
    ("option", "given"),
    [
        ("knots", 0),
        ("knots", -3),
        ("knots", 5.0),
        ("knots", True),
        ("knots", None),
        ("knots", "many"),
        ("knots", Simultaneous(0)),
        ("knots", Simultaneous(2.5)),
        ("knots", Simultaneous),
        ("knots", [0.1, 0.2]),
        ("knots", np.ones((3, 1))),
        ("knots", np.empty((0, 2))),
        ("knots", Simultaneous(5, np.ones((4, 3)))),
        ("knots", Simultaneous(5, lambda X, y, n, rng: X[:, 0])),
        ("knots", Simultaneous(5, "kmeans-per-class")),
        ("approximation", 1.5),
        ("approximation", -0.1),
        ("approximation", np.nan),
        ("approximation", True),
        ("kernel", "rbf"),
        ("kernel", SquaredExponential),
        ("kernel", SquaredExponential(lengthscale=[1.0, 2.0, 3.0])),
        ("kernel", SquaredExponential().on([2])),
        ("kernel", SquaredExponential().on(["a"])),
        ("kernel", SquaredExponential().on([])),
        ("likelihood", Gaussian),
        ("mean", np.nan),
        ("mean", [1.0]),
        ("optimizer", LBFGS),
        ("optimizer", ["lbfgs"]),
        ("standardize", True),
        ("jitter", -1e-6),
        ("jitter", "auto"),
        ("random_state", "a"),
        ("random_state", -1),
        ("n_jobs", 0),
        ("n_jobs", 1.5),
        ("block_size", 0),
        ("block_size", 1e3),
        ("n_restarts", -1),
        ("n_restarts", 2.0),
        ("fixed", [3]),
        ("fixed", None),
        ("bounds", [(1, 2)]),
        ("bounds", {"lengthscale": (2, 1)}),
        ("bounds", {"lengthscale": (0, 1)}),
        ("bounds", {"variance": (-1, 1)}),
        ("bounds", {"variance": (np.nan, 1)}),
        ("bounds", {"variance": (1, 2, 3)}),
        ("bounds", {"variance": 1}),
    ],
    ids=lambda value: value if isinstance(value, str) else repr(value)[:40].replace("\n", " "),
)
def test_an_option_that_cannot_be_used_is_refused_by_its_name(option, given, data):
    X, y, _ = data
    named = {"knots": "(?i)knots|initial", "kernel": "kernel|lengthscale|[Cc]olumn"}.get(option, option)
    with pytest.raises(InvalidInputError, match=named):
        fit(X, y, **{option: given})


def test_knots_that_are_not_finite_are_refused_with_that_reason(data):
    X, y, _ = data
    with pytest.raises(InvalidInputError, match=r"NaN|nan|not finite"):
        fit(X, y, knots=put(np.ones((3, 2)), 1, np.nan, column=0))


@pytest.mark.parametrize(
    "part",
    [
        lambda: SquaredExponential(variance=-1.0),
        lambda: SquaredExponential(lengthscale=0.0),
        lambda: SquaredExponential(lengthscale=[1.0, -2.0]),
        lambda: SquaredExponential(lengthscale=np.inf),
        lambda: SquaredExponential(lengthscale="long"),
        lambda: SquaredExponential(variance=[1.0, 2.0]),
        lambda: SquaredExponential().set_params(lengthscale=-1.0),
        lambda: Gaussian(-1.0),
        lambda: Gaussian(np.nan),
        lambda: Gaussian([1.0, 2.0]),
    ],
)
def test_parameters_that_are_not_positive_numbers_are_refused_at_once(part):
    with pytest.raises(InvalidInputError, match="positive"):
        part()


def test_zero_noise_is_allowed_however_it_is_set():
    assert Gaussian(1.0).set_params(noise_variance=0.0).noise_variance == Gaussian(0.0).noise_variance == 0.0


def test_the_exact_gp_is_refused_above_its_limit(data, monkeypatch):
    X, y, _ = data
    monkeypatch.setattr(knotwise.evidence.full, "MAX_FULL_ROWS", 50)
    with pytest.raises(TooLargeError, match=f"{N} x {N}.*50 rows.*'vfe'") as caught:
        fit(X, y, approximation="full")
    assert caught.value.n_rows == N and caught.value.limit == 50
    assert fit(X[:50], y[:50], approximation="full").n_knots_ == 0


# -- requests that cannot be met ----------------------------------------------------------------------

REQUESTS = {
    "predict": lambda gp, X: gp.predict(X),
    "predict_latent": lambda gp, X: gp.predict_latent(X),
    "predict_interval": lambda gp, X: gp.predict_interval(X),
    "sample_latent": lambda gp, X: gp.sample_latent(X),
    "log_predictive_density": lambda gp, X: gp.log_predictive_density(X, np.ones(len(X))),
    "evidence": lambda gp, X: gp.evidence(),
    "summary": lambda gp, X: gp.summary(),
}


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS.keys())
def test_a_model_that_was_not_fitted_says_so(request_):
    with pytest.raises(NotFittedError, match="fit"):
        request_(GPRegressor(), np.ones((3, 2)))


@pytest.mark.parametrize("n_columns", [1, 3])
@pytest.mark.parametrize("name", ["predict", "predict_latent", "predict_interval", "sample_latent"])
def test_the_wrong_number_of_columns_is_refused_at_prediction(name, n_columns, data):
    X, y, _ = data
    with pytest.raises(ValueError, match=f"{n_columns} features.*expecting 2"):
        REQUESTS[name](fit(X, y), np.ones((3, n_columns)))


@pytest.mark.parametrize("level", [0, 1, -0.5, 95, np.nan])
def test_a_level_outside_0_and_1_is_refused(level, data):
    X, y, _ = data
    with pytest.raises(InvalidInputError, match="between 0 and 1"):
        fit(X, y).predict_interval(X, level=level)


@pytest.mark.parametrize("theta", [[1.0, 2.0], 3.0, np.zeros((4, 1)), np.zeros(5)])
def test_a_theta_of_the_wrong_length_is_refused_with_the_names(theta, data):
    X, y, _ = data
    with pytest.raises(InvalidInputError, match=r"4 .*entries.*'lengthscale', 'noise_variance'"):
        fit(X, y).evidence(theta)


def test_std_and_covariance_at_once_are_refused(data):
    X, y, _ = data
    with pytest.raises(InvalidInputError, match="not for both"):
        fit(X, y).predict(X, return_std=True, return_cov=True)


def test_targets_of_another_length_have_no_predictive_density(data):
    X, y, _ = data
    with pytest.raises(InvalidInputError, match=f"{N} rows"):
        fit(X, y).log_predictive_density(X, y[:-1])


@pytest.mark.parametrize("n_samples", [0, -1, 2.5])
def test_a_number_of_samples_is_a_whole_number_from_1(n_samples, data):
    X, y, _ = data
    with pytest.raises(InvalidInputError, match="n_samples"):
        fit(X, y).sample_latent(X, n_samples)


def test_an_unknown_parameter_of_the_table_names_the_nearest(data):
    X, y, _ = data
    with pytest.raises(UnknownOptionError, match="Did you mean 'lengthscale'"):
        fit(X, y).parameters_["lengthscales"]
