"""What a table is: columns that are read in pieces, their names, and the kind of its file by the ending."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from knotwise.data.cells import NotANumberError, numbers_of
from knotwise.errors import InvalidInputError, nearest, unknown_option

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


class Column(Protocol):
    """Some rows of one column."""

    def text(self) -> list[str]:
        """The values as text, empty where one is missing."""

    def numbers(self) -> np.ndarray:
        """The values as numbers, NaN where one is missing."""


@dataclass(frozen=True)
class TextColumn:
    """Values as a text file has them; `is_text` where the file has types, and says that these are text."""

    values: list[str]
    decimal: str = "."
    is_text: bool = False

    def text(self) -> list[str]:
        return [value.strip() for value in self.values]

    def numbers(self) -> np.ndarray:
        return numbers_of(self.values, self.decimal)


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


# -- names ----------------------------------------------------------------------------------------


def check_names(names: Sequence[str], table: str) -> None:
    """Refuse a table in which two columns have one name, or whose first line is no line of names."""
    for name in names:
        if name and names.count(name) > 1:
            where = [str(i + 1) for i, other in enumerate(names) if other == name]
            raise InvalidInputError(
                f"The column name {name!r} stands {len(where)} times in {table}, at columns {', '.join(where)}. "
                "Rename all but one."
            )
    if not any(names):
        raise InvalidInputError(f"{table} has no column names in its first line. Add a line with the names.")
    try:
        numbers_of([name for name in names if name])
    except NotANumberError:
        return
    raise InvalidInputError(
        f"The first line of {table} holds numbers ({', '.join(names[:3])}), not column names. Add a line with names."
    )


def require_columns(asked: Iterable[str], what: str, columns: Sequence[str]) -> None:
    """Refuse a column that the table does not have, with the nearest that it has."""
    for name in asked:
        if name not in columns:
            raise unknown_option(what, name, filter(None, columns))


def same_for_all(columns: Sequence[str], arguments: Namespace) -> dict[str, float]:
    """Known noise that is a number for all rows, by the argument of `fit`; empty where the option names a column."""
    given = arguments.noise_variance
    if given is None or given in columns:
        return {}
    try:
        return {"noise_variance": float(numbers_of([given], arguments.decimal)[0])}
    except NotANumberError:
        return {}


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
