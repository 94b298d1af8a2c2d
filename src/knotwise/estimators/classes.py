"""What a classifier gives: what is known of new labels, and tables with one entry for each class."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import ndtr

from knotwise.errors import InvalidInputError
from knotwise.numerics.blocks import block_slices
from knotwise.numerics.tabular import html_lines, make_frame
from knotwise.prediction import Prediction

ROWS_AT_ONCE = 64  # so that the samples of some rows, not of all, are in memory


@dataclass(frozen=True)
class LabelPrediction:
    """Predictions of 0 and 1 by the models of a classifier: one for two classes (of the second), else one for each."""

    each: tuple[Prediction, ...]
    classes: list[Any]

    def __len__(self) -> int:
        return len(self.each[0])

    @cached_property
    def proba(self) -> np.ndarray:
        """Probability of each class, [n, classes]; those of several models are scaled to sum to one."""
        each = self.each
        if len(each) == 1:  # by symmetry, each class by itself: 1 - p has no digits where p is almost 1
            (part,) = each[0].components
            each = (replace(each[0], components=(replace(part, mean=-part.mean),)), *each)
        p = np.column_stack([prediction.mean for prediction in each])
        return p if len(self.each) == 1 else p / p.sum(1, keepdims=True)

    @cached_property
    def log_proba(self) -> np.ndarray:
        """Log probability of each class, [n, classes], also where the probability itself is 0 or 1 to all digits."""
        if len(self.each) > 1:
            log_p = np.column_stack([self._log_density(prediction, 1.0) for prediction in self.each])
            return log_p - np.logaddexp.reduce(log_p, axis=1, keepdims=True)
        log_p = np.column_stack([self._log_density(self.each[0], label) for label in (0.0, 1.0)])
        # of a label that is nearly certain an integral has the digits of 1, and so none of log p
        return np.where(log_p > np.log(0.5), np.log1p(-np.exp(np.minimum(log_p[:, ::-1], np.log(0.5)))), log_p)

    @property
    def log_odds(self) -> np.ndarray:
        """Log odds of the second of two classes, [n], or of each class against the rest, [n, classes]."""
        odds = [self._log_density(each, 1.0) - self._log_density(each, 0.0) for each in self.each]
        return odds[0] if len(odds) == 1 else np.column_stack(odds)

    def log_density(self, y: np.ndarray) -> np.ndarray:
        """Log probability of each label under its own prediction, [n]."""
        if y.shape != (len(self),):
            raise InvalidInputError(f"y must be {len(self)} labels, one for each row, but has shape {y.shape}.")
        code_of = {label: code for code, label in enumerate(self.classes)}
        codes = np.array([code_of.get(label, -1) for label in y.tolist()], int)
        wrong = np.flatnonzero(codes < 0)
        if len(wrong):
            raise InvalidInputError(
                f"y must be {len(self)} labels from {self.classes}, but is {y.tolist()[wrong[0]]!r} in row {wrong[0]}.",
                rows=wrong,
            )
        return self.log_proba[np.arange(len(y)), codes]

    def exceedance(self, threshold: float, label: Any, n_samples: int, rng: np.random.Generator) -> np.ndarray:
        """Probability that that of a class exceeds a threshold, [n]; of several classes, without label, of each."""
        if len(self.each) == 1:
            if label is None or label == self.classes[1]:
                return self.each[0].exceedance(threshold)
            return 1.0 - self.each[0].exceedance(1.0 - threshold)
        found = self._exceedance_of_shares(threshold, rng.standard_normal((n_samples, len(self.classes))))
        return found if label is None else found[:, self.classes.index(label)]

    def _exceedance_of_shares(self, threshold: float, z: np.ndarray) -> np.ndarray:
        """P(s_k / sum_j s_j > threshold) with s_j = E(y | f_j), for independent f_j ~ N(mean, variance), [n, classes].

        The f of the other classes are sampled at the standard normal numbers `z` [samples, classes], the same at every
        row, so that a row's value does not depend on the others. Given these, the probability of class k has a closed
        form: s_k > odds * (sum of the others), and s_k rises with f_k.
        """
        odds, likelihood = threshold / (1.0 - threshold), self.each[0].components[0].likelihood
        mean = np.column_stack([each.latent.mean for each in self.each])  # [n, classes]
        sd = np.column_stack([each.latent.std for each in self.each])
        found = np.empty_like(mean)
        for rows in block_slices(len(mean), ROWS_AT_ONCE):
            s = likelihood.conditional_mean(mean[rows] + sd[rows] * z[:, None, :])  # [samples, rows, classes]
            for k in range(len(self.each)):
                needed = odds * np.delete(s, k, axis=-1).sum(-1)  # a difference of sums would have lost small shares
                least = likelihood.latent_of_mean(needed)  # infinite where s_k cannot reach it
                found[rows, k] = ndtr((mean[rows, k] - least) / sd[rows, k]).mean(0)
        return found

    def _log_density(self, prediction: Prediction, label: float) -> np.ndarray:
        return prediction.log_density(np.full(len(self), label))


class ByClass(list):
    """A list with one table for each class of a classifier, which shows each with its class and makes one data frame.

    It is what `parameters_`, `trace_`, `coefficients_` and `diagnose()` of a `GPClassifier` of three or more classes
    give.

    Parameters
    ----------
    tables : iterable
        Objects that show themselves as HTML and have `to_frame()`.
    labels : sequence
        The class of each.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise import GPClassifier
    >>> X = np.linspace(0, 1, 30)[:, None]
    >>> gp = GPClassifier(knots=3, optimizer=None).fit(X, np.repeat(["a", "b", "c"], 10))
    >>> len(gp.parameters_), gp.parameters_.labels
    (3, ['a', 'b', 'c'])
    >>> gp.parameters_.to_frame()[["class", "parameter"]].head(3).values.tolist()
    [['a', 'variance'], ['a', 'lengthscale'], ['b', 'variance']]
    """

    def __init__(self, tables: Iterable[Any], labels: Sequence[Any]) -> None:
        super().__init__(tables)
        self.labels = list(labels)

    def __repr__(self) -> str:
        return "\n\n".join(f"class {label!r}\n{table!r}" for label, table in zip(self.labels, self, strict=True))

    def _repr_html_(self) -> str:
        parts = zip(self.labels, self, strict=True)
        return "".join(html_lines(f"class {label!r}") + table._repr_html_() for label, table in parts)

    def to_frame(self) -> Any:
        """One data frame of all tables, with the class of each row in its first column; needs pandas.

        Returns
        -------
        DataFrame
            The rows of the tables, one after the other.
        """
        frames = [(label, table.to_frame()) for label, table in zip(self.labels, self, strict=True)]
        rows = [{"class": label} | row for label, frame in frames for row in frame.to_dict("records")]
        return make_frame(rows, ["class", *frames[0][1].columns])
