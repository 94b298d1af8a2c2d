"""What is no number is refused with its row and column: masked values, dates, text, and NaN of every type."""

from datetime import date, timedelta

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from failure_fits import put
from knotwise import GPClassifier, GPRegressor
from knotwise.errors import InvalidInputError
from knotwise.kernels import SquaredExponential

N = 30
RNG = np.random.default_rng(3)
X = RNG.uniform(size=(N, 2))
COUNTS = RNG.poisson(4.0, N).astype(float)
LABELS = (X[:, 0] > 0.5).astype(int)
ONES = np.full(N, 2.0)

HELD = {
    "kernel": SquaredExponential(1.0, 0.5, column_scales="standard"),
    "knots": 5,
    "optimizer": None,
    "random_state": 0,
}


def gaussian():
    return GPRegressor(**HELD)


def poisson():
    return GPRegressor(likelihood="poisson", **HELD)


def binomial():
    return GPRegressor(likelihood="binomial", **HELD)


def classifier():
    return GPClassifier(**HELD)


#: every way in which an array comes in: its name in the error, good values, and what is done with them
DOORS = {
    "fit X": ("X", X, lambda v: gaussian().fit(v, COUNTS)),
    "fit y": ("y", COUNTS, lambda v: gaussian().fit(X, v)),
    "fit sample_weight": ("sample_weight", ONES, lambda v: gaussian().fit(X, COUNTS, sample_weight=v)),
    "fit exposure": ("exposure", ONES, lambda v: poisson().fit(X, COUNTS, exposure=v)),
    "fit trials": ("trials", 20 * ONES, lambda v: binomial().fit(X, COUNTS, trials=v)),
    "fit noise_variance": ("noise_variance", ONES, lambda v: gaussian().fit(X, COUNTS, noise_variance=v)),
    "fit knots": ("knots", X[:6], lambda v: GPRegressor(knots=v, optimizer=None).fit(X, COUNTS)),
    "predict X": ("X", X, lambda v: gaussian().fit(X, COUNTS).predict(v)),
    "predict exposure": ("exposure", ONES, lambda v: poisson().fit(X, COUNTS).predict(X, exposure=v)),
    "predict trials": ("trials", 20 * ONES, lambda v: binomial().fit(X, COUNTS, trials=40).predict(X, trials=v)),
    "predict noise": ("noise_variance", ONES, lambda v: gaussian().fit(X, COUNTS).predict(X, noise_variance=v)),
    "density y": ("y", COUNTS, lambda v: gaussian().fit(X, COUNTS).log_predictive_density(X, v)),
    "classifier X": ("X", X, lambda v: classifier().fit(v, LABELS)),
    "classifier y": ("y", LABELS, lambda v: classifier().fit(X, v)),
    "classifier sample_weight": ("sample_weight", ONES, lambda v: classifier().fit(X, LABELS, sample_weight=v)),
    "classifier predict X": ("X", X, lambda v: classifier().fit(X, LABELS).predict_proba(v)),
    "classifier density y": ("y", LABELS, lambda v: classifier().fit(X, LABELS).log_predictive_density(X, v)),
}
through_every_door = pytest.mark.parametrize(("name", "good", "enter"), DOORS.values(), ids=DOORS.keys())


# -- masks -----------------------------------------------------------------------------------------


@pytest.mark.failure(33)
@through_every_door
def test_a_masked_value_is_refused_with_its_row(name, good, enter):
    """Case 33: a mask says that a value is missing, and the value below it is anything."""
    mask = np.zeros(good.shape, bool)
    mask[3:5, ...] = True
    where = "in row 3, column 0, and 1 more row" if good.ndim == 2 else "in row 3 and 1 more row"
    with pytest.raises(InvalidInputError, match=f"{name}`? is masked {where}.*filled") as caught:
        enter(np.ma.array(good, mask=mask))
    assert_array_equal(caught.value.rows, [3, 4])


@through_every_door
def test_a_masked_array_without_a_masked_value_is_an_array(name, good, enter):
    done, expected = enter(np.ma.array(good, mask=False)), enter(good)
    if hasattr(expected, "predict"):
        size = {name: 1} if name in ("exposure", "trials") else {}
        done, expected = done.predict(X, **size), expected.predict(X, **size)
    assert_array_equal(done, expected)


# -- dates -----------------------------------------------------------------------------------------


def dates_like(good, kind):
    """Dates or durations in the shape of the good values, in the ways that Python has for them."""
    days = np.arange(good.size).reshape(good.shape)
    if kind == "timedelta64":
        return days.astype("timedelta64[D]")
    if kind == "NaT":
        return put(days.astype("datetime64[D]"), ..., np.datetime64("NaT"))
    if kind == "datetime64":
        return days.astype("datetime64[s]")
    unit = {"date": lambda day: date(2020, 1, 1) + timedelta(int(day)), "timedelta": lambda day: timedelta(int(day))}
    return np.vectorize(unit[kind], otypes=[object])(days)


@pytest.mark.failure(21)
@pytest.mark.parametrize("kind", ["timedelta64", "timedelta"])
@through_every_door
def test_durations_are_refused(name, good, enter, kind):
    """Case 21: as numbers they would be counts of whatever unit the array has."""
    with pytest.raises(InvalidInputError, match=f"{name}`? holds dates or times .*not numbers. Convert"):
        enter(dates_like(good, kind))


