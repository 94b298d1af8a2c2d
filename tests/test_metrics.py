"""The scores, against closed forms, quadrature and eighty-digit arithmetic."""

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import stats
from scipy.integrate import quad

from knotwise import metrics
from knotwise.errors import InvalidInputError

GAUSSIANS = [(0.0, 1.0, 0.5, 2.0), (3.0, 0.01, 3.1, 0.02), (-1.0, 5.0, 2.0, 0.7), (10.0, 2.0, 10.0, 2.1)]
means = st.floats(-100, 100)
variances = st.floats(1e-6, 1e6)


def columns(*per_row):
    """Many rows of the given strategies, as one array per column."""
    return st.lists(st.tuples(*per_row), min_size=2, max_size=20).map(lambda rows: np.array(rows).T)


def kl_to_eighty_digits(m_f, v_f, m_s, v_s):
    with localcontext() as context:
        context.prec = 80
        m_f, v_f, m_s, v_s = map(Decimal, (m_f, v_f, m_s, v_s))
        ratio = v_f / v_s
        return (ratio - 1 - ratio.ln() + (m_f - m_s) ** 2 / v_s) / 2


def test_rmse_is_the_root_of_the_mean_square_by_hand():
    assert_allclose(metrics.rmse([1, 2, 3], [1, 4, 0]), (13 / 3) ** 0.5, rtol=1e-15)


