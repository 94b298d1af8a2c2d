"""Starts at which an optimiser is lost, and optimisers that do not arrive."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

from failure_fits import APPROXIMATIONS, fit, noise_only_evidence, smooth_rows
from knotwise.errors import FitWarning
from knotwise.kernels import Matern12, SquaredExponential
from knotwise.numerics.blocks import executor_for
from knotwise.optimize import LBFGS


@pytest.fixture(scope="module")
def data():
    return smooth_rows()


# -- extreme starts ---------------------------------------------------------------------------------

EXTREME_STARTS = {
    "lengthscale 1e-300": {"lengthscale": 1e-300},
    "lengthscale 1e300": {"lengthscale": 1e300},
    "variance 1e-300": {"variance": 1e-300},
    "one lengthscale of two": {"lengthscale": [1e-300, 1.0]},
}


@pytest.mark.slow
@pytest.mark.failure(14)
@pytest.mark.parametrize("kernel", [SquaredExponential, Matern12])
@pytest.mark.parametrize("approximation", APPROXIMATIONS)
@pytest.mark.parametrize("start", EXTREME_STARTS.values(), ids=EXTREME_STARTS.keys())
@pytest.mark.filterwarnings("ignore::knotwise.errors.FitWarning")
def test_an_extreme_start_gives_a_finite_fit(start, approximation, kernel, data):
    """Case 14: length-scale underflows."""
    X, y, X_new = data
    gp = fit(X, y, kernel=kernel(**start, column_scales="standard"), approximation=approximation)
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
        gp = fit(X, y, kernel=SquaredExponential(**start, column_scales="standard"))
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
    gp = fit(X, y, kernel=kernel, fixed=["variance", "noise_variance"], **options)
    assert gp.converged_ and gp.optimize_result_.evaluations < 20
    assert_allclose(gp.predict(X_new), y.mean(), rtol=1e-6)
    assert gp.optimize_result_.gradient_norm < 1e-4
