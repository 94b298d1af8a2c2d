"""Rough functions and weak signals: do plain defaults know how well they know the function?

Run `python benchmarks/bars/rough.py`; `--only kink` for some cases. Ten sets of each kind are drawn, with fresh seeds,
and plain `GPRegressor(random_state=seed)` says 95 % intervals of the function at new places. The claims: on average
they hold the function at 92 % of the places for draws of Matern 1/2 (300 rows in one column, 600 and 4,000 in two) and
of Matern 3/2 (2,000 rows in one); at 90 % for a kink, and at 75 % within 0.05 of it; at 85 % for a weak signal in five
columns, of the sets in which nothing is said (a status other than "converged", or a diagnosis that is not ok).

For 1/x the claim is about the search: log evidences of the exact GP of the same 1,000 rows are compared. That of an
exact fit which starts where the default ended (its kernel, noise and mean) is within 5 nats of the best of eight exact
fits (four kernels from two length-scales each) in ten of ten sets: default and best are on the same hill. What is lost
where the default ended, which through knots maximises a bound, is stored and printed, too. Rows are appended to
`benchmarks/results/rough.jsonl`, and a test checks what is stored.
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

RESULTS = FOLDER / "results" / "rough.jsonl"
KERNELS = ("Matern12", "Matern32", "Matern52", "SquaredExponential")
STARTS = (0.03, 0.3)
LOST = 5.0  # nats
AT_KINK = 0.75
N_NEW = 200


@dataclass(frozen=True)
class Data:
    """Rows, and new places with the function and with observations of it."""

    X: np.ndarray
    y: np.ndarray
    X_new: np.ndarray
    f_new: np.ndarray
    y_new: np.ndarray
    kink: np.ndarray | None = None  # which new places are near it


def field(nu: float, n_rows: int, n_columns: int, lengthscale: float, seed: int) -> Data:
    """A draw of Matern 1/2 or 3/2 at random places, by its covariance; noise 0.15 of its standard deviation."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n_rows + N_NEW, n_columns))
    squared = sum((column[:, None] - column) ** 2 for column in X.T)
    K = np.sqrt(squared) * (np.sqrt(2 * nu) / lengthscale)
    K = np.exp(-K) if nu == 0.5 else (1 + K) * np.exp(-K)
    K.flat[:: len(K) + 1] += 1e-9
    f = np.linalg.cholesky(K) @ rng.normal(size=len(X))
    y = f + 0.15 * rng.normal(size=len(X))
    return Data(X[:n_rows], y[:n_rows], X[n_rows:], f[n_rows:], y[n_rows:])


def kink(seed: int) -> Data:
    """A kink, 5 |x - 0.4|, in noise of 0.2; 200 rows."""
    rng = np.random.default_rng(seed)
    new = np.linspace(0.01, 0.99, 300)[:, None]
    X = rng.uniform(size=(200, 1))
    f, f_new = (5 * np.abs(x[:, 0] - 0.4) for x in (X, new))
    y, y_new = (values + 0.2 * rng.normal(size=len(values)) for values in (f, f_new))
    return Data(X, y, new, f_new, y_new, np.abs(new[:, 0] - 0.4) < 0.05)


def weak(seed: int) -> Data:
    """A function of two of five columns, with a thirty-fifth of the variance of the noise; 400 rows."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(400 + N_NEW, 5))
    f = 0.5 * np.sin(3 * X[:, 0]) + 0.3 * X[:, 1]
    y = f + rng.normal(size=len(X))
    return Data(X[:400], y[:400], X[400:], f[400:], y[400:])


def pole(seed: int) -> Data:
    """1/(x + 0.01) in noise of 0.2: steep at one end, 1,000 rows."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(1000, 1))
    y = 1 / (X[:, 0] + 0.01) + 0.2 * rng.normal(size=1000)
    new = rng.uniform(size=(500, 1))
    f_new = 1 / (new[:, 0] + 0.01)
    return Data(X, y, new, f_new, f_new + 0.2 * rng.normal(size=500))


@dataclass(frozen=True)
class Case:
    """How its data are drawn, with which seeds, and the least coverage of the function; None for the search."""

    draw: Callable[[int], Data]
    least: float | None
    seeds: range = range(1000, 1010)
    unless_told: bool = False


POLE = "1/x"
CASES = {
    "Matern 1/2, 300 rows, 1 column": Case(partial(field, 0.5, 300, 1, 0.05), 0.92),
    "Matern 1/2, 600 rows, 2 columns": Case(partial(field, 0.5, 600, 2, 0.3), 0.92),
    "Matern 1/2, 4000 rows, 2 columns": Case(partial(field, 0.5, 4000, 2, 0.3), 0.92),
    "Matern 3/2, 2000 rows, 1 column": Case(partial(field, 1.5, 2000, 1, 0.05), 0.92),
    "kink": Case(kink, 0.90),
    "weak signal, 5 columns": Case(weak, 0.85, unless_told=True),
    POLE: Case(pole, None, seeds=range(100, 110)),
}


