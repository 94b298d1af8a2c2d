"""What selectors and decisions give: the end of an optimisation, a choice with its reason, the selection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import numpy as np

from knotwise.evidence import Evidence, Jitter, Point
from knotwise.optimize.base import OptimizeResult
from knotwise.selection.trace import KnotStep, KnotTrace, Status

if TYPE_CHECKING:
    from knotwise.selection.problem import Problem

Choice = TypeVar("Choice")


@dataclass(frozen=True)
class Decision(Generic[Choice]):
    """What was decided: the choice, why in the words of trace and summary, and the numbers behind it.

    `advice` is what a user may write where the choice is not a good one.
    """

    choice: Choice
    why: str
    numbers: Mapping[str, float] = field(default_factory=dict)
    advice: str = ""


class AtPoint:
    """Something that ended at a point."""

    point: Point

    @property
    def theta(self) -> np.ndarray:
        """Parameters at the point, [P], in the engine's units."""
        return self.point.theta

    @property
    def Z(self) -> np.ndarray:
        """Knots at the point, [K, D], in the engine's units."""
        return self.point.Z

    @property
    def jitter(self) -> Jitter | None:
        """Jitter at the point; None for the exact GP."""
        return self.point.jitter


@dataclass(frozen=True)
class Stage(AtPoint):
    """One optimisation: where it ended, and how.

    Attributes
    ----------
    point : Point
        Parameters, knots and jitter at the end.
    result : OptimizeResult
        The objective there, the number of evaluations, and why it ended.
    failed_restarts : int
        Starts whose evidence could not be computed.
    note : str
        How the parameters were found, where there is something to say.
    others : sequence of Stage
        Ends of other starts, nearly as high, where the kernel is a sum.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise import GPRegressor
    >>> class TwoStages:
    ...     def select(self, problem, rng):
    ...         held = problem.optimize(problem.table.theta, problem.rows.X[::5], rng)
    ...         moved = problem.optimize(held.theta, held.Z, rng, move=np.ones(len(held.Z), bool))
    ...         return problem.selection(moved, f"better: {moved.value >= held.value}")
    >>> X = np.linspace(0, 1, 24)[:, None]
    >>> GPRegressor(knots=TwoStages(), random_state=0).fit(X, np.sin(6 * X[:, 0])).stop_reason_
    'better: True'
    """

    point: Point
    result: OptimizeResult
    failed_restarts: int = 0
    note: str = ""  # how the parameters were found, where there is something to say
    others: Sequence[Stage] = field(default=(), repr=False)  # ends of other starts, nearly as high, of a sum

    @property
    def value(self) -> float:
        """The objective at the end."""
        return self.result.value


@dataclass(frozen=True)
class FittedAt(AtPoint):
    """Where parameters were fitted, if not at the selection's own end.

    Standard errors are those of this objective.

    Attributes
    ----------
    point : Point
        Parameters, knots and jitter at which they were fitted.
    power : float
        Power of the approximation there.
    full : bool
        Whether it was by the exact GP.
    problem : Problem or None
        Whose rows they were fitted to; None for all rows of the problem that was given.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise.evidence import Point
    >>> from knotwise.knots import FittedAt
    >>> FittedAt(Point(np.zeros(3), np.zeros((2, 1)), None), power=0.0).Z.shape
    (2, 1)
    """

    point: Point
    power: float
    full: bool = False
    problem: Problem | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Selection(AtPoint):
    """What a selector decided: parameters, knots and jitter, the evidence there, and the reason in words.

    `Problem.selection` makes one from the last stage.

    Attributes
    ----------
    point : Point
        Parameters, knots and jitter.
    evidence : Evidence
        The evidence there, with the state that a posterior is made of.
    result : OptimizeResult
        How the last optimisation ended.
    reason : str
        Why so many knots, in words.
    failed_restarts : int
        Starts whose evidence could not be computed.
    trace : KnotTrace
        The steps on the way.
    knots_as_given : array [K, D] or None
        The user's own array of knots, in the user's units.
    status : Status or None
        How it ended in a word; None is what the optimiser says.
    advice : str
        What to write where something is to be done.
    fitted : FittedAt or None
        Where the parameters were fitted; None is here, by the problem's own model.
    problem : Problem or None
        The one that was solved, where a selector has taken another model or other rows than it was given.
    order : array or None
        Which rows of the problem that was given those of `problem` are; None is the same order.
    others : sequence of Stage
        Ends of other starts, nearly as high, where the kernel is a sum.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise import GPRegressor
    >>> from knotwise.knots import Fixed
    >>> class Remember(Fixed):
    ...     def select(self, problem, rng):
    ...         self.last = super().select(problem, rng)
    ...         return self.last
    >>> knots = Remember(n_knots=4)
    >>> X = np.linspace(0, 1, 24)[:, None]
    >>> gp = GPRegressor(knots=knots, random_state=0).fit(X, np.sin(6 * X[:, 0]))
    >>> knots.last.Z.shape, knots.last.reason == gp.stop_reason_
    ((4, 1), True)
    """

    point: Point
    evidence: Evidence = field(repr=False)
    result: OptimizeResult
    reason: str
    failed_restarts: int = 0
    trace: KnotTrace = field(default_factory=KnotTrace)
    knots_as_given: np.ndarray | None = None  # the user's own array, in the user's units
    status: Status | None = None  # None: what the optimiser says
    advice: str = ""  # what to write where something is to be done
    fitted: FittedAt | None = None
    problem: Problem | None = field(default=None, repr=False)
    order: np.ndarray | None = field(default=None, repr=False)
    others: Sequence[Stage] = field(default=(), repr=False)


class Observer(Protocol):
    """An observer of a fit."""

    def tick(self, n_knots: int, value: float, n_rows: int | float) -> None:
        """The evidence was evaluated, with so many knots, on so many rows."""
        ...

    def step(self, step: KnotStep) -> None:
        """A step of the selection was recorded."""
        ...


class Selector(Protocol):
    """Anything that chooses knots for a problem; the `knots` of an estimator may be an object of one's own.

    `knotwise.testing.check_selector` tests one.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise import GPRegressor
    >>> class EveryFifthRow:
    ...     def select(self, problem, rng):
    ...         stage = problem.optimize(problem.table.theta, problem.rows.X[::5], rng)
    ...         return problem.selection(stage, "every fifth row")
    >>> X = np.linspace(0, 1, 24)[:, None]
    >>> gp = GPRegressor(knots=EveryFifthRow(), random_state=0).fit(X, np.sin(6 * X[:, 0]))
    >>> gp.n_knots_, gp.stop_reason_
    (5, 'every fifth row')
    """

    def select(self, problem: Problem, rng: np.random.Generator) -> Selection:
        """Choose knots, and parameters with them.

        Parameters
        ----------
        problem : Problem
            Model, rows, bounds and optimiser, in the engine's units.
        rng : Generator
            Where all randomness comes from.

        Returns
        -------
        Selection
            Where it ended, with the evidence there and the reason in words; `problem.selection` makes one.
        """
        ...
