"""Columns of a table as they are read: text that may stand for numbers, and names that may be misspelt."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from knotwise.cli.numerals import are_plain, to_float
from knotwise.errors import InvalidInputError, unknown_option

__all__ = [
    "Column",
    "NotANumberError",
    "TextColumn",
    "check_names",
    "is_missing",
    "numbers_of",
    "require_columns",
    "same_for_all",
]

#: what stands for a missing value
MISSING = frozenset({"", "NA", "N/A", "#N/A", "NaN", "nan", "NULL", "null"})
TRUTH = {"true": 1.0, "false": 0.0}
#: the comma becomes the point; a point, which could part thousands, is no part of a number
COMMA = str.maketrans({",": ".", ".": "?"})


class NotANumberError(ValueError):
    """A value that is neither a finite number nor missing; `index` is its row within the piece."""

    def __init__(self, index: int, value: str) -> None:
        super().__init__(value)
        self.index, self.value = index, value


class Column(Protocol):
    """Some rows of one column."""

    def text(self) -> list[str]:
        """The values as text, empty where one is missing."""
        ...

    def numbers(self) -> np.ndarray:
        """The values as numbers, NaN where one is missing."""
        ...


@dataclass(frozen=True)
class TextColumn:
    """Values as a text file has them; `is_text` where the file has types, and says that these are text."""

    values: list[str]
    decimal: str = "."
    is_text: bool = False

    def text(self) -> list[str]:
        return [value.strip() for value in self.values]

    def numbers(self) -> np.ndarray:
        return numbers_of(self.values, self.decimal)


def is_missing(values: Sequence[str]) -> np.ndarray:
    """Which values are missing, [n]."""
    return np.fromiter((value.strip() in MISSING for value in values), bool, len(values))


def numbers_of(values: Sequence[str], decimal: str = ".") -> np.ndarray:
    """Read numbers, with NaN for missing values; `NotANumberError` tells the first value that is no number."""
    texts = values if decimal == "." else [value.translate(COMMA) for value in values]
    try:
        numbers = np.fromiter(map(float if are_plain(texts) else to_float, texts), float, len(texts))
    except ValueError:  # rare, so the rows are looked at one by one only then
        numbers = np.empty(len(texts))
        for i, text in enumerate(texts):
            number = _number(text.strip())
            if number is None:
                raise NotANumberError(i, values[i].strip()) from None
            numbers[i] = number
    if np.isinf(numbers).any():
        index = int(np.argmax(np.isinf(numbers)))
        raise NotANumberError(index, values[index].strip())
    return numbers


def _number(text: str) -> float | None:
    if text in MISSING:
        return np.nan
    try:
        return to_float(text)
    except ValueError:
        return TRUTH.get(text.casefold())


# -- names ----------------------------------------------------------------------------------------


def check_names(names: Sequence[str], table: str) -> None:
    """Refuse a table in which two columns have one name, or whose first line is no line of names."""
    for name in names:
        if name and names.count(name) > 1:
            where = [str(i + 1) for i, other in enumerate(names) if other == name]
            raise InvalidInputError(
                f"The column name {name!r} stands {len(where)} times in {table}, at columns {', '.join(where)}. "
                "Rename all but one."
            )
    if not any(names):
        raise InvalidInputError(f"{table} has no column names in its first line. Add a line with the names.")
    try:
        numbers_of([name for name in names if name])
    except NotANumberError:
        return
    raise InvalidInputError(
        f"The first line of {table} holds numbers ({', '.join(names[:3])}), not column names. Add a line with names."
    )


def require_columns(asked: Iterable[str], what: str, columns: Sequence[str]) -> None:
    """Refuse a column that the table does not have, with the nearest that it has."""
    for name in asked:
        if name not in columns:
            raise unknown_option(what, name, filter(None, columns))


def same_for_all(columns: Sequence[str], arguments: Namespace) -> dict[str, float]:
    """Known noise that is a number for all rows, by the argument of `fit`; empty where the option names a column."""
    given = arguments.noise_variance
    if given is None or given in columns:
        return {}
    try:
        return {"noise_variance": float(numbers_of([given], arguments.decimal)[0])}
    except NotANumberError:
        return {}
