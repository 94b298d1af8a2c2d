"""One evaluation with its gradient: two worker processes of Dask against two threads on the same rows in memory.

Run `python benchmarks/dask_evaluation.py [--rows N] [--store]`. Gaussian data, 4 columns, 100 knots. Workers draw their
own rows, this process draws the same rows once, and both must find the same numbers. Then they take turns, so that a
disturbance meets both; the medians are compared. The claim at 4,000,000 rows: workers take at most 1.15 times as long.
Measured beside it, for the model of cost (`scale_model.py`): the rate of dgemm on one core, the seconds of a pass and
of a task that do nothing, and how much the tasks of a pass vary. `--store` appends to `results/dask_evaluation.jsonl`.
"""

from __future__ import annotations

import argparse
import logging
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).resolve().parent
sys.path[:0] = [str(FOLDER), str(FOLDER / "bars")]

RESULTS = FOLDER / "results" / "dask_evaluation.jsonl"
BAR = 1.15
DGEMM_SIZE = 1000
MANY = 400  # tasks without work, by which the time that the scheduler takes for one is known


def draw_part(number: int, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets of one partition."""
    from simulated import Simulation

    return Simulation("gaussian").draw(n_rows, np.random.default_rng([2, number]))


def make_part(number: int, start: int, n_rows: int) -> Any:
    """A partition as a worker holds it."""
    from knotwise.distributed.held import Part
    from knotwise.evidence import Rows

    X, y = draw_part(number, n_rows)
    return Part(number, start, Rows(X, y, None, np.ones((n_rows, 1))))


@dataclass(frozen=True)
class EmptyPass:
    """Does nothing, so that what is left is what a pass costs by itself."""

    width: int = 1
    halo: None = None

    def __call__(self, block: Any, cache: Any) -> float:
        return 0.0


class Case:
    """The model, and the same rows twice: in this process and at the workers."""

    def __init__(self, n_rows: int, n_partitions: int, n_knots: int, client: Any, executor: Any) -> None:
        from dask import delayed

        from knotwise import means
        from knotwise.distributed.blocks import DaskBlocks, LazyRows
        from knotwise.distributed.places import Cluster
        from knotwise.evidence import InMemory, Jitter, Model, Rows
        from knotwise.kernels import SquaredExponential
        from knotwise.likelihoods import Gaussian
        from simulated import N_COLUMNS, NOISE_VARIANCE

        starts = np.array([n_rows * i // n_partitions for i in range(n_partitions + 1)])
        X, y = np.empty((n_rows, N_COLUMNS)), np.empty(n_rows)
        for i, (a, b) in enumerate(pairwise(starts)):
            X[a:b], y[a:b] = draw_part(i, b - a)
        self.model = Model(SquaredExponential(1.0, 0.5), Gaussian(NOISE_VARIANCE), means.Constant(0.5), 0.0)
        self.Z = np.random.default_rng(3).uniform(size=(n_knots, N_COLUMNS))
        self.jitter = Jitter(1e-6, X[:1].copy())
        self.here = InMemory(Rows(X, y, None, np.ones((n_rows, 1))), executor)
        make = delayed(make_part, pure=False)
        parts = [make(i, int(a), int(b - a)) for i, (a, b) in enumerate(pairwise(starts))]
        lazy = LazyRows(parts, [], range(n_partitions), starts, self.here.summary)
        self.there = DaskBlocks(lazy, executor, Cluster(client))

    def evaluate(self, blocks: Any) -> Any:
        from knotwise.evidence import sparse_evidence

        return sparse_evidence(self.model, blocks, self.Z, jitter=self.jitter)

    def check(self) -> None:
        """Both must have the same numbers before they are timed."""
        here, there = self.evaluate(self.here), self.evaluate(self.there)
        np.testing.assert_allclose(there.value, here.value, rtol=1e-10)
        for one, other in ((here.gradient, there.gradient), (here.knot_gradient, there.knot_gradient)):
            np.testing.assert_allclose(other, one, rtol=1e-7, atol=1e-7 * np.abs(one).max())


def seconds_of(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def task_seconds(client: Any, work: Callable[[], Any]) -> list[float]:
    """Seconds that the tasks of some work took at the workers."""
    from distributed import get_task_stream

    with get_task_stream(client) as stream:
        work()
    spans = [span for task in stream.data for span in task["startstops"] if span["action"] == "compute"]
    return [span["stop"] - span["start"] for span in spans]


def measure(n_rows: int, n_partitions: int, n_knots: int, rounds: int) -> dict[str, Any]:
    """Medians of rounds in which workers and threads take turns."""
    from distributed import Client, LocalCluster

    from knotwise.numerics.blocks import executor_for

    settings = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": logging.ERROR}
    A, B = np.random.default_rng(4).standard_normal((2, DGEMM_SIZE, DGEMM_SIZE))
    names = ("threads", "workers", "dgemm", "empty_pass", "per_task", "tasks")
    found: dict[str, list[float]] = {name: [] for name in names}
    with LocalCluster(**settings) as cluster, Client(cluster) as client, executor_for(2) as executor:
        case = Case(n_rows, n_partitions, n_knots, client, executor)
        case.check()
        for _ in range(rounds):
            found["threads"].append(seconds_of(lambda: case.evaluate(case.here)))
            found["workers"].append(seconds_of(lambda: case.evaluate(case.there)))
            found["dgemm"].append(seconds_of(lambda: A @ B))
            found["empty_pass"] += [seconds_of(lambda: case.there.sum(EmptyPass())) for _ in range(5)]
            found["per_task"].append(seconds_of(lambda: client.gather(client.map(int, range(MANY), pure=False))) / MANY)
        for _ in range(rounds):
            found["tasks"] += task_seconds(client, lambda: case.evaluate(case.there))
    median = {name: statistics.median(values) for name, values in found.items() if values}
    return {
        "rows": n_rows,
        "columns": case.Z.shape[1],
        "knots": n_knots,
        "partitions": n_partitions,
        "groups": 2,
        "rounds": rounds,
        "threads": round(median["threads"], 4),
        "workers": round(median["workers"], 4),
        "ratio": round(median["workers"] / median["threads"], 4),
        "bar": BAR,
        "best_threads": round(min(found["threads"]), 4),
        "best_workers": round(min(found["workers"]), 4),
        "gigaflops": round(2 * DGEMM_SIZE**3 / median["dgemm"] / 1e9, 2),
        "empty_pass": round(median["empty_pass"], 5),
        "per_task": round(median["per_task"], 6),
        "task_spread": round(task_spread(found["tasks"]), 4),
        "load": os.getloadavg()[1],
    }


def task_spread(seconds: list[float]) -> float:
    """Standard deviation of the logarithm of the seconds of tasks of one kind; values and gradients are two kinds."""
    logs = np.sort(np.log([each for each in seconds if each > 0]))
    half = len(logs) // 2
    return float(np.sqrt((logs[:half].var() + logs[half:].var()) / 2)) if half else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description="An evaluation with gradient on two workers and on two threads.")
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--knots", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--store", action="store_true", help=f"append a row to {RESULTS.name}")
    given = parser.parse_args()
    row = measure(given.rows, given.partitions, given.knots, given.rounds)
    for name, value in row.items():
        print(f"{name:<14}{value}")
    from storing import append_row, print_claims

    print_claims({f"workers take at most {BAR} times as long as threads": row["ratio"] <= BAR})
    if given.store:
        append_row(RESULTS, row)


if __name__ == "__main__":
    main()
