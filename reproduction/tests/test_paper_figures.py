"""The paper's figures, against the rows they are drawn from: what stands in a row is what stands in its panel."""

import struct
from functools import cache
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.text import Text

from knotwise.plotting.style import look
from knotwise_reproduction.figures import SETTINGS, SUBJECTS, draw_figures, missing_figures
from knotwise_reproduction.figures_panels import Panel, choose, limits, pictured, widened
from paper_rows import GAUSSIAN, make_rows

pytestmark = pytest.mark.slow

ROWS = make_rows()


def draw(name, setting, rows=None):
    """A figure by its name, and the rows it was drawn from; those of `ROWS` are drawn once."""
    return _drawn(name, setting) if rows is None else _draw(name, setting, rows)


@cache
def _drawn(name, setting):
    return _draw(name, setting, ROWS)


def _draw(name, setting, rows):
    subject = next(subject for subject in SUBJECTS if subject.name == name)
    shown = subject.select(rows, subject.experiment, setting)
    with look():
        drawing = subject.draw(shown)
    return drawing, shown


def panels(drawing):
    """The axes that show something, without the scale of colours."""
    return [axes for axes in drawing.figure.axes if axes.axison and axes.get_label() != "<colorbar>"]


def line(axes, label):
    """The points [n, 2] of what has this name in the legend; [0, 2] where nothing has."""
    return next((each.get_xydata() for each in axes.lines if each.get_label() == label), np.empty((0, 2)))


def titles(drawing):
    """What each panel is called: by its title or, in maps of three panels for each model, beside its first panel."""
    beside = [axes.get_ylabel().removesuffix("\nx2") for axes in panels(drawing) if axes.get_ylabel().endswith("\nx2")]
    above = [axes.get_title(loc="left") for axes in panels(drawing)]
    return [title.replace("\n", ": ") for title in beside or above]


# -- what is drawn ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, setting, expected",
    [
        ("gaussian", "published", ["OAT, uniform", "OAT, adversarial", "OAT, random"]),
        ("gaussian", "knotwise", [*["OAT"] * 3, *["simultaneous"] * 3, "full GP", "simultaneous", "automatic"]),
        ("poisson", "published", ["OAT, uniform", "OAT, random", "fixed", "simultaneous", "simultaneous", "full GP"]),
        ("banana", "published", ["full GP", "OAT-BO", "OAT-RS", "simultaneous"]),
        ("banana-knots", "published", ["simultaneous", "OAT-BO"]),
        ("banana-knots", "knotwise", ["simultaneous", "OAT-BO", "simult. VFE", "automatic"]),
        ("hickory", "published", ["full GP", "OAT-BO", "OAT-RS 25", "OAT-RS 50", "simultaneous", "simultaneous"]),
        ("hickory-knots", "published", ["simultaneous", "OAT-BO"]),
    ],
)
def test_panels_stand_in_the_papers_order_and_ours_follow(name, setting, expected):
    drawing, _ = draw(name, setting)
    assert all(title.startswith(start) for title, start in zip(titles(drawing), expected, strict=False))


@pytest.mark.parametrize("name, n_panels", [("gaussian", 6), ("poisson", 6), ("banana", 12), ("hickory", 18)])
def test_the_published_figure_has_the_papers_panels_and_no_other(name, n_panels):
    assert len(panels(draw(name, "published")[0])) == n_panels


@pytest.mark.parametrize("name", ["gaussian", "poisson"])
def test_a_panel_shows_the_curves_data_and_knots_of_its_row(name):
    drawing, rows = draw(name, "published")
    chosen = {title: axes for title, axes in zip(titles(drawing), panels(drawing), strict=True)}
    row = rows["OAT uniform"]
    axes = chosen[f"OAT, uniform: {len(row['knots'])} knots"]
    picture = row["picture"]
    estimate = "mean of f" if name == "gaussian" else "median of the expected count"
    np.testing.assert_array_equal(line(axes, estimate), np.column_stack([picture["grid"], picture["mean"]]))
    np.testing.assert_array_equal(line(axes, "truth"), np.column_stack([picture["grid"], picture["truth"]]))
    np.testing.assert_array_equal(line(axes, "data"), np.column_stack([picture["x"], picture["y"]]))
    band = axes.collections[0].get_paths()[0].vertices
    assert {*picture["low"], *picture["high"]} <= {*band[:, 1]}
    for label, key in (("knots", "knots"), ("initial knots", "initial_knots")):
        np.testing.assert_array_equal(line(axes, label)[:, 0], np.ravel(row[key]))


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("name", ["gaussian", "poisson", "banana-knots", "hickory-knots"])
def test_every_knot_of_every_row_is_drawn_once(name, setting):
    drawing, rows = draw(name, setting)
    drawn = [Z for axes in panels(drawing) if len(Z := line(axes, "knots"))]
    shown = [row["knots"] for row in rows.values() if row["knots"]]
    dimension = 2 if name.endswith("knots") else 1
    found = {tuple(z) for Z in drawn for z in Z[:, :dimension]}
    assert found <= {tuple(z) for Z in shown for z in Z} and len(found) == sum(map(len, drawn))
    counts = [int(title.split(": ")[1].split()[0]) for title in titles(drawing) if ": " in title]
    assert counts == [len(Z) for Z in drawn]


