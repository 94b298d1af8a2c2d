"""What a kernel is: values, diagonal, and the pullback of gradients to parameters and points."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from knotwise.docstrings import documented
from knotwise.errors import InvalidInputError
from knotwise.numerics.columns import InputColumns
from knotwise.numerics.parameters import Parameter
from knotwise.numerics.part import Part

if TYPE_CHECKING:
    from knotwise.kernels.compose import OnColumns, Product, Sum

K = TypeVar("K", bound="Kernel")

#: parameters that many kernels have
VARIANCE = Parameter("variance", role="amplitude", units="y^2")
LENGTHSCALE = Parameter("lengthscale", role="lengthscale", units="x", per_column=True)

#: what methods of kernels say of their arguments
ARGUMENTS = {
    "X": ("array [N, D]", "Rows of inputs, as the kernel sees them."),
    "scale": ("DataScale", "Spread of the columns that the kernel sees, and variance of the function."),
}


@dataclass(frozen=True)
class KernelGradient:
    """Gradient of a scalar with respect to all that a block of kernel values depends on.

    Attributes
    ----------
    theta : array [P]
        With respect to the kernel's theta.
    Z : array [K, D]
        With respect to the second argument of the kernel.
    X : array [N, D] or None
        With respect to the first argument; None if it was not asked for.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise.kernels import SquaredExponential
    >>> X, Z = np.array([[0.0], [1.0]]), np.array([[0.5]])
    >>> K, pullback = SquaredExponential(variance=1.0, lengthscale=1.0).value_and_pullback(X, Z)
    >>> gradient = pullback(np.ones_like(K))  # of the sum of all values
    >>> gradient.theta.round(3).tolist(), gradient.Z.tolist(), gradient.X
    ([1.765, 0.441], [[0.0]], None)
    """

    theta: np.ndarray
    Z: np.ndarray
    X: np.ndarray | None


Pullback = Callable[..., KernelGradient]  # pullback(K_bar, with_X=False)
PairsPullback = Callable[[np.ndarray], np.ndarray]  # the adjoint of the values [n] -> the gradient in theta [P]

CHUNK = 16  # pairs at a time where a kernel knows all pairs of rows only


@dataclass(frozen=True)
class DataScale:
    """Typical sizes in the data, from which parameters get their starts and bounds.

    Parameters
    ----------
    spread : array [D]
        Standard deviation of each input column.
    variance : float, default 1.0
        Variance of the latent function.
    largest : float, default 100000.0
        How many times larger a kernel's variance may be.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise.kernels import DataScale
    >>> DataScale(np.ones(2), variance=4.0).variance_bounds.tolist()
    [4e-08, 400000.0]
    """

    spread: np.ndarray
    variance: float = 1.0
    largest: float = 1e5

    @property
    def variance_bounds(self) -> np.ndarray:
        """Lower and upper bound of a kernel's variance, [2]."""
        return self.variance * np.array([1e-8, self.largest])


