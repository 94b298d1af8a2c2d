"""Where results go: tables in files that are whole or not there, or on standard output.

A spreadsheet takes text that begins with a sign such as = for a formula, and runs it. Labels and names come from data,
which may be anybody's, so such text gets a ' in front in CSV files, by which spreadsheets know that it is text.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from knotwise.cli.tables import kind_of_file
from knotwise.errors import InvalidInputError
from knotwise.files import write_atomically

__all__ = ["check_output", "write_table"]

#: how a formula begins for some spreadsheet, the wide signs of East Asia with the others
FORMULA = re.compile("[=+\\-@\\t\\r\\n\uff1d\uff0b\uff0d\uff20]")
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
    texts = _csv(pieces, "\t" if path.lower().endswith(".tsv") else ",", as_written if raw_text else as_text)
    if path == "-":
        for text in texts:
            print(text, end="")
    else:
        write_atomically(Path(path), (text.encode() for text in texts))


def as_text(value: Any) -> Any:
    """A value of a cell that no spreadsheet runs: numbers as they are, text that begins like a formula with a '."""
    formula = isinstance(value, str) and FORMULA.match(value) and not NUMBER.fullmatch(value)
    return f"'{value}" if formula else value


def as_written(value: Any) -> Any:
    return value


def _csv(pieces: Iterable[dict[str, Any]], separator: str, cell: Callable[[Any], Any]) -> Iterator[str]:
    """The lines of a CSV file, one piece after the other; numbers have all their digits."""
    for i, piece in enumerate(pieces):
        text = io.StringIO()
        names = [map(cell, piece)] if i == 0 else []
        columns = [map(cell, values) if _has_text(values) else values for values in piece.values()]
        rows = zip(*columns, strict=True)
        csv.writer(text, delimiter=separator, lineterminator="\n").writerows(chain(names, rows))
        yield text.getvalue()


def _has_text(values: Sequence[Any]) -> bool:
    """Whether a column is of text; all its values are of one kind."""
    return len(values) > 0 and isinstance(values[0], str)
