"""Stationary kernels: k(x, z) = variance * rho(r2), r2 the squared distance in length-scale units.

A new kernel is its `rho` and `drho`. Values, diagonal, ARD, starts, bounds and all gradients follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from knotwise.docstrings import documented
from knotwise.kernels.base import (
    LENGTHSCALE,
    VARIANCE,
    ConstantDiagonal,
    DataScale,
    KernelGradient,
    fill,
    one_per_column,
)
from knotwise.numerics.linalg import scratch
from knotwise.numerics.parameters import Parameter

Lengthscale = float | Sequence[float] | np.ndarray | None
ColumnScales = str | Sequence[float] | np.ndarray | None
#: the range (8 nu)^1/2 / kappa of geostatistics is two length-scales: kappa is (2 nu)^1/2 / lengthscale here (H6)
RANGED_LENGTHSCALE = replace(LENGTHSCALE, range_factor=2.0)


#: what stationary kernels and their methods say of their arguments
ARGUMENTS = {
    "variance": (
        "float, optional",
        "Prior variance of the function, in the units of y squared. A number is where a fit starts; None "
        "takes it from the data.",
    ),
    "lengthscale": (
        "float or list of floats, optional",
        "A list has one length-scale per column (ARD), each in the units of its column; a number is one for "
        "all columns. Numbers are where a fit starts; None takes them from the data.",
    ),
    "ard": ("bool, default False", "Ask for one length-scale per column without giving values."),
    "column_scales": (
        '"standard", list of floats or None, default None',
        'What length-scales count in: None for the units of the columns, "standard" for the standard '
        "deviation of each column in the fit, or a number for each column. A fit with one length-scale for "
        "columns of different scale ends with the scales of its columns here.",
    ),
    "r2": ("array", "Squared distances in length-scale units."),
    "K": ("array", "Values of the kernel there."),
}


@documented(ARGUMENTS)
class Stationary(ConstantDiagonal):
    """Base of kernels that depend on the distance in length-scale units.

    Examples
    --------
    A kernel of one's own is its correlation as a function of the squared distance, and the derivative:

    >>> import numpy as np
    >>> from knotwise.kernels import Stationary
    >>> class Cauchy(Stationary):
    ...     def rho(self, r2):
    ...         return 1 / (1 + r2)
    ...
    ...     def drho(self, r2):
    ...         return -1 / (1 + r2) ** 2
    >>> kernel = Cauchy(variance=3.0, lengthscale=1.0)
    >>> kernel([[0.0]], [[2.0]]).round(3).tolist()
    [[0.6]]
    >>> kernel.rho(np.array([4.0])).tolist(), kernel.drho(np.array([1.0])).tolist()
    ([0.2], [-0.25])
    >>> slope, factor = kernel.slope(np.array([1.0]), np.array([1.5]))
    >>> (factor * slope).tolist(), kernel.shape_slopes(np.array([1.0]), np.array([1.5]))
    ([-0.75], [])
    """

    parameters: ClassVar[tuple[Parameter, ...]] = (VARIANCE, LENGTHSCALE)
    #: whether r2 may come from one matrix product; a kernel that takes its square root near 0 may not
    distances_by_product: ClassVar[bool] = True

    takes_column_scales = True
    stationary = True

    def __init__(
        self,
        variance: float | None = None,
        lengthscale: Lengthscale = None,
        ard: bool = False,
        column_scales: ColumnScales = None,
    ) -> None:
        self.variance = variance
        self.lengthscale = lengthscale
        self.ard = ard
        self.column_scales = column_scales
        self.validate()

    def rho(self, r2: np.ndarray) -> np.ndarray:
        """Correlation as a function of the squared scaled distance.

        Returns
        -------
        array
            Of the same shape, a new one; 1 at distance 0.
        """
        raise NotImplementedError(f"{type(self).__name__} must define `rho`.")

    def drho(self, r2: np.ndarray) -> np.ndarray:
        """Derivative of rho with respect to the squared scaled distance, finite at 0.

        Returns
        -------
        array
            Of the same shape; not positive where the correlation falls.
        """
        raise NotImplementedError(f"{type(self).__name__} must define `drho`.")

    def slope(self, r2: np.ndarray, K: np.ndarray) -> tuple[np.ndarray, float]:
        """dk / dr2 as an array and a factor; one who can express it by the value k itself saves a pass.

        Returns
        -------
        slope : array
            Of the same shape.
        factor : float
            What it is to be multiplied with.
        """
        return self.drho(r2), self.value("variance")

    def shape_slopes(self, r2: np.ndarray, K: np.ndarray) -> list[np.ndarray]:
        """dk / d log of each further parameter, in the order of `parameters` (none for most kernels).

        Returns
        -------
        list of array
            One array for each parameter after variance and length-scale.
        """
        return []

    def value_and_pullback(self, X, Z):
        ell = self._lengths()
        centre = Z.sum(0) / len(Z)  # distances of data far from the origin would cancel
        D = X.shape[1]
        Zs = (Z - centre) / ell
        F = np.empty((len(X), 2 * D + 1), order="F")  # the rows' features [x, x^2, 1]               (S15)
        Xs = F[:, :D]
        np.subtract(X, centre, out=Xs)
        Xs /= ell
        np.multiply(Xs, Xs, out=F[:, D:-1])
        F[:, -1] = 1.0
        r2, K = self._values(F, Zs)

        def pullback(K_bar: np.ndarray, with_X: bool = False) -> KernelGradient:
            slope, factor = self.slope(r2, K)
            factor *= 2.0
            H = np.multiply(slope, K_bar, out=scratch("H", slope.shape))
            T = H.T @ F  # [K, 2 D + 1]
            variance_bar = T[:, -1].sum() if slope is K else np.vdot(K_bar, K)
            T *= factor
            HX, HX2, Hs = T[:, :D], T[:, D:-1], T[:, -1:]
            Z_bar = (Hs * Zs - HX) / ell
            # sum over pairs of H (x - z)^2, column by column
            lengthscale_bar = -(HX2.sum(0) + (Zs * (Hs * Zs - 2 * HX)).sum(0))
            theta_bar = np.concatenate(
                [
                    [variance_bar],
                    self._per_entry("lengthscale", lengthscale_bar),
                    [np.vdot(K_bar, own) for own in self.shape_slopes(r2, K)],
                ]
            )
            X_bar = None
            if with_X:
                H *= factor
                X_bar = (H.sum(1)[:, None] * Xs - H @ Zs) / ell
            return KernelGradient(theta_bar, Z_bar, X_bar)

        return K, pullback

    def pairs(self, X, Z):
        ell = self._lengths()
        weights = np.broadcast_to(ell**-2.0, X.shape[1:])
        squares = X - Z  # [n, D]
        squares *= squares
        r2 = squares @ weights
        k = self.rho(r2)
        k *= self.value("variance")

        def pullback(k_bar: np.ndarray) -> np.ndarray:
            slope, factor = self.slope(r2, k)
            lengthscale_bar = -2.0 * factor * weights * ((slope * k_bar) @ squares)
            return np.concatenate(
                [
                    [k_bar @ k],
                    self._per_entry("lengthscale", lengthscale_bar),
                    [k_bar @ own for own in self.shape_slopes(r2, k)],
                ]
            )

        return k, pullback

    def own_coordinates(self, X):
        return X / self._lengths()

    def _lengths(self) -> np.ndarray:
        """Length-scales in the units of the columns: one number, or one for each column."""
        ell = self._per_column("lengthscale")
        return ell if self.column_scales is None else ell * self._per_column("column_scales")

    def _values(self, F: np.ndarray, Zs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Squared distances and values of the kernel, from the features of rows and the scaled knots."""
        if self.distances_by_product:
            r2 = (distance_features(Zs) @ F.T).T
            np.maximum(r2, 0.0, out=r2)  # rounding can push it below 0 at coincident points
        else:
            r2 = np.zeros((len(F), len(Zs)), order="F")
            for d in range(Zs.shape[1]):
                difference = np.subtract.outer(Zs[:, d], F[:, d]).T
                difference *= difference
                r2 += difference
        K = self.rho(r2)
        K *= self.value("variance")
        return r2, K

    def bind(self, columns, n_columns):
        return one_per_column(self, "lengthscale", n_columns, columns)

    def start(self, scale: DataScale):
        spread = self._group_spread(scale.spread)
        return self.with_values(
            variance=scale.variance if self.variance is None else self.variance,
            lengthscale=fill(self.lengthscale, np.sqrt(len(spread)) * spread),
        )

    def bounds(self, scale: DataScale) -> np.ndarray:
        spread = self._group_spread(scale.spread)
        spread = spread if np.ndim(self.value("lengthscale")) else np.array([spread.mean()])
        return np.vstack(
            [scale.variance_bounds, np.outer(spread, [1e-3, 1e3])]
            + [np.array(further.bounds or (1e-2, 1e3)) for further in self.parameters[2:]]
        )


