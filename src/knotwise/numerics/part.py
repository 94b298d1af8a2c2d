"""What a piece of a model is: named parameters, and the flat unconstrained vector that optimisers see.

A *part* of a model (a kernel, a likelihood, a mean) declares its parameters in `parameters`. Its `theta`
is the flat vector of their unconstrained values (the logarithm where a parameter is positive), and
`with_theta` is the inverse: a new part, the old one unchanged. A parameter left as None is chosen
from the data when a model is fitted; outside a fit it counts as 1 (0 on the identity scale).
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from math import exp, isnan
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from knotwise.errors import InvalidInputError, unknown_option
from knotwise.numerics.parameters import Parameter

P = TypeVar("P", bound="Part")


class Layout(NamedTuple):
    """Where the parameters of a part lie in theta: (name, positive, start, stop) of its own, with None for the stop of
    a number, how many entries these have, and the names of the children behind them.
    """

    own: tuple[tuple[str, bool, int, int | None], ...]
    n_own: int
    children: tuple[str, ...]


LONGEST = 12  # numbers of a list that are shown


def _constructor_names(cls: type) -> tuple[str, ...]:
    return tuple(inspect.signature(cls).parameters)


class Part:
    """A piece of a model with named parameters; scikit-learn's get_params / set_params, and theta.

    Examples
    --------
    Every kernel, likelihood and mean is one:

    >>> import numpy as np
    >>> from knotwise.kernels import Matern32, SquaredExponential
    >>> part = SquaredExponential(variance=4.0) + Matern32(lengthscale=[1.0, 2.0])
    >>> part.names
    ['k1__variance', 'k1__lengthscale', 'k2__variance', 'k2__lengthscale', 'k2__lengthscale']
    >>> part.size, part.theta.round(2).tolist()
    (5, [1.39, 0.0, 0.0, 0.0, 0.69])
    >>> list(part.children()), part.k1.value("variance")
    (['k1', 'k2'], 4.0)
    >>> part.with_theta(part.theta + 1.0).k1.variance > 10
    True
    >>> part.given.tolist()  # NaN: to be taken from the data
    [4.0, nan, nan, 1.0, 2.0]
    >>> part.with_given(np.array([4.0, 0.5, 1.0, 1.0, 2.0])).k1
    SquaredExponential(variance=4, lengthscale=0.5, ard=False)
    >>> [entry.role for entry in part.flat_parameters([0, 1])][:2]
    ['amplitude', 'lengthscale']
    >>> part.get_params()["k1__variance"], part.set_params(k1__variance=9.0).k1.variance
    (4.0, 9.0)
    >>> part.validate()  # raises where a value cannot be
    """

    #: what each parameter is; each is also an argument of the constructor and an attribute
    parameters: ClassVar[tuple[Parameter, ...]] = ()

    def children(self) -> dict[str, Part]:
        """The parts that this part is made of, by the name of the argument that holds them.

        Returns
        -------
        dict
            Empty for a part that is not made of others.
        """
        return {}

    # -- the flat vector ------------------------------------------------------------------

    # the layout is asked once: copies by `with_theta` share it, setting an attribute forgets it, and it is no content
    __slots__ = ("__dict__", "__weakref__", "_known")

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        object.__setattr__(self, "_known", None)

    def __getstate__(self) -> dict[str, Any] | None:
        return self.__dict__ or None

    @property
    def _layout(self) -> Layout:
        known = getattr(self, "_known", None)
        if known is None:
            known = self._find_layout()
            object.__setattr__(self, "_known", known)
        return known

    def _find_layout(self) -> Layout:
        own, start = [], 0
        for p in self.parameters:
            value = self.value(p.name)
            stop = start + value.size if isinstance(value, np.ndarray) else None
            own.append((p.name, p.positive, start, stop))
            start = start + 1 if stop is None else stop
        return Layout(tuple(own), start, tuple(self.children()))

    @property
    def names(self) -> list[str]:
        """Names of the entries of theta; `k1__variance` is the variance of the child k1."""
        own = [p.name for p in self.parameters for _ in range(np.size(self.value(p.name)))]
        inner = [f"{child}__{name}" for child, part in self.children().items() for name in part.names]
        return own + inner

    def flat_parameters(self, columns: Sequence[int] = ()) -> list[Parameter]:
        """What each entry of theta is, where the part sees these columns of the inputs.

        Parameters
        ----------
        columns : sequence of int, default ()
            Numbers of the columns that the part sees.

        Returns
        -------
        list of Parameter
            One for each entry of theta, with its columns.
        """
        flat: list[Parameter] = []
        for p in self.parameters:
            if np.ndim(self.value(p.name)):
                flat += [replace(p, columns=group) for group in self.column_groups(columns)]
            else:
                flat.append(replace(p, columns=tuple(columns)) if p.x_power else p)
        return flat + [inner for part in self.children().values() for inner in part.flat_parameters(columns)]

    def column_groups(self, columns: Sequence[int]) -> list[tuple[int, ...]]:
        """The columns that each entry of a list is about: one of them, or a group that shares the entry.

        Parameters
        ----------
        columns : list of int
            The columns that the part sees.

        Returns
        -------
        list of tuples of int
            The columns of each entry.

        Examples
        --------
        >>> from knotwise.kernels import Matern32
        >>> Matern32(lengthscale=[1.0, 2.0]).column_groups([0, 3])
        [(0,), (3,)]
        """
        return [(column,) for column in columns]

    @property
    def size(self) -> int:
        """Length of theta."""
        layout = self._layout
        inner = sum([getattr(self, child).size for child in layout.children]) if layout.children else 0
        return layout.n_own + inner

    def value(self, name: str) -> Any:
        """The natural value of a parameter, with the default for one that is still None.

        Parameters
        ----------
        name : str
            A parameter of this part itself, not of its children.

        Returns
        -------
        float or array
            An array for a parameter that is a list; 1 for a positive one that is None, 0 for another.
        """
        value = getattr(self, name)
        if isinstance(value, float):  # most are, and are read many times in each evaluation
            return float(value)
        if value is None:
            return next(1.0 if p.positive else 0.0 for p in self.parameters if p.name == name)
        return np.asarray(value, float) if np.ndim(value) else float(value)

    @property
    def theta(self) -> np.ndarray:
        """The unconstrained values, in the order of `names`."""
        own = [np.log(self.value(p.name)) if p.positive else self.value(p.name) for p in self.parameters]
        return _joined(own, [part.theta for part in self.children().values()])

    def with_theta(self: P, theta: np.ndarray) -> P:
        """A copy with the values of the unconstrained vector theta.

        Parameters
        ----------
        theta : array [P]
            Values in the order of `names`, logarithms of positive ones.

        Returns
        -------
        Part
            A new one; this one stays as it is.
        """
        return self._with_flat(theta, unconstrained=True)

    @property
    def given(self) -> np.ndarray:
        """Natural values in the order of theta, NaN where they are still to be taken from the data."""
        own = [getattr(self, p.name) for p in self.parameters]
        return _joined(
            [np.nan if value is None else value for value in own], [part.given for part in self.children().values()]
        )

    def with_given(self: P, values: np.ndarray) -> P:
        """A copy with other natural values; a number that is NaN becomes None, and is taken from the data.

        Parameters
        ----------
        values : array [P]
            Natural values in the order of `names`.

        Returns
        -------
        Part
            A new one; this one stays as it is.
        """
        return self._with_flat(values, unconstrained=False)

    def _with_flat(self: P, flat: np.ndarray, *, unconstrained: bool) -> P:
        """A copy with the values of a flat vector: unconstrained ones, or natural ones with NaN for a None."""
        layout, new = self._layout, object.__new__(type(self))
        values = new.__dict__
        values.update(self.__dict__)
        if unconstrained:  # with a None there may be another number of parameters
            object.__setattr__(new, "_known", layout)
        for name, positive, start, stop in layout.own:
            if stop is not None:
                share = flat[start:stop]
                values[name] = np.exp(share) if unconstrained and positive else np.array(share)
            elif unconstrained:
                values[name] = _safe_exp(float(flat[start])) if positive else float(flat[start])
            else:
                values[name] = None if isnan(flat[start]) else float(flat[start])
        begin = layout.n_own
        for child in layout.children:
            part = getattr(self, child)
            end = begin + part.size
            values[child] = part._with_flat(flat[begin:end], unconstrained=unconstrained)
            begin = end
        return new

    # -- scikit-learn's face of a part -------------------------------------------------------

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Constructor arguments by name, as scikit-learn asks for them.

        Parameters
        ----------
        deep : bool, default True
            Also those of the children, as `child__name`.

        Returns
        -------
        dict
            Values as they were given, None where they are left to the data.
        """
        params = {name: getattr(self, name) for name in _constructor_names(type(self))}
        if deep:
            for child, part in self.children().items():
                params |= {f"{child}__{name}": value for name, value in part.get_params().items()}
        return params

    def set_params(self: P, **params: Any) -> P:
        """Set constructor arguments in place.

        Parameters
        ----------
        **params : dict
            New values by name, `child__name` for those of a child; an unknown name is an error.

        Returns
        -------
        Part
            The part itself.
        """
        for name, value in params.items():
            head, _, rest = name.partition("__")
            if head not in _constructor_names(type(self)):
                raise unknown_option(f"A parameter of {type(self).__name__}", head, self.get_params())
            if rest:
                getattr(self, head).set_params(**{rest: value})
            else:
                setattr(self, head, value)
        self.validate()
        return self

    def __sklearn_clone__(self: P) -> P:
        """A copy with what the part carries from a fit, beside the arguments of its constructor."""
        return deepcopy(self)

    def validate(self) -> None:
        """Check the values given: positive where the scale is logarithmic, finite everywhere."""
        for p in self.parameters:
            given = getattr(self, p.name)
            if given is None:
                continue
            try:
                value = np.asarray(given, float)
            except (TypeError, ValueError):
                value = np.array(np.nan)
            if value.ndim > p.per_column or not np.isfinite(value).all() or (p.positive and (value <= 0).any()):
                wanted = "positive" if p.positive else "finite"
                raise InvalidInputError(
                    f"`{p.name}` of {type(self).__name__} is {given!r}; it must be a {wanted} number"
                    f"{' or a list of them' if p.per_column else ''}, or None to take it from the data."
                )

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{name}={short_repr(value)}" for name, value in self.get_params(deep=False).items() if value is not None
        )
        return f"{type(self).__name__}({shown})"


def _joined(own: list[Any], inner: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.atleast_1d(np.asarray(value, float)) for value in own] + inner or [np.empty(0)])


def _safe_exp(x: float) -> float:
    return exp(x) if x < 709.0 else float("inf")


def short_repr(value: Any) -> str:
    """Show a parameter with the digits that a reader needs."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, np.ndarray):
        shown = [f"{v:.4g}" for v in value[: len(value) if len(value) <= LONGEST else 3]]
        return "[" + ", ".join(shown) + (f", ... {len(value)} in all]" if len(value) > LONGEST else "]")
    return repr(value)
