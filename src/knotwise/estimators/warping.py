"""Warps of columns: those that a user gives, and those that the data decide, before the kernel."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from knotwise.data.encoding.kinds import Numbers
from knotwise.data.observations import Observations
from knotwise.data.scaled import TrainingData
from knotwise.data.scaling import Scaling
from knotwise.decisions import warps as decision
from knotwise.errors import InvalidInputError, unknown_option
from knotwise.estimators.assemble import Assembly
from knotwise.numerics.columns import column_indices, coordinate_pair, named_pair
from knotwise.selection.trace import Action
from knotwise.warps import WARPS, Warp

#: of the one generator of this decision: the same data have the same warps, and the fit its own random numbers
SEED = 0
#: rows by which warps are decided; those between them, in sorted order, say nothing else
MOST_ROWS = 20_000
#: what the options are where nothing is said of a parameter of the kernel, which is in the units of its column
UNSAID: dict[str, Any] = {"kernel": None, "bounds": None, "priors": None, "fixed": ()}


def given_warps(options: Any) -> dict[int, str | Warp]:
    """The warps that a user gives, by the numbers of the engine's columns, checked; none for "auto" and None."""
    given = options.warp
    if given is None or (isinstance(given, str) and given == "auto"):
        return {}
    if not isinstance(given, Mapping):
        raise InvalidInputError(
            f"`warp` is {given!r}; it must be 'auto', None, or a dict from columns to "
            f"{' or '.join(map(repr, WARPS))}, such as {{'age': 'log'}}."
        )
    kinds = options.encoding_.kinds
    names = options.encoding_.features
    found: dict[int, str | Warp] = {}
    for column, word in given.items():
        (source,) = column_indices(column, names, options.n_features_in_, owner="`warp`")
        if isinstance(word, str) and word not in WARPS:
            raise unknown_option(f"`warp` of the column {column!r}", word, WARPS)
        if not isinstance(word, str | Warp) or isinstance(word, type):
            raise InvalidInputError(
                f"`warp` of the column {column!r} is {word!r}; it must be {' or '.join(map(repr, WARPS))}, or an "
                "object from `knotwise.warps`."
            )
        kind = next(kind for kind in kinds if source in kind.sources)
        if type(kind) is not Numbers:
            raise InvalidInputError(
                f"`warp` names the column {column!r}, whose values are no plain numbers but dates, levels or places. "
                "Leave it out, or make numbers of it first."
            )
        found[engine_column(kinds, source)] = word
    return found


def engine_column(kinds: Any, source: int) -> int:
    """The engine's column of a user's column of numbers."""
    start = 0
    for kind in kinds:
        if source in kind.sources:
            return start
        start += len(kind.columns())
    raise LookupError(source)


def assemble_warped(options: Any, data: TrainingData, made: Assembly, again: Callable[..., Assembly]) -> Assembly:
    """The problem of a fit with the warps that suit the data, where these are to decide; else as it was made.

    `again` makes it of data. It is asked only where columns are warped, and what it warns of was said before.
    """
    columns = _columns_to_try(options, data, made)
    if not columns or made.little_information:
        return made
    found = decision.decide(made.with_kernel, columns, np.random.default_rng(SEED))
    if not found.numbers:
        return made
    warped = made
    if found.choice:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warped = again(replace(data, warps=dict(found.choice)))  # type: ignore[type-var]
    trace = made.problem.new_trace()
    value, n_rows = found.numbers.get("log_evidence", np.nan), found.numbers.get("n_rows")
    trace.add(Action.WARP, 0, value, n_rows=n_rows, note=found.why)
    earlier, make = tuple(trace), warped.with_kernel
    make = replace(make, rest=make.rest | {"earlier": earlier})
    return replace(warped, problem=replace(warped.problem, earlier=earlier), with_kernel=make)


def _columns_to_try(options: Any, data: TrainingData, made: Assembly) -> dict[int, decision.Column]:
    """The columns that may be warped, by their numbers in the engine: numbers that are no places, dates or periods."""
    asked = isinstance(options.warp, str) and options.warp == "auto" and options.standardize == "columns"
    open_ = all(getattr(options, name) in (default, []) for name, default in UNSAID.items())
    if not (asked and open_ and isinstance(data, Observations)) or options.optimizer is None:
        return {}
    kinds, rows = options.encoding_.kinds, made.problem.rows
    names = [kind.name for kind in kinds if type(kind) is Numbers]
    places = set() if len(names) < 2 else set(named_pair(names) or ())
    if len(kinds) == 2 and len(names) == 2:
        places = set(coordinate_pair(names) or ())
    step, scaling = -(-len(rows.X) // MOST_ROWS), made.scaling
    numbers = made.row_numbers
    natural = scaling.inputs_back(rows.X[::step]) if numbers is None else data.X[numbers[::step]]
    weights = None if rows.weights is None else rows.weights[::step]
    found, start, number = {}, 0, 0
    for kind in kinds:
        if type(kind) is Numbers:
            if not kind.periods and number not in places:
                own = float(scaling.x_centre[start]), float(scaling.x_scale[start])
                found[start] = decision.Column(kind.name, natural[:, start], weights, *own)
            number += 1
        start += len(kind.columns())
    return found


def published(options: Any, scaling: Scaling) -> dict[int | str, Warp]:
    """The warps of a fit, by the name of the column, or its number where it has none."""
    if scaling.warps is None:
        return {}
    kinds, features = options.encoding_.kinds, options.encoding_.features
    found: dict[int | str, Warp] = {}
    start = 0
    for kind in kinds:
        warp = scaling.warps[start]
        if warp is not None:
            found[kind.sources[0] if features is None else kind.name] = warp
        start += len(kind.columns())
    return found


def describe_warps(model: Any) -> str:
    """Which columns were warped, and why; empty where none is."""
    if not model.warp_:
        return ""
    why = next((step.note for step in model.trace_ if step.action is Action.WARP), "")
    names = [name if isinstance(name, str) else f"column {name}" for name in model.warp_]
    said = [warp.in_words(name) for name, warp in zip(names, model.warp_.values(), strict=True)]
    return f"warped inputs: {why or ', '.join(said) + ', as given'}; length-scales and trends are of these"
