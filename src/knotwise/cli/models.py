"""Commands from a table to a model and from a model to predictions: their arguments. The work is in other files."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

import knotwise.cli.arguments as words
from knotwise.cli.command import Command, count


def add_fit_arguments(parser: ArgumentParser) -> None:
    words.add_data_arguments(parser)
    parser.add_argument("--target", required=True, metavar="COLUMN", help="what to predict; text makes a classifier")
    parser.add_argument("-o", "--output", required=True, type=Path, metavar="MODEL", help="where to save the model")
    parser.add_argument(
        "--inputs", type=words.column_names, metavar="A,B,...", help="columns to predict from (default: all others)"
    )
    words.add_json_argument(parser)
    words.add_kind_and_model_arguments(parser)
    _add_run_arguments(parser)


def add_cv_arguments(parser: ArgumentParser) -> None:
    words.add_data_arguments(parser)
    parser.add_argument("--target", required=True, metavar="COLUMN", help="what to predict, a number")
    parser.add_argument(
        "--blocks",
        metavar="COLUMN|K",
        help="rows left out together: those with one label in COLUMN, or K compact blocks (default: row by row)",
    )
    parser.add_argument(
        "--coords", type=words.column_names, metavar="X,Y",
        help="columns with the places of K blocks, inputs or not (default: those that are called x and y, lon and lat, "
        "easting and northing; else all inputs)"
    )  # fmt: skip
    parser.add_argument(
        "--hold", action="store_true", help="fit once, and hold parameters and knots; always so without --blocks"
    )
    parser.add_argument(
        "--interval", type=words.share, default=0.95, metavar="P", help="level of the intervals (default 0.95)"
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="the prediction of each row: .csv, .tsv, .parquet or -")
    parser.add_argument(
        "--keep", type=words.column_names, default=[], metavar="A,B,...", help="columns to copy to these predictions"
    )
    parser.add_argument(
        "--inputs", type=words.column_names, metavar="A,B,...", help="columns to predict from (default: all others)"
    )
    words.add_json_argument(parser)
    words.add_kind_and_model_arguments(parser, labels=False)
    words.add_run_group(parser)
    parser.set_defaults(checkpoint=None, no_progress=True)


def _add_run_arguments(parser: ArgumentParser) -> None:
    group = words.add_run_group(parser)
    group.add_argument(
        "--checkpoint", metavar="FOLDER", help="keep finished steps there; the same command then goes on"
    )
    words.add_worker_arguments(group)
    group.add_argument("--no-progress", action="store_true", help="show no line in the terminal while it runs")
    group.add_argument("--diagnose", action="store_true", help="say whether the fit can be trusted (needs its data)")


def add_predict_arguments(parser: ArgumentParser) -> None:
    words.add_model_argument(parser)
    words.add_data_arguments(parser)
    parser.add_argument(
        "-o", "--output", default="-", metavar="FILE", help=".csv, .tsv or .parquet (default: CSV to standard output); "
        "a folder, new or empty, for a pattern, which makes a .parquet for each of its files"
    )  # fmt: skip
    parser.add_argument("--interval", type=words.share, metavar="P", help="level of lower and upper (default 0.95)")
    parser.add_argument(
        "--level",
        type=words.share,
        nargs="+",
        default=[],
        metavar="P",
        help="several levels, such as 0.8 0.95: adds lower_80, upper_80, ...",
    )
    parser.add_argument(
        "--exceed",
        type=words.number,
        nargs="+",
        default=[],
        metavar="V",
        help="add exceeds_V: how probable it is that the mean (of classes: the probability) is above V",
    )
    parser.add_argument(
        "--samples", type=count, metavar="N", help="add sample_1, ..., sample_N: joint draws of all rows, of KIND"
    )
    parser.add_argument("--seed", type=words.whole, default=0, metavar="N", help="of these draws (default 0)")
    parser.add_argument(
        "--kind",
        type=words.one_of("observation", "mean", "latent"),
        metavar="KIND",
        help="what is predicted: observation (a new one, the default), mean (of the response) or latent (function)",
    )
    parser.add_argument("--std", action="store_true", help="add the standard deviation")
    words.add_size_arguments(parser)
    parser.add_argument(
        "--keep", type=words.column_names, default=[], metavar="A,B,...", help="columns to copy to the predictions"
    )
    parser.add_argument(
        "--raw-text",
        action="store_true",
        help="in CSV, write text as it is; else what a spreadsheet would run as a formula has a ' in front",
    )
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
    words.add_model_argument(parser)
    words.add_data_arguments(parser, optional=True)
    parser.add_argument("-o", "--output", required=True, type=Path, metavar="FILE", help=".png, .svg or .pdf")
    parser.add_argument(
        "--kind",
        required=True,
        type=words.one_of("fit", "map", "effects", "trace", "calibration", "pit", "observed"),
        metavar="KIND",
        help="fit: along one input; map: over two; effects: of each input; trace: how the knots were chosen; "
        "calibration, pit, observed: DATA against predictions",
    )
    parser.add_argument("--target", metavar="COLUMN", help="observed values in DATA")
    parser.add_argument("--feature", type=words.column_names, metavar="A[,B]", help="input of a fit, two of a map")
    parser.add_argument(
        "--at", type=words.places, metavar="A=1,B=low", help="values of other inputs (default: medians)"
    )
    parser.add_argument(
        "--what",
        metavar="WHAT",
        help="of a map: mean, sd, intensity, intensity_sd, intensity_cv, probability, lower, upper, exceedance",
    )
    parser.add_argument("--threshold", type=words.number, metavar="V", help="of a map of exceedance")
    parser.add_argument("--label", metavar="LABEL", help="one of the classes of a classifier")
    parser.add_argument("--interval", type=words.share, metavar="P", help="level of the intervals (default 0.95)")
    words.add_size_arguments(parser)
    _add_inputs_argument(parser)
    words.add_json_argument(parser)


def add_report_arguments(parser: ArgumentParser) -> None:
    words.add_model_argument(parser)
    words.add_data_arguments(parser, optional=True)
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="the page (default: the name of the model, with .html)"
    )
    parser.add_argument(
        "--target", metavar="COLUMN", help="observed values in DATA (default: its only column that is no input)"
    )
    parser.add_argument("--title", metavar="TEXT", help="of the page")
    words.add_size_arguments(parser)
    _add_inputs_argument(parser)
    words.add_json_argument(parser)


def add_data_set_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="boston, banana or hickory; without it, their list")
    parser.add_argument(
        "-o", "--output", default="-", metavar="FILE", help=".csv, .tsv or .parquet (default: CSV to standard output)"
    )
    parser.add_argument("--test", metavar="FILE", help="write some rows, drawn at random, to this file instead")
    parser.add_argument("--test-share", type=words.share, metavar="P", help="share of these rows (default 0.2)")
    parser.add_argument("--seed", type=words.whole, default=0, metavar="N", help="of the draw (default 0)")


def _add_inputs_argument(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--inputs",
        type=words.column_names,
        metavar="A,B,...",
        help="inputs in DATA, in the order of the model's (default: by the names in the model)",
    )


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


COMMANDS = {
    "fit": Command(
        "fit a model to a table and save it",
        add_fit_arguments,
        run,
        """examples:
  knotwise fit boston.csv --target medv -o boston.knotwise
  knotwise fit boston.csv --target medv --inputs lstat,rm --kernel matern52 --ard -o boston.knotwise
  knotwise fit banana.csv --target y --classes -o banana.knotwise
  knotwise fit hickory.csv --target count --likelihood poisson --exposure area --nugget fit -o hickory.knotwise
  knotwise fit long.parquet --target y --checkpoint state -o long.knotwise
  knotwise fit 'rows/*.parquet' --target y --workers 2 --memory 2GB -o rows.knotwise""",
    ),
    "predict": Command(
        "predict the rows of a table",
        add_predict_arguments,
        run,
        """examples:
  knotwise predict boston.knotwise new.csv -o predictions.csv
  knotwise predict boston.knotwise new.csv --interval 0.8 --std --keep id -o predictions.parquet
  knotwise predict boston.knotwise new.csv --level 0.8 0.95 --exceed 30 --samples 100 -o predictions.csv
  knotwise predict hickory.knotwise grid.csv --kind mean --exceed 1000
  cat new.csv | knotwise predict boston.knotwise - | head
  knotwise predict rows.knotwise 'rows/*.parquet' --workers 2 --memory 2GB -o predicted""",
    ),
    "cv": Command(
        "predict the rows of a table from the others, and score that",
        add_cv_arguments,
        run,
        """examples:
  knotwise cv boston.csv --target medv
  knotwise cv boston.csv --target medv --blocks 5 --knots 30 --keep lstat,rm -o left_out.csv
  knotwise cv wells.csv --target level --inputs east,north --blocks district --hold --json""",
    ),
    "summary": Command(
        "say what a model is",
        add_summary_arguments,
        run,
        """examples:
  knotwise summary boston.knotwise
  knotwise summary boston.knotwise --json""",
    ),
    "diagnose": Command(
        "say whether a model can be trusted, and check its predictions on rows with known values",
        add_diagnose_arguments,
        run,
        """examples:
  knotwise diagnose boston.knotwise
  knotwise diagnose boston.knotwise test.csv --target medv --json""",
    ),
    "plot": Command(
        "draw a picture of a model",
        add_plot_arguments,
        run,
        """examples:
  knotwise plot boston.knotwise boston.csv --target medv --kind fit --feature rm --at lstat=10 -o rm.png
  knotwise plot hickory.knotwise hickory.csv --kind map -o map.png
  knotwise plot boston.knotwise test.csv --target medv --kind calibration -o calibration.svg
  knotwise plot boston.knotwise --kind trace -o trace.pdf""",
    ),
    "report": Command(
        "write a page about a model: what was decided, pictures, checks, and how to predict",
        add_report_arguments,
        run,
        """examples:
  knotwise report boston.knotwise
  knotwise report boston.knotwise test.csv --target medv -o boston.html
  knotwise report hickory.knotwise hickory.csv --exposure area --target count""",
    ),
    "data": Command(
        "write one of the data sets that come with knotwise as a table",
        add_data_set_arguments,
        run,
        """examples:
  knotwise data
  knotwise data boston -o boston.csv
  knotwise data boston -o train.csv --test test.csv""",
    ),
}
