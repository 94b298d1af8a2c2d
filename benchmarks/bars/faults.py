"""Fits on Dask whose workers or driver are killed: they end, and with the same result.

Run `python benchmarks/bars/faults.py`. 6,000 rows of two columns in 8 partitions, Gaussian, counts or classes, are
fitted with automatic knots on two worker processes of one thread each. The kernel is given: it would be chosen at the
driver, and nearly all of the fit is on the workers without that. First a fit is left alone; its duration is that from
which the moments are drawn, uniformly, and its result the one that is expected. The clock is the processor time of the
driver, so that a busy machine does not move the moments behind the end.

* Seeds 0 to 19: SIGKILL for one of the workers at a random moment of a fit. With even seeds a nanny starts another
  worker, with odd ones the worker is gone for good.
* Seeds 20 to 29: SIGKILL for the driver, a process of its own that fits with `checkpoint`, at a random moment of the
  fit; then the same fit again, until it ends. The fit that is left alone has a checkpoint, too.

Claims: all end; Gaussian data with the same bits in evidence, parameters and predictions; counts and classes within
1e-8, relative. A moment that falls behind the end of the fit is drawn again.

Rows are appended to `benchmarks/results/faults.jsonl`.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np

FOLDER = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(FOLDER / "bars"))
from storing import append_row, print_claims  # noqa: E402

RESULTS = FOLDER / "results" / "faults.jsonl"
N_ROWS, N_PARTITIONS = 6_000, 8
KINDS = ["gaussian", "counts", "gaussian", "classes", "gaussian", "counts", "gaussian", "classes", "gaussian", "counts"]
#: what is killed, and which data are fitted, by seed
CASES = {
    seed: ("worker" if seed < 20 else "driver", KINDS[seed // 2 if seed < 20 else seed - 20]) for seed in range(30)
}
APART = 1e-8
TRIES = 20  # at moments within the fit


def data(kind: str) -> tuple[Any, Any]:
    """Inputs and targets as Dask arrays."""
    import dask.array as da

    rng = np.random.default_rng(0)
    X = rng.uniform(size=(N_ROWS, 2))
    f = np.sin(6 * X[:, 0]) + np.cos(5 * X[:, 1])
    y = {
        "gaussian": lambda: f + 0.2 * rng.normal(size=N_ROWS),
        "counts": lambda: rng.poisson(np.exp(f)).astype(float),
        "classes": lambda: np.where(f > 0.5 * rng.normal(size=N_ROWS), "yes", "no"),
    }[kind]()
    chunk = N_ROWS // N_PARTITIONS
    return da.from_array(X, chunks=(chunk, 2)), da.from_array(y, chunks=chunk)


def fit(kind: str, checkpoint: Path | None = None) -> dict[str, np.ndarray]:
    """The result of a fit on the active client: evidence, parameters, and predictions for the first rows."""
    from knotwise import GPClassifier, GPRegressor
    from knotwise.kernels import SquaredExponential

    X, y = data(kind)
    options: dict[str, Any] = {"kernel": SquaredExponential(), "random_state": 0, "progress": False}
    options["checkpoint"] = checkpoint
    if kind == "classes":
        gp = GPClassifier(**options).fit(X, y)
        predicted = gp.predict_proba(X[:500].compute())[:, 1]
    else:
        likelihood = "gaussian" if kind == "gaussian" else "poisson"
        gp = GPRegressor(likelihood=likelihood, **options).fit(X, y)
        predicted = np.concatenate(gp.predict(X[:500].compute(), return_std=True))
    return {
        "evidence": np.array([gp.log_evidence_]),
        "parameters": np.array(gp.parameters_.values),
        "predictions": predicted,
    }


def compare(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> dict[str, Any]:
    """Whether all bits are the same, and how far apart results are, relative to the largest expected number."""
    apart = {
        name: float(np.max(np.abs(found[name] - value)) / np.max(np.abs(value))) for name, value in expected.items()
    }
    return {"same_bits": all(np.array_equal(found[n], expected[n]) for n in expected), "apart": max(apart.values())}


# -- workers --------------------------------------------------------------------------------------------


@contextmanager
def cluster(*, nanny: bool = True) -> Iterator[Any]:
    """A client of two new worker processes, with nannies that start them again, or without."""
    from distributed import Client, LocalCluster

    quiet = {"dashboard_address": ":0", "silence_logs": 50}
    alone: list[subprocess.Popen[bytes]] = []
    with LocalCluster(n_workers=2 if nanny else 0, threads_per_worker=1, processes=True, **quiet) as made:
        try:
            if not nanny:
                command = [sys.executable, "-m", "distributed.cli.dask_worker", made.scheduler_address, "--no-nanny"]
                command += ["--nthreads", "1", "--no-dashboard"]
                for _ in range(2):
                    alone.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            with Client(made) as client:
                client.wait_for_workers(2)
                yield client
        finally:
            for process in alone:
                process.kill()
                process.wait()


def undisturbed(killed: str, kind: str) -> tuple[dict[str, np.ndarray], float]:
    """The expected result, and how long a fit takes."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.process_time()
        result = fit(kind, Path(folder) if killed == "driver" else None)
        return result, time.process_time() - start


