"""How words of the command line become values, and arguments that several commands share; nothing heavy is imported."""

from __future__ import annotations

import csv
from argparse import SUPPRESS, ArgumentParser, ArgumentTypeError, _ArgumentGroup
from collections.abc import Callable, Sequence
from pathlib import Path

from knotwise.cli.command import count
from knotwise.data.cell_text import is_whole, to_float
from knotwise.errors import nearest, unknown_option
from knotwise.names import DECIDED, KERNELS, LIKELIHOODS, WARPS

# -- types ----------------------------------------------------------------------------------------


def one_of(*words: str) -> Callable[[str], str]:
    """One of some words; another one gets the nearest."""

    def convert(text: str) -> str:
        if text not in words:
            raise ArgumentTypeError(str(unknown_option("it", text, words)).rstrip("."))
        return text

    return convert


def word_or_number(*words: str) -> Callable[[str], str | float]:
    """One of some words, or a number."""

    def convert(text: str) -> str | float:
        try:
            return to_float(text)
        except ValueError:
            return _word(text, words, "a number")

    return convert


def word_or_count(*words: str, least: int = 1) -> Callable[[str], str | int]:
    """One of some words, or a whole number of at least `least`."""

    def convert(text: str) -> str | int:
        if is_whole(text) and int(text) >= least:
            return int(text)
        return _word(text, words, f"a whole number of at least {least}")

    return convert


def _word(text: str, words: Sequence[str], or_else: str) -> str:
    if text not in words:
        near = nearest(text, words)
        hint = "" if near is None else f"; did you mean {near!r}?"
        raise ArgumentTypeError(f"{text!r} is neither {', '.join(words)} nor {or_else}{hint}")
    return text


def whole(text: str) -> int:
    """A whole number of at least 0."""
    if not is_whole(text):
        raise ArgumentTypeError(f"{text!r} is not a whole number of at least 0")
    return int(text)


def number(text: str) -> float:
    try:
        return to_float(text)
    except ValueError:
        file = "; files are named before this option" if Path(text).suffix else ""  # --exceed 1000 new.csv
        raise ArgumentTypeError(f"{text!r} is not a number{file}") from None


def share(text: str) -> float:
    """A number between 0 and 1."""
    try:
        value = to_float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1:
        file = "; files are named before this option" if value == 0 and Path(text).suffix else ""
        raise ArgumentTypeError(f"{text!r} is not a number between 0 and 1, such as 0.95{file}")
    return value


def column_names(text: str) -> list[str]:
    """Names between commas; one that holds a comma stands in quotes."""
    names = [name.strip() for name in next(csv.reader([text], skipinitialspace=True), [])]
    if not names or "" in names:
        raise ArgumentTypeError(f"{text!r} is not a list of column names such as a,b,c")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ArgumentTypeError(f"{text!r} names the column {twice!r} twice")
    return names


def places(text: str) -> dict[str, str | float]:
    """Values of columns, such as rm=6,lstat=10; of categories and dates they are text, such as city=Oslo."""
    values: dict[str, str | float] = {}
    for pair in column_names(text):
        name, _, value = (part.strip() for part in pair.rpartition("="))
        if not name or not value:
            raise ArgumentTypeError(f"{text!r} is not a list of values such as rm=6,city=Oslo")
        values[name] = _number_or_text(value)
    return values


def period(text: str) -> tuple[str, str | float]:
    """A column and its period, such as hour=24 or when=year."""
    name, _, value = text.rpartition("=")
    if not name.strip() or not value.strip():
        raise ArgumentTypeError(f"{text!r} is not a column and its period such as when=year or hour=24")
    return name.strip(), _number_or_text(value.strip())


def warp(text: str) -> tuple[str, str]:
    """A column and its warp, such as age=log; or a word for all of them, as of a column without a name."""
    name, _, how = (part.strip() for part in text.rpartition("="))
    if (name and how in WARPS) or (not name and how in ("auto", "none")):
        return name, how
    raise ArgumentTypeError(
        f"{text!r} is not a column and its warp, such as age=log or income=normal; nor auto, nor none"
    )


def _number_or_text(value: str) -> str | float:
    try:
        return to_float(value)
    except ValueError:
        return value


# -- arguments that commands share ----------------------------------------------------------------


def add_data_arguments(parser: ArgumentParser, *, optional: bool = False) -> None:
    """A table, and how to read it."""
    text = "table with column names: .csv, .tsv, .txt (also .gz), .parquet or .xlsx; - is CSV from standard input"
    parser.add_argument("data", nargs="?" if optional else None, metavar="DATA", help=text)
    group = parser.add_argument_group("reading the table")
    add = group.add_argument
    add("--separator", metavar="S", help="between columns, if guessing it fails: ',' ';' '|' or tab")
    add("--decimal", type=one_of(".", ","), default=".", metavar="S", help="decimal sign: . (default) or ','")
    add("--sheet", metavar="NAME", help="of a workbook: name of the sheet, or its number (default: the first)")
    text = "leave out rows with a missing value that the model does not fill, and say how many"
    add("--drop-missing", action="store_true", help=text)


