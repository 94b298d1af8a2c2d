"""A prediction answers every question from one pass; mixtures and several latent functions are part of its shape."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from knotwise import GPClassifier, GPRegressor, Prediction, cross_validate
from knotwise import likelihoods as lik
from knotwise.errors import InvalidInputError
from knotwise.posterior.base import Latent

LEVELS = (0.025, 0.3, 0.5, 0.9)
MEAN, VARIANCE = np.array([-1.0, 0.5, 2.0]), np.array([0.3, 0.05, 1e-3])
OTHER_MEAN, OTHER_VARIANCE = np.array([0.4, 0.9, 2.5]), np.array([0.02, 0.4, 0.1])

LIKELIHOODS = [
    lik.Gaussian(0.3),
    lik.StudentT(0.4, 4.0),
    lik.Poisson(),
    lik.NegativeBinomial(0.4),
    lik.Binomial(),
    lik.Bernoulli(),
    lik.Bernoulli("probit"),
    lik.Gamma(2.0),
    lik.Exponential(),
    lik.Weibull(1.5),
    lik.LogNormal(0.2),
    lik.Beta(8.0),
]


def pair(likelihood, size=1.0):
    """Two predictions of the same rows."""
    first = Prediction.of(likelihood, Latent(MEAN, VARIANCE), size=size)
    return first, Prediction.of(likelihood, Latent(OTHER_MEAN, OTHER_VARIANCE), size=size)


def size_for(likelihood):
    return {"trials": 7.0, "exposure": 2.5}.get(likelihood.size_name, 1.0)


# -- one component ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=repr)
def test_the_distribution_function_is_an_average_over_f_and_its_inverse_are_the_quantiles(likelihood):
    size = size_for(likelihood)
    p, _ = pair(likelihood, size)
    f = MEAN + np.sqrt(VARIANCE) * stats.norm.ppf((np.arange(20_000) + 0.5) / 20_000)[:, None]
    for level in LEVELS:
        q = p.quantile(level)
        by_average = likelihood.cdf(np.broadcast_to(q, f.shape), f, size).mean(0)
        assert_allclose(p.cdf(q), by_average, atol=2e-4)
        if likelihood.discrete:
            assert (p.cdf(q) >= level).all() and (p.cdf(q - 1) < level).all()
        else:
            assert_allclose(p.cdf(q), level, atol=1e-7)


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=repr)
def test_beyond_the_support_the_distribution_function_is_0_or_1(likelihood):
    p, _ = pair(likelihood, size_for(likelihood))
    lowest, highest = likelihood.support(size_for(likelihood))
    if np.isfinite(lowest):
        assert_array_equal(p.cdf(lowest - 1.0), 0.0)
    if np.isfinite(highest):
        assert_array_equal(p.cdf(highest + 1.0), 1.0)
        assert_array_equal(p.exceedance(highest + 1.0, kind="observation"), 0.0)


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=repr)
def test_samples_have_the_moments_and_the_distribution_of_the_prediction(likelihood):
    p, _ = pair(likelihood, size_for(likelihood))
    y = p.sample(40_000, random_state=0)
    assert y.shape == (40_000, 3)
    assert_allclose(y.mean(0), p.mean, atol=6 * np.max(p.std) / 200)
    for level in LEVELS:
        q = p.quantile(level)
        assert_allclose((y <= q).mean(0), p.cdf(q), atol=0.012)


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=repr)
def test_quantiles_and_exceedance_of_the_mean_response_belong_together(likelihood):
    p, _ = pair(likelihood, size_for(likelihood))
    for level in LEVELS:
        assert_allclose(p.exceedance(p.quantile(level, "mean")), 1 - level, rtol=1e-9)
        assert_allclose(p.cdf(p.quantile(level, "latent"), "latent"), level, rtol=1e-12)
    assert_array_equal(p.median(), likelihood.conditional_mean(MEAN, size_for(likelihood)))


def test_a_nugget_is_in_what_is_said_of_observations_and_not_in_what_is_said_of_their_mean():
    with_nugget = Prediction.of(lik.Poisson(), Latent(MEAN, VARIANCE), nugget=0.2)
    wide = Prediction.of(lik.Poisson(), Latent(MEAN, VARIANCE + 0.2))
    for ask in (lambda p: p.mean, lambda p: p.std, lambda p: p.interval(0.9), lambda p: p.cdf(3.0)):
        assert_array_equal(ask(with_nugget), ask(wide))
    assert_array_equal(with_nugget.interval(0.9, "mean"), pair(lik.Poisson())[0].interval(0.9, "mean"))


# -- mixtures --------------------------------------------------------------------------------------------------------


def test_an_equal_mixture_of_gaussians_has_their_closed_forms():
    noise = 0.3
    p = Prediction.mixture(pair(lik.Gaussian(noise)))
    laws = [stats.norm(m, np.sqrt(v + noise)) for m, v in ((MEAN, VARIANCE), (OTHER_MEAN, OTHER_VARIANCE))]
    y = np.array([-0.7, 1.1, 2.0])
    assert_allclose(p.mean, (MEAN + OTHER_MEAN) / 2)
    assert_allclose(p.std**2, (VARIANCE + OTHER_VARIANCE) / 2 + noise + (MEAN - OTHER_MEAN) ** 2 / 4)
    assert_allclose(p.cdf(y), sum(law.cdf(y) for law in laws) / 2, rtol=1e-12)
    assert_allclose(p.log_density(y), np.log(sum(law.pdf(y) for law in laws) / 2), rtol=1e-12)
    assert_array_equal(p.pit(y), p.cdf(y))
    for level in LEVELS:
        assert_allclose(p.cdf(p.quantile(level)), level, rtol=1e-11)
        for kind in ("mean", "latent"):
            assert_allclose(p.cdf(p.quantile(level, kind), kind), level, rtol=1e-11)
    latent = [stats.norm(m, np.sqrt(v)) for m, v in ((MEAN, VARIANCE), (OTHER_MEAN, OTHER_VARIANCE))]
    assert_allclose(p.exceedance(0.6), sum(law.sf(0.6) for law in latent) / 2, rtol=1e-12)
    assert_allclose(p.latent.mean, p.mean)
    assert_allclose(p.latent.variance, p.variance - noise, rtol=1e-12)


def test_an_equal_mixture_of_counts_has_the_sum_of_their_probabilities():
    each = pair(lik.Poisson(), 2.5)
    p = Prediction.mixture(each)
    k = np.arange(400.0)[:, None]
    mass = np.exp([[part.log_density(np.full(3, count)) for part in each] for count in k[:, 0]]).mean(1)  # [k, n]
    assert_allclose(mass.sum(0), 1.0, rtol=1e-10)
    assert_allclose(p.mean, (mass * k).sum(0), rtol=1e-8)
    assert_allclose(p.variance, (mass * (k - p.mean) ** 2).sum(0), rtol=1e-6)
    y = np.array([0.0, 3.0, 20.0])
    assert_allclose(p.cdf(y), [mass[: int(count) + 1, i].sum() for i, count in enumerate(y)], rtol=1e-8)
    assert_allclose(p.log_density(y), np.log(mass[y.astype(int), np.arange(3)]), rtol=1e-10)
    for level in LEVELS:
        assert_array_equal(p.quantile(level), (np.cumsum(mass, 0) < level).sum(0))
    assert_array_equal(p.interval(0.95)[:, 1], p.quantile(0.975))
    u = [p.pit(y, seed) for seed in range(50)]
    assert (np.min(u, 0) >= p.cdf(y - 1)).all() and (np.max(u, 0) <= p.cdf(y)).all()


@pytest.mark.parametrize("likelihood", [lik.Gaussian(0.3), lik.Poisson(), lik.Gamma(2.0)], ids=repr)
def test_samples_of_a_mixture_come_from_its_components_as_often_as_the_weights_say(likelihood):
    p = Prediction.mixture(pair(likelihood), weights=[3.0, 1.0])
    assert_allclose(p.mean, 0.75 * pair(likelihood)[0].mean + 0.25 * pair(likelihood)[1].mean)
    y = p.sample(40_000, random_state=1)
    assert_allclose(y.mean(0), p.mean, atol=6 * np.max(p.std) / 200)
    for level in LEVELS:
        assert_allclose((y <= p.quantile(level)).mean(0), p.cdf(p.quantile(level)), atol=0.012)


@pytest.mark.parametrize("likelihood", [lik.Gaussian(0.3), lik.Poisson(), lik.Beta(8.0)], ids=repr)
def test_a_mixture_of_a_prediction_with_itself_is_that_prediction(likelihood):
    one, _ = pair(likelihood)
    two = Prediction.mixture([Prediction.mixture([one, one]), one], weights=[0.0, 2.0])
    y = likelihood.sample(MEAN, np.random.default_rng(0))
    for ask in (
        lambda p: p.mean,
        lambda p: p.std,
        lambda p: p.interval(),
        lambda p: p.cdf(y),
        lambda p: p.log_density(y),
    ):
        assert_allclose(ask(two), ask(one), rtol=1e-10)


def test_quantiles_of_a_mixture_do_not_depend_on_units():
    unit = 1e-12
    small = [Prediction.of(lik.Gaussian(0.3 * unit**2), Latent(unit * m, unit**2 * v))
             for m, v in ((MEAN, VARIANCE), (OTHER_MEAN, OTHER_VARIANCE))]  # fmt: skip
    expected = Prediction.mixture(pair(lik.Gaussian(0.3))).interval(0.8)
    assert_allclose(Prediction.mixture(small).interval(0.8), unit * expected, rtol=1e-10)


def test_what_is_no_mixture_is_refused():
    one, other = pair(lik.Poisson())
    for weights in ([1.0], [1.0, -1.0], [0.0, 0.0], [np.nan, 1.0]):
        with pytest.raises(InvalidInputError, match="weights"):
            Prediction.mixture([one, other], weights)
    with pytest.raises(InvalidInputError, match="same rows"):
        Prediction.mixture([one, Prediction.of(lik.Poisson(), Latent(MEAN[:2], VARIANCE[:2]))])


# -- several latent functions ----------------------------------------------------------------------------------------


class NoiseFunction(lik.Likelihood):
    """Gaussian data whose log noise variance is the second latent function: f is [n, 2]."""

    def log_density(self, y, f, size=1.0):
        return stats.norm.logpdf(y, f[..., 0], np.exp(f[..., 1] / 2))

    def sample(self, f, rng, size=1.0):
        return f[..., 0] + np.exp(f[..., 1] / 2) * rng.standard_normal(f.shape[:-1])

    def response_moments(self, mean, variance, size=1.0):
        return mean[:, 0], variance[:, 0] + np.exp(mean[:, 1] + variance[:, 1] / 2)

    def _law(self, mean, variance):
        nodes, weights = np.polynomial.hermite_e.hermegauss(60)
        noise = np.exp(mean[:, 1] + np.sqrt(variance[:, 1]) * nodes[:, None])
        return stats.norm(mean[:, 0], np.sqrt(variance[:, 0] + noise)), weights / weights.sum()

    def log_predictive_density(self, y, mean, variance, size=1.0):
        law, weights = self._law(mean, variance)
        return np.log(weights @ law.pdf(y))

    def predictive_cdf(self, y, mean, variance, size=1.0):
        law, weights = self._law(mean, variance)
        return weights @ law.cdf(y)


def test_a_likelihood_of_two_latent_functions_is_handed_both_of_them():
    rng = np.random.default_rng(0)
    n = 5000  # more rows than a block has
    mean = np.column_stack([rng.normal(size=n), rng.normal(-1.0, 0.3, n)])
    variance = np.column_stack([rng.uniform(0.1, 0.4, n), rng.uniform(0.05, 0.3, n)])
    p = Prediction.of(NoiseFunction(), Latent(mean, variance))
    assert len(p) == n and p.mean.shape == p.std.shape == (n,) and p.latent.mean.shape == (n, 2)
    y = p.sample(2000, random_state=0)
    assert y.shape == (2000, n)
    standard = (y - p.mean) / p.std
    assert_allclose([standard.mean(), standard.std()], [0.0, 1.0], atol=2e-3)
    assert stats.kstest(p.pit(y[0]), "uniform").pvalue > 0.01
    density = np.exp(p.log_density(p.mean))  # against a difference of the distribution function
    step = 1e-4 * p.std
    assert_allclose(density, (p.cdf(p.mean + step) - p.cdf(p.mean - step)) / (2 * step), rtol=1e-6)
    mixed = Prediction.mixture([p, p])
    assert_allclose(mixed.cdf(y[0]), p.cdf(y[0]), rtol=1e-12)
    for ask in (p.median, lambda: p.exceedance(0.0), lambda: p.interval(kind="mean")):
        with pytest.raises(InvalidInputError, match="NoiseFunction has 2"):
            ask()


# -- at the face -----------------------------------------------------------------------------------------------------

RNG = np.random.default_rng(0)
X = RNG.uniform(size=(60, 1))
Y = np.sin(6 * X[:, 0]) + 0.2 * RNG.normal(size=60)
COUNTS = RNG.poisson(np.exp(1 + np.sin(6 * X[:, 0]))).astype(float)
OPTIONS = {"knots": 6, "random_state": 0}


@pytest.fixture(scope="module")
def gaussian():
    return GPRegressor(**OPTIONS).fit(X, Y)


@pytest.fixture(scope="module")
def counts():
    return GPRegressor(likelihood="poisson", **OPTIONS).fit(X, COUNTS, exposure=np.full(60, 2.0))


@pytest.fixture
def passes(monkeypatch):
    """The number of rows of each pass through a posterior's marginals."""
    from knotwise.posterior import base

    counted, latent = [], base.Posterior.latent

    def counting(self, X, executor=None):
        counted.append(len(X))
        return latent(self, X, executor)

    monkeypatch.setattr(base.Posterior, "latent", counting)
    return counted


