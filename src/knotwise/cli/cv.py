"""`knotwise cv`: rows of a table predicted from the others, one by one or in blocks, and scores of that."""

from __future__ import annotations

import shlex
from argparse import Namespace
from dataclasses import replace
from typing import Any

import numpy as np

from knotwise.cli.command import UsageError, print_json, warnings_as_notes
from knotwise.cli.fit import check_arguments, choose_columns, prepare
from knotwise.cli.output import check_output, write_table
from knotwise.cli.reading import open_table
from knotwise.cli.rows import Rows, Wanted, errors_with_places, read_rows
from knotwise.cli.tables import Table, kind_of_file, require_columns
from knotwise.crossvalidation.validate import cross_validate
from knotwise.data.cell_text import is_whole
from knotwise.data.cells import NamedRows, missing_texts
from knotwise.errors import InvalidInputError
from knotwise.numerics.columns import named_pair

#: what the table of predictions has for each row
COLUMNS = ("block", "y", "mean", "sd", "lower", "upper", "error", "standardized_error", "log_density", "pit")

PLACE = "place {}"  # key of a column that says where rows lie, among what is read beside the inputs


def run(arguments: Namespace) -> None:
    check_arguments(arguments)
    if arguments.keep and arguments.output is None:
        raise UsageError("--keep copies columns to the predictions of the rows: name their file with -o FILE.")
    if arguments.coords is not None and (arguments.blocks is None or not is_whole(arguments.blocks)):
        raise UsageError("--coords names the places of a number of blocks: write --blocks K, such as --blocks 10, too.")
    if arguments.output is not None:
        kind_of_file(arguments.output)
        check_output(arguments.output, inputs=[arguments.data])
        if arguments.json and arguments.output == "-":
            raise UsageError("--json and -o - both ask for standard output: name a file, or leave one of them out.")
    with warnings_as_notes() as notes:
        with open_table(arguments) as table:
            by_column = _is_column(arguments.blocks, table)
            require_columns(arguments.keep, "A column of --keep", table.columns)
            double = next((name for name in arguments.keep if name in (table.unit, *COLUMNS)), None)
            if double is not None:
                raise UsageError(f"--keep names {double!r}, which is a column of the predictions too. Rename it.")
            wanted = _with_blocks(choose_columns(table, arguments), arguments, by_column)
            coords = _coordinates(wanted, arguments, table) if arguments.blocks is not None and not by_column else []
            wanted = replace(wanted, extras=wanted.extras | {PLACE.format(name): name for name in coords})
            rows = read_rows(table, wanted, drop_missing=arguments.drop_missing)
        gp, y = prepare(table, rows, arguments)
        if hasattr(gp, "link") and (n_classes := len(np.unique(y))) > 2:
            raise UsageError(
                f"cv is for numbers and for two classes, and the target {arguments.target!r} has {n_classes}. Put some "
                "rows in a file of their own, fit to the others, and score those: knotwise diagnose MODEL FILE "
                f"--target {shlex.quote(arguments.target)}."
            )
        # a fit for each row would take long, and tell hardly more
        hold = arguments.hold or arguments.blocks is None
        blocks: Any = arguments.blocks
        per_row: dict[str, Any] = dict(rows.extras)
        at = [per_row.pop(PLACE.format(name)) for name in coords]
        if blocks is not None:
            blocks = _labels(table, rows, blocks) if by_column else int(blocks)
        X = NamedRows.of(rows.X, wanted.inputs)
        with errors_with_places(rows, table):
            if hold:
                gp.fit(X, y, **per_row)
            places_at = NamedRows.of(np.column_stack(at), coords) if at else None
            how: dict[str, Any] = {"blocks": blocks, "coords": places_at, "refit": not hold}
            found = cross_validate(gp, X, y, **how, level=arguments.interval, random_state=arguments.seed, **per_row)
    if arguments.output is not None:
        places = {table.unit: rows.places.tolist()} if arguments.drop_missing else {}
        kept = {name: rows.kept[name] for name in arguments.keep}
        found_columns = {name: getattr(found, name).tolist() for name in COLUMNS}
        write_table(arguments.output, [places | kept | found_columns])
    if arguments.json:
        print_json(_facts(found, arguments, rows.n_dropped, notes))
    elif arguments.output != "-":
        print(found)


def _is_column(blocks: str | None, table: Table) -> bool:
    """Whether --blocks names a column of labels; a whole number is one of blocks."""
    if blocks is None:
        return False
    if is_whole(blocks) and blocks not in table.columns:
        if int(blocks) < 2:
            raise UsageError(f"--blocks is {blocks}, but there must be at least 2, or a column of labels.")
        return False
    require_columns([blocks], "--blocks", table.columns)
    return True


def _coordinates(wanted: Wanted, arguments: Namespace, table: Table) -> list[str]:
    """The columns with the places of compact blocks: those of --coords, or called so in the table, inputs or not.

    Models with different inputs are so compared on the same blocks. None: they are made of all inputs.
    """
    if arguments.coords is not None:
        require_columns(arguments.coords, "A column of --coords", table.columns)
        return list(arguments.coords)
    taken = {wanted.target, *wanted.extras.values(), *arguments.categorical}
    free = [name for name in table.columns if name not in taken]
    pair = named_pair(free)
    return [] if pair is None else [free[i] for i in pair]


def _with_blocks(wanted: Wanted, arguments: Namespace, by_column: bool) -> Wanted:
    """Read the labels of the blocks too; their column is an input only where --inputs names it."""
    wanted = replace(wanted, keep=arguments.keep)
    if not by_column:
        return wanted
    inputs = [name for name in wanted.inputs if arguments.inputs is not None or name != arguments.blocks]
    if not inputs:
        raise InvalidInputError(f"There is no column left to predict {arguments.target!r} from. Add at least one.")
    return replace(wanted, inputs=inputs, keep=[*arguments.keep, arguments.blocks])


def _labels(table: Table, rows: Rows, name: str) -> np.ndarray:
    labels = rows.kept[name]
    gaps = np.flatnonzero(missing_texts(labels))
    if len(gaps):
        raise InvalidInputError(
            f"The column {name!r} of {table.name} has no block in {table.unit} {rows.places[gaps[0]]}. Fill it in."
        )
    return np.array(labels)


def _facts(found: Any, arguments: Namespace, n_dropped: int, notes: list[str]) -> dict[str, Any]:
    return {
        "target": arguments.target,
        "classes": found.classes,
        "rows": len(found.y),
        "dropped": n_dropped,
        "blocks": found.n_blocks,
        "blocks_of": found.folds.made_of or None,
        "setting": found.setting,
        "level": found.level,
        "scores": found.scores,
        "warnings": notes,
        "output": arguments.output,
    }
