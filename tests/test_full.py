"""The exact GP, against the dense twin, scikit-learn and closed forms."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sk

from knotwise import GPRegressor
from knotwise.errors import NotPositiveDefiniteError, TooLargeError
from knotwise.evidence import MAX_FULL_ROWS, Model, Rows, full_evidence
from knotwise.kernels import (
    Constant,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    RationalQuadratic,
    SquaredExponential,
)
from knotwise.likelihoods import Gaussian
from knotwise.means import Zero
from knotwise.testing import assert_adjoint, dense_full_evidence

NOISE = 0.3
# ours, scikit-learn's, and where our entries of theta are in its theta (sorted by name within a kernel)
PAIRS = {
    "squared-exponential": (SquaredExponential(1.7, 0.8), sk.ConstantKernel(1.7) * sk.RBF(0.8), [0, 1]),
    "squared-exponential-ard": (
        SquaredExponential(1.7, [0.8, 2.1]),
        sk.ConstantKernel(1.7) * sk.RBF([0.8, 2.1]),
        [0, 1, 2],
    ),
    "matern12": (Matern12(1.7, 0.8), sk.ConstantKernel(1.7) * sk.Matern(0.8, nu=0.5), [0, 1]),
    "matern32": (Matern32(1.7, [0.8, 2.1]), sk.ConstantKernel(1.7) * sk.Matern([0.8, 2.1], nu=1.5), [0, 1, 2]),
    "matern52": (Matern52(1.7, 0.8), sk.ConstantKernel(1.7) * sk.Matern(0.8, nu=2.5), [0, 1]),
    "rational-quadratic": (
        RationalQuadratic(1.7, 0.8, shape=0.6),
        sk.ConstantKernel(1.7) * sk.RationalQuadratic(length_scale=0.8, alpha=0.6),
        [0, 2, 1],
    ),
    "sum": (
        SquaredExponential(1.7, 0.8) + Constant(0.4),
        sk.ConstantKernel(1.7) * sk.RBF(0.8) + sk.ConstantKernel(0.4),
        [0, 1, 2],
    ),
    "product": (
        Matern32(1.7, 0.8) * SquaredExponential(0.6, 2.0),
        sk.ConstantKernel(1.7) * sk.Matern(0.8, nu=1.5) * (sk.ConstantKernel(0.6) * sk.RBF(2.0)),
        [0, 1, 2, 3],
    ),
}


@pytest.mark.parametrize(
    ("mean", "known_noise"), [("zero", False), ("constant", False), ("linear", False), ("linear", True)]
)
def test_evidence_equals_the_dense_formula(kernel, mean, known_noise, toy):
    model, rows, _, _ = toy.problem(kernel, mean=mean, known_noise=known_noise)
    assert_allclose(full_evidence(model, rows).value, dense_full_evidence(model, rows), rtol=1e-12)


@pytest.mark.parametrize(
    ("mean", "known_noise"), [("zero", False), ("constant", False), ("linear", False), ("linear", True)]
)
def test_the_gradient_is_the_derivative_of_the_value(kernel, mean, known_noise, toy, rng):
    model, rows, _, _ = toy.problem(kernel, mean=mean, known_noise=known_noise)

    def value_and_gradient(theta):
        evidence = full_evidence(model.with_theta(theta), rows)
        return evidence.value, evidence.gradient

    assert_adjoint(value_and_gradient, model.theta, rng)


@pytest.mark.parametrize("name", PAIRS)
def test_evidence_and_gradient_are_those_of_scikit_learn(name, toy):
    ours, theirs, order = PAIRS[name]
    reference = GaussianProcessRegressor(theirs + sk.WhiteKernel(NOISE), alpha=0.0, optimizer=None).fit(toy.X, toy.y)
    value, gradient = reference.log_marginal_likelihood(reference.kernel_.theta, eval_gradient=True)
    found = full_evidence(Model(ours, Gaussian(NOISE), Zero()), Rows(toy.X, toy.y, None, np.empty((len(toy.X), 0))))
    assert_allclose(found.value, value, rtol=1e-8)
    assert_allclose(found.gradient, gradient[[*order, -1]], rtol=1e-8, atol=1e-8)


def test_a_periodic_kernel_in_one_column_is_that_of_scikit_learn(toy):
    X = toy.X[:, :1]
    theirs = sk.ConstantKernel(1.7) * sk.ExpSineSquared(length_scale=0.8, periodicity=2.3) + sk.WhiteKernel(NOISE)
    reference = GaussianProcessRegressor(theirs, alpha=0.0, optimizer=None).fit(X, toy.y)
    value, gradient = reference.log_marginal_likelihood(reference.kernel_.theta, eval_gradient=True)
    model = Model(Periodic(1.7, 0.8, period=2.3), Gaussian(NOISE), Zero())
    found = full_evidence(model, Rows(X, toy.y, None, np.empty((len(X), 0))))
    assert_allclose(found.value, value, rtol=1e-8)
    assert_allclose(found.gradient, gradient, rtol=1e-8)


def test_a_linear_kernel_is_bayesian_linear_regression(toy):
    """Evidence of y = X beta + noise with beta ~ N(0, diag(variance)), by SciPy's density."""
    model = Model(Linear([0.4, 1.9]), Gaussian(NOISE), Zero())
    C = toy.X @ np.diag([0.4, 1.9]) @ toy.X.T + NOISE * np.eye(len(toy.X))
    rows = Rows(toy.X, toy.y, None, np.empty((len(toy.X), 0)))
    assert_allclose(full_evidence(model, rows).value, multivariate_normal(cov=C).logpdf(toy.y), rtol=1e-11)


def test_one_row_is_a_normal_density():
    rows = Rows(np.array([[3.0]]), np.array([1.2]), None, np.empty((1, 0)))
    found = full_evidence(Model(Matern32(2.0, 1.0), Gaussian(0.5), Zero()), rows)
    assert_allclose(found.value, -0.5 * (np.log(2 * np.pi * 2.5) + 1.44 / 2.5), rtol=1e-14)
    # d/dv of the log density at v = 2.5, times each variance
    slope = 0.5 * (1.44 / 2.5**2 - 1 / 2.5)
    assert_allclose(found.gradient, [2 * slope, 0.0, 0.5 * slope], rtol=1e-12, atol=1e-15)


def test_value_alone_is_the_value_with_the_gradient(toy):
    model, rows, _, _ = toy.problem(Matern32(1.1, 0.7), mean="linear")
    alone = full_evidence(model, rows, gradient=False)
    assert alone.value == full_evidence(model, rows).value and alone.gradient is None


def test_equal_rows_without_noise_have_no_factor(toy):
    rows = Rows(np.zeros((3, 1)), np.zeros(3), None, np.empty((3, 0)))
    with pytest.raises(NotPositiveDefiniteError):
        full_evidence(Model(Matern32(1.0, 1.0), Gaussian(1e-30), Zero()), rows)


def test_more_rows_than_an_ordinary_machine_can_hold_are_refused_at_once_with_advice():
    n = MAX_FULL_ROWS + 1
    X, y = np.zeros((n, 1)), np.zeros(n)
    with pytest.raises(TooLargeError, match=r"10,001 x 10,001 .*Use `approximation='vfe'`") as caught:
        full_evidence(Model(Matern32(), Gaussian(1.0), Zero()), Rows(X, y, None, np.empty((n, 0))))
    assert (caught.value.n_rows, caught.value.limit) == (n, MAX_FULL_ROWS)
    with pytest.raises(TooLargeError, match="stops at 10,000 rows"):
        GPRegressor(approximation="full").fit(np.arange(n)[:, None], np.arange(n))
