"""Where a dispersion is learned, sample weights are relative, copies of rows are one observation and ties count each.

The oracles: the unweighted fit, the dense GP whose noise is divided by the weights, the dense GP of every single row.
"""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from knotwise import GPRegressor, cross_validate
from knotwise import likelihoods as lik
from knotwise.data import partitions
from knotwise.data.observations import Observations
from knotwise.errors import FitWarning
from knotwise.evidence import Rows
from knotwise.kernels import SquaredExponential
from knotwise.testing.dense import dense_full_evidence, dense_full_posterior

#: likelihoods with a dispersion, and where it is zero on the log scale the nugget
DRAWN_FROM = {
    "gaussian": lik.Gaussian(0.09),
    "student_t": lik.StudentT(0.25, 4.0),
    "gamma": lik.Gamma(5.0),
    "negative_binomial": lik.NegativeBinomial(0.4),
    "lognormal": lik.LogNormal(0.16),
    "weibull": lik.Weibull(2.0),
    "beta": lik.Beta(8.0),
    "poisson": lik.Poisson(),
}


def drawn(likelihood, n=80, seed=0):
    """Inputs and targets of a wave; counts vary more than Poisson counts."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 1))
    f = np.sin(6 * X[:, 0]) + (1.0 + 0.5 * rng.normal(size=n) if likelihood == "poisson" else 0.0)
    return X, DRAWN_FROM[likelihood].sample(f, rng, 1.0)


def fit(X, y, weights=None, **options):
    if options.get("likelihood") == "poisson":
        options["nugget"] = "fit"
    settings = {key: options.pop(key) for key in ("noise_variance", "exposure") if key in options}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`sample_weight` has a mean")
        gp = GPRegressor(**{"kernel": SquaredExponential(), "random_state": 0, "n_jobs": 1, **options})
        return gp.fit(X, y, sample_weight=weights, **settings)


def rounded(n=600, places=10, step=0.5, noise=0.5, seed=0):
    """Rows at few places with rounded targets, of which many are equal."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, places, n)[:, None] / places
    return X, np.round((np.sin(6 * X[:, 0]) + noise * rng.normal(size=n)) / step) * step


def assert_same_fit(one, other, X, rtol=0.0):
    assert_allclose(one.parameters_.values, other.parameters_.values, rtol=rtol)
    assert_allclose(one.log_evidence_, other.log_evidence_, rtol=rtol)
    assert_allclose(one.predict(X, return_std=True), other.predict(X, return_std=True), rtol=rtol, atol=rtol)


# -- given weights are relative -------------------------------------------------------------------


@pytest.mark.failure(52)
@pytest.mark.parametrize("likelihood", DRAWN_FROM)
def test_equal_weights_are_no_weights(likelihood):
    X, y = drawn(likelihood)
    plain = fit(X, y, likelihood=likelihood, knots=5)
    for weight in (0.1, 5.0, 50.0):
        assert_same_fit(fit(X, y, np.full(len(X), weight), likelihood=likelihood, knots=5), plain, X)
    assert_same_fit(fit(X, y, 7.3, likelihood=likelihood, knots=5), plain, X)


@pytest.mark.failure(52)
@pytest.mark.parametrize("likelihood", DRAWN_FROM)
def test_only_ratios_of_weights_matter(likelihood):
    X, y = drawn(likelihood)
    weights = np.random.default_rng(1).gamma(2, 5, len(X))
    one, other = (fit(X, y, w, likelihood=likelihood, knots=5) for w in (weights, weights / weights.mean()))
    assert_same_fit(one, other, X, rtol=1e-5)
    assert one._fit.n_rows == len(X)
    plain = fit(X, y, likelihood=likelihood, knots=5)
    gap = one.predict_latent(X).mean - plain.predict_latent(X).mean
    assert np.sqrt(np.mean(gap**2)) < 0.35 * plain.predict_latent(X).mean.std()


