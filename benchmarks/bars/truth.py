"""Posteriors of classes and counts against the truth: how far are their means, deviations and mean responses?

Run `python benchmarks/bars/truth.py`. Parameters are fixed and the GP is exact, so that the inference alone errs. The
truth is that of `sampler.py`, importance sampling which uses nothing of knotwise; `--sample` draws it anew and stores
it with its Monte Carlo errors in `tests/golden/truth.json`. The claims, for "variational" and "ep" on each set: latent
means are within 0.05 posterior standard deviations on average, and mean responses err by less than 1 % of their mean.
Laplace's approximation is measured beside them. Rows are appended to `benchmarks/results/truth.jsonl`, and a test
checks what is stored.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(FOLDER / "bars"))
from sampler import Setting, sample_posterior, squared_exponential  # noqa: E402
from storing import append_row, print_claims  # noqa: E402

SEED = 0
N_DRAWS = 400_000
MEAN_LIMIT, RESPONSE_LIMIT = 0.05, 0.01
INFERENCES = ("variational", "ep", "laplace")
JUDGED = ("variational", "ep")
RESULTS = FOLDER / "results" / "truth.jsonl"
TRUTH = FOLDER.parent / "tests" / "golden" / "truth.json"


def settings() -> dict[str, Setting]:
    """Data with parameters near those that a fit finds, and counts so few that the posterior is far from Gaussian."""
    from knotwise import datasets

    banana = datasets.split(datasets.load_banana(), n_train=531, seed=SEED)
    hickory = datasets.load_hickory()
    cells = np.sort(np.random.default_rng(SEED).choice(len(hickory.y), 600, replace=False))
    rng = np.random.default_rng(SEED)
    x = np.sort(rng.uniform(0, 10, 60))[:, None]
    K = squared_exponential(x, 2.0, 1.0) + 1e-9 * np.eye(60)
    f = np.log(0.2) + np.linalg.cholesky(K) @ rng.standard_normal(60)
    few = rng.poisson(np.exp(f)).astype(float)
    X, y = np.array(banana.X_train), np.array(banana.y_train, float)
    return {
        "banana, variance 10": Setting(X, y, False, 10.0, 0.6, 0.0),
        "banana, variance 65": Setting(X, y, False, 65.0, 0.8, 0.0),
        "hickory": Setting(hickory.X[cells], np.array(hickory.y[cells], float), True, 0.5, 0.08, float(np.log(0.7))),
        "few counts": Setting(x, few, True, 2.0, 1.0, float(np.log(0.2))),
    }


def sample(name: str, n_draws: int = N_DRAWS) -> dict[str, Any]:
    """The truth of a setting as it is stored, to seven digits."""
    found = sample_posterior(settings()[name], n_draws, SEED)
    listed = {
        each: [float(f"{value:.7g}") for value in getattr(found, each)]
        for each in ("mean", "sd", "response", "mean_error", "response_error")
    }
    return {"seed": SEED, "draws": n_draws, "effective": round(found.effective)} | listed


def measure(name: str, inference: str, truth: dict[str, Any]) -> dict[str, Any]:
    """Distances of a posterior of knotwise from the stored truth."""
    from knotwise import GPRegressor
    from knotwise.kernels import SquaredExponential

    setting = settings()[name]
    gp = GPRegressor(
        SquaredExponential(setting.variance, setting.lengthscale),
        likelihood="poisson" if setting.counts else "bernoulli",
        approximation="full",
        mean=setting.level,
        inference=inference,
        optimizer=None,
        standardize=False,
        n_jobs=1,
        progress=False,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of few events
        gp.fit(setting.X, setting.y)
    latent, response = gp.predict_latent(setting.X), gp.predict(setting.X)
    mean, sd, of_response = (np.array(truth[each]) for each in ("mean", "sd", "response"))
    apart = np.abs(latent.mean - mean) / sd
    return {
        "rows": len(mean),
        "mean_error": round(float(apart.mean()), 5),
        "largest_mean_error": round(float(apart.max()), 5),
        "sd_ratio": round(float(np.mean(np.sqrt(latent.variance) / sd)), 5),
        "response_error": round(float(np.abs(response - of_response).mean() / of_response.mean()), 5),
        "largest_response_error": round(float(np.abs(response / of_response - 1).max()), 5),
        "sampling_mean_error": round(float(np.mean(np.array(truth["mean_error"]) / sd)), 5),
        "sampling_response_error": round(float(np.mean(truth["response_error"]) / of_response.mean()), 5),
        "limits": [MEAN_LIMIT, RESPONSE_LIMIT],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--out", type=Path, default=RESULTS, help="file to which the rows are appended")
    parser.add_argument("--sample", action="store_true", help="draw the truth anew and store it")
    options = parser.parse_args()
    if options.sample:
        drawn = {name: sample(name) for name in settings()}
        TRUTH.write_text(json.dumps(drawn, separators=(",", ":")).replace('},"', '},\n"') + "\n")
    stored, claims = json.loads(TRUTH.read_text()), {}
    for name, truth in stored.items():
        print(f"{name}: {truth['draws']:,} draws, effectively {truth['effective']:,}")
    head = ("mean / sd", "largest", "sd ratio", "response", "largest")
    print(f"{'set':22}{'inference':>13}" + "".join(f"{word:>11}" for word in head))
    for name, truth in stored.items():
        for inference in INFERENCES:
            found = measure(name, inference, truth)
            append_row(options.out, {"seed": SEED, "case": name, "inference": inference} | found)
            print(
                f"{name:22}{inference:>13}{found['mean_error']:11.4f}{found['largest_mean_error']:11.4f}"
                f"{found['sd_ratio']:11.4f}{found['response_error']:11.2%}{found['largest_response_error']:11.2%}",
                flush=True,
            )
            if inference in JUDGED:
                claims[f"{name}, {inference}: means within {MEAN_LIMIT} sd"] = found["mean_error"] <= MEAN_LIMIT
                claims[f"{name}, {inference}: responses within 1 %"] = found["response_error"] < RESPONSE_LIMIT
        print(f"{'':22}{'sampling':>13}{found['sampling_mean_error']:11.4f}{found['sampling_response_error']:33.2%}")
    print_claims(claims)


if __name__ == "__main__":
    main()
