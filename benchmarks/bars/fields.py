"""Draws of Gaussian fields on a fine lattice of the unit square, and cloud-like holes in them: data of `gaps.py`.

Uses nothing of knotwise. The covariance is wrapped around a torus three times as wide as the square, as a sum over
images, so that its Fourier transform is a spectrum and a draw costs one FFT; within the square it differs from the
covariance asked for by less than 2e-4 of the variance.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

__all__ = ["DESIGNS", "NODES", "NOISE", "TRUTHS", "Component", "Data", "Truth", "correlation", "draw", "simulate"]

DESIGNS = ("lattice", "random")
NODES = 500  # of a side of the lattice whose nodes are the random places
TORUS = 3  # sides of the square
NOISE = 0.1  # standard deviation; that of a field is 1
PLACES = 1.5  # for each row: a third of them lies in holes
CLOUDS = 15
CLOUD_WIDTHS = (0.06, 0.2)  # semi-axes, before all are scaled to cover a third
BLEND = 0.03  # width of the border between two regions


class Component(NamedTuple):
    """A stationary part of a field, by the name of its kernel."""

    kernel: str
    variance: float
    lengthscale: float


@dataclass(frozen=True)
class Truth:
    """A field is the sum of its components and a plane; in two regions the first one is left and the second right."""

    components: tuple[Component, ...]
    slopes: tuple[float, float] = (0.0, 0.0)
    regions: bool = False


TRUTHS = {
    "exponential": Truth((Component("Matern12", 1.0, 0.2),)),
    "matern32": Truth((Component("Matern32", 1.0, 0.15),)),
    "squared exponential": Truth((Component("SquaredExponential", 1.0, 0.15),)),
    "two scales": Truth((Component("Matern32", 0.75, 0.3), Component("Matern32", 0.25, 0.05))),
    "trend": Truth((Component("Matern32", 1.0, 0.15),), slopes=(3.0, -2.0)),
    "two regions": Truth((Component("Matern12", 1.0, 0.2), Component("SquaredExponential", 1.0, 0.15)), regions=True),
}


@dataclass(frozen=True)
class Data:
    """Rows outside the holes, and places inside with their observations."""

    X: np.ndarray
    y: np.ndarray
    X_new: np.ndarray
    y_new: np.ndarray


def correlation(kernel: str, r: np.ndarray) -> np.ndarray:
    """Correlation at distances in length-scales."""
    if kernel == "SquaredExponential":
        return np.exp(-0.5 * r**2)
    if kernel == "Matern12":
        return np.exp(-r)
    if kernel == "Matern32":
        s = np.sqrt(3) * r
        return (1 + s) * np.exp(-s)
    raise ValueError(f"no correlation is written down here for {kernel!r}")


@lru_cache(maxsize=2)
def spectrum(kernel: str, lengthscale: float, n_nodes: int) -> np.ndarray:
    """Fourier transform of the correlation on the torus, a lattice of [3 n_nodes, 3 n_nodes]."""
    lags = np.arange(TORUS * n_nodes) / n_nodes
    images = [np.minimum(lags, TORUS - lags) + shift for shift in (-TORUS, 0, TORUS)]
    on_torus = np.zeros((len(lags), len(lags)))
    for a in images:
        for b in images:
            on_torus += correlation(kernel, np.sqrt(a[:, None] ** 2 + b**2) / lengthscale)
    return np.maximum(np.fft.fft2(on_torus).real, 0.0)  # what is negative is rounding


def draw(component: Component, n_nodes: int, rng: np.random.Generator) -> np.ndarray:
    """A draw at the nodes of the unit square, [n_nodes, n_nodes]."""
    spread = np.sqrt(component.variance * spectrum(component.kernel, component.lengthscale, n_nodes))
    waves = spread * (rng.standard_normal(spread.shape) + 1j * rng.standard_normal(spread.shape))
    # the real part of a white complex field with this spectrum has the whole covariance, and so has the imaginary one
    return np.fft.fft2(waves).real[:n_nodes, :n_nodes] / len(spread)


def cloudiness(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Distance of places from the nearest of some random ellipses, in units of its radius: 0 in its centre."""
    nearest = np.full(len(X), np.inf)
    for _ in range(CLOUDS):
        centre, angle = rng.uniform(-0.05, 1.05, size=2), rng.uniform(0, np.pi)
        axes = np.exp(rng.uniform(*np.log(CLOUD_WIDTHS), size=2))
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        nearest = np.minimum(nearest, np.linalg.norm((X - centre) @ turn / axes, axis=1))
    return nearest


def simulate(design: str, truth_name: str, n_rows: int, seed: int, n_new: int) -> Data:
    """Rows of a field outside the holes, and at most so many random places inside."""
    truth = TRUTHS[truth_name]
    rng = np.random.default_rng([seed, DESIGNS.index(design), list(TRUTHS).index(truth_name)])
    n_places = round(PLACES * n_rows)
    n_nodes = NODES if design == "random" else round(np.sqrt(n_places))
    fields = [draw(component, n_nodes, rng) for component in truth.components]
    axis = (np.arange(n_nodes) + 0.5) / n_nodes
    x1, x2 = np.meshgrid(axis, axis, indexing="ij")
    if truth.regions:
        right = 1 / (1 + np.exp(-(x1 - 0.5) / BLEND))
        f = np.sqrt(1 - right) * fields[0] + np.sqrt(right) * fields[1]
    else:
        f = sum(fields) + truth.slopes[0] * x1 + truth.slopes[1] * x2
    X, f = np.column_stack([x1.ravel(), x2.ravel()]), f.ravel()
    if design == "random":
        some = rng.choice(len(X), n_places, replace=False)
        X, f = X[some], f[some]
    y = f + NOISE * rng.standard_normal(len(f))
    order = np.argsort(cloudiness(X, rng))  # the ellipses grow together until so many rows are left
    given, hole = order[len(X) - n_rows :], order[: len(X) - n_rows]
    given, new = rng.permutation(given), rng.choice(hole, min(n_new, len(hole)), replace=False)
    return Data(X[given], y[given], X[new], y[new])
