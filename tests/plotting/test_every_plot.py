"""What every plot does: axes in and out, names, nothing cut off, and errors that say what to do."""

import subprocess
import sys

import matplotlib as mpl
import pandas as pd
import pytest
from matplotlib import pyplot
from matplotlib.figure import Figure
from plotted import LABELS, X1, X2, Y1, Y2, held

from knotwise import cross_validate, plotting
from knotwise.errors import InvalidInputError
from knotwise.plotting.style import MissingMatplotlibError, shorten

DRAW = {
    "fit": lambda models, **o: plotting.plot_fit(models["line"], X1, Y1, **o),
    "map": lambda models, **o: plotting.plot_map(models["plane"], X2, resolution=12, **o),
    "calibration": lambda models, **o: plotting.plot_calibration(models["line"], X1, Y1, **o),
    "reliability": lambda models, **o: plotting.plot_calibration(models["classifier"], X2, LABELS, **o),
    "pit": lambda models, **o: plotting.plot_pit(models["line"], X1, Y1, **o),
    "observed": lambda models, **o: plotting.plot_observed(models["line"], X1, Y1, **o),
    "variogram": lambda models, **o: plotting.plot_variogram(models["plane"], X2, Y2, n_simulations=9, **o),
    "errors": lambda models, **o: plotting.plot_errors(
        cross_validate(models["plane"], X2, Y2, blocks=4, refit=False), **o
    ),
}


@pytest.fixture
def models(line, plane, classifier):
    return {"line": line, "plane": plane, "classifier": classifier}


@pytest.mark.parametrize("draw", DRAW.values(), ids=DRAW)
def test_a_plot_draws_on_the_axes_it_is_given_and_opens_no_figure(draw, models):
    figure = Figure()
    ax = figure.subplots()
    assert draw(models, ax=ax) is ax
    assert ax.has_data() and ax.get_xlabel() and ax.get_ylabel()
    assert pyplot.get_fignums() == []


@pytest.mark.parametrize("draw", DRAW.values(), ids=DRAW)
def test_without_axes_a_plot_opens_one_figure_in_our_look_and_leaves_the_settings_alone(draw, models):
    before = dict(mpl.rcParams)
    ax = draw(models)
    assert [pyplot.figure(number) for number in pyplot.get_fignums()] == [ax.figure]
    assert not ax.spines["top"].get_visible()
    assert dict(mpl.rcParams) == before


def assert_nothing_is_cut(ax):
    ax.figure.draw_without_rendering()
    paper, drawn = ax.figure.bbox, ax.get_tightbbox()
    assert paper.x0 <= drawn.x0 and drawn.x1 <= paper.x1 and paper.y0 <= drawn.y0 and drawn.y1 <= paper.y1


@pytest.mark.parametrize("draw", DRAW.values(), ids=DRAW)
def test_everything_that_is_written_lies_inside_the_figure(draw, models):
    assert_nothing_is_cut(draw(models))


@pytest.mark.parametrize("ratio", [0.2, 0.9, 1.1, 3.0])
def test_maps_of_any_shape_fit_their_figure(ratio):
    X = pd.DataFrame(X2 * [1000, 1000 * ratio], columns=["an easting with a rather long name in metres", "north"])
    gp = held(standardize="common").fit(X, Y2)
    assert_nothing_is_cut(plotting.plot_map(gp, X, Y2, resolution=8))


def test_importing_the_plots_does_not_import_matplotlib():
    code = "import sys, knotwise; knotwise.plotting.plot_fit; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_without_matplotlib_the_error_has_the_remedy(line, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingMatplotlibError, match=r"pip install 'knotwise\[plot\]'"):
        plotting.plot_fit(line, X1)


def test_a_pipeline_is_sent_to_its_last_step_and_other_models_away(line):
    from sklearn.linear_model import LinearRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    with pytest.raises(InvalidInputError, match=r"pipeline\[-1\]"):
        plotting.plot_fit(make_pipeline(StandardScaler(), line), X1)
    with pytest.raises(InvalidInputError, match="not of a LinearRegression"):
        plotting.plot_fit(LinearRegression(), X1)


def test_long_names_are_shortened_in_the_middle():
    assert shorten("abc", 10) == "abc"
    assert shorten("abcdefghijklmnop", 10) == "abcdef…nop"
