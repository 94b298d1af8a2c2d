"""Power expectation propagation: sites that match the moments of each row's likelihood in the company of the others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from knotwise.evidence.inference.search import SiteInference
from knotwise.evidence.inference.sites import Marginals, SiteLook
from knotwise.evidence.inference.variational import Variational
from knotwise.evidence.model import Model, Rows
from knotwise.evidence.residual import residual_of

__all__ = ["PowerEP"]


@dataclass(frozen=True)
class MatchedMoments:
    """Sites that match the moments of p(y | f)^alpha under the cavity, the posterior without the site's share (E1)."""

    is_bound = False

    def look(self, model: Model, rows: Rows, at: Marginals) -> SiteLook:
        alpha, w, q, z, hb = model.power, at.w, at.q, at.z, at.h * at.b
        den = 1.0 - alpha * w * q
        cavity_z, variance = (z - alpha * q * hb) / den, q / den + at.c + model.nugget.variance
        mean = model.mean.offset + cavity_z
        seen = model.likelihood.tilted(rows.y, mean, np.where(den > 0, variance, 1.0), rows.sizes, power=alpha)
        shrunk = alpha * (1.0 + variance * seen.second)  # alpha times tilted over cavity variance
        W, b = -seen.second / shrunk, (seen.first - seen.second * cavity_z) / shrunk
        own = (
            seen.log_integral - 0.5 * np.log(den) - 0.5 * alpha * (2.0 * hb * z - w * z * z - alpha * q * hb * hb) / den
        )
        value = at.a * z + 0.5 * w * z * z + own / alpha  # (E2)
        return SiteLook(W, b, np.where(den > 0, value, np.nan), mean, variance, seen.error)

    def likelihood_bar(self, model: Model, rows: Rows, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        bars = model.likelihood.tilted_parameter_derivatives(rows.y, mean, variance, rows.sizes, power=model.power)
        return np.array([rows.total(bar) for bar in bars])  # (E4)


@dataclass(frozen=True)
class PowerEP(SiteInference):
    """Expectation propagation with the power of the approximation: 1 is EP under FIC.

    Its value estimates the log evidence; it is no bound. For log-concave likelihoods it converges in practice, others
    converge or are reported.
    """

    name = "Expectation propagation"
    word = "ep"
    value_name = "log evidence by expectation propagation"
    target = MatchedMoments()

    def for_power(self, power: float) -> SiteInference:
        return self if power else Variational(self.tolerance, self.max_passes)  # which is EP with power 0

    def refuses(self, model: Model) -> str:
        if not residual_of(model).diagonal:
            return "it needs rows that are independent given the knots; leave `residual` at None."
        if model.power == 0:
            return "it is for powers above 0, and VFE has power 0; use 'variational', or `approximation='fic'`."
        if model.power != 1 and model.nugget.variance:
            return f"with a nugget it is for power 1, not {model.power:g}; use `approximation='fic'`, or 'laplace'."
        return ""
