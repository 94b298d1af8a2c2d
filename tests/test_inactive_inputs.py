"""Columns that seemed not to matter on few rows are asked again, and are left alone where they do not."""

import numpy as np
import pytest

from knotwise import GPRegressor
from knotwise.decisions import inactive_inputs
from knotwise.decisions.thresholds import INACTIVE_INPUTS
from knotwise.kernels import SquaredExponential
from knotwise.selection.base import Decision


def noisy(seed, n_rows=1500, n_idle=0):
    """A function of four columns with much noise, and columns that say nothing."""
    rng = np.random.default_rng([seed, 5])
    X = rng.uniform(size=(n_rows, 4 + n_idle))
    f = np.sin(4 * X[:, 0]) + np.cos(3 * X[:, 1]) + np.sin(2 * X[:, 2]) * X[:, 3]
    return X, f, f + 2 * rng.standard_normal(n_rows)


def fit(X, y, monkeypatch=None, **options):
    if monkeypatch is not None:
        monkeypatch.setattr(inactive_inputs, "decide", lambda *_: Decision(None, "not asked"))
    return GPRegressor(SquaredExponential(ard=True), random_state=2, **options).fit(X, y)


def test_columns_that_were_taken_for_irrelevant_come_back(monkeypatch):
    X, f, y = noisy(2)
    active, inactive = fit(X, y), fit(X, y, monkeypatch)
    assert inactive.kernel_.lengthscale[2:].min() > 100  # in spreads of the columns
    assert active.kernel_.lengthscale.max() < 20
    errors = [np.sqrt(np.mean((gp.predict(X) - f) ** 2)) for gp in (active, inactive)]
    assert errors[0] < 0.8 * errors[1]
    (step,) = [step for step in active.trace_ if step.action == "reactivate"]
    assert "some columns seem not to matter" in step.note


def test_columns_that_say_nothing_stay_inactive():
    X, _, y = noisy(0, n_idle=3)
    gp = fit(X, y)
    assert any(step.action == "reactivate" for step in gp.trace_)
    assert gp.kernel_.lengthscale[4:].min() > 10


@pytest.mark.parametrize("exact", [True, False])
def test_of_many_rows_the_exact_gp_asks_some_first(exact, monkeypatch):
    monkeypatch.setitem(vars(INACTIVE_INPUTS), "rows", 100)
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(260, 3))
    f = np.sin(30 * X[:, 0]) * np.cos(20 * X[:, 1]) if exact else np.sin(6 * X[:, 0])
    y = f + 0.1 * rng.standard_normal(260)
    gp = fit(X, y)
    (step,) = [step for step in gp.trace_ if step.action == "reactivate"]
    assert (gp.n_knots_ == 0) == exact
    assert ("100 rows say" in step.note) == exact


def test_a_column_whose_length_scale_is_given_or_held_is_not_reactivated():
    X, _, y = noisy(2, n_rows=300)
    given = SquaredExponential(1.0, [0.3, 0.3, 300.0, 300.0], column_scales="standard")
    for options in ({"kernel": given, "fixed": ["lengthscale"]}, {"kernel": SquaredExponential(ard=False)}):
        gp = GPRegressor(random_state=0, **options).fit(X, y)
        assert not any(step.action == "reactivate" for step in gp.trace_)
