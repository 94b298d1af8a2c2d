"""Opening a table in a file: CSV and its kin, or Parquet."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from knotwise.cli.parquet import open_parquet
from knotwise.cli.tables import Table, check_readable, kind_of_file
from knotwise.cli.text import open_text

__all__ = ["open_table"]


@contextlib.contextmanager
def open_table(path: str, separator: str | None = None, decimal: str = ".") -> Iterator[Table]:
    """Open a table to read it."""
    kind = kind_of_file(path)
    if path != "-":
        check_readable(Path(path))
    with open_parquet(path) if kind == "parquet" else open_text(path, separator, decimal) as table:
        yield table
