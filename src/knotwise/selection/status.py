"""How a fit ended: a closed vocabulary."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Status"]


class Status(StrEnum):
    """How a fit ended, in a word; a member is its word, as text.

    Only "limit reached", "not settled" and "not converged" ask for something to be done.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise import GPRegressor
    >>> X = np.linspace(0, 1, 24)[:, None]
    >>> gp = GPRegressor(knots=5, random_state=0).fit(X, np.sin(6 * X[:, 0]))
    >>> gp.status_, gp.status_ == "converged", gp.status_.is_good
    ('converged', True, True)
    """

    CONVERGED = "converged"  # parameters and knots are what was looked for
    AS_GIVEN = "as given"  # nothing was optimised
    NO_SIGNAL = "no signal"  # the inputs say nothing about the targets that chance could not
    LITTLE_INFORMATION = "little information"  # few events, or equal targets: predictions rest on the prior
    LIMIT_REACHED = "limit reached"  # more knots are needed than were allowed
    NOT_SETTLED = "not settled"  # parameters still moved with every choice of knots
    NOT_CONVERGED = "not converged"  # the optimiser, or the inference at its end, did not arrive

    __repr__ = str.__repr__

    @property
    def is_good(self) -> bool:
        """Whether the fit is what it should be; else there is a warning."""
        return self not in (Status.LIMIT_REACHED, Status.NOT_SETTLED, Status.NOT_CONVERGED)
