"""Predictions on the response scale: densities, moments, distribution functions and intervals against quadrature."""

from functools import cache, partial
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.integrate import quad
from scipy.special import ndtr

from knotwise import GPRegressor
from knotwise import likelihoods as lik
from knotwise.kernels import Matern32
from knotwise.likelihoods import response
from zero_inflated import ZeroInflated

VARIANCES = [1e-4, 1e-2, 0.3, 4.0, 25.0]

# a likelihood, the size of each row, and observations with the mean of f under which they are seen
CASES = {
    "gaussian": (lik.Gaussian(0.2), 1.0, [(0.3, 0.0), (-4.0, 1.0)]),
    "bernoulli": (lik.Bernoulli(), 1.0, [(0.0, -8.0), (1.0, -8.0), (1.0, 0.3)]),
    "probit": (lik.Bernoulli("probit"), 1.0, [(0.0, -5.0), (1.0, -5.0), (1.0, 0.3)]),
    "binomial": (lik.Binomial(), 40.0, [(0.0, -2.0), (40.0, -2.0), (17.0, 0.5), (39.0, -4.0)]),
    "poisson": (lik.Poisson(), 1.0, [(0.0, 3.0), (0.0, -5.0), (200.0, 1.0), (3.0, 1.0)]),
    "poisson-exposure": (lik.Poisson(), 250.0, [(0.0, -2.0), (180.0, 0.0)]),
    "poisson-large": (lik.Poisson(), 1.0, [(1e6, 13.0), (1e6, 8.0), (1e4, 0.0)]),
    "negative-binomial": (lik.NegativeBinomial(0.4), 2.0, [(0.0, 3.0), (200.0, 1.0), (1e6, 9.0)]),
    "zero-inflated-poisson": (lik.ZeroInflatedPoisson(0.3), 2.0, [(0.0, 3.0), (0.0, -4.0), (200.0, 1.0)]),
    "zero-inflated-negative-binomial": (
        lik.ZeroInflatedNegativeBinomial(0.4, 0.3),
        2.0,
        [(0.0, 3.0), (200.0, 1.0), (1e6, 9.0)],
    ),
    "negative-binomial-nearly-poisson": (lik.NegativeBinomial(1e-5), 1.0, [(0.0, 3.0), (2000.0, 5.0)]),
    "gamma": (lik.Gamma(2.5), 1.0, [(1e-3, 0.0), (0.7, 0.3), (500.0, 0.0)]),
    "gamma-sharp": (lik.Gamma(1e3), 1.0, [(0.7, 0.3), (50.0, 0.0)]),
    "exponential": (lik.Exponential(), 1.0, [(1e-3, 0.0), (0.7, 0.3), (500.0, 0.0)]),
    "weibull": (lik.Weibull(1.7), 1.0, [(1e-3, 0.0), (0.7, 0.3), (500.0, 0.0)]),
    "lognormal": (lik.LogNormal(0.3), 1.0, [(1e-3, 0.0), (0.7, 0.3), (500.0, 0.0)]),
    "beta": (lik.Beta(6.0), 1.0, [(0.4, 0.0), (1e-6, 0.0), (1 - 1e-6, -2.0), (0.9, -4.0)]),
    "beta-sharp": (lik.Beta(500.0), 1.0, [(0.4, 0.0), (1e-4, 0.0), (0.999, -2.0)]),
    "student-t": (lik.StudentT(0.5, 4.0), 1.0, [(0.3, 0.0), (6.0, 0.0), (-30.0, 0.0)]),
    "student-t-sharp": (lik.StudentT(0.05, 4.0), 1.0, [(0.3, 0.0), (2.0, 0.0), (-30.0, 0.0)]),
    "cauchy": (lik.StudentT(0.2, 1.0), 1.0, [(0.3, 0.0), (3.0, 0.0)]),
}
EACH = [pytest.param(*case, id=name) for name, case in CASES.items()]
CONDITIONAL_LAWS = {  # as functions of f, from SciPy
    "gaussian": lambda f: stats.norm(f, np.sqrt(0.2)),
    "bernoulli": lambda f: stats.bernoulli(1 / (1 + np.exp(-f))),
    "binomial": lambda f: stats.binom(40, 1 / (1 + np.exp(-f))),
    "poisson": lambda f: stats.poisson(np.exp(f)),
    "negative-binomial": lambda f: stats.nbinom(2.5, 2.5 / (2.5 + 2 * np.exp(f))),
    "zero-inflated-poisson": lambda f: ZeroInflated(0.3, stats.poisson(2 * np.exp(f))),
    "zero-inflated-negative-binomial": lambda f: ZeroInflated(0.3, stats.nbinom(2.5, 2.5 / (2.5 + 2 * np.exp(f)))),
    "gamma": lambda f: stats.gamma(2.5, scale=np.exp(f) / 2.5),
    "exponential": lambda f: stats.expon(scale=np.exp(f)),
    "weibull": lambda f: stats.weibull_min(1.7, scale=np.exp(f)),
    "lognormal": lambda f: stats.lognorm(np.sqrt(0.3), scale=np.exp(f)),
    "beta": lambda f: stats.beta(6 / (1 + np.exp(-f)), 6 / (1 + np.exp(f))),
    "student-t": lambda f: stats.t(4.0, f, 0.5),
}


