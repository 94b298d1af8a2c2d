"""Automatic knots where the noise could vanish: copies of rows, and functions that need more knots than are allowed.

Rows that are copied with their targets would say that there is no noise, and are the fit of the rows once. The oracles
are that fit, the exact GP, and the likelihood of independent normal targets.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

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


@pytest.mark.parametrize(
    ("n", "copies", "d", "seed", "approximation"),
    [(40, 5, 2, 0, None), (100, 2, 1, 1, None), (12, 4, 2, 0, None), (200, 5, 1, 1, None), (40, 5, 2, 0, "full")],
)
def test_copies_of_rows_are_the_fit_of_the_rows_once_to_the_bit(n, copies, d, seed, approximation):
    X, y = copied_noise(n, copies, d, seed)
    gp = GPRegressor(approximation=approximation, random_state=seed).fit(X, y)
    once = GPRegressor(approximation=approximation, random_state=seed).fit(X[::copies], y[::copies])
    assert gp.log_evidence_ == once.log_evidence_ and gp._fit.n_rows == n
    assert_array_equal(gp.parameters_.values, once.parameters_.values)
    assert_array_equal(gp.predict(X[::copies], return_std=True), once.predict(X[::copies], return_std=True))
    check_sane(gp, X[::copies], y[::copies])


def test_equal_inputs_with_other_targets_are_noise():
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X, y = np.repeat(rng.uniform(size=(40, 2)), 5, axis=0), rng.normal(size=200)
        gp = GPRegressor(random_state=seed).fit(X, y)
        check_sane(gp, X, y)
        within = y.reshape(40, 5).var(axis=1, ddof=1).mean()
        assert_allclose(gp.likelihood_.noise_variance, within, rtol=0.15)
        assert gp.n_knots_ <= 10


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
