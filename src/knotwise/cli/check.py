"""Predictions against known values: are they near, and are the intervals and probabilities right?"""

from __future__ import annotations

from argparse import Namespace
from dataclasses import asdict, dataclass
from typing import Any

from knotwise.cli.loading import choose_columns, require_option
from knotwise.cli.reading import open_table
from knotwise.cli.rows import read_rows, told_with_places
from knotwise.cli.targets import known_labels, target_numbers
from knotwise.report.scores import Share, judge_labels, judge_numbers

__all__ = ["Check", "check_predictions"]


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
    require_option(gp, arguments)
    with open_table(arguments) as table:
        rows = read_rows(table, choose_columns(gp, table, arguments), drop_missing=arguments.drop_missing)
    with told_with_places(rows, table):
        if hasattr(gp, "classes_"):
            labels = known_labels(table, rows, arguments.target, gp.classes_.tolist())
            scores, shares = judge_labels(gp, rows.X, labels)
        else:
            y = target_numbers(table, rows, arguments.target, arguments.decimal)
            scores, shares = judge_numbers(gp, rows.X, y, rows.extras)
    return Check(table.name, len(rows), rows.n_dropped, scores, tuple(shares))
