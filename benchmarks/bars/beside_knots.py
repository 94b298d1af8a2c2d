"""Where the default has neighbours, are they ever worse than knots alone?

Run `python benchmarks/bars/beside_knots.py`; `--only steps walk` for some sets. Simulated sets of 6,000 rows and 2,000
new ones, of many kinds: rough and smooth functions of 1 to 8 columns, noise that varies or has heavy tails, rows in
clusters, functions with steps or smooth in one half only, counts and classes. The default is fitted and, if it has
neighbours, the same with `n_neighbors=0`. The claim: in no set is its mean negative log density of the new rows higher
than that of knots alone by more than 0.01. Rows are appended to `benchmarks/results/beside_knots.jsonl`, and a test
checks what is stored.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(FOLDER / "bars"))
from storing import append_row, print_claims  # noqa: E402

from neighbours import compared, matern_waves  # noqa: E402

RESULTS = FOLDER / "results" / "beside_knots.jsonl"
N_ROWS, N_NEW = 6000, 2000
SEEDS = range(2)
WORSE = 0.01

Rng = np.random.Generator


def uniform(n_columns: int, rng: Rng) -> np.ndarray:
    return rng.uniform(size=(N_ROWS + N_NEW, n_columns))


def noisy(f: np.ndarray, sd: float | np.ndarray, rng: Rng) -> np.ndarray:
    return f + sd * rng.standard_normal(len(f))


def field(n_columns: int, lengthscale: float, sd: float, rng: Rng) -> tuple[np.ndarray, np.ndarray]:
    """A draw of a Matern 3/2 field."""
    X = uniform(n_columns, rng)
    return X, noisy(matern_waves(3.0, lengthscale, X, rng), sd, rng)


def varying_noise(rng: Rng) -> tuple[np.ndarray, np.ndarray]:
    X = uniform(2, rng)
    return X, noisy(matern_waves(3.0, 0.06, X, rng), 0.5 * X[:, 0] ** 2, rng)


def heavy_tails(rng: Rng) -> tuple[np.ndarray, np.ndarray]:
    X = uniform(2, rng)
    return X, matern_waves(3.0, 0.08, X, rng) + 0.2 * rng.standard_t(3, size=len(X))


def clusters(rng: Rng) -> tuple[np.ndarray, np.ndarray]:
    """Rows around 60 places."""
    places = rng.uniform(size=(60, 2))
    X = places[rng.integers(60, size=N_ROWS + N_NEW)] + 0.02 * rng.standard_normal((N_ROWS + N_NEW, 2))
    return X, noisy(np.sin(40 * X[:, 0]) * np.cos(35 * X[:, 1]), 0.2, rng)


def steps(rng: Rng) -> tuple[np.ndarray, np.ndarray]:
    """A board of squares, each with its own level."""
    X = uniform(2, rng)
    levels = rng.standard_normal((8, 8))
    return X, noisy(levels[tuple((8 * X).astype(int).T)], 0.2, rng)


def half_smooth(rng: Rng) -> tuple[np.ndarray, np.ndarray]:
    """Rough in one half of the plane, and nearly flat in the other."""
    X = uniform(2, rng)
    return X, noisy(np.where(X[:, 0] < 0.5, matern_waves(3.0, 0.04, X, rng), np.sin(3 * X[:, 1])), 0.2, rng)


def walk(rng: Rng) -> tuple[np.ndarray, np.ndarray]:
    """A random walk in time."""
    x = np.sort(rng.uniform(size=N_ROWS + N_NEW))
    f = 3 * np.cumsum(rng.standard_normal(len(x)) * np.sqrt(np.diff(x, prepend=0.0)))
    order = rng.permutation(len(x))
    return x[order, None], noisy(f, 0.3, rng)[order]


def friedman(rng: Rng) -> tuple[np.ndarray, np.ndarray]:
    """A smooth function of five columns, and three that do not matter."""
    X = uniform(8, rng)
    f = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    return X, noisy(f / 5, 0.2, rng)


def counts(n_columns: int, lengthscale: float, rng: Rng) -> tuple[np.ndarray, np.ndarray]:
    X = uniform(n_columns, rng)
    return X, rng.poisson(np.exp(0.5 + matern_waves(3.0, lengthscale, X, rng))).astype(float)


def classes(n_columns: int, lengthscale: float, rng: Rng) -> tuple[np.ndarray, np.ndarray]:
    X = uniform(n_columns, rng)
    f = 4 * matern_waves(3.0, lengthscale, X, rng)
    return X, (rng.uniform(size=len(X)) < 1 / (1 + np.exp(-f))).astype(float)


#: set: how it is drawn, and the likelihood
SETS: dict[str, tuple[Callable[[Rng], tuple[np.ndarray, np.ndarray]], str]] = {
    "field, 3 columns": (lambda rng: field(3, 0.15, 0.3, rng), "gaussian"),
    "field, 5 columns": (lambda rng: field(5, 0.5, 0.1, rng), "gaussian"),
    "varying noise": (varying_noise, "gaussian"),
    "heavy tails": (heavy_tails, "gaussian"),
    "clusters": (clusters, "gaussian"),
    "steps": (steps, "gaussian"),
    "half smooth": (half_smooth, "gaussian"),
    "walk": (walk, "gaussian"),
    "friedman": (friedman, "gaussian"),
    "counts, 2 columns": (lambda rng: counts(2, 0.05, rng), "poisson"),
    "counts, 3 columns": (lambda rng: counts(3, 0.2, rng), "poisson"),
    "classes, 2 columns": (lambda rng: classes(2, 0.06, rng), "bernoulli"),
    "classes, 3 columns": (lambda rng: classes(3, 0.2, rng), "bernoulli"),
}


def measure(name: str, seed: int) -> dict[str, Any]:
    """The default and, where it has neighbours, knots alone."""
    draw, likelihood = SETS[name]
    X, y = draw(np.random.default_rng([seed, 14]))
    data = X[:N_ROWS], y[:N_ROWS], X[N_ROWS:], y[N_ROWS:]
    found = compared({"default": {"likelihood": likelihood}}, data, seed)
    if found["default"]["neighbors"]:
        found |= compared({"knots alone": {"likelihood": likelihood, "n_neighbors": 0}}, data, seed)
    return {"set": name, "seed": seed} | found


def judge(rows: list[dict[str, Any]]) -> dict[str, bool]:
    """The claim about all rows with neighbours."""
    worse = {
        f"{row['set']}, seed {row['seed']}": row["default"]["nlpd"] - row["knots alone"]["nlpd"]
        for row in rows
        if row["default"]["neighbors"]
    }
    worst = max(worse, key=worse.__getitem__)
    text = (
        f"{len(worse)} of {len(rows)} fits have neighbours; beside knots alone at worst {worse[worst]:+.4f} ({worst})"
    )
    return {text: worse[worst] <= WORSE}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--out", type=Path, default=RESULTS, help="file to which the rows are appended")
    parser.add_argument("--only", nargs="*", default=[], help="sets whose names begin so")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS), help="simulations")
    options = parser.parse_args()
    rows = []
    for name in SETS:
        if options.only and not name.startswith(tuple(options.only)):
            continue
        for seed in options.seeds:
            rows.append(measure(name, seed))
            append_row(options.out, rows[-1])
            print(rows[-1], flush=True)
    if any(row["default"]["neighbors"] for row in rows):
        print_claims(judge(rows))


if __name__ == "__main__":
    main()
