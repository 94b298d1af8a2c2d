"""Where predictions are wanted, how far from the data a model was tested, and the warning of farther ones."""

import pickle

import matplotlib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import knotwise
from knotwise import GPClassifier, GPRegressor, cross_validate
from knotwise.decisions.thresholds import EXTRAPOLATION, VALIDATION
from knotwise.decisions.trials import Candidate, Trial
from knotwise.decisions.validation import draw_folds, farthest, spare_others
from knotwise.errors import FitWarning, InvalidInputError
from knotwise.estimators.tested import Tested as HowFar
from knotwise.estimators.tested import Warned
from knotwise.evidence import Point
from knotwise.kernels import Matern32, SquaredExponential
from knotwise.likelihoods import Gaussian
from knotwise.plotting import plot_fit
from knotwise.selection.base import Stage

matplotlib.use("agg")
RNG = np.random.default_rng(5)
X = np.sort(RNG.uniform(size=(70, 1)), axis=0)
Y = np.sin(7 * X[:, 0]) + 0.1 * RNG.normal(size=70)
FAR = np.linspace(4, 5, 20)[:, None]
OPTIONS = {"knots": 8, "random_state": 0, "n_jobs": 1}


@pytest.fixture(scope="module")
def fitted():
    return GPRegressor(**OPTIONS).fit(X, Y)


@pytest.fixture
def gp(fitted):
    return pickle.loads(pickle.dumps(fitted))


# -- folds as far as the places -----------------------------------------------------------------------


@pytest.mark.parametrize("far", [0.02, 0.05])
def test_rows_are_judged_as_far_from_the_others_as_the_places_from_the_data(far, rng):
    points = np.stack(np.meshgrid(np.arange(50) / 50, np.arange(50) / 50), -1).reshape(-1, 2)
    hole = ((points - 0.5) ** 2).sum(1) > far**2
    points, asked = points[hole], np.full((3, 2), 0.5)
    reach = np.sqrt(((points - 0.5) ** 2).sum(1)).min()
    folds = draw_folds(points, rng, asked)
    assert len(folds) == 3 and {fold.kind for fold in folds} == {"asked"}
    for fold in folds:
        others = np.delete(points, fold.removed, axis=0)
        gaps = np.sqrt(((points[fold.judged][:, None] - others) ** 2).sum(-1)).min(1)
        assert gaps.min() >= (1 - VALIDATION.middle) * reach
        assert gaps.max() <= reach + 2 / 50  # the centre's nearest row is beyond the ball, by a cell at most


def test_a_ball_with_too_many_rows_is_smaller_and_judged_in_its_middle_only(rng):
    points = rng.uniform(size=(400, 2))
    for fold in draw_folds(points, rng, np.array([[3.0, 0.5], [-2.0, 0.5]])):
        assert len(fold.removed) == int(VALIDATION.asked_share * 400) and 0 < len(fold.judged) < len(fold.removed)


def test_places_on_rows_ask_for_each_row_without_itself(rng):
    points = rng.uniform(size=(100, 2))
    for fold in draw_folds(points, rng, points[:40]):
        assert len(fold.removed) == 1 and fold.judged.tolist() == fold.removed.tolist()


@pytest.mark.parametrize("asked", [None, 3.0])
def test_rows_that_are_taken_away_at_once_leave_others(asked, rng):
    points = rng.normal(size=(24, 3))
    folds = draw_folds(points, rng, None if asked is None else asked * rng.normal(size=(200, 3)))
    kept, stays = spare_others(folds, 24, rng)
    gone = np.unique(np.concatenate([fold.removed for fold in kept]))
    assert kept and len(gone) <= VALIDATION.most_removed * 24
    assert_array_equal(np.flatnonzero(~stays), gone)


# -- the argument ---------------------------------------------------------------------------------------


