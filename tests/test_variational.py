"""Variational inference, through knots and in full: against its definition, differences, limits, and as a bound."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import brentq

from knotwise import likelihoods as lik
from knotwise.evidence import InMemory, Jitter, Model, Rows, full_evidence
from knotwise.evidence.inference import Variational
from knotwise.evidence.inference.search import search_sites
from knotwise.evidence.inference.sites_exact import ExactSites
from knotwise.evidence.inference.sites_sparse import SparseSites
from knotwise.evidence.projection import Evaluation
from knotwise.kernels import Matern32
from knotwise.means import Constant
from knotwise.noise import NoNugget, Nugget
from knotwise.posterior.knots import KnotPosterior
from knotwise.testing import assert_adjoint
from site_oracles import (
    Member,
    Prior,
    found_in_full,
    found_through_knots,
    slow_but_for,
    variational_targets,
    with_inference,
)
from test_laplace import ALL, Case, case

EXACT = Variational(tolerance=1e-16)
POWERS = [0.0, 1.0]
NUGGETS = {"no-nugget": NoNugget(), "nugget": Nugget(0.3)}

each_likelihood = pytest.mark.parametrize("likelihood", ALL.values(), ids=ALL)
most_slow = slow_but_for(ALL, "poisson", "negative-binomial")
each_power = pytest.mark.parametrize("power", POWERS)
each_nugget = pytest.mark.parametrize("nugget", NUGGETS.values(), ids=NUGGETS)


def variational(*arguments, **options):
    return with_inference(case(*arguments, **options), EXACT)


def assert_is_the_definition(prior, evidence, W, b, rtol=1e-9):
    """The value is the bound of the sites, and the sites are where they should be."""
    assert evidence.converged and not evidence.why
    assert_allclose(evidence.value, Member.of_sites(prior, W, b).bound(prior), rtol=rtol)
    W_wanted, b_wanted = variational_targets(prior, W, b)
    assert_allclose(W, W_wanted, rtol=1e-6, atol=1e-7)
    assert_allclose(b, b_wanted, rtol=1e-6, atol=1e-7)


# -- values ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variance", [1e-2, 1.0, 25.0, 1e4])
@pytest.mark.parametrize("count", [0.0, 1.0, 1e3, 1e6, 1e9])
def test_the_bound_of_one_count_is_that_of_the_best_gaussian(count, variance):
    """For N(mu, tau) it is y mu - e^x - log y! - KL with x = mu + tau / 2, largest where
    1 / tau = e^x + 1 / variance and (mu - mean) / variance = y - e^x.
    """
    mean, poisson = 1.0, lik.Poisson()

    def gaussian(x):
        precision = np.exp(x) + 1 / variance
        return x - 0.5 / precision, 1 / precision

    x = brentq(
        lambda x: (gaussian(x)[0] - mean) / variance - count + np.exp(x), -2 * variance - 50, 30, xtol=1e-14, rtol=1e-14
    )
    mu, tau = gaussian(x)
    divergence = 0.5 * (tau / variance + (mu - mean) ** 2 / variance - 1 - np.log(tau / variance))
    best = poisson.log_density(np.array([count]), x)[0] - 0.5 * count * tau - divergence

    inference = Variational(tolerance=1e-16, max_passes=300)
    model = Model(Matern32(variance, 1.0), poisson, Constant(mean), 1.0, NoNugget(), inference)
    rows = Rows(np.zeros((1, 1)), np.array([count]), None, np.empty((1, 0)))
    assert_allclose(full_evidence(model, rows, gradient=False).value, best, rtol=1e-9)


@each_nugget
@each_power
@each_likelihood
def test_the_value_is_the_bound_by_its_definition(likelihood, power, nugget):
    problem = variational(likelihood, power, nugget)
    assert_is_the_definition(Prior.through_knots(problem), *found_through_knots(problem, gradient=False))


@each_nugget
@most_slow
def test_the_value_of_the_exact_gp_is_the_bound_by_its_definition(likelihood, nugget):
    problem = variational(likelihood, 1.0, nugget)
    assert_is_the_definition(Prior.in_full(problem), *found_in_full(problem, gradient=False))


# -- gradients ------------------------------------------------------------------------------------------------


def assert_gradient(problem, rng, rtol=1e-6):
    """In all parameters and knots, in random directions."""

    def value_and_gradient(vector):
        evidence = problem.with_vector(vector).sparse(block_size=13)
        assert evidence.converged
        return evidence.value, np.concatenate([evidence.gradient, evidence.knot_gradient.ravel()])

    assert_adjoint(value_and_gradient, problem.vector, rng, rtol)


def assert_full_gradient(problem, rng, rtol=1e-6):
    def value_and_gradient(theta):
        evidence = full_evidence(problem.model.with_theta(theta), problem.rows)
        assert evidence.converged
        return evidence.value, evidence.gradient

    assert_adjoint(value_and_gradient, problem.model.theta, rng, rtol)


def assert_each_gradient(problem, rng, rtol=1e-6):
    """One parameter at a time, so that no large entry hides a small one."""
    theta = problem.model.theta
    for i in range(len(theta)):

        def value_and_gradient(entry, i=i):
            at = np.where(np.arange(len(theta)) == i, entry, theta)
            evidence = replace(problem, model=problem.model.with_theta(at)).sparse()
            return evidence.value, evidence.gradient[i : i + 1]

        assert_adjoint(value_and_gradient, theta[i : i + 1], rng, rtol, n_directions=1)


@pytest.mark.slow
@each_power
@each_likelihood
def test_the_gradient_of_each_parameter_alone_is_its_derivative(likelihood, power, rng):
    assert_each_gradient(variational(likelihood, power, Nugget(0.3), jitter=1e-3), rng)


@each_nugget
@each_power
@most_slow
def test_every_gradient_is_the_derivative_of_the_value(likelihood, power, nugget, rng):
    """Kernel, likelihood, nugget, constant mean and all knots, in random directions."""
    assert_gradient(variational(likelihood, power, nugget, jitter=1e-3), rng)


@each_nugget
@most_slow
def test_every_gradient_of_the_exact_gp_is_the_derivative_of_the_value(likelihood, nugget, rng):
    assert_full_gradient(variational(likelihood, 1.0, nugget), rng)


# -- narrow likelihoods ---------------------------------------------------------------------------------------

# (tau is about 0.5 here, so the scales are about 1, 0.1 and 0.01 standard deviations of f)
NARROW = {
    "student-t-wide": lik.StudentT(0.7, 4.0),
    "student-t-narrow": lik.StudentT(0.07, 4.0),
    "student-t-very-narrow": lik.StudentT(0.007, 4.0),
    "beta-precise": lik.Beta(1e4),
}


def narrow_case(likelihood, power, nugget, **options):
    """Data of scale 0.3 whose model is narrower than they are."""
    drawn = case(
        lik.Beta(20.0) if isinstance(likelihood, lik.Beta) else lik.StudentT(0.3, 4.0), power, nugget, **options
    )
    return with_inference(replace(drawn, model=replace(drawn.model, likelihood=likelihood)), EXACT)


@pytest.mark.slow
@each_nugget
@each_power
@pytest.mark.parametrize("likelihood", NARROW.values(), ids=NARROW)
def test_narrow_likelihoods_keep_value_and_gradient(likelihood, power, nugget, rng):
    problem = narrow_case(likelihood, power, nugget)
    assert_is_the_definition(Prior.through_knots(problem), *found_through_knots(problem, gradient=False))
    assert_gradient(narrow_case(likelihood, power, nugget, jitter=1e-3), rng)


@pytest.mark.slow
@each_nugget
@pytest.mark.parametrize("likelihood", NARROW.values(), ids=NARROW)
def test_narrow_likelihoods_keep_value_and_gradient_in_the_exact_gp(likelihood, nugget, rng):
    """Where sites are negative, the factor of the prior has a jitter of 1e-10 (L19). The value follows it linearly: for
    the narrowest it is 8e-7 nats off, with a jitter of 1e-12 8e-9, and 4e-11 without.
    """
    problem = narrow_case(likelihood, 1.0, nugget)
    assert_is_the_definition(Prior.in_full(problem), *found_in_full(problem, gradient=False), rtol=2e-8)
    assert_full_gradient(problem, rng)


# -- a bound --------------------------------------------------------------------------------------------------


@each_power
@pytest.mark.parametrize("name", ["bernoulli", "poisson"])
def test_no_gaussian_of_the_family_has_a_larger_bound(name, power, rng):
    """Not only none with sites: eta of any mean and covariance, and any line for a row's own part (V1)."""
    problem = variational(ALL[name], power, Nugget(0.3), n=20)
    prior = Prior.through_knots(problem)
    evidence, W, b = found_through_knots(problem, gradient=False)
    best = Member.of_sites(prior, W, b)
    for _ in range(4):
        way = [rng.normal(size=20) for _ in range(4)]
        turn = rng.normal(size=(20, 20))

        def moved(step, way=way, turn=turn):
            turned = np.eye(20) + step * turn
            return Member(
                best.mean + step * way[0],
                turned @ best.S @ turned.T,
                best.slope + step * way[1],
                best.shift + step * way[2],
                best.spread * np.exp(step * way[3]),
            ).bound(prior)

        above, below = moved(1e-3), moved(-1e-3)
        rise, bend = (above - below) / 2e-3, (above + below - 2 * evidence.value) / 1e-6
        assert bend < -1 and abs(rise) < 1e-4 * abs(bend)  # what is left of the slope is of third order
        assert max(moved(0.3), moved(-0.3)) < evidence.value


