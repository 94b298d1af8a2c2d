"""What selectors take and give: an optimisation's end, the selection, and who follows it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

from knotwise.evidence import Evidence, Jitter, Point
from knotwise.knots.status import Status
from knotwise.knots.trace import KnotStep, KnotTrace
from knotwise.optimize.base import OptimizeResult

if TYPE_CHECKING:
    from knotwise.knots.problem import Problem

__all__ = ["FittedAt", "Selection", "Selector", "Stage", "Watch"]


class AtPoint:
    """Something that ended at a point."""

    point: Point

    @property
    def theta(self) -> np.ndarray:
        return self.point.theta

    @property
    def Z(self) -> np.ndarray:
        return self.point.Z

    @property
    def jitter(self) -> Jitter | None:
        return self.point.jitter


@dataclass(frozen=True)
class Stage(AtPoint):
    """One optimisation: where it ended, and how."""

    point: Point
    result: OptimizeResult
    failed_restarts: int = 0
    note: str = ""  # how the parameters were found, where there is something to say

    @property
    def value(self) -> float:
        """The objective at the end."""
        return self.result.value


@dataclass(frozen=True)
class FittedAt(AtPoint):
    """Where parameters were fitted, if not at the selection's own end: point, power, and whether by the exact GP.

    The rows are all of the problem's, or those of a `problem` of its own, and the inference is the model's. Standard
    errors are those of this objective.
    """

    point: Point
    power: float
    full: bool = False
    problem: Problem | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Selection(AtPoint):
    """What a selector decided: parameters, knots and jitter, the evidence there, and the reason in words.

    `Problem.selection` makes one from the last stage. `fitted` says where the parameters were fitted; None means here,
    by the problem's own model. `problem` is the one that was solved, where a selector has taken another model or other
    rows than those of the problem that it was given, and `order` says which of these its rows are; None means that one,
    and its rows as they are.
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


class Watch(Protocol):
    """Somebody who follows a fit."""

    def tick(self, n_knots: int, value: float, n_rows: int | float) -> None:
        """The evidence was evaluated, with so many knots, on so many rows."""
        ...

    def step(self, step: KnotStep) -> None:
        """A step of the selection was recorded."""
        ...


class Selector(Protocol):
    """Anything that chooses knots for a problem."""

    def select(self, problem: Problem, rng: np.random.Generator) -> Selection: ...