def test_places_are_in_the_engines_units_and_of_very_many_some(rng):
    some = GPRegressor(Matern32(), **OPTIONS).fit(X, Y, predict_at=FAR)
    assert_allclose(some._fit.problem.asked, some._fit.scaling.inputs(FAR), rtol=1e-12)
    many = GPRegressor(Matern32(), **OPTIONS).fit(X, Y, predict_at=rng.uniform(size=(5000, 1)))
    assert len(many._fit.problem.asked) == VALIDATION.most_asked


def test_places_and_columns_in_other_units_give_the_same_choice():
    both = np.column_stack([X, RNG.normal(size=70)])
    places, units = both[:30] + np.array([0.2, 0.0]), np.array([8.0, 0.25])  # powers of two: no bit is rounded
    one = GPRegressor(**OPTIONS).fit(both, Y, predict_at=places)
    other = GPRegressor(**OPTIONS).fit(both * units, Y, predict_at=places * units)
    assert repr(one._fit.tested) == repr(other._fit.tested) and np.isfinite(one._fit.tested.asked)
    assert type(one.kernel_) is type(other.kernel_) and one.log_evidence_ == other.log_evidence_


def test_rows_are_judged_where_predictions_are_wanted_and_nowhere_else(gp):
    asked = GPRegressor(**OPTIONS).fit(X, Y, predict_at=X + 0.01)._fit.tested
    assert np.isfinite([asked.near, asked.asked]).all() and np.isnan([asked.gap, asked.beyond]).all()
    usual = gp._fit.tested
    assert np.isfinite([usual.near, usual.gap, usual.beyond]).all() and np.isnan(usual.asked)
    assert asked.reach < usual.reach


def test_places_in_a_frame_have_categories_and_dates_as_the_data():
    pd = pytest.importorskip("pandas")
    day = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(70), "D")
    table = pd.DataFrame({"x": X[:, 0], "city": np.where(np.arange(70) % 2, "Oslo", "Bergen"), "day": day})
    new = table.iloc[:9].assign(day=pd.Timestamp("2024-05-01"), city="Paris")  # a level that is new is no mistake
    gp = GPRegressor(Matern32(), **OPTIONS).fit(table, Y, predict_at=new)
    asked = gp._fit.problem.asked
    assert_allclose(asked, gp._fit.scaling.inputs(np.asarray(gp._encoding(new, quiet=True))))
    labels = GPClassifier(Matern32(), **OPTIONS).fit(table, Y > 0, predict_at=new)
    assert_allclose(labels.models_[0]._fit.problem.asked, asked)


@pytest.mark.parametrize("kind", [GPRegressor, GPClassifier])
@pytest.mark.parametrize(
    ("places", "said"),
    [
        ([[0.0, 1.0]], "2 features"),
        ([0.0, 1.0], "1D array"),
        (np.empty((0, 1)), "0 sample"),
        ([[0.0], [np.nan]], "NaN in row 1"),
        ([["north"]], "north"),
    ],
)
def test_places_that_are_not_like_the_data_are_refused_in_words(kind, places, said):
    model = kind(Matern32(), **OPTIONS)
    with pytest.raises(InvalidInputError, match=r"predict_at.*same columns as X") as error:
        model.fit(X, Y if kind is GPRegressor else Y > 0, predict_at=places)
    assert said in str(error.value) and not hasattr(model, "kernel_")


def test_a_frame_of_places_with_other_columns_is_refused_by_name():
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"east": X[:, 0], "north": X[:, 0] ** 2})
    with pytest.raises(InvalidInputError, match=r"predict_at[\s\S]*north"):
        GPRegressor(Matern32(), **OPTIONS).fit(table, Y, predict_at=table.rename(columns={"north": "up"}))


def test_dask_collections_take_places_in_memory_and_refuse_others():
    da = pytest.importorskip("dask.array")
    rows, y = da.from_array(X, chunks=(35, 1)), da.from_array(Y, chunks=35)
    gp = GPRegressor(**OPTIONS).fit(rows, y, predict_at=X + 0.01)
    assert np.isfinite(gp._fit.tested.asked)
    with pytest.raises(InvalidInputError, match=r"predict_at.*Dask collection"):
        GPRegressor(**OPTIONS).fit(rows, y, predict_at=rows)


