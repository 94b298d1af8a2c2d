"""What decisions share: constants with a reason and a benchmark, trials, and the record of a choice."""

import ast
import pickle
from dataclasses import fields, is_dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import knotwise
from knotwise import GPRegressor
from knotwise.decisions import kernel, signal, thresholds
from knotwise.decisions.trials import Trial, validation_density
from knotwise.estimators.assemble import KernelMaker
from knotwise.kernels import Matern32, Matern52, SquaredExponential
from knotwise.knots import Fixed
from knotwise.posterior.exact import ExactPosterior
from knotwise.selection.base import Decision

ROOT = Path(__file__).parents[1]
DECISIONS = Path(knotwise.__file__).parent / "decisions"
PARTS = [part for part in (*vars(thresholds).values(), *thresholds.TARGETS.values()) if is_dataclass(part)]
CONSTANTS = {(type(part).__name__, f.name): f for part in PARTS if not isinstance(part, type) for f in fields(part)}


@pytest.mark.parametrize("name", CONSTANTS, ids=lambda name: ".".join(name))
def test_a_constant_has_a_reason_and_a_benchmark_that_exists(name):
    metadata = CONSTANTS[name].metadata
    assert len(metadata["why"]) > 15
    assert metadata["benchmark"].startswith("benchmarks/") and (ROOT / metadata["benchmark"]).is_file()


def test_no_constant_can_be_changed():
    with pytest.raises(AttributeError):
        thresholds.AUTO.cap = 7


def test_a_decision_has_no_constant_of_its_own():
    """Capital names with numbers are in `thresholds`, but for a grid of candidates that steers nothing."""
    own = {
        f"{path.stem}.{name}"
        for path in DECISIONS.glob("*.py")
        if path.stem != "thresholds"
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.Assign)
        for target in node.targets
        for name in [t.id for t in ast.walk(target) if isinstance(t, ast.Name) and t.id.isupper()]
        if any(isinstance(part, ast.Constant) and isinstance(part.value, int | float) for part in ast.walk(node.value))
    }
    assert own == {"trials.N_CANDIDATES"}


def test_no_bare_number_is_left_in_a_decision():
    """But for 0, 1 and 2, two two-sided tests of each column, halves of halves, and a grid of variances."""
    found = {
        (path.stem, node.value)
        for path in DECISIONS.glob("*.py")
        if path.stem != "thresholds"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and type(node.value) in (int, float) and node.value not in (0, 0.5, 1, 2)
    }
    assert found == {("kernel", 4), ("pruning", 4), ("trials", 60), ("trials", 1e-6)}


@pytest.fixture
def problem(rng):
    X = rng.uniform(size=(120, 2))
    y = np.sin(6 * X[:, 0]) + 0.1 * rng.standard_normal(120)
    gp = GPRegressor(SquaredExponential(ard=True), knots=10, random_state=0).fit(X, y)
    return gp._fit.problem


def test_rows_of_a_trial_beyond_the_others_are_past_a_half_space(problem, rng):
    trial = Trial.draw(problem, 60, rng, problem.new_trace())
    parts = list(trial.beyond(5, 0.1))
    assert len(parts) == 5
    directions = np.random.default_rng(0)
    for part in parts:
        assert part.distance == "beyond" and len(part.validation) == 6 and len(part.fitted) == 54
        both = np.vstack([part.fitted.X, part.validation.X])
        assert_array_equal(np.sort(both, axis=0), np.sort(trial.fitted.X, axis=0))
        along = directions.standard_normal(2)
        assert (part.validation.X @ along).min() > (part.fitted.X @ along).max()


def test_what_makes_problems_for_kernels_can_be_pickled(rng, monkeypatch):
    X = rng.uniform(size=(60, 2))
    made = []
    real = kernel.decide
    monkeypatch.setattr(kernel, "decide", lambda make, rng: made.append(make) or real(make, rng))
    GPRegressor(random_state=0, n_jobs=1, progress=False).fit(X, np.sin(6 * X[:, 0]) + 0.1 * rng.normal(size=60))
    (make,) = made
    assert isinstance(make, KernelMaker)
    quiet = replace(make, run=replace(make.run, observer=None))  # an observer has a terminal
    one, other = (maker(Matern32(ard=True)) for maker in (quiet, pickle.loads(pickle.dumps(quiet))))
    assert one.table.names == other.table.names
    assert_array_equal(one.table.theta_bounds, other.table.theta_bounds)


# -- a decision of one's own ---------------------------------------------------------------------------


def decide_smoothness(problem, rng, trace):
    """A toy: is Matern 3/2 or Matern 5/2 better, by the density of validation rows?"""
    trial = Trial.draw(problem, 60, rng, trace)
    densities = {}
    for kind in (Matern32, Matern52):
        exact = trial.exact(replace(problem, model=replace(problem.model, kernel=kind(1.0, [1.0, 1.0]))), None)
        stage = trial.best(exact, [exact.model.theta])
        state = exact.evaluate(stage.point, gradient=False).state
        densities[kind] = validation_density(ExactPosterior(state), trial.validation)
    gain, error = trial.gain(densities[Matern52], densities[Matern32])
    why = f"Matern 5/2 predicts {len(trial.validation)} rows better by {gain:.3f} +- {error:.3f} nats"
    return Decision("smooth" if gain > 0 else "rough", why, {"gain": gain, "standard_error": error})


class AsDecided(Fixed):
    def select(self, problem, rng):
        trace = problem.new_trace()
        decision = decide_smoothness(problem, rng, trace)
        trace.add("smoothness", 0, decision.numbers["gain"], note=decision.why)
        stage = problem.optimize(problem.table.theta, problem.initial_knots("kmeans", 10, rng), rng)
        return problem.selection(stage, f"{decision.choice}: {decision.why}", trace)


def test_a_decision_of_ones_own_needs_a_trial_and_a_record_and_no_change_of_the_engine(rng):
    X = rng.uniform(size=(120, 2))
    y = np.sin(6 * X[:, 0]) + 0.01 * rng.standard_normal(120)
    gp = GPRegressor(SquaredExponential(ard=True), knots=AsDecided(), random_state=0).fit(X, y)
    assert gp.stop_reason_.startswith("smooth: Matern 5/2 predicts 60 rows better by")
    assert gp.trace_[0].action == "smoothness" and gp.trace_[0].note in gp.stop_reason_


def test_signal_says_its_log_bayes_factor_and_from_where_on_it_counts(problem, rng):
    trace = problem.new_trace()
    decision = signal.decide(problem, rng, trace)
    assert signal.is_found(decision) and not signal.is_weak(decision)
    factor = decision.numbers["log_bayes_factor"]
    assert decision.why == (
        f"log Bayes factor {factor:.1f} against no signal on 120 random rows "
        f"(above {decision.numbers['threshold']:.1f} is a signal)"
    )
    assert trace[-1].note == decision.why and trace[-1].evidence == factor
