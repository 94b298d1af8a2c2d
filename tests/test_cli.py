"""The command line: words become calls, misspelt ones get the nearest, errors are one line."""

import subprocess
import sys
import types
from pathlib import Path

import pytest

import knotwise
from knotwise.cli import main as cli
from knotwise.cli.command import in_options
from knotwise.errors import InvalidInputError
from knotwise.paper import reproduce
from knotwise.paper.experiments import EXPERIMENTS

DEFAULTS = {"quick": False, "seeds": None, "out": Path("knotwise-paper"), "jobs": None, "fresh": False}


@pytest.fixture
def asked(monkeypatch):
    """What the reproduction was asked for, in place of it."""
    calls = []
    monkeypatch.setattr(reproduce, "reproduce", lambda names, **given: calls.append((list(names), given)))
    return calls


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
        (["dmeo"], "'demo'"),
        (["repoduce"], "'reproduce'"),
        (["reproduce", "bananna"], "'banana'"),
        (["reproduce", "boston", "--seed", "1"], "'--seeds'"),
        (["--verison"], "'--version'"),
    ],
)
def test_a_misspelt_word_is_answered_by_the_nearest_known_one(words, nearest, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(words) == 2
    shown = capsys.readouterr()
    assert f"Did you mean {nearest}?" in shown.err and shown.err.count("\n") == 1 and not shown.out
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("option", ["--seeds", "--jobs"])
@pytest.mark.parametrize("value", ["0", "-1", "1.5", "many"])
def test_a_count_that_is_none_is_refused_with_its_value(option, value, capsys):
    assert cli.main(["reproduce", f"{option}={value}"]) == 2
    assert repr(value) in capsys.readouterr().err


def test_an_error_of_the_user_is_one_line_without_a_traceback(tmp_path, capsys):
    occupied = tmp_path / "file"
    occupied.write_text("in the way")
    assert cli.main(["demo", "--out", str(occupied)]) == 1
    shown = capsys.readouterr()
    assert str(occupied) in shown.err and shown.err.count("\n") == 1 and not shown.out
    assert occupied.read_text() == "in the way"


def test_an_error_of_ours_is_not_hidden_and_one_of_the_user_is_explained(monkeypatch, capsys):
    def fail(error):
        def raise_it(*_, **__):
            raise error

        return raise_it

    monkeypatch.setattr(reproduce, "reproduce", fail(ZeroDivisionError()))
    with pytest.raises(ZeroDivisionError):
        cli.main(["demo"])
    monkeypatch.setattr(reproduce, "reproduce", fail(InvalidInputError("Choose another.")))
    assert cli.main(["demo"]) == 1 and capsys.readouterr().err == "knotwise: Choose another.\n"
    monkeypatch.setattr(reproduce, "reproduce", fail(KeyboardInterrupt()))
    assert cli.main(["demo"]) == 130 and "interrupted" in capsys.readouterr().err


def test_words_reach_the_reproduction(asked):
    assert cli.main(["reproduce"]) == 0
    words = ["reproduce", "boston", "banana", "--quick", "--seeds", "4", "--out", "there", "--jobs", "2", "--fresh"]
    assert cli.main(words) == 0
    given = {"quick": True, "seeds": 4, "out": Path("there"), "jobs": 2, "fresh": True}
    assert asked == [(["all"], DEFAULTS), (["boston", "banana"], given)]


def test_demo_is_the_quick_form_of_everything(asked):
    assert cli.main(["demo", "--jobs", "2"]) == 0
    assert asked == [(["all"], {"quick": True, "out": Path("knotwise-demo"), "jobs": 2, "fresh": False})]


def test_list_shows_every_experiment_with_its_place_in_the_paper_and_its_methods(capsys):
    assert cli.main(["list"]) == 0
    shown = capsys.readouterr().out
    for experiment in EXPERIMENTS.values():
        assert f"\n{experiment.name}" in f"\n{shown}" and experiment.title in shown and experiment.where in shown
    assert "Simult. adversarial" in shown and "auto" in shown
    assert "beyond the paper: the first weakness of section 7" in shown and "line-0.02" in shown


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
