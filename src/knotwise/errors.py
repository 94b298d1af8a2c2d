"""Errors and warnings of knotwise: each says what was expected, what came, and what to do."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

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

MOST_NAMED = 40  # options that an error lists; a table can have thousands of columns

#: packages through which a user's call reaches a warning; joblib runs the fits of scikit-learn's searches
PASSED_THROUGH = {"knotwise", "sklearn", "joblib"}


class KnotwiseError(Exception):
    """Parent of every error that knotwise raises, but for `WorkersLostError`; keyword arguments become attributes."""

    def __init__(self, message: str, **data: Any) -> None:
        super().__init__(message)
        for name, value in data.items():
            setattr(self, name, value)


class InvalidInputError(KnotwiseError, ValueError):
    """Data or settings that cannot be used as given."""


class UnknownOptionError(InvalidInputError):
    """A name that is not among the options."""


class NotPositiveDefiniteError(KnotwiseError, ArithmeticError):
    """A covariance matrix without a Cholesky factor."""


class TooLargeError(InvalidInputError):
    """A computation whose memory or time would be out of proportion."""


class ModelFileError(KnotwiseError, ValueError):
    """A file that is not, or no longer, a model that knotwise has saved."""


class NoTrainingDataError(KnotwiseError, RuntimeError):
    """A question about the training data to a model from a file, which has none."""


class WorkersLostError(RuntimeError):
    """Dask's workers cannot do a task, most likely for want of memory; `partitions` are the numbers of those in it.

    It is no `KnotwiseError`, which a search takes for a point that has no value.
    """

    def __init__(self, message: str, partitions: Sequence[int] = ()) -> None:
        super().__init__(message)
        self.partitions = tuple(partitions)


class FitWarning(UserWarning):
    """A fit that ended, but about which the user should know something."""


def warn(message: str) -> None:
    """Issue a `FitWarning` that points at the user's line: the nearest one outside of knotwise and scikit-learn.

    Where there is none, as in a thread that the library has started, it points at the outermost line.
    """
    frame, stacklevel = sys._getframe(1), 2
    while frame.f_back is not None and _package(frame.f_globals) in PASSED_THROUGH:
        frame, stacklevel = frame.f_back, stacklevel + 1
    warnings.warn(message, FitWarning, stacklevel=stacklevel)


def _package(module: dict[str, Any]) -> str:
    return str(module.get("__name__")).partition(".")[0]


def nearest(given: object, options: Iterable[str]) -> str | None:
    """The option that is most like the one given, whatever the case of its letters; None if none is like it."""
    from difflib import get_close_matches

    folded = {name.casefold(): name for name in options}
    text = str(given).casefold()
    near = get_close_matches(text, folded, n=1, cutoff=0.5) or [k for k in folded if text and k.startswith(text)]
    return folded[near[0]] if near else None


def unknown_option(what: str, given: object, options: Iterable[str]) -> UnknownOptionError:
    """Make the error for a misspelt option; it names the nearest valid one."""
    known = sorted(options)
    near = nearest(given, known)
    hint = f" Did you mean {near!r}?" if near is not None else ""
    more = f" and {len(known) - MOST_NAMED} others" if len(known) > MOST_NAMED else ""
    return UnknownOptionError(
        f"{what} is {given!r}, but must be one of {', '.join(map(repr, known[:MOST_NAMED]))}{more}.{hint}",
        given=given,
        options=known,
    )
