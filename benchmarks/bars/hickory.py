"""Trees in cells that were held out: is their number right, and do intervals of totals hold it?

Run `python benchmarks/bars/hickory.py`. Five folds of the 900 cells, drawn at random, are held out in turn; the nugget
is fitted, and maps keep their distances. The claims, as means over three ways to draw the folds: the predicted number
of trees in all held-out cells is within 3 % of the observed one; and of nine regions (3 x 3) at least 8 have their
number of trees in the 95 % interval, each cell being predicted by the fit that has not seen it. Such a total adds up
five fits, so its interval is that of sums of `sample_observations` of the five, taken as independent. Beside it stands
the share of the 45 intervals of `predict_total(kind="observation")`, one for each fold and region, which need no such
assumption: at least 8 in 9. Rows are appended to `benchmarks/results/hickory.jsonl`, and a test checks what is stored.
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

SEEDS = (0, 1, 2)
N_FOLDS, N_SAMPLES = 5, 4000
TOTAL_LIMIT, HELD_LIMIT = 0.03, 8
INFERENCES = ("auto", "laplace")
RESULTS = FOLDER / "results" / "hickory.jsonl"


def measure(inference: str, seed: int, n_folds: int = N_FOLDS) -> dict[str, Any]:
    """Predicted over observed trees, and intervals of regions that hold them, over the first folds of five."""
    from knotwise import GPRegressor, datasets

    trees = datasets.load_hickory()
    X, y, area = trees.X, trees.y, trees.exposure
    region = 3 * np.minimum((3 * X[:, 0]).astype(int), 2) + np.minimum((3 * X[:, 1]).astype(int), 2)
    fold = np.random.default_rng(seed).permutation(len(y)) % N_FOLDS
    predicted, ratios, held, density = np.zeros(9), [], [], []
    samples, observed = np.zeros((N_SAMPLES, 9)), np.zeros(9)
    for k in range(n_folds):
        test = fold == k
        gp = GPRegressor(
            likelihood="poisson",
            nugget="fit",
            standardize="common",
            inference=inference,
            random_state=seed,
            n_jobs=1,
            progress=False,
        ).fit(X[~test], y[~test], exposure=area[~test])
        totals = gp.predict_total(
            X[test], exposure=area[test], groups=region[test], kind="observation", random_state=seed
        )
        here = np.bincount(region[test], y[test], minlength=9)
        held += list((totals.lower <= here[totals.group]) & (here[totals.group] <= totals.upper))
        drawn = gp.sample_observations(X[test], N_SAMPLES, exposure=area[test], random_state=100 * seed + k)
        indicator = region[test][:, None] == np.arange(9)
        samples += drawn @ indicator
        observed += here
        predicted[totals.group] += totals.estimate
        ratios.append(float(totals.estimate.sum() / here.sum()))
        density.append(float(-gp.log_predictive_density(X[test], y[test], exposure=area[test]).sum()))
    low, high = np.quantile(samples, [0.025, 0.975], axis=0)
    return {
        "observed": float(observed.sum()),
        "predicted": round(float(predicted.sum()), 3),
        "ratio": round(float(predicted.sum() / observed.sum()), 5),
        "ratios": [round(ratio, 4) for ratio in ratios],
        "regions_held": int(((low <= observed) & (observed <= high)).sum()),
        "share_of_fold_regions_held": round(float(np.mean(held)), 4),
        "fold_regions": len(held),
        "nlpd": round(float(np.sum(density) / (fold < n_folds).sum()), 5),
        "limits": [TOTAL_LIMIT, HELD_LIMIT],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--out", type=Path, default=RESULTS, help="file to which the rows are appended")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS), help="of the folds")
    options = parser.parse_args()
    rows = []
    print(f"{'inference':12}{'seed':>5}{'trees':>8}{'predicted':>11}{'ratio':>8}{'of 9':>6}{'of 45':>8}{'NLPD':>9}")
    for seed in options.seeds:
        for inference in INFERENCES:
            row = {"seed": seed, "inference": inference} | measure(inference, seed)
            append_row(options.out, row)
            rows += [row] if inference == "auto" else []
            print(
                f"{inference:12}{seed:5}{row['observed']:8.0f}{row['predicted']:11.1f}{row['ratio']:8.3f}"
                f"{row['regions_held']:6}{row['share_of_fold_regions_held']:8.1%}{row['nlpd']:9.4f}   {row['ratios']}",
                flush=True,
            )
    means = {each: np.mean([row[each] for row in rows]) for each in ("ratio", "regions_held")}
    share = np.mean([row["share_of_fold_regions_held"] for row in rows])
    print_claims(
        {
            f"trees within {TOTAL_LIMIT:.0%}: a ratio of {means['ratio']:.4f}": abs(means["ratio"] - 1) <= TOTAL_LIMIT,
            f"intervals of {HELD_LIMIT} of 9 regions hold: {means['regions_held']:.2f}": means["regions_held"]
            >= HELD_LIMIT,
            f"so do {HELD_LIMIT} in 9 of those of folds: {share:.1%}": share >= HELD_LIMIT / 9,
        }
    )


if __name__ == "__main__":
    main()
