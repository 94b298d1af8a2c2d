"""Case 44: an exposure or trials that the fit had are forgotten. No call takes a rate for a count."""

import inspect
import json
import pickle
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import BaggingRegressor
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.inspection import partial_dependence, permutation_importance
from sklearn.linear_model import RANSACRegressor
from sklearn.metrics import PredictionErrorDisplay, get_scorer, make_scorer, mean_poisson_deviance, r2_score
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import knotwise
from knotwise import GPRegressor, plotting, response_scorer
from knotwise.cli import main as cli
from knotwise.errors import FitWarning, InvalidInputError
from knotwise.kernels import SquaredExponential
from knotwise.plotting.view import view_of
from knotwise.report.data import data_of

pytestmark = pytest.mark.failure(44)

GOLDEN = Path(__file__).parent / "golden"
RNG = np.random.default_rng(44)
N = 36
X = RNG.uniform(-2, 2, size=(N, 2))
F = 1 + np.sin(2 * X[:, 0])
EXPOSURE = RNG.uniform(0.5, 20.0, N)
TRIALS = RNG.integers(1, 40, N).astype(float)
KERNEL = SquaredExponential(1.0, 0.7, column_scales="standard")
#: likelihood -> name of the size, its values, and targets
KINDS = {
    "poisson": ("exposure", EXPOSURE, RNG.poisson(EXPOSURE * np.exp(F)).astype(float)),
    "negative_binomial": ("exposure", EXPOSURE, RNG.poisson(EXPOSURE * np.exp(F)).astype(float)),
    "binomial": ("trials", TRIALS, RNG.binomial(TRIALS.astype(int), 1 / (1 + np.exp(-F))).astype(float)),
}


def unfitted(likelihood="poisson", **options):
    """A model that keeps its parameters, so that it is quick."""
    settings = {"knots": 9, "mean": 1.0, "optimizer": None, "random_state": 0} | options
    return GPRegressor(KERNEL, likelihood, **settings)


def one_unit(y):
    """Targets that can be of one trial."""
    return (y > np.median(y)).astype(float)


@cache
def fitted(likelihood, *, with_size=True, as_number=False, **options):
    name, size, y = KINDS[likelihood]
    sizes = {name: 40.0 if as_number else size} if with_size else {}
    y = y if with_size else one_unit(y)
    return unfitted(likelihood, **options).fit(X, y, **sizes)


def through_a_file(gp, folder):
    gp.save(folder / "m.knotwise")
    return knotwise.load(folder / "m.knotwise")


#: how a model that was fitted with a size comes to be asked
ORIGINS = {
    "array": lambda likelihood, folder: fitted(likelihood),
    "number": lambda likelihood, folder: fitted(likelihood, as_number=True),
    "exact": lambda likelihood, folder: fitted(likelihood, approximation="full"),
    "file": lambda likelihood, folder: through_a_file(fitted(likelihood), folder),
    "file of the exact GP": lambda likelihood, folder: through_a_file(fitted(likelihood, approximation="full"), folder),
    "file of a file": lambda likelihood, folder: through_a_file(through_a_file(fitted(likelihood), folder), folder),
    "pickle": lambda likelihood, folder: pickle.loads(pickle.dumps(fitted(likelihood))),
}


