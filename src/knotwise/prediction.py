"""A prediction: the distribution of a new observation at each of some rows, which answers every question about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from knotwise.docstrings import EXAMPLES, documented, filled
from knotwise.errors import InvalidInputError, unknown_option
from knotwise.likelihoods.base import Likelihood
from knotwise.likelihoods.response import by_blocks
from knotwise.likelihoods.roots import find_between
from knotwise.numerics.blocks import executor_for
from knotwise.posterior.base import Latent

__all__ = ["Component", "Prediction"]

KINDS = ("observation", "mean", "latent")
#: parameters of several methods
ARGUMENTS = {
    "level": (
        "float, default 0.95",
        "Probability of the interval, between 0 and 1; the same share is left out at either end.",
    ),
    "kind": (
        '"observation", "mean" or "latent", default "observation"',
        "Of what: a new observation, with its noise; its mean given f, which says how well the surface is known; or f "
        "itself, on the scale of the link.",
    ),
    "p": ("float", "Probability, between 0 and 1."),
    "y": ("array [n]", "The observations."),
    "n_samples": ("int, default 1", "Observations to draw at each row."),
    "random_state": ("int, Generator, optional", "The same number gives the same result."),
}


@dataclass(frozen=True)
class Component:
    """Independent latent values f ~ N(mean, variance), [n, L] each, and the likelihood of an observation given them.

    A likelihood of one latent function is handed arrays [n]; one of several, [n, L] in the order of its functions.
    `nugget` is the variance of independent noise on f, which is not in `variance`.
    """

    likelihood: Likelihood
    mean: np.ndarray
    variance: np.ndarray
    nugget: float = 0.0

    @property
    def latent(self) -> Latent:
        """Mean and variance of f without the nugget, as the likelihood is handed them."""
        if self.mean.shape[1] > 1:
            return Latent(self.mean, self.variance)
        return Latent(self.mean[:, 0], self.variance[:, 0])

    def only_latent(self, what: str) -> Latent:
        """The same where there is one latent function, with which the mean response rises."""
        if self.mean.shape[1] > 1:
            raise InvalidInputError(
                f"{what} is known where the mean response is a function of one latent function, and "
                f"{type(self.likelihood).__name__} has {self.mean.shape[1]}. Ask for observations."
            )
        return self.latent


@documented(ARGUMENTS)
@filled(EXAMPLES)
@dataclass(frozen=True, eq=False, repr=False)
class Prediction:
    """The distribution of a new observation at each of n rows; what `GPRegressor.predictive` returns.

    One pass through the posterior has made it, and every question is answered from that: ask for as many as you like.
    Rows are marginal; `GPRegressor.sample_observations` and `predict_total` are joint. All is in the units of y.

    Attributes
    ----------
    components : tuple of Component
        Each the likelihood, and mean and variance [n, L] of its L latent functions; one, unless it is a mixture.
    weights : array [M]
        Probabilities of the components, which sum to one.
    size : float or array [n]
        Exposure of each count or number of its trials; 1 where the data say nothing.
    n_jobs : int or None
        Threads; None is all cores.

    Examples
    --------
    {counts}
    >>> p = gp.predictive([[0.1], [0.9]])
    >>> p.mean.round(1).tolist(), p.std.round(1).tolist()
    ([0.4, 3.8], [0.7, 2.1])
    >>> p.interval(0.9).tolist(), p.quantile(0.5).tolist()  # of a new count
    ([[0.0, 2.0], [1.0, 8.0]], [0.0, 4.0])
    >>> p.cdf(2).round(2).tolist(), p.log_density([0, 4]).round(1).tolist()
    ([0.99, 0.29], [-0.4, -1.7])
    >>> p.median().round(1).tolist(), p.exceedance(2).round(2).tolist()  # of its mean
    ([0.4, 3.7], [0.0, 1.0])
    >>> p.sample(1000, random_state=0).mean(0).round(0).tolist(), p.pit([0, 4], random_state=0).shape
    ([0.0, 4.0], (2,))

    A mixture of two, of which the second is certain of f:

    >>> from knotwise import Prediction
    >>> from knotwise.posterior.base import Latent
    >>> certain = Prediction.of(gp.likelihood_, Latent(p.latent.mean, np.zeros(2)))
    >>> Prediction.mixture([p, certain], weights=[3, 1])
    Prediction of 2 rows (Poisson, 2 components)
    """

    components: tuple[Component, ...]
    weights: np.ndarray
    size: np.ndarray | float = 1.0
    n_jobs: int | None = 1

    @staticmethod
    def of(
        likelihood: Likelihood,
        latent: Latent,
        *,
        size: np.ndarray | float = 1.0,
        nugget: float = 0.0,
        n_jobs: int | None = 1,
    ) -> Prediction:
        """The prediction of one likelihood and of its latent marginals, [n] or [n, L] each.

        Parameters
        ----------
        likelihood : Likelihood
            Of an observation given f; of several latent functions one that takes arrays [n, L].
        latent : Latent
            Mean and variance of f, without the nugget.
        size : float or array [n], default 1.0
            Exposure of each count or number of its trials; 1 where the data say nothing.
        nugget : float, default 0.0
            Variance of independent noise on f.
        n_jobs : int, default 1
            Threads; None is all cores.

        Returns
        -------
        Prediction
            Of n rows.
        """
        columns = (values if np.ndim(values) == 2 else values[:, None] for values in (latent.mean, latent.variance))
        mean, variance = columns
        return Prediction((Component(likelihood, mean, variance, nugget),), np.ones(1), size, n_jobs)

    @staticmethod
    def mixture(predictions: Sequence[Prediction], weights: Any = None) -> Prediction:
        """A mixture of predictions of the same rows: of several kernels, for example.

        Parameters
        ----------
        predictions : sequence of Prediction
            With the same exposure or trials.
        weights : array [M], optional
            Their probabilities, which are divided by their sum; equal by default.

        Returns
        -------
        Prediction
            Its distribution function is the weighted sum of theirs.
        """
        own = np.ones(len(predictions)) if weights is None else np.asarray(weights, float)
        if own.shape != (len(predictions),) or not ((own >= 0).all() and 0 < own.sum() < np.inf):
            raise InvalidInputError(f"`weights` must be {len(predictions)} numbers of at least 0, but are {weights!r}.")
        first = predictions[0]
        if any(len(each) != len(first) or np.any(each.size != first.size) for each in predictions):
            raise InvalidInputError("A mixture is of predictions of the same rows, with the same exposure or trials.")
        components = tuple(part for each in predictions for part in each.components)
        shares = [w * each.weights for w, each in zip(own / own.sum(), predictions, strict=True)]
        return Prediction(components, np.concatenate(shares), first.size, first.n_jobs)

    def __len__(self) -> int:
        return len(self.components[0].mean)

    def __repr__(self) -> str:
        words = ", ".join(dict.fromkeys(type(part.likelihood).__name__ for part in self.components))
        mixed = f", {len(self.components)} components" if len(self.components) > 1 else ""
        return f"Prediction of {len(self)} rows ({words}{mixed})"

    @property
    def latent(self) -> Latent:
        """Mean and variance of f without the nugget, [n] each, or [n, L] of several latent functions."""
        each = [part.latent for part in self.components]
        return Latent(*mixed_moments(self.weights, [(latent.mean, latent.variance) for latent in each]))

    @property
    def mean(self) -> np.ndarray:
        """Mean of a new observation, [n]."""
        return self._moments[0]

    @property
    def variance(self) -> np.ndarray:
        """Variance of a new observation, [n]."""
        return self._moments[1]

    @property
    def std(self) -> np.ndarray:
        """Standard deviation of a new observation, [n]."""
        return np.sqrt(self.variance)

    def median(self, kind: str = "mean") -> np.ndarray:
        """Median of the mean response, or of a new observation, or of f.

        Parameters
        ----------
        kind : "mean", "observation" or "latent", default "mean"
            Of what, as in `interval`; by default that of `predict_median`.

        Returns
        -------
        array [n]
            In the units of y, or of f if `kind` is "latent".
        """
        return self.quantile(0.5, kind)

    def interval(self, level: float = 0.95, kind: str = "observation") -> np.ndarray:
        """Central interval of a new observation, of its mean, or of f.

        Returns
        -------
        array [n, 2]
            Lower and upper end at each row.
        """
        return np.column_stack([self.quantile(p, kind) for p in (0.5 - level / 2, 0.5 + level / 2)])

    def quantile(self, p: float, kind: str = "observation") -> np.ndarray:
        """The smallest value that is not exceeded with probability p.

        Returns
        -------
        array [n]
            In the units of y, or of f if `kind` is "latent".
        """
        _check_kind(kind)
        if not (np.ndim(p) == 0 and 0 < p < 1):
            raise InvalidInputError(f"A probability is {p!r}; it must be one number between 0 and 1.")
        each = [self._quantile(part, p, kind) for part in self.components]
        return each[0] if len(each) == 1 else self._quantile_between(p, kind, np.min(each, 0), np.max(each, 0))

    def cdf(self, y: Any, kind: str = "observation") -> np.ndarray:
        """Probability that a new observation, its mean or f is at most y.

        Parameters
        ----------
        y : float or array [n]
            Values, the same for all rows or one for each.

        Returns
        -------
        array [n]
            Between 0 and 1.
        """
        _check_kind(kind)
        y = np.broadcast_to(np.asarray(y, float), len(self))
        return self._average([self._cdf(part, y, kind) for part in self.components])

    def exceedance(self, threshold: Any, kind: str = "mean") -> np.ndarray:
        """Probability that the mean response, a new observation or f exceeds a threshold.

        Parameters
        ----------
        threshold : float or array [n]
            In the units of y, or of f if `kind` is "latent".
        kind : "mean", "observation" or "latent", default "mean"
            Of what, as in `interval`; by default that of `predict_exceedance`.

        Returns
        -------
        array [n]
            Between 0 and 1.
        """
        if kind == "observation":
            return 1.0 - self.cdf(threshold)
        _check_kind(kind)
        return self._average([ndtr(-self._score(part, threshold, kind)) for part in self.components])

    def log_density(self, y: Any) -> np.ndarray:
        """Log density of each observation under its own prediction; of counts the log probability.

        Returns
        -------
        array [n]
            In nats; a density is in the units of 1 / y.
        """
        y = self._targets(y)
        each = [self._ask(part, part.likelihood.log_predictive_density, y) for part in self.components]
        if len(each) == 1:
            return each[0]
        with np.errstate(divide="ignore"):  # a component may have no weight
            return np.logaddexp.reduce([log_p + np.log(w) for log_p, w in zip(each, self.weights, strict=True)])

    def pit(self, y: Any, random_state: Any = None) -> np.ndarray:
        """Probability integral transform: P(Y <= y) of each observation, uniform if the model is right.

        Where Y takes whole numbers only, and at atoms, it is a uniform draw between P(Y < y) and P(Y <= y), which is
        uniform again.

        Returns
        -------
        array [n]
            Between 0 and 1.
        """
        y = self._targets(y)
        likelihood = self.components[0].likelihood
        above = self.cdf(y)
        at_atom = np.isin(y, likelihood.atoms)
        if not likelihood.discrete and not at_atom.any():
            return above
        below = self.cdf(y - 1 if likelihood.discrete else np.where(at_atom, np.nextafter(y, -np.inf), y))
        return below + np.random.default_rng(random_state).random(len(y)) * (above - below)

    def sample(self, n_samples: int = 1, random_state: Any = None) -> np.ndarray:
        """Draw new observations, independently at each row; `sample_observations` of the model draws them jointly.

        Returns
        -------
        array [n_samples, n]
            In the units of y.
        """
        rng = np.random.default_rng(random_state)
        shape = (n_samples, len(self))
        which = rng.choice(len(self.weights), shape, p=self.weights) if len(self.weights) > 1 else np.zeros(shape)
        drawn = np.empty(shape)
        for number, part in enumerate(self.components):
            latent, own = part.latent, which == number
            noise = rng.standard_normal((n_samples, *latent.mean.shape))
            f = latent.mean + np.sqrt(latent.variance + part.nugget) * noise
            drawn[own] = part.likelihood.sample(f, rng, self.size)[own]
        return drawn

    def _ask(self, part: Component, function: Callable[..., Any], *given: Any) -> Any:
        """Call a function of one value per row and of f, nugget included, on blocks of rows and `n_jobs` threads."""
        latent = part.latent
        values = (*given, latent.mean, latent.variance + part.nugget, self.size)
        if part.likelihood.conjugate:  # closed forms, and the noise may be one per row
            return function(*values)
        with executor_for(self.n_jobs) as executor:
            return by_blocks(function, *values, executor=executor)

    def _quantile(self, part: Component, p: float, kind: str) -> np.ndarray:
        likelihood = part.likelihood
        if kind == "observation":
            return self._ask(part, partial(likelihood.predictive_quantile, p))
        latent = part.only_latent("A quantile of f, or of the mean response,")
        f = latent.mean + ndtri(p) * latent.std
        return f if kind == "latent" else likelihood.conditional_mean(f, self.size)

    def _cdf(self, part: Component, y: np.ndarray, kind: str) -> np.ndarray:
        if kind != "observation":
            return ndtr(self._score(part, y, kind))
        lowest, highest = part.likelihood.support(self.size)
        found = self._ask(part, part.likelihood.predictive_cdf, np.clip(y, lowest, highest))
        return np.where(y < lowest, 0.0, np.where(y > highest, 1.0, found))

    def _score(self, part: Component, at: Any, kind: str) -> np.ndarray:
        """Standard deviations of f from its mean to the f at which f, or the mean response, is a value."""
        latent = part.only_latent("A probability of f, or of the mean response,")
        return ((at if kind == "latent" else part.likelihood.latent_of_mean(at, self.size)) - latent.mean) / latent.std

    @cached_property
    def _moments(self) -> tuple[np.ndarray, np.ndarray]:
        return mixed_moments(
            self.weights, [self._ask(part, part.likelihood.response_moments) for part in self.components]
        )

    def _average(self, each: Sequence[np.ndarray]) -> np.ndarray:
        return _average(self.weights, each)

    def _quantile_between(self, p: float, kind: str, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """The quantile of a mixture, which lies between the lowest and the highest of its components'."""
        at = high.copy()

        def value(y: np.ndarray, rows: np.ndarray) -> np.ndarray:
            at[rows] = y
            return self.cdf(at, kind)[rows] - p

        if kind == "observation" and self.components[0].likelihood.discrete:
            return find_between(value, low - 1, high, whole=True)
        # along the way from low to high, so that the units of y do not matter
        zeros, width = np.zeros(len(self)), high - low
        where = find_between(lambda t, rows: value(low[rows] + t * width[rows], rows), zeros, zeros + (width > 0))
        return low + where * width

    def _targets(self, y: Any) -> np.ndarray:
        """Observations as the likelihood can have them."""
        y = np.asarray(y, float)
        if y.shape != (len(self),):
            raise InvalidInputError(f"X has {len(self)} rows, but y has shape {y.shape}.")
        bad = np.flatnonzero(~np.isfinite(y))
        if len(bad):
            raise InvalidInputError(f"y must be finite, but is {y[bad[0]]} in row {bad[0]}.", rows=bad)
        return self.components[0].likelihood.check_targets(y, self.size)


def mixed_moments(weights: np.ndarray, each: Sequence[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of a mixture: the mean of the variances, and the variance of the means."""
    if len(each) == 1:
        return each[0]
    mean = _average(weights, [own for own, _ in each])
    return mean, _average(weights, [variance + (own - mean) ** 2 for own, variance in each])


def _average(weights: np.ndarray, each: Sequence[np.ndarray]) -> np.ndarray:
    """The sum over components of weights times values."""
    return each[0] if len(each) == 1 else np.einsum("m,m...->...", weights, np.stack(each))


def _check_kind(kind: str) -> None:
    if kind not in KINDS:
        raise unknown_option("`kind`", kind, KINDS)
