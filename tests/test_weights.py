"""Rows that count more or less than once, in the engine: repeated rows, dense twins, limits, differences."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from knotwise import likelihoods as lik
from knotwise import means
from knotwise.errors import InvalidInputError
from knotwise.evidence import InMemory, Jitter, Model, Rows, full_evidence, sparse_evidence
from knotwise.evidence.inference.laplace import SparseSearch, _gamma_of_last
from knotwise.evidence.projection import Evaluation
from knotwise.evidence.scores import knot_sums, rank_one_gains, row_scores
from knotwise.kernels import Matern32
from knotwise.noise import NoNugget, Nugget
from knotwise.numerics.blocks import Threads
from knotwise.numerics.weighted import counted, mean_and_variance, weighted_quantile
from knotwise.posterior.exact import ExactPosterior
from knotwise.posterior.knots import KnotPosterior
from knotwise.testing import assert_adjoint
from knotwise.testing.dense import (
    dense_full_evidence,
    dense_full_posterior,
    dense_sparse_evidence,
    dense_sparse_posterior,
)

POWERS = [1.0, 0.5, 0.0]
LIKELIHOODS = {
    "gaussian": lik.Gaussian(0.2),
    "bernoulli": lik.Bernoulli(),
    "binomial": lik.Binomial(),
    "poisson": lik.Poisson(),
    "negative-binomial": lik.NegativeBinomial(0.4),
    "zero-inflated-poisson": lik.ZeroInflatedPoisson(0.3),
    "zero-inflated-negative-binomial": lik.ZeroInflatedNegativeBinomial(0.4, 0.3),
    "gamma": lik.Gamma(2.5),
    "weibull": lik.Weibull(1.7),
    "beta": lik.Beta(6.0),
    "student-t": lik.StudentT(0.3, 4.0),
}
#: Gaussian data have no nugget, which is noise there
CASES = [(name, nugget) for name in LIKELIHOODS for nugget in (0.0, 0.15) if not (name == "gaussian" and nugget)]


@dataclass(frozen=True)
class Case:
    """Arguments of an evidence."""

    model: Model
    rows: Rows
    Z: np.ndarray
    jitter: Jitter

    def sparse(self, **options):
        return sparse_evidence(self.model, self.rows, self.Z, jitter=self.jitter, **options)

    def full(self, **options):
        return full_evidence(self.model, self.rows, **options)

    def weighted(self, weights):
        return replace(self, rows=replace(self.rows, weights=np.asarray(weights, float)))

    def repeated(self, weights):
        return replace(self, rows=self.rows[np.repeat(np.arange(len(self.rows)), weights)])


def case(likelihood, nugget=0.0, power=1.0, *, mean="constant", known_noise=False, n=25, jitter=1e-6):
    """Data drawn from the likelihood, about a smooth function of two columns."""
    rng = np.random.default_rng(3)
    likelihood = LIKELIHOODS[likelihood]
    X = rng.normal(size=(n, 2))
    sizes = {None: None, "exposure": rng.uniform(0.3, 3, n), "trials": rng.integers(1, 12, n).astype(float)}
    size = sizes[likelihood.size_name]
    y = likelihood.sample(0.4 + np.sin(2 * X[:, 0]) + 0.5 * X[:, 1], rng, 1.0 if size is None else size)
    bound = {"constant": means.Constant(0.3), "linear": means.Linear(2.0).bind(X, 1.0, 0.3)}[mean]
    model = Model(Matern32(1.3, [0.9, 1.4]), likelihood, bound, power, Nugget(nugget) if nugget else NoNugget())
    rows = Rows(X, y, rng.uniform(0.1, 0.5, n) if known_noise else None, bound.basis(X), size)
    return Case(model, rows, rng.normal(size=(6, 2)), Jitter(jitter, X[:4]))


@pytest.fixture
def whole(rng):
    return rng.integers(1, 5, 25)


@pytest.fixture
def fractions(rng):
    return rng.uniform(0.1, 3.0, 25)


@pytest.fixture
def X_new(rng):
    return rng.normal(scale=1.5, size=(9, 2))


def assert_same_latent(one, other, X, rtol=1e-9):
    one, other = one.latent(X), other.latent(X)
    assert_allclose(one.mean, other.mean, rtol=rtol, atol=rtol)
    assert_allclose(one.variance, other.variance, rtol=rtol, atol=rtol)


# -- a weight of 2 is the row twice ---------------------------------------------------------------


@pytest.mark.parametrize("mean", ["constant", "linear"])
@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize(("likelihood", "nugget"), CASES)
def test_whole_weights_are_repeated_rows(likelihood, nugget, power, mean, whole, X_new):
    problem = case(likelihood, nugget, power, mean=mean)
    found, expected = problem.weighted(whole).sparse(), problem.repeated(whole).sparse()
    assert_allclose(found.value, expected.value, rtol=1e-11)
    assert_allclose(found.gradient, expected.gradient, rtol=1e-9, atol=1e-9)
    assert_allclose(found.knot_gradient, expected.knot_gradient, rtol=1e-9, atol=1e-9)
    assert_same_latent(KnotPosterior(found.state), KnotPosterior(expected.state), X_new)


@pytest.mark.parametrize("mean", ["constant", "linear"])
@pytest.mark.parametrize(("likelihood", "nugget"), CASES)
def test_whole_weights_are_repeated_rows_in_the_exact_gp(likelihood, nugget, mean, whole, X_new):
    problem = case(likelihood, nugget, mean=mean)
    found, expected = problem.weighted(whole).full(), problem.repeated(whole).full()
    # a search for the mode whose steps take another curvature first may end before the last digits
    assert_allclose(found.value, expected.value, rtol=1e-9 if "inflated" in likelihood else 1e-11)
    rtol = 1e-6 if "inflated" in likelihood else 1e-8
    assert_allclose(found.gradient, expected.gradient, rtol=rtol, atol=1e-9)
    assert_same_latent(ExactPosterior(found.state), ExactPosterior(expected.state), X_new, rtol=rtol)


@pytest.mark.parametrize("known_noise", [False, True])
@pytest.mark.parametrize("power", POWERS)
def test_whole_weights_are_repeated_rows_of_the_dense_formulas(power, known_noise, whole, X_new):
    problem = case("gaussian", power=power, mean="linear", known_noise=known_noise)
    weighted, repeated = problem.weighted(whole), problem.repeated(whole)
    arguments = (repeated.model, repeated.rows, repeated.Z, repeated.jitter)
    assert_allclose(weighted.sparse().value, dense_sparse_evidence(*arguments), rtol=1e-10)
    mean, cov = dense_sparse_posterior(*arguments, X_new)
    latent = KnotPosterior(weighted.sparse().state).latent(X_new)
    assert_allclose(latent.mean, mean, rtol=1e-8, atol=1e-8)
    assert_allclose(latent.variance, np.diag(cov), rtol=1e-8)
    assert_allclose(weighted.full().value, dense_full_evidence(repeated.model, repeated.rows), rtol=1e-10)
    mean, cov = dense_full_posterior(repeated.model, repeated.rows, X_new)
    latent = ExactPosterior(weighted.full().state).latent(X_new)
    assert_allclose(latent.mean, mean, rtol=1e-8, atol=1e-8)
    assert_allclose(latent.variance, np.diag(cov), rtol=1e-8)


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize(("likelihood", "nugget"), [("gaussian", 0.0), ("poisson", 0.15), ("student-t", 0.0)])
def test_scores_of_whole_weights_are_those_of_repeated_rows(likelihood, nugget, power, whole, rng):
    problem, candidates = case(likelihood, nugget, power), rng.normal(size=(8, 2))

    def scored(p):
        rows = row_scores(p.model, p.rows, p.Z, jitter=p.jitter)
        gains = rank_one_gains(p.model, p.rows, p.Z, candidates, jitter=p.jitter)
        losses = knot_sums(p.model, p.rows, p.Z, jitter=p.jitter).losses
        return np.r_[rows.value, rows.share, rows.residual_information, gains, losses]

    assert_allclose(scored(problem.weighted(whole)), scored(problem.repeated(whole)), rtol=1e-9, atol=1e-10)


# -- fractions ------------------------------------------------------------------------------------


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize(("likelihood", "nugget"), CASES)
def test_gradients_under_fractional_weights_are_derivatives(likelihood, nugget, power, fractions, rng):
    problem = case(likelihood, nugget, power, mean="linear").weighted(fractions)
    p = len(problem.model.theta)

    def value_and_gradient(vector):
        model, Z = problem.model.with_theta(vector[:p]), vector[p:].reshape(problem.Z.shape)
        found = replace(problem, model=model, Z=Z).sparse()
        return found.value, np.r_[found.gradient, found.knot_gradient.ravel()]

    assert_adjoint(value_and_gradient, np.r_[problem.model.theta, problem.Z.ravel()], rng)


@pytest.mark.parametrize(("likelihood", "nugget"), CASES)
def test_gradients_of_the_exact_gp_under_fractional_weights_are_derivatives(likelihood, nugget, fractions, rng):
    problem = case(likelihood, nugget).weighted(fractions)

    def value_and_gradient(theta):
        found = replace(problem, model=problem.model.with_theta(theta)).full()
        return found.value, found.gradient

    assert_adjoint(value_and_gradient, problem.model.theta, rng)


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize(("likelihood", "nugget"), CASES)
def test_knots_on_all_rows_are_the_exact_gp_under_fractional_weights(likelihood, nugget, power, fractions, X_new):
    """Two derivations of one thing: each copy's own terms (S18), and means of copies (L23)."""
    problem = case(likelihood, nugget, power).weighted(fractions)
    problem = replace(problem, Z=problem.rows.X, jitter=Jitter(1e-10, problem.rows.X[:4]))
    sparse, full = problem.sparse(), problem.full()
    assert_allclose(sparse.value, full.value, rtol=1e-7)
    assert_allclose(sparse.gradient, full.gradient, rtol=1e-5, atol=1e-6)
    assert_same_latent(KnotPosterior(sparse.state), ExactPosterior(full.state), X_new, rtol=1e-6)


