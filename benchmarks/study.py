"""Which selector, which power, which kernel: a study of all of them on eleven data sets, ten splits each.

    python benchmarks/study.py                       # what is missing in benchmarks/results/study.jsonl, then the page
    python benchmarks/study.py --quick --out DIR     # two splits, the fast selectors
    python benchmarks/study.py --tables              # no run: the page docs/how-to-choose.md from the stored rows
    python benchmarks/study.py --folder DIR --out OUT   # further sets: CSV files with x1.., y, and test rows in test0..

A run is one fit and its scores at the test rows, one line of JSON. Tables are a pure function of these rows.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from bars.storing import commit
from knotwise import GPRegressor, datasets, kernels, metrics
from knotwise.errors import KnotwiseError
from knotwise.knots import Auto, BayesOpt, EvidenceGain, GreedyVariance, KMeans, OneAtATime, RandomSubset, Simultaneous
from knotwise.optimize.adadelta import Adadelta

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "how-to-choose.md"
SEEDS = range(10)
Row = dict[str, Any]

# -- data sets ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Task:
    """Training and test rows, and the options of the model that fits them."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    options: dict[str, Any] = field(default_factory=dict)
    exposure: np.ndarray | None = None  # of the training rows, which are also the test rows

    @property
    def with_exposure(self) -> dict[str, Any]:
        return {} if self.exposure is None else {"exposure": self.exposure}


def parted(X: np.ndarray, y: np.ndarray, n_train: int, rng: np.random.Generator, **options: Any) -> Task:
    """The first rows of a random order to train, the others to test."""
    order = rng.permutation(len(X))
    train, test = order[:n_train], order[n_train:]
    return Task(X[train], y[train], X[test], y[test], options)


def boston(seed: int) -> Task:
    part = datasets.split(datasets.load_boston(), seed=seed)
    return Task(part.X_train, part.y_train, part.X_test, part.y_test)


def banana(seed: int) -> Task:
    part = datasets.split(datasets.load_banana(), seed=seed, n_train=531)
    return Task(part.X_train, part.y_train, part.X_test, part.y_test, {"likelihood": "bernoulli"})


def hickory(seed: int) -> Task:
    trees = datasets.load_hickory()
    options = {"likelihood": "poisson", "nugget": "fit", "standardize": "common"}
    return Task(trees.X, trees.y, trees.X, trees.y, options, trees.exposure)


def diabetes(seed: int) -> Task:
    from sklearn.datasets import load_diabetes

    X, y = load_diabetes(return_X_y=True)
    return parted(X, y, 354, np.random.default_rng(seed))


def cancer(seed: int) -> Task:
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True)
    return parted(X[:, :10], y.astype(float), 455, np.random.default_rng(seed), likelihood="bernoulli")


def smooth_values(X: np.ndarray, lengthscale: float, rng: np.random.Generator) -> np.ndarray:
    """A draw of the squared-exponential GP with variance 1 at the rows of X."""
    K = kernels.SquaredExponential(1.0, lengthscale)(X, X)
    return np.linalg.cholesky(K + 1e-8 * np.eye(len(X))) @ rng.standard_normal(len(X))


def simulated(X: np.ndarray, lengthscale: float, n_train: int, rng: np.random.Generator) -> Task:
    return parted(X, smooth_values(X, lengthscale, rng) + 0.3 * rng.standard_normal(len(X)), n_train, rng)


def wiggle(seed: int) -> Task:
    rng = np.random.default_rng(seed)
    return simulated(rng.uniform(size=(700, 1)), 1 / 20, 500, rng)


def surface(seed: int) -> Task:
    rng = np.random.default_rng(seed)
    return simulated(rng.uniform(size=(1300, 2)), 0.12, 1000, rng)


def clusters(seed: int) -> Task:
    rng = np.random.default_rng(seed)
    centres, spread = rng.uniform(size=(10, 2)), rng.standard_normal((800, 2))
    return simulated(centres[rng.integers(10, size=800)] + 0.04 * spread, 0.15, 600, rng)


