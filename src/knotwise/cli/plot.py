"""`knotwise plot` and `knotwise report`: a picture of a model in a file, and a page about it."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np

from knotwise import plotting
from knotwise.cli import loading
from knotwise.cli.command import UsageError, note, print_json, warnings_as_notes
from knotwise.cli.output import check_output
from knotwise.cli.reading import open_table
from knotwise.cli.rows import errors_with_places, read_rows
from knotwise.cli.tables import Table
from knotwise.errors import unknown_option
from knotwise.plotting import style
from knotwise.plotting.view import Named

ENDINGS = (".png", ".svg", ".pdf")
PAGE_ENDINGS = (".html", ".htm")
#: which options a kind of picture takes; all but a trace take DATA
OPTIONS = {
    "fit": {"target", "feature", "at", "interval", *loading.KNOWN_OPTIONS},
    "map": {"target", "feature", "at", "what", "threshold", "label", "interval"},
    "effects": {"target", "interval"},
    "trace": {"label"},
    "calibration": {"target", *loading.KNOWN_OPTIONS, "label"},
    "pit": {"target", *loading.KNOWN_OPTIONS},
    "observed": {"target", "interval", *loading.KNOWN_OPTIONS},
}
NEEDS_TARGET = ("calibration", "pit", "observed")
NEEDS_SIZE = ("fit", *NEEDS_TARGET)  # of counts, or known noise


def plot(arguments: Namespace) -> None:
    _check_arguments(arguments)
    check_output(arguments.output, inputs=[arguments.model, arguments.data or "-"])
    gp = loading.load_model(arguments)
    _check_fitting(gp, arguments)
    style.require_matplotlib().use("agg")  # no window, also where there is no screen
    from matplotlib import pyplot

    try:
        with warnings_as_notes():
            axes = _draw(gp, arguments)
        style.save(np.ravel(axes)[0].figure, arguments.output)
    finally:
        pyplot.close("all")
    if arguments.json:
        print_json({"kind": arguments.kind, "output": str(arguments.output)})
    else:
        note(f"drew {arguments.output}")


def _check_arguments(arguments: Namespace) -> None:
    kind = arguments.kind
    if arguments.output.suffix.lower() not in ENDINGS:
        raise unknown_option("The ending of the picture's name", arguments.output.suffix, ENDINGS)
    for option in sorted(set().union(*OPTIONS.values()) - OPTIONS[kind]):
        if getattr(arguments, option) is not None:
            kinds = [name for name, options in OPTIONS.items() if option in options]
            raise UsageError(f"{loading.option_word(option)} is for --kind {' or '.join(kinds)}, not for {kind}.")
    if kind == "trace" and arguments.data is not None:
        raise UsageError("--kind trace takes no table: it is in the model. Leave DATA out.")
    if kind != "trace" and arguments.data is None:
        raise UsageError(f"--kind {kind} needs a table: knotwise plot MODEL DATA --kind {kind} -o FILE")
    if kind in NEEDS_TARGET and arguments.target is None:
        raise UsageError(f"--kind {kind} compares with observed values: name their column with --target.")
    if arguments.feature is not None and len(arguments.feature) != (2 if kind == "map" else 1):
        raise UsageError(f"--feature of a {kind} is {'two inputs, such as a,b' if kind == 'map' else 'one input'}.")


def _check_fitting(gp: Any, arguments: Namespace) -> None:
    """Refuse pictures that a model does not have, in the words of the command line."""
    if hasattr(gp, "classes_") and arguments.kind in ("pit", "observed"):
        raise UsageError(f"--kind {arguments.kind} is for numbers; for a classifier there is --kind calibration.")
    numeric = set(map(str, getattr(gp, "feature_names_in_", ()))) - set(loading.text_inputs(gp))
    for name, value in (arguments.at or {}).items():
        if isinstance(value, str) and name in numeric:
            raise UsageError(f"--at has '{name}={value}', but the input {name!r} is a number.")
    if arguments.kind == "map" and arguments.feature is None and gp.n_features_in_ != 2:
        raise UsageError(
            f"A map is over two inputs, and the model has {gp.n_features_in_}: name two with --feature a,b."
        )
    if arguments.kind == "map" and arguments.label is None and len(getattr(gp, "classes_", ())) > 2:
        raise UsageError(f"A map shows one of the classes {gp.classes_.tolist()}: name it with --label.")


def _draw(gp: Any, arguments: Namespace) -> Any:
    options = {"label": _label(gp, arguments.label)} if arguments.label is not None else {}
    if arguments.kind == "trace":
        return plotting.plot_trace(gp, **options)
    if arguments.kind in NEEDS_SIZE:
        loading.require_option(gp, arguments)
    with open_table(arguments) as table:
        rows = read_rows(table, loading.choose_columns(gp, table, arguments), drop_missing=arguments.drop_missing)
    loading.say_what_was_left_out(rows.n_dropped)
    values = loading.observed_values(gp, table, rows, arguments)
    y = None if values is None else Named(values, arguments.target)
    for name in ("at", "what", "threshold"):
        if getattr(arguments, name) is not None:
            options[name] = getattr(arguments, name)
    if arguments.interval is not None:
        options["level"] = arguments.interval
    if arguments.feature is not None:
        names = {"features": arguments.feature} if arguments.kind == "map" else {"feature": arguments.feature[0]}
        options |= names
    with errors_with_places(rows, table):
        return getattr(plotting, f"plot_{arguments.kind}")(gp, rows.X, y, **options, **rows.extras)


def _label(gp: Any, text: str) -> Any:
    """The class of this name; a regressor has none, and says so itself."""
    classes = getattr(gp, "classes_", np.array([])).tolist()
    return next((label for label in classes if str(label) == text), text)


# -- a page -----------------------------------------------------------------------------------------


def report(arguments: Namespace) -> None:
    output = arguments.output or Path(arguments.model.with_suffix(".html").name)
    if output.suffix.lower() not in PAGE_ENDINGS:
        raise unknown_option("The ending of the page's name", output.suffix, PAGE_ENDINGS)
    options = ("target", *loading.KNOWN_OPTIONS, "inputs")
    given = [loading.option_word(name) for name in options if getattr(arguments, name) is not None]
    if arguments.data is None and given:
        raise UsageError(f"{given[0]} is about a table: knotwise report MODEL DATA {given[0]} ...")
    check_output(output, inputs=[arguments.model, arguments.data or "-"])
    gp = loading.load_model(arguments)
    style.require_matplotlib()
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
            loading.require_option(gp, arguments)
        rows = read_rows(table, loading.choose_columns(gp, table, arguments), drop_missing=arguments.drop_missing)
    loading.say_what_was_left_out(rows.n_dropped)
    y = loading.observed_values(gp, table, rows, arguments)
    names |= {"data_name": Path(table.name).name, "target": arguments.target, **rows.extras}
    with errors_with_places(rows, table):
        write_report(gp, output, rows.X, y, **names)


def _only_other_column(gp: Any, table: Table, arguments: Namespace) -> str | None:
    """The one column that is neither an input nor a size: it has the observed values. Said, or asked for."""
    inputs = arguments.inputs or [str(name) for name in getattr(gp, "feature_names_in_", ())]
    taken = {*inputs, *loading.given_options(arguments).values()}
    others = [name for name in table.columns if name and name not in taken]
    if len(others) == 1:
        note(f"the observed values are taken from {others[0]!r}, the only column that is no input")
        return others[0]
    if others:
        note("no observed values: name their column with --target to have calibration and residuals on the page")
    return None
