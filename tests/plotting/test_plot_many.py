"""Maps and pictures at the edges of what is usual: wide ranges, far places, many rows and knots, titles and names."""

import warnings

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import LogNorm
from plotted import LABELS, X1, X2, Y1, Y2, held
from scipy.stats import lognorm

from knotwise import GPRegressor, plotting
from knotwise.errors import FitWarning, InvalidInputError, UnknownOptionError
from knotwise.knots import Fixed
from knotwise.plotting.knots import describe_knots
from knotwise.plotting.view import view_of

EXTENT = (-2.0, 2.0, -1.5, 1.0)


@pytest.fixture(scope="module")
def rates():
    """Counts whose rate goes over more than an order of magnitude."""
    y = np.random.default_rng(0).poisson(np.exp(2 + 1.5 * X2[:, 0])).astype(float)
    return held("poisson").fit(X2, y, exposure=1.0)


def image(ax):
    return ax.get_images()[0]


def values(ax):
    return image(ax).get_array()


def test_colours_are_logarithmic_where_what_is_positive_varies_much(rates, plane):
    ax = plotting.plot_map(rates, X2, resolution=12)
    assert isinstance(image(ax).norm, LogNorm)
    assert image(ax).norm.vmin == values(ax).min() and image(ax).norm.vmax == values(ax).max()
    assert not isinstance(image(plotting.plot_map(rates, X2, resolution=12, scale="linear")).norm, LogNorm)
    near = plotting.plot_map(rates, extent=(-0.1, 0.1, -0.1, 0.1), resolution=12)
    assert not isinstance(image(near).norm, LogNorm)
    assert not isinstance(image(plotting.plot_map(plane, X2, resolution=12)).norm, LogNorm)
    with pytest.raises(InvalidInputError, match="needs values above 0"):
        plotting.plot_map(plane, X2, resolution=12, scale="log", limits=(-1.0, 2.0))
    with pytest.raises(UnknownOptionError, match="Did you mean 'log'"):
        plotting.plot_map(plane, X2, resolution=12, scale="lgo")


def test_the_spread_of_an_intensity_is_that_of_a_log_normal(rates):
    shown = {what: plotting.plot_map(rates, extent=EXTENT, resolution=5, what=what)
             for what in ("intensity_sd", "intensity_cv")}  # fmt: skip
    x, y = (np.linspace(a + (b - a) / 10, b - (b - a) / 10, 5) for a, b in (EXTENT[:2], EXTENT[2:]))
    latent = rates.predict_latent(np.array([[i, j] for j in y for i in x]))
    law = lognorm(latent.std, scale=np.exp(latent.mean))
    np.testing.assert_allclose(values(shown["intensity_sd"]).ravel(), law.std(), rtol=1e-9)
    np.testing.assert_allclose(values(shown["intensity_cv"]).ravel(), law.std() / law.mean(), rtol=1e-9)
    with pytest.raises(InvalidInputError, match="what='intensity_cv' is for counts"):
        plotting.plot_map(held().fit(X2, Y2), X2, what="intensity_cv")


def test_a_mask_hides_what_is_far_from_every_row(plane):
    wide = (-6.0, 6.0, -6.0, 6.0)
    ax = plotting.plot_map(plane, X2, extent=wide, resolution=30, mask=1.0)
    middles = np.linspace(-5.8, 5.8, 30)
    places = np.array([[x, y] for y in middles for x in middles])
    distance = np.linalg.norm(places[:, None] - X2, axis=2).min(1)
    np.testing.assert_array_equal(values(ax).mask.ravel(), distance > 1.0)
    by_itself = values(plotting.plot_map(plane, X2, extent=wide, resolution=30, mask=True)).mask.ravel()
    assert by_itself[distance > 2.5].all() and not by_itself[distance < 0.2].any()
    assert not values(plotting.plot_map(plane, X2, extent=wide, resolution=30)).mask.any()
    with pytest.raises(InvalidInputError, match="give these as X"):
        plotting.plot_map(plane, extent=EXTENT, mask=True)
    with pytest.raises(InvalidInputError, match="hides the whole map"):
        plotting.plot_map(plane, X2, extent=(50, 51, 50, 51), mask=True)


