"""How far a total may lie from its estimate: its interval, and what independent residuals leave out of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from knotwise.data.groups import GroupedRows
from knotwise.data.scaling import Scaling
from knotwise.estimators.total_samples import (
    MOST_PAIRED,
    MOST_PAIRED_NEAR,
    Response,
    are_sampled_jointly,
    linear_variances,
    sample_totals,
)
from knotwise.numerics.blocks import Executor
from knotwise.posterior.base import Latent, Posterior

__all__ = ["Spread", "Summed"]


@dataclass(frozen=True)
class Spread:
    """Interval and standard deviation of each total, [G]; `n_samples` is 0 where the interval has a closed form."""

    lower: np.ndarray
    upper: np.ndarray
    sd: np.ndarray
    n_samples: int


@dataclass(frozen=True)
class Summed:
    """What is added up: the responses of sorted rows, with f at each of them, and its own noise and nugget's variance.

    `latent` and `own_variance` [n] are in the user's units and in the order of `rows`.
    """

    posterior: Posterior
    scaling: Scaling
    rows: GroupedRows
    response: Response
    latent: Latent
    own_variance: np.ndarray

    @property
    def linear(self) -> bool:
        """Whether the mean response is f itself, so that sums of it are normal."""
        likelihood, f = self.response.likelihood, self.latent.mean
        return likelihood.scales_targets and np.array_equal(likelihood.conditional_mean(f, self.rows.size), f)

    def spread(
        self, estimate: np.ndarray, level: float, n_samples: int, rng: np.random.Generator, executor: Executor
    ) -> Spread:
        """The spread of totals with these expectations [G]: a normal one where it is exact, else from samples."""
        from scipy.special import ndtri

        if not self.linear:
            return self._sampled(level, n_samples, rng, executor)
        sd = np.sqrt(self._linear_variance(executor))
        if self.response.kind == "mean" or self.response.likelihood.conjugate:
            half = ndtri(0.5 + level / 2) * sd
            return Spread(estimate - half, estimate + half, sd, 0)
        sampled = self._sampled(level, n_samples, rng, executor)
        return Spread(sampled.lower, sampled.upper, sd, n_samples)  # sd may be infinite, which no sample tells

    def _linear_variance(self, executor: Executor) -> np.ndarray:
        rows = self.rows
        slopes = rows.sum_by_place(rows.weights) * self.scaling.y_scale
        variance = linear_variances(self.posterior, rows, slopes, executor)
        if self.posterior.n_neighbors:  # what is left of near rows goes together far more
            variance = np.maximum(variance + self._between_places(slopes, np.random.default_rng(0)), 0.0)
        if self.response.kind == "mean":
            return variance
        return variance + rows.sum_by_group(rows.weights**2 * self.own_variance)

    def _sampled(self, level: float, n_samples: int, rng: np.random.Generator, executor: Executor) -> Spread:
        lower, upper, sd = np.empty((3, self.rows.n_groups))
        whole = self.response.kind == "observation" and self.response.likelihood.discrete
        tails = [0.5 - level / 2, 0.5 + level / 2]
        for some, totals in sample_totals(
            self.posterior, self.scaling, self.rows, self.response, n_samples, rng, executor
        ):
            # of counts the smallest one with enough below, as for a single row
            ends = np.quantile(totals, tails, axis=1, method="inverted_cdf" if whole else "linear")
            lower[some], upper[some] = ends
            with np.errstate(over="ignore"):
                sd[some] = totals.std(axis=1, ddof=1)
        return Spread(lower, upper, sd, n_samples)

    def left_out(self, variance: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Share of the true variance of each total that independent residuals leave out, to first order in f, [G].

        `variance` [G] is what the totals have. Costs O(m^2 D) for each group of m places, m at most `MOST_PAIRED`. (T3)
        """
        if self._is_joint:
            return np.zeros(self.rows.n_groups)
        rows = self.rows
        slopes = rows.sum_by_place(rows.weights * (1.0 if self.linear else self._slopes())) * self.scaling.y_scale
        missing = np.maximum(self._between_places(slopes, rng), 0.0)
        with np.errstate(invalid="ignore"):
            return np.where((missing > 0) & np.isfinite(variance), missing / (missing + variance), 0.0)

    @property
    def _is_joint(self) -> bool:
        """Whether totals have all that rows have in common."""
        near = self.linear and self.posterior.n_neighbors > 0
        return near or are_sampled_jointly(self.posterior, self.rows)

    def _between_places(self, slopes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """What the residuals of different places add to the variance of slopes [p] times f, summed over groups, [G]."""
        rows, added = self.rows, np.zeros(self.rows.n_groups)
        most = MOST_PAIRED_NEAR if self.posterior.n_neighbors else MOST_PAIRED
        for group in np.flatnonzero(np.diff(rows.first_place) > 1):
            places = np.arange(*rows.first_place[group : group + 2])
            pairs = len(places) * (len(places) - 1.0)
            if len(places) > most:
                places = rng.choice(places, most, replace=False)
            C = self.posterior.residual_covariance(rows.places[places])
            np.fill_diagonal(C, 0.0)
            u = slopes[places]
            added[group] = float(u @ C @ u) * (pairs / (len(places) * (len(places) - 1.0)))
        return added

    def _slopes(self) -> np.ndarray:
        """How the mean response of each row changes with f, on average over f, [n]: E m'(f) = E m(f) z / sd.

        For counts this is the mean response itself, also where f is known so badly that e^f bends.
        """
        nodes, weights = np.polynomial.hermite_e.hermegauss(16)
        mean = self.latent.mean
        sd = np.maximum(self.latent.std, 1e-6 * np.maximum(np.abs(mean), 1.0))
        covariance = np.zeros(len(mean))
        for node, weight in zip(nodes, weights / weights.sum(), strict=True):
            covariance += weight * node * self.response.mean(mean + sd * node, self.rows.size)
        return covariance / sd
