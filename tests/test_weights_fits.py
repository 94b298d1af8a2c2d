"""`sample_weight` of the estimators: a fit with weights is the fit with copied rows, to the bit.

Where a dispersion is learned weights are relative; `test_weights_relative.py` has what that means.
"""

import warnings
from collections import Counter

import numpy as np
import pytest
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import KFold, cross_validate

import knotwise
from knotwise import GPClassifier, GPRegressor
from knotwise.data.observations import Observations
from knotwise.errors import FitWarning, InvalidInputError
from knotwise.estimators.assemble import assemble
from knotwise.kernels import SquaredExponential
from knotwise.knots import EvidenceGain, Fixed, GreedyVariance, OneAtATime, Simultaneous
from knotwise.likelihoods import Gaussian, Poisson
from knotwise.numerics.blocks import Serial
from knotwise.optimize import LBFGS

SELECTIONS = {
    "auto": {"kernel": None},  # chosen, too
    "auto-fic": {"approximation": "fic"},
    "number": {"knots": 6},
    "random": {"knots": Simultaneous(6, initial="random"), "n_restarts": 1},
    "grid-common": {"knots": Fixed("grid", 9), "standardize": "common"},
    "greedy": {"knots": GreedyVariance(8, weighted=True)},
    "one-at-a-time": {"knots": OneAtATime(n_initial=3, max_knots=6)},
    "evidence-gain": {"knots": OneAtATime(n_initial=3, max_knots=6, proposal=EvidenceGain())},
    "linear-mean": {"knots": 5, "mean": "linear", "standardize": False},
    "exact": {"approximation": "full"},
}


@pytest.fixture
def data(rng):
    """200 rows, more than the subset that finds the start, with whole weights of which some are 0."""
    X = rng.uniform(-2, 2, size=(200, 2))
    y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.3 * rng.normal(size=200)
    return X, y, rng.integers(0, 4, 200)


def fit(X, y, weights=None, **options):
    settings = {key: options.pop(key) for key in ("exposure", "trials", "noise_variance") if key in options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # of optimisers that were told to stop early
        return GPRegressor(**{"kernel": SquaredExponential(), "random_state": 0, **options}).fit(
            X, y, sample_weight=weights, **settings
        )


def assert_same_fit(one, other, X, **sizes):
    assert_array_equal(one.knots_, other.knots_)
    assert_array_equal(one.parameters_.values, other.parameters_.values)
    assert_array_equal(one.parameters_.lower, other.parameters_.lower)
    assert one.log_evidence_ == other.log_evidence_ and one.stop_reason_ == other.stop_reason_
    assert_array_equal(one.predict(X, return_std=True, **sizes), other.predict(X, return_std=True, **sizes))


# -- the same fit ---------------------------------------------------------------------------------


@pytest.mark.parametrize("options", SELECTIONS.values(), ids=SELECTIONS)
def test_a_fit_with_whole_weights_is_the_fit_with_repeated_rows(options, data, rng):
    X, y, weights = data
    order = rng.permutation(len(X))
    repeated = rng.permutation(np.repeat(np.arange(len(X)), weights))
    one = fit(X[order], y[order], weights[order], **options)
    assert_same_fit(one, fit(X[repeated], y[repeated], **options), X)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("likelihood", "size"), [("poisson", "exposure"), ("binomial", "trials"), ("student_t", None), ("gamma", None)]
)
def test_the_same_for_other_data(likelihood, size, data, rng):
    X, y, weights = data
    sizes = {} if size is None else {size: rng.integers(1, 9, len(X)).astype(float)}
    y = {"poisson": np.round(np.exp(y)), "binomial": np.floor(sizes.get(size, 1) * 0.5), "gamma": np.exp(y)}.get(
        likelihood, y
    )
    options = {"likelihood": likelihood, "knots": 5, "optimizer": LBFGS(max_iterations=15)}
    rows = np.repeat(np.arange(len(X)), weights)
    one = fit(X, y, weights, **options, **sizes)
    other = fit(X[rows], y[rows], **options, **{key: v[rows] for key, v in sizes.items()})
    assert_same_fit(one, other, X, **sizes)


