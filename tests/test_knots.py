"""Where knots start, which of them move, and in which units they are given."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist

from knotwise import GPRegressor
from knotwise.errors import InvalidInputError, UnknownOptionError
from knotwise.kernels import Matern32, SquaredExponential
from knotwise.knots import (
    Auto,
    EvidenceGain,
    Fixed,
    GreedyVariance,
    KMeans,
    OneAtATime,
    RandomSubset,
    ResidualVariance,
    Simultaneous,
    initial_knots,
)
from knotwise.likelihoods import Gaussian
from knotwise.optimize import LBFGS
from knotwise.testing import check_selector

NAMES = ["grid", "random", "kmeans", "kmeans-per-class"]


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def place(how, X, n_knots, *, y=None, seed=0):
    y = np.zeros(len(X)) if y is None else y
    return initial_knots(how, X, y, n_knots, np.random.default_rng(seed))


def rows_of(A):
    return {tuple(row) for row in A}


def wavy(X, rng):
    return np.sin(5 * X[:, 0]) * X[:, -1] + 0.1 * rng.normal(size=len(X))


# -- every initialiser ----------------------------------------------------------------------------


@pytest.mark.parametrize("n_knots", [1, 2, 7, 30])
@pytest.mark.parametrize("how", NAMES)
def test_initial_knots_are_distinct_inside_the_data_box_and_at_most_as_many_as_asked(how, n_knots, rng):
    X = rng.normal(size=(80, 2)) * [1e3, 1e-3] + 5
    Z = place(how, X, n_knots, y=rng.integers(0, 2, 80))
    assert 1 <= len(Z) <= n_knots and len(rows_of(Z)) == len(Z)
    slack = 1e-12 * np.ptp(X, axis=0)
    assert ((Z - X.min(0) > -slack) & (Z - X.max(0) < slack)).all()


@pytest.mark.parametrize("how", NAMES)
def test_initial_knots_depend_on_the_seed_only(how, rng):
    X, y = rng.normal(size=(80, 2)), rng.integers(0, 2, 80)
    assert_array_equal(place(how, X, 9, y=y, seed=4), place(how, X, 9, y=y, seed=4))


@pytest.mark.parametrize("how", ["random", "kmeans"])
def test_another_seed_gives_other_knots(how, rng):
    X = rng.normal(size=(80, 2))
    assert rows_of(place(how, X, 9, seed=1)) != rows_of(place(how, X, 9, seed=2))


@pytest.mark.parametrize("how", ["grid", "random", "kmeans"])
def test_the_order_of_the_rows_does_not_move_the_knots(how, rng):
    X = rng.normal(size=(80, 2))
    assert_array_equal(place(how, X[rng.permutation(80)], 9), place(how, X, 9))


@pytest.mark.parametrize("how", ["random", "kmeans", "kmeans-per-class"])
def test_duplicates_count_once(how, rng):
    distinct = rng.normal(size=(6, 2))
    X = np.repeat(distinct, [1, 50, 3, 7, 200, 1], axis=0)
    for n_knots in (6, 7, 100):
        assert rows_of(place(how, X, n_knots)) == rows_of(distinct)
    assert len(rows_of(place(how, X, 4))) == 4


def test_initial_knots_do_not_change_the_data(rng):
    X, y = rng.normal(size=(40, 2)), rng.integers(0, 2, 40)
    before = X.copy(), y.copy()
    for how in NAMES:
        place(how, X, 9, y=y)
    assert_array_equal(X, before[0])
    assert_array_equal(y, before[1])


# -- grid -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_knots", [2, 3, 10])
def test_a_grid_on_a_line_is_linspace(n_knots, rng):
    X = rng.normal(size=(50, 1))
    assert_array_equal(place("grid", X, n_knots)[:, 0], np.linspace(X.min(), X.max(), n_knots))


@pytest.mark.parametrize(("n_knots", "side", "columns"), [(9, 3, 2), (100, 10, 2), (27, 3, 3), (16, 2, 4)])
def test_a_grid_of_a_whole_power_has_equal_sides_that_fill_the_box(n_knots, side, columns, rng):
    X = rng.normal(size=(60, columns)) * 10.0 ** np.arange(columns)
    Z = place("grid", X, n_knots)
    assert len(Z) == n_knots
    for d in range(columns):
        assert_array_equal(np.unique(Z[:, d]), np.linspace(X[:, d].min(), X[:, d].max(), side))


@pytest.mark.parametrize("n_knots", range(1, 30))
def test_a_grid_cannot_be_refined_within_its_number_of_knots(n_knots, rng):
    Z = place("grid", rng.normal(size=(60, 2)), n_knots)
    sides = [len(np.unique(column)) for column in Z.T]
    assert np.prod(sides) == len(Z) <= n_knots
    assert all(len(Z) // side * (side + 1) > n_knots for side in sides)


def test_a_grid_has_one_place_along_a_constant_column(rng):
    X = np.column_stack([rng.normal(size=50), np.full(50, 7.0)])
    Z = place("grid", X, 8)
    assert len(Z) == 8 and (Z[:, 1] == 7.0).all()


# -- random rows and k-means ------------------------------------------------------------------------


def test_random_knots_are_distinct_rows_and_every_row_can_be_drawn(rng):
    X = rng.normal(size=(12, 2))
    drawn = [rows_of(place("random", X, 3, seed=seed)) for seed in range(60)]
    assert all(len(knots) == 3 and knots <= rows_of(X) for knots in drawn)
    assert set.union(*drawn) == rows_of(X)


@pytest.mark.parametrize("columns", [1, 2, 5])
@pytest.mark.parametrize("seed", range(4))
def test_each_centre_of_kmeans_is_the_mean_of_its_nearest_rows(seed, columns):
    X = np.random.default_rng(seed).normal(size=(60, columns)) + 100.0
    Z = place("kmeans", X, 6, seed=seed)
    nearest = cdist(X, Z).argmin(1)
    for k, centre in enumerate(Z):
        assert_allclose(X[nearest == k].mean(0), centre, rtol=1e-12)


def test_kmeans_finds_clusters_that_lie_apart(rng):
    centres = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0], [10.0, 10.0]])
    X = np.concatenate([c + 0.1 * rng.normal(size=(25, 2)) for c in centres])
    assert cdist(centres, place("kmeans", X, 4)).min(1).max() < 0.1


def test_kmeans_far_from_the_origin_is_kmeans_moved(rng):
    X = np.round(rng.uniform(size=(200, 2)) * 2**20) / 2**20
    assert_allclose(place("kmeans", X + 1e8, 10) - 1e8, place("kmeans", X, 10), atol=1e-7)


def test_kmeans_of_as_many_knots_as_rows_is_the_rows(rng):
    X = rng.normal(size=(10, 3))
    assert rows_of(place("kmeans", X, 10)) == rows_of(X)


@pytest.mark.parametrize(("n_knots", "shares"), [(9, [3, 3, 3]), (10, [4, 3, 3]), (2, [1, 1, 0])])
def test_classes_share_the_knots_evenly_whatever_their_size(n_knots, shares, rng):
    # the classes lie apart, so that a knot tells whose it is
    y = np.repeat([0, 1, 2], [10, 100, 30])
    X = rng.uniform(size=(140, 2)) + 10 * y[:, None]
    Z = place("kmeans-per-class", X, n_knots, y=y)
    assert_array_equal(np.bincount((Z[:, 0] // 10).astype(int), minlength=3), shares)


def test_knots_per_class_need_classes(rng):
    with pytest.raises(InvalidInputError, match=r"50 distinct values.*'kmeans'"):
        place("kmeans-per-class", rng.normal(size=(50, 2)), 5, y=rng.normal(size=50))


# -- the user's own ---------------------------------------------------------------------------------


def test_an_array_or_a_function_places_the_knots_as_it_likes(rng):
    X, y = rng.normal(size=(30, 2)), rng.normal(size=30)
    Z = rng.normal(size=(4, 2)) * 100
    assert_array_equal(place(Z, X, 99), Z)

    def highest(X, y, n_knots, rng):
        return X[np.argsort(y)[-n_knots:]]

    assert_array_equal(place(highest, X, 5, y=y), highest(X, y, 5, None))


@pytest.mark.parametrize("bad", [np.ones((4, 3)), np.ones(4), np.empty((0, 2)), np.full((4, 2), np.nan)])
def test_initial_knots_of_a_wrong_shape_are_refused(bad, rng):
    X = rng.normal(size=(30, 2))
    for how in (bad, lambda X, y, n_knots, rng: bad):
        with pytest.raises(InvalidInputError, match=r"\[K, 2\]"):
            place(how, X, 4)
        with pytest.raises(InvalidInputError, match=r"\[K, 2\]"):
            GPRegressor(SquaredExponential(), knots=Simultaneous(4, how)).fit(X, X[:, 0])


@pytest.mark.parametrize(("given", "nearest"), [("k-means", "kmeans"), ("Grid", "grid"), ("rando", "random")])
def test_an_unknown_initial_names_the_nearest(given, nearest, rng):
    X = rng.normal(size=(30, 2))
    with pytest.raises(UnknownOptionError, match=f"Did you mean '{nearest}'"):
        place(given, X, 4)
    with pytest.raises(UnknownOptionError, match=f"Did you mean '{nearest}'"):
        GPRegressor(SquaredExponential(), knots=Fixed(given, 4)).fit(X, X[:, 0])


# -- held and moved knots in a fit ------------------------------------------------------------------


@pytest.mark.parametrize("standardize", ["columns", "common", False])
def test_held_knots_are_the_users_bit_for_bit(standardize, rng):
    X = rng.uniform(size=(80, 2)) * [1e3, 1e-3] + 7
    Z = np.vstack([X[:9], X[:1] + 5 * np.ptp(X, axis=0)])  # one far outside the data
    gp = GPRegressor(SquaredExponential(), knots=Z, standardize=standardize, random_state=0).fit(X, wavy(X, rng))
    assert_array_equal(gp.knots_, Z)
    assert gp.n_knots_ == 10


@pytest.mark.parametrize("how", ["grid", "random", "kmeans"])
def test_fixed_holds_the_knots_that_it_placed(how, rng):
    X = rng.uniform(size=(80, 2))
    gp = GPRegressor(SquaredExponential(), knots=Fixed(how, 9), standardize=False, random_state=0).fit(X, wavy(X, rng))
    assert_array_equal(gp.knots_, place(how, X, 9))
    assert "held" in gp.stop_reason_


def test_fixed_optimises_the_parameters_as_the_array_does(rng):
    X = rng.uniform(size=(80, 2))
    y = wavy(X, rng)
    by_array = GPRegressor(SquaredExponential(), knots=X[:9], random_state=0).fit(X, y)
    by_selector = GPRegressor(SquaredExponential(), knots=Fixed(X[:9]), random_state=0).fit(X, y)
    assert by_array.log_evidence_ == by_selector.log_evidence_
    start = GPRegressor(SquaredExponential(), knots=X[:9], optimizer=None).fit(X, y)
    assert by_array.log_evidence_ > start.log_evidence_ + 1


@pytest.mark.parametrize("approximation", ["vfe", "fic", 0.5])
@pytest.mark.parametrize("initial", ["grid", "random", "kmeans"])
def test_moving_the_knots_improves_the_evidence_over_holding_them(initial, approximation, rng):
    X = rng.uniform(size=(120, 2))
    options = {"approximation": approximation, "random_state": 0, "optimizer": LBFGS(max_iterations=5000)}
    options["kernel"] = SquaredExponential()
    y = wavy(X, rng)
    held = GPRegressor(knots=Fixed(initial, 9), **options).fit(X, y)
    moved = GPRegressor(knots=Simultaneous(9, initial), **options).fit(X, y)
    assert moved.log_evidence_ > held.log_evidence_ + 0.1
    history = moved.optimize_result_.history
    assert moved.optimize_result_.value >= np.nanmax(history) - 0.01  # but for redundant knots dropped


def test_knots_move_while_every_parameter_is_held(rng):
    X = rng.uniform(size=(100, 1))
    y = np.sin(9 * X[:, 0]) + 0.1 * rng.normal(size=100)
    parts = {"kernel": SquaredExponential(1.0, 0.2), "likelihood": Gaussian(0.01), "mean": 0.0, "standardize": False}
    hold = ["variance", "lengthscale", "noise_variance"]
    gp = GPRegressor(knots=Simultaneous(4, X[:4]), fixed=hold, **parts).fit(X, y)
    start = GPRegressor(knots=X[:4], optimizer=None, **parts).fit(X, y)
    assert gp.log_evidence_ > start.log_evidence_ + 1
    assert_allclose(gp.parameters_.values, start.parameters_.values, rtol=1e-12)
    # at a maximum of the evidence in the knots that are inside their box, it has no slope
    inside = (gp.knots_ > X.min() - 0.09 * np.ptp(X)) & (gp.knots_ < X.max() + 0.09 * np.ptp(X))
    assert np.abs(gp.evidence().knot_gradient[inside]).max() < 1e-2


@pytest.mark.parametrize("standardize", ["columns", "common"])
@pytest.mark.parametrize("selector", [Fixed, lambda Z: Simultaneous(len(Z), Z)], ids=["held", "moved"])
def test_knots_are_given_and_returned_in_the_units_of_the_inputs(selector, standardize, rng):
    X = rng.uniform(size=(100, 2)) * [1e3, 1e-3] + 7
    y = wavy((X - 7) / [1e3, 1e-3], rng)
    centre, scale = X.mean(0), X.std(0) if standardize == "columns" else np.sqrt((X.var(0)).mean())
    Z = X[::13]
    user = GPRegressor(SquaredExponential(), knots=selector(Z), standardize=standardize, random_state=0).fit(X, y)
    engine = GPRegressor(
        SquaredExponential(), knots=selector((Z - centre) / scale), standardize=False, random_state=0
    ).fit((X - centre) / scale, (y - y.mean()) / y.std())
    assert_allclose(user.log_evidence_ + 100 * np.log(y.std()), engine.log_evidence_, rtol=1e-6)
    assert_allclose((user.knots_ - centre) / scale, engine.knots_, atol=1e-3)


def test_a_function_that_places_knots_sees_inputs_in_the_units_of_its_answer(rng):
    X = rng.uniform(size=(60, 1)) * 1e3
    seen = {}

    def first(X, y, n_knots, rng):
        seen["X"] = X
        return X[:n_knots]

    gp = GPRegressor(SquaredExponential(), knots=Fixed(first, 5), random_state=0).fit(X, wavy(X / 1e3, rng))
    X = np.sort(X, axis=0)  # as every fit sees its rows
    assert_allclose(gp.knots_, X[:5], rtol=1e-12)
    assert_allclose(seen["X"], (X - X.mean()) / X.std(), rtol=1e-12, atol=1e-12)


def test_as_many_knots_as_rows_give_the_exact_gp(rng):
    X = rng.uniform(size=(40, 2))
    y = wavy(X, rng)
    options = {"kernel": Matern32(1.0, 1.0, column_scales="standard"), "likelihood": Gaussian(0.1), "optimizer": None}
    exact = GPRegressor(approximation="full", **options).fit(X, y)
    for approximation in ("vfe", "fic", 0.5):
        gp = GPRegressor(approximation=approximation, knots=40, **options).fit(X, y)
        assert gp.n_knots_ == 40
        assert_allclose(gp.log_evidence_, exact.log_evidence_, rtol=1e-6)


@pytest.mark.parametrize(
    "selector",
    [
        Auto(),
        Fixed("grid", n_knots=9),
        Simultaneous(6),
        KMeans(8),
        GreedyVariance(8),
        OneAtATime(max_knots=8, proposal=RandomSubset(5)),
        OneAtATime(max_knots=8, proposal=EvidenceGain()),
        OneAtATime(max_knots=8, proposal=ResidualVariance(weighted=True)),
    ],
    ids=repr,
)
@pytest.mark.filterwarnings("ignore:The optimiser stopped")
def test_every_selector_keeps_the_contract(selector):
    check_selector(selector)


def test_a_selector_that_repeats_a_knot_is_found_out():
    class Doubled(Fixed):
        def select(self, problem, rng):
            chosen = super().select(problem, rng)
            return replace(chosen, point=replace(chosen.point, Z=np.vstack([chosen.Z, chosen.Z[:1]])))

    with pytest.raises(AssertionError, match="two knots are equal"):
        check_selector(Doubled("kmeans", n_knots=5))


@pytest.mark.parametrize("settings", [{"approximation": "full"}, {"knots": 20}], ids=["exact", "knots"])
def test_labels_repeated_at_a_place_keep_their_signal(settings):
    """Equal rows with equal labels are one row that counts more than once; each once, labels would be half and half."""
    X = np.repeat(np.linspace(0, 1, 40), 8)[:, None]
    p = 1 / (1 + np.exp(-np.sin(6 * X[:, 0])))
    for seed in range(3):
        y = (np.random.default_rng(seed).random(320) < p).astype(float)
        found = GPRegressor(likelihood="bernoulli", random_state=seed, **settings).fit(X, y)
        best = GPRegressor(
            SquaredExponential(1.0, 1.0, column_scales="standard"), likelihood="bernoulli", approximation="full"
        ).fit(X, y)
        assert found.log_evidence_ > best.log_evidence_ - 0.5
