"""Optimisers, on functions with known maxima, with trials that fail, and against the update written out."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from knotwise.errors import InvalidInputError, NotPositiveDefiniteError, UnknownOptionError
from knotwise.estimators.fitted import advice_for_early_stop
from knotwise.estimators.options import optimizer_from
from knotwise.optimize import LBFGS, Adadelta
from knotwise.optimize.base import projected_norm
from knotwise.optimize.newton import KnownCurvature

OPTIMIZERS = [LBFGS(), Adadelta(max_iterations=20_000, value_tolerance=1e-12, eta=10.0)]
WIDE = np.array([[-100.0, 100.0]])


def ids(value):
    return type(value).__name__


def bowl(centre, curvature):
    """A concave quadratic with its maximum 7 at the centre."""
    centre, curvature = np.asarray(centre, float), np.asarray(curvature, float)

    def objective(x):
        return 7.0 - 0.5 * curvature @ (x - centre) ** 2, -curvature * (x - centre)

    return objective


def rosenbrock(x):
    """The banana valley upside down: maximum 0 at (1, 1)."""
    a, b = 1 - x[0], x[1] - x[0] ** 2
    return -(a**2) - 100 * b**2, np.array([2 * a + 400 * x[0] * b, -200 * b])


def raising(x):
    raise NotPositiveDefiniteError(f"no factor at {x}")


def nan_value(x):
    return np.nan, np.zeros_like(x)


def nan_gradient(x):
    return 1e9, np.full_like(x, np.nan)


def infinite(x):
    return np.inf, np.zeros_like(x)


FAILURES = [raising, nan_value, nan_gradient, infinite]


# -- known maxima ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=ids)
def test_the_maximum_of_a_bowl_is_found(optimizer):
    result = optimizer.maximize(bowl([0.3, -1.2], [1.0, 3.0]), np.array([2.0, 2.0]), np.tile(WIDE, (2, 1)))
    assert_allclose(result.parameters, [0.3, -1.2], atol=1e-4)
    assert_allclose(result.value, 7.0, atol=1e-6)
    assert result.converged


def test_lbfgs_follows_a_curved_valley():
    result = LBFGS(value_tolerance=1e-14, gradient_tolerance=1e-8).maximize(
        rosenbrock, np.array([-1.2, 1.0]), np.tile(WIDE, (2, 1))
    )
    assert_allclose(result.parameters, [1.0, 1.0], atol=1e-6)
    assert result.converged and result.gradient_norm < 1e-5


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=ids)
def test_bounds_hold_the_parameters_that_want_out_and_free_the_others(optimizer):
    bounds = np.array([[-1.0, 0.1], [-1.0, 5.0], [0.5, 0.5]])
    result = optimizer.maximize(bowl([3.0, 1.5, -2.0], [1.0, 1.0, 1.0]), np.array([-0.5, 0.0, 0.5]), bounds)
    assert_allclose(result.parameters, [0.1, 1.5, 0.5], atol=1e-4)
    assert (bounds[:, 0] <= result.parameters).all() and (result.parameters <= bounds[:, 1]).all()
    assert result.gradient_norm < 1e-3  # of the projected gradient; the gradient itself is 2.9 at the bound


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=ids)
def test_every_trial_lies_within_the_bounds_also_from_a_start_outside(optimizer):
    bounds, seen = np.array([[-1.0, 0.5], [0.0, 2.0]]), []

    def objective(x):
        seen.append(x.copy())
        return bowl([3.0, 1.0], [1.0, 9.0])(x)

    optimizer.maximize(objective, np.array([9.0, -9.0]), bounds)
    assert (bounds[:, 0] <= seen).all() and (seen <= bounds[:, 1]).all()


# -- the result -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=ids)
def test_the_result_says_how_it_went(optimizer):
    values = []

    def objective(x):
        value, gradient = bowl([0.3, -1.2], [1.0, 3.0])(x)
        values.append(value)
        return value, gradient

    bounds = np.tile(WIDE, (2, 1))
    result = optimizer.maximize(objective, np.array([2.0, 2.0]), bounds)
    assert_array_equal(result.history, values)  # every evaluation, once and in order
    assert result.evaluations == len(values)
    assert result.value == max(values)
    value, gradient = bowl([0.3, -1.2], [1.0, 3.0])(result.parameters)
    assert result.value == value
    assert_allclose(result.gradient_norm, np.abs(gradient).max(), atol=1e-14)
    assert result.reason


@pytest.mark.parametrize("optimizer", [LBFGS(max_iterations=2), Adadelta(max_iterations=3)], ids=ids)
def test_running_out_of_iterations_is_not_convergence(optimizer):
    result = optimizer.maximize(rosenbrock, np.array([-1.2, 1.0]), np.tile(WIDE, (2, 1)))
    assert not result.converged and result.reason
    assert result.value == result.history.max()


def cliff_behind_every_step(x):
    """A slope whose gradient promises too much, so that each line search takes several evaluations."""
    return -(abs(x[0]) ** 1.02), -1e3 * np.sign(x)


@pytest.mark.parametrize(
    ("objective", "start", "limit"),
    [(bowl([0.3, -1.2], [1.0, 30.0]), [2.0, 2.0], "2 iterations"), (cliff_behind_every_step, [7.3], "6 evaluations")],
)
def test_the_limit_that_was_reached_is_named_with_the_argument_to_raise(objective, start, limit):
    result = LBFGS(max_iterations=2).maximize(objective, np.array(start), np.tile(WIDE, (len(start), 1)))
    assert not result.converged and result.reason.startswith(f"reached the limit of {limit}")
    assert (result.evaluations > 6) == limit.endswith("evaluations")
    for optimizer in ("lbfgs", LBFGS(), "adadelta"):
        name = "Adadelta" if optimizer == "adadelta" else "LBFGS"
        assert f"raise `{name}(max_iterations=...)`" in advice_for_early_stop(result, optimizer)


def test_an_optimiser_that_finds_no_better_point_is_not_told_to_go_on():
    misled = LBFGS().maximize(lambda x: (-(x[0] ** 2), 2 * x), np.array([1.0]), WIDE)
    assert not misled.converged and "no better point" in misled.reason
    assert "max_iterations" not in advice_for_early_stop(misled, "lbfgs")


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=ids)
def test_no_free_parameter_is_one_evaluation(optimizer):
    result = optimizer.maximize(lambda x: (3.0, np.empty(0)), np.empty(0), np.empty((0, 2)))
    assert (result.value, result.evaluations, result.gradient_norm, result.converged) == (3.0, 1, 0.0, True)


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=ids)
def test_parameters_that_their_bounds_hold_stay_there(optimizer):
    held = np.array([[1.0, 1.0], [-2.0, -2.0]])
    result = optimizer.maximize(bowl([3.0, 4.0], [1.0, 2.0]), np.zeros(2), held)
    assert_array_equal(result.parameters, held[:, 0])
    assert result.converged and result.gradient_norm == 0 and result.value == 7.0 - 0.5 * (2.0**2 + 2 * 6.0**2)


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=ids)
def test_the_start_is_not_changed(optimizer):
    start = np.array([2.0, 2.0])
    optimizer.maximize(bowl([0.3, -1.2], [1.0, 3.0]), start, np.tile(WIDE, (2, 1)))
    assert_array_equal(start, [2.0, 2.0])


@pytest.mark.parametrize(
    ("at", "gradient", "norm"),
    [([0.0], [0.5], 0.5), ([1.0], [0.5], 0.0), ([1.0], [-0.5], 0.5), ([0.9], [5.0], 0.1), ([-1.0], [-3.0], 0.0)],
)
def test_the_projected_norm_is_the_step_that_the_bounds_allow(at, gradient, norm):
    assert_allclose(projected_norm(np.array(at), np.array(gradient), np.array([[-1.0, 1.0]])), norm, atol=1e-15)


# -- trials that fail -----------------------------------------------------------------------------------------


def failing_beyond(edge, objective, failure):
    """The objective where the first coordinate is below the edge; the other half of the space fails."""

    def guarded(x):
        return failure(x) if x[0] > edge else objective(x)

    return guarded


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("edge", [1.0, 0.41, 5.0])
@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=ids)
def test_half_of_the_space_may_fail(optimizer, edge, failure):
    objective = failing_beyond(edge, bowl([0.4, -1.2], [1.0, 3.0]), failure)
    result = optimizer.maximize(objective, np.array([-9.0, 2.0]), np.tile(WIDE, (2, 1)))
    assert_allclose(result.parameters, [0.4, -1.2], atol=1e-3)
    assert result.converged
    assert result.evaluations == len(result.history)


@pytest.mark.parametrize("start", [-1.0, -5.0, -50.0, -90.0])
def test_lbfgs_does_not_take_a_failed_trial_for_the_maximum(start):
    """log(1 - x) + 5 x is NaN beyond 1 and has its maximum at 0.8; long steps end beyond."""

    def objective(x):
        return math.log(1 - x[0]) + 5 * x[0] if x[0] < 1 else np.nan, 5 - 1 / (1 - x)

    result = LBFGS().maximize(objective, np.array([start]), WIDE)
    assert np.isnan(result.history).any()
    assert_allclose(result.parameters, [0.8], atol=1e-4)
    assert result.converged


def peak_beside_an_edge(seed):
    """A smooth peak in a few dimensions beside a half-space that fails, and a start on the good side."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 6))
    A, peak, normal = rng.normal(size=(d, d)), rng.normal(size=d), rng.normal(size=d)
    A, normal = A @ A.T + 0.1 * np.eye(d), normal / np.linalg.norm(normal)
    edge = normal @ peak + rng.uniform(0.01, 1)

    def objective(x):
        if normal @ x > edge:
            raise NotPositiveDefiniteError("beyond the edge")
        e = x - peak
        return -math.log(1 + e @ A @ e), -2 * A @ e / (1 + e @ A @ e)

    return objective, peak - rng.uniform(1, 6) * normal


