"""The fit along one column: centre, band, data and knots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from knotwise.data.exposure import exposure_of
from knotwise.docstrings import EXAMPLES, filled
from knotwise.errors import InvalidInputError, unknown_option
from knotwise.estimators.effects import checked_rows
from knotwise.numerics.columns import column_index
from knotwise.plotting.columns import describe_others, place_of, points_along, refuse_levels, write_dates
from knotwise.plotting.knots import RUG_HEIGHT, draw_rug
from knotwise.plotting.style import BLUE, CYCLE, DASHES, GREY, axes_or_new, counted, documented, shorten, write_title
from knotwise.plotting.view import View, checked_targets, class_name, noise_of, require, size_of, target_name, view_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

N_POINTS = 240
LEGEND_HEIGHT = 0.185  # of a row of the legend, in inches


@documented
@filled(EXAMPLES)
def plot_fit(
    gp: Any,
    X: Any,
    y: Any = None,
    *,
    feature: int | str = 0,
    at: Mapping[Any, float] | Any = None,
    level: float = 0.95,
    kind: str | None = None,
    exposure: Any = None,
    trials: Any = None,
    offset: Any = None,
    noise_variance: Any = None,
    color: str = BLUE,
    label: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the fit along one column, with its band, the data and the knots as ticks at the foot.

    Parameters
    ----------
    X : array or data frame [n, D]
        Rows, which set the range of the curve.
    y : array [n], optional
        Their targets, if they shall be drawn. With several columns, data of a Gaussian model are moved to the curve:
        drawn is the curve plus the residual.
    feature : int or str, default 0
        The column to follow. Others stay at the medians of X, or where `at` says.
    at : mapping or array, optional
        Values for other columns, by name or number: `at={"rm": 6}`; or a value for each column.
    level : float, default 0.95
        Probability of the central band.
    kind : "observation", "mean" or "latent", optional
        The band of a new observation (the default), of the mean response (the default where it is a probability), or
        of the latent function.
    exposure, trials : float or array [n], optional
        Of the rows. Counts are then drawn per unit of exposure or per trial, and a new observation is one at the
        median exposure or trials. Needed if the fit had them and counts are drawn: with y, or a band of observations.
    noise_variance : float or array [n], optional
        Known noise variance of the rows of Gaussian data: a new observation is one with their median. Needed for a band
        of observations if the fit had it.
    color : str, default "#0072B2"
        Colour of the curve, to draw several models on the same axes.
    label : str, optional
        Name of the curve in the legend.

    Examples
    --------
    {curve}
    >>> from knotwise.plotting import plot_fit
    >>> ax = plot_fit(gp, X, y, level=0.8)
    >>> ax.get_xlabel(), ax.get_ylabel()  # ax.figure.savefig("fit.png") saves the picture
    ('x', 'y')
    """
    view = view_of(gp, X)
    rows = checked_rows(view.gp, X)
    column = column_index(feature, view.names)
    refuse_levels(view.encoding, [column])
    place = place_of(rows, at, view.names, [column], view.encoding)
    kind = kind_of(view, kind)
    sizes = {"exposure": exposure_of(exposure, offset), "trials": trials}
    if kind == "observation":
        sizes = require(view, "plot_fit", **sizes, noise_variance=noise_variance)
        noise_variance = sizes.pop("noise_variance")
    elif kind == "mean" and y is not None:
        sizes = require(view, "plot_fit", **sizes)
    size, noise = size_of(view, len(rows), **sizes), noise_of(view, len(rows), noise_variance)
    targets = None if y is None else checked_targets(y, len(rows), numeric=view.classes is None)
    x = _range(rows[:, column])
    line = points_along(place, {column: x})
    ax = axes_or_new(ax)

    if targets is not None:
        _draw_data(ax, view, rows, targets, size, column=column, place=place, kind=kind)
    if view.n_classes > 2:
        _draw_classes(ax, view, x, line)
        _draw_knots(ax, [view.knots_of(model)[:, column] for model in gp.models_], CYCLE)
    else:
        _draw_curve(ax, x, curve_of(view, line, size, noise, level=level, kind=kind), color, label)
        _draw_knots(ax, [view.knots[:, column]], (color,), label=None if label else counted(len(view.knots), "knot"))
    ax.set(xlabel=shorten(view.names[column], 48), ylabel=response_name(view, y, size, kind))
    write_title(ax, describe_others(place, view.names, [column], medians=at is None, encoding=view.encoding))
    if view.of_labels and kind == "mean":
        ax.set_yticks(np.linspace(0, 1, 6))
    _make_room(ax)
    write_dates(ax.xaxis, view.encoding, column)
    return ax


def _range(values: np.ndarray) -> np.ndarray:
    """Points from the lowest to the highest value; around it where all are equal."""
    low, high = float(np.nanmin(values)), float(np.nanmax(values))  # an input may be missing
    if low == high:
        low, high = low - 0.5 * max(1.0, abs(low)), high + 0.5 * max(1.0, abs(high))
    return np.linspace(low, high, N_POINTS)


def _draw_data(
    ax: Axes,
    view: View,
    rows: np.ndarray,
    y: np.ndarray,
    size: np.ndarray | None,
    *,
    column: int,
    place: np.ndarray,
    kind: str,
) -> None:
    """Draw observations, where they are on the scale of the curve."""
    x, conjugate = rows[:, column], view.model.likelihood_.conjugate
    if view.n_classes > 2 or (kind == "latent" and not conjugate):
        return
    label = "observed"
    if view.classes is not None:
        y = view.is_label(y).astype(float)
    elif size is not None:
        y = y / size
    if rows.shape[1] > 1 and conjugate:
        shadow = points_along(place, {column: x})
        y = view.ask("predict", shadow) + y - view.ask("predict", rows)
        label = "data, moved to the curve"
    few = len(x) <= 300
    ax.scatter(x, y, s=16 if few else 9, color=GREY, alpha=0.7 if few else 0.45, linewidths=0, zorder=1, label=label)


