"""From the user's columns to the engine's, and back: fitted once, and the same at every prediction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from knotwise.data.cells import label_of, raw_columns
from knotwise.data.encoding.kinds import MISSING_LEVEL, Category, Dates, LonLat, Numbers
from knotwise.docstrings import documented
from knotwise.errors import unknown_option
from knotwise.numerics.columns import InputColumns
from knotwise.persistence.schema import (
    Fields,
    Flag,
    ListOf,
    Number,
    OneOf,
    Optional,
    Reading,
    Record,
    Text,
    Whole,
    Writing,
    refuse,
)

Kind = Numbers | Dates | Category | LonLat


class EncodedRows(np.ndarray):
    """Rows that are the engine's columns already, in natural units: no door needs to read them again."""


class CodedRows(np.ndarray):
    """Rows with one number for each of the user's columns, as `Encoding.read` makes them: no door reads them again."""


@documented(
    {
        "column": ("int", "The number of the column, from 0."),
        "X": ("data frame or array [n, D]", "Rows with the columns of the fit."),
        "quiet": ("bool, default False", "Say nothing of levels that are new."),
        "coded": ("array [n, D]", "Rows as `read` makes them."),
    }
)
@dataclass(frozen=True)
class Encoding:
    """How each column of a table becomes columns of numbers: what a fitted estimator has in `encoding_`.

    Printed, it has a line for each column. A fit makes it; nobody else needs to.

    Parameters
    ----------
    kinds : tuple
        What each column is, in order: numbers, dates, a category, or two columns that are one place.
    n_features : int
        The number of the table's columns.
    features : tuple of str, optional
        Their names; None for an array.

    Examples
    --------
    >>> import pandas as pd
    >>> from knotwise import GPRegressor
    >>> table = pd.DataFrame({"city": ["Oslo", "Rome", "Oslo", "Rome"], "age": [1.0, 2.0, 3.0, 4.0]})
    >>> gp = GPRegressor(random_state=0).fit(table, [1.0, 2.0, 1.5, 2.5])
    >>> gp.encoding_.levels
    {'city': ('Oslo', 'Rome')}
    >>> print(gp.encoding_)
    city  category of 2 levels: Oslo, Rome
    age   numbers

    The columns that the kernel sees, and the way back:

    >>> gp.encoding_(table[:1]).tolist()  # Oslo, Rome, a new city; age
    [[1.0, 0.0, 0.0, 1.0]]
    >>> coded = gp.encoding_.read(table[:1])
    >>> coded.tolist(), gp.encoding_.code(0, "Rome"), gp.encoding_.kind_of(0).name
    ([[0.0, 1.0]], 1.0, 'city')
    >>> gp.encoding_.levels
    {'city': ('Oslo', 'Rome')}
    >>> gp.encoding_.decode(gp.encoding_.contract(gp.encoding_.expand(coded))).tolist()
    [['Oslo', 1.0]]
    """

    kinds: tuple[Kind, ...]
    n_features: int
    features: tuple[str, ...] | None = None

    @cached_property
    def columns(self) -> InputColumns:
        """What the engine's columns are."""
        found = [column for kind in self.kinds for column in kind.columns()]
        return InputColumns(tuple(found), self.features, self.n_features)

    @property
    def levels(self) -> dict[str, tuple[str, ...]]:
        """The levels of each categorical column that the fit has seen."""
        return {kind.name: kind.levels for kind in self.kinds if isinstance(kind, Category)}

    def kind_of(self, column: int) -> Kind:
        """The kind of one of the user's columns.

        Returns
        -------
        Numbers, Dates, Category or LonLat
            What the column is, with its `name`.
        """
        return next(kind for kind in self.kinds if column in kind.sources)

    def code(self, column: int, value: Any) -> float:
        """The number that stands for a value in one of the user's columns.

        Parameters
        ----------
        value : object
            A value as the table has it: a level, a date or a number.

        Returns
        -------
        float
            The number of the level, days since the first date of the fit, or the number itself.
        """
        kind = self.kind_of(column)
        if isinstance(kind, LonLat):
            return float(value)
        columns: list[Any] = [None] * self.n_features
        columns[column] = np.array([value], object)
        code = float(kind.read(columns, quiet=True)[0, 0])
        if isinstance(kind, Category) and code == len(kind.levels):
            raise unknown_option(f"The level of {kind.name!r}", label_of(value), kind.levels)
        return code

    def read(self, X: Any, *, quiet: bool = False) -> np.ndarray:
        """The coded columns of a table: numbers, days, numbers of levels, degrees.

        Returns
        -------
        array [n, D]
            A number for each value, NaN where one is missing.
        """
        columns, _ = raw_columns(X)
        coded = np.empty((len(X), self.n_features))
        for kind in self.kinds:
            coded[:, kind.sources] = kind.read(columns, quiet=quiet)
        return coded

    def expand(self, coded: np.ndarray) -> np.ndarray:
        """The engine's columns of coded columns.

        Returns
        -------
        array [n, E]
            One column for each level, and further ones for periods, indicators and places; in natural units.
        """
        parts = [kind.expand(coded[:, kind.sources]) for kind in self.kinds]
        return np.ascontiguousarray(np.hstack(parts)).view(EncodedRows)

    def __call__(self, X: Any, *, quiet: bool = False) -> np.ndarray:
        """The engine's columns of a table.

        Returns
        -------
        array [n, E]
            What the kernel sees, before it is standardised.
        """
        return self.expand(self.read(X, quiet=quiet))

    def contract(self, expanded: np.ndarray) -> np.ndarray:
        """Coded columns of the engine's columns; of knots, for example.

        Parameters
        ----------
        expanded : array [n, E]
            Rows as `expand` makes them.

        Returns
        -------
        array [n, D]
            The nearest values that the table's columns can have, coded.
        """
        coded, start = np.empty((len(expanded), self.n_features)), 0
        for kind in self.kinds:
            stop = start + len(kind.columns())
            coded[:, kind.sources] = kind.contract(np.asarray(expanded)[:, start:stop])
            start = stop
        return coded

    def decode(self, coded: np.ndarray) -> np.ndarray:
        """Values as the table has them.

        Returns
        -------
        array [n, D]
            Levels, dates and numbers; an array of objects where some are no numbers.
        """
        if all(isinstance(kind, LonLat) or type(kind) is Numbers for kind in self.kinds):
            return coded
        values = np.empty(coded.shape, object)
        for kind in self.kinds:
            for source, own in zip(kind.sources, kind.decode(coded[:, kind.sources]), strict=True):
                values[:, source] = own
        return values

    def __str__(self) -> str:
        return _in_lines(self.kinds)

    @property
    def converted(self) -> str:
        """The lines of the columns that are not plain numbers; empty where all are."""
        return _in_lines([kind for kind in self.kinds if not kind.is_plain])


