"""Which transform of a Gaussian target: none, the logarithm, the square root, or Yeo-Johnson's where one tail is long?

With the Jacobian the evidences of the same rows compare (Y1), and so do densities of rows that were left out, in the
units of the target. A quick look at the rows says whether there is any reason to ask: a spread that grows with the
level, or a long tail. Exact GPs of some rows, one smooth and one rough, then tell the evidence under each transform; it
must be clearly larger, and rows that were left out must not be predicted worse.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize_scalar

from knotwise.decisions.candidates import fit_candidate, price
from knotwise.decisions.thresholds import KERNEL, TRANSFORM
from knotwise.decisions.trials import Candidate, Trial
from knotwise.evidence.model import Rows
from knotwise.kernels.stationary import Matern12, Matern52
from knotwise.numerics.nearest import Nearest
from knotwise.selection.base import Decision
from knotwise.selection.problem import KernelMaker, Problem
from knotwise.selection.starts import spread_out, subset_rows
from knotwise.transforms import Log, Sqrt, Transform, YeoJohnson


@dataclass(frozen=True)
class Target:
    """The problem of a fit to the target as it is, what makes it for other kernels, and the way back to y.

    `with_kernel` is None where a kernel was given; `natural` turns targets of the engine into those of the user, and
    `log_slope` is the logarithm of its engine's units in the user's.
    """

    problem: Problem
    with_kernel: KernelMaker | None
    natural: Callable[[np.ndarray], np.ndarray]
    log_slope: float = 0.0


@dataclass(frozen=True)
class Rival:
    """A transform, None for the target as it is, and the rows of a trial under it, with log T' of each."""

    transform: Transform | None
    trial: Trial
    fitted_slopes: np.ndarray
    judged_slopes: np.ndarray

    @staticmethod
    def of(target: Target, transform: Transform | None, trial: Trial) -> Rival:
        """The same rows under a transform: centred and scaled, as the rows of a fit are."""
        natural = target.natural(trial.fitted.y)
        transform = None if transform is None else transform.learned(natural)

        def z_and_slope(rows: Rows) -> tuple[np.ndarray, np.ndarray]:
            if transform is None:
                return rows.y, np.full(len(rows), target.log_slope)
            y = target.natural(rows.y)
            return transform(y), transform.log_slope(y)

        fitted, slopes = z_and_slope(trial.fitted)
        others, other_slopes = z_and_slope(trial.validation)
        centre, scale = fitted.mean(), fitted.std() or 1.0
        rows = [replace(r, y=(z - centre) / scale) for r, z in ((trial.fitted, fitted), (trial.validation, others))]
        judged = other_slopes if len(trial.validation) else slopes
        own = replace(trial, fitted=rows[0], validation=rows[1])
        return Rival(transform, own, slopes - np.log(scale), judged - np.log(scale))

    @property
    def word(self) -> str:
        return "" if self.transform is None else self.transform.word

    def value(self, tried: Candidate) -> float:
        """Log evidence of the fitted rows in the units of y. (Y1)"""
        return tried.value + float(self.fitted_slopes.sum())

    def density(self, tried: Candidate) -> np.ndarray:
        """Log density of each validation row in the units of y."""
        return self.trial.judged(tried).density + self.judged_slopes


