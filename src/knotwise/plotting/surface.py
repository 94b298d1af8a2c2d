"""What a map can show: one value of the posterior at each point, its name, and its colours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from knotwise.data.exposure import per_unit
from knotwise.errors import InvalidInputError, unknown_option
from knotwise.plotting.style import MAP_OF_SPREAD, MAP_OF_VALUES
from knotwise.plotting.view import View

__all__ = ["Surface", "surface_of"]

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
    view: View, what: str | None, points: np.ndarray, *, level: float, threshold: float | None, target: str
) -> Surface:
    """Ask the model for `what` at the points; None is what users of this likelihood look at first."""
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
        return Surface(what, np.sqrt(view.ask("predict_latent", points).variance), "sd of f", MAP_OF_SPREAD)
    if what.startswith("intensity"):
        if not counts:
            raise InvalidInputError(f"what={what!r} is for counts with an exposure. Use what='mean' or what='sd'.")
        return _intensity(view, what, points)
    if what == "probability":
        if not probabilities:
            raise InvalidInputError("what='probability' is for labels and shares of trials. Use what='mean'.")
        return Surface(what, _probability(view, points), response, limits=(0.0, 1.0))
    if what == "exceedance":
        if threshold is None:
            raise InvalidInputError("what='exceedance' is P(mean > threshold): give `threshold`, in the units of y.")
        values = view.ask("predict_exceedance", points, threshold)
        return Surface(what, values, f"P({response} > {threshold:g})", limits=(0.0, 1.0))
    positive = not probabilities and view.model.likelihood_.support()[0] >= 0
    if what == "mean":
        values = _probability(view, points) if view.of_labels else view.ask("predict", points, **per_unit(view.model))
        return Surface(what, values, response, positive=positive)
    low, high = view.ask("predict_interval", points, level, "mean").T
    values, label = low if what == "lower" else high, f"{response}, {what} end of {100 * level:g} %"
    return Surface(what, values, label, positive=positive)


def _intensity(view: View, what: str, points: np.ndarray) -> Surface:
    """The median of the intensity e^f, its standard deviation, or that over its mean; without the nugget.

    f is Gaussian given the data, so e^f is log-normal: its coefficient of variation is sqrt(e^v - 1).
    """
    if what == "intensity":
        return Surface(what, view.ask("predict_median", points), "intensity, per unit of exposure", positive=True)
    latent = view.ask("predict_latent", points)
    variation = np.sqrt(np.expm1(latent.variance))
    if what == "intensity_cv":
        return Surface(what, variation, "coefficient of variation of the intensity", MAP_OF_SPREAD, positive=True)
    sd = np.exp(latent.mean + 0.5 * latent.variance) * variation
    return Surface(what, sd, "sd of the intensity, per unit of exposure", MAP_OF_SPREAD, positive=True)


def _probability(view: View, points: np.ndarray) -> np.ndarray:
    """Of the class that is looked at; those of several classes sum to one."""
    if view.classes is None:
        return view.ask("predict", points, **per_unit(view.model))
    return view.quietly(view.gp.predict_proba, view.rows(points))[:, view.classes.index(view.label)]


def _response_name(view: View, target: str) -> str:
    if view.classes is not None:
        return f"P({view.label_name})"
    if view.of_labels:
        return f"P({target} = 1)"
    per: dict[Any, str] = {"exposure": f"mean {target} per unit of exposure", "trials": "probability of success"}
    return per.get(view.model.likelihood_.size_name, f"mean {target}")
