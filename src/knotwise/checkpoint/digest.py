"""A digest of anything that settings and steps are made of: equal content, equal digest, in any process."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from types import FunctionType, MethodType
from typing import Any

import numpy as np

Piece = bytes | memoryview


def digest(*values: Any) -> str:
    """SHA-256 of values: numbers, texts, arrays, containers, functions, and objects by their class and content.

    A generator of random numbers counts by its kind only: what is drawn from it is not a setting. An object of which
    nothing but its address is known has another digest in each process.
    """
    sink = hashlib.sha256()
    for piece in _pieces(values, frozenset()):
        sink.update(len(piece).to_bytes(8, "little"))  # so that "ab", "c" is not "a", "bc"
        sink.update(piece)
    return sink.hexdigest()


def _pieces(value: Any, inside: frozenset[int]) -> Iterator[Piece]:
    """The content of a value in pieces that determine it; `inside` are the objects of which it is a part."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        yield f"{type(value).__name__} {value!r}".encode()
    elif id(value) in inside:  # a function that calls itself, for example
        yield b"again"
    elif hasattr(value, "__array__") and not np.asarray(value).dtype.hasobject:
        array = np.ascontiguousarray(value)
        yield f"array {array.dtype.str} {np.shape(value)}".encode()
        yield array.reshape(-1).view(np.uint8).data
    else:
        name, items = _anatomy(value)
        yield name
        yield len(items).to_bytes(8, "little")
        for item in items:
            yield from _pieces(item, inside | {id(value)})


def _anatomy(value: Any) -> tuple[bytes, list[Any]]:
    """What a thing is, and what it consists of."""
    if isinstance(value, list | tuple):
        return b"list", list(value)
    if isinstance(value, Mapping):
        return b"mapping", [(key, value[key]) for key in sorted(value, key=repr)]
    if isinstance(value, set | frozenset):
        return b"set", sorted(value, key=repr)
    if isinstance(value, np.random.Generator | np.random.RandomState):
        return b"generator", [type(getattr(value, "bit_generator", value)).__name__]
    if isinstance(value, FunctionType):
        return _named(value), _parts_of_function(value)
    if isinstance(value, MethodType):
        return b"method", [value.__func__, value.__self__]
    if isinstance(value, Callable) and hasattr(value, "__qualname__"):  # type: ignore[arg-type]
        return _named(value), []
    kind: Any = type(value)
    if is_dataclass(value):
        return _named(kind), [(field.name, getattr(value, field.name)) for field in fields(value)]
    if hasattr(value, "get_params"):
        return _named(kind), [value.get_params(deep=False)]
    return _named(kind), _reduced(value)


def _parts_of_function(function: FunctionType) -> list[Any]:
    """Code, constants and all values that a function has taken with it; two lambdas of a line share their source."""
    code = function.__code__
    plain = [constant for constant in code.co_consts if isinstance(constant, int | float | str | bytes | None)]
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    return [code.co_code, code.co_names, plain, function.__defaults__, function.__kwdefaults__, cells]


def _reduced(value: Any) -> list[Any]:
    """The content of an object as pickle would take it, which nobody needs to run."""
    try:
        reduced = value.__reduce_ex__(4)
    except TypeError:
        return [repr(value)]
    if isinstance(reduced, str):
        return [reduced]
    return [list(part) if isinstance(part, Iterator) else part for part in reduced]


@lru_cache(maxsize=256)
def _named(thing: Any) -> bytes:
    """The full name of a class or function, and its source where it is the user's: it may change between two runs."""
    name = f"{thing.__module__}.{thing.__qualname__}"
    if name.startswith("knotwise."):  # known by its version
        return name.encode()
    try:
        return f"{name}\n{inspect.getsource(thing)}".encode()
    except (OSError, TypeError):
        return name.encode()
