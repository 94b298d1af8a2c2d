"""What a table is, read in pieces, and which kind of file it is in by the ending of its name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from knotwise.cli.columns import Column
from knotwise.errors import InvalidInputError, nearest

__all__ = ["CHUNK_ROWS", "Piece", "Table", "check_readable", "kind_of_file", "kind_of_input"]

CHUNK_ROWS = 8192

TEXT, PARQUET = (".csv", ".tsv", ".txt"), (".parquet", ".pq")
REMEDIES = {
    ".xlsx": "Workbooks are read, not written: give a name that ends in .csv.",
    ".xls": "Save the sheet as CSV or .xlsx.",
    ".ods": "Save the sheet as CSV or .xlsx.",
    ".gz": "Packed text is read from .csv.gz, .tsv.gz and .txt.gz, and not written.",
    ".zip": "Unpack it first: unzip FILE.",
    ".knotwise": "It is the name of a model; the table comes after it: knotwise predict MODEL DATA.",
}


@dataclass(frozen=True)
class Piece:
    """Some rows of a table: columns by name, and where in the file each row is, [n]."""

    columns: Mapping[str, Column]
    places: np.ndarray


class Table(Protocol):
    """A table that is read once, from beginning to end.

    `name` is what the user calls it, `unit` what its places are counted in: "line" or "row".
    """

    name: str
    unit: str
    columns: list[str]

    def pieces(self, names: Sequence[str]) -> Iterator[Piece]:
        """These columns, some rows at a time."""
        ...


def kind_of_file(path: str) -> str:
    """ "text" or "parquet", by the ending of the name; "-" is text."""
    ending = Path(path).suffix.lower()
    if path == "-" or ending in TEXT:
        return "text"
    if ending in PARQUET:
        return "parquet"
    remedy = REMEDIES.get(ending, "Rename it if it is one of them, or convert it.")
    raise InvalidInputError(
        f"{path!r} is not a table that knotwise knows: {', '.join(TEXT)} or .parquet, and to read also .csv.gz or "
        f".xlsx. {remedy}"
    )


def kind_of_input(path: str) -> str:
    """ "text", "parquet" or "excel", by the ending of the name; text may be packed (.gz)."""
    lower = path.lower()
    if lower.endswith(".xlsx"):
        return "excel"
    return "text" if lower.endswith(tuple(f"{ending}.gz" for ending in TEXT)) else kind_of_file(path)


def check_readable(path: Path) -> None:
    """Refuse a folder, and a file that is not there, with the nearest that is."""
    if path.is_dir():
        raise InvalidInputError(f"{str(path)!r} is a folder. Give one file.")
    if path.exists():
        return
    names = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
    near = nearest(path.name, names)
    hint = "" if near is None else f" Did you mean {str(path.with_name(near))!r}?"
    raise InvalidInputError(f"There is no file {str(path)!r}.{hint}")
