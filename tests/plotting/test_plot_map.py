"""A map shows the posterior where it says, with the knots where they are."""

import numpy as np
import pandas as pd
import pytest
from plotted import LABELS, X1, X2, X3, Y2, dots, held

from knotwise import plotting
from knotwise.errors import InvalidInputError, UnknownOptionError
from knotwise.knots import EvidenceGain, OneAtATime

EXTENT = (-2.0, 2.0, -1.5, 1.0)


def cells(n=12):
    """Centres of the cells of a map of EXTENT, row by row from below."""
    half_x, half_y = 2.0 / n, 1.25 / n
    return np.array(
        [[x, y] for y in np.linspace(-1.5 + half_y, 1.0 - half_y, n) for x in np.linspace(-2 + half_x, 2 - half_x, n)]
    )


def pixels(ax):
    (image,) = ax.get_images()
    return np.asarray(image.get_array()).ravel()


WHATS = {
    "mean": lambda gp, X: gp.predict(X),
    "sd": lambda gp, X: np.sqrt(gp.predict_latent(X).variance),
    "lower": lambda gp, X: gp.predict_interval(X, 0.95, "mean")[:, 0],
    "upper": lambda gp, X: gp.predict_interval(X, 0.95, "mean")[:, 1],
    "exceedance": lambda gp, X: gp.predict_exceedance(X, 0.7),
}


@pytest.mark.parametrize("what", WHATS)
def test_a_map_shows_the_posterior_at_the_centres_of_its_cells(plane, what):
    options = {"threshold": 0.7} if what == "exceedance" else {}
    ax = plotting.plot_map(plane, extent=EXTENT, what=what, resolution=12, **options)
    np.testing.assert_allclose(pixels(ax), WHATS[what](plane, cells()), rtol=1e-9)
    assert tuple(ax.get_images()[0].get_extent()) == EXTENT
    assert (*ax.get_xlim(), *ax.get_ylim()) == EXTENT


def test_counts_have_a_map_of_intensity_by_default():
    rng = np.random.default_rng(0)
    gp = held("poisson").fit(X2, rng.poisson(4, 80).astype(float), exposure=2.0)
    ax = plotting.plot_map(gp, extent=EXTENT, resolution=12)
    np.testing.assert_allclose(pixels(ax), gp.predict_median(cells()), rtol=1e-9)
    assert ax.child_axes[0].get_ylabel() == "intensity, per unit of exposure"


@pytest.mark.parametrize("label", ["high", "low"])
def test_a_classifier_has_a_map_of_probability_with_a_contour_at_one_half(classifier, label):
    ax = plotting.plot_map(classifier, X2, LABELS, extent=EXTENT, resolution=12, label=label)
    column = ["high", "low"].index(label)
    np.testing.assert_allclose(pixels(ax), classifier.predict_proba(cells())[:, column], rtol=1e-9)
    (contour,) = [c for c in ax.collections if type(c).__name__ == "QuadContourSet"]
    on_line = np.vstack([path.vertices for path in contour.get_paths()])
    assert np.abs(classifier.predict_proba(on_line)[:, 0] - 0.5).max() < 0.05
    np.testing.assert_array_equal(dots(ax, "high"), X2[LABELS == "high"])
    np.testing.assert_array_equal(dots(ax, "low"), X2[LABELS == "low"])


def test_a_few_knots_have_their_number_in_the_order_in_which_they_were_added(plane):
    ax = plotting.plot_map(plane, X2, resolution=12)
    numbers = {int(text.get_text()): text.get_position() for text in ax.texts}
    np.testing.assert_allclose([numbers[k + 1] for k in range(12)], plane.knots_)
    circles = np.vstack([c.get_offsets() for c in ax.collections if c.get_label() == "_knot"])
    np.testing.assert_allclose(circles[::-1], plane.knots_)


def test_many_knots_shrink_from_the_first_to_the_last():
    selector = OneAtATime(proposal=EvidenceGain(), max_knots=44, n_initial=40, tolerance=-np.inf)
    gp = held(knots=selector).fit(X2, Y2)
    ax = plotting.plot_map(gp, X2, resolution=12)
    np.testing.assert_allclose(dots(ax, "knots"), gp.knots_)
    (circles,) = [c for c in ax.collections if c.get_label() == "knots"]
    assert (np.diff(circles.get_sizes()) < 0).all() and not ax.texts
    assert ax.get_title() == "44 knots, the first are the largest"


