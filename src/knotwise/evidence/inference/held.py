"""Sites that are held: Gaussian observations with known noise, whatever the likelihood is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from knotwise.evidence.inference.base import Inference, SiteFit
from knotwise.evidence.inference.conjugate import Conjugate
from knotwise.evidence.model import Evidence, Model, Rows
from knotwise.evidence.projection import Evaluation

__all__ = ["HeldSites"]


@dataclass(frozen=True)
class HeldSites(Inference):
    """The targets of the rows are those of their sites, m + b / W, and their known noise variances 1 / W (N6).

    The value is log Z(sites). Kernel, nugget and mean are learned from it as from Gaussian data; it does not depend on
    the likelihood, whose parameters have the gradient 0.
    """

    name = "Inference with held sites"
    word = "variational"
    value_name = "log density of the sites"
    several_passes = False

    def refuses(self, model: Model) -> str:
        return ""

    def for_power(self, power: float) -> HeldSites:
        return self

    def fit(self, at: Evaluation, start: np.ndarray | None = None) -> SiteFit:
        return Conjugate().fit(at, start)

    def exact(self, model: Model, rows: Rows, *, gradient: bool, start: np.ndarray | None = None) -> Evidence:
        raise NotImplementedError("Sites are held where rows are seen through knots.")
