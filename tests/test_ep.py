"""Power EP, through knots and in full: against its energy by definition, matched moments, differences and limits."""

import pytest
from numpy.testing import assert_allclose

from knotwise.evidence.inference import PowerEP
from knotwise.nugget import NoNugget, Nugget
from site_oracles import Prior, found_in_full, found_through_knots, power_ep, slow_but_for, with_inference
from test_laplace import ALL, case
from test_variational import assert_each_gradient, assert_full_gradient, assert_gradient

EXACT = PowerEP(tolerance=1e-16)
LOG_CONCAVE = {name: likelihood for name, likelihood in ALL.items() if likelihood.log_concave}
POWERS = [(1.0, NoNugget()), (1.0, Nugget(0.3)), (0.5, NoNugget()), (0.05, NoNugget())]

most_slow = slow_but_for(LOG_CONCAVE, "bernoulli")
some_slow = slow_but_for(LOG_CONCAVE, "bernoulli", "poisson", "gamma")
each_power = pytest.mark.parametrize(("power", "nugget"), POWERS, ids=["1", "1-nugget", "0.5", "0.05"])
each_nugget = pytest.mark.parametrize("nugget", [NoNugget(), Nugget(0.3)], ids=["no-nugget", "nugget"])


def ep(*arguments, **options):
    return with_inference(case(*arguments, **options), EXACT)


def assert_is_the_definition(prior, evidence, W, b, rtol=1e-9):
    """The value is the energy of the sites, and posterior and tilted moments of each row agree."""
    assert evidence.converged and not evidence.why
    expected = power_ep(prior, W, b)
    assert_allclose(evidence.value, expected.energy, rtol=rtol)
    assert_allclose(expected.tilted, expected.posterior, rtol=1e-7, atol=1e-8)


# -- values ---------------------------------------------------------------------------------------------------


@each_power
@some_slow
def test_the_value_is_the_energy_by_its_definition_and_moments_match(likelihood, power, nugget):
    problem = ep(likelihood, power, nugget)
    assert_is_the_definition(Prior.through_knots(problem), *found_through_knots(problem, gradient=False))


@each_nugget
@some_slow
def test_the_value_of_the_exact_gp_is_the_energy_by_its_definition_and_moments_match(likelihood, nugget):
    problem = ep(likelihood, 1.0, nugget)
    assert_is_the_definition(Prior.in_full(problem), *found_in_full(problem, gradient=False))


# -- gradients ------------------------------------------------------------------------------------------------


@each_power
@most_slow
def test_every_gradient_is_the_derivative_of_the_value(likelihood, power, nugget, rng):
    """Kernel, likelihood, nugget, constant mean and all knots, in random directions."""
    assert_gradient(ep(likelihood, power, nugget, jitter=1e-3), rng)


@pytest.mark.slow
@each_power
@pytest.mark.parametrize("likelihood", LOG_CONCAVE.values(), ids=LOG_CONCAVE)
def test_the_gradient_of_each_parameter_alone_is_its_derivative(likelihood, power, nugget, rng):
    assert_each_gradient(ep(likelihood, power, nugget, jitter=1e-3), rng)


@each_nugget
@most_slow
def test_every_gradient_of_the_exact_gp_is_the_derivative_of_the_value(likelihood, nugget, rng):
    assert_full_gradient(ep(likelihood, 1.0, nugget), rng)
