"""Transforms of Gaussian targets: z = T(y) is modelled, and everything is said of y.

With log p(y) = log p(z) + sum log T'(y) the evidences of different transforms compare. (Y1)
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import ndtr

from knotwise import names
from knotwise.errors import InvalidInputError, unknown_option
from knotwise.numerics.part import Part

__all__ = ["BoxCox", "Log", "Sqrt", "Transform", "YeoJohnson", "transform_named"]

#: exp stops growing here: a prediction far too far out is a huge number, not inf and then NaN
LARGEST_EXPONENT = 600.0
#: standard deviations of z that hold all but 1e-18 of it, and panels of a Gauss-Legendre rule on them
REACH, N_PANELS = 9.0, 18
N_POLYNOMIALS = 30  # Hermite polynomials of a covariance: those of e^z die away as var(z)^k / k!
PANEL_NODES, PANEL_WEIGHTS = np.polynomial.legendre.leggauss(10)


class Transform(Part):
    r"""A rising function T of the target, such that z = T(y) is a Gaussian process with Gaussian noise.

    .. math:: \log p(y) = \log N(T(y);\, \cdot) + \log T'(y)

    A transform has `__call__`, `inverse` and `log_slope`; constants that it takes from the rows of a fit are set by
    `learned`.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise.transforms import Sqrt
    >>> y = np.array([1.0, 4.0, 9.0])
    >>> T = Sqrt().learned(y)
    >>> T(y).tolist(), T.inverse(T(y)).tolist(), T.log_slope(y).round(3).tolist()
    ([1.0, 2.0, 3.0], [1.0, 4.0, 9.0], [-0.693, -1.386, -1.792])
    >>> mean, variance = T.moments(np.array([2.0]), np.array([0.25]))  # of y, for z ~ N(2, 0.25)
    >>> mean.round(2).tolist(), variance.round(2).tolist()
    ([4.25], [4.12])
    >>> T.check_targets(y).tolist(), T.of("price")
    ([1.0, 4.0, 9.0], 'the square root of price')
    """

    #: the word of the setting `transform`
    word: ClassVar[str] = ""
    #: how T(y) is written
    symbol: ClassVar[str] = "T(y)"
    #: the lowest y; -inf where there is none
    lowest: ClassVar[float] = -np.inf
    #: whether y must be above 0
    positive: ClassVar[bool] = False
    #: between which a power that is learned lies; None where there is none
    power_bounds: ClassVar[tuple[float, float] | None] = None
    #: the power, None where it is left to the data
    power: float | None = None

    @property
    def meaning_of_slopes(self) -> str:
        """What coefficients of a trend are of."""
        return f"of {self.symbol}"

    @property
    def is_open(self) -> bool:
        """Whether a power is still to be learned."""
        return self.power_bounds is not None and self.power is None

    def with_power(self, power: float) -> Self:
        """The same with a power.

        Parameters
        ----------
        power : float
            Between `power_bounds`.

        Returns
        -------
        Transform
            A new one.
        """
        return type(self)(**self.get_params(deep=False) | {"power": power})

    def __call__(self, y: np.ndarray) -> np.ndarray:
        raise NotImplementedError(f"{type(self).__name__} must define `__call__`.")

    def inverse(self, z: np.ndarray) -> np.ndarray:
        """The y of a z; below the range of T the lowest y.

        Parameters
        ----------
        z : array
            Values of T.

        Returns
        -------
        array
            In the units of y.
        """
        raise NotImplementedError(f"{type(self).__name__} must define `inverse`.")

    def log_slope(self, y: np.ndarray) -> np.ndarray:
        """log T'(y), which turns a density of z into one of y; -inf where y cannot be.

        Parameters
        ----------
        y : array
            Observations.

        Returns
        -------
        array
            In nats.
        """
        raise NotImplementedError(f"{type(self).__name__} must define `log_slope`.")

    def learned(self, y: np.ndarray, weights: np.ndarray | None = None) -> Self:
        """The same with those constants that were left to the rows of a fit.

        Parameters
        ----------
        y : array [n]
            Targets of the fit.
        weights : array [n], optional
            Their sample weights.

        Returns
        -------
        Transform
            A new one, or itself.
        """
        return self

    def moments(self, mean: np.ndarray, variance: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of y for z ~ N(mean, variance).

        Parameters
        ----------
        mean : array
            Means of z.
        variance : array or float
            Its variances.

        Returns
        -------
        mean, variance : array
            Of y, in its units; by quadrature where there is no closed form. (Y3)
        """
        u, weights = _normal_rule()
        mean = np.asarray(mean, float)
        shape = (len(u), *[1] * np.ndim(mean))
        with np.errstate(over="ignore", invalid="ignore"):
            y = self.inverse(mean + np.sqrt(variance) * u.reshape(shape))
            first = np.tensordot(weights, y, 1)
            return first, np.tensordot(weights, (y - first) ** 2, 1)

    def hermite_coefficients(self, mean: np.ndarray, sd: np.ndarray) -> np.ndarray:
        """Coefficients of y in the orthonormal Hermite polynomials of u, for z = mean + sd u and u ~ N(0, 1). (Y4)

        Parameters
        ----------
        mean, sd : array [n]
            Of z.

        Returns
        -------
        array [k, n]
            The mean of y first; the squares of the others add up to its variance.
        """
        u, weights = _normal_rule()
        with np.errstate(over="ignore"):
            y = weights[:, None] * self.inverse(np.asarray(mean) + np.asarray(sd) * u[:, None])
        one, two = np.ones_like(u), u
        found = [one @ y, two @ y]
        for k in range(2, N_POLYNOMIALS):
            one, two = two, (u * two - np.sqrt(k - 1) * one) / np.sqrt(k)
            found.append(two @ y)
        return np.array(found)

    def check_targets(self, y: np.ndarray) -> np.ndarray:
        """Refuse targets of a fit of which T is not known, with the row and the value.

        Parameters
        ----------
        y : array [n]
            Targets.

        Returns
        -------
        array [n]
            The same.
        """
        with np.errstate(all="ignore"):
            bad = np.flatnonzero(~np.isfinite(self(y)) | (self.positive & (np.asarray(y) <= 0)))
        if len(bad):
            wanted = "positive" if self.positive else "at least 0" if self.lowest == 0 else "a finite number"
            more = f" and {len(bad) - 1} more row{'s' if len(bad) > 2 else ''}" if len(bad) > 1 else ""
            raise InvalidInputError(
                f"y must be {wanted} for `transform={self.word!r}`, but is {y[bad[0]]:g} in row {bad[0]}{more}. "
                "Correct these rows, or take `transform='sqrt'` (of zeros), 'yeojohnson' (of any sign) or None.",
                rows=bad,
            )
        return y

    def of(self, target: str) -> str:
        """What was modelled, in words.

        Parameters
        ----------
        target : str
            The name of y.

        Returns
        -------
        str
            Such as "the logarithm of price".
        """
        return f"a transform of {target}"


