"""Prior means: zero, a constant, or a linear function whose coefficients are integrated out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from knotwise.errors import InvalidInputError, unknown_option
from knotwise.numerics.parameters import Parameter
from knotwise.numerics.part import Part
from knotwise.numerics.weighted import mean_and_variance

__all__ = ["Constant", "Linear", "Mean", "Zero", "mean_from"]


class Mean(Part):
    """The prior mean of the latent function: an offset, and basis rows with random coefficients.

    `basis(X)` is Phi S^(1/2), [N, p], for coefficients with prior covariance S. Its rows join those of V (S16),
    so that the coefficients' uncertainty is part of every prediction.
    """

    offset: float = 0.0

    def bind(self, X: np.ndarray, second_moment: float, level: float = 0.0, weights: np.ndarray | None = None) -> Mean:
        """Return the mean for these inputs, a latent function near `level`, and targets with this mean square.

        `weights` [N] say how often each row of the inputs counts.
        """
        return self

    def basis(self, X: np.ndarray) -> np.ndarray:
        return np.empty((len(X), 0))


class Zero(Mean):
    """Prior mean 0."""


class Constant(Mean):
    """A constant prior mean, learned unless it is held."""

    parameters = (Parameter("mean", transform="identity", role="mean", units="y"),)

    def __init__(self, mean: float | None = None) -> None:
        self.mean = mean
        self.validate()

    @property
    def offset(self) -> float:  # type: ignore[override]
        return 0.0 if self.mean is None else self.mean

    def bind(self, X, second_moment, level=0.0, weights=None):
        return Constant(level) if self.mean is None else self


class Linear(Mean):
    """A linear trend with Gaussian coefficients that are integrated out.

    Columns are centred and scaled first, so that one prior standard deviation, `prior_sd` times the root mean
    square of the targets (1 on a link's scale), fits every slope and the intercept's distance from the data's level.
    """

    def __init__(self, prior_sd: float = 10.0) -> None:
        self.prior_sd = prior_sd
        self.centre = np.zeros(0)
        self.scale = np.zeros(0)
        self.intercept_sd = 0.0

    def bind(self, X, second_moment, level=0.0, weights=None):
        new = Linear(self.prior_sd)
        new.offset = level
        new.centre, variance = mean_and_variance(X, weights)
        new.intercept_sd = self.prior_sd * np.sqrt(second_moment)
        spread = np.sqrt(variance)
        new.scale = new.intercept_sd / np.where(spread > 0, spread, 1.0)
        return new

    def basis(self, X):
        return np.column_stack([np.full(len(X), self.intercept_sd), (X - self.centre) * self.scale])


def mean_from(given: str | float | Mean) -> Mean:
    """Turn the `mean` option of an estimator into a Mean."""
    # 0 in the user's units, so a number that is held: the engine's 0 is the mean of y
    names: dict[str, Callable[[], Mean]] = {"zero": lambda: Constant(0.0), "constant": Constant, "linear": Linear}
    if isinstance(given, Mean):
        return given
    if isinstance(given, str):
        if given not in names:
            raise unknown_option("`mean`", given, names)
        return names[given]()
    try:
        return Constant(float(given))
    except (TypeError, ValueError):
        raise InvalidInputError(f"`mean` is {given!r}; it must be 'zero', 'constant', 'linear' or a number.") from None
