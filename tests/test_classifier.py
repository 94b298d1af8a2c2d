"""GPClassifier: labels, probabilities, several classes, scikit-learn's contract, and the banana data."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import log_ndtr
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from knotwise import GPClassifier, GPRegressor
from knotwise.datasets import load_banana
from knotwise.errors import FitWarning, InvalidInputError
from knotwise.kernels import Matern32, SquaredExponential
from knotwise.selection import initial


@pytest.fixture
def two(rng):
    """Two overlapping classes in the plane, with string labels."""
    X = rng.normal(size=(120, 2))
    f = 2.5 * np.sin(2 * X[:, 0]) + X[:, 1]
    return X, np.where(rng.random(120) < 1 / (1 + np.exp(-f)), "wet", "dry")


@pytest.fixture
def three(rng):
    centres = np.array([[-1.5, 0], [1.5, 0], [0, 2.0]])
    codes = rng.integers(0, 3, 120)
    return centres[codes] + 0.7 * rng.normal(size=(120, 2)), np.array(["x", "y", "z"])[codes]


def given(**options):
    """A classifier that keeps its parameters, so that it is quick."""
    options = {
        "kernel": SquaredExponential(4.0, 0.8, column_scales="standard"),
        "optimizer": None,
        "random_state": 0,
    } | options
    return GPClassifier(**options)


# -- two classes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("link", ["logit", "probit"])
@pytest.mark.parametrize("approximation", ["fic", "vfe", "full"])
def test_two_classes_are_the_bernoulli_model_of_the_second_label(two, approximation, link):
    from knotwise.likelihoods import Bernoulli

    X, y = two
    gp = given(approximation=approximation, link=link, knots=X[:9]).fit(X, y)
    twin = GPRegressor(
        SquaredExponential(4.0, 0.8, column_scales="standard"),
        Bernoulli(link),
        approximation,
        knots=X[:9],
        optimizer=None,
        random_state=0,
    ).fit(X, (y == "wet").astype(float))
    X_new = np.random.default_rng(1).normal(size=(30, 2))
    assert_array_equal(gp.classes_, ["dry", "wet"])
    assert gp.log_evidence_ == twin.log_evidence_
    proba = gp.predict_proba(X_new)
    assert_allclose(proba[:, 1], twin.predict(X_new), rtol=1e-12)
    assert_allclose(proba.sum(1), 1.0, rtol=1e-12)
    assert_array_equal(gp.decision_function(X_new) > 0, gp.predict(X_new) == "wet")
    p = gp.predict_proba(X_new)
    assert_allclose(gp.decision_function(X_new), np.log(p[:, 1] / p[:, 0]), rtol=1e-9, atol=1e-9)
    assert_array_equal(gp.predict(X_new), np.where(proba[:, 1] > 0.5, "wet", "dry"))
    assert_allclose(gp.predict_interval(X_new), twin.predict_interval(X_new, kind="mean"), rtol=1e-12)
    assert_allclose(gp.log_predictive_density(X_new, np.full(30, "dry")), np.log(proba[:, 0]), rtol=1e-12)


def test_swapping_the_labels_swaps_the_probabilities(two):
    X, y = two
    a = given(knots=X[:9]).fit(X, y)
    b = given(knots=X[:9]).fit(X, np.where(y == "wet", "a", "b"))
    assert_allclose(b.predict_proba(X)[:, ::-1], a.predict_proba(X), rtol=1e-9)
    assert_allclose(b.log_evidence_, a.log_evidence_, rtol=1e-10)


@pytest.mark.parametrize("link", ["logit", "probit"])
@pytest.mark.parametrize("level", [5.0, 20.0, 50.0, 900.0])
def test_a_nearly_certain_label_leaves_the_other_its_own_digits(two, level, link):
    """The mirrored problem has the same numbers on the side where nothing is lost: 1 - p is 0 from f = 37 on."""
    X, y = two
    far = X + 100.0  # where the prior is all there is: f ~ N(level, 4)
    options = {"knots": X[:9], "link": link}
    gp = given(mean=level, **options).fit(X, y)
    mirrored = given(mean=-level, **options).fit(X, np.where(y == "wet", "a", "b"))
    assert_allclose(gp.predict_proba(far), mirrored.predict_proba(far)[:, ::-1], rtol=1e-12)
    for label, swapped in (("dry", "b"), ("wet", "a")):
        density = gp.log_predictive_density(far, np.full(len(X), label))
        assert np.isfinite(density).all()
        assert_allclose(density, mirrored.log_predictive_density(far, np.full(len(X), swapped)), rtol=1e-12)
    if link == "probit":
        assert_allclose(gp.log_predictive_density(far, np.full(len(X), "dry")), log_ndtr(-level / 5**0.5), rtol=1e-12)
    elif level > 30:  # log of the mean of e^-f
        assert_allclose(gp.log_predictive_density(far, np.full(len(X), "dry")), -level + 4.0 / 2, rtol=1e-12)


@pytest.mark.parametrize("labels", [[0, 1], [False, True], [-1, 1], [10.0, 20.0], ["b", "a"]])
def test_labels_of_any_kind_come_back(two, labels):
    X, y = two
    named = np.array(labels)[(y == "wet").astype(int)]
    gp = given(knots=X[:9]).fit(X, named)
    assert_array_equal(gp.classes_, np.unique(labels))
    assert gp.predict(X).dtype == named.dtype
    assert np.mean(gp.predict(X) == named) > 0.7


def test_the_probit_is_less_certain_per_unit_of_f(two):
    """Phi is steeper than the logistic function: at the same kernel their answers differ, but not in kind."""
    X, y = two
    logit, probit = (given(knots=X[:9], link=link).fit(X, y) for link in ("logit", "probit"))
    assert np.mean(logit.predict(X) == probit.predict(X)) > 0.95
    assert not np.allclose(logit.predict_proba(X), probit.predict_proba(X), atol=1e-3)


# -- knots ----------------------------------------------------------------------------------------------------


def test_a_number_of_knots_starts_within_each_class(two, monkeypatch):
    X, y = two
    asked = []
    original = initial.INITIALISERS["kmeans-per-class"]

    def recorded(X, y, n_knots, rng):
        asked.append((np.unique(y).tolist(), n_knots))
        return original(X, y, n_knots, rng)

    monkeypatch.setitem(initial.INITIALISERS, "kmeans-per-class", recorded)
    gp = given(knots=8).fit(X, y)
    assert asked == [([0.0, 1.0], 8)]
    assert gp.n_knots_ == 8
    assert_array_equal(given(knots=8).fit(X, y).knots_, gp.knots_)  # the same seed, the same knots


def test_one_knot_is_enough_to_fit(two):
    X, y = two
    assert given(knots=1).fit(X, y).n_knots_ == 1


# -- several classes ------------------------------------------------------------------------------------------


def test_several_classes_are_one_model_each_against_the_rest(three):
    X, y = three
    Z = X[:10]
    gp = given(knots=Z).fit(X, y)
    each = [given(knots=Z).fit(X, np.where(y == label, 1, 0)) for label in "xyz"]
    raw = np.column_stack([model.predict_proba(X)[:, 1] for model in each])
    proba = gp.predict_proba(X)
    assert_array_equal(gp.classes_, ["x", "y", "z"])
    assert_allclose(proba, raw / raw.sum(1, keepdims=True), rtol=1e-10)
    assert_allclose(proba.sum(1), 1.0, rtol=1e-12)
    assert_allclose(gp.log_evidence_, sum(model.log_evidence_ for model in each), rtol=1e-12)
    assert gp.decision_function(X).shape == (120, 3)
    assert len(gp.models_) == len(gp.knots_) == len(gp.kernel_) == len(gp.parameters_) == 3
    assert np.mean(gp.predict(X) == y) > 0.85
    assert_array_equal(gp.predict(X), gp.classes_[proba.argmax(1)])
    assert_allclose(gp.log_predictive_density(X, y), np.log(proba[np.arange(120), np.searchsorted(["x", "y", "z"], y)]))
    with pytest.raises(InvalidInputError, match="models_"):
        gp.predict_interval(X)


def test_three_classes_with_a_number_of_knots_fit(three):
    X, y = three
    gp = GPClassifier(SquaredExponential(), knots=6, random_state=0).fit(X, y)
    assert gp.score(X, y) > 0.9
    assert "class 'z'" in str(gp.summary())


# -- errors ---------------------------------------------------------------------------------------------------


def test_one_class_only_is_an_error_that_names_it(two):
    X, _ = two
    with pytest.raises(ValueError, match="one class only, 'a'"):
        GPClassifier().fit(X, np.full(len(X), "a"))


@pytest.mark.parametrize(
    "method", ["predict", "predict_proba", "decision_function", "predict_latent", "predict_interval"]
)
def test_before_a_fit_every_prediction_says_so(two, method):
    with pytest.raises(NotFittedError):
        getattr(GPClassifier(), method)(two[0])


@pytest.mark.parametrize("unknown", ["damp", "zzz", "aaa"])
def test_an_unknown_label_is_an_error_with_row_and_value(two, unknown):
    X, y = two
    gp = given(knots=X[:9]).fit(X, y)
    labels = y[:5].astype(object)
    labels[3] = unknown
    with pytest.raises(InvalidInputError, match=rf"is '{unknown}' in row 3"):
        gp.log_predictive_density(X[:5], labels.astype(str))


def test_the_wrong_number_of_labels_is_an_error(two):
    X, y = two
    gp = given(knots=X[:9]).fit(X, y)
    with pytest.raises(InvalidInputError, match="5 labels"):
        gp.log_predictive_density(X[:5], y[:4])


@pytest.mark.parametrize("bad", [{"link": "loggit"}, {"approximation": "fik"}, {"knots": "few"}, {"knots": 0}])
def test_a_bad_option_is_an_error_that_names_it(two, bad):
    X, y = two
    with pytest.raises(InvalidInputError, match=next(iter(bad))):
        GPClassifier(**bad).fit(X, y)


def test_a_label_has_no_observation_interval(two):
    X, y = two
    with pytest.raises(InvalidInputError, match="label"):
        given(knots=X[:9]).fit(X, y).predict_interval(X, kind="observation")


def test_continuous_targets_are_refused(two):
    X, _ = two
    with pytest.raises(ValueError, match=r"[Uu]nknown label type"):
        GPClassifier().fit(X, X[:, 0])


def test_missing_inputs_are_named_by_row(two):
    X, y = two
    X = X.copy()
    X[7, 1] = np.nan
    with pytest.raises(InvalidInputError, match="NaN in row 7"):
        GPClassifier().fit(X, y)


# -- separable classes: case 13 -------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("approximation", ["fic", "vfe", "full"])
@pytest.mark.parametrize("scale", [1.0, 1e6])
@pytest.mark.parametrize("link", ["logit", "probit"])
def test_separable_classes_leave_probabilities_inside_0_and_1(approximation, scale, link):
    X = scale * np.linspace(-1, 1, 80)[:, None]
    y = np.where(X[:, 0] > 0, "right", "left")
    gp = GPClassifier(SquaredExponential(), link, approximation, knots=8, random_state=0).fit(X, y)
    X_new = scale * np.linspace(-3, 3, 101)[:, None]
    proba = gp.predict_proba(X_new)
    assert ((proba > 0) & (proba < 1)).all()
    latent = gp.predict_latent(X_new)
    assert np.isfinite(latent.mean).all() and np.abs(latent.mean).max() < 1e4
    assert np.isfinite(latent.variance).all() and (latent.variance > 0).all()
    assert np.isfinite(gp.log_evidence_)
    assert_array_equal(gp.predict(X), y)
    assert np.isfinite(gp.log_predictive_density(X, y[::-1])).all()


# -- scikit-learn's contract ----------------------------------------------------------------------------------


def test_clone_and_pickle_keep_everything(two):
    X, y = two
    gp = given(knots=X[:9], kernel=Matern32(2.0, [1.0, 0.7], column_scales="standard"), link="probit")
    assert clone(gp).get_params()["link"] == "probit"
    gp.fit(X, y)
    again = pickle.loads(pickle.dumps(gp))
    assert_array_equal(again.predict_proba(X), gp.predict_proba(X))
    assert_array_equal(clone(gp).fit(X, y).predict_proba(X), gp.predict_proba(X))
    assert not hasattr(clone(gp), "models_")


def test_a_grid_search_over_options_and_kernel_parameters_runs(two):
    X, y = two
    grid = {"gpclassifier__kernel__variance": [0.01, 4.0], "gpclassifier__link": ["logit", "probit"]}
    pipeline = make_pipeline(StandardScaler(), given(knots=6))
    search = GridSearchCV(pipeline, grid, cv=3, scoring="neg_log_loss", error_score="raise").fit(X, y)
    assert search.best_params_["gpclassifier__kernel__variance"] == 4.0


def test_a_data_frame_is_its_array_and_keeps_its_names(two):
    pd = pytest.importorskip("pandas")
    X, y = two
    frame = pd.DataFrame(X, columns=["east", "north"], index=np.arange(120)[::-1])
    gp = given(knots=X[:9]).fit(frame, pd.Series(y))
    assert_array_equal(gp.feature_names_in_, ["east", "north"])
    # pandas stores columns, so sums run in another order
    assert_allclose(gp.predict_proba(frame), given(knots=X[:9]).fit(X, y).predict_proba(X), rtol=1e-10)
    with pytest.raises(ValueError, match="names"):
        gp.predict(frame[["north", "east"]])
    on_name = given(knots=X[:9], kernel=SquaredExponential(4.0, 0.8, column_scales="standard").on("east")).fit(frame, y)
    moved = frame.assign(north=frame["north"] + 5)
    assert_allclose(on_name.predict_proba(moved), on_name.predict_proba(frame), rtol=1e-12)


def test_threads_do_not_change_a_bit(two):
    X, y = two
    one, many = (given(knots=X[:9], n_jobs=n, block_size=30).fit(X, y).predict_proba(X) for n in (1, 3))
    assert_array_equal(one, many)


def test_a_rare_class_is_said_once(rng):
    X = rng.normal(size=(60, 1))
    y = np.zeros(60)
    y[3] = 1
    with pytest.warns(FitWarning, match="little information") as caught:
        gp = GPClassifier(SquaredExponential(), knots=5, random_state=0).fit(X, y)
    assert len(caught) == 1
    assert ((gp.predict_proba(X) > 0) & (gp.predict_proba(X) < 1)).all()


# -- banana ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"approximation": "full"}, {"knots": 30}], ids=["full", "30 knots"])
def test_the_banana_is_told_apart_as_well_as_in_the_paper(options):
    banana = load_banana()
    order = np.random.default_rng(0).permutation(len(banana.y))
    train, test = order[:531], order[531:]
    gp = GPClassifier(random_state=0, **options).fit(banana.X[train], banana.y[train])
    assert len(test) == 4769
    assert np.mean(gp.predict(banana.X[test]) != banana.y[test]) < 0.11
    assert gp.log_predictive_density(banana.X[test], banana.y[test]).mean() > -0.27
