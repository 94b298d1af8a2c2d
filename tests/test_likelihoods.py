"""Likelihoods, against fifty-digit arithmetic, SciPy's distributions, limits, and the conformance check."""

from dataclasses import replace
from decimal import Decimal, getcontext

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.special import expit, ndtr

from knotwise import GPRegressor, names
from knotwise.errors import FitWarning, InvalidInputError, UnknownOptionError
from knotwise.likelihoods import (
    Bernoulli,
    Beta,
    Binomial,
    Derivatives,
    Exponential,
    Gamma,
    Gaussian,
    Likelihood,
    LogNormal,
    NegativeBinomial,
    Poisson,
    StudentT,
    Weibull,
    ZeroInflatedNegativeBinomial,
    ZeroInflatedPoisson,
    likelihood_named,
)
from knotwise.likelihoods.response import response_moments
from knotwise.likelihoods.tilted import log_tilted_integral
from knotwise.testing.likelihood import check_likelihood
from zero_inflated import ZeroInflated

NAMES = list(names.LIKELIHOODS)
ALL = [
    Gaussian(0.3),
    Gaussian(1e-4),
    Bernoulli(),
    Bernoulli("probit"),
    Binomial(),
    Poisson(),
    NegativeBinomial(1e-8),
    NegativeBinomial(0.4),
    NegativeBinomial(5.0),
    ZeroInflatedPoisson(1e-4),
    ZeroInflatedPoisson(0.7),
    ZeroInflatedNegativeBinomial(1e-4, 0.05),
    ZeroInflatedNegativeBinomial(0.4, 0.3),
    ZeroInflatedNegativeBinomial(3.0, 0.8),
    Gamma(0.3),
    Gamma(4.0),
    Gamma(500.0),
    Exponential(),
    Weibull(0.4),
    Weibull(1.7),
    Weibull(20.0),
    LogNormal(1e-4),
    LogNormal(2.0),
    Beta(0.5),
    Beta(3.0),
    Beta(400.0),
    StudentT(0.02, 1.2),
    StudentT(3.0, 2.5),
    StudentT(1.0, 150.0),
]

# -- the contract -----------------------------------------------------------------------------------


@pytest.mark.parametrize("likelihood", ALL, ids=repr)
def test_a_likelihood_keeps_the_contract(likelihood):
    check_likelihood(likelihood)


@pytest.mark.parametrize("name", NAMES)
def test_a_likelihood_with_nothing_set_keeps_the_contract(name):
    check_likelihood(likelihood_named(name), seed=1)


def test_names_are_found_and_misspelt_ones_are_corrected():
    assert {type(likelihood_named(name)).__name__.lower() for name in NAMES} == {n.replace("_", "") for n in NAMES}
    with pytest.raises(UnknownOptionError, match="Did you mean 'poisson'"):
        likelihood_named("poison")
    with pytest.raises(UnknownOptionError, match="Did you mean 'probit'"):
        Bernoulli("probits")
    with pytest.raises(InvalidInputError, match="`dispersion` of NegativeBinomial is -1"):
        NegativeBinomial(-1)


class Logistic(Likelihood):
    """Logistic noise, as a user would write it."""

    def log_density(self, y, f, size=1.0):
        return -np.abs(y - f) - 2 * np.log1p(np.exp(-np.abs(y - f)))

    def derivatives(self, y, f, size=1.0):
        t = np.tanh((y - f) / 2)
        return Derivatives(t, -(1 - t**2) / 2, -(1 - t**2) / 2 * t)

    def conditional_mean(self, f, size=1.0):
        return f


class BareCounts(Likelihood):
    """Poisson counts with the three methods that there must be."""

    def log_density(self, y, f, size=1.0):
        return y * f - np.exp(f)

    def derivatives(self, y, f, size=1.0):
        return Derivatives(y - np.exp(f), -np.exp(f), -np.exp(f))

    def conditional_mean(self, f, size=1.0):
        return np.exp(f)


def test_a_likelihood_of_ones_own_needs_three_methods():
    check_likelihood(Logistic())
    check_likelihood(BareCounts(), y=np.array([0.0, 3.0, 1.0, 7.0]))


