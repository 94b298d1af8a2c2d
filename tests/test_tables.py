"""Tables as people have them: categories, dates and missing values, against dense twins and one's own encoding."""

import logging
import re
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import knotwise
from knotwise import GPClassifier, GPRegressor
from knotwise.data.cells import is_missing
from knotwise.data.groups import check_groups
from knotwise.errors import FitWarning, InvalidInputError, UnknownOptionError
from knotwise.kernels import Linear, Matern52, SquaredExponential
from knotwise.means import Linear as LinearMean
from knotwise.priors import LogNormal
from knotwise.testing import assert_adjoint, check_kernel

N = 60
EFFECT = {"Oslo": -1.0, "Rome": 1.0, "Bonn": 2.5}


def table(n=N, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"depth": rng.uniform(0, 5, n), "city": rng.choice(list(EFFECT), n)})
    return frame, np.sin(frame["depth"].to_numpy()) + frame["city"].map(EFFECT).to_numpy() + 0.1 * rng.normal(size=n)


def held(**options):
    """An exact GP whose parameters stay as they are, in the units of the data."""
    settings = {"approximation": "full", "optimizer": None, "standardize": False, "mean": 0.0, "n_jobs": 1}
    return GPRegressor(**{"kernel": Matern52(2.0, [1.5, 0.8]), "likelihood": noise(0.01)} | settings | options)


def noise(variance):
    return knotwise.likelihoods.Gaussian(variance)


def dask_frame(frame, npartitions=1):
    return pytest.importorskip("dask.dataframe").from_pandas(frame, npartitions=npartitions)


def exchangeable(frame, other, lengthscales=(1.5, 0.8), variance=2.0):
    """Matern 5/2 by hand, of a number and a level: two different levels are at the distance 1."""
    apart = np.subtract.outer(frame["depth"].to_numpy(), other["depth"].to_numpy()) / lengthscales[0]
    differ = frame["city"].to_numpy()[:, None] != other["city"].to_numpy()
    s = np.sqrt(5 * (apart**2 + differ / lengthscales[1] ** 2))
    return variance * (1 + s + s**2 / 3) * np.exp(-s)


def dense(frame, y, new):
    """Mean and standard deviation of new observations."""
    K = exchangeable(frame, frame) + 0.01 * np.eye(len(frame))
    k = exchangeable(frame, new)
    return k.T @ np.linalg.solve(K, y), np.sqrt(2.0 - (k * np.linalg.solve(K, k)).sum(0) + 0.01)


# -- categories ---------------------------------------------------------------------------------------


@pytest.mark.failure(21)
def test_a_category_has_the_exchangeable_kernel():
    """Case 21: text columns are categories."""
    frame, y = table()
    new = table(20, seed=1)[0]
    mean, std = held().fit(frame, y).predict(new, return_std=True)
    expected_mean, expected_std = dense(frame, y, new)
    assert_allclose(mean, expected_mean, rtol=1e-10, atol=1e-10)
    assert_allclose(std, expected_std, rtol=1e-10)


def test_an_unseen_level_is_a_new_draw_with_a_warning():
    frame, y = table()
    new = pd.DataFrame({"depth": [0.5, 3.0], "city": ["Olso", "Olso"]})
    with pytest.warns(FitWarning, match=r"'city' has levels that the fit did not see") as told:
        mean, std = held().fit(frame, y).predict(new, return_std=True)
    assert "the level 'Olso' in rows 0, 1" in told[0].message.details
    assert "Did you mean 'Oslo'?" in told[0].message.details
    assert_array_equal(told[0].message.rows, [0, 1])
    expected_mean, expected_std = dense(frame, y, new)
    assert_allclose(mean, expected_mean, rtol=1e-10, atol=1e-10)
    assert_allclose(std, expected_std, rtol=1e-10)


def test_a_warning_of_unseen_levels_has_the_same_text_at_every_call_and_the_log_names_them(caplog):
    frame, y = table()
    gp = held().fit(frame, y)
    cities = ["Olso", "Kiel", "Graz"]
    with pytest.warns(FitWarning) as told, caplog.at_level(logging.INFO, "knotwise"):
        for i, city in enumerate(cities):
            gp.predict(frame[: 1 + i].assign(city=city))
        gp.predict(frame[:2].assign(city=["Lima", "Cork"]))
    assert len(told) == 4
    assert len({str(each.message) for each in told}) == 1  # so that Python's filters know it again
    assert [record.name for record in caplog.records] == ["knotwise"] * 4
    said = [record.getMessage() for record in caplog.records]
    assert said == [each.message.details for each in told]
    assert all(f"the level {city!r} in row" in words for city, words in zip(cities, said[:3], strict=True))
    assert "2 levels ('Lima', 'Cork') in rows 0, 1" in said[3]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Column 'city' has levels that the fit did not see")
        gp.predict(frame.assign(city="Kiel"))


