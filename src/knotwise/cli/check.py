"""Predictions against known values: are they near, and are the intervals and probabilities right?"""

from __future__ import annotations

from argparse import Namespace
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from knotwise.cli.loading import choose_columns, require_size_option
from knotwise.cli.reading import open_table
from knotwise.cli.rows import Rows, errors_with_places, read_rows
from knotwise.cli.tables import Table
from knotwise.cli.targets import known_labels, target_numbers

__all__ = ["Check", "check_predictions"]

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


@dataclass(frozen=True)
class Check:
    """Scores of predictions on rows with known values."""

    table: str
    n_rows: int
    n_dropped: int
    scores: dict[str, float]
    shares: tuple[Share, ...]

    @property
    def ok(self) -> bool:
        """Whether every share is where a right model's would be."""
        return not any(share.problem for share in self.shares)

    def to_dict(self) -> dict[str, Any]:
        """Everything as numbers, strings, lists and dicts."""
        return asdict(self) | {"ok": self.ok}

    def __str__(self) -> str:
        left_out = f" ({self.n_dropped} left out)" if self.n_dropped else ""
        lines = [f"predictions of {self.n_rows} rows of {self.table}{left_out}"]
        lines += [f"  {name.replace('_', ' '):<28} {value:.4g}" for name, value in self.scores.items()]
        lines += [f"  {share}" for share in self.shares]
        return "\n".join(lines)


def check_predictions(gp: Any, arguments: Namespace) -> Check:
    """Compare predictions with the values of a table."""
    require_size_option(gp, arguments)
    with open_table(arguments.data, arguments.separator, arguments.decimal) as table:
        rows = read_rows(table, choose_columns(gp, table, arguments), drop_missing=arguments.drop_missing)
    judge = _judge_labels if hasattr(gp, "classes_") else _judge_numbers
    with errors_with_places(rows, table):
        scores, shares = judge(gp, table, rows, arguments)
    return Check(table.name, len(rows), rows.n_dropped, scores, tuple(shares))


def _judge_numbers(gp: Any, table: Table, rows: Rows, arguments: Namespace) -> tuple[dict[str, float], list[Share]]:
    y = target_numbers(table, rows, arguments.target, arguments.decimal)
    density = gp.log_predictive_density(rows.X, y, **rows.extras)  # refuses values that cannot be
    error = y - gp.predict(rows.X, **rows.extras)
    scores = {
        "root_mean_squared_error": float(np.sqrt(np.mean(error**2))),
        "standard_deviation_of_target": float(np.std(y)),
        "mean_log_density": float(np.mean(density)),
    }
    likelihood = gp.likelihood_
    if likelihood.discrete and likelihood.size_name is None and likelihood.support() == (0.0, 1.0):
        return scores, [_share("ones", float(np.mean(y - error)), float(np.mean(y)), len(y))]
    shares = []
    for level in LEVELS:
        low, high = gp.predict_interval(rows.X, level, **rows.extras).T
        inside = float(np.mean((low <= y) & (y <= high)))
        # intervals of counts hold at least their level, because they end on whole numbers
        shares.append(_share(f"inside {level:.0%} intervals", level, inside, len(y), one_sided=likelihood.discrete))
    return scores, shares


def _judge_labels(gp: Any, table: Table, rows: Rows, arguments: Namespace) -> tuple[dict[str, float], list[Share]]:
    classes = gp.classes_.tolist()
    codes = np.searchsorted(gp.classes_, known_labels(table, rows, arguments.target, classes))
    proba = gp.predict_proba(rows.X)
    own = proba[np.arange(len(codes)), codes]
    scores = {
        "accuracy": float(np.mean(proba.argmax(1) == codes)),
        "share_of_most_frequent_class": float(np.bincount(codes).max() / len(codes)),
        "mean_log_probability": float(np.mean(np.log(own))),
    }
    shares = [
        _share(f"class {label!r}", float(np.mean(proba[:, code])), float(np.mean(codes == code)), len(codes))
        for code, label in enumerate(classes)
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
