"""Share of a fit with automatic knots that is spent on dropping knots.

Run `python benchmarks/bars/pruning.py`. The claim: less than a tenth of the processor time, also where many knots could
be dropped (a tolerance of one nat asks for it) and where there are more rows than those that find the knots. Rows are
appended to `benchmarks/results/pruning.jsonl`, and a test checks what is stored.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(FOLDER / "bars"))
from storing import append_row  # noqa: E402

SEED = 0
LIMIT = 0.1
RESULTS = FOLDER / "results" / "pruning.jsonl"


def cases() -> dict[str, tuple[np.ndarray, np.ndarray, dict[str, Any]]]:
    """Inputs, targets and options by name."""
    from knotwise import datasets
    from knotwise.knots import Auto

    rng = np.random.default_rng(SEED)
    banana = datasets.load_banana()

    def surface(n_rows: int, n_columns: int, noise: float) -> tuple[np.ndarray, np.ndarray]:
        X = rng.uniform(size=(n_rows, n_columns))
        return X, np.sin(6 * X[:, 0]) * np.cos(5 * X[:, 1]) + noise * rng.normal(size=n_rows)

    X, f = surface(2000, 2, 0.0)
    return {
        "surface": (*surface(3000, 2, 0.3), {}),
        "surface, tolerance 1": (*surface(3000, 2, 0.3), {"knots": Auto(tolerance=1.0)}),
        "four columns, tolerance 1": (*surface(3000, 4, 0.3), {"knots": Auto(tolerance=1.0)}),
        "counts, tolerance 1": (X, rng.poisson(np.exp(f)), {"knots": Auto(tolerance=1.0), "likelihood": "poisson"}),
        "banana": (banana.X, banana.y, {"likelihood": "bernoulli"}),
        "30,000 rows": (*surface(30_000, 3, 0.3), {}),
        "30,000 rows, tolerance 1": (*surface(30_000, 3, 0.3), {"knots": Auto(tolerance=1.0)}),
    }


def measure(X: np.ndarray, y: np.ndarray, options: dict[str, Any]) -> dict[str, Any]:
    """Processor seconds of a fit and of its pruning, and the number of knots before and after."""
    from knotwise import GPRegressor
    from knotwise.decisions import pruning
    from knotwise.kernels import SquaredExponential

    real, seen = pruning.decide, {}

    def timed(problem: Any, theta: np.ndarray, Z: np.ndarray, *rest: Any) -> Any:
        start = time.process_time()
        kept = real(problem, theta, Z, *rest)
        seen.update(seconds=time.process_time() - start, before=len(Z), after=len(kept.choice))
        return kept

    pruning.decide = timed
    try:
        start = time.process_time()
        settings = {"kernel": SquaredExponential(), "random_state": SEED, "n_jobs": 1, "progress": False} | options
        GPRegressor(**settings).fit(X, y)
        total = time.process_time() - start
    finally:
        pruning.decide = real
    return {
        "rows": len(X),
        "seconds": round(total, 3),
        "share_of_time": round(seen["seconds"] / total, 4),
        "knots_before": seen["before"],
        "knots_after": seen["after"],
        "limit": LIMIT,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--out", type=Path, default=RESULTS, help="file to which the rows are appended")
    parser.add_argument("--only", help="one case, by its name")
    options = parser.parse_args()
    print(f"{'case':28}{'rows':>8}{'knots':>12}{'seconds':>10}{'pruning':>10}")
    for name, case in cases().items():
        if options.only in (None, name):
            row = {"seed": SEED, "case": name} | measure(*case)
            append_row(options.out, row)
            knots = f"{row['knots_before']} -> {row['knots_after']}"
            print(f"{name:28}{row['rows']:8,}{knots:>12}{row['seconds']:10.2f}{row['share_of_time']:10.1%}", flush=True)


if __name__ == "__main__":
    main()
