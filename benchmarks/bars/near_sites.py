"""Data that are not Gaussian and rougher than knots can follow: what neighbours bring, and how near they come.

Run `python benchmarks/bars/near_sites.py`. Functions are simulated with a Matern 3/2 kernel, seeds 0 to 4: two classes
by a function of 5 columns with a length-scale of a quarter of their range (5,000 rows, 20,000 to be predicted), and
counts in 10,000 cells of a map with a length-scale of four cells (2,100 other cells are to be predicted). Claims, by
the mean negative log predictive density (for classes the log loss) of rows held out:

* the default is lower by at least 0.02 than up to 300 knots without neighbours, in the mean over the seeds;
* of 2,000 rows, neighbours are at most 0.02 above the exact GP with variational inference, in the mean over the seeds;
* in every tenth of the predicted probabilities, the share of the second class is within 0.03 of their mean, and in
  every tenth of [0, 1] the share of P(Y <= y) of the counts is within 0.03 of 0.1, over all seeds. One function has few
  independent places, at which errors go together, and nobody can promise that for one: the exact GP of all rows, at
  the parameters that drew the function (`--truth`), is off by more in some tenth of most of them. For each function the
  worst tenth is at most 0.03 worse than that of this ideal.

Rows are appended to `benchmarks/results/near_sites.jsonl`.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(FOLDER / "bars"))
from storing import append_row, print_claims  # noqa: E402

SEEDS = range(5)
RESULTS = FOLDER / "results" / "near_sites.jsonl"
FEWER_ROWS = 2000  # for which the exact GP is fitted
GAIN, APART, OFF = 0.02, 0.02, 0.03
CLASS_LENGTHSCALE, CLASS_SD = 0.25, 10.0
TRUTH = "classes at the truth"


def rough_function(X: np.ndarray, lengthscale: float, sd: float, rng: np.random.Generator, n: int = 4000) -> np.ndarray:
    """A draw of a function with a Matern 3/2 kernel, by n random waves, whose frequencies are Student-t with 3 df."""
    waves = rng.normal(size=(n, X.shape[1])) / np.sqrt(rng.chisquare(3, size=(n, 1)) / 3) / lengthscale
    phases, f = rng.uniform(0, 2 * np.pi, n), np.empty(len(X))
    for some in range(0, len(X), 2000):
        f[some : some + 2000] = np.cos(X[some : some + 2000] @ waves.T + phases).sum(1)
    return sd * np.sqrt(2 / n) * f


def classes(seed: int) -> tuple[np.ndarray, ...]:
    """Inputs and labels, to be fitted and to be predicted."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(25_000, 5))
    f = rough_function(X, CLASS_LENGTHSCALE, CLASS_SD, rng)
    y = (rng.uniform(size=len(f)) < 1 / (1 + np.exp(-f))).astype(float)
    return X[:5000], y[:5000], X[5000:], y[5000:]


def counts(seed: int) -> tuple[np.ndarray, ...]:
    """Cells of a map and their counts, to be fitted and to be predicted."""
    rng = np.random.default_rng(seed)
    side = np.arange(110.0)
    X = np.array([(a, b) for a in side for b in side])
    y = rng.poisson(np.exp(1.0 + rough_function(X, 4.0, 1.0, rng))).astype(float)
    order = rng.permutation(len(X))
    fitted, others = np.sort(order[:10_000]), np.sort(order[10_000:])
    return X[fitted], y[fitted], X[others], y[others]


SETS = {"classes": (classes, "bernoulli"), "counts": (counts, "poisson")}


def fit(name: str, X: np.ndarray, y: np.ndarray, seed: int, **options: Any) -> tuple[Any, dict[str, Any]]:
    """A fitted model, and what it took."""
    from knotwise import GPRegressor

    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that knots are too few is what is measured
        gp = GPRegressor(likelihood=SETS[name][1], random_state=seed, n_jobs=1, progress=False, **options).fit(X, y)
    took = {"knots": gp.n_knots_, "neighbors": gp.n_neighbors_, "seconds": round(time.process_time() - start, 1)}
    return gp, took


def loss(gp: Any, X: np.ndarray, y: np.ndarray) -> float:
    """Mean negative log predictive density."""
    return round(-float(gp.log_predictive_density(X, y).mean()), 5)


def reliability(gp: Any, X: np.ndarray, y: np.ndarray) -> list[float]:
    """The share of ones minus the mean probability, in each tenth of the probabilities."""
    p = gp.predict(X)
    return [round(float(y[tenth].mean() - p[tenth].mean()), 4) for tenth in np.array_split(np.argsort(p), 10)]


