"""Slow twins: GPs by their definitions, with N x N matrices and general solves, and quantiles by plain bisection.

They are meant for a few hundred rows. Nothing is taken from the engine but the values of kernels, and of `cdf`,
`latent_of_mean`, `fisher`, `conditional_mean` and `support` of likelihoods: no shared formula.
"""

from __future__ import annotations

import numpy as np

from knotwise.docstrings import documented
from knotwise.errors import InvalidInputError
from knotwise.evidence.model import Jitter, Model, Rows
from knotwise.likelihoods.base import Likelihood

#: what the slow twins say of their arguments
ARGUMENTS = {
    "model": ("Model", "Kernel, Gaussian likelihood, mean, and the power alpha, which an exact GP does not use."),
    "rows": ("Rows", "The data, without weights."),
    "Z": ("array [K, D]", "Places of the knots."),
    "jitter": ("Jitter", "Diagonal added to Kuu."),
    "X_new": ("array [n, D]", "Inputs of the new rows."),
    "likelihood": ("Likelihood", "The distribution of Y given f."),
    "mean": ("array [n]", "Means of f."),
    "variance": ("array [n]", "Variances of f."),
    "size": ("float or array [n], default 1.0", "Exposure or trials of each row."),
}


@documented(ARGUMENTS)
def dense_sparse_evidence(model: Model, rows: Rows, Z: np.ndarray, jitter: Jitter) -> float:
    """Log evidence of the power approximation, log N(y; m, Q + alpha diag(K - Q) + noise) - penalty (S7, S8).

    Returns
    -------
    float
        In nats; by N x N matrices.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise.evidence import Jitter, Model, Rows, sparse_evidence
    >>> from knotwise.kernels import SquaredExponential
    >>> from knotwise.likelihoods import Gaussian
    >>> from knotwise.means import Zero
    >>> from knotwise.testing import dense_sparse_evidence
    >>> model = Model(SquaredExponential(1.0, 0.3), Gaussian(0.1), Zero(), power=0.5)
    >>> X = np.linspace(0, 1, 20)[:, None]
    >>> rows, Z, jitter = Rows(X, np.sin(6 * X[:, 0]), None, np.empty((len(X), 0))), X[::5], Jitter(1e-10, X[:2])
    >>> quick = sparse_evidence(model, rows, Z, jitter=jitter).value
    >>> bool(np.isclose(dense_sparse_evidence(model, rows, Z, jitter), quick))
    True
    """
    alpha, noise = model.power, _noise(model, rows)
    c = _residual_variance(model, rows.X, Z, jitter)  # [N]
    if alpha == 0:
        penalty = 0.5 * np.sum(c / noise)
    else:
        penalty = 0.5 * (1 - alpha) / alpha * np.sum(np.log(1 + alpha * c / noise))
    return _log_density(rows.y - model.mean.offset, _data_covariance(model, rows, Z, jitter)) - float(penalty)


