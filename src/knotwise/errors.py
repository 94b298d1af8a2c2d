"""Errors and warnings of knotwise: each says what was expected, what came, and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = [
    "FitWarning",
    "InvalidInputError",
    "KnotwiseError",
    "NotPositiveDefiniteError",
    "TooLargeError",
    "UnknownOptionError",
    "unknown_option",
]


class KnotwiseError(Exception):
    """Parent of every error that knotwise raises; keyword arguments become attributes."""

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


class FitWarning(UserWarning):
    """A fit that ended, but about which the user should know something."""


def unknown_option(what: str, given: object, options: Iterable[str]) -> UnknownOptionError:
    """Make the error for a misspelt option; it names the nearest valid one."""
    from difflib import get_close_matches

    known = sorted(options)
    text = str(given).casefold()
    near = get_close_matches(text, known, n=1, cutoff=0.5) or [k for k in known if text and k.startswith(text)]
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return UnknownOptionError(
        f"{what} is {given!r}, but must be one of {', '.join(map(repr, known))}.{hint}",
        given=given,
        options=known,
    )
