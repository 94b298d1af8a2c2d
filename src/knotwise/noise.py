"""The noise of Gaussian data: a variance for each row, as a part of the model.

A `Noise` gives the variance of the noise at rows and pulls the adjoint of these variances back to its parameters.
`ConstantNoise` is one number that is learned, `KnownNoise` the numbers that came with the rows. A noise variance that
is a function of the inputs is one more class: `Gaussian(noise_variance=...)` takes it, and the engine does not change.
`Nugget` is independent noise of the latent function, for data that are not Gaussian.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeVar

import numpy as np

from knotwise.docstrings import documented
from knotwise.errors import warn
from knotwise.numerics.parameters import Parameter
from knotwise.numerics.part import Part

__all__ = [
    "NOISE_FLOOR",
    "NO_NOISE",
    "ConstantNoise",
    "Inputs",
    "KnownNoise",
    "NoNugget",
    "Noise",
    "NoisyRows",
    "Nugget",
]

#: smallest noise variance, relative to the variance of the data: sites need a finite precision
NOISE_FLOOR = 1e-8

#: a noise variance below this share of the variance of the data is none: beside a kernel's diagonal it has no digits
NO_NOISE = 1e-15

N = TypeVar("N", bound="Noise")
#: what methods of a noise say of their arguments
ARGUMENTS = {
    "rows": (
        "object",
        "With inputs `X` [n, D] in the units of the model, and known noise `noise_variance` [n] or None.",
    ),
    "variance": ("float", "Variance of the targets."),
}


class NoisyRows(Protocol):
    """What a noise sees of rows: inputs X [n, D] and the known noise variances [n], or None."""

    @property
    def X(self) -> np.ndarray: ...

    @property
    def noise_variance(self) -> np.ndarray | None: ...


@dataclass(frozen=True)
class Inputs:
    """Inputs X [n, D] of rows that are not observed yet."""

    X: np.ndarray
    noise_variance: np.ndarray | None = None


@documented(ARGUMENTS)
class Noise(Part):
    """The variance of independent Gaussian noise at each row: a function of the row and of the part's parameters.

    A noise of one's own declares `parameters` and gives `variance`, `pullback`, `start` and `bounds`; it stands in
    `Gaussian(noise_variance=...)`.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise.noise import ConstantNoise, Inputs
    >>> noise, rows = ConstantNoise(0.5), Inputs(np.zeros((3, 1)))
    >>> noise.variance(rows), noise.pullback(rows, np.ones(3)).tolist()  # theta is the logarithm
    (0.5, [1.5])
    >>> ConstantNoise().start(variance=4.0), noise.bounds(variance=4.0).tolist()
    (ConstantNoise(noise_variance=0.4), [[4e-08, 40.0]])
    """

    def variance(self, rows: NoisyRows) -> np.ndarray | float:
        """Noise variance of the rows, in the units of y squared.

        Returns
        -------
        array [n] or float
            One number where it is the same for all rows.
        """
        raise NotImplementedError

    def pullback(self, rows: NoisyRows, variance_bar: np.ndarray) -> np.ndarray:
        """Gradient in theta of something whose gradient in the variances is known.

        Parameters
        ----------
        variance_bar : array [n]
            The adjoint of the variance of each row.

        Returns
        -------
        array [Q]
            One for each entry of theta: in the logarithm of a positive parameter.
        """
        raise NotImplementedError

    def start(self: N, variance: float) -> N:
        """The noise with values for all parameters.

        Returns
        -------
        Noise
            With what is given, and starts for what is None.
        """
        raise NotImplementedError

    def bounds(self, variance: float) -> np.ndarray:
        """Bounds of the parameters.

        Returns
        -------
        array [Q, 2]
            Natural values, lower and upper.
        """
        raise NotImplementedError


class ConstantNoise(Noise):
    """One noise variance for all rows; exactly 0 is allowed, and a fit raises it to the floor."""

    parameters = (Parameter("noise_variance", role="noise", units="y^2"),)

    def __init__(self, noise_variance: float | None = None) -> None:
        self.noise_variance = noise_variance
        self.validate()

    def validate(self) -> None:
        if np.shape(self.noise_variance) or self.noise_variance != 0:  # type: ignore[arg-type]
            super().validate()

    def variance(self, rows: NoisyRows) -> float:
        return float(self.value("noise_variance"))

    def pullback(self, rows: NoisyRows, variance_bar: np.ndarray) -> np.ndarray:
        return np.array([float(self.value("noise_variance")) * variance_bar.sum()])  # theta is the logarithm

    def start(self, variance: float) -> ConstantNoise:
        if self.noise_variance is None:
            return ConstantNoise(variance / 10)
        if self.noise_variance > NO_NOISE * variance:
            return self
        warn(
            f"A noise variance of {self.noise_variance:.1g} cannot be used: it was raised to the floor of "
            f"{NOISE_FLOOR:.0e} times the variance of y."
        )
        return ConstantNoise(NOISE_FLOOR * variance)

    def bounds(self, variance: float) -> np.ndarray:
        return variance * np.array([[NOISE_FLOOR, 10.0]])


class KnownNoise(Noise):
    """Noise variances that came with the rows; no parameter. Those of one replicate: a sample weight k divides them by
    k where a row is the mean of its replicates (S18), and that is the rows' affair.
    """

    def variance(self, rows: NoisyRows) -> np.ndarray:
        assert rows.noise_variance is not None
        return rows.noise_variance

    def pullback(self, rows: NoisyRows, variance_bar: np.ndarray) -> np.ndarray:
        return np.empty(0)

    def start(self, variance: float) -> KnownNoise:
        return self

    def bounds(self, variance: float) -> np.ndarray:
        return np.empty((0, 2))


class Nugget(Part):
    """Independent Gaussian noise of this variance on the latent function at every datum.

    It stays outside the power: inside the residual variance, every alpha < 1 would drive it to zero.
    """

    parameters: ClassVar[tuple[Parameter, ...]] = (Parameter("nugget", role="nugget", units="y^2"),)

    def __init__(self, nugget: float | None = None) -> None:
        self.nugget = nugget
        self.validate()

    @property
    def variance(self) -> float:
        return float(self.value("nugget"))

    def start(self, variance: float) -> Nugget:
        """Return the nugget with a value, for a latent function of this variance."""
        return Nugget(variance / 10 if self.nugget is None else self.nugget)

    def bounds(self, variance: float) -> np.ndarray:
        return variance * np.array([[1e-6, 1e2]])


class NoNugget(Nugget):
    """No independent latent noise, and no parameter for it."""

    parameters = ()

    def __init__(self) -> None:
        pass

    @property
    def variance(self) -> float:
        return 0.0

    def start(self, variance: float) -> NoNugget:
        return self

    def bounds(self, variance: float) -> np.ndarray:
        return np.empty((0, 2))