def test_lbfgs_says_that_it_converged_only_where_the_gradient_is_small():
    wrong = []
    for seed in range(60):
        objective, start = peak_beside_an_edge(seed)
        result = LBFGS().maximize(objective, start, np.tile(WIDE, (len(start), 1)))
        if result.converged and result.gradient_norm > 1e-2:
            wrong.append(seed)
    assert wrong == []


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=ids)
def test_failed_trials_are_nan_in_the_history_and_never_the_result(optimizer, failure):
    calls = []

    def objective(x):
        calls.append(len(calls))
        return failure(x) if calls[-1] in (1, 2) else bowl([0.4], [1.0])(x)

    result = optimizer.maximize(objective, np.array([-3.0]), WIDE)
    assert np.flatnonzero(np.isnan(result.history)).tolist() == [1, 2]
    assert_allclose(result.parameters, [0.4], atol=1e-3)


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=ids)
def test_a_start_that_fails_is_an_error_with_advice(optimizer, failure):
    with pytest.raises(InvalidInputError, match=r"cannot be computed at the start.*other parameters"):
        optimizer.maximize(lambda x: failure(x), np.array([0.0]), WIDE)


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=ids)
def test_an_error_that_is_no_failed_trial_is_not_swallowed(optimizer):
    def broken(x):
        raise KeyError("a bug")

    with pytest.raises(KeyError, match="a bug"):
        optimizer.maximize(broken, np.array([0.0]), WIDE)


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=ids)
def test_overflow_within_a_trial_is_no_warning(optimizer):
    def objective(x):
        return 1.0 - np.exp(500 * (x[0] - 2)) - (x[0] - 1) ** 2, -500 * np.exp(500 * (x - 2)) - 2 * (x - 1)

    result = optimizer.maximize(objective, np.array([-80.0]), WIDE)
    assert_allclose(result.parameters, [1.0], atol=1e-2)


