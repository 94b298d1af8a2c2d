"""The table of short length-scales, and what it shows in a sentence: pure functions of the rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

from knotwise.report.html import Table
from knotwise_reproduction.data import KNOTWISE
from knotwise_reproduction.experiments import EXPERIMENTS, FULL
from knotwise_reproduction.results import Results, Row, Value, metric, spread
from knotwise_reproduction.short import CASES, N_HELD_OUT, NOISE_SD
from knotwise_reproduction.tables import NOT_RUN

__all__ = ["NAME", "describe_losses", "loss_table", "losses", "short_table", "short_tables"]

NAME = "short"
COLUMNS = ("data", "method", "K", "near", "RMSE", "loss", "coverage", "time, s")
NOTE = (
    f"Loss is the mean negative log density of {N_HELD_OUT} test rows, in nats, minus the exact GP's. RMSE is of "
    f"these rows, whose noise has a standard deviation of {NOISE_SD:g}; coverage is that of 95 % intervals; near is "
    "the number of nearest rows that predict the residual of the K knots. Medians over the seeds."
)
NLPD = metric("nlpd")


def short_tables(rows: Sequence[Row]) -> list[Table]:
    """The table of medians, and that of losses with their ranges."""
    return [short_table(rows), loss_table(rows)]


def short_table(rows: Iterable[Row]) -> Table:
    """Every method by length-scale: knots, neighbours, errors, what a row loses against the exact GP, time."""
    results = Results(rows)
    methods = [method.name for method in EXPERIMENTS[NAME].methods[KNOTWISE]]
    lines = [
        (_title(case) if method == methods[0] else "", method, *_cells(results, method, case))
        for case in _shown(results)
        for method in methods
    ]
    note = " ".join(filter(None, [describe_losses(results), NOTE, _seeds(results), _hidden(results)]))
    return Table("Short length-scales, beyond the paper", COLUMNS, tuple(lines), note)


def loss_table(rows: Iterable[Row]) -> Table:
    """The loss against the exact GP by length-scale and method, with its range over the seeds."""
    results = Results(rows)
    methods = [method.name for method in EXPERIMENTS[NAME].methods[KNOTWISE] if method is not FULL]
    lines = [(_title(case), *(_range(losses(results, each, case)) for each in methods)) for case in _shown(results)]
    note = f"In nats for each test row: medians over the seeds, and their range. {_seeds(results)}"
    return Table("short: Loss against the exact GP", ("data", *methods), tuple(lines), note)


def losses(results: Results, method: str, case: str) -> list[float]:
    """What a test row loses in log density against the exact GP of the same seed, in nats, seed by seed."""
    pairs = results.pairs(NAME, KNOTWISE, method, FULL.name, case)
    known = ((NLPD(own), NLPD(exact)) for own, exact in pairs)
    return [own - exact for own, exact in known if own is not None and exact is not None]


def describe_losses(results: Results) -> str:
    """Say in a sentence how far from the exact GP each method is, over all data; nothing where nothing was run."""
    parts = []
    for method in EXPERIMENTS[NAME].methods[KNOTWISE]:
        middles = [median(found) for case in CASES if (found := losses(results, method.name, case))]
        if method is not FULL and middles:
            ends = dict.fromkeys(map(_nats, (min(middles), max(middles))))
            parts.append(f"{' to '.join(ends)} nats with {method.name}")
    return f"Against the exact GP a test row loses {'; '.join(parts)}." if parts else ""


def _nats(value: float) -> str:
    """Three digits are enough: what they do not show is less than the seeds differ by."""
    return f"{round(value, 3) + 0.0:.3f}"  # no -0


def _range(values: Sequence[float]) -> str:
    if not values:
        return "-"
    middle, low, high = map(_nats, (median(values), min(values), max(values)))
    return middle if low == high else f"{middle} ({low} to {high})"


def _shown(results: Results) -> list[str]:
    """The cases of which something was run, or all: the quick form has one of them."""
    methods = EXPERIMENTS[NAME].methods[KNOTWISE]

    def was_run(case: str) -> bool:
        names = (NAME, KNOTWISE)
        return any(results.of(*names, each.name, case) or results.failed(*names, each.name, case) for each in methods)

    return [case for case in CASES if was_run(case)] or list(CASES)


def _hidden(results: Results) -> str:
    hidden = [_title(case) for case in CASES if case not in _shown(results)]
    return f"Not run: {'; '.join(hidden)}." if hidden else ""


def _seeds(results: Results) -> str:
    return f"Seeds: {max(len(results.of(NAME, KNOTWISE, FULL.name, case)) for case in CASES)}."


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
        "-" if exact else _range(losses(results, method, case)).split(" (")[0],
        middle(metric("coverage"), ".2f"),
        middle(metric("seconds"), ".1f") + (f", {failed} failed" if failed else ""),
    )