class Rain(Likelihood):
    r"""Rain: it falls with probability s = e^f / (1 + e^f), and then its amount is exponential with mean e^f.

    So log p = -log(1 + e^f) - y e^-f, for the probability of none and for the density of an amount.
    """

    atoms = (0.0,)

    def log_density(self, y, f, size=1.0):
        return -np.logaddexp(0, f) - y * np.exp(-f)

    def derivatives(self, y, f, size=1.0):
        s, a = expit(f), y * np.exp(-f)
        return Derivatives(a - s, -a - s * (1 - s), a - s * (1 - s) * (1 - 2 * s))

    def conditional_mean(self, f, size=1.0):
        return expit(f) * np.exp(f)

    def conditional_variance(self, f, size=1.0):
        return expit(f) * np.exp(2 * f) * (2 - expit(f))

    def latent_of_mean(self, mean, size=1.0):
        return np.log((mean + np.sqrt(mean**2 + 4 * mean)) / 2)

    def cdf(self, y, f, size=1.0):
        return np.where(y < 0, 0.0, 1 - expit(f) * np.exp(-np.maximum(y, 0) * np.exp(-f)))

    def sample(self, f, rng, size=1.0):
        return np.where(rng.random(np.shape(f)) < expit(f), np.exp(f) * rng.exponential(size=np.shape(f)), 0.0)

    def support(self, size=1.0):
        return 0.0, np.inf

    def constant_start(self, y, size=1.0):
        return float(self.latent_of_mean(np.mean(y)))


class RainWithoutItsAtom(Rain):
    atoms = ()


class RainWithoutDryDays(Rain):
    def cdf(self, y, f, size=1.0):
        return np.where(y <= 0, 0.0, super().cdf(y, f, size))


class RainOfAnotherProbability(Rain):
    def log_density(self, y, f, size=1.0):
        return super().log_density(y, f, size) + np.where(y == 0, 0.1, 0.0)


class RainWithAnAtomOutside(Rain):
    atoms = (-1.0,)


def test_a_likelihood_with_an_atom_that_it_declares_keeps_the_contract():
    check_likelihood(Rain())


@pytest.mark.parametrize(
    ("wrong", "clause"),
    [
        (RainWithoutItsAtom(), "the density .* summed over y"),
        (RainWithoutDryDays(), "jumps by the probability of an atom"),
        (RainOfAnotherProbability(), "the density .* summed over y"),
        (RainWithAnAtomOutside(), "inside `support`"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Likelihood) else "",
)
def test_an_atom_that_is_not_what_is_declared_is_found(wrong, clause):
    with pytest.raises(AssertionError, match=clause):
        check_likelihood(wrong)


def test_an_interval_of_data_with_an_atom_ends_at_it_and_their_transform_is_uniform():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(600, 1))
    y = Rain().sample(2 * np.sin(6 * X[:, 0]), rng)
    assert 0.2 < (y == 0).mean() < 0.8
    gp = GPRegressor(likelihood=Rain(), knots=8, random_state=0).fit(X, y)
    f, variance = np.array([-1.0, 3.0]), np.array([1e-8, 1e-8])
    expected = [0.0, -np.exp(3.0) * np.log(0.9 / expit(3.0))]  # from 1 - s exp(-y e^-f) = 0.1
    assert_allclose(gp.likelihood_.predictive_quantile(0.1, f, variance), expected, rtol=1e-5)
    assert (gp.predict_interval(X, 0.9)[:, 0][expit(gp.predict_latent(X).mean) < 0.9] == 0.0).all()
    u = gp.predictive(X).pit(y, rng)
    assert stats.kstest(u, "uniform").pvalue > 0.01


class WrongThird(Logistic):
    def derivatives(self, y, f, size=1.0):
        d = super().derivatives(y, f, size)
        return Derivatives(d.first, d.second, -d.third)


class WrongSecond(Poisson):
    def derivatives(self, y, f, size=1.0):
        d = super().derivatives(y, f, size)
        return Derivatives(d.first, 1.001 * d.second, d.third)


class WrongClaim(StudentT):
    log_concave = True

    def fisher(self, y, f, size=1.0):
        return np.ones_like(y)


class WrongConcavity(Bernoulli):
    jointly_concave = True


class WrongQuadratic(Poisson):
    quadratic = True


class NegativeFisher(StudentT):
    fisher = Likelihood.fisher


class WrongConstant(Gamma):
    def log_density(self, y, f, size=1.0):
        return super().log_density(y, f) + 1e-4


class WrongMean(LogNormal):
    def conditional_mean(self, f, size=1.0):
        return np.exp(f)

    def latent_of_mean(self, mean, size=1.0):
        return np.log(mean)

    sample = cdf = Likelihood.sample


class WrongVariance(Beta):
    def conditional_variance(self, f, size=1.0):
        return self.conditional_mean(f) * self.conditional_mean(-f) / self.value("precision")


class WrongSample(Poisson):
    def sample(self, f, rng, size=1.0):
        return super().sample(f + 0.1, rng, size)


class WrongInverse(Poisson):
    def latent_of_mean(self, mean, size=1.0):
        return np.log(mean)


