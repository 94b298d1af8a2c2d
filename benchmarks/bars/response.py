"""Processor time and memory of intervals of new observations, for every likelihood.

Run `python benchmarks/bars/response.py`. The claim: both ends of an interval together take at most 50 microseconds of
processor time for each row, 150 where the distribution of y given f is an incomplete beta function; and a million rows
of negative binomial intervals through an estimator at most 150 seconds and 300 MB beside the data. Rows are appended to
`benchmarks/results/response.jsonl`, and a test checks what is stored.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(FOLDER), str(FOLDER / "bars")]
from storing import append_row  # noqa: E402

from memory import peak_during, resident  # noqa: E402

SEED = 0
LEVEL = 0.95
RESULTS = FOLDER / "results" / "response.jsonl"
MILLION_MB = 300.0
SLOW = 150.0  # microseconds
FAST = 50.0
BETA_PRECISIONS = (0.01, 0.05, 1.0, 50.0, 500.0, 1e4, 1e6)
STUDENT_DFS = (1.0, 30.0, 200.0)


def cases() -> list[tuple[str, Any, float]]:
    """Each likelihood at usual parameters, and some at unusual ones, with its limit in microseconds for each row."""
    from knotwise import likelihoods as lik

    return [
        ("gaussian", lik.Gaussian(0.2), FAST),
        ("bernoulli", lik.Bernoulli(), FAST),
        ("bernoulli-probit", lik.Bernoulli("probit"), FAST),
        ("binomial", lik.Binomial(), SLOW),
        ("poisson", lik.Poisson(), FAST),
        ("negative_binomial", lik.NegativeBinomial(0.4), SLOW),
        ("zero_inflated_poisson", lik.ZeroInflatedPoisson(0.3), FAST),
        ("zero_inflated_negative_binomial", lik.ZeroInflatedNegativeBinomial(0.4, 0.3), SLOW),
        ("gamma", lik.Gamma(2.5), FAST),
        ("exponential", lik.Exponential(), FAST),
        ("weibull", lik.Weibull(1.7), FAST),
        ("lognormal", lik.LogNormal(0.3), FAST),
        ("beta", lik.Beta(6.0), SLOW),
        *((f"beta-{precision:g}", lik.Beta(precision), SLOW) for precision in BETA_PRECISIONS),
        ("student_t", lik.StudentT(0.5, 4.0), FAST),
        *((f"student_t-{df:g}", lik.StudentT(0.5, df), FAST) for df in STUDENT_DFS),
    ]


def measure(likelihood: Any, n_rows: int, seed: int) -> tuple[float, float]:
    """Processor microseconds for each row, and MB beside the data, of both ends for random means and variances of f."""
    rng = np.random.default_rng(seed)
    mean = rng.normal(0.0, 2.0, n_rows)
    variance = np.exp(rng.uniform(np.log(0.01), np.log(2.0), n_rows))
    sizes = {"exposure": np.exp(rng.normal(0.0, 2.0, n_rows)), "trials": np.round(np.exp(rng.uniform(0, 8, n_rows)))}
    size = sizes.get(likelihood.size_name, np.ones(n_rows))

    def interval(n: int = n_rows) -> list[np.ndarray]:
        ends = (0.5 - LEVEL / 2, 0.5 + LEVEL / 2)
        return [likelihood.predictive_quantile(p, mean[:n], variance[:n], size[:n]) for p in ends]

    interval(10)  # imports are not counted
    return timed(interval, n_rows)


def measure_estimator(n_rows: int, seed: int) -> tuple[float, float]:
    """The same for negative binomial intervals through `GPRegressor`, on one thread."""
    from knotwise import GPRegressor
    from knotwise.kernels import SquaredExponential
    from knotwise.likelihoods import NegativeBinomial

    rng = np.random.default_rng(seed)
    X = rng.normal(size=(500, 2))
    y = NegativeBinomial(0.4).sample(2 + np.sin(2 * X[:, 0]), rng)
    kernel = SquaredExponential(1.0, 1.0, column_scales="standard")
    gp = GPRegressor(kernel, NegativeBinomial(0.4), knots=X[:20], optimizer=None, n_jobs=1)
    gp.fit(X, y)
    gp.predict_interval(X, LEVEL)
    new = rng.normal(size=(n_rows, 2))
    return timed(lambda: gp.predict_interval(new, LEVEL), n_rows)


def timed(work: Any, n_rows: int) -> tuple[float, float]:
    before = resident()
    start = time.process_time()
    _, peak = peak_during(work)
    return 1e6 * (time.process_time() - start) / n_rows, (peak - before) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--rows", type=int, default=20_000, help="rows of each likelihood")
    parser.add_argument("--million", type=int, default=1_000_000, help="rows of the negative binomial estimator")
    parser.add_argument("--out", type=Path, default=RESULTS, help="file to which the rows are appended")
    options = parser.parse_args()
    print(f"{'likelihood':28}{'rows':>10}{'us / row':>10}{'limit':>8}{'MB':>8}")
    work = [(name, options.rows, limit, likelihood) for name, likelihood, limit in cases()]
    work.append(("negative_binomial-estimator", options.million, SLOW, None))
    for name, n_rows, limit, likelihood in work:
        measured = measure_estimator(n_rows, SEED) if likelihood is None else measure(likelihood, n_rows, SEED)
        row = {
            "seed": SEED, "likelihood": name, "rows": n_rows,
            "microseconds_per_row": round(measured[0], 2), "limit": limit, "peak_mb": round(measured[1], 1),
        }  # fmt: skip
        append_row(options.out, row)
        print(f"{name:28}{n_rows:10,}{measured[0]:10.1f}{limit:8.0f}{measured[1]:8.0f}", flush=True)


if __name__ == "__main__":
    main()
