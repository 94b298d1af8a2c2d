"""Simulated rows of which the truth is known: smooth or rough functions of uniform columns, seen with noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, xlogy
from scipy.stats import norm, poisson

__all__ = ["KINDS", "NOISE_VARIANCE", "N_COLUMNS", "Simulation"]

N_COLUMNS = 4
NOISE_VARIANCE = 0.04
KINDS = ("gaussian", "counts", "classes")
TWO_SIDED = 1.96  # standard deviations to each side of a 95 % interval


@dataclass(frozen=True)
class Simulation:
    """Rows of one kind: numbers with noise, counts, or classes 0 and 1.

    `roughness` multiplies the frequencies of the function; `noise_variance` is that of numbers.
    """

    kind: str = "gaussian"
    roughness: float = 1.0
    noise_variance: float = NOISE_VARIANCE

    def latent(self, X: np.ndarray) -> np.ndarray:
        """The function that is seen with noise, [n]."""
        r = self.roughness
        return np.sin(4 * r * X[:, 0]) + np.cos(3 * r * X[:, 1]) + np.sin(2 * r * X[:, 2]) * X[:, 3]

    def linked(self, X: np.ndarray) -> np.ndarray:
        """The function on the scale of a model's link: the mean of numbers, the log of rates, the log odds, [n]."""
        return self.latent(X) * (2 if self.kind == "classes" else 1)

    def response(self, X: np.ndarray) -> np.ndarray:
        """The expected observation: that of the numbers, the rate of the counts, the probability of class 1."""
        f = self.linked(X)
        return {"gaussian": lambda: f, "counts": lambda: np.exp(f), "classes": lambda: expit(f)}[self.kind]()

    def draw(self, n_rows: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Inputs [n, 4] and observations [n]."""
        X = rng.uniform(size=(n_rows, N_COLUMNS))
        response = self.response(X)
        if self.kind == "gaussian":
            return X, response + np.sqrt(self.noise_variance) * rng.standard_normal(n_rows)
        if self.kind == "counts":
            return X, rng.poisson(response).astype(float)
        return X, (rng.uniform(size=n_rows) < response).astype(float)

    def log_density(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Log density of observations where the function is known, [n]."""
        response = self.response(X)
        if self.kind == "gaussian":
            return norm.logpdf(y, response, np.sqrt(self.noise_variance))
        if self.kind == "counts":
            return poisson.logpmf(y, response)
        return xlogy(y, response) + xlogy(1 - y, 1 - response)

    def compare(self, gp: Any, n_rows: int, seed: int) -> dict[str, float]:
        """Predictions of a fitted model for fresh rows, against the truth.

        `error` is the root mean square difference from the expected observation, `spread` its standard deviation over
        the rows; `density_lost` is the mean log density of the observations that the truth has and the model has not,
        in nats per row, with its standard error; `covers` is the share of rows where the 95 % interval of the function
        holds the truth.
        """
        X, y = self._fresh(n_rows, seed)
        rows = _as_columns(X, gp)
        if self.kind == "classes":
            predicted = gp.predict_proba(rows)[:, 1]
            density = np.log(np.where(y == 1, predicted, 1 - predicted))
        else:
            predicted, density = gp.predict(rows), gp.log_predictive_density(rows, y)
        truth, lost = self.response(X), self.log_density(X, y) - density
        f, sd = _function(gp, rows)
        return {
            "error": float(np.sqrt(np.mean((predicted - truth) ** 2))),
            "spread": float(truth.std()),
            "density_lost": float(lost.mean()),
            "density_lost_error": float(lost.std() / np.sqrt(n_rows)),
            "covers": float(np.mean(abs(f - self.linked(X)) <= TWO_SIDED * sd)),
        }

    def compare_fits(self, smaller: Any, larger: Any, n_rows: int, seed: int) -> dict[str, float]:
        """The functions of two fits at the same fresh rows, of which the larger fit should know more.

        `beside_sd` is their root mean square difference in standard deviations of the smaller fit, `beside_within` the
        share of rows where the larger fit lies in the 95 % interval of the smaller one.
        """
        X, _ = self._fresh(n_rows, seed)
        (f, sd), (other, _) = (_function(gp, _as_columns(X, gp)) for gp in (smaller, larger))
        apart = abs(other - f) / sd
        return {
            "beside_sd": float(np.sqrt(np.mean(apart**2))),
            "beside_within": float(np.mean(apart <= TWO_SIDED)),
        }

    def _fresh(self, n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        return self.draw(n_rows, np.random.default_rng([seed, 1]))


def _as_columns(X: np.ndarray, gp: Any) -> Any:
    """Rows as the model saw them: with its names, if it has any."""
    if not hasattr(gp, "feature_names_in_"):
        return X
    import pandas as pd

    return pd.DataFrame(X, columns=gp.feature_names_in_)


def _function(gp: Any, rows: Any) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of f."""
    f = gp.predict_latent(rows)
    return f.mean, np.sqrt(f.variance)
