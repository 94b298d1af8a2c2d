"""Sizes of errors tell where the noise of one variance is the wrong model, and are silent where it is right."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

import knotwise
from knotwise import GPRegressor
from knotwise.diagnosis.residuals import DenseResiduals, LowRankResiduals
from knotwise.errors import FitWarning
from knotwise.kernels import SquaredExponential
from knotwise.likelihoods import Gaussian

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
        return GPRegressor(**{"random_state": 0, **options}).fit(X, y)


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


@pytest.mark.parametrize("kind", ["knots", "exact", "neighbours"])
def test_noise_that_differs_from_place_to_place_is_found(kind):
    X, f, rng = smooth(600)
    gp = fit(X, f + (0.02 + 4 * (X[:, 1] - 0.5) ** 2) * rng.normal(size=600), **KINDS[kind])
    found, finding = gp.diagnose(), gp.diagnose().finding("spread")
    assert found.spread.p < 1e-6 and found.spread.ratio > 2
    assert found.spread.coverage[1] < 0.85 and found.spread.coverage[0] > 0.95
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
    right, wrong = (GPRegressor(knots=25, random_state=0).fit(X, y, noise_variance=v) for v in (sd**2, sd[::-1] ** 2))
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
    gp = fit(X, y + 0.1 * rng.normal(size=800), kernel=SquaredExponential(0.5, 0.1), knots=20, optimizer=None)
    assert gp.diagnose().spread.coverage[1] > 0.95


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_places", [1, 3, 8, 40])
def test_few_places_are_not_compared(n_places, kind):
    rng = np.random.default_rng(0)
    x = rng.integers(n_places, size=300).astype(float)
    options = KINDS[kind] | ({"knots": min(n_places, 5)} if "knots" in KINDS[kind] else {})
    found = fit(x[:, None], np.sin(x) + 0.3 * rng.normal(size=300), **options).diagnose()
    assert found.spread is None


@pytest.mark.parametrize("kind", ["knots", "exact", "neighbours"])
def test_rows_that_count_more_than_once_are_not_compared(kind):
    X, f, rng = smooth(400)
    y = f + 0.3 * rng.normal(size=400)
    weights = np.where(X[:, 0] < 0.2, 9.0, 1.0)
    found = GPRegressor(random_state=0, **KINDS[kind]).fit(X, y, sample_weight=weights).diagnose()
    assert found.spread is None


def test_targets_of_few_values_are_not_compared():
    X, f, rng = smooth(400)
    for y in (rng.binomial(1, 0.1, 400).astype(float), np.round(f + 0.25 * rng.normal(size=400))):
        assert fit(X, y, knots=20).diagnose().spread is None


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


def test_it_is_asked_of_noise_of_one_variance_and_of_enough_rows():
    X, f, rng = smooth(250)
    counts = fit(X, rng.poisson(np.exp(f)).astype(float), likelihood="poisson").diagnose()
    few = fit(X[:190], f[:190] + 0.1 * rng.normal(size=190)).diagnose()
    for found in (counts, few):
        assert found.spread is None and [f.name for f in found.findings][-1] == "neighbours"
    many = fit(X, f + 0.1 * rng.normal(size=250)).diagnose()
    assert many.finding("spread").level == "ok" and many.to_dict()["spread"]["p"] == many.spread.p


def test_a_constant_target_has_no_sizes_to_compare():
    X, _, _ = smooth(250)
    assert fit(X, np.full(250, 3.0)).diagnose().spread is None


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_false_alarms_are_as_rare_as_they_say(kind):
    """Forty sets with the same noise everywhere: the p-value is below 0.05 in three or four, and at most six."""
    alarms = problems = 0
    for seed in range(40):
        X, f, rng = smooth(250, seed)
        found = fit(X, f + 0.3 * rng.normal(size=250), **KINDS[kind]).diagnose()
        alarms += found.spread.p < 0.05
        problems += found.finding("spread").level != "ok"
    assert alarms <= 6 and problems <= 1
