"""Model files of the present format in `golden/`, and what they predict; a test loads them.

`python tests/model_files.py` fits and stores them anew, after a change of the format.
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd

from knotwise import GPClassifier, GPRegressor
from knotwise.kernels import Linear, Matern32, SquaredExponential

GOLDEN = Path(__file__).parent / "golden"
PREDICTIONS = GOLDEN / "models.json"

RNG = np.random.default_rng(7)
X = RNG.normal(size=(24, 2))
NEW = RNG.normal(size=(4, 2))
F = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1]
Y = 10 + 3 * F + 0.3 * RNG.normal(size=24)
EXPOSURE = RNG.uniform(0.5, 2.0, 24)
COUNTS = RNG.poisson(np.exp(F) * EXPOSURE).astype(float)
SMOOTH = SquaredExponential()


def table(X):
    """A number, a category, a date and a gap."""
    kind = np.where(X[:, 1] > 0, "wet", "dry")
    day = pd.Timestamp("2024-03-01") + pd.to_timedelta(np.round(100 * X[:, 1]), "D")
    return pd.DataFrame({"depth": X[:, 0], "kind": kind, "day": day, "gap": np.r_[np.nan, X[1:, 1]]})


MODELS = {
    "sparse": lambda: GPRegressor(
        Matern32(ard=True) + Linear().on([0]), knots=5, mean="linear", priors="weak", random_state=0
    ).fit(X, Y),
    "exact": lambda: GPRegressor(SMOOTH, approximation="full").fit(X, Y, noise_variance=np.linspace(0.1, 0.5, 24)),
    "near": lambda: GPRegressor(Matern32(), knots=3, n_neighbors=4, random_state=0).fit(X, Y),
    "counts": lambda: GPRegressor(SMOOTH, "poisson", knots=4, nugget="fit", random_state=0).fit(
        X, COUNTS, exposure=EXPOSURE
    ),
    "classes": lambda: GPClassifier(SMOOTH, knots=3, random_state=0).fit(
        X, np.array(["low", "middle", "high"])[np.digitize(F, [-0.4, 0.4])]
    ),
    "warped": lambda: GPRegressor(SMOOTH, knots=3, warp={0: "normal", 1: "log"}, random_state=0).fit(X, Y),
    "averaged": lambda: GPRegressor(random_state=0).fit(X, Y),
    "prices": lambda: GPRegressor(SMOOTH, transform="boxcox", knots=4, random_state=0).fit(X, np.exp(0.2 * Y)),
    "table": lambda: GPRegressor(SMOOTH, knots=4, missing="mean", random_state=0).fit(table(X), Y),
}


def path_of(name):
    return GOLDEN / f"{name}.knotwise"


def predictions(model):
    """What a model says of new rows, by the name of the call."""
    new = table(NEW) if hasattr(model, "feature_names_in_") else NEW
    if isinstance(model, GPClassifier):
        return {"proba": model.predict_proba(new).tolist()}
    known = {"exposure": 1.5} if model._fit.size_given else {"noise_variance": 0.2} if model._fit.noise_given else {}
    mean, std = model.predict(new, return_std=True, **known)
    return {"mean": mean.tolist(), "std": std.tolist(), "log_evidence": model.log_evidence_}


if __name__ == "__main__":
    stored = {}
    for name, fit in MODELS.items():
        model = fit()
        model.save(path_of(name))
        stored[name] = predictions(model)
    PREDICTIONS.write_text(json.dumps(stored, indent=1) + "\n")