log_concave_names = st.sampled_from([name for name, likelihood in ALL.items() if likelihood.log_concave])
few = settings(max_examples=settings.default.max_examples // 8)


@st.composite
def problems(draw):
    """Few rows of one column, any log-concave likelihood, long and short length-scales, with nugget or without."""
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    likelihood = ALL[draw(log_concave_names)]
    n = draw(st.integers(2, 25))
    X = np.sort(rng.uniform(-2, 2, size=(n, 1)), axis=0)
    size = rng.integers(1, 9, n).astype(float) if likelihood.size_name else None
    y = likelihood.sample(np.sin(3 * X[:, 0]), rng, 1.0 if size is None else size)
    kernel = Matern32(10 ** draw(st.floats(-1, 1)), 10 ** draw(st.floats(-1, 1)))
    nugget = Nugget(0.3) if draw(st.booleans()) else NoNugget()
    model = Model(kernel, likelihood, Constant(0.1), 0.0, nugget, EXACT)
    rows = Rows(X, y, None, np.empty((n, 0)), size)
    Z = rng.uniform(-2, 2, size=(draw(st.integers(2, 8)), 1))
    return Case(model, rows, Z, Jitter(1e-8, X[:1]))


@few
@given(problems())
def test_the_bound_never_exceeds_that_of_the_exact_gp_and_never_falls_with_a_further_knot(problem):
    """At fixed parameters and the same absolute jitter; the jitter of all knots is that of the model's size."""
    values = [replace(problem, Z=problem.Z[:k]).sparse(gradient=False) for k in range(1, len(problem.Z) + 1)]
    full = full_evidence(problem.model, problem.rows, gradient=False)
    assert full.converged and all(found.converged for found in values)
    rounding = 1e-9 * max(1.0, abs(full.value))
    assert np.diff([found.value for found in values] + [full.value]).min() >= -rounding


@few
@given(problems(), st.sampled_from([0.0, 1.0]), st.integers(1, 4))
def test_the_bound_holds_before_the_search_has_ended(problem, power, n_passes):
    """It is the bound of some Gaussian, and so below the best one's, through knots and in full."""
    problem = replace(problem, model=replace(problem.model, power=power))
    early = with_inference(problem, Variational(tolerance=0.0, max_passes=n_passes))
    rounding = 1e-9 * max(1.0, abs(early.sparse(gradient=False).value))
    assert early.sparse(gradient=False).value <= problem.sparse(gradient=False).value + rounding
    in_full = (full_evidence(each.model, each.rows, gradient=False).value for each in (early, problem))
    assert next(in_full) <= next(in_full) + rounding


@pytest.mark.parametrize("max_passes", [1, 2, 4])
def test_an_early_bound_is_that_of_the_sites_that_are_left(max_passes):
    problem = with_inference(case(lik.Poisson(), 0.0), Variational(tolerance=0.0, max_passes=max_passes))
    prior = Prior.through_knots(problem)
    evidence, W, b = found_through_knots(problem, gradient=False)
    assert_allclose(evidence.value, Member.of_sites(prior, W, b).bound(prior), rtol=1e-9)
    mu, tau = Member.of_sites(prior, W, b).marginals(prior)
    latent = KnotPosterior(evidence.state).latent(problem.rows.X)
    assert_allclose(latent.mean, mu, rtol=1e-8, atol=1e-8)
    assert_allclose(latent.variance, tau, rtol=1e-7)


class Watched:
    """A space of sites, with the objective at every point that the search accepted."""

    def __init__(self, space):
        self.space, self.target, self.accepted = space, space.target, []

    @property
    def kl_penalty(self):
        return self.space.kl_penalty

    def look(self):
        seen = self.space.look()
        self.value = seen.value - self.kl_penalty
        return seen

    def step(self, shares, size):
        if shares is not None:
            self.accepted.append(self.value)
        return self.space.step(shares, size)


@each_power
@pytest.mark.parametrize("variance", [1.0, 10.0])
@pytest.mark.parametrize("name", ["bernoulli", "poisson", "weibull", "student-t"])
def test_every_accepted_value_rises(name, variance, power):
    problem = variational(ALL[name], power, kernel=Matern32(variance, [0.9, 1.4]))
    with Evaluation.of(problem.model, InMemory(problem.rows), problem.Z, problem.jitter, keep=True) as at:
        through_knots = Watched(SparseSites.from_mode(at, EXACT.target, None))
        in_full = Watched(ExactSites.begin(problem.model, problem.rows, EXACT.target, None))
        for watched in (through_knots, in_full):
            end = search_sites(watched, 1e-10)
            assert end.converged
            values = np.array([*watched.accepted, end.value])
            assert len(values) > 2 and np.diff(values).min() >= -1e-10 * np.abs(values).max()