@pytest.mark.parametrize("scale", [1.0, 10.0])
def test_the_exact_gp_has_noise_in_proportion_to_one_over_the_weights(scale, rng):
    """chi log N(y; f, s2) is log N(y; f, s2 / chi) and terms of s2 that vanish where the mean of chi is 1 (S18)."""
    X, y = drawn("gaussian", 60)
    chi = rng.gamma(1.0, 1.0, 60)
    chi /= chi.mean()
    held = {"kernel": SquaredExponential(0.7, 0.3), "optimizer": None, "standardize": False, "mean": 0.2}
    for s2 in (0.01, 0.3):
        gp = fit(X, y, scale * chi, likelihood=lik.Gaussian(s2), approximation="full", **held)
        rows = Rows(X, y, s2 / chi, gp._fit.model.mean.basis(X))
        expected = dense_full_evidence(gp._fit.model, rows) - 0.5 * np.log(chi).sum()
        assert_allclose(gp.log_evidence_, expected, rtol=1e-10)
        mean, covariance = dense_full_posterior(gp._fit.model, rows, X[:9])
        assert_allclose(gp.predict_latent(X[:9]).mean, mean, rtol=1e-8, atol=1e-10)
        assert_allclose(gp.predict_latent(X[:9]).variance, np.diag(covariance), rtol=1e-7)


def test_weights_of_means_of_measurements_give_the_noise_of_an_average_row():
    """Means of n measurements with noise variance 1: a row of average n has 1 / mean(n)."""
    rng = np.random.default_rng(3)
    X, n = rng.uniform(size=(400, 1)), rng.integers(1, 40, 400)
    y = np.sin(6 * X[:, 0]) + rng.normal(size=400) / np.sqrt(n)
    gp = fit(X, y, n)
    assert_allclose(gp.likelihood_.noise_variance, 1 / n.mean(), rtol=0.15)
    known = fit(X, y, noise_variance=1 / n)
    assert_allclose(gp.predict(X), known.predict_latent(X).mean, atol=0.05)


@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli", "binomial", "exponential"])
def test_without_a_dispersion_weights_are_counts(likelihood):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(60, 1))
    y = {"poisson": rng.poisson(2.0, 60), "exponential": rng.exponential(size=60)}.get(
        likelihood, rng.integers(0, 2, 60)
    )
    gp = GPRegressor(SquaredExponential(), likelihood, knots=4, random_state=0)
    gp.fit(X, y.astype(float), sample_weight=np.full(60, 5.0))
    assert gp._fit.n_rows == 300


def test_with_known_noise_weights_are_counts():
    X, y = drawn("gaussian")
    noise = np.full(len(X), 0.5)
    held = {"kernel": SquaredExponential(0.7, 0.3), "optimizer": None}
    one = fit(X, y, np.full(len(X), 5.0), noise_variance=noise, approximation="full", **held)
    less = fit(X, y, noise_variance=noise / 5, approximation="full", **held)
    assert_allclose(one.predict_latent(X).mean, less.predict_latent(X).mean, rtol=1e-8)
    assert one._fit.n_rows == 5 * len(X)


# -- copies and ties ------------------------------------------------------------------------------


@pytest.mark.parametrize("likelihood", DRAWN_FROM)
def test_a_bootstrap_sample_keeps_its_dispersion(likelihood):
    X, y = drawn(likelihood, 150)
    chosen = np.random.default_rng(0).integers(0, 150, 150)
    one, other = (fit(X[rows], y[rows], likelihood=likelihood, knots=5) for rows in (chosen, np.unique(chosen)))
    values = [gp.nugget_ if likelihood == "poisson" else gp.likelihood_.theta[0] for gp in (one, other)]
    ratio = values[0] / values[1] if likelihood == "poisson" else np.exp(values[0] - values[1])
    assert 0.5 < ratio < 2.0
    assert one._fit.n_rows == len(np.unique(chosen))