def transform_of_counts(gp: Any, X: np.ndarray, y: np.ndarray) -> list[float]:
    """The share of the counts in each tenth of their predictive distribution, minus 0.1; spread at random at a count.

    The distribution is that of Poisson counts over the posterior of f, by a Gauss-Hermite rule.
    """
    from scipy.stats import poisson

    f = gp.predict_latent(X)
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    rate = np.exp(f.mean[:, None] + np.sqrt(f.variance)[:, None] * nodes)
    below, up_to = (poisson.cdf(y[:, None] - less, rate) @ weights / weights.sum() for less in (1, 0))
    u = below + np.random.default_rng(0).uniform(size=len(y)) * (up_to - below)
    return [round(float(share), 4) for share in np.histogram(u, 10, (0, 1))[0] / len(y) - 0.1]


#: how far predictions are off, tenth by tenth
OFF_BY_TENTH = {"classes": reliability, "counts": transform_of_counts}


def measure(name: str, seed: int) -> dict[str, Any]:
    """Losses of the default, of knots alone, and of fewer rows with neighbours and exactly."""
    from knotwise.knots import Auto

    X, y, X_new, y_new = SETS[name][0](seed)
    row: dict[str, Any] = {}
    gp, row["default"] = fit(name, X, y, seed)
    row["default"]["loss"] = loss(gp, X_new, y_new)
    row["reliability"] = OFF_BY_TENTH[name](gp, X_new, y_new)
    alone, row["knots"] = fit(name, X, y, seed, knots=Auto(max_knots=300), n_neighbors=0)
    row["knots"]["loss"] = loss(alone, X_new, y_new)
    some = np.sort(np.random.default_rng(seed).choice(len(X), FEWER_ROWS, replace=False))
    few, row["fewer_rows"] = fit(name, X[some], y[some], seed, n_neighbors=20)
    row["fewer_rows"]["loss"] = loss(few, X_new, y_new)
    exact, row["exact"] = fit(name, X[some], y[some], seed, approximation="full")
    row["exact"]["loss"] = loss(exact, X_new, y_new)
    return row


def measure_truth(seed: int) -> dict[str, Any]:
    """What the exact GP of all rows knows of the classes, at the parameters that drew their function."""
    from knotwise.kernels import Matern32

    X, y, X_new, y_new = classes(seed)
    held = {"kernel": Matern32(CLASS_SD**2, CLASS_LENGTHSCALE), "mean": "zero", "standardize": False, "optimizer": None}
    gp, took = fit("classes", X, y, seed, approximation="full", **held)
    return took | {"loss": loss(gp, X_new, y_new), "reliability": reliability(gp, X_new, y_new)}


def worst(reliability: list[float]) -> float:
    """How far off the worst tenth is."""
    return float(np.abs(reliability).max())


def judge_beside_truth(rows: list[dict[str, Any]], ideal: list[dict[str, Any]]) -> dict[str, bool]:
    """Whether the classes are as reliable as they can be, function by function."""
    more = max(worst(row["reliability"]) - worst(best["reliability"]) for row, best in zip(rows, ideal, strict=True))
    return {f"classes: no tenth is off by {OFF} more than where all but f is known ({more:.3f})": more <= OFF}


def judge(name: str, rows: list[dict[str, Any]]) -> dict[str, bool]:
    """Which claims hold for the rows of one set."""

    def gap(one: str, other: str) -> float:
        return float(np.mean([row[one]["loss"] - row[other]["loss"] for row in rows]))

    claims = {
        f"{name}: lower than knots alone by at least {GAIN} ({-gap('default', 'knots'):.3f})": gap("default", "knots")
        <= -GAIN,
        f"{name}: at most {APART} above the exact GP of {FEWER_ROWS} rows ({gap('fewer_rows', 'exact'):.3f})": gap(
            "fewer_rows", "exact"
        )
        <= APART,
    }
    off = worst(list(np.mean([row["reliability"] for row in rows], axis=0)))
    return claims | {f"{name}: reliable within {OFF} in every tenth ({off:.3f})": off <= OFF}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--out", type=Path, default=RESULTS, help="file to which the rows are appended")
    parser.add_argument("--only", choices=list(SETS), help="one set")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS), help="simulations")
    parser.add_argument("--truth", action="store_true", help="the exact GP of all rows of the classes, and no more")
    options = parser.parse_args()
    for seed in options.seeds if options.truth else ():
        row = measure_truth(seed)
        append_row(options.out, {"seed": seed, "case": TRUTH} | row)
        print(TRUTH, seed, row, flush=True)
    for name in () if options.truth else SETS:
        if options.only not in (None, name):
            continue
        rows = []
        for seed in options.seeds:
            rows.append(measure(name, seed))
            append_row(options.out, {"seed": seed, "case": name} | rows[-1])
            print(name, seed, rows[-1], flush=True)
        print_claims(judge(name, rows))


if __name__ == "__main__":
    main()
