"""How sure it is that the probability of a class exceeds a threshold, where several models share the probability."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from knotwise.likelihoods.base import Likelihood
from knotwise.numerics.blocks import block_slices
from knotwise.posterior.base import Latent

__all__ = ["exceedance_of_shares"]

ROWS_AT_ONCE = 64  # so that the samples of some rows, not of all, are in memory


def exceedance_of_shares(
    latents: Sequence[Latent], likelihood: Likelihood, threshold: float, z: np.ndarray
) -> np.ndarray:
    """P(s_k / sum_j s_j > threshold) with s_j = E(y | f_j), for independent f_j ~ N(mean, variance), [n, classes].

    The f of the other classes are sampled at the standard normal numbers `z` [samples, classes], the same at every row,
    so that a row's value does not depend on the others. Given these, the probability of class k has a closed form:
    s_k > odds * (sum of the others), and s_k rises with f_k.
    """
    from scipy.special import ndtr

    odds = threshold / (1.0 - threshold)
    mean = np.column_stack([latent.mean for latent in latents])  # [n, classes]
    sd = np.column_stack([latent.std for latent in latents])
    found = np.empty_like(mean)
    for rows in block_slices(len(mean), ROWS_AT_ONCE):
        s = likelihood.conditional_mean(mean[rows] + sd[rows] * z[:, None, :])  # [samples, rows, classes]
        for k in range(len(latents)):
            needed = odds * np.delete(s, k, axis=-1).sum(-1)  # a difference of sums would have lost small shares
            least = likelihood.latent_of_mean(needed)  # infinite where s_k cannot reach it
            found[rows, k] = ndtr((mean[rows, k] - least) / sd[rows, k]).mean(0)
    return found
