"""Do 95 % intervals of parameters hold the truth? Length-scale, variance and noise of simulated sets.

Run `python benchmarks/bars/standard_errors.py`. Functions are drawn from a squared exponential kernel on inputs that
span 20 length-scales (one column, 400 rows) or 10 in each of two columns (600 rows), and observed with noise of sd 0.3.
Parameters and knots are those of `knots="auto"`, intervals those of `parameters_.to_frame()`. The claim, for each of
the three parameters and both designs: of 100 sets the intervals hold the truth in 85 to 99. Beside it stand the mean
and the spread of (estimate - truth) / standard error on the log scale, which would be 0 and 1. Rows are appended to
`benchmarks/results/standard_errors.jsonl`, and a test checks what is stored.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(FOLDER / "bars"))
from storing import append_row, print_claims  # noqa: E402

N_SETS = 100
LIMITS = (0.85, 0.99)
NOISE_SD = 0.3
#: columns, rows, and length-scales that each column spans
DESIGNS = {"one column": (1, 400, 20.0), "two columns": (2, 600, 10.0)}
PARAMETERS = ("lengthscale", "variance", "noise_variance")
RESULTS = FOLDER / "results" / "standard_errors.jsonl"


def draw(design: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs on the unit cube and targets: a function of variance 1, and noise."""
    n_columns, n_rows, span = DESIGNS[design]
    rng = np.random.default_rng([seed, n_columns])
    X = rng.uniform(size=(n_rows, n_columns))
    squared = ((span * (X[:, None] - X[None])) ** 2).sum(2)
    K = np.exp(-0.5 * squared) + 1e-9 * np.eye(n_rows)
    return X, np.linalg.cholesky(K) @ rng.standard_normal(n_rows) + NOISE_SD * rng.standard_normal(n_rows)


def measure(design: str, seed: int) -> dict[str, dict[str, float]]:
    """Of one set, for each parameter: the standard error on the log scale, and how many of them the truth is away."""
    from knotwise import GPRegressor
    from knotwise.kernels import SquaredExponential

    X, y = draw(design, seed)
    options = {"knots": "auto", "standardize": "common", "random_state": seed, "n_jobs": 1, "progress": False}
    gp = GPRegressor(SquaredExponential(), **options).fit(X, y)
    truth = {"lengthscale": 1 / DESIGNS[design][2], "variance": 1.0, "noise_variance": NOISE_SD**2}
    frame = gp.parameters_.to_frame().set_index("parameter")
    found = {}
    for name in PARAMETERS:
        line = frame.loc[name]
        error = line.data_standard_error / line.data_value
        found[name] = {
            "standard_error": float(error),
            "away": float(np.log(line.data_value / truth[name]) / error),
            "held": bool(line.data_lower_95 <= truth[name] <= line.data_upper_95),
        }
    return found


def summarise(design: str, seeds: range) -> dict[str, Any]:
    """Shares of intervals that hold the truth over some sets."""
    sets = [measure(design, seed) for seed in seeds]
    row: dict[str, Any] = {"case": design, "sets": len(sets), "limits": LIMITS}
    for name in PARAMETERS:
        each = {key: np.array([found[name][key] for found in sets], float) for key in sets[0][name]}
        row[name] = {
            "held": round(float(each["held"].mean()), 4),  # one without an interval counts as missed
            "without": int(np.isnan(each["standard_error"]).sum()),
            "standard_error": round(float(np.nanmedian(each["standard_error"])), 4),
            "away_mean": round(float(np.nanmean(each["away"])), 3),
            "away_sd": round(float(np.nanstd(each["away"])), 3),
        }
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--out", type=Path, default=RESULTS, help="file to which the rows are appended")
    parser.add_argument("--sets", type=int, default=N_SETS, help="simulated sets of each design")
    options = parser.parse_args()
    claims = {}
    print(f"{'design':14}{'parameter':>16}{'held':>8}{'without':>9}{'std. error':>12}{'mean':>8}{'spread':>8}")
    for design in DESIGNS:
        row = summarise(design, range(options.sets))
        append_row(options.out, row)
        for name in PARAMETERS:
            found = row[name]
            print(
                f"{design:14}{name:>16}{found['held']:8.0%}{found['without']:9}{found['standard_error']:12.3f}"
                f"{found['away_mean']:8.2f}{found['away_sd']:8.2f}",
                flush=True,
            )
            low, high = LIMITS
            claims[f"{design}: {found['held']:.0%} of intervals of {name} hold"] = low <= found["held"] <= high
    print_claims(claims)


if __name__ == "__main__":
    main()