@pytest.mark.parametrize("knots", ["full", 15])
def test_names_and_order_of_levels_do_not_matter(knots):
    frame, y = table()
    options = {"approximation": "full"} if knots == "full" else {"knots": knots, "optimizer": None}
    options |= {"kernel": SquaredExponential(1.0, [0.7, 0.9], column_scales="standard"), "random_state": 0, "n_jobs": 1}
    other = frame.assign(city=frame["city"].map({"Oslo": "z", "Rome": "a", "Bonn": "m"}))
    fits = [GPRegressor(**options).fit(X, y) for X in (frame, other)]
    if knots == 15:  # the same knots, since drawing them at random starts from sorted rows
        given = [X.iloc[:15] for X in (frame, other)]
        fits = [GPRegressor(**options | {"knots": Z}).fit(X, y) for X, Z in zip((frame, other), given, strict=True)]
    one, two = (gp.predict(X, return_std=True) for gp, X in zip(fits, (frame, other), strict=True))
    tolerance = 1e-10 if knots == 15 else 1e-5  # of an optimiser that sums in another order
    assert_allclose(two, one, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    "as_type",
    [
        lambda city: city.astype("category"),
        lambda city: city.astype(pd.CategoricalDtype(["Paris", "Rome", "Oslo", "Bonn"])),
        lambda city: city.astype("string"),
        lambda city: city.astype(object),
    ],
)
def test_how_a_frame_stores_levels_does_not_matter(as_type):
    frame, y = table()
    expected = held().fit(frame, y).predict(frame)
    stored = frame.assign(city=as_type(frame["city"]))
    gp = held().fit(stored, y)
    assert gp.encoding_.levels == {"city": ("Bonn", "Oslo", "Rome")}  # without those that no row has
    assert_array_equal(gp.predict(frame), expected)
    assert_array_equal(gp.predict(stored.iloc[::-1])[::-1], expected)


def test_an_array_of_objects_is_a_table_too():
    frame, y = table()
    array = frame.to_numpy(object)
    expected = held().fit(frame, y).predict(frame)
    assert_array_equal(held().fit(array, y).predict(array), expected)
    assert_array_equal(held().fit(array.tolist(), y).predict(array.tolist()), expected)


def test_levels_that_look_like_numbers_stay_levels():
    frame, y = table()
    codes = frame["city"].map({"Oslo": "1", "Rome": "2", "Bonn": "10"})
    expected = held().fit(frame, y).predict(frame)
    category = frame.assign(city=codes.astype("category"))
    named = frame.assign(city=codes.astype(float))
    assert_allclose(held().fit(category, y).predict(category), expected, rtol=1e-10)
    gp = held(categorical=["city"]).fit(named, y)
    assert gp.encoding_.levels == {"city": ("1", "10", "2")}
    assert_allclose(gp.predict(named), expected, rtol=1e-10)
    assert_array_equal(gp.predict(category), gp.predict(named))  # 1, 1.0 and "1" are one level


@pytest.mark.failure(21)
def test_numbers_and_booleans_are_no_categories():
    """Case 21: object columns of numbers convert."""
    frame, y = table()
    plain = pd.DataFrame({"depth": frame["depth"], "wet": frame["city"] == "Rome"})
    as_objects = plain.astype(object)
    as_decimals = plain.assign(depth=[Decimal(v) for v in plain["depth"].tolist()])
    gp = held().fit(plain, y)
    for same in (as_objects, as_decimals, plain.convert_dtypes()):
        assert_array_equal(held().fit(same, y).predict(same), gp.predict(plain))


CODES = {"Oslo": "101", "Rome": "205", "Bonn": "1e3"}


@pytest.mark.failure(53)
@pytest.mark.parametrize(
    "as_type",
    [
        lambda codes: codes,
        lambda codes: codes.astype(object),
        lambda codes: codes.astype("string"),
        lambda codes: codes.astype("category"),
        lambda codes: codes.map(str.encode),
    ],
)
def test_text_codes_are_levels_and_not_numbers(as_type):
    frame, y = table()
    coded = frame.assign(city=as_type(frame["city"].map(CODES)))
    gp = held().fit(coded, y)
    assert gp.encoding_.levels == {"city": ("101", "1e3", "205")}
    assert_allclose(gp.predict(coded), dense(frame, y, frame)[0], rtol=1e-10, atol=1e-10)
    new = coded[:1].assign(city="150")
    with pytest.warns(FitWarning, match="'city' has levels that the fit did not see"):
        mean, std = gp.predict(new, return_std=True)
    expected = dense(frame, y, frame[:1].assign(city="nowhere"))
    assert_allclose([mean, std], expected, rtol=1e-10)


def test_text_codes_of_arrays_and_lists_are_levels_too():
    frame, y = table()
    array = frame.assign(city=frame["city"].map(CODES)).to_numpy(object)
    expected = dense(frame, y, frame)[0]
    for rows in (array, array.tolist()):
        assert_allclose(held().fit(rows, y).predict(rows), expected, rtol=1e-10, atol=1e-10)
    codes = array[:, 1:].astype(str)
    kernel = SquaredExponential(1.0, 0.8)
    expected = held(kernel=kernel).fit(frame[["city"]], y).predict(frame[["city"]])
    for rows in (codes, codes.astype("S"), codes.tolist()):
        assert_allclose(held(kernel=kernel).fit(rows, y).predict(rows), expected, rtol=1e-10)


def test_text_that_looks_like_numbers_is_converted_by_the_user():
    frame, y = table()
    text = frame.assign(depth=frame["depth"].map(repr))
    with pytest.raises(InvalidInputError, match=r"'depth' is text that looks like numbers.*pandas\.to_numeric.*cate"):
        held().fit(text, y)
    numbers = text.assign(depth=pd.to_numeric(text["depth"]))
    assert_array_equal(held().fit(numbers, y).predict(text), held().fit(frame, y).predict(frame))
    one = frame.astype(object)
    one.loc[4, "depth"] = "2.5"
    with pytest.raises(InvalidInputError, match=r"'depth' holds the text '2\.5' in row 4, among numbers.*to_numeric"):
        held().fit(one, y)