def test_each_method_of_a_model_is_a_question_to_its_prediction(gaussian, counts):
    for gp, y, known in ((gaussian, Y, {}), (counts, COUNTS, {"exposure": 2.0})):
        p = gp.predictive(X, **known)
        mean, std = gp.predict(X, return_std=True, **known)
        assert_array_equal(p.mean, mean)
        assert_array_equal(p.std, std)
        assert_array_equal(p.median(), gp.predict_median(X, **known))
        for kind in ("observation", "mean", "latent"):
            assert_array_equal(p.interval(0.8, kind), gp.predict_interval(X, 0.8, kind, **known))
        assert_array_equal(p.exceedance(1.2), gp.predict_exceedance(X, 1.2, **known))
        assert_array_equal(p.log_density(y), gp.log_predictive_density(X, y, **known))
        assert_array_equal(p.latent.variance, gp.predict_latent(X).variance)


def test_a_prediction_needs_one_pass_however_many_questions_are_asked(counts, passes):
    p = counts.predictive(X, exposure=3.0)
    _ = p.mean, p.std, p.median(), p.interval(0.9), p.exceedance(2.0), p.cdf(1.0), p.sample(3), p.pit(COUNTS, 0)
    p.log_density(COUNTS)
    assert passes == [60]


def test_a_fit_with_an_exposure_or_known_noise_asks_for_it(counts):
    with pytest.raises(InvalidInputError, match="exposure"):
        counts.predictive(X)
    assert_array_equal(counts.predictive(X, offset=np.log(2.0)).mean, counts.predictive(X, exposure=2.0).mean)
    noisy = GPRegressor(**OPTIONS).fit(X, Y, noise_variance=0.04)
    with pytest.raises(InvalidInputError, match="noise_variance"):
        noisy.predictive(X)
    noise = np.linspace(0.0, 1.0, 60)
    p = noisy.predictive(X, noise_variance=noise)
    assert_allclose(p.variance, p.latent.variance + noise)
    mixed = Prediction.mixture([p, p])
    assert_allclose(mixed.interval(0.9), p.interval(0.9), rtol=1e-10)


