"""Which kernel: how smooth, one length-scale or one per column, and on which columns? Rows of all scales say.

Matern 1/2, 3/2, 5/2 and the squared exponential are fitted, each with one length-scale and one per column; none is
skipped because another lost. On few rows the evidence of the exact GP says how smooth the function is; where it is
nearly the same, the rougher kernel is taken, and where it leaves the answer open, validation rows near the others, in
gaps and beyond may decide. The evidence alone prefers a length-scale per column nearly always, and is wrong where
columns are gridded or rows are few: a kernel with more parameters must have enough evidence to pay for them, and must
not predict validation rows worse. A length-scale for each of hundreds of columns explains anything with a few hundred
rows, and one for all of them nothing: a kernel on the few columns that explain most is a third candidate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from knotwise.decisions import validation
from knotwise.decisions.candidates import (
    Structure,
    best_of,
    each_smoothness,
    fit_candidate,
    name_of,
    or_with_trend,
    price,
)
from knotwise.decisions.hyperparameters import most_exact_rows
from knotwise.decisions.neighbour_trial import NearCandidate
from knotwise.decisions.scales import decide_on_all_scales
from knotwise.decisions.screening import screen_columns
from knotwise.decisions.signal import n_identifiable, threshold
from knotwise.decisions.thresholds import HYPERPARAMETERS, KERNEL
from knotwise.decisions.trials import Candidate, Trial
from knotwise.errors import InvalidInputError, KnotwiseError
from knotwise.kernels.base import Kernel
from knotwise.kernels.stationary import SquaredExponential
from knotwise.selection.base import Decision
from knotwise.selection.problem import KernelMaker, Problem
from knotwise.selection.starts import spread_out, starting_theta, without_inputs


def decide(make: KernelMaker, rng: np.random.Generator, least_rows: int = KERNEL.least_rows) -> Decision[Problem]:
    """The problem with the kernel that suits the data, and with hyperparameters from which to start.

    `make` puts the problem together for a kernel. Where none finds a signal on few rows, more are fitted: of many
    columns, those that matter may be hard to see. With fewer than `least_rows` nothing is chosen. All candidates are
    handed on, of each kind the last that was fitted.
    """
    plain = make(SquaredExponential())
    if plain.optimizer is None or plain.summary.n_rows < least_rows:
        return Decision(plain, "nothing is to be chosen")
    trace, best = plain.new_trace(), None
    for n_rows in _numbers_of_rows(plain):
        trial = Trial.draw(plain, n_rows, rng, trace)
        structures = _structures(make, plain, trial)
        if not structures:
            return Decision(plain, "no kernel could be fitted")
        best = best_of(trial, structures)
        gain = _log_bayes_factor(trial, best)
        if len(trial.fitted) < n_rows or gain > threshold(best.problem):
            break
    assert best is not None
    n_rows = len(trial.fitted)
    tried: list[Candidate | None] = [each for structure in structures for each in structure]
    if gain > threshold(best.problem):
        more = decide_on_all_scales if _are_many(plain) else _on_more_rows
        trial, best, others = more(make, trial, structures, best)
        tried += [*others, best]
    rivals = _last_of_each(tried)
    n_tried = len(rivals) + tried.count(None)
    best = trial.judged(best)
    means, reach = trial.labels.means(best.density), trial.reach(best)
    why = f"{name_of(best)} is taken, of {n_tried} kernels; {validation.describe(means, reach)}"
    trace.add("kernel", 0, best.value, n_rows=trial.fitted.count, note=why)
    numbers = {"log_bayes_factor": gain, "n_rows": n_rows, "fitted_rows": len(trial.fitted), "reach": reach, **means}
    numbers["share"] = trial.share_left(best)
    found = Decision(best.theta, why, numbers)
    of_all = plain.summary.n_rows <= HYPERPARAMETERS.many_rows
    by_neighbours = (trial, best) if isinstance(best, NearCandidate) and of_all else None
    chosen = replace(best.problem, found=found, earlier=tuple(trace), tried=by_neighbours)
    chosen = replace(chosen, rivals=rivals, curvature=best.information)
    return Decision(chosen, why, found.numbers)


@dataclass(frozen=True)
class OnTheseColumns:
    """Makes problems for kernels on some of the columns."""

    make: KernelMaker
    columns: Sequence[int | str] | int | str

    def __call__(self, kernel: Kernel) -> Problem:
        return self.make(kernel.on(self.columns))

    def with_trend(self) -> KernelMaker | None:
        make = self.make.with_trend()
        return None if make is None else replace(self, make=make)


def _numbers_of_rows(problem: Problem) -> tuple[int, int]:
    """How many rows are fitted at first, more of them for many columns, and where these show no signal."""
    if not problem.model.likelihood.conjugate:
        return KERNEL.rows, KERNEL.most_rows_of_sites
    by_columns = min(KERNEL.rows_per_column * len(problem.varying_variances), KERNEL.most_first_rows)
    return max(KERNEL.rows, by_columns), KERNEL.most_rows


# -- candidates -------------------------------------------------------------------------------------------


def _structures(make: KernelMaker, plain: Problem, trial: Trial) -> list[Structure]:
    """Kernels with one length-scale for all columns, with one for each, and with one for each of few."""
    one = each_smoothness(trial, lambda kind: make(kind()), [starting_theta(plain.by_surrogate, trial.rng)])
    n_columns = len(plain.varying_variances)
    if n_columns <= 1 or not one:  # a constant column has no length-scale
        return [one] if one else []
    wide = make(SquaredExponential(ard=True))
    starts = [spread_out(one[0].theta, plain, wide), wide.table.theta]
    found = [one, each_smoothness(trial, lambda kind: make(kind(ard=True)), starts)]
    if n_columns > KERNEL.many_columns and plain.model.kernel.groups is None:
        columns = screen_columns(trial.fitted.X, trial.fitted.y)
        if columns and len(columns) < n_columns:
            try:
                few = make(SquaredExponential(ard=True).on(columns))
            except InvalidInputError:  # what a user has fixed or bounded is named as of a kernel of all columns
                return [each for each in found if each]
            on_few = OnTheseColumns(make, columns)
            found.append(each_smoothness(trial, lambda kind: on_few(kind(ard=True)), [few.table.theta]))
    return [each for each in found if each]


def _on_more_rows(
    make: KernelMaker, trial: Trial, structures: Sequence[Structure], best: Candidate
) -> tuple[Trial, Candidate, list[Candidate | None]]:
    """The choice between kernels that fewer rows leave open, by more rows where there are some; then the trend.

    The last of what is returned are the further candidates.
    """
    plain, few = structures[0][0].problem, (trial, best)
    others: list[Candidate | None] = []
    numbers = KERNEL.finalist_rows if plain.model.likelihood.conjugate else KERNEL.finalist_rows_of_sites
    for n_rows, close in zip(numbers, KERNEL.close, strict=False):
        more_rows = Trial.n_fitted(plain, n_rows) / len(trial.fitted)
        finalists = [_finalists(structure, best, close, more_rows) for structure in structures]
        if sum(map(len, finalists)) < 2 or more_rows < KERNEL.more_rows:
            continue
        more = Trial.draw(plain, n_rows, trial.rng, trial.trace)
        again = [[fit_candidate(more, t.problem, [t.theta], KERNEL.search, t) for t in some] for some in finalists]
        fitted = [[tried for tried in some if tried is not None] for some in again]
        if any(fitted):
            trial, structures = more, [some for some in fitted if some]
            others += [tried for some in fitted for tried in some]
            best = best_of(trial, structures)
    own = next(each for each in structures if any(tried.problem is best.problem for tried in each))
    fit = partial(fit_candidate, search=KERNEL.search)
    best, with_trend = or_with_trend(make, trial, own, best, fit, few=few)
    return trial, best, [*others, *with_trend]


def _last_of_each(tried: Sequence[Candidate | None]) -> tuple[Candidate, ...]:
    """Of each kernel, with a trend or without, the last fit: that to the most rows."""
    return tuple({(name_of(each), type(each.problem.model.mean)): each for each in tried if each is not None}.values())


def _are_many(problem: Problem) -> bool:
    """Whether rows are so many, and at hand, that Vecchia neighbours show more of them than the exact GP of some."""
    many = problem.summary.n_rows > most_exact_rows(problem)
    return many and problem.model.likelihood.conjugate and problem.run.blocks.at_hand


def _finalists(structure: Structure, best: Candidate, close: float, more: float) -> Structure:
    """Kernels that `more` times as many rows may prefer to the best one.

    Of its own structure those that are close; of another the likeliest, if they may pay then, or hardly do not.
    """
    first = max(structure, key=lambda tried: tried.value)
    if any(tried.problem is best.problem for tried in structure):
        return _closest(structure, KERNEL.finalists, close)
    if n_identifiable(first.problem) > n_identifiable(best.problem):
        may_win = more * (first.value - best.value) > price(first, best)
    else:
        may_win = best.value - first.value < KERNEL.unconfirmed * price(best, first)
    return _closest(structure, KERNEL.other_finalists, close) if may_win else []


def _closest(structure: Structure, n: int, close: float) -> Structure:
    """The likeliest kernels of a structure, at most n, within some nats."""
    by_value = sorted((tried.value for tried in structure), reverse=True)
    return [tried for tried in structure if tried.value >= max(by_value[:n][-1], by_value[0] - close)]


def _log_bayes_factor(trial: Trial, tried: Candidate) -> float:
    """Of a kernel against a model without inputs; 0 where that cannot be fitted."""
    exact = trial.exact(tried.problem, KERNEL.search).by_surrogate
    try:
        return tried.value - exact.log_evidence(without_inputs(exact, tried.theta, trial.no_knots, trial.rng))
    except KnotwiseError:
        return 0.0
