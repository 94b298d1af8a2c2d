"""The sparse engine, against the dense twin, limits, invariances and inequalities."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from knotwise.errors import NotPositiveDefiniteError
from knotwise.evidence import Jitter, Model, Rows, full_evidence, sparse_evidence
from knotwise.kernels import Constant, Linear, Matern12, Matern32, SquaredExponential
from knotwise.likelihoods import Gaussian
from knotwise.means import Zero
from knotwise.noise import Nugget
from knotwise.numerics.blocks import Threads, single_threaded_blas
from knotwise.posterior.exact import ExactPosterior
from knotwise.posterior.knots import KnotPosterior
from knotwise.testing import assert_adjoint, dense_full_evidence, dense_sparse_evidence

POWERS = [1.0, 0.5, 0.1, 0.0]
# the mean, whether each row's noise is known
SETTINGS = [("constant", False), ("constant", True), ("linear", False), ("linear", True)]


def whitened(evidence, X):
    """V of the rows X, [N, K], from the state of an evidence."""
    state = evidence.state
    return state.model.kernel(X, state.Z) @ state.L_inverse.T


# -- the dense twin -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mean", "known_noise"), SETTINGS)
@pytest.mark.parametrize("power", POWERS)
def test_evidence_equals_the_dense_formula_in_any_number_of_blocks(kernel, power, mean, known_noise, toy):
    model, rows, Z, jitter = toy.problem(kernel, power, mean, known_noise=known_noise)
    expected = dense_sparse_evidence(model, rows, Z, jitter)
    for n_blocks in (1, 3, 7):
        size = -(-len(rows) // n_blocks)
        found = sparse_evidence(model, rows, Z, jitter=jitter, block_size=size, gradient=False)
        assert_allclose(found.value, expected, rtol=1e-10)


@pytest.mark.parametrize("n_knots", [1, 40, 130, 200])
@pytest.mark.parametrize("power", [1.0, 0.3, 0.0])
def test_evidence_equals_the_dense_formula_for_one_knot_and_for_many(n_knots, power, rng):
    X = rng.uniform(size=(300, 2))
    y = np.sin(9 * X[:, 0]) + 0.1 * rng.normal(size=300)
    model, rows = Model(Matern32(1.0, 0.3), Gaussian(0.02), Zero(), power), Rows(X, y, None, np.empty((300, 0)))
    Z, jitter = rng.uniform(size=(n_knots, 2)), Jitter(1e-6, X[:3])
    found = sparse_evidence(model, rows, Z, jitter=jitter, block_size=128)
    assert_allclose(found.value, dense_sparse_evidence(model, rows, Z, jitter), rtol=1e-10)


@pytest.mark.parametrize("power", POWERS)
def test_one_row_and_one_knot_are_the_scalar_formula(power):
    """All quantities are numbers: k = 2, k(x, z) = 2 rho, so Q = 2 rho^2 and c = 2 (1 - rho^2)."""
    rho = np.exp(-0.7)
    rows = Rows(np.array([[0.7]]), np.array([1.3]), None, np.empty((1, 0)))
    model = Model(Matern12(2.0, 1.0), Gaussian(0.5), Zero(), power)
    c, q = 2 * (1 - rho**2), 2 * rho**2
    variance = q + power * c + 0.5
    penalty = (1 - power) / (2 * power) * np.log(1 + power * c / 0.5) if power else c / (2 * 0.5)
    expected = -0.5 * (np.log(2 * np.pi * variance) + 1.3**2 / variance) - penalty
    found = sparse_evidence(model, rows, np.zeros((1, 1)), jitter=Jitter(0.0, rows.X))
    assert_allclose(found.value, expected, rtol=1e-13)


@pytest.mark.parametrize("power", POWERS)
def test_replicated_rows_have_the_evidence_of_their_means(power, rng):
    """1000 rows at 10 places with a knot at each: by sufficiency, 10 means with noise / n and the spread about them."""
    places, noise = np.linspace(0, 3, 10)[:, None], 0.2
    group = np.repeat(np.arange(10), rng.multinomial(980, np.full(10, 0.1)) + 2)
    y = np.sin(3 * places[group, 0]) + np.sqrt(noise) * rng.normal(size=1000)
    n = np.bincount(group)
    means = np.bincount(group, y) / n
    within = ((y - means[group]) ** 2).sum() / noise
    model = Model(Matern32(1.0, 0.8), Gaussian(noise), Zero(), power)
    of_means = dense_full_evidence(model, Rows(places, means, noise / n, np.empty((10, 0))))
    expected = of_means - 0.5 * (within + 990 * np.log(2 * np.pi * noise) + np.log(n).sum())

    order = rng.permutation(1000)
    rows, jitter = Rows(places[group[order]], y[order], None, np.empty((1000, 0))), Jitter(0.0, places)
    found = sparse_evidence(model, rows, places, jitter=jitter)
    assert_allclose(found.value, expected, rtol=1e-10)
    assert_allclose(found.value, dense_sparse_evidence(model, rows, places, jitter), rtol=1e-10)


# -- gradients ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mean", "known_noise"), SETTINGS)
@pytest.mark.parametrize("power", POWERS)
def test_the_gradient_in_theta_is_the_derivative_of_the_value(kernel, power, mean, known_noise, toy, rng):
    model, rows, Z, jitter = toy.problem(kernel, power, mean, known_noise=known_noise)

    def value_and_gradient(theta):
        evidence = sparse_evidence(model.with_theta(theta), rows, Z, jitter=jitter, block_size=17)
        return evidence.value, evidence.gradient

    assert_adjoint(value_and_gradient, model.theta, rng)


@pytest.mark.parametrize(("mean", "known_noise"), [("constant", False), ("linear", True)])
@pytest.mark.parametrize("power", POWERS)
def test_the_knot_gradient_is_the_derivative_in_all_knots(kernel, power, mean, known_noise, toy, rng):
    model, rows, Z, jitter = toy.problem(kernel, power, mean, known_noise=known_noise)

    def value_and_gradient(Z):
        evidence = sparse_evidence(model, rows, Z, jitter=jitter, block_size=17)
        return evidence.value, evidence.knot_gradient

    assert_adjoint(value_and_gradient, Z, rng)


@pytest.mark.parametrize("power", [1.0, 0.5, 0.0])
def test_the_gradient_of_each_parameter_alone_is_its_derivative(power, toy, rng):
    """One coordinate at a time, so that no large entry hides a small one; the jitter large enough to show."""
    kernel = Matern32(1.1, [1.2, 0.6]) + Linear([0.4, 1.9]) * SquaredExponential(0.9, 1.5)
    model, rows, Z, jitter = toy.problem(kernel, power, jitter=0.1)
    for i in range(len(model.theta)):

        def value_and_gradient(entry, i=i):
            theta = model.theta.copy()
            theta[i] = entry[0]
            evidence = sparse_evidence(model.with_theta(theta), rows, Z, jitter=jitter)
            return evidence.value, evidence.gradient[i : i + 1]

        assert_adjoint(value_and_gradient, model.theta[i : i + 1], rng)


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("n_knots", [63, 130])
def test_the_gradient_holds_for_as_many_knots_as_take_the_blocked_products(n_knots, power, rng):
    X = rng.uniform(size=(250, 2))
    y = np.sin(9 * X[:, 0]) + 0.1 * rng.normal(size=250)
    model = Model(Matern32(1.0, 0.2), Gaussian(0.05), Zero(), power)
    rows, jitter = Rows(X, y, None, np.empty((250, 0))), Jitter(1e-4, X[:3])
    Z = rng.uniform(size=(n_knots, 2))

    def at(vector):
        theta, knots = vector[:3], vector[3:].reshape(-1, 2)
        evidence = sparse_evidence(model.with_theta(theta), rows, knots, jitter=jitter, block_size=100)
        return evidence.value, np.concatenate([evidence.gradient, evidence.knot_gradient.ravel()])

    assert_adjoint(at, np.concatenate([model.theta, Z.ravel()]), rng)


@pytest.mark.parametrize("power", POWERS)
def test_the_jitter_enters_the_gradient(power, toy, rng):
    """Scaling kernel, noise and targets together changes the evidence by a constant, jitter or not."""
    model, rows, Z, jitter = toy.problem(SquaredExponential(1.3, 0.8), power, "zero", jitter=0.3)
    gradient = sparse_evidence(model, rows, Z, jitter=jitter).gradient
    h = 1e-4
    above, below = (
        sparse_evidence(model, replace(rows, y=rows.y * np.exp(s)), Z, jitter=jitter).value for s in (h, -h)
    )
    by_scale = (above - below) / (2 * h)  # y * exp(s): derivative of -r' C^-1 r / 2
    # l(exp(2 s) k, exp(2 s) noise, exp(s) y) = l(k, noise, y) - N s
    assert_allclose(2 * (gradient[0] + gradient[2]) + by_scale, -len(rows), rtol=1e-6)


def test_value_alone_is_the_value_with_the_gradient(toy):
    model, rows, Z, jitter = toy.problem(Matern32(1.1, 0.7), 0.5, "linear")
    with_gradient = sparse_evidence(model, rows, Z, jitter=jitter)
    alone = sparse_evidence(model, rows, Z, jitter=jitter, gradient=False)
    assert alone.value == with_gradient.value
    assert alone.gradient is None and alone.knot_gradient is None
    assert_array_equal(alone.state.gamma, with_gradient.state.gamma)


# -- blocks, memory, threads, order ---------------------------------------------------------------------------


def assert_same_evidence(a, b, rtol):
    assert_allclose(a.value, b.value, rtol=rtol)
    for name in ("gradient", "knot_gradient"):
        expected = getattr(b, name)
        assert_allclose(getattr(a, name), expected, rtol=rtol, atol=rtol * np.abs(expected).max())


@pytest.mark.parametrize("power", [1.0, 0.5, 0.0])
def test_blocks_kept_and_blocks_streamed_agree(kernel, power, toy):
    model, rows, Z, jitter = toy.problem(kernel, power, "linear")
    kept = sparse_evidence(model, rows, Z, jitter=jitter, block_size=9)
    streamed = sparse_evidence(model, rows, Z, jitter=jitter, block_size=9, keep_bytes=0)
    assert_same_evidence(streamed, kept, rtol=1e-12)


@pytest.mark.parametrize("keep_bytes", [0, 2**28])
@pytest.mark.parametrize("power", [0.5, 0.0])
def test_threads_give_the_same_bits_as_one_thread(kernel, power, keep_bytes, toy):
    model, rows, Z, jitter = toy.problem(kernel, power, "linear")
    arguments = {"jitter": jitter, "block_size": 3, "keep_bytes": keep_bytes}
    threads = Threads(2)
    try:
        with single_threaded_blas():
            serial = sparse_evidence(model, rows, Z, **arguments)
            threaded = sparse_evidence(model, rows, Z, executor=threads, **arguments)
    finally:
        threads.close()
    assert threaded.value == serial.value
    assert_array_equal(threaded.gradient, serial.gradient)
    assert_array_equal(threaded.knot_gradient, serial.knot_gradient)
    assert_array_equal(threaded.state.gamma, serial.state.gamma)


@pytest.mark.parametrize("power", [1.0, 0.5, 0.0])
def test_the_order_of_rows_and_the_cut_into_blocks_do_not_matter(kernel, power, toy, rng):
    model, rows, Z, jitter = toy.problem(kernel, power, "linear", known_noise=True)
    expected = sparse_evidence(model, rows, Z, jitter=jitter)
    for size in (1, 13, 39):
        shuffled = rows[rng.permutation(len(rows))]
        assert_same_evidence(sparse_evidence(model, shuffled, Z, jitter=jitter, block_size=size), expected, rtol=1e-10)


@pytest.mark.parametrize("power", [1.0, 0.0])
def test_the_order_of_knots_does_not_matter_and_their_gradients_move_with_them(kernel, power, toy, rng):
    model, rows, Z, jitter = toy.problem(kernel, power)
    order = rng.permutation(len(Z))
    expected = sparse_evidence(model, rows, Z, jitter=jitter)
    found = sparse_evidence(model, rows, Z[order], jitter=jitter)
    assert_same_evidence(found, replace(expected, knot_gradient=expected.knot_gradient[order]), rtol=1e-9)


def test_data_far_from_the_origin_have_the_same_evidence(toy):
    model, rows, Z, jitter = toy.problem(Matern32(1.1, [1.2, 0.6]), 0.5)
    grid = [np.round(A * 1024) / 1024 for A in (rows.X, Z, jitter.points)]  # exact after the shift
    near, far = (
        sparse_evidence(model, replace(rows, X=grid[0] + s), grid[1] + s, jitter=Jitter(1e-4, grid[2] + s))
        for s in (0.0, 2.0**20)
    )
    assert_same_evidence(far, near, rtol=1e-9)


# -- limits and inequalities ----------------------------------------------------------------------------------


@pytest.mark.parametrize("mean", ["constant", "linear"])
@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("name", ["matern12", "matern32-ard", "sum", "columns"])
def test_with_knots_at_the_data_every_power_is_the_full_gp(name, power, mean, toy, kernels):
    model, rows, _, _ = toy.problem(kernels[name], power, mean)
    sparse = sparse_evidence(model, rows, rows.X, jitter=Jitter(1e-10, rows.X[:5]))
    full = full_evidence(model, rows)
    assert_allclose(sparse.value, full.value, rtol=1e-6)
    assert_allclose(sparse.gradient, full.gradient, rtol=1e-4, atol=1e-4)
    a, b = KnotPosterior(sparse.state).latent(toy.X_new), ExactPosterior(full.state).latent(toy.X_new)
    assert_allclose(a.mean, b.mean, rtol=1e-6, atol=1e-6)
    assert_allclose(a.variance, b.variance, rtol=1e-6)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    n_rows=st.integers(1, 25),
    n_knots=st.integers(1, 8),
    log_parameters=st.tuples(*[st.floats(-3, 3)] * 3),
    kind=st.sampled_from([SquaredExponential, Matern12, Matern32]),
    duplicates=st.booleans(),
    place=st.sampled_from([0.0, 1e4]),
)
def test_vfe_is_a_lower_bound_of_the_exact_evidence(seed, n_rows, n_knots, log_parameters, kind, duplicates, place):
    rng = np.random.default_rng(seed)
    X = place + rng.normal(size=(n_rows, 2))
    if duplicates:
        X = X[rng.integers(0, n_rows, n_rows)]
    y, Z = 2 * rng.normal(size=n_rows), X[rng.integers(0, n_rows, n_knots)] + rng.choice([0.0, 0.5], (n_knots, 1))
    variance, lengthscale, noise = np.exp(log_parameters)
    model = Model(kind(variance, lengthscale), Gaussian(noise), Zero(), power=0.0)
    rows = Rows(X, y, None, np.empty((n_rows, 0)))
    bound = sparse_evidence(model, rows, Z, jitter=Jitter(1e-8, X[:1]), gradient=False).value
    exact = full_evidence(model, rows, gradient=False).value
    # rounding of c of up to 1e-12 of the variance counts W c / 2 for each row
    slack = 1e-9 * abs(exact) + 1e-10 * n_rows * variance / noise
    assert bound <= exact + slack


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), n_knots=st.integers(1, 12), on_a_row=st.booleans())
def test_another_knot_never_raises_the_residual_variance_nor_lowers_the_bound(seed, n_knots, on_a_row):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(30, 2))
    rows = Rows(X, rng.normal(size=30), None, np.empty((30, 0)))
    model, jitter = Model(Matern32(1.7, 0.8), Gaussian(0.3), Zero(), power=0.0), Jitter(1e-8, X[:3])
    Z = rng.normal(size=(n_knots + 1, 2))
    if on_a_row:
        Z[-1] = X[0]
    fewer, more = (sparse_evidence(model, rows, knots, jitter=jitter) for knots in (Z[:-1], Z))
    c_fewer, c_more = (1.7 - (whitened(e, X) ** 2).sum(1) for e in (fewer, more))
    assert (c_more <= c_fewer + 1e-12).all()
    assert more.value >= fewer.value - 1e-9


@pytest.mark.parametrize("known_noise", [False, True])
def test_the_power_goes_to_0_without_a_jump(kernel, known_noise, toy):
    model, rows, Z, jitter = toy.problem(kernel, 0.0, "linear", known_noise=known_noise)
    limit, near = (sparse_evidence(model.with_power(power), rows, Z, jitter=jitter) for power in (0.0, 1e-7))
    assert_same_evidence(near, limit, rtol=1e-4)
    # what the power changes is proportional to it, down to the rounding of the value
    far = sparse_evidence(model.with_power(1e-5), rows, Z, jitter=jitter)
    assert_allclose(near.value - limit.value, (far.value - limit.value) / 100, rtol=0.02, atol=1e-11 * abs(limit.value))


@pytest.mark.parametrize("mean", ["zero", "linear"])
@pytest.mark.parametrize("power", POWERS)
def test_whitened_rows_times_the_weights_of_the_rows_are_gamma(kernel, power, mean, toy):
    """V a = gamma (S6), with a from its definition as the inverse covariance times r."""
    model, rows, Z, jitter = toy.problem(kernel, power, mean, known_noise=True)
    evidence = sparse_evidence(model, rows, Z, jitter=jitter)
    V = whitened(evidence, rows.X)  # [N, K]
    c = np.maximum(model.kernel.diag(rows.X) - (V**2).sum(1), 0.0)
    V = np.hstack([V, rows.basis])
    a = np.linalg.solve(V @ V.T + np.diag(rows.noise_variance + power * c), rows.y - model.mean.offset)
    gamma = evidence.state.gamma
    assert_allclose(a @ V, gamma, rtol=1e-10, atol=1e-10 * np.abs(gamma).max())


@pytest.mark.parametrize("power", POWERS)
def test_gaussian_noise_and_a_nugget_are_one_noise(kernel, power, toy):
    """The nugget takes the engine's way for other likelihoods: it must arrive at the same place."""
    model, rows, Z, jitter = toy.problem(kernel, power, "linear")
    apart = replace(model, likelihood=Gaussian(0.2), nugget=Nugget(0.1))
    together = sparse_evidence(model, rows, Z, jitter=jitter)  # noise 0.3
    found = sparse_evidence(apart, rows, Z, jitter=jitter)
    *kernel_bar, noise_bar = together.gradient
    expected = np.array([*kernel_bar, noise_bar * 2 / 3, noise_bar / 3])  # shares of a sum, on the log scale
    assert_same_evidence(found, replace(together, gradient=expected), rtol=1e-8)
    assert_allclose(found.value, dense_sparse_evidence(apart, rows, Z, jitter), rtol=1e-10)