def fit(data: Data, **options: Any) -> Any:
    """A fitted model."""
    from knotwise import GPRegressor

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return GPRegressor(n_jobs=1, progress=False, **options).fit(data.X, data.y)


def measure(case: str, seed: int) -> dict[str, Any]:
    """Coverage and density of the default, whether it said anything, and for 1/x what its search lost."""
    data = CASES[case].draw(seed)
    begun = time.process_time()
    gp = fit(data, random_state=seed)
    seconds = time.process_time() - begun
    found = gp.predictive(data.X_new)
    low, high = found.interval(kind="mean").T
    held = (low <= data.f_new) & (data.f_new <= high)
    row = {
        "coverage": round(float(held.mean()), 4),
        "log_density": round(float(found.log_density(data.y_new).mean()), 4),
        "kernel": words(gp.kernel_),
        "mean": type(gp.mean_).__name__,
        "knots": gp.n_knots_,
        "neighbors": gp.n_neighbors_,
        "status": str(gp.status_),
        "told": bool(gp.status_ != "converged" or not gp.diagnose().ok),
        "processor_seconds": round(seconds, 1),
    }
    if data.kink is not None:
        row["coverage_at_kink"] = round(float(held[data.kink].mean()), 4)
    return row | (search_lost(data, gp, seed) if case == POLE else {})


def words(kernel: Any) -> str:
    """A kernel by the names of its summands, and whether it has a length-scale for each column."""
    from knotwise.kernels.ranges import name_of, summands

    parts = summands(kernel)
    several = any(np.size(getattr(part, "lengthscale", 1.0)) > 1 for part in parts)
    return " + ".join(map(name_of, parts)) + (", per column" if several else "")


def search_lost(data: Data, gp: Any, seed: int) -> dict[str, Any]:
    """Log evidence of the exact GP at what the default found and where that leads, and of eight exact fits."""
    from knotwise import kernels

    exact = {"approximation": "full", "random_state": seed}
    parts = {"kernel": gp.kernel_, "likelihood": gp.likelihood_, "mean": gp.mean_}
    as_found = fit(data, optimizer=None, **parts, **exact).log_evidence_
    fitted_on = fit(data, **parts, **exact).log_evidence_
    rivals = {
        f"{name} from {start}": fit(data, kernel=getattr(kernels, name)(lengthscale=start), **exact).log_evidence_
        for name in KERNELS
        for start in STARTS
    }
    best = max(rivals, key=lambda name: rivals[name])
    return {
        "approximation": str(gp.approximation_),
        "log_evidence": round(float(gp.log_evidence_), 2),
        "best": best,
        "best_log_evidence": round(float(rivals[best]), 2),
        "lost": round(float(rivals[best] - fitted_on), 2),
        "lost_as_found": round(float(rivals[best] - as_found), 2),
    }


def judge(case: str, rows: list[dict[str, Any]]) -> dict[str, bool]:
    """The claims about the rows of a case."""
    asked = CASES[case]
    if asked.least is None:
        lost = [row["lost"] for row in rows]
        of_which = f"{max(row['lost_as_found'] for row in rows):.1f} where the default ended"
        return {f"at most {LOST} nats lost in all of {len(rows)}: {max(lost):.1f} ({of_which})": max(lost) <= LOST}
    judged = [row for row in rows if not (asked.unless_told and row["told"])]
    if not judged:
        return {f"coverage at least {asked.least}, or told: told in all of {len(rows)}": True}
    coverage = float(np.mean([row["coverage"] for row in judged]))
    of_which = f" in {len(judged)} of {len(rows)} sets, the others told" if asked.unless_told else ""
    claims = {f"coverage {coverage:.3f}, at least {asked.least}{of_which}": coverage >= asked.least}
    if "coverage_at_kink" in rows[0]:
        near = float(np.mean([row["coverage_at_kink"] for row in rows]))
        claims[f"near the kink {near:.3f}, at least {AT_KINK}"] = near >= AT_KINK
    return claims


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--out", type=Path, default=RESULTS, help="file to which the rows are appended")
    parser.add_argument("--only", nargs="*", default=[], help="cases whose names begin so")
    parser.add_argument("--seeds", type=int, default=None, help="number of seeds, if fewer are wanted")
    options = parser.parse_args()
    for case, asked in CASES.items():
        if options.only and not case.startswith(tuple(options.only)):
            continue
        rows = []
        for seed in asked.seeds[: options.seeds]:
            rows.append(measure(case, seed))
            append_row(options.out, {"case": case, "seed": seed} | rows[-1])
            print(case, seed, rows[-1], flush=True)
        print_claims({f"{case}: {claim}": holds for claim, holds in judge(case, rows).items()})


if __name__ == "__main__":
    main()
