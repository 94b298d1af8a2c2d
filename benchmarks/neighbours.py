"""Neighbours: time of an evidence with its gradient, and what the order and the choice of neighbours do.

    python benchmarks/neighbours.py            # all parts
    python benchmarks/neighbours.py time       # seconds, wall and processor, for 10,000 to 160,000 rows
    python benchmarks/neighbours.py predict    # milliseconds for one row, and for a row of a batch, after 100,000 rows
    python benchmarks/neighbours.py order      # divergence from the exact GP and held-out density

Rows are appended to results/neighbours.jsonl. Times are the best of a few; `load` is the load average of the machine,
on which other work may run, so processor seconds are the ones to compare.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from bars.storing import append_row
from knotwise import GPRegressor
from knotwise.evidence import Jitter, Model, Rows, full_evidence, sparse_evidence
from knotwise.evidence.residual import Neighbours, vecchia_ordering
from knotwise.kernels import Matern32
from knotwise.likelihoods import Gaussian
from knotwise.means import Zero
from knotwise.numerics.blocks import executor_for
from knotwise.numerics.nearest import MISSING, nearest_earlier, random_order
from knotwise.optimize import LBFGS
from knotwise.posterior.exact import ExactPosterior
from knotwise.posterior.vecchia import VecchiaPosterior, VecchiaState

RESULTS = Path(__file__).parent / "results" / "neighbours.jsonl"
#: so many rows of an order are chosen for their distance from those before them
MAXMIN_ROWS = 4000
#: length-scales of 8 columns: some matter much, some little
EIGHT = 0.5 * np.array([1.0, 1.0, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])


def coordinate_order(points: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The rows by the coordinate that varies most, [N]; of equal rows the first."""
    return np.argsort(points[:, np.argmax(points.var(0))], kind="stable")


