"""The data of the paper's experiments, with the options of the model that fits them in each setting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from knotwise import datasets
from knotwise.kernels import SquaredExponential
from knotwise.likelihoods import Gaussian
from knotwise.means import Constant

__all__ = [
    "KNOTWISE",
    "MODEL",
    "PUBLISHED",
    "SETTINGS",
    "Task",
    "load_banana",
    "load_boston",
    "load_hickory",
    "simulate_gaussian",
    "simulate_poisson",
]

#: the paper's settings (FIC, Adadelta, its start and tolerances) and ours (VFE, L-BFGS, our start)
SETTINGS = PUBLISHED, KNOTWISE = "published", "knotwise"


#: of an estimator
Options = Mapping[str, Any]

#: what every model has where its experiment says nothing else: the paper's kernel and inference, and a mean that is a
#: point estimate
MODEL: Options = {"kernel": SquaredExponential(), "mean": Constant(prior_sd=None), "inference": "laplace"}


@dataclass(frozen=True, eq=False)
class Task:
    """Rows to fit and rows to be scored at, and the estimator's options by setting.

    `truth` is f at the test rows where it is known; `truth_on_grid` at `grid`, for pictures. Options of the published
    setting hold what the paper says of the model: its mean, its noise, its start.
    """

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    options: Mapping[str, Options]
    exposure: np.ndarray | None = None  # of the rows, which are then the test rows too
    truth: np.ndarray | None = None
    grid: np.ndarray | None = None
    truth_on_grid: np.ndarray | None = None
    exact_options: Mapping[str, Options] = field(default_factory=dict)  # of the exact GP alone

    @property
    def with_exposure(self) -> dict[str, Any]:
        return {} if self.exposure is None else {"exposure": self.exposure}


# -- benchmark data -------------------------------------------------------------------------------


def load_boston(seed: int) -> Task:
    """490 house values, of which four fifths train; the start is that of the authors' script."""
    part = datasets.split(datasets.load_boston(), seed=seed)
    half = float(part.y_train.var()) / 2
    published = {
        "kernel": SquaredExponential(variance=half, lengthscale=1.0, column_scales="standard"),
        "likelihood": Gaussian(noise_variance=half),
        "mean": float(part.y_train.mean()),
    }
    return Task(part.X_train, part.y_train, part.X_test, part.y_test, {PUBLISHED: published, KNOTWISE: {}})


def load_banana(seed: int) -> Task:
    """531 of 5300 rows of two classes train; the paper's start is not known, so knotwise finds one."""
    part = datasets.split(datasets.load_banana(), seed=seed, n_train=531)
    options = {
        PUBLISHED: {"likelihood": "bernoulli", "mean": "zero", "nugget": "fit"},
        KNOTWISE: {"likelihood": "bernoulli"},
    }
    return Task(part.X_train, part.y_train, part.X_test, part.y_test, options)


def load_hickory(seed: int) -> Task:
    """Counts of trees in 900 cells, scored where they were seen: the data are the same for every seed."""
    trees = datasets.load_hickory()
    assert trees.exposure is not None
    common: Options = {"likelihood": "poisson", "nugget": "fit", "standardize": "common"}
    options = {PUBLISHED: {**common, "mean": float(np.log(trees.y.sum() / trees.exposure.sum()))}, KNOTWISE: common}
    return Task(trees.X, trees.y, trees.X, trees.y, options, trees.exposure)


# -- simulated data: the paper's own are not published --------------------------------------------

DOMAIN = (0.0, 10.0)
N_GRID = 201

#: of the authors' later simulation; with 200 rows it gives log-likelihoods and errors like the paper's
VARIANCE, LENGTHSCALE, NOISE_VARIANCE = 4.0, 1.0, 1.0

#: cells of the Poisson example, and one count in a cell where f is at its mean: log-likelihoods are like the paper's
N_CELLS, CELL = 399, 0.025
COUNT_VARIANCE, COUNT_LEVEL = 1.0, float(np.log(1 / CELL))


def simulate_gaussian(seed: int) -> Task:
    """200 observations of a GP on [0, 10] with noise; the published fits start at the true parameters, mean 0."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(*DOMAIN, 200))
    f, grid, f_grid = _draw(x, VARIANCE, rng)
    y = f + np.sqrt(NOISE_VARIANCE) * rng.standard_normal(len(x))
    truth = {
        "kernel": SquaredExponential(VARIANCE, LENGTHSCALE),
        "likelihood": Gaussian(NOISE_VARIANCE),
        "mean": "zero",
        "standardize": False,
    }
    X = x[:, None]
    return Task(
        X,
        y,
        X,
        y,
        {PUBLISHED: truth, KNOTWISE: {}},
        truth=f,
        grid=grid,
        truth_on_grid=f_grid,
        exact_options={PUBLISHED: {"optimizer": None}},  # the paper's full GP has the true parameters
    )


def simulate_poisson(seed: int) -> Task:
    """Counts in 399 cells of a GP's exponential; the published fits start at the true kernel."""
    rng = np.random.default_rng(seed)
    x = CELL * np.arange(1, N_CELLS + 1)
    f, grid, f_grid = _draw(x, COUNT_VARIANCE, rng)
    f, f_grid = f + COUNT_LEVEL, f_grid + COUNT_LEVEL
    y = rng.poisson(CELL * np.exp(f)).astype(float)
    published = {
        "likelihood": "poisson",
        "nugget": "fit",
        "kernel": SquaredExponential(COUNT_VARIANCE, LENGTHSCALE),
        "mean": float(np.log(y.mean() / CELL)),
        "standardize": False,
    }
    X = x[:, None]
    exposure = np.full(N_CELLS, CELL)
    options: dict[str, Options] = {PUBLISHED: published, KNOTWISE: {"likelihood": "poisson"}}
    return Task(X, y, X, y, options, exposure, truth=f, grid=grid, truth_on_grid=f_grid)


def _draw(x: np.ndarray, variance: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A GP's values at x, an even grid, and its values there, drawn together."""
    grid = np.linspace(*DOMAIN, N_GRID)
    places = np.concatenate([x, grid])[:, None]
    K = SquaredExponential(variance, LENGTHSCALE)(places, places)
    f = np.linalg.cholesky(K + 1e-8 * np.eye(len(K))) @ rng.standard_normal(len(K))
    return f[: len(x)], grid, f[len(x) :]
