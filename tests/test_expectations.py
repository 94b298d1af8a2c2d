"""Expectations of log densities under a Gaussian f, and tilted integrals, against fine rules and differences."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.special import wofz

from knotwise import likelihoods as lik
from knotwise.likelihoods.bernoulli import PROBIT_WIDTH
from knotwise.likelihoods.expectations import expectations, expected_parameter_derivatives
from knotwise.likelihoods.tilted import tilted, tilted_parameter_derivatives
from knotwise.testing.likelihood import check_likelihood

VARIANCES = [0.0, 1e-6, 0.1, 1.0, 10.0, 50.0]
MEANS = [-6.0, 0.0, 0.4, 3.0]
COUNTS, POSITIVE, SHARES, REAL = [0.0, 3.0, 1e6], [1e-3, 0.7, 50.0], [0.4, 1e-6, 1 - 1e-6], [0.3, 6.0, -30.0]

# a likelihood, the size of each row, some y, and the scale of log p and its derivatives beside max(1, |value|)
CASES = {
    "gaussian": (lik.Gaussian(0.3), 1.0, REAL, 1.0),
    "bernoulli": (lik.Bernoulli(), 1.0, [0.0, 1.0], 1.0),
    "probit": (lik.Bernoulli("probit"), 1.0, [0.0, 1.0], 1.0),
    "binomial": (lik.Binomial(), 40.0, [0.0, 17.0, 40.0], 40.0),
    "binomial-large": (lik.Binomial(), 1e6, [0.0, 3e5], 1e6),
    "poisson": (lik.Poisson(), 2.0, COUNTS, 1.0),
    "negative-binomial": (lik.NegativeBinomial(0.4), 2.0, COUNTS, 1e6),
    "negative-binomial-nearly-poisson": (lik.NegativeBinomial(1e-5), 2.0, COUNTS, 1e6),
    "negative-binomial-wide": (lik.NegativeBinomial(100.0), 2.0, COUNTS, 1e6),
    "zero-inflated-poisson": (lik.ZeroInflatedPoisson(0.3), 2.0, COUNTS, 1.0),
    "zero-inflated-poisson-rarely": (lik.ZeroInflatedPoisson(1e-4), 2.0, COUNTS, 1.0),
    "zero-inflated-poisson-mostly": (lik.ZeroInflatedPoisson(0.9), 2.0, COUNTS, 1.0),
    "zero-inflated-negative-binomial": (lik.ZeroInflatedNegativeBinomial(0.4, 0.3), 2.0, COUNTS, 1e6),
    "zero-inflated-negative-binomial-nearly-poisson": (lik.ZeroInflatedNegativeBinomial(1e-4, 0.01), 2.0, COUNTS, 1e6),
    "gamma": (lik.Gamma(2.5), 1.0, POSITIVE, 1.0),
    "gamma-sharp": (lik.Gamma(1e3), 1.0, POSITIVE, 1.0),
    "exponential": (lik.Exponential(), 1.0, POSITIVE, 1.0),
    "weibull": (lik.Weibull(1.7), 1.0, POSITIVE, 1.0),
    "lognormal": (lik.LogNormal(0.3), 1.0, POSITIVE, 1.0),
    "beta-1e-2": (lik.Beta(1e-2), 1.0, SHARES, 1.0),
    "beta-6": (lik.Beta(6.0), 1.0, SHARES, 6.0),
    "beta-500": (lik.Beta(500.0), 1.0, SHARES, 500.0),
    "beta-1e6": (lik.Beta(1e6), 1.0, SHARES, 1e6),
    "student-t-1": (lik.StudentT(1.0, 4.0), 1.0, REAL, 1.0),
    "student-t-0.1": (lik.StudentT(0.1, 4.0), 1.0, REAL, 1.0),
    "student-t-0.01": (lik.StudentT(0.01, 4.0), 1.0, REAL, 1.0),
    "cauchy-0.01": (lik.StudentT(0.01, 1.0), 1.0, REAL, 1.0),
}
EACH = [pytest.param(*case, id=name) for name, case in CASES.items()]


def rows(ys, size, variance):
    """Every y with every mean."""
    y, mean = (v.ravel() for v in np.meshgrid(ys, MEANS))
    return y, mean, np.full(y.shape, variance), np.full(y.shape, size)


def at(likelihood, y, f, size):
    """log p, its first two derivatives and the parameter derivatives, at nodes of one row, [3 + Q, nodes]."""
    y, size = np.full(f.shape, y), np.full(f.shape, size)
    d = likelihood.derivatives(y, f, size)
    in_theta = [one.log_density for one in likelihood.parameter_derivatives(y, f, size)]
    return np.array(
        [np.broadcast_to(v, f.shape) for v in (likelihood.log_density(y, f, size), d.first, d.second)] + in_theta
    )


def fine_expectations(likelihood, y, mean, variance, size):
    """A trapezoid rule with steps of a 100th of a standard deviation and of what f is measured by."""
    sd = np.sqrt(variance)
    growing = lik.Poisson | lik.ZeroInflatedPoisson | lik.Gamma | lik.Weibull  # like e^(1.7 f) at most
    reach = 9.0 + (1.7 * sd if isinstance(likelihood, growing) else 0.0)
    unit = likelihood.scale if isinstance(likelihood, lik.StudentT) else 1.0
    z = np.linspace(-reach, reach, int(2 * reach * max(100.0, 12 * sd / unit)))
    weights = np.exp(-0.5 * z**2)
    return at(likelihood, y, mean + sd * z, size) @ (weights / weights.sum())


@pytest.mark.parametrize("variance", VARIANCES)
@pytest.mark.parametrize(("likelihood", "size", "ys", "scale"), EACH)
def test_expectations_equal_a_fine_rule(likelihood, size, ys, scale, variance):
    y, mean, variances, sizes = rows(ys, size, variance)
    result = likelihood.expectations(y, mean, variances, sizes)
    in_theta = likelihood.expected_parameter_derivatives(y, mean, variances, sizes)
    actual = np.vstack([result.log_density, result.first, result.second, in_theta])
    expected = np.array([fine_expectations(likelihood, *row) for row in zip(y, mean, variances, sizes, strict=True)]).T
    assert result.error == 0
    assert_allclose(actual, expected, rtol=2e-10, atol=2e-10 * scale)


@pytest.mark.parametrize(("likelihood", "size", "ys", "scale"), EACH)
def test_expectations_change_with_mean_and_variance_as_theory_says(likelihood, size, ys, scale):
    """d E log p / d mean = E g and d E log p / d variance = E g' / 2."""
    y, mean, variance, sizes = rows(ys, size, 0.8)
    step = 1e-4

    def value(m, v):
        return likelihood.expectations(y, m, v, sizes).log_density

    result = likelihood.expectations(y, mean, variance, sizes)
    in_mean = (value(mean + step, variance) - value(mean - step, variance)) / (2 * step)
    in_variance = (value(mean, variance + step) - value(mean, variance - step)) / (2 * step)
    rounding = 1e-11 / step * (scale + np.abs(result.log_density))
    for actual, expected in ((result.first, in_mean), (result.second / 2, in_variance)):
        assert (np.abs(actual - expected) <= rounding + 1e-6 * np.abs(expected)).all()


