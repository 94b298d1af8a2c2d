"""Power EP, through knots and in full: against its energy by definition, matched moments, differences and limits."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

from knotwise import GPRegressor
from knotwise import likelihoods as lik
from knotwise.evidence import Model
from knotwise.evidence.inference import PowerEP
from knotwise.kernels import SquaredExponential
from knotwise.means import Zero
from knotwise.noise import NoNugget, Nugget
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


# -- observations that say far more than the prior -----------------------------------------------------------

STRONG = {
    "no count": (lik.Poisson(), 0.0, 1.0),
    "a count of 30": (lik.Poisson(), 30.0, 1.0),
    "a count of 1e6": (lik.Poisson(), 1e6, 1.0),
    "a count of 1e9": (lik.Poisson(), 1e9, 1.0),
    "half of 1e6 trials": (lik.Binomial(), 5e5, 1e6),
    "all of 1e6 trials": (lik.Binomial(), 1e6, 1e6),
    "a count of 1e9 without dispersion": (lik.NegativeBinomial(1e-6), 1e9, 1.0),
    "a count of 1e9 with dispersion": (lik.NegativeBinomial(5.0), 1e9, 1.0),
    "gamma of shape 1e8": (lik.Gamma(1e8), 1e-8, 1.0),
    "gamma of shape 0.3": (lik.Gamma(0.3), 1e6, 1.0),
    "exponential": (lik.Exponential(), 1e6, 1.0),
    "weibull of shape 100": (lik.Weibull(100.0), 1.0, 1.0),
    "lognormal of variance 1e-6": (lik.LogNormal(1e-6), 1e6, 1.0),
    "student t of scale 1e-3": (lik.StudentT(1e-3, 4.0), 100.0, 1.0),
    "beta of precision 1e6": (lik.Beta(1e6), 0.999, 1.0),
    "a label": (lik.Bernoulli(), 1.0, 1.0),
}


def fitted_to(likelihood, X, y, size, variance, approximation):
    """EP with a squared exponential kernel and the mean 1, at given parameters."""
    knots = {} if approximation == "full" else {"knots": X}
    sizes = {} if likelihood.size_name is None else {likelihood.size_name: np.full(len(y), size)}
    gp = GPRegressor(
        SquaredExponential(variance, 1.0),
        likelihood,
        approximation=approximation,
        inference="ep",
        mean=1.0,
        optimizer=None,
        standardize=False,
        n_jobs=1,
        **knots,
    )
    return gp.fit(X, y, **sizes)


def log_integral(likelihood, y, size, mean, variance):
    """log of the integral of p(y | f) N(f; mean, variance): a search for its top, then sums in log |f - top|."""

    def log_product(f):
        with np.errstate(over="ignore"):
            log_density = likelihood.log_density(np.full(len(f), y), f, size)
        return log_density - 0.5 * (f - mean) ** 2 / variance - 0.5 * np.log(2 * np.pi * variance)

    reach = 20 * np.sqrt(variance) + 100
    low, high = mean - reach, mean + reach
    for _ in range(5):
        f = np.linspace(low, high, 20001)
        i = int(np.argmax(log_product(f)))
        low, high = f[max(i - 1, 0)], f[min(i + 1, 20000)]
    log_offset = np.linspace(np.log(1e-16), np.log(2 * reach), 100001)
    offset, top = np.exp(log_offset), log_product(f[[i]])[0]
    sides = [np.exp(log_product(f[i] + sign * offset) - top) @ offset for sign in (-1, 1)]
    return top + np.log(sum(sides) * (log_offset[1] - log_offset[0]))


@pytest.mark.parametrize("approximation", ["full", "fic"])
@pytest.mark.parametrize("variance", [1.0, 25.0, 1e4])
@pytest.mark.parametrize(("likelihood", "y", "size"), STRONG.values(), ids=STRONG)
def test_the_log_evidence_of_one_row_is_its_integral(likelihood, y, size, variance, approximation):
    """EP with one site is exact, however much more than the prior the row says of f."""
    gp = fitted_to(likelihood, np.zeros((1, 1)), np.array([y]), size, variance, approximation)
    assert gp.status_ == "as given"
    assert_allclose(gp.log_evidence_, log_integral(likelihood, y, size, 1.0, variance), rtol=1e-8, atol=1e-7)


@pytest.mark.parametrize("approximation", ["full", "fic"])
def test_log_evidences_of_independent_rows_add(approximation):
    y = np.array([0.0, 7.0, 1e4, 1e7, 1e9])
    gp = fitted_to(lik.Poisson(), 100.0 * np.arange(5.0)[:, None], y, 1.0, 25.0, approximation)
    expected = sum(log_integral(lik.Poisson(), count, 1.0, 1.0, 25.0) for count in y)
    assert_allclose(gp.log_evidence_, expected, rtol=1e-9)


@pytest.mark.parametrize("variance", [25.0, 1e3])
def test_large_counts_of_neighbours_have_the_log_evidence_of_laplace(variance):
    """Each posterior is Gaussian up to 1e-7, so both are exact, with the rows and through a knot on each."""
    X = np.arange(12.0)[:, None]
    y = np.round(1e7 * np.exp(np.sin(X[:, 0])))
    full, sparse = (fitted_to(lik.Poisson(), X, y, 1.0, variance, name) for name in ("full", "fic"))
    laplace = clone(full).set_params(inference="laplace").fit(X, y)
    assert_allclose([full.log_evidence_, sparse.log_evidence_], laplace.log_evidence_, rtol=1e-7)


def test_zero_inflated_laws_are_for_power_one_only():
    """p^alpha of a zero has a flat branch, which no quadrature here follows."""
    law = lik.ZeroInflatedPoisson(0.3)
    refused = [PowerEP().refuses(Model(SquaredExponential(1.0, 0.5), law, Zero(), power=power)) for power in (1.0, 0.5)]
    assert refused[0] == "" and "ZeroInflatedPoisson it is for power 1, not 0.5" in refused[1]
