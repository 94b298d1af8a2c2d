"""Residuals kriged from neighbours: the exact GP and FIC as limits, explicit conditionals between them."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from knotwise import kernels as k
from knotwise import likelihoods as lik
from knotwise.errors import InvalidInputError
from knotwise.evidence import Jitter, Model, Rows, full_evidence, sparse_evidence
from knotwise.evidence.residual import Neighbours, vecchia_ordering
from knotwise.evidence.residual.conditionals import NOISE_FLOOR
from knotwise.means import Constant, Linear, Zero
from knotwise.numerics.blocks import Threads
from knotwise.numerics.nearest import (
    MISSING,
    Nearest,
    nearest_earlier,
    random_order,
    spatial_sort,
)
from knotwise.posterior.exact import ExactPosterior
from knotwise.posterior.knots import KnotPosterior
from knotwise.posterior.vecchia import VecchiaPosterior, VecchiaState
from knotwise.testing import assert_adjoint

SETTINGS = {
    "zero-mean": {"mean": Zero()},
    "constant-mean": {},
    "level": {"mean": Constant(0.3)},
    "linear-mean": {"mean": Linear(1.0)},
    "known-noise": {"known_noise": True},
    "weights": {"weighted": True},
    "all": {"mean": Linear(1.0), "known_noise": True, "weighted": True},
}
settings = pytest.mark.parametrize("options", SETTINGS.values(), ids=SETTINGS.keys())

KERNELS = {
    "se": k.SquaredExponential(1.2, [0.8, 1.1]),
    "matern12": k.Matern12(1.2, 0.9),
    "matern32": k.Matern32(1.2, [0.8, 1.1]),
    "matern52": k.Matern52(1.2, 0.7),
    "rational-quadratic": k.RationalQuadratic(0.9, [0.8, 1.1], 0.7),
    "periodic": k.Periodic(0.8, [1.1, 0.7], 2.3) + k.Linear(0.1),
    "linear": k.Linear([0.4, 0.9]) + k.Matern12(0.5, 1.0),
    "constant": k.Constant(0.5) + k.Matern32(0.5, 0.6),
    "product": k.Matern32(0.9, 0.8).on(0) * k.SquaredExponential(1.1, 1.3).on(1),
    "sum-of-columns": k.Matern52(0.7, 0.9).on([1]) + k.Matern12(0.4, [0.5, 0.6]),
}
kernels = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS.keys())


def data(*, n=36, n_knots=5, mean=None, weighted=False, known_noise=False, kernel=None, seed=3):
    """Model without a residual, rows, knots and jitter."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    mean = (mean or Constant()).bind(X, 1.0, 0.2)
    y = 0.4 + np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.4 * rng.normal(size=n)
    noise = rng.uniform(0.05, 0.4, n) if known_noise else None
    weights = rng.integers(1, 4, n).astype(float) if weighted else None
    model = Model(kernel or k.Matern32(1.1, [0.9, 1.3]), lik.Gaussian(0.2), mean)
    return model, Rows(X, y, noise, mean.basis(X), None, weights), rng.normal(size=(n_knots, 2)), Jitter(1e-6, X[:4])


def arranged(model, rows, m, seed=5):
    """The model with m neighbours, and the rows in their order."""
    found = vecchia_ordering(model.kernel, rows, m, np.random.default_rng(seed))
    return replace(model, residual=found.residual), rows[found.rows]


def noise_of(model, rows):
    """Noise variance of the mean of a row's copies."""
    noise = model.likelihood.value("noise_variance") if rows.noise_variance is None else rows.noise_variance
    return np.full(len(rows), noise) / (1.0 if rows.weights is None else rows.weights)


def explained(model, A, B, Z, jitter):
    kernel = model.kernel
    Kuu = kernel(Z, Z) + jitter.relative * np.diag(kernel(jitter.points, jitter.points)).mean() * np.eye(len(Z))
    return kernel(A, Z) @ np.linalg.solve(Kuu, kernel(Z, B))


