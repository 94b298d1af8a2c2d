"""Knots that choose themselves: fit big, keep small.

Two jobs, kept apart. *Parameters* come from FIC with many knots that sit on rows and never move: such knots do not
overfit, and they leave the evidence nothing to gain from inflating a length-scale. *Knots* are then few, moved by
VFE at these parameters, until the unexplained share says that the sparse posterior is the full one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from knotwise.errors import InvalidInputError, KnotwiseError
from knotwise.evidence import Rows
from knotwise.evidence.scores import KnotScores
from knotwise.knots.automatic.prune import prune
from knotwise.knots.automatic.settle import FIRST_SHARE, Settled, first_precisions, grow, refine, settle
from knotwise.knots.automatic.signal import WEAK_KNOTS, find_signal, without_inputs
from knotwise.knots.copies import describe_copies
from knotwise.knots.pivots import Pivots
from knotwise.knots.problem import Problem
from knotwise.knots.proposals import check_at_least
from knotwise.knots.selection import FittedAt, Selection, Stage
from knotwise.knots.start import starting_theta
from knotwise.knots.trace import KnotTrace
from knotwise.optimize.base import projected_norm
from knotwise.optimize.lbfgs import LBFGS

__all__ = ["Auto"]

DEFAULT_CAP, BIG_CAP, SMALLEST_CAP = 300, 400, 100
WIDE_ROWS = 0.01  # share of rows whose unexplained share may exceed `WIDE`
NO_SIGNAL_KNOTS = 5
DOUBTFUL_GAIN = 2.3  # nats: ten to one
FEW_ROWS = 20  # up to here a knot on every row is the exact GP, and costs nothing
ROUNDS = 6  # of moving knots and adding some
SELECTION_ROWS = 5000  # rows on which parameters and knots are found before all rows are seen


@dataclass(frozen=True)
class Moved:
    """Knots that were moved and added to, the share that they leave, and why no more were added.

    `ended` is "enough" (the share is small), "limit" (of the number of knots), "rounding" (nothing is left to explain
    but rounding) or "rounds" (of adding knots).
    """

    Z: np.ndarray
    share: float
    ended: str


@dataclass
class Auto:
    """Choose the number and the places of the knots, and the parameters with them.

    The estimator's `optimizer` and `n_restarts` serve wherever parameters are fitted to data: with many knots on rows,
    then on all rows if those were a subset, or with few knots where there is no signal. L-BFGS with its default
    settings is stopped earlier there, as is enough; `converged_` says how the last of these optimisations ended. Two
    jobs keep an L-BFGS of a few steps: the search for signal on some rows, and the moves of knots at fixed parameters.
    With `optimizer=None` parameters stay as given, and knots are chosen for them.

    Parameters
    ----------
    max_knots : int, optional
        Limit of the number of knots; by default 300 or a third of the rows. Reaching it is said in `stop_reason_`.
    share : float
        The unexplained share, the mean over rows of (prior variance left by the knots) / (posterior variance), below
        which the knots are enough. The average divergence from the exact GP is about 0.6 share^2 nats per row for
        knots on rows, and less for knots that were moved.
    tolerance : float
        Knots whose removal costs less log evidence than this (nats) are dropped.
    """

    max_knots: int | None = None
    share: float = 0.18
    tolerance: float = 0.01

    def __post_init__(self) -> None:
        if self.max_knots is not None:
            check_at_least(self.max_knots, "max_knots", 1)
        for name, value, low, high in (("share", self.share, 0.0, 1.0), ("tolerance", self.tolerance, 0.0, np.inf)):
            if not low <= value <= high:
                raise InvalidInputError(f"`{name}` is {value!r}; it must be a number from {low:g} to {high:g}.")

    def select(self, problem: Problem, rng: np.random.Generator) -> Selection:
        trace = problem.new_trace()
        if problem.summary.n_rows <= FEW_ROWS:
            return self._every_row(problem, rng, trace)
        small, theta = problem, problem.table.theta
        if problem.optimizer is not None:
            signal = find_signal(problem, rng, trace)
            theta = signal.theta
            if not signal.found:
                return self._without_signal(problem, theta, rng, trace, signal.note)
        if problem.optimizer is None or not signal.weak:  # a weak signal needs all rows, and few knots
            small = _subset(problem, SELECTION_ROWS, rng)
        pool = small.take(small.sample(SELECTION_ROWS, rng))
        settled = settle(small, pool, theta, self._cap(small, big=True), rng, trace)
        is_subset = small.summary.n_rows < problem.summary.n_rows
        if is_subset and problem.optimizer is not None:
            settled = refine(problem, settled, rng, trace)
        theta = settled.theta
        # whatever power predicts, the knots are chosen under VFE: under FIC a knot can seem to harm
        few, all_rows = (replace(p.anew(), model=p.model.with_power(0.0), n_restarts=0) for p in (small, problem))
        moved = self._place(few, pool, settled, trace)
        if is_subset:
            moved = self._move(all_rows, theta, moved.Z, trace, iterations=8)
        kept, share = prune(all_rows, theta, moved.Z, self.tolerance, trace), moved.share
        if len(kept) < len(moved.Z):
            share = all_rows.scores(all_rows.point(theta, kept)).share
        stage = Stage(problem.point(theta, kept), settled.result, settled.failed_restarts)
        fitted: FittedAt | None = FittedAt(problem.point(theta, settled.Z), power=1.0)
        reason = self._reason(problem, len(kept), share, moved.ended, too_few=settled.too_few)
        if not share < self.share and problem.optimizer is not None:
            stage, note = self._more_likely(problem, stage, rng, trace)
            if note:
                reason += note
                fitted = None
                share = all_rows.scores(all_rows.point(stage.theta, stage.Z)).share
        return replace(self._finish(problem, stage, trace, reason, share), fitted=fitted)

    def _cap(self, problem: Problem, *, big: bool = False) -> int:
        """Largest number of knots: of those that are kept, or of the many on rows that settle the parameters."""
        n = problem.summary.n_rows
        if self.max_knots:
            return min(n, self.max_knots)
        return max(min(n // 2, BIG_CAP) if big else min(n // 3, DEFAULT_CAP), min(n, SMALLEST_CAP))

    # -- knots: few, and moved --------------------------------------------------------------------

    def _place(self, problem: Problem, pool: Rows, settled: Settled, trace: KnotTrace) -> Moved:
        """Few knots, moved; or the many, where few contradict the data so much that nothing can be computed."""
        theta = settled.theta
        try:
            return self._move(problem, theta, self._first_knots(problem, pool, theta, trace), trace)
        except KnotwiseError:
            return self._move(problem.anew(), theta, settled.Z, trace)

    def _first_knots(self, problem: Problem, pool: Rows, theta: np.ndarray, trace: KnotTrace) -> np.ndarray:
        W = first_precisions(problem, theta, pool)
        Z, scores, _ = grow(problem, pool, theta, W, FIRST_SHARE, self._cap(problem))
        trace.add(
            "start",
            len(Z),
            scores.value,
            n_rows=problem.summary.count,
            share=scores.share,
            note="knots on rows, few",
            inference=problem.guided.inference.word,
        )
        return Z

    def _move(
        self, problem: Problem, theta: np.ndarray, Z: np.ndarray, trace: KnotTrace, iterations: int = 12
    ) -> Moved:
        """Move the knots by VFE at fixed parameters; add some where much is unexplained; until little is."""
        vfe = replace(
            problem,
            table=replace(problem.table.with_theta(theta), fixed=np.ones(len(theta), bool)),
            optimizer=LBFGS(max_iterations=iterations, value_tolerance=1e-9, gradient_tolerance=1e-3),
        )
        cap = self._cap(problem)
        rng = np.random.default_rng(0)  # not used: nothing is restarted
        for _ in range(ROUNDS):
            stage = vfe.optimize(theta, Z, rng, move=np.ones(len(Z), bool))
            Z = stage.Z
            scores = vfe.guided.scores(vfe.point(theta, Z), widest=SELECTION_ROWS)
            if vfe.guide is not None and self._are_enough(scores):  # the last word is the model's own
                scores = vfe.scores(vfe.point(theta, Z), widest=SELECTION_ROWS)
            trace.add(
                "move",
                len(Z),
                stage.value,
                n_rows=vfe.summary.count,
                share=scores.share,
                residual_information=scores.residual_information,
                note=f"VFE at fixed parameters, {stage.result.evaluations} evaluations",
                inference=vfe.inference.word,
            )
            if self._are_enough(scores):
                return Moved(Z, scores.share, "enough")
            wanted = len(Z) + max(2, int((0.25 if scores.share > 2 * self.share else 0.12) * len(Z)))
            places = vfe.distinct(wanted)
            if len(places) < wanted and len(places) <= cap:  # a knot at every place leaves nothing open
                scores = vfe.scores(vfe.point(theta, places))
                trace.add(
                    "every place",
                    len(places),
                    scores.value,
                    n_rows=vfe.summary.count,
                    share=scores.share,
                    inference=vfe.inference.word,
                )
                return Moved(places, scores.share, "rounding")
            if len(Z) >= cap:
                return Moved(Z, scores.share, "limit")
            new = _more_knots(vfe, theta, Z, scores, min(wanted, cap) - len(Z))
            if not len(new):  # the rows are determined by the knots: what is left is rounding
                return Moved(Z, scores.share, "rounding")
            Z = np.vstack([Z, new])
        return Moved(Z, scores.share, "rounds")

    def _are_enough(self, scores: KnotScores) -> bool:
        """Whether knots leave so little unexplained that no more are wanted."""
        return scores.share < self.share and scores.wide_rows < WIDE_ROWS

    # -- ends -------------------------------------------------------------------------------------

    def _every_row(self, problem: Problem, rng: np.random.Generator, trace: KnotTrace) -> Selection:
        Z, what = problem.distinct(FEW_ROWS), "on the rows, which are few"
        if self.max_knots is not None and self.max_knots < len(Z):
            what = f"for {len(Z)} different rows; the limit of {self.max_knots} knots was reached: raise `max_knots`"
            Z = problem.initial_knots("kmeans", self.max_knots, rng)
        stage = problem.optimize(starting_theta(problem, rng), Z, rng)
        reason = f"{len(Z)} knots {what}{describe_copies(problem, stage.theta)}"
        trace.add("every row", len(Z), stage.value, theta=stage.theta, note=stage.result.reason)
        trace.stop_reason = reason
        return problem.selection(stage, reason, trace)

    def _without_signal(
        self, problem: Problem, theta: np.ndarray, rng: np.random.Generator, trace: KnotTrace, note: str
    ) -> Selection:
        """A handful of knots; or a few more, where they hold a doubtful signal, which chance could have made, and make
        the data ten times as likely.
        """
        best, found = self._handful(problem, theta, rng), "no signal found"
        Z = problem.initial_knots("kmeans", min(WEAK_KNOTS, self._cap(problem)), rng)
        doubtful = problem.anew().optimize(theta, Z, rng)
        if _value(doubtful) > _value(best) + DOUBTFUL_GAIN:
            best, found = doubtful, "a doubtful signal"
        return self._finish(problem, best, trace, f"{found}: {note}; {len(best.Z)} knots kept")

    def _handful(self, problem: Problem, theta: np.ndarray, rng: np.random.Generator) -> Stage:
        """A handful of knots, and the better of two fits of the parameters: from the start, and from theta."""
        Z = problem.initial_knots("kmeans", min(NO_SIGNAL_KNOTS, self._cap(problem)), rng)
        plain = problem.anew()
        return max((plain.optimize(start, Z, rng) for start in (problem.table.theta, theta)), key=_value)

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
            if value >= _value(without_inputs(replace(plain, n_restarts=0), theta, Z[:1], rng)):
                return stage, ""
            best = max(plain.optimize(theta, Z, rng), self._handful(problem, theta, rng), key=_value)
        except KnotwiseError:  # nothing else can be fitted
            return stage, ""
        why = f"at the parameters of many, {len(Z)} knots make the data less likely than no inputs do"
        trace.add("refit", len(best.Z), _value(best), theta=best.theta, note=why)
        return best, f"; {why}, so parameters were fitted to {len(best.Z)} knots"

    def _reason(self, problem: Problem, n_knots: int, share: float, ended: str, *, too_few: bool) -> str:
        """Why so many knots, in words."""
        reason = f"{n_knots} knots leave a share of {share:.3f} of the posterior variance unexplained"
        if share >= self.share:
            reason += f", above the {self.share:g} wanted"
        cap = self._cap(problem)
        if too_few or (ended == "limit" and share >= self.share):
            reason += f"; the limit of {cap} knots was reached and more are needed: raise `max_knots`"
            reason += ", or use approximation='full'" if problem.summary.n_rows <= 2500 else ""
        elif share >= self.share:
            reason += {
                "rounding": ", but no row brings more than rounding",
                "rounds": f"; knots were added {ROUNDS} times, and further ones would lower it: ask for `knots={cap}`",
            }.get(ended, f", since knots that cost less than {self.tolerance:g} nats were dropped")
        return reason

    def _finish(
        self, problem: Problem, stage: Stage, trace: KnotTrace, reason: str, share: float = np.nan
    ) -> Selection:
        """The selection, with the evidence of all rows; whether it converged is what the last optimisation said."""
        point, free = problem.point(stage.theta, stage.Z), problem.free
        evidence = problem.evaluate(point)
        assert evidence.gradient is not None
        trace.stop_reason = reason = reason + describe_copies(problem, point.theta)
        trace.add("final", len(point.Z), evidence.value, share=share, theta=point.theta, note="all rows")
        norm = projected_norm(point.theta[free], evidence.gradient[free], problem.table.theta_bounds[free])
        result = replace(
            stage.result,
            value=evidence.value,
            parameters=point.theta,
            gradient_norm=np.nan if problem.optimizer is None else norm,
        )
        return Selection(point, evidence, result, reason, stage.failed_restarts, trace)


def _more_knots(problem: Problem, theta: np.ndarray, Z: np.ndarray, scores: KnotScores, n_new: int) -> np.ndarray:
    """Further knots on rows of which the knots leave most unexplained; each that is chosen counts for the next."""
    assert scores.rows is not None
    X = scores.rows.rows.X
    pivots = Pivots(problem.model.with_theta(theta).kernel, X, 1.0 / scores.rows.v, Z)
    return X[pivots.extend(n_new)]


def _value(stage: Stage) -> float:
    return stage.value


def _subset(problem: Problem, n_rows: int, rng: np.random.Generator) -> Problem:
    """The problem on a random subset of its rows, where it has more."""
    if problem.summary.n_rows <= n_rows:
        return problem
    return problem.on_rows(problem.take(problem.sample(n_rows, rng)))
