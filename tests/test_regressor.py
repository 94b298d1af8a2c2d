"""GPRegressor: evidence, parameters and predictions in the user's units, and scikit-learn's manners."""

import copy
import pickle
import re

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist
from scipy.stats import multivariate_normal, norm
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from knotwise import GPRegressor, datasets, metrics
from knotwise.kernels import Linear, Matern32, Matern52, SquaredExponential
from knotwise.knots import Fixed, Simultaneous
from knotwise.likelihoods import Gaussian
from knotwise.optimize import LBFGS, Adadelta

N = 90


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture(scope="module")
def data():
    """Inputs and targets in awkward units: columns of 1e3 about 5e3 and of 1e-2, targets of 40 about -300."""
    rng = np.random.default_rng(1)
    U = rng.uniform(size=(N, 2))
    y = -300 + 40 * (np.sin(5 * U[:, 0]) + U[:, 1] + 0.15 * rng.normal(size=N))
    return U * [1e3, 1e-2] + [5e3, 0.0], y


@pytest.fixture(scope="module")
def new(data):
    X, _ = data
    return np.random.default_rng(2).uniform(X.min(0), X.max(0), size=(25, 2))


def fit(data, *, noise_variance=None, **options):
    X, y = data
    return GPRegressor(**{"knots": 12, "random_state": 0, **options}).fit(X, y, noise_variance)


def both(gp, X_new):
    return np.array(gp.predict(X_new, return_std=True))


def scaled(X, by):
    """Inputs as the kernel sees them by default."""
    return (X - by.mean(0)) / by.std(0)


def squared_exponential(A, B, variance=1.0, lengthscale=1.0):
    return variance * np.exp(-0.5 * cdist(A / lengthscale, B / lengthscale, "sqeuclidean"))


def dense_evidence(approximation, X, y, Z, kernel, noise, mean=0.0, jitter=0.0):
    """Log evidence of the approximations from N x N matrices, as they are written in the literature."""
    K = kernel(X, X)
    noise = np.broadcast_to(noise, len(y))
    mean = np.broadcast_to(mean, len(y))
    if approximation == "full":
        return multivariate_normal(mean, K + np.diag(noise)).logpdf(y)
    Kuu = kernel(Z, Z)
    Q = kernel(X, Z) @ np.linalg.solve(Kuu + jitter * Kuu[0, 0] * np.eye(len(Z)), kernel(Z, X))
    residual = (K - Q).diagonal()
    if approximation == "fic":
        return multivariate_normal(mean, Q + np.diag(residual + noise)).logpdf(y)
    return multivariate_normal(mean, Q + np.diag(noise)).logpdf(y) - 0.5 * (residual / noise).sum()


# -- the evidence as a function of the parameters and the knots -------------------------------------

MODELS = {
    "vfe": {},
    "fic": {"approximation": "fic"},
    "power": {"approximation": 0.4},
    "full": {"approximation": "full"},
    "ard": {"kernel": SquaredExponential(ard=True)},
    "sum on columns": {"kernel": Matern52().on([0]) + SquaredExponential().on([1]) + Linear()},
    "product": {"kernel": SquaredExponential() * Matern52()},
    "linear mean": {"mean": "linear"},
    "number as mean": {"mean": -280.0},
    "zero mean": {"mean": "zero"},
    "common scale": {"standardize": "common", "kernel": SquaredExponential(ard=True)},
    "own units": {"standardize": False, "kernel": SquaredExponential(1e3, [500.0, 0.005])},
}
models = pytest.mark.parametrize("options", MODELS.values(), ids=MODELS.keys())
few_iterations = pytest.mark.filterwarnings("ignore:The optimiser stopped:knotwise.errors.FitWarning")


@models
@few_iterations
def test_the_gradient_is_the_derivative_of_the_evidence_in_the_users_units(options, data, rng):
    # a few iterations leave the optimum, where a gradient of nothing would pass
    gp = fit(data, knots=8, optimizer=LBFGS(max_iterations=3), **options)
    theta = gp.parameters_.theta
    gradient = gp.evidence().gradient
    for _ in range(4):
        direction = rng.normal(size=len(theta)) * np.maximum(1.0, np.abs(theta) * (gp.parameters_.values < 0))
        step = np.finfo(float).eps ** (1 / 3)
        ahead, behind = (gp.evidence(theta + s * direction, gradient=False).value for s in (step, -step))
        slope = (ahead - behind) / (2 * step)
        # rounding of the two values, divided by the step, bounds what a difference can tell
        rounding = 1e-14 * (abs(ahead) + np.abs(gradient * direction).max()) / step
        assert_allclose(gradient @ direction, slope, rtol=1e-6, atol=max(1e-6, rounding))


