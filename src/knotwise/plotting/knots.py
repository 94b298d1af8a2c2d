"""Knots in a picture: as ticks below a curve, as numbered or sized circles on a map."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from knotwise.plotting.style import BLACK, counted
from knotwise.plotting.view import View

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_NUMBERS = 40  # more numbers than this hide the map
MOST_DRAWN = 1000  # more knots than this hide it, too
#: areas of circles, in square points, of up to MOST_NUMBERS knots; more knots share the same ink, down to the least
LARGEST, SMALLEST, PLAIN, LEAST = 95.0, 14.0, 40.0, 3.0
RUG_HEIGHT = 0.16  # of a row of ticks, in inches
CIRCLE: dict[str, Any] = {"facecolor": "white", "edgecolor": BLACK, "linewidths": 0.9, "zorder": 4}


def draw_rug(ax: Axes, values: np.ndarray, *, colour: str, row: int = 0, label: str | None = None) -> None:
    """Draw ticks at the foot of the axes, one for each knot; further sets go into further rows."""
    from matplotlib.transforms import ScaledTranslation

    up = ScaledTranslation(0, RUG_HEIGHT * (row + 0.6), ax.figure.dpi_scale_trans)
    marks: dict[str, Any] = {"markersize": 9, "markeredgewidth": 1.3, "zorder": 5, "color": colour, "label": label}
    ax.plot(values, np.zeros(len(values)), "|", transform=ax.get_xaxis_transform() + up, **marks)


def draw_knots(ax: Axes, places: np.ndarray, *, ordered: bool) -> None:
    """Draw knots on a map, readable on light and dark: white circles with a black edge.

    Where knots were added one after the other, a few have their number inside, many shrink from the first to the last.
    The more there are, the smaller they are; more than a thousand are not drawn.
    """
    n = len(places)
    if n > MOST_DRAWN:
        return
    if not _numbered(n, ordered):
        sizes = np.geomspace(LARGEST, SMALLEST, n) if ordered else np.full(n, PLAIN)
        sizes = np.maximum(sizes * min(1.0, MOST_NUMBERS / max(n, 1)), LEAST)
        thin = {"linewidths": 0.5} if n > MOST_NUMBERS else {}
        ax.scatter(places[:, 0], places[:, 1], s=sizes, label="knots", **CIRCLE | thin)
        return
    for number in range(n, 0, -1):  # each circle with its number, so that the first lie on the last, and can be read
        x, y = places[number - 1]
        ax.scatter([x], [y], s=110.0, label="_knot", **CIRCLE)
        ax.text(x, y, str(number), ha="center", va="center_baseline", fontsize=6.5, zorder=4, clip_on=True)


def describe_knots(view: View) -> str:
    """How many knots a map has, and what their looks say; empty for the exact GP."""
    n = len(view.knots)
    if n == 0:
        return ""
    if n > MOST_DRAWN:
        return f"{n:,} knots, too many to draw"
    order = ("numbered as added" if _numbered(n, view.ordered) else "the first are the largest") if view.ordered else ""
    return ", ".join(filter(None, [counted(n, "knot"), order]))


def _numbered(n: int, ordered: bool) -> bool:
    return ordered and n <= MOST_NUMBERS
