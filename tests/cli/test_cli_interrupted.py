"""Ctrl-C: an exit code of its own, and words on how to go on, which are true."""

import json

import pytest
from cli_tables import QUICK

from knotwise.cli import reading
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