def test_the_encoding_says_what_every_column_was_taken_for_and_the_summary_what_was_converted(tmp_path):
    frame, y = table()
    coded = frame.assign(city=frame["city"].map(CODES))
    gp = held().fit(coded, y)
    words = "category of 3 levels: 101, 1e3, 205"
    assert str(gp.encoding_).splitlines() == ["depth  numbers", f"city   {words}"]
    assert f"city  {words}" in gp.summary().splitlines()
    plain = held().fit(frame[["depth"]].assign(width=1.0), y)
    assert str(plain.encoding_).splitlines() == ["depth  numbers", "width  numbers"]
    assert_array_equal(plain.encoding_(frame[["depth"]].assign(width=1.0)), frame[["depth"]].assign(width=1.0))
    assert "plain numbers" not in plain.summary()
    plain.save(tmp_path / "m.knotwise")
    assert knotwise.load(tmp_path / "m.knotwise").encoding_ == plain.encoding_
    array = held(kernel=SquaredExponential()).fit(frame[["depth"]].to_numpy(), y)
    assert str(array.encoding_) == "column 0  numbers"
    labels = GPClassifier(SquaredExponential(), knots=4, optimizer=None).fit(coded, y > 1)
    assert labels.encoding_ == gp.encoding_
    with pytest.raises(AttributeError):
        _ = GPRegressor().encoding_


def test_knots_stay_on_levels_that_were_observed():
    frame, y = table(200)
    gp = GPRegressor(SquaredExponential(), knots=12, random_state=0, n_jobs=1).fit(frame, y)
    assert set(gp.knots_[:, 1]) <= set(EFFECT)
    moved = {float(depth) for depth in gp.knots_[:, 0]}
    assert not moved & set(frame["depth"])  # they did move, where they could
    engine = gp._fit.selection.Z[:, 1:]
    assert_array_equal(np.sort(engine, axis=1)[:, :-1], 0.0)
    assert_allclose(engine.max(1), np.sqrt(0.5), rtol=1e-15)
    again = GPRegressor(SquaredExponential(), knots=gp.knots_, random_state=0, n_jobs=1, optimizer=None)
    assert_array_equal(again.fit(frame, y).knots_, gp.knots_)


def test_each_column_has_one_lengthscale_by_its_name():
    frame, y = table()
    gp = GPRegressor(SquaredExponential(ard=True), random_state=0, n_jobs=1, fixed=["lengthscale[depth]"]).fit(frame, y)
    names = ("variance", "lengthscale[depth]", "lengthscale[city]", "noise_variance")
    assert gp.parameters_.names == names
    assert gp.parameters_.fixed.tolist() == [False, True, False, False]
    lines = gp.parameters_.to_frame(standard_errors=False).set_index("parameter")
    assert lines.loc["lengthscale[city]", "column"] == "city"
    assert lines.loc["lengthscale[city]", "data_value"] == gp.parameters_["lengthscale[city]"]
    assert lines.loc["lengthscale[depth]", "data_units"] == "depth"
    assert "city" in str(gp.summary())


def test_a_prior_of_levels_is_in_distances_of_two_levels():
    frame, y = table()
    priors = {"lengthscale[city]": LogNormal(0.9, 1.0), "lengthscale[depth]": LogNormal(2.0, 1.0)}
    gp = GPRegressor(SquaredExponential(ard=True), optimizer=None, knots=5, random_state=0, priors=priors).fit(frame, y)
    spread = gp._fit.scaling.x_scale[0]
    assert_allclose([gp._fit.table.priors[i].median for i in (1, 2)], [2.0 / spread, 0.9], rtol=1e-12)
    assert_allclose([gp.parameters_.priors[i].median for i in (1, 2)], [2.0, 0.9], rtol=1e-12)


def test_a_plain_column_can_be_called_by_its_name_in_options():
    frame, y = table()
    numbers = pd.DataFrame({"depth": frame["depth"], "height": frame["depth"] ** 2})
    gp = GPRegressor(SquaredExponential(ard=True), bounds={"lengthscale[height]": (3.0, 4.0)}, random_state=0, n_jobs=1)
    table_of = gp.fit(numbers, y).parameters_
    assert (table_of.lower[2], table_of.upper[2]) == pytest.approx((3.0, 4.0), rel=1e-12)
    assert table_of.names[2] == "lengthscale[1]"


def test_kernels_and_means_choose_columns_by_the_users_names():
    frame, y = table()
    frame = frame.assign(width=np.linspace(0, 1, N))
    kernel = Matern52(1.0, 1.0).on(["width", "depth"]) * SquaredExponential(1.0, 0.7).on("city")
    by_name = held(kernel=kernel).fit(frame, y)
    by_number = held(kernel=Matern52(1.0, 1.0).on([2, 0]) * SquaredExponential(1.0, 0.7).on([1])).fit(frame, y)
    assert_array_equal(by_name.predict(frame), by_number.predict(frame))
    differ = frame["city"].to_numpy()[:, None] != frame["city"].to_numpy()
    levels = np.exp(-0.5 * differ / 0.7**2)
    numbers = held(kernel=Matern52(1.0, 1.0)).fit(frame[["depth", "width"]], y)
    K = numbers.kernel_(frame[["depth", "width"]].to_numpy()) * levels
    assert_allclose(by_name.predict(frame), K @ np.linalg.solve(K + 0.01 * np.eye(N), y), rtol=1e-9, atol=1e-9)

    trend = held(kernel=kernel, mean="linear").fit(frame, y)
    assert trend.coefficients_.names == ("intercept", "depth", "width")
    effects = held(kernel=Matern52(1e-8, 1.0).on("depth"), mean=LinearMean(columns=["city"])).fit(frame, y)
    means = {city: y[frame["city"] == city].mean() for city in EFFECT}
    found = effects.coefficients_.contrast("Rome", "Oslo")
    assert_allclose(found.estimate, means["Rome"] - means["Oslo"], rtol=2e-3)


@pytest.mark.parametrize("kernel", [Matern52(1.3, ard=True), Linear(ard=True)])
def test_kernels_of_encoded_columns_pass_the_check_of_kernels(kernel):
    frame, y = table()
    columns = held().fit(frame, y).encoding_.columns
    bound = kernel.bind(columns, len(columns))
    assert bound.size == kernel.bind(None, 2).size
    check_kernel(bound, n_columns=len(columns))


