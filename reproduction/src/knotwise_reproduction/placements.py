"""Where knots start, in the user's units: k-means, random rows, even, or all in one place."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from knotwise.selection.initial import initial_knots
from knotwise_reproduction.data import DOMAIN, Task

__all__ = ["PLACEMENTS", "place_knots"]

Place = Callable[[Task, int, np.random.Generator], np.ndarray]


def place_knots(task: Task, initial: str, n_knots: int, seed: int) -> np.ndarray:
    """Initial knots [K, D]; the same for every method of a seed that asks for as many in the same way."""
    return PLACEMENTS[initial](task, n_knots, np.random.default_rng([seed, n_knots]))


def kmeans(task: Task, n_knots: int, rng: np.random.Generator) -> np.ndarray:
    """Centres of clusters of the inputs, each column in units of its standard deviation."""
    scale = task.X.std(0)
    return scale * initial_knots("kmeans", task.X / scale, task.y, n_knots, rng)


def random(task: Task, n_knots: int, rng: np.random.Generator) -> np.ndarray:
    """Random rows of the data."""
    return initial_knots("random", task.X, task.y, n_knots, rng)


def uniform(task: Task, n_knots: int, rng: np.random.Generator) -> np.ndarray:
    """Evenly from end to end of the simulated data's interval."""
    return np.linspace(*DOMAIN, n_knots)[:, None]


def adversarial(task: Task, n_knots: int, rng: np.random.Generator) -> np.ndarray:
    """A tenth apart about x = 2, as the paper's table has it (its text says 3)."""
    return 2.0 + 0.1 * (np.arange(n_knots) - (n_knots - 1) / 2)[:, None]


def lattice(task: Task, n_knots: int, rng: np.random.Generator) -> np.ndarray:
    """An even grid of exactly so many points in the plane, as square as the number's factors allow."""
    rows = max(k for k in range(1, int(np.sqrt(n_knots)) + 1) if n_knots % k == 0)
    low, high = task.X.min(0), task.X.max(0)
    axes = [a + (b - a) * (np.arange(n) + 0.5) / n for a, b, n in zip(low, high, (n_knots // rows, rows), strict=True)]
    return np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)


PLACEMENTS: Mapping[str, Place] = {
    "kmeans": kmeans,
    "random": random,
    "uniform": uniform,
    "adversarial": adversarial,
    "lattice": lattice,
}
