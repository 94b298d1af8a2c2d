"""Linear algebra, against NumPy's general routines, rounding bounds and brute force."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from knotwise.errors import KnotwiseError, NotPositiveDefiniteError
from knotwise.kernels import SquaredExponential
from knotwise.numerics.linalg import (
    FIRST_JITTER,
    LARGEST_JITTER,
    TRIANGLE_BLOCK,
    cholesky,
    half_inverse_without,
    invert_lower,
    log_det,
    pivoted_order,
    smallest_jitter,
    times_lower,
    times_lower_transposed,
    weighted_gram,
)

EPS = np.finfo(float).eps
# around one and two column blocks, where the products change their ways
SIZES = [1, 2, TRIANGLE_BLOCK - 1, 2 * TRIANGLE_BLOCK - 1, 2 * TRIANGLE_BLOCK, 2 * TRIANGLE_BLOCK + 1, 200]


def covariance(rng, n):
    A = rng.normal(size=(n, n + 3))
    return A @ A.T


def with_eigenvalues(rng, values):
    Q = np.linalg.qr(rng.normal(size=(len(values), len(values))))[0]
    A = (Q * values) @ Q.T
    return (A + A.T) / 2


@pytest.mark.parametrize("n", SIZES)
def test_cholesky_is_lower_triangular_and_gives_the_matrix_back(n, rng):
    A = covariance(rng, n)
    before = A.copy()
    L = cholesky(A)
    assert_array_equal(np.triu(L, 1), 0.0)
    assert_allclose(L @ L.T, A, rtol=1e-12, atol=1e-12 * A.max())
    assert_array_equal(A, before)
    assert_allclose(log_det(L), np.linalg.slogdet(A)[1], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("pivot", [1, 3, 5])
def test_a_matrix_without_a_factor_is_a_typed_error_with_the_failing_pivot(pivot):
    A = np.eye(5)
    A[pivot - 1, pivot - 1] = -1.0
    with pytest.raises(NotPositiveDefiniteError, match=f"size 5 is not positive definite .pivot {pivot}.") as caught:
        cholesky(A)
    assert caught.value.pivot == pivot
    assert isinstance(caught.value, KnotwiseError) and isinstance(caught.value, ArithmeticError)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("place", [0, 2, 4])
def test_a_matrix_that_is_not_finite_has_no_factor(bad, place):
    A = np.eye(5)
    A[place, place] = bad
    with pytest.raises(NotPositiveDefiniteError):
        cholesky(A)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_covariance_that_is_not_finite_has_no_factor(bad):
    A = np.eye(5)
    A[3, 1] = A[1, 3] = bad
    with pytest.raises(NotPositiveDefiniteError):
        cholesky(A)


@pytest.mark.parametrize("n", [1, 5, 60, 150])
def test_the_inverse_of_an_ill_conditioned_factor_has_a_left_residual_of_rounding_size(n):
    """|X L - I| <= n eps |X| |L| entry by entry, so that X b is as good as a triangular solve."""
    x = np.linspace(0, 1, n)[:, None]
    L = cholesky(SquaredExponential(1.0, 0.3)(x, x) + 1e-10 * np.eye(n))
    X = invert_lower(L)
    assert_array_equal(np.triu(X, 1), 0.0)
    bound = 2 * n * EPS * (np.abs(X) @ np.abs(L)) + EPS
    assert (np.abs(X @ L - np.eye(n)) / bound).max() <= 1


@pytest.mark.parametrize("n", SIZES)
def test_half_the_inverse_without_a_product_and_its_mirror_are_the_whole(n, rng):
    A = covariance(rng, n) + np.eye(n)
    a = rng.normal(size=n)
    half = half_inverse_without(cholesky(A), a)
    assert_allclose((half + half.T + np.outer(a, a)) @ A, np.eye(n), atol=1e-9)
    assert_array_equal(half, np.tril(half))


@pytest.mark.parametrize("extra_rows", [0, 1, 3])
@pytest.mark.parametrize("n", SIZES)
def test_products_with_triangles_and_trapezoids_are_the_plain_products(n, extra_rows, rng):
    T = np.vstack([np.tril(rng.normal(size=(n, n))), rng.normal(size=(extra_rows, n))])
    V = rng.normal(size=(7, n + extra_rows))
    assert_allclose(times_lower(V, T), V @ T, rtol=1e-12, atol=1e-12 * n)


@pytest.mark.parametrize("n", SIZES)
def test_products_with_transposed_triangles_are_the_plain_products_also_in_place(n, rng):
    T, V = np.tril(rng.normal(size=(n, n))), rng.normal(size=(7, n))
    assert_allclose(times_lower_transposed(V, T), V @ T.T, rtol=1e-12, atol=1e-12 * n)
    wider = np.full((7, n + 2), np.nan)
    returned = times_lower_transposed(V, T, out=wider[:, :n])
    assert np.shares_memory(returned, wider)
    assert_allclose(wider[:, :n], V @ T.T, rtol=1e-12, atol=1e-12 * n)
    assert np.isnan(wider[:, n:]).all()


@pytest.mark.parametrize("n", SIZES)
def test_products_with_triangles_go_along_the_columns_in_memory(n, rng):
    T, V = np.tril(rng.normal(size=(n, n))), rng.normal(size=(7, n))
    for order in "CF":
        assert times_lower(V.copy(order), T).flags.f_contiguous
        assert times_lower_transposed(V.copy(order), T).flags.f_contiguous


@pytest.mark.parametrize(
    "weights",
    [np.linspace(0.1, 2, 30), np.linspace(-1, 2, 30), -np.ones(30), np.zeros(30), np.r_[0.0, -0.0, np.ones(28)]],
    ids=["positive", "mixed", "negative", "zero", "some-zero"],
)
def test_a_weighted_gram_matrix_is_the_plain_product_for_weights_of_any_sign(weights, rng):
    V = rng.normal(size=(30, 5))
    G = weighted_gram(V, weights)
    assert_allclose(G, V.T @ np.diag(weights) @ V, rtol=1e-12, atol=1e-13)
    assert_array_equal(G, G.T)


def greedy_order(A, tolerance):
    """Pivots by brute force: at each step the row of largest variance given those chosen, from its definition."""
    chosen = []
    for _ in range(len(A)):
        given = A - A[:, chosen] @ np.linalg.solve(A[np.ix_(chosen, chosen)], A[chosen]) if chosen else A
        variance = given.diagonal().copy()
        variance[chosen] = -np.inf
        best = int(variance.argmax())
        if variance[best] <= tolerance:
            break
        chosen.append(best)
    return chosen


@pytest.mark.parametrize("n", [1, 2, 12, 90])
def test_pivoted_order_is_the_greedy_one(n, rng):
    A = covariance(rng, n)
    assert pivoted_order(A, 0.0).tolist() == greedy_order(A, 0.0)


@pytest.mark.parametrize("tolerance", [1e-1, 1e-3, 1e-6])
@pytest.mark.parametrize("n", [40, 130])
def test_pivoted_order_leaves_out_rows_that_the_others_determine(n, tolerance, rng):
    x = rng.uniform(size=(n, 1))
    A = SquaredExponential(1.0, 0.2)(x, x)
    order = pivoted_order(A, tolerance).tolist()
    assert order == greedy_order(A, tolerance) and 1 < len(order) < n


def test_pivoted_order_keeps_one_of_equal_rows(rng):
    A = covariance(rng, 4)
    twice = np.repeat([0, 1, 2, 3], 2)
    order = pivoted_order(A[np.ix_(twice, twice)], 1e-8 * A.max())
    assert sorted(twice[order].tolist()) == [0, 1, 2, 3]


def test_the_smallest_jitter_is_the_first_for_a_matrix_that_needs_none():
    assert smallest_jitter(np.eye(4), 1.0) == FIRST_JITTER


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize(("lowest", "jitter"), [(-3e-10, 1e-9), (-2e-7, 1e-6), (-5e-5, 1e-4)])
def test_the_smallest_jitter_is_the_first_power_of_ten_above_the_lowest_eigenvalue(lowest, jitter, scale, rng):
    A = scale * with_eigenvalues(rng, np.r_[lowest, 0.3, 1.0, 1.1])
    assert_allclose(smallest_jitter(A, scale), jitter, rtol=1e-12)


def test_a_matrix_beyond_the_largest_jitter_is_refused_with_the_jitter_tried(rng):
    A = with_eigenvalues(rng, np.array([-5e-4, 0.3, 1.0]))
    with pytest.raises(
        NotPositiveDefiniteError, match="`Kuu` of 3 knots is not positive definite, even with"
    ) as caught:
        smallest_jitter(A, 1.0)
    assert caught.value.jitter == LARGEST_JITTER
