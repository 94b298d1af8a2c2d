"""A fit shows what it does to those who wait, tells each step to a callback, and is silent otherwise."""

import io
import logging
import os
import pickle
import re
import subprocess
import sys
import threading
import time
import types
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

from knotwise import GPClassifier, GPRegressor, screen
from knotwise import progress as progress_module
from knotwise.errors import FitWarning, InvalidInputError, KnotwiseError, warn
from knotwise.kernels import SquaredExponential
from knotwise.knots import GreedyVariance, OneAtATime
from knotwise.progress import DELAY, FitEvent, LiveLine, Progress
from knotwise.screen import Log, Notebook, Terminal, screen_for
from knotwise.selection.problem import Problem

ROOT = Path(__file__).parents[1]


class Tty(io.StringIO):
    """A terminal that remembers everything that was written to it, and shows what a person would see."""

    writes = 0

    def isatty(self):
        return True

    def write(self, text):
        super().write(text)
        self.writes += 1

    @property
    def shown(self):
        """The text of the current line after all carriage returns."""
        line = []
        for piece in self.getvalue().split("\r"):
            line[: len(piece)] = piece
        return "".join(line).rstrip()


class Clock:
    """A clock whose `wait` lets the time pass, until the end."""

    def __init__(self, end=np.inf):
        self.now, self.end, self.seen = 0.0, end, []

    def __call__(self):
        return self.now

    def wait(self, seconds):
        self.now = min(self.now + seconds, self.end)
        return self.now >= self.end


def use_stream(monkeypatch, stream, term="xterm"):
    """Let the module see this stream as stderr; pytest changes the real one between fixtures and tests."""
    monkeypatch.setattr(screen, "sys", types.SimpleNamespace(stderr=stream, modules=sys.modules))
    monkeypatch.setenv("TERM", term)


@pytest.fixture
def terminal(monkeypatch):
    stream = Tty()
    use_stream(monkeypatch, stream)
    return stream


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(120, 2))
    return X, 40 * np.sin(7 * X[:, 0]) + rng.normal(size=120)


# -- the line ---------------------------------------------------------------------------------------


def drawn(end):
    """All that a line draws in a fit of so many seconds, with the times."""
    clock, stream, seen = Clock(end), Tty(), []
    terminal = Terminal(stream)
    line = LiveLine(terminal, lambda: seen.append(clock.now) or f"at {clock.now:.2f}", DELAY)
    line.run(clock.wait)
    return seen, stream


def test_nothing_is_drawn_in_the_first_two_seconds():
    assert DELAY == 2.0
    seen, stream = drawn(end=1.99)
    assert seen == [] and stream.getvalue() == ""


def test_the_line_appears_after_two_seconds_a_few_times_a_second_and_disappears():
    seen, stream = drawn(end=3.1)
    assert seen == [2.0, 2.25, 2.5, 2.75, 3.0]
    assert "at 3.00" in stream.getvalue()
    assert stream.shown == ""


def test_a_shorter_line_leaves_nothing_of_a_longer_one_and_a_long_one_does_not_wrap():
    stream = Tty()
    terminal = Terminal(stream)
    terminal.draw("a long line of text")
    terminal.draw("short")
    assert stream.shown == "short"
    terminal.draw("x" * 500)
    assert len(stream.shown) == 79
    terminal.draw(f"{'x' * 60} | 3 knots | 0.000123 nats")
    assert stream.shown == f"{'x' * 60} | 3 knots"
    terminal.erase()
    assert stream.shown == "" and stream.getvalue().endswith("\r")


def draw_every_evaluation(monkeypatch, drawings):
    """Let each evaluation wait until the line was drawn after it; `drawings` says how often it was."""
    monkeypatch.setattr(progress_module, "DELAY", 0.0)
    monkeypatch.setattr(progress_module, "PERIOD", 0.001)
    evaluate = Problem.evaluate

    def drawn_evaluation(*args, **kwargs):
        evidence = evaluate(*args, **kwargs)
        enough, end = drawings() + 2, time.monotonic() + 60  # the first one may have begun before
        while drawings() < enough:
            assert time.monotonic() < end, "the line is not drawn"
            time.sleep(0.001)
        return evidence

    monkeypatch.setattr(Problem, "evaluate", drawn_evaluation)


