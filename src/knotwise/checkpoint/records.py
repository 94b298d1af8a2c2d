"""Results of steps as bytes, and back to the bit: JSON for the structure, `.npy` members for the arrays, no code."""

from __future__ import annotations

import io
import json
from dataclasses import fields, is_dataclass
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np

__all__ = ["decode", "encode"]


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
