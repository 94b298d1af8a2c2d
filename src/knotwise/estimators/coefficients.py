"""The coefficients of a fitted mean, with their uncertainty, in the user's units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from knotwise.data.cells import label_of
from knotwise.data.scaling import Scaling
from knotwise.data.validation import check_level
from knotwise.errors import InvalidInputError, unknown_option
from knotwise.means import Term
from knotwise.numerics.columns import InputColumns
from knotwise.numerics.parameters import Columns
from knotwise.numerics.tabular import html_lines, html_table, make_frame
from knotwise.posterior.base import Posterior


@dataclass(frozen=True)
class Contrast:
    """The difference of the effects of two levels of a category, with its uncertainty: what `contrast` returns.

    Parameters
    ----------
    name : str
        The column and the levels, such as "city: Rome - Oslo".
    estimate : float
        Posterior mean of the difference, on the scale of f.
    standard_error : float
        Posterior standard deviation.

    Examples
    --------
    >>> from knotwise.estimators.coefficients import Contrast
    >>> Contrast("city: Rome - Oslo", 2.0, 0.5).interval(0.95).round(2).tolist()
    [1.02, 2.98]
    """

    name: str
    estimate: float
    standard_error: float

    def interval(self, level: float = 0.95) -> np.ndarray:
        """Central interval of the difference.

        Parameters
        ----------
        level : float, default 0.95
            Posterior probability of the interval, between 0 and 1.

        Returns
        -------
        array [2]
            Lower and upper end.
        """
        return _intervals(np.array([self.estimate]), np.array([self.standard_error]), level)[0]

    def __str__(self) -> str:
        low, high = self.interval()
        return f"{self.name}: {self.estimate:.4g}, std. error {self.standard_error:.4g}, 95 % [{low:.4g}, {high:.4g}]"


@dataclass(frozen=True, repr=False)
class Coefficients:
    """The mean of a fitted model in numbers: the intercept, and the slopes of a trend.

    Estimates are on the scale of f: in the units of y for Gaussian data, on the link's scale (a log rate, log odds)
    for others. The intercept is the trend's height where all inputs are 0, and a slope is for one unit of its column.
    Of a category, each level but the first in alphabetical order has a row, the difference from that first one, which
    is the reference; the intercept is the height at the reference levels. The function itself, which varies about the
    mean, is no part of either. A mean that is held, or learned as a point estimate, has one row without a standard
    error (NaN).

    Parameters
    ----------
    names : tuple of str
        "intercept" and the columns of the trend, with "city: Rome - Oslo" for levels of a category.
    estimate : ndarray [q]
        Posterior means.
    covariance : ndarray [q, q]
        Posterior covariance, given the parameters of kernel and likelihood.
    categories : dict of tuple of str, optional
        The levels of each category of the trend, with the reference first; None where the trend has none.
    meaning : str, default ""
        What they are coefficients of, where a transform of y is modelled: of its logarithm a slope b is a factor e^b of
        y for one unit of the column.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise import GPRegressor
    >>> x = np.linspace(10, 20, 40)
    >>> noise = np.random.default_rng(0).normal(size=40)
    >>> gp = GPRegressor(mean="linear", random_state=0).fit(x[:, None], 3 + 0.5 * x + noise)
    >>> gp.coefficients_.names
    ('intercept', 'column 0')
    >>> low, high = gp.coefficients_.interval(0.95)[1]
    >>> bool(low < 0.5 < high)
    True
    """

    names: tuple[str, ...]
    estimate: np.ndarray
    covariance: np.ndarray
    categories: Mapping[str, tuple[str, ...]] | None = None
    meaning: str = ""

    @property
    def standard_error(self) -> np.ndarray:
        """Posterior standard deviations, [q]."""
        return np.sqrt(np.maximum(np.diagonal(self.covariance), 0.0))  # rounding could leave less than nothing

    def interval(self, level: float = 0.95) -> np.ndarray:
        """Central intervals of the coefficients.

        Parameters
        ----------
        level : float, default 0.95
            Posterior probability of each interval, between 0 and 1.

        Returns
        -------
        array [q, 2]
            Lower and upper ends; NaN where there is no standard error.
        """
        return _intervals(self.estimate, self.standard_error, level)

    def contrast(self, first: Any, second: Any, column: str | None = None) -> Contrast:
        """The difference of the effects of two levels of a category, the first minus the second.

        Parameters
        ----------
        first : str
            A level.
        second : str
            Another level of the same category.
        column : str, optional
            The category; only needed where several categories of the trend have these levels.

        Returns
        -------
        Contrast
            `estimate`, `standard_error` and `interval(level)`.

        Examples
        --------
        >>> import numpy as np
        >>> import pandas as pd
        >>> from knotwise import GPRegressor
        >>> from knotwise.means import Linear
        >>> rng = np.random.default_rng(0)
        >>> table = pd.DataFrame({"depth": rng.uniform(size=60), "city": rng.choice(["Bonn", "Oslo", "Rome"], 60)})
        >>> y = table["city"].map({"Bonn": 1.0, "Oslo": 2.0, "Rome": 4.0}) + 0.1 * rng.normal(size=60)
        >>> gp = GPRegressor(mean=Linear(columns=["depth", "city"]), random_state=0).fit(table, y)
        >>> gp.coefficients_.names
        ('intercept', 'depth', 'city: Oslo - Bonn', 'city: Rome - Bonn')
        >>> difference = gp.coefficients_.contrast("Rome", "Oslo")
        >>> round(difference.estimate, 1), bool(difference.standard_error < 0.1)
        (2.0, True)
        """
        if not self.categories:
            raise InvalidInputError(
                "The mean has no effects of levels. Name the category in it, mean=knotwise.means.Linear(columns=[...]),"
                " and fit again."
            )
        levels = label_of(first), label_of(second)
        column = _category_of(levels, column, self.categories)
        reference = self.categories[column][0]
        plus, minus = (
            np.array([name == _contrast_name(column, level, reference) for name in self.names], float)
            for level in levels
        )  # no row is that of the reference
        weights = plus - minus
        variance = float(weights @ self.covariance @ weights)
        name = _contrast_name(column, *levels)
        return Contrast(name, float(weights @ self.estimate), float(np.sqrt(max(variance, 0.0))))

    def to_frame(self, level: float = 0.95) -> Any:
        """The coefficients as a pandas DataFrame.

        Parameters
        ----------
        level : float, default 0.95
            Posterior probability of the intervals.

        Returns
        -------
        DataFrame
            One row per coefficient: `coefficient`, `estimate`, `standard_error`, `lower` and `upper`.

        Examples
        --------
        >>> import numpy as np
        >>> from knotwise import GPRegressor
        >>> x = np.linspace(10, 20, 24)
        >>> gp = GPRegressor(mean="linear", knots=4, random_state=0).fit(x[:, None], 3 + 0.5 * x + 0.1 * np.cos(9 * x))
        >>> gp.coefficients_.to_frame()["coefficient"].tolist()
        ['intercept', 'column 0']
        """
        low, high = self.interval(level).T
        columns = {"estimate": self.estimate, "standard_error": self.standard_error, "lower": low, "upper": high}
        return make_frame({"coefficient": list(self.names), **columns})

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        """A table with intervals of 95 %."""
        width = max(len(name) for name in (*self.names, "coefficient"))
        lines = [
            f"{'coefficient':<{width}}  {'estimate':>11}  {'std. error':>11}  {'lower 95 %':>11}  {'upper 95 %':>11}"
        ]
        for name, mean, sd, (low, high) in zip(
            self.names, self.estimate, self.standard_error, self.interval(), strict=True
        ):
            numbers = "".join(f"  {value:11.4g}" if np.isfinite(value) else f"  {'':11}" for value in (sd, low, high))
            lines.append(f"{name:<{width}}  {mean:11.4g}{numbers}".rstrip())
        return "\n".join([*lines, *([self.meaning] if self.meaning else [])])

    def _repr_html_(self) -> str:
        """The table of a notebook, with intervals of 95 %."""
        heads = ("coefficient", "estimate", "std. error", "lower 95 %", "upper 95 %")
        numbers = np.column_stack([self.estimate, self.standard_error, self.interval()]).tolist()
        table = html_table(heads, ((name, *row) for name, row in zip(self.names, numbers, strict=True)))
        return table + (html_lines(self.meaning) if self.meaning else "")


def coefficients_of(posterior: Posterior, scaling: Scaling, columns: Sequence[str] = ()) -> Coefficients:
    """The coefficients of a posterior's mean in the user's units, for columns with these names  (S16).

    A height is y_centre + y_scale (m + phi(0)' eta), a slope y_scale / x_scale times its eta, for the engine's
    coefficients eta; of levels, differences from the reference: one linear map A, so that the covariance is
    A Cov(eta) A'.
    """
    mean, levels = posterior.state.model.mean, _levels_of(columns)
    origin = np.zeros(len(scaling.x_scale))
    origin[[own[0] for own in levels.values()]] = 1.0  # the reference of each category
    with np.errstate(all="ignore"):  # a file may have any numbers
        terms = mean.terms((origin - scaling.x_centre) / scaling.x_scale)  # of a warped column, on its warped axis
    height = scaling.y_centre + scaling.y_scale * mean.offset
    rows = _rows_shown(terms, scaling.columns(columns), columns, levels)
    names = tuple(scaling.warped_name(name, terms[i].column) for name, i, _ in rows)
    offset = np.array([height if terms[i].column is None else 0.0 for _, i, _ in rows])
    meaning = "" if scaling.transform is None else scaling.transform.meaning_of_slopes
    units = [1.0 if term.column is None else scaling.x_scale[term.column] for term in terms]
    with np.errstate(all="ignore"):  # a file may have any numbers
        weights = [term.weights / unit for term, unit in zip(terms, units, strict=True)]
        A = scaling.y_scale * np.array([weights[i] - (0.0 if j is None else weights[j]) for _, i, j in rows])  # [q, p]
        if not A.size:
            return Coefficients(names, offset, np.full((len(rows), len(rows)), np.nan), meaning=meaning)
        eta, covariance = posterior.coefficients()
        in_trend = {term.column for term in terms}
        categories = {
            label: tuple(str(columns.columns[i].level) for i in own)  # type: ignore[attr-defined]
            for label, own in levels.items()
            if own[0] in in_trend
        }
        return Coefficients(names, offset + A @ eta, A @ covariance @ A.T, categories or None, meaning)


def _levels_of(columns: Sequence[str]) -> dict[str, list[int]]:
    """The engine's columns of the levels of each category, without the last, that of levels that are new."""
    if not isinstance(columns, InputColumns):
        return {}
    of_levels = [group for group in columns.members("level") if columns.columns[group[0]].level is not None]
    return {columns.columns[group[0]].label: group[:-1] for group in of_levels}


def _rows_shown(
    terms: Sequence[Term], known: Columns, columns: Sequence[str], levels: Mapping[str, list[int]]
) -> list[tuple[str, int, int | None]]:
    """The name of each row, the number of its term, and for a level that of the reference, which is subtracted."""
    place = {term.column: i for i, term in enumerate(terms)}
    rows: list[tuple[str, int, int | None]] = []
    for i, term in enumerate(terms):
        if term.column is None:
            rows.append((term.name, i, None))
            continue
        own = columns.columns[term.column] if isinstance(columns, InputColumns) else None
        if own is None or own.level is None:
            rows.append((known.names[term.column] if known.labels else known.called([term.column]), i, None))
        elif term.column in levels[own.label][1:]:
            first = levels[own.label][0]
            reference = columns.columns[first].level  # type: ignore[attr-defined]
            rows.append((_contrast_name(own.label, own.level, reference), i, place[first]))
    return rows


def _category_of(levels: tuple[str, str], column: str | None, known: Mapping[str, tuple[str, ...]]) -> str:
    """The category that has these levels, of those that are known."""
    if column is not None:
        if column not in known:
            raise unknown_option("`column`", column, known)
        known = {column: known[column]}
    found = [name for name, own in known.items() if set(levels) <= set(own)]
    if len(found) == 1:
        return found[0]
    if found:
        raise InvalidInputError(
            f"The columns {' and '.join(map(repr, found))} have the levels {levels[0]!r} and {levels[1]!r}. Say which "
            f"is meant: column={found[0]!r}."
        )
    every = dict.fromkeys(level for own in known.values() for level in own)
    for level in levels:
        if level not in every:
            raise unknown_option("The level", level, every)
    raise InvalidInputError(f"The levels {levels[0]!r} and {levels[1]!r} are of different columns.")


def _contrast_name(column: str, first: str, second: str) -> str:
    return f"{column}: {first} - {second}"


def _intervals(estimate: np.ndarray, standard_error: np.ndarray, level: float) -> np.ndarray:
    """Central intervals, [q, 2]."""
    check_level(level)
    reach = ndtri(0.5 + level / 2) * standard_error
    return np.column_stack([estimate - reach, estimate + reach])