def test_what_is_no_question_is_refused(gaussian):
    p = gaussian.predictive(X)
    with pytest.raises(InvalidInputError, match="`kind`"):
        p.interval(kind="observations")
    for level in (0.0, 1.0, [0.1, 0.9]):
        with pytest.raises(InvalidInputError, match="between 0 and 1"):
            p.quantile(level)
    with pytest.raises(InvalidInputError, match="60 rows, but y has shape"):
        p.log_density(Y[:5])
    with pytest.raises(InvalidInputError, match="nan in row 1"):
        p.log_density(np.where(np.arange(60) == 1, np.nan, Y))


def test_a_cross_validation_makes_one_pass_for_each_fold(counts, passes):
    cross_validate(GPRegressor(knots=X[:5], optimizer=None), X, Y, blocks=3)
    assert len(passes) == 3 and sum(passes) == 60
    passes.clear()
    cross_validate(counts, X, COUNTS, exposure=np.full(60, 2.0), blocks=4, refit=False)
    assert len(passes) == 4 and sum(passes) == 60
    for likelihood, y in (("gaussian", Y), ("poisson", COUNTS)):
        gp = GPRegressor(likelihood=likelihood, knots=X[:5]).fit(X, y)
        passes.clear()
        cross_validate(gp, X, y, blocks=4, refit=False, knots="anew")
        assert len(passes) == 4 and sum(passes) == 60


