"""Pivots: the order of largest conditional variance, against brute force."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from knotwise.kernels import Linear, Matern32, SquaredExponential
from knotwise.selection.places import Pivots


def conditional_variance(kernel, X, Z):
    """Variance of f at the rows of X given its values at Z, by a general solve."""
    if not len(Z):
        return kernel.diag(X)
    return kernel.diag(X) - np.einsum("nk,kn->n", kernel(X, Z), np.linalg.solve(kernel(Z, Z), kernel(Z, X)))


def assert_greedy(kernel, X, rows, weights=1.0, given=None, tolerance=1e-7):
    """Each row has, at its turn, the largest weighted variance given those before it."""
    Z = np.empty((0, X.shape[1])) if given is None else given
    for row in rows:
        left = weights * conditional_variance(kernel, X, Z)
        assert left[row] >= left.max() - tolerance * np.max(weights * kernel.diag(X))
        Z = np.vstack([Z, X[row]])


def test_rows_come_in_the_order_of_largest_conditional_variance(kernel, rng):
    X = rng.normal(size=(60, 2))
    rows = Pivots(kernel, X).extend(12)
    assert len(set(rows)) == len(rows)
    assert_greedy(kernel, X, rows)


def test_weights_multiply_the_variances(rng):
    X, kernel = rng.normal(size=(60, 2)), Matern32(1.3, 0.7)
    weights = rng.uniform(0.1, 3.0, 60)
    rows = Pivots(kernel, X, weights).extend(20)
    assert_greedy(kernel, X, rows, weights)
    assert not np.array_equal(rows, Pivots(kernel, X).extend(20))
    assert rows[0] == np.argmax(weights)


def test_a_row_without_weight_is_never_chosen(rng):
    X, kernel = rng.normal(size=(60, 2)), Matern32(1.3, 0.7)
    weights = np.where(np.arange(60) < 30, 0.0, rng.uniform(0.1, 3.0, 60))
    assert_array_equal(np.sort(Pivots(kernel, X, weights).extend(60)), np.arange(30, 60))


@pytest.mark.parametrize("n_given", [1, 7, 80])
def test_given_knots_are_conditioned_on_and_not_returned(n_given, rng):
    X, Z, kernel = rng.normal(size=(60, 2)), rng.normal(size=(n_given, 2)), Matern32(1.3, 0.7)
    pivots = Pivots(kernel, X, 1.0, Z)
    assert_allclose(pivots.c, conditional_variance(kernel, X, Z), atol=1e-6)
    rows = pivots.extend(10)
    assert len(rows) == 10
    assert_greedy(kernel, X, rows, given=Z)


def test_rows_that_are_knots_already_are_not_chosen(rng):
    X, kernel = rng.normal(size=(40, 2)), Matern32(1.0, 0.8)
    rows = Pivots(kernel, X, 1.0, X[:15]).extend(40)
    assert_array_equal(np.sort(rows), np.arange(15, 40))


def test_the_variance_left_is_that_given_the_chosen_rows(rng):
    X, kernel = rng.normal(size=(100, 2)), SquaredExponential(2.0, 0.8)
    pivots = Pivots(kernel, X)
    for n in (1, 5, 20):
        rows = pivots.extend(n)
        assert_allclose(pivots.c, conditional_variance(kernel, X, X[rows]), atol=1e-7)
        assert_array_equal(pivots.c[rows], 0.0)


def test_steps_choose_what_one_call_does(rng):
    X, Z, kernel = rng.normal(size=(300, 2)), rng.normal(size=(5, 2)), Matern32(1.0, 0.5)
    weights = rng.uniform(0.5, 2.0, 300)
    at_once = Pivots(kernel, X, weights, Z).extend(200)
    in_steps = Pivots(kernel, X, weights, Z)
    for n in (1, 2, 50, 70, 70, 30, 129, 200):  # past the room for 64, and past twice that
        rows = in_steps.extend(n)
    assert_array_equal(rows, at_once)


def test_it_stops_where_every_row_is_chosen_or_determined(rng):
    X = rng.normal(size=(25, 2))
    assert_array_equal(np.sort(Pivots(Matern32(1.0, 0.8), X).extend(100)), np.arange(25))
    # a linear kernel on two columns has two independent functions
    pivots = Pivots(Linear(1.0), X)
    assert len(pivots.extend(100)) == 2
    assert len(pivots.extend(100)) == 2
    # a smooth kernel at a long length-scale determines the rest, up to rounding
    assert len(Pivots(SquaredExponential(1.0, 5.0), X).extend(100)) < 25


def test_equal_rows_are_chosen_once(rng):
    distinct = rng.normal(size=(10, 2))
    X = distinct[rng.integers(10, size=300)]
    rows = Pivots(Matern32(1.0, 0.8), X).extend(50)
    assert len(rows) == len(np.unique(X, axis=0)) == len(np.unique(X[rows], axis=0))


def test_nothing_is_asked_for(rng):
    assert len(Pivots(Matern32(1.0, 0.8), rng.normal(size=(5, 2))).extend(0)) == 0


def test_the_order_does_not_depend_on_the_units_of_the_prior(rng):
    X = rng.normal(size=(80, 2))
    rows = Pivots(Matern32(1.0, 0.8), X).extend(30)
    for variance in (1e-12, 1e12):
        assert_array_equal(Pivots(Matern32(variance, 0.8), X).extend(30), rows)
