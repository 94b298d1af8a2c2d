"""Likelihoods: how the data depend on the latent function."""

from knotwise.likelihoods.base import Likelihood
from knotwise.likelihoods.gaussian import Gaussian

__all__ = ["Gaussian", "Likelihood"]