def test_a_category_is_not_standardised_and_keeps_its_place_beside_numbers():
    frame, y = table()
    kernel = Matern52(2.0, [1.5, 0.8], column_scales="standard")
    both = [held(kernel=kernel, standardize=how).fit(frame, y) for how in (False, "columns", "common")]
    for gp in both:
        part = gp._fit.scaling.x_scale[1:]
        assert_array_equal(part, np.sqrt(2.0))
        assert_array_equal(gp._fit.scaling.x_centre[1:], 0.0)


def test_an_identifier_is_refused_as_a_category():
    frame, y = table()
    names = frame.assign(city=[f"person {i}" for i in range(N)])
    with pytest.raises(InvalidInputError, match=r"'city' has 60 different values in 60 rows.*categorical"):
        held().fit(names, y)
    held(categorical=["city"]).fit(names, y)  # who asks for it gets it


@pytest.mark.failure(21)
def test_text_among_numbers_is_refused_with_its_row():
    """Case 21: a slip is no level."""
    frame, y = table()
    for as_type in (str, float):
        slip = frame.assign(depth=["n/a" if i == 3 else as_type(v) for i, v in enumerate(frame["depth"])])
        with pytest.raises(InvalidInputError, match=r"'depth' holds 'n/a' in row 3.*not a number"):
            held().fit(slip, y)
    commas = frame.assign(depth=[str(v).replace(".", ",") for v in frame["depth"]])
    with pytest.raises(InvalidInputError, match=r"'depth' holds '\d,\d+' in row 0.*not a number"):
        held().fit(commas, y)


@pytest.mark.parametrize("text", ["1_000", "\uff11\uff12", "$1,200"])
def test_only_the_digits_0_to_9_are_numbers_in_frames_as_in_files(text):
    frame, y = table()
    slip = frame.astype({"depth": object})
    slip.loc[4, "depth"] = text
    no_number = rf"'depth' holds {re.escape(repr(text))} in row 4, which is not a number"
    for gp in (held(), held(missing="mean")):
        with pytest.raises(InvalidInputError, match=no_number):
            gp.fit(slip, y)
        with pytest.raises(InvalidInputError, match=no_number):
            gp.fit(frame, y).predict(slip)
    codes = slip.drop(columns="city")
    with pytest.raises(InvalidInputError, match=no_number):
        held(kernel=Matern52()).fit(frame[["depth"]], y).predict(codes)
    for given in (slip["depth"], slip["depth"].tolist(), np.array(slip["depth"].map(str).tolist())):
        with pytest.raises(InvalidInputError, match=rf"y must be numbers.*{re.escape(repr(text))} in row 4"):
            held().fit(frame, given)
    numerals = frame["depth"].map(repr)
    assert_array_equal(held().fit(frame, numerals).predict(frame), held().fit(frame, frame["depth"]).predict(frame))


def test_amounts_are_text_that_looks_like_numbers():
    frame, y = table()
    amounts = frame.assign(depth=[f"${1000 * v:,.2f}" for v in frame["depth"]])
    with pytest.raises(InvalidInputError, match=r"holds '\$.*in row 0, which is not a number, and is text that looks"):
        held().fit(amounts, y)


def test_text_among_dates_is_refused_with_its_row():
    frame, y = table()
    for dates in ([pd.Timestamp("2024-01-31")] * N, ["2024-01-31"] * N):
        slip = frame.assign(when=[*dates[:-1], "soon"])
        with pytest.raises(InvalidInputError, match=r"'when' holds 'soon' in row 59.*not a date.*categorical"):
            held().fit(slip, y)


@pytest.mark.parametrize("text", ["%d/%m/%Y", "%m/%d/%y", "%d.%m.%Y", "%Y/%m/%d", "%Y-%m"])
def test_dates_that_could_be_read_in_two_ways_are_no_levels(text):
    frame, y = table()
    when = frame.assign(when=pd.to_datetime("2024-01-09").strftime(text))
    with pytest.raises(InvalidInputError, match=r"'when' holds .*looks like a date.*2024-01-31"):
        held().fit(when, y)
    kernel = SquaredExponential()
    assert held(kernel=kernel, categorical=["when"]).fit(when, y).encoding_.levels["when"] == (when["when"][0],)


def test_durations_and_periods_are_refused_with_how_to_convert_them():
    frame, y = table()
    when = pd.Series(pd.date_range("2024-01-01", periods=N, freq="W"))
    with pytest.raises(InvalidInputError, match="total_seconds"):
        held().fit(frame.assign(when=when - when[0]), y)
    with pytest.raises(InvalidInputError, match="to_timestamp"):
        held().fit(frame.assign(when=when.dt.to_period("M")), y)


def test_a_classifier_takes_tables_too(tmp_path):
    frame, y = table(120)
    labels = np.select([y < 0, y < 2], ["low", "middle"], "high")
    kernel = SquaredExponential(4.0, [0.7, 0.9], column_scales="standard")
    gp = GPClassifier(kernel, knots=20, optimizer=None, random_state=0, n_jobs=1).fit(frame, labels)
    assert np.mean(gp.predict(frame) == labels) > 0.8
    assert gp.parameters_[0].names[1:3] == ("lengthscale[depth]", "lengthscale[city]")
    gp.save(tmp_path / "model.knotwise")
    assert_array_equal(knotwise.load(tmp_path / "model.knotwise").predict_proba(frame), gp.predict_proba(frame))
    with pytest.warns(FitWarning, match="'city'") as told:
        gp.predict_proba(frame.assign(city="Olso"))
    assert len(told) == 1