def test_a_fit_in_a_terminal_shows_its_state_and_leaves_a_clean_line(terminal, monkeypatch, data):
    draw_every_evaluation(monkeypatch, lambda: terminal.writes)
    gp = GPRegressor(SquaredExponential(), random_state=0).fit(*data)
    written = terminal.getvalue()
    assert re.search(r"knotwise (\d+ min )?\d+ s \| ", written)
    for word in (" | after signal", " | after move", " knots", "log evidence", "share 0."):
        assert word in written
    assert f"{gp.trace_[-1].n_knots} knots" in written
    assert terminal.shown == ""


def test_a_fit_that_ends_before_the_delay_shows_nothing(terminal, monkeypatch, data):
    monkeypatch.setattr(progress_module, "DELAY", 600.0)
    GPRegressor(SquaredExponential(), knots=4, random_state=0).fit(*data)
    assert terminal.getvalue() == ""


def test_the_line_goes_away_when_a_fit_fails(terminal, monkeypatch, data):
    draw_every_evaluation(monkeypatch, lambda: terminal.writes)

    def fail(event):
        raise KnotwiseError("enough")

    with pytest.raises(KnotwiseError, match="enough"):
        GPRegressor(SquaredExponential(), random_state=0, callback=fail).fit(*data)
    assert "knotwise" in terminal.getvalue() and terminal.shown == ""
    assert not [thread for thread in threading.enumerate() if thread.name == "knotwise-progress"]


def test_what_a_callback_prints_does_not_meet_the_line(terminal, monkeypatch, data):
    draw_every_evaluation(monkeypatch, lambda: terminal.writes)
    seen = []

    def look(event):
        time.sleep(0.02)
        seen.append(terminal.shown)

    GPRegressor(SquaredExponential(), random_state=0, callback=look).fit(*data)
    assert len(seen) > 3 and set(seen) == {""}


def test_a_screen_that_fails_does_not_disturb_the_fit(terminal, monkeypatch, data):
    def fail(text):
        raise OSError("the terminal is gone")

    monkeypatch.setattr(progress_module, "DELAY", 0.0)
    monkeypatch.setattr(terminal, "write", fail)
    assert (
        GPRegressor(SquaredExponential(), knots=4, random_state=0, callback=lambda event: None).fit(*data).n_knots_ == 4
    )


def test_of_fits_in_two_threads_one_shows_its_line(terminal):
    with Progress(True) as one, Progress(True) as other:
        assert one.line is not None and other.line is None
    with Progress(True) as next_:
        assert next_.line is not None


def test_the_line_says_the_time_and_what_is_evaluated():
    clock = Clock()
    progress = Progress(False, clock=clock)
    clock.now = 75.5
    assert progress.text() == "knotwise 1 min 15 s"
    progress.latest = FitEvent("move", 34, 5000, -1028.914, 0.2, 0.031, label="class 'ripe'")
    clock.now = 7384.0
    assert progress.text() == (
        "knotwise 2 h 03 min | class 'ripe' | move | 34 knots | log evidence -1,028.9 | share 0.2 | residual 0.031"
    )
    assert str(FitEvent("start", 0, 1500, np.nan, seconds=3.9)) == "3 s | start | exact GP on 1,500 rows"


def test_the_evidence_of_an_evaluation_is_shown_in_the_users_units(terminal, monkeypatch, data):
    lines = []
    evaluate = Problem.evaluate

    def noted(problem, *args, **kwargs):
        evidence = evaluate(problem, *args, **kwargs)
        if problem.run.observer is not None:  # nobody follows the model without inputs
            lines.append(problem.run.observer.progress.latest)
        return evidence

    monkeypatch.setattr(Problem, "evaluate", noted)
    gp = GPRegressor(SquaredExponential(), knots=4, random_state=0, progress=True).fit(*data)
    assert lines[-1].log_evidence == pytest.approx(gp.log_evidence_, rel=1e-12)
    assert (lines[-1].n_knots, lines[-1].n_rows) == (4, 120)


# -- the log ----------------------------------------------------------------------------------------


