"""Named parameters and the flat unconstrained vector that optimisers see.

A *part* of a model (a kernel, a likelihood, a mean) declares its parameters in `transforms`. Its `theta`
is the flat vector of their unconstrained values (the logarithm where a parameter is positive), and
`with_theta` is the inverse: a new part, the old one unchanged. A parameter left as None is chosen
from the data when a model is fitted; outside a fit it counts as 1 (0 on the identity scale).
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp, log
from typing import Any, ClassVar, TypeVar

import numpy as np

from knotwise.errors import InvalidInputError, unknown_option

__all__ = ["ParameterTable", "Part", "flat_names", "short_repr", "unique_names"]

P = TypeVar("P", bound="Part")


def _constructor_names(cls: type) -> tuple[str, ...]:
    return tuple(inspect.signature(cls).parameters)


class Part:
    """A piece of a model with named parameters; scikit-learn's get_params / set_params, and theta."""

    #: name of each parameter -> "log" (positive) or "identity"
    transforms: ClassVar[dict[str, str]] = {}

    #: parameters that may be lists, one entry per column
    list_valued: ClassVar[tuple[str, ...]] = ()

    def children(self) -> dict[str, Part]:
        """The parts that this part is made of, by the name of the argument that holds them."""
        return {}

    # -- the flat vector ------------------------------------------------------------------

    @property
    def names(self) -> list[str]:
        """Names of the entries of theta; `k1__variance` is the variance of the child k1."""
        own = [name for name in self.transforms for _ in range(np.size(self.value(name)))]
        inner = [f"{child}__{name}" for child, part in self.children().items() for name in part.names]
        return own + inner

    @property
    def size(self) -> int:
        """Length of theta."""
        return sum(np.size(self.value(name)) for name in self.transforms) + sum(
            part.size for part in self.children().values()
        )

    def value(self, name: str) -> Any:
        """The natural value of a parameter, with the default for one that is still None."""
        value = getattr(self, name)
        if value is None:
            return 1.0 if self.transforms[name] == "log" else 0.0
        return np.asarray(value, float) if np.ndim(value) else float(value)

    @property
    def theta(self) -> np.ndarray:
        """The unconstrained values, in the order of `names`."""
        own = [
            np.log(self.value(name)) if kind == "log" else self.value(name) for name, kind in self.transforms.items()
        ]
        return np.concatenate(
            [np.atleast_1d(np.asarray(v, float)) for v in own] + [part.theta for part in self.children().values()]
            or [np.empty(0)]
        )

    def with_theta(self: P, theta: np.ndarray) -> P:
        """A copy with the values of the unconstrained vector theta."""
        new = object.__new__(type(self))
        new.__dict__.update(self.__dict__)
        start = 0
        for name, kind in self.transforms.items():
            old = self.value(name)
            if np.ndim(old):
                value = theta[start : start + len(old)]
                start += len(old)
                new.__dict__[name] = np.exp(value) if kind == "log" else np.array(value)
            else:
                scalar = float(theta[start])
                start += 1
                new.__dict__[name] = _safe_exp(scalar) if kind == "log" else scalar
        for child, part in self.children().items():
            new.__dict__[child] = part.with_theta(theta[start : start + part.size])
            start += part.size
        return new

    # -- scikit-learn's face of a part -------------------------------------------------------

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Constructor arguments by name; with deep, those of the children as `child__name`."""
        params = {name: getattr(self, name) for name in _constructor_names(type(self))}
        if deep:
            for child, part in self.children().items():
                params |= {f"{child}__{name}": value for name, value in part.get_params().items()}
        return params

    def set_params(self: P, **params: Any) -> P:
        """Set constructor arguments in place, `child__name` for those of a child; return self."""
        for name, value in params.items():
            head, _, rest = name.partition("__")
            if head not in _constructor_names(type(self)):
                raise unknown_option(f"A parameter of {type(self).__name__}", head, self.get_params())
            if rest:
                getattr(self, head).set_params(**{rest: value})
            else:
                setattr(self, head, value)
        self.validate()
        return self

    def validate(self) -> None:
        """Check the values given: positive where the scale is logarithmic, finite everywhere."""
        for name, kind in self.transforms.items():
            given = getattr(self, name)
            if given is None:
                continue
            try:
                value = np.asarray(given, float)
            except (TypeError, ValueError):
                value = np.array(np.nan)
            most = 1 if name in self.list_valued else 0
            if value.ndim > most or not np.isfinite(value).all() or (kind == "log" and (value <= 0).any()):
                wanted = "positive" if kind == "log" else "finite"
                raise InvalidInputError(
                    f"`{name}` of {type(self).__name__} is {given!r}; it must be a {wanted} number"
                    f"{' or a list of them' if most else ''}, or None to take it from the data."
                )

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{name}={short_repr(value)}" for name, value in self.get_params(deep=False).items() if value is not None
        )
        return f"{type(self).__name__}({shown})"


def _safe_exp(x: float) -> float:
    return exp(x) if x < 709.0 else float("inf")


def short_repr(value: Any) -> str:
    """Show a parameter with the digits that a reader needs."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, np.ndarray):
        return "[" + ", ".join(f"{v:.4g}" for v in value) + "]"
    return repr(value)


