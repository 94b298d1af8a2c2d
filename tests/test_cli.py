"""The command line: words become calls, misspelt ones get the nearest, errors are one line."""

import subprocess
import sys
import types
from pathlib import Path

import pytest

import knotwise
from knotwise.cli import main as cli
from knotwise.cli.command import in_options


def test_version_is_the_version_of_the_package(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"knotwise {knotwise.__version__}\n"


def test_no_command_shows_every_command(capsys):
    assert cli.main([]) == 0
    help_text = " ".join(capsys.readouterr().out.split())
    assert all(name in help_text and command.help in help_text for name, command in cli.COMMANDS.items())


@pytest.mark.failure(35)
@pytest.mark.parametrize(
    "words, nearest",
    [
        (["daat"], "'data'"),
        (["repotr"], "'report'"),
        (["data", "bostn", "-o", "boston.csv"], "'boston'"),
        (["data", "boston", "--tset", "new.csv"], "'--test'"),
        (["--verison"], "'--version'"),
    ],
)
def test_a_misspelt_word_is_answered_by_the_nearest_known_one(words, nearest, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(words) == 2
    shown = capsys.readouterr()
    assert f"Did you mean {nearest}?" in shown.err and shown.err.count("\n") == 1 and not shown.out
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("words", [[], ["--help"], ["fit", "--help"]], ids=" ".join)
def test_the_command_line_and_its_help_start_without_the_heavy_packages(words):
    heavy = ("numpy", "scipy", "sklearn", "matplotlib", "rich")
    source = str(Path(knotwise.__file__).parents[1])
    program = (
        f"import sys; sys.path.insert(0, {source!r}); from knotwise.cli.main import main; main({words!r}); "
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Drop these rows, or fit with `missing='mean'`.", "Drop these rows, or fit with --missing mean."),
        ("name it in `categorical`", "name it in --categorical"),
        ("Raise `max_knots`, or `knots=80`.", "Raise --max-knots, or --knots 80."),
        ("Call `diagnose()` before `save`.", "Call `diagnose()` before `save`."),
    ],
)
def test_settings_of_python_are_named_as_options(text, shown):
    assert in_options(text) == shown


@pytest.mark.parametrize("command", sorted(cli.COMMANDS))
def test_help_has_examples_that_are_words_of_the_command(command, capsys):
    assert cli.main([command, "--help"]) == 0
    shown = capsys.readouterr().out
    examples = [line for line in shown.split("examples:")[1].splitlines() if line.strip()]
    assert examples and all(f"knotwise {command}" in line for line in examples)


def test_a_new_command_is_one_entry(monkeypatch, capsys):
    hello = cli.Command(
        "say hello", lambda parser: parser.add_argument("name"), lambda given: print("hello", given.name)
    )
    monkeypatch.setattr(cli, "COMMANDS", types.MappingProxyType({**cli.COMMANDS, "hello": hello}))
    assert cli.main(["hello", "knots"]) == 0
    assert capsys.readouterr().out == "hello knots\n"