@documented(ARGUMENTS)
class Kernel(Part):
    """A covariance function k(x, z).

    A subclass gives `value_and_pullback`, `diag` and `diag_pullback`, and `pairs` if it should be fast; most kernels
    are `Stationary` and give two formulas only. All parameters are positive and live on the logarithmic scale.
    `knotwise.testing.check_kernel` tests one.

    Values are in the units of the inputs and of y, in a fit too: a fitted `kernel_` is the same function of the same
    columns in any other fit, whatever that standardises. A value that is given is where a fit starts; `fixed` of an
    estimator holds it.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise.kernels import DataScale, Linear, SquaredExponential
    >>> kernel = SquaredExponential(variance=2.0, lengthscale=1.0)
    >>> X, Z = np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 0.0]]), np.array([[0.0, 1.0]])
    >>> kernel(X, Z).round(3).tolist()
    [[2.0], [1.213], [0.164]]
    >>> kernel.diag(X).tolist(), kernel.diag_pullback(X, np.ones(3)).tolist()
    ([2.0, 2.0, 2.0], [6.0, 0.0])
    >>> K, pullback = kernel.value_and_pullback(X, Z)
    >>> pullback(np.ones_like(K)).theta.round(3).tolist()  # of the sum of K, in log variance and log length-scale
    [3.377, 2.034]
    >>> k, _ = kernel.pairs(X[:1], Z)
    >>> k.tolist()
    [2.0]

    Kernels are added, multiplied, and restricted to columns:

    >>> both = kernel.on([0]) + Linear().on([1])
    >>> both.n_leaves
    2

    What a fit does with one whose parameters are left to the data:

    >>> free = SquaredExponential(ard=True).bind(None, n_columns=2)
    >>> scale = DataScale(np.ones(2))
    >>> free.start(scale).lengthscale.round(3).tolist(), free.bounds(scale).shape
    ([1.414, 1.414], (3, 2))
    >>> kernel.with_values(variance=5.0).variance
    5.0
    >>> kernel.coordinates(X).shape, kernel.own_coordinates(X).shape
    ((3, 2), (3, 2))
    >>> (kernel.on([0, 1]) + kernel.on([1])).coordinates_by_columns(X).keys()
    dict_keys([frozenset({0, 1}), frozenset({1})])
    """

    #: the group of each column that the kernel sees: those of one group share their entry of a list; None for no groups
    groups: tuple[int, ...] | None = None
    #: what one value for several columns counts in along each of them; None for the units of the columns
    column_scales: Any = None
    #: whether the kernel divides its inputs by `column_scales`, which are an argument of its constructor
    takes_column_scales: ClassVar[bool] = False
    #: whether the kernel has a `centre`, where the function is 0, in the units of its columns
    takes_centre: ClassVar[bool] = False
    #: whether it depends on the inputs at all
    sees_inputs: ClassVar[bool] = True
    #: whether correlation comes back at every period
    periodic: ClassVar[bool] = False

    @property
    def stationary(self) -> bool:
        """Whether k(x + s, z + s) = k(x, z), as far as is known: the covariance is one of differences."""
        return False

    @property
    def restricted_to(self) -> list[int | str] | None:
        """The columns to which `on` has restricted it; None for all."""
        return None

    @property
    def unrestricted(self) -> Kernel:
        """The kernel without the restriction to columns of `on`; itself where there is none."""
        return self

    def __call__(self, X: np.ndarray, Z: np.ndarray | None = None) -> np.ndarray:
        """Evaluate k at all pairs of rows.

        Parameters
        ----------
        X : array [N, D]
            The first rows.
        Z : array [K, D], optional
            The second rows; X itself by default.

        Returns
        -------
        array [N, K]
            k(x, z) for each row x of X and z of Z.
        """
        X = np.asarray(X, float)
        return self.value_and_pullback(X, X if Z is None else np.asarray(Z, float))[0]

    def value_and_pullback(self, X: np.ndarray, Z: np.ndarray) -> tuple[np.ndarray, Pullback]:
        """Evaluate K = k(X, Z), and return with it the map from an adjoint of K to gradients.

        The map may work from the value, so a caller who changes it takes a copy; the map leaves K_bar and the value
        alone and can be used again.

        Parameters
        ----------
        X : array [N, D]
            The first rows.
        Z : array [K, D]
            The second rows.

        Returns
        -------
        K : array [N, K]
            The values.
        pullback : function
            `pullback(K_bar, with_X=False)` is a `KernelGradient`.
        """
        raise NotImplementedError(f"{type(self).__name__} must define `value_and_pullback`.")

    def diag(self, X: np.ndarray) -> np.ndarray:
        """Evaluate k(x, x) at each row.

        Returns
        -------
        array [N]
            Prior variances of the function.
        """
        raise NotImplementedError(f"{type(self).__name__} must define `diag`.")

    def diag_pullback(self, X: np.ndarray, k_bar: np.ndarray) -> np.ndarray:
        """Map the adjoint of `diag(X)` to the gradient in theta.

        Parameters
        ----------
        k_bar : array [N]
            Derivatives of a scalar with respect to `diag(X)`.

        Returns
        -------
        array [P]
            Its gradient in theta.
        """
        raise NotImplementedError(f"{type(self).__name__} must define `diag_pullback`.")

    def pairs(self, X: np.ndarray, Z: np.ndarray) -> tuple[np.ndarray, PairsPullback]:
        """Evaluate k(x_i, z_i) for n pairs of rows, and return with it the map from its adjoint to theta's.

        This version computes all pairs of a few rows at a time and serves any kernel, at `CHUNK` times the work that is
        needed; the shipped kernels do only what is needed.

        Parameters
        ----------
        X : array [n, D]
            The first row of each pair.
        Z : array [n, D]
            The second row of each pair.

        Returns
        -------
        k : array [n]
            The values.
        pullback : function
            From an array [n] to the gradient in theta, [P].
        """
        chunks = [slice(i, i + CHUNK) for i in range(0, len(X), CHUNK)]

        def pullback(k_bar: np.ndarray) -> np.ndarray:
            theta_bar = np.zeros(self.size)
            for chunk in chunks:
                pull = self.value_and_pullback(X[chunk], Z[chunk])[1]  # again: kept, they would be large
                theta_bar += pull(np.diag(k_bar[chunk])).theta
            return theta_bar

        values = [self.value_and_pullback(X[chunk], Z[chunk])[0].diagonal() for chunk in chunks]
        return np.concatenate([np.empty(0), *values]), pullback

    def coordinates(self, X: np.ndarray) -> np.ndarray:
        """The rows as points such that rows whose points are near each other are strongly correlated.

        Inputs in length-scale units, for most kernels: columns that hardly matter hardly move the points.

        Returns
        -------
        array [N, q]
            The points; X itself where nearness says nothing.
        """
        X = np.asarray(X, float)
        points = self.own_coordinates(X)
        return points if points.shape[1] else X

    def own_coordinates(self, X: np.ndarray) -> np.ndarray:
        """What a kernel gives to `coordinates`.

        Returns
        -------
        array [N, q]
            Columns of the points; none where nearness says nothing.
        """
        return X

    def coordinates_by_columns(self, X: np.ndarray) -> dict[frozenset[int], np.ndarray]:
        """Points for each set of columns that a summand sees: rows that are near in any of them are correlated.

        Returns
        -------
        dict
            Points [N, q] by the numbers of the columns; one entry for most kernels, none where nearness says nothing.
        """
        points = self.own_coordinates(np.asarray(X, float))
        return {frozenset(range(np.shape(X)[1])): points} if points.shape[1] else {}

    # -- life in a model -------------------------------------------------------------------

    def bind(self: K, columns: Sequence[str] | None, n_columns: int) -> K:
        """Return the kernel for data with these columns: names resolved, ARD lists at full length.

        Parameters
        ----------
        columns : list of str or None
            Names of the columns that the kernel sees, if they have some.
        n_columns : int
            How many columns it sees.

        Returns
        -------
        Kernel
            A new one, or itself where nothing depends on the columns.
        """
        return self

    def start(self: K, scale: DataScale) -> K:
        """Return the kernel with every parameter that is None set from the scale of the data.

        Returns
        -------
        Kernel
            One without unknown values.
        """
        return self

    def bounds(self, scale: DataScale) -> np.ndarray:
        """Lower and upper bounds of the natural values, in the order of theta.

        Returns
        -------
        array [P, 2]
            Natural values, not logarithms.
        """
        raise NotImplementedError(f"{type(self).__name__} must define `bounds`.")

    def with_values(self: K, **values: object) -> K:
        """Return a copy with some constructor arguments replaced.

        Parameters
        ----------
        **values : dict
            Arguments of the constructor by name; they are not checked.

        Returns
        -------
        Kernel
            A new one; this one stays as it is.
        """
        new = object.__new__(type(self))
        new.__dict__.update(self.__dict__, **values)
        return new

    @property
    def n_leaves(self) -> int:
        """Number of elementary kernels, each of which keeps two [n, K] arrays for its pullback."""
        return 1

    @property
    def n_terms(self) -> int:
        """Number of terms of a sum; 1 of any other kernel."""
        return 1

    def map_leaves(self: K, change: Callable[[Any, list[int]], Any], columns: Sequence[int]) -> K:
        """Return the kernel with each elementary kernel in it changed.

        Parameters
        ----------
        change : function
            From an elementary kernel, and the numbers of the columns that it sees, to the new one.
        columns : sequence of int
            Numbers of the columns that this kernel sees.

        Returns
        -------
        Kernel
            A new one; this one stays as it is.

        Examples
        --------
        >>> from knotwise.kernels import Linear, Matern32
        >>> seen = []
        >>> kernel = Matern32().on([1]) + Linear()
        >>> same = kernel.map_leaves(lambda leaf, columns: seen.append(columns) or leaf, [0, 1])
        >>> seen
        [[1], [0, 1]]
        """
        inner = self.children()
        if not inner:
            return change(self, list(columns))
        return self.with_values(**{name: part.map_leaves(change, columns) for name, part in inner.items()})  # type: ignore[attr-defined]

    # -- lists with an entry for each column, or each group of columns ------------------------------

    def flat_parameters(self, columns=()):
        flat = super().flat_parameters(columns)
        if self.column_scales is None or not len(columns):
            return flat
        unknown = isinstance(self.column_scales, str)  # before a fit
        scales = np.ones(len(columns)) if unknown else self._per_column("column_scales")
        scale = dict(zip(columns, scales.tolist(), strict=True))
        return [replace(p, column_scales=tuple(scale[c] for c in p.columns)) if p.x_power else p for p in flat]

    def column_groups(self, columns):
        if self.groups is None:
            return super().column_groups(columns)
        return [
            tuple(c for c, group in zip(columns, self.groups, strict=True) if group == g)
            for g in range(max(self.groups) + 1)
        ]

    def _per_column(self, name: str) -> np.ndarray:
        """The value of a parameter: one number, or one for each column, which has the entry of its group."""
        if name == "column_scales" and isinstance(self.column_scales, str):
            raise InvalidInputError(
                f"{type(self).__name__} counts in standard deviations of the columns (`column_scales='standard'`), "
                "which only a fit knows: `kernel_` of a fitted estimator has them."
            )
        value = getattr(self, name)
        if not isinstance(value, float | np.ndarray):  # these are read many times in each evaluation
            value = self.value(name)
        value = np.asarray(value, float)
        return value[list(self.groups)] if value.ndim and self.groups is not None else value

    def validate(self) -> None:
        super().validate()
        scales = self.column_scales
        if scales is None or (isinstance(scales, str) and scales == "standard"):
            return
        try:
            found = np.asarray(scales, float)
        except (TypeError, ValueError):
            found = np.array(np.nan)
        if found.ndim != 1 or not (np.isfinite(found) & (found > 0)).all():
            raise InvalidInputError(
                f"`column_scales` of {type(self).__name__} is {scales!r}; it must be 'standard', a list with a "
                "positive number for each column, or None for the units of the columns."
            )

    def _per_entry(self, name: str, columns_bar: np.ndarray) -> np.ndarray:
        """Adjoints of each column's value of a parameter, [D], as those of its entries: of one number the sum."""
        if not np.ndim(self.value(name)):
            return np.array([columns_bar.sum()])
        return columns_bar if self.groups is None else np.bincount(self.groups, columns_bar)

    def _group_spread(self, spread: np.ndarray) -> np.ndarray:
        """Standard deviations of columns, in `column_scales`, as those of groups: roots of total variances."""
        if self.column_scales is not None:
            spread = spread / self._per_column("column_scales")
        return spread if self.groups is None else np.sqrt(np.bincount(self.groups, spread**2))

    # -- composition -----------------------------------------------------------------------

    def __add__(self, other: Kernel) -> Sum:
        return _OPERATIONS["+"](self, other)

    def __mul__(self, other: Kernel) -> Product:
        return _OPERATIONS["*"](self, other)

    def on(self, columns: Sequence[int | str] | int | str) -> OnColumns:
        """Restrict the kernel to some columns of the inputs.

        Parameters
        ----------
        columns : list of int or str, int or str
            The columns by number, or by name for data frames; the circle of a period by its own name, "when (year)".

        Returns
        -------
        OnColumns
            A kernel that sees these columns only.
        """
        return _OPERATIONS["on"](self, columns)


