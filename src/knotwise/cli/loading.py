"""Models from files, and tables that fit them."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from knotwise.cli.command import UsageError, note
from knotwise.cli.rows import Rows, Wanted, known_labels, target_numbers
from knotwise.cli.tables import Table, check_readable, require_columns, same_for_all
from knotwise.errors import InvalidInputError, nearest
from knotwise.plotting.style import counted

#: options for what a model may have been told of each row and asks for again, by their names in Python, with what they
#: give
KNOWN_OPTIONS = {"exposure": "exposure", "offset": "exposure", "trials": "trials", "noise_variance": "noise_variance"}


def load_model(arguments: Namespace) -> Any:
    """The model that a command was given."""
    from knotwise.estimators.loading import load

    data = getattr(arguments, "data", None)
    if data is not None and Path(data).suffix == ".knotwise" and arguments.model.suffix != ".knotwise":
        raise UsageError(f"The model comes first: knotwise {arguments.command} {data} {arguments.model}")
    check_readable(arguments.model)
    return load(arguments.model)


def size_name(gp: Any) -> str | None:
    """The option that the model's counts take: exposure, trials, or None."""
    return None if hasattr(gp, "classes_") else gp.likelihood_.size_name


def require_option(gp: Any, arguments: Namespace, otherwise: str = "") -> None:
    """Refuse to judge or predict observations without the exposure, trials or known noise that the fit had.

    `otherwise` is what can be asked for instead.
    """
    from knotwise.data.exposure import is_needed, missing_name

    given = {KNOWN_OPTIONS[option]: value for option, value in given_options(arguments).items()}
    if hasattr(gp, "classes_"):
        return
    if not is_needed(gp, **dict.fromkeys(KNOWN_OPTIONS.values()) | given):
        return
    name = str(missing_name(gp))
    option = option_word(name)
    needed = (
        f"known noise, so that the noise of another observation is not known: name its column with {option}, or "
        "give one variance for all rows"
        if name == "noise_variance"
        else f"{name}, without which a count has no meaning: name its column with {option}, where 1 stands for one "
        f"{unit_name(name)}"
    )
    raise UsageError(f"The model was fitted with {needed}{otherwise}.")


def given_options(arguments: Namespace) -> dict[str, str]:
    """What was given of the options that say what is known of each row; an exposure beside its logarithm is refused."""
    values = {option: getattr(arguments, option) for option in KNOWN_OPTIONS}
    given = {option: value for option, value in values.items() if value is not None}
    if {"exposure", "offset"} <= given.keys():
        raise UsageError("--offset is the logarithm of the exposure: give it or --exposure, not both.")
    return given


def option_word(name: str) -> str:
    """An option as it is written at the shell."""
    return f"--{name.replace('_', '-')}"


def unit_name(size: str | None) -> str:
    """What an exposure or a number of trials of 1 is."""
    return "unit of exposure" if size == "exposure" else "trial"


def choose_columns(gp: Any, table: Table, arguments: Namespace) -> Wanted:
    """The columns of a table that a model needs, by name."""
    from knotwise.data.exposure import missing_name

    same, given = same_for_all(table.columns, arguments), given_options(arguments)
    takes = None if hasattr(gp, "classes_") else missing_name(gp)
    for option, name in given.items():
        if option not in same:
            require_columns([name], option_word(option), table.columns)
        if KNOWN_OPTIONS[option] != takes:
            its = f"; it takes {option_word(takes)}" if takes else ""
            raise UsageError(f"{option_word(option)} has no meaning for this model{its}.")
    target = getattr(arguments, "target", None)
    keep = getattr(arguments, "keep", [])
    require_columns(keep, "A column of --keep", table.columns)
    require_columns([] if target is None else [target], "--target", table.columns)
    inputs = _inputs(gp, table, arguments.inputs)
    columns = {option: name for option, name in given.items() if option not in same}
    return Wanted(inputs, target, columns, keep, *_encoded(gp, inputs), same=same)


def observed_values(gp: Any, table: Table, rows: Rows, arguments: Namespace) -> np.ndarray | None:
    """The labels or numbers in the column of --target, if it was given."""
    if arguments.target is None:
        return None
    if hasattr(gp, "classes_"):
        return known_labels(table, rows, arguments.target, gp.classes_.tolist())
    return target_numbers(table, rows, arguments.target, arguments.decimal)


def say_what_was_left_out(n_dropped: int) -> None:
    if n_dropped:
        note(f"left out {counted(n_dropped, 'row')} with missing values")


def text_inputs(gp: Any) -> list[str]:
    """The inputs of a model whose values are text: levels and dates."""
    return _encoded(gp, [str(name) for name in getattr(gp, "feature_names_in_", range(gp.n_features_in_))])[0]


def _encoded(gp: Any, inputs: Sequence[str]) -> tuple[list[str], list[str]]:
    """The inputs that are text for the model, and those that may be missing."""
    if gp._encoding is None:
        return [], []
    kinds = [(inputs[source], kind) for kind in gp._encoding.kinds for source in kind.sources]
    return [name for name, kind in kinds if kind.reads_text], [name for name, kind in kinds if kind.may_lack]


def _inputs(gp: Any, table: Table, given: Sequence[str] | None) -> Sequence[str]:
    names = [str(name) for name in getattr(gp, "feature_names_in_", ())]
    if given is not None:
        require_columns(given, "A column of --inputs", table.columns)
        if len(given) != gp.n_features_in_:
            its = f" ({', '.join(names)})" if names else ""
            raise UsageError(f"--inputs names {len(given)} columns, but the model has {gp.n_features_in_}{its}.")
        return given
    if not names:
        raise UsageError(
            f"The model has no column names, because it was fitted to an array. Name its {gp.n_features_in_} inputs in "
            "their order with --inputs."
        )
    for name in names:
        if name not in table.columns:
            near = nearest(name, filter(None, table.columns))
            hint = "" if near is None else f" The nearest is {near!r}."
            raise InvalidInputError(
                f"{table.name} has no column {name!r}, which the model needs.{hint} Rename it, or name all "
                f"{len(names)} inputs in the order {','.join(names)} with --inputs."
            )
    return names
