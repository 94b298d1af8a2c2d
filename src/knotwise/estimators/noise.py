"""Noise that varies, from an estimator's option to its fit: the decision, the fit with it, and what is kept of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtri
from sklearn.utils.validation import check_is_fitted

from knotwise.data.scaled import TrainingData
from knotwise.decisions import noise
from knotwise.decisions.auto import Auto
from knotwise.decisions.thresholds import HEAVY_TAILS
from knotwise.errors import InvalidInputError, warn
from knotwise.estimators.assemble import Assembly
from knotwise.noise import Inputs
from knotwise.numerics.blocks import is_dask
from knotwise.selection.base import Selection, Stage
from knotwise.selection.problem import Problem
from knotwise.selection.trace import Action, Status
from knotwise.selection.varying_noise import VaryingFit

#: of the one generator of this decision: the same data have the same noise, and the fit its own random numbers
SEED = 0
#: quantiles of the rows' noise between which it is said to vary
OUTER = (0.05, 0.95)

Select = Callable[[Problem, np.random.Generator], Selection]


@dataclass(frozen=True)
class NoiseRecord:
    """What is kept of noise that varies: the price of not knowing it, and how much it varies, in the engine's units.

    `penalty` is what the bound of both functions is below the log evidence of f (H2), `gain` the bound over that of
    constant noise, or with neighbours, where there is none, the gain in log density of a row; `low` and `high` are sds
    of the noise of training rows, near the least and the most.
    """

    penalty: float
    gain: float
    low: float
    high: float
    near: bool

    def in_words(self, y_scale: float) -> str:
        """How much the noise varies, in the units of y, and what it gains."""
        gained = f"{self.gain:+.3f} in the log density of a row" if self.near else f"{self.gain:.0f} nats"
        return f"the noise sd varies from {self.low * y_scale:.2g} to {self.high * y_scale:.2g}: {gained}"


@dataclass(frozen=True)
class NoiseChoice:
    """A selection with the noise that was decided on; without a record it is constant.

    Constant noise is `suspicious` where errors have heavier tails than normal ones.
    """

    problem: Problem
    selection: Selection
    record: NoiseRecord | None = None
    suspicious: bool = False


@dataclass(frozen=True, eq=False)
class NoiseEstimate:
    """Standard deviation of the noise at some rows, in the units of y; what `GPRegressor.predict_noise` returns.

    Attributes
    ----------
    sd : array [n]
        Medians: as likely too large as too small.
    lower, upper : array [n]
        Ends of the central interval.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise import GPRegressor
    >>> X = np.linspace(0, 1, 60)[:, None]
    >>> y = np.sin(9 * X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=60)
    >>> gp = GPRegressor(noise="constant", random_state=0).fit(X, y)
    >>> noise = gp.predict_noise(X[:2])  # the same everywhere
    >>> bool(noise.sd[0] == noise.sd[1] == noise.lower[0] == noise.upper[0])
    True
    """

    sd: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


def predict_noise(model: Any, X: Any, level: float) -> NoiseEstimate:
    """What `GPRegressor.predict_noise` does: see there."""
    check_is_fitted(model)
    likelihood, y_scale = model._fit.model.likelihood, model._fit.scaling.y_scale
    if not likelihood.conjugate:
        raise InvalidInputError(
            f"`predict_noise` is for Gaussian data, but the likelihood is {type(likelihood).__name__}. Ask for the "
            "standard deviation of an observation, `predict(X, return_std=True)`."
        )
    if model._fit.noise_given:
        raise InvalidInputError("The noise of each row was given to this fit, so that of other rows is not known.")
    if is_dask(X):
        raise InvalidInputError("`predict_noise` needs rows in memory, but got a Dask collection (`X.compute()`).")
    rows = Inputs(model._engine_inputs(X))
    mean, variance = likelihood.log_noise(rows)
    reach = ndtri(0.5 + 0.5 * level) * np.sqrt(variance)
    sd, lower, upper = (y_scale * np.exp(0.5 * (mean + shift)) for shift in (0.0, -reach, reach))
    return NoiseEstimate(sd, lower, upper)


def is_auto(knots: Any) -> bool:
    """Whether knots are chosen until they are enough."""
    return isinstance(knots, Auto) or (isinstance(knots, str) and knots == "auto")


def is_open(estimator: Any, data: TrainingData, made: Assembly, *, has_noise: bool) -> bool:
    """Whether the data are to decide how the noise varies, or the user has said that it does."""
    word, problem = estimator.noise, made.problem
    levels = problem.table.of_part("likelihood")
    if word == "auto":
        given = estimator.likelihood != "gaussian" or has_noise or estimator.optimizer is None
        # few knots that were given leave misfit, which seems noise that is larger in some places
        given |= not (problem.full or is_auto(estimator.knots))
        held = problem.table.fixed[levels].any() or problem.given[levels].any()
        return not (given or held or made.little_information) and data.at_hand
    if word != "varying":
        return False
    if made.little_information:
        warn("`noise='varying'` was asked for, but the targets do not differ: the noise is taken for constant.")
        return False
    return True


def refuse(estimator: Any, likelihood: Any, *, has_noise: bool, lazy: bool) -> None:
    """Say why noise that was asked to vary, or to have heavy tails, cannot."""
    word = estimator.noise
    if word not in ("varying", "heavy"):
        return
    why = ""
    if not likelihood.conjugate:
        why = f"is for Gaussian data, but the likelihood is {type(likelihood).__name__}. Leave it out"
    elif likelihood.uses_inputs:
        why = f"and the likelihood {likelihood!r}, whose noise varies already, contradict each other. Leave one out"
    elif has_noise:
        why = "is learned, but the noise of each row was given as `noise_variance`. Leave one of them out"
    elif lazy:
        why = "needs rows in memory, but got a Dask collection. Give some of the rows (`X.compute()`), or leave it out"
    elif estimator.optimizer is None:
        why = (
            "is learned, and `optimizer=None` forbids that. Give the noise of another fit instead, "
            "`likelihood=gp.likelihood_`"
        )
    elif word == "heavy" and np.isfinite(likelihood.given).any():
        why = f"and the likelihood {likelihood!r}, whose noise has a value, contradict each other. Leave one out"
    if why:
        raise InvalidInputError(f"`noise={word!r}` {why}.")


def choose(
    estimator: Any, made: Assembly, problem: Problem, selection: Selection, select: Select, rng: np.random.Generator
) -> NoiseChoice:
    """The fit with constant noise, or with noise that varies where that is asked for or pays.

    `problem` is what was handed to `select`. The final knots and hyperparameters are chosen as for any noise, now with
    that of each row.
    """
    ended = selection.problem or problem
    own, near = np.random.default_rng(SEED), noise.residual_neighbours(ended) > 0
    asked = estimator.noise == "varying"
    ended_well = selection.status in (None, Status.NO_SIGNAL) and selection.result.converged
    if not asked and not ended_well:  # too few knots leave misfit, too
        return NoiseChoice(problem, selection)
    decision = noise.decide(ended, selection, made.with_kernel.of_log_noise, own, asked=asked)
    varying = decision.choice
    if varying is None:
        if decision.why:
            trace = selection.trace
            trace.add(Action.NOISE, len(selection.Z), selection.evidence.value, note=decision.why)
            trace.steps[-2:] = trace.steps[-2:][::-1]  # the last step is the result
        suspicious = decision.numbers.get("tails", 0.0) > HEAVY_TAILS.suspicious
        return NoiseChoice(problem, selection, suspicious=suspicious)
    rows = varying.problem.rows
    penalty = 0.25 * rows.total(varying.noise.variance) + varying.noise.penalty
    record = NoiseRecord(
        penalty=0.0 if near else penalty,
        gain=decision.numbers["density_gain" if near else "gain"],
        low=float(np.exp(0.5 * np.quantile(varying.noise.mean, OUTER[0]))),
        high=float(np.exp(0.5 * np.quantile(varying.noise.mean, OUTER[1]))),
        near=near,
    )
    trace = problem.new_trace()
    said = f"{record.in_words(made.scaling.y_scale)}; {decision.why}"
    trace.add(Action.NOISE, len(varying.stage.Z), varying.evidence.value, n_rows=rows.count, note=said)
    model = replace(problem.model, likelihood=varying.problem.model.likelihood)
    run = replace(problem.run, journal=None)  # whose steps are those of constant noise
    again = replace(problem.anew(), model=model, run=replace(run, blocks=problem.run.blocks.anew()), tried=None)
    again = replace(again, earlier=tuple(trace))
    if selection.jitter is None:
        return NoiseChoice(again, _exact(again, selection, varying, rng), record)
    found = select(again, rng)
    if found.status is Status.NO_SIGNAL and selection.status is not Status.NO_SIGNAL:
        found = _as_it_was(again, selection, varying, rng)
    return NoiseChoice(again, found, record)


def _exact(problem: Problem, selection: Selection, varying: VaryingFit, rng: np.random.Generator) -> Selection:
    """The exact GP with the noise of each row: hyperparameters go on from the last turn."""
    exact = replace(problem, full=True)
    return _refined(exact, selection, exact.optimize(varying.stage.theta, varying.stage.Z, rng))


def _as_it_was(problem: Problem, selection: Selection, varying: VaryingFit, rng: np.random.Generator) -> Selection:
    """The knots of constant noise, where a search from the beginning finds less than they had found."""
    near = selection.problem
    own = problem if near is None else replace(near, model=replace(near.model, likelihood=problem.model.likelihood))
    return _refined(own, selection, own.optimize(varying.stage.theta, varying.stage.Z, rng))


def _refined(problem: Problem, selection: Selection, stage: Stage) -> Selection:
    evidence = problem.evaluate(stage.point, gradient=False)
    trace = problem.new_trace()
    trace.stop_reason = selection.reason
    trace.add(Action.FINAL, len(stage.Z), evidence.value, theta=stage.theta, note="all rows")
    return replace(
        selection,
        point=stage.point,
        evidence=evidence,
        result=stage.result,
        trace=trace,
        fitted=None,
        problem=None if selection.problem is None else problem,
    )
