"""The paper's motivating example: the log-likelihood of a five-knot fit as a function of a sixth knot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from knotwise.estimators import GPRegressor
from knotwise.kernels import SquaredExponential
from knotwise.likelihoods import Gaussian
from knotwise_reproduction.data import DOMAIN, LENGTHSCALE, Task

__all__ = ["SixthKnot", "sixth_knot"]

N_PLACES = 401
JITTER = 1e-6  # the authors' own
NEAR = 0.15 * LENGTHSCALE  # a place so near a knot counts as the knot's


@dataclass(frozen=True)
class SixthKnot:
    """Log-likelihoods [n] with a sixth knot at each of n places, the parameters as fitted, and without it."""

    knots: np.ndarray
    places: np.ndarray
    values: np.ndarray
    of_five: float

    def picture(self) -> dict[str, Any]:
        """What the figures need beside the fit itself."""
        return {
            "knots": self.knots,
            "sixth": self.places,
            "log_likelihood": self.values,
            "log_likelihood_of_five": self.of_five,
        }

    def scores(self) -> dict[str, float]:
        """How far the curve is from five knots at a knot, how many knots have an optimum near, how many places climb
        to a knot that is not the best place."""
        on_knots = self.values[np.isin(self.places, self.knots)]
        change = np.sign(np.diff(self.values))
        turns = self.places[1:-1][change[1:] != change[:-1]]
        near = np.abs(turns[:, None] - self.knots) <= NEAR
        summits = self.places[self._climb()]
        best = self.places[np.argmax(self.values)]
        at_knot = (np.abs(summits[:, None] - self.knots) <= NEAR).any(1) & (np.abs(summits - best) > NEAR)
        return {
            "sixth_gap": float(np.abs(on_knots - self.of_five).max()),
            "sixth_optima": float(near.any(0).sum()),
            "sixth_stuck": float(at_knot.mean()),
        }

    def _climb(self) -> np.ndarray:
        """For each place, the number of the local maximum that is uphill from it."""
        n = len(self.values)
        padded = np.concatenate([[-np.inf], self.values, [-np.inf]])
        step = np.argmax(np.stack([padded[1:-1], padded[:-2], padded[2:]]), axis=0)  # stay, left, right
        uphill = np.arange(n) + np.array([0, -1, 1])[step]
        for _ in range(n):
            uphill = uphill[uphill]
        return uphill


def sixth_knot(gp: GPRegressor, task: Task) -> SixthKnot:
    """Evaluate the log-likelihood with one more knot at many places, and on each knot that is there."""
    knots = gp.knots_[:, 0]
    places = np.union1d(np.linspace(*DOMAIN, N_PLACES), knots)
    values = np.array([_log_likelihood(gp, task, np.append(knots, place)) for place in places])
    return SixthKnot(knots, places, values, _log_likelihood(gp, task, knots))


def _log_likelihood(gp: GPRegressor, task: Task, knots: np.ndarray) -> float:
    same = GPRegressor(
        SquaredExponential(gp.parameters_["variance"], gp.parameters_["lengthscale"]),
        Gaussian(gp.parameters_["noise_variance"]),
        approximation="fic",
        knots=knots[:, None],
        mean="zero",
        jitter=JITTER,
        optimizer=None,
        standardize=False,
        n_jobs=1,
        progress=False,
    )
    return float(same.fit(task.X, task.y).log_evidence_)
