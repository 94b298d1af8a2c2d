"""The paper's tables with our numbers beside its own: pure functions of the rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from knotwise.report.html import Table
from knotwise_reproduction.data import KNOTWISE, PUBLISHED, SETTINGS
from knotwise_reproduction.experiments import EXPERIMENTS, Experiment
from knotwise_reproduction.published import TABLES
from knotwise_reproduction.results import Results, Row, Value, metric, spread

__all__ = ["all_tables", "detail_table", "overview", "tables_of"]

NOT_RUN = "not run"
LEGEND = "Our lines are medians over the seeds, as published and by knotwise's own settings."
SETTING_NAMES = {PUBLISHED: "as published", KNOTWISE: "knotwise"}
SIMULATED = "The paper's simulated data are not published: ours are of the same kind, so no difference is shown."
OTHER_SPLITS = "The paper's split is not published: ours are others, so a difference holds the split's share too."
SAME_DATA = "The data are the paper's own."
MACHINE = "The paper's machine is not known, and its program is in R: the ratio says little of either alone."


@dataclass(frozen=True)
class Measure:
    """A column of the paper's table, as we compute it: its name there, our title, number, format, what to know."""

    key: str  # in `published`
    short: str
    title: str
    value: Value
    style: str = ".3f"
    note: str = ""


KNOTS = Measure("n_knots", "K", "Knots", metric("n_knots"), "g")
SECONDS = Measure("seconds", "Runtime, s", "Runtime in seconds", metric("seconds"), ".2f", MACHINE)
STEPS = Measure(
    "steps",
    "GA Steps",
    "Gradients taken",
    metric("gradient_steps"),
    "g",
    "Automatic knots take theirs in several optimisers, which do not tell.",
)
LOG_EVIDENCE = Measure(
    "log_evidence",
    "log-Lik.",
    "Log-likelihood",
    metric("log_evidence"),
    note="VFE's is a lower bound; for counts, Laplace's.",
)
RMSE = Measure("rmse", "RMSE", "RMSE of f at the data", metric("rmse"))
SRMSE = Measure("srmse", "SRMSE", "SRMSE", metric("srmse"))
MNLP = Measure("mnlp", "MNLP", "MNLP", metric("mnlp"))
MNLP_TWICE = Measure(
    "mnlp",
    "MNLP",
    "MNLP as the authors' program computes it",
    metric("mnlp_published"),
    note="It counts the noise variance twice; the paper's numbers are in line with this only.",
)
MNLP_ONCE = Measure(
    "mnlp", "MNLP", "MNLP by the paper's formula", metric("mnlp"), note="The noise variance counts once."
)
AUKL_WITH_NOISE = Measure(
    "aukl",
    "AUKL",
    "AUKL as the authors' program computes it",
    metric("aukl_published"),
    note="Of the latent function with noise (or nugget).",
)
AUKL_LATENT = Measure(
    "aukl", "AUKL", "AUKL by the paper's formula", metric("aukl_latent"), note="Of the latent function alone."
)

#: the first of several with the same key is the one that compares with the paper's
MEASURES = {
    "gaussian": (KNOTS, RMSE, SECONDS, STEPS, LOG_EVIDENCE),
    "boston": (SECONDS, KNOTS, SRMSE, MNLP_TWICE, MNLP_ONCE, AUKL_WITH_NOISE, AUKL_LATENT),
    "banana": (SECONDS, KNOTS, MNLP, AUKL_WITH_NOISE, AUKL_LATENT),
    "hickory": (SECONDS, KNOTS, MNLP, AUKL_WITH_NOISE, AUKL_LATENT),
    "poisson": (KNOTS, RMSE, SECONDS, STEPS, LOG_EVIDENCE),
}


def all_tables(rows: Iterable[Row]) -> dict[str, list[Table]]:
    """Every table of every experiment that has one in the paper, by the experiment's name."""
    rows = list(rows)
    return {name: tables_of(rows, name) for name in TABLES}


def tables_of(rows: Iterable[Row], experiment: str) -> list[Table]:
    """The overview in the paper's layout, then a table for each measure with ranges and differences."""
    results = Results(rows)
    details = [detail_table(results, EXPERIMENTS[experiment], measure) for measure in MEASURES[experiment]]
    return [overview(results, EXPERIMENTS[experiment]), *details]


