"""Variational inference: the Gaussian posterior with the largest lower bound of the log evidence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from knotwise.evidence.inference.search import SiteInference
from knotwise.evidence.inference.sites import Marginals, SiteLook
from knotwise.evidence.model import Model, Rows
from knotwise.evidence.residual import residual_of

__all__ = ["Variational"]


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


@dataclass(frozen=True)
class Variational(SiteInference):
    """The Gaussian posterior nearest to the true one in the sense of the largest lower bound of the log evidence.

    Its value is that bound: under VFE a bound of the exact GP's log evidence, for every likelihood, with every number
    of knots, converged or not.
    """

    name = "Variational inference"
    word = "variational"
    value_name = "variational bound of the log evidence"
    target = ExpectedCurvature()

    def refuses(self, model: Model) -> str:
        if not residual_of(model).diagonal:
            return "it needs rows that are independent given the knots; leave `residual` at None."
        if model.power not in (0.0, 1.0):
            return f"it is for VFE and FIC, not for a power of {model.power:g} between them; use 'ep'."
        return ""
