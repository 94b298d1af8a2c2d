"""Knots that choose themselves: fit big, keep small.

Two jobs, kept apart. *Parameters* come from FIC with many knots that sit on rows and never move, or from the exact GP
where that is cheaper: such knots do not overfit, and they leave the evidence nothing to gain from inflating a
length-scale. *Knots* are then few, moved by VFE at these parameters, until the unexplained share says that the sparse
posterior is the full one.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from knotwise.decisions import (
    enough,
    gap_knots,
    hyperparameters,
    inactive_inputs,
    lack_of_fit,
    placement,
    pruning,
    signal,
    vanished,
)
from knotwise.decisions.enough import Rule
from knotwise.decisions.hyperparameters import exact_is_cheaper, many_knots, most_exact_rows, refine
from knotwise.decisions.neighbours import Nearby
from knotwise.decisions.thresholds import AUTO, HYPERPARAMETERS, INACTIVE_INPUTS, LACK_OF_FIT, TARGETS, VANISHED
from knotwise.decisions.trials import Candidate, Trial
from knotwise.errors import InvalidInputError, KnotwiseError, unknown_option
from knotwise.evidence import Rows
from knotwise.optimize.base import projected_norm
from knotwise.selection.base import Decision, FittedAt, Selection, Selector, Stage
from knotwise.selection.problem import Problem
from knotwise.selection.proposals import check_at_least
from knotwise.selection.starts import starting_theta, without_inputs
from knotwise.selection.trace import KnotTrace, Status


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
        "observation", divided by the root of the number of terms of a sum, of which a weak one may be what is left. For
        "latent" the average divergence from the exact GP is about 0.6 share^2 nats per row for knots on rows, and less
        for knots that were moved.
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
    tolerance: float = AUTO.tolerance
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
        if problem.summary.n_rows <= AUTO.few_rows and not problem.n_neighbors:
            return self._every_row(problem, rng, trace)
        small, theta, learns = problem, problem.table.theta, problem.optimizer is not None
        if learns:
            found = signal.decide(problem, rng, trace)
            theta = found.choice
            if not signal.is_found(found) and not problem.n_neighbors:
                selection, theta = self._without_signal(problem, theta, rng, trace, found.why)
                if selection is not None:
                    return selection
        if not learns or not signal.is_weak(found):  # a weak signal needs all rows, and few knots
            small = _subset(problem, AUTO.selection_rows, rng)
        pool = small.take(small.sample(AUTO.selection_rows, rng))
        rule, cap = self._rule(problem), self._cap(small, big=True)
        near = Nearby(problem, rng, trace, max_knots=self.max_knots) if self._may_have_neighbours(problem) else None
        if near is not None:
            Z, too_few = many_knots(small, pool, theta, rule, cap)
            selection = near.decide(theta, Z, too_few=too_few).choice
            if selection is not None:
                return selection
        limits: dict[str, Any] = {"cap": cap, "rule": rule, "exact_at_cap": self._may_be_exact(problem)}
        best = hyperparameters.decide(small, pool, theta, rng, trace, **limits).choice
        if learns:
            best = self._checked(small, pool, best, rng, trace, limits)
        if self._wants_exact(problem, best, rule):
            return self._exact(problem, best, trace)
        is_subset = small.summary.n_rows < problem.summary.n_rows
        if is_subset and learns:
            best = refine(problem, best, rng, trace)
        theta = best.theta
        # whatever power predicts, the knots are chosen under VFE: under FIC a knot can seem to harm
        few, all_rows = (replace(p.anew(), model=p.model.with_power(0.0), n_restarts=0) for p in (small, problem))
        try:
            placed = placement.decide(few, theta, placement.first_knots(few, pool, theta, rule, trace), rule, trace)
        except KnotwiseError:  # few knots contradict the data so much that nothing can be computed
            placed = placement.decide(few.anew(), theta, best.knots, rule, trace)
        ended, Z = placed.choice.ended, placed.choice.knots
        if self._may_be_exact(problem) and self._are_too_few(problem, all_rows, theta, ended, Z):
            return self._exact(problem, best, trace)
        if is_subset:
            placed = placement.on_all_rows(all_rows, theta, Z, rule, trace)
        ended, Z, share = placed.choice.ended, placed.choice.knots, placed.numbers["share"]
        kept = pruning.decide(all_rows, theta, Z, self.tolerance, trace, rule if ended == "enough" else None).choice
        if len(kept) < len(Z):
            share = rule.share_of(all_rows.scores(all_rows.point(theta, kept)))
        is_exact = best.ended == "exact"
        others = best.stage.others if is_exact and not is_subset else ()
        stage = Stage(problem.point(theta, kept), best.stage.result, best.failed_restarts, others=others)
        at = best.stage.point if is_exact else problem.point(theta, best.knots)
        fitted: FittedAt | None = FittedAt(at, power=1.0, full=is_exact)
        end = enough.decide(
            rule, len(kept), share, ended=ended, hyperparameters=best.ended, n_rows=problem.summary.n_rows
        )
        if ended != "enough" and learns:
            stage, note = self._more_likely(problem, stage, rng, trace)
            if note:
                share = rule.share_of(all_rows.scores(all_rows.point(stage.theta, stage.Z)))
                why = f"at the parameters of many, {end.why}; {note}, with which they leave a share of {share:.3f}"
                end, fitted = replace(end, why=why), None
        if near is not None:
            too_few = end.choice is Status.LIMIT_REACHED
            selection = near.decide(stage.theta, stage.Z, too_few=too_few, fitted=True).choice
            if selection is not None:
                return selection
            if end.choice is None and self.share is None and problem.model.likelihood.conjugate:
                stage, end, share = self._enough_in_gaps(problem, stage, rng, trace, end, share)
        return replace(self._finish(problem, stage, trace, end, share), fitted=fitted)

    def _enough_in_gaps(
        self,
        problem: Problem,
        stage: Stage,
        rng: np.random.Generator,
        trace: KnotTrace,
        end: Decision[Status | None],
        share: float,
    ) -> tuple[Stage, Decision[Status | None], float]:
        """The knots that are enough at the rows, or more of them where validation rows ask for them."""
        asked = gap_knots.decide(problem, stage.theta, stage.Z, self._cap(problem), rng, trace)
        if len(asked.choice) == len(stage.Z):
            return stage, end, share
        vfe = replace(problem.anew(), model=problem.model.with_power(0.0))
        point = problem.point(stage.theta, asked.choice)
        share = self._rule(problem).share_of(vfe.scores(point))
        why = f"{len(stage.Z)} knots would be enough at the rows, but {asked.why}"
        return replace(stage, point=point), replace(end, why=why), share

    def _cap(self, problem: Problem, *, big: bool = False) -> int:
        """Largest number of knots: of those that are kept, or of the many on rows that find the hyperparameters."""
        n = problem.summary.n_rows
        if self.max_knots:
            return min(n, self.max_knots)
        affordable = max(int(np.sqrt(AUTO.affordable / n)), AUTO.big_cap if big else AUTO.cap)
        return max(
            min(n // (AUTO.rows_per_big_knot if big else AUTO.rows_per_knot), affordable), min(n, AUTO.smallest_cap)
        )

    def _rule(self, problem: Problem) -> Rule:
        """When knots are enough, for these rows."""
        target = self.target or ("latent" if problem.summary.n_rows <= AUTO.selection_rows else "observation")
        share, n_terms = self.share, problem.model.kernel.n_terms
        if share is None and n_terms > 1:  # a weak term may be all of what is left
            share = TARGETS[target].share / np.sqrt(n_terms)
        return Rule.of(target, share, self._cap(problem))

    def _checked(
        self,
        problem: Problem,
        pool: Rows,
        best: Candidate,
        rng: np.random.Generator,
        trace: KnotTrace,
        limits: dict[str, Any],
    ) -> Candidate:
        """The best of several fits, where lack of fit, inactive inputs or lost terms ask for another one."""
        limits = limits | {"exact_at_cap": self._may_be_exact(problem)}
        others = (vanished.decide, VANISHED.gain), (inactive_inputs.decide, INACTIVE_INPUTS.gain)
        for decide, gain in ((lack_of_fit.decide, 0.0), *others):
            with suppress(KnotwiseError):
                start, least = decide(problem, pool, best, rng, trace).choice, best.stage.value + gain
                if start is None:
                    continue
                other = hyperparameters.decide(problem, pool, start, rng, trace, above=least, **limits).choice
                if other.stage.value > least and (_compare(other, best) or _is_likelier(problem, pool, other, best)):
                    best = other
        return best

    def _may_have_neighbours(self, problem: Problem) -> bool:
        """Whether Vecchia neighbours may be taken: if asked for, or of more rows than the exact GP serves."""
        if problem.n_neighbors is None:
            return problem.summary.n_rows > most_exact_rows(problem) and self.max_knots is None
        return problem.n_neighbors > 0

    # -- the exact GP where it is better ------------------------------------------------------------

    def _may_be_exact(self, problem: Problem) -> bool:
        return problem.may_be_exact and self.max_knots is None and exact_is_cheaper(problem, problem.summary.n_rows)

    def _wants_exact(self, problem: Problem, best: Candidate, rule: Rule) -> bool:
        """Whether the knots would be so many that the exact GP is the better answer, as far as knots on rows tell."""
        most = HYPERPARAMETERS.exact_share * problem.summary.n_rows
        if not self._may_be_exact(problem) or not (best.ended == "exact" or len(best.knots) > most):
            return False  # with fewer knots on rows next to nothing is left
        vfe = replace(problem.anew(), model=problem.model.with_power(0.0))
        return not placement.are_needed_at_most(vfe, best.theta, rule, int(most))

    @staticmethod
    def _are_too_few(problem: Problem, vfe: Problem, theta: np.ndarray, ended: str, Z: np.ndarray) -> bool:
        """Whether moved knots are not enough. Where only rounding kept from adding some, the exact GP is asked."""
        if ended != "rounding":
            return ended in ("limit", "rounds")
        exact = replace(problem.anew(), full=True)
        none = np.empty((0, problem.summary.n_columns))
        try:
            value = exact.evaluate(exact.point(theta, none), gradient=False).value
            return value > vfe.evaluate(vfe.point(theta, Z), gradient=False).value + AUTO.far_from_exact
        except KnotwiseError:
            return False

    def _exact(self, problem: Problem, best: Candidate, trace: KnotTrace) -> Selection:
        n_rows = problem.summary.n_rows
        exact = replace(problem.anew(), full=True)
        stage = replace(best.stage, point=exact.point(best.theta, np.empty((0, problem.summary.n_columns))))
        if best.ended != "exact":
            stage = exact.optimize(stage.theta, stage.Z, np.random.default_rng(0))
        most = int(HYPERPARAMETERS.exact_share * n_rows)
        trace.stop_reason = reason = f"exact GP, since more than {most} knots would be needed for {n_rows} rows"
        selection = exact.selection(stage, reason, trace, failed_restarts=best.failed_restarts)
        trace.add("final", 0, selection.evidence.value, theta=stage.theta, note="all rows")
        return selection

    # -- ends -------------------------------------------------------------------------------------

    def _every_row(self, problem: Problem, rng: np.random.Generator, trace: KnotTrace) -> Selection:
        Z, what, limited = problem.distinct(AUTO.few_rows), "on the rows, which are few", False
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
        if gain > signal.threshold(problem):
            note = f"log Bayes factor {gain:.1f} against no signal on all rows through {len(best.Z)} knots"
            trace.add("signal", len(best.Z), gain, theta=best.theta, note=note)
            return None, best.theta
        reason = f"no signal found: {note}; {len(best.Z)} knots kept"
        return self._finish(problem, best, trace, Decision(Status.NO_SIGNAL, reason)), best.theta

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
        Z = problem.initial_knots("kmeans", min(AUTO.no_signal_knots, self._cap(problem)), rng)
        plain = problem.anew()
        stages: list[Stage] = []
        for start in (problem.table.theta, theta):
            try:
                stages.append(plain.optimize(start, Z, rng))
            except KnotwiseError:
                if start is theta and not stages:
                    raise
        return max(stages, key=lambda stage: stage.value)

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
            best = max(plain.optimize(theta, Z, rng), self._handful(problem, theta, rng), key=lambda stage: stage.value)
        except KnotwiseError:  # nothing else can be fitted
            return stage, ""
        why = "make the data less likely than no inputs do"
        note = f"at the parameters of many, {len(Z)} knots {why}"
        trace.add("refit", len(best.Z), plain.log_evidence(best), theta=best.theta, note=note)
        return best, f"there they {why}, so parameters were fitted to {len(best.Z)} knots"

    def _finish(
        self, problem: Problem, stage: Stage, trace: KnotTrace, end: Decision[Status | None], share: float = np.nan
    ) -> Selection:
        """The selection, with the evidence of all rows; whether it converged is what the last optimisation said."""
        point, free = problem.point(stage.theta, stage.Z), problem.free
        evidence = problem.evaluate(point)
        assert evidence.gradient is not None
        trace.stop_reason = reason = end.why
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
            point,
            evidence,
            result,
            reason,
            stage.failed_restarts,
            trace,
            status=end.choice,
            advice=end.advice,
            others=stage.others,
        )


def _compare(one: Candidate, other: Candidate) -> bool:
    """Whether two values are of one model: FIC with too few knots has a larger one than the exact GP."""
    few = "too few" in (one.ended, other.ended)
    return (one.ended == "exact") == (other.ended == "exact") and not few


def _is_likelier(problem: Problem, pool: Rows, one: Candidate, other: Candidate) -> bool:
    """Whether some rows are more likely at the hyperparameters of one fit than of another, by the exact GP."""
    rng = np.random.default_rng(0)
    some = Trial.among(problem, pool, rng.permutation(len(pool))[: AUTO.judging_rows], rng, KnotTrace())
    exact = some.exact(problem, LACK_OF_FIT.search)
    return some.value(exact, one.theta) > some.value(exact, other.theta)


def _subset(problem: Problem, n_rows: int, rng: np.random.Generator) -> Problem:
    """The problem on a random subset of its rows, where it has more."""
    if problem.summary.n_rows <= n_rows:
        return problem
    return problem.on_rows(problem.take(problem.sample(n_rows, rng)))
