"""The journal of a fit: finished steps on disk, from which an interrupted fit goes on.

A selection is a function of data, settings and random numbers. So a step is known by a digest of all that goes into
it, and its result, with the state in which it left the random numbers and the warm start, can stand for its
computation: a fit that begins again takes the same way to the bit, without the work that was done.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from zipfile import BadZipFile

import numpy as np

from knotwise.errors import InvalidInputError, warn
from knotwise.files import write_atomically
from knotwise.knots.digest import digest
from knotwise.knots.records import decode, encode

__all__ = ["Journal"]

MAGIC = b"knotwise step 1\n"
SEAL = 32  # bytes of a SHA-256

Result = TypeVar("Result")


class Journal:
    """Finished steps of one fit in one folder, a file each, named by the digest of what went into the step.

    A file is written whole or not at all, and carries a SHA-256 of its name and content. One that is damaged is
    computed and written again, with a warning. Processes that make the same fit at once write the same files, and the
    last one wins.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.writable = True
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidInputError(
                f"`checkpoint`: the folder {str(folder)!r} cannot be made ({error}). Name one that can be written to."
            ) from None

    def begin(self, rng: np.random.Generator) -> None:
        """Keep the state of the generator at the start of the fit, or take the one that was kept."""
        state = self._read("start", ())
        if state is None:
            self._write("start", rng.bit_generator.state)
        else:
            rng.bit_generator.state = state

    def recall(
        self,
        inputs: tuple[Any, ...],
        compute: Callable[[], Result],
        *,
        types: tuple[type, ...],
        memory: dict[str, np.ndarray],
        rng: np.random.Generator | None = None,
    ) -> Result:
        """The result of a step, computed or as kept; `memory` and `rng` end as the computation leaves them."""
        before = None if rng is None else rng.bit_generator.state
        key = digest(inputs, memory, before)
        kept = self._read(key, types)
        if kept is None:
            result = compute()
            after = None if rng is None else rng.bit_generator.state
            self._write(key, {"result": result, "memory": memory, "rng": after})
            return result
        memory.clear()
        memory.update(kept["memory"])
        if rng is not None:
            rng.bit_generator.state = kept["rng"]
        return kept["result"]

    def remove(self) -> None:
        """Forget the fit; what cannot be removed stays."""
        shutil.rmtree(self.folder, ignore_errors=True)

    # -- one file each ----------------------------------------------------------------------------

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.step"

    def _read(self, key: str, types: tuple[type, ...]) -> Any:
        """What is kept under a key; None where nothing is, or nothing sound."""
        try:
            content = self._path(key).read_bytes()
            payload = content[len(MAGIC) + SEAL :]
            if content[: len(MAGIC) + SEAL] != MAGIC + _seal(key, payload):
                raise ValueError("it was not written whole, or changed since")
            return decode(payload, types)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, LookupError, TypeError, AttributeError, BadZipFile) as error:
            warn(
                f"The checkpoint {str(self._path(key))!r} is damaged ({error}). The step is computed again.",
            )
            return None

    def _write(self, key: str, value: Any) -> None:
        """Keep a value; a disk that fails ends the checkpoints, not the fit."""
        if not self.writable:
            return
        payload = encode(value)
        content = MAGIC + _seal(key, payload) + payload
        try:
            try:
                write_atomically(self._path(key), content)
            except FileNotFoundError:  # another process has finished the same fit, and removed the folder
                self.folder.mkdir(parents=True, exist_ok=True)
                write_atomically(self._path(key), content)
        except OSError as error:
            self.writable = False
            warn(
                f"The checkpoint {str(self._path(key))!r} cannot be written ({error}). The fit goes on without further "
                "checkpoints. Free some space, or name another folder.",
            )


def _seal(key: str, payload: bytes) -> bytes:
    return hashlib.sha256(key.encode() + b"\n" + payload).digest()
