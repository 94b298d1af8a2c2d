"""The large example: Parquet files of simulated rows, a local cluster, a fit with automatic knots, predictions.

Run `make large`, or `python benchmarks/large.py [--rows N] [--kind gaussian|counts|classes] [--store]`. Rows are
uniform in four columns. Another process writes the files, piece by piece, if they are not there. The fit reads them
from worker processes, shows its progress, and predicts to files. Printed are times, the peak memory of the driver (with
the scheduler, from the start of the process) and of each worker, and how far fit and predictions are from the truth.
The model is kept beside the files: `--beside 1000000` compares this fit with the kept one of a million rows of the same
kind. `--store` appends a row to `benchmarks/results/large.jsonl`.
"""

from __future__ import annotations

import argparse
import logging
import math
import os
import statistics
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
sys.path[:0] = [str(FOLDER), str(FOLDER / "bars")]

RESULTS = FOLDER / "results" / "large.jsonl"
PIECE = 50_000  # rows that the writer holds at one time
FRESH = 20_000  # rows for the comparison with the truth
SEED = 0
COLUMNS = ["a", "b", "c", "d"]


def peak_mb() -> float:
    """The largest resident size of this process so far, in MB."""
    status = Path("/proc/self/status")
    if status.exists():
        lines = status.read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1e3
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)


# -- the files ----------------------------------------------------------------------------------------