class EncodingMixin:
    """What the columns of a fitted estimator were taken for."""

    _encoding: Encoding | None = None  # None where all columns are plain numbers, which need none
    _row_names: Sequence[str] | None = None  # of the columns of rows that are no data frame, where they have some

    @property
    def encoding_(self) -> Encoding:
        """What each column of X was taken for: numbers, dates, a category or a place, and how it becomes numbers.

        Printed, it has a line for each column.

        Examples
        --------
        >>> import pandas as pd
        >>> from knotwise import GPRegressor
        >>> table = pd.DataFrame({"shop": ["101", "205", "101", "205"], "age": [1, 2, 3, 4]})
        >>> print(GPRegressor(random_state=0).fit(table, [1.0, 2.0, 1.5, 2.5]).encoding_)
        shop  category of 2 levels: 101, 205
        age   numbers
        """
        check_is_fitted(self)
        if self._encoding is not None:
            return self._encoding
        names, n_features = getattr(self, "feature_names_in_", self._row_names), self.n_features_in_  # type: ignore[attr-defined]
        features = None if names is None else tuple(map(str, names))
        of_columns = enumerate(source_names(features, n_features))
        return Encoding(tuple(Numbers(name, i) for i, name in of_columns), n_features, features)


def _in_lines(kinds: Sequence[Kind]) -> str:
    """A line for each kind of column, with its name."""
    width = max((len(kind.name) for kind in kinds), default=0)
    return "\n".join(f"{kind.name:<{width}}  {_describe(kind)}" for kind in kinds)


