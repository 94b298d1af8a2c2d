"""Which kernel: one length-scale or one per column, and how smooth? Exact GPs on some rows, judged on others.

The evidence alone prefers a length-scale per column nearly always, and is wrong where columns are gridded or rows are
few. So a kernel with more parameters must have enough evidence to pay for them, and must not predict rows worse that it
has not seen; of kernels with as many parameters, evidence and held-out density decide together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from knotwise.decisions.held_out import held_out_density, mean_gain, predicted_mean
from knotwise.decisions.screening import screen_columns
from knotwise.decisions.signal import n_told, threshold
from knotwise.errors import InvalidInputError, KnotwiseError
from knotwise.evidence import Rows
from knotwise.kernels.base import Kernel
from knotwise.kernels.describe import describe_kernel
from knotwise.kernels.stationary import Matern32, Matern52, SquaredExponential, Stationary
from knotwise.optimize.lbfgs import LBFGS
from knotwise.posterior.exact import ExactPosterior
from knotwise.selection.problem import Found, Problem
from knotwise.selection.starts import spread_out, starting_theta, subset_rows, without_inputs
from knotwise.selection.trace import KnotTrace

__all__ = ["choose_kernel"]

FIT_ROWS, HELD_OUT_ROWS = 300, 1000
ROWS_PER_COLUMN, MOST_FIRST_ROWS, MOST_ROWS, MOST_ROWS_SEARCHED = 25, 800, 1000, 600  # fewer where each costs more
FIT_SHARE = 0.7  # of the rows, where they are few
LEAST_ROWS = 30  # below which nothing is chosen
LEAST_HELD_OUT = 30  # rows that can tell something
SMOOTHER_FIRST: tuple[type[Stationary], ...] = (SquaredExponential, Matern52, Matern32)
MANY_COLUMNS = 20  # from which on a kernel on the few that explain most is tried, too
LONGER = 1.4  # length-scales of a rougher kernel, relative to those of the smoother one
MARGIN = 3.0  # nats of evidence, beyond one for each further parameter
SMOOTHNESS_MARGIN = 3.0  # nats that a rougher kernel must bring, since it needs more knots
FEW_ROWS_PER_PARAMETER = 0.2  # further parameters for each row from which on the evidence must be confirmed
#: further parameters for each row from which on rows beyond the others must be predicted as well, too: of 128 columns
#: whose largest values are far out, a length-scale for each extrapolated to three standard deviations of y
MANY_PARAMETERS = 0.1
HALF_SPACES, BEYOND_SHARE = 8, 0.07  # random directions, and the share of rows that lie farthest out in each
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
            problem, best.theta, evidence.value, held_out_density(ExactPosterior(evidence.state), self.held_out)
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
        if not ((gain > price and mean > least) or mean > CLEAR * error):
            return False
        few = price < MANY_PARAMETERS * len(self.fitted)
        return few or self.error_beyond(larger) <= self.error_beyond(smaller)

    def error_beyond(self, tried: Tried) -> float:
        """Mean squared error of predicted means in rows beyond the others: past half-spaces that cut some rows off.

        The hyperparameters stay as all fitted rows have them.
        """
        rows, errors = self.fitted, []
        rng = np.random.default_rng(0)  # the same half-spaces for every kernel
        for _ in range(HALF_SPACES):
            along = rows.X @ rng.standard_normal(rows.X.shape[1])
            is_beyond = along > np.quantile(along, 1 - BEYOND_SHARE)
            beyond, others = rows[np.flatnonzero(is_beyond)], rows[np.flatnonzero(~is_beyond)]
            exact = replace(tried.problem.on_rows(others), full=True)
            at = exact.point(tried.theta, np.empty((0, rows.X.shape[1])))
            try:
                posterior = ExactPosterior(exact.evaluate(at, gradient=False).state)
            except KnotwiseError:
                return np.inf
            errors.append((beyond.y - predicted_mean(posterior, beyond)) ** 2)
        return float(np.concatenate(errors).mean())


def choose_kernel(make: Callable[[Kernel], Problem], rng: np.random.Generator) -> Problem:
    """The problem with the kernel that suits the data, and with parameters from which to start.

    `make` puts the problem together for a kernel. Kernels are squared exponential, Matern 5/2 and Matern 3/2, with one
    length-scale or one per column, and of many columns also on the few that explain most. Where none finds a signal on
    few rows, more are looked at: of many columns, those that matter may be hard to see.
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
    return replace(best.problem, found=found, earlier=tuple(trace), with_kernel=_maker(make, best.problem.model.kernel))


def _maker(make: Callable[[Kernel], Problem], like: Kernel) -> Callable[[Kernel], Problem]:
    """Makes problems for kernels on the columns of another."""
    columns = like.restricted_to
    return make if columns is None else lambda kernel: make(kernel.on(columns))


def _numbers_of_rows(problem: Problem) -> tuple[int, int]:
    """How many rows are fitted at first, more of them for many columns, and where these show no signal."""
    if not problem.model.likelihood.conjugate:
        return FIT_ROWS, MOST_ROWS_SEARCHED
    return max(FIT_ROWS, min(ROWS_PER_COLUMN * len(problem.varying_variances), MOST_FIRST_ROWS)), MOST_ROWS


def _choose(make: Callable[[Kernel], Problem], plain: Problem, trial: Trial) -> Tried | None:
    one = trial.fit(plain, [starting_theta(plain.guided, trial.rng)])
    n_columns = len(plain.varying_variances)
    if n_columns <= 1 or one is None:  # a constant column has no length-scale
        return None if one is None else _roughen(make, one, trial)
    best = _one_or_several(make, plain, one, trial)
    if n_columns <= MANY_COLUMNS or plain.model.kernel.groups is not None:
        return best
    columns = screen_columns(trial.fitted.X, trial.fitted.y)
    if not columns or len(columns) == n_columns:
        return best
    try:
        few = make(SquaredExponential(ard=True).on(columns))
    except InvalidInputError:  # what a user has fixed or bounded is named as of a kernel of all columns
        return best
    tried = trial.fit(few, [few.table.theta])
    if tried is None:
        return best
    tried = _roughen(make, tried, trial)
    if best.n_free > tried.n_free:
        return best if trial.pays(best, tried) else tried
    return tried if trial.pays(tried, best) else best


def _one_or_several(make: Callable[[Kernel], Problem], plain: Problem, one: Tried, trial: Trial) -> Tried:
    """One length-scale for all columns, or one for each."""
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


def _roughen(make: Callable[[Kernel], Problem], best: Tried, trial: Trial) -> Tried:
    """The same with a rougher kernel, and a still rougher one, for as long as that is better."""
    like = best.problem.model.kernel
    per_column = getattr(like.unrestricted, "ard", False)
    for kind in SMOOTHER_FIRST[1:]:
        problem = _maker(make, like)(kind(ard=per_column))
        longer = np.log(LONGER) * problem.table.with_role("lengthscale") * problem.free
        tried = trial.fit(problem, [best.theta + longer])
        if tried is None or trial.total_gain(tried, best) < SMOOTHNESS_MARGIN:
            break
        best = tried
    return best