@pytest.mark.parametrize(
    "options", [o for o in MODELS.values() if o.get("approximation") != "full"], ids=[n for n in MODELS if n != "full"]
)
@few_iterations
def test_the_knot_gradient_is_the_derivative_of_the_evidence_in_the_units_of_the_inputs(options, data, rng):
    X, y = data
    options = {"jitter": 1e-8, **options}
    gp = fit(data, knots=8, optimizer=LBFGS(max_iterations=3), **options)
    held = {**options, "kernel": gp.kernel_, "likelihood": gp.likelihood_, "optimizer": None}
    if options.get("mean", "constant") == "constant":
        held["mean"] = gp.parameters_["mean"]
    gradient = gp.evidence().knot_gradient
    assert gradient.shape == gp.knots_.shape
    for _ in range(4):
        direction = rng.normal(size=gradient.shape) * X.std(0)
        step = np.finfo(float).eps ** (1 / 3)
        ahead, behind = (
            GPRegressor(**{**held, "knots": gp.knots_ + s * direction}).fit(X, y).log_evidence_ for s in (step, -step)
        )
        assert_allclose((gradient * direction).sum(), (ahead - behind) / (2 * step), rtol=1e-5, atol=1e-5)


@models
@few_iterations
def test_the_evidence_at_the_fit_is_the_one_reported(options, data):
    gp = fit(data, **options)
    assert_allclose(gp.evidence().value, gp.log_evidence_, rtol=1e-12)
    assert_allclose(gp.evidence(gp.parameters_.theta).value, gp.log_evidence_, rtol=1e-9)
    assert gp.evidence(gradient=False).gradient is None


@pytest.mark.parametrize("approximation", ["vfe", "fic", "full"])
def test_the_evidence_is_the_dense_formula_of_data_in_their_own_units(approximation, data):
    X, y = data
    Z = X[::8]
    gp = fit(data, knots=Z, approximation=approximation, jitter=1e-8)
    p = gp.parameters_

    def kernel(A, B):
        return squared_exponential(A, B, p["variance"], p["lengthscale"])

    expected = dense_evidence(
        approximation, scaled(X, X), y, scaled(Z, X), kernel, p["noise_variance"], p["mean"], jitter=1e-8
    )
    assert_allclose(gp.log_evidence_, expected, rtol=1e-7)


@models
@few_iterations
def test_the_evidence_of_targets_in_other_units_differs_by_the_log_of_the_unit(options, data):
    if "standardize" in options and options["standardize"] is False:
        pytest.skip("the kernel's variance is in the units of y")
    if isinstance(options.get("mean"), float):
        options = {**options, "mean": 8 * options["mean"]}
    X, y = data
    base = fit(data, **({**options, "mean": options["mean"] / 8} if "mean" in options and options["mean"] != "linear" and options["mean"] != "zero" else options))
    gp = fit((X, 8 * y), **options)
    assert_allclose(gp.log_evidence_, base.log_evidence_ - N * np.log(8.0), rtol=1e-12)


def test_parameters_are_in_the_units_of_y(data):
    X, y = data
    base, gp = fit(data), fit((X, 8 * y))
    shifted = fit((X, y + 1000.0))
    for name, power in {"variance": 2, "noise_variance": 2, "mean": 1, "lengthscale": 0}.items():
        assert_allclose(gp.parameters_[name], 8.0**power * base.parameters_[name], rtol=1e-12)
        moved = 1000.0 if name == "mean" else 0.0
        assert_allclose(shifted.parameters_[name], base.parameters_[name] + moved, rtol=1e-4)
    for part in ("kernel_", "likelihood_", "mean_"):
        for name, value in getattr(base, part).get_params().items():
            if name != "ard":
                assert_allclose(value, base.parameters_[name], rtol=1e-12)
    factors = np.array([64.0, 1.0, 64.0, 8.0])
    assert_allclose(gp.parameters_.lower, factors * base.parameters_.lower, rtol=1e-12)
    assert_allclose(gp.parameters_.upper, factors * base.parameters_.upper, rtol=1e-12)


def test_the_parameters_of_the_truth_are_found(rng):
    x = rng.uniform(0, 50, size=1200)[:, None]
    truth = squared_exponential(x, x, variance=9.0, lengthscale=2.0) + 1e-9 * np.eye(1200)
    y = 100 + np.linalg.cholesky(truth) @ rng.normal(size=1200) + 0.5 * rng.normal(size=1200)
    p = fit((x, y), knots=60).parameters_
    assert_allclose(p["noise_variance"], 0.25, rtol=0.15)
    assert_allclose(p["lengthscale"] * x.std(), 2.0, rtol=0.15)
    assert_allclose(p["variance"], 9.0, rtol=0.8)
    assert_allclose(p["mean"], 100, atol=2.5)


