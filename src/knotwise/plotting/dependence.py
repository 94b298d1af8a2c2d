"""Partial dependence: the mean response as one column moves, averaged over rows of the data, with its band."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from knotwise.errors import FitWarning
from knotwise.plotting.view import View

__all__ = ["Effect", "effects_of"]

N_ROWS, N_POINTS = 60, 25  # rows that are averaged over, and places along a column
FEW_VALUES = 8  # different values of a column up to which each is shown by itself
TAILS, ENOUGH_ROWS = 0.01, 200  # of a column beyond which it is not followed, where there are rows to tell
N_SAMPLES = 1000  # where the band has no closed form


@dataclass(frozen=True)
class Effect:
    """The average response at values of one column, [g]: `centre` [g] or, of several classes, [g, classes].

    `low` and `high` are the ends of the band, None for several classes; `importance` is the standard deviation of the
    centre over the rows of the data, in the units of the response. Of a category, `levels` has the names of the values.
    """

    column: int
    values: np.ndarray
    centre: np.ndarray
    low: np.ndarray | None
    high: np.ndarray | None
    importance: float
    levels: tuple[str, ...] | None = None

    @property
    def is_stepwise(self) -> bool:
        """Whether each value is shown by itself: those of a category, and few numbers."""
        return self.levels is not None or len(self.values) <= FEW_VALUES


def effects_of(view: View, rows: np.ndarray, columns: Sequence[int], *, level: float) -> list[Effect]:
    """The effect of each column, the most important first.

    For each value of a column, all other columns are those of up to 60 rows, evenly spaced in the data; the average of
    the 60 predictions and its interval are joint, as in `predict_total`, and what that leaves out of the variance is
    added by its estimated share.
    """
    some = rows[np.unique(np.linspace(0, len(rows) - 1, N_ROWS).round().astype(int))]
    effects = [_effect(view, rows[:, column], some, column, level) for column in columns]
    return sorted(effects, key=lambda effect: -effect.importance)


def _effect(view: View, data: np.ndarray, some: np.ndarray, column: int, level: float) -> Effect:
    data = data[~np.isnan(data)]  # a column is followed where it is known
    names = view.level_names(column)
    values = _values(data) if names is None else _frequent(data)
    levels = None if names is None else tuple(names[int(code)] for code in values)
    points = np.tile(some, (len(values), 1))
    points[:, column] = np.repeat(values, len(some))
    low = high = None
    if view.n_classes > 2:
        proba = view.quietly(view.gp.predict_proba, view.rows(points))
        centre = proba.reshape(len(values), len(some), -1).mean(1)
    else:
        groups = np.repeat(np.arange(len(values)), len(some))
        options = {"statistic": "mean", "kind": "mean", "level": level, "n_samples": N_SAMPLES, "random_state": 0}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FitWarning)  # of what is left out, which is added here
            average = view.ask("predict_total", points, groups=groups, **options)
        centre, wider = average.estimate, 1.0 / np.sqrt(1.0 - np.minimum(average.left_out, 0.9))
        ends = (centre + wider * (end - centre) for end in (average.lower, average.upper))
        low, high = (np.clip(end, *view.model.likelihood_.support()) for end in ends)
    seen = [np.interp(data, values, each) for each in np.atleast_2d(centre.T)]
    return Effect(column, values, centre, low, high, float(np.sqrt(np.mean(np.var(seen, axis=1)))), levels)


def _frequent(codes: np.ndarray) -> np.ndarray:
    """The levels of a category by their numbers, in order; the most frequent ones where there are very many."""
    different, counts = np.unique(codes, return_counts=True)
    return np.sort(different[np.argsort(-counts, kind="stable")[:N_POINTS]])


def _values(data: np.ndarray) -> np.ndarray:
    """Where to look: at each of few values, else evenly along the column, without its extreme hundredths."""
    different = np.unique(data)
    if len(different) <= FEW_VALUES:
        return different
    tail = TAILS if len(data) >= ENOUGH_ROWS else 0.0
    low, high = np.quantile(data, [tail, 1 - tail])
    return np.linspace(low, high, N_POINTS) if low < high else different[[0, -1]]
