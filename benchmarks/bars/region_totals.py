"""Totals over regions of simulated point patterns: do their intervals cover?

Run `python benchmarks/bars/region_totals.py`. A pattern is a log-Gaussian Cox process in a polygon: the log intensity
is a slope times a covariate (elevation) and a draw of a Matern 3/2 process (standard deviation 0.6, length-scale 0.25)
by random waves, at the level at which 400 points are expected. Points are counted in cells of 1/20 of the square around
the polygon, clipped at its border, and fitted with a trend in the covariate and a Matern 3/2 kernel of x and y.

The total of a region is the *expected* number of points in it given the intensity, that is the integral of the
simulated intensity over it, for which `predict_total(kind="mean")` has an interval. Five regions are not made of the
cells of the fit: four quarters of the polygon, and a disc in its middle, whose border cuts cells. The claim over 100
seeds: the 95 % intervals hold the true total in 90 to 99 %. Rows are appended to
`benchmarks/results/region_totals.jsonl`, and a test checks what is stored.
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
from near_sites import rough_function  # noqa: E402
from storing import append_row, print_claims  # noqa: E402

SEEDS = range(100)
CORNERS = [(0.0, 0.1), (0.55, 0.0), (1.0, 0.3), (0.9, 1.0), (0.6, 0.75), (0.25, 0.95)]
EXPECTED, SLOPE, SD, LENGTHSCALE = 400.0, 0.8, 0.6, 0.25
CELL, FINE = 1 / 20, 1 / 300
RATE = 20_000.0  # of candidates in the unit square, of which a pattern keeps some
COVERAGE = (0.90, 0.99)
RESULTS = FOLDER / "results" / "region_totals.jsonl"


def elevation(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The covariate."""
    return x + 0.5 * np.sin(5 * y)


def window_and_regions() -> tuple[Any, dict[str, Any]]:
    """The polygon, its four quarters and a disc."""
    import shapely

    window = shapely.Polygon(CORNERS)
    halves = ((0.0, 0.5), (0.5, 1.0))
    quarters = {
        f"{ns}-{ew}": window & shapely.box(west, south, east, north)
        for ns, (south, north) in zip(("south", "north"), halves, strict=True)
        for ew, (west, east) in zip(("west", "east"), halves, strict=True)
    }
    return window, quarters | {"disc": shapely.Point(0.5, 0.45).buffer(0.25)}


def simulate(seed: int) -> tuple[np.ndarray, dict[str, float]]:
    """Points of a pattern, and the integral of its intensity over each region, by a fine sum."""
    import shapely

    window, regions = window_and_regions()
    rng = np.random.default_rng([seed, 41])
    side = np.arange(FINE / 2, 1, FINE)
    fine = np.stack(np.meshgrid(side, side), -1).reshape(-1, 2)
    n_candidates = rng.poisson(RATE)
    places = np.vstack([fine, rng.uniform(size=(n_candidates, 2))])  # the same waves at both
    f = SLOPE * elevation(*places.T) + rough_function(places, LENGTHSCALE, SD, rng, n=400)
    relative = np.exp(f) * shapely.contains_xy(window, *places.T)
    intensity = EXPECTED * relative / (relative[: len(fine)].sum() * FINE**2)
    own = intensity[len(fine) :]
    assert own.max() < RATE, "candidates must be denser than the pattern"
    points = places[len(fine) :][rng.uniform(size=n_candidates) < own / RATE]
    truth = {
        name: float(intensity[: len(fine)][shapely.contains_xy(shape, *fine.T)].sum() * FINE**2)
        for name, shape in regions.items()
    }
    return points, truth


def measure(seed: int) -> dict[str, Any]:
    """The true totals of one pattern, and their intervals."""
    from knotwise import GPRegressor
    from knotwise.kernels import Matern32
    from knotwise.means import Linear
    from knotwise.spatial import count_points, predict_total

    window, regions = window_and_regions()
    points, truth = simulate(seed)
    covariates = {"elevation": elevation}
    start = time.process_time()
    cells = count_points(points, window, cell=CELL, covariates=covariates)
    gp = GPRegressor(
        Matern32().on(["x", "y"]),
        likelihood="poisson",
        mean=Linear(columns=["elevation"]),
        random_state=seed,
        n_jobs=1,
        progress=False,
    )
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        gp.fit(cells.X, cells.count, exposure=cells.area)
        totals = predict_total(gp, regions, cell=CELL / 2, covariates=covariates, random_state=seed)
    true = np.array([truth[name] for name in totals.group])
    return {
        "points": len(points),
        "cells": len(cells),
        "knots": gp.n_knots_,
        "covered": ((totals.lower <= true) & (true <= totals.upper)).tolist(),
        "true": true.round(2).tolist(),
        "estimate": totals.estimate.round(2).tolist(),
        "relative_width": round(float(np.mean((totals.upper - totals.lower) / true)), 4),
        "warned": len(warned),
        "seconds": round(time.process_time() - start, 2),
    }


def judge(rows: list[dict[str, Any]]) -> dict[str, bool]:
    """Whether the claim holds for the rows of all seeds."""
    coverage = float(np.mean([row["covered"] for row in rows]))
    low, high = COVERAGE
    return {f"95 % intervals cover in {low:.0%} to {high:.0%} ({coverage:.1%})": low <= coverage <= high}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--out", type=Path, default=RESULTS, help="file to which the rows are appended")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS), help="simulations")
    options = parser.parse_args()
    rows = []
    for seed in options.seeds:
        rows.append(measure(seed))
        append_row(options.out, {"seed": seed} | rows[-1])
        print(seed, rows[-1], flush=True)
    print_claims(judge(rows))


if __name__ == "__main__":
    main()
