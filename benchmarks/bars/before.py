"""Processor time of this code relative to that of an earlier commit, interleaved in one run.

Run `python benchmarks/bars/before.py COMMIT [--repeats 15] [--case NAME ...]`. The commit is checked out beside, each
of the two versions runs in a process of its own on one thread, and they take turns; what is compared are medians. The
claim for a change that should move nothing: at most 1.05 for evaluations of the engine, 1.10 for fits.
Mean, interval and density of the same rows, which were three passes through the posterior and are one: at most 0.5.
A default fit of 200 x 2 rows: at most its time. Rows are stored in `benchmarks/results/before.jsonl`.
"""

from __future__ import annotations

import argparse
import sys
import time
from inspect import signature
from pathlib import Path
from statistics import median

import numpy as np

FOLDER = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(FOLDER / "bars"))
from storing import append_row  # noqa: E402
from versions import answer, both_versions  # noqa: E402

RESULTS = FOLDER / "results" / "before.jsonl"
ENGINE, FIT, TOGETHER = 1.05, 1.10, 0.5
DEFAULT = 1.0


def gaussian(power):
    """Evidence and gradient of Gaussian data, 20,000 rows and 200 knots."""
    from knotwise.evidence import Jitter, Model, Rows, sparse_evidence
    from knotwise.kernels import SquaredExponential
    from knotwise.likelihoods import Gaussian
    from knotwise.means import Zero

    rng = np.random.default_rng(0)
    X = rng.uniform(size=(20_000, 3))
    rows = Rows(X, np.sin(6 * X[:, 0]) + 0.1 * rng.normal(size=len(X)), None, np.empty((len(X), 0)))
    model = Model(SquaredExponential(1.0, 0.3), Gaussian(0.01), Zero(), power)
    return lambda: sparse_evidence(model, rows, X[:200], jitter=Jitter(1e-8, X[:3]))


def laplace(name, likelihood, power):
    """Evidence and gradient at ten neighbouring parameters, each from the mode of the one before; 50 knots."""
    from knotwise import datasets, evidence, likelihoods
    from knotwise.evidence import Jitter, Model, Rows, sparse_evidence
    from knotwise.kernels import SquaredExponential
    from knotwise.means import Constant

    data = getattr(datasets, f"load_{name}")()
    X = (data.X - data.X.mean(0)) / data.X.std(0)
    rows = Rows(X, np.asarray(data.y, float), None, np.empty((len(X), 0)))
    variance, lengthscale = {"hickory": (0.9, 0.35), "banana": (9.0, 0.6)}[name]
    model = Model(SquaredExponential(variance, lengthscale), getattr(likelihoods, likelihood)(), Constant(-0.3), power)
    rng = np.random.default_rng(0)
    Z, jitter = X[rng.choice(len(X), 50, replace=False)], Jitter(1e-8, X[:3])
    thetas = [model.theta + 0.02 * rng.normal(size=len(model.theta)) for _ in range(10)]

    def now():
        blocks = evidence.InMemory(rows)
        for theta in thetas:
            sparse_evidence(model.with_theta(theta), blocks, Z, jitter=jitter)

    def before():  # a commit whose engine keeps the mode at the driver
        start = None
        for theta in thetas:
            start = sparse_evidence(model.with_theta(theta), rows, Z, jitter=jitter, start=start).start

    return now if hasattr(evidence, "InMemory") else before


def fit(name, likelihood):
    """A fit with what were defaults of the first commits: later ones choose the kernel and integrate the mean out."""
    from knotwise import GPRegressor, datasets
    from knotwise.kernels import SquaredExponential
    from knotwise.knots import Auto
    from knotwise.means import Constant

    data = getattr(datasets, f"load_{name}")()
    options = {"kernel": SquaredExponential(), "approximation": "vfe", "likelihood": likelihood}
    if "inference" in signature(GPRegressor).parameters:
        options |= {"inference": "laplace", "mean": Constant(prior_sd=None), "knots": Auto(target="latent")}
    return lambda: GPRegressor(random_state=0, n_jobs=1, progress=False, **options).fit(data.X, data.y)


