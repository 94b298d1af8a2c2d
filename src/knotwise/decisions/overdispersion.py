"""Do counts vary more than their law says? A likelihood ratio against laws with a dispersion, on some rows.

Under the law itself the mean of likelihood ratios of fixed alternatives is 1, so that it is above 1 / p at most with
probability p (Markov's inequality): no distribution of a statistic has to be known. What is not known of the function
is in both evidences. A function that follows each count hides a dispersion; so alternatives have longer length-scales,
too, and where the kernel is as rough as noise, a smoother one. A function that knots or bounds keep too smooth looks
like a dispersion; so the law is tried with shorter length-scales. Where a function follows single counts and fixed
alternatives leave it open, both laws are fitted to these rows, and the one with a dispersion must gain as much.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize_scalar

from knotwise.decisions.counts import sample_observations
from knotwise.decisions.thresholds import COUNTS, KERNEL
from knotwise.errors import KnotwiseError
from knotwise.evidence import Evidence, Model, full_evidence
from knotwise.evidence.inference import NAMED
from knotwise.evidence.model import Rows
from knotwise.kernels.base import Kernel
from knotwise.kernels.stationary import Matern12, Matern32
from knotwise.numerics.parameters import ParameterTable, flat_names
from knotwise.posterior.exact import ExactPosterior
from knotwise.selection.base import Decision
from knotwise.selection.problem import Problem

ADVICE = (
    "Intervals of new counts are too narrow, or the function follows single counts. Write `likelihood='counts'`, which "
    "lets the data choose the law, or `likelihood='negative_binomial'`."
)
NONE_FOUND = "log likelihood ratio {:.1f} of counts that vary more, on {} rows"


@dataclass(frozen=True)
class _Alternatives:
    """Evidences of some rows under laws with other functions and dispersions.

    `typical` times a dispersion is by how much the variance of all counts is more than their mean, relative to that.
    """

    model: Model
    rows: Rows
    typical: float
    table: ParameterTable

    @property
    def log_dispersions(self) -> np.ndarray:
        low, high = (np.array(COUNTS.factors) - 1) / self.typical
        return np.linspace(np.log(low), np.log(max(high, COUNTS.dispersion)), COUNTS.dispersions)

    def functions(self) -> list[Model]:
        """Where the function follows single counts: those that do so less, at the fitted variance."""
        lengthscales, first = self.table.with_role("lengthscale"), self.table.theta
        theta = self.model.theta
        longer = [np.where(lengthscales, np.maximum(theta, first + np.log(s)), theta) for s in COUNTS.longest]
        models = [self.model.with_theta(each) for each in longer]
        return models + [self.changed(each, _smoother) for each in models if self.changed(each, _smoother) is not each]

    def changed(self, function: Model, change: Callable[[Kernel, list[int]], Kernel]) -> Model:
        """The same model with each elementary kernel changed; itself where none is."""
        kernel = function.kernel.map_leaves(change, range(self.rows.X.shape[1]))
        return function if repr(kernel) == repr(function.kernel) else replace(function, kernel=kernel)

    def starts(self, function: Model, log_dispersion: float) -> list[Model]:
        """Where fits of the law with a dispersion start: a function, and a smooth one, a length-scale per column."""
        smooth = self.changed(self.changed(function, _smoother), _per_column)
        return [self.at(each, log_dispersion) for each in {id(f): f for f in (function, smooth)}.values()]

    def at(self, function: Model, log_dispersion: float) -> Model:
        likelihood = self.model.likelihood.with_dispersion(float(np.exp(log_dispersion)))
        assert likelihood is not None  # who asks has asked for it
        return replace(function, likelihood=likelihood)

    def value(self, function: Model, log_dispersion: float) -> float:
        return _value(self.at(function, log_dispersion), self.rows)

    def factor(self, function: Model, near: float) -> float:
        """The factor at the likeliest dispersion, near one of those that were tried, and at the function with that."""
        apart = float(np.diff(self.log_dispersions)[0])
        found = minimize_scalar(
            lambda at: -self.value(function, at),
            bounds=(near - apart, near + apart),
            options={"xatol": COUNTS.tolerance},
        )
        return self.factor_of(self.at(function, found.x))

    def factor_of(self, model: Model) -> float:
        """How much more the counts vary under a law with a dispersion."""
        rate, _ = _rates(full_evidence(model, self.rows, gradient=False), self.rows)
        mean = self.rows.total(rate)
        variance = model.likelihood.conditional_variance(np.log(rate / self.rows.sizes), self.rows.sizes)
        return self.rows.total(variance) / mean

    def fit(self, model: Model) -> tuple[Model, float]:
        """The likeliest hyperparameters of the rows, from those of a model, and the log evidence there."""
        known = dict(zip(self.table.names, self.table.theta_bounds, strict=True))
        held = dict(zip(self.table.names, self.table.fixed, strict=True))
        bounds = np.empty((len(model.theta), 2))
        flat = model.flat_parameters(self.rows.X.shape[1])
        for i, (name, parameter, at) in enumerate(zip(flat_names(model.names), flat, model.theta, strict=True)):
            shared = name if name in known else name.partition("[")[0]  # of a fit with one length-scale for all
            own = (-np.inf, np.inf) if parameter.bounds is None else np.log(parameter.bounds)
            bounds[i] = (at, at) if held.get(shared, False) else known.get(shared, own)

        def objective(theta: np.ndarray) -> tuple[float, np.ndarray]:
            evidence = full_evidence(model.with_theta(theta), self.rows)
            assert evidence.gradient is not None  # it was asked for
            return evidence.value, evidence.gradient

        found = COUNTS.search.maximize(objective, model.theta, bounds)
        return model.with_theta(found.parameters), found.value


def decide(problem: Problem, theta: np.ndarray, rng: np.random.Generator) -> Decision[bool]:
    """Whether the counts vary more than the law at fitted hyperparameters says, and by which factor.

    Takes two evaluations of the exact GP by Laplace's approximation where the function is smooth and the counts do not,
    else six to twenty-two, and some more for the factor and where both laws are fitted. A nugget is a dispersion
    already, and where nothing was optimised nothing is said.
    """
    fitted = problem.model.with_theta(theta)
    no = Decision(False, "not tested", {})
    if problem.optimizer is None or fitted.nugget.size or fitted.nugget.variance > 0:
        return no
    rows = sample_observations(problem, COUNTS.test_rows, rng)
    model = replace(fitted, inference=NAMED["laplace"], residual=None, power=1.0)
    shorter = theta + np.log(COUNTS.shorter) * problem.table.with_role("lengthscale")
    try:
        as_fitted = full_evidence(model, rows, gradient=False)
        rate, variance = _rates(as_fitted, rows)
        functions, own = [model], variance * rate
        others = _Alternatives(model, rows, _typical(rate, rows), problem.table)
        if rows.total(own / (1 + own)) > COUNTS.followed * rows.count:
            functions += others.functions()
        tried, numbers = others.log_dispersions, {"threshold": -float(np.log(COUNTS.chance))}
        least = others.value(model, tried[0]) - as_fitted.value
        if len(functions) == 1 and least < 0:  # and with it those of larger dispersions
            return Decision(False, NONE_FOUND.format(least, len(rows)), numbers | {"log_ratio": least})
        values = np.array([[others.value(each, at) for at in tried] for each in functions])
        ratios = values - max(as_fitted.value, _value(model.with_theta(shorter), rows))
        log_ratio = float(np.logaddexp.reduce(ratios, axis=None) - np.log(ratios.size))
        numbers["log_ratio"] = log_ratio
        function, at = np.unravel_index(np.argmax(values), values.shape)
        taken, log_dispersion = functions[function], float(tried[at])
        if log_ratio > numbers["threshold"]:
            factor = others.factor(taken, log_dispersion)
        elif len(functions) > 1 and log_ratio > -numbers["threshold"]:
            ends = [others.fit(each) for each in others.starts(taken, log_dispersion)]
            likelier, value = max(ends, key=lambda end: end[1])
            laws = (model, *(replace(end, likelihood=model.likelihood) for end, _ in ends))
            numbers["gain"] = value - max(others.fit(each)[1] for each in laws)
            factor = others.factor_of(likelier)
        if not max(log_ratio, numbers.get("gain", log_ratio)) > numbers["threshold"]:
            return Decision(False, NONE_FOUND.format(log_ratio, len(rows)), numbers)
    except KnotwiseError:
        return no
    why = f"The counts vary {factor:.1f} times as much as Poisson counts would"
    return Decision(factor > COUNTS.least_factor, why, numbers | {"factor": factor}, advice=ADVICE)


def _rates(evidence: Evidence, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Expected counts of the rows, and the variance of the function there, [n] each."""
    f = ExactPosterior(evidence.state).latent(rows.X)
    return evidence.state.model.likelihood.response_moments(f.mean, f.variance, rows.sizes)[0], f.variance


def _smoother(kernel: Kernel, columns: list[int]) -> Kernel:
    """Matern 3/2 for 1/2, which is as rough as counts that vary more."""
    if type(kernel) is not Matern12:
        return kernel
    return Matern32(**kernel.get_params(deep=False)).with_values(groups=kernel.groups)


def _per_column(kernel: Kernel, columns: list[int]) -> Kernel:
    """One length-scale per column for a common one, where there are not too many."""
    if getattr(kernel, "lengthscale", None) is None or getattr(kernel, "ard", True):
        return kernel
    n_entries = len(kernel.column_groups(columns))
    if not 1 < n_entries <= KERNEL.many_columns:
        return kernel
    return kernel.with_values(ard=True, lengthscale=[kernel.value("lengthscale")] * n_entries)


def _typical(rate: np.ndarray, rows: Rows) -> float:
    return rows.total(rate**2) / rows.total(rate)


def _value(model: Model, rows: Rows) -> float:
    return full_evidence(model, rows, gradient=False).value
