"""The noise of Gaussian data along a column: its standard deviation, with what is not known of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from knotwise.data.validation import check_level
from knotwise.errors import InvalidInputError
from knotwise.estimators.effects import checked_rows
from knotwise.numerics.columns import column_index
from knotwise.plotting.columns import describe_others, place_of, points_along, refuse_levels, write_dates
from knotwise.plotting.style import BLUE, GREY, axes_or_new, documented, shorten, write_title
from knotwise.plotting.view import checked_targets, target_name, view_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

N_POINTS = 200


@documented
def plot_noise(
    gp: Any,
    X: Any,
    y: Any = None,
    *,
    feature: int | str | None = None,
    at: Any = None,
    level: float = 0.95,
    ax: Axes | None = None,
    color: str = BLUE,
) -> Axes:
    """Draw the standard deviation of the noise along one column, with its interval, and the sizes of residuals.

    It is of Gaussian data. Half of the residuals that are normal lie below 0.67 standard deviations, and 95 % below 2.

    Parameters
    ----------
    y : array or Series [n], optional
        Their targets: sizes of their residuals are drawn, which hold what is not known of the function, too.
    feature : int or str, optional
        Number or name of the column; by default the one along which the noise varies most in these rows.
    at : dict or array [D], optional
        Where the other columns stand; by default at their medians or most frequent values.
    level : float, default 0.95
        Probability of the interval.
    color : str, default "#0072B2"
        Colour of the curve.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise import GPRegressor
    >>> from knotwise.plotting import plot_noise
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(200, 1))
    >>> y = np.sin(6 * X[:, 0]) + np.exp(3 * X[:, 0] - 3) * rng.normal(size=200)
    >>> ax = plot_noise(GPRegressor(random_state=0).fit(X, y), X, y)
    >>> ax.get_ylabel()
    'sd of the noise of y'
    """
    check_level(level)
    view = view_of(gp, X)
    if view.classes is not None:
        raise InvalidInputError("Labels have no noise to draw: `plot_noise` is for Gaussian data.")
    rows = checked_rows(view.gp, X)
    column = _widest(view, rows, at) if feature is None else column_index(feature, view.names)
    refuse_levels(view.encoding, [column])
    place = place_of(rows, at, view.names, [column], view.encoding)
    x = _range(rows[:, column])
    noise = view.ask("predict_noise", points_along(place, {column: x}), level)
    ax = axes_or_new(ax)
    if y is not None:
        sizes = np.abs(checked_targets(y, len(rows)) - view.ask("predict", rows))
        ax.scatter(rows[:, column], sizes, s=9, color=GREY, alpha=0.5, linewidths=0, label="sizes of residuals")
    ax.fill_between(x, noise.lower, noise.upper, color=color, alpha=0.2, linewidth=0, label=f"{level:.0%} interval")
    ax.plot(x, noise.sd, color=color, linewidth=2.0, label="sd of the noise")
    ax.set(xlabel=shorten(view.names[column], 48), ylabel=f"sd of the noise of {target_name(y)}")
    ax.set_ylim(bottom=0.0)
    ax.legend(frameon=False, fontsize=9, loc="upper left")
    write_title(ax, describe_others(place, view.names, [column], medians=at is None, encoding=view.encoding))
    write_dates(ax.xaxis, view.encoding, column)
    return ax


def _range(values: np.ndarray) -> np.ndarray:
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    return np.linspace(low, high, N_POINTS) if high > low else np.array([low - 0.5, low + 0.5])


def _widest(view: Any, rows: np.ndarray, at: Any) -> int:
    """The column of numbers along which the noise varies most, the others at their place."""
    found, best = 0, -1.0
    for column in range(rows.shape[1]):
        try:
            refuse_levels(view.encoding, [column])
        except InvalidInputError:
            continue
        place = place_of(rows, at, view.names, [column], view.encoding)
        sd = view.ask("predict_noise", points_along(place, {column: _range(rows[:, column])})).sd
        spread = float(np.ptp(np.log(sd)))
        if spread > best:
            found, best = column, spread
    return found
