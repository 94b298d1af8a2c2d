"""Predictions of few rows that are averaged over kernels: the mixture against its members, each fitted by itself."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm
from sklearn.base import clone

from knotwise import GPRegressor, cross_validate, load
from knotwise.decisions.thresholds import AVERAGE
from knotwise.errors import InvalidInputError
from knotwise.estimators.averaging import AveragedModel, AveragedModels
from knotwise.kernels import Matern32, SquaredExponential

NEW = np.random.default_rng(9).uniform(size=(6, 2))


def data(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 2))
    return X, 5 + np.sin(7 * X[:, 0]) + 3 * np.abs(X[:, 1] - 0.5) + 0.2 * rng.normal(size=n)


@pytest.fixture(scope="module")
def rows():
    return data()


@pytest.fixture(scope="module")
def exact(rows):
    """An average of exact GPs."""
    return GPRegressor(approximation="full", random_state=0).fit(*rows)


@pytest.fixture(scope="module")
def through_knots(rows):
    """An average of models through knots."""
    gp = GPRegressor(random_state=0).fit(*data(160, seed=1))
    assert gp.n_knots_ and len(gp.models_) > 3
    return gp


@pytest.fixture(scope="module")
def alone(exact, rows):
    """Each member of the average, fitted by itself: its parts at their values, and nothing optimised."""
    X, y = rows

    def fit(model):
        mean = "linear" if type(model.mean).__name__ == "Linear" else "constant"
        settings = {"mean": mean, "approximation": "full", "optimizer": None}
        return GPRegressor(model.kernel, model.likelihood, **settings).fit(X, y)

    return [fit(model) for model in exact.models_]


def weights(gp):
    return np.array([model.weight for model in gp.models_])


def test_members_are_exact_gps_with_their_parameters(exact, alone):
    assert len(alone) > 3
    assert_allclose([gp.log_evidence_ for gp in alone], [model.log_evidence for model in exact.models_], rtol=1e-8)


def test_the_distribution_is_the_weighted_sum_of_those_of_the_members(exact, alone):
    each, w = np.array([gp.predict(NEW, return_std=True) for gp in alone]), weights(exact)
    mean, prediction = w @ each[:, 0], exact.predictive(NEW)
    assert_allclose(prediction.mean, mean, rtol=1e-8)
    assert_allclose(prediction.std**2, w @ (each[:, 1] ** 2 + (each[:, 0] - mean) ** 2), rtol=1e-7)
    assert_allclose(prediction.cdf(5.3), w @ norm.cdf(5.3, each[:, 0], each[:, 1]), rtol=1e-7)
    assert_allclose(
        exact.log_predictive_density(NEW, np.full(6, 5.3)), np.log(w @ norm.pdf(5.3, each[:, 0], each[:, 1])), rtol=1e-7
    )
    lower, upper = exact.predict_interval(NEW, 0.9).T
    assert_allclose(prediction.cdf(lower), 0.05, rtol=1e-6)
    assert_allclose(prediction.cdf(upper), 0.95, rtol=1e-6)
    latent = [gp.predict_latent(NEW) for gp in alone]
    own = exact.predict_latent(NEW)
    assert_allclose(own.mean, w @ np.array([f.mean for f in latent]), rtol=1e-8)
    spread = np.array([f.variance + (f.mean - own.mean) ** 2 for f in latent])
    assert_allclose(own.variance, w @ spread, rtol=1e-6)


def test_the_covariance_is_that_of_the_members_and_of_their_means(exact, alone):
    mean, cov = exact.predict(NEW, return_cov=True)
    total = np.zeros((6, 6))
    for gp, weight in zip(alone, weights(exact), strict=True):
        own_mean, own = gp.predict(NEW, return_cov=True)
        total += weight * (own + np.outer(own_mean - mean, own_mean - mean))
    assert_allclose(cov, total, rtol=1e-6, atol=1e-9)
    assert_allclose(np.sqrt(cov.diagonal()), exact.predict(NEW, return_std=True)[1], rtol=1e-8)


@pytest.mark.parametrize("fixture", ["exact", "through_knots"])
def test_joint_samples_have_the_moments_of_the_mixture(fixture, request):
    gp = request.getfixturevalue(fixture)
    mean, cov = gp.predict(NEW, return_cov=True)
    drawn = gp.sample_observations(NEW, 20_000, random_state=0)
    sd = np.sqrt(cov.diagonal())
    assert np.abs(drawn.mean(0) - mean).max() < 0.05 * sd.max()
    assert np.abs(np.cov(drawn.T) - cov).max() < 0.05 * cov.diagonal().max()
    latent = gp.predict_latent(NEW)
    f = gp.sample_latent(NEW, 20_000, random_state=1)
    assert np.abs(f.mean(0) - latent.mean).max() < 0.05 * latent.std.max()
    assert_allclose(f.var(0), latent.variance, rtol=0.1)


@pytest.mark.parametrize("kind", ["mean", "observation"])
def test_a_total_is_the_mixture_of_totals(exact, alone, kind):
    each = [gp.predict_total(NEW, kind=kind) for gp in alone]
    total, w = exact.predict_total(NEW, kind=kind), weights(exact)
    means, sds = (np.array([getattr(one, name)[0] for one in each]) for name in ("estimate", "sd"))
    assert_allclose(total.estimate[0], w @ means, rtol=1e-8)
    assert_allclose(total.estimate[0], exact.predict(NEW).sum(), rtol=1e-8)
    assert_allclose(total.sd[0] ** 2, w @ (sds**2 + (means - w @ means) ** 2), rtol=1e-6)
    assert_allclose(w @ norm.cdf(total.lower[0], means, sds), 0.025, rtol=1e-5)
    assert_allclose(w @ norm.cdf(total.upper[0], means, sds), 0.975, rtol=1e-5)


def test_rows_are_left_out_of_every_member(exact, alone, rows):
    X, y = rows
    each, w = [cross_validate(gp, X, y, refit=False) for gp in alone], weights(exact)
    found = cross_validate(exact, X, y, refit=False)
    assert_allclose(found.mean, w @ np.array([one.mean for one in each]), rtol=1e-7)
    densities = np.array([one.log_density for one in each])
    assert_allclose(found.log_density, np.log(w @ np.exp(densities)), rtol=1e-6, atol=1e-8)
    blocks = np.arange(len(y)) % 3
    anew = cross_validate(exact, X, y, blocks=blocks, refit=False, knots="anew")
    held = cross_validate(exact, X, y, blocks=blocks, refit=False)
    constant = all(type(model.mean).__name__ != "Linear" for model in exact.models_)
    assert_allclose(anew.mean, held.mean, rtol=1e-6 if constant else 0.05)


def test_a_refit_averages_in_each_block(rows):
    X, y = rows
    found = cross_validate(GPRegressor(random_state=0), X, y, blocks=np.arange(len(y)) % 2)
    half = np.arange(len(y)) % 2 == 1
    gp = GPRegressor(random_state=0).fit(X[half], y[half])
    assert len(gp.models_) > 1
    assert_allclose(found.mean[~half], gp.predict(X[~half]), rtol=1e-8)


def test_knots_of_members_leave_nothing_that_matters(through_knots):
    X, y = data(160, seed=1)
    for model in through_knots.models_[1:]:
        mean = "linear" if type(model.mean).__name__ == "Linear" else "constant"
        settings = {"mean": mean, "approximation": "full", "optimizer": None}
        gp = GPRegressor(model.kernel, model.likelihood, **settings).fit(X, y)
        assert abs(gp.log_evidence_ - model.log_evidence) < 0.05
    posteriors = [member.posterior for member in through_knots._fit.members]
    assert not any(posterior.is_exact for posterior in posteriors)
    noise = [posterior.state.model.likelihood.noise_variance for posterior in posteriors]
    rows = through_knots._fit.rows_at_hand.X
    left = [posterior.residual_variance(rows).max() for posterior in posteriors]
    assert (np.array(left) <= 2 * AVERAGE.left * np.array(noise) + 1e-6).all()


def test_the_fit_itself_is_the_same_without_the_average(rows, exact):
    one = GPRegressor(approximation="full", average=False, random_state=0).fit(*rows)
    assert len(one.models_) == 1 and one.models_[0].weight == 1.0
    assert repr(one.kernel_) == repr(exact.kernel_) and one.log_evidence_ == exact.log_evidence_
    assert_array_equal(one.parameters_.values, exact.parameters_.values)
    assert_array_equal(one.evidence().gradient, exact.evidence().gradient)
    assert "average" not in one.summary() and "predictions are the average of" in exact.summary()
    assert exact.models_[0].kernel == exact.kernel_ or repr(exact.models_[0].kernel) == repr(exact.kernel_)


def test_kernels_have_the_same_weight_and_are_not_far_behind(exact):
    values = np.array([model.log_evidence for model in exact.models_])
    assert_allclose(weights(exact).sum(), 1.0)
    shares = {}
    for model in exact.models_:
        kind = type(model.kernel), np.ndim(model.kernel.lengthscale), type(model.mean)
        shares[kind] = shares.get(kind, 0.0) + model.weight
    assert_allclose(list(shares.values()), 1 / len(shares))
    assert values.max() - values.min() < AVERAGE.nats + 2 * AVERAGE.lost + 10


def test_very_few_rows_have_two_points_of_each_kernel():
    few, more = (GPRegressor(random_state=0).fit(*data(n, seed=2)) for n in (40, AVERAGE.pair_rows + 20))
    kinds = [(type(m.kernel), np.ndim(m.kernel.lengthscale), type(m.mean)) for m in few.models_[1:]]
    assert max(kinds.count(kind) for kind in kinds) == 2
    kinds = [(type(m.kernel), np.ndim(m.kernel.lengthscale), type(m.mean)) for m in more.models_]
    assert len(kinds) == len(set(kinds)) > 1


def test_below_thirty_rows_where_no_kernel_is_chosen_all_are_averaged():
    gp = GPRegressor(random_state=0).fit(*data(20))
    assert isinstance(gp.kernel_, SquaredExponential) and len(gp.models_) > 3


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"kernel": Matern32()}, "kernel was given"),
        ({"knots": 7}, "knots were given"),
        ({"optimizer": None}, "no other kernel"),
        ({"likelihood": "lognormal"}, "Gaussian data"),
        ({"n_neighbors": 5}, "neighbours"),
    ],
)
def test_where_one_kernel_is_wanted_there_is_no_average(rows, settings, why):
    X, y = rows
    assert len(GPRegressor(random_state=0, **settings).fit(X, y).models_) == 1
    with pytest.raises(InvalidInputError, match=why):
        GPRegressor(random_state=0, average=True, **settings).fit(X, y)


def test_noise_and_many_rows_are_not_averaged():
    X, y = data(AVERAGE.rows + 40)
    assert len(GPRegressor(random_state=0).fit(X, y).models_) == 1
    noise = np.random.default_rng(0).normal(size=100)
    gp = GPRegressor(random_state=0).fit(X[:100], noise)
    assert gp.status_ == "no signal" and len(gp.models_) == 1


def test_a_wrong_word_is_refused(rows):
    with pytest.raises(InvalidInputError, match="'auto', True or False"):
        GPRegressor(average="yes").fit(*rows)
    with pytest.raises(InvalidInputError, match="too few"):
        GPRegressor(average=True).fit(rows[0][:6], rows[1][:6])


@pytest.mark.parametrize("fixture", ["exact", "through_knots"])
def test_a_file_holds_the_members(fixture, request, tmp_path):
    gp = request.getfixturevalue(fixture)
    gp.save(tmp_path / "model.knotwise")
    again = load(tmp_path / "model.knotwise")
    for one in (again, pickle.loads(pickle.dumps(gp))):
        assert_array_equal(one.predict_interval(NEW), gp.predict_interval(NEW))
        assert_array_equal(
            one.sample_observations(NEW, 3, random_state=0), gp.sample_observations(NEW, 3, random_state=0)
        )
        assert repr(one.models_) == repr(gp.models_)
    assert again.summary().splitlines()[3] == gp.summary().splitlines()[3]
    again.save(tmp_path / "again.knotwise")
    assert (tmp_path / "again.knotwise").read_bytes() == (tmp_path / "model.knotwise").read_bytes()


def test_threads_and_the_order_of_rows_do_not_matter(rows):
    X, y = rows
    order = np.random.default_rng(3).permutation(len(y))
    one, two = (GPRegressor(random_state=0, n_jobs=n).fit(X, y) for n in (1, 2))
    assert_array_equal(one.predict_interval(NEW), two.predict_interval(NEW))
    other = clone(one).fit(X[order], y[order])
    assert_array_equal(one.predict(NEW), other.predict(NEW))


def test_units_do_not_matter(rows):
    X, y = rows
    one = GPRegressor(random_state=0).fit(X, y)
    other = GPRegressor(random_state=0).fit(X * [1e3, 1e-2], 100 * y - 7)
    assert_allclose(other.predict(NEW * [1e3, 1e-2]), 100 * one.predict(NEW) - 7, rtol=1e-4)
    difference = [b.log_evidence - a.log_evidence for a, b in zip(one.models_, other.models_, strict=True)]
    assert_allclose(difference, -len(y) * np.log(100.0), rtol=1e-5)


def test_sample_weights_are_those_of_every_member(rows):
    X, y = rows
    weights = np.where(np.arange(len(y)) % 3 == 0, 3.0, 1.0)
    gp = GPRegressor(random_state=0, approximation="full").fit(X, y, sample_weight=weights)
    assert len(gp.models_) > 1
    for model in gp.models_[1:]:
        mean = "linear" if type(model.mean).__name__ == "Linear" else "constant"
        settings = {"mean": mean, "approximation": "full", "optimizer": None}
        alone = GPRegressor(model.kernel, model.likelihood, **settings).fit(X, y, sample_weight=weights)
        assert_allclose(alone.log_evidence_, model.log_evidence, rtol=1e-8)


def test_known_noise_is_asked_of_every_member(rows):
    X, y = rows
    gp = GPRegressor(random_state=0).fit(X, y, noise_variance=0.04)
    assert len(gp.models_) > 1
    latent = gp.predict_latent(NEW)
    _, std = gp.predict(NEW, return_std=True, noise_variance=0.5)
    assert_allclose(std**2, latent.variance + 0.5, rtol=1e-8)


def test_the_table_of_models_shows_itself(exact):
    table = exact.models_
    assert isinstance(table, AveragedModels) and isinstance(table[0], AveragedModel)
    assert len(str(table).splitlines()) == len(table) + 1 and "weight" in table._repr_html_()
    assert table.to_frame()["weight"].sum() == pytest.approx(1.0)


def test_effects_and_reports_are_those_of_the_average(exact, alone, rows):
    X, _ = rows
    effect = exact.effects(X)["column 0"]
    each = np.array([gp.effects(X)["column 0"].mean for gp in alone])
    assert_allclose(effect.mean, weights(exact) @ each, rtol=1e-6)


def test_more_rows_than_a_joint_covariance_are_drawn_and_added_up_through_knots(through_knots):
    many = np.random.default_rng(0).uniform(size=(10_500, 2))
    total = through_knots.predict_total(many)
    assert_allclose(total.estimate[0], through_knots.predict(many).sum(), rtol=1e-8)


def test_collections_are_predicted_lazily(exact):
    dask = pytest.importorskip("dask.array")
    assert_allclose(exact.predict(dask.from_array(NEW, chunks=(3, 2))).compute(), exact.predict(NEW), rtol=1e-10)
