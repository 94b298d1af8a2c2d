"""Observed against predicted values, with the intervals of new observations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from knotwise.errors import InvalidInputError
from knotwise.plotting.style import BLUE, LIGHT_GREY, VERMILION, axes_or_new, counted
from knotwise.plotting.view import checked_rows, checked_targets, require_size, target_name, view_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_observed"]

FEW = 100  # rows up to which marks have their full size and colour
NARROW, CONSTANT = 0.4, 0.02  # shares of the range between which predictions have an axis of their own


def plot_observed(
    gp: Any,
    X: Any,
    y: Any,
    *,
    level: float = 0.95,
    exposure: Any = None,
    trials: Any = None,
    noise_variance: Any = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw observed against predicted values, each with its interval; those outside are marked.

    Parameters
    ----------
    gp : GPRegressor
        The fitted model.
    X : array or data frame [n, D]
        Inputs of the rows, best of rows not fitted to.
    y : array [n]
        Their targets.
    level : float
        Probability of the central intervals of new observations.
    exposure, trials : float or array [n], optional
        Of each row, for counts: a count is compared at its own. Needed if the fit had them.
    noise_variance : float or array [n], optional
        Known noise of each row of Gaussian data.
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
    >>> from knotwise.plotting import plot_observed
    >>> X, rng = np.linspace(0, 1, 48)[:, None], np.random.default_rng(0)
    >>> y = np.sin(6 * X[:, 0]) + 0.1 * rng.normal(size=48)
    >>> gp = GPRegressor(knots=5, random_state=0).fit(X[::2], y[::2])
    >>> ax = plot_observed(gp, X[1::2], y[1::2])
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('predicted y', 'observed y')
    """
    view = view_of(gp, X)
    if view.of_labels:
        raise InvalidInputError("Labels have no interval: use `plot_calibration` for probabilities.")
    rows = checked_rows(view, X)
    targets = checked_targets(y, len(rows))
    exposure, trials = require_size(view, "plot_observed", exposure, trials)
    options: dict[str, Any] = {"exposure": exposure, "trials": trials, "noise_variance": noise_variance}
    mean = view.ask("predict", rows, **options)
    low, high = view.ask("predict_interval", rows, level, "observation", **options).T
    inside = (low <= targets) & (targets <= high)
    ax = axes_or_new(ax, size=(5.2, 5.0))

    faint = float(np.clip(FEW / len(targets), 0.15, 1.0))  # many lines add up
    bars: dict[str, Any] = {"alpha": 0.28 * faint, "linewidth": 1.1, "label": f"{100 * level:g} % interval"}
    ax.vlines(mean, low, high, color=BLUE, zorder=1, rasterized=len(targets) > 10 * FEW, **bars)
    groups = ((inside, BLUE, "o", 4.5, "inside"), (~inside, VERMILION, "D", 5.5, "outside"))
    for chosen, colour, marker, size, name in groups:
        marks: dict[str, Any] = {"marker": marker, "color": colour, "markersize": size * max(faint, 0.7)}
        text = f"{name}: {chosen.sum()}"
        ax.plot(mean[chosen], targets[chosen], linestyle="none", zorder=2, markeredgewidth=0, label=text, **marks)
    across, up = _limits(mean, np.concatenate([low, high, targets]))
    ax.axline((up[0], up[0]), slope=1, color=LIGHT_GREY, linewidth=1, zorder=0)
    name = target_name(y)
    ax.set(xlabel=f"predicted {name}", ylabel=f"observed {name}", xlim=across, ylim=up)
    if across == up:
        ax.set_aspect("equal")
    ax.set_title(counted(len(targets), "row"), loc="left")
    ax.legend(frameon=False, fontsize=9, loc="upper left")
    return ax


def _limits(predicted: np.ndarray, vertical: np.ndarray) -> tuple[tuple[float, float], tuple[float, float]]:
    """One range for both axes, but where predictions take little of it (counts, weak signal) their own."""
    vertical = vertical[np.isfinite(vertical)]
    both = _with_margin(np.concatenate([predicted, vertical]))
    own = _with_margin(predicted)
    share = (own[1] - own[0]) / (both[1] - both[0])
    return (own if CONSTANT < share < NARROW else both), both


def _with_margin(values: np.ndarray) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    margin = 0.04 * (high - low) or 0.5 * max(1.0, abs(high))
    return low - margin, high + margin
