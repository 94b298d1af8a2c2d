"""Known noise of each row: raised to a floor where the knots cannot follow it."""

from __future__ import annotations

import numpy as np

from knotwise.errors import warn
from knotwise.estimators.observations import Observations
from knotwise.likelihoods.gaussian import NOISE_FLOOR

__all__ = ["known_noise"]


def known_noise(data: Observations, y_scale: float, variance: float, *, full: bool) -> np.ndarray | None:
    """The known noise variances in the engine's units, [N], not below the floor of a learned one; None without them.

    `variance` is that of the targets in the engine's units. Even a knot on the row leaves a residual variance c of the
    size of the jitter, and VFE pays c / (2 noise) for it: 1e-10 / 2e-14 = 5,000 nats for one row that is known to
    1e-14. The exact GP has no jitter and needs no floor.
    """
    if data.noise is None:
        return None
    noise, floor = data.noise / y_scale**2, NOISE_FLOOR * variance
    low = np.flatnonzero(noise < floor)
    if full or not len(low):
        return noise
    numbers = low if data.numbers is None else data.numbers[low]
    first = low[np.argmin(numbers)]  # rows that were merged are not in the user's order
    more = f" and in {len(low) - 1} more row{'s' if len(low) > 2 else ''}" if len(low) > 1 else ""
    warn(
        f"The known noise variance is {data.noise[first]:.1g} in row {numbers.min()}{more}, too small for a fit "
        f"through knots: it was raised to the floor of {floor * y_scale**2:.1g}, {NOISE_FLOOR:.0e} times the variance "
        "of y. For rows that are known exactly use `approximation='full'`."
    )
    return np.maximum(noise, floor)
