"""Kernels that are not functions of a scaled distance: constant, linear, periodic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from knotwise.errors import InvalidInputError
from knotwise.kernels.base import LENGTHSCALE, VARIANCE, ConstantDiagonal, Kernel, KernelGradient, fill, one_per_column
from knotwise.kernels.stationary import ColumnScales, Lengthscale, SquaredExponential
from knotwise.numerics.parameters import Parameter


class Constant(ConstantDiagonal):
    r"""Constant kernel: one unknown level.

    .. math:: k(x, z) = \mathrm{variance}

    Parameters
    ----------
    variance : float, optional
        Prior variance of the level, in the units of y squared. A number is where a fit starts; None takes it from the
        data.

    Examples
    --------
    >>> from knotwise.kernels import Constant, Periodic
    >>> (Constant(3.0) + Periodic(1.0, 1.0, period=2.0))([[0.0]], [[2.0]]).round(3).tolist()
    [[4.0]]
    """

    sees_inputs = False
    stationary = True
    parameters = (VARIANCE,)

    def __init__(self, variance: float | None = None) -> None:
        self.variance = variance
        self.validate()

    def value_and_pullback(self, X, Z):
        variance = self.value("variance")

        def pullback(K_bar, with_X=False):
            return KernelGradient(
                np.array([variance * K_bar.sum()]), np.zeros_like(Z), np.zeros_like(X) if with_X else None
            )

        return np.full((len(X), len(Z)), variance, order="F"), pullback

    def pairs(self, X, Z):
        variance = self.value("variance")
        return np.full(len(X), variance), lambda k_bar: np.array([variance * k_bar.sum()])

    def own_coordinates(self, X):
        return X[:, :0]

    def start(self, scale):
        return self.with_values(variance=scale.variance if self.variance is None else self.variance)

    def bounds(self, scale):
        return scale.variance_bounds[None]


class Linear(Kernel):
    r"""Linear kernel: a random hyperplane through a centre (a list of variances is one per column).

    .. math:: k(x, z) = \sum_j \mathrm{variance}_j\, (x_j - \mathrm{centre}_j) (z_j - \mathrm{centre}_j)
        / \mathrm{column\_scale}_j^2

    Parameters
    ----------
    variance : float or list of floats, optional
        Prior variance of the slope, in the units of y squared over those of the column squared: one for all columns, or
        a list with one per column. Numbers are where a fit starts; None takes them from the data.
    ard : bool, default False
        Ask for one variance per column without giving values.
    column_scales : "standard", list of floats or None, default None
        What a slope is measured along: None for 1 in the units of each column, "standard" for the standard deviation of
        each column in the fit, or a number for each column. A fit with one variance for columns of different scale ends
        with the scales of its columns here.
    centre : list of floats, optional
        Where the function is 0, a number for each column, which is held. None is the mean of each column in a fit that
        standardises, and 0 elsewhere; a fitted `kernel_` has it here.

    Examples
    --------
    >>> from knotwise.kernels import Linear
    >>> Linear(variance=[1.0, 0.5])([[2.0, 2.0]], [[3.0, 1.0]]).tolist()
    [[7.0]]
    """

    parameters = (replace(VARIANCE, units="y^2/x^2", per_column=True),)

    takes_column_scales = True
    takes_centre = True

    def __init__(
        self,
        variance: float | Sequence[float] | None = None,
        ard: bool = False,
        column_scales: ColumnScales = None,
        centre: Sequence[float] | np.ndarray | None = None,
    ) -> None:
        self.variance = variance
        self.ard = ard
        self.column_scales = column_scales
        self.centre = centre
        self.validate()

    def validate(self) -> None:
        super().validate()
        try:
            centre = np.zeros(1) if self.centre is None else np.asarray(self.centre, float)
        except (TypeError, ValueError):
            centre = np.array(np.nan)
        if centre.ndim != 1 or not np.isfinite(centre).all():
            raise InvalidInputError(
                f"`centre` of Linear is {self.centre!r}; it must be a list with a finite number for each column, or "
                "None."
            )

    def _slopes(self) -> np.ndarray:
        """Variances of slopes in the units of the columns: one number, or one for each column."""
        variance = self._per_column("variance")
        return variance if self.column_scales is None else variance / self._per_column("column_scales") ** 2

    def _centred(self, X: np.ndarray) -> np.ndarray:
        return X if self.centre is None else X - self._per_column("centre")

    def value_and_pullback(self, X, Z):
        variance = self._slopes()
        X, Z = self._centred(X), self._centred(Z)

        def pullback(K_bar, with_X=False):
            T = K_bar.T @ X  # [K, D]
            theta_bar = (T * Z).sum(0) * variance
            return KernelGradient(
                self._per_entry("variance", theta_bar), T * variance, (K_bar @ Z) * variance if with_X else None
            )

        return (Z @ (X * variance).T).T, pullback

    def pairs(self, X, Z):
        variance = self._slopes()
        products = self._centred(X) * self._centred(Z)  # [n, D]

        def pullback(k_bar):
            theta_bar = (k_bar @ products) * variance
            return self._per_entry("variance", theta_bar)

        return products @ np.broadcast_to(variance, X.shape[1:]), pullback

    def own_coordinates(self, X):
        return X[:, :0]  # far rows are as correlated as near ones

    def diag(self, X):
        return self.pairs(X, X)[0]

    def diag_pullback(self, X, k_bar):
        return self.pairs(X, X)[1](k_bar)

    def bind(self, columns, n_columns):
        bound = one_per_column(self, "variance", n_columns, columns)
        n_entries = len(bound.column_groups(range(n_columns)))
        if self.centre is not None and len(self.centre) != n_entries:
            raise InvalidInputError(
                f"`centre` of Linear has {len(self.centre)} entries, but the kernel sees {n_entries} columns. Give one "
                "per column, or restrict the kernel with `.on(columns)`."
            )
        return bound

    def _typical(self, scale):
        """Variances that give the sum the variance of the data: one per column, or one for all."""
        if np.ndim(self.value("variance")):
            spread = self._group_spread(scale.spread)
            return scale.variance / (len(spread) * spread**2)
        return np.array([scale.variance / (self._group_spread(scale.spread) ** 2).sum()])

    def start(self, scale):
        return self.with_values(variance=fill(self.variance, self._typical(scale)))

    def bounds(self, scale):
        return np.outer(self._typical(scale), [1e-8, scale.largest])


class Periodic(ConstantDiagonal):
    r"""Periodic kernel: functions that repeat themselves exactly.

    .. math:: k(x, z) = \mathrm{variance}\,\exp\Big(-2 \sum_j \sin^2(\pi (x_j - z_j)/\mathrm{period})
        / \mathrm{lengthscale}_j^2\Big)

    It is the squared exponential of the points (cos, sin)(2 pi x / period) on the circle. The period is in the units of
    its column, `Periodic(period=12).on("month")`; several columns share one only if they have one scale
    (`standardize="common"` or False). Length-scales are in radii of the circle.

    Parameters
    ----------
    variance : float, optional
        Prior variance of the function, in the units of y squared. A number is where a fit starts; None takes it from
        the data.
    lengthscale : float or list of floats, optional
        In radii of the circle: a number for all columns, or a list with one per column (ARD). Numbers are where a fit
        starts; None takes them from the data.
    period : float, optional
        After how much the function repeats itself. A number is held: a period that is free has many local maxima.
        It is where a fit starts if `bounds` or `priors` of the estimator name it, as `bounds={"period": (11, 13)}`
        does. None takes it from the data, and learns it.
    ard : bool, default False
        Ask for one length-scale per column without giving values.

    Examples
    --------
    >>> from knotwise.kernels import Periodic
    >>> Periodic(variance=2.0, lengthscale=1.0, period=12.0)([[1.0]], [[13.0], [7.0]]).round(3).tolist()
    [[2.0, 0.271]]
    """

    periodic = True
    stationary = True
    parameters = (
        VARIANCE,
        replace(LENGTHSCALE, units="none", bounds=(1e-2, 1e2)),  # in radii of the circle
        Parameter("period", units="x", held_if_given=True),
    )

    def __init__(
        self,
        variance: float | None = None,
        lengthscale: Lengthscale = None,
        period: float | None = None,
        ard: bool = False,
    ) -> None:
        self.variance = variance
        self.lengthscale = lengthscale
        self.period = period
        self.ard = ard
        self.validate()

    def value_and_pullback(self, X, Z):
        ell = self._per_column("lengthscale")
        D = X.shape[1]
        circle = SquaredExponential(self.value("variance"), np.concatenate([ell, ell]) if ell.ndim else float(ell))
        X_angle, Z_angle = (2 * np.pi / self.value("period") * points for points in (X, Z))
        U, W = (np.hstack([np.cos(angle), np.sin(angle)]) for angle in (X_angle, Z_angle))
        value, pull = circle.value_and_pullback(U, W)

        def to_angle(points, points_bar):
            return points[:, :D] * points_bar[:, D:] - points[:, D:] * points_bar[:, :D]

        def pullback(K_bar, with_X=False):
            inner = pull(K_bar, with_X=True)
            X_angle_bar, Z_angle_bar = to_angle(U, inner.X), to_angle(W, inner.Z)
            per_column = inner.theta[1:]
            theta_bar = np.concatenate(
                [
                    inner.theta[:1],
                    self._per_entry("lengthscale", per_column[:D] + per_column[D:]) if ell.ndim else per_column,
                    [-(X_angle * X_angle_bar).sum() - (Z_angle * Z_angle_bar).sum()],
                ]
            )
            speed = 2 * np.pi / self.value("period")
            return KernelGradient(theta_bar, speed * Z_angle_bar, speed * X_angle_bar if with_X else None)

        return value, pullback

    def pairs(self, X, Z):
        ell = self._per_column("lengthscale")
        weights = np.broadcast_to(ell**-2.0, X.shape[1:])
        angle = (X - Z) * (np.pi / self.value("period"))  # [n, D]
        sine = np.sin(angle)
        squares = sine * sine
        k = self.value("variance") * np.exp(-2.0 * (squares @ weights))

        def pullback(k_bar):
            h = 4.0 * k_bar * k
            lengthscale_bar = weights * (h @ squares)
            period_bar = weights @ (h @ (angle * sine * np.cos(angle)))
            return np.concatenate([[k_bar @ k], self._per_entry("lengthscale", lengthscale_bar), [period_bar]])

        return k, pullback

    def own_coordinates(self, X):
        angle = X * (2 * np.pi / self.value("period"))
        return np.hstack([np.cos(angle), np.sin(angle)]) / np.tile(
            np.broadcast_to(self._per_column("lengthscale"), X.shape[1]), 2
        )

    def bind(self, columns, n_columns):
        return one_per_column(self, "lengthscale", n_columns, columns)

    def start(self, scale):
        return self.with_values(
            variance=scale.variance if self.variance is None else self.variance,
            # in radii of the circle, whatever the units of the inputs
            lengthscale=fill(self.lengthscale, np.ones(len(self._group_spread(scale.spread)))),
            period=float(scale.spread.mean()) if self.period is None else self.period,
        )

    def bounds(self, scale):
        n_lengthscales = np.size(self.value("lengthscale"))
        return np.vstack(
            [scale.variance_bounds]
            + [self.parameters[1].bounds] * n_lengthscales
            + [scale.spread.mean() * np.array([1e-2, 1e2])]
        )
