"""Maps over two columns, with the knots in the order in which they were added."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from knotwise.data.validation import check_count
from knotwise.errors import InvalidInputError
from knotwise.estimators.effects import checked_rows
from knotwise.numerics.columns import column_index
from knotwise.plotting.columns import describe_others, place_of, refuse_levels, write_dates
from knotwise.plotting.knots import describe_knots, draw_knots
from knotwise.plotting.style import BLACK, axes_or_new, documented, shorten, write_title
from knotwise.plotting.surface import (
    Box,
    Surface,
    add_bar,
    aspect_of,
    cells_of,
    extent_of,
    figure_size,
    norm_of,
    surface_of,
    within_reach,
)
from knotwise.plotting.view import View, checked_targets, class_name, target_name, view_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage


@documented
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
    scale: str = "auto",
    mask: bool | float = False,
    aspect: str | float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw a map of the posterior over two columns, with a colour bar and the knots.

    Knots that were added one after the other have their number, or where they are more than 40, shrink from the first
    to the last; more than 1,000 are not drawn. Probabilities have a contour at one half. The title can be replaced with
    `ax.set_title`.

    Parameters
    ----------
    X : array or data frame [n, D], optional
        Rows, which set the extent and the medians of columns that are not on the map. Needed without `extent`.
    y : array or Series [n], optional
        Targets, if the rows shall be drawn. Those of two columns have the colours of a map of the mean, labels a shape.
    what : str, optional
        What the colours show; by default the probability, the intensity or the mean, as fits.

        * "mean": the mean response; of counts per unit of exposure.
        * "sd": the standard deviation of the latent function f.
        * "intensity": the posterior median of the intensity of counts, per unit of exposure.
        * "intensity_sd": its standard deviation; "intensity_cv": the standard deviation over the mean.
        * "probability": of a class or of success.
        * "lower", "upper": an end of the central interval of the mean response.
        * "exceedance": the probability that the mean response exceeds `threshold`.
    features : two of int or str, optional
        The columns across and up, by number or name. Needed with more than two; the others stay at the medians of X, or
        where `at` says.
    at : mapping or array, optional
        Values for other columns, by name or number; or a value for each column.
    extent : (left, right, bottom, top), optional
        In the units of the columns, instead of that of X and the knots.
    level : float, default 0.95
        Of the interval of "lower" and "upper".
    threshold : float, optional
        Of "exceedance", in the units of y.
    label : optional
        Of a class; the second of two by default.
    knots : bool, default True
        Whether to draw the knots.
    resolution : int, default 150
        Points along each side.
    cmap : str, optional
        Colour map; viridis for values and cividis for spreads by default.
    limits : (low, high), optional
        The values at the ends of the colours.
    scale : "auto", "linear" or "log", default "auto"
        Of the colours. "auto" is logarithmic where what is shown is positive by its nature (counts, durations) and its
        99 % quantile on the map more than 10 times its 1 % quantile.
    mask : bool or float, default False
        True leaves places white that are far from every row: farther than two spacings of the data. A number is the
        distance, in the units of the map.
    aspect : "equal", "auto" or float, optional
        Height over width of a unit. By default lengths are true where the columns are coordinates by their names (x and
        y, easting and northing, longitude and latitude), were scaled alike (`standardize="common"`), or are the only
        two and have similar ranges.

    Returns
    -------
    Axes
        On which the map is; the colour bar is `ax.child_axes[0]`.

    Examples
    --------
    >>> import numpy as np
    >>> from matplotlib.figure import Figure
    >>> from knotwise import GPRegressor
    >>> from knotwise.plotting import plot_map
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(60, 2))
    >>> gp = GPRegressor(knots=8, random_state=0).fit(X, X[:, 0] ** 2 - X[:, 1] + 0.1 * rng.normal(size=60))
    >>> ax = plot_map(gp, X, what="sd", resolution=20, mask=True, ax=Figure().subplots())
    >>> ax.child_axes[0].get_ylabel()
    'sd of f'
    """
    view = view_of(gp, X, label=label)
    if view.n_classes > 2 and label is None:
        raise InvalidInputError(f"A map shows one of the classes {view.classes}: say which with `label`.")
    pair = _two_columns(view, features)
    resolution = check_count(resolution, "resolution", least=2)
    rows, targets = _rows_and_targets(view, X, y)
    cells = MapCells.of(view, pair, rows, at=at, extent=extent, aspect=aspect, resolution=resolution, mask=mask)
    options: dict[str, Any] = {"what": what, "level": level, "threshold": threshold, "knots": knots}
    options |= {"cmap": cmap, "limits": limits, "scale": scale}
    return draw_map(ax, cells, rows, targets, target_name(y), **options)


