"""Variances are right and never negative, and neither threads nor blocks nor batches change a prediction."""

import threading

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from failure_fits import fit, smooth_rows
from knotwise.kernels import Linear, Matern12, SquaredExponential
from knotwise.knots import Fixed
from knotwise.likelihoods import Gaussian


@pytest.fixture(scope="module")
def data():
    return smooth_rows()


# -- variances and covariances --------------------------------------------------------------------


@pytest.mark.failure(18)
@pytest.mark.parametrize("noise", [0.0, 1e-6, 1e-3])
@pytest.mark.parametrize(
    "options", [{"knots": 20}, {"knots": 20, "approximation": "fic"}, {"approximation": "full"}], ids=str
)
@pytest.mark.filterwarnings("ignore::knotwise.errors.FitWarning")
def test_predictive_variances_are_never_negative_on_dense_data_with_tiny_noise(options, noise):
    """Case 18: negative predictive variance."""
    x = np.linspace(0, 1, 300)[:, None]
    y = np.sin(9 * x[:, 0]) + noise * np.random.default_rng(18).normal(size=300)
    gp = fit(x, y, **options)
    places = np.vstack([x, gp.knots_, gp.knots_ + 1e-9])
    floor = gp.likelihood_.noise_variance
    assert (gp.predict_latent(places).variance >= 0).all()
    assert (gp.predict(places, return_std=True)[1] ** 2 >= floor * (1 - 1e-12)).all()
    assert (gp.predict(places, return_cov=True)[1].diagonal() >= floor * (1 - 1e-12)).all()


