"""Do counts vary more than their law says? A likelihood ratio against laws with a dispersion, on some rows.

Under the law itself the mean of likelihood ratios of fixed alternatives is 1, so that it is above 1 / p at most with
probability p (Markov's inequality): no distribution of a statistic has to be known. What is not known of the function
is in both evidences. A function that follows each count hides a dispersion; so alternatives have longer length-scales,
too. A function that knots or bounds keep too smooth looks like one; so the law is tried with shorter ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize_scalar

from knotwise.decisions.counts import sample_observations
from knotwise.decisions.thresholds import COUNTS
from knotwise.errors import KnotwiseError
from knotwise.evidence import Evidence, Model, full_evidence
from knotwise.evidence.inference import NAMED
from knotwise.evidence.model import Rows
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
    """Evidences of some rows under laws of other length-scales and dispersions.

    `typical` times a dispersion is by how much the variance of all counts is more than their mean, relative to that.
    """

    model: Model
    rows: Rows
    typical: float

    @property
    def log_dispersions(self) -> np.ndarray:
        low, high = (np.array(COUNTS.factors) - 1) / self.typical
        return np.linspace(np.log(low), np.log(max(high, COUNTS.dispersion)), COUNTS.dispersions)

    def at(self, theta: np.ndarray, log_dispersion: float) -> Model:
        likelihood = self.model.likelihood.with_dispersion(float(np.exp(log_dispersion)))
        assert likelihood is not None  # who asks has asked for it
        return replace(self.model.with_theta(theta), likelihood=likelihood)

    def value(self, theta: np.ndarray, log_dispersion: float) -> float:
        return _value(self.at(theta, log_dispersion), self.rows)

    def factor(self, theta: np.ndarray, near: float) -> float:
        """The factor at the likeliest dispersion, near one of those that were tried, and at the function with that."""
        apart = float(np.diff(self.log_dispersions)[0])
        found = minimize_scalar(
            lambda at: -self.value(theta, at),
            bounds=(near - apart, near + apart),
            options={"xatol": COUNTS.tolerance},
        )
        rate, _ = _rates(full_evidence(self.at(theta, found.x), self.rows, gradient=False), self.rows)
        return 1 + float(np.exp(found.x)) * _typical(rate, self.rows)


def decide(problem: Problem, theta: np.ndarray, rng: np.random.Generator) -> Decision[bool]:
    """Whether the counts vary more than the law at fitted hyperparameters says, and by which factor.

    Takes two evaluations of the exact GP by Laplace's approximation where the function is smooth and the counts do not,
    else six to fourteen, and some more for the factor. A nugget is a dispersion already, and where nothing was
    optimised nothing is said.
    """
    fitted = problem.model.with_theta(theta)
    no = Decision(False, "not tested", {})
    if problem.optimizer is None or fitted.nugget.size or fitted.nugget.variance > 0:
        return no
    rows = sample_observations(problem, COUNTS.test_rows, rng)
    model = replace(fitted, inference=NAMED["laplace"], residual=None, power=1.0)
    lengthscales, first = problem.table.with_role("lengthscale"), problem.table.theta
    try:
        as_fitted = full_evidence(model, rows, gradient=False)
        rate, variance = _rates(as_fitted, rows)
        scales, own = [theta], variance * rate
        if rows.total(own / (1 + own)) > COUNTS.followed * rows.count:
            scales += [np.where(lengthscales, np.maximum(theta, first + np.log(s)), theta) for s in COUNTS.longest]
        others = _Alternatives(model, rows, _typical(rate, rows))
        tried, numbers = others.log_dispersions, {"threshold": -float(np.log(COUNTS.chance))}
        least = others.value(theta, tried[0]) - as_fitted.value
        if len(scales) == 1 and least < 0:  # and with it those of larger dispersions
            return Decision(False, NONE_FOUND.format(least, len(rows)), numbers | {"log_ratio": least})
        values = np.array([[others.value(each, at) for at in tried] for each in scales])
        shorter = _value(model.with_theta(theta + np.log(COUNTS.shorter) * lengthscales), rows)
        ratios = values - max(as_fitted.value, shorter)
        log_ratio = float(np.logaddexp.reduce(ratios, axis=None) - np.log(ratios.size))
        numbers["log_ratio"] = log_ratio
        if not log_ratio > numbers["threshold"]:
            return Decision(False, NONE_FOUND.format(log_ratio, len(rows)), numbers)
        scale, at = np.unravel_index(np.argmax(values), values.shape)
        factor = others.factor(scales[scale], float(tried[at]))
    except KnotwiseError:
        return no
    why = f"The counts vary {factor:.1f} times as much as Poisson counts would"
    return Decision(factor > COUNTS.least_factor, why, numbers | {"factor": factor}, advice=ADVICE)


def _rates(evidence: Evidence, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Expected counts of the rows, and the variance of the function there, [n] each."""
    f = ExactPosterior(evidence.state).latent(rows.X)
    return evidence.state.model.likelihood.response_moments(f.mean, f.variance, rows.sizes)[0], f.variance


def _typical(rate: np.ndarray, rows: Rows) -> float:
    return rows.total(rate**2) / rows.total(rate)


def _value(model: Model, rows: Rows) -> float:
    return full_evidence(model, rows, gradient=False).value