def distance_features(Zs: np.ndarray) -> np.ndarray:
    """The knots' features [-2 z, 1, |z|^2]: their products with a row's [x, x^2, 1] are squared distances  (S15)."""
    D = Zs.shape[1]
    M = np.ones((len(Zs), 2 * D + 1))
    np.multiply(Zs, -2.0, out=M[:, :D])
    M[:, -1] = np.einsum("kd,kd->k", Zs, Zs)
    return M


@documented(ARGUMENTS)
class SquaredExponential(Stationary):
    r"""Squared exponential (Gaussian, RBF) kernel: infinitely smooth paths.

    .. math:: \rho(r^2) = e^{-r^2/2}

    Examples
    --------
    >>> from knotwise.kernels import SquaredExponential
    >>> SquaredExponential(variance=2.0, lengthscale=1.0)([[0.0]], [[1.0]]).round(3).tolist()
    [[1.213]]
    """

    parameters = (VARIANCE, RANGED_LENGTHSCALE)

    def rho(self, r2):
        return np.exp(-0.5 * r2)

    def drho(self, r2):
        return -0.5 * self.rho(r2)

    def slope(self, r2, K):
        return K, -0.5

    def _values(self, F, Zs):  # -r2 / 2 is one product, worked on in place; nothing else needs r2
        K = (-0.5 * distance_features(Zs) @ F.T).T
        np.exp(K, out=K)
        K *= self.value("variance")
        return K, K