def test_the_log_has_every_step_that_the_callback_gets(data, caplog):
    seen = []
    with caplog.at_level(logging.INFO, logger="knotwise"):
        GPRegressor(SquaredExponential(), random_state=0, callback=seen.append, progress=False).fit(*data)
    ours = [record for record in caplog.records if record.name == "knotwise"]
    assert [record.event for record in ours] == seen and len(seen) > 3
    assert {record.levelname for record in ours} == {"INFO"}
    for record, event in zip(ours, seen, strict=True):
        assert record.getMessage() == (f"{event} | {event.note}" if event.note else str(event))


def test_the_log_has_every_evaluation_of_those_who_look_closely(data, caplog):
    with caplog.at_level(logging.DEBUG, logger="knotwise"):
        gp = GPRegressor(SquaredExponential(), knots=4, random_state=0).fit(*data)
    evaluations = [record.event for record in caplog.records if record.levelname == "DEBUG"]
    assert len(evaluations) > 10 and evaluations[-1].n_knots == 4
    assert evaluations[-1].log_evidence == pytest.approx(gp.log_evidence_, rel=1e-12)


def test_the_log_names_the_class_of_each_model(data, caplog):
    labels = np.digitize(data[0][:, 0], [0.3, 0.6])
    with caplog.at_level(logging.INFO, logger="knotwise"):
        GPClassifier(SquaredExponential(), knots=3, optimizer=None, random_state=0).fit(data[0], labels)
    assert all(any(f"class {label}" in record.getMessage() for record in caplog.records) for label in range(3))


def test_warnings_are_warnings_and_no_part_of_the_log(caplog):
    with caplog.at_level(logging.DEBUG, logger="knotwise"), pytest.warns(FitWarning, match="it is so"):
        warn("it is so")
    assert not caplog.records