def kill_worker(client: Any, seed: int, kind: str, expected: dict[str, np.ndarray], duration: float) -> dict[str, Any]:
    """A fit during which one of two workers is killed."""
    rng, nanny = np.random.default_rng(seed), seed % 2 == 0
    for _ in range(TRIES):
        moment, ended = float(rng.uniform(0, duration)), Event()
        with nullcontext(client) if nanny else cluster(nanny=False) as own:
            own.wait_for_workers(2)
            victim = list(own.run(os.getpid).values())[int(rng.integers(2))]
            with ThreadPoolExecutor(1) as pool:
                killed = pool.submit(kill_at, moment, time.process_time, victim, ended.is_set)
                try:
                    result = fit(kind)
                finally:
                    ended.set()
        if killed.result():
            return {"nanny": nanny, **_took(moment, duration), **compare(result, expected)}
    raise RuntimeError(f"None of {TRIES} moments fell into a fit.")


def kill_at(moment: float, clock: Callable[[], float], pid: int, ended: Callable[[], bool]) -> bool:
    """Kill a process when its time has come, unless the fit has ended; whether it was killed."""
    start = clock()
    while not ended():
        if clock() - start > moment:
            os.kill(pid, signal.SIGKILL)
            return True
        time.sleep(0.005)
    return False


# -- the driver -----------------------------------------------------------------------------------------


def kill_driver(client: Any, seed: int, kind: str, expected: dict[str, np.ndarray], duration: float) -> dict[str, Any]:
    """A fit whose driver is killed, and which goes on from its checkpoint in another process."""
    rng, scheduler = np.random.default_rng(seed), client.scheduler.address
    with tempfile.TemporaryDirectory() as folder:
        for attempt in range(TRIES):
            moment, checkpoint = float(rng.uniform(0, duration)), Path(folder) / f"steps{attempt}"
            found = Path(folder) / f"found{attempt}.npz"
            driver = _start_driver(scheduler, kind, checkpoint, found)
            assert driver.stdout is not None
            driver.stdout.readline()  # the fit begins
            clock, ended = partial(processor_time, driver.pid), partial(has_ended, driver)
            killed = kill_at(moment, clock, driver.pid, ended)
            driver.wait()
            if not killed:
                continue
            steps = len(list(checkpoint.rglob("*.step")))
            if _start_driver(scheduler, kind, checkpoint, found).wait():
                raise RuntimeError("The second fit has failed.")
            with np.load(found) as result:
                return {"steps": steps, **_took(moment, duration), **compare(dict(result), expected)}
    raise RuntimeError(f"None of {TRIES} moments fell into a fit.")


def _start_driver(scheduler: str, kind: str, checkpoint: Path, found: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, __file__, "--driver", scheduler, kind, str(checkpoint), str(found)]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def drive(scheduler: str, kind: str, checkpoint: str, found: str) -> None:
    """In a process of its own: fit, and store the result."""
    from distributed import Client

    with Client(scheduler):
        print("begins", flush=True)
        np.savez(found, **fit(kind, Path(checkpoint)))


def has_ended(process: subprocess.Popen[bytes]) -> bool:
    return process.poll() is not None


def processor_time(pid: int) -> float:
    """Seconds that a process has computed; 0 where there is none any more."""
    import psutil  # comes with Dask's workers

    try:
        return sum(psutil.Process(pid).cpu_times()[:2])
    except psutil.NoSuchProcess:
        return 0.0


def _took(moment: float, duration: float) -> dict[str, float]:
    return {"moment": round(moment, 2), "undisturbed": round(duration, 2)}


# -- rows -----------------------------------------------------------------------------------------------


MEASURES: dict[str, Callable[..., dict[str, Any]]] = {"worker": kill_worker, "driver": kill_driver}


def measure(seeds: list[int]) -> Iterator[dict[str, Any]]:
    """A row for each seed."""
    known: dict[tuple[str, str], tuple[dict[str, np.ndarray], float]] = {}
    with cluster() as client:
        for seed in seeds:
            killed, kind = CASES[seed]
            if (killed, kind) not in known:
                known[killed, kind] = undisturbed(killed, kind)
            row = MEASURES[killed](client, seed, kind, *known[killed, kind])
            yield {"seed": seed, "killed": killed, "data": kind, **row}


def judge(rows: list[dict[str, Any]]) -> dict[str, bool]:
    """Which claims hold; a fit that does not end leaves no row."""
    claims = {}
    for killed in MEASURES:
        chosen = [row for row in rows if row["killed"] == killed]
        if chosen:
            gaussian = [row for row in chosen if row["data"] == "gaussian"]
            exact, most = sum(row["same_bits"] for row in gaussian), max(row["apart"] for row in chosen)
            claims[f"{killed}: {exact} of {len(gaussian)} Gaussian fits with the same bits"] = exact == len(gaussian)
            claims[f"{killed}: {len(chosen)} fits ended, {most:.0e} apart at most, {APART} allowed"] = most <= APART
    return claims


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--out", type=Path, default=RESULTS, help="file to which the rows are appended")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(CASES), help="which kills")
    parser.add_argument("--driver", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.driver:
        drive(*options.driver)
        return
    rows = []
    for row in measure(options.seeds):
        rows.append(row)
        append_row(options.out, row)
        print(row, flush=True)
    print_claims(judge(rows))


if __name__ == "__main__":
    main()
