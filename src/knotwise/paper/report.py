"""The report: one page with the paper's claims, tables and figures beside ours, that needs nothing but itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from importlib import resources
from itertools import groupby
from pathlib import Path

from knotwise.files import write_atomically
from knotwise.paper.claims import Claim, judge_claims
from knotwise.paper.experiments import EXPERIMENTS, Experiment, job_of
from knotwise.paper.figures import SETTINGS, PaperFigure, draw_figures, missing_figures
from knotwise.paper.report_html import Html, anchor, figure_element, heading, paragraph, table_element, tag
from knotwise.paper.results import Row
from knotwise.paper.tables import Table, all_tables
from knotwise.paper.tables_short import NAME, short_tables
from knotwise.plotting.style import MissingMatplotlibError

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

#: from best to worst
VERDICTS = ("holds", "holds in part", "does not hold here", "not computed", "not run")

#: nothing is loaded, not even by mistake
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


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
    experiments = (
        (name.capitalize(), experiment_section(experiment, rows, tables.get(name, []), figures))
        for name, experiment in EXPERIMENTS.items()
    )
    sections = [("Claims", claims_section(judge_claims(rows))), *experiments, ("How it was run", run_section(rows))]
    links = [tag("li", tag("a", title, href=f"#{anchor(title)}")) for title, _ in sections]
    body = tag(
        "body",
        tag("header", tag("h1", TITLE), paragraph(LEAD, "lead"), paragraph(summary(rows)), paragraph(word, "word")),
        tag("nav", heading(2, "Contents"), tag("ul", *links), aria_labelledby="contents"),
        tag("main", *(tag("section", heading(2, title), content) for title, content in sections)),
    )
    style = resources.files("knotwise.paper").joinpath("report.css").read_text(encoding="utf-8")
    head = Html(
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f'<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">{tag("title", TITLE)}'
        f"<style>{style}</style>"
    )
    return f"<!DOCTYPE html>\n{tag('html', tag('head', head), body, lang='en')}\n"


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


def claims_section(claims: Sequence[Claim]) -> Html:
    """Count the verdicts, and list what the paper says, each with what the rows of either setting say to it."""
    counts = Counter((claim.setting, claim.verdict) for claim in claims)
    lines = tuple(
        (words, *(str(counts[setting, verdict]) for verdict in VERDICTS)) for setting, words in SETTINGS.items()
    )
    note = "What the paper says in words, judged by the rows: verdicts are computed. Unfold one to see its numbers."
    items = (_claim_item(list(group)) for _, group in groupby(claims, key=lambda claim: (claim.text, claim.where)))
    tally = table_element(Table("How many claims hold", ("settings", *VERDICTS), lines, note), 3)
    return Html(tally + tag("ol", *items, class_="claims"))


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
        return Html(where + tag("p", "Not run. To run it: ", command, class_="word"))
    words = "Ranges over the seeds" if experiment.beyond else MEASURE_BY_MEASURE
    drawn = (figure_element(figure) for figure in figures if figure.experiment == experiment.name)
    first = (table_element(table, 3) for table in tables[:1])
    return Html("".join([where, *first, *drawn, _details(tables[1:], words)]))


def _details(tables: Sequence[Table], words: str) -> Html:
    """Fold the tables of single measures away: they are many."""
    if not tables:
        return Html()
    return tag("details", tag("summary", words), *(table_element(table, 3) for table in tables))


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
        Html(heading(3, "Fits that could not be made") + tag("ul", *failed)) if failed else Html(),
        heading(3, "Run it again"),
        tag("div", tag("pre", tag("code", COMMANDS)), class_="scroll", tabindex="0"),
    ]
    return Html("".join(pieces))


def _circumstances(rows: Sequence[Row]) -> dict[str, list[str]]:
    """Collect versions and threads; more than one value where the rows differ."""
    found: dict[str, dict[str, None]] = {}
    for row in rows:
        for name, value in {**row.get("versions", {}), "threads per fit": row.get("threads")}.items():
            found.setdefault(name, {})[str(value)] = None
    return {name: list(values) for name, values in found.items()}
