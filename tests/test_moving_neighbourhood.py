"""Neighbours of new rows come and go without a jump, and their variance is that of the estimate that is made."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from knotwise.evidence import Jitter, Model, Rows, full_evidence, sparse_evidence
from knotwise.evidence.residual import vecchia_ordering
from knotwise.kernels import Matern32, SquaredExponential
from knotwise.likelihoods import Gaussian
from knotwise.means import Linear, Zero
from knotwise.posterior.exact import ExactPosterior
from knotwise.posterior.vecchia import VecchiaPosterior, VecchiaState
from knotwise.testing import check_posterior


def drawn(X, kernel, noise, seed=0):
    rng = np.random.default_rng(seed)
    C = kernel(X, X) + 1e-9 * np.eye(len(X))
    y = np.linalg.cholesky(C) @ rng.normal(size=len(X)) + np.sqrt(noise) * rng.normal(size=len(X))
    return Rows(X, y, None, np.empty((len(X), 0)))


def fitted(rows, kernel, noise, *, m=10, n_predicting=20, n_knots=12, mean=None, knots=None):
    mean = mean or Zero()
    rows = replace(rows, basis=mean.basis(rows.X))
    model = Model(kernel, Gaussian(noise), mean)
    ordering = vecchia_ordering(kernel, rows, m, np.random.default_rng(0))
    knots = rows.X[:: -(-len(rows) // n_knots)] if knots is None else knots
    rows, near = rows[ordering.rows], replace(model, residual=ordering.residual)
    state = sparse_evidence(near, rows, knots, jitter=Jitter(1e-8, rows.X[:1]), gradient=False).state
    return VecchiaPosterior(VecchiaState.of(state, rows, n_predicting))


def places(name):
    """Rows, and a line through them."""
    rng = np.random.default_rng(4)
    if (
        name == "lattice"
    ):  # along a row of it, through its points and the middles of its edges, where rows are equally far
        X = np.stack(np.meshgrid(*2 * [np.arange(20) / 20]), -1).reshape(-1, 2)
        return X, (np.array([0.2, 0.5]), np.array([0.7, 0.5]))
    if name == "lattice, aslant":
        X = np.stack(np.meshgrid(*2 * [np.arange(20) / 20]), -1).reshape(-1, 2)
        return X, (np.array([0.2, 0.2]), np.array([0.7, 0.7]))
    if name == "repeated":  # more rows at a place than a new row has neighbours, among others
        X = np.vstack([np.repeat(rng.uniform(size=(12, 2)), 30, axis=0), rng.uniform(size=(120, 2))])
        return X, (np.array([0.1, 0.3]), np.array([0.9, 0.6]))
    return rng.uniform(size=(400, 8 if name == "8 columns" else 2)), (
        np.full(8 if name == "8 columns" else 2, 0.3),
        0.7,
    )


def swaps(points, line, n_neighbors, width, n_pieces=200):
    """Pairs of places on a line, nearer than `width`, between which the nearest `n_neighbors` points are others."""
    start, stop = line

    def at(t):
        return start + t[:, None] * (stop - start)

    def nearest(t):
        distance = ((at(t)[:, None] - points) ** 2).sum(2)
        return np.sort(np.argsort(distance, axis=1, kind="stable")[:, :n_neighbors], axis=1)

    t = np.linspace(0, 1, n_pieces + 1)
    low, high = t[:-1].copy(), t[1:].copy()
    changed = (nearest(low) != nearest(high)).any(1)
    low, high = low[changed], high[changed]
    while (high - low).max() * np.linalg.norm(stop - start) > width:
        middle = 0.5 * (low + high)
        below = (nearest(low) != nearest(middle)).any(1)
        low, high = np.where(below, low, middle), np.where(below, middle, high)
    return at(low), at(high)


@pytest.mark.parametrize("name", ["random", "lattice", "lattice, aslant", "repeated", "8 columns"])
@pytest.mark.parametrize("kernel", [Matern32(1.0, 0.4), SquaredExponential(1.0, 0.4)], ids=["matern32", "se"])
def test_predictions_are_continuous_where_neighbours_change(name, kernel):
    """By at most 5 standard deviations in a length-scale more than those of the exact GP, over 1e-6 and 1e-8 of one.

    With a fixed number of whole neighbours they jump, whatever the distance.
    """
    X, line = places(name)
    noise = 0.05
    posterior = fitted(drawn(X, kernel, noise), kernel, noise)
    rows = replace(posterior.rows, noise_variance=None)
    exact = ExactPosterior(full_evidence(Model(kernel, Gaussian(noise), Zero()), rows, gradient=False).state)
    for n_neighbors in (16, 24, 25):  # whole weights, weights, and the first row that is left out
        for width in (1e-6, 1e-8):
            one, other = swaps(np.unique(X, axis=0), line, n_neighbors, 0.4 * width)
            assert len(one) > 20
            there, back, true, truly = (of.latent(some) for of in (posterior, exact) for some in (one, other))
            for quantity in ("mean", "variance"):
                changes = (getattr(b, quantity) - getattr(a, quantity) for a, b in ((there, back), (true, truly)))
                assert np.abs(np.subtract(*changes)).max() < 5 * width
    whole = [posterior.see(some, posterior.places.ranking(some, 25)[0]) for some in (one, other)]
    jumps = np.subtract(*(seen.V @ posterior.state.gamma + seen.near for seen in whole))
    assert name == "repeated" or np.abs(jumps).max() > 1e-4


def test_the_variance_is_never_below_that_with_all_rows():
    """Residuals given knots: the variance of an estimate from some rows is at least that of the best from all."""
    X, _ = places("random")
    kernel = SquaredExponential(1.0, 0.3)
    posterior = fitted(drawn(X, kernel, 0.01), kernel, 0.01)
    everyone = VecchiaPosterior(replace(posterior.state, n_predicting=len(X)))
    new = np.random.default_rng(1).uniform(-0.2, 1.2, (30, 2))
    some, least = (of.residual_variance(new) for of in (posterior, everyone))
    assert (some >= least - 1e-12).all()
    # nor is it below that of the best estimate from the rows that have a weight
    weighted = posterior.see(new, posterior.ranking(new, 24)[0]).residual
    assert (some >= weighted - 1e-12).all()
    assert (some <= posterior.see(new, posterior.ranking(new, 16)[0]).residual + 1e-3).all()


def test_the_variance_is_that_of_the_error_of_the_estimate():
    """Knots far away say nothing: the mean is A'r, with var(f - A'r) under the prior, whatever weights have made A."""
    X, _ = places("random")
    X, kernel, noise = X[:150], Matern32(1.0, 0.4), 0.05
    posterior = fitted(drawn(X, kernel, noise), kernel, noise, knots=np.full((1, 2), 1e3))
    new, N = np.random.default_rng(1).uniform(size=(30, 2)), len(X)
    A = np.column_stack([VecchiaPosterior(replace(posterior.state, r=e)).latent(new).mean for e in np.eye(N)])
    X = posterior.rows.X
    error = kernel(new) - A @ kernel(X, new) - kernel(new, X) @ A.T + A @ (kernel(X) + noise * np.eye(N)) @ A.T
    assert_allclose(posterior.latent(new).variance, error.diagonal(), rtol=1e-9)
    assert_allclose(posterior.covariance(new), error, rtol=1e-9, atol=1e-10)
    assert ((A != 0).sum(1) == 24).all()
    best = 1.0 - np.einsum("in,ni->i", kernel(new, X), np.linalg.solve(kernel(X) + noise * np.eye(N), kernel(X, new)))
    assert (error.diagonal() > best).all() and (error.diagonal() < 1.1 * best).all()


def test_equal_rows_are_one_neighbour_that_knows_what_they_say():
    """The mean of the targets at a place, with their noise over their number: the same posterior."""
    X = places("repeated")[0][::4]
    kernel, noise = Matern32(1.0, 0.4), 0.5
    rows = drawn(X, kernel, noise)
    different, number = np.unique(X, axis=0, return_inverse=True)
    count = np.bincount(number.ravel())
    y = np.bincount(number.ravel(), rows.y) / count
    knots = different[:12]
    found = fitted(rows, kernel, noise, m=len(X) - 1, knots=knots)
    merged = fitted(
        Rows(different, y, noise / count, np.empty((len(y), 0))),
        kernel,
        noise,
        m=len(different) - 1,
        n_predicting=20,
        knots=knots,
    )
    new = np.vstack([np.random.default_rng(1).uniform(size=(40, 2)), different[:5]])
    for quantity in ("mean", "variance"):
        assert_allclose(*(getattr(of.latent(new), quantity) for of in (found, merged)), rtol=1e-7, atol=1e-8)
    assert len(found.places.rows) == len(different) and len(found.rows) == len(X)


@pytest.mark.parametrize("n_predicting", [1, 2, 5])
@pytest.mark.parametrize("name", ["lattice", "repeated", "random"])
def test_few_neighbours_keep_the_contract_of_posteriors(name, n_predicting):
    X, _ = places(name)
    kernel = Matern32(1.0, 0.4)
    check_posterior(fitted(rows := drawn(X[::7], kernel, 0.1), kernel, 0.1, m=4, n_predicting=n_predicting), rows)


@pytest.mark.parametrize("n_rows", [1, 2, 3, 7])
def test_few_rows_are_all_neighbours(n_rows):
    """Where no more than one row would be left out, none is: the exact GP."""
    kernel, mean = Matern32(1.0, 0.4), Linear(1.0)
    X = np.random.default_rng(2).uniform(size=(n_rows, 2))
    mean = mean.bind(X, 1.0, 0.2)
    rows = replace(drawn(X, kernel, 0.1), basis=mean.basis(X))
    exact = ExactPosterior(full_evidence(Model(kernel, Gaussian(0.1), mean), rows, gradient=False).state)
    for n_predicting in {max(1, (n_rows - 1) * 5 // 6), n_rows}:
        found = fitted(rows, kernel, 0.1, m=n_rows - 1, n_predicting=n_predicting, mean=mean, knots=X[:1])
        new = np.random.default_rng(3).uniform(size=(20, 2))
        assert_allclose(found.latent(new).mean, exact.latent(new).mean, rtol=1e-8, atol=1e-9)
        assert_allclose(found.covariance(new), exact.covariance(new), rtol=1e-8, atol=1e-9)


def test_rows_that_are_all_equally_far_have_whole_weights():
    """On a circle nothing says which of the rows are nearer to its centre: as many as are asked for, and some more."""
    angle = np.linspace(0, 2 * np.pi, 64, endpoint=False)
    X = np.column_stack([np.cos(angle), np.sin(angle)])
    posterior = fitted(drawn(X, Matern32(1.0, 0.4), 0.1), Matern32(1.0, 0.4), 0.1)
    near = posterior.places.around(np.array([[0.3, 0.4], [0.9, 0.2]]), 20)
    assert near.weights.shape == (2, 24) and ((near.weights > 0) & (near.weights <= 1)).all()
    assert_array_equal((near.weights == 1).sum(1), 16)
    same = Matern32(1.0, 0.4).on([0])  # in its coordinates all rows are at one point
    level = fitted(drawn(X * [0, 1], same, 0.1), same, 0.1, knots=X[:1] * [0, 1])
    assert_array_equal(level.places.around(X[:3], 20).weights, 1.0)
    assert np.isfinite(level.latent(X[:3]).variance).all()


def test_a_place_beyond_all_numbers_has_predictions():
    X, _ = places("random")
    posterior = fitted(drawn(X, Matern32(1.0, 0.4), 0.1), Matern32(1.0, 0.4), 0.1)
    near = posterior.places.around(np.array([[1e200, 0.5], [0.5, 0.5]]), 20)
    assert ((near.weights >= 0) & (near.weights <= 1)).all()
