"""Throw damaged and forged model files at `knotwise.load`: the named error or exactly the same model, always.

Run `python benchmarks/fuzz_models.py` for 100,000 files. Damaged files have bytes changed, cut, added or moved, and
the digest at their end no longer fits. Forged files are made by somebody who knows the format: zip records and all
digests fit, but the manifest or the arrays were changed. A damaged file that loads must hold the bytes of the
original; a forged one must give a model that predicts, draws, is diagnosed or says why not, and that is the same after
it is saved and loaded again.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import copy
import hashlib
import io
import json
import os
import sys
import tempfile
import time
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

import knotwise
from knotwise import GPClassifier, GPRegressor, kernels
from knotwise.errors import KnotwiseError, ModelFileError
from knotwise.persistence.archive import FORMAT_VERSION, MANIFEST, SEAL, directory, local_header, place

EXTRA_MEMORY = 50e6  # bytes that a load may take beyond what the process has
LONGEST = 1.0  # seconds of processor time
N_COLUMNS = 2
FAST = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # where files are quickly written

# -- models and files -----------------------------------------------------------------------------


def small_models() -> dict[str, Any]:
    """Fitted models of each kind of content: sparse and exact, with neighbours, a trend, counts, a classifier."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, N_COLUMNS))
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=40)
    counts = rng.poisson(np.exp(y)).astype(float)
    trend = kernels.Matern52(ard=True) + kernels.Linear().on([0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a fit cut short is as good a model file
        return {
            "sparse": GPRegressor(trend, knots=5, mean="linear", random_state=0).fit(X, y),
            "auto": GPRegressor(random_state=0).fit(X, y),
            "counts": GPRegressor(likelihood="poisson", knots=3, random_state=0).fit(X, counts, exposure=2.0),
            "exact": GPRegressor(likelihood="poisson", approximation="full", random_state=0).fit(X[:12], counts[:12]),
            "neighbors": GPRegressor(kernels.Matern32(), knots=4, n_neighbors=3, random_state=0).fit(X, y),
            "classifier": GPClassifier(knots=3, random_state=0).fit(X, np.digitize(y, [-0.5, 0.5])),
        }


def saved_bytes(model: Any, folder: Path) -> bytes:
    path = folder / "saved.knotwise"
    model.save(path)
    return path.read_bytes()


def members_of(data: bytes) -> dict[str, bytes]:
    """The members of a model file, by Python's own reader of zip files."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def forge(members: dict[str, bytes], version: int = FORMAT_VERSION) -> bytes:
    """A file whose zip records and seal fit these members."""
    places = place({name: len(content) for name, content in members.items()})
    places = [replace(m, crc=zlib.crc32(members[m.name])) for m in places]
    body = b"".join(local_header(m) + members[m.name] for m in places) + directory(places)
    return resealed(body + SEAL.format(version).encode() + b"0" * 64)


def resealed(data: bytes) -> bytes:
    """The same bytes with the digest that fits them."""
    return data[:-64] + hashlib.sha256(data[:-64]).hexdigest().encode()


# -- damage ---------------------------------------------------------------------------------------


def damaged(data: bytes, rng: np.random.Generator) -> tuple[str, bytes]:
    """One random damage: its kind, and the bytes."""
    n = len(data)
    i, j = sorted(int(k) for k in rng.integers(0, n, 2))
    j = min(j, i + int(rng.integers(1, 200)))
    noise = rng.bytes(j - i)
    kind = str(rng.choice(["bit", "byte", "bytes", "cut", "shorten", "append", "insert", "remove", "move", "number"]))
    if kind == "bit":
        return kind, data[:i] + bytes([data[i] ^ (1 << int(rng.integers(8)))]) + data[i + 1 :]
    if kind == "byte":
        return kind, data[:i] + rng.bytes(1) + data[i + 1 :]
    if kind == "bytes":
        return kind, data[:i] + noise + data[j:]
    if kind == "cut":
        return kind, data[:i]
    if kind == "shorten":
        return kind, data[i:]
    if kind == "append":
        return kind, data + noise
    if kind == "insert":
        return kind, data[:i] + noise + data[i:]
    if kind == "remove":
        return kind, data[:i] + data[j:]
    if kind == "move":
        k = int(rng.integers(0, n))
        rest = data[:i] + data[j:]
        return kind, rest[:k] + data[i:j] + rest[k:]
    extreme = [b"\0" * 4, b"\xff" * 4, b"\xff" * 8, b"\xff\xff\xff\x7f", b"PK\1\2", b"PK\3\4", b"PK\5\6"]
    number = extreme[int(rng.integers(len(extreme)))]
    return kind, data[:i] + number + data[i + len(number) :]


# -- forgery --------------------------------------------------------------------------------------

JUNK: list[Any] = [
    None, True, False, 0, 1, -1, 7, 2**31, 2**63, 10**40, 0.0, -0.0, 1.5, -1.5, 1e-320, 1e300, "", "x", "../x",
    "\ud800", "GPRegressor", "Linear", "log", [], {}, [0], [0.5, 0.5], ["x", "x"], {"float": "nan"}, {"float": "-inf"},
    {"tuple": []}, {"dict": {"x": 1}}, {"array": "fit.state.sparse.Z"}, {"kernel": {"class": "Zero", "arguments": {}}},
    {"generator": [1, 2, 0, 0]},
]  # fmt: skip


def nodes(tree: Any) -> list[tuple[Any, Any]]:
    """Every place in a JSON value: the container, and the key or index in it."""
    keys = list(tree) if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else []
    return [place for key in keys for place in [(tree, key), *nodes(tree[key])]]


def forged(data: bytes, rng: np.random.Generator) -> tuple[str, bytes]:
    """One random forgery: its kind, and a file in which every record and digest fits."""
    members = members_of(data)
    manifest = json.loads(members[MANIFEST])
    kind = str(rng.choice(["value", "value", "key", "swap", "shape", "content", "resealed", "member"]))
    places = nodes(manifest)
    container, key = places[int(rng.integers(len(places)))]
    other, other_key = places[int(rng.integers(len(places)))]
    names = list(manifest["arrays"])
    name = names[int(rng.integers(len(names)))]
    if kind == "value":
        container[key] = copy.deepcopy(JUNK[int(rng.integers(len(JUNK)))])
    elif kind == "key":
        if isinstance(container, dict) and rng.random() < 0.5:
            container[str(rng.choice(["x", "callback", "class", "learned", "arrays"]))] = 1
        else:
            del container[key]
    elif kind == "swap":
        container[key], other[other_key] = copy.deepcopy(other[other_key]), copy.deepcopy(container[key])
    elif kind == "shape":
        shape = manifest["arrays"][name]["shape"]
        shape[int(rng.integers(len(shape)))] = int(rng.choice([0, 1, 2, 5, 40, 2**16, 2**31, -1]))
    elif kind == "content":
        _forge_content(members, manifest, name, rng)
    elif kind == "resealed":
        what, changed = damaged(data, rng)
        return f"resealed {what}", resealed(changed) if len(changed) >= 64 else changed
    else:
        return kind, _forge_member(members, name, rng)
    members[MANIFEST] = json.dumps(manifest, separators=(",", ":")).encode()
    return kind, forge(members)


def _forge_content(members: dict[str, bytes], manifest: Any, name: str, rng: np.random.Generator) -> None:
    """Other numbers in an array, with the digest that fits them."""
    npy = members[f"{name}.npy"]
    head, body = npy[:128], bytearray(npy[128:])
    for _ in range(int(rng.integers(1, 4))):
        if len(body) >= 8:
            at = 8 * int(rng.integers(len(body) // 8))
            value = float(rng.choice([np.nan, np.inf, 1e300, -1.0, 0.0, rng.normal()]))
            body[at : at + 8] = np.float64(value).tobytes()
    members[f"{name}.npy"] = head + bytes(body)
    manifest["arrays"][name]["sha256"] = hashlib.sha256(bytes(body)).hexdigest()


def _forge_member(members: dict[str, bytes], name: str, rng: np.random.Generator) -> bytes:
    """Members that are too many, missing, under other names or compressed."""
    how = int(rng.integers(5))
    if how == 0:
        return forge(members | {"extra.npy": members[f"{name}.npy"]})
    if how == 1:
        return forge({n: content for n, content in members.items() if n != f"{name}.npy"})
    if how == 2:
        return forge({n.replace(name, f"../{name}"): content for n, content in members.items()})
    if how == 3:
        return forge(dict(sorted(members.items())))
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for n, content in members.items():
            archive.writestr(n, content)
        archive.comment = (SEAL.format(FORMAT_VERSION) + "0" * 64).encode()
    return resealed(stream.getvalue())


# -- trial ----------------------------------------------------------------------------------------


@dataclass
class Tally:
    """What became of the files of one kind."""

    outcomes: collections.Counter[str] = field(default_factory=collections.Counter)
    longest: float = 0.0  # seconds of processor time that one load took


@contextlib.contextmanager
def memory_limit(extra: float) -> Iterator[None]:
    """Let the process take this many more bytes of address space, and no more: beyond that is a MemoryError."""
    if not Path("/proc/self/statm").exists():  # elsewhere than on Linux: no limit
        yield
        return
    import resource

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + int(extra), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def load_or_refuse(path: Path) -> Any:
    """The model of a file, or None where it is refused as it should be."""
    with memory_limit(EXTRA_MEMORY), contextlib.suppress(ModelFileError):
        return knotwise.load(path)
    return None


class Trial:
    """Loads mutated files of one model, and judges what happens."""

    def __init__(self, model: Any, folder: Path) -> None:
        self.folder = folder
        self.original = saved_bytes(model, folder)
        self.new = np.random.default_rng(1).normal(size=(7, N_COLUMNS))
        self.expected = predictions(model, self.new)
        self.tallies: dict[str, Tally] = collections.defaultdict(Tally)

    def __call__(self, kind: str, data: bytes, *, is_forged: bool) -> None:
        """Load a file; raise AssertionError, MemoryError or whatever else it should not lead to."""
        path = self.folder / "mutant.knotwise"
        path.write_bytes(data)
        tally = self.tallies[kind]
        start = time.thread_time()  # not of the clock: a busy machine is not the file's fault
        model = load_or_refuse(path)
        seconds = time.thread_time() - start
        tally.longest = max(tally.longest, seconds)
        assert seconds < LONGEST, f"{kind}: {seconds:.2f} s"
        if model is None:
            tally.outcomes["refused"] += 1
        elif data == self.original:
            assert same(predictions(model, self.new), self.expected)
            tally.outcomes["unchanged"] += 1
        else:
            assert is_forged, f"{kind}: a changed file was loaded"
            tally.outcomes["another model"] += 1
            self._judge_forged(model)

    def _judge_forged(self, model: Any) -> None:
        """It is a model like another: it answers or says why not, and survives a file."""
        ask(model, self.new)
        path = self.folder / "again.knotwise"
        model.save(path)
        again = knotwise.load(path)
        assert same(predictions(again, self.new), predictions(model, self.new))
        assert str(again.summary()) == str(model.summary())
        assert saved_bytes(again, self.folder) == path.read_bytes()


def predictions(model: Any, new: np.ndarray) -> list[np.ndarray]:
    """What a model predicts, or nothing where it refuses."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # scikit-learn's, of columns that have been forged a name
        try:
            size = {model.likelihood_.size_name: 1} if not hasattr(model, "classes_") and model._fit.size_given else {}
            return [model.predict(new, **size), *[f.mean for f in np.atleast_1d(model.predict_latent(new))]]
        except KnotwiseError:
            return []


def ask(model: Any, new: np.ndarray) -> None:
    """Call what works on numbers of the file in other ways than predictions do; errors of ours are answers."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for question in (model.diagnose, model.summary, lambda: model.sample_latent(new, random_state=0)):
            with contextlib.suppress(KnotwiseError):
                str(question())


def same(a: list[np.ndarray], b: list[np.ndarray]) -> bool:
    return len(a) == len(b) and all(x.tobytes() == y.tobytes() for x, y in zip(a, b, strict=True))


def run(count: int, seed: int, share_forged: float = 0.4) -> dict[str, Tally]:
    """Try so many files, in turn from each model; returns what became of them by kind."""
    with tempfile.TemporaryDirectory(dir=FAST) as folder:
        trials = [Trial(model, Path(folder)) for model in small_models().values()]
        for i in range(count):
            rng = np.random.default_rng([seed, i])  # a failure is found again from its number
            trial = trials[i % len(trials)]
            is_forged = rng.random() < share_forged
            kind, data = (forged if is_forged else damaged)(trial.original, rng)
            try:
                trial(kind, data, is_forged=is_forged)
            except BaseException:
                print(f"failed: file {i} of seed {seed}, {kind}", file=sys.stderr)
                raise
    total: dict[str, Tally] = collections.defaultdict(Tally)
    for trial in trials:
        for kind, tally in trial.tallies.items():
            total[kind].outcomes += tally.outcomes
            total[kind].longest = max(total[kind].longest, tally.longest)
    return total


def report(tallies: dict[str, Tally]) -> str:
    columns = ["refused", "unchanged", "another model"]
    lines = [f"{'kind':<18}{'files':>8}" + "".join(f"{c:>15}" for c in columns) + f"{'largest ms':>12}"]
    for kind, tally in sorted(tallies.items()):
        counts = "".join(f"{tally.outcomes[c]:>15}" for c in columns)
        lines.append(f"{kind:<18}{tally.outcomes.total():>8}{counts}{1e3 * tally.longest:>12.1f}")
    total = sum(tally.outcomes.total() for tally in tallies.values())
    lines.append(f"{total} files: no crash, no other error, no load over {LONGEST:g} s or {EXTRA_MEMORY / 1e6:g} MB,")
    lines.append("no damaged file loaded as another model; forged ones are refused, or are models that files can hold")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    print(report(run(given.count, given.seed)))


if __name__ == "__main__":
    main()
