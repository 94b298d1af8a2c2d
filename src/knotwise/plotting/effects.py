"""What each column does to the response: one panel for each, the most important first."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from knotwise.data.validation import check_count
from knotwise.errors import InvalidInputError
from knotwise.estimators.effects import Effect, Effects, checked_rows, chosen_columns
from knotwise.plotting.columns import write_dates
from knotwise.plotting.fit import response_name
from knotwise.plotting.knots import draw_rug
from knotwise.plotting.style import BLUE, CYCLE, DASHES, GREY, MARKERS, documented, look, shorten
from knotwise.plotting.view import View, class_name, target_name, view_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANEL = (2.35, 2.1)  # inches
ACROSS = 3  # panels beside each other
LINE = 18  # letters in a line beside the vertical axis
CONSTANT = 1e-4  # of the heights: effects that vary less do not vary
LONGEST_NAME = 24  # letters of a column's name
LONGEST_LEVEL, LETTERS = 14, 20  # of the names of levels: of one, and of all that stand beside each other


class EffectAxes(np.ndarray):
    """Axes of panels, with the numbers that they show as `effects`; an array [n] of Axes of matplotlib."""

    effects: Effects | None

    def __array_finalize__(self, source: Any) -> None:
        self.effects = getattr(source, "effects", None)

    @staticmethod
    def of(axes: np.ndarray, effects: Effects) -> EffectAxes:
        panels = axes.view(EffectAxes)
        panels.effects = effects
        return panels


@documented
def plot_effects(
    gp: Any,
    X: Any,
    y: Any = None,
    *,
    features: Sequence[int | str] | None = None,
    level: float = 0.95,
    sort: bool = True,
    n_columns: int = ACROSS,
    ax: Sequence[Axes] | None = None,
) -> EffectAxes:
    """Draw what each column does to the mean response, with its band, the most important column first.

    The effects are partial dependences: at each value of a column, the predicted mean is averaged over rows of X (up to
    60, evenly spaced), which keep their other columns. So a column that matters only together with another one is seen
    as far as its average effect goes; `plot_fit` shows a column at one place of the others. The band is that of the
    average, in which predictions are joint. Columns that always move together share their effect, and averages over
    rows that cannot be (a small house with ten rooms) are part of it.

    All panels have one vertical axis, so that effects can be compared; ticks at the foot are deciles of the data. A
    column is followed between its 1 % and 99 % quantiles (of 200 rows or more), and one of up to eight different values
    has a mark for each, as has each level of a category (of very many the 12 most frequent). Counts are per unit of
    exposure, or per trial. Several classes have a curve each, without a band.

    Parameters
    ----------
    X : array or data frame [n, D]
        Rows over which predictions are averaged, and whose range is shown: those of the fit, for example.
    y : Series [n], optional
        Only its name is used, for the vertical axis.
    features : sequence of int or str, optional
        The columns to show, by number or name; all by default.
    level : float, default 0.95
        Probability of the band.
    sort : bool, default True
        The most important first: by the standard deviation of the effect over the rows of X. False keeps the order of
        the columns.
    n_columns : int, default 3
        Panels beside each other, in a new figure.
    ax : sequence of Axes, optional
        Where to draw, one for each column; a new figure by default.

    Returns
    -------
    EffectAxes
        An array of Axes, one for each column, in the order in which they are drawn; the label of the horizontal axis is
        the column. Its `effects` are the numbers that are drawn, those of `gp.effects(X)`: curves, intervals, and the
        importance of each column.

    Examples
    --------
    >>> import numpy as np
    >>> from matplotlib.figure import Figure
    >>> from knotwise import GPRegressor
    >>> from knotwise.plotting import plot_effects
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(80, 3))
    >>> gp = GPRegressor(knots=12, random_state=0).fit(X, X[:, 0] + 5 * X[:, 2] ** 2 + 0.1 * rng.normal(size=80))
    >>> axes = plot_effects(gp, X, ax=Figure().subplots(1, 3))
    >>> [ax.get_xlabel() for ax in axes]
    ['column 2', 'column 0', 'column 1']
    >>> axes.effects.importance["column 2"] > 1
    True
    """
    n_columns = check_count(n_columns, "n_columns", least=1)
    view = view_of(gp, X)
    rows = checked_rows(view.gp, X)
    columns = chosen_columns(view.names, features)
    axes = _given(ax, len(columns))
    found = gp.effects(X, columns, level=level)
    effects = found if sort else sorted(found, key=lambda effect: columns.index(effect.column))
    name, heights = effect_name(view, y), heights_of(effects)
    if axes is None:
        axes = _new(len(effects), n_columns)
    for i, (each, effect) in enumerate(zip(axes, effects, strict=True)):
        draw_effect(each, view, effect, rows[:, effect.column], level=level)
        each.set_ylim(heights)
        if i == 0 or each.get_subplotspec() is None or each.get_subplotspec().is_first_col():
            each.set_ylabel(name)
    if view.n_classes > 2:
        name_classes(axes[0].figure if ax is None else axes[0], axes[0])
    return EffectAxes.of(axes, found)


def effect_name(view: View, y: Any) -> str:
    """What the vertical axis shows: an average of the mean response."""
    size = None if view.model.likelihood_.size_name is None else np.ones(1)
    name = response_name(view, y, size, "mean")
    return fill(f"mean {name}" if name == target_name(y) else name, LINE)


def draw_effect(ax: Axes, view: View, effect: Effect, data: np.ndarray, *, level: float) -> None:
    """Draw one effect: a curve with its band, or marks with bars for a column of few values."""
    x, curves = effect.values, np.atleast_2d(effect.mean.T)
    if effect.levels:
        x = np.arange(len(x), dtype=float)  # levels have no order, and no distance
    names = [class_name(label) for label in view.classes or []] if len(curves) > 1 else ["average"]
    band = f"{100 * level:g} % band"
    for k, (curve, name) in enumerate(zip(curves, names, strict=True)):
        own: dict[str, Any] = {"color": CYCLE[k % len(CYCLE)] if len(curves) > 1 else BLUE, "label": name, "zorder": 3}
        if effect.is_stepwise:
            ax.plot(x, curve, MARKERS[k % len(MARKERS)], markersize=5, **own)
        else:
            ax.plot(x, curve, linewidth=2.0, linestyle=DASHES[k % len(DASHES)] if len(curves) > 1 else "-", **own)
    if effect.lower is not None and effect.upper is not None:
        if effect.is_stepwise:
            ax.vlines(x, effect.lower, effect.upper, color=BLUE, linewidth=1.6, zorder=2, label=band)
        else:
            ax.fill_between(x, effect.lower, effect.upper, color=BLUE, alpha=0.2, linewidth=0, zorder=2, label=band)
    if effect.levels:
        names = [shorten(level, LONGEST_LEVEL) for level in effect.levels]
        across = sum(map(len, names)) <= LETTERS
        tilted: dict[str, Any] = {} if across else {"rotation": 40, "ha": "right", "rotation_mode": "anchor"}
        ax.set_xticks(x, names, **tilted)
    elif effect.is_stepwise and len(x) > 1:
        ax.set_xticks(x, [f"{value:.4g}" for value in x])
    elif not effect.is_stepwise:
        draw_rug(ax, np.nanquantile(data, np.linspace(0.1, 0.9, 9)), colour=GREY)
    ax.margins(x=0.04 if not effect.is_stepwise else 0.12)
    ax.set_xlabel(shorten(view.names[effect.column], LONGEST_NAME))
    write_dates(ax.xaxis, view.encoding, effect.column, most=4)


def name_classes(place: Any, ax: Axes) -> None:
    """Write the legend of several classes: below the panels of a figure, or on axes that are the user's."""
    handles, names = ax.get_legend_handles_labels()
    options: dict[str, Any] = {"frameon": False, "fontsize": 9}
    options |= {"loc": "best"} if place is ax else {"loc": "outside lower center", "ncols": 3}
    place.legend(handles, names, **options)


