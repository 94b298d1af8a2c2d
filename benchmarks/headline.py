"""The figures of the README's section on speed: each a ratio or a share measured in one run, medians of three.

Run `python benchmarks/headline.py` on an idle machine (about ten minutes); it stores the figures in
results/headline.json and rewrites the README's table from them. `--table` only rewrites the table.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from imports import PAIRS, measure
from ladder import DGEMM_SIZE, Case, describe_machine, evaluation, interleaved, measure_in_child
from memory import MB, run_child

HERE = Path(__file__).parent
STORED = HERE / "results" / "headline.json"
README = HERE.parent / "README.md"
START, END = "<!-- benchmark:start -->", "<!-- benchmark:end -->"
KEY = Case(100_000, 200, 4, "streamed")


def seconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


# -- what is measured ---------------------------------------------------------------------------------


def engine() -> dict[str, float]:
    """Shares of dgemm, gain of a second thread, growth with the rows, overhead of a small problem, memory."""
    one, two, vfe, dgemm, both = key_row()
    rows = Case(100_000, 100, 4, "streamed", threads=2)
    short, long = measure_in_child(rows), measure_in_child(replace(rows, N=1_000_000), rounds=2)
    small = run_child(str(HERE / "ladder.py"), {"small": True})
    return {
        "share": KEY.nominal_flops / one / (2 * DGEMM_SIZE**3 / dgemm),
        "share_vfe": KEY.nominal_flops / vfe / (2 * DGEMM_SIZE**3 / dgemm),
        "two_threads": one / two,
        "two_dgemms": 2 * dgemm / both,
        "tenfold_rows": long.seconds / short.seconds,
        "small_over_bare": small["seconds"] / small["bare_seconds"],
    }


def key_row() -> list[float]:
    """Best seconds of the key row by 1 thread, 2 threads, VFE, of one dgemm, and of two at a time; taken in turn."""
    from concurrent.futures import ThreadPoolExecutor

    import numpy as np

    from knotwise.numerics.blocks import executor_for

    A, B = np.random.default_rng(2).standard_normal((2, DGEMM_SIZE, DGEMM_SIZE))
    products = np.empty((2, *A.shape))

    def dgemm(i: int) -> None:
        np.matmul(A, B, out=products[i])

    with executor_for(1) as serial, executor_for(2) as threads, ThreadPoolExecutor(2) as pool:
        works = [evaluation(KEY, serial), evaluation(KEY, threads), evaluation(replace(KEY, power=0.0), serial)]
        return interleaved([*works, lambda: dgemm(0), lambda: list(pool.map(dgemm, (0, 1)))], rounds=5)


def memory() -> dict[str, float]:
    """Peak memory of a fit of parameters to a million rows, over libraries and data."""
    settings = {"n_rows": 1_000_000, "n_knots": 100, "n_columns": 4, "max_iterations": 5}
    found = run_child(str(HERE / "memory.py"), settings)
    return {"memory_mb": (found["peak"] - found["before"]) / MB}


def imports() -> dict[str, float]:
    found = measure()
    return {
        name: found[ours] / found[theirs] for name, (ours, theirs) in zip(("import", "import_gp"), PAIRS, strict=True)
    }


def exact_gp() -> dict[str, float]:
    """One evidence with gradient of the exact GP over a Cholesky factor and inverse of the same size, N = 2,000."""
    import numpy as np
    from scipy.linalg import lapack

    from knotwise import means
    from knotwise.evidence import Model, Rows, full_evidence
    from knotwise.kernels import SquaredExponential
    from knotwise.likelihoods import Gaussian
    from knotwise.numerics.blocks import single_threaded_blas

    rng = np.random.default_rng(0)
    X, y = rng.random((2000, 2)), rng.standard_normal(2000)
    model = Model(SquaredExponential(1.0, 0.2), Gaussian(0.1), means.Constant(0.0))
    rows = Rows(X, y, None, np.empty((2000, 0)))
    K = np.asfortranarray(model.kernel(X) + 0.1 * np.eye(2000))

    def bare() -> None:
        lapack.dpotri(lapack.dpotrf(K, lower=1)[0], lower=1)

    with single_threaded_blas():
        works = [bare, lambda: full_evidence(model, rows)]
        best = [min(seconds(work) for _ in range(5)) for work in works]
    return {"exact_over_lapack": best[1] / best[0]}


def fits(seed: int) -> dict[str, float]:
    """Seconds of fits, and automatic knots against the exact GP, on all cores."""
    import numpy as np

    from knotwise import GPRegressor, datasets
    from knotwise.knots import Simultaneous

    trees = datasets.load_hickory()
    counts = {"likelihood": "poisson", "nugget": "fit", "standardize": "common", "random_state": seed}
    banana = datasets.split(datasets.load_banana(), n_train=531, seed=seed)
    boston = datasets.split(datasets.load_boston(), seed=seed)
    rng = np.random.default_rng(seed)
    waves = rng.random((2000, 2))
    directions = rng.standard_normal((500, 2)) / 0.12
    heights = np.cos(waves @ directions.T + rng.uniform(0, 2 * np.pi, 500)) @ rng.standard_normal(500) / np.sqrt(250)
    heights += 0.3 * rng.standard_normal(2000)

    def hickory(**options: Any) -> float:
        return seconds(lambda: GPRegressor(**counts, **options).fit(trees.X, trees.y, exposure=trees.exposure))

    def classes(**options: Any) -> float:
        model = GPRegressor(likelihood="bernoulli", random_state=seed, **options)
        return seconds(lambda: model.fit(banana.X_train, banana.y_train))

    def houses(**options: Any) -> float:
        return seconds(lambda: GPRegressor(random_state=seed, **options).fit(boston.X_train, boston.y_train))

    def surface(**options: Any) -> float:
        return seconds(lambda: GPRegressor(random_state=seed, **options).fit(waves, heights))

    hickory()  # loads what is loaded at first use
    full = {"approximation": "full"}
    found = {
        "boston_full": houses(**full),
        "boston_auto": houses(),
        "banana_full": classes(**full),
        "banana_auto": classes(),
        "hickory_full": hickory(**full),
        "hickory_auto": hickory(),
        "hickory_fic50": hickory(approximation="fic", knots=Simultaneous(50, "grid")),
        "surface_full": surface(**full),
        "surface_auto": surface(),
    }
    for name in ("boston", "banana", "hickory", "surface"):
        found[f"{name}_ratio"] = found[f"{name}_full"] / found[f"{name}_auto"]
    return found


def many_rows() -> dict[str, float]:
    """Automatic knots for a smooth surface with noise: seconds at 100,000 rows, and over those at 10,000."""
    import numpy as np

    from knotwise import GPRegressor

    def fit(n: int) -> float:
        rng = np.random.default_rng(0)
        X = rng.random((n, 2))
        y = np.sin(6 * X[:, 0]) * np.cos(5 * X[:, 1]) + 0.3 * rng.standard_normal(n)
        return seconds(lambda: GPRegressor(random_state=0).fit(X, y))

    few, many = fit(10_000), fit(100_000)
    return {"rows_100k": many, "rows_growth": many / few}


# -- the table ----------------------------------------------------------------------------------------


def table(stored: dict[str, Any]) -> str:
    """The README's table, from stored figures."""
    f = stored["figures"]
    rows = [
        ("evidence + gradient at N = 100,000, K = 200, d = 4, streaming, FIC, 1 thread: share of this machine's dgemm "
         "rate (13 N K^2 flops counted)", f"{100 * f['share']:.0f} %"),
        ("the same for VFE", f"{100 * f['share_vfe']:.0f} %"),
        ("2 threads over 1 thread (two dgemms at a time over one after the other)",
         f"{f['two_threads']:.2f} times as fast ({f['two_dgemms']:.2f})"),
        ("time at N = 1,000,000 over N = 100,000 (K = 100, d = 4, streaming, 2 threads)", f"{f['tenfold_rows']:.1f}"),
        ("evaluation at N = 400, K = 13 over a bare NumPy transcription of the formulas",
         f"{f['small_over_bare']:.2f}"),
        ("peak memory of fitting parameters to N = 1,000,000, K = 100, over libraries and data",
         f"{f['memory_mb']:.0f} MB"),
        ("`import knotwise` over `import numpy, scipy.linalg`", f"{f['import']:.2f}"),
        ("`from knotwise import GPRegressor` over `import sklearn.base`", f"{f['import_gp']:.2f}"),
        ("exact GP, evidence + gradient, over LAPACK's Cholesky factor and inverse, N = 2,000, 1 thread",
         f"{f['exact_over_lapack']:.2f}"),
        ("automatic knots against the exact GP: Boston (392 rows)", _against(f, "boston")),
        ("banana (531 rows, classes)", _against(f, "banana")),
        ("hickory (900 counts)", _against(f, "hickory")),
        ("2-D surface, length-scale 0.12 (2,000 rows)", _against(f, "surface")),
        ("hickory, FIC with 50 knots moved together with the parameters", f"{f['hickory_fic50']:.2f} s"),
        ("automatic knots at N = 100,000, d = 2 (over N = 10,000)",
         f"{f['rows_100k']:.1f} s ({f['rows_growth']:.1f} times)"),
    ]  # fmt: skip
    machine = stored["machine"]
    medians = ", medians" if stored["runs"] > 1 else ""
    about = (
        f"Measured in {stored['runs']} run(s){medians}, on {machine['cores']} cores, Python {machine['python']}, NumPy "
        f"{machine['numpy']}, {machine['blas']}; `python benchmarks/headline.py` measures them anew."
    )
    lines = [about, "", "| what | measured |", "|---|---|", *(f"| {what} | {value} |" for what, value in rows)]
    return "\n".join(lines)


