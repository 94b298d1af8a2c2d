"""Kriging with drift: log zinc in the flood plain of the Meuse, predicted in blocks that were left out.

Run `python benchmarks/bars/meuse.py`; it needs scikit-gstat, whose package has the data, and statsmodels
(`pip install 'knotwise[docs]'`). The model has a linear drift in the root of the distance from the river and a kernel
on x and y, all else by default. Blocks are those of k-means with ten blocks, three times. The claims: a
cross-validated root mean squared error of at most .435 on average, where least squares on the drift alone has .446, and
95 % intervals that hold .90 to .98 of the rows; and the trend, under a wide prior, is that of generalised least squares
in statsmodels with the same covariance, estimates and standard errors to 1e-3.
Rows are appended to `benchmarks/results/meuse.jsonl`, and a test checks what is stored.
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

SEEDS, N_BLOCKS = range(3), 10
LARGEST_RMSE, COVERAGE, GLS_LIMIT = 0.435, (0.90, 0.98), 1e-3
KERNELS = ("Matern32", "Matern52", "Matern12", "SquaredExponential")
RESULTS = FOLDER / "results" / "meuse.jsonl"


def load_meuse() -> tuple[Any, Any]:
    """Places and the root of the distance from the river, and the logarithm of zinc."""
    import pandas as pd
    import skgstat

    frame = pd.read_csv(Path(skgstat.__file__).parent / "data" / "samples" / "meuse.txt")
    return frame[["x", "y"]].assign(sqrt_dist=np.sqrt(frame["dist"])), np.log(frame["zinc"])


def model(kernel: str = KERNELS[0], **prior: Any) -> Any:
    """The model that is claimed of."""
    from knotwise import GPRegressor, kernels
    from knotwise.means import Linear

    mean = Linear(columns=["sqrt_dist"], **prior)
    return GPRegressor(getattr(kernels, kernel)().on(["x", "y"]), mean=mean, random_state=0, n_jobs=1, progress=False)


def blocks(X: Any, seed: int) -> np.ndarray:
    """The block of each row."""
    from sklearn.cluster import KMeans

    return KMeans(N_BLOCKS, n_init=10, random_state=seed).fit_predict(X[["x", "y"]])


def measure(seed: int, kernel: str = KERNELS[0]) -> dict[str, Any]:
    """Scores of left-out blocks, with everything fitted anew; and those of least squares on the drift."""
    from sklearn.linear_model import LinearRegression
    from sklearn.model_selection import LeaveOneGroupOut, cross_val_predict

    from knotwise import cross_validate

    X, y = load_meuse()
    labels = blocks(X, seed)
    scores = cross_validate(model(kernel), X, y, blocks=labels).scores
    drift = cross_val_predict(LinearRegression(), X[["sqrt_dist"]], y, cv=LeaveOneGroupOut(), groups=labels)
    return {name: round(scores[name], 4) for name in ("rmse", "coverage", "nlpd", "crps")} | {
        "least_squares": round(float(np.sqrt(np.mean((y - drift) ** 2))), 4)
    }


def measure_trend() -> dict[str, Any]:
    """Largest relative distance of the trend from that of statsmodels, at the same covariance."""
    import statsmodels.api as sm

    X, y = load_meuse()
    gp = model(prior_sd=1e3).fit(X, y)
    found = gp.coefficients_
    covariance = gp.kernel_(X.to_numpy()) + gp.likelihood_.noise_variance * np.eye(len(y))
    known: dict[str, Any] = {"cov_type": "fixed scale", "cov_kwds": {"scale": 1}}  # statsmodels would estimate a factor
    gls = sm.GLS(y, sm.add_constant(X["sqrt_dist"]), sigma=covariance).fit(**known)
    return {
        "estimate": [round(float(v), 6) for v in found.estimate],
        "standard_error": [round(float(v), 6) for v in found.standard_error],
        "estimate_apart": float(f"{np.abs(found.estimate / gls.params.to_numpy() - 1).max():.2e}"),
        "standard_error_apart": float(f"{np.abs(found.standard_error / gls.bse.to_numpy() - 1).max():.2e}"),
    }


def judge(rows: list[dict[str, Any]], trend: dict[str, Any]) -> dict[str, bool]:
    """The claims, by rows of one kernel for all seeds, and the row of the trend."""
    rmse, drift = (float(np.mean([row[name] for row in rows])) for name in ("rmse", "least_squares"))
    low, high = COVERAGE
    covered = [row["coverage"] for row in rows]
    apart = max(trend["estimate_apart"], trend["standard_error_apart"])
    return {
        f"cross-validated RMSE {rmse:.4f} <= {LARGEST_RMSE} (least squares on the drift: {drift:.4f})": rmse
        <= LARGEST_RMSE,
        f"95 % intervals hold {min(covered):.3f} to {max(covered):.3f} of the rows": low <= min(covered)
        and max(covered) <= high,
        f"the trend is that of generalised least squares to {apart:.0e}": apart <= GLS_LIMIT,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--out", type=Path, default=RESULTS, help="file to which the rows are appended")
    options = parser.parse_args()
    trend = measure_trend()
    append_row(options.out, {"case": "trend", "kernel": KERNELS[0], "seed": 0} | trend)
    for kernel in KERNELS:
        rows = []
        for seed in SEEDS:
            row = measure(seed, kernel)
            append_row(options.out, {"case": "blocks", "kernel": kernel, "seed": seed} | row)
            rows.append(row)
            print(kernel, seed, row, flush=True)
        print_claims(judge(rows, trend))


if __name__ == "__main__":
    main()