# -- Adadelta, written out --------------------------------------------------------------------------------------


def adadelta_by_hand(gradient, x, n_steps, *, decay, epsilon, eta):
    """The iterates of one coordinate: the update in plain numbers, ascent, sign changes counted once."""
    G = D = c = 0.0
    g = gradient(x)
    path = [x]
    for _ in range(n_steps):
        G = decay * G + (1 - decay) * g * g
        step = eta**-c * math.sqrt(D + epsilon) / math.sqrt(G + epsilon) * g
        D = decay * D + (1 - decay) * step * step
        x += step
        new = gradient(x)
        changed = 1.0 if new * g < 0 else 0.0  # |sign g' - sign g| / 2
        c = decay * c + (1 - decay) * changed
        g = new
        path.append(x)
    return path


@pytest.mark.parametrize(
    "settings",
    [
        {"decay": 0.95, "epsilon": 1e-4, "eta": 1e3},
        {"decay": 0.95, "epsilon": 1e-6, "eta": 1.0},
        {"decay": 0.5, "epsilon": 1e-1, "eta": 1e3},
    ],
    ids=["paper", "plain", "oscillating"],
)
def test_adadelta_takes_the_steps_of_the_update_written_out(settings):
    """Independent coordinates, each its own little optimisation; the stiff ones oscillate."""
    centre, curvature, start = np.array([0.3, -1.0, 0.0]), np.array([1.0, 40.0, 300.0]), np.array([0.5, -0.9, 0.1])
    seen = []

    def objective(x):
        seen.append(x.copy())
        return bowl(centre, curvature)(x)

    Adadelta(max_iterations=61, value_tolerance=-1.0, **settings).maximize(objective, start, np.tile(WIDE, (3, 1)))
    expected = np.column_stack(
        [adadelta_by_hand(lambda x, i=i: -curvature[i] * (x - centre[i]), start[i], 60, **settings) for i in range(3)]
    )
    assert_allclose(seen, expected, rtol=1e-10, atol=1e-12)
    if settings["epsilon"] > 1e-6:  # so that the count of sign changes is put to the test
        assert (np.diff(np.sign(expected - centre), axis=0) != 0).sum() >= 5


