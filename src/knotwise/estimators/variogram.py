"""Range, sill and nugget: a fitted covariance in the words of geostatistics, with intervals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from knotwise.evidence import Model
from knotwise.kernels.ranges import HARDLY_CORRELATED, columns_seen, name_of, reach_along, summands
from knotwise.numerics.parameters import ParameterTable
from knotwise.numerics.standard_errors import REACH_95, ParameterErrors
from knotwise.numerics.tabular import html_table, make_frame

HEADS = ("estimate", "std. error", "lower 95 %", "upper 95 %")


@dataclass(frozen=True)
class VariogramLine:
    """One quantity of a semivariogram, in the units of the data.

    `quantity` is "nugget", "partial sill", "sill" or "range"; `part` names the summand of the kernel that it is about,
    and `column` the columns of the inputs. `note` says in words why there is no number, or no standard error.
    """

    quantity: str
    part: str
    column: str
    units: str
    estimate: float
    standard_error: float
    lower_95: float
    upper_95: float
    note: str = ""


@dataclass(frozen=True, repr=False)
class Variogram(Sequence[VariogramLine]):
    """Nugget, sills and ranges of a fitted model with 95 % intervals; printed, it is a table.

    `parameters_.variogram()` makes it, and `summary(variogram=True)` shows it. The *nugget* is the variance of the
    noise (of Gaussian data, else the latent nugget), a *partial sill* the variance of a summand of the kernel, the
    *sill* all of them together: the level at which the semivariogram ends. The *range* is the practical one: the
    distance along a column, in its units, at which the correlation of the summand has fallen to 0.05. Columns along
    which it is the same share a line. Standard errors follow from those of the parameters by the delta method, and
    intervals are those of the logarithm.

    Parameters
    ----------
    lines : tuple of VariogramLine
        One for each line of the table.
    remark : str, default ""
        What is to be said of all of them, or "".

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise import GPRegressor
    >>> from knotwise.kernels import Matern12
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 100, size=(120, 2))
    >>> y = np.sin(X[:, 0] / 10) + np.cos(X[:, 1] / 10) + 0.2 * rng.normal(size=120)
    >>> gp = GPRegressor(Matern12(), standardize="common", approximation="full").fit(X, y)
    >>> found = gp.parameters_.variogram()
    >>> [line.quantity for line in found]
    ['nugget', 'partial sill', 'sill', 'range']
    >>> lengthscale = gp.parameters_.to_frame()["data_value"][1]
    >>> bool(abs(found[3].estimate / lengthscale + np.log(0.05)) < 1e-9)  # e^-r is 0.05 at r = 2.996
    True
    """

    lines: tuple[VariogramLine, ...]
    remark: str = ""

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, number: Any) -> Any:
        return self.lines[number]

    def to_frame(self) -> Any:
        """The table as a pandas DataFrame.

        Returns
        -------
        DataFrame
            One row per line: `quantity`, `part`, `column`, `units`, `estimate`, `standard_error`, `lower_95`,
            `upper_95` and `note`.
        """
        return make_frame([asdict(line) for line in self.lines], columns=list(VariogramLine.__dataclass_fields__))

    def _repr_html_(self) -> str:
        """The table of a notebook, with the remark below it."""
        heads = ("quantity", "of", "along", "units", *HEADS, "")
        return html_table(heads, (tuple(asdict(line).values()) for line in self.lines), remark=self.remark)

    def __repr__(self) -> str:
        """A table, and below it the remark."""
        words = [(line.quantity, line.part, line.column) for line in self.lines]
        shown = [i for i in range(3) if any(w[i] for w in words)]
        heads = ("quantity", "of", "along")
        widths = [max(len(heads[i]), *(len(w[i]) for w in words)) for i in shown]
        with_errors = any(np.isfinite(line.standard_error) for line in self.lines)
        names = "  ".join(f"{heads[i]:<{width}}" for i, width in zip(shown, widths, strict=True))
        rows = [names + "".join(f"  {head:>10}" for head in (HEADS if with_errors else HEADS[:1]))]
        for line, word in zip(self.lines, words, strict=True):
            text = "  ".join(f"{word[i]:<{width}}" for i, width in zip(shown, widths, strict=True))
            numbers = (line.estimate, line.standard_error, line.lower_95, line.upper_95)
            text += "".join(f"  {value:10.4g}" for value in numbers if np.isfinite(value))
            rows.append(f"{text}  {line.note}".rstrip())
        return "\n".join([*rows, *([self.remark] if self.remark else [])])


def variogram_of(model: Model, table: ParameterTable, errors: ParameterErrors) -> Variogram:
    """The table of a model in the user's units  (O4, O5)."""
    n_columns, n_kernel = len(table.columns.scales), model.kernel.size
    y_units = f"{table.columns.target}^2" if model.likelihood.scales_targets else ""
    by_delta = _Delta(table, errors)
    origin, one = np.zeros((1, n_columns)), np.ones(1)
    nugget, nugget_bar = _nugget(model, table)
    sills, total, total_bar, ranges = [], nugget, nugget * nugget_bar, []
    start, grows = 0, False
    parts = summands(model.kernel)
    for part in parts:
        place = np.zeros(len(table))
        own = slice(start, start + part.size)
        start += part.size
        name = name_of(part) if len(parts) > 1 else ""
        if not part.stationary:
            grows = True
            sills.append(_without_number("partial sill", name_of(part), "not stationary: its variance has no limit"))
            continue
        if not columns_seen(part, n_columns):
            sills.append(_without_number("partial sill", name, "none: a level is no part of differences"))
            continue
        sill = float(part.diag(origin)[0])
        place[own] = part.diag_pullback(origin, one)
        total, total_bar = total + sill, total_bar + place
        sills.append(by_delta.line("partial sill", name, "", y_units, sill, place / sill))
        ranges += list(_ranges(part, name, own, by_delta))
    lines = [by_delta.line("nugget", "", "", y_units, nugget, nugget_bar)] if nugget else []
    lines += sills
    if grows:
        lines.append(_without_number("sill", "", "none: the variance of a part has no limit"))
    else:
        lines.append(by_delta.line("sill", "", "", y_units, total, total_bar / total))
    assert start == n_kernel
    remark = f"Ranges are distances at which the correlation has fallen to {HARDLY_CORRELATED}."
    return Variogram((*lines, *ranges), "\n".join(filter(None, [remark, errors.remark])))


