"""One-at-a-time (OAT) knot selection: Algorithm 1 of the paper."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from knotwise.checkpoint.journal import are_alike
from knotwise.errors import InvalidInputError, KnotwiseError, unknown_option
from knotwise.evidence import Jitter
from knotwise.knots.actions import Action
from knotwise.knots.bayesopt import BayesOpt
from knotwise.knots.initial import Initial
from knotwise.knots.problem import Problem
from knotwise.knots.proposals import (
    GrowthState,
    Proposal,
    Proposed,
    RandomSubset,
    check_at_least,
    distinct_row_numbers,
)
from knotwise.knots.selection import Selection, Stage
from knotwise.knots.start import starting_theta
from knotwise.numerics.linalg import LARGEST_JITTER
from knotwise.optimize.adadelta import Adadelta
from knotwise.optimize.base import Optimizer, OptimizeResult

__all__ = ["OneAtATime"]

#: prior variance of f, relative to that of an observation, below which a fit is noise alone
SMALLEST_SIGNAL = 1e-3
ALL_NOISE = "the parameters explain everything as noise: try `hold_until=0.5`, or more and wider initial knots"


@dataclass
class OneAtATime:
    """Add knots one by one, each optimised with the parameters, until one more brings nothing (the paper's OAT).

    The parameters are optimised with a few initial knots. Then a proposal chooses a row of the data as one more
    knot; the knot and the parameters are optimised together while older knots stay; and it is kept if the log
    evidence gains more than the tolerance. `OneAtATime.paper()` has the paper's settings. Where the estimator has
    `optimizer=None`, parameters stay as given and knots where they are proposed.

    Parameters
    ----------
    initial : name, array [K, D] or function
        The first knots: "kmeans", "grid", "random", "kmeans-per-class", or an array in the units of the inputs.
    n_initial : int
        Number of first knots, where `initial` is not an array.
    max_knots : int
        Stop at so many.
    proposal : Proposal, optional
        `BayesOpt()` by default; `RandomSubset`, `EvidenceGain`, `ResidualVariance`, or your own.
    tolerance : float
        A knot must gain more than this, in nats of log evidence. With `-np.inf` every knot is kept.
    patience : int
        Further proposals after a rejected one, before stopping.
    optimize_initial : bool
        Move the first knots too, together with the parameters, before growth.
    move_new : bool
        Move each new knot from the row where it was proposed.
    share : float, optional
        Stop as well when the unexplained share, mean(c / v), falls below this: at the right parameters the latent
        AUKL to the exact GP is then about 0.58 share^2. The gain per knot cannot tell how much is still missing.
    residual_information : float, optional
        Stop as well when the residual information, in nats per row, falls below this.
    hold_until : float, "auto" or None
        Hold the parameters at their start until the unexplained share falls below this, and optimise them from then
        on. Under VFE a few badly placed knots are explained best by noise alone (a kernel variance of 0), from which
        no single knot leads back. "auto" is 0.5 for powers below 1 and None (Algorithm 1 as it stands) for FIC.
    optimizer : Optimizer, optional
        Instead of the estimator's.
    """

    initial: Initial = "kmeans"
    n_initial: int = 5
    max_knots: int = 50
    proposal: Proposal | None = None
    tolerance: float = 1e-3
    patience: int = 0
    optimize_initial: bool = False
    move_new: bool = True
    share: float | None = None
    residual_information: float | None = None
    hold_until: float | str | None = "auto"
    optimizer: Optimizer | None = None

    def __post_init__(self) -> None:
        check_at_least(self.n_initial, "n_initial", 1)
        check_at_least(self.max_knots, "max_knots", 1)
        check_at_least(self.patience, "patience", 0)
        if np.isnan(self.tolerance):
            raise InvalidInputError("`tolerance` is NaN; it must be a gain in log evidence, for example 1e-3.")

    @classmethod
    def paper(
        cls,
        proposal: str = "bo",
        t_max: int = 25,
        t_min: int = 10,
        max_knots: int = 50,
        n_initial: int = 5,
        initial: Initial = "kmeans",
        tolerance: float = 1e-3,
    ) -> OneAtATime:
        """The algorithm with the paper's settings: OAT-BO ("bo") or OAT-RS ("rs"), optimised by Adadelta."""
        proposals: dict[str, Proposal] = {"bo": BayesOpt(min(t_min, t_max), t_max), "rs": RandomSubset(t_max)}
        if proposal not in proposals:
            raise unknown_option("`proposal`", proposal, proposals)
        return cls(
            initial=initial,
            n_initial=n_initial,
            max_knots=max_knots,
            proposal=proposals[proposal],
            tolerance=tolerance,
            hold_until=None,
            optimizer=Adadelta(epsilon=1e-4, value_tolerance=1e-3, max_iterations=1000),
        )

    def select(self, problem: Problem, rng: np.random.Generator) -> Selection:
        if problem.optimizer is not None and self.optimizer is not None:
            problem = replace(problem, optimizer=self.optimizer)
        growth = Growth(self, problem, rng)
        while not growth.trace.stop_reason:
            growth.trace.stop_reason = growth.why_enough() or growth.add_knot()
        if growth.held:
            growth.release()
        trace = growth.trace
        return problem.selection(growth.stage, trace.stop_reason, trace, failed_restarts=growth.failed_restarts)


class Growth:
    """A selection under way: the stage reached, the rows that may become knots, and the trace."""

    def __init__(self, settings: OneAtATime, problem: Problem, rng: np.random.Generator) -> None:
        self.settings, self.trace, self.rng = settings, problem.new_trace(), rng
        self.proposal = settings.proposal or BayesOpt()
        self.released = problem
        hold = settings.hold_until
        self.hold_until = (0.5 if problem.model.power < 1 else 0.0) if hold == "auto" else float(hold or 0.0)
        self.held = self.hold_until > 0 and problem.optimizer is not None
        first = parameters_held(problem) if self.held else problem
        Z = problem.initial_knots(settings.initial, min(settings.n_initial, settings.max_knots), rng)
        move = np.ones(len(Z), bool) if settings.optimize_initial else None
        self.stage = first.optimize(starting_theta(problem, rng), Z, rng, move=move)
        self.failed_restarts = self.stage.failed_restarts
        self.problem = replace(first, n_restarts=0)  # restarts are for the parameters, and they know their region now
        self.rows = distinct_row_numbers(problem, rng)
        self.n_distinct = len(self.rows)
        for z in self.stage.Z:
            self._strike(z)
        self._enter(Action.INITIAL)

    def release(self) -> None:
        """Optimise the parameters that were held so far, with the knots reached; from now on they are free."""
        assert self.stage.jitter is not None
        problem = replace(self.released, jitter=self.stage.jitter.relative)
        stage = problem.optimize(self.stage.theta, self.stage.Z, self.rng)
        gain = stage.value - self.stage.value
        if gain >= 0:
            self.stage = stage
        self.failed_restarts = stage.failed_restarts
        self.held, self.problem = False, replace(self.released, n_restarts=0)
        self._enter(Action.PARAMETERS, gain=max(gain, 0.0))

    def why_enough(self) -> str:
        """The reason to add no further knot, empty if there is none."""
        settings, n_knots, scores = self.settings, len(self.stage.Z), self.scores
        if n_knots >= settings.max_knots:
            return f"reached max_knots={settings.max_knots}"
        if settings.share is not None and scores.share < settings.share:
            return f"the knots leave an unexplained share of {scores.share:.3g}, below share={settings.share:g}"
        limit = settings.residual_information
        if limit is not None and scores.residual_information < limit:
            left = f"{scores.residual_information:.2g} nats per row"
            return f"the knots leave a residual information of {left}, below residual_information={limit:g}"
        if not len(self.rows) or n_knots >= self.n_distinct:
            return f"no rows left: {n_knots} knots for {self.n_distinct} distinct rows"
        return ""

    def add_knot(self) -> str:
        """Propose and optimise one more knot, and keep it if it gains enough; else return the reason to stop."""
        if self.held and self.scores.share < self.hold_until:
            self.release()
        state = GrowthState(self.problem, self.stage.point, self.problem.log_evidence(self.stage), self.rows)
        gains: list[float] = []
        for _ in range(1 + self.settings.patience):
            before, proposed = self._propose(state)
            stage = self._optimize(before, proposed)
            # both under the jitter of `before`, so that the gain is the knot's
            gain = stage.value - self._objective(before, before.value) if np.isfinite(proposed.value) else -np.inf
            gains.append(gain)
            decision = {
                "n_tried": len(proposed.values),
                "chosen": stage.Z[-1],
                "gain": gain,
                "tried": proposed.tried,
                "note": f"{proposed.note}; {stage.result.reason}",
            }
            if gain > self.settings.tolerance:
                self.stage = stage
                self._strike(stage.Z[-1])
                self._enter(Action.ADD, **decision)
                return ""
            self._record(Action.REJECT, **decision)
            state = replace(state, rows=state.rows[(state.candidates != proposed.z).any(1)])
            if not len(state.rows):
                break
        if self.held:  # not the last word: it was said at the starting parameters
            self.release()
            return ""
        return self._why_rejected(gains)

    def _propose(self, state: GrowthState) -> tuple[GrowthState, Proposed]:
        """The proposal, and the state before it: under a larger jitter only where no proposal could be evaluated."""
        proposed = self._ask(state)
        while not np.isfinite(proposed.value) and self.problem.jitter is None:
            jitter = Jitter(10 * state.jitter.relative, state.jitter.points)
            if jitter.relative > LARGEST_JITTER * 1.01:
                break
            point = replace(state.point, jitter=jitter)
            value = self.problem.evaluate(point, gradient=False).value
            state = replace(state, point=point, value=value)
            proposed = self._ask(state)
        return state, proposed

    def _ask(self, state: GrowthState) -> Proposed:
        inputs = ("proposal", state.point, state.value, state.rows)
        row = state.candidates[0]
        return self.problem.recall(
            inputs,
            lambda: self.proposal.propose(state, self.rng),
            (Proposed,),
            self.rng,
            fits=lambda kept: are_alike(kept.z, row) and kept.tried.shape == (*kept.values.shape, len(row)),
        )

    def _optimize(self, state: GrowthState, proposed: Proposed) -> Stage:
        """Optimise the new knot and the parameters; older knots stay, and so does the jitter."""
        here = state.with_knot(proposed.z)
        move = np.zeros(len(here.Z), bool)
        move[-1] = self.settings.move_new
        problem = replace(self.problem, jitter=state.jitter.relative)
        value = self._objective(state, proposed.value)
        unmoved = OptimizeResult(
            value, here.theta, 1, np.nan, False, "nothing better than the proposal found", np.empty(0)
        )
        if np.isfinite(proposed.value):
            try:
                stage = problem.optimize(here.theta, here.Z, self.rng, move=move)
            except KnotwiseError as error:
                unmoved = replace(unmoved, reason=str(error))
            else:
                if stage.value >= value:
                    return stage
        return Stage(here, unmoved)

    def _objective(self, state: GrowthState, evidence: float) -> float:
        """What optimisers see where a state, or a proposal at its parameters, has this log evidence."""
        return evidence + self.problem.table.log_prior(state.point.theta)[0]

    def _why_rejected(self, gains: list[float]) -> str:
        best = max(gains)
        if best == -np.inf:
            return "the evidence with one more knot could not be computed for any row that was tried"
        subject = "one more knot" if len(gains) == 1 else f"the best of {len(gains)} proposals of one more knot"
        verb = "gains" if best >= 0 else "loses"
        reason = f"{subject} {verb} {abs(best):.2g} nats, below the tolerance {self.settings.tolerance:g}"
        return f"{reason}; {ALL_NOISE}" if self._all_noise() else reason

    def _all_noise(self) -> bool:
        """Whether the prior variance of f is nothing against the noise, so that no knot can matter."""
        return self.scores.signal < SMALLEST_SIGNAL

    # -- bookkeeping ----------------------------------------------------------------------------

    def _strike(self, z: np.ndarray) -> None:
        """Take a knot from the rows that may become one."""
        self.rows = self.rows[(z != self.problem.take(self.rows).X).any(1)]

    def _enter(self, action: Action, **details: Any) -> None:
        """Score and record the stage that has been reached."""
        self.scores = self.problem.scores(self.stage.point)
        self._record(action, **{"note": self.stage.result.reason, **details})

    def _record(self, action: Action, **details: Any) -> None:
        """Record a step; after a rejected knot the model is what it was."""
        stage, scores = self.stage, self.scores
        self.trace.add(
            action,
            len(stage.Z),
            self.problem.log_evidence(stage),
            share=scores.share,
            residual_information=scores.residual_information,
            theta=stage.theta,
            **details,
        )


def parameters_held(problem: Problem) -> Problem:
    """The same problem with every parameter held; knots may move."""
    return replace(problem, table=replace(problem.table, fixed=np.ones(len(problem.table), bool)), n_restarts=0)
