"""Dates beside an axis: the model counts days since the first one of the fit, and readers want the calendar."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axis import Axis

__all__ = ["write_dates"]

MOST_ROUND = 7  # places for which matplotlib knows round ones of any range, at least 3


def write_dates(axis: Axis, encoding: Any, column: int, *, most: int = MOST_ROUND) -> None:
    """Write dates at round places of an axis that shows a column of dates, and leave any other as it is.

    Call it when the axis has its limits and its label: what all dates share, such as the year, is added to that.
    """
    origin = None if encoding is None else getattr(encoding.kind_of(column), "origin", None)
    if origin is None:
        return
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num, num2date

    first = float(date2num(np.datetime64(origin, "us")))
    low, high = (first + float(end) for end in axis.get_view_interval())
    locator = AutoDateLocator(minticks=3, maxticks=MOST_ROUND)
    places = np.array([place for place in locator.tick_values(num2date(low), num2date(high)) if low <= place <= high])
    places = places[:: -(-len(places) // most) or 1]
    formatter = ConciseDateFormatter(locator)
    axis.set_ticks(places - first, formatter.format_ticks(places))
    shared = formatter.get_offset()
    if shared:
        axis.set_label_text(f"{axis.get_label_text()} ({shared})")
