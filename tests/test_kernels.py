"""Kernels, against scalar formulas in plain Python, special functions and the conformance check."""

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.special import gamma, kv

from knotwise.errors import InvalidInputError, UnknownOptionError
from knotwise.kernels import (
    Constant,
    DataScale,
    Kernel,
    KernelGradient,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    OnColumns,
    Parameter,
    Periodic,
    RationalQuadratic,
    SquaredExponential,
    Stationary,
    Sum,
)
from knotwise.kernels.base import LENGTHSCALE, VARIANCE
from knotwise.testing import check_kernel

STATIONARY = [SquaredExponential, Matern12, Matern32, Matern52, RationalQuadratic]
ELL = [0.5, 1.1, 2.3]


def distance(x, z, ell):
    return math.sqrt(sum(((a - b) / e) ** 2 for a, b, e in zip(x, z, ell, strict=True)))


def squared_exponential(x, z, ell):
    return math.exp(-(distance(x, z, ell) ** 2) / 2)


def matern32(x, z, ell):
    r = math.sqrt(3) * distance(x, z, ell)
    return (1 + r) * math.exp(-r)


def matern52(x, z, ell):
    r = math.sqrt(5) * distance(x, z, ell)
    return (1 + r + r**2 / 3) * math.exp(-r)


def periodic(x, z, ell, period):
    return math.exp(
        -2 * sum((math.sin(math.pi * (a - b) / period) / e) ** 2 for a, b, e in zip(x, z, ell, strict=True))
    )


FORMULAS = {
    "squared-exponential": (SquaredExponential(1.7, 0.8), lambda x, z: 1.7 * squared_exponential(x, z, [0.8] * 3)),
    "squared-exponential-ard": (SquaredExponential(1.7, ELL), lambda x, z: 1.7 * squared_exponential(x, z, ELL)),
    "matern12": (Matern12(0.9, 1.3), lambda x, z: 0.9 * math.exp(-distance(x, z, [1.3] * 3))),
    "matern12-ard": (Matern12(0.9, ELL), lambda x, z: 0.9 * math.exp(-distance(x, z, ELL))),
    "matern32": (Matern32(2.0, 1.3), lambda x, z: 2 * matern32(x, z, [1.3] * 3)),
    "matern32-ard": (Matern32(2.0, ELL), lambda x, z: 2 * matern32(x, z, ELL)),
    "matern52": (Matern52(0.3, 1.3), lambda x, z: 0.3 * matern52(x, z, [1.3] * 3)),
    "matern52-ard": (Matern52(0.3, ELL), lambda x, z: 0.3 * matern52(x, z, ELL)),
    "rational-quadratic": (
        RationalQuadratic(1.1, 0.7, shape=0.4),
        lambda x, z: 1.1 * (1 + distance(x, z, [0.7] * 3) ** 2 / 0.8) ** -0.4,
    ),
    "rational-quadratic-ard": (
        RationalQuadratic(1.1, ELL, shape=3.0),
        lambda x, z: 1.1 * (1 + distance(x, z, ELL) ** 2 / 6) ** -3,
    ),
    "periodic": (Periodic(1.4, 0.9, period=2.1), lambda x, z: 1.4 * periodic(x, z, [0.9] * 3, 2.1)),
    "periodic-ard": (Periodic(1.4, ELL, period=2.1), lambda x, z: 1.4 * periodic(x, z, ELL, 2.1)),
    "constant": (Constant(0.6), lambda x, z: 0.6),
    "linear": (Linear(0.6), lambda x, z: sum(0.6 * a * b for a, b in zip(x, z, strict=True))),
    "linear-ard": (Linear(ELL), lambda x, z: sum(e * a * b for a, b, e in zip(x, z, ELL, strict=True))),
    "sum": (
        SquaredExponential(1.7, 0.8) + Matern12(0.9, 1.3) + Constant(0.6),
        lambda x, z: 1.7 * squared_exponential(x, z, [0.8] * 3) + 0.9 * math.exp(-distance(x, z, [1.3] * 3)) + 0.6,
    ),
    "product": (
        Matern32(2.0, ELL) * Linear(0.6),
        lambda x, z: 2 * matern32(x, z, ELL) * sum(0.6 * a * b for a, b in zip(x, z, strict=True)),
    ),
    "columns": (
        Matern52(0.3, [0.5, 2.0]).on([2, 0]) * Constant(0.6).on(1),
        lambda x, z: 0.18 * matern52([x[2], x[0]], [z[2], z[0]], [0.5, 2.0]),
    ),
}