gauss_legendre = cache(np.polynomial.legendre.leggauss)


def integrate(function, breaks):
    """Integrate over the pieces between the breaks, by rules of two orders that must agree."""
    breaks = np.unique(breaks)
    middle, half = (breaks[1:] + breaks[:-1]) / 2, (breaks[1:] - breaks[:-1]) / 2
    coarse, fine = (
        float((half[:, None] * weights * function(middle[:, None] + half[:, None] * nodes)).sum())
        for nodes, weights in map(gauss_legendre, (48, 64))
    )
    assert_allclose(coarse, fine, rtol=1e-10, atol=1e-12)
    return fine


def about(centre, width):
    """Points around a peak, closer near it."""
    steps = 2.0 ** np.arange(-1, 8)
    return centre + width * np.concatenate([-steps, [0.0], steps])


def breakpoints(likelihood, y, mean, variance, size):
    """Points on the scale of N(f), on that of the likelihood about the f that explains y best, and between them."""
    sd = float(np.sqrt(variance))
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        best = float(np.clip(likelihood.latent_of_mean(y, size), mean - 12 * sd, None))
        best = mean + 12 * sd if not np.isfinite(best) else best
        width = float(1 / np.sqrt(np.maximum(likelihood.fisher(np.asarray(y), np.asarray(best), size), 1 / variance)))
    return np.concatenate([mean + sd * np.arange(-12.0, 12.1), about(best, width), np.linspace(mean, best, 20)])


def log_density_by_quadrature(likelihood, y, mean, variance, size):
    """log of the integral of p(y | f) N(f), with the largest value of the integrand taken out."""

    def log_integrand(f):
        log_normal = -0.5 * ((f - mean) ** 2 / variance + np.log(2 * np.pi * variance))
        return likelihood.log_density(np.asarray(y), np.asarray(f), size) + log_normal

    breaks = np.unique(breakpoints(likelihood, y, mean, variance, size))
    for _ in range(6):  # refine where the integrand is large, until its peaks are resolved
        grid = np.unique(np.concatenate([np.linspace(a, b, 12) for a, b in pairwise(breaks)]))
        values = log_integrand(grid)
        near = np.flatnonzero(values > values.max() - 60)
        lowest, highest = max(near[0] - 1, 0), min(near[-1] + 1, len(grid) - 1)
        breaks = np.linspace(grid[lowest], grid[highest], 60)
    top = values.max()
    peak = float(likelihood.latent_of_mean(y, size)) if np.isfinite(likelihood.latent_of_mean(y, size)) else mean
    width = float(1 / np.sqrt(likelihood.fisher(np.asarray(y), np.asarray(peak), size) + 1 / variance))
    breaks = np.clip(np.concatenate([breaks, about(peak, width)]), breaks[0], breaks[-1])
    return top + np.log(integrate(lambda f: np.exp(log_integrand(f) - top), breaks))


def rows_of(observations):
    y, mean = np.array(observations).T
    return y, mean