def decide(target: Target, rng: np.random.Generator) -> Decision[Transform | None]:
    """The transform with which the target is modelled, None for the target as it is; `why` is empty where none was
    tried.
    """
    transforms = candidates(target, rng)
    if not transforms:
        return Decision(None, "")
    trial = _draw(target.problem, rng)
    plain = Rival.of(target, None, trial)
    stand = best_fit(plain, target)
    if stand is None:
        return Decision(None, "")
    chosen, chosen_fit, numbers, said = plain, stand, {"n_rows": float(len(trial.fitted))}, {}
    for transform in transforms:
        if transform.is_open:
            transform = with_power(transform, target, trial, stand)
        rival = Rival.of(target, transform, trial)
        tried = best_fit(rival, target, stand)
        if tried is None:
            continue
        gain = rival.value(tried) - plain.value(stand)
        least = TRANSFORM.margin + TRANSFORM.per_power * (getattr(transform, "power", None) is not None)
        mean, error = trial.labels.gain(rival.density(tried), plain.density(stand))
        numbers |= {f"{rival.word}_gain": gain, f"{rival.word}_density_gain": mean, f"{rival.word}_error": error}
        said[rival.word] = f"{gain:+.0f} nats, {mean:+.3f} +- {error:.3f} in the log density of a row left out"
        least = max(least, TRANSFORM.per_row * len(trial.fitted))
        if gain > least and mean > TRANSFORM.sure * error and rival.value(tried) > chosen.value(chosen_fit):
            chosen, chosen_fit = rival, tried
            numbers |= {"gain": gain, "threshold": least, "density_gain": mean, "standard_error": error}
    numbers["log_evidence"] = chosen.value(chosen_fit)
    against = f"against the target as it is on {len(trial.fitted)} rows"
    if chosen.transform is None:
        others = "; ".join(f"{word} {words}" for word, words in said.items())
        return Decision(None, f"no transform is clearly better, {against}: {others}", numbers)
    own = said.pop(chosen.word)
    others = "".join(f"; {word} {words.partition(',')[0]}" for word, words in said.items())
    return Decision(fresh(chosen.transform), f"{own}, {against}{others}", numbers)


def choose_power(target: Target, transform: Transform, rng: np.random.Generator) -> Decision[Transform]:
    """A transform that was asked for, with the power that is likeliest on some rows."""
    trial = _draw(target.problem, rng)
    plain = Rival.of(target, None, trial)
    stand = best_fit(plain, target)
    if stand is None:
        return Decision(transform.with_power(1.0), "no power could be fitted, so that it is 1")
    found = with_power(transform, target, trial, stand)
    rival = Rival.of(target, found, trial)
    tried = best_fit(rival, target, stand)
    gain = np.nan if tried is None else rival.value(tried) - plain.value(stand)
    why = f"power {found.power:.2g}, {gain:+.0f} nats against the target as it is on {len(trial.fitted)} rows"
    return Decision(fresh(found), why, {"gain": gain, "n_rows": float(len(trial.fitted))})


def fresh(transform: Transform) -> Transform:
    """The same transform and power, with its other constants left to all rows."""
    power = getattr(transform, "power", None)
    return type(transform)() if power is None else type(transform)().with_power(round(power, 2))


# -- is there a reason? -------------------------------------------------------------------------------------


def candidates(target: Target, rng: np.random.Generator) -> list[Transform]:
    """The transforms that are worth fits: none for targets that show no reason, in a few milliseconds."""
    problem = target.problem
    rows = problem.take(problem.sample(TRANSFORM.screened, rng, by_weight=problem.summary.is_weighted))
    y = target.natural(rows.y)
    if len(y) < TRANSFORM.least_rows or y.min() == y.max():
        return []
    lowest = problem_lowest(target)
    low, high = np.quantile(y, TRANSFORM.range)
    if (y == lowest).mean() > TRANSFORM.atom:  # one value has a probability of its own: no transform spreads it
        return []
    level, error = _local(rows)
    skewness = _skewness(y)
    if lowest >= 0:
        if low > 0 and high < TRANSFORM.ratio * low:  # over so short a range they are straight
            return []
        grows = _rank_correlation(level, np.abs(error))
        if grows < TRANSFORM.grows(len(y)) and skewness < TRANSFORM.skewness:
            return []
        return [Log(), Sqrt()] if lowest > 0 else [Sqrt()]
    # of both signs: a long tail of the target and of its local errors
    if abs(skewness) > TRANSFORM.long_tail and np.sign(skewness) * _skewness(error) > TRANSFORM.skewness:
        return [YeoJohnson()]
    return []


def problem_lowest(target: Target) -> float:
    """The lowest target of all rows."""
    return float(target.natural(np.array([target.problem.rows.y.min()]))[0])


