"""The Laplace approximation, through knots and in full: against a dense twin, golden numbers, limits, scikit-learn."""

import json
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from knotwise import GPRegressor, means
from knotwise import likelihoods as lik
from knotwise.evidence import InMemory, Jitter, Model, Rows, full_evidence, sparse_evidence
from knotwise.evidence.full_sites import FullState, RootPrecision
from knotwise.evidence.inference import laplace, laplace_exact, newton
from knotwise.evidence.scores import row_scores
from knotwise.kernels import Matern32, SquaredExponential
from knotwise.noise import NoNugget, Nugget
from knotwise.numerics.blocks import Threads, single_threaded_blas
from knotwise.posterior.exact import ExactPosterior
from knotwise.posterior.knots import KnotPosterior
from knotwise.testing import assert_adjoint

POWERS = [1.0, 0.5, 0.0]
NUGGETS = {"no-nugget": NoNugget(), "nugget": Nugget(0.15)}


class GaussianByNewton(lik.Gaussian):
    """Gaussian data that take the road of all others."""

    conjugate = False


LIKELIHOODS = {
    "gaussian": GaussianByNewton(0.2),
    "bernoulli": lik.Bernoulli(),
    "binomial": lik.Binomial(),
    "poisson": lik.Poisson(),
    "negative-binomial": lik.NegativeBinomial(0.4),
    "zero-inflated-poisson": lik.ZeroInflatedPoisson(0.3),
    "zero-inflated-negative-binomial": lik.ZeroInflatedNegativeBinomial(0.4, 0.3),
    "gamma": lik.Gamma(2.5),
    "exponential": lik.Exponential(),
    "weibull": lik.Weibull(1.7),
    "lognormal": lik.LogNormal(0.3),
    "beta": lik.Beta(6.0),
    "student-t": lik.StudentT(0.3, 4.0),
}
ALL = LIKELIHOODS | {"probit": lik.Bernoulli("probit")}


def residuals(evidence, rows):
    """a = d log p / df at the mode, row by row."""
    state = evidence.state
    if isinstance(state, FullState):
        return state.a
    return row_scores(state.model, rows, state.Z, jitter=state.jitter).a


@dataclass(frozen=True)
class Case:
    """Arguments of an evidence."""

    model: Model
    rows: Rows
    Z: np.ndarray
    jitter: Jitter

    def sparse(self, **options):
        return sparse_evidence(self.model, self.rows, self.Z, jitter=self.jitter, **options)

    def with_vector(self, vector):
        """The same case with theta and knots from one vector."""
        p = len(self.model.theta)
        return replace(self, model=self.model.with_theta(vector[:p]), Z=vector[p:].reshape(self.Z.shape))

    @property
    def vector(self):
        return np.concatenate([self.model.theta, self.Z.ravel()])


