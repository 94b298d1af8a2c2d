"""Standard errors of parameters on the scale of theta, and who computes them when they are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
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

    @staticmethod
    def none(n_parameters: int, remark: str, notes: Sequence[str] | None = None) -> ParameterErrors:
        """No standard error at all, for a reason that concerns every parameter.

        Parameters
        ----------
        n_parameters : int
            How many parameters there are.
        remark : str
            The reason, in a sentence.
        notes : sequence of str, optional
            Reasons of single parameters.

        Returns
        -------
        ParameterErrors
            With a covariance of NaN.

        Examples
        --------
        >>> from knotwise.numerics.standard_errors import ParameterErrors
        >>> ParameterErrors.none(2, "Nothing was fitted.").standard_error.tolist()
        [nan, nan]
        """
        nothing = np.full((n_parameters, n_parameters), np.nan)
        return ParameterErrors(nothing, tuple(notes or [""] * n_parameters), remark)

    @property
    def standard_error(self) -> np.ndarray:
        """Standard errors of theta, [P]; NaN where there is none."""
        return np.sqrt(np.diagonal(self.covariance))

    @property
    def correlation(self) -> np.ndarray:
        """Correlations of the estimates of theta, [P, P]; NaN where there is no standard error."""
        return self.covariance / np.outer(self.standard_error, self.standard_error)

    def in_units(self, factor: np.ndarray) -> ParameterErrors:
        """The same for theta in other units.

        Parameters
        ----------
        factor : array [P]
            What each entry of theta is multiplied with.

        Returns
        -------
        ParameterErrors
            With the covariance in those units.

        Examples
        --------
        >>> import numpy as np
        >>> from knotwise.numerics.standard_errors import ParameterErrors
        >>> ParameterErrors(np.eye(1), ("",)).in_units(np.array([3.0])).standard_error.tolist()
        [3.0]
        """
        return replace(self, covariance=self.covariance * np.outer(factor, factor))

    def around(self, values: np.ndarray, positive: Sequence[bool]) -> tuple[np.ndarray, np.ndarray]:
        """Standard errors and 95 % intervals of natural values  (F3).

        The interval of a positive parameter is that of its logarithm, so that it ends above 0.

        Parameters
        ----------
        values : array [P]
            Natural values of the parameters.
        positive : sequence of bool
            Which of them are positive, with logarithms in theta.

        Returns
        -------
        standard_error : array [P]
            On the natural scale; NaN where there is none.
        interval : array [P, 2]
            Lower and upper ends.

        Examples
        --------
        >>> import numpy as np
        >>> from knotwise.numerics.standard_errors import ParameterErrors
        >>> se, interval = ParameterErrors(0.01 * np.eye(1), ("",)).around(np.array([2.0]), [True])
        >>> se.round(2).tolist(), interval.round(2).tolist()
        ([0.2], [[1.64, 2.43]])
        """
        log_scale = np.array(positive, bool)
        se, reach = self.standard_error, REACH_95 * self.standard_error
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
