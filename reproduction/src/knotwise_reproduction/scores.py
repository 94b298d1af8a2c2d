"""Scores of one fit at its test rows, in both definitions where the published program differs from the paper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from knotwise import metrics
from knotwise.estimators import GPRegressor
from knotwise_reproduction.data import Task

__all__ = ["NEAR", "Prediction", "score"]

#: in length-scales: a knot nearer to another than this serves no function of its own
NEAR = 0.1


@dataclass(frozen=True)
class Prediction:
    """Posterior mean and variance of f at the test rows, and the variance that an observation adds there.

    What it adds is the noise of Gaussian data and the nugget of others: the published program's predictive variance
    holds it.
    """

    mean: np.ndarray
    variance: np.ndarray
    added: float

    @staticmethod
    def of(gp: GPRegressor, task: Task) -> Prediction:
        latent = gp.predict_latent(task.X_test)
        conjugate = gp.likelihood_.conjugate
        added = gp.likelihood_.value("noise_variance") if conjugate else gp.nugget_
        return Prediction(latent.mean, latent.variance, float(added))


def score(gp: GPRegressor, task: Task, own: Prediction, exact: Prediction | None) -> dict[str, float]:
    """Every score that the data allow, by name."""
    scores: dict[str, float] = {"spread": float(np.std(own.mean))}
    if exact is not None:
        scores |= divergences(own, exact)
    if task.truth is not None:
        low, high = gp.predict_interval(task.X_test, kind="latent").T
        scores["rmse"] = metrics.rmse(task.truth, own.mean)
        scores["coverage"] = metrics.interval_coverage(task.truth, low, high)
    else:
        scores |= held_out(gp, task, own)
    if gp.n_knots_:
        scores["near_knots"] = float(near_knots(gp))
    return {name: float(value) for name, value in scores.items()}


def divergences(own: Prediction, exact: Prediction) -> dict[str, float]:
    """AUKL of the latent f, which is the paper's formula, and of f with noise or nugget, which is its program's."""
    with_added = metrics.univariate_kl(exact.mean, exact.variance + exact.added, own.mean, own.variance + own.added)
    return {
        "aukl_latent": metrics.aukl_latent(exact.mean, exact.variance, own.mean, own.variance),
        "aukl_published": float(with_added.mean()),
    }


def held_out(gp: GPRegressor, task: Task, own: Prediction) -> dict[str, float]:
    """Densities of the test observations; for Gaussian data also errors, intervals, and the program's density."""
    density = gp.log_predictive_density(task.X_test, task.y_test, **task.with_exposure)
    scores: dict[str, Any] = {"mnlp": metrics.mnlp(density), "nlpd": metrics.mean_nlpd(density)}
    if gp.likelihood_.conjugate:
        twice = metrics.gaussian_log_density(task.y_test, own.mean, own.variance + 2 * own.added)
        low, high = gp.predict_interval(task.X_test).T
        scores |= {
            "rmse": metrics.rmse(task.y_test, own.mean),
            "srmse": metrics.srmse(task.y_test, own.mean),
            "mnlp_published": metrics.mnlp(twice),
            "coverage": metrics.interval_coverage(task.y_test, low, high),
        }
    return scores


def near_knots(gp: GPRegressor) -> int:
    """How many knots lie within a tenth of a length-scale of one before them."""
    Z = gp.kernel_.coordinates(gp.knots_)
    distance = np.sqrt(((Z[:, None] - Z[None]) ** 2).sum(-1))
    return int((np.tril(distance < NEAR, -1)).any(1).sum())
