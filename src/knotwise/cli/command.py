"""What a command is, and how its words become values."""

from __future__ import annotations

import re
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from knotwise.cli.numerals import is_whole
from knotwise.errors import KnotwiseError

__all__ = ["Command", "UsageError", "count", "explain_interruption", "in_options"]

#: settings of Python that are options here, by the same name but for the sign between words
SETTING = re.compile(
    r"`(?P<name>approximation|blocks|categorical|exposure|inference|kernel|knots|likelihood|max_knots|mean|missing|"
    r"noise_variance|nugget|offset|priors|standardize|trials)(?:=['\"]?(?P<value>[\w.]+)['\"]?)?`"
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