class Log(Transform):
    r"""The logarithm of a positive target: effects multiply, and errors are relative.

    .. math:: z = \log y

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise.transforms import Log
    >>> mean, variance = Log().moments(np.array([0.0]), np.array([1.0]))  # log-normal
    >>> mean.round(3).tolist(), variance.round(3).tolist()
    ([1.649], [4.671])
    """

    word = "log"
    symbol = "log(y)"
    lowest = 0.0
    positive = True

    def __call__(self, y):
        return _log(y)

    def inverse(self, z):
        return np.exp(np.minimum(z, LARGEST_EXPONENT))

    def log_slope(self, y):
        return np.where(np.asarray(y) > 0, -np.maximum(_log(y), -np.finfo(float).max), -np.inf)

    def moments(self, mean, variance):
        first = np.exp(np.minimum(mean + variance / 2, LARGEST_EXPONENT))
        second = np.exp(np.minimum(2 * mean + 2 * variance, LARGEST_EXPONENT))
        return first, second * -np.expm1(-variance + 0.0 * second)

    @property
    def meaning_of_slopes(self):
        return f"of {self.symbol}: one unit more of a column with slope b multiplies y by exp(b)"

    def of(self, target):
        return f"the logarithm of {target}"


class Sqrt(Transform):
    r"""The square root of a target that is never negative: errors grow with the root of the mean.

    .. math:: z = \sqrt{y}, \qquad y = \max(z, 0)^2

    Parameters
    ----------
    least : float, optional
        A zero counts as a value between 0 and this one, whose slope would be infinite otherwise; by default half of the
        least positive target of a fit.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise.transforms import Sqrt
    >>> Sqrt().learned(np.array([0.0, 2.0, 5.0]))
    Sqrt(least=1)
    """

    word = "sqrt"
    symbol = "sqrt(y)"
    lowest = 0.0

    def __init__(self, least: float | None = None) -> None:
        self.least = _checked("least", least, 0.0, np.inf)

    def __call__(self, y):
        y = np.asarray(y, float)
        return np.sqrt(y, out=np.full(y.shape, np.nan), where=y >= 0)

    def inverse(self, z):
        return np.maximum(z, 0.0) ** 2

    def log_slope(self, y):
        y = np.asarray(y, float)
        # the mean slope between 0 and `least` is 1 / sqrt(least), that of the root at least / 4
        with np.errstate(divide="ignore"):
            return np.where(y >= 0, -np.log(2.0) - 0.5 * np.log(np.maximum(y, (self.least or 0.0) / 4)), -np.inf)

    def learned(self, y, weights=None):
        if self.least is not None:
            return self
        positive = y[y > 0]
        return type(self)(float(positive.min()) / 2 if len(positive) else 1.0)

    def moments(self, mean, variance):
        # E max(z, 0)^k is a polynomial times Phi, and one times phi
        mean = np.asarray(mean, float)
        sd = np.maximum(np.sqrt(variance), 1e-300) + 0.0 * mean
        u = mean / sd
        below = np.exp(-0.5 * u**2) / np.sqrt(2 * np.pi)
        P = ndtr(u)
        first = sd**2 * ((u**2 + 1) * P + u * below)
        second = sd**4 * ((u**4 + 6 * u**2 + 3) * P + (u**3 + 5 * u) * below)
        # far above 0 the difference cancels, and there z^2 has its own variance
        return first, np.where(u > 8, 2 * sd**4 + 4 * mean**2 * sd**2, np.maximum(second - first**2, 0.0))

    def of(self, target):
        return f"the square root of {target}"