def add_size_arguments(parser: ArgumentParser | _ArgumentGroup) -> None:
    """Columns with what is known of each observation: the exposure or its logarithm, trials, the noise."""
    add = parser.add_argument
    add("--exposure", metavar="COLUMN", help="exposure of counts: area, time, population")
    add("--offset", metavar="COLUMN", help="logarithm of the exposure, instead of it")
    add("--trials", metavar="COLUMN", help="number of trials of binomial counts")
    add("--noise-variance", metavar="COLUMN", help="known noise variance of each row of Gaussian data, or one number")


def add_worker_arguments(parser: ArgumentParser | _ArgumentGroup) -> None:
    """Who reads Parquet files: processes of this machine, or those of a cluster."""
    add = parser.add_argument
    add("--workers", type=count, metavar="N", help="read Parquet files with so many processes (Dask)")
    add("--memory", metavar="SIZE", help="of each of these processes, such as 2GB")
    add("--scheduler", metavar="ADDRESS", help="read Parquet files with the workers of a Dask scheduler")


def add_json_argument(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object instead, also for an error")


def add_model_argument(parser: ArgumentParser) -> None:
    parser.add_argument("model", type=Path, metavar="MODEL", help="file that `knotwise fit` or `gp.save` has written")


def add_kind_and_model_arguments(parser: ArgumentParser, *, labels: bool = True) -> None:
    """What the data are, and the model that is fitted to them; `labels` is whether the target may be a label."""
    group = parser.add_argument_group("kind of data")
    add = group.add_argument
    add(
        "--classes",
        action="store_true",
        help="the target is a label, although it looks like a number" if labels else SUPPRESS,
    )
    chosen = "; ".join(f"{word} (the data choose: {' or '.join(laws)})" for word, laws in DECIDED.items())
    add("--likelihood", metavar="NAME", help=f"{', '.join(LIKELIHOODS)} (default gaussian), or {chosen}")
    add_size_arguments(group)
    text = "weights of the rows: 2 is the row twice, and where noise is learned only their ratios matter"
    add("--weight", metavar="COLUMN", help=text)
    text = "inputs whose values are levels, although they look like numbers; text is so by itself"
    add("--categorical", type=column_names, default=[], metavar="A,B,...", help=text)
    text = "missing inputs: error (default), mean of the column, or indicator (the mean, and an input that says so)"
    add("--missing", type=one_of("error", "mean", "indicator"), metavar="HOW", help=text)
    add("--lonlat", type=column_names, metavar="LON,LAT", help="inputs in degrees that are a place on the globe")
    text = (
        "what repeats itself: so many units of the column, or of a date year, week, day or so many days; may be "
        "given several times"
    )
    add("--period", type=period, action="append", default=[], metavar="COLUMN=P", help=text)
    group = parser.add_argument_group("model")
    add = group.add_argument
    text = f"{', '.join(KERNELS)} (default: chosen from se, matern52 and matern32, with --ard or without)"
    add("--kernel", type=one_of(*KERNELS), metavar="NAME", help=text)
    add("--ard", action="store_true", help="a length-scale for each input (alone: with the kernel se)")
    text = "vfe (default), fic, full (the exact GP), or a power from 0 to 1"
    add("--approximation", type=word_or_number("vfe", "fic", "full"), metavar="NAME", help=text)
    add("--knots", type=word_or_count("auto"), metavar="N", help="auto (default) or their number")
    text = (
        "Vecchia neighbours of each row (NNGP), which predict the residual of the knots: auto (default), their "
        "number, or 0"
    )
    add("--neighbors", type=word_or_count("auto", least=0), metavar="N", dest="n_neighbors", help=text)
    add("--max-knots", type=count, metavar="N", help="limit of the automatic choice of knots")
    text = "auto (default), variational, laplace, ep, or mixture of Student's t, for data that are not Gaussian"
    add("--inference", type=one_of("auto", "variational", "laplace", "ep", "mixture"), metavar="NAME", help=text)
    text = "of Gaussian data: auto (default), constant, varying with the inputs, or heavy: Student's t"
    add("--noise", type=one_of("auto", "constant", "varying", "heavy"), metavar="HOW", help=text)
    text = "auto (default): few rows are predicted by the average of all reasonable kernels; yes, or no"
    add("--average", type=one_of("auto", "yes", "no"), metavar="WHEN", help=text)
    add("--nugget", type=word_or_number("fit"), metavar="V", help="fit, or a variance (default 0)")
    text = (
        "a column and log or normal (scores), of which the function is to be one; may be given several times; or auto "
        "(default: as the data prefer) or none"
    )
    add("--warp", type=warp, action="append", default=[], metavar="COLUMN=HOW", help=text)
    text = "constant (default) or linear, with their uncertainty; zero, or a number, which is held"
    add("--mean", type=word_or_number("constant", "zero", "linear"), metavar="NAME", help=text)
    add("--priors", type=one_of("weak"), metavar="NAME", help="weak: mild priors of variances (default: none)")
    text = "columns (default), common (one scale: maps keep their distances) or no"
    add("--standardize", type=one_of("columns", "common", "no"), metavar="HOW", help=text)


def add_run_group(parser: ArgumentParser) -> _ArgumentGroup:
    """A group for how a fit runs."""
    group = parser.add_argument_group("run")
    add = group.add_argument
    add("--seed", type=whole, default=0, metavar="N", help="of the random numbers (default 0)")
    add("--threads", type=count, metavar="N", help="default: one for each core; results do not change")
    return group