@pytest.mark.slow
@pytest.mark.parametrize("power", [1.0, 0.5])
@pytest.mark.parametrize("variance", [1e-6, 0.1, 1.0, 10.0, 50.0])
@pytest.mark.parametrize(("likelihood", "size", "ys", "scale"), EACH)
def test_tilted_integrals_change_with_the_mean_as_theory_says(likelihood, size, ys, scale, variance, power):
    """Differences of log Z in the mean give d1, those of d1 give d2."""
    if power != 1 and not likelihood.tilts_to_any_power:
        return  # expectation propagation refuses them
    y, mean, variances, sizes = rows(ys, size, variance)
    sd = np.sqrt(variance)
    step = 1e-3 * sd
    near = [likelihood.tilted(y, mean + k * step, variances, sizes, power) for k in (-2, -1, 1, 2)]
    result = likelihood.tilted(y, mean, variances, sizes, power)
    assert result.error == 0

    def slope(name):
        a, b, c, d = (getattr(one, name) for one in near)
        return (8 * (c - b) - (d - a)) / (12 * step)

    rounding = 1e-10 * (1 + np.abs(result.log_integral))
    assert (np.abs(slope("log_integral") - result.first) * sd <= rounding + 1e-6 * np.abs(result.first) * sd).all()
    rounding = 1e-10 * (1 + np.abs(result.first) * sd)
    assert (
        np.abs(slope("first") - result.second) * variance <= rounding + 1e-6 * np.abs(result.second) * variance
    ).all()
    if likelihood.log_concave:
        assert (result.second <= 0).all()
    assert (1 + variance * result.second > 0).all()  # the variance of the tilted law


