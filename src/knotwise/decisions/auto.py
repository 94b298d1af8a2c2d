"""Knots that choose themselves: fit big, keep small.

Two jobs, kept apart. *Parameters* come from FIC with many knots that sit on rows and never move, or from the exact GP
where that is cheaper: such knots do not overfit, and they leave the evidence nothing to gain from inflating a
length-scale. *Knots* are then few, moved by VFE at these parameters, until the unexplained share says that the sparse
posterior is the full one.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from knotwise.decisions.hyperparameters import (
    MANY_KNOTS,
    Settled,
    exact_is_cheaper,
    many_knots,
    most_exact_rows,
    refine,
    settle,
)
from knotwise.decisions.inactive_inputs import WAKING_GAIN, wake
from knotwise.decisions.lack_of_fit import FewRows, look_again
from knotwise.decisions.neighbours import Nearby
from knotwise.decisions.placement import ENDS, Moved, are_needed_at_most, place
from knotwise.decisions.pruning import prune
from knotwise.decisions.rule import TARGETS, Rule
from knotwise.decisions.signal import find_signal, threshold
from knotwise.errors import InvalidInputError, KnotwiseError, unknown_option
from knotwise.evidence import Rows
from knotwise.optimize.base import projected_norm
from knotwise.selection.base import FittedAt, Selection, Selector, Stage
from knotwise.selection.problem import Problem
from knotwise.selection.proposals import check_at_least
from knotwise.selection.starts import starting_theta, without_inputs
from knotwise.selection.trace import KnotTrace, Status

__all__ = ["Auto"]

DEFAULT_CAP, BIG_CAP, SMALLEST_CAP = 300, 400, 100
AFFORDABLE = 1e9  # rows times squared knots that one look at the rows may cost, where more than 300 knots are needed
NO_SIGNAL_KNOTS = 5
FEW_ROWS = 20  # up to here a knot on every row is the exact GP, and costs nothing
JUDGING_ROWS = 1000  # whose exact GP says which parameters are better, where values through knots do not compare
FAR_FROM_EXACT = 10.0  # nats of evidence by which knots, to which rounding lets none be added, may fall short
SELECTION_ROWS = 5000  # rows on which parameters and knots are found before all rows are seen


@dataclass
class Auto(Selector):
    """Choose the number and the places of the knots, and the parameters with them.

    The estimator's `optimizer` and `n_restarts` serve wherever parameters are fitted to data: with many knots on rows,
    then on all rows if those were a subset, or with few knots where there is no signal. L-BFGS with its default
    settings is stopped earlier there, as is enough; `converged_` says how the last of these optimisations ended. Two
    jobs keep an L-BFGS of a few steps: the search for signal on some rows, and the moves of knots at fixed parameters.
    With `optimizer=None` parameters stay as given, and knots are chosen for them.

    Parameters
    ----------
    max_knots : int, optional
        Limit of the number of knots. By default 300, or more where the rows are so few that they can be afforded; and
        where more than a third of up to 3,000 rows would be needed (1,000 of data that are not Gaussian), the exact GP
        is taken instead. Reaching a limit is said in `stop_reason_`, and is a warning.
    share : float, optional
        How much the knots may leave unexplained, as a mean over rows: 0.18 for the target "latent", 0.01 for
        "observation". For "latent" the average divergence from the exact GP is about 0.6 share^2 nats per row for
        knots on rows, and less for knots that were moved.
    tolerance : float, default 0.01
        Knots whose removal costs less log evidence than this (nats) are dropped, as long as the others are enough.
    target : "latent" or "observation", optional
        What the knots must be enough for. "latent": the function itself, prior variance left by the knots over
        posterior variance. "observation": new observations, prior variance left by the knots over the variance of an
        observation. By default "latent" up to 5,000 rows; with more rows the function is known so well that ever more
        knots would be asked for, and the target is "observation".

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise import GPRegressor
    >>> from knotwise.kernels import SquaredExponential
    >>> from knotwise.knots import Auto
    >>> X = np.linspace(0, 1, 40)[:, None]
    >>> y = np.sin(9 * X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=40)
    >>> GPRegressor(SquaredExponential(), knots=Auto(max_knots=20), random_state=0).fit(X, y).status_
    'converged'
    """

    max_knots: int | None = None
    share: float | None = None
    tolerance: float = 0.01
    target: str | None = None

    def __post_init__(self) -> None:
        if self.max_knots is not None:
            check_at_least(self.max_knots, "max_knots", 1)
        for name, value, low, high in (("share", self.share, 0.0, 1.0), ("tolerance", self.tolerance, 0.0, np.inf)):
            if value is not None and not low <= value <= high:
                raise InvalidInputError(f"`{name}` is {value!r}; it must be a number from {low:g} to {high:g}.")
        if self.target is not None and self.target not in TARGETS:
            raise unknown_option("`target`", self.target, TARGETS)

    def select(self, problem: Problem, rng: np.random.Generator) -> Selection:
        trace = problem.new_trace()
        if problem.summary.n_rows <= FEW_ROWS and not problem.n_neighbors:
            return self._every_row(problem, rng, trace)
        small, theta = problem, problem.table.theta
        if problem.optimizer is not None:
            signal = find_signal(problem, rng, trace)
            theta = signal.theta
            if not signal.found and not problem.n_neighbors:
                selection, theta = self._without_signal(problem, theta, rng, trace, signal.note)
                if selection is not None:
                    return selection
        if problem.optimizer is None or not signal.weak:  # a weak signal needs all rows, and few knots
            small = _subset(problem, SELECTION_ROWS, rng)
        pool = small.take(small.sample(SELECTION_ROWS, rng))
        rule, cap = self._rule(problem), self._cap(small, big=True)
        near = Nearby(problem, rng, trace, max_knots=self.max_knots) if self._may_have_neighbours(problem) else None
        if near is not None:
            Z, too_few = many_knots(small, pool, theta, rule, cap)
            selection = near.select(theta, Z, too_few=too_few)
            if selection is not None:
                return selection
        settled = settle(small, pool, theta, rng, trace, cap=cap, rule=rule, exact_at_cap=self._may_be_exact(problem))
        if problem.optimizer is not None:
            settled = self._look_again(small, pool, settled, rng, trace, rule)
        if self._wants_exact(problem, settled, rule):
            return self._exact(problem, settled, trace)
        is_subset = small.summary.n_rows < problem.summary.n_rows
        if is_subset and problem.optimizer is not None:
            settled = refine(problem, settled, rng, trace)
        theta = settled.theta
        # whatever power predicts, the knots are chosen under VFE: under FIC a knot can seem to harm
        few, all_rows = (replace(p.anew(), model=p.model.with_power(0.0), n_restarts=0) for p in (small, problem))
        moved = place(few, pool, settled, rule, trace)
        if self._may_be_exact(problem) and self._are_too_few(problem, all_rows, theta, moved):
            return self._exact(problem, settled, trace)
        if is_subset:
            moved = place(all_rows, pool, replace(settled, Z=moved.Z), rule, trace, first=moved.Z, iterations=8)
        must_hold = rule if moved.ended == "enough" else None
        kept, share = prune(all_rows, theta, moved.Z, self.tolerance, trace, must_hold), moved.share
        if len(kept) < len(moved.Z):
            share = rule.share_of(all_rows.scores(all_rows.point(theta, kept)))
        stage = Stage(problem.point(theta, kept), settled.stage.result, settled.failed_restarts)
        at = settled.stage.point if settled.exact else problem.point(theta, settled.Z)
        fitted: FittedAt | None = FittedAt(at, power=1.0, full=settled.exact)
        end = self._end(problem, len(kept), share, moved, settled, rule)
        if moved.ended != "enough" and problem.optimizer is not None:
            stage, note = self._more_likely(problem, stage, rng, trace)
            if note:
                share = rule.share_of(all_rows.scores(all_rows.point(stage.theta, stage.Z)))
                reason = (
                    f"at the parameters of many, {end.reason}; {note}, with which they leave a share of {share:.3f}"
                )
                end, fitted = replace(end, reason=reason), None
        if near is not None:
            too_few = end.status is Status.LIMIT_REACHED
            selection = near.select(stage.theta, stage.Z, too_few=too_few, fitted=True)
            if selection is not None:
                return selection
        return replace(self._finish(problem, stage, trace, end, share), fitted=fitted)

    def _cap(self, problem: Problem, *, big: bool = False) -> int:
        """Largest number of knots: of those that are kept, or of the many on rows that settle the parameters."""
        n = problem.summary.n_rows
        if self.max_knots:
            return min(n, self.max_knots)
        affordable = max(int(np.sqrt(AFFORDABLE / n)), BIG_CAP if big else DEFAULT_CAP)
        return max(min(n // 2 if big else n // 3, affordable), min(n, SMALLEST_CAP))

    def _rule(self, problem: Problem) -> Rule:
        """When knots are enough, for these rows."""
        target = self.target or ("latent" if problem.summary.n_rows <= SELECTION_ROWS else "observation")
        return Rule.of(target, self.share, self._cap(problem))

    def _look_again(
        self, problem: Problem, pool: Rows, settled: Settled, rng: np.random.Generator, trace: KnotTrace, rule: Rule
    ) -> Settled:
        """The best of several fits, where residuals, or columns that seem not to matter, ask for another one."""

        def better(start: np.ndarray | None, least: float = 0.0) -> Settled:
            if start is None:
                return settled
            cap, may_be_exact = self._cap(problem, big=True), self._may_be_exact(problem)
            least += _value(settled.stage)
            other = settle(problem, pool, start, rng, trace, cap=cap, rule=rule, exact_at_cap=may_be_exact, above=least)
            if not _value(other.stage) > least:
                return settled
            return other if _compare(other, settled) or self._is_likelier(problem, pool, other, settled) else settled

        with suppress(KnotwiseError):
            settled = better(look_again(problem, pool, settled.theta, settled.Z, rng, trace))
        with suppress(KnotwiseError):
            settled = better(wake(problem, pool, settled, rng, trace), WAKING_GAIN)
        return settled

    @staticmethod
    def _is_likelier(problem: Problem, pool: Rows, other: Settled, settled: Settled) -> bool:
        """Whether some rows are more likely at the parameters of another fit, by the exact GP."""
        rng = np.random.default_rng(0)
        some = FewRows.of(problem, pool, rng.permutation(len(pool))[:JUDGING_ROWS], rng)
        return some.value(other.theta) > some.value(settled.theta)

    def _may_have_neighbours(self, problem: Problem) -> bool:
        """Whether near rows may predict what knots leave: if asked for, or of more rows than the exact GP serves."""
        if problem.n_neighbors is None:
            return problem.summary.n_rows > most_exact_rows(problem) and self.max_knots is None
        return problem.n_neighbors > 0

    # -- the exact GP where it is better ------------------------------------------------------------

    def _may_be_exact(self, problem: Problem) -> bool:
        return problem.may_be_exact and self.max_knots is None and exact_is_cheaper(problem, problem.summary.n_rows)

    def _wants_exact(self, problem: Problem, settled: Settled, rule: Rule) -> bool:
        """Whether the knots would be so many that the exact GP is the better answer, as far as knots on rows tell."""
        n_rows = problem.summary.n_rows
        if not self._may_be_exact(problem) or not (settled.exact or len(settled.Z) > MANY_KNOTS * n_rows):
            return False  # with fewer knots on rows next to nothing is left
        vfe = replace(problem.anew(), model=problem.model.with_power(0.0))
        return not are_needed_at_most(vfe, settled, rule, int(MANY_KNOTS * n_rows))

    @staticmethod
    def _are_too_few(problem: Problem, vfe: Problem, theta: np.ndarray, moved: Moved) -> bool:
        """Whether moved knots are not enough. Where only rounding kept from adding some, the exact GP is asked."""
        if moved.ended != "rounding":
            return moved.ended in ("limit", "rounds")
        exact = replace(problem.anew(), full=True)
        none = np.empty((0, problem.summary.n_columns))
        try:
            value = exact.evaluate(exact.point(theta, none), gradient=False).value
            return value > vfe.evaluate(vfe.point(theta, moved.Z), gradient=False).value + FAR_FROM_EXACT
        except KnotwiseError:
            return False

    def _exact(self, problem: Problem, settled: Settled, trace: KnotTrace) -> Selection:
        n_rows = problem.summary.n_rows
        exact = replace(problem.anew(), full=True)
        stage = replace(settled.stage, point=exact.point(settled.theta, np.empty((0, problem.summary.n_columns))))
        if not settled.exact:
            stage = exact.optimize(stage.theta, stage.Z, np.random.default_rng(0))
        reason = f"exact GP, since more than {int(MANY_KNOTS * n_rows)} knots would be needed for {n_rows} rows"
        trace.stop_reason = reason
        selection = exact.selection(stage, reason, trace, failed_restarts=settled.failed_restarts)
        trace.add("final", 0, selection.evidence.value, theta=stage.theta, note="all rows")
        return selection

    # -- ends -------------------------------------------------------------------------------------

    def _every_row(self, problem: Problem, rng: np.random.Generator, trace: KnotTrace) -> Selection:
        Z, what, limited = problem.distinct(FEW_ROWS), "on the rows, which are few", False
        if self.max_knots is not None and self.max_knots < len(Z):
            what, limited = f"for {len(Z)} different rows; the limit of {self.max_knots} knots was reached", True
            advice = f"Write `knots=Auto(max_knots={len(Z)})`."
            Z = problem.initial_knots("kmeans", self.max_knots, rng)
        stage = problem.optimize(starting_theta(problem, rng), Z, rng)
        reason = f"{len(Z)} knots {what}"
        trace.add("every row", len(Z), problem.log_evidence(stage), theta=stage.theta, note=stage.result.reason)
        trace.stop_reason = reason
        selection = problem.selection(stage, reason, trace)
        return replace(selection, status=Status.LIMIT_REACHED, advice=advice) if limited else selection

    def _without_signal(
        self, problem: Problem, theta: np.ndarray, rng: np.random.Generator, trace: KnotTrace, note: str
    ) -> tuple[Selection | None, np.ndarray]:
        """A handful of knots, which hold the mean and its uncertainty; none where they explain the data after all."""
        best = self._handful(problem, theta, rng)
        gain = self._gain_of(problem, best, rng)
        if gain > threshold(problem):
            note = f"{gain:.1f} nats of evidence on all rows through {len(best.Z)} knots"
            trace.add("signal", len(best.Z), gain, theta=best.theta, note=note)
            return None, best.theta
        reason = f"no signal found: {note}; {len(best.Z)} knots kept"
        return self._finish(problem, best, trace, End(reason, Status.NO_SIGNAL)), best.theta

    def _gain_of(self, problem: Problem, stage: Stage, rng: np.random.Generator) -> float:
        """Nats of evidence of a fit above the model without inputs, by the same inference and knots."""
        plain = replace(problem.anew(), n_restarts=0)
        try:
            null = without_inputs(plain, stage.theta, stage.Z, rng)
            return plain.log_evidence(stage) - plain.log_evidence(null)
        except KnotwiseError:
            return 0.0

    def _handful(self, problem: Problem, theta: np.ndarray, rng: np.random.Generator) -> Stage:
        """A handful of knots, and the better of two fits of the parameters: from the start, and from theta."""
        Z = problem.initial_knots("kmeans", min(NO_SIGNAL_KNOTS, self._cap(problem)), rng)
        plain = problem.anew()
        stages: list[Stage] = []
        for start in (problem.table.theta, theta):
            try:
                stages.append(plain.optimize(start, Z, rng))
            except KnotwiseError:
                if start is theta and not stages:
                    raise
        return max(stages, key=_value)

    def _more_likely(
        self, problem: Problem, stage: Stage, rng: np.random.Generator, trace: KnotTrace
    ) -> tuple[Stage, str]:
        """Knots that are too few, at the parameters of many; or a better fit, where one without inputs would be better.

        Without noise, all that too few knots leave open contradicts the data, at a cost without limit. Parameters that
        are fitted to these knots call it noise. Returns a note for the reason too, empty where nothing changes.
        """
        theta, Z, plain = stage.theta, stage.Z, problem.anew()
        value = plain.evaluate(stage.point, gradient=False).value
        try:
            if value >= plain.log_evidence(without_inputs(replace(plain, n_restarts=0), theta, Z[:1], rng)):
                return stage, ""
            best = max(plain.optimize(theta, Z, rng), self._handful(problem, theta, rng), key=_value)
        except KnotwiseError:  # nothing else can be fitted
            return stage, ""
        why = "make the data less likely than no inputs do"
        note = f"at the parameters of many, {len(Z)} knots {why}"
        trace.add("refit", len(best.Z), plain.log_evidence(best), theta=best.theta, note=note)
        return best, f"there they {why}, so parameters were fitted to {len(best.Z)} knots"

    def _end(self, problem: Problem, n_knots: int, share: float, moved: Moved, settled: Settled, rule: Rule) -> End:
        """Why so many knots, in words, and how good that is."""
        reason = f"{n_knots} knots leave a share of {share:.3f} of the {rule.variance} unexplained"
        enough = moved.ended == "enough" or share < rule.share
        if share >= rule.share:
            reason += ", enough for the function itself" if enough else f", above the {rule.share:g} wanted"
        if settled.too_few or (moved.ended == "limit" and not enough):
            cap = rule.cap
            reason += f"; the limit of {cap} knots was reached and more are needed"
            advice = f"Write `knots=Auto(max_knots={2 * cap})`"
            advice += ", or `approximation='full'`." if problem.summary.n_rows <= 2500 else "."
            return End(reason, Status.LIMIT_REACHED, advice)
        if not enough:
            reason += ENDS.get(moved.ended, "")
        if settled.moving:
            reason += "; parameters still moved with every choice of knots"
            return End(reason, Status.NOT_SETTLED, "Try `n_restarts=2`, or give a start in the kernel.")
        if moved.ended == "rounds" and not enough:
            return End(reason, Status.LIMIT_REACHED, f"Ask for a number of knots: `knots={rule.cap}`.")
        return End(reason)

    def _finish(self, problem: Problem, stage: Stage, trace: KnotTrace, end: End, share: float = np.nan) -> Selection:
        """The selection, with the evidence of all rows; whether it converged is what the last optimisation said."""
        point, free = problem.point(stage.theta, stage.Z), problem.free
        evidence = problem.evaluate(point)
        assert evidence.gradient is not None
        trace.stop_reason = reason = end.reason
        trace.add("final", len(point.Z), evidence.value, share=share, theta=point.theta, note="all rows")
        gradient = evidence.gradient + problem.table.log_prior(point.theta)[1]
        norm = projected_norm(point.theta[free], gradient[free], problem.table.theta_bounds[free])
        result = replace(
            stage.result,
            value=evidence.value,
            parameters=point.theta,
            gradient_norm=np.nan if problem.optimizer is None else norm,
        )
        return Selection(
            point, evidence, result, reason, stage.failed_restarts, trace, status=end.status, advice=end.advice
        )


@dataclass(frozen=True)
class End:
    """Why a selection ended, what that means, and what to write where something is to be done."""

    reason: str
    status: Status | None = None
    advice: str = ""


def _value(stage: Stage) -> float:
    return stage.value


def _compare(one: Settled, other: Settled) -> bool:
    """Whether two values are of one model: FIC with too few knots has a larger one than the exact GP."""
    return one.exact == other.exact and not one.too_few and not other.too_few


def _subset(problem: Problem, n_rows: int, rng: np.random.Generator) -> Problem:
    """The problem on a random subset of its rows, where it has more."""
    if problem.summary.n_rows <= n_rows:
        return problem
    return problem.on_rows(problem.take(problem.sample(n_rows, rng)))
