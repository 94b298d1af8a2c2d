"""scikit-learn's contract: its own checks without an exception, and what users build from estimators."""

import re
from inspect import signature

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

from knotwise import GPClassifier, GPRegressor
from knotwise.kernels import Linear, Matern32, SquaredExponential
from knotwise.knots import Fixed

# the checks fit rounded noise, fractional counts and separable classes: what the fits say about them is not tested here
FIT_WARNINGS = pytest.mark.filterwarnings("ignore::knotwise.errors.FitWarning")

SMOOTH = SquaredExponential()  # so that no kernel is chosen, which takes several fits
EVERY_DAY = [GPRegressor(SMOOTH, random_state=0)]
OTHERS = [
    GPClassifier(SMOOTH, knots=5, inference="laplace"),
    GPRegressor(),
    GPClassifier(SMOOTH, knots=5),
    GPRegressor(SMOOTH, likelihood="poisson"),
    GPRegressor(SMOOTH, approximation="fic"),
    GPRegressor(SMOOTH, approximation="full"),
    GPRegressor(Matern32(), n_neighbors=3),
    GPRegressor(SMOOTH, likelihood="student_t", standardize=False),
    GPRegressor(knots=5),
    GPRegressor(SMOOTH, knots=Fixed("kmeans", n_knots=20)),
    GPClassifier(),
    GPClassifier(SMOOTH, approximation="fic"),
    GPClassifier(SMOOTH, approximation="full"),
    GPClassifier(SMOOTH, knots=Fixed("kmeans", n_knots=5)),
    GPClassifier(SMOOTH, knots=5, inference="variational"),
    GPClassifier(SMOOTH, knots=5, inference="ep"),
    GPRegressor(SMOOTH, likelihood="student_t", knots=5, inference="variational"),
]


@FIT_WARNINGS
@parametrize_with_checks(EVERY_DAY)
def test_every_check_of_scikit_learn_passes(estimator, check):
    check(estimator)


@pytest.mark.slow
@FIT_WARNINGS
@parametrize_with_checks([gp.set_params(random_state=0) for gp in OTHERS])
def test_every_check_of_scikit_learn_passes_in_other_settings(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    ("likelihood", "positive"),
    [
        ("gaussian", False),
        ("student_t", False),
        ("poisson", True),
        ("gamma", True),
        ("binomial", True),
        ("nosuch", False),
    ],
)
def test_tags_say_which_targets_are_positive(likelihood, positive):
    tags = get_tags(GPRegressor(likelihood=likelihood))
    assert tags.target_tags.positive_only == positive
    assert tags.target_tags.required and not tags.regressor_tags.poor_score and not tags.non_deterministic


# -- what users build from estimators -------------------------------------------------------------------------

KERNEL = SquaredExponential(1.0, 0.7, column_scales="standard")


@pytest.fixture
def data(rng):
    X = rng.uniform(-2, 2, size=(90, 2))
    return X, np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * rng.normal(size=90)


@pytest.fixture
def counts(rng):
    """Counts at places with very different exposures."""
    X = rng.uniform(-2, 2, size=(120, 2))
    exposure = rng.uniform(0.2, 5.0, size=120)
    rate = np.exp(1 + np.sin(2 * X[:, 0]))
    return X, rng.poisson(exposure * rate).astype(float), exposure


def poisson(**options):
    """A model of counts that keeps its parameters, so that it is quick."""
    return GPRegressor(KERNEL, "poisson", **{"knots": 12, "mean": 1.0, "optimizer": None, "random_state": 0} | options)


def test_estimators_are_a_regressor_and_a_classifier():
    assert is_regressor(GPRegressor()) and not is_classifier(GPRegressor())
    assert is_classifier(GPClassifier()) and not is_regressor(GPClassifier())


def test_both_estimators_have_the_same_parameters_but_for_likelihood_and_link():
    """The lists stand in both classes, since scikit-learn, editors and type checkers read them there."""
    regressor, classifier = (list(signature(cls).parameters.values()) for cls in (GPRegressor, GPClassifier))
    assert (regressor.pop(1).name, classifier.pop(1).name) == ("likelihood", "link")
    own = [regressor.pop(next(i for i, each in enumerate(regressor) if each.name == "transform"))]  # of numbers only
    assert regressor == classifier  # names, order, defaults and types
    described = re.findall(r"^    (\w+) : ", GPRegressor.__doc__, re.MULTILINE)
    assert described[: len(regressor) + len(own) + 1] == list(signature(GPRegressor).parameters)


