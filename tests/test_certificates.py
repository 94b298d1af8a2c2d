"""Certificates: bounds that hold the exact GP's log evidence and posterior, against dense definitions.

The oracles form N x N matrices and solve with them; nothing of the engine but the kernel's values and V is in them.
"""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import knotwise
from knotwise import GPClassifier, GPRegressor
from knotwise import likelihoods as lik
from knotwise.diagnosis.certify import variance_ratios
from knotwise.errors import InvalidInputError, NoTrainingDataError
from knotwise.evidence import InMemory, Jitter, Model, Rows, certificate, full_evidence, sparse_evidence
from knotwise.evidence.certificate import evidence_bounds, posterior_bound
from knotwise.evidence.inference import Laplace, Variational
from knotwise.kernels import Matern12, Matern32, SquaredExponential
from knotwise.means import Constant, Linear, Zero
from knotwise.noise import NoNugget, Nugget
from knotwise.posterior.exact import ExactPosterior
from knotwise.posterior.knots import KnotPosterior
from knotwise.testing import dense_full_evidence, dense_full_posterior

BLOCK_SIZE = 13


def bounds(model, rows, Z, jitter, **options):
    return evidence_bounds(model, InMemory(rows, block_size=BLOCK_SIZE), Z, jitter=jitter, **options)


# -- Gaussian data ----------------------------------------------------------------------------------------------


class Dense:
    """K (with the basis of the mean), Q and D of Gaussian data by their definitions, and log N(y; m, C)."""

    def __init__(self, model, rows, Z, jitter):
        kernel, basis = model.kernel, rows.basis @ rows.basis.T
        Kuu = kernel(Z, Z) + jitter.relative * np.mean(kernel.diag(jitter.points)) * np.eye(len(Z))
        self.K = kernel(rows.X, rows.X) + basis
        self.Q = kernel(rows.X, Z) @ np.linalg.solve(Kuu, kernel(Z, rows.X)) + basis
        noise = model.likelihood.noise_variance if rows.noise_variance is None else rows.noise_variance
        self.D = np.diag(np.broadcast_to(noise, len(rows)))
        self.r = rows.y - model.mean.offset
        self.a = np.linalg.solve(self.Q + self.D, self.r)
        self.c = np.maximum(np.diag(self.K - self.Q), 0)

    def log_density(self, C, quadratic=None):
        quadratic = self.r @ np.linalg.solve(C, self.r) if quadratic is None else quadratic
        return -0.5 * (len(self.r) * np.log(2 * np.pi) + np.linalg.slogdet(C)[1] + quadratic)

    @property
    def lower(self):
        return self.log_density(self.Q + self.D) - 0.5 * np.sum(np.log1p(self.c / np.diag(self.D)))

    def upper(self, A):
        fit = self.r @ self.a
        return self.log_density(self.Q + self.D, fit**2 / (fit + A))


@pytest.mark.parametrize("mean", ["zero", "constant", "linear"])
@pytest.mark.parametrize("known_noise", [False, True])
def test_bounds_of_gaussian_data_hold_the_exact_evidence(toy, kernel, mean, known_noise):
    problem = toy.problem(kernel, 0.0, mean, known_noise=known_noise)
    found, exact = bounds(*problem), dense_full_evidence(*problem[:2])
    vfe = sparse_evidence(problem[0], *problem[1:3], jitter=problem[3], gradient=False).value
    assert vfe - 1e-9 <= found.lower <= exact <= found.upper


@pytest.mark.parametrize("mean", ["constant", "linear"])
@pytest.mark.parametrize("known_noise", [False, True])
def test_bounds_of_gaussian_data_are_their_formulas(toy, kernels, mean, known_noise, monkeypatch):
    problem = toy.problem(kernels["matern32-ard"], 0.0, mean, known_noise=known_noise)
    dense = Dense(*problem)
    assert_allclose(bounds(*problem).lower, dense.lower, rtol=1e-10)  # (C1)
    left = dense.K - dense.Q
    monkeypatch.setattr(certificate, "MAX_STEPS", 1)
    assert_allclose(bounds(*problem).upper, dense.upper(dense.a @ left @ dense.a), rtol=1e-10)  # (C2)
    parts = [slice(i, i + BLOCK_SIZE) for i in range(0, len(dense.r), BLOCK_SIZE)]
    roots = sum(np.sqrt(dense.a[s] @ left[s, s] @ dense.a[s]) for s in parts)
    assert_allclose(bounds(*problem, max_product_rows=0).upper, dense.upper(roots**2), rtol=1e-10)  # (C2a)