@documented(ARGUMENTS)
class Matern12(Stationary):
    r"""Matern kernel with smoothness 1/2 (exponential): continuous, rough paths.

    .. math:: \rho(r^2) = e^{-r}

    Examples
    --------
    >>> from knotwise.kernels import Matern12
    >>> Matern12(variance=2.0, lengthscale=1.0)([[0.0]], [[1.0]]).round(3).tolist()
    [[0.736]]
    """

    parameters = (VARIANCE, RANGED_LENGTHSCALE)
    distances_by_product = False  # the square root would turn a rounding of 1e-16 into 1e-8

    def rho(self, r2):
        return np.exp(-np.sqrt(r2))

    def drho(self, r2):  # the kernel has a kink at r = 0, where 0 is a subgradient
        r = np.sqrt(r2)
        return np.where(r > 0, -0.5 * np.exp(-r) / np.maximum(r, 1e-8), 0.0)


@documented(ARGUMENTS)
class Matern32(Stationary):
    r"""Matern kernel with smoothness 3/2: once-differentiable paths.

    .. math:: \rho(r^2) = (1 + \sqrt{3}\,r)\,e^{-\sqrt{3}\,r}

    Examples
    --------
    >>> from knotwise.kernels import Matern32
    >>> Matern32(variance=2.0, lengthscale=1.0)([[0.0]], [[1.0]]).round(3).tolist()
    [[0.967]]
    """

    parameters = (VARIANCE, RANGED_LENGTHSCALE)

    def rho(self, r2):
        s = np.sqrt(3 * r2)
        return (1 + s) * np.exp(-s)

    def drho(self, r2):  # closed form: the chain rule through r is 0/0 at r = 0
        return -1.5 * np.exp(-np.sqrt(3 * r2))


@documented(ARGUMENTS)
class Matern52(Stationary):
    r"""Matern kernel with smoothness 5/2: twice-differentiable paths.

    .. math:: \rho(r^2) = (1 + \sqrt{5}\,r + 5 r^2/3)\,e^{-\sqrt{5}\,r}

    Examples
    --------
    >>> from knotwise.kernels import Matern52
    >>> Matern52(variance=2.0, lengthscale=1.0)([[0.0]], [[1.0]]).round(3).tolist()
    [[1.048]]
    """

    parameters = (VARIANCE, RANGED_LENGTHSCALE)

    def rho(self, r2):
        s = np.sqrt(5 * r2)
        return (1 + s + s * s / 3) * np.exp(-s)

    def drho(self, r2):
        s = np.sqrt(5 * r2)
        return -5 / 6 * (1 + s) * np.exp(-s)


@documented(ARGUMENTS)
class RationalQuadratic(Stationary):
    r"""Rational quadratic kernel: a mixture of squared exponentials of many length-scales.

    .. math:: \rho(r^2) = \left(1 + \frac{r^2}{2\,\mathrm{shape}}\right)^{-\mathrm{shape}}

    Parameters
    ----------
    shape : float, optional
        The larger, the nearer to a squared exponential of one length-scale. A number is where a fit starts; None takes
        it from the data.

    Examples
    --------
    >>> from knotwise.kernels import RationalQuadratic
    >>> RationalQuadratic(variance=2.0, lengthscale=1.0, shape=1.0)([[0.0]], [[1.0]]).round(3).tolist()
    [[1.333]]
    """

    parameters = (VARIANCE, LENGTHSCALE, Parameter("shape", role="shape", bounds=(1e-2, 1e3)))

    def __init__(
        self,
        variance: float | None = None,
        lengthscale: Lengthscale = None,
        shape: float | None = None,
        ard: bool = False,
        column_scales: ColumnScales = None,
    ) -> None:
        self.shape = shape
        super().__init__(variance, lengthscale, ard, column_scales)

    def rho(self, r2):
        shape = self.value("shape")
        return np.exp(-shape * np.log1p(r2 / (2 * shape)))

    def drho(self, r2):
        shape = self.value("shape")
        return -0.5 * np.exp(-(shape + 1) * np.log1p(r2 / (2 * shape)))

    def shape_slopes(self, r2, K):
        shape = self.value("shape")
        u = r2 / (2 * shape)
        return [shape * K * (u / (1 + u) - np.log1p(u))]

    def start(self, scale):
        return super().start(scale).with_values(shape=1.0 if self.shape is None else self.shape)
