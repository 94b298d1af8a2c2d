"""Parts of a model and settings of an estimator in a manifest.

A file names a class that one of knotwise's packages exports in its `__all__`, and the values of its arguments, nothing
else; so loading one runs no code but that of these constructors. What is not exported there, such as a user's own
kernel, can neither be saved nor be loaded.
"""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any

import numpy as np

from knotwise import kernels, knots, likelihoods, means, noise, optimize, priors, warps
from knotwise.errors import InvalidInputError, KnotwiseError
from knotwise.likelihoods.varying import NoisePattern, VaryingGaussian
from knotwise.means import Constant, Linear, Zero
from knotwise.persistence.schema import (
    DTYPES,
    Array,
    Fields,
    ListOf,
    Number,
    Optional,
    Reading,
    Record,
    Whole,
    Writing,
    number_from_json,
    number_to_json,
    refuse,
)


def exported(package: ModuleType, method: str, *bases: type) -> dict[str, type]:
    """The classes that a package exports and that have this method, by name; without those that are bases only."""
    members = [getattr(package, name) for name in package.__all__]
    return {cls.__name__: cls for cls in members if isinstance(cls, type) and hasattr(cls, method) and cls not in bases}


FAMILIES: dict[str, dict[str, type]] = {
    "kernel": exported(kernels, "value_and_pullback", kernels.Kernel, kernels.Stationary),
    "likelihood": exported(likelihoods, "derivatives", likelihoods.Likelihood),
    "mean": exported(means, "basis", means.Mean),
    "noise": exported(noise, "pullback", noise.Noise),
    "nugget": {cls.__name__: cls for cls in (noise.Nugget, noise.NoNugget)},
    "prior": exported(priors, "log_density"),
    "knots": exported(knots, "select", knots.Selector),
    "proposal": exported(knots, "propose", knots.Proposal),
    "optimizer": exported(optimize, "maximize", optimize.Optimizer),
    "warp": exported(warps, "inverse", warps.Warp),
}

#: the family and the name of each class; a subclass of one is another class, and has none
HOMES: dict[type, tuple[str, str]] = {
    cls: (family, name) for family, classes in FAMILIES.items() for name, cls in classes.items()
}


class Deferred:
    """A kernel within what another part has learned."""

    def write(self, value: Any, at: str, out: Writing) -> dict[str, Any]:
        return Part("kernel").write(value, at, out)

    def read(self, data: Any, at: str, given: Reading) -> Any:
        return Part("kernel").read(data, at, given)


#: what a part has learned from the data of a fit, beside the arguments of its constructor
LEARNED: dict[type, Fields] = {
    Linear: Fields(
        offset=Number(squared=True),
        centre=Array(("bound",), squared=True),
        scale=Array(("bound",), squared=True),
        intercept_sd=Number(squared=True),
    ),
    Constant: Fields(level=Number(squared=True), level_sd=Number(squared=True)),  # where it is integrated out
    Zero: Fields(offset=Number(squared=True)),
}
#: how the log noise variance varies: a posterior through knots of its own
PATTERN = Record(
    NoisePattern,
    kernel=Deferred(),
    offset=Number(squared=True),
    Z=Array(("noise knots", "noise columns"), squared=True),
    L_inverse=Array(("noise knots", "noise knots"), squared=True),
    T=Array(("noise knots", "noise knots"), squared=True),
    gamma=Array(("noise knots",), squared=True),
    centre=Optional(Array(("noise columns",), squared=True)),
    scale=Optional(Array(("noise columns",), squared=True)),
)
LEARNED[VaryingGaussian] = Fields(pattern=PATTERN)
#: which columns share an entry of a kernel's lists, where columns are encoded
GROUPS = Fields(groups=ListOf(Whole, tuple))


def _learned(cls: type) -> Fields | None:
    """What a part of the class may have learned."""
    return GROUPS if issubclass(cls, kernels.Kernel) else LEARNED.get(cls)


