"""Rows as tables and claims ask for them: by method, paired by seed, as medians and in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from knotwise_reproduction.experiments import EXPERIMENTS

__all__ = ["Results", "Row", "Value", "metric", "number", "spread"]

Row = Mapping[str, Any]

#: a number of a row; None where the row has none
Value = Callable[[Row], float | None]


class Results:
    """Rows by experiment, setting, method and case, in the order of their seeds; rows of failed fits are apart."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows: dict[tuple[str, str, str, str], list[Row]] = {}
        for row in sorted(rows, key=lambda row: row["seed"]):
            key = row["experiment"], row["setting"], row["method"], row.get("case", "")
            self._rows.setdefault(key, []).append(row)

    def of(self, experiment: str, setting: str, method: str, case: str = "") -> list[Row]:
        """The rows of a method that have a result."""
        return [row for row in self._rows.get((experiment, setting, method, case), []) if "error" not in row]

    def failed(self, experiment: str, setting: str, method: str, case: str = "") -> int:
        """How many fits of a method could not be made."""
        return sum("error" in row for row in self._rows.get((experiment, setting, method, case), []))

    def values(self, experiment: str, setting: str, method: str, value: Value, case: str = "") -> list[float]:
        """A number of each row that has it."""
        found = (value(row) for row in self.of(experiment, setting, method, case))
        return [each for each in found if each is not None]

    def pairs(self, experiment: str, setting: str, first: str, second: str, case: str = "") -> list[tuple[Row, Row]]:
        """Rows of two methods on the same data: of the same seed, or where the data are always the same, of any."""
        exact_seed = EXPERIMENTS[experiment].exact_seed
        others = {row["seed"]: row for row in self.of(experiment, setting, second, case)}
        both = (
            (row, others.get(row["seed"], others.get(exact_seed(row["seed"]))))
            for row in self.of(experiment, setting, first, case)
        )
        return [(row, other) for row, other in both if other is not None]


def metric(name: str) -> Value:
    """A score, or another number of the row itself such as its seconds."""
    return lambda row: row["metrics"].get(name, row.get(name))


def number(value: float, style: str) -> str:
    """A number in a format of Python, with an exponent where the format would show nothing of it."""
    shown = f"{value:{style}}"
    return f"{value:.0e}" if value != 0 and style.endswith("f") and not shown.strip("+-0.") else shown


def spread(values: Sequence[float], style: str) -> str:
    """The median and, where it is not all, the range: `3 (1 to 9)`; a dash for nothing."""
    if not values:
        return "-"
    middle, low, high = (number(each, style) for each in (median(values), min(values), max(values)))
    return middle if low == high else f"{middle} ({low} to {high})"
