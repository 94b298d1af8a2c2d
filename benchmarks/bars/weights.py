"""Sample weights: noise, scale, shape and dispersion under equal weights, survey weights, copies and rounded ties.

Run `python benchmarks/bars/weights.py`, which takes two minutes. 120 rows of a wave with each likelihood that learns a
dispersion, with equal weights of 0.1, 5 and 50, with survey weights (gamma, mean 10) as they are and divided by their
mean, and a bootstrap sample, whose rows are copied; and 600 rows at ten places with rounded targets, of which a dense
GP of all 600 rows tells noise and certainty. The claims: equal weights change the function by less than 0.05 sd and the
dispersion by less than 10 %; survey weights are the same as divided by their mean, and within 0.5 sd of the truth; a
bootstrap sample has a dispersion within a factor of 2.5; rounded ties have noise and certainty of the dense GP within
5 %. Rows are appended to `benchmarks/results/weights.jsonl`, and a test checks what is stored.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize

FOLDER = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(FOLDER / "bars"))
from storing import append_row, print_claims  # noqa: E402

RESULTS = FOLDER / "results" / "weights.jsonl"
SEEDS = range(3)
N_ROWS = 120
EQUAL = (0.1, 5.0, 50.0)
#: likelihood, and the parameter that is its dispersion
CASES = {
    "gaussian": "noise_variance",
    "student_t": "scale",
    "gamma": "shape",
    "negative_binomial": "dispersion",
    "lognormal": "variance",
    "weibull": "shape",
    "beta": "precision",
    "poisson": "nugget",
}


def draw(case: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs, targets and the latent function of a wave."""
    from knotwise import likelihoods as lik

    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(N_ROWS, 1))
    f = np.sin(6 * X[:, 0]) + (1.5 if case in ("negative_binomial", "poisson") else 0.0)
    parts = {
        "gaussian": lik.Gaussian(0.09),
        "student_t": lik.StudentT(0.25, 4.0),
        "gamma": lik.Gamma(5.0),
        "negative_binomial": lik.NegativeBinomial(0.4),
        "lognormal": lik.LogNormal(0.16),
        "weibull": lik.Weibull(2.0),
        "beta": lik.Beta(8.0),
        "poisson": lik.Poisson(),
    }
    own = 0.5 * rng.normal(size=N_ROWS) if case == "poisson" else 0.0
    return X, parts[case].sample(f + own, rng, 1.0), f


def fit(case: str, X: np.ndarray, y: np.ndarray, weights: Any = None) -> Any:
    from knotwise import GPRegressor

    nugget = "fit" if case == "poisson" else 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of means of weights that are far from 1
        gp = GPRegressor(likelihood=case, nugget=nugget, knots=8, random_state=0, n_jobs=1)
        return gp.fit(X, y, sample_weight=weights)


def measure(case: str, seed: int) -> dict[str, Any]:
    """What weights and copies change, in units of the sd of the function and in ratios of the dispersion."""
    X, y, f = draw(case, seed)
    rng = np.random.default_rng(seed + 1000)
    survey, copied = rng.gamma(2, 5, N_ROWS), rng.integers(0, N_ROWS, N_ROWS)

    def seen(gp: Any) -> tuple[np.ndarray, float]:
        return gp.predict_latent(X).mean, gp.nugget_ if case == "poisson" else getattr(gp.likelihood_, CASES[case])

    plain, dispersion = seen(fit(case, X, y))
    equal = [seen(fit(case, X, y, np.full(N_ROWS, w))) for w in EQUAL]
    one, other = seen(fit(case, X, y, survey)), seen(fit(case, X, y, survey / survey.mean()))
    twice = seen(fit(case, X[copied], y[copied]))
    found = {
        "equal_function": max(_rms(mean - plain) for mean, _ in equal) / f.std(),
        "equal_ratio": max(max(d / dispersion, dispersion / d) for _, d in equal),
        "survey_difference": _rms(one[0] - other[0]) / f.std(),
        "survey_error": _rms(one[0] - f) / f.std(),
        "plain_error": _rms(plain - f) / f.std(),
        "dispersion": dispersion,
        "survey_dispersion": one[1],
        "bootstrap_dispersion": twice[1],
    }
    return {name: float(f"{value:.6g}") for name, value in found.items()}


