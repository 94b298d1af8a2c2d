"""Ways to judge a claim by the rows: how many of its comparisons are true, and the numbers in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product

from knotwise_reproduction.results import Results, Row, Value, metric, spread

__all__ = ["Finding", "Judge", "each", "known", "lower", "similar", "times", "together"]

SECONDS = metric("seconds")

#: share of the comparisons that must be true for a claim to hold; with as few as the rest true, it does not
ENOUGH = 0.8


@dataclass(frozen=True)
class Finding:
    """How many of some comparisons are true, how many should be, and the numbers in words.

    `lacking` counts comparisons that could not be made for want of a number: rows of an older file may have fewer.
    """

    true: int
    n: int
    words: str
    enough: float = ENOUGH
    lacking: int = 0

    @property
    def verdict(self) -> str:
        if not self.n:
            return "not computed" if self.lacking else "not run"
        share = self.true / self.n
        if share >= self.enough - 1e-9:
            return "holds"
        return "does not hold here" if share <= 1 - ENOUGH + 1e-9 else "holds in part"


#: looks at the rows of a setting
Judge = Callable[[Results, str], Finding]


def lower(experiment: str, ours: Sequence[str], theirs: Sequence[str], value: Value, style: str = ".3f") -> Judge:
    """Each of some methods is below each of others, on the same data."""

    def judge(results: Results, setting: str) -> Finding:
        rows = [pair for names in product(ours, theirs) for pair in results.pairs(experiment, setting, *names)]
        pairs = known(rows, value)
        true, n = sum(a < b for a, b in pairs), len(pairs)
        shown = [_listed(results, experiment, setting, names, value, style) for names in (ours, theirs)]
        words = f"{shown[0]} against {shown[1]}; lower in {true} of {n} pairs"
        return Finding(true, n, words, lacking=len(rows) - n)

    return judge


def times(
    experiment: str, larger: Sequence[str], smaller: Sequence[str], factor: float, value: Value = SECONDS
) -> Judge:
    """The number of some methods is so many times that of others; nearer to that than to 1 on a log scale is enough."""

    def judge(results: Results, setting: str) -> Finding:
        words, every, lacking = [], [], 0
        for many, few in product(larger, smaller):
            rows = results.pairs(experiment, setting, many, few)
            pairs = known(rows, value)
            ratios = [a / b for a, b in pairs if b]
            words.append(f"{many} over {few} {spread(ratios, '.2g')}")
            every += ratios
            lacking += len(rows) - len(pairs)
        true = sum(ratio >= factor**0.5 for ratio in every)
        return Finding(true, len(every), f"{', '.join(words)}; the paper has {factor:g}", lacking=lacking)

    return judge


def each(
    experiment: str, methods: Sequence[str], true: Callable[[Row], bool | None], value: Value, style: str
) -> Judge:
    """Something is true of every fit of some methods; None where a row cannot tell."""

    def judge(results: Results, setting: str) -> Finding:
        told = [true(row) for method in methods for row in results.of(experiment, setting, method)]
        n_true, n = told.count(True), len(told) - told.count(None)
        shown = _listed(results, experiment, setting, methods, value, style)
        return Finding(n_true, n, f"{shown}; true in {n_true} of {n} fits", lacking=told.count(None))

    return judge


def similar(experiment: str, methods: Sequence[str], to: str, value: Value, within: float) -> Judge:
    """The number of each of some methods is that of another, within a factor."""

    def judge(results: Results, setting: str) -> Finding:
        rows = [pair for method in methods for pair in results.pairs(experiment, setting, method, to)]
        pairs = known(rows, value)
        ratios = [a / b for a, b in pairs if b]
        true, n = sum(1 / within <= ratio <= within for ratio in ratios), len(ratios)
        near = f"within a factor of {within:g} in {true} of {n} pairs"
        words = f"{', '.join(methods)} over {to} {spread(ratios, '.2f')}; {near}"
        return Finding(true, n, words, lacking=len(rows) - len(pairs))

    return judge


def together(*judges: Judge) -> Judge:
    """Several comparisons that make one claim."""

    def judge(results: Results, setting: str) -> Finding:
        found = [judge(results, setting) for judge in judges]
        words = "; ".join(finding.words for finding in found if finding.n)
        return Finding(
            sum(finding.true for finding in found),
            sum(finding.n for finding in found),
            words,
            enough=max(finding.enough for finding in found),
            lacking=sum(finding.lacking for finding in found),
        )

    return judge


def known(pairs: Iterable[tuple[Row, Row]], value: Value) -> list[tuple[float, float]]:
    """The number of both rows of each pair, where both have it."""
    both = ((value(one), value(other)) for one, other in pairs)
    return [(a, b) for a, b in both if a is not None and b is not None]


def _listed(results: Results, experiment: str, setting: str, methods: Sequence[str], value: Value, style: str) -> str:
    shown = ((method, results.values(experiment, setting, method, value)) for method in methods)
    return ", ".join(f"{method} {spread(values, style)}" for method, values in shown)
