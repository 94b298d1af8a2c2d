"""The sections of a page about one fit, each a function of the estimator and its rows."""

from __future__ import annotations

from shlex import quote
from typing import Any

import numpy as np

from knotwise.diagnosis.diagnose import Diagnosis, Finding
from knotwise.evidence.inference import inference_of
from knotwise.plotting.effects import heights_of
from knotwise.plotting.style import abridge, counted
from knotwise.plotting.view import View
from knotwise.report import pictures
from knotwise.report.data import Data
from knotwise.report.html import (
    Html,
    Picture,
    Table,
    code_block,
    fold,
    join,
    paragraph,
    picture_element,
    table_element,
    tag,
)
from knotwise.report.scores import Share
from knotwise.report.words import (
    describe_calibration,
    describe_knots_of,
    describe_tested,
    kernel_name,
    models_of,
    number,
    numbered,
    of_class,
    percent,
    sentence,
    short_name,
)

MOST_CLASSES = 12  # of a table of classes by classes
LONGEST_CLASS = 14  # letters of a class above a column
FIRST_EFFECTS, MOST_EFFECTS = 6, 100  # columns in sight, and in all
MOST_NAMES = 8  # columns in a line of code
TITLES = {"problem": "Problem", "note": "Note", "ok": "Fine", "unknown": "Not checked"}
#: questions that a diagnosis answers
QUESTIONS = {
    "convergence": "Did the fit converge?",
    "bounds": "Is a parameter at the end of its range?",
    "numerics": "Are the computations exact enough?",
    "knots": "Are there enough knots?",
    "places": "Is there a place with too few knots?",
    "neighbours": "Is something left in the residuals?",
    "spread": "Are errors as large as intervals say, in all places?",
    "data": "What could not be checked?",
}


def finding_element(finding: Finding, of: str = "") -> Html:
    """One finding: what was asked, the answer, and what to do."""
    question = f"{QUESTIONS.get(finding.name, finding.name)}{of}"
    lines = [tag("p", tag("b", f"{TITLES.get(finding.level, finding.level)}: "), question)]
    lines.append(paragraph(sentence(finding.text)))
    if finding.advice:
        lines.append(paragraph(f"What to do: {finding.advice.replace('`', '')}"))
    return tag("div", *lines, class_=f"finding level-{finding.level}")


def effects_section(view: View, data: Data) -> Html:
    """What each column does, the most important first; the rest folded away."""
    columns = list(range(min(len(view.names), MOST_EFFECTS)))
    effects = pictures.effects(view, data, columns)
    first, rest = effects[:FIRST_EFFECTS], effects[FIRST_EFFECTS:]
    heights = heights_of(effects)
    panels = pictures.effect_panels(view, data, first, heights, "picture-effects", "Effects by column")
    shown = picture_element(panels)
    note = f"Of {len(view.names)} columns the first {MOST_EFFECTS} are shown." if len(view.names) > MOST_EFFECTS else ""
    if not rest:
        return join(shown, paragraph(note, "note"))
    title = "Effects of the other columns"
    more = pictures.effect_panels(view, data, rest, heights, "picture-more-effects", title)
    return join(shown, paragraph(note, "note"), fold(f"The other {len(rest)} columns", picture_element(more)))


def warps_section(view: View) -> Html:
    """How fast the function can change along each warped column."""
    return picture_element(pictures.warps(view))


def calibration_section(view: View, data: Data, shares: list[Share], headline: Picture | None) -> Html:
    """Whether intervals and probabilities are right; the headline is not drawn again."""
    seen = headline is not None and headline.name == "picture-calibration"
    picture = Html() if seen else picture_element(pictures.calibration(view, data))
    words = f"{data.origin.text} {describe_calibration(shares)}".strip()
    return join(paragraph(words), picture, table_element(_share_table(shares), 3))


def residuals_section(view: View, data: Data, scores: dict[str, float], headline: Picture | None) -> Html:
    """How far observations are from their predictions; the headline is not drawn again."""
    pieces = []
    if not view.of_labels:
        if headline is None or headline.name != "picture-observed":
            pieces.append(picture_element(pictures.observed(data)))
        pieces.append(picture_element(pictures.pit(data)))
    table = _confusion_table(view, data) if view.classes is not None else None
    pieces += [table_element(table, 3)] if table is not None else []
    return join(*pieces, table_element(_score_table(scores), 3))


def knots_section(view: View) -> Html:
    """How many knots and why, with the steps of the selection."""
    pieces = []
    for i, (label, model) in enumerate(models_of(view.gp)):
        of = of_class(view.gp, label)
        words = sentence(f"{describe_knots_of(model)}{of}: {model.stop_reason_}")
        picture = pictures.trace(model, i, of)
        pieces += [paragraph(words), picture_element(picture) if picture is not None else Html()]
        if len(model.trace_):
            pieces.append(fold(f"All steps{of}", table_element(_trace_table(view.gp, label, model), 3)))
    return join(*pieces)


def parameters_section(view: View, target: str) -> Html:
    """Kernel, parameters with intervals, and the coefficients of the mean."""
    pieces = []
    for label, model in models_of(view.gp):
        value = f"{sentence(inference_of(model._fit.model).value_name)[:-1]}: {model.log_evidence_:,.3f}"
        of = of_class(view.gp, label)
        judged = f" {describe_tested(model)}" if view.n_classes > 2 else ""  # of one model the header says it
        pieces.append(paragraph(f"Kernel: {kernel_name(model.kernel_)}{of}. {value}.{judged}"))
        tables = [_parameter_table(view.gp, label, model), _coefficient_table(view.gp, label, model)]
        own = [table_element(table, 3) for table in tables if table is not None]
        pieces += own if view.n_classes <= 2 else [fold(f"Parameters{of}", *own)]
    return join(*pieces, paragraph(_describe_units(view, target), "note"))


