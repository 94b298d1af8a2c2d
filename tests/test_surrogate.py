"""Optimisation with a surrogate: a quicker inference looks first, and no value of it is kept."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from knotwise import GPRegressor
from knotwise.errors import FitWarning
from knotwise.evidence.inference import Laplace, Variational
from knotwise.kernels import SquaredExponential
from knotwise.optimize import LBFGS
from knotwise.optimize.base import OptimizeResult
from knotwise.selection.optimizing import AGREEMENT, SMALL_RISE


def problem_of(y, X, *, full=False, knots=15, **options):
    """The problem of an estimator, variational with Laplace as its surrogate."""
    approximation = {"approximation": "full"} if full else {"knots": X[np.linspace(0, len(X) - 1, knots).astype(int)]}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "All but 3 of the 200", FitWarning)  # which is the point of the rare events
        gp = GPRegressor(SquaredExponential(), optimizer=None, random_state=0, **approximation, **options).fit(X, y)
    problem = replace(gp._fit.problem, optimizer=LBFGS())
    assert isinstance(problem.inference, Variational) and isinstance(problem.surrogate, Laplace)
    return problem, gp._fit.selection.Z


def many_counts():
    """Counts so large that the posterior is Gaussian: Laplace and the bound agree."""
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(-2, 2, size=(60, 1)), axis=0)
    return rng.poisson(np.exp(4 + np.sin(2 * X[:, 0]))).astype(float), X


def rare_events(first=100):
    """200 rows with 3 events, at rows beside each other."""
    y = np.zeros(200)
    y[first : first + 3] = 1
    return y, np.linspace(-2, 2, 200)[:, None]


def looked_at(problem):
    """The same problem, and the list of the evidences that its own inference gives."""
    seen = []

    class Recorded(type(problem)):
        def evaluate(self, point, **options):
            evidence = super().evaluate(point, **options)
            if isinstance(self.inference, Variational):
                seen.append((point, evidence))
            return evidence

    names = problem.__dataclass_fields__
    return Recorded(**{name: getattr(problem, name) for name in names}), seen


@pytest.mark.parametrize("full", [False, True], ids=["knots", "full"])
@pytest.mark.parametrize("data", [many_counts, rare_events])
def test_the_value_is_that_of_the_problems_own_inference(data, full):
    y, X = data()
    problem, Z = problem_of(y, X, full=full, likelihood="poisson")
    stage = problem.optimize(problem.table.theta, Z, np.random.default_rng(0))
    found = problem.anew().evaluate(stage.point, gradient=False).value + problem.table.log_prior(stage.theta)[0]
    assert_allclose(stage.value, found, rtol=1e-7)
    by_laplace = problem.by_surrogate.evaluate(stage.point, gradient=False).value
    assert abs(stage.value - by_laplace) > 1e-4  # which would be seen


def test_where_the_two_agree_the_end_of_the_guide_is_kept():
    problem, Z = problem_of(*many_counts(), likelihood="poisson")
    problem, seen = looked_at(problem)
    stage = problem.optimize(problem.table.theta, Z, np.random.default_rng(0))
    assert "parameters by the Laplace approximation" in stage.note
    assert len(seen) == 1  # the bound is looked at once, at the end
    alone = problem.by_surrogate.optimize(problem.table.theta, Z, np.random.default_rng(0))
    assert_allclose(stage.theta, alone.theta, atol=1e-12)
    assert abs(stage.value - alone.value) <= AGREEMENT


@pytest.mark.parametrize("likelihood", ["bernoulli", "poisson"])
def test_where_laplace_is_apart_the_bound_goes_on(likelihood):
    """Laplace thinks more of a signal in few events than the bound does."""
    problem, Z = problem_of(*rare_events(), likelihood=likelihood)
    seen_problem, seen = looked_at(problem)
    stage = seen_problem.optimize(problem.table.theta, Z, np.random.default_rng(0))
    by_surrogate = problem.by_surrogate.optimize(problem.table.theta, Z, np.random.default_rng(0))
    at_its_end = problem.evaluate(by_surrogate.point, gradient=False).value
    assert by_surrogate.value - at_its_end > AGREEMENT
    assert stage.value > at_its_end + SMALL_RISE
    assert "parameters by the variational bound" in stage.note and len(seen) > 3


def test_where_the_bound_has_no_value_at_the_end_of_the_guide_it_looks_by_itself():
    """Events at one end of the rows: Laplace's variance runs to its bound, where E e^f of the bound overflows."""
    problem, Z = problem_of(*rare_events(first=0), likelihood="poisson", knots=8)
    by_surrogate = problem.by_surrogate.optimize(problem.table.theta, Z, np.random.default_rng(0))
    assert not problem.evaluate(by_surrogate.point, gradient=False).converged
    stage = problem.optimize(problem.table.theta, Z, np.random.default_rng(0))
    assert problem.evaluate(stage.point, gradient=False).converged and not stage.note
    assert stage.value > problem.evaluate(problem.point(problem.table.theta, Z), gradient=False).value


