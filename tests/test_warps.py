"""Warps of inputs: monotone functions with inverses, models on a warped axis, and which columns the data warp."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.base import clone

import knotwise
from knotwise import GPClassifier, GPRegressor, cross_validate, names
from knotwise.cli.arguments import warp as word_of_shell
from knotwise.cli.main import main
from knotwise.decisions import warps as decision
from knotwise.errors import InvalidInputError, UnknownOptionError
from knotwise.estimators.warping import describe_warps
from knotwise.kernels import Matern52, SquaredExponential
from knotwise.selection.trace import Action
from knotwise.warps import WARPS, Log, NormalScores, Warp

MAKERS = {"log": Log.of, "shifted": Log.shifted, "normal": NormalScores.of}


def columns() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "log-normal": np.exp(rng.normal(size=300)),
        "long tails": rng.standard_t(2, size=500),
        "near 0": rng.gamma(0.3, size=300),
        "half zeros": np.where(rng.uniform(size=200) < 0.5, 0.0, rng.exponential(5.0, 200)),
        "far from the origin": 1e6 + rng.exponential(size=100),
        "two values": np.array([1.0, 2.0, 2.0]),
        "one value": np.array([3.0, 3.0]),
        "lattice": np.tile(np.arange(10.0), 6),
    }


COLUMNS = columns()


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("name", COLUMNS)
def test_a_warp_increases_and_its_inverse_leads_back_also_beyond_the_data(name, maker):
    values = COLUMNS[name]
    warp, span = MAKERS[maker](values), np.ptp(values) or 1.0
    assert isinstance(warp, Warp)
    x = np.linspace(values.min() - span, values.max() + span, 501)
    z = warp(x)
    assert (np.diff(z) > 0).all()
    size = np.abs(x).max()
    np.testing.assert_allclose(warp.inverse(z), x, rtol=0, atol=1e-9 * span + 1e-15 * size)
    assert warp(x.reshape(3, -1)).shape == (3, 167)


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("name", [name for name in COLUMNS if name != "far from the origin"])
def test_the_derivative_is_that_of_the_warp_and_has_no_step(name, maker):
    values = COLUMNS[name]
    warp, span = MAKERS[maker](values), np.ptp(values) or 1.0
    x = np.linspace(values.min() - 0.3 * span, values.max() + 0.3 * span, 301)
    step = 1e-7 * span
    differences = (warp(x + step) - warp(x - step)) / (2 * step)
    near_a_node = np.abs(differences / warp.derivative(x) - 1) > 1e-4  # where the second derivative is large
    assert near_a_node.mean() < 0.02
    nodes = np.array(getattr(warp, "nodes", [getattr(warp, "lowest", 0.0)]))
    left, right = (warp.derivative(np.nextafter(nodes, side)) for side in (-np.inf, np.inf))
    np.testing.assert_allclose(left, right, rtol=1e-6)


@given(arrays(float, st.integers(1, 30), elements=st.floats(-1e6, 1e6, allow_subnormal=False)))
def test_any_column_has_warps(values):
    for make in MAKERS.values():
        warp = make(values)
        assert np.isfinite(warp(values)).all()
        assert (warp.derivative(values) > 0).all()


def test_normal_scores_are_those_of_the_ranks_and_logarithms_those_of_numpy():
    values = np.exp(np.random.default_rng(1).normal(size=5000))
    scores = NormalScores.of(values)(values)
    middle = np.abs(np.log(values)) < 2.0
    np.testing.assert_allclose(scores[middle], np.log(values[middle]), atol=0.12)
    np.testing.assert_array_equal(Log.of(values)(values), np.log(values))
    assert Log.of(values - values.min()).shift > 0


def test_a_weight_of_two_is_the_row_twice():
    values = np.random.default_rng(2).gamma(1.0, size=60)
    weights = 1.0 + (np.arange(60) % 3 == 0)
    for make in (Log.shifted, NormalScores.of):
        once, twice = make(values, weights), make(np.repeat(values, weights.astype(int)))
        x = np.linspace(0.1, 4, 50)
        np.testing.assert_allclose(once(x), twice(x), rtol=1e-12)


def test_warps_that_are_none_are_refused():
    with pytest.raises(InvalidInputError, match="above 0"):
        Log(shift=-2.0, lowest=1.0)
    with pytest.raises(InvalidInputError, match="increasing"):
        NormalScores((1.0, 1.0), (0.0, 1.0))
    assert list(names.WARPS) == list(WARPS)
    assert [type(WARPS[word](np.array([1.0, 2.0]))).__name__ for word in names.WARPS] == list(names.WARPS.values())


# -- models on a warped axis ----------------------------------------------------------------------------


def skewed(n: int = 90, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    age, u = np.exp(rng.normal(3.0, 1.0, n)), rng.uniform(size=n)
    table = pd.DataFrame({"age": age, "u": u, "v": rng.normal(size=n)})
    return table, np.sin(2 * np.log(age)) + u + 0.1 * rng.normal(size=n)


X, y = skewed()
QUICK = {"knots": 12, "random_state": 0, "n_jobs": 1}


def warped_by_hand(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(age=np.log(table["age"]))


@pytest.mark.parametrize("approximation", [None, "full"])
def test_a_logarithm_is_the_model_of_the_logarithm(approximation):
    options = QUICK | {"kernel": Matern52(ard=True), "approximation": approximation}
    options |= {"knots": "auto"} if approximation else {}
    gp = GPRegressor(warp={"age": "log"}, **options).fit(X, y)
    other = GPRegressor(warp=None, **options).fit(warped_by_hand(X), y)
    assert gp.log_evidence_ == pytest.approx(other.log_evidence_, rel=1e-9)
    np.testing.assert_allclose(gp.parameters_.values, other.parameters_.values, rtol=1e-9)
    new = skewed(seed=1)[0]
    new["age"] = new["age"].clip(lower=X["age"].min())  # below, the warp is no logarithm
    new.loc[0, "age"] = 1e4
    np.testing.assert_allclose(gp.predict(new), other.predict(warped_by_hand(new)), rtol=1e-9)
    if not approximation:
        back = gp.knots_ * 1.0
        back[:, 0] = np.log(back[:, 0])
        np.testing.assert_allclose(back, other.knots_, rtol=1e-9, atol=1e-9)


def test_the_gradient_in_the_knots_is_that_in_the_units_of_the_user():
    gp = GPRegressor(kernel=Matern52(ard=True), warp={"age": "normal"}, **QUICK).fit(X, y)
    knots, gradient = gp.knots_, gp.evidence().knot_gradient
    options = {"kernel": gp.kernel_, "mean": gp.mean_, "likelihood": gp.likelihood_, "warp": gp.warp_}
    values = []
    step = 1e-5 * knots[3, 0]
    for sign in (1, -1):
        moved = knots.copy()
        moved[3, 0] += sign * step
        own = GPRegressor(**options, knots=moved, optimizer=None, jitter=gp.jitter_ or None, n_jobs=1).fit(X, y)
        values.append(own.log_evidence_)
    assert (values[0] - values[1]) / (2 * step) == pytest.approx(gradient[3, 0], rel=1e-3, abs=1e-4)


def test_a_fitted_kernel_is_the_same_function_in_another_fit_with_its_warps():
    gp = GPRegressor(warp={"age": "normal"}, **QUICK).fit(X, y)
    options = {"mean": gp.mean_, "warp": gp.warp_, "optimizer": None, "n_jobs": 1}
    again = GPRegressor(gp.kernel_, gp.likelihood_, knots=gp.knots_, **options).fit(X, y)
    np.testing.assert_allclose(again.predict(X), gp.predict(X), rtol=1e-6, atol=1e-8)


def test_length_scales_slopes_and_words_are_of_the_warped_column():
    gp = GPRegressor(SquaredExponential(ard=True), mean="linear", warp={"age": "log"}, **QUICK).fit(X, y)
    assert gp.parameters_.to_frame(False)["data_units"].tolist()[1:3] == ["log(age)", "u"]
    assert "log(age)" in str(gp.parameters_.estimates(False))
    assert gp.coefficients_.names == ("intercept", "log(age)", "u", "v")
    other = GPRegressor(SquaredExponential(ard=True), mean="linear", warp=None, **QUICK).fit(warped_by_hand(X), y)
    np.testing.assert_allclose(gp.coefficients_.estimate, other.coefficients_.estimate, rtol=1e-6)
    assert "as given" in gp.summary()
    assert describe_warps(gp).startswith("warped inputs: log(age), as given")


def test_rows_in_any_order_and_threads_give_the_same_bits():
    order = np.random.default_rng(3).permutation(len(X))
    plain = GPRegressor(random_state=0, n_jobs=1).fit(X, y)
    mixed = GPRegressor(random_state=0, n_jobs=2).fit(X.iloc[order].reset_index(drop=True), y[order])
    assert plain.warp_
    assert plain.warp_ == mixed.warp_
    np.testing.assert_array_equal(plain.predict(X), mixed.predict(X))


def test_a_warped_model_survives_files_pickle_and_clone(tmp_path):
    gp = GPRegressor(warp={"age": "normal", "u": Log(1.0, 0.0)}, **QUICK).fit(X, y)
    gp.save(tmp_path / "model.knotwise")
    again = knotwise.load(tmp_path / "model.knotwise")
    assert again.warp_ == gp.warp_
    assert again.warp == gp.warp
    np.testing.assert_array_equal(again.predict(X), gp.predict(X))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(gp)).predict(X), gp.predict(X))
    assert clone(gp).warp == gp.warp
    unnamed = GPRegressor(warp={0: "log"}, **QUICK).fit(X.to_numpy(), y)
    assert list(unnamed.warp_) == [0]
    unnamed.save(tmp_path / "unnamed.knotwise")
    np.testing.assert_array_equal(
        knotwise.load(tmp_path / "unnamed.knotwise").predict(X.to_numpy()), unnamed.predict(X.to_numpy())
    )


def test_columns_beside_categories_and_dates_are_warped_and_these_are_not():
    table = X.assign(city=np.where(np.arange(len(X)) % 2, "Oslo", "Rome"))[["city", "age", "u", "v"]]
    gp = GPRegressor(warp={"age": "log"}, **QUICK).fit(table, y)
    assert list(gp.warp_) == ["age"]
    assert isinstance(gp.knots_[0, 0], str)
    assert gp.knots_[:, 1].astype(float).min() > 0
    assert "log(age)" in gp.summary()
    for column in ("city", "day"):
        own = table.assign(day=pd.date_range("2024-01-01", periods=len(X)))
        with pytest.raises(InvalidInputError, match="no plain numbers"):
            GPRegressor(warp={column: "log"}, **QUICK).fit(own, y)


@pytest.mark.parametrize(
    ("warp", "error", "words"),
    [
        ("log", InvalidInputError, "a dict from columns"),
        ({"age": "lag"}, UnknownOptionError, "log"),
        ({"agee": "log"}, UnknownOptionError, "age"),
        ({5: "log"}, InvalidInputError, "does not exist"),
        ({"age": 3}, InvalidInputError, "object from `knotwise.warps`"),
        ({"age": Log}, InvalidInputError, "object from `knotwise.warps`"),
    ],
)
def test_other_warps_are_refused_with_what_to_write(warp, error, words):
    with pytest.raises(error, match=words):
        GPRegressor(warp=warp, **QUICK).fit(X, y)


def test_a_dask_collection_is_not_warped_and_predictions_of_one_are():
    dask = pytest.importorskip("dask.dataframe")
    frame = dask.from_pandas(X, npartitions=2)
    target = dask.from_pandas(pd.Series(y), npartitions=2)
    with pytest.raises(InvalidInputError, match="Dask collection"):
        GPRegressor(warp={"age": "log"}, **QUICK).fit(frame, target)
    assert not GPRegressor(**QUICK).fit(frame, target).warp_
    gp = GPRegressor(warp={"age": "log"}, **QUICK).fit(X, y)
    np.testing.assert_allclose(np.asarray(gp.predict(frame)), gp.predict(X))


def test_the_length_scale_on_the_axis_of_the_user_is_drawn_and_the_page_has_it(tmp_path):
    figure = pytest.importorskip("matplotlib.figure").Figure()
    from knotwise.plotting import plot_warps

    gp = GPRegressor(Matern52(ard=True), warp={"age": "log"}, **QUICK).fit(X, y)
    (ax,) = plot_warps(gp, ax=[figure.subplots()])
    x, drawn = ax.lines[0].get_data()
    np.testing.assert_allclose(drawn, gp.kernel_.lengthscale[0] * x, rtol=1e-9)
    with pytest.raises(InvalidInputError, match="empty"):
        plot_warps(GPRegressor(Matern52(), warp=None, **QUICK).fit(X, y))
    page = gp.report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Warped columns" in page
    assert "log(age)" in page


def test_folds_at_held_parameters_keep_the_warps():
    gp = GPRegressor(warp={"age": "log"}, **QUICK).fit(X, y)
    by_hand = GPRegressor(warp=None, **QUICK).fit(warped_by_hand(X), y)
    found = [cross_validate(m, table, y, refit=False) for m, table in ((gp, X), (by_hand, warped_by_hand(X)))]
    np.testing.assert_allclose(found[0].mean, found[1].mean, rtol=1e-6, atol=1e-8)


# -- which columns the data warp ------------------------------------------------------------------------


def test_a_logarithm_is_found_and_told():
    gp = GPRegressor(random_state=0, n_jobs=1).fit(X, y)
    assert isinstance(gp.warp_["age"], Log)
    assert list(gp.warp_) == ["age"]
    (step,) = [step for step in gp.trace_ if step.action is Action.WARP]
    assert "log(age)" in step.note
    assert step.note in gp.summary()


def test_what_is_smooth_in_a_skewed_column_itself_is_not_warped():
    rng = np.random.default_rng(4)
    table = pd.DataFrame({"a": rng.exponential(size=200), "b": rng.uniform(size=200), "c": rng.normal(size=200)})
    target = np.sin(2 * table["a"].to_numpy()) + table["c"].to_numpy() + 0.2 * rng.normal(size=200)
    gp = GPRegressor(random_state=0, n_jobs=1).fit(table, target)
    assert not gp.warp_
    assert "warped" not in gp.summary()
    assert any(step.action is Action.WARP for step in gp.trace_)  # it was tried


def test_uniform_columns_normal_ones_lattices_and_levels_are_not_tried():
    rng = np.random.default_rng(5)
    lattice = np.minimum(rng.geometric(0.4, 300), 12)
    for values in (rng.uniform(size=300), rng.normal(size=300), lattice, rng.choice([1.0, 2.0, 50.0], 300)):
        assert not decision.Column("x", values.astype(float), None, 0.0, 1.0).warps()
    ages = rng.choice([1.0, 3.0, 7.0, 14.0, 28.0, 56.0, 90.0, 180.0, 365.0], 300)
    assert decision.Column("age", ages, None, 0.0, 1.0).warps()[0] == Log(0.0, 1.0)


def tried(gp: GPRegressor) -> bool:
    return any(step.action is Action.WARP for step in gp.trace_)


def test_places_dates_and_columns_with_given_values_are_left_alone():
    rng = np.random.default_rng(6)
    places = np.exp(rng.normal(size=(80, 2)))
    target = np.sin(np.log(places).sum(1)) + 0.1 * rng.normal(size=80)
    quick = {"random_state": 0, "n_jobs": 1}
    assert not tried(GPRegressor(**quick).fit(places, target))
    assert not tried(GPRegressor(**quick).fit(pd.DataFrame(places, columns=["easting", "northing"]), target))
    third = np.column_stack([places, np.exp(rng.normal(size=80))])
    assert tried(GPRegressor(**quick).fit(third, target))
    for options in (
        {"kernel": Matern52(ard=True)},
        {"bounds": {"lengthscale": (0.1, 10.0)}, "standardize": "common"},
        {"standardize": False},
        {"optimizer": None},
        {"warp": None},
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert not tried(GPRegressor(**quick | options).fit(third, target))
    days = pd.DataFrame({"day": pd.to_datetime("2024-01-01") + pd.to_timedelta(100 * third[:, 0], unit="D")})
    assert not tried(GPRegressor(**quick).fit(days.assign(u=rng.uniform(size=80)), target))


def test_classes_and_counts_are_warped_too():
    rng = np.random.default_rng(7)
    table, f = skewed(300, seed=8)
    counts = rng.poisson(np.exp(2 * f))
    gp = GPRegressor(likelihood="poisson", random_state=0, n_jobs=1).fit(table, counts)
    assert isinstance(gp.warp_["age"], Log)
    classifier = GPClassifier(warp={"age": "log"}, knots=10, random_state=0, n_jobs=1).fit(table, f > 0.5)
    assert classifier.warp_ == {"age": Log(0.0, float(table["age"].min()))}


# -- at the shell ---------------------------------------------------------------------------------------


def test_words_of_the_shell():
    assert word_of_shell("age=log") == ("age", "log")
    assert word_of_shell("a=b=normal") == ("a=b", "normal")
    assert word_of_shell("none") == ("", "none")
    for wrong in ("age=lag", "log", "=log"):
        with pytest.raises(Exception, match="not a column and its warp"):
            word_of_shell(wrong)


@pytest.mark.parametrize("target", ["y", "kind"])
def test_the_shell_warps_columns_by_name(tmp_path, target, capsys):
    table = X.assign(y=y, kind=np.where(y > 0.5, "high", "low"))[["age", "u", target]]
    table.to_csv(tmp_path / "rows.csv", index=False)
    model = str(tmp_path / "model.knotwise")
    asked = ["fit", str(tmp_path / "rows.csv"), "--target", target, "--knots", "6", "-o", model]
    assert main([*asked, "--warp", "age=log"]) == 0
    assert knotwise.load(model).warp_ == {"age": Log(0.0, float(X["age"].min()))}
    assert main([*asked, "--warp", "none"]) == 0
    assert not knotwise.load(model).warp_
    assert main([*asked, "--warp", "none", "--warp", "age=log"]) == 2
    assert "leave the others out" in capsys.readouterr().err
