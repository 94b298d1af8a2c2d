"""The colours of a map: a linear or logarithmic scale, and a bar beside the map whose words fit."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from knotwise.errors import InvalidInputError, unknown_option
from knotwise.plotting.surface import Surface

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable

SCALES = ("auto", "linear", "log")
WIDE_RANGE = 10.0  # ratio of the highest to the lowest values of what is positive from which the scale is logarithmic
CONSTANT = 1e-3  # of the values: a surface that varies less does not vary
DEEPEST = 1e-4  # of the highest value: what is below has the lowest colour of a logarithmic scale
LOW, LOW_WIDTH = 1.4, 18  # height in inches of a map beside which words lie, and letters of a line of these
LETTER = 0.075  # width of a letter of the bar's words, in inches


def norm_of(surface: Surface, scale: str, limits: tuple[float, float] | None) -> Any:
    """The colour scale of a surface: logarithmic if asked for, or if what is positive by nature varies that much."""
    from matplotlib.colors import LogNorm, Normalize

    if scale not in SCALES:
        raise unknown_option("`scale`", scale, SCALES)
    values = surface.values[np.isfinite(surface.values)]
    low, high = limits or surface.limits or (values.min(), values.max())
    if scale == "auto":
        lowest, highest = (low, high) if limits else np.quantile(values, [0.01, 0.99])
        scale = "log" if surface.positive and 0 <= WIDE_RANGE * lowest < highest and high > 0 else "linear"
    if scale == "linear":
        if limits is None and high - low <= CONSTANT * max(abs(low), abs(high)):  # or rounding errors would be a map
            low, high = low - (0.05 * abs(low) or 1.0), high + (0.05 * abs(high) or 1.0)
        return Normalize(low, high)
    if not high > 0 or (limits is not None and low <= 0):
        raise InvalidInputError(
            f"scale='log' needs values above 0, and those of the map are from {low:.3g} to {high:.3g}. Use 'linear'."
        )
    return LogNorm(max(low, DEEPEST * high), high, clip=True)


def add_bar(ax: Axes, image: ScalarMappable, label: str) -> None:
    """Put the bar inside the axes' own space: as high as the map, and no other axes shrink for it."""
    from matplotlib.colors import LogNorm

    inches = _height(ax)
    low = inches < LOW
    words = fill(label, LOW_WIDTH if low else int(0.9 * inches / LETTER))
    bar = ax.figure.colorbar(image, cax=ax.inset_axes((1.03, 0.0, 0.045, 1.0)))
    lying: dict[str, Any] = {"rotation": 0, "ha": "left", "va": "center"} if low else {}
    bar.set_label(words, fontsize=9 if "\n" in words else 10, **lying)
    if isinstance(image.norm, LogNorm):
        write_log_ticks(bar)


def _height(ax: Axes) -> float:
    """About how high the map will be, in inches, once its aspect holds."""
    space, aspect = ax.get_window_extent(), ax.get_aspect()
    height = space.height
    if aspect != "auto":
        (left, right), (bottom, top) = ax.get_xlim(), ax.get_ylim()
        height = min(height, 0.9 * space.width * float(aspect) * (top - bottom) / (right - left))
    return height / ax.figure.dpi


def write_log_ticks(bar: Any) -> None:
    """Write round numbers in full beside a logarithmic bar."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = bar.norm.vmin, bar.norm.vmax
    bar.locator = LogLocator(subs=(1.0, 2.0, 5.0) if high < 1e3 * low else (1.0,))
    bar.formatter = FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:.1g}")
    for axis in (bar.ax.xaxis, bar.ax.yaxis):
        axis.set_minor_formatter(NullFormatter())
    bar.update_ticks()
