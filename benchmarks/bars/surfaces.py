"""Expected totals of simulated count surfaces: are they right on average, and do their intervals cover?

Run `python benchmarks/bars/surfaces.py`. A surface is the exponential of a draw from a GP on 18 x 18 cells (variance 1,
length-scale 3 cells) whose mean is 1 to 3 counts per cell; a default fit sees one count in each cell. The claims over
100 surfaces: intervals of the expected totals of nine regions cover the true ones in 90 to 99 % (95 is meant), and the
mean ratio of the predicted to the true total of all cells is 0.99 to 1.01. Rows are appended to
`benchmarks/results/surfaces.jsonl`, and a test checks what is stored.
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

N_SURFACES, SIDE = 100, 18
VARIANCE, LENGTHSCALE, MEANS = 1.0, 3.0, (1.0, 3.0)
COVERAGE, RATIO = (0.90, 0.99), (0.99, 1.01)
INFERENCES = ("auto", "laplace")
RESULTS = FOLDER / "results" / "surfaces.jsonl"


def draw(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cells, their true expected counts, and counts."""
    rng = np.random.default_rng([seed, 77])
    X = np.stack(np.meshgrid(np.arange(SIDE), np.arange(SIDE), indexing="ij"), -1).reshape(-1, 2).astype(float)
    K = VARIANCE * np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(-1) / LENGTHSCALE**2)
    f = np.linalg.cholesky(K + 1e-8 * np.eye(len(X))) @ rng.standard_normal(len(X))
    rate = np.exp(np.log(rng.uniform(*MEANS)) - VARIANCE / 2 + f)  # E e^f = e^(variance / 2)
    return X, rate, rng.poisson(rate).astype(float)


def measure(inference: str, seeds: range) -> dict[str, Any]:
    """Coverage over surfaces and regions, and ratios of predicted to true totals."""
    from knotwise import GPRegressor

    covered, ratios, widths, caught = [], [], [], 0
    for seed in seeds:
        X, rate, y = draw(seed)
        region = (3 * (X[:, 0] // (SIDE // 3)) + X[:, 1] // (SIDE // 3)).astype(int)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            gp = GPRegressor(
                likelihood="poisson",
                standardize="common",
                inference=inference,
                random_state=seed,
                n_jobs=1,
                progress=False,
            ).fit(X, y)
            totals = gp.predict_total(X, groups=region, kind="mean", random_state=seed)
        caught += bool(warned)
        true = np.bincount(region, rate)[totals.group]
        covered.append(float(np.mean((totals.lower <= true) & (true <= totals.upper))))
        widths.append(float(np.mean((totals.upper - totals.lower) / true)))
        ratios.append(float(totals.estimate.sum() / rate.sum()))
    return {
        "surfaces": len(ratios),
        "intervals": 9 * len(ratios),
        "coverage": round(float(np.mean(covered)), 5),
        "ratio": round(float(np.mean(ratios)), 5),
        "error_of_ratio": round(float(np.std(ratios, ddof=1) / np.sqrt(len(ratios))), 5),
        "relative_width": round(float(np.mean(widths)), 4),
        "surfaces_with_warnings": caught,
        "limits": [*COVERAGE, *RATIO],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--out", type=Path, default=RESULTS, help="file to which the rows are appended")
    parser.add_argument("--surfaces", type=int, default=N_SURFACES, help="number of surfaces")
    options = parser.parse_args()
    print(f"{'inference':12}{'surfaces':>9}{'coverage':>10}{'ratio':>9}{'+-':>8}{'width':>8}{'warned':>8}")
    for inference in INFERENCES:
        row = {"seed": 0, "inference": inference} | measure(inference, range(options.surfaces))
        append_row(options.out, row)
        print(
            f"{inference:12}{row['surfaces']:9}{row['coverage']:10.2%}{row['ratio']:9.4f}{row['error_of_ratio']:8.4f}"
            f"{row['relative_width']:8.3f}{row['surfaces_with_warnings']:8}",
            flush=True,
        )
        if inference == "auto":
            claims = {
                f"coverage of {COVERAGE[0]:.0%} to {COVERAGE[1]:.0%}": COVERAGE[0] <= row["coverage"] <= COVERAGE[1],
                f"a mean ratio of {RATIO[0]} to {RATIO[1]}": RATIO[0] <= row["ratio"] <= RATIO[1],
            }
    print_claims(claims)


if __name__ == "__main__":
    main()