def twin_covariance(model, rows, Z, jitter):
    """Covariance of the targets: each row's residual with noise, given those of its neighbours, one row at a time."""
    X, N, graph = rows.X, len(rows), model.residual.graph
    Q = explained(model, X, X, Z, jitter)
    C = model.kernel(X, X) - Q + np.diag(noise_of(model, rows))
    precision = np.zeros((N, N))
    for i in range(N):
        near = graph[i][graph[i] != MISSING]
        weights = np.linalg.solve(C[np.ix_(near, near)], C[near, i])
        row = np.zeros(N)
        row[i], row[near] = 1.0, -weights
        precision += np.outer(row, row) / (C[i, i] - C[near, i] @ weights)
    return Q + np.linalg.inv(precision) + rows.basis @ rows.basis.T


def twin_evidence(model, rows, Z, jitter):
    C, r = twin_covariance(model, rows, Z, jitter), rows.y - model.mean.offset
    value = -0.5 * (len(r) * np.log(2 * np.pi) + np.linalg.slogdet(C)[1] + r @ np.linalg.solve(C, r))
    if rows.weights is not None:
        noise = noise_of(model, rows) * rows.weights
        value -= 0.5 * np.sum((rows.weights - 1) * np.log(2 * np.pi * noise) + np.log(rows.weights))
    return value


def assert_gradient(model, rows, Z, jitter, rng, **options):
    p = len(model.theta)

    def value_and_gradient(vector):
        found = sparse_evidence(
            model.with_theta(vector[:p]), rows, vector[p:].reshape(Z.shape), jitter=jitter, **options
        )
        return found.value, np.concatenate([found.gradient, found.knot_gradient.ravel()])

    assert_adjoint(value_and_gradient, np.concatenate([model.theta, Z.ravel()]), rng, 1e-6)


# -- limits ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options", [SETTINGS[name] for name in ("zero-mean", "constant-mean", "linear-mean", "known-noise")]
)
def test_no_neighbours_are_fic(options):
    model, rows, Z, jitter = data(**options)
    fic = sparse_evidence(model, rows, Z, jitter=jitter)
    found = sparse_evidence(replace(model, residual=Neighbours(np.empty((len(rows), 0), int))), rows, Z, jitter=jitter)
    assert_allclose(found.value, fic.value, rtol=1e-12)
    assert_allclose(found.gradient, fic.gradient, rtol=1e-10, atol=1e-11)
    assert_allclose(found.knot_gradient, fic.knot_gradient, rtol=1e-10, atol=1e-11)


@settings
def test_all_earlier_rows_as_neighbours_are_the_exact_gp_whatever_the_knots(options):
    model, rows, Z, jitter = data(**options)
    exact = full_evidence(model, rows)
    found = sparse_evidence(*arranged(model, rows, len(rows) - 1), Z, jitter=jitter)
    assert_allclose(found.value, exact.value, rtol=1e-10)
    assert_allclose(found.gradient, exact.gradient, rtol=1e-8, atol=1e-8)
    assert_allclose(found.knot_gradient, 0.0, atol=1e-8)


# -- between the limits ---------------------------------------------------------------------------------------


@settings
@pytest.mark.parametrize("m", [1, 4, 12])
def test_some_neighbours_are_the_gaussian_of_explicit_conditionals(options, m):
    model, rows, Z, jitter = data(**options)
    case = *arranged(model, rows, m), Z
    assert_allclose(
        sparse_evidence(*case, jitter=jitter, gradient=False).value, twin_evidence(*case, jitter), rtol=1e-10
    )


@settings
@pytest.mark.parametrize("block_size", [None, 7])
def test_the_gradient_is_the_derivative_for_every_mean_noise_and_weight(options, block_size, rng):
    model, rows, Z, jitter = data(**options)
    assert_gradient(*arranged(model, rows, 4), Z, jitter, rng, block_size=block_size)


@kernels
def test_the_gradient_is_the_derivative_for_every_kernel(kernel, rng):
    model, rows, Z, jitter = data(kernel=kernel, n=24, n_knots=4)
    assert_gradient(*arranged(model, rows, 4), Z, jitter, rng, block_size=10)


@kernels
def test_every_kernel_has_the_value_of_the_twin(kernel):
    model, rows, Z, jitter = data(kernel=kernel)
    case = *arranged(model, rows, 5), Z
    assert_allclose(
        sparse_evidence(*case, jitter=jitter, gradient=False).value, twin_evidence(*case, jitter), rtol=1e-9
    )