def write_files(folder: Path, kind: str, n_rows: int, n_files: int) -> None:
    """Write the rows to files of about as many rows; one that is there is whole, and stays."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    from simulated import Simulation

    simulation = Simulation(kind)
    folder.mkdir(parents=True, exist_ok=True)
    ends = [n_rows * i // n_files for i in range(n_files + 1)]
    for i, (start, end) in enumerate(pairwise(ends)):
        path = folder / f"rows-{i:04}.parquet"
        if path.exists():
            continue
        rng, unfinished = np.random.default_rng([SEED, 0, i]), path.with_suffix(".unfinished")
        schema = pa.schema([(name, pa.float64()) for name in [*COLUMNS, "y"]])
        with pq.ParquetWriter(unfinished, schema) as writer:
            for piece in range(start, end, PIECE):
                X, y = simulation.draw(min(PIECE, end - piece), rng)
                writer.write_table(pa.table([*X.T, y], schema=schema))
        os.replace(unfinished, path)


def write_in_another_process(folder: Path, given: argparse.Namespace) -> None:
    """Write the files without a trace in the memory of this process."""
    sizes = ["--rows", str(given.rows), "--partitions", str(given.partitions), "--folder", str(given.folder)]
    subprocess.run([sys.executable, __file__, "--write", "--kind", given.kind, *sizes], check=True)


# -- the fit ------------------------------------------------------------------------------------------


class CountedPasses:
    """How many passes went to the workers, and how long they took in all."""

    def __init__(self) -> None:
        self.number, self.seconds = 0, 0.0

    def __enter__(self) -> CountedPasses:
        from knotwise.distributed.places import Cluster

        self._ask, counted = Cluster.ask, self

        def ask(self: Any, *arguments: Any) -> Any:
            start = time.perf_counter()
            answers = counted._ask(self, *arguments)
            counted.number, counted.seconds = counted.number + 1, counted.seconds + time.perf_counter() - start
            return answers

        Cluster.ask = ask
        return self

    def __exit__(self, *_: object) -> None:
        from knotwise.distributed.places import Cluster

        Cluster.ask = self._ask


def fit(rows: Any, kind: str) -> Any:
    """The default fit, with progress."""
    from knotwise import GPClassifier, GPRegressor

    options = {"random_state": SEED, "progress": True}
    gp = {
        "gaussian": lambda: GPRegressor(**options),
        "counts": lambda: GPRegressor(likelihood="poisson", **options),
        "classes": lambda: GPClassifier(**options),
    }[kind]()
    return gp.fit(rows[COLUMNS], rows["y"])


def predict_to_files(gp: Any, rows: Any, folder: Path) -> None:
    """Predicted means, or probabilities, as one file for each partition."""
    inputs = rows[COLUMNS]
    lazy = gp.predict_proba(inputs) if hasattr(gp, "classes_") else gp.predict(inputs).to_frame()
    lazy.rename(columns=str).to_parquet(folder, overwrite=True)


def time_evaluations(gp: Any, repeats: int = 3) -> float:
    """Median seconds of one evidence with its gradient at the end of the fit, with the rows at the workers."""
    from knotwise.numerics.blocks import executor_for

    inner = gp._fit if hasattr(gp, "_fit") else gp.models_[0]._fit
    with executor_for(1) as executor:
        problem = inner.problem.computed_by(executor)
        seconds = []
        for _ in range(repeats + 1):  # the first one has the rows read
            start = time.perf_counter()
            problem.evaluate(inner.selection.point, gradient=True, start=inner.posterior.start)
            seconds.append(time.perf_counter() - start)
    return statistics.median(seconds[1:])


def parameters_of(gp: Any, compute: bool) -> dict[str, Any]:
    """Estimates with their standard errors, where they are computed."""
    found = gp.parameters_.estimates(standard_errors=compute)
    return {
        f"{line.parameter} {line.column} ({line.reads_as})".replace("  ", " "): [
            line.estimate,
            line.standard_error if math.isfinite(line.standard_error) else None,
        ]
        for line in found.lines
    }


def model_of(given: argparse.Namespace, rows: int) -> Path:
    """Where the fit to so many rows is kept."""
    return given.folder / f"{given.kind}-{rows}.knotwise"


def measure(given: argparse.Namespace) -> dict[str, Any]:
    """Write the files, fit, predict and compare."""
    import dask.dataframe as dd
    from distributed import Client, LocalCluster

    from simulated import Simulation

    folder = given.folder / f"{given.kind}-{given.rows}-{given.partitions}"
    start = time.perf_counter()
    write_in_another_process(folder, given)
    say(f"{given.rows:,} rows in {given.partitions} files of {folder}: {time.perf_counter() - start:.0f} s")
    settings = {"n_workers": given.workers, "threads_per_worker": 1, "memory_limit": given.memory}
    settings |= {"dashboard_address": ":0", "silence_logs": logging.ERROR}
    with LocalCluster(**settings) as cluster, Client(cluster) as client:
        say(f"{given.workers} workers with {given.memory} each")
        rows = dd.read_parquet(str(folder / "*.parquet"))
        start = time.perf_counter()
        with CountedPasses() as passes:
            gp = fit(rows, given.kind)
        fit_seconds = time.perf_counter() - start
        say(f"fit: {fit_seconds:.0f} s, {passes.number} passes; {gp.n_knots_} knots, {gp.status_}")
        driver_after_fit = peak_mb()
        evaluation_seconds = time_evaluations(gp)
        parameters = parameters_of(gp, given.standard_errors)
        start = time.perf_counter()
        predict_to_files(gp, rows, folder.with_name(folder.name + "-predicted"))
        predict_seconds = time.perf_counter() - start
        say(f"predictions to {folder}-predicted: {predict_seconds:.0f} s")
        workers = sorted(client.run(peak_mb).values())
    driver = peak_mb()
    gp.save(model_of(given, given.rows))
    simulation = Simulation(given.kind)
    truth = simulation.compare(gp, FRESH, SEED)
    if given.beside:
        from knotwise import load

        truth |= {"beside_rows": given.beside}
        truth |= simulation.compare_fits(load(model_of(given, given.beside)), gp, FRESH, SEED)
    return {
        "kind": given.kind,
        "rows": given.rows,
        "columns": len(COLUMNS),
        "partitions": given.partitions,
        "workers": given.workers,
        "memory": given.memory,
        "seconds": round(fit_seconds, 1),
        "passes": passes.number,
        "pass_seconds": round(passes.seconds, 1),
        "evaluation_seconds": round(evaluation_seconds, 4),
        "predict_seconds": round(predict_seconds, 1),
        "knots": gp.n_knots_,
        "status": str(gp.status_),
        "kernel": str(gp.kernel_),
        "parameters": parameters,
        "log_evidence": gp.log_evidence_,
        "driver_mb": round(driver, 1),
        "driver_after_fit_mb": round(driver_after_fit, 1),
        "worker_mb": [round(each, 1) for each in workers],
        **{name: value if isinstance(value, int) else float(f"{value:.5g}") for name, value in truth.items()},
        "load": os.getloadavg()[1],
    }


def say(words: str) -> None:
    print(words, flush=True)


def report(row: dict[str, Any]) -> None:
    """What was measured, in words."""
    say(f"peak memory: {row['driver_mb']:.0f} MB at the driver, {row['worker_mb']} MB at the workers")
    say(f"an evaluation with gradient at the end of the fit: {row['evaluation_seconds']:.3f} s")
    for name, (value, error) in row["parameters"].items():
        say(f"  {name:<36}{value:.5g}" + ("" if error is None else f" +- {error:.2g}"))
    if row["kind"] == "gaussian":
        from simulated import NOISE_VARIANCE

        say(f"standard deviation of the noise that was drawn: {NOISE_VARIANCE**0.5:.5g}")
    say(
        f"{FRESH:,} fresh rows: predictions are {row['error']:.4g} from the truth, whose spread is {row['spread']:.3g}"
        f"; {row['density_lost']:.2g} +- {row['density_lost_error']:.1g} nats a row are lost against the true density"
    )
    say(f"the 95 % intervals of the function hold the truth at {row['covers']:.1%} of them")
    if "beside_rows" in row:
        say(
            f"beside the fit to {row['beside_rows']:,} rows: the functions are {row['beside_sd']:.2f} of its standard "
            f"deviations apart, and at {row['beside_within']:.1%} of the fresh rows within its 95 % intervals"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description="Fit and predict simulated rows in Parquet files on a local cluster.")
    parser.add_argument("--kind", choices=("gaussian", "counts", "classes"), default="gaussian")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--partitions", type=int, default=8, help="files, each of which is a partition")
    parser.add_argument("--workers", type=int, default=2, help="processes of one thread each")
    parser.add_argument("--memory", default="2GB", help="that of each worker")
    parser.add_argument("--folder", type=Path, default=Path("knotwise-large"), help="where the files are")
    parser.add_argument("--standard-errors", action="store_true", help="two more evaluations for each parameter")
    parser.add_argument("--beside", type=int, metavar="ROWS", help="compare with the kept fit to so many rows")
    parser.add_argument("--store", action="store_true", help=f"append a row to {RESULTS.name}")
    parser.add_argument("--write", action="store_true", help="write the files, and nothing more")
    given = parser.parse_args()
    if given.write:
        folder = given.folder / f"{given.kind}-{given.rows}-{given.partitions}"
        write_files(folder, given.kind, given.rows, given.partitions)
        return
    row = measure(given)
    report(row)
    if given.store:
        from storing import append_row

        append_row(RESULTS, row)


if __name__ == "__main__":
    main()