# -- values -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FORMULAS)
def test_values_are_those_of_the_scalar_formula(name, rng):
    kernel, formula = FORMULAS[name]
    X, Z = rng.normal(size=(9, 3)), rng.normal(size=(5, 3))
    Z[0] = X[0]
    expected = [[formula(x, z) for z in Z.tolist()] for x in X.tolist()]
    assert_allclose(kernel(X, Z), expected, rtol=1e-13, atol=1e-15)
    assert_allclose(kernel.diag(X), [formula(x, x) for x in X.tolist()], rtol=1e-14)
    assert_allclose(kernel.pairs(X[:5], Z)[0], np.diagonal(expected), rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize(("kernel", "nu"), [(Matern12, 0.5), (Matern32, 1.5), (Matern52, 2.5)])
def test_matern_kernels_are_the_bessel_functions_that_define_them(kernel, nu):
    r = np.geomspace(1e-3, 20, 40)
    u = np.sqrt(2 * nu) * r
    expected = 2 ** (1 - nu) / gamma(nu) * u**nu * kv(nu, u)
    assert_allclose(kernel(1.0, 1.0)(r[:, None], np.zeros((1, 1)))[:, 0], expected, rtol=1e-12)


@pytest.mark.parametrize("shape", [0.5, 2.0, 7.5])
def test_rational_quadratic_is_a_gamma_mixture_of_squared_exponentials(shape):
    """Squared inverse length-scales distributed as Gamma(shape, rate = shape)."""
    kernel = RationalQuadratic(1.0, 1.0, shape=shape)
    for r in (0.3, 1.0, 4.0):

        def mixture(t):
            return t ** (shape - 1) * math.exp(-shape * t - t * r**2 / 2)  # noqa: B023

        expected = quad(mixture, 0, np.inf)[0] * shape**shape / math.gamma(shape)
        assert_allclose(kernel([[r]], [[0.0]]), [[expected]], rtol=1e-7)


def test_rational_quadratic_of_large_shape_is_the_squared_exponential(rng):
    X, Z = rng.normal(size=(6, 2)), rng.normal(size=(4, 2))
    near = RationalQuadratic(1.3, 0.7, shape=1e8)(X, Z)
    assert_allclose(near, SquaredExponential(1.3, 0.7)(X, Z), rtol=1e-5)


def test_periodic_repeats_itself_after_a_period_in_any_column(rng):
    kernel = Periodic(1.2, [0.6, 0.9], period=1.7)
    X, Z = rng.normal(size=(6, 2)), rng.normal(size=(4, 2))
    for shift in ([1.7, 0.0], [0.0, -1.7], [3.4, 8.5]):
        assert_allclose(kernel(X + shift, Z), kernel(X, Z), rtol=1e-12)


@pytest.mark.parametrize("kind", [*STATIONARY, Periodic])
def test_equal_lengthscales_are_the_isotropic_kernel_and_its_gradient_is_their_sum(kind, rng):
    X, Z, K_bar = rng.normal(size=(7, 3)), rng.normal(size=(4, 3)), rng.normal(size=(7, 4))
    one, pull_one = kind(1.3, 0.8).value_and_pullback(X, Z)
    each, pull_each = kind(1.3, [0.8, 0.8, 0.8]).value_and_pullback(X, Z)
    assert_allclose(each, one, rtol=1e-14)
    a, b = pull_one(K_bar).theta, pull_each(K_bar).theta
    assert_allclose(a, np.r_[b[0], b[1:4].sum(), b[4:]], rtol=1e-12)


# -- near and far -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", STATIONARY)
@pytest.mark.parametrize("place", [0.0, 1e6])
def test_coincident_points_have_the_variance_to_rounding(kind, place, rng):
    X = place + rng.normal(size=(30, 4))
    assert_allclose(kind(1.7, 0.3)(X, X.copy()).diagonal(), 1.7, rtol=1e-13)


def test_matern12_at_distance_0_is_the_variance_exactly_and_has_no_pull(rng):
    X = 1e6 + rng.normal(size=(8, 3))
    K, pullback = Matern12(1.7, 0.3).value_and_pullback(X, X.copy())
    assert_array_equal(K.diagonal(), 1.7)
    gradient = pullback(np.eye(8), with_X=True)
    assert_allclose(gradient.theta, [8 * 1.7, 0.0], rtol=1e-15)
    assert_array_equal(gradient.Z, 0.0)
    assert_array_equal(gradient.X, 0.0)


@pytest.mark.parametrize("r", [1e-3, 1e-6, 1e-9, 1e-12])
def test_matern12_resolves_distances_that_a_product_would_round_away(r):
    near = Matern12(1.0, 1.0)([[0.5 + r], [3.0]], [[0.5], [-2.0]])
    assert_allclose(1 - near[0, 0], 1 - math.exp(-((0.5 + r) - 0.5)), rtol=1e-3 if r < 1e-11 else 1e-6)


@pytest.mark.parametrize("name", [n for n in FORMULAS if not n.startswith(("linear", "product"))])
def test_data_a_million_away_from_the_origin_lose_no_digits(name, rng):
    kernel, formula = FORMULAS[name]
    # coordinates in 1/1024 and a shift by 2^20 leave no rounding to the points themselves
    X, Z = (np.round(1024 * rng.normal(size=(n, 3))) / 1024 for n in (9, 5))
    expected = [[formula(x, z) for z in Z.tolist()] for x in X.tolist()]
    # the angle on the circle of a periodic kernel is rounded to 1e-16 of its millions of radians
    rtol = 1e-7 if name.startswith("periodic") else 1e-12
    assert_allclose(kernel(X + 2.0**20, Z + 2.0**20), expected, rtol=rtol)
    assert_allclose(kernel.pairs(X[:5] + 2.0**20, Z + 2.0**20)[0], np.diagonal(expected), rtol=1e-12)


@pytest.mark.parametrize("name", FORMULAS)
def test_a_pair_of_equal_rows_has_the_value_and_the_gradient_of_the_diagonal_exactly(name, rng):
    kernel, X = FORMULAS[name][0], 1e6 + rng.normal(size=(40, 3))
    k, pullback = kernel.pairs(X, X.copy())
    k_bar = rng.normal(size=40)
    assert_array_equal(k, kernel.diag(X))
    assert_allclose(pullback(k_bar), kernel.diag_pullback(X, k_bar), rtol=1e-12, atol=1e-13)


# -- conformance --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_columns", [1, 3])
@pytest.mark.parametrize("ard", [False, True])
@pytest.mark.parametrize("kind", [*STATIONARY, Periodic, Linear])
def test_a_kernel_with_parameters_from_the_data_conforms(kind, ard, n_columns):
    check_kernel(kind(ard=ard), n_columns)


@pytest.mark.parametrize("name", FORMULAS)
def test_a_kernel_with_given_parameters_conforms(name):
    check_kernel(FORMULAS[name][0])


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(
    "composite",
    [
        SquaredExponential() + Matern12(ard=True),
        Constant() * SquaredExponential(ard=True),
        (Matern32() + Linear(ard=True)) * Periodic(ard=True),
        RationalQuadratic(ard=True).on([0, 2]) + Matern52().on(-2) * Linear().on(1),
        (SquaredExponential(ard=True) + Constant()).on([2, 1]),
        Matern32(ard=True).on([1, 1]),
    ],
    ids=repr,
)
def test_composite_kernels_conform(composite, seed):
    check_kernel(composite, seed=seed)


def test_a_kernel_on_named_columns_conforms_once_bound():
    named = Matern32(ard=True).on(["depth", "age"]) + Linear().on("width")
    check_kernel(named.bind(["width", "age", "depth"], 3))


class Wendland(Stationary):
    """A user's own kernel, zero beyond one length-scale (in up to three dimensions)."""

    def rho(self, r2):
        r = np.sqrt(r2)
        return np.maximum(1 - r, 0) ** 4 * (4 * r + 1)

    def drho(self, r2):
        return -10 * np.maximum(1 - np.sqrt(r2), 0) ** 3


@pytest.mark.parametrize("n_columns", [1, 2, 3])
def test_a_users_own_stationary_kernel_conforms(n_columns):
    check_kernel(Wendland(), n_columns)
    check_kernel(Wendland(1.3, 4.0) * Linear(0.5) + Wendland(ard=True).on([0]), n_columns)


class Brownian(Kernel):
    """A user's own kernel with what it must define and no more: Brownian motion in each of the columns."""

    parameters = (Parameter("variance", role="amplitude", units="y^2/x"),)

    def __init__(self, variance=None):
        self.variance = variance

    def value_and_pullback(self, X, Z):
        gap = np.abs(X[:, None] - Z)  # [N, K, D]
        K = self.value("variance") * 0.5 * (np.abs(X)[:, None] + np.abs(Z) - gap).sum(2)

        def pullback(K_bar, with_X=False):
            half = 0.5 * self.value("variance") * K_bar[..., None]
            to_X, to_Z = np.sign(X)[:, None] - np.sign(X[:, None] - Z), np.sign(Z) + np.sign(X[:, None] - Z)
            X_bar = (half * to_X).sum(1) if with_X else None
            return KernelGradient(np.array([np.vdot(K_bar, K)]), (half * to_Z).sum(0), X_bar)

        return K, pullback

    def diag(self, X):
        return self.value("variance") * np.abs(X).sum(1)

    def diag_pullback(self, X, k_bar):
        return np.array([k_bar @ self.diag(X)])

    def start(self, scale):
        return Brownian(self.variance or scale.variance)

    def bounds(self, scale):
        return scale.variance_bounds[None]

    def scaled(self, factor):
        return Brownian(self.value("variance") * factor)


def test_a_users_own_kernel_without_a_word_on_pairs_conforms():
    check_kernel(Brownian(1.3))
    check_kernel(Brownian(1.3).on(1) * Wendland(0.7, 3.0))


class WrongPairs(SquaredExponential):
    """Pairs without the length-scale."""

    def pairs(self, X, Z):
        return SquaredExponential(self.variance, 1.0).pairs(X, Z)


class WrongPairsGradient(SquaredExponential):
    def pairs(self, X, Z):
        k, pullback = super().pairs(X, Z)
        return k, lambda k_bar: 2 * pullback(k_bar)


class WrongSlope(Wendland):
    def drho(self, r2):
        return -9 * np.maximum(1 - np.sqrt(r2), 0) ** 3


class WrongDiagonal(SquaredExponential):
    def diag(self, X):
        return np.full(len(X), 1.0)


class WrongDiagonalGradient(SquaredExponential):
    def diag_pullback(self, X, k_bar):
        return super().diag_pullback(X, k_bar)[::-1]


class WrongShape(RationalQuadratic):
    def shape_slopes(self, r2, K):
        return [slope / self.shape for slope in super().shape_slopes(r2, K)]


class Box(Stationary):
    """Correlation 1 up to one length-scale, and 0 beyond: no covariance."""

    def rho(self, r2):
        return np.where(r2 < 1, 1.0, 0.0)

    def drho(self, r2):
        return np.zeros_like(r2)


class Kinked(Stationary):
    """Matern 1/2 by the naive chain rule."""

    distances_by_product = False

    def rho(self, r2):
        return np.exp(-np.sqrt(r2))

    def drho(self, r2):
        with np.errstate(divide="ignore"):
            return -0.5 * np.exp(-np.sqrt(r2)) / np.sqrt(r2)


class NearOriginOnly(SquaredExponential):
    """Distances from the product of points that nobody has centred."""

    def value_and_pullback(self, X, Z):
        _, pullback = super().value_and_pullback(X, Z)
        r2 = ((X**2).sum(1)[:, None] + (Z**2).sum(1) - 2 * X @ Z.T) / self.lengthscale**2
        return self.variance * np.exp(-np.maximum(r2, 0) / 2), pullback


class WrongBounds(SquaredExponential):
    def bounds(self, scale):
        return super().bounds(scale)[::-1]


class WithStandardDeviation(Constant):
    """Constant kernel whose parameter is the root of what it says."""

    def value_and_pullback(self, X, Z):
        K, pull = super().value_and_pullback(X, Z)
        return K**2, lambda K_bar, with_X=False: pull(2 * K * K_bar, with_X)

    def diag(self, X):
        return super().diag(X) ** 2

    def diag_pullback(self, X, k_bar):
        return 2 * super().diag_pullback(X, k_bar * super().diag(X))


class WrongUnitsOfY(WithStandardDeviation):
    """It says that it is a variance, in the units of y squared."""


class WrongAmplitude(WithStandardDeviation):
    """Its units are right, but to be an amplitude the kernel would have to be proportional to it."""

    parameters = (replace(VARIANCE, units="y"),)


class WrongUnitsOfX(SquaredExponential):
    parameters = (VARIANCE, replace(LENGTHSCALE, units="none"))


class NoLinkToItsParameter(SquaredExponential):
    parameters = (VARIANCE, LENGTHSCALE, Parameter("reach", bounds=(0.1, 10.0)))
    reach = 1.0


class WrongRole(Constant):
    parameters = (replace(VARIANCE, role="noise"),)


class NotPositive(Constant):
    parameters = (replace(VARIANCE, transform="identity"),)


class ForgetsAnArgument(SquaredExponential):
    def get_params(self, deep=True):
        return {"variance": self.variance}


class SpoilsItsValue(Constant):
    """The pullback works in the array that it gave away."""

    def value_and_pullback(self, X, Z):
        K, pull = super().value_and_pullback(X, Z)

        def pullback(K_bar, with_X=False):
            K[...] *= K_bar
            return pull(K_bar, with_X)

        return K, pullback


class SpoilsTheAdjoint(SquaredExponential):
    def value_and_pullback(self, X, Z):
        K, pull = super().value_and_pullback(X, Z)

        def pullback(K_bar, with_X=False):
            gradient = pull(K_bar, with_X)
            K_bar *= 2
            return gradient

        return K, pullback


class Lopsided(SquaredExponential):
    def value_and_pullback(self, X, Z):
        K, pullback = super().value_and_pullback(X, Z)
        return K * np.exp(0.01 * X[:, :1]), pullback


@pytest.mark.parametrize(
    ("wrong", "clause"),
    [
        (WrongSlope(1.0, 4.0), "gradient in theta of k"),
        (WrongDiagonal(2.0, 1.0), "is the diagonal"),
        (WrongDiagonalGradient(2.0, 1.0), r"gradient in theta of diag"),
        (WrongShape(1.0, 1.0, shape=2.0), "gradient in theta of k"),
        (WrongPairs(1.0, 2.0), r"`pairs\(X, Z\)` is the diagonal"),
        (WrongPairsGradient(1.0, 2.0), "the pullback of `pairs` is that of"),
        (Box(1.0, 2.0), "positive semi-definite"),
        (Kinked(1.0, 1.0), "finite"),
        (NearOriginOnly(1.0, 1.0), r"k\(X \+ s, Z \+ s\)"),
        (WrongBounds(1.0, 1.0), "outside `bounds`"),
        (WrongUnitsOfY(2.0), "`units` of y"),
        (WrongAmplitude(2.0), "the role `amplitude`"),
        (WrongUnitsOfX(2.0, 1.0), "`units` of x"),
        (NoLinkToItsParameter(2.0, 1.0), "no argument of the constructor"),
        (WrongRole(2.0), "the role 'noise'"),
        (NotPositive(2.0), "all parameters of kernels are positive"),
        (ForgetsAnArgument(2.0, 3.0), "get_params"),
        (SpoilsItsValue(2.0), "leaves the value"),
        (SpoilsTheAdjoint(2.0, 1.0), "leaves K_bar"),
        (Lopsided(2.0, 1.0), "symmetric"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Kernel) else "",
)
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_a_wrong_kernel_fails_the_check_at_the_clause_that_it_breaks(wrong, clause):
    with pytest.raises(AssertionError, match=clause):
        check_kernel(wrong)


# -- composition and columns --------------------------------------------------------------------------------


def test_sums_and_products_name_the_parameters_of_their_parts():
    kernel = SquaredExponential(1.0, [1.0, 2.0]) + Constant(3.0) * Matern12(4.0, 5.0).on(0)
    assert kernel.names == [
        "k1__variance", "k1__lengthscale", "k1__lengthscale",
        "k2__k1__variance", "k2__k2__kernel__variance", "k2__k2__kernel__lengthscale",
    ]  # fmt: skip
    assert_allclose(np.exp(kernel.theta), [1, 1, 2, 3, 4, 5], rtol=1e-14)
    assert kernel.n_leaves == 3


@pytest.mark.parametrize("columns", [1, [1], ["age"], "age", [-2]])
def test_a_column_is_the_same_by_index_by_name_and_from_the_end(columns, rng):
    X, Z = rng.normal(size=(5, 3)), rng.normal(size=(4, 3))
    bound = Matern32(1.2, 0.8).on(columns).bind(["width", "age", "depth"], 3)
    assert_array_equal(bound(X, Z), Matern32(1.2, 0.8)(X[:, [1]], Z[:, [1]]))
    assert bound.columns == [1]


def test_columns_keep_the_order_in_which_they_are_named(rng):
    X = rng.normal(size=(5, 3))
    bound = Linear([2.0, 3.0]).on(["depth", "width"]).bind(["width", "age", "depth"], 3)
    assert_allclose(bound.diag(X), 2 * X[:, 2] ** 2 + 3 * X[:, 0] ** 2, rtol=1e-14)


def test_columns_of_columns_are_resolved_from_the_outside_in(rng):
    X = rng.normal(size=(5, 3))
    inner = OnColumns(Linear(1.0), "age")
    bound = OnColumns(inner, ["depth", "age"]).bind(["width", "age", "depth"], 3)
    assert_allclose(bound.diag(X), X[:, 1] ** 2, rtol=1e-14)


def test_the_gradient_in_a_column_that_the_kernel_does_not_see_is_0(rng):
    X, Z = rng.normal(size=(5, 3)), rng.normal(size=(4, 3))
    gradient = Matern32().on([0, 2]).value_and_pullback(X, Z)[1](rng.normal(size=(5, 4)), with_X=True)
    assert_array_equal(gradient.Z[:, 1], 0.0)
    assert_array_equal(gradient.X[:, 1], 0.0)
    assert (gradient.Z[:, [0, 2]] != 0).all()


# -- starts and bounds --------------------------------------------------------------------------------------


def test_start_takes_the_open_parameters_from_the_data_and_keeps_the_others():
    scale = DataScale(np.array([1.0, 4.0]), variance=9.0)
    started = SquaredExponential(ard=True).bind(None, 2).start(scale)
    assert_allclose(started.variance, 9.0)
    assert_allclose(started.lengthscale, np.sqrt(2) * np.array([1.0, 4.0]))
    kept = Matern32(2.0, 0.5).start(scale)
    assert (kept.variance, kept.lengthscale) == (2.0, 0.5)


def test_ard_spreads_one_given_lengthscale_over_the_columns():
    assert_array_equal(Matern32(lengthscale=0.7, ard=True).bind(None, 3).lengthscale, [0.7, 0.7, 0.7])


@pytest.mark.parametrize(
    "kernel",
    [Matern32(), Constant(), Linear(), Linear(ard=True), Matern32() + Linear(ard=True), Matern32() * Periodic()],
    ids=repr,
)
def test_a_started_kernel_has_the_variance_of_the_data(kernel):
    scale = DataScale(np.array([1.0, 4.0]), variance=9.0)
    X = np.array([[1.0, 4.0], [-1.0, -4.0]])  # one standard deviation away in both columns
    assert_allclose(kernel.bind(None, 2).start(scale).diag(X), 9.0, rtol=1e-12)


# -- errors -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*STATIONARY, Periodic])
def test_a_list_of_lengthscales_of_the_wrong_length_is_refused(kind):
    with pytest.raises(InvalidInputError, match=r"`lengthscale` of \w+ has 2 entries, but the kernel sees 3 columns"):
        kind(lengthscale=[1.0, 2.0]).bind(None, 3)


def test_an_unknown_column_names_the_nearest():
    with pytest.raises(UnknownOptionError, match="Did you mean 'depth'") as caught:
        Matern32().on("dept").bind(["width", "depth"], 2)
    assert caught.value.given == "dept" and caught.value.options == ["depth", "width"]


@pytest.mark.parametrize("column", [2, -3, 17])
def test_a_column_beyond_the_data_is_refused(column):
    with pytest.raises(InvalidInputError, match=f"Column {column} of the kernel does not exist: the data have 2"):
        Matern32().on(column).bind(None, 2)


def test_a_named_column_needs_data_with_names(rng):
    with pytest.raises(InvalidInputError, match="no column names"):
        Matern32().on("depth").bind(None, 2)
    with pytest.raises(InvalidInputError, match="are names"):
        Matern32().on("depth")(rng.normal(size=(3, 2)))


@pytest.mark.parametrize("bad", [-1.0, 0.0, np.nan, np.inf, "big", [1.0, -2.0], [[1.0]]])
def test_a_lengthscale_that_is_not_positive_and_finite_is_refused(bad):
    with pytest.raises(InvalidInputError, match=r"`lengthscale` of Matern32 is .*positive"):
        Matern32(1.0, bad)


@pytest.mark.parametrize("kind", [*STATIONARY, Periodic, Linear, Constant])
def test_a_negative_variance_is_refused_by_constructor_and_set_params(kind):
    with pytest.raises(InvalidInputError, match="`variance` of"):
        kind(variance=-1.0)
    with pytest.raises(InvalidInputError, match="`variance` of"):
        kind(variance=1.0).set_params(variance=-1.0)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (SquaredExponential, "variance"),
        (Matern12, "variance"),
        (RationalQuadratic, "shape"),
        (Periodic, "variance"),
        (Periodic, "period"),
        (Constant, "variance"),
    ],
)
def test_a_list_for_a_parameter_that_is_one_number_is_refused(kind, name):
    with pytest.raises(InvalidInputError, match=f"`{name}` of {kind.__name__}"):
        kind(**{name: [1.0, 2.0]})


