"""Posterior of the latent function: state of an evidence -> means, variances, covariances, samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from knotwise.errors import NotPositiveDefiniteError, TooLargeError
from knotwise.evidence.full_sites import FullState
from knotwise.evidence.sparse import SparseState
from knotwise.numerics.blocks import Executor, Serial, block_slices, rows_per_block
from knotwise.numerics.linalg import cholesky, times_lower_transposed

__all__ = [
    "MAX_JOINT_ROWS",
    "FullPosterior",
    "KnotView",
    "Latent",
    "Posterior",
    "SparsePosterior",
    "covariance_root",
    "distinct_rows",
    "sample_latent",
]

#: joint covariances, and samples that leave nothing out, need an n x n matrix of the new rows
MAX_JOINT_ROWS = 10_000
#: rows whose samples are drawn together, where there are more than that
SAMPLED_ROWS = 512


@dataclass(frozen=True)
class Latent:
    """Marginal posterior of f at some rows, without noise.

    Attributes
    ----------
    mean : array [n]
        Posterior means, in the units of y for Gaussian data, else on the scale of the link.
    variance : array [n]
        Posterior variances.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise import GPRegressor
    >>> X = np.linspace(0, 1, 24)[:, None]
    >>> latent = GPRegressor(knots=4, random_state=0).fit(X, np.sin(6 * X[:, 0])).predict_latent(X)
    >>> bool(np.allclose(latent.std**2, latent.variance))
    True
    """

    mean: np.ndarray
    variance: np.ndarray

    @property
    def std(self) -> np.ndarray:
        """Posterior standard deviations, [n]."""
        return np.sqrt(self.variance)


@dataclass(frozen=True)
class KnotView:
    """What the knots say of f at some rows, and what they leave: f = mean + spread z + e.                       (T1)

    z ~ N(0, I) has a number for each knot and is the same for all rows, which depend on each other through it: `spread`
    is [n, K]. `residual` [n] is the variance of e, what the knots leave open at each row.
    """

    mean: np.ndarray
    spread: np.ndarray
    residual: np.ndarray


class Posterior(Protocol):
    """What the faces ask of a fitted model."""

    def latent(self, X: np.ndarray, executor: Executor | None = None) -> Latent: ...

    def covariance(self, X: np.ndarray) -> np.ndarray: ...


class RowwisePosterior:
    """Prediction in row blocks, so that memory stays O(block x K) for any number of new rows."""

    width: int

    def latent(self, X: np.ndarray, executor: Executor | None = None) -> Latent:
        """Marginal mean and variance of f at the rows of X; blocks of rows run on the executor's threads."""
        blocks = block_slices(len(X), rows_per_block(self.width, len(X)))
        parts = (executor or Serial()).map(lambda rows: self._marginals(X[rows]), blocks)
        mean, variance = np.empty(len(X)), np.empty(len(X))
        for rows, part in zip(blocks, parts, strict=True):
            mean[rows], variance[rows] = part
        return Latent(mean, variance)

    def covariance(self, X: np.ndarray) -> np.ndarray:
        """Joint posterior covariance of f at the rows of X, [n, n]."""
        if len(X) > MAX_JOINT_ROWS:
            raise TooLargeError(
                f"A joint covariance of {len(X):,} rows would take {8e-9 * len(X) ** 2:.1f} GB; the limit is "
                f"{MAX_JOINT_ROWS:,} rows. Ask for `return_std=True`, or for fewer rows."
            )
        cov = self._joint(X)
        # the diagonal again in its cancellation-free form, so that it agrees with `latent` and is not negative
        cov.flat[:: len(X) + 1] = self.latent(X).variance
        return cov

    def _marginals(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        raise NotImplementedError

    def _joint(self, X: np.ndarray) -> np.ndarray:
        raise NotImplementedError


class SparsePosterior(RowwisePosterior):
    """Posterior through knots. Holds no row of the data; costs O(K^2) per new row."""

    def __init__(self, state: SparseState) -> None:
        self.state = state
        self.width = len(state.gamma)

    @property
    def start(self) -> np.ndarray:
        """Where another inference through the same knots may begin."""
        return self.state.gamma

    def _features(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """v = L^-1 k(Z, x) for each row [n, K], and with the rows of the mean's basis [n, K + p]."""
        state = self.state
        v = times_lower_transposed(state.model.kernel(X, state.Z), state.L_inverse)
        basis = state.model.mean.basis(X)
        return v, np.hstack([v, basis]) if basis.shape[1] else v

    def through_knots(self, X: np.ndarray) -> KnotView:
        """What the knots say of f at the rows of X, jointly, in O(K) numbers for each row."""
        state = self.state
        v, v_all = self._features(X)
        # B^-1 = T'T, so v'eta with eta ~ N(gamma, B^-1) is v'gamma + (T v)'z with z ~ N(0, I)
        g = times_lower_transposed(v_all, state.T)
        residual = state.model.kernel.diag(X) - np.einsum("nk,nk->n", v, v)
        return KnotView(state.model.mean.offset + v_all @ state.gamma, g, np.maximum(residual, 0.0))

    def residual_variance(self, X: np.ndarray) -> np.ndarray:
        """Variance of what the knots leave open at the rows of X, [n]."""
        blocks = block_slices(len(X), rows_per_block(self.width, len(X)))
        return np.concatenate([self.through_knots(X[rows]).residual for rows in blocks])

    def residual_covariance(self, X: np.ndarray) -> np.ndarray:
        """Joint covariance of what the knots leave open at the rows of X, [n, n]."""
        v, _ = self._features(X)
        return self.state.model.kernel(X, X) - v @ v.T

    def _marginals(self, X):
        view = self.through_knots(X)
        # sums of squares, so never negative                                                        (S17)
        return view.mean, view.residual + np.einsum("nk,nk->n", view.spread, view.spread)

    def _joint(self, X):
        v, v_all = self._features(X)
        g = times_lower_transposed(v_all, self.state.T)
        return self.state.model.kernel(X, X) - v @ v.T + g @ g.T


class FullPosterior(RowwisePosterior):
    """Posterior of the exact GP. Holds the data; costs O(N^2) per new row."""

    def __init__(self, state: FullState) -> None:
        self.state = state
        self.width = len(state.a)

    @property
    def start(self) -> np.ndarray:
        """Where another inference for the same rows may begin."""
        return self.state.last

    def _cross(self, X: np.ndarray) -> np.ndarray:
        rows, model = self.state.rows, self.state.model
        cross = model.kernel(X, rows.X)
        if rows.basis.shape[1]:
            cross += model.mean.basis(X) @ rows.basis.T
        return cross

    def _marginals(self, X):
        model = self.state.model
        cross = self._cross(X)
        prior = model.kernel.diag(X) + (model.mean.basis(X) ** 2).sum(1)
        # a difference: clipped well below the noise, where rounding could leave less than nothing
        variance = np.maximum(prior - self.state.precision.explained(cross), np.finfo(float).eps * prior)
        return model.mean.offset + cross @ self.state.a, variance

    def _joint(self, X):
        model = self.state.model
        basis = model.mean.basis(X)
        return model.kernel(X, X) + basis @ basis.T - self.state.precision.explained_jointly(self._cross(X))


def sample_latent(posterior: Posterior, X: np.ndarray, n_samples: int, rng: np.random.Generator) -> np.ndarray:
    """Draw joint samples of f at the rows of X, [n_samples, n].

    Costs O(n^3) up to `MAX_JOINT_ROWS` rows. Beyond, samples through knots cost O(n K (K + n_samples)): what the knots
    leave open is then drawn independently at each distinct row, so that its correlation between rows is left out.
    """
    if isinstance(posterior, SparsePosterior) and len(X) > MAX_JOINT_ROWS:
        return _sample_through_knots(posterior, X, n_samples, rng)
    mean = posterior.latent(X).mean
    cov = posterior.covariance(X)
    noise = rng.standard_normal((n_samples, len(X)))
    return mean + covariance_root(cov)(noise)


def covariance_root(cov: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """The linear map that gives rows of standard normal numbers, [samples, n], this covariance [n, n]."""
    if not np.isfinite(cov).all():
        raise NotPositiveDefiniteError(
            f"The covariance of {len(cov)} rows has NaN or infinities, so that nothing can be drawn: X is too far from "
            "the data of the fit for numbers, or the model has numbers that no fit ends with."
        )
    scale = max(float(cov.diagonal().max()), np.finfo(float).tiny)
    for relative in (1e-12, 1e-10, 1e-8, 1e-6):
        try:
            L = cholesky(cov + relative * scale * np.eye(len(cov)))
        except NotPositiveDefiniteError:
            continue
        return lambda noise: noise @ L.T
    # neighbouring rows are so dependent that only the eigenvalues tell; negative ones are rounding
    values, vectors = np.linalg.eigh(cov)
    return lambda noise: (noise * np.sqrt(np.maximum(values, 0.0))) @ vectors.T


def distinct_rows(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows of X without repetitions, sorted, [p, D], and for each row of X which of them it is, [n]."""
    order = np.lexsort(X.T[::-1])
    new = np.ones(len(X), bool)
    new[1:] = (X[order[1:]] != X[order[:-1]]).any(1)
    number = np.empty(len(X), np.intp)
    number[order] = np.cumsum(new) - 1
    return X[order[new]], number


def _sample_through_knots(
    posterior: SparsePosterior, X: np.ndarray, n_samples: int, rng: np.random.Generator
) -> np.ndarray:
    """Samples [n_samples, n] of f with residuals that are independent, but equal at equal rows."""
    places, number = distinct_rows(X)
    z = rng.standard_normal((n_samples, posterior.width))
    samples = np.empty((n_samples, len(X)))
    rows_of = np.argsort(number, kind="stable")
    starts = np.searchsorted(number[rows_of], np.arange(len(places) + 1))
    for some in block_slices(len(places), SAMPLED_ROWS):
        view = posterior.through_knots(places[some])
        f = rng.standard_normal((n_samples, len(view.mean)))
        f *= np.sqrt(view.residual)
        f += view.mean + z @ view.spread.T
        rows = rows_of[starts[some.start] : starts[some.stop]]
        samples[:, rows] = f[:, number[rows] - some.start]
    return samples
