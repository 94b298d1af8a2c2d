"""Which kernel: one length-scale or one per column, how smooth, and on which columns? Exact GPs on some rows say.

The evidence alone prefers a length-scale per column nearly always, and is wrong where columns are gridded or rows are
few. So a kernel with more parameters must have enough evidence to pay for them, and must not predict validation rows
worse; of kernels with as many parameters, evidence and validation density decide together. A length-scale for each of
hundreds of columns explains anything with a few hundred rows, and one for all of them nothing: a kernel on the few
columns that explain most is a third candidate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from knotwise.decisions.signal import n_identifiable, threshold
from knotwise.decisions.thresholds import KERNEL, SCREENING
from knotwise.decisions.trials import Candidate, Trial, describe_kernel, predicted_mean, validation_density
from knotwise.errors import InvalidInputError, KnotwiseError
from knotwise.kernels.base import Kernel
from knotwise.kernels.stationary import Matern32, Matern52, SquaredExponential, Stationary
from knotwise.posterior.exact import ExactPosterior
from knotwise.selection.base import Decision
from knotwise.selection.problem import KernelMaker, Problem
from knotwise.selection.starts import spread_out, starting_theta, without_inputs

SMOOTHER_FIRST: tuple[type[Stationary], ...] = (SquaredExponential, Matern52, Matern32)


def decide(make: KernelMaker, rng: np.random.Generator) -> Decision[Problem]:
    """The problem with the kernel that suits the data, and with hyperparameters from which to start.

    `make` puts the problem together for a kernel. Kernels are squared exponential, Matern 5/2 and Matern 3/2, with one
    length-scale or one per column, and of many columns also on the few that explain most. Where none finds a signal on
    few rows, more are fitted: of many columns, those that matter may be hard to see.
    """
    plain = make(SquaredExponential())
    if plain.optimizer is None or plain.summary.n_rows < KERNEL.least_rows:
        return Decision(plain, "nothing is to be chosen")
    trace, best = plain.new_trace(), None
    for n_rows in _numbers_of_rows(plain):
        trial = Trial.draw(plain, n_rows, rng, trace)
        best = _choose(make, plain, trial)
        if best is None:
            return Decision(plain, "no kernel could be fitted")
        gain = _log_bayes_factor(trial, best)
        if len(trial.fitted) < n_rows or gain > threshold(best.problem):
            break
    assert best is not None
    why = f"{_name(best)} is taken"
    trace.add("kernel", 0, best.value, n_rows=trial.fitted.count, note=why)
    found = Decision(best.theta, why, {"log_bayes_factor": gain, "n_rows": len(trial.fitted)})
    maker = _on_columns_of(make, best.problem.model.kernel)
    chosen = replace(best.problem, found=found, earlier=tuple(trace), with_kernel=maker)
    return Decision(chosen, why, found.numbers)


@dataclass(frozen=True)
class OnTheseColumns:
    """Makes problems for kernels on some of the columns."""

    make: KernelMaker
    columns: Sequence[int | str] | int | str

    def __call__(self, kernel: Kernel) -> Problem:
        return self.make(kernel.on(self.columns))


def _on_columns_of(make: KernelMaker, like: Kernel) -> KernelMaker:
    columns = like.restricted_to
    return make if columns is None else OnTheseColumns(make, columns)


def _numbers_of_rows(problem: Problem) -> tuple[int, int]:
    """How many rows are fitted at first, more of them for many columns, and where these show no signal."""
    if not problem.model.likelihood.conjugate:
        return KERNEL.rows, KERNEL.most_rows_of_sites
    by_columns = min(KERNEL.rows_per_column * len(problem.varying_variances), KERNEL.most_first_rows)
    return max(KERNEL.rows, by_columns), KERNEL.most_rows


def _choose(make: KernelMaker, plain: Problem, trial: Trial) -> Candidate | None:
    """One length-scale for all columns, or one for each, or one for each of few; None where nothing can be fitted."""
    one = _fit(trial, plain, [starting_theta(plain.by_surrogate, trial.rng)])
    n_columns = len(plain.varying_variances)
    if n_columns <= 1 or one is None:  # a constant column has no length-scale
        return None if one is None else _roughen(make, one, trial)
    wide = make(SquaredExponential(ard=True))
    several = _fit(trial, wide, [spread_out(one.theta, plain, wide), wide.table.theta])
    rivals = [one] if several is None else [one, several]
    if several is not None:
        mean, error = trial.gain(several.density, one.density)
        gain, price = several.value - one.value, _price(several, one)
        if gain > KERNEL.clear_margin * price and mean > KERNEL.clear * error:  # whatever the smoothness
            rivals = [several]
        elif gain < price and mean < 0:
            rivals = [one]
    best = _roughen(make, rivals[0], trial)
    if len(rivals) > 1:
        rival = _roughen(make, rivals[1], trial)
        best = rival if _pays(trial, rival, best) else best
    if n_columns <= KERNEL.many_columns or plain.model.kernel.groups is not None:
        return best
    columns = screen_columns(trial.fitted.X, trial.fitted.y)
    if not columns or len(columns) == n_columns:
        return best
    try:
        few = make(SquaredExponential(ard=True).on(columns))
    except InvalidInputError:  # what a user has fixed or bounded is named as of a kernel of all columns
        return best
    tried = _fit(trial, few, [few.table.theta])
    if tried is None:
        return best
    tried = _roughen(make, tried, trial)
    if n_identifiable(best.problem) > n_identifiable(tried.problem):
        return best if _pays(trial, best, tried) else tried
    return tried if _pays(trial, tried, best) else best


def _roughen(make: KernelMaker, best: Candidate, trial: Trial) -> Candidate:
    """The same with a rougher kernel, and a still rougher one, for as long as that is better."""
    like = best.problem.model.kernel
    per_column = getattr(like.unrestricted, "ard", False)
    for kind in SMOOTHER_FIRST[1:]:
        problem = _on_columns_of(make, like)(kind(ard=per_column))
        longer = np.log(KERNEL.longer) * problem.table.with_role("lengthscale") * problem.free
        tried = _fit(trial, problem, [best.theta + longer])
        if tried is None:
            break
        mean, _ = trial.gain(tried.density, best.density)
        gain = tried.value - best.value + (0.0 if np.isnan(mean) else len(trial.fitted) * mean)
        if gain < KERNEL.smoothness_margin:
            break
        best = tried
    return best


def _name(candidate: Candidate) -> str:
    return describe_kernel(candidate.problem.model.kernel)


def _fit(trial: Trial, problem: Problem, starts: Sequence[np.ndarray]) -> Candidate | None:
    """The best fit of a kernel to the rows, from several starts; None where nothing can be fitted.

    Where there is a surrogate, a quicker inference, it finds the hyperparameters; evidence and density are those of the
    problem's own inference.
    """
    exact = trial.exact(problem, KERNEL.search)
    best, evidence = None, None
    for stage in trial.ends(exact.by_surrogate, starts):
        try:
            own = exact.evaluate(stage.point, gradient=False)
        except KnotwiseError:
            continue
        if own.converged and (evidence is None or own.value > evidence.value):
            best, evidence = stage, own
    if best is None or evidence is None:
        return None
    density = validation_density(ExactPosterior(evidence.state), trial.validation)
    tried = Candidate(problem, best, evidence.value, density)
    note = f"{_name(tried)}, {len(trial.fitted)} rows"
    if len(density):
        mean = float(np.average(density, weights=trial.validation.weights))
        note += f"; log density of {len(trial.validation)} others {mean:.3f}"
    trial.trace.add("kernel", 0, tried.value, n_rows=trial.fitted.count, note=note)
    return tried


def _log_bayes_factor(trial: Trial, tried: Candidate) -> float:
    """Of a kernel against a model without inputs; 0 where that cannot be fitted."""
    exact = trial.exact(tried.problem, KERNEL.search)
    try:
        return tried.value - exact.log_evidence(without_inputs(exact, tried.theta, trial.no_knots, trial.rng))
    except KnotwiseError:
        return 0.0


def _price(larger: Candidate, smaller: Candidate) -> float:
    """Nats of evidence that a kernel with more parameters must bring."""
    return n_identifiable(larger.problem) - n_identifiable(smaller.problem) + KERNEL.margin


def _pays(trial: Trial, larger: Candidate, smaller: Candidate) -> bool:
    """Whether a kernel with more parameters is worth them."""
    price = _price(larger, smaller)
    gain = larger.value - smaller.value
    mean, error = trial.gain(larger.density, smaller.density)
    if np.isnan(mean):  # nothing confirms the evidence
        return gain > KERNEL.unconfirmed * price
    least = error if price > KERNEL.few_rows * len(trial.fitted) else -error
    if not ((gain > price and mean > least) or mean > KERNEL.clear * error):
        return False
    few = price < KERNEL.many_parameters * len(trial.fitted)
    return few or _error_beyond(trial, larger) <= _error_beyond(trial, smaller)


def _error_beyond(trial: Trial, tried: Candidate) -> float:
    """Mean squared error of predicted means in rows beyond the others, at the hyperparameters of all fitted rows."""
    errors = []
    for far in trial.beyond(KERNEL.half_spaces, KERNEL.beyond_share):
        exact = replace(tried.problem.on_rows(far.fitted), full=True)
        try:
            evidence = exact.evaluate(exact.point(tried.theta, far.no_knots), gradient=False)
        except KnotwiseError:
            return np.inf
        errors.append((far.validation.y - predicted_mean(ExactPosterior(evidence.state), far.validation)) ** 2)
    return float(np.concatenate(errors).mean())


def screen_columns(X: np.ndarray, y: np.ndarray) -> list[int]:
    """The columns that explain most of y one after the other, by ranks; an empty list where chance explains as much.

    Of each column a line and a parabola are tried, on what the columns before it leave of y. Ranks make it the same for
    every monotone scale of a column, and keep outliers from deciding. Costs O(n D) for each column that is taken.
    """
    from scipy.special import ndtri
    from scipy.stats import rankdata

    n_rows, n_columns = X.shape
    lines = rankdata(X, axis=0) / n_rows  # [n, D]
    features = np.stack([lines, (lines - 0.5) ** 2])  # [2, n, D]
    features -= features.mean(1, keepdims=True)
    norms = np.maximum((features**2).sum(1), np.finfo(float).tiny)  # [2, D]; a constant column has none
    left = rankdata(y) - (n_rows + 1) / 2
    # squared correlation that the best of all columns has by chance
    least = ndtri(1 - SCREENING.chance / (4 * n_columns)) ** 2 / n_rows
    taken: list[int] = []
    basis: list[np.ndarray] = []
    while len(taken) < SCREENING.most_columns and left @ left > 0:
        explained = (left @ features) ** 2 / norms / (left @ left)  # [2, D]
        best = int(np.argmax(explained.max(0)))
        if explained[:, best].max() < least or best in taken:
            break
        taken.append(best)
        for direction in features[:, :, best]:
            for other in basis:  # Gram-Schmidt: the columns are correlated
                direction = direction - (direction @ other) * other
            length = float(np.sqrt(direction @ direction))
            if length > SCREENING.independent * np.sqrt(n_rows):
                basis.append(direction / length)
                left = left - (left @ basis[-1]) * basis[-1]
    return sorted(taken)
