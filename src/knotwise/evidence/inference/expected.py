"""Where variational sites should be: the expected curvature of log p under each row's own posterior (V4)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from knotwise.evidence.inference.sites import Marginals, SiteLook
from knotwise.evidence.model import Model, Rows

__all__ = ["ExpectedCurvature"]


@dataclass(frozen=True)
class ExpectedCurvature:
    """Sites with the expected curvature of log p under the row's own posterior, W = -E g' and a = E g (V4)."""

    is_bound = True

    def look(self, model: Model, rows: Rows, at: Marginals) -> SiteLook:
        mu = at.s + model.mean.offset
        seen = model.likelihood.expectations(rows.y, mu, at.tau, rows.sizes)
        value = seen.log_density + 0.5 * (  # (V3)
            np.log(at.h) - at.lam * at.a * at.a + at.W * at.h * at.h * at.q + at.lam * at.w * (1.0 - at.w * at.rho)
        )
        W = -seen.second
        return SiteLook(W, W * at.s + seen.first, value, mu, at.tau, seen.error)

    def likelihood_bar(self, model: Model, rows: Rows, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        bars = model.likelihood.expected_parameter_derivatives(rows.y, mean, variance, rows.sizes)
        return np.array([rows.total(bar) for bar in bars])  # (V7)