def test_weights_count_levels_as_copies_of_rows_do():
    frame, y = table()
    weights = np.where(frame["city"] == "Bonn", 0.0, 1.0)
    gp = held(missing="mean").fit(frame, y, sample_weight=weights)
    without = held(missing="mean").fit(frame[weights > 0], y[weights > 0])
    assert gp.encoding_ == without.encoding_
    assert_allclose(gp.predict(frame[weights > 0]), without.predict(frame[weights > 0]), rtol=1e-12)


def test_columns_in_another_order_are_refused():
    frame, y = table()
    with pytest.raises(ValueError, match="order"):
        held().fit(frame, y).predict(frame[["city", "depth"]])


@pytest.mark.parametrize("names", [["depth", "city", "depth"], ["city", "city", "depth"], [0, 1, 1]])
def test_two_columns_of_one_name_are_refused_by_name(names):
    frame, y = table()
    kernel = SquaredExponential()
    good = pd.DataFrame({"depth": frame["depth"], "city": frame["depth"] ** 2, "width": 1.0})
    twice = good.set_axis(names, axis=1)
    repeated = next(repr(name) for name in names if names.count(name) > 1)
    where = ", ".join(str(i) for i, name in enumerate(names) if repr(name) == repeated)
    message = rf"2 columns of one name, {repeated} \(columns {where}, .*Rename"
    for estimator, target in ((held(kernel=kernel), y), (GPClassifier(kernel, knots=3, optimizer=None), y > 1)):
        with pytest.raises(InvalidInputError, match=message):
            estimator.fit(twice, target)
        estimator.fit(good, target)
        with pytest.raises(InvalidInputError, match=message):
            estimator.predict(twice)
        estimator.fit(good.assign(width=frame["city"]), target)  # with an encoding
        with pytest.raises(InvalidInputError, match=message):
            estimator.predict(twice)


def test_dask_collections_refuse_text_codes_and_columns_of_one_name():
    frame, y = table()
    numbers = frame.assign(city=frame["city"].map({"Oslo": 101, "Rome": 205, "Bonn": 317}))
    target = dask_frame(pd.Series(y), 2)
    gp = GPRegressor(SquaredExponential(), knots=5, optimizer=None, random_state=0)
    codes = numbers.assign(city=numbers["city"].astype(str))
    with pytest.raises(InvalidInputError, match=r"Partition \d: Column 'city' holds '\d+' in row 0, which is text"):
        gp.fit(dask_frame(codes, 2), target)
    array = pytest.importorskip("dask.array").from_array(codes.to_numpy(object), chunks=(30, 2))
    with pytest.raises(InvalidInputError, match=r"Partition \d: Column 1 holds '\d+' in row 0, which is text"):
        gp.fit(array, y)
    twice = dask_frame(numbers.set_axis(["depth", "depth"], axis=1), 2)
    message = r"2 columns of one name, 'depth' \(columns 0, 1, "
    with pytest.raises(InvalidInputError, match=message):
        gp.fit(twice, target)
    gp.fit(dask_frame(numbers, 2), target)
    assert str(gp.encoding_).splitlines() == ["depth  numbers", "city   numbers"]
    with pytest.raises(InvalidInputError, match=message):
        gp.predict(twice)


# -- missing values -----------------------------------------------------------------------------------


def with_gaps(frame):
    gaps = frame.copy()
    gaps.loc[[3, 17, 40], "depth"] = np.nan
    gaps.loc[[5, 17], "city"] = None
    return gaps


@pytest.mark.parametrize(("column", "rows"), [("depth", "rows 3, 17, 40"), ("city", "rows 5, 17")])
def test_missing_inputs_are_refused_with_column_and_rows(column, rows):
    frame, y = table()
    gaps = frame.assign(**{column: with_gaps(frame)[column]})
    if column == "depth":
        with pytest.raises(InvalidInputError, match=rf"'{column}' .* in {rows}.*missing='mean'"):
            held().fit(gaps, y)
    with pytest.raises(InvalidInputError, match=rf"'{column}' .* in {rows}"):
        held().fit(frame, y).predict(gaps)


def test_the_mean_is_ones_own_imputation_with_the_mean_of_the_fit():
    frame, y = table()
    gaps = frame.assign(depth=with_gaps(frame)["depth"])
    filled = gaps.fillna({"depth": gaps["depth"].mean()})
    gp, own = held(missing="mean").fit(gaps, y), held().fit(filled, y)
    assert_allclose(gp.predict(gaps), own.predict(filled), rtol=1e-12)
    new = pd.DataFrame({"depth": [np.nan], "city": ["Rome"]})
    assert_allclose(gp.predict(new), own.predict(new.fillna({"depth": gaps["depth"].mean()})), rtol=1e-12)


def test_an_indicator_is_ones_own_column_of_flags():
    frame, y = table()
    gaps = frame[["depth"]].assign(depth=with_gaps(frame)["depth"])
    flagged = pd.DataFrame(
        {"depth": gaps["depth"].fillna(gaps["depth"].mean()), "gone": gaps["depth"].isna().astype(float)}
    )
    kernel = Matern52(2.0, [1.5, 0.8])
    gp = held(kernel=kernel, missing="indicator").fit(gaps, y)
    expected = held(kernel=kernel).fit(flagged, y).predict(flagged)
    assert_allclose(gp.predict(gaps), expected, rtol=1e-12, atol=1e-12)
    assert gp.parameters_.names[1:3] == ("lengthscale[depth]", "lengthscale[depth (missing)]")


def test_a_missing_category_is_a_level_of_its_own():
    frame, y = table()
    gaps = frame.assign(city=with_gaps(frame)["city"])
    own = gaps.fillna({"city": "nobody knows"})
    for how in ("error", "mean", "indicator"):
        gp = held(missing=how).fit(gaps, y)
        assert_allclose(gp.predict(gaps), held().fit(own, y).predict(own), rtol=1e-10, atol=1e-10)
    assert "; a missing value is a level of its own" in gp.summary()


