"""Warps: are skewed columns warped where the function asks for it, and left alone where it does not?

Run `python benchmarks/bars/warps.py`; `--only uniform` for some cases. `--folder F` has the real sets, too, airfoil and
concrete (airfoil.csv.gz and concrete.csv.gz of the UCI repository, with columns x1.., y, and test rows in test0..);
without it they are left out.

Simulated sets have 300 rows of three columns, of which the first is uniform, normal, log-normal, exponential, of a t
distribution with 3 degrees of freedom, or zero in half of its rows; the function is a draw of a squared exponential
kernel, of the columns themselves, or of the logarithm of the first, with noise of 0.3. Models are fitted by plain
defaults and with `warp=None`; 500 new rows, or the test rows of real sets, are judged by their mean log density, of
standardised targets. The claims: columns that are uniform are never warped, in 100 of 100 sets, and normal ones, and
those of pure noise or without influence, never in 20; where the function is one of the columns themselves, no set loses
more than 0.01; where it is one of a logarithm, a warp is found in nine of ten sets and gains 0.03 on average. Airfoil
reaches 0.55 (splits 0 and 1) and concrete 0.05 (splits 0 to 2), and no root mean squared error is larger by more than
1 %. Rows are appended to `benchmarks/results/warps.jsonl`, and a test checks what is stored.
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

RESULTS = FOLDER / "results" / "warps.jsonl"
N_ROWS, N_NEW, NOISE = 300, 500, 0.3
MOST_LOST, LEAST_GAINED, LEAST_FOUND, MOST_ERROR = 0.01, 0.03, 0.9, 1.01

COLUMNS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "uniform": lambda rng, n: rng.uniform(size=n),
    "normal": lambda rng, n: rng.normal(size=n),
    "log-normal": lambda rng, n: np.exp(rng.normal(size=n)),
    "exponential": lambda rng, n: rng.exponential(size=n),
    "t": lambda rng, n: rng.standard_t(3, size=n),
    "zeros": lambda rng, n: np.where(rng.uniform(size=n) < 0.5, 0.0, rng.exponential(size=n) + 0.5),
}

Parts = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def simulated(column: str, seed: int, *, of: str = "itself", lengthscale: float = 1.0) -> Parts:
    """Rows to fit and to predict: a function of the column "itself", its "log", of "others", or "noise"."""
    rng = np.random.default_rng(seed)
    n = N_ROWS + N_NEW
    X = np.column_stack([COLUMNS[column](rng, n), rng.uniform(size=n), rng.normal(size=n)])
    Z = X.copy()
    if of == "log":
        Z[:, 0] = np.log(X[:, 0] + (0.3 if X[:, 0].min() <= 0 else 0.0))
    Z = (Z - Z.mean(0)) / Z.std(0) / lengthscale
    Z = Z[:, 1:] if of == "others" else Z
    squares = ((Z[:, None] - Z[None]) ** 2).sum(2)
    values, vectors = np.linalg.eigh(np.exp(-0.5 * squares))
    f = vectors @ (np.sqrt(np.maximum(values, 0.0)) * rng.normal(size=n))
    y = (0.0 if of == "noise" else f) + NOISE * rng.normal(size=n)
    return X[:N_ROWS], y[:N_ROWS], X[N_ROWS:], y[N_ROWS:]


def real(name: str, split: int, folder: Path | None) -> Parts | None:
    """A set of a folder, with its targets standardised; None without one."""
    import pandas as pd

    if folder is None:
        return None
    table = pd.read_csv(folder / f"{name}.csv.gz")
    X, y = table[[c for c in table if c.startswith("x")]].to_numpy(float), table["y"].to_numpy(float)
    test = table[f"test{split}"].to_numpy(bool)
    y = (y - y[~test].mean()) / y[~test].std()
    return X[~test], y[~test], X[test], y[test]


@dataclass(frozen=True)
class Case:
    """How its data are drawn, with which seeds, and what is claimed: "none", "no loss", "found" or a density."""

    draw: Callable[..., Parts | None]
    claim: str
    seeds: range = range(3000, 3010)
    least: float = np.nan


def _simulated(column: str, claim: str, n: int = 10, **options: Any) -> Case:
    return Case(partial(simulated, column, **options), claim, range(3000, 3000 + n))


CASES = {
    "uniform columns": _simulated("uniform", "none", 100),
    "normal columns": _simulated("normal", "none", 20),
    "log-normal column, noise": _simulated("log-normal", "none", 20, of="noise"),
    "exponential column without influence": _simulated("exponential", "none", 20, of="others"),
    "log-normal column itself": _simulated("log-normal", "no loss"),
    "log-normal column itself, rough": _simulated("log-normal", "no loss", lengthscale=0.5),
    "exponential column itself": _simulated("exponential", "no loss"),
    "column of t itself": _simulated("t", "no loss"),
    "column with zeros itself": _simulated("zeros", "no loss"),
    "logarithm of a log-normal column": _simulated("log-normal", "found", of="log", lengthscale=0.6),
    "logarithm of a column with zeros": _simulated("zeros", "found", of="log", lengthscale=0.6),
    "airfoil": Case(partial(real, "airfoil"), "density", range(2), 0.55),
    "concrete": Case(partial(real, "concrete"), "density", range(3), 0.05),
}


def measure(case: str, seed: int, folder: Path | None = None) -> dict[str, Any] | None:
    """What was warped, and density and error of new rows with and without; None without data."""
    from knotwise import GPRegressor

    asked = CASES[case]
    data = asked.draw(seed, folder) if asked.claim == "density" else asked.draw(seed)
    if data is None:
        return None
    X, y, X_new, y_new = data
    row: dict[str, Any] = {}
    for name, warp in (("auto", "auto"), ("none", None)):
        if name == "none" and not row["warped"]:  # it is the same fit
            row |= {"none": row["auto"], "none_rmse": row["auto_rmse"]}
            continue
        begun = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            gp = GPRegressor(warp=warp, random_state=seed, n_jobs=1, progress=False).fit(X, y)
            prediction = gp.predictive(X_new)
        if name == "auto":
            row["warped"] = [made.in_words(f"x{column}") for column, made in gp.warp_.items()]
        error = float(np.sqrt(np.mean((prediction.mean - y_new) ** 2)))
        row |= {name: round(float(prediction.log_density(y_new).mean()), 4), f"{name}_rmse": round(error, 4)}
        row[f"{name}_seconds"] = round(time.process_time() - begun, 2)
    return row


def judge(case: str, rows: list[dict[str, Any]]) -> dict[str, bool]:
    """The claims about the rows of a case."""
    asked, n = CASES[case], len(rows)
    warped = sum(bool(row["warped"]) for row in rows)
    gains = np.array([row["auto"] - row["none"] for row in rows])
    claims: dict[str, bool] = {}
    if asked.claim == "none":
        claims[f"no column is warped in {n - warped} of {n} sets"] = not warped
    if asked.claim == "no loss":
        claims[f"no set loses more than {MOST_LOST}: {gains.min():.4f} ({warped} of {n} warped)"] = bool(
            gains.min() >= -MOST_LOST
        )
    if asked.claim == "found":
        claims[f"a warp is found in {warped} of {n} sets, at least {LEAST_FOUND:.0%}"] = warped >= LEAST_FOUND * n
        claims[f"it gains {gains.mean():.3f}, at least {LEAST_GAINED}"] = bool(gains.mean() >= LEAST_GAINED)
    if asked.claim == "density":
        reached = float(np.mean([row["auto"] for row in rows]))
        claims[f"log density {reached:.3f} ({reached - gains.mean():.3f} without), at least {asked.least}"] = (
            reached >= asked.least
        )
        worst = max(row["auto_rmse"] / row["none_rmse"] for row in rows)
        claims[f"errors are {worst:.3f} times as large at most"] = worst <= MOST_ERROR
    return claims


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--out", type=Path, default=RESULTS, help="file to which the rows are appended")
    parser.add_argument("--only", nargs="*", default=[], help="cases whose names begin so")
    parser.add_argument("--seeds", type=int, default=None, help="number of seeds, if fewer are wanted")
    parser.add_argument("--folder", type=Path, default=None, help="where airfoil.csv.gz and concrete.csv.gz are")
    options = parser.parse_args()
    for case, asked in CASES.items():
        if options.only and not case.startswith(tuple(options.only)):
            continue
        rows = []
        for seed in asked.seeds[: options.seeds]:
            row = measure(case, seed, options.folder)
            if row is None:
                print(f"{case}: left out, for there is no --folder", flush=True)
                break
            rows.append(row)
            append_row(options.out, {"case": case, "seed": seed} | row)
            print(case, seed, row, flush=True)
        if rows:
            print_claims({f"{case}: {claim}": holds for claim, holds in judge(case, rows).items()})


if __name__ == "__main__":
    main()
