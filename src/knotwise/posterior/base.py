"""The protocol of posteriors: what the latent function is, given the data, and what a fitted model says of itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from knotwise.errors import KnotwiseError, NotPositiveDefiniteError, TooLargeError
from knotwise.evidence.model import Model, Rows
from knotwise.evidence.scores import RowScores
from knotwise.numerics.blocks import Executor, Serial, block_slices, rows_per_block
from knotwise.numerics.linalg import cholesky
from knotwise.posterior.in_sample import InSample
from knotwise.posterior.residuals import LeaveOneOut, Residuals

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
    """f at some rows through the knots, and the residual: f = mean + spread z + e.                            (T1)

    z ~ N(0, I) has a number for each knot and is the same for all rows, which depend on each other through it: `spread`
    is [n, K]. `residual` [n] is the variance of e, the residual of each row.
    """

    mean: np.ndarray
    spread: np.ndarray
    residual: np.ndarray


@dataclass(frozen=True)
class Shares:
    """What knots (with the mean), neighbours and noise explain, as shares of the variance of the observations.

    For rows that their neighbours predict without them, y = knots + neighbours + rest, and a share is cov(part, y) /
    var(y): these sum to 1 with that of the rest, which has the noise and what is not known of f. A part that goes
    against y has a negative share.
    """

    knots: float
    neighbours: float
    noise: float


class Posterior:
    """What the faces ask of a fitted model: f at new rows, training rows, and what it says of itself.

    All is in the engine's units, and rows are named by their numbers in the training data. Predictions run in blocks of
    rows, with O(block x width) memory for any number of them. A posterior defines `_marginals` and `_joint` of f at
    some rows, `refit`, `residuals`, `coefficients` and its words; what stands here is true of one without knots.
    """

    #: what it is made of, and what a file holds; it has the `model` with its hyperparameters
    state: Any
    #: the numbers that all rows share: columns of `spread` in `through_knots`
    width: int
    #: where another inference for the same rows and knots may begin
    start: np.ndarray
    #: whether no knots stand between it and the data, so that joint distributions need covariances of rows
    is_exact: bool = True
    n_knots: int = 0
    #: how many Vecchia neighbours each row of the fit has; 0 for none
    n_neighbors: int = 0
    #: the training rows that it holds: as they were given where it `is_exact`; with neighbours each once, with y its
    #: distance from the mean's offset and the noise of the mean of its replicates; None through knots alone
    rows: Rows | None = None
    #: condition number of Kuu with its jitter; None without knots
    condition: float | None = None
    #: what stands between it and the exact GP, as the option `approximation` calls it
    approximation: str | float = "full"
    #: how many knots and neighbours, or that it is the exact GP
    size_in_words: str

    # -- f at new rows ----------------------------------------------------------------------------

    def latent(self, X: np.ndarray, executor: Executor | None = None) -> Latent:
        """Marginal mean and variance of f at the rows of X; blocks of rows run on the executor's threads."""
        blocks = block_slices(len(X), rows_per_block(self.width, len(X)))
        parts = (executor or Serial()).map(lambda rows: self._marginals(X[rows]), blocks)
        mean, variance = np.empty(len(X)), np.empty(len(X))
        for rows, part in zip(blocks, parts, strict=True):
            mean[rows], variance[rows] = part
        return Latent(mean, variance)

    def share_left(self, X: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """The share of the kernel's variance that a variance of f at the rows of X is, [n]; more than 1 where a mean
        that is learned is uncertain, 0 where the kernel says that f is 0.
        """
        prior = self.state.model.kernel.diag(X)
        return np.divide(variance, prior, out=np.zeros(len(X)), where=prior > 0)

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

    def sample(self, X: np.ndarray, n_samples: int, rng: np.random.Generator) -> np.ndarray:
        """Draw joint samples of f at the rows of X, [n_samples, n].

        Costs O(n^3) up to `MAX_JOINT_ROWS` rows. Beyond, samples through knots cost O(n K (K + n_samples)): residuals
        are then drawn independently at each distinct row, so that their correlation between rows is left out.
        """
        if len(X) > MAX_JOINT_ROWS and not self.is_exact:
            return self._sample_through_knots(X, n_samples, rng)
        mean = self.latent(X).mean
        cov = self.covariance(X)
        noise = rng.standard_normal((n_samples, len(X)))
        return mean + covariance_root(cov)(noise)

    def _sample_through_knots(self, X: np.ndarray, n_samples: int, rng: np.random.Generator) -> np.ndarray:
        """Samples [n_samples, n] of f with residuals that are independent, but equal at equal rows."""
        places, number = distinct_rows(X)
        z = rng.standard_normal((n_samples, self.width))
        samples = np.empty((n_samples, len(X)))
        rows_of = np.argsort(number, kind="stable")
        starts = np.searchsorted(number[rows_of], np.arange(len(places) + 1))
        for some in block_slices(len(places), SAMPLED_ROWS):
            view = self.through_knots(places[some])
            f = rng.standard_normal((n_samples, len(view.mean)))
            f *= np.sqrt(view.residual)
            f += view.mean + z @ view.spread.T
            rows = rows_of[starts[some.start] : starts[some.stop]]
            samples[:, rows] = f[:, number[rows] - some.start]
        return samples

    def through_knots(self, X: np.ndarray) -> KnotView:
        """f at the rows of X in O(K) numbers for each row; not asked where the posterior `is_exact`."""
        raise NotImplementedError("This posterior has no knots: ask for `latent` or `covariance`.")

    def residual_variance(self, X: np.ndarray) -> np.ndarray:
        """Residual variance of f at the rows of X, given the knots, [n]."""
        return np.zeros(len(X))

    def residual_covariance(self, X: np.ndarray) -> np.ndarray:
        """Joint residual covariance of f at the rows of X, given the knots, [n, n]."""
        return np.zeros((len(X), len(X)))

    def _marginals(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        raise NotImplementedError

    def _joint(self, X: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    # -- training rows ----------------------------------------------------------------------------

    def residuals(self, chosen: np.ndarray, scores: RowScores | None = None) -> Residuals:
        """Residuals of the training rows `chosen`; one that holds no rows needs the `scores` of all of them."""
        raise NotImplementedError

    def in_sample(self, rows: Rows) -> InSample:
        """The training rows of Gaussian data, all of them in their order, with and without what they say themselves."""
        raise NotImplementedError

    def refit(self, rows: Rows, executor: Executor, rng: np.random.Generator) -> Posterior:
        """The posterior of other rows at the same hyperparameters and knots; `rng` orders rows for neighbours."""
        raise NotImplementedError

    def leave_out(
        self,
        rows: Rows,
        groups: Sequence[np.ndarray],
        executor: Executor,
        rng: np.random.Generator,
        names: Sequence[Any] | None = None,
    ) -> list[Latent]:
        """Marginals of f at each group of rows, given all others, at the same hyperparameters and knots.

        By one `refit` for each group; in closed form where there is one. `names` call groups in errors.
        """
        found = []
        for number, group in enumerate(groups):
            others = np.ones(len(rows), bool)
            others[group] = False
            try:
                posterior = self.refit(rows[np.flatnonzero(others)], executor, rng)
            except KnotwiseError as error:
                error.add_note(f"This was without block {number if names is None else names[number]!r}.")
                raise
            found.append(posterior.latent(rows.X[group], executor))
        return found

    def leave_one_out(self) -> LeaveOneOut | None:
        """Leave-one-out of the rows that it holds; None where it holds none, or is exact."""
        return None

    # -- about itself -----------------------------------------------------------------------------

    def coefficients(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean [p] and covariance [p, p] of the coefficients of the mean's basis, whose prior is N(0, I)."""
        raise NotImplementedError

    def shares(self) -> Shares | None:
        """What knots, neighbours and noise explain of Gaussian data; None without neighbours."""
        return None

    def rows_in_words(self, inputs: np.ndarray | None) -> str:
        """Which training rows a file of it holds; `inputs` [N, D] are those of the fit, where they are known."""
        raise NotImplementedError


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


def one_per_row(model: Model, rows: Rows) -> np.ndarray:
    """Noise variance of an observation of each row of Gaussian data, [N]."""
    return np.array(np.broadcast_to(model.noise_of(rows).variance(rows), len(rows)), float)


def noise_of_means(model: Model, rows: Rows) -> np.ndarray:
    """Noise variance of each row of Gaussian data, of one with replicates that of their mean, [N]."""
    return np.asarray(rows.per_copy(one_per_row(model, rows)))
