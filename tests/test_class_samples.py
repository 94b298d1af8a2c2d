"""Samples of the latent functions of a classifier, and how sure it is that a probability exceeds a threshold."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, logit, ndtr, ndtri

from knotwise import GPClassifier
from knotwise.errors import InvalidInputError
from knotwise.kernels import SquaredExponential

#: standard errors that a mean of independent draws is beyond with a chance of 6e-7; each seed is fixed, so a test that
#: passes once passes always
REACH = 5.0


def fitted(labels, link="logit", **options):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 2))
    f = np.column_stack([1.5 * np.sin(2 * X[:, 0]) + X[:, 1], -X[:, 1], X[:, 0]])[:, : len(labels)]
    y = np.array(labels)[np.argmax(f + rng.gumbel(size=f.shape), axis=1)]
    options = {
        "kernel": SquaredExponential(4.0, 0.8, column_scales="standard"),
        "knots": X[:12],
        "optimizer": None,
        "random_state": 0,
    } | options
    return GPClassifier(link=link, **options).fit(X, y)


@pytest.fixture(scope="module")
def two():
    return fitted(["dry", "wet"])


@pytest.fixture(scope="module")
def three():
    return fitted(["x", "y", "z"])


X_NEW = np.random.default_rng(1).normal(size=(6, 2))
N = 10_000


def assert_drawn_from(samples, mean, covariance):
    """Means and covariances of draws [N, n] are those of a normal law, within five standard errors."""
    error = REACH * np.sqrt(np.diag(covariance) / len(samples))
    assert (np.abs(samples.mean(0) - mean) < error).all()
    spread = np.outer(np.diag(covariance), np.diag(covariance)) + covariance**2  # N times the variance of a covariance
    assert (np.abs(np.cov(samples.T) - covariance) < REACH * np.sqrt(spread / len(samples))).all()


def test_samples_of_two_classes_have_the_mean_and_covariance_of_the_latent_function(two):
    samples = two.sample_latent(X_NEW, N, random_state=0)
    assert_drawn_from(samples, two.predict_latent(X_NEW).mean, two.models_[0]._latent_covariance(X_NEW))


def test_samples_of_several_classes_are_those_of_each_and_independent(three):
    samples = three.sample_latent(X_NEW, N, random_state=0)
    assert samples.shape == (N, 6, 3)
    for k, (model, latent) in enumerate(zip(three.models_, three.predict_latent(X_NEW), strict=True)):
        assert_drawn_from(samples[:, :, k], latent.mean, model._latent_covariance(X_NEW))
    between = np.corrcoef(samples[:, 0].T)
    assert (np.abs(between[np.triu_indices(3, 1)]) < REACH / np.sqrt(N)).all()
    assert_array_equal(samples, three.sample_latent(X_NEW, N, random_state=0))


@pytest.mark.parametrize(("link", "inverse"), [("logit", logit), ("probit", ndtri)])
@pytest.mark.parametrize("threshold", [0.05, 0.5, 0.9])
def test_exceedance_of_two_classes_is_the_tail_of_a_normal_law(link, inverse, threshold):
    gp = fitted(["dry", "wet"], link)
    f = gp.predict_latent(X_NEW)
    wet = ndtr((f.mean - inverse(threshold)) / f.std)
    assert_allclose(gp.predict_exceedance(X_NEW, threshold), wet, rtol=1e-12)
    assert_allclose(gp.predict_exceedance(X_NEW, threshold, label="wet"), wet, rtol=1e-12)
    dry = ndtr((-f.mean - inverse(threshold)) / f.std)  # 1 - p > t is -f > inverse(t)
    assert_allclose(gp.predict_exceedance(X_NEW, threshold, label="dry"), dry, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("threshold", [0.2, 0.5, 0.8])
def test_exceedance_of_several_classes_is_the_share_of_draws_above(three, threshold):
    rng = np.random.default_rng(2)
    f = np.stack([latent.mean + latent.std * rng.normal(size=(N, 6)) for latent in three.predict_latent(X_NEW)], -1)
    p = expit(f) / expit(f).sum(-1, keepdims=True)
    share = (p > threshold).mean(0)
    found = three.predict_exceedance(X_NEW, threshold, n_samples=N, random_state=0)
    error = np.sqrt(2 * np.maximum(share * (1 - share), 1 / N) / N)  # of the difference of two such shares
    assert (np.abs(found - share) < REACH * error).all()
    few = three.predict_exceedance(X_NEW, threshold, random_state=0)
    assert np.abs(few - found).max() < REACH * 0.011


def test_at_most_one_of_several_classes_is_above_one_half(three):
    above = three.predict_exceedance(X_NEW, 0.5, random_state=0)
    assert (above.sum(1) < 1 + REACH * 0.011).all() and (above > 0).all()
    assert (three.predict_exceedance(X_NEW, 0.6, random_state=0) < above).all()
    assert_array_equal(three.predict_exceedance(X_NEW, 0.5, label="y", random_state=0), above[:, 1])


def test_exceedance_of_a_row_does_not_depend_on_the_others(three):
    many = np.random.default_rng(3).normal(size=(150, 2))
    together = three.predict_exceedance(many, 0.4, n_samples=50, random_state=0)
    alone = [three.predict_exceedance(many[i : i + 1], 0.4, n_samples=50, random_state=0)[0] for i in (0, 70, 149)]
    assert_allclose(together[[0, 70, 149]], alone, rtol=1e-10)


def test_exceedance_of_partitions_is_that_of_rows(two, three):
    dask_array = pytest.importorskip("dask.array")
    lazy = dask_array.from_array(X_NEW, chunks=(4, 2))
    assert_allclose(two.predict_exceedance(lazy, 0.4).compute(scheduler="sync"), two.predict_exceedance(X_NEW, 0.4))
    found = three.predict_exceedance(lazy, 0.4, n_samples=2_000, random_state=0).compute(scheduler="sync")
    assert np.abs(found - three.predict_exceedance(X_NEW, 0.4, n_samples=2_000, random_state=1)).max() < REACH * 0.016


@pytest.mark.parametrize("threshold", [0, 1, 90, -0.1, np.nan, "high", None, True])
def test_a_threshold_that_is_no_probability_is_refused(two, threshold):
    with pytest.raises(InvalidInputError, match=r"`threshold` is .* between 0 and 1"):
        two.predict_exceedance(X_NEW, threshold)


def test_a_label_that_is_no_class_is_refused(two):
    with pytest.raises(InvalidInputError, match=r"`label` is 'moist', but must be one of the classes \['dry', 'wet'\]"):
        two.predict_exceedance(X_NEW, 0.5, label="moist")
