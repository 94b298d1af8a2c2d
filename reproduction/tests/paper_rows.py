"""Made-up rows of the paper's experiments, small and of the right form, for the tests of figures and report."""

import numpy as np

GAUSSIAN = [f"{kind} {start}" for kind in ("OAT", "Simult.") for start in ("uniform", "adversarial", "random")]
POISSON = ["OAT uniform", "OAT random", "Fixed 20", "Simult. 11", "Simult. 20"]
MAPPED = ["OAT-BO 25", "OAT-RS 25", "OAT-RS 50", "Simult. 50"]

METRICS = ["rmse", "srmse", "mnlp", "mnlp_published", "aukl_published", "aukl_latent", "spread", "near_knots"]


def make_rows(settings=("published", "knotwise"), seed=0):
    """One row with a picture for every method of every experiment, and a second seed without pictures."""
    rng = np.random.default_rng(seed)
    rows = []
    for setting in settings:
        ours = setting == "knotwise"
        for method in ["Full", *GAUSSIAN, *(["Simult. uniform VFE", "auto"] if ours else [])]:
            rows.append(row("gaussian", setting, method, knots(rng, 1, method), curve(rng)))
        for method in ["Full", *POISSON, *(["Simult. 20 VFE", "auto"] if ours else [])]:
            rows.append(row("poisson", setting, method, knots(rng, 1, method), curve(rng, counts=True)))
        for method in ["Full", *MAPPED, *(["Simult. 50 VFE", "auto"] if ours else [])]:
            rows.append(row("banana", setting, method, knots(rng, 2, method), surface(rng, "probability", 40)))
        for method in ["Full", *MAPPED, "Simult. 28", *(["Simult. 50 VFE", "auto"] if ours else [])]:
            picture = surface(rng, "intensity", 30)
            if method == "Full":
                picture["counts"] = rng.poisson(1.0, (30, 30)).tolist()
            rows.append(row("hickory", setting, method, knots(rng, 2, method), picture))
        rows += short(rng) if ours else []
    rows.append(row("motivation", "published", "FIC 5", knots(rng, 1, "Simult. 5"), motivation(rng)))
    return rows + [{**some, "seed": 1, "picture": None} for some in rows]


def row(experiment, setting, method, knots, picture):
    initial, final = knots
    return {
        "experiment": experiment,
        "setting": setting,
        "method": method,
        "seed": 0,
        "seconds": 1.5,
        "n_knots": len(final),
        "metrics": dict.fromkeys(METRICS, 0.2),
        "gradient_steps": 100,
        "log_evidence": -300.0,
        "parameters": {"noise_variance": 1.0, "lengthscale": 1.0},
        "converged": True,
        "versions": {"knotwise": "0.1", "numpy": "2.0"},
        "threads": 1,
        "initial_knots": initial,
        "knots": final,
        "picture": picture,
    }


def short(rng):
    """Rows of short length-scales: three of the line, one of them with a picture, and one of the plane."""
    made = []
    for case in ("line-0.05", "line-0.02", "line-0.01", "plane-0.1"):
        for method in ("Full", "OAT 50", "auto", "15 neighbours"):
            Z = np.array(knots(rng, 1, method)[1]).ravel()
            picture = {**curve(rng), "knots": Z[Z < 8].tolist()} if case == "line-0.02" else None
            made.append(row("short", "knotwise", method, ([], Z[:, None].tolist()), picture))
            near = 15 if "neighbours" in method else 0
            scores = {"nlpd": float(rng.normal()), "coverage": 0.95}
            made[-1] |= {"case": case, "n_neighbors": near, "metrics": made[-1]["metrics"] | scores}
    return made


def knots(rng, dimension, method):
    """Initial and final knots of a method, none for the full GP."""
    if method == "Full":
        return [], []
    final = rng.uniform(0.1, 0.9, (int(rng.integers(9, 20)), dimension))
    if dimension == 1:
        final = 10 * final
    n_initial = 5 if method.startswith("OAT") else len(final)
    return (final[:n_initial] + rng.normal(scale=0.02, size=(n_initial, dimension))).tolist(), final.tolist()


def curve(rng, counts=False):
    grid, x = np.linspace(0, 10, 60), np.linspace(0, 10, 80)
    truth = np.sin(grid) + 1.2
    y = rng.poisson(np.sin(x) + 1.2) if counts else np.sin(x) + 1.2 + rng.normal(scale=0.5, size=len(x))
    mean = truth + rng.normal(scale=0.05) * np.cos(grid)
    arrays = {"x": x, "y": y, "truth": truth, "grid": grid, "mean": mean, "low": 0.7 * mean, "high": 1.4 * mean + 0.2}
    return {name: values.tolist() for name, values in arrays.items()}


def surface(rng, key, size):
    x = np.linspace(0, 1, size)
    latent = 3 * np.sin(5 * x)[:, None] * np.cos(4 * x)[None, :] + rng.normal(scale=0.1)
    bands = {"low": latent - 0.7, key: latent, "high": latent + 0.7}
    link = (lambda f: 1 / (1 + np.exp(-f))) if key == "probability" else (lambda f: 700 * np.exp(0.4 * f))
    return {"x0": x.tolist(), "x1": x.tolist(), **{name: link(f).tolist() for name, f in bands.items()}}


def motivation(rng):
    picture = curve(rng)
    del picture["truth"]
    sixth = np.linspace(0, 10, 120)
    return {
        **picture,
        "knots": [1.0, 3.0, 5.0, 7.0, 9.0],
        "sixth": sixth.tolist(),
        "log_likelihood_of_five": -311.72,
        "log_likelihood": (-311.72 + 3 * np.sin(np.pi * sixth) ** 2 * np.sin(sixth)).tolist(),
    }