@pytest.mark.parametrize(("likelihood", "nugget"), [("gaussian", 0.0), ("poisson", 0.15)])
def test_a_weight_between_two_whole_ones_gives_an_evidence_between_them_without_a_jump(likelihood, nugget):
    problem = case(likelihood, nugget, 0.5)
    at = np.linspace(1.0, 2.0, 41)
    for evidence in (Case.sparse, Case.full):
        values = [evidence(problem.weighted(np.r_[w, np.ones(24)]), gradient=False).value for w in at]
        slopes = np.diff(values)
        assert_allclose(values[0], evidence(problem).value, rtol=1e-12)
        assert_allclose(values[-1], evidence(problem.repeated(np.r_[2, np.ones(24, int)])).value, rtol=1e-12)
        assert np.abs(np.diff(slopes)).max() < 0.05 * np.abs(slopes).max()


@pytest.mark.parametrize("seed", range(5))
def test_vfe_is_a_lower_bound_under_weights(seed):
    weights = np.random.default_rng(seed).exponential(size=25)
    problem = case("gaussian", power=0.0).weighted(weights)
    assert problem.sparse().value < problem.full().value


def test_a_vanishing_weight_is_no_row():
    problem, kept = case("poisson", 0.15, 0.5), np.arange(25) > 0
    without = replace(problem, rows=problem.rows[kept])
    almost = problem.weighted(np.where(kept, 1.0, 1e-13))
    for evidence in (Case.sparse, Case.full):
        assert_allclose(evidence(almost).value, evidence(without).value, rtol=1e-10)
        assert_allclose(evidence(almost).gradient, evidence(without).gradient, rtol=1e-8, atol=1e-9)


