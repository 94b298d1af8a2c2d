"""Fits whose numbers must not move: what is fitted, with every option written out, and how the numbers are stored.

`python tests/pinned.py` says what differs from `golden/pinned.json`. With names of entries (`boston-auto-vfe`, or an
ending such as `auto-vfe`) it makes these anew, to be committed alone with the reason. The rest stays for good.
"""

import json
import sys
import warnings
from functools import cache
from pathlib import Path

import numpy as np

from knotwise import GPRegressor
from knotwise.datasets import load_banana, load_boston, load_hickory
from knotwise.errors import FitWarning
from knotwise.kernels import SquaredExponential
from knotwise.knots import Auto, Fixed, OneAtATime, Simultaneous
from knotwise.likelihoods import Bernoulli, Gaussian, Poisson
from knotwise.means import Constant

PATH = Path(__file__).parent / "golden" / "pinned.json"

#: name -> rows of training, rows of prediction, the likelihood and its parameters at the stored theta
DATA = {
    "boston": (load_boston, slice(0, 440), slice(440, 490), Gaussian),
    "banana": (load_banana, slice(0, 400), slice(400, 450), Bernoulli),
    "hickory": (load_hickory, slice(0, 900), slice(0, 900, 18), Poisson),
}
#: variance, length-scale (and noise), mean; rounded by hand from fits, so that no gradient is zero
STORED = {
    "boston": {"kernel": (80.0, 1.1), "noise": (15.0,), "mean": 25.0},
    "banana": {"kernel": (9.0, 0.6), "noise": (), "mean": -0.3},
    "hickory": {"kernel": (0.9, 0.35), "noise": (), "mean": -0.6},
}
APPROXIMATIONS = ("vfe", "fic", "full")
SELECTORS = {
    "fixed": lambda: Fixed("kmeans", 15),
    "simultaneous": lambda: Simultaneous(8, initial="kmeans"),
    "paper": lambda: OneAtATime.paper("bo", t_max=8, t_min=4, max_knots=3, n_initial=2),
    "auto": Auto,
}
#: where not 0. Of the first seeds, one at which rounding (other blocks of rows) moves nothing by 1e-4: Adadelta stops
#: far from a maximum, and FIC has many of them
SEEDS = {
    "boston-paper-fic": 2,
    "boston-simultaneous-vfe": 1,
    "boston-simultaneous-fic": 1,
    "banana-simultaneous-vfe": 2,
    "banana-simultaneous-fic": 1,
    "banana-paper-vfe": 5,
    "banana-paper-fic": 2,
    "banana-auto-vfe": 2,
    "hickory-paper-vfe": 2,
    "hickory-paper-fic": 1,
}
FITS = {
    f"{data}-{selector}-{approximation}": (data, selector, approximation)
    for data in DATA
    for selector, approximation in [
        *((name, approximation) for name in ("fixed", "simultaneous", "paper") for approximation in ("vfe", "fic")),
        ("auto", "vfe"),
        ("exact", "full"),
    ]
}


def training(data, selector=""):
    """X, y and the new rows of a set: a third of it for an exact GP, and of a lattice no more than some cells.

    On a whole lattice, rows tie for the next knot, and rounding decides.
    """
    load, train, new, _ = DATA[data]
    rows = load()
    X, y = rows.X[train], rows.y[train]
    if selector == "exact":
        return X[::3], y[::3], rows.X[new]
    if (data, selector) == ("hickory", "auto"):
        some = np.random.default_rng(2).permutation(900)[:300]
        return X[some], y[some], rows.X[new]
    return X, y, rows.X[new]


def estimator(likelihood, approximation, knots, **options):
    """An estimator with every option written out, so that no default can move it."""
    settings = {
        "kernel": SquaredExponential(variance=None, lengthscale=None),
        "likelihood": likelihood,
        "approximation": approximation,
        "knots": knots,
        "mean": Constant(mean=None, prior_sd=None),
        "inference": "laplace",
        "nugget": 0.0,
        "fixed": (),
        "bounds": None,
        "jitter": None,
        "optimizer": "lbfgs",
        "n_restarts": 0,
        "noise": "constant",
        "standardize": "columns",
        "random_state": 0,
        "n_jobs": 1,
        "block_size": None,
        "progress": False,
        "callback": None,
        "checkpoint": None,
    }
    return GPRegressor(**settings | options)