def friedman(seed: int) -> Task:
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(1000, 8))
    f = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    return parted(X, f + rng.standard_normal(1000), 700, rng)


def noise(seed: int) -> Task:
    rng = np.random.default_rng(seed)
    return parted(rng.uniform(size=(700, 2)), rng.standard_normal(700), 500, rng)


def counts(seed: int) -> Task:
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(800, 2))
    y = rng.poisson(3 * np.exp(smooth_values(X, 0.2, rng))).astype(float)
    return parted(X, y, 600, rng, likelihood="poisson")


SETS: dict[str, tuple[str, Callable[[int], Task]]] = {
    "boston": ("house values, N = 392, d = 3", boston),
    "banana": ("two classes, N = 531, d = 2", banana),
    "hickory": ("counts with exposure and nugget, N = 900, d = 2; scored at its own rows", hickory),
    "diabetes": ("N = 354, d = 10", diabetes),
    "cancer": ("two classes, N = 455, d = 10", cancer),
    "wiggle": ("simulated, length-scale 1/20, N = 500, d = 1", wiggle),
    "surface": ("simulated, length-scale 0.12, N = 1000, d = 2", surface),
    "clusters": ("simulated, inputs in ten clusters, N = 600, d = 2", clusters),
    "friedman": ("simulated, smooth and nearly additive, N = 700, d = 8", friedman),
    "noise": ("simulated, no signal, N = 500, d = 2", noise),
    "counts": ("simulated Poisson counts, N = 600, d = 2", counts),
}


def sets_of_folder(folder: Path) -> dict[str, tuple[str, Callable[[int], Task]]]:
    """Sets from CSV files, plain or packed with gzip: inputs x1.., target y, and test0.. in which 1 marks test rows."""
    import csv
    import gzip

    def read(path: Path) -> dict[str, np.ndarray]:
        with (gzip.open if path.suffix == ".gz" else open)(path, "rt") as file:
            names, *lines = list(csv.reader(file))
        return dict(zip(names, np.array(lines, float).T, strict=True))

    def task(path: Path, seed: int) -> Task:
        table = read(path)
        splits = [name for name in table if name.startswith("test")]
        X, y = np.column_stack([table[name] for name in table if name.startswith("x")]), table["y"]
        test = table[splits[seed % len(splits)]] == 1
        y = (y - y[~test].mean()) / y[~test].std()
        return Task(X[~test], y[~test], X[test], y[test])

    return {
        path.name.split(".")[0]: (f"from {path.name}", partial(task, path)) for path in sorted(folder.glob("*.csv*"))
    }


PAPER_SETS = ("boston", "banana", "hickory")
KERNEL_SETS = ("boston", "banana", "diabetes", "cancer", "friedman")
SAME_ROWS = ("hickory",)  # no split: seeds change the selector only, and one exact GP serves all

# -- selectors ------------------------------------------------------------------------------------

PUBLISHED = Adadelta(epsilon=1e-4, value_tolerance=1e-3, max_iterations=1000)

#: of one-at-a-time selection when its rows were made
OAT_AS_STORED: dict[str, Any] = {"hold_until": "auto", "start_rows": 150, "unexplained": None}


@dataclass(frozen=True)
class Choice:
    """A selector with its approximation: its name in the tables, the estimator's options, where it runs and when."""

    label: str
    options: Callable[[], dict[str, Any]]
    sets: tuple[str, ...] = tuple(SETS)
    fast: bool = True  # part of --quick, and run before the slow ones
    elsewhere: int = len(SEEDS)  # seeds on sets that the paper does not have


def _auto(kernel: str) -> Callable[[], dict[str, Any]]:
    return lambda: {"kernel": getattr(kernels, kernel)(), "knots": Auto(), "approximation": "vfe"}


