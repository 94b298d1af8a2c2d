"""Are the intervals right? Coverage, reliability of probabilities, and the PIT histogram."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import binom

from knotwise.data.validation import generator_from
from knotwise.errors import InvalidInputError
from knotwise.estimators.effects import checked_rows
from knotwise.plotting.style import BLUE, GREY, LIGHT_GREY, VERMILION, axes_or_new, counted, documented, write_title
from knotwise.plotting.view import View, checked_targets, noise_of, require, size_of, view_of
from knotwise.prediction import Prediction

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEVELS = np.linspace(0.02, 0.98, 49)
BAND = 0.95  # of the range in which a right model falls, for independent rows
BAND_LABEL = "right model, 95 %"


@documented
def plot_calibration(
    gp: Any,
    X: Any,
    y: Any,
    *,
    exposure: Any = None,
    trials: Any = None,
    offset: Any = None,
    noise_variance: Any = None,
    label: Any = None,
    n_bins: int = 10,
    random_state: Any = 0,
    ax: Axes | None = None,
) -> Axes:
    """Draw the share of rows inside their central intervals against the intervals' level; use rows not fitted to.

    Counts are spread at random within their steps (see `plot_pit`), so that a right model lies on the diagonal. For
    labels, a reliability diagram: the share of a class against its predicted probability, in bins. The band and the
    bars are where a right model falls, if rows are independent.

    Parameters
    ----------
    label : object, optional
        A class: the second of two by default; of several, by default the most probable one for each row.
    n_bins : int, default 10
        Bins of the reliability diagram.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise import GPRegressor
    >>> from knotwise.plotting import plot_calibration
    >>> X, rng = np.linspace(0, 1, 48)[:, None], np.random.default_rng(0)
    >>> y = np.sin(6 * X[:, 0]) + 0.1 * rng.normal(size=48)
    >>> gp = GPRegressor(knots=5, random_state=0).fit(X[::2], y[::2])
    >>> ax = plot_calibration(gp, X[1::2], y[1::2])
    >>> ax.get_xlabel(), ax.get_ylabel()  # ax.figure.savefig("calibration.png") saves the picture
    ('level of the central interval', 'share of rows inside')
    """
    view = view_of(gp, X, label=label)
    rows = checked_rows(view.gp, X)
    targets = checked_targets(y, len(rows), numeric=view.classes is None)
    options: dict[str, Any] = {"exposure": exposure, "trials": trials, "noise_variance": noise_variance}
    options = require(view, "plot_calibration", offset, **options)
    size_of(view, len(rows), options["exposure"], options["trials"])  # refuses what labels do not have
    noise_of(view, len(rows), options["noise_variance"])
    ax = axes_or_new(ax, size=(4.9, 4.6))
    draw_calibration(ax, view, view.prediction(rows, **options), targets, label, n_bins, random_state)
    return ax


def draw_calibration(
    ax: Axes, view: View, prediction: Any, y: np.ndarray, label: Any = None, n_bins: int = 10, random_state: Any = 0
) -> None:
    """Draw how often predicted things happen: values in intervals, or classes."""
    ax.plot([0, 1], [0, 1], color=LIGHT_GREY, linewidth=1, zorder=0)
    if view.of_labels:
        _draw_reliability(ax, view, prediction, y, label, n_bins)
    else:
        _draw_coverage(ax, prediction.pit(y, generator_from(random_state)))
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    ax.legend(frameon=False, fontsize=9, loc="upper left")


@documented
def plot_pit(
    gp: Any,
    X: Any,
    y: Any,
    *,
    exposure: Any = None,
    trials: Any = None,
    offset: Any = None,
    noise_variance: Any = None,
    n_bins: int | None = None,
    random_state: Any = 0,
    ax: Axes | None = None,
) -> Axes:
    """Draw the histogram of the probability integral transform, P(Y <= y) under each row's own prediction.

    It is flat for a right model, a hump for intervals that are too wide, a trough for too narrow ones, a slope for
    predictions that are too high or too low. Counts are spread at random between P(Y < y) and P(Y <= y). Use rows not
    fitted to.

    Parameters
    ----------
    n_bins : int, optional
        Bins of the histogram; by default about one for 15 rows, from 5 to 20.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise import GPRegressor
    >>> from knotwise.plotting import plot_pit
    >>> X, rng = np.linspace(0, 1, 48)[:, None], np.random.default_rng(0)
    >>> y = np.sin(6 * X[:, 0]) + 0.1 * rng.normal(size=48)
    >>> gp = GPRegressor(knots=5, random_state=0).fit(X[::2], y[::2])
    >>> ax = plot_pit(gp, X[1::2], y[1::2])
    >>> ax.get_ylabel()
    'density'
    """
    view = view_of(gp, X)
    if view.classes is not None:
        raise InvalidInputError("Labels have no order, so no transform: use `plot_calibration` for a classifier.")
    rows = checked_rows(view.gp, X)
    targets = checked_targets(y, len(rows))
    options: dict[str, Any] = {"exposure": exposure, "trials": trials, "noise_variance": noise_variance}
    options = require(view, "plot_pit", offset, **options)
    prediction = view.prediction(rows, **options)
    ax = axes_or_new(ax, size=(5.6, 3.8))
    draw_pit(ax, prediction, targets, n_bins, random_state)
    return ax


def draw_pit(ax: Axes, prediction: Prediction, y: np.ndarray, n_bins: int | None = None, random_state: Any = 0) -> None:
    u = prediction.pit(y, generator_from(random_state))
    bins = n_bins or int(np.clip(round(len(u) / 15), 5, 20))
    low, high = (float(end) * bins / len(u) for end in _right_range(len(u), np.array(1 / bins)))
    ax.axhspan(low, high, color=LIGHT_GREY, alpha=0.45, linewidth=0, zorder=0, label=BAND_LABEL)
    ax.hist(
        u, bins=bins, range=(0, 1), density=True, color=BLUE, alpha=0.75, edgecolor="white", linewidth=0.8, zorder=1
    )
    ax.axhline(1.0, color=GREY, linewidth=1, zorder=2)
    ax.set(xlim=(0, 1), xlabel="P(Y ≤ y) under the prediction", ylabel="density")
    ax.set_ylim(0, 1.25 * max(ax.get_ylim()[1] / 1.05, high))  # room for the legend
    write_title(ax, counted(len(u), "row"))
    ax.legend(frameon=False, fontsize=9, loc="upper right")


def _right_range(n: int | np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Between which numbers of n independent rows, each with probability p, a right model has 95 % of its chance."""
    return binom.ppf(0.5 - BAND / 2, n, p), binom.ppf(0.5 + BAND / 2, n, p)


