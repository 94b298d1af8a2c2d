"""Units: between the user's inputs and targets and the engine's, which are centred and scaled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from knotwise.errors import InvalidInputError, unknown_option
from knotwise.evidence import Model
from knotwise.means import Constant
from knotwise.numerics.parameters import ParameterTable

__all__ = ["Scaling"]


@dataclass(frozen=True)
class Scaling:
    """x_engine = (x - x_centre) / x_scale, y_engine = (y - y_centre) / y_scale.

    Scaling by powers of two is exact in floating point, so it changes no bit of a fit.
    """

    x_centre: np.ndarray
    x_scale: np.ndarray
    y_centre: float
    y_scale: float

    @staticmethod
    def of(
        X: np.ndarray,
        y: np.ndarray,
        standardize: str | bool,
        *,
        targets: bool = True,
        weights: np.ndarray | None = None,
    ) -> Scaling:
        """Centre and scale from data: per column, one scale in common, or none; `targets` too, or not."""
        D = X.shape[1]
        if standardize is False:
            return Scaling(np.zeros(D), np.ones(D), 0.0, 1.0)
        if standardize not in ("columns", "common"):
            raise unknown_option("`standardize`, where it is not False,", standardize, ["columns", "common"])
        centre = np.average(X, axis=0, weights=weights)
        spread = _spread(X - centre, weights)
        if standardize == "common":
            positive = spread[spread > 0]
            spread = np.full(D, np.sqrt((positive**2).mean()) if len(positive) else 1.0)
        # a constant column, up to the rounding of its mean, stays constant
        spread = np.where(spread > 1e-12 * np.abs(centre), spread, 1.0)
        if not targets:
            return Scaling(centre, spread, 0.0, 1.0)
        if y.min() == y.max():
            return Scaling(centre, spread, float(y[0]), 1.0)
        y_centre = float(np.average(y, weights=weights))
        y_scale = float(_spread((y - y_centre)[:, None], weights)[0])
        if not 1e-150 < y_scale < 1e150:
            raise InvalidInputError(
                f"The standard deviation of y is {y_scale:.1e}, so that its square is no number. Use other units."
            )
        return Scaling(centre, spread, y_centre, y_scale if y_scale > 1e-12 * abs(y_centre) else 1.0)

    def inputs(self, X: np.ndarray) -> np.ndarray:
        """The user's inputs in the engine's units."""
        return (X - self.x_centre) / self.x_scale

    def inputs_back(self, Z: np.ndarray) -> np.ndarray:
        """Knots in the user's units."""
        return Z * self.x_scale + self.x_centre

    def targets(self, y: np.ndarray) -> np.ndarray:
        """The user's targets in the engine's units."""
        return (y - self.y_centre) / self.y_scale

    def to_engine(self, model: Model) -> Model:
        """The model of y_engine, from the model of the user's y."""
        return self._rescaled(model, 1.0 / self.y_scale**2, lambda m: (m - self.y_centre) / self.y_scale)

    def to_user(self, model: Model) -> Model:
        """The model of the user's y, from the model of y_engine."""
        return self._rescaled(model, self.y_scale**2, lambda m: m * self.y_scale + self.y_centre)

    @staticmethod
    def _rescaled(model: Model, factor: float, move: Callable[[float], float]) -> Model:
        mean = model.mean
        if isinstance(mean, Constant) and mean.mean is not None:
            mean = Constant(move(mean.mean))
        return replace(
            model,
            kernel=model.kernel.scaled(factor),
            likelihood=model.likelihood.scaled(factor),
            mean=mean,
            nugget=model.nugget.scaled(factor),
        )

    def table_to_user(self, table: ParameterTable, model: Model) -> ParameterTable:
        """A table of the engine's parameters in the user's units."""
        factor, offset = self._parameter_units(model)
        return replace(
            table,
            values=table.values * factor + offset,
            lower=table.lower * factor + offset,
            upper=table.upper * factor + offset,
        )

    def theta_to_engine(self, table: ParameterTable, model: Model, theta: np.ndarray) -> np.ndarray:
        """A vector theta of the user's in the engine's units."""
        factor, offset = self._parameter_units(model)
        user = table.with_theta(theta).values
        return replace(table, values=(user - offset) / factor).theta

    def bounds_to_engine(self, model: Model, entry: int, bound: float) -> float:
        """A bound of the user's for one entry of theta, in the engine's units."""
        factor, offset = self._parameter_units(model)
        return float((bound - offset[entry]) / factor[entry])

    def gradient_to_user(self, model: Model, gradient: np.ndarray) -> np.ndarray:
        """A gradient in the engine's theta as one in the user's: logarithms differ by constants only."""
        p = sum(model.sizes)
        return np.concatenate([gradient[:p], gradient[p:] / self.y_scale])

    def _parameter_units(self, model: Model) -> tuple[np.ndarray, np.ndarray]:
        """Natural values in the user's units are those in the engine's times a factor plus an offset."""
        p = sum(model.sizes)
        shift = self.to_user(model).theta[:p] - model.theta[:p]  # 0, or log y_scale^2 for a variance
        n_mean = model.mean.size
        return (
            np.concatenate([np.exp(shift), np.full(n_mean, self.y_scale)]),
            np.concatenate([np.zeros(p), np.full(n_mean, self.y_centre)]),
        )


def _spread(centred: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Root mean square of each column, without over- or underflow."""
    largest = np.abs(centred).max(0)
    unit = np.exp2(np.ceil(np.log2(np.where(largest > 0, largest, 1.0))))
    return unit * np.sqrt(np.average((centred / unit) ** 2, axis=0, weights=weights))
