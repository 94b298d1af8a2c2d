"""Units: between the user's inputs and targets and the engine's, which are centred and scaled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from knotwise.errors import InvalidInputError, unknown_option
from knotwise.evidence import Model
from knotwise.kernels.base import Kernel
from knotwise.numerics.columns import InputColumns
from knotwise.numerics.parameters import Columns, Parameter, ParameterTable, same_scale
from knotwise.numerics.part import Part, short_repr
from knotwise.numerics.standard_errors import ParameterErrors
from knotwise.warps import Warp


@dataclass(frozen=True)
class Scaling:
    """x_engine = (w(x) - x_centre) / x_scale, y_engine = (y - y_centre) / y_scale.

    Scaling by powers of two is exact in floating point, so it changes no bit of a fit. Of encoded columns, `x_unit` [D]
    is what length-scales count in: 1, but the distance of two levels for the zeros and ones of a category; `x_origin`
    [D] is what is 0 in the column: of dates the first one of the fit, in days since 1970. None is 1, or 0, for all.
    `warps` [D] are monotone functions w of columns, None for the column itself; centre, scale, length-scales and trends
    of a warped column are on its warped axis.
    """

    x_centre: np.ndarray
    x_scale: np.ndarray
    y_centre: float
    y_scale: float
    x_unit: np.ndarray | None = None
    x_origin: np.ndarray | None = None
    warps: tuple[Warp | None, ...] | None = None

    @staticmethod
    def of(
        X: np.ndarray,
        y: np.ndarray,
        standardize: str | bool | Scaling,
        *,
        targets: bool = True,
        weights: np.ndarray | None = None,
        columns: InputColumns | None = None,
        noise: float | None = None,
        warps: Sequence[Warp | None] | None = None,
    ) -> Scaling:
        """Centre and scale from data: per column, one scale in common, or none; `targets` too, or not.

        A scaling that is given, that of another fit, stays as it is. `columns` say what encoded columns are: levels
        keep their distances, and places on a sphere one scale. Equal targets tell no scale: that of the known `noise`
        variance serves, or their own size, so that intervals go with the units of y. `warps` [D] come before all that.
        """
        if isinstance(standardize, Scaling):
            return standardize
        if warps is not None and any(warps):
            known: dict[str, Any] = {"targets": targets, "weights": weights, "columns": columns, "noise": noise}
            made = Scaling.of(warped(X, warps), y, standardize, **known)
            return replace(made, warps=tuple(warps))
        D = X.shape[1]
        if standardize is False:
            centre, spread = np.zeros(D), np.ones(D)
            spread = _encoded(X, centre, spread, columns, weights, scale_places=False)
            return Scaling(centre, spread, 0.0, 1.0).of_columns(columns)
        if standardize not in ("columns", "common"):
            raise unknown_option("`standardize`, where it is not False,", standardize, ["columns", "common"])
        centre = np.average(X, axis=0, weights=weights)
        spread = _spread(X - centre, weights)
        if standardize == "common":
            own = spread if columns is None else spread[[column.kind == "number" for column in columns.columns]]
            positive = own[own > 0]
            spread = np.full(D, np.sqrt((positive**2).mean()) if len(positive) else 1.0)
        # a constant column, up to the rounding of its mean, stays constant
        spread = np.where(spread > 1e-12 * np.abs(centre), spread, 1.0)
        spread = _encoded(X, centre, spread, columns, weights, scale_places=True)
        if not targets:
            return Scaling(centre, spread, 0.0, 1.0).of_columns(columns)
        if y.min() == y.max():
            scale = _scale_of_equal(float(y[0]), noise)
            return Scaling(centre, spread, float(y[0]), scale).of_columns(columns)
        y_centre = float(np.average(y, weights=weights))
        y_scale = float(_spread((y - y_centre)[:, None], weights)[0])
        if not 1e-150 < y_scale < 1e150:
            raise InvalidInputError(
                f"The standard deviation of y is {y_scale:.1e}, so that its square is no number. Use other units."
            )
        constant = y_scale <= 1e-12 * abs(y_centre)  # up to the rounding of its mean
        y_scale = _scale_of_equal(y_centre, noise) if constant else y_scale
        return Scaling(centre, spread, y_centre, y_scale).of_columns(columns)

    def of_columns(self, columns: InputColumns | None) -> Scaling:
        """The same scaling, with what is known of encoded columns."""
        if columns is None:
            return self
        # a length-scale of levels is in distances of two levels, whatever 0 and 1 are divided by
        unit = np.array([(c.scale or 1.0) if c.kind == "level" else 1.0 for c in columns.columns])
        return replace(self, x_unit=unit, x_origin=np.array([column.origin for column in columns.columns]))

    def inputs(self, X: np.ndarray) -> np.ndarray:
        """The user's inputs in the engine's units."""
        return (self.warped(X) - self.x_centre) / self.x_scale

    def inputs_back(self, Z: np.ndarray) -> np.ndarray:
        """Knots in the user's units."""
        X = Z * self.x_scale + self.x_centre
        for i, warp in enumerate(self.warps or ()):
            if warp is not None:
                X[..., i] = warp.inverse(X[..., i])
        return X

    def warped(self, X: np.ndarray) -> np.ndarray:
        """The user's inputs [n, D] on the axes of which centre, scale and length-scales are: X itself without warps."""
        return X if self.warps is None else warped(X, self.warps)

    def warped_name(self, name: str, column: int | None) -> str:
        """The name of one of the engine's columns, of a warped one that of what it became."""
        warp = None if self.warps is None or column is None else self.warps[column]
        return name if warp is None else warp.in_words(name)

    def stretch(self, X: np.ndarray) -> np.ndarray:
        """How fast the engine's inputs grow with the user's, at rows X [n, D] of the user's."""
        stretch = np.broadcast_to(1.0 / self.x_scale, np.shape(X)).copy()
        for i, warp in enumerate(self.warps or ()):
            if warp is not None:
                stretch[..., i] *= warp.derivative(X[..., i])
        return stretch

    def targets(self, y: np.ndarray) -> np.ndarray:
        """The user's targets in the engine's units."""
        return (y - self.y_centre) / self.y_scale

    @property
    def scales(self) -> np.ndarray:
        """What is 1 in each of the engine's columns, in the units of length-scales, [D]."""
        return self.x_scale if self.x_unit is None else self.x_scale / self.x_unit

    @property
    def centres(self) -> np.ndarray:
        """What is 0 in each of the engine's columns, which is the same in fits to other rows, [D]."""
        return self.x_centre if self.x_origin is None else self.x_centre + self.x_origin

    def columns(self, names: Sequence[str] = ()) -> Columns:
        """The columns of the inputs, by name if they have names."""
        scales = tuple(self.scales.tolist())
        units = self._warped_units(names)
        if not isinstance(names, InputColumns):
            return Columns(tuple(map(str, names)), scales, own_units=units)
        own = tuple(column.units for column in names.columns)
        units = tuple(warp or column for warp, column in zip(units, own, strict=True)) if units else own
        return Columns(tuple(names), scales, names.labels, units)

    def _warped_units(self, names: Sequence[str]) -> tuple[str, ...]:
        """The units of length-scales of warped columns, "" for others; () without warps."""
        if self.warps is None:
            return ()
        called = list(map(str, names)) if len(names) else [f"column {i}" for i in range(len(self.warps))]
        return tuple("" if warp is None else self.warped_name(called[i], i) for i, warp in enumerate(self.warps))

    def to_engine(self, model: Model) -> Model:
        """The model in the engine's units, from the model in the user's; what is open stays open."""
        model = replace(model, kernel=kernel_to_engine(model.kernel, self))
        units = self.parameter_units(model.flat_parameters(len(self.x_scale)))
        engine = _with_given(model, units.to_engine(_given(model)))
        back = -self.y_centre / self.y_scale, 1 / self.y_scale, -self.x_centre / self.x_scale, 1 / self.x_scale
        likelihood = engine.likelihood.in_units(*back[2:])
        return replace(engine, likelihood=likelihood, mean=engine.mean.in_units(*back))

    def to_user(self, model: Model) -> Model:
        """The model in the user's units, from the model in the engine's."""
        units = self.parameter_units(model.flat_parameters(len(self.x_scale)))
        user = _with_given(model, units.to_user(_given(model)))
        mean = user.mean.in_units(self.y_centre, self.y_scale, self.x_centre, self.x_scale)
        likelihood = user.likelihood.in_units(self.x_centre, self.x_scale)
        return replace(user, kernel=kernel_to_user(user.kernel, self), likelihood=likelihood, mean=mean)

    def parameter_units(self, parameters: Sequence[Parameter]) -> ParameterUnits:
        """How values of parameters in the engine's units become those that users give and see.

        One that counts in scales of its columns, or for which these have no scale in common, is the same in both.
        """
        columns = self.columns()
        factor = np.array([self.y_scale**p.y_power for p in parameters])
        for i, p in enumerate(parameters):
            if p.x_power and not p.column_scales:
                factor[i] *= (columns.common_scale(p.columns) or 1.0) ** p.x_power
        return ParameterUnits(factor, np.array([self.y_centre if p.role == "mean" else 0.0 for p in parameters]))

    def table_to_user(self, table: ParameterTable, names: Sequence[str] = ()) -> ParameterTable:
        """A table of the engine's parameters in the user's units, for columns with these names."""
        units, columns = self.parameter_units(table.parameters), self.columns(names)
        parameters = [p.rescaled(f) for p, f in zip(table.parameters, units.factor.tolist(), strict=True)]
        return replace(
            table,
            names=tuple(columns.label_entries(table.names, table.parameters)) if columns.labels else table.names,
            parameters=tuple(replace(p, column_scales=self._column_scales(p, columns)) for p in parameters),
            values=units.to_user(table.values),
            lower=units.to_user(table.lower),
            upper=units.to_user(table.upper),
            given=None if table.given is None else units.to_user(table.given),
            columns=columns,
        )

    def _column_scales(self, parameter: Parameter, columns: Columns) -> tuple[float, ...]:
        """What the user's value of the engine's parameter counts in along its columns; () for their units."""
        if not parameter.x_power or (not parameter.column_scales and columns.common_scale(parameter.columns)):
            return ()
        inner = parameter.column_scales or (1.0,) * len(parameter.columns)
        return tuple(scale * columns.scales[c] for scale, c in zip(inner, parameter.columns, strict=True))

    def theta_to_engine(self, table: ParameterTable, theta: np.ndarray) -> np.ndarray:
        """A vector theta of the user's in the engine's units."""
        user = table.with_theta(theta).values
        return replace(table, values=self.parameter_units(table.parameters).to_engine(user)).theta

    def theta_to_user(self, table: ParameterTable, theta: np.ndarray) -> np.ndarray:
        """A vector theta of the engine's in the user's units."""
        engine = table.with_theta(theta).values
        return replace(table, values=self.parameter_units(table.parameters).to_user(engine)).theta

    def gradient_to_user(self, table: ParameterTable, gradient: np.ndarray) -> np.ndarray:
        """A gradient in the engine's theta as one in the user's: logarithms differ by constants only."""
        positive = np.array([p.positive for p in table.parameters], bool)
        return gradient / np.where(positive, 1.0, self.parameter_units(table.parameters).factor)

    def errors_to_user(self, table: ParameterTable, errors: ParameterErrors) -> ParameterErrors:
        """Standard errors in the engine's theta as those in the user's."""
        positive = np.array([p.positive for p in table.parameters], bool)
        factor = np.where(positive, 1.0, self.parameter_units(table.parameters).factor)
        return replace(errors, covariance=errors.covariance * np.outer(factor, factor))


