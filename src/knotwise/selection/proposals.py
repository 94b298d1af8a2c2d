"""Proposals of one more knot: which row of the data would raise the evidence most, at fixed parameters."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from knotwise.errors import InvalidInputError, KnotwiseError
from knotwise.evidence import Jitter, Point, Rows
from knotwise.selection.problem import Problem

#: with more distinct rows than this, a random subset of them are candidates
MAX_CANDIDATES = 20_000


@dataclass(frozen=True)
class GrowthState:
    """A model that may take one more knot: where it is, its log evidence, and the rows to choose from.

    Attributes
    ----------
    problem : Problem
        Model, rows and bounds.
    point : Point
        Parameters, knots and jitter so far.
    value : float
        Log evidence there.
    rows : array of int
        Numbers of the candidate rows of the data: distinct, and none of them a knot.

    Examples
    --------
    A proposal of one's own sees it:

    >>> import numpy as np
    >>> from knotwise import GPRegressor
    >>> from knotwise.knots import OneAtATime, Proposed
    >>> class FirstRow:
    ...     def propose(self, state, rng):
    ...         z = state.candidates[0]
    ...         assert len(state.with_knot(z).Z) == len(state.Z) + 1
    ...         value = state.evaluate(z)
    ...         return Proposed(z, value, z[None], np.array([value]), "the first row that is no knot")
    >>> X = np.linspace(0, 1, 24)[:, None]
    >>> y = np.sin(6 * X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=24)
    >>> gp = GPRegressor(knots=OneAtATime(n_initial=4, max_knots=5, proposal=FirstRow()), random_state=0).fit(X, y)
    >>> gp.n_knots_ in (4, 5)
    True
    """

    problem: Problem
    point: Point
    value: float
    rows: np.ndarray

    @property
    def Z(self) -> np.ndarray:
        """The knots so far, [K, D]."""
        return self.point.Z

    @property
    def jitter(self) -> Jitter:
        """The jitter of the knots so far, which stays."""
        assert self.point.jitter is not None
        return self.point.jitter

    @cached_property
    def candidate_rows(self) -> Rows:
        """The rows to choose from, with their targets."""
        return self.problem.take(self.rows)

    @property
    def candidates(self) -> np.ndarray:
        """The rows to choose from, [M, D]."""
        return self.candidate_rows.X

    def with_knot(self, z: np.ndarray) -> Point:
        """The point with one more knot, parameters and jitter unchanged.

        Parameters
        ----------
        z : array [D]
            The new knot.

        Returns
        -------
        Point
            With K + 1 knots, the new one last.
        """
        return replace(self.point, Z=np.vstack([self.Z, z]))

    def evaluate(self, z: np.ndarray) -> float:
        """Log evidence with one more knot, parameters and jitter unchanged.

        Parameters
        ----------
        z : array [D]
            The new knot.

        Returns
        -------
        float
            NaN where it cannot be computed.
        """
        try:
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                evidence = self.problem.evaluate(self.with_knot(z), gradient=False)
        except (KnotwiseError, ArithmeticError):
            return np.nan
        return evidence.value if evidence.converged and np.isfinite(evidence.value) else np.nan


@dataclass(frozen=True)
class Proposed:
    """A knot that is proposed, and all that was tried.

    Attributes
    ----------
    z : array [D]
        The new knot.
    value : float
        Log evidence with it; -inf where none could be computed.
    tried : array [T, D]
        All knots that were tried.
    values : array [T]
        Log evidence with each; NaN where it could not be computed.
    note : str
        Why this one, in words.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise.knots import Proposed
    >>> Proposed(np.zeros(1), -3.0, np.zeros((1, 1)), np.array([-3.0]), "the only row").note
    'the only row'
    """

    z: np.ndarray
    value: float
    tried: np.ndarray
    values: np.ndarray
    note: str = ""


class Proposal(Protocol):
    """Anything that proposes one more knot; the `proposal` of `OneAtATime` may be an object of one's own.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise import GPRegressor
    >>> from knotwise.knots import EvidenceGain, OneAtATime, RandomSubset
    >>> class Doubtful:
    ...     def propose(self, state, rng):
    ...         best = EvidenceGain().propose(state, rng)
    ...         return best if best.value > state.value else RandomSubset(3).propose(state, rng)
    >>> X = np.linspace(0, 1, 24)[:, None]
    >>> y = np.sin(6 * X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=24)
    >>> gp = GPRegressor(knots=OneAtATime(n_initial=4, max_knots=5, proposal=Doubtful()), random_state=0).fit(X, y)
    >>> gp.n_knots_ in (4, 5)
    True
    """

    def propose(self, state: GrowthState, rng: np.random.Generator) -> Proposed:
        """Propose one more knot.

        Parameters
        ----------
        state : GrowthState
            The model so far, and the rows to choose from, at least one.
        rng : Generator
            Where all randomness comes from.

        Returns
        -------
        Proposed
            The knot, the log evidence with it, and all that was tried.
        """
        ...


def best_of(tried: np.ndarray, values: np.ndarray, note: str) -> Proposed:
    """Propose the tried row with the largest value, the first of equals."""
    known = np.where(np.isfinite(values), values, -np.inf)
    best = int(np.argmax(known))
    return Proposed(tried[best], float(known[best]), tried, values, note)


@dataclass
class RandomSubset(Proposal):
    """Propose the best of some random rows (the paper's RS).

    Parameters
    ----------
    n_candidates : int, default 25
        Number of rows, each of which costs one evaluation of the evidence (the paper's T_max).

    Examples
    --------
    >>> from knotwise import GPRegressor
    >>> from knotwise.knots import OneAtATime, RandomSubset
    >>> gp = GPRegressor(knots=OneAtATime(proposal=RandomSubset(n_candidates=10)))
    """

    n_candidates: int = 25

    def __post_init__(self) -> None:
        check_at_least(self.n_candidates, "n_candidates", 1)

    def propose(self, state: GrowthState, rng: np.random.Generator) -> Proposed:
        n = min(self.n_candidates, len(state.rows))
        tried = state.candidates[rng.choice(len(state.rows), n, replace=False)]
        return best_of(tried, np.array([state.evaluate(z) for z in tried]), f"best of {n} random rows")


@dataclass
class ResidualVariance(Proposal):
    """Propose the row about whose latent value the knots say least: the largest c = k(x, x) - k(x, Z) Kuu^-1 k(Z, x).

    It costs two evaluations of the evidence. The targets matter through the parameters only.

    Parameters
    ----------
    weighted : bool, default False
        Weigh c by the precision W of the row's observation: rows that say nothing of f need no knot.

    Examples
    --------
    >>> from knotwise import GPRegressor
    >>> from knotwise.knots import OneAtATime, ResidualVariance
    >>> gp = GPRegressor(knots=OneAtATime(proposal=ResidualVariance(weighted=True)))
    """

    weighted: bool = False

    def propose(self, state: GrowthState, rng: np.random.Generator) -> Proposed:
        scores = state.problem.row_scores(state.point, state.candidate_rows)
        left = scores.W * scores.c if self.weighted else scores.c
        best = int(np.argmax(left))
        tried = state.candidates[best : best + 1]
        what = "W c" if self.weighted else "residual variance"
        return best_of(tried, np.array([state.evaluate(tried[0])]), f"largest {what}, {left[best]:.3g}")


@dataclass
class LargestShare(Proposal):
    """Propose the row of whose posterior variance the knots leave the largest share unexplained, c / v.

    It costs two evaluations of the evidence. Such a knot lowers the unexplained share, whatever it gains.
    """

    def propose(self, state: GrowthState, rng: np.random.Generator) -> Proposed:
        shares = state.problem.row_scores(state.point, state.candidate_rows).shares
        best = int(np.argmax(shares))
        tried = state.candidates[best : best + 1]
        note = f"largest unexplained share, {shares[best]:.3g}"
        return best_of(tried, np.array([state.evaluate(tried[0])]), note)


@dataclass
class EvidenceGain(Proposal):
    """Propose by the gain in evidence that a rank-one update predicts, confirmed exactly for the best few.

    The prediction is exact for Gaussian data under VFE and orders the rows well elsewhere. O(N K M) for M rows.

    Parameters
    ----------
    n_exact : int, default 5
        Number of rows whose evidence is evaluated.
    max_candidates : int, default 2000
        Predict for at most so many rows, a random sample where there are more.

    Examples
    --------
    >>> from knotwise import GPRegressor
    >>> from knotwise.knots import EvidenceGain, OneAtATime
    >>> gp = GPRegressor(knots=OneAtATime(proposal=EvidenceGain(n_exact=3)))
    """

    n_exact: int = 5
    max_candidates: int = 2000

    def __post_init__(self) -> None:
        check_at_least(self.n_exact, "n_exact", 1)
        check_at_least(self.max_candidates, "max_candidates", 1)

    def propose(self, state: GrowthState, rng: np.random.Generator) -> Proposed:
        candidates = state.candidates
        if len(candidates) > self.max_candidates:
            candidates = candidates[np.sort(rng.choice(len(candidates), self.max_candidates, replace=False))]
        gains = state.problem.gains(state.point, candidates)
        order = np.argsort(-np.where(np.isfinite(gains), gains, -np.inf), kind="stable")[: self.n_exact]
        tried = candidates[order]
        note = f"best of {len(tried)} rows with the largest predicted gains among {len(candidates)}"
        return best_of(tried, np.array([state.evaluate(z) for z in tried]), note)


def distinct_row_numbers(problem: Problem, rng: np.random.Generator, at_most: int = MAX_CANDIDATES) -> np.ndarray:
    """Numbers of rows at different places, in the order of their values; of a random sample where there are many."""
    numbers = problem.sample(at_most, rng)
    _, first = np.unique(problem.take(numbers).X, axis=0, return_index=True)
    return numbers[first]


def check_at_least(value: int, name: str, least: int) -> None:
    """Refuse a count that is not a whole number from `least` up."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InvalidInputError(f"`{name}` is {value!r}; it must be a whole number of at least {least}.")
