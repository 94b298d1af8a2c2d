"""What the figures share: which rows they show, what a drawing is, a grid of panels on the same scales, and knots."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from knotwise_reproduction.data import KNOTWISE
from knotwise_reproduction.results import Row

__all__ = [
    "Drawing",
    "Panel",
    "add_legend",
    "beyond_words",
    "choose",
    "knots_of",
    "label_outer",
    "limits",
    "missing_words",
    "panel_grid",
    "pictured",
    "rows_of",
    "title_of",
    "widened",
]


@dataclass(frozen=True)
class Drawing:
    """A figure of matplotlib and the words below it."""

    figure: Any
    caption: str


@dataclass(frozen=True)
class Panel:
    """A place in a figure: its title, and the method whose row it shows.

    Our `own` panels are not in the paper: they are shown for our setting alone, and may be absent.
    """

    title: str
    method: str
    own: bool = False


def pictured(rows: Iterable[Row], experiment: str, setting: str) -> dict[str, Row]:
    """Return, for each method of an experiment, the row of its lowest seed that has a picture."""
    found: dict[str, Row] = {}
    for row in sorted(rows, key=lambda row: row.get("seed") or 0):
        if (row["experiment"], row["setting"]) == (experiment, setting) and row.get("picture"):
            found.setdefault(row["method"], row)
    return found


def rows_of(rows: Iterable[Row], experiment: str, setting: str) -> list[Row]:
    """Return all rows of an experiment in a setting."""
    return [row for row in rows if (row["experiment"], row["setting"]) == (experiment, setting)]


def choose(rows: Mapping[str, Row], panels: Sequence[Panel]) -> list[tuple[Panel, Row]]:
    """Return the panels that have a row, with it."""
    found = [(panel, rows[panel.method]) for panel in panels if panel.method in rows]
    return [(panel, row) for panel, row in found if not panel.own or row["setting"] == KNOTWISE]


def missing_words(rows: Mapping[str, Row], panels: Sequence[Panel]) -> str:
    """Say which panels of the paper have no row; nothing when all have one."""
    missing = [panel.method for panel in panels if panel.method not in rows and not panel.own]
    return f" Not among the rows, so not drawn: {', '.join(missing)}." if missing else ""


def title_of(panel: Panel, row: Row) -> str:
    """Title a panel by its method and the number of knots."""
    n_knots = row.get("n_knots")
    return f"{panel.title}: {n_knots} knot{'s' if n_knots != 1 else ''}" if n_knots else panel.title


def knots_of(row: Row, which: str) -> NDArray[np.float64]:
    """Return a row's "knots" or "initial_knots" as [K, D]; [0, 0] where it has none."""
    Z = np.asarray(row.get(which) or [], dtype=float)
    return Z.reshape(len(Z), -1) if Z.size else np.empty((0, 0))


def limits(values: Iterable[Any], margin: float = 0.0) -> tuple[float, float]:
    """Return the least and the greatest of all finite values, moved apart by a share of their distance."""
    flat = np.concatenate([np.ravel(np.asarray(value, dtype=float)) for value in values])
    flat = flat[np.isfinite(flat)]
    low, high = (flat.min(), flat.max()) if flat.size else (0.0, 1.0)
    room = margin * (high - low or 1.0)
    return float(low - room), float(high + room)


def widened(base: tuple[float, float], values: Iterable[Any], share: float) -> tuple[float, float]:
    """Return limits that reach out for more values, but on each side by no more than a share of their width.

    A band that explodes, or a knot that ran away, shall not squeeze everything else.
    """
    room = share * (base[1] - base[0])
    low, high = limits([base, *values])
    return max(low, base[0] - room), min(high, base[1] + room)


def beyond_words(chosen: Iterable[tuple[Panel, Row]], edges: Sequence[tuple[float, float]]) -> str:
    """Say whose knots lie beyond the edges of the panels, one pair for each input; nothing when all are inside."""
    low, high = np.array(edges).T
    beyond = []
    for panel, row in chosen:
        Z = knots_of(row, "knots")
        n = int(((low > Z) | (high < Z)).any(axis=1).sum()) if len(Z) else 0
        if n:
            beyond.append(f"{n} of {title_of(panel, row)}")
    return f" Knots beyond the edges: {'; '.join(beyond)}." if beyond else ""


def panel_grid(
    n_panels: int,
    n_columns: int,
    panel_size: tuple[float, float],
    *,
    border: tuple[float, float] = (0.0, 0.5),
    layout: Literal["constrained", "compressed"] = "constrained",
) -> tuple[Any, list[Any]]:
    """Make a figure with a grid of panels that share both scales, and return it with its first `n_panels` axes.

    What is left of the last row is for the legend. Sizes are in inches, `border` is room beside and below the
    panels; the layout is "compressed" where panels keep their aspect.
    """
    from matplotlib.figure import Figure

    n_columns = min(n_columns, n_panels)
    n_rows = -(-n_panels // n_columns)
    size = panel_size[0] * n_columns + border[0], panel_size[1] * n_rows + border[1]
    figure = Figure(figsize=size, layout=layout)
    grid = figure.subplots(n_rows, n_columns, sharex=True, sharey=True, squeeze=False)
    for spare in grid.flat[n_panels:]:
        spare.set_axis_off()
    return figure, list(grid.flat[:n_panels])


def label_outer(grid: Sequence[Any], xlabel: str, ylabel: str) -> None:
    """Label the axes of the last row and of the first column: the others share them."""
    for axes in grid:
        place = axes.get_subplotspec()
        if place.is_last_row():
            axes.set_xlabel(xlabel)
        if place.is_first_col():
            axes.set_ylabel(ylabel)


def add_legend(figure: Any, grid: Sequence[Any]) -> None:
    """Put one legend for all panels where a panel is left, or below them; each name once."""
    handles = {label: handle for axes in grid for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    spare = [axes for axes in figure.axes if not axes.axison]
    if spare:
        spare[0].legend(handles.values(), handles.keys(), loc="center left")
    else:
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=min(len(handles), 3))
