"""The commands `reproduce`, `list` and `demo`: words become calls, errors are one line, Ctrl-C says how to go on."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import knotwise
import knotwise_reproduction
from knotwise.cli import main as cli
from knotwise.errors import InvalidInputError
from knotwise_reproduction import reproduce, workers
from knotwise_reproduction.experiments import EXPERIMENTS
from knotwise_reproduction.runs import Finished, versions
from knotwise_reproduction.scores import Prediction

PACKAGES = (knotwise, knotwise_reproduction)
GOES_ON = "the same command goes on from there."
DEFAULTS = {"quick": False, "seeds": None, "out": Path("knotwise-paper"), "jobs": None, "fresh": False}


@pytest.fixture
def asked(monkeypatch):
    """What the reproduction was asked for, in place of it."""
    calls = []
    monkeypatch.setattr(reproduce, "reproduce", lambda names, **given: calls.append((list(names), given)))
    return calls


@pytest.mark.parametrize(
    "words, nearest",
    [
        (["dmeo"], "'demo'"),
        (["repoduce"], "'reproduce'"),
        (["reproduce", "bananna"], "'banana'"),
        (["reproduce", "boston", "--seed", "1"], "'--seeds'"),
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


class Stopping:
    """Stands for a function; raises KeyboardInterrupt at the last call that is allowed, and counts."""

    def __init__(self, function):
        self.function, self.made, self.allowed = function, 0, None

    def __call__(self, *args, **kwargs):
        if self.made == self.allowed:
            raise KeyboardInterrupt
        self.made += 1
        return self.function(*args, **kwargs)


def test_an_interrupted_reproduction_goes_on_with_the_same_command(tmp_path, monkeypatch, capsys):
    def row_of(job, exact):
        row = {"experiment": job.experiment, "setting": job.setting, "method": job.method, "seed": job.seed}
        return Finished(row | {"versions": versions(), "error": "made by hand"}, prediction)

    monkeypatch.chdir(tmp_path)
    prediction = Prediction(np.zeros(1), np.ones(1), 0.0)
    jobs = Stopping(row_of)
    monkeypatch.setattr(workers, "run", jobs)
    words = ["reproduce", "poisson", "--quick", "--jobs", "1", "--out", "there"]
    for allowed, more, said in (
        (0, [], "No fit was finished."),
        (3, [], f"Finished fits are kept in 'there': {GOES_ON}"),
        (2, ["--fresh"], "Finished fits are kept in 'there': the same command without --fresh goes on from there."),
    ):
        jobs.made, jobs.allowed = 0, allowed
        code = cli.main([*words, *more])
        assert (code, capsys.readouterr().err) == (130, f"knotwise: interrupted. {said}\n")
    jobs.made, jobs.allowed = 0, None
    assert cli.main(words) == 0 and jobs.made == 14 - 2


@pytest.mark.skipif(os.name == "nt", reason="signals are others there")
def test_a_signal_from_the_keyboard_ends_in_the_same_words(tmp_path):
    # a process in the background of a shell is born with signals of the keyboard ignored
    heard = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    program = f"{heard}; import sys; from knotwise.cli.main import main; print('ready', flush=True); sys.exit(main())"
    process = subprocess.Popen(
        [sys.executable, "-c", program, "reproduce", "all", "--jobs", "1", "--out", "there"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(str(Path(each.__file__).parents[1]) for each in PACKAGES)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    assert "fits to run" in process.stdout.readline()  # the folder is there
    process.send_signal(signal.SIGINT)
    try:
        err = process.communicate(timeout=300)[1]
    finally:
        process.kill()
    assert process.returncode == 130 and err.startswith("knotwise: interrupted. ") and err.count("\n") == 1, err
