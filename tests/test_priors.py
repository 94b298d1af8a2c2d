"""Densities of the priors: against their definitions, their gradients against differences, and in other units."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import integrate, special, stats

from knotwise.errors import InvalidInputError
from knotwise.kernels import Matern12, Matern32, Matern52, SquaredExponential
from knotwise.numerics.parameters import Parameter
from knotwise.priors import HalfNormal, InverseGamma, LogNormal, PCRange, PCSd
from knotwise.testing import assert_adjoint

PRIORS = {
    "log-normal": LogNormal(2.5, 0.7),
    "half-normal": HalfNormal(1.7),
    "half-normal of a deviation": HalfNormal(1.7, share=1.0),
    "inverse gamma": InverseGamma(2.2, 3.1),
    "PC range in 1 column": PCRange(0.4, 0.1),
    "PC range in 3 columns": PCRange(0.4, 0.1, columns=3, factor=2.0),
}
ALL = PRIORS | {"PC sd": PCSd(4.0, 0.1), "PC sd of a deviation": PCSd(4.0, 0.1, share=1.0)}
#: the density of the natural parameter x, by scipy
BY_SCIPY = {
    "log-normal": lambda x: stats.lognorm(s=0.7, scale=2.5).pdf(x),
    # sd = x^(1/2), and d sd / dx = 1 / (2 sd)
    "half-normal": lambda x: stats.halfnorm(scale=1.7).pdf(np.sqrt(x)) / (2 * np.sqrt(x)),
    "half-normal of a deviation": lambda x: stats.halfnorm(scale=1.7).pdf(x),
    "inverse gamma": lambda x: stats.invgamma(2.2, scale=3.1).pdf(x),
}


@pytest.mark.parametrize("prior", ALL.values(), ids=ALL)
@pytest.mark.parametrize("theta", [-2.3, 0.0, 1.9])
def test_the_derivative_is_that_of_the_value(prior, theta, rng):
    def value_and_gradient(at):
        value, slope = prior.log_density(float(at[0]))
        return value, np.array([slope])

    assert_adjoint(value_and_gradient, np.array([theta]), rng)


@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS)
def test_a_density_is_one_of_theta_and_integrates_to_one(prior):
    def density(t):
        return np.exp(prior.log_density(t)[0])

    # tails fall like e^theta/2 to the left of a half-normal, and like e^-theta/2 to the right of a PC range
    assert_allclose(integrate.quad(density, -60, 80, limit=500, points=[-10, -3, 0, 3, 10])[0], 1.0, rtol=1e-7)


@pytest.mark.parametrize("name", BY_SCIPY)
def test_a_density_is_that_of_scipy_times_the_jacobian(name):
    for theta in (-1.5, 0.2, 1.1):
        x = np.exp(theta)
        assert_allclose(PRIORS[name].log_density(theta)[0], np.log(BY_SCIPY[name](x) * x), rtol=1e-12)


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_the_penalty_of_a_standard_deviation_is_its_exponential_density_without_the_jacobian(share):
    prior = PCSd(upper=4.0, prob=0.1, share=share)
    rate = np.log(10) / 4.0
    assert_allclose(stats.expon(scale=1 / rate).sf(4.0), 0.1, rtol=1e-12)  # P(sd > upper) = prob
    for sd in (0.3, 4.0, 11.0):
        value = prior.log_density(np.log(sd) / share)[0]
        assert_allclose(value, stats.expon(scale=1 / rate).logpdf(sd) - np.log(rate), rtol=1e-12)


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_a_range_is_below_its_lower_end_with_the_probability_that_was_given(columns):
    prior = PCRange(lower=0.4, prob=0.1, columns=columns, factor=2.0)

    def density(t):
        return np.exp(prior.log_density(t)[0])

    below = integrate.quad(density, -20, np.log(0.4 / 2.0), limit=300)[0]  # the range is two length-scales
    assert_allclose(below, 0.1, rtol=1e-8)
    # sqrt(range^D) of Fuglstad et al. (2019): range^(-D/2) is exponential
    rate = -np.log(0.1) * 0.4 ** (columns / 2)
    theta = 0.3
    t = (2.0 * np.exp(theta)) ** (-columns / 2)
    assert_allclose(density(theta), stats.expon(scale=1 / rate).pdf(t) * t * columns / 2, rtol=1e-12)


@pytest.mark.parametrize("prior", ALL.values(), ids=ALL)
def test_in_other_units_a_value_has_the_same_density_of_theta(prior):
    other = prior.in_units(7.3)
    for theta in (-2.0, 0.4, 2.1):
        assert_allclose(other.log_density(theta + np.log(7.3)), prior.log_density(theta), rtol=1e-11)
    assert other.in_units(1 / 7.3).words == prior.words
    assert type(other) is type(prior) and prior.words != other.words


@pytest.mark.parametrize("prior", ALL.values(), ids=ALL)
def test_far_away_nothing_overflows(prior):
    for theta in (-1e4, 1e4):
        value, slope = prior.log_density(theta)
        assert not np.isnan(value) and not np.isnan(slope)


@pytest.mark.parametrize(
    "make",
    [
        lambda: LogNormal(0.0, 1.0),
        lambda: LogNormal(1.0, np.nan),
        lambda: HalfNormal(-1.0),
        lambda: InverseGamma(1.0, "2"),
        lambda: InverseGamma(True, 1.0),
        lambda: PCSd(upper=np.inf),
        lambda: PCSd(prob=1.0),
        lambda: PCRange(1.0, 0.0),
        lambda: PCRange(1.0, columns=4),
        lambda: PCRange(1.0, columns=1.5),
    ],
)
def test_arguments_that_make_no_density_are_refused(make):
    with pytest.raises(InvalidInputError, match="its arguments must be positive numbers"):
        make()


@pytest.mark.parametrize("kernel", [Matern12, Matern32, Matern52, SquaredExponential])
def test_at_the_range_a_correlation_of_about_a_seventh_is_left(kernel):
    factor = kernel.parameters[1].range_factor
    assert 0.13 < kernel(1.0, 1.0)(np.zeros((1, 1)), np.full((1, 1), factor))[0, 0] < 0.15


@pytest.mark.parametrize(("kernel", "nu"), [(Matern12, 0.5), (Matern32, 1.5), (Matern52, 2.5)])
def test_the_range_of_a_matern_kernel_is_that_of_geostatistics(kernel, nu):
    """(8 nu)^1/2 / kappa, in the Matern correlation 2^(1-nu) / Gamma(nu) (kappa d)^nu K_nu(kappa d)."""
    kappa = np.sqrt(8 * nu) / (0.7 * kernel.parameters[1].range_factor)  # of a length-scale of 0.7
    d = np.array([0.2, 0.9, 2.3])
    matern = 2 ** (1 - nu) / special.gamma(nu) * (kappa * d) ** nu * special.kv(nu, kappa * d)
    assert_allclose(kernel(1.0, 0.7)(np.zeros((1, 1)), d[:, None])[0], matern, rtol=1e-12)


def test_a_prior_takes_from_the_parameter_what_depends_on_it():
    sd, variance = Parameter("scale", role="noise", units="y"), Parameter("v", role="amplitude", units="y^2")
    assert PCSd(3.0).about(sd).share == HalfNormal(3.0).about(sd).share == 1.0
    assert PCSd(3.0).about(variance) == PCSd(3.0)
    reach = replace(SquaredExponential.parameters[1], columns=(0, 2))
    assert PCRange(3.0).about(reach) == PCRange(3.0, columns=2, factor=2.0)
    assert LogNormal(1.0, 2.0).about(sd) == LogNormal(1.0, 2.0)


@pytest.mark.parametrize("prior", ALL.values(), ids=ALL)
def test_priors_are_values(prior):
    assert pickle.loads(pickle.dumps(prior)) == prior and hash(prior) == hash(replace(prior))
