"""Ways to judge a claim by the rows: how many of its comparisons are true, and the numbers in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

from knotwise.paper.results import Results, Row, Value, metric, spread

__all__ = ["Finding", "Judge", "each", "lower", "similar", "times", "together"]

SECONDS = metric("seconds")

#: share of the comparisons that must be true for a claim to hold; with as few as the rest true, it does not
ENOUGH = 0.8


@dataclass(frozen=True)
class Finding:
    """How many of some comparisons are true, how many should be, and the numbers in words."""

    true: int
    n: int
    words: str
    enough: float = ENOUGH

    @property
    def verdict(self) -> str:
        if not self.n:
            return "not run"
        share = self.true / self.n
        if share >= self.enough - 1e-9:
            return "holds"
        return "does not hold here" if share <= 1 - ENOUGH + 1e-9 else "holds in part"


#: looks at the rows of a setting
Judge = Callable[[Results, str], Finding]


def lower(experiment: str, ours: Sequence[str], theirs: Sequence[str], value: Value, style: str = ".3f") -> Judge:
    """Each of some methods is below each of others, on the same data."""

    def judge(results: Results, setting: str) -> Finding:
        pairs = [
            (value(a), value(b))
            for one in ours
            for other in theirs
            for a, b in results.pairs(experiment, setting, one, other)
        ]
        known = [(a, b) for a, b in pairs if a is not None and b is not None]
        true = sum(a < b for a, b in known)
        shown = [_listed(results, experiment, setting, names, value, style) for names in (ours, theirs)]
        return Finding(true, len(known), f"{shown[0]} against {shown[1]}; lower in {true} of {len(known)} pairs")

    return judge


def times(
    experiment: str, larger: Sequence[str], smaller: Sequence[str], factor: float, value: Value = SECONDS
) -> Judge:
    """The number of some methods is so many times that of others; nearer to that than to 1 on a log scale is enough."""

    def judge(results: Results, setting: str) -> Finding:
        words, every = [], []
        for many, few in product(larger, smaller):
            ratios = [
                a / b
                for one, other in results.pairs(experiment, setting, many, few)
                if (a := value(one)) is not None and (b := value(other))
            ]
            words.append(f"{many} over {few} {spread(ratios, '.2g')}")
            every += ratios
        true = sum(ratio >= factor**0.5 for ratio in every)
        return Finding(true, len(every), f"{', '.join(words)}; the paper has {factor:g}")

    return judge


def each(experiment: str, methods: Sequence[str], true: Callable[[Row], bool], value: Value, style: str) -> Judge:
    """Something is true of every fit of some methods."""

    def judge(results: Results, setting: str) -> Finding:
        rows = [row for method in methods for row in results.of(experiment, setting, method)]
        n_true = sum(true(row) for row in rows)
        shown = _listed(results, experiment, setting, methods, value, style)
        return Finding(n_true, len(rows), f"{shown}; true in {n_true} of {len(rows)} fits")

    return judge


def similar(experiment: str, methods: Sequence[str], to: str, value: Value, within: float) -> Judge:
    """The number of each of some methods is that of another, within a factor."""

    def judge(results: Results, setting: str) -> Finding:
        ratios = [
            a / b
            for method in methods
            for one, other in results.pairs(experiment, setting, method, to)
            if (a := value(one)) is not None and (b := value(other))
        ]
        true = sum(1 / within <= ratio <= within for ratio in ratios)
        near = f"within a factor of {within:g} in {true} of {len(ratios)} pairs"
        return Finding(true, len(ratios), f"{', '.join(methods)} over {to} {spread(ratios, '.2f')}; {near}")

    return judge


def together(*judges: Judge) -> Judge:
    """Several comparisons that make one claim."""

    def judge(results: Results, setting: str) -> Finding:
        found = [judge(results, setting) for judge in judges]
        known = [finding for finding in found if finding.n]
        return Finding(
            sum(f.true for f in known), sum(f.n for f in known), "; ".join(finding.words for finding in known)
        )

    return judge


def _listed(results: Results, experiment: str, setting: str, methods: Sequence[str], value: Value, style: str) -> str:
    shown = ((method, results.values(experiment, setting, method, value)) for method in methods)
    return ", ".join(f"{method} {spread(values, style)}" for method, values in shown)
