"""Calibration: data drawn from the model at its true parameters fall into its intervals as often as they say."""

import numpy as np
import pytest
from scipy import stats

from knotwise import GPRegressor
from knotwise.kernels import SquaredExponential
from knotwise.likelihoods import Bernoulli, Gaussian, NegativeBinomial, Poisson
from knotwise.likelihoods.response import predictive_cdf

N_SEEDS = 20
N_TRAIN, N_TEST = 250, 100
KERNEL = SquaredExponential(1.0, 0.5)
KNOTS = np.linspace(-0.3, 4.3, 24)[:, None]  # 0.4 length-scales apart: the residual variance is negligible
MEAN = 0.7


def simulate(likelihood, seed):
    """A function drawn from the prior at training and test rows, and observations at both."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 4, size=(N_TRAIN + N_TEST, 1))
    values, vectors = np.linalg.eigh(KERNEL(X, X))
    f = MEAN + vectors @ (np.sqrt(np.maximum(values, 0)) * rng.standard_normal(len(X)))
    return X, f, likelihood.sample(f, rng)


def fitted(likelihood, X, y, approximation):
    gp = GPRegressor(
        KERNEL, likelihood, approximation, knots=KNOTS, mean=MEAN, optimizer=None, standardize=False, jitter=1e-8
    )
    return gp.fit(X[:N_TRAIN], y[:N_TRAIN])


def coverages(likelihood, kind, approximation, level=0.95):
    """Share of test rows inside their intervals, one for each seed."""
    shares = []
    for seed in range(N_SEEDS):
        X, f, y = simulate(likelihood, seed)
        gp = fitted(likelihood, X, y, approximation)
        low, high = gp.predict_interval(X[N_TRAIN:], level, kind).T
        truth = (f if kind == "latent" else y)[N_TRAIN:]
        shares.append(np.mean((low <= truth) & (truth <= high)))
    return np.array(shares)


def assert_covers(shares, level):
    """Rows of one seed share a function, so only seeds are independent: their spread is the error."""
    error = shares.std(ddof=1) / np.sqrt(len(shares))
    assert abs(shares.mean() - level) < 3 * error, f"{shares.mean():.4f} with a standard error of {error:.4f}"
    assert error < 0.03  # else the test shows nothing


@pytest.mark.parametrize("approximation", ["vfe", "fic"])
@pytest.mark.parametrize(
    "likelihood", [Gaussian(0.1), Poisson(), Bernoulli()], ids=["gaussian", "poisson", "bernoulli"]
)
def test_latent_intervals_hold_the_function_as_often_as_they_say(likelihood, approximation):
    assert_covers(coverages(likelihood, "latent", approximation), 0.95)


@pytest.mark.parametrize("level", [0.5, 0.95])
def test_observation_intervals_of_gaussian_data_hold_them_as_often_as_they_say(level):
    assert_covers(coverages(Gaussian(0.1), "observation", "vfe", level), level)


def test_observation_intervals_of_counts_hold_at_least_their_level():
    """Whole numbers cannot be cut finer: an interval of counts holds its level or a little more."""
    shares = coverages(Poisson(), "observation", "vfe")
    error = shares.std(ddof=1) / np.sqrt(N_SEEDS)
    assert 0.95 - 3 * error < shares.mean() < 0.985


@pytest.mark.parametrize("likelihood", [Poisson(), NegativeBinomial(0.4)], ids=["poisson", "negative-binomial"])
def test_randomised_probability_transforms_of_counts_are_uniform(likelihood):
    """Ten test rows of each of forty functions: few enough to be nearly independent."""
    rng = np.random.default_rng(123)
    pooled = []
    for seed in range(2 * N_SEEDS):
        X, _, y = simulate(likelihood, seed)
        gp = fitted(likelihood, X, y, "vfe")
        X, y = X[N_TRAIN:][:10], y[N_TRAIN:][:10]
        latent = gp.predict_latent(X)
        above, below = (predictive_cdf(likelihood, at, latent.mean, latent.variance, 1.0) for at in (y, y - 1))
        pooled.append(below + rng.random(len(y)) * (above - below))
    assert stats.kstest(np.concatenate(pooled), "uniform").pvalue > 0.01


def test_a_wrong_dispersion_is_seen_by_the_transform():
    """The test above has power: Poisson intervals on negative binomial data fail it clearly."""
    rng = np.random.default_rng(5)
    pooled = []
    for seed in range(N_SEEDS):
        X, _, y = simulate(NegativeBinomial(0.4), seed)
        gp = fitted(Poisson(), X, y, "vfe")
        latent = gp.predict_latent(X[N_TRAIN:])
        above, below = (
            predictive_cdf(Poisson(), at, latent.mean, latent.variance, 1.0) for at in (y[N_TRAIN:], y[N_TRAIN:] - 1)
        )
        pooled.append(below + rng.random(N_TEST) * (above - below))
    assert stats.kstest(np.concatenate(pooled), "uniform").pvalue < 1e-6