class BoxCox(Transform):
    r"""A power of a positive target, divided such that the Jacobian of the rows of the fit is 1.

    .. math:: z = G\,\frac{(y / G)^\lambda - 1}{\lambda}, \qquad z = G \log(y / G) \text{ for } \lambda = 0

    G is the geometric mean of the targets, so evidences of different powers compare as they stand. (Y2)

    Parameters
    ----------
    power : float, optional
        Lambda, between 0 (the logarithm) and 2; 1 changes nothing. With powers below 0 a new y would have no mean. By
        default a fit chooses it.
    scale : float, optional
        G; by default that of the rows of the fit.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise.transforms import BoxCox
    >>> T = BoxCox(power=0.5).learned(np.array([1.0, 4.0, 16.0]))
    >>> T.scale, round(float(T.log_slope(np.array([1.0, 4.0, 16.0])).sum()), 9)
    (4.0, 0.0)
    """

    word = "boxcox"
    lowest = 0.0
    positive = True
    power_bounds = (0.0, 2.0)

    def __init__(self, power: float | None = None, scale: float | None = None) -> None:
        self.power = _checked("power", power, *self.power_bounds)
        self.scale = _checked("scale", scale, 0.0, np.inf)

    def _constants(self) -> tuple[float, float]:
        return 1.0 if self.power is None else self.power, self.scale or 1.0

    def __call__(self, y):
        power, G = self._constants()
        return G * _power(_log(np.asarray(y) / G), power)

    def inverse(self, z):
        power, G = self._constants()
        return G * np.exp(np.minimum(_unpower(np.asarray(z) / G, power), LARGEST_EXPONENT))

    def log_slope(self, y):
        power, G = self._constants()
        y = np.asarray(y, float)
        return np.where(y > 0, (power - 1) * np.log(np.where(y > 0, y, G) / G), -np.inf)

    def learned(self, y, weights=None):
        if self.scale is not None:
            return self
        return type(self)(self.power, float(np.exp(np.average(np.log(y), weights=weights))))

    def of(self, target):
        return f"the power {self._constants()[0]:.2g} of {target} (Box-Cox)"


