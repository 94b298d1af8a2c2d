"""What optimisers see, apart from what users see: evidence plus log prior, and the evidence alone."""

from dataclasses import dataclass, fields, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from knotwise import GPRegressor
from knotwise.evidence import Model
from knotwise.evidence.inference import Laplace
from knotwise.kernels import SquaredExponential
from knotwise.likelihoods import Poisson
from knotwise.means import Constant
from knotwise.noise import Nugget
from knotwise.optimize import LBFGS
from knotwise.selection.optimizing import Objective
from knotwise.testing import assert_adjoint


@dataclass(frozen=True)
class Near:
    """A normal prior on the unconstrained scale."""

    centre: float
    precision: float

    def log_density(self, theta):
        return -0.5 * self.precision * (theta - self.centre) ** 2, -self.precision * (theta - self.centre)


def problem_with_prior(prior, likelihood="poisson"):
    """A problem of a few counts through five knots, whose length-scale has a prior."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(60, 1))
    y = rng.poisson(np.exp(1 + np.sin(6 * X[:, 0]))).astype(float)
    gp = GPRegressor(likelihood=likelihood, knots=X[:5], optimizer=None, inference="laplace").fit(X, y)
    problem, table = gp._fit.problem, gp._fit.problem.table
    hit = table.with_role("lengthscale")
    parameters = tuple(replace(p, prior=prior) if h else p for p, h in zip(table.parameters, hit, strict=True))
    problem = replace(problem, table=replace(table, parameters=parameters), optimizer=LBFGS())
    return problem, gp._fit.selection, int(np.flatnonzero(hit)[0])


@pytest.mark.parametrize("likelihood", ["gaussian", "poisson"])
def test_the_objective_is_the_evidence_plus_the_log_prior_with_its_gradient(likelihood, rng):
    problem, selection, at = problem_with_prior(Near(0.7, 3.0), likelihood)
    objective = Objective(problem, selection.point, np.array([True, False, True, False, False]))
    evidence = problem.evaluate(selection.point)
    expected = evidence.value - 1.5 * (selection.theta[at] - 0.7) ** 2
    assert_allclose(objective(objective.vector)[0], expected, rtol=1e-12)
    assert_allclose(objective.value(selection.point), expected, rtol=1e-12)
    assert_adjoint(objective, objective.vector, rng)


def test_a_strong_prior_decides_and_the_evidence_does_not_know_it():
    problem, selection, at = problem_with_prior(Near(0.3, 1e8))
    stage = problem.optimize(selection.theta, selection.Z, np.random.default_rng(0))
    assert_allclose(stage.theta[at], 0.3, atol=1e-5)
    chosen = problem.selection(stage, "a test")
    without = tuple(replace(parameter, prior=None) for parameter in problem.table.parameters)
    plain = replace(problem, table=replace(problem.table, parameters=without))
    assert_allclose(chosen.evidence.value, plain.evaluate(stage.point, gradient=False).value, rtol=1e-10)


def test_a_model_at_other_parameters_keeps_everything_else():
    """Every field, whatever will be added: what is not a part with parameters is the same object."""
    marks = {"inference": Laplace(), "residual": object()}
    model = Model(SquaredExponential(1.0, 2.0), Poisson(), Constant(0.5), 0.25, Nugget(0.1), **marks)
    moved = model.with_theta(model.theta + 0.1)
    assert_allclose(moved.theta, model.theta + 0.1, rtol=1e-12)
    for entry in fields(Model):
        if entry.name not in ("kernel", "likelihood", "mean", "nugget"):
            assert getattr(moved, entry.name) is getattr(model, entry.name)
    assert moved.with_power(1.0).inference is marks["inference"]
