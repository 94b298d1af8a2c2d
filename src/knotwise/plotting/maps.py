"""Maps over two columns, with the knots in the order in which they were added."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from knotwise.errors import InvalidInputError
from knotwise.plotting.columns import column_index, describe_others, place_of, points_along
from knotwise.plotting.knots import describe_knots, draw_knots
from knotwise.plotting.rows import draw_rows
from knotwise.plotting.style import axes_or_new, shorten
from knotwise.plotting.surface import Surface, surface_of
from knotwise.plotting.view import View, checked_rows, checked_targets, target_name, view_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

__all__ = ["plot_map"]

REACH = 0.15  # how far beyond the rows, relative to their range, the map goes to show knots
SIMILAR = 2.0  # ratio of the ranges of the only two columns up to which they are taken to have one unit


def plot_map(
    gp: Any,
    X: Any = None,
    y: Any = None,
    *,
    what: str | None = None,
    features: Sequence[int | str] | None = None,
    at: Mapping[Any, float] | Any = None,
    extent: Sequence[float] | None = None,
    level: float = 0.95,
    threshold: float | None = None,
    label: Any = None,
    knots: bool = True,
    resolution: int = 150,
    cmap: str | None = None,
    limits: tuple[float, float] | None = None,
    aspect: str | float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw a map of the posterior over two columns, with a colour bar and the knots.

    Knots that were added one after the other have their number, or where they are many, shrink from the first to the
    last. Probabilities have a contour at one half.

    Parameters
    ----------
    gp : GPRegressor or GPClassifier
        The fitted model.
    X : array or data frame [n, D], optional
        Rows, which set the extent.
    y : array [n], optional
        Their targets, if they shall be drawn: targets of two columns have the colours of a map of the mean, labels a
        shape.
    what : "mean", "sd", "intensity", "probability", "lower", "upper" or "exceedance", optional
        The mean response; the standard deviation of the latent function; the posterior median of the intensity of
        counts; the probability of a class or success; an end of the central interval of the mean response; or the
        probability that it exceeds `threshold`. By default the probability, the intensity or the mean, as fits.
    features : two of int or str, optional
        The two columns, by number or name. Needed with more than two; the others stay at the medians of X, or where
        `at` says.
    at : mapping or array, optional
        Values for other columns, by name or number: `at={"rm": 6}`; or a value for each column.
    extent : (left, right, bottom, top), optional
        Instead of that of X and the knots.
    level : float
        Probability of the central interval, for "lower" and "upper".
    threshold : float, optional
        What the mean response is to exceed, for "exceedance".
    label : object, optional
        A class; the second of two by default, needed for several.
    knots : bool
        Whether the knots are drawn.
    resolution : int
        Points along each side.
    cmap : str, optional
        Name of a colour map of matplotlib.
    limits : (float, float), optional
        The values at the ends of the colour map.
    aspect : "equal", "auto" or a number, optional
        Equal by default where columns were scaled alike (`standardize="common"`), or two have similar ranges.
    ax : Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    Axes
        Of matplotlib, with the picture.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise import GPRegressor
    >>> from knotwise.plotting import plot_map
    >>> X = np.random.default_rng(0).uniform(size=(25, 2))
    >>> gp = GPRegressor(knots=6, random_state=0).fit(X, np.sin(4 * X[:, 0]) + X[:, 1] ** 2)
    >>> ax = plot_map(gp, X, what="sd", resolution=30)
    >>> ax.figure.savefig("map.png")  # doctest: +SKIP
    """
    from knotwise.estimators.validation import check_count

    view = view_of(gp, X, label=label)
    if view.n_classes > 2 and label is None:
        raise InvalidInputError(f"A map shows one of the classes {view.classes}: say which with `label`.")
    pair = _two_columns(view, features)
    resolution = check_count(resolution, "resolution", least=2)
    rows, targets = _rows_and_targets(view, X, y)
    place = place_of(rows, at, view.names, pair)
    box = _extent(extent, rows, view, pair)
    points = _grid(box, place, pair, resolution)
    surface = surface_of(view, what, points, level=level, threshold=threshold, target=target_name(y))
    aspect = _aspect(aspect, view, box)
    ax = axes_or_new(ax, size=_size(aspect, box))

    image = _draw_surface(ax, surface, box, resolution, cmap, limits)
    if rows is not None and targets is not None:
        draw_rows(ax, view, rows[:, pair], targets, what=surface.what, image=image)
    if knots:
        draw_knots(ax, view.knots[:, pair], ordered=view.ordered)
    ax.set(xlim=box[:2], ylim=box[2:], aspect=aspect)
    about = [describe_others(place, view.names, pair, medians=at is None), describe_knots(view) if knots else ""]
    _write_names(ax, [view.names[i] for i in pair], "\n".join(filter(None, about)))
    return ax


