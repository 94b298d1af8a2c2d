"""The record of a selection: what was tried, what was chosen, why it stopped, and how it ended in a word."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import numpy as np

from knotwise.errors import InvalidInputError
from knotwise.numerics.tabular import html_table, make_frame


@dataclass(frozen=True)
class Facts:
    """What plots, progress and tables must know of an action; none of it holds for a selector's own word."""

    compares_with_null: bool = False  # the evidence of the step is a gain over a model without inputs
    compares_kernels: bool = False  # the evidence of the step is that of a kernel which may not be the one taken
    begins_placement: bool = False  # earlier knots served to find parameters; from here on the final ones are placed
    orders_knots: bool = False  # knots are in the order in which they were added
    rejects: bool = False  # one more knot was tried, and is not in the model


NEUTRAL = Facts()


class Action(StrEnum):
    """What a step of a selection did; a member is its word, as text, and has `facts` for those who show it.

    Examples
    --------
    >>> from knotwise.knots import Action
    >>> Action.ADD == "add", Action.REJECT.facts.rejects
    (True, True)
    """

    facts: Facts

    def __new__(cls, word: str, facts: Facts = NEUTRAL) -> Action:
        member = str.__new__(cls, word)
        member._value_ = word
        member.facts = facts
        return member

    LIKELIHOOD = "likelihood", Facts(compares_kernels=True)  # laws of counts were compared on some rows
    WARP = "warp", Facts(compares_kernels=True)  # warps of columns were compared on some rows
    KERNEL = "kernel", Facts(compares_kernels=True)  # a kernel was tried on some rows
    SIGNAL = "signal", Facts(compares_with_null=True)  # is there anything to learn?
    PARAMETERS = "parameters"  # parameters were fitted
    REFINE = "refine"  # the same on all rows, from those of a subset
    LACK_OF_FIT = "lack of fit"  # residuals of neighbours agree: parameters were looked for on the rows there
    REACTIVATE = "reactivate"  # inactive inputs were tried again, from shorter length-scales
    TERMS = "terms"  # terms of a sum that had vanished were asked for
    NOISE = "noise"  # was noise that varies with the inputs tried, or taken?
    NEIGHBORS = "neighbors", Facts(compares_kernels=True)  # knots and neighbours were tried on some rows
    REFIT = "refit"  # parameters were fitted to knots that are too few
    START = "start", Facts(begins_placement=True)  # the first of the final knots
    INITIAL = "initial"  # the knots from which others are added one at a time
    ADD = "add", Facts(orders_knots=True)  # one more knot
    REJECT = "reject", Facts(rejects=True)  # one more knot, which did not pay
    MOVE = "move", Facts(orders_knots=True)  # knots were moved; more may come
    CHOOSE = "choose", Facts(orders_knots=True)  # knots by the largest conditional variance
    PRUNE = "prune"  # knots were dropped
    GAPS = "gaps"  # more knots were asked for by validation rows in gaps and beyond
    EVERY_PLACE = "every place"  # a knot at each place where there are rows
    EVERY_ROW = "every row"  # the rows are so few that each is a knot
    FINAL = "final"  # the result, on all rows
    AVERAGE = "average"  # other kernels were kept, over which predictions are averaged

    __repr__ = str.__repr__


def known_action(word: str) -> Action | str:
    """The action of a word, or the word itself where it is a selector's own."""
    if not isinstance(word, str):
        raise InvalidInputError(f"The action of a step is {word!r}; it must be an `Action` or a word of your own.")
    try:
        return Action(word)
    except ValueError:
        return word


class Status(StrEnum):
    """How a fit ended, in a word; a member is its word, as text.

    Only "limit reached", "hyperparameters not converged" and "not converged" ask for something to be done.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise import GPRegressor
    >>> X = np.linspace(0, 1, 24)[:, None]
    >>> gp = GPRegressor(knots=5, random_state=0).fit(X, np.sin(6 * X[:, 0]))
    >>> gp.status_, gp.status_ == "converged", gp.status_.is_good
    ('converged', True, True)
    """

    CONVERGED = "converged"  # parameters and knots are what was looked for
    AS_GIVEN = "as given"  # nothing was optimised
    NO_SIGNAL = "no signal"  # the inputs say nothing about the targets that chance could not
    SEVERAL_EXPLANATIONS = "several explanations"  # other hyperparameters of a sum are as likely, and predict otherwise
    LITTLE_INFORMATION = "little information"  # few events, or equal targets: predictions rest on the prior
    LIMIT_REACHED = "limit reached"  # more knots are needed than were allowed
    HYPERPARAMETERS_NOT_CONVERGED = "hyperparameters not converged"  # parameters still moved with every choice of knots
    NOT_CONVERGED = "not converged"  # the optimiser, or the inference at its end, did not converge

    __repr__ = str.__repr__

    @property
    def is_good(self) -> bool:
        """Whether the fit is what it should be; else there is a warning."""
        return self not in (Status.LIMIT_REACHED, Status.HYPERPARAMETERS_NOT_CONVERGED, Status.NOT_CONVERGED)


