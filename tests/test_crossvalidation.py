"""Cross-validation: predictions of left-out rows against dense formulas, and against fits to the other rows."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.spatial.distance import cdist
from scipy.special import ndtr
from sklearn.base import clone
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss, roc_auc_score
from sklearn.model_selection import KFold, ShuffleSplit

from knotwise import GPClassifier, GPRegressor, cross_validate
from knotwise.errors import FitWarning, InvalidInputError
from knotwise.kernels import SquaredExponential
from knotwise.knots import Fixed
from knotwise.likelihoods import Gaussian
from knotwise.means import Linear
from knotwise.metrics import gaussian_crps

N = 48
RNG = np.random.default_rng(5)
X = RNG.uniform(0, 3, size=(N, 2))
Y = 2 + 1.5 * X[:, 0] + np.sin(3 * X[:, 1]) + 0.3 * RNG.normal(size=N)
COUNTS, AREA = RNG.poisson(3 + X[:, 0]).astype(float), RNG.uniform(0.5, 2, N)
VARIANCE, LENGTHSCALE, NOISE, JITTER, N_KNOTS = 0.9, 0.8, 0.07, 1e-10, 20
FOUR = np.repeat(["a", "b", "c", "d"], 12)
KERNEL = SquaredExponential(VARIANCE, LENGTHSCALE, column_scales="standard")


def model(approximation="full", mean="zero", likelihood=None, **options):
    """A model with every parameter given, in the units of the data; knots are on the first rows."""
    settings = {"knots": X[:N_KNOTS], "optimizer": None, "jitter": JITTER, "standardize": False, "n_jobs": 1}
    return GPRegressor(KERNEL, likelihood or Gaussian(NOISE), approximation, mean=mean, **settings | options)


def groups_of(labels):
    return [np.flatnonzero(labels == label) for label in np.unique(labels)]


def dense(approximation, groups, *, y=Y, basis=None, noise=NOISE, left_out=None):
    """Mean and variance of new observations at groups of rows, given the others: N x N, as the literature has it.

    Rows of the data are seen through the knots, and new ones have their own variance.
    """

    def kernel(A, B):
        return VARIANCE * np.exp(-0.5 * cdist(A, B, "sqeuclidean") / LENGTHSCALE**2)

    Q, own, noise = kernel(X, X), np.zeros(N), np.broadcast_to(noise, N)
    if approximation != "full":
        Z = X[:N_KNOTS]
        through = kernel(X, Z) @ np.linalg.solve(kernel(Z, Z) + JITTER * VARIANCE * np.eye(len(Z)), kernel(Z, X))
        own = {"vfe": 0.0, "fic": 1.0, 0.5: 0.5}[approximation] * np.diag(Q - through)
        Q = through
    prior = np.full(N, VARIANCE)
    if basis is not None:
        Q, prior = Q + basis @ basis.T, prior + (basis**2).sum(1)
    mean, variance = np.empty(N), np.empty(N)
    for test, out in zip(groups, groups if left_out is None else left_out, strict=True):
        rest = np.setdiff1d(np.arange(N), out)
        smoother = np.linalg.solve(Q[np.ix_(rest, rest)] + np.diag((noise + own)[rest]), Q[np.ix_(rest, test)]).T
        mean[test] = smoother @ y[rest]
        variance[test] = prior[test] - np.einsum("ij,ji->i", smoother, Q[np.ix_(rest, test)]) + noise[test]
    return mean, variance


# -- parameters held ----------------------------------------------------------------------------------


@pytest.mark.parametrize("approximation", ["full", "vfe", "fic", 0.5])
def test_rows_left_out_one_by_one_are_predicted_as_by_the_dense_formula(approximation):
    found = cross_validate(model(approximation).fit(X, Y), X, Y, refit=False)
    mean, variance = dense(approximation, np.arange(N)[:, None])
    assert_allclose(found.mean, mean, rtol=1e-8, atol=1e-8)
    assert_allclose(found.sd**2, variance, rtol=1e-8)


@pytest.mark.parametrize("approximation", ["full", "vfe", "fic"])
@pytest.mark.parametrize("labels", [FOUR, np.repeat([1, 2], 24), np.arange(N) % 5])
def test_left_out_blocks_are_predicted_as_by_the_dense_formula(approximation, labels):
    """Blocks of up to 24 rows, more than there are knots."""
    found = cross_validate(model(approximation).fit(X, Y), X, Y, blocks=labels, refit=False)
    mean, variance = dense(approximation, groups_of(labels))
    assert_allclose(found.mean, mean, rtol=1e-8, atol=1e-8)
    assert_allclose(found.sd**2, variance, rtol=1e-8)
    assert_array_equal(found.block, labels)


@pytest.mark.parametrize("approximation", ["full", "fic"])
def test_the_prior_of_a_trend_is_held_with_the_parameters(approximation):
    gp = model(approximation, Linear(columns=[0])).fit(X, Y)
    basis, offset = gp.mean_.basis(X), gp.mean_.offset
    found = cross_validate(gp, X, Y, blocks=FOUR, refit=False)
    mean, variance = dense(approximation, groups_of(FOUR), y=Y - offset, basis=basis)
    assert_allclose(found.mean, offset + mean, rtol=1e-7)
    assert_allclose(found.sd**2, variance, rtol=1e-7)


@pytest.mark.parametrize("approximation", ["full", "vfe"])
def test_rows_with_knots_on_them_and_hardly_any_noise_are_left_out_exactly(approximation):
    """Their own say is then all but 1e-7 of what is known there, which would leave no digits of a difference."""
    noise = 1e-7
    gp = model(approximation, likelihood=Gaussian(noise)).fit(X, Y)
    mean, variance = dense(approximation, np.arange(N)[:, None], noise=noise)
    found = cross_validate(gp, X, Y, refit=False)
    assert_allclose(found.mean, mean, rtol=1e-5, atol=1e-5)
    assert_allclose(found.sd**2, variance, rtol=1e-4)


@pytest.mark.parametrize("approximation", ["full", "vfe", "fic"])
def test_weights_and_known_noise_are_those_of_fits_to_the_other_rows(approximation):
    weights, noise = RNG.integers(1, 4, N).astype(float), NOISE * RNG.uniform(0.5, 2, N)
    gp = model(approximation, likelihood="gaussian").fit(X, Y, sample_weight=weights, noise_variance=noise)
    given = {"sample_weight": weights, "noise_variance": noise}
    found = cross_validate(gp, X, Y, blocks=FOUR, refit=False, **given)
    for group in groups_of(FOUR):
        rest = np.setdiff1d(np.arange(N), group)
        other = clone(gp).fit(X[rest], Y[rest], sample_weight=weights[rest], noise_variance=noise[rest])
        mean, sd = other.predict(X[group], return_std=True, noise_variance=noise[group])
        assert_allclose(found.mean[group], mean, rtol=1e-7)
        assert_allclose(found.sd[group], sd, rtol=1e-7)
    assert_allclose(found.scores["rmse"], np.sqrt(np.average((Y - found.mean) ** 2, weights=weights)))


@pytest.mark.parametrize("approximation", ["full", "vfe"])
@pytest.mark.parametrize("inference", ["laplace", "variational"])
def test_sites_of_counts_are_found_anew_without_each_block(approximation, inference):
    gp = model(approximation, mean=1.0, likelihood="poisson", inference=inference).fit(X, COUNTS, exposure=AREA)
    found = cross_validate(gp, X, COUNTS, blocks=FOUR, refit=False, exposure=AREA)
    for group in groups_of(FOUR):
        rest = np.setdiff1d(np.arange(N), group)
        other = clone(gp).fit(X[rest], COUNTS[rest], exposure=AREA[rest])
        mean, sd = other.predict(X[group], return_std=True, exposure=AREA[group])
        assert_allclose(found.mean[group], mean, rtol=1e-6)
        assert_allclose(found.sd[group], sd, rtol=1e-6)
        assert_allclose(
            found.log_density[group],
            other.log_predictive_density(X[group], COUNTS[group], exposure=AREA[group]),
            rtol=1e-6,
        )
    assert "crps" not in found.scores and found.pit.min() > 0 and found.pit.max() < 1


def test_all_other_rows_as_neighbours_are_the_exact_gp():
    gp = model(None, n_neighbors=N - 1).fit(X, Y)
    assert gp.n_neighbors_ == N - 1
    found = cross_validate(gp, X, Y, blocks=FOUR, refit=False)
    mean, variance = dense("full", groups_of(FOUR))
    assert_allclose(found.mean, mean, rtol=1e-6)
    assert_allclose(found.sd**2, variance, rtol=1e-6)


def test_a_splitter_may_leave_out_more_than_it_tests():
    """Rows within 0.4 of those that are tested are left out, too."""
    tests = groups_of(FOUR)
    near = cdist(X, X) < 0.4
    left_out = [np.flatnonzero(near[group].any(0)) for group in tests]
    assert any(len(out) > len(test) for out, test in zip(left_out, tests, strict=True))
    pairs = [(np.setdiff1d(np.arange(N), out), test) for out, test in zip(left_out, tests, strict=True)]
    for approximation in ("full", "vfe"):
        found = cross_validate(model(approximation).fit(X, Y), X, Y, blocks=pairs, refit=False)
        mean, variance = dense(approximation, tests, left_out=left_out)
        assert_allclose(found.mean, mean, rtol=1e-8, atol=1e-8)
        assert_allclose(found.sd**2, variance, rtol=1e-8)


def test_knots_chosen_anew_at_held_parameters_keep_the_units_of_the_fit():
    """The exact GP has no knots to choose, so that both ways are the same; columns were scaled by the fit."""
    gp = GPRegressor(KERNEL, approximation="full", mean=3.0, random_state=0).fit(X * [100.0, 1.0], Y)
    held, anew = (
        cross_validate(gp, X * [100.0, 1.0], Y, blocks=FOUR, refit=False, knots=knots) for knots in ("held", "anew")
    )
    assert_allclose(anew.mean, held.mean, rtol=1e-7)
    assert_allclose(anew.sd, held.sd, rtol=1e-7)
    assert "parameters held, knots anew" in repr(anew)


@pytest.mark.parametrize("wrapped", [np.array, Fixed])
def test_places_of_knots_that_were_given_are_those_of_the_users_units(wrapped):
    """They are the same for every block, so that both ways are the same."""
    rows = X * [100.0, 1.0]
    gp = GPRegressor(KERNEL, mean=3.0, knots=wrapped(rows[:10]), n_neighbors=0, jitter=JITTER).fit(rows, Y)
    held, anew = (cross_validate(gp, rows, Y, blocks=FOUR, refit=False, knots=knots) for knots in ("held", "anew"))
    assert_allclose(anew.mean, held.mean, rtol=1e-6)
    assert_allclose(anew.sd, held.sd, rtol=1e-6)


@pytest.mark.parametrize("exact", [True, False])
def test_encoded_tables_keep_their_encoding_where_knots_are_anew(exact):
    """Without knots to choose, or with given ones, both ways are the same; a fold lacks a level and a longitude."""
    table = pd.DataFrame({"lon": 40 * X[:, 0], "lat": 20 * X[:, 1], "field": FOUR, "depth": X[::-1, 0]})
    table["depth"] = table["depth"].where(table.index % 7 != 0)
    options = {"approximation": "full"} if exact else {"knots": table[1:11], "n_neighbors": 0, "jitter": JITTER}
    gp = GPRegressor(SquaredExponential(ard=True), mean=3.0, coords="lonlat", missing="indicator", n_jobs=1, **options)
    gp.fit(table, Y)
    held, anew = (cross_validate(gp, table, Y, blocks=FOUR, refit=False, knots=knots) for knots in ("held", "anew"))
    assert_allclose(anew.mean, held.mean, rtol=1e-6)
    assert_allclose(anew.sd, held.sd, rtol=1e-6)


def test_the_model_itself_stays_as_it_was():
    gp = model("vfe").fit(X, Y)
    before = gp.predict(X, return_std=True)
    cross_validate(gp, X, Y, refit=False)
    cross_validate(gp, X, Y, blocks=FOUR)
    assert_array_equal(gp.predict(X, return_std=True), before)


# -- parameters anew ----------------------------------------------------------------------------------


def test_a_refit_is_a_fit_to_the_other_rows():
    gp = GPRegressor(KERNEL, knots=8, random_state=0, n_jobs=1)
    frame = pd.DataFrame(X, columns=["east", "north"], index=np.arange(N) + 100)
    found = cross_validate(gp, frame, pd.Series(Y, frame.index), blocks=KFold(3), level=0.8)
    for _, test in KFold(3).split(X):
        other = clone(gp).fit(frame.drop(frame.index[test]), np.delete(Y, test))
        mean, sd = other.predict(frame.iloc[test], return_std=True)
        assert_array_equal(found.mean[test], mean)
        assert_array_equal(found.sd[test], sd)
        assert_array_equal(found.lower[test], other.predict_interval(frame.iloc[test], 0.8)[:, 0])
        assert_array_equal(found.pit[test], ndtr((Y[test] - mean) / sd))
    assert_array_equal(found.to_frame().index, frame.index)


def test_a_refit_with_knots_held_keeps_them_where_they_are():
    gp = GPRegressor(KERNEL, "gaussian", "fic", knots=8, random_state=0, n_jobs=1).fit(X, Y)
    found = cross_validate(gp, X, Y, blocks=FOUR, knots="held")
    group = groups_of(FOUR)[2]
    other = GPRegressor(KERNEL, "gaussian", "fic", knots=gp.knots_, n_neighbors=0, random_state=0, n_jobs=1)
    other.fit(np.delete(X, group, 0), np.delete(Y, group))
    assert_array_equal(found.mean[group], other.predict(X[group]))


def test_warnings_of_many_fits_are_one_warning():
    gp = GPRegressor(KERNEL, likelihood="poisson", n_jobs=1, random_state=0, optimizer=None)
    few = np.zeros(N)
    few[0] = 1.0
    with pytest.warns(
        FitWarning, match=r"of 4 blocks a fit said, of its own rows: All but 0 .*first of 2 different"
    ) as told:
        cross_validate(gp, X, few, blocks=FOUR)
    assert len(told) == 1


# -- blocks -------------------------------------------------------------------------------------------


def exact(**options):
    """A quick model: an exact GP whose parameters stay."""
    return GPRegressor(KERNEL, **{"approximation": "full", "optimizer": None, "n_jobs": 1} | options)


def blocks_of(rows, n_blocks=4, gp=None, **options):
    return cross_validate(exact() if gp is None else gp, rows, Y[: len(rows)], blocks=n_blocks, **options).blocks


def test_a_number_of_blocks_makes_compact_ones_of_the_places():
    rng = np.random.default_rng(0)
    centres = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])
    which = np.repeat([0, 1, 2], 16)
    rows = np.column_stack([centres[which] + rng.normal(size=(48, 2)), 1000 * rng.normal(size=48)])
    found = cross_validate(exact(), rows, Y, blocks=3, coords=[0, 1])
    for label in range(3):
        assert len(set(found.block[which == label])) == 1
    assert found.n_blocks == 3 and "48 rows, in 3 blocks of column 0, column 1;" in repr(found)
    for names in (["east", "north"], ["X", "Y"], ["Easting ", "Northing"]):
        named = pd.DataFrame(rows, columns=[*names, "slope"])
        found_by_name = cross_validate(exact(), named, Y, blocks=3)
        assert_array_equal(found_by_name.block, found.block)
        assert f"in 3 blocks of {', '.join(names)};" in repr(found_by_name)
    # places that are no columns of X
    assert_array_equal(blocks_of(rows[:, 2:], 3, coords=rows[:, :2]), found.block)
    assert_array_equal(blocks_of(rows[:, 2:], 3, coords=named[["Easting ", "Northing"]]), found.block)
    assert_array_equal(blocks_of(named, 3, coords=["Easting ", 1]), found.block)


def random_model(rng):
    """A model with settings at random, none of which is about the rows; and what it is of."""
    kernel = KERNEL.on([[0], [1], [0, 1], [2]][rng.integers(4)]) if rng.random() < 0.5 else KERNEL
    options = {
        "random_state": int(rng.integers(1000)),
        "standardize": ["columns", False, "common"][rng.integers(3)],
        "mean": ["zero", "constant", "linear"][rng.integers(3)],
        "optimizer": None,
        "approximation": "full",
        "n_jobs": 1,
    }
    kind = rng.integers(4)
    if kind == 0:
        return GPClassifier(kernel, **options), LABELS
    likelihood, y = {1: ("gaussian", Y), 2: ("poisson", COUNTS), 3: ("gamma", np.exp(Y / 4))}[kind]
    return GPRegressor(kernel, likelihood, **options), y


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100))
def test_two_models_of_the_same_rows_have_the_same_folds(seed):
    rng = np.random.default_rng(seed)
    rows = np.column_stack([X, 100 * rng.normal(size=N)])
    rows = pd.DataFrame(rows, columns=["x", "y", "slope"]) if rng.random() < 0.5 else rows
    coords = [None, [0, 1], rng.uniform(size=(N, 2))][rng.integers(3)]
    results = []
    for gp, y in (random_model(rng), random_model(rng)):
        state = int(rng.integers(1000))
        results.append(cross_validate(gp, rows, y, blocks=10, coords=coords, random_state=state))
    assert_array_equal(results[0].blocks, results[1].blocks)
    assert results[0].n_blocks == 10


@pytest.mark.failure(56)
def test_blocks_are_the_same_whatever_the_kernel_the_units_and_the_seed():
    rows = np.column_stack([X, 100 * X[:, :1] ** 2])
    expected = blocks_of(rows)
    for gp in (
        exact(standardize=False),
        exact(standardize="common", random_state=7),
        GPRegressor(KERNEL.on([2]), approximation="full", optimizer=None),
        exact(likelihood="student_t"),
    ):
        assert_array_equal(blocks_of(rows, gp=gp, random_state=3), expected)
    assert_array_equal(cross_validate(GPClassifier(KERNEL, optimizer=None), rows, LABELS, blocks=4).blocks, expected)


def test_places_have_one_scale_and_other_columns_one_each():
    """A field ten times as long as wide is cut across, as the map has it; as columns of any units it is not."""
    long = np.column_stack([np.linspace(0, 1000, N), np.tile([0.0, 100.0], N // 2)])
    along = blocks_of(pd.DataFrame(long, columns=["x", "y"]))
    assert_array_equal(along, np.repeat(np.arange(4), N // 4))
    assert_array_equal(blocks_of(long, coords=[0, 1]), along)
    both_sides = blocks_of(long)
    assert all(len(set(long[both_sides == label, 1])) == 1 for label in range(4))
    assert_array_equal(blocks_of(long * [1e-3, 1e4] + [0.0, 5e6]), both_sides)


@pytest.mark.parametrize("coords", [None, [0, 1]])
def test_the_order_of_the_rows_changes_no_block(coords):
    order = np.random.default_rng(1).permutation(N)
    assert_array_equal(blocks_of(X[order], coords=coords), blocks_of(X, coords=coords)[order])


def test_levels_dates_and_gaps_are_parts_of_blocks_of_all_columns():
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.repeat([0, 10, 200, 210], 12), unit="D")
    depth = np.where(np.arange(N) % 5 == 0, np.nan, np.arange(N) % 7)
    table = pd.DataFrame({"soil": np.tile(["clay", "sand"], 24), "day": days, "depth": depth})
    by_day = blocks_of(table.drop(columns="depth"), 2)
    assert len(set(by_day[:24])) == len(set(by_day[24:])) == 1  # days differ more than two levels
    by_both = blocks_of(table.drop(columns="depth"), 4)
    assert len(set(by_both[:24:2])) == len(set(by_both[25::2])) == 1
    assert blocks_of(table, 4, gp=exact(missing="mean")).max() == 3
    assert_array_equal(blocks_of(table, 2, gp=exact(missing="mean"), coords="day"), np.repeat([0, 1], 24))
    assert_array_equal(blocks_of(table, 2, gp=exact(missing="mean"), coords=table["day"]), np.repeat([0, 1], 24))


def test_degrees_are_places_on_the_sphere():
    """Two islands at the date line, each on both sides of it."""
    rng = np.random.default_rng(0)
    lon = np.tile([179.8, -179.8], N // 2)
    lat = np.repeat([-18.0, -45.0], N // 2) + 0.1 * rng.normal(size=N)
    islands = np.repeat([0, 1], N // 2)
    table = pd.DataFrame({"lon": lon, "lat": lat, "slope": rng.normal(size=N)})
    calls = [
        (table.rename(columns=str.upper), None),
        (table.to_numpy(), ("lonlat", [0, 1])),
        (table[["slope"]], ("lonlat", np.column_stack([lon, lat]))),
        (table[["slope"]], table[["lon", "lat"]]),
        (table, "lonlat"),
    ]
    for rows, coords in calls:
        found = blocks_of(rows, 2, coords=coords)
        assert len(set(found[islands == 0])) == len(set(found[islands == 1])) == 1, coords
    # in degrees as numbers they would be cut along the line
    assert len(set(blocks_of(table.to_numpy(), 2, coords=[0, 1])[islands == 0])) == 2
    with pytest.raises(InvalidInputError, match="some are no degrees"):
        blocks_of(table, 2, coords=("lonlat", ["lat", "lon"]))


def test_points_of_a_frame_are_the_places():
    geopandas = pytest.importorskip("geopandas")
    points = geopandas.GeoDataFrame({"slope": Y}, geometry=geopandas.points_from_xy(*X.T), crs=27700)
    expected = blocks_of(pd.DataFrame({"x": X[:, 0], "y": X[:, 1], "slope": Y}))
    assert_array_equal(blocks_of(points), expected)
    assert_array_equal(blocks_of(Y[:, None], coords=points.geometry), expected)
    degrees = points.set_crs(4326, allow_override=True)
    expected = blocks_of(X, coords=("lonlat", [0, 1]))
    assert_array_equal(blocks_of(degrees, gp=exact(coords="lonlat")), expected)


def test_blocks_are_handed_on_to_models_of_other_columns():
    rows = pd.DataFrame(X, columns=["x", "y"]).assign(slope=Y)
    first = cross_validate(exact(), rows, Y, blocks=4)
    for blocks in (first, first.blocks, first.to_frame()["block"]):
        again = cross_validate(exact(), rows[["slope"]], Y, blocks=blocks)
        assert_array_equal(again.blocks, first.blocks)
    assert "in 4 blocks of x, y;" in repr(cross_validate(exact(), rows[["slope"]], Y, blocks=first))
    with pytest.raises(InvalidInputError, match="of 48 rows, but X has 47"):
        cross_validate(exact(), X[1:], Y[1:], blocks=first)


def test_what_is_left_out_beside_a_block_is_handed_on_too():
    pairs = [(np.arange(20), np.arange(30, N)), (np.arange(40, N), np.arange(30))]
    first = cross_validate(exact(), X, Y, blocks=pairs)
    again = cross_validate(exact(), X, Y, blocks=first)
    assert_array_equal(again.mean, first.mean)
    assert not np.array_equal(cross_validate(exact(), X, Y, blocks=first.blocks).mean, first.mean)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"blocks": 3, "coords": ["x", "z"]}, "'z', but must be one of"),
        ({"blocks": 3, "coords": [0, 0]}, "different columns"),
        ({"blocks": 3, "coords": "soil"}, "'soil', whose values are no numbers"),
        ({"blocks": 3, "coords": X[1:]}, "47 places, but X has 48 rows"),
        ({"blocks": 3, "coords": np.where(np.arange(N) == 5, np.nan, X.T).T}, "not finite in row 5"),
        ({"blocks": FOUR, "coords": [0, 1]}, "such as blocks=10"),
        ({"coords": [0, 1]}, "such as blocks=10"),
        ({"blocks": 3, "coords": "lonlat"}, "some are no degrees|which columns are longitude"),
    ],
)
def test_places_that_are_none_are_refused(options, words):
    table = pd.DataFrame({"x": 1000 * X[:, 0], "y": X[:, 1], "soil": FOUR})
    with pytest.raises(InvalidInputError, match=words):
        cross_validate(exact(), table, Y, **options)


@pytest.mark.parametrize(
    ("blocks", "words"),
    [
        (FOUR[:-1], "one label for each of the 48 rows"),
        (np.ones(N), "At least 2|at least 2 blocks"),
        (np.where(np.arange(N) == 7, np.nan, 1.0), "no label in row 7"),
        (ShuffleSplit(3, random_state=0), "no test set"),
        ([(np.arange(N), np.arange(3))], "tests rows that it has learned from"),
        (1, "`blocks` is 1"),
        (2.5, "`blocks` is 2.5"),
        ("site", r"table\['site'\]"),
    ],
)
def test_blocks_that_do_not_predict_each_row_once_are_refused(blocks, words):
    with pytest.raises(InvalidInputError, match=words):
        cross_validate(model().fit(X, Y), X, Y, blocks=blocks, refit=False)


@pytest.mark.parametrize(
    ("gp", "options", "words"),
    [
        (model(), {"refit": False}, "is not fitted"),
        (model(), {"knots": "held"}, "is not fitted"),
        (model(), {"knots": "hold"}, "held"),
        (model(), {"level": 95}, "between 0 and 1"),
        (model(), {"sample_weight": np.r_[0.0, np.ones(N - 1)]}, "is 0 in row 0"),
        (model(), {"refit": "no"}, "True or False"),
        (GPClassifier(), {}, "two classes, but here are 48.*neg_log_loss"),
        (KFold(3), {}, "GPClassifier, but got a KFold"),
    ],
)
def test_what_cannot_be_done_is_refused_in_words(gp, options, words):
    with pytest.raises(InvalidInputError, match=words):
        cross_validate(gp, X, Y, **options)


# -- two classes ----------------------------------------------------------------------------------

LABELS = np.where(RNG.uniform(size=N) < ndtr(2 * np.sin(2 * X[:, 0])), "yes", "no")


@pytest.mark.parametrize("refit", [True, False])
def test_two_classes_are_those_of_fits_to_the_other_rows(refit):
    settings = {"knots": 6, "random_state": 0, "n_jobs": 1}
    held = {"optimizer": None, "kernel": KERNEL, "standardize": False} if not refit else {}
    gp = GPClassifier(**settings, **held)
    found = cross_validate(gp.fit(X, LABELS), X, LABELS, blocks=FOUR, refit=refit, knots="anew")
    expected = np.empty(N)
    for rows in groups_of(FOUR):
        others = np.setdiff1d(np.arange(N), rows)
        expected[rows] = clone(gp).fit(X[others], LABELS[others]).predict_proba(X[rows])[:, 1]
    assert_allclose(found.mean, expected, rtol=1e-6)
    assert found.classes == ("no", "yes")
    assert_array_equal(found.y, LABELS == "yes")


def test_two_classes_are_a_bernoulli_regressor_whether_fitted_or_not():
    truth = (LABELS == "yes").astype(float)
    options = {"knots": Fixed("kmeans", 6), "random_state": 0, "n_jobs": 1}
    expected = cross_validate(GPRegressor(likelihood="bernoulli", **options), X, truth, blocks=FOUR)
    gp = GPClassifier(**options)
    for classifier in (gp, clone(gp).fit(X, LABELS)):
        found = cross_validate(classifier, X, LABELS, blocks=FOUR)
        assert_array_equal(found.mean, expected.mean)
        assert_array_equal(found.log_density, expected.log_density)


def test_scores_of_two_classes_are_those_of_scikit_learn():
    weights = RNG.integers(1, 4, N).astype(float)
    gp = GPClassifier(knots=6, random_state=0).fit(X, LABELS, weights)
    found = cross_validate(gp, X, LABELS, blocks=FOUR, refit=False, sample_weight=weights)
    p, truth = found.mean, LABELS == "yes"
    expected = {
        "log_loss": log_loss(truth, p, sample_weight=weights),
        "brier": brier_score_loss(truth, p, sample_weight=weights),
        "accuracy": accuracy_score(truth, p > 0.5, sample_weight=weights),
        "auc": roc_auc_score(truth, p, sample_weight=weights),
    }
    assert found.scores == pytest.approx(expected, rel=1e-9)
    assert "the probability of 'yes'" in repr(found) and "auc" in repr(found)
    one_by_one = cross_validate(gp, X, LABELS, refit=False, sample_weight=weights).scores_by_block()
    assert one_by_one["auc"].isna().all() and one_by_one["brier"].between(0, 1).all()


def test_labels_that_a_held_model_does_not_know_are_named():
    gp = GPClassifier(knots=6, random_state=0).fit(X, LABELS)
    with pytest.raises(InvalidInputError, match="'maybe' in row 3, but the model was fitted to 'no' and 'yes'"):
        cross_validate(gp, X, np.where(np.arange(N) == 3, "maybe", LABELS), refit=False)


def test_an_exposure_that_the_fit_had_is_asked_for():
    gp = model("vfe", mean=1.0, likelihood="poisson").fit(X, COUNTS, exposure=AREA)
    with pytest.raises(InvalidInputError, match=r"cross_validate\(gp, X, y, exposure=...\)"):
        cross_validate(gp, X, COUNTS, refit=False)


def test_an_offset_is_the_logarithm_of_an_exposure():
    gp = model("vfe", mean=1.0, likelihood="poisson", knots=X[:5])
    found = cross_validate(gp, X, COUNTS, blocks=FOUR, offset=np.log(AREA))
    assert_allclose(found.mean, cross_validate(gp, X, COUNTS, blocks=FOUR, exposure=AREA).mean, rtol=1e-9)
    with pytest.raises(InvalidInputError, match="both given"):
        cross_validate(gp, X, COUNTS, blocks=FOUR, exposure=AREA, offset=np.log(AREA))


@pytest.mark.parametrize("refit", [True, False])
def test_what_is_wrong_in_a_row_is_told_by_its_number_in_the_data(refit):
    counts = model("vfe", likelihood="poisson").fit(X, COUNTS)
    with pytest.raises(InvalidInputError, match="-1 in row 40"):
        cross_validate(counts, X, np.where(np.arange(N) == 40, -1.0, COUNTS), blocks=FOUR, refit=refit)
    table = pd.DataFrame(X, columns=["east", "north"]).assign(soil=np.tile(["clay", "sand"], N // 2))
    gp = model(knots="auto").fit(table, Y)
    with pytest.raises(InvalidInputError, match="'east' contains NaN or no value in row 40"):
        cross_validate(gp, table.assign(east=table["east"].where(table.index != 40)), Y, blocks=FOUR, refit=refit)


def test_a_level_that_only_the_left_out_block_has_is_a_new_draw():
    table = pd.DataFrame({"east": X[:, 0], "field": FOUR})
    gp = model(knots="auto").fit(table, Y)
    held = cross_validate(gp, table, Y, blocks=table["field"], refit=False)
    with pytest.warns(FitWarning, match=r"of 4 blocks a fit said, of its own rows: Column 'field' has levels that"):
        anew = cross_validate(gp, table, Y, blocks=table["field"])
    assert_allclose(held.mean, anew.mean, rtol=1e-8)  # parameters are given, so that a fit changes nothing else
    assert_allclose(held.sd, anew.sd, rtol=1e-8)


# -- scores -------------------------------------------------------------------------------------------


def test_scores_are_those_of_the_predictions():
    found = cross_validate(model().fit(X, Y), X, Y, blocks=FOUR, refit=False)
    frame, scores = found.to_frame(), found.scores
    assert_allclose(scores["rmse"], np.sqrt(np.mean((Y - frame["mean"]) ** 2)))
    assert_allclose(scores["coverage"], np.mean(np.abs(found.standardized_error) <= 1.959964), atol=1e-12)
    assert_allclose(scores["nlpd"], np.mean(0.5 * np.log(2 * np.pi * found.sd**2) + 0.5 * found.standardized_error**2))
    by_block = found.scores_by_block()
    assert_array_equal(by_block["block"], ["a", "b", "c", "d"])
    assert_allclose(np.sqrt(np.mean(by_block["rmse"] ** 2)), scores["rmse"])
    assert "48 rows, in 4 blocks" in repr(found) and "95% intervals" in repr(found)


@pytest.mark.parametrize("y", [-2.0, 0.3, 4.0])
def test_crps_is_the_integral_of_its_definition(y):
    mean, sd = 0.5, 1.7
    below = quad(lambda t: ndtr((t - mean) / sd) ** 2, -30, y)[0]
    above = quad(lambda t: ndtr((mean - t) / sd) ** 2, y, 30)[0]
    assert_allclose(gaussian_crps([y], [mean], [sd**2]), [below + above], rtol=1e-7)


class Counting(SquaredExponential):
    """Counts the values that are asked of it."""

    n_values = 0

    def value_and_pullback(self, X, Z):
        Counting.n_values += len(X) * len(Z)
        return super().value_and_pullback(X, Z)


def test_leaving_out_each_of_many_rows_sees_them_through_the_knots_twice(monkeypatch):
    rows = np.random.default_rng(0).uniform(size=(2000, 2))
    gp = GPRegressor(
        Counting(1.0, 0.5, column_scales="standard"), Gaussian(0.01), knots=rows[:30], optimizer=None, n_jobs=1
    )
    gp.fit(rows, np.sin(6 * rows[:, 0]))
    monkeypatch.setattr(Counting, "n_values", 0)
    cross_validate(gp, rows, np.sin(6 * rows[:, 0]), refit=False)
    assert Counting.n_values <= 2 * len(rows) * 30 + 30 * 30
