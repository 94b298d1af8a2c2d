"""An interrupted fit goes on where it was, and ends with the same bits as one that was left alone."""

import contextlib
import io
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

from knotwise import GPClassifier, GPRegressor
from knotwise.checkpoint import journal as journal_module
from knotwise.checkpoint.digest import digest
from knotwise.checkpoint.journal import MAGIC, SEAL, Journal, decode, encode
from knotwise.errors import FitWarning, InvalidInputError
from knotwise.estimators.averaging import latent_models
from knotwise.files import write_atomically
from knotwise.kernels import Matern32, SquaredExponential
from knotwise.knots import Auto, OneAtATime
from knotwise.optimize.lbfgs import LBFGS
from knotwise.selection.problem import Problem

ROOT = Path(__file__).parents[1]


class Nothing:
    """Rows beside which no step leaves anything."""

    def last(self):
        return None

    def restore(self, a):
        assert a is None


class Interrupted(BaseException):
    """Stands for a kill: nothing in the library catches it."""


class Counter:
    """Counts evaluations of the evidence, and interrupts the fit at the last one that it may make."""

    def __init__(self, monkeypatch):
        self.made, self.allowed = 0, None
        evaluate = Problem.evaluate

        def counted(problem, *args, **kwargs):
            if self.made == self.allowed:
                raise Interrupted
            self.made += 1
            return evaluate(problem, *args, **kwargs)

        monkeypatch.setattr(Problem, "evaluate", counted)

    def fit(self, gp, data, allowed=None):
        """Fit with so many evaluations; say whether it came to its end, and how many it took."""
        self.made, self.allowed = 0, allowed
        try:
            gp.fit(**data)
        except Interrupted:
            return False
        return True


@pytest.fixture
def counter(monkeypatch):
    return Counter(monkeypatch)


def rows(n=150, seed=3):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 2))
    return X, np.sin(7 * X[:, 0]) + X[:, 1], rng


def gaussian():
    X, f, rng = rows()
    return {"X": X, "y": f + 0.1 * rng.standard_normal(len(X))}


def poisson():
    X, f, rng = rows(100)
    size = rng.uniform(1, 3, len(X))
    return {"X": X, "y": rng.poisson(size * np.exp(f)), "exposure": size}


def classes():
    X, f, _ = rows(90)
    return {"X": X, "y": np.array(["low", "mid", "top"])[np.digitize(f, [0.2, 1.2])]}


QUICK = LBFGS(max_iterations=15)
SMOOTH = SquaredExponential()  # where the kernel is not the matter, so that none is chosen
CASES = {
    "auto": (GPRegressor(random_state=0), gaussian),
    "auto-smooth": (GPRegressor(SMOOTH, random_state=0), gaussian),
    "auto-poisson": (GPRegressor(SMOOTH, "poisson", nugget="fit", random_state=0), poisson),
    "neighbors": (GPRegressor(Matern32(), n_neighbors=10, random_state=0), gaussian),
    "neighbors-oat": (
        GPRegressor(Matern32(), knots=OneAtATime(max_knots=7), n_neighbors=5, optimizer=QUICK, random_state=0),
        gaussian,
    ),
    "oat-bayesopt": (GPRegressor(SMOOTH, knots=OneAtATime(max_knots=8), optimizer=QUICK, random_state=0), gaussian),
    "oat-poisson": (
        GPRegressor(SMOOTH, "poisson", knots=OneAtATime(max_knots=8), optimizer=QUICK, random_state=0),
        poisson,
    ),
    "restarts": (GPRegressor(SMOOTH, knots=6, n_restarts=3, optimizer=QUICK, random_state=0), gaussian),
    "exact": (GPRegressor(SMOOTH, approximation="full", n_restarts=2, optimizer=QUICK, random_state=0), gaussian),
    "classes": (GPClassifier(SMOOTH, knots=5, optimizer=QUICK, inference="laplace", random_state=0), classes),
}
# fits of few iterations warn that they did not converge, which is not the matter here
pytestmark = pytest.mark.filterwarnings("ignore:The optimiser stopped")


