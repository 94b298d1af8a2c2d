"""Peak memory of work on a million rows, each in a process of its own.

Run `python benchmarks/memory.py` for a fit with fixed knots, and with `--case evidence` or `--case auto` for one
evidence of counts with its gradient, streaming, or for a fit with automatic knots. What is counted is explained in
README.md.
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


def measure(work: Callable[[Any, Any], Any], n_rows: int, n_columns: int) -> tuple[Any, dict[str, float]]:
    """Do the work on data in this process, and return its result with the sizes in bytes and the seconds."""
    from knotwise.errors import FitWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # a few iterations are not meant to converge
        work(*make_data(50, n_columns))  # loads what is loaded at first use
        libraries = resident()
        X, y = make_data(n_rows, n_columns)
        before = resident()
        start = time.perf_counter()
        result, peak = peak_during(lambda: work(X, y))
        seconds = time.perf_counter() - start
    sizes = {"libraries": libraries, "data": X.nbytes + y.nbytes, "before": before, "peak": peak}
    return result, sizes | {"seconds": seconds}


def measure_fit(*, n_rows: int, n_knots: int, n_columns: int, max_iterations: int) -> dict[str, float]:
    """Fit parameters with knots that are held."""
    import numpy as np

    from knotwise import GPRegressor
    from knotwise.optimize import LBFGS

    def fit(X: Any, y: Any) -> Any:
        Z = X[np.random.default_rng(1).choice(len(X), min(n_knots, len(X)), replace=False)]
        return GPRegressor(knots=Z, optimizer=LBFGS(max_iterations=max_iterations), random_state=0).fit(X, y)

    model, found = measure(fit, n_rows, n_columns)
    return found | {"evaluations": model.optimize_result_.evaluations}


def measure_evidence(*, n_rows: int, n_knots: int, n_columns: int, max_iterations: int) -> dict[str, float]:
    """One evidence of counts under FIC with its gradient, nothing kept of what the knots see; a search for a mode."""
    import numpy as np

    from knotwise.evidence import Jitter, Model, Rows, sparse_evidence
    from knotwise.kernels import SquaredExponential
    from knotwise.likelihoods import Poisson
    from knotwise.means import Constant
    from knotwise.numerics.blocks import executor_for

    def evaluate(X: Any, y: Any) -> Any:
        model, rows = Model(SquaredExponential(1.0, 1.0), Poisson(), Constant(0.0)), Rows(X, y, None, X[:, :0])
        np.rint(np.exp(y, out=y), out=y)  # counts, in the memory of the targets
        with executor_for(None) as executor:
            jitter = Jitter(1e-6, X[:5])
            return sparse_evidence(model, rows, X[:n_knots].copy(), jitter=jitter, executor=executor, keep_bytes=0)

    return measure(evaluate, n_rows, n_columns)[1] | {"evaluations": 1}


def measure_auto(*, n_rows: int, n_knots: int, n_columns: int, max_iterations: int) -> dict[str, float]:
    """Fit parameters and knots, as many as the data ask for."""
    from knotwise import GPRegressor

    model, found = measure(lambda X, y: GPRegressor(knots="auto", random_state=0).fit(X, y), n_rows, n_columns)
    return found | {"evaluations": model.optimize_result_.evaluations}


CASES = {"fit": measure_fit, "evidence": measure_evidence, "auto": measure_auto}


def main() -> None:
    parser = argparse.ArgumentParser(description="Peak memory of work on many rows, over that of the data.")
    parser.add_argument("--case", choices=CASES, default="fit", help="fixed knots, one evidence, or automatic knots")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--knots", type=int, default=100)
    parser.add_argument("--columns", type=int, default=4)
    parser.add_argument("--iterations", type=int, default=5)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        settings = json.loads(given.child)
        print(json.dumps(CASES[settings.pop("case", "fit")](**settings)))
        return
    settings = {
        "case": given.case,
        "n_rows": given.rows,
        "n_knots": given.knots,
        "n_columns": given.columns,
        "max_iterations": given.iterations,
    }
    found = run_child(__file__, settings)
    what = {
        "fit": f"fit with {given.knots} fixed knots, {given.iterations} iterations",
        "evidence": f"evidence of counts with its gradient, {given.knots} knots, FIC, streaming",
        "auto": "fit with automatic knots",
    }[given.case]
    print(f"{what}, {given.rows:,} rows, {given.columns} columns: {found['seconds']:.1f} s")
    print(f"  evaluations of the last optimisation: {found['evaluations']}")
    for name, size in (
        ("resident with libraries loaded", found["libraries"]),
        ("the data themselves (X and y)", found["data"]),
        ("resident before", found["before"]),
        ("peak", found["peak"]),
        ("peak - libraries - data", found["peak"] - found["libraries"] - found["data"]),
        ("peak - before", found["peak"] - found["before"]),
    ):
        print(f"  {name:<32}{size / MB:10.1f} MB")


if __name__ == "__main__":
    main()
