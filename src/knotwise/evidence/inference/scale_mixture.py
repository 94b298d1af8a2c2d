"""Scale mixtures of normals: noise with heavy tails as normal noise of unknown precision, each row its own.

Student's t is a normal whose precision lambda / s^2 is a gamma variable. With q(f) q(lambda) apart (mean-field
variational Bayes), q(lambda) has a closed form, and what is left is a bound in q(f) alone (M1, M2). Its sites are the
observations with the noise s^2 / E lambda (M3): those of Gaussian data with known noise, far errors weighed down.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from knotwise.evidence.inference.near_sites import NearCurvature
from knotwise.evidence.inference.sites import ExpectedCurvature
from knotwise.evidence.inference.sites_sparse import SparseSites
from knotwise.evidence.inference.variational import Variational
from knotwise.evidence.model import Model, Rows
from knotwise.evidence.projection import Evaluation
from knotwise.likelihoods.values import Expectations


class MixtureTarget:
    """Observations as sites, with the precision that is expected of each (M3)."""

    def expected(self, model: Model, rows: Rows, mean: np.ndarray, variance: np.ndarray) -> Expectations:
        return model.likelihood.mixture_bound(rows.y, mean, variance)

    def has_positive_precisions(self, model: Model) -> bool:
        return True

    def first(self, model: Model, rows: Rows) -> np.ndarray:
        """Every row as Gaussian data: from the prior mean a strong signal would look like a row of outliers."""
        W = -model.likelihood.mixture_bound(rows.y, rows.y, np.zeros(len(rows))).second
        return np.stack([W, W * (rows.y - model.mean.offset)])


@dataclass(frozen=True)
class ExpectedPrecision(MixtureTarget, ExpectedCurvature):
    """Sites of a scale mixture: their objective is a bound."""

    def expected_derivatives(self, model: Model, rows: Rows, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        return model.likelihood.mixture_bound_derivatives(rows.y, mean, variance)


@dataclass(frozen=True)
class NearPrecision(MixtureTarget, NearCurvature):
    """Sites of a scale mixture under the marginals of neighbourhoods: their objective is no bound.

    Scale and degrees of freedom are learned from what is expected of log p itself, once for each turn: where f is
    rough, the bound (M2) takes what is not known of f for noise.
    """


@dataclass(frozen=True)
class ScaleMixture(Variational):
    """Mean-field variational inference for Student's t: Gaussian data with an own precision for each row.

    Its value is a bound of the log evidence, looser than that of `Variational`, without quadrature and with few looks
    at the data; for many degrees of freedom both are the evidence of Gaussian data.
    """

    tolerance: float = 1e-5  # of a search that is nothing but its passes; values are wrong by about as much

    name = "Scale-mixture inference"
    word = "mixture"
    target = ExpectedPrecision()
    near_target: ClassVar[NearCurvature] = NearPrecision()

    @property
    def value_name(self) -> str:
        return f"scale-mixture {'approximation' if self.near else 'bound'} of the log evidence"

    def refuses(self, model: Model) -> str:
        if not model.likelihood.scale_mixture:
            return "it is for noise that is a mixture of normals, as Student's t; use 'variational'."
        return super().refuses(model)

    def _cold(self, at: Evaluation, start: np.ndarray | None) -> Callable[[], SparseSites]:
        return partial(SparseSites.from_data, at, self.target)
