"""Tables in Parquet files: one, or several, whose rows are read by Dask, in this process or by workers."""

from __future__ import annotations

import contextlib
import glob
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from knotwise.cli.command import UsageError
from knotwise.cli.rows import Wanted
from knotwise.cli.tables import CHUNK_ROWS, Piece, Table, TextColumn, check_names
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


SECONDS_TO_ANSWER = 5  # in which a scheduler must answer, and have a worker


class MissingDaskError(KnotwiseError, ImportError):
    """Several files, or workers, were given where Dask is not installed."""


def are_parts(arguments: Namespace) -> bool:
    """Whether the data are more than one file, or workers are to read them."""
    path = Path(arguments.data)
    several = path.is_dir() or (glob.has_magic(arguments.data) and not path.exists())  # a name may have brackets
    asked = arguments.scheduler is not None or arguments.workers is not None
    if arguments.memory is not None and arguments.workers is None:
        raise UsageError("--memory is that of each worker that --workers starts: give both.")
    if arguments.scheduler is not None and arguments.workers is not None:
        raise UsageError("--scheduler has its own workers, and --workers starts some: give one of them.")
    if (several or asked) and arguments.sheet is not None:
        raise UsageError("--sheet is for workbooks (.xlsx): leave it out.")
    return several or asked


def files_of(data: str) -> list[str]:
    """The Parquet files that a pattern or a folder names, in the order of their names."""
    folder = Path(data).is_dir()
    files = sorted(glob.glob(str(Path(data) / "*.parquet") if folder else data, recursive=True))
    if not files:
        folders = f"The folder {data} has no .parquet file. Is it the right one?"
        raise InvalidInputError(
            folders if folder else f"{data} names no file. Check the pattern, and put it in quotes."
        )
    other = next((file for file in files if Path(file).suffix != ".parquet"), None)
    if other is not None:
        raise InvalidInputError(
            f"{other} is no .parquet file: several files, and workers, are for Parquet alone. Convert these, or "
            "join them to one file, which may be text."
        )
    return files


def columns_of_all(files: list[str], choose: Callable[[Table], Wanted]) -> Wanted:
    """The columns to read, chosen from those of the first file; refuses another file that has not all of them."""
    with open_parquet(files[0]) as table:
        wanted = choose(table)
    for file in files[1:]:
        with open_parquet(file) as table:
            missing = next((name for name in wanted.columns if name not in table.columns), None)
            if missing is not None:
                raise InvalidInputError(
                    f"{file} has no column {missing!r}, which {files[0]} has; its columns are "
                    f"{', '.join(table.columns)}. Rename it, or leave this file out."
                )
    return wanted


@contextmanager
def workers(arguments: Namespace) -> Iterator[None]:
    """The workers that are asked for, while they are needed; without them Dask's threads read the rows."""
    _dask()
    if arguments.scheduler is not None:
        with _client_of(arguments.scheduler):
            yield
        return
    if arguments.workers is None:
        yield
        return
    from distributed import Client, LocalCluster

    memory = "auto" if arguments.memory is None else arguments.memory
    try:
        cluster = LocalCluster(
            n_workers=arguments.workers, threads_per_worker=1, memory_limit=memory, dashboard_address=":0"
        )
    except ValueError as error:
        raise UsageError(f"--memory {arguments.memory} is not an amount such as 2GB: {error}") from None
    with cluster, Client(cluster):
        yield


def _client_of(address: str) -> Any:
    """A client of the scheduler at an address, which must answer soon and have workers."""
    from distributed import Client

    try:
        client = Client(address, timeout=SECONDS_TO_ANSWER)
    except (OSError, ValueError) as error:
        raise InvalidInputError(
            f"No Dask scheduler answers at {address!r} within {SECONDS_TO_ANSWER} seconds. Is it running, and is this "
            f"the address that it printed, such as tcp://10.0.0.1:8786? ({error})"
        ) from None
    try:
        client.wait_for_workers(1, timeout=SECONDS_TO_ANSWER)
    except TimeoutError:
        client.close()
        raise InvalidInputError(
            f"The Dask scheduler at {address!r} has no workers. Start some, on machines that see the files: "
            f"dask worker {address}"
        ) from None
    return client


def read_parts(files: list[str], wanted: Wanted, *, drop_missing: bool) -> Any:
    """The columns of all files as one lazy data frame."""
    frame = _dask().read_parquet(files, columns=wanted.columns)
    return frame.dropna() if drop_missing else frame


def _dask() -> Any:
    try:
        import dask.dataframe
        import distributed  # noqa: F401
    except ImportError as error:
        raise MissingDaskError(
            "Several files, and workers, need Dask, which is not installed here. To have it: "
            "pip install 'knotwise[dask,parquet]'; or give one file."
        ) from error
    return dask.dataframe
