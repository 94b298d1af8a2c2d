"""What a parameter is, and the table of all parameters of a model: names, values, bounds, and theta in this order.

Code asks for the role of a parameter and for its units, never for its name: a kernel of one's own calls its
amplitude or its length-scale what it likes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import log
from typing import Any, Protocol

import numpy as np

from knotwise.docstrings import documented
from knotwise.errors import InvalidInputError, unknown_option
from knotwise.numerics.estimates import Estimates, read_estimate
from knotwise.numerics.standard_errors import ErrorSource, ParameterErrors, natural_intervals, no_errors
from knotwise.numerics.tabular import html_table, make_frame

ROLES = ("amplitude", "lengthscale", "noise", "nugget", "shape", "mean", "other")
#: the powers of the units of the inputs and of the latent function
UNITS = {
    **{"none": (0, 0), "x": (1, 0), "1/x": (-1, 0), "1/x^2": (-2, 0)},
    **{"y": (0, 1), "y^2": (0, 2), "y^2/x": (-1, 2), "y^2/x^2": (-2, 2)},
}


#: what methods of a table of parameters say of their arguments
ARGUMENTS = {
    "theta": ("array [P]", "The values, with logarithms of positive parameters."),
    "standard_errors": (
        "bool, optional",
        "None computes standard errors unless that takes long, True in any case; False takes no time for them.",
    ),
}


class Prior(Protocol):
    """What is known of a parameter before the data."""

    def log_density(self, theta: float) -> tuple[float, float]:
        """Log density at an unconstrained value, up to a constant, and its derivative."""


@dataclass(frozen=True)
class Parameter:
    """What a part of a model says of one of its parameters.

    Parameters
    ----------
    name : str
        An argument of the part's constructor, and an attribute of it.
    transform : "log" or "identity", default "log"
        "log" for a positive parameter: optimisers see its logarithm.
    role : "amplitude", "lengthscale", "noise", "nugget", "shape", "mean" or "other", default "other"
        What it does. Without its amplitude a kernel is 0; a length-scale says how far the function keeps its values.
    units : "none", "x", "1/x", "1/x^2", "y", "y^2", "y^2/x" or "y^2/x^2", default "none"
        What it is measured in: x is a column of the inputs, y the latent function, whose units are those of the
        targets where the likelihood `scales_targets`. Users give and see every value in the units of their data.
    bounds : (float, float), optional
        Natural bounds; None where they come from the data.
    prior : Prior, optional
        What is known of it before the data; optimisers add its log density to the log evidence. One that a part
        declares is for the engine's columns and targets; the option `priors` of estimators speaks in the data's units.
    per_column : bool, default False
        Whether it may be a list with one entry per column.
    direction : 1 or -1, default 1
        For noise: -1 where more of it is less noise, as of a precision.
    range_factor : float, optional
        For a length-scale: how many of it are the range, at which hardly any correlation is left (H6).
    held_if_given : bool, default False
        Whether a value that a user gives is held, unless `bounds` or `priors` name the parameter; others are starts.
    columns : tuple of int, default ()
        The columns of the inputs that an entry of theta is about; filled in by `Part.flat_parameters`.
    column_scales : tuple of float, default ()
        What 1 is in each of these columns, for a value that counts in scales of its columns; () for one that is in the
        units of the column.

    Examples
    --------
    >>> from knotwise.numerics.parameters import Parameter
    >>> Parameter("sill", role="amplitude", units="y^2").positive
    True
    >>> Parameter("depth_scale", role="lengthscale", units="x").rescaled(1000.0).units
    'x'
    >>> Parameter("sill", role="amplitude", units="y^2").without_y().units
    'none'
    """

    name: str
    transform: str = "log"
    role: str = "other"
    units: str = "none"
    bounds: tuple[float, float] | None = None
    prior: Prior | None = None
    per_column: bool = False
    direction: int = 1
    range_factor: float | None = None
    held_if_given: bool = False
    columns: tuple[int, ...] = ()
    column_scales: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        for what, options in (("transform", ("log", "identity")), ("role", ROLES), ("units", UNITS)):
            if getattr(self, what) not in options:
                raise unknown_option(f"`{what}` of the parameter `{self.name}`", getattr(self, what), options)
        if self.direction not in (1, -1):
            raise InvalidInputError(f"`direction` of the parameter `{self.name}` is {self.direction!r}, not 1 or -1.")
        if self.bounds is not None:
            low, high = self.bounds
            if not low < high or (self.positive and low <= 0):
                raise InvalidInputError(
                    f"`bounds` of the parameter `{self.name}` are {self.bounds}; they must be a pair (low, high) of "
                    f"{'positive ' if self.positive else ''}numbers with low < high."
                )

    @property
    def positive(self) -> bool:
        """Whether it is positive, so that optimisers see its logarithm."""
        return self.transform == "log"

    @property
    def x_power(self) -> int:
        """Power of the units of the inputs in its units."""
        return UNITS[self.units][0]

    @property
    def y_power(self) -> int:
        """Power of the units of the latent function in its units."""
        return UNITS[self.units][1]

    def rescaled(self, factor: float) -> Parameter:
        """The same parameter in other units, in which values are times a factor; a prior without units stays.

        Parameters
        ----------
        factor : float
            What a value in these units is multiplied with.

        Returns
        -------
        Parameter
            One whose prior speaks in the other units.
        """
        convert = getattr(self.prior, "in_units", None)
        return self if convert is None else replace(self, prior=convert(factor))

    @property
    def reads_as(self) -> str:
        """The scale on which people read it: "sd" where it is a variance, "length-scale", or "value" as it is."""
        if self.role == "lengthscale":
            return "length-scale"
        is_variance = self.role in ("amplitude", "nugget") or self.y_power == 2
        return "sd" if self.positive and is_variance and self.x_power % 2 == 0 else "value"

    def without_y(self) -> Parameter:
        """The same parameter of a function without units.

        Returns
        -------
        Parameter
            One whose units have none of y.
        """
        return replace(self, units=next(name for name, powers in UNITS.items() if powers == (self.x_power, 0)))


@dataclass(frozen=True)
class Columns:
    """Names of the columns of the inputs, and what is 1 in the engine's column in the units of the user's.

    Columns without names are known by their numbers, and those without scales are as they are. Of encoded columns,
    `labels` say which of the user's columns each is. `own_units` say in what the length-scale of each is measured
    where the name of the column does not say it, as that of a warped column, or of a date. `target` is how what is
    modelled of y is written.
    """

    names: tuple[str, ...] = ()
    scales: tuple[float, ...] = ()
    labels: tuple[str, ...] = ()
    own_units: tuple[str, ...] = ()
    target: str = "y"

    def common_scale(self, columns: Sequence[int]) -> float | None:
        """The scale that all of these columns have, or None if they differ by more than rounding."""
        return same_scale([self.scales[column] for column in columns if self.scales])

    def called(self, columns: Sequence[int]) -> str:
        """These columns in words."""
        if self.labels and len({self.labels[column] for column in columns}) == 1:
            return self.labels[columns[0]]
        if len(columns) > 1 and len(columns) == len(self.scales):
            return "all"
        return ", ".join(self.names[column] if self.names else f"column {column}" for column in columns)

    def units(self, parameter: Parameter, columns: Sequence[int]) -> str:
        """The units of a parameter that is about these columns; the name of a column stands for its units."""
        units = "" if parameter.units == "none" else parameter.units.replace("y", self.target)
        if self.labels and len({self.labels[column] for column in columns}) == 1:
            return units.replace("x", self.own_units[columns[0]] or self.called(columns))
        if len(columns) == 1 and self.own_units and self.own_units[columns[0]]:
            return units.replace("x", self.own_units[columns[0]])
        return units.replace("x", self.called(columns)) if self.names and len(columns) == 1 else units

    def factors(self, parameter: Parameter) -> list[tuple[tuple[int, ...], float]]:
        """From the value that users give to that in the units of the data, for each group of columns of one scale.

        It is 1 unless the value counts in scales of its columns.
        """
        scales = dict(zip(parameter.columns, parameter.column_scales, strict=False))
        if not scales:
            return [(parameter.columns, 1.0)]
        if same_scale(list(scales.values())) is not None:
            groups = [parameter.columns]
        else:
            groups = self._by_label(parameter.columns) if self.labels else [(c,) for c in parameter.columns]
        return [(group, scales[group[0]] ** parameter.x_power) for group in groups]

    def _by_label(self, columns: Sequence[int]) -> list[tuple[int, ...]]:
        groups: dict[str, tuple[int, ...]] = {}
        for column in columns:
            groups[self.labels[column]] = (*groups.get(self.labels[column], ()), column)
        return list(groups.values())

    def label_entries(self, names: Sequence[str], parameters: Sequence[Parameter]) -> list[str]:
        """Names of parameters with the label of its columns instead of the number of an entry: lengthscale[city]."""

        def label(name: str, parameter: Parameter) -> str:
            base, bracket, _ = name.partition("[")
            numbered = bracket and parameter.per_column and parameter.columns and (self.labels or self.names)
            return f"{base}[{self.called(parameter.columns)}]" if numbered else name

        return [label(name, parameter) for name, parameter in zip(names, parameters, strict=True)]


def same_scale(scales: Sequence[float]) -> float | None:
    """The scale that all columns have, 1 without columns; None if they differ by more than rounding."""
    first = scales[0] if len(scales) else 1.0
    return first if np.allclose(scales, first, rtol=1e-9, atol=0.0) else None


@dataclass(frozen=True)
class DataValue:
    """The value of a parameter in the units of the data.

    Attributes
    ----------
    entry : int
        Which entry of the table it is, from 0.
    column : str
        The column that it is about, in words; empty for a parameter of all.
    value : float
        The value, in `units`.
    units : str
        The units in words, such as "y^2"; empty for a number without units.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise import GPRegressor
    >>> X = np.linspace(0, 50, 40)[:, None]
    >>> gp = GPRegressor(knots=6, random_state=0).fit(X, np.sin(X[:, 0] / 8))
    >>> lengthscale = next(v for v in gp.parameters_.data_values() if v.units == "x")
    >>> bool(5 < lengthscale.value < 30)
    True
    """

    entry: int
    column: str
    value: float
    units: str


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


@documented(ARGUMENTS)
@dataclass(frozen=True, repr=False)
class ParameterTable:
    """Names, natural values, bounds and holds of all parameters of a model, and theta in this order.

    It can be asked by name, `table["variance"]`; printed, it is a table.

    Attributes
    ----------
    names : tuple of str
        Names of the entries of theta; `kernel__variance` where two parts share a name.
    parameters : tuple of Parameter
        What each entry is: role, units, transform, columns and prior.
    values : array [P]
        Natural values.
    lower : array [P]
        Lower bounds.
    upper : array [P]
        Upper bounds.
    fixed : array [P] of bool
        Which entries are held.
    parts : tuple of str
        Whose each entry is: the kernel's, the likelihood's, the nugget's or the mean's.
    columns : Columns
        Names and scales of the columns of the inputs; those of a fitted model are known.
    given : array [P] or None
        Values that the user gave, where a fit started or which it held; NaN for those that were taken from the data.
    errors : object or None
        Where standard errors come from; a fitted model has them.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise import GPRegressor
    >>> X = np.linspace(0, 1, 24)[:, None]
    >>> y = np.sin(6 * X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=24)
    >>> table = GPRegressor(knots=5, random_state=0).fit(X, y).parameters_
    >>> table.names, bool(table["noise_variance"] < 0.05)
    (('variance', 'lengthscale', 'noise_variance'), True)
    >>> table.entries("lengthscale"), table.with_role("noise").tolist(), table.of_part("kernel").tolist()
    ([1], [False, False, True], [True, True, False])
    >>> table.at_bound(), list(table.as_dict()) == list(table.names), len(table.data_values())
    ([], True, 3)
    >>> bool(np.allclose(table.with_theta(table.theta).values, table.values)), table.log_prior(table.theta)[0]
    (True, 0.0)
    >>> bool((table.standard_errors().standard_error > 0).all()), table.estimates()[2].reads_as
    (True, 'sd')
    >>> table.to_frame()["parameter"].tolist()
    ['variance', 'lengthscale', 'noise_variance']
    >>> [line.quantity for line in table.variogram()]
    ['nugget', 'partial sill', 'sill', 'range']
    """

    names: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    values: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    fixed: np.ndarray
    parts: tuple[str, ...] = ()
    columns: Columns = Columns()
    given: np.ndarray | None = field(default=None, compare=False)
    errors: ErrorSource | None = field(default=None, compare=False)

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
        """Where one parameter is in theta.

        Parameters
        ----------
        name : str
            Its name, or `part__name`.
        what : str, default "A parameter"
            What is asked for, as the first words of an error.

        Returns
        -------
        list of int
            Several places for a parameter that is a list.
        """

        def called(names: Sequence[str]) -> list[int]:
            return [i for i, known in enumerate(names) if known == name or known.startswith(f"{name}[")]

        in_full = [f"{part}__{known}" for part, known in zip(self.parts, self.names, strict=False)]
        hits = called(self.names) or called(in_full) or called(self.columns.label_entries(self.names, self.parameters))
        if hits:
            return hits
        shared = [n for n, part in zip(self.names, self.parts, strict=False) if n.split("[")[0] == f"{part}__{name}"]
        if shared:
            both = " and ".join(dict.fromkeys(n.split("[")[0] for n in shared))
            raise InvalidInputError(f"{what} is {name!r}, which two parts of the model have: write {both}.")
        known = [*self.names, *in_full] if "__" in str(name) else self.names
        raise unknown_option(what, name, {n.split("[")[0] for n in known})

    def of_part(self, part: str) -> np.ndarray:
        """Which entries belong to a part.

        Parameters
        ----------
        part : str
            "kernel", "likelihood", "nugget" or "mean".

        Returns
        -------
        array [P] of bool
            True for those of the part.
        """
        return np.array([owner == part for owner in self.parts], bool)

    @property
    def priors(self) -> tuple[Prior | None, ...]:
        """The prior of each entry, in the units of the table."""
        return tuple(p.prior for p in self.parameters)

    def log_prior(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Log density of the parameters' priors, and its gradient; 0 for those without one.

        Returns
        -------
        value : float
            The sum of the log densities.
        gradient : array [P]
            Its derivatives in theta.
        """
        value, gradient = 0.0, np.zeros(len(theta))
        for i, parameter in enumerate(self.parameters):
            if parameter.prior is not None:
                density, gradient[i] = parameter.prior.log_density(float(theta[i]))
                value += density
        return value, gradient

    def with_role(self, role: str) -> np.ndarray:
        """Which entries have a role.

        Parameters
        ----------
        role : "amplitude", "lengthscale", "noise", "nugget", "shape", "mean" or "other"
            What a parameter does.

        Returns
        -------
        array [P] of bool
            True for those with the role.
        """
        if role not in ROLES:
            raise unknown_option("A role", role, ROLES)
        return np.array([p.role == role for p in self.parameters], bool)

    @property
    def transforms(self) -> tuple[str, ...]:
        """The scale of each entry: "log" (positive) or "identity"."""
        return tuple(p.transform for p in self.parameters)

    @property
    def theta(self) -> np.ndarray:
        """The unconstrained vector: logarithms where a parameter is positive."""
        return self._unconstrain(self.values)

    @property
    def theta_bounds(self) -> np.ndarray:
        """Lower and upper bounds of theta, [P, 2]."""
        return np.column_stack([self._unconstrain(self.lower), self._unconstrain(self.upper)])

    def with_theta(self, theta: np.ndarray) -> ParameterTable:
        """The same table at other values.

        Returns
        -------
        ParameterTable
            A new one, without standard errors.
        """
        log_scale = np.array([p.positive for p in self.parameters], bool)
        values = np.array(theta, float)
        values[log_scale] = np.exp(values[log_scale])
        return replace(self, values=values, errors=None)

    def at_bound(self) -> list[str]:
        """Names of free parameters that ended on a bound.

        Returns
        -------
        list of str
            Empty where all are inside.
        """
        theta, bounds = self.theta, self.theta_bounds
        near = (theta <= bounds[:, 0] + 1e-6) | (theta >= bounds[:, 1] - 1e-6)
        return [name for name, hit, held in zip(self.names, near, self.fixed, strict=True) if hit and not held]

    def _unconstrain(self, values: np.ndarray) -> np.ndarray:
        return np.array(
            [
                (log(v) if v > 0 else -np.inf) if p.positive else v
                for v, p in zip(values.tolist(), self.parameters, strict=True)
            ]
        )

    def as_dict(self) -> Mapping[str, float]:
        """Natural values by name.

        Returns
        -------
        dict
            From names to numbers; entries of a list are numbered, `lengthscale[0]`.
        """
        return dict(zip(self.names, self.values.tolist(), strict=True))

    def data_values(self) -> list[DataValue]:
        """Values in the units of the data.

        Returns
        -------
        list of DataValue
            One for each entry, or one per column where the scales of columns differ.
        """
        return [
            DataValue(i, self.columns.called(columns), float(self.values[i]) * factor, self.columns.units(p, columns))
            for i, p in enumerate(self.parameters)
            for columns, factor in self.columns.factors(p)
        ]

    def standard_errors(self, compute: bool | None = None) -> ParameterErrors:
        """How well the data determine each parameter of a fit: covariance and standard errors of theta.

        They come from the curvature of the objective (log evidence and log prior) with the knots that fitted the
        parameters, are computed when they are first asked for, and kept.

        Parameters
        ----------
        compute : bool, optional
            None computes them unless that takes long (two evaluations of the evidence for each parameter), True in any
            case; False takes what is known.

        Returns
        -------
        ParameterErrors
            `standard_error`, `covariance`, `correlation`, and in words why a parameter has none.
        """
        if self.errors is None:
            return no_errors(len(self), "Standard errors are those of a fitted model.")
        return self.errors.errors(compute)

    def estimates(self, standard_errors: bool | None = None) -> Estimates:
        """The parameters on the scale on which they are read, in the units of the data, with standard errors.

        Standard deviations stand for variances. `summary()` shows this table.

        Returns
        -------
        Estimates
            Printed, it is a table; `to_frame()` makes a data frame.
        """
        found = self.standard_errors(standard_errors)
        given = np.full(len(self), np.nan) if self.given is None else self.given
        # which no optimiser has moved; one that has an error was free, and ended where it started
        unmoved = np.isclose(self.values, given, rtol=1e-9, atol=0.0)
        held = self.fixed | (unmoved & np.isnan(np.diag(found.covariance)))
        lines = []
        for line, numbers in zip(self.data_values(), self._numbers(found)[1], strict=True):
            i = line.entry
            words = self.names[i], self.parameters[i].reads_as, line.column, line.units
            start = given[i] * line.value / self.values[i] if self.values[i] else given[i]
            lines.append(read_estimate(*words, numbers, found.notes[i], float(start), bool(held[i])))
        return Estimates(tuple(lines), found.remark)

    def variogram(self, standard_errors: bool | None = None) -> Any:
        """Nugget, sills and practical ranges of a fitted model, in the units of the data, with 95 % intervals.

        The words of geostatistics for noise, variances and length-scales; a line for each summand of the kernel, and
        one for each column along which its range differs.

        Returns
        -------
        Variogram
            A table when printed; `to_frame()` makes a data frame. See `knotwise.estimators.variogram.Variogram`.
        """
        if self.errors is None:
            raise InvalidInputError(
                "Range, sill and nugget are those of a fitted model: ask `gp.parameters_.variogram()` after `gp.fit`."
            )
        return self.errors.variogram(self, standard_errors)

    def to_frame(self, standard_errors: bool | None = None) -> Any:
        """The parameters as a pandas DataFrame.

        Returns
        -------
        DataFrame
            One row per parameter, or one per column of the inputs where a parameter is about columns of different
            scale: `parameter`, `role`, `value`, `lower`, `upper` and `fixed` are as in this table. `data_value` is the
            value in the units of the data: the value itself, but for one that counts in `column_scales` of its kernel.
            `data_units` are these units ("y^2", or the name of a column), and `column` the column that it is about.
            `standard_error`, `lower_95` and `upper_95` belong to `value`, the same with `data_` before them to
            `data_value`: NaN where there is none, for which `note` has the reason. Intervals of positive parameters are
            those of their logarithms. `estimates()` has standard deviations instead of variances.
        """
        rows = [
            {
                "parameter": self.names[line.entry],
                "role": self.parameters[line.entry].role,
                "value": self.values[line.entry],
                "lower": self.lower[line.entry],
                "upper": self.upper[line.entry],
                "fixed": self.fixed[line.entry],
                "column": line.column,
                "data_value": line.value,
                "data_units": line.units,
            }
            for line in self.data_values()
        ]
        frame = make_frame(rows)
        if standard_errors is False or not rows:
            return frame
        found = self.standard_errors(standard_errors)
        for prefix, numbers in zip(("", "data_"), self._numbers(found), strict=True):
            for i, name in enumerate(("standard_error", "lower_95", "upper_95")):
                frame[prefix + name] = numbers[:, i + 1]
        frame["note"] = [found.notes[line.entry] for line in self.data_values()]
        return frame

    def _numbers(self, found: ParameterErrors) -> tuple[np.ndarray, np.ndarray]:
        """Value, standard error and ends of the interval of each line of `data_values`, [lines, 4]: as in this table,
        and in the units of the data.
        """
        error, ends = natural_intervals(found, self.values, [p.positive for p in self.parameters])
        numbers = np.column_stack([self.values, error, ends])
        entries, factors = [], []
        for i, p in enumerate(self.parameters):
            for _, factor in self.columns.factors(p):
                entries.append(i)
                factors.append(factor)
        with np.errstate(over="ignore"):
            return numbers[entries], numbers[entries] * np.array(factors)[:, None]

    def __str__(self) -> str:
        width = max(map(len, self.names), default=4)
        rows = [f"{'name':<{width}}  {'value':>11}  {'lower':>11}  {'upper':>11}  "]
        for name, value, low, high, held in zip(
            self.names, self.values, self.lower, self.upper, self.fixed, strict=True
        ):
            rows.append(f"{name:<{width}}  {value:11.4g}  {low:11.4g}  {high:11.4g}  {'fixed' if held else ''}")
        return "\n".join(row.rstrip() for row in rows)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """The table of a notebook: what `__str__` shows, and the roles."""
        heads = ("name", "role", "value", "lower", "upper", "")
        roles = [p.role for p in self.parameters]
        held = ["fixed" if fixed else "" for fixed in self.fixed]
        numbers = (self.values.tolist(), self.lower.tolist(), self.upper.tolist())
        return html_table(heads, zip(self.names, roles, *numbers, held, strict=True))
