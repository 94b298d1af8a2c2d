"""What a part of a model says of its parameters, for the conformance checks of kernels and likelihoods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any

from knotwise.numerics.part import Part

__all__ = ["check_declared"]


def check_declared(part: Part, roles: Sequence[str], fail: Callable[[Any, str], None]) -> None:
    """Each parameter is declared once, is an argument of the constructor, and has a role that such a part can have."""
    arguments, names = signature(type(part)).parameters, [p.name for p in part.parameters]
    for p in part.parameters:
        if names.count(p.name) > 1:
            fail(part, f"`parameters` has `{p.name}` twice")
        if p.name not in arguments:
            fail(part, f"`{p.name}` is in `parameters`, but is no argument of the constructor: {', '.join(arguments)}")
        if p.role not in roles:
            fail(part, f"`{p.name}` has the role {p.role!r}, but can only have {', '.join(map(repr, roles))}")