def _argument_names(cls: type) -> tuple[str, ...]:
    return tuple(inspect.signature(cls).parameters)


def write_arguments(value: Any, at: str, out: Writing, leave_out: tuple[str, ...] = ()) -> dict[str, Any]:
    """The arguments with which an object was made, which it keeps under their names."""
    names = [name for name in _argument_names(type(value)) if name not in leave_out]
    return {name: Setting().write(getattr(value, name), f"{at}.{name}", out) for name in names}


def read_arguments(cls: type, data: Any, at: str, given: Reading, leave_out: tuple[str, ...] = ()) -> Any:
    """An object of the class, made with these arguments, and with the defaults of others."""
    if not isinstance(data, dict) or not set(data) <= set(_argument_names(cls)) - set(leave_out):
        raise refuse(at, f"the arguments of {cls.__name__}")
    values = {name: Setting().read(value, f"{at}.{name}", given) for name, value in data.items()}
    try:
        return cls(**values)
    except (KnotwiseError, ArithmeticError, TypeError, ValueError) as error:
        raise refuse(at, f"valid for {cls.__name__} ({error})") from None


class Part:
    """An object of a family, by the name of its class and the arguments of its constructor."""

    def __init__(self, family: str) -> None:
        self.family = family

    def write(self, value: Any, at: str, out: Writing) -> dict[str, Any]:
        family, name = HOMES.get(type(value), ("", ""))
        if family != self.family:
            value = getattr(value, "prior", value)  # one of the user's own, in the engine's units
            raise InvalidInputError(
                f"The {self.family} {value!r} is of the class {_full_name(value)}, which is not one of knotwise's own, "
                "and a model file can name no other. Keep this model with pickle."
            )
        written = {"class": name, "arguments": write_arguments(value, f"{at}.arguments", out)}
        learned = _learned(type(value))
        if learned is not None and all(vars(value).get(entry) is not None for entry in learned.specs):
            written["learned"] = learned.write(value, f"{at}.learned", out)
        return written

    def read(self, data: Any, at: str, given: Reading) -> Any:
        name = data.get("class") if isinstance(data, dict) else None
        if not isinstance(name, str) or name not in FAMILIES[self.family]:
            raise refuse(at, f"a {self.family} that this knotwise knows")
        cls = FAMILIES[self.family][name]
        learned = _learned(cls) if "learned" in data else None
        if list(data) != ["class", "arguments", *(["learned"] if learned else [])]:
            raise refuse(at, f"a description of {cls.__name__}")
        part = read_arguments(cls, data["arguments"], f"{at}.arguments", given)
        if learned is not None:
            if cls is Constant and not part.integrated:
                raise refuse(f"{at}.learned", "left out for a mean that is held or a parameter")
            vars(part).update(learned.read(data["learned"], f"{at}.learned", given))
            if self.family == "kernel" and set(part.groups) != set(range(len(set(part.groups)))):
                raise refuse(f"{at}.learned.groups", "numbers of groups from 0 on")
        return part


