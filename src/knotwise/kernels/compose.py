"""Kernels made of kernels: sums, products, and kernels that see some of the columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from knotwise.errors import InvalidInputError
from knotwise.kernels.base import DataScale, Kernel, KernelGradient, made_by
from knotwise.numerics.columns import InputColumns, as_list_of_columns, column_indices


class Pair(Kernel):
    """Two kernels under one operation; parameters are named `k1__...` and `k2__...`."""

    def __init__(self, k1: Kernel, k2: Kernel) -> None:
        for k in (k1, k2):
            if not isinstance(k, Kernel):
                raise InvalidInputError(f"A {type(self).__name__} is made of two kernels, but got {k!r}.")
        self.k1 = k1
        self.k2 = k2

    def children(self):
        return {"k1": self.k1, "k2": self.k2}

    @property
    def stationary(self) -> bool:
        return self.k1.stationary and self.k2.stationary

    @property
    def n_leaves(self) -> int:
        return self.k1.n_leaves + self.k2.n_leaves

    def bind(self, columns, n_columns):
        return type(self)(self.k1.bind(columns, n_columns), self.k2.bind(columns, n_columns))

    def bounds(self, scale):
        return np.vstack([self.k1.bounds(scale), self.k2.bounds(scale)])

    def own_coordinates(self, X):
        return np.hstack([self.k1.own_coordinates(X), self.k2.own_coordinates(X)])


@made_by("+")
class Sum(Pair):
    """The sum of two kernels: the covariance of the sum of two independent functions.

    Written `k1 + k2`. Parameters are named `k1__variance`, `k2__variance` and so on.

    Parameters
    ----------
    k1 : Kernel
        The first kernel.
    k2 : Kernel
        The second kernel.

    Examples
    --------
    >>> from knotwise.kernels import Linear, SquaredExponential
    >>> kernel = SquaredExponential(1.0, 1.0) + Linear(2.0)
    >>> kernel([[1.0]], [[1.0]]).tolist(), kernel.names
    ([[3.0]], ['k1__variance', 'k1__lengthscale', 'k2__variance'])
    """

    def value_and_pullback(self, X, Z):
        A, pull_A = self.k1.value_and_pullback(X, Z)
        B, pull_B = self.k2.value_and_pullback(X, Z)

        def pullback(K_bar, with_X=False):
            return _join(pull_A(K_bar, with_X), pull_B(K_bar, with_X))

        return A + B, pullback

    def pairs(self, X, Z):
        a, pull_a = self.k1.pairs(X, Z)
        b, pull_b = self.k2.pairs(X, Z)
        return a + b, lambda k_bar: np.concatenate([pull_a(k_bar), pull_b(k_bar)])

    def diag(self, X):
        return self.k1.diag(X) + self.k2.diag(X)

    def diag_pullback(self, X, k_bar):
        return np.concatenate([self.k1.diag_pullback(X, k_bar), self.k2.diag_pullback(X, k_bar)])

    def coordinates_by_columns(self, X):
        parts = self.k1.coordinates_by_columns(X)
        for columns, points in self.k2.coordinates_by_columns(X).items():
            parts[columns] = np.hstack([parts[columns], points]) if columns in parts else points
        return parts

    @property
    def n_terms(self) -> int:
        return self.k1.n_terms + self.k2.n_terms

    def start(self, scale):  # each term has the same share of the variance
        parts = [replace(scale, variance=scale.variance * k.n_terms / self.n_terms) for k in (self.k1, self.k2)]
        return Sum(self.k1.start(parts[0]), self.k2.start(parts[1]))


@made_by("*")
class Product(Pair):
    """The product of two kernels; only the product of their variances matters, so hold one of them.

    Written `k1 * k2`. Parameters are named `k1__variance`, `k2__variance` and so on.

    Parameters
    ----------
    k1 : Kernel
        The first kernel, which has the units of y.
    k2 : Kernel
        The second kernel, without units.

    Examples
    --------
    >>> from knotwise import GPRegressor
    >>> from knotwise.kernels import Periodic, SquaredExponential
    >>> kernel = SquaredExponential() * Periodic(variance=1.0, period=12.0)
    >>> gp = GPRegressor(kernel, fixed=["k2__variance"])  # a season of 12 that changes slowly
    """

    def value_and_pullback(self, X, Z):
        A, pull_A = self.k1.value_and_pullback(X, Z)
        B, pull_B = self.k2.value_and_pullback(X, Z)

        def pullback(K_bar, with_X=False):
            return _join(pull_A(K_bar * B, with_X), pull_B(K_bar * A, with_X))

        return A * B, pullback

    def pairs(self, X, Z):
        a, pull_a = self.k1.pairs(X, Z)
        b, pull_b = self.k2.pairs(X, Z)
        return a * b, lambda k_bar: np.concatenate([pull_a(k_bar * b), pull_b(k_bar * a)])

    def diag(self, X):
        return self.k1.diag(X) * self.k2.diag(X)

    def diag_pullback(self, X, k_bar):
        return np.concatenate(
            [self.k1.diag_pullback(X, k_bar * self.k2.diag(X)), self.k2.diag_pullback(X, k_bar * self.k1.diag(X))]
        )

    def coordinates_by_columns(self, X):
        parts, others = self.k1.coordinates_by_columns(X), self.k2.coordinates_by_columns(X)
        if not (parts and others):
            return parts or others
        product: dict[frozenset[int], np.ndarray] = {}
        for columns, points in parts.items():  # (a + b) c is a c + b c
            for more, beside in others.items():
                key, both = columns | more, np.hstack([points, beside])
                product[key] = np.hstack([product[key], both]) if key in product else both
        return product

    def start(self, scale):
        return Product(self.k1.start(scale), self.k2.start(replace(scale, variance=1.0)))

    def bounds(self, scale):
        return np.vstack([self.k1.bounds(scale), self.k2.bounds(replace(scale, variance=1.0))])

    def flat_parameters(self, columns=()):
        # the product has the units of one factor: the first
        return self.k1.flat_parameters(columns) + [p.without_y() for p in self.k2.flat_parameters(columns)]


@made_by("on")
class OnColumns(Kernel):
    """A kernel that sees some columns of the inputs only.

    Written `kernel.on(columns)`.

    Parameters
    ----------
    kernel : Kernel
        The kernel for these columns.
    columns : list of int or str, int or str
        The columns by number, or by name for data frames; the circle of a period by its own name, "when (year)".

    Examples
    --------
    >>> from knotwise.kernels import Matern32, SquaredExponential
    >>> kernel = SquaredExponential(1.0, 1.0).on([0, 1]) + Matern32(1.0, 1.0).on([2])
    >>> kernel([[0.0, 0.0, 0.0]], [[0.0, 0.0, 5.0]]).round(3).tolist()
    [[1.002]]
    >>> kernel.k1.indices()
    [0, 1]
    """

    def __init__(self, kernel: Kernel, columns: Sequence[int | str] | int | str) -> None:
        self.kernel = kernel
        self.columns = columns

    def children(self):
        return {"kernel": self.kernel}

    @property
    def stationary(self) -> bool:
        return self.kernel.stationary

    @property
    def restricted_to(self) -> list[int | str]:
        return as_list_of_columns(self.columns)

    @property
    def unrestricted(self) -> Kernel:
        return self.kernel

    @property
    def n_leaves(self) -> int:
        return self.kernel.n_leaves

    @property
    def n_terms(self) -> int:
        return self.kernel.n_terms

    def indices(self) -> list[int]:
        """The columns by number; names are known only after `bind`.

        Returns
        -------
        list of int
            In the order in which they were given.
        """
        columns = as_list_of_columns(self.columns)
        if any(isinstance(column, str) for column in columns):
            raise InvalidInputError(
                f"Columns {columns} are names; they are resolved in a fit on a data frame. Use indices here."
            )
        return [int(column) for column in columns]

    def bind(self, columns, n_columns):
        if not as_list_of_columns(self.columns):
            raise InvalidInputError("A kernel on columns needs at least one column, but `columns` is empty.")
        encoded = isinstance(columns, InputColumns)
        if self.groups is not None and (len(self.groups) != n_columns or (encoded and columns.groups != self.groups)):
            raise InvalidInputError("The kernel is that of a fit to other columns. Make it anew, by names of columns.")
        names = None if self.groups is not None else columns  # it has the engine's columns already
        indices = column_indices(self.columns, names, n_columns, owner="the kernel")
        inner: Sequence[str] | None = None
        if columns is not None:  # names may be an array
            inner = columns.take(indices) if encoded else [columns[i] for i in indices]
        bound = OnColumns(self.kernel.bind(inner, len(indices)), indices)
        groups = columns.groups if encoded else self.groups
        return bound if groups is None else bound.with_values(groups=groups)

    def value_and_pullback(self, X, Z):
        columns = self.indices()
        value, pull = self.kernel.value_and_pullback(X[:, columns], Z[:, columns])

        def pullback(K_bar, with_X=False):
            inner = pull(K_bar, with_X)
            return KernelGradient(
                inner.theta,
                _scatter(inner.Z, columns, Z.shape[1]),
                None if inner.X is None else _scatter(inner.X, columns, X.shape[1]),
            )

        return value, pullback

    def pairs(self, X, Z):
        columns = self.indices()
        return self.kernel.pairs(X[:, columns], Z[:, columns])

    def own_coordinates(self, X):
        return self.kernel.own_coordinates(X[:, self.indices()])

    def coordinates_by_columns(self, X):
        indices = self.indices()
        inner = self.kernel.coordinates_by_columns(X[:, indices])
        return {frozenset(indices[i] for i in columns): points for columns, points in inner.items()}

    def diag(self, X):
        return self.kernel.diag(X[:, self.indices()])

    def diag_pullback(self, X, k_bar):
        return self.kernel.diag_pullback(X[:, self.indices()], k_bar)

    def start(self, scale):
        return self.with_values(kernel=self.kernel.start(self._seen(scale)))

    def bounds(self, scale):
        return self.kernel.bounds(self._seen(scale))

    def flat_parameters(self, columns=()):
        return self.kernel.flat_parameters([columns[i] for i in self.indices()])

    def map_leaves(self, change, columns):
        return self.with_values(kernel=self.kernel.map_leaves(change, [columns[i] for i in self.indices()]))

    def _seen(self, scale: DataScale) -> DataScale:
        return replace(scale, spread=scale.spread[self.indices()])


def _join(a: KernelGradient, b: KernelGradient) -> KernelGradient:
    X = None if a.X is None or b.X is None else a.X + b.X
    return KernelGradient(np.concatenate([a.theta, b.theta]), a.Z + b.Z, X)


def _scatter(inner: np.ndarray, columns: list[int], n_columns: int) -> np.ndarray:
    outer = np.zeros((len(inner), n_columns))
    for position, column in enumerate(columns):  # a column may be named twice
        outer[:, column] += inner[:, position]
    return outer