def _nugget(model: Model, table: ParameterTable) -> tuple[float, np.ndarray]:
    """The variance that is there at distance 0, and the gradient of its logarithm in theta, [P]."""
    bar = np.zeros(len(table))
    if model.likelihood.conjugate:
        bar[table.of_part("likelihood")] = 1.0
        return float(model.likelihood.value("noise_variance")), bar
    bar[table.of_part("nugget")] = 1.0
    return model.nugget.variance, bar


def _ranges(part: Any, name: str, own: slice, by_delta: _Delta) -> Iterator[VariogramLine]:
    """A line for each group of columns along which the range is the same in the units of the data."""
    columns = by_delta.table.columns
    n_columns = len(columns.scales)
    groups: list[tuple[list[int], float, np.ndarray, str]] = []
    for column in columns_seen(part, n_columns):
        reach = reach_along(part, column, n_columns, unit=columns.scales[column])
        distance, bar = reach.distance, np.zeros(len(by_delta.table))
        bar[own] = reach.log_bar
        for group in groups:
            alike = np.isclose(group[1], distance, rtol=1e-9) or group[3] == reach.why_none != ""
            if alike and np.allclose(group[2], bar, atol=1e-9):
                group[0].append(column)
                break
        else:
            groups.append(([column], distance, bar, reach.why_none))
    for members, distance, bar, why_none in groups:
        called = columns.called(members)
        if why_none:
            yield _without_number("range", name, why_none, called)
        else:
            units = called if columns.names and len(members) == 1 else "x"
            yield by_delta.line("range", name, called, units, distance, bar)


@dataclass(frozen=True)
class _Delta:
    """Standard errors of functions of theta, by the delta method on the logarithmic scale  (O5)."""

    table: ParameterTable
    errors: ParameterErrors

    def line(self, quantity: str, part: str, column: str, units: str, value: float, bar: np.ndarray) -> VariogramLine:
        """A positive quantity, whose logarithm has the gradient `bar` in theta, [P]."""
        moved = np.flatnonzero(bar)
        free = [i for i in moved if not self.table.fixed[i]]  # what is held is known
        notes = [f"{self.table.names[i]} {self.errors.notes[i]}" for i in free if self.errors.notes[i]]
        note = "; ".join(notes) if free else "fixed"
        variance = float(bar[free] @ self.errors.covariance[np.ix_(free, free)] @ bar[free]) if free else np.nan
        se = np.sqrt(variance) if variance >= 0 else np.nan
        factor = np.exp(REACH_95 * se)
        return VariogramLine(quantity, part, column, units, value, value * se, value / factor, value * factor, note)


def _without_number(quantity: str, part: str, why: str, column: str = "") -> VariogramLine:
    return VariogramLine(quantity, part, column, "", np.nan, np.nan, np.nan, np.nan, why)