def _local(rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """The mean of the nearest rows of each, without itself, and how far it is from this."""
    k = min(TRANSFORM.neighbours, len(rows) - 1)
    nearest = Nearest(rows.X)(rows.X, k + 1)
    own = nearest == np.arange(len(rows))[:, None]
    own[~own.any(1), -1] = True  # of equal rows others come first
    level = rows.y[nearest[~own].reshape(len(rows), k)].mean(1)
    return level, rows.y - level


def _skewness(values: np.ndarray) -> float:
    centred = values - values.mean()
    variance = float((centred**2).mean())
    scores = centred / np.sqrt(variance) if variance > 0 else centred
    return float((scores * scores**2).mean())


def _rank_correlation(a: np.ndarray, b: np.ndarray) -> float:
    one, other = (np.argsort(np.argsort(each, kind="stable"), kind="stable") for each in (a, b))
    return float(np.corrcoef(one, other)[0, 1])


# -- fits -----------------------------------------------------------------------------------------------------


def _draw(problem: Problem, rng: np.random.Generator) -> Trial:
    """Rows to fit, and others to predict; of few rows all are fitted, and each is predicted from the others."""
    n_rows, weighted = TRANSFORM.rows + TRANSFORM.validation_rows, problem.summary.is_weighted
    numbers, trace = problem.sample(n_rows, rng, by_weight=weighted), problem.new_trace()
    if len(numbers) <= KERNEL.a_few_more * TRANSFORM.rows:
        rows = subset_rows(problem, numbers)
        return Trial(rows, rows[:0], rng, trace, each_alone=True)
    order = rng.permutation(len(numbers))
    fitted, others = (np.sort(numbers[order[part]]) for part in (slice(TRANSFORM.rows), slice(TRANSFORM.rows, None)))
    return Trial(subset_rows(problem, fitted), subset_rows(problem, others), rng, trace)


def best_fit(rival: Rival, target: Target, like: Candidate | None = None) -> Candidate | None:
    """The best of a smooth and a rough kernel, with a length-scale per column where that pays; starts where the same
    kernel of another transform ended, too.
    """
    if target.with_kernel is None:
        return _fit(rival.trial, target.problem, like)
    fits = [(kind, _fit(rival.trial, target.with_kernel(kind()), like)) for kind in (Matern52, Matern12)]
    found = [(kind, each) for kind, each in fits if each is not None]
    if not found:
        return None
    kind, one = max(found, key=lambda pair: pair[1].value)
    if not 1 < len(target.problem.varying_variances) <= KERNEL.many_columns:
        return one
    wide = target.with_kernel(kind(ard=True))
    each = fit_candidate(rival.trial, wide, [spread_out(one.theta, one.problem, wide)], TRANSFORM.search)
    return one if each is None or each.value - one.value < price(each, one) else each


def _fit(trial: Trial, problem: Problem, like: Candidate | None) -> Candidate | None:
    start = problem.table.theta
    if like is not None and len(like.theta) == len(start):
        starts = [like.theta]
    else:
        lengthscales = problem.table.with_role("lengthscale") & problem.free
        starts = [start, start + np.log(TRANSFORM.shorter) * lengthscales]
    return fit_candidate(trial, problem, starts, TRANSFORM.search)


def with_power(transform: Transform, target: Target, trial: Trial, like: Candidate) -> Transform:
    """The transform with the power that is likeliest, by the kernel that suits the target as it is."""
    ends: dict[float, Candidate] = {1.0: like}

    def loss(power: float) -> float:
        rival = Rival.of(target, transform.with_power(power), trial)
        nearest = ends[min(ends, key=lambda known: abs(known - power))]
        tried = fit_candidate(rival.trial, like.problem, [nearest.theta], TRANSFORM.search)
        if tried is None:
            return np.inf
        ends[power] = tried
        return -rival.value(tried)

    options = {"xatol": TRANSFORM.power_tolerance, "maxiter": TRANSFORM.powers}
    found = minimize_scalar(loss, bounds=transform.power_bounds, method="bounded", options=options)
    return transform.with_power(round(float(found.x), 2))
