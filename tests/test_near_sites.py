"""Sites with neighbours: the exact GP's variational inference as their limit, and what they bring."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics import log_loss

from knotwise import GPClassifier, GPRegressor
from knotwise import kernels as k
from knotwise import likelihoods as lik
from knotwise.errors import FitWarning, InvalidInputError
from knotwise.evidence import InMemory, Jitter, Model, Rows, full_evidence, sparse_evidence
from knotwise.evidence.inference import HeldSites, Variational
from knotwise.evidence.residual import vecchia_ordering
from knotwise.knots import Auto
from knotwise.means import Constant, Zero
from knotwise.noise import NoNugget, Nugget
from knotwise.numerics.blocks import Threads
from knotwise.posterior.exact import ExactPosterior
from knotwise.posterior.vecchia import VecchiaPosterior, VecchiaState

SHARP = Variational(tolerance=1e-20)


def data(likelihood, *, n=40, mean=None, nugget=None, weighted=False, exposed=False, seed=0):
    """Model, rows, some knots, jitter and new places."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    f = 1.5 * np.sin(2 * X[:, 0]) + 0.4 * X[:, 1]
    size = rng.uniform(0.5, 3.0, n) if exposed else None
    likelihood = likelihood if isinstance(likelihood, lik.Likelihood) else likelihood()
    y = likelihood.sample(f, rng, 1.0 if size is None else size)
    mean = (mean or Constant()).bind(X, 1.0, 0.2)
    weights = rng.integers(1, 4, n).astype(float) if weighted else None
    nugget = NoNugget() if nugget is None else Nugget(nugget)
    model = Model(k.Matern32(1.5, [0.7, 1.0]), likelihood, mean, nugget=nugget, inference=SHARP)
    rows = Rows(X, y.astype(float), None, mean.basis(X), size, weights)
    return model, rows, rng.normal(size=(5, 2)), Jitter(1e-6, X[:4]), rng.normal(size=(10, 2))


def arranged(model, rows, m, seed=1):
    """The model with m neighbours, and the rows in their order."""
    found = vecchia_ordering(model.kernel, rows, m, np.random.default_rng(seed))
    return replace(model, residual=found.residual), rows[found.rows]


CASES = {
    "bernoulli": (lik.Bernoulli, {}),
    "probit": (lik.Bernoulli("probit"), {}),
    "poisson-exposure": (lik.Poisson, {"exposed": True}),
    "negative-binomial": (lik.NegativeBinomial(2.0), {}),
    "nugget": (lik.Poisson, {"nugget": 0.3}),
    "weights": (lik.Bernoulli, {"weighted": True}),
    "level": (lik.Poisson, {"mean": Constant(0.4)}),
    "all": (lik.NegativeBinomial(2.0), {"nugget": 0.2, "weighted": True, "exposed": True, "mean": Zero()}),
}
cases = pytest.mark.parametrize("likelihood, options", CASES.values(), ids=CASES.keys())


@cases
def test_all_rows_as_neighbours_are_the_variational_inference_of_the_exact_gp(likelihood, options):
    model, rows, Z, jitter, X_new = data(likelihood, **options)
    near, rows = arranged(model, rows, len(rows) - 1)
    found, exact = sparse_evidence(near, rows, Z, jitter=jitter), full_evidence(model, rows)
    assert found.converged and exact.converged
    assert_allclose(found.value, exact.value, rtol=1e-10)
    assert_allclose(found.gradient, exact.gradient, atol=1e-7)
    posterior = VecchiaPosterior(VecchiaState.of(found.state, rows, len(rows)))
    for X in (X_new, rows.X):
        one, other = posterior.latent(X), ExactPosterior(exact.state).latent(X)
        assert_allclose(one.mean, other.mean, atol=1e-7)
        assert_allclose(one.variance, other.variance, atol=1e-7)