def _draw_curve(ax: Axes, x: np.ndarray, curve: Curve, color: str, label: str | None) -> None:
    """Draw centre and band; with a label of its own, that of one among several models, the band goes unnamed."""
    band_name = curve.band_name if label is None else None
    ax.fill_between(x, curve.low, curve.high, color=color, alpha=0.2, linewidth=0, zorder=2, label=band_name)
    ax.plot(x, curve.centre, color=color, linewidth=2.0, zorder=3, label=label or curve.name)


def _draw_classes(ax: Axes, view: View, x: np.ndarray, line: np.ndarray) -> None:
    """Draw the probability of each of several classes, without bands: their sum is held at one."""
    proba = view.prediction(line).proba
    for i, name in enumerate(view.classes or []):
        style: dict[str, Any] = {"color": CYCLE[i % len(CYCLE)], "linestyle": DASHES[i % len(DASHES)]}
        ax.plot(x, proba[:, i], linewidth=2.0, label=class_name(name), **style)


def _draw_knots(ax: Axes, sets: list[np.ndarray], colours: tuple[str, ...], *, label: str | None = None) -> None:
    """Draw the knots of each model in a row of its own, above those that are there."""
    first = len(_rugs(ax))
    for i, values in enumerate(sets):
        if len(values):  # the exact GP has none
            draw_rug(ax, values, colour=colours[i % len(colours)], row=first + i, label=label)


def _rugs(ax: Axes) -> list[Any]:
    return [line for line in ax.get_lines() if line.get_marker() == "|"]


def _make_room(ax: Axes) -> None:
    """Draw the legend above the data and leave the foot to the knots, also when a further model is drawn."""
    legend = ax.legend(frameon=False, fontsize=9, loc="upper left", ncols=2, handlelength=1.5, columnspacing=1.4)
    low, high = ax.dataLim.intervaly
    height = ax.bbox.height / ax.figure.dpi  # inches
    foot = 0.04 + RUG_HEIGHT * len(_rugs(ax)) / height
    head = 0.06 + LEGEND_HEIGHT * (-(-len(legend.get_texts()) // 2)) / height
    unit = ((high - low) or max(1.0, abs(high))) / max(1.0 - foot - head, 0.3)
    ax.set_ylim(low - foot * unit, high + head * unit)


KINDS = ("observation", "mean", "latent")


@dataclass(frozen=True)
class Curve:
    """Centre and band at each point, [n] each, and their names in a legend."""

    centre: np.ndarray
    low: np.ndarray
    high: np.ndarray
    name: str
    band_name: str


def kind_of(view: View, kind: str | None) -> str:
    """The kind of band that is asked for; by default that of observations, or of a probability."""
    if kind is None:
        return "mean" if view.of_labels else "observation"
    if kind not in KINDS:
        raise unknown_option("`kind`", kind, KINDS)
    if view.classes is not None and kind == "observation":
        raise InvalidInputError("A label has no band: use kind='mean' (the probability) or kind='latent'.")
    if view.n_classes > 2 and kind == "latent":
        raise InvalidInputError("Several classes have a latent function each: plot `gp.models_[k]` with kind='latent'.")
    return kind


def curve_of(
    view: View, points: np.ndarray, size: np.ndarray | None, noise: float | None = None, *, level: float, kind: str
) -> Curve:
    """Predict a curve at points; of counts per unit of exposure or per trial, at the median size.

    `noise` is the known noise variance of new observations, None for the fitted one.
    """
    likelihood = view.model.likelihood_
    unit, typical = 1.0, {}
    known = {} if noise is None else {"noise_variance": noise}
    if size is not None:
        unit = float(np.median(size))
        unit = max(round(unit), 1) if likelihood.size_name == "trials" else unit
        typical = {likelihood.size_name: unit}
    prediction = view.of_model(view.prediction(points, **typical, **known))
    low, high = prediction.interval(level, kind).T
    band = f"{100 * level:g} % of "
    if kind == "latent":
        return Curve(prediction.latent.mean, low, high, "mean of f", band + "f")
    if kind == "observation":
        band += "new observations" if size is None else f"new counts at {likelihood.size_name} {unit:.3g}"
        band += "" if noise is None else f" with noise sd {np.sqrt(noise):.3g}"
        return Curve(prediction.mean / unit, low / unit, high / unit, "mean", band)
    if view.of_labels or likelihood.conjugate:
        name = "probability" if view.of_labels else "mean"
        return Curve(prediction.mean, low, high, name, f"{band}the {name}")
    # the mean of a skewed response can leave the band of its own parameter; the median cannot
    return Curve(prediction.median() / unit, low / unit, high / unit, "median", band + "the mean response")


def response_name(view: View, y: Any, size: np.ndarray | None, kind: str) -> str:
    name = target_name(y)
    if kind == "latent":
        return f"{name} without noise" if view.model.likelihood_.conjugate else "latent f"
    if view.n_classes > 2:
        return "probability"
    if view.of_labels:
        return f"P({name} = 1)" if view.classes is None else f"P({view.label_name})"
    if size is None:
        return name
    return f"{name} per {'trial' if view.model.likelihood_.size_name == 'trials' else 'unit of exposure'}"