def test_the_same_with_known_noise(data, rng):
    X, y, weights = data
    noise, rows = rng.uniform(0.05, 0.2, len(X)), np.repeat(np.arange(len(X)), weights)
    one = fit(X, y, weights, knots=5, noise_variance=noise)
    other = fit(X[rows], y[rows], knots=5, noise_variance=noise[rows])
    assert_same_fit(one, other, X, noise_variance=noise)


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("options", [{"knots": 6}, {"approximation": "full", "mean": "linear"}])
def test_the_same_for_classes(n_classes, options, data):
    X, y, weights = data
    labels, rows = np.digitize(y, [0.0] if n_classes == 2 else [-0.5, 0.5]), np.repeat(np.arange(len(X)), weights)
    one = GPClassifier(**options, random_state=0).fit(X, labels, sample_weight=weights)
    other = GPClassifier(**options, random_state=0).fit(X[rows], labels[rows])
    assert_array_equal(one.predict_proba(X), other.predict_proba(X))
    assert one.log_evidence_ == other.log_evidence_


def test_unit_weights_are_no_weights_and_zero_weights_no_rows_to_the_bit(data):
    X, y, weights = data
    assert_same_fit(fit(X, y, np.ones(len(X)), knots=6), fit(X, y, knots=6), X)
    assert_same_fit(fit(X, y, 1.0, knots=6), fit(X, y, knots=6), X)
    kept = weights > 0
    assert_same_fit(fit(X, y, kept, knots=6), fit(X[kept], y[kept], knots=6), X)
    assert_same_fit(fit(X, y, 2 * kept, knots=6), fit(X[kept], y[kept], 2.0, knots=6), X)


def test_the_order_of_weighted_rows_does_not_matter_to_the_bit(data, rng):
    X, y, _ = data
    weights, order = rng.exponential(size=len(X)), rng.permutation(len(X))
    one, other = (fit(X[rows], y[rows], weights[rows], kernel=None) for rows in (np.arange(len(X)), order))
    assert_same_fit(one, other, X)


def test_weights_turn_the_fit_to_the_rows_that_have_them(rng):
    X = rng.uniform(size=(200, 1))
    upper = rng.uniform(size=200) < 0.5
    y = np.where(upper, 1.0, -1.0) + 0.1 * rng.normal(size=200)
    options = {
        "knots": 5,
        "kernel": SquaredExponential(1.0, 1.0, column_scales="standard"),
        "fixed": ["variance", "lengthscale"],
    }
    for share in (0.1, 0.5, 0.9):  # of the weight, on the rows about 1
        weights = np.where(upper, share / upper.mean(), (1 - share) / (~upper).mean())
        assert_allclose(fit(X, y, weights, **options).predict(X).mean(), 2 * share - 1, atol=0.03)


@pytest.mark.parametrize("likelihood", ["gaussian", "poisson", "student_t"])
@pytest.mark.parametrize("standardize", ["columns", "common", False])
def test_scales_starts_and_bounds_are_those_of_repeated_rows(likelihood, standardize, data, monkeypatch):
    monkeypatch.setattr(Observations, "merged", lambda self: self)
    monkeypatch.setattr(Observations, "unit", lambda self, *_, **__: 1.0)
    X, y, weights = data
    y = np.round(np.exp(y)) if likelihood == "poisson" else y
    rows, kept = np.repeat(np.arange(len(X)), weights), np.flatnonzero(weights)
    noise = 0.1 + X[:, 0] ** 2 if likelihood == "gaussian" else None
    options = GPRegressor(SquaredExponential(), likelihood=likelihood, standardize=standardize, mean="linear")

    def put_together(numbers, **more):
        known = None if noise is None else noise[numbers]
        made = assemble(options, Observations(X[numbers], y[numbers], known, **more), None, Serial())
        problem, scaling, table = made.problem, made.scaling, made.problem.table
        numbers = [problem.model.mean.offset, *problem.model.mean.basis(np.ones((1, 2)))[0], *scaling.x_centre]
        numbers += [*scaling.x_scale, scaling.y_centre, scaling.y_scale, *problem.typical_points.ravel()]
        return np.r_[numbers, table.values, table.lower, table.upper]

    found = put_together(kept, weights=weights[kept].astype(float))
    assert_allclose(found, put_together(rows), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("options", [{"knots": 6}, {"approximation": "full", "optimizer": None}])
def test_huge_and_tiny_weights_give_finite_predictions(options, data):
    X, y, _ = data
    weights = 10.0 ** np.linspace(-300, 6, len(X))
    mean, std = fit(X, y, weights, **options).predict(X, return_std=True)
    assert np.isfinite(mean).all() and (std > 0).all()


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.sampled_from([0.0, 0.5, 1.0])), min_size=1))
def test_merging_keeps_the_weight_of_every_distinct_row(rows):
    X, y, weights = np.array(rows, float).T
    if not weights.any():
        weights[0] = 1.0
    expected = Counter()
    for row in zip(X, y, weights, strict=True):
        expected[row[:2]] += row[2]
    merged = Observations(X[:, None], y, weights=weights).merged()
    counts = np.ones(len(merged)) if merged.weights is None else merged.weights
    assert dict(zip(zip(merged.X[:, 0], merged.y, strict=True), counts, strict=True)) == dict(+expected)
    numbers = np.arange(len(X)) if merged.numbers is None else merged.numbers
    assert_array_equal(X[numbers], merged.X[:, 0])
    assert sorted(zip(merged.X[:, 0], merged.y, strict=True)) == list(zip(merged.X[:, 0], merged.y, strict=True))