def test_more_neighbours_come_nearer_to_the_exact_gp():
    model, rows, Z, jitter = data(n=200, kernel=k.Matern32(1.0, 0.3), n_knots=10)
    exact = full_evidence(model, rows, gradient=False).value
    values = [
        sparse_evidence(*arranged(model, rows, m), Z, jitter=jitter, gradient=False).value for m in (0, 3, 10, 30)
    ]
    gaps = np.abs(np.array(values) - exact)
    assert gaps[1] < gaps[0] and gaps[2] < 0.3 * gaps[0] and gaps[3] < 0.05 * gaps[0]


# -- blocks, threads, processes -------------------------------------------------------------------------------


@pytest.mark.parametrize("keep_bytes", [2**28, 8 * 90 * 45, 0], ids=["all", "what the residual has found", "nothing"])
def test_blocks_of_any_size_give_the_same_evidence(keep_bytes):
    model, rows, Z, jitter = data(n=90, mean=Linear(1.0), weighted=True)
    case = *arranged(model, rows, 6), Z
    whole = sparse_evidence(*case, jitter=jitter)
    for block_size in (1, 7, 30, 89):
        parts = sparse_evidence(*case, jitter=jitter, block_size=block_size, keep_bytes=keep_bytes)
        assert_allclose(parts.value, whole.value, rtol=1e-10)
        assert_allclose(parts.gradient, whole.gradient, rtol=1e-10, atol=1e-10)
        assert_allclose(parts.knot_gradient, whole.knot_gradient, rtol=1e-9, atol=1e-10)


def test_any_number_of_threads_gives_the_same_bits():
    model, rows, Z, jitter = data(n=400)
    case = *arranged(model, rows, 6), Z
    one = sparse_evidence(*case, jitter=jitter, block_size=50)
    for n_threads in (2, 3):
        threads = Threads(n_threads)
        found = sparse_evidence(*case, jitter=jitter, block_size=50, executor=threads)
        threads.close()
        assert found.value == one.value
        assert_array_equal(found.gradient, one.gradient)
        assert_array_equal(found.knot_gradient, one.knot_gradient)


def test_a_pickled_residual_gives_the_same_bits():
    model, rows, Z, jitter = data()
    near, rows = arranged(model, rows, 4)
    before = sparse_evidence(near, rows, Z, jitter=jitter, block_size=9)
    again = sparse_evidence(pickle.loads(pickle.dumps(near)), rows, Z, jitter=jitter, block_size=9)
    assert again.value == before.value
    assert_array_equal(again.gradient, before.gradient)


@settings
def test_the_order_of_the_input_does_not_matter(options):
    model, rows, Z, jitter = data(**options, n=60)
    X = rows.X
    X[1::2] = X[::2]  # equal inputs with different targets
    shuffled = rows[np.random.default_rng(8).permutation(len(rows))]
    one, other = (sparse_evidence(*arranged(model, some, 5), Z, jitter=jitter) for some in (rows, shuffled))
    assert one.value == other.value
    assert_array_equal(one.gradient, other.gradient)


# -- rows that are hard ---------------------------------------------------------------------------------------


def test_a_row_that_counts_twice_is_the_row_twice_in_the_exact_limit():
    model, rows, Z, jitter = data(n=20, weighted=True)
    repeated = rows[np.repeat(np.arange(20), rows.weights.astype(int))].once
    found = sparse_evidence(*arranged(model, rows, 19), Z, jitter=jitter)
    exact = full_evidence(model, repeated)
    assert_allclose(found.value, exact.value, rtol=1e-10)
    assert_allclose(found.gradient, exact.gradient, rtol=1e-8, atol=1e-8)


def test_equal_inputs_with_different_targets_are_ordinary_neighbours(rng):
    model, rows, Z, jitter = data(n=40)
    rows.X[20:] = rows.X[:20]
    case = *arranged(model, rows, 5), Z
    assert_allclose(sparse_evidence(*case, jitter=jitter).value, twin_evidence(*case, jitter), rtol=1e-10)
    assert_gradient(*case, jitter, rng)


