"""Sums of kernels: does the default start end as high as the best of 20, or is a term lost on the way?

Run `python benchmarks/bars/sums.py`. 200 to 300 rows have Gaussian noise about a sum of three, four or five terms: a
rough function of two places, smooth functions of two columns, of which one goes with a place, and random effects of one
or two categories. About a third of the terms of a model say nothing in truth. The exact GP is fitted as it comes, and
with 20 restarts about the scale of the data. The claim: in all sets but one of thirty the log evidence of the default
start is within half a nat of the best. A row for each set is appended to `benchmarks/results/sums.jsonl`, and a test
checks what is stored. It takes some ten minutes.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(FOLDER / "bars"))
from storing import append_row, print_claims  # noqa: E402

RESULTS = FOLDER / "results" / "sums.jsonl"
WITHIN = 0.5  # nats of the best of several starts
MOST_LOST = 1  # of thirty sets
N_TERMS, N_SETS = (3, 4, 5), 10
N_RESTARTS = 20
TERMS = ("place", "depth", "height", "site", "year")
PRESENT = 0.65  # probability that a term says something


def draw(n_terms: int, seed: int) -> tuple[Any, np.ndarray, list[str], list[str]]:
    """A table, targets, the terms of the model, and those that say something in truth."""
    import pandas as pd

    rng = np.random.default_rng([seed, n_terms, 17])
    n_rows = int(rng.integers(200, 301))
    place = rng.uniform(size=(n_rows, 2))
    depth = 0.6 * place[:, 0] + 0.4 * rng.uniform(size=n_rows)
    height = rng.uniform(size=n_rows)
    site, year = rng.integers(rng.integers(5, 12), size=n_rows), rng.integers(rng.integers(2, 5), size=n_rows)
    distances = np.linalg.norm(place[:, None] - place, axis=2) / rng.uniform(0.1, 0.5)
    rough = np.linalg.cholesky((1 + distances) * np.exp(-distances) + 1e-8 * np.eye(n_rows))
    terms = {
        "place": rough @ rng.standard_normal(n_rows),
        "depth": np.sin(rng.uniform(2, 8) * depth + rng.uniform(0, 6)),
        "height": np.sin(rng.uniform(2, 8) * height + rng.uniform(0, 6)),
        "site": rng.standard_normal(site.max() + 1)[site],
        "year": rng.standard_normal(year.max() + 1)[year],
    }
    chosen = [TERMS[i] for i in np.sort(rng.permutation(len(TERMS))[:n_terms])]
    present = [name for name in chosen if rng.uniform() < PRESENT] or chosen[:1]
    y = rng.uniform(0.4, 1.2) * rng.standard_normal(n_rows)
    y += sum(np.exp(0.6 * rng.standard_normal() - 0.5) * terms[name] for name in present)
    labels = {"site": [f"s{i}" for i in site], "year": [f"y{i}" for i in year]}
    columns = {"east": place[:, 0], "north": place[:, 1], "depth": depth, "height": height}
    X = pd.DataFrame(columns | {name: pd.Categorical(each) for name, each in labels.items()})
    return X, y, chosen, present


def kernel_of(terms: list[str]) -> Any:
    """The sum of a kernel for each term."""
    from functools import reduce
    from operator import add

    from knotwise.kernels import Matern32, SquaredExponential

    kernels = [Matern32().on(["east", "north"]) if name == "place" else SquaredExponential().on(name) for name in terms]
    return reduce(add, kernels)


def fit(X: Any, y: np.ndarray, terms: list[str], n_restarts: int = 0) -> Any:
    from knotwise import GPRegressor

    options: dict[str, Any] = {"random_state": 0, "n_jobs": 1, "progress": False, "n_restarts": n_restarts}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return GPRegressor(kernel_of(terms), approximation="full", **options).fit(X, y)


def measure(n_terms: int, seed: int, n_restarts: int = N_RESTARTS) -> dict[str, Any]:
    """Log evidence of the default start and of the best of several."""
    X, y, terms, present = draw(n_terms, seed)
    default, several = (fit(X, y, terms, n) for n in (0, n_restarts))
    return {
        "terms": n_terms,
        "seed": seed,
        "rows": len(y),
        "present": present,
        "absent": [name for name in terms if name not in present],
        "restarts": n_restarts,
        "log_evidence": round(default.log_evidence_, 3),
        "best": round(max(several.log_evidence_, default.log_evidence_), 3),
        "status": str(default.status_),
        "status_of_restarts": str(several.status_),
    }


def lost(row: dict[str, Any]) -> float:
    """Nats that the default start ends below the best of several."""
    return float(row["best"] - row["log_evidence"])


def judge(rows: list[dict[str, Any]]) -> dict[str, bool]:
    """The claims, of the rows of all sets."""
    n_lost = sum(lost(row) > WITHIN for row in rows)
    return {f"within {WITHIN} nats of the best in all but {MOST_LOST} of {len(rows)} sets": n_lost <= MOST_LOST}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--out", type=Path, default=RESULTS, help="file to which the rows are appended")
    parser.add_argument("--only", type=int, choices=N_TERMS, help="one number of terms")
    options = parser.parse_args()
    rows = []
    print(f"{'terms':>5}{'seed':>6}{'rows':>6}{'absent':>8}{'log evidence':>14}{'best':>10}{'lost':>8}  status")
    for n_terms in N_TERMS:
        for seed in range(N_SETS):
            if options.only in (None, n_terms):
                row = measure(n_terms, seed)
                append_row(options.out, row)
                rows.append(row)
                print(
                    f"{n_terms:5}{seed:6}{row['rows']:6}{len(row['absent']):8}{row['log_evidence']:14.3f}"
                    f"{row['best']:10.3f}{lost(row):8.3f}  {row['status']}",
                    flush=True,
                )
    print_claims(judge(rows))


if __name__ == "__main__":
    main()