def test_a_clone_of_a_fitted_model_is_unfitted_and_fits_the_same(data):
    X, y = data
    gp = GPRegressor(kernel=SquaredExponential() + Linear(), knots=9, random_state=0).fit(X, y)
    other = clone(gp)
    assert not hasattr(other, "knots_") and other.kernel is not gp.kernel
    assert_array_equal(other.fit(X, y).predict(X), gp.predict(X))


def test_a_grid_search_through_a_pipeline_reaches_the_parameters_of_the_kernel(data):
    X, y = data
    pipeline = make_pipeline(StandardScaler(), GPRegressor(KERNEL, knots=9, optimizer=None, random_state=0))
    grid = {"gpregressor__kernel__lengthscale": [0.01, 0.7], "gpregressor__approximation": ["fic", "vfe"]}
    search = GridSearchCV(pipeline, grid, cv=3, error_score="raise").fit(X, y)
    assert search.best_params_["gpregressor__kernel__lengthscale"] == 0.7
    assert search.best_estimator_[-1].kernel_.lengthscale == 0.7 and search.best_score_ > 0.4
    assert pipeline[-1].kernel.lengthscale == 0.7, "the search must not change the pipeline that it was given"


def test_cross_validation_scores_are_r2_of_the_folds_left_out(data):
    X, y = data
    gp = GPRegressor(KERNEL, knots=9, optimizer=None, random_state=0)
    folds = KFold(3)
    by_hand = [r2_score(y[test], clone(gp).fit(X[train], y[train]).predict(X[test])) for train, test in folds.split(X)]
    assert_allclose(cross_val_score(gp, X, y, cv=folds), by_hand, rtol=1e-12)
    assert cross_val_predict(gp, X, y, cv=folds).shape == y.shape


def test_a_target_transform_is_the_same_as_fitting_the_transformed_target(data):
    X, y = data
    gp = GPRegressor(KERNEL, knots=9, optimizer=None, random_state=0)
    wrapped = TransformedTargetRegressor(gp, func=np.exp, inverse_func=np.log, check_inverse=False).fit(X, y)
    assert_allclose(wrapped.predict(X), np.log(clone(gp).fit(X, np.exp(y)).predict(X)), rtol=1e-12)


# -- names of columns -----------------------------------------------------------------------------------------


def test_columns_of_a_frame_are_remembered_and_their_order_is_checked(data):
    pd = pytest.importorskip("pandas")
    X, y = data
    frame = pd.DataFrame(X, columns=["east", "north"])
    gp = GPRegressor(KERNEL.on(["north"]), knots=9, optimizer=None, random_state=0).fit(frame, y)
    assert_array_equal(gp.feature_names_in_, ["east", "north"])
    elsewhere = frame.assign(east=7.0)
    assert_array_equal(gp.predict(elsewhere), gp.predict(frame))  # only north is in the kernel
    with pytest.raises(ValueError, match="feature names"):
        gp.predict(frame[["north", "east"]])
    with pytest.raises(ValueError, match=r"missing.*\n.*north"):
        gp.predict(frame[["east"]])
    with pytest.raises(ValueError, match="south"):
        gp.predict(frame.rename(columns={"north": "south"}))
    with pytest.warns(UserWarning, match="valid feature names"):
        gp.predict(X)


def test_a_classifier_and_its_models_know_the_names_of_columns(data):
    pd = pytest.importorskip("pandas")
    X, y = data
    frame = pd.DataFrame(X, columns=["east", "north"])
    gp = GPClassifier(KERNEL.on(["east"]), knots=9, optimizer=None, random_state=0).fit(frame, y > 0)
    assert_array_equal(gp.feature_names_in_, ["east", "north"])
    assert_array_equal(gp.predict_proba(frame.assign(north=7.0)), gp.predict_proba(frame))
    with pytest.raises(ValueError, match="feature names"):
        gp.predict(frame[["north", "east"]])


def test_a_pipeline_that_puts_out_frames_gives_names_to_the_kernel(data):
    pd = pytest.importorskip("pandas")
    X, y = data
    frame = pd.DataFrame({"soil": np.where(X[:, 0] > 0, "clay", "sand"), "north": X[:, 1]})
    encode = ColumnTransformer(
        [("one", OneHotEncoder(sparse_output=False), ["soil"]), ("scale", StandardScaler(), ["north"])],
        verbose_feature_names_out=False,
    )
    gp = GPRegressor(
        KERNEL.on(["north"]) + Linear(1.0, column_scales="standard").on(["soil_clay"]),
        knots=9,
        optimizer=None,
        random_state=0,
    )
    pipeline = make_pipeline(encode, gp).set_output(transform="pandas").fit(frame, y)
    assert_array_equal(pipeline[-1].feature_names_in_, ["soil_clay", "soil_sand", "north"])
    assert pipeline.predict(frame).shape == y.shape


