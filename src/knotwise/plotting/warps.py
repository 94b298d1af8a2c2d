"""Warped columns: the length-scale along each, on the user's axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from knotwise.errors import InvalidInputError
from knotwise.estimators.warping import engine_column
from knotwise.plotting.knots import draw_rug
from knotwise.plotting.style import CYCLE, GREY, documented, look, shorten
from knotwise.plotting.view import view_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANEL = (3.2, 2.4)  # inches
POINTS = 200
LONGEST_NAME = 32  # letters of a column's name


@documented
def plot_warps(gp: Any, *, ax: Sequence[Axes] | np.ndarray | None = None) -> np.ndarray:
    """Draw the length-scale along each warped column, in the units of the column.

    Length-scales are on the warped axis, where they are the same everywhere: at a value x of the column, the length
    in its own units is the length-scale divided by w'(x)  (W3). Ticks at the foot are knots, or deciles of the rows of
    an exact GP.

    Parameters
    ----------
    gp : fitted GPRegressor
        Or one of the `models_` of a classifier; with at least one warped column.
    ax : sequence of Axes, optional
        Where to draw, one for each column of `warp_`; a new figure by default.

    Returns
    -------
    array of Axes
        One for each warped column, in the order of `warp_`.

    Examples
    --------
    >>> import numpy as np
    >>> from matplotlib.figure import Figure
    >>> from knotwise import GPRegressor
    >>> from knotwise.plotting import plot_warps
    >>> age = np.geomspace(1, 400, 60)
    >>> gp = GPRegressor(warp={0: "log"}, knots=6, random_state=0).fit(age[:, None], np.sin(np.log(age)))
    >>> (ax,) = plot_warps(gp, ax=[Figure().subplots()])
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('x', 'length-scale, in units of x')
    """
    view = view_of(gp, None)
    model = view.model
    if not model.warp_:
        raise InvalidInputError("No column of this model is warped: `warp_` is empty.")
    if ax is None:
        axes = _new(len(model.warp_))
    else:
        axes = np.ravel(np.asarray(ax, dtype=object))
        if len(axes) != len(model.warp_):
            raise InvalidInputError(f"`ax` must be {len(model.warp_)} axes, one for each warped column.")
    kinds, features = model.encoding_.kinds, model.encoding_.features
    posterior = model._fit.posterior
    at = posterior.rows.X if posterior.is_exact else model._fit.selection.Z
    natural = model._fit.scaling.inputs_back(np.asarray(at))
    for each, (key, warp) in zip(axes, model.warp_.items(), strict=True):
        source = key if features is None else list(features).index(key)
        own = natural[:, engine_column(kinds, source)]
        _draw(each, model, view.names[source], engine_column(kinds, source), warp, own, exact=posterior.is_exact)
    return axes


def _draw(ax: Axes, model: Any, name: str, column: int, warp: Any, own: np.ndarray, *, exact: bool) -> None:
    """One panel: the length-scale of each part of the kernel that has one for this column."""
    low, high = float(own.min()), float(own.max())
    ends = warp(np.array([low, high]))
    x = warp.inverse(np.linspace(ends[0], ends[1], POINTS))
    table = model.parameters_
    called = table.columns.called([column])
    lines = [v for v in table.data_values() if table.parameters[v.entry].role == "lengthscale" and v.column == called]
    for i, line in enumerate(lines):
        label = table.names[line.entry]
        ax.plot(x, line.value / warp.derivative(x), color=CYCLE[i % len(CYCLE)], linewidth=2.0, label=label)
    if len(lines) > 1:
        ax.legend(frameon=False, fontsize=9)
    draw_rug(ax, np.quantile(own, np.linspace(0.1, 0.9, 9)) if exact else own, colour=GREY)
    ax.set_yscale("log")
    ax.set_xlabel(shorten(name, LONGEST_NAME))
    ax.set_ylabel(f"length-scale, in units of {shorten(name, LONGEST_NAME)}")


def _new(n: int) -> np.ndarray:
    """Axes in a new figure of pyplot, beside each other."""
    with look():
        from matplotlib import pyplot

        grid = pyplot.subplots(1, n, figsize=(PANEL[0] * n, PANEL[1]), layout="constrained", squeeze=False)[1]
    return np.array(list(grid.flat), dtype=object)
