"""Noise with heavy tails through the estimator: by hand, decided, left alone, refused, kept in files."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.base import clone

from knotwise import GPRegressor, cross_validate, load
from knotwise.decisions import error_tails, heavy_tails
from knotwise.decisions.thresholds import HEAVY_TAILS
from knotwise.errors import InvalidInputError
from knotwise.evidence.model import Rows
from knotwise.kernels import SquaredExponential
from knotwise.likelihoods import Gaussian, StudentT
from knotwise.posterior.in_sample import InSample

NEW = np.linspace(0.02, 0.98, 60)[:, None]


def heavy(n=250, seed=0, df=3.0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 1))
    return X, np.sin(6 * X[:, 0]) + 0.2 * rng.standard_t(df, n)


def normal(n=250, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 1))
    return X, np.sin(6 * X[:, 0]) + 0.2 * rng.standard_normal(n)


@pytest.fixture(scope="module")
def fitted():
    X, y = heavy()
    return GPRegressor(SquaredExponential(), random_state=0).fit(X, y), X, y


# -- the test of errors -------------------------------------------------------------------------------------------


def errors(z, weights=None):
    z = np.asarray(z, float)
    none = np.zeros(len(z))
    rows = Rows(np.zeros((len(z), 1)), z, None, np.empty((len(z), 0)), weights=weights)
    return error_tails.decide(InSample(z, none, z, none, np.ones(len(z))), rows)


def test_the_likelihood_ratio_of_errors_is_that_of_the_best_t_law():
    z = np.random.default_rng(0).standard_t(3, 400)
    df, _, scale = stats.t.fit(z, floc=0)
    expected = stats.t.logpdf(z, df, 0, scale).sum() - stats.norm.logpdf(z, 0, np.sqrt(np.mean(z**2))).sum()
    found = errors(z)
    assert found.choice and "nats likelier" in found.why
    assert_allclose(found.numbers["tails"], expected, rtol=1e-4)
    assert_allclose(found.numbers["df"], df, rtol=1e-2)


def test_normal_errors_are_not_suspicious_but_once_in_hundreds():
    rng = np.random.default_rng(1)
    tails = [errors(rng.standard_normal(n)).numbers["tails"] for n in (50, 200, 1000) for _ in range(100)]
    assert np.mean(np.array(tails) > HEAVY_TAILS.suspicious) <= 0.02


def test_an_error_of_weight_2_is_two_errors_and_no_error_is_nothing():
    z = np.random.default_rng(2).standard_t(4, 60)
    weights = np.resize([1.0, 2.0], 60)
    one, two = errors(z, weights).numbers, errors(np.repeat(z, weights.astype(int))).numbers
    assert_allclose(one["tails"] * weights.mean(), two["tails"], rtol=1e-4)
    assert not errors(np.zeros(5)).choice


# -- decided --------------------------------------------------------------------------------------------------


def test_heavy_tails_are_found_and_said(fitted):
    gp, _, _ = fitted
    assert isinstance(gp.likelihood_, StudentT) and gp.inference_ == "mixture" and 1.5 < gp.likelihood_.df < 8
    text = str(gp.summary(standard_errors=False))
    assert "the noise has heavy tails: Student-t with" in text and "nats" in text
    step = next(step for step in gp.trace_ if str(step.action) == "noise")
    assert "log density of a row given the others" in step.note


def test_what_is_found_is_the_fit_with_heavy_tails_asked_for_to_the_bit(fitted):
    gp, X, y = fitted
    asked = GPRegressor(SquaredExponential(), noise="heavy", random_state=0).fit(X, y)
    assert_array_equal(asked.predict(NEW), gp.predict(NEW))
    assert asked.log_evidence_ == gp.log_evidence_ and asked.likelihood_.df == gp.likelihood_.df
    assert "the noise has heavy tails: Student-t with" in str(asked.summary(standard_errors=False))


def test_new_rows_are_likelier_than_with_constant_noise(fitted):
    gp, X, y = fitted
    constant = GPRegressor(SquaredExponential(), noise="constant", random_state=0).fit(X, y)
    assert isinstance(constant.likelihood_, Gaussian)
    X_new, y_new = heavy(2000, seed=5)
    assert gp.predictive(X_new).log_density(y_new).mean() > constant.predictive(X_new).log_density(y_new).mean() + 0.03
    inside = np.mean([low <= at <= high for (low, high), at in zip(gp.predict_interval(X_new), y_new, strict=True)])
    assert 0.92 < inside < 0.98


def test_the_bound_is_compared_in_the_units_of_the_data():
    X, y = heavy(120, seed=3)
    gp, scaled = (GPRegressor(SquaredExponential(), random_state=0).fit(X, f * y) for f in (1.0, 1000.0))
    assert type(gp.likelihood_) is type(scaled.likelihood_)
    assert_allclose(scaled.log_evidence_, gp.log_evidence_ - 120 * np.log(1000.0), rtol=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_normal_noise_is_left_alone(seed):
    X, y = normal(seed=seed)
    gp = GPRegressor(SquaredExponential(), random_state=0).fit(X, y)
    constant = GPRegressor(SquaredExponential(), noise="constant", random_state=0).fit(X, y)
    assert_array_equal(gp.predict(NEW), constant.predict(NEW))


def test_asked_for_with_normal_noise_it_is_the_gaussian_fit_nearly():
    X, y = normal()
    gp = GPRegressor(SquaredExponential(), noise="heavy", random_state=0).fit(X, y)
    constant = GPRegressor(SquaredExponential(), noise="constant", random_state=0).fit(X, y)
    assert_allclose(gp.predict(NEW), constant.predict(NEW), atol=0.02)
    assert_allclose(gp.log_evidence_, constant.log_evidence_, atol=3.0)


def test_a_row_given_the_others_is_that_of_a_fit_without_it(fitted):
    """With the hyperparameters held; the precisions of its neighbours are found anew, and hardly move (M7)."""
    gp, X, y = fitted
    fit = gp._fit
    each = heavy_tails.Fitted(fit.problem, fit.selection, float(np.log(fit.scaling.y_scale)))
    density, _ = each.densities()
    order = np.lexsort([y, X[:, 0]])
    for i in (0, 100, 249):
        others = np.delete(order, i)
        user = {"mean": gp.mean_, "knots": gp.knots_, "optimizer": None, "inference": "mixture", "jitter": gp.jitter_}
        left = GPRegressor(gp.kernel_, gp.likelihood_, **user).fit(X[others], y[others])
        row = order[i : i + 1]
        assert_allclose(density[i], left.predictive(X[row]).log_density(y[row])[0], atol=0.02)


@pytest.mark.parametrize("options", [{"approximation": "full"}, {"n_neighbors": 8}])
def test_heavy_tails_are_found_by_the_exact_gp_and_with_neighbours(options):
    X, y = heavy(220, seed=1)
    gp = GPRegressor(SquaredExponential(), random_state=0, **options).fit(X, y)
    assert isinstance(gp.likelihood_, StudentT)
    assert gp.approximation_ == options.get("approximation", "neighbors")


def test_rows_in_any_order_and_any_number_of_threads_give_the_same(fitted):
    gp, X, y = fitted
    order = np.random.default_rng(0).permutation(len(y))
    again = GPRegressor(SquaredExponential(), random_state=0).fit(X[order], y[order])
    threads = GPRegressor(SquaredExponential(), random_state=0, n_jobs=2).fit(X, y)
    assert_allclose(again.predict(NEW), gp.predict(NEW), rtol=1e-8)
    assert_array_equal(threads.predict(NEW), gp.predict(NEW))


# -- what is given is not tried, and what cannot be is refused -----------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [{"likelihood": Gaussian(0.1)}, {"fixed": ["noise_variance"]}, {"optimizer": None}, {"noise": "constant"}],
)
def test_what_is_given_is_not_tried(options):
    X, y = heavy(80)
    gp = GPRegressor(SquaredExponential(1.0, 0.2), random_state=0, **options).fit(X, y)
    assert isinstance(gp.likelihood_, Gaussian)


def test_known_noise_is_not_tried():
    X, y = heavy(80)
    gp = GPRegressor(SquaredExponential(), random_state=0).fit(X, y, noise_variance=np.full(80, 0.04))
    assert "heavy" not in str(gp.summary(standard_errors=False))


@pytest.mark.parametrize(
    ("options", "known", "words"),
    [
        ({"likelihood": "poisson"}, {}, "is for Gaussian data, but the likelihood is Poisson"),
        ({"likelihood": Gaussian(0.1)}, {}, "whose noise has a value, contradict each other"),
        ({"optimizer": None}, {}, "is learned, and `optimizer=None` forbids that"),
        ({}, {"noise_variance": 0.1}, "the noise of each row was given"),
        ({"inference": "ep"}, {}, "power"),
    ],
)
def test_heavy_tails_that_cannot_be_are_refused_in_words(options, known, words):
    X, y = heavy(30)
    if "inference" in options:
        options = {"approximation": 0.5}
    with pytest.raises(InvalidInputError, match=words):
        GPRegressor(noise="heavy", **options).fit(X, np.abs(np.rint(y)), **known)


# -- faces --------------------------------------------------------------------------------------------------------


def test_files_pickles_and_clones_have_it(fitted, tmp_path):
    gp, _, _ = fitted
    gp.save(tmp_path / "heavy.knots")
    for again in (load(tmp_path / "heavy.knots"), pickle.loads(pickle.dumps(gp))):
        assert_array_equal(again.predict(NEW), gp.predict(NEW))
        assert_array_equal(again.predict_interval(NEW), gp.predict_interval(NEW))
        assert again.noise == "auto"
        said = str(again.summary(standard_errors=False)).split("\n")
        assert "the noise has heavy tails: Student-t with" in "".join(said)
    assert clone(gp).noise == "auto"


@pytest.mark.parametrize("options", [{}, {"refit": False}])
def test_cross_validation_predicts_with_heavy_tails(fitted, options):
    gp, X, y = fitted
    constant = GPRegressor(SquaredExponential(), noise="constant", random_state=0).fit(X, y)
    one, other = (
        cross_validate(each, X, y, blocks=np.arange(len(y)) % 5, **options).scores["nlpd"] for each in (gp, constant)
    )
    assert np.mean(one) < np.mean(other)


def test_diagnosis_report_samples_and_totals_work(fitted, tmp_path):
    gp, X, y = fitted
    assert str(gp.diagnose())
    page = gp.report(tmp_path / "page.html", X, y)
    assert page is not None and "The noise has heavy tails: Student-t with" in (tmp_path / "page.html").read_text()
    assert np.isfinite(gp.predict_total(NEW, random_state=0).estimate)
    errors = gp.parameters_.standard_errors()
    assert (np.diag(errors.covariance) > 0).all() and not any(errors.notes)
    with pytest.raises(InvalidInputError, match="Gaussian data"):
        gp.predict_noise(NEW)


def test_weights_are_relative():
    X, y = heavy(150)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 150)
    one, other = (GPRegressor(SquaredExponential(), noise="heavy", random_state=0) for _ in range(2))
    one.fit(X, y, sample_weight=weights / weights.mean())
    with pytest.warns(Warning, match="weights"):
        other.fit(X, y, sample_weight=100 * weights)
    assert_allclose(one.predict(NEW), other.predict(NEW), rtol=1e-6)


def test_dask_collections_have_constant_noise():
    dask_array = pytest.importorskip("dask.array")
    X, y = heavy(120)
    lazy = (dask_array.from_array(X, chunks=60), dask_array.from_array(y, chunks=60))
    assert isinstance(GPRegressor(knots=6, random_state=0).fit(*lazy).likelihood_, Gaussian)
    with pytest.raises(InvalidInputError, match="rows in memory"):
        GPRegressor(knots=6, noise="heavy").fit(*lazy)
