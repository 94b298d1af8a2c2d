"""Case 49: checkpoints that are damaged, forged or somebody else's: the fit ends as without them."""

import io
import json
import os
import shutil
import socket
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

from knotwise import GPClassifier, GPRegressor
from knotwise.checkpoint.journal import MAGIC, SEAL, Journal, _seal, encode
from knotwise.errors import FitWarning
from knotwise.kernels import SquaredExponential
from knotwise.knots import OneAtATime, RandomSubset
from knotwise.optimize.lbfgs import LBFGS
from test_checkpoint import Counter, Nothing, bits, states

pytestmark = [pytest.mark.failure(49), pytest.mark.filterwarnings("ignore:The optimiser stopped")]

QUICK = LBFGS(max_iterations=2)


def counts(n=25, seed=3):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 2))
    return {"X": X, "y": rng.poisson(np.exp(np.sin(7 * X[:, 0]) + X[:, 1]))}


def classes():
    data = counts(40)
    return {"X": data["X"], "y": np.array(["low", "mid", "top"])[np.digitize(data["y"], [2, 4])]}


SETTINGS = {"optimizer": QUICK, "random_state": 0, "n_jobs": 1}
GROWN = GPRegressor(
    likelihood="poisson", knots=OneAtATime(proposal=RandomSubset(3), max_knots=3, n_initial=2), **SETTINGS
)
THREE = GPClassifier(SquaredExponential(), knots=3, **SETTINGS)


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def fit(gp, data):
    """Fit, and return the result with all that was said but that the optimiser stopped early."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gp.fit(**data)
    told = [each for each in caught if not str(each.message).startswith("The optimiser stopped")]
    return bits(gp), told


@pytest.fixture(scope="module")
def left(tmp_path_factory):
    """What a fit finds, and the checkpoint that it leaves if it lacks its last evaluation."""
    place = tmp_path_factory.mktemp("left")
    with pytest.MonkeyPatch.context() as patch:
        counter = Counter(patch)
        gp, data = clone(GROWN), counts()
        counter.fit(gp, data)
        assert not counter.fit(clone(gp).set_params(checkpoint=place), data, allowed=counter.made - 1)
    return bits(gp), next(place.iterdir())


@pytest.fixture
def interrupted(left, tmp_path):
    """An estimator whose fit was interrupted, its data, what it should find, and its checkpoint."""
    expected, kept = left
    folder = tmp_path / "state" / kept.name
    shutil.copytree(kept, folder)
    return clone(GROWN).set_params(checkpoint=folder.parent), counts(), expected, folder


# -- files ------------------------------------------------------------------------------------------


def sealed(path, payload):
    """A file with the right name, form and digest, whatever its content."""
    return MAGIC + _seal(path.stem, payload) + payload


def archive(**arrays):
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def members_of(path):
    with np.load(io.BytesIO(path.read_bytes()[len(MAGIC) + SEAL :])) as members:
        return {name: members[name] for name in members.files}


def changed_arrays(change):
    """Change every array but the tree; None where the file has none."""

    def forge(path, rng):
        members = members_of(path)
        arrays = {name: array if name == "tree" else change(array) for name, array in members.items()}
        return None if len(arrays) == 1 else sealed(path, archive(**arrays))

    return forge


def changed_tree(change):
    def forge(path, rng):
        members = members_of(path)
        tree = json.dumps(change(json.loads(members.pop("tree").tobytes()))).encode()
        return sealed(path, archive(tree=np.frombuffer(tree, np.uint8), **members))

    return forge


def without_one(tree):
    """Leave out the last entry of each object that has some."""
    if isinstance(tree, dict):
        return {key: without_one(value) for key, value in list(tree.items())[:-1]}
    return [without_one(each) for each in tree] if isinstance(tree, list) else tree


def text_for_numbers(tree):
    if isinstance(tree, dict):
        return {key: text_for_numbers(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [tree[0], text_for_numbers(tree[1])] if len(tree) == 2 else [text_for_numbers(each) for each in tree]
    return "text" if isinstance(tree, int | float) and not isinstance(tree, bool) else tree


def flip_bits(path, rng):
    content = bytearray(path.read_bytes())
    for at in rng.integers(len(content), size=3):
        content[at] ^= 1 << int(rng.integers(8))
    return bytes(content)


FORGERIES = {
    "cut": lambda path, rng: path.read_bytes()[: int(rng.integers(path.stat().st_size))],
    "flipped bits": flip_bits,
    "no archive": lambda path, rng: sealed(path, rng.bytes(100)),
    "nothing": lambda path, rng: sealed(path, b""),
    "one array": lambda path, rng: sealed(path, b"\x93NUMPY" + rng.bytes(50)),
    "other members": lambda path, rng: sealed(path, archive(other=np.ones(3))),
    "no text": lambda path, rng: sealed(path, archive(tree=np.array([0.5]))),
    "objects": lambda path, rng: sealed(path, archive(tree=np.array([print], object))),
    "deep nesting": lambda path, rng: sealed(path, archive(tree=np.frombuffer(b"[" * 100_000, np.uint8))),
    "a number": lambda path, rng: sealed(path, encode(3)),
    "a list": lambda path, rng: sealed(path, encode([1, 2, np.ones(3)])),
    "other keys": lambda path, rng: sealed(path, encode({"other": 1})),
    "empty entries": lambda path, rng: sealed(path, encode({"result": None, "last": None, "rng": None})),
    "half of the entries": changed_tree(without_one),
    "text for numbers": changed_tree(text_for_numbers),
    "unknown kinds": changed_tree(lambda tree: ["Path", {"result": tree}]),
    "arrays that are not there": lambda path, rng: sealed(path, archive(tree=members_of(path)["tree"]))
    if len(members_of(path)) > 1
    else None,
    "float32": changed_arrays(lambda array: array.astype(np.float32)),
    "text": changed_arrays(lambda array: array.astype(str)),
    "complex": changed_arrays(lambda array: array.astype(complex)),
    "one more axis": changed_arrays(lambda array: array[None]),
    "no axis": changed_arrays(lambda array: np.array(1.0)),
    "not finite": changed_arrays(lambda array: np.full_like(array, np.nan)),
}  # fmt: skip


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_step_is_computed_again_with_a_warning_and_the_same_bits(forgery, interrupted):
    gp, data, expected, folder = interrupted
    kept = contents(folder)
    rng = np.random.default_rng(5)
    n_forged = 0
    for file in kept:
        folder.mkdir(exist_ok=True)
        for path, content in kept.items():
            path.write_bytes(content)
        forged = FORGERIES[forgery](file, rng)
        if forged is not None:
            n_forged += 1
            file.write_bytes(forged)
            found, told = fit(gp, data)
            assert found == expected
            assert [each.category for each in told] == [FitWarning] and "is damaged" in str(told[0].message)
            assert file.name in str(told[0].message)
    assert n_forged >= len(kept) - 1 and os.listdir(folder.parent) == []


def make_socket(path):
    with socket.socket(socket.AF_UNIX) as one:
        here = os.getcwd()
        os.chdir(path.parent)  # the name of a socket must be short
        one.bind(path.name[-20:])
        os.chdir(here)
    os.rename(path.parent / path.name[-20:], path)


STRANGERS = {
    "folder": Path.mkdir,
    "full folder": lambda path: [path.mkdir(), (path / "mine").write_text("mine")],
    "pipe": getattr(os, "mkfifo", Path.mkdir),
    "socket": make_socket if hasattr(socket, "AF_UNIX") else Path.mkdir,
    "link to a file": lambda path: path.symlink_to(path.parents[2] / "outside" / "file"),
    "link to the step": lambda path: path.symlink_to(path.parents[2] / "outside" / path.name),
    "link to nothing": lambda path: path.symlink_to(path.parents[2] / "outside" / "nothing"),
    "link to a folder": lambda path: path.symlink_to(path.parents[2] / "outside"),
}


@pytest.mark.parametrize("stranger", STRANGERS)
def test_what_is_no_file_in_the_place_of_a_step_is_not_used_and_nothing_outside_is_touched(
    stranger, interrupted, tmp_path
):
    gp, data, expected, folder = interrupted
    outside = tmp_path / "outside"
    shutil.copytree(folder, outside)
    (outside / "file").write_text("mine")
    kept, before = contents(folder), contents(outside)
    for file in list(kept)[::3]:
        folder.mkdir(exist_ok=True)
        for path, content in kept.items():
            path.write_bytes(content)
        file.unlink()
        STRANGERS[stranger](file)
        found, told = fit(gp, data)
        assert found == expected and contents(outside) == before
        assert told and {each.category for each in told} == {FitWarning}
        assert all(str(each.message).startswith("The checkpoint") for each in told)
        if file.is_dir() and not file.is_symlink():  # it may be somebody's: it stays
            assert stranger != "full folder" or (file / "mine").read_text() == "mine"
            shutil.rmtree(folder)
        assert os.listdir(folder.parent) == []


# -- folders ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "estimator, data, part", [(GROWN, counts, ""), (THREE, classes, ""), (THREE, classes, "model1")]
)
@pytest.mark.parametrize("stranger", ["link", "file"])
def test_a_link_or_file_in_the_place_of_the_folder_is_left_alone(
    estimator, data, part, stranger, tmp_path, monkeypatch
):
    counter = Counter(monkeypatch)
    gp, data = clone(estimator), data()
    expected = fit(gp, data)[0]
    gp = clone(gp).set_params(checkpoint=tmp_path / "state")
    assert not counter.fit(gp, data, allowed=5)
    counter.allowed = None
    (folder,) = (tmp_path / "state").iterdir()
    place, outside = folder / part, tmp_path / "outside"
    if place.exists():
        shutil.move(place, outside)
    outside.mkdir(exist_ok=True)
    (outside / "mine").write_text("mine")
    before = contents(outside)
    if stranger == "link":
        place.symlink_to(outside, target_is_directory=True)
    else:
        place.write_text("mine")
    found, told = fit(gp, data)
    assert found == expected and contents(outside) == before
    assert [each.category for each in told] == [FitWarning] and "without checkpoints" in str(told[0].message)
    assert place.is_symlink() if stranger == "link" else place.read_text() == "mine"


def test_a_finished_fit_removes_its_own_files_only(tmp_path, monkeypatch):
    counter = Counter(monkeypatch)
    gp, data = clone(THREE).set_params(checkpoint=tmp_path), classes()
    assert not counter.fit(gp, data, allowed=5)
    counter.allowed = None
    (folder,) = tmp_path.iterdir()
    for place in (tmp_path, folder, folder / "model0"):
        (place / "notes.txt").write_text("mine")
        (place / "mine.step").write_text("mine")
    (folder / "model").mkdir()
    (folder / "model" / "start.step").write_text("mine")
    fit(gp, data)
    left = contents(tmp_path)
    assert len(left) == 7 and set(left.values()) == {b"mine"}


# -- several fits at once ---------------------------------------------------------------------------


def test_a_fit_goes_on_while_others_begin_and_finish_in_its_folder(tmp_path):
    """At each step of a fit, the same fit and one to other data run to their ends, and remove their states."""
    data, other = counts(), counts(seed=4)
    expected, expected_other = bits(clone(GROWN).fit(**data)), bits(clone(GROWN).fit(**other))
    gp = clone(GROWN).set_params(checkpoint=tmp_path)
    others = []

    def interfere(event):
        others.append((bits(clone(gp).set_params(callback=None).fit(**data)), expected))
        others.append((bits(clone(gp).set_params(callback=None).fit(**other)), expected_other))

    assert bits(gp.set_params(callback=interfere).fit(**data)) == expected
    assert len(others) >= 4 and all(found == wanted for found, wanted in others)
    assert os.listdir(tmp_path) == []


def test_a_step_survives_a_folder_that_disappears_at_any_moment(tmp_path, monkeypatch):
    """Other processes remove the folder between its making and the writing, as often as they like."""
    from knotwise.checkpoint import journal as module

    write, removed = module.write_atomically, []

    def late(path, content):
        if len(removed) < 3:
            removed.append(shutil.rmtree(path.parent))
        write(path, content)

    monkeypatch.setattr(module, "write_atomically", late)
    journal = Journal(tmp_path / "fit")
    assert journal.memoize((1,), lambda: "one", types=(), warm_start=Nothing()) == "one"
    assert len(removed) == 3 and len(states(tmp_path)) == 1


@pytest.mark.parametrize("moment", ["mkdir", "lstat"])
def test_a_folder_that_disappears_while_a_fit_begins_is_no_error(moment, tmp_path, monkeypatch):
    """Another process, which finishes the same fit, removes the folder just before or just after it is looked at."""
    folder = tmp_path / "fit"
    folder.mkdir()
    original, removed = getattr(os, moment), []

    def late(path, *args, **kwargs):
        if Path(path) == folder and not removed:
            removed.append(folder.rmdir())
            if moment == "mkdir":
                raise FileExistsError(path)
        return original(path, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(os, moment, late)
        journal = Journal(folder)
    assert len(removed) == 1 and journal.memoize((1,), lambda: "one", types=(), warm_start=Nothing()) == "one"
    assert len(states(tmp_path)) == 1


CHILD = """
import sys, warnings
import test_failures_checkpoints as t
warnings.simplefilter("error")
warnings.filterwarnings("ignore", "(The optimiser stopped|Reached max_knots)")
folder, *seeds = sys.argv[1:]
print("ready", flush=True)
sys.stdin.readline()
for seed in seeds:
    gp = t.clone(t.GROWN).set_params(checkpoint=folder)
    print(repr(t.bits(gp.fit(**t.counts(seed=int(seed))))), flush=True)
"""


@pytest.mark.slow
def test_processes_that_fit_at_once_in_one_folder_all_end_with_the_right_results(tmp_path):
    """Two processes make the same fits in the same order, so each finishes what the other is at."""
    seeds = [3, 4, 3]
    root = Path(__file__).parents[1]
    paths = os.pathsep.join([str(root / "src"), str(root / "tests")])
    pair = [
        subprocess.Popen(
            [sys.executable, "-c", CHILD, str(tmp_path), *map(str, seeds)],
            env=os.environ | {"PYTHONPATH": paths},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for process in pair:
        assert process.stdout.readline() == "ready\n"
    for process in pair:
        process.stdin.write("\n")
        process.stdin.flush()
    expected = [repr(bits(clone(GROWN).fit(**counts(seed=seed)))) for seed in seeds]
    for process in pair:
        assert process.communicate()[0].splitlines() == expected and process.returncode == 0
    assert os.listdir(tmp_path) == []