@dataclass(frozen=True)
class KnotStep:
    """One step of a selection: the action in a word, what it left, and why.

    Attributes
    ----------
    action : Action or str
        What was done; or the own word of a selector that is not knotwise's, which is shown and has no `facts`.
    n_knots : int
        Knots after the step.
    evidence : float
        Log evidence after the step, of the rows that it saw; for the action "signal" the gain over a model without
        inputs.
    seconds : float
        Since the beginning of the selection.
    n_rows : int, float or None
        How many rows the step saw, with their sample weights; None for all of them.
    n_tried : int
        How many knots were tried for it.
    chosen : array [D] or None
        The knot that was taken.
    gain : float
        What it gained in log evidence; NaN where the step does not tell.
    share : float
        Unexplained share of the variance, a mean over rows; NaN where the step does not tell.
    residual_information : float
        The same in nats per row; NaN where the step does not tell.
    theta : array [P] or None
        Parameters after the step, with logarithms of positive ones; of a fitted `trace_` as `parameters_` has them.
    note : str
        The reason, in words.
    inference : str
        Of which inference the evidence is.
    tried : array [T, D] or None
        All knots that were tried.

    Examples
    --------
    >>> from knotwise.knots import KnotStep
    >>> step = KnotStep("add", n_knots=6, evidence=-12.0, seconds=0.1)
    >>> step.facts.orders_knots, step.evidence_in_units(n_rows=10, shift=-1.0)
    (True, -22.0)
    """

    action: Action | str
    n_knots: int
    evidence: float
    seconds: float
    n_rows: int | float | None = None  # how many the step saw, with their sample weights; None for all of them
    n_tried: int = 0
    chosen: np.ndarray | None = None
    gain: float = np.nan
    share: float = np.nan
    residual_information: float = np.nan
    theta: np.ndarray | None = None
    note: str = ""
    inference: str = ""
    tried: np.ndarray | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "action", known_action(self.action))

    @property
    def facts(self) -> Facts:
        """What the action means to those who show the step."""
        return self.action.facts if isinstance(self.action, Action) else NEUTRAL

    def evidence_in_units(self, n_rows: int | float, shift: float) -> float:
        """The log evidence in other units of y.

        Parameters
        ----------
        n_rows : int or float
            Rows of the data, for a step that saw all of them.
        shift : float
            By how much the log density of one row changes.

        Returns
        -------
        float
            The log evidence there; a gain stays as it is.
        """
        return self.evidence + (0.0 if self.facts.compares_with_null else shift * (self.n_rows or n_rows))


