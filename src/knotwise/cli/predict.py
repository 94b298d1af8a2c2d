"""`knotwise predict`: from a model and a table to predictions, in pieces, so that memory stays bounded."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from typing import Any

import numpy as np

from knotwise.cli.command import UsageError
from knotwise.cli.loading import choose_columns, load_model, require_size_option, size_name, unit_name
from knotwise.cli.messages import note, print_json, warnings_as_notes
from knotwise.cli.output import check_output, write_table
from knotwise.cli.parts import are_parts
from knotwise.cli.reading import open_table
from knotwise.cli.rows import Rows, Wanted, errors_with_places, iterate_rows
from knotwise.cli.tables import Table, kind_of_file

__all__ = ["Counted", "check_arguments", "predict_rows", "predict_table", "run", "say_what_was_left_out"]

LEVEL = 0.95


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
    with open_table(arguments.data, arguments.separator, arguments.decimal) as table:
        yield from predict_table(gp, table, choose_columns(gp, table, arguments), arguments)


def predict_table(
    gp: Any, table: Table, wanted: Wanted, arguments: Namespace, *, may_be_empty: bool = False
) -> Iterator[tuple[dict[str, Any], int]]:
    """The same of a table that is open."""
    for rows in iterate_rows(table, wanted, drop_missing=arguments.drop_missing, may_be_empty=may_be_empty):
        with errors_with_places(rows, table):
            found = predict_rows(gp, rows, arguments) if len(rows) else {}
        double = next((name for name in found if name in rows.kept), None)
        if double is not None:
            raise UsageError(f"--keep names {double!r}, which is a column of the predictions too. Rename it.")
        yield rows.kept | found, rows.n_dropped


def predict_rows(gp: Any, rows: Rows, arguments: Namespace) -> dict[str, list[Any]]:
    """Predicted columns of some rows."""
    if hasattr(gp, "classes_"):
        return _predict_labels(gp, rows.X, arguments.interval)
    kind, level, sizes = arguments.kind or "observation", arguments.interval or LEVEL, rows.extras
    gaussian = gp.likelihood_.conjugate
    std = None
    if kind == "latent":
        latent = gp.predict_latent(rows.X)
        centre, std = latent.mean, np.sqrt(latent.variance)
    elif kind == "observation":
        centre, std = (
            gp.predict(rows.X, return_std=True, **sizes) if arguments.std else (gp.predict(rows.X, **sizes), None)
        )
    else:  # the mean of a skewed response can leave the interval of its own parameter; the median cannot
        centre = gp.predict(rows.X) if gaussian else gp.predict_median(rows.X, **sizes)
        std = np.sqrt(gp.predict_latent(rows.X).variance) if arguments.std else None
    low, high = gp.predict_interval(rows.X, level, kind, **sizes).T
    columns = {"prediction": centre, "std": std if arguments.std else None, "lower": low, "upper": high}
    return {name: values.tolist() for name, values in columns.items() if values is not None}


def _predict_labels(gp: Any, X: np.ndarray, level: float | None) -> dict[str, list[Any]]:
    proba = gp.predict_proba(X)
    classes = gp.classes_
    columns = {"prediction": classes[np.argmax(proba, axis=1)].tolist()}
    columns |= {f"probability_{label}": p.tolist() for label, p in zip(classes.tolist(), proba.T, strict=True)}
    if level is not None:
        low, high = gp.predict_interval(X, level).T
        columns |= {f"lower_{classes[1]}": low.tolist(), f"upper_{classes[1]}": high.tolist()}
    return columns


def say_what_was_left_out(n_dropped: int) -> None:
    if n_dropped:
        note(f"left out {n_dropped} rows, which have missing values")


def check_arguments(gp: Any, arguments: Namespace) -> None:
    """Refuse what the model cannot tell, and say for which unit it tells the rest."""
    _refuse_other_kinds(gp, arguments)
    if arguments.kind in (None, "observation"):
        require_size_option(gp, arguments, "; or ask for the rate with --kind mean")
    _say_for_which_unit(gp, arguments)


def _refuse_other_kinds(gp: Any, arguments: Namespace) -> None:
    if hasattr(gp, "classes_"):
        if arguments.kind or arguments.std:
            raise UsageError("--kind and --std are for numbers, and the model is a classifier: leave them out.")
        if arguments.interval is not None and len(gp.classes_) > 2:
            raise UsageError("--interval is for two classes, and the model has more: leave it out.")
        return
    if arguments.std and arguments.kind == "mean" and not gp.likelihood_.conjugate:
        raise UsageError("--std of the mean is for Gaussian data: leave it out, or ask for --kind latent.")


def _say_for_which_unit(gp: Any, arguments: Namespace) -> None:
    """Say what is easily forgotten: that counts are for one unit."""
    size = size_name(gp)
    if size is not None and getattr(arguments, size) is None and arguments.kind != "latent":
        note(f"predictions are for one {unit_name(size)}; name the column of another number with --{size}")


class Counted:
    """Pieces that are counted as they pass."""

    def __init__(self, pieces: Iterator[tuple[dict[str, Any], int]]) -> None:
        self._pieces, self.n_rows, self.n_dropped = pieces, 0, 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for piece, n_dropped in self._pieces:
            self.n_dropped += n_dropped
            n = len(next(iter(piece.values()), ()))
            self.n_rows += n
            if n:
                yield piece


def _facts(pieces: Counted, told: list[str], result: dict[str, Any]) -> dict[str, Any]:
    return {"rows": pieces.n_rows, "dropped": pieces.n_dropped, "warnings": told} | result