# -- weights change nothing else ------------------------------------------------------------------


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize(("likelihood", "nugget"), CASES)
def test_unit_weights_are_no_weights_to_the_bit(likelihood, nugget, power):
    problem = case(likelihood, nugget, power, mean="linear")
    for evidence in (Case.sparse, Case.full):
        one, other = evidence(problem), evidence(problem.weighted(np.ones(25)))
        assert one.value == other.value
        assert_array_equal(one.gradient, other.gradient)
        assert_array_equal(one.knot_gradient, other.knot_gradient)


@pytest.mark.parametrize(("likelihood", "nugget"), [("gaussian", 0.0), ("negative-binomial", 0.15)])
def test_blocks_and_threads_do_not_change_a_weighted_evidence(likelihood, nugget, fractions):
    problem = case(likelihood, nugget, 0.5).weighted(fractions)
    whole, blocks = problem.sparse(), problem.sparse(block_size=7, keep_bytes=0)
    assert_allclose(blocks.value, whole.value, rtol=1e-11)
    assert_allclose(blocks.gradient, whole.gradient, rtol=1e-9, atol=1e-10)
    assert problem.sparse(block_size=7, keep_bytes=0, executor=Threads(2)).value == blocks.value


def search(problem):
    blocks = InMemory(problem.rows, block_size=7, keep_bytes=0)
    return SparseSearch(Evaluation.of(problem.model, blocks, problem.Z, problem.jitter), np.zeros(len(problem.Z)))


