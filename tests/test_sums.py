"""No term of a sum of kernels is lost on the way, and ends that are as likely are told."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from knotwise import GPRegressor
from knotwise.decisions import vanished
from knotwise.decisions.thresholds import VANISHED
from knotwise.decisions.trials import Candidate
from knotwise.kernels import Matern32, Periodic, SquaredExponential
from knotwise.kernels.base import DataScale
from knotwise.kernels.ranges import terms_of_entries
from knotwise.optimize.lbfgs import LBFGS
from knotwise.selection.base import Stage
from knotwise.selection.optimizing import amplitudes_of_terms
from knotwise.selection.starts import dominated


def two_waves(n_rows=120, seed=0):
    """A strong function of one column and a weaker one of another."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n_rows, 2))
    return X, np.sin(6 * X[:, 0]) + 0.5 * np.sin(6 * X[:, 1]) + 0.3 * rng.standard_normal(n_rows)


def sum_of_two(**second):
    return SquaredExponential().on([0]) + SquaredExponential(**second).on([1])


def fit(X, y, kernel, **options):
    return GPRegressor(kernel, **{"approximation": "full", "random_state": 0, "n_jobs": 1} | options).fit(X, y)


@pytest.fixture(scope="module")
def problem():
    X, y = two_waves()
    return fit(X, y, sum_of_two(), optimizer=LBFGS(max_iterations=1000))._fit.problem


def test_terms_of_a_sum_start_with_equal_shares_of_the_variance():
    parts = [SquaredExponential().on([0]), Matern32().on([1]), SquaredExponential().on([2])]
    kernel = (parts[0] + parts[1] + parts[2]).bind(None, 3).start(DataScale(np.ones(3), variance=6.0))
    X = np.zeros((1, 3))
    assert [float(each.diag(X)[0]) for each in (kernel.k1.k1, kernel.k1.k2, kernel.k2)] == [2.0, 2.0, 2.0]


def test_each_entry_of_theta_belongs_to_the_term_in_which_it_is():
    product = SquaredExponential() * Periodic()
    kernel = SquaredExponential().on([0]) + (product + Matern32()).on([1])
    assert terms_of_entries(kernel).tolist() == [0] * 2 + [1] * product.size + [2] * 2
    inside = SquaredExponential() * (Matern32() + Periodic())
    assert terms_of_entries(inside).tolist() == [0] * 2 + [1] * 2 + [2] * Periodic().size
    assert terms_of_entries(product).tolist() == [0] * product.size


def test_starts_of_a_sum_keep_its_variance_and_give_each_term_most_of_it(problem):
    terms, usual = amplitudes_of_terms(problem), problem.table.theta
    starts = np.array(dominated(problem, usual))
    assert terms.sum() == len(starts) == 2
    assert_allclose(np.exp(starts[:, terms]).sum(1), np.exp(usual[terms]).sum(), rtol=1e-12)
    assert_allclose(np.exp(starts[:, terms]).max(1), 0.9 * np.exp(usual[terms]).sum(), rtol=1e-12)
    assert (starts[:, ~terms] == usual[~terms]).all()


def test_a_kernel_that_is_no_sum_has_no_terms():
    X, y = two_waves()
    for kernel in (SquaredExponential(ard=True), SquaredExponential().on([0]) * Matern32().on([1])):
        plain = fit(X, y, kernel, optimizer=None)._fit.problem
        assert not amplitudes_of_terms(plain).any() and not dominated(plain, plain.table.theta)


@pytest.mark.parametrize("share", [VANISHED.nothing, VANISHED.some])
def test_a_score_is_the_derivative_of_the_log_evidence_in_the_variance(share, problem):
    theta, Z = problem.table.theta, np.empty((0, 2))
    second = np.flatnonzero(amplitudes_of_terms(problem))[1]
    only = np.arange(len(theta)) == second
    found = vanished.scores(problem, theta, Z, only, share)
    variance = share * np.exp(theta[second])
    step = np.finfo(float).eps ** (1 / 3)
    values = [
        problem.evaluate(problem.point(np.where(only, np.log(variance + h), theta), Z), gradient=False).value
        for h in (-step * variance, step * variance)
    ]
    assert_allclose(found[second], (values[1] - values[0]) / (2 * step * variance), rtol=1e-4)
    assert not found[~only].any()


def test_the_gain_that_a_score_promises_is_that_of_the_term_to_a_factor(problem):
    """Against the evidence itself on a line of variances, with all else kept."""
    theta, Z = problem.table.theta, np.empty((0, 2))
    only = np.arange(len(theta)) == np.flatnonzero(amplitudes_of_terms(problem))[1]
    promised, log_variance = vanished.promise(*vanished.scores_along(problem, theta, Z, only), theta)

    def value(v):
        return problem.evaluate(problem.point(np.where(only, np.log(v), theta), Z), gradient=False).value

    gain = value(np.exp(log_variance[only][0])) - value(VANISHED.nothing * np.exp(theta[only][0]))
    assert 0.1 < promised[only][0] / gain < 10 and gain > 10


