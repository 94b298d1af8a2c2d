"""Run a tiny experiment, as a program of its own with worker processes: the tests kill it and go on themselves."""

import sys
from pathlib import Path

import numpy as np

from knotwise_reproduction.data import KNOTWISE, PUBLISHED, Task
from knotwise_reproduction.experiments import EXPERIMENTS, FULL, Experiment, Method, plan
from knotwise_reproduction.runs import versions
from knotwise_reproduction.store import RowStore
from knotwise_reproduction.workers import run_jobs


def tiny(seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 10, (60, 1))
    y = np.sin(X[:, 0]) + 0.3 * rng.standard_normal(60)
    return Task(X[:40], y[:40], X[40:], y[40:], {PUBLISHED: {}, KNOTWISE: {}})


METHODS = (
    FULL,
    Method("Simult. 6", "simultaneous", "uniform", 6, 6),
    Method("OAT-RS 5", "oat-rs", "uniform", 3, 8, 5),
    Method("Fixed 9", "fixed", "uniform", 9, 9),
)
# at the top, so that the workers, which import this file, know it too
TINY = EXPERIMENTS["tiny"] = Experiment("tiny", "tiny", "nowhere", tiny, {PUBLISHED: METHODS, KNOTWISE: METHODS})


class Silent:
    def started(self, job):
        pass

    def finished(self, job, done):
        pass


def main(folder, n_workers):
    store = RowStore(Path(folder))
    run_jobs(store.missing(plan([EXPERIMENTS["tiny"]], 3), versions()), store, int(n_workers), Silent())


if __name__ == "__main__":
    main(*sys.argv[1:])