def overview(results: Results, experiment: Experiment) -> Table:
    """The paper's table, with a line of our medians as published and one by our settings below each of its own."""
    published = TABLES[experiment.name]
    measures = {measure.key: measure for measure in reversed(MEASURES[experiment.name])}
    lines = []
    for method in experiment.methods[KNOTWISE]:
        name, t_max = method.name, "-" if method.t_max is None else str(method.t_max)
        if name in published.values:
            theirs = [
                t_max if key == "t_max" else _theirs(published.value(name, key), measures[key])
                for key in published.measures
            ]
            lines.append((name, "paper", *theirs))
        for setting, words in SETTING_NAMES.items():
            if any(name == each.name for each in experiment.methods[setting]):
                own = [
                    t_max if key == "t_max" else _middle(results, experiment, setting, name, measures[key])
                    for key in published.measures
                ]
                lines.append(("" if name in published.values else name, words, *own))
    titles = ["Tmax" if key == "t_max" else measures[key].short for key in published.measures]
    return Table(
        f"{experiment.title} (paper: {published.label})",
        ("method", "by", *titles),
        tuple(lines),
        " ".join([LEGEND, *_twice_defined(experiment), _seeds(results, experiment), _data(experiment)]),
    )


def detail_table(results: Results, experiment: Experiment, measure: Measure) -> Table:
    """One measure: the paper's number, ours with its range over the seeds, and what lies between."""
    published, compared = TABLES[experiment.name], experiment.name not in ("gaussian", "poisson")
    is_time = measure is SECONDS
    lines = []
    for method in experiment.methods[KNOTWISE]:
        theirs = published.value(method.name, measure.key)
        cells = [method.name, _theirs(theirs, measure)]
        for setting in SETTINGS:
            values = results.values(experiment.name, setting, method.name, measure.value)
            cells.append(_ours(results, experiment, setting, method.name, measure))
            if is_time:
                cells.append(f"{theirs / median(values):,.0f}" if theirs is not None and values else "-")
            elif compared:
                change = None if theirs is None or not values else median(values) - theirs
                cells.append("-" if change is None else f"{change:+{measure.style}}")
        lines.append(tuple(cells))
    between = ["paper's over ours"] * 2 if is_time else ["minus paper"] * 2 if compared else ["", ""]
    columns = ("method", "paper", "as published", between[0], "knotwise", between[1])
    notes = [measure.note, _seeds(results, experiment), _data(experiment)]
    return Table(
        f"{experiment.name}: {measure.title}",
        tuple(column for column in columns if column),
        tuple(lines),
        " ".join(filter(None, notes)),
    )


# -- cells ----------------------------------------------------------------------------------------


def _theirs(value: float | None, measure: Measure) -> str:
    style = "g" if measure is SECONDS else measure.style  # the paper's seconds are whole
    return "-" if value is None else f"{value:{style}}"


def _ours(results: Results, experiment: Experiment, setting: str, method: str, measure: Measure) -> str:
    """The median and the range, or why there is none."""
    if all(method != each.name for each in experiment.methods[setting]):
        return "-"
    failed = results.failed(experiment.name, setting, method)
    if not results.of(experiment.name, setting, method):
        return f"{failed} failed" if failed else NOT_RUN
    values = results.values(experiment.name, setting, method, measure.value)
    if measure is KNOTS:
        values = [value for value in values if value]  # the exact GP has none
    return spread(values, measure.style) + (f", {failed} failed" if failed else "")


def _middle(results: Results, experiment: Experiment, setting: str, method: str, measure: Measure) -> str:
    return _ours(results, experiment, setting, method, measure).split(" (")[0]


def _seeds(results: Results, experiment: Experiment) -> str:
    """Over how many seeds the medians are."""
    first = {setting: experiment.methods[setting][1].name for setting in SETTINGS}
    n = {setting: len(results.of(experiment.name, setting, first[setting])) for setting in SETTINGS}
    return f"Seeds: {n[PUBLISHED]} as published, {n[KNOTWISE]} knotwise."


def _twice_defined(experiment: Experiment) -> list[str]:
    """Say which definition the overview shows, where the paper's program and its formula differ."""
    keys = [measure.key for measure in MEASURES[experiment.name]]
    names = {measure.short for measure in MEASURES[experiment.name] if keys.count(measure.key) > 1}
    return [f"{' and '.join(sorted(names))} as the authors' program computes them."] if names else []


def _data(experiment: Experiment) -> str:
    if experiment.name in ("gaussian", "poisson"):
        return SIMULATED
    return SAME_DATA if experiment.same_data else OTHER_SPLITS
