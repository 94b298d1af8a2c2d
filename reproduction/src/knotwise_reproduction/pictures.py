"""What the figures need of a fit, rounded, so that a figure is a function of the rows alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from knotwise.estimators import GPRegressor
from knotwise_reproduction.data import CELL, Task

__all__ = ["picture_of", "rounded"]

DIGITS = 5
BANANA_POINTS = 40


def picture_of(experiment: str, gp: GPRegressor, task: Task) -> dict[str, Any]:
    """The picture of an experiment's fit; an empty one where the paper has no figure."""
    drawers = {
        "motivation": curve_of_f,
        "gaussian": curve_of_f,
        "poisson": curve_of_counts,
        "banana": probabilities,
        "hickory": intensities,
        "short": window_of_f,
    }
    return drawers[experiment](gp, task) if experiment in drawers else {}


def curve_of_f(gp: GPRegressor, task: Task) -> dict[str, Any]:
    """f along the grid with its 95 % interval, the truth, and the data."""
    assert task.grid is not None
    grid = task.grid[:, None]
    low, high = gp.predict_interval(grid, kind="latent").T
    return _curve(task, task.truth_on_grid, gp.predict_latent(grid).mean, low, high)


def window_of_f(gp: GPRegressor, task: Task) -> dict[str, Any]:
    """f along the grid, and of the data and the knots what lies there."""
    assert task.grid is not None
    low, high = task.grid[0], task.grid[-1]
    inside = (task.X[:, 0] >= low) & (task.X[:, 0] <= high)
    Z = gp.knots_[:, 0] if gp.n_knots_ else np.empty(0)
    part = replace(task, X=task.X[inside], y=task.y[inside])
    return {**curve_of_f(gp, part), "knots": Z[(low <= Z) & (high >= Z)]}


def curve_of_counts(gp: GPRegressor, task: Task) -> dict[str, Any]:
    """The expected count of a cell along the grid: posterior median and 95 % interval."""
    assert task.grid is not None and task.truth_on_grid is not None
    grid = task.grid[:, None]
    cell = np.full(len(grid), CELL)
    low, high = gp.predict_interval(grid, kind="mean", exposure=cell).T
    return _curve(task, CELL * np.exp(task.truth_on_grid), gp.predict_median(grid, exposure=cell), low, high)


def _curve(task: Task, truth: Any, mean: np.ndarray, low: np.ndarray, high: np.ndarray) -> dict[str, Any]:
    data = {"x": task.X[:, 0], "y": task.y, "truth": truth, "grid": task.grid}
    return {**data, "mean": mean, "low": low, "high": high}


def probabilities(gp: GPRegressor, task: Task) -> dict[str, Any]:
    """Probability of class 1 on a grid: entry [i][j] is at (x0[j], x1[i])."""
    X = np.vstack([task.X, task.X_test])
    return _surface(
        gp, "probability", *(np.linspace(a, b, BANANA_POINTS) for a, b in zip(X.min(0), X.max(0), strict=True))
    )


def intensities(gp: GPRegressor, task: Task) -> dict[str, Any]:
    """Trees per unit of area in the cells: entry [i][j] is at (x0[j], x1[i]); the exact GP's has the counts too."""
    x0, x1 = (np.unique(column) for column in task.X.T)
    picture = _surface(gp, "intensity", x0, x1)
    if not gp.n_knots_:
        order = np.lexsort((task.X[:, 0], task.X[:, 1]))
        picture["counts"] = task.y[order].reshape(len(x1), len(x0))
    return picture


def _surface(gp: GPRegressor, name: str, x0: np.ndarray, x1: np.ndarray) -> dict[str, Any]:
    places = np.stack([axis.ravel() for axis in np.meshgrid(x0, x1)], axis=1)
    shape = len(x1), len(x0)
    low, high = gp.predict_interval(places, kind="mean").T
    middle = gp.predict_median(places)
    return {
        "x0": x0,
        "x1": x1,
        name: middle.reshape(shape),
        "low": low.reshape(shape),
        "high": high.reshape(shape),
    }


def rounded(value: Any) -> Any:
    """Numbers to five significant digits, arrays as lists."""
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [rounded(each) for each in value]
    return float(f"{float(value):.{DIGITS}g}")
