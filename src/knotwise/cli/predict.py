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

import numpy as np

from knotwise.cli import loading
from knotwise.cli.command import UsageError, note, print_json, warnings_as_notes
from knotwise.cli.output import check_output, write_table
from knotwise.cli.parquet import (
    are_parts,
    columns_of_all,
    files_of,
    open_parquet,
    workers,
    write_no_rows,
    write_parquet,
)
from knotwise.cli.reading import open_table
from knotwise.cli.rows import Rows, Wanted, errors_with_places, iterate_rows, read_rows
from knotwise.cli.tables import PARQUET, TEXT, Table, kind_of_file
from knotwise.data.exposure import exposure_of
from knotwise.data.validation import generator_from
from knotwise.errors import InvalidInputError

LEVEL = 0.95
N_SAMPLES = 2000  # for the exceedance of several classes


def run(arguments: Namespace) -> None:
    if are_parts(arguments):
        predict_parts(arguments)
        return
    kind_of_file(arguments.output)
    check_output(arguments.output, inputs=[arguments.model, arguments.data])
    gp = loading.load_model(arguments)
    with warnings_as_notes() as notes:
        check_arguments(gp, arguments)
        pieces = Counted(_predictions(gp, arguments))
        result: dict[str, Any] = {"output": arguments.output}
        if arguments.json and arguments.output == "-":
            records = [dict(zip(p, row, strict=True)) for p in pieces for row in zip(*p.values(), strict=True)]
            result = {"predictions": records}
        else:
            write_table(arguments.output, pieces, raw_text=arguments.raw_text)
        if arguments.json:
            print_json({"rows": pieces.n_rows, "dropped": pieces.n_dropped, "warnings": notes} | result)
    loading.say_what_was_left_out(pieces.n_dropped)


def _predictions(gp: Any, arguments: Namespace) -> Iterator[tuple[dict[str, Any], int]]:
    """Predicted columns of the table, piece by piece, and how many rows were left out."""
    with open_table(arguments) as table:
        yield from predict_table(gp, table, loading.choose_columns(gp, table, arguments), arguments)


def predict_table(
    gp: Any, table: Table, wanted: Wanted, arguments: Namespace, *, may_be_empty: bool = False
) -> Iterator[tuple[dict[str, Any], int]]:
    """Predicted columns of an open table, piece by piece, and how many rows were left out.

    Where rows may be left out, the first column says where in the file each of the others is.
    """
    if arguments.samples is None:
        pieces = iterate_rows(table, wanted, drop_missing=arguments.drop_missing, may_be_empty=may_be_empty)
    else:  # samples of rows depend on each other, so that all rows are drawn at once
        pieces = iter([read_rows(table, wanted, drop_missing=arguments.drop_missing)])
    for rows in pieces:
        with errors_with_places(rows, table):
            found = predict_rows(gp, rows, arguments) if len(rows) else {}
        places = {table.unit: rows.places.tolist()} if arguments.drop_missing else {}
        double = next((name for name in places | found if name in rows.kept), None)
        if double is not None:
            raise UsageError(f"--keep names {double!r}, which is a column of the predictions too. Rename it.")
        yield places | rows.kept | found, rows.n_dropped


def predict_rows(gp: Any, rows: Rows, arguments: Namespace) -> dict[str, list[Any]]:
    if hasattr(gp, "classes_"):
        return _predict_labels(gp, rows.X, arguments)
    kind, known = arguments.kind or "observation", dict(rows.extras)
    exposure = exposure_of(known.pop("exposure", None), known.pop("offset", None))
    prediction = gp._prediction(rows.X, exposure=exposure, **known)
    if kind == "observation":
        columns = {"prediction": prediction.mean} | ({"std": prediction.std} if arguments.std else {})
    else:
        # the mean of a skewed response can leave the interval of its own parameter; the median cannot
        mean = prediction.mean if gp_is_gaussian(gp) else prediction.median()
        latent = prediction.latent
        columns = {"prediction": latent.mean if kind == "latent" else mean}
        columns |= {"std": latent.std} if arguments.std else {}
    for suffix, level in _levels(arguments, default=LEVEL):
        columns["lower" + suffix], columns["upper" + suffix] = prediction.interval(level, kind).T
    for threshold in arguments.exceed:
        columns[f"exceeds_{threshold:g}"] = prediction.exceedance(threshold)
    if arguments.samples is not None:
        drawn = _draw(gp, rows, kind, prediction.size, arguments)
        columns |= {f"sample_{i}": values for i, values in enumerate(drawn, start=1)}
    return {name: np.asarray(values).tolist() for name, values in columns.items()}


def gp_is_gaussian(gp: Any) -> bool:
    """Whether a model is of Gaussian data, whose mean is the function itself."""
    return not hasattr(gp, "classes_") and gp.likelihood_.conjugate


def _levels(arguments: Namespace, default: float | None) -> list[tuple[str, float]]:
    """Levels of the intervals, and what the names of their columns end in."""
    if arguments.level:
        return [(f"_{100 * level:g}", level) for level in arguments.level]
    level = arguments.interval or default
    return [] if level is None else [("", level)]


