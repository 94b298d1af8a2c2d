"""The numbers of a curve: its centre, its band, and what to call them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from knotwise.errors import InvalidInputError, unknown_option
from knotwise.plotting.view import View, target_name

KINDS = ("observation", "mean", "latent")


@dataclass(frozen=True)
class Curve:
    """Centre and band at each point, [n] each, and their names in a legend."""

    centre: np.ndarray
    low: np.ndarray
    high: np.ndarray
    name: str
    band_name: str


def kind_of(view: View, kind: str | None) -> str:
    """The kind of band that is asked for; by default that of observations, or of a probability."""
    if kind is None:
        return "mean" if view.of_labels else "observation"
    if kind not in KINDS:
        raise unknown_option("`kind`", kind, KINDS)
    if view.classes is not None and kind == "observation":
        raise InvalidInputError("A label has no band: use kind='mean' (the probability) or kind='latent'.")
    if view.n_classes > 2 and kind == "latent":
        raise InvalidInputError("Several classes have a latent function each: plot `gp.models_[k]` with kind='latent'.")
    return kind


def curve_of(
    view: View, points: np.ndarray, size: np.ndarray | None, noise: float | None = None, *, level: float, kind: str
) -> Curve:
    """Predict a curve at points; of counts per unit of exposure or per trial, at the median size.

    `noise` is the known noise variance of new observations, None for the fitted one.
    """
    likelihood = view.model.likelihood_
    unit, typical = 1.0, {}
    known = {} if noise is None else {"noise_variance": noise}
    if size is not None:
        unit = float(np.median(size))
        unit = max(round(unit), 1) if likelihood.size_name == "trials" else unit
        typical = {likelihood.size_name: unit}
    prediction = view.of_model(view.prediction(points, **typical, **known))
    low, high = prediction.interval(level, kind).T
    band = f"{100 * level:g} % of "
    if kind == "latent":
        return Curve(prediction.latent.mean, low, high, "mean of f", band + "f")
    if kind == "observation":
        band += "new observations" if size is None else f"new counts at {likelihood.size_name} {unit:.3g}"
        band += "" if noise is None else f" with noise sd {np.sqrt(noise):.3g}"
        return Curve(prediction.mean / unit, low / unit, high / unit, "mean", band)
    if view.of_labels or likelihood.conjugate:
        name = "probability" if view.of_labels else "mean"
        return Curve(prediction.mean, low, high, name, f"{band}the {name}")
    # the mean of a skewed response can leave the band of its own parameter; the median cannot
    return Curve(prediction.median() / unit, low / unit, high / unit, "median", band + "the mean response")


def response_name(view: View, y: Any, size: np.ndarray | None, kind: str) -> str:
    """What the vertical axis shows."""
    name = target_name(y)
    if kind == "latent":
        return f"{name} without noise" if view.model.likelihood_.conjugate else "latent f"
    if view.n_classes > 2:
        return "probability"
    if view.of_labels:
        return f"P({name} = 1)" if view.classes is None else f"P({view.label_name})"
    if size is None:
        return name
    return f"{name} per {'trial' if view.model.likelihood_.size_name == 'trials' else 'unit of exposure'}"
