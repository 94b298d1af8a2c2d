"""Singular matrices, duplicates, too many knots, zero noise and constants, and what happens here instead."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.distance import cdist
from scipy.stats import multivariate_normal

from failure_fits import APPROXIMATIONS, fit, noise_only_evidence, predictions, smooth_rows
from knotwise import GPRegressor
from knotwise.errors import FitWarning, NotPositiveDefiniteError
from knotwise.kernels import SquaredExponential
from knotwise.likelihoods import Gaussian
from knotwise.means import Constant
from knotwise.optimize import LBFGS

# some tests here ask for more knots than rows, and are about something else
pytestmark = pytest.mark.filterwarnings("ignore:.*knots were asked for, and cut to")


@pytest.fixture(scope="module")
def data():
    return smooth_rows()


def squared_exponential(A, B, variance, lengthscale):
    return variance * np.exp(-0.5 * cdist(A, B, "sqeuclidean") / lengthscale**2)


def fitted(gp):
    """Variance, length-scale, noise variance and mean of a fitted model whose mean is learned."""
    return (gp.parameters_[name] for name in ("variance", "lengthscale", "noise_variance", "mean"))


# -- positive definiteness, and how many knots there can be ---------------------------------------


@pytest.mark.failure(1)
@pytest.mark.parametrize("approximation", APPROXIMATIONS)
@pytest.mark.parametrize("seed", range(2))
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
    gp = fit(X, y, kernel=SquaredExponential(), optimizer=FailsAt(*failing), n_restarts=3)
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
    kernel = SquaredExponential(lengthscale=lengthscale, column_scales="standard")
    gp = fit(x[:, None], y, knots=100, kernel=kernel, fixed=held, mean=Constant(prior_sd=None))
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
    gp = fit(
        x,
        y,
        knots=np.linspace(0, 1, 100)[:, None],
        kernel=SquaredExponential(lengthscale=5.0, column_scales="standard"),
    )
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
    options = {"kernel": SquaredExponential(), "approximation": approximation, "mean": Constant(prior_sd=None)}
    gp = fit(X, y, knots=50, **options)
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
    with pytest.warns(FitWarning, match=f"10 knots were asked for, and cut to {n_rows}: the number of different rows"):
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
    options = {"kernel": SquaredExponential(), "optimizer": LBFGS(max_iterations=3000)}
    gp = fit(X, y, knots=6, approximation=approximation, **options)
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


@pytest.fixture(scope="module")
def expected(data):
    """What is predicted without the constant column."""
    return predictions(*data)


@pytest.mark.failure(5)
@pytest.mark.parametrize("constant", [0.0, 1.0, 0.1, -1 / 3, 1e6 + 0.1, 1e-9])
@pytest.mark.parametrize("place", [0, 2])
def test_a_constant_column_changes_no_prediction(constant, place, data, expected):
    """Case 5: constant input column."""
    X, y, X_new = data

    def widened(A):
        return np.insert(A, place, constant, axis=1)

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
    with pytest.warns(FitWarning, match="One row tells" if n_rows == 1 else f"All {n_rows} targets are {value:g}"):
        gp = fit(rng.uniform(size=(n_rows, 2)), np.full(n_rows, value), approximation=approximation)
    mean, std = gp.predict(rng.uniform(size=(20, 2)), return_std=True)
    assert_allclose(mean, value, rtol=1e-12, atol=1e-12)
    # one row says nothing of the noise, and the level is not known better than the row; the target is the only scale
    assert (std > 0).all() and (std < (0.5 if n_rows == 1 else 1e-2) * (abs(value) or 1.0)).all()
    assert gp.status_ == "little information"


@pytest.mark.failure(6)
@pytest.mark.parametrize("likelihood", ["gaussian", "student_t"])
@pytest.mark.parametrize("n_rows", [1, 2, 7])
def test_equal_targets_times_a_power_of_two_scale_predictions_to_the_bit(n_rows, likelihood):
    X, new = np.random.default_rng(6).uniform(size=(2, n_rows, 2))
    found = []
    for unit in (1.0, 2.0**20, 2.0**-300):
        with pytest.warns(FitWarning, match="nothing of the noise"):
            gp = fit(X, np.full(n_rows, 3.0 * unit), likelihood=likelihood)
        found.append([values / unit for values in gp.predict(new, return_std=True)])
    assert np.array_equal(found[0], found[1]) and np.array_equal(found[0], found[2])


@pytest.mark.failure(6)
def test_equal_targets_of_known_noise_have_the_scale_of_the_noise_and_no_warning():
    """Three readings of 1013.2 with an error of 0.01: the noise is far below the size of the target, and is kept."""
    gp = GPRegressor(knots=2, random_state=0).fit([[0.0], [1.0], [2.0]], [1013.2] * 3, noise_variance=[1e-4] * 3)
    latent = gp.predict_latent([[1.0]])
    assert_allclose(latent.mean, 1013.2, rtol=1e-9)
    assert 0.002 < latent.std[0] < 0.02


@pytest.mark.failure(5)
@pytest.mark.parametrize("knots", [15, "auto"])
def test_rows_at_one_place_are_predicted_by_their_mean(knots):
    """Case 5: no column varies, so that there is nowhere to move a knot."""
    y = 1000 + 0.3 * np.random.default_rng(5).normal(size=21)
    mean, std = fit(np.full((21, 1), 1.4), y, mean="zero", knots=knots).predict([[1.4]], return_std=True)
    assert_allclose(mean, y.mean(), atol=0.01)
    assert_allclose(std, y.std(ddof=1), rtol=0.1)


@pytest.mark.failure(6)
def test_one_row_is_predicted_at_its_own_place():
    """Case 6: n = 1."""
    with pytest.warns(FitWarning, match="One row tells nothing of the noise"):
        gp = fit([[0.3, 1e6]], [3.0])
    mean, std = gp.predict([[0.3, 1e6], [9.0, 0.0]], return_std=True)
    assert_allclose(mean[0], 3.0, rtol=1e-12)
    assert np.isfinite(std).all()