def test_the_library_writes_nothing_by_itself():
    """With no handler of the user's, whatever is logged: what the last resort of Python's logging would write."""
    code = (
        "import logging, knotwise, numpy as np\n"
        "log = logging.getLogger('knotwise')\n"
        "log.setLevel('DEBUG'); log.error('for nobody')\n"
        "X = np.linspace(0, 1, 60)[:, None]\n"
        "gp = knotwise.GPRegressor(knots=5, random_state=0).fit(X, np.sin(9 * X[:, 0]))\n"
        "assert [type(each).__name__ for each in log.handlers] == ['NullHandler']\n"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == done.stderr == ""


def test_only_the_command_line_prints():
    """`screen` draws the line that one can turn off."""
    source = ROOT / "src" / "knotwise"
    printing = re.compile(r"(?<![\w.])print\(|sys\.std(out|err)\.write")
    found = []
    for path in source.rglob("*.py"):
        code = "\n".join(
            line for line in path.read_text("utf-8").splitlines() if not re.match(r"\s*(>>>|\.\.\.) ", line)
        )
        if printing.search(code) and path.relative_to(source).parts[0] != "cli":
            found.append(path.name)
    assert found == []


# -- where it is shown ------------------------------------------------------------------------------


def test_piped_output_is_silent_and_rich_is_not_loaded(tmp_path):
    code = (
        "import sys, numpy as np, knotwise.progress as p; p.DELAY = 0.0\n"
        "from knotwise import GPRegressor\n"
        "from knotwise.kernels import SquaredExponential as SE\n"
        "X = np.linspace(0, 1, 60)[:, None]\n"
        "for show in ('auto', True):\n"
        "    GPRegressor(SE(), knots=5, random_state=0, progress=show).fit(X, np.sin(9 * X[:, 0]))\n"
        "    print(show, file=sys.stderr)\n"
        "assert 'rich' not in sys.modules and 'IPython' not in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == ""
    silent, line, asked = done.stderr.splitlines()  # a fit in one step
    assert (silent, asked) == ("auto", "True")
    assert re.match(r"knotwise \d+ s \| fitted \| 5 knots \| log evidence ", line)


@pytest.mark.parametrize("show, tty, kind", [
    ("auto", True, Terminal), ("auto", False, type(None)), (True, True, Terminal), (True, False, Log),
    (False, True, type(None)), (False, False, type(None)),
])  # fmt: skip
def test_the_screen_follows_from_the_setting_and_the_stream(show, tty, kind, monkeypatch):
    use_stream(monkeypatch, Tty() if tty else io.StringIO())
    assert type(screen_for(show)) is kind


def test_a_dumb_terminal_no_stream_and_a_worker_are_left_alone(monkeypatch, terminal):
    monkeypatch.setattr(screen, "_is_worker", lambda: True)
    assert screen_for("auto") is None
    monkeypatch.undo()
    use_stream(monkeypatch, Tty(), term="dumb")
    assert screen_for("auto") is None
    use_stream(monkeypatch, None)
    assert screen_for(True) is None


def test_a_process_of_a_pool_knows_that_it_is_a_worker():
    code = (
        "from multiprocessing import get_context\n"
        "from knotwise.screen import _is_worker\n"
        "if __name__ == '__main__':\n"
        "    with get_context('spawn').Pool(1) as pool: print(_is_worker(), pool.apply(_is_worker))\n"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


class Display:
    """What IPython gives back for a display: it can be changed."""

    def __init__(self):
        self.texts = []

    def update(self, bundle, raw):
        assert raw
        self.texts.append(bundle["text/plain"])


@pytest.fixture
def notebook(monkeypatch):
    """A process that a Jupyter kernel seems to run."""
    handle = Display()

    def display(bundle, raw, display_id):
        assert display_id
        handle.update(bundle, raw)
        return handle

    ipython, where = types.ModuleType("IPython"), types.ModuleType("IPython.display")
    ipython.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    where.display = display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", where)
    return handle


def test_a_notebook_has_one_display_that_is_changed_and_emptied(notebook, monkeypatch, data):
    assert isinstance(screen_for("auto"), Notebook)
    draw_every_evaluation(monkeypatch, lambda: len(notebook.texts))
    GPRegressor(SquaredExponential(), knots=4, random_state=0).fit(*data)
    assert "log evidence" in "".join(notebook.texts) and notebook.texts[-1] == ""


def test_ipython_in_a_terminal_is_no_notebook(monkeypatch, terminal):
    ipython = types.ModuleType("IPython")
    ipython.get_ipython = lambda: types.SimpleNamespace()
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    assert isinstance(screen_for("auto"), Terminal)
    ipython.get_ipython = lambda: None  # imported by a script
    assert isinstance(screen_for("auto"), Terminal)


# -- the callback -----------------------------------------------------------------------------------


def events_of(gp, *data):
    events = []
    gp = clone(gp).set_params(callback=events.append).fit(*data)
    return gp, events


@pytest.mark.parametrize("knots", ["auto", OneAtATime(max_knots=8)], ids=["auto", "oat"])
def test_the_callback_gets_every_step_in_the_users_units(knots, data):
    gp, events = events_of(GPRegressor(knots=knots, random_state=0), *data)
    *steps, last = events
    assert len(steps) == len(gp.trace_) > 3
    for event, step in zip(steps, gp.trace_, strict=True):
        expected = (step.action, step.n_knots, step.share, step.residual_information, step.note)
        found = (event.action, event.n_knots, event.share, event.residual_information, event.note)
        assert repr(found) == repr(expected)  # NaN is not equal to itself
        if step.action != "signal":  # there it is a gain, and no evidence
            assert event.log_evidence == step.evidence
    assert (last.action, last.n_knots, last.log_evidence) == ("fitted", gp.n_knots_, gp.log_evidence_)
    assert last.note == gp.stop_reason_
    assert np.all(np.diff([event.seconds for event in events]) >= 0)


def test_events_do_not_depend_on_threads(data):
    one, two = (
        [
            repr(e).split("seconds")[0]
            for e in events_of(GPRegressor(SquaredExponential(), random_state=0, n_jobs=n, block_size=50), *data)[1]
        ]
        for n in (1, 2)
    )
    assert one == two


@pytest.mark.parametrize("settings", [{"knots": 4}, {"approximation": "full"}, {"knots": [[0.1, 0.2], [0.9, 0.7]]}])
def test_fits_in_one_step_tell_their_end(settings, data):
    gp, events = events_of(GPRegressor(SquaredExponential(), **settings, random_state=0), *data)
    assert [(e.action, e.n_knots, e.n_rows) for e in events] == [("fitted", gp.n_knots_, 120)]


def test_a_step_on_some_of_the_rows_says_on_how_many():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(5200, 1))
    _, events = events_of(GPRegressor(random_state=0), X, np.sin(9 * X[:, 0]) + 0.3 * rng.normal(size=5200))
    few = {event.n_rows for event in events if event.action in ("kernel", "signal", "neighbors")}
    assert all(200 <= n_rows < 5000 for n_rows in few) and len(few) > 1  # of two numbers of rows
    assert {event.n_rows for event in events if event.action not in ("kernel", "signal", "neighbors")} == {5000, 5200}
    assert events[-1].n_rows == 5200


def test_events_of_several_classes_name_the_class(data):
    X, y = data
    labels = np.array(["a", "b", "c"])[np.digitize(y, [-15, 20])]
    _, events = events_of(GPClassifier(SquaredExponential(), knots=4, inference="laplace", random_state=0), X, labels)
    assert [event.label for event in events] == ["class 'a'", "class 'b'", "class 'c'"]
    _, (event,) = events_of(
        GPClassifier(SquaredExponential(), knots=4, inference="laplace", random_state=0), X, labels == "a"
    )
    assert event.label == ""


def test_an_event_cannot_be_changed():
    with pytest.raises(AttributeError):
        FitEvent("add", 3, 10, -1.0).n_knots = 4


def test_what_a_callback_raises_ends_the_fit_and_arrives(data):
    class EnoughError(Exception):
        pass

    steps = []

    def stop(event):
        steps.append(event)
        if len(steps) == 3:
            raise EnoughError("three steps")

    gp = GPRegressor(SquaredExponential(), random_state=0, callback=stop)
    with pytest.raises(EnoughError, match="three steps"):
        gp.fit(*data)
    assert len(steps) == 3
    assert not hasattr(gp, "knots_")


def test_a_callback_and_a_line_change_no_bit(terminal, data):
    plain = GPRegressor(random_state=0, progress=False).fit(*data)
    gp, _ = events_of(GPRegressor(random_state=0, progress=True), *data)
    assert np.array_equal(gp.knots_, plain.knots_) and gp.log_evidence_ == plain.log_evidence_


# -- settings ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings, message", [
    ({"progress": "yes"}, "`progress` is 'yes'"), ({"progress": 1}, "`progress` is 1"),
    ({"progress": None}, "`progress` is None"), ({"callback": "print"}, "`callback` is 'print'"),
])  # fmt: skip
def test_wrong_settings_are_refused(settings, message, data):
    with pytest.raises(InvalidInputError, match=message):
        GPRegressor(**settings).fit(*data)


