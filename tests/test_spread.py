"""Sizes of errors tell where the noise of one variance is the wrong model, and are silent where it is right."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

from knotwise import GPRegressor
from knotwise.diagnosis.residuals import DenseResiduals, LowRankResiduals
from knotwise.errors import FitWarning

KINDS = {
    "knots": {"knots": 25},
    "fic": {"knots": 25, "approximation": "fic"},
    "exact": {"approximation": "full"},
    "neighbours": {"knots": 15, "n_neighbors": 10},
}


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
    assert "noise_variance=" in finding.advice and "lognormal" not in finding.advice


def test_errors_that_grow_with_y_ask_for_its_logarithm_and_it_helps():
    X, f, rng = smooth(500)
    y = np.exp(1.5 * f + 0.3 * rng.normal(size=500))
    gp = fit(X, y)
    finding = gp.diagnose().finding("spread")
    assert gp.diagnose().spread.with_mean > 0.3 and "likelihood='lognormal'" in finding.advice
    assert fit(X, y, likelihood="lognormal").diagnose().finding("spread").level == "ok"


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
    X, f, rng = smooth(150)
    counts = fit(X, rng.poisson(np.exp(f)).astype(float), likelihood="poisson").diagnose()
    few = fit(X[:90], f[:90] + 0.1 * rng.normal(size=90)).diagnose()
    for found in (counts, few):
        assert found.spread is None and [f.name for f in found.findings][-1] == "neighbours"
    many = fit(X, f + 0.1 * rng.normal(size=150)).diagnose()
    assert many.finding("spread").level == "ok" and many.to_dict()["spread"]["p"] == many.spread.p


def test_a_constant_target_has_no_sizes_to_compare():
    X, _, _ = smooth(150)
    found = fit(X, np.full(150, 3.0)).diagnose()
    assert found.spread is None or found.finding("spread").level == "ok"


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_false_alarms_are_as_rare_as_they_say(kind):
    """Forty sets with the same noise everywhere: the p-value is below 0.05 in about two, and at most five."""
    alarms = problems = 0
    for seed in range(40):
        X, f, rng = smooth(250, seed)
        found = fit(X, f + 0.3 * rng.normal(size=250), **KINDS[kind]).diagnose()
        alarms += found.spread.p < 0.05
        problems += found.finding("spread").level != "ok"
    assert alarms <= 5 and problems <= 1
