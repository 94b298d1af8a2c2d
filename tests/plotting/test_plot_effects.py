"""The effect of a column is the average of predictions over rows that keep their other columns, with its joint band."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from plotted import X1, X2, X3, Y1, Y2, held

from knotwise import GPClassifier, plotting
from knotwise.errors import InvalidInputError, UnknownOptionError
from knotwise.plotting.dependence import effects_of
from knotwise.plotting.view import checked_rows, view_of

ROWS = np.unique(np.linspace(0, 79, 60).round().astype(int))  # that are averaged over, of 80


def moved(X, column, value):
    some = np.array(X, float)[ROWS]
    some[:, column] = value
    return some


def test_an_effect_is_the_average_prediction_and_its_band_that_of_the_joint_posterior():
    gp = held(approximation="full", knots="auto", n_neighbors=0).fit(X2, Y2)
    for effect in effects_of(view_of(gp), X2, [0, 1], level=0.9):
        assert (effect.values[0], effect.values[-1]) == (X2[:, effect.column].min(), X2[:, effect.column].max())
        for i in (0, 7, 24):
            rows = moved(X2, effect.column, effect.values[i])
            mean, cov = gp.predict(rows, return_cov=True)
            cov.flat[:: len(cov) + 1] -= gp.likelihood_.noise_variance
            reach = 1.6448536269514722 * np.sqrt(cov.mean())
            np.testing.assert_allclose(effect.centre[i], mean.mean(), rtol=1e-9)
            np.testing.assert_allclose(
                [effect.low[i], effect.high[i]], mean.mean() + reach * np.array([-1, 1]), rtol=1e-6
            )


def test_the_most_important_column_comes_first_and_all_panels_have_one_scale(named):
    axes = plotting.plot_effects(named, X3, pd.Series(Y2, name="yield"))
    assert [ax.get_xlabel() for ax in axes] == ["height", "width", "depth"]
    assert len({ax.get_ylim() for ax in axes}) == 1 and axes[0].get_ylabel() == "mean yield"
    spread = [np.ptp(ax.get_lines()[0].get_ydata()) for ax in axes]
    assert spread == sorted(spread, reverse=True)
    kept = plotting.plot_effects(named, X3, features=["depth", 0], sort=False, ax=Figure().subplots(1, 2))
    assert [ax.get_xlabel() for ax in kept] == ["depth", "height"]


def test_a_column_of_few_values_has_a_mark_and_a_bar_for_each(named):
    X = X3.assign(depth=np.arange(80) % 3)
    gp = held(knots=10).fit(X, Y2)
    (ax,) = plotting.plot_effects(gp, X, features=["depth"])
    (marks,) = [line for line in ax.get_lines() if line.get_marker() == "o"]
    np.testing.assert_array_equal(marks.get_xdata(), [0, 1, 2])
    expected = [gp.predict(pd.DataFrame(moved(X, 2, value), columns=X.columns)).mean() for value in (0, 1, 2)]
    np.testing.assert_allclose(marks.get_ydata(), expected, rtol=1e-9)


def test_counts_are_rates_and_classes_are_probabilities(counts, classifier, three_classes):
    (effect,) = effects_of(view_of(counts), X1, [0], level=0.95)
    np.testing.assert_allclose(effect.centre[3], counts.predict([[effect.values[3]]])[0], rtol=1e-9)
    assert (effect.low > 0).all()
    (ax,) = plotting.plot_effects(counts, X1)
    assert ax.get_ylabel() == "y per unit of\nexposure"  # on two lines, where one would be cut
    effect = effects_of(view_of(classifier), X2, [1], level=0.95)[0]
    expected = classifier.predict_proba(moved(X2, 1, effect.values[9]))[:, 1].mean()
    np.testing.assert_allclose(effect.centre[9], expected, rtol=1e-9)
    effect = effects_of(view_of(three_classes), X2, [0], level=0.95)[0]
    np.testing.assert_allclose(effect.centre.sum(1), 1.0, rtol=1e-12)
    axes = plotting.plot_effects(three_classes, X2)
    assert [text.get_text() for text in axes[0].figure.legends[0].get_texts()] == ["left", "middle", "right"]


def test_a_category_has_its_levels_dates_their_days_and_gaps_do_not_hide_a_column():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"soil": rng.choice([f"kind {i}" for i in range(12)], 80), "depth": X2[:, 0]})
    table["day"] = pd.Timestamp("2024-03-01") + pd.to_timedelta(np.arange(80), unit="D")
    gaps = table.assign(depth=table["depth"].where(table.index % 9 != 0))
    gp = held(knots="auto", approximation="full", n_neighbors=0, missing="mean").fit(gaps, Y2)
    effects = effects_of(view_of(gp), view_rows(gp, gaps), [0, 1], level=0.95)
    by_column = {effect.column: effect for effect in effects}
    assert by_column[0].levels == tuple(sorted(set(table["soil"])))
    some = gaps.iloc[ROWS]
    for i in (0, 11):
        expected = gp.predict(some.assign(soil=by_column[0].levels[i])).mean()
        np.testing.assert_allclose(by_column[0].centre[i], expected, rtol=1e-9)
    assert (by_column[1].values[0], by_column[1].values[-1]) == (gaps["depth"].min(), gaps["depth"].max())
    soil, depth, day = plotting.plot_effects(gp, gaps, sort=False)
    assert [text.get_text() for text in soil.get_xticklabels()] == sorted(set(table["soil"]))
    assert (depth.get_xlabel(), day.get_xlabel()) == ("depth", "day (2024)")

    three = GPClassifier(knots=8, random_state=0, n_jobs=1, optimizer=None)
    three.fit(table[["soil", "depth"]], np.digitize(Y2, np.quantile(Y2, [0.3, 0.6])))
    (effect,) = effects_of(view_of(three), view_rows(three, table[["soil", "depth"]]), [0], level=0.95)
    moved_rows = table[["soil", "depth"]].iloc[ROWS].assign(soil="kind 3")
    expected = three.predict_proba(moved_rows).mean(0)
    np.testing.assert_allclose(effect.centre[effect.levels.index("kind 3")], expected, rtol=1e-9)


def view_rows(gp, X):
    return checked_rows(view_of(gp), X)


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
