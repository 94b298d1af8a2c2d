"""Does the default find what an expert would have got? Data made so that an expert's answer is known.

Run `python benchmarks/bars/automatic.py`; `--only sparse_columns bump` for some cases. Each case compares plain
`GPRegressor()` with what somebody who knows the data would have asked for (`study.py --folder` takes real sets):

* `sparse_columns`: 30 columns of which 3 matter; against the fit that is told the columns (error within 5 %).
* `isotropic`: draws of an isotropic GP; against the isotropic kernel (log density within 0.01, mean of ten seeds).
* `bump`, `sine`, `peak`: a sharp feature on a smooth trend; against the best of several starts of the same kernel (at
  most 20 nats lost in 19 of 20).
* `quiet`: 280 rows, 6 columns, 1 % noise; against the exact GP (log density within 0.05).
* `twonorm`: two normal classes in 20 columns; against a linear kernel (log loss within 0.002).

Rows are appended to `benchmarks/results/automatic.jsonl`, and a test checks what is stored.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(FOLDER / "bars"))
from storing import append_row, print_claims  # noqa: E402

RESULTS = FOLDER / "results" / "automatic.jsonl"
LOST = 20.0  # nats
STARTS = (0.03, 0.3)  # length-scales, in standardised columns


def fit(X: np.ndarray, y: np.ndarray, seed: int, *, classes: bool = False, **options: Any) -> tuple[Any, float]:
    """A fitted model, and the processor time that it took."""
    from knotwise import GPClassifier, GPRegressor

    estimator = (GPClassifier if classes else GPRegressor)(random_state=seed, progress=False, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.process_time()
        return estimator.fit(X, y), time.process_time() - start


def facts(gp: Any, seconds: float) -> dict[str, Any]:
    kernel = getattr(gp.kernel_, "kernel", gp.kernel_)  # of few of many columns
    return {
        "kernel": f"{type(kernel).__name__}{' per column' if np.ndim(kernel.lengthscale) else ''}",
        "n_knots": gp.n_knots_,
        "status": str(gp.status_),
        "processor_seconds": round(seconds, 2),
    }


def density(gp: Any, X: np.ndarray, y: np.ndarray) -> float:
    return float(gp.log_predictive_density(X, y).mean())


def sparse_columns(n_rows: int, seed: int) -> dict[str, Any]:
    """30 columns of which 3 matter, noise of 0.3 standard deviations of the signal."""
    rng = np.random.default_rng([seed, n_rows, 30])
    X = rng.uniform(size=(n_rows + 1000, 30))
    f = np.sin(6 * X[:, 0]) + 3 * X[:, 1] ** 2 + np.cos(4 * X[:, 2] + X[:, 0])
    y = f + 0.3 * f.std() * rng.standard_normal(len(f))
    gp, seconds = fit(X[:n_rows], y[:n_rows], seed)
    told, _ = fit(X[:n_rows, :3], y[:n_rows], seed)
    errors = [
        np.sqrt(np.mean((model.predict(inputs[n_rows:]) - y[n_rows:]) ** 2))
        for model, inputs in ((gp, X), (told, X[:, :3]))
    ]
    return facts(gp, seconds) | {"ratio": round(float(errors[0] / errors[1]), 4)}


def isotropic_rows(n_columns: int, n_rows: int, seed: int) -> tuple[np.ndarray, ...]:
    """A draw of the squared-exponential GP whose length-scale grows with the root of the columns: old and new rows."""
    from knotwise.kernels import SquaredExponential

    rng = np.random.default_rng([seed, n_rows, n_columns])
    X = rng.standard_normal((n_rows + 1000, n_columns))
    K = SquaredExponential(1.0, np.sqrt(n_columns))(X, X)
    f = np.linalg.cholesky(K + 1e-8 * np.eye(len(X))) @ rng.standard_normal(len(X))
    y = f + 0.3 * rng.standard_normal(len(X))
    return X[:n_rows], y[:n_rows], X[n_rows:], y[n_rows:]


def isotropic(n_columns: int, n_rows: int, seed: int) -> dict[str, Any]:
    """Such a draw, fitted by the default and by the kernel that drew it."""
    from knotwise.kernels import SquaredExponential

    X, y, X_new, y_new = isotropic_rows(n_columns, n_rows, seed)
    gp, seconds = fit(X, y, seed)
    told, _ = fit(X, y, seed, kernel=SquaredExponential())
    gain = density(gp, X_new, y_new) - density(told, X_new, y_new)
    return facts(gp, seconds) | {"gain": round(gain, 5)}


def feature_rows(kind: str, n_rows: int, seed: int, *, width: float) -> tuple[np.ndarray, ...]:
    """A smooth trend with a bump, a fast sine on a fifth of the range, or a peak in the plane; and as many new rows."""
    rng = np.random.default_rng([seed, n_rows, int(1e4 * width)])
    X = rng.uniform(size=(n_rows, 2 if kind == "peak" else 1))
    centre = rng.uniform(0.2, 0.8, size=X.shape[1])

    def observed(X: np.ndarray) -> np.ndarray:
        x = X[:, 0]
        if kind == "sine":
            sharp = np.where(np.abs(x - centre) < 0.1, np.sin(2 * np.pi * (x - centre) / width), 0.0)
        else:
            sharp = 3 * np.exp(-0.5 * ((X - centre) ** 2).sum(1) / width**2)
        return np.sin(3 * x) + X[:, -1] + sharp + 0.1 * rng.standard_normal(len(X))

    y = observed(X)
    X_new = rng.uniform(size=X.shape)
    return X, y, X_new, observed(X_new)


def feature(kind: str, n_rows: int, width: float, seed: int) -> dict[str, Any]:
    """Such a feature, fitted by the default and by the same kernel from several starts."""
    X, y, _, _ = feature_rows(kind, n_rows, seed, width=width)
    gp, seconds = fit(X, y, seed)
    kernel = type(gp.kernel_)
    kernels = [kernel(lengthscale=start, column_scales="standard") for start in STARTS]
    starts = [fit(X, y, seed, kernel=own)[0].log_evidence_ for own in kernels]
    return facts(gp, seconds) | {"lost": round(max(starts) - gp.log_evidence_, 2)}


def quiet_rows(n_rows: int, seed: int) -> tuple[np.ndarray, ...]:
    """Six columns, next to no noise: rows, and a thousand new ones."""
    rng = np.random.default_rng([seed, 6])
    X = rng.uniform(size=(n_rows + 1000, 6))
    f = np.sin(3 * X[:, 0] * X[:, 1]) + X[:, 2] ** 2 + np.cos(3 * X[:, 3]) * X[:, 4]
    y = f + 0.01 * f.std() * rng.standard_normal(len(f))
    return X[:n_rows], y[:n_rows], X[n_rows:], y[n_rows:]


def quiet(seed: int) -> dict[str, Any]:
    """280 rows, 6 columns, next to no noise: the best exact GP with a length-scale per column, by evidence."""
    from knotwise import kernels

    X, y, X_new, y_new = quiet_rows(280, seed)
    gp, seconds = fit(X, y, seed)
    names = ("SquaredExponential", "Matern52", "Matern32")
    exact = [fit(X, y, seed, kernel=getattr(kernels, name)(ard=True), approximation="full")[0] for name in names]
    best = max(exact, key=lambda model: model.log_evidence_)
    return facts(gp, seconds) | {"gain": round(density(gp, X_new, y_new) - density(best, X_new, y_new), 4)}


def twonorm(seed: int) -> dict[str, Any]:
    """Two normal classes in 20 columns, 6,660 rows: a linear function is right."""
    from knotwise.kernels import Linear

    rng = np.random.default_rng([seed, 20])
    labels = rng.integers(2, size=7400)
    X = rng.standard_normal((len(labels), 20)) + np.where(labels, 1, -1)[:, None] * 2 / np.sqrt(20)
    gp, seconds = fit(X[:6660], labels[:6660], seed, classes=True)
    linear, _ = fit(X[:6660], labels[:6660], seed, classes=True, kernel=Linear())
    excess = density(linear, X[6660:], labels[6660:]) - density(gp, X[6660:], labels[6660:])
    return facts(gp, seconds) | {"excess": round(excess, 5)}


#: case: how it is measured, seeds, and the claim about its rows
CASES: dict[str, tuple[Callable[[int], dict[str, Any]], int]] = {
    **{f"sparse_columns {n}": (partial(sparse_columns, n), 3) for n in (300, 7000)},
    **{f"isotropic {d} {n}": (partial(isotropic, d, n), 10) for n in (500, 3000) for d in (2, 8, 20)},
    **{f"bump {w} {n}": (partial(feature, "bump", n, w), 20) for n in (2000, 5000) for w in (0.01, 0.005)},
    "sine 0.02 2000": (partial(feature, "sine", 2000, 0.02), 20),
    "peak 0.02 2000": (partial(feature, "peak", 2000, 0.02), 20),
    "quiet": (quiet, 5),
    "twonorm": (twonorm, 2),
}


def judge(case: str, rows: list[dict[str, Any]]) -> dict[str, bool]:
    """The claim about the rows of a case."""
    kind = case.split(maxsplit=1)[0]
    if kind == "sparse_columns":
        worst = float(np.mean([row["ratio"] for row in rows]))
        return {f"error {worst:.3f} of that of the fit that is told the columns": worst <= 1.05}
    if kind == "isotropic":
        gain = float(np.mean([row["gain"] for row in rows]))
        return {f"log density {gain:+.4f} against the isotropic kernel": gain >= -0.01}
    if kind == "quiet":
        gain = float(np.mean([row["gain"] for row in rows]))
        return {f"log density {gain:+.4f} against the exact GP": gain >= -0.05}
    if kind == "twonorm":
        excess = float(np.mean([row["excess"] for row in rows]))
        return {f"log loss {excess:+.4f} against a linear kernel": excess <= 0.002}
    missed = [row for row in rows if row["lost"] > LOST]
    most = max(1, len(rows) // 20)
    return {
        f"more than {LOST:g} nats lost in {len(missed)} of {len(rows)}": len(missed) <= most,
        "and then said": all(row["status"] not in ("converged", "no signal") for row in missed),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--out", type=Path, default=RESULTS, help="file to which the rows are appended")
    parser.add_argument("--only", nargs="*", default=[], help="cases whose names begin so")
    parser.add_argument("--seeds", type=int, default=None, help="number of seeds, if fewer are wanted")
    options = parser.parse_args()
    for case, (measure, n_seeds) in CASES.items():
        if options.only and not case.startswith(tuple(options.only)):
            continue
        rows = []
        for seed in range(min(n_seeds, options.seeds or n_seeds)):
            rows.append({"case": case, "seed": seed} | measure(seed))
            append_row(options.out, rows[-1])
            print(rows[-1], flush=True)
        print_claims({f"{case}: {claim}": holds for claim, holds in judge(case, rows).items()})


if __name__ == "__main__":
    main()