class WrongDistribution(Weibull):
    def cdf(self, y, f, size=1.0):
        return ndtr(super().cdf(y, f) - 0.5)


class StrictDistribution(Binomial):
    def cdf(self, y, f, size=1.0):
        return super().cdf(np.asarray(y) - 1, f, size)  # P(Y < y)


class WrongParameter(StudentT):
    def parameter_derivatives(self, y, f, size=1.0):
        return super().parameter_derivatives(y, f)[::-1]


class NoParameter(Gamma):
    def parameter_derivatives(self, y, f, size=1.0):
        return []


class WrongStart(Gamma):
    def start(self, variance):
        return self if self.shape is not None else WrongStart(1e7)


class InfiniteConstant(Poisson):
    def constant_start(self, y, size=1.0):
        return float(np.log(np.maximum(np.mean(y), 1e-999)) if np.any(y) else -np.inf)


class WrongUnits(StudentT):
    """It says that its scale is a variance."""

    parameters = (replace(StudentT.parameters[0], units="y^2"), StudentT.parameters[1])


class UnitsOnALink(LogNormal):
    parameters = (replace(LogNormal.parameters[0], units="y^2"),)


class WrongDirection(Beta):
    parameters = (replace(Beta.parameters[0], direction=1),)


class WrongRole(Gamma):
    parameters = (replace(Gamma.parameters[0], role="amplitude"),)


class NoBounds(Gamma):
    parameters = (replace(Gamma.parameters[0], bounds=None),)


class WrongMoments(Gamma):
    def response_moments(self, mean, variance, size=1.0):
        return super().response_moments(mean, 1.001 * variance)


@pytest.mark.parametrize(
    "broken, complaint",
    [
        (WrongThird(), "the third derivative in f"),
        (WrongSecond(), "the second derivative in f"),
        (WrongClaim(1.0, 3.0), "set `log_concave = False`"),
        (WrongConcavity(), "set `jointly_concave = False`"),
        (WrongQuadratic(), "it declares `quadratic`"),
        (NegativeFisher(1.0, 3.0), "`fisher` must be finite"),
        (WrongConstant(2.0), "the density at f"),
        (WrongMean(0.5), "`conditional_mean` at f"),
        (WrongVariance(5.0), "`conditional_variance` at f"),
        (WrongSample(), "mean of draws is"),
        (WrongInverse(), "`latent_of_mean` inverts"),
        (WrongDistribution(2.0), "share of draws below|`cdf`"),
        (StrictDistribution(), "share of draws below|`cdf`"),
        (WrongParameter(1.0, 3.0), "the derivative of log p in unconstrained `scale`"),
        (NoParameter(2.0), "`parameter_derivatives` has 0 entries"),
        (WrongStart(2.0), "lies outside `bounds`"),
        (InfiniteConstant(), "`constant_start` is -inf"),
        (WrongUnits(1.0, 3.0), "`units` of y"),
        (UnitsOnALink(0.5), "only with `scales_targets = True`"),
        (WrongDirection(5.0), "direction 1, but y varies less"),
        (WrongRole(2.0), "has the role 'amplitude'"),
        (WrongMoments(2.0), "the mean in `response_moments`"),
    ],
    ids=lambda v: type(v).__name__ if isinstance(v, Likelihood) else "",
)
def test_a_broken_likelihood_is_caught(broken, complaint):
    with pytest.raises(AssertionError, match=complaint):
        check_likelihood(broken)


def test_bounds_are_declared_or_defined():
    assert_array_equal(Gamma(2.0).bounds(1.0), [Gamma.parameters[0].bounds])
    assert Poisson().bounds(1.0).shape == (0, 2)
    with pytest.raises(NotImplementedError, match="NoBounds must define `bounds`, or declare them"):
        NoBounds(2.0).bounds(1.0)


# -- the densities against fifty digits ----------------------------------------------------------------

getcontext().prec = 50
BERNOULLI_NUMBERS = ["1/6", "-1/30", "1/42", "-1/30", "5/66", "-691/2730", "7/6", "-3617/510", "43867/798"]


def log_gamma(x):
    """Stirling's series in decimals, after a shift to arguments where it has forty digits."""
    x, shift = Decimal(x), Decimal(1)
    while x < 500:
        shift *= x
        x += 1
    half_log_2pi = Decimal("0.91893853320467274178032973640561763986139747363778")
    total = (x - Decimal("0.5")) * x.ln() - x + half_log_2pi - shift.ln()
    for k, fraction in enumerate(BERNOULLI_NUMBERS, 1):
        top, bottom = map(Decimal, fraction.split("/"))
        total += top / bottom / (2 * k * (2 * k - 1)) / x ** (2 * k - 1)
    return total