def warped(X: np.ndarray, warps: Sequence[Warp | None]) -> np.ndarray:
    """Rows [n, D] with warps of some columns."""
    X = np.array(X, float)
    for i, warp in enumerate(warps):
        if warp is not None:
            X[..., i] = warp(X[..., i])
    return X


@dataclass(frozen=True)
class ParameterUnits:
    """Natural values in the user's units are those in the engine's times a factor plus an offset, [P] each."""

    factor: np.ndarray
    offset: np.ndarray

    def to_user(self, values: np.ndarray) -> np.ndarray:
        return values * self.factor + self.offset

    def to_engine(self, values: np.ndarray | float) -> np.ndarray:
        return (values - self.offset) / self.factor


def _given(model: Model) -> np.ndarray:
    return np.concatenate([part.given for part in model.parts])


def _with_given(model: Model, values: np.ndarray) -> Model:
    kernel, likelihood, nugget, mean = np.split(values, np.cumsum(model.sizes[:-1]))
    return replace(
        model,
        kernel=model.kernel.with_given(kernel),
        likelihood=model.likelihood.with_given(likelihood),
        nugget=model.nugget.with_given(nugget),
        mean=model.mean.with_given(mean),
    )


def _encoded(
    X: np.ndarray,
    centre: np.ndarray,
    spread: np.ndarray,
    columns: InputColumns | None,
    weights: np.ndarray | None,
    *,
    scale_places: bool,
) -> np.ndarray:
    """The scales of columns, with those that an encoding decides; sets the centre of these to 0.

    On a sphere a cloud of places varies in about two of the three directions.
    """
    if columns is None:
        return spread
    for i, column in enumerate(columns.columns):
        if column.scale is not None:
            centre[i], spread[i] = 0.0, column.scale
    for places in columns.members("sphere"):
        if columns.columns[places[0]].scale is None:
            own = X[:, places] - np.average(X[:, places], axis=0, weights=weights)
            common = np.sqrt((_spread(own, weights) ** 2).sum() / 2)
            centre[places], spread[places] = 0.0, common if scale_places and common > 0 else 1.0
    return spread


def _scale_of_equal(y: float, noise: float | None) -> float:
    """The scale of targets that are all y; 1 where y is 0, or its square no number."""
    scale = abs(y) if not noise else float(np.sqrt(noise))
    return scale if 1e-150 < scale < 1e150 else 1.0


def _spread(centred: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Root mean square of each column, without over- or underflow."""
    largest = np.abs(centred).max(0)
    unit = np.exp2(np.ceil(np.log2(np.where(largest > 0, largest, 1.0))))
    return unit * np.sqrt(np.average((centred / unit) ** 2, axis=0, weights=weights))


def kernel_to_engine(kernel: Kernel, units: Scaling) -> Kernel:
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
        if leaf.takes_centre and leaf.centre is not None:
            new["centre"] = (np.asarray(leaf.centre, float) - units.centres[first]) / units.x_scale[first]
        return leaf.with_values(**new) if new else leaf

    return kernel.map_leaves(change, range(len(units.x_scale)))


def kernel_to_user(kernel: Kernel, units: Scaling) -> Kernel:
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
        if leaf.takes_centre:
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