def bits(gp):
    """All that must be the same: knots, parameters and evidence of each model, and the steps that led there."""
    models = latent_models(gp)
    steps = [(step.action, step.n_knots, step.evidence) for model in models for step in model.trace_]
    arrays = [a for m in models for a in (m.knots_, m.parameters_.values, m.optimize_result_.history)]
    return [array.tobytes() for array in arrays], [m.log_evidence_ for m in models], repr(steps)


def states(folder):
    """Files of the state, oldest first as far as the clock of the disk can tell."""
    return sorted(Path(folder).rglob("*.step"), key=lambda path: path.stat().st_mtime_ns)


# -- the same bits ----------------------------------------------------------------------------------


QUICK_CASES = ("auto", "neighbors")  # the others take long


@pytest.mark.parametrize(
    "case", [case if case in QUICK_CASES else pytest.param(case, marks=pytest.mark.slow) for case in CASES]
)
def test_a_fit_interrupted_again_and_again_ends_with_the_same_bits_and_less_work(case, counter, tmp_path):
    gp, data = clone(CASES[case][0]), CASES[case][1]()
    counter.fit(gp, data)
    expected, evaluations = bits(gp), counter.made
    gp = clone(gp).set_params(checkpoint=tmp_path)
    rng = np.random.default_rng(1)
    interruptions = 0
    while not counter.fit(gp, data, allowed=int(rng.integers(1, evaluations))):
        interruptions += 1
        assert interruptions < 60, "it never ends"
    assert bits(gp) == expected
    assert interruptions

    assert not counter.fit(gp, data, allowed=evaluations - 1)
    assert counter.fit(gp, data)
    assert bits(gp) == expected
    assert counter.made < 0.5 * evaluations, "the work was done again"


def test_a_checkpoint_changes_no_bit_and_is_removed_at_the_end(counter, tmp_path):
    gp, data = clone(CASES["auto"][0]), gaussian()
    counter.fit(gp, data)
    expected, evaluations = bits(gp), counter.made
    gp = clone(gp).set_params(checkpoint=str(tmp_path / "new" / "folder"))
    for _ in range(2):  # a finished fit is not taken up again
        counter.fit(gp, data)
        assert bits(gp) == expected
        assert counter.made == evaluations
    assert os.listdir(gp.checkpoint) == []


def test_restarts_are_kept_one_by_one(counter, tmp_path):
    gp, data = clone(CASES["restarts"][0]).set_params(checkpoint=tmp_path), gaussian()
    counter.fit(gp, data)
    assert not counter.fit(gp, data, allowed=counter.made - 2)
    # the start of the generator, two optimisations that find where to start, and all runs but the last
    assert len(states(tmp_path)) == 1 + 2 + 3


# -- random numbers ---------------------------------------------------------------------------------


def test_without_a_seed_the_fit_goes_on_with_the_random_numbers_that_it_began_with(counter, tmp_path):
    data = gaussian()
    gp = GPRegressor(SMOOTH, knots=OneAtATime(max_knots=7), optimizer=QUICK, checkpoint=tmp_path)
    assert not counter.fit(gp, data, allowed=60)  # of at least 115, in 60 fits
    (start,) = [path for path in states(tmp_path) if path.stem == "start"]
    rng = np.random.default_rng()
    rng.bit_generator.state = decode(start.read_bytes()[len(MAGIC) + SEAL :], ())
    alone = clone(gp).set_params(checkpoint=None, random_state=rng)
    counter.fit(alone, data)
    evaluations = counter.made
    assert counter.fit(gp, data)
    assert bits(gp) == bits(alone)
    assert counter.made < evaluations


def test_a_generator_is_left_as_an_uninterrupted_fit_leaves_it(counter, tmp_path):
    data = gaussian()
    settings = {"kernel": SMOOTH, "knots": OneAtATime(max_knots=7), "optimizer": QUICK}
    rng = np.random.Generator(np.random.MT19937(4))
    alone = GPRegressor(**settings, random_state=rng)
    counter.fit(alone, data)
    after = repr(rng.bit_generator.state)
    gp = GPRegressor(**settings, random_state=np.random.Generator(np.random.MT19937(4)), checkpoint=tmp_path)
    assert not counter.fit(gp, data, allowed=100)
    gp.random_state = np.random.Generator(np.random.MT19937(77))  # as after a restart with another seed
    assert counter.fit(gp, data)
    assert bits(gp) == bits(alone)
    assert repr(gp.random_state.bit_generator.state) == after