def test_rows_that_differ_in_noise_or_exposure_are_not_equal():
    X, y, two = np.zeros((2, 1)), np.ones(2), np.array([1.0, 2.0])
    assert len(Observations(X, y, noise=two).merged()) == len(Observations(X, y, size=two).merged()) == 2
    assert_array_equal(Observations(X, y).merged().weights, [2.0])


def test_repeated_rows_cost_what_they_say_once(rng):
    """20,000 rows are too many for the exact GP, unless they are 40 rows again and again."""
    X, y = rng.uniform(size=(40, 1)), rng.normal(size=40)
    gp = fit(np.tile(X, (500, 1)), np.tile(y, 500), approximation="full", optimizer=None)
    assert_same_fit(gp, fit(X, y, np.full(40, 500), approximation="full", optimizer=None), X)


# -- units, files, and what is said ---------------------------------------------------------------


@pytest.mark.parametrize("approximation", ["fic", "full"])
def test_the_evidence_of_weighted_rows_follows_the_units_of_y(approximation, data, rng):
    X, y, _ = data
    weights = rng.exponential(size=len(X))

    def evidence(scale, standardize):
        options = {
            "kernel": SquaredExponential(scale**2, 1.0, column_scales="standard"),
            "likelihood": Gaussian(0.1 * scale**2),
            "mean": 0.0,
        }
        gp = fit(scale * X, scale * y, weights, **options, **approach, standardize=standardize)
        assert_allclose(gp.evidence().value, gp.log_evidence_, rtol=1e-12)
        return gp.log_evidence_

    approach = {"approximation": approximation, "optimizer": None, "knots": "auto"}
    one, other = evidence(1.0, "columns"), evidence(1000.0, "columns")
    assert_allclose(other, one - len(X) * np.log(1000), rtol=1e-10)


def test_a_model_of_weighted_rows_comes_back_from_its_file(data, tmp_path, rng):
    X, y, _ = data
    weights = rng.exponential(size=len(X))
    for options in ({}, {"approximation": "full", "optimizer": None}):
        gp = fit(X, y, weights, **options)
        gp.save(tmp_path / "model.knotwise")
        again = knotwise.load(tmp_path / "model.knotwise")
        assert_array_equal(again.predict(X), gp.predict(X))
        assert again.log_evidence_ == gp.log_evidence_ and again._fit.n_rows == len(X)
        assert [step.n_rows for step in again.trace_] == [step.n_rows for step in gp.trace_]


class StopError(Exception):
    pass


@pytest.mark.filterwarnings("ignore:`sample_weight` has a mean")
@pytest.mark.parametrize("estimator", [GPRegressor, GPClassifier])
def test_fits_with_other_weights_have_other_checkpoints(estimator, data, tmp_path):
    X, y, weights = data
    uneven = weights * (1 + (X[:, 0] > 0))

    def interrupt(event):
        raise StopError

    def folders(weights):
        gp = estimator(random_state=0, optimizer=None, checkpoint=tmp_path, callback=interrupt)
        with pytest.raises(StopError):
            gp.fit(X, y if estimator is GPRegressor else y > 0, sample_weight=weights)
        return len(list(tmp_path.iterdir()))

    twice = 2 if estimator is GPRegressor else 3  # relative weights are the same, and counts of labels are not
    assert [folders(w) for w in (None, weights, weights, 2 * weights)] == [1, 2, 2, twice]
    assert folders(uneven) == twice + 1


