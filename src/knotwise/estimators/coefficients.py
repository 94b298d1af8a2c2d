"""The coefficients of a fitted mean, with their uncertainty, in the user's units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from knotwise.estimators.scaling import Scaling
from knotwise.estimators.validation import check_level
from knotwise.evidence.full_sites import FullState
from knotwise.evidence.sparse import SparseState
from knotwise.numerics.tabular import html_table, make_frame

__all__ = ["Coefficients", "coefficients_of"]


@dataclass(frozen=True, repr=False)
class Coefficients:
    """The mean of a fitted model in numbers: a level, or the intercept and slopes of a trend.

    Estimates are on the scale of f: in the units of y for Gaussian data, on the link's scale (a log rate, log odds)
    for others. The intercept is the trend's height where all inputs are 0, and a slope is for one unit of its column.
    The function itself, which varies about the mean, is no part of either. A mean that is held, or learned as a point
    estimate, has one row without a standard error (NaN).

    Parameters
    ----------
    names : tuple of str
        "level"; or "intercept" and the columns of the trend.
    estimate : ndarray [q]
        Posterior means.
    covariance : ndarray [q, q]
        Posterior covariance, given the parameters of kernel and likelihood.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise import GPRegressor
    >>> x = np.linspace(10, 20, 40)
    >>> noise = np.random.default_rng(0).normal(size=40)
    >>> gp = GPRegressor(mean="linear", random_state=0).fit(x[:, None], 3 + 0.5 * x + noise)
    >>> gp.coefficients_.names
    ('intercept', 'column 0')
    >>> low, high = gp.coefficients_.interval(0.95)[1]
    >>> bool(low < 0.5 < high)
    True
    """

    names: tuple[str, ...]
    estimate: np.ndarray
    covariance: np.ndarray

    @property
    def standard_error(self) -> np.ndarray:
        """Posterior standard deviations, [q]."""
        return np.sqrt(np.maximum(np.diagonal(self.covariance), 0.0))  # rounding could leave less than nothing

    def interval(self, level: float = 0.95) -> np.ndarray:
        """Central intervals of the coefficients.

        Parameters
        ----------
        level : float, default 0.95
            Posterior probability of each interval, between 0 and 1.

        Returns
        -------
        array [q, 2]
            Lower and upper ends; NaN where there is no standard error.
        """
        from scipy.special import ndtri

        check_level(level)
        reach = ndtri(0.5 + level / 2) * self.standard_error
        return np.column_stack([self.estimate - reach, self.estimate + reach])

    def to_frame(self, level: float = 0.95) -> Any:
        """The coefficients as a pandas DataFrame.

        Parameters
        ----------
        level : float, default 0.95
            Posterior probability of the intervals.

        Returns
        -------
        DataFrame
            One row per coefficient: `coefficient`, `estimate`, `standard_error`, `lower` and `upper`.

        Examples
        --------
        >>> import numpy as np
        >>> from knotwise import GPRegressor
        >>> x = np.linspace(10, 20, 24)
        >>> gp = GPRegressor(mean="linear", knots=4, random_state=0).fit(x[:, None], 3 + 0.5 * x + 0.1 * np.cos(9 * x))
        >>> gp.coefficients_.to_frame()["coefficient"].tolist()
        ['intercept', 'column 0']
        """
        low, high = self.interval(level).T
        columns = {"estimate": self.estimate, "standard_error": self.standard_error, "lower": low, "upper": high}
        return make_frame({"coefficient": list(self.names), **columns})

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        """A table with intervals of 95 %."""
        width = max(len(name) for name in (*self.names, "coefficient"))
        lines = [
            f"{'coefficient':<{width}}  {'estimate':>11}  {'std. error':>11}  {'lower 95 %':>11}  {'upper 95 %':>11}"
        ]
        for name, mean, sd, (low, high) in zip(
            self.names, self.estimate, self.standard_error, self.interval(), strict=True
        ):
            numbers = "".join(f"  {value:11.4g}" if np.isfinite(value) else f"  {'':11}" for value in (sd, low, high))
            lines.append(f"{name:<{width}}  {mean:11.4g}{numbers}".rstrip())
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """The table of a notebook, with intervals of 95 %."""
        heads = ("coefficient", "estimate", "std. error", "lower 95 %", "upper 95 %")
        numbers = np.column_stack([self.estimate, self.standard_error, self.interval()]).tolist()
        return html_table(heads, ((name, *row) for name, row in zip(self.names, numbers, strict=True)))


def coefficients_of(state: SparseState | FullState, scaling: Scaling, columns: Sequence[str] = ()) -> Coefficients:
    """The coefficients of a state's mean in the user's units, for columns with these names  (S16).

    A height is y_centre + y_scale (m + phi(0)' eta), a slope y_scale / x_scale times its eta, for the engine's
    coefficients eta: one linear map A, so that the covariance is A Cov(eta) A'.
    """
    mean = state.model.mean
    with np.errstate(all="ignore"):  # a file may have any numbers
        terms = mean.terms(scaling.inputs(np.zeros(len(scaling.x_scale))))
    height = scaling.y_centre + scaling.y_scale * mean.offset
    known = scaling.columns(columns)
    name = (
        known.names.__getitem__ if known.labels else lambda column: known.called([column])
    )  # of encoded columns: each
    names = tuple(term.name if term.column is None else name(term.column) for term in terms)
    offset = np.array([height if term.column is None else 0.0 for term in terms])
    units = [1.0 if term.column is None else scaling.x_scale[term.column] for term in terms]
    with np.errstate(all="ignore"):  # a file may have any numbers
        A = scaling.y_scale * np.array([term.weights / unit for term, unit in zip(terms, units, strict=True)])  # [q, p]
        if not A.size:
            return Coefficients(names, offset, np.full((len(terms), len(terms)), np.nan))
        eta, covariance = _posterior_of_basis(state)
        return Coefficients(names, offset + A @ eta, A @ covariance @ A.T)


def _posterior_of_basis(state: SparseState | FullState) -> tuple[np.ndarray, np.ndarray]:
    """Mean [p] and covariance [p, p] of the coefficients of the basis, whose prior is N(0, I)."""
    if isinstance(state, FullState):
        basis = state.rows.basis
        return basis.T @ state.a, np.eye(basis.shape[1]) - state.precision.explained_jointly(basis.T)
    n_knots = len(state.Z)
    T = state.T[:, n_knots:]
    return state.gamma[n_knots:], T.T @ T  # B^-1 = T'T
