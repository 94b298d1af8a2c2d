"""Samples of totals: f is drawn jointly, each row's response follows, and the rows of a group are added up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from knotwise.data.groups import PLACES_PER_BLOCK, GroupedRows
from knotwise.data.scaling import Scaling
from knotwise.errors import TooLargeError
from knotwise.likelihoods.base import Likelihood
from knotwise.numerics.blocks import Executor, block_slices
from knotwise.posterior.base import MAX_JOINT_ROWS, Posterior, covariance_root

__all__ = [
    "MOST_PAIRED",
    "MOST_PAIRED_NEAR",
    "Response",
    "are_sampled_jointly",
    "group_covariance",
    "linear_variances",
    "sample_totals",
]

#: standard deviations of a nugget beyond which it does not count
NORMAL_REACH = 7.0
#: distinct inputs of a group whose residual covariance is summed; of larger groups it is that of a random part
MOST_PAIRED = 2000
#: the same with neighbours, whose covariances with each other are needed too
MOST_PAIRED_NEAR = 1000
#: entries of an array of samples that is worked on at once
SAMPLED_ENTRIES = 2**19


@dataclass(frozen=True)
class Response:
    """From f to what is added up: the mean response, or a new observation, with a nugget of this variance."""

    likelihood: Likelihood
    nugget: float
    kind: str

    def mean(self, f: np.ndarray, size: np.ndarray) -> np.ndarray:
        """E(y | f), averaged over the nugget, which is independent noise on f."""
        if self.nugget == 0:
            return self.likelihood.conditional_mean(f, size)
        if self.likelihood.log_link:  # E e^(f + n) = e^(f + nugget / 2)
            return self.likelihood.conditional_mean(f + self.nugget / 2, size)
        # the trapezoidal rule converges quickly on smooth functions: 1e-7 or less for a logit at these steps
        sd = float(np.sqrt(self.nugget))
        n_steps = int(np.ceil(1.4 * (NORMAL_REACH + sd) * max(1.0, sd)))
        z = np.linspace(-NORMAL_REACH - sd, NORMAL_REACH + sd, 2 * n_steps + 1)
        weights = np.exp(-0.5 * z**2) / np.exp(-0.5 * z**2).sum()
        mean = np.zeros(np.broadcast_shapes(np.shape(f), np.shape(size)))
        for step, weight in zip(sd * z, weights, strict=True):
            mean += weight * self.likelihood.conditional_mean(f + step, size)
        return mean

    def draw(self, f: np.ndarray, size: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """The response at samples of f, [n, samples], for sizes [n, 1]."""
        if self.kind == "mean":
            return self.mean(f, size)
        if self.nugget:
            f = f + np.sqrt(self.nugget) * rng.standard_normal(f.shape)
        return self.likelihood.sample(f, rng, size)


@dataclass(frozen=True)
class _PlaceTotals:
    """Adds up the responses of the rows at each place, by samples of f at the places."""

    rows: GroupedRows
    response: Response

    def __call__(self, f: np.ndarray, places: slice, rng: np.random.Generator) -> np.ndarray:
        """Totals [places, samples] of samples f [places, samples]. Memory is that of f, however many rows there are."""
        first_row = self.rows.first_row[places.start : places.stop + 1]
        totals = np.zeros_like(f)
        most = max(1, SAMPLED_ENTRIES // f.shape[1])
        for part in block_slices(int(first_row[-1] - first_row[0]), most):
            rows = slice(first_row[0] + part.start, first_row[0] + part.stop)
            place = np.searchsorted(first_row, np.arange(rows.start, rows.stop), side="right") - 1
            size, weights = self.rows.size[rows, None], self.rows.weights[rows, None]
            values = weights * self.response.draw(f[place], size, rng)
            starts = np.flatnonzero(np.append(True, place[1:] != place[:-1]))
            totals[place[starts]] += np.add.reduceat(values, starts, axis=0)
        return totals


def sample_totals(
    posterior: Posterior,
    scaling: Scaling,
    rows: GroupedRows,
    response: Response,
    n_samples: int,
    rng: np.random.Generator,
    executor: Executor,
) -> Iterator[tuple[slice, np.ndarray]]:
    """Draw the totals of the groups, and yield some groups after the other with their samples, [groups, n_samples].

    Costs O(p K (K + n_samples)) through knots for p distinct inputs, and O(m^2 (m + n_samples)) for each group of m
    with the exact GP, and with neighbours up to 1,000 distinct inputs. Random numbers belong to blocks of the sorted
    rows: the same for any number of threads.
    """
    seed = int(rng.integers(2**63))
    total = _PlaceTotals(rows, response)
    if are_sampled_jointly(posterior, rows):
        return _sample_exact(posterior, scaling, rows, total, n_samples, seed)
    z = np.asfortranarray(rng.standard_normal((n_samples, posterior.width)).T)  # [K, samples], common to all rows

    def work(block: slice) -> np.ndarray:
        own = np.random.default_rng([seed, block.start // PLACES_PER_BLOCK])
        view = posterior.through_knots(rows.places[block])
        f = own.standard_normal((len(view.mean), n_samples))
        f *= np.sqrt(view.residual)[:, None]
        f += view.spread @ z
        f += view.mean[:, None]
        return total(f * scaling.y_scale + scaling.y_centre, block, own)

    return rows.sums_of_blocks(work, executor)


def are_sampled_jointly(posterior: Posterior, rows: GroupedRows) -> bool:
    """Whether rows of a group are drawn from their joint covariance: of the exact GP, and with neighbours, which leave
    much in common, for groups that allow it.
    """
    return posterior.is_exact or (
        posterior.n_neighbors > 0 and int(np.diff(rows.first_place).max()) <= MOST_PAIRED_NEAR
    )


def _sample_exact(
    posterior: Posterior,
    scaling: Scaling,
    rows: GroupedRows,
    total: Callable[[np.ndarray, slice, np.random.Generator], np.ndarray],
    n_samples: int,
    seed: int,
) -> Iterator[tuple[slice, np.ndarray]]:
    for group in range(rows.n_groups):
        places = slice(*rows.first_place[group : group + 2])
        own = np.random.default_rng([seed, group])
        mean = posterior.latent(rows.places[places]).mean
        root = covariance_root(group_covariance(posterior, rows, group))
        samples = np.empty((1, n_samples))
        for part in block_slices(n_samples, max(1, SAMPLED_ENTRIES // len(mean))):
            f = (mean + root(own.standard_normal((part.stop - part.start, len(mean))))).T
            samples[0, part] = total(f * scaling.y_scale + scaling.y_centre, places, own).sum(0)
        yield slice(group, group + 1), samples


def group_covariance(posterior: Posterior, rows: GroupedRows, group: int) -> np.ndarray:
    """Joint covariance of f at the places of a group, in the engine's units, as far as memory allows."""
    places = rows.places[slice(*rows.first_place[group : group + 2])]
    if len(places) > MAX_JOINT_ROWS:
        raise TooLargeError(
            f"A group has {len(places):,} distinct inputs. A total of the exact GP needs their joint covariance, which "
            f"is possible for up to {MAX_JOINT_ROWS:,}. Use a model with knots, which has no such limit, smaller "
            "groups, or a coarser grid with larger `exposure` or `weights`."
        )
    return posterior.covariance(places)


def linear_variances(
    posterior: Posterior,
    rows: GroupedRows,
    slopes: np.ndarray,
    executor: Executor,
) -> np.ndarray:
    """Variance of the sum of slopes [p] times f over the places of each group, [G], in the engine's units. (T2)"""
    variances = np.empty(rows.n_groups)
    if posterior.is_exact:
        for group in range(rows.n_groups):
            u = slopes[slice(*rows.first_place[group : group + 2])]
            variances[group] = u @ group_covariance(posterior, rows, group) @ u
        return variances

    def work(block: slice) -> np.ndarray:
        view, u = posterior.through_knots(rows.places[block]), slopes[block]
        return np.column_stack([u[:, None] * view.spread, u**2 * view.residual])

    for groups, sums in rows.sums_of_blocks(work, executor):
        variances[groups] = np.einsum("gk,gk->g", sums[:, :-1], sums[:, :-1]) + sums[:, -1]
    return variances
