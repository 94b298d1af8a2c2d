"""Columns of the inputs by number or by name, and the engine's columns that a user's column becomes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from knotwise.errors import InvalidInputError, unknown_option


@dataclass(frozen=True)
class InputColumn:
    """One column of the engine's inputs, and what it is made of.

    `label` is the user's column, or columns, in words: columns of one label share one length-scale. `sources` are the
    numbers of the user's columns. `kind` is "number", "level" (one of a group of 0 and 1: knots stay on levels) or
    "sphere" (one of the coordinates of a place at the distance `radius` from the origin: knots stay on the sphere).
    `scale` is what the engine divides by; None standardises. `units` are those of a length-scale, where the name of the
    column does not say them. `level` is the level of a category that the column stands for; None of other columns.
    `origin` is what is 0 in the column, of dates in days since 1970.
    """

    name: str
    label: str
    sources: tuple[int, ...]
    kind: str = "number"
    scale: float | None = None
    radius: float | None = None
    units: str = ""
    level: str | None = None
    origin: float = 0.0

    @property
    def is_circle(self) -> bool:
        """Whether it is a coordinate on the circle that a period makes of a column."""
        return self.kind == "sphere" and len(self.sources) == 1


@dataclass(frozen=True)
class InputColumns(Sequence[str]):
    """The engine's columns, in order; as a sequence, their names. `features` are the user's names, None without."""

    columns: tuple[InputColumn, ...]
    features: tuple[str, ...] | None = None
    n_features: int = 0

    def __len__(self) -> int:
        return len(self.columns)

    def __getitem__(self, index: Any) -> Any:
        return [column.name for column in self.columns][index]

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The label of each column."""
        return tuple(column.label for column in self.columns)

    @cached_property
    def groups(self) -> tuple[int, ...]:
        """The number of the group of each column, counted from 0: columns of one label are one group."""
        order = {label: i for i, label in enumerate(dict.fromkeys(self.labels))}
        return tuple(order[label] for label in self.labels)

    def take(self, indices: Iterable[int]) -> InputColumns:
        """Some of the columns."""
        return InputColumns(tuple(self.columns[i] for i in indices), self.features, self.n_features)

    def members(self, kind: str) -> list[list[int]]:
        """The groups of columns of this kind, as numbers of columns."""
        found: dict[str, list[int]] = {}
        for i, column in enumerate(self.columns):
            if column.kind == kind:
                found.setdefault(column.label, []).append(i)
        return list(found.values())

    def made_of(self, columns: Any, *, owner: str) -> list[int]:
        """The engine's columns of the user's columns, given by number or name; `owner` says who names them.

        A name in `parameters_` is one here, too: "when" is the date itself, "when (year)" the circle of its period. The
        indicator of gaps belongs to its column, and can be named alone, "depth (missing)".
        """
        own = [label for label in self.labels if label not in (self.features or ())]
        asked = [
            column if column in own else _indices(column, self.features, self.n_features, owner=owner, beside=own)[0]
            for column in as_list_of_columns(columns)
        ]
        found: list[int] = []
        for each in asked:
            meant = [
                i
                for i, column in enumerate(self.columns)
                if each == column.label or (each in column.sources and not column.is_circle)
            ]
            for i in meant:
                lacking = [s for s in self.columns[i].sources if s not in asked and each not in own]
                if lacking:
                    raise InvalidInputError(
                        f"The columns {self.columns[i].label} are one place on the sphere, but {owner} names only one "
                        "of them. Name both."
                    )
            found += [i for i in meant if i not in found]
        return found


def as_list_of_columns(columns: Any) -> list[int | str]:
    """The columns that a user named: one of them, or several."""
    return [columns] if isinstance(columns, str) or np.ndim(columns) == 0 else list(columns)


def column_indices(columns: Any, names: Sequence[str] | None, n_columns: int, *, owner: str) -> list[int]:
    """Numbers of columns that a user gave by number or name, for data with these names; `owner` says whose they are.

    With `InputColumns` for names, they are the engine's columns that the user's become.
    """
    if isinstance(names, InputColumns):
        return names.made_of(columns, owner=owner)
    return _indices(columns, names, n_columns, owner=owner)


def _indices(
    columns: Any, names: Sequence[str] | None, n_columns: int, *, owner: str, beside: Sequence[str] = ()
) -> list[int]:
    """Numbers of columns; `beside` are names that would have been possible, too."""
    known = list(names) if names is not None else []
    indices = []
    for column in as_list_of_columns(columns):
        if isinstance(column, str):
            if not known:
                raise InvalidInputError(
                    f"Column {column!r} is named, but the data have no column names. "
                    "Fit on a data frame or give the column's index."
                )
            if column not in known:
                raise unknown_option(f"A column of {owner}", column, dict.fromkeys([*known, *beside]))
            indices.append(known.index(column))
        elif int(column) != column or not -n_columns <= column < n_columns:
            raise InvalidInputError(f"Column {column} of {owner} does not exist: the data have {n_columns}.")
        else:
            indices.append(int(column) % n_columns)
    return indices


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


LONGITUDES, LATITUDES = ("longitude", "lon", "long", "lng"), ("latitude", "lat")
#: names of coordinates in one unit of length, across and up
PLANES = (("x", "y"), ("easting", "northing"), ("east", "north"), ("utm_x", "utm_y"), ("x_coord", "y_coord"))


def named_pair(names: Sequence[str]) -> tuple[int, int] | None:
    """The columns that lie across and up on a map, known by their names; None where no names tell."""
    known = {_plain(name): i for i, name in enumerate(names)}
    degrees = [(across, up) for across in LONGITUDES for up in LATITUDES]
    for across, up in (*degrees, *PLANES):
        if across in known and up in known:
            return known[across], known[up]
    return None


def coordinate_pair(names: Sequence[str]) -> tuple[int, int] | None:
    """The columns that lie across and up on a map, known by their names, or the only two; None where there are none."""
    return named_pair(names) or ((0, 1) if len(names) == 2 else None)


def are_degrees(names: Sequence[str]) -> bool:
    """Whether two columns are longitude and latitude by their names, in this order."""
    return len(names) == 2 and _plain(names[0]) in LONGITUDES and _plain(names[1]) in LATITUDES


def true_aspect(names: Sequence[str], box: Sequence[float]) -> float | None:
    """Height over width of a unit on a map of two columns with these names; None where names do not tell.

    A degree of longitude is shorter than one of latitude by the cosine of the latitude.
    """
    if are_degrees(names):
        middle = 0.5 * (box[2] + box[3])
        return 1.0 / float(np.cos(np.deg2rad(middle))) if abs(middle) < 85 else None
    return 1.0 if tuple(map(_plain, names)) in PLANES else None


def _plain(name: str) -> str:
    return name.casefold().strip()
