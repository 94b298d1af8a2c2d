"""Variational inference: the Gaussian posterior with the largest lower bound of the log evidence (ELBO).

The bound is the expected log likelihood minus the KL penalty, the divergence of the posterior from the prior.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar

import numpy as np

from knotwise.evidence.inference.base import SiteFit
from knotwise.evidence.inference.near_sites import NearCurvature, NearSites
from knotwise.evidence.inference.search import SiteInference
from knotwise.evidence.inference.sites import ExpectedCurvature
from knotwise.evidence.model import Model
from knotwise.evidence.projection import Evaluation
from knotwise.evidence.residual import residual_of


@dataclass(frozen=True)
class Variational(SiteInference):
    """The Gaussian posterior nearest to the true one in the sense of the largest lower bound of the log evidence.

    Its value is that bound: under VFE a bound of the exact GP's log evidence, for every likelihood, with every number
    of knots, converged or not. With Vecchia neighbours, marginals are those of each row's
    neighbourhood (N6): the value is near the exact GP's bound, but no bound itself, and the gradient is that of log Z
    at held sites, from which the value's own is 1 to 15 percent apart.
    """

    #: whether the model has, or had in its fit, neighbours; it decides on words only
    near: bool = field(default=False, compare=False, repr=False)

    name = "Variational inference"
    word = "variational"
    target = ExpectedCurvature()
    near_target: ClassVar[NearCurvature] = NearCurvature()

    @property
    def value_name(self) -> str:
        return f"variational {'approximation' if self.near else 'bound'} of the log evidence"

    @property
    def is_bound(self) -> bool:
        return not self.near

    def with_neighbours(self) -> Variational:
        return replace(self, near=True)

    def refuses(self, model: Model) -> str:
        residual = residual_of(model)
        if residual.n_neighbors:
            return ""
        if not residual.diagonal:
            return "it needs rows that are independent given the knots, or have neighbours; leave `residual` at None."
        if model.power not in (0.0, 1.0):
            return f"it is for VFE and FIC, not for a power of {model.power:g} between them; use 'ep'."
        return ""

    def fit(self, at: Evaluation, start: np.ndarray | None = None) -> SiteFit:
        """Search from the sites that the last search has left, or from those at the mode through the knots alone."""
        if not residual_of(at.model).n_neighbors:
            return super().fit(at, start)
        starts = (partial(begin, at, self.near_target) for begin in (NearSites.from_last, NearSites.from_mode))
        space, end = self._search(*starts)
        return space.ended(end.value, end.converged, end.why)