@cases
def test_marginals_of_the_likelihood_are_those_of_the_exact_gp(likelihood, options):
    model, rows, Z, jitter, _ = data(likelihood, **options)
    near, rows = arranged(model, rows, len(rows) - 1)
    sites = sparse_evidence(near, rows, Z, jitter=jitter, gradient=False).state.pseudo
    exact = full_evidence(model, rows, gradient=False).state
    a, W, b = exact.last.T
    assert_allclose(sites.W, W, rtol=1e-7)
    assert_allclose(sites.b, b, atol=1e-7)
    # a = E g under the marginal, and W = -E g'                                                          (V4)
    seen = model.likelihood.expectations(rows.y, sites.mean, sites.variance, rows.sizes)
    assert_allclose(seen.first, a, atol=1e-7)
    assert_allclose(-seen.second, W, rtol=1e-7)


@pytest.mark.parametrize("options", [{}, {"nugget": 0.3, "weighted": True}], ids=["plain", "nugget-weights"])
def test_the_gradient_at_held_sites_is_that_of_the_objective_where_all_rows_are_neighbours(options, rng):
    model, rows, Z, jitter, _ = data(lik.NegativeBinomial(2.0), n=25, **options)
    near, rows = arranged(model, rows, len(rows) - 1)

    def evidence(theta, *, gradient=False):
        return sparse_evidence(near.with_theta(theta), rows, Z, jitter=jitter, gradient=gradient)

    start = near.theta
    found = evidence(start, gradient=True)
    for direction in rng.normal(size=(2, len(start))):
        step = 1e-4 * direction
        slope = (evidence(start + step).value - evidence(start - step).value) / 2e-4
        assert_allclose(found.gradient @ direction, slope, rtol=1e-5)


def test_held_sites_have_the_log_normalizer_and_its_gradient(rng):
    model, rows, Z, jitter, _ = data(lik.Bernoulli, nugget=0.3, weighted=True)
    near, rows = arranged(model, rows, 6)
    found = sparse_evidence(near, rows, Z, jitter=jitter)
    sites = found.state.pseudo
    held = replace(rows, y=near.mean.offset + sites.r, noise_variance=1.0 / sites.W)
    at = replace(near, inference=HeldSites())
    log_Z = sparse_evidence(at, held, Z, jitter=jitter)
    assert_allclose(log_Z.gradient, found.gradient, rtol=1e-8, atol=1e-9)
    seen = model.likelihood.expectations(rows.y, sites.mean, sites.variance, rows.sizes).log_density
    square = (sites.r + near.mean.offset - sites.mean) ** 2 + sites.variance
    log_site = 0.5 * (np.log(sites.W / (2 * np.pi)) - sites.W * square)
    assert_allclose(found.value, log_Z.value + rows.total(seen - log_site), rtol=1e-10)  # (N6)
    direction = rng.normal(size=len(near.theta))
    up, down = (
        sparse_evidence(at.with_theta(at.theta + step * direction), held, Z, jitter=jitter, gradient=False).value
        for step in (1e-5, -1e-5)
    )
    assert_allclose(log_Z.gradient @ direction, (up - down) / 2e-5, rtol=1e-6)


@pytest.mark.parametrize("nugget", [None, 0.3])
def test_a_row_that_counts_three_times_is_the_row_three_times(nugget):
    model, rows, Z, jitter, X_new = data(lik.Poisson, n=20, nugget=nugget)
    weights = np.ones(20)
    weights[[3, 11]] = 3.0
    weighted, copies = replace(rows, weights=weights), rows[np.repeat(np.arange(20), weights.astype(int))]
    found = []
    for each in (weighted, copies):
        near, each = arranged(model, each, len(each) - 1)
        evidence = sparse_evidence(near, each, Z, jitter=jitter)
        latent = VecchiaPosterior(VecchiaState.of(evidence.state, each, len(each))).latent(X_new)
        found.append([evidence.value, *evidence.gradient, *latent.mean, *latent.variance])
    assert_allclose(*found, rtol=1e-6, atol=1e-6)


