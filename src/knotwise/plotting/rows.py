"""Rows of the data on a map."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from knotwise.plotting.style import BLACK
from knotwise.plotting.view import View, class_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

__all__ = ["draw_rows"]

FEW, MANY = 300, 2000  # rows up to which marks are large, and beyond which they share the ink of so many


def draw_rows(ax: Axes, view: View, places: np.ndarray, y: np.ndarray, *, what: str, image: AxesImage) -> None:
    """Draw labels by shape and colour, targets of a Gaussian mean in the map's colours, other rows as small dots.

    With further columns a target is not of this map's slice, so its colour would say little.
    """
    x1, x2 = places.T
    area, edge = (24.0, 0.6) if len(places) <= FEW else (14.0, 0.35)
    if len(places) > MANY:
        area, edge = max(area * MANY / len(places), 0.5), 0.0  # the map between them can be seen
    if view.classes is not None:
        _draw_labels(ax, view, places, y, area, image, edge=min(edge, 0.5))
    elif what == "mean" and view.model.likelihood_.conjugate and len(view.names) == 2:
        colours: Any = {"c": y, "cmap": image.get_cmap(), "norm": image.norm}
        ax.scatter(x1, x2, s=area, edgecolor="white", linewidths=edge, zorder=2, **colours)
    else:
        ax.scatter(x1, x2, s=area / 4, color=BLACK, alpha=0.5, linewidths=0, zorder=2)


def _draw_labels(
    ax: Axes, view: View, places: np.ndarray, y: np.ndarray, area: float, image: AxesImage, *, edge: float
) -> None:
    """Draw the class of the map as circles of its highest colour, the others as squares of its lowest."""
    others = [name for name in view.classes or [] if name != view.label]
    ours = view.is_label(y)
    groups = (
        (ours, "o", 1.0, BLACK, view.label_name),
        (~ours, "s", 0.0, "white", class_name(others[0]) if len(others) == 1 else f"not {view.label_name}"),
    )
    for chosen, marker, end, colour, name in groups:
        ax.scatter(
            places[chosen, 0],
            places[chosen, 1],
            s=area,
            marker=marker,
            color=image.get_cmap()(end),
            edgecolor=colour,
            linewidths=edge,
            zorder=2,
            label=name,
        )
    # below the name of the axis, where no title of the user meets it
    below: Any = {"loc": "upper left", "bbox_to_anchor": (0.0, 0.0), "borderaxespad": 3.8}
    ax.legend(
        ncols=2, fontsize=9, frameon=False, handletextpad=0.2, markerscale=max(1.0, (14.0 / area) ** 0.5), **below
    )
