"""The pictures of a page, each a few inches wide, so that a phone shows it whole and its words can be read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from knotwise.estimators.effects import Effect, effects_of, levels_of
from knotwise.numerics.columns import coordinate_pair
from knotwise.plotting import plot_fit, plot_trace, plot_warps
from knotwise.plotting.calibration import draw_calibration, draw_pit
from knotwise.plotting.effects import draw_effect, effect_name, heights_of, name_classes
from knotwise.plotting.maps import MapCells, draw_map
from knotwise.plotting.observed import MOST_MARKS, draw_observed
from knotwise.plotting.style import counted, shorten
from knotwise.plotting.surface import figure_size
from knotwise.plotting.view import Named, View, view_of
from knotwise.report.data import Data
from knotwise.report.html import Picture, new_figure, picture_of

WIDTH = 4.9  # inches: at 390 pixels three quarters of their size
LEVEL = 0.95
MOST_ON_MAP = 1000  # rows that are drawn on a map
MOST_MAPS = 4  # classes that have a map each
RESOLUTION = 110


def curve(view: View, data: Data) -> Picture:
    figure = new_figure((WIDTH, 3.7))
    counts_without_size = data.y is None and view.model.likelihood_.size_name is not None
    noise_unknown = view.model._fit.noise_given and "noise_variance" not in data.sizes
    y = None if data.y is None else Named(data.y, data.target)
    kind = "mean" if counts_without_size or noise_unknown else None
    plot_fit(view.gp, data.X, y, ax=figure.subplots(), kind=kind, **data.sizes)
    words = "The fitted mean and its band; ticks at the foot are knots."
    return picture_of(figure, "picture-fit", f"The fit along {view.names[0]}", words)


def levels(view: View, data: Data) -> Picture:
    """The mean of each level of the only column."""
    drawn = effects(view, data, [0])
    return effect_panels(view, data, drawn, heights_of(drawn), "picture-fit", f"The levels of {view.names[0]}")


def maps(view: View, data: Data) -> list[Picture]:
    """Maps over two coordinates: of what is predicted, and of how well it is known; none without coordinates."""
    pair = coordinate_pair(view.names)
    if pair is None or (data.origin.word == "knots" and len(data) < 3):
        return []
    if any(levels_of(view.encoding, column) for column in pair):  # levels have no order
        return []
    if view.n_classes > 2:
        views = [view_of(view.gp, data.X, label=label) for label in (view.classes or [])[:MOST_MAPS]]
        return [_map(_cells(each, data, pair), data, f"picture-map-{i}") for i, each in enumerate(views)]
    spread = "intensity_cv" if view.model.likelihood_.size_name == "exposure" else "sd"
    cells = _cells(view, data, pair)
    return [_map(cells, data, "picture-map"), _map(cells, data, "picture-map-sd", what=spread)]


def describe_maps(view: View) -> str:
    """Say how many classes have no map."""
    return f"Maps are of the first {MOST_MAPS} of {view.n_classes} classes." if view.n_classes > MOST_MAPS else ""


def _cells(view: View, data: Data, pair: tuple[int, int]) -> MapCells:
    return MapCells.of(view, list(pair), data.X, resolution=RESOLUTION, mask=data.origin.word != "knots")


def _map(cells: MapCells, data: Data, name: str, what: str | None = None) -> Picture:
    view, size = cells.view, figure_size(cells.aspect, cells.box)
    figure = new_figure((WIDTH, size[1] * WIDTH / size[0]), "compressed")
    y = data.y if what is None and len(data) <= MOST_ON_MAP else None
    ax = draw_map(figure.subplots(), cells, data.X, y, shorten(data.target, 32), what=what)
    bar = ax.child_axes[0]
    shown = " ".join(bar.get_ylabel().split()).replace(r"\$", "$")
    words = "How well the latent function f is known: its standard deviation." if what == "sd" else ""
    others = f"The other {len(view.names) - 2} columns are at their medians." if len(view.names) > 2 else ""
    hidden = "White is far from every row." if np.ma.is_masked(ax.images[0].get_array()) else ""
    rows = "Marks are rows." if y is not None else ""
    return picture_of(figure, name, f"Map: {shown}", " ".join(filter(None, [words, others, rows, hidden])))


def effects(view: View, data: Data, columns: Sequence[int]) -> list[Effect]:
    """The effect of each column, the most important first."""
    return effects_of(view.gp, data.X, view.names, columns, level=LEVEL)


def effect_panels(
    view: View, data: Data, drawn: Sequence[Effect], heights: tuple[float, float], name: str, title: str
) -> Picture:
    """Effects beside and below each other, on one scale."""
    across = min(2, len(drawn))
    down = -(-len(drawn) // across)
    figure = new_figure((WIDTH if across > 1 else 3.6, 1.75 * down + (0.3 if across > 1 else 1.2)))
    grid = figure.subplots(down, across, squeeze=False)
    axes = grid.ravel()[: len(drawn)]
    for spare in grid.ravel()[len(drawn) :]:
        spare.remove()
    response = effect_name(view, Named(np.empty(0), data.target))
    for i, (ax, effect) in enumerate(zip(axes, drawn, strict=True)):
        draw_effect(ax, view, effect, data.X[:, effect.column], level=LEVEL)
        ax.set_ylim(heights)
        ax.set_ylabel(response if i % across == 0 else "")
        if i % across:
            ax.tick_params(labelleft=False)
    if view.n_classes > 2:
        name_classes(figure, axes[0])
    several = "each class has a curve" if view.n_classes > 2 else "the band is where the average lies with 95 %"
    words = [f"The average prediction as one column moves, over rows that keep the others; {several}."]
    words += ["Grey ticks are deciles of the data."] if not all(effect.is_stepwise for effect in drawn) else []
    words += ["All panels have one scale."] if len(drawn) > 1 else []
    return picture_of(figure, name, title, " ".join(words))


def warps(view: View) -> Picture:
    """The length-scale along each warped column, in the units of the column."""
    found = view.model.warp_
    figure = new_figure((WIDTH, 0.4 + 1.9 * -(-len(found) // 2)))
    grid = figure.subplots(-(-len(found) // 2), min(2, len(found)), squeeze=False).ravel()
    for spare in grid[len(found) :]:
        spare.remove()
    plot_warps(view.model, ax=grid[: len(found)])
    words = (
        "The length-scale, in the units of the column, at each of its values: the function can change quickly where it "
        "is short. Grey ticks are knots, or deciles of the rows of the exact GP."
    )
    return picture_of(figure, "picture-warps", "Length-scales along warped columns", words)


def calibration(view: View, data: Data) -> Picture:
    """Coverage of intervals, or reliability of probabilities."""
    figure = new_figure((4.2, 4.0))
    draw_calibration(figure.subplots(), view, data.prediction, np.asarray(data.y))
    if view.of_labels:
        words = "How often a class was observed against its predicted probability: a right model is on the diagonal."
    else:
        words = "Share of rows inside their intervals against the level of these: a right model is on the diagonal."
    return picture_of(figure, "picture-calibration", "Calibration", f"{words} Grey is where chance alone may lead.")


def observed(data: Data) -> Picture:
    figure = new_figure((4.4, 4.2))
    draw_observed(figure.subplots(), data.prediction, np.asarray(data.y), shorten(data.target, 32))
    shown = "Each row at its prediction, with its 95 % interval"
    if len(data) > MOST_MARKS:
        shown = "How many rows have which prediction, with their typical 95 % interval"
    words = f"{shown}; a right model has 5 % of the rows outside."
    return picture_of(figure, "picture-observed", "Observed and predicted", words)


def pit(data: Data) -> Picture:
    figure = new_figure((WIDTH, 3.1))
    draw_pit(figure.subplots(), data.prediction, np.asarray(data.y))
    words = (
        "Where observations lie in their own predictive distribution: flat if it is right, a hump where intervals are "
        "too wide, a trough where they are too narrow, a slope where predictions are too high or too low."
    )
    return picture_of(figure, "picture-pit", "Observations in their predictive distributions", words)


def trace(model: Any, number: int, of: str) -> Picture | None:
    """How the knots were chosen; None where they were not added step by step."""
    kept = [s for s in model.trace_ if not (s.facts.compares_with_null or s.facts.compares_kernels)]
    if not kept or not model.n_knots_ or len({s.n_knots for s in kept}) < 2:
        return None
    figure = new_figure((WIDTH, 4.4))
    plot_trace(model, ax=figure.subplots(2, sharex=True))
    words = f"Log evidence, and the unexplained share of the variance, on the way to {counted(model.n_knots_, 'knot')}."
    return picture_of(figure, f"picture-knots-{number}", f"How the knots were chosen{of}", words)