# -- whose state it is ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "one, other",
    [
        (GPRegressor(random_state=0), GPRegressor(random_state=1)),
        (
            GPRegressor(SMOOTH, approximation="vfe", random_state=0),
            GPRegressor(Matern32(), approximation="vfe", random_state=0),
        ),
        (
            GPRegressor(SMOOTH, knots=Auto(max_knots=40), random_state=0),
            GPRegressor(SMOOTH, knots=Auto(max_knots=39), random_state=0),
        ),
        (CASES["classes"][0], clone(CASES["classes"][0]).set_params(random_state=1)),
    ],
)
def test_clones_with_other_settings_do_not_meet_in_one_folder(one, other, counter, tmp_path):
    data = classes() if isinstance(one, GPClassifier) else gaussian()
    pair = [clone(gp).set_params(checkpoint=tmp_path, n_jobs=1) for gp in (one, other)]
    for gp in pair:
        assert not counter.fit(gp, data, allowed=60)
    assert len(os.listdir(tmp_path)) == 2
    for gp in pair:
        alone = clone(gp).set_params(checkpoint=None)
        counter.fit(alone, data)
        evaluations = counter.made
        assert counter.fit(gp, data)
        assert bits(gp) == bits(alone)
        assert counter.made < evaluations, "it did not find its own state"


@pytest.mark.parametrize("name", ["X", "y", "exposure"])
def test_other_data_are_another_fit(name, counter, tmp_path):
    gp, data = clone(CASES["auto-poisson"][0]).set_params(checkpoint=tmp_path), poisson()
    assert not counter.fit(gp, data, allowed=40)
    changed = data | {name: data[name].astype(float).copy()}
    changed[name].flat[7] += 1
    assert not counter.fit(gp, changed, allowed=40)
    assert len(os.listdir(tmp_path)) == 2


def test_settings_that_change_no_result_find_the_same_state(counter, tmp_path):
    gp, data = clone(CASES["auto"][0]).set_params(checkpoint=tmp_path, n_jobs=1), gaussian()
    assert not counter.fit(gp, data, allowed=40)
    gp.set_params(n_jobs=2, progress=False, callback=lambda event: None)
    assert not counter.fit(gp, data, allowed=40)
    assert len(os.listdir(tmp_path)) == 1


def test_a_digest_tells_apart_what_is_different():
    def adder(by):
        return lambda x: x + by

    def itself():
        return itself

    class Plain:
        def __init__(self, value):
            self.value = [value]

        def method(self):
            pass

    things = [
        None, 0, 0.0, False, "0", [], {}, [0], [[0]], ["a", "b"], ["ab"], {"a": 1}, {"a": 2},
        np.zeros(2), np.zeros((1, 2)), np.zeros((2, 1)), np.zeros(2, np.float32), np.array([0.0, -0.0]),
        np.array(["a", 1], object), np.random.default_rng(), np.random.RandomState(0), np.mean, np.sum,
        SquaredExponential(), SquaredExponential(2.0), Matern32(), Auto(), Auto(share=0.1), LBFGS(), LBFGS(7),
        lambda x: x, lambda x: x + 1, lambda x: x + 2, lambda x=1: x, adder(1), adder(2), itself, {1}, {2},
        partial(np.sum, axis=0), partial(np.sum, axis=1), Plain(1), Plain(2), Plain(1).method, Plain(2).method,
    ]  # fmt: skip
    assert len({digest(thing) for thing in things}) == len(things)
    assert digest(1, 2) != digest(12)


# -- damage -----------------------------------------------------------------------------------------