def test_each_step_of_conjugate_gradients_tightens_and_many_leave_the_determinant_alone(toy, kernels, monkeypatch):
    problem = toy.problem(kernels["squared-exponential"], 0.0, "linear")
    monkeypatch.setattr(certificate, "WORTH", -1.0)
    uppers = []
    for n_steps in (1, 2, 3, 40):
        monkeypatch.setattr(certificate, "MAX_STEPS", n_steps)
        uppers.append(bounds(*problem).upper)
    assert np.all(np.diff(uppers) < 0)
    dense = Dense(*problem)
    quadratic = dense.r @ np.linalg.solve(dense.K + dense.D, dense.r)
    assert_allclose(uppers[-1], dense.log_density(dense.Q + dense.D, quadratic), rtol=1e-9)  # (C2b)


def test_with_a_knot_at_each_row_both_bounds_are_the_evidence(toy, kernels):
    model, rows, _, _ = toy.problem(kernels["matern12"], 0.0, "linear")
    found = bounds(model, rows, rows.X, Jitter(0.0, rows.X[:2]))
    assert_allclose([found.lower, found.upper], dense_full_evidence(model, rows), atol=1e-7)


@pytest.mark.parametrize("known_noise", [False, True])
def test_a_row_of_weight_two_is_the_row_twice(toy, kernels, known_noise):
    model, rows, Z, jitter = toy.problem(kernels["matern52"], 0.0, "linear", known_noise=known_noise)
    weights = np.arange(len(rows)) % 3 + 1
    once, twice = replace(rows, weights=weights.astype(float)), rows[np.repeat(np.arange(len(rows)), weights)]
    weighted = bounds(model, once, Z, jitter)
    assert weighted.lower <= dense_full_evidence(model, twice) <= weighted.upper
    repeated = bounds(model, twice, Z, jitter, max_product_rows=0)
    assert repeated.lower <= weighted.lower + 1e-9  # log(1 + 2 x) <= 2 log(1 + x)
    own = [
        posterior_bound(sparse_evidence(model, each, Z, jitter=jitter, gradient=False).state, InMemory(each))
        for each in (once, twice)
    ]
    assert_allclose(*own, rtol=1e-10)


def test_bounds_hold_for_weights_below_one_and_above(toy, kernels, rng):
    model, rows, Z, jitter = toy.problem(kernels["squared-exponential"], 0.0, "linear", known_noise=True)
    rows = replace(rows, weights=rng.choice([0.2, 0.7, 1.0, 3.5], len(rows)))
    found = bounds(model, rows, Z, jitter)
    assert found.lower <= full_evidence(model, rows, gradient=False).value <= found.upper


# -- what follows for the posterior -------------------------------------------------------------------------------


def divergence(m, S, m2, S2):
    """KL(N(m, S) || N(m2, S2)) by its definition."""
    P = np.linalg.inv(S2)
    return 0.5 * (
        np.trace(P @ S) - len(m) + (m2 - m) @ P @ (m2 - m) + np.linalg.slogdet(S2)[1] - np.linalg.slogdet(S)[1]
    )


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("mean", ["zero", "linear"])
def test_the_bound_of_a_posterior_is_its_divergence_below_the_evidence(toy, power, mean):
    """Over rows, knots and coefficients of the mean together, nothing of the divergence is lost (C3)."""
    model, rows, Z, _ = toy.problem(Matern12(1.3, 0.9), power, mean)
    jitter = Jitter(0.0, rows.X[:5])
    state = sparse_evidence(model, rows, Z, jitter=jitter, gradient=False).state
    n, K, basis = len(rows), len(Z), rows.basis
    X, kernel = np.vstack([rows.X, Z]), model.kernel
    # the exact posterior of the kernel's part at rows and knots, and of the coefficients
    prior = np.block(
        [[kernel(X, X), np.zeros((n + K, basis.shape[1]))], [np.zeros((basis.shape[1], n + K)), np.eye(basis.shape[1])]]
    )
    seen = np.hstack([np.eye(n), np.zeros((n, K)), basis])
    gain = prior @ seen.T @ np.linalg.inv(seen @ prior @ seen.T + model.likelihood.noise_variance * np.eye(n))
    exact_mean, exact_cov = gain @ (rows.y - model.mean.offset), prior - gain @ seen @ prior
    # the fitted one: knots and coefficients are linear in eta, and the rows given the knots are as in the prior
    L, B_inverse = np.linalg.inv(state.L_inverse), state.T.T @ state.T
    A = np.zeros((n + K + basis.shape[1], K + basis.shape[1]))
    A[: n + K, :K] = kernel(X, Z) @ np.linalg.inv(kernel(Z, Z)) @ L
    A[n + K :, K:] = np.eye(basis.shape[1])
    cov = A @ B_inverse @ A.T + prior - A @ A.T
    found = divergence(A @ state.gamma, cov, exact_mean, exact_cov)
    expected = dense_full_evidence(model, rows) - posterior_bound(state, InMemory(rows, block_size=BLOCK_SIZE))
    assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("n_knots", [8, 20, 33])
