"""Figures of short length-scales: what is lost against the exact GP, and a part of the line by each method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from knotwise.plotting.style import BLACK, BLUE, GREEN, VERMILION, counted
from knotwise_reproduction.experiments import FULL
from knotwise_reproduction.figures_curves import draw_curve
from knotwise_reproduction.figures_panels import (
    Drawing,
    Panel,
    add_legend,
    choose,
    label_outer,
    limits,
    missing_words,
    panel_grid,
    title_of,
    widened,
)
from knotwise_reproduction.results import Results, Row
from knotwise_reproduction.short import CASES, N_HELD_OUT, PICTURED
from knotwise_reproduction.tables_short import losses

__all__ = ["SHORT", "draw_losses", "draw_short"]

SHORT = (
    Panel("one at a time", "OAT 50"),
    Panel("automatic", "auto"),
    Panel("automatic", "15 neighbours"),
    Panel("exact GP", FULL.name),
)
LOOKS = {"OAT 50": ("D", VERMILION), "auto": ("s", GREEN), "15 neighbours": ("o", BLUE)}
TITLES = {"line": "one input, 600 rows", "plane": "two inputs, 900 rows"}


def draw_short(rows: Mapping[str, Row]) -> Drawing | None:
    """Draw a part of the line with each method's f, its band and its knots there."""
    chosen = choose(rows, SHORT)
    if not chosen:
        return None
    figure, grid = panel_grid(len(chosen), 2, (2.65, 2.2))
    for axes, (panel, row) in zip(grid, chosen, strict=True):
        picture = row["picture"]
        draw_curve(axes, {"picture": picture, "knots": [[z] for z in picture["knots"]]}, "mean of f")
        near = row.get("n_neighbors")
        title = title_of(panel, row) + (f", {counted(near, 'neighbour')}" if near else "")
        axes.set_title(title.replace(": ", "\n"), fontsize=9)
    label_outer(grid, "x", "y")
    pictures = [row["picture"] for _, row in chosen]
    heights = limits(picture[key] for picture in pictures for key in ("y", "truth", "mean"))
    bands = [picture[key] for picture in pictures for key in ("low", "high")]
    edges = limits((picture["grid"] for picture in pictures), 0.02)
    grid[0].locator_params(axis="x", nbins=5)
    grid[0].set(xlim=edges, ylim=limits([widened(heights, bands, 0.3)], 0.1))
    add_legend(figure, grid)
    low, high = limits(picture["grid"] for picture in pictures)
    words = (
        f"The part from {low:g} to {high:g} of the line, length-scale {CASES[PICTURED].lengthscale:g}: f by its mean "
        "and 95 % band, with the truth and the data; the same scales in all panels. Blue crosses at the bottom are the "
        f"knots there; titles have the number of all. Seed {chosen[0][1].get('seed')}."
    )
    return Drawing(figure, words + missing_words(rows, SHORT))


def draw_losses(rows: Sequence[Row]) -> Drawing | None:
    """Draw the loss of a test row against the exact GP by length-scale, a line for each method."""
    results = Results(rows)
    found = {
        (place, method): [
            (case.lengthscale, losses(results, method, name))
            for name, case in CASES.items()
            if case.place == place and losses(results, method, name)
        ]
        for place in TITLES
        for method in LOOKS
    }
    places = [place for place in TITLES if any(found[place, method] for method in LOOKS)]
    if not places:
        return None
    figure, grid = panel_grid(len(places), 2, (2.65, 2.9))
    for axes, place in zip(grid, places, strict=True):
        axes.axhline(0.0, color=BLACK, linewidth=1.0, zorder=1, label="exact GP")
        for method, (marker, colour) in LOOKS.items():
            points = found[place, method]
            if points:
                x = [lengthscale for lengthscale, _ in points]
                axes.vlines(x, *zip(*((min(v), max(v)) for _, v in points), strict=True), color=colour, linewidth=1.0)
                axes.plot(x, [median(v) for _, v in points], marker=marker, color=colour, markersize=6, label=method)
        axes.set_title(TITLES[place])
    shown = sorted({lengthscale for points in found.values() for lengthscale, _ in points})
    grid[0].set_xscale("log")
    grid[0].set_xticks(shown, [f"{each:g}" for each in shown])
    grid[0].set_xticks([], minor=True)
    grid[0].set_xlim(shown[0] / 1.3, shown[-1] * 1.3)
    label_outer(grid, "length-scale", "nats lost by a held-out row")
    add_legend(figure, grid)
    words = (
        f"Mean negative log density of {N_HELD_OUT} test rows with that of the exact GP taken off, by the "
        "length-scale of the data: medians, and the range of the seeds as a vertical line. 0 is the exact GP."
    )
    return Drawing(figure, words)
