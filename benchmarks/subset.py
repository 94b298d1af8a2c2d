"""When do some of the rows tell as much as all of them? Fits of more and more rows in memory, against the truth.

Run `python benchmarks/subset.py [--rows 10000,100000,1000000] [--store]`. A smooth function and one with three times
its frequencies are seen with noise of standard deviation 0.2 and of 2; automatic fits are compared with the truth on
20,000 fresh rows. Printed is what each fit loses against the truth, and how many times what the fit to most rows loses.
`--store` appends to `benchmarks/results/subset.jsonl`.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).resolve().parent
sys.path[:0] = [str(FOLDER), str(FOLDER / "bars")]

RESULTS = FOLDER / "results" / "subset.jsonl"
FRESH = 20_000
CASES = {"smooth": (1.0, 0.04), "rough": (3.0, 0.04), "smooth, much noise": (1.0, 4.0), "rough, much noise": (3.0, 4.0)}


def measure(case: str, n_rows: int, seed: int) -> dict[str, Any]:
    """Fit so many rows, and compare with the truth."""
    from knotwise import GPRegressor
    from simulated import Simulation

    roughness, noise = CASES[case]
    simulation = Simulation("gaussian", roughness, noise)
    X, y = simulation.draw(n_rows, np.random.default_rng([seed, 5]))
    start = time.perf_counter()
    gp = GPRegressor(random_state=seed).fit(X, y)
    seconds = time.perf_counter() - start
    truth = simulation.compare(gp, FRESH, seed)
    return {
        "case": case,
        "rows": n_rows,
        "seed": seed,
        "seconds": round(seconds, 1),
        "knots": gp.n_knots_,
        "status": str(gp.status_),
        **{name: float(f"{value:.5g}") for name, value in truth.items()},
        "load": os.getloadavg()[1],
    }


def latest(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The last row of each case and number of rows, in the order of the cases."""
    found = {(list(CASES).index(row["case"]), row["rows"]): row for row in rows}
    return [found[key] for key in sorted(found)]


def table(rows: list[dict[str, Any]]) -> list[str]:
    """Errors and lost densities, and how many times those of the fit to most rows they are."""
    lines = ["| function | rows | knots | seconds | error | density lost, nats a row |", "|---" * 6 + "|"]
    for row in rows:
        last = max((other for other in rows if other["case"] == row["case"]), key=lambda other: other["rows"])
        error, lost = row["error"] / last["error"], row["density_lost"] / last["density_lost"]
        lines.append(
            f"| {row['case']} | {row['rows']:,} | {row['knots']} | {row['seconds']:.0f} | {row['error']:.3g} "
            f"({error:.1f} times) | {row['density_lost']:.2g} ({lost:.1f} times) |"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description="Fits of more and more rows against the truth.")
    parser.add_argument("--rows", default="10000,100000,1000000", help="numbers of rows, between commas")
    parser.add_argument("--cases", default=";".join(CASES), help=f"between semicolons: {'; '.join(CASES)}")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--store", action="store_true", help=f"append rows to {RESULTS.name}")
    given = parser.parse_args()
    rows = []
    for case in given.cases.split(";"):
        for n_rows in map(int, given.rows.split(",")):
            rows.append(measure(case.strip(), n_rows, given.seed))
            print(rows[-1], flush=True)
            if given.store:
                from storing import append_row

                append_row(RESULTS, rows[-1])
    print("\n".join(table(rows)))


if __name__ == "__main__":
    main()