def total_of(gp, **options):
    """Ends of the interval of a total, whatever the few knots leave out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        totals = gp.predict_total(X, n_samples=100, random_state=0, **options)
    return np.concatenate([totals.lower, totals.upper])


def rows_of_report(gp, y, **size):
    """The rows that `gp.report` would show, in which its sizes are checked; the page itself takes longer."""
    given = {"exposure": None, "trials": None, "noise_variance": None} | size
    data = data_of(view_of(gp), X, y, **given)
    return np.column_stack([data.X, data.y])


#: calls about observations: what they are, given further arguments
NEEDS_SIZE = {
    "predict": lambda gp, y, **size: gp.predict(X, **size),
    "predict of a pipeline": lambda gp, y, **size: make_pipeline(StandardScaler().fit(X), gp).predict(X, **size),
    "score": lambda gp, y, **size: gp.score(X, y, **size),
    "log_predictive_density": lambda gp, y, **size: gp.log_predictive_density(X, y, **size),
    "predictive": lambda gp, y, **size: gp.predictive(X, **size).mean,
    "predict_interval": lambda gp, y, **size: gp.predict_interval(X, **size),
    "predict_interval of observations": lambda gp, y, **size: gp.predict_interval(X, kind="observation", **size),
    "predict with std": lambda gp, y, **size: gp.predict(X, return_std=True, **size),
    "predict_total": lambda gp, y, **size: total_of(gp, **size),
    "predict_total of observations": lambda gp, y, **size: total_of(gp, kind="observation", statistic="mean", **size),
    "sample_observations": lambda gp, y, **size: gp.sample_observations(X, random_state=0, **size),
    "plot_calibration": lambda gp, y, **size: plotting.plot_calibration(gp, X, y, **size),
    "plot_pit": lambda gp, y, **size: plotting.plot_pit(gp, X, y, **size),
    "plot_observed": lambda gp, y, **size: plotting.plot_observed(gp, X, y, **size),
    "plot_fit": lambda gp, y, **size: plotting.plot_fit(gp, X, **size),
    "plot_fit with counts": lambda gp, y, **size: plotting.plot_fit(gp, X, y, kind="mean", **size),
    "report": rows_of_report,
    "response_scorer": lambda gp, y, **size: response_scorer(r2_score)(gp, X, y, **size),
}
#: calls about rates, probabilities and the latent function
NEEDS_NONE = {
    "predict_median": lambda gp, y: gp.predict_median(X),
    "predict_interval of the mean": lambda gp, y: gp.predict_interval(X, kind="mean"),
    "predict_interval of f": lambda gp, y: gp.predict_interval(X, kind="latent"),
    "predict_exceedance": lambda gp, y: gp.predict_exceedance(X, 0.5),
    "predict_latent": lambda gp, y: gp.predict_latent(X),
    "sample_latent": lambda gp, y: gp.sample_latent(X, random_state=0),
    "predict_total of rates": lambda gp, y: total_of(gp, statistic="mean"),
    "plot_fit of the mean": lambda gp, y: plotting.plot_fit(gp, X, kind="mean"),
    "plot_fit of f": lambda gp, y: plotting.plot_fit(gp, X, y, kind="latent"),
    "plot_map": lambda gp, y: plotting.plot_map(gp, X, y, resolution=5),
    "plot_map of the mean": lambda gp, y: plotting.plot_map(gp, X, what="mean", resolution=5),
    "plot_effects": lambda gp, y: plotting.plot_effects(gp, X, features=[0]),
    "summary": lambda gp, y: gp.summary(),
    "diagnose": lambda gp, y: gp.diagnose(),
}


@pytest.fixture(scope="module", params=[(kind, origin) for kind in KINDS for origin in ORIGINS], ids="-".join)
def case(request, tmp_path_factory):
    """A model that had a size, the name of the size, its values and the targets."""
    likelihood, origin = request.param
    return ORIGINS[origin](likelihood, tmp_path_factory.mktemp("models")), *KINDS[likelihood]


@pytest.fixture(autouse=True)
def pictures(monkeypatch):
    """No window, curves of few points, and every figure closed afterwards."""
    monkeypatch.setattr("knotwise.plotting.fit.N_POINTS", 12)
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    yield pyplot
    pyplot.close("all")


@pytest.mark.parametrize("call", NEEDS_SIZE)
def test_a_call_that_needs_the_size_is_refused_without_it_and_says_what_to_write(call, case, pictures):
    gp, name, _, y = case
    with pytest.raises(InvalidInputError, match=rf"fitted with `{name}`.*{name}=\.\.\.\)`"):
        NEEDS_SIZE[call](gp, y)
    assert not pictures.get_fignums(), "a refused picture must not leave an empty one"


@pytest.mark.parametrize("call", NEEDS_SIZE)
@pytest.mark.parametrize("likelihood", KINDS)
def test_a_call_that_needs_the_size_answers_with_it(likelihood, call):
    name, size, y = KINDS[likelihood]
    assert NEEDS_SIZE[call](fitted(likelihood), y, **{name: size}) is not None


@pytest.mark.parametrize("call", NEEDS_NONE)
@pytest.mark.parametrize("likelihood", KINDS)
def test_a_call_that_needs_no_size_answers(likelihood, call):
    assert NEEDS_NONE[call](fitted(likelihood), KINDS[likelihood][2]) is not None


@pytest.mark.parametrize("call", NEEDS_SIZE)
@pytest.mark.parametrize("likelihood", KINDS)
def test_a_model_without_sizes_is_asked_as_before(likelihood, call):
    name, _, y = KINDS[likelihood]
    y = one_unit(y)
    gp = fitted(likelihood, with_size=False)
    answer = NEEDS_SIZE[call](gp, y)
    if not call.startswith("plot"):  # a size of 1 is what it always was
        assert_array_equal(answer, NEEDS_SIZE[call](gp, y, **{name: 1}))


@pytest.mark.parametrize("likelihood", KINDS)
def test_a_size_of_one_gives_rates_and_probabilities(likelihood):
    name, size, _ = KINDS[likelihood]
    gp = fitted(likelihood)
    rate = gp.predict(X, **{name: 1})
    assert_allclose(rate, gp.predict(X, **{name: size}) / size, rtol=1e-12)
    if name == "exposure":
        assert_array_equal(rate, gp.predict(X, offset=0))


def test_every_public_call_that_takes_an_exposure_is_tried():
    def taking(owner, names):
        return {name for name in names if "exposure" in inspect.signature(getattr(owner, name)).parameters}

    functions = inspect.getmembers(GPRegressor, inspect.isfunction)
    methods = [name for name, _ in functions if not name.startswith("_") and not name.endswith("_request")]
    tried = {call.split(" ")[0] for call in NEEDS_SIZE | NEEDS_NONE}
    assert taking(GPRegressor, methods) - {"fit"} <= tried
    assert taking(plotting, plotting.__all__) <= tried


def test_the_other_size_is_refused_as_such():
    with pytest.raises(InvalidInputError, match="It takes `exposure`"):
        fitted("poisson").score(X, KINDS["poisson"][2], trials=TRIALS)


# -- scikit-learn ---------------------------------------------------------------------------------

GP, EXPOSED = fitted("poisson"), {"exposure": EXPOSURE}
Y = KINDS["poisson"][2]
DEVIANCE = "neg_mean_poisson_deviance"
#: code of scikit-learn that predicts or scores without the exposure of the fit
COMPARISONS = {
    "scorer": lambda gp: get_scorer(DEVIANCE)(gp, X, Y),
    "partial dependence": lambda gp: partial_dependence(gp, X, [0], method="brute"),
    "made scorer": lambda gp: make_scorer(r2_score)(gp, X, Y),
    "scorer of a pipeline": lambda gp: get_scorer(DEVIANCE)(make_pipeline(StandardScaler().fit(X), gp), X, Y),
    "score of a pipeline": lambda gp: make_pipeline(StandardScaler().fit(X), gp).score(X, Y),
    "importance": lambda gp: permutation_importance(gp, X, Y, n_repeats=1),
    "importance by a scorer": lambda gp: permutation_importance(gp, X, Y, n_repeats=1, scoring="r2"),
    "picture of errors": lambda gp: PredictionErrorDisplay.from_estimator(gp, X, Y),
    "our scorer of a pipeline": lambda gp: response_scorer(r2_score)(make_pipeline(StandardScaler().fit(X), gp), X, Y),
    "ensemble": lambda gp: TransformedTargetRegressor(clone(gp)).fit(X, Y, **EXPOSED).score(X, Y),
}


@pytest.fixture(params=[False, True], ids=["routing off", "routing on"])
def routing(request):
    with sklearn.config_context(enable_metadata_routing=request.param):
        yield request.param


def requesting():
    """A model that asks for the exposure wherever scikit-learn can route it, where it does."""
    gp = unfitted()
    if sklearn.get_config()["enable_metadata_routing"]:
        gp.set_fit_request(exposure=True).set_score_request(exposure=True).set_predict_request(exposure=True)
    return gp


def folds_by_hand(score):
    """What `score(fitted model, rows)` is in three folds."""
    parts = []
    for train, test in KFold(3).split(X):
        gp = unfitted().fit(X[train], Y[train], exposure=EXPOSURE[train])
        parts.append(score(gp, test))
    return parts


R2 = folds_by_hand(lambda gp, test: r2_score(Y[test], gp.predict(X[test], exposure=EXPOSURE[test])))
DEVIANCES = folds_by_hand(
    lambda gp, test: -mean_poisson_deviance(Y[test], gp.predict(X[test], exposure=EXPOSURE[test]))
)


@pytest.mark.parametrize("comparison", COMPARISONS)
def test_scikit_learn_does_not_take_rates_for_counts(comparison, routing):
    with pytest.raises(InvalidInputError, match="fitted with `exposure`"):
        COMPARISONS[comparison](requesting().fit(X, Y, exposure=EXPOSURE))


@pytest.mark.parametrize("wrapped", [False, True], ids=["alone", "in a pipeline"])
@pytest.mark.parametrize("scoring", [None, "r2", DEVIANCE, response_scorer(mean_poisson_deviance)], ids=str)
def test_cross_validation_is_right_or_an_error_but_never_a_wrong_number(scoring, wrapped, routing):
    gp = make_pipeline(StandardScaler(), requesting()) if wrapped else requesting()
    key = "gpregressor__exposure" if wrapped and not routing else "exposure"
    options = {"params": {key: EXPOSURE}, "cv": KFold(3), "scoring": scoring}
    if routing and not isinstance(scoring, str):
        expected = DEVIANCES if scoring else R2
        assert_allclose(cross_val_score(gp, X, Y, error_score="raise", **options), expected, rtol=1e-9)
        return
    with pytest.raises(InvalidInputError, match="fitted with `exposure`"):
        cross_val_score(gp, X, Y, error_score="raise", **options)
    with pytest.warns(UserWarning, match="Scoring failed"):
        assert np.isnan(cross_val_score(gp, X, Y, **options)).all()


def test_cross_val_predict_is_refused_since_it_hands_nothing_to_predict(routing):
    gp = requesting()
    for estimator in (gp, make_pipeline(StandardScaler(), gp)):
        key = "exposure" if routing or estimator is gp else "gpregressor__exposure"
        with pytest.raises(InvalidInputError, match=r"cross_val_predict.*loop over folds"):
            cross_val_predict(estimator, X, Y, params={key: EXPOSURE}, cv=3)


def test_an_exposure_that_was_not_requested_is_an_error():
    with sklearn.config_context(enable_metadata_routing=True):
        for gp in (unfitted(), unfitted().set_fit_request(exposure=True)):
            with pytest.raises(UnsetMetadataPassedError, match="exposure"):
                cross_val_score(gp, X, Y, params=EXPOSED, error_score="raise")
        gp = unfitted().set_fit_request(exposure=True).set_score_request(exposure=False)
        with pytest.raises(InvalidInputError, match="fitted with `exposure`"):
            cross_val_score(gp, X, Y, params=EXPOSED, error_score="raise")


def test_searches_and_several_scores_route_the_exposure_to_our_scorer():
    with sklearn.config_context(enable_metadata_routing=True):
        ours = response_scorer(mean_poisson_deviance)
        search = GridSearchCV(requesting(), {"knots": [1, 9]}, cv=KFold(3), scoring=ours, error_score="raise")
        search.fit(X, Y, exposure=EXPOSURE)
        assert_allclose(search.best_score_, np.mean(DEVIANCES), rtol=1e-9)
        assert search.best_params_ == {"knots": 9}
        assert_allclose(search.best_estimator_.predict(X, exposure=1), GP.predict(X, exposure=1))
        with pytest.raises(InvalidInputError, match="fitted with `exposure`"):
            search.predict(X)  # a search hands nothing on; the model that it found takes an exposure
        scoring = {"deviance": ours, "r2": response_scorer(r2_score, greater_is_better=True)}
        both = cross_validate(requesting(), X, Y, params=EXPOSED, scoring=scoring, cv=KFold(3), error_score="raise")
        assert_allclose(both["test_deviance"], DEVIANCES, rtol=1e-9)
        assert_allclose(both["test_r2"], R2, rtol=1e-9)


def test_what_scikit_learn_compares_inside_of_other_estimators_is_refused():
    with sklearn.config_context(enable_metadata_routing=True):
        bag = BaggingRegressor(requesting(), n_estimators=8, random_state=0)
        bag.fit(X, Y, exposure=EXPOSURE)
        for call in (
            lambda: bag.predict(X),
            lambda: bag.score(X, Y),
            lambda: clone(bag).set_params(oob_score=True).fit(X, Y, exposure=EXPOSURE),
            lambda: RANSACRegressor(requesting(), min_samples=20).fit(X, Y, exposure=EXPOSURE),
        ):
            with pytest.raises(InvalidInputError, match="fitted with `exposure`"):
                call()


def test_our_scorer_is_the_metric_at_the_exposure_with_weights_and_survives_pickle():
    weight = np.r_[np.ones(30), np.zeros(N - 30)]
    expected = -mean_poisson_deviance(Y[:30], GP.predict(X[:30], exposure=EXPOSURE[:30]))
    for scorer in (
        response_scorer(mean_poisson_deviance),
        pickle.loads(pickle.dumps(response_scorer(mean_poisson_deviance))),
    ):
        assert_allclose(scorer(GP, X, Y, exposure=EXPOSURE, sample_weight=weight), expected, rtol=1e-9)
        assert repr(scorer) == "response_scorer(mean_poisson_deviance)"
    half = response_scorer(mean_poisson_deviance)(GP, X[:30], Y[:30], exposure=EXPOSURE[:30])
    assert_allclose(half, expected, rtol=1e-12)
    with sklearn.config_context(enable_metadata_routing=True):
        weighted = response_scorer(r2_score, greater_is_better=True).set_score_request(sample_weight=True)
        gp = requesting().set_fit_request(sample_weight=False)
        params = EXPOSED | {"sample_weight": weight + 1}
        found = cross_val_score(gp, X, Y, scoring=weighted, params=params, cv=KFold(3), error_score="raise")
        by_hand = folds_by_hand(lambda gp, test: gp.score(X[test], Y[test], weight[test] + 1, EXPOSURE[test]))
        assert_allclose(found, by_hand, rtol=1e-9)
    with pytest.raises(TypeError, match="exposure, trials, offset, sample_weight, not area"):
        response_scorer(r2_score).set_score_request(area=True)


def test_our_scorer_is_an_ordinary_one_for_a_model_without_exposure():
    gp, scorer = unfitted("gaussian").fit(X, Y), response_scorer(r2_score, greater_is_better=True)
    assert scorer(gp, X, Y) == gp.score(X, Y) == make_scorer(r2_score)(gp, X, Y)
    assert_allclose(cross_val_score(gp, X, Y, scoring=scorer), cross_val_score(gp, X, Y), rtol=1e-12)


def test_a_scorer_of_the_user_may_ask_for_rates():
    def correlation(gp, X, y):
        return np.corrcoef(gp.predict(X, exposure=1), y)[0, 1]

    found = cross_val_score(unfitted(), X, Y, scoring=correlation, params=EXPOSED, error_score="raise")
    assert np.isfinite(found).all()


# -- the command line -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table of counts with their sizes, and models of them."""
    place = tmp_path_factory.mktemp("tables")
    names = ["a", "b", "poisson", "negative_binomial", "binomial", "exposure", "trials"]
    columns = [*X.T, *(y for _, _, y in KINDS.values()), EXPOSURE, TRIALS]
    lines = [",".join(names), *(",".join(map(repr, row)) for row in np.column_stack(columns).tolist())]
    (place / "t.csv").write_text("\n".join(lines) + "\n")
    for likelihood, (name, _, _) in KINDS.items():
        words = ["fit", str(place / "t.csv"), "--target", likelihood, "--inputs", "a,b", "--knots", "4"]
        words += ["--likelihood", likelihood, f"--{name}", name, "-o", str(place / f"{likelihood}.knotwise")]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # how the fit went is not tested here
            assert cli.main(words) == 0
    return place


