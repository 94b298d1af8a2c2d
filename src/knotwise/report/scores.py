"""Predictions against known values: are they near, and are intervals and probabilities right?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from knotwise.estimators.classes import LabelPrediction
from knotwise.prediction import Prediction

LEVELS = (0.5, 0.8, 0.95)
CHANCE = 0.99  # that a right model lies in the range beside a share, if rows are independent


@dataclass(frozen=True)
class Share:
    """How often something was predicted and how often it happened, and the range in which a right model falls."""

    what: str
    predicted: float
    observed: float
    low: float
    high: float
    problem: str = ""

    def __str__(self) -> str:
        return (
            f"{self.what:<28} {self.observed:7.1%}   (a right model: {self.low:.1%} to {self.high:.1%})"
            f"{f'  PROBLEM: {self.problem}' if self.problem else ''}"
        )


def judge(prediction: Prediction | LabelPrediction, y: Any) -> tuple[dict[str, float], list[Share]]:
    """Scores and shares of predictions of numbers or labels."""
    if isinstance(prediction, Prediction):
        return _judge_numbers(prediction, np.asarray(y, float))
    return _judge_labels(prediction, y)


def _judge_numbers(prediction: Prediction, y: np.ndarray) -> tuple[dict[str, float], list[Share]]:
    density = prediction.log_density(y)  # refuses values that cannot be
    error = y - prediction.mean
    scores = {
        "root_mean_squared_error": float(np.sqrt(np.mean(error**2))),
        "standard_deviation_of_target": float(np.std(y)),
        "mean_log_density": float(np.mean(density)),
    }
    likelihood = prediction.components[0].likelihood
    if likelihood.discrete and likelihood.size_name is None and likelihood.support() == (0.0, 1.0):
        return scores, [_share("ones", float(np.mean(y - error)), float(np.mean(y)), len(y))]
    shares = []
    for level in LEVELS:
        low, high = prediction.interval(level).T
        inside = float(np.mean((low <= y) & (y <= high)))
        # intervals of counts hold at least their level, because they end on whole numbers
        shares.append(
            _share(f"inside {100 * level:.0f} % intervals", level, inside, len(y), one_sided=likelihood.discrete)
        )
    return scores, shares


def _judge_labels(prediction: LabelPrediction, y: np.ndarray) -> tuple[dict[str, float], list[Share]]:
    log_probability = prediction.log_density(y)  # refuses labels that it does not know
    codes, proba = np.searchsorted(prediction.classes, y), prediction.proba
    scores = {
        "accuracy": float(np.mean(proba.argmax(1) == codes)),
        "share_of_most_frequent_class": float(np.bincount(codes).max() / len(codes)),
        "mean_log_probability": float(np.mean(log_probability)),
    }
    shares = [
        _share(f"class {label!r}", float(np.mean(proba[:, code])), float(np.mean(codes == code)), len(codes))
        for code, label in enumerate(prediction.classes)
    ]
    return scores, shares


def _share(what: str, predicted: float, observed: float, n: int, *, one_sided: bool = False) -> Share:
    """Judge an observed share by the binomial distribution of a right model's."""
    from scipy.stats import binom

    low = float(binom.ppf(0.5 - CHANCE / 2, n, predicted)) / n
    high = 1.0 if one_sided else float(binom.ppf(0.5 + CHANCE / 2, n, predicted)) / n
    problem = ""
    if observed < low:
        problem = "intervals are too narrow" if what.startswith("inside") else "predicted too often"
    elif observed > high:
        problem = "intervals are too wide" if what.startswith("inside") else "predicted too seldom"
    return Share(what, predicted, observed, low, high, problem)