@pytest.mark.parametrize("variance", VARIANCES)
@pytest.mark.parametrize(("likelihood", "size", "observations"), EACH)
def test_the_log_predictive_density_is_the_integral(likelihood, size, observations, variance):
    y, mean = rows_of(observations)
    found = likelihood.log_predictive_density(y, mean, np.full(len(y), variance), size)
    expected = [log_density_by_quadrature(likelihood, *pair, variance, size) for pair in observations]
    assert_allclose(found, expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("variance", VARIANCES)
@pytest.mark.parametrize(
    ("likelihood", "size"), [(lik.Poisson(), 3.0), (lik.NegativeBinomial(0.4), 1.0), (lik.Binomial(), 9.0)]
)
def test_the_predictive_probabilities_of_counts_sum_to_one(likelihood, size, variance):
    top = 9 if size == 9.0 else 2000
    mean = -2.0
    y = np.arange(0, top + 1.0)
    total = np.exp(likelihood.log_predictive_density(y, np.full(len(y), mean), np.full(len(y), variance), size)).sum()
    above = 1 - response.predictive_cdf(likelihood, np.array([top]), np.array([mean]), np.array([variance]), size)[0]
    assert_allclose(total + above, 1.0, atol=1e-4)  # as good as the distribution function


@pytest.mark.parametrize("variance", [1e-4, 1e-2, 0.3, 1.0])
@pytest.mark.parametrize("mean", [-2.0, 0.4, 2.0])
@pytest.mark.parametrize("name", CONDITIONAL_LAWS)
def test_the_moments_are_integrals_of_the_conditional_ones(name, mean, variance):
    likelihood, size, _ = CASES[name]
    law, sd = CONDITIONAL_LAWS[name], np.sqrt(variance)
    breaks = mean + sd * np.arange(-16.0, 16.1, 2.0)

    def expectation(function):
        return integrate(lambda f: function(f) * stats.norm.pdf(f, mean, sd), breaks)

    first = expectation(lambda f: law(f).mean())
    second = expectation(lambda f: law(f).var() + (law(f).mean() - first) ** 2)
    found = likelihood.response_moments(np.array([mean]), np.array([variance]), size)
    assert_allclose(np.concatenate(found), [first, second], rtol=1e-7)


@pytest.mark.parametrize("variance", VARIANCES)
@pytest.mark.parametrize(("likelihood", "size", "observations"), EACH)
def test_the_predictive_distribution_function_is_the_integral(likelihood, size, observations, variance):
    y, mean = rows_of(observations)
    sd = np.sqrt(variance)
    found = response.predictive_cdf(likelihood, y, mean, np.full(len(y), variance), size)
    expected = []
    for at, centre in observations:
        breaks = np.clip(breakpoints(likelihood, at, centre, variance, size), centre - 12 * sd, centre + 12 * sd)
        z = np.asarray(at)

        def integrand(f, z=z, centre=centre):
            return likelihood.cdf(z, f, size) * stats.norm.pdf(f, centre, sd)

        expected.append(integrate(integrand, breaks))
    assert_allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize("p", [0.025, 0.5, 0.975])
@pytest.mark.parametrize("variance", [1e-4, 0.3, 4.0])
@pytest.mark.parametrize("own", [True, False], ids=["own", "generic"])
@pytest.mark.parametrize(("likelihood", "size", "observations"), EACH)
def test_a_quantile_is_where_the_distribution_function_reaches_its_level(
    likelihood, size, observations, own, variance, p
):
    _, mean = rows_of(observations)
    variance = np.full(len(mean), variance)
    quantile = likelihood.predictive_quantile if own else partial(response.predictive_quantile, likelihood)
    at = quantile(p, mean, variance, size)
    cdf = partial(response.predictive_cdf, likelihood, mean=mean, variance=variance, size=size)
    if likelihood.discrete:
        assert_array_equal(at, np.floor(at))
        assert (at >= 0).all()
        assert (cdf(at) >= p).all()
        assert (cdf(at - 1) < p).all()
    else:
        # a beta variable with a tiny shape is below any number
        inside = (at > 1e-60) | (likelihood.support()[0] < 0)
        assert inside.any()
        assert_allclose(cdf(at)[inside], p, atol=1e-6)
        assert (cdf(at)[~inside] >= p - 1e-6).all()


@pytest.mark.parametrize("level", [0.5, 0.95])
def test_the_quantiles_of_a_lognormal_are_its_closed_form(level):
    mean, variance = np.array([-3.0, 0.0, 6.0]), np.array([0.01, 1.0, 4.0])
    found = response.predictive_quantile(lik.LogNormal(0.3), level, mean, variance, 1.0)
    expected = stats.lognorm(np.sqrt(0.3 + variance), scale=np.exp(mean)).ppf(level)
    assert_allclose(found, expected, rtol=1e-10)
    assert_allclose(lik.LogNormal(0.3).predictive_quantile(level, mean, variance), expected, rtol=1e-12)


# -- the estimator --------------------------------------------------------------------------------------------


def fitted(likelihood, nugget=0.0, **data):
    """A model at given parameters, and new rows."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(60, 1))
    size = data.get("exposure", data.get("trials", 1.0))
    y = likelihood.sample(0.5 + np.sin(2 * X[:, 0]), rng, size)
    gp = GPRegressor(
        Matern32(1.0, 1.0), likelihood, "fic", knots=np.linspace(-2, 2, 9)[:, None], mean=0.5, nugget=nugget,
        optimizer=None, standardize=False,
    )  # fmt: skip
    return gp.fit(X, y, **data), np.linspace(-3, 3, 13)[:, None]


def noisy(likelihood):
    return 0.0 if likelihood.conjugate else 0.2


LIKELIHOODS = {name: CASES[name][0] for name in CONDITIONAL_LAWS}


@pytest.mark.parametrize("likelihood", LIKELIHOODS.values(), ids=LIKELIHOODS)
def test_the_three_kinds_of_interval_agree_with_their_laws(likelihood):
    nugget = noisy(likelihood)
    gp, X_new = fitted(likelihood, nugget)
    latent = gp.predict_latent(X_new)
    for level in (0.5, 0.95):
        z = stats.norm.ppf(0.5 + level / 2)
        ends = np.column_stack([latent.mean - z * latent.std, latent.mean + z * latent.std])
        assert_allclose(gp.predict_interval(X_new, level, "latent"), ends, rtol=1e-10)
        assert_allclose(
            gp.predict_interval(X_new, level, "mean"), likelihood.conditional_mean(ends), rtol=1e-10, atol=1e-12
        )
        low, high = gp.predict_interval(X_new, level, "observation").T
        variance = latent.variance + nugget
        below = response.predictive_cdf(likelihood, low, latent.mean, variance, 1.0)
        above = response.predictive_cdf(likelihood, high, latent.mean, variance, 1.0)
        if likelihood.discrete:
            assert (below >= 0.5 - level / 2).all() and (above >= 0.5 + level / 2).all()
            assert_array_equal(np.stack([low, high]), np.floor([low, high]))
        else:
            assert_allclose(below, 0.5 - level / 2, atol=1e-4)
            assert_allclose(above, 0.5 + level / 2, atol=1e-4)


@pytest.mark.parametrize("likelihood", LIKELIHOODS.values(), ids=LIKELIHOODS)
def test_the_estimators_predictions_are_the_likelihoods_with_the_nugget(likelihood, rng):
    nugget = noisy(likelihood)
    gp, X_new = fitted(likelihood, nugget)
    latent = gp.predict_latent(X_new)
    mean, std = gp.predict(X_new, return_std=True)
    Ey, Vy = likelihood.response_moments(latent.mean, latent.variance + nugget)
    assert_allclose(mean, Ey, rtol=1e-10)
    assert_allclose(std, np.sqrt(Vy), rtol=1e-10)
    y = likelihood.sample(latent.mean, rng)
    expected = [
        log_density_by_quadrature(likelihood, *row, 1.0)
        for row in zip(y, latent.mean, latent.variance + nugget, strict=True)
    ]
    assert_allclose(gp.log_predictive_density(X_new, y), expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("likelihood", LIKELIHOODS.values(), ids=LIKELIHOODS)
def test_exceedance_is_the_posterior_probability_that_the_mean_is_above(likelihood):
    gp, X_new = fitted(likelihood, noisy(likelihood))
    latent = gp.predict_latent(X_new)
    threshold = float(likelihood.conditional_mean(np.array(0.8)))
    found = gp.predict_exceedance(X_new, threshold)
    expected = [
        quad(lambda f, m=m, s=s: stats.norm.pdf(f, m, s), 0.8, max(0.8, m) + 12 * s, points=[max(0.8, m)])[0]
        for m, s in zip(latent.mean, latent.std, strict=True)
    ]
    assert_allclose(found, expected, atol=1e-8)
    # the same from the interval: the mean exceeds its own lower end with probability 0.975
    low = gp.predict_interval(X_new[:1], 0.95, "mean")[0, 0]
    assert_allclose(gp.predict_exceedance(X_new[:1], low), 0.975, atol=1e-7)


@pytest.mark.parametrize("threshold", [0.0, -1.0])
def test_a_rate_always_exceeds_zero(threshold):
    gp, X_new = fitted(lik.Poisson())
    assert_array_equal(gp.predict_exceedance(X_new, threshold), 1.0)


def test_a_probability_exceeds_no_threshold_of_one():
    gp, X_new = fitted(lik.Bernoulli())
    assert_array_equal(gp.predict_exceedance(X_new, 1.0), 0.0)
    assert_array_equal(gp.predict_exceedance(X_new, 0.0), 1.0)


@pytest.mark.parametrize("likelihood", LIKELIHOODS.values(), ids=LIKELIHOODS)
def test_the_median_of_the_mean_response_splits_its_posterior(likelihood):
    gp, X_new = fitted(likelihood, noisy(likelihood))
    median = gp.predict_median(X_new)
    assert_allclose(median, likelihood.conditional_mean(gp.predict_latent(X_new).mean), rtol=1e-12)
    each = [gp.predict_exceedance(X_new[i : i + 1], median[i])[0] for i in range(len(X_new))]
    assert_allclose(each, 0.5, atol=1e-8)


def test_the_nugget_widens_observations_and_nothing_else():
    """The same posterior of f with and without it, as a change of `nugget_` after the fit shows."""
    gp, X_new = fitted(lik.Poisson(), 0.4)
    kinds = ("latent", "mean", "observation")
    with_nugget = {kind: gp.predict_interval(X_new, kind=kind) for kind in kinds}
    mean, std = gp.predict(X_new, return_std=True)
    gp.nugget_ = 0.0
    without = {kind: gp.predict_interval(X_new, kind=kind) for kind in kinds}
    for kind in ("latent", "mean"):
        assert_allclose(without[kind], with_nugget[kind], rtol=1e-10)
    width = {name: np.diff(ends["observation"])[:, 0] for name, ends in (("with", with_nugget), ("without", without))}
    assert (width["with"] >= width["without"]).all() and (width["with"] > width["without"]).any()
    mean_without, std_without = gp.predict(X_new, return_std=True)
    assert_allclose(mean, mean_without * np.exp(0.2), rtol=1e-10)  # E e^(f + e) = E e^f e^(nugget / 2)
    assert (std > std_without).all()


def test_counts_of_one_unit_of_exposure_are_a_rate():
    rng = np.random.default_rng(0)
    exposure = rng.uniform(0.5, 20, 60)
    gp, X_new = fitted(lik.Poisson(), 0.1, exposure=exposure)
    rate = gp.predict(X_new, exposure=1)
    assert_allclose(gp.predict(X_new, exposure=7.0), 7 * rate, rtol=1e-12)
    assert_allclose(gp.predict(X_new, exposure=np.full(13, 7.0)), 7 * rate, rtol=1e-12)
    latent = gp.predict_latent(X_new)
    assert_allclose(rate, np.exp(latent.mean + (latent.variance + 0.1) / 2), rtol=1e-12)
    assert_allclose(gp.predict_interval(X_new, kind="mean", exposure=7.0), 7 * gp.predict_interval(X_new, kind="mean"))
    assert_allclose(gp.predict_exceedance(X_new, 7.0, exposure=7.0), gp.predict_exceedance(X_new, 1.0), rtol=1e-10)
    assert_allclose(gp.predict_median(X_new, exposure=7.0), 7 * gp.predict_median(X_new), rtol=1e-12)
    y = rng.poisson(7 * rate).astype(float)
    shifted = lik.Poisson().log_predictive_density(y, latent.mean + np.log(7), latent.variance + 0.1)
    assert_allclose(gp.log_predictive_density(X_new, y, exposure=7.0), shifted, rtol=1e-9)
    low, high = gp.predict_interval(X_new, exposure=7.0).T
    assert ((low <= 7 * rate) & (7 * rate <= high)).all()


def test_successes_of_one_trial_are_a_probability():
    trials = np.random.default_rng(0).integers(1, 30, 60).astype(float)
    gp, X_new = fitted(lik.Binomial(), trials=trials)
    share = gp.predict(X_new, trials=1)
    assert ((share > 0) & (share < 1)).all()
    assert_allclose(gp.predict(X_new, trials=25), 25 * share, rtol=1e-12)
    interval = gp.predict_interval(X_new, trials=25)
    assert ((interval >= 0) & (interval <= 25)).all()
    one = gp.predict_interval(X_new, trials=1)
    assert set(np.unique(one)) <= {0.0, 1.0}


def test_the_variance_of_a_heavy_tail_is_infinite_not_nan():
    gp, X_new = fitted(lik.StudentT(0.5, 1.5))
    mean, std = gp.predict(X_new, return_std=True)
    assert np.isfinite(mean).all() and np.isposinf(std).all()
    assert np.isfinite(gp.predict_interval(X_new)).all()


def test_samples_of_the_latent_function_have_its_law():
    gp, X_new = fitted(lik.Poisson(), 0.3)
    samples = gp.sample_latent(X_new, 20_000, random_state=0)
    latent = gp.predict_latent(X_new)
    assert_allclose(samples.mean(0), latent.mean, atol=5 * latent.std.max() / np.sqrt(20_000))
    assert_allclose(samples.var(0), latent.variance, rtol=5 * np.sqrt(2 / 20_000))
    u = ndtr((samples[:, 6] - latent.mean[6]) / latent.std[6])
    assert stats.kstest(u, "uniform").pvalue > 1e-3
