"""The journal of a fit: finished steps on disk, from which an interrupted fit goes on.

A selection is a function of data, settings and random numbers. So a step is known by a digest of all that goes into
it, and its result, with the state in which it left the random numbers and the warm start, can stand for its
computation: a fit that begins again takes the same way to the bit, without the work that was done.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import stat
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Protocol, TypeVar, get_args, get_origin, get_type_hints

import numpy as np

from knotwise.checkpoint.digest import digest
from knotwise.errors import InvalidInputError, warn
from knotwise.files import write_atomically

MAGIC = b"knotwise step 1\n"
SEAL = 32  # bytes of a SHA-256
TRIES = 5  # at a folder that other processes, which finish the same fit, remove at the same time

#: names of what we write: steps, their temporary files, and the folders of the models of a classifier
STEP = re.compile(r"(start|[0-9a-f]{64})\.step|\.(start|[0-9a-f]{64})\.step\.[0-9a-f]{32}\.tmp")
PART = re.compile(r"model\d+")

Result = TypeVar("Result")


class WarmStart(Protocol):
    """The latent values with which the next step begins, in the caches of the blocks of rows."""

    def last(self) -> np.ndarray | None: ...

    def restore(self, a: np.ndarray | None) -> None: ...


class Journal:
    """Finished steps of one fit in one folder, a file each, named by the digest of what went into the step.

    A file is written whole or not at all, and carries a SHA-256 of its name and content. One that is damaged, or holds
    something else than the step, is computed and written again, with a warning. Processes that make the same fit at
    once write the same files, and the last one wins. Links are never followed: where one stands in the place of the
    folder, the fit goes on without checkpoints, with a warning.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.writable = self.readable = True
        try:
            self._make_folder()
            if not _is_folder(folder):
                self._do_without()
        except FileNotFoundError:  # another process has just removed it, and it is made again when a step is kept
            pass
        except OSError as error:
            if not (isinstance(error, FileExistsError) and os.path.lexists(folder)):
                raise InvalidInputError(
                    f"`checkpoint`: the folder {str(folder)!r} cannot be made ({error}). Name one that can be written "
                    "to."
                ) from None
            self._do_without()

    def part(self, name: str) -> Journal:
        """The journal of one of several models of the fit."""
        return Journal(self.folder / name) if self.readable else self

    def begin(self, rng: np.random.Generator, *, seeded: bool = False) -> None:
        """Keep the state of the generator at the start of the fit, or take the one that was kept.

        A fit with a seed always begins with the same state, so another one that was kept is damage.
        """

        def take(state: Any) -> bool:
            if seeded and digest(state) != digest(rng.bit_generator.state):
                raise ValueError("it has the random numbers of another seed")
            _set_state(rng, state)
            return True

        if self._read("start", (), take) is None:
            self._write("start", rng.bit_generator.state)

    def memoize(
        self,
        inputs: tuple[Any, ...],
        compute: Callable[[], Result],
        *,
        types: tuple[type, ...],
        warm_start: WarmStart,
        rng: np.random.Generator | None = None,
        fits: Callable[[Result, np.ndarray | None], bool] = lambda result, last: True,
    ) -> Result:
        """The result of a step, computed or as kept; `warm_start` and `rng` end as the computation leaves them.

        The result is of the first of the `types`. A kept result and warm start for which `fits` is false are damage.
        """

        def take(kept: Any) -> dict[str, Any]:
            if not isinstance(kept, dict) or set(kept) != {"result", "last", "rng"}:
                raise ValueError("it is not a step of a fit")
            if types and not isinstance(kept["result"], types[0]):
                raise ValueError("it is the result of another kind of step")
            if not fits(kept["result"], kept["last"]):
                raise ValueError("its arrays do not fit the data")
            if rng is not None:
                _set_state(rng, kept["rng"])
            return kept

        before = None if rng is None else rng.bit_generator.state
        key = digest(inputs, warm_start.last(), before)
        kept = self._read(key, types, take)
        if kept is None:
            result = compute()
            after, last = None if rng is None else rng.bit_generator.state, warm_start.last()
            self._write(key, {"result": result, "last": last, "rng": after})
            warm_start.restore(last)  # the next step begins with what is kept, and no more, interrupted or not
            return result
        warm_start.restore(kept["last"])
        return kept["result"]

    def remove(self) -> None:
        """Forget the fit: remove the files that are ours by their names, and the folder if nothing else is in it."""
        if self.readable:
            _remove_steps(self.folder)

    # -- one file each ----------------------------------------------------------------------------

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.step"

    def _read(self, key: str, types: tuple[type, ...], take: Callable[[Any], Result]) -> Result | None:
        """What is kept under a key, as `take` accepts it; None where nothing is, or nothing sound."""
        if not self.readable:
            return None
        try:
            if not stat.S_ISREG(os.lstat(self._path(key)).st_mode):  # to open a pipe would wait for ever
                raise ValueError("it is not a file of its own, but a link, a folder or the like")
            content = self._path(key).read_bytes()
            payload = content[len(MAGIC) + SEAL :]
            if content[: len(MAGIC) + SEAL] != MAGIC + _seal(key, payload):
                raise ValueError("it was not written whole, or changed since")
            return take(decode(payload, types))
        except FileNotFoundError:
            return None
        except Exception as error:  # whatever stands in the file, the fit can do without it
            warn(f"The checkpoint {str(self._path(key))!r} is damaged ({error}). The step is computed again.")
            return None

    def _write(self, key: str, value: Any) -> None:
        """Keep a value; a disk that fails ends the checkpoints, not the fit."""
        if not self.writable:
            return
        payload = encode(value)
        content = MAGIC + _seal(key, payload) + payload
        try:
            for tries_left in reversed(range(TRIES)):
                try:
                    self._make_folder()
                    if not _is_folder(self.folder):
                        self._do_without()
                        return
                    write_atomically(self._path(key), content)
                    return
                except FileNotFoundError:  # another process has finished the same fit, and removed the folder
                    if not tries_left:
                        raise
        except OSError as error:
            self.writable = False
            warn(
                f"The checkpoint {str(self._path(key))!r} cannot be written ({error}). The fit goes on without further "
                "checkpoints. Free some space, or name another folder."
            )

    def _make_folder(self) -> None:
        for tries_left in reversed(range(TRIES)):
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                return
            except (FileExistsError, FileNotFoundError):  # it was there, and another process has just removed it
                if not tries_left or os.path.lexists(self.folder):
                    raise

    def _do_without(self) -> None:
        """Neither read nor write, because what we would touch may be somebody else's."""
        self.writable = self.readable = False
        warn(
            f"The checkpoint {str(self.folder)!r} is damaged (it is not a folder of its own, but a link or a file). "
            "The fit starts anew and goes on without checkpoints. Move it away, or name another folder."
        )