def case(likelihood, power=1.0, nugget=None, *, mean="constant", n=36, n_knots=6, kernel=None, jitter=1e-6, seed=7):
    """Data drawn from the likelihood, about a smooth function of two columns."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    f = 0.4 + np.sin(2 * X[:, 0]) + 0.5 * X[:, 1]
    size = {None: None, "exposure": rng.uniform(0.3, 3, n), "trials": rng.integers(1, 12, n).astype(float)}[
        likelihood.size_name
    ]
    y = likelihood.sample(f, rng, 1.0 if size is None else size)
    mean = {"constant": means.Constant(0.3), "linear": means.Linear(2.0).bind(X, 1.0, 0.3)}[mean]
    model = Model(kernel or Matern32(1.3, [0.9, 1.4]), likelihood, mean, power, nugget or NoNugget())
    rows = Rows(X, y, None, mean.basis(X), size)
    return Case(model, rows, rng.normal(size=(n_knots, 2)), Jitter(jitter, X[:4]))


# -- a dense twin: N x N matrices, general solves -------------------------------------------------------------


@dataclass(frozen=True)
class DenseLaplace:
    """Mode f, a = d log p / df there, site precisions W, log evidence, and the prior covariance of f."""

    f: np.ndarray
    a: np.ndarray
    W: np.ndarray
    value: float
    P: np.ndarray


def dense_parts(problem):
    """Q + basis covariance [N, N] and the residual variance c [N]."""
    kernel, X, Z = problem.model.kernel, problem.rows.X, problem.Z
    size = np.mean(np.diag(kernel(problem.jitter.points, problem.jitter.points)))
    Q = kernel(X, Z) @ np.linalg.solve(kernel(Z, Z) + problem.jitter.relative * size * np.eye(len(Z)), kernel(Z, X))
    c = np.maximum(np.diag(kernel(X, X)) - np.diag(Q), 0.0)
    return Q + problem.rows.basis @ problem.rows.basis.T, c


def dense_laplace(model, rows, P, c):
    """Damped Newton in f = m + P a, with the (positive) expected curvature; then the true Hessian at the end."""
    likelihood, y, size, m = model.likelihood, rows.y, rows.sizes, model.mean.offset

    def psi(a):
        return likelihood.log_density(y, m + P @ a, size).sum() - 0.5 * a @ P @ a

    a = np.zeros(len(y))
    for _ in range(2000):
        f = m + P @ a
        W = likelihood.fisher(y, f, size)
        first = likelihood.derivatives(y, f, size).first
        direction = np.linalg.solve(np.eye(len(y)) + W[:, None] * P, W * (f - m) + first) - a
        step = 1.0
        while not psi(a + step * direction) >= psi(a) - 1e-13 * abs(psi(a)) and step > 1e-6:
            step /= 2
        a = a + step * direction
        if np.abs(step * direction).max() < 1e-13 * (1 + np.abs(a).max()):
            break
    f = m + P @ a
    d = likelihood.derivatives(y, f, size)
    W, alpha, nugget = -d.second, model.power, model.nugget.variance
    sign, log_det = np.linalg.slogdet(np.eye(len(y)) + W[:, None] * P)
    assert sign > 0
    Wn = np.maximum(W / (1 + W * nugget), 0.0)  # a site of negative precision pays nothing
    penalty = 0.5 * np.sum(Wn * c) if alpha == 0 else (1 - alpha) / (2 * alpha) * np.log1p(alpha * Wn * c).sum()
    return DenseLaplace(f, d.first, W, float(psi(a) - 0.5 * log_det - penalty), P)


def dense_sparse(problem):
    explained, c = dense_parts(problem)
    P = explained + np.diag(problem.model.power * c + problem.model.nugget.variance)
    return dense_laplace(problem.model, problem.rows, P, c)


def dense_full(model, rows):
    P = model.kernel(rows.X, rows.X) + rows.basis @ rows.basis.T + model.nugget.variance * np.eye(len(rows))
    return dense_laplace(model, rows, P, np.zeros(len(rows)))


@pytest.mark.parametrize("n_blocks", [1, 3])
@pytest.mark.parametrize("nugget", NUGGETS.values(), ids=NUGGETS)
@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("likelihood", ALL.values(), ids=ALL)
def test_the_sparse_evidence_equals_the_dense_twin(likelihood, power, nugget, n_blocks):
    problem = case(likelihood, power, nugget)
    found = problem.sparse(block_size=-(-len(problem.rows) // n_blocks), gradient=False)
    expected = dense_sparse(problem)
    assert found.converged
    assert_allclose(found.value, expected.value, rtol=1e-8)
    assert_allclose(residuals(found, problem.rows), expected.a, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("likelihood", ALL.values(), ids=ALL)
def test_a_linear_mean_joins_the_dense_covariance(likelihood, power):
    problem = case(likelihood, power, Nugget(0.1), mean="linear")
    assert_allclose(problem.sparse(gradient=False).value, dense_sparse(problem).value, rtol=1e-8)


@pytest.mark.parametrize("mean", ["constant", "linear"])
@pytest.mark.parametrize("nugget", NUGGETS.values(), ids=NUGGETS)
@pytest.mark.parametrize("likelihood", ALL.values(), ids=ALL)
def test_the_full_evidence_equals_the_dense_twin(likelihood, nugget, mean):
    problem = case(likelihood, 1.0, nugget, mean=mean)
    found = full_evidence(problem.model, problem.rows)
    expected = dense_full(problem.model, problem.rows)
    assert found.converged
    assert_allclose(found.value, expected.value, rtol=1e-8)
    assert_allclose(residuals(found, problem.rows), expected.a, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("name", ["poisson", "bernoulli", "student-t", "beta"])
def test_latent_predictions_condition_the_dense_joint_prior(name, power):
    """The law of f at new rows given sites with mean f + a / W and variance 1 / W (negative ones too)."""
    problem = case(LIKELIHOODS[name], power, Nugget(0.1), mean="linear")
    model, rows, Z = problem.model, problem.rows, problem.Z
    dense = dense_sparse(problem)
    X_new = np.random.default_rng(3).normal(size=(8, 2))
    kernel, basis = model.kernel, model.mean.basis(X_new)
    Kuu = kernel(Z, Z) + 1e-6 * 1.3 * np.eye(len(Z))
    cross = kernel(X_new, Z) @ np.linalg.solve(Kuu, kernel(Z, rows.X)) + basis @ rows.basis.T
    R = dense.W[:, None] * np.linalg.inv(np.eye(len(rows)) + dense.P * dense.W)  # (P + 1/W)^-1
    latent = KnotPosterior(problem.sparse(gradient=False).state).latent(X_new)
    assert_allclose(latent.mean, 0.3 + cross @ dense.a, rtol=1e-7, atol=1e-7)
    prior = kernel.diag(X_new) + (basis**2).sum(1)
    assert_allclose(latent.variance, prior - np.einsum("ij,jk,ik->i", cross, R, cross), rtol=1e-7)


# -- gradients ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nugget", NUGGETS.values(), ids=NUGGETS)
@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("likelihood", ALL.values(), ids=ALL)
def test_every_sparse_gradient_is_the_derivative_of_the_value(likelihood, power, nugget, rng):
    """Kernel, likelihood, nugget, constant mean and all knots, in random directions."""
    problem = case(likelihood, power, nugget, jitter=1e-3)

    def value_and_gradient(vector):
        evidence = problem.with_vector(vector).sparse(block_size=13)
        assert evidence.converged
        return evidence.value, np.concatenate([evidence.gradient, evidence.knot_gradient.ravel()])

    assert_adjoint(value_and_gradient, problem.vector, rng, rtol=1e-5)


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("likelihood", ALL.values(), ids=ALL)
def test_the_gradient_of_each_parameter_alone_is_its_derivative(likelihood, power, rng):
    """One coordinate at a time, so that no large entry hides a small one."""
    problem = case(likelihood, power, Nugget(0.15), jitter=1e-2)
    theta = problem.model.theta
    for i in range(len(theta)):

        def value_and_gradient(entry, i=i):
            at = theta.copy()
            at[i] = entry[0]
            evidence = replace(problem, model=problem.model.with_theta(at)).sparse()
            return evidence.value, evidence.gradient[i : i + 1]

        assert_adjoint(value_and_gradient, theta[i : i + 1], rng, rtol=1e-5, n_directions=1)


@pytest.mark.parametrize("nugget", NUGGETS.values(), ids=NUGGETS)
@pytest.mark.parametrize("likelihood", ALL.values(), ids=ALL)
def test_every_full_gradient_is_the_derivative_of_the_value(likelihood, nugget, rng):
    problem = case(likelihood, 1.0, nugget)
    theta = problem.model.theta
    for i in [None, *range(len(theta))]:

        def value_and_gradient(entries, i=i):
            at = theta.copy()
            at[slice(None) if i is None else slice(i, i + 1)] = entries
            evidence = full_evidence(problem.model.with_theta(at), problem.rows)
            return evidence.value, evidence.gradient[slice(None) if i is None else slice(i, i + 1)]

        at = theta if i is None else theta[i : i + 1]
        assert_adjoint(value_and_gradient, at, rng, rtol=1e-5, n_directions=3 if i is None else 1)


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("name", ["poisson", "beta"])
def test_the_gradient_holds_with_a_linear_mean(name, power, rng):
    problem = case(LIKELIHOODS[name], power, Nugget(0.15), mean="linear", jitter=1e-3)

    def value_and_gradient(vector):
        evidence = problem.with_vector(vector).sparse(block_size=13)
        return evidence.value, np.concatenate([evidence.gradient, evidence.knot_gradient.ravel()])

    assert_adjoint(value_and_gradient, problem.vector, rng, rtol=1e-5)


# -- limits ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nugget", NUGGETS.values(), ids=NUGGETS)
@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("likelihood", ALL.values(), ids=ALL)
def test_with_knots_at_the_data_every_power_is_the_full_gp(likelihood, power, nugget):
    """The jitter of 1e-9 leaves a residual variance c of that size; with it the evidence moves by sum W c."""
    problem = case(likelihood, power, nugget)
    problem = replace(problem, Z=problem.rows.X, jitter=Jitter(1e-9, problem.rows.X[:4]))
    sparse, full = problem.sparse(), full_evidence(problem.model, problem.rows)
    assert_allclose(sparse.value, full.value, rtol=1e-6)
    assert_allclose(sparse.gradient, full.gradient, rtol=1e-5, atol=1e-5)
    X_new = np.random.default_rng(3).normal(size=(8, 2))
    a, b = KnotPosterior(sparse.state).latent(X_new), ExactPosterior(full.state).latent(X_new)
    assert_allclose(a.mean, b.mean, rtol=1e-6, atol=1e-6)
    assert_allclose(a.variance, b.variance, rtol=1e-5)


@pytest.mark.parametrize("mean", ["constant", "linear"])
@pytest.mark.parametrize("power", POWERS)
def test_gaussian_data_by_newton_are_gaussian_data_in_closed_form(power, mean):
    problem = case(GaussianByNewton(0.2), power, mean=mean)
    exact = replace(problem, model=replace(problem.model, likelihood=lik.Gaussian(0.2)))
    found, expected = problem.sparse(block_size=11), exact.sparse(block_size=11)
    assert_same_evidence(found, expected, rtol=1e-10)
    full_found, full_expected = (full_evidence(c.model, c.rows) for c in (problem, exact))
    assert_allclose(full_found.value, full_expected.value, rtol=1e-10)
    scale = np.abs(full_expected.gradient).max()
    assert_allclose(full_found.gradient, full_expected.gradient, rtol=1e-10, atol=1e-10 * scale)


@pytest.mark.parametrize("power", POWERS)
def test_a_nugget_on_gaussian_data_is_noise(power):
    """With the noise s and the nugget n apart, power 1 has the evidence of the noise s + n, other powers too."""
    apart = case(GaussianByNewton(0.2), power, Nugget(0.3))
    together = replace(apart, model=replace(apart.model, likelihood=lik.Gaussian(0.5), nugget=NoNugget()))
    assert_allclose(apart.sparse(gradient=False).value, together.sparse(gradient=False).value, rtol=1e-10)


def test_poisson_of_large_counts_is_gaussian_in_the_logarithm():
    """For counts near 1e6, log y is N(f, 1/y): the evidences differ by the Jacobian, to the order of 1 / count."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(30, 2))
    y = rng.poisson(np.exp(14 + np.sin(X[:, 0]))).astype(float)
    kernel, mean = Matern32(1.0, 1.0), means.Constant(14.0)
    empty = np.empty((30, 0))
    poisson = full_evidence(Model(kernel, lik.Poisson(), mean), Rows(X, y, None, empty), gradient=False)
    gaussian = full_evidence(Model(kernel, lik.Gaussian(1.0), mean), Rows(X, np.log(y), 1 / y, empty), gradient=False)
    assert_allclose(poisson.value, gaussian.value - np.log(y).sum(), atol=1e-2)