def test_means_and_variances_are_within_what_is_certified(toy, power, n_knots):
    model, rows, _, _ = toy.problem(Matern32(1.1, 1.2), power, "linear")
    Z = rows.X[:n_knots]
    jitter = Jitter(1e-10, rows.X[:5])
    state = sparse_evidence(model, rows, Z, jitter=jitter, gradient=False).state
    kl = bounds(model, rows, Z, jitter).upper - posterior_bound(state, InMemory(rows))
    X = np.vstack([toy.X_new, rows.X])
    fitted = KnotPosterior(state).latent(X)
    mean, cov = dense_full_posterior(model, rows, X)
    ratio, off = fitted.variance / cov.diagonal(), np.abs(fitted.mean - mean)
    low, high = variance_ratios(kl)
    assert kl > 0 and np.all(ratio >= low) and np.all(ratio <= high)
    assert np.all(off <= np.sqrt(2 * kl * cov.diagonal())) and np.all(off <= fitted.std * np.sqrt(np.expm1(2 * kl)))


@pytest.mark.parametrize("kl", [1e-12, 1e-3, 0.1, 2.0, 50.0, 1e4])
def test_ratios_of_variances_are_the_two_roots(kl):
    low, high = variance_ratios(kl)
    assert low < 1 < high
    assert_allclose(high - 1 - np.log(high), 2 * kl, rtol=1e-3 if kl < 1e-6 else 1e-8)
    if low > 0:
        assert_allclose(low - 1 - np.log(low), 2 * kl, rtol=1e-3 if kl < 1e-6 else 1e-8)
    if kl <= 0.1:
        assert max(1 - low, high - 1) <= np.sqrt(6 * kl)  # Burt et al. 2020
    assert variance_ratios(0.0) == (1.0, 1.0)


def test_the_bound_in_fitted_deviations_is_the_largest_at_that_divergence():
    """Over all ratios x of the variances, (mean distance)^2 = 2 kl - (x - 1 - log x) in exact units is over x in fitted
    ones.
    """
    x = np.exp(np.linspace(-8, 2, 200_001))
    for kl in (0.01, 0.5, 2.0):
        squared = np.max((2 * kl - (x - 1 - np.log(x))) / x)
        assert_allclose(squared, np.expm1(2 * kl), rtol=1e-6)


# -- other data ---------------------------------------------------------------------------------------------------

CONCAVE = {
    "poisson": lik.Poisson(),
    "gamma": lik.Gamma(2.5),
    "exponential": lik.Exponential(),
    "weibull": lik.Weibull(1.4),
    "lognormal": lik.LogNormal(0.3),
}
LIKELIHOODS = CONCAVE | {
    "gaussian": lik.Gaussian(0.4),
    "bernoulli": lik.Bernoulli(),
    "student-t": lik.StudentT(0.3, 4.0),
    "negative-binomial": lik.NegativeBinomial(0.5),
}


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_expected_log_densities_are_concave_in_mean_and_variance_where_it_is_said(name, rng):
    likelihood = LIKELIHOODS[name]
    y = likelihood.sample(rng.normal(size=400), rng, 1.0)
    one, two = ((rng.normal(scale=2, size=400), rng.uniform(0.01, 4, 400)) for _ in range(2))
    middle = tuple((a + b) / 2 for a, b in zip(one, two, strict=True))
    at = [likelihood.expectations(y, *where).log_density for where in (one, two, middle)]
    if likelihood.jointly_concave:
        assert np.all(at[2] >= (at[0] + at[1]) / 2 - 1e-10)
    assert likelihood.jointly_concave == (name in CONCAVE or name == "gaussian")


