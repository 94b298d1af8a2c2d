"""The table of short length-scales, and what it shows in a sentence: pure functions of the rows."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median

from knotwise.paper.data import KNOTWISE
from knotwise.paper.experiments import EXPERIMENTS, FULL
from knotwise.paper.results import Results, Row, Value, metric, number, spread
from knotwise.paper.short import CASES, N_HELD_OUT, NOISE_SD
from knotwise.paper.tables import NOT_RUN, Table

__all__ = ["NAME", "describe_losses", "losses", "short_table"]

NAME = "short"
COLUMNS = ("data", "method", "K", "neighbours", "RMSE", "NLPD minus exact", "coverage", "seconds")
NOTE = (
    f"NLPD is the mean negative log density of {N_HELD_OUT} held-out rows, in nats, here minus the exact GP's; "
    f"RMSE is of these rows, whose noise has a standard deviation of {NOISE_SD:g}; coverage is that of 95 % intervals. "
    "Medians over the seeds."
)
NLPD = metric("nlpd")


def short_table(rows: Iterable[Row]) -> Table:
    """Every method by length-scale: knots, neighbours, errors, what a row loses against the exact GP, time."""
    results, experiment = Results(rows), EXPERIMENTS[NAME]
    methods = [method.name for method in experiment.methods[KNOTWISE]]
    lines = [
        (_title(case) if method == methods[0] else "", method, *_cells(results, method, case))
        for case in experiment.cases
        for method in methods
    ]
    n_seeds = max(len(results.of(NAME, KNOTWISE, methods[0], case)) for case in experiment.cases)
    note = " ".join(filter(None, [describe_losses(results), NOTE, f"Seeds: {n_seeds}."]))
    return Table("Short length-scales, beyond the paper", COLUMNS, tuple(lines), note)


def losses(results: Results, method: str, case: str) -> list[float]:
    """What a held-out row loses in log density against the exact GP of the same seed, in nats, seed by seed."""
    pairs = results.pairs(NAME, KNOTWISE, method, FULL.name, case)
    known = ((NLPD(own), NLPD(exact)) for own, exact in pairs)
    return [own - exact for own, exact in known if own is not None and exact is not None]


def describe_losses(results: Results) -> str:
    """Say in a sentence how far from the exact GP each method is, over all data; nothing where nothing was run."""
    parts = []
    for method in EXPERIMENTS[NAME].methods[KNOTWISE]:
        middles = [median(found) for case in CASES if (found := losses(results, method.name, case))]
        if method is not FULL and middles:
            ends = dict.fromkeys(number(end, ".3f") for end in (min(middles), max(middles)))
            parts.append(f"{' to '.join(ends)} nats with {method.name}")
    return f"Against the exact GP a held-out row loses {'; '.join(parts)}." if parts else ""


def _title(case: str) -> str:
    return f"{CASES[case].place}, {CASES[case].lengthscale:g}"


def _cells(results: Results, method: str, case: str) -> tuple[str, ...]:
    failed = results.failed(NAME, KNOTWISE, method, case)
    if not results.of(NAME, KNOTWISE, method, case):
        return (f"{failed} failed" if failed else NOT_RUN, *[""] * 5)

    def middle(value: Value, style: str) -> str:
        return spread(results.values(NAME, KNOTWISE, method, value, case), style).split(" (")[0]

    exact = method == FULL.name
    return (
        "-" if exact else middle(metric("n_knots"), "g"),
        "-" if exact else middle(metric("n_neighbors"), "g"),
        middle(metric("rmse"), ".3f"),
        "-" if exact else spread(losses(results, method, case), ".3f"),
        middle(metric("coverage"), ".2f"),
        middle(metric("seconds"), ".1f") + (f", {failed} failed" if failed else ""),
    )
