"""Known noise of the rows of a fit: what is too small for knots or for the exact GP, and the words for it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from knotwise.evidence.full import MAX_FULL_ROWS
from knotwise.noise import NO_NOISE, NOISE_FLOOR

__all__ = ["NoiseRemarks", "UsableNoise", "remarks_of", "usable_noise"]


@dataclass(frozen=True)
class NoiseRemarks:
    """What is to be said of known noise that is too small, once it is known how a fit ends; empty where it is not.

    `through_knots` is for a fit with knots, `exact` for the exact GP with noise as it was given, and `singular` for an
    exact GP whose matrix has no factor with that. By then nobody remembers the rows in the user's units.
    """

    through_knots: str = ""
    exact: str = ""
    singular: str = ""


@dataclass(frozen=True)
class UsableNoise:
    """Known noise variances in the engine's units, [N].

    `raised` is not below the floor of a learned noise, for fits through knots; `given` is the noise as it was given,
    for the exact GP and for certificates, and None where it is the same.
    """

    raised: np.ndarray
    given: np.ndarray | None
    remarks: NoiseRemarks

    @staticmethod
    def of(noise: np.ndarray, numbers: np.ndarray | None, y_scale: float, variance: float) -> UsableNoise:
        """Noise in the user's units, [N], of the user's rows with these numbers (None: all, in their order).

        `variance` is that of the targets in the engine's units.
        """
        natural = variance * y_scale**2
        raised, given = usable_noise(noise / y_scale**2, variance)
        too_small, none = (_rows_below(noise, numbers, share * natural) for share in (NOISE_FLOOR, NO_NOISE))
        remarks = remarks_of(too_small, none, natural, len(noise))
        return UsableNoise(raised, None if (given == raised).all() else given, remarks)


def usable_noise(noise: np.ndarray, variance: float) -> tuple[np.ndarray, np.ndarray]:
    """Known noise for fits through knots, and as given, in the units of the variance of the targets; [N] each.

    Even a knot on the row leaves a residual variance c of the size of the jitter, and VFE pays c / (2 noise) for it:
    1e-10 / 2e-14 = 5,000 nats for one row that is known to 1e-14. The exact GP has no jitter; there, and in
    certificates, only a row without any noise takes the floor, since equal rows without noise have no inverse.
    """
    floor = NOISE_FLOOR * variance
    return np.maximum(noise, floor), np.where(noise < NO_NOISE * variance, floor, noise)


def remarks_of(too_small: str, none: str, variance: float, n_rows: int) -> NoiseRemarks:
    """Words for rows whose known noise is too small for knots, and for those that have none; "" where there are none.

    `variance` is that of the targets in the user's units.
    """
    if not too_small:
        return NoiseRemarks()
    known = "The known noise variance is"
    raised = f"it was raised to the floor of {NOISE_FLOOR * variance:.1g}, {NOISE_FLOOR:.0e} times the variance of y."
    of_raised = "The log evidence and the posterior are those of the raised noise"
    exactly = " For rows that are known exactly use `approximation='full'`." if n_rows <= MAX_FULL_ROWS else ""
    return NoiseRemarks(
        f"{known} {too_small}, too small for a fit through knots: {raised} {of_raised}; `certify()` bounds the log "
        f"evidence of the noise as given.{exactly}",
        f"{known} {none}, and equal rows without noise have no inverse: {raised}" if none else "",
        f"{known} {too_small}, too small for the exact GP of these rows, whose matrix has no factor with it: {raised} "
        f"{of_raised}.",
    )


def _rows_below(noise: np.ndarray, numbers: np.ndarray | None, floor: float) -> str:
    """The first of the user's rows whose noise is below a floor, and how many more there are; "" without any."""
    low = np.flatnonzero(noise < floor)
    if not len(low):
        return ""
    own = low if numbers is None else numbers[low]
    first = low[np.argmin(own)]  # rows that were merged are not in the user's order
    more = f" and in {len(low) - 1} more row{'s' if len(low) > 2 else ''}" if len(low) > 1 else ""
    return f"{noise[first]:.1g} in row {own.min()}{more}"