def _against(f: dict[str, float], name: str) -> str:
    return f"{f[f'{name}_auto']:.2f} s against {f[f'{name}_full']:.2f} s ({f[f'{name}_ratio']:.1f} times as fast)"


def with_table(readme: str, stored: dict[str, Any]) -> str:
    """The README with its table written anew."""
    head, rest = readme.split(START)
    _, tail = rest.split(END)
    return f"{head}{START}\n{table(stored)}\n{END}{tail}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the figures of the README and write its table.")
    parser.add_argument("--table", action="store_true", help="only rewrite the table from the stored figures")
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    if not given.table:
        works: list[Callable[[int], dict[str, float]]] = [
            lambda seed: engine(), lambda seed: memory(), lambda seed: imports(), lambda seed: exact_gp(), fits,
            lambda seed: many_rows(),
        ]  # fmt: skip
        runs: list[dict[str, float]] = []
        for seed in range(given.runs):
            runs.append({})
            for work in works:
                runs[-1] |= work(seed)
            print(json.dumps(runs[-1]), flush=True)
        figures = {name: median(run[name] for run in runs) for name in runs[0]}
        STORED.parent.mkdir(exist_ok=True)
        STORED.write_text(
            json.dumps({"machine": describe_machine(), "runs": given.runs, "figures": figures}, indent=1) + "\n"
        )
    README.write_text(with_table(README.read_text(), json.loads(STORED.read_text())))


if __name__ == "__main__":
    main()
