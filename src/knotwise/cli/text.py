"""CSV and its kin: column names in the first line, quotes, a byte order mark, other separators, packed or not."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import sys
import zlib
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import IO, Any

import numpy as np

from knotwise.cli.columns import TextColumn, check_names
from knotwise.cli.command import UsageError
from knotwise.cli.tables import CHUNK_ROWS, Piece
from knotwise.errors import InvalidInputError

__all__ = ["TextTable", "open_text"]

SEPARATORS = (",", ";", "\t", "|")
WORDS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "space": " "}
csv.field_size_limit(2**24)  # a long text is no reason to stop


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
