"""The option `priors` of estimators: from names, roles and the units of the data to the priors of a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import sqrt
from typing import Any

import numpy as np

from knotwise.errors import InvalidInputError, UnknownOptionError, unknown_option
from knotwise.estimators.scaling import Scaling
from knotwise.numerics.parameters import ROLES, Columns, Parameter, ParameterTable, Prior
from knotwise.priors import LogNormal, PCSd

__all__ = ["describe_priors", "with_priors"]

#: roles by which a prior can be given; a mean and what has no role are called by their names
NAMED_ROLES = tuple(role for role in ROLES if role not in ("mean", "other"))
#: the weak priors, in standard deviations of the latent function's scale and in variances of y (H8)
WEAK_UPPER, WEAK_PROB = 30.0, 0.05
WEAK_NOISE, WEAK_NOISE_SPREAD = 0.3, 3.0


def with_priors(table: ParameterTable, given: Any, scaling: Scaling, latent_variance: float) -> ParameterTable:
    """The table with the priors that are asked for, in the engine's units.

    `given` is None, "weak", or priors by name or role in the units of the data; `latent_variance` is the scale of the
    latent function in the engine's units: the variance of y, or 1 on a link's scale.
    """
    if given is None:
        return table
    if isinstance(given, str):
        if given != "weak":
            raise unknown_option("`priors`, where it is a word,", given, ["weak"])
        found = {i: _weak(p, latent_variance) for i, p in enumerate(table.parameters)}
    elif isinstance(given, Mapping):
        found = {
            i: _in_engine_units(_checked(prior, name, table, i), table.parameters[i], table.columns, scaling.y_scale)
            for i, (name, prior) in _by_entry(table, given).items()
        }
    else:
        raise InvalidInputError(
            f"`priors` is {given!r}; it must be None, 'weak', or a dict of priors by the name or the role of a "
            "parameter, such as {'noise': knotwise.priors.LogNormal(median=0.1, spread=1.0)}."
        )
    parameters = [p if found.get(i) is None else replace(p, prior=found[i]) for i, p in enumerate(table.parameters)]
    return replace(table, parameters=tuple(parameters))


def _by_entry(table: ParameterTable, given: Mapping[Any, Any]) -> dict[int, tuple[str, Any]]:
    """The key and the prior of each entry of theta that has one; a name wins over a role."""
    by_name: dict[int, tuple[str, Any]] = {}
    by_role: dict[int, tuple[str, Any]] = {}
    for key, prior in given.items():
        entries = _entries(table, key)
        if entries is None:
            by_role |= {int(i): (key, prior) for i in np.flatnonzero(table.with_role(key))}
            continue
        for i in entries:
            if i in by_name:
                raise InvalidInputError(f"`priors` has {by_name[i][0]!r} and {key!r}, which are the same parameter.")
            by_name[i] = (key, prior)
    return by_role | by_name


def _entries(table: ParameterTable, key: Any) -> list[int] | None:
    """Where the parameter of this name is, or None for a role that some parameter has."""
    try:
        return table.entries(key, "A parameter in `priors`")
    except InvalidInputError as error:
        if not _is_role(table, key):
            if not isinstance(error, UnknownOptionError):  # two parts have a parameter of this name
                raise
            raise unknown_option("A key of `priors`", key, {*error.options, *NAMED_ROLES}) from None  # type: ignore[attr-defined]
        if not table.with_role(key).any():
            raise InvalidInputError(
                f"`priors` has {key!r}, but no parameter of this model has that role: it has {', '.join(table.names)}. "
                f"Leave {key!r} out."
            ) from None
        return None


def _is_role(table: ParameterTable, key: Any) -> bool:
    """Whether a key can only mean a role: no parameter that is called so, in a part of the model, has another one."""
    called = [p for name, p in zip(table.names, table.parameters, strict=True) if _short(name) == key]
    return key in NAMED_ROLES and all(p.role == key for p in called)


def _short(name: str) -> str:
    return name.rpartition("__")[2].partition("[")[0]


def _checked(prior: Any, key: str, table: ParameterTable, i: int) -> Prior:
    """The prior, about this parameter: with what depends on its kind."""
    if isinstance(prior, type) or not callable(getattr(prior, "log_density", None)):
        what = f"the class {prior.__name__}; give an object" if isinstance(prior, type) else repr(prior)
        raise InvalidInputError(
            f"`priors` has for {key!r} {what}. It must be a prior from `knotwise.priors`, such as "
            "LogNormal(median=1.0, spread=1.0), or an object with `log_density(theta)`."
        )
    if hasattr(prior, "about"):
        prior = prior.about(replace(table.parameters[i], name=table.names[i]))
    try:
        value, slope = prior.log_density(float(table.theta[i]))
        finite = bool(np.isfinite([float(value), float(slope)]).all())
    except (TypeError, ValueError):
        finite = False
    if not finite:
        raise InvalidInputError(
            f"The prior of {table.names[i]!r} in `priors`, {prior!r}, has no value at the start: `log_density(theta)` "
            "must return two finite numbers, the log density and its derivative."
        )
    return prior


def _in_engine_units(prior: Prior, parameter: Parameter, columns: Columns, y_scale: float) -> Prior:
    """The prior of a parameter in the engine's units, from that in the units of the data (H7)."""
    convert = getattr(prior, "in_units", None)
    if convert is None:
        return prior
    common = columns.common_scale(parameter.columns) if parameter.x_power else 1.0
    if common is None:
        raise InvalidInputError(
            f"`priors` has one for `{parameter.name}`, in the units of its column, but it is about "
            f"{len(parameter.columns)} columns of different scale. Use a `{parameter.name}` for each (`ard=True`), "
            "one scale for all columns (`standardize='common'`), or inputs as they are (`standardize=False`)."
        )
    return convert(1.0 / (y_scale**parameter.y_power * common**parameter.x_power))


def _weak(parameter: Parameter, latent_variance: float) -> Prior | None:
    """The weak prior of a parameter in the engine's units, or none (H8)."""
    unit = sqrt(latent_variance)
    if parameter.role == "amplitude" and not parameter.x_power:
        upper = WEAK_UPPER * (unit if parameter.y_power else 1.0)
        return PCSd(upper, WEAK_PROB).about(parameter)
    if parameter.role == "noise" and parameter.y_power:
        power = parameter.y_power / 2
        return LogNormal((WEAK_NOISE * latent_variance) ** power, WEAK_NOISE_SPREAD * power)
    return None


def describe_priors(table: ParameterTable) -> list[str]:
    """The priors of a table in the user's units, a line each in the units of the data."""
    width = max(map(len, table.names), default=0)
    lines = []
    for name, parameter in zip(table.names, table.parameters, strict=True):
        if parameter.prior is None:
            continue
        factors = table.columns.factors(parameter)
        prior = parameter.rescaled(factors[0][1]).prior if len(factors) == 1 else parameter.prior
        words = getattr(prior, "words", repr(prior))
        lines.append(f"{name:<{width}}  {words}{'' if len(factors) == 1 else ', for standardised columns'}")
    return lines
