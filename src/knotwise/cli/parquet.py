"""Parquet files, through pyarrow, which the extra `parquet` installs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from knotwise.cli.tables import CHUNK_ROWS, Piece, TextColumn, check_names
from knotwise.data.cells import NotANumberError, label_of
from knotwise.errors import InvalidInputError, KnotwiseError
from knotwise.files import whole_file

GROUP_ROWS = 16 * CHUNK_ROWS  # of the groups in which rows are written


class MissingPyarrowError(KnotwiseError, ImportError):
    """A Parquet file was given where pyarrow is not installed."""


def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingPyarrowError(
            "Parquet files need pyarrow, which is not installed here. To have it: pip install 'knotwise[parquet]'; or "
            "use CSV."
        ) from error
    return pyarrow


@contextlib.contextmanager
def open_parquet(path: str) -> Iterator[ParquetTable]:
    """Open a Parquet file."""
    arrow = _pyarrow()
    try:
        file = arrow.parquet.ParquetFile(path)
    except arrow.ArrowException as error:
        raise InvalidInputError(f"{path} cannot be read as Parquet: {error}") from None
    with file:
        yield ParquetTable(file, path)


class ParquetTable:
    """A Parquet file; rows are counted from 0."""

    unit = "row"

    def __init__(self, file: Any, name: str) -> None:
        self.name, self._file = name, file
        self.columns = [column.strip() for column in file.schema_arrow.names]
        check_names(self.columns, name)

    def pieces(self, names: Sequence[str]) -> Iterator[Piece]:
        arrow = _pyarrow()
        stored = dict(zip(self.columns, self._file.schema_arrow.names, strict=True))
        start = 0
        try:
            for batch in self._file.iter_batches(CHUNK_ROWS, columns=[stored[name] for name in names]):
                columns = {name: ArrowColumn(batch.column(stored[name])) for name in names}
                yield Piece(columns, np.arange(start, start + len(batch)))
                start += len(batch)
        except arrow.ArrowException as error:
            raise InvalidInputError(f"{self.name} cannot be read: {error}") from None


@dataclass(frozen=True)
class ArrowColumn:
    """Values of one type, with gaps."""

    values: Any

    @property
    def is_category(self) -> bool:
        """Whether the file says that the values are levels."""
        return _pyarrow().types.is_dictionary(self.values.type)

    @property
    def is_text(self) -> bool:
        """Whether the file says that the values are text, which may be codes."""
        types = _pyarrow().types
        return types.is_string(self.values.type) or types.is_large_string(self.values.type)

    def text(self) -> list[str]:
        return ["" if value is None else label_of(value).strip() for value in self.values.to_pylist()]

    def numbers(self) -> np.ndarray:
        arrow = _pyarrow()
        kind = self.values.type
        if arrow.types.is_dictionary(kind):
            return ArrowColumn(self.values.dictionary_decode()).numbers()
        if arrow.types.is_null(kind):
            return np.full(len(self.values), np.nan)
        of_numbers = (arrow.types.is_integer, arrow.types.is_floating, arrow.types.is_decimal, arrow.types.is_boolean)
        if any(test(kind) for test in of_numbers):
            numbers = self.values.cast(arrow.float64(), safe=False).to_numpy(zero_copy_only=False)
            if np.isinf(numbers).any():
                raise NotANumberError(int(np.argmax(np.isinf(numbers))), "infinity")
            return numbers
        texts = self.text()
        if not self.is_text:  # dates are not what they look like
            raise NotANumberError(0, f"{texts[0]} ({kind})")
        return TextColumn(texts).numbers()


def write_parquet(path: Path, pieces: Iterable[dict[str, Any]]) -> None:
    """Write pieces of columns as they come, in groups of rows that readers find worth one; at once or not at all."""
    arrow = _pyarrow()
    writer: Any = None
    group: list[Any] = []
    with whole_file(path) as file:
        for piece in chain(pieces, [None]):
            group += [] if piece is None else [arrow.Table.from_pydict(piece)]
            if group and (piece is None or sum(map(len, group)) >= GROUP_ROWS):
                rows, group = arrow.concat_tables(group), []
                writer = writer or arrow.parquet.ParquetWriter(file, rows.schema)
                writer.write_table(rows)
        if writer is not None:
            writer.close()


def write_no_rows(path: Path, like: Path) -> None:
    """Write a file without rows that has the columns of another."""
    parquet = _pyarrow().parquet
    with whole_file(path) as file:
        parquet.write_table(parquet.read_schema(like).empty_table(), file)