def end(problem, theta):
    """A candidate that ended at given hyperparameters."""
    none = np.empty((0, problem.summary.n_columns))
    result = problem.optimize(theta, none, np.random.default_rng(0)).result
    point = problem.point(theta, none)
    return Candidate(problem, Stage(point, replace(result, value=problem.evaluate(point, gradient=False).value)))


@pytest.mark.parametrize("how", ["no variance", "constant", "noise"])
def test_a_term_that_was_lost_in_any_way_is_found_again(how, problem):
    best = problem.optimize(problem.table.theta, np.empty((0, 2)), np.random.default_rng(0))
    lost = best.theta.copy()
    lost[2:4] = {"no variance": (-15.0, 1.0), "constant": (0.0, 6.0), "noise": (np.log(0.1), -6.0)}[how]
    fitted = end(problem, lost)
    decision = vanished.decide(problem, problem.rows, fitted, np.random.default_rng(0), problem.new_trace())
    assert "little is left of k2__kernel__variance; the evidence rises" in decision.why
    again = problem.optimize(decision.choice, np.empty((0, 2)), np.random.default_rng(0))
    assert fitted.stage.value < best.value - 10
    assert_allclose(again.value, best.value, atol=1e-2)


def test_a_term_that_says_nothing_stays_lost_and_one_that_is_there_is_not_asked():
    X, _ = two_waves()
    rng = np.random.default_rng(3)
    gp = fit(X, np.sin(6 * X[:, 0]) + 0.3 * rng.standard_normal(120), sum_of_two())
    problem, theta = gp._fit.problem, gp._fit.selection.theta.copy()
    theta[2:4] = -15.0, 0.0
    trace = problem.new_trace()
    decision = vanished.decide(problem, problem.rows, end(problem, theta), rng, trace)
    assert decision.numbers["promised"] < 3 and trace[0].action == "terms"
    there = fit(*two_waves(), sum_of_two())
    assert not any(step.action == "terms" for step in there.trace_)


@pytest.mark.parametrize("options", [{}, {"approximation": "vfe", "knots": 20}, {"approximation": None}])
def test_a_fit_that_starts_without_a_term_ends_with_it(options):
    X, y = two_waves()
    without = SquaredExponential(1.0, 0.3).on([0]) + SquaredExponential(1e-7, 0.3).on([1])
    gp, usual = fit(X, y, without, **options), fit(X, y, sum_of_two(), **options)
    assert gp.parameters_["k2__kernel__variance"] > 0.01
    assert gp.log_evidence_ > usual.log_evidence_ - 0.1


def test_restarts_of_a_sum_come_back_from_a_term_without_variance(monkeypatch):
    monkeypatch.setattr(vanished, "restarted", lambda problem, selection, rng: selection)
    X, y = two_waves()
    problem = fit(X, y, sum_of_two(), optimizer=LBFGS(max_iterations=1000))._fit.problem
    lost = problem.table.theta.copy()
    lost[2] = problem.table.theta_bounds[2, 0]
    ends = [
        replace(problem, n_restarts=n).optimize(lost, np.empty((0, 2)), np.random.default_rng(0)).value for n in (0, 2)
    ]
    assert ends[1] > ends[0] + 10


# -- several explanations -----------------------------------------------------------------------------


def mirrored():
    """Two columns of which each is the other's mirror image: a function of one is one of the other."""
    rng = np.random.default_rng(1)
    a = rng.uniform(size=80)
    return np.column_stack([a, 1 - a]), np.sin(6 * a) + 0.3 * rng.standard_normal(80)


def test_two_columns_that_explain_the_same_are_told():
    X, y = mirrored()
    gp = fit(X, y, sum_of_two(), n_restarts=3)
    assert gp.status_ == "several explanations" and gp.converged_
    assert "another explanation has a log evidence" in gp.stop_reason_
    assert "of the variance of the sum instead of" in str(gp.summary()).splitlines()[1]
    step = [step for step in gp.trace_ if step.action == "terms"][-1]
    assert abs(step.evidence - gp.log_evidence_) < 2
    # the trace has the parameters of the other one, in the units of the data
    assert_allclose(gp.evidence(step.theta, gradient=False).value, step.evidence, atol=1e-6)


def test_terms_that_change_places_are_one_explanation():
    X, y = mirrored()
    gp = fit(X, y, SquaredExponential().on([0]) + SquaredExponential().on([0]), n_restarts=6)
    assert gp.status_ == "converged"


def test_one_start_and_columns_that_say_different_things_have_one_explanation():
    assert fit(*mirrored(), sum_of_two()).status_ == "converged"
    assert fit(*two_waves(), sum_of_two(), n_restarts=3).status_ == "converged"
