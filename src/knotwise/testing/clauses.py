"""What the conformance checks share: claims that say whose they are, and the parameters of a part."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Sequence
from inspect import signature
from typing import Any, NoReturn

import numpy as np

from knotwise.numerics.part import Part

__all__ = ["check_parameters", "fail", "same"]


def fail(owner: object, what: str) -> NoReturn:
    """Say which clause is broken, and by whom."""
    raise AssertionError(f"{owner!r}: {what}.")


def same(owner: object, claim: str, actual: object, expected: object, *, rtol: float = 1e-12, atol: Any = 0.0) -> None:
    """Assert a claim that two arrays are equal."""
    a, b = np.asarray(actual, float), np.asarray(expected, float)
    if a.shape != b.shape:
        fail(owner, f"{claim}: shapes {a.shape} and {b.shape}")
    with np.errstate(invalid="ignore"):
        wrong = ~np.isclose(a, b, rtol=rtol, atol=atol)
    if wrong.any():
        fail(owner, f"{claim}: {a[wrong][0]:.10g} and {b[wrong][0]:.10g} in {wrong.sum()} of {wrong.size} entries")


def check_parameters(part: Part, roles: Sequence[str]) -> None:
    """Theta, constructor arguments and pickling describe a part completely.

    Each parameter is declared once, is an argument of the constructor, and has a role that such a part can have.
    """
    arguments, names = signature(type(part)).parameters, [p.name for p in part.parameters]
    for p in part.parameters:
        if names.count(p.name) > 1:
            fail(part, f"`parameters` has `{p.name}` twice")
        if p.name not in arguments:
            fail(part, f"`{p.name}` is in `parameters`, but is no argument of the constructor: {', '.join(arguments)}")
        if p.role not in roles:
            fail(part, f"`{p.name}` has the role {p.role!r}, but can only have {', '.join(map(repr, roles))}")
    theta = part.theta
    if not (theta.shape == (part.size,) and len(part.names) == part.size and np.isfinite(theta).all()):
        fail(part, f"theta {theta} must be finite, with the {part.size} entries of `names` {part.names}")
    moved = theta + np.linspace(0.1, 0.2, len(theta))
    same(part, "`with_theta(theta)` has this theta", part.with_theta(moved).theta, moved)
    same(part, "`with_theta` leaves the part itself alone", part.theta, theta, rtol=0)
    for copied, how in [
        (copy.deepcopy(part).set_params(**part.get_params()), "set_params(**get_params())"),
        (type(part)(**part.get_params(deep=False)), "the constructor with get_params(deep=False)"),
        (pickle.loads(pickle.dumps(part)), "pickling"),
    ]:
        if type(copied) is not type(part) or copied.names != part.names:
            fail(part, f"{how} gives {copied!r}")
        same(part, f"{how} keeps theta", copied.theta, theta, rtol=0)
