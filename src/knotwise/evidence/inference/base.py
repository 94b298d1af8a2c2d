"""The protocol of inferences: how the sites of the observations are found, and what is known when they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from knotwise.evidence.blocks import Block, BlockCache
from knotwise.evidence.model import Evidence, Model, Rows
from knotwise.evidence.projection import Evaluation, Projection
from knotwise.evidence.residual import Sites


class SiteRule(Protocol):
    """How a block has its sites again when the inference has ended; frozen, and made of what can be pickled."""

    #: whether the sites are functions of latent values, which move with the parameters (L11)
    moves: bool

    def sites(self, block: Block, seen: Projection, cache: BlockCache) -> Sites:
        """The sites of a block's rows, each counted once."""

    def likelihood_bar(
        self, block: Block, sites: Sites, noise_bar: np.ndarray, W_bar: np.ndarray | float, slope: np.ndarray | float
    ) -> np.ndarray:
        """Gradient in the likelihood's own parameters, [Q].

        `noise_bar` [n] is the adjoint of an independent variance of each row and of those in the halo, times their
        sample weights. Where the sites move, W_bar [n] is that of their precision and `slope` [n] that of the first
        derivative of log p; elsewhere both are 0.
        """


@dataclass(frozen=True)
class PseudoData:
    """Observations that stand for the data where rows predict each other: r = b / W [N], distances from the mean, and
    the noise variance [N] with which the function without its nugget is seen; of a row that counts k times, noise / k.

    W [N] and b [N] are the sites of one copy, `mean` [N] and `variance` [N] those of the likelihood's latent value.
    """

    r: np.ndarray
    noise: np.ndarray
    W: np.ndarray
    b: np.ndarray
    mean: np.ndarray
    variance: np.ndarray


@dataclass(frozen=True)
class SiteFit:
    """Where an inference through knots ended: all that the adjoint and predictions need, and nothing per row.

    `value` is the log evidence, `gram` V' diag(w) V, T inverts the factor of B = I + gram, and eta ~ N(gamma, B^-1).
    If it did not converge, `why` says so in words. `pseudo` is what near rows predict from, where they do and the sites
    are not the data.
    """

    value: float
    gram: np.ndarray
    T: np.ndarray
    gamma: np.ndarray
    rule: SiteRule
    converged: bool = True
    why: str = ""
    pseudo: PseudoData | None = None


class Inference(Protocol):
    """How the posterior of the latent function is approximated by Gaussian sites, one per observation.

    An inference inherits from it what it does not define itself.
    """

    @property
    def name(self) -> str:
        """What it is called in a sentence."""

    @property
    def word(self) -> str:
        """What it is called in options and files."""

    @property
    def value_name(self) -> str:
        """What its value is called."""

    @property
    def several_passes(self) -> bool:
        """Whether sites are searched for, and so follow parameters and knots; else they are the data."""

    @property
    def is_bound(self) -> bool:
        """Whether the value is a lower bound of the log evidence of the prior that it has (ELBO), or that itself."""
        return False

    def with_neighbours(self) -> Inference:
        """The inference for rows with Vecchia neighbours; itself, where that changes nothing."""
        return self

    def with_tolerance(self, tolerance: float, *, at_least: bool = False) -> Inference:
        """The inference with another tolerance of its search, or with a larger one than its own if it is `at_least`;
        itself, where nothing is searched for with a tolerance.
        """
        return self

    def refuses(self, model: Model) -> str:
        """Why this inference cannot be used for a model, and what to do; empty where it can."""

    def for_power(self, power: float) -> Inference:
        """The inference to be used where knots are looked at under another power; itself, if it can be."""
        return self

    def fit(self, at: Evaluation, start: np.ndarray | None = None) -> SiteFit:
        """Find the sites through knots; `start` is the gamma of a fit through the same knots."""

    def exact(self, model: Model, rows: Rows, *, gradient: bool, start: np.ndarray | None = None) -> Evidence:
        """Find the sites of the exact GP; `start` is the vector a of a fit to the same rows."""