def test_initial_knots_are_open_circles_and_final_ones_solid():
    for axes in panels(draw("banana-knots", "published")[0]):
        initial, final = (
            next(each for each in axes.lines if each.get_label() == label) for label in ("initial knots", "knots")
        )
        assert initial.get_markerfacecolor() == "none" and final.get_markerfacecolor() != "none"
        assert initial.get_markersize() > final.get_markersize()  # a knot that stayed is seen in its circle


@pytest.mark.parametrize("name, key", [("banana", "probability"), ("hickory", "intensity")])
def test_maps_show_lower_limit_median_and_upper_limit_on_one_scale_of_colours(name, key):
    drawing, rows = draw(name, "published")
    axes = panels(drawing)
    picture = rows["OAT-BO 25"]["picture"]
    for line_, part in enumerate(("low", key, "high")):
        image = axes[3 + line_].images[0]
        np.testing.assert_array_equal(image.get_array(), picture[part])
        left, right, bottom, top = image.get_extent()
        n = len(picture["x0"])
        assert left + (right - left) / (2 * n) == pytest.approx(picture["x0"][0], abs=1e-4)
        assert top - (top - bottom) / (2 * n) == pytest.approx(picture["x1"][-1], abs=1e-4)
    scales = {(image.norm.vmin, image.norm.vmax) for each in axes for image in each.images}
    assert len(scales) == 1


def test_the_sixth_knots_curve_has_the_value_of_five_as_its_level():
    drawing, rows = draw("sixth-knot", "published")
    picture = rows["FIC 5"]["picture"]
    (axes,) = panels(drawing)
    expected = np.column_stack([picture["sixth"], picture["log_likelihood"]])
    np.testing.assert_array_equal(line(axes, "with a sixth knot here"), expected)
    assert {*line(axes, "with five knots")[:, 1]} == {picture["log_likelihood_of_five"]}
    np.testing.assert_array_equal(line(axes, "knots")[:, 0], np.ravel(rows["FIC 5"]["knots"]))


def test_a_part_of_the_line_shows_each_method_with_the_knots_that_lie_there():
    drawing, rows = draw("short", "knotwise")
    assert titles(drawing)[1] == f"automatic: {len(rows['auto']['knots'])} knots"
    assert titles(drawing)[2].endswith("knots, 15 neighbours") and titles(drawing)[3] == "exact GP"
    for axes, method in zip(panels(drawing), ("OAT 50", "auto", "15 neighbours", "Full"), strict=True):
        picture = rows[method]["picture"]
        np.testing.assert_array_equal(line(axes, "mean of f"), np.column_stack([picture["grid"], picture["mean"]]))
        np.testing.assert_array_equal(line(axes, "truth"), np.column_stack([picture["grid"], picture["truth"]]))
        np.testing.assert_array_equal(line(axes, "knots")[:, 0], picture["knots"])


def test_losses_are_the_medians_over_seeds_by_length_scale():
    other = [{**row, "seed": 1, "metrics": {**row["metrics"], "nlpd": 3.0}} for row in ROWS if row["seed"] == 0]
    rows = [row for row in ROWS if row["seed"] == 0] + other
    drawing, shown = draw("short-losses", "knotwise", rows)
    nlpd = {(row["case"], row["method"]): row["metrics"]["nlpd"] for row in shown if row["seed"] == 0}
    cases = {0: {"line-0.05": 0.05, "line-0.02": 0.02, "line-0.01": 0.01}, 1: {"plane-0.1": 0.1}}
    for i, axes in enumerate(panels(drawing)):
        for method in ("OAT 50", "auto", "15 neighbours"):
            # the second seed loses nothing: both densities are 3
            expected = [(x, (nlpd[case, method] - nlpd[case, "Full"]) / 2) for case, x in cases[i].items()]
            np.testing.assert_allclose(line(axes, method), expected, rtol=1e-12)
    assert titles(drawing) == ["one input, 600 rows", "two inputs, 900 rows"]
    alone = [row for row in rows if row.get("case") == "line-0.02"]
    assert len(panels(draw("short-losses", "knotwise", alone)[0])) == 1


# -- how it looks -------------------------------------------------------------------------------------


#: the setting with the most panels
FULLEST = [("five-knots", "published"), ("sixth-knot", "published"), *((s.name, "knotwise") for s in SUBJECTS[2:])]


@pytest.fixture(scope="module", params=FULLEST, ids="-".join)
def laid_out(request):
    """Each figure in turn, with its layout done."""
    drawing, _ = draw(*request.param)
    drawing.figure.set_dpi(150)  # as in its file
    with look():
        drawing.figure.draw_without_rendering()
    return drawing


def test_panels_share_their_scales_and_have_labels(laid_out):
    shown = panels(laid_out)
    assert len({(*axes.get_xlim(), *axes.get_ylim()) for axes in shown}) == 1
    for axes in shown:
        place = axes.get_subplotspec()
        assert not place.is_last_row() or axes.get_xlabel()
        assert not place.is_first_col() or axes.get_ylabel()


