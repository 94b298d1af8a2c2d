"""The seams of the engine: parts that it does not know (inference, residual, selector, noise), by their definitions."""

from copy import copy
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from scipy.special import gammaln

import knotwise
from knotwise import GPRegressor, cross_validate
from knotwise import likelihoods as lik
from knotwise.errors import InvalidInputError
from knotwise.evidence import InMemory, Jitter, Model, Rows, full_evidence, sparse_evidence
from knotwise.evidence.inference import Conjugate, Laplace, inference_of
from knotwise.evidence.residual.ordering import vecchia_ordering
from knotwise.evidence.scores import row_scores
from knotwise.kernels import Linear as LinearKernel
from knotwise.kernels import Matern12, Matern32, SquaredExponential
from knotwise.knots import Fixed
from knotwise.means import Constant, Linear, Zero
from knotwise.noise import ConstantNoise, Inputs, Nugget
from knotwise.numerics.blocks import Serial
from knotwise.posterior.exact import ExactPosterior
from knotwise.posterior.knots import KnotPosterior
from knotwise.posterior.vecchia import VecchiaPosterior, VecchiaState
from knotwise.selection.problem import Run
from knotwise.testing import (
    assert_adjoint,
    check_posterior,
    check_selector,
    dense_full_evidence,
    dense_full_posterior,
    dense_sparse_evidence,
    dense_sparse_posterior,
)
from toys import Chain, EveryFew, LogLinearNoise, SlopePosterior, Slopes, Variational


def data(likelihood, *, n=40, n_knots=5, mean=None, weighted=False, known_noise=False, kernel=None, **options):
    """Model, rows, knots and jitter for data drawn from the likelihood."""
    rng = np.random.default_rng(11)
    X = rng.normal(size=(n, 2))
    size = rng.uniform(0.5, 2, n) if likelihood.size_name == "exposure" else None
    y = likelihood.sample(0.4 + np.sin(2 * X[:, 0]) + 0.3 * X[:, 1], rng, 1.0 if size is None else size)
    mean = (mean or Constant(0.2)).bind(X, 1.0, 0.2)
    weights = rng.integers(1, 4, n).astype(float) if weighted else None
    noise = rng.uniform(0.05, 0.4, n) if known_noise else None
    model = Model(kernel or Matern32(1.1, [0.9, 1.3]), likelihood, mean, **options)
    return model, Rows(X, y, noise, mean.basis(X), size, weights), rng.normal(size=(n_knots, 2)), Jitter(1e-6, X[:4])


def assert_gradient_is_the_derivative(model, rows, Z, jitter, rng, rtol=1e-6, **options):
    """Assert it in theta and in the knots at once."""
    p = len(model.theta)

    def value_and_gradient(vector):
        at = model.with_theta(vector[:p]), rows, vector[p:].reshape(Z.shape)
        found = sparse_evidence(*at, jitter=jitter, **options)
        assert found.converged
        return found.value, np.concatenate([found.gradient, found.knot_gradient.ravel()])

    assert_adjoint(value_and_gradient, np.concatenate([model.theta, Z.ravel()]), rng, rtol, n_directions=4)


# -- an inference ---------------------------------------------------------------------------------------------


def largest_bound(model, rows, Z, jitter):
    """The largest E log p(y | f) - KL(q(u) || p(u)) over Gaussian q(u), by its definition, for Poisson data."""
    kernel, K = model.kernel, len(Z)
    Kuu = kernel(Z, Z) + jitter.relative * np.diag(kernel(jitter.points, jitter.points)).mean() * np.eye(K)
    P = np.linalg.solve(Kuu, kernel(Z, rows.X)).T  # E(f | u) = m + P u
    c = np.diag(kernel(rows.X, rows.X) - P @ kernel(Z, rows.X))
    lower = np.tril_indices(K)

    def minus_bound(q):
        mean, L = q[:K], np.zeros((K, K))
        L[lower] = q[K:]
        S = L @ L.T
        mu, tau = model.mean.offset + P @ mean, c + np.einsum("nk,kl,nl->n", P, S, P)
        expected = rows.y * (mu + np.log(rows.size)) - rows.size * np.exp(mu + tau / 2) - gammaln(rows.y + 1)
        divergence = np.trace(np.linalg.solve(Kuu, S)) + mean @ np.linalg.solve(Kuu, mean) - K
        divergence += np.linalg.slogdet(Kuu)[1] - np.linalg.slogdet(S)[1]
        return 0.5 * divergence - rows.total(expected)

    start = np.concatenate([np.zeros(K), 0.3 * np.eye(K)[lower]])
    return -minimize(minus_bound, start, method="BFGS", options={"gtol": 1e-5}).fun


