"""Automatic knots and the user's optimiser: it is used, it is believed, and None keeps the parameters."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from knotwise import GPRegressor
from knotwise.decisions.thresholds import AUTO, HYPERPARAMETERS
from knotwise.errors import FitWarning, KnotwiseError
from knotwise.kernels import SquaredExponential
from knotwise.knots import Auto
from knotwise.likelihoods import Gaussian
from knotwise.optimize import LBFGS, Adadelta


@pytest.fixture
def waves(rng):
    X = rng.uniform(size=(200, 2))
    return X, np.sin(8 * X[:, 0]) + X[:, 1] + 0.2 * rng.normal(size=200)


def noise(rng):
    return rng.uniform(size=(60, 2)), rng.normal(size=60)


@pytest.fixture
def subsets(monkeypatch):
    """Knots are chosen on fewer rows than there are."""
    monkeypatch.setitem(vars(AUTO), "selection_rows", 100)


class Recorded:
    """An optimiser of one's own, which is no subclass of ours; it remembers how each run ended, and may fail."""

    def __init__(self, inner, failing=()):
        self.inner, self.failing, self.results, self.calls = inner, failing, [], 0

    def maximize(self, objective, start, bounds):
        self.calls += 1
        if self.calls in self.failing:
            raise KnotwiseError("asked to fail")
        self.results.append(self.inner.maximize(objective, start, bounds))
        return self.results[-1]


def fits_of_parameters(gp):
    return [step for step in gp.trace_ if step.action in ("parameters", "refine")]


# -- the optimiser is used ------------------------------------------------------------------------------


@pytest.mark.parametrize("inner", [LBFGS(), Adadelta(max_iterations=200)], ids=["L-BFGS", "Adadelta"])
def test_every_fit_of_the_parameters_is_the_users_optimiser(inner, waves):
    optimizer = Recorded(inner)
    gp = GPRegressor(optimizer=optimizer, random_state=0).fit(*waves)
    steps = fits_of_parameters(gp)
    assert len(steps) == len(optimizer.results) >= 1
    # the data are standardised, so evidences of the trace differ from the optimiser's by a constant
    found = [step.evidence for step in steps]
    assert_allclose(np.diff(found), np.diff([result.value for result in optimizer.results]), rtol=1e-9)
    # the last fit, or the one before columns were woken in vain
    (taken,) = [r for r in optimizer.results if np.allclose(gp._fit.selection.theta, r.parameters, rtol=1e-12, atol=0)]
    assert_array_equal(gp.optimize_result_.history, taken.history)
    assert gp.optimize_result_.evaluations == taken.evaluations


@pytest.mark.usefixtures("subsets")
def test_the_last_fit_on_all_rows_is_the_users_optimiser(waves):
    optimizer = Recorded(LBFGS())
    gp = GPRegressor(SquaredExponential(), optimizer=optimizer, random_state=0).fit(*waves)
    steps = fits_of_parameters(gp)
    assert steps[-1].action == "refine" and len(steps) == len(optimizer.results)
    assert_allclose(gp._fit.selection.theta, optimizer.results[-1].parameters, rtol=1e-12)


@pytest.mark.parametrize("n", [15, 60])
def test_few_rows_and_noise_are_fitted_by_the_users_optimiser(n, rng):
    X, y = noise(rng)
    optimizer = Recorded(LBFGS())
    gp = GPRegressor(optimizer=optimizer, random_state=0).fit(X[:n], y[:n])
    assert "parameters" not in [step.action for step in gp.trace_]
    values = [result.value for result in optimizer.results]
    assert any(value == pytest.approx(gp.optimize_result_.value, abs=1e-6) for value in values)


def test_adadelta_ends_where_lbfgs_does(waves):
    slow = Adadelta(max_iterations=3000, value_tolerance=1e-7)
    found, expected = (
        GPRegressor(SquaredExponential(), optimizer=o, random_state=0).fit(*waves) for o in (slow, "lbfgs")
    )
    assert_allclose(np.log(found.parameters_.values[:3]), np.log(expected.parameters_.values[:3]), atol=0.05)
    assert abs(found.log_evidence_ - expected.log_evidence_) < 0.5


def test_lbfgs_by_name_and_as_it_comes_is_the_same_fit(waves):
    named, given = (
        GPRegressor(SquaredExponential(), optimizer=o, random_state=0).fit(*waves) for o in ("lbfgs", LBFGS())
    )
    assert_array_equal(named.knots_, given.knots_)
    assert_array_equal(named.parameters_.values, given.parameters_.values)