def test_equal_inputs_almost_without_noise_have_a_finite_evidence_and_its_gradient(rng):
    model, rows, Z, jitter = data(n=40, mean=Zero())
    rows.X[20:], rows.y[20:] = rows.X[:20], rows.y[:20]
    silent = replace(model, likelihood=lik.Gaussian(1e-3 * NOISE_FLOOR))
    near, rows = arranged(silent, rows, 5)
    found = sparse_evidence(near, rows, Z, jitter=jitter)
    assert np.isfinite(found.value) and np.isfinite(found.gradient).all()
    assert found.gradient[near.names.index("noise_variance")] == 0.0  # below its floor the noise says nothing


def test_one_row_and_more_neighbours_than_rows_are_no_special_case():
    for n in (1, 2, 3):
        model, rows, Z, jitter = data(n=n, mean=Zero())
        jitter = replace(jitter, points=rows.X)
        found = sparse_evidence(*arranged(model, rows, 15), Z, jitter=jitter)
        assert_allclose(found.value, full_evidence(model, rows).value, rtol=1e-12)


def test_neighbours_of_other_rows_are_an_error_that_says_what_to_do():
    model, rows, Z, jitter = data()
    near, rows = arranged(model, rows, 4)
    with pytest.raises(InvalidInputError, match=r"those of 36 rows, but there are 20 rows.*residual=None"):
        sparse_evidence(near, rows[:20], Z, jitter=jitter)


# -- prediction -----------------------------------------------------------------------------------------------


def posterior(model, rows, Z, jitter, m, n_neighbors=None):
    near, rows = arranged(model, rows, m)
    state = sparse_evidence(near, rows, Z, jitter=jitter, gradient=False).state
    return VecchiaPosterior(VecchiaState.of(state, rows, m if n_neighbors is None else n_neighbors)), near, rows


def new_rows(rows, Z):
    return np.vstack([np.random.default_rng(2).normal(size=(9, 2)), rows.X[:2], Z[:2]])


@settings
def test_predictions_from_all_rows_are_those_of_the_exact_gp(options):
    model, rows, Z, jitter = data(**options)
    found, *_ = posterior(model, rows, Z, jitter, len(rows), n_neighbors=len(rows))
    exact, X = ExactPosterior(full_evidence(model, rows).state), new_rows(rows, Z)
    assert_allclose(found.latent(X).mean, exact.latent(X).mean, rtol=1e-8, atol=1e-8)
    assert_allclose(found.latent(X).variance, exact.latent(X).variance, rtol=1e-8)
    assert_allclose(found.covariance(X), exact.covariance(X), rtol=1e-8, atol=1e-8)


def test_predictions_without_neighbours_are_those_of_the_knots():
    model, rows, Z, jitter = data()
    found, *_ = posterior(model, rows, Z, jitter, 4, n_neighbors=0)
    knots = KnotPosterior(found.state)
    X = new_rows(rows, Z)
    assert_allclose(found.latent(X).mean, knots.latent(X).mean, rtol=1e-12)
    assert_allclose(found.latent(X).variance, knots.latent(X).variance, rtol=1e-8)
    assert_allclose(found.covariance(X), knots.covariance(X), rtol=1e-8, atol=1e-10)


