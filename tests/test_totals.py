"""Totals and averages with intervals, and joint samples: the rows of a region are not independent."""

import warnings
from copy import copy
from functools import cache

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import ndtri
from scipy.stats import norm

from knotwise import GPClassifier, GPRegressor
from knotwise.data.groups import GroupedRows, check_groups
from knotwise.errors import FitWarning, InvalidInputError, TooLargeError, UnknownOptionError
from knotwise.estimators import base as estimators_base
from knotwise.estimators import total_law
from knotwise.estimators.total_law import Response, sample_totals
from knotwise.estimators.totals import Totals
from knotwise.kernels import Matern32, SquaredExponential
from knotwise.likelihoods import Bernoulli, Gaussian, StudentT
from knotwise.likelihoods.response import response_moments
from knotwise.numerics.blocks import Serial

RNG = np.random.default_rng(7)
N = 60
X = RNG.uniform(-2, 2, size=(N, 2))
F = 1 + np.sin(2 * X[:, 0]) + 0.5 * X[:, 1]
AREA = RNG.uniform(0.5, 3.0, N)
NEW = RNG.uniform(-2, 2, size=(40, 2))
REGION = np.where(NEW[:, 0] < 0, "west", "east")
WEIGHTS = RNG.uniform(0.2, 3.0, len(NEW))
GRID = np.stack(np.meshgrid(*2 * [np.linspace(-2, 2, 7)]), axis=-1).reshape(-1, 2)
KERNEL = SquaredExponential(1.0, 0.9, column_scales="standard")
TRIALS = np.full(N, 5.0)
ANSWERS = {
    "gaussian": 500 + 40 * (F + 0.5 * RNG.normal(size=N)),
    "student_t": 500 + 40 * (F + 0.3 * RNG.standard_t(4, N)),
    "poisson": RNG.poisson(AREA * np.exp(F)).astype(float),
    "negative_binomial": RNG.poisson(AREA * np.exp(F) * RNG.gamma(3, 1 / 3, N)).astype(float),
    "binomial": RNG.binomial(5, 1 / (1 + np.exp(-F))).astype(float),
    "bernoulli": RNG.binomial(1, 1 / (1 + np.exp(-F))).astype(float),
    "gamma": np.exp(F) * RNG.gamma(3, 1 / 3, N),
    "lognormal": np.exp(F + 0.4 * RNG.normal(size=N)),
    "beta": np.clip(1 / (1 + np.exp(-F - 0.3 * RNG.normal(size=N))), 0.01, 0.99),
}
SIZES = {
    "poisson": {"exposure": AREA},
    "negative_binomial": {"exposure": AREA},
    "binomial": {"trials": TRIALS},
}
NEW_SIZES = {
    "poisson": {"exposure": WEIGHTS},
    "negative_binomial": {"exposure": WEIGHTS},
    "binomial": {"trials": np.arange(len(NEW)) % 4 + 1},
}
#: what a standard error of a quantile of n samples is, in standard deviations of a normal variable
QUANTILE_ERROR = {n: np.sqrt(0.025 * 0.975 / n) / norm.pdf(ndtri(0.975)) for n in (8000, 20_000)}


@cache
def fitted(likelihood="gaussian", **options):
    settings = {"knots": "grid", "optimizer": None, "random_state": 0, "n_jobs": 1} | options
    if isinstance(settings["knots"], str):
        settings["knots"] = GRID if settings["knots"] == "grid" else GRID[::9]
    kernel = (
        SquaredExponential(1600.0, 0.9, column_scales="standard") if likelihood in ("gaussian", "student_t") else KERNEL
    )
    return GPRegressor(kernel, likelihood, **settings).fit(X, ANSWERS[likelihood], **SIZES.get(likelihood, {}))