def default_fit():
    """A fit of 200 rows with two columns, all options left alone."""
    from knotwise import GPRegressor

    rng = np.random.default_rng(0)
    X = rng.uniform(size=(200, 2))
    y = np.sin(6 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=200)
    return lambda: GPRegressor(random_state=0).fit(X, y)


def predictions(likelihood):
    """Mean, interval and density of 100,000 rows together, through 200 knots."""
    from knotwise import GPRegressor
    from knotwise.kernels import SquaredExponential

    rng = np.random.default_rng(0)
    X, new = rng.uniform(size=(2000, 2)), rng.uniform(size=(100_000, 2))

    def observed(X):
        f = np.sin(6 * X[:, 0]) + X[:, 1]
        return f + 0.1 * rng.normal(size=len(X)) if likelihood == "gaussian" else rng.poisson(np.exp(f)).astype(float)

    gp = GPRegressor(SquaredExponential(1.0, 0.2), likelihood, knots=X[:200], optimizer=None, standardize="common")
    gp.set_params(n_jobs=1, progress=False).fit(X, observed(X))
    y = observed(new)

    def now():
        p = gp.predictive(new)
        return p.mean, p.interval(), p.log_density(y)

    def before():
        return gp.predict(new), gp.predict_interval(new), gp.log_predictive_density(new, y)

    return now if hasattr(gp, "predictive") else before


CASES = {
    "gaussian, 200 knots, VFE": (ENGINE, 3, lambda: gaussian(0.0)),
    "gaussian, 200 knots, FIC": (ENGINE, 3, lambda: gaussian(1.0)),
    "hickory, 50 knots, FIC": (ENGINE, 4, lambda: laplace("hickory", "Poisson", 1.0)),
    "banana, 50 knots, VFE": (ENGINE, 2, lambda: laplace("banana", "Bernoulli", 0.0)),
    "predictions, gaussian": (TOGETHER, 1, lambda: predictions("gaussian")),
    "predictions, poisson": (TOGETHER, 1, lambda: predictions("poisson")),
    "default fit of 200 x 2": (DEFAULT, 5, default_fit),
    "fit of boston": (FIT, 1, lambda: fit("boston", "gaussian")),
    "fit of banana": (FIT, 1, lambda: fit("banana", "bernoulli")),
    "fit of hickory": (FIT, 1, lambda: fit("hickory", "poisson")),
}


PREPARED = {}


def seconds(name):
    """Processor seconds of a case."""
    _, repeats, prepare = CASES[name]
    if name not in PREPARED:
        PREPARED[name] = prepare()
        PREPARED[name]()  # what is imported and allocated once
    begun = time.process_time()
    for _ in range(repeats):
        PREPARED[name]()
    return (time.process_time() - begun) / repeats


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("commit")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--case", action="append", choices=list(CASES))
    arguments = parser.parse_args()
    with both_versions(arguments.commit, __file__) as ask:
        print(f"{'case':28}{'before':>12}{'now':>12}{'ratio':>8}")
        for name in arguments.case or CASES:
            times = [ask(name) for _ in range(arguments.repeats)]
            before, now = (median(pair[i] for pair in times) for i in (0, 1))
            ratio = median(pair[1] / pair[0] for pair in times)
            print(f"{name:28}{1e3 * before:9.2f} ms{1e3 * now:9.2f} ms{ratio:8.3f}", flush=True)
            append_row(
                RESULTS,
                {
                    "before": arguments.commit,
                    "case": name,
                    "repeats": arguments.repeats,
                    "seconds_before": before,
                    "seconds_now": now,
                    "ratio": ratio,
                    "bar": CASES[name][0],
                },
            )


if __name__ == "__main__" and not answer(seconds):
    main()