def test_a_bernoulli_density_is_not_concave_in_mean_and_variance():
    expected = [lik.Bernoulli().expectations(np.ones(1), np.zeros(1), np.full(1, v)).log_density for v in (1, 2, 3)]
    assert expected[1] < (expected[0] + expected[2]) / 2


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_log_densities_are_quadratic_where_it_is_said(name, rng):
    likelihood = LIKELIHOODS[name]
    f = rng.normal(size=50)
    second = likelihood.derivatives(likelihood.sample(f, rng, 1.0), f).second
    assert likelihood.quadratic == bool(np.ptp(second) < 1e-12)


def counts(likelihood, *, nugget=None, mean=None, weighted=False, n=60):
    rng = np.random.default_rng(5)
    X = rng.uniform(-2, 2, size=(n, 2))
    y = likelihood.sample(np.sin(2 * X[:, 0]) + 0.5 * X[:, 1], rng, 1.0)
    mean = (mean or Zero()).bind(X, 1.0, 0.2, on_link=True)
    weights = rng.choice([0.4, 1.0, 3.0], n) if weighted else None
    model = Model(SquaredExponential(1.1, 1.2), likelihood, mean, 0.0, nugget or NoNugget(), Variational(1e-13))
    return model, Rows(X, y, None, mean.basis(X), None, weights)


@pytest.mark.parametrize("options", [{}, {"nugget": Nugget(0.2), "mean": Linear()}, {"weighted": True}])
@pytest.mark.parametrize("name", CONCAVE)
def test_full_variational_inference_is_between_the_bounds(name, options):
    model, rows = counts(CONCAVE[name], **options)
    full, gaps = full_evidence(model, rows, gradient=False).value, []
    for n_knots in (12, 25, 45):
        Z = rows.X[:n_knots]
        jitter = Jitter.choose(model.kernel, Z, rows.X[:4], None)
        found = bounds(model, rows, Z, jitter)
        looser = bounds(model, rows, Z, jitter, max_product_rows=0)
        assert found.lower <= full + 1e-9 and full <= found.upper <= looser.upper + 1e-9
        gaps.append(found.upper - found.lower)
    assert gaps[2] < 0.1 * gaps[0] and gaps[2] < 0.2


def test_the_upper_bound_of_counts_is_its_formula():
    """ell + sum w c / 2 + (a'K a - |gamma|^2) / 2 at the fixed point, with dense K (C4)."""
    model, rows = counts(lik.Poisson(), mean=Constant())
    Z, jitter = rows.X[:15], Jitter(1e-8, rows.X[:4])
    found = evidence_bounds(replace(model, inference=None), InMemory(rows), Z, jitter=jitter)
    state = sparse_evidence(model, rows, Z, jitter=jitter, gradient=False).state
    latent = KnotPosterior(state).latent(rows.X)
    W = np.exp(latent.mean + latent.variance / 2)
    a, K = rows.y - W, model.kernel(rows.X, rows.X) + rows.basis @ rows.basis.T
    c = KnotPosterior(state).residual_variance(rows.X)
    formula = found.lower + 0.5 * (W @ c + a @ K @ a - state.gamma @ state.gamma)
    assert_allclose(found.upper, formula, rtol=1e-7)


@pytest.mark.parametrize("inference", [Variational(), Laplace()])
@pytest.mark.parametrize("name", ["poisson", "weibull"])
def test_a_posterior_is_within_the_certified_distance_of_full_variational_inference(name, inference):
    model, rows = counts(CONCAVE[name])
    Z = rows.X[:30]
    jitter = Jitter.choose(model.kernel, Z, rows.X[:4], None)
    own = sparse_evidence(replace(model, inference=inference), rows, Z, jitter=jitter, gradient=False).state
    kl = bounds(model, rows, Z, jitter).upper - posterior_bound(own, InMemory(rows))
    full = ExactPosterior(full_evidence(model, rows, gradient=False).state)
    X = np.random.default_rng(6).uniform(-2, 2, size=(50, 2))
    one, other = KnotPosterior(own).latent(X), full.latent(X)
    low, high = variance_ratios(kl)  # (C5)
    ratio = one.variance / other.variance
    assert 0 < kl < 5 and np.all((low <= ratio) & (ratio <= high))
    assert np.all(np.abs(one.mean - other.mean) <= other.std * np.sqrt(2 * kl))


