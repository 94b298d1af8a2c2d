"""The exact posterior of a latent Gaussian process at fixed parameters, by importance sampling.

Nothing of knotwise is used: a dense kernel matrix, two likelihoods, and a Gaussian proposal found here. The proposal is
N(m, K) times one Gaussian factor per row, so that log p(y | f) minus the log factors is the log weight of a draw, and
neither K nor its inverse enters it. Any factors give the right answer; good ones give even weights. They are those of
the best Gaussian (by Gauss-Hermite quadrature), with precisions lowered to a share `WIDENED`, so that the proposal is
wider than the posterior wherever the data speak.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve, cholesky
from scipy.special import expit, gammaln, log_expit

__all__ = ["Posterior", "Setting", "sample_posterior", "squared_exponential"]

WIDENED = 0.9
BLOCK = 4000
NODES, NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(40)


@dataclass(frozen=True)
class Setting:
    """Data and parameters: `counts` are Poisson with a log link, labels are Bernoulli with a logit link."""

    X: np.ndarray
    y: np.ndarray
    counts: bool
    variance: float
    lengthscale: float
    level: float


@dataclass(frozen=True)
class Posterior:
    """Moments of f and of the mean response in each row, their Monte Carlo errors, and how even the weights were."""

    mean: np.ndarray
    sd: np.ndarray
    response: np.ndarray
    mean_error: np.ndarray
    response_error: np.ndarray
    effective: float


def squared_exponential(X: np.ndarray, variance: float, lengthscale: float) -> np.ndarray:
    """variance * exp(-|x - x'|^2 / (2 lengthscale^2)), written out."""
    apart = ((X[:, None] - X[None]) ** 2).sum(-1)
    return variance * np.exp(-0.5 * apart / lengthscale**2)


def sample_posterior(setting: Setting, n_draws: int, seed: int) -> Posterior:
    """Moments by self-normalised importance sampling, from pairs of draws that mirror each other."""
    rng = np.random.default_rng(seed)
    K = squared_exponential(setting.X, setting.variance, setting.lengthscale)
    a, W = _best_factors(setting, K)
    centre = setting.level + K @ a
    W = WIDENED * W
    # the covariance (K^-1 + W)^-1 = K - K S (I + S K S)^-1 S K with S = sqrt(W): K need not be inverted
    S = np.sqrt(W)
    half = np.linalg.solve(cholesky(np.eye(len(W)) + S[:, None] * K * S, lower=True), S[:, None] * K)
    covariance = K - half.T @ half
    root = cholesky(covariance + 1e-10 * setting.variance * np.eye(len(W)), lower=True)
    # the proposal has centre `centre`, so its factors are exp(a f - W (f - centre)^2 / 2) up to a constant
    sums = np.zeros((5, len(W)))
    first, total, total_square, reference = np.zeros((2, len(W))), 0.0, 0.0, None
    for _ in range(-(-n_draws // (2 * BLOCK))):
        z = rng.standard_normal((BLOCK, len(W))) @ root.T
        f = centre + np.concatenate([z, -z])
        log_weight = (_log_density(setting, f) - a * f + 0.5 * W * (f - centre) ** 2).sum(1)
        reference = np.median(log_weight) if reference is None else reference
        w = np.exp(log_weight - reference)
        response, d = _response(setting, f), f - centre
        first += [w @ d, w @ response]
        sums += [w @ d**2, w**2 @ d**2, w**2 @ d, w**2 @ response**2, w**2 @ response]
        total, total_square = total + w.sum(), total_square + (w**2).sum()
    mean, response = first / total
    second, d2, d1, r2, r1 = sums
    # the delta method; mirrored pairs do better than this for means that are nearly centred
    error = np.sqrt(np.maximum(d2 - 2 * mean * d1 + mean**2 * total_square, 0)) / total
    response_error = np.sqrt(np.maximum(r2 - 2 * response * r1 + response**2 * total_square, 0)) / total
    return Posterior(
        centre + mean, np.sqrt(second / total - mean**2), response, error, response_error, total**2 / total_square
    )


def _log_density(setting: Setting, f: np.ndarray) -> np.ndarray:
    y = setting.y
    return y * f - np.exp(f) - gammaln(y + 1) if setting.counts else log_expit((2 * y - 1) * f)


def _response(setting: Setting, f: np.ndarray) -> np.ndarray:
    return np.exp(f) if setting.counts else expit(f)


def _best_factors(setting: Setting, K: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Slope and precision of a Gaussian factor per row: expected derivatives of log p under the Gaussian they give."""
    n = len(setting.y)
    a, W, step = np.zeros(n), np.full(n, 0.1), 0.5
    weights = NODE_WEIGHTS / NODE_WEIGHTS.sum()
    for iteration in range(300):
        S = np.sqrt(W)
        factor = cho_factor(np.eye(n) + S[:, None] * K * S, lower=True)
        variance = np.maximum(setting.variance - (S[:, None] * K * cho_solve(factor, S[:, None] * K)).sum(0), 1e-12)
        mean = setting.level + K @ a
        at = _response(setting, mean[:, None] + np.sqrt(variance)[:, None] * NODES)
        slope = setting.y - at @ weights
        precision = (at if setting.counts else at * (1 - at)) @ weights
        # a Newton step for the mean at these precisions, damped; the precisions follow at the same pace
        S = np.sqrt(precision)
        factor = cho_factor(np.eye(n) + S[:, None] * K * S, lower=True)
        b = precision * (mean - setting.level) + slope
        newton = b - S * cho_solve(factor, S * (K @ b))
        moved = np.abs(newton - a).max() + np.abs(precision - W).max()
        a, W = a + step * (newton - a), W + step * (precision - W)
        if moved < 1e-8 * (1 + np.abs(a).max()) and iteration > 5:
            break
    return a, W
