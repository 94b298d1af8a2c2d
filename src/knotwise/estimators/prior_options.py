"""The option `priors` of estimators: from names, roles and the units of the data to the priors of a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import log, sqrt
from typing import Any

import numpy as np

from knotwise.data.scaling import Scaling, what_to_write, without_common_scale
from knotwise.errors import InvalidInputError, UnknownOptionError, unknown_option
from knotwise.numerics.parameters import ROLES, Parameter, ParameterTable, Prior
from knotwise.priors import LogNormal, PCSd

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
            i: _with_value(_in_engine_units(_checked(prior, name, table, i), table, i, scaling), table, i)
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
    return prior


def _with_value(prior: Prior, table: ParameterTable, i: int) -> Prior:
    """The prior in the engine's units, which must have a value where the parameter starts."""
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


@dataclass(frozen=True, repr=False)
class OwnPrior:
    """A prior of one's own, of theta in the units of the data, as one of theta in the engine's."""

    prior: Prior
    factor: float
    offset: float
    positive: bool

    def log_density(self, theta: float) -> tuple[float, float]:
        if self.positive:
            return self.prior.log_density(theta + log(self.factor))
        value, slope = self.prior.log_density(self.factor * theta + self.offset)
        return value, slope * self.factor

    def in_units(self, factor: float) -> Prior:
        """The prior itself, in the units of the data: a table of the user's has no others."""
        return self.prior

    def __repr__(self) -> str:
        return repr(self.prior)


def _in_engine_units(prior: Prior, table: ParameterTable, i: int, scaling: Scaling) -> Prior:
    """The prior of a parameter in the engine's units, from that in the units of the data (H7)."""
    parameter, columns = table.parameters[i], table.columns
    if without_common_scale(parameter, columns):
        raise InvalidInputError(
            f"`priors` has one for `{parameter.name}`, in the units of its column, but it is one value for "
            f"{len(parameter.columns)} columns of different scale. {what_to_write(parameter.name)}"
        )
    units = scaling.parameter_units([parameter])
    factor, offset = float(units.factor[0]), float(units.offset[0])
    convert = getattr(prior, "in_units", None)
    return OwnPrior(prior, factor, offset, parameter.positive) if convert is None else convert(1.0 / factor)


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
        words = getattr(parameter.prior, "words", repr(parameter.prior))
        lines.append(f"{name:<{width}}  {words}{', in scales of the columns' if parameter.column_scales else ''}")
    return lines