def test_a_level_that_is_called_missing_is_the_missing_one(tmp_path):
    frame, y = table()
    gaps = frame.assign(city=frame["city"].where(frame.index > 4))
    called = gaps.assign(city=np.where(frame.index < 2, "(missing)", gaps["city"]))
    gp, same = (held(missing="mean").fit(data, y) for data in (gaps, called))
    assert_allclose(same.predict(called), gp.predict(gaps), rtol=1e-10)
    same.save(tmp_path / "model.knotwise")
    assert_array_equal(knotwise.load(tmp_path / "model.knotwise").predict(gaps), same.predict(called))


def test_every_kind_of_missing_value_is_missing():
    frame, y = table()
    expected = held(missing="mean").fit(with_gaps(frame), y).predict(with_gaps(frame))
    as_objects = with_gaps(frame).astype(object).where(with_gaps(frame).notna(), None)
    nullable = with_gaps(frame).convert_dtypes()
    array = as_objects.to_numpy(object)
    for gaps in (as_objects, nullable, array):
        assert_allclose(held(missing="mean").fit(gaps, y).predict(gaps), expected, rtol=1e-12)
    for gap in (None, np.nan, pd.NA, pd.NaT, Decimal("NaN"), np.datetime64("NaT"), np.timedelta64("NaT")):
        assert is_missing(gap)
        with pytest.raises(InvalidInputError, match="`groups` has no label in row 0"):
            check_groups([gap, "a"], 2)
    with pytest.raises(InvalidInputError, match="Input y contains NaN in row 1 and 1 more row"):
        held().fit(frame, [y[0], None, pd.NA, *y[3:]])


# -- dates --------------------------------------------------------------------------------------------


def days(n=N):
    seconds = np.random.default_rng(2).integers(0, 900 * 86400, n)
    return pd.Timestamp("2023-03-01") + pd.to_timedelta(seconds, unit="s")


@pytest.mark.parametrize(
    "as_type",
    [
        lambda when: when,
        lambda when: when.astype(object),
        lambda when: when.strftime("%Y-%m-%dT%H:%M:%S"),
        lambda when: when.tz_localize("UTC").tz_convert("Asia/Tokyo"),
    ],
)
def test_dates_are_days_since_the_first(as_type):
    when = days()
    y = np.sin(np.arange(N))
    number = (when - when.min()).total_seconds().to_numpy() / 86400
    kernel = Matern52(2.0, 40.0)
    gp = held(kernel=kernel).fit(pd.DataFrame({"when": as_type(when)}), y)
    expected = held(kernel=kernel).fit(number[:, None], y).predict(number[:, None])
    assert_allclose(gp.predict(pd.DataFrame({"when": as_type(when)})), expected, rtol=1e-8, atol=1e-10)
    assert f"days since {when.min()}" in str(gp.encoding_)


@pytest.mark.failure(53)
@pytest.mark.parametrize(
    "number",
    [5, 2023, 20230401, 5.0, True, 1680307200, 1680307200000000000, np.int64(20230401), Decimal(5), pd.Timedelta("1D")],
)
def test_a_number_among_dates_is_refused_with_its_row_and_what_to_write(number):
    frame, y = pd.DataFrame({"when": days()}), np.arange(float(N))
    gp = held(kernel=Matern52(2.0, 40.0)).fit(frame, y)
    mixed = frame.astype(object)
    mixed.loc[7, "when"] = number
    message = r"'.*' holds .* in row {}, which is not a date\. Write dates as 2024-01-31"
    with pytest.raises(InvalidInputError, match=message.format(7)) as error:
        gp.predict(mixed)
    assert_array_equal(error.value.rows, [7])
    with pytest.raises(InvalidInputError, match=message.format(7)):
        held(kernel=Matern52(2.0, 40.0)).fit(mixed, y)
    with pytest.raises(InvalidInputError, match=message.format(7)):
        held(kernel=Matern52(2.0, 40.0)).fit(mixed.to_numpy(), y)
    with pytest.raises(InvalidInputError, match=message.format(0)):
        gp.predict(pd.DataFrame({"when": [number] * 2}))


@pytest.mark.parametrize("dtype", ["int64", "Int64", "uint32", "float64", "bool"])
def test_a_column_of_numbers_is_no_column_of_dates(dtype):
    frame, y = pd.DataFrame({"when": days()}), np.arange(float(N))
    gp = held(kernel=Matern52(2.0, 40.0)).fit(frame, y)
    numbers = pd.DataFrame({"when": pd.Series([20230401, 20230402]).astype(dtype)})
    for rows in (numbers, dask_frame(numbers)):
        with pytest.raises(
            InvalidInputError, match=r"'when' holds .* in row 0, which is not a date.*pandas\.to_datetime"
        ):
            np.asarray(gp.predict(rows))


@pytest.mark.parametrize(
    "text", ["5", "2023", "202304", "-5", "1680307200", "1610121512345", "20230401123", "20230401.5"]
)
def test_text_that_is_a_date_by_chance_only_is_refused(text):
    gp = held(kernel=Matern52(2.0, 40.0)).fit(pd.DataFrame({"when": days()}), np.arange(float(N)))
    with pytest.raises(InvalidInputError, match=rf"'when' holds '{text}' in row 0, which is not a date"):
        gp.predict(pd.DataFrame({"when": [text]}))