# -- exposure and trials --------------------------------------------------------------------------------------


def test_the_score_of_counts_is_r2_at_their_exposure(counts):
    X, y, exposure = counts
    gp = poisson().fit(X, y, exposure=exposure)
    assert_allclose(gp.score(X, y, exposure=exposure), r2_score(y, exposure * gp.predict(X, exposure=1)), rtol=1e-12)
    assert gp.score(X, y, exposure=exposure) > 0.7 > gp.score(X, y, exposure=1)
    weight = np.r_[np.ones(60), np.zeros(60)]
    half = gp.score(X[:60], y[:60], exposure=exposure[:60])
    assert_allclose(gp.score(X, y, sample_weight=weight, exposure=exposure), half, rtol=1e-12)


def test_the_score_of_successes_is_r2_at_their_trials(rng):
    X = rng.uniform(-2, 2, size=(80, 1))
    trials = rng.integers(1, 40, 80)
    y = rng.binomial(trials, 1 / (1 + np.exp(-2 * X[:, 0]))).astype(float)
    gp = GPRegressor(KERNEL, "binomial", knots=9, optimizer=None, random_state=0).fit(X, y, trials=trials)
    assert_allclose(gp.score(X, y, trials=trials), r2_score(y, trials * gp.predict(X, trials=1)), rtol=1e-12)
    with sklearn.config_context(enable_metadata_routing=True):
        gp = clone(gp).set_fit_request(trials=True).set_score_request(trials=True)
        scores = cross_validate(gp, X, y, params={"trials": trials}, cv=KFold(3), error_score="raise")["test_score"]
    assert_allclose(scores, by_hand(clone(gp), X, y, trials=trials), rtol=1e-12)


def by_hand(gp, X, y, **sizes):
    """Scores of three folds, with the exposure or the trials of each row."""
    parts = []
    for train, test in KFold(3).split(X):
        fitted = clone(gp).fit(X[train], y[train], **{name: size[train] for name, size in sizes.items()})
        parts.append(fitted.score(X[test], y[test], **{name: size[test] for name, size in sizes.items()}))
    return parts


def test_cross_validation_routes_the_exposure_to_fit_and_score(counts):
    X, y, exposure = counts
    with sklearn.config_context(enable_metadata_routing=True):
        gp = poisson().set_fit_request(exposure=True).set_score_request(exposure=True)
        routed = cross_validate(gp, X, y, params={"exposure": exposure}, cv=KFold(3), error_score="raise")
    assert_allclose(routed["test_score"], by_hand(poisson(), X, y, exposure=exposure), rtol=1e-12)


def test_an_exposure_that_nobody_asked_for_is_an_error_and_not_ignored(counts):
    X, y, exposure = counts
    with (
        sklearn.config_context(enable_metadata_routing=True),
        pytest.raises(UnsetMetadataPassedError, match="exposure"),
    ):
        cross_validate(poisson(), X, y, params={"exposure": exposure}, cv=3, error_score="raise")


def test_a_grid_search_over_a_pipeline_routes_the_exposure(counts):
    X, y, exposure = counts
    with sklearn.config_context(enable_metadata_routing=True):
        gp = poisson().set_fit_request(exposure=True).set_score_request(exposure=True)
        gp.set_predict_request(exposure=True)
        pipeline = make_pipeline(StandardScaler(), gp)
        search = GridSearchCV(pipeline, {"gpregressor__knots": [1, 12]}, cv=KFold(3), error_score="raise")
        search.fit(X, y, exposure=exposure)
        whole = make_pipeline(StandardScaler(), clone(gp)).fit(X, y, exposure=exposure)
        assert_allclose(whole.predict(X, exposure=exposure), exposure * whole.predict(X, exposure=1), rtol=1e-12)
        assert_allclose(search.score(X, y, exposure=exposure), whole.score(X, y, exposure=exposure), rtol=1e-12)
    assert search.best_params_ == {"gpregressor__knots": 12}
    assert search.best_score_ > np.mean(cross_val_score(poisson(), X, y, cv=KFold(3)))  # fitted without exposure