@pytest.mark.parametrize("step", [0.2, 0.5, 1.0])
def test_rounded_rows_have_the_evidence_noise_and_certainty_of_the_dense_gp_of_all_of_them(step):
    X, y = rounded(step=step)
    gp = fit(X, y, approximation="full", standardize=False, mean=0.0)
    model, rows = gp._fit.model, Rows(X, y, None, gp._fit.model.mean.basis(X))
    assert gp._fit.n_rows == 600 and len(gp._fit.posterior.state.rows) < 200
    assert_allclose(gp.log_evidence_, dense_full_evidence(model, rows), rtol=1e-9)
    places = np.unique(X)[:, None]
    mean, covariance = dense_full_posterior(model, rows, places)
    assert_allclose(gp.predict_latent(places).mean, mean, rtol=1e-6, atol=1e-9)
    assert_allclose(gp.predict_latent(places).variance, np.diag(covariance), rtol=1e-5)
    within = np.average([y[X[:, 0] == x].var(ddof=1) for x in places[:, 0]])
    assert_allclose(gp.likelihood_.noise_variance, within, rtol=0.05)


@pytest.mark.parametrize("options", [{"approximation": "full"}, {"knots": 8}])
def test_rounded_rows_are_the_same_with_equal_weights_and_copied_as_a_whole(options):
    X, y = rounded()
    plain = fit(X, y, **options)
    assert_same_fit(fit(np.tile(X, (5, 1)), np.tile(y, 5), **options), plain, X)
    assert_same_fit(fit(X, y, np.full(600, 5.0), **options), plain, X)
    assert_same_fit(fit(X, y, np.full(600, 0.1), **options), plain, X, rtol=1e-6)


def test_counts_at_few_doses_keep_their_dispersion_and_number():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 8, 320)[:, None] / 8
    y = lik.NegativeBinomial(0.5).sample(0.5 + np.sin(4 * X[:, 0]), rng, 1.0)
    gp = fit(X, y, likelihood="negative_binomial", knots=6)
    assert gp._fit.n_rows == 320
    assert 0.25 < gp.likelihood_.dispersion < 1.0


def on_grid(rng, n, k):
    return rng.integers(0, k, n)[:, None] / k


def wave(rng, X, noise=0.3):
    return np.sin(5 * X[:, 0]) + noise * rng.normal(size=len(X))


def resampled(rng, X, y):
    chosen = rng.integers(0, len(y), len(y))
    return X[chosen], y[chosen]


def steps(k, step, noise, n=600):
    def draw(rng):
        X = on_grid(rng, n, k)
        return X, np.round(wave(rng, X, noise) / step) * step

    return draw


def logarithms(rng):
    X, y = steps(10, 0.2, 0.5)(rng)
    return X, np.log(y - y.min() + 1)


def zeros_and_amounts(rng):
    X = on_grid(rng, 400, 30)
    return X, np.where(rng.random(400) < 0.5, 0.0, rng.gamma(2, 2, 400))


def rare_counts(rng):
    return on_grid(rng, 300, 10), rng.poisson(0.3 * rng.gamma(1, 1, 300)).astype(float)


def small_grid(rng):
    X = rng.integers(0, 5, (60, 2)) / 5
    return X, np.round(2 * wave(rng, X, 0.5)) / 2


REPLICATES = {
    "fine steps": steps(10, 0.2, 0.5),
    "coarse steps": steps(10, 1.0, 0.5),
    "steps of two sd": steps(10, 0.1, 0.05),
    "pairs": steps(300, 0.2, 0.5),
    "five places apart": steps(5, 0.1, 0.3),
    "20 rows": steps(4, 1.0, 0.5, n=20),
    "logarithms of rounded values": logarithms,
    "zeros and amounts": zeros_and_amounts,
    "rare counts": rare_counts,
    "a small grid": small_grid,
}


