"""The scalar problem of each row, against a bracketing root finder and a fine grid."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import brentq

from knotwise import likelihoods as lik
from knotwise.evidence import Rows
from knotwise.evidence.inference.row_modes import CLOSE, CLOSE_ENOUGH, find_row_modes

CONCAVE = {
    "poisson": (lik.Poisson(), [0.0, 1.0, 7.0, 1e4, 1e7]),
    "bernoulli": (lik.Bernoulli(), [0.0, 1.0]),
    "probit": (lik.Bernoulli("probit"), [0.0, 1.0]),
    "gamma": (lik.Gamma(2.5), [1e-3, 1.0, 50.0]),
    "weibull": (lik.Weibull(1.7), [1e-3, 1.0, 50.0]),
    "negative-binomial": (lik.NegativeBinomial(0.4), [0.0, 3.0, 1e4]),
    "lognormal": (lik.LogNormal(0.3), [1e-3, 1.0, 50.0]),
}
LAM = [0.0, 1e-9, 1e-3, 0.3, 12.0, 400.0]
X = [-25.0, -3.0, 0.0, 1.5, 12.0]


def some_rows(targets, places, variances):
    """Every combination: rows, x and lam."""
    y, x, lam = (grid.ravel() for grid in np.meshgrid(targets, places, variances, indexing="ij"))
    return Rows(np.zeros((len(y), 1)), y, None, np.empty((len(y), 0))), x, lam


def solve(likelihood, rows, x, lam, start=None, close=CLOSE):
    with np.errstate(all="ignore"):
        return find_row_modes(likelihood, rows, x, lam, start, lambda: rows.y, close)


def slack(likelihood, y, x, lam, a):
    return float(likelihood.derivatives(np.array([y]), np.array([x + lam * a]), 1.0).first[0] - a)


@pytest.mark.parametrize(("likelihood", "targets"), CONCAVE.values(), ids=CONCAVE)
def test_the_mode_of_each_row_is_that_of_a_bracketing_search(likelihood, targets):
    rows, x, lam = some_rows(targets, X, LAM)
    found = solve(likelihood, rows, x, lam)
    for i in range(len(rows)):
        with np.errstate(all="ignore"):
            end = slack(likelihood, rows.y[i], x[i], lam[i], 0.0)  # the root lies between 0 and g(x)
            a = brentq(lambda a: slack(likelihood, rows.y[i], x[i], lam[i], a), *sorted((0.0, end)), xtol=1e-300)  # noqa: B023
        assert_allclose(found.f[i], x[i] + lam[i] * a, rtol=1e-12, atol=1e-10)
        assert_allclose(found.a[i], a, rtol=1e-8, atol=1e-10 * (1 + abs(end)))
    at_mode = likelihood.derivatives(rows.y, found.f, 1.0)
    assert_allclose(found.derivatives.second, at_mode.second, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize(("likelihood", "targets"), CONCAVE.values(), ids=CONCAVE)
def test_a_guess_changes_the_way_and_not_the_end(likelihood, targets):
    rows, x, lam = some_rows(targets, X, LAM)
    cold, rng = solve(likelihood, rows, x, lam), np.random.default_rng(0)
    for size in (1e-3, 1.0, 1e3, np.nan):
        with np.errstate(invalid="ignore"):
            warm = solve(likelihood, rows, x, lam, cold.a + size * rng.normal(size=len(x)))
        assert_allclose(warm.f, cold.f, rtol=1e-11, atol=1e-9)


@pytest.mark.parametrize(("likelihood", "targets"), CONCAVE.values(), ids=CONCAVE)
def test_a_search_that_stops_early_is_off_by_the_third_power_of_its_last_step(likelihood, targets):
    rows, x, lam = some_rows(targets, X, LAM[1:-1])
    exact = solve(likelihood, rows, x, lam)
    early = solve(likelihood, rows, x, lam, close=CLOSE_ENOUGH)
    assert_allclose(early.f, exact.f, rtol=1e-10, atol=1e-9)
    assert_allclose(early.derivatives.second, exact.derivatives.second, rtol=1e-6, atol=1e-10)


def test_latent_values_of_a_million_do_not_keep_the_search_going():
    """There rounding is larger than the step with which a search ends."""
    likelihood = lik.Gaussian(1e-6)
    rows, x, lam = some_rows([1e6, 1e6 + 1.0], [1e6 - 3.0, 1e6 + 0.1], [0.5, 1e-4])
    found = solve(likelihood, rows, x, lam)
    assert_allclose(found.f, (x * 1e-6 + lam * rows.y) / (1e-6 + lam), rtol=1e-13)


@pytest.mark.parametrize("likelihood", [lik.StudentT(0.1, 3.0), lik.StudentT(1.0, 4.0)], ids=str)
def test_of_two_maxima_the_better_one_is_found(likelihood):
    rows, x, lam = some_rows([-6.0, -0.4, 0.0, 2.0, 9.0], [0.0, 0.3], [0.05, 0.8, 5.0])
    found = solve(likelihood, rows, x, lam)
    grid = np.linspace(-12.0, 12.0, 240_001)
    for i in range(len(rows)):
        objective = likelihood.log_density(rows.y[i], grid, 1.0) - 0.5 * (grid - x[i]) ** 2 / lam[i]
        reached = likelihood.log_density(rows.y[i], found.f[i], 1.0) - 0.5 * (found.f[i] - x[i]) ** 2 / lam[i]
        assert reached >= objective.max() - 1e-12
        assert_allclose(slack(likelihood, rows.y[i], x[i], lam[i], found.a[i]), 0.0, atol=1e-8)
