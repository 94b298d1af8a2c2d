"""The page docs/paper.md: its tables and claims are made from the rows in docs/paper/rows.jsonl.

    python reproduction/paper_page.py                  # the page anew from the stored rows
    python reproduction/paper_page.py knotwise-paper   # first store the rows of this folder of `knotwise reproduce`;
                                                       # stored rows of what it did not run stay

Its table of reasons is written by reproduction/paper_why.py.
"""

from __future__ import annotations

import argparse
import re
import shutil
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

from knotwise_reproduction.claims import judge_claims
from knotwise_reproduction.experiments import EXPERIMENTS, plan
from knotwise_reproduction.pictures import rounded
from knotwise_reproduction.published import TABLES
from knotwise_reproduction.store import Row, job_of, read_rows, row_line
from knotwise_reproduction.tables import SETTING_NAMES, tables_of
from knotwise_reproduction.tables_short import NAME as SHORT
from knotwise_reproduction.tables_short import short_tables

DOCS = Path(__file__).parents[1] / "docs"
PAGE, ROWS, WHY = DOCS / "paper.md", DOCS / "paper" / "rows.jsonl", DOCS / "paper" / "why.md"
#: of the experiment beyond the paper
PICTURES, PICTURE_FOLDER = ("figure-9-short-knotwise.png", "figure-10-short-losses-knotwise.png"), DOCS / "paper"
BLOCK = re.compile(r"(<!-- paper:start (?P<name>\w+) -->\n).*?(<!-- paper:end -->)", re.DOTALL)


def slim(rows: Iterable[Row]) -> list[Row]:
    """Rows without pictures, knots to five digits, in the order of the experiments: small, and the same in each run."""
    order = {job: i for i, job in enumerate(plan(EXPERIMENTS.values(), seeds=1000))}
    known = {job_of(row): row for row in rows if job_of(row) in order}.values()  # the latest of a job
    lean = [{**row, "picture": None, "initial_knots": [], "knots": rounded(row.get("knots", []))} for row in known]
    return sorted(lean, key=lambda row: (list(EXPERIMENTS).index(row["experiment"]), order[job_of(row)]))


def claims_list(rows: Sequence[Row]) -> str:
    """Every claim, with what each setting says to it."""
    lines = []
    for (text, where), claims in groupby(judge_claims(rows), key=lambda claim: (claim.text, claim.where)):
        lines.append(f"1. {text} ({where}).")
        lines += [f"   * {SETTING_NAMES[claim.setting]}: **{claim.verdict}**. {claim.evidence}" for claim in claims]
    return "\n".join(lines)


def blocks(rows: Sequence[Row]) -> dict[str, str]:
    """What the page's markers name."""
    found = {name: tables_of(rows, name) for name in TABLES} | {SHORT: short_tables(rows)}
    tables = {name: "\n\n".join(table.to_markdown() for table in each) for name, each in found.items()}
    why = WHY.read_text(encoding="utf-8").strip()
    return {"claims": claims_list(rows), "why": why, **tables}


def with_blocks(page: str, rows: Sequence[Row]) -> str:
    """The page with the text between its markers made from the rows."""
    made = blocks(rows)
    return BLOCK.sub(lambda match: f"{match[1]}\n{made[match['name']]}\n\n{match[3]}", page)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, help="of `knotwise reproduce`, whose rows are to be stored")
    folder = parser.parse_args(arguments).folder
    if folder is not None:
        ROWS.parent.mkdir(exist_ok=True)
        stored = read_rows(ROWS) if ROWS.exists() else []
        for name in PICTURES:
            if (drawn := folder / "figures" / name).exists():
                shutil.copyfile(drawn, PICTURE_FOLDER / name)
        ROWS.write_text("".join(map(row_line, slim([*stored, *read_rows(folder / "rows.jsonl")]))), encoding="utf-8")
    PAGE.write_text(with_blocks(PAGE.read_text(encoding="utf-8"), read_rows(ROWS)), encoding="utf-8")


if __name__ == "__main__":
    main()
