"""How a selection of knots went: evidence and unexplained share of the variance against the number of knots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from knotwise.errors import InvalidInputError
from knotwise.plotting.style import BLUE, GREY, ORANGE, VERMILION, counted, new_axes
from knotwise.plotting.view import view_of
from knotwise.selection.trace import KnotStep

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MANY: dict[str, Any] = {"linestyle": ":", "linewidth": 1.2, "markerfacecolor": "white"}


def plot_trace(gp: Any, *, label: Any = None, ax: Sequence[Axes] | None = None) -> np.ndarray:
    """Draw log evidence, unexplained share and residual information against the number of knots.

    A selection that took one step, or never changed the number of knots, has its numbers written beside the marks.

    Parameters
    ----------
    gp : GPRegressor or GPClassifier
        One that was fitted with knots that were added step by step (`knots="auto"`, `OneAtATime()`,
        `GreedyVariance()`).
    label : optional
        Of a class, where there are several.
    ax : two Axes, optional
        For the evidence, and for the share and the residual information below it; a new figure by default.

    Returns
    -------
    array of two Axes
        The evidence, and the unexplained share of the variance.

    Examples
    --------
    >>> import numpy as np
    >>> from matplotlib.figure import Figure
    >>> from knotwise import GPRegressor
    >>> from knotwise.knots import OneAtATime
    >>> from knotwise.plotting import plot_trace
    >>> X = np.linspace(0, 1, 40)[:, None]
    >>> y = np.sin(9 * X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=40)
    >>> gp = GPRegressor(knots=OneAtATime(max_knots=30), random_state=0).fit(X, y)
    >>> evidence, left = plot_trace(gp, ax=Figure().subplots(2))
    >>> left.get_xlabel()
    'number of knots'
    """
    model = view_of(gp, label=label).model
    steps = [step for step in model.trace_ if not (step.facts.compares_with_null or step.facts.compares_kernels)]
    if not steps:
        raise InvalidInputError(
            "This fit left no trace, for its knots were not added step by step. "
            "Fit with knots='auto', `OneAtATime()` or `GreedyVariance()`."
        )
    above, below = _two_axes(ax)
    from matplotlib.ticker import MaxNLocator

    many, few = _phases(steps)
    n_neighbors = getattr(model, "n_neighbors_", 0)
    _draw_evidence(above, many, few, n_neighbors)
    _draw_left(below, many, few, "not recorded by this selection" if not n_neighbors else "near rows say it")
    below.set_xlabel("number of knots")
    if len({step.n_knots for step in steps if not step.facts.rejects}) == 1:
        for axes in (above, below):
            _write_numbers(axes, steps[0].n_knots)
    else:
        below.xaxis.set_major_locator(MaxNLocator(integer=True))
    return np.array([above, below])


def _write_numbers(ax: Axes, n_knots: int) -> None:
    """Make a picture of one number of knots: the numbers beside the last mark of each kind, and room around them."""
    series = [line.get_xydata() for line in ax.get_lines()]
    lines = [np.asarray(points) for points in series if points is not None and len(np.asarray(points))]
    ax.set_xlim(n_knots - 1, n_knots + 1)
    ax.set_xticks([n_knots])
    if not lines:
        return
    heights = np.concatenate(lines)[:, 1]
    low, high = heights.min(), heights.max()
    if ax.get_yscale() == "log":
        decades = max(float(np.log10(high / low)), 1.0)
        ax.set_ylim(low / 10 ** (0.2 * decades), high * 10 ** (0.8 * decades))  # the legend is above
    else:
        room = (high - low) or max(1.0, 0.02 * abs(high))
        ax.set_ylim(low - room, high + 2 * room)
    ax.legend(frameon=False, fontsize=9, loc="upper right")
    for x, y in {tuple(points[-1]) for points in lines}:
        ax.annotate(f"{y:.4g}", (x, y), xytext=(9, 0), textcoords="offset points", va="center", fontsize=9)


def _two_axes(ax: Any) -> tuple[Axes, Axes]:
    if ax is None:
        above, below = new_axes(2, size=(6.4, 5.6), sharex=True)
        return above, below
    given = np.ravel(np.asarray(ax, dtype=object))
    if len(given) != 2:
        raise InvalidInputError(f"`ax` must be two axes, for the evidence and for what is left, not {len(given)}.")
    return given[0], given[1]


def _phases(steps: list[KnotStep]) -> tuple[list[KnotStep], list[KnotStep]]:
    """Steps with many knots that only find the hyperparameters, and those that lead to the final knots."""
    start = next((i for i, step in enumerate(steps) if step.facts.begins_placement), 0)
    return steps[:start], steps[start:]


def _draw_evidence(ax: Axes, many: list[KnotStep], few: list[KnotStep], n_neighbors: int) -> None:
    """Draw the evidence; per row, where some steps saw fewer rows than others. That with neighbours stands alone."""
    seen = {step.n_rows for step in [*many, *few] if step.n_rows}
    all_rows = max(seen) if len(seen) > 1 else None

    def height(step: KnotStep, gain: float = 0.0) -> float:
        return (step.evidence + gain) / ((step.n_rows or all_rows) if all_rows else 1)

    if many:
        on_rows: dict[str, Any] = {"color": GREY, "marker": "o", "label": "knots on rows, for the parameters (FIC)"}
        ax.plot([step.n_knots for step in many], [height(step) for step in many], markersize=4.5, **MANY, **on_rows)
    kept = [step for step in few if not step.facts.rejects]
    K, heights = [step.n_knots for step in kept], [height(step) for step in kept]
    alone = len(K) - bool(n_neighbors)
    if alone and len(K) > 1:
        own: dict[str, Any] = {"color": BLUE, "markersize": 4.5, "linewidth": 1.5, "label": "knots added and moved"}
        ax.plot(K[:alone], heights[:alone], "o-", **own)
    final = f"final: {counted(K[-1], 'knot')}" + (f" and {counted(n_neighbors, 'neighbour')}" if n_neighbors else "")
    ax.plot(K[-1:], heights[-1:], "*", color=BLUE, markersize=14, label=final, zorder=4)
    tried = [step for step in few if step.facts.rejects and np.isfinite(step.gain)]
    if tried:
        places = [step.n_knots + 1 for step in tried], [height(step, step.gain) for step in tried]
        ax.plot(*places, "x", color=VERMILION, markersize=7, label="rejected")
    ax.set_ylabel("log evidence per row" if all_rows else "log evidence")
    ax.legend(frameon=False, fontsize=9, loc="best")


def _draw_left(ax: Axes, many: list[KnotStep], few: list[KnotStep], nothing: str) -> None:
    """Draw the unexplained share and the residual information on one logarithmic scale; or say why there is none."""
    series = (
        ("share", "unexplained share of the posterior variance", BLUE, "o"),
        ("residual_information", "residual information, nats per row", ORANGE, "s"),
    )
    for name, label, colour, marker in series:
        for steps, style in ((many, MANY), (few, {"linewidth": 1.5})):
            known = [(step.n_knots, getattr(step, name)) for step in steps if getattr(step, name) > 0]
            if known:
                own: dict[str, Any] = {"color": colour, "marker": marker, "label": label if steps is few else None}
                ax.plot(*zip(*known, strict=True), **{**style, "markersize": 4.5, **own})
    ax.set_ylabel("left by the knots")
    if ax.get_lines():
        ax.set_yscale("log")
        ax.legend(frameon=False, fontsize=9, loc="best")
    else:
        ax.set_yticks([])
        ax.text(0.5, 0.5, nothing, ha="center", transform=ax.transAxes, color=GREY)
