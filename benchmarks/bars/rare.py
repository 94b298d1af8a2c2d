"""Four events in 400 rows: is the rate kept, does the order of the rows matter, and is the user told?

Run `python benchmarks/bars/rare.py`. Events fall on rows drawn at random, as labels and as counts; knots are automatic,
or the GP is exact. The claims, for each of these over 20 seeds: the mean prediction, at the rows and at new ones, is
within a factor 2 of the rate in at least 19; three orders of the rows give the same predictions, of the response and of
f, to 1e-10; and each fit warns that the data carry little information. Rows are appended to
`benchmarks/results/rare.jsonl`, and a test checks what is stored.
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
from storing import append_row, print_claims  # noqa: E402

N_SEEDS, N_ROWS, N_EVENTS = 20, 400, 4
FACTOR, ENOUGH, MOVED = 2.0, 19, 1e-10
KINDS = ("classifier", "bernoulli", "poisson")
APPROXIMATIONS = ("vfe", "full")
RESULTS = FOLDER / "results" / "rare.jsonl"


def draw(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs, events (0 or 1) and new inputs."""
    rng = np.random.default_rng([seed, N_ROWS])
    X, y = rng.uniform(size=(N_ROWS, 2)), np.zeros(N_ROWS)
    y[rng.choice(N_ROWS, N_EVENTS, replace=False)] = 1.0
    return X, y, rng.uniform(size=(N_ROWS, 2))


def orders(seed: int) -> list[np.ndarray]:
    """As drawn, reversed, shuffled."""
    rows = np.arange(N_ROWS)
    return [rows, rows[::-1], np.random.default_rng([seed, 3]).permutation(N_ROWS)]


def predictions(kind: str, approximation: str, X: np.ndarray, y: np.ndarray, at: np.ndarray) -> tuple[Any, ...]:
    """Mean responses and latent moments, and whether the fit warned of little information."""
    from knotwise import GPClassifier, GPRegressor

    options: dict[str, Any] = {"approximation": approximation, "random_state": 0, "n_jobs": 1, "progress": False}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if kind == "classifier":
            gp: Any = GPClassifier(**options).fit(X, y)
        else:
            gp = GPRegressor(likelihood=kind, **options).fit(X, y)
    told = any("carry little information" in str(each.message) for each in caught)
    response = gp.predict_proba(at)[:, 1] if kind == "classifier" else gp.predict(at)
    latent = gp.predict_latent(at)
    return response, np.concatenate([latent.mean, latent.variance]), told


def measure(kind: str, approximation: str, seed: int) -> dict[str, Any]:
    """Mean predictions over the rate, and how far they move with the order of the rows."""
    X, y, new = draw(seed)
    first, *others = [
        predictions(kind, approximation, X[order], y[order], np.concatenate([X, new])) for order in orders(seed)
    ]
    rate = N_EVENTS / N_ROWS
    return {
        "ratio_at_rows": round(float(first[0][:N_ROWS].mean() / rate), 5),
        "ratio_at_new": round(float(first[0][N_ROWS:].mean() / rate), 5),
        "largest": round(float(first[0].max()), 5),
        "moved_response": max(float(np.abs(other[0] - first[0]).max()) for other in others),
        "moved_latent": max(float(np.abs(other[1] - first[1]).max()) for other in others),
        "told": all(each[2] for each in (first, *others)),
    }


def judge(rows: list[dict[str, Any]]) -> dict[str, bool]:
    """The three claims of one kind of data and approximation."""
    near = sum(all(1 / FACTOR <= row[f"ratio_at_{where}"] <= FACTOR for where in ("rows", "new")) for row in rows)
    moved = max(max(row["moved_response"], row["moved_latent"]) for row in rows)
    return {
        f"the rate within a factor {FACTOR:g} in {near} of {len(rows)}": near >= ENOUGH * len(rows) / N_SEEDS,
        f"the order of rows moves predictions by {moved:.1e}": moved <= MOVED,
        "little information is told": all(row["told"] for row in rows),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--out", type=Path, default=RESULTS, help="file to which the rows are appended")
    parser.add_argument("--seeds", type=int, default=N_SEEDS, help="number of seeds")
    options = parser.parse_args()
    claims = {}
    print(
        f"{'data':12}{'GP':>6}{'seed':>6}{'at rows':>9}{'at new':>9}{'largest':>9}{'moved':>10}{'of f':>10}{'told':>6}"
    )
    for kind in KINDS:
        for approximation in APPROXIMATIONS:
            rows = []
            for seed in range(options.seeds):
                row = {"seed": seed, "kind": kind, "approximation": approximation} | measure(kind, approximation, seed)
                append_row(options.out, row | {"limits": [FACTOR, ENOUGH, MOVED]})
                rows.append(row)
                print(
                    f"{kind:12}{approximation:>6}{seed:6}{row['ratio_at_rows']:9.3f}{row['ratio_at_new']:9.3f}"
                    f"{row['largest']:9.3f}{row['moved_response']:10.1e}{row['moved_latent']:10.1e}{row['told']!s:>6}",
                    flush=True,
                )
            claims |= {f"{kind}, {approximation}: {claim}": holds for claim, holds in judge(rows).items()}
    print_claims(claims)


if __name__ == "__main__":
    main()
