"""What a map shows at a place: mean, standard deviation, interval and exceedance of a model's response."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from knotwise.data.exposure import per_unit, require
from knotwise.errors import InvalidInputError
from knotwise.estimators.total_samples import Response
from knotwise.likelihoods.counts import Counts
from knotwise.likelihoods.multiplicative import Multiplicative
from knotwise.likelihoods.response import response_moments

__all__ = ["Surface", "spread_of_mean"]


@dataclass(frozen=True)
class Surface:
    """What is asked of a model at the places of a grid."""

    model: Any
    kind: str
    level: float
    threshold: float | None
    sizes: dict[str, float]

    @staticmethod
    def of(gp: Any, kind: str, level: float, threshold: float | None, sizes: dict[str, Any]) -> Surface:
        """Check what is asked; of a classifier it is the model of its second class."""
        wide = [name for name, size in sizes.items() if np.ndim(size)]
        if wide:
            raise InvalidInputError(f"`{wide[0]}` has shape {np.shape(sizes[wide[0]])}; a map has one for all cells.")
        model = gp
        if hasattr(gp, "models_"):
            if len(gp.models_) > 1 or kind == "observation":
                raise InvalidInputError(
                    "A map is of the probability of the second of two classes, with `kind='mean'`. For one of several "
                    "classes put `gp.predict_proba(X)` on a grid, or fit this class against the rest."
                )
            model = gp.models_[0]
        if kind == "observation":
            sizes = require(model, "predict_grid(gp, kind='observation'", **sizes)
        return Surface(model, kind, level, threshold, {name: size for name, size in sizes.items() if size is not None})

    @property
    def names(self) -> list[str]:
        """The variables of the map."""
        return ["mean", "sd", "lower", "upper", *([] if self.threshold is None else ["exceedance"])]

    @property
    def facts(self) -> dict[str, Any]:
        """What the numbers are, for the attributes of a dataset."""
        of = {"mean": "the mean response", "observation": "a new observation"}[self.kind]
        facts = {"description": f"Posterior of {of}.", "level": self.level} | self.sizes
        return facts | ({} if self.threshold is None else {"threshold": self.threshold})

    def at(self, X: Any) -> dict[str, np.ndarray]:
        """The variables at rows, [n] each."""
        model, known = self.model, self.sizes
        sizes = {name: size for name, size in known.items() if name != "noise_variance"}
        if self.kind == "observation":
            mean, sd = model.predict(X, return_std=True, **known)
        else:
            mean, sd = model.predict(X, **per_unit(model, **known)), spread_of_mean(model, X, **sizes)
        lower, upper = model.predict_interval(X, self.level, self.kind, **known).T
        found = {"mean": mean, "sd": sd, "lower": lower, "upper": upper}
        if self.threshold is not None:
            found["exceedance"] = model.predict_exceedance(X, self.threshold, **sizes)
        return found


def spread_of_mean(model: Any, X: Any, **sizes: float) -> np.ndarray:
    """Posterior standard deviation of the mean response, whose expectation is that of `predict`, [n]."""
    likelihood, mean, variance, size = model._response(X, **sizes)
    response = MeanResponse(likelihood, float(model.nugget_), "mean")
    if isinstance(likelihood, Counts | Multiplicative):  # the mean response is log-normal
        return response.mean(mean + variance / 2, size) * np.sqrt(np.expm1(variance))
    return np.sqrt(response_moments(response, mean, variance, size)[1])  # type: ignore[arg-type]


class MeanResponse(Response):
    """The mean response as if it were observed, without noise: its moments are those of an observation."""

    def conditional_mean(self, f: np.ndarray, size: np.ndarray) -> np.ndarray:
        return self.mean(f, size)

    def conditional_variance(self, f: np.ndarray, size: np.ndarray) -> np.ndarray:
        return np.zeros(np.shape(f))