@pytest.mark.parametrize("name", ["bernoulli", "student-t", "negative-binomial"])
def test_other_likelihoods_have_a_lower_bound_alone(name):
    model, rows = counts(LIKELIHOODS[name])
    found = bounds(model, rows, rows.X[:20], Jitter(1e-8, rows.X[:4]))
    assert found.upper is None and found.lower <= full_evidence(model, rows, gradient=False).value


def test_a_lower_bound_of_few_labels_is_below_the_true_evidence():
    """Two rows: the evidence is an integral over the plane, by a fine sum."""
    kernel, X = SquaredExponential(2.0, 1.0), np.array([[0.0], [0.8]])
    rows = Rows(X, np.array([1.0, 0.0]), None, np.empty((2, 0)))
    model = Model(kernel, lik.Bernoulli(), Zero(), 0.0)
    found = bounds(model, rows, X, Jitter(0.0, X))
    axis = np.linspace(-10, 10, 801)
    f = np.stack(np.meshgrid(axis, axis, indexing="ij")).reshape(2, -1)
    K = kernel(X, X)
    prior = np.exp(-0.5 * (f * np.linalg.solve(K, f)).sum(0)) / (2 * np.pi * np.sqrt(np.linalg.det(K)))
    exact = np.log(np.sum(prior / (1 + np.exp(-f[0])) / (1 + np.exp(f[1]))) * (axis[1] - axis[0]) ** 2)
    assert exact - 0.1 < found.lower < exact


# -- fits ---------------------------------------------------------------------------------------------------------


#: parameters of fits that need not be learned
GIVEN = {"kernel": SquaredExponential(1.0, 0.9, column_scales="standard"), "optimizer": None, "n_jobs": 1}


@pytest.fixture(scope="module")
def waves():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(150, 2))
    f = np.sin(7 * X[:, 0]) * np.cos(5 * X[:, 1])
    return X, f, f + 0.1 * rng.normal(size=150)


def words(certificate):
    """What it prints, on one line."""
    return " ".join(str(certificate).split())


def exact_of(gp, X, y, **options):
    """The exact GP at the parameters of a fit, with the same mean."""
    user = GPRegressor(
        kernel=gp.kernel_, likelihood=gp.likelihood_, mean=gp.mean, approximation="full", optimizer=None, n_jobs=1
    )
    return user.fit(X, y, **options)


@pytest.mark.parametrize("approximation", ["vfe", "fic", 0.5])
@pytest.mark.parametrize("mean", ["constant", "linear", 0.3])
def test_a_certificate_holds_the_exact_gp_of_a_fit(waves, approximation, mean):
    X, _, y = waves
    gp = GPRegressor(
        kernel=SquaredExponential(0.5, 0.8, column_scales="standard"),
        likelihood=lik.Gaussian(0.01),
        knots=X[:40],
        approximation=approximation,
        mean=mean,
        optimizer=None,
        n_jobs=1,
    ).fit(X, y)
    found, exact = gp.certify(), exact_of(gp, X, y)
    assert found.lower <= exact.log_evidence_ <= found.upper and found.fitted == gp.log_evidence_
    assert found.n_knots == 80 and found.variational_upper is None
    assert found.kl_bound >= found.upper - exact.log_evidence_
    new = np.random.default_rng(1).uniform(size=(80, 2))
    one, other = gp.predict_latent(new), exact.predict_latent(new)
    assert np.all(np.abs(one.mean - other.mean) <= found.mean_bound * other.std)
    assert np.all(np.abs(one.mean - other.mean) <= found.mean_bound_fitted * one.std)
    low, high = found.variance_bounds
    assert np.all((low <= one.variance / other.variance) & (one.variance / other.variance <= high))


def test_a_certificate_is_in_the_units_of_y(waves):
    X, _, y = waves
    one, other = (
        GPRegressor(knots=X[:30], random_state=0, n_jobs=1).fit(X, z).certify() for z in (y, 1000.0 * y - 4e4)
    )
    shift = len(y) * np.log(1000.0)
    assert_allclose([other.lower, other.upper, other.fitted], np.array([one.lower, one.upper, one.fitted]) - shift)
    assert_allclose(other.kl_bound, one.kl_bound, rtol=1e-4)