def fine_tilted(likelihood, y, mean, variance, size, power):
    """log Z, its derivatives and averages of the tilted law, by Gauss-Legendre rules on panels that double."""
    sd = np.sqrt(variance)
    f = mean + sd * np.linspace(-70, 70, 14_001)
    with np.errstate(over="ignore"):
        values = power * likelihood.log_density(np.full(f.shape, y), f, np.full(f.shape, size))
    mode = f[np.argmax(values - 0.5 * ((f - mean) / sd) ** 2)]
    steps = np.concatenate([np.exp2(np.arange(-12.0, 3.0, 0.5)), np.arange(4.5, 14.0)]) * sd
    places = [mode, mean, *([y] if isinstance(likelihood, lik.StudentT) else [])]
    cuts = np.unique(np.concatenate([np.concatenate([place - steps, [place], place + steps]) for place in places]))
    nodes, weights = np.polynomial.legendre.leggauss(24)
    half = np.diff(cuts)[:, None] / 2
    f, weights = (cuts[:-1, None] + half * (1 + nodes)).ravel(), (half * weights).ravel()
    values = at(likelihood, y, f, size)
    log_p = power * values[0] - 0.5 * ((f - mean) / sd) ** 2
    top = log_p.max()
    p = weights * np.exp(log_p - top)
    log_integral = top + np.log(p.sum()) - 0.5 * np.log(2 * np.pi * variance)
    seen = p > 0
    p, values, off = p[seen] / p.sum(), values[1:, seen], f[seen] - mode
    shift, spread = p @ off, p @ (off - p @ off) ** 2
    if spread < variance / 2:  # the other form has differences of large numbers
        first, second = (mode + shift - mean) / variance, (spread / variance - 1) / variance
    else:
        g = p @ values[0]
        first, second = power * g, power * (p @ values[1]) + power**2 * (p @ (values[0] - g) ** 2)
    return np.array([log_integral, first, second, *(values[2:] @ p)])


@pytest.mark.slow
@pytest.mark.parametrize("power", [1.0, 0.3])
@pytest.mark.parametrize("variance", [0.1, 1.0, 10.0])
@pytest.mark.parametrize(("likelihood", "size", "ys", "scale"), EACH)
def test_tilted_integrals_equal_a_fine_rule(likelihood, size, ys, scale, variance, power):
    if power != 1 and not likelihood.tilts_to_any_power:
        return  # expectation propagation refuses them
    y, mean, variances, sizes = rows(ys, size, variance)
    result = likelihood.tilted(y, mean, variances, sizes, power)
    in_theta = likelihood.tilted_parameter_derivatives(y, mean, variances, sizes, power)
    actual = np.vstack([result.log_integral, result.first, result.second, in_theta])
    expected = np.array([fine_tilted(likelihood, *row, power) for row in zip(y, mean, variances, sizes, strict=True)]).T
    sd = np.sqrt(variance)
    units = np.array([1.0, sd, variance, *np.ones(likelihood.size)])[:, None]
    assert_allclose(actual * units, expected * units, rtol=1e-9, atol=1e-9)


