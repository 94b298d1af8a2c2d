"""`knotwise predict`: from a model and a table to predictions, in pieces, so that memory stays bounded.

Of a table in several Parquet files there is one file of predictions for each, in a folder.
"""

from __future__ import annotations

import os
import shutil
import uuid
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from knotwise.cli.command import UsageError, print_json, warnings_as_notes
from knotwise.cli.loading import choose_columns, load_model
from knotwise.cli.output import check_output, write_table
from knotwise.cli.parquet import open_parquet, write_no_rows, write_parquet
from knotwise.cli.parts import are_parts, check_parts, files_of, open_first, workers
from knotwise.cli.predicting import Counted, check_arguments, predict_table, say_what_was_left_out
from knotwise.cli.reading import open_table
from knotwise.cli.rows import Wanted
from knotwise.cli.tables import PARQUET, TEXT, kind_of_file
from knotwise.errors import InvalidInputError

__all__ = ["run"]


def run(arguments: Namespace) -> None:
    if are_parts(arguments):
        predict_parts(arguments)
        return
    kind_of_file(arguments.output)
    check_output(arguments.output, inputs=[arguments.model, arguments.data])
    gp = load_model(arguments)
    with warnings_as_notes() as told:
        check_arguments(gp, arguments)
        pieces = Counted(_predictions(gp, arguments))
        result: dict[str, Any] = {"output": arguments.output}
        if arguments.json and arguments.output == "-":
            records = [dict(zip(p, row, strict=True)) for p in pieces for row in zip(*p.values(), strict=True)]
            result = {"predictions": records}
        else:
            write_table(arguments.output, pieces, raw_text=arguments.raw_text)
        if arguments.json:
            print_json({"rows": pieces.n_rows, "dropped": pieces.n_dropped, "warnings": told} | result)
    say_what_was_left_out(pieces.n_dropped)


def _predictions(gp: Any, arguments: Namespace) -> Iterator[tuple[dict[str, Any], int]]:
    """Predicted columns of the table, piece by piece, and how many rows were left out."""
    with open_table(arguments) as table:
        yield from predict_table(gp, table, choose_columns(gp, table, arguments), arguments)


# -- several files ----------------------------------------------------------------------------------


def predict_parts(arguments: Namespace) -> None:
    """Predict the files one by one where they are read; some thousand rows of each are in memory at a time."""
    folder = _output_folder(arguments.output)
    files = files_of(arguments.data)
    gp = load_model(arguments)
    with warnings_as_notes() as told, workers(arguments):
        check_arguments(gp, arguments)
        with open_first(files) as table:
            wanted = choose_columns(gp, table, arguments)
        check_parts(files, wanted.columns)
        with whole_folder(folder) as unfinished:
            targets = [unfinished / name for name in part_names(files)]
            counts = _compute(gp, PredictFile(wanted, arguments), files, targets)
            _complete(arguments.data, targets, [n_rows for n_rows, _ in counts])
    n_rows, n_dropped = (sum(each) for each in zip(*counts, strict=True))
    say_what_was_left_out(n_dropped)
    if arguments.json:
        found = {"rows": n_rows, "dropped": n_dropped, "warnings": told, "output": str(folder), "parts": len(files)}
        print_json(found)


@dataclass(frozen=True)
class PredictFile:
    """A task: predict the rows of one file to another, and count those that were predicted and left out."""

    wanted: Wanted
    arguments: Namespace

    def __call__(self, gp: Any, source: str, target: Path) -> tuple[int, int]:
        with open_parquet(source) as table:
            pieces = Counted(predict_table(gp, table, self.wanted, self.arguments, may_be_empty=True))
            write_parquet(target, pieces)
        return pieces.n_rows, pieces.n_dropped


def part_names(files: Sequence[str]) -> list[str]:
    """The names of the files, with their numbers in front where the names alone are not in the same order."""
    names = [Path(file).name for file in files]
    if sorted(set(names)) == names:
        return names
    width = len(str(len(names) - 1))
    return [f"{i:0{width}}-{name}" for i, name in enumerate(names)]


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """A folder to write to, which takes its name when all is there; after an error nothing of it is left."""
    unfinished = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}.tmp")
    unfinished.mkdir()
    try:
        yield unfinished
        if folder.exists():
            folder.rmdir()
        os.rename(unfinished, folder)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def _output_folder(output: str) -> Path:
    """The folder that the predictions make; anything that would be lost or mixed with them is refused."""
    folder = Path(output)
    if output == "-" or folder.suffix.lower() in (*TEXT, *PARQUET):
        raise UsageError("Several files, and workers, predict to a folder: name a new one with -o FOLDER.")
    folder = folder.absolute()
    if folder.is_dir():
        n_files = sum(1 for _ in folder.iterdir())
        if n_files:
            raise InvalidInputError(
                f"The folder {output!r} is not empty: it has {n_files} file{'s' if n_files > 1 else ''}. Name a new "
                "folder, or remove it first."
            )
    elif folder.exists():
        raise InvalidInputError(f"The output {output!r} is a file, and a folder is needed. Give another name.")
    if not folder.parent.is_dir():
        raise InvalidInputError(f"There is no folder {str(folder.parent)!r} for the output. Make it first.")
    if not os.access(folder.parent, os.W_OK):
        raise InvalidInputError(f"The folder {str(folder.parent)!r} of the output cannot be written to.")
    return folder


def _compute(gp: Any, task: PredictFile, files: Sequence[str], targets: Sequence[Path]) -> list[tuple[int, int]]:
    """Run the task for each file, on the workers or on threads of this process."""
    from dask import delayed

    from knotwise.distributed.places import place_for
    from knotwise.numerics.blocks import Serial

    model, call = delayed(_for_tasks(gp), pure=False, traverse=False), delayed(task, pure=False)
    places = [(str(Path(file).absolute()), target) for file, target in zip(files, targets, strict=True)]
    return place_for(Serial()).compute([call(model, *each) for each in places])


def _for_tasks(gp: Any) -> Any:
    """A copy of the model for one thread, which takes arrays: columns are found by their names before."""
    from knotwise.estimators.lazy import without_training_data

    model = without_training_data(gp)
    for each in (model, *getattr(model, "models_", ())):
        each.__dict__.pop("feature_names_in_", None)
    return model


def _complete(data: str, targets: Sequence[Path], n_rows: Sequence[int]) -> None:
    """Give files without rows the columns of the others, and see to it that all are there."""
    lost = next((target.name for target in targets if not target.exists()), None)
    if lost is not None:
        raise InvalidInputError(
            f"A worker has written the predictions {lost!r}, but they are not in the folder here: the workers must see "
            "the folder of the output under the same name."
        )
    some = next((target for target, n in zip(targets, n_rows, strict=True) if n), None)
    if some is None:
        raise InvalidInputError(f"No row is left in any of the {len(targets)} files of {data}.")
    for target, n in zip(targets, n_rows, strict=True):
        if not n:
            write_no_rows(target, some)
