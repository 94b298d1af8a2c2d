"""Which law of counts: Poisson, one by which they vary more, or one with more zeros? Exact GPs on the same rows say.

A law with a dispersion has the others as its limit, and so explains all that they do; it must bring the evidence that
pays for its parameters, and may not predict rows that it has not seen worse. A rough function explains overdispersion,
too, by following each count, and a dispersion hides a function: so each law is tried with a smooth kernel and with a
rough one, with one length-scale and with one per column, and the best of each are compared. Laws with zeros beside the
counts are tried where there are more zeros than the law that was taken says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from knotwise.decisions.candidates import fit_candidate, price
from knotwise.decisions.signal import n_identifiable
from knotwise.decisions.thresholds import COUNTS, KERNEL
from knotwise.decisions.trials import Candidate, Trial
from knotwise.errors import KnotwiseError
from knotwise.evidence.model import Rows
from knotwise.kernels.base import Kernel
from knotwise.kernels.stationary import Matern32
from knotwise.selection.base import Decision
from knotwise.selection.problem import KernelMaker, Problem
from knotwise.selection.starts import spread_out


@dataclass(frozen=True)
class Law:
    """The problem of a fit under one law of counts, and what makes it for other kernels; None where one was given."""

    problem: Problem
    with_kernel: KernelMaker | None = None

    @property
    def name(self) -> str:
        return type(self.problem.model.likelihood).__name__


@dataclass(frozen=True)
class _Entry:
    """A law with its best fit, None where there is none; and the kernel of that, None where one was given."""

    number: int
    law: Law
    fit: Candidate | None
    kernel: Kernel | None


def decide(laws: Sequence[Law], rng: np.random.Generator, inflated: Sequence[Callable[[], Law]] = ()) -> Decision[int]:
    """Number of the law that suits the counts; of laws with more parameters a clear gain is asked.

    The laws have the same data, the one with fewest parameters first. Weights are those of the last, under which they
    are relative: the same rows, with the same weights, tell all laws apart. `inflated` make the laws with zeros beside
    the counts, whose numbers follow; they are tried where there are more zeros than the best of the others says.
    """
    trial = _draw(laws[-1].problem, rng)
    numbers: dict[str, float] = {"n_rows": trial.fitted.count}
    entries = _fits(trial, laws)
    taken = next((each for each in entries if each.fit is not None), entries[0])
    said = "nothing else could be fitted"
    for rival in entries[taken.number + 1 :]:
        taken, said = _better(trial, taken, rival, COUNTS.margin, numbers) or (taken, said)
    if inflated and taken.fit is not None:
        plain, zeros = taken, _count_zeros(trial, taken.fit)
        numbers |= {"zeros": zeros.seen, "expected_zeros": zeros.expected, "zeros_error": zeros.error}
        if zeros.seen > zeros.expected:
            for rival in _fits_with_zeros(trial, plain, inflated, len(laws)):
                margin = COUNTS.zeros_margin if taken is plain else COUNTS.margin
                taken, said = _better(trial, taken, rival, margin, numbers) or (taken, said)
            said += f". Of {zeros.seen:g} zeros {plain.law.name} says {zeros.expected:.1f} +- {zeros.error:.1f}"
    numbers["log_evidence"] = np.nan if taken.fit is None else taken.fit.value
    return Decision(taken.number, f"{taken.law.name} is taken: {said}", numbers)


def _better(
    trial: Trial, best: _Entry, rival: _Entry, margin: float, numbers: dict[str, float]
) -> tuple[_Entry, str] | None:
    """The better of two laws and why; None where they cannot be compared. `margin` is asked for beside the price."""
    if best.fit is None or rival.fit is None:
        return None
    gain = rival.fit.value - best.fit.value
    least = max(n_identifiable(rival.law.problem) - n_identifiable(best.law.problem), 0) + margin
    mean, error = trial.gain(trial.judged(rival.fit), trial.judged(best.fit))
    numbers |= {"gain": gain, "threshold": least, "density_gain": mean, "standard_error": error}
    said = (
        f"{rival.law.name} gains {gain:.1f} nats over {best.law.name} on {trial.fitted.count:g} rows (above "
        f"{least:.1f} pays), and {mean:.3f} +- {error:.3f} in the log density of a row left out"
    )
    in_all = gain + mean * len(trial.validation)  # rows of which neither fit knows are evidence, too
    pays = gain > least or (in_all > least and mean > COUNTS.sure * error)
    return rival if pays and not mean < -COUNTS.sure * error else best, said


@dataclass(frozen=True)
class _Zeros:
    """Zeros among the rows, the number of them that a law says, and its standard error."""

    seen: float
    expected: float
    error: float


def _count_zeros(trial: Trial, fit: Candidate) -> _Zeros:
    """How many zeros there are, and how many the law says that was fitted to these rows."""
    rows = trial.fitted
    log_zero = trial.densities_of(fit, replace(rows, y=np.zeros(len(rows))))
    p, seen = np.exp(log_zero), rows.total((rows.y == 0).astype(float))
    expected = rows.total(p)
    return _Zeros(seen, expected, float(np.sqrt(rows.total(p * (1 - p)))))


def _fits(trial: Trial, laws: Sequence[Law]) -> list[_Entry]:
    """The best fit of each law: all by the same kernel, and by that with a length-scale per column where that pays."""
    makers = [law.with_kernel for law in laws if law.with_kernel is not None]
    if not makers:
        found = _fits_of_kernel(trial, [law.problem for law in laws])
        return [_Entry(i, law, fit, None) for i, (law, fit) in enumerate(zip(laws, found, strict=True))]
    one = _fits_of_kernel(trial, [make(Matern32()) for make in makers])
    entries = [_Entry(i, law, fit, Matern32()) for i, (law, fit) in enumerate(zip(laws, one, strict=True))]
    if not 1 < len(laws[0].problem.varying_variances) <= KERNEL.many_columns:
        return entries
    each = _fits_of_kernel(trial, [make(Matern32(ard=True)) for make in makers], one)
    return [
        a
        if b is None or (a.fit is not None and b.value - a.fit.value < price(b, a.fit))
        else replace(a, fit=b, kernel=Matern32(ard=True))
        for a, b in zip(entries, each, strict=True)
    ]


def _fits_with_zeros(trial: Trial, plain: _Entry, inflated: Sequence[Callable[[], Law]], first: int) -> list[_Entry]:
    """Fits of laws with zeros beside the counts, by the kernel of the best other law, from where that ended.

    None where the last of them, which has the others as limits, gains nothing with the function as it was fitted, some
    zeros beside the counts, and less dispersion: a few evaluations.
    """
    made = [make() for make in inflated]
    problems = [
        law.problem if plain.kernel is None or law.with_kernel is None else law.with_kernel(plain.kernel)
        for law in made
    ]
    assert plain.fit is not None  # who asks has looked
    start, gain = _glimpse(trial, problems[-1], plain.fit)
    if not gain > 0:
        return []
    found: list[_Entry] = []
    for i, (law, problem) in enumerate(zip(made, problems, strict=True)):
        ends = [each.fit for each in found if each.fit is not None]
        starts = [_by_name(start, problem), *(_shared(each, problem) for each in ends)]
        fit = fit_candidate(trial, problem, starts, COUNTS.search)
        found.append(_Entry(first + i, law, fit, plain.kernel))
    return found


def _glimpse(trial: Trial, problem: Problem, fit: Candidate) -> tuple[dict[str, float], float]:
    """Hyperparameters, by name, of a law with zeros beside the counts near a fit of another, and their gain over it."""
    exact, best, gain = trial.exact(problem, None).by_surrogate, {}, -np.inf
    theta = dict(zip(fit.problem.table.names, fit.theta, strict=True))
    for share in COUNTS.shares:
        for less in COUNTS.less_dispersion:
            dispersion = theta.get("dispersion", np.log(COUNTS.least_dispersion)) + np.log(less)
            tried = theta | {"zero_inflation": np.log(share), "dispersion": dispersion}
            try:
                value = trial.value(exact, _by_name(tried, problem))
            except KnotwiseError:
                continue
            if value - fit.value > gain:
                best, gain = tried, value - fit.value
    return best, gain


def _fits_of_kernel(
    trial: Trial, problems: Sequence[Problem], of_one: Sequence[Candidate | None] = ()
) -> list[Candidate | None]:
    """The fit of a kernel under each law. Each starts where the others ended, too: on one hill they are comparable."""
    found: list[Candidate | None] = []
    for i, problem in enumerate(problems):
        plain = of_one[i] if of_one else None
        start = problem.table.theta if plain is None else spread_out(plain.theta, plain.problem, problem)
        starts = [start, *(_shared(each, problem) for each in found if each is not None)]
        if not i and not of_one:
            starts.append(start + np.log(COUNTS.shorter) * (problem.table.with_role("lengthscale") & problem.free))
        found.append(fit_candidate(trial, problem, starts, COUNTS.search))
    last = found[-1]
    for i, problem in enumerate(problems[:-1]):
        again = (
            None if last is None else fit_candidate(trial, problem, [_shared(last, problem)], COUNTS.search, found[i])
        )
        before = found[i]
        if again is not None and (before is None or again.value > before.value):
            found[i] = again
    return found


def _shared(end: Candidate, problem: Problem) -> np.ndarray:
    """Where the fit of one law ended as a start of another: the parameters that both have, by name."""
    return _by_name(dict(zip(end.problem.table.names, end.theta, strict=True)), problem)


def _by_name(known: Mapping[str, float], problem: Problem) -> np.ndarray:
    """Hyperparameters of a problem: those that are known, and its own starts."""
    table = problem.table
    theta = np.array([known.get(name, own) for name, own in zip(table.names, table.theta, strict=True)])
    return np.clip(theta, *table.theta_bounds.T)


def _draw(problem: Problem, rng: np.random.Generator) -> Trial:
    """Rows to fit, and others to predict; of few rows all are fitted, and each is predicted from the others."""
    rows, trace = sample_observations(problem, COUNTS.rows + COUNTS.validation_rows, rng), problem.new_trace()
    if len(rows) <= COUNTS.rows:
        return Trial(rows, rows[:0], rng, trace, each_alone=True)
    order = rng.permutation(len(rows))
    fitted, others = np.sort(order[: COUNTS.rows]), np.sort(order[COUNTS.rows :])
    return Trial(rows[fitted], rows[others], rng, trace)


def sample_observations(problem: Problem, n_rows: int, rng: np.random.Generator) -> Rows:
    """Some rows with their weights: all, or a sample; of replicates, which are one row with a weight, observations.

    Drawn each as often as others, and then counted once, equal counts at a place would say that counts vary more.
    """
    blocks = problem.run.blocks
    if problem.summary.n_rows <= n_rows or not problem.summary.is_weighted or not blocks.at_hand:
        return problem.take(problem.sample(n_rows, rng))
    weights = np.asarray(problem.rows.weights)
    if (weights != np.rint(weights)).any():
        return problem.take(problem.sample(n_rows, rng))
    drawn = rng.multivariate_hypergeometric(weights.astype(int), min(n_rows, int(weights.sum())), method="count")
    kept = np.flatnonzero(drawn)
    return replace(problem.take(kept), weights=drawn[kept].astype(float))
