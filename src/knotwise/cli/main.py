"""The command line: `knotwise COMMAND`. A command imports what it needs when it runs, so that help is instant."""

from __future__ import annotations

import json
import os
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import NoReturn

from knotwise.cli.command import Command, UsageError, in_options
from knotwise.cli.models import COMMANDS as MODEL_COMMANDS
from knotwise.errors import KnotwiseError, UnknownOptionError, unknown_option
from knotwise.version import __version__

EXAMPLES = """`knotwise COMMAND --help` shows every option of a command, with examples. To begin:
  knotwise data boston -o boston.csv --test new.csv
  knotwise fit boston.csv --target medv -o boston.knotwise
  knotwise predict boston.knotwise new.csv -o predictions.csv"""

USER_ERROR, USAGE_ERROR, INTERRUPTED = 1, 2, 130


def _reproduction_commands() -> dict[str, Command]:
    """The commands of `knotwise_reproduction`, the second package of the repository, if it is installed."""
    if find_spec("knotwise_reproduction") is None:
        return {}
    return import_module("knotwise_reproduction.commands").COMMANDS


#: by their words; a new group of commands is a module with its own COMMANDS, and an entry here
COMMANDS: dict[str, Command] = {**MODEL_COMMANDS, **_reproduction_commands()}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0, 1 for an error that the message explains, 2 for a misspelt line.

    An error is one line on stderr; where `--json` asks for an object on stdout, it is one there too.
    """
    words = sys.argv[1:] if argv is None else list(argv)
    as_json = "--json" in words
    try:
        arguments = _parse(words)
        if arguments is None:
            return 0
        COMMANDS[arguments.command].run(arguments)
        if sys.stdout is not None:  # None where it was closed: knotwise ... >&-
            sys.stdout.flush()
    except (UnknownOptionError, UsageError) as error:
        return _complain(error, USAGE_ERROR, as_json)
    except BrokenPipeError:  # the reader of a pipe, such as head, has what it wanted
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at the end of the process
        return 0
    except (KnotwiseError, OSError) as error:
        return _complain(error, USER_ERROR, as_json)
    except SystemExit as end:  # argparse has printed what there is to say
        return end.code if isinstance(end.code, int) else USAGE_ERROR
    except KeyboardInterrupt as stop:
        return _complain(KeyboardInterrupt(str(stop) or "interrupted"), INTERRUPTED, as_json)
    return 0


class Parser(ArgumentParser):
    """argparse, but what it cannot understand becomes our error of one line."""

    def error(self, message: str) -> NoReturn:
        end = "" if message.endswith(("?", ".")) else "."
        raise UsageError(f"{message}{end} `{self.prog} --help` shows what is possible.")


def _parse(words: list[str]) -> Namespace | None:
    """Turn words into arguments; None if there is no command, after printing the help."""
    parser = Parser(
        "knotwise",
        description="Gaussian processes on a few knots: from a table to a model to predictions.",
        epilog=EXAMPLES,
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"knotwise {__version__}")
    children = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    options: dict[str | None, list[str]] = {None: ["--help", "--version"]}
    for name, command in COMMANDS.items():
        child = children.add_parser(
            name,
            help=command.help,
            description=command.help,
            epilog=command.examples,
            formatter_class=RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        command.add_arguments(child)
        options[name] = [text for action in child._actions for text in action.option_strings if text.startswith("--")]

    if words and words[0] in ("reproduce", "list", "demo") and words[0] not in COMMANDS:
        raise KnotwiseError(
            f"`knotwise {words[0]}` needs the paper's experiments, a second package that is not installed here; to "
            "have it, from a checkout of knotwise: pip install ./reproduction"
        )
    # argparse would refuse the word too, but list every command instead of the nearest
    if words and not words[0].startswith("-") and words[0] not in COMMANDS:
        raise unknown_option("The command", words[0], COMMANDS)
    # before argparse misses the argument that a misspelt option should have been
    given = [word.split("=")[0] for word in words[: words.index("--") if "--" in words else None]]
    known = options[words[0] if words and words[0] in COMMANDS else None]
    for word in given:
        if word.startswith("--") and word not in known:
            raise unknown_option("The argument", word, known)
    arguments, unknown = parser.parse_known_args(words)
    if unknown:
        raise unknown_option("The argument", unknown[0].split("=")[0], options[arguments.command])
    if arguments.command is None:
        parser.print_help()
        return None
    return arguments


def _complain(error: object, code: int, as_json: bool) -> int:
    text = in_options(" ".join(str(error).split()))
    print("knotwise:", text, file=sys.stderr)
    if as_json:
        print(json.dumps({"error": text, "type": type(error).__name__, "exit_code": code}))
    return code