# -- starts, holds and bounds -----------------------------------------------------------------------


def test_given_values_are_where_the_optimiser_starts(data):
    X, y = data
    parts = {"kernel": SquaredExponential(900.0, [0.7, 1.3]), "likelihood": Gaussian(60.0), "knots": X[::8]}
    gp = fit(data, **parts)
    # the constant is the one parameter left open; it is learned, so its start is not the user's
    kept = fit(data, **parts, optimizer=None, mean=gp.mean_)
    held = fit(data, **parts, mean=gp.mean_)
    first = held.optimize_result_.history[0] - N * np.log(y.std())
    assert_allclose(first, kept.log_evidence_, rtol=1e-9)
    assert held.log_evidence_ > kept.log_evidence_ + 1


def test_without_an_optimiser_everything_is_kept(data):
    X, y = data
    kernel, Z = SquaredExponential(900.0, [0.7, 1.3]), X[::8]
    gp = fit(data, kernel=kernel, likelihood=Gaussian(60.0), mean=-290.0, knots=Z, optimizer=None)
    assert_allclose(gp.parameters_.values, [900.0, 0.7, 1.3, 60.0, -290.0], rtol=1e-12)
    assert_allclose(gp.knots_, Z, rtol=1e-14)
    expected = dense_evidence(
        "vfe", scaled(X, X), y, scaled(Z, X), lambda A, B: squared_exponential(A, B, 900.0, np.array([0.7, 1.3])), 60.0, -290.0
    )
    assert_allclose(gp.log_evidence_, expected, rtol=1e-6)
    assert kernel.get_params() == {"variance": 900.0, "lengthscale": [0.7, 1.3], "ard": False}


@pytest.mark.parametrize(
    ("kernel", "fixed", "values"),
    [
        (SquaredExponential(500.0), ["variance"], {"variance": 500.0}),
        (SquaredExponential(lengthscale=0.3), "lengthscale", {"lengthscale": 0.3}),
        (SquaredExponential(lengthscale=[0.3, 3.0]), ["lengthscale"], {"lengthscale": [0.3, 3.0]}),
        (SquaredExponential(lengthscale=[0.3, 3.0]), ["lengthscale[1]"], {"lengthscale[1]": 3.0}),
        (SquaredExponential(500.0) + Linear(4.0), ["k1__variance"], {"k1__variance": 500.0}),
        (SquaredExponential(500.0) * Matern32(1.0), ["k2__variance", "k1__variance"], {"k2__variance": 1.0, "k1__variance": 500.0}),
    ],
    ids=str,
)
@pytest.mark.parametrize("n_restarts", [0, 2])
def test_a_fixed_parameter_is_held_and_the_others_move(kernel, fixed, values, n_restarts, data):
    gp = fit(data, kernel=kernel, fixed=fixed, n_restarts=n_restarts)
    free = fit(data, kernel=kernel)
    for name, value in values.items():
        assert_allclose(gp.parameters_[name], value, rtol=1e-12)
        assert not np.allclose(free.parameters_[name], value, rtol=1e-3)
    others = [name for name in gp.parameters_ if name.split("[")[0] not in fixed and name not in fixed]
    start = fit(data, kernel=kernel, optimizer=None)
    assert any(abs(gp.parameters_[name] - start.parameters_[name]) > 1e-3 for name in others)


def test_a_parameter_without_a_value_is_held_at_the_scale_of_the_data(data):
    _, y = data
    gp = fit(data, fixed=["variance", "mean", "noise_variance"])
    assert_allclose(gp.parameters_["variance"], y.var(), rtol=1e-10)
    assert_allclose(gp.parameters_["mean"], y.mean(), rtol=1e-10)
    assert_allclose(gp.parameters_["noise_variance"], y.var() / 10, rtol=1e-10)


@pytest.mark.parametrize(
    ("kernel", "bounds"),
    [
        (None, {"lengthscale": (0.1, 0.5)}),
        (None, {"lengthscale": (5.0, 9.0)}),
        (None, {"variance": (1.0, 100.0), "noise_variance": (1.0, 20.0)}),
        (None, {"mean": (-500.0, -400.0)}),
        (SquaredExponential(ard=True), {"lengthscale": (0.1, 0.5)}),
        (SquaredExponential(ard=True), {"lengthscale[1]": (0.1, 0.5), "lengthscale[0]": (7.0, 8.0)}),
        (SquaredExponential(lengthscale=[2.0, 2.0]), {"lengthscale": (0.1, 0.5)}),
        (SquaredExponential() + Linear(), {"k1__lengthscale": (0.1, 0.5)}),
    ],
    ids=str,
)
@pytest.mark.parametrize("n_restarts", [0, 2])
@few_iterations
def test_bounds_bind(kernel, bounds, n_restarts, data):
    gp = fit(data, kernel=kernel, bounds=bounds, n_restarts=n_restarts)
    free = fit(data, kernel=kernel)
    outside = 0
    for name, (low, high) in bounds.items():
        value = np.atleast_1d(gp.parameters_[name])
        assert (value >= low * (1 - np.sign(low) * 1e-9)).all() and (value <= high * (1 + np.sign(high) * 1e-9)).all()
        elsewhere = np.atleast_1d(free.parameters_[name])
        outside += ((elsewhere < low) | (elsewhere > high)).sum()
    assert outside, "bounds that the free fit meets would show nothing"


