"""The order of the rows never matters: they are sorted by value before anything is drawn at random."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from knotwise import GPClassifier, GPRegressor
from knotwise.data.observations import sorted_order
from knotwise.errors import FitWarning
from knotwise.kernels import SquaredExponential
from knotwise.likelihoods import LIKELIHOODS

SIZES = {"poisson": "exposure", "negative_binomial": "exposure", "binomial": "trials"}


def data_set(likelihood, seed, n=60):
    """Inputs, targets drawn from the likelihood, and what else the rows have."""
    rng = np.random.default_rng([seed, 7])
    X = rng.uniform(-1, 1, size=(n, 2))
    size = {SIZES[likelihood]: rng.integers(1, 6, n).astype(float)} if likelihood in SIZES else {}
    drawn = LIKELIHOODS[likelihood]().start(1.0)
    f = np.sin(3 * X[:, 0]) + X[:, 1]
    y = drawn.sample(f, rng, *size.values())
    y = np.clip(y, 1e-6, 1 - 1e-6) if likelihood == "beta" else y
    return X, y, size | {"sample_weight": rng.choice([0.5, 1.0, 2.0], n)} if seed % 2 else size


def fit(X, y, order, likelihood, kernel, **given):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        gp = GPRegressor(kernel, likelihood, random_state=0, progress=False)
        return gp.fit(X[order], y[order], **{name: values[order] for name, values in given.items()})


def check_same_fit_in_any_order(likelihood, seed, kernel):
    X, y, given = data_set(likelihood, seed)
    orders = np.arange(len(y)), np.random.default_rng(seed).permutation(len(y))
    one, other = (fit(X, y, order, likelihood, kernel, **given) for order in orders)
    assert one.n_knots_ == other.n_knots_ and one.stop_reason_ == other.stop_reason_
    assert type(one.kernel_) is type(other.kernel_) and one.parameters_.names == other.parameters_.names
    assert_allclose(one.log_evidence_, other.log_evidence_, rtol=1e-10)
    assert_allclose(one.parameters_.values, other.parameters_.values, rtol=1e-10)
    for a, b in zip(vars(one.predict_latent(X)).values(), vars(other.predict_latent(X)).values(), strict=True):
        assert_allclose(a, b, rtol=1e-10)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.failure(24)
def test_rows_in_another_order_give_the_same_fit(likelihood):
    """Case 24: other block size or row order."""
    check_same_fit_in_any_order(likelihood, 0, SquaredExponential())


@pytest.mark.parametrize("likelihood", ["gaussian", "bernoulli"])
@pytest.mark.failure(24)
def test_rows_in_another_order_choose_the_same_kernel(likelihood):
    """Case 24: other block size or row order."""
    check_same_fit_in_any_order(likelihood, 0, None)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 10))
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_rows_in_another_order_give_the_same_fit_for_ten_data_sets(likelihood, seed):
    check_same_fit_in_any_order(likelihood, seed, None)


@pytest.mark.slow
def test_labels_in_another_order_give_the_same_probabilities(rng):
    X = rng.uniform(size=(90, 2))
    y = np.array(["a", "b", "c"])[np.digitize(X[:, 0] + 0.1 * rng.normal(size=90), [0.4, 0.7])]
    order = rng.permutation(90)
    one, other = (
        GPClassifier(SquaredExponential(), random_state=0).fit(X[rows], y[rows]) for rows in (np.arange(90), order)
    )
    assert_allclose(one.predict_proba(X), other.predict_proba(X), rtol=1e-10)


def test_rare_events_first_last_or_shuffled_are_predicted_alike():
    rng = np.random.default_rng(1)
    X = rng.uniform(size=(400, 2))
    y = np.zeros(400)
    y[:4] = 1.0  # events first
    orders = [np.arange(400), np.arange(400)[::-1], rng.permutation(400)]
    means = [fit(X, y, order, "bernoulli", SquaredExponential()).predict(X) for order in orders]
    for other in means[1:]:
        assert_allclose(other, means[0], rtol=1e-10)


@given(st.lists(st.tuples(*[st.integers(0, 2)] * 3), min_size=1, max_size=40))
def test_rows_are_sorted_by_the_first_key_then_by_the_next(rows):
    keys = list(np.array(rows, float).T)
    assert_array_equal(sorted_order(keys), np.lexsort(keys[::-1]))
