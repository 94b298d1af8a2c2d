"""What decisions share: constants with a reason and a benchmark, trials, and the record of a choice."""

import ast
import pickle
from dataclasses import fields, is_dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.optimize import linprog

import knotwise
from knotwise import GPRegressor
from knotwise.decisions import kernel, signal, thresholds
from knotwise.decisions.trials import Candidate, Trial
from knotwise.decisions.validation import draw_folds
from knotwise.estimators.assemble import KernelMaker
from knotwise.kernels import Matern32, Matern52, SquaredExponential
from knotwise.knots import Fixed
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
    assert found == {("screening", 4), ("pruning", 4), ("trials", 60), ("trials", 1e-6)}


@pytest.fixture
def problem(rng):
    X = rng.uniform(size=(120, 2))
    y = np.sin(6 * X[:, 0]) + 0.1 * rng.standard_normal(120)
    gp = GPRegressor(SquaredExponential(ard=True), knots=10, random_state=0).fit(X, y)
    return gp._fit.problem


def test_rows_are_judged_in_balls_and_past_half_spaces(rng):
    points = rng.uniform(size=(400, 2))
    folds = draw_folds(points, np.random.default_rng(0))
    assert {fold.kind for fold in folds} == {"gap", "beyond"}
    for fold in folds:
        stays = np.setdiff1d(np.arange(400), fold.removed)
        assert np.isin(fold.judged, fold.removed).all()
        if fold.kind == "gap":  # all rows within a radius of one of them
            d = np.sqrt(((points[:, None] - points[fold.removed]) ** 2).sum(-1))
            assert (d[fold.removed].max(0) < d[stays].min(0)).any()
        else:  # a line parts them
            both, side = points[np.r_[fold.removed, stays]], np.r_[np.ones(len(fold.removed)), -np.ones(len(stays))]
            basis = np.column_stack([both, np.ones(400)])
            found = linprog(np.zeros(3), A_ub=-side[:, None] * basis, b_ub=np.full(400, -1e-9), bounds=(None, None))
            assert found.status == 0


def test_places_that_are_asked_for_are_as_far_as_the_rows_that_judge(rng):
    """Nearest-neighbour distances of the rows that judge are those of the places, where these are in gaps."""
    points = rng.uniform(size=(4000, 2))
    hole = ((points - 0.5) ** 2).sum(1) < 0.15**2
    asked, rows = points[hole], points[~hole]
    folds = draw_folds(rows, np.random.default_rng(0), asked)
    wanted = np.sqrt(((asked[:, None] - rows) ** 2).sum(-1)).min(1)
    found = []
    for fold in folds:
        stays = np.setdiff1d(np.arange(len(rows)), fold.removed)
        found.append(np.sqrt(((rows[fold.judged][:, None] - rows[stays]) ** 2).sum(-1)).min(1))
    found = np.concatenate(found)
    assert 0.7 * wanted.mean() < found.mean() < 1.5 * wanted.mean()
    assert 0.7 < found.max() / wanted.max() < 1.3


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
    fits = {}
    for kind in (Matern32, Matern52):
        own = replace(problem, model=replace(problem.model, kernel=kind(1.0, [1.0, 1.0])))
        stage = trial.best(trial.exact(own, None), [own.model.theta])
        fits[kind] = trial.judged(Candidate(own, stage))
    gain, error = trial.gain(fits[Matern52], fits[Matern32])
    why = f"Matern 5/2 predicts {len(trial.labels)} rows better by {gain:.3f} +- {error:.3f} nats"
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
    assert gp.stop_reason_.startswith("smooth: Matern 5/2 predicts ")
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
