"""The report: one page with what was found, figures and tables beside the paper's, and its claims on demand."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from importlib import resources
from itertools import groupby
from pathlib import Path

from knotwise.files import write_atomically
from knotwise.plotting.style import MissingMatplotlibError
from knotwise.report.html import (
    Html,
    Picture,
    Table,
    anchor,
    code_block,
    fold,
    heading,
    join,
    paragraph,
    picture_element,
    smaller,
    table_element,
    tag,
)
from knotwise.report.html import page as html_page
from knotwise_reproduction.claims import Claim, judge_claims
from knotwise_reproduction.experiments import EXPERIMENTS, Experiment, job_of
from knotwise_reproduction.figures import SETTINGS, PaperFigure, draw_figures, missing_figures
from knotwise_reproduction.findings import VERDICTS, findings
from knotwise_reproduction.results import Row
from knotwise_reproduction.tables import all_tables
from knotwise_reproduction.tables_short import NAME, short_tables

__all__ = ["write_report"]

TITLE = "Knot selection in sparse Gaussian processes, reproduced"
LEAD = (
    "Every experiment of Garton, Niemi and Carriquiry, Knot Selection in Sparse Gaussian Processes (2020), run by "
    "knotwise: with the paper's settings (FIC, Adadelta, its tolerances: “as published”) and with our own (L-BFGS, "
    "and also VFE and automatic knots: “knotwise”). One experiment goes beyond the paper: short length-scales."
)
COMMANDS = """\
knotwise reproduce all           # goes on where it stopped
knotwise reproduce all --quick   # one seed of everything"""

MEASURE_BY_MEASURE = "Measure by measure: ranges over the seeds, and differences from the paper"

#: names of the figures at the top, the first that was drawn of each line
HEADLINES = (
    ("figure-3-gaussian-knotwise", "figure-3-gaussian-published", "figure-1-five-knots-published"),
    ("figure-7-hickory-knots-knotwise", "figure-5-banana-knots-knotwise", "figure-5-banana-knots-published"),
)


def write_report(rows: Iterable[Row], out: Path) -> Path:
    """Write `report.html` in `out`, with the figures' files in `out/figures`, and return where it is."""
    rows = list(rows)
    out.mkdir(parents=True, exist_ok=True)
    try:
        figures = draw_figures(rows, out / "figures")
        word = _absence(missing_figures(figures))
    except MissingMatplotlibError as error:
        figures, word = [], f"There are no figures: {error}"
    path = out / "report.html"
    write_atomically(path, page(rows, figures, word).encode("utf-8"))
    return path


def page(rows: Sequence[Row], figures: Sequence[PaperFigure], word: str = "") -> str:
    """Put the page together from the rows and the figures drawn of them; `word` says which are missing, and why."""
    tables = all_tables(rows) | {NAME: short_tables(rows)}
    claims = judge_claims(rows)
    experiments = (
        (name.capitalize(), experiment_section(experiment, rows, tables.get(name, []), figures))
        for name, experiment in EXPERIMENTS.items()
    )
    sections = [
        ("Findings", findings_section(rows, claims, figures)),
        *experiments,
        ("Claims", claims_section(claims)),
        ("How it was run", run_section(rows)),
    ]
    header = join(paragraph(LEAD, "lead"), paragraph(summary(rows)), paragraph(word, "word"))
    style = resources.files("knotwise_reproduction").joinpath("report.css").read_text(encoding="utf-8")
    return html_page(TITLE, header, sections, style)


def _absence(missing: Sequence[str]) -> str:
    """Say which figures there are no rows for."""
    return f"Not drawn, for want of rows: {'; '.join(missing)}." if missing else ""


def summary(rows: Sequence[Row]) -> str:
    """Say in a sentence how much was run."""
    if not rows:
        return "There are no rows yet: nothing was run."
    seeds = ", ".join(f"{n} {SETTINGS[setting]}" for setting, n in _seeds(rows).items())
    minutes = sum(row.get("seconds") or 0.0 for row in rows) / 60
    return f"{len(rows)} fits; seeds: {seeds}; {minutes:.1f} minutes of fitting, added up."


def _seeds(rows: Sequence[Row]) -> dict[str, int]:
    """Count the seeds of each setting that has rows."""
    found = {setting: {row["seed"] for row in rows if row["setting"] == setting} for setting in SETTINGS}
    return {setting: len(seeds) for setting, seeds in found.items() if seeds}


# -- sections -------------------------------------------------------------------------------------


