"""`knotwise fit`: from a table to a model file."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from knotwise import kernels
from knotwise.cli.command import UsageError, explain_interruption, note, print_json, warnings_as_notes
from knotwise.cli.describe import diagnosis_facts, diagnosis_text, facts
from knotwise.cli.loading import KNOWN_OPTIONS, given_options, option_word
from knotwise.cli.output import check_output
from knotwise.cli.parquet import are_parts, columns_of_all, files_of, read_parts, workers
from knotwise.cli.reading import open_file, open_table
from knotwise.cli.rows import Rows, Wanted, are_labels, errors_with_places, labels_of, read_rows, target_numbers
from knotwise.cli.tables import Table, require_columns, same_for_all
from knotwise.data.cells import NamedRows
from knotwise.errors import InvalidInputError
from knotwise.estimators import GPClassifier, GPRegressor
from knotwise.estimators.averaging import latent_models
from knotwise.knots import Auto
from knotwise.likelihoods import LIKELIHOODS, candidates_named
from knotwise.names import DECIDED, KERNELS
from knotwise.plotting.style import counted

#: options that name a column with a number for each row, and the argument of `fit` that it becomes
ROW_OPTIONS = {option: option for option in KNOWN_OPTIONS} | {"weight": "sample_weight"}


def run(arguments: Namespace) -> None:
    check_arguments(arguments)
    if are_parts(arguments):
        run_on_parts(arguments)
        return
    check_output(arguments.output, inputs=[arguments.data, *filter(None, [arguments.predict_at])])
    with warnings_as_notes() as notes:
        with open_table(arguments) as table:
            wanted = choose_columns(table, arguments)
            rows = read_rows(table, wanted, drop_missing=arguments.drop_missing)
        places = places_wanted(wanted, rows.X, arguments)
        gp, y = prepare(table, rows, arguments)
        X = NamedRows.of(rows.X, wanted.inputs)
        with errors_with_places(rows, table), explain_interruption(lambda: what_is_kept(arguments)):
            gp.fit(X, y, **rows.extras, predict_at=places)
        name_inputs(gp, wanted.inputs)
        gp.save(arguments.output)
    report(gp, arguments, n_rows=len(rows), n_dropped=rows.n_dropped, notes=notes)


def run_on_parts(arguments: Namespace) -> None:
    """Fit a table in several files, which nobody reads as a whole."""
    files = files_of(arguments.data)
    check_output(arguments.output, inputs=[*files, *filter(None, [arguments.predict_at])])
    wanted = columns_of_all(files, lambda table: choose_columns(table, arguments))
    with warnings_as_notes() as notes, workers(arguments):
        rows = read_parts(files, wanted, drop_missing=arguments.drop_missing)
        refuse_encoded_inputs(rows[list(wanted.inputs)], arguments)
        y, settings = rows[arguments.target], settings_from(arguments)
        settings |= {"categorical": arguments.categorical} if arguments.categorical else {}
        text = y.dtype.kind not in "biuf"
        gp = GPClassifier(**settings) if arguments.classes or text else GPRegressor(**settings)
        extras = {argument: rows[name] for argument, name in wanted.extras.items()} | wanted.same
        places = places_wanted(wanted, np.empty((0, len(wanted.inputs))), arguments)
        if places is not None:
            extras["predict_at"] = type(rows._meta)(np.asarray(places), columns=wanted.inputs)
        with explain_interruption(lambda: what_is_kept(arguments)), named_by_file(files, rows.npartitions):
            gp.fit(rows[list(wanted.inputs)], y, **extras)
        gp.save(arguments.output)
        n_rows = latent_models(gp)[0]._fit.n_rows
        report(gp, arguments, n_rows=n_rows, n_dropped=None, notes=notes)


def places_wanted(wanted: Wanted, X: np.ndarray, arguments: Namespace) -> NamedRows | None:
    """The rows of --predict-at, with the inputs of the fit, of which those are text that are so in its rows X."""
    if arguments.predict_at is None:
        return None
    texts = [name for name, column in zip(wanted.inputs, X.T, strict=True) if any(isinstance(v, str) for v in column)]
    with open_file(arguments.predict_at, arguments) as table:
        require_columns(wanted.inputs, f"An input of the fit, which {table.name} needs too,", table.columns)
        own = Wanted(wanted.inputs, texts=texts, may_lack=wanted.may_lack)
        return NamedRows.of(read_rows(table, own, drop_missing=arguments.drop_missing).X, wanted.inputs)


@contextmanager
def named_by_file(files: list[str], n_partitions: int) -> Iterator[None]:
    """Say which file has a bad value, where each is one partition, in the words of the shell."""
    try:
        yield
    except InvalidInputError as error:
        if len(files) != n_partitions or not hasattr(error, "partition"):
            raise
        words = str(error).replace(f"Partition {error.partition}:", f"{files[error.partition]}:")
        raise InvalidInputError(words.replace("`frame.dropna()`", "--drop-missing"), **error.__dict__) from None


def refuse_encoded_inputs(rows: Any, arguments: Namespace) -> None:
    """Inputs of several files are numbers: nobody has looked for levels, dates and gaps in all of them."""
    options = ("categorical", "lonlat", "period", *(("missing",) if arguments.missing != "error" else ()))
    asked = next((f"--{option}" for option in options if getattr(arguments, option)), None)
    if asked is not None:
        raise UsageError(f"{asked} is for one file; of several, and with workers, all inputs are numbers as they are.")
    other = next((name for name, dtype in rows.dtypes.items() if getattr(dtype, "kind", "O") not in "biuf"), None)
    if other is not None:
        raise InvalidInputError(
            f"The input {other!r} holds no numbers ({rows.dtypes[other]}), and several files, or workers, need these. "
            "Leave it out (--inputs names the others), make numbers of it, or fit one of the files: its model predicts "
            "the others."
        )


def report(gp: Any, arguments: Namespace, *, n_rows: int, n_dropped: int | None, notes: list[str]) -> None:
    """Print what was fitted; `n_dropped` is None where nobody has counted."""
    found = facts(gp) | {
        "target": arguments.target,
        "rows": n_rows,
        "dropped": n_dropped,
        "warnings": notes,
        "output": str(arguments.output),
    }
    if arguments.json:
        print_json(found | (diagnosis_facts(gp) if arguments.diagnose else {}))
        return
    print(describe(found))
    if arguments.diagnose:
        print(f"\n{diagnosis_text(gp)}")


def check_arguments(arguments: Namespace) -> None:
    """Refuse options that contradict each other, before anything is read."""
    name = (arguments.likelihood or "gaussian").replace("-", "_")
    arguments.likelihood = arguments.likelihood and name
    likelihood = candidates_named(name)[-1]
    if arguments.classes and arguments.likelihood:
        raise UsageError("--classes makes a classifier, which has its own likelihood: leave --likelihood out.")
    for option in given_options(arguments):
        size = KNOWN_OPTIONS[option]
        if size == "noise_variance":
            if arguments.classes or not likelihood.conjugate:
                what = "labels" if arguments.classes else f"--likelihood {name}"
                raise UsageError(f"--noise-variance is the known noise of Gaussian data, and does not go with {what}.")
        elif likelihood.size_name != size:
            fitting = [word for word in (*LIKELIHOODS, *DECIDED) if candidates_named(word)[0].size_name == size]
            raise UsageError(f"--{option} goes with --likelihood {' or '.join(fitting)}, not with {name}.")
    if arguments.max_knots is not None and arguments.knots not in (None, "auto"):
        raise UsageError(f"--max-knots limits the automatic choice, but --knots {arguments.knots} sets the number.")
    if arguments.approximation == "full" and (arguments.knots or arguments.max_knots):
        raise UsageError("--approximation full is the exact GP, which has no knots: leave --knots and --max-knots out.")
    if arguments.n_neighbors not in (None, "auto", 0) and arguments.approximation is not None:
        raise UsageError(
            f"--neighbors {arguments.n_neighbors} leaves nothing for --approximation {arguments.approximation}: leave "
            "one of them out."
        )


def choose_columns(table: Table, arguments: Namespace) -> Wanted:
    """The columns to read; inputs are by default all that have no other role."""
    roles: dict[str, str] = {}
    same = same_for_all(table.columns, arguments)
    for option in ("target", *ROW_OPTIONS):
        name, role = getattr(arguments, option), option_word(option)
        if name is not None and option not in same:
            require_columns([name], role, table.columns)
            _refuse_second_role(name, role, roles)
            roles[name] = role
    inputs = arguments.inputs
    if inputs is None:
        inputs = [name for name in table.columns if name and name not in roles]
        if "" in table.columns:
            note("left out a column that has no name")
    require_columns(inputs, "A column of --inputs", table.columns)
    for name in inputs:
        _refuse_second_role(name, "one of --inputs", roles)
    if not inputs:
        raise InvalidInputError(f"{table.name} has no column to predict {arguments.target!r} from. Add at least one.")
    for option in ("categorical", "lonlat"):
        require_columns(getattr(arguments, option) or [], f"A column of --{option}", inputs)
    require_columns([name for name, _ in arguments.period], "A column of --period", inputs)
    require_columns([name for name, _ in arguments.warp if name], "A column of --warp", inputs)
    if arguments.lonlat is not None and len(arguments.lonlat) != 2:
        raise UsageError("--lonlat names two columns, longitude and latitude: --lonlat LON,LAT.")
    per_row = {argument: getattr(arguments, option) for option, argument in ROW_OPTIONS.items()}
    extras = {argument: name for argument, name in per_row.items() if name is not None and argument not in same}
    may_lack = inputs if arguments.missing in ("mean", "indicator") else ()
    return Wanted(inputs, arguments.target, extras, may_lack=may_lack, levels=arguments.categorical, same=same)


def _refuse_second_role(name: str, role: str, roles: dict[str, str]) -> None:
    if name in roles:
        raise UsageError(f"The column {name!r} cannot be {roles[name]} and {role} at once.")


def prepare(table: Table, rows: Rows, arguments: Namespace) -> tuple[Any, np.ndarray]:
    """The estimator that the options and the target ask for, and the target as it takes it; says what was left out."""
    if rows.n_dropped:
        note(f"left out {rows.n_dropped} of {rows.n_dropped + len(rows)} rows, which have missing values")
    settings = settings_from(arguments)
    levels = list(dict.fromkeys([*arguments.categorical, *rows.categories]))
    settings |= {"categorical": levels} if levels else {}
    automatic = not arguments.likelihood and are_labels(rows.target, arguments.decimal)
    if automatic and arguments.noise_variance is not None:
        raise UsageError(
            f"--noise-variance is the known noise of numbers, and the target {arguments.target!r} is text."
        )
    if arguments.classes or automatic:
        return GPClassifier(**settings), labels_of(rows.target, arguments.target, asked=arguments.classes)
    y = target_numbers(table, rows, arguments.target, arguments.decimal)
    if not arguments.likelihood and len(np.unique(y)) == 2:
        note(f"the target {arguments.target!r} has two values only: if they are labels, add --classes")
    return GPRegressor(**settings), y


def settings_from(arguments: Namespace) -> dict[str, Any]:
    """What the options ask for, as settings of an estimator."""
    settings: dict[str, Any] = {
        "random_state": arguments.seed,
        "n_jobs": arguments.threads,
        "checkpoint": arguments.checkpoint,
        "progress": False if arguments.no_progress else "auto",
    }
    if arguments.kernel is not None or arguments.ard:
        settings["kernel"] = getattr(kernels, KERNELS[arguments.kernel or "se"])(ard=arguments.ard)
    if arguments.standardize is not None:
        settings["standardize"] = False if arguments.standardize == "no" else arguments.standardize
    if arguments.average is not None:
        settings["average"] = {"yes": True, "no": False}.get(arguments.average, arguments.average)
    if arguments.max_knots is not None:
        settings["knots"] = Auto(max_knots=arguments.max_knots)
    elif arguments.knots is not None:
        settings["knots"] = arguments.knots
    if arguments.lonlat is not None:
        settings["coords"] = ("lonlat", arguments.lonlat)
    if arguments.period:
        settings["periods"] = {
            name: [p for other, p in arguments.period if other == name] for name, _ in arguments.period
        }
    if arguments.warp:
        settings["warp"] = warps_from(arguments.warp)
    words = "approximation", "n_neighbors", "inference", "noise", "nugget", "mean", "likelihood", "priors", "missing"
    for name in words:
        if getattr(arguments, name) is not None:
            settings[name] = getattr(arguments, name)
    return settings


def warps_from(given: list[tuple[str, str]]) -> str | dict[str, str] | None:
    """The warps of columns, or one word for all of them."""
    words = [how for name, how in given if not name]
    if words and len(given) > 1:
        raise UsageError(f"--warp {words[0]} is for all columns: leave the others out.")
    return dict(given) if not words else None if words[0] == "none" else words[0]


def what_is_kept(arguments: Namespace) -> str:
    """What an interrupted fit leaves, and how to go on."""
    if arguments.checkpoint is None:
        return "Nothing is kept; with --checkpoint FOLDER, the same command would go on from the last finished step."
    folder = Path(arguments.checkpoint)
    steps = [*folder.glob("*/*.step"), *folder.glob("*/model*/*.step")]
    if all(step.stem == "start" for step in steps):  # the random numbers at the start are no result
        return "No step was finished."
    again = "the same command with the same table" if arguments.data == "-" else "the same command"
    return f"Finished steps are kept in {arguments.checkpoint!r}: {again} goes on from there."


def name_inputs(gp: Any, names: list[str] | Any) -> None:
    """Give a model that was fitted to an array the names of its columns, as a data frame would have."""
    for model in (gp, *latent_models(gp)):
        model.feature_names_in_ = np.array(names, object)


def describe(found: dict[str, Any]) -> str:
    """A fit in a few lines."""
    inputs = ", ".join(found["inputs"])
    lines = [f"{found['class']} of {found['target']} on {inputs}: {counted(found['rows'], 'row')}"]
    for model in found["models"]:
        label = f"class {model['label']!r}: " if "label" in model else ""
        size = counted(model["n_knots"], "knot") if model["n_knots"] else "exact GP"
        if model["n_neighbors"]:
            size += f" and {counted(model['n_neighbors'], 'neighbour')} of each row"
        lines.append(f"{label}{size}, log evidence {model['log_evidence']:.3f}")
        lines.append(f"{model['status']}: {model['stop_reason']}")
    lines.append(f"saved in {found['output']} ({Path(found['output']).stat().st_size / 1000:,.0f} kB)")
    return "\n".join(lines)
