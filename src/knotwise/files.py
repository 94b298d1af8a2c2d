"""Files that are whole or not there."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

__all__ = ["whole_file", "write_atomically"]


def write_atomically(path: Path, content: bytes | Iterable[bytes | memoryview]) -> None:
    """Write a file as `whole_file` does; long content comes in pieces."""
    with whole_file(path) as file:
        file.writelines([content] if isinstance(content, bytes) else content)


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write to, of which a reader sees the old content or the new one, never a part, even after a loss of
    power.

    The content goes to a temporary file of its own in the same folder, is forced to the disk, and takes the name in one
    step. Of two writers at once the last one wins.
    """
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    with contextlib.suppress(OSError):  # a folder cannot be opened everywhere, and there the rename has to do
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