def rounded(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """600 rows at ten places, with targets rounded to 0.5: about 60 different rows."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 10, 600)[:, None] / 10
    return X, np.round(2 * (np.sin(6 * X[:, 0]) + 0.5 * rng.normal(size=600))) / 2


def measure_rounded(seed: int) -> dict[str, Any]:
    """Noise and certainty of rounded rows, and those of the dense GP of all of them."""
    from knotwise import GPRegressor
    from knotwise.kernels import SquaredExponential

    X, y = rounded(seed)
    gp = GPRegressor(SquaredExponential(), approximation="full", mean=0.0, random_state=0, n_jobs=1).fit(X, y)
    places = np.unique(X)[:, None]
    names = ("variance", "lengthscale", "noise_variance")
    values = dict(zip(gp.parameters_.names, gp.parameters_.values, strict=True))
    start = np.log([values[name] for name in names])
    theta = dense_maximum(X, y, start + np.array([0.3, -0.2, 0.4]))
    found = {
        "noise": values["noise_variance"],
        "dense_noise": float(np.exp(theta[2])),
        "std": float(np.sqrt(gp.predict_latent(places).variance).mean()),
        "dense_std": float(np.sqrt(dense_variance(X, places, theta)).mean()),
        "n_rows": gp._fit.n_rows,
    }
    return {name: float(f"{value:.6g}") for name, value in found.items()}


def dense_maximum(X: np.ndarray, y: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Logarithms of variance, length-scale and noise at the maximum of the dense GP's evidence, row by row."""

    def cost(theta: np.ndarray) -> float:
        L = np.linalg.cholesky(_covariance(X, X, theta) + np.exp(theta[2]) * np.eye(len(X)))
        return float(0.5 * np.sum(np.linalg.solve(L, y) ** 2) + np.log(L.diagonal()).sum())

    return minimize(cost, start, method="BFGS", options={"gtol": 1e-2}).x


def dense_variance(X: np.ndarray, X_new: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Posterior variance of the dense GP."""
    K = _covariance(X, X, theta) + np.exp(theta[2]) * np.eye(len(X))
    across = _covariance(X, X_new, theta)
    return np.exp(theta[0]) - (across * np.linalg.solve(K, across)).sum(0)


def _covariance(X: np.ndarray, other: np.ndarray, theta: np.ndarray) -> np.ndarray:
    return np.exp(theta[0] - 0.5 * ((X - other.T) / np.exp(theta[1])) ** 2)


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2)))


def claims_of(case: str, row: dict[str, Any]) -> dict[str, bool]:
    """What is claimed of a row."""
    if case == "rounded":
        return {
            "rounded: noise of the dense GP": abs(row["noise"] / row["dense_noise"] - 1) < 0.05,
            "rounded: certainty of the dense GP": abs(row["std"] / row["dense_std"] - 1) < 0.05,
        }
    return {
        f"{case}: equal weights leave the function": row["equal_function"] < 0.05,
        f"{case}: equal weights leave the dispersion": row["equal_ratio"] < 1.1,
        f"{case}: survey weights are relative": row["survey_difference"] < 0.01,
        f"{case}: survey weights leave the signal": row["survey_error"] < 0.5,
        f"{case}: copies leave the dispersion": 0.4 < row["bootstrap_dispersion"] / row["dispersion"] < 2.5,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--out", type=Path, default=RESULTS, help="file to which the rows are appended")
    parser.add_argument("--only", choices=[*CASES, "rounded"], help="one case")
    options = parser.parse_args()
    claims: dict[str, bool] = {}
    for case in [*CASES, "rounded"] if options.only is None else [options.only]:
        for seed in SEEDS:
            row = measure_rounded(seed) if case == "rounded" else measure(case, seed)
            append_row(options.out, {"case": case, "seed": seed} | row)
            print(case, seed, row, flush=True)
            for claim, holds in claims_of(case, row).items():
                claims[claim] = claims.get(claim, True) and holds
    print_claims(claims)


if __name__ == "__main__":
    main()