#: the kernels that operations on kernels make; they say so themselves, where they are defined
_OPERATIONS: dict[str, Any] = {}


def made_by(operation: str) -> Callable[[type[K]], type[K]]:
    """Mark a kernel as the one that an operation on kernels makes: "+", "*" or "on"."""

    def mark(cls: type[K]) -> type[K]:
        _OPERATIONS[operation] = cls
        return cls

    return mark


class ConstantDiagonal(Kernel):
    """A kernel with k(x, x) = variance everywhere; the variance is the first entry of theta."""

    def diag(self, X):
        return np.full(len(X), self.value("variance"))

    def diag_pullback(self, X, k_bar):
        theta_bar = np.zeros(self.size)
        theta_bar[0] = self.value("variance") * k_bar.sum()
        return theta_bar


def one_per_column(kernel: K, name: str, n_columns: int, columns: Sequence[str] | None = None) -> K:
    """Bring the list-valued parameter `name` to one entry per column, where the kernel is ARD.

    NaN marks entries that are still to be taken from the data. Encoded columns (`InputColumns`) have one entry for
    each group, which is a column, or columns, of the user's.
    """
    if isinstance(columns, InputColumns):
        kernel = kernel.with_values(groups=columns.groups)
    if kernel.groups is not None and len(kernel.groups) != n_columns:
        raise InvalidInputError(
            f"{type(kernel).__name__} was made for {len(kernel.groups)} columns, but the kernel sees {n_columns}."
        )
    given, n_entries = getattr(kernel, name), n_columns if kernel.groups is None else max(kernel.groups) + 1
    if np.ndim(given) and len(given) != n_entries:
        raise InvalidInputError(
            f"`{name}` of {type(kernel).__name__} has {len(given)} entries, but the kernel sees {n_entries} columns. "
            "Give one per column, a single number, or restrict the kernel with `.on(columns)`."
        )
    scales = kernel.column_scales
    if np.ndim(scales) and len(scales) != n_entries:
        raise InvalidInputError(
            f"`column_scales` of {type(kernel).__name__} has {len(scales)} entries, but the kernel sees {n_entries} "
            "columns. Give one per column, or restrict the kernel with `.on(columns)`."
        )
    if not np.ndim(given) and getattr(kernel, "ard", False):
        return kernel.with_values(**{name: np.full(n_entries, np.nan if given is None else float(given))})
    return kernel


def fill(given: Any, typical: np.ndarray) -> Any:
    """Replace what is still unknown (None, or NaN in a list) by typical values."""
    if given is None:
        return float(typical.mean())
    return np.where(np.isnan(given), typical, given) if np.ndim(given) else given