def are_alike(kept: Any, one: np.ndarray) -> bool:
    """Whether an array that was kept can stand in the place of one: of the same shape, and finite where that is."""
    same = isinstance(kept, np.ndarray) and kept.dtype == np.float64 and kept.shape == one.shape
    return same and bool(np.all(np.isfinite(kept) == np.isfinite(one)))


def _seal(key: str, payload: bytes) -> bytes:
    return hashlib.sha256(key.encode() + b"\n" + payload).digest()


def _set_state(rng: np.random.Generator, state: Any) -> None:
    """Set the state of a generator, all of it or nothing."""
    before = rng.bit_generator.state
    try:
        rng.bit_generator.state = state
        if digest(rng.bit_generator.state) != digest(state):
            raise ValueError("it has no state of these random numbers")
    except BaseException:
        rng.bit_generator.state = before
        raise


def _is_folder(path: Path) -> bool:
    """Whether it is a folder itself, and no link to one."""
    return stat.S_ISDIR(os.lstat(path).st_mode)


def _remove_steps(folder: Path) -> None:
    """Remove what we wrote, and the folder if it is empty then; what cannot be removed stays."""
    with contextlib.suppress(OSError):
        if not _is_folder(folder):
            return
        for path in list(folder.iterdir()):
            if PART.fullmatch(path.name):
                _remove_steps(path)
            elif STEP.fullmatch(path.name):
                with contextlib.suppress(OSError):  # removed by another process, or no file
                    path.unlink()
        folder.rmdir()


# -- results of steps as bytes, and back to the bit: JSON and .npy members, no code ----------------


def encode(value: Any) -> bytes:
    """Numbers, texts, arrays, lists, dicts and dataclasses of them as bytes."""
    arrays: list[np.ndarray] = []
    text = json.dumps(_to_tree(value, arrays)).encode()
    buffer = io.BytesIO()
    members: dict[str, Any] = {f"array{i}": array for i, array in enumerate(arrays)}
    np.savez(buffer, tree=np.frombuffer(text, np.uint8), **members)
    return buffer.getvalue()


def decode(content: bytes, types: tuple[type, ...]) -> Any:
    """The value that was encoded; `types` are the dataclasses that it may contain, of whose types their fields are."""
    with np.load(io.BytesIO(content), allow_pickle=False) as members:
        arrays = {name: members[name] for name in members.files}
    return _from_tree(json.loads(arrays["tree"].tobytes()), arrays, {known.__name__: known for known in types})


def _to_tree(value: Any, arrays: list[np.ndarray]) -> Any:
    """What JSON can hold: plain values as they are, the others as [what it is, what is inside]."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        arrays.append(value)
        return ["array", f"array{len(arrays) - 1}"]
    if isinstance(value, dict):
        return ["dict", {key: _to_tree(item, arrays) for key, item in value.items()}]
    if isinstance(value, list | tuple):
        return ["list", [_to_tree(item, arrays) for item in value]]
    if is_dataclass(value):
        inside = {field.name: _to_tree(getattr(value, field.name), arrays) for field in fields(value)}
        return [type(value).__name__, inside]
    raise TypeError(f"A record cannot hold {value!r}.")


def _from_tree(tree: Any, arrays: dict[str, np.ndarray], types: dict[str, type]) -> Any:
    if not isinstance(tree, list):
        return tree
    kind, inside = tree
    if kind == "array":
        return arrays[inside]
    if kind == "list":
        return [_from_tree(item, arrays, types) for item in inside]
    items = {key: _from_tree(item, arrays, types) for key, item in inside.items()}
    return items if kind == "dict" else _make(types[kind], items)


def _make(kind: type, items: dict[str, Any]) -> Any:
    """An object of a dataclass, if its fields have the types that it declares."""
    for name, wanted in get_type_hints(kind).items():
        if name in items and not _is_of(items[name], wanted):
            raise TypeError(f"{name} of {kind.__name__} is {type(items[name]).__name__}")
    return kind(**items)


def _is_of(value: Any, wanted: Any) -> bool:
    """Whether a value is of a declared type; arrays are those of floating point numbers."""
    if isinstance(wanted, UnionType):
        return any(_is_of(value, each) for each in get_args(wanted))
    if wanted is Any:
        return True
    if wanted is float:
        return isinstance(value, float | int) and not isinstance(value, bool)
    if wanted is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if wanted is np.ndarray:
        return isinstance(value, np.ndarray) and value.dtype == np.float64
    return isinstance(value, get_origin(wanted) or wanted)
