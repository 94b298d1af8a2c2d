"""Standard errors of parameters on the scale of theta, and who computes them when they are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

#: half the width of a 95 % interval in standard errors
REACH_95 = 1.959963984540054


@dataclass(frozen=True)
class ParameterErrors:
    """How well the data determine each parameter of a fit, on the scale of theta (logarithms of positive parameters).

    Parameters
    ----------
    covariance : ndarray [P, P]
        Of theta  (F1); NaN in the rows and columns of parameters without a standard error.
    notes : tuple of str
        For each parameter why it has none ("fixed", "at its upper bound", "not determined by the data"), or "".
    remark : str, default ""
        What is to be said of all of them, in a sentence, or "".

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise import GPRegressor
    >>> from knotwise.kernels import SquaredExponential
    >>> x = np.linspace(0, 10, 60)
    >>> y = np.sin(x) + 0.2 * np.random.default_rng(0).normal(size=60)
    >>> gp = GPRegressor(SquaredExponential(), fixed=["variance"], random_state=0).fit(x[:, None], y)
    >>> errors = gp.parameters_.standard_errors()
    >>> errors.notes
    ('fixed', '', '')
    >>> errors.standard_error.shape, bool(errors.standard_error[2] < 0.3)  # of the log noise variance
    ((3,), True)
    """

    covariance: np.ndarray
    notes: tuple[str, ...]
    remark: str = ""

    @property
    def standard_error(self) -> np.ndarray:
        """Standard errors of theta, [P]; NaN where there is none."""
        return np.sqrt(np.diagonal(self.covariance))

    @property
    def correlation(self) -> np.ndarray:
        """Correlations of the estimates of theta, [P, P]; NaN where there is no standard error."""
        return self.covariance / np.outer(self.standard_error, self.standard_error)


def no_errors(n_parameters: int, remark: str, notes: Sequence[str] | None = None) -> ParameterErrors:
    """No standard error at all, for a reason that concerns every parameter, and reasons of single ones."""
    nothing = np.full((n_parameters, n_parameters), np.nan)
    return ParameterErrors(nothing, tuple(notes or [""] * n_parameters), remark)


def natural_intervals(
    errors: ParameterErrors, values: np.ndarray, positive: Sequence[bool]
) -> tuple[np.ndarray, np.ndarray]:
    """Standard errors [P] and 95 % intervals [P, 2] of natural values; NaN where there is none  (F3).

    The interval of a positive parameter is that of its logarithm, so that it ends above 0.
    """
    log_scale = np.array(positive, bool)
    se, reach = errors.standard_error, REACH_95 * errors.standard_error
    with np.errstate(over="ignore", invalid="ignore"):  # nothing is known of a parameter with a huge error
        factor = np.exp(np.where(log_scale, reach, 0.0))
        low = np.where(log_scale, values / factor, values - reach)
        high = np.where(log_scale, values * factor, values + reach)
        return np.where(log_scale, values * se, se), np.column_stack([low, high])


class ErrorSource(Protocol):
    """Where the table of a fitted model has standard errors from, and what follows from them."""

    def errors(self, compute: bool | None) -> ParameterErrors:
        """Those that are known; else computed: always (True), never (False), or unless it takes long (None)."""

    def variogram(self, table: Any, compute: bool | None) -> Any:
        """Range, sill and nugget of the model whose parameters the table has, with standard errors as above."""