def test_bounds_in_the_table_are_those_given(data):
    table = fit(data, bounds={"variance": (10.0, 1e4), "mean": (-350.0, -250.0)}).parameters_
    for name, pair in {"variance": (10.0, 1e4), "mean": (-350.0, -250.0)}.items():
        i = table.names.index(name)
        assert_allclose([table.lower[i], table.upper[i]], pair, rtol=1e-12)


def test_a_number_as_mean_is_held_and_predictions_return_to_the_mean_far_away(data):
    X, y = data
    far = X.mean(0) + 1e4 * X.std(0)
    gp = fit(data, mean=-250.0)
    assert_allclose(gp.parameters_["mean"], -250.0, rtol=1e-12)
    assert_allclose(gp.predict([far]), -250.0, rtol=1e-9)
    learned = fit(data)
    assert_allclose(learned.predict([far]), learned.parameters_["mean"], rtol=1e-9)
    assert abs(learned.parameters_["mean"] + 250) > 1
    assert_allclose(fit(data, mean="zero", standardize=False).predict([far]), 0.0, atol=1e-9)


def test_mean_zero_is_zero_in_the_units_of_y(data):
    X, _ = data
    far = X.mean(0) + 1e4 * X.std(0)
    assert_allclose(fit(data, mean="zero").predict([far]), 0.0, atol=1e-6)


def test_a_linear_mean_is_the_dense_model_with_random_coefficients(data, new):
    X, y = data
    gp = fit(data, mean="linear", approximation="full")
    p = gp.parameters_
    s, s_new, rms = scaled(X, X), scaled(new, X), y.std()

    def prior(A, B):
        trend = (10 * rms) ** 2 * (1 + A @ B.T)  # intercept and slopes, each with ten times the scale of y
        return squared_exponential(A, B, p["variance"], p["lengthscale"]) + trend

    C = prior(s, s) + p["noise_variance"] * np.eye(N)
    expected = y.mean() + prior(s_new, s) @ np.linalg.solve(C, y - y.mean())
    assert_allclose(gp.predict(new), expected, rtol=1e-7)
    assert_allclose(gp.log_evidence_, multivariate_normal(np.full(N, y.mean()), C).logpdf(y), rtol=1e-8)


# -- what is noise and what is not ------------------------------------------------------------------

FUNCTIONS = {
    "plane": lambda X: 3 * X[:, 0] - 2 * X[:, 1],
    "quadratic": lambda X: X[:, 0] ** 2 + X[:, 0] * X[:, 1],
    "wave": lambda X: np.sin(3 * X[:, 0]) * X[:, 1],
    "waves": lambda X: np.sin(6 * X[:, 0]) + np.cos(5 * X[:, 1]),
}


@pytest.mark.parametrize("noise", [0.0, 1e-4, 1e-2])
@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS.keys())
@pytest.mark.parametrize("n_knots", [20, 50])
@few_iterations
def test_a_smooth_function_with_little_noise_is_not_taken_for_noise(n_knots, function, noise, rng):
    X, X_new = rng.uniform(size=(150, 2)), rng.uniform(size=(200, 2))
    gp = fit((X, function(X) + noise * rng.normal(size=150)), knots=n_knots)
    assert gp.score(X_new, function(X_new)) > 0.99


def test_a_start_near_the_data_scale_reaches_the_same_optimum_as_the_default(data):
    _, y = data
    default = fit(data)
    gp = fit(data, kernel=SquaredExponential(12 * y.var(), 1.0))
    assert gp.log_evidence_ > default.log_evidence_ - 0.1


@pytest.mark.parametrize("approximation", ["vfe", "fic", "full"])
def test_known_noise_per_row_is_the_dense_model(approximation, data, new, rng):
    X, y = data
    noise = rng.uniform(5, 500, size=N)
    gp = fit((X, y + np.sqrt(noise) * rng.normal(size=N)), noise_variance=noise, approximation=approximation, knots=X)
    y = gp._fit.problem.rows.y * y.std() if False else None  # placeholder
