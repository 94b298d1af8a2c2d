"""What likelihoods say of log p(y | f), row by row: derivatives, and averages over a Gaussian f."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Derivatives:
    """First, second and third derivative of log p(y | f) in f.

    Attributes
    ----------
    first : array [n]
        d log p / df.
    second : array [n]
        d2 log p / df2.
    third : array [n]
        d3 log p / df3.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise.likelihoods import Poisson
    >>> d = Poisson().derivatives(np.array([3.0]), np.array([0.0]))
    >>> d.first.tolist(), d.second.tolist(), d.third.tolist()
    ([2.0], [-1.0], [-1.0])
    """

    first: np.ndarray
    second: np.ndarray
    third: np.ndarray


@dataclass(frozen=True)
class ParameterDerivatives:
    """Derivatives in one unconstrained parameter of log p and of its first and second derivative in f.

    Attributes
    ----------
    log_density : array [n]
        d log p / d theta.
    first : array [n]
        d (d log p / df) / d theta.
    second : array [n]
        d (d2 log p / df2) / d theta.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise.likelihoods import Gaussian
    >>> (d,) = Gaussian(1.0).parameter_derivatives(np.array([2.0]), np.array([0.0]))
    >>> d.log_density.tolist()
    [1.5]
    """

    log_density: np.ndarray
    first: np.ndarray
    second: np.ndarray


@dataclass(frozen=True)
class Expectations:
    """E log p, E g, E g' for f ~ N(mean, variance), where g = d log p / df.

    Attributes
    ----------
    log_density : array [n]
        E log p, in nats.
    first : array [n]
        E g, which is also the derivative of E log p in the mean.
    second : array [n]
        E g', which is also twice the derivative of E log p in the variance.
    error : float
        How far the last two rules of a quadrature differed at most, relative to max(1, |value|); 0 where the rule is
        known to be exact enough.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise.likelihoods import Poisson
    >>> e = Poisson().expectations(np.array([3.0]), np.array([0.0]), np.array([0.2]))
    >>> e.first.round(3).tolist(), e.error
    ([1.895], 0.0)
    """

    log_density: np.ndarray
    first: np.ndarray
    second: np.ndarray
    error: float = 0.0


@dataclass(frozen=True)
class Tilted:
    """The log of the integral of p(y | f)^power N(f; mean, variance), and its first two derivatives in the mean.

    Attributes
    ----------
    log_integral : array [n]
        The log of the integral.
    first : array [n]
        d log Z / d mean.
    second : array [n]
        d2 log Z / d mean2.
    error : float
        How far the last two rules of a quadrature differed at most, relative to max(1, |value|); 0 where the rule is
        known to be exact enough.
    variance_ratio : array [n] or None
        Variance of f under the tilted law over that of N(f), 1 + variance * second; None where this sum is exact
        enough. An observation that says far more of f than N(f) makes it a small difference of numbers near 1.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise.likelihoods import Gaussian
    >>> t = Gaussian(1.0).tilted(np.array([2.0]), np.array([0.0]), np.array([1.0]))
    >>> t.log_integral.round(3).tolist(), t.first.tolist()  # N(2; 0, 2)
    ([-2.266], [1.0])
    """

    log_integral: np.ndarray
    first: np.ndarray
    second: np.ndarray
    error: float = 0.0
    variance_ratio: np.ndarray | None = None
