"""The fit along one column shows the estimator's own numbers."""

import numpy as np
import pandas as pd
import pytest
from plotted import COUNTS, EXPOSURE, LABELS, X1, X2, X3, Y1, Y2, band, curve, dots, held, rug

from knotwise import plotting
from knotwise.errors import InvalidInputError, UnknownOptionError


@pytest.mark.parametrize("kind", ["observation", "mean", "latent"])
def test_the_curve_and_its_band_are_the_predictions(line, kind):
    ax = plotting.plot_fit(line, X1, Y1, kind=kind, level=0.8)
    x, mean = curve(ax)
    assert x[0] == X1.min() and x[-1] == X1.max()
    np.testing.assert_allclose(mean, line.predict(x[:, None]), rtol=1e-12)
    np.testing.assert_allclose(band(ax), line.predict_interval(x[:, None], 0.8, kind), rtol=1e-12)


def test_knots_are_ticks_at_the_foot_below_everything_else(line):
    ax = plotting.plot_fit(line, X1, Y1)
    (ticks,) = rug(ax)
    np.testing.assert_array_equal(np.sort(ticks), np.sort(line.knots_[:, 0]))
    np.testing.assert_array_equal(dots(ax, "observed"), np.column_stack([X1[:, 0], Y1]))
    lowest, highest = ax.get_ylim()
    assert lowest < min(Y1.min(), band(ax).min()) and max(Y1.max(), band(ax).max()) < highest


def test_the_exact_gp_has_no_ticks():
    ax = plotting.plot_fit(held(approximation="full").fit(X1, Y1), X1)
    assert rug(ax) == [] and len(ax.get_legend().get_texts()) == 2


def test_several_models_share_axes_with_their_knots_in_rows(line):
    other = held(knots=3).fit(X1, Y1)
    ax = plotting.plot_fit(line, X1, label="eight", kind="latent")
    one_row = ax.get_ylim()
    assert plotting.plot_fit(other, X1, label="three", color="black", kind="latent", ax=ax) is ax
    assert [len(ticks) for ticks in rug(ax)] == [8, 3]
    heights = [line.get_transform().transform((0, 0))[1] for line in ax.get_lines() if line.get_marker() == "|"]
    assert heights[0] < heights[1]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["eight", "three"]
    assert ax.get_ylim()[0] < one_row[0]


def test_other_columns_stay_at_their_medians(named):
    ax = plotting.plot_fit(named, X3, feature="width", kind="mean")
    x, mean = curve(ax)
    rows = pd.DataFrame({"height": X3["height"].median(), "width": x, "depth": X3["depth"].median()})
    np.testing.assert_allclose(mean, named.predict(rows), rtol=1e-12)
    np.testing.assert_array_equal(rug(ax)[0], named.knots_[:, 1])
    assert ax.get_xlabel() == "width"
    assert ax.get_title().startswith("at median height = ")
    by_number = plotting.plot_fit(named, X3, feature=1, kind="mean")
    np.testing.assert_array_equal(curve(by_number), curve(ax))


@pytest.mark.parametrize("at", [{"height": 1.5, 2: 0.25}, [1.5, 99.0, 0.25]], ids=["mapping", "array"])
def test_other_columns_stay_where_the_user_says(named, at):
    ax = plotting.plot_fit(named, X3, feature="width", at=at, kind="mean")
    x, mean = curve(ax)
    rows = pd.DataFrame({"height": 1.5, "width": x, "depth": 0.25})
    np.testing.assert_allclose(mean, named.predict(rows), rtol=1e-12)
    assert "height = 1.5" in ax.get_title() and "median" not in ax.get_title()


def test_data_of_several_columns_are_moved_to_the_curve_with_their_residuals(named):
    ax = plotting.plot_fit(named, X3, pd.Series(Y2, name="yield"), feature="width")
    x, y = dots(ax, "data, moved to the curve").T
    np.testing.assert_array_equal(x, X3["width"])
    on_curve = np.interp(x, *curve(ax))
    np.testing.assert_allclose(y - on_curve, Y2 - named.predict(X3), atol=2e-3)  # of the interpolation
    assert ax.get_ylabel() == "yield"