# -- what is told ---------------------------------------------------------------------------------------


def test_the_summary_tells_what_validation_rows_said_as_the_trace_does(gp):
    found = gp._fit.tested.in_words(1.0)
    assert f"\n{found} (y in standard deviations)\n" in gp.summary()
    assert "near the others" in found and "in gaps" in found and "length-scales from the data" in found
    (note,) = [step.note for step in gp.trace_ if "is taken, of" in step.note]
    assert note.endswith(found)


def test_nothing_is_told_of_a_kernel_that_was_given():
    gp = GPRegressor(SquaredExponential(), **OPTIONS).fit(X, Y)
    assert gp._fit.tested is None and "validation" not in gp.summary().partition("parameters,")[0]
    assert np.isfinite(gp.predict(FAR)).all()


@pytest.mark.parametrize("options", [{"approximation": "full"}, {"knots": np.array([[0.3]])}])
def test_the_share_that_is_left_is_noise_over_the_total_at_the_only_row(options):
    gp = GPRegressor(Matern32(2.0, 0.5), Gaussian(0.5), mean="zero", optimizer=None, standardize=False, **options)
    gp.fit([[0.3]], [1.0])
    at = np.array([[0.3], [99.0]])
    left = gp._fit.posterior.share_left(at, gp._fit.posterior.latent(at).variance)
    assert_allclose(left, [0.5 / 2.5, 1.0], rtol=1e-7)


def test_the_share_of_a_fit_is_the_largest_at_the_rows_that_were_judged(rng):
    gp = GPRegressor(Matern32(1.0, 0.3), Gaussian(0.1), mean="zero", optimizer=None, standardize=False, **OPTIONS)
    problem = gp.fit(X, Y)._fit.problem
    trial = Trial.draw(problem, 100, rng, problem.new_trace())
    stage = Stage(Point(problem.table.theta, np.empty((0, 1)), None), gp._fit.selection.result)
    K, noise = gp.kernel_(X, X) / gp._fit.scaling.y_scale**2, 0.1 / gp._fit.scaling.y_scale**2
    rows = trial.fitted.X[:, 0].argsort()  # as X is
    left = []
    for removed, judged in [([i], [i]) for i in range(70)] + [(f.removed, f.judged) for f in trial.folds]:
        stay = np.delete(np.arange(70), np.argsort(rows)[removed])
        at = np.argsort(rows)[judged]
        solved = np.linalg.solve(K[np.ix_(stay, stay)] + noise * np.eye(len(stay)), K[np.ix_(stay, at)])
        left.append(1 - (K[np.ix_(stay, at)] * solved).sum(0) / K[0, 0])
    tried = trial.judged(Candidate(problem, stage))
    assert_allclose(tried.share, np.concatenate(left).max(), rtol=1e-8)
    assert trial.reach(tried) == farthest(problem.model.kernel.coordinates(trial.fitted.X), trial.folds)


# -- predictions farther away ---------------------------------------------------------------------------


def test_a_prediction_farther_than_all_that_was_tested_is_told_once(gp):
    with pytest.warns(FitWarning, match=r"20 of 25 places lie farther .* write `fit\(..., predict_at=places\)`"):
        mean = gp.predict(np.vstack([X[:5], FAR]))
    assert_array_equal(mean[5:], gp.predict(FAR))  # and not again: warnings are errors here
    gp.predict_interval(FAR)
    assert pickle.loads(pickle.dumps(gp)).predict(FAR).shape == (20,)


@pytest.mark.parametrize("ask", ["predict_latent", "predict_median", "predict_interval", "predictive"])
def test_every_question_about_such_places_is_answered_with_the_warning(ask, gp):
    with pytest.warns(FitWarning, match="farther from the data"):
        getattr(gp, ask)(FAR)