def exact_poisson(y, f, size):
    log_mu = Decimal(f) + Decimal(size).ln()
    return Decimal(y) * log_mu - log_mu.exp() - log_gamma(Decimal(y) + 1)


def exact_negative_binomial(y, f, size, dispersion):
    y, r, mu = Decimal(y), 1 / Decimal(dispersion), Decimal(size) * Decimal(f).exp()
    coefficient = log_gamma(y + r) - log_gamma(r) - log_gamma(y + 1)
    return coefficient + r * (r / (r + mu)).ln() + y * (mu / (r + mu)).ln()


def exact_binomial(y, f, size):
    y, n, s = Decimal(y), Decimal(size), 1 / (1 + (-Decimal(f)).exp())
    return log_gamma(n + 1) - log_gamma(y + 1) - log_gamma(n - y + 1) + y * s.ln() + (n - y) * (1 - s).ln()


def exact_gamma(y, f, size, k):
    y, f, k = Decimal(y), Decimal(f), Decimal(k)
    return k * k.ln() - log_gamma(k) + (k - 1) * y.ln() - k * f - k * y * (-f).exp()


def exact_beta(y, f, size, phi):
    y, phi, mu = Decimal(y), Decimal(phi), 1 / (1 + (-Decimal(f)).exp())
    a, b = phi * mu, phi * (1 - mu)
    return log_gamma(phi) - log_gamma(a) - log_gamma(b) + (a - 1) * y.ln() + (b - 1) * (1 - y).ln()


def exact_student_t(y, f, size, s, nu):
    r, s, nu = Decimal(y) - Decimal(f), Decimal(s), Decimal(nu)
    pi = Decimal("3.1415926535897932384626433832795028841971693993751")
    constant = log_gamma((nu + 1) / 2) - log_gamma(nu / 2) - (nu * pi).ln() / 2 - s.ln()
    return constant - (nu + 1) / 2 * (1 + r**2 / (nu * s**2)).ln()


COUNTS = [(0, -2.0, 1.0), (3, 1.0, 0.7), (250, 5.4, 1.3), (40, -30.0, 1.0), (0, 7.0, 1.0), (10**7, 16.1181, 1.0)]
SHARES = [(0.3, -1.0, 1.0), (1e-9, -20.0, 1.0), (0.999, 6.0, 1.0), (0.5, 30.0, 1.0), (0.2, -30.0, 1.0)]
POSITIVE = [(1.0, 0.1, 1.0), (1e-8, 1.0, 1.0), (300.0, 5.7, 1.0), (1e6, 13.8, 1.0)]
TRIALS = [(0, -1.0, 5.0), (5, 0.3, 5.0), (30, -20.0, 100.0), (3_000_100, -0.8473, 1e7), (10**6, 30.0, 1e6)]


@pytest.mark.parametrize(
    "likelihood, exact, points",
    [
        (Poisson(), exact_poisson, COUNTS),
        (Binomial(), exact_binomial, TRIALS),
        *((NegativeBinomial(a), exact_negative_binomial, COUNTS) for a in (1e-8, 1e-4, 0.1, 1.0, 30.0, 1e3)),
        *((Gamma(k), exact_gamma, POSITIVE) for k in (1e-2, 1.0, 1e5)),
        (Exponential(), lambda y, f, size: exact_gamma(y, f, size, 1), POSITIVE),
        *((Beta(phi), exact_beta, SHARES) for phi in (1e-2, 2.0, 1e6)),
        *((StudentT(0.3, nu), exact_student_t, [(0.3, 1.1, 1.0), (1e5, 0.0, 1.0)]) for nu in (1.0, 4.0, 200.0, 1e8)),
    ],
    ids=lambda v: repr(v) if isinstance(v, Likelihood) else "",
)
def test_log_density_has_all_its_digits(likelihood, exact, points):
    parameters = [likelihood.value(p.name) for p in likelihood.parameters]
    for y, f, size in points:
        actual = likelihood.log_density(np.array([float(y)]), np.array([f]), np.array([size]))[0]
        # d log p / df times the rounding of f is what no formula can avoid
        slope = abs(likelihood.derivatives(np.array([float(y)]), np.array([f]), np.array([size])).first[0])
        atol = 1e-12 + 8e-16 * max(abs(f), 1) * slope
        assert_allclose(actual, float(exact(y, f, size, *parameters)), rtol=2e-13, atol=atol)