@given(columns(means, means))
def test_squared_rmse_is_squared_bias_plus_variance_of_the_error(rows):
    y, mean = rows
    assert_allclose(metrics.rmse(y, mean) ** 2, (mean - y).mean() ** 2 + (mean - y).var(), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("n", [2, 5, 98])
def test_srmse_of_the_constant_mean_is_the_root_of_n_minus_1_over_n(n, rng):
    y = rng.normal(size=n)
    assert_allclose(metrics.srmse(y, np.full(n, y.mean())), np.sqrt((n - 1) / n), rtol=1e-12)


@given(st.integers(0, 1000), st.floats(1e-6, 1e6), st.floats(-1e3, 1e3))
def test_srmse_does_not_depend_on_the_units(seed, scale, shift_in_units):
    y, mean = np.random.default_rng(seed).normal(size=(2, 12))
    shift = scale * shift_in_units
    # the shift rounds away up to three of the digits of y
    assert_allclose(metrics.srmse(scale * y + shift, scale * mean + shift), metrics.srmse(y, mean), rtol=1e-10)


def test_mnlp_is_the_median_and_mean_nlpd_the_mean_of_an_odd_and_an_even_number_of_rows():
    assert metrics.mnlp([-1, -2, -6]) == 2 and metrics.mean_nlpd([-1, -2, -6]) == 3
    assert metrics.mnlp([-1, -2, -4, -9]) == 3 and metrics.mean_nlpd([-1, -2, -4, -9]) == 4


def test_an_impossible_row_makes_the_mean_infinite_and_leaves_the_median():
    log_density = [-1.0, -2.0, -np.inf]
    assert metrics.mnlp(log_density) == 2 and metrics.mean_nlpd(log_density) == np.inf


@given(columns(means, means, variances))
def test_gaussian_log_density_is_that_of_scipy(rows):
    y, mean, variance = rows
    expected = stats.norm.logpdf(y, mean, np.sqrt(variance))
    assert_allclose(metrics.gaussian_log_density(y, mean, variance), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("moments", GAUSSIANS)
def test_kl_is_the_integral_that_defines_it(moments):
    m_f, v_f, m_s, v_s = moments
    full, sparse = stats.norm(m_f, v_f**0.5), stats.norm(m_s, v_s**0.5)

    def integrand(f):
        return full.pdf(f) * (full.logpdf(f) - sparse.logpdf(f))

    width = 12 * v_f**0.5  # beyond it the density is below 1e-31
    integral, _ = quad(integrand, m_f - width, m_f + width, points=[m_f], epsabs=1e-13, epsrel=1e-12)
    assert_allclose(metrics.univariate_kl(*np.reshape(moments, (4, 1))), [integral], rtol=1e-9)


@pytest.mark.parametrize("moments", GAUSSIANS)
def test_kl_is_the_textbook_formula(moments):
    m_f, v_f, m_s, v_s = moments
    expected = np.log(np.sqrt(v_s / v_f)) + (v_f + (m_f - m_s) ** 2) / (2 * v_s) - 0.5
    assert_allclose(metrics.univariate_kl([m_f], [v_f], [m_s], [v_s]), [expected], rtol=1e-12)


@given(columns(means, variances))
def test_kl_of_equals_is_exactly_zero(rows):
    mean, variance = rows
    assert np.all(metrics.univariate_kl(mean, variance, mean, variance) == 0)


@pytest.mark.parametrize("relative", [1e-15, -3e-12, 1e-9, -1e-6, 1.4e-6, 1e-3, -0.02])
@pytest.mark.parametrize("v_s", [1e-8, 0.3, 7e5])
def test_kl_of_nearly_equal_variances_is_the_taylor_series_in_exact_fractions(relative, v_s):
    v_f = v_s * (1 + relative)
    d = Fraction(v_f) / Fraction(v_s) - 1
    series = sum((-d) ** k / k for k in range(2, 16)) / 2
    # rounding of d - log1p(d) alone would cost 1e-10 at a KL of 1e-12
    assert_allclose(metrics.univariate_kl([1.0], [v_f], [1.0], [v_s]), [float(series)], rtol=1e-14)


@given(st.tuples(means, st.floats(1e-30, 1e30), means, st.floats(1e-30, 1e30)))
def test_kl_has_full_precision_over_sixty_decades_of_variance(moments):
    expected = float(kl_to_eighty_digits(*moments))
    assert_allclose(metrics.univariate_kl(*np.reshape(moments, (4, 1))), [expected], rtol=1e-12, atol=1e-300)


@given(st.floats(1e-6, 1e6), st.floats(-0.2, 0.2), st.floats(-1e-3, 1e-3))
def test_kl_near_and_across_the_switch_of_formula_has_full_precision(v_s, relative, step):
    moments = (step, v_s * (1 + relative), 0.0, v_s)
    expected = float(kl_to_eighty_digits(*moments))
    assert_allclose(metrics.univariate_kl(*np.reshape(moments, (4, 1))), [expected], rtol=1e-12, atol=1e-300)


@given(columns(means, variances, means, variances))
def test_kl_is_never_negative(rows):
    assert np.all(metrics.univariate_kl(*rows) >= 0)


def test_kl_beyond_the_largest_float_is_infinite_and_not_nan():
    assert metrics.univariate_kl([0.0], [1e300], [0.0], [1e-300]) == [np.inf]


@given(columns(means, variances, means, variances), st.floats(0.01, 100), means)
def test_kl_does_not_depend_on_the_units(rows, scale, shift):
    m_f, v_f, m_s, v_s = rows
    moved = metrics.univariate_kl(scale * (m_f + shift), scale**2 * v_f, scale * (m_s + shift), scale**2 * v_s)
    # the shift rounds the means at 2e-14 of their size, over standard deviations from 1e-3 on
    assert_allclose(moved, metrics.univariate_kl(*rows), rtol=1e-6, atol=1e-9)


def test_aukl_latent_is_the_mean_over_rows_in_any_order(rng):
    rows = np.array(GAUSSIANS)
    by_row = [float(kl_to_eighty_digits(*row)) for row in rows]
    assert_allclose(metrics.aukl_latent(*rng.permutation(rows).T), np.mean(by_row), rtol=1e-12)


def test_aukl_observation_is_the_latent_formula_with_each_noise_added_once():
    m_f, v_f, m_s, v_s = np.array(GAUSSIANS).T
    per_row = np.array([0.1, 0.2, 0.3, 0.4])
    found = metrics.aukl_observation(m_f, v_f, m_s, v_s, full_noise_variance=0.5, sparse_noise_variance=per_row)
    assert found == metrics.aukl_latent(m_f, v_f + 0.5, m_s, v_s + per_row)


@given(columns(means, variances, means, variances), st.floats(1e-3, 1e3))
def test_equal_noise_never_raises_the_divergence(rows, noise):
    noisy = metrics.aukl_observation(*rows, full_noise_variance=noise, sparse_noise_variance=noise)
    latent = metrics.aukl_latent(*rows)
    # adding the noise rounds the variances at 1e-16: a KL of 1e-32 by itself, and 1e-16 sqrt(KL) where they differ
    assert noisy <= latent * (1 + 1e-12) + 1e-15 * np.sqrt(latent) + 1e-30


def test_coverage_counts_both_ends_as_inside():
    y = [0.0, 1.0, 1.0 + 1e-12, -1e-12, 0.5]
    assert metrics.interval_coverage(y, np.zeros(5), np.ones(5)) == 3 / 5


def test_coverage_of_one_sided_intervals_is_the_empirical_distribution():
    assert metrics.interval_coverage([1, 2, 3, 4], [-np.inf] * 4, [2.5] * 4) == 0.5


NOISES = {"full_noise_variance": 1.0, "sparse_noise_variance": 1.0}
CALLS = {  # name: number of columns, keywords
    "rmse": (2, {}),
    "srmse": (2, {}),
    "mnlp": (1, {}),
    "mean_nlpd": (1, {}),
    "gaussian_log_density": (3, {}),
    "univariate_kl": (4, {}),
    "aukl_latent": (4, {}),
    "aukl_observation": (4, NOISES),
    "interval_coverage": (3, {}),
}
EVERY_COLUMN = [(name, column) for name, (n_columns, _) in CALLS.items() for column in range(n_columns)]


def call_with(name, column, value):
    """Call a metric on three good rows in which one column is replaced."""
    n_columns, keywords = CALLS[name]
    arguments = [[1.0, 2.0, 3.0] for _ in range(n_columns)]
    arguments[column] = value
    return getattr(metrics, name)(*arguments, **keywords)


@pytest.mark.parametrize(("name", "column"), EVERY_COLUMN)
def test_a_nan_is_refused_with_its_row(name, column):
    with pytest.raises(InvalidInputError, match="row 2") as caught:
        call_with(name, column, [1.0, 2.0, np.nan])
    assert caught.value.row == 2


@pytest.mark.parametrize(("name", "column"), EVERY_COLUMN)
@pytest.mark.parametrize("bad", [[], 1.0, [[1.0], [2.0], [3.0]]], ids=["empty", "number", "matrix"])
def test_what_is_not_one_value_per_row_is_refused(name, column, bad):
    with pytest.raises(InvalidInputError, match="must have shape"):
        call_with(name, column, bad)


@pytest.mark.parametrize(("name", "column"), [pair for pair in EVERY_COLUMN if CALLS[pair[0]][0] > 1])
def test_another_number_of_rows_is_refused_even_one_that_would_broadcast(name, column):
    with pytest.raises(InvalidInputError, match=r"\(1,\)"):
        call_with(name, column, [1.0])


@pytest.mark.parametrize(("name", "column"), EVERY_COLUMN)
@pytest.mark.parametrize("bad", [["a", "b", "c"], [[1.0], [1.0, 2.0]], [1j, 2j, 3j]])
def test_what_is_not_real_numbers_is_refused(name, column, bad):
    with pytest.raises(InvalidInputError, match="must hold real numbers"):
        call_with(name, column, bad)


@pytest.mark.parametrize("bad", [0.0, -1e-9])
@pytest.mark.parametrize(
    ("name", "column"),
    [(kl, i) for kl in ("univariate_kl", "aukl_latent", "aukl_observation") for i in (1, 3)]
    + [("gaussian_log_density", 2)],
)
def test_a_variance_that_is_not_positive_is_refused_with_its_row(name, column, bad):
    with pytest.raises(InvalidInputError, match=r"variance` must be positive.*row 1") as caught:
        call_with(name, column, [1.0, bad, 1.0])
    assert (caught.value.row, caught.value.value) == (1, bad)


@pytest.mark.parametrize("noise", sorted(NOISES))
@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf, [1.0], None, [1.0, 0.0, 1.0]])
def test_a_noise_that_is_no_variance_is_refused_by_name(noise, bad):
    with pytest.raises(InvalidInputError, match=f"`{noise}` must"):
        metrics.aukl_observation(*np.ones((4, 3)), **(NOISES | {noise: bad}))


def test_infinite_values_are_refused_where_they_have_no_meaning():
    for call in (
        lambda: metrics.rmse([1.0, np.inf], [1.0, 2.0]),
        lambda: metrics.mnlp([0.0, np.inf]),
        lambda: metrics.interval_coverage([np.inf], [0.0], [np.inf]),
    ):
        with pytest.raises(InvalidInputError, match="is inf in row"):
            call()


def test_srmse_refuses_one_row_and_targets_that_do_not_vary():
    with pytest.raises(InvalidInputError, match="at least 2 rows"):
        metrics.srmse([1.0], [1.0])
    with pytest.raises(InvalidInputError, match=r"all 3 values of `y` are 0\.1"):
        metrics.srmse([0.1, 0.1, 0.1], [0.1, 0.2, 0.3])


def test_an_interval_upside_down_is_refused_with_its_row():
    with pytest.raises(InvalidInputError, match="row 1"):
        metrics.interval_coverage([0.0, 0.0], [-1.0, 1.0], [1.0, -1.0])


@pytest.fixture
def rng():
    return np.random.default_rng(0)
