"""Whose folder it is: results go only into one that is new, empty or our own, and only files of ours are removed."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from knotwise.errors import InvalidInputError
from knotwise_reproduction.data import SETTINGS
from knotwise_reproduction.experiments import EXPERIMENTS

__all__ = ["EXACT", "MARKER", "ROWS", "claim_folder", "is_row", "remove_results"]

#: the file by which we know our folder, and its content; the first line is what counts
MARKER = "made-by-knotwise.txt"
MARK = b"knotwise reproduction, folder of format 1\n"
WORDS = b"`knotwise reproduce` writes rows.jsonl, report.html, exact/ and figures/ here; other files are left alone.\n"

ROWS, REPORT, EXACT, FIGURES = "rows.jsonl", "report.html", "exact", "figures"
#: how each row begins
ROW_START = b'{"experiment":'
FIGURE = re.compile(r"figure-\d+-[a-z-]+\.(png|svg)")
#: how far into a page its title is
PAGE_HEAD = 2**16


def claim_folder(folder: Path) -> None:
    """Make the folder ours: a new or empty one is marked, and one of somebody else refused before anything changes.

    Earlier versions of this program left no mark. Their folders are known by `rows.jsonl`: each line is one of our
    rows.
    """
    if folder.exists():
        _refuse_links(folder)
        if not _is_marked(folder) and any(folder.iterdir()):
            _refuse_foreign(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if not _is_marked(folder):
        with open(folder / MARKER, "xb") as file:
            file.write(MARK + WORDS)


def remove_results(folder: Path) -> None:
    """Forget the rows and the predictions of the exact GPs; files that are not ours stay."""
    (folder / ROWS).unlink(missing_ok=True)
    for path in _predictions(folder):
        path.unlink()


def is_row(row: Any) -> bool:
    """Whether a value read from JSON is a row of ours: what was run, and by which versions."""
    return (
        isinstance(row, dict)
        and all(isinstance(row.get(name), str) for name in ("experiment", "method"))
        and row.get("setting") in SETTINGS
        and type(row.get("seed")) is int
        and isinstance(row.get("case", ""), str)
        and isinstance(row.get("versions"), dict)
        and isinstance(row["versions"].get("knotwise"), str)
        and (isinstance(row.get("metrics"), dict) or isinstance(row.get("error"), str))
    )


def _is_marked(folder: Path) -> bool:
    path = folder / MARKER
    return _kind(path) == "file" and path.read_bytes().startswith(MARK)


def _refuse_foreign(folder: Path) -> None:
    """Refuse a folder without our mark, unless an earlier version of this program has filled it."""
    problem = _foreign_rows(folder) or _foreign_report(folder)
    if problem:
        raise InvalidInputError(
            f"The folder {str(folder)!r} is not one that `knotwise reproduce` has made: {problem}. Nothing in it was "
            "changed. Choose an empty or a new folder with `--out`."
        )


def _foreign_rows(folder: Path) -> str:
    """What is wrong with the rows, in words; nothing if they are ours."""
    path = folder / ROWS
    if _kind(path) != "file":
        return f"it has {_some_names(folder)}, and no {ROWS}"
    *lines, torn = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, start=1):
        try:
            ours = line.startswith(ROW_START) and is_row(json.loads(line))
        except (ValueError, RecursionError):
            ours = False
        if not ours:
            return f"line {number} of its {ROWS} is not a row of results"
    if torn and not (torn.startswith(ROW_START) or ROW_START.startswith(torn)):
        return f"its {ROWS} ends with what is not a row of results"
    if not lines:  # a run that was ended before its first row leaves no rows, and nothing else
        names = {path.name for path in folder.iterdir()}
        if EXACT not in names or names - {ROWS, EXACT, FIGURES, REPORT}:
            return f"it has {_some_names(folder)}, and no results in its {ROWS}"
    return ""


def _foreign_report(folder: Path) -> str:
    path = folder / REPORT
    if _kind(path) != "file":
        return ""
    from knotwise_reproduction.report import TITLE

    with open(path, "rb") as file:
        return "" if f"<title>{TITLE}</title>".encode() in file.read(PAGE_HEAD) else f"its {REPORT} is another page"


def _refuse_links(folder: Path) -> None:
    """Refuse what would lead our writing elsewhere: links, and folders and files in each other's places."""
    wanted = dict.fromkeys([folder / ROWS, folder / REPORT, folder / MARKER], "file")
    wanted |= dict.fromkeys([folder / EXACT, folder / FIGURES], "folder")
    wanted |= dict.fromkeys([*_predictions(folder), *_figures(folder)], "file")
    for path, kind in wanted.items():
        found = _kind(path)
        if found not in ("nothing", kind):
            raise InvalidInputError(
                f"{str(path)!r} is a {found}, where `knotwise reproduce` has a {kind} of its own. Nothing was changed. "
                "Move it away, or choose an empty or a new folder with `--out`."
            )


def _predictions(folder: Path) -> Iterator[Path]:
    names = "|".join(map(re.escape, EXPERIMENTS))
    settings = "|".join(map(re.escape, SETTINGS))
    cases = "|".join(re.escape(f"{case}-") for each in EXPERIMENTS.values() for case in each.cases if case)
    return _matching(folder / EXACT, re.compile(rf"({names})-({settings})-({cases})?\d+\.npz"))


def _figures(folder: Path) -> Iterator[Path]:
    return _matching(folder / FIGURES, FIGURE)


def _matching(folder: Path, pattern: re.Pattern[str]) -> Iterator[Path]:
    if _kind(folder) != "folder":
        return iter(())
    return (path for path in sorted(folder.iterdir()) if pattern.fullmatch(path.name))


def _kind(path: Path) -> str:
    """What stands at a place, where a link counts as itself: nothing, file, folder, link or special file."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return "nothing"
    kinds = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}
    return kinds.get(stat.S_IFMT(mode), "special file")


def _some_names(folder: Path) -> str:
    names = sorted(path.name for path in folder.iterdir())
    return ", ".join(map(repr, names[:2])) + (f" and {len(names) - 2} more" if len(names) > 2 else "")
