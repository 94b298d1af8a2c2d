"""More knots than rows, or absurdly many: bounded work, and a warning."""

import numpy as np
import pytest

from knotwise import GPClassifier, GPRegressor
from knotwise.errors import FitWarning
from knotwise.kernels import SquaredExponential
from knotwise.knots import Auto, Fixed, GreedyVariance, KMeans, Simultaneous
from knotwise.selection import problem
from knotwise.selection.problem import Problem

pytestmark = pytest.mark.failure(50)


@pytest.fixture
def data(rng):
    X = rng.uniform(size=(60, 2))
    return X, np.sin(5 * X[:, 0]) + 0.1 * rng.normal(size=60)


@pytest.mark.parametrize(
    "knots", [90, Simultaneous(90, "random"), Fixed("kmeans", 90), KMeans(90), GreedyVariance(90)], ids=repr
)
def test_more_knots_than_rows_are_as_many_as_rows_with_a_warning(knots, data):
    """Case 50: more knots than rows, or absurdly many."""
    with pytest.warns(FitWarning, match="90 knots were asked for, and cut to 60: the number of different rows"):
        gp = GPRegressor(SquaredExponential(), knots=knots, random_state=0).fit(*data)
    assert gp.n_knots_ <= 60


def test_labels_have_no_more_knots_than_rows(data):
    """Case 50: more knots than rows, or absurdly many."""
    with pytest.warns(FitWarning, match="cut to 60: the number of different rows"):
        assert GPClassifier(SquaredExponential(), knots=90, random_state=0).fit(data[0], data[1] > 0).n_knots_ <= 60


def test_as_many_knots_as_rows_do_not_move_and_are_the_exact_gp(data, monkeypatch):
    """Case 50: more knots than rows, or absurdly many."""
    moved = []
    real = Problem.optimize
    monkeypatch.setattr(Problem, "optimize", lambda *a, move=None, **k: moved.append(move) or real(*a, move=move, **k))
    with pytest.warns(FitWarning, match="cut to 60: the number of different rows. They stay where they are placed"):
        gp = GPRegressor(SquaredExponential(), knots=500, random_state=0).fit(*data)
    assert all(move is None for move in moved)
    full = GPRegressor(SquaredExponential(), approximation="full", random_state=0).fit(*data)
    assert abs(gp.log_evidence_ - full.log_evidence_) < 0.01


def test_absurdly_many_knots_are_a_third_of_the_rows(data, monkeypatch):
    """Case 50: more knots than rows, or absurdly many."""
    monkeypatch.setattr(problem, "NEVER_TOO_MANY", 10)
    with pytest.warns(
        FitWarning, match="50 knots were asked for, and cut to 20: more would cost more than the exact GP"
    ):
        gp = GPRegressor(SquaredExponential(), knots=50, random_state=0).fit(*data)
    assert gp.n_knots_ <= 20 and "50 knots were asked for" in gp.stop_reason_


@pytest.mark.parametrize("n", [8, 20])
def test_few_knots_on_few_rows_are_spread_out_and_the_limit_is_said(n, rng):
    """Case 50: more knots than rows, or absurdly many."""
    X = np.sort(rng.uniform(size=(n, 1)), axis=0)
    said = f"for {n} different rows; the limit of 5 knots was reached"
    with pytest.warns(FitWarning, match=rf"{said}. Write `knots=Auto\(max_knots={n}\)`"):
        gp = GPRegressor(knots=Auto(max_knots=5), random_state=0).fit(X, np.sin(6 * X[:, 0]))
    assert gp.n_knots_ == 5 and gp.status_ == "limit reached" and not gp.converged_
    assert gp.knots_.max() > np.median(X) > gp.knots_.min()
    assert said in gp.stop_reason_
