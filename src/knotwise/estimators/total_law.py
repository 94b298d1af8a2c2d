"""The law of totals: samples of f drawn jointly and added up, intervals, and what independent residuals leave out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from knotwise.data.groups import PLACES_PER_BLOCK, GroupedRows
from knotwise.data.scaling import Scaling
from knotwise.errors import TooLargeError
from knotwise.likelihoods.base import Likelihood
from knotwise.numerics.blocks import Executor, block_slices
from knotwise.posterior.base import MAX_JOINT_ROWS, Latent, Posterior, covariance_root
from knotwise.prediction import Prediction

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


def linear_variances(posterior: Posterior, rows: GroupedRows, slopes: np.ndarray, executor: Executor) -> np.ndarray:
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
        for some, totals in self.samples(n_samples, rng, executor):
            # of counts the smallest one with enough below, as for a single row
            ends = np.quantile(totals, tails, axis=1, method="inverted_cdf" if whole else "linear")
            lower[some], upper[some] = ends
            with np.errstate(over="ignore"):
                sd[some] = totals.std(axis=1, ddof=1)
        return Spread(lower, upper, sd, n_samples)

    def samples(
        self, n_samples: int, rng: np.random.Generator, executor: Executor
    ) -> Iterator[tuple[slice, np.ndarray]]:
        """Some groups after the other with samples of their totals, [groups, n_samples]."""
        return sample_totals(self.posterior, self.scaling, self.rows, self.response, n_samples, rng, executor)

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


def mixed_spread(
    each: Sequence[Summed],
    estimates: np.ndarray,
    weights: np.ndarray,
    level: float,
    n_samples: int,
    rng: np.random.Generator,
    executor: Executor,
) -> Spread:
    """The spread of totals over models with these probabilities [M] and expectations [M, G]: mixtures of theirs.

    Where each is normal the interval has a closed form, but for a search; else samples of all are put together.
    """
    if len(each) == 1:
        return each[0].spread(estimates[0], level, n_samples, rng, executor)
    numbers = np.maximum(np.rint(n_samples * weights).astype(int), 1)
    known = [
        one.spread(mean, level, int(n), rng, executor) for one, mean, n in zip(each, estimates, numbers, strict=True)
    ]
    sds = np.array([spread.sd for spread in known])
    sd = np.sqrt(weights @ (sds**2 + (estimates - weights @ estimates) ** 2))
    if not any(spread.n_samples for spread in known):
        parts = [
            Prediction.of(one.response.likelihood, Latent(mean, spread**2))
            for one, mean, spread in zip(each, estimates, sds, strict=True)
        ]
        lower, upper = Prediction.mixture(parts, weights).interval(level, "latent").T
        return Spread(lower, upper, sd, 0)
    lower, upper = np.empty((2, len(sd)))
    drawn = [one.samples(int(n), rng, executor) for one, n in zip(each, numbers, strict=True)]
    tails = [0.5 - level / 2, 0.5 + level / 2]
    for blocks in zip(*drawn, strict=True):
        some, totals = blocks[0][0], np.concatenate([values for _, values in blocks], axis=1)
        lower[some], upper[some] = np.quantile(totals, tails, axis=1)
    return Spread(lower, upper, sd, int(numbers.sum()))
