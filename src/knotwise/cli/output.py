"""Where results go: tables in files that are whole or not there, or on standard output."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from knotwise.cli.tables import kind_of_file
from knotwise.errors import InvalidInputError
from knotwise.files import write_atomically

__all__ = ["check_output", "write_table"]


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


def write_table(path: str, pieces: Iterable[dict[str, Any]]) -> None:
    """Write pieces of columns to a CSV or Parquet file, or as CSV to standard output with "-"."""
    if kind_of_file(path) == "parquet":
        from knotwise.cli.parquet import write_parquet

        write_parquet(Path(path), pieces)
        return
    texts = _csv(pieces, "\t" if path.lower().endswith(".tsv") else ",")
    if path == "-":
        for text in texts:
            print(text, end="")
    else:
        write_atomically(Path(path), (text.encode() for text in texts))


def _csv(pieces: Iterable[dict[str, Any]], separator: str) -> Iterator[str]:
    """The lines of a CSV file, one piece after the other; numbers have all their digits."""
    for i, piece in enumerate(pieces):
        text = io.StringIO()
        names = [list(piece)] if i == 0 else []
        rows = zip(*piece.values(), strict=True)
        csv.writer(text, delimiter=separator, lineterminator="\n").writerows(chain(names, rows))
        yield text.getvalue()
