"""Maps of knots over two inputs: where they started, and where they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from knotwise.plotting.style import BLUE, GREY, VERMILION
from knotwise_reproduction.figures_maps import AUTO, FULL, OAT_BO, SIMULTANEOUS, SIMULTANEOUS_VFE, aspect, extent
from knotwise_reproduction.figures_panels import (
    Drawing,
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

__all__ = ["KNOT_MAPS", "draw_banana_knots", "draw_hickory_knots"]

KNOT_MAPS = (SIMULTANEOUS, OAT_BO, SIMULTANEOUS_VFE, AUTO)


def draw_banana_knots(rows: Mapping[str, Row]) -> Drawing | None:
    """Draw where the knots were and where they are, over the line of even odds."""
    return _draw_knot_maps(rows, "The grey line is where the model gives both classes one half.", _draw_even_odds)


def draw_hickory_knots(rows: Mapping[str, Row]) -> Drawing | None:
    """Draw where the knots were and where they are, over the counts of trees."""
    full = rows.get(FULL.method)
    if full is None or full["picture"].get("counts") is None:
        return _draw_knot_maps(rows, "", lambda axes, picture: None)
    picture = full["picture"]

    def draw_counts(axes: Any, _: Row) -> None:
        axes.imshow(
            picture["counts"], origin="lower", extent=extent(picture), cmap="Greys", vmax=2 * np.max(picture["counts"])
        )

    return _draw_knot_maps(rows, "The grey cells are the counts of trees, darker for more.", draw_counts)


def _draw_even_odds(axes: Any, picture: Row) -> None:
    values = np.asarray(picture["probability"], dtype=float)
    if values.min() < 0.5 < values.max():
        axes.contour(picture["x0"], picture["x1"], values, levels=[0.5], colors=GREY, linewidths=1.2)


def _draw_knot_maps(rows: Mapping[str, Row], words: str, draw_background: Callable[[Any, Row], None]) -> Drawing | None:
    chosen = choose(rows, KNOT_MAPS)
    if not chosen:
        return None
    pictures = [row["picture"] for _, row in chosen]
    figure, grid = panel_grid(len(chosen), 2, (2.4, 2.4 * aspect(pictures)), border=(0.5, 0.8), layout="compressed")
    for axes, (panel, row) in zip(grid, chosen, strict=True):
        draw_background(axes, row["picture"])
        initial, final = knots_of(row, "initial_knots"), knots_of(row, "knots")
        if len(initial):
            axes.plot(*initial.T, "o", mfc="none", mec=VERMILION, ms=6.5, mew=1.1, label="initial knots")
        if len(final):
            axes.plot(*final.T, "o", color=BLUE, mec="white", mew=0.5, ms=4, label="knots")
        axes.set(title=title_of(panel, row), aspect="equal")
    label_outer(grid, "x1", "x2")
    extents = np.array([extent(picture) for picture in pictures])
    knots = [knots_of(row, which) for _, row in chosen for which in ("knots", "initial_knots")]
    edges = [
        limits([widened(limits([extents[:, 2 * j : 2 * j + 2]]), [Z[:, j] for Z in knots if len(Z)], 0.15)], 0.03)
        for j in range(2)
    ]
    grid[0].set(xlim=edges[0], ylim=edges[1])
    add_legend(figure, grid)
    opening = "Open orange circles are the initial knots, solid blue points the chosen ones."
    seed = f"Seed {chosen[0][1].get('seed')}."
    words = " ".join(filter(None, [opening, words, seed]))
    return Drawing(figure, words + beyond_words(chosen, edges) + missing_words(rows, KNOT_MAPS))
