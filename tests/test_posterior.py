"""Posteriors, against dense conditioning, closed forms and many samples."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from knotwise.errors import TooLargeError
from knotwise.estimators.fitted import posterior_of
from knotwise.evidence import Jitter, Model, Rows, full_evidence, sparse_evidence
from knotwise.evidence.inference import Variational
from knotwise.evidence.residual import vecchia_ordering
from knotwise.evidence.scores import row_scores
from knotwise.kernels import Matern12, Matern32, SquaredExponential
from knotwise.likelihoods import Bernoulli, Gaussian, Poisson
from knotwise.means import Zero
from knotwise.noise import Nugget
from knotwise.numerics.blocks import Serial
from knotwise.posterior import base as module
from knotwise.posterior.exact import ExactPosterior
from knotwise.posterior.knots import KnotPosterior
from knotwise.posterior.vecchia import VecchiaPosterior
from knotwise.testing import check_posterior, dense_full_posterior, dense_sparse_posterior
from toys import MEANS

POWERS = [1.0, 0.5, 0.1, 0.0]
SETTINGS = [("zero", False), ("constant", True), ("linear", False), ("linear", True)]


def sparse(model, rows, Z, jitter):
    return KnotPosterior(sparse_evidence(model, rows, Z, jitter=jitter, gradient=False).state)


def full(model, rows):
    return ExactPosterior(full_evidence(model, rows, gradient=False).state)


def assert_posterior(posterior, X, mean, covariance):
    size = np.abs(covariance).max()
    latent = posterior.latent(X)
    assert_allclose(latent.mean, mean, rtol=1e-8, atol=1e-8 * np.abs(mean).max())
    assert_allclose(latent.variance, covariance.diagonal(), rtol=1e-8, atol=1e-10 * size)
    assert_allclose(latent.std, np.sqrt(latent.variance), rtol=1e-14)
    assert_allclose(posterior.covariance(X), covariance, rtol=1e-8, atol=1e-10 * size)


# -- the dense twin -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mean", "known_noise"), SETTINGS)
@pytest.mark.parametrize("power", POWERS)
def test_the_sparse_posterior_is_the_joint_prior_conditioned_on_the_data(kernel, power, mean, known_noise, toy):
    problem = toy.problem(kernel, power, mean, known_noise=known_noise)
    X_new = np.vstack([toy.X_new, toy.Z[:2], toy.X[:2]])  # new rows, knots and data
    assert_posterior(sparse(*problem), X_new, *dense_sparse_posterior(*problem, X_new))


@pytest.mark.parametrize(("mean", "known_noise"), SETTINGS)
def test_the_full_posterior_is_the_prior_conditioned_on_the_data(kernel, mean, known_noise, toy):
    model, rows, _, _ = toy.problem(kernel, mean=mean, known_noise=known_noise)
    X_new = np.vstack([toy.X_new, toy.X[:2]])
    assert_posterior(full(model, rows), X_new, *dense_full_posterior(model, rows, X_new))


# -- closed forms ---------------------------------------------------------------------------------------------


def test_one_row_and_a_knot_on_it_are_the_scalar_formula():
    """E f(x) = k(x, 0) y / (k + noise), var f(x) = k - k(x, 0)^2 / (k + noise)."""
    rows = Rows(np.zeros((1, 1)), np.array([1.5]), None, np.empty((1, 0)))
    x = np.linspace(-3, 3, 7)
    cross = 2 * np.exp(-np.abs(x))
    for power in POWERS:
        model = Model(Matern12(2.0, 1.0), Gaussian(0.5), Zero(), power)
        for posterior in (sparse(model, rows, rows.X, Jitter(0.0, rows.X)), full(model, rows)):
            latent = posterior.latent(x[:, None])
            assert_allclose(latent.mean, cross * 1.5 / 2.5, rtol=1e-13)
            assert_allclose(latent.variance, 2 - cross**2 / 2.5, rtol=1e-13)


@pytest.mark.parametrize("power", [1.0, 0.5, 0.0])
def test_far_from_the_data_and_the_knots_the_prior_is_left(power, toy):
    problem = toy.problem(SquaredExponential(1.3, 0.8), power)
    far = np.array([[100.0, 0.0], [0.0, -100.0]])
    for posterior in (sparse(*problem), full(*problem[:2])):
        assert_array_equal(posterior.latent(far).mean, 0.4)
        assert_allclose(posterior.covariance(far), 1.3 * np.eye(2), rtol=1e-14)


@pytest.mark.parametrize("power", [None, 1.0, 0.5, 0.0])
def test_far_away_a_linear_mean_predicts_like_bayesian_linear_regression(power, toy):
    """Where the kernel has died away, f = offset + phi' beta + its prior; beta by generalised least squares.

    The coefficients of the basis Phi S^(1/2) have prior N(0, I), so the posterior covariance is
    (I + Phi' C^-1 Phi)^-1 with C the covariance of the data about the trend.
    """
    problem = toy.problem(SquaredExponential(1.3, 0.8), 1.0 if power is None else power, "linear")
    model, rows, Z, jitter = problem
    kernel, offset = model.kernel, model.mean.offset
    if power is None:
        posterior, C = full(model, rows), kernel(rows.X, rows.X)
    else:
        posterior = sparse(*problem)
        Kuu = kernel(Z, Z) + jitter.relative * 1.3 * np.eye(len(Z))
        C = kernel(rows.X, Z) @ np.linalg.inv(Kuu) @ kernel(Z, rows.X)
        C += power * np.diag(1.3 - C.diagonal())
    precision = np.linalg.inv(C + 0.3 * np.eye(len(rows)))
    covariance = np.linalg.inv(np.eye(3) + rows.basis.T @ precision @ rows.basis)
    beta = covariance @ rows.basis.T @ precision @ (rows.y - offset)

    far = np.array([[50.0, 0.0], [0.0, -60.0], [500.0, 700.0]])
    phi = model.mean.basis(far)
    latent = posterior.latent(far)
    assert_allclose(latent.mean, offset + phi @ beta, rtol=1e-8)
    assert_allclose(latent.variance, 1.3 + np.einsum("np,pq,nq->n", phi, covariance, phi), rtol=1e-8)
    assert latent.variance[2] > 50 * latent.variance[0]  # it grows with the square of the distance


# -- numerical safety -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "jitter", "noise"),
    [
        *((SquaredExponential, 1e-10, noise) for noise in (1e-2, 1e-6, 1e-10, 1e-14)),
        *((Matern12, 0.0, noise) for noise in (1e-2, 1e-10, 1e-18)),
        *((Matern32, 0.0, noise) for noise in (1e-2, 1e-10, 1e-18)),
    ],
)
@pytest.mark.parametrize("power", [1.0, 0.5, 0.0])
def test_the_variance_is_never_negative_and_tends_to_the_noise_at_knots_on_the_data(power, kind, jitter, noise):
    X = np.linspace(0, 3, 30)[:, None]
    model = Model(kind(1.0, 0.3), Gaussian(noise), Zero(), power)
    rows = Rows(X, np.sin(X[:, 0]), None, np.empty((30, 0)))
    posterior = sparse(model, rows, X, Jitter(jitter, X[:1]))
    everywhere = np.vstack([X, X + 1e-9, np.linspace(-1, 4, 101)[:, None]])
    variance = posterior.latent(everywhere).variance
    assert (variance >= 0).all()
    # what the jitter leaves at a knot counts once as residual and, by its share, once as noise
    # up to rounding of the prior variance, 1, which processors do differently
    assert (variance[:30] <= 1.001 * (noise + (1 + power) * jitter) + 1e-12).all()
    assert (posterior.covariance(everywhere).diagonal() >= 0).all()


@pytest.mark.parametrize("noise", [1e-2, 1e-6, 1e-10])
def test_the_variance_of_the_exact_gp_is_positive_and_below_the_noise_at_the_data(noise):
    X = np.linspace(0, 3, 12)[:, None]
    model = Model(Matern32(1.0, 0.7), Gaussian(noise), Zero())
    posterior = full(model, Rows(X, np.sin(X[:, 0]), None, np.empty((12, 0))))
    variance = posterior.latent(X).variance
    assert (variance > 0).all() and (variance <= noise * (1 + 1e-6) + 1e-14).all()


@pytest.mark.parametrize("power", [None, 1.0, 0.0])
def test_prediction_in_batches_is_prediction_in_one_piece(power, toy, rng, monkeypatch):
    problem = toy.problem(Matern32(1.1, 0.7), power or 0.0, "linear")
    posterior = full(*problem[:2]) if power is None else sparse(*problem)
    X_new = rng.normal(size=(103, 2))
    whole = posterior.latent(X_new)
    for size in (1, 10, 102):
        monkeypatch.setattr(module, "rows_per_block", lambda width, n_rows, size=size: size)
        pieces = posterior.latent(X_new)
        assert_allclose(pieces.mean, whole.mean, rtol=1e-12, atol=1e-13)
        assert_allclose(pieces.variance, whole.variance, rtol=1e-12)


@pytest.mark.parametrize("power", [None, 1.0, 0.0])
def test_the_diagonal_of_the_covariance_is_the_variance_to_the_bit(kernel, power, toy):
    problem = toy.problem(kernel, power or 0.0)
    posterior = full(*problem[:2]) if power is None else sparse(*problem)
    covariance = posterior.covariance(toy.X_new)
    assert_array_equal(covariance.diagonal(), posterior.latent(toy.X_new).variance)
    assert_allclose(covariance, covariance.T, rtol=1e-12, atol=1e-13)


def test_no_rows_give_no_predictions(toy):
    problem = toy.problem(Matern32(1.1, 0.7))
    for posterior in (sparse(*problem), full(*problem[:2])):
        assert posterior.latent(np.empty((0, 2))).mean.shape == (0,)


def test_a_joint_covariance_that_is_too_large_is_refused_with_advice(toy, monkeypatch):
    monkeypatch.setattr(module, "MAX_JOINT_ROWS", 8)
    with pytest.raises(TooLargeError, match=r"9 rows .*the limit is 8 rows.*return_std"):
        sparse(*toy.problem(Matern32(1.1, 0.7))).covariance(toy.X_new)


# -- samples --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("power", [None, 1.0, 0.0])
def test_samples_have_the_mean_and_the_covariance_of_the_posterior(power, toy, rng):
    problem = toy.problem(Matern32(1.1, 0.7), power or 0.0, "linear")
    posterior = full(*problem[:2]) if power is None else sparse(*problem)
    n = 4000
    samples = posterior.sample(toy.X_new, n, rng)
    mean, covariance = posterior.latent(toy.X_new).mean, posterior.covariance(toy.X_new)
    variance = covariance.diagonal()
    assert samples.shape == (n, len(toy.X_new))
    assert (np.abs(samples.mean(0) - mean) <= 5 * np.sqrt(variance / n)).all()
    # a sample covariance of normals has variance (C_ij^2 + C_ii C_jj) / n
    error = np.sqrt((covariance**2 + np.outer(variance, variance)) / n)
    assert (np.abs(np.cov(samples.T) - covariance) <= 5 * error).all()


def test_samples_at_equal_rows_are_equal_and_the_same_generator_gives_the_same_bits(toy):
    posterior = sparse(*toy.problem(SquaredExponential(1.3, 0.8)))
    X = np.vstack([toy.X_new, toy.X_new])
    samples = posterior.sample(X, 20, np.random.default_rng(3))
    assert_allclose(samples[:, :9], samples[:, 9:], atol=1e-4)
    assert_array_equal(samples, posterior.sample(X, 20, np.random.default_rng(3)))


def test_samples_on_a_grid_finer_than_the_factorisation_can_resolve_stay_finite(toy):
    posterior = sparse(*toy.problem(SquaredExponential(1.3, 0.8)))
    line = np.column_stack([np.linspace(-2, 2, 300), np.zeros(300)])
    samples = posterior.sample(line, 50, np.random.default_rng(3))
    assert np.isfinite(samples).all()
    spread = posterior.latent(line).std
    assert (np.abs(samples - posterior.latent(line).mean) <= 6 * spread + 1e-3).all()


# -- conformance ----------------------------------------------------------------------------------------------

LIKELIHOODS = {"gaussian": Gaussian(0.3), "poisson": Poisson(), "bernoulli": Bernoulli()}
KINDS = ["exact", "fic", "vfe", "vecchia"]


def fitted(kind, likelihood="gaussian", mean="linear", kernel=None, **given):
    """A posterior of 32 rows, these rows, and their scores where it holds none."""
    rng, likelihood = np.random.default_rng(4), LIKELIHOODS[likelihood]
    X = rng.normal(size=(32, 2))
    y = likelihood.sample(0.5 + np.sin(2 * X[:, 0]) + 0.4 * X[:, 1], rng, 1.0)
    mean = MEANS[mean].bind(X, level=0.2, second_moment=1.0)
    rows = Rows(X, y, given.get("noise"), mean.basis(X), None, given.get("weights"))
    model = Model(kernel or Matern32(1.1, [0.9, 1.3]), likelihood, mean, power=0.0 if kind == "vfe" else 1.0)
    Z, jitter = rng.normal(size=(5, 2)), Jitter(1e-6, X[:4])
    if kind == "exact":
        return posterior_of(full_evidence(model, rows, gradient=False).state), rows, None
    if kind != "vecchia":
        state = sparse_evidence(model, rows, Z, jitter=jitter, gradient=False).state
        return posterior_of(state), rows, row_scores(model, rows, Z, jitter=jitter)
    near = vecchia_ordering(model.kernel, rows, 6, rng, around=not likelihood.conjugate)
    inference = None if likelihood.conjugate else Variational(near=True)
    model, rows = replace(model, residual=near.residual, inference=inference), rows[near.rows]
    return posterior_of(sparse_evidence(model, rows, Z, jitter=jitter, gradient=False).state, rows), rows, None


@pytest.mark.parametrize("mean", ["zero", "constant", "linear"])
@pytest.mark.parametrize("kind", KINDS)
def test_posteriors_of_gaussian_data_conform(kind, mean):
    check_posterior(*fitted(kind, mean=mean))


@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
@pytest.mark.parametrize("kind", KINDS)
def test_posteriors_of_other_data_conform(kind, likelihood):
    check_posterior(*fitted(kind, likelihood))


@pytest.mark.parametrize("kind", KINDS)
def test_posteriors_conform_with_weights_and_known_noise(kind):
    rng = np.random.default_rng(1)
    check_posterior(*fitted(kind, weights=rng.integers(1, 4, 32).astype(float), noise=rng.uniform(0.1, 0.5, 32)))


def test_each_state_has_its_posterior():
    made = {kind: type(fitted(kind)[0]) for kind in KINDS}
    assert made == {"exact": ExactPosterior, "fic": KnotPosterior, "vfe": KnotPosterior, "vecchia": VecchiaPosterior}
    said = [fitted(kind)[0].approximation for kind in KINDS]
    assert said == ["full", "fic", "vfe", "neighbors"]


BROKEN = {  # a method, what is done to its result, and the clause that must be named
    "blocks": ("latent", lambda found, self, X, *_: replace(found, mean=found.mean + 1e-3 * len(X)), "blocks"),
    "diagonal": ("covariance", lambda found, *_: 1.01 * found, "the diagonal of `covariance`"),
    "shifted": ("sample", lambda found, *_: found + 0.2, "the mean of samples"),
    "mixed": ("sample", lambda found, self, X, n, rng: rng.permuted(found, axis=0), "the covariance of samples"),
    "residual": ("residual_variance", lambda found, *_: found + 0.1, "`residual_"),
    "trend": ("coefficients", lambda found, *_: (found[0] + 1, found[1]), "the mean far from the data"),
    "seen": ("leave_out", lambda found, self, rows, groups, *_: [self.latent(rows.X[g]) for g in groups], "a refit"),
    "silent": ("rows_in_words", lambda *_: "", "must say something"),
    "short": ("residuals", lambda found, *_: replace(found, a=np.ones(1)), "`residuals`"),
}


@pytest.mark.parametrize(("name", "change", "clause"), BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("kind", ["exact", "vfe", "vecchia"])
def test_the_check_says_which_clause_is_broken(kind, name, change, clause, monkeypatch):
    given = fitted(kind)
    cls = type(given[0])
    right = getattr(cls, name)
    monkeypatch.setattr(cls, name, lambda *given: change(right(*given), *given))
    with pytest.raises(AssertionError, match=clause):
        check_posterior(*given)


# -- held sites ---------------------------------------------------------------------------------------


def test_groups_left_out_at_held_sites_are_those_of_gaussian_data_with_the_sites_as_observations(rng):
    """Laplace's sites are observations z = f + a / W with noise 1 / W; without a group, the others stay (O4)."""
    X = rng.uniform(size=(30, 2))
    y = rng.poisson(np.exp(1 + np.sin(5 * X[:, 0]))).astype(float)
    model = Model(SquaredExponential(1.0, [0.4, 0.6]), Poisson(), Zero(), nugget=Nugget(0.05))
    posterior = full(model, Rows(X, y, None, np.empty((30, 0))))
    P = model.kernel(X, X) + 0.05 * np.eye(30)
    f = P @ posterior.state.a
    W = np.exp(f)
    z = f + posterior.state.a / W
    groups = [np.array([3]), np.array([0, 7, 11, 29]), np.arange(20)]
    for group, found in zip(groups, posterior.leave_out_at_held_sites(groups), strict=True):
        others = np.setdiff1d(np.arange(30), group)
        C = P[np.ix_(others, others)] + np.diag(1 / W[others])
        cross = P[np.ix_(others, group)]
        assert_allclose(found.mean, cross.T @ np.linalg.solve(C, z[others]), rtol=1e-6, atol=1e-8)
        variance = np.diag(P)[group] - 0.05 - np.einsum("ij,ij->j", cross, np.linalg.solve(C, cross))
        assert_allclose(found.variance, variance, rtol=1e-6)


def test_gaussian_rows_left_out_at_held_sites_are_left_out(rng):
    X = rng.uniform(size=(25, 1))
    model = Model(Matern32(1.0, [0.3]), Gaussian(0.1), Zero())
    posterior = full(model, Rows(X, np.sin(6 * X[:, 0]), None, np.empty((25, 0))))
    groups = [np.array([2]), np.arange(5, 15)]
    exact = posterior.leave_out(posterior.rows, groups, Serial(), rng)
    for one, other in zip(posterior.leave_out_at_held_sites(groups), exact, strict=True):
        assert_allclose(one.mean, other.mean, rtol=1e-9, atol=1e-12)
        assert_allclose(one.variance, other.variance, rtol=1e-8)
