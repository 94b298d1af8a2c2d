"""Held-out density of two classes, with the default inference and with Laplace's approximation.

Run `python benchmarks/bars/banana.py`. The banana set is parted as in the paper, 531 rows to train and 4,769 to test;
knots are chosen automatically, or 150 by k-means and held. The claims, for each: over splits 0 to 9 the mean negative
log predictive density is lower than Laplace's by 0.003 on average, and lower in at least 9 of the 10. Rows are appended
to `benchmarks/results/banana.jsonl`, and a test checks what is stored.
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

SEEDS = range(10)
GAIN, WINS = 0.003, 9
KNOTS = ("auto", "150 by k-means")
RESULTS = FOLDER / "results" / "banana.jsonl"


def measure(knots: str, seed: int) -> dict[str, Any]:
    """Mean negative log predictive density of the held-out rows by each inference, on one split."""
    from knotwise import GPRegressor, datasets
    from knotwise.knots import Fixed

    part = datasets.split(datasets.load_banana(), n_train=531, seed=seed)
    selector = "auto" if knots == "auto" else Fixed(n_knots=int(knots.split(maxsplit=1)[0]))
    found: dict[str, Any] = {}
    for inference in ("auto", "laplace"):
        gp = GPRegressor(
            likelihood="bernoulli",
            knots=selector,
            inference=inference,
            random_state=seed,
            n_jobs=1,
            progress=False,
        ).fit(part.X_train, part.y_train)
        found[inference] = round(float(-gp.log_predictive_density(part.X_test, part.y_test).mean()), 6)
        found[f"knots_{inference}"] = gp.n_knots_
    return found


def judge(rows: list[dict[str, Any]]) -> tuple[float, int]:
    """Mean gain over Laplace, and the number of splits in which there is one."""
    gains = np.array([row["laplace"] - row["auto"] for row in rows])
    return float(gains.mean()), int((gains > 0).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--out", type=Path, default=RESULTS, help="file to which the rows are appended")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS), help="splits")
    options = parser.parse_args()
    claims = {}
    print(f"{'knots':16}{'split':>6}{'auto':>9}{'Laplace':>9}{'gain':>9}{'knots':>10}")
    for knots in KNOTS:
        rows = []
        for seed in options.seeds:
            row = {"seed": seed, "knots": knots} | measure(knots, seed) | {"limits": [GAIN, WINS]}
            append_row(options.out, row)
            rows.append(row)
            print(
                f"{knots:16}{seed:6}{row['auto']:9.4f}{row['laplace']:9.4f}{row['laplace'] - row['auto']:9.4f}"
                f"{row['knots_auto']:6}, {row['knots_laplace']}",
                flush=True,
            )
        gain, wins = judge(rows)
        print(f"{knots:16}{'mean':>6}{'':18}{gain:9.4f}   lower in {wins} of {len(rows)}")
        claims[f"{knots}: lower by {GAIN} on average"] = gain >= GAIN
        claims[f"{knots}: lower in {WINS} of {len(SEEDS)}"] = wins >= WINS * len(rows) / len(SEEDS)
    print_claims(claims)


if __name__ == "__main__":
    main()