class Setting:
    """An argument, of any kind that options have. What JSON does not have itself is an object with one entry."""

    def write(self, value: Any, at: str, out: Writing) -> Any:
        value = value.item() if isinstance(value, np.generic) else value
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, float):
            return number_to_json(value)
        if type(value) in (list, tuple):
            items = [self.write(item, f"{at}.{i}", out) for i, item in enumerate(value)]
            return items if type(value) is list else {"tuple": items}
        if type(value) is dict and all(isinstance(key, str) for key in value):
            return {"dict": {key: self.write(item, f"{at}.{i}", out) for i, (key, item) in enumerate(value.items())}}
        if type(value) is dict and all(type(key) in (int, str) for key in value):  # columns by number
            return {"pairs": [[key, self.write(item, f"{at}.{i}", out)] for i, (key, item) in enumerate(value.items())]}
        if isinstance(value, np.ndarray) and value.dtype.kind in "biuf" and value.ndim in (1, 2):
            kind = {"b": "bool", "f": "float"}.get(value.dtype.kind, "int")
            values = _free_array(kind, value.ndim, at).write(value.astype(DTYPES[kind], copy=False), at, out)
            return {"array": {"kind": kind, "ndim": value.ndim, "values": values}}
        if type(value) in HOMES:
            family = HOMES[type(value)][0]
            return {family: Part(family).write(value, f"{at}.{family}", out)}
        if type(value) is np.random.Generator and type(value.bit_generator) is np.random.PCG64:
            state = value.bit_generator.state
            return {"generator": [*state["state"].values(), state["has_uint32"], state["uinteger"]]}
        raise InvalidInputError(
            f"The setting `{at}` is {value!r} of the class {_full_name(value)}, which a model file cannot hold. Keep "
            "this model with pickle. If the setting mattered during the fit only (a selector, an optimiser, a "
            "function, a generator), you can also replace it with `set_params` and save."
        )

    def read(self, data: Any, at: str, given: Reading) -> Any:
        if data is None or type(data) in (bool, int, str):
            return data
        if isinstance(data, list):
            return [self.read(item, f"{at}.{i}", given) for i, item in enumerate(data)]
        if not isinstance(data, dict):
            return number_from_json(data, at)
        kind, content = next(iter(data.items())) if len(data) == 1 else ("", None)
        if kind == "float":
            return number_from_json(data, at)
        if kind == "tuple" and isinstance(content, list):
            return tuple(self.read(content, at, given))
        if kind == "dict" and isinstance(content, dict):
            return {key: self.read(item, f"{at}.{i}", given) for i, (key, item) in enumerate(content.items())}
        if kind == "pairs" and isinstance(content, list):
            return self._read_pairs(content, at, given)
        if kind == "array":
            return _read_free_array(content, at, given)
        if kind == "generator" and at.endswith("settings.random_state"):
            return _read_generator(content, at)
        if kind in FAMILIES:
            return Part(kind).read(content, f"{at}.{kind}", given)
        raise refuse(at, "a setting")

    def _read_pairs(self, content: list[Any], at: str, given: Reading) -> dict[int | str, Any]:
        """A dict of which some keys are numbers."""
        found: dict[int | str, Any] = {}
        for i, pair in enumerate(content):
            if not isinstance(pair, list) or len(pair) != 2 or type(pair[0]) not in (int, str) or pair[0] in found:
                raise refuse(at, "a list of columns with a value each")
            found[pair[0]] = self.read(pair[1], f"{at}.{i}", given)
        return found


def _full_name(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _free_array(kind: str, ndim: int, at: str) -> Array:
    """An array of the user's, whose sizes need not fit anything."""
    return Array(tuple(f"{at} axis {axis}" for axis in range(ndim)), kind, finite=False)


def _read_free_array(data: Any, at: str, given: Reading) -> np.ndarray:
    if not isinstance(data, dict) or list(data) != ["kind", "ndim", "values"]:
        raise refuse(at, "an array")
    if data["kind"] not in list(DTYPES) or data["ndim"] not in (1, 2):
        raise refuse(at, "an array of a known kind")
    return _free_array(data["kind"], data["ndim"], at).read(data["values"], at, given)


def _read_generator(data: Any, at: str) -> np.random.Generator:
    """A generator in its state; PCG64 only, whose state may be any numbers of the right size."""
    limits = (2**128, 2**128, 2, 2**32)
    if not isinstance(data, list) or len(data) != len(limits):
        raise refuse(at, "the state of a generator")
    if not all(type(v) is int and 0 <= v < limit for v, limit in zip(data, limits, strict=True)):
        raise refuse(at, "the state of a generator")
    bits = np.random.PCG64(0)
    bits.state = {
        "bit_generator": "PCG64",
        "state": {"state": data[0], "inc": data[1]},
        "has_uint32": data[2],
        "uinteger": data[3],
    }
    return np.random.Generator(bits)