@pytest.mark.failure(21)
@pytest.mark.parametrize("kind", ["datetime64", "NaT", "date"])
@pytest.mark.parametrize("door", [door for door in DOORS if door not in ("fit X", "classifier X")])
def test_dates_are_refused_where_numbers_were_fitted(door, kind):
    """Case 21: a fit takes them for inputs, and then only the same columns may have them."""
    name, good, enter = DOORS[door]
    with pytest.raises(InvalidInputError, match=f"{name}`? holds dates or times .*not numbers. Convert"):
        enter(dates_like(good, kind))


@pytest.mark.failure(21)
@pytest.mark.parametrize("type_", ["timedelta64[ns]", object])
def test_durations_of_a_data_frame_are_refused_by_the_name_of_the_column(type_):
    """Case 21: also where a column holds them as objects, and dates where all are missing."""
    pd = pytest.importorskip("pandas")
    days = pd.Series(pd.date_range("2020-01-01", periods=N) if type_ is not object else [pd.NaT] * N)
    frame = pd.DataFrame({"size": X[:, 0], "day": days - days[0] if "timedelta" in str(type_) else days.astype(type_)})
    for gp, y in ((gaussian(), COUNTS), (classifier(), LABELS)):
        with pytest.raises(InvalidInputError, match=r"Column 'day' holds dates or times .*not numbers. Convert"):
            gp.fit(frame, y)
    with pytest.raises(InvalidInputError, match="Input y holds dates or times"):
        gaussian().fit(X, frame["day"])


# -- values that are not finite ----------------------------------------------------------------------


@pytest.mark.failure(33)
def test_a_value_that_is_not_finite_is_refused_with_its_column():
    """Case 33: by its name in a data frame, else by its number; at the fit and at a prediction."""
    pd = pytest.importorskip("pandas")
    bad = put(X, [4, 9], np.nan, column=1)
    frame, bad_frame = (pd.DataFrame(values, columns=["lstat", "rm"]) for values in (X, bad))
    for gp, y in ((gaussian(), COUNTS), (classifier(), LABELS)):
        with pytest.raises(InvalidInputError, match="X contains NaN in row 4, column 1, and 1 more row"):
            gp.fit(bad, y)
        with pytest.raises(InvalidInputError, match="X contains NaN in row 4, column 'rm', and 1 more row") as caught:
            gp.fit(bad_frame, y)
        assert_array_equal(caught.value.rows, [4, 9])
        with pytest.raises(InvalidInputError, match="X contains NaN in row 4, column 'rm', and"):
            gp.fit(frame, y).predict(bad_frame)
        with pytest.raises(InvalidInputError, match=r"X contains NaN in row 4, column 'rm'\. Drop"):
            gp.predict(bad_frame[:6])


@pytest.mark.failure(33)
@pytest.mark.parametrize("type_", [np.float16, np.float32, np.float64, np.longdouble, object, list, "series", "Int64"])
def test_a_missing_target_is_refused_with_its_row_whatever_its_type(type_):
    """Case 33: None, NaN and the NA of pandas."""
    bad = put(COUNTS, [7, 8], np.nan)
    if type_ in ("series", "Int64"):
        pd = pytest.importorskip("pandas")
        bad = pd.Series(bad, dtype=object if type_ == "series" else type_)
    elif type_ is list:
        bad = [None if np.isnan(value) else value for value in bad]
    else:
        bad = bad.astype(type_)
    with pytest.raises(InvalidInputError, match="Input y contains NaN in row 7 and 1 more row") as caught:
        gaussian().fit(X, bad)
    assert_array_equal(caught.value.rows, [7, 8])


@pytest.mark.failure(21)
def test_a_target_that_is_text_is_refused_with_its_row():
    """Case 21: in y."""
    with pytest.raises(InvalidInputError, match=r"Input y must be numbers, .* but is 'four' in row 2"):
        gaussian().fit(X, put(COUNTS.astype(object), 2, "four"))


# -- scores and plots -----------------------------------------------------------------------------------------


def masked(y):
    return np.ma.array(y, mask=np.arange(len(y)) == 4)


def dates(y):
    return np.datetime64("2020-01-01") + np.arange(len(y))


def missing(y):
    return np.where(np.arange(len(y)) == 4, np.nan, y)


@pytest.mark.parametrize("spoil", [masked, dates, missing])
@pytest.mark.parametrize("ask", ["score", "log_predictive_density", "plot_calibration", "plot_pit", "plot_observed"])
def test_targets_that_are_no_numbers_are_refused_in_scores_and_plots(ask, spoil, rng):
    from knotwise import plotting

    X = rng.uniform(size=(30, 1))
    gp = GPRegressor(knots=4, random_state=0).fit(X, X[:, 0])
    call = getattr(gp, ask) if hasattr(gp, ask) else lambda *rows: getattr(plotting, ask)(gp, *rows)
    with pytest.raises(InvalidInputError, match=r"masked in row 4|dates or times|NaN in row 4"):
        call(X, spoil(X[:, 0]))


def test_masked_labels_weights_and_rows_of_a_list_are_refused(rng):
    X = rng.uniform(size=(30, 2))
    gp = GPClassifier(knots=4, random_state=0).fit(X, X[:, 0] > 0.5)
    with pytest.raises(InvalidInputError, match="masked in row 4"):
        gp.score(X, masked(X[:, 0] > 0.5))
    with pytest.raises(InvalidInputError, match="`sample_weight` is masked in row 4"):
        gp.score(X, X[:, 0] > 0.5, masked(np.ones(30)))
    rows = [np.ma.array(row, mask=[i == 4, False]) for i, row in enumerate(X)]
    with pytest.raises(InvalidInputError, match="Input X is masked in row 4"):
        GPRegressor(knots=4).fit(rows, X[:, 0])