def twin_posterior(near, rows, Z, jitter, X, m):
    """Mean and covariance of f at X: given eta, each row's residual is kriged from its own nearest rows.

    From 1.2 m of them as if the farther ones had more noise, but with the covariance that the error really has.
    """
    noise = noise_of(near, rows)
    every = np.vstack([rows.X, X])
    N, n = len(rows), len(X)
    C = near.kernel(every, every) - explained(near, every, every, Z, jitter)
    C[:N, :N] += np.diag(noise)
    E = np.zeros((n, N + n))  # what is left of each new row, from all residuals
    for i in range(n):
        distance = (((rows.X - X[i]) / near.kernel.lengthscale) ** 2).sum(1)
        n_weighted, n_whole = int(np.ceil(1.2 * m)), int(0.8 * m)
        nearest = np.argsort(distance)[:n_weighted]
        last, limit = np.sort(distance)[[n_whole - 1, n_weighted]]
        share = np.maximum(distance[nearest] - last, 0.0) / (limit - last)
        extra = 0.1 * C[nearest, nearest] * (share / (1.0 - share)) ** 2
        E[i, nearest] = -np.linalg.solve(C[np.ix_(nearest, nearest)] + np.diag(extra), C[nearest, N + i])
        E[i, N + i] = 1.0
    # the knots' function u and the trend beta, given the targets: their joint law by conditioning
    Kuu = near.kernel(Z, Z) + jitter.relative * near.kernel.variance * np.eye(len(Z))
    p = rows.basis.shape[1]
    prior = np.block([[Kuu, np.zeros((len(Z), p))], [np.zeros((p, len(Z))), np.eye(p)]])
    S = twin_covariance(near, rows, Z, jitter)

    def features(some):
        return np.hstack([np.linalg.solve(Kuu, near.kernel(Z, some)).T, near.mean.basis(some)])

    F = features(rows.X)
    gain = np.linalg.solve(S, F @ prior).T
    r = rows.y - near.mean.offset
    mean, cov = gain @ r, prior - gain @ F @ prior
    mixed = E @ features(every)
    return near.mean.offset + mixed @ mean - E[:, :N] @ r, mixed @ cov @ mixed.T + E @ C @ E.T


@settings
def test_predictions_from_some_neighbours_are_those_of_explicit_conditioning(options):
    model, rows, Z, jitter = data(**options)
    found, near, rows = posterior(model, rows, Z, jitter, 6)
    X = new_rows(rows, Z)
    mean, covariance = twin_posterior(near, rows, Z, jitter, X, 6)
    assert_allclose(found.latent(X).mean, mean, rtol=1e-8, atol=1e-9)
    assert_allclose(found.latent(X).variance, covariance.diagonal(), rtol=1e-8, atol=1e-9)
    assert_allclose(found.covariance(X), covariance, rtol=1e-8, atol=1e-9)
    assert np.linalg.eigvalsh(found.covariance(X))[0] > -1e-12
    view = found.through_knots(X)
    assert_allclose(view.mean, mean, rtol=1e-8, atol=1e-9)
    assert_allclose(view.residual + (view.spread**2).sum(1), covariance.diagonal(), rtol=1e-8, atol=1e-9)
    left = found.residual_covariance(X)
    assert_allclose(left.diagonal(), found.residual_variance(X), rtol=1e-8, atol=1e-9)
    assert_allclose(left + view.spread @ view.spread.T, covariance, rtol=1e-8, atol=1e-9)


def test_predictions_do_not_depend_on_the_blocks_and_survive_pickling(monkeypatch):
    model, rows, Z, jitter = data(n=80)
    found, *_ = posterior(model, rows, Z, jitter, 6)
    X = np.random.default_rng(2).normal(size=(50, 2))
    whole = found.latent(X)
    monkeypatch.setattr("knotwise.posterior.vecchia.ROWS_TOGETHER", 7)
    parts = pickle.loads(pickle.dumps(found)).latent(X)
    assert_allclose(parts.mean, whole.mean, rtol=1e-11)
    assert_allclose(parts.variance, whole.variance, rtol=1e-11)
    assert found.latent(X[:0]).mean.shape == (0,)


# -- graphs and orders ----------------------------------------------------------------------------------------


def brute_force(points, order, m):
    graph = np.full((len(points), m), MISSING)
    for place, row in enumerate(order):
        earlier = order[:place]
        nearest = earlier[np.argsort(((points[earlier] - points[row]) ** 2).sum(1), kind="stable")[:m]]
        graph[row, : len(nearest)] = nearest
    return graph


def sorted_order(points, rng):
    return np.argsort(points[:, 0], kind="stable")


ORDERS = [random_order, sorted_order]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("q", [1, 3, 25])
def test_the_graph_has_the_nearest_earlier_rows(order, q, monkeypatch):
    monkeypatch.setattr("knotwise.numerics.nearest.FIRST_ROWS", 40)
    monkeypatch.setattr("knotwise.numerics.nearest.BATCH_NUMBERS", 3000)
    rng = np.random.default_rng(1)
    points = 1e3 + rng.normal(size=(300, q))
    rows = order(points, rng)
    assert_array_equal(np.sort(rows), np.arange(300))
    assert_array_equal(nearest_earlier(points, rows, 7), brute_force(points, rows, 7))