# -- blocks, threads, starts ----------------------------------------------------------------------------------


def assert_same_evidence(a, b, rtol):
    assert_allclose(a.value, b.value, rtol=rtol)
    for name in ("gradient", "knot_gradient"):
        expected = getattr(b, name)
        assert_allclose(getattr(a, name), expected, rtol=rtol, atol=rtol * np.abs(expected).max())


@pytest.mark.slow
@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("likelihood", LIKELIHOODS.values(), ids=LIKELIHOODS)
def test_streamed_blocks_and_other_blocks_agree_with_one_block(likelihood, power):
    problem = case(likelihood, power, Nugget(0.1), mean="linear")
    whole = problem.sparse()
    assert_same_evidence(problem.sparse(block_size=5, keep_bytes=0), problem.sparse(block_size=5), rtol=1e-10)
    for block_size in (1, 5, 35):
        assert_same_evidence(problem.sparse(block_size=block_size), whole, rtol=1e-10)


@pytest.mark.parametrize("keep_bytes", [0, 2**28])
@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("name", ["poisson", "student-t"])
def test_threads_give_the_same_bits_as_one_thread(name, power, keep_bytes):
    problem = case(LIKELIHOODS[name], power, Nugget(0.1))
    options = {"block_size": 3, "keep_bytes": keep_bytes}
    threads = Threads(2)
    try:
        with single_threaded_blas():
            serial = problem.sparse(**options)
            threaded = problem.sparse(executor=threads, **options)
    finally:
        threads.close()
    assert threaded.value == serial.value
    assert_array_equal(threaded.gradient, serial.gradient)
    assert_array_equal(threaded.knot_gradient, serial.knot_gradient)
    assert_array_equal(threaded.state.gamma, serial.state.gamma)


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("likelihood", LIKELIHOODS.values(), ids=LIKELIHOODS)
def test_a_warm_start_equals_a_cold_start(likelihood, power):
    problem = case(likelihood, power, Nugget(0.1))
    cold = problem.sparse()
    nearby = replace(problem, model=problem.model.with_theta(problem.model.theta + 0.1)).sparse(gradient=False)
    blocks = InMemory(problem.rows, block_size=7)
    sparse_evidence(nearby.state.model, blocks, problem.Z, jitter=problem.jitter)
    beside = replace(problem, rows=blocks).sparse()  # from what the neighbour has left beside the blocks
    for warm in (*(problem.sparse(start=start) for start in (cold.state.gamma, nearby.state.gamma)), beside):
        assert warm.converged
        assert_same_evidence(warm, cold, rtol=1e-9)
    full_cold = full_evidence(problem.model, problem.rows)
    nearby_full = full_evidence(nearby.state.model, problem.rows)
    full_warm = full_evidence(problem.model, problem.rows, start=nearby_full.state.a)
    assert_allclose(full_warm.value, full_cold.value, rtol=1e-9)
    assert_allclose(full_warm.gradient, full_cold.gradient, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("last", [np.inf, 1e308, -1.0], ids=["infinite", "without digits", "negative"])
def test_sites_that_make_no_posterior_are_no_start(last):
    problem = case(lik.Poisson(), 0.5, Nugget(0.1))
    cold, blocks = problem.sparse(), InMemory(problem.rows, block_size=7)
    blocks.restore(np.full((len(problem.rows), 3), last))
    warm = replace(problem, rows=blocks).sparse()
    assert warm.converged
    assert_same_evidence(warm, cold, rtol=1e-9)


@pytest.mark.parametrize("power", [1.0, 0.0])
@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
def test_a_search_goes_on_from_the_function_of_the_last_one_however_many_rows(likelihood, power, monkeypatch):
    """Other parameters make another function of the last gamma, the farther off the more rows there are."""
    rng = np.random.default_rng(4)
    X = rng.uniform(0, 4, size=(40_000, 2))
    f = 2 * np.sin(X[:, 0]) + np.cos(2 * X[:, 1])
    y = rng.poisson(np.exp(f)) if likelihood == "poisson" else rng.uniform(size=len(f)) < 1 / (1 + np.exp(-2 * f))
    rows, Z, jitter, counted = Rows(X, y.astype(float), None, np.empty((len(X), 0))), X[:60], Jitter(1e-8, X[:4]), []
    blocks = InMemory(rows, block_size=10_000)
    parts = {"mean": means.Zero(), "power": power, "inference": laplace.Laplace()}
    first, second = (Model(SquaredExponential(9.0, scale), LIKELIHOODS[likelihood], **parts) for scale in (1.3, 1.0))
    monkeypatch.setattr(laplace, "next_serial", lambda: counted.append(1) or len(counted))
    start = sparse_evidence(first, blocks, Z, jitter=jitter, gradient=False)
    n_cold = len(counted)
    warm = sparse_evidence(second, blocks, Z, jitter=jitter, gradient=False)
    n_warm = len(counted) - n_cold
    cold = sparse_evidence(second, rows, Z, jitter=jitter, gradient=False)
    assert start.converged and warm.converged and n_warm <= 6 < n_cold, (n_warm, n_cold)
    assert_allclose(warm.value, cold.value, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("size", [50.0, 1e6, 1e100, np.nan])
@pytest.mark.parametrize("likelihood", LIKELIHOODS.values(), ids=LIKELIHOODS)
def test_a_nonsense_start_gives_the_same_answer(likelihood, size):
    """A posterior that is not log-concave may have several modes, so there only a mode is asked for."""
    problem = case(likelihood, 1.0, Nugget(0.1))
    cold = problem.sparse()
    nonsense = size * np.random.default_rng(0).normal(size=len(problem.rows))
    blocks = InMemory(problem.rows, block_size=7)
    blocks.restore(nonsense)
    for found, expected in (
        (problem.sparse(start=nonsense[: len(problem.Z)]), cold),
        (replace(problem, rows=blocks).sparse(), cold),
        (full_evidence(problem.model, problem.rows, start=nonsense), full_evidence(problem.model, problem.rows)),
    ):
        assert found.converged
        if likelihood.log_concave:
            assert_allclose(found.value, expected.value, rtol=1e-9)
            assert_allclose(found.gradient, expected.gradient, rtol=1e-6, atol=1e-6)


# -- the search for the mode ----------------------------------------------------------------------------------


def recorded_search(monkeypatch, module, name):
    """Record psi at every point that the search accepts."""
    accepted = []

    class Recorded(getattr(module, name)):
        def evaluate(self, step, *, true_curvature):
            psi, decrement = super().evaluate(step, true_curvature=true_curvature)
            self.last = psi
            return psi, decrement

        def accept(self):
            super().accept()
            accepted.append(self.last)

    monkeypatch.setattr(module, name, Recorded)
    return accepted


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("likelihood", LIKELIHOODS.values(), ids=LIKELIHOODS)
def test_the_search_never_goes_down(likelihood, power, monkeypatch):
    accepted = recorded_search(monkeypatch, laplace, "SparseSearch")
    problem = case(likelihood, power, kernel=Matern32(30.0, 0.7))
    assert problem.sparse(gradient=False).converged
    assert len(accepted) > 1
    assert np.all(np.diff(accepted) >= -1e-11 * np.abs(accepted[:-1]))


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("largest", [1e2, 1e4, 1e7])
@pytest.mark.parametrize("mean", [0.0, 5.0])
def test_the_mode_of_huge_counts_is_reached_from_a_cold_start(largest, mean, power, monkeypatch):
    accepted = recorded_search(monkeypatch, laplace, "SparseSearch")
    rng = np.random.default_rng(2)
    X = rng.normal(size=(60, 2))
    y = np.floor(largest * rng.uniform(size=60) ** 8)
    y[0], y[1] = largest, 0.0
    model = Model(Matern32(4.0, 1.0), lik.Poisson(), means.Constant(mean), power, Nugget(0.5))
    found = sparse_evidence(model, Rows(X, y, None, np.empty((60, 0))), X[:10], jitter=Jitter(1e-6, X[:3]))
    assert found.converged
    assert np.isfinite(found.value) and np.isfinite(found.gradient).all()
    assert np.all(np.diff(accepted) >= -1e-11 * np.abs(accepted[:-1]))


def test_a_search_that_is_cut_short_says_so(monkeypatch):
    problem = case(lik.Poisson(), 1.0, Nugget(0.1))
    monkeypatch.setattr(newton, "MAX_ITERATIONS", 1)
    assert not problem.sparse().converged
    assert not full_evidence(problem.model, problem.rows).converged
    beta = case(lik.Beta(6.0), 1.0, Nugget(0.1))
    assert not beta.sparse().converged


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("name", ["student-t", "beta"])
@pytest.mark.parametrize("seed", range(6))
def test_without_log_concavity_the_search_ends_at_a_stationary_point(name, power, seed):
    """At a mode a = d log p / df; outliers (or shares near 0 and 1) make some curvatures negative."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(50, 2))
    f = np.sin(2 * X[:, 0])
    if name == "student-t":
        likelihood, y = lik.StudentT(0.1, 3.0), f + 0.1 * rng.standard_t(3, 50)
        y[::10] += rng.choice([-4.0, 4.0], 5)
    else:
        likelihood, y = lik.Beta(5.0), np.clip(lik.Beta(5.0).sample(3 * f, rng), 1e-6, 1 - 1e-6)
    model = Model(Matern32(1.0, 0.8), likelihood, means.Constant(0.0), power, Nugget(0.01))
    rows = Rows(X, y, None, np.empty((50, 0)))
    sparse = sparse_evidence(model, rows, X[:12], jitter=Jitter(1e-8, X[:3]))
    full = full_evidence(model, rows)
    kernel = model.kernel
    Kuu = kernel(X[:12], X[:12]) + 1e-8 * np.eye(12)
    Q = kernel(X, X[:12]) @ np.linalg.solve(Kuu, kernel(X[:12], X))
    P_sparse = Q + np.diag(power * np.maximum(np.diag(kernel(X, X) - Q), 0) + 0.01)
    for evidence, P in ((sparse, P_sparse), (full, kernel(X, X) + 0.01 * np.eye(50))):
        assert evidence.converged
        assert np.isfinite(evidence.value) and np.isfinite(evidence.gradient).all()
        a = residuals(evidence, rows)
        d = likelihood.derivatives(y, P @ a, 1.0)
        if name == "student-t":
            assert (d.second > 0).any()  # else the test shows nothing
        assert_allclose(a, d.first, atol=1e-6 * max(1.0, np.abs(d.first).max()))
        # a maximum: the Hessian P^-1 + W has the signs of I + P W
        assert np.linalg.slogdet(np.eye(50) - P * d.second)[0] > 0


TWO_ROWS = Rows(np.zeros((2, 1)), np.array([-1.0, 1.0]), None, np.empty((2, 0)))
#: knots, power and nugget of two opposed observations at one place, by what bends upwards between them
SADDLES = {
    "both, through a knot": (0.0, 0.0, 0.0),
    "both, through a knot, with nugget": (0.0, 0.0, 0.01),
    "each row by itself": (50.0, 1.0, 0.0),
    "a bit of both": (0.8, 0.5, 0.02),
    "the exact GP": (None, 1.0, 0.01),
}


@pytest.mark.parametrize("knot, power, nugget", SADDLES.values(), ids=SADDLES)
def test_the_search_leaves_a_saddle_for_a_mode(knot, power, nugget):
    """Between two opposed outliers the gradient is 0 at the start; the posterior has its modes at one or the other."""
    model = Model(
        SquaredExponential(4.0, 1.0), lik.StudentT(0.05, 4.0), means.Constant(0.0), power, Nugget(nugget or 1e-9)
    )
    kernel, X = model.kernel, TWO_ROWS.X
    if knot is None:
        found, P = full_evidence(model, TWO_ROWS), kernel(X, X)
    else:
        Z = np.array([[knot]])
        found = sparse_evidence(model, TWO_ROWS, Z, jitter=Jitter(1e-10, Z))
        Q = kernel(X, Z) @ kernel(Z, X) / (kernel(Z, Z) * (1 + 1e-10))
        P = Q + power * np.diag(np.diag(kernel(X, X) - Q))
    P = P + model.nugget.variance * np.eye(2)
    a = residuals(found, TWO_ROWS)
    f = P @ a
    d = model.likelihood.derivatives(TWO_ROWS.y, f)
    assert found.converged
    assert_allclose(a, d.first, atol=1e-6)
    assert np.abs(f).max() > 0.5  # not between the two
    root = np.linalg.cholesky(P)
    assert np.linalg.eigvalsh(np.eye(2) - root.T @ np.diag(d.second) @ root).min() > 0
    assert np.isfinite(found.value) and np.isfinite(found.gradient).all()


@pytest.mark.parametrize("power", POWERS)
def test_observations_far_from_the_prior_mean_are_reached_in_few_steps(power, monkeypatch):
    """Ten thousand scales away the Fisher information would take steps of a ten-thousandth of a scale."""
    accepted = recorded_search(monkeypatch, laplace, "SparseSearch")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    model = Model(SquaredExponential(1.0, 5.0), lik.StudentT(1e-4, 4.0), means.Constant(0.0), power, Nugget(1e-8))
    rows = Rows(X, 1.0 + X[:, 0], None, np.empty((30, 0)))
    assert sparse_evidence(model, rows, X[:12], jitter=Jitter(1e-10, X[:3])).converged
    assert len(accepted) < 60


def test_outliers_do_not_pay_for_a_function_that_no_knot_sees():
    """With VFE a site of negative precision would earn what others pay, without bound in the prior variance."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    rows = Rows(X, rng.normal(size=60), None, np.empty((60, 0)))
    likelihood = lik.StudentT(0.01, 3.0)
    assert (likelihood.derivatives(rows.y, np.zeros(60)).second > 0).sum() > 30  # else the test shows nothing

    def value(variance):
        model = Model(SquaredExponential(variance, 0.1), likelihood, means.Constant(0.0), 0.0, NoNugget())
        return sparse_evidence(model, rows, X[:2] + 50.0, jitter=Jitter(1e-6, X[:3]), gradient=False).value

    values = [value(variance) for variance in (1e-3, 1.0, 1e3, 1e6)]
    assert np.all(np.diff(values) <= 0)


# -- golden numbers -------------------------------------------------------------------------------------------

GOLDEN = {
    name: golden
    for name, golden in json.loads((Path(__file__).parent / "golden" / "cases.json").read_text())["cases"].items()
    if golden["likelihood"] != "gaussian"
}


@pytest.fixture(params=GOLDEN)
def golden(request):
    return GOLDEN[request.param]


def golden_case(golden):
    likelihood = {"poisson": lik.Poisson(), "bernoulli": lik.Bernoulli()}[golden["likelihood"]]
    model = Model(
        SquaredExponential(golden["variance"], golden["lengthscale"]),
        likelihood,
        means.Constant(golden["mean"]),
        1.0,
        Nugget(golden["nugget"]),
    )
    X, size = np.array(golden["X"]), golden["exposure"]
    rows = Rows(X, np.array(golden["y"], float), None, np.empty((len(X), 0)), None if size is None else np.array(size))
    return Case(model, rows, np.array(golden["knots"]), Jitter(golden["jitter"], X[:4]))


def test_the_engine_gives_the_golden_numbers(golden):
    problem, expected = golden_case(golden), golden["expected"]
    found = problem.sparse()
    assert_allclose(found.value, expected["fic_log_evidence"], rtol=1e-7)
    scale = np.abs(expected["fic_knot_gradient"]).max()
    assert_allclose(found.knot_gradient, expected["fic_knot_gradient"], rtol=1e-7, atol=1e-7 * scale)
    explained, c = dense_parts(problem)
    a = residuals(found, problem.rows)
    mode = golden["mean"] + explained @ a + (c + golden["nugget"]) * a
    assert_allclose(mode, expected["fic_mode"], rtol=1e-7, atol=1e-7)
    X_test = np.array(golden["X_test"])
    latent = KnotPosterior(found.state).latent(X_test)
    assert_allclose(latent.mean, expected["fic_latent_mean"], rtol=1e-7, atol=1e-7)
    assert_allclose(latent.variance, expected["fic_latent_variance_without_nugget"], rtol=1e-7)
    full = full_evidence(problem.model, problem.rows)
    assert_allclose(full.value, expected["full_log_evidence"], rtol=1e-7)
    latent = ExactPosterior(full.state).latent(X_test)
    assert_allclose(latent.mean, expected["full_latent_mean"], rtol=1e-7, atol=1e-7)
    assert_allclose(latent.variance, expected["full_latent_variance_without_nugget"], rtol=1e-7)


@pytest.mark.parametrize("approximation", ["fic", "full"])
def test_the_estimator_gives_the_golden_numbers(golden, approximation):
    expected = golden["expected"]
    gp = GPRegressor(
        inference="laplace",
        kernel=SquaredExponential(golden["variance"], golden["lengthscale"]),
        likelihood=golden["likelihood"],
        nugget=golden["nugget"],
        mean=golden["mean"],
        knots=np.array(golden["knots"]),
        jitter=golden["jitter"],
        approximation=approximation,
        optimizer=None,
        standardize=False,
    ).fit(golden["X"], golden["y"], exposure=golden["exposure"])
    assert gp.converged_
    assert_allclose(gp.log_evidence_, expected[f"{approximation}_log_evidence"], rtol=1e-7)
    latent = gp.predict_latent(golden["X_test"])
    assert_allclose(latent.mean, expected[f"{approximation}_latent_mean"], rtol=1e-7, atol=1e-7)
    assert_allclose(latent.variance, expected[f"{approximation}_latent_variance_without_nugget"], rtol=1e-7)
    if approximation == "fic":
        scale = np.abs(expected["fic_knot_gradient"]).max()
        assert_allclose(gp.evidence().knot_gradient, expected["fic_knot_gradient"], rtol=1e-7, atol=1e-7 * scale)


@pytest.mark.parametrize("approximation", ["fic", 0.5, "vfe", "full"])
def test_the_estimators_gradient_is_that_of_its_evidence_in_the_users_units(approximation, rng):
    problem = case(lik.StudentT(0.3, 4.0), n=60)
    y = 100 * problem.rows.y + 1e3
    gp = GPRegressor(
        inference="laplace",
        kernel=Matern32(1e4, 0.8, column_scales="standard"),
        likelihood=lik.StudentT(30.0, 4.0),
        nugget=900.0,
        mean=950.0,
        knots=problem.Z,
        approximation=approximation,
        optimizer=None,
    ).fit(problem.rows.X * [1.0, 50.0], y)

    def value_and_gradient(theta):
        evidence = gp.evidence(theta)
        return evidence.value, evidence.gradient

    assert list(gp.parameters_.names) == ["variance", "lengthscale", "scale", "df", "nugget", "mean"]
    assert_allclose(gp.parameters_.values, [1e4, 0.8, 30.0, 4.0, 900.0, 950.0])
    assert_adjoint(value_and_gradient, gp.parameters_.theta, rng, rtol=1e-5)


# -- scikit-learn ---------------------------------------------------------------------------------------------


def test_the_full_gp_is_scikit_learns_classifier():
    from scipy.linalg import solve
    from sklearn.gaussian_process import GaussianProcessClassifier
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel

    rng = np.random.default_rng(11)
    X, X_new = rng.normal(size=(80, 2)), rng.normal(size=(20, 2))
    y = (rng.random(80) < 1 / (1 + np.exp(-3 * np.sin(2 * X[:, 0])))).astype(float)
    theirs = GaussianProcessClassifier(ConstantKernel(2.5) * RBF([0.8, 1.3]), optimizer=None, max_iter_predict=1000)
    theirs.fit(X, y)
    ours = GPRegressor(
        SquaredExponential(2.5, [0.8, 1.3]),
        "bernoulli",
        "full",
        mean="zero",
        inference="laplace",
        optimizer=None,
        standardize=False,
    ).fit(X, y)
    assert_allclose(ours.log_evidence_, theirs.log_marginal_likelihood(), rtol=1e-6)
    base = theirs.base_estimator_
    cross = base.kernel_(X_new, X)
    mean = cross @ (y - base.pi_)
    W = base.pi_ * (1 - base.pi_)
    variance = 2.5 - np.einsum("ij,ji->i", cross, solve(base.kernel_(X) + np.diag(1 / W), cross.T))
    latent = ours.predict_latent(X_new)
    assert_allclose(latent.mean, mean, rtol=1e-6, atol=1e-6)
    assert_allclose(latent.variance, variance, rtol=1e-6)
    # theirs approximates the logistic function by a sum of error functions
    assert_allclose(ours.predict(X_new), theirs.predict_proba(X_new)[:, 1], atol=1e-3)


def test_the_exact_gp_comes_back_from_a_start_whose_counts_are_beyond_all_digits(monkeypatch):
    """At f = 64 a step of -1 is what is left of numbers of 1e25; x - R P x has lost it."""
    problem = case(lik.Poisson(), nugget=Nugget(0.2), n=30)
    expected = full_evidence(problem.model, problem.rows)
    start = np.zeros(30)
    start[3] = 64.0 / (problem.model.kernel.diag(problem.rows.X[3:4])[0] + 0.2)
    accepted = recorded_search(monkeypatch, laplace_exact, "FullSearch")
    monkeypatch.setattr(lik.Poisson, "log_concave", False)  # so that the search keeps this start
    found = full_evidence(problem.model, problem.rows, start=start)
    assert found.converged and accepted[0] < -1e20
    assert_allclose(found.value, expected.value, rtol=1e-10)
    assert_allclose(found.gradient, expected.gradient, rtol=1e-6, atol=1e-8)


def test_the_exact_gp_of_log_concave_data_starts_where_the_posterior_is_higher(monkeypatch):
    problem = case(lik.Poisson(), nugget=Nugget(0.2), n=30)
    accepted = recorded_search(monkeypatch, laplace_exact, "FullSearch")
    full_evidence(problem.model, problem.rows)
    cold = accepted.copy()
    accepted.clear()
    full_evidence(problem.model, problem.rows, start=np.full(30, 9.0))
    assert accepted == cold


def test_what_is_left_over_keeps_its_digits_beside_a_huge_precision():
    """(I + W P)^-1 x against elimination in exact fractions; as x - R P x its first entry is rounding only."""
    P = np.array([[2.0, 0.5, 0.25], [0.5, 1.5, 0.75], [0.25, 0.75, 1.0]])
    W, x = np.array([2.0**84, 1.0, 0.0]), np.array([-(2.0**84), 0.5, 0.25])
    exact = [[Fraction(value) for value in row] for row in np.column_stack([np.eye(3) + W[:, None] * P, x])]
    for i, j in product(range(3), range(3)):
        if i != j:
            factor = exact[j][i] / exact[i][i]
            exact[j] = [b - factor * a for a, b in zip(exact[i], exact[j], strict=True)]
    expected = [float(row[3] / row[i]) for i, row in enumerate(exact)]
    assert_allclose(RootPrecision.of(P, W).left_over(P, x), expected, rtol=1e-12)


# -- steep likelihoods ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("full", [False, True])
def test_a_likelihood_too_steep_at_the_prior_mean_is_searched_from_the_data(full):
    rng = np.random.default_rng(1)
    X = np.sort(rng.uniform(size=(30, 1)), axis=0)
    y = np.exp(4 * np.sin(9 * X[:, 0]))
    model = Model(SquaredExponential(9.0, 0.05), lik.Weibull(100.0), means.Constant(0.0), 0.0)
    rows, jitter = Rows(X, y, None, np.empty((30, 0))), Jitter(1e-8, X[:2])
    found = full_evidence(model, rows) if full else sparse_evidence(model, rows, X, jitter=jitter)
    assert found.converged and np.isfinite(found.value)
    # at the mode a = d log p / df, and f = P a
    a = residuals(found, rows)
    P = model.kernel(X, X)
    f = P @ a if full else P @ np.linalg.solve(P + 1e-8 * 9 * np.eye(30), P @ a)
    assert_allclose(a, model.likelihood.derivatives(y, f).first, atol=1e-3 * np.abs(a).max())


@pytest.mark.parametrize("approximation", ["vfe", "full"])
def test_a_likelihood_that_is_not_finished_says_what_is_to_be_written(approximation):
    class Unfinished(lik.Poisson):
        def derivatives(self, y, f, size=1.0):
            raise NotImplementedError("derivatives are to be written")

    X = np.linspace(0, 1, 12)[:, None]
    with pytest.raises(NotImplementedError, match="to be written"):
        GPRegressor(likelihood=Unfinished(), knots=4, approximation=approximation).fit(X, np.arange(12.0))
