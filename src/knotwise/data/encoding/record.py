"""The encoding of inputs in a model file."""

from __future__ import annotations

from typing import Any

from knotwise.data.encoding.encoding import Encoding
from knotwise.data.encoding.kinds import Category, Dates, LonLat, Numbers
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

__all__ = ["EncodingRecord"]


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
