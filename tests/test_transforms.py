"""Transforms of Gaussian targets: oracles of the parts, and fits of which everything is said in the units of y."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from knotwise import GPRegressor, cross_validate, load
from knotwise.errors import InvalidInputError
from knotwise.likelihoods import Gaussian, LogNormal, Poisson, Transformed
from knotwise.transforms import BoxCox, Log, Sqrt, Transform, YeoJohnson, transform_named

TRANSFORMS = [
    Log(),
    Sqrt(least=0.01),
    BoxCox(power=0.3, scale=2.0),
    BoxCox(power=0.0, scale=2.0),
    BoxCox(power=1.5, scale=0.5),
    YeoJohnson(power=0.4, centre=1.0, scale=2.0),
    YeoJohnson(power=0.0, centre=1.0, scale=2.0),
    YeoJohnson(power=2.0, centre=-1.0, scale=0.3),
]
PLAIN = {"random_state": 0, "progress": False}


def targets(transform, n=40):
    rng = np.random.default_rng(1)
    return rng.gamma(2.0, 1.0, n) + 0.05 if transform.lowest == 0 else 3 * rng.normal(size=n)


@pytest.fixture(scope="module")
def prices():
    """Positive targets whose logarithm is a function of two columns with noise."""
    rng = np.random.default_rng(3)
    X = rng.uniform(size=(150, 2))
    z = 1 + np.sin(5 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=150)
    return X, np.exp(z)


@pytest.fixture(scope="module")
def model(prices):
    return GPRegressor(transform="log", knots=8, kernel=None, **PLAIN).fit(*prices)


# -- the parts --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("transform", TRANSFORMS, ids=repr)
def test_the_inverse_of_a_transform_leads_back(transform):
    y = targets(transform)
    assert_allclose(transform.inverse(transform(y)), y, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("transform", TRANSFORMS, ids=repr)
def test_log_slope_is_the_logarithm_of_the_derivative(transform):
    y = targets(transform)
    h = np.finfo(float).eps ** (1 / 3) * np.maximum(np.abs(y), 0.05)
    slope = (transform(y + h) - transform(y - h)) / (2 * h)
    assert_allclose(transform.log_slope(y), np.log(slope), atol=1e-6)


def test_box_cox_with_power_1_is_a_shift_and_with_power_0_the_logarithm():
    y = targets(Log())
    straight = BoxCox(power=1.0).learned(y)
    assert_allclose(np.diff(straight(y)), np.diff(y), rtol=1e-12, atol=1e-12)
    assert_allclose(straight.log_slope(y), 0.0, atol=1e-12)
    nearly, log = (BoxCox(power=power).learned(y) for power in (1e-7, 0.0))
    assert_allclose(nearly(y), log(y), atol=1e-5)
    assert_allclose(np.diff(log(y)) / log.scale, np.diff(np.log(y)), atol=1e-12)


@pytest.mark.parametrize("weights", [None, np.linspace(0.1, 3.0, 40)])
@pytest.mark.parametrize("power", [0.0, 0.4, 1.7])
def test_the_jacobian_of_box_cox_over_the_rows_of_the_fit_is_1(power, weights):
    y = targets(Log())
    transform = BoxCox(power=power).learned(y, weights)
    assert_allclose(np.average(transform.log_slope(y), weights=weights), 0.0, atol=1e-12)


def test_yeo_johnson_does_not_depend_on_the_units_of_y():
    y = targets(YeoJohnson())
    celsius, fahrenheit = YeoJohnson(power=0.3).learned(y), YeoJohnson(power=0.3).learned(32 + 1.8 * y)
    assert_allclose(celsius(y), fahrenheit(32 + 1.8 * y), atol=1e-12)


def test_yeo_johnson_agrees_with_that_of_scipy():
    from scipy.stats import yeojohnson

    y = targets(YeoJohnson())
    for power in (0.0, 0.5, 1.0, 1.6, 2.0):
        assert_allclose(YeoJohnson(power, 0.0, 1.0)(y), yeojohnson(y, power), atol=1e-12)


@pytest.mark.parametrize("transform", TRANSFORMS, ids=repr)
@pytest.mark.parametrize("variance", [1e-6, 0.05, 0.5])
def test_moments_in_closed_form_are_those_of_quadrature(transform, variance):
    mean = transform(np.quantile(targets(transform), [0.1, 0.5, 0.9]))
    own, rule = transform.moments(mean, variance), Transform.moments(transform, mean, variance)
    assert_allclose(own[0], rule[0], rtol=1e-4)
    assert_allclose(own[1], rule[1], rtol=2e-3)  # the root has a kink at 0


def test_transformed_data_are_log_normal_data():
    y, f, v = np.array([0.5, 1.0, 4.0]), np.array([0.1, -0.2, 1.0]), np.array([0.3, 0.1, 0.7])
    ours, theirs = Transformed(Gaussian(0.4), Log()), LogNormal(0.4)
    assert_allclose(ours.log_density(y, f), theirs.log_density(y, f), rtol=1e-12)
    assert_allclose(ours.log_predictive_density(y, f, v), theirs.log_predictive_density(y, f, v), rtol=1e-12)
    assert_allclose(ours.response_moments(f, v), theirs.response_moments(f, v), rtol=1e-12)
    assert_allclose(ours.predictive_quantile(0.9, f, v), theirs.predictive_quantile(0.9, f, v), rtol=1e-12)
    assert_allclose(ours.latent_of_mean(y), theirs.latent_of_mean(y), atol=1e-8)
    assert_allclose(ours.conditional_mean(f), theirs.conditional_mean(f), rtol=1e-12)
    for one, other in zip(vars(ours.tilted(y, f, v)).items(), vars(theirs.tilted(y, f, v)).items(), strict=True):
        assert one[0] == other[0] and (one[1] is None or np.allclose(one[1], other[1], rtol=1e-12))


@pytest.mark.parametrize("transform", TRANSFORMS, ids=repr)
def test_a_transformed_likelihood_is_consistent(transform):
    observed = Transformed(Gaussian(0.2), transform)
    mean, v = transform(np.quantile(targets(transform), [0.2, 0.5, 0.8])), np.array([0.1, 0.3, 0.05])
    assert_allclose(observed.latent_of_mean(observed.conditional_mean(mean)), mean, atol=1e-7)
    for p in (0.05, 0.5, 0.95):
        y = observed.predictive_quantile(p, mean, v)
        inside = y > transform.lowest
        assert_allclose(observed.predictive_cdf(y, mean, v)[inside], p, atol=1e-10)
    # the density is the derivative of the distribution function
    y = observed.predictive_quantile(0.6, mean, v)
    h = 1e-6 * np.maximum(np.abs(y), 1e-2)
    slope = (observed.predictive_cdf(y + h, mean, v) - observed.predictive_cdf(y - h, mean, v)) / (2 * h)
    assert_allclose(observed.log_predictive_density(y, mean, v), np.log(slope), atol=1e-5)


@pytest.mark.parametrize("transform", TRANSFORMS, ids=repr)
def test_the_joint_covariance_is_that_of_quadrature_in_two_dimensions(transform):
    observed, m = Transformed(Gaussian(0.1), transform), transform(np.quantile(targets(transform), [0.4, 0.6]))
    C = np.array([[0.2, 0.12], [0.12, 0.15]])
    total = C + 0.1 * np.eye(2)
    u, w = np.polynomial.hermite_e.hermegauss(120)
    L, w = np.linalg.cholesky(total), w / w.sum()
    one = transform.inverse(m[0] + L[0, 0] * u)
    two = transform.inverse(m[1] + L[1, 0] * u[:, None] + L[1, 1] * u)
    expected = w @ (one[:, None] * two) @ w - (w @ one) * (w @ two @ w)
    found = observed.predictive_covariance(m, C)
    assert_allclose(found[0, 1], expected, rtol=3e-3 if transform.lowest == 0 else 1e-4)
    assert_allclose(np.diag(found), observed.response_moments(m, np.diag(C))[1], rtol=1e-12)


def test_a_density_of_the_root_is_finite_at_zero_and_none_below():
    observed = Transformed(Gaussian(0.2), Sqrt().learned(np.array([0.0, 0.5, 2.0])))
    density = observed.log_predictive_density(np.array([0.0, -1.0]), np.array([0.3, 0.3]), np.array([0.1, 0.1]))
    assert np.isfinite(density[0]) and density[1] == -np.inf


@pytest.mark.parametrize("word", ["log", "sqrt", "boxcox", "yeojohnson"])
def test_a_transform_has_a_word(word):
    assert transform_named(word).word == word
    with pytest.raises(InvalidInputError, match="transform"):
        transform_named(word + "x")


# -- fits -------------------------------------------------------------------------------------------------


def test_a_fit_is_that_of_the_transformed_target_and_its_evidence_is_of_y(prices, model):
    X, y = prices
    own = GPRegressor(transform=None, knots=8, **PLAIN).fit(X, np.log(y))
    assert_allclose(model.log_evidence_, own.log_evidence_ - np.log(y).sum(), rtol=1e-10)
    assert_allclose(model.evidence().value, model.log_evidence_, rtol=1e-10)
    assert_array_equal(model.predict_latent(X).mean, own.predict_latent(X).mean)
    mean, variance = own.predict(X), own.predict(X, return_std=True)[1] ** 2
    assert_allclose(model.predict(X), np.exp(mean + variance / 2), rtol=1e-10)
    assert_allclose(model.predict_interval(X), np.exp(own.predict_interval(X)), rtol=1e-10)
    found = model.log_predictive_density(X, y)
    assert_allclose(found, own.log_predictive_density(X, np.log(y)) - np.log(y), rtol=1e-8, atol=1e-8)
    certificate = model.certify()
    assert_allclose(certificate.fitted, model.log_evidence_, rtol=1e-10)
    assert certificate.lower <= certificate.upper + 1e-6


def test_evidences_of_transforms_compare_with_that_of_log_normal_data(prices):
    X, y = prices
    fixed = {"knots": X[:9], **PLAIN}
    ours = GPRegressor(transform="log", **fixed).fit(X, y)
    other = GPRegressor(
        ours.kernel_, LogNormal(ours.likelihood_.value("noise_variance")), mean=ours.mean_, optimizer=None, **fixed
    )
    assert_allclose(ours.log_evidence_, other.fit(X, y).log_evidence_, rtol=1e-6)


def test_weights_are_in_the_jacobian(prices):
    X, y = prices
    held = GPRegressor(transform="log", knots=6, **PLAIN).fit(X, y)
    given = {"mean": held.mean_, "optimizer": None, "knots": held.knots_}
    twice = GPRegressor(held.kernel_, Transformed(Gaussian(0.1), Log()), **given).fit(X, y, np.tile([1.0, 2.0], 75))
    plain = GPRegressor(held.kernel_, Gaussian(0.1), **given).fit(X, np.log(y), np.tile([1.0, 2.0], 75))
    w = np.tile([1.0, 2.0], 75) / 1.5
    assert_allclose(twice.log_evidence_, plain.log_evidence_ - w @ np.log(y), rtol=1e-9)


def test_joint_samples_and_covariance_and_totals_agree(prices, model):
    X = prices[0][:6]
    mean, covariance = model.predict(X, return_cov=True)
    assert_allclose(np.sqrt(np.diag(covariance)), model.predict(X, return_std=True)[1], rtol=1e-9)
    drawn = model.sample_observations(X, 40_000, random_state=0)
    assert_allclose(drawn.mean(0), mean, rtol=0.02)
    assert_allclose(np.cov(drawn.T), covariance, atol=0.04 * covariance.max())
    total = model.predict_total(X, kind="observation", random_state=0)
    assert_allclose(total.estimate, mean.sum(), rtol=1e-9)
    assert_allclose(total.sd, np.sqrt(covariance.sum()), rtol=0.1)


def test_the_fitted_parts_are_the_same_model_in_another_fit(prices, model):
    X, y = prices
    again = GPRegressor(model.kernel_, model.likelihood_, mean=model.mean_, optimizer=None, knots=model.knots_)
    assert_allclose(again.fit(X, y).predict(X), model.predict(X), rtol=1e-6)


@pytest.mark.parametrize("settings", [{"refit": False}, {"refit": False, "knots": "anew"}, {"blocks": 4}])
def test_cross_validation_is_in_the_units_of_y(prices, settings):
    X, y = prices
    ours = GPRegressor(transform="log", knots=8, **PLAIN).fit(X, y)
    plain = GPRegressor(transform=None, knots=8, **PLAIN).fit(X, np.log(y))
    settings = {"blocks": 4, "random_state": 0} | settings
    found, expected = cross_validate(ours, X, y, **settings), cross_validate(plain, X, np.log(y), **settings)
    assert_allclose(found.scores["nlpd"], expected.scores["nlpd"] + np.log(y).mean(), rtol=1e-6)
    assert_allclose(found.pit, expected.pit, atol=1e-6)
    assert "crps" not in found.scores  # which is known of Gaussian predictions


def test_a_file_holds_the_transform(tmp_path, prices, model):
    X = prices[0]
    for gp in (model, GPRegressor(transform="yeojohnson", knots=5, **PLAIN).fit(*prices)):
        gp.save(tmp_path / "gp.knotwise")
        again = load(tmp_path / "gp.knotwise")
        assert_array_equal(again.predict(X), gp.predict(X))
        assert again.log_evidence_ == gp.log_evidence_ and again.get_params()["transform"] == gp.transform_.word
        assert repr(again.transform_) == repr(gp.transform_)
    assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))


def test_scikit_learn_does_not_take_the_setting_for_a_transformer(prices):
    gp = GPRegressor(transform="log", knots=5, **PLAIN)
    assert not hasattr(gp, "transform") and not hasattr(GPRegressor, "transform")
    assert gp.get_params()["transform"] == "log" and clone(gp).get_params()["transform"] == "log"
    assert "transform='log'" in repr(gp)
    assert gp.set_params(transform=None).get_params()["transform"] is None
    with pytest.raises(AttributeError, match="get_params"):
        _ = gp.transform
    pipeline = make_pipeline(StandardScaler(), gp).fit(*prices)
    assert not hasattr(pipeline, "transform")


def test_words_of_a_transformed_model_say_what_is_of_what(prices):
    X, y = prices
    gp = GPRegressor(transform="log", mean="linear", knots=6, **PLAIN).fit(X, y)
    summary = str(gp.summary())
    assert "the logarithm of y was modelled, as told" in summary and "units of x and of log(y)" in summary
    assert "multiplies y by exp(b)" in str(gp.coefficients_)
    assert {value.units for value in gp.parameters_.data_values()} >= {"log(y)^2"}


# -- what is refused --------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["log", "boxcox"])
def test_targets_without_a_transform_are_refused_by_row(prices, word):
    X, y = prices
    with pytest.raises(InvalidInputError, match="row 3"):
        GPRegressor(transform=word).fit(X, np.where(np.arange(150) == 3, 0.0, y))


def test_what_does_not_go_with_a_transform_is_refused_in_words(prices):
    X, y = prices
    with pytest.raises(InvalidInputError, match="noise_variance"):
        GPRegressor(transform="log").fit(X, y, noise_variance=0.1)
    with pytest.raises(InvalidInputError, match="for Gaussian data"):
        GPRegressor(likelihood="gamma", transform="log").fit(X, y)
    with pytest.raises(InvalidInputError, match="both say"):
        GPRegressor(likelihood=Transformed(Gaussian(), Log()), transform="sqrt").fit(X, y)
    with pytest.raises(InvalidInputError, match=r"power=0\.5"):
        GPRegressor(transform="boxcox", optimizer=None).fit(X, y)
    with pytest.raises(InvalidInputError, match="log"):
        GPRegressor(transform="logarithm").fit(X, y)
    with pytest.raises(InvalidInputError, match="Poisson"):
        Transformed(Poisson(), Log())


def test_a_new_target_that_cannot_be_has_no_density(model, prices):
    density = model.log_predictive_density(prices[0][:2], [1.0, -1.0])
    assert np.isfinite(density[0]) and density[1] == -np.inf


# -- the decision -----------------------------------------------------------------------------------------


def test_the_logarithm_is_chosen_and_said_and_is_the_one_told(prices):
    X, y = prices
    auto = GPRegressor(**PLAIN).fit(X, y)
    assert repr(auto.transform_) == "Log()"
    assert "the logarithm of y was modelled: +" in str(auto.summary())
    assert auto.trace_[0].action == "transform"
    told = GPRegressor(transform="log", **PLAIN).fit(X, y)
    assert auto.log_evidence_ == told.log_evidence_
    assert_array_equal(auto.predict(X), told.predict(X))
    order = np.random.default_rng(0).permutation(len(y))
    again = GPRegressor(**PLAIN, n_jobs=2).fit(X[order], y[order])
    assert again.log_evidence_ == auto.log_evidence_


def test_the_choice_does_not_depend_on_the_units_of_y(prices):
    X, y = prices
    in_cents = GPRegressor(**PLAIN).fit(X, 100 * y)
    assert repr(in_cents.transform_) == "Log()"


@pytest.mark.parametrize("lift", [0.0, 6.0])
def test_normal_targets_cost_no_fit(lift):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(200, 2))
    gp = GPRegressor(**PLAIN).fit(X, lift + np.sin(5 * X[:, 0]) + 0.3 * rng.normal(size=200))
    assert gp.transform_ is None and not [step for step in gp.trace_ if step.action == "transform"]


def test_zeros_that_are_atoms_are_left_alone(prices):
    X, y = prices
    rain = np.where(np.arange(150) % 3 == 0, 0.0, y)
    assert GPRegressor(**PLAIN).fit(X, rain).transform_ is None


@pytest.mark.parametrize(
    "settings",
    [
        {"optimizer": None},
        {"bounds": {"noise_variance": (1e-3, 10.0)}},
        {"mean": 3.0},
        {"likelihood": Gaussian(0.5)},
        {"transform": None},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_what_was_told_in_the_units_of_y_is_not_transformed(prices, settings):
    gp = GPRegressor(knots=5, **settings, **PLAIN).fit(*prices)
    assert gp.transform_ is None


def test_known_noise_is_not_transformed(prices):
    assert GPRegressor(knots=5, **PLAIN).fit(*prices, noise_variance=0.5).transform_ is None


def test_a_power_is_learned(prices):
    X, y = prices
    gp = GPRegressor(transform="boxcox", **PLAIN).fit(X, y)
    assert gp.transform_.power < 0.25 and "power" in str(gp.summary())
    straight = GPRegressor(transform="boxcox", **PLAIN).fit(X, np.log(y) + 5)
    assert straight.transform_.power > 0.4


def test_rows_on_dask_are_left_alone_and_refused_with_a_transform(prices):
    da = pytest.importorskip("dask.array")
    X, y = (da.from_array(each, chunks=50) for each in prices)
    assert GPRegressor(knots=5, **PLAIN).fit(X, y).transform_ is None
    for word in ("log", "boxcox"):
        with pytest.raises(InvalidInputError, match="Dask collection"):
            GPRegressor(knots=5, transform=word, **PLAIN).fit(X, y)


def test_predictions_of_dask_collections_are_in_the_units_of_y(prices, model):
    da = pytest.importorskip("dask.array")
    X = da.from_array(prices[0], chunks=50)
    assert_allclose(model.predict(X).compute(), model.predict(prices[0]), rtol=1e-12)
    assert_allclose(model.predict_interval(X).compute(), model.predict_interval(prices[0]), rtol=1e-12)
