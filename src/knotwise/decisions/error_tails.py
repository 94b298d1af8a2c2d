"""Have errors of rows, each predicted from the others, heavier tails than normal ones? A test of a millisecond."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from scipy.special import gammaln

from knotwise.decisions.thresholds import HEAVY_TAILS
from knotwise.evidence import Rows
from knotwise.posterior.in_sample import InSample
from knotwise.selection.base import Decision


def decide(seen: InSample, rows: Rows) -> Decision[bool]:
    """Whether standardised leave-one-out errors have heavier tails than normal ones: a likelihood ratio. Costs O(n)."""
    z = seen.standardized
    weights = np.ones(len(z)) if rows.weights is None else rows.weights / rows.weights.mean()
    variance = float(np.average(z**2, weights=weights))
    if not variance > 0 or not np.isfinite(variance):
        return Decision(False, "", {"tails": 0.0})
    if np.average(np.square(z**2 / variance), weights=weights) <= HEAVY_TAILS.normal_kurtosis:
        return Decision(False, "", {"tails": 0.0})  # to first order in 1 / df, the likelihood ratio asks for this alone
    normal = -0.5 * weights.sum() * (np.log(2 * np.pi * variance) + 1.0)
    best = max(
        (_fit_t(z, weights, 0.5 * np.log(variance), df) for df in HEAVY_TAILS.starts), key=lambda found: found[0]
    )
    log_ratio = float(best[0] - normal)
    numbers = {"tails": log_ratio, "df": best[1]}
    why = f"a t law with {best[1]:.1f} degrees of freedom is {log_ratio:.1f} nats likelier for errors left out"
    return Decision(log_ratio > HEAVY_TAILS.suspicious, why, numbers)


def _fit_t(z: np.ndarray, weights: np.ndarray, log_sd: float, df: float) -> tuple[float, float]:
    """The largest log likelihood of errors under a scaled t law, from a start, and its degrees of freedom."""
    reach = HEAVY_TAILS.log_reach

    def negated(theta: np.ndarray) -> float:
        log_scale, log_df = theta
        nu = np.exp(log_df)
        constant = gammaln(0.5 * (nu + 1)) - gammaln(0.5 * nu) - 0.5 * np.log(nu * np.pi) - log_scale
        tails = np.log1p(z**2 * np.exp(-2 * log_scale) / nu)
        return float(-(weights * (constant - 0.5 * (nu + 1) * tails)).sum())

    start = np.array([log_sd - 0.5, np.log(df)])  # a few outliers make the sd larger than the scale
    bounds = [(log_sd - reach, log_sd + reach), tuple(np.log(HEAVY_TAILS.df_range))]
    found = minimize(negated, start, bounds=bounds, method="L-BFGS-B")
    return -float(found.fun), float(np.exp(found.x[1]))
