"""What a cross-validation has found: a prediction of each row from the others, and scores."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from knotwise.crossvalidation.folds import Folds
from knotwise.metrics import gaussian_crps
from knotwise.numerics.tabular import make_frame

#: what each score is, in words
WORDS = {
    "rmse": "root mean squared error",
    "mae": "mean absolute error",
    "nlpd": "mean negative log predictive density",
    "crps": "continuous ranked probability score",
    "coverage": "share of rows inside their intervals",
    "width": "mean width of these intervals",
    "log_loss": "mean negative log probability of the labels",
    "brier": "mean squared error of the probabilities",
    "accuracy": "share of labels that are the more probable ones",
    "auc": "how often a row of the second class has the higher probability of two",
}


@dataclass(frozen=True, repr=False)
class CrossValidation:
    """Predictions of rows that were left out, and how good they are; printed, it is a table of scores.

    `knotwise.cross_validate` makes it, and `knotwise.plotting.plot_errors` draws it as a map. All arrays are in the
    order of the rows that were given, and in the units of y.

    Parameters
    ----------
    y, mean, sd : ndarray [N]
        Observations, and mean and standard deviation of their predictions.
    lower, upper : ndarray [N]
        Ends of the central intervals of `level`, of a new observation.
    log_density : ndarray [N]
        Log density of each observation under its own prediction.
    pit : ndarray [N]
        P(Y <= y) under each prediction: uniform for a right model. Counts are spread at random within their step.
    block : ndarray [N]
        The block of each row, by its label; its own number where rows were left out one by one.
    level : float
        Of the intervals.
    setting : str
        What was fitted anew, in words.
    weights : ndarray [N], optional
        Sample weights of the rows in the scores.
    gaussian : bool, default True
        Whether predictions are normal distributions, for which `crps` is known.
    X : array or data frame [N, D], optional
        The inputs as they were given, for maps.
    classes : tuple of two labels, optional
        Of a classifier: `y` is 1 for the second one, and `mean` its probability.
    folds : Folds, optional
        Which rows were left out with which; `cross_validate(other, X, y, blocks=result)` leaves out the same.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise import GPRegressor, cross_validate
    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=60)
    >>> gp = GPRegressor(knots=8, random_state=0).fit(X, y)
    >>> found = cross_validate(gp, X, y, refit=False, knots="held")
    >>> found.n_blocks, bool(0.08 < found.scores["rmse"] < 0.13)
    (60, True)
    >>> bool(np.abs(found.error - (y - found.mean)).max() == 0)
    True
    >>> len(found.to_frame()), len(found.scores_by_block())
    (60, 60)
    """

    y: np.ndarray
    mean: np.ndarray
    sd: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    log_density: np.ndarray
    pit: np.ndarray
    block: np.ndarray
    level: float
    setting: str
    weights: np.ndarray | None = None
    gaussian: bool = True
    X: Any = field(default=None, repr=False)
    classes: tuple[Any, Any] | None = None
    folds: Folds | None = field(default=None, repr=False)

    @property
    def blocks(self) -> np.ndarray:
        """The block of each row, [N], to be handed on to another model: `cross_validate(other, X, y, blocks=...)`."""
        return self.block

    @property
    def error(self) -> np.ndarray:
        """Observation minus predicted mean, [N]."""
        return self.y - self.mean

    @property
    def standardized_error(self) -> np.ndarray:
        """Errors over their standard deviations, [N]."""
        return self.error / self.sd

    @property
    def inside(self) -> np.ndarray:
        """Which observations lie in their intervals, [N] of bool."""
        return (self.lower <= self.y) & (self.y <= self.upper)

    @property
    def right(self) -> np.ndarray:
        """Of two classes: which labels are the more probable ones, [N] of bool."""
        return (self.mean > 0.5) == (self.y == 1)

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return len(np.unique(self.block))

    @property
    def scores(self) -> dict[str, float]:
        """Scores by name: `rmse`, `mae`, `nlpd`, `crps` (Gaussian data), `coverage` and `width` of the intervals.

        Of a classifier: `log_loss`, `brier`, `accuracy`, and `auc`, which is NaN for rows of one class alone. Rows
        count by their weights. `accuracy` and `auc` are better where they are larger, `coverage` where it is near
        `level`, and all others where they are smaller.
        """
        return self._scores(np.ones(len(self.y), bool))

    def scores_by_block(self) -> Any:
        """The scores of each block as a pandas DataFrame.

        Returns
        -------
        DataFrame
            One row for each block: `block`, `n_rows` and one column for each score.
        """
        rows = []
        for label in np.unique(self.block).tolist():
            chosen = self.block == label
            rows.append({"block": label, "n_rows": int(chosen.sum())} | self._scores(chosen))
        return make_frame(rows)

    def to_frame(self) -> Any:
        """The predictions as a pandas DataFrame.

        Returns
        -------
        DataFrame
            One row per row of the data, with its index: `block`, `y`, `mean`, `sd`, `lower`, `upper`, `error`,
            `standardized_error`, `log_density` and `pit`.
        """
        names = ("block", "y", "mean", "sd", "lower", "upper", "error", "standardized_error", "log_density", "pit")
        frame = make_frame({name: getattr(self, name) for name in names})
        return frame.set_index(self.X.index) if hasattr(self.X, "columns") else frame

    def _scores(self, chosen: np.ndarray) -> dict[str, float]:
        weights = None if self.weights is None else self.weights[chosen]
        error, inside = self.error[chosen], self.inside[chosen].astype(float)

        def average(values: np.ndarray) -> float:
            return float(np.average(values, weights=weights))

        if self.classes is not None:
            return {
                "log_loss": -average(self.log_density[chosen]),
                "brier": average(error**2),
                "accuracy": average(self.right[chosen].astype(float)),
                "auc": _ranked_right(self.y[chosen], self.mean[chosen], weights),
            }
        scores = {
            "rmse": float(np.sqrt(average(error**2))),
            "mae": average(np.abs(error)),
            "nlpd": -average(self.log_density[chosen]),
        }
        if self.gaussian:
            scores["crps"] = average(gaussian_crps(self.y[chosen], self.mean[chosen], self.sd[chosen] ** 2))
        width = (self.upper - self.lower)[chosen]
        return scores | {"coverage": average(inside), "width": average(width)}

    def __repr__(self) -> str:
        rows = f"{len(self.y):,} rows"
        how = "left out one by one" if self.n_blocks == len(self.y) else f"in {self.n_blocks} blocks"
        if self.folds is not None and self.folds.made_of:
            how += f" of {self.folds.made_of}"
        what = "" if self.classes is None else f"; the probability of {self.classes[1]!r}"
        lines = [f"Cross-validation of {rows}, {how}; {self.setting}{what}"]
        for name, value in self.scores.items():
            words = WORDS[name].replace("their intervals", f"their {self.level:.0%} intervals")
            lines.append(f"{name:<10}{value:>10.4g}  {words}")
        return "\n".join(lines)


def _ranked_right(y: np.ndarray, probability: np.ndarray, weights: np.ndarray | None) -> float:
    """The area under the ROC curve; NaN where one class alone is there."""
    from sklearn.metrics import roc_auc_score

    if np.ptp(y) == 0:
        return float("nan")
    return float(roc_auc_score(y, probability, sample_weight=weights))