def _rows_and_targets(view: View, X: Any, y: Any) -> tuple[np.ndarray | None, np.ndarray | None]:
    """The rows that set the extent, and their targets, if they are given."""
    if X is None:
        if y is not None:
            raise InvalidInputError("`y` has no place on the map without its rows: give X as well.")
        return None, None
    rows = checked_rows(view, X)
    return rows, None if y is None else checked_targets(y, len(rows), numeric=view.classes is None)


def _two_columns(view: View, features: Sequence[int | str] | None) -> list[int]:
    n = len(view.names)
    if features is None:
        if n == 1:
            raise InvalidInputError("A map needs two columns, and the model has one: use `plot_fit`.")
        if n > 2:
            raise InvalidInputError(
                f"The model has {n} columns: choose two for the map, such as features=({view.names[0]!r}, "
                f"{view.names[1]!r}); the others stay at their medians, or where `at` says."
            )
        features = (0, 1)
    if isinstance(features, str) or len(features) != 2:
        raise InvalidInputError(f"`features` is {features!r}; it must be two columns, such as (0, 1).")
    pair = [column_index(feature, view.names, "A column of `features`") for feature in features]
    if pair[0] == pair[1]:
        raise InvalidInputError(f"`features` names the column {view.names[pair[0]]!r} twice. Choose two.")
    return pair


def _extent(extent: Any, rows: np.ndarray | None, view: View, pair: list[int]) -> tuple[float, float, float, float]:
    """Left, right, bottom and top of the map: those given, or of the rows and the knots near them."""
    if extent is not None:
        box = np.asarray(extent, float)
        if box.shape != (4,) or not np.isfinite(box).all() or not (box[0] < box[1] and box[2] < box[3]):
            raise InvalidInputError(f"`extent` is {extent!r}; it must be (left, right, bottom, top).")
        return tuple(box.tolist())
    if rows is None:
        raise InvalidInputError("Where is the map? Give rows as X, or `extent=(left, right, bottom, top)`.")
    low, high = rows[:, pair].min(0), rows[:, pair].max(0)
    width = np.where(high > low, high - low, np.maximum(1.0, np.abs(low)))
    low, high = low - 0.02 * width, high + 0.02 * width
    for place in view.knots[:, pair]:
        if (place > low - REACH * width).all() and (place < high + REACH * width).all():
            low, high = np.minimum(low, place - 0.02 * width), np.maximum(high, place + 0.02 * width)
    return float(low[0]), float(high[0]), float(low[1]), float(high[1])


def _grid(box: tuple[float, ...], place: np.ndarray, pair: list[int], resolution: int) -> np.ndarray:
    """Rows at the centres of the map's cells, from the lower left, the first column fastest."""
    middles = (np.arange(resolution) + 0.5) / resolution
    across, up = box[0] + middles * (box[1] - box[0]), box[2] + middles * (box[3] - box[2])
    first, second = np.meshgrid(across, up)
    return points_along(place, {pair[0]: first.ravel(), pair[1]: second.ravel()})


def _draw_surface(
    ax: Axes,
    surface: Surface,
    box: tuple[float, float, float, float],
    resolution: int,
    cmap: str | None,
    limits: tuple[float, float] | None,
) -> AxesImage:
    Z = surface.values.reshape(resolution, resolution)
    lowest, highest = limits or surface.limits or (None, None)
    image = ax.imshow(
        Z,
        origin="lower",
        extent=box,
        cmap=cmap or surface.cmap,
        vmin=lowest,
        vmax=highest,
        interpolation="bilinear",
        zorder=0,
    )
    if surface.what == "probability" and Z.min() < 0.5 < Z.max():
        ax.contour(Z, levels=[0.5], origin="lower", extent=box, colors=["white"], linewidths=1.6, zorder=1)
    # inside the axes' own space: as high as the map, whatever its aspect, and no other axes shrink for it
    ax.figure.colorbar(image, cax=ax.inset_axes((1.03, 0.0, 0.045, 1.0)), label=surface.label)
    return image


def _write_names(ax: Axes, columns: Sequence[str], title: str) -> None:
    """Name the two columns, and put the title above the legend if the rows have one."""
    ax.set(xlabel=shorten(columns[0], 36), ylabel=shorten(columns[1], 36))
    ax.set_title(title, loc="left", fontsize=10, pad=22 if ax.get_legend() else 6)


def _aspect(aspect: str | float | None, view: View, box: tuple[float, ...]) -> Any:
    if aspect is not None:
        return aspect
    ratio = (box[1] - box[0]) / (box[3] - box[2])
    similar = len(view.names) == 2 and 1 / SIMILAR < ratio < SIMILAR
    return "equal" if similar or getattr(view.model, "standardize", None) == "common" else "auto"


def _size(aspect: str | float, box: tuple[float, ...]) -> tuple[float, float]:
    """Width and height of a new figure, in inches: what a map of equal lengths needs, with room for its words."""
    if aspect != "equal":
        return 6.0, 4.8
    ratio = (box[3] - box[2]) / (box[1] - box[0])
    height = float(np.clip(0.9 + 4.4 * ratio, 1.9, 7.0))
    return min(6.0, max(1.8 + (height - 0.9) / ratio, 2.8)), height
