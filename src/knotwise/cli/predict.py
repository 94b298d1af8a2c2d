"""`knotwise predict`: from a model and a table to predictions, in pieces, so that memory stays bounded."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from typing import Any

from knotwise.cli.command import print_json, warnings_as_notes
from knotwise.cli.loading import choose_columns, load_model
from knotwise.cli.output import check_output, write_table
from knotwise.cli.parts import are_parts
from knotwise.cli.predicting import Counted, check_arguments, predict_table, say_what_was_left_out
from knotwise.cli.reading import open_table
from knotwise.cli.tables import kind_of_file

__all__ = ["run"]


def run(arguments: Namespace) -> None:
    if are_parts(arguments):
        from knotwise.cli.predict_parts import predict_parts

        predict_parts(arguments)
        return
    kind_of_file(arguments.output)
    check_output(arguments.output, inputs=[arguments.model, arguments.data])
    gp = load_model(arguments)
    with warnings_as_notes() as told:
        check_arguments(gp, arguments)
        pieces = Counted(predictions(gp, arguments))
        if not arguments.json:
            write_table(arguments.output, pieces, raw_text=arguments.raw_text)
        elif arguments.output != "-":
            write_table(arguments.output, pieces, raw_text=arguments.raw_text)
            print_json(_facts(pieces, told, {"output": arguments.output}))
        else:
            records = [dict(zip(p, row, strict=True)) for p in pieces for row in zip(*p.values(), strict=True)]
            print_json(_facts(pieces, told, {"predictions": records}))
    say_what_was_left_out(pieces.n_dropped)


def predictions(gp: Any, arguments: Namespace) -> Iterator[tuple[dict[str, Any], int]]:
    """Predicted columns of the table, piece by piece, and how many rows were left out."""
    with open_table(arguments) as table:
        yield from predict_table(gp, table, choose_columns(gp, table, arguments), arguments)


def _facts(pieces: Counted, told: list[str], result: dict[str, Any]) -> dict[str, Any]:
    return {"rows": pieces.n_rows, "dropped": pieces.n_dropped, "warnings": told} | result