def flat_names(names: Sequence[str]) -> list[str]:
    """Number the entries of parameters that are lists: lengthscale[0], lengthscale[1]."""
    seen: dict[str, int] = {}
    flat = []
    for name in names:
        if names.count(name) > 1:
            flat.append(f"{name}[{seen.get(name, 0)}]")
            seen[name] = seen.get(name, 0) + 1
        else:
            flat.append(name)
    return flat


def unique_names(names: Sequence[str], parts: Sequence[str]) -> list[str]:
    """Names of the parameters of several parts: `part__name` where two parts share a name, else the name alone."""
    owners: dict[str, set[str]] = {}
    for name, part in zip(names, parts, strict=True):
        owners.setdefault(name, set()).add(part)
    return [name if len(owners[name]) == 1 else f"{part}__{name}" for name, part in zip(names, parts, strict=True)]


@dataclass(frozen=True)
class ParameterTable:
    """Names, natural values, bounds and holds of all parameters of a model, and theta in this order.

    `parts` says whose each parameter is: the kernel's, the likelihood's, the nugget's or the mean's.
    """

    names: tuple[str, ...]
    transforms: tuple[str, ...]
    values: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    fixed: np.ndarray = field(repr=False)
    parts: tuple[str, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        for array in (self.values, self.lower, self.upper, self.fixed):
            array.setflags(write=False)

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __getitem__(self, name: str) -> Any:
        """Natural value of one parameter; an array for a list-valued one such as an ARD length-scale."""
        hits = self.entries(name)
        return float(self.values[hits[0]]) if len(hits) == 1 else self.values[hits].copy()

    def entries(self, name: str, what: str = "A parameter") -> list[int]:
        """Where one parameter is in theta, by its name or by `part__name`; several places for a list-valued one."""

        def called(names: Sequence[str]) -> list[int]:
            return [i for i, known in enumerate(names) if known == name or known.startswith(f"{name}[")]

        in_full = [f"{part}__{known}" for part, known in zip(self.parts, self.names, strict=False)]
        hits = called(self.names) or called(in_full)
        if hits:
            return hits
        shared = [n for n, part in zip(self.names, self.parts, strict=False) if n.split("[")[0] == f"{part}__{name}"]
        if shared:
            both = " and ".join(dict.fromkeys(n.split("[")[0] for n in shared))
            raise InvalidInputError(f"{what} is {name!r}, which two parts of the model have: write {both}.")
        known = [*self.names, *in_full] if "__" in str(name) else self.names
        raise unknown_option(what, name, {n.split("[")[0] for n in known})

    def of_part(self, part: str) -> np.ndarray:
        """Mask of the entries that belong to a part."""
        return np.array([owner == part for owner in self.parts], bool)

    @property
    def theta(self) -> np.ndarray:
        """The unconstrained vector: logarithms where a parameter is positive."""
        return self._unconstrain(self.values)

    @property
    def theta_bounds(self) -> np.ndarray:
        """Lower and upper bounds of theta, [P, 2]."""
        return np.column_stack([self._unconstrain(self.lower), self._unconstrain(self.upper)])

    def with_theta(self, theta: np.ndarray) -> ParameterTable:
        """The same table at other values."""
        log_scale = np.array([kind == "log" for kind in self.transforms])
        values = np.array(theta, float)
        values[log_scale] = np.exp(values[log_scale])
        return replace(self, values=values)

    def at_bound(self) -> list[str]:
        """Names of free parameters that ended on a bound."""
        theta, bounds = self.theta, self.theta_bounds
        near = (theta <= bounds[:, 0] + 1e-6) | (theta >= bounds[:, 1] - 1e-6)
        return [name for name, hit, held in zip(self.names, near, self.fixed, strict=True) if hit and not held]

    def _unconstrain(self, values: np.ndarray) -> np.ndarray:
        return np.array(
            [
                (log(v) if v > 0 else -np.inf) if kind == "log" else v
                for v, kind in zip(values.tolist(), self.transforms, strict=True)
            ]
        )

    def as_dict(self) -> Mapping[str, float]:
        """Natural values by name."""
        return dict(zip(self.names, self.values.tolist(), strict=True))

    def __str__(self) -> str:
        width = max(map(len, self.names), default=4)
        rows = [f"{'name':<{width}}  {'value':>11}  {'lower':>11}  {'upper':>11}  "]
        for name, value, low, high, held in zip(
            self.names, self.values, self.lower, self.upper, self.fixed, strict=True
        ):
            rows.append(f"{name:<{width}}  {value:11.4g}  {low:11.4g}  {high:11.4g}  {'fixed' if held else ''}")
        return "\n".join(row.rstrip() for row in rows)