class YeoJohnson(Transform):
    r"""A transform of targets of any sign that draws one long tail in.

    .. math:: z = \frac{(1 + x)^\lambda - 1}{\lambda} \text{ for } x \ge 0, \qquad
        z = -\frac{(1 - x)^{2 - \lambda} - 1}{2 - \lambda} \text{ for } x < 0, \qquad x = (y - c) / s

    Powers below 1 draw in large targets, above 1 small ones; at 0 and 2 with a logarithm.

    Parameters
    ----------
    power : float, optional
        Lambda, between 0 and 2; 1 changes nothing. By default a fit chooses it.
    centre, scale : float, optional
        c and s; by default median and standard deviation of the targets of a fit, so that their units do not matter.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise.transforms import YeoJohnson
    >>> T = YeoJohnson(power=0.0, centre=0.0, scale=1.0)
    >>> T(np.array([-1.0, 0.0, 1.0])).round(3).tolist()  # -(2^2 - 1) / 2, 0, log 2
    [-1.5, 0.0, 0.693]
    """

    word = "yeojohnson"
    power_bounds = (0.0, 2.0)

    def __init__(self, power: float | None = None, centre: float | None = None, scale: float | None = None) -> None:
        self.power = _checked("power", power, *self.power_bounds)
        self.centre = _checked("centre", centre, -np.inf, np.inf)
        self.scale = _checked("scale", scale, 0.0, np.inf)

    def _constants(self) -> tuple[float, float, float]:
        return 1.0 if self.power is None else self.power, self.centre or 0.0, self.scale or 1.0

    def __call__(self, y):
        power, centre, scale = self._constants()
        x = (np.asarray(y, float) - centre) / scale
        size = np.log1p(np.abs(x))
        return np.where(x >= 0, _power(size, power), -_power(size, 2 - power))

    def inverse(self, z):
        power, centre, scale = self._constants()
        z = np.asarray(z, float)
        above, below = (_unpower(np.abs(z), own) for own in (power, 2 - power))
        x = np.where(
            z >= 0, np.expm1(np.minimum(above, LARGEST_EXPONENT)), -np.expm1(np.minimum(below, LARGEST_EXPONENT))
        )
        return centre + scale * x

    def log_slope(self, y):
        power, centre, scale = self._constants()
        x = (np.asarray(y, float) - centre) / scale
        return (power - 1) * np.sign(x) * np.log1p(np.abs(x)) - np.log(scale)

    def learned(self, y, weights=None):
        if self.centre is not None and self.scale is not None:
            return self
        y = np.asarray(y, float)
        mean = np.average(y, weights=weights)
        scale = float(np.sqrt(np.average((y - mean) ** 2, weights=weights))) or 1.0
        order = np.argsort(y, kind="stable")
        share = np.cumsum(np.ones(len(y)) if weights is None else weights[order])
        middle = order[np.searchsorted(share, share[-1] / 2)]
        centre = float(y[middle]) if self.centre is None else self.centre
        return type(self)(self.power, centre, scale if self.scale is None else self.scale)

    def of(self, target):
        return f"the Yeo-Johnson transform of {target} with power {self._constants()[0]:.2g}"


#: the transforms by the words of the setting
TRANSFORMS: dict[str, type[Transform]] = {word: globals()[cls] for word, cls in names.TRANSFORMS.items()}


def transform_named(word: Any) -> Transform:
    """Return the transform of this name, with its constants left to the data.

    Parameters
    ----------
    word : str
        One of "log", "sqrt", "boxcox" and "yeojohnson".

    Returns
    -------
    Transform
        A new object.

    Examples
    --------
    >>> from knotwise.transforms import transform_named
    >>> transform_named("log")
    Log()
    """
    if not isinstance(word, str) or word not in TRANSFORMS:
        raise unknown_option("`transform`", word, ["auto", *TRANSFORMS])
    return TRANSFORMS[word]()


def _log(y: Any) -> np.ndarray:
    """log y, and NaN below 0, -inf at 0, without a warning."""
    y = np.asarray(y, float)
    return np.log(y, out=np.where(y == 0, -np.inf, np.nan), where=y > 0)


def _power(log_y: np.ndarray, power: float) -> np.ndarray:
    """(y^power - 1) / power, and log y for a power of 0."""
    return log_y if power == 0 else np.expm1(power * log_y) / power


def _unpower(z: np.ndarray, power: float) -> np.ndarray:
    """The logarithm of y with z = (y^power - 1) / power; -inf below its range."""
    if power == 0:
        return z
    with np.errstate(divide="ignore"):
        return np.log1p(np.maximum(power * z, -1.0)) / power


def _normal_rule() -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights [m] that integrate against N(0, 1), exact to rounding for smooth functions."""
    cuts = np.linspace(-REACH, REACH, N_PANELS + 1)
    half = 0.5 * np.diff(cuts)[:, None]
    u = (cuts[:-1, None] + half + half * PANEL_NODES).ravel()
    weights = (half * PANEL_WEIGHTS).ravel() * np.exp(-0.5 * u**2)
    return u, weights / weights.sum()


def _checked(name: str, value: Any, low: float, high: float) -> float | None:
    """A constant of a transform, None where it is left to the data."""
    if value is None:
        return None
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    strict = name == "scale"
    if not number or not np.isfinite(value) or not low <= value <= high or (strict and value <= 0):
        between = f" between {low:g} and {high:g}" if np.isfinite(high) else " above 0" if strict else ""
        raise InvalidInputError(f"`{name}` of a transform is {value!r}; it must be a finite number{between}, or None.")
    return float(value)
