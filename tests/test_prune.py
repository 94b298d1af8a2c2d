"""Pruning in groups: what is dropped costs little, what is kept does not, and few evaluations tell."""

import importlib.util
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from knotwise import GPRegressor
from knotwise.decisions import enough, pruning
from knotwise.decisions.enough import Rule
from knotwise.decisions.thresholds import AUTO
from knotwise.kernels import SquaredExponential
from knotwise.knots import Auto
from knotwise.selection.problem import Problem
from knotwise.selection.trace import KnotTrace

TOLERANCE = 0.01
ANY = Rule.of("observation", 1.0, 300)  # forbids nothing


def crowded(likelihood, n_knots, rng):
    """A fitted problem under VFE, and many more knots than its smooth function needs."""
    X = rng.uniform(size=(400, 2))
    f = np.sin(3 * X[:, 0]) + X[:, 1]
    y = rng.poisson(np.exp(f)) if likelihood == "poisson" else f + 0.3 * rng.normal(size=400)
    gp = GPRegressor(SquaredExponential(), likelihood, knots=8, random_state=0, n_jobs=1).fit(X, y)
    problem, theta = gp._fit.problem, gp._fit.selection.theta
    rows = problem.rows.X[rng.choice(400, n_knots, replace=False)]
    return replace(problem.anew(), model=problem.model.with_power(0.0)), theta, rows


def value(problem, theta, Z):
    return problem.evaluate(problem.point(theta, Z), gradient=False).value


@pytest.mark.parametrize("likelihood", ["gaussian", "poisson"])
def test_dropped_knots_cost_little_and_kept_ones_do_not(likelihood, rng, monkeypatch):
    problem, theta, Z = crowded(likelihood, 80, rng)
    passes = {"evaluate": 0, "knot_sums": 0, "scores": 0}

    def counted(name, real):
        def call(*args, **kwargs):
            passes[name] += 1
            return real(*args, **kwargs)

        return call

    for name in passes:
        monkeypatch.setattr(Problem, name, counted(name, getattr(Problem, name)))
    kept = pruning.decide(problem, theta, Z, TOLERANCE, KnotTrace(), ANY).choice
    used = sum(passes.values())
    dropped = len(Z) - len(kept)
    assert dropped > 40
    assert used <= (
        5 if likelihood == "gaussian" else 22
    )  # two of them for the rule. One at a time, each knot would take five and more
    assert value(problem, theta, kept) > value(problem, theta, Z) - TOLERANCE * dropped
    whole = value(problem, theta, kept)
    without = [value(problem, theta, np.delete(kept, k, axis=0)) for k in range(len(kept))]
    assert whole - max(without) > 0.9 * TOLERANCE  # jitters differ a little


def test_of_two_knots_that_stand_for_each_other_one_is_kept(rng):
    problem, theta, Z = crowded("gaussian", 12, rng)
    Z = pruning.decide(problem, theta, Z, TOLERANCE, KnotTrace(), ANY).choice
    twice = np.vstack([Z, Z + 1e-3])
    kept = pruning.decide(problem, theta, twice, TOLERANCE, KnotTrace(), ANY).choice
    dropped = len(twice) - len(kept)
    assert dropped >= len(Z) // 2
    assert value(problem, theta, kept) > value(problem, theta, twice) - TOLERANCE * dropped


@pytest.mark.parametrize(("tolerance", "share"), [(TOLERANCE, 0.18), (3.0, 0.18), (3.0, 0.05)])
def test_knots_are_dropped_only_as_long_as_the_others_are_enough(tolerance, share, rng):
    problem, theta, Z = crowded("gaussian", 80, rng)
    rule = Rule.of("latent", share, 300)

    def is_enough(knots):
        return rule.are_enough(problem.scores(problem.point(theta, knots)))

    kept, without_rule = (
        pruning.decide(problem, theta, Z, tolerance, KnotTrace(), each).choice for each in (rule, ANY)
    )
    assert is_enough(Z) and is_enough(kept) and len(kept) < len(Z)
    if tolerance > 1:  # the cheapest knots that the tolerance alone would drop are needed
        assert not is_enough(without_rule) and len(kept) > len(without_rule)
        assert {tuple(z) for z in without_rule} < {tuple(z) for z in kept}


