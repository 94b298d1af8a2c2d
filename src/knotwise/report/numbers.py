"""The tables of a page: parameters, coefficients, scores, shares, the steps of a selection."""

from __future__ import annotations

from typing import Any

import numpy as np

from knotwise.plotting.style import abridge
from knotwise.plotting.view import View
from knotwise.report.data import Data
from knotwise.report.html import Table
from knotwise.report.scores import Share
from knotwise.report.words import number, numbered, of_class, percent, sentence, short_name

__all__ = ["coefficient_table", "confusion_table", "parameter_table", "score_table", "share_table", "trace_table"]

MOST_CLASSES = 12  # of a table of classes by classes
LONGEST_CLASS = 14  # letters of a class above a column


def parameter_table(gp: Any, label: Any, model: Any) -> Table:
    """Parameters as they are read, with standard errors and 95 % intervals, in the units of the data.

    The name says where a variance is read as a standard deviation, and units that are not those of a column or of y.
    """
    estimates = model.parameters_.estimates()
    lines = []
    for line in estimates.lines:
        known = np.isfinite(line.standard_error)
        ends = [number(v) for v in (line.lower_95, line.upper_95, line.standard_error)] if known else ["", "", ""]
        parameter = line.parameter.removesuffix(f"[{line.column}]")  # which names its column again
        name = f"{parameter}, {short_name(line.column)}" if line.column else line.parameter
        name += ", as sd" if line.reads_as == "sd" else ""
        name += f" ({line.units})" if line.column and line.units not in ("", line.column) else ""
        lines.append((name, number(line.estimate), *ends, line.remark))
    columns = ["parameter", "estimate", "lower 95 %", "upper 95 %", "std. error", "note"]
    kept = [i for i, name in enumerate(columns) if name != "note" or any(line[i] for line in lines)]
    return Table(
        f"Values and intervals{of_class(gp, label)}",
        tuple(columns[i] for i in kept),
        tuple(tuple(line[i] for i in kept) for line in lines),
        sentence(estimates.remark),
        numbered("parameters-of", gp, model),
    )


def coefficient_table(gp: Any, label: Any, model: Any) -> Table | None:
    """Level or trend of the mean, with standard errors; None where it has none."""
    found = model.coefficients_
    if not len(found.estimate) or not np.isfinite(found.standard_error).all():
        return None
    numbers = np.column_stack([found.estimate, found.interval(0.95), found.standard_error])
    lines = tuple(
        (short_name(name), *map(number, row)) for name, row in zip(found.names, numbers.tolist(), strict=True)
    )
    columns = ("parameter", "estimate", "lower 95 %", "upper 95 %", "std. error")
    name = numbered("coefficients-of", gp, model)
    return Table(f"Coefficients of the mean{of_class(gp, label)}", columns, lines, name=name)


def score_table(scores: dict[str, float]) -> Table:
    """How near predictions are."""
    lines = tuple((name.replace("_", " "), number(value)) for name, value in scores.items())
    return Table("Errors", ("what", "value"), lines)


def share_table(shares: list[Share]) -> Table:
    """What was predicted and what happened, beside the range of a right model."""
    lines = tuple(
        (s.what, percent(s.predicted), percent(s.observed), f"{100 * s.low:.1f} to {percent(s.high)}", s.problem)
        for s in shares
    )
    columns = ("what", "predicted", "observed", "right model", "note")
    kept = 5 if any(line[4] for line in lines) else 4
    note = "The range is that of 99 % of right models, if rows are independent."
    return Table("Shares", columns[:kept], tuple(line[:kept] for line in lines), note)


def confusion_table(view: View, data: Data) -> Table | None:
    """How many rows of each class were predicted to be of each; None of too many classes."""
    classes = view.classes or []
    if len(classes) > MOST_CLASSES or data.y is None:
        return None
    predicted = view.gp.classes_[data.prediction.proba.argmax(1)].tolist()
    counts = {(a, b): 0 for a in classes for b in classes}
    for pair in zip(data.y.tolist(), predicted, strict=True):
        counts[pair] += 1
    lines = tuple((short_name(a), *(f"{counts[a, b]:,}" for b in classes)) for a in classes)
    names = ("observed class", *(abridge(label, LONGEST_CLASS) for label in classes))
    return Table("Classes observed and predicted", names, lines, "Columns are predictions.")


def trace_table(gp: Any, label: Any, model: Any) -> Table:
    """The steps of a selection."""
    lines = []
    for i, step in enumerate(model.trace_):
        share = "" if np.isnan(step.share) else f"{step.share:.3f}"
        cells = (str(i), str(step.action), str(step.n_knots), f"{step.evidence:.3f}", share, f"{step.seconds:.2f}")
        lines.append((*cells, step.note))
    columns = ("step", "action", "knots", "log evidence", "unexplained share", "time, s", "note")
    name = numbered("steps-of", gp, model)
    return Table(f"Steps of the selection{of_class(gp, label)}", columns, tuple(lines), name=name)
