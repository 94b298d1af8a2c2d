"""Intervals of the mean where the inputs say nothing: do they cover, and are they wider than they need to be?

Run `python benchmarks/bars/no_signal.py`. Targets are drawn about one level, whatever the inputs; a default fit gives
the 95 % interval of f at a typical row. The claims, for each kind of data and number of rows: it covers the level in 88
to 100 % of the fits, and its mean width is at most 1.5 times that of the Wald interval of a generalised linear model
with an intercept only. Rows are appended to `benchmarks/results/no_signal.jsonl`, and a test checks what is stored.
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
from storing import append_row  # noqa: E402

N_FITS = 100
N_ROWS = (25, 60)
COVERAGE = (0.88, 1.0)
LIMIT = 1.5
NORMAL_QUANTILE = 1.959963984540054
RESULTS = FOLDER / "results" / "no_signal.jsonl"

#: f, the same in every row: a mean, the log of a rate of 2, the log odds of a probability of 0.4
LEVELS = {"gaussian": 3.0, "poisson": float(np.log(2.0)), "bernoulli": float(np.log(0.4 / 0.6))}


def draw(likelihood: str, n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two columns of inputs, and targets that do not depend on them."""
    rng = np.random.default_rng([seed, n_rows, sorted(LEVELS).index(likelihood)])
    X, level = rng.uniform(size=(n_rows, 2)), LEVELS[likelihood]
    if likelihood == "gaussian":
        return X, level + rng.normal(size=n_rows)
    if likelihood == "poisson":
        return X, rng.poisson(np.exp(level), n_rows).astype(float)
    return X, (rng.uniform(size=n_rows) < 1 / (1 + np.exp(-level))).astype(float)


def wald_width(likelihood: str, y: np.ndarray) -> float:
    """Width of the 95 % interval of the intercept alone; infinite where it has no finite estimate."""
    mean, n_rows = y.mean(), len(y)
    information = {
        "gaussian": 1 / max(float(y.var(ddof=1)), 1e-300),
        "poisson": float(mean),
        "bernoulli": float(mean * (1 - mean)),
    }[likelihood]
    return 2 * NORMAL_QUANTILE / float(np.sqrt(n_rows * information)) if information > 0 else float("inf")


def measure(likelihood: str, n_rows: int, n_fits: int) -> dict[str, Any]:
    """Coverage and mean relative width of the intervals of f at the middle of the inputs, over seeds."""
    from knotwise import GPRegressor

    covered, widths, wald, signals = 0, [], [], 0
    for seed in range(n_fits):
        X, y = draw(likelihood, n_rows, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            gp = GPRegressor(likelihood=likelihood, random_state=seed, n_jobs=1, progress=False).fit(X, y)
        low, high = gp.predict_interval([[0.5, 0.5]], kind="latent")[0]
        covered += low <= LEVELS[likelihood] <= high
        widths.append(high - low)
        wald.append(wald_width(likelihood, y))
        signals += "no signal" not in gp.stop_reason_
    return {
        "rows": n_rows,
        "fits": n_fits,
        "coverage": covered / n_fits,
        "width": round(float(np.mean(widths)), 4),
        "width_of_glm": round(float(np.mean(wald)), 4),
        "relative_width": round(float(np.mean(widths) / np.mean(wald)), 4),
        "signals_found": signals,
        "limits": [*COVERAGE, LIMIT],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--out", type=Path, default=RESULTS, help="file to which the rows are appended")
    parser.add_argument("--only", choices=sorted(LEVELS), help="one kind of data")
    parser.add_argument("--fits", type=int, default=N_FITS, help="number of data sets of each size")
    options = parser.parse_args()
    print(f"{'data':12}{'rows':>6}{'coverage':>10}{'width':>9}{'of a GLM':>10}{'ratio':>8}{'signals':>9}")
    for likelihood in LEVELS:
        for n_rows in N_ROWS:
            if options.only in (None, likelihood):
                row = {"likelihood": likelihood} | measure(likelihood, n_rows, options.fits)
                append_row(options.out, row)
                print(
                    f"{likelihood:12}{n_rows:6}{row['coverage']:10.0%}{row['width']:9.3f}{row['width_of_glm']:10.3f}"
                    f"{row['relative_width']:8.2f}{row['signals_found']:9}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
