"""Prior means: zero, a constant or a linear trend; what is not known of them is integrated out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from knotwise.errors import InvalidInputError, unknown_option
from knotwise.numerics.columns import InputColumns, as_list_of_columns, column_indices
from knotwise.numerics.parameters import Parameter
from knotwise.numerics.part import Part, short_repr
from knotwise.numerics.weighted import mean_and_variance

__all__ = ["Constant", "Linear", "Mean", "Zero", "mean_from"]

AUTO = "auto"
#: prior standard deviations that say little: of a level and of slopes, in root mean squares of the targets
VAGUE = 10.0
#: of a level on a link's scale, where 10 would let the log rate of no events at all drift to -12
VAGUE_ON_LINK = 3.0


@dataclass(frozen=True)
class Term:
    """What a coefficient of a mean is: a sum of those of the basis, and its name.

    Parameters
    ----------
    name : str
        What it is called in `coefficients_`.
    weights : array [p]
        How much of each of the coefficients of the basis it has.
    column : int, optional
        The column of which it is the slope; None for a height.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise.means import Linear
    >>> X = np.arange(6.0).reshape(3, 2)
    >>> [(term.name, term.column) for term in Linear().bind(X, 1.0).terms(np.zeros(2))]
    [('intercept', None), ('slope', 0), ('slope', 1)]
    """

    name: str
    weights: np.ndarray
    column: int | None = None


class Mean(Part):
    """The prior mean of the latent function: an offset, and basis rows with random coefficients.

    `basis(X)` is Phi S^(1/2), [N, p], for coefficients with prior covariance S. Its rows join those of V (S16),
    so that the coefficients' uncertainty is part of every prediction. A mean of one's own gives `bind` and `basis`, and
    `terms` and `in_units` where its coefficients are to be shown.

    Examples
    --------
    What a fit does with a mean, here a linear one:

    >>> import numpy as np
    >>> from knotwise.means import Linear
    >>> X = np.arange(4.0)[:, None]
    >>> mean = Linear(prior_sd=2.0).on_columns(["depth"], n_columns=1).bind(X, second_moment=1.0, level=5.0)
    >>> mean.offset, mean.basis(X).shape
    (5.0, (4, 2))
    >>> [term.name for term in mean.terms(np.zeros(1))]
    ['intercept', 'slope']
    >>> mean.in_units(10.0, 2.0, np.zeros(1), np.ones(1)).offset
    20.0
    >>> mean.validate()  # raises where a value cannot be
    """

    offset: float = 0.0

    def on_columns(self, names: Sequence[str] | None, n_columns: int) -> Mean:
        """Return the mean for data with these columns; those that it names become numbers.

        Parameters
        ----------
        names : list of str or None
            Names of the columns of the inputs, if they have some.
        n_columns : int
            How many columns the inputs have.

        Returns
        -------
        Mean
            A new one, or itself where it names no column.
        """
        return self

    def bind(
        self,
        X: np.ndarray,
        second_moment: float,
        level: float = 0.0,
        weights: np.ndarray | None = None,
        on_link: bool = False,
    ) -> Mean:
        """Return the mean for these inputs, a latent function near a level, and targets with this mean square.

        Parameters
        ----------
        X : array [N, D]
            Inputs, as the kernel sees them.
        second_moment : float
            Mean square of the targets about their level.
        level : float, default 0.0
            Overall level of the latent function.
        weights : array [N], optional
            Sample weights of the rows.
        on_link : bool, default False
            Whether the latent function is on the scale of a link, where a difference of 1 is much.

        Returns
        -------
        Mean
            One that knows its prior standard deviations.
        """
        return self

    def basis(self, X: np.ndarray) -> np.ndarray:
        """The basis at the rows of X, times the prior standard deviations of its coefficients.

        Parameters
        ----------
        X : array [N, D]
            Inputs, as the kernel sees them.

        Returns
        -------
        array [N, p]
            Phi S^(1/2); no column where nothing is integrated out.
        """
        return np.empty((len(X), 0))

    def terms(self, origin: np.ndarray) -> list[Term]:
        """The coefficients that users ask for, with heights at one row.

        Parameters
        ----------
        origin : array [D]
            The row at which the intercept is read.

        Returns
        -------
        list of Term
            Each has a `name`, `weights` [p] of the basis, and for a slope its `column`.
        """
        return [Term("intercept", self.basis(origin[None])[0])]

    def in_units(self, y_centre: float, y_scale: float, x_centre: np.ndarray, x_scale: np.ndarray) -> Mean:
        """What was learned from data, in other units; parameters stay as they are.

        Parameters
        ----------
        y_centre : float
            What is 0 here, in those units of y.
        y_scale : float
            What is 1 here, in those units of y.
        x_centre : array [D]
            What is 0 in each column here, in those units.
        x_scale : array [D]
            What is 1 in each column here, in those units.

        Returns
        -------
        Mean
            A new one, or itself where it has learned nothing.
        """
        return self


class Zero(Mean):
    """Prior mean 0: of standardised targets, whose 0 is the mean of y.

    `mean="zero"` of an estimator is another thing: 0 in the units of y. A fitted `mean_` keeps the mean of y
    of its fit.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise.means import Zero
    >>> Zero().basis(np.zeros((3, 1))).shape, Zero().offset
    ((3, 0), 0.0)
    """

    def bind(self, X, second_moment, level=0.0, weights=None, on_link=False):
        if "offset" in vars(self):  # that of another fit
            return self
        new = Zero()
        new.offset = 0.0
        return new

    def in_units(self, y_centre, y_scale, x_centre, x_scale):
        if "offset" not in vars(self):  # has not seen data
            return self
        new = Zero()
        new.offset = y_centre + y_scale * self.offset
        return new


class Constant(Mean):
    """A constant prior mean: one intercept, which is learned with its uncertainty.

    A fitted `mean_` has the prior of its fit, and keeps it in another.

    Parameters
    ----------
    mean : float, optional
        The mean is held exactly there, in the units of y (of f, for data with a link). None takes it from the data.
    prior_sd : "auto", float or None, default "auto"
        Standard deviation of the intercept's Gaussian prior about that of the data. The intercept is integrated
        out, so that its uncertainty is part of every prediction. A number counts in standard deviations of y; for data
        with a link (counts, classes, ...) it is on the scale of f, a log rate for example. "auto" says little: 10, or
        3 with a link. None is a point estimate instead, learned with the other parameters under the name `mean`:
        predictions then take it for known exactly.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise import GPRegressor
    >>> from knotwise.means import Constant
    >>> X, y = np.arange(6.0)[:, None], np.array([3.0, 2.0, 4.0, 3.0, 4.0, 2.0])
    >>> GPRegressor(mean=Constant()).fit(X, y).parameters_.names  # the default, mean="constant"
    ('variance', 'lengthscale', 'noise_variance')
    >>> GPRegressor(mean=Constant(prior_sd=None)).fit(X, y).parameters_.names
    ('variance', 'lengthscale', 'noise_variance', 'mean')
    """

    level = 0.0
    level_sd = 0.0  # before it has seen data: no column of a basis

    def __init__(self, mean: float | None = None, prior_sd: float | str | None = AUTO) -> None:
        self.mean = mean
        self.prior_sd = prior_sd
        self.validate()

    @property
    def integrated(self) -> bool:
        """Whether the level is integrated out: neither held nor a parameter."""
        return self.mean is None and self.prior_sd is not None

    @property
    def parameters(self) -> tuple[Parameter, ...]:  # type: ignore[override]
        """The level, where it is held or learned as a point estimate; none where it is integrated out."""
        if self.integrated:
            return ()
        return (Parameter("mean", transform="identity", role="mean", units="y"),)

    @property
    def offset(self) -> float:  # type: ignore[override]
        """What is added to the latent function: the level about which the prior is."""
        if self.integrated:
            return self.level
        return 0.0 if self.mean is None else self.mean

    def bind(self, X, second_moment, level=0.0, weights=None, on_link=False):
        if self.mean is not None or "level" in vars(self):  # held, or with the prior of another fit
            return self
        if self.prior_sd is None:
            return Constant(level, None)
        new = Constant(None, self.prior_sd)
        new.level = level
        new.level_sd = _prior_sds(self.prior_sd, second_moment, on_link)[0]
        return new

    def basis(self, X):
        return np.full((len(X), int(self.integrated and self.level_sd > 0)), self.level_sd)

    def in_units(self, y_centre, y_scale, x_centre, x_scale):
        if not self.integrated or "level" not in vars(self):  # has not seen data
            return self
        new = copy(self)
        new.level, new.level_sd = y_centre + y_scale * self.level, y_scale * self.level_sd
        return new

    def validate(self) -> None:
        super().validate()
        if self.prior_sd is not None:
            _check_prior_sd(self, "'auto', None or ")
        if self.mean is not None and self.prior_sd not in (None, AUTO):
            raise InvalidInputError(
                f"Constant got `mean`={self.mean!r}, which is held exactly, and `prior_sd`={self.prior_sd!r}. "
                "Give one of them."
            )

    def __repr__(self) -> str:
        held = [] if self.mean is None else [f"mean={short_repr(self.mean)}"]
        prior = [] if self.prior_sd == AUTO else [f"prior_sd={short_repr(self.prior_sd)}"]
        return f"Constant({', '.join(held + prior)})"


class Linear(Mean):
    """A linear trend whose intercept and slopes have Gaussian priors and are integrated out.

    A fitted `mean_` has the priors of its fit, and keeps them in another.

    Parameters
    ----------
    prior_sd : "auto" or float, default "auto"
        Prior standard deviation of every slope and of the intercept's distance from the overall level of the data, for
        columns that are centred and scaled to unit variance first. A number counts in standard deviations of y; for
        data with a link it is on the scale of f. "auto" says little: 10, but 3 for the intercept with a link.
    columns : list of names or numbers, optional
        The columns of the inputs that have a slope; all by default, or all that are numbers or dates where some are
        not. Of a category that is named, each level has an effect; the circle of a period is named as in
        `parameters_`, "when (year)".

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise import GPRegressor
    >>> from knotwise.means import Linear
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> y = 5 + 2 * X[:, 0] + np.sin(3 * X[:, 1])
    >>> gp = GPRegressor(mean=Linear(columns=[0]), knots=20, random_state=0).fit(X, y)
    >>> gp.coefficients_.names
    ('intercept', 'column 0')
    >>> bool(abs(gp.coefficients_.estimate[1] - 2) < 0.1)
    True
    """

    def __init__(self, prior_sd: float | str = AUTO, columns: Sequence[int | str] | int | str | None = None) -> None:
        self.prior_sd = prior_sd
        self.columns = columns
        self.centre = np.zeros(0)
        self.scale = np.zeros(0)
        self.intercept_sd = 0.0
        self.validate()

    def on_columns(self, names, n_columns):
        if len(self.scale):  # that of another fit, with numbers of the engine's columns
            known: Any = range(n_columns) if self.columns is None else self.columns
            fits = len(self.scale) == len(known) and max(known) < n_columns
            if not fits or (self.columns is not None and isinstance(names, InputColumns)):
                raise InvalidInputError(
                    "The linear mean is that of a fit to other columns. Make it anew: `mean='linear'`, or "
                    "knotwise.means.Linear(columns=[...]) by names of columns."
                )
            return self
        if self.columns is None and isinstance(names, InputColumns):
            numbers = [i for i, column in enumerate(names.columns) if column.kind == "number"]
            if not numbers:
                raise InvalidInputError(
                    "A linear mean has slopes of columns of numbers, and there is none. Use `mean='constant'`; the "
                    "effects of levels can be named: knotwise.means.Linear(columns=[...])."
                )
            return Linear(self.prior_sd, numbers)
        if self.columns is None:
            return self
        if not as_list_of_columns(self.columns):
            raise InvalidInputError(
                "`columns` of the linear mean is empty; name at least one column, or use `mean='constant'`."
            )
        indices = column_indices(self.columns, names, n_columns, owner="the linear mean")
        if len(set(indices)) < len(indices):
            raise InvalidInputError(f"`columns` of the linear mean, {self.columns!r}, has a column more than once.")
        return Linear(self.prior_sd, indices)

    def bind(self, X, second_moment, level=0.0, weights=None, on_link=False):
        if len(self.scale):  # with the priors of another fit
            return self
        new = Linear(self.prior_sd, self.columns)
        new.offset = level
        new.centre, variance = mean_and_variance(new._of_trend(X), weights)
        new.intercept_sd, slope_sd = _prior_sds(self.prior_sd, second_moment, on_link)
        spread = np.sqrt(variance)
        new.scale = slope_sd / np.where(spread > 0, spread, 1.0)
        return new

    def basis(self, X):
        return np.column_stack([np.full(len(X), self.intercept_sd), (self._of_trend(X) - self.centre) * self.scale])

    def terms(self, origin):
        columns: Any = range(len(self.scale)) if self.columns is None else self.columns
        slopes = np.column_stack([np.zeros(len(self.scale)), np.diag(self.scale)])
        trend = [Term("slope", row, column) for row, column in zip(slopes, columns, strict=True)]
        return [Term("intercept", self.basis(origin[None])[0]), *trend]

    def in_units(self, y_centre, y_scale, x_centre, x_scale):
        if not len(self.scale):  # has not seen data
            return self
        own = x_scale if self.columns is None else x_scale[self.columns]
        new = copy(self)
        new.offset, new.intercept_sd = y_centre + y_scale * self.offset, y_scale * self.intercept_sd
        new.centre = (x_centre if self.columns is None else x_centre[self.columns]) + own * self.centre
        new.scale = y_scale * self.scale / own
        return new

    def _of_trend(self, X: np.ndarray) -> np.ndarray:
        columns: Any = self.columns  # numbers, when data are seen
        return X if columns is None else X[:, columns]

    def validate(self) -> None:
        """Check the values given: a positive prior sd."""
        _check_prior_sd(self, "'auto' or ")

    def __repr__(self) -> str:
        prior = [] if self.prior_sd == AUTO else [f"prior_sd={short_repr(self.prior_sd)}"]
        columns = [] if self.columns is None else [f"columns={self.columns!r}"]
        return f"Linear({', '.join(prior + columns)})"


def mean_from(given: str | float | Mean) -> Mean:
    """Turn the `mean` option of an estimator into a Mean.

    Parameters
    ----------
    given : "constant", "zero", "linear", a number or Mean
        What a user wrote.

    Returns
    -------
    Mean
        A number is a `Constant` that is held.

    Examples
    --------
    >>> from knotwise.means import mean_from
    >>> mean_from("linear"), mean_from(2.5)
    (Linear(), Constant(mean=2.5))
    """
    # 0 in the user's units, so a number that is held: the engine's 0 is the mean of y
    names: dict[str, Callable[[], Mean]] = {"zero": lambda: Constant(0.0), "constant": Constant, "linear": Linear}
    if isinstance(given, Mean):
        return given
    if isinstance(given, str):
        if given not in names:
            raise unknown_option("`mean`", given, names)
        return names[given]()
    try:
        return Constant(float(given))
    except (TypeError, ValueError):
        raise InvalidInputError(f"`mean` is {given!r}; it must be 'zero', 'constant', 'linear' or a number.") from None


def _prior_sds(prior_sd: Any, second_moment: float, on_link: bool) -> tuple[float, float]:
    """Prior standard deviations of a level and of the slopes of columns with unit variance."""
    unit = float(np.sqrt(second_moment))
    if prior_sd == AUTO:
        return (VAGUE_ON_LINK if on_link else VAGUE) * unit, VAGUE * unit
    return (prior_sd, prior_sd) if on_link else (prior_sd * unit, prior_sd * unit)


def _check_prior_sd(mean: Constant | Linear, words: str) -> None:
    given = mean.prior_sd
    number = isinstance(given, int | float | np.number) and not isinstance(given, bool)
    if (isinstance(given, str) and given == AUTO) or (number and 0 < float(given) < np.inf):  # type: ignore[arg-type]
        return
    raise InvalidInputError(f"`prior_sd` of {type(mean).__name__} is {given!r}; it must be {words}a positive number.")
