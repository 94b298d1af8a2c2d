"""Hundreds of correlated columns of which three matter: is a fit ever no better than one without inputs?

Run `python benchmarks/bars/many_columns.py`. 100, 300 and 500 columns, 500 and 2,000 rows, ten seeds; columns share one
factor, or eight. The claims: no fit has a log Bayes factor against the model without inputs that chance could give, and
none is called "no signal". With `--table TABLE.csv` (columns x..., y and test0, test1, ...) splits of a real table are
measured instead: root mean square error and log density of the test rows in standard deviations of y, and processor
seconds. Rows are appended to `benchmarks/results/many_columns.jsonl` and `many_columns_table.jsonl`, and tests check
what is stored.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(FOLDER / "bars"), str(FOLDER)]
from storing import append_row, print_claims  # noqa: E402

RESULTS, TABLES = (FOLDER / "results" / f"many_columns{what}.jsonl" for what in ("", "_table"))
SEEDS, N_NEW, NOISE = range(10), 500, 0.3
SETS = [
    (kind, n_columns, n_rows) for n_rows in (500, 2000) for n_columns in (100, 300, 500) for kind in ("one", "eight")
]
CHANCE = 10.0  # nats; a fit of 20 parameters gains less by chance in 99 of 100 sets of noise
WORST_ERROR, WORST_DENSITY, MOST_SECONDS = 0.13, 1.0, 120.0  # of a split of the table of a gas sensor


def draw(kind: str, n_columns: int, n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs, the standardised function of three of them, and targets."""
    rng = np.random.default_rng([seed, n_columns])
    if kind == "one":
        X = np.sqrt(0.5) * (rng.standard_normal((n_rows, 1)) + rng.standard_normal((n_rows, n_columns)))
    else:
        loadings = rng.standard_normal((8, n_columns)) / np.sqrt(8)
        X = rng.standard_normal((n_rows, 8)) @ loadings + 0.3 * rng.standard_normal((n_rows, n_columns))
    a, b, c = X[:, [0, n_columns // 2, n_columns - 1]].T
    f = np.sin(1.5 * a) + 0.7 * b + 0.5 * c**2
    f = (f - f.mean()) / f.std()
    return X, f, f + NOISE * rng.standard_normal(n_rows)


def measure(kind: str, n_columns: int, n_rows: int, seed: int) -> dict[str, Any]:
    """One set with the default: error of the function, log Bayes factor against no inputs, status and time."""
    from knotwise import GPRegressor

    X, f, y = draw(kind, n_columns, n_rows + N_NEW, seed)
    seconds = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gp = GPRegressor(random_state=seed, n_jobs=1, progress=False).fit(X[:n_rows], y[:n_rows])
    seconds = time.process_time() - seconds
    no_inputs = -0.5 * n_rows * (np.log(2 * np.pi * y[:n_rows].var()) + 1)
    return {
        "kind": kind,
        "columns": n_columns,
        "rows": n_rows,
        "seed": seed,
        "error": round(float(np.sqrt(np.mean((gp.predict(X[n_rows:]) - f[n_rows:]) ** 2))), 3),
        "log_bayes_factor": round(float(gp.log_evidence_ - no_inputs), 1),
        "status": str(gp.status_),
        "knots": gp.n_knots_,
        "seconds": round(seconds, 1),
    }


def measure_split(path: Path, split: int) -> dict[str, Any]:
    """A split of a real table with the default."""
    import pandas as pd

    from knotwise import GPRegressor

    table = pd.read_csv(path)
    X, y, test = table.filter(regex="^x").to_numpy(), table.y.to_numpy(), table[f"test{split}"].to_numpy() == 1
    unit = y[~test].std()
    seconds = time.process_time()
    gp = GPRegressor(random_state=0, progress=False).fit(X[~test], y[~test])
    seconds = time.process_time() - seconds
    return {
        "table": path.name.split(".")[0],
        "split": split,
        "error": round(float(np.sqrt(np.mean((gp.predict(X[test]) - y[test]) ** 2)) / unit), 3),
        "density": round(float(gp.log_predictive_density(X[test], y[test]).mean() + np.log(unit)), 3),
        "status": str(gp.status_),
        "seconds": round(seconds, 1),
    }


def judge(rows: list[dict[str, Any]]) -> dict[str, bool]:
    """The claims about all simulated rows."""
    least = min(row["log_bayes_factor"] for row in rows)
    lost = sum(row["status"] == "no signal" for row in rows)
    return {
        f"the least log Bayes factor against no inputs is {least}, above {CHANCE}": least > CHANCE,
        f"{lost} of {len(rows)} fits are called 'no signal'": lost == 0,
    }


def judge_split(row: dict[str, Any]) -> dict[str, bool]:
    """The claims about a split of the table of a gas sensor."""
    return {
        f"error {row['error']}, at most {WORST_ERROR}": row["error"] <= WORST_ERROR,
        f"log density {row['density']}, above {WORST_DENSITY}": row["density"] > WORST_DENSITY,
        f"{row['seconds']} s of processor, at most {MOST_SECONDS:g}": row["seconds"] <= MOST_SECONDS,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--out", type=Path, help="file to which the rows are appended")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS), help="simulations")
    parser.add_argument("--table", type=Path, help="a table with splits, instead of simulations")
    options = parser.parse_args()
    if options.table is not None:
        for split in range(3):
            row = measure_split(options.table, split)
            append_row(options.out or TABLES, row)
            print(row, flush=True)
            print_claims(judge_split(row))
        return
    rows = []
    for case in SETS:
        for seed in options.seeds:
            rows.append(measure(*case, seed))
            append_row(options.out or RESULTS, rows[-1])
            print(rows[-1], flush=True)
    print_claims(judge(rows))


if __name__ == "__main__":
    main()
