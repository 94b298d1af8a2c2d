"""Slow twins: GPs by their definitions, with N x N matrices and general solves.

They are meant for a few hundred rows. Nothing is taken from the engine but the values of kernels: no shared formula.
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
