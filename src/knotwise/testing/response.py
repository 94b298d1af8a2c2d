"""Quantiles of a new observation by plain bisection on a fine quadrature: slow, and the same for every likelihood.

Nothing is taken from the library but `cdf`, `latent_of_mean`, `fisher`, `conditional_mean` and `support` of the
likelihood. A row costs some ten milliseconds; it is meant for a few hundred rows.
"""

from __future__ import annotations

import numpy as np

from knotwise.likelihoods.base import Likelihood

__all__ = ["slow_predictive_cdf", "slow_predictive_quantile"]

NODES, WEIGHTS = np.polynomial.legendre.leggauss(12)
REACH = 9.0  # standard deviations of f that hold all but 1e-18 of it
WIDE = np.linspace(-REACH, REACH, 25)
DOUBLING = np.exp2(np.arange(-4.0, 18.0))
NARROW = np.concatenate([-DOUBLING[::-1], [0.0], DOUBLING])


def slow_predictive_cdf(
    likelihood: Likelihood, y: np.ndarray, mean: np.ndarray, variance: np.ndarray, size: np.ndarray | float = 1.0
) -> np.ndarray:
    """P(Y <= y) for f ~ N(mean, variance), one per row, by Gauss-Legendre rules on 68 panels.

    The panels grow by doubling around the f whose mean is y, where P(Y <= y | f) steps from 1 to 0, until they cover
    all of N(f).

    Parameters
    ----------
    likelihood : Likelihood
        The distribution of Y given f.
    y : array [n]
        Values of the observation.
    mean : array [n]
        Means of f.
    variance : array [n]
        Variances of f.
    size : float or array [n], default 1.0
        Exposure or trials of each row.

    Returns
    -------
    array [n]
        Between 0 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise.likelihoods import Gaussian
    >>> from knotwise.testing import slow_predictive_cdf
    >>> slow_predictive_cdf(Gaussian(1.0), np.array([0.0]), np.array([0.0]), np.array([1.0])).round(6).tolist()
    [0.5]
    """
    y, mean, variance, size = np.broadcast_arrays(y, mean, variance, size)
    sd = np.sqrt(variance)
    low, high = mean - REACH * sd, mean + REACH * sd
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        centre = np.clip(np.nan_to_num(likelihood.latent_of_mean(y, size)), low, high)
        width = np.nan_to_num(1 / np.sqrt(np.maximum(likelihood.fisher(y, centre, size), 1 / variance)))
    # in standard deviations from the mean: differences of f have lost digits where it is far from 0 and nearly known
    narrow = np.clip((centre - mean) / sd + width / sd * NARROW[:, None], -REACH, REACH)
    cuts = np.sort(np.vstack([np.broadcast_to(WIDE[:, None], (len(WIDE), len(mean))), narrow]), axis=0)  # [cuts, n]
    half = 0.5 * np.diff(cuts, axis=0)
    t = ((cuts[:-1] + half)[:, None] + half[:, None] * NODES[:, None]).reshape(-1, len(mean))  # [panels * nodes, n]
    f, weights = mean + sd * t, (half[:, None] * WEIGHTS[:, None]).reshape(-1, len(mean))
    density = np.exp(-0.5 * t**2) / np.sqrt(2 * np.pi)
    values = likelihood.cdf(np.broadcast_to(y, f.shape), f, np.broadcast_to(size, f.shape))
    return np.clip((weights * density * values).sum(0), 0.0, 1.0)


def slow_predictive_quantile(
    likelihood: Likelihood,
    p: float,
    mean: np.ndarray,
    variance: np.ndarray,
    size: np.ndarray | float = 1.0,
    *,
    rtol: float = 1e-15,
) -> np.ndarray:
    """The smallest y with P(Y <= y) >= p for f ~ N(mean, variance), one per row, by bisection.

    Parameters
    ----------
    likelihood : Likelihood
        The distribution of Y given f.
    p : float
        Probability, between 0 and 1.
    mean : array [n]
        Means of f.
    variance : array [n]
        Variances of f.
    size : float or array [n], default 1.0
        Exposure or trials of each row.
    rtol : float, default 1e-15
        Stop when the bracket is this share of y wide.

    Returns
    -------
    array [n]
        In the units of y.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise.likelihoods import Poisson
    >>> from knotwise.testing import slow_predictive_quantile
    >>> slow_predictive_quantile(Poisson(), 0.5, np.log([4.0]), np.array([0.01])).tolist()
    [4.0]
    """
    mean, variance, size = np.broadcast_arrays(mean, variance, size)
    reach = REACH * np.sqrt(variance)
    lowest, highest = likelihood.support(size)
    with np.errstate(over="ignore"):
        low = np.asarray(likelihood.conditional_mean(mean - reach, size), float)
        high = np.asarray(likelihood.conditional_mean(mean + reach, size), float)
    step = np.maximum(high - low, 1.0)
    low, high = np.maximum(low - step, lowest), np.minimum(high + step, highest)
    for _ in range(60):
        open_high = (slow_predictive_cdf(likelihood, high, mean, variance, size) < p) & (high < highest)
        open_low = (slow_predictive_cdf(likelihood, low, mean, variance, size) >= p) & (low > lowest)
        if not (open_high.any() or open_low.any()):
            break
        step = 2 * step
        high = np.where(open_high, np.minimum(high + step, highest), high)
        low = np.where(open_low, np.maximum(low - step, lowest), low)
    if likelihood.discrete:
        low, high = np.floor(low) - 1, np.ceil(high)
    for _ in range(300):
        middle = np.floor((low + high) / 2) if likelihood.discrete else (low + high) / 2
        enough = slow_predictive_cdf(likelihood, middle, mean, variance, size) >= p
        high, low = np.where(enough, middle, high), np.where(enough, low, middle)
        tolerance = rtol * (np.abs(high) + np.abs(low)) + 1e-300
        if (high - low <= np.maximum(tolerance, 1.0 if likelihood.discrete else 0.0)).all():
            break
    return np.maximum(high, lowest)
