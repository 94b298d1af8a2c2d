"""Parquet files, through pyarrow, which the extra `parquet` installs."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from knotwise.cli.columns import NotANumberError, TextColumn, check_names
from knotwise.cli.tables import CHUNK_ROWS, Piece
from knotwise.errors import InvalidInputError, KnotwiseError
from knotwise.files import write_atomically

__all__ = ["MissingPyarrowError", "ParquetTable", "open_parquet", "write_parquet"]


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

    def text(self) -> list[str]:
        return ["" if value is None else str(value).strip() for value in self.values.to_pylist()]

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
        if not (arrow.types.is_string(kind) or arrow.types.is_large_string(kind)):  # dates are not what they look like
            raise NotANumberError(0, f"{texts[0]} ({kind})")
        return TextColumn(texts).numbers()


def write_parquet(path: Path, pieces: Iterable[dict[str, Any]]) -> None:
    """Write pieces of columns, at once or not at all."""
    arrow = _pyarrow()
    table = arrow.concat_tables([arrow.Table.from_pydict(piece) for piece in pieces])
    content = io.BytesIO()
    arrow.parquet.write_table(table, content)
    write_atomically(path, content.getvalue())
