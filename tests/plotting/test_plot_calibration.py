"""Coverage, transforms, reliability, and observed against predicted values, against their definitions."""

import numpy as np
import pandas as pd
import pytest
from plotted import COUNTS, EXPOSURE, LABELS, X1, X2, Y1, held
from scipy import stats

from knotwise import plotting
from knotwise.errors import InvalidInputError
from knotwise.likelihoods import Gaussian


def test_coverage_is_the_share_of_rows_inside_their_intervals(line):
    ax = plotting.plot_calibration(line, X1, Y1)
    (shown,) = [found for found in ax.get_lines() if found.get_label() == "60 rows"]
    for level, share in shown.get_xydata()[::8]:
        low, high = line.predict_interval(X1, level).T
        assert share == pytest.approx(np.mean((low <= Y1) & (high >= Y1)))


def test_the_band_of_the_coverage_holds_a_right_model(line):
    ax = plotting.plot_calibration(line, X1, Y1)
    (area,) = ax.collections
    at_half = [y for x, y in area.get_paths()[0].vertices if x == pytest.approx(0.5)]
    assert (min(at_half) * 60, max(at_half) * 60) == pytest.approx(stats.binom.interval(0.95, 60, 0.5))


def test_the_transform_of_gaussian_data_is_the_normal_distribution_function(line):
    mean, sd = line.predict(X1, return_std=True)
    u = line.predictive(X1).pit(Y1)
    np.testing.assert_allclose(u, stats.norm.cdf(Y1, mean, sd), atol=1e-12)


def test_the_transform_of_a_table_with_levels_is_that_of_its_values():
    table = pd.DataFrame({"x": X1[:, 0], "soil": np.where(np.arange(60) % 3, "clay", "sand")})
    gp = held().fit(table, Y1)
    ax = plotting.plot_calibration(gp, table, Y1)
    (shown,) = [found for found in ax.get_lines() if found.get_label() == "60 rows"]
    level, share = shown.get_xydata()[len(shown.get_xydata()) // 2]
    low, high = gp.predict_interval(table, level).T
    assert share == pytest.approx(np.mean((low <= Y1) & (high >= Y1)))


def test_the_transform_of_counts_lies_within_the_step_of_the_distribution_function(counts):
    """The distribution function by simulation of f."""
    latent = counts.predict_latent(X1)
    f = latent.mean + np.sqrt(latent.variance) * np.random.default_rng(1).standard_normal((4000, 1))
    below, above = (stats.poisson.cdf(at, EXPOSURE * np.exp(f)).mean(0) for at in (COUNTS - 1, COUNTS))
    seeds = [counts.predictive(X1, exposure=EXPOSURE).pit(COUNTS, seed) for seed in range(20)]
    assert (below - 0.03 < np.min(seeds, 0)).all() and (np.max(seeds, 0) < above + 0.03).all()
    np.testing.assert_allclose(np.mean(seeds, 0), (below + above) / 2, atol=0.2)


def test_the_pit_histogram_counts_every_row_and_repeats_with_its_seed(counts):
    def heights(**options):
        ax = plotting.plot_pit(counts, X1, COUNTS, exposure=EXPOSURE, n_bins=6, **options)
        return np.array([bar.get_height() for bar in ax.containers[0]])

    first = heights()
    assert len(first) == 6 and first.sum() / 6 == pytest.approx(1.0)
    np.testing.assert_array_equal(first, heights(random_state=0))
    assert (first != heights(random_state=1)).any()


def test_intervals_that_are_too_narrow_show_as_a_trough_outside_the_band():
    rng = np.random.default_rng(3)
    y = rng.normal(size=200)
    gp = held(Gaussian(0.04), knots=np.array([[0.0]])).fit(np.zeros((200, 1)), y)
    ax = plotting.plot_pit(gp, np.zeros((200, 1)), y, n_bins=10)
    bars = [bar.get_height() for bar in ax.containers[0]]
    (span,) = [patch for patch in ax.patches if patch.get_label() == "right model, 95 %"]
    highest = span.get_extents().transformed(ax.transData.inverted()).y1
    assert min(bars[0], bars[-1]) > highest > max(bars[4], bars[5])


def test_reliability_is_the_share_of_the_class_in_bins_of_its_probability(classifier):
    ax = plotting.plot_calibration(classifier, X2, LABELS, n_bins=5)
    p = classifier.predict_proba(X2)[:, 1]
    expected = [
        (p[chosen].mean(), (LABELS[chosen] == "low").mean())
        for low in (0.0, 0.2, 0.4, 0.6, 0.8)
        if (chosen := (low <= p) & (p < low + 0.2)).any()
    ]
    marks = [c for c in ax.collections if "side: " in c.get_label()]
    shown = np.vstack([c.get_offsets() for c in marks])
    np.testing.assert_allclose(shown[np.argsort(shown[:, 0])], expected)
    assert ax.get_xlabel() == "predicted probability of low"


def test_reliability_of_several_classes_is_of_the_most_probable_one(three_classes):
    labels = three_classes.predict(X2)
    ax = plotting.plot_calibration(three_classes, X2, labels)
    marks = [c for c in ax.collections if "side: " in c.get_label()]
    assert (np.vstack([c.get_offsets() for c in marks])[:, 1] == 1.0).all()  # they are what it predicts
    with pytest.raises(InvalidInputError, match=r"labels from .* but is 'up' in row 1"):
        plotting.plot_calibration(three_classes, X2[:2], ["left", "up"])


def test_rows_outside_their_interval_are_marked(line):
    y = Y1.copy()
    y[[3, 40]] += [3.0, -3.0]
    ax = plotting.plot_observed(line, X1, y)
    low, high = line.predict_interval(X1).T
    outside = (y < low) | (y > high)
    assert outside[[3, 40]].all()
    (marks,) = [found for found in ax.get_lines() if found.get_marker() == "D"]
    np.testing.assert_allclose(marks.get_xydata(), np.column_stack([line.predict(X1), y])[outside])
    assert marks.get_label() == f"outside: {outside.sum()}"
    (bars,) = ax.collections
    np.testing.assert_allclose([segment[:, 1] for segment in bars.get_segments()], np.column_stack([low, high]))


def test_observed_counts_are_compared_at_their_own_exposure(counts):
    ax = plotting.plot_observed(counts, X1, COUNTS, exposure=EXPOSURE)
    (bars,) = ax.collections
    expected = counts.predict_interval(X1, exposure=EXPOSURE)
    np.testing.assert_allclose([segment[:, 1] for segment in bars.get_segments()], expected)


def test_labels_are_sent_to_the_reliability_diagram(classifier):
    for plot in (plotting.plot_observed, plotting.plot_pit):
        with pytest.raises(InvalidInputError, match="plot_calibration"):
            plot(classifier, X2, LABELS)
