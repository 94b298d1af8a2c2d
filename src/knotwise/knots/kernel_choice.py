"""Which kernel: one length-scale or one per column, and how smooth? Exact GPs on some rows, judged on others.

The evidence alone prefers a length-scale per column nearly always, and is wrong where columns are gridded or rows are
few. So a kernel with more parameters must have enough evidence to pay for them, and must not predict rows worse that it
has not seen; of kernels with as many parameters, evidence and held-out density decide together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from knotwise.errors import KnotwiseError
from knotwise.evidence import Rows
from knotwise.kernels.describe import describe_kernel
from knotwise.kernels.stationary import Matern32, Matern52, SquaredExponential, Stationary
from knotwise.knots.automatic.signal import n_told, threshold, without_inputs
from knotwise.knots.held_out import held_out_density, mean_gain
from knotwise.knots.problem import Found, Problem
from knotwise.knots.start import spread_out, starting_theta, subset_rows
from knotwise.knots.trace import KnotTrace
from knotwise.optimize.lbfgs import LBFGS
from knotwise.posterior import FullPosterior

__all__ = ["choose_kernel"]

FIT_ROWS, HELD_OUT_ROWS = 300, 1000
ROWS_PER_COLUMN, MOST_FIRST_ROWS, MOST_ROWS, MOST_ROWS_SEARCHED = 25, 800, 1000, 600  # fewer where each costs more
FIT_SHARE = 0.7  # of the rows, where they are few
LEAST_ROWS = 30  # below which nothing is chosen
LEAST_HELD_OUT = 30  # rows that can tell something
SMOOTHER_FIRST: tuple[type[Stationary], ...] = (SquaredExponential, Matern52, Matern32)
LONGER = 1.4  # length-scales of a rougher kernel, relative to those of the smoother one
MARGIN = 3.0  # nats of evidence, beyond one for each further parameter
SMOOTHNESS_MARGIN = 3.0  # nats that a rougher kernel must bring, since it needs more knots
FEW_ROWS_PER_PARAMETER = 0.2  # further parameters for each row from which on the evidence must be confirmed
CLEAR = 2.0  # standard errors by which held-out rows decide alone
SEARCH = LBFGS(max_iterations=60, value_tolerance=1e-6, gradient_tolerance=1e-2)


@dataclass(frozen=True)
class Tried:
    """A kernel with parameters that fit some rows: their log evidence, and the log density of each row held out."""

    problem: Problem
    theta: np.ndarray
    evidence: float
    density: np.ndarray

    @property
    def n_free(self) -> int:
        return n_told(self.problem)

    @property
    def name(self) -> str:
        return describe_kernel(self.problem.model.kernel)


@dataclass(frozen=True)
class Trial:
    """Rows to fit and rows to be predicted, on which kernels are compared."""

    fitted: Rows
    held_out: Rows
    rng: np.random.Generator
    trace: KnotTrace

    @staticmethod
    def draw(problem: Problem, n_fit: int, rng: np.random.Generator, trace: KnotTrace) -> Trial:
        """Random rows of both kinds; of few rows most are fitted."""
        n_rows = problem.summary.n_rows
        n_fit = min(n_fit, int(FIT_SHARE * n_rows)) if n_rows * (1 - FIT_SHARE) >= LEAST_HELD_OUT else n_rows
        chosen = rng.permutation(problem.sample(n_fit + HELD_OUT_ROWS, rng, by_weight=True))
        fitted, held_out = (np.sort(part) for part in (chosen[:n_fit], chosen[n_fit:]))
        return Trial(subset_rows(problem, fitted), problem.take(held_out), rng, trace)

    def fit(self, problem: Problem, starts: Sequence[np.ndarray]) -> Tried | None:
        """The best fit of a kernel to the rows, from several starts; None where nothing can be fitted.

        Where there is a guide, a quicker inference, it finds the parameters; evidence and density are those of the
        problem's own inference.
        """
        exact = self._exact(problem)
        best, evidence = None, None
        for start in starts:
            try:
                stage = exact.guided.optimize(start, np.empty((0, self.fitted.X.shape[1])), self.rng)
                own = exact.evaluate(stage.point, gradient=False)
            except KnotwiseError:
                continue
            if own.converged and (evidence is None or own.value > evidence.value):
                best, evidence = stage, own
        if best is None or evidence is None:
            return None
        tried = Tried(
            problem, best.theta, evidence.value, held_out_density(FullPosterior(evidence.state), self.held_out)
        )
        note = f"{tried.name}, {len(self.fitted)} rows"
        if len(tried.density):
            note += f"; log density of {len(self.held_out)} others {self._mean(tried.density):.3f}"
        self.trace.add("kernel", 0, tried.evidence, n_rows=self.fitted.count, note=note)
        return tried

    def gain(self, tried: Tried) -> float:
        """Nats of evidence above a model without inputs; none where that cannot be fitted."""
        exact = self._exact(tried.problem)
        try:
            null = without_inputs(exact, tried.theta, np.empty((0, self.fitted.X.shape[1])), self.rng)
        except KnotwiseError:
            return 0.0
        return tried.evidence - exact.log_evidence(null)

    def _exact(self, problem: Problem) -> Problem:
        return replace(problem.on_rows(self.fitted), optimizer=SEARCH, full=True, n_restarts=0)

    def _mean(self, density: np.ndarray) -> float:
        return float(np.average(density, weights=self.held_out.weights))

    def compare(self, one: Tried, other: Tried) -> tuple[float, float]:
        """Mean gain in held-out log density of one kernel over another, and its standard error; NaN without rows."""
        return mean_gain(one.density, other.density, self.held_out.weights)

    def total_gain(self, one: Tried, other: Tried) -> float:
        """Nats by which one kernel is better than another of as many parameters, by evidence and rows held out."""
        mean, _ = self.compare(one, other)
        return one.evidence - other.evidence + (0.0 if np.isnan(mean) else len(self.fitted) * mean)

    def pays(self, larger: Tried, smaller: Tried) -> bool:
        """Whether a kernel with more parameters is worth them."""
        price = larger.n_free - smaller.n_free + MARGIN
        gain = larger.evidence - smaller.evidence
        mean, error = self.compare(larger, smaller)
        if np.isnan(mean):  # nothing confirms the evidence
            return gain > 2 * price
        least = error if price > FEW_ROWS_PER_PARAMETER * len(self.fitted) else -error
        return (gain > price and mean > least) or mean > CLEAR * error


def choose_kernel(make: Callable[[Stationary], Problem], rng: np.random.Generator) -> Problem:
    """The problem with the kernel that suits the data, and with parameters from which to start.

    `make` puts the problem together for a kernel. Kernels are squared exponential, Matern 5/2 and Matern 3/2, with one
    length-scale or one per column. Where none finds a signal on few rows, more are looked at: of many columns, those
    that matter may be hard to see.
    """
    plain = make(SquaredExponential())
    if plain.optimizer is None or plain.summary.n_rows < LEAST_ROWS:
        return plain
    trace, best = plain.new_trace(), None
    for n_rows in _numbers_of_rows(plain):
        trial = Trial.draw(plain, n_rows, rng, trace)
        best = _choose(make, plain, trial)
        if best is None:
            return plain
        gain = trial.gain(best)
        if len(trial.fitted) < n_rows or gain > threshold(best.problem):
            break
    assert best is not None
    trace.add("kernel", 0, best.evidence, n_rows=trial.fitted.count, note=f"{best.name} is taken")
    found = Found(best.theta, len(trial.fitted), gain)
    return replace(best.problem, found=found, earlier=tuple(trace), with_kernel=make)


def _numbers_of_rows(problem: Problem) -> tuple[int, int]:
    """How many rows are fitted at first, more of them for many columns, and where these show no signal."""
    if not problem.model.likelihood.conjugate:
        return FIT_ROWS, MOST_ROWS_SEARCHED
    return max(FIT_ROWS, min(ROWS_PER_COLUMN * len(problem.varying_variances), MOST_FIRST_ROWS)), MOST_ROWS


def _choose(make: Callable[[Stationary], Problem], plain: Problem, trial: Trial) -> Tried | None:
    one = trial.fit(plain, [starting_theta(plain.guided, trial.rng)])
    if len(plain.varying_variances) <= 1 or one is None:  # a constant column has no length-scale
        return None if one is None else _roughen(make, one, trial)
    wide = make(SquaredExponential(ard=True))
    several = trial.fit(wide, [spread_out(one.theta, plain, wide), wide.table.theta])
    if several is None:
        return _roughen(make, one, trial)
    mean, error = trial.compare(several, one)
    gain = several.evidence - one.evidence
    price = several.n_free - one.n_free + MARGIN
    if gain > 10 * price and mean > CLEAR * error:  # whatever the smoothness
        return _roughen(make, several, trial)
    if gain < price and mean < 0:
        return _roughen(make, one, trial)
    one, several = _roughen(make, one, trial), _roughen(make, several, trial)
    return several if trial.pays(several, one) else one


def _roughen(make: Callable[[Stationary], Problem], best: Tried, trial: Trial) -> Tried:
    """The same with a rougher kernel, and a still rougher one, for as long as that is better."""
    for kind in SMOOTHER_FIRST[1:]:
        problem = make(kind(ard=getattr(best.problem.model.kernel, "ard", False)))
        longer = np.log(LONGER) * problem.table.with_role("lengthscale") * problem.free
        tried = trial.fit(problem, [best.theta + longer])
        if tried is None or trial.total_gain(tried, best) < SMOOTHNESS_MARGIN:
            break
        best = tried
    return best
