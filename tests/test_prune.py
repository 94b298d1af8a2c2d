"""Pruning in groups: what is dropped costs little, what is kept does not, and few evaluations tell."""

import importlib.util
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from knotwise import GPRegressor
from knotwise.knots import Auto
from knotwise.knots.automatic import auto
from knotwise.knots.automatic.prune import prune
from knotwise.knots.problem import Problem
from knotwise.knots.trace import KnotTrace

TOLERANCE = 0.01


def crowded(likelihood, n_knots, rng):
    """A fitted problem under VFE, and many more knots than its smooth function needs."""
    X = rng.uniform(size=(400, 2))
    f = np.sin(3 * X[:, 0]) + X[:, 1]
    y = rng.poisson(np.exp(f)) if likelihood == "poisson" else f + 0.3 * rng.normal(size=400)
    gp = GPRegressor(likelihood=likelihood, knots=8, random_state=0, n_jobs=1).fit(X, y)
    problem, theta = gp._fit.problem, gp._fit.selection.theta
    rows = problem.rows.X[rng.choice(400, n_knots, replace=False)]
    return replace(problem.anew(), model=problem.model.with_power(0.0)), theta, rows


def value(problem, theta, Z):
    return problem.evaluate(problem.point(theta, Z), gradient=False).value


@pytest.mark.parametrize("likelihood", ["gaussian", "poisson"])
def test_dropped_knots_cost_little_and_kept_ones_do_not(likelihood, rng, monkeypatch):
    problem, theta, Z = crowded(likelihood, 80, rng)
    passes = {"evaluate": 0, "knot_sums": 0}

    def counted(name, real):
        def call(*args, **kwargs):
            passes[name] += 1
            return real(*args, **kwargs)

        return call

    for name in passes:
        monkeypatch.setattr(Problem, name, counted(name, getattr(Problem, name)))
    kept = prune(problem, theta, Z, TOLERANCE, KnotTrace())
    used = sum(passes.values())
    dropped = len(Z) - len(kept)
    assert dropped > 40
    assert used <= (3 if likelihood == "gaussian" else 20)  # one at a time, each knot would take five and more
    assert value(problem, theta, kept) > value(problem, theta, Z) - TOLERANCE * dropped
    whole = value(problem, theta, kept)
    without = [value(problem, theta, np.delete(kept, k, axis=0)) for k in range(len(kept))]
    assert whole - max(without) > 0.9 * TOLERANCE  # jitters differ a little


def test_of_two_knots_that_stand_for_each_other_one_is_kept(rng):
    problem, theta, Z = crowded("gaussian", 12, rng)
    Z = prune(problem, theta, Z, TOLERANCE, KnotTrace())
    twice = np.vstack([Z, Z + 1e-3])
    kept = prune(problem, theta, twice, TOLERANCE, KnotTrace())
    dropped = len(twice) - len(kept)
    assert dropped >= len(Z) // 2
    assert value(problem, theta, kept) > value(problem, theta, twice) - TOLERANCE * dropped


def test_knots_are_judged_on_all_rows_and_not_on_the_subset_that_found_them(rng, monkeypatch):
    monkeypatch.setattr(auto, "SELECTION_ROWS", 150)
    seen = []
    monkeypatch.setattr(
        auto, "prune", lambda problem, *args: seen.append(problem.summary.count) or prune(problem, *args)
    )
    X = rng.uniform(size=(900, 1))
    GPRegressor(random_state=0).fit(X, np.sin(9 * X[:, 0]) + 0.1 * rng.normal(size=900))
    assert seen == [900]


def test_a_share_above_the_wanted_one_is_explained_truly(rng):
    choose = Auto()
    X = rng.uniform(size=(500, 1))
    problem = GPRegressor(random_state=0).fit(X, np.sin(9 * X[:, 0]) + 0.1 * rng.normal(size=500))._fit.problem

    def said(share, ended, n_knots=50, too_few=False):
        return choose._reason(problem, n_knots, share, ended, too_few=too_few)

    assert "wanted" not in said(0.1, "enough") and "limit" not in said(0.1, "limit")
    assert "the limit of 166 knots was reached" in said(0.3, "limit", n_knots=166)
    assert "the limit of 166 knots was reached" in said(0.1, "enough", too_few=True)
    assert "no row brings more than rounding" in said(0.3, "rounding")
    assert "rounding" not in said(0.3, "rounds") and "ask for `knots=166`" in said(0.3, "rounds")
    assert "were dropped" in said(0.3, "enough") and "rounding" not in said(0.3, "enough")


STORED = Path(__file__).parents[1] / "benchmarks" / "results" / "pruning.jsonl"


@pytest.mark.slow
def test_the_stored_shares_of_time_are_below_a_tenth_also_where_many_knots_are_dropped():
    """Measured by benchmarks/bars/pruning.py; here what is stored, and that a case of it drops what is said."""
    stored = {row["case"]: row for row in map(json.loads, STORED.read_text().splitlines())}  # the latest of each
    rows = stored.values()
    assert all(row["share_of_time"] < row["limit"] == 0.1 and row["commit"] for row in rows)
    assert len(stored) == 7 and max(row["rows"] for row in rows) == 30_000
    assert sum(row["knots_before"] - row["knots_after"] > 5 for row in rows) >= 3
    X, y, options = bar().cases()["counts, tolerance 1"]
    again = bar().measure(X, y, options)
    expected = stored["counts, tolerance 1"]
    assert again["knots_before"] == expected["knots_before"]
    assert abs(again["knots_after"] - expected["knots_after"]) <= 1  # a knot at the tolerance


def bar():
    spec = importlib.util.spec_from_file_location("pruning_bar", STORED.parents[1] / "bars" / "pruning.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
