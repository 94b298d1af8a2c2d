"""Priors of parameters: what optimisers add to the log evidence. Tests of signal, and users, see the evidence alone.

Optimisers work with theta, the logarithm of a positive parameter. Each class here but `PCSd` is a normalised density of
theta: that of the parameter, or of its standard deviation or range, times the Jacobian (docs/derivations/priors.md). So
its value does not depend on units. `PCSd` is a penalty without Jacobian.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from math import exp, inf, isfinite, lgamma, log, pi, sqrt
from numbers import Real
from typing import Any, TypeVar

from knotwise.errors import InvalidInputError
from knotwise.numerics.parameters import Parameter

__all__ = ["HalfNormal", "InverseGamma", "LogNormal", "PCRange", "PCSd"]

P = TypeVar("P", bound="PositivePrior")
#: columns in which a penalised-complexity prior of the range is known
MOST_COLUMNS = 3


def _exp(x: float) -> float:
    return exp(x) if x < 709.0 else inf


class PositivePrior:
    """What the priors of positive parameters share; frozen dataclasses of positive numbers."""

    def __post_init__(self) -> None:
        wrong = [f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if not self._allows(f.name)]  # type: ignore[arg-type]
        if wrong:
            raise InvalidInputError(
                f"{type(self).__name__} has {' and '.join(wrong)}; its arguments must be positive numbers"
                f"{', and `prob` below 1' if hasattr(self, 'prob') else ''}."
            )

    def _allows(self, name: str) -> bool:
        value: Any = getattr(self, name)
        if not isinstance(value, Real) or isinstance(value, bool):
            return False
        number = float(value)
        return isfinite(number) and number > 0 and (name != "prob" or number < 1)

    @property
    def words(self) -> str:
        """What the prior says, in words and numbers, as `summary()` shows it."""
        raise NotImplementedError(f"{type(self).__name__} must define `words`.")

    def log_density(self, theta: float) -> tuple[float, float]:
        """Log density at theta, the logarithm of the parameter, and its derivative.

        Parameters
        ----------
        theta : float
            Logarithm of the parameter.

        Returns
        -------
        value : float
            Log density of theta, with all constants but those of a penalty.
        derivative : float
            Its derivative in theta.
        """
        raise NotImplementedError(f"{type(self).__name__} must define `log_density`.")

    def in_units(self: P, factor: float) -> P:
        """The same prior in other units, in which the parameter is times a factor.

        Parameters
        ----------
        factor : float
            What a value in these units is to be multiplied with.

        Returns
        -------
        prior
            One of the same class, whose density at log(factor) + theta is that of this one at theta.

        Examples
        --------
        >>> from knotwise.priors import LogNormal
        >>> LogNormal(median=2.0, spread=1.0).in_units(1000.0)  # from kilometres to metres
        LogNormal(median=2000.0, spread=1.0)
        """
        raise NotImplementedError(f"{type(self).__name__} must define `in_units`.")

    def about(self: P, parameter: Parameter) -> P:
        """The prior of this parameter, with what depends on the kind of parameter; an error where it is none.

        Parameters
        ----------
        parameter : Parameter
            What it is to be a prior of: its role, its units and its columns.

        Returns
        -------
        prior
            One of the same class.

        Examples
        --------
        >>> from knotwise.likelihoods import Parameter
        >>> from knotwise.priors import HalfNormal
        >>> HalfNormal(2.0).about(Parameter("noise_sd", role="noise", units="y")).share  # a deviation, not a variance
        1.0
        """
        if not parameter.positive:
            raise InvalidInputError(
                f"`priors` has a {type(self).__name__} for `{parameter.name}`, which can be negative: it is for "
                "positive parameters. Use a prior of your own, an object with `log_density(theta)`."
            )
        return self


class SdPrior(PositivePrior):
    """A prior of the standard deviation exp(share theta) of a variance, or of a deviation itself."""

    share: float

    def about(self: P, parameter: Parameter) -> P:
        if parameter.role not in ("amplitude", "nugget", "noise") or parameter.direction < 0:
            raise InvalidInputError(
                f"`priors` has a {type(self).__name__} for `{parameter.name}`, but it is for a variance or a standard "
                "deviation: an amplitude, a nugget or noise. Use LogNormal(median, spread)."
            )
        share = {1: 1.0, 2: 0.5}.get(parameter.y_power)
        return self if share is None else replace(self, share=share)  # type: ignore[type-var]


@dataclass(frozen=True)
class LogNormal(PositivePrior):
    """A normal density of the logarithm of a parameter (H2).

    Parameters
    ----------
    median : float
        In the units of the parameter; for length-scales and periods those of their column.
    spread : float
        Standard deviation of the logarithm: with 1, two thirds lie within a factor of e = 2.7.

    Examples
    --------
    >>> from knotwise.priors import LogNormal
    >>> round(LogNormal(median=1.0, spread=1.0).log_density(0.0)[0], 3)
    -0.919
    """

    median: float
    spread: float

    @property
    def words(self) -> str:
        return f"log-normal with median {self.median:.4g}, spread {self.spread:.4g} of the logarithm"

    def log_density(self, theta: float) -> tuple[float, float]:
        z = (theta - log(self.median)) / self.spread
        return -0.5 * z * z - log(self.spread * sqrt(2 * pi)), -z / self.spread

    def in_units(self, factor: float) -> LogNormal:
        return replace(self, median=self.median * factor)


@dataclass(frozen=True)
class HalfNormal(SdPrior):
    """A half-normal density of a standard deviation, for the parameter that is its square (H3).

    It is on theta's scale, with the Jacobian; so its mode is where the standard deviation is `scale`.

    Parameters
    ----------
    scale : float
        Standard deviations are below it with probability 0.68, below twice it with 0.95; in the units of y.
    share : float, default 0.5
        The standard deviation is exp(share theta): 1/2 for the logarithm of a variance, 1 for that of a deviation.
        An estimator sets it by the units of the parameter.

    Examples
    --------
    >>> from knotwise.priors import HalfNormal
    >>> HalfNormal(scale=2.0).log_density(0.0)[1]
    0.375
    """

    scale: float
    share: float = 0.5

    @property
    def words(self) -> str:
        return f"standard deviation half-normal with scale {self.scale:.4g}"

    def log_density(self, theta: float) -> tuple[float, float]:
        z2 = _exp(2 * (self.share * theta - log(self.scale)))
        constant = 0.5 * log(2 / pi) + log(self.share) - log(self.scale)
        return constant + self.share * theta - 0.5 * z2, self.share * (1.0 - z2)

    def in_units(self, factor: float) -> HalfNormal:
        return replace(self, scale=self.scale * factor**self.share)


@dataclass(frozen=True)
class InverseGamma(PositivePrior):
    """An inverse gamma density of a parameter, which keeps it away from 0 (H4).

    Parameters
    ----------
    shape : float
        The larger, the narrower; the tail towards large values falls with this power.
    scale : float
        In the units of the parameter; on theta's scale the mode is at scale / shape.

    Examples
    --------
    >>> from knotwise.priors import InverseGamma
    >>> round(InverseGamma(shape=3.0, scale=6.0).log_density(0.0)[1], 12)
    3.0
    """

    shape: float
    scale: float

    @property
    def words(self) -> str:
        return f"inverse gamma with shape {self.shape:.4g}, scale {self.scale:.4g}"

    def log_density(self, theta: float) -> tuple[float, float]:
        t = log(self.scale) - theta
        z = _exp(t)
        return self.shape * t - z - lgamma(self.shape), z - self.shape

    def in_units(self, factor: float) -> InverseGamma:
        return replace(self, scale=self.scale * factor)


@dataclass(frozen=True)
class PCSd(SdPrior):
    """A penalty on the standard deviation of the latent function, which a simpler one does not pay (H5).

    It is -lambda sd with lambda = -log(prob) / upper, the penalised-complexity prior with P(sd > upper) = prob. It is a
    density of the standard deviation, taken without the Jacobian of the scale on which optimisers work, which would
    push a small standard deviation up. It is no default: see `docs/how-to-choose.md`.

    Parameters
    ----------
    upper : float, default 30.0
        A standard deviation that is hardly exceeded, in the units of y; on a link's scale 30 is certainty already.
    prob : float, default 0.05
        The probability that it is exceeded.
    share : float, default 0.5
        The standard deviation is exp(share theta): 1/2 for the logarithm of a variance, 1 for that of a deviation.
        An estimator sets it by the units of the parameter.

    Examples
    --------
    >>> from knotwise.priors import PCSd
    >>> round(PCSd(upper=30, prob=0.05).log_density(0.0)[0], 3)
    -0.1
    """

    upper: float = 30.0
    prob: float = 0.05
    share: float = 0.5

    @property
    def words(self) -> str:
        return f"P(standard deviation > {self.upper:.4g}) = {self.prob:.4g}"

    def log_density(self, theta: float) -> tuple[float, float]:
        value = log(self.prob) / self.upper * _exp(self.share * theta)
        return value, self.share * value

    def in_units(self, factor: float) -> PCSd:
        return replace(self, upper=self.upper * factor**self.share)


@dataclass(frozen=True)
class PCRange(PositivePrior):
    """The penalised-complexity prior of a range: short ranges are unlikely, long ones are not (H6).

    The range is the distance at which a correlation of 0.14 is left: two length-scales of every Matern kernel and of
    the squared exponential. The prior is for maps: up to 3 columns, which share the length-scale. It is on theta's
    scale, with the Jacobian.

    Parameters
    ----------
    lower : float
        A range that is hardly undercut, in the units of the columns.
    prob : float, default 0.05
        The probability that it is.
    columns : int, default 1
        How many columns the length-scale is about, 1 to 3. An estimator sets it.
    factor : float, default 1.0
        The range over the length-scale. An estimator sets it by the kernel.

    Examples
    --------
    >>> from knotwise.priors import PCRange
    >>> round(PCRange(lower=0.5, prob=0.05, columns=2).log_density(0.0)[1], 3)
    0.498
    """

    lower: float
    prob: float = 0.05
    columns: int = 1
    factor: float = 1.0

    def _allows(self, name: str) -> bool:
        return super()._allows(name) and (name != "columns" or self.columns in (1, 2, 3))

    @property
    def words(self) -> str:
        of = f"{self.columns} columns, range = " if self.columns > 1 else "range = "
        return f"P(range < {self.lower:.4g}) = {self.prob:.4g} ({of}{self.factor:.4g} length-scales)"

    def log_density(self, theta: float) -> tuple[float, float]:
        half = self.columns / 2
        t = log(-log(self.prob)) + half * (log(self.lower) - log(self.factor) - theta)
        z = _exp(t)  # lambda range^(-D/2)
        return log(half) + t - z, half * (z - 1.0)

    def in_units(self, factor: float) -> PCRange:
        return replace(self, lower=self.lower * factor)

    def about(self, parameter: Parameter) -> PCRange:
        what = f"`priors` has a PCRange for `{parameter.name}`"
        if parameter.role != "lengthscale" or parameter.range_factor is None:
            raise InvalidInputError(
                f"{what}, but it is for the length-scale of a Matern or squared exponential kernel, of which the range "
                "is known. Use LogNormal(median, spread)."
            )
        if not 1 <= len(parameter.columns) <= MOST_COLUMNS:
            raise InvalidInputError(
                f"{what}, which is about {len(parameter.columns)} columns, but it is for {MOST_COLUMNS} columns at "
                "most. Use LogNormal(median, spread), or a kernel on fewer columns (`.on([...])`)."
            )
        return replace(self, columns=len(parameter.columns), factor=parameter.range_factor)
