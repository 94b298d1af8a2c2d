"""Scores of predictions: errors, predictive densities, divergence from the full GP, coverage."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from knotwise.docstrings import documented
from knotwise.errors import InvalidInputError

__all__ = [
    "aukl_latent",
    "aukl_observation",
    "gaussian_crps",
    "gaussian_log_density",
    "interval_coverage",
    "mean_nlpd",
    "mnlp",
    "rmse",
    "srmse",
    "univariate_kl",
]

Vector = NDArray[np.float64]
#: what the scores say of their arguments
ARGUMENTS = {
    "y": ("array [n]", "Targets: what was observed."),
    "mean": ("array [n]", "Predicted means, in the units of y."),
    "variance": ("array [n]", "Predictive variances of an observation, noise included; in the units of y squared."),
    "log_density": ("array [n]", "Log predictive densities, as from `log_predictive_density` of an estimator."),
    "full_mean": ("array [n]", "Posterior means of f under the full GP."),
    "full_variance": ("array [n]", "Its posterior variances, without noise."),
    "sparse_mean": ("array [n]", "Posterior means of f under the sparse GP."),
    "sparse_variance": ("array [n]", "Its posterior variances, without noise."),
}


@documented(ARGUMENTS)
def rmse(y: ArrayLike, mean: ArrayLike) -> float:
    r"""Root mean squared error of the predictive mean.

    .. math:: \Big( \tfrac1n \sum_i (m_i - y_i)^2 \Big)^{1/2}

    Returns
    -------
    float
        The error, in the units of y; 0 is perfect.

    Examples
    --------
    >>> from knotwise.metrics import rmse
    >>> rmse([1.0, 2.0], [4.0, 6.0]) == 12.5**0.5
    True
    """
    y, mean = _finite_rows(y=y, mean=mean)
    return float(np.sqrt(np.mean((mean - y) ** 2)))


@documented(ARGUMENTS)
def srmse(y: ArrayLike, mean: ArrayLike) -> float:
    r"""Root mean squared error over the standard deviation of the test targets.

    .. math:: \mathrm{rmse} \Big/ \Big( \tfrac1{n-1} \sum_i (y_i - \bar y)^2 \Big)^{1/2}

    About 1 for a model that predicts the mean of `y` everywhere.

    Parameters
    ----------
    y : array [n]
        Test targets, which must vary.

    Returns
    -------
    float
        The error without units; 0 is perfect.

    Examples
    --------
    >>> from knotwise.metrics import srmse
    >>> srmse([1.0, 3.0], [1.0, 3.0])
    0.0
    """
    y, mean = _finite_rows(y=y, mean=mean)
    if y.size < 2:
        raise InvalidInputError(
            f"`srmse` needs at least 2 rows to have a standard deviation, but got {y.size}. Use `rmse`.", n_rows=y.size
        )
    spread = float(np.std(y, ddof=1))
    if spread == 0 or np.ptp(y) == 0:  # the rounded mean of equal targets can leave a spread above 0
        raise InvalidInputError(
            f"`srmse` needs targets that vary, but all {y.size} values of `y` are {y[0]!s}. Use `rmse`.",
            value=float(y[0]),
        )
    return rmse(y, mean) / spread


@documented(ARGUMENTS)
def mnlp(log_density: ArrayLike) -> float:
    r"""Median negative log predictive density (the paper's MNLP); lower is better.

    .. math:: \operatorname{median}_i \{ -\log p(y_i) \}

    The M is the median: half of the rows cannot move it, so it forgives any overconfidence there.
    Elsewhere MNLP or NLPD often names the mean, which is `mean_nlpd`; the two are not comparable.

    Returns
    -------
    float
        In nats; it changes with the units of y.

    Examples
    --------
    >>> from knotwise.metrics import mnlp
    >>> mnlp([-1.0, -2.0, -90.0])
    2.0
    """
    return float(np.median(-_log_densities(log_density)))


@documented(ARGUMENTS)
def mean_nlpd(log_density: ArrayLike) -> float:
    r"""Mean negative log predictive density; lower is better.

    .. math:: -\tfrac1n \sum_i \log p(y_i)

    A proper score that one badly predicted row can dominate. It is not the paper's MNLP, which is a
    median: that is `mnlp`.

    Returns
    -------
    float
        In nats; it changes with the units of y.

    Examples
    --------
    >>> from knotwise.metrics import mean_nlpd
    >>> mean_nlpd([-1.0, -2.0, -90.0])
    31.0
    """
    return float(np.mean(-_log_densities(log_density)))


@documented(ARGUMENTS)
def gaussian_log_density(y: ArrayLike, mean: ArrayLike, variance: ArrayLike) -> Vector:
    r"""Log density of each row's normal distribution at its target; `variance` includes the noise, once.

    .. math:: -\tfrac12 \left[ \log 2\pi + \log v + \frac{(y - m)^2}{v} \right]

    Returns
    -------
    array [n]
        Log densities, in nats.

    Examples
    --------
    >>> from knotwise.metrics import gaussian_log_density
    >>> gaussian_log_density([0.0], [0.0], [1.0]).round(4)
    array([-0.9189])
    """
    y, mean, variance = _finite_rows(positive=("variance",), y=y, mean=mean, variance=variance)
    return -0.5 * (np.log(2 * np.pi) + np.log(variance) + ((y - mean) / np.sqrt(variance)) ** 2)


@documented(ARGUMENTS)
def gaussian_crps(y: ArrayLike, mean: ArrayLike, variance: ArrayLike) -> Vector:
    r"""Continuous ranked probability score of each row's normal distribution, in the units of y; lower is better.

    .. math:: s \left[ z (2 \Phi(z) - 1) + 2 \phi(z) - \pi^{-1/2} \right], \quad z = \frac{y - m}{s}, \quad s = v^{1/2}

    It is the absolute error where the variance vanishes, so that a row far off counts in proportion to its distance.
    `variance` includes the noise, once.

    Returns
    -------
    array [n]
        A score for each row, in the units of y.

    Examples
    --------
    >>> from knotwise.metrics import gaussian_crps
    >>> gaussian_crps([0.0], [0.0], [1.0]).round(4)
    array([0.2337])
    """
    from scipy.special import ndtr

    y, mean, variance = _finite_rows(positive=("variance",), y=y, mean=mean, variance=variance)
    sd = np.sqrt(variance)
    z = (y - mean) / sd
    density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    return sd * (z * (2 * ndtr(z) - 1) + 2 * density - 1 / np.sqrt(np.pi))


def univariate_kl(
    full_mean: ArrayLike, full_variance: ArrayLike, sparse_mean: ArrayLike, sparse_variance: ArrayLike
) -> Vector:
    r"""Kullback-Leibler divergence KL(full || sparse) of two normal distributions, per row, in nats.

    .. math:: \tfrac12 \left[ \frac{v_f}{v_s} - 1 - \log \frac{v_f}{v_s} + \frac{(m_f - m_s)^2}{v_s} \right]

    Accurate to 1e-12 of its value however nearly the two agree, and never negative.

    Parameters
    ----------
    full_mean : array [n]
        Means of the first distribution, that of the full GP.
    full_variance : array [n]
        Its variances, which must be positive.
    sparse_mean : array [n]
        Means of the second distribution, that of the sparse GP.
    sparse_variance : array [n]
        Its variances, which must be positive.

    Returns
    -------
    array [n]
        A divergence for each row, in nats; 0 where the two are the same.

    Examples
    --------
    >>> from knotwise.metrics import univariate_kl
    >>> univariate_kl([0.0, 1.0], [1.0, 1.0], [0.0, 0.0], [1.0, 1.0])
    array([0. , 0.5])
    """
    moments = _finite_rows(
        positive=("full_variance", "sparse_variance"),
        full_mean=full_mean,
        full_variance=full_variance,
        sparse_mean=sparse_mean,
        sparse_variance=sparse_variance,
    )
    return _gaussian_kl(*moments)


@documented(ARGUMENTS)
def aukl_latent(
    full_mean: ArrayLike, full_variance: ArrayLike, sparse_mean: ArrayLike, sparse_variance: ArrayLike
) -> float:
    r"""Average univariate KL(full || sparse) of the latent f: the paper's formula for AUKL.

    .. math:: \tfrac1n \sum_i \mathrm{KL}\big( p_{full}(f(x_i)) \,\|\, p_{sparse}(f(x_i)) \big)

    For Gaussian data the paper's table holds `aukl_observation`, which is several times smaller.

    Returns
    -------
    float
        In nats per row; 0 where the two agree everywhere.

    Examples
    --------
    >>> from knotwise.metrics import aukl_latent
    >>> aukl_latent([0.0, 1.0], [1.0, 1.0], [0.0, 0.0], [1.0, 1.0])
    0.25
    """
    return float(np.mean(univariate_kl(full_mean, full_variance, sparse_mean, sparse_variance)))


@documented(ARGUMENTS)
def aukl_observation(
    full_mean: ArrayLike,
    full_variance: ArrayLike,
    sparse_mean: ArrayLike,
    sparse_variance: ArrayLike,
    *,
    full_noise_variance: ArrayLike,
    sparse_noise_variance: ArrayLike,
) -> float:
    r"""Average univariate KL(full || sparse) of a new observation: what the paper's Gaussian table holds.

    .. math:: \tfrac1n \sum_i \mathrm{KL}\big( N(m_f, v_f + \tau_f^2) \,\|\, N(m_s, v_s + \tau_s^2) \big)

    The variances are those of the latent f; each model's noise, a number or one per row, is added here.

    Parameters
    ----------
    full_noise_variance : float or array [n]
        Noise of the full GP, which is added to its variances.
    sparse_noise_variance : float or array [n]
        Noise of the sparse GP, which is added to its variances.

    Returns
    -------
    float
        In nats per row; 0 where the two agree everywhere.

    Examples
    --------
    >>> from knotwise.metrics import aukl_observation
    >>> aukl_observation([1.0], [1.0], [0.0], [1.0], full_noise_variance=3.0, sparse_noise_variance=3.0)
    0.125
    """
    n = _as_floats("full_mean", full_mean).size
    m_f, v_f, noise_f, m_s, v_s, noise_s = _finite_rows(
        positive=("full_variance", "full_noise_variance", "sparse_variance", "sparse_noise_variance"),
        full_mean=full_mean,
        full_variance=full_variance,
        full_noise_variance=_per_row(full_noise_variance, n),
        sparse_mean=sparse_mean,
        sparse_variance=sparse_variance,
        sparse_noise_variance=_per_row(sparse_noise_variance, n),
    )
    return float(np.mean(_gaussian_kl(m_f, v_f + noise_f, m_s, v_s + noise_s)))


@documented(ARGUMENTS)
def interval_coverage(y: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> float:
    r"""Share of the targets inside their closed interval; compare it with the nominal level.

    .. math:: \tfrac1n \sum_i 1[l_i \le y_i \le u_i]

    Bounds may be infinite.

    Parameters
    ----------
    lower : array [n]
        Lower ends of the intervals.
    upper : array [n]
        Upper ends of the intervals.

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> from knotwise.metrics import interval_coverage
    >>> interval_coverage([0.0, 1.0, 2.0, 3.0], [0.0] * 4, [2.0] * 4)
    0.75
    """
    y, lower, upper = _rows(y=y, lower=lower, upper=upper)
    _require(np.isfinite(y), "y", "finite", y)
    _require(lower <= upper, "lower", "at most `upper`", lower, "Were the bounds swapped?")
    return float(np.mean((lower <= y) & (y <= upper)))


def _gaussian_kl(m_f: Vector, v_f: Vector, m_s: Vector, v_s: Vector) -> Vector:
    with np.errstate(over="ignore"):  # a divergence beyond the largest float is inf
        return 0.5 * (_ratio_excess(v_f, v_s) + ((m_f - m_s) / np.sqrt(v_s)) ** 2)


def _ratio_excess(v: Vector, w: Vector) -> Vector:
    r"""Evaluate v/w - 1 - log(v/w) >= 0 without cancellation where v is near w.

    With d = (v - w)/w and s = d/(2 + d), log1p(d) = 2 atanh(s) and d - 2 s = d s, so that
    d - log1p(d) = s (d - 2 s^2 (1/3 + s^2/5 + s^4/7 + ...)), all of whose parts have full precision.
    """
    d = (v - w) / w
    near = np.abs(d) < 0.1  # there s^2 < 0.003, and seven terms reach rounding
    d_near = np.where(near, d, 0.0)
    s = d_near / (2 + d_near)
    tail = np.polynomial.polynomial.polyval(s**2, 1 / np.arange(3.0, 17.0, 2.0))
    # d rounds to -1 where v/w is below rounding; the logs apart lose digits where they are large
    log_ratio = np.where(d < -0.5, np.log(v) - np.log(w), np.log1p(np.clip(d, -0.5, np.finfo(float).max)))
    return np.where(near, s * (d_near - 2 * s**2 * tail), d - log_ratio)


def _per_row(value: ArrayLike, n: int) -> ArrayLike:
    return np.full(n, value) if np.ndim(value) == 0 else value


def _log_densities(log_density: ArrayLike) -> Vector:
    (values,) = _rows(log_density=log_density)
    # -inf is a density of 0, a possible score; +inf is none
    _require(values < np.inf, "log_density", "below +inf", values)
    return values


def _finite_rows(*, positive: Sequence[str] = (), **columns: ArrayLike) -> list[Vector]:
    """Turn named columns into finite vectors of one length; those named in `positive`, variances, must be so."""
    vectors = _rows(**columns)
    for name, values in zip(columns, vectors, strict=True):
        _require(np.isfinite(values), name, "finite", values)
        if name in positive:
            advice = "No width, no density; look for cancellation where it was computed."
            _require(values > 0, name, "positive", values, advice)
    return vectors


def _rows(**columns: ArrayLike) -> list[Vector]:
    """Turn named columns into vectors of one common length, at least 1, without NaN."""
    vectors = {name: _as_floats(name, column) for name, column in columns.items()}
    first, n = next((name, values.size) for name, values in vectors.items())
    for name, values in vectors.items():
        if n == 0 or values.shape != (n,):
            raise InvalidInputError(
                f"`{name}` must have shape ({max(n, 1)},), one value per row of `{first}`, but has shape "
                f"{values.shape}. Pass the same rows, at least one; `.ravel()` flattens a column.",
                name=name,
            )
        _require(~np.isnan(values), name, "a number", values)
    return list(vectors.values())


def _as_floats(name: str, column: ArrayLike) -> Vector:
    try:
        return np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"`{name}` must hold real numbers, but NumPy says: {error}. Convert it first.", name=name
        ) from error


def _require(
    good: NDArray[np.bool_],
    name: str,
    expected: str,
    values: Vector,
    advice: str = "Leave such rows out of all arguments, or correct what made them.",
) -> None:
    if good.all():
        return
    row = int(np.argmin(good))
    raise InvalidInputError(
        f"`{name}` must be {expected} in every row, but is {values[row]} in row {row} (counted from 0; "
        f"{np.count_nonzero(~good)} of {good.size} rows are wrong). {advice}",
        name=name,
        row=row,
        value=float(values[row]),
    )
