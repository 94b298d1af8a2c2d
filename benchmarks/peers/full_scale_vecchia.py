"""Knots and neighbours beside GPBoost's full-scale Vecchia approximation: the same rows, kernel, knots and neighbours.

GPBoost is no dependency of knotwise; install it for this script alone: `pip install gpboost`. Then run
`python benchmarks/peers/full_scale_vecchia.py`. 5,000 rows in 8 columns, Matern 3/2 with a length-scale per column, 100
knots, 15 neighbours, one thread, parameters fitted by both; processor time, and error and negative log density of 2,000
others.
A row is appended to `benchmarks/results/peers.jsonl`.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np

FOLDER = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(FOLDER / "bars"))
from storing import append_row, print_claims  # noqa: E402

RESULTS = FOLDER / "results" / "peers.jsonl"
N_KNOTS, N_NEIGHBORS, N_NEW = 100, 15, 2000


def rough(n_rows: int, seed: int) -> tuple[np.ndarray, ...]:
    """A function of 8 columns that varies fast: the reach of an arm whose joints turn far."""
    rng = np.random.default_rng([seed, 8])
    X = rng.uniform(-1, 1, size=(n_rows + N_NEW, 8))
    angles = np.cumsum(X[:, ::2] * np.pi * 0.75, axis=1)
    reach = 1.0 + 0.5 * X[:, 1::2]
    f = np.linalg.norm([(reach * np.cos(angles)).sum(1), (reach * np.sin(angles)).sum(1)], axis=0)
    y = f / f.std() + 0.1 * rng.standard_normal(len(f))
    return X[:n_rows], y[:n_rows], X[n_rows:], y[n_rows:]


def scores(mean: np.ndarray, variance: np.ndarray, y: np.ndarray, seconds: float) -> dict[str, Any]:
    nlpd = 0.5 * np.mean(np.log(2 * np.pi * variance) + (y - mean) ** 2 / variance)
    return {
        "rmse": round(float(np.sqrt(np.mean((y - mean) ** 2))), 4),
        "nlpd": round(float(nlpd), 4),
        "seconds": round(seconds, 1),
    }


def by_knotwise(data: tuple[np.ndarray, ...], seed: int) -> dict[str, Any]:
    from knotwise import GPRegressor
    from knotwise.kernels import Matern32

    X, y, X_new, y_new = data
    start = time.process_time()
    gp = GPRegressor(Matern32(ard=True), n_neighbors=N_NEIGHBORS, random_state=seed, n_jobs=1, progress=False).fit(X, y)
    mean, sd = gp.predict(X_new, return_std=True)
    return scores(mean, sd**2, y_new, time.process_time() - start) | {"knots": gp.n_knots_}


def by_gpboost(data: tuple[np.ndarray, ...], seed: int) -> dict[str, Any]:
    import gpboost

    X, y, X_new, y_new = data
    start = time.process_time()
    model = gpboost.GPModel(
        gp_coords=X,
        cov_function="matern_ard",
        cov_fct_shape=1.5,
        gp_approx="full_scale_vecchia",
        num_ind_points=N_KNOTS,
        num_neighbors=N_NEIGHBORS,
        num_parallel_threads=1,
        seed=seed,
        likelihood="gaussian",
    )
    model.fit(y=y - y.mean())
    found = model.predict(gp_coords_pred=X_new, predict_var=True, predict_response=True)
    seconds = time.process_time() - start
    return scores(found["mu"] + y.mean(), found["var"], y_new, seconds) | {"version": gpboost.__version__}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS, help="file to which the row is appended")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    data = rough(options.rows, options.seed)
    found = {name: run(data, options.seed) for name, run in (("knotwise", by_knotwise), ("gpboost", by_gpboost))}
    ratio = found["gpboost"]["seconds"] / found["knotwise"]["seconds"]
    append_row(options.out, {"rows": options.rows, "seed": options.seed, "ratio": round(ratio, 2)} | found)
    print(found)
    print_claims(
        {
            f"{ratio:.1f} times as fast, at least 3": ratio >= 3,
            "no worse held-out density": found["knotwise"]["nlpd"] <= found["gpboost"]["nlpd"] + 1e-3,
        }
    )


if __name__ == "__main__":
    main()
