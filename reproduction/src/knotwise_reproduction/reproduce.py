"""The whole: run the experiments that are missing, write the report, and say what came out."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from knotwise.errors import InvalidInputError
from knotwise.numerics.blocks import available_cores
from knotwise.report.html import WORDS, Table
from knotwise_reproduction.claims import judge_claims
from knotwise_reproduction.data import SETTINGS
from knotwise_reproduction.display import Display, duration
from knotwise_reproduction.experiments import Experiment, experiments_named, plan
from knotwise_reproduction.published import TABLES
from knotwise_reproduction.results import Results
from knotwise_reproduction.runs import versions
from knotwise_reproduction.store import Row, RowStore
from knotwise_reproduction.tables import overview
from knotwise_reproduction.tables_short import NAME, short_table
from knotwise_reproduction.workers import run_jobs

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["reproduce"]

#: of every method, in the quick form
QUICK_SEEDS = 1


def reproduce(
    names: Sequence[str] = ("all",),
    *,
    quick: bool = False,
    seeds: int | None = None,
    out: Path = Path("knotwise-paper"),
    jobs: int | None = None,
    fresh: bool = False,
    console: Console | None = None,
) -> Path:
    """Run the paper's experiments and set our numbers beside the paper's; returns where the report is.

    Rows go to `out/rows.jsonl` as they are there, and what is there is not run again, unless `fresh`. `quick` is one
    seed of everything and one data set of `short`, `seeds` as many of every method, and else there are ten of our
    settings and three of the published ones and of `short`. `jobs` processes work at a time, by default one for each
    core.
    """
    from rich.console import Console

    from knotwise_reproduction.report import write_report

    console = console or Console(highlight=False)
    began = time.perf_counter()
    for name, value in (("seeds", seeds), ("jobs", jobs)):
        if value is not None and value < 1:
            raise InvalidInputError(f"`{name}` is {value}; it must be at least 1.")
    experiments = experiments_named(names)
    planned = plan(experiments, QUICK_SEEDS if quick and seeds is None else seeds, quick=quick)
    store = RowStore(out, fresh=fresh)
    missing = store.missing(planned, versions())
    n_workers = min(jobs or available_cores(), max(len(missing), 1))
    kept = f"; {len(planned) - len(missing)} are there already" if len(missing) < len(planned) else ""
    console.print(f"{len(missing)} fits to run, {n_workers} at a time{kept}.", markup=False)
    if missing:
        with Display(console, missing, n_workers) as display:
            run_jobs(missing, store, n_workers, display)
    report = write_report(store.rows, out)
    show_summary(console, store.rows, experiments)
    console.print(f"Rows:   {store.path}", markup=False, soft_wrap=True)
    console.print(f"Report: {report}", markup=False, soft_wrap=True)
    console.print(f"This took {duration(time.perf_counter() - began)}.", markup=False)
    return report


def show_summary(console: Console, rows: Sequence[Row], experiments: Sequence[Experiment]) -> None:
    """Print the paper's tables with our medians, and how many of its claims hold."""
    results = Results(rows)
    for experiment in experiments:
        if experiment.name in TABLES:
            _print_table(console, overview(results, experiment))
        elif experiment.name == NAME:
            _print_table(console, short_table(rows))
    claims = judge_claims(rows)
    for setting in SETTINGS:
        counts = Counter(claim.verdict for claim in claims if claim.setting == setting)
        words = ", ".join(f"{n} {verdict}" for verdict, n in counts.most_common())
        console.print(f"The paper's claims in words, {setting} settings: {words}.", markup=False)


def _print_table(console: Console, table: Table) -> None:
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    shown = RichTable(title=Text(table.title), title_style="bold", title_justify="left", pad_edge=False)
    shown.box = box.SIMPLE_HEAD
    for column in table.columns:
        shown.add_column(column, justify="left" if column in WORDS else "right")
    for cells in table.rows:
        shown.add_row(*map(Text, cells))
    shown.caption, shown.caption_justify = Text(table.note, style="dim"), "left"
    console.print(shown)