def test_known_noise_and_weights_are_those_of_the_fit(waves):
    X, f, _ = waves
    rng = np.random.default_rng(2)
    noise, weights = rng.uniform(0.01, 0.2, 150), rng.integers(1, 4, 150).astype(float)
    y = f + np.sqrt(noise) * rng.normal(size=150)
    given = {"noise_variance": noise, "sample_weight": weights}
    gp = GPRegressor(knots=X[:25], random_state=0, n_jobs=1).fit(X, y, **given)
    user = GPRegressor(kernel=gp.kernel_, approximation="full", optimizer=None, n_jobs=1).fit(X, y, **given)
    found = gp.certify()
    assert found.lower <= user.log_evidence_ <= found.upper


def test_more_knots_for_the_bounds_tighten_them(waves):
    X, _, y = waves
    gp = GPRegressor(knots=X[:10], random_state=0, n_jobs=1).fit(X, y)
    found = [gp.certify(more_knots=n) for n in (0, 10, 40)]
    assert [each.n_knots for each in found] == [10, 20, 50]
    assert found[0].gap > found[1].gap > found[2].gap
    assert found[0].lower >= gp.log_evidence_ - 1e-9
    assert gp.certify().lower == found[1].lower
    with pytest.raises(InvalidInputError, match="more_knots"):
        gp.certify(more_knots=-1)


def test_the_exact_gp_is_its_own_certificate(waves):
    X, f, y = waves
    gp = GPRegressor(approximation="full", random_state=0, n_jobs=1).fit(X, y)
    found = gp.certify()
    assert found.lower == found.upper == gp.log_evidence_
    assert found.gap == found.kl_bound == found.mean_bound == 0 and found.variance_bounds == (1.0, 1.0)
    counted = GPRegressor(likelihood="poisson", approximation="full", **GIVEN)
    counted.fit(X, np.random.default_rng(0).poisson(np.exp(f)))
    found = counted.certify()
    assert found.upper is None and found.lower == found.variational_upper
    assert_allclose(found.lower, counted.log_evidence_, atol=1e-6)


@pytest.mark.parametrize("inference", ["auto", "laplace", "ep"])
def test_counts_are_certified_against_full_variational_inference(waves, inference):
    X, f, _ = waves
    y = np.random.default_rng(0).poisson(np.exp(1 + f)).astype(float)
    gp = GPRegressor(likelihood="poisson", inference=inference, knots=X[:40], **GIVEN).fit(X, y)
    found = gp.certify()
    full = GPRegressor(likelihood="poisson", approximation="full", inference="variational", **GIVEN).fit(X, y)
    assert found.lower <= full.log_evidence_ <= found.variational_upper and found.upper is None
    assert "variational inference without knots" in words(found) and "Not certified: how far the true" in words(found)
    assert ("is no bound" in words(found)) == (inference != "auto")
    assert found.gap == found.variational_upper - found.lower <= found.kl_bound < 5


def test_the_evidence_of_log_normal_data_is_certified_as_that_of_their_logarithms(waves):
    X, _, y = waves
    gp = GPRegressor(likelihood="lognormal", knots=X[:30], random_state=0, n_jobs=1).fit(X, np.exp(y))
    found, model, rows = gp.certify(), gp._fit.model, gp._fit.problem.rows
    K = model.kernel(rows.X, rows.X) + rows.basis @ rows.basis.T
    C, z = K + model.likelihood.variance * np.eye(150), np.log(rows.y)
    r = z - model.mean.offset
    exact = -0.5 * (150 * np.log(2 * np.pi) + np.linalg.slogdet(C)[1] + r @ np.linalg.solve(C, r)) - z.sum()
    assert found.lower <= exact <= found.upper and 0 < found.kl_bound < 20


def test_labels_have_a_lower_bound_and_its_rise(waves):
    X, f, _ = waves
    few = GPClassifier(**GIVEN, knots=X[:6]).fit(X, np.where(f > 0, "in", "out"))
    found = few.certify()
    assert found.lower > few.log_evidence_ and found.gap is None and found.kl_bound is found.variance_bounds is None
    assert "class 'out': 6 knots" in words(found) and "nats above that of the fit's knots alone" in words(found)
    several = GPClassifier(**GIVEN, knots=X[:6]).fit(X, np.digitize(f, [-0.3, 0.3]))
    assert [each.model[:7] for each in several.certify()] == ["class 0", "class 1", "class 2"]