@pytest.mark.parametrize(
    "names, north, expected", [(("Longitude", "lat"), 60.0, 2.0), (("easting", "northing"), 0.0, 1.0)]
)
def test_coordinates_keep_their_lengths(names, north, expected):
    X = pd.DataFrame(X2 * [3.0, 1.0] + [0.0, north], columns=names).assign(depth=1.0)
    extent = (-1, 1, north - 1, north + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # of degrees, which is not the matter here
        gp = held().fit(X, Y2)
    ax = plotting.plot_map(gp, X, features=names, extent=extent, resolution=8)
    assert ax.get_aspect() == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("ratio", [0.25, 1.0, 3.0])
def test_words_beside_the_colours_are_no_longer_than_the_map(ratio, rates):
    X = X2 * [1, ratio]
    gp = held("poisson", standardize="common").fit(X, np.ones(80) + (X2[:, 0] > 0), exposure=1.0)
    ax = plotting.plot_map(gp, X, pd.Series(np.ones(80), name="a long name of a target"), what="upper", resolution=8)
    ax.figure.draw_without_rendering()
    bar = ax.child_axes[0]
    assert bar.yaxis.label.get_window_extent().height <= 1.1 * bar.get_window_extent().height


def test_a_title_of_the_user_replaces_ours_and_meets_no_legend(plane, classifier, named_draws):
    for draw in named_draws:
        ax = draw()
        ax.set_title("mine")
        ax.figure.draw_without_rendering()
        titles = [ax.get_title(loc=loc) for loc in ("left", "center", "right")]
        assert "".join(titles) == "mine"
        legend = ax.get_legend()
        assert legend is None or not legend.get_window_extent().overlaps(ax.title.get_window_extent())


@pytest.fixture
def named_draws(plane, classifier, line):
    return [
        lambda: plotting.plot_map(plane, X2, resolution=8),
        lambda: plotting.plot_map(classifier, X2, LABELS, resolution=8),
        lambda: plotting.plot_observed(line, X1, Y1),
        lambda: plotting.plot_pit(line, X1, Y1),
    ]


def test_many_knots_are_small_and_more_than_a_thousand_are_not_drawn():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(1200, 2))
    sizes = {}
    for n in (10, 300, 1100):
        gp = held(knots=X[:n]).fit(X, X[:, 0])
        ax = plotting.plot_map(gp, X, resolution=4)
        circles = [c for c in ax.collections if c.get_label() == "knots"]
        sizes[n] = circles[0].get_sizes()[0] if circles else None
    assert sizes[10] == 40.0 and 3.0 <= sizes[300] < 10.0 and sizes[1100] is None
    assert ax.get_title() == describe_knots(view_of(gp)) == "1,100 knots, too many to draw"


def test_of_many_rows_observed_values_are_counted_in_cells():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 6, size=(5000, 1))
    y = np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=5000)
    gp = held().fit(X, y)
    ax = plotting.plot_observed(gp, X, y)
    (cells,) = [c for c in ax.collections if type(c).__name__ == "PolyCollection"]
    assert cells.get_array().sum() == 5000
    low, high = gp.predict_interval(X).T
    n_outside = int(((y < low) | (y > high)).sum())
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == ["typical 95 % interval", f"outside: {n_outside:,} ({n_outside / 5000:.1%})"]
    assert sum(len(c.get_paths()) for c in ax.collections) < 3000  # no line for each row


def test_a_trace_of_one_step_has_its_number_written_beside_the_mark():
    class Telling(Fixed):
        def select(self, problem, rng):
            chosen = super().select(problem, rng)
            chosen.trace.add("weigh", len(chosen.Z), chosen.result.value, share=0.125)
            return chosen

    gp = held(knots=Telling("kmeans", n_knots=6)).fit(X1, Y1)
    above, below = plotting.plot_trace(gp)
    assert [text.get_text() for text in above.texts] == [f"{gp.log_evidence_:.4g}"]
    assert [text.get_text() for text in below.texts] == ["0.125"] and below.get_xticks().tolist() == [6]
    low, high = above.get_ylim()
    assert low < gp.log_evidence_ < high


def test_names_are_shown_as_they_are_and_make_no_formula():
    X = pd.DataFrame(X2, columns=["$\\frac{$", "price $ per $\n"])
    gp = GPRegressor(knots=5, optimizer=None, random_state=0).fit(X, Y2)
    ax = plotting.plot_map(gp, X, resolution=4)
    ax.figure.draw_without_rendering()  # matplotlib would refuse the formula
    assert ax.get_xlabel() == r"\$\frac{\$" and ax.get_ylabel() == r"price \$ per \$ "


def test_rows_on_a_map_cover_less_than_half_of_it_however_many_there_are():
    gp = held(knots=4).fit(X2, Y2)
    rng = np.random.default_rng(0)
    for n in (200, 2000, 20_000):
        ax = plotting.plot_map(gp, rng.uniform(size=(n, 2)), rng.normal(size=n), knots=False, resolution=10)
        marks = ax.collections[0]
        map_in_points = np.prod(ax.get_window_extent().size) * (72 / ax.figure.dpi) ** 2
        assert n * marks.get_sizes()[0] < 0.5 * map_in_points
