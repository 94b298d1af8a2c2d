"""Opening a table in a file: CSV and its kin, Parquet, or a workbook."""

from __future__ import annotations

import contextlib
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

from knotwise.cli.command import UsageError
from knotwise.cli.excel import open_excel
from knotwise.cli.parquet import open_parquet
from knotwise.cli.tables import Table, check_readable, kind_of_input
from knotwise.cli.text import open_text

__all__ = ["open_table"]


@contextlib.contextmanager
def open_table(arguments: Namespace) -> Iterator[Table]:
    """Open the table that a command was given, in the way that its options say."""
    path = arguments.data
    kind = kind_of_input(path)
    if arguments.sheet is not None and kind != "excel":
        raise UsageError(f"--sheet is for workbooks (.xlsx), and {path!r} is none: leave it out.")
    if path != "-":
        check_readable(Path(path))
    opened: contextlib.AbstractContextManager[Table]
    if kind == "parquet":
        opened = open_parquet(path)
    elif kind == "excel":
        opened = open_excel(path, arguments.decimal, arguments.sheet)
    else:
        opened = open_text(path, arguments.separator, arguments.decimal)
    with opened as table:
        yield table