@pytest.mark.parametrize("draw", REPLICATES.values(), ids=REPLICATES)
def test_rounded_targets_at_shared_places_are_replicates(draw):
    found = [Observations(*draw(np.random.default_rng(seed))).merged().equal_rows() for seed in range(20)]
    assert all(each.are_replicates and each.unit == 1.0 for each in found)


def unique_rounded(rng):
    X = rng.random((300, 2))
    return resampled(rng, X, np.round(wave(rng, X)))


def some_shared_places(rng):
    X = rng.random((300, 2))
    X[:30] = X[30:60]
    return resampled(rng, X, np.round(wave(rng, X), 1))


def pairs_with_shared_targets(rng):
    X = np.repeat(rng.random((150, 1)), 2, axis=0)
    y = np.round(wave(rng, X), 3)
    y[:3] = y[50:53]
    return resampled(rng, X, y)


def several_targets(rng):
    X = np.repeat(rng.random((40, 2)), 5, axis=0)
    return resampled(rng, X, wave(rng, X))


def constant(rng):
    return on_grid(rng, 100, 10), np.ones(100)


COPIES = {
    "unique places, rounded": unique_rounded,
    "some places shared, rounded": some_shared_places,
    "pairs, three equal targets elsewhere": pairs_with_shared_targets,
    "five targets at each place": several_targets,
    "one constant": constant,
}


@pytest.mark.parametrize("draw", COPIES.values(), ids=COPIES)
def test_rows_drawn_again_are_copies(draw):
    found = [Observations(*draw(np.random.default_rng(seed))).merged().equal_rows() for seed in range(20)]
    assert not any(each.are_replicates for each in found)
    assert all(each.unit == each.n_rows / each.n_distinct for each in found)


def test_one_equal_pair_changes_next_to_nothing(rng):
    """Whatever it is taken for: by chance, or copied."""
    X, y = rng.random((200, 2)), rng.normal(size=200)
    X[100:] = X[:100]
    y[0] = y[100]
    assert_allclose(Observations(X, y).merged().equal_rows().unit, 1.0, atol=0.006)


def test_what_is_known_of_partitions_adds_up(rng):
    X, y = rounded(n=300)
    halves = [Observations(X[rows], y[rows]).merged().equal_rows() for rows in (slice(150), slice(150, 300))]
    total = Observations(X[:150], y[:150]).merged().equal_rows()
    total += halves[1]
    assert total.n_rows == 300 and total.here == halves[0].here + halves[1].here
    assert total.are_replicates and total.unit == 1.0


# -- what is said, and where else weights go ------------------------------------------------------


def test_a_mean_far_from_one_is_said_once_with_what_to_write():
    X, y = drawn("gaussian")
    weights = np.random.default_rng(1).gamma(2, 5, len(X))
    with pytest.warns(FitWarning, match=r"mean of 8.84.*sample_weight=w / w.mean\(\).*noise_variance=s2 / n") as said:
        GPRegressor(SquaredExponential(), knots=4, random_state=0).fit(X, y, sample_weight=weights)
    assert len(said) == 1
    with pytest.warns(FitWarning, match=r"`sample_weight` has a mean of 0.1\. .*np.repeat\(X, w, axis=0\)`\.$"):
        X, y = drawn("gamma")
        GPRegressor(SquaredExponential(), "gamma", knots=4, random_state=0).fit(X, y, sample_weight=0.1)


@pytest.mark.parametrize("mean", [0.4, 1.0, 2.5])
def test_a_mean_near_one_is_not_worth_a_word(mean):
    X, y = drawn("gaussian")
    weights = np.random.default_rng(1).uniform(0.5, 1.5, len(X)) * mean
    GPRegressor(SquaredExponential(), knots=4, random_state=0).fit(X, y, sample_weight=weights)