def test_the_probit_is_closed_at_power_one_and_equals_quadrature():
    likelihood = lik.Bernoulli("probit")
    y, mean, variance, size = rows([0.0, 1.0], 1.0, 2.3)
    closed, summed = likelihood.tilted(y, mean, variance, size), tilted(likelihood, y, mean, variance, size, 1.0)
    for name in ("log_integral", "first", "second"):
        assert_allclose(getattr(closed, name), getattr(summed, name), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", ["gaussian", "poisson", "gamma", "exponential", "weibull", "lognormal"])
def test_closed_forms_equal_quadrature(name):
    likelihood, size, ys, _ = CASES[name]
    for variance in (0.0, 0.1, 4.0):
        args = rows(ys, size, variance)
        closed, summed = likelihood.expectations(*args), expectations(likelihood, *args)
        for part in ("log_density", "first", "second"):
            assert_allclose(getattr(closed, part), getattr(summed, part), rtol=1e-9, atol=1e-9)
        in_theta = expected_parameter_derivatives(likelihood, *args)
        assert_allclose(likelihood.expected_parameter_derivatives(*args), in_theta, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["gaussian", "lognormal"])
@pytest.mark.parametrize("power", [1.0, 0.2])
def test_closed_tilted_integrals_equal_quadrature(name, power):
    likelihood, size, ys, _ = CASES[name]
    args = rows(ys, size, 0.7)
    closed, summed = likelihood.tilted(*args, power), tilted(likelihood, *args, power)
    for part in ("log_integral", "first", "second"):
        assert_allclose(getattr(closed, part), getattr(summed, part), rtol=1e-10, atol=1e-10)
    in_theta = tilted_parameter_derivatives(likelihood, *args, power)
    assert_allclose(likelihood.tilted_parameter_derivatives(*args, power), in_theta, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("likelihood", "size", "ys", "scale"), EACH)
def test_nothing_is_nan_at_extremes(likelihood, size, ys, scale):
    for mean in (-700.0, 700.0, 0.0):
        for variance in (0.0, 1e-300, 1e4):
            args = np.array(ys), np.full(len(ys), mean), np.full(len(ys), variance), np.full(len(ys), size)
            for result in (likelihood.expectations(*args), likelihood.tilted(*args)):
                values = [v for name, v in vars(result).items() if name != "error" and v is not None]
                assert not np.isnan(values).any()
            assert not np.isnan(likelihood.expected_parameter_derivatives(*args)).any()
            assert not np.isnan(likelihood.tilted_parameter_derivatives(*args)).any()


def test_a_known_f_has_the_values_at_f():
    for likelihood, size, ys, _ in CASES.values():
        y, mean, variance, sizes = rows(ys, size, 0.0)
        result = likelihood.expectations(y, mean, variance, sizes)
        d = likelihood.derivatives(y, mean, sizes)
        assert_allclose(result.log_density, likelihood.log_density(y, mean, sizes), rtol=1e-12, atol=1e-12)
        assert_allclose(result.first, d.first, rtol=1e-11, atol=1e-12)
        assert_allclose(result.second, d.second, rtol=1e-11, atol=1e-12)


def test_shapes_broadcast():
    y, mean = np.array([0.0, 1.0, 1.0]), np.zeros((2, 1))
    result = lik.Bernoulli().expectations(y, mean, 1.0)
    assert result.first.shape == (2, 3) and lik.Bernoulli().tilted(y, mean, 1.0).second.shape == (2, 3)
    assert lik.Beta(3.0).expected_parameter_derivatives(np.array([0.2, 0.5]), np.zeros((4, 2)), 1.0).shape == (1, 4, 2)


def test_the_zeros_of_phi_stay_off_the_strip():
    """Zeros counted by the argument principle: none within the declared width, two within a little more."""

    def log_derivative(z):  # phi(z) / Phi(z): erfc(x) = e^(-x^2) w(i x) at x = -z / sqrt 2
        return np.sqrt(2 / np.pi) / wofz(-1j * z / np.sqrt(2))

    def zeros_within(height):
        t = np.linspace(-30.0, 30.0, 200_001)
        total = np.trapezoid(log_derivative(t - 1j * height), t) - np.trapezoid(log_derivative(t + 1j * height), t)
        s = np.linspace(-height, height, 20_001)
        total += 1j * np.trapezoid(log_derivative(30.0 + 1j * s), s) - 1j * np.trapezoid(
            log_derivative(-30.0 + 1j * s), s
        )
        return (total / (2j * np.pi)).real

    assert abs(zeros_within(PROBIT_WIDTH - 0.001)) < 1e-3
    assert zeros_within(PROBIT_WIDTH + 0.01) == pytest.approx(2.0, abs=1e-3)


class OwnPoisson(lik.Likelihood):
    """A copy of the Poisson density that declares nothing."""

    def log_density(self, y, f, size=1.0):
        return lik.Poisson().log_density(y, f, size)

    def derivatives(self, y, f, size=1.0):
        return lik.Poisson().derivatives(y, f, size)


class OwnStudent(lik.Likelihood):
    """A copy of a Student-t density that declares no width."""

    log_concave = False
    like = lik.StudentT(0.05, 3.0)

    def log_density(self, y, f, size=1.0):
        return self.like.log_density(y, f, size)

    def derivatives(self, y, f, size=1.0):
        return self.like.derivatives(y, f, size)

    def fisher(self, y, f, size=1.0):
        return self.like.fisher(y, f, size)

    def latent_of_mean(self, mean, size=1.0):
        return mean


class Kinked(lik.Likelihood):
    """Laplace noise: log p has a kink at f = y."""

    def log_density(self, y, f, size=1.0):
        return -np.abs(y - f) - np.log(2.0)

    def derivatives(self, y, f, size=1.0):
        r = np.sign(y - f)
        return lik.Derivatives(r, np.zeros_like(r), np.zeros_like(r))


@pytest.mark.parametrize(
    ("own", "shipped", "ys"), [(OwnPoisson(), lik.Poisson(), [0.0, 4.0, 90.0]), (OwnStudent(), OwnStudent.like, REAL)]
)
def test_a_likelihood_that_declares_nothing_has_the_same_expectations(own, shipped, ys):
    assert own.width is None
    for variance in (0.0, 1e-6, 0.1, 1.0, 10.0):
        args = rows(ys, 1.0, variance)
        for mine, expected in (
            (own.expectations(*args), shipped.expectations(*args)),
            (own.tilted(*args), shipped.tilted(*args)),
        ):
            assert mine.error < 1e-6  # 2e-7 where the largest number of nodes is reached
            for name in vars(mine):
                if name != "error":
                    assert_allclose(getattr(mine, name), getattr(expected, name), rtol=1e-7, atol=1e-7)


def test_a_kink_is_reported_as_an_error():
    y, mean, variance = np.array([0.3, -1.0]), np.array([0.1, 0.2]), np.array([1.0, 2.0])
    result = Kinked().expectations(y, mean, variance)
    expected = []
    for row in zip(y, mean, variance, strict=True):

        def integrand(f, row=row):
            return (
                (-abs(row[0] - f) - np.log(2)) * np.exp(-0.5 * (f - row[1]) ** 2 / row[2]) / np.sqrt(2 * np.pi * row[2])
            )

        expected.append(quad(integrand, row[1] - 15, row[1] + 15, points=list(row[:2]), epsabs=1e-12)[0])
    assert 1e-8 < result.error < 1e-2
    assert_allclose(result.log_density, expected, atol=10 * result.error)
    assert Kinked().tilted(y, mean, variance).error > 1e-8


def test_too_many_nodes_are_reported_as_an_error():
    wide = lik.Beta(50.0).expectations(np.array([0.3]), np.array([0.0]), np.array([1e8]))
    assert 0 < wide.error < 1


def test_both_modes_of_an_outlier_are_seen():
    """A sharp Student-t observation far from a wide prior: log Z is the density of a sum of two errors."""
    likelihood = lik.StudentT(0.02, 2.0)
    for y, sd in ((3.0, 1.0), (6.0, 1.0), (9.0, 1.0), (25.0, 3.0)):
        points = [0.0, y - 0.2, y, y + 0.2]
        expected = quad(
            lambda f, y=y, sd=sd: (
                float(np.exp(likelihood.log_density(y, f) - 0.5 * f**2 / sd**2)) / np.sqrt(2 * np.pi) / sd
            ),
            -12 * sd,
            max(12 * sd, y + 5),
            points=points,
            epsabs=0,
            epsrel=1e-11,
            limit=500,
        )[0]
        actual = likelihood.tilted(np.array([y]), np.array([0.0]), np.array([sd**2])).log_integral[0]
        assert_allclose(actual, np.log(expected), rtol=1e-9)


def test_large_counts_keep_their_digits():
    """Poisson with y = 1e12 and f known up to 1e-6: E log p = log p - rate (e^(v/2) - 1), without cancellation."""
    y, variance = np.array([1e12]), np.array([1e-12])
    mean = np.log(y)
    result = lik.Poisson().expectations(y, mean, variance)
    expected = lik.Poisson().log_density(y, mean) - y * np.expm1(variance / 2)
    assert_allclose(result.log_density, expected, rtol=1e-10)


class WronglyWide(lik.Bernoulli):
    """Declares a width that its poles do not leave it."""

    width = 30.0

    def singular_point(self, y, size=1.0):
        return None


class WrongExpectations(lik.Poisson):
    def expectations(self, y, mean, variance, size=1.0):
        right = super().expectations(y, mean, variance, size)
        return lik.Expectations(right.log_density, right.first, 1.001 * right.second)


def test_the_check_finds_a_wrong_width_and_wrong_expectations():
    with pytest.raises(AssertionError, match="width"):
        check_likelihood(WronglyWide())
    with pytest.raises(AssertionError, match="expectations"):
        check_likelihood(WrongExpectations())