def findings_section(rows: Sequence[Row], claims: Sequence[Claim], figures: Sequence[PaperFigure]) -> Html:
    """Say what came out, with the pictures that show most of it."""
    said = tag("ul", *(tag("li", sentence) for sentence in findings(rows, claims)))
    return join(said, *(figure_element(figure) for figure in _headlines(figures)))


def _headlines(figures: Sequence[PaperFigure]) -> list[PaperFigure]:
    """The figures that stand at the top: the first of each kind that was drawn."""
    drawn = {figure.name: figure for figure in figures}
    found = (next((drawn[name] for name in names if name in drawn), None) for names in HEADLINES)
    return [figure for figure in found if figure is not None]


def claims_section(claims: Sequence[Claim]) -> Html:
    """Count the verdicts, and list on demand what the paper says, each with what the rows of either setting say."""
    counts = Counter((claim.setting, claim.verdict) for claim in claims)
    lines = tuple(
        (words, *(str(counts[setting, verdict]) for verdict in VERDICTS)) for setting, words in SETTINGS.items()
    )
    note = "What the paper says in words, judged by the rows: verdicts are computed."
    items = [_claim_item(list(group)) for _, group in groupby(claims, key=lambda claim: (claim.text, claim.where))]
    tally = table_element(Table("How many claims hold", ("settings", *VERDICTS), lines, note), 3)
    return join(tally, fold(f"All {len(items)} claims, with their numbers", tag("ol", *items, class_="claims")))


def _claim_item(claims: Sequence[Claim]) -> Html:
    """One claim of the paper: verdicts in sight, numbers folded away."""
    verdicts = (
        tag(
            "span",
            f"{SETTINGS[claim.setting]}: ",
            tag("b", claim.verdict, class_=anchor(claim.verdict)),
            class_="verdict",
        )
        for claim in claims
    )
    numbers = (tag("li", f"{SETTINGS[claim.setting]}: {claim.evidence}") for claim in claims)
    seen = tag("summary", tag("span", claims[0].text, class_="text"), *verdicts)
    return tag("li", tag("details", seen, paragraph(f"In the paper: {claims[0].where}."), tag("ul", *numbers)))


def experiment_section(
    experiment: Experiment, rows: Sequence[Row], tables: Sequence[Table], figures: Sequence[PaperFigure]
) -> Html:
    """Show an experiment: its table in the paper's layout, its figures, and each measure by itself."""
    where = paragraph(f"{experiment.title}. {experiment.place[0].upper()}{experiment.place[1:]}.")
    if not any(row["experiment"] == experiment.name for row in rows):
        command = tag("code", f"knotwise reproduce {experiment.name}")
        return join(where, tag("p", "Not run. To run it: ", command, class_="word"))
    words = "Ranges over the seeds" if experiment.beyond else MEASURE_BY_MEASURE
    above = _headlines(figures)
    drawn = (figure_element(each) for each in figures if each.experiment == experiment.name and each not in above)
    first = (table_element(table, 3) for table in tables[:1])
    return join(where, *drawn, *first, fold(words, *(table_element(table, 3) for table in tables[1:])))


def figure_element(figure: PaperFigure) -> Html:
    """Make a figure whose picture is part of the page."""
    svg = figure.svg.read_bytes()
    width = float(re.search(rb'width="([\d.]+)pt"', svg)[1]) / 12  # type: ignore[index]  # in rem
    content, kind = smaller(svg, figure.png.read_bytes())
    return picture_element(Picture(figure.name, figure.title, figure.caption, content, kind, width))


def run_section(rows: Sequence[Row]) -> Html:
    """Say what the numbers came from, what failed, and how to run it again."""
    facts = [tag("div", tag("dt", name), tag("dd", ", ".join(values))) for name, values in _circumstances(rows).items()]
    failed = [
        tag(
            "li",
            f"{replace(job_of(row), setting=SETTINGS[row['setting']])}: {row['error']}",
        )
        for row in rows
        if "error" in row
    ]
    pieces = [
        tag("dl", *facts) if facts else Html(),
        join(heading(3, "Fits that could not be made"), tag("ul", *failed)) if failed else Html(),
        heading(3, "Run it again"),
        code_block(COMMANDS),
    ]
    return join(*pieces)


def _circumstances(rows: Sequence[Row]) -> dict[str, list[str]]:
    """Collect versions and threads; more than one value where the rows differ."""
    found: dict[str, dict[str, None]] = {}
    for row in rows:
        for name, value in {**row.get("versions", {}), "threads per fit": row.get("threads")}.items():
            found.setdefault(name, {})[str(value)] = None
    return {name: list(values) for name, values in found.items()}
