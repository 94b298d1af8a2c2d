"""A million rows in memory, with plain defaults: memory, how time grows, and whether all that is said agrees.

Run `python benchmarks/bars/many_rows.py`; `--only smooth` for one function. Rows are uniform in two columns, of a
smooth function and of one that waves fast in a corner, with noise of 0.3; 100,000 and 1,000,000 of them, each fit in a
process of its own. Claims:

* over the data, a fit takes less than 500 MB;
* processor time grows with at most the 1.05th power of the rows;
* status, reason and diagnosis agree, and the fit has converged;
* the target holds its promise: fresh rows are predicted with at most 0.005 nats less than by the function that drew
  them, which is what a share of 0.01 of the variance of an observation can cost.

Rows are appended to `benchmarks/results/many_rows.jsonl`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(FOLDER), str(FOLDER / "bars")]
from storing import append_row, print_claims  # noqa: E402

from memory import peak_during, resident, run_child  # noqa: E402

RESULTS = FOLDER / "results" / "many_rows.jsonl"
FEW, MANY = 100_000, 1_000_000
NOISE, FRESH_ROWS = 0.3, 20_000
MOST_MB, EXPONENT, EXCESS = 500.0, 1.05, 0.005


def smooth(X: np.ndarray) -> np.ndarray:
    return np.sin(6 * X[:, 0]) + np.cos(5 * X[:, 1])


def waves(X: np.ndarray) -> np.ndarray:
    return np.sin(15 * X[:, 0] * X[:, 1]) + 0.5 * np.cos(12 * X[:, 1])


FUNCTIONS = {"smooth": smooth, "waves": waves}


def draw(name: str, n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows, made block by block, so that no temporary is large."""
    rng = np.random.default_rng(seed)
    X, y = np.empty((n_rows, 2)), np.empty(n_rows)
    for start in range(0, n_rows, 10_000):
        rows = slice(start, start + 10_000)
        rng.random(out=X[rows])
        y[rows] = FUNCTIONS[name](X[rows]) + NOISE * rng.standard_normal(len(y[rows]))
    return X, y


def measure(*, name: str, n_rows: int) -> dict[str, Any]:
    """One fit in this process: its memory over the data, processor time, and what it says."""
    from knotwise import GPRegressor

    def fit(X: np.ndarray, y: np.ndarray) -> Any:
        return GPRegressor(random_state=0, progress=False).fit(X, y)

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        fit(*draw(name, 300, 1))  # loads what is loaded at first use
        X, y = draw(name, n_rows, 0)
        before, start = resident(), time.process_time()
        gp, peak = peak_during(lambda: fit(X, y))
        seconds = time.process_time() - start
    findings = {finding.name: finding.level for finding in gp.diagnose().findings}
    X_new, y_new = draw(name, FRESH_ROWS, 2)
    truth = -0.5 * ((y_new - FUNCTIONS[name](X_new)) / NOISE) ** 2 - np.log(NOISE * np.sqrt(2 * np.pi))
    return {
        "mb": round((peak - before) / 1e6, 1),
        "seconds": round(seconds, 1),
        "knots": gp.n_knots_,
        "neighbors": gp.n_neighbors_,
        "status": gp.status_,
        "converged": bool(gp.converged_),
        "stop_reason": gp.stop_reason_,
        "warnings": [str(warning.message) for warning in told],
        "findings": findings,
        "excess": round(float((truth - gp.log_predictive_density(X_new, y_new)).mean()), 5),
    }


def judge(name: str, few: dict[str, Any], many: dict[str, Any]) -> dict[str, bool]:
    """Which claims hold for the two fits of one function."""
    exponent = np.log(many["seconds"] / few["seconds"]) / np.log(MANY / FEW)
    agree = all(
        row["converged"] and row["status"] == "converged" and not row["warnings"] and "needed" not in row["stop_reason"]
        and "problem" not in row["findings"].values()
        for row in (few, many)
    )  # fmt: skip
    excess = max(few["excess"], many["excess"])
    return {
        f"{name}: less than {MOST_MB:.0f} MB over the data ({many['mb']})": many["mb"] < MOST_MB,
        f"{name}: processor time grows with the power {exponent:.3f} of the rows, at most {EXPONENT}": bool(
            exponent <= EXPONENT
        ),
        f"{name}: status, reason, warnings and diagnosis agree": agree,
        f"{name}: fresh rows lose at most {EXCESS} nats against the truth ({excess})": excess <= EXCESS,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--out", type=Path, default=RESULTS, help="file to which the rows are appended")
    parser.add_argument("--only", nargs="*", default=list(FUNCTIONS), help="functions")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        print(json.dumps(measure(**json.loads(given.child))))
        return
    for name in given.only:
        fits = {}
        for n_rows in (FEW, MANY):
            fits[n_rows] = run_child(__file__, {"name": name, "n_rows": n_rows})
            append_row(given.out, {"case": name, "rows": n_rows} | fits[n_rows])
            print(name, n_rows, fits[n_rows], flush=True)
        print_claims(judge(name, fits[FEW], fits[MANY]))


if __name__ == "__main__":
    main()