def test_rows_of_the_data_between_them_and_at_their_edges_are_quiet(gp):
    gp.predict(X)
    gp.predict(np.linspace(-0.1, 1.1, 300)[:, None])
    gp.predict(np.vstack([np.tile(X, (20, 1)), FAR[:1]]))  # one in a thousand may be anywhere


def test_a_fit_through_few_knots_is_no_farther_from_its_own_rows_than_it_was_tested():
    kernel, knots = Matern32(1.0, 0.1), np.array([[0.1]])
    gp = GPRegressor(kernel, Gaussian(0.01), knots=knots, mean="zero", optimizer=None, standardize=False).fit(X, Y)
    posterior = gp._fit.posterior
    left = gp.predict_latent(X).variance / kernel(X[:1], X[:1])[0, 0]
    assert left.max() > 0.9
    assert_allclose(HowFar(share=0.1).and_at(posterior, gp._engine_inputs(X)).share, left.max(), rtol=1e-10)
    assert HowFar(share=1.2).and_at(posterior, gp._engine_inputs(X)).share == 1.2


def test_pictures_scores_and_averages_of_the_library_are_quiet(gp):
    plot_fit(gp, np.vstack([X, FAR]))
    gp.effects(np.vstack([X, FAR]))
    far = np.vstack([X, FAR + 20])
    cross_validate(GPRegressor(**OPTIONS), far, np.r_[Y, Y[:20]], blocks=np.r_[np.zeros(35), np.ones(35), [2] * 20])
    assert not gp._warned.yet


def test_a_model_from_a_file_knows_how_far_it_was_tested(gp, tmp_path):
    gp.save(tmp_path / "m.knotwise")
    loaded = knotwise.load(tmp_path / "m.knotwise")
    assert repr(loaded._fit.tested) == repr(gp._fit.tested)  # NaN is equal to nothing
    assert loaded.summary().partition("parameters,")[0] == gp.summary().partition("parameters,")[0]
    with pytest.warns(FitWarning, match="farther from the data"):
        loaded.predict(FAR)


def test_the_models_of_a_classifier_tell_it_once_together():
    labels = np.digitize(Y, [-0.4, 0.5])
    gp = GPClassifier(SquaredExponential(), **OPTIONS).fit(X, labels)
    for model in gp.models_:
        object.__setattr__(model._fit, "tested", HowFar(near=-0.3, share=0.2))
    with pytest.warns(FitWarning, match="farther from the data") as heard:
        gp.predict_proba(FAR)
    assert len(heard) == 1


def test_partitions_of_dask_are_predicted_without_a_word(gp):
    da = pytest.importorskip("dask.array")
    assert gp.predict(da.from_array(FAR, chunks=(10, 1))).compute().shape == (20,)


@pytest.mark.parametrize("share", [np.nan, 1.0, 1.4, EXTRAPOLATION.nearly_all])
def test_where_next_to_nothing_was_known_nothing_is_farther(share):
    assert HowFar(near=0.0, share=share).limit == np.inf
    HowFar(near=0.0, share=share).warn_of(np.full(10, 50.0), Warned())


@pytest.mark.parametrize(("share", "limit"), [(0.0, 0.5), (0.2, 0.6), (0.8, 0.9)])
def test_a_place_is_farther_where_less_than_half_of_what_was_known_is_known(share, limit):
    assert_allclose(HowFar(share=share).limit, limit)
    HowFar(share=share).warn_of(np.array([limit - 0.01]), Warned())
    with pytest.warns(FitWarning, match="1 of 1 place lies farther"):
        HowFar(share=share).warn_of(np.array([limit + 0.01]), Warned())


def test_who_has_said_where_is_not_told_to_say_it():
    with pytest.warns(FitWarning, match="`predict_at` could not have them judged"):
        HowFar(asked=-1.0, share=0.1).warn_of(np.ones(3), Warned())