def test_a_diagnosis_names_the_rows_of_the_user(data):
    X, y, weights = data
    found = fit(X, 5 * y, weights, knots=Fixed(X[:3], 3), optimizer=None).diagnose()
    assert len(found.inflated) and "200" not in found.finding("places").text.split("rows")[0]
    for place in found.inflated:
        assert weights[place.row] > 0
        assert_allclose(list(place.inputs.values()), X[place.row], rtol=1e-12)


@pytest.mark.parametrize(("n_events", "said"), [(1, True), (20, False)])
def test_few_events_are_counted_with_their_weights(n_events, said, rng):
    X, y = rng.uniform(size=(30, 1)), np.r_[1.0, np.zeros(29)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        GPRegressor(SquaredExponential(), likelihood="poisson", knots=3, random_state=0).fit(
            X, y, sample_weight=np.r_[n_events, np.ones(29)]
        )
    assert any("All but 1 of the 30 targets" in str(w.message) for w in caught) == said


class OldPoisson(Poisson):
    """Somebody's own likelihood, that has not heard of weights."""

    def constant_start(self, y, size=1.0):
        return 0.5


def test_a_likelihood_of_ones_own_need_not_know_weights(data):
    X, y, weights = data
    gp = fit(X, np.round(np.exp(y)), weights, likelihood=OldPoisson(), optimizer=None, knots=X[:4])
    assert gp.mean_.offset == 0.5


# -- scikit-learn ---------------------------------------------------------------------------------


def test_scores_take_weights(data):
    X, y, weights = data
    rows = np.repeat(np.arange(len(X)), weights)
    gp = fit(X, y, knots=4)
    assert_allclose(gp.score(X, y, sample_weight=weights), gp.score(X[rows], y[rows]), rtol=1e-12)
    labels = np.where(y > 0.2, "high", "low")
    gc = GPClassifier(SquaredExponential(), knots=4, random_state=0).fit(X, labels)
    assert_allclose(gc.score(X, labels, sample_weight=weights), gc.score(X[rows], labels[rows]), rtol=1e-12)


def test_weights_are_routed_to_fit_and_score(data):
    X, y, weights = data
    folds = KFold(2)
    with sklearn.config_context(enable_metadata_routing=True):
        gp = GPRegressor(SquaredExponential(), knots=4, random_state=0)
        gp = gp.set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        found = cross_validate(gp, X, y, cv=folds, params={"sample_weight": weights})["test_score"]
    expected = [
        fit(X[a], y[a], weights[a], knots=4).score(X[b], y[b], sample_weight=weights[b]) for a, b in folds.split(X)
    ]
    assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        (np.r_[1.0, -2.0, np.ones(198)], "not negative, but is -2 in row 1"),
        (np.r_[1.0, 1.0, np.nan, np.nan, np.ones(196)], "but is nan in row 2 and 1 more row"),
        (np.r_[np.inf, np.ones(199)], "but is inf in row 0"),
        (np.ones(199), r"each of the 200 rows, but has shape \(199,\)"),
        (np.ones((200, 1)), r"has shape \(200, 1\)"),
        (np.zeros(200), "zero in every row"),
        (-1.0, "is -1 in row 0 and 199 more rows"),
        ("heavy", "must be numbers, one for each row, but is 'heavy'"),
    ],
)
@pytest.mark.parametrize("estimator", [GPRegressor, GPClassifier])
def test_weights_that_cannot_be_are_refused_with_their_rows(estimator, weights, said, data):
    X, y, _ = data
    with pytest.raises(InvalidInputError, match=f"`sample_weight` .*{said}"):
        estimator().fit(X, y if estimator is GPRegressor else y > 0, sample_weight=weights)


@pytest.mark.slow
def test_classes_without_weight_are_no_classes(data):
    X, y, _ = data
    labels = np.where(y > 0.5, "high", np.where(y > -0.5, "middle", "low"))
    gc = GPClassifier(SquaredExponential(), knots=3, random_state=0).fit(
        X, labels, sample_weight=np.where(labels == "middle", 0.0, 1.5)
    )
    assert gc.classes_.tolist() == ["high", "low"] and len(gc.models_) == 1
    with pytest.raises(InvalidInputError, match="one class only, 'low', in rows of positive weight"):
        GPClassifier(SquaredExponential()).fit(X, labels, sample_weight=labels == "low")
