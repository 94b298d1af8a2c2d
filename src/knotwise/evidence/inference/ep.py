"""Power expectation propagation: sites that match the moments of each row's likelihood in the company of the others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from knotwise.evidence.inference.search import SiteInference
from knotwise.evidence.inference.sites import Marginals, SiteLook
from knotwise.evidence.inference.variational import Variational
from knotwise.evidence.model import Model, Rows
from knotwise.evidence.residual import residual_of


@dataclass(frozen=True)
class MatchedMoments:
    """Sites that match the moments of p(y | f)^alpha under the cavity, the posterior without the site's share (E1)."""

    is_bound = False

    def look(self, model: Model, rows: Rows, at: Marginals) -> SiteLook:
        alpha, a, q = model.power, at.a, at.q
        den = 1.0 - alpha * at.w * q
        # q h b and w z^2 are W times as large as what is left of them: written in a they do not cancel
        cavity_q = q / den
        cavity_z, variance = at.z - alpha * cavity_q * a, cavity_q + at.c + model.nugget.variance
        mean = model.mean.offset + cavity_z
        seen = model.likelihood.tilted(rows.y, mean, np.where(den > 0, variance, 1.0), rows.sizes, power=alpha)
        ratio = 1.0 + variance * seen.second if seen.variance_ratio is None else seen.variance_ratio
        W, b = -seen.second / (alpha * ratio), (seen.first - seen.second * cavity_z) / (alpha * ratio)
        value = (seen.log_integral - 0.5 * np.log(den)) / alpha + 0.5 * alpha * cavity_q * a * a  # (E2)
        return SiteLook(W, b, np.where(den > 0, value, np.nan), mean, variance, seen.error)

    def likelihood_bar(self, model: Model, rows: Rows, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        bars = model.likelihood.tilted_parameter_derivatives(rows.y, mean, variance, rows.sizes, power=model.power)
        return np.array([rows.total(bar) for bar in bars])  # (E4)

    def has_positive_precisions(self, model: Model) -> bool:
        return model.likelihood.log_concave

    def first(self, model: Model, rows: Rows) -> np.ndarray | None:
        return None


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
