"""Knots and neighbours, where no number of knots is enough; and where knots are, they stay off.

Run `python benchmarks/bars/neighbours.py`; `--only map arm` for some cases, `--folder DIR` for real sets (files
`power.csv.gz`, `protein.csv.gz` and `airfoil.csv.gz` with columns x1.., y and test0..test2). Cases:

* `arm`: a function of 8 columns with short length-scales, 20,000 rows, noise of 0.1 and 0.01 of its standard deviation;
  the default against the exact GP of 5,000 rows and against 1,000 knots (lower negative log density than both; 95 %
  intervals hold 93 to 97 %).
* `map`: draws of Matern 1/2 and 3/2 in the plane; 3,000 rows with 20 neighbours against the exact GP with the same
  kernel (within 0.02), and 20,000 rows against 400 knots (better).
* `smooth`, `noise`: knots are enough, or nothing is there: the default has no neighbours.
* `power`, `protein`, `airfoil`: standardised error and negative log density of the default, which may not be worse than
  knots alone, or of 15 neighbours beside the exact GP; coverage of 95 % intervals over all splits.

Rows are appended to `benchmarks/results/neighbours_bars.jsonl`, and a test checks what is stored.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(FOLDER / "bars"))
from storing import append_row, print_claims  # noqa: E402

RESULTS = FOLDER / "results" / "neighbours_bars.jsonl"
NEW_ROWS = 2000


def fit(X: np.ndarray, y: np.ndarray, seed: int, **options: Any) -> tuple[Any, float]:
    """A fitted model, and the processor time that it took."""
    from knotwise import GPRegressor

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.process_time()
        gp = GPRegressor(random_state=seed, progress=False, **options).fit(X, y)
        return gp, time.process_time() - start


def judged(gp: Any, seconds: float, X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Error, negative log density and coverage of new rows."""
    low, high = gp.predict_interval(X).T
    return {
        "rmse": round(float(np.sqrt(np.mean((gp.predict(X) - y) ** 2))), 4),
        "nlpd": round(float(-gp.log_predictive_density(X, y).mean()), 4),
        "coverage": round(float(np.mean((low <= y) & (y <= high))), 4),
        "knots": gp.n_knots_,
        "neighbors": gp.n_neighbors_,
        "seconds": round(seconds, 1),
    }


def compared(options: dict[str, dict[str, Any]], data: tuple[np.ndarray, ...], seed: int) -> dict[str, Any]:
    """Fits with several options to the same rows."""
    X, y, X_new, y_new = data
    return {name: judged(*fit(X, y, seed, **given), X_new, y_new) for name, given in options.items()}


def arm(noise: float, seed: int) -> dict[str, Any]:
    """Distance of the tip of an arm with eight joints from its root, whose angles turn far."""
    from knotwise.kernels import Matern52
    from knotwise.knots import Fixed
    from knotwise.optimize import LBFGS

    rng = np.random.default_rng([seed, 8])
    X = rng.uniform(-1, 1, size=(20_000 + NEW_ROWS, 8))
    angles = np.cumsum(X[:, ::2] * np.pi * 0.75, axis=1)
    reach = 1.0 + 0.5 * X[:, 1::2]
    tip = np.stack([(reach * np.cos(angles)).sum(1), (reach * np.sin(angles)).sum(1)])
    f = np.linalg.norm(tip, axis=0)
    y = f + noise * f.std() * rng.standard_normal(len(f))
    data = X[:-NEW_ROWS], y[:-NEW_ROWS], X[-NEW_ROWS:], y[-NEW_ROWS:]
    found = compared({"default": {}}, data, seed)
    # the parameters of 1,000 rows are the start of 5,000, whose parameters serve 1,000 knots as they are
    start, _ = fit(X[:1000], y[:1000], seed, kernel=Matern52(ard=True), approximation="full")
    exact, seconds = fit(
        X[:5000],
        y[:5000],
        seed,
        kernel=start.kernel_,
        likelihood=start.likelihood_,
        approximation="full",
        optimizer=LBFGS(max_iterations=15),
    )
    found["exact, 5000 rows"] = judged(exact, seconds, *data[2:])
    knots = {
        "kernel": exact.kernel_,
        "likelihood": exact.likelihood_,
        "knots": Fixed("kmeans", 1000),
        "optimizer": None,
    }
    return found | compared({"1000 knots": knots}, data, seed)


