"""Commands from a table to a model and from a model to predictions: their arguments. The work is in other files."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from pathlib import Path

import knotwise.cli.arguments as words
from knotwise.cli.arguments import column_names, number, one_of, share, whole
from knotwise.cli.command import Command, count


def add_fit_arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    words.add_data_arguments(parser)
    add("--target", required=True, metavar="COLUMN", help="what to predict; text makes a classifier")
    add("-o", "--output", required=True, type=Path, metavar="MODEL", help="where to save the model")
    add("--inputs", type=column_names, metavar="A,B,...", help="columns to predict from (default: all others)")
    text = "table of inputs at which predictions are wanted: the kernel is judged by rows as far from the others"
    add("--predict-at", metavar="FILE", help=text)
    words.add_json_argument(parser)
    words.add_kind_and_model_arguments(parser)
    _add_run_arguments(parser)


def add_cv_arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    words.add_data_arguments(parser)
    add("--target", required=True, metavar="COLUMN", help="what to predict, a number")
    text = "rows left out together: those with one label in COLUMN, or K compact blocks (default: row by row)"
    add("--blocks", metavar="COLUMN|K", help=text)
    text = (
        "columns with the places of K blocks, inputs or not (default: those that are called x and y, lon and lat, "
        "easting and northing; else all inputs)"
    )
    add("--coords", type=column_names, metavar="X,Y", help=text)
    add("--hold", action="store_true", help="fit once, and hold parameters and knots; always so without --blocks")
    add("--interval", type=share, default=0.95, metavar="P", help="level of the intervals (default 0.95)")
    add("-o", "--output", metavar="FILE", help="the prediction of each row: .csv, .tsv, .parquet or -")
    add("--keep", type=column_names, default=[], metavar="A,B,...", help="columns to copy to these predictions")
    add("--inputs", type=column_names, metavar="A,B,...", help="columns to predict from (default: all others)")
    words.add_json_argument(parser)
    words.add_kind_and_model_arguments(parser, labels=False)
    words.add_run_group(parser)
    parser.set_defaults(checkpoint=None, no_progress=True)


def _add_run_arguments(parser: ArgumentParser) -> None:
    group = words.add_run_group(parser)
    add = group.add_argument
    add("--checkpoint", metavar="FOLDER", help="keep finished steps there; the same command then goes on")
    words.add_worker_arguments(group)
    add("--no-progress", action="store_true", help="show no line in the terminal while it runs")
    add("--diagnose", action="store_true", help="say whether the fit can be trusted (needs its data)")


def add_predict_arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    words.add_model_argument(parser)
    words.add_data_arguments(parser)
    text = (
        ".csv, .tsv or .parquet (default: CSV to standard output); "
        "a folder, new or empty, for a pattern, which makes a .parquet for each of its files"
    )
    add("-o", "--output", default="-", metavar="FILE", help=text)
    add("--interval", type=share, metavar="P", help="level of lower and upper (default 0.95)")
    text = "several levels, such as 0.8 0.95: adds lower_80, upper_80, ..."
    add("--level", type=share, nargs="+", default=[], metavar="P", help=text)
    text = "add exceeds_V: how probable it is that the mean (of classes: the probability) is above V"
    add("--exceed", type=number, nargs="+", default=[], metavar="V", help=text)
    add("--samples", type=count, metavar="N", help="add sample_1, ..., sample_N: joint draws of all rows, of KIND")
    add("--seed", type=whole, default=0, metavar="N", help="of these draws (default 0)")
    text = "what is predicted: observation (a new one, the default), mean (of the response) or latent (function)"
    add("--kind", type=one_of("observation", "mean", "latent"), metavar="KIND", help=text)
    add("--std", action="store_true", help="add the standard deviation")
    words.add_size_arguments(parser)
    add("--keep", type=column_names, default=[], metavar="A,B,...", help="columns to copy to the predictions")
    text = "in CSV, write text as it is; else what a spreadsheet would run as a formula has a ' in front"
    add("--raw-text", action="store_true", help=text)
    _add_inputs_argument(parser)
    words.add_worker_arguments(parser)
    words.add_json_argument(parser)


def add_summary_arguments(parser: ArgumentParser) -> None:
    words.add_model_argument(parser)
    words.add_json_argument(parser)


def add_diagnose_arguments(parser: ArgumentParser) -> None:
    words.add_model_argument(parser)
    words.add_data_arguments(parser, optional=True)
    parser.add_argument("--target", metavar="COLUMN", help="observed values, to check the predictions of DATA")
    words.add_size_arguments(parser)
    _add_inputs_argument(parser)
    words.add_json_argument(parser)


def add_plot_arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    words.add_model_argument(parser)
    words.add_data_arguments(parser, optional=True)
    add("-o", "--output", required=True, type=Path, metavar="FILE", help=".png, .svg or .pdf")
    text = (
        "fit: along one input; map: over two; effects: of each input; trace: how the knots were chosen; "
        "calibration, pit, observed: DATA against predictions"
    )
    add(
        "--kind",
        required=True,
        type=one_of("fit", "map", "effects", "trace", "calibration", "pit", "observed"),
        metavar="KIND",
        help=text,
    )
    add("--target", metavar="COLUMN", help="observed values in DATA")
    add("--feature", type=column_names, metavar="A[,B]", help="input of a fit, two of a map")
    add("--at", type=words.places, metavar="A=1,B=low", help="values of other inputs (default: medians)")
    text = "of a map: mean, sd, intensity, intensity_sd, intensity_cv, probability, lower, upper, exceedance"
    add("--what", metavar="WHAT", help=text)
    add("--threshold", type=number, metavar="V", help="of a map of exceedance")
    add("--label", metavar="LABEL", help="one of the classes of a classifier")
    add("--interval", type=share, metavar="P", help="level of the intervals (default 0.95)")
    words.add_size_arguments(parser)
    _add_inputs_argument(parser)
    words.add_json_argument(parser)


def add_report_arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    words.add_model_argument(parser)
    words.add_data_arguments(parser, optional=True)
    add("-o", "--output", type=Path, metavar="FILE", help="the page (default: the name of the model, with .html)")
    add("--target", metavar="COLUMN", help="observed values in DATA (default: its only column that is no input)")
    add("--title", metavar="TEXT", help="of the page")
    words.add_size_arguments(parser)
    _add_inputs_argument(parser)
    words.add_json_argument(parser)


def add_data_set_arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("name", nargs="?", metavar="NAME", help="boston, banana or hickory; without it, their list")
    add("-o", "--output", default="-", metavar="FILE", help=".csv, .tsv or .parquet (default: CSV to standard output)")
    add("--test", metavar="FILE", help="write some rows, drawn at random, to this file instead")
    add("--test-share", type=share, metavar="P", help="share of these rows (default 0.2)")
    add("--seed", type=whole, default=0, metavar="N", help="of the draw (default 0)")


def _add_inputs_argument(parser: ArgumentParser) -> None:
    text = "inputs in DATA, in the order of the model's (default: by the names in the model)"
    parser.add_argument("--inputs", type=column_names, metavar="A,B,...", help=text)


def run(arguments: Namespace) -> None:
    """Do the work of a command, which is imported only then."""
    if arguments.command == "fit":
        from knotwise.cli.fit import run as work
    elif arguments.command == "cv":
        from knotwise.cli.cv import run as work
    elif arguments.command == "predict":
        from knotwise.cli.predict import run as work
    elif arguments.command == "summary":
        from knotwise.cli.describe import summary as work
    elif arguments.command == "diagnose":
        from knotwise.cli.describe import diagnose as work
    elif arguments.command == "plot":
        from knotwise.cli.plot import plot as work
    elif arguments.command == "report":
        from knotwise.cli.plot import report as work
    else:
        from knotwise.cli.data import run as work
    work(arguments)


def _command(help: str, add_arguments: Callable[[ArgumentParser], None], *examples: str) -> Command:
    return Command(help, add_arguments, run, "\n  ".join(["examples:", *examples]))


COMMANDS = {
    "fit": _command(
        "fit a model to a table and save it",
        add_fit_arguments,
        "knotwise fit boston.csv --target medv -o boston.knotwise",
        "knotwise fit boston.csv --target medv --inputs lstat,rm --kernel matern52 --ard -o boston.knotwise",
        "knotwise fit banana.csv --target y --classes -o banana.knotwise",
        "knotwise fit hickory.csv --target count --likelihood poisson --exposure area --nugget fit -o hickory.knotwise",
        "knotwise fit long.parquet --target y --checkpoint state -o long.knotwise",
        "knotwise fit 'rows/*.parquet' --target y --workers 2 --memory 2GB -o rows.knotwise",
    ),
    "predict": _command(
        "predict the rows of a table",
        add_predict_arguments,
        "knotwise predict boston.knotwise new.csv -o predictions.csv",
        "knotwise predict boston.knotwise new.csv --interval 0.8 --std --keep id -o predictions.parquet",
        "knotwise predict boston.knotwise new.csv --level 0.8 0.95 --exceed 30 --samples 100 -o predictions.csv",
        "knotwise predict hickory.knotwise grid.csv --kind mean --exceed 1000",
        "cat new.csv | knotwise predict boston.knotwise - | head",
        "knotwise predict rows.knotwise 'rows/*.parquet' --workers 2 --memory 2GB -o predicted",
    ),
    "cv": _command(
        "predict the rows of a table from the others, and score that",
        add_cv_arguments,
        "knotwise cv boston.csv --target medv",
        "knotwise cv boston.csv --target medv --blocks 5 --knots 30 --keep lstat,rm -o left_out.csv",
        "knotwise cv wells.csv --target level --inputs east,north --blocks district --hold --json",
    ),
    "summary": _command(
        "say what a model is",
        add_summary_arguments,
        "knotwise summary boston.knotwise",
        "knotwise summary boston.knotwise --json",
    ),
    "diagnose": _command(
        "say whether a model can be trusted, and check its predictions on rows with known values",
        add_diagnose_arguments,
        "knotwise diagnose boston.knotwise",
        "knotwise diagnose boston.knotwise test.csv --target medv --json",
    ),
    "plot": _command(
        "draw a picture of a model",
        add_plot_arguments,
        "knotwise plot boston.knotwise boston.csv --target medv --kind fit --feature rm --at lstat=10 -o rm.png",
        "knotwise plot hickory.knotwise hickory.csv --kind map -o map.png",
        "knotwise plot boston.knotwise test.csv --target medv --kind calibration -o calibration.svg",
        "knotwise plot boston.knotwise --kind trace -o trace.pdf",
    ),
    "report": _command(
        "write a page about a model: what was decided, pictures, checks, and how to predict",
        add_report_arguments,
        "knotwise report boston.knotwise",
        "knotwise report boston.knotwise test.csv --target medv -o boston.html",
        "knotwise report hickory.knotwise hickory.csv --exposure area --target count",
    ),
    "data": _command(
        "write one of the data sets that come with knotwise as a table",
        add_data_set_arguments,
        "knotwise data",
        "knotwise data boston -o boston.csv",
        "knotwise data boston -o train.csv --test test.csv",
    ),
}
