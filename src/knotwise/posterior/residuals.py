"""Residuals of training rows, and how they vary together if the model is right: of low rank, or dense."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

NORMAL_95 = 1.959964

#: x -> A x, for a symmetric matrix A of zeros and ones without ones on its diagonal, which need not be formed
Graph = Callable[[np.ndarray], np.ndarray]


class Residuals(Protocol):
    """Residuals a = R (z - m): z the sites' pseudo-observations, R the inverse of their covariance (S6, L5).

    For Gaussian data they are differences over the noise, for counts the observed minus the expected. A row that counts
    more than once has the sum over its copies. If the model is right, the covariance of a is R itself.
    """

    @property
    def a(self) -> np.ndarray:
        """The residual of each row, [n]."""

    @property
    def variance(self) -> np.ndarray:
        """diag(R)."""

    @property
    def added(self) -> np.ndarray | float:
        """What predictions add to the variance 1 / R_ii of a row that is left out: VFE has no c in R, and they do."""

    def moments(self, graph: Graph) -> tuple[float, float]:
        """Mean tr(A R) / 2 and variance tr(A R A R) / 2 of the sum of a_i a_j over the pairs of a graph."""

    def draw(self, rng: np.random.Generator, n_draws: int) -> np.ndarray:
        """Residuals as they are if the model is right, N(0, R), [n, draws]."""


@dataclass(frozen=True)
class LowRankResiduals:
    """R = diag(w) - H H', with H [n, K]."""

    a: np.ndarray
    w: np.ndarray
    H: np.ndarray
    added: np.ndarray | float = 0.0

    @property
    def variance(self) -> np.ndarray:
        return self.w - np.einsum("nk,nk->n", self.H, self.H)

    def moments(self, graph: Graph) -> tuple[float, float]:
        w, H = self.w, self.H
        AH = graph(H)
        mean = -0.5 * np.einsum("nk,nk->", H, AH)
        # tr(A R A R) term by term: no [n, n] matrix is formed
        variance = 0.5 * w @ graph(w) - w @ np.einsum("nk,nk->n", AH, AH) + 0.5 * ((H.T @ AH) ** 2).sum()
        return float(mean), float(variance)

    def draw(self, rng: np.random.Generator, n_draws: int) -> np.ndarray:
        # the root of I - GG' in (O7)
        root = np.sqrt(self.w)[:, None]
        G = self.H / root
        s, Q = np.linalg.eigh(G.T @ G)
        GQ = G @ Q
        x = rng.standard_normal((len(self.w), n_draws))
        c = 1.0 / (1.0 + np.sqrt(np.maximum(1.0 - s, 0.0)))
        return root * (x - GQ @ (c[:, None] * (GQ.T @ x)))


@dataclass(frozen=True)
class DenseResiduals:
    """R [n, n] as it is."""

    a: np.ndarray
    R: np.ndarray
    added: float = 0.0

    @property
    def variance(self) -> np.ndarray:
        return self.R.diagonal()

    def moments(self, graph: Graph) -> tuple[float, float]:
        AR = graph(self.R)
        return 0.5 * float(AR.trace()), 0.5 * float(np.einsum("ij,ji->", AR, AR))

    def draw(self, rng: np.random.Generator, n_draws: int) -> np.ndarray:
        x = rng.standard_normal((len(self.R), n_draws))
        try:
            return np.linalg.cholesky(self.R) @ x
        except np.linalg.LinAlgError:  # nearly exact data: negative eigenvalues are rounding
            values, vectors = np.linalg.eigh(self.R)
            return vectors @ (np.sqrt(np.maximum(values, 0.0))[:, None] * x)


@dataclass(frozen=True)
class LeaveOneOut:
    """How well training rows were predicted by their neighbours without themselves: `leave_one_out` of a `Diagnosis`.

    Attributes
    ----------
    n_rows : int
        How many rows were predicted.
    size : float
        Root mean square of their errors over their standard deviations; 1 if the model is right.
    coverage : float
        Share of the rows in their 95 % intervals.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise import GPRegressor
    >>> X = np.linspace(0, 1, 60)[:, None]
    >>> y = np.sin(6 * X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=60)
    >>> gp = GPRegressor(knots=4, n_neighbors=5, random_state=0).fit(X, y)
    >>> found = gp.diagnose().leave_one_out
    >>> found.n_rows, 0.8 < found.coverage <= 1
    (60, True)
    """

    n_rows: int
    size: float
    coverage: float