class KnotTrace:
    """The steps of a selection in order, and the reason of its stop in words.

    It is a sequence of `KnotStep`; printed, it is a table.

    Parameters
    ----------
    listener : function, optional
        Called with each step as it is added.
    inference : str, default ""
        Of which inference the evidence of a step is, if the step names no other.
    steps : sequence of KnotStep, default ()
        Steps of an earlier search, with which it begins.

    Examples
    --------
    >>> from knotwise.knots import Action, KnotTrace
    >>> trace = KnotTrace()
    >>> step = trace.add(Action.ADD, n_knots=6, evidence=-12.0, gain=1.5, note="best of 5 rows")
    >>> len(trace), trace[0].gain
    (1, 1.5)
    >>> trace.in_units(10, -1.0, lambda Z: Z)[0].evidence
    -22.0
    >>> trace.to_frame()[["action", "n_knots", "evidence"]].values.tolist()
    [['add', 6, -12.0]]
    """

    def __init__(
        self, listener: Callable[[KnotStep], None] | None = None, inference: str = "", steps: Sequence[KnotStep] = ()
    ) -> None:
        self.steps = list(steps)  # begins with those of an earlier search
        self.inference = inference  # of which the evidence of a step is, if the step names no other
        self.stop_reason = ""
        self.listener = listener  # called with each step
        self._started = time.perf_counter() - (self.steps[-1].seconds if self.steps else 0.0)

    def add(self, action: Action | str, n_knots: int, evidence: float, **details: Any) -> KnotStep:
        """Record a step; seconds count from the beginning of the selection.

        Parameters
        ----------
        action : Action or str
            What was done, or a word of your own.
        n_knots : int
            Knots after the step.
        evidence : float
            Log evidence after the step.
        **details : dict
            Further attributes of the `KnotStep`, such as `gain`, `share` and `note`.

        Returns
        -------
        KnotStep
            The step, which is now the last.
        """
        details = {"inference": self.inference} | details
        step = KnotStep(action, n_knots, float(evidence), time.perf_counter() - self._started, **details)
        self.steps.append(step)
        if self.listener is not None:
            self.listener(step)
        return step

    def apart(self) -> KnotTrace:
        """An empty trace for a search that runs beside others; `join` takes its steps.

        Returns
        -------
        KnotTrace
            Without a listener; its seconds count from the beginning of this one.

        Examples
        --------
        >>> from knotwise.knots import KnotTrace
        >>> len(KnotTrace().apart())
        0
        """
        new = KnotTrace(inference=self.inference)
        new._started = self._started
        return new

    def join(self, other: KnotTrace) -> None:
        """Record the steps of a trace that was apart.

        Parameters
        ----------
        other : KnotTrace
            As from `apart`.

        Examples
        --------
        >>> from knotwise.knots import KnotTrace
        >>> trace = KnotTrace()
        >>> other = trace.apart()
        >>> step = other.add("kernel", n_knots=0, evidence=-12.0)
        >>> trace.join(other)
        >>> trace[0].evidence
        -12.0
        """
        for step in other:
            self.steps.append(step)
            if self.listener is not None:
                self.listener(step)

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[KnotStep]:
        return iter(self.steps)

    def __getitem__(self, i: int) -> KnotStep:
        return self.steps[i]

    def in_units(
        self,
        n_rows: int | float,
        shift: float,
        knots: Callable[[np.ndarray], np.ndarray],
        parameters: Callable[[np.ndarray], np.ndarray | None] = np.array,
    ) -> KnotTrace:
        """The same trace with log evidences, knots and parameters in other units; gains stay.

        Parameters
        ----------
        n_rows : int or float
            Rows of the data, for steps that saw all of them.
        shift : float
            By how much the log density of one row changes.
        knots : function
            From knots in these units to those in the others.
        parameters : function, optional
            From theta in these units to that in the others, or None; by default it stays.

        Returns
        -------
        KnotTrace
            A new one.
        """
        new = KnotTrace()
        new.stop_reason = self.stop_reason
        new.steps = [
            replace(
                step,
                evidence=step.evidence_in_units(n_rows, shift),
                chosen=None if step.chosen is None else knots(step.chosen),
                tried=None if step.tried is None else knots(step.tried),
                theta=None if step.theta is None else parameters(step.theta),
            )
            for step in self.steps
        ]
        return new

    def to_frame(self) -> Any:
        """The steps as a pandas DataFrame.

        Returns
        -------
        DataFrame
            One row for each step: `action`, `n_knots`, `evidence`, `gain`, `share`, `residual_information`, `n_tried`,
            `seconds`, `inference` and `note`.
        """
        columns = [
            "action",
            "n_knots",
            "evidence",
            "gain",
            "share",
            "residual_information",
            "n_tried",
            "seconds",
            "inference",
            "note",
        ]
        rows = [{**{name: getattr(step, name) for name in columns}, "action": str(step.action)} for step in self.steps]
        return make_frame(rows, columns)

    def __str__(self) -> str:
        # for Gaussian data there is one inference only
        names = [step.inference for step in self.steps if step.inference != "conjugate"]
        width = max((len(name) for name in names), default=0)
        by = f"  {'by':<{width}}" if width else ""
        lines = [f"{'step':>4}  {'action':<12} {'knots':>5} {'log evidence':>13} {'share':>7} {'seconds':>8}{by}  note"]
        for i, step in enumerate(self.steps):
            share = "" if np.isnan(step.share) else f"{step.share:.3f}"
            by = f"  {step.inference:<{width}}" if width else ""
            lines.append(
                f"{i:>4}  {step.action:<12} {step.n_knots:>5} {step.evidence:>13.3f} {share:>7} {step.seconds:>8.2f}"
                f"{by}  {step.note}".rstrip()
            )
        return "\n".join([*lines, f"stopped: {self.stop_reason}"])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """The table of a notebook, with the reason of the stop below it."""
        heads = ("step", "action", "knots", "log evidence", "share", "seconds", "by", "note")
        rows = [
            (i, str(step.action), step.n_knots, step.evidence, step.share, step.seconds, step.inference, step.note)
            for i, step in enumerate(self.steps)
        ]
        return html_table(heads, rows, remark=f"stopped: {self.stop_reason}")
