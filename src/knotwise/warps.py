"""Warps of inputs: monotone functions of a column, after which a stationary kernel suits it.

A warp is made of the values of a column (`of`), keeps a few numbers, and has its derivative and its inverse in closed
form. Beyond the values of which it was made it goes on smoothly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np
from scipy.special import ndtri

from knotwise.errors import InvalidInputError

__all__ = ["WARPS", "Log", "NormalScores", "Warp"]

#: normal scores of the outermost nodes; with nodes farther out single values would decide on the warp
FARTHEST = 2.4
#: nodes of normal scores: more of them follow clusters of values, which are no reason to stretch a column
N_NODES = 9
#: times the slope of the last piece, and its inverse: between these the straight lines beyond the nodes go on
STEEPEST = 3.0
#: of the range of a column: nodes that are nearer to each other are one
NEAREST = 1e-12
#: range of a column below which it does not vary: squares of numbers like it are none
LEAST_SPAN = 1e-150


@runtime_checkable
class Warp(Protocol):
    """A monotone function of one column, increasing and once differentiable.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise.warps import Log, Warp
    >>> warp = Log.of(np.array([1.0, 7.0, 28.0, 90.0]))
    >>> isinstance(warp, Warp), warp.in_words("age")
    (True, 'log(age)')
    >>> bool(np.isclose(warp.inverse(warp(3.0)), 3.0)), float(warp.derivative(4.0))
    (True, 0.25)
    """

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """The warped values, of any shape."""

    def derivative(self, x: np.ndarray) -> np.ndarray:
        """How fast they grow with the values of the column; above 0."""

    def inverse(self, z: np.ndarray) -> np.ndarray:
        """The values of the column, from warped ones."""

    def in_words(self, name: str) -> str:
        """What the warp makes of a column of this name."""


@dataclass(frozen=True)
class Log:
    r"""Logarithm of a column, or of the column and a shift  (W1).

    .. math:: w(x) = \log(x + s) \;\text{for } x \ge x_0, \quad \log(x_0 + s) + \frac{x - x_0}{x_0 + s}
        \;\text{below}

    Parameters
    ----------
    shift : float, default 0.0
        What is added to the column, s, in its units.
    lowest : float
        The value x_0 from which on w is a logarithm, such as the least value of the column; below, it is a straight
        line, so that any new value has a place.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise.warps import Log
    >>> Log.of(np.array([1.0, 10.0, 100.0]))
    Log(shift=0.0, lowest=1.0)
    >>> shifted = Log.of(np.array([0.0, 1.0, 4.0, 11.0, 30.0]))
    >>> shifted.in_words("income")
    'log(income + 0.73)'
    >>> bool(np.isclose(shifted.inverse(shifted(-2.0)), -2.0))
    True
    """

    shift: float = 0.0
    lowest: float = 1.0

    def __post_init__(self) -> None:
        if not (np.isfinite(self.shift) and np.isfinite(self.lowest) and self.lowest + self.shift > 0):
            raise InvalidInputError(
                f"`Log(shift={self.shift!r}, lowest={self.lowest!r})` is no logarithm at its lowest value: their sum "
                "must be above 0."
            )

    @classmethod
    def of(cls, values: np.ndarray, weights: np.ndarray | None = None) -> Log:
        """The logarithm that suits a column: plain where all values are above 0, else with a shift.

        The shift makes the deciles symmetric about the median, and has two digits.

        Parameters
        ----------
        values : array [n]
            The column.
        weights : array [n], optional
            Sample weights of the rows.

        Returns
        -------
        Log
            The warp.
        """
        lowest = float(values.min())
        return cls(0.0, lowest) if lowest > 0 else cls.shifted(values, weights)

    @classmethod
    def shifted(cls, values: np.ndarray, weights: np.ndarray | None = None) -> Log:
        """The logarithm of a column and the shift after which its deciles are symmetric about the median.

        Parameters
        ----------
        values : array [n]
            The column.
        weights : array [n], optional
            Sample weights of the rows.

        Returns
        -------
        Log
            The warp.

        Examples
        --------
        >>> import numpy as np
        >>> from knotwise.warps import Log
        >>> Log.shifted(np.exp(np.linspace(-2, 2, 41)) - 5.0).in_words("balance")
        'log(balance + 5)'
        """
        lowest, highest = float(values.min()), float(values.max())
        nodes, scores = _ranked(values, weights)
        low, middle, high = np.interp([ndtri(0.1), 0.0, ndtri(0.9)], scores, nodes)
        span = highest - lowest or 1.0
        curvature = low + high - 2 * middle
        # (middle + s)^2 = (low + s) (high + s)
        above = (middle**2 - low * high) / curvature + lowest if curvature > 0 else span
        above = min(max(above, 1e-3 * span), span)
        return cls(_two_digits(above - lowest, above), lowest)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        x = np.asarray(x, float)
        at = np.maximum(x, self.lowest) + self.shift
        return np.log(at) + np.minimum(x - self.lowest, 0.0) / (self.lowest + self.shift)

    def derivative(self, x: np.ndarray) -> np.ndarray:
        """How fast it grows: 1 / (x + s), and the same everywhere below the lowest value.

        Parameters
        ----------
        x : array
            Values of the column.

        Returns
        -------
        array
            Of the same shape.
        """
        return 1.0 / (np.maximum(np.asarray(x, float), self.lowest) + self.shift)

    def inverse(self, z: np.ndarray) -> np.ndarray:
        """The values of the column, from warped ones.

        Parameters
        ----------
        z : array
            Warped values.

        Returns
        -------
        array
            Of the same shape, in the units of the column.
        """
        z, least = np.asarray(z, float), self.lowest + self.shift
        below = np.minimum(z - np.log(least), 0.0) * least
        return np.where(below < 0, self.lowest + below, np.exp(np.maximum(z, np.log(least))) - self.shift)

    def in_words(self, name: str) -> str:
        """What the warp makes of a column of this name.

        Parameters
        ----------
        name : str
            Of the column.

        Returns
        -------
        str
            Such as "log(age + 3)".
        """
        if not self.shift:
            return f"log({name})"
        return f"log({name} {'+' if self.shift > 0 else '-'} {abs(self.shift):g})"


@dataclass(frozen=True)
class NormalScores:
    r"""Normal scores of a column: about equally many rows lie between equal steps, as of a normal variable  (W2).

    Between nodes a rational quadratic function with given slopes (Gregory and Delbourgo 1982), which is monotone and
    once differentiable; beyond the outer nodes a straight line.

    Parameters
    ----------
    nodes : tuple of float
        Increasing values of the column, at least two.
    scores : tuple of float
        The increasing normal score of each.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise.warps import NormalScores
    >>> values = np.exp(np.random.default_rng(0).normal(size=500))
    >>> warp = NormalScores.of(values)
    >>> len(warp.nodes), warp.in_words("rain")
    (9, 'normal scores of rain')
    >>> bool(abs(warp(np.exp(1.0)) - 1.0) < 0.15)
    True
    >>> x = np.array([-5.0, 0.5, 2.0, 100.0])
    >>> bool(np.allclose(warp.inverse(warp(x)), x))
    True
    """

    nodes: tuple[float, ...]
    scores: tuple[float, ...]

    def __post_init__(self) -> None:
        x, z = np.asarray(self.nodes, float), np.asarray(self.scores, float)
        if x.ndim != 1 or x.shape != z.shape or len(x) < 2 or not ((np.diff(x) > 0).all() and (np.diff(z) > 0).all()):
            raise InvalidInputError(
                "`NormalScores` needs at least two `nodes` and as many `scores`, both increasing; it has "
                f"{self.nodes!r} and {self.scores!r}."
            )

    @classmethod
    def of(cls, values: np.ndarray, weights: np.ndarray | None = None) -> NormalScores:
        """Normal scores of a column, by a few of its quantiles.

        Parameters
        ----------
        values : array [n]
            The column; equal values have the score of their mean rank.
        weights : array [n], optional
            Sample weights of the rows.

        Returns
        -------
        NormalScores
            The warp.
        """
        distinct, scores = _ranked(values, weights)
        span = float(distinct[-1] - distinct[0])
        if span < LEAST_SPAN:
            return cls((float(distinct[0]), float(distinct[0]) + 1.0), (0.0, 1.0))
        ends = np.clip(scores[[0, -1]], -FARTHEST, FARTHEST)
        wanted = np.linspace(ends[0], ends[1], min(N_NODES, len(distinct)))
        nodes = np.interp(wanted, scores, distinct)
        kept = np.append(True, np.diff(nodes) > NEAREST * span)
        return cls(tuple(nodes[kept].tolist()), tuple(wanted[kept].tolist()))

    @cached_property
    def _pieces(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Nodes x and scores z [K], slopes s of the chords [K - 1], and slopes d at the nodes [K]; x from 0 to 1."""
        x, z = self._inside(np.asarray(self.nodes, float)), np.asarray(self.scores, float)
        h = np.diff(x)
        s = np.diff(z) / h
        d = np.concatenate([s[:1], np.empty(len(x) - 2), s[-1:]])
        left, right = 2 * h[1:] + h[:-1], h[1:] + 2 * h[:-1]
        d[1:-1] = (left + right) / (left / s[:-1] + right / s[1:])  # the harmonic mean of Fritsch and Butland
        if len(x) > 2:  # at the ends as much farther as from the middle of the last piece to its inner node
            d[[0, -1]] = s[[0, -1]] * np.clip(s[[0, -1]] / d[[1, -2]], 1 / STEEPEST, STEEPEST)
        return x, z, s, d

    @property
    def _span(self) -> float:
        return self.nodes[-1] - self.nodes[0]

    def _inside(self, x: np.ndarray) -> np.ndarray:
        """Values of the column on a scale on which the outer nodes are 0 and 1."""
        return (np.asarray(x, float) - self.nodes[0]) / self._span

    def _at(self, values: np.ndarray, of: np.ndarray) -> np.ndarray:
        """The number of the piece of each value, of those between nodes `of`."""
        return np.clip(np.searchsorted(of, values, side="right") - 1, 0, len(of) - 2)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        x = self._inside(x)
        nodes, z, s, d = self._pieces
        inside = np.clip(x, nodes[0], nodes[-1])
        k = self._at(inside, nodes)
        t = (inside - nodes[k]) / (nodes[k + 1] - nodes[k])
        between = t * (1 - t)
        rise = (s[k] * t**2 + d[k] * between) / (s[k] + (d[k] + d[k + 1] - 2 * s[k]) * between)
        tails = d[0] * np.minimum(x - nodes[0], 0.0) + d[-1] * np.maximum(x - nodes[-1], 0.0)
        return z[k] + (z[k + 1] - z[k]) * rise + tails

    def derivative(self, x: np.ndarray) -> np.ndarray:
        """How fast they grow; beyond the outer nodes the same everywhere.

        Parameters
        ----------
        x : array
            Values of the column.

        Returns
        -------
        array
            Of the same shape.
        """
        nodes, _, s, d = self._pieces
        x = np.clip(self._inside(x), nodes[0], nodes[-1])
        k = self._at(x, nodes)
        t = (x - nodes[k]) / (nodes[k + 1] - nodes[k])
        between = t * (1 - t)
        top = s[k] ** 2 * (d[k + 1] * t**2 + 2 * s[k] * between + d[k] * (1 - t) ** 2)
        return top / (s[k] + (d[k] + d[k + 1] - 2 * s[k]) * between) ** 2 / self._span

    def inverse(self, z: np.ndarray) -> np.ndarray:
        """The values of the column, from warped ones: the root of a quadratic equation in each piece.

        Parameters
        ----------
        z : array
            Warped values.

        Returns
        -------
        array
            Of the same shape, in the units of the column.
        """
        z = np.asarray(z, float)
        nodes, scores, s, d = self._pieces
        inside = np.clip(z, scores[0], scores[-1])
        k = self._at(inside, scores)
        up, rise = inside - scores[k], scores[k + 1] - scores[k]
        curvature = d[k] + d[k + 1] - 2 * s[k]
        a = rise * (s[k] - d[k]) + up * curvature
        b = rise * d[k] - up * curvature
        c = -s[k] * up
        # the form that loses no digits where a is small
        t = -2 * c / (b + np.sqrt(np.maximum(b**2 - 4 * a * c, 0.0)))
        tails = np.minimum(z - scores[0], 0.0) / d[0] + np.maximum(z - scores[-1], 0.0) / d[-1]
        return self.nodes[0] + self._span * (nodes[k] + (nodes[k + 1] - nodes[k]) * t + tails)

    def in_words(self, name: str) -> str:
        """What the warp makes of a column of this name.

        Parameters
        ----------
        name : str
            Of the column.

        Returns
        -------
        str
            Such as "normal scores of rain".
        """
        return f"normal scores of {name}"


#: warps by the words of the option
WARPS: dict[str, Callable[..., Warp]] = {"log": Log.of, "normal": NormalScores.of}


def _ranked(values: np.ndarray, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """The distinct values, increasing, and the normal score of the mean rank of each."""
    distinct, which = np.unique(np.asarray(values, float), return_inverse=True)
    counts = np.bincount(which, weights, len(distinct)).astype(float)
    return distinct, ndtri((np.cumsum(counts) - 0.5 * counts) / counts.sum())


def _two_digits(shift: float, above: float) -> float:
    """A shift, rounded to two digits of what it leaves above 0 at the lowest value, or of itself, upwards."""
    for size in (abs(shift), above):
        unit = 10.0 ** (np.floor(np.log10(size)) - 1) if size > 0 else 1.0
        rounded = float(round(float(np.ceil(shift / unit)) * unit, 12))
        if 0.5 * above < rounded - shift + above < 2.0 * above:
            return rounded
    return shift
