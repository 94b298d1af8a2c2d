"""Which two columns are coordinates of a map, by their names, and how a map of them keeps its distances."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = ["are_degrees", "coordinate_pair", "named_pair", "true_aspect"]

LONGITUDES, LATITUDES = ("longitude", "lon", "long", "lng"), ("latitude", "lat")
#: names of coordinates in one unit of length, across and up
PLANES = (("x", "y"), ("easting", "northing"), ("east", "north"), ("utm_x", "utm_y"), ("x_coord", "y_coord"))


def named_pair(names: Sequence[str]) -> tuple[int, int] | None:
    """The columns that lie across and up on a map, known by their names; None where no names tell."""
    known = {_plain(name): i for i, name in enumerate(names)}
    degrees = [(across, up) for across in LONGITUDES for up in LATITUDES]
    for across, up in (*degrees, *PLANES):
        if across in known and up in known:
            return known[across], known[up]
    return None


def coordinate_pair(names: Sequence[str]) -> tuple[int, int] | None:
    """The columns that lie across and up on a map, known by their names, or the only two; None where there are none."""
    return named_pair(names) or ((0, 1) if len(names) == 2 else None)


def are_degrees(names: Sequence[str]) -> bool:
    """Whether two columns are longitude and latitude by their names, in this order."""
    return len(names) == 2 and _plain(names[0]) in LONGITUDES and _plain(names[1]) in LATITUDES


def true_aspect(names: Sequence[str], box: Sequence[float]) -> float | None:
    """Height over width of a unit on a map of two columns with these names; None where names do not tell.

    A degree of longitude is shorter than one of latitude by the cosine of the latitude.
    """
    if are_degrees(names):
        middle = 0.5 * (box[2] + box[3])
        return 1.0 / float(np.cos(np.deg2rad(middle))) if abs(middle) < 85 else None
    return 1.0 if tuple(map(_plain, names)) in PLANES else None


def _plain(name: str) -> str:
    return name.casefold().strip()