def test_lognormal_data_are_gaussian_data_on_the_log_scale():
    model, rows, Z, jitter, X_new = data(lik.LogNormal(0.3))
    near, rows = arranged(model, rows, 6)
    found = sparse_evidence(near, rows, Z, jitter=jitter)
    logs = replace(rows, y=np.log(rows.y))
    gaussian = replace(near, likelihood=lik.Gaussian(float(np.exp(near.likelihood.theta[0]))), inference=None)
    on_logs = sparse_evidence(gaussian, logs, Z, jitter=jitter)
    assert_allclose(found.value, on_logs.value - np.log(rows.y).sum(), rtol=1e-10)
    one, other = (
        VecchiaPosterior(VecchiaState.of(e.state, r)).latent(X_new) for e, r in ((found, rows), (on_logs, logs))
    )
    assert_allclose(one.mean, other.mean, atol=1e-8)
    assert_allclose(one.variance, other.variance, atol=1e-8)


def test_more_neighbours_come_nearer_to_the_exact_gp():
    model, rows, Z, jitter, _ = data(lik.Bernoulli, n=150)
    exact = full_evidence(model, rows, gradient=False).value
    apart = []
    for m in (2, 10, 60):
        near, some = arranged(model, rows, m)
        apart.append(abs(sparse_evidence(near, some, Z, jitter=jitter, gradient=False).value - exact))
    assert apart[2] < apart[1] < apart[0] and apart[2] < 0.05


def test_threads_kept_covariances_and_the_last_sites_change_nothing(monkeypatch):
    model, rows, Z, jitter, _ = data(lik.Poisson, n=150)
    near, rows = arranged(model, rows, 8)
    monkeypatch.setattr("knotwise.evidence.inference.near_sites.ROWS_TOGETHER", 40)
    found = sparse_evidence(near, rows, Z, jitter=jitter)
    blocks = InMemory(rows, Threads(2))
    again = sparse_evidence(near, blocks, Z, jitter=jitter)
    assert again.value == found.value
    warm = sparse_evidence(near, blocks, Z, jitter=jitter)
    assert_allclose(warm.value, found.value, rtol=1e-12)
    monkeypatch.setattr("knotwise.evidence.inference.near_sites.KEEP_BYTES", 0)
    assert sparse_evidence(near, rows, Z, jitter=jitter).value == found.value


def test_precisions_below_zero_become_a_small_one_and_the_search_arrives():
    model, rows, Z, jitter, _ = data(lik.StudentT(0.1, 3.0))
    near, rows = arranged(model, rows, 8)
    found = sparse_evidence(near, rows, Z, jitter=jitter)
    sites = found.state.pseudo
    assert found.converged and np.isfinite(found.gradient).all()
    seen = model.likelihood.expectations(rows.y, sites.mean, sites.variance)
    assert (sites.W > 0).all()
    assert_allclose(sites.W[seen.second < 0], -seen.second[seen.second < 0], rtol=1e-6)


def test_more_equal_rows_than_neighbours_are_no_special_case():
    model, rows, Z, jitter, _ = data(lik.Bernoulli)
    X = np.repeat(rows.X[:2], 20, axis=0)
    near, rows = arranged(model, replace(rows, X=X), 4)
    assert sparse_evidence(near, rows, Z, jitter=jitter).converged