def test_eight_digits_are_a_date_where_they_are_text():
    when, y = days().normalize(), np.arange(float(N))
    kernel = Matern52(2.0, 40.0)
    frame, digits = (pd.DataFrame({"when": w}) for w in (when, when.strftime("%Y%m%d")))
    gp = held(kernel=kernel).fit(frame, y)
    assert_array_equal(gp.predict(digits), gp.predict(frame))
    fitted = held(kernel=kernel).fit(digits, y)
    assert fitted.encoding_ == gp.encoding_
    assert_array_equal(fitted.predict(frame), gp.predict(frame))
    codes = digits.assign(when=np.where(np.arange(N) % 2 == 0, "20230401", "20239901"))  # not all are dates
    assert held(kernel=kernel).fit(codes, y).encoding_.levels == {"when": ("20230401", "20239901")}


def test_a_period_repeats_itself():
    when = days(200)
    y = np.sin(2 * np.pi * when.day_of_year.to_numpy() / 365.25)
    frame = pd.DataFrame({"when": when})
    kernel = SquaredExponential(2.0, [1e6, 0.7])
    gp = held(kernel=kernel, periods={"when": "year"}).fit(frame, y)
    assert gp.parameters_.names[1:3] == ("lengthscale[when]", "lengthscale[when (year)]")
    later = frame.assign(when=frame["when"] + pd.Timedelta(days=4 * 365.2425))
    assert_allclose(gp.predict(later), gp.predict(frame), atol=1e-4)
    number = (when - when.min()).total_seconds().to_numpy()[:, None] / 86400
    circle = np.hstack([f(2 * np.pi * number / 365.2425) for f in (np.cos, np.sin)])
    twin = held(kernel=SquaredExponential(2.0, [1e6, 0.7, 0.7])).fit(np.hstack([number, circle]), y)
    assert_allclose(gp.predict(frame), twin.predict(np.hstack([number, circle])), rtol=1e-6, atol=1e-8)
    hours = pd.DataFrame({"hour": np.arange(48.0)})
    daily = held(kernel=kernel, periods={"hour": 24}).fit(hours, np.sin(np.arange(48.0)))
    assert daily.parameters_.names[2] == "lengthscale[hour (period 24)]"


def yearly(n=N):
    frame = pd.DataFrame({"when": days(n)})
    number = (frame["when"] - frame["when"].min()).dt.total_seconds().to_numpy()[:, None] / 86400
    angle = 2 * np.pi * number / 365.2425
    return frame, np.sin(angle[:, 0]) + number[:, 0] / 300, np.hstack([np.cos(angle), np.sin(angle)])


def test_the_circle_of_a_period_has_a_name_in_kernels():
    """A squared exponential kernel is the product of those of its columns."""
    frame, y, circle = yearly()
    options = {"periods": {"when": "year"}}
    whole = held(kernel=SquaredExponential(2.0, [200.0, 0.7]), **options).fit(frame, y)
    kernel = SquaredExponential(2.0, 200.0).on("when") * SquaredExponential(1.0, 0.7).on("when (year)")
    parts = held(kernel=kernel, **options).fit(frame, y)
    assert_allclose(parts.predict(frame), whole.predict(frame), rtol=1e-8, atol=1e-10)
    both = held(kernel=SquaredExponential(2.0, [0.7, 200.0]).on(["when (year)", "when"]), **options).fit(frame, y)
    assert_allclose(both.predict(frame), whole.predict(frame), rtol=1e-8, atol=1e-10)
    alone = held(kernel=SquaredExponential(2.0, 0.7).on("when (year)"), **options).fit(frame, y)
    twin = held(kernel=SquaredExponential(2.0, 0.7)).fit(circle, y)
    assert_allclose(alone.predict(frame), twin.predict(circle), rtol=1e-8, atol=1e-10)
    added = GPRegressor(
        SquaredExponential().on("when") + SquaredExponential(ard=True).on("when (year)"), knots=12, random_state=0
    )
    fitted = added.set_params(**options).fit(frame, y)
    assert "k2__kernel__lengthscale" in fitted.parameters_.names[3]
    later = frame.assign(when=frame["when"] + pd.Timedelta(days=365.2425))
    seasonal = held(kernel=SquaredExponential(2.0, 0.7).on("when (year)"), **options).fit(frame, y)
    assert_allclose(seasonal.predict(later), seasonal.predict(frame), rtol=1e-6, atol=1e-8)


def test_the_circle_of_a_period_has_a_name_in_means():
    """With next to no function about it, the mean is the regression on cosine and sine."""
    frame, y, circle = yearly()
    options = {"periods": {"when": "year"}, "kernel": Matern52(1e-10, 10.0).on("when"), "likelihood": noise(0.01)}
    gp = held(mean=LinearMean(100.0, columns=["when (year)"]), **options).fit(frame, y)
    assert gp.coefficients_.names == ("intercept", "cos of when (year)", "sin of when (year)")
    expected = np.linalg.lstsq(np.hstack([np.ones((N, 1)), circle]), y, rcond=None)[0]
    assert_allclose(gp.coefficients_.estimate, expected, rtol=1e-5)
    for mean in (LinearMean(columns=["when"]), "linear"):
        assert held(mean=mean, **options).fit(frame, y).coefficients_.names == ("intercept", "when")


def test_other_parts_of_a_column_have_names_and_unknown_ones_are_refused_with_all():
    frame, y, _ = yearly()
    hours = held(kernel=SquaredExponential(2.0, 0.7).on("column 0 (period 24)"), periods={0: 24})
    x = np.linspace(0, 50, N)[:, None]
    own = np.hstack([np.cos(2 * np.pi * x / 24), np.sin(2 * np.pi * x / 24)])
    twin = held(kernel=SquaredExponential(2.0, 0.7)).fit(own, y)
    assert_allclose(hours.fit(x, y).predict(x), twin.predict(own), rtol=1e-8, atol=1e-10)
    gaps = table()[0][["depth"]].assign(depth=with_gaps(table()[0])["depth"])
    flag = held(kernel=SquaredExponential(2.0, 0.7).on("depth (missing)"), missing="indicator").fit(gaps, y)
    flags = gaps["depth"].isna().to_numpy(float)[:, None]
    twin = held(kernel=SquaredExponential(2.0, 0.7)).fit(flags, y)
    assert_allclose(flag.predict(gaps), twin.predict(flags), rtol=1e-8, atol=1e-10)
    wrong = held(kernel=SquaredExponential().on("when (yaer)"), periods={"when": "year"})
    with pytest.raises(UnknownOptionError, match=r"'when', 'when \(year\)'.*Did you mean 'when \(year\)'"):
        wrong.fit(frame, y)
    clash = frame.assign(**{"when (year)": y})
    with pytest.raises(InvalidInputError, match=r"column 'when \(year\)'.*'when'.*Rename"):
        held(kernel=SquaredExponential(), periods={"when": "year"}).fit(clash, y)


