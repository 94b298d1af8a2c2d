"""One-at-a-time (OAT) knot selection: Algorithm 1 of the paper."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from knotwise.checkpoint.journal import are_alike
from knotwise.errors import InvalidInputError, KnotwiseError, unknown_option
from knotwise.evidence import Jitter
from knotwise.evidence.scores import NEARLY_EXACT
from knotwise.numerics.linalg import LARGEST_JITTER
from knotwise.optimize.adadelta import Adadelta
from knotwise.optimize.base import Optimizer, OptimizeResult
from knotwise.selection.base import Selection, Selector, Stage
from knotwise.selection.bayesopt import BayesOpt
from knotwise.selection.initial import Initial
from knotwise.selection.problem import Problem
from knotwise.selection.proposals import (
    GrowthState,
    LargestShare,
    Proposal,
    Proposed,
    RandomSubset,
    check_at_least,
    distinct_row_numbers,
)
from knotwise.selection.starts import SUBSET_ROWS, starting_theta, without_inputs
from knotwise.selection.trace import Action, Status

#: prior variance of f, relative to that of an observation, below which a fit is noise alone
SMALLEST_SIGNAL = 1e-3
ALL_NOISE = "the parameters explain everything as noise: try `hold_until=0.5`, or more and wider initial knots"
WORSE_THAN_FLAT = (
    "at the parameters of an exact GP so few knots make the data less likely than no inputs do, so parameters were "
    "fitted to the knots"
)


@dataclass
class OneAtATime(Selector):
    """Add knots one by one, each optimised with the parameters, until one more brings nothing (the paper's OAT).

    From a few initial knots on, a proposal chooses a row of the data as one more knot, the knot is optimised while
    older knots stay, and it is kept if the log evidence gains more than the tolerance. The parameters begin as those of
    an exact GP on some rows. They are held there while the knots leave much unexplained, since few knots explain the
    data best as noise, or with too long a length-scale; then they are optimised together with each knot. A knot that
    gains little ends the search only if the knots leave little unexplained. `OneAtATime.paper()` has the paper's
    settings, in which parameters are free from the first knot on. Where the estimator has `optimizer=None`, parameters
    stay as given and knots where they are proposed.

    Parameters
    ----------
    initial : name, array [K, D] or function, default "kmeans"
        The first knots: "kmeans", "grid", "random", "kmeans-per-class", or an array in the units of the inputs.
    n_initial : int, default 5
        Number of first knots, where `initial` is not an array.
    max_knots : int, default 50
        Stop at so many.
    proposal : Proposal, optional
        `BayesOpt()` by default; `RandomSubset`, `EvidenceGain`, `ResidualVariance`, or your own.
    tolerance : float, default 0.001
        A knot must gain more than this, in nats of log evidence. With `-np.inf` every knot is kept.
    patience : int, default 0
        Further proposals after a rejected one, before stopping.
    optimize_initial : bool, default False
        Move the first knots too, together with the parameters, before growth.
    move_new : bool, default True
        Move each new knot from the row where it was proposed.
    share : float, optional
        Stop as well when the unexplained share, mean(c / v), falls below this: at the right parameters the latent
        AUKL to the exact GP is then about 0.58 share^2. The gain per knot cannot tell how much is still missing.
    residual_information : float, optional
        Stop as well when the residual information, in nats per row, falls below this.
    hold_until : float, "auto" or None, default 0.18
        Hold the parameters at their start until the unexplained share falls below this, and optimise them from then
        on. Few knots are explained best by noise alone (a kernel variance of 0) or by a length-scale that is too long,
        from which no single knot leads back. "auto" is 0.5 for powers below 1 and None for FIC; None is Algorithm 1 as
        it stands.
    optimizer : Optimizer, optional
        Instead of the estimator's.
    start_rows : int, default 1000
        The parameters start at those of an exact GP on so many rows at most, drawn at random. O(start_rows^3).
    unexplained : float or None, default 0.18
        While the unexplained share is larger than this, go on: where no proposal gains more than the tolerance, the row
        with the largest share becomes a knot. Parameters that are held when `max_knots` is reached stay as they are.
        A fit in which nothing but noise is found goes by the gain alone, and so does every fit with None.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise import GPRegressor
    >>> from knotwise.knots import EvidenceGain, OneAtATime
    >>> X = np.linspace(0, 1, 80)[:, None]
    >>> y = np.sin(9 * X[:, 0]) + 0.1 * np.cos(211 * X[:, 0])
    >>> gp = GPRegressor(knots=OneAtATime(proposal=EvidenceGain(), max_knots=4, n_initial=3), random_state=0).fit(X, y)
    >>> gp.stop_reason_.split(";")[0]
    'reached max_knots=4'
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
    hold_until: float | str | None = NEARLY_EXACT
    optimizer: Optimizer | None = None
    start_rows: int = 1000
    unexplained: float | None = NEARLY_EXACT

    def __post_init__(self) -> None:
        check_at_least(self.n_initial, "n_initial", 1)
        check_at_least(self.max_knots, "max_knots", 1)
        check_at_least(self.patience, "patience", 0)
        check_at_least(self.start_rows, "start_rows", 1)
        if self.unexplained is not None and not 0 <= self.unexplained <= 1:
            raise InvalidInputError(f"`unexplained` is {self.unexplained!r}; it must be a number from 0 to 1, or None.")
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
        """The algorithm with the paper's settings, optimised by Adadelta.

        Parameters
        ----------
        proposal : "bo" or "rs", default "bo"
            OAT-BO, Bayesian optimisation over the rows; or OAT-RS, the best of some random rows.
        t_max : int, default 25
            Evaluations of the evidence for each knot.
        t_min : int, default 10
            How many of them are at random rows, for "bo".
        max_knots : int, default 50
            Stop at so many knots.
        n_initial : int, default 5
            Number of first knots.
        initial : name, array [K, D] or function, default "kmeans"
            The first knots: "kmeans", "grid", "random", "kmeans-per-class", or an array in the units of the inputs.
        tolerance : float, default 0.001
            A knot must gain more than this, in nats of log evidence.

        Returns
        -------
        OneAtATime
            The selector with these settings.

        Examples
        --------
        >>> from knotwise.knots import OneAtATime
        >>> OneAtATime.paper("rs", t_max=5).proposal
        RandomSubset(n_candidates=5)
        """
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
            start_rows=SUBSET_ROWS,
            unexplained=None,
            optimizer=Adadelta(epsilon=1e-4, value_tolerance=1e-3, max_iterations=1000),
        )

    def select(self, problem: Problem, rng: np.random.Generator) -> Selection:
        if problem.optimizer is not None and self.optimizer is not None:
            problem = replace(problem, optimizer=self.optimizer)
        growth = Growth(self, problem, rng)
        while not growth.trace.stop_reason:
            growth.trace.stop_reason = growth.why_enough() or growth.add_knot()
        more_are_needed = growth.too_few
        growth.finish()
        trace = growth.trace
        selection = problem.selection(growth.stage, trace.stop_reason, trace, failed_restarts=growth.failed_restarts)
        if not more_are_needed or len(selection.Z) < self.max_knots:
            return selection
        advice = f"Write `OneAtATime(max_knots={2 * self.max_knots})`, or let `knots='auto'` choose."
        return replace(selection, status=Status.LIMIT_REACHED, advice=advice)


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
        self.stage = first.optimize(starting_theta(problem, rng, settings.start_rows), Z, rng, move=move)
        self.failed_restarts = self.stage.failed_restarts
        self.problem = replace(first, n_restarts=0)  # restarts are for the parameters, and they know their region now
        self.rows = distinct_row_numbers(problem, rng)
        self.n_distinct = len(self.rows)
        for z in self.stage.Z:
            self._strike(z)
        self._enter(Action.INITIAL)

    def release(self, *, even_if_noise: bool = False) -> None:
        """Optimise the parameters that were held so far, with the knots reached; from now on they are free.

        Parameters that would explain everything as noise stay held, if nothing else is said.
        """
        assert self.stage.jitter is not None
        problem = replace(self.released, jitter=self.stage.jitter.relative)
        stage = problem.optimize(self.stage.theta, self.stage.Z, self.rng)
        self.failed_restarts, self.held = stage.failed_restarts, False
        if not even_if_noise and self._loses_signal(stage):
            self._enter(Action.PARAMETERS, gain=0.0, note="held for good: with these knots all would be noise")
            return
        gain = stage.value - self.stage.value
        if gain >= 0:
            self.stage = stage
        self.problem = replace(self.released, n_restarts=0)
        self._enter(Action.PARAMETERS, gain=max(gain, 0.0))

    def finish(self) -> None:
        """Release parameters that are still held, unless too few knots would spoil them.

        Without noise, all that too few knots leave open contradicts the data. So parameters with which the knots make
        the data less likely than no inputs do are fitted to the knots all the same.
        """
        if not self.held:
            return
        if not self.too_few:
            self.release()
        elif self._are_less_likely_than_no_inputs():
            self.release(even_if_noise=True)
            self.trace.stop_reason += f"; {WORSE_THAN_FLAT}"
        else:
            rows = min(self.settings.start_rows, self.problem.summary.n_rows)
            self.trace.stop_reason += f"; parameters stay at their start, an exact GP on {rows:,} rows"

    def _are_less_likely_than_no_inputs(self) -> bool:
        plain = replace(self.released, n_restarts=0)
        try:
            return without_inputs(plain, self.stage.theta, self.stage.Z[:1], self.rng).value > self.stage.value
        except KnotwiseError:
            return False

    @property
    def too_few(self) -> bool:
        """Whether the knots leave so much unexplained that there should be more, whatever they gain."""
        limit = self.settings.unexplained
        return limit is not None and self.scores.share > limit and not self._all_noise()

    def why_enough(self) -> str:
        """The reason to add no further knot, empty if there is none."""
        settings, n_knots, scores = self.settings, len(self.stage.Z), self.scores
        if n_knots >= settings.max_knots:
            return f"reached max_knots={settings.max_knots}{self._what_is_left() if self.too_few else ''}"
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
        if self.too_few and self._add_widest():
            return ""
        if self.held:  # not the last word: it was said at the starting parameters
            self.release()
            return ""
        return self._why_rejected(gains)

    def _add_widest(self) -> bool:
        """Make the row with the largest unexplained share a knot, there, whatever it gains; False where that fails."""
        state = GrowthState(self.problem, self.stage.point, self.stage.value, self.rows)
        proposed = self._ask(state, LargestShare(), "widest row")
        if not np.isfinite(proposed.value):
            return False
        here = state.with_knot(proposed.z)
        self.stage = Stage(here, replace(self.stage.result, value=proposed.value, parameters=here.theta))
        self._strike(proposed.z)
        self._enter(
            Action.ADD,
            n_tried=len(proposed.values),
            chosen=proposed.z,
            gain=proposed.value - state.value,
            tried=proposed.tried,
            note=f"{proposed.note}: kept, since the knots leave more than {self.settings.unexplained:g}",
        )
        return True

    def _propose(self, state: GrowthState) -> tuple[GrowthState, Proposed]:
        """The proposal, and the state before it: under a larger jitter only where no proposal could be evaluated."""
        proposed = self._ask(state, self.proposal)
        while not np.isfinite(proposed.value) and self.problem.jitter is None:
            jitter = Jitter(10 * state.jitter.relative, state.jitter.points)
            if jitter.relative > LARGEST_JITTER * 1.01:
                break
            point = replace(state.point, jitter=jitter)
            value = self.problem.evaluate(point, gradient=False).value
            state = replace(state, point=point, value=value)
            proposed = self._ask(state, self.proposal)
        return state, proposed

    def _ask(self, state: GrowthState, proposal: Proposal, name: str = "proposal") -> Proposed:
        inputs = (name, state.point, state.value, state.rows)
        row = state.candidates[0]
        return self.problem.memoize(
            inputs,
            lambda: proposal.propose(state, self.rng),
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
        if self._all_noise():
            return f"{reason}; {ALL_NOISE}"
        return reason if self.settings.unexplained is None else f"{reason}{self._what_is_left()}"

    def _what_is_left(self) -> str:
        """The unexplained share in words."""
        left = f"; the knots leave an unexplained share of {self.scores.share:.3g}"
        if not self.too_few:
            return left
        return f"{left}, above unexplained={self.settings.unexplained:g}, so that more are needed"

    def _all_noise(self) -> bool:
        """Whether the prior variance of f is nothing against the noise, so that no knot can matter."""
        return self.scores.signal < SMALLEST_SIGNAL

    def _loses_signal(self, stage: Stage) -> bool:
        """Whether a stage explains everything as noise, and the one reached does not."""
        if self.settings.unexplained is None or self._all_noise():
            return False
        return self.problem.scores(stage.point).signal < SMALLEST_SIGNAL

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