def _describe_units(view: View, target: str) -> str:
    """In which units parameters are."""
    scale = f"in those of {short_name(target)}"
    if view.model.transform_ is not None:
        scale = f"in those of {view.model.transform_.of(short_name(target))}"
    elif not view.model.likelihood_.conjugate:
        scale = "on the scale of the latent function f, which the likelihood turns into the mean response"
    return (
        "Length-scales are in the units of their columns where no other are named; standard deviations (sd), which "
        f"stand for variances, and coefficients of the mean are {scale}."
    )


def checks_section(found: list[tuple[str, Diagnosis]]) -> Html:
    """Everything that was checked; problems stand at the top of the page."""
    listed = [(of, finding) for of, diagnosis in found for finding in diagnosis.shown()]
    n_bad = sum(finding.level == "problem" for _, finding in listed)
    word = f"{counted(n_bad, 'problem')}: see the top of this page." if n_bad else "No problem was found."
    shown = [finding_element(each, of) for of, each in listed if each.level not in ("problem", "ok")]
    fine = [finding_element(each, of) for of, each in listed if each.level == "ok"]
    if len(found) > 1:
        fine = [fold(f"{counted(len(fine), 'check')} of {len(found)} models that are fine", *fine)]
    return join(paragraph(word), *shown, *fine)


def predict_section(view: View, model_name: str) -> Html:
    intro = "From a model that was saved with gp.save:" if not model_name else ""
    return join(
        paragraph(intro), code_block(_python_lines(view, model_name)), paragraph("At the shell:"),
        code_block(_command_lines(view, model_name)),
    )  # fmt: skip


def _python_lines(view: View, model_name: str) -> str:
    gp = view.gp
    named = hasattr(gp, "feature_names_in_")
    if named:
        names = [str(name) for name in gp.feature_names_in_]
        more = ", ..." if len(names) > MOST_NAMES else ""
        rows = f"new = pd.read_csv('new.csv')[[{', '.join(map(repr, names[:MOST_NAMES]))}{more}]]"
    else:
        rows = f"new = ...  # an array [n, {len(view.names)}], its columns as in the fit"
    load = f"gp = knotwise.load({model_name or 'model.knotwise'!r})"
    lines = ["import knotwise", *(["import pandas as pd"] if named else []), "", load, rows, *_calls(view)]
    return "\n".join(lines)


def _calls(view: View) -> list[str]:
    if view.classes is not None:
        return ["labels = gp.predict(new)", "probabilities = gp.predict_proba(new)  # one column for each class"]
    if view.model._fit.noise_given:
        return [
            "mean = gp.predict(new)",
            "low, high = gp.predict_interval(new, 0.95, kind='mean').T  # of the function",
            "low, high = gp.predict_interval(new, 0.95, noise_variance=noise_variance).T  # of new observations",
        ]
    size: Any = view.model.likelihood_.size_name if view.model._fit.size_given else None
    if size:
        unit = "per unit of exposure" if size == "exposure" else "per trial"
        return [
            f"rate = gp.predict(new, {size}=1)  # {unit}",
            f"low, high = gp.predict_interval(new, 0.95, {size}={size}).T  # of new counts",
        ]
    return ["mean, sd = gp.predict(new, return_std=True)", "low, high = gp.predict_interval(new, 0.95).T"]


def _command_lines(view: View, model_name: str) -> str:
    """The same at the shell."""
    size: Any = None if view.classes is not None else view.model.likelihood_.size_name
    more = f" --{size} COLUMN" if size and view.model._fit.size_given else ""
    more = " --noise-variance COLUMN" if view.model._fit.noise_given else more
    inputs = "" if hasattr(view.gp, "feature_names_in_") else " --inputs A,B,..."
    return f"knotwise predict {quote(model_name or 'model.knotwise')} new.csv{more}{inputs} -o predictions.csv"


def facts(values: dict[str, Any]) -> Html:
    return tag("dl", *(tag("div", tag("dt", name), tag("dd", str(value))) for name, value in values.items() if value))


# -- tables -----------------------------------------------------------------------------------------


def _parameter_table(gp: Any, label: Any, model: Any) -> Table:
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


def _coefficient_table(gp: Any, label: Any, model: Any) -> Table | None:
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


def _score_table(scores: dict[str, float]) -> Table:
    lines = tuple((name.replace("_", " "), number(value)) for name, value in scores.items())
    return Table("Errors", ("what", "value"), lines)


def _share_table(shares: list[Share]) -> Table:
    """What was predicted and what happened, beside the range of a right model."""
    lines = tuple(
        (s.what, percent(s.predicted), percent(s.observed), f"{100 * s.low:.1f} to {percent(s.high)}", s.problem)
        for s in shares
    )
    columns = ("what", "predicted", "observed", "right model", "note")
    kept = 5 if any(line[4] for line in lines) else 4
    note = "The range is that of 99 % of right models, if rows are independent."
    return Table("Shares", columns[:kept], tuple(line[:kept] for line in lines), note)


def _confusion_table(view: View, data: Data) -> Table | None:
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


def _trace_table(gp: Any, label: Any, model: Any) -> Table:
    lines = []
    for i, step in enumerate(model.trace_):
        share = "" if np.isnan(step.share) else f"{step.share:.3f}"
        cells = (str(i), str(step.action), str(step.n_knots), f"{step.evidence:.3f}", share, f"{step.seconds:.2f}")
        lines.append((*cells, step.note))
    columns = ("step", "action", "knots", "log evidence", "unexplained share", "time, s", "note")
    name = numbered("steps-of", gp, model)
    return Table(f"Steps of the selection{of_class(gp, label)}", columns, tuple(lines), name=name)
