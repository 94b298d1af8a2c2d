"""`knotwise report`: a page about a model in a file."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

from knotwise.cli.command import UsageError, note, print_json, warnings_as_notes
from knotwise.cli.loading import (
    KNOWN_OPTIONS,
    choose_columns,
    given_options,
    load_model,
    observed_values,
    option_word,
    require_option,
)
from knotwise.cli.output import check_output
from knotwise.cli.predicting import say_what_was_left_out
from knotwise.cli.reading import open_table
from knotwise.cli.rows import read_rows, told_with_places
from knotwise.cli.tables import Table
from knotwise.errors import unknown_option
from knotwise.plotting.style import require_matplotlib

__all__ = ["run"]

ENDINGS = (".html", ".htm")


def run(arguments: Namespace) -> None:
    output = arguments.output or Path(arguments.model.with_suffix(".html").name)
    if output.suffix.lower() not in ENDINGS:
        raise unknown_option("The ending of the page's name", output.suffix, ENDINGS)
    given = [option_word(name) for name in ("target", *KNOWN_OPTIONS, "inputs") if getattr(arguments, name) is not None]
    if arguments.data is None and given:
        raise UsageError(f"{given[0]} is about a table: knotwise report MODEL DATA {given[0]} ...")
    check_output(output, inputs=[arguments.model, arguments.data or "-"])
    gp = load_model(arguments)
    require_matplotlib()
    from knotwise.report.page import write_report

    names: dict[str, Any] = {"model_name": arguments.model.name, "title": arguments.title}
    with warnings_as_notes():
        if arguments.data is None:
            write_report(gp, output, **names)
        else:
            _report_on_table(gp, output, arguments, names)
    if arguments.json:
        print_json({"output": str(output)})
    else:
        note(f"wrote {output}")


def _report_on_table(gp: Any, output: Path, arguments: Namespace, names: dict[str, Any]) -> None:
    from knotwise.report.page import write_report

    with open_table(arguments) as table:
        arguments.target = arguments.target or _only_other_column(gp, table, arguments)
        if arguments.target is not None:
            require_option(gp, arguments)
        rows = read_rows(table, choose_columns(gp, table, arguments), drop_missing=arguments.drop_missing)
    say_what_was_left_out(rows.n_dropped)
    y = observed_values(gp, table, rows, arguments)
    names |= {"data_name": Path(table.name).name, "target": arguments.target, **rows.extras}
    with told_with_places(rows, table):
        write_report(gp, output, rows.X, y, **names)


def _only_other_column(gp: Any, table: Table, arguments: Namespace) -> str | None:
    """The one column that is neither an input nor a size: it has the observed values. Said, or asked for."""
    inputs = arguments.inputs or [str(name) for name in getattr(gp, "feature_names_in_", ())]
    taken = {*inputs, *given_options(arguments).values()}
    others = [name for name in table.columns if name and name not in taken]
    if len(others) == 1:
        note(f"the observed values are taken from {others[0]!r}, the only column that is no input")
        return others[0]
    if others:
        note("no observed values: name their column with --target to have calibration and residuals on the page")
    return None
