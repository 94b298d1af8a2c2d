"""Tables in files: CSV and its kin, workbooks (.xlsx) and Parquet.

Text has column names in the first line, quotes, a byte order mark, other separators, packed or not; a sheet has them in
its first row, and the values of its formulas count.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import sys
import warnings
import zlib
from argparse import Namespace
from collections.abc import Iterator, Sequence
from datetime import date, datetime, time
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

import numpy as np

from knotwise.cli.command import UsageError, note
from knotwise.cli.parquet import open_parquet
from knotwise.cli.tables import CHUNK_ROWS, Piece, Table, TextColumn, check_names, check_readable, kind_of_input
from knotwise.data.cell_text import is_whole
from knotwise.data.cells import label_of
from knotwise.errors import InvalidInputError, KnotwiseError, unknown_option

SEPARATORS = (",", ";", "\t", "|")
WORDS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "space": " "}
csv.field_size_limit(2**24)  # a long text is no reason to stop


@contextlib.contextmanager
def open_table(arguments: Namespace) -> Iterator[Table]:
    """Open the table that a command was given, in the way that its options say."""
    with open_file(arguments.data, arguments) as table:
        yield table


@contextlib.contextmanager
def open_file(path: str, arguments: Namespace) -> Iterator[Table]:
    """Open a table, in the way that the options of a command say."""
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


@contextlib.contextmanager
def open_text(path: str, separator: str | None, decimal: str) -> Iterator[TextTable]:
    """Open a text file, or with "-" standard input."""
    if path == "-":
        file = io.TextIOWrapper(sys.stdin.buffer, "utf-8-sig", newline="")
        try:
            yield TextTable(file, "standard input", separator, decimal)
        finally:
            file.detach()  # or standard input would be closed with it
        return
    how: Any = {"encoding": "utf-8-sig", "newline": ""}
    with gzip.open(path, "rt", **how) if path.lower().endswith(".gz") else open(path, **how) as file:
        is_tsv = path.lower().removesuffix(".gz").endswith(".tsv")
        yield TextTable(file, path, separator or ("\t" if is_tsv else None), decimal)


class TextTable:
    """A text file whose first line has the names of the columns."""

    unit = "line"
    _reader: Any = None

    def __init__(self, file: IO[str], name: str, separator: str | None, decimal: str) -> None:
        self.name, self.decimal = name, decimal
        with self._readable():
            head = _first_lines(file)
            if not head:
                raise InvalidInputError(f"{name} is empty: it has no line with column names.")
            separator = guess_separator(head[-1]) if separator is None else WORDS.get(separator, separator)
            if len(separator) != 1 or separator in '"\r\n':
                raise UsageError(f"--separator is {separator!r}, but must be one character, or the word tab.")
            self._reader = csv.reader(chain(head, file), delimiter=separator, skipinitialspace=separator != " ")
            names = next(row for row in self._reader if row)
            self.columns = [column.strip() for column in names]
        check_names(self.columns, name)

    def pieces(self, names: Sequence[str]) -> Iterator[Piece]:
        where = [self.columns.index(name) for name in names]
        while True:
            with self._readable():
                rows, places = self._next_rows()
            if not rows:
                return
            values = {
                name: TextColumn([row[i] for row in rows], self.decimal) for name, i in zip(names, where, strict=True)
            }
            yield Piece(values, np.array(places))

    def _next_rows(self) -> tuple[list[list[str]], list[int]]:
        """Some rows, and the line in which each begins; empty lines are passed over."""
        rows: list[list[str]] = []
        places: list[int] = []
        place, width = self._reader.line_num + 1, len(self.columns)
        for row in self._reader:
            if row and (width == 1 or row != [""]):
                if len(row) != width:
                    self._refuse_width(place, len(row))
                rows.append(row)
                places.append(place)
            place = self._reader.line_num + 1
            if len(rows) == CHUNK_ROWS:
                break
        return rows, places

    def _refuse_width(self, place: int, found: int) -> None:
        raise InvalidInputError(
            f"Line {place} of {self.name} has {found} values, but there are {len(self.columns)} column names. A value "
            "that holds the separator must stand in quotes; if the columns were told apart wrongly, give --separator."
        )

    @contextlib.contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except UnicodeError:
            raise InvalidInputError(
                f"{self.name} is not text in UTF-8. If it is a table of a spreadsheet or in another encoding, save it "
                "as CSV in UTF-8."
            ) from None
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise InvalidInputError(
                f"{self.name} is not a whole file packed by gzip ({error}). Pack it again, or give it unpacked."
            ) from None
        except csv.Error as error:
            line = self._reader.line_num if self._reader else 1
            raise InvalidInputError(f"{self.name} cannot be read as CSV near line {line}: {error}.") from None


def _first_lines(file: IO[str]) -> list[str]:
    """The lines up to the first that is not empty; no lines if all are empty."""
    lines: list[str] = []
    for line in file:
        lines.append(line if line.strip() else "\n")
        if line.strip():
            return lines
    return []


def guess_separator(first_line: str) -> str:
    """The separator that gives the most column names, the comma where none does."""
    return max(SEPARATORS, key=lambda s: len(next(csv.reader([first_line], delimiter=s, skipinitialspace=True))))


class MissingOpenpyxlError(KnotwiseError, ImportError):
    """A workbook was given where openpyxl is not installed."""


def _openpyxl() -> Any:
    try:
        import openpyxl
    except ImportError as error:
        raise MissingOpenpyxlError(
            "Workbooks (.xlsx) need openpyxl, which is not installed here. To have it: pip install 'knotwise[excel]'; "
            "or save the sheet as CSV."
        ) from error
    return openpyxl


@contextlib.contextmanager
def open_excel(path: str, decimal: str, sheet: str | None = None) -> Iterator[ExcelTable]:
    """Open a sheet of a workbook: the first, or that of a name or number."""
    load = _openpyxl().load_workbook
    with _readable(path):
        book = load(path, read_only=True, data_only=True)
    try:
        if not book.worksheets:
            raise InvalidInputError(f"{path} has no sheet with cells. Save the table as CSV.")
        yield ExcelTable(_chosen(book.worksheets, sheet, path), path, decimal)
    finally:
        book.close()


def _chosen(sheets: Sequence[Any], asked: str | None, path: str) -> Any:
    """The sheet of this name, or else of this number, counted from 1; the first by default, which is said."""
    titles = [sheet.title for sheet in sheets]
    if asked is None:
        if len(sheets) > 1:
            note(f"reading {titles[0]!r}, the first of {len(sheets)} sheets of {path}; --sheet names another")
        return sheets[0]
    if asked not in titles and is_whole(asked) and 1 <= int(asked) <= len(sheets):
        return sheets[int(asked) - 1]
    if asked not in titles:
        raise unknown_option("--sheet", asked, titles)
    return sheets[titles.index(asked)]


class ExcelTable:
    """A sheet whose first row has the names of the columns."""

    unit = "row"

    def __init__(self, sheet: Any, name: str, decimal: str) -> None:
        self.name, self.decimal = name, decimal
        self._rows = enumerate(sheet.iter_rows(values_only=True), start=1)
        with _readable(name):
            _, head = next(self._next_rows(1), (0, ()))
        if not head:
            raise InvalidInputError(f"The sheet {sheet.title!r} of {name} is empty: it has no row with column names.")
        self.columns = [as_text(cell, decimal).strip() for cell in head]
        check_names(self.columns, name)

    def pieces(self, names: Sequence[str]) -> Iterator[Piece]:
        where = [self.columns.index(name) for name in names]
        while True:
            with _readable(self.name):
                rows = list(self._next_rows(CHUNK_ROWS))
            if not rows:
                return
            wide = next((place for place, row in rows if len(row) > len(self.columns)), None)
            if wide is not None:
                raise InvalidInputError(
                    f"Row {wide} of {self.name} has cells beyond the {len(self.columns)} columns that have names. Name "
                    "these columns in the first row, or empty the cells."
                )
            values = {
                name: self._column([row[i] if i < len(row) else None for _, row in rows])
                for name, i in zip(names, where, strict=True)
            }
            yield Piece(values, np.array([place for place, _ in rows]))

    def _column(self, cells: list[Any]) -> TextColumn:
        is_text = all(isinstance(cell, str) for cell in cells if cell is not None)
        return TextColumn([as_text(cell, self.decimal) for cell in cells], self.decimal, is_text)

    def _next_rows(self, most: int) -> Iterator[tuple[int, tuple[Any, ...]]]:
        """Rows that are not empty, without their empty cells at the end, and their numbers in the sheet."""
        return islice(((place, trimmed) for place, row in self._rows if (trimmed := _trimmed(row))), most)


def _trimmed(row: Sequence[Any]) -> tuple[Any, ...]:
    length = max((i + 1 for i, cell in enumerate(row) if cell not in (None, "")), default=0)
    return tuple(row[:length])


def as_text(cell: Any, decimal: str) -> str:
    """A cell as a text file would have it, so that both kinds of table are read by one rule."""
    if cell is None:
        return ""
    if isinstance(cell, float):
        return label_of(cell).replace(".", decimal)
    if isinstance(cell, datetime) and cell.time() == time():  # a sheet has no other form of a date
        cell = cell.date()
    return cell.isoformat() if isinstance(cell, date | time) else str(cell)


@contextlib.contextmanager
def _readable(name: str) -> Iterator[None]:
    """Turn what a damaged workbook raises into our error; what openpyxl says of styles and the like is left out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        except Exception as error:  # it can be anything: KeyError, BadZipFile, ValueError, ...
            raise InvalidInputError(
                f"{name} is not a workbook that can be read ({error}). Save the sheet as CSV."
            ) from None
