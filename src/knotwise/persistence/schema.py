"""What may stand in a manifest: specifications that write a value as JSON and, strictly, read it back.

Floating point numbers come back with the same bits: JSON holds the shortest decimal that reads as the same number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import index
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from knotwise.errors import InvalidInputError, ModelFileError

T = TypeVar("T")
#: vectors up to this length stand in the manifest, where people can read them; others are members of the file
SHORT = 64
#: of entries whose squares are numbers
LARGEST = 1e150
SQUARED = ", whose square is a number"
NON_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
DTYPES = {"float": np.dtype("<f8"), "int": np.dtype("<i8"), "bool": np.dtype("|b1")}


def refuse(at: str, wanted: str) -> ModelFileError:
    """The error for a value in a manifest that cannot be there."""
    return ModelFileError(f"`{at}` in its manifest is not {wanted}. Give a file that `save` has written.", at=at)


def cannot_write(at: str, value: Any) -> InvalidInputError:
    """The error for a value of a model that no file would be read with."""
    return InvalidInputError(
        f"`{at}` of the model is {value} with NaN, infinities, a size or a sign that it cannot have, so the model "
        "cannot be saved. Look at `converged_` and `parameters_`, and fit again; pickle keeps it as it is."
    )


@dataclass
class Writing:
    """Arrays that are gathered while a model is written."""

    arrays: dict[str, np.ndarray] = field(default_factory=dict)


@dataclass
class Reading:
    """The arrays of a file, each to be taken once, and the sizes that those taken so far agree on."""

    arrays: dict[str, np.ndarray]
    sizes: dict[str, int] = field(default_factory=dict)

    def take(self, name: Any, at: str) -> np.ndarray:
        if not isinstance(name, str) or name not in self.arrays:
            raise refuse(at, "the name of an array in the file that has no other place")
        return self.arrays.pop(name)

    def check_shape(self, array: np.ndarray, dims: tuple[str, ...], at: str) -> None:
        if array.ndim != len(dims) or any(
            self.sizes.setdefault(dim, n) != n for dim, n in zip(dims, array.shape, strict=True)
        ):
            known = ", ".join(f"{dim} = {self.sizes[dim]}" for dim in dims if dim in self.sizes)
            raise refuse(at, f"an array of shape [{', '.join(dims)}] (here {known})")


class Spec(Protocol):
    """How one kind of value is written as JSON, and read."""

    def write(self, value: Any, at: str, out: Writing) -> Any: ...

    def read(self, data: Any, at: str, given: Reading) -> Any: ...


def _allows(spec: Number | Array, values: Any) -> bool:
    """Whether numbers are finite and positive where they must be, and their squares too where they are `squared`."""
    least, largest = (1.0 / LARGEST, LARGEST) if spec.squared else (0.0, math.inf)
    finite = not spec.finite or bool(np.all(np.abs(values) < largest))  # a comparison with NaN is false
    return finite and (not spec.positive or bool(np.all(values > least)))


@dataclass(frozen=True)
class Number:
    """A floating point number; NaN and infinities only where they have a meaning."""

    finite: bool = True
    positive: bool = False
    squared: bool = False

    def write(self, value: Any, at: str, out: Writing) -> Any:
        if not _allows(self, float(value)):
            raise cannot_write(at, value)
        return number_to_json(float(value))

    def read(self, data: Any, at: str, given: Reading) -> float:
        value = number_from_json(data, at)
        if not _allows(self, value):
            wanted = f"a {'finite' if self.finite else ''}{' positive' if self.positive else ''} number"
            raise refuse(at, wanted + SQUARED * self.squared)
        return value


def number_to_json(value: float) -> Any:
    return value if math.isfinite(value) else {"float": str(value)}


def number_from_json(data: Any, at: str) -> float:
    if type(data) is float and math.isfinite(data):
        return data
    if isinstance(data, dict) and list(data) == ["float"] and data["float"] in list(NON_FINITE):
        return NON_FINITE[data["float"]]
    raise refuse(at, "a floating point number")


@dataclass(frozen=True)
class Exactly(Generic[T]):
    """A value that JSON has itself."""

    kind: type[T]
    wanted: str

    def write(self, value: Any, at: str, out: Writing) -> T:
        return index(value) if self.kind is int else self.kind(value)  # type: ignore[return-value, call-arg]

    def read(self, data: Any, at: str, given: Reading) -> T:
        if type(data) is not self.kind or (self.kind is int and not 0 <= data < 2**53):  # type: ignore[operator]
            raise refuse(at, self.wanted)
        return data


Text = Exactly(str, "text")
Flag = Exactly(bool, "true or false")
Whole = Exactly(int, "a whole number of at least 0")


class Count:
    """A number of rows: whole, or a fraction where rows have weights."""

    def write(self, value: Any, at: str, out: Writing) -> Any:
        return Whole.write(value, at, out) if isinstance(value, int) else Number(positive=True).write(value, at, out)

    def read(self, data: Any, at: str, given: Reading) -> int | float:
        return Number(positive=True).read(data, at, given) if type(data) is float else Whole.read(data, at, given)


class OneWord:
    """One of some objects that have a word each."""

    def __init__(self, words: Mapping[str, Any]) -> None:
        self.words = words

    def write(self, value: Any, at: str, out: Writing) -> str:
        word = next((word for word, known in self.words.items() if known == value), None)
        if word is None:
            raise InvalidInputError(
                f"`{at}` of the model is {value!r}, which a model file cannot hold. Keep this model with pickle."
            )
        return word

    def read(self, data: Any, at: str, given: Reading) -> Any:
        if Text.read(data, at, given) not in self.words:
            raise refuse(at, f"one of {', '.join(self.words)}")
        return self.words[data]


@dataclass(frozen=True)
class Optional:
    """A value or nothing."""

    spec: Spec

    def write(self, value: Any, at: str, out: Writing) -> Any:
        return None if value is None else self.spec.write(value, at, out)

    def read(self, data: Any, at: str, given: Reading) -> Any:
        return None if data is None else self.spec.read(data, at, given)


@dataclass(frozen=True)
class ListOf:
    """A list of values of one kind, as a list or a tuple; `dim` names its length."""

    spec: Spec
    kind: type = list
    dim: str | None = None

    def write(self, value: Any, at: str, out: Writing) -> Any:
        return [self.spec.write(v, f"{at}.{i}", out) for i, v in enumerate(value)]

    def read(self, data: Any, at: str, given: Reading) -> Any:
        if not isinstance(data, list) or (self.dim and given.sizes.setdefault(self.dim, len(data)) != len(data)):
            raise refuse(at, f"a list{f' of length {given.sizes[self.dim]}' if self.dim in given.sizes else ''}")
        return self.kind(self.spec.read(v, f"{at}.{i}", given) for i, v in enumerate(data))


@dataclass(frozen=True)
class Array:
    """An array whose sizes have names, so that arrays which belong together fit together.

    A short vector stands in the manifest as a list, everything else is a member of the file.
    """

    dims: tuple[str, ...]
    kind: str = "float"
    finite: bool = True
    positive: bool = False
    squared: bool = False

    def write(self, value: Any, at: str, out: Writing) -> Any:
        array = np.asarray(value, DTYPES[self.kind])
        if not _allows(self, array):
            raise cannot_write(at, "an array")
        if _is_short(array):
            return [number_to_json(v) if self.kind == "float" else v for v in array.tolist()]
        out.arrays[at] = array
        return {"array": at}

    def read(self, data: Any, at: str, given: Reading) -> np.ndarray:
        array = self._short(data, at) if isinstance(data, list) else self._member(data, at, given)
        given.check_shape(array, self.dims, at)
        if not _allows(self, array):
            wanted = f"free of NaN and infinities{', and positive' if self.positive else ''}"
            raise refuse(at, wanted + SQUARED * self.squared)
        return array

    def _short(self, data: list[Any], at: str) -> np.ndarray:
        if self.kind == "float":
            data = [number_from_json(v, at) for v in data]
        elif not all(type(v) is (bool if self.kind == "bool" else int) for v in data):
            raise refuse(at, f"a list of {self.kind}")
        return _check_place(np.array(data, DTYPES[self.kind]), at, short=True)

    def _member(self, data: Any, at: str, given: Reading) -> np.ndarray:
        array = given.take(data.get("array") if isinstance(data, dict) and len(data) == 1 else None, at)
        if array.dtype != DTYPES[self.kind]:
            raise refuse(at, f"an array of {self.kind}")
        return _check_place(array, at, short=False)


def _is_short(array: np.ndarray) -> bool:
    return array.ndim == 1 and len(array) <= SHORT


def _check_place(array: np.ndarray, at: str, *, short: bool) -> np.ndarray:
    if _is_short(array) != short:
        raise refuse(at, f"where an array of shape {list(array.shape)} stands")
    return array


class Fields:
    """Named values; all of them, in this order, and no others."""

    def __init__(self, **specs: Spec) -> None:
        self.specs = specs

    def write(self, value: Any, at: str, out: Writing) -> dict[str, Any]:
        get = value.get if isinstance(value, dict) else lambda name: getattr(value, name)
        return {name: spec.write(get(name), _entry_path(at, name), out) for name, spec in self.specs.items()}

    def read(self, data: Any, at: str, given: Reading) -> dict[str, Any]:
        if not isinstance(data, dict) or list(data) != list(self.specs):
            raise refuse(at or "model", f"an object with {', '.join(self.specs)}")
        return {name: spec.read(data[name], _entry_path(at, name), given) for name, spec in self.specs.items()}


def _entry_path(at: str, name: str) -> str:
    return f"{at}.{name}" if at else name


class Record:
    """An object of a class, by the arguments of its constructor."""

    def __init__(self, cls: type, **specs: Spec) -> None:
        self.cls = cls
        self.fields = Fields(**specs)

    def write(self, value: Any, at: str, out: Writing) -> dict[str, Any]:
        return self.fields.write(value, at, out)

    def read(self, data: Any, at: str, given: Reading) -> Any:
        return self.cls(**self.fields.read(data, at, given))


class OneOf:
    """An object of one of several classes, as an object with one entry, whose name says which."""

    def __init__(self, **records: Record) -> None:
        self.records = records

    def write(self, value: Any, at: str, out: Writing) -> dict[str, Any]:
        kind = next(name for name, record in self.records.items() if type(value) is record.cls)
        return {kind: self.records[kind].write(value, f"{at}.{kind}", out)}

    def read(self, data: Any, at: str, given: Reading) -> Any:
        if not isinstance(data, dict) or len(data) != 1 or next(iter(data)) not in self.records:
            raise refuse(at, f"an object with one of {', '.join(self.records)}")
        ((kind, content),) = data.items()
        return self.records[kind].read(content, f"{at}.{kind}", given)