def test_without_a_rule_the_tolerance_alone_drops_some(rng):
    problem, theta, Z = crowded("gaussian", 80, rng)
    kept, by_any = (pruning.decide(problem, theta, Z, TOLERANCE, KnotTrace(), rule).choice for rule in (None, ANY))
    assert len(kept) < len(Z) and kept.tolist() == by_any.tolist()
    strict = Rule.of("latent", 0.0, 300)  # which nothing satisfies
    assert len(pruning.decide(problem, theta, Z, TOLERANCE, KnotTrace(), strict).choice) == len(Z)


def test_knots_are_judged_on_all_rows_and_not_on_the_subset_that_found_them(rng, monkeypatch):
    monkeypatch.setitem(vars(AUTO), "selection_rows", 150)
    seen, real = [], pruning.decide
    monkeypatch.setattr(
        pruning, "decide", lambda problem, *args: seen.append(problem.summary.count) or real(problem, *args)
    )
    X = rng.uniform(size=(900, 1))
    GPRegressor(SquaredExponential(), random_state=0).fit(X, np.sin(9 * X[:, 0]) + 0.1 * rng.normal(size=900))
    assert seen == [900]


def test_how_it_ended_is_explained_truly_with_status_and_advice(rng):
    X = rng.uniform(size=(500, 1))
    gp = GPRegressor(SquaredExponential(), knots=5, optimizer=None, random_state=0).fit(X, np.sin(9 * X[:, 0]))
    problem, choose = gp._fit.problem, Auto()
    latent = choose._rule(problem)
    assert (latent.target, latent.share, latent.cap) == ("latent", 0.18, 166)

    def end(share, ended, n_knots=50, hyperparameters="converged"):
        return enough.decide(latent, n_knots, share, ended=ended, hyperparameters=hyperparameters, n_rows=500)

    for fine in (end(0.1, "enough"), end(0.1, "limit")):
        assert fine.why == "50 knots leave a share of 0.100 of the posterior variance unexplained"
        assert fine.choice is None and fine.advice == ""
    for limited in (end(0.3, "limit", n_knots=166), end(0.1, "enough", hyperparameters="too few")):
        assert "the limit of 166 knots was reached and more are needed" in limited.why
        assert limited.choice == "limit reached"
        assert limited.advice == "Write `knots=Auto(max_knots=332)`, or `approximation='full'`."
    assert (
        "above the 0.18 wanted" in end(0.3, "limit").why
        and "wanted" not in end(0.1, "enough", hyperparameters="too few").why
    )
    rounding = end(0.3, "rounding")
    assert "above the 0.18 wanted, but no row brings more than rounding" in rounding.why and rounding.choice is None
    rounds = end(0.3, "rounds")
    assert "rounding" not in rounds.why and "further ones would lower it" in rounds.why
    assert rounds.choice == "limit reached" and "`knots=166`" in rounds.advice and "knots=" not in rounds.why
    moving = end(0.1, "enough", hyperparameters="moving")
    assert "parameters still moved" in moving.why and moving.choice == "hyperparameters not converged" and moving.advice


def test_what_is_enough_for_the_function_is_enough_for_observations():
    """Only there can a share be above the wanted one and be enough."""
    rule = Rule.of("observation", None, 166)
    end = enough.decide(rule, 50, 0.02, ended="enough", hyperparameters="converged", n_rows=500)
    assert end.choice is None and end.advice == ""
    assert end.why.endswith("0.020 of the variance of an observation unexplained, enough for the function itself")


STORED = Path(__file__).parents[1] / "benchmarks" / "results" / "pruning.jsonl"


@pytest.mark.slow
def test_the_stored_shares_of_time_are_below_a_tenth():
    """Measured by benchmarks/bars/pruning.py; here what is stored, and that a case of it drops what is said."""
    stored = {row["case"]: row for row in map(json.loads, STORED.read_text().splitlines())}  # the latest of each
    rows = stored.values()
    assert all(row["share_of_time"] < row["limit"] == 0.1 and row["commit"] for row in rows)
    assert len(stored) == 7 and max(row["rows"] for row in rows) == 30_000
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
