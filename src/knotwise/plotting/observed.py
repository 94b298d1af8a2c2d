"""Observed against predicted values, with the intervals of new observations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from knotwise.errors import InvalidInputError
from knotwise.estimators.effects import checked_rows
from knotwise.plotting.style import BLACK, BLUE, LIGHT_GREY, VERMILION, axes_or_new, counted, documented, write_title
from knotwise.plotting.surface import add_bar
from knotwise.plotting.view import checked_targets, require, target_name, view_of
from knotwise.prediction import Prediction

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FEW = 100  # rows up to which marks have their full size and colour
MOST_MARKS = 2000  # rows beyond which the picture shows how many there are in each cell
N_TICKS = 6  # on each axis, so that numbers of seven digits stand beside each other
N_GROUPS = 40  # of rows with similar predictions, whose typical interval is drawn among so many rows
Range = tuple[float, float]

NARROW, CONSTANT = 0.4, 0.02  # shares of the range between which predictions have an axis of their own


@documented
def plot_observed(
    gp: Any,
    X: Any,
    y: Any,
    *,
    level: float = 0.95,
    exposure: Any = None,
    trials: Any = None,
    offset: Any = None,
    noise_variance: Any = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw observed against predicted values, each with its interval; those outside are marked.

    Up to 2,000 rows each has a mark and its interval. Of more, colours show how many rows lie in each small cell,
    dashed lines the typical interval, and dots the rows outside of their own interval.

    Parameters
    ----------
    level : float, default 0.95
        Of the central intervals of new observations.

    Examples
    --------
    >>> import numpy as np
    >>> from matplotlib.figure import Figure
    >>> from knotwise import GPRegressor
    >>> from knotwise.plotting import plot_observed
    >>> X = np.linspace(0, 1, 60)[:, None]
    >>> y = np.sin(9 * X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=60)
    >>> gp = GPRegressor(knots=8, random_state=0).fit(X, y)
    >>> plot_observed(gp, X, y, ax=Figure().subplots()).get_title()
    '60 rows'
    """
    view = view_of(gp, X)
    if view.of_labels:
        raise InvalidInputError("Labels have no interval: use `plot_calibration` for probabilities.")
    rows = checked_rows(view.gp, X)
    targets = checked_targets(y, len(rows))
    options: dict[str, Any] = {"exposure": exposure, "trials": trials, "noise_variance": noise_variance}
    options = require(view, "plot_observed", offset, **options)
    prediction = view.prediction(rows, **options)
    ax = axes_or_new(ax, size=(5.8, 5.0) if len(targets) > MOST_MARKS else (5.2, 5.0))
    draw_observed(ax, prediction, targets, target_name(y), level)
    return ax


def draw_observed(ax: Axes, prediction: Prediction, targets: np.ndarray, name: str, level: float = 0.95) -> None:
    mean, (low, high) = prediction.mean, prediction.interval(level).T
    inside = (low <= targets) & (targets <= high)
    many = len(targets) > MOST_MARKS
    across, up = _limits(mean, np.concatenate([low, high, targets]))
    if many:
        _draw_cells(ax, mean, targets, across, up)
        _draw_typical_interval(ax, mean, low, high, f"typical {100 * level:g} % interval")
        text = f"outside: {(~inside).sum():,} ({1 - inside.mean():.1%})"
        dots: dict[str, Any] = {"color": VERMILION, "markersize": 1.6, "alpha": 0.5, "rasterized": True, "label": text}
        ax.plot(mean[~inside], targets[~inside], ".", zorder=2, **dots)
    else:
        _draw_rows(ax, mean, targets, (low, high), inside, level)
    ax.axline((up[0], up[0]), slope=1, color=LIGHT_GREY, linewidth=1, zorder=0)
    ax.set(xlabel=f"predicted {name}", ylabel=f"observed {name}", xlim=across, ylim=up)
    if across == up:
        ax.set_aspect("equal")
    write_title(ax, counted(len(targets), "row"))
    ax.locator_params(nbins=N_TICKS)
    light: dict[str, Any] = {"framealpha": 0.8, "edgecolor": "none", "facecolor": "white"}  # rows may be below it
    ax.legend(frameon=True, fontsize=9, loc="upper left", markerscale=5 if many else 1, **light)


def _draw_cells(ax: Axes, mean: np.ndarray, y: np.ndarray, across: Range, up: Range) -> None:
    """Draw how many rows lie in each of many small cells."""
    cells = ax.hexbin(mean, y, gridsize=55, bins="log", mincnt=1, cmap="Blues", linewidths=0.2, extent=(*across, *up))
    cells.set_zorder(1)
    add_bar(ax, cells, "rows in a cell")


def _draw_typical_interval(ax: Axes, mean: np.ndarray, low: np.ndarray, high: np.ndarray, label: str) -> None:
    """Draw the median ends of the intervals of rows with similar predictions."""
    groups = np.array_split(np.argsort(mean, kind="stable"), N_GROUPS)
    middle = [np.median(mean[group]) for group in groups]
    for end, name in ((low, label), (high, None)):
        line: dict[str, Any] = {"color": BLACK, "linewidth": 1.2, "linestyle": (0, (4, 2)), "label": name}
        ax.plot(middle, [np.median(end[group]) for group in groups], zorder=3, **line)


def _draw_rows(
    ax: Axes,
    mean: np.ndarray,
    targets: np.ndarray,
    ends: tuple[np.ndarray, np.ndarray],
    inside: np.ndarray,
    level: float,
) -> None:
    """Draw each row with its interval; those outside have another shape and colour."""
    faint = float(np.clip(FEW / len(targets), 0.15, 1.0))  # many lines add up
    bars: dict[str, Any] = {"alpha": 0.28 * faint, "linewidth": 1.1, "label": f"{100 * level:g} % interval"}
    ax.vlines(mean, *ends, color=BLUE, zorder=1, rasterized=len(targets) > 10 * FEW, **bars)
    groups = ((inside, BLUE, "o", 4.5, "inside"), (~inside, VERMILION, "D", 5.5, "outside"))
    for chosen, colour, marker, size, name in groups:
        marks: dict[str, Any] = {"marker": marker, "color": colour, "markersize": size * max(faint, 0.7)}
        text = f"{name}: {chosen.sum()}"
        ax.plot(mean[chosen], targets[chosen], linestyle="none", zorder=2, markeredgewidth=0, label=text, **marks)


def _limits(predicted: np.ndarray, vertical: np.ndarray) -> tuple[Range, Range]:
    """One range for both axes, but where predictions take little of it (counts, weak signal) their own."""
    vertical = vertical[np.isfinite(vertical)]
    both = _with_margin(np.concatenate([predicted, vertical]))
    own = _with_margin(predicted)
    share = (own[1] - own[0]) / (both[1] - both[0])
    return (own if CONSTANT < share < NARROW else both), both


def _with_margin(values: np.ndarray) -> Range:
    low, high = float(values.min()), float(values.max())
    margin = 0.04 * (high - low) or 0.5 * max(1.0, abs(high))
    return low - margin, high + margin