def rough(seed=0, n=1500, n_new=1000):
    """Two classes, by a function that changes within short distances in 3 columns; and new rows."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n + n_new, 3))
    frequencies = rng.normal(size=(2000, 3)) / np.sqrt(rng.chisquare(3, size=(2000, 1)) / 3) / 0.2
    f = 10 * np.sqrt(2 / 2000) * np.cos(X @ frequencies.T + rng.uniform(0, 2 * np.pi, 2000)).sum(1)
    y = rng.uniform(size=len(f)) < 1 / (1 + np.exp(-f))
    return X[:n], y[:n], X[n:], y[n:]


@pytest.mark.slow
def test_rough_classes_are_predicted_better_than_by_knots_alone():
    X, y, X_new, y_new = rough()
    options = {"kernel": k.Matern32(), "random_state": 0, "n_jobs": 1}
    near = GPClassifier(n_neighbors=15, **options).fit(X, y)
    with pytest.warns(FitWarning, match="the limit of 100 knots was reached"):
        knots = GPClassifier(knots=Auto(max_knots=100), n_neighbors=0, **options).fit(X, y)
    losses = [log_loss(y_new, gp.predict_proba(X_new)[:, 1]) for gp in (near, knots)]
    assert losses[0] < losses[1] - 0.02
    assert near.n_neighbors_ == 15 and near.approximation_ == "neighbors" and near.inference_ == "variational"
    assert near.converged_ and "variational approximation" in near.summary(standard_errors=False)
    again = near.models_[0].evidence()
    assert_allclose(again.value, near.log_evidence_, rtol=1e-8)
    assert np.isfinite(again.gradient).all()
    total = near.predict_total(X_new[:50], random_state=0)
    assert_allclose(total.estimate, near.predict_proba(X_new[:50])[:, 1].sum(), rtol=0.05)
    assert near.models_[0].sample_latent(X_new[:20], 3, random_state=0).shape == (3, 20)


def test_counts_with_exposure_and_dispersion_are_fitted_with_neighbours():
    rng = np.random.default_rng(2)
    X = rng.uniform(size=(400, 2))
    exposure = rng.uniform(1, 4, 400)
    y = lik.NegativeBinomial(4.0).sample(np.sin(12 * X[:, 0]) + np.cos(15 * X[:, 1]), rng, exposure)
    gp = GPRegressor(k.Matern32(), lik.NegativeBinomial(), n_neighbors=10, random_state=0, n_jobs=1)
    gp.fit(X, y, exposure=exposure)
    assert gp.n_neighbors_ == 10
    assert 1.5 < gp.likelihood_.dispersion < 12 or 0.08 < gp.likelihood_.dispersion < 0.7
    low, high = gp.predict_interval(X, kind="observation", exposure=exposure).T
    assert 0.9 < np.mean((low <= y) & (y <= high)) <= 1.0


def test_labels_are_not_judged_by_the_size_of_their_errors_and_counts_are():
    """Sites give way to labels that surprise: where the model is right their errors are far below 1."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(800, 2))
    f = 4 * np.sin(9 * X[:, 0]) * np.cos(8 * X[:, 1])
    options = {"knots": 20, "n_neighbors": 15, "random_state": 0}
    classes = GPRegressor(likelihood="bernoulli", **options).fit(X, rng.binomial(1, 1 / (1 + np.exp(-f))))
    found = classes.diagnose()
    finding = found.finding("neighbours")
    assert found.leave_one_out is None and finding.level == "ok" and finding.text.startswith("residuals of neighbours")
    found = GPRegressor(likelihood="poisson", **options).fit(X, rng.poisson(np.exp(2 + f / 4))).diagnose()
    assert 0.9 < found.leave_one_out.size < 1.1 and found.finding("neighbours").level == "ok"


@pytest.mark.parametrize("inference", ["laplace", "ep"])
def test_other_inferences_do_not_go_with_neighbours(inference):
    X, y, *_ = rough(n=40, n_new=0)
    with pytest.raises(InvalidInputError, match=r"do not go together.*Leave `inference` at 'auto'"):
        GPClassifier(n_neighbors=5, inference=inference).fit(X, y)


def test_neighbours_and_an_approximation_contradict_each_other():
    X, y, *_ = rough(n=40, n_new=0)
    with pytest.raises(InvalidInputError, match="contradict each other"):
        GPClassifier(n_neighbors=5, approximation="vfe").fit(X, y)