DAMAGES = {
    "magic": lambda content: b"x" + content[1:],
    "seal": lambda content: content[: len(MAGIC)] + bytes(SEAL) + content[len(MAGIC) + SEAL :],
    "first-bit": lambda content: flipped(content, len(MAGIC) + SEAL),
    "middle-bit": lambda content: flipped(content, len(content) // 2),
    "last-bit": lambda content: flipped(content, len(content) - 1),
    "half": lambda content: content[: len(content) // 2],
    "one-byte-short": lambda content: content[:-1],
    "one-byte-more": lambda content: content + b"\0",
    "empty": lambda content: b"",
}


def flipped(content, at):
    return content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_state_is_computed_again_with_a_warning(damage, counter, tmp_path):
    gp, data = GPRegressor(SMOOTH, knots=4, n_restarts=1, optimizer=QUICK, random_state=0), gaussian()
    counter.fit(gp, data)
    expected, evaluations = bits(gp), counter.made
    gp = clone(gp).set_params(checkpoint=tmp_path)
    assert not counter.fit(gp, data, allowed=evaluations - 1)
    files = states(tmp_path)
    kept = {file: file.read_bytes() for file in files}
    for file in (files[0], files[len(files) // 2], files[-1]):
        for other, content in kept.items():
            other.parent.mkdir(exist_ok=True)
            other.write_bytes(content)
        file.write_bytes(DAMAGES[damage](kept[file]))
        with pytest.warns(FitWarning, match="is damaged"):
            assert counter.fit(gp, data)
        assert bits(gp) == expected
        assert counter.made < evaluations, "what was sound was not used"


def test_no_damaged_byte_of_a_step_goes_unnoticed(tmp_path, rng):
    journal = Journal(tmp_path)

    def step():
        return journal.memoize((1,), lambda: rng.normal(size=3), types=(), warm_start=Nothing(), rng=rng)

    state = rng.bit_generator.state
    first = step()
    (path,) = states(tmp_path)
    content = path.read_bytes()
    for at in range(0, len(content), 11):
        path.write_bytes(flipped(content, at))
        rng.bit_generator.state = state
        with pytest.warns(FitWarning, match="is damaged"):
            assert step().tolist() == first.tolist()
        assert path.read_bytes() == content, "the step was not written again"


def test_the_state_of_one_step_is_not_taken_for_another(tmp_path):
    journal = Journal(tmp_path)
    assert journal.memoize(("one",), lambda: "one", types=(), warm_start=Nothing()) == "one"
    (one,) = states(tmp_path)
    assert journal.memoize(("two",), lambda: "two", types=(), warm_start=Nothing()) == "two"
    (two,) = set(states(tmp_path)) - {one}
    two.write_bytes(one.read_bytes())
    with pytest.warns(FitWarning, match="is damaged"):
        assert journal.memoize(("two",), lambda: "two", types=(), warm_start=Nothing()) == "two"


def test_a_stage_of_another_problem_is_another_step(tmp_path, rng):
    problem = GPRegressor(SMOOTH, knots=4, optimizer=QUICK, random_state=0).fit(**gaussian())._fit.problem
    theta, Z = problem.table.theta, problem.rows.X[:4]
    others = [
        problem,
        problem.on_rows(problem.rows[:100]),
        replace(problem, model=problem.model.with_power(1.0)),
        replace(problem, jitter=1e-4),
        replace(problem, optimizer=LBFGS(max_iterations=2)),
        replace(problem, table=replace(problem.table, fixed=np.arange(len(theta)) == 0)),
    ]
    journal = Journal(tmp_path)
    for other in others:
        alone = other.optimize(theta, Z, rng)
        assert repr(replace(other, run=replace(other.run, journal=journal)).optimize(theta, Z, rng)) == repr(alone)
    assert len(states(tmp_path)) == len(others)


class Start:
    """What lies beside the rows of a fit, in one array."""

    def __init__(self, a):
        self.a = a

    def last(self):
        return self.a

    def restore(self, a):
        self.a = a


@pytest.mark.parametrize("before, after", [(np.ones(2), "drawn"), (None, "drawn"), (np.ones(2), None)])
def test_a_step_leaves_the_warm_start_and_the_generator_as_its_computation_does(before, after, tmp_path):
    def run():
        start, rng, computed = Start(before), np.random.default_rng(0), []

        def compute():
            drawn = rng.normal(size=2)
            start.a = None if after is None else drawn
            computed.append(1)
            return {"value": np.nan, "table": np.asfortranarray(np.arange(6.0).reshape(2, 3))}

        result = Journal(tmp_path).memoize((), compute, types=(), warm_start=start, rng=rng)
        left = result["value"], result["table"].flags.f_contiguous, result["table"].tolist(), start.a, rng.random()
        return repr(left), len(computed)

    (first, n_first), (second, n_second) = run(), run()
    assert first == second
    assert (n_first, n_second) == (1, 0)
    assert len(states(tmp_path)) == 1


def test_the_warm_start_of_a_step_tells_it_from_others(tmp_path):
    starts = [None, np.zeros(2), np.ones(2), np.ones(3)]
    for n, a in enumerate(starts):
        assert Journal(tmp_path).memoize((), lambda n=n: n, types=(), warm_start=Start(a)) == n
    assert len(states(tmp_path)) == len(starts)


def test_records_hold_no_objects():
    with pytest.raises(TypeError, match="cannot hold"):
        encode(np.array([object()]))
    with pytest.raises(TypeError, match="cannot hold"):
        encode(object())
    buffer = io.BytesIO()
    np.savez(buffer, tree=np.array([print], object))
    with pytest.raises(ValueError, match="allow_pickle=False"):
        decode(buffer.getvalue(), ())


def test_records_make_known_classes_only():
    @dataclass
    class Known:
        inside: list

    content = encode(Known([Known([]), np.array([True]), 2**100, None, "text", np.float64(0.1)]))
    back = decode(content, (Known,))
    assert back.inside[0] == Known([]) and back.inside[1].tolist() == [True]
    assert back.inside[2:] == [2**100, None, "text", 0.1]
    with pytest.raises(KeyError):
        decode(content, ())


# -- folders ----------------------------------------------------------------------------------------


def test_a_disk_that_fails_ends_the_checkpoints_and_not_the_fit(monkeypatch, tmp_path):
    def full(path, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(journal_module, "write_atomically", full)
    gp = clone(CASES["restarts"][0]).set_params(checkpoint=tmp_path)
    with pytest.warns(FitWarning, match="No space left") as caught:
        gp.fit(**gaussian())
    assert len([w for w in caught if "No space left" in str(w.message)]) == 1
    assert bits(gp) == bits(clone(gp).set_params(checkpoint=None).fit(**gaussian()))


def test_a_folder_that_another_process_removed_is_made_again(counter, tmp_path):
    gp, data = clone(CASES["auto"][0]).set_params(checkpoint=tmp_path), gaussian()
    expected = bits(clone(gp).set_params(checkpoint=None).fit(**data))
    gp.set_params(callback=lambda event: [shutil.rmtree(folder) for folder in tmp_path.iterdir()])
    assert bits(gp.fit(**data)) == expected
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("wrong", [3, True, "", ["dir"]])
def test_what_is_no_folder_is_refused(wrong):
    with pytest.raises(InvalidInputError, match="`checkpoint` is"):
        GPRegressor(checkpoint=wrong).fit(**gaussian())


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InvalidInputError, match="cannot be made"):
        GPRegressor(checkpoint=tmp_path / "file").fit(**gaussian())
    assert (tmp_path / "file").read_text() == "mine"


def test_a_write_that_fails_leaves_the_old_file_and_no_other(monkeypatch, tmp_path):
    path = tmp_path / "state"
    write_atomically(path, b"old")

    def fail(descriptor):
        raise OSError("no disk")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="no disk"):
        write_atomically(path, b"new")
    assert [p.name for p in tmp_path.iterdir()] == ["state"] and path.read_bytes() == b"old"


# -- for real: other processes, and SIGKILL ---------------------------------------------------------

CHILD = """
import os, signal, sys, warnings
import numpy as np
import test_checkpoint as t
from knotwise.selection.problem import Problem

warnings.simplefilter("ignore")
made, evaluate = [0], Problem.evaluate
def counted(*args, **kwargs):
    if str(made[0]) == last:
        os.kill(os.getpid(), signal.SIGKILL)
    made[0] += 1
    return evaluate(*args, **kwargs)
Problem.evaluate = counted
case, folder, out, last = sys.argv[1:]
gp, data = t.KILLED[case]
data = data()
gp.set_params(checkpoint=folder or None)
print("ready", flush=True)
gp.fit(**data)
np.savez(out, knots=gp.knots_, theta=gp.parameters_.theta, evidence=gp.log_evidence_, evaluations=made[0])
"""


def longer_gaussian():
    X, f, rng = rows(700)
    return {"X": X, "y": np.sin(25 * X[:, 0]) * np.cos(21 * X[:, 1]) + f + 0.1 * rng.standard_normal(len(X))}


def longer_poisson():
    X, f, rng = rows(500)
    return {"X": X, "y": rng.poisson(np.exp(f + np.sin(15 * X[:, 1])))}


def first_rows(X, y, n_knots, rng):
    return X[:n_knots]


KILLED = {
    "short": (
        GPRegressor(
            SquaredExponential() + Matern32(lengthscale=[1.0, 2.0], column_scales="standard"),
            knots=OneAtATime(initial=first_rows, max_knots=8),
            bounds={"noise_variance": (1e-3, 1.0)},
            random_state=0,
        ),
        gaussian,
    ),
    "auto": (GPRegressor(random_state=0), longer_gaussian),
    "oat-bayesopt": (GPRegressor(SMOOTH, knots=OneAtATime(max_knots=20), random_state=0), longer_gaussian),
    "poisson": (GPRegressor(likelihood="poisson", nugget="fit", random_state=0), longer_poisson),
}


class Child:
    """A process that fits one of the cases above and saves what it found; it may kill itself after evaluations."""

    def __init__(self, case, folder, out, last=""):
        paths = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])
        self.out = out
        self.process = subprocess.Popen(
            [sys.executable, "-c", CHILD, case, str(folder or ""), str(out), str(last)],
            env=os.environ | {"PYTHONPATH": paths, "PYTHONHASHSEED": "12345"},
            stdout=subprocess.PIPE,
            text=True,
        )

    def wait_until_ready(self):
        assert self.process.stdout.readline() == "ready\n"

    def killed_after(self, seconds):
        """Kill the process after so many seconds, unless it is dead by then; False if it was ready before."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()
        return self.process.returncode == -signal.SIGKILL

    def result(self):
        if not self.process.stdout.closed:
            self.process.communicate()
        assert self.process.returncode == 0
        with np.load(self.out) as found:
            return {name: found[name].tobytes() for name in ("knots", "theta", "evidence")}, int(found["evaluations"])


def killed_again_and_again(case, kills, folder, rng):
    """Compare a fit under so many kills with one that was left alone: the result, and the work left to the last run."""
    alone = Child(case, None, folder / "alone.npz")
    alone.wait_until_ready()
    began = time.monotonic()
    expected, evaluations = alone.result()
    seconds = time.monotonic() - began
    done = 0
    while done < kills:
        child = Child(case, folder / "state", folder / "killed.npz")
        child.wait_until_ready()
        began = time.monotonic()
        if child.killed_after(float(rng.uniform(0.05, 0.6)) * seconds):
            done += 1
        else:
            assert child.result()[0] == expected
            seconds = time.monotonic() - began  # the machine is quicker than it was
    kept = [step for step in states(folder / "state") if step.stem != "start"]
    found, made = Child(case, folder / "state", folder / "killed.npz").result()
    assert found == expected
    assert os.listdir(folder / "state") == []
    # each kept step saves its evaluations; there is none where a run came to its end before the last kills
    assert made < evaluations if kept else made == evaluations


needs_sigkill = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL here")


@needs_sigkill
def test_a_fit_that_was_killed_goes_on_in_another_process(counter, tmp_path):
    gp, data = clone(KILLED["short"][0]), gaussian()
    counter.fit(gp, data)
    expected, evaluations = bits(gp), counter.made
    child = Child("short", tmp_path / "state", tmp_path / "killed.npz", last=evaluations // 2)
    assert child.killed_after(None) and len(states(tmp_path)) > 1
    gp = clone(gp).set_params(checkpoint=tmp_path / "state")
    counter.fit(gp, data)
    assert bits(gp) == expected
    assert counter.made < evaluations


@pytest.mark.slow
@needs_sigkill
@pytest.mark.parametrize("case", ["auto", "oat-bayesopt", "poisson"])
def test_a_fit_killed_at_ten_random_moments_ends_with_the_same_bits(case, tmp_path):
    killed_again_and_again(case, 10, tmp_path, np.random.default_rng(6))


@pytest.mark.slow
@needs_sigkill
def test_two_processes_that_make_the_same_fit_do_not_disturb_each_other(tmp_path):
    expected, _ = Child("auto", None, tmp_path / "alone.npz").result()
    for _ in range(3):
        pair = [Child("auto", tmp_path / "state", tmp_path / f"{i}.npz") for i in range(2)]
        assert [child.result()[0] for child in pair] == [expected] * 2
    assert os.listdir(tmp_path / "state") == []
