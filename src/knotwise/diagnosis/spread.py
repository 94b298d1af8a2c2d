"""A test of the noise: are errors larger in some places than in others?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from knotwise.diagnosis.left_out import NORMAL_95
from knotwise.diagnosis.neighbours import Neighbours
from knotwise.diagnosis.residuals import Residuals

__all__ = ["SpreadTest", "spread_test"]

N_DRAWS = 100  # of residuals from the model: their mean and variance are what sizes that tell nothing have
LEAST_ROWS, LEAST_PLACES = 200, 50  # fewer rows say little, and of few places all are neighbours
DISTINCT = 0.5  # share of different targets below which sizes of errors follow the mean, as of rounded values
LARGEST = 3.0  # beyond which an error is counted as this large, so that heavy tails raise no alarm


@dataclass(frozen=True)
class SpreadTest:
    """Whether errors of neighbours have similar sizes: `spread` of a `Diagnosis`, for Gaussian noise.

    Rows are predicted without themselves (in a model with neighbours, by the rows before them in a random order), and
    sorted by how large the errors of their neighbours are. If the model is right, their own errors have nothing to do
    with that.

    Attributes
    ----------
    correlation : float
        Correlation of the squares of neighbouring errors, beyond that of the model; each counts as at most 9 times
        its expectation.
    z : float
        The same, in standard deviations under the model.
    p : float
        The chance of a larger one if the model is right.
    ratio : float
        How much larger errors are in the fifth of the rows whose neighbours have the largest than in the fifth whose
        neighbours have the smallest (root mean squares, each over what the model expects).
    coverage : tuple of float
        Share of the rows in their 95 % intervals, in these two fifths: where errors are small, and where large.
    n_rows : int
        How many rows were compared.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise import GPRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(400, 1))
    >>> y = np.sin(6 * X[:, 0]) + X[:, 0] * rng.normal(size=400)
    >>> spread = GPRegressor(knots=6, random_state=0).fit(X, y).diagnose().spread
    >>> spread.p < 0.01, spread.ratio > 2
    (True, True)
    """

    correlation: float
    z: float
    p: float
    ratio: float
    coverage: tuple[float, float]
    n_rows: int


def spread_test(residuals: Residuals, found: Neighbours, targets: np.ndarray) -> SpreadTest | None:
    """Compare the sizes of errors of each row and its neighbours; None where the data cannot tell.

    `targets` are those of the rows of `found`. Even where the noise is the same everywhere, errors of neighbours are
    correlated, and so their sizes agree: how much is found from draws of the residuals, N(0, R)  (O7). Takes O(n K)
    for each draw, or one factor of R for the exact GP.
    """
    from scipy.special import ndtr

    n, n_places = found.place.shape
    precision = residuals.variance
    if n < LEAST_ROWS or n_places < LEAST_PLACES or len(np.unique(targets)) < DISTINCT * n or precision.min() <= 0:
        return None
    # without itself a row has the error a / R_ii, with variance 1 / R_ii and what predictions add to it
    scale = 1.0 / (precision * np.sqrt(1.0 / precision + residuals.added))
    degree, sizes = found.sums(np.ones(n)), np.abs(residuals.a * scale)
    order = np.argsort(found.sums(sizes) / np.maximum(degree, 1.0), kind="stable")
    calm, wild = sizes[order[: n // 5]], sizes[order[-(n // 5) :]]

    def agreement(errors: np.ndarray) -> np.ndarray:
        """Correlation over pairs of what is not unusually large, for each column."""
        u = np.minimum(errors, LARGEST) ** 2
        u -= u.mean(0)
        return np.einsum("nd,nd->d", u, found.sums(u)) / (degree @ u**2)

    drawn = agreement(np.abs(residuals.draw(np.random.default_rng(0), N_DRAWS) * scale[:, None]))
    if not (calm.any() and drawn.std() > 0):
        return None
    correlation = float(agreement(sizes[:, None])[0] - drawn.mean())
    z = correlation / float(drawn.std(ddof=1))
    ratio = float(np.sqrt(np.mean(wild**2) / np.mean(calm**2)))
    coverage = float(np.mean(calm <= NORMAL_95)), float(np.mean(wild <= NORMAL_95))
    return SpreadTest(correlation, z, float(ndtr(-z)), ratio, coverage, n)
