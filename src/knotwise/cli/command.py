"""What a command is, how its words become values, and what is said beside the result.

That goes to stderr, so that stdout stays clean.
"""

from __future__ import annotations

import json
import re
import sys
import warnings
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import isfinite
from typing import Any

from knotwise.data.cell_text import is_whole
from knotwise.errors import KnotwiseError

#: settings of Python that are options here, by the same name but for the sign between words
SETTING = re.compile(
    r"`(?P<name>approximation|average|blocks|categorical|exposure|inference|kernel|knots|likelihood|max_knots|mean|"
    r"missing|noise|noise_variance|nugget|offset|predict_at|priors|standardize|trials)(?:=['\"]?(?P<value>[\w.]+)['\"]?)?`"
)


class UsageError(KnotwiseError):
    """A command line with something missing, too much, or contradictory."""


@dataclass(frozen=True)
class Command:
    """One word after `knotwise`: what it does in a line, its arguments, the work, and examples for its help."""

    help: str
    add_arguments: Callable[[ArgumentParser], None]
    run: Callable[[Namespace], None]
    examples: str = ""


def count(text: str) -> int:
    """A whole number of at least 1."""
    if not is_whole(text) or int(text) < 1:
        raise ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


@contextmanager
def explain_interruption(what_is_kept: Callable[[], str]) -> Iterator[None]:
    """Let an interruption of this work say what is kept of it, and how to go on; asked for only when it happens."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"interrupted. {what_is_kept()}".rstrip()) from None


def in_options(text: str) -> str:
    """A message of Python in the words of the command line: `missing='mean'` is --missing mean."""

    def option(found: re.Match[str]) -> str:
        value = "" if found["value"] is None else f" {found['value']}"
        return f"--{found['name'].replace('_', '-')}{value}"

    return SETTING.sub(option, text)


def note(text: object) -> None:
    """Say something on stderr, in one line."""
    print("knotwise:", " ".join(str(text).split()), file=sys.stderr)


@contextmanager
def warnings_as_notes() -> Iterator[list[str]]:
    """Turn warnings for the user into notes, and collect them; that about column names, which we match, is left out."""
    notes: list[str] = []
    with warnings.catch_warnings():
        show = warnings.showwarning

        def tell(message: Any, category: type[Warning], *others: Any, **options: Any) -> None:
            if not issubclass(category, UserWarning):
                show(message, category, *others, **options)
            elif str(message) not in notes:
                notes.append(str(message))
                note(f"warning: {in_options(str(message))}")

        warnings.showwarning = tell
        warnings.simplefilter("always", UserWarning)
        warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
        yield notes


def print_json(value: dict[str, Any]) -> None:
    """Print one JSON object on stdout; what is not finite becomes null."""
    print(json.dumps(_plain(value), ensure_ascii=False, allow_nan=False))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if hasattr(value, "tolist"):  # of NumPy, which this module does without
        return _plain(value.tolist())
    if isinstance(value, float):
        return value if isfinite(value) else None
    return value