def test_no_words_are_cut_off_and_titles_do_not_touch(laid_out):
    figure = laid_out.figure
    ticks = [text for axes in figure.axes for text in [*axes.get_xticklabels(), *axes.get_yticklabels()]]
    words = [text for text in figure.findobj(Text) if text.get_text() and text not in ticks]
    edges = figure.bbox.padded(1)
    for text in words:
        box = text.get_window_extent()
        assert edges.contains(box.x0, box.y0) and edges.contains(box.x1, box.y1), text
    names = {axes.get_title(loc="left") for axes in figure.axes}
    boxes = [text.get_window_extent() for text in words if text.get_text() in names]
    assert not any(one.overlaps(other) for i, one in enumerate(boxes) for other in boxes[:i])


@pytest.mark.parametrize("key, place", [("knots", "x"), ("high", "y")])
def test_what_runs_away_does_not_squeeze_the_rest(key, place):
    rows = [dict(row) for row in make_rows(["published"])]
    wild = next(row for row in rows if row["method"] == "Simult. random")
    if key == "knots":
        wild["knots"] = [*wild["knots"][1:], [1e4]]
    else:
        wild["picture"] = {**wild["picture"], "high": (1e4 * np.array(wild["picture"]["high"])).tolist()}
    drawing, _ = draw("gaussian", "published", rows)
    low, high = getattr(panels(drawing)[0], f"get_{place}lim")()
    assert high - low < 20
    assert ("beyond the edges: 1 of simultaneous, random" in drawing.caption) == (key == "knots")


def test_limits_widen_by_what_is_there_up_to_a_share():
    assert widened((0.0, 10.0), [[-1.0, 5.0]], 0.2) == (-1.0, 10.0)
    assert widened((0.0, 10.0), [[-50.0], [11.0]], 0.2) == (-2.0, 11.0)
    assert limits([[np.nan, 2.0], [4.0]], 0.5) == (1.0, 5.0)


# -- rows that are not there --------------------------------------------------------------------------


def test_without_rows_nothing_is_drawn_and_every_figure_is_missing(tmp_path):
    assert draw_figures([], tmp_path) == []
    assert [f"Figure {n}" for n in range(1, 11)] == [words.split(" (")[0] for words in missing_figures([])]


def test_a_panel_without_a_row_is_left_out_with_a_word():
    lacking = [row for row in ROWS if row["method"] != "OAT adversarial"]
    drawing, _ = draw("gaussian", "published", lacking)
    assert len(panels(drawing)) == len(GAUSSIAN) - 1
    assert "not drawn: OAT adversarial." in drawing.caption
    assert "not drawn" not in draw("gaussian", "published")[0].caption


def test_our_own_panels_are_not_missed_in_the_published_setting():
    ours = Panel("full GP", "Full", own=True)
    row = {"setting": "published"}
    assert choose({"Full": row}, [ours]) == []
    assert choose({"Full": {"setting": "knotwise"}}, [ours]) == [(ours, {"setting": "knotwise"})]


def test_the_lowest_seed_with_a_picture_is_shown_and_failed_fits_are_not():
    failed = {"experiment": "gaussian", "setting": "published", "method": "OAT uniform", "seed": 0, "error": "no"}
    later = [{**failed, "seed": seed, "picture": {"seed": seed}} for seed in (7, 3)]
    assert pictured([failed, *later], "gaussian", "published")["OAT uniform"]["seed"] == 3


# -- files --------------------------------------------------------------------------------------------


def test_files_are_images_and_the_same_rows_give_the_same_bytes(tmp_path):
    rows = [row for row in ROWS if row["experiment"] == "motivation"]
    first, again = (draw_figures(rows, tmp_path / name) for name in ("first", "again"))
    assert [figure.name for figure in first] == ["figure-1-five-knots-published", "figure-2-sixth-knot-published"]
    for one, other in zip(first, again, strict=True):
        assert one.svg.read_bytes() == other.svg.read_bytes() and one.png.read_bytes() == other.png.read_bytes()
        assert one.title.startswith("Figure") and "as published" in one.title and "Seed 0" in one.caption
        check_files(one)
    assert len(missing_figures(first)) == 8


@pytest.mark.slow
def test_every_figure_of_the_paper_is_drawn_in_every_setting(tmp_path):
    figures = draw_figures(ROWS, tmp_path)
    assert len(figures) == 16 and missing_figures(figures) == []
    for figure in figures:
        check_files(figure)


def check_files(figure):
    """The PNG is one, of a size to look at; the SVG is XML of the same proportions and no date."""
    content = figure.png.read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", content[16:24])
    assert width > 500 and height > 300
    root = ElementTree.parse(figure.svg).getroot()
    ratio = float(root.get("width").removesuffix("pt")) / float(root.get("height").removesuffix("pt"))
    assert ratio == pytest.approx(width / height, rel=0.01)
    assert b"<dc:date>" not in figure.svg.read_bytes()
