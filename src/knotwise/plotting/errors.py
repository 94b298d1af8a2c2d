"""A map of cross-validated errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.spatial import ConvexHull, QhullError

from knotwise.errors import InvalidInputError
from knotwise.numerics.columns import column_indices
from knotwise.plotting.style import BLACK, GREY, LIGHT_GREY, axes_or_new, counted, documented, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from knotwise.crossvalidation.result import CrossValidation

#: from negative to positive errors, told apart by every kind of colour vision
MAP_OF_ERRORS = "PuOr_r"
SIMILAR = 2.0  # ratio of the ranges of two columns up to which they are taken to have one unit


@documented
def plot_errors(
    found: CrossValidation,
    *,
    features: Sequence[int | str] | None = None,
    standardized: bool = False,
    blocks: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw a map of the errors of a cross-validation: where predictions are too low, too high or too sure.

    Colours are observation minus prediction, and rows outside of their intervals have a black ring. Where rows were
    left out in blocks, a thin outline is around each block.

    Parameters
    ----------
    found : CrossValidation
        What `knotwise.cross_validate` returned.
    features : two columns, by number or name, optional
        The columns of the map; needed where X has more than two.
    standardized : bool, default False
        Whether errors are divided by their predicted standard deviations.
    blocks : bool, default True
        Whether blocks of at least three rows have their outline drawn.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise import GPRegressor, cross_validate
    >>> from knotwise.plotting import plot_errors
    >>> X = np.random.default_rng(0).uniform(size=(60, 2))
    >>> gp = GPRegressor(knots=10, random_state=0).fit(X, np.sin(6 * X[:, 0]))
    >>> found = cross_validate(gp, X, np.sin(6 * X[:, 0]), blocks=5, refit=False)
    >>> plot_errors(found).get_xlabel()
    'column 0'
    """
    if not hasattr(found, "standardized_error"):
        raise InvalidInputError(
            f"`plot_errors` draws what `knotwise.cross_validate(gp, X, y)` returns, but got a {type(found).__name__}."
        )
    places, names = _places(found.X, features)
    values = found.standardized_error if standardized else found.error
    largest = float(np.abs(values).max()) or 1.0
    low, high = places.min(0), places.max(0)
    spread = np.where(high > low, high - low, 1.0)
    equal = 1 / SIMILAR < spread[1] / spread[0] < SIMILAR
    ax = axes_or_new(ax, size=(6.0, 4.8))
    if blocks and found.n_blocks < len(found.y):
        _outline_blocks(ax, places, found.block)
    good, yes, no, score = found.inside, "inside its interval", "outside", "RMSE {rmse:.3g}"
    if found.classes is not None:
        good, yes, no, score = found.right, "predicted right", "wrong", "log loss {log_loss:.3g}"
    for chosen, edge, width, label in (
        (good, GREY, 0.4, f"{yes}: {good.sum()}"),
        (~good, BLACK, 1.4, f"{no}: {(~good).sum()}"),
    ):
        if chosen.any():
            colours: Any = {"c": values[chosen], "cmap": MAP_OF_ERRORS, "vmin": -largest, "vmax": largest}
            at, marks = places[chosen], colours | {"edgecolor": edge, "linewidths": width, "label": label}
            dots = ax.scatter(at[:, 0], at[:, 1], s=34, zorder=3, **marks)
    what = "error, in standard deviations" if standardized else "observed minus predicted"
    ax.figure.colorbar(dots, cax=ax.inset_axes((1.03, 0.0, 0.045, 1.0)), label=what)
    ax.set(xlabel=shorten(names[0], 36), ylabel=shorten(names[1], 36), aspect="equal" if equal else "auto")
    how = "one by one" if found.n_blocks == len(found.y) else f"in {counted(found.n_blocks, 'block')}"
    ax.set_title(f"rows left out {how}, {score.format(**found.scores)}", loc="left", fontsize=10, pad=22)
    above: Any = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "borderaxespad": 0.2}
    legend = ax.legend(ncols=2, fontsize=9, frameon=False, handletextpad=0.2, **above)
    for handle in filter(None, legend.legend_handles):
        handle.set(array=None, facecolor=LIGHT_GREY)
    return ax


def _places(X: Any, features: Sequence[int | str] | None) -> tuple[np.ndarray, list[str]]:
    """Two columns of the rows, [N, 2], and their names."""
    columns = list(X.columns) if hasattr(X, "columns") else None
    n_columns = len(columns) if columns is not None else np.shape(X)[1]
    if features is None and n_columns != 2:
        raise InvalidInputError(
            f"X has {n_columns} column{'' if n_columns == 1 else 's'}, and a map two: choose them with `features`, "
            f"such as features={tuple(columns[:2]) if columns else (0, 1)!r}."
            if n_columns > 2
            else "A map needs two columns, and X has one. Draw `found.error` against it."
        )
    indices = column_indices([0, 1] if features is None else features, columns, n_columns, owner="`features`")
    if len(set(indices)) != 2:
        raise InvalidInputError(f"`features` is {features!r}; it must be two different columns, such as (0, 1).")
    names = [str(columns[i]) if columns else f"column {i}" for i in indices]
    rows = X.iloc[:, indices] if hasattr(X, "iloc") else np.asarray(X)[:, indices]
    try:
        return np.asarray(rows, float), names
    except (TypeError, ValueError):
        raise InvalidInputError(
            f"A map has two columns of numbers, but {' and '.join(map(repr, names))} hold others. Choose the "
            "coordinates with `features`."
        ) from None


def _outline_blocks(ax: Axes, places: np.ndarray, block: np.ndarray) -> None:
    """The convex hull of each block, as a thin line."""
    for label in np.unique(block).tolist():
        own = np.unique(places[block == label], axis=0)
        if len(own) < 3:
            continue
        try:
            corners = own[ConvexHull(own).vertices]
        except QhullError:  # all on one line
            continue
        ax.fill(*corners.T, facecolor="none", edgecolor=LIGHT_GREY, linewidth=1.0, zorder=1)