@pytest.mark.failure(19)
@pytest.mark.parametrize(
    "options",
    [{}, {"approximation": "fic"}, {"approximation": "full"}, {"mean": "linear"}, {"kernel": Linear()}],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::knotwise.errors.FitWarning")
def test_std_and_covariance_agree_on_nearly_linear_data(options):
    """Case 19: std and covariance disagree."""
    rng = np.random.default_rng(19)
    X = rng.uniform(size=(60, 2))
    gp = fit(X, 3 * X[:, 0] - 2 * X[:, 1] + 1e-3 * rng.normal(size=60), **options)
    X_new = rng.uniform(size=(80, 2))
    mean, std = gp.predict(X_new, return_std=True)
    mean_again, cov = gp.predict(X_new, return_cov=True)
    assert_array_equal(mean, mean_again)
    assert_allclose(np.sqrt(cov.diagonal()), std, rtol=1e-8)
    assert_allclose(cov, cov.T, rtol=0, atol=1e-5 * cov.diagonal().max())
    assert np.linalg.eigvalsh(cov).min() > 0
    assert_allclose(mean, 3 * X_new[:, 0] - 2 * X_new[:, 1], atol=0.01)


@pytest.mark.failure(32)
@pytest.mark.parametrize("approximation", ["vfe", "fic", 0.5])
def test_a_knot_on_every_row_is_the_exact_gp(approximation):
    """Case 32: sparse model overconfident against the full GP; K = N."""
    rng = np.random.default_rng(32)
    X, X_new = rng.uniform(size=(40, 2)), rng.uniform(-0.2, 1.2, size=(60, 2))
    y = np.sin(6 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=40)
    options = {
        "kernel": Matern12(1.0, 0.8, column_scales="standard"),
        "likelihood": Gaussian(0.01),
        "optimizer": None,
        "mean": 0.3,
    }
    sparse = fit(X, y, knots=X, approximation=approximation, **options)
    exact = fit(X, y, approximation="full", **options)
    assert_allclose(sparse.log_evidence_, exact.log_evidence_, rtol=1e-6)
    a, b = sparse.predict_latent(X_new), exact.predict_latent(X_new)
    assert_allclose(a.mean, b.mean, atol=1e-6 * y.std())
    assert_allclose(a.variance, b.variance, rtol=1e-6)


@pytest.mark.failure(32)
@pytest.mark.parametrize("approximation", ["vfe", "fic"])
@pytest.mark.parametrize("knots", [3, 8, "auto"])
@pytest.mark.filterwarnings("ignore::knotwise.errors.FitWarning")
def test_intervals_through_few_knots_hold_as_many_observations_as_they_say(knots, approximation):
    """Case 32: K small: what the knots cannot follow becomes uncertainty."""
    rng = np.random.default_rng(32)
    x, x_new = rng.uniform(size=(300, 1)), rng.uniform(size=(2000, 1))
    truth = lambda x: np.sin(25 * x[:, 0])  # noqa: E731
    gp = fit(x, truth(x) + 0.2 * rng.normal(size=300), knots=knots, approximation=approximation)
    low, high = gp.predict_interval(x_new, level=0.9).T
    y_new = truth(x_new) + 0.2 * rng.normal(size=2000)
    assert np.mean((low < y_new) & (y_new < high)) > 0.86  # wider than needed is not overconfident


# -- determinism --------------------------------------------------------------------------------------


class Watched(SquaredExponential):
    """A kernel that remembers on which threads blocks of rows were evaluated."""

    threads: set = set()

    def value_and_pullback(self, X, Z):
        self.threads.add(threading.get_ident())
        return super().value_and_pullback(X, Z)


@pytest.mark.slow
@pytest.mark.failure(23)
@pytest.mark.parametrize(
    ("n_rows", "block_size", "knots"),
    [(300, 40, 8), (20_000, 1000, Fixed("random", 12))],
    ids=["small, knots moved", "20,000 rows, knots held"],
)
@pytest.mark.filterwarnings("ignore::knotwise.errors.FitWarning")
def test_the_same_seed_gives_the_same_bits_on_one_and_two_threads(n_rows, block_size, knots):
    """Case 23: same seed, different result."""
    rng = np.random.default_rng(23)
    X = rng.uniform(size=(n_rows, 2))
    y = np.sin(6 * X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=n_rows)
    results, threads = [], []
    for n_jobs in (1, 1, 2):
        Watched.threads = set()
        gp = fit(X, y, kernel=Watched(), knots=knots, n_jobs=n_jobs, block_size=block_size)
        threads.append(len(Watched.threads))
        state = [gp.log_evidence_, *gp.parameters_.values, *gp.knots_.ravel()]
        results.append(np.concatenate([state, *gp.predict(X[:500], return_std=True)]))
    assert threads[:2] == [1, 1] and threads[2] <= 3, "with two jobs, the caller and the threads of its pool"
    assert_array_equal(results[0], results[1])
    assert_array_equal(results[0], results[2])


@pytest.mark.failure(24)
@pytest.mark.parametrize("approximation", ["vfe", "fic", 0.5])
@pytest.mark.parametrize(
    "options",
    [{"kernel": SquaredExponential()}, {"kernel": SquaredExponential() + Linear()}, {"mean": "linear"}],
    ids=["squared exponential", "sum", "linear mean"],
)
def test_block_size_and_row_order_change_the_evidence_by_rounding_only(options, approximation):
    """Case 24: other block size or row order."""
    rng = np.random.default_rng(24)
    X = rng.uniform(size=(700, 2))
    y = np.sin(6 * X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=700)
    options = {"optimizer": None, "knots": X[:20], "approximation": approximation, **options}
    expected = fit(X, y, **options)
    X_new = rng.uniform(size=(30, 2))
    for block_size in (1, 7, 100, 699, 5000):
        other = fit(X, y, block_size=block_size, **options)
        assert_allclose(other.log_evidence_, expected.log_evidence_, rtol=1e-10)
        assert_allclose(other.predict(X_new), expected.predict(X_new), rtol=1e-8, atol=1e-8)
    for order in (np.arange(700)[::-1], rng.permutation(700), np.argsort(X[:, 0])):
        other = fit(X[order], y[order], **options)
        assert_allclose(other.log_evidence_, expected.log_evidence_, rtol=1e-10)
        assert_allclose(other.predict(X_new), expected.predict(X_new), rtol=1e-8, atol=1e-8)


@pytest.mark.failure(28)
@pytest.mark.filterwarnings("ignore:.* farther from the data")  # where they are is no matter
@pytest.mark.parametrize("approximation", ["vfe", "full"])
def test_predictions_in_batches_equal_those_in_one_go(approximation, data):
    """Case 28: batched predict differs from one shot."""
    X, y, _ = data
    gp = fit(X, y, approximation=approximation)
    X_new = np.random.default_rng(28).uniform(-1, 2, size=(17_000, 2))
    mean, std = gp.predict(X_new, return_std=True)
    for edges in ([1], [8500], [10, 6000, 6001, 12_345]):
        parts = [gp.predict(part, return_std=True) for part in np.split(X_new, edges)]
        assert_allclose(np.concatenate([p[0] for p in parts]), mean, rtol=1e-12, atol=1e-12)
        # near rows, a variance is a small difference of large ones
        assert_allclose(np.concatenate([p[1] for p in parts]), std, rtol=1e-11)
    one_by_one = [gp.predict(row[None])[0] for row in X_new[:50]]
    assert_allclose(one_by_one, mean[:50], rtol=1e-12, atol=1e-12)
