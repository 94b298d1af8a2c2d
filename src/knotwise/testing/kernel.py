"""The conformance check of kernels: everything that the engine takes for granted of one."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from knotwise.kernels import DataScale, Kernel
from knotwise.testing.clauses import assert_adjoint, check_parameters, fail, same

FAR = 2.0**20  # about a million; grid points of 2^-10 move there without rounding


def check_kernel(kernel: Kernel, n_columns: int = 3, seed: int = 0) -> None:
    """Assert that a kernel keeps the contract of `Kernel`; the error says which clause it breaks.

    Works for any kernel: shipped, composed, or a user's own.

    Parameters
    ----------
    kernel : Kernel
        The kernel to test. Parameters that are None are set from data first; columns given by name must be bound
        already.
    n_columns : int, default 3
        Columns of these data.
    seed : int, default 0
        For these data.

    Examples
    --------
    >>> from knotwise.kernels import Matern32
    >>> from knotwise.testing import check_kernel
    >>> check_kernel(Matern32(variance=2.0, lengthscale=0.7), n_columns=1)
    """
    rng = np.random.default_rng(seed)
    given = kernel
    X = np.round(1024 * rng.standard_normal((11, n_columns))) / 1024  # [N, D]
    Z = np.round(1024 * rng.standard_normal((6, n_columns))) / 1024  # [K, D]
    kernel = given.bind(None, n_columns).start(DataScale(X.std(0), 1.7))
    _check_parameters(kernel)
    _check_start_and_bounds(given, kernel, n_columns)
    _check_values(kernel, X, Z)
    _check_roles_and_units(kernel, X, Z)
    _check_use_of_arrays(kernel, X, Z, rng)
    _check_gradients(kernel, X, Z, rng)
    _check_pairs(kernel, X, Z, rng)
    if kernel.stationary:
        _check_far_from_origin(kernel, X, Z, rng)


def _check_parameters(kernel: Kernel) -> None:
    check_parameters(kernel, ("amplitude", "lengthscale", "shape", "other"))
    if not all(p.positive for p in kernel.parameters):
        fail(kernel, "a parameter has another transform than 'log', but all parameters of kernels are positive")


def _check_start_and_bounds(given: Kernel, started: Kernel, n_columns: int) -> None:
    """Starts lie inside the bounds, in the same order; sizes so uneven that a wrong order would show."""
    scale = DataScale(1e-6 * np.arange(1.0, 1.0 + n_columns), 1e12)
    opened = copy.deepcopy(started).set_params(**dict.fromkeys(started.names))  # every parameter None
    for kernel in (given.bind(None, n_columns).start(scale), opened.bind(None, n_columns).start(scale)):
        bounds = kernel.bounds(scale)
        if bounds.shape != (kernel.size, 2):
            fail(kernel, f"`bounds` has shape {bounds.shape}, but theta has {kernel.size} entries")
        if not ((bounds[:, 0] > 0) & (bounds[:, 0] < bounds[:, 1]) & np.isfinite(bounds[:, 1])).all():
            fail(kernel, f"`bounds` are not positive, finite and rising: {bounds.tolist()}")
        same(kernel, "`start` keeps the values that are known", kernel.start(scale).theta, kernel.theta)
    value, (low, high) = np.exp(kernel.theta), kernel.bounds(scale).T
    outside = [
        f"{name} = {v:.3g} not in [{a:.3g}, {b:.3g}]"
        for name, v, a, b in zip(kernel.names, value, low, high, strict=True)
        if not a <= v <= b
    ]
    if outside:
        fail(kernel, f"a start taken from the data lies outside `bounds`, or in another order: {', '.join(outside)}")


def _check_values(kernel: Kernel, X: np.ndarray, Z: np.ndarray) -> None:
    """A symmetric, positive semi-definite function with the diagonal that it says."""
    points = np.vstack([X, Z, X[:3]])  # three rows twice
    K = kernel(points, points)  # [n, n]
    if K.shape != (len(points), len(points)) or not np.isfinite(K).all():
        fail(kernel, f"k(X, X) of {len(points)} rows has shape {K.shape}, or an entry that is not finite")
    size = float(np.abs(K).max())
    same(kernel, "k(X, X) is symmetric", K, K.T, atol=1e-14 * size)
    same(kernel, "k(X, Z) is the transpose of k(Z, X)", kernel(X, Z), kernel(Z, X).T, atol=1e-14 * size)
    same(kernel, "k(X, Z) is a part of k(X, X)", kernel(X, Z), K[: len(X), len(X) : -3], atol=1e-13 * size)
    same(kernel, "k of one row and one row", kernel(X[:1], Z[:1]), K[:1, len(X)][:, None], atol=1e-13 * size)
    same(kernel, "k(X) is k(X, X)", kernel(points), K, rtol=0)
    same(kernel, "`value_and_pullback` has the value of the call", kernel.value_and_pullback(points, points)[0], K)
    same(kernel, "`diag(X)` is the diagonal of k(X, X)", kernel.diag(points), K.diagonal(), atol=1e-14 * size)
    # neighbours at equal steps show a covariance that is none better than random points do
    line = np.vstack([points, np.linspace(-3.0, 3.0, 31)[:, None] * np.ones(X.shape[1])])
    values = np.linalg.eigvalsh(kernel(line, line))
    if values[0] < -1e-12 * len(line) * values[-1]:
        fail(kernel, f"k(X, X) is positive semi-definite, but has the eigenvalues {values[0]:.3g} to {values[-1]:.3g}")


def _check_roles_and_units(kernel: Kernel, X: np.ndarray, Z: np.ndarray) -> None:
    """The parameters have the roles and the units that they say."""
    declared = kernel.flat_parameters(range(X.shape[1]))
    if len(declared) != kernel.size:
        fail(kernel, f"`flat_parameters` has {len(declared)} entries for the parameters {kernel.names}")

    def times(factors: list[float]) -> Kernel:
        return kernel.with_theta(kernel.theta + np.log(factors))

    K = kernel(X, Z)
    tripled, wide = times([3.0 ** (p.y_power / 2) for p in declared]), times([2.0**p.x_power for p in declared])
    same(kernel, "`units` of y: three times f's variance is three times the values", tripled(X, Z), 3 * K)
    same(kernel, "`units` of y: three times the diagonal", tripled.diag(X), 3 * kernel.diag(X))
    same(kernel, "`units` of x: other units of the inputs give the same values", wide(2 * X, 2 * Z), K, rtol=1e-10)
    amplitudes = [p.role == "amplitude" for p in declared]
    if any(amplitudes) and not kernel.children():
        scaled = times([3.0 if amplitude else 1.0 for amplitude in amplitudes])
        same(kernel, "the role `amplitude`: three times it is three times the values", scaled(X, Z), 3 * K)


def _check_use_of_arrays(kernel: Kernel, X: np.ndarray, Z: np.ndarray, rng: np.random.Generator) -> None:
    """The pullback leaves the value and K_bar as they are, and can be used again."""
    K, pullback = kernel.value_and_pullback(X, Z)
    K_bar = rng.standard_normal(K.shape)
    before, value = K_bar.copy(), K.copy()
    first = pullback(K_bar, with_X=True)
    same(kernel, "the pullback leaves K_bar as it is", K_bar, before, rtol=0)
    same(kernel, "the pullback leaves the value as it is", K, value, rtol=0)
    again = pullback(K_bar, with_X=True)
    for part, shape in (("theta", (kernel.size,)), ("Z", Z.shape), ("X", X.shape)):
        expected, actual = getattr(first, part), getattr(again, part)
        if expected is None or expected.shape != shape:
            fail(kernel, f"the gradient in {part} has shape {np.shape(expected)}, not {shape}")
        same(kernel, f"the gradient in {part} is the same at the second use", actual, expected, rtol=0)
    short = pullback(K_bar)
    same(kernel, "the gradient in theta needs no `with_X`", short.theta, first.theta, rtol=1e-10)
    same(kernel, "the gradient in Z needs no `with_X`", short.Z, first.Z, rtol=1e-10)


def _check_gradients(kernel: Kernel, X: np.ndarray, Z: np.ndarray, rng: np.random.Generator) -> None:
    """Each pullback against differences; at coincident points, where there may be a kink, finite."""
    theta, K_bar = kernel.theta, rng.standard_normal((len(X), len(Z)))
    Kuu_bar, k_bar = rng.standard_normal((len(Z), len(Z))), rng.standard_normal(len(X))

    def in_theta(rows: np.ndarray, bar: np.ndarray, t: np.ndarray) -> tuple[float, np.ndarray]:
        K, pullback = kernel.with_theta(t).value_and_pullback(rows, Z)
        return float(np.vdot(bar, K)), pullback(bar).theta

    def in_theta_of_diag(t: np.ndarray) -> tuple[float, np.ndarray]:
        moved = kernel.with_theta(t)
        return float(k_bar @ moved.diag(X)), moved.diag_pullback(X, k_bar)

    def in_X(x: np.ndarray) -> tuple[float, Any]:
        K, pullback = kernel.value_and_pullback(x, Z)
        return float(np.vdot(K_bar, K)), pullback(K_bar, with_X=True).X

    def in_Z(z: np.ndarray) -> tuple[float, Any]:
        K, pullback = kernel.value_and_pullback(X, z)
        return float(np.vdot(K_bar, K)), pullback(K_bar).Z

    def in_both(z: np.ndarray) -> tuple[float, Any]:  # as for Kuu, where a kink on the diagonal does not show
        K, pullback = kernel.value_and_pullback(z, z)
        gradient = pullback(Kuu_bar, with_X=True)
        return float(np.vdot(Kuu_bar, K)), gradient.Z + gradient.X

    claims: list[tuple[str, Callable[[np.ndarray], tuple[float, Any]], np.ndarray]] = [
        ("theta of k(X, Z)", partial(in_theta, X, K_bar), theta),
        ("theta of k(Z, Z)", partial(in_theta, Z, Kuu_bar), theta),
        ("theta of diag(X)", in_theta_of_diag, theta),
        ("X of k(X, Z)", in_X, X),
        ("Z of k(X, Z)", in_Z, Z),
        ("Z of k(Z, Z)", in_both, Z),
    ]
    for what, function, at in claims:
        _assert_gradient(kernel, what, function, at, rng)
    gradient = kernel.value_and_pullback(X, np.vstack([X, X[:2]]))[1](np.ones((len(X), len(X) + 2)), with_X=True)
    for name in ("theta", "Z", "X"):
        if not np.isfinite(getattr(gradient, name)).all():
            fail(kernel, f"the gradient in {name} is finite at coincident points, but holds {getattr(gradient, name)}")


def _check_pairs(kernel: Kernel, X: np.ndarray, Z: np.ndarray, rng: np.random.Generator) -> None:
    """Pairs of rows are the diagonal of all pairs, in value and gradient; more of them than a chunk has."""
    A, B = np.vstack([X, X]), np.vstack([Z, Z, X[: 2 * (len(X) - len(Z))]])  # [n, D] each
    K, pull_all = kernel.value_and_pullback(A, B)
    k, pullback = kernel.pairs(A, B)
    size, k_bar = np.abs(K).max(), rng.standard_normal(len(A))
    before, value = k_bar.copy(), k.copy()
    theta_bar = pullback(k_bar)
    same(kernel, "`pairs(X, Z)` is the diagonal of k(X, Z)", k, K.diagonal(), atol=1e-13 * size)
    same(kernel, "the pullback of `pairs` leaves the adjoint as it is", k_bar, before, rtol=0)
    same(kernel, "the pullback of `pairs` leaves the value as it is", k, value, rtol=0)
    same(kernel, "the pullback of `pairs` is the same at the second use", pullback(k_bar), theta_bar, rtol=0)
    expected = pull_all(np.diag(k_bar)).theta
    scale = np.abs(expected).max(initial=0.0)
    same(kernel, "the pullback of `pairs` is that of k(X, Z)", theta_bar, expected, rtol=1e-10, atol=1e-12 * scale)

    def in_theta(theta: np.ndarray) -> tuple[float, np.ndarray]:
        k, pullback = kernel.with_theta(theta).pairs(A, B)
        return float(k_bar @ k), pullback(k_bar)

    _assert_gradient(kernel, "theta of pairs(X, Z)", in_theta, kernel.theta, rng)
    own, pull_own = kernel.pairs(A, A)
    same(kernel, "`pairs(X, X)` is `diag(X)`", own, kernel.diag(A), rtol=1e-14, atol=1e-14 * size)
    expected = kernel.diag_pullback(A, k_bar)
    scale = np.abs(expected).max(initial=0.0)
    same(kernel, "the pullback of `pairs(X, X)` is that of `diag`", pull_own(k_bar), expected, atol=1e-12 * scale)
    none, pull_none = kernel.pairs(A[:0], B[:0])
    if none.shape != (0,) or pull_none(k_bar[:0]).any():
        fail(kernel, f"`pairs` of no rows has shape {none.shape}, or a gradient")


def _check_far_from_origin(kernel: Kernel, X: np.ndarray, Z: np.ndarray, rng: np.random.Generator) -> None:
    """A stationary kernel depends on differences: moving all points far away changes only the rounding."""
    K_bar = rng.standard_normal((len(X), len(Z)))
    K, pullback = kernel.value_and_pullback(X, Z)
    K_far, pullback_far = kernel.value_and_pullback(X + FAR, Z + FAR)
    near, far = pullback(K_bar, with_X=True), pullback_far(K_bar, with_X=True)
    same(kernel, f"k(X + s, Z + s) is k(X, Z), s = {FAR:.0f}", K_far, K, atol=1e-7 * np.abs(K).max())
    for name in ("theta", "Z", "X"):
        a, b = getattr(far, name), getattr(near, name)
        same(kernel, f"the gradient in {name} does not feel a shift by {FAR:.0f}", a, b, atol=1e-6 * np.abs(b).max())
    k, pull = kernel.pairs(X[: len(Z)], Z)
    k_far, pull_far = kernel.pairs(X[: len(Z)] + FAR, Z + FAR)
    same(kernel, f"`pairs` does not feel a shift by {FAR:.0f}", k_far, k, atol=1e-7 * np.abs(K).max())
    a, b = pull_far(k), pull(k)
    same(kernel, f"the pullback of `pairs` does not feel a shift by {FAR:.0f}", a, b, atol=1e-6 * np.abs(b).max())


def _assert_gradient(
    kernel: Kernel,
    what: str,
    function: Callable[[np.ndarray], tuple[float, Any]],
    at: np.ndarray,
    rng: np.random.Generator,
) -> None:
    try:
        assert_adjoint(function, at, rng)
    except AssertionError as error:
        raise AssertionError(f"{kernel!r}: gradient in {what}. {error}") from None
