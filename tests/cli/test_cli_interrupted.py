"""Ctrl-C: an exit code of its own, and words on how to go on, which are true."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cli_tables import QUICK

import knotwise
from knotwise.cli import reading
from knotwise.paper import workers
from knotwise.paper.runs import Finished, versions
from knotwise.paper.scores import Prediction
from knotwise.selection.problem import Problem

GOES_ON = "the same command goes on from there."


class Stopping:
    """Stands for a function; raises KeyboardInterrupt at the last call that is allowed, and counts."""

    def __init__(self, function):
        self.function, self.made, self.allowed = function, 0, None

    def __call__(self, *args, **kwargs):
        if self.made == self.allowed:
            raise KeyboardInterrupt
        self.made += 1
        return self.function(*args, **kwargs)


@pytest.fixture
def evaluations(monkeypatch):
    stopping = Stopping(Problem.evaluate)
    monkeypatch.setattr(Problem, "evaluate", lambda *args, **kwargs: stopping(*args, **kwargs))
    return stopping


def fit_words(folder, *more):
    return ["fit", folder / "all.csv", "--target", "y", "--inputs", "a,b", *QUICK, "-o", "m.knotwise", *more]


def test_an_interrupted_fit_says_that_a_checkpoint_would_keep_its_steps(folder, here, run, evaluations):
    evaluations.allowed = 30
    code, out, err = run(*fit_words(folder, "--json"))
    assert code == 130 and json.loads(out)["exit_code"] == 130 and err == f"knotwise: {json.loads(out)['error']}\n"
    assert "Nothing is kept" in err and "--checkpoint FOLDER" in err and not list(here.iterdir())


def test_an_interrupted_fit_with_a_checkpoint_goes_on_with_the_same_command(
    folder, here, run, evaluations, monkeypatch
):
    monkeypatch.setattr("knotwise.estimators.saving._errors_of", lambda estimator: None)  # evaluations after the fit
    words = fit_words(folder, "--checkpoint", "state")
    assert run(*words)[0] == 0
    total, model = evaluations.made, (here / "m.knotwise").read_bytes()
    (here / "m.knotwise").unlink()
    evaluations.made, evaluations.allowed = 0, total - 1
    code, _, err = run(*words)
    assert code == 130 and err == f"knotwise: interrupted. Finished steps are kept in 'state': {GOES_ON}\n"
    evaluations.made, evaluations.allowed = 0, None
    assert run(*words)[0] == 0 and evaluations.made < total
    assert (here / "m.knotwise").read_bytes() == model


def test_an_interruption_before_the_first_step_promises_nothing(folder, here, run, evaluations, monkeypatch):
    evaluations.allowed = 0
    code, _, err = run(*fit_words(folder, "--checkpoint", "state"))
    assert code == 130 and err == "knotwise: interrupted. No step was finished.\n"
    monkeypatch.setattr(reading, "check_readable", Stopping(None))
    reading.check_readable.allowed = 0
    assert run(*fit_words(folder))[::2] == (130, "knotwise: interrupted\n")


def test_an_interrupted_reproduction_goes_on_with_the_same_command(here, run, monkeypatch):
    def row_of(job, exact):
        row = {"experiment": job.experiment, "setting": job.setting, "method": job.method, "seed": job.seed}
        return Finished(row | {"versions": versions(), "error": "made by hand"}, prediction)

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
        code, _, err = run(*words, *more)
        assert (code, err) == (130, f"knotwise: interrupted. {said}\n")
    jobs.made, jobs.allowed = 0, None
    assert run(*words)[0] == 0 and jobs.made == 14 - 2


@pytest.mark.skipif(os.name == "nt", reason="signals are others there")
def test_a_signal_from_the_keyboard_ends_in_the_same_words(here):
    # a process in the background of a shell is born with signals of the keyboard ignored
    heard = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    program = f"{heard}; import sys; from knotwise.cli.main import main; print('ready', flush=True); sys.exit(main())"
    process = subprocess.Popen(
        [sys.executable, "-c", program, "reproduce", "all", "--jobs", "1", "--out", "there"],
        env=os.environ | {"PYTHONPATH": str(Path(knotwise.__file__).parents[1])},
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
