"""What each column does to the response: partial dependences with their intervals, as numbers."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from knotwise.data.encoding.kinds import OTHER_LEVEL
from knotwise.data.validation import check_coded, check_level
from knotwise.errors import FitWarning, InvalidInputError, unknown_option
from knotwise.estimators.averaging import latent_models
from knotwise.estimators.tested import without_extrapolation_warning
from knotwise.numerics.columns import column_index, column_names
from knotwise.numerics.tabular import html_table, make_frame

N_ROWS, N_POINTS = 60, 25  # rows that are averaged over, and places along a column
FEW_VALUES = 8  # different values of a column up to which each is shown by itself
MOST_LEVELS = 12  # of a category: the most frequent are shown
TAILS, ENOUGH_ROWS = 0.01, 200  # of a column beyond which it is not followed, where there are rows to tell
N_SAMPLES = 1000  # where the band has no closed form


@dataclass(frozen=True)
class Effect:
    """The effect of one column: the mean response, averaged over rows, at values of the column.

    Parameters
    ----------
    name : str
        Of the column.
    column : int
        Its number, from 0.
    values : ndarray [g]
        Where the effect is known, as numbers: of dates days since the first one of the fit, of a category the numbers
        of its levels.
    grid : tuple of g values
        The same as the table has them: numbers, dates, or the names of levels.
    mean : ndarray [g], or [g, classes] for more than two classes
        The average response: of counts per unit of exposure or per trial, of two classes the probability of the second.
    lower, upper : ndarray [g] or None
        Ends of the interval of that average; None for more than two classes.
    importance : float
        Standard deviation of the mean over the rows, in the units of the response.
    levels : tuple of str, default ()
        Of a category, the names of the values.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise import GPRegressor
    >>> X = np.random.default_rng(0).uniform(size=(60, 2))
    >>> gp = GPRegressor(knots=8, random_state=0).fit(X, 3 * X[:, 0] + 0.01 * X[:, 1])
    >>> effect = gp.effects(X)[0]
    >>> effect.name, bool(2.5 < effect.mean[-1] - effect.mean[0] < 3.5)
    ('column 0', True)
    >>> bool((effect.lower <= effect.mean).all() and (effect.mean <= effect.upper).all())
    True
    """

    name: str
    column: int
    values: np.ndarray
    grid: tuple[Any, ...]
    mean: np.ndarray
    lower: np.ndarray | None
    upper: np.ndarray | None
    importance: float
    levels: tuple[str, ...] = ()

    @property
    def is_stepwise(self) -> bool:
        """Whether the column has few values, each of which is shown by itself."""
        return bool(self.levels) or len(self.values) <= FEW_VALUES


@dataclass(frozen=True, repr=False)
class Effects(Sequence[Effect]):
    """The effects of columns, the most important first, by number or by name; printed, a table of importance.

    `gp.effects(X)` makes it, and `knotwise.plotting.plot_effects` draws it.

    Parameters
    ----------
    each : tuple of Effect
        The effects.
    level : float
        Probability of the intervals.
    classes : tuple of labels, optional
        Of a classifier.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise import GPRegressor
    >>> X = np.random.default_rng(0).uniform(size=(60, 2))
    >>> gp = GPRegressor(knots=8, random_state=0).fit(X, 3 * X[:, 1] + 0.01 * X[:, 0])
    >>> effects = gp.effects(X)
    >>> list(effects.importance), len(effects["column 1"].values)
    (['column 1', 'column 0'], 25)
    >>> list(effects.to_frame().columns)
    ['column', 'value', 'mean', 'lower', 'upper']
    """

    each: tuple[Effect, ...]
    level: float
    classes: tuple[Any, ...] | None = None

    def __len__(self) -> int:
        return len(self.each)

    def __getitem__(self, index: Any) -> Any:
        """One by its number in the order of importance, or by the name of its column."""
        if not isinstance(index, str):
            return self.each[index]
        names = [effect.name for effect in self.each]
        if index not in names:
            raise unknown_option("The column of an effect", index, names)
        return self.each[names.index(index)]

    @property
    def importance(self) -> dict[str, float]:
        """Standard deviation of each effect over the rows, in the units of the response, the largest first."""
        return {effect.name: effect.importance for effect in self.each}

    def to_frame(self) -> Any:
        """The effects as a pandas DataFrame.

        Returns
        -------
        DataFrame
            One row for each value of a column: `column`, `value`, `mean`, `lower` and `upper`; of more than two classes
            one row for each class too, with `class` and without an interval.
        """
        rows = []
        for effect in self.each:
            for i, value in enumerate(effect.grid):
                place = {"column": effect.name, "value": value}
                if effect.lower is None or effect.upper is None:
                    labels = self.classes or ()
                    rows += [place | {"class": c, "mean": p} for c, p in zip(labels, effect.mean[i], strict=True)]
                else:
                    rows.append(place | {"mean": effect.mean[i], "lower": effect.lower[i], "upper": effect.upper[i]})
        return make_frame(rows)

    def __repr__(self) -> str:
        width = max(len(name) for name in self.importance)
        lines = [f"Effects of {len(self)} column{'s' if len(self) > 1 else ''}: importance, and range of the mean"]
        for effect in self.each:
            low, high = float(effect.mean.min()), float(effect.mean.max())
            lines.append(f"{effect.name:<{width}}  {effect.importance:>10.4g}  {low:.4g} to {high:.4g}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = [(e.name, e.importance, float(e.mean.min()), float(e.mean.max())) for e in self.each]
        return html_table(["column", "importance", "least mean", "greatest mean"], rows)


class EffectsMixin:
    """Gives an estimator `effects`."""

    def effects(self, X: Any, features: Sequence[int | str] | None = None, *, level: float = 0.95) -> Effects:
        """What each column does to the mean response: curves with intervals, and how important each is.

        The effects are partial dependences: at each value of a column, the predicted mean is averaged over rows of X
        (up to 60, evenly spaced), which keep their other columns. Intervals are those of this average, in which
        predictions are joint. `knotwise.plotting.plot_effects` draws them.

        Parameters
        ----------
        X : array or data frame [n, D]
            Rows over which predictions are averaged, and whose range is followed: those of the fit, for example.
        features : sequence of int or str, optional
            The columns, by number or name; all by default.
        level : float, default 0.95
            Probability of the intervals.

        Returns
        -------
        Effects
            One `Effect` for each column, the most important first, each with `grid`, `mean`, `lower`, `upper` and
            `importance`; `importance` by column, and `to_frame()`.

        Examples
        --------
        >>> import numpy as np
        >>> from knotwise import GPRegressor
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(size=(80, 3))
        >>> gp = GPRegressor(knots=12, random_state=0).fit(X, X[:, 0] + 5 * X[:, 2] ** 2 + 0.1 * rng.normal(size=80))
        >>> effects = gp.effects(X)
        >>> [effect.name for effect in effects]
        ['column 2', 'column 0', 'column 1']
        >>> effects.importance["column 2"] > effects.importance["column 0"]
        True
        """
        check_is_fitted(self)
        check_level(level)
        names = column_names(self, X)
        columns = chosen_columns(names, features)
        labels = getattr(self, "classes_", None)
        found = effects_of(self, checked_rows(self, X), names, columns, level=level)
        return Effects(tuple(found), level, None if labels is None else tuple(labels.tolist()))


def effects_of(
    gp: Any, rows: np.ndarray, names: Sequence[str], columns: Sequence[int], *, level: float
) -> list[Effect]:
    """The effect of each column, the most important first; `rows` are coded, as `checked_rows` gives them.

    For each value of a column, all other columns are those of up to 60 rows, evenly spaced in the data; the average of
    the 60 predictions and its interval are joint, as in `predict_total`, and what that leaves out of the variance is
    added by its estimated share.
    """
    some = rows[np.unique(np.linspace(0, len(rows) - 1, N_ROWS).round().astype(int))]
    effects = [_effect(gp, rows[:, column], some, names[column], column, level) for column in columns]
    return sorted(effects, key=lambda effect: -effect.importance)


def _effect(gp: Any, data: np.ndarray, some: np.ndarray, name: str, column: int, level: float) -> Effect:
    levels = levels_of(gp._encoding, column)
    values = _most_frequent(data) if levels else _values(data)
    points = np.tile(some, (len(values), 1))
    points[:, column] = np.repeat(values, len(some))
    grid = tuple(values.tolist())
    if gp._encoding is not None:
        grid = tuple(gp._encoding.decode(points[:: len(some)])[:, column].tolist())
        points = gp._encoding.expand(points)
    mean, lower, upper = _averages(gp, points, len(values), level)
    at = data[np.isin(data, values)] if levels else data[np.isfinite(data)]
    seen = [np.interp(at, values, each) for each in np.atleast_2d(mean.T)]
    importance = float(np.sqrt(np.mean(np.var(seen, axis=1)))) if len(at) else 0.0
    called = tuple(levels[int(value)] for value in values if levels)
    return Effect(name, column, values, called or grid, mean, lower, upper, importance, called)


def _averages(gp: Any, points: np.ndarray, n_values: int, level: float) -> tuple[Any, Any, Any]:
    """The average response over each of so many equal groups of points, and the ends of its interval."""
    models = latent_models(gp)
    with _without_names():
        if len(models) > 1:
            return gp.predict_proba(points).reshape(n_values, len(points) // n_values, -1).mean(1), None, None
        groups = np.repeat(np.arange(n_values), len(points) // n_values)
        options = {"statistic": "mean", "kind": "mean", "level": level, "n_samples": N_SAMPLES, "random_state": 0}
        average = models[0].predict_total(points, groups=groups, **options)
    mean, wider = average.estimate, 1.0 / np.sqrt(1.0 - np.minimum(average.left_out, 0.9))
    ends = (mean + wider * (end - mean) for end in (average.lower, average.upper))
    lower, upper = (np.clip(end, *models[0].likelihood_.support()) for end in ends)
    return mean, lower, upper


@contextmanager
def _without_names() -> Iterator[None]:
    """Predict rows that we made: without warnings of their names and places, and of a share that is added here."""
    with warnings.catch_warnings(), without_extrapolation_warning():
        warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
        warnings.simplefilter("ignore", FitWarning)
        yield


def checked_rows(gp: Any, X: Any) -> np.ndarray:
    """The rows of X as an array [n, D], checked as the estimator does; of levels their numbers, of dates days."""
    if hasattr(X, "columns") and not hasattr(gp, "feature_names_in_"):
        X = np.asarray(X)  # the names serve as labels only
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
        return check_coded(gp, X)


def levels_of(encoding: Any, column: int) -> tuple[str, ...]:
    """The levels of a category by their numbers, and last what stands for all others; empty for a column of numbers."""
    levels = () if encoding is None else getattr(encoding.kind_of(column), "levels", ())
    return (*levels, OTHER_LEVEL) if levels else ()


def chosen_columns(names: Sequence[str], features: Sequence[int | str] | None) -> list[int]:
    """The numbers of columns that are given by number or name; all of them for None."""
    if features is None:
        return list(range(len(names)))
    if isinstance(features, str) or not len(features):
        raise InvalidInputError(f"`features` is {features!r}; it must be a list of columns, such as [0, 1].")
    columns = [column_index(feature, names, "A column of `features`") for feature in features]
    twice = next((column for column in columns if columns.count(column) > 1), None)
    if twice is not None:
        raise InvalidInputError(f"`features` names the column {names[twice]!r} twice.")
    return columns


def _most_frequent(data: np.ndarray) -> np.ndarray:
    """The numbers of the levels that most rows have, in their order."""
    codes, counts = np.unique(data, return_counts=True)
    return np.sort(codes[np.argsort(-counts, kind="stable")[:MOST_LEVELS]])


def _values(data: np.ndarray) -> np.ndarray:
    """Where to look: at each of few values, else evenly along the column, without its extreme hundredths."""
    known = data[np.isfinite(data)]  # an input may be missing
    different = np.unique(known) if len(known) else data[:1]  # where all are missing, what stands for them
    if len(different) <= FEW_VALUES:
        return different
    tail = TAILS if len(known) >= ENOUGH_ROWS else 0.0
    low, high = np.quantile(known, [tail, 1 - tail])
    return np.linspace(low, high, N_POINTS) if low < high else different[[0, -1]]
