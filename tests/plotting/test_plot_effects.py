"""The effect of a column is the average of predictions over rows that keep their other columns, with its joint band."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from plotted import X1, X2, X3, Y1, Y2, held

import knotwise
from knotwise import GPClassifier, plotting
from knotwise.errors import InvalidInputError, UnknownOptionError

ROWS = np.unique(np.linspace(0, 79, 60).round().astype(int))  # that are averaged over, of 80


def moved(X, column, value):
    some = np.array(X, float)[ROWS]
    some[:, column] = value
    return some


def test_an_effect_is_the_average_prediction_and_its_band_that_of_the_joint_posterior():
    gp = held(approximation="full", knots="auto", n_neighbors=0).fit(X2, Y2)
    for effect in gp.effects(X2, [0, 1], level=0.9):
        assert (effect.values[0], effect.values[-1]) == (X2[:, effect.column].min(), X2[:, effect.column].max())
        for i in (0, 7, 24):
            rows = moved(X2, effect.column, effect.values[i])
            mean, cov = gp.predict(rows, return_cov=True)
            cov.flat[:: len(cov) + 1] -= gp.likelihood_.noise_variance
            reach = 1.6448536269514722 * np.sqrt(cov.mean())
            np.testing.assert_allclose(effect.mean[i], mean.mean(), rtol=1e-9)
            np.testing.assert_allclose(
                [effect.lower[i], effect.upper[i]], mean.mean() + reach * np.array([-1, 1]), rtol=1e-6
            )


def test_the_most_important_column_comes_first_and_all_panels_have_one_scale(named):
    axes = plotting.plot_effects(named, X3, pd.Series(Y2, name="yield"))
    assert [ax.get_xlabel() for ax in axes] == ["height", "width", "depth"]
    assert len({ax.get_ylim() for ax in axes}) == 1 and axes[0].get_ylabel() == "mean yield"
    spread = [np.ptp(ax.get_lines()[0].get_ydata()) for ax in axes]
    assert spread == sorted(spread, reverse=True)
    kept = plotting.plot_effects(named, X3, features=["depth", 0], sort=False, ax=Figure().subplots(1, 2))
    assert [ax.get_xlabel() for ax in kept] == ["depth", "height"]


def test_the_axes_carry_the_numbers_that_they_show(named, three_classes):
    axes = plotting.plot_effects(named, X3, level=0.8)
    found = named.effects(X3, level=0.8)
    assert [effect.name for effect in axes.effects] == [ax.get_xlabel() for ax in axes] == list(found.importance)
    for ax, effect, again in zip(axes, axes.effects, found, strict=True):
        np.testing.assert_array_equal(ax.get_lines()[0].get_xydata(), np.column_stack([effect.grid, effect.mean]))
        np.testing.assert_array_equal(effect.upper, again.upper)
    assert plotting.plot_effects(three_classes, X2)[1:].effects.classes == ("left", "middle", "right")


def test_importance_is_the_spread_of_the_effect_over_the_rows():
    """For a plane, the slope times the standard deviation of the column."""
    rng = np.random.default_rng(3)
    X = rng.uniform(size=(150, 3)) * [1, 10, 1]
    gp = held(knots="auto", approximation="full", n_neighbors=0, mean="linear").fit(X, 5 * X[:, 0] - 0.1 * X[:, 1])
    effects = gp.effects(X)
    expected = {"column 0": 5 * X[:, 0].std(), "column 1": 0.1 * X[:, 1].std()}
    assert list(effects.importance) == ["column 0", "column 1", "column 2"]
    for name, value in expected.items():
        np.testing.assert_allclose(effects.importance[name], value, rtol=0.02)
    assert effects.importance["column 2"] < 0.02
    assert repr(effects).splitlines()[1].startswith("column 0")
    with pytest.raises(UnknownOptionError, match="Did you mean 'column 1'"):
        effects["colum 1"]


def test_a_table_of_effects_has_the_values_as_the_data_have_them(table, three_classes, classifier):
    frame, gp = table
    effects = gp.effects(frame)
    shown = effects.to_frame()
    assert list(shown.columns) == ["column", "value", "mean", "lower", "upper"]
    of = dict(list(shown.groupby("column")))
    assert list(of["city"]["value"]) == ["Bern", "Oslo", "Rome"]
    assert pd.to_datetime(of["when"]["value"]).iloc[0] == frame["when"].min()
    np.testing.assert_allclose(of["size"]["value"].astype(float), effects["size"].values)
    np.testing.assert_allclose(of["city"]["mean"], effects["city"].mean)
    by_class = three_classes.effects(X2, [1]).to_frame()
    assert list(by_class.columns) == ["column", "value", "class", "mean"] and len(by_class) == 75
    np.testing.assert_allclose(by_class.groupby("value")["mean"].sum(), 1.0, rtol=1e-12)
    two = classifier.effects(X2, ["column 1"])
    assert two.classes == tuple(classifier.classes_.tolist()) and (two[0].lower >= 0).all()
    assert (two[0].lower <= two[0].mean).all() and (two[0].mean <= two[0].upper).all()


def test_effects_of_a_model_from_a_file_are_the_same(named, tmp_path):
    named.save(tmp_path / "m.knotwise")
    again = knotwise.load(tmp_path / "m.knotwise").effects(X3)
    np.testing.assert_array_equal(again["width"].mean, named.effects(X3)["width"].mean)


def test_a_column_of_few_values_has_a_mark_and_a_bar_for_each(named):
    X = X3.assign(depth=np.arange(80) % 3)
    gp = held(knots=10).fit(X, Y2)
    (ax,) = plotting.plot_effects(gp, X, features=["depth"])
    (marks,) = [line for line in ax.get_lines() if line.get_marker() == "o"]
    np.testing.assert_array_equal(marks.get_xdata(), [0, 1, 2])
    expected = [gp.predict(pd.DataFrame(moved(X, 2, value), columns=X.columns)).mean() for value in (0, 1, 2)]
    np.testing.assert_allclose(marks.get_ydata(), expected, rtol=1e-9)


def test_counts_are_rates_and_classes_are_probabilities(counts, classifier, three_classes):
    (effect,) = counts.effects(X1, [0], level=0.95)
    np.testing.assert_allclose(effect.mean[3], counts.predict([[effect.values[3]]], exposure=1)[0], rtol=1e-9)
    assert (effect.lower > 0).all()
    (ax,) = plotting.plot_effects(counts, X1)
    assert ax.get_ylabel() == "y per unit of\nexposure"  # on two lines, where one would be cut
    effect = classifier.effects(X2, [1], level=0.95)[0]
    expected = classifier.predict_proba(moved(X2, 1, effect.values[9]))[:, 1].mean()
    np.testing.assert_allclose(effect.mean[9], expected, rtol=1e-9)
    effect = three_classes.effects(X2, [0], level=0.95)[0]
    np.testing.assert_allclose(effect.mean.sum(1), 1.0, rtol=1e-12)
    axes = plotting.plot_effects(three_classes, X2)
    assert [text.get_text() for text in axes[0].figure.legends[0].get_texts()] == ["left", "middle", "right"]


def test_a_category_has_its_levels_dates_their_days_and_gaps_do_not_hide_a_column():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"soil": rng.choice([f"kind {i}" for i in range(12)], 80), "depth": X2[:, 0]})
    table["day"] = pd.Timestamp("2024-03-01") + pd.to_timedelta(np.arange(80), unit="D")
    gaps = table.assign(depth=table["depth"].where(table.index % 9 != 0))
    gp = held(knots="auto", approximation="full", n_neighbors=0, missing="mean").fit(gaps, Y2)
    effects = gp.effects(gaps, [0, 1], level=0.95)
    by_column = {effect.column: effect for effect in effects}
    assert by_column[0].levels == tuple(sorted(set(table["soil"])))
    some = gaps.iloc[ROWS]
    for i in (0, 11):
        expected = gp.predict(some.assign(soil=by_column[0].levels[i])).mean()
        np.testing.assert_allclose(by_column[0].mean[i], expected, rtol=1e-9)
    assert (by_column[1].values[0], by_column[1].values[-1]) == (gaps["depth"].min(), gaps["depth"].max())
    soil, depth, day = plotting.plot_effects(gp, gaps, sort=False)
    assert [text.get_text() for text in soil.get_xticklabels()] == sorted(set(table["soil"]))
    assert (depth.get_xlabel(), day.get_xlabel()) == ("depth", "day (2024)")

    three = GPClassifier(knots=8, random_state=0, n_jobs=1, optimizer=None)
    three.fit(table[["soil", "depth"]], np.digitize(Y2, np.quantile(Y2, [0.3, 0.6])))
    (effect,) = three.effects(table[["soil", "depth"]], [0], level=0.95)
    moved_rows = table[["soil", "depth"]].iloc[ROWS].assign(soil="kind 3")
    expected = three.predict_proba(moved_rows).mean(0)
    np.testing.assert_allclose(effect.mean[effect.levels.index("kind 3")], expected, rtol=1e-9)


def test_effects_that_cannot_be_say_what_to_do(named, line):
    with pytest.raises(UnknownOptionError, match="Did you mean 'depth'"):
        plotting.plot_effects(named, X3, features=["dpth"])
    with pytest.raises(InvalidInputError, match="twice"):
        plotting.plot_effects(named, X3, features=["depth", 2])
    with pytest.raises(InvalidInputError, match="a list of columns"):
        plotting.plot_effects(named, X3, features="depth")
    with pytest.raises(InvalidInputError, match="3 axes, one for each column, not 2"):
        plotting.plot_effects(named, X3, ax=Figure().subplots(1, 2))
    with pytest.raises(InvalidInputError, match="between 0 and 1"):
        plotting.plot_effects(line, X1, Y1, level=95)


# -- categories, dates and gaps -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(1)
    when = pd.to_datetime("2024-03-10") + pd.to_timedelta(rng.integers(0, 250, 60), "D")
    frame = pd.DataFrame({"city": rng.choice(["Oslo", "Rome", "Bern"], 60), "when": when, "size": rng.normal(size=60)})
    frame.loc[7, "size"] = np.nan
    return frame, held(knots=8, missing="mean").fit(frame, np.arange(60) % 7 + (frame["city"] == "Rome"))


def test_the_effect_of_a_category_has_the_average_prediction_of_each_level_by_its_name(table):
    frame, gp = table
    (ax,) = plotting.plot_effects(gp, frame, features=["city"])
    assert [text.get_text() for text in ax.get_xticklabels()] == ["Bern", "Oslo", "Rome"]
    (marks,) = [line for line in ax.get_lines() if line.get_marker() == "o"]
    expected = [gp.predict(frame.assign(city=city)).mean() for city in ("Bern", "Oslo", "Rome")]
    np.testing.assert_allclose(marks.get_ydata(), expected, rtol=1e-9)


def test_an_axis_of_dates_shows_the_calendar(table):
    frame, gp = table
    for ax in (plotting.plot_effects(gp, frame, features=["when"])[0], plotting.plot_fit(gp, frame, feature="when")):
        names = [text.get_text() for text in ax.get_xticklabels()]
        assert len(names) > 2 and ax.get_xlabel() == "when (2024)"
        days = [(pd.Timestamp(f"2024-{name}-01") - frame["when"].min()).days for name in names]
        np.testing.assert_allclose(ax.get_xticks(), days)


def test_a_column_with_gaps_has_an_effect_over_what_is_known(table):
    frame, gp = table
    (ax,) = plotting.plot_effects(gp, frame, features=["size"])
    line = ax.get_lines()[0].get_xydata()
    assert np.isfinite(line).all()
    assert (line[0, 0], line[-1, 0]) == (frame["size"].min(), frame["size"].max())


def test_effects_that_do_not_vary_are_not_blown_up():
    gp = held(knots=4).fit(X2, np.full(len(X2), 7.0))
    low, high = plotting.plot_effects(gp, X2)[0].get_ylim()
    assert high - low > 0.5