def _describe(kind: Kind) -> str:
    if isinstance(kind, Category):
        shown = ", ".join(kind.levels[:6]) + (", ..." if len(kind.levels) > 6 else "")
        gaps = "; a missing value is a level of its own" if MISSING_LEVEL in kind.levels else ""
        return f"category of {len(kind.levels)} level{'s' if len(kind.levels) != 1 else ''}: {shown}{gaps}"
    if isinstance(kind, LonLat):
        return "longitude and latitude, as a place on the sphere in km"
    words = "numbers"
    if isinstance(kind, Dates):
        words = f"dates, in days since {kind.day_of(0.0)}"
    if kind.periods:
        words += f", also by {' and '.join(map(kind.period_word, kind.periods))}"
    if kind.fill is not None:
        fill = kind.day_of(kind.fill) if isinstance(kind, Dates) else f"{kind.fill:g}"
        words += f", {fill} where missing" + (" with an indicator" if kind.indicator else "")
    return words


def source_names(features: Sequence[str] | None, n_features: int) -> list[str]:
    """The user's columns in words."""
    return [f"column {i}" for i in range(n_features)] if features is None else list(features)


class Microseconds:
    """A moment, as whole microseconds since 1970, which may be before it."""

    def write(self, value: Any, at: str, out: Writing) -> int:
        return int(value)

    def read(self, data: Any, at: str, given: Reading) -> int:
        if type(data) is not int or not abs(data) < 2**62:
            raise refuse(at, "a moment in microseconds since 1970")
        return data


NUMBERS: dict[str, Any] = {
    "name": Text,
    "source": Whole,
    "fill": Optional(Number()),
    "indicator": Flag,
    "periods": ListOf(Number(positive=True), tuple),
}
FIELDS = Fields(
    kinds=ListOf(
        OneOf(
            numbers=Record(Numbers, **NUMBERS),
            dates=Record(Dates, **NUMBERS, origin=Microseconds(), has_zone=Flag),
            category=Record(Category, name=Text, source=Whole, levels=ListOf(Text, tuple), allow_missing=Flag),
            lonlat=Record(LonLat, names=ListOf(Text, tuple), sources=ListOf(Whole, tuple)),
        ),
        tuple,
    ),
    n_features=Whole,
    features=Optional(ListOf(Text, tuple, "features")),
)


class EncodingRecord:
    """An encoding whose columns fit together: each of the user's columns is of one kind."""

    def write(self, value: Encoding, at: str, out: Writing) -> dict[str, Any]:
        return FIELDS.write(value, at, out)

    def read(self, data: Any, at: str, given: Reading) -> Encoding:
        encoding = Encoding(**FIELDS.read(data, at, given))
        sources = [source for kind in encoding.kinds for source in kind.sources]
        if len(sources) != encoding.n_features or set(sources) != set(range(len(sources))):
            raise refuse(f"{at}.kinds", "a list in which each column stands once")
        for i, kind in enumerate(encoding.kinds):
            if isinstance(kind, LonLat) and not len(kind.names) == len(kind.sources) == 2:
                raise refuse(f"{at}.kinds.{i}", "a place, with two names and two columns")
            if isinstance(kind, Category) and len(set(kind.levels)) < len(kind.levels):
                raise refuse(f"{at}.kinds.{i}.levels", "a list of different levels")
            if isinstance(kind, Numbers) and kind.indicator and kind.fill is None:
                raise refuse(f"{at}.kinds.{i}.fill", "a number where an indicator says that it is taken")
        return encoding