def test_the_encoding_is_told_in_words():
    frame, y = table()
    when = pd.Series(pd.date_range("2024-01-01", periods=N, freq="D"))
    rows = frame.assign(when=when.where(when.dt.day != 2), hour=3.5)
    options = {"missing": "indicator", "periods": {"when": ["year", 10], "hour": 24}, "kernel": SquaredExponential()}
    assert str(held(**options).fit(rows.drop(columns="depth"), y).encoding_).splitlines() == [
        "city  category of 3 levels: Bonn, Oslo, Rome",
        "when  dates, in days since 2024-01-01, also by year and 10 days, 2024-01-30 22:45:31 where missing with an "
        "indicator",
        "hour  numbers, also by period 24, 3.5 where missing",
    ]


def test_dates_with_and_without_time_zones_are_not_mixed():
    frame, y = pd.DataFrame({"when": days()}), np.arange(float(N))
    gp = held(kernel=Matern52(2.0, 40.0)).fit(frame, y)
    with pytest.raises(InvalidInputError, match=r"'when' has time zones.*without"):
        gp.predict(frame.assign(when=frame["when"].dt.tz_localize("UTC")))


# -- files, pipelines, options --------------------------------------------------------------------------


def test_a_model_from_a_file_predicts_the_same_bits(tmp_path):
    frame, y = table()
    frame = with_gaps(frame).assign(when=days())
    gp = GPRegressor(missing="indicator", periods={"when": ["year", 90]}, random_state=0, n_jobs=1).fit(frame, y)
    gp.save(tmp_path / "model.knotwise")
    same = knotwise.load(tmp_path / "model.knotwise")
    assert same.encoding_ == gp.encoding_
    assert same.parameters_.names == gp.parameters_.names
    assert_array_equal(same.knots_, gp.knots_)
    for ours, theirs in zip(same.predict(frame, return_std=True), gp.predict(frame, return_std=True), strict=True):
        assert_array_equal(ours, theirs)


def test_intervals_through_a_fitted_pipeline():
    frame, y = table()
    numbers = frame[["depth"]].assign(square=frame["depth"] ** 2)
    options = {"kernel": SquaredExponential(), "random_state": 0, "n_jobs": 1}
    pipe = make_pipeline(StandardScaler(), GPRegressor(**options)).fit(numbers, y)
    scaled = StandardScaler().fit(numbers).transform(numbers)
    alone = GPRegressor(**options).fit(scaled, y)
    assert_array_equal(pipe[-1].predict_interval(pipe[:-1].transform(numbers)), alone.predict_interval(scaled))
    assert_array_equal(pipe.predict(numbers, return_std=True)[1], alone.predict(scaled, return_std=True)[1])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"missing": "median"}, UnknownOptionError, "`missing`"),
        ({"categorical": "city"}, InvalidInputError, r"\['city'\]"),
        ({"categorical": ["town"]}, UnknownOptionError, "'town'"),
        ({"periods": {"city": 3}}, InvalidInputError, "levels of a category"),
        ({"periods": {"depth": "year"}}, UnknownOptionError, "'depth'"),
        ({"periods": {"depth": -1}}, InvalidInputError, "positive"),
        ({"periods": "year"}, InvalidInputError, "dict"),
        ({"coords": "utm"}, InvalidInputError, "'lonlat'"),
        ({"coords": "lonlat", "categorical": ["city"]}, InvalidInputError, "which columns"),
        ({"coords": ("lonlat", ["depth"])}, InvalidInputError, "two columns"),
    ],
)
def test_options_that_mean_nothing_are_refused(options, error, message):
    frame, y = table()
    with pytest.raises(error, match=message):
        held(**options).fit(frame, y)


def test_neighbours_are_near_in_categories_too():
    frame, y = table(150)
    kernel = SquaredExponential(1.0, [0.5, 0.3], column_scales="standard")
    gp = GPRegressor(kernel, knots=frame.iloc[:5], n_neighbors=30, optimizer=None, random_state=0, n_jobs=1)
    exact = GPRegressor(kernel, approximation="full", optimizer=None, random_state=0, n_jobs=1)
    assert_allclose(gp.fit(frame, y).predict(frame), exact.fit(frame, y).predict(frame), atol=0.05)


def test_the_gradient_of_the_objective_is_its_derivative_where_columns_are_encoded():
    from knotwise.selection.optimizing import Objective

    frame, y = table()
    frame = frame.assign(when=days())
    gp = GPRegressor(
        SquaredExponential(1.0, [0.8, 1.1, 0.9, 1.3], column_scales="standard"),
        knots=8,
        optimizer=None,
        periods={"when": "year"},
        random_state=0,
    ).fit(frame, y)
    problem, point = gp._fit.problem, gp._fit.selection.point
    objective = Objective(problem, point, np.ones(8, bool))
    assert len(objective.vector) == problem.free.sum() + 8 * 4  # depth, the day, and the place on the circle
    assert_adjoint(objective, at=objective.vector, rng=np.random.default_rng(0), rtol=1e-6)
