"""Do certificates hold the exact GP's log evidence, and are they tight?

Run `python benchmarks/bars/certificates.py`. The claims: over 200 random small problems (kernels, noise, numbers of
knots, powers, weights, known noise and means drawn anew) the exact log evidence, by its definition with a full matrix,
lies between the bounds in all 200; and on ten splits of the Boston houses, with automatic knots under VFE, the bounds
are less than 1.2 nats apart, and hold the exact one too.
Rows are appended to `benchmarks/results/certificates.jsonl`, and a test checks what is stored.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(FOLDER / "bars"))
from storing import append_row, print_claims  # noqa: E402

N_PROBLEMS, SPLITS = 200, range(10)
GAP_LIMIT = 1.2
RESULTS = FOLDER / "results" / "certificates.jsonl"


def random_fit(seed: int) -> Any:
    """A fit to 20 to 120 random rows, whose parameters are drawn and held."""
    from knotwise import GPRegressor, kernels
    from knotwise.likelihoods import Gaussian

    rng = np.random.default_rng([seed, 31])
    n, D = int(rng.integers(20, 121)), int(rng.integers(1, 4))
    X = rng.normal(size=(n, D))
    kinds = (
        kernels.SquaredExponential,
        kernels.Matern12,
        kernels.Matern32,
        kernels.Matern52,
        kernels.RationalQuadratic,
    )
    kernel = kinds[seed % 5](10 ** rng.uniform(-1, 1), 10 ** rng.uniform(-0.7, 0.5), column_scales="standard")
    noise = 10 ** rng.uniform(-4, 0.5)
    y = np.sin(X.sum(1) * rng.uniform(0.5, 3)) + np.sqrt(noise) * rng.normal(size=n)
    given: dict[str, Any] = {}
    if rng.random() < 0.4:
        given["noise_variance"] = noise * rng.uniform(0.3, 3, n)
    if rng.random() < 0.4:
        given["sample_weight"] = rng.integers(1, 5, n).astype(float)
    n_knots = int(rng.integers(1, n))
    Z = X[:n_knots] if rng.random() < 0.5 else rng.normal(size=(n_knots, D))
    gp = GPRegressor(
        kernel=kernel,
        likelihood="gaussian" if "noise_variance" in given else Gaussian(noise),
        knots=Z,
        mean=("zero", "constant", "linear", 0.2)[int(rng.integers(4))],
        approximation=("vfe", "fic", 0.5)[int(rng.integers(3))],
        optimizer=None,
        n_jobs=1,
        progress=False,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a noise floor, or of knots that nearly coincide
        return gp.fit(X, y, **given)


def exact_log_evidence(gp: Any) -> float:
    """That of the exact GP at the parameters of a fit, by its definition.

    N(y | f, s)^w is N(y | f, s / w) times a constant, for whole and for relative weights w.
    """
    from knotwise.testing import dense_full_evidence

    rows, fit, constant = gp._fit.problem.rows, gp._fit, 0.0
    if rows.weights is not None:
        noise = rows.noise_variance if rows.noise_variance is not None else fit.model.likelihood.noise_variance
        noise, w = np.broadcast_to(noise, len(rows)), rows.weights
        constant = -0.5 * float(((w - 1) * np.log(2 * np.pi * noise) + np.log(w)).sum())
        rows = replace(rows.once, noise_variance=noise / w)
    return dense_full_evidence(fit.model, rows) + constant - fit.n_rows * float(np.log(fit.scaling.y_scale))


def measure(gp: Any) -> dict[str, Any]:
    """Bounds minus the exact log evidence, and whether they hold it."""
    exact, found = exact_log_evidence(gp), gp.certify()
    return {
        "knots": gp.n_knots_,
        "bound_knots": found.n_knots,
        "exact": round(exact, 6),
        "lower": round(found.lower - exact, 6),
        "upper": round(found.upper - exact, 6),
        "gap": round(found.gap, 6),
        "kl_bound": round(found.kl_bound, 6),
        "held": bool(found.lower <= exact <= found.upper),
    }


def measure_random(seeds: range) -> dict[str, Any]:
    """How many of the random problems are held, and how wide the bounds are."""
    rows = [measure(random_fit(seed)) for seed in seeds]
    gaps = np.array([row["gap"] for row in rows])
    return {
        "problems": len(rows),
        "held": sum(row["held"] for row in rows),
        "gap_quartiles": [round(float(q), 4) for q in np.quantile(gaps, [0.25, 0.5, 0.75])],
    }


def measure_boston(seed: int) -> dict[str, Any]:
    """The certificate of one split."""
    from knotwise import GPRegressor, datasets
    from knotwise.kernels import SquaredExponential
    from knotwise.knots import Auto

    part = datasets.split(datasets.load_boston(), seed=seed)
    gp = GPRegressor(
        kernel=SquaredExponential(), knots=Auto(), approximation="vfe", random_state=seed, n_jobs=1, progress=False
    )
    return measure(gp.fit(part.X_train, part.y_train)) | {"limit": GAP_LIMIT}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--out", type=Path, default=RESULTS, help="file to which the rows are appended")
    parser.add_argument("--problems", type=int, default=N_PROBLEMS, help="number of random problems")
    options = parser.parse_args()
    random = measure_random(range(options.problems))
    append_row(options.out, {"case": "random", "seed": 0} | random)
    print(
        f"random problems: {random['held']} of {random['problems']} held, quartiles of gaps {random['gap_quartiles']}"
    )
    rows = []
    print(f"{'split':>5}{'knots':>7}{'more':>6}{'lower':>9}{'upper':>9}{'gap':>8}{'KL':>8}")
    for seed in SPLITS:
        row = measure_boston(seed)
        append_row(options.out, {"case": "boston", "seed": seed} | row)
        rows.append(row)
        print(
            f"{seed:5}{row['knots']:7}{row['bound_knots']:6}{row['lower']:9.4f}{row['upper']:9.4f}{row['gap']:8.4f}"
            f"{row['kl_bound']:8.4f}",
            flush=True,
        )
    print_claims(
        {
            f"all {random['problems']} random problems held": random["held"] == random["problems"],
            f"gaps below {GAP_LIMIT} on each split of boston": max(row["gap"] for row in rows) < GAP_LIMIT,
            "and the exact log evidence held": all(row["held"] for row in rows),
        }
    )


if __name__ == "__main__":
    main()
