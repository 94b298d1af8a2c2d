"""Student's t as a scale mixture: against its definition, dense alternation, quadrature, and the Gaussian limit."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.special import gammaln

from knotwise import GPRegressor, load
from knotwise import likelihoods as lik
from knotwise.errors import InvalidInputError
from knotwise.evidence import InMemory, full_evidence, sparse_evidence
from knotwise.evidence.inference import NAMED, ScaleMixture, Variational, inference_of
from knotwise.noise import KnownNoise, NoNugget, Nugget
from knotwise.numerics.blocks import Threads
from knotwise.testing import assert_adjoint
from site_oracles import Prior, found_in_full, found_through_knots, with_inference
from test_laplace import assert_same_evidence, case
from test_near_sites import arranged

EXACT = ScaleMixture(tolerance=1e-18, max_passes=200)
T = lik.StudentT(0.3, 3.0)
NUGGETS = {"no-nugget": NoNugget(), "nugget": Nugget(0.2)}
each_power = pytest.mark.parametrize("power", [0.0, 1.0])
each_nugget = pytest.mark.parametrize("nugget", NUGGETS.values(), ids=NUGGETS)


def mixture(*arguments, likelihood=T, **options):
    return with_inference(case(likelihood, *arguments, **options), EXACT)


# -- one row ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("df", [1.0, 2.7, 30.0])
@pytest.mark.parametrize(("error", "variance"), [(0.0, 0.0), (0.4, 0.1), (-5.0, 1e-4), (30.0, 2.0)])
def test_the_bound_of_a_row_integrates_its_precision_out(error, variance, df):
    """log of the integral of Ga(lambda) exp(E log N), by quadrature in log lambda (M2)."""
    s = 0.7
    square = (error**2 + variance) / s**2

    def integrand(u):
        log_gamma = 0.5 * df * np.log(0.5 * df) - gammaln(0.5 * df) + 0.5 * df * u - 0.5 * df * np.exp(u)
        return np.exp(log_gamma + 0.5 * (u - np.log(2 * np.pi * s**2)) - 0.5 * np.exp(u) * square)

    expected = np.log(quad(integrand, -60, 12, points=[-8, -4, 0, 2], limit=400, epsabs=0, epsrel=1e-11)[0])
    actual = lik.StudentT(s, df).mixture_bound(np.array([error]), np.zeros(1), np.array([variance]))
    assert_allclose(actual.log_density, expected, rtol=1e-9)


@pytest.mark.parametrize("df", [1.0, 4.0, 100.0])
def test_it_is_below_what_is_expected_and_near_it_where_f_is_known(df):
    t, y, mean = lik.StudentT(0.5, df), np.linspace(-6, 6, 25), np.zeros(25)
    for variance in (1e-8, 0.1, 4.0):
        bound = t.mixture_bound(y, mean, np.full(25, variance)).log_density
        expected = t.expectations(y, mean, np.full(25, variance)).log_density
        assert (bound <= expected + 1e-9).all()
        if variance < 1e-6:
            assert_allclose(bound, expected, atol=1e-6)


def test_the_derivatives_of_a_row_are_those_of_its_bound():
    y, mean, variance = np.array([0.1, -2.0, 9.0]), np.array([0.0, 0.5, 1.0]), np.array([0.2, 1.0, 0.01])
    theta = T.theta

    def value(mean, variance, theta):
        return T.with_theta(theta).mixture_bound(y, mean, variance).log_density

    def slope(function, at, step=1e-5):
        return (function(at + step) - function(at - step)) / (2 * step)

    seen = T.mixture_bound(y, mean, variance)
    assert_allclose(seen.first, slope(lambda m: value(m, variance, theta), mean), rtol=1e-7)
    assert_allclose(seen.second / 2, slope(lambda v: value(mean, v, theta), variance), rtol=1e-6)
    for i, in_theta in enumerate(T.mixture_bound_derivatives(y, mean, variance)):
        axis = np.eye(2)[i]
        assert_allclose(in_theta, slope(lambda h, axis=axis: value(mean, variance, theta + h * axis), 0.0), rtol=1e-6)


# -- all rows -----------------------------------------------------------------------------------------------------


def alternated(y, m, P, s, df, turns=3000):
    """Dense variational EM: q(lambda) for q(f), then q(f) for q(lambda), of f ~ N(m, P); the bound at its end."""
    precision = np.full(len(y), 1.0)
    for _ in range(turns):
        noise = s**2 / precision
        gain = np.linalg.solve(P + np.diag(noise), P).T
        mu, S = m + gain @ (y - m), P - gain @ P
        square = ((y - mu) ** 2 + np.diag(S)) / s**2
        precision = (df + 1) / (df + square)
    terms = lik.StudentT(s, df).log_density(s * np.sqrt(square), 0.0)
    ratio = np.linalg.solve(P, S)
    divergence = np.trace(ratio) - len(y) - np.linalg.slogdet(ratio)[1] + (mu - m) @ np.linalg.solve(P, mu - m)
    return terms.sum() - 0.5 * divergence, precision / s**2


def test_the_exact_gp_has_the_bound_of_the_dense_alternation():
    problem = mixture(1.0)
    model, rows = problem.model, problem.rows
    P = model.kernel(rows.X, rows.X) + rows.basis @ rows.basis.T
    value, precisions = alternated(rows.y, model.mean.offset, P, T.scale, T.df)
    evidence, W, b = found_in_full(problem)
    assert_allclose(evidence.value, value, rtol=1e-9)
    assert_allclose(W, precisions, rtol=1e-6)
    assert_allclose(b, W * (rows.y - model.mean.offset), rtol=1e-6)


@each_nugget
@each_power
def test_through_knots_the_sites_are_where_their_posterior_wants_them(power, nugget):
    problem = mixture(power, nugget)
    _, W, b = found_through_knots(problem, gradient=False)
    prior = Prior.through_knots(problem)
    h = 1 / (1 + W * (power * prior.c + nugget.variance))
    mean, B = prior.posterior(W, b)
    explained = np.einsum("kn,kl,ln->n", prior.V, np.linalg.inv(B), prior.V)
    z, lam = prior.V.T @ mean, power * prior.c + nugget.variance
    mu = z + lam * (h * b - W * h * z)
    tau = lam * h + h**2 * (explained + (1 - power) * prior.c)
    square = ((problem.rows.y - prior.m - mu) ** 2 + tau) / T.scale**2
    assert_allclose(W, (T.df + 1) / (T.df + square) / T.scale**2, rtol=1e-6)


@each_power
def test_the_bound_is_below_that_of_variational_inference(power):
    problem = mixture(power)
    looser = problem.sparse(gradient=False).value
    tighter = with_inference(problem, Variational(tolerance=1e-16)).sparse(gradient=False).value
    assert looser < tighter


def test_the_start_is_a_gaussian_fit_so_that_a_strong_signal_is_none_of_outliers():
    problem = mixture(0.0, kernel=None)
    far = replace(problem.rows, y=1e3 * np.sin(problem.rows.X[:, 0]))
    kernel = type(problem.model.kernel)(1e6, [0.9, 1.4])
    evidence, W, _ = found_in_full(replace(problem, rows=far, model=replace(problem.model, kernel=kernel)))
    assert evidence.converged and np.median(W) > 0.5 / T.scale**2


# -- the Gaussian limit -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mean", ["constant", "linear"])
@each_power
def test_with_many_degrees_of_freedom_it_is_the_gaussian_evidence(power, mean):
    gaussian = case(lik.Gaussian(0.2), power, mean=mean)
    heavy = replace(
        gaussian, model=replace(gaussian.model, likelihood=lik.StudentT(np.sqrt(0.2), 1e10), inference=EXACT)
    )
    assert_allclose(heavy.sparse(gradient=False).value, gaussian.sparse(gradient=False).value, rtol=1e-6)
    one, other = (full_evidence(problem.model, problem.rows) for problem in (heavy, gaussian))
    assert_allclose(one.value, other.value, rtol=1e-6)
    kernel = gaussian.model.sizes[0]
    assert_allclose(one.gradient[:kernel], other.gradient[:kernel], rtol=1e-6)
    assert_allclose(one.gradient[kernel], 2 * other.gradient[kernel], rtol=1e-6)  # of the scale, not of its square


def test_the_limit_holds_with_neighbours():
    gaussian = case(lik.Gaussian(0.2), 1.0)
    near, rows = arranged(gaussian.model, gaussian.rows, 7)
    heavy = replace(near, likelihood=lik.StudentT(np.sqrt(0.2), 1e10), inference=EXACT.with_neighbours())
    one, other = (sparse_evidence(model, rows, gaussian.Z, jitter=gaussian.jitter) for model in (heavy, near))
    assert one.converged and not heavy.inference.is_bound
    assert_allclose(one.gradient[:3], other.gradient[:3], rtol=1e-5)
    assert_allclose(one.state.gamma, other.state.gamma, rtol=1e-6)


# -- gradients, weights, blocks -------------------------------------------------------------------------------


@each_nugget
@each_power
def test_the_gradient_is_the_derivative_of_the_bound(power, nugget, rng):
    problem = mixture(power, nugget, jitter=1e-3)

    def through_knots(vector):
        evidence = problem.with_vector(vector).sparse(block_size=13)
        return evidence.value, np.concatenate([evidence.gradient, evidence.knot_gradient.ravel()])

    def exact(theta):
        evidence = full_evidence(problem.model.with_theta(theta), problem.rows)
        return evidence.value, evidence.gradient

    assert_adjoint(through_knots, problem.vector, rng, 1e-6)
    assert_adjoint(exact, problem.model.theta, rng, 1e-6)


@each_power
def test_a_row_of_weight_3_is_the_row_three_times(power):
    problem = mixture(power, n=20)
    weights = np.resize([3, 1, 2], 20)
    once = replace(problem, rows=replace(problem.rows, weights=weights.astype(float)))
    often = replace(problem, rows=problem.rows[np.repeat(np.arange(20), weights)])
    assert_same_evidence(once.sparse(), often.sparse(), rtol=1e-8)
    one, other = (full_evidence(each.model, each.rows) for each in (once, often))
    assert_allclose(one.value, other.value, rtol=1e-9)
    assert_allclose(one.gradient, other.gradient, rtol=1e-7, atol=1e-7)


@each_power
def test_blocks_threads_and_a_warm_start_do_not_matter(power):
    problem = mixture(power)
    whole = problem.sparse()
    assert_same_evidence(problem.sparse(block_size=5, keep_bytes=0), whole, rtol=1e-9)
    blocks = InMemory(problem.rows, block_size=7)
    cold = sparse_evidence(problem.model, blocks, problem.Z, jitter=problem.jitter)
    warm = sparse_evidence(problem.model, blocks, problem.Z, jitter=problem.jitter)
    assert_same_evidence(warm, cold, rtol=1e-9)
    threads = Threads(2)
    try:
        serial, parallel = problem.sparse(block_size=7), problem.sparse(block_size=7, executor=threads)
    finally:
        threads.close()
    assert parallel.value == serial.value and (parallel.gradient == serial.gradient).all()


def test_given_the_precisions_f_is_that_of_gaussian_data_with_known_noise():
    problem = mixture(0.0)
    found, W, _ = found_through_knots(problem, gradient=False)
    known = replace(problem.rows, noise_variance=1 / W)
    gaussian = replace(problem.model, likelihood=lik.Gaussian(1.0), inference=None)
    assert isinstance(gaussian.noise_of(known), KnownNoise)
    held = sparse_evidence(gaussian, known, problem.Z, jitter=problem.jitter, gradient=False)
    assert_allclose(held.state.gamma, found.state.gamma, rtol=1e-6, atol=1e-8)
    assert_allclose(held.state.T, found.state.T, rtol=1e-6, atol=1e-8)


# -- the estimator ------------------------------------------------------------------------------------------------


def outliers(n=150, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 1))
    y = np.sin(6 * X[:, 0]) + 0.1 * rng.standard_normal(n)
    far = rng.random(n) < 0.06
    y[far] += 3 * rng.standard_normal(far.sum())
    return X, y


def test_it_is_refused_for_other_likelihoods():
    X, y = outliers(30)
    with pytest.raises(InvalidInputError, match=r"mixture of normals, as Student's t; use 'variational'"):
        GPRegressor(likelihood="poisson", inference="mixture").fit(X, np.rint(np.abs(y)))
    with pytest.raises(InvalidInputError, match="power"):
        inference_of(replace(mixture(1.0).model, power=0.5))


@pytest.mark.parametrize("options", [{}, {"approximation": "full"}, {"n_neighbors": 8}])
def test_a_fit_finds_the_function_between_outliers_and_predicts_as_variational_inference(options, tmp_path):
    X, y = outliers()
    settings = {"likelihood": "student_t", "knots": 8, "random_state": 0} | options
    if "approximation" in options:
        settings["knots"] = "auto"
    new = np.linspace(0.02, 0.98, 40)[:, None]
    quick = GPRegressor(inference="mixture", **settings).fit(X, y)
    assert quick.inference_ == "mixture" and quick.converged_
    assert "scale-mixture" in quick.summary(standard_errors=False)
    mean, sd = quick.predict(new), quick.predict_latent(new).std
    assert_allclose(mean, np.sin(6 * new[:, 0]), atol=0.1)
    slow = GPRegressor(inference="variational", **settings).fit(X, y)
    assert_allclose(mean, slow.predict(new), atol=0.02)
    assert_allclose(sd, slow.predict_latent(new).std, rtol=0.35)
    quick.save(tmp_path / "model.knots")
    again = load(tmp_path / "model.knots")
    assert (again.predict(new) == mean).all() and again.inference_ == "mixture"


def test_it_has_a_word():
    assert NAMED["mixture"] == ScaleMixture()
