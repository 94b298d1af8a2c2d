"""Predictions of a table, in pieces: the columns that are asked for, and what a model cannot tell."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from typing import Any

import numpy as np

from knotwise.cli.command import UsageError, note
from knotwise.cli.loading import given_options, require_option, size_name, unit_name
from knotwise.cli.parts import are_parts
from knotwise.cli.rows import Rows, Wanted, iterate_rows, read_rows, told_with_places
from knotwise.cli.tables import Table
from knotwise.data.exposure import exposure_of
from knotwise.data.validation import generator_from
from knotwise.plotting.style import counted

__all__ = ["Counted", "check_arguments", "predict_table", "say_what_was_left_out"]

LEVEL = 0.95
N_SAMPLES = 2000  # for the exceedance of several classes


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
        with told_with_places(rows, table):
            found = predict_rows(gp, rows, arguments) if len(rows) else {}
        places = {table.unit: rows.places.tolist()} if arguments.drop_missing else {}
        double = next((name for name in places | found if name in rows.kept), None)
        if double is not None:
            raise UsageError(f"--keep names {double!r}, which is a column of the predictions too. Rename it.")
        yield places | rows.kept | found, rows.n_dropped


def predict_rows(gp: Any, rows: Rows, arguments: Namespace) -> dict[str, list[Any]]:
    """Predicted columns of some rows."""
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


def say_what_was_left_out(n_dropped: int) -> None:
    if n_dropped:
        note(f"left out {counted(n_dropped, 'row')} with missing values")


def check_arguments(gp: Any, arguments: Namespace) -> None:
    """Refuse what the model cannot tell and what contradicts itself, and say for which unit it tells the rest."""
    _refuse_contradictions(arguments)
    _refuse_other_kinds(gp, arguments)
    if arguments.kind in (None, "observation"):
        what = "function" if gp_is_gaussian(gp) else "rate"
        require_option(gp, arguments, f"; or ask for the {what} with --kind mean")
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
    size = size_name(gp)
    if size is not None and not given_options(arguments) and arguments.kind != "latent":
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
