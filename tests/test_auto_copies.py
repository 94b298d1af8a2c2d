"""Automatic knots where the noise vanishes: copies of rows, and functions that need more knots than are allowed.

Rows that are repeated with equal targets say that there is no noise: the exact GP goes through them, and so may a
sparse one with as many knots. What must not happen is a fit that is worse than no knots at all, or one that goes
through copies without a word. The oracles are the exact GP, and the likelihood of independent normal targets.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from knotwise import GPRegressor, metrics
from knotwise.errors import FitWarning
from knotwise.kernels import SquaredExponential
from knotwise.knots import Auto


def evidence_without_inputs(y):
    """Log evidence of independent normal targets at their own variance, with a level of prior sd 10 integrated out."""
    return -0.5 * len(y) * (np.log(2 * np.pi * y.var()) + 1) - 0.5 * np.log1p(100 * len(y))


def copied_noise(n, copies, d, seed):
    rng = np.random.default_rng(seed)
    X, y = rng.uniform(size=(n, d)), rng.normal(size=n)
    return np.repeat(X, copies, axis=0), np.repeat(y, copies)


def check_sane(gp, X, y):
    """Finite, at least as likely as no inputs at all, and no more sure of its rows than it says."""
    X_new = np.vstack([X, X + 0.01, np.random.default_rng(9).uniform(size=(50, X.shape[1]))])
    mean, std = gp.predict(X_new, return_std=True)
    assert np.isfinite(mean).all() and np.isfinite(std).all() and (std > 0).all()
    assert (gp.predict_latent(X_new).variance >= 0).all()
    assert gp.n_knots_ <= len(np.unique(X, axis=0))
    # the bound of VFE costs a little
    assert gp.log_evidence_ > evidence_without_inputs(y) - 3
    assert metrics.mean_nlpd(gp.log_predictive_density(X, y)) < 0.5 * np.log(2 * np.pi * np.e * y.var()) + 0.05


@pytest.mark.filterwarnings("ignore:The optimiser stopped")  # noise at its bound
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("n", "copies", "d"), [(40, 5, 2), (40, 2, 2), (30, 3, 3), (100, 2, 1), (12, 4, 2)])
def test_copies_of_noise_are_no_worse_than_noise_and_said_where_they_count_as_measurements(n, copies, d, seed):
    X, y = copied_noise(n, copies, d, seed)
    gp = GPRegressor(random_state=seed).fit(X, y)
    check_sane(gp, X, y)
    through = "noise_variance" in gp.parameters_.at_bound()
    assert through == (np.abs(gp.predict(X) - y).max() < 1e-3)
    assert through == ("drop them if they are copies" in gp.stop_reason_)
    if through:
        assert f"{n} of {n} different rows count more than once" in gp.stop_reason_
        assert gp.stop_reason_ in str(gp.summary())
        assert "duplicated rows" in gp.diagnose().finding("bounds").advice
        # at these parameters it is what the exact GP says, up to what the jitter costs without noise: VFE charges each
        # row half of the residual variance that the jitter leaves, over the noise; and up to the rounding of the exact
        # GP, whose covariance has entries 1e10 times the noise
        held = {"kernel": gp.kernel_, "likelihood": gp.likelihood_, "optimizer": None}
        exact = GPRegressor(approximation="full", **held).fit(X, y)
        cost = 0.5 * len(y) * gp.jitter_ * gp.kernel_.variance / gp.likelihood_.noise_variance
        assert exact.log_evidence_ - 2 * cost - 0.1 < gp.log_evidence_ <= exact.log_evidence_ + 0.1


@pytest.mark.parametrize(("n", "copies", "d", "seed"), [(200, 5, 1, 1), (200, 5, 1, 2), (300, 2, 5, 0)])
def test_copies_at_more_places_than_knots_do_not_end_below_every_likelihood(n, copies, d, seed):
    X, y = copied_noise(n, copies, d, seed)
    gp = GPRegressor(random_state=seed).fit(X, y)
    check_sane(gp, X, y)
    assert "noise_variance" not in gp.parameters_.at_bound() and gp.converged_


def test_equal_inputs_with_other_targets_are_noise():
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X, y = np.repeat(rng.uniform(size=(40, 2)), 5, axis=0), rng.normal(size=200)
        gp = GPRegressor(random_state=seed).fit(X, y)
        check_sane(gp, X, y)
        within = y.reshape(40, 5).var(axis=1, ddof=1).mean()
        assert_allclose(gp.likelihood_.noise_variance, within, rtol=0.15)
        assert gp.n_knots_ <= 10 and "copies" not in gp.stop_reason_


@pytest.mark.parametrize("seed", [0, 1])
def test_copies_of_a_function_with_noise_are_the_function(seed):
    rng = np.random.default_rng(seed)
    X = np.repeat(rng.uniform(size=(200, 1)), 2, axis=0)
    f = np.sin(6 * X[:, 0])
    gp = GPRegressor(random_state=seed).fit(X, f + np.repeat(0.3 * rng.normal(size=200), 2))
    assert np.sqrt(np.mean((gp.predict(X) - f) ** 2)) < 0.1
    assert_allclose(gp.likelihood_.noise_variance, 0.09, rtol=0.3)
    assert "copies" not in gp.stop_reason_


def test_the_exact_gp_goes_through_copies_too_and_says_so():
    X, y = copied_noise(40, 5, 2, seed=0)
    gp = GPRegressor(approximation="full", random_state=0).fit(X, y)
    assert "noise_variance" in gp.parameters_.at_bound() and np.abs(gp.predict(X) - y).max() < 1e-3
    assert "40 of 40 different rows count more than once" in gp.stop_reason_
    # the same rows once each have noise, or nothing to go through
    once = GPRegressor(approximation="full", random_state=0).fit(X[::5], y[::5])
    assert "copies" not in once.stop_reason_


@pytest.mark.parametrize(("bounds", "said"), [((1e-12, 1.0), False), ((0.5, 1.0), True)])
def test_copies_are_said_where_the_noise_is_at_its_bound_only(bounds, said):
    """Counts of copies matter where the data ask for less noise than there may be, whatever the bound."""
    rng = np.random.default_rng(0)
    X = np.repeat(rng.uniform(size=(60, 1)), 2, axis=0)
    y = np.sin(6 * X[:, 0]) + np.repeat(0.1 * rng.normal(size=60), 2)
    gp = GPRegressor(bounds={"noise_variance": bounds}, random_state=0).fit(X, y)
    assert ("drop them if they are copies" in gp.stop_reason_) == said


# -- no noise, and too few knots ---------------------------------------------------------------------------


def rough(rng, n):
    """A function without noise that a hundred knots cannot follow: a step at each of 250 places."""
    X = rng.uniform(size=(n, 1))
    return X, rng.normal(size=250)[(250 * X[:, 0]).astype(int)]


@pytest.mark.parametrize("seed", [0, 1])
def test_a_function_that_needs_more_knots_than_allowed_is_not_less_likely_than_noise(seed):
    rng = np.random.default_rng(seed)
    X, y = rough(rng, 300)
    with pytest.warns(FitWarning, match="the limit of 60 knots was reached and more are needed"):
        gp = GPRegressor(knots=Auto(max_knots=60), random_state=seed).fit(X, y)
    check_sane(gp, X, y)
    assert "the limit of 60 knots was reached and more are needed" in gp.stop_reason_


def test_parameters_are_fitted_to_too_few_knots_only_where_no_inputs_would_do_better():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(300, 2))
    smooth = np.sin(9 * X[:, 0]) * np.cos(7 * X[:, 1])
    for noise, limit, refitted in [(0.0, 10, True), (0.0, 15, False), (0.3, 15, False)]:
        y = smooth + noise * rng.normal(size=300)
        with pytest.warns(FitWarning, match=f"limit of {limit} knots"):
            gp = GPRegressor(SquaredExponential(), knots=Auto(max_knots=limit), random_state=0).fit(X, y)
        actions = [step.action for step in gp.trace_]
        assert ("refit" in actions) == refitted == (f"parameters were fitted to {limit} knots" in gp.stop_reason_)
        assert f"limit of {limit} knots" in gp.stop_reason_
        last = gp.trace_[len(gp.trace_) - 1]
        left = gp._fit.problem.scores(gp._fit.selection.point).share
        assert_allclose(last.share, left, rtol=0.05)
        if refitted:  # at a maximum of the evidence of these knots
            assert gp.optimize_result_.gradient_norm < 0.1
            check_sane(gp, X, y)
