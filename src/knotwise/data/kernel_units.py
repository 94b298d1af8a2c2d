"""What a kernel has beside its parameters, in the units of the data and in the engine's: scales and centres of columns.

One length-scale for columns of different scale counts in the scales of its columns. So a kernel that was fitted carries
these scales, and is the same function in a fit that standardises by others.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from knotwise.errors import InvalidInputError
from knotwise.kernels.base import Kernel
from knotwise.kernels.others import Linear
from knotwise.numerics.parameters import Columns, Parameter, same_scale
from knotwise.numerics.part import Part, short_repr

__all__ = ["kernel_to_engine", "kernel_to_user", "refuse_mixed_scales", "what_to_write", "without_common_scale"]


class InputUnits(Protocol):
    """Of the inputs: x_engine = (x - centre) / x_scale, and `scales` are x_scale in the units of length-scales."""

    @property
    def centres(self) -> np.ndarray: ...

    @property
    def x_scale(self) -> np.ndarray: ...

    @property
    def scales(self) -> np.ndarray: ...


def kernel_to_engine(kernel: Kernel, units: InputUnits) -> Kernel:
    """The kernel with its scales and centres of columns in the engine's units; its parameters stay as they are."""

    def change(leaf: Any, columns: list[int]) -> Any:
        first = _first_of_entries(leaf, columns)
        new = {}
        if isinstance(leaf.column_scales, str):
            new["column_scales"] = np.ones(len(first))
        elif leaf.column_scales is not None:
            new["column_scales"] = np.asarray(leaf.column_scales, float) / units.scales[first]
            if not leaf.takes_column_scales and not np.allclose(new["column_scales"], 1.0, rtol=1e-9):
                raise InvalidInputError(
                    f"{type(leaf).__name__} has one value for columns of different scale, from a fit in which these "
                    "scales were others, and takes no `column_scales`. Give it a value per column, or keep the scales "
                    "of the inputs in both fits (`standardize=False`)."
                )
        if isinstance(leaf, Linear) and leaf.centre is not None:
            new["centre"] = (np.asarray(leaf.centre, float) - units.centres[first]) / units.x_scale[first]
        return leaf.with_values(**new) if new else leaf

    return kernel.map_leaves(change, range(len(units.x_scale)))


def kernel_to_user(kernel: Kernel, units: InputUnits) -> Kernel:
    """The kernel of a fit with its scales and centres of columns in the units of the data.

    A kernel that has one value for several columns gets their scales, which are 1 where one scale is that of all.
    """

    def change(leaf: Any, columns: list[int]) -> Any:
        first = _first_of_entries(leaf, columns)
        new = {}
        if leaf.column_scales is not None:
            new["column_scales"] = leaf.column_scales * units.scales[first]
        elif _shares_a_value(leaf, len(first)):
            common = same_scale(units.scales[first].tolist())
            if common is None:
                new["column_scales"] = units.scales[first]
            elif leaf.takes_column_scales:
                new["column_scales"] = np.ones(len(first))
        if isinstance(leaf, Linear):
            inner = 0.0 if leaf.centre is None else leaf.centre
            new["centre"] = units.centres[first] + units.x_scale[first] * inner
        return leaf.with_values(**new) if new else leaf

    return kernel.map_leaves(change, range(len(units.x_scale)))


def _first_of_entries(leaf: Kernel, columns: list[int]) -> list[int]:
    """The first column of each entry of a list; those of one entry have one scale."""
    return [group[0] for group in leaf.column_groups(columns)]


def _shares_a_value(leaf: Kernel, n_entries: int) -> bool:
    """Whether a parameter in the units of columns is one for several."""
    return n_entries > 1 and any(p.x_power and not np.ndim(leaf.value(p.name)) for p in leaf.parameters)


def without_common_scale(parameter: Parameter, columns: Columns) -> bool:
    """Whether a value would be one for columns of different scale, without saying what it counts in."""
    counts = parameter.x_power != 0 and not parameter.column_scales
    return counts and columns.common_scale(parameter.columns) is None


def refuse_mixed_scales(kernel: Kernel, columns: Columns) -> None:
    """Refuse one value for columns of different scale: a period in any case, and others where a number is given."""
    for name, parameter in zip(kernel.names, kernel.flat_parameters(range(len(columns.scales))), strict=True):
        if not without_common_scale(parameter, columns):
            continue
        *path, short = name.split("__")
        owner: Part = kernel
        for child in path:
            owner = owner.children()[child]
        given = getattr(owner, short)
        if given is not None or parameter.role not in ("lengthscale", "amplitude"):
            raise InvalidInputError(
                f"`{short}` of {type(owner).__name__} is in the units of its column, but the kernel sees "
                f"{len(parameter.columns)} columns of different scale. " + _advice(owner, parameter, columns, given)
            )


def _advice(owner: Any, parameter: Parameter, columns: Columns, given: Any) -> str:
    name, first = parameter.name, parameter.columns[0]
    if parameter.per_column:
        return what_to_write(name, owner.takes_column_scales)
    example = f"{type(owner).__name__}({'' if given is None else f'{name}={short_repr(given)}'})"
    return (
        f"Give the column: `{example}.on({columns.names[first] if columns.names else first!r})`; or keep the scales of "
        "the inputs (`standardize='common'` or `standardize=False`)."
    )


def what_to_write(name: str, takes_column_scales: bool = True) -> str:
    """How to say what one value for columns of different scale counts in."""
    standard = "`column_scales='standard'` to count in standard deviations of each column, "
    return (
        f"Write one per column, `{name}=[...]` or `ard=True`, {standard if takes_column_scales else ''}or "
        "`standardize='common'` for one scale of all columns."
    )