@pytest.mark.parametrize("estimator", [GPRegressor, GPClassifier])
def test_settings_are_parameters_that_survive_a_clone(estimator, tmp_path):
    gp = estimator(progress=False, callback=print, checkpoint=tmp_path)
    twin = clone(gp)
    assert (twin.progress, twin.callback, twin.checkpoint) == (False, print, tmp_path)
    assert "progress=False" in repr(gp)
    assert repr(estimator()) == f"{estimator.__name__}()"


def test_a_fitted_model_can_be_pickled_whatever_was_shown_and_kept(terminal, tmp_path, data):
    gp = GPRegressor(
        SquaredExponential(), random_state=0, progress=True, callback=print_nothing, checkpoint=tmp_path
    ).fit(*data)
    twin = pickle.loads(pickle.dumps(gp))
    assert np.array_equal(twin.predict(data[0]), gp.predict(data[0]))


def print_nothing(event):
    """A callback that can be pickled."""


def test_greedy_selection_tells_its_steps(data):
    events = []
    gp = GPRegressor(
        SquaredExponential(), knots=GreedyVariance(6, rounds=2), callback=events.append, random_state=0
    ).fit(*data)
    assert [event.action for event in events] == ["choose", "choose", "fitted"]
    assert [step.action for step in gp.trace_] == ["choose", "choose"]


def test_the_state_that_automatic_knots_end_with_is_not_evaluated_again(data, monkeypatch):
    seen = []
    evaluate = Problem.evaluate

    def noted(problem, *args, **kwargs):
        if problem.run.observer is not None:  # nobody follows the model without inputs
            seen.append("evaluation")
        return evaluate(problem, *args, **kwargs)

    monkeypatch.setattr(Problem, "evaluate", noted)
    GPRegressor(SquaredExponential(), random_state=0, callback=lambda event: seen.append(event.action)).fit(*data)
    assert seen[-3:] == ["evaluation", "final", "fitted"]