def test_knots_without_an_order_look_alike_and_can_be_left_out():
    gp = held(knots=7).fit(X2, Y2)
    ax = plotting.plot_map(gp, X2, resolution=12)
    (circles,) = [c for c in ax.collections if c.get_label() == "knots"]
    assert len(set(circles.get_sizes())) == 1 and len(circles.get_offsets()) == 7 and not ax.texts
    assert not plotting.plot_map(gp, X2, resolution=12, knots=False).collections


def test_the_map_covers_the_rows_and_knots_near_them_but_not_far_ones():
    gp = held(knots=np.array([[2.2, 0.0], [0.0, 9.0]])).fit(X2, Y2)
    left, right, bottom, top = plotting.plot_map(gp, X2, resolution=12).get_images()[0].get_extent()
    assert left < X2[:, 0].min() and right > 2.2 and bottom < X2[:, 1].min() and X2[:, 1].max() < top < 2


def test_lengths_are_true_where_columns_have_one_unit(plane):
    assert plotting.plot_map(plane, X2, resolution=12).get_aspect() == 1.0
    stretched = held().fit(X2 * [1, 50], Y2)
    assert plotting.plot_map(stretched, X2 * [1, 50], resolution=12).get_aspect() == "auto"
    common = held(standardize="common").fit(X2 * [1, 50], Y2)
    assert plotting.plot_map(common, X2 * [1, 50], resolution=12).get_aspect() == 1.0
    assert plotting.plot_map(plane, X2, resolution=12, aspect="auto").get_aspect() == "auto"


def test_two_of_three_columns_make_a_map_with_the_third_at_its_median(named):
    ax = plotting.plot_map(named, X3, features=("width", 0), resolution=12)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("width", "height")
    left, right, bottom, top = ax.get_images()[0].get_extent()
    middle = X3["depth"].median()
    row = pd.DataFrame(
        {"height": [bottom + (top - bottom) / 24], "width": [left + (right - left) / 24], "depth": middle}
    )
    np.testing.assert_allclose(pixels(ax)[0], named.predict(row)[0], rtol=1e-12)
    np.testing.assert_array_equal(dots(ax, "knots"), named.knots_[:, [1, 0]])
    assert ax.get_title().startswith(f"at median depth = {middle:.4g}")


def test_targets_have_the_colours_of_the_map(plane):
    ax = plotting.plot_map(plane, X2, Y2, resolution=12, limits=(-1.0, 3.0))
    marks = [c for c in ax.collections if c.get_array() is not None]
    np.testing.assert_array_equal(marks[0].get_array(), Y2)
    assert marks[0].get_clim() == ax.get_images()[0].get_clim() == (-1.0, 3.0)


def test_maps_that_cannot_be_say_what_to_do(line, plane, named, classifier, three_classes):
    with pytest.raises(InvalidInputError, match=r"3 columns: choose two .*features=\('height', 'width'\)"):
        plotting.plot_map(named, X3)
    with pytest.raises(UnknownOptionError, match="Did you mean 'depth'"):
        plotting.plot_map(named, X3, features=("width", "dpth"))
    with pytest.raises(InvalidInputError, match="twice"):
        plotting.plot_map(named, X3, features=("width", 1))
    with pytest.raises(InvalidInputError, match="column 'depth' needs a finite value"):
        plotting.plot_map(named, features=("height", "width"), extent=EXTENT)
    with pytest.raises(InvalidInputError, match="use `plot_fit`"):
        plotting.plot_map(line, X1)
    with pytest.raises(InvalidInputError, match="Give rows as X"):
        plotting.plot_map(plane)
    with pytest.raises(InvalidInputError, match="left, right, bottom, top"):
        plotting.plot_map(plane, extent=(1, 0, 0, 1))
    with pytest.raises(UnknownOptionError, match="Did you mean 'intensity'"):
        plotting.plot_map(plane, X2, what="intensty")
    with pytest.raises(InvalidInputError, match="Use what='mean'"):
        plotting.plot_map(plane, X2, what="intensity")
    with pytest.raises(InvalidInputError, match="give `threshold`"):
        plotting.plot_map(plane, X2, what="exceedance")
    with pytest.raises(InvalidInputError, match="leave `label` out"):
        plotting.plot_map(classifier, X2, what="sd", label="high")
    with pytest.raises(InvalidInputError, match="say which with `label`"):
        plotting.plot_map(three_classes, X2)
    with pytest.raises(UnknownOptionError, match="Did you mean 'middle'"):
        plotting.plot_map(three_classes, X2, label="midle")