def test_an_unknown_parameter_names_the_nearest():
    with pytest.raises(UnknownOptionError, match="Did you mean 'lengthscale'"):
        SquaredExponential().set_params(lenghtscale=2.0)
    with pytest.raises(UnknownOptionError, match="Did you mean 'variance'"):
        (SquaredExponential() + Constant()).set_params(k2__varance=2.0)


@pytest.mark.parametrize("other", [3.0, None, "matern"])
def test_only_kernels_compose(other):
    with pytest.raises(InvalidInputError, match="Sum is made of two kernels"):
        Sum(SquaredExponential(), other)
    with pytest.raises(InvalidInputError, match="Product is made of two kernels"):
        SquaredExponential() * other


def test_a_base_class_says_what_a_kernel_must_define(rng):
    X = rng.normal(size=(3, 2))
    for method in (lambda k: k(X), lambda k: k.diag(X), lambda k: k.bounds(DataScale(np.ones(2)))):
        with pytest.raises(NotImplementedError, match="Kernel must define"):
            method(Kernel())


def test_values_and_gradients_do_not_depend_on_the_order_of_memory_but_values_are_column_major(kernel, rng):
    X, Z, K_bar = rng.normal(size=(9, 2)), rng.normal(size=(4, 2)), rng.normal(size=(9, 4))
    value, pullback = kernel.bind(None, 2).value_and_pullback(X, Z)
    assert value.flags.f_contiguous  # row-major blocks would be a fifth slower
    by_order = [pullback(K_bar.copy(order), with_X=True) for order in "CF"]
    for part in ("theta", "Z", "X"):
        assert_allclose(getattr(by_order[0], part), getattr(by_order[1], part), rtol=1e-12, atol=1e-13)


def test_a_kernel_on_columns_finds_names_in_a_list_and_in_an_array():
    names = ["x", "y", "depth"]
    for given in (names, np.array(names, object)):
        assert SquaredExponential().on(["depth", "x"]).bind(given, 3).columns == [2, 0]