def test_a_model_from_a_file_has_nothing_to_certify(waves, tmp_path):
    X, _, y = waves
    gp = GPRegressor(knots=X[:8], random_state=0, n_jobs=1).fit(X, y)
    gp.save(tmp_path / "model.knotwise")
    with pytest.raises(NoTrainingDataError):
        knotwise.load(tmp_path / "model.knotwise").certify()


def test_nothing_is_certified_where_no_variational_bound_is_found(waves, monkeypatch):
    X, f, _ = waves
    gp = GPClassifier(**GIVEN, knots=X[:6]).fit(X, f > 0)

    def fail(*_, **__):
        raise InvalidInputError("no start.")

    monkeypatch.setattr(Variational, "fit", fail)
    monkeypatch.setattr("knotwise.diagnosis.certify._more_knots", lambda *_: None)
    found = gp.certify()
    assert found.lower is None and found.gap is None and "Nothing can be certified" in words(found)


@pytest.mark.filterwarnings("ignore::knotwise.errors.FitWarning")
def test_where_far_too_few_knots_leave_no_posterior_nothing_is_certified(waves):
    X, f, _ = waves
    options = {
        "kernel": SquaredExponential(900.0, 0.1, column_scales="standard"),
        "likelihood": "poisson",
        "optimizer": None,
        "n_jobs": 1,
    }
    gp = GPRegressor(knots=X[:2], inference="laplace", **options).fit(X, np.round(np.exp(3 + 2 * f)))
    found = gp.certify()
    assert found.lower is found.upper is found.variational_upper is found.kl_bound is None
    assert "Nothing can be certified" in words(found) and "still moving" in words(found)


@pytest.mark.parametrize("likelihood", ["gaussian", "poisson"])
def test_threads_change_no_bit(waves, likelihood):
    X, f, y = waves
    y = y if likelihood == "gaussian" else np.random.default_rng(0).poisson(np.exp(f)).astype(float)
    gp = GPRegressor(likelihood=likelihood, knots=X[:12], random_state=0, n_jobs=1, block_size=40).fit(X, y)
    one = gp.certify()
    assert gp.set_params(n_jobs=2).certify() == one


def test_beyond_many_rows_no_pair_of_blocks_is_looked_at(waves, monkeypatch):
    X, _, y = waves
    gp = GPRegressor(knots=X[:25], random_state=0, n_jobs=1, block_size=50).fit(X, y)
    exact, tight = exact_of(gp, X, y).log_evidence_, gp.certify()
    monkeypatch.setattr("knotwise.diagnosis.certify.MAX_PRODUCT_ROWS", 100)
    monkeypatch.setattr(certificate.ProductPass, "__call__", None)
    loose = gp.certify()
    assert exact <= tight.upper <= loose.upper and loose.lower == tight.lower


def test_knots_that_coincide_still_give_bounds(waves):
    X, _, y = waves
    Z = np.vstack([X[:15], X[:5], X[:5] + 1e-9])
    gp = GPRegressor(knots=Z, random_state=0, n_jobs=1).fit(X, y)
    assert gp.certify().lower <= exact_of(gp, X, y).log_evidence_ <= gp.certify().upper


def test_where_nothing_is_left_open_the_knots_are_enough():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 5, size=(200, 1)).astype(float)
    gp = GPRegressor(knots=np.arange(5.0)[:, None], random_state=0, n_jobs=1).fit(X, X[:, 0] + rng.normal(size=200))
    found = gp.certify()
    assert found.n_knots == 5 and 0 <= found.gap < 1e-5
    gp = GPRegressor(knots=[[2.0]], likelihood="bernoulli", random_state=0, n_jobs=1)
    assert gp.fit(np.full((20, 1), 2.0), np.arange(20) % 2).certify().n_knots == 1


def test_fic_is_said_to_be_no_bound(waves):
    X, _, y = waves
    gp = GPRegressor(knots=X[:12], approximation="fic", random_state=0, n_jobs=1).fit(X, y)
    assert "Conjugate inference with power 1 gives a log evidence that is no bound" in str(gp.certify()).replace(
        "\n ", ""
    )
    assert repr(gp.certify()) == str(gp.certify())
