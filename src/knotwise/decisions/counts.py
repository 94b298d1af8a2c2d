"""Which law of counts: Poisson, or one by which they vary more? Exact GPs on the same rows say, before the kernel.

A law with a dispersion has the others as its limit, and so explains all that they do; it must bring the evidence that
pays for its parameters, and may not predict rows that it has not seen worse. A rough function explains overdispersion,
too, by following each count, and a dispersion hides a function: so each law is tried with a smooth kernel and with a
rough one, with one length-scale and with one per column, and the best of each are compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from knotwise.decisions.candidates import fit_candidate, price
from knotwise.decisions.signal import n_identifiable
from knotwise.decisions.thresholds import COUNTS, KERNEL
from knotwise.decisions.trials import Candidate, Trial
from knotwise.evidence.model import Rows
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


def decide(laws: Sequence[Law], rng: np.random.Generator) -> Decision[int]:
    """Number of the law that suits the counts; of laws with more parameters a clear gain is asked.

    The laws have the same data, the one with fewest parameters first. Weights are those of the last, under which they
    are relative: the same rows, with the same weights, tell all laws apart.
    """
    trial = _draw(laws[-1].problem, rng)
    fits = _fits(trial, laws)
    chosen, said = next((i for i, fit in enumerate(fits) if fit is not None), 0), "nothing else could be fitted"
    numbers: dict[str, float] = {"n_rows": trial.fitted.count}
    for i in range(chosen + 1, len(laws)):
        best, rival = fits[chosen], fits[i]
        if best is None or rival is None:
            continue
        gain = rival.value - best.value
        least = n_identifiable(laws[i].problem) - n_identifiable(laws[chosen].problem) + COUNTS.margin
        mean, error = trial.gain(trial.judged(rival), trial.judged(best))
        numbers |= {"gain": gain, "threshold": least, "density_gain": mean, "standard_error": error}
        said = (
            f"{laws[i].name} gains {gain:.1f} nats over {laws[chosen].name} on {trial.fitted.count:g} rows (above "
            f"{least:.1f} pays), and {mean:.3f} +- {error:.3f} in the log density of a row left out"
        )
        in_all = gain + mean * len(trial.validation)  # rows of which neither fit knows are evidence, too
        pays = gain > least or (in_all > least and mean > COUNTS.sure * error)
        if pays and not mean < -COUNTS.sure * error:
            chosen = i
    taken = fits[chosen]
    numbers["log_evidence"] = np.nan if taken is None else taken.value
    return Decision(chosen, f"{laws[chosen].name} is taken: {said}", numbers)


def _fits(trial: Trial, laws: Sequence[Law]) -> list[Candidate | None]:
    """The best fit of each law, None where there is none: all by the same kernel, and by that with a length-scale per
    column where that pays.
    """
    makers = [law.with_kernel for law in laws if law.with_kernel is not None]
    if not makers:
        return _fits_of_kernel(trial, [law.problem for law in laws])
    one = _fits_of_kernel(trial, [make(Matern32()) for make in makers])
    if not 1 < len(laws[0].problem.varying_variances) <= KERNEL.many_columns:
        return one
    each = _fits_of_kernel(trial, [make(Matern32(ard=True)) for make in makers], one)
    pairs = zip(one, each, strict=True)
    return [a if b is None or (a is not None and b.value - a.value < price(b, a)) else b for a, b in pairs]


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
    table, known = problem.table, dict(zip(end.problem.table.names, end.theta, strict=True))
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
