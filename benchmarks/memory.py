"""Peak memory of a fit to a million rows: parameters optimised, knots held, in a process of its own.

Run `python benchmarks/memory.py`. What is counted is explained in README.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

MB = 1e6


def resident() -> int:
    """Bytes of this process that are in memory now."""
    import psutil

    return psutil.Process().memory_info().rss


def peak_during(work: Callable[[], Any]) -> tuple[Any, int]:
    """Run `work` and return its result and the largest resident size of this process meanwhile, in bytes.

    Linux keeps the peak of a process in VmHWM, and sets it back to the present size when asked to. Elsewhere
    `ru_maxrss` serves, which counts from the start of the process: make the data without large temporaries.
    """
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        import resource

        result = work()
        unit = 1 if sys.platform == "darwin" else 1024
        return result, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    result = work()
    status = Path("/proc/self/status").read_text()
    return result, 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))


def make_data(n_rows: int, n_columns: int, seed: int = 0) -> tuple[Any, Any]:
    """Make a smooth function with noise, block by block, so that no temporary is large."""
    import numpy as np

    rng = np.random.default_rng(seed)
    X, y = np.empty((n_rows, n_columns)), np.empty(n_rows)
    for start in range(0, n_rows, 10_000):
        rows = slice(start, start + 10_000)
        rng.standard_normal(out=X[rows])
        y[rows] = np.sin(X[rows].sum(1)) + 0.3 * rng.standard_normal(len(y[rows]))
    return X, y


def run_child(script: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Run `script --child SETTINGS` in a fresh interpreter and return the JSON object that it prints."""
    command = [sys.executable, script, "--child", json.dumps(settings)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def measure_fit(*, n_rows: int, n_knots: int, n_columns: int, max_iterations: int) -> dict[str, float]:
    """Fit in this process, and return the sizes in bytes, the seconds, and the number of evaluations."""
    import numpy as np

    from knotwise import GPRegressor
    from knotwise.errors import FitWarning
    from knotwise.optimize import LBFGS

    def fit(X: Any, y: Any, iterations: int) -> Any:
        Z = X[np.random.default_rng(1).choice(len(X), min(n_knots, len(X)), replace=False)]
        return GPRegressor(knots=Z, optimizer=LBFGS(max_iterations=iterations), random_state=0).fit(X, y)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # a few iterations are not meant to converge
        fit(*make_data(50, n_columns), iterations=1)  # loads what is loaded at first use
        libraries = resident()
        X, y = make_data(n_rows, n_columns)
        before = resident()
        start = time.perf_counter()
        model, peak = peak_during(lambda: fit(X, y, max_iterations))
        seconds = time.perf_counter() - start
    return {
        "libraries": libraries,
        "data": X.nbytes + y.nbytes,
        "before": before,
        "peak": peak,
        "seconds": seconds,
        "evaluations": model.optimize_result_.evaluations,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Peak memory of a fit with fixed knots, over that of the data.")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--knots", type=int, default=100)
    parser.add_argument("--columns", type=int, default=4)
    parser.add_argument("--iterations", type=int, default=5)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        print(json.dumps(measure_fit(**json.loads(given.child))))
        return
    settings = {
        "n_rows": given.rows,
        "n_knots": given.knots,
        "n_columns": given.columns,
        "max_iterations": given.iterations,
    }
    found = run_child(__file__, settings)
    print(
        f"fit of {given.rows:,} rows, {given.columns} columns, {given.knots} fixed knots, {given.iterations} iterations"
        f" ({found['evaluations']} evaluations): {found['seconds']:.1f} s"
    )
    for name, size in (
        ("resident with libraries loaded", found["libraries"]),
        ("the data themselves (X and y)", found["data"]),
        ("resident before the fit", found["before"]),
        ("peak during the fit", found["peak"]),
        ("peak - libraries - data", found["peak"] - found["libraries"] - found["data"]),
        ("peak - before the fit", found["peak"] - found["before"]),
    ):
        print(f"  {name:<32}{size / MB:10.1f} MB")


if __name__ == "__main__":
    main()
