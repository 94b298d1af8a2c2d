"""What a map shows at a place: mean, standard deviation, interval and exceedance of a model's response."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from knotwise.data.exposure import require
from knotwise.errors import InvalidInputError
from knotwise.estimators.total_law import Response
from knotwise.likelihoods.response import response_moments
from knotwise.prediction import Prediction


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
        prediction = self.model._prediction(X, **self.sizes)
        lower, upper = prediction.interval(self.level, self.kind).T
        sd = prediction.std if self.kind == "observation" else spread_of_mean(prediction)
        found = {"mean": prediction.mean, "sd": sd, "lower": lower, "upper": upper}
        if self.threshold is not None:
            found["exceedance"] = prediction.exceedance(self.threshold)
        return found


def spread_of_mean(prediction: Prediction) -> np.ndarray:
    """Posterior standard deviation of the mean response, [n]."""
    (part,) = prediction.components
    latent, response = part.latent, MeanResponse(part.likelihood, float(part.nugget), "mean")
    if part.likelihood.log_link:  # the mean response is log-normal
        mean = response.mean(latent.mean + latent.variance / 2, np.asarray(prediction.size))
        return mean * np.sqrt(np.expm1(latent.variance))
    moments = response_moments(response, latent.mean, latent.variance, prediction.size)  # type: ignore[arg-type]
    return np.sqrt(moments[1])


class MeanResponse(Response):
    """The mean response as if it were observed, without noise: its moments are those of an observation."""

    def conditional_mean(self, f: np.ndarray, size: np.ndarray) -> np.ndarray:
        return self.mean(f, size)

    def conditional_variance(self, f: np.ndarray, size: np.ndarray) -> np.ndarray:
        return np.zeros(np.shape(f))
