"""Figures over two inputs: the banana's class probabilities and the hickory trees' intensity, with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from knotwise.plotting.style import MAP_OF_VALUES
from knotwise.plotting.surface import write_log_ticks
from knotwise_reproduction.figures_panels import (
    Drawing,
    Panel,
    choose,
    label_outer,
    missing_words,
    panel_grid,
    title_of,
)
from knotwise_reproduction.results import Row

__all__ = ["AUTO", "BANANA", "FULL", "HICKORY", "OAT_BO", "SIMULTANEOUS", "SIMULTANEOUS_VFE"]
__all__ += ["aspect", "draw_banana", "draw_hickory", "extent"]

FULL, AUTO = Panel("full GP", "Full"), Panel("automatic", "auto", own=True)
OAT_BO = Panel("OAT-BO", "OAT-BO 25")
SIMULTANEOUS = Panel("simultaneous", "Simult. 50")
SIMULTANEOUS_VFE = Panel("simult. VFE", "Simult. 50 VFE", own=True)
BANANA = (FULL, OAT_BO, Panel("OAT-RS 25", "OAT-RS 25"), SIMULTANEOUS, SIMULTANEOUS_VFE, AUTO)
HICKORY = (
    FULL,
    OAT_BO,
    Panel("OAT-RS 25", "OAT-RS 25"),
    Panel("OAT-RS 50", "OAT-RS 50"),
    SIMULTANEOUS,
    Panel("simultaneous", "Simult. 28"),
    SIMULTANEOUS_VFE,
    AUTO,
)


@dataclass(frozen=True)
class Surface:
    """What a map shows: the picture's key of the median, what its colours mean, and their scale."""

    key: str
    colour_label: str
    logarithmic: bool = False

    def norm(self, pictures: Sequence[Row]) -> Any:
        """Return the colour scale that all maps share."""
        from matplotlib.colors import LogNorm, Normalize

        if not self.logarithmic:
            return Normalize(0.0, 1.0)
        values = np.concatenate([np.ravel(picture[key]) for picture in pictures for key in ("low", self.key, "high")])
        low, high = np.quantile(values[values > 0], [0.01, 0.99])
        return LogNorm(low, high)


PROBABILITY = Surface("probability", "probability of class one")
INTENSITY = Surface("intensity", "trees per unit of area", logarithmic=True)


def draw_banana(rows: Mapping[str, Row]) -> Drawing | None:
    """Draw the class probabilities of every model with their 95 % intervals."""
    words = (
        "Median of the probability of class one and its 95 % interval, point by point; the white line is at one half."
    )
    return _draw_surfaces(rows, BANANA, PROBABILITY, words, contour=0.5)


def draw_hickory(rows: Mapping[str, Row]) -> Drawing | None:
    """Draw the intensity of every model with its 95 % interval."""
    words = "Median of the intensity and its 95 % interval, cell by cell, on one logarithmic colour scale."
    return _draw_surfaces(rows, HICKORY, INTENSITY, words)


def _draw_surfaces(
    rows: Mapping[str, Row], panels: Sequence[Panel], surface: Surface, words: str, contour: float | None = None
) -> Drawing | None:
    """Draw a line for each model: lower limit, estimate, upper limit."""
    chosen = choose(rows, panels)
    if not chosen:
        return None
    norm = surface.norm([row["picture"] for _, row in chosen])
    parts = (("low", "lower limit, 2.5 %"), (surface.key, "median"), ("high", "upper limit, 97.5 %"))
    size = (1.45, 1.45 * aspect([row["picture"] for _, row in chosen]))
    figure, grid = panel_grid(3 * len(chosen), 3, size, border=(1.0, 0.8), layout="compressed")
    image = None
    for line, (_, row) in enumerate(chosen):
        for column, (key, words_above) in enumerate(parts):
            axes = grid[3 * line + column]
            image = _draw_surface(axes, row["picture"], key, norm, contour)
            if line == 0:
                axes.set_title(words_above, fontsize=9)
    label_outer(grid, "x1", "")
    for axes, (panel, row) in zip(grid[::3], chosen, strict=True):
        axes.set_ylabel("\n".join([*title_of(panel, row).split(": "), "x2"]))
    grid[0].locator_params(nbins=3)
    _add_colours(figure, image, grid, surface)
    return Drawing(figure, f"{words} Seed {chosen[0][1].get('seed')}.{missing_words(rows, panels)}")


def _draw_surface(axes: Any, picture: Row, key: str, norm: Any, contour: float | None) -> Any:
    values = np.asarray(picture[key], dtype=float)
    image = axes.imshow(values, origin="lower", extent=extent(picture), cmap=MAP_OF_VALUES, norm=norm, aspect="equal")
    if contour is not None and values.min() < contour < values.max():
        axes.contour(picture["x0"], picture["x1"], values, levels=[contour], colors="white", linewidths=0.9)
    return image


def _add_colours(figure: Any, image: Any, grid: Sequence[Any], surface: Surface) -> None:
    """Put the scale of colours below the maps, with round numbers in full."""
    bar = figure.colorbar(image, ax=grid, label=surface.colour_label, location="bottom", shrink=0.8, aspect=30)
    if surface.logarithmic:
        write_log_ticks(bar)


def aspect(pictures: Sequence[Row]) -> float:
    """Return height over width of the maps."""
    left, right, bottom, top = extent(pictures[0])
    return (top - bottom) / (right - left)


def extent(picture: Row) -> tuple[float, float, float, float]:
    """Return the edges of an image whose cells have the grid's points in their middles."""
    edges = []
    for key in ("x0", "x1"):
        grid = np.asarray(picture[key], dtype=float)
        half = (grid[-1] - grid[0]) / max(len(grid) - 1, 1) / 2
        edges += [round(grid[0] - half, 4), round(grid[-1] + half, 4)]  # the grid's own numbers are rounded
    return edges[0], edges[1], edges[2], edges[3]