def maxmin_order(points: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The rows so that each is the farthest from those before it, [N]; the first and all after `MAXMIN_ROWS` at random.

    Takes O(N) for each of the rows that are chosen by their distance.
    """
    shuffled = rng.permutation(len(points))
    here = points[shuffled]
    far = np.full(len(points), np.inf)  # squared distance from those that are chosen
    chosen: list[int] = []
    place = 0
    while len(chosen) < min(MAXMIN_ROWS, len(points)):
        chosen.append(place)
        np.minimum(far, ((here - here[place]) ** 2).sum(1), out=far)
        far[place] = -1.0
        place = int(np.argmax(far))
    rest = np.ones(len(points), bool)
    rest[chosen] = False
    return shuffled[np.concatenate([np.array(chosen, int), np.flatnonzero(rest)])]


ORDERS = {"random": random_order, "maxmin": maxmin_order, "coordinate": coordinate_order}


def time_evidence(n_rows: int, n_knots: int = 100, n_neighbors: int = 15, rounds: int = 3) -> None:
    """Time value and gradient with 8 columns, on one and on two threads."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(n_rows, 8))
    rows = Rows(X, np.sin(6 * X[:, 0]) + 0.1 * rng.normal(size=n_rows), None, np.empty((n_rows, 0)))
    model = Model(Matern32(1.0, EIGHT), Gaussian(0.05), Zero())
    begin = time.perf_counter()
    found = vecchia_ordering(model.kernel, rows, n_neighbors, rng)
    graph_seconds = time.perf_counter() - begin
    rows, near = rows[found.rows], replace(model, residual=found.residual)
    Z = X[rng.choice(n_rows, n_knots, replace=False)]
    for name, model_ in (("neighbours", near), ("knots only", model)):
        for n_threads in (1, 2):
            wall, cpu, value = [], [], 0.0
            with executor_for(n_threads) as executor:
                for _ in range(rounds + 1):  # the first prepares what belongs to the graph
                    begin, begin_cpu = time.perf_counter(), time.process_time()
                    value = sparse_evidence(model_, rows, Z, jitter=Jitter(1e-8, X[:1]), executor=executor).value
                    wall.append(time.perf_counter() - begin)
                    cpu.append(time.process_time() - begin_cpu)
            row = {"part": "time", "model": name, "N": n_rows, "K": n_knots, "m": n_neighbors, "threads": n_threads}
            row |= {"seconds": round(min(wall[1:]), 3), "cpu_seconds": round(min(cpu[1:]), 3)}
            row |= {"graph_seconds": round(graph_seconds, 2), "load": round(os.getloadavg()[0], 1), "value": value}
            print(row, flush=True)
            append_row(RESULTS, row)


def time_predictions(likelihood: str, n_rows: int = 100_000, batch: int = 10_000, calls: int = 50) -> None:
    """Time predictions of one row (the median call), and of a batch, from a model of many rows in 8 columns."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(n_rows + batch, 8))
    f = np.sin(6 * X[:, 0]) + np.cos(9 * X[:, 1])
    y = f + 0.1 * rng.normal(size=len(f)) if likelihood == "gaussian" else rng.poisson(np.exp(f))
    gp = GPRegressor(
        Matern32(1.0, EIGHT, column_scales="standard"),
        knots=100,
        n_neighbors=15,
        likelihood=likelihood,
        optimizer=LBFGS(max_iterations=2),
        random_state=0,
        progress=False,
    )
    gp.fit(X[:n_rows], y[:n_rows])
    new, y_new = X[n_rows:], y[n_rows:]
    asked = {
        "mean": lambda rows: gp.predict(new[rows]),
        "standard deviation": lambda rows: gp.predict(new[rows], return_std=True),
        "interval": lambda rows: gp.predict_interval(new[rows]),
        "density": lambda rows: gp.log_predictive_density(new[rows], y_new[rows]),
    }
    for name, ask in asked.items():
        ask(slice(0, 1))  # what is prepared once is not counted
        singles = []
        for i in range(calls):
            begin = time.perf_counter()
            ask(slice(i, i + 1))
            singles.append(time.perf_counter() - begin)
        begin = time.perf_counter()
        ask(slice(None))
        row = {"part": "predict", "likelihood": likelihood, "asked": name, "N": n_rows, "K": gp.n_knots_}
        row |= {"m": gp.n_neighbors_, "one_row_ms": round(1e3 * float(np.median(singles)), 3)}
        row |= {"batch_ms_per_row": round(1e3 * (time.perf_counter() - begin) / batch, 4)}
        row["load"] = round(os.getloadavg()[0], 1)
        print(row, flush=True)
        append_row(RESULTS, row)


def by_correlation(model: Model, rows: Rows, Z: np.ndarray, order: np.ndarray, m: int) -> np.ndarray:
    """The earlier rows whose residuals, given the knots, are most correlated with that of a row."""
    kernel = model.kernel
    C = kernel(rows.X) - kernel(rows.X, Z) @ np.linalg.solve(kernel(Z) + 1e-8 * np.eye(len(Z)), kernel(Z, rows.X))
    sd = np.sqrt(np.maximum(C.diagonal(), 1e-12))
    correlation = np.abs(C) / np.outer(sd, sd)
    graph = np.full((len(rows), m), MISSING)
    for place in range(1, len(rows)):
        earlier = order[:place]
        best = earlier[np.argsort(-correlation[order[place], earlier], kind="stable")[:m]]
        graph[order[place], : len(best)] = best
    return graph


def compare_orders(n_columns: int, seed: int, n_rows: int = 2000, n_new: int = 500, n_knots: int = 50) -> None:
    """Draw a function, and compare approximations with the exact GP at the parameters that drew it.

    `kl_per_row` is the divergence of the model of the targets from the exact one, estimated as the difference of log
    densities of 20 vectors drawn from the exact GP, for each row.
    """
    rng = np.random.default_rng(seed)
    kernel = Matern32(1.0, np.array([0.15, 0.3]) if n_columns == 2 else EIGHT)
    noise = 0.01
    X = rng.uniform(size=(n_rows + n_new, n_columns))
    L = np.linalg.cholesky(kernel(X) + 1e-10 * np.eye(len(X)))
    draws = L @ rng.normal(size=(len(X), 21)) + np.sqrt(noise) * rng.normal(size=(len(X), 21))
    model = Model(kernel, Gaussian(noise), Zero())
    rows = Rows(X[:n_rows], draws[:n_rows, 0], None, np.empty((n_rows, 0)))
    Z, jitter = X[rng.choice(n_rows, n_knots, replace=False)], Jitter(1e-8, X[:1])
    exact = [full_evidence(model, replace(rows, y=y), gradient=False) for y in draws[:n_rows].T]

    def density(posterior) -> float:
        latent = posterior.latent(X[n_rows:])
        v = latent.variance + noise
        return float(-0.5 * np.mean(np.log(2 * np.pi * v) + (draws[n_rows:, 0] - latent.mean) ** 2 / v))

    best = density(ExactPosterior(exact[0].state))
    for m in (5, 15, 30):
        for name, order in ORDERS.items():
            for choice in ("distance", "correlation"):
                found = vecchia_ordering(kernel, rows, m, np.random.default_rng(seed), order=order)
                inside = rows[found.rows]
                points = kernel.coordinates(inside.X)
                ranks = order(points, np.random.default_rng(seed))
                graph = (
                    nearest_earlier(points, ranks, m)
                    if choice == "distance"
                    else by_correlation(model, inside, Z, ranks, m)
                )
                near = replace(model, residual=Neighbours(graph))
                values = [
                    sparse_evidence(near, replace(inside, y=y[found.rows]), Z, jitter=jitter, gradient=False)
                    for y in draws[:n_rows].T
                ]
                gaps = [a.value - b.value for a, b in zip(exact[1:], values[1:], strict=True)]
                row = {"part": "order", "D": n_columns, "N": n_rows, "K": n_knots, "m": m, "seed": seed}
                row |= {"order": name, "choice": choice, "kl_per_row": round(float(np.mean(gaps)) / n_rows, 6)}
                row["standard_error"] = round(float(np.std(gaps) / np.sqrt(len(gaps)) / n_rows), 6)
                if choice == "distance":
                    left = best - density(VecchiaPosterior(VecchiaState.of(values[0].state, inside)))
                    row["held_out_loss"] = round(left, 6)
                print(row, flush=True)
                append_row(RESULTS, row)


def main(parts: list[str]) -> None:
    if "order" in parts or not parts:
        for n_columns in (2, 8):
            compare_orders(n_columns, seed=0)
    if "time" in parts or not parts:
        for n_rows in (10_000, 40_000, 160_000):
            time_evidence(n_rows)
    if "predict" in parts or not parts:
        for likelihood in ("gaussian", "poisson"):
            time_predictions(likelihood)


if __name__ == "__main__":
    main(sys.argv[1:])