def words_of(kind, likelihood):
    """Words after MODEL and DATA that need the size, or do not."""
    target = ["--target", likelihood]
    return {
        "predict": ["predict"],
        "predict observation": ["predict", "--kind", "observation"],
        "predict std": ["predict", "--std"],
        "predict json": ["predict", "--json"],
        "predict mean": ["predict", "--kind", "mean"],
        "predict latent": ["predict", "--kind", "latent", "--std"],
        "diagnose": ["diagnose", *target],
        "plot calibration": ["plot", "--kind", "calibration", *target, "-o", "p.svg"],
        "plot pit": ["plot", "--kind", "pit", *target, "-o", "p.svg"],
        "plot observed": ["plot", "--kind", "observed", *target, "-o", "p.svg"],
        "plot fit": ["plot", "--kind", "fit", "--feature", "a", *target, "-o", "p.svg"],
        "plot map": ["plot", "--kind", "map", "--target", likelihood, "-o", "p.svg"],
        "plot exceedance": ["plot", "--kind", "map", "--what", "exceedance", "--threshold", "0.5", "-o", "p.svg"],
    }[kind]


NO_SIZE_WORDS = ["predict mean", "predict latent", "plot map", "plot exceedance"]
SIZE_WORDS = [
    "predict", "predict observation", "predict std", "predict json", "diagnose",
    "plot calibration", "plot pit", "plot observed", "plot fit",
]  # fmt: skip


@pytest.mark.parametrize("likelihood", KINDS)
@pytest.mark.parametrize("kind", SIZE_WORDS + NO_SIZE_WORDS)
def test_the_command_line_refuses_counts_without_the_column_that_the_fit_had(
    kind, likelihood, folder, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    command, *words = words_of(kind, likelihood)
    words = [command, str(folder / f"{likelihood}.knotwise"), str(folder / "t.csv"), *words]
    name = KINDS[likelihood][0]
    code, shown = cli.main(words), capsys.readouterr()
    if kind in NO_SIZE_WORDS:
        assert code == 0
        return
    assert code == 2 and f"fitted with {name}" in shown.err and f"--{name}" in shown.err
    assert shown.err.count("\n") == 1 and not list(tmp_path.iterdir())
    if "--json" in words:
        assert json.loads(shown.out)["exit_code"] == 2
    else:
        assert not shown.out
    assert cli.main([*words, f"--{name}", name]) == 0
