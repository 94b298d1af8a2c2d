"""Priors of parameters: what optimisers add to the log evidence. Tests of signal, and users, see the evidence alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from knotwise.errors import InvalidInputError

__all__ = ["PCSd"]


@dataclass(frozen=True)
class PCSd:
    """A penalty on the standard deviation of the latent function, which a simpler one does not pay.

    It is -lambda sd with lambda = -log(prob) / upper, the penalised-complexity prior with P(sd > upper) = prob. It is a
    density of the standard deviation, taken without the Jacobian of the scale on which optimisers work, which would
    push a small standard deviation up. It is no default: see `docs/how-to-choose.md`.

    Parameters
    ----------
    upper : float
        A standard deviation that is hardly exceeded; on a link's scale 30 is certainty already.
    prob : float
        The probability that it is exceeded.
    share : float
        The standard deviation is exp(share theta): 1/2 for the logarithm of a variance, 1 for that of a deviation.

    Examples
    --------
    >>> from knotwise.priors import PCSd
    >>> round(PCSd(upper=30, prob=0.05).log_density(0.0)[0], 3)
    -0.1
    """

    upper: float = 30.0
    prob: float = 0.05
    share: float = 0.5

    def __post_init__(self) -> None:
        if not self.upper > 0 or not 0 < self.prob < 1:
            raise InvalidInputError(
                f"PCSd has upper={self.upper!r} and prob={self.prob!r}: the first must be positive, the second "
                "a number between 0 and 1."
            )

    def log_density(self, theta: float) -> tuple[float, float]:
        """The penalty at log variance theta, and its derivative."""
        value = float(np.log(self.prob) / self.upper * np.exp(self.share * theta))
        return value, self.share * value