def total(gp, rows=NEW, **options):
    """A total without warnings of what few knots leave out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        return gp.predict_total(rows, **{"random_state": 0} | options)


def sizes_of(likelihood, rows=slice(None)):
    return {name: np.asarray(size)[rows] for name, size in NEW_SIZES.get(likelihood, {}).items()}


def latent_covariance(gp, rows):
    return gp._fit.posterior.covariance(gp._engine_inputs(rows)) * gp._fit.scaling.y_scale**2


# -- closed forms -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mean", ["constant", "linear"])
@pytest.mark.parametrize("approximation", ["vfe", "fic", "full"])
@pytest.mark.parametrize("knots", ["grid", "few"])
def test_a_gaussian_total_and_what_it_leaves_out_are_the_dense_covariance(approximation, knots, mean):
    gp = fitted(approximation=approximation, knots=knots, mean=mean)
    got = total(gp, weights=WEIGHTS, groups=REGION)
    covariance = latent_covariance(gp, NEW)
    for number, label in enumerate(["east", "west"]):
        w = WEIGHTS * (label == REGION)
        assert got.group[number] == label and got.n_rows[number] == (label == REGION).sum()
        assert_allclose(got.estimate[number], w @ gp.predict(NEW), rtol=1e-12)
        # the left-out part is what correlated residuals add, so both together are everything
        whole = got.sd[number] ** 2 / (1 - got.left_out[number])
        if got.left_out[number] > 0 or approximation == "full":
            assert_allclose(whole, w @ covariance @ w, rtol=1e-9)
        else:  # negative correlations: the interval is a little too wide
            assert whole >= w @ covariance @ w * (1 - 1e-9)
        half = ndtri(0.975) * got.sd[number]
        assert_allclose([got.lower[number], got.upper[number]], got.estimate[number] + [-half, half], rtol=1e-12)
    assert got.n_samples == 0


@pytest.mark.parametrize("noise", [None, RNG.uniform(50, 500, len(NEW))])
def test_a_gaussian_total_of_observations_adds_their_noise(noise):
    gp = fitted(approximation="full")
    got = total(gp, weights=WEIGHTS, kind="observation", noise_variance=noise)
    cov = gp.predict(NEW, return_cov=True, noise_variance=noise)[1]
    assert_allclose(got.sd**2, WEIGHTS @ cov @ WEIGHTS, rtol=1e-10)


def test_samples_of_gaussian_totals_have_the_closed_form():
    gp, n = fitted(knots="few"), 20_000
    for kind in ("mean", "observation"):
        exact = total(gp, weights=WEIGHTS, groups=REGION, kind=kind)
        rows = GroupedRows.of(gp._engine_inputs(NEW), check_groups(REGION, len(NEW)), WEIGHTS, 1.0)
        rng, response = np.random.default_rng(1), Response(gp.likelihood_, 0.0, kind)
        pieces = list(sample_totals(gp._fit.posterior, gp._fit.scaling, rows, response, n, rng, Serial()))
        samples = np.concatenate([part for _, part in pieces])
        assert [groups for groups, _ in pieces] == [slice(0, 1), slice(1, 2)]
        assert_allclose(samples.mean(1), exact.estimate, atol=5 * exact.sd.max() / np.sqrt(n))
        assert_allclose(samples.std(1), exact.sd, rtol=5 / np.sqrt(2 * n))
        ends = np.quantile(samples, [0.025, 0.975], axis=1)
        assert (np.abs(ends - [exact.lower, exact.upper]) < 5 * QUANTILE_ERROR[n] * exact.sd).all()


def test_student_t_totals_are_normal_in_f_and_without_a_variance_where_an_observation_has_none():
    gp = fitted("student_t")
    mean, new = total(gp), total(gp, kind="observation")
    assert mean.n_samples == 0 and new.n_samples == 2000
    noise = gp.predict(NEW, return_std=True)[1] ** 2 - gp.predict_latent(NEW).variance
    assert_allclose(new.sd**2, mean.sd**2 + noise.sum(), rtol=1e-10)
    heavy = GPRegressor(
        SquaredExponential(1600.0, 0.9, column_scales="standard"), StudentT(20.0, 1.5), knots=GRID, optimizer=None
    )
    assert np.isinf(total(heavy.fit(X, ANSWERS["student_t"]), kind="observation").sd[0])


# -- samples ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nugget", [0.0, 0.3])
@pytest.mark.parametrize("kind", ["mean", "observation"])
@pytest.mark.parametrize("approximation", ["vfe", "full"])
@pytest.mark.parametrize("likelihood", ["poisson", "binomial", "lognormal"])
def test_totals_are_those_of_brute_force_joint_samples(likelihood, approximation, kind, nugget):
    """Samples of f with the whole covariance, a response for each, and their sum; GRID leaves hardly a residual."""
    n = 8000
    gp = fitted(likelihood, approximation=approximation, nugget=nugget)
    size = sizes_of(likelihood)
    got = gp.predict_total(NEW, kind=kind, weights=WEIGHTS, n_samples=n, random_state=3, **size)
    if kind == "observation":
        samples = gp.sample_observations(NEW, n, random_state=4, **size)
    else:
        f = gp.sample_latent(NEW, n, random_state=4)
        response = Response(gp.likelihood_, nugget, kind)
        samples = response.mean(f, np.broadcast_to(next(iter(size.values()), 1.0), f.shape))
    sums = samples @ WEIGHTS
    assert_allclose(got.estimate[0], WEIGHTS @ gp.predict(NEW, **size), rtol=1e-12)
    assert abs(sums.mean() - got.estimate[0]) < 5 * got.sd[0] / np.sqrt(n)
    assert_allclose(got.sd[0], sums.std(), rtol=0.08)
    ends = np.quantile(sums, [0.025, 0.975])
    # the upper tail of a skewed sum is thinner than a normal one; two estimates differ by the root of 2
    assert (np.abs(ends - [got.lower[0], got.upper[0]]) < 5 * 1.4 * 2 * QUANTILE_ERROR[n] * got.sd[0]).all()


@pytest.mark.parametrize("likelihood", ANSWERS)
def test_the_sum_of_groups_is_the_total_and_the_total_that_of_predict(likelihood):
    gp, size = fitted(likelihood, knots="few"), sizes_of(likelihood)
    by_group, all_rows = total(gp, groups=REGION, **size), total(gp, **size)
    assert_allclose(by_group.estimate.sum(), all_rows.estimate[0], rtol=1e-12)
    assert_allclose(all_rows.estimate[0], gp.predict(NEW, **size).sum(), rtol=1e-12)
    assert all_rows.group.tolist() == ["all"] and all_rows.n_rows.tolist() == [len(NEW)]
    assert (by_group.lower < by_group.estimate).all() and (by_group.estimate < by_group.upper).all()


@pytest.mark.parametrize("approximation", ["vfe", "full"])
@pytest.mark.parametrize("likelihood", ["gaussian", "poisson"])
def test_a_weight_of_2_is_the_row_twice(likelihood, approximation):
    gp, size = fitted(likelihood, knots="few", approximation=approximation), sizes_of(likelihood)
    times = np.arange(len(NEW)) % 3
    weighted = total(gp, weights=times.astype(float), **size)
    rows = np.repeat(np.arange(len(NEW)), times)
    kept = np.flatnonzero(times)
    repeated = total(gp, NEW[rows], **sizes_of(likelihood, rows))
    without_zeros = total(gp, NEW[kept], weights=times[kept], **sizes_of(likelihood, kept))
    for name in ("estimate", "lower", "upper", "sd", "left_out"):
        assert_allclose(getattr(repeated, name), getattr(without_zeros, name), rtol=1e-9)
    assert_allclose(weighted.estimate, repeated.estimate, rtol=1e-12)
    # rows of weight 0 take random numbers of their own
    assert_allclose(weighted.sd, repeated.sd, rtol=1e-9 if likelihood == "gaussian" else 0.1)


@pytest.mark.parametrize("approximation", ["vfe", "full"])
@pytest.mark.parametrize("kind", ["mean", "observation"])
def test_the_order_of_the_rows_is_no_matter(kind, approximation):
    gp, order = fitted("poisson", approximation=approximation), np.random.default_rng(5).permutation(len(NEW))
    options = {"weights": WEIGHTS, "kind": kind, "groups": REGION, **sizes_of("poisson")}
    there = total(gp, **options)
    back = total(gp, NEW[order], **{name: v if isinstance(v, str) else v[order] for name, v in options.items()})
    for name in ("group", "n_rows", "lower", "upper", "sd"):
        assert_array_equal(getattr(there, name), getattr(back, name))
    assert_allclose(there.estimate, back.estimate, rtol=1e-14)


def test_the_same_bits_for_any_threads_and_block_sizes_and_with_the_same_random_state():
    rows = np.random.default_rng(6).uniform(-2, 2, size=(700, 2))
    groups = np.arange(700) % 9 // 2  # blocks begin and end inside groups
    results = []
    for options in ({"n_jobs": 1}, {"n_jobs": 3}, {"n_jobs": 2, "block_size": 17}):
        gp = copy(fitted("poisson")).set_params(**options)
        results.append(total(gp, rows, exposure=1.0, groups=groups, n_samples=300))
    for other in results[1:]:
        for name in ("estimate", "lower", "upper", "sd", "left_out"):
            assert_array_equal(getattr(results[0], name), getattr(other, name))
    again = total(gp, rows, exposure=1.0, groups=groups, n_samples=300, random_state=1)
    assert (again.lower != results[0].lower).all()


def test_blocks_and_groups_of_any_size_add_up(monkeypatch):
    gp = fitted("poisson")
    rows = np.random.default_rng(6).uniform(-2, 2, size=(150, 2))
    groups = np.sort(np.random.default_rng(8).integers(0, 40, 150))
    big = total(gp, rows, exposure=1.0, groups=groups, n_samples=8000)
    monkeypatch.setattr("knotwise.data.groups.PLACES_PER_BLOCK", 7)
    monkeypatch.setattr("knotwise.estimators.total_law.PLACES_PER_BLOCK", 7)
    monkeypatch.setattr("knotwise.data.groups.BLOCKS_AT_ONCE", 3)
    monkeypatch.setattr("knotwise.estimators.total_law.SAMPLED_ENTRIES", 8000 * 2)
    small = total(gp, rows, exposure=1.0, groups=groups, n_samples=8000)
    assert_allclose(small.sd, big.sd, rtol=1e-2)  # other residuals, the same f at the knots
    assert_array_equal(small.estimate, big.estimate)
    linear = fitted("gaussian")
    assert_allclose(total(linear, rows, groups=groups).sd, _one_by_one(linear, rows, groups), rtol=1e-10)


def _one_by_one(gp, rows, groups):
    return [total(gp, rows[groups == label]).sd[0] for label in np.unique(groups)]


@pytest.mark.parametrize("nugget", [0.0, 0.5])
@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli", "gamma", "beta"])
def test_a_group_of_one_row_is_the_prediction_of_the_row(likelihood, nugget):
    n, some = 20_000, slice(0, 3)
    gp, size = fitted(likelihood, nugget=nugget), sizes_of(likelihood, some)
    got = total(gp, NEW[some], groups=[2, 0, 1], n_samples=n, **size)
    back = [1, 2, 0]  # groups are sorted
    assert_allclose(got.estimate, gp.predict(NEW[some], **size)[back], rtol=1e-12)
    f = gp.predict_latent(NEW[some])
    for end, p in ((got.lower, 0.025), (got.upper, 0.975)):
        z = ndtri(p) + np.array([-5, 5]) * QUANTILE_ERROR[n]
        sizes = next(iter(size.values()), np.ones(3))
        low, high = (
            response_moments(gp.likelihood_, f.mean + each * f.std, np.full(3, nugget), sizes)[0][back] for each in z
        )
        assert (low < end).all() and (end < high).all()
    if nugget == 0:
        assert_allclose([got.lower, got.upper], gp.predict_interval(NEW[some], kind="mean", **size)[back].T, rtol=0.1)


def test_a_group_of_one_count_has_the_interval_of_a_new_count():
    gp, some = fitted("poisson", nugget=0.2), slice(0, 5)
    got = total(gp, NEW[some], groups=np.arange(5), kind="observation", n_samples=20_000, exposure=WEIGHTS[some])
    expected = gp.predict_interval(NEW[some], exposure=WEIGHTS[some])
    assert np.abs(np.column_stack([got.lower, got.upper]) - expected).max() <= 1
    assert_array_equal(got.lower, np.floor(got.lower))


def test_the_nugget_lifts_the_mean_and_widens_observations_only():
    plain, rough = fitted("poisson"), fitted("poisson")
    rough = GPRegressor(KERNEL, "poisson", knots=GRID, optimizer=None, n_jobs=1).fit(
        X, ANSWERS["poisson"], exposure=AREA
    )
    rough.nugget_ = 0.5  # as if the data had said so, with the same posterior of f
    means = [total(gp, exposure=1.0) for gp in (plain, rough)]
    for name in ("estimate", "lower", "upper", "sd"):
        assert_allclose(getattr(means[1], name), np.exp(0.25) * getattr(means[0], name), rtol=1e-9)
    new = total(rough, exposure=1.0, kind="observation", n_samples=20_000)
    rate = rough.predict(NEW, exposure=1.0)
    # given f a row has variance rate + rate^2 (e^nugget - 1), and rate^2 is a little more on average than squared
    expected = (
        means[1].sd ** 2 + rate.sum() + (np.expm1(0.5) * rate**2 * np.exp(rough.predict_latent(NEW).variance)).sum()
    )
    assert_allclose(new.sd**2, expected, rtol=0.05)


def test_averages_divide_by_the_weights():
    gp = fitted("poisson")
    options = {"groups": REGION, "weights": WEIGHTS, "exposure": AREA[: len(NEW)]}
    sums, means = total(gp, **options), total(gp, statistic="mean", **options)
    divisor = [WEIGHTS[label == REGION].sum() for label in ("east", "west")]
    for name in ("estimate", "lower", "upper", "sd"):
        assert_allclose(getattr(means, name) * divisor, getattr(sums, name), rtol=1e-12)
    assert_array_equal(means.left_out, sums.left_out)
    rate = total(gp, statistic="mean", weights=WEIGHTS)  # per unit of area, of a region of these areas
    assert_allclose(rate.estimate, np.average(gp.predict(NEW, exposure=1), weights=WEIGHTS), rtol=1e-12)
    # a rate is its count per area
    assert_allclose(rate.lower * WEIGHTS.sum(), total(gp, exposure=WEIGHTS).lower, rtol=0.02)


def test_differences_are_sums_with_negative_weights():
    gp = fitted()
    contrast = np.where(REGION == "east", 1.0, -1.0)
    covariance = latent_covariance(gp, NEW)
    got = total(gp, weights=contrast)
    assert_allclose(got.estimate, contrast @ gp.predict(NEW), rtol=1e-12)
    assert_allclose(got.sd**2 / (1 - got.left_out), contrast @ covariance @ contrast, rtol=1e-3)


@settings(max_examples=25)
@given(st.data())
def test_any_groups_and_weights_give_ordered_intervals_that_add_up(data):
    n = data.draw(st.integers(1, 30))
    seed = data.draw(st.integers(0, 2**32 - 1))
    draws = np.random.default_rng(seed)
    rows = NEW[draws.integers(0, len(NEW), n)]  # with repetitions
    labels = draws.integers(0, data.draw(st.integers(1, 8)), n).astype(str)
    weights = draws.integers(0, 3, n).astype(float)
    kind = data.draw(st.sampled_from(["mean", "observation"]))
    likelihood = data.draw(st.sampled_from(["gaussian", "poisson", "binomial"]))
    size = {name: np.resize(values, n) for name, values in NEW_SIZES.get(likelihood, {}).items()}
    gp = fitted(likelihood)
    got = total(gp, rows, weights=weights, groups=labels, kind=kind, n_samples=100, **size)
    assert got.group.tolist() == sorted(set(labels)) and got.n_rows.sum() == n
    assert_allclose(got.estimate.sum(), weights @ gp.predict(rows, **size), rtol=1e-10, atol=1e-10)
    assert (got.lower <= got.upper).all() and (got.sd >= 0).all()
    assert ((got.left_out >= 0) & (got.left_out < 1)).all()


@pytest.mark.parametrize(
    ("likelihood", "approximation"),
    [
        ("poisson", "vfe"),
        pytest.param("poisson", "full", marks=pytest.mark.slow),
        pytest.param("gaussian", "vfe", marks=pytest.mark.slow),
        ("gaussian", "full"),
    ],
)
def test_intervals_of_observed_totals_cover_what_is_observed(likelihood, approximation):
    """Functions from the prior, data from them, and the total of new data at other places."""
    rng, n_tries, hits, mean_hits = np.random.default_rng(11), 120, 0, 0
    line = np.linspace(0, 6, 60)[:, None]
    kernel = SquaredExponential(0.5, 1.0)
    root = np.linalg.cholesky(kernel(line, line) + 1e-9 * np.eye(60))
    model = Gaussian(0.2) if likelihood == "gaussian" else likelihood
    gp = GPRegressor(
        kernel, model, approximation, np.linspace(-0.5, 6.5, 12)[:, None], mean=1.0, optimizer=None, n_jobs=1,
        standardize=False,
    )  # fmt: skip
    for number in range(n_tries):
        f = 1 + root @ rng.standard_normal(60)
        rate = f if likelihood == "gaussian" else np.exp(f)
        y = f + np.sqrt(0.2) * rng.standard_normal(60) if likelihood == "gaussian" else rng.poisson(rate)
        gp.fit(line[::2], y[::2])
        options = {"level": 0.8, "n_samples": 500, "random_state": number}
        new = gp.predict_total(line[1::2], kind="observation", **options)
        mean = gp.predict_total(line[1::2], **options)
        hits += bool(new.lower[0] <= y[1::2].sum() <= new.upper[0])
        mean_hits += bool(mean.lower[0] <= rate[1::2].sum() <= mean.upper[0])
    error = 4 * np.sqrt(0.8 * 0.2 / n_tries)
    assert abs(hits / n_tries - 0.8) < error + 0.02  # counts are whole: a little more than the level
    assert abs(mean_hits / n_tries - 0.8) < error


# -- what knots leave out ---------------------------------------------------------------------------------------------


def test_few_knots_leave_much_out_and_say_so_and_the_exact_gp_nothing():
    few = fitted("poisson", knots="few")
    with pytest.warns(FitWarning, match=r"too narrow.*% of the variance.*times as wide.*more knots"):
        got = few.predict_total(NEW, exposure=1.0, random_state=0)
    assert got.left_out[0] > 0.1
    with pytest.warns(FitWarning, match=r"of [12] of 2 groups \(most: '(east|west)'\)"):
        few.predict_total(NEW, exposure=1.0, groups=REGION, random_state=0)
    assert fitted("poisson", approximation="full").predict_total(NEW, exposure=1.0).left_out[0] == 0
    assert fitted("poisson").predict_total(NEW, exposure=1.0).left_out[0] < 0.01


def test_what_is_left_out_of_poisson_totals_is_what_joint_residuals_add():
    gp, n = fitted("poisson", knots="few"), 20_000
    got = total(gp, exposure=1.0, n_samples=n)
    whole = np.exp(gp.sample_latent(NEW, n, random_state=1)).sum(1).var()
    # to first order in f: the residuals of few knots are large, and e^f bends
    assert_allclose(got.sd[0] ** 2 / (1 - got.left_out[0]), whole, rtol=0.2)


def test_what_a_large_group_leaves_out_is_told_by_a_part_of_it(monkeypatch):
    gp = fitted(knots="few")
    rows = np.random.default_rng(9).uniform(-2, 2, size=(900, 2))
    exact = total(gp, rows)
    monkeypatch.setattr(total_law, "MOST_PAIRED", 300)
    assert_allclose(total(gp, rows).left_out, exact.left_out, rtol=0.15)


# -- what is asked ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (list("bab"), ["a", "b"]),
        (np.array([3, 1, 3]), [1, 3]),
        (np.array([0.5, 0.25, 0.5]), [0.25, 0.5]),
        (pd.Series(["b", "a", "b"], index=[7, 8, 9]), ["a", "b"]),
        (pd.Categorical(["b", "a", "b"], categories=["c", "b", "a"], ordered=True), ["b", "a"]),
        (pd.Series(["b", "a", "b"], dtype="category"), ["a", "b"]),
        (pd.Series(["b", "a", "b"], dtype="string"), ["a", "b"]),
        (pd.to_datetime(["2020-01-02", "2020-01-01", "2020-01-02"]), ["2020-01-01", "2020-01-02"]),
        (np.array([True, False, True]), [False, True]),
    ],
)
def test_labels_of_any_kind_make_groups(labels, expected):
    got = total(fitted(), NEW[:3], groups=labels)
    assert [str(label)[:10] for label in got.group] == [str(label) for label in expected]
    single = fitted().predict(NEW[[1]])[0]
    assert_allclose(got.estimate[got.n_rows == 1], single)
    assert sorted(got.n_rows) == [1, 2]


@pytest.mark.parametrize(
    "labels",
    [
        ["a", None, "b"],
        ["a", np.nan, "b"],
        np.array([1.0, np.nan, 2.0]),
        pd.Series(["a", None, "b"]),
        pd.Series([1, None, 3], dtype="Int64"),
        pd.Categorical(["a", None, "b"]),
        pd.to_datetime(["2020-01-02", None, "2020-01-02"]),
        np.ma.array([1, 2, 3], mask=[0, 1, 0]),
    ],
)
def test_a_row_without_a_label_is_named(labels):
    with pytest.raises(InvalidInputError, match="no label in row 1"):
        total(fitted(), NEW[:3], groups=labels)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"groups": ["a", "b"]}, "one label for each of the 40 rows"),
        ({"groups": "region"}, "one label for each of the 40 rows"),
        ({"groups": np.ones((40, 1))}, "one label for each of the 40 rows"),
        ({"groups": [1, "a"] * 20}, r"several kinds \(int, str\)"),
        ({"weights": np.ones(3)}, "one value for each of the 40 rows"),
        ({"weights": np.r_[np.nan, np.ones(39)]}, "`weights` contains NaN in row 0"),
        ({"weights": np.r_[-1.0, np.ones(39)], "statistic": "mean"}, "must not be negative, but is -1 in row 0"),
        ({"weights": (REGION == "east") * 1.0, "groups": REGION, "statistic": "mean"}, "zero in the group 'west'"),
        ({"level": 95}, "between 0 and 1"),
        ({"n_samples": 5}, "at least 100"),
        ({"exposure": 1.0}, "no meaning"),
    ],
)
def test_what_cannot_be_added_up_is_refused_in_words(options, message):
    with pytest.raises(InvalidInputError, match=message):
        total(fitted(), **options)


def test_unknown_kinds_and_statistics_name_the_nearest():
    with pytest.raises(UnknownOptionError, match="Did you mean 'observation'"):
        total(fitted(), kind="observations")
    with pytest.raises(UnknownOptionError, match="Did you mean 'mean'"):
        total(fitted(), statistic="means")


def test_the_exact_gp_says_what_to_do_with_a_group_that_is_too_large(monkeypatch):
    monkeypatch.setattr("knotwise.estimators.total_law.MAX_JOINT_ROWS", 25)
    for likelihood in ("gaussian", "poisson"):
        gp, size = fitted(likelihood, approximation="full"), sizes_of(likelihood)
        with pytest.raises(TooLargeError, match=r"40 distinct inputs.*up to 25.*knots.*smaller groups"):
            gp.predict_total(NEW, **size)
        assert len(gp.predict_total(NEW, groups=np.arange(40) % 2, **size)) == 2


def test_a_result_shows_itself_and_becomes_a_table():
    got = total(fitted("poisson"), groups=REGION, exposure=1.0, level=0.9)
    text = repr(got)
    assert "Totals of the mean response, with 90 % intervals (2,000 samples)" in text
    assert len(text.splitlines()) == 4 and text.splitlines()[2].startswith("east")
    frame = got.to_frame()
    assert frame.columns.tolist() == ["group", "n_rows", "estimate", "lower", "upper", "sd", "left_out"]
    assert frame.group.tolist() == ["east", "west"]
    assert_array_equal(frame.upper, got.upper)
    many = total(fitted(), groups=np.arange(len(NEW)), statistic="mean", kind="observation")
    assert "Averages of new observations" in str(many) and "and 20 more groups" in str(many)
    assert isinstance(many, Totals) and len(many) == len(NEW)
    with pytest.raises(AttributeError):
        many.level = 0.5


def test_a_classifier_counts_the_second_of_two_classes():
    labels = np.where(ANSWERS["bernoulli"] == 1, "yes", "no")
    two = GPClassifier(KERNEL, knots=GRID, optimizer=None).fit(X, labels)
    got = two.predict_total(NEW, random_state=0)
    assert_allclose(got.estimate[0], two.predict_proba(NEW)[:, 1].sum(), rtol=1e-12)
    assert_array_equal(got.lower, two.models_[0].predict_total(NEW, random_state=0).lower)
    three = GPClassifier(KERNEL, knots=GRID, optimizer=None).fit(X, np.arange(N) % 3)
    with pytest.raises(InvalidInputError, match=r"but there are 3.*predict_proba\(X\)\.sum\(0\)"):
        three.predict_total(NEW)


# -- joint samples ----------------------------------------------------------------------------------------------------


@pytest.fixture
def small_limit(monkeypatch):
    """Samples of more than 20 rows are those of many rows."""
    monkeypatch.setattr("knotwise.posterior.base.MAX_JOINT_ROWS", 20)
    monkeypatch.setattr(estimators_base, "MAX_JOINT_ROWS", 20)


def test_up_to_10000_rows_samples_are_what_they_were():
    gp = fitted()
    cov = latent_covariance(gp, NEW) / gp._fit.scaling.y_scale**2
    noise = np.random.default_rng(3).standard_normal((5, len(NEW)))
    L = np.linalg.cholesky(cov + 1e-12 * cov.diagonal().max() * np.eye(len(NEW)))
    f = gp._fit.posterior.latent(gp._engine_inputs(NEW)).mean + noise @ L.T
    scaling = gp._fit.scaling
    assert_allclose(gp.sample_latent(NEW, 5, random_state=3), f * scaling.y_scale + scaling.y_centre, rtol=1e-9)


@pytest.mark.parametrize("mean", ["constant", "linear"])
def test_samples_of_many_rows_are_joint_through_the_knots(mean, small_limit):
    gp, n = fitted(knots="few", mean=mean), 20_000
    with pytest.warns(FitWarning, match=r"more than 20 rows: \d+% of the variance.*independently"):
        samples = gp.sample_latent(NEW, n, random_state=0)
    view = gp._fit.posterior.through_knots(gp._engine_inputs(NEW))
    cov = (view.spread @ view.spread.T + np.diag(view.residual)) * gp._fit.scaling.y_scale**2
    latent = gp.predict_latent(NEW)
    assert_allclose(cov.diagonal(), latent.variance, rtol=1e-10)
    assert (np.abs(samples.mean(0) - latent.mean) < 5 * latent.std / np.sqrt(n)).all()
    error = np.sqrt((cov**2 + np.outer(cov.diagonal(), cov.diagonal())) / n)
    assert (np.abs(np.cov(samples.T) - cov) < 5 * error).all()


def test_samples_of_many_rows_agree_at_equal_rows_whatever_their_order(small_limit):
    gp = fitted()
    rows = np.vstack([NEW, NEW[::-1]])
    samples = gp.sample_latent(rows, 4, random_state=0)
    assert_array_equal(samples[:, :40], samples[:, :39:-1])
    assert_array_equal(samples[:, :40], gp.sample_latent(NEW, 4, random_state=0))
    order = np.random.default_rng(2).permutation(40)
    assert_array_equal(gp.sample_latent(NEW[order], 4, random_state=0), samples[:, order])


def test_the_exact_gp_still_refuses_samples_of_many_rows(small_limit):
    with pytest.raises(TooLargeError, match="limit is 20 rows"):
        fitted(approximation="full").sample_latent(NEW)


def test_samples_of_50000_rows_take_little(recwarn):
    gp = fitted()
    rows = np.random.default_rng(0).uniform(-2, 2, size=(50_000, 2))
    samples = gp.sample_latent(rows, 3, random_state=0)
    z = (samples - gp.predict_latent(rows).mean) / gp.predict_latent(rows).std
    assert samples.shape == (3, 50_000) and np.isfinite(samples).all() and np.abs(z).max() < 7
    totals = gp.predict_total(rows, groups=rows[:, 0] > 0)
    assert_allclose(totals.estimate.sum(), gp.predict(rows).sum(), rtol=1e-10)


@pytest.mark.parametrize("likelihood", ANSWERS)
@pytest.mark.parametrize("nugget", [0.0, 0.2])
def test_samples_of_observations_have_the_moments_of_predictions(likelihood, nugget):
    if likelihood == "gaussian" and nugget:
        return
    n = 20_000
    gp, size = fitted(likelihood, nugget=nugget), sizes_of(likelihood, slice(0, 6))
    samples = gp.sample_observations(NEW[:6], n, random_state=0, **size)
    mean, std = gp.predict(NEW[:6], return_std=True, **size)
    assert (np.abs(samples.mean(0) - mean) < 5 * std / np.sqrt(n)).all()
    assert_allclose(samples.std(0), std, rtol=0.15 if likelihood == "student_t" else 0.08)
    assert_array_equal(samples, gp.sample_observations(NEW[:6], n, random_state=0, **size))


def test_samples_of_observations_have_the_joint_covariance_and_their_known_noise():
    gp, n, noise = fitted(), 20_000, np.array([1.0, 400.0, 2500.0])
    samples = gp.sample_observations(NEW[:3], n, noise_variance=noise, random_state=0)
    cov = gp.predict(NEW[:3], return_cov=True, noise_variance=noise)[1]
    error = np.sqrt((cov**2 + np.outer(cov.diagonal(), cov.diagonal())) / n)
    assert (np.abs(np.cov(samples.T) - cov) < 5 * error).all()


def test_the_mean_over_a_nugget_is_the_integral_for_any_nugget():
    f, size = np.linspace(-8, 8, 50), np.ones(50)
    for link in ("logit", "probit"):
        for nugget in (0.01, 0.5, 1.0, 3.0, 30.0):
            likelihood = Bernoulli(link)
            exact = likelihood.response_moments(f, np.full(50, nugget))[0]
            assert_allclose(Response(likelihood, nugget, "mean").mean(f, size), exact, atol=1e-6)


def test_a_rough_kernel_leaves_more_out_than_a_smooth_one():
    left = {}
    for kernel in (
        SquaredExponential(1.0, 1.5, column_scales="standard"),
        Matern32(1.0, 1.5, column_scales="standard"),
    ):
        gp = GPRegressor(kernel, "poisson", knots=GRID, optimizer=None).fit(X, ANSWERS["poisson"], exposure=AREA)
        left[type(kernel)] = total(gp, exposure=1.0).left_out[0]
    assert left[SquaredExponential] < left[Matern32]
