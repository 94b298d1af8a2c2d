"""Errors and warnings of knotwise: each says what was expected, what came, and what to do."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterable, Sequence
from inspect import currentframe
from typing import Any

from knotwise.docstrings import documented

__all__ = [
    "FitWarning",
    "InvalidInputError",
    "KnotwiseError",
    "ModelFileError",
    "NoTrainingDataError",
    "NotPositiveDefiniteError",
    "TooLargeError",
    "UnknownOptionError",
    "WorkersLostError",
    "nearest",
    "unknown_option",
    "warn",
]

#: what errors say of their arguments
ARGUMENTS = {
    "message": ("str", "What was expected, what came, and what to do."),
    "**data": (
        "dict",
        "What a program may want to know of it, such as the numbers of the rows; each becomes an attribute.",
    ),
    "given": ("object", "What a user wrote."),
    "options": ("iterable of str", "What is possible."),
}
MOST_NAMED = 40  # options that an error lists; a table can have thousands of columns

#: packages through which a user's call reaches a warning; joblib runs the fits of scikit-learn's searches
PASSED_THROUGH = {"knotwise", "sklearn", "joblib"}


@documented(ARGUMENTS)
class KnotwiseError(Exception):
    """Parent of every error that knotwise raises, but for `WorkersLostError`; keyword arguments become attributes.

    Examples
    --------
    >>> from knotwise import GPRegressor
    >>> from knotwise.errors import KnotwiseError
    >>> try:
    ...     GPRegressor().fit([[1.0], [float("nan")]], [1.0, 2.0])
    ... except KnotwiseError as error:
    ...     print(error.rows)
    [1]
    """

    def __init__(self, message: str, **data: Any) -> None:
        super().__init__(message)
        for name, value in data.items():
            setattr(self, name, value)


@documented(ARGUMENTS)
class InvalidInputError(KnotwiseError, ValueError):
    """Data or settings that cannot be used as given; also a `ValueError`.

    Examples
    --------
    >>> from knotwise import GPRegressor
    >>> from knotwise.errors import InvalidInputError
    >>> try:
    ...     GPRegressor(likelihood="poisson").fit([[0.0], [1.0]], [3, -1])
    ... except InvalidInputError as error:
    ...     print(error)
    y must be ..., but is -1 in row 1...
    """


class UnknownOptionError(InvalidInputError):
    """A name that is not among the options.

    Parameters
    ----------
    message : str
        What was given, what is possible, and the nearest of it.
    **data : dict
        `given` and `options`; each becomes an attribute.

    Examples
    --------
    >>> from knotwise import GPRegressor
    >>> from knotwise.errors import UnknownOptionError
    >>> try:
    ...     GPRegressor(likelihood="poison").fit([[0.0], [1.0]], [3, 1])
    ... except UnknownOptionError as error:
    ...     print(error)
    `likelihood` is 'poison', but must be one of ... Did you mean 'poisson'?
    """


class NotPositiveDefiniteError(KnotwiseError, ArithmeticError):
    """A covariance matrix without a Cholesky factor.

    Parameters
    ----------
    message : str
        Which matrix, with which jitter, and what to do.
    **data : dict
        What is known of it, such as `jitter`; each becomes an attribute.

    Examples
    --------
    >>> from knotwise.errors import NotPositiveDefiniteError
    >>> issubclass(NotPositiveDefiniteError, ArithmeticError)
    True
    """


@documented(ARGUMENTS)
class TooLargeError(InvalidInputError):
    """A computation whose memory or time would be out of proportion.

    Parameters
    ----------
    message : str
        How large it would be, and what to ask for instead.

    Examples
    --------
    >>> from knotwise.errors import InvalidInputError, TooLargeError
    >>> issubclass(TooLargeError, InvalidInputError)
    True
    """


class ModelFileError(KnotwiseError, ValueError):
    """A file that is not, or no longer, a model that knotwise has saved.

    Parameters
    ----------
    message : str
        What is wrong with the file.
    **data : dict
        `path`, the file; each becomes an attribute.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import knotwise
    >>> from knotwise.errors import ModelFileError
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "notes.txt"
    ...     _ = path.write_text("no model")
    ...     try:
    ...         knotwise.load(path)
    ...     except ModelFileError as error:
    ...         print(Path(error.path).name)
    notes.txt
    """


@documented(ARGUMENTS)
class NoTrainingDataError(KnotwiseError, RuntimeError):
    """A question about the training data to a model from a file, which has none.

    Parameters
    ----------
    message : str
        What was asked, and what to do.

    Examples
    --------
    >>> from knotwise.errors import NoTrainingDataError
    >>> issubclass(NoTrainingDataError, RuntimeError)
    True
    """


class WorkersLostError(RuntimeError):
    """Dask's workers cannot do a task, most likely for want of memory.

    It is no `KnotwiseError`, which a search takes for a point that has no value.

    Parameters
    ----------
    message : str
        What could not be done, and what to do.
    partitions : sequence of int, default ()
        Numbers of the partitions in the task.

    Examples
    --------
    >>> from knotwise.errors import WorkersLostError
    >>> WorkersLostError("the workers have died", partitions=[3, 4]).partitions
    (3, 4)
    """

    def __init__(self, message: str, partitions: Sequence[int] = ()) -> None:
        super().__init__(message)
        self.partitions = tuple(partitions)


class FitWarning(UserWarning):
    """A fit that ended, or a prediction, but about which the user should know something.

    Parameters
    ----------
    message : str, default ""
        What it is, and what to do.
    rows : array of int, optional
        The numbers of the rows that it is about; None where it is about no row.
    details : str, default ""
        What differs from call to call, such as the levels that are new. It is no part of the message, so that filters
        of warnings know it again; the log `logging.getLogger("knotwise")` has it, at the level INFO.

    Examples
    --------
    >>> import warnings
    >>> from knotwise.errors import FitWarning
    >>> warnings.simplefilter("error", FitWarning)  # a program that must not go on with such a fit
    """

    def __init__(self, message: str = "", rows: Any = None, details: str = "") -> None:
        super().__init__(message)
        self.rows = rows
        self.details = details


def warn(message: str, rows: Any = None, details: str = "") -> None:
    """Issue a `FitWarning` that points at the user's line: the nearest one outside of knotwise and scikit-learn.

    Where there is none, as in a thread that the library has started, it points at the outermost line.

    Parameters
    ----------
    message : str
        What a user should know, and what to do.
    rows : array of int, optional
        The numbers of the rows that it is about, which the warning then has as its `rows`.
    details : str, default ""
        What differs from call to call, which the log and the warning's `details` have.

    Examples
    --------
    >>> import warnings
    >>> from knotwise.errors import warn
    >>> with warnings.catch_warnings(record=True) as heard:
    ...     warnings.simplefilter("always")
    ...     warn("All targets are equal.")
    >>> heard[0].category.__name__
    'FitWarning'
    """
    # callers decide where the warning points, and nothing else; `skip_file_prefixes` of Python 3.12 will do the same
    frame, stacklevel = currentframe(), 1
    while frame is not None and frame.f_back is not None and _package(frame.f_globals) in PASSED_THROUGH:
        frame, stacklevel = frame.f_back, stacklevel + 1
    if details:
        logging.getLogger("knotwise").info(details)
    warnings.warn(FitWarning(message, rows, details), stacklevel=stacklevel)


def _package(module: dict[str, Any]) -> str:
    return str(module.get("__name__")).partition(".")[0]


@documented(ARGUMENTS)
def nearest(given: object, options: Iterable[str]) -> str | None:
    """The option that is most like the one given, whatever the case of its letters; None if none is like it.

    Returns
    -------
    str or None
        One of the options, as it is spelt there.

    Examples
    --------
    >>> from knotwise.errors import nearest
    >>> nearest("Poison", ["gaussian", "poisson"])
    'poisson'
    """
    from difflib import get_close_matches

    folded = {name.casefold(): name for name in options}
    text = str(given).casefold()
    near = get_close_matches(text, folded, n=1, cutoff=0.5) or [k for k in folded if text and k.startswith(text)]
    return folded[near[0]] if near else None


@documented(ARGUMENTS)
def unknown_option(what: str, given: object, options: Iterable[str]) -> UnknownOptionError:
    """Make the error for a misspelt option; it names the nearest valid one.

    Parameters
    ----------
    what : str
        What the option is for, as the error's first words.

    Returns
    -------
    UnknownOptionError
        To be raised, with `given` and `options` as attributes.

    Examples
    --------
    >>> from knotwise.errors import unknown_option
    >>> print(unknown_option("`kind`", "maen", ["mean", "latent"]))
    `kind` is 'maen', but must be one of 'latent', 'mean'. Did you mean 'mean'?
    """
    known = sorted(options)
    near = nearest(given, known)
    hint = f" Did you mean {near!r}?" if near is not None else ""
    more = f" and {len(known) - MOST_NAMED} others" if len(known) > MOST_NAMED else ""
    return UnknownOptionError(
        f"{what} is {given!r}, but must be one of {', '.join(map(repr, known[:MOST_NAMED]))}{more}.{hint}",
        given=given,
        options=known,
    )
