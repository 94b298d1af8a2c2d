"""The command line: `knotwise COMMAND`. A command imports what it needs when it runs, so that help is instant."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from knotwise import __version__
from knotwise.errors import KnotwiseError, unknown_option

__all__ = ["main"]

USER_ERROR, USAGE_ERROR, INTERRUPTED = 1, 2, 130


@dataclass(frozen=True)
class Command:
    """One word after `knotwise`: what it does in a line, its arguments, and the work."""

    help: str
    add_arguments: Callable[[ArgumentParser], None]
    run: Callable[[Namespace], None]


def add_demo_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--seed", type=_seed, default=0, help="of the split and the initial knots (default 0)")
    parser.add_argument(
        "--out", type=Path, default=Path("knotwise-demo"), help="folder of the picture (default %(default)s)"
    )


def run_demo(arguments: Namespace) -> None:
    from knotwise.demo import show

    show(seed=arguments.seed, out=arguments.out)


#: a new command is a new entry
COMMANDS = {
    "demo": Command(
        "fit the Boston data by five models, compare them, and draw a picture", add_demo_arguments, run_demo
    ),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0, 1 for an error that the message explains, 2 for a misspelt line."""
    words = sys.argv[1:] if argv is None else list(argv)
    try:
        arguments = _parse(words)
        if arguments is None:
            return 0
        COMMANDS[arguments.command].run(arguments)
    except _UsageError as error:
        return _complain(error, USAGE_ERROR)
    except KnotwiseError as error:
        return _complain(error, USER_ERROR)
    except SystemExit as end:  # argparse has printed what there is to say
        return end.code if isinstance(end.code, int) else USAGE_ERROR
    except KeyboardInterrupt:
        return _complain("interrupted", INTERRUPTED)
    return 0


class _UsageError(Exception):
    """A command line that names something unknown."""


def _parse(words: list[str]) -> Namespace | None:
    """Turn words into arguments; None if there is no command, after printing the help."""
    parser = ArgumentParser("knotwise", description="Gaussian processes on a few knots.", allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"knotwise {__version__}")
    children = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    options: dict[str | None, list[str]] = {None: ["--help", "--version"]}
    for name, command in COMMANDS.items():
        child = children.add_parser(name, help=command.help, description=command.help, allow_abbrev=False)
        command.add_arguments(child)
        options[name] = [text for action in child._actions for text in action.option_strings if text.startswith("--")]

    # argparse would refuse the word too, but list every command instead of the nearest
    if words and not words[0].startswith("-") and words[0] not in COMMANDS:
        raise _UsageError(unknown_option("The command", words[0], COMMANDS))
    arguments, unknown = parser.parse_known_args(words)
    if unknown:
        raise _UsageError(unknown_option("The argument", unknown[0].split("=")[0], options[arguments.command]))
    if arguments.command is None:
        parser.print_help()
        return None
    return arguments


def _complain(error: object, code: int) -> int:
    print("knotwise:", " ".join(str(error).split()), file=sys.stderr)
    return code


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise ArgumentTypeError(f"{text!r} is not a whole number of at least 0")
    return int(text)
