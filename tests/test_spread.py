"""Sizes of errors tell where the noise of one variance is the wrong model, and are silent where it is right."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

import knotwise
from knotwise import GPRegressor
from knotwise.errors import FitWarning
from knotwise.kernels import Matern32, SquaredExponential
from knotwise.likelihoods import Gaussian
from knotwise.posterior.residuals import DenseResiduals, LowRankResiduals

KINDS = {
    "knots": {"knots": 25},
    "fic": {"knots": 25, "approximation": "fic"},
    "exact": {"approximation": "full"},
    "neighbours": {"knots": 15, "n_neighbors": 10},
}


HELD = {"likelihood": Gaussian(0.01), "optimizer": None, "approximation": "full", "standardize": False}


def smooth(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 2))
    return X, np.sin(6 * X[:, 0]) * np.cos(4 * X[:, 1]), rng


def fit(X, y, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        return GPRegressor(**{"random_state": 0, "noise": "constant", **options}).fit(X, y)


class _Basis:
    """Draws whose squares add up to the covariance itself."""

    def standard_normal(self, shape):
        return np.eye(*shape)


@pytest.mark.parametrize("rank", [1, 5])
def test_residuals_are_drawn_with_their_covariance(rank):
    rng = np.random.default_rng(rank)
    w = rng.uniform(1, 2, size=12)
    H = 0.3 * rng.normal(size=(12, rank)) / np.sqrt(rank)
    R = np.diag(w) - H @ H.T
    for residuals in (LowRankResiduals(np.zeros(12), w, H), DenseResiduals(np.zeros(12), R)):
        root = residuals.draw(_Basis(), 12)
        assert_allclose(root @ root.T, R, atol=1e-12)


def test_residuals_are_drawn_where_rounding_has_made_an_eigenvalue_negative():
    R = np.array([[1.0, 1.0 + 1e-14], [1.0 + 1e-14, 1.0]])
    root = DenseResiduals(np.zeros(2), R).draw(_Basis(), 2)
    assert_allclose(root @ root.T, R, atol=1e-12)


@pytest.mark.parametrize("kind", ["knots", "exact", "neighbours"])
def test_noise_that_differs_from_place_to_place_is_found(kind):
    X, f, rng = smooth(600)
    gp = fit(X, f + (0.02 + 4 * (X[:, 1] - 0.5) ** 2) * rng.normal(size=600), **KINDS[kind])
    found, finding = gp.diagnose(), gp.diagnose().finding("spread")
    assert found.spread.p < 1e-6 and found.spread.ratio > 2
    assert found.spread.coverage[1] < 0.88 and found.spread.coverage[0] > 0.95
    assert finding.level == "problem" and not found.ok and "larger in some places" in finding.text
    assert "noise_variance=" in finding.advice and "likelihood='lognormal'" in finding.advice


def test_errors_that_grow_with_y_are_even_for_its_logarithm():
    X, f, rng = smooth(500)
    y = np.exp(1.5 * f + 0.3 * rng.normal(size=500))
    assert fit(X, y).diagnose().finding("spread").level != "ok"
    assert fit(X, y, likelihood="lognormal").diagnose().finding("spread").level == "ok"


def test_noise_that_is_known_is_no_alarm_and_wrong_variances_are():
    X, f, rng = smooth(500)
    sd = 0.05 + X[:, 1] ** 2
    y = f + sd * rng.normal(size=500)
    right, wrong = (
        GPRegressor(knots=25, noise="constant", random_state=0).fit(X, y, noise_variance=v)
        for v in (sd**2, sd[::-1] ** 2)
    )
    assert right.diagnose().finding("spread").level == "ok"
    assert "were given do not fit" in wrong.diagnose().finding("spread").advice


def test_where_the_model_misses_structure_that_comes_first():
    X, _, rng = smooth(800)
    rough = np.where(X[:, 0] < 0.5, np.sin(25 * X[:, 0]) * np.sin(25 * X[:, 1]), 0.0)
    found = fit(X, rough + 0.1 * rng.normal(size=800), kernel=SquaredExponential(1.0, 4.0), **HELD).diagnose()
    assert found.finding("neighbours").level == "problem" and found.finding("spread").level == "problem"
    assert "see to the neighbours first" in found.finding("spread").advice


def test_what_the_knots_leave_is_part_of_an_interval():
    """Few knots at held parameters: intervals of VFE are wide, and so no row is outside."""
    X, _, rng = smooth(800)
    y = np.where(X[:, 0] < 0.5, np.sin(25 * X[:, 0]) * np.sin(25 * X[:, 1]), np.sin(3 * X[:, 1]))
    gp = fit(
        X,
        y + 0.1 * rng.normal(size=800),
        kernel=SquaredExponential(0.5, 0.1, column_scales="standard"),
        knots=20,
        optimizer=None,
    )
    assert gp.diagnose().spread.coverage[1] > 0.95


@pytest.mark.parametrize("kind", ["knots", "exact", "neighbours"])  # FIC has variances of its own
@pytest.mark.parametrize("n_places", [3, 8, 40])
def test_few_places_with_noise_of_their_own_are_compared(n_places, kind):
    rng = np.random.default_rng(0)
    x = rng.integers(n_places, size=300).astype(float)
    options = KINDS[kind] | ({"knots": min(n_places, 5)} if "knots" in KINDS[kind] else {})
    for sd, level in ((0.3, "ok"), (0.1 + x / n_places, "problem")):
        y = np.sin(3 * x / n_places) + sd * rng.normal(size=300)
        found = fit(x[:, None], y, **options).diagnose()
        assert found.finding("spread").level == level and found.spread.n_rows == 300


def test_one_place_has_nothing_to_compare_and_says_so():
    y = np.random.default_rng(0).normal(size=300)
    for options in KINDS.values():
        finding = fit(np.ones((300, 1)), y, **options).diagnose().finding("spread")
        assert finding.level == "unknown" and "not tested" in finding.text


@pytest.mark.filterwarnings("ignore:`sample_weight` has a mean of")
@pytest.mark.parametrize("kind", ["knots", "exact", "neighbours"])
def test_rows_that_count_differently_often_are_not_compared_with_each_other(kind):
    """A fifth of the rows count nine times: the others are compared. Half of them do: none are."""
    X, f, rng = smooth(400)
    y = f + 0.3 * rng.normal(size=400)
    held = {
        "kernel": SquaredExponential(1.0, 0.8, column_scales="standard"),
        "likelihood": Gaussian(0.09),
        "optimizer": None,
    }
    few, many = (np.where(X[:, 0] < share, 9.0, 1.0) for share in (0.18, 0.5))
    found = GPRegressor(noise="constant", random_state=0, **KINDS[kind], **held).fit(X, y, sample_weight=few).diagnose()
    assert found.spread.n_rows == (few == 1).sum() and found.finding("spread").level == "ok"
    found = (
        GPRegressor(noise="constant", random_state=0, **KINDS[kind], **held).fit(X, y, sample_weight=many).diagnose()
    )
    assert found.spread is None and "count differently often" in found.finding("spread").text


def test_targets_that_are_coarse_beside_the_noise_are_not_compared_and_rounded_ones_are():
    X, f, rng = smooth(400)
    for y in (rng.binomial(1, 0.1, 400).astype(float), np.round(f + 0.25 * rng.normal(size=400))):
        found = fit(X, y, knots=20).diagnose()
        assert found.spread is None and "different values" in found.finding("spread").text
    found = fit(X, np.round(f + 0.25 * rng.normal(size=400), 1), knots=20).diagnose()
    assert found.finding("spread").level == "ok" and found.spread.n_rows == 400


def test_a_file_without_data_says_that_it_was_not_asked(tmp_path):
    X, f, rng = smooth(250)
    fit(X, f + 0.1 * rng.normal(size=250), knots=10).save(tmp_path / "gp.knotwise")
    there = knotwise.load(tmp_path / "gp.knotwise").diagnose()
    assert there.finding("spread").level == "unknown" and "errors are larger in some places" in str(there)


def test_heavy_tails_are_no_larger_errors_in_some_places():
    X, f, rng = smooth(1000)
    found = fit(X, f + 0.2 * rng.standard_t(2.5, size=1000)).diagnose()
    assert found.finding("spread").level == "ok" and found.spread.p > 0.01


def test_errors_that_are_correlated_by_the_model_itself_are_no_alarm():
    """Nearly exact data in a row: what is left of neighbours has correlations of -0.7, and so sizes that agree."""
    x = np.linspace(0, 1, 300)[:, None]
    y = np.sin(8 * x[:, 0]) + 1e-3 * np.random.default_rng(0).normal(size=300)
    gp = fit(x, y, approximation="full")
    assert gp.diagnose().finding("spread").level == "ok" and abs(gp.diagnose().spread.z) < 3


@pytest.mark.parametrize(
    ("n_rows", "why"), [(25, "25 different rows are too few"), (39, "39 different rows are too few")]
)
def test_too_few_rows_say_that_they_are_too_few(n_rows, why):
    X, f, rng = smooth(n_rows)
    finding = fit(X, f + 0.1 * rng.normal(size=n_rows)).diagnose().finding("spread")
    assert finding.level == "unknown" and why in finding.text


@pytest.mark.parametrize("likelihood", ["poisson", "student_t", "gamma"])
def test_other_likelihoods_than_gaussian_ones_are_not_tested_and_say_so(likelihood):
    X, f, rng = smooth(60)
    found = fit(X, 1.0 + rng.poisson(np.exp(f)), likelihood=likelihood, knots=5).diagnose()
    assert found.spread is None and found.finding("spread").level == "unknown"
    assert "the test is for Gaussian noise of y or log y" in found.finding("spread").text


def test_a_model_with_neighbours_and_many_knots_says_why_it_cannot_test():
    X, f, rng = smooth(60)
    finding = fit(X, f + 0.1 * rng.normal(size=60), knots=15, n_neighbors=5).diagnose().finding("spread")
    assert finding.level == "unknown" and "15 knots are many among 60 rows" in finding.text


# -- the test by ranks ----------------------------------------------------------------------------


@pytest.mark.parametrize("n_rows", [60, 133, 199, 300])
def test_noise_of_a_sixteenfold_range_is_a_problem_at_any_number_of_rows(n_rows):
    rng = np.random.default_rng(1)
    x = np.sort(rng.random((n_rows, 1)), 0)
    gp = fit(x, np.sin(6 * x[:, 0]) + (0.02 + 0.3 * x[:, 0]) * rng.normal(size=n_rows))
    found = gp.diagnose()
    assert found.finding("spread").level == "problem" and found.spread.along == "column 0"
    assert found.spread.where == ("column 0 is small", "column 0 is large")
    assert f"{n_rows} rows" in found.finding("spread").text and "noise_variance=" in found.finding("spread").advice


def test_the_column_along_which_the_noise_grows_is_named_in_the_words_of_the_frame():
    pd = pytest.importorskip("pandas")
    X, f, rng = smooth(300)
    frame = pd.DataFrame({"east": X[:, 0], "depth": X[:, 1]})
    found = fit(frame, f + 0.3 * 4 ** (0.5 - X[:, 1]) * rng.normal(size=300)).diagnose()
    assert found.spread.along == "depth" and found.spread.where == ("depth is large", "depth is small")
    assert "times as large where depth is small" in found.finding("spread").text


def test_noise_at_both_ends_of_a_column_is_found_in_the_distance_from_its_middle():
    X, f, rng = smooth(300)
    found = fit(X, f + 0.1 * 4 ** (2 * np.abs(X[:, 1] - 0.5)) * rng.normal(size=300)).diagnose()
    assert found.spread.where == ("column 1 is near its median", "column 1 is far from its median")


def test_noise_that_grows_with_the_mean_is_found_along_the_mean():
    rng = np.random.default_rng(3)
    X = rng.uniform(size=(400, 2))
    f = np.sin(9 * X[:, 0]) + np.sin(9 * X[:, 1])
    assert fit(X, f + 0.2 * np.exp(0.7 * f) * rng.normal(size=400)).diagnose().spread.along == "fitted mean"


def test_ranks_do_not_change_with_the_units_of_a_column_or_of_the_target():
    X, f, rng = smooth(120)
    y = f + (0.1 + X[:, 1]) * rng.normal(size=120)
    one = fit(X, y, knots=10).diagnose().spread
    other = fit(X * 2.0**20, y * 2.0**-9, knots=10).diagnose().spread
    assert one == other


def test_p_values_of_sizes_that_tell_nothing_are_bounds_of_the_chance():
    """Independent errors with the tails of t(3), a skewed column and a rare level: p < 0.1 in at most a tenth."""
    from knotwise.diagnosis.autocorrelation import NeighbourGraph
    from knotwise.diagnosis.heteroscedasticity import Errors, heteroscedasticity_test

    ps = []
    for seed in range(150):
        rng = np.random.default_rng(seed)
        X = np.column_stack([rng.lognormal(0, 2, size=60), (np.arange(60) < 6).astype(float)])
        residuals = LowRankResiduals(rng.standard_t(3, size=60), np.ones(60), np.zeros((60, 1)))
        errors = Errors(residuals, NeighbourGraph.find(X, 60, together=True), np.arange(60))
        ps.append(heteroscedasticity_test(errors, X, X[:, 0], 1.0, ["x", "level"]).p)
    assert np.mean(np.array(ps) < 0.1) <= 0.1 + 2 * np.sqrt(0.09 / 150) and np.mean(np.array(ps) < 0.01) <= 0.03


def test_the_tail_of_a_skewed_statistic_is_that_of_a_gamma_distribution():
    from scipy.special import ndtr
    from scipy.stats import chi2, gamma

    from knotwise.diagnosis.heteroscedasticity import _tail

    z = np.array([-1.0, 0.0, 2.0, 4.0])
    assert_allclose(_tail(z, np.zeros(4)), ndtr(-z), rtol=0.02)
    k = 8.0  # a chi-square has skewness sqrt(8 / k)
    assert_allclose(_tail(z, np.full(4, np.sqrt(8 / k))), chi2.sf(k + z * np.sqrt(2 * k), k), rtol=1e-9)
    assert_allclose(_tail(z, np.full(4, -np.sqrt(8 / k))), chi2.cdf(k - z * np.sqrt(2 * k), k), rtol=1e-9)
    assert gamma.sf(4.0, 1.0) > ndtr(-3.0)  # which a normal distribution would take it for


def test_errors_that_are_mostly_of_the_function_are_no_uneven_noise():
    """A function without noise that is rough in one half: intervals do not fit there, and noise is not to blame."""
    x = np.linspace(0, 1, 150)[:, None]
    y = np.where(x[:, 0] < 0.5, np.sin(5 * x[:, 0]), np.sin(5 * x[:, 0]) + 0.1 * np.abs(np.sin(90 * x[:, 0])))
    found = fit(x, y, kernel=Matern32(1.0, 0.5), **HELD | {"likelihood": Gaussian(1e-6)}).diagnose()
    assert found.spread.p < 1e-3 and found.spread.noise_share < 0.5
    assert found.finding("spread").level == "note" and "the function is rougher" in found.finding("spread").advice


def test_a_small_difference_of_many_rows_is_no_note():
    X, f, rng = smooth(3000)
    found = fit(X, f + 0.3 * 1.15 ** (X[:, 1] - 0.5) * rng.normal(size=3000), knots=25).diagnose()
    assert found.finding("spread").level == "ok"


def test_a_constant_target_has_no_sizes_to_compare():
    X, _, _ = smooth(250)
    assert fit(X, np.full(250, 3.0)).diagnose().spread is None


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_false_alarms_are_as_rare_as_they_say(kind):
    """Forty sets with the same noise everywhere: the p-value is below 0.05 in two, and at most five."""
    alarms = problems = 0
    for seed in range(40):
        X, f, rng = smooth(250, seed)
        found = fit(X, f + 0.3 * rng.normal(size=250), **KINDS[kind]).diagnose()
        alarms += found.spread.p < 0.05
        problems += found.finding("spread").level != "ok"
    assert alarms <= 5 and problems <= 1
