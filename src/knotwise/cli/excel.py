"""Workbooks (.xlsx): a sheet with column names in its first row; the values of formulas, not the formulas."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from datetime import date, datetime, time
from itertools import islice
from typing import Any

import numpy as np

from knotwise.cli.columns import TextColumn, check_names
from knotwise.cli.messages import note
from knotwise.cli.numerals import is_whole
from knotwise.cli.tables import CHUNK_ROWS, Piece
from knotwise.errors import InvalidInputError, KnotwiseError, unknown_option

__all__ = ["ExcelTable", "MissingOpenpyxlError", "open_excel"]


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
        return str(int(cell)) if cell.is_integer() and abs(cell) < 2**53 else repr(cell).replace(".", decimal)
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
