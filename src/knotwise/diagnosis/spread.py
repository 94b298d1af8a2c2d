"""A test of the noise: are errors larger in some places than in others?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from knotwise.diagnosis.neighbours import Neighbours
from knotwise.diagnosis.residuals import Residuals

__all__ = ["SpreadTest", "spread_test"]

N_DRAWS = 100  # of residuals from the model: their mean and variance are what sizes that tell nothing have
NORMAL_95 = 1.959964
LEAST_ROWS = 100  # a fifth of fewer says little


@dataclass(frozen=True)
class SpreadTest:
    """Whether errors of neighbours have the like sizes: `spread` of a `Diagnosis`, for noise of one variance.

    Rows are predicted without themselves (in a model with neighbours, by the rows before them in a random order), and
    sorted by how large the errors of their neighbours are. If the noise is the same everywhere, their own errors have
    nothing to do with that.

    Attributes
    ----------
    correlation : float
        Rank correlation of the sizes of neighbouring errors, beyond that of the model.
    z : float
        The same, in standard deviations under the model.
    p : float
        The chance of a larger one if the noise is the same everywhere.
    ratio : float
        How much larger errors are in the fifth of the rows whose neighbours have the largest than in the fifth whose
        neighbours have the smallest (root mean squares, each over what the model expects).
    coverage : tuple of float
        Share of the rows in their 95 % intervals, in these two fifths: where errors are small, and where large.
    with_mean : float
        Rank correlation of the sizes with the mean that the model has for a row: above 0 if errors grow with y.

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
    with_mean: float


def spread_test(residuals: Residuals, found: Neighbours, mean: np.ndarray) -> SpreadTest | None:
    """Compare the sizes of errors of each row and its neighbours; None where the rows are too few.

    `mean` is that of f, for the rows of `found`. Sizes enter by their ranks, so that heavy tails raise no alarm. Even
    where the noise is the same everywhere, errors of neighbours are correlated, and so their sizes agree: how much is
    found from draws of the residuals, N(0, R)  (O7). Takes O(n K) for each draw, or one factor of R for the exact GP.
    """
    from scipy.special import ndtr

    n = len(found.rows)
    scale = np.sqrt(np.maximum(residuals.variance, 0.0))
    if n < LEAST_ROWS or not (scale > 0).all():
        return None

    degree, sizes = found.sums(np.ones(n)), np.abs(residuals.a / scale)
    near = found.sums(sizes) / np.maximum(degree, 1.0)
    order = np.argsort(near, kind="stable")
    calm, wild = sizes[order[: n // 5]], sizes[order[-(n // 5) :]]
    if not calm.any():
        return None

    def agreement(sizes: np.ndarray) -> np.ndarray:
        """Correlation over pairs, for each column."""
        u = _centred_ranks(sizes)
        return np.einsum("nd,nd->d", u, found.sums(u)) / (degree @ u**2)

    drawn = agreement(np.abs(residuals.draw(np.random.default_rng(0), N_DRAWS) / scale[:, None]))
    correlation = float(agreement(sizes[:, None])[0] - drawn.mean())
    z = correlation / float(drawn.std(ddof=1))
    own, level = _centred_ranks(sizes), _centred_ranks(mean)
    return SpreadTest(
        correlation,
        z,
        float(ndtr(-z)),
        float(np.sqrt(np.mean(wild**2) / np.mean(calm**2))),
        (float(np.mean(calm <= NORMAL_95)), float(np.mean(wild <= NORMAL_95))),
        float(own @ level / (own @ own)),
    )


def _centred_ranks(x: np.ndarray) -> np.ndarray:
    """Ranks along the first axis, with mean 0; ties as they come."""
    return np.argsort(np.argsort(x, axis=0, kind="stable"), axis=0) - 0.5 * (len(x) - 1)
