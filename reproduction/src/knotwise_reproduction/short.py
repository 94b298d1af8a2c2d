"""Beyond the paper: simulated data with short length-scales, which the paper names as the first weakness of OAT."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from knotwise.kernels import Matern32
from knotwise_reproduction.data import KNOTWISE, Task

__all__ = ["CASES", "PICTURED", "Case", "simulate_short"]

#: the variance of f is 1: the noise has a tenth of its standard deviation
NOISE_SD = 0.1
N_HELD_OUT = 500
#: of the line, for the picture: all of it would show nothing but strokes
WINDOW = (0.4, 0.6)
N_GRID = 201


@dataclass(frozen=True)
class Case:
    """Data of one kind: rows in the unit interval or the unit square, and the length-scale of their function."""

    n_columns: int
    n_rows: int
    lengthscale: float

    @property
    def name(self) -> str:
        return f"{self.place}-{self.lengthscale:g}"

    @property
    def place(self) -> str:
        return "line" if self.n_columns == 1 else "plane"


#: by name; the length-scale of a kind gets shorter and shorter
CASES: Mapping[str, Case] = {
    case.name: case
    for case in (
        *(Case(1, 600, lengthscale) for lengthscale in (0.05, 0.02, 0.01)),
        *(Case(2, 900, lengthscale) for lengthscale in (0.2, 0.1, 0.05)),
    )
}
#: the case with a picture, and the one of the quick form
PICTURED = "line-0.02"


def simulate_short(seed: int, case: str) -> Task:
    """Noisy rows of a Matern 3/2 draw, some of them to test on; the kernel's family is given, its parameters are not.

    All length-scales of a kind have the same inputs, noise and random numbers of the draw.
    """
    kind = CASES[case]
    n_columns, n_rows = kind.n_columns, kind.n_rows
    rng = np.random.default_rng([seed, n_columns])
    X = rng.uniform(size=(n_rows + N_HELD_OUT, n_columns))
    noise = NOISE_SD * rng.standard_normal(len(X))
    grid = np.linspace(*WINDOW, N_GRID) if n_columns == 1 else None
    places = X if grid is None else np.vstack([X, grid[:, None]])
    K = Matern32(1.0, kind.lengthscale)(places, places)
    f = np.linalg.cholesky(K + 1e-8 * np.eye(len(K))) @ rng.standard_normal(len(K))
    y = f[: len(X)] + noise
    return Task(
        X[:n_rows],
        y[:n_rows],
        X[n_rows:],
        y[n_rows:],
        {KNOTWISE: {"kernel": Matern32(), "standardize": "common"}},
        grid=grid,
        truth_on_grid=None if grid is None else f[len(X) :],
    )
