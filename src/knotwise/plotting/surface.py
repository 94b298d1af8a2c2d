"""What a map can show: one value of the posterior at each point, its name, and its colours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from knotwise.errors import InvalidInputError, unknown_option
from knotwise.plotting.style import MAP_OF_SPREAD, MAP_OF_VALUES
from knotwise.plotting.view import View

if TYPE_CHECKING:
    from knotwise.prediction import Prediction

WHATS = (
    "mean", "sd", "intensity", "intensity_sd", "intensity_cv", "probability", "lower", "upper", "exceedance"
)  # fmt: skip


@dataclass(frozen=True)
class Surface:
    """Values at points, [n], with what to write beside the colour bar; `limits` where they are known beforehand.

    `positive` says that what is shown is above 0 by its nature, so that its ratios mean something.
    """

    what: str
    values: np.ndarray
    label: str
    cmap: str = MAP_OF_VALUES
    limits: tuple[float, float] | None = None
    positive: bool = False


def surface_of(
    view: View, what: str | None, at: Callable[[], Any], *, level: float, threshold: float | None, target: str
) -> Surface:
    """Values of `what`, of the prediction that `at` gives; None is what users of this likelihood look at first."""
    counts = view.model.likelihood_.size_name == "exposure"
    probabilities = view.of_labels or view.model.likelihood_.size_name == "trials"
    if what is None:
        what = "probability" if probabilities else "intensity" if counts else "mean"
    if what not in WHATS:
        raise unknown_option("`what`", what, WHATS)
    if what != "exceedance" and threshold is not None:
        raise InvalidInputError("`threshold` is for what='exceedance'. Leave it out, or ask for that.")
    if view.classes and view.n_classes == 2 and view.label != view.classes[1] and what != "probability":
        raise InvalidInputError(
            f"The latent model of two classes is of {view.classes[1]!r}: leave `label` out for what={what!r}."
        )
    response = _response_name(view, target)
    if what == "sd":
        return Surface(what, view.of_model(at()).latent.std, "sd of f", MAP_OF_SPREAD)
    if what.startswith("intensity"):
        if not counts:
            raise InvalidInputError(f"what={what!r} is for counts with an exposure. Use what='mean' or what='sd'.")
        return _intensity(what, at())
    if what == "probability":
        if not probabilities:
            raise InvalidInputError("what='probability' is for labels and shares of trials. Use what='mean'.")
        return Surface(what, view.probability(at()), response, limits=(0.0, 1.0))
    if what == "exceedance":
        if threshold is None:
            raise InvalidInputError("what='exceedance' is P(mean > threshold): give `threshold`, in the units of y.")
        values = view.of_model(at()).exceedance(threshold)
        return Surface(what, values, f"P({response} > {threshold:g})", limits=(0.0, 1.0))
    positive = not probabilities and view.model.likelihood_.support()[0] >= 0
    if what == "mean":
        return Surface(what, view.probability(at()), response, positive=positive)
    low, high = view.of_model(at()).interval(level, "mean").T
    values, label = low if what == "lower" else high, f"{response}, {what} end of {100 * level:g} %"
    return Surface(what, values, label, positive=positive)


def _intensity(what: str, prediction: Prediction) -> Surface:
    """The median of the intensity e^f, its standard deviation, or that over its mean; without the nugget.

    f is Gaussian given the data, so e^f is log-normal: its coefficient of variation is sqrt(e^v - 1).
    """
    if what == "intensity":
        return Surface(what, prediction.median(), "intensity, per unit of exposure", positive=True)
    latent = prediction.latent
    variation = np.sqrt(np.expm1(latent.variance))
    if what == "intensity_cv":
        return Surface(what, variation, "coefficient of variation of the intensity", MAP_OF_SPREAD, positive=True)
    sd = np.exp(latent.mean + 0.5 * latent.variance) * variation
    return Surface(what, sd, "sd of the intensity, per unit of exposure", MAP_OF_SPREAD, positive=True)


def _response_name(view: View, target: str) -> str:
    if view.classes is not None:
        return f"P({view.label_name})"
    if view.of_labels:
        return f"P({target} = 1)"
    per: dict[Any, str] = {"exposure": f"mean {target} per unit of exposure", "trials": "probability of success"}
    return per.get(view.model.likelihood_.size_name, f"mean {target}")