def test_names_of_a_data_frame_label_a_model_that_was_fitted_without(plane):
    ax = plotting.plot_fit(plane, pd.DataFrame(X2, columns=["east", "north"]), feature="north")
    assert ax.get_xlabel() == "north"
    assert plotting.plot_fit(plane, X2, feature=1).get_xlabel() == "column 1"


def test_a_wrong_column_is_an_error_that_names_the_nearest(named):
    with pytest.raises(UnknownOptionError, match="Did you mean 'width'"):
        plotting.plot_fit(named, X3, feature="widht")
    with pytest.raises(InvalidInputError, match="from 0 to 2"):
        plotting.plot_fit(named, X3, feature=3)
    with pytest.raises(UnknownOptionError, match="Did you mean 'depth'"):
        plotting.plot_fit(named, X3, at={"dept": 1.0})
    with pytest.raises(InvalidInputError, match="3 values, one for each column"):
        plotting.plot_fit(named, X3, at=[1.0, 2.0])


def test_a_wrong_kind_or_targets_of_another_length_are_errors(line):
    with pytest.raises(UnknownOptionError, match="Did you mean 'latent'"):
        plotting.plot_fit(line, X1, kind="latant")
    with pytest.raises(InvalidInputError, match="X has 60 rows, but y has shape"):
        plotting.plot_fit(line, X1, Y1[:-1])


def test_counts_are_per_unit_of_exposure_and_new_ones_at_the_median_exposure(counts):
    ax = plotting.plot_fit(counts, X1, COUNTS, exposure=EXPOSURE)
    x, mean = curve(ax)
    median = np.median(EXPOSURE)
    np.testing.assert_allclose(mean, counts.predict(x[:, None], exposure=1), rtol=1e-12)
    np.testing.assert_allclose(band(ax) * median, counts.predict_interval(x[:, None], exposure=np.full(240, median)))
    np.testing.assert_allclose(dots(ax, "observed")[:, 1], COUNTS / EXPOSURE)
    assert ax.get_ylabel() == "y per unit of exposure"


def test_a_mean_response_stays_inside_its_own_band(counts):
    ax = plotting.plot_fit(counts, X1, kind="mean")
    low, high = band(ax).T
    assert ((low < curve(ax)[1]) & (curve(ax)[1] < high)).all()


def test_a_classifier_shows_the_probability_of_the_second_class(classifier):
    ax = plotting.plot_fit(classifier, X2, LABELS)
    x, p = curve(ax)
    rows = np.column_stack([x, np.full(len(x), np.median(X2[:, 1]))])
    np.testing.assert_allclose(p, classifier.predict_proba(rows)[:, 1], rtol=1e-12)
    assert ax.get_ylabel() == "P(low)"
    np.testing.assert_array_equal(dots(ax, "observed")[:, 1], LABELS == "low")
    with pytest.raises(InvalidInputError, match="kind='mean'"):
        plotting.plot_fit(classifier, X2, kind="observation")


def test_probabilities_of_several_classes_sum_to_one_and_each_model_has_its_knots(three_classes):
    ax = plotting.plot_fit(three_classes, X2)
    np.testing.assert_allclose(sum(curve(ax, i)[1] for i in range(3)), 1.0)
    for ticks, model in zip(rug(ax), three_classes.models_, strict=True):
        np.testing.assert_array_equal(ticks, model.knots_[:, 0])
    with pytest.raises(InvalidInputError, match=r"models_\[k\]"):
        plotting.plot_fit(three_classes, X2, kind="latent")


@pytest.mark.parametrize("n", [1, 2])
def test_one_or_two_rows_are_enough(n):
    gp = held(knots=np.array([[1.0]])).fit([[1.0], [2.0]], [3.0, 4.0])
    X, y = np.array([[1.0], [2.0]])[:n], np.array([3.0, 4.0])[:n]
    ax = plotting.plot_fit(gp, X, y)
    assert np.ptp(curve(ax)[0]) > 0 and np.isfinite(ax.get_ylim()).all()
    for plot in (plotting.plot_observed, plotting.plot_pit, plotting.plot_calibration):
        plot(gp, X, y).figure.draw_without_rendering()