def test_a_newton_step_with_whole_weights_is_that_of_repeated_rows(whole):
    problem = case("poisson", 0.15, 0.5)
    steps = []
    for one in (search(problem.weighted(whole)), search(problem.repeated(whole))):
        one.evaluate(0.0, true_curvature=True)
        one.accept()
        one.aim()
        steps.append([*one.evaluate(0.5, true_curvature=True), *one.target])
    assert_allclose(*steps, rtol=1e-11)


def test_a_weighted_mode_is_a_start_for_its_neighbours(fractions):
    problem = case("poisson", 0.15, 0.5).weighted(fractions)
    blocks = InMemory(problem.rows, block_size=7)
    cold = replace(problem, rows=blocks).sparse()
    at = Evaluation.of(problem.model, blocks, problem.Z, problem.jitter)
    assert_allclose(_gamma_of_last(at), cold.state.gamma, rtol=1e-6)
    assert_allclose(problem.sparse(start=cold.state.gamma).value, cold.value, rtol=1e-12)
    cold = problem.full()
    assert_allclose(problem.full(start=cold.state.a).value, cold.value, rtol=1e-12)


def test_dense_twins_refuse_weights():
    problem = case("gaussian").weighted(np.ones(25))
    with pytest.raises(InvalidInputError, match="repeat the rows"):
        dense_full_evidence(problem.model, problem.rows)


# -- statistics of weighted rows ------------------------------------------------------------------

VALUES = st.lists(st.tuples(st.integers(-5, 5), st.integers(1, 4)), min_size=1, max_size=12)


@given(VALUES, st.sampled_from([0.0, 0.25, 0.5, 0.99, 1.0]))
def test_statistics_of_whole_weights_are_those_of_repeated_values(pairs, q):
    values, weights = np.array(pairs, float).T
    repeated = np.repeat(values, weights.astype(int))
    assert_allclose(weighted_quantile(values, q, weights), np.quantile(repeated, q), rtol=1e-12, atol=1e-12)
    assert_allclose(mean_and_variance(values, weights), mean_and_variance(repeated, None), rtol=1e-12, atol=1e-12)
    assert counted(values > 0, weights) == counted(repeated > 0, None)


@pytest.mark.parametrize("likelihood", LIKELIHOODS.values(), ids=LIKELIHOODS)
@pytest.mark.parametrize("constant", [False, True])
def test_the_intercept_of_whole_weights_is_that_of_repeated_rows(likelihood, constant, rng):
    size = rng.integers(1, 6, 9).astype(float)
    y = likelihood.sample(np.full(9, 0.3), rng, size)
    y, size = (np.zeros(9), np.ones(9)) if constant and likelihood.discrete else (y, size)
    weights = rng.integers(1, 5, 9)
    expected = likelihood.constant_start(np.repeat(y, weights), np.repeat(size, weights))
    assert_allclose(likelihood.constant_start(y, size, weights.astype(float)), expected, rtol=1e-12)