def plane(kernel_name: str, n_rows: int, seed: int) -> dict[str, Any]:
    """A draw in the plane, by the exact covariance of few rows, or by random waves of the spectrum for many."""
    from knotwise import kernels
    from knotwise.knots import Fixed

    kernel = getattr(kernels, kernel_name)
    rng = np.random.default_rng([seed, n_rows])
    X = rng.uniform(size=(n_rows + NEW_ROWS, 2))
    f = matern_waves({"Matern12": 1.0, "Matern32": 3.0}[kernel_name], 0.08, X, rng)
    y = f + 0.1 * rng.standard_normal(len(f))
    data = X[:-NEW_ROWS], y[:-NEW_ROWS], X[-NEW_ROWS:], y[-NEW_ROWS:]
    if n_rows <= 3000:
        options = {
            "neighbors": {"kernel": kernel(), "n_neighbors": 20},
            "exact": {"kernel": kernel(), "approximation": "full"},
        }
    else:
        options = {"default": {}, "400 knots": {"kernel": kernel(), "knots": Fixed("kmeans", 400), "n_neighbors": 0}}
    return compared(options, data, seed)


def matern_waves(df: float, lengthscale: float, X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A draw of a Matern field as a sum of 4,000 waves, whose frequencies have a Student-t distribution."""
    n_waves = 4000
    frequencies = (
        rng.standard_normal((n_waves, X.shape[1])) / np.sqrt(rng.chisquare(df, n_waves) / df)[:, None] / lengthscale
    )
    phases = rng.uniform(0, 2 * np.pi, n_waves)
    out = np.zeros(len(X))
    for some in np.array_split(np.arange(n_waves), 40):
        out += np.cos(X @ frequencies[some].T + phases[some]).sum(1)
    return out * np.sqrt(2 / n_waves)


def enough(kind: str, seed: int) -> dict[str, Any]:
    """Knots are enough for a smooth surface, and nothing helps where there is no signal."""
    rng = np.random.default_rng([seed, 6])
    X = rng.uniform(size=(6000 + NEW_ROWS, 3))
    f = np.sin(4 * X[:, 0]) * np.cos(3 * X[:, 1]) + X[:, 2] if kind == "smooth" else np.zeros(len(X))
    y = f + 0.3 * rng.standard_normal(len(X))
    return compared({"default": {}}, (X[:6000], y[:6000], X[6000:], y[6000:]), seed)


def real(folder: Path, name: str, seed: int) -> dict[str, Any]:
    """A set of a folder, standardised by its training rows; the seed is the split."""
    from knotwise.kernels import Matern32

    table = np.genfromtxt(folder / f"{name}.csv.gz", delimiter=",", names=True)
    columns = [column for column in table.dtype.names if column.startswith("x")]
    X, y, test = np.column_stack([table[c] for c in columns]), table["y"], table[f"test{seed}"] == 1
    y = (y - y[~test].mean()) / y[~test].std()
    options: dict[str, dict[str, Any]] = {"default": {}, "knots alone": {"n_neighbors": 0}}
    if name == "airfoil":
        kernel = Matern32(ard=True)
        options = {"neighbors": {"kernel": kernel, "n_neighbors": 15}}
        options["exact"] = {"kernel": kernel, "approximation": "full"}
    return compared(options, (X[~test], y[~test], X[test], y[test]), 0)


#: case: how it is measured, and the number of seeds
CASES: dict[str, tuple[Callable[[int], dict[str, Any]], int]] = {
    **{f"arm {noise}": (partial(arm, noise), 2) for noise in (0.1, 0.01)},
    **{f"map {name} 3000": (partial(plane, name, 3000), 3) for name in ("Matern12", "Matern32")},
    **{f"map {name} 20000": (partial(plane, name, 20_000), 2) for name in ("Matern12", "Matern32")},
    **{kind: (partial(enough, kind), 3) for kind in ("smooth", "noise")},
}
#: sets of a folder: splits, and the largest mean error and negative log density
REAL = {"power": (3, 0.19, -0.20), "protein": (1, 0.60, 0.85), "airfoil": (3, np.inf, np.inf)}


def judge(case: str, rows: list[dict[str, Any]]) -> dict[str, bool]:
    """The claims about the rows of a case."""

    def mean(name: str, what: str) -> float:
        return float(np.mean([row[name][what] for row in rows]))

    kind = case.split(maxsplit=1)[0]
    if kind in ("smooth", "noise"):
        return {"no neighbours": all(row["default"]["neighbors"] == 0 for row in rows)}
    if kind == "map" and "neighbors" in rows[0]:
        apart = mean("neighbors", "nlpd") - mean("exact", "nlpd")
        return {f"within 0.02 of the exact GP: {apart:+.4f}": apart <= 0.02}
    if kind == "map":
        gain = mean("400 knots", "nlpd") - mean("default", "nlpd")
        return {f"better than 400 knots: {gain:+.3f}": gain > 0}
    coverage = mean("neighbors" if kind == "airfoil" else "default", "coverage")
    covers = {f"coverage {coverage:.3f} from 0.92 to 0.98": 0.92 <= coverage <= 0.98}
    if kind == "airfoil":
        apart = [row["neighbors"]["rmse"] - row["exact"]["rmse"] for row in rows]
        return covers | {f"error within 0.01 of the exact GP: {np.round(apart, 4).tolist()}": max(apart) <= 0.01}
    if kind in REAL:
        _, error, nlpd = REAL[kind]
        found = mean("default", "rmse"), mean("default", "nlpd")
        worse = max(row["default"]["nlpd"] - row["knots alone"]["nlpd"] for row in rows)
        return covers | {
            f"error {found[0]:.3f} at most {error}": found[0] <= error,
            f"negative log density {found[1]:.3f} at most {nlpd}": found[1] <= nlpd,
            f"beside knots alone {worse:+.3f}, at most 0.01": worse <= 0.01,
        }
    rivals = {
        name: mean(name, "nlpd") - mean("default", "nlpd") for name in rows[0] if name[0].isdigit() or name[0] == "e"
    }
    claims = {f"better than {name}: {gain:+.3f}": gain > 0 for name, gain in rivals.items()}
    return claims | {f"coverage {coverage:.3f} from 0.93 to 0.97": 0.93 <= coverage <= 0.97}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--out", type=Path, default=RESULTS, help="file to which the rows are appended")
    parser.add_argument("--only", nargs="*", default=[], help="cases whose names begin so")
    parser.add_argument("--seeds", type=int, default=None, help="number of seeds, if fewer are wanted")
    parser.add_argument("--folder", type=Path, default=None, help="folder of real sets")
    options = parser.parse_args()
    cases = dict(CASES)
    if options.folder is not None:
        cases |= {name: (partial(real, options.folder, name), n) for name, (n, _, _) in REAL.items()}
    for case, (measure, n_seeds) in cases.items():
        if options.only and not case.startswith(tuple(options.only)):
            continue
        rows = []
        for seed in range(min(n_seeds, options.seeds or n_seeds)):
            rows.append(measure(seed))
            append_row(options.out, {"case": case, "seed": seed} | rows[-1])
            print(case, seed, rows[-1], flush=True)
        print_claims({f"{case}: {claim}": holds for claim, holds in judge(case, rows).items()})


if __name__ == "__main__":
    main()