CHOICES: dict[str, Choice] = {
    "full": Choice("exact GP", lambda: {"approximation": "full"}),
    "auto": Choice("Auto, VFE", lambda: {"knots": Auto(), "approximation": "vfe"}),
    "default": Choice("default", lambda: {"kernel": None}),
    "full-ard": Choice(
        "exact GP, a length-scale per column",
        lambda: {"kernel": kernels.SquaredExponential(ard=True), "approximation": "full"},
    ),
    "sim-vfe": Choice(
        "Simultaneous(50), VFE", lambda: {"knots": Simultaneous(50), "approximation": "vfe"}, elsewhere=5
    ),
    "sim-fic": Choice(
        "Simultaneous(50), FIC", lambda: {"knots": Simultaneous(50), "approximation": "fic"}, elsewhere=5
    ),
    "greedy": Choice("GreedyVariance(50), VFE", lambda: {"knots": GreedyVariance(50), "approximation": "vfe"}),
    "kmeans": Choice("KMeans(50), VFE", lambda: {"knots": KMeans(50), "approximation": "vfe"}),
    "auto-matern52": Choice("Auto, Matern 5/2", _auto("Matern52"), KERNEL_SETS),
    "auto-matern32": Choice("Auto, Matern 3/2", _auto("Matern32"), KERNEL_SETS),
    "sim-fic-published": Choice(
        "Simultaneous(50), FIC, published optimiser",
        lambda: {"knots": Simultaneous(50), "approximation": "fic", "optimizer": PUBLISHED},
        PAPER_SETS,
    ),
    "oat-rs-published": Choice(
        "OAT-RS as published, FIC",
        lambda: {"knots": OneAtATime.paper("rs"), "approximation": "fic"},
        PAPER_SETS,
        fast=False,
    ),
    "oat-rs": Choice(
        "OAT-RS, FIC",
        lambda: {"knots": OneAtATime(proposal=RandomSubset(25), **OAT_AS_STORED), "approximation": "fic"},
        (*PAPER_SETS, "diabetes", "wiggle", "counts"),
        fast=False,
        elsewhere=3,
    ),
    "oat-gain": Choice(
        "OAT by predicted gain to share 0.2, VFE",
        lambda: {
            "knots": OneAtATime(proposal=EvidenceGain(), share=0.2, max_knots=150, **OAT_AS_STORED),
            "approximation": "vfe",
        },
        tuple(name for name in SETS if name != "friedman"),
        fast=False,
        elsewhere=3,
    ),
    "oat-bo": Choice(
        "OAT-BO, FIC",
        lambda: {"knots": OneAtATime(proposal=BayesOpt(10, 25), **OAT_AS_STORED), "approximation": "fic"},
        PAPER_SETS,
        fast=False,
    ),
    "oat-bo-published": Choice(
        "OAT-BO as published, FIC",
        lambda: {"knots": OneAtATime.paper("bo"), "approximation": "fic"},
        PAPER_SETS,
        fast=False,
    ),
}

# -- runs -----------------------------------------------------------------------------------------


