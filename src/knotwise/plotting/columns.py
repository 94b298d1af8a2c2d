"""Columns by index or name, and points that vary in one or two of them while the others stay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from knotwise.errors import InvalidInputError, unknown_option
from knotwise.plotting.style import shorten

__all__ = [
    "axis_name",
    "column_index",
    "column_names",
    "describe_others",
    "place_of",
    "points_along",
    "refuse_levels",
]

LONGEST = 52  # letters of a title that names columns one by one


def column_names(gp: Any, X: Any) -> list[str]:
    """Names of the columns: those of the fit, else those of the data frame X, else numbers."""
    names = getattr(gp, "feature_names_in_", getattr(X, "columns", None))
    if names is not None and len(names) == gp.n_features_in_:
        return [str(name) for name in names]
    return ["x"] if gp.n_features_in_ == 1 else [f"column {i}" for i in range(gp.n_features_in_)]


def column_index(feature: Any, names: Sequence[str], option: str = "`feature`") -> int:
    """The number of a column that is given by number or name."""
    if isinstance(feature, str):
        if feature not in names:
            raise unknown_option(option, feature, names)
        return list(names).index(feature)
    whole = isinstance(feature, int | np.integer) and not isinstance(feature, bool)
    if not whole or not -len(names) <= feature < len(names):
        raise InvalidInputError(
            f"{option} is {feature!r}; it must be the name of a column or a number from 0 to {len(names) - 1}."
        )
    return int(feature) % len(names)


def refuse_levels(encoding: Any, columns: Sequence[int]) -> None:
    """Refuse to draw along a category, whose levels have no order."""
    for column in [] if encoding is None else columns:
        kind = encoding.kind_of(column)
        if hasattr(kind, "levels"):
            raise InvalidInputError(
                f"The column {kind.name!r} is a category, whose levels have no order. Draw along a column of numbers, "
                f"for one level: at={{{kind.name!r}: {kind.levels[0]!r}}}."
            )


def axis_name(names: Sequence[str], column: int, encoding: Any) -> str:
    """The name of a column, with what its numbers are."""
    origin = None if encoding is None else getattr(encoding.kind_of(column), "origin", None)
    return (
        names[column]
        if origin is None
        else f"{names[column]}, days since {np.datetime64(origin, 'us').item():%Y-%m-%d}"
    )


def place_of(
    X: np.ndarray | None, at: Any, names: Sequence[str], free: Sequence[int], encoding: Any = None
) -> np.ndarray:
    """The point at which columns stay that do not vary: the medians of X, but for what `at` says.

    `at` is a mapping from columns to values, or one value for each column. Of a category it is the most frequent level,
    or the one that `at` names.
    """
    place = np.full(len(names), np.nan) if X is None else _typical(X, encoding)
    if isinstance(at, Mapping):
        for feature, value in at.items():
            column = column_index(feature, names, "A column of `at`")
            if encoding is None and isinstance(value, str):
                raise InvalidInputError(
                    f"`at` has {value!r} for {names[column]!r}, a column of numbers. Give a number."
                )
            place[column] = value if encoding is None else encoding.code(column, value)
    elif at is not None:
        given = np.asarray(at, float)
        if given.shape != place.shape:
            raise InvalidInputError(
                f"`at` must be a mapping from columns to values, or {len(names)} values, one for each column; "
                f"its shape is {given.shape}."
            )
        place = given.copy()
    missing = [names[i] for i in range(len(names)) if i not in free and not np.isfinite(place[i])]
    if missing:
        raise InvalidInputError(
            f"The column {missing[0]!r} needs a finite value to stay at: pass rows as X, to take its median, "
            f"or at={{{missing[0]!r}: value}}."
        )
    return place


def points_along(place: np.ndarray, values: Mapping[int, np.ndarray]) -> np.ndarray:
    """Rows at `place` in which the given columns take the given values, [n, D]."""
    n = len(next(iter(values.values())))
    points = np.tile(place, (n, 1))
    for column, along in values.items():
        points[:, column] = along
    return points


def _typical(X: np.ndarray, encoding: Any) -> np.ndarray:
    """Medians of columns of numbers, and the most frequent level of a category."""
    if encoding is None:
        return np.median(X, axis=0)
    place = np.nanmedian(X, axis=0)
    for kind in encoding.kinds:
        if hasattr(kind, "levels"):
            place[kind.source] = np.argmax(np.bincount(X[:, kind.source].astype(int)))
    return place


def describe_others(
    place: np.ndarray, names: Sequence[str], free: Sequence[int], *, medians: bool, encoding: Any = None
) -> str:
    """Where the columns stay that do not vary, for a title; empty if all vary."""
    others = [i for i in range(len(names)) if i not in free]
    if not others:
        return ""
    shown = place if encoding is None else encoding.decode(place[None])[0]
    values = ", ".join(f"{shorten(names[i], 24)} = {_number(shown[i])}" for i in others)
    text = f"at {'median ' if medians else ''}{values}"
    if len(text) <= LONGEST or len(others) == 1:
        return text
    return f"the other {len(others)} columns at " + ("their medians" if medians else "given values")


def _number(value: Any) -> str:
    """Enough digits to tell places apart, also far from the origin; levels and dates as they are."""
    if not isinstance(value, float):
        return shorten(str(value).removesuffix(" 00:00:00"), 24)
    return f"{value:.4g}" if abs(value) < 1e4 else f"{value:.10g}"