@pytest.mark.parametrize("options", [{"blocks": 4}, {"refit": False}, {"refit": False, "knots": "anew", "blocks": 4}])
@pytest.mark.parametrize("likelihood", ["gaussian", "gamma"])
def test_cross_validation_does_not_depend_on_the_scale_of_weights(options, likelihood):
    X, y = drawn(likelihood)
    weights = np.random.default_rng(1).gamma(2, 0.5, len(X))
    found = []
    for scale in (1.0, 10.0):
        gp = fit(X, y, scale * weights, likelihood=likelihood, knots=5)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            result = cross_validate(gp, X, y, sample_weight=scale * weights, **options)
        assert len(said) == (scale > 1.0) and all("has a mean of" in str(each.message) for each in said)
        assert_array_equal(result.weights, scale * weights)
        found.append([*result.mean, *result.sd, result.scores["rmse"], result.scores["nlpd"]])
    assert_allclose(*found, rtol=1e-4, atol=1e-6)


def test_held_cross_validation_counts_copies_as_the_fit_does(rng):
    """A row without its copies: closed forms with the weights of the fit are those of the dense GP without the row."""
    X, y = drawn("gaussian", 40)
    weights = rng.integers(1, 30, 40)
    gp = fit(X, y, weights, approximation="full", standardize=False, mean=0.0, optimizer=None)
    with pytest.warns(FitWarning, match="has a mean of"):
        result = cross_validate(gp, X, y, sample_weight=weights, refit=False)
    model, chi = gp._fit.model, weights / weights.mean()
    kept = np.arange(40) != 7
    noise = model.likelihood.noise_variance / chi[kept]
    rows = Rows(X[kept], y[kept], noise, model.mean.basis(X[kept]))
    mean, covariance = dense_full_posterior(model, rows, X[7:8])
    assert_allclose(result.mean[7], mean[0], rtol=1e-7)
    assert_allclose(result.sd[7] ** 2, covariance[0, 0] + model.likelihood.noise_variance, rtol=1e-7)


def test_partitions_have_the_rule_of_rows_in_memory(monkeypatch):
    da = pytest.importorskip("dask.array")
    monkeypatch.setattr(partitions, "ROWS_AT_DRIVER", 0)
    rng = np.random.default_rng(0)
    X, y = drawn("gaussian", 300)
    weights = rng.gamma(2, 5, 300)
    options = {"knots": np.linspace(0, 1, 7)[:, None], "block_size": 100}

    def lazily(X, y, weights=None, cut=100):
        given = None if weights is None else da.from_array(weights, chunks=cut)
        return fit(da.from_array(X, chunks=(cut, 1)), da.from_array(y, chunks=cut), given, **options)

    order = np.argsort(X[:, 0])
    X, y, weights = X[order], y[order], weights[order]
    plain = lazily(X, y)
    for weight in (0.1, 5.0):
        assert_same_fit(lazily(X, y, np.full(300, weight)), plain, X, rtol=1e-3)  # the start is from other rows
    one, other, here = lazily(X, y, weights), lazily(X, y, weights / 10), fit(X, y, weights, **options)
    assert_same_fit(one, other, X, rtol=1e-5)
    assert one._fit.n_rows == here._fit.n_rows == 300
    assert_allclose(one.predict(X), here.predict(X), atol=1e-3)
    assert_same_fit(lazily(np.repeat(X, 3, 0), np.repeat(y, 3), cut=300), plain, X, rtol=1e-3)
    X, y = rounded()
    ties, all_rows = lazily(X, y, cut=200), fit(X, y, **options)
    assert ties._fit.n_rows == all_rows._fit.n_rows == 600
    assert_allclose(ties.likelihood_.noise_variance, all_rows.likelihood_.noise_variance, rtol=1e-3)
    with pytest.warns(FitWarning, match="mean of 5"):
        GPRegressor(SquaredExponential(), **options).fit(
            da.from_array(X, chunks=(200, 1)), da.from_array(y, chunks=200), sample_weight=5.0
        )
