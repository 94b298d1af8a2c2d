"""Proposals of one more knot: Algorithm 2 step by step, acquisition functions, and rank-one gains."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import integrate, optimize, stats

from knotwise import GPRegressor
from knotwise.errors import InvalidInputError, UnknownOptionError
from knotwise.kernels import Matern12, Matern32, SquaredExponential
from knotwise.likelihoods import Gaussian
from knotwise.selection import bayesopt
from knotwise.selection.bayesopt import (
    BayesOpt,
    budgeted_improvement,
    expected_improvement,
    probability_of_improvement,
    upper_confidence_bound,
)
from knotwise.selection.proposals import (
    EvidenceGain,
    GrowthState,
    RandomSubset,
    ResidualVariance,
    distinct_row_numbers,
)
from knotwise.testing import dense_sparse_evidence

ALL = [BayesOpt(4, 9), RandomSubset(9), EvidenceGain(3), ResidualVariance(), ResidualVariance(weighted=True)]


def state_with(rng, approximation="vfe", *, n=60, n_knots=4, kernel=None, likelihood=None, y=None):
    """A model with a few knots, parameters as given, and every other distinct row a candidate."""
    X = rng.uniform(size=(n, 2))
    y = np.sin(6 * X[:, 0]) + X[:, 1] + 0.2 * rng.normal(size=n) if y is None else y(X)
    gp = GPRegressor(
        kernel or Matern32(1.0, 0.6),
        likelihood or Gaussian(0.05),
        approximation,
        X[:n_knots],
        mean=0.3,
        optimizer=None,
        standardize=False,
    ).fit(X, y)
    problem, selection = gp._fit.problem, gp._fit.selection
    value = problem.evaluate(selection.point, gradient=False).value
    numbers = distinct_row_numbers(problem, rng)
    is_knot = (problem.take(numbers).X[:, None] == selection.Z).all(2).any(1)
    rows = numbers[~is_knot]
    return GrowthState(problem, selection.point, value, rows)


def dense_value(state, z):
    model = state.problem.model.with_theta(state.point.theta)
    return dense_sparse_evidence(model, state.problem.rows, np.vstack([state.Z, z]), state.jitter)


# -- the state ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("approximation", ["vfe", "fic", 0.5])
def test_evaluate_is_the_dense_evidence_with_one_more_knot(approximation, rng):
    state = state_with(rng, approximation)
    for z in state.candidates[::7]:
        assert_allclose(state.evaluate(z), dense_value(state, z), rtol=1e-9)


def test_an_evaluation_that_fails_is_nan(rng):
    state = state_with(rng)
    assert np.isnan(state.evaluate(np.full(2, np.nan)))


def test_candidates_are_distinct_rows_and_a_kept_random_subset_of_many(rng):
    problem = state_with(rng, n=300).problem
    X = rng.integers(0, 4, size=(300, 2)).astype(float)
    grid = problem.on_rows(replace(problem.rows, X=X))
    assert_array_equal(X[distinct_row_numbers(grid, rng)], np.unique(X, axis=0))
    few = distinct_row_numbers(problem, rng, at_most=50)
    assert len(few) == 50 and len(set(few)) == 50 and few.max() > 50


# -- Algorithm 2 ----------------------------------------------------------------------------------------


@dataclass
class Step:
    """What one refit of the meta GP saw, and the posterior that it returned."""

    X: np.ndarray
    w: np.ndarray
    posterior: object


def watched(monkeypatch, proposal, state, seed=0):
    """The proposal, with a record of every refit of its meta GP."""
    steps, fit = [], bayesopt.fit_meta

    def spy(kernel, X, w, *args, **options):
        steps.append(Step(X, w, fit(kernel, X, w, *args, **options)))
        return steps[-1].posterior

    monkeypatch.setattr(bayesopt, "fit_meta", spy)
    return proposal.propose(state, np.random.default_rng(seed)), steps


def exponential(A, B, log_variance, log_lengthscale):
    r = np.sqrt(((A[:, None] - B) ** 2).sum(-1))
    return np.exp(log_variance) * np.exp(-r / np.exp(log_lengthscale))


@pytest.mark.parametrize("approximation", ["vfe", "fic"])
def test_each_step_is_that_of_algorithm_2(approximation, rng, monkeypatch):
    state = state_with(rng, approximation)
    K, T_min, T_max = len(state.Z), 5, 14
    proposed, steps = watched(monkeypatch, BayesOpt(T_min, T_max), state)
    assert len(steps) == T_max - T_min
    for t, step in enumerate(steps, start=T_min):
        # the data: the current value at the current knots, then what was evaluated
        assert_array_equal(step.X, np.vstack([state.Z, proposed.tried[:t]]))
        assert_array_equal(step.w, np.concatenate([np.full(K, state.value), proposed.values[:t]]))
        fitted = step.posterior.state.model
        assert fitted.mean.offset == state.value
        assert isinstance(fitted.kernel, Matern12)
        noise = fitted.likelihood.noise_variance
        assert noise < 1e-6 * np.var(step.w)

        r = step.w - state.value
        square = np.mean(r**2)

        def negative_evidence(theta, X=step.X, r=r, noise=noise):
            C = exponential(X, X, *theta) + noise * np.eye(len(r))
            return -stats.multivariate_normal(np.zeros(len(r)), C, allow_singular=True).logpdf(r)

        ours = np.log([fitted.kernel.variance, fitted.kernel.lengthscale])
        best = min(
            optimize.minimize(negative_evidence, [np.log(square), log_ell], method="Nelder-Mead").fun
            for log_ell in (-2.0, 0.0)
        )
        assert -negative_evidence(ours) > -best - 0.01

        # posterior and expected improvement at every row, by their textbook formulas
        C = exponential(step.X, step.X, *ours) + noise * np.eye(len(r))
        cross = exponential(state.candidates, step.X, *ours)
        mean = state.value + cross @ np.linalg.solve(C, r)
        variance = np.exp(ours[0]) - np.einsum("mn,nm->m", cross, np.linalg.solve(C, cross.T))
        believed = step.posterior.latent(state.candidates)
        assert_allclose(believed.mean, mean, atol=1e-6 * np.sqrt(square))
        assert_allclose(believed.variance, np.maximum(variance, 0), atol=1e-6 * np.exp(ours[0]))
        w_plus = max(step.w)
        sd = np.sqrt(np.maximum(variance, 1e-300))
        u = (mean - w_plus) / sd
        improvement = (mean - w_plus) * stats.norm.cdf(u) + sd * stats.norm.pdf(u)

        # the next row maximises it among rows not yet tried, and its value is the evidence
        untried = np.array([not (proposed.tried[:t] == x).all(1).any() for x in state.candidates])
        chosen = (state.candidates == proposed.tried[t]).all(1).argmax()
        assert untried[chosen]
        assert improvement[chosen] >= improvement[untried].max() * (1 - 1e-6)
        assert_allclose(proposed.values[t], dense_value(state, proposed.tried[t]), rtol=1e-9)
    assert_array_equal(proposed.z, proposed.tried[np.argmax(proposed.values)])
    assert proposed.value == proposed.values.max()


@pytest.mark.parametrize("acquisition", ["ei", "pi", "ucb", "budget"])
def test_no_row_is_tried_twice_and_t_max_is_the_total(acquisition, rng):
    state = state_with(rng)
    for n_random, n_evaluations in [(1, 20), (7, 7), (10, 100)]:
        proposed = BayesOpt(n_random, n_evaluations, acquisition).propose(state, rng)
        assert len(proposed.tried) == min(n_evaluations, len(state.rows))
        assert len(np.unique(proposed.tried, axis=0)) == len(proposed.tried)
        assert proposed.value == proposed.values.max()


@pytest.mark.slow
def test_more_evaluations_find_better_knots_than_random_rows_on_average(rng):
    state = state_with(rng, n=200)
    by_search = [BayesOpt(8, 20).propose(state, np.random.default_rng(s)).value for s in range(12)]
    by_chance = [RandomSubset(20).propose(state, np.random.default_rng(s)).value for s in range(12)]
    assert np.mean(by_search) > np.mean(by_chance)


@pytest.mark.parametrize("kernel", [Matern32(), SquaredExponential(ard=True), Matern12(lengthscale=0.3)])
def test_the_meta_kernel_can_be_chosen(kernel, rng, monkeypatch):
    state = state_with(rng)
    proposed, steps = watched(monkeypatch, BayesOpt(5, 9, kernel=kernel), state)
    assert all(type(step.posterior.state.model.kernel) is type(kernel) for step in steps)
    assert proposed.value > state.value


def test_failed_evaluations_count_as_the_lowest_value_and_are_not_proposed(rng, monkeypatch):
    class Faulty(GrowthState):
        def evaluate(self, z):
            return np.nan if z[0] < 0.5 else super().evaluate(z)

    sound = state_with(rng)
    state = Faulty(sound.problem, sound.point, sound.value, sound.rows)
    proposed, steps = watched(monkeypatch, BayesOpt(8, 16), state)
    failed = proposed.tried[:, 0] < 0.5
    assert 0 < failed.sum() < 16
    assert_array_equal(np.isnan(proposed.values), failed)
    assert proposed.z[0] >= 0.5
    K = len(state.Z)
    for t, step in enumerate(steps, start=8):
        lowest = min(state.value, np.nanmin(proposed.values[:t]))
        assert_array_equal(step.w[K:], np.where(failed[:t], lowest, proposed.values[:t]))


@pytest.mark.parametrize("proposal", ALL, ids=lambda p: type(p).__name__)
def test_a_proposal_says_so_where_no_evaluation_succeeds(proposal, rng):
    class Broken(GrowthState):
        def evaluate(self, z):
            return np.nan

    sound = state_with(rng)
    state = Broken(sound.problem, sound.point, sound.value, sound.rows)
    proposed = proposal.propose(state, rng)
    assert proposed.value == -np.inf and np.isnan(proposed.values).all()


# -- acquisition functions ------------------------------------------------------------------------------

MEAN = np.array([-1.0, 0.4, 0.9, 1.3, 3.0])
STD = np.array([1.5, 0.5, 0.2, 1.0, 0.3])
BEST = 0.8


def test_acquisitions_are_the_averages_that_they_claim(rng):
    W = MEAN + STD * rng.standard_normal((400_000, 5))
    gain = np.maximum(W - BEST, 0)
    for closed, drawn in [
        (expected_improvement(MEAN, STD, BEST), gain),
        (probability_of_improvement(MEAN, STD, BEST), W > BEST),
    ]:
        error = drawn.std(0) / np.sqrt(len(W))
        assert (np.abs(closed - drawn.mean(0)) < 5 * error + 1e-12).all()
    above = (upper_confidence_bound(MEAN, STD, BEST) > W).mean(0)
    assert_allclose(above, stats.norm.cdf(2), atol=1e-3)


@pytest.mark.parametrize("m", [2, 5, 15])
def test_the_budgeted_improvement_is_that_of_the_best_of_m_draws(m, rng):
    W = MEAN + STD * rng.standard_normal((100_000, m, 5)).max(1)
    gain = np.maximum(W - BEST, 0)
    error = gain.std(0) / np.sqrt(len(W))
    assert (np.abs(budgeted_improvement(MEAN, STD, BEST, m) - gain.mean(0)) < 5 * error + 1e-12).all()


@pytest.mark.parametrize("m", [2, 15, 100])
def test_the_budgeted_improvement_is_its_integral_from_the_deep_tail_to_certainty(m):
    u = np.array([-20.0, -8.0, -3.0, -0.5, 0.0, 2.0, 7.0, 30.0])
    for value, at in zip(budgeted_improvement(u, np.ones(8), 0.0, m), u, strict=True):
        # integrated from -10 up; below, the integrand is 1
        low = max(-at, -10.0)
        exact = integrate.quad(lambda t: -np.expm1(m * stats.norm.logcdf(t)), low, low + 25, epsabs=0, epsrel=1e-11)[0]
        assert_allclose(value, exact + max(at - 10.0, 0.0), rtol=1e-6)  # a quadrature with 64 nodes


def test_with_one_evaluation_left_the_budgeted_improvement_is_expected_improvement():
    assert_array_equal(budgeted_improvement(MEAN, STD, BEST, 1), expected_improvement(MEAN, STD, BEST))


def test_more_evaluations_left_favour_uncertain_places():
    # the sd with which a place whose mean is lower by 1 ties with one of mean w+ and sd 1
    def tie(m):
        def lead(sd):
            score = budgeted_improvement(np.array([0.0, -1.0]), np.array([1.0, sd]), 0.0, m)
            return score[1] - score[0]

        return optimize.brentq(lead, 0.5, 10)

    ties = [tie(m) for m in (1, 2, 4, 8, 16, 32)]
    assert (np.diff(ties) < -0.01).all()
    for m in (1, 2, 4, 8, 16, 32):
        score = budgeted_improvement(np.full(20, -0.5), np.linspace(0.1, 3, 20), 0.0, m)
        assert (np.diff(score) > 0).all()


# -- other proposals --------------------------------------------------------------------------------------


def test_random_subset_proposes_the_best_of_its_rows(rng):
    state = state_with(rng, "fic")
    proposed = RandomSubset(12).propose(state, rng)
    values = [dense_value(state, z) for z in proposed.tried]
    assert len(np.unique(proposed.tried, axis=0)) == 12
    assert_allclose(proposed.values, values, rtol=1e-9)
    assert_array_equal(proposed.z, proposed.tried[np.argmax(values)])
    everything = RandomSubset(1000).propose(state, rng)
    assert {tuple(z) for z in everything.tried} == {tuple(z) for z in state.candidates}


def predicted_gains(state):
    return state.problem.gains(state.point, state.candidates)


def test_predicted_gains_are_exact_for_gaussian_data_under_vfe(rng):
    state = state_with(rng, "vfe")
    exact = np.array([state.evaluate(z) for z in state.candidates]) - state.value
    assert_allclose(predicted_gains(state), exact, atol=1e-6)
    proposed = EvidenceGain(1).propose(state, rng)
    assert_array_equal(proposed.z, state.candidates[np.argmax(exact)])


def test_predicted_gains_order_the_rows_under_fic(rng):
    state = state_with(rng, "fic", n=150, n_knots=8)
    exact = np.array([state.evaluate(z) for z in state.candidates]) - state.value
    assert stats.spearmanr(predicted_gains(state), exact)[0] > 0.9
    proposed = EvidenceGain(10).propose(state, rng)
    assert (exact > proposed.value - state.value).mean() < 0.05


def test_gains_of_many_candidates_are_those_of_one_at_a_time(rng, monkeypatch):
    state = state_with(rng, "fic")
    together = predicted_gains(state)
    for at_once in (7, 1):
        monkeypatch.setattr("knotwise.evidence.scores.CANDIDATES_AT_ONCE", at_once)
        assert_allclose(predicted_gains(state), together, rtol=1e-10, atol=1e-10)
    assert len(EvidenceGain(3, max_candidates=10).propose(state, rng).tried) == 3


@pytest.mark.parametrize("weighted", [False, True])
def test_residual_variance_proposes_the_row_that_the_knots_explain_least(weighted, rng):
    state = state_with(
        rng, likelihood="poisson", y=lambda X: rng.poisson(np.exp(3 * X[:, 0])), kernel=SquaredExponential(1.0, 0.2)
    )
    X, kernel = state.problem.rows.X, state.problem.model.with_theta(state.point.theta).kernel
    c = 1.0 - np.einsum("nk,kn->n", kernel(X, state.Z), np.linalg.solve(kernel(state.Z, state.Z), kernel(state.Z, X)))
    W = state.problem.row_scores(state.point).W
    left = (W * c if weighted else c)[state.rows]
    proposed = ResidualVariance(weighted).propose(state, rng)
    assert_array_equal(proposed.z, state.candidates[np.argmax(left)])
    assert_allclose(proposed.value, state.evaluate(proposed.z), rtol=1e-12)  # Newton starts at another mode


@pytest.mark.parametrize("proposal", ALL, ids=lambda p: type(p).__name__)
def test_proposals_choose_among_the_candidates_only(proposal, rng):
    state = state_with(rng)
    state = replace(state, rows=state.rows[::9])
    allowed = {tuple(z) for z in state.candidates}
    for _ in range(3):
        proposed = proposal.propose(state, rng)
        assert {tuple(z) for z in proposed.tried} | {tuple(proposed.z)} <= allowed


def test_settings_that_make_no_sense_are_refused():
    with pytest.raises(InvalidInputError, match=r"`n_evaluations` is 5.*at least 10"):
        BayesOpt(10, 5)
    with pytest.raises(UnknownOptionError, match="Did you mean 'budget'"):
        BayesOpt(acquisition="budgets")
    for make in (lambda: RandomSubset(0), lambda: EvidenceGain(0), lambda: BayesOpt(0), lambda: RandomSubset(2.5)):
        with pytest.raises(InvalidInputError, match="whole number"):
            make()