def test_the_first_step_of_the_paper_is_about_0_045():
    """sqrt(epsilon) / sqrt(0.05 g^2 + epsilon) g, with epsilon = 1e-4."""
    seen = []

    def objective(x):
        seen.append(x[0])
        return x[0], np.ones(1)

    Adadelta(max_iterations=2).maximize(objective, np.zeros(1), WIDE)
    assert_allclose(seen[1], 0.01 / math.sqrt(0.05 + 1e-4), rtol=1e-12)
    assert_allclose(seen[1], 0.045, atol=1e-3)


def test_adadelta_stops_after_one_step_that_changes_little_and_says_so():
    values = []

    def objective(x):
        value, gradient = bowl([0.3], [1.0])(x)
        values.append(value)
        return value, gradient

    result = Adadelta(value_tolerance=1e-3).maximize(objective, np.array([2.0]), WIDE)
    changes = np.abs(np.diff(values))
    assert changes[-1] <= 1e-3 and (changes[:-1] > 1e-3).all()
    assert result.converged and "one step changed the objective by" in result.reason


def test_adadelta_returns_the_best_iterate_or_as_the_papers_program_the_last():
    oscillating = {"max_iterations": 6, "value_tolerance": 0.0, "epsilon": 1.0, "eta": 1.0}
    objective = bowl([0.3], [40.0])
    best = Adadelta(**oscillating).maximize(objective, np.array([0.5]), WIDE)
    last = Adadelta(**oscillating, return_best=False).maximize(objective, np.array([0.5]), WIDE)
    assert_array_equal(best.history, last.history)
    assert last.value == last.history[-1] < best.history.max() == best.value
    for result in (best, last):
        value, gradient = objective(result.parameters)
        assert result.value == value
        assert_allclose(result.gradient_norm, np.abs(gradient).max(), rtol=1e-12)


def test_the_number_of_iterations_counts_the_start():
    result = Adadelta(max_iterations=7, value_tolerance=0.0).maximize(bowl([0.3], [1.0]), np.array([2.0]), WIDE)
    assert result.evaluations == 7 and result.reason == "reached 7 iterations"


# -- settings -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", [LBFGS(memory=7), Adadelta(eta=2.0, return_best=False)], ids=ids)
def test_settings_can_be_read_copied_and_changed(optimizer):
    params = optimizer.get_params()
    assert type(optimizer)(**params).get_params() == params == clone(optimizer).get_params()
    changed = clone(optimizer)
    assert changed.set_params(max_iterations=3) is changed
    assert changed.get_params() == params | {"max_iterations": 3} and optimizer.max_iterations == 1000
    assert repr(optimizer).startswith(f"{type(optimizer).__name__}(max_iterations=1000, ")


@pytest.mark.parametrize("optimizer", [LBFGS(), Adadelta()], ids=ids)
def test_an_unknown_setting_names_the_nearest(optimizer):
    with pytest.raises(UnknownOptionError, match="Did you mean 'max_iterations'"):
        optimizer.set_params(max_iteration=3)


def test_optimizers_are_known_by_name():
    assert type(optimizer_from("lbfgs")) is LBFGS and type(optimizer_from("adadelta")) is Adadelta
    mine = LBFGS(memory=3)
    assert optimizer_from(mine) is mine and optimizer_from(None) is None
    with pytest.raises(UnknownOptionError, match="Did you mean 'lbfgs'"):
        optimizer_from("l-bfgs")


# -- a curvature that is known ------------------------------------------------------------------------