def heights_of(effects: Sequence[Effect]) -> tuple[float, float]:
    """One vertical range for all panels, with room for the ticks at the foot."""
    ends = [end for e in effects for end in (e.mean, e.lower, e.upper) if end is not None]
    low, high = min(float(end.min()) for end in ends), max(float(end.max()) for end in ends)
    if high - low <= CONSTANT * max(abs(low), abs(high)):  # or rounding errors would fill the panels
        middle, reach = 0.5 * (low + high), 0.05 * max(abs(high), abs(low)) or 1.0
        low, high = middle - reach, middle + reach
    room = high - low
    return low - 0.14 * room, high + 0.06 * room


def _given(ax: Any, n: int) -> np.ndarray | None:
    if ax is None:
        return None
    axes = np.ravel(np.asarray(ax, dtype=object))
    if len(axes) != n:
        raise InvalidInputError(f"`ax` must be {n} axes, one for each column, not {len(axes)}.")
    return axes


def _new(n: int, n_columns: int) -> np.ndarray:
    """Axes in a new figure of pyplot, which share their heights."""
    with look():
        from matplotlib import pyplot

        across = min(n_columns, n)
        down = -(-n // across)
        size = (max(PANEL[0] * across + 0.4, 3.6), PANEL[1] * down + 0.2)
        grid = pyplot.subplots(down, across, figsize=size, layout="constrained", sharey=True, squeeze=False)[1]
    for spare in grid.flat[n:]:
        spare.remove()
    return np.array(list(grid.flat[:n]), dtype=object)
