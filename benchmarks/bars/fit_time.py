"""Processor time of a default fit relative to one with Laplace's approximation, interleaved in one run.

Run `python benchmarks/bars/fit_time.py` on an idle machine. The claim: at most 2.0 for banana (531 rows of the paper's
split) and hickory (900 cells, with nugget), by the median of the ratios of neighbouring runs, on one thread. Rows are
appended to `benchmarks/results/fit_time.jsonl` with the load average at the start.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from pathlib import Path
from statistics import median
from typing import Any

FOLDER = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(FOLDER / "bars"))
from storing import append_row, print_claims  # noqa: E402

SEED = 0
LIMIT = 2.0
QUIET = 0.5
INFERENCES = ("auto", "laplace")
RESULTS = FOLDER / "results" / "fit_time.jsonl"


def cases() -> dict[str, tuple[Any, Any, dict[str, Any], dict[str, Any]]]:
    """Inputs, targets, options of the estimator and of `fit`, by name."""
    from knotwise import datasets

    banana = datasets.split(datasets.load_banana(), n_train=531, seed=SEED)
    trees = datasets.load_hickory()
    of_trees = {"likelihood": "poisson", "nugget": "fit", "standardize": "common"}
    return {
        "banana": (banana.X_train, banana.y_train, {"likelihood": "bernoulli"}, {}),
        "hickory": (trees.X, trees.y, of_trees, {"exposure": trees.exposure}),
    }


def measure(name: str, repeats: int) -> dict[str, Any]:
    """Processor seconds of fits that take turns, and the median of their ratios."""
    from knotwise import GPRegressor
    from knotwise.kernels import SquaredExponential
    from knotwise.numerics.blocks import single_threaded_blas

    X, y, options, with_rows = cases()[name]

    def seconds(inference: str) -> float:
        gp = GPRegressor(
            SquaredExponential(), inference=inference, random_state=SEED, n_jobs=1, progress=False, **options
        )
        begun = time.process_time()
        gp.fit(X, y, **with_rows)
        return time.process_time() - begun

    with single_threaded_blas(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for inference in INFERENCES:  # what is imported and allocated once
            seconds(inference)
        pairs = [[seconds(inference) for inference in INFERENCES] for _ in range(repeats)]
    return {
        "repeats": repeats,
        "seconds": round(median(pair[0] for pair in pairs), 4),
        "seconds_laplace": round(median(pair[1] for pair in pairs), 4),
        "ratio": round(median(pair[0] / pair[1] for pair in pairs), 4),
        "limit": LIMIT,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--out", type=Path, default=RESULTS, help="file to which the rows are appended")
    parser.add_argument("--repeats", type=int, default=15, help="pairs of fits")
    options = parser.parse_args()
    claims, load = {}, round(os.getloadavg()[0], 2)
    print(f"load average {load}" + (": the machine is not idle" if load > QUIET else ""))
    print(f"{'case':12}{'default':>10}{'Laplace':>10}{'ratio':>8}")
    for name in cases():
        row = {"seed": SEED, "case": name} | measure(name, options.repeats) | {"load": load}
        append_row(options.out, row)
        print(f"{name:12}{row['seconds']:8.3f} s{row['seconds_laplace']:8.3f} s{row['ratio']:8.3f}", flush=True)
        claims[f"{name}: at most {LIMIT} times the time"] = row["ratio"] <= LIMIT
    print_claims(claims)


if __name__ == "__main__":
    main()