@dataclass(frozen=True)
class MapCells:
    """The cells of a map over two columns; one prediction of those that are shown serves all that is drawn of them.

    `points` are their rows, `seen` [resolution, resolution] says which are shown, and `others` where the other columns
    are, in words.
    """

    view: View
    pair: Sequence[int]
    box: Box
    aspect: Any
    points: np.ndarray
    seen: np.ndarray
    others: str

    @staticmethod
    def of(
        view: View,
        pair: Sequence[int],
        rows: np.ndarray | None,
        *,
        resolution: int,
        at: Any = None,
        extent: Any = None,
        aspect: Any = None,
        mask: bool | float = False,
    ) -> MapCells:
        """Cells over two columns of a model, with edges from rows where there are none."""
        refuse_levels(view.encoding, pair)
        place = place_of(rows, at, view.names, pair, view.encoding)
        box = extent_of(extent, rows, view, pair)
        aspect = aspect_of(aspect, view, box, pair)
        points = cells_of(box, place, pair, resolution)
        seen = within_reach(points[:, pair], None if rows is None else rows[:, pair], box, aspect, mask)
        if not seen.any():
            raise InvalidInputError("`mask` hides the whole map: no place of it is near a row. Give another `extent`.")
        others = describe_others(place, view.names, pair, medians=at is None, encoding=view.encoding)
        return MapCells(view, pair, box, aspect, points, seen.reshape(resolution, resolution), others)

    @cached_property
    def prediction(self) -> Any:
        """What is known of observations in the cells that are shown."""
        return self.view.prediction(self.points[self.seen.ravel()])


def draw_map(
    ax: Axes | None,
    cells: MapCells,
    rows: np.ndarray | None,
    targets: np.ndarray | None,
    target: str,
    *,
    what: str | None = None,
    level: float = 0.95,
    threshold: float | None = None,
    knots: bool = True,
    cmap: str | None = None,
    limits: tuple[float, float] | None = None,
    scale: str = "auto",
) -> Axes:
    """Draw a map of cells; see `plot_map`."""
    view, pair, box = cells.view, cells.pair, cells.box
    surface = surface_of(view, what, lambda: cells.prediction, level=level, threshold=threshold, target=target)
    norm = norm_of(surface, scale, limits)
    ax = axes_or_new(ax, size=figure_size(cells.aspect, box))

    image = _draw_surface(ax, surface, cells.seen, box, cmap=cmap, norm=norm)
    if rows is not None and targets is not None:
        draw_rows(ax, view, rows[:, pair], targets, what=surface.what, image=image)
    if knots:
        draw_knots(ax, view.knots[:, pair], ordered=view.ordered)
    ax.set(xlim=box[:2], ylim=box[2:], aspect=cells.aspect)
    ax.set(xlabel=shorten(view.names[pair[0]], 36), ylabel=shorten(view.names[pair[1]], 36))
    for axis, column in zip((ax.xaxis, ax.yaxis), pair, strict=True):
        write_dates(axis, view.encoding, column)
    add_bar(ax, image, surface.label)
    write_title(ax, "\n".join(filter(None, [cells.others, describe_knots(view) if knots else ""])))
    return ax


def _rows_and_targets(view: View, X: Any, y: Any) -> tuple[np.ndarray | None, np.ndarray | None]:
    """The rows that set the extent, and their targets, if they are given."""
    if X is None:
        if y is not None:
            raise InvalidInputError("`y` has no place on the map without its rows: give X as well.")
        return None, None
    rows = checked_rows(view.gp, X)
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


def _draw_surface(ax: Axes, surface: Surface, seen: np.ndarray, box: Box, *, cmap: str | None, norm: Any) -> AxesImage:
    """Draw the values where they are `seen`, [resolution, resolution]; the rest stays white."""
    Z = np.ma.masked_all(seen.shape)
    Z[seen] = surface.values
    look: Any = {"cmap": cmap or surface.cmap, "norm": norm, "interpolation": "bilinear", "zorder": 0}
    image = ax.imshow(Z, origin="lower", extent=box, **look)
    if surface.what == "probability" and Z.min() < 0.5 < Z.max():
        ax.contour(Z, levels=[0.5], origin="lower", extent=box, colors=["white"], linewidths=1.6, zorder=1)
    return image


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
        marks: Any = {"marker": marker, "color": image.get_cmap()(end), "edgecolor": colour, "label": name}
        ax.scatter(places[chosen, 0], places[chosen, 1], s=area, linewidths=edge, zorder=2, **marks)
    # below the name of the axis, where no title of the user meets it
    below: Any = {"loc": "upper left", "bbox_to_anchor": (0.0, 0.0), "borderaxespad": 3.8}
    larger = max(1.0, (14.0 / area) ** 0.5)
    ax.legend(ncols=2, fontsize=9, frameon=False, handletextpad=0.2, markerscale=larger, **below)
