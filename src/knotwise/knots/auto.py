"""Knots that choose themselves: fit big, keep small.

Two jobs, kept apart. *Parameters* come from FIC with many knots that sit on rows and never move: such knots do not
overfit, and they leave the evidence nothing to gain from inflating a length-scale. *Knots* are then few, moved by
VFE at these parameters, until the unexplained share says that the sparse posterior is the full one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from knotwise.errors import InvalidInputError
from knotwise.evidence.scores import RowScores
from knotwise.knots.initial import count_distinct, kmeans
from knotwise.knots.pivots import Pivots
from knotwise.knots.problem import Problem, Selection, Stage
from knotwise.knots.proposals import check_at_least
from knotwise.knots.signal import WEAK_KNOTS, find_signal
from knotwise.knots.start import starting_theta
from knotwise.knots.trace import KnotTrace
from knotwise.optimize.base import OptimizeResult
from knotwise.optimize.lbfgs import LBFGS

__all__ = ["Auto"]

DEFAULT_CAP, BIG_CAP, SMALLEST_CAP = 300, 400, 100
BIG_SHARES = (0.06, 0.004)  # unexplained share of the many knots: to find the parameters, then to settle them
BIG_ENOUGH = {True: 0.03, False: 0.015}  # share at which parameters are settled; less where precisions follow them
TOO_FEW = 0.12  # share at which parameters are not the exact GP's
WORST_SHARE = 0.45  # share that one row in a hundred may exceed: standard deviations there are a fifth too wide
FIRST_SHARE = 0.5  # share at which the few knots start to move
GROWTH, QUICK_GROWTH = 1.25, 1.6  # of the number of knots between two looks at the share
SETTLED = 0.05  # change of log parameters below which they are settled
NO_SIGNAL_KNOTS = 5
DOUBTFUL_GAIN = 2.3  # nats: ten to one
FEW_ROWS = 20  # up to here a knot on every row is the exact GP, and costs nothing
CONFIRMED = 4  # cheapest knots whose loss is computed exactly before one is dropped
SELECTION_ROWS = 5000  # rows on which parameters and knots are found before all rows are seen


@dataclass
class Auto:
    """Choose the number and the places of the knots, and the parameters with them.

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
        if len(problem.rows) <= FEW_ROWS:
            return self._every_row(problem, rng, trace)
        small, theta = problem, problem.table.theta
        if problem.optimizer is not None:
            signal = find_signal(problem, rng, trace)
            theta = signal.theta
            if not signal.found:
                return self._without_signal(problem, theta, rng, trace, signal.note)
        if problem.optimizer is None or not signal.weak:  # a weak signal needs all rows, and few knots
            small = _subset(problem, SELECTION_ROWS, rng)
        theta, big, capped = self._parameters(small, theta, rng, trace)
        if len(small.rows) < len(problem.rows) and problem.optimizer is not None:
            theta = self._refine(problem, theta, big, rng, trace)
        # whatever power predicts, the knots are chosen under VFE: under FIC a knot can seem to harm
        few, all_rows = (replace(p, model=p.model.with_power(0.0), n_restarts=0, memory={}) for p in (small, problem))
        Z = self._first_knots(few, theta, trace)
        Z, share = self._move(few, theta, Z, trace)
        if len(small.rows) < len(problem.rows):
            Z, share = self._move(all_rows, theta, Z, trace, iterations=8)
        kept = self._prune(few, theta, Z, trace)
        if len(kept) < len(Z):
            share = all_rows.scores(theta, kept, all_rows.choose_jitter(theta, kept)).share
        return self._finish(problem, theta, kept, trace, share=share, capped=capped)

    # -- parameters: many knots on rows -----------------------------------------------------------

    def _cap(self, problem: Problem, *, big: bool = False) -> int:
        """Largest number of knots: of those that are kept, or of the many on rows that settle the parameters."""
        n = len(problem.rows)
        if self.max_knots:
            return min(n, self.max_knots)
        return max(min(n // 2, BIG_CAP) if big else min(n // 3, DEFAULT_CAP), min(n, SMALLEST_CAP))

    def _parameters(
        self, problem: Problem, theta: np.ndarray, rng: np.random.Generator, trace: KnotTrace
    ) -> tuple[np.ndarray, np.ndarray, bool]:
        """Fit parameters under FIC with knots on rows; repeat while the parameters ask for other knots."""
        fic = replace(problem, model=problem.model.with_power(1.0), memory={}, n_restarts=0)
        if problem.optimizer is not None:
            fic = replace(fic, optimizer=LBFGS(max_iterations=40, value_tolerance=1e-7, gradient_tolerance=1e-2))
        W = _first_precisions(fic, theta)
        Z = np.empty((0, 0))
        enough = BIG_ENOUGH[problem.model.likelihood.conjugate]
        for round_ in range(4):
            first = len(Z) if round_ else 10
            Z, scores, capped = self._grow(
                fic, theta, W, BIG_SHARES[min(round_, 1)], self._cap(problem, big=True), first=first, quick=True
            )
            stage = fic.optimize(theta, Z, rng)
            if round_ == 0:
                stage = self._other_mode(fic, stage, rng)
            scores = fic.scores(stage.theta, Z, fic.choose_jitter(stage.theta, Z))
            moved = float(np.abs(stage.theta - theta)[fic.free].max(initial=0.0))
            theta, W = stage.theta, np.maximum(scores.W, 1e-12)
            trace.add(
                "parameters",
                len(Z),
                stage.result.value,
                n_rows=fic.rows.count,
                share=scores.share,
                residual_information=scores.residual_information,
                theta=theta,
                note=f"FIC, knots on rows, parameters moved by {moved:.2f} on the log scale",
            )
            # knots that explain enough at the new parameters need not be chosen again for them
            if problem.optimizer is None or capped or scores.share < enough or (round_ and moved < SETTLED):
                break
        return theta, Z, capped and scores.share > TOO_FEW

    @staticmethod
    def _other_mode(problem: Problem, stage: Stage, rng: np.random.Generator) -> Stage:
        """Start again where a nugget has vanished: on the log scale it cannot come back by itself."""
        nugget = np.array([name == "nugget" for name in problem.table.names]) & problem.free
        if not nugget.any() or (stage.theta[nugget] > problem.table.theta[nugget] - np.log(10)).all():
            return stage
        other = problem.optimize(np.where(nugget, problem.table.theta, stage.theta), stage.Z, rng)
        return other if other.result.value > stage.result.value else stage

    def _refine(
        self, problem: Problem, theta: np.ndarray, Z: np.ndarray, rng: np.random.Generator, trace: KnotTrace
    ) -> np.ndarray:
        """A few steps on all rows, from parameters that a subset has found."""
        fic = replace(
            problem,
            model=problem.model.with_power(1.0),
            memory={},
            n_restarts=0,
            optimizer=LBFGS(max_iterations=8, value_tolerance=1e-7, gradient_tolerance=1.0),
        )
        stage = fic.optimize(theta, Z, rng)
        trace.add(
            "refine", len(Z), stage.result.value, theta=stage.theta, note=f"parameters on all {fic.rows.count} rows"
        )
        return stage.theta

    def _grow(
        self,
        problem: Problem,
        theta: np.ndarray,
        W: np.ndarray,
        share: float,
        cap: int,
        *,
        first: int = 10,
        quick: bool = False,
    ) -> tuple[np.ndarray, RowScores, bool]:
        """Knots on rows by pivoted Cholesky on W c, until the unexplained share is small or the cap is reached.

        `quick` takes larger steps while most is unexplained, where a few knots too many do no harm.
        """
        X = problem.rows.X
        pivots = Pivots(problem.model.with_theta(theta).kernel, X, W)
        n = min(first, cap)
        while True:
            rows = pivots.extend(n)
            Z = X[rows]
            scores = problem.scores(theta, Z, problem.choose_jitter(theta, Z))
            if scores.share < share or len(rows) < n:
                return Z, scores, False
            if n >= cap:
                return Z, scores, cap < len(X)  # a knot on every row: what is left is the jitter
            growth = QUICK_GROWTH if quick and scores.share > FIRST_SHARE else GROWTH
            n = min(max(int(n * growth), n + 1), cap)

    # -- knots: few, and moved --------------------------------------------------------------------

    def _first_knots(self, problem: Problem, theta: np.ndarray, trace: KnotTrace) -> np.ndarray:
        W = _first_precisions(problem, theta)
        Z, scores, _ = self._grow(problem, theta, W, FIRST_SHARE, self._cap(problem))
        trace.add(
            "start", len(Z), scores.value, n_rows=problem.rows.count, share=scores.share, note="knots on rows, few"
        )
        return Z

    def _move(
        self, problem: Problem, theta: np.ndarray, Z: np.ndarray, trace: KnotTrace, iterations: int = 12
    ) -> tuple[np.ndarray, float]:
        """Move the knots by VFE at fixed parameters; add some where much is unexplained; until little is."""
        vfe = replace(
            problem,
            table=replace(problem.table.with_theta(theta), fixed=np.ones(len(theta), bool)),
            optimizer=LBFGS(max_iterations=iterations, value_tolerance=1e-9, gradient_tolerance=1e-3),
        )
        cap = self._cap(problem)
        rng = np.random.default_rng(0)  # not used: nothing is restarted
        for _ in range(6):
            stage = vfe.optimize(theta, Z, rng, move=np.ones(len(Z), bool))
            Z = stage.Z
            scores = vfe.scores(theta, Z, vfe.choose_jitter(theta, Z))
            trace.add(
                "move",
                len(Z),
                stage.result.value,
                n_rows=vfe.rows.count,
                share=scores.share,
                residual_information=scores.residual_information,
                note=f"VFE at fixed parameters, {stage.result.evaluations} evaluations",
            )
            if scores.share < self.share and scores.largest_share < WORST_SHARE:
                return Z, scores.share
            wanted = len(Z) + max(2, int((0.25 if scores.share > 2 * self.share else 0.12) * len(Z)))
            places = count_distinct(vfe.rows.X, wanted)
            if places < wanted and places <= cap:  # a knot at every place leaves nothing open
                Z = np.unique(vfe.rows.X, axis=0)
                scores = vfe.scores(theta, Z, vfe.choose_jitter(theta, Z))
                trace.add("every place", len(Z), scores.value, n_rows=vfe.rows.count, share=scores.share)
                return Z, scores.share
            if len(Z) >= cap:
                return Z, scores.share
            n_new = min(wanted, cap) - len(Z)
            pivots = Pivots(vfe.model.with_theta(theta).kernel, vfe.rows.X, 1.0 / scores.v, Z)
            new = vfe.rows.X[pivots.extend(n_new)]
            if not len(new):  # the rows are determined by the knots: what is left is rounding
                return Z, scores.share
            Z = np.vstack([Z, new])
        return Z, scores.share

    def _prune(self, problem: Problem, theta: np.ndarray, Z: np.ndarray, trace: KnotTrace) -> np.ndarray:
        """Drop knots whose removal costs less than the tolerance, the cheapest first.

        All losses come from one pass; those that look small are confirmed by an evaluation, for where the pass is
        only a screen.
        """
        dropped, kept_value = 0, np.nan
        while len(Z) > 1:
            jitter = problem.choose_jitter(theta, Z)
            losses = problem.losses(theta, Z, jitter)
            cheapest = np.argsort(losses, kind="stable")[:CONFIRMED]
            cheapest = cheapest[losses[cheapest] < 3 * self.tolerance]
            if not len(cheapest):
                break
            value = problem.evaluate(theta, Z, jitter, gradient=False).value
            without = [problem.evaluate(theta, np.delete(Z, k, axis=0), jitter, gradient=False).value for k in cheapest]
            best = int(np.argmax(without))
            if not without[best] > value - self.tolerance:
                break
            Z, kept_value, dropped = np.delete(Z, cheapest[best], axis=0), without[best], dropped + 1
        if dropped:
            note = f"{dropped} knots dropped at less than {self.tolerance:g} nats each"
            trace.add("prune", len(Z), kept_value, n_rows=problem.rows.count, note=note)
        return Z

    # -- ends -------------------------------------------------------------------------------------

    def _every_row(self, problem: Problem, rng: np.random.Generator, trace: KnotTrace) -> Selection:
        Z = np.unique(problem.rows.X, axis=0)[: self.max_knots]
        stage = problem.optimize(starting_theta(problem, rng), Z, rng)
        reason = f"{len(Z)} knots on the rows, which are few"
        trace.add("every row", len(Z), stage.result.value, theta=stage.theta, note=stage.result.reason)
        trace.stop_reason = reason
        return Selection(stage.theta, Z, stage.jitter, stage.result, reason, stage.failed_restarts, trace)

    def _without_signal(
        self, problem: Problem, theta: np.ndarray, rng: np.random.Generator, trace: KnotTrace, note: str
    ) -> Selection:
        """A few knots, and the better of two fits: from the start, and from where the search for signal ended.

        A doubtful signal, which chance could have made, is kept if some more knots hold it and make the data ten
        times as likely.
        """
        X, y, cap = problem.rows.X, problem.rows.y, self._cap(problem)
        plain = replace(problem, n_restarts=0, memory={})
        Z = kmeans(X, y, min(NO_SIGNAL_KNOTS, cap), rng)
        best = max((plain.optimize(start, Z, rng) for start in (problem.table.theta, theta)), key=_value)
        doubtful = plain.optimize(theta, kmeans(X, y, min(WEAK_KNOTS, cap), rng), rng)
        found = "no signal found"
        if _value(doubtful) > _value(best) + DOUBTFUL_GAIN:
            best, found = doubtful, "a doubtful signal"
        return self._finish(problem, best.theta, best.Z, trace, reason=f"{found}: {note}; {len(best.Z)} knots kept")

    def _finish(
        self,
        problem: Problem,
        theta: np.ndarray,
        Z: np.ndarray,
        trace: KnotTrace,
        *,
        share: float = np.nan,
        capped: bool = False,
        reason: str | None = None,
    ) -> Selection:
        jitter = problem.choose_jitter(theta, Z)
        evidence = problem.evaluate(theta, Z, jitter)
        assert evidence.gradient is not None
        short = reason is None and (capped or (len(Z) >= self._cap(problem) and not share < self.share))
        if reason is None:
            reason = f"{len(Z)} knots leave a share of {share:.3f} of the posterior variance unexplained"
            if share >= self.share:
                reason += f", above the {self.share:g} wanted"
                reason += "" if short else ", but no row brings more than rounding"
        if short:
            reason += (
                f"; the limit of {self._cap(problem)} knots was reached and more are needed: raise `max_knots`"
                + (", or use approximation='full'" if len(problem.rows) <= 2500 else "")
            )
        trace.stop_reason = reason
        trace.add("final", len(Z), evidence.value, share=share, theta=theta, note="all rows")
        norm = float(np.abs(evidence.gradient[problem.free]).max(initial=0.0))
        result = OptimizeResult(evidence.value, theta, len(trace), norm, True, reason, np.array([evidence.value]))
        return Selection(theta, Z, jitter, result, reason, trace=trace)


def _value(stage: Stage) -> float:
    return stage.result.value


def _subset(problem: Problem, n_rows: int, rng: np.random.Generator) -> Problem:
    """The problem on a random subset of its rows, where it has more."""
    if len(problem.rows) <= n_rows:
        return problem
    chosen = np.sort(rng.choice(len(problem.rows), n_rows, replace=False))
    return replace(problem, rows=problem.rows[chosen], memory={})


def _first_precisions(problem: Problem, theta: np.ndarray) -> np.ndarray:
    """Site precisions before any posterior is known: those at the prior mean."""
    model, rows = problem.model.with_theta(theta), problem.rows
    if rows.noise_variance is not None:
        return 1.0 / rows.noise_variance
    f = np.full(len(rows), model.mean.offset)
    return np.maximum(model.likelihood.fisher(rows.y, f, rows.sizes), 1e-12)