PLACES = RNG.uniform(size=(80, 2))
AT_PLACES = np.sin(4 * PLACES[:, 0]) + PLACES[:, 1] + 0.1 * RNG.normal(size=80)


@pytest.mark.parametrize("kind", ["mean", "observation"])
def test_a_map_makes_one_pass_for_each_chunk_of_cells(kind, passes):
    pytest.importorskip("xarray")
    from knotwise.spatial import predict_grid

    gp = GPRegressor(standardize="common", **OPTIONS).fit(PLACES, AT_PLACES)
    passes.clear()
    predict_grid(gp, spacing=0.1, region=(0, 0, 1, 1), kind=kind, threshold=1.0, chunk=40)
    assert passes == [40, 40, 20]


@pytest.mark.parametrize("n_classes", [0, 2])
def test_a_page_makes_one_pass_for_its_rows_and_one_for_the_cells_of_its_maps(n_classes, passes, tmp_path):
    pytest.importorskip("matplotlib")
    y = np.median(AT_PLACES) < AT_PLACES if n_classes else AT_PLACES
    gp = (GPClassifier if n_classes else GPRegressor)(**OPTIONS).fit(PLACES, y)
    passes.clear()
    rows = pd.DataFrame(PLACES[:37], columns=["x", "y"])
    gp.report(tmp_path / "page.html", rows, y[:37])
    assert passes.count(37) == 1
    assert len([n for n in passes if n > 4000]) == 1


