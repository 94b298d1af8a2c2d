"""Uneven noise: does `diagnose` find it, and is it silent where the noise is even?

Run `python benchmarks/bars/uneven_noise.py`. A smooth function of 1, 2 or 5 columns has Gaussian noise whose standard
deviation varies by a factor of 4 along the last column (linearly, by a constant factor, in two halves, or with its
distance from the middle), or the same noise everywhere: Gaussian, with the tails of t(5), rounded, with weights, of
known variances, exact, with knots or with neighbours. The claims: with 200 rows each kind of uneven noise has a finding
that is not "ok" in at least 80 % of the sets, and of all sets with even noise at most 2 % do. Rows are appended to
`benchmarks/results/uneven_noise.jsonl`, and a test checks what is stored. It takes some five minutes.
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

RESULTS = FOLDER / "results" / "uneven_noise.jsonl"
POWER, FALSE_ALARMS = 0.8, 0.02
N_ROWS = 200
NOISE = 0.3  # standard deviation in the middle

#: standard deviation of the noise along a column from 0 to 1, relative to that in the middle
UNEVEN = {
    "linear": lambda x: (1 + 3 * x) / 2.5,
    "factor": lambda x: 4.0 ** (x - 0.5),
    "two halves": lambda x: np.where(x < 0.5, 0.5, 2.0),
    "both ends": lambda x: 4.0 ** (2 * np.abs(x - 0.5) - 0.5),
}
#: even noise: the number of rows, and how the model is fitted
EVEN: dict[str, tuple[int, dict[str, Any]]] = {
    "default": (200, {}),
    "few rows": (60, {}),
    "many rows": (600, {"knots": 30}),
    "exact": (200, {"approximation": "full"}),
    "knots": (200, {"knots": 15}),
    "neighbours": (200, {"knots": 15, "n_neighbors": 10}),
    "heavy tails": (200, {}),
    "rounded": (200, {}),
    "weights": (200, {}),
    "known noise": (200, {"knots": 15}),
}
COLUMNS = (1, 2, 5)
N_UNEVEN, N_EVEN = 25, 20  # sets of each kind and number of columns


def truth(X: np.ndarray) -> np.ndarray:
    """The function: waves along the first columns."""
    f = np.sin(6 * X[:, 0])
    return f * np.cos(4 * X[:, 1]) + (X[:, -1] if X.shape[1] > 2 else 0.0) if X.shape[1] > 1 else f


def draw(kind: str, n_columns: int, seed: int) -> tuple[np.ndarray, np.ndarray, dict[str, Any], dict[str, Any]]:
    """Inputs, targets, what else `fit` is given, and the options of the model."""
    number = [*UNEVEN, *EVEN].index(kind)
    rng = np.random.default_rng([seed, n_columns, number])
    n_rows, options = EVEN.get(kind, (N_ROWS, {}))
    X = rng.uniform(size=(n_rows, n_columns))
    noise, more = NOISE * rng.normal(size=n_rows), {}
    if kind in UNEVEN:
        noise *= UNEVEN[kind](X[:, -1])
    elif kind == "heavy tails":
        noise = NOISE * rng.standard_t(5, size=n_rows)
    elif kind == "weights":
        more = {"sample_weight": np.where(rng.uniform(size=n_rows) < 0.1, 2.0, 1.0)}
    elif kind == "known noise":
        sd = UNEVEN["factor"](X[:, -1])
        noise, more = noise * sd, {"noise_variance": (NOISE * sd) ** 2}
    y = truth(X) + noise
    return X, np.round(y, 1) if kind == "rounded" else y, more, options


def measure(kind: str, n_columns: int, seeds: range) -> dict[str, Any]:
    """How many sets of this kind have a finding that is not "ok"; those without a test are counted, too."""
    from knotwise import GPRegressor

    levels = []
    for seed in seeds:
        X, y, more, options = draw(kind, n_columns, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            gp = GPRegressor(noise="constant", random_state=0, n_jobs=1, progress=False, **options).fit(X, y, **more)
        levels.append(gp.diagnose().finding("spread").level)
    return {
        "kind": kind,
        "columns": n_columns,
        "rows": len(X),
        "sets": len(levels),
        "found": sum(level in ("note", "problem") for level in levels),
        "problems": levels.count("problem"),
        "untested": levels.count("unknown"),
    }


def judge(rows: list[dict[str, Any]]) -> dict[str, bool]:
    """The claims, of the rows of all kinds."""
    even = [row for row in rows if row["kind"] in EVEN]
    claims = {
        f"{row['kind']}, {row['columns']} columns: found in at least {POWER:.0%}": row["found"] >= POWER * row["sets"]
        for row in rows
        if row["kind"] in UNEVEN
    }
    if even:
        n_found, n_sets = (sum(row[name] for row in even) for name in ("found", "sets"))
        claims[f"even noise: at most {FALSE_ALARMS:.0%} of {n_sets} sets are found"] = n_found <= FALSE_ALARMS * n_sets
        claims["even noise is tested"] = sum(row["untested"] for row in even) == 0
    return claims


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--out", type=Path, default=RESULTS, help="file to which the rows are appended")
    parser.add_argument("--only", choices=[*UNEVEN, *EVEN], help="one kind of noise")
    options = parser.parse_args()
    rows = []
    print(f"{'noise':14}{'columns':>8}{'rows':>6}{'sets':>6}{'found':>7}{'problems':>10}{'untested':>10}")
    for kind in [*UNEVEN, *EVEN]:
        for n_columns in COLUMNS:
            if options.only in (None, kind):
                row = measure(kind, n_columns, range(N_UNEVEN if kind in UNEVEN else N_EVEN))
                append_row(options.out, row)
                rows.append(row)
                print(
                    f"{kind:14}{n_columns:8}{row['rows']:6}{row['sets']:6}{row['found']:7}{row['problems']:10}"
                    f"{row['untested']:10}",
                    flush=True,
                )
    print_claims(judge(rows))


if __name__ == "__main__":
    main()
