"""Noise that varies with the inputs: the mathematics against dense twins, and the feature through the estimator."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.special import ndtr
from sklearn.base import clone

import knotwise
from knotwise import GPClassifier, GPRegressor, cross_validate
from knotwise.data.observations import Observations
from knotwise.decisions import noise as decision
from knotwise.decisions.thresholds import VARYING_NOISE
from knotwise.errors import FitWarning, InvalidInputError, UnknownOptionError
from knotwise.estimators.assemble import assemble
from knotwise.evidence.model import Rows
from knotwise.kernels import Matern52, SquaredExponential
from knotwise.likelihoods import Gaussian, VaryingGaussian
from knotwise.likelihoods.varying import NoisePattern, gaussian_of_log_noise
from knotwise.noise import Inputs
from knotwise.numerics.blocks import Serial
from knotwise.posterior.in_sample import InSample
from knotwise.posterior.knots import KnotPosterior
from knotwise.selection import varying_noise


def uneven(rng, n=200, n_columns=1):
    """Rows whose noise sd rises 16-fold along the first column."""
    X = rng.uniform(size=(n, n_columns))
    sd = np.exp(np.log(16) * (X[:, 0] - 1))
    return X, np.sin(6 * X[:, 0]) + sd * rng.normal(size=n), sd


def even(rng, n=200, n_columns=1):
    X = rng.uniform(size=(n, n_columns))
    return X, np.sin(6 * X[:, 0]) + 0.3 * rng.normal(size=n)


@pytest.fixture(scope="module")
def fitted():
    X, y, _ = uneven(np.random.default_rng(0))
    return GPRegressor(SquaredExponential(), noise="varying", random_state=0).fit(X, y), X, y


# -- the mathematics ------------------------------------------------------------------------------------------


def turns(X, y, weights=None, **options):
    """Two turns of the alternation from a fit of constant noise, and the problem that they are of."""
    gp = GPRegressor(SquaredExponential(), noise="constant", random_state=0, **options).fit(X, y, sample_weight=weights)
    fit, made = gp._fit, assemble(gp, Observations(X, y, weights=weights), None, Serial())
    problem = replace(fit.training, optimizer=VARYING_NOISE.function_search)
    searches = varying_noise.Searches(n_knots=9, rows=10_000, turns=2)
    gammas = [made.with_kernel.of_log_noise(Matern52())]
    return problem, list(varying_noise.alternate(problem, fit.selection, gammas, searches, np.random.default_rng(0)))


@pytest.mark.parametrize("weighted", [False, True])
def test_the_bound_is_that_of_both_functions(weighted, rng):
    # expected log density of the rows minus the divergences of q(f) and of q at the knots of g, from matrices  (H1, H2)
    X, y, _ = uneven(rng, 60)
    weights = rng.integers(1, 4, 60).astype(float) if weighted else None
    problem, found = turns(X, y, weights, approximation="full")
    turn, rows = found[-1], problem.rows
    w = np.ones(len(rows)) if rows.weights is None else rows.weights
    model = turn.problem.model.with_theta(turn.stage.theta)
    mean, variance = turn.noise.mean, turn.noise.variance
    noise = np.exp(mean - 0.5 * variance)
    assert_allclose(model.likelihood.noise.variance(rows), noise, rtol=1e-12)
    K = model.kernel(rows.X, rows.X) + rows.basis @ rows.basis.T
    a = np.linalg.solve(K + np.diag(noise / w), rows.y - model.mean.offset)
    S = K - K @ np.linalg.solve(K + np.diag(noise / w), K)
    r2 = (rows.y - model.mean.offset - K @ a) ** 2 + S.diagonal()
    assert_allclose(turn.seen.squares, r2, rtol=1e-8)
    expected = -0.5 * (np.log(2 * np.pi) + mean + r2 * np.exp(0.5 * variance - mean))
    # K^-1 S = I - W S, and its determinant is one over that of I + K W
    of_f = 0.5 * (a @ K @ a - (S.diagonal() * w / noise).sum() + np.linalg.slogdet(np.eye(60) + K * (w / noise))[1])
    p = turn.noise.pattern  # whitened by the factor of Kuu
    C = p.T.T @ p.T
    of_g = 0.5 * (np.trace(C) - len(C) + p.gamma @ p.gamma - np.linalg.slogdet(C)[1])
    assert_allclose(turn.bound, w @ expected - of_f - of_g, rtol=1e-8)


def test_the_bound_rises_from_turn_to_turn_and_above_constant_noise(rng):
    X, y, _ = uneven(rng, 150)
    problem, found = turns(X, y, knots=12)
    start = problem.evaluate(problem.point(problem.table.theta, found[0].stage.Z), gradient=False).value
    assert start < found[0].bound < found[1].bound


def test_noise_that_does_not_vary_is_the_usual_model(rng):
    # a pattern without variance: the bound is the log evidence of constant noise, and costs nothing
    X, y = even(rng, 80)
    gp = GPRegressor(SquaredExponential(), noise="constant", knots=10, random_state=0).fit(X, y)
    fit = gp._fit
    flat = NoisePattern(
        Matern52(1e-12, 1.0), 0.0, fit.posterior.state.Z[:1], np.full((1, 1), 1e6), np.eye(1), np.zeros(1)
    )
    likelihood = VaryingGaussian(fit.model.likelihood.noise_variance).with_pattern(flat)
    varying = replace(fit.training, model=replace(fit.training.model, likelihood=likelihood))
    evidence = varying.evaluate(fit.selection.point)
    plain = fit.training.evaluate(fit.selection.point)
    assert_allclose(evidence.value, plain.value, rtol=1e-10)
    assert_allclose(evidence.gradient, plain.gradient, rtol=1e-6, atol=1e-6)


def test_the_gradient_of_the_level_is_the_derivative_of_the_evidence(fitted):
    gp, _, _ = fitted
    theta = gp.parameters_.theta + np.array([0.1, -0.1, 0.2])
    gradient, step = gp.evidence(theta).gradient, 1e-5
    for i in range(3):
        ends = [gp.evidence(theta + sign * step * np.eye(3)[i], gradient=False).value for sign in (1, -1)]
        assert_allclose((ends[0] - ends[1]) / (2 * step), gradient[i], rtol=1e-5)


@pytest.mark.parametrize("options", [{"approximation": "full"}, {"knots": 12}, {"knots": 8, "n_neighbors": 59}])
def test_training_rows_with_and_without_themselves_are_those_of_refits(options, rng):
    X, y, _ = uneven(rng, 60)
    gp = GPRegressor(SquaredExponential(), noise="constant", random_state=0, **options).fit(X, y)
    posterior, problem = gp._fit.posterior, gp._fit.training
    rows = problem.rows
    seen: InSample = posterior.in_sample(rows)
    latent = posterior.latent(rows.X)
    assert_allclose(seen.error, rows.y - latent.mean, rtol=1e-5, atol=1e-7)
    assert_allclose(seen.variance, latent.variance, rtol=1e-4)
    if gp.n_neighbors_:
        return
    groups = [np.array([i]) for i in range(0, 60, 7)]
    left = posterior.leave_out(rows, groups, Serial(), rng)
    for group, own in zip(groups, left, strict=True):
        assert_allclose(seen.left_error[group], rows.y[group] - own.mean, rtol=1e-6, atol=1e-9)
        assert_allclose(seen.left_variance[group], own.variance, rtol=1e-5)


def test_a_row_without_its_own_say_is_that_of_a_refit_of_g(rng):
    # q(g) is Gaussian with sites: that of a row is taken off in closed form, nearly as the others would say it
    X, y, _ = uneven(rng, 150)
    problem, _ = turns(X, y, knots=12)
    rows = problem.rows
    squares = rng.chisquare(1, len(rows)) * np.exp(rows.X[:, 0])
    gp = GPRegressor(SquaredExponential(), noise="constant", knots=6, random_state=0).fit(X, y)
    made = assemble(gp, Observations(X, y), None, Serial())
    searches = varying_noise.Searches(n_knots=9, rows=10_000, turns=2)
    gammas = [made.with_kernel.of_log_noise(Matern52())]
    noise = varying_noise.fit_noise(gammas, rows, squares, searches, rng)
    without, variance = noise.without_own(squares, 1.0)
    unit = squares.mean()
    for i in (3, 70, 140):
        others = np.delete(np.arange(len(rows)), i)
        gamma = noise.problem.on_rows(replace(rows[others], y=squares[others] / unit, noise_variance=None))
        state = gamma.evaluate(noise.stage.point, gradient=False).state
        latent = KnotPosterior(state).latent(rows.X[i : i + 1])
        assert abs(without[i] - np.log(unit) - latent.mean[0]) < 0.02
        assert_allclose(variance[i], latent.variance[0], rtol=0.06)


# -- the law of an observation --------------------------------------------------------------------------------


def test_an_observation_averages_over_what_is_not_known_of_its_noise():
    mean, variance = np.array([0.3, -1.0]), np.array([0.2, 1.4])
    law = gaussian_of_log_noise(np.array([-1.0, 0.5]), np.array([0.6, 1.2]))
    y = np.array([1.0, 2.5])
    for i, (m, s2) in enumerate([(-1.0, 0.6), (0.5, 1.2)]):

        def over(function, m=m, s2=s2):
            def weighted(g):
                return np.exp(-0.5 * (g - m) ** 2 / s2) / np.sqrt(2 * np.pi * s2) * function(np.exp(g))

            reach = 10 * np.sqrt(s2)
            return quad(weighted, m - reach, m + reach, epsabs=1e-13, limit=200)[0]

        def density(noise, i=i):
            total = variance[i] + noise
            return np.exp(-0.5 * (y[i] - mean[i]) ** 2 / total) / np.sqrt(2 * np.pi * total)

        found = law.log_predictive_density(y, mean, variance)[i]
        assert_allclose(np.exp(found), over(density), rtol=1e-8)
        below = over(lambda noise, i=i: ndtr((y[i] - mean[i]) / np.sqrt(variance[i] + noise)))
        assert_allclose(law.predictive_cdf(y, mean, variance)[i], below, rtol=1e-8)
        assert_allclose(law.response_moments(mean, variance)[1][i], variance[i] + over(lambda noise: noise), rtol=1e-8)


@pytest.mark.parametrize("p", [0.001, 0.2, 0.5, 0.9, 0.999])
def test_a_quantile_has_its_probability(p):
    law = gaussian_of_log_noise(np.array([-1.0, 0.5, 3.0]), np.array([0.0, 1.2, 4.0]))
    mean, variance = np.array([0.3, -1.0, 4.0]), np.array([0.2, 0.0, 1.0])
    assert_allclose(law.predictive_cdf(law.predictive_quantile(p, mean, variance), mean, variance), p, rtol=1e-9)


def test_known_noise_is_the_limit_of_noise_that_is_nearly_known():
    mean, variance, y = np.array([0.3, 1.0]), np.array([0.2, 0.1]), np.array([1.0, -1.0])
    law, known = gaussian_of_log_noise(np.log([0.5, 2.0]), np.zeros(2)), Gaussian(1.0)
    known.noise_variance = np.array([0.5, 2.0])
    for ask in ("log_predictive_density", "predictive_cdf"):
        assert_allclose(getattr(law, ask)(y, mean, variance), getattr(known, ask)(y, mean, variance), rtol=1e-10)
    assert_allclose(law.predictive_quantile(0.9, mean, variance), known.predictive_quantile(0.9, mean, variance))


# -- the decision ---------------------------------------------------------------------------------------------


def test_noise_that_varies_is_found_and_even_noise_is_left_alone(rng):
    X, y, sd = uneven(rng, 300)
    gp = GPRegressor(SquaredExponential(), random_state=0).fit(X, y)
    assert gp.likelihood_.varies
    found = gp.predict_noise(X)
    assert np.mean((found.lower < sd) & (sd < found.upper)) > 0.8
    assert np.abs(np.log(found.sd / sd)).mean() < 0.25
    X, y = even(rng, 300)
    plain = GPRegressor(SquaredExponential(), random_state=0).fit(X, y)
    told = GPRegressor(SquaredExponential(), noise="constant", random_state=0).fit(X, y)
    assert type(plain.likelihood_) is Gaussian
    assert_array_equal(plain.predict(X), told.predict(X))  # the same fit, to the bit


def test_the_test_of_sizes_sees_columns_middles_means_and_neighbours(rng):
    n = 400
    X = rng.uniform(-1, 1, size=(n, 2))
    rows = Rows(X, np.zeros(n), None, np.empty((n, 0)))

    def p_of(sd, mean=0.0):
        z = sd * rng.normal(size=n)
        seen = InSample(z, np.zeros(n), z, np.zeros(n), np.ones(n))
        return decision.test(seen, replace(rows, y=mean + z), rng)

    assert p_of(np.exp(X[:, 0])).p < 1e-4
    assert np.argmin(p_of(np.exp(X[:, 1])).of_column) == 1
    assert p_of(np.exp(2 * np.abs(X[:, 1]))).p < 1e-4  # larger at both ends
    assert p_of(np.exp(X[:, 0] * X[:, 1]), mean=5 * X[:, 0] * X[:, 1]).p < 1e-3  # with the mean
    assert p_of(np.where(np.sin(8 * X[:, 0]) > 0, 2.0, 0.2)).p < 1e-4  # with that of neighbours
    assert np.mean([p_of(1.0).p < 0.05 for _ in range(200)]) < 0.1
    assert p_of(0.0).p == 1.0  # nothing varies


def test_what_is_given_is_not_tried(rng):
    X, y, _ = uneven(rng, 120)
    for options, known in (
        ({"likelihood": Gaussian()}, {}),
        ({"fixed": ["noise_variance"]}, {}),
        ({"optimizer": None}, {}),
        ({}, {"noise_variance": 0.1}),
        ({"noise": "constant"}, {}),
    ):
        gp = GPRegressor(SquaredExponential(), knots=6, random_state=0, **options).fit(X, y, **known)
        assert not getattr(gp.likelihood_, "varies", False), options


@pytest.mark.parametrize(
    "options, known, words",
    [
        ({"likelihood": "poisson"}, {}, "is for Gaussian data, but the likelihood is Poisson"),
        ({}, {"noise_variance": 0.1}, "the noise of each row was given"),
        ({"optimizer": None}, {}, "Give the noise of another fit"),
        ({"noise": "uneven"}, {}, "`noise` is 'uneven'|varying"),
    ],
)
def test_noise_that_cannot_vary_is_refused_in_words(options, known, words):
    X = np.linspace(0, 1, 30)[:, None]
    with pytest.raises(InvalidInputError, match=words):
        GPRegressor(**{"noise": "varying"} | options).fit(X, np.arange(30.0), **known)


def test_a_misspelt_word_is_corrected():
    with pytest.raises(UnknownOptionError, match="Did you mean 'varying'"):
        GPRegressor(noise="variyng").fit(np.zeros((3, 1)), np.arange(3.0))


# -- through the estimator ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"approximation": "full"},
        {"knots": 12},
        {},
        {"knots": 10, "n_neighbors": 8},
        {"knots": np.linspace(0, 1, 9)[:, None]},
    ],
)
def test_predictions_of_every_posterior_have_the_noise_of_their_rows(options, rng, tmp_path):
    X, y, _ = uneven(rng, 200)
    y = 7 + 20 * y  # in units of which the engine has others
    gp = GPRegressor(SquaredExponential(), noise="varying", random_state=0, **options).fit(X, y)
    new = rng.uniform(size=(50, 1))
    p, latent, noise = gp.predictive(new), gp.predict_latent(new), gp.predict_noise(new)
    law = gp.likelihood_.at(Inputs(new))  # which the user's likelihood knows in the user's units
    assert_allclose(p.variance - latent.variance, law.value("noise_variance"), rtol=1e-8)
    assert_allclose(noise.sd, np.exp(0.5 * law.log_mean), rtol=1e-10)
    assert_allclose(p.cdf(p.quantile(0.1)), 0.1, rtol=1e-8)
    samples = gp.sample_observations(new, 4000, random_state=0)
    assert_allclose(samples.std(0), p.std, rtol=0.15)
    assert_allclose(gp.predict(new, return_std=True)[1], p.std)
    assert np.exp(np.abs(np.log(noise.sd / (20 * np.exp(np.log(16) * (new[:, 0] - 1))))).mean()) < 1.5
    # total of observations: variances add
    total = gp.predict_total(new, kind="observation", random_state=0)
    function = gp.predict_total(new, kind="mean", random_state=0)
    assert_allclose(total.sd[0] ** 2 - function.sd[0] ** 2, law.value("noise_variance").sum(), rtol=1e-6)
    # files, pickles and the same again
    gp.save(tmp_path / "gp.knotwise")
    again = knotwise.load(tmp_path / "gp.knotwise")
    assert_array_equal(again.predict_interval(new), gp.predict_interval(new))
    assert_array_equal(again.predict_noise(new).upper, noise.upper)
    assert (
        again.log_evidence_ == gp.log_evidence_
        and again.summary(False).splitlines()[:4] == gp.summary(False).splitlines()[:4]
    )
    other = pickle.loads(pickle.dumps(gp))
    assert_array_equal(other.predict_noise(new).sd, noise.sd)


def test_the_order_of_rows_and_threads_do_not_matter(fitted, rng):
    gp, X, y = fitted
    order = rng.permutation(len(X))
    other = clone(gp).set_params(n_jobs=2).fit(X[order], y[order])
    assert_array_equal(other.predict_interval(X), gp.predict_interval(X))
    assert other.log_evidence_ == gp.log_evidence_


def test_what_is_said_of_noise_that_varies(fitted):
    gp, X, y = fitted
    assert "the noise sd varies from 0.0" in gp.summary() and " nats" in gp.summary()
    assert any(str(step.action) == "noise" for step in gp.trace_)
    assert np.isclose(gp.evidence().value, gp.log_evidence_)
    with pytest.raises(InvalidInputError, match="Fit with `noise='constant'`"):
        gp.certify()
    assert gp.diagnose().finding("spread").level == "ok"
    assert np.isfinite(gp.parameters_.standard_errors(compute=True).standard_error).all()
    constant = clone(gp).set_params(noise="constant").fit(X, y)
    assert gp.log_evidence_ > constant.log_evidence_ + 50  # a bound against a value
    spread = constant.diagnose().finding("spread")
    assert spread.level == "problem" and "`noise='varying'`" in spread.advice


def test_a_fitted_likelihood_means_the_same_in_another_fit(fitted):
    gp, X, y = fitted
    again = GPRegressor(gp.kernel_, gp.likelihood_, mean=gp.mean_, optimizer=None, approximation="full").fit(
        X[:100], y[:100]
    )
    assert_allclose(again.predict_noise(X).sd, gp.predict_noise(X).sd, rtol=1e-8)


@pytest.mark.parametrize("options", [{"refit": False}, {"refit": False, "knots": "anew"}, {"knots": "held"}, {}])
def test_cross_validation_predicts_with_noise_that_varies(options):
    X, y, _ = uneven(np.random.default_rng(1), 90)
    scores = {}
    for noise in ("varying", "constant"):
        gp = GPRegressor(SquaredExponential(), noise=noise, knots=9, random_state=0).fit(X, y)
        scores[noise] = cross_validate(gp, X, y, blocks=3, **options).scores["nlpd"]
    assert scores["varying"] < scores["constant"] - 0.2


def test_weights_and_copies_are_rows(rng):
    X, y, _ = uneven(rng, 150)
    weights = rng.integers(1, 3, 150)
    options = {"noise": "varying", "random_state": 0, "knots": 12}
    once = GPRegressor(SquaredExponential(), **options).fit(X, y, sample_weight=weights)
    copied = GPRegressor(SquaredExponential(), **options).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    assert_allclose(once.predict_noise(X).sd, copied.predict_noise(X).sd, rtol=0.05)


def test_categories_and_gaps_have_noise_of_their_own(rng):
    pd = pytest.importorskip("pandas")
    city = rng.choice(["a", "b"], 240)
    x = rng.uniform(size=240)
    y = np.sin(6 * x) + np.where(city == "a", 0.05, 0.6) * rng.normal(size=240)
    gp = GPRegressor(random_state=0).fit(pd.DataFrame({"city": city, "x": x}), y)
    noise = gp.predict_noise(pd.DataFrame({"city": ["a", "b"], "x": [0.5, 0.5]}))
    assert noise.sd[1] > 5 * noise.sd[0]


def test_noise_of_other_models_is_refused_or_the_same_everywhere(rng):
    X, y = even(rng, 60)
    gp = GPRegressor(SquaredExponential(), noise="constant", knots=8, random_state=0).fit(X, y)
    noise = gp.predict_noise(X)
    assert_allclose(noise.sd, np.sqrt(gp.parameters_["noise_variance"]), rtol=1e-10)
    assert_array_equal(noise.lower, noise.upper)
    counts = GPRegressor(likelihood="poisson", knots=4, random_state=0).fit(X, rng.poisson(3.0, 60))
    with pytest.raises(InvalidInputError, match="is for Gaussian data"):
        counts.predict_noise(X)
    known = GPRegressor(SquaredExponential(), knots=4, random_state=0).fit(X, y, noise_variance=0.1)
    with pytest.raises(InvalidInputError, match="was given to this fit"):
        known.predict_noise(X)


def test_targets_that_do_not_differ_have_no_noise_to_vary():
    X = np.linspace(0, 1, 50)[:, None]
    with pytest.warns(FitWarning) as said:
        gp = GPRegressor(noise="varying", knots=4, random_state=0).fit(X, np.full(50, 2.0))
    assert not getattr(gp.likelihood_, "varies", False)
    assert any("targets do not differ" in str(each.message) for each in said)


def test_a_classifier_has_no_noise():
    assert "noise" not in GPClassifier().get_params()


def test_few_rows_are_enough_where_it_is_asked_for(rng):
    X, y, _ = uneven(rng, 12)
    gp = GPRegressor(SquaredExponential(), noise="varying", random_state=0).fit(X, y)
    assert np.isfinite(gp.predict_interval(X)).all() and gp.likelihood_.varies


def test_a_picture_of_the_noise_has_its_curve_and_the_sizes_of_residuals(fitted):
    pytest.importorskip("matplotlib")
    from knotwise.plotting import plot_noise

    gp, X, y = fitted
    ax = plot_noise(gp, X, y)
    x, sd = ax.get_lines()[0].get_data()
    assert_allclose(sd, gp.predict_noise(x[:, None]).sd)
    assert len(ax.collections[0].get_offsets()) == len(X)


def test_dask_collections_have_constant_noise(rng):
    da = pytest.importorskip("dask.array")
    X, y, _ = uneven(rng, 100)
    lazy = da.from_array(X, chunks=50), da.from_array(y, chunks=50)
    gp = GPRegressor(SquaredExponential(), knots=8, random_state=0).fit(*lazy)
    assert not getattr(gp.likelihood_, "varies", False)
    with pytest.raises(InvalidInputError, match="needs rows in memory"):
        GPRegressor(noise="varying").fit(*lazy)
    varying = GPRegressor(SquaredExponential(), knots=8, noise="varying", random_state=0).fit(X, y)
    assert_allclose(varying.predict_interval(lazy[0]).compute(), varying.predict_interval(X))