@pytest.mark.parametrize("weighted", [False, True])
def test_variational_sites_have_the_largest_bound_of_all_gaussians(weighted):
    model, rows, Z, jitter = data(lik.Poisson(), power=0.0, inference=Variational(), weighted=weighted)
    found = sparse_evidence(model, rows, Z, jitter=jitter)
    assert found.converged
    assert_allclose(found.value, largest_bound(model, rows, Z, jitter), rtol=1e-8)


def test_variational_sites_of_gaussian_data_are_the_observations():
    model, rows, Z, jitter = data(lik.Gaussian(0.2), power=0.0, mean=Linear(2.0))
    known = sparse_evidence(model, rows, Z, jitter=jitter)
    found = sparse_evidence(replace(model, inference=Variational()), rows, Z, jitter=jitter)
    assert_allclose(found.value, known.value, rtol=1e-9)
    assert_allclose(found.gradient, known.gradient, rtol=1e-7, atol=1e-7)
    assert_allclose(found.knot_gradient, known.knot_gradient, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize(
    ("likelihood", "options"),
    [
        (lik.Poisson(), {}),
        (lik.Poisson(), {"mean": Linear(1.0), "weighted": True}),
        (lik.Bernoulli(), {}),
        (lik.Gamma(2.5), {"mean": Linear(1.0)}),
        (lik.NegativeBinomial(0.4), {"weighted": True}),
    ],
    ids=["counts", "counts-trend-weights", "labels", "gamma", "negative-binomial"],
)
def test_the_one_adjoint_is_the_gradient_of_a_bound_that_it_does_not_know(likelihood, options, rng):
    case = data(likelihood, power=0.0, inference=Variational(), **options)
    assert_gradient_is_the_derivative(*case, rng, rtol=1e-5)


def test_what_works_for_known_inferences_works_for_a_new_one():
    model, rows, Z, jitter = data(lik.Poisson(), power=0.0, inference=Variational(), n=120)
    whole = sparse_evidence(model, rows, Z, jitter=jitter)
    parts = sparse_evidence(model, rows, Z, jitter=jitter, block_size=17, keep_bytes=0)
    assert_allclose(parts.value, whole.value, rtol=1e-10)
    assert_allclose(parts.gradient, whole.gradient, rtol=1e-8)
    latent = KnotPosterior(whole.state).latent(rows.X)
    scores = row_scores(model, rows, Z, jitter=jitter)
    assert_allclose(scores.v, latent.variance, rtol=1e-8)
    rate = rows.size * np.exp(latent.mean + latent.variance / 2)
    assert_allclose(scores.a, rows.y - rate, rtol=1e-6, atol=1e-7)
    assert_allclose(scores.W, rate, rtol=1e-7)


def test_a_selector_fits_parameters_by_a_new_inference(rng):
    X = rng.uniform(size=(150, 1))
    y = rng.poisson(np.exp(np.sin(6 * X[:, 0]))).astype(float)
    options = {"likelihood": "poisson", "inference": "laplace", "random_state": 0}
    fitted = GPRegressor(SquaredExponential(), knots=X[::20], **options).fit(X, y)
    problem = fitted._fit.problem
    at = fitted._fit.selection.point
    new = replace(problem, model=replace(problem.model, inference=Variational()))
    found = Fixed(X[::20]).select(replace(new, given=np.ones_like(new.given)), rng)
    assert found.result.converged
    assert found.evidence.value > new.evaluate(at, gradient=False).value - 1e-9


def test_an_inference_that_refuses_a_model_says_why():
    for inference, model, why in (
        (Variational(), {"power": 1.0}, "Variational inference cannot be used here: it is for power 0"),
        (Conjugate(), {}, "Conjugate inference cannot be used here: it is for Gaussian data; use 'laplace'"),
        (Laplace(), {"residual": Chain()}, "The Laplace approximation cannot be used here: it needs rows that are ind"),
    ):
        with pytest.raises(InvalidInputError, match=why):
            sparse_evidence(
                *data(lik.Poisson(), inference=inference, **model)[:3], jitter=Jitter(1e-6, np.zeros((1, 2)))
            )


def test_a_model_for_which_no_inference_is_known_is_an_error_that_names_them_all():
    model = data(lik.Poisson(), residual=Chain())[0]
    with pytest.raises(InvalidInputError, match=r"Conjugate inference cannot.*The Laplace approximation cannot.*given"):
        inference_of(model)
    with pytest.raises(InvalidInputError, match=r"a nugget cannot be told.*independent"):
        inference_of(replace(model, likelihood=lik.Gaussian(0.1), nugget=Nugget(0.1)))


# -- a residual -----------------------------------------------------------------------------------------------


def chain_covariance(model, rows, Z, jitter):
    """Covariance of the targets where what the knots leave, with its noise, is a chain in the order of the rows."""
    kernel, N = model.kernel, len(rows)
    Kuu = kernel(Z, Z) + jitter.relative * np.diag(kernel(jitter.points, jitter.points)).mean() * np.eye(len(Z))
    Q = kernel(rows.X, Z) @ np.linalg.solve(Kuu, kernel(Z, rows.X))
    noise = model.likelihood.value("noise_variance") if rows.noise_variance is None else rows.noise_variance
    C = kernel(rows.X, rows.X) - Q + np.diag(np.full(N, noise))
    A, D = np.zeros((N, N)), C.diagonal().copy()
    for i in range(1, N):  # z_i = A z_(i-1) + an innovation of variance D
        A[i, i - 1] = C[i, i - 1] / C[i - 1, i - 1]
        D[i] -= A[i, i - 1] * C[i, i - 1]
    chain = np.linalg.solve(np.eye(N) - A, np.diag(np.sqrt(D)))
    return Q + chain @ chain.T + rows.basis @ rows.basis.T


def log_density(r, C):
    return -0.5 * (len(r) * np.log(2 * np.pi) + np.linalg.slogdet(C)[1] + r @ np.linalg.solve(C, r))


CHAINS = {
    "zero-mean": {"mean": Zero()},
    "constant-mean": {},
    "linear-mean": {"mean": Linear(1.0)},
    "known-noise": {"known_noise": True},
    "own-diagonal": {"kernel": Matern32(0.7, 1.1) + LinearKernel([0.4, 0.9])},
}
chains = pytest.mark.parametrize("options", CHAINS.values(), ids=CHAINS.keys())
block_sizes = pytest.mark.parametrize("block_size", [None, 13, 1])


@chains
@block_sizes
def test_a_chain_of_rows_is_the_gaussian_that_it_says(options, block_size):
    model, rows, Z, jitter = data(lik.Gaussian(0.2), residual=Chain(), **options)
    found = sparse_evidence(model, rows, Z, jitter=jitter, block_size=block_size)
    C = chain_covariance(model, rows, Z, jitter)
    assert_allclose(found.value, log_density(rows.y - model.mean.offset, C), rtol=1e-11)


@chains
@block_sizes
def test_the_gradient_reaches_the_rows_of_other_blocks(options, block_size, rng):
    case = data(lik.Gaussian(0.2), residual=Chain(), **options)
    assert_gradient_is_the_derivative(*case, rng, block_size=block_size)


@pytest.mark.parametrize("keep_bytes", [2**28, 0])
def test_a_chain_does_not_depend_on_the_blocks(keep_bytes):
    model, rows, Z, jitter = data(lik.Gaussian(0.2), residual=Chain(), mean=Linear(1.0), n=90)
    whole = sparse_evidence(model, rows, Z, jitter=jitter)
    for block_size in (1, 7, 30, 89):
        parts = sparse_evidence(model, rows, Z, jitter=jitter, block_size=block_size, keep_bytes=keep_bytes)
        assert_allclose(parts.value, whole.value, rtol=1e-12)
        assert_allclose(parts.gradient, whole.gradient, rtol=1e-10, atol=1e-10)
        assert_allclose(parts.knot_gradient, whole.knot_gradient, rtol=1e-9, atol=1e-10)


def test_a_chain_of_two_rows_is_the_exact_gp_whatever_the_knots():
    model, rows, Z, jitter = data(lik.Gaussian(0.2), residual=Chain(), n=2)
    exact = full_evidence(model, rows)
    found = sparse_evidence(model, rows, Z, jitter=jitter)
    assert_allclose(found.value, exact.value, rtol=1e-12)
    assert_allclose(found.gradient, exact.gradient, rtol=1e-8, atol=1e-10)
    assert_allclose(found.knot_gradient, 0.0, atol=1e-10)


def test_a_chain_without_noise_is_the_exact_gp_for_a_markov_process(rng):
    X = np.sort(rng.uniform(size=(60, 1)), axis=0)
    y = np.linalg.cholesky(Matern12(1.0, 0.4)(X)) @ rng.normal(size=60)
    model = Model(Matern12(1.0, 0.4), lik.Gaussian(1e-12), Zero(), residual=Chain())
    rows = Rows(X, y, None, np.empty((60, 0)))
    Z = np.linspace(0.1, 0.9, 4)[:, None]
    found = sparse_evidence(model, rows, Z, jitter=Jitter(0.0, X[:1]))
    assert_allclose(found.value, full_evidence(model, rows).value, rtol=1e-7)
    fic = sparse_evidence(replace(model, residual=None), rows, Z, jitter=Jitter(0.0, X[:1]))
    assert found.value > fic.value + 5


# -- a selector -----------------------------------------------------------------------------------------------


def test_a_selector_of_a_few_lines_keeps_the_contract():
    check_selector(EveryFew())


def test_a_selector_of_ones_own_is_an_option_of_an_estimator(rng):
    X = np.sort(rng.uniform(size=(100, 1)), axis=0)
    gp = GPRegressor(knots=EveryFew(10), standardize=False).fit(X, np.sin(6 * X[:, 0]) + 0.1 * rng.normal(size=100))
    assert_array_equal(gp.knots_, X[::10])
    assert "10 knots on every 10th row" in gp.stop_reason_
    again = EveryFew(10).select(replace(gp._fit.problem, run=Run(InMemory(gp._fit.problem.rows))), rng)
    assert_array_equal(again.Z, X[::10])


# -- a noise --------------------------------------------------------------------------------------------------


def noisy(**options):
    """A model whose noise grows with the first input; and the same rows with that noise as known, for the twins."""
    model, rows, Z, jitter = data(lik.Gaussian(0.2), **options)
    grows = replace(model, likelihood=lik.Gaussian(LogLinearNoise(0.2, 0.7)))
    known = replace(rows, noise_variance=0.2 * np.exp(0.7 * rows.X[:, 0]))
    return grows, model, rows, known, Z, jitter


powers = pytest.mark.parametrize("power", [1.0, 0.5, 0.0], ids=["fic", "between", "vfe"])


@powers
@pytest.mark.parametrize("block_size", [None, 13])
def test_evidence_with_a_noise_function_is_the_dense_formula(power, block_size, rng):
    grows, model, rows, known, Z, jitter = noisy(power=power, mean=Linear(1.0))
    found = sparse_evidence(grows, rows, Z, jitter=jitter, block_size=block_size)
    assert_allclose(found.value, dense_sparse_evidence(model, known, Z, jitter), rtol=1e-11)
    assert_gradient_is_the_derivative(grows, rows, Z, jitter, rng, block_size=block_size)


@powers
def test_a_noise_function_goes_with_sample_weights(power, rng):
    grows, _, rows, _, Z, jitter = noisy(power=power, weighted=True)
    repeated = replace(rows[np.repeat(np.arange(len(rows)), rows.weights.astype(int))], weights=None)
    value = sparse_evidence(grows, rows, Z, jitter=jitter).value
    assert_allclose(value, sparse_evidence(grows, repeated, Z, jitter=jitter).value, rtol=1e-11)
    assert_gradient_is_the_derivative(grows, rows, Z, jitter, rng)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_exact_gp_has_a_noise_function(weighted, rng):
    grows, model, rows, known, _, _ = noisy(weighted=weighted)
    found = full_evidence(grows, rows)
    assert_allclose(found.value, full_evidence(model, known, gradient=False).value, rtol=1e-12)
    if not weighted:
        assert_allclose(found.value, dense_full_evidence(model, known), rtol=1e-11)

    def value_and_gradient(theta):
        at = full_evidence(grows.with_theta(theta), rows)
        return at.value, at.gradient

    assert_adjoint(value_and_gradient, grows.theta, rng, 1e-6)


@pytest.mark.parametrize("options", [{}, {"weighted": True}, {"mean": Linear(1.0)}], ids=["plain", "weights", "trend"])
@pytest.mark.parametrize("block_size", [None, 13])
def test_vecchia_neighbours_have_a_noise_function(options, block_size, rng):
    grows, model, rows, known, Z, jitter = noisy(**options)
    found = vecchia_ordering(model.kernel, rows, 5, np.random.default_rng(5))
    near, arranged = replace(grows, residual=found.residual), rows[found.rows]
    twin = sparse_evidence(replace(model, residual=found.residual), known[found.rows], Z, jitter=jitter)
    here = sparse_evidence(near, arranged, Z, jitter=jitter, block_size=block_size)
    assert_allclose(here.value, twin.value, rtol=1e-11)
    assert_gradient_is_the_derivative(near, arranged, Z, jitter, rng, block_size=block_size)
    posteriors = [
        VecchiaPosterior(VecchiaState.of(state, some))
        for state, some in ((here.state, arranged), (twin.state, known[found.rows]))
    ]
    new = rng.normal(size=(9, 2))
    latents = [posterior.latent(new) for posterior in posteriors]
    assert_allclose(latents[0].mean, latents[1].mean, rtol=1e-9)
    assert_allclose(latents[0].variance, latents[1].variance, rtol=1e-9)


@powers
def test_posteriors_and_predictions_use_a_noise_function(power, rng):
    grows, model, rows, known, Z, jitter = noisy(power=power)
    new = rng.normal(size=(9, 2))
    for posterior, (mean, covariance) in (
        (
            KnotPosterior(sparse_evidence(grows, rows, Z, jitter=jitter).state),
            dense_sparse_posterior(model, known, Z, jitter, new),
        ),
        (ExactPosterior(full_evidence(grows, rows).state), dense_full_posterior(model, known, new)),
    ):
        latent = posterior.latent(new)
        assert_allclose(latent.mean, mean, rtol=1e-8)
        assert_allclose(latent.variance, covariance.diagonal(), rtol=1e-8)
        _, variance = grows.likelihood_of(Inputs(new)).response_moments(latent.mean, latent.variance)
        assert_allclose(variance, latent.variance + 0.2 * np.exp(0.7 * new[:, 0]), rtol=1e-12)


def test_a_noise_function_is_learned_by_an_estimator(rng):
    X = rng.uniform(-1, 1, size=(300, 1))
    y = np.sin(3 * X[:, 0]) + np.exp(-1.5 + 1.0 * X[:, 0]) * rng.normal(size=300)
    options = {"knots": X[::20], "noise": "constant", "standardize": False, "random_state": 0}
    gp = GPRegressor(SquaredExponential(), lik.Gaussian(LogLinearNoise()), **options).fit(X, y)
    constant = GPRegressor(SquaredExponential(), **options).fit(X, y)
    assert list(gp.parameters_)[-2:] == ["noise_variance__variance_at_zero", "noise_variance__slope"]
    assert gp.log_evidence_ > constant.log_evidence_ + 20
    assert abs(gp.parameters_["noise_variance__slope"] - 2.0) < 0.3  # of the variance: twice that of the sd
    ends = np.array([[-1.0], [1.0]])
    _, sd = gp.predict(ends, return_std=True)
    noise = gp.likelihood_.noise.variance(Inputs(ends))
    assert_allclose(sd**2, gp.predict_latent(ends).variance + noise, rtol=1e-10)
    assert gp.log_predictive_density(X, y).mean() > constant.log_predictive_density(X, y).mean() + 0.05


@pytest.mark.parametrize(
    "options", [{"approximation": "full"}, {"knots": 12, "n_neighbors": 8}], ids=["exact", "vecchia"]
)
def test_predictions_of_every_posterior_have_the_noise_function(options, rng):
    X = rng.uniform(-2, 5, size=(120, 1))  # of which the engine has other units than the user
    y = 7 + 20 * np.sin(X[:, 0]) + np.exp(0.4 * X[:, 0]) * rng.normal(size=120)
    gp = GPRegressor(SquaredExponential(), lik.Gaussian(LogLinearNoise()), random_state=0, **options).fit(X, y)
    ends = np.array([[-2.0], [5.0]])
    scaled = (ends - X.mean()) / X.std()
    noise = gp.likelihood_.noise.variance(Inputs(scaled))
    assert noise[1] > 30 * noise[0]
    assert_allclose(gp.predictive(ends).std ** 2, gp.predict_latent(ends).variance + noise, rtol=1e-9)


def test_a_noise_that_is_a_part_is_saved_with_its_likelihood(rng, tmp_path):
    X = rng.uniform(size=(60, 1))
    y = np.sin(6 * X[:, 0]) + 0.1 * rng.normal(size=60)
    gp = GPRegressor(likelihood=lik.Gaussian(ConstantNoise(0.02)), knots=6, random_state=0).fit(X, y)
    plain = GPRegressor(likelihood=lik.Gaussian(0.02), knots=6, random_state=0).fit(X, y)
    assert_allclose(gp.log_evidence_, plain.log_evidence_, rtol=1e-12)
    gp.save(tmp_path / "gp.knotwise")
    again = knotwise.load(tmp_path / "gp.knotwise")
    assert_array_equal(again.predict_interval(X), gp.predict_interval(X))
    assert again.likelihood_.noise.variance(Inputs(X)) == gp.parameters_["noise_variance__noise_variance"]


def test_a_noise_function_is_refused_in_words_where_one_number_is_needed():
    grows, _, rows, _, Z, jitter = noisy()
    with pytest.raises(InvalidInputError, match=r"not one number but LogLinearNoise.*likelihood\.at\(rows\)"):
        sparse_evidence(replace(grows, inference=Laplace()), rows, Z, jitter=jitter)


# -- a posterior ----------------------------------------------------------------------------------------------


def linear_twins():
    """The toy, and the exact GP with a linear kernel, which it is."""
    model, rows, _, _ = data(lik.Gaussian(0.3), kernel=LinearKernel(0.8))
    return SlopePosterior(Slopes(model, rows)), ExactPosterior(full_evidence(model, rows, gradient=False).state), rows


def test_a_posterior_of_its_own_conforms():
    toy, _, rows = linear_twins()
    check_posterior(toy, rows)


def test_a_posterior_of_its_own_is_the_exact_gp_where_it_should_be():
    toy, exact, rows = linear_twins()
    for one, other in (
        (toy.latent(rows.X), exact.latent(rows.X)),
        (toy.residuals(np.arange(9)), exact.residuals(np.arange(9))),
    ):
        for name, values in vars(one).items():
            assert_allclose(values, getattr(other, name), rtol=1e-8, atol=1e-9)
    groups = [np.arange(5), np.array([7])]
    left_out = (each.leave_out(rows, groups, Serial(), np.random.default_rng(0)) for each in (toy, exact))
    for one, other in zip(*left_out, strict=True):
        assert_allclose(one.mean, other.mean, rtol=1e-8)
        assert_allclose(one.variance, other.variance, rtol=1e-8)


def test_an_estimator_answers_by_a_posterior_that_it_does_not_know():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 2))
    y = X @ [1.0, -2.0] + 0.3 * rng.normal(size=60)
    gp = GPRegressor(LinearKernel(centre=X.mean(0)), mean=0.0, approximation="full", optimizer=None).fit(X, y)
    own = copy(gp)
    own._fit = replace(gp._fit, posterior=SlopePosterior(Slopes(gp._fit.model, gp._fit.rows_at_hand)))
    new = rng.normal(size=(9, 2))
    answers = {
        "predict": lambda gp: np.concatenate(gp.predict(new, return_std=True)),
        "covariance": lambda gp: gp.predict(new, return_cov=True)[1],
        "interval": lambda gp: gp.predict_interval(new),
        "total": lambda gp: gp.predict_total(new).upper,
        "neighbours": lambda gp: np.array([gp.diagnose().neighbours.z, gp.diagnose().spread.p]),
        "left out": lambda gp: cross_validate(gp, X, y, blocks=4, refit=False).mean,
        "samples": lambda gp: gp.sample_latent(new, 20_000, random_state=0).mean(0),
    }
    for name, ask in answers.items():
        assert_allclose(ask(own), ask(gp), rtol=0.02 if name == "samples" else 1e-6, atol=1e-7, err_msg=name)
    assert "a linear function" in str(own.summary()) and "a linear function" in str(own.diagnose())
