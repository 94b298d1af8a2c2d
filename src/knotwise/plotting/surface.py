"""What a map shows and where: one value of the posterior at each point with its colours, edges, cells and aspect."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from knotwise.errors import InvalidInputError, unknown_option
from knotwise.numerics.columns import true_aspect
from knotwise.plotting.columns import points_along
from knotwise.plotting.style import MAP_OF_SPREAD, MAP_OF_VALUES
from knotwise.plotting.view import View
from knotwise.prediction import Prediction

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable


WHATS = (
    "mean", "sd", "intensity", "intensity_sd", "intensity_cv", "probability", "lower", "upper", "exceedance"
)  # fmt: skip


@dataclass(frozen=True)
class Surface:
    """Values at points, [n], with what to write beside the colour bar; `limits` where they are known beforehand.

    `positive` says that what is shown is above 0 by its nature, so that its ratios mean something.
    """

    what: str
    values: np.ndarray
    label: str
    cmap: str = MAP_OF_VALUES
    limits: tuple[float, float] | None = None
    positive: bool = False


def surface_of(
    view: View, what: str | None, at: Callable[[], Any], *, level: float, threshold: float | None, target: str
) -> Surface:
    """Values of `what`, of the prediction that `at` gives; None is what users of this likelihood look at first."""
    counts = view.model.likelihood_.size_name == "exposure"
    probabilities = view.of_labels or view.model.likelihood_.size_name == "trials"
    if what is None:
        what = "probability" if probabilities else "intensity" if counts else "mean"
    if what not in WHATS:
        raise unknown_option("`what`", what, WHATS)
    if what != "exceedance" and threshold is not None:
        raise InvalidInputError("`threshold` is for what='exceedance'. Leave it out, or ask for that.")
    if view.classes and view.n_classes == 2 and view.label != view.classes[1] and what != "probability":
        raise InvalidInputError(
            f"The latent model of two classes is of {view.classes[1]!r}: leave `label` out for what={what!r}."
        )
    response = _response_name(view, target)
    if what == "sd":
        return Surface(what, view.of_model(at()).latent.std, "sd of f", MAP_OF_SPREAD)
    if what.startswith("intensity"):
        if not counts:
            raise InvalidInputError(f"what={what!r} is for counts with an exposure. Use what='mean' or what='sd'.")
        return _intensity(what, at())
    if what == "probability":
        if not probabilities:
            raise InvalidInputError("what='probability' is for labels and shares of trials. Use what='mean'.")
        return Surface(what, view.probability(at()), response, limits=(0.0, 1.0))
    if what == "exceedance":
        if threshold is None:
            raise InvalidInputError("what='exceedance' is P(mean > threshold): give `threshold`, in the units of y.")
        values = view.of_model(at()).exceedance(threshold)
        return Surface(what, values, f"P({response} > {threshold:g})", limits=(0.0, 1.0))
    positive = not probabilities and view.model.likelihood_.support()[0] >= 0
    if what == "mean":
        return Surface(what, view.probability(at()), response, positive=positive)
    low, high = view.of_model(at()).interval(level, "mean").T
    values, label = low if what == "lower" else high, f"{response}, {what} end of {100 * level:g} %"
    return Surface(what, values, label, positive=positive)


def _intensity(what: str, prediction: Prediction) -> Surface:
    """The median of the intensity e^f, its standard deviation, or that over its mean; without the nugget.

    f is Gaussian given the data, so e^f is log-normal: its coefficient of variation is sqrt(e^v - 1).
    """
    if what == "intensity":
        return Surface(what, prediction.median(), "intensity, per unit of exposure", positive=True)
    latent = prediction.latent
    variation = np.sqrt(np.expm1(latent.variance))
    if what == "intensity_cv":
        return Surface(what, variation, "coefficient of variation of the intensity", MAP_OF_SPREAD, positive=True)
    sd = np.exp(latent.mean + 0.5 * latent.variance) * variation
    return Surface(what, sd, "sd of the intensity, per unit of exposure", MAP_OF_SPREAD, positive=True)


def _response_name(view: View, target: str) -> str:
    if view.classes is not None:
        return f"P({view.label_name})"
    if view.of_labels:
        return f"P({target} = 1)"
    per: dict[Any, str] = {"exposure": f"mean {target} per unit of exposure", "trials": "probability of success"}
    return per.get(view.model.likelihood_.size_name, f"mean {target}")


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
