"""What likelihoods say of log p(y | f), row by row: derivatives, and averages over a Gaussian f."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["Derivatives", "Expectations", "ParameterDerivatives", "Tilted"]


@dataclass(frozen=True)
class Derivatives:
    """First, second and third derivative of log p(y | f) in f, [n] each."""

    first: np.ndarray
    second: np.ndarray
    third: np.ndarray


@dataclass(frozen=True)
class ParameterDerivatives:
    """Derivatives in one unconstrained parameter of log p and of its first and second derivative in f, [n] each."""

    log_density: np.ndarray
    first: np.ndarray
    second: np.ndarray


@dataclass(frozen=True)
class Expectations:
    """E log p, E g, E g' for f ~ N(mean, variance), [n] each, where g = d log p / df.

    `error` is how far the last two rules of a quadrature differed at most, relative to max(1, |value|); 0 where the
    rule is known to be exact enough.
    """

    log_density: np.ndarray
    first: np.ndarray
    second: np.ndarray
    error: float = 0.0


@dataclass(frozen=True)
class Tilted:
    """log Z, the log of the integral of p(y | f)^power N(f; mean, variance), and its first two derivatives in the mean.

    [n] each; `error` as for `Expectations`.
    """

    log_integral: np.ndarray
    first: np.ndarray
    second: np.ndarray
    error: float = 0.0