def test_restarts_begin_the_first_fit_anew_and_failed_ones_are_counted(waves):
    single, several, failing = Recorded(LBFGS()), Recorded(LBFGS()), Recorded(LBFGS(), failing=(2,))
    alone = GPRegressor(SquaredExponential(), optimizer=single, random_state=0).fit(*waves)
    again = GPRegressor(SquaredExponential(), optimizer=several, n_restarts=3, random_state=0).fit(*waves)
    assert several.calls - len(fits_of_parameters(again)) == 3
    assert single.calls == len(fits_of_parameters(alone))
    values = [result.value for result in several.results[:4]]
    first = fits_of_parameters(again)[0].evidence - fits_of_parameters(alone)[0].evidence
    assert first == pytest.approx(max(values) - values[0], abs=1e-9)
    assert (
        GPRegressor(SquaredExponential(), optimizer=failing, n_restarts=3, random_state=0)
        .fit(*waves)
        .n_failed_restarts_
        == 1
    )


# -- it is believed ---------------------------------------------------------------------------------------


def check_not_converged(X, y, **options):
    short = LBFGS(max_iterations=1)
    with pytest.warns(FitWarning, match="stopped before it converged") as caught:
        gp = GPRegressor(optimizer=short, random_state=0, **options).fit(X, y)
    assert len(caught) == 1 and "limit of 1 iterations" in str(caught[0].message)
    assert gp.converged_ is False and gp.optimize_result_.converged is False
    assert "limit of 1 iterations" in gp.optimize_result_.reason
    finding = gp.diagnose().finding("convergence")
    assert finding.level == "problem" and "limit of 1 iterations" in finding.text


def test_an_optimiser_that_stopped_early_is_said(waves):
    check_not_converged(*waves)


@pytest.mark.usefixtures("subsets")
def test_an_optimiser_that_stopped_early_on_all_rows_is_said(waves):
    check_not_converged(*waves)


@pytest.mark.parametrize("n", [15, 60])
def test_an_optimiser_that_stopped_early_on_few_rows_or_noise_is_said(n, rng):
    X, y = noise(rng)
    check_not_converged(X[:n], y[:n], kernel=SquaredExponential(1.0, 1.0, column_scales="standard"))


def test_a_fit_that_converged_says_how_its_optimiser_ended(waves):
    gp = GPRegressor(random_state=0).fit(*waves)
    assert gp.converged_ and "its tolerance" in gp.optimize_result_.reason
    assert gp.stop_reason_ != gp.optimize_result_.reason


def test_what_a_round_leaves_unfinished_is_finished(waves, monkeypatch):
    kernel = SquaredExponential(ard=True)
    expected = GPRegressor(kernel, random_state=0).fit(*waves)
    monkeypatch.setitem(vars(HYPERPARAMETERS), "round", LBFGS(max_iterations=2))
    gp = GPRegressor(kernel, random_state=0).fit(*waves)
    assert gp.converged_
    assert "more evaluations" in fits_of_parameters(gp)[-1].note
    assert_allclose(np.log(gp.parameters_.values[:4]), np.log(expected.parameters_.values[:4]), atol=0.05)


def test_the_gradient_norm_leaves_out_what_bounds_forbid(waves):
    gp = GPRegressor(bounds={"noise_variance": (0.5, 2.0)}, random_state=0).fit(*waves)
    assert gp.parameters_.at_bound() == ["noise_variance"]
    gradient = dict(zip(gp.parameters_.names, gp.evidence().gradient, strict=True))
    assert gradient["noise_variance"] < -10  # less noise is wanted, and forbidden
    inner = max(abs(g) for name, g in gradient.items() if name != "noise_variance")
    assert gp.optimize_result_.gradient_norm <= inner * (1 + 1e-9)


# -- none -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [15, 200])
@pytest.mark.parametrize("selection_rows", [100, 5000])
def test_without_an_optimiser_parameters_stay_and_the_fit_says_so(n, selection_rows, waves, monkeypatch):
    monkeypatch.setitem(vars(AUTO), "selection_rows", selection_rows)
    X, y = waves
    options = {"kernel": SquaredExponential(1.2, 0.25), "likelihood": Gaussian(0.04), "mean": 0.3, "optimizer": None}
    options |= {"standardize": False, "random_state": 0}
    gp = GPRegressor(**options).fit(X[:n], y[:n])
    assert_allclose(gp.parameters_.values, [1.2, 0.25, 0.04, 0.3], rtol=1e-12)
    assert gp.converged_ and gp.optimize_result_.reason == "parameters kept as given"
    assert np.isnan(gp.optimize_result_.gradient_norm)
    full = GPRegressor(approximation="full", **options).fit(X[:n], y[:n])
    assert_allclose(gp.predict(X), full.predict(X), atol=0.1)


def test_without_an_optimiser_too_few_knots_keep_their_parameters(waves):
    X, y = waves
    options = {"kernel": SquaredExponential(1.0, 0.1), "likelihood": Gaussian(1e-6), "mean": 0.0}
    options |= {"knots": Auto(max_knots=10), "optimizer": None, "standardize": False, "random_state": 0}
    with pytest.warns(FitWarning, match="the limit of 10 knots was reached"):
        gp = GPRegressor(**options).fit(X, y)
    assert_allclose(gp.parameters_.values, [1.0, 0.1, 1e-6, 0.0], rtol=1e-12)
    assert "limit of 10 knots" in gp.stop_reason_