def test_log_densities_equal_those_of_scipy(rng):
    n = 200
    f, trials, exposure = rng.normal(size=n), rng.integers(1, 40, n).astype(float), rng.uniform(0.2, 9.0, n)
    mu, s = exposure * np.exp(f), expit(f)
    cases = [
        (Bernoulli(), stats.bernoulli(s).logpmf, 1.0),
        (Bernoulli("probit"), stats.bernoulli(ndtr(f)).logpmf, 1.0),
        (Binomial(), stats.binom(trials, s).logpmf, trials),
        (Poisson(), stats.poisson(mu).logpmf, exposure),
        (NegativeBinomial(0.7), stats.nbinom(1 / 0.7, 1 / (1 + 0.7 * mu)).logpmf, exposure),
        (Gamma(2.3), stats.gamma(2.3, scale=np.exp(f) / 2.3).logpdf, 1.0),
        (Exponential(), stats.expon(scale=np.exp(f)).logpdf, 1.0),
        (Weibull(1.4), stats.weibull_min(1.4, scale=np.exp(f)).logpdf, 1.0),
        (LogNormal(0.4), stats.lognorm(np.sqrt(0.4), scale=np.exp(f)).logpdf, 1.0),
        (Beta(4.0), stats.beta(4 * s, 4 * (1 - s)).logpdf, 1.0),
        (StudentT(0.6, 3.5), stats.t(3.5, f, 0.6).logpdf, 1.0),
        (Gaussian(0.36), stats.norm(f, 0.6).logpdf, 1.0),
    ]
    for likelihood, log_density, size in cases:
        y = likelihood.sample(f, rng, size)
        assert_allclose(likelihood.log_density(y, f, size), log_density(y), rtol=1e-11, atol=1e-11, err_msg=likelihood)


@pytest.mark.parametrize("z", [-1e3, -40.0, -12.0, -4.1, -3.9, -1.0, 0.0, 2.0])
def test_probit_derivatives_have_all_their_digits_in_the_tail(z):
    # d2 log Phi = Var - 1 and d3 log Phi = third central moment of t with density exp(z t - t^2/2) on t > 0
    u = np.linspace(-4.0, 4.0, 4001)
    t = np.exp(np.pi / 2 * np.sinh(u)) / max(-z, 1.0)  # double exponential rule
    p = np.exp(z * t - t**2 / 2) * t * np.cosh(u)
    p /= p.sum()
    mean = p @ t
    d = Bernoulli("probit").derivatives(np.array([1.0, 0.0]), np.array([z, -z]))
    assert_allclose(d.first, (mean - z) * np.array([1, -1]), rtol=1e-13)
    assert_allclose(d.second, p @ (t - mean) ** 2 - 1, rtol=1e-12)
    assert_allclose(d.third, p @ (t - mean) ** 3 * np.array([1, -1]), rtol=1e-10)


def test_probit_is_finite_and_flat_far_to_the_right():
    d = Bernoulli("probit").derivatives(np.ones(3), np.array([30.0, 40.0, 700.0]))
    assert_allclose(d.first[0], np.exp(-450) / np.sqrt(2 * np.pi), rtol=1e-12)
    assert_allclose(d.second[0], -30 * d.first[0], rtol=1e-12)
    assert_array_equal(np.stack([d.first, d.second, d.third])[:, 1:], 0)


def test_the_dispersion_gradient_survives_near_poisson():
    # log p = Poisson + dispersion ((y - mu)^2 - y) / 2 + O(dispersion^2)
    y, f, a = np.array([0.0, 4.0, 120.0]), np.array([0.3, 1.1, 4.6]), 1e-8
    slope = NegativeBinomial(a).parameter_derivatives(y, f)[0].log_density
    assert_allclose(slope, a * ((y - np.exp(f)) ** 2 - y) / 2, rtol=1e-5, atol=5e-16)


@pytest.mark.parametrize("likelihood", ALL, ids=repr)
@pytest.mark.parametrize("f", [-1e4, -700.0, 700.0, 1e4])
def test_no_f_is_too_far_for_numbers(likelihood, f, rng):
    y = np.concatenate([likelihood.sample(np.zeros(5), rng), [0.0, 1.0] if likelihood.discrete else []])
    at, size = np.full(y.shape, f), np.ones(y.shape)
    d = likelihood.derivatives(y, at, size)
    values = [likelihood.log_density(y, at, size), d.first, d.second, d.third, likelihood.fisher(y, at, size)]
    for p in likelihood.parameter_derivatives(y, at, size):
        values += [p.log_density, p.first, p.second]
    values += [likelihood.conditional_mean(at, size), likelihood.conditional_variance(at, size)]
    values += [likelihood.cdf(y, at, size), likelihood.sample(at, rng, size)]
    assert not np.isnan(np.stack(np.broadcast_arrays(*values))).any()