def test_a_picture_makes_one_pass(gaussian, counts, passes):
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    from knotwise import plotting

    exposure = np.full(60, 2.0)
    for draw in (plotting.plot_observed, plotting.plot_calibration, plotting.plot_pit, plotting.plot_fit):
        for gp, y, known in ((gaussian, Y, {}), (counts, COUNTS, {"exposure": exposure})):
            passes.clear()
            draw(gp, X, y, ax=Figure().subplots(), **known)
            assert len(passes) == 1


def test_a_classifier_makes_one_pass_through_each_model(passes):
    gp = GPClassifier(knots=4, optimizer=None).fit(X, np.digitize(Y, [-0.5, 0.5]))
    passes.clear()
    for ask in (gp.predict, gp.predict_proba, gp.decision_function, lambda X: gp.predict_exceedance(X, 0.5)):
        passes.clear()
        ask(X)
        assert passes == [60] * 3


def test_a_table_at_the_shell_makes_one_pass_for_each_piece(gaussian, passes, tmp_path):
    from knotwise.cli.main import main

    gaussian.save(tmp_path / "model.knotwise")
    np.savetxt(tmp_path / "new.csv", X, header="a", comments="", delimiter=",")
    files = [str(tmp_path / "model.knotwise"), str(tmp_path / "new.csv"), "-o", str(tmp_path / "p.csv")]
    options = ["--inputs", "a", "--std", "--level", "0.5", "--level", "0.9", "--exceed", "0.1", "--exceed", "0.5"]
    passes.clear()
    assert main(["predict", *files, *options]) == 0
    assert passes == [60]
    assert len((tmp_path / "p.csv").read_text().splitlines()) == 61