# -- jitter and errors ----------------------------------------------------------------------------------------


def test_coincident_knots_without_jitter_are_an_error_and_with_jitter_change_little(toy):
    model, rows, Z, _ = toy.problem(Matern32(1.1, 0.7), 0.0)
    twice = np.vstack([Z, Z[:2]])
    with pytest.raises(NotPositiveDefiniteError):
        sparse_evidence(model, rows, twice, jitter=Jitter(0.0, rows.X[:5]))
    small = Jitter(1e-9, rows.X[:5])
    assert_allclose(
        sparse_evidence(model, rows, twice, jitter=small).value,
        sparse_evidence(model, rows, Z, jitter=small).value,
        rtol=1e-6,
    )


def test_a_given_jitter_is_taken_and_otherwise_the_smallest_that_works(toy):
    kernel, points = Matern32(5.0, 0.7), toy.X[:4]
    assert Jitter.choose(kernel, toy.Z, points, 0.0).relative == 0.0
    assert Jitter.choose(kernel, toy.Z, points, None).relative == 1e-10
    assert Jitter(0.1, points).scale(kernel) == 5.0


def test_jitter_is_relative_so_units_of_y_do_not_matter(toy):
    model, rows, Z, jitter = toy.problem(SquaredExponential(1.3, 0.8), 0.5, "zero", jitter=1e-2)
    kernel, scale = Constant(1e6) * SquaredExponential(1.3, 0.8), 1e3
    scaled = Model(kernel, Gaussian(0.3e6), Zero(), 0.5)
    found = sparse_evidence(scaled, replace(rows, y=scale * rows.y), Z, jitter=jitter)
    expected = sparse_evidence(model, rows, Z, jitter=jitter)
    assert_allclose(found.value, expected.value - len(rows) * np.log(scale), rtol=1e-12)
    assert_allclose(found.knot_gradient, expected.knot_gradient, rtol=1e-9)