def fit(task: Task, choice: Choice, seed: int) -> tuple[GPRegressor, float]:
    options = {"kernel": kernels.SquaredExponential(), "random_state": seed, "n_jobs": 1} | task.options
    gp = GPRegressor(**(options | choice.options()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.perf_counter()
        gp.fit(task.X, task.y, **task.with_exposure)
        return gp, time.perf_counter() - start


@cache
def exact(name: str, seed: int) -> tuple[GPRegressor, float]:
    """The exact GP of a set and seed, fitted once for all that are compared with it."""
    return fit(SETS[name][1](seed), CHOICES["full"], seed)


def run(name: str, selector: str, seed: int) -> Row:
    """Fit one model and score it at the test rows, beside the exact GP."""
    task = SETS[name][1](seed)
    full, full_seconds = exact(name, 0 if name in SAME_ROWS else seed)
    row: Row = {"set": name, "selector": selector, "seed": seed}
    try:
        gp, seconds = (full, full_seconds) if selector == "full" else fit(task, CHOICES[selector], seed)
    except KnotwiseError as error:
        return row | {"error": str(error)}
    p, q = full.predict_latent(task.X_test), gp.predict_latent(task.X_test)
    kernel = getattr(gp.kernel_, "kernel", gp.kernel_)  # of few of many columns
    row |= {
        "n_knots": int(gp.n_knots_),
        "seconds": round(seconds, 4),
        "log_evidence": float(gp.log_evidence_),
        "full_log_evidence": float(full.log_evidence_),
        "aukl": metrics.aukl_latent(p.mean, p.variance, q.mean, q.variance),
        "nlpd": _nlpd(gp, task),
        "full_nlpd": _nlpd(full, task),
        "kernel": type(kernel).__name__ + (" per column" if np.ndim(kernel.lengthscale) else ""),
        "converged": bool(gp.converged_),
        "stop_reason": gp.stop_reason_,
    }
    if gp.likelihood_.conjugate:
        row["coverage"] = metrics.interval_coverage(task.y_test, *gp.predict_interval(task.X_test).T)
    share = gp.trace_[-1].share if selector.startswith(("auto", "oat")) and len(gp.trace_) else np.nan
    if np.isfinite(share):
        row["share"] = float(share)
    return row


def _nlpd(gp: GPRegressor, task: Task) -> float:
    return metrics.mean_nlpd(gp.log_predictive_density(task.X_test, task.y_test, **task.with_exposure))


def key(row: Row) -> tuple[str, str, int]:
    return row["set"], row["selector"], row["seed"]


def plan(only: Sequence[str] = (), *, quick: bool = False) -> list[tuple[str, str, int]]:
    """Every run, in the order of running: fast selectors on all seeds first, then the slow ones seed by seed."""
    runs = [
        (name, selector, seed)
        for fast in (True, False)
        for seed in (range(2) if quick else SEEDS)
        for name in SETS
        for selector, choice in CHOICES.items()
        if choice.fast is fast and name in choice.sets and (not only or name in only)
        if seed < (len(SEEDS) if name in PAPER_SETS else choice.elsewhere)
    ]
    repeated = {(name, "full", seed) for name in SAME_ROWS for seed in SEEDS[1:]}
    return [each for each in runs if each not in repeated and not (quick and not CHOICES[each[1]].fast)]


def run_missing(
    runs: Iterable[tuple[str, str, int]], path: Path, run_one: Callable[[str, str, int], Row] = run
) -> list[Row]:
    """Run what the file does not hold yet, appending each row as it is there; return all rows of the file."""
    rows = read_rows(path)
    done = {key(row) for row in rows}
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        for each in runs:
            if each in done:
                continue
            row = run_one(*each)
            file.write(json.dumps(row | {"commit": commit()}) + "\n")
            file.flush()
            rows.append(row)
            seen = f"{row.get('n_knots', 0):4d} knots {row.get('seconds', 0):7.2f} s"
            print(f"{each[0]:9} {each[1]:18} seed {each[2]}  {row.get('error') or seen}", file=sys.stderr, flush=True)
    return rows


def read_rows(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


# -- tables: pure functions of the rows -----------------------------------------------------------

OTHER_KERNELS = ("default", "full-ard")  # which are not to be compared with the isotropic exact GP
NO_LATENT = ("noise",)  # the latent variance is that of nothing: a divergence from it says nothing
CLAIMS = (("lower AUKL", "aukl"), ("fewer knots", "n_knots"), ("shorter time", "seconds"))
RIVALS = (
    ("published", "OAT-BO", "oat-bo-published", "sim-fic-published"),
    ("published", "OAT-RS", "oat-rs-published", "sim-fic-published"),
    ("L-BFGS", "OAT-BO", "oat-bo", "sim-fic"),
    ("L-BFGS", "OAT-RS", "oat-rs", "sim-fic"),
)
RULE = 0.58  # AUKL over share^2 that was found earlier, at the exact GP's parameters
HOLDS = 0.8  # share of the splits in which a claim must be true to hold; false in as many, it turns


def markdown(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A Markdown table; the first column is text, the others are numbers."""
    rule = [":--", *["--:"] * (len(header) - 1)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [header, rule, *lines])


def spread(values: Sequence[float], style: str = ".2g") -> str:
    """The median and, where it is not all, the range: `3 (1 to 9)`."""
    if not values:
        return "-"
    middle, low, high = (f"{v:{style}}" for v in (float(np.median(values)), min(values), max(values)))
    return middle if low == high else f"{middle} ({low} to {high})"


def chosen(rows: Iterable[Row], name: str, selector: str) -> list[Row]:
    """The rows of a set and a selector that have a result, in the order of their seeds."""
    found = [row for row in rows if row["set"] == name and row["selector"] == selector and "error" not in row]
    return sorted(found, key=lambda row: row["seed"])


def excess(row: Row, column: str) -> float:
    return row[column] - row[f"full_{column}"]


def set_table(rows: Sequence[Row], name: str) -> str:
    """All selectors on one set."""
    header = ["selector", "runs", "knots", "seconds", "log evidence", "AUKL", "mean NLPD", "coverage"]
    lines = []
    for selector, choice in CHOICES.items():
        own = chosen(rows, name, selector)
        if not own or selector.startswith("auto-") or selector in OTHER_KERNELS:
            continue
        failed = sum(key(row)[:2] == (name, selector) and "error" in row for row in rows)
        is_exact = selector == "full"
        aukl = [] if is_exact or name in NO_LATENT else [row["aukl"] for row in own]
        differences = [
            spread([row[column] if is_exact else excess(row, column) for row in own], style)
            for column, style in (
                ("log_evidence", ".1f" if is_exact else "+.1f"),
                ("nlpd", ".3f" if is_exact else "+.3f"),
            )
        ]
        lines.append(
            [
                choice.label,
                f"{len(own)}" + (f", {failed} failed" if failed else ""),
                "-" if is_exact else spread([row["n_knots"] for row in own], "g"),
                spread([row["seconds"] for row in own]),
                differences[0],
                spread(aukl),
                differences[1],
                spread([row["coverage"] for row in own if "coverage" in row], ".2f"),
            ]
        )
    return markdown(header, lines)


def sets_block(rows: Sequence[Row], names: Sequence[str]) -> str:
    parts = [f"### {name}: {SETS[name][0]}\n\n{set_table(rows, name)}" for name in names]
    return "\n\n".join(parts)


def auto_block(rows: Sequence[Row]) -> str:
    """The default on every set, and its worst seed."""
    lines = []
    for name in SETS:
        own, full = chosen(rows, name, "auto"), chosen(rows, name, "full")
        if not own:
            continue
        worst = max(own, key=lambda row: row["aukl"])
        known = name not in NO_LATENT
        lines.append(
            [
                name,
                str(len(own)),
                spread([row["n_knots"] for row in own], "g"),
                spread([row["seconds"] for row in own]),
                spread([row["seconds"] for row in full]),
                spread([row["aukl"] for row in own]) if known else "-",
                str(worst["seed"]) if known else "-",
                spread([excess(row, "nlpd") for row in own], "+.3f"),
                f"{sum('the limit of' in row['stop_reason'] for row in own)} of {len(own)}",
            ]
        )
    header = [
        "set",
        "runs",
        "knots",
        "seconds",
        "seconds, exact GP",
        "AUKL",
        "worst seed",
        "mean NLPD",
        "limit reached",
    ]
    return markdown(header, lines)


def defaults_block(rows: Sequence[Row]) -> str:
    """What the plain default takes, beside exact GPs with one length-scale and with one per column."""
    from collections import Counter

    lines, total = [], {"default": 0.0, "full-ard": 0.0}
    for name in SETS:
        both = pairs(rows, name, "default", "full-ard")
        if not both:
            continue
        own, ard = [one for one, _ in both], [other for _, other in both]
        (kernel, times), *_ = Counter(row["kernel"] for row in own).most_common(1)
        for selector, found in (("default", own), ("full-ard", ard)):
            total[selector] += float(np.mean([row["seconds"] for row in found]))
        lines.append(
            [
                name,
                f"{kernel}, {times} of {len(own)}",
                f"{sum(row['n_knots'] == 0 for row in own)} of {len(own)}",
                spread([row["n_knots"] for row in own if row["n_knots"]], "g"),
                spread([row["nlpd"] for row in own], ".3f"),
                *(spread([row["nlpd"] - other["nlpd"] for row, other in both], "+.3f"),),
                spread([excess(row, "nlpd") for row in own], "+.3f"),
                spread([row["seconds"] for row in own]),
                spread([row["seconds"] for row in ard]),
            ]
        )
    header = [
        "set",
        "kernel",
        "exact GP taken",
        "knots",
        "mean NLPD",
        "minus exact, per column",
        "minus exact, isotropic",
    ]
    table = markdown([*header, "seconds", "seconds, exact per column"], lines)
    if not lines:
        return table
    ratio = total["default"] / total["full-ard"]
    note = f"In sum over the sets the default takes {ratio:.2f} of the time of the exact GP per column."
    return f"{table}\n\n{note}"


def pairs(rows: Sequence[Row], name: str, first: str, second: str) -> list[tuple[Row, Row]]:
    """The rows of two selectors on the same set and seed."""
    others = {row["seed"]: row for row in chosen(rows, name, second)}
    return [(row, others[row["seed"]]) for row in chosen(rows, name, first) if row["seed"] in others]


def verdict(n_true: int, n: int) -> str:
    if not n:
        return "not run"
    return "holds" if n_true >= HOLDS * n else "turns" if n_true <= (1 - HOLDS) * n + 1e-9 else "mixed"


def claims_block(rows: Sequence[Row]) -> str:
    """In how many splits one-at-a-time selection beats simultaneous optimisation of 50 knots, both under FIC."""
    lines, totals = [], []
    for optimiser, method, selector, rival in RIVALS:
        found = {name: pairs(rows, name, selector, rival) for name in PAPER_SETS}
        true = {(n, c): sum(one[c] < other[c] for one, other in found[n]) for n in PAPER_SETS for _, c in CLAIMS}
        lines += [
            [f"{name}, {method}, {optimiser}", *(f"{true[name, c]} of {len(found[name])}" for _, c in CLAIMS)]
            for name in PAPER_SETS
        ]
        n = sum(map(len, found.values()))
        sums = [sum(true[name, c] for name in PAPER_SETS) for _, c in CLAIMS]
        totals.append([f"{method}, {optimiser}", *(f"{verdict(s, n)} ({s} of {n})" for s in sums)])
    claims = [claim for claim, _ in CLAIMS]
    return "\n\n".join(
        [
            markdown(["set, method, optimiser", *claims], lines),
            f"All three sets; a claim holds if true in {HOLDS:.0%} of the splits, and turns if false in as many:",
            markdown(["method, optimiser", *claims], totals),
        ]
    )


def power_block(rows: Sequence[Row]) -> str:
    """The same 50 knots optimised under FIC and under VFE: evidence and held-out density against the exact GP's."""
    header = ["set", "log evidence, FIC", "VFE", "AUKL, FIC", "VFE", "mean NLPD, FIC", "VFE", "NLPD lower under VFE"]
    lines = []
    for name in SETS:
        both = pairs(rows, name, "sim-fic", "sim-vfe")
        if not both:
            continue
        cells = [spread([excess(pair[i], "log_evidence") for pair in both], "+.1f") for i in (0, 1)]
        cells += ["-"] * 2 if name in NO_LATENT else [spread([pair[i]["aukl"] for pair in both]) for i in (0, 1)]
        cells += [spread([excess(pair[i], "nlpd") for pair in both], "+.3f") for i in (0, 1)]
        lower = sum(vfe["nlpd"] < fic["nlpd"] for fic, vfe in both)
        lines.append([name, *cells, f"{lower} of {len(both)}"])
    return markdown(header, lines)


def kernels_block(rows: Sequence[Row]) -> str:
    """Auto with three kernels: held-out density, knots, time."""
    header = ["set, kernel", "runs", "mean NLPD", "NLPD lower than squared exponential", "knots", "seconds"]
    labels = {"auto": "squared exponential", "auto-matern52": "Matern 5/2", "auto-matern32": "Matern 3/2"}
    lines = []
    for name in KERNEL_SETS:
        for selector, label in labels.items():
            own, both = chosen(rows, name, selector), pairs(rows, name, selector, "auto")
            lower = f"{sum(one['nlpd'] < se['nlpd'] for one, se in both)} of {len(both)}"
            cells = [spread([row["nlpd"] for row in own], ".3f"), "-" if selector == "auto" else lower]
            cells += [spread([row["n_knots"] for row in own], "g"), spread([row["seconds"] for row in own])]
            lines.append([f"{name}, {label}", str(len(own)), *cells])
    return markdown(header, lines)


def share_block(rows: Sequence[Row]) -> str:
    """AUKL over the square of the unexplained share, for Auto."""
    own = {
        name: [row for row in chosen(rows, name, "auto") if "share" in row] for name in SETS if name not in NO_LATENT
    }
    ratio = {name: [row["aukl"] / row["share"] ** 2 for row in found] for name, found in own.items() if found}
    lines = [
        [name, spread([row["share"] for row in own[name]]), spread([row["aukl"] for row in own[name]]), spread(values)]
        for name, values in ratio.items()
    ]
    every = [value for values in ratio.values() for value in values]
    lines.append(["all", "", "", spread(every)])
    below = f"AUKL is below {RULE:g} share^2 in {sum(value < RULE for value in every)} of {len(every)} runs."
    return markdown(["set", "unexplained share", "AUKL", "AUKL / share^2"], lines) + "\n\n" + below


def limits_block(rows: Sequence[Row]) -> str:
    """What Auto says when its limit is too low, in the words of the first such run of each set."""
    said = []
    for name in SETS:
        reached = [row for row in chosen(rows, name, "auto") if "the limit of" in row["stop_reason"]]
        said += [f'* {name}, seed {row["seed"]}: "{row["stop_reason"]}"' for row in reached[:1]]
    return "\n".join(said) or "No run reached its limit."


BLOCKS: dict[str, Callable[[Sequence[Row]], str]] = {
    "defaults": defaults_block,
    "auto": auto_block,
    "power": power_block,
    "kernels": kernels_block,
    "claims": claims_block,
    "share": share_block,
    "limits": limits_block,
    "paper sets": lambda rows: sets_block(rows, PAPER_SETS),
    "other sets": lambda rows: sets_block(rows, [name for name in SETS if name not in PAPER_SETS]),
}
BLOCK = re.compile(r"(<!-- study:start -->\n<!-- (?P<name>[\w ]+) -->\n).*?(<!-- study:end -->)", re.DOTALL)


def with_tables(page: str, rows: Sequence[Row]) -> str:
    """The page with the text between its markers made from the rows; the first line of a block names it."""
    return BLOCK.sub(lambda m: f"{m[1]}\n{BLOCKS[m['name']](rows)}\n\n{m[3]}", page)


def all_tables(rows: Sequence[Row]) -> str:
    return "\n\n".join(f"## {name}\n\n{block(rows)}" for name, block in BLOCKS.items()) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two splits and the fast selectors")
    parser.add_argument("--only", default="", help="some data sets, such as boston,banana")
    parser.add_argument("--out", type=Path, help="folder for the rows and their tables, instead of the stored ones")
    parser.add_argument("--tables", action="store_true", help="run nothing, write the tables")
    parser.add_argument("--folder", type=Path, help="CSV files of further sets; needs --out")
    options = parser.parse_args(arguments)
    if options.folder is not None:
        if options.out is None:
            parser.error("--folder needs --out, since its rows are not to be stored with the others")
        SETS.update(sets_of_folder(options.folder))
    only = [name for name in options.only.split(",") if name]
    if unknown := set(only) - set(SETS):
        parser.error(f"no data set {', '.join(sorted(unknown))}; there are {', '.join(SETS)}")
    path = (options.out or HERE / "results") / "study.jsonl"
    rows = read_rows(path) if options.tables else run_missing(plan(only, quick=options.quick), path)
    if options.out:
        (options.out / "study.md").write_text(all_tables(rows), encoding="utf-8")
    else:
        PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8"), rows), encoding="utf-8")


if __name__ == "__main__":
    main()
