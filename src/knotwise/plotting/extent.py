"""Where a map is: its edges, its cells, what lies beyond the data, and how long a unit is up and across."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from knotwise.errors import InvalidInputError
from knotwise.numerics.columns import true_aspect
from knotwise.plotting.columns import points_along
from knotwise.plotting.view import View

Box = tuple[float, float, float, float]  # left, right, bottom, top

REACH = 0.15  # how far beyond the rows, relative to their range, the map goes to show knots
SIMILAR = 2.0  # ratio of the ranges of the only two columns up to which they are taken to have one unit
LONGEST_STRIP = 8.0  # ratio of the sides beyond which a map of coordinates would be a line
SPACINGS, SMALLEST_REACH = 2.0, 0.02  # of the data's spacing, and of the map's diagonal: as far as rows speak for


def extent_of(extent: Any, rows: np.ndarray | None, view: View, pair: Sequence[int]) -> Box:
    """The edges that are given, or those of the rows and the knots near them."""
    if extent is not None:
        box = np.asarray(extent, float)
        if box.shape != (4,) or not np.isfinite(box).all() or not (box[0] < box[1] and box[2] < box[3]):
            raise InvalidInputError(f"`extent` is {extent!r}; it must be (left, right, bottom, top).")
        return tuple(box.tolist())
    if rows is None:
        raise InvalidInputError("Where is the map? Give rows as X, or `extent=(left, right, bottom, top)`.")
    low, high = np.nanmin(rows[:, pair], axis=0), np.nanmax(rows[:, pair], axis=0)
    width = np.where(high > low, high - low, np.maximum(1.0, np.abs(low)))
    low, high = low - 0.02 * width, high + 0.02 * width
    for place in view.knots[:, pair]:
        if (place > low - REACH * width).all() and (place < high + REACH * width).all():
            low, high = np.minimum(low, place - 0.02 * width), np.maximum(high, place + 0.02 * width)
    return float(low[0]), float(high[0]), float(low[1]), float(high[1])


def cells_of(box: Box, place: np.ndarray, pair: Sequence[int], resolution: int) -> np.ndarray:
    """Rows at the centres of the map's cells, from the lower left, the first column fastest."""
    middles = (np.arange(resolution) + 0.5) / resolution
    across, up = box[0] + middles * (box[1] - box[0]), box[2] + middles * (box[3] - box[2])
    first, second = np.meshgrid(across, up)
    return points_along(place, {pair[0]: first.ravel(), pair[1]: second.ravel()})


def within_reach(places: np.ndarray, rows: np.ndarray | None, box: Box, aspect: Any, mask: bool | float) -> np.ndarray:
    """Which places of a map, [n, 2], are near rows: within `mask` in their units, or for True within two spacings.

    Distances are those on the picture: of the units where these are as long up as across, else of the map's sides. A
    spacing is the distance to the nearest other place that 95 % of the rows have; the least reach is 2 % of the
    diagonal.
    """
    from scipy.spatial import cKDTree

    if mask is False or mask is None:
        return np.ones(len(places), bool)
    if rows is None:
        raise InvalidInputError("`mask` hides what is far from rows: give these as X.")
    if mask is not True and not (isinstance(mask, int | float | np.number) and 0 < mask < np.inf):
        raise InvalidInputError(f"`mask` is {mask!r}; it must be True, False, or a distance in the units of the map.")
    sides = np.array([box[1] - box[0], box[3] - box[2]])
    scale = np.array([1.0, aspect_number(aspect)]) if aspect != "auto" else 1.0 / sides
    if mask is not True and aspect == "auto":
        raise InvalidInputError("A distance as `mask` needs columns of one unit: use aspect='equal', or mask=True.")
    seen = np.unique(rows * scale, axis=0)
    tree = cKDTree(seen)
    reach = float(mask)
    if mask is True:
        reach = SMALLEST_REACH * float(np.hypot(*(sides * scale)))
        if len(seen) > 1:
            reach = max(reach, SPACINGS * float(np.quantile(tree.query(seen, k=2)[0][:, 1], 0.95)))
    return tree.query(places * scale)[0] <= reach


def aspect_of(aspect: str | float | None, view: View, box: Box, pair: Sequence[int]) -> Any:
    """How long a unit is up, over across: as given; true for coordinates and columns of one scale; else as fits."""
    if aspect is not None:
        return aspect
    ratio = (box[1] - box[0]) / (box[3] - box[2])
    true = true_aspect([view.names[i] for i in pair], box)
    if true is not None and 1 / LONGEST_STRIP < ratio / true < LONGEST_STRIP:
        return "equal" if true == 1.0 else true
    similar = len(view.names) == 2 and 1 / SIMILAR < ratio < SIMILAR
    return "equal" if similar or getattr(view.model, "standardize", None) == "common" else "auto"


def aspect_number(aspect: Any) -> float:
    """An aspect that is not "auto" as a number."""
    return 1.0 if aspect == "equal" else float(aspect)


def figure_size(aspect: str | float, box: Box) -> tuple[float, float]:
    """Width and height of a new figure, in inches: what a map of true lengths needs, with room for its words."""
    if aspect == "auto":
        return 6.0, 4.8
    ratio = aspect_number(aspect) * (box[3] - box[2]) / (box[1] - box[0])
    height = float(np.clip(0.9 + 4.4 * ratio, 1.9, 7.0))
    return min(6.0, max(1.8 + (height - 0.9) / ratio, 2.8)), height
