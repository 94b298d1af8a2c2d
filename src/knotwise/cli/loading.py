"""Models from files, and tables that fit them."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from knotwise.cli.columns import require_columns
from knotwise.cli.command import UsageError
from knotwise.cli.rows import Wanted
from knotwise.cli.tables import Table, check_readable
from knotwise.errors import InvalidInputError, nearest, warn

__all__ = [
    "SIZE_OPTIONS",
    "choose_columns",
    "load_model",
    "refuse_two_exposures",
    "require_size_option",
    "size_name",
    "text_inputs",
    "unit_name",
]

#: options that say of how much a count is, with what they give
SIZE_OPTIONS = {"exposure": "exposure", "offset": "exposure", "trials": "trials"}


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


def require_size_option(gp: Any, arguments: Namespace, otherwise: str = "") -> None:
    """Refuse to judge or predict counts without the exposure or trials that the fit had.

    `otherwise` is what can be asked for instead. Where an old file does not tell, a warning does, once.
    """
    from knotwise.estimators.sizes import assume_no_size, size_is_missing

    name = size_name(gp)
    refuse_two_exposures(arguments)
    missing = name is not None and size_is_missing(gp, arguments.exposure or arguments.offset, arguments.trials)
    if missing:
        raise UsageError(
            f"The model was fitted with {name}, without which a count has no meaning: name its column with --{name}, "
            f"where 1 stands for one {unit_name(name)}{otherwise}."
        )
    if missing is None:
        warn(
            f"the model file does not tell whether the fit had {name}, and 1 is taken for each row; name the column "
            f"with --{name} if it had"
        )
        assume_no_size(gp)


def refuse_two_exposures(arguments: Namespace) -> None:
    """Refuse an exposure beside its logarithm."""
    if arguments.exposure is not None and arguments.offset is not None:
        raise UsageError("--offset is the logarithm of the exposure: give it or --exposure, not both.")


def unit_name(size: str | None) -> str:
    """What an exposure or a number of trials of 1 is."""
    return "unit of exposure" if size == "exposure" else "trial"


def choose_columns(gp: Any, table: Table, arguments: Namespace) -> Wanted:
    """The columns of a table that a model needs, by name."""
    refuse_two_exposures(arguments)
    sizes = {option: getattr(arguments, option) for option in SIZE_OPTIONS if getattr(arguments, option)}
    for option, name in sizes.items():
        require_columns([name], f"--{option}", table.columns)
        if SIZE_OPTIONS[option] != size_name(gp):
            its = f"; it takes --{size_name(gp)}" if size_name(gp) else ""
            raise UsageError(f"--{option} has no meaning for this model{its}.")
    target = getattr(arguments, "target", None)
    keep = getattr(arguments, "keep", [])
    require_columns(keep, "A column of --keep", table.columns)
    require_columns([] if target is None else [target], "--target", table.columns)
    inputs = _inputs(gp, table, arguments.inputs)
    return Wanted(inputs, target, sizes, keep, *_encoded(gp, inputs))


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