@documented(ARGUMENTS)
def dense_sparse_posterior(
    model: Model, rows: Rows, Z: np.ndarray, jitter: Jitter, X_new: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of f at new rows, by conditioning the joint prior of data and new rows.

    The data have covariance Q + alpha diag(K - Q) + noise, the new rows their exact prior covariance K, and the
    two meet through the knots only, in Q. A linear mean adds the covariance of its basis to all three.

    Returns
    -------
    mean : array [n]
        Posterior means of f.
    covariance : array [n, n]
        Its posterior covariance.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise.evidence import Jitter, Model, Rows
    >>> from knotwise.kernels import SquaredExponential
    >>> from knotwise.likelihoods import Gaussian
    >>> from knotwise.means import Zero
    >>> from knotwise.testing import dense_full_posterior, dense_sparse_posterior
    >>> model = Model(SquaredExponential(1.0, 0.3), Gaussian(0.1), Zero(), power=1.0)
    >>> X = np.linspace(0, 1, 10)[:, None]
    >>> rows = Rows(X, np.sin(6 * X[:, 0]), None, np.empty((len(X), 0)))
    >>> mean, _ = dense_sparse_posterior(model, rows, X, Jitter(1e-10, X[:2]), X)  # a knot at each row
    >>> bool(np.allclose(mean, dense_full_posterior(model, rows, X)[0], atol=1e-6))
    True
    """
    C = _data_covariance(model, rows, Z, jitter)  # [N, N]
    basis = model.mean.basis(X_new)  # [n, p]
    cross = _explained(model, X_new, rows.X, Z, jitter) + basis @ rows.basis.T  # [n, N]
    prior = model.kernel(X_new, X_new) + basis @ basis.T  # [n, n]
    return _condition(model, rows, C, cross, prior)


@documented(ARGUMENTS)
def dense_full_evidence(model: Model, rows: Rows) -> float:
    """Log evidence of the exact GP, log N(y; m, K + noise).

    Returns
    -------
    float
        In nats; by N x N matrices.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise.evidence import Model, Rows, full_evidence
    >>> from knotwise.kernels import SquaredExponential
    >>> from knotwise.likelihoods import Gaussian
    >>> from knotwise.means import Zero
    >>> from knotwise.testing import dense_full_evidence
    >>> model = Model(SquaredExponential(1.0, 0.3), Gaussian(0.1), Zero(), power=0.0)
    >>> X = np.linspace(0, 1, 20)[:, None]
    >>> rows = Rows(X, np.sin(6 * X[:, 0]), None, np.empty((len(X), 0)))
    >>> bool(np.isclose(dense_full_evidence(model, rows), full_evidence(model, rows).value))
    True
    """
    return _log_density(rows.y - model.mean.offset, _full_covariance(model, rows))


@documented(ARGUMENTS)
def dense_full_posterior(model: Model, rows: Rows, X_new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of f at new rows under the exact GP.

    Returns
    -------
    mean : array [n]
        Posterior means of f.
    covariance : array [n, n]
        Its posterior covariance.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise.evidence import Model, Rows
    >>> from knotwise.kernels import SquaredExponential
    >>> from knotwise.likelihoods import Gaussian
    >>> from knotwise.means import Zero
    >>> from knotwise.testing import dense_full_posterior
    >>> model = Model(SquaredExponential(1.0, 0.3), Gaussian(1.0), Zero(), power=0.0)
    >>> row = Rows(np.zeros((1, 1)), np.array([3.0]), None, np.empty((1, 0)))
    >>> mean, covariance = dense_full_posterior(model, row, row.X)
    >>> mean.tolist(), covariance.tolist()
    ([1.5], [[0.5]])
    """
    basis = model.mean.basis(X_new)  # [n, p]
    cross = model.kernel(X_new, rows.X) + basis @ rows.basis.T  # [n, N]
    prior = model.kernel(X_new, X_new) + basis @ basis.T  # [n, n]
    return _condition(model, rows, _full_covariance(model, rows), cross, prior)


def _noise(model: Model, rows: Rows) -> np.ndarray:
    """Noise variance of each row, [N]; a nugget is noise too, as far as Gaussian data can tell."""
    if rows.weights is not None:
        raise InvalidInputError("The dense twins know no weights: repeat the rows instead.")
    return np.full(len(rows), model.nugget.variance) + model.noise_of(rows).variance(rows)


def _explained(model: Model, A: np.ndarray, B: np.ndarray, Z: np.ndarray, jitter: Jitter) -> np.ndarray:
    """Q(A, B) = k(A, Z) (Kuu + jitter)^-1 k(Z, B), [n_A, n_B]."""
    size = np.mean(np.diag(model.kernel(jitter.points, jitter.points)))
    Kuu = model.kernel(Z, Z) + jitter.relative * size * np.eye(len(Z))  # [K, K]
    return model.kernel(A, Z) @ np.linalg.solve(Kuu, model.kernel(Z, B))


def _residual_variance(model: Model, X: np.ndarray, Z: np.ndarray, jitter: Jitter) -> np.ndarray:
    """The diagonal of K - Q, [N]; rounding can leave it below 0 where a knot sits on a row."""
    return np.maximum(np.diag(model.kernel(X, X) - _explained(model, X, X, Z, jitter)), 0.0)


def _data_covariance(model: Model, rows: Rows, Z: np.ndarray, jitter: Jitter) -> np.ndarray:
    """Covariance of the targets in the power approximation, [N, N]."""
    Q = _explained(model, rows.X, rows.X, Z, jitter)
    kept = model.power * _residual_variance(model, rows.X, Z, jitter)
    return Q + np.diag(kept + _noise(model, rows)) + rows.basis @ rows.basis.T


def _full_covariance(model: Model, rows: Rows) -> np.ndarray:
    """Covariance of the targets in the exact model, [N, N]."""
    return model.kernel(rows.X, rows.X) + np.diag(_noise(model, rows)) + rows.basis @ rows.basis.T


def _log_density(r: np.ndarray, C: np.ndarray) -> float:
    """log N(r; 0, C)."""
    log_det = np.linalg.slogdet(C)[1]
    return float(-0.5 * (len(r) * np.log(2 * np.pi) + log_det + r @ np.linalg.solve(C, r)))


def _condition(
    model: Model, rows: Rows, C: np.ndarray, cross: np.ndarray, prior: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Condition new values on the targets: the law of one part of a Gaussian vector given the other."""
    gain = np.linalg.solve(C, cross.T).T  # [n, N]
    return model.mean.offset + gain @ (rows.y - model.mean.offset), prior - gain @ cross.T


LARGEST_COUNT = 2**20  # where the sum over all counts is given up
NODES, WEIGHTS = np.polynomial.legendre.leggauss(12)
REACH = 9.0  # standard deviations of f that hold all but 1e-18 of it
WIDE = np.linspace(-REACH, REACH, 25)
DOUBLING = np.exp2(np.arange(-4.0, 18.0))
NARROW = np.concatenate([-DOUBLING[::-1], [0.0], DOUBLING])


@documented(ARGUMENTS)
def slow_predictive_cdf(
    likelihood: Likelihood, y: np.ndarray, mean: np.ndarray, variance: np.ndarray, size: np.ndarray | float = 1.0
) -> np.ndarray:
    """P(Y <= y) for f ~ N(mean, variance), one per row, by Gauss-Legendre rules on 68 panels.

    The panels grow by doubling around the f whose mean is y, where P(Y <= y | f) steps from 1 to 0, until they cover
    all of N(f).

    Parameters
    ----------
    y : array [n]
        Values of the observation.

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


@documented(ARGUMENTS)
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
    p : float
        Probability, between 0 and 1.
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


def mean_at(likelihood: Likelihood, f: float, size: float) -> float:
    return float(np.asarray(likelihood.conditional_mean(np.array([f]), np.array([size])))[0])


def standard_deviation_at(likelihood: Likelihood, f: float, size: float) -> float | None:
    try:
        return float(np.sqrt(np.asarray(likelihood.conditional_variance(np.array([f]), np.array([size])))[0]))
    except NotImplementedError:
        return None


def response_nodes(likelihood: Likelihood, f: float, size: float) -> tuple[np.ndarray, np.ndarray]:
    """Values of y that hold all of the distribution, and their weights."""
    low, high = (float(np.max(bound)) for bound in likelihood.support(np.array([size])))
    mean = mean_at(likelihood, f, size)
    if likelihood.discrete:
        reach = 256
        while reach < LARGEST_COUNT and np.isinf(high):
            if likelihood.log_density(np.array([np.floor(mean) + reach]), np.array([f]), np.array([size]))[0] < -40:
                break
            reach *= 2
        y = np.arange(max(low, np.floor(mean) - reach), min(high, np.floor(mean) + reach) + 1)
        return y, np.ones_like(y)
    # y = a smooth monotone function of t on the whole line, t = width sinh(u): equal steps in u reach far and stay fine
    sd = standard_deviation_at(likelihood, f, size) or 1.0
    sd = sd if np.isfinite(sd) else 1.0
    if np.isinf(low):
        y_of, slope_of, width = lambda t: mean + sd * np.sinh(t), lambda t: sd * np.cosh(t), 1.0
    elif np.isinf(high):
        centre, width = np.log(mean - low), min(1.0, sd / (mean - low))
        y_of, slope_of = lambda t: low + np.exp(centre + t), lambda t: np.exp(centre + t)
    else:
        share = (mean - low) / (high - low)
        centre, width = np.log(share / (1 - share)), 1.0
        y_of = lambda t: low + (high - low) / (1 + np.exp(-centre - t))  # noqa: E731
        slope_of = lambda t: (high - low) / (2 + np.exp(-centre - t) + np.exp(centre + t))  # noqa: E731
    u = np.linspace(-1.0, 1.0, 8001) * np.arcsinh(300 / width)
    t = width * np.sinh(u)
    y, weight = y_of(t), slope_of(t) * width * np.cosh(u) * (u[1] - u[0])
    inside = (y > low) & (y < high)
    return y[inside], weight[inside]
