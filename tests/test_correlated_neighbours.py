"""Neighbours of a sum on different columns are the rows whose residuals, given the knots, are most correlated."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from knotwise.evidence import Jitter, Model, Rows, full_evidence, sparse_evidence
from knotwise.evidence.residual import vecchia_ordering
from knotwise.evidence.residual.correlation import GivenKnots, metrics
from knotwise.evidence.residual.ordering import neighbourhood_batch
from knotwise.kernels import Constant, Linear, Matern12, Matern32, SquaredExponential
from knotwise.likelihoods import Gaussian
from knotwise.means import Zero
from knotwise.numerics.nearest import MISSING, random_order
from knotwise.posterior.exact import ExactPosterior
from knotwise.posterior.vecchia import VecchiaPosterior, VecchiaState
from knotwise.testing import check_posterior

NOISE = 0.05
ON_COLUMNS = {
    "sum": Matern12(0.5, 0.1).on([0]) + Matern32(0.5, 0.3).on([1]),
    "sum and product": Matern12(0.3, 0.1).on([0]) + Matern12(0.7, 0.3).on([0]) * Matern32(1.0, 0.3).on([1]),
}
ONE_DISTANCE = {
    "plain": Matern32(1.0, [0.1, 0.3]),
    "two scales": Matern32(0.7, [0.5, 0.1]) + Matern12(0.3, [0.05, 0.3]),
    "product": Matern32(1.0, 0.1).on([0]) * SquaredExponential(1.0, 0.3).on([1]),
    "with a trend": Matern32(1.0, 0.2) + Linear(1.0).on([0]) + Constant(1.0),
}
on_columns = pytest.mark.parametrize("kernel", ON_COLUMNS.values(), ids=ON_COLUMNS.keys())
one_distance = pytest.mark.parametrize("kernel", ONE_DISTANCE.values(), ids=ONE_DISTANCE.keys())


def problem(kernel, n=300, seed=1, X=None):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 2)) if X is None else X
    n = len(X)
    y = np.linalg.cholesky(kernel(X) + 1e-9 * np.eye(n)) @ rng.normal(size=n) + np.sqrt(NOISE) * rng.normal(size=n)
    rows, model = Rows(X, y, None, np.empty((n, 0))), Model(kernel, Gaussian(NOISE), Zero())
    return model, rows, X[:12], Jitter(1e-8, X[:1])


def ordered(model, rows, Z, jitter, m):
    given = GivenKnots.of(model, rows, Z, jitter)
    return vecchia_ordering(model.kernel, rows, m, np.random.default_rng(0), given=given)


def posterior(model, rows, Z, jitter, *, m=8, n_predicting=16):
    found = ordered(model, rows, Z, jitter, m)
    rows = rows[found.rows]
    state = sparse_evidence(replace(model, residual=found.residual), rows, Z, jitter=jitter, gradient=False).state
    return VecchiaPosterior(VecchiaState.of(state, rows, n_predicting))


def squared_correlations(model, X, others, Z):
    """Of the residual of X with observations of those of others, given knots, by dense matrices."""
    kernel = model.kernel
    inverse = np.linalg.inv(kernel(Z) + 1e-8 * np.eye(len(Z)) * kernel.diag(Z).mean())

    def residual(A, B):
        return kernel(A, B) - kernel(A, Z) @ inverse @ kernel(Z, B)

    variances = [np.array([residual(a[None], a[None])[0, 0] for a in some]) for some in (X, others)]
    return residual(X, others) ** 2 / np.outer(variances[0] + 1e-12, variances[1] + NOISE)


@on_columns
def test_among_all_candidates_the_most_correlated_earlier_rows_are_neighbours(kernel, monkeypatch):
    monkeypatch.setattr("knotwise.evidence.residual.correlation.CANDIDATES", 1000)
    model, rows, Z, jitter = problem(kernel, 200)
    found = ordered(model, rows, Z, jitter, 8)
    X, order = rows.X[found.rows], random_order(rows.X, np.random.default_rng(0))
    worth = squared_correlations(model, X, X, Z)
    for place, row in enumerate(order):
        best = sorted(order[:place], key=lambda j: -worth[row, j])[:8]
        near = found.residual.graph[row]
        assert (near[len(best) :] == MISSING).all()
        assert_allclose(np.sort(worth[row, near[: len(best)]]), np.sort(worth[row, best]), rtol=1e-5, atol=1e-12)


@on_columns
def test_few_candidates_tell_nearly_as_much_and_more_than_the_nearest_rows(kernel):
    model, rows, Z, jitter = problem(kernel, 900)
    found = posterior(model, rows, Z, jitter)
    new = np.random.default_rng(5).uniform(size=(100, 2))
    worth = squared_correlations(model, new, found.rows.X, Z)
    best = np.sort(worth, axis=1)[:, -16:].sum()
    near, _ = found.ranking(new, 16)
    by_distance = found.ranking.nearest[0](kernel.coordinates(new), 16)
    some, nearest = (np.take_along_axis(worth, numbers, 1).sum() for numbers in (near, by_distance))
    assert some > 0.95 * best and some > 1.05 * nearest


@one_distance
def test_where_one_distance_tells_neighbours_are_the_nearest_rows_bit_by_bit(kernel):
    model, rows, Z, jitter = problem(kernel)
    with_knots, by_distance = (
        vecchia_ordering(kernel, rows, 8, np.random.default_rng(0), given=given)
        for given in (GivenKnots.of(model, rows, Z, jitter), None)
    )
    assert_array_equal(with_knots.residual.graph, by_distance.residual.graph)
    assert_array_equal(with_knots.rows, by_distance.rows)
    assert len(metrics(kernel, rows.X)) == 1


def test_evidence_and_predictions_of_a_sum_are_nearer_to_those_of_the_exact_gp():
    """400 rows: log density of the targets and of new ones, under the kernel that drew them."""
    kernel = ON_COLUMNS["sum"]
    model, rows, Z, jitter = problem(kernel, 500)
    new, rows = rows[400:], rows[:400]
    exact = full_evidence(model, rows, gradient=False)
    by_distance = vecchia_ordering(kernel, rows, 8, np.random.default_rng(0))
    gaps, errors = [], []
    truth = ExactPosterior(exact.state).latent(new.X)
    for found in (ordered(model, rows, Z, jitter, 8), by_distance):
        near, some = replace(model, residual=found.residual), rows[found.rows]
        evidence = sparse_evidence(near, some, Z, jitter=jitter, gradient=False)
        gaps.append(abs(exact.value - evidence.value))
        guess = VecchiaPosterior(VecchiaState.of(evidence.state, some, 16))
        if found is by_distance:
            guess.places = replace(guess.places, ranking=replace(guess.ranking, nearest=guess.ranking.nearest[:1]))
        errors.append(np.mean((guess.latent(new.X).mean - truth.mean) ** 2))
    assert gaps[0] < 0.8 * gaps[1] and errors[0] < 0.8 * errors[1]


@on_columns
@pytest.mark.parametrize(("name", "slope"), [("random", 20), ("repeated", 20), ("equally far", 2000)])
def test_predictions_are_continuous_where_the_most_correlated_rows_change(kernel, name, slope):
    """By at most 20 standard deviations in a length-scale of 0.1 more than the exact GP's, over 1e-6 and 1e-8 of it.

    Where a hundred rows that are equally far in one column become candidates together it is steeper.
    """
    X = np.random.default_rng(1).uniform(size=(300, 2))
    if name == "repeated":
        X[200:] = X[:100]
    if name == "equally far":
        X[::3, 0] = X[0, 0]
    found = posterior(*problem(kernel, X=X))
    exact = full_evidence(found.state.model, replace(found.rows, noise_variance=None), gradient=False)
    exact = ExactPosterior(exact.state)
    start, step = np.array([0.2, 0.3]), np.array([0.5, 0.4])

    def at(t):
        return start + t[:, None] * step

    def names(t):  # neighbours, and those of a whole weight
        near = found.places.around(at(t), 16)
        return np.sort(np.where(near.weights == 1.0, near.near, near.near + 1000), axis=1)

    low, high = np.linspace(0, 1, 301)[:-1].copy(), np.linspace(0, 1, 301)[1:].copy()
    for width in (1e-6, 1e-8):
        while (high - low).max() * np.linalg.norm(step) > 0.1 * width:
            middle = 0.5 * (low + high)
            below = (names(low) != names(middle)).any(1)
            low, high = np.where(below, low, middle), np.where(below, middle, high)
        assert (names(low) != names(high)).any(1).sum() > 100
        changes = [
            [getattr(of.latent(at(high)), name) - getattr(of.latent(at(low)), name) for name in ("mean", "variance")]
            for of in (found, exact)
        ]
        assert np.abs(np.subtract(*changes)).max() < slope * width


@on_columns
def test_the_contract_of_posteriors_is_kept(kernel):
    model, rows, Z, jitter = problem(kernel, 60)
    check_posterior(posterior(model, rows, Z, jitter, m=4, n_predicting=6), rows)


@on_columns
@pytest.mark.parametrize("n_rows", [1, 2, 9, 40])
def test_all_rows_as_neighbours_are_the_exact_gp(kernel, n_rows):
    model, rows, Z, jitter = problem(kernel, n_rows)
    found = posterior(model, rows, Z[:3], jitter, m=n_rows, n_predicting=n_rows)
    exact = full_evidence(model, rows, gradient=False)
    new = np.random.default_rng(5).uniform(size=(20, 2))
    assert_allclose(found.latent(new).mean, ExactPosterior(exact.state).latent(new).mean, rtol=1e-7, atol=1e-8)
    assert_allclose(found.latent(new).variance, ExactPosterior(exact.state).latent(new).variance, rtol=1e-7)


@on_columns
def test_rows_of_all_scales_have_the_most_correlated_earlier_rows(kernel):
    """Thin rows have thin ones that come before, the others any that do; and the more correlated ones."""
    model, rows, Z, jitter = problem(kernel, 400)
    chosen = np.random.default_rng(2).choice(400, 120, replace=False)
    batches = [
        neighbourhood_batch(kernel, rows, chosen, 8, np.random.default_rng(3), n_thin=40, given=given)
        for given in (GivenKnots.of(model, rows, Z, jitter), None)
    ]
    worth = squared_correlations(model, rows.X, rows.X, Z)
    known = []
    for batch in batches:
        graph, numbers = batch.residual.graph, batch.rows
        thin = {int(row): place for place, row in enumerate(chosen[:40])}
        total = 0.0
        for own, near in enumerate(graph):
            row, others = int(numbers[own]), numbers[near[near != MISSING]]
            assert row not in others and len(set(others)) == len(others)
            if row in thin:
                assert all(thin.get(int(other), 99) < thin[row] for other in others)
                assert len(others) == min(thin[row], 8)
            total += worth[row, others].sum()
        known.append(total)
    assert known[0] > 1.05 * known[1]


def test_points_by_columns_are_those_of_the_summands():
    X = np.random.default_rng(0).normal(size=(5, 3))
    one, two, three = Matern12(1.0, 0.5).on(0), Matern32(1.0, 2.0).on([1, 2]), SquaredExponential(1.0, 4.0).on(0)
    parts = (one + two + three + Linear(1.0)).coordinates_by_columns(X)
    assert parts.keys() == {frozenset({0}), frozenset({1, 2})}
    assert_array_equal(parts[frozenset({0})], X[:, [0, 0]] / [0.5, 4.0])
    assert_array_equal(parts[frozenset({1, 2})], X[:, 1:] / 2.0)
    product = ((one + two) * three).coordinates_by_columns(X)
    assert product.keys() == {frozenset({0}), frozenset({0, 1, 2})}
    assert product[frozenset({0, 1, 2})].shape == (5, 3)
    inner = (Matern12(1.0, 1.0).on([1]) + Constant(1.0)).on([2, 0]).coordinates_by_columns(X)
    assert inner.keys() == {frozenset({0})}
    assert Constant(1.0).coordinates_by_columns(X) == {}