def test_with_the_right_curvature_a_quadratic_takes_one_step():
    found = KnownCurvature(np.diag([3.0, 400.0])).maximize(
        bowl([2.0, -1.0], [3.0, 400.0]), np.array([50.0, 40.0]), np.repeat(WIDE, 2, 0)
    )
    assert found.converged and found.evaluations == 2
    assert_allclose(found.parameters, [2.0, -1.0], atol=1e-12)


@pytest.mark.parametrize("factor", [0.02, 0.3, 5.0, 40.0])
def test_a_wrong_curvature_is_corrected_on_the_way(factor):
    optimizer = KnownCurvature(factor * np.diag([3.0, 400.0]), max_iterations=100, tolerance=1e-12)
    found = optimizer.maximize(bowl([2.0, -1.0], [3.0, 400.0]), np.array([50.0, 40.0]), np.repeat(WIDE, 2, 0))
    assert found.converged
    assert_allclose(found.parameters, [2.0, -1.0], atol=1e-6)


def test_a_known_curvature_follows_a_bent_valley():
    found = KnownCurvature(np.diag([800.0, 200.0]), 200, 1e-12).maximize(
        rosenbrock, np.array([-1.2, 1.0]), np.repeat(WIDE, 2, 0)
    )
    assert found.converged
    assert_allclose(found.parameters, [1.0, 1.0], atol=1e-5)


def test_the_curvature_that_was_learned_is_that_of_the_objective():
    """L-BFGS learns that of a quadratic in two variables; a known one is handed on, also to `predicted_rise`."""
    A = np.array([[2.0, 1.0], [1.0, 3.0]])

    def objective(x):
        return -0.5 * x @ A @ x, -A @ x

    bounds = np.repeat(WIDE, 2, 0)
    learned = LBFGS(gradient_tolerance=1e-10).maximize(objective, np.array([5.0, -7.0]), bounds)
    assert_allclose(learned.information, A, rtol=1e-6)
    known = KnownCurvature(A).maximize(objective, np.array([5.0, -7.0]), bounds)
    assert_allclose(known.information, A, rtol=1e-9)
    gradient = np.array([0.3, -0.2])
    assert_allclose(known.predicted_rise(gradient, bounds), 0.5 * gradient @ np.linalg.solve(A, gradient), rtol=1e-9)
    assert learned.information.shape == (2, 2) and LBFGS().maximize(objective, np.zeros(2), bounds).information is None


def test_no_step_of_a_known_curvature_is_longer_than_it_may_be():
    seen = []

    def objective(x):
        seen.append(x.copy())
        return bowl([2.0, -1.0], [3.0, 400.0])(x)

    found = KnownCurvature(np.diag([3.0, 400.0]), 200, longest=0.5).maximize(
        objective, np.array([9.0, 4.0]), np.repeat(WIDE, 2, 0)
    )
    assert found.converged and np.abs(np.diff(seen, axis=0)).max() <= 0.5 + 1e-12
    assert_allclose(found.parameters, [2.0, -1.0], atol=1e-6)


def test_what_pushes_against_its_bound_stays_there_and_the_rest_goes_on():
    """A correlated quadratic whose maximum lies outside: the other coordinate ends at its maximum on the bound."""
    A, centre = np.array([[2.0, 1.0], [1.0, 3.0]]), np.array([4.0, 1.0])

    def objective(x):
        return -0.5 * (x - centre) @ A @ (x - centre), -A @ (x - centre)

    found = KnownCurvature(A, tolerance=1e-12).maximize(objective, np.zeros(2), np.array([[-1.0, 2.0], [-9.0, 9.0]]))
    assert found.converged
    assert_allclose(found.parameters, [2.0, 1.0 + 2.0 / 3.0], atol=1e-9)  # 3 (x1 - 1) = 1 * (4 - 2)


def test_a_known_curvature_says_when_it_leads_nowhere():
    rising = bowl([2.0], [3.0])

    def downhill(x):  # a gradient with the wrong sign
        value, gradient = rising(x)
        return value, -gradient

    found = KnownCurvature(np.eye(1)).maximize(downhill, np.array([5.0]), WIDE)
    assert not found.converged and "no better point" in found.reason
    limited = KnownCurvature(100 * np.eye(1), max_iterations=1).maximize(rising, np.array([50.0]), WIDE)
    assert not limited.converged and "limit of 1 iterations" in limited.reason
