"""Training rows of Gaussian data as a fit sees them: with what they say themselves, and without it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from knotwise.evidence.model import Rows

#: of a row that alone says anything where it is: a leverage that leaves some digits
MOST_LEVERAGE = 1.0 - 1e-6


@dataclass(frozen=True)
class InSample:
    """Errors y - m and variances v of f ~ N(m, v) at training rows, [n] each: given all rows, and without the row.

    `noise` is the noise variance of one observation of the row. A row that counts more than once is left out whole.
    """

    error: np.ndarray
    variance: np.ndarray
    left_error: np.ndarray
    left_variance: np.ndarray
    noise: np.ndarray

    @staticmethod
    def of_left_out(rows: Rows, noise: np.ndarray, error: np.ndarray, variance: np.ndarray) -> InSample:
        """From what the other rows say: the row itself is one more observation, with the noise of its mean."""
        own = np.asarray(rows.per_copy(noise))
        share = own / (variance + own)
        return InSample(error * share, variance * share, error, variance, noise)

    @staticmethod
    def of_whole(
        rows: Rows, noise: np.ndarray, error: np.ndarray, spread: np.ndarray, residual: np.ndarray, power: float
    ) -> InSample:
        """From what all rows say through knots: `spread` is the variance of that, `residual` what is left (O2)."""
        D = np.asarray(rows.per_copy(noise)) + power * residual
        left = 1.0 - np.minimum(spread / D, MOST_LEVERAGE)
        return InSample(error, spread + residual, error / left, spread / left + residual, noise)

    @property
    def squares(self) -> np.ndarray:
        """Expected squares of y - f, [n]: r2 of (H1)."""
        return self.error**2 + self.variance

    @property
    def standardized(self) -> np.ndarray:
        """Errors without the row, over their standard deviations."""
        return self.left_error / np.sqrt(self.left_variance + self.noise)