def _draw_coverage(ax: Axes, u: np.ndarray) -> None:
    covered = (np.abs(2 * u - 1)[:, None] <= LEVELS).mean(0)
    low, high = _right_range(len(u), LEVELS)
    ax.fill_between(LEVELS, low / len(u), high / len(u), color=LIGHT_GREY, alpha=0.45, linewidth=0, label=BAND_LABEL)
    ax.plot(LEVELS, covered, color=BLUE, linewidth=2, label=counted(len(u), "row"))
    ax.set(xlabel="level of the central interval", ylabel="share of rows inside")


def _draw_reliability(ax: Axes, view: View, prediction: Any, y: np.ndarray, label: Any, n_bins: int) -> None:
    """Draw the share of hits in bins of the probability, over bars where a right model's share falls."""
    p, hit, name = _predicted_and_hit(view, prediction, y, label)
    which = np.minimum((p * n_bins).astype(int), n_bins - 1)
    counts = np.bincount(which, minlength=n_bins)
    used = counts > 0
    n = counts[used]
    middle = np.bincount(which, p, n_bins)[used] / n
    share = np.bincount(which, hit, n_bins)[used] / n
    low, high = (end / n for end in _right_range(n, middle))
    inside = (low <= share) & (share <= high)
    whole: dict[str, Any] = {"clip_on": False}  # marks at 0 and 1 are not cut
    ax.vlines(middle, low, high, color=LIGHT_GREY, linewidth=6, zorder=1, label=BAND_LABEL, **whole)
    areas = 20 + 100 * n / n.max()
    for chosen, colour, marker, text in ((inside, BLUE, "o", "inside"), (~inside, VERMILION, "D", "outside")):
        if chosen.any():
            marks = whole | {"color": colour, "marker": marker, "label": f"{text}: {counted(int(chosen.sum()), 'bin')}"}
            ax.scatter(middle[chosen], share[chosen], s=areas[chosen], zorder=3, **marks)
    ax.set(xlabel=f"predicted probability {name}", ylabel=f"observed share, {counted(len(y), 'row')}")


def _predicted_and_hit(view: View, prediction: Any, y: np.ndarray, label: Any) -> tuple[np.ndarray, np.ndarray, str]:
    """Probabilities, whether what they are of was observed, and its name."""
    if view.classes is None:
        return prediction.mean, view.model.likelihood_.check_targets(y), "of 1"
    proba, codes = prediction.proba, _codes(view.classes, y)
    if label is None and view.n_classes > 2:
        best = proba.argmax(1)
        return proba.max(1), (best == codes).astype(float), "of the most probable class"
    code = view.classes.index(view.label)
    return proba[:, code], (codes == code).astype(float), f"of {view.label_name}"


def _codes(classes: list[Any], y: np.ndarray) -> np.ndarray:
    known = {label: code for code, label in enumerate(classes)}
    for row, label in enumerate(y.tolist()):
        if label not in known:
            raise InvalidInputError(f"y must be labels from {classes}, but is {label!r} in row {row}.")
    return np.array([known[label] for label in y.tolist()])
