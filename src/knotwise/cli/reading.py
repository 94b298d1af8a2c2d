"""Opening a table in a file: CSV and its kin, Parquet, or a workbook."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from knotwise.cli.excel import open_excel
from knotwise.cli.parquet import open_parquet
from knotwise.cli.tables import Table, check_readable, kind_of_input
from knotwise.cli.text import open_text

__all__ = ["open_table"]


@contextlib.contextmanager
def open_table(path: str, separator: str | None = None, decimal: str = ".") -> Iterator[Table]:
    """Open a table to read it."""
    kind = kind_of_input(path)
    if path != "-":
        check_readable(Path(path))
    opened: contextlib.AbstractContextManager[Table]
    if kind == "parquet":
        opened = open_parquet(path)
    elif kind == "excel":
        opened = open_excel(path, decimal)
    else:
        opened = open_text(path, separator, decimal)
    with opened as table:
        yield table