def _draw(gp: Any, rows: Rows, kind: str, size: Any, arguments: Namespace) -> np.ndarray:
    """Joint samples of new observations, of their means or of the latent function, [samples, rows]."""
    if kind == "observation":
        return gp.sample_observations(rows.X, arguments.samples, random_state=arguments.seed, **rows.extras)
    f = gp.sample_latent(rows.X, arguments.samples, random_state=arguments.seed)
    if kind == "latent" or gp_is_gaussian(gp):
        return f
    return gp.likelihood_.conditional_mean(f, size)


def _predict_labels(gp: Any, X: np.ndarray, arguments: Namespace) -> dict[str, list[Any]]:
    prediction, classes = gp._prediction(X), gp.classes_.tolist()
    proba = prediction.proba
    columns = {"prediction": gp.classes_[np.argmax(proba, axis=1)]}
    columns |= {f"probability_{label}": p for label, p in zip(classes, proba.T, strict=True)}
    for suffix, level in _levels(arguments, default=None):
        low, high = prediction.each[0].interval(level, "mean").T
        columns |= {f"lower_{classes[1]}{suffix}": low, f"upper_{classes[1]}{suffix}": high}
    for threshold in arguments.exceed:
        above = prediction.exceedance(threshold, None, N_SAMPLES, generator_from(arguments.seed))
        own = classes if above.ndim == 2 else classes[1:]
        columns |= {f"exceeds_{label}_{threshold:g}": p for label, p in zip(own, np.atleast_2d(above.T), strict=True)}
    return {name: values.tolist() for name, values in columns.items()}


def check_arguments(gp: Any, arguments: Namespace) -> None:
    """Refuse what the model cannot tell and what contradicts itself, and say for which unit it tells the rest."""
    _refuse_contradictions(arguments)
    _refuse_other_kinds(gp, arguments)
    if arguments.kind in (None, "observation"):
        what = "function" if gp_is_gaussian(gp) else "rate"
        loading.require_option(gp, arguments, f"; or ask for the {what} with --kind mean")
    _say_for_which_unit(gp, arguments)


def _refuse_contradictions(arguments: Namespace) -> None:
    if arguments.samples is not None and are_parts(arguments):
        raise UsageError("--samples are joint draws of the rows of one table, and DATA is several files: name one.")
    if arguments.level and arguments.interval is not None:
        raise UsageError("--interval P is the short form of one level: leave it out, or --level.")
    for option, values in (("--level", arguments.level), ("--exceed", arguments.exceed)):
        double = next((value for value in values if values.count(value) > 1), None)
        if double is not None:
            raise UsageError(f"{option} has {double:g} twice: name each once.")


def _refuse_other_kinds(gp: Any, arguments: Namespace) -> None:
    if hasattr(gp, "classes_"):
        if arguments.kind or arguments.std:
            raise UsageError("--kind and --std are for numbers, and the model is a classifier: leave them out.")
        if arguments.samples is not None:
            raise UsageError("--samples are of numbers, and the model is a classifier: use `sample_latent` in Python.")
        if _levels(arguments, default=None) and len(gp.classes_) > 2:
            raise UsageError("--interval and --level are for two classes, and the model has more: leave them out.")
        outside = next((value for value in arguments.exceed if not 0 < value < 1), None)
        if outside is not None:
            raise UsageError(f"--exceed is {outside:g}, but of a class it is a probability between 0 and 1.")
        return
    if arguments.std and arguments.kind == "mean" and not gp.likelihood_.conjugate:
        raise UsageError("--std of the mean is for Gaussian data: leave it out, or ask for --kind latent.")


def _say_for_which_unit(gp: Any, arguments: Namespace) -> None:
    """Say what is easily forgotten: that counts are for one unit."""
    size = loading.size_name(gp)
    if size is not None and not loading.given_options(arguments) and arguments.kind != "latent":
        note(f"predictions are for one {loading.unit_name(size)}; name the column of another number with --{size}")


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


# -- several files ----------------------------------------------------------------------------------


def predict_parts(arguments: Namespace) -> None:
    """Predict the files one by one where they are read; some thousand rows of each are in memory at a time."""
    folder = _output_folder(arguments.output)
    files = files_of(arguments.data)
    gp = loading.load_model(arguments)
    with warnings_as_notes() as notes, workers(arguments):
        check_arguments(gp, arguments)
        wanted = columns_of_all(files, lambda table: loading.choose_columns(gp, table, arguments))
        with whole_folder(folder) as unfinished:
            targets = [unfinished / name for name in part_names(files)]
            counts = _compute(gp, PredictFile(wanted, arguments), files, targets)
            _complete(arguments.data, targets, [n_rows for n_rows, _ in counts])
    n_rows, n_dropped = (sum(each) for each in zip(*counts, strict=True))
    loading.say_what_was_left_out(n_dropped)
    if arguments.json:
        found = {"rows": n_rows, "dropped": n_dropped, "warnings": notes, "output": str(folder), "parts": len(files)}
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
    from knotwise.estimators.averaging import latent_models
    from knotwise.estimators.lazy import without_training_data

    model = without_training_data(gp)
    for each in (model, *latent_models(model)):
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