def fit(gp, X, y):
    """Fit, and leave warnings of limits to the tests of limits."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        return gp.fit(X, y)


@cache
def stored_knots(data):
    """25 knots of a set: rows of it, moved a little."""
    X = training(data)[0]
    rng = np.random.default_rng(25)
    return X[rng.choice(len(X), 25, replace=False)] + 0.05 * X.std(0) * rng.standard_normal((25, X.shape[1]))


def at_stored_values(data, approximation, **options):
    """Value, gradients and predictions at stored parameters and knots: no optimiser, no choice."""
    X, y, X_new = training(data)
    values = STORED[data]
    at = {
        "kernel": SquaredExponential(*values["kernel"], column_scales="standard"),
        "mean": values["mean"],
        "jitter": 1e-8,
        "optimizer": None,
    }
    likelihood = DATA[data][3](*values["noise"])
    gp = fit(estimator(likelihood, approximation, Fixed(stored_knots(data)), **at | options), X, y)
    theta = np.concatenate([np.log([*values["kernel"], *values["noise"]]), [values["mean"]]])
    evidence, latent = gp.evidence(theta), gp.predict_latent(X_new)
    numbers = {
        "value": evidence.value,
        "gradient": evidence.gradient,
        "latent_mean": latent.mean,
        "latent_variance": latent.variance,
        "response": np.array(gp.predict(X_new, return_std=True)),
    }
    return numbers if approximation == "full" else numbers | {"knot_gradient": evidence.knot_gradient}


def optimised(data, selector, approximation, **options):
    """Number of knots, evidence and predictions of a fit."""
    X, y, X_new = training(data, selector)
    knots = stored_knots(data) if selector == "exact" else SELECTORS[selector]()
    seed = SEEDS.get(f"{data}-{selector}-{approximation}", 0)
    gp = fit(estimator(DATA[data][3](), approximation, knots, random_state=seed, **options), X, y)
    latent = gp.predict_latent(X_new)
    return {
        "n_knots": gp.n_knots_,
        "value": gp.log_evidence_,
        "latent_mean": latent.mean,
        "latent_variance": latent.variance,
    }


ENTRIES = {
    f"{data}-stored-{approximation}": (at_stored_values, data, approximation)
    for data in DATA
    for approximation in APPROXIMATIONS
} | {name: (optimised, *case) for name, case in FITS.items()}


def compute(name, **options):
    """The numbers of an entry; `options` change how they are computed."""
    function, *arguments = ENTRIES[name]
    return function(*arguments, **options)


def compare(name, found, pinned):
    """What differs, in sentences: stored values by 1e-6, fits by 1e-4 (evidence) and 1e-3 sd (predictions)."""
    wrong = []

    def check(what, error, limit):
        if not error <= limit:
            wrong.append(f"{name}: {what} is off by {error:.1e}, and the limit is {limit:.0e}")

    stored = "-stored-" in name
    if not stored and found["n_knots"] != pinned["n_knots"]:
        wrong.append(f"{name}: {found['n_knots']} knots, and not {pinned['n_knots']}")
    for key in found.keys() - {"n_knots"}:
        new, old = np.asarray(found[key], float), np.asarray(pinned[key], float)
        if stored or key == "value":  # gradients have entries near 0, so errors are relative to the largest
            check(key, np.abs(new - old).max() / np.abs(old).max(), 1e-6 if stored else 1e-4)
        elif key == "latent_mean":
            check(key, (np.abs(new - old) / np.sqrt(pinned["latent_variance"])).max(), 1e-3)
        else:
            check("the latent sd", np.abs(np.sqrt(new / old) - 1).max(), 1e-3)
    return wrong


def read():
    """The pinned numbers by name."""
    return json.loads(PATH.read_text()) if PATH.exists() else {}


def main(names):
    """Compare all entries with the file, or make some anew."""
    pinned = read()
    for name in ENTRIES:
        found = compute(name)
        if name not in pinned or any(name.endswith(wanted) for wanted in names):
            pinned[name] = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in found.items()}
            print(f"{name}: stored")
        else:
            print("\n".join(compare(name, found, pinned[name])) or f"{name}: holds")
    lines = [f'"{name}": {json.dumps(pinned[name])}' for name in ENTRIES]
    PATH.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
