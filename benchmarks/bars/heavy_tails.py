"""Heavy tails: are they found where they are, fitted as well as by the law told, in little time, and never invented?

Run `python benchmarks/bars/heavy_tails.py`; `--only` for some cases, `--seeds` for fewer seeds.

Sets have a smooth function of one to three columns, and noise of standard deviation 0.2 that is normal, has a t law of
3 degrees of freedom (with that scale), or is normal with 5 % of outliers of fifteen times the size; 20,000 rows
also with a rougher function of waves, and neighbours. Each is fitted by plain defaults, with `noise="heavy"`, with
`noise="constant"`, and with the law told: `likelihood="student_t"`; 4000 new rows are judged by their mean log density.
The claims: in the mean of the seeds of a case, defaults and "heavy" are at most 0.03 nats behind the law told, and
"heavy" takes at most 4 times the time of constant noise; normal noise of 60 to 2,000 rows is taken for heavy in at most
one of twenty seeds, and never at a loss of more than 0.01. Rows are appended to `benchmarks/results/heavy_tails.jsonl`,
and a test checks what is stored.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(FOLDER / "bars"))
from storing import append_row, print_claims  # noqa: E402

RESULTS = FOLDER / "results" / "heavy_tails.jsonl"
N_NEW, SIZE = 4000, 0.2
MOST_BEHIND, MOST_TIMES, MOST_LOSS, MOST_FALSE = 0.03, 4.0, 0.01, 1


@dataclass(frozen=True)
class Case:
    """Law of the noise, rows and columns, how many waves the function has beside its smooth part, and the seeds."""

    law: str
    n_rows: int
    n_columns: int
    n_waves: int = 0
    options: dict[str, Any] = field(default_factory=dict)
    seeds: range = range(4000, 4005)


CASES = {
    "t of 3, 300 rows, 1 column": Case("t", 300, 1),
    "t of 3, 300 rows, 2 columns": Case("t", 300, 2),
    "t of 3, 2,000 rows, 2 columns": Case("t", 2000, 2),
    "t of 3, 20,000 rows, 2 columns": Case("t", 20_000, 2, 60, seeds=range(4000, 4002)),
    "t of 3, 20,000 rows, 2 columns, 10 neighbours": Case(
        "t", 20_000, 2, 60, {"n_neighbors": 10}, seeds=range(4000, 4002)
    ),
    "outliers, 300 rows, 2 columns": Case("outliers", 300, 2),
    "outliers, 2,000 rows, 3 columns": Case("outliers", 2000, 3, seeds=range(4000, 4003)),
    **{
        f"normal, {n_rows:,} rows, {n_columns} columns": Case("normal", n_rows, n_columns, seeds=range(4000, 4020))
        for n_rows, n_columns in ((60, 1), (300, 2), (1000, 3), (2000, 2))
    },
}


def draw(case: Case, seed: int) -> tuple[np.ndarray, ...]:
    """Rows to fit and to predict: X, y, X_new, y_new and the function there."""
    rng = np.random.default_rng(seed)
    n = case.n_rows + N_NEW
    X = rng.uniform(size=(n, case.n_columns))
    f = np.sin(6 * X[:, 0]) + (0.7 * np.cos(5 * X[:, 1]) if case.n_columns > 1 else 0.0)
    if case.n_columns > 2:
        f = f + X[:, 0] * X[:, 2]
    if case.n_waves:
        waves = 8 * rng.normal(size=(case.n_columns, case.n_waves))
        f = f + np.cos(X @ waves + rng.uniform(0, 2 * np.pi, case.n_waves)) @ (rng.normal(size=case.n_waves) / 6)
    if case.law == "t":
        error = SIZE * rng.standard_t(3, n)
    else:
        error = SIZE * rng.normal(size=n)
        if case.law == "outliers":
            error = np.where(rng.random(n) < 0.05, 15, 1) * error
    y = f + error
    m = case.n_rows
    return X[:m], y[:m], X[m:], y[m:], f[m:]


def fit(X: np.ndarray, y: np.ndarray, options: dict[str, Any]) -> tuple[Any, float]:
    """A fitted model, and seconds of the processor."""
    from knotwise import GPRegressor

    begun = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gp = GPRegressor(random_state=0, n_jobs=1, progress=False, **options).fit(X, y)
    return gp, time.process_time() - begun


def measure(name: str, seed: int) -> dict[str, Any]:
    """Densities of new rows and seconds by defaults, with heavy tails asked for, constant noise, and the law told."""
    case = CASES[name]
    X, y, X_new, y_new, f_new = draw(case, seed)
    ways: dict[str, dict[str, Any]] = {"auto": {}, "constant": {"noise": "constant"}}
    if case.law != "normal":
        ways |= {"heavy": {"noise": "heavy"}, "told": {"likelihood": "student_t"}}
    row: dict[str, Any] = {}
    for way, options in ways.items():
        gp, seconds = fit(X, y, case.options | options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of places that are far
            seen = gp.predictive(X_new)
        row[way] = round(float(seen.log_density(y_new).mean()), 4)
        row[f"{way}_seconds"] = round(seconds, 2)
        row[f"{way}_error"] = round(float(np.sqrt(np.mean((seen.latent.mean - f_new) ** 2))), 5)
        if way == "auto":
            row["is_heavy"] = type(gp.likelihood_).__name__ == "StudentT"
            row["varies"] = bool(getattr(gp.likelihood_, "varies", False))
        if way == "heavy":
            row["df"], row["fitted"] = round(float(gp.likelihood_.df), 3), gp._fit.posterior.size_in_words
    return row


def judge(name: str, rows: list[dict[str, Any]]) -> dict[str, bool]:
    """The claims about the rows of a case."""
    if CASES[name].law == "normal":
        n_false, worst = sum(row["is_heavy"] for row in rows), min(row["auto"] - row["constant"] for row in rows)
        return {
            f"taken for heavy in {n_false} of {len(rows)} sets, at most {MOST_FALSE}": n_false <= MOST_FALSE,
            f"log density at worst {worst:+.4f}, at least {-MOST_LOSS:+.2f}": worst >= -MOST_LOSS,
        }
    mean = {key: float(np.mean([row[key] for row in rows])) for key in rows[0] if isinstance(rows[0][key], float)}
    times = mean["heavy_seconds"] / mean["constant_seconds"]
    claims = {f"heavy takes {times:.1f} times as long as constant, at most {MOST_TIMES:.0f}": times <= MOST_TIMES}
    for way in ("auto", "heavy"):
        behind = mean["told"] - mean[way]
        claims[f"{way} {behind:.3f} behind the law told, at most {MOST_BEHIND:.2f}"] = behind <= MOST_BEHIND
    return claims


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--out", type=Path, default=RESULTS, help="file to which the rows are appended")
    parser.add_argument("--only", nargs="*", default=[], help="cases whose names begin so")
    parser.add_argument("--seeds", type=int, default=None, help="number of seeds, if fewer are wanted")
    options = parser.parse_args()
    for name, case in CASES.items():
        if options.only and not name.startswith(tuple(options.only)):
            continue
        rows = []
        for seed in case.seeds[: options.seeds]:
            row = measure(name, seed)
            rows.append(row)
            append_row(options.out, {"case": name, "seed": seed} | row)
            print(name, seed, row, flush=True)
        print_claims({f"{name}: {claim}": holds for claim, holds in judge(name, rows).items()})


if __name__ == "__main__":
    main()