# -- limits and relations -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "one, other, rtol",
    [
        (NegativeBinomial(1e-12), Poisson(), 1e-9),
        (Weibull(1.0), Exponential(), 1e-13),
        (Gamma(1.0), Exponential(), 1e-13),
        (StudentT(0.7, 1e10), Gaussian(0.49), 1e-8),
        (Binomial(), Bernoulli(), 1e-13),
    ],
    ids=repr,
)
def test_a_likelihood_contains_its_special_case(one, other, rtol, rng):
    f = rng.normal(size=30)
    y = other.sample(f, rng)
    a, b = one.derivatives(y, f), other.derivatives(y, f)
    for left, right in [
        (one.log_density(y, f), other.log_density(y, f)),
        (a.first, b.first),
        (a.second, b.second),
        (a.third, b.third),
        (one.conditional_variance(f), other.conditional_variance(f)),
        (one.cdf(y, f), other.cdf(y, f)),
    ]:
        assert_allclose(left, right, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("likelihood", [Poisson(), NegativeBinomial(0.5)], ids=repr)
def test_exposure_is_a_shift_of_f(likelihood, rng):
    f, exposure = rng.normal(size=20), rng.uniform(0.1, 8.0, 20)
    y = likelihood.sample(f, rng, exposure)
    shifted = f + np.log(exposure)
    assert_allclose(likelihood.log_density(y, f, exposure), likelihood.log_density(y, shifted), rtol=1e-12)
    assert_allclose(likelihood.cdf(y, f, exposure), likelihood.cdf(y, shifted), rtol=1e-12)
    a, b = likelihood.derivatives(y, f, exposure), likelihood.derivatives(y, shifted)
    assert_allclose([a.first, a.second, a.third], [b.first, b.second, b.third], rtol=1e-10)


@pytest.mark.parametrize("df", [1.0, 4.0, 200.0])
def test_steps_of_student_t_go_to_the_top_of_a_parabola_below_the_log_density(df):
    likelihood, y, f = StudentT(0.5, df), 0.7, np.linspace(-8.0, 8.0, 81)
    at, to = (grid.ravel() for grid in np.meshgrid(f, f))
    step = to - at
    parabola = likelihood.log_density(y, at) + likelihood.derivatives(y, at).first * step
    parabola -= 0.5 * likelihood.step_curvature(y, at) * step**2
    assert np.all(parabola <= likelihood.log_density(y, to) + 1e-12)
    assert_allclose(at + likelihood.derivatives(y, at).first / likelihood.step_curvature(y, at), y, atol=1e-12)


@pytest.mark.parametrize("likelihood", [StudentT(0.5, 3.0), Beta(3.0), Beta(300.0)], ids=repr)
def test_fisher_is_the_expected_curvature(likelihood):
    u = np.linspace(-6.0, 6.0, 4001)
    for f in (-0.8, 0.0, 1.2):
        t = f + np.sinh(u)
        y, slope = (t, 1.0) if likelihood.scales_targets else (expit(t), expit(t) * expit(-t))
        inside = (y < 1) | likelihood.scales_targets
        y, slope = y[inside], (slope * np.cosh(u))[inside]
        at = np.full(y.shape, f)
        p = np.exp(likelihood.log_density(y, at)) * slope
        curvature = -likelihood.derivatives(y, at).second
        assert_allclose(p @ curvature / p.sum(), likelihood.fisher(y, at)[0], rtol=1e-6)


@pytest.mark.parametrize(
    "likelihood", [Gaussian(0.2), Bernoulli(), Bernoulli("probit"), Binomial(), Poisson(), Gamma(2.0), LogNormal(0.4)]
)
def test_constant_start_is_the_intercept_of_a_model_without_inputs(likelihood, rng):
    size = rng.integers(1, 9, 50).astype(float) if likelihood.size_name else 1.0
    y = likelihood.sample(np.full(50, 0.4), rng, size)
    constant = np.full(50, likelihood.constant_start(y, size))
    score = likelihood.derivatives(y, constant, size).first
    assert abs(score.sum()) < 1e-12 * np.abs(score).sum()


def test_constant_start_of_no_or_only_events_is_smoothed():
    assert Poisson().constant_start(np.zeros(4), np.full(4, 2.5)) == pytest.approx(np.log(0.5 / 10))
    assert NegativeBinomial().constant_start(np.zeros(4)) == pytest.approx(np.log(0.5 / 4))
    assert Bernoulli().constant_start(np.ones(4)) == pytest.approx(np.log(4.5 / 0.5))
    assert Binomial().constant_start(np.zeros(2), np.array([3.0, 4.0])) == pytest.approx(np.log(0.5 / 7.5))


def test_latent_of_mean_is_infinite_beyond_reach():
    assert_array_equal(Poisson().latent_of_mean([0.0, -1.0]), -np.inf)
    assert_array_equal(Gamma(2.0).latent_of_mean([0.0, -1.0]), -np.inf)
    for likelihood in (Bernoulli(), Bernoulli("probit"), Beta(3.0)):
        assert_array_equal(
            likelihood.latent_of_mean(np.array([-0.1, 0.0, 1.0, 1.1])), [-np.inf, -np.inf, np.inf, np.inf]
        )
    assert_array_equal(Binomial().latent_of_mean([0.0, 5.0, 6.0], 5.0), [-np.inf, np.inf, np.inf])


def test_student_t_has_no_variance_with_few_degrees_of_freedom():
    assert np.isinf(StudentT(1.0, 2.0).conditional_variance(np.zeros(2))).all()
    assert_allclose(StudentT(2.0, 6.0).conditional_variance(np.zeros(2)), 6.0)


# -- a new observation --------------------------------------------------------------------------------


@pytest.mark.parametrize("likelihood", ALL, ids=repr)
def test_closed_response_moments_equal_quadrature(likelihood, rng):
    mean, variance = rng.normal(size=12), rng.uniform(1e-3, 1.5, 12)
    size = rng.integers(1, 6, 12).astype(float) if likelihood.size_name else np.ones(12)
    expected = response_moments(likelihood, mean, variance, size)
    for actual, by_quadrature in zip(likelihood.response_moments(mean, variance, size), expected, strict=True):
        assert_allclose(actual, by_quadrature, rtol=1e-9)


@pytest.mark.parametrize("likelihood", [Gaussian(0.3), Bernoulli("probit"), LogNormal(0.2)], ids=repr)
def test_closed_predictive_densities_equal_quadrature(likelihood, rng):
    mean, variance = rng.normal(size=12), rng.uniform(1e-3, 9.0, 12)
    y = likelihood.sample(mean, rng)
    expected = log_tilted_integral(likelihood, y, mean, variance, np.ones(12))
    assert_allclose(likelihood.log_predictive_density(y, mean, variance), expected, rtol=1e-9, atol=1e-9)


# -- the door -----------------------------------------------------------------------------------------

COUNT_LIKELIHOODS = [Poisson(), NegativeBinomial(0.4), Binomial()]


@pytest.mark.parametrize(
    "likelihood, y, size, complaint",
    [
        (Bernoulli(), [0, 1, 2, -1], 1.0, r"0 or 1, but is 2 in row 2 and 1 more row.*GPClassifier"),
        (Bernoulli(), [0, 0.5], 1.0, r"is 0\.5 in row 1\. "),
        (Bernoulli(), [np.nan, 0], 1.0, r"is nan in row 0"),
        *((likelihood, [3, 2, -4], 5.0, r"0 or more, but is -4 in row 2\. ") for likelihood in COUNT_LIKELIHOODS),
        *((likelihood, [3, np.inf], 5.0, r"is inf in row 1\. ") for likelihood in COUNT_LIKELIHOODS),
        (Binomial(), [3, 4], np.array([5.0, 2.0]), r"trials, which is 2 there, but is 4 in row 1\. .*`trials`"),
        *(
            (p, [1.0, 0.0], 1.0, r"positive, but is 0 in row 1")
            for p in (Gamma(), Exponential(), Weibull(), LogNormal())
        ),
        (Gamma(), [1.0, -2.5], 1.0, r"is -2\.5 in row 1"),
        (Beta(), [0.5, 1.0], 1.0, r"strictly between 0 and 1, but is 1 in row 1.*Binomial"),
        (Beta(), [0.0, 0.3], 1.0, r"is 0 in row 0"),
    ],
)
def test_impossible_targets_are_refused_with_row_and_value(likelihood, y, size, complaint):
    with pytest.raises(InvalidInputError, match=complaint):
        likelihood.check_targets(np.array(y, float), size)


POSITIVE = [Gamma(), Exponential(), Weibull(), LogNormal()]


@pytest.mark.parametrize("likelihood", POSITIVE, ids=repr)
def test_many_zeros_are_a_part_of_the_data_and_get_two_models(likelihood):
    rng = np.random.default_rng(0)
    y = rng.gamma(2.0, size=3000)
    y[rng.permutation(3000)[:1039]] = 0.0
    with pytest.raises(InvalidInputError) as caught:
        likelihood.check_targets(y)
    words = str(caught.value)
    assert "1,039 of 3,000 rows are no mistakes" in words and "emove the row" not in words
    assert "occurrence" in words and "`GPClassifier().fit(X, y > 0)`" in words and "`X[y > 0], y[y > 0]`" in words
    assert_array_equal(caught.value.rows, np.flatnonzero(y == 0))


@pytest.mark.parametrize("likelihood", POSITIVE, ids=repr)
@pytest.mark.parametrize("n_zeros", [1, 5])
def test_a_few_zeros_may_be_mistakes(likelihood, n_zeros):
    with pytest.raises(
        InvalidInputError, match=r"If this is a mistake, .*half the limit.* If it was observed so, fit two"
    ):
        likelihood.check_targets(np.r_[np.ones(40), np.zeros(n_zeros)])


def test_a_negative_value_among_many_zeros_is_named_as_a_mistake():
    with pytest.raises(InvalidInputError, match=r"is -1 in row 2\. Remove the row or correct it\.$"):
        Gamma().check_targets(np.array([1.0, 0, -1, 0, 0, 0, 0, 0]))


@pytest.mark.parametrize("ends", [(0.0,), (1.0,), (0.0, 1.0)])
def test_many_shares_of_0_or_1_get_two_models(ends):
    y = np.r_[np.full(30, 0.4), np.resize(ends, 20)]
    names = " and ".join(f"{end:g}" for end in ends)
    with pytest.raises(InvalidInputError, match=f"Values of {names} in 20 of 50 rows are no mistakes.*occurrence"):
        Beta().check_targets(y)
    kinds = np.ceil(y) + np.floor(y)  # what the error says to fit
    assert set(kinds) == {1.0, *(2 * end for end in ends)}


@pytest.mark.parametrize("likelihood", COUNT_LIKELIHOODS, ids=repr)
def test_fractional_counts_warn_once_and_go_on(likelihood):
    y = np.array([1.0, 2.5, 0.25, 3.0])
    with pytest.warns(FitWarning, match=r"2 of 4 .* 2\.5 in row 1") as record:
        assert_array_equal(likelihood.check_targets(y, 9.0), y)
    assert len(record) == 1


@pytest.mark.parametrize("likelihood", ALL, ids=repr)
def test_possible_targets_come_back_as_floats(likelihood, rng):
    y = likelihood.sample(np.zeros(6), rng, np.full(6, 3.0))
    checked = likelihood.check_targets(y.astype(int) if likelihood.discrete else y, np.full(6, 3.0))
    assert checked.dtype == float
    assert_array_equal(checked, y)


# -- zeros beside the counts ----------------------------------------------------------------------------


@pytest.mark.parametrize("share", [1e-6, 0.3, 0.99])
@pytest.mark.parametrize("mu", [1e-5, 0.1, 3.0, 1e3, 1e7])
def test_zero_inflated_densities_are_those_of_scipy(mu, share):
    y = np.array([0.0, 1.0, 5.0, 1e3, 1e7])
    f = np.full(len(y), np.log(mu / 2.0))
    for likelihood, law, rtol in (
        (ZeroInflatedPoisson(share), stats.poisson(mu), 1e-7),
        (ZeroInflatedNegativeBinomial(0.4, share), stats.nbinom(2.5, 1 / (1 + 0.4 * mu)), 1e-7),
    ):
        with np.errstate(divide="ignore"):
            expected = ZeroInflated(share, law).logpmf(y)
        sure = np.isfinite(expected)
        assert sure[0] and sure.sum() >= 3
        assert_allclose(likelihood.log_density(y, f, 2.0)[sure], expected[sure], rtol=rtol, atol=1e-12)


def test_hardly_any_zeros_beside_the_counts_are_none():
    y, f = np.array([0.0, 1.0, 9.0, 400.0]), np.array([-3.0, 0.5, 2.0, 1.0])
    for likelihood, limit in (
        (ZeroInflatedPoisson(1e-12), Poisson()),
        (ZeroInflatedNegativeBinomial(0.4, 1e-12), NegativeBinomial(0.4)),
    ):
        assert_allclose(likelihood.log_density(y, f), limit.log_density(y, f), rtol=1e-10, atol=1e-10)
        for found, expected in zip(
            vars(likelihood.derivatives(y, f)).values(), vars(limit.derivatives(y, f)).values(), strict=True
        ):
            assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("likelihood", [ZeroInflatedPoisson(0.3), ZeroInflatedNegativeBinomial(0.4, 0.3)], ids=repr)
def test_a_zero_at_a_huge_rate_is_beside_the_counts(likelihood):
    """Where no zero is a count, log p is that of the share, and flat: 0 times infinity is nowhere."""
    y, f = np.zeros(3), np.array([40.0, 300.0, 900.0])
    assert_allclose(likelihood.log_density(y, f), np.log(0.3), rtol=1e-9)
    for value in vars(likelihood.derivatives(y, f)).values():
        assert_allclose(value, 0.0, atol=1e-9)