@pytest.mark.parametrize("q", [2, 25])
def test_many_equal_rows_have_earlier_neighbours_at_distance_zero(q):
    rng = np.random.default_rng(1)
    points = np.repeat(rng.normal(size=(300, q)), 10, axis=0)
    order = rng.permutation(3000)
    graph = nearest_earlier(points, order, 5)
    place = np.argsort(order)
    assert (np.where(graph == MISSING, -1, place[graph]) < place[:, None]).all()
    n_equal = np.array([sum((points[j] == points[i]).all() for j in graph[i] if j != MISSING) for i in range(3000)])
    earlier = [(place[i // 10 * 10 : i // 10 * 10 + 10] < place[i]).sum() for i in range(3000)]
    assert_array_equal(n_equal, np.minimum(earlier, 5))


@pytest.mark.parametrize("q", [2, 25])
def test_the_nearest_of_all_points_are_those_of_brute_force(q):
    rng = np.random.default_rng(1)
    points, places = rng.normal(size=(200, q)), rng.normal(size=(30, q))
    distances = ((places[:, None] - points) ** 2).sum(2)
    assert_array_equal(Nearest(points)(places, 6), np.argsort(distances, axis=1)[:, :6])
    assert Nearest(points)(places, 500).shape == (30, 200)
    assert Nearest(points)(places, 0).shape == (30, 0)


@pytest.mark.parametrize("block_size", [96, 300, 1000, 5000])
def test_blocks_of_a_spatial_sort_are_boxes_that_do_not_overlap(block_size):
    points = np.random.default_rng(0).uniform(size=(2000, 2))
    order = spatial_sort(points, block_size)
    assert_array_equal(np.sort(order), np.arange(2000))
    blocks = [points[order[start : start + block_size]] for start in range(0, 2000, block_size)]
    assert sum(np.prod(np.ptp(block, axis=0)) for block in blocks) <= np.prod(np.ptp(points, axis=0)) + 1e-12


def test_a_spatial_sort_puts_near_rows_side_by_side():
    points = np.random.default_rng(1).uniform(size=(4096, 2))
    order = spatial_sort(points)
    assert_array_equal(np.sort(order), np.arange(4096))
    for start in range(0, 4096, 1024):  # a quarter of the rows, in a quarter of the square
        assert np.ptp(points[order[start : start + 1024]], axis=0).max() < 0.55


def test_coordinates_are_those_in_which_near_rows_are_correlated():
    X = np.random.default_rng(0).normal(size=(5, 3))
    assert_array_equal(k.Matern32(1.0, [1.0, 2.0, 4.0]).coordinates(X), X / [1.0, 2.0, 4.0])
    assert_array_equal(k.Matern12(1.0, 0.5).on([2]).coordinates(X), X[:, [2]] / 0.5)
    both = k.Matern12(1.0, 0.5).on(0) * k.SquaredExponential(1.0, 2.0).on(1) + k.Linear(1.0) + k.Constant(1.0)
    assert_array_equal(both.coordinates(X), X[:, :2] / [0.5, 2.0])
    assert_array_equal((k.Linear(1.0) + k.Constant(2.0)).coordinates(X), X)
    wave = k.Periodic(1.0, [0.5, 1.0, 2.0], 3.0)
    points = wave.coordinates(X)
    distances = ((points[:, None] - points) ** 2).sum(2)
    assert_allclose(wave(X), np.exp(-0.5 * distances), rtol=1e-12)


def test_a_place_beyond_all_numbers_has_neighbours():
    """A forged file, or inputs at 1e300, can have coordinates that overflow."""
    points = np.random.default_rng(0).uniform(size=(40, 2))
    near = Nearest(points)(np.array([[np.inf, 0.5], [0.5, -np.inf], [0.5, 0.5]]), 3)
    assert ((near >= 0) & (near < 40)).all()
    assert_array_equal(np.sort(near[2]), np.sort(np.argsort(((points - 0.5) ** 2).sum(1))[:3]))
