"""Where results go: tables in files that are whole or not there, or on standard output.

A spreadsheet takes text that begins with a sign such as = for a formula, and runs it. Labels and names come from data,
which may be anybody's, so such text gets a ' in front in CSV files, by which spreadsheets know that it is text.

Spreadsheets of half the world separate by semicolons, whatever the file does, and cut "a;=1+1" in two. So text with a
sign that separates somewhere stands in quotes; and since quotes that do not begin a line mean nothing to such a
spreadsheet, a formula behind such a sign gets its ' there, but for the first cell of a line.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from knotwise.cli.tables import kind_of_file
from knotwise.errors import InvalidInputError
from knotwise.files import write_atomically

#: how a formula begins for some spreadsheet, the wide signs of East Asia with the others
FORMULA = re.compile("[=+\\-@\\t\\r\\n\uff1d\uff0b\uff0d\uff20]")
#: where some spreadsheet, with its own idea of the separator, begins a new cell
SEPARATORS = ",;|\t\r\n"
#: a number, of a column that was copied as text too, with a decimal point or comma
NUMBER = re.compile(r"[+-]?([0-9]+([.,][0-9]*)?|[.,][0-9]+)([eE][+-]?[0-9]+)?|[+-]?(inf|nan)", re.IGNORECASE)


def check_output(path: str | Path, *, inputs: Sequence[str | Path]) -> None:
    """Refuse a place where nothing can be written, or where an input is, before the work begins."""
    if str(path) == "-":
        return
    path = Path(path)
    if path.is_dir():
        raise InvalidInputError(f"The output {str(path)!r} is a folder. Give the name of a file in it.")
    if not path.parent.is_dir():
        raise InvalidInputError(f"There is no folder {str(path.parent)!r} for the output. Make it first.")
    if not os.access(path.parent, os.W_OK):
        raise InvalidInputError(f"The folder {str(path.parent)!r} of the output cannot be written to.")
    for other in map(Path, inputs):
        if path.exists() and other.exists() and path.samefile(other):
            raise InvalidInputError(f"The output {str(path)!r} is an input too, and would be lost. Give another name.")


def write_table(path: str, pieces: Iterable[dict[str, Any]], *, raw_text: bool = False) -> None:
    """Write pieces of columns to a CSV or Parquet file, or as CSV to standard output with "-".

    In CSV, text that a spreadsheet would run as a formula has a ' in front, unless it is to be `raw_text`.
    """
    if kind_of_file(path) == "parquet":
        from knotwise.cli.parquet import write_parquet

        write_parquet(Path(path), pieces)
        return
    texts = _csv(pieces, "\t" if path.lower().endswith(".tsv") else ",", guarded=not raw_text)
    if path == "-":
        for text in texts:
            print(text, end="")
    else:
        write_atomically(Path(path), (text.encode() for text in texts))


def as_text(value: Any, other_separators: re.Pattern[str] | None = None) -> Any:
    """A value of a cell that no spreadsheet runs: numbers as they are, text that begins like a formula with a '.

    Where quotes do not keep a cell whole, so is what follows one of `other_separators`.
    """
    if not isinstance(value, str) or NUMBER.fullmatch(value):
        return value
    whole = f"'{value}" if FORMULA.match(value) else value
    if other_separators is None:
        return whole
    parts = other_separators.split(whole)  # with the separators between them
    parts[2::2] = map(_behind_separator, parts[2::2])
    return "".join(parts)


def _behind_separator(text: str) -> str:
    """What another spreadsheet takes for a cell; a quote, which the file doubles, is then an empty text before it."""
    return f"'{text}" if FORMULA.match(text.lstrip('"')) and not NUMBER.fullmatch(text) else text


def _csv(pieces: Iterable[dict[str, Any]], separator: str, *, guarded: bool) -> Iterator[str]:
    """The lines of a CSV file, one piece after the other; numbers have all their digits."""
    others = re.compile(f"([{SEPARATORS.replace(separator, '')}])")

    def cells(values: Iterable[Any], column: int) -> list[Any]:
        return [as_text(value, others if column else None) for value in values] if guarded else list(values)

    for i, piece in enumerate(pieces):
        names = [cells([name], j)[0] for j, name in enumerate(piece)]
        columns = [cells(values, j) if _has_text(values) else values for j, values in enumerate(piece.values())]
        rows = chain([names] if i == 0 else [], zip(*columns, strict=True))
        texts = chain(names, *(values for values in columns if _has_text(values)))
        if guarded and any(others.search(text) for text in texts):
            yield "".join(f"{separator.join(map(_quoted, row))}\n" for row in rows)
        else:
            text = io.StringIO()
            csv.writer(text, delimiter=separator, lineterminator="\n").writerows(rows)
            yield text.getvalue()


def _quoted(value: Any) -> str:
    """A cell as text, in quotes where a sign in it separates for somebody."""
    text = repr(float(value)) if isinstance(value, float) else "" if value is None else str(value)
    return '"' + text.replace('"', '""') + '"' if any(sign in text for sign in f'"{SEPARATORS}') else text


def _has_text(values: Sequence[Any]) -> bool:
    """Whether a column is of text; all its values are of one kind."""
    return len(values) > 0 and isinstance(values[0], str)