def test_without_free_parameters_only_the_value_is_that_of_the_bound():
    """Where only knots move, the surrogate's knots are kept whatever the two say."""
    problem, Z = problem_of(*rare_events(), likelihood="bernoulli")
    problem = replace(problem, table=replace(problem.table, fixed=np.ones(len(problem.table.theta), bool)))
    problem, seen = looked_at(problem)
    move = np.zeros(len(Z), bool)
    move[:2] = True
    stage = problem.optimize(problem.table.theta, Z, np.random.default_rng(0), move=move)
    alone = problem.by_surrogate.optimize(problem.table.theta, Z, np.random.default_rng(0), move=move)
    assert len(seen) == 1 and not stage.note
    assert_allclose(stage.Z, alone.Z, atol=1e-12)
    assert_allclose(stage.value, problem.evaluate(stage.point, gradient=False).value, rtol=1e-7)


# -- what another gradient would bring ------------------------------------------------------------------------


def quadratic(P, rng):
    """A positive definite curvature."""
    root = rng.normal(size=(P, P))
    return root @ root.T + np.eye(P)


FAR = np.tile([-1e3, 1e3], (4, 1))


def test_the_predicted_rise_is_that_of_a_quadratic(rng):
    """Along conjugate steps, BFGS knows the inverse of the curvature exactly."""
    H = quadratic(4, rng)
    steps = np.linalg.eigh(H)[1].T
    end = OptimizeResult(0.0, np.zeros(4), 1, 0.0, True, "", np.zeros(1), steps, steps @ H)
    gradient = rng.normal(size=4)
    assert_allclose(end.predicted_rise(gradient, FAR), 0.5 * gradient @ np.linalg.solve(H, gradient), rtol=1e-10)
    held = FAR.copy()
    held[1] = [0.0, 1e3] if gradient[1] < 0 else [-1e3, 0.0]  # at its bound, and the gradient leads beyond
    inward = np.where(np.arange(4) == 1, 0.0, gradient)
    assert_allclose(end.predicted_rise(gradient, held), 0.5 * inward @ np.linalg.solve(H, inward), rtol=1e-10)


def test_the_predicted_rise_after_lbfgs_is_near_that_of_a_quadratic(rng):
    H, top = quadratic(4, rng), rng.normal(size=4)

    def objective(x):
        return -0.5 * (x - top) @ H @ (x - top), -H @ (x - top)

    end = LBFGS(gradient_tolerance=1e-8, value_tolerance=1e-15).maximize(objective, np.zeros(4), FAR)
    for _ in range(5):
        gradient = rng.normal(size=4)
        assert_allclose(end.predicted_rise(gradient, FAR), 0.5 * gradient @ np.linalg.solve(H, gradient), rtol=0.2)


def test_a_rise_of_unknown_curvature_is_infinite():
    end = OptimizeResult(0.0, np.zeros(4), 1, 0.0, True, "", np.zeros(1))
    assert end.predicted_rise(np.full(4, 1e-9), FAR) == np.inf
    none = replace(end, steps=np.empty((0, 4)), turns=np.empty((0, 4)))
    assert none.predicted_rise(np.full(4, 1e-9), FAR) == np.inf
