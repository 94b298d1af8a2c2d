"""Figures over one input: the motivating example, the simulated Gaussian data and the simulated Poisson data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from knotwise.plotting.style import BLACK, BLUE, GREY, VERMILION
from knotwise_reproduction.figures_panels import (
    Drawing,
    Panel,
    add_legend,
    beyond_words,
    choose,
    knots_of,
    label_outer,
    limits,
    missing_words,
    panel_grid,
    title_of,
    widened,
)
from knotwise_reproduction.results import Row

__all__ = ["GAUSSIAN", "POISSON", "draw_five_knots", "draw_gaussian", "draw_poisson", "draw_sixth_knot"]

GAUSSIAN = (
    Panel("OAT, uniform", "OAT uniform"),
    Panel("OAT, adversarial", "OAT adversarial"),
    Panel("OAT, random", "OAT random"),
    Panel("simultaneous, uniform", "Simult. uniform"),
    Panel("simultaneous, adversarial", "Simult. adversarial"),
    Panel("simultaneous, random", "Simult. random"),
    Panel("full GP", "Full", own=True),
    Panel("simultaneous, uniform, VFE", "Simult. uniform VFE", own=True),
    Panel("automatic", "auto", own=True),
)
POISSON = (
    Panel("OAT, uniform", "OAT uniform"),
    Panel("OAT, random", "OAT random"),
    Panel("fixed", "Fixed 20"),
    Panel("simultaneous", "Simult. 11"),
    Panel("simultaneous", "Simult. 20"),
    Panel("full GP", "Full"),
    Panel("simultaneous, VFE", "Simult. 20 VFE", own=True),
    Panel("automatic", "auto", own=True),
)
KNOTS = "Orange crosses at the top are the initial knots, blue crosses at the bottom the chosen ones."


def draw_gaussian(rows: Mapping[str, Row]) -> Drawing | None:
    """Draw the panels of the Gaussian example: one-at-a-time above simultaneous, by initial knots."""
    words = (
        "f by its mean and 95 % band (the paper's bands are of new observations), with the truth and the data; the "
        f"same scales in all panels. {KNOTS}"
    )
    return _draw_panels(rows, GAUSSIAN, words, "y", line="mean of f")


def draw_poisson(rows: Mapping[str, Row]) -> Drawing | None:
    """Draw the panels of the Poisson example, in the paper's places."""
    words = (
        f"Expected counts by their median and 95 % band, with the truth and the counts; the same scales in all panels. "
        f"{KNOTS}"
    )
    return _draw_panels(rows, POISSON, words, "count", line="median of the expected count")


def _draw_panels(
    rows: Mapping[str, Row], panels: Sequence[Panel], words: str, ylabel: str, *, line: str
) -> Drawing | None:
    chosen = choose(rows, panels)
    if not chosen:
        return None
    figure, grid = panel_grid(len(chosen), 2, (2.65, 2.1))
    for axes, (panel, row) in zip(grid, chosen, strict=True):
        draw_curve(axes, row, line)
        axes.set_title(title_of(panel, row).replace(": ", "\n"), fontsize=9)
    label_outer(grid, "x", ylabel)
    pictures = [row["picture"] for _, row in chosen]
    knots = [knots_of(row, which) for _, row in chosen for which in ("knots", "initial_knots")]
    edges = limits([widened(limits(picture["grid"] for picture in pictures), knots, 0.15)], 0.03)
    heights = limits(picture[key] for picture in pictures for key in ("y", "truth", "mean"))
    bands = [picture[key] for picture in pictures for key in ("low", "high")]
    grid[0].set(xlim=edges, ylim=limits([widened(heights, bands, 0.3)], 0.12))
    add_legend(figure, grid)
    seed = f"Seed {chosen[0][1].get('seed')}."
    return Drawing(figure, f"{words} {seed}{beyond_words(chosen, [edges])}{missing_words(rows, panels)}")


def draw_curve(axes: Any, row: Row, line: str) -> None:
    """Draw data, truth, estimate, 95 % band and knots of one fit."""
    picture = row["picture"]
    grid = picture["grid"]
    axes.plot(picture["x"], picture["y"], ".", color=GREY, markersize=3.5, label="data", zorder=1)
    axes.fill_between(
        grid, picture["low"], picture["high"], color=BLUE, alpha=0.25, linewidth=0, label="95 % band", zorder=2
    )
    if picture.get("truth") is not None:
        axes.plot(grid, picture["truth"], color=BLACK, linewidth=1.0, linestyle=(0, (4, 2)), label="truth", zorder=3)
    axes.plot(grid, picture["mean"], color=BLUE, linewidth=1.6, label=line, zorder=4)
    _draw_knots(axes, row)


def _draw_knots(axes: Any, row: Row) -> None:
    """Mark the initial knots along the upper edge and the final ones along the lower."""
    edges = (("initial_knots", "initial knots", VERMILION, 0.955), ("knots", "knots", BLUE, 0.045))
    for which, label, colour, height in edges:
        Z = knots_of(row, which)
        if len(Z):
            axes.plot(
                Z[:, 0],
                np.full(len(Z), height),
                "+",
                color=colour,
                markersize=7,
                markeredgewidth=1.4,
                transform=axes.get_xaxis_transform(),
                label=label,
                zorder=5,
            )


def draw_five_knots(rows: Mapping[str, Row]) -> Drawing | None:
    """Draw the motivating fit through five knots."""
    row = _motivation(rows)
    if row is None:
        return None
    figure, (axes,) = panel_grid(1, 1, (5.3, 3.3))
    draw_curve(axes, row, "mean of f")
    picture = row["picture"]
    axes.set(xlabel="x", ylabel="y", ylim=limits([picture["y"], picture["low"], picture["high"]], 0.14))
    add_legend(figure, [axes])
    return Drawing(figure, f"Simulated Gaussian data and f by its mean and 95 % band. {KNOTS} Seed {row.get('seed')}.")


def draw_sixth_knot(rows: Mapping[str, Row]) -> Drawing | None:
    """Draw the log-likelihood with a sixth knot, over its place."""
    row = _motivation(rows)
    if row is None:
        return None
    picture = row["picture"]
    figure, (axes,) = panel_grid(1, 1, (5.3, 3.3))
    axes.plot(picture["sixth"], picture["log_likelihood"], color=BLACK, linewidth=1.5, label="with a sixth knot here")
    axes.axhline(picture["log_likelihood_of_five"], color=GREY, linewidth=1.5, zorder=1, label="with five knots")
    _draw_knots(axes, {"knots": row.get("knots")})
    axes.set(xlabel="place of the sixth knot", ylabel="log-likelihood")
    axes.margins(x=0.02, y=0.12)
    add_legend(figure, [axes])
    words = "The log-likelihood with a sixth knot, as a function of its place, the first five (blue crosses) held. "
    return Drawing(
        figure, words + f"Where it meets one of them, it comes back to the value of five. Seed {row.get('seed')}."
    )


def _motivation(rows: Mapping[str, Row]) -> Row | None:
    return next(iter(rows.values()), None)
